/* SPDX-License-Identifier: MIT */
/* runtime_env: where the program runs: distribution, virtual machine, container, control
 * group, Kubernetes pod, Slurm job.
 *
 * The control group matters most: in a pod the kernel shows all CPUs of the machine
 * while the quota grants a few, and threads sized by the former trample each other.
 * A limit may stand at any level above us, so we walk from our group up to the
 * mount and keep the tightest.  With a group namespace the mount is our own group
 * and the walk has one step. */
#include "hw/hw_int.h"

#include "base/str.h"

#include <assert.h>

enum {
    CGROUP_TEXT_MAX = 8192, /* bytes of /proc/self/cgroup */
    CGROUP_DEPTH_MAX = 64,  /* levels walked up */
    OS_RELEASE_MAX = 4096,  /* bytes of os-release */
    QUOTA_US_MAX = 1 << 30, /* a quota or period longer than this is absurd */
    CPU_QUOTA_MILLI_MIN = 1 /* a quota of nothing would be none */
};
/* cgroup v1 writes "no limit" as the largest multiple of a page */
static const int64_t mem_limit_none = (int64_t)1 << 60;

/* ---- distribution and machine ---- */
static const char *os_name(struct hw_build *b)
{
    static const char *const files[] = { "/etc/os-release", "/usr/lib/os-release" };
    char text[OS_RELEASE_MAX], *p, *end;

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        if (root_read(b->root, files[i], text, sizeof(text)) <= 0)
            continue;
        str_make_text(text);
        p = str_starts(text, "PRETTY_NAME=") ? text : strstr(text, "\nPRETTY_NAME=");
        if (!p)
            continue;
        p = strchr(p, '=') + 1;
        p += *p == '"' || *p == '\'';
        end = p + strcspn(p, "\"'\n");
        return end > p ? arena_strndup(b->a, p, (size_t)(end - p)) : NULL;
    }
    return NULL;
}

static bool acpi_is_firecracker(struct root *r)
{
    char table[64]; /* bytes 10 to 15 of a table's header are the maker's id */

    return root_read(r, "/sys/firmware/acpi/tables/FACP", table, sizeof(table)) >= 16 &&
           !memcmp(table + 10, "FIRECK", 6);
}

static const char *hypervisor_name(struct hw_build *b, const struct hw_place *p)
{
    static const struct {
        const char *vendor, *product, *name;
    } by_dmi[] = {
        { "Firecracker", NULL, "firecracker" },
        { "QEMU", NULL, "kvm" },
        { "Amazon EC2", NULL, "kvm" },
        { "Google", NULL, "kvm" },
        { "Red Hat", NULL, "kvm" },
        { "OpenStack", NULL, "kvm" },
        { "DigitalOcean", NULL, "kvm" },
        { "Nebius", NULL, "kvm" },
        { "Microsoft Corporation", "Virtual Machine", "hyperv" },
        { "VMware", NULL, "vmware" },
        { "innotek", NULL, "virtualbox" },
        { "Xen", NULL, "xen" },
        { "Parallels", NULL, "parallels" },
        { NULL, "KVM", "kvm" },
        { NULL, "OpenStack", "kvm" },
    };
    const char *type = root_str(b->root, b->a, "/sys/hypervisor/type");

    if (type)
        return type;
    /* a cloud's bare-metal machine has the vendor but not the flag */
    if (!hw_word_in(hw_cpuinfo_get(b, "flags"), "hypervisor"))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(by_dmi); i++)
        if ((!by_dmi[i].vendor || str_starts(p->vendor, by_dmi[i].vendor)) &&
            (!by_dmi[i].product || str_starts(p->product, by_dmi[i].product)))
            return by_dmi[i].name;
    return acpi_is_firecracker(b->root) ? "firecracker" : "unknown";
}

/* ---- container ---- */
static const char *container_by_cgroup(struct root *r)
{
    static const struct {
        const char *part, *kind;
    } parts[] = {
        { "kubepods", "kubernetes" },       { "/crio-", "crio" },     { "libpod", "podman" },
        { "/docker/", "docker" },           { "/docker-", "docker" }, { "/lxc", "lxc" },
        { "cri-containerd", "containerd" },
    };
    static const char *const files[] = { "/proc/1/cgroup", "/proc/self/cgroup" };
    char text[CGROUP_TEXT_MAX];

    for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
        if (root_read(r, files[f], text, sizeof(text)) <= 0)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
            if (strstr(text, parts[i].part))
                return parts[i].kind;
    }
    return NULL;
}

static bool root_is_overlay(struct hw_build *b)
{
    size_t count;
    const struct hw_mountinfo *m = hw_mountinfo(b, &count);

    for (size_t i = 0; i < count; i++)
        if (str_eq(m[i].target, "/"))
            return str_eq(m[i].fstype, "overlay");
    return false;
}

static const char *container_kind(struct hw_build *b)
{
    const char *by_env = hw_self_env(&b->self, "container");

    if (hw_self_env(&b->self, "KUBERNETES_SERVICE_HOST") ||
        root_exists(b->root, "/var/run/secrets/kubernetes.io/serviceaccount"))
        return "kubernetes";
    if (root_exists(b->root, "/.singularity.d"))
        return "apptainer";
    if (by_env && *by_env && !str_eq(by_env, "oci"))
        return by_env;
    if (root_exists(b->root, "/run/.containerenv"))
        return "podman";
    /* a machine whose disk was made from an image has the file too */
    if (root_exists(b->root, "/.dockerenv") &&
        (!maybe_is(b->self.host_pids, 1) || root_is_overlay(b)))
        return "docker";
    return container_by_cgroup(b->root);
}

/* What a job here has may come with the job where one of these starts it. */
static const char *manager_find(const struct hw_self *self)
{
    static const char *const managers[] = { "slurmd",        "kubelet",     "k3s",
                                            "kubelite",      "pbs_mom",     "sbatchd",
                                            "condor_startd", "flux-broker", "nomad" };

    for (size_t i = 0; i < ARRAY_SIZE(managers); i++)
        if (hw_self_daemon(self, managers[i]))
            return managers[i];
    return maybe_is(self->host_pids, 1) ? "none" : NULL;
}

/* ---- control group ---- */
struct cgroup {
    int version;             /* 0: none found */
    char dir[ROOT_PATH_MAX]; /* our group */
    size_t mount_len;        /* of dir: the mount, where the walk ends */
};

/* Our path in the group of `controller` ("" for v2), from /proc/self/cgroup. */
static bool cgroup_path(const char *text, const char *controller, char *out, size_t cap)
{
    for (const char *line = text; *line;) {
        const char *end = strchrnul(line, '\n');
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
        size_t want = strlen(controller);

        for (const char *c = list ? list + 1 : NULL; path && c <= path;) {
            size_t len = (size_t)(strchrnul(c, ',') < path ? strchrnul(c, ',') - c : path - c);

            if (len == want && !memcmp(c, controller, len) && (size_t)(end - path - 1) < cap) {
                memcpy(out, path + 1, (size_t)(end - path - 1));
                out[end - path - 1] = '\0';
                return true;
            }
            c += len + 1;
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ",");

        if (n == len && !memcmp(p, word, n))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* The mount of a v1 controller, or of v2 when `controller` is "". */
static const struct hw_mountinfo *cgroup_mount(struct hw_build *b, const char *controller)
{
    size_t count;
    const struct hw_mountinfo *m = hw_mountinfo(b, &count);

    for (size_t i = 0; i < count; i++) {
        if (!*controller
                ? str_eq(m[i].fstype, "cgroup2")
                : str_eq(m[i].fstype, "cgroup") && list_has(m[i].super_options, controller))
            return &m[i];
    }
    return NULL;
}

/* Without a group namespace both our path and the mount's root start at the host's
 * root; what the path has beyond the mount's root is below the mount. */
static void cgroup_dir(struct cgroup *g, const char *mount, const char *mount_root,
                       const char *path)
{
    size_t root_len = str_eq(mount_root, "/") ? 0 : strlen(mount_root);

    if (strstr(path, "/..") || strncmp(path, mount_root, root_len) ||
        (path[root_len] && path[root_len] != '/'))
        path = "";
    else
        path += root_len;
    if (str_eq(path, "/"))
        path = "";
    g->mount_len = strlen(mount);
    if (snprintf(g->dir, sizeof(g->dir), "%s%s", mount, path) >= (int)sizeof(g->dir))
        (void)str_copy(g->dir, sizeof(g->dir), mount);
}

static bool cgroup_find(struct hw_build *b, const char *text, const char *controller,
                        struct cgroup *out)
{
    const struct hw_mountinfo *m = cgroup_mount(b, controller);
    char path[ROOT_PATH_MAX] = "";
    char fallback[64];

    out->version = *controller ? 1 : 2;
    snprintf(fallback, sizeof(fallback), "/sys/fs/cgroup%s%s", *controller ? "/" : "", controller);
    if (!m && !root_exists(b->root, "%s%s", fallback, *controller ? "" : "/cgroup.controllers"))
        return false;
    (void)cgroup_path(text, controller, path, sizeof(path));
    cgroup_dir(out, m ? m->target : fallback, m ? m->root : "/", path);
    if (!root_exists(b->root, "%s", out->dir))
        out->dir[out->mount_len] = '\0';
    return true;
}

/* One level up; false at the mount. */
static bool cgroup_up(struct cgroup *g)
{
    char *cut = strrchr(g->dir, '/');

    if (strlen(g->dir) <= g->mount_len || !cut || (size_t)(cut - g->dir) < g->mount_len)
        return false;
    *cut = '\0';
    return true;
}

static void keep_least(struct maybe *have, struct maybe v)
{
    if (v.known && v.v > 0 && (!have->known || v.v < have->v))
        *have = v;
}

static struct maybe quota_milli(struct maybe quota, struct maybe period)
{
    if (!quota.known || !period.known || quota.v <= 0 || period.v <= 0 || quota.v > QUOTA_US_MAX ||
        period.v > QUOTA_US_MAX)
        return maybe_none();
    quota.v = quota.v * 1000 / period.v;
    return maybe_of(quota.v < CPU_QUOTA_MILLI_MIN ? CPU_QUOTA_MILLI_MIN : quota.v);
}

/* "200000 100000" or "max 100000" */
static struct maybe cpu_max_read(struct root *r, const char *dir)
{
    char line[ROOT_LINE_MAX], *period;

    if (root_line(r, line, sizeof(line), "%s/cpu.max", dir) <= 0 || !(period = strchr(line, ' ')))
        return maybe_none();
    *period++ = '\0';
    return quota_milli(str_to_maybe(line), str_to_maybe(period));
}

static void cgroup2_read(struct hw_build *b, struct cgroup g, struct hw_place *p)
{
    p->cpuset = root_str(b->root, b->a, "%s/cpuset.cpus.effective", g.dir);
    for (int depth = 0; depth < CGROUP_DEPTH_MAX; depth++) {
        keep_least(&p->cpu_quota_milli, cpu_max_read(b->root, g.dir));
        keep_least(&p->mem_limit_bytes, root_int(b->root, "%s/memory.max", g.dir));
        keep_least(&p->pids_limit, root_int(b->root, "%s/pids.max", g.dir));
        if (!cgroup_up(&g))
            break;
    }
}

static void cgroup1_walk(struct hw_build *b, const char *text, const char *controller,
                         struct hw_place *p)
{
    struct cgroup g;

    if (!cgroup_find(b, text, controller, &g))
        return;
    if (str_eq(controller, "cpuset")) {
        p->cpuset = root_str(b->root, b->a, "%s/cpuset.effective_cpus", g.dir);
        if (!p->cpuset)
            p->cpuset = root_str(b->root, b->a, "%s/cpuset.cpus", g.dir);
        return;
    }
    for (int depth = 0; depth < CGROUP_DEPTH_MAX; depth++) {
        if (str_eq(controller, "cpu")) {
            keep_least(&p->cpu_quota_milli,
                       quota_milli(root_int(b->root, "%s/cpu.cfs_quota_us", g.dir),
                                   root_int(b->root, "%s/cpu.cfs_period_us", g.dir)));
        } else if (str_eq(controller, "memory")) {
            struct maybe limit = root_int(b->root, "%s/memory.limit_in_bytes", g.dir);

            if (limit.known && limit.v < mem_limit_none)
                keep_least(&p->mem_limit_bytes, limit);
        } else {
            keep_least(&p->pids_limit, root_int(b->root, "%s/pids.max", g.dir));
        }
        if (!cgroup_up(&g))
            break;
    }
}

static void cgroups_read(struct hw_build *b, struct hw_place *p)
{
    static const char *const controllers[] = { "cpu", "cpuset", "memory", "pids" };
    char text[CGROUP_TEXT_MAX];
    struct cgroup g;
    /* hybrid: v2 is mounted too, but the controllers are with v1 */
    bool v1 = cgroup_mount(b, "cpu") || cgroup_mount(b, "memory");

    if (root_read(b->root, "/proc/self/cgroup", text, sizeof(text)) <= 0)
        text[0] = '\0';
    if (!v1 && cgroup_find(b, text, "", &g)) {
        p->cgroup = maybe_of(2);
        cgroup2_read(b, g, p);
    } else if (v1 || root_exists(b->root, "/sys/fs/cgroup/cpu")) {
        p->cgroup = maybe_of(1);
        for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
            cgroup1_walk(b, text, controllers[i], p);
    }
}

static struct maybe cpus_usable(struct hw_build *b, const struct hw_place *p)
{
    char online[ROOT_LINE_MAX] = "";
    struct maybe least = maybe_none();

    (void)root_line(b->root, online, sizeof(online), "/sys/devices/system/cpu/online");
    keep_least(&least, hw_cpulist_count(online));
    keep_least(&least, b->self.affinity_cpus);
    keep_least(&least, hw_cpulist_count(p->cpuset));
    if (p->cpu_quota_milli.known) /* a part of a CPU is one thread */
        keep_least(&least, maybe_of(p->cpu_quota_milli.v < 2000 ? 1 : p->cpu_quota_milli.v / 1000));
    return least;
}

/* ---- schedulers ---- */
static void kubernetes_read(struct hw_build *b, struct hw_place *p)
{
    const struct hw_self *self = &b->self;

    if (!str_eq(p->container, "kubernetes"))
        return;
    p->k8s_pod = hw_self_env(self, "POD_NAME");
    if (!p->k8s_pod) /* a pod's host name is its name unless it says otherwise */
        p->k8s_pod = hw_self_env(self, "HOSTNAME");
    if (!p->k8s_pod)
        p->k8s_pod = self->hostname;
    p->k8s_namespace = hw_self_env(self, "POD_NAMESPACE");
    if (!p->k8s_namespace)
        p->k8s_namespace =
            root_str(b->root, b->a, "/var/run/secrets/kubernetes.io/serviceaccount/namespace");
    p->k8s_node = hw_self_env(self, "NODE_NAME");
}

/* How many GPUs Slurm gave: a count, or the ids of those it gave. */
static const char *slurm_gpus(struct hw_build *b)
{
    static const char *const lists[] = { "SLURM_STEP_GPUS", "SLURM_JOB_GPUS" };
    const char *count = hw_self_env(&b->self, "SLURM_GPUS_ON_NODE");

    for (size_t i = 0; !count && i < ARRAY_SIZE(lists); i++) {
        struct maybe ids = hw_cpulist_count(hw_self_env(&b->self, lists[i]));

        if (ids.known)
            count = arena_printf(b->a, "%lld", (long long)ids.v);
    }
    return count;
}

static void slurm_read(struct hw_build *b, struct hw_place *p)
{
    p->slurm_job = hw_self_env(&b->self, "SLURM_JOB_ID");
    if (!p->slurm_job)
        p->slurm_job = hw_self_env(&b->self, "SLURM_JOBID");
    if (!p->slurm_job)
        return;
    p->slurm_nodes = hw_self_env(&b->self, "SLURM_JOB_NODELIST");
    if (!p->slurm_nodes)
        p->slurm_nodes = hw_self_env(&b->self, "SLURM_NODELIST");
    p->slurm_gpus = slurm_gpus(b);
    p->slurm_cpus = hw_self_env(&b->self, "SLURM_CPUS_ON_NODE");
}

void hw_src_place(struct hw_build *b)
{
    struct hw_place *p = &b->hw->place;

    assert(b->hw);
    p->hostname = b->self.hostname;
    p->kernel = b->self.kernel;
    p->os = os_name(b);
    p->vendor = root_str(b->root, b->a, "/sys/class/dmi/id/sys_vendor");
    p->product = root_str(b->root, b->a, "/sys/class/dmi/id/product_name");
    p->hypervisor = hypervisor_name(b, p);
    p->container = container_kind(b);
    p->manager = manager_find(&b->self);
    cgroups_read(b, p);
    p->cpus_usable = cpus_usable(b, p);
    kubernetes_read(b, p);
    slurm_read(b, p);
    p->env = b->self.env;
    p->env_count = b->self.env_count;
}

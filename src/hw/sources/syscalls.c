/* SPDX-License-Identifier: MIT */
/* syscalls: what system calls and the environment say.
 *
 * Everything in the inventory that is no file of the machine is gathered here into
 * struct hw_self: on this machine by asking, on a captured one from
 * /stoker/self.json, which a recording leaves behind.  The other sources look at
 * the struct only and so cannot tell the difference.
 *
 * Two file scans live here too, because a capture should carry what they found and
 * not what they went through: the names of running processes and dpkg's status
 * file of several megabytes. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"
#include "os/worker/child.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <pwd.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    SELF_JSON_MAX = 4 << 20,        /* bytes of /stoker/self.json */
    SELF_ADDRS_MAX = 4096,          /* addresses of all interfaces */
    SELF_IF_ADDRS_MAX = 256,        /* ... of one: kube-ipvs0 has one a service */
    SELF_IFS_MAX = 4096,            /* interfaces */
    SELF_FS_MAX = 256,              /* file systems asked for their size */
    SELF_ENV_MAX = 512,             /* environment variables kept */
    SELF_ENV_VALUE_MAX = 2048,      /* bytes of a value; longer ones are cut */
    SELF_PROCS_MAX = 65536,         /* processes looked at */
    SELF_USERS_MAX = 65536,         /* lines of /etc/passwd looked at */
    SELF_PACKAGES_MAX = 64,         /* packages kept */
    SELF_DPKG_BYTES_MAX = 16 << 20, /* bytes read of dpkg's status */
    SELF_FS_STALL_MS = 1000,        /* a remote file system that says nothing this long is left */
    SELF_FS_STALLS_MAX = 3          /* so many of them, then the rest is not asked */
};

/* ---- the rows of /stoker/self.json ---- */
#define S struct hw_self_addr
static const struct field self_addr_rows[] = {
    FIELD("ifname", STR, S, ifname, "interface"),
    FIELD("family", STR, S, family, "inet or inet6"),
    FIELD("addr", STR, S, addr, "address"),
    FIELD("prefix", INT, S, prefix, "prefix length, in bits"),
};
static FIELD_TABLE(self_addr_table, "self address", S, self_addr_rows);
#undef S

#define S struct hw_self_if
static const struct field self_if_rows[] = {
    FIELD("name", STR, S, name, "interface"),
    FIELD("ifindex", INT, S, ifindex, "the kernel's number"),
    FIELD("up", BOOL, S, up, "it is switched on"),
    FIELD("running", BOOL, S, running, "it has a carrier"),
    FIELD("loopback", BOOL, S, loopback, "it is the loopback"),
};
static FIELD_TABLE(self_if_table, "self interface", S, self_if_rows);
#undef S

#define S struct hw_self_fs
static const struct field self_fs_rows[] = {
    FIELD("target", STR, S, target, "mount point"),
    FIELD("size_bytes", INT, S, size_bytes, "size, in bytes"),
    FIELD("avail_bytes", INT, S, avail_bytes, "room for an ordinary user, in bytes"),
};
static FIELD_TABLE(self_fs_table, "self file system", S, self_fs_rows);
#undef S

#define S struct hw_self
static const struct field self_rows[] = {
    FIELD("hostname", STR, S, hostname, "host name"),
    FIELD("kernel", STR, S, kernel, "kernel release"),
    FIELD("arch", STR, S, arch, "machine type"),
    FIELD("affinity_cpus", INT, S, affinity_cpus, "CPUs this process may run on"),
    FIELD("memlock_bytes", INT, S, memlock_bytes, "memory it may lock, in bytes; -1: unlimited"),
    FIELD("memlock_hard_bytes", INT, S, memlock_hard_bytes, "hard limit of that, in bytes"),
    FIELD("nofile", INT, S, nofile, "files it may have open; -1: unlimited"),
    FIELD("uid", INT, S, uid, "effective user id"),
    FIELD("home", STR, S, home, "home folder, where it holds a .nccl.conf"),
    FIELD("passwd_home", STR, S, passwd_home, "that of /etc/passwd, where it is another"),
    FIELD_SUBS("addrs", S, addrs, addrs_count, &self_addr_table, "addresses"),
    FIELD_SUBS("ifs", S, ifs, ifs_count, &self_if_table, "interface flags"),
    FIELD_SUBS("filesystems", S, filesystems, filesystems_count, &self_fs_table, "sizes"),
    FIELD_LIST("daemons", STRS, S, daemons, daemons_count, "known daemons that run"),
    FIELD_SUBS("env", S, env, env_count, &hw_env_table, "environment variables that matter"),
    FIELD("host_pids", BOOL, S, host_pids, "the machine's processes show, not a container's"),
    FIELD_SUBS("packages", S, packages, packages_count, &hw_soft_table, "packages installed"),
};
FIELD_TABLE(hw_self_table, "stoker.self/1", S, self_rows);
#undef S

/* ---- names, limits, affinity ---- */
static struct maybe rlim_value(rlim_t v)
{
    if (v == RLIM_INFINITY)
        return maybe_of(-1);
    return v <= INT64_MAX ? maybe_of((int64_t)v) : maybe_none();
}

/* The kernel refuses a set smaller than its own, so grow until it is content. */
static struct maybe affinity_count(void)
{
    for (size_t cpus = 1024; cpus <= 16 * (size_t)HW_CPU_MAX; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        size_t size = CPU_ALLOC_SIZE(cpus);
        int failed, count;

        if (!set)
            return maybe_none();
        failed = sched_getaffinity(0, size, set) ? errno : 0;
        count = failed ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (!failed)
            return maybe_of(count);
        if (failed != EINVAL)
            return maybe_none();
    }
    return maybe_none();
}

static const char *text_dup(struct arena *a, const char *s)
{
    char *copy = arena_strdup(a, s);

    if (copy)
        str_make_text(copy);
    return copy;
}

static void query_process(struct hw_self *self, struct arena *a)
{
    struct rlimit lim;
    struct utsname un;

    if (!uname(&un)) {
        self->hostname = text_dup(a, un.nodename);
        self->kernel = text_dup(a, un.release);
        self->arch = text_dup(a, un.machine);
    }
    if (!getrlimit(RLIMIT_MEMLOCK, &lim)) {
        self->memlock_bytes = rlim_value(lim.rlim_cur);
        self->memlock_hard_bytes = rlim_value(lim.rlim_max);
    }
    if (!getrlimit(RLIMIT_NOFILE, &lim))
        self->nofile = rlim_value(lim.rlim_cur);
    self->uid = maybe_of((int64_t)geteuid());
    self->affinity_cpus = affinity_count();
}

/* ---- interfaces ---- */
static int64_t mask_bits(const struct sockaddr *mask)
{
    const unsigned char *p = NULL;
    size_t len = 0;
    int64_t bits = 0;

    if (mask && mask->sa_family == AF_INET) {
        p = (const unsigned char *)&((const struct sockaddr_in *)mask)->sin_addr;
        len = 4;
    } else if (mask && mask->sa_family == AF_INET6) {
        p = (const unsigned char *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
        len = 16;
    }
    for (size_t i = 0; i < len; i++)
        bits += __builtin_popcount(p[i]);
    return len ? bits : -1;
}

static void add_addr(struct hw_self *self, struct arena *a, const struct ifaddrs *ifa)
{
    bool v4 = ifa->ifa_addr->sa_family == AF_INET;
    const void *raw = v4 ? (const void *)&((struct sockaddr_in *)ifa->ifa_addr)->sin_addr
                         : (const void *)&((struct sockaddr_in6 *)ifa->ifa_addr)->sin6_addr;
    int64_t bits = mask_bits(ifa->ifa_netmask);
    char text[INET6_ADDRSTRLEN];
    size_t same = 0; /* getifaddrs() tells those of an interface one after the other */

    while (same < self->addrs_count &&
           str_eq(self->addrs[self->addrs_count - 1 - same].ifname, ifa->ifa_name))
        same++;
    if (self->addrs_count == SELF_ADDRS_MAX || same >= SELF_IF_ADDRS_MAX ||
        !inet_ntop(v4 ? AF_INET : AF_INET6, raw, text, sizeof(text)))
        return;
    self->addrs[self->addrs_count++] = (struct hw_self_addr){
        .ifname = text_dup(a, ifa->ifa_name),
        .family = v4 ? "inet" : "inet6",
        .addr = arena_strdup(a, text),
        .prefix = bits >= 0 ? maybe_of(bits) : maybe_none(),
    };
}

static void add_if(struct hw_self *self, struct arena *a, const struct ifaddrs *ifa)
{
    const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)ifa->ifa_addr;

    if (self->ifs_count == SELF_IFS_MAX)
        return;
    self->ifs[self->ifs_count++] = (struct hw_self_if){
        .name = text_dup(a, ifa->ifa_name),
        .ifindex = maybe_of(ll->sll_ifindex),
        .up = maybe_of(!!(ifa->ifa_flags & IFF_UP)),
        .running = maybe_of(!!(ifa->ifa_flags & IFF_RUNNING)),
        .loopback = maybe_of(!!(ifa->ifa_flags & IFF_LOOPBACK)),
    };
}

static void query_interfaces(struct hw_build *b)
{
    struct hw_self *self = &b->self;
    struct ifaddrs *list = NULL;
    size_t v = 0, links = 0;

    if (getifaddrs(&list)) {
        hw_note_add(b, "self", "addresses are unknown: %s", strerror(errno));
        return;
    }
    for (struct ifaddrs *i = list; i; i = i->ifa_next)
        *(i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET ? &links : &v) += 1;
    self->addrs = arena_array(b->a, struct hw_self_addr, v < SELF_ADDRS_MAX ? v : SELF_ADDRS_MAX);
    self->ifs = arena_array(b->a, struct hw_self_if, links < SELF_IFS_MAX ? links : SELF_IFS_MAX);
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

        if (family == AF_INET || family == AF_INET6)
            add_addr(self, b->a, i);
        else if (family == AF_PACKET)
            add_if(self, b->a, i);
    }
    freeifaddrs(list);
}

/* ---- file systems ---- */
static struct maybe bytes_of(uint64_t blocks, uint64_t unit)
{
    uint64_t v;

    if (__builtin_mul_overflow(blocks, unit, &v) || v > INT64_MAX)
        return maybe_none();
    return maybe_of((int64_t)v);
}

static bool query_fs(const char *target, struct hw_self_fs *out)
{
    struct statvfs st;

    if (statvfs(target, &st))
        return false;
    out->target = target;
    out->size_bytes = bytes_of(st.f_blocks, st.f_frsize);
    out->avail_bytes = bytes_of(st.f_bavail, st.f_frsize);
    return true;
}

struct fs_job { /* for the child: which remote mounts to ask, from which on */
    const struct hw_mountinfo *const *mounts;
    size_t count;
    size_t from;
};

/* In the child: a line "POSITION SIZE AVAIL" for each that answers. */
static void query_remote_child(struct child_link *l, void *arg)
{
    const struct fs_job *job = arg;

    for (size_t i = job->from; i < job->count; i++) {
        struct hw_self_fs fs = { 0 };
        char line[96];
        int len;

        child_step(l, "%zu", i);
        if (!query_fs(job->mounts[i]->target, &fs))
            continue;
        len = snprintf(line, sizeof(line), "%zu %" PRId64 " %" PRId64 "\n", i,
                       maybe_or(fs.size_bytes, -1), maybe_or(fs.avail_bytes, -1));
        child_send(l, line, (size_t)len);
    }
}

static void take_remote_lines(struct hw_self *self, const struct fs_job *job, const char *text)
{
    for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
        size_t i;
        int64_t size, avail;

        if (sscanf(p, "%zu %" SCNd64 " %" SCNd64, &i, &size, &avail) != 3 || i >= job->count)
            return;
        if (self->filesystems_count < SELF_FS_MAX)
            self->filesystems[self->filesystems_count++] = (struct hw_self_fs){
                .target = job->mounts[i]->target,
                .size_bytes = size >= 0 ? maybe_of(size) : maybe_none(),
                .avail_bytes = avail >= 0 ? maybe_of(avail) : maybe_none(),
            };
        if (!strchr(p, '\n'))
            return;
    }
}

/* A server that is gone makes statvfs() sleep for ever: a child asks, and a mount
 * that keeps it waiting is left out. */
static void query_remote(struct hw_build *b, struct fs_job *job)
{
    for (int stalls = 0; job->from < job->count && stalls < SELF_FS_STALLS_MAX; stalls++) {
        struct child_report rep = { 0 };
        struct buf lines = { 0 };
        uint64_t at;
        enum rc rc = child_run(query_remote_child, job, SELF_FS_STALL_MS, &lines, &rep, NULL);

        if (rc == RC_OK)
            take_remote_lines(&b->self, job, buf_str(&lines));
        buf_release(&lines);
        if (rc != RC_OK || !rep.stalled || !str_to_u64(rep.step, 10, &at) || at >= job->count)
            return;
        hw_note_add(b, "storage", "file system '%s' (%s) does not answer", job->mounts[at]->target,
                    job->mounts[at]->fstype);
        job->from = (size_t)at + 1;
    }
}

static void query_filesystems(struct hw_build *b)
{
    const struct hw_mountinfo *remote[SELF_FS_MAX];
    struct fs_job job = { .mounts = remote };
    const struct hw_mountinfo *m;
    size_t count;

    m = hw_mountinfo(b, &count);
    b->self.filesystems = arena_array(b->a, struct hw_self_fs, SELF_FS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!hw_mount_is_real(&m[i]))
            continue;
        if (hw_mount_is_remote(&m[i])) {
            if (job.count < SELF_FS_MAX)
                remote[job.count++] = &m[i];
        } else if (b->self.filesystems_count < SELF_FS_MAX &&
                   query_fs(m[i].target, &b->self.filesystems[b->self.filesystems_count])) {
            b->self.filesystems_count++;
        }
    }
    query_remote(b, &job);
}

/* ---- daemons ---- */
static const struct {
    const char *comm; /* the kernel keeps 15 bytes of a name */
    const char *name;
} daemons[] = {
    { "nv-fabricmanage", "nv-fabricmanager" },
    { "nvidia-persiste", "nvidia-persistenced" },
    { "nv-hostengine", "nv-hostengine" },
    { "nvidia-cuda-mps", "nvidia-cuda-mps" },
    { "nvidia-imex", "nvidia-imex" },
    { "dcgm-exporter", "dcgm-exporter" },
    { "opensm", "opensm" },
    { "slurmd", "slurmd" },
    { "slurmctld", "slurmctld" },
    { "kubelet", "kubelet" },
    { "dockerd", "dockerd" },
    { "containerd", "containerd" },
    { "crio", "crio" },
    { "irqbalance", "irqbalance" },
    { "k3s-server", "k3s" },
    { "k3s-agent", "k3s" },
    { "kubelite", "kubelite" },
    { "pbs_mom", "pbs_mom" },
    { "sbatchd", "sbatchd" },
    { "condor_startd", "condor_startd" },
    { "flux-broker", "flux-broker" },
    { "nomad", "nomad" },
};

static bool comm_read(int proc, const char *pid, char out[32])
{
    char path[32];
    ssize_t len;
    int fd;

    if (snprintf(path, sizeof(path), "%s/comm", pid) >= (int)sizeof(path))
        return false;
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, out, 31);
    close(fd);
    if (len <= 0)
        return false;
    out[len] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

static void query_daemons(struct hw_self *self, struct arena *a)
{
    bool seen[ARRAY_SIZE(daemons)] = { false };
    const char **names = arena_array(a, const char *, ARRAY_SIZE(daemons));
    DIR *dir = opendir("/proc");
    struct dirent *e;
    char comm[32];

    if (!dir)
        return;
    self->host_pids = maybe_of(comm_read(dirfd(dir), "2", comm) && str_eq(comm, "kthreadd"));
    for (int n = 0; n < SELF_PROCS_MAX && (e = readdir(dir));) {
        if (!isdigit((unsigned char)e->d_name[0]) || !comm_read(dirfd(dir), e->d_name, comm))
            continue;
        n++;
        for (size_t i = 0; i < ARRAY_SIZE(daemons); i++)
            seen[i] |= str_eq(comm, daemons[i].comm);
    }
    closedir(dir);
    for (size_t i = 0; i < ARRAY_SIZE(daemons); i++)
        if (seen[i])
            names[self->daemons_count++] = daemons[i].name;
    self->daemons = names;
}

/* ---- environment ---- */
static const char *const env_prefixes[] = {
    "NCCL_", "TORCH_NCCL_", "CUDA_", "NVIDIA_", "UCX_", "OMP_", "FI_", "GLOO_", "PET_", "NVSHMEM_",
};

static const char *const env_names[] = {
    "CONDA_PREFIX",
    "CUBLAS_WORKSPACE_CONFIG",
    "GPUS_PER_NODE",
    "GROUP_RANK",
    "HOSTNAME",
    "KUBERNETES_SERVICE_HOST",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MKL_NUM_THREADS",
    "NNODES",
    "NODE_NAME",
    "NODE_RANK",
    "POD_NAME",
    "POD_NAMESPACE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "RANK",
    "SLURM_CLUSTER_NAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOBID",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION",
    "SLURM_LOCALID",
    "SLURM_MEM_PER_NODE",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NODELIST",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_STEP_GPUS",
    "SLURM_STEP_ID",
    "VIRTUAL_ENV",
    "WORLD_SIZE",
    "container",
};

/* Words of a name that mean a secret: NVIDIA_API_KEY has a prefix that we keep, and
 * NCCL_IB_PKEY is none. */
static const char *const env_secrets[] = {
    "KEY", "KEYS", "APIKEY", "TOKEN", "SECRET", "PASS", "PASSWORD", "PASSWD", "CREDENTIALS", "AUTH",
};

static bool env_secret(const char *name)
{
    while (*name) {
        size_t len = strcspn(name, "_");

        for (size_t i = 0; i < ARRAY_SIZE(env_secrets); i++)
            if (strlen(env_secrets[i]) == len && !strncasecmp(name, env_secrets[i], len))
                return true;
        name += len + (name[len] == '_');
    }
    return false;
}

static bool env_wanted(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(env_names); i++)
        if (str_eq(name, env_names[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(env_prefixes); i++)
        if (str_starts(name, env_prefixes[i]))
            return !env_secret(name);
    return false;
}

static int env_order(const void *x, const void *y)
{
    return strcmp(((const struct hw_env *)x)->name, ((const struct hw_env *)y)->name);
}

static void query_env(struct hw_self *self, struct arena *a)
{
    self->env = arena_array(a, struct hw_env, SELF_ENV_MAX);
    for (char **e = environ; e && *e && self->env_count < SELF_ENV_MAX; e++) {
        const char *eq = strchr(*e, '=');
        struct hw_env *out = &self->env[self->env_count];
        char name[128], value[SELF_ENV_VALUE_MAX];

        if (!eq || (size_t)(eq - *e) >= sizeof(name))
            continue;
        memcpy(name, *e, (size_t)(eq - *e));
        name[eq - *e] = '\0';
        if (!env_wanted(name))
            continue;
        (void)str_copy(value, sizeof(value), eq + 1); /* a cut value still tells */
        out->name = text_dup(a, name);
        out->value = text_dup(a, value);
        self->env_count++;
    }
    qsort(self->env, self->env_count, sizeof(*self->env), env_order);
}

/* ---- packages ---- */
static const char *const package_prefixes[] = {
    "containerd",
    "cri-o",
    "datacenter-gpu-manager",
    "docker-ce",
    "docker.io",
    "doca-ofed",
    "kubelet",
    "libcudnn",
    "libnccl2",
    "moby-",
    "mlnx-ofed",
    "nvidia-container-toolkit",
    "nvidia-fabricmanager",
    "podman",
    "rdma-core",
    "slurm",
    "ucx",
    "libucx0",
};

static bool package_wanted(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(package_prefixes); i++)
        if (str_starts(name, package_prefixes[i]))
            return true;
    return false;
}

/* A stanza is over: keep it when it is installed and matters. */
static void package_add(struct hw_self *self, struct arena *a, const char *name,
                        const char *version)
{
    if (!*name || !*version || self->packages_count == SELF_PACKAGES_MAX || !package_wanted(name))
        return;
    if (!self->packages)
        self->packages = arena_array(a, struct hw_soft, SELF_PACKAGES_MAX);
    self->packages[self->packages_count++] =
        (struct hw_soft){ .name = text_dup(a, name), .version = text_dup(a, version) };
}

static bool line_value(char *line, const char *key, char *out, size_t cap)
{
    if (!str_starts(line, key))
        return false;
    return str_copy(out, cap, str_trim(line + strlen(key)));
}

/* dpkg keeps its list in one text of stanzas; a line longer than the buffer comes in
 * pieces, which match no key. */
static void query_packages(struct hw_self *self, struct arena *a)
{
    FILE *f = fopen("/var/lib/dpkg/status", "re");
    char line[4096], name[128] = "", version[128] = "", status[64] = "";
    size_t bytes = 0;

    if (!f)
        return;
    while (bytes < SELF_DPKG_BYTES_MAX && fgets(line, sizeof(line), f)) {
        bytes += strlen(line);
        if (line[0] == '\n') {
            if (str_ends(status, " installed"))
                package_add(self, a, name, version);
            name[0] = version[0] = status[0] = '\0';
        } else if (!line_value(line, "Package:", name, sizeof(name)) &&
                   !line_value(line, "Status:", status, sizeof(status))) {
            (void)line_value(line, "Version:", version, sizeof(version));
        }
    }
    fclose(f);
}

/* ---- live, or replayed ---- */
/* The folder of /etc/passwd: a directory server that could hang is not asked. */
static const char *passwd_home(struct arena *a)
{
    FILE *f = fopen("/etc/passwd", "re");
    const struct passwd *p;
    const char *home = NULL;

    for (int i = 0; f && !home && i < SELF_USERS_MAX && (p = fgetpwent(f)); i++)
        if (p->pw_uid == getuid() && p->pw_dir && *p->pw_dir == '/')
            home = arena_strdup(a, p->pw_dir);
    if (f)
        fclose(f);
    return home;
}

/* NCCL asks the user database before 2.30 and HOME from then on. */
static void query_home(struct hw_self *self, struct arena *a)
{
    const char *home = getenv("HOME"), *other = passwd_home(a);
    char path[FILE_PATH_MAX];

    if (home && *home == '/' &&
        snprintf(path, sizeof(path), "%s/.nccl.conf", home) < (int)sizeof(path) &&
        file_exists(path))
        self->home = arena_strdup(a, home);
    if (other && !str_eq(other, home))
        self->passwd_home = other;
}

static void self_query(struct hw_build *b)
{
    query_process(&b->self, b->a);
    query_interfaces(b);
    query_filesystems(b);
    query_daemons(&b->self, b->a);
    query_env(&b->self, b->a);
    query_home(&b->self, b->a);
    query_packages(&b->self, b->a);
}

/* A capture may hold no more than asking would have given. */
static void self_bound(struct hw_self *self)
{
    const struct {
        size_t *count, max;
    } lists[] = {
        { &self->addrs_count, SELF_ADDRS_MAX },        { &self->ifs_count, SELF_IFS_MAX },
        { &self->filesystems_count, SELF_FS_MAX },     { &self->env_count, SELF_ENV_MAX },
        { &self->daemons_count, ARRAY_SIZE(daemons) }, { &self->packages_count, SELF_PACKAGES_MAX },
    };

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (*lists[i].count > lists[i].max)
            *lists[i].count = lists[i].max;
}

static void self_replay(struct hw_build *b)
{
    struct arena tree = { 0 };
    struct hw_self self = { 0 };
    struct err err = { 0 };
    struct json *doc = NULL;
    char *text = xmalloc(SELF_JSON_MAX);
    ssize_t len = root_read(b->root, "/stoker/self.json", text, SELF_JSON_MAX);

    if (len < 0)
        hw_note_add(b, "self",
                    "the capture has no /stoker/self.json: what system calls would "
                    "say (limits, addresses, environment) is unknown");
    else if (json_parse(&tree, text, (size_t)len, &doc, &err) ||
             fields_read(b->a, doc, &hw_self_table, &self, &err))
        hw_note_add(b, "self", "/stoker/self.json of the capture is not usable: %s", err.msg);
    else {
        self_bound(&self);
        hw_clean(&hw_self_table, &self);
        b->self = self;
    }
    arena_release(&tree);
    free(text);
}

static void self_record(const struct hw_self *self, struct recorder *rec)
{
    struct buf out = { 0 };
    struct json_out w;

    json_out_init(&w, &out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", hw_self_table.name);
    fields_write_members(&w, &hw_self_table, self);
    json_obj_end(&w);
    buf_addc(&out, '\n');
    recorder_put(rec, "/stoker/self.json", out.data, out.len);
    buf_release(&out);
}

/* The variables that the caller puts into the environment; the last of a name wins. */
static void self_env_add(struct hw_build *b)
{
    struct hw_self *self = &b->self;
    size_t more = b->opts ? b->opts->env_count : 0;
    struct hw_env *env = arena_array(b->a, struct hw_env, self->env_count + more + 1);
    size_t count = 0;

    for (; count < self->env_count; count++)
        env[count] = self->env[count];
    for (size_t i = 0; i < more; i++) {
        const struct hw_env *add = &b->opts->env[i];
        char *value = arena_strdup(b->a, add->value);
        size_t at = 0;

        while (at < count && !str_eq(env[at].name, add->name))
            at++;
        str_make_text(value); /* as the environment's own are taken */
        env[at] = (struct hw_env){ .name = arena_strdup(b->a, add->name), .value = value };
        count += at == count;
    }
    self->env = env;
    self->env_count = count;
}

void hw_src_self(struct hw_build *b)
{
    assert(b && b->root);
    if (root_is_live(b->root))
        self_query(b);
    else
        self_replay(b);
    if (b->rec)
        self_record(&b->self, b->rec);
    self_env_add(b);
}

const char *hw_self_env(const struct hw_self *self, const char *name)
{
    for (size_t i = 0; i < self->env_count; i++)
        if (str_eq(self->env[i].name, name))
            return self->env[i].value;
    return NULL;
}

bool hw_self_daemon(const struct hw_self *self, const char *name)
{
    for (size_t i = 0; i < self->daemons_count; i++)
        if (str_eq(self->daemons[i], name))
            return true;
    return false;
}

struct maybe hw_self_daemon_state(const struct hw_self *self, const char *name)
{
    if (hw_self_daemon(self, name))
        return maybe_of(1);
    return maybe_is(self->host_pids, 1) ? maybe_of(0) : maybe_none();
}

/* SPDX-License-Identifier: MIT */
/* checks_container: does the container, pod or job leave GPU work enough room?
 *
 * Shared memory, locked memory, files, CPUs and memory are judged by checks of the other
 * groups that stand in this one too; here is what only makes sense inside: what was
 * asked for against what is seen. */
#include "base/str.h"
#include "base/text/units.h"
#include "health/health_int.h"
#include "nccl/nccl.h"

/* ---- thresholds ---- */
enum {
    /* A job of eight ranks with loader workers and their OpenMP and CUDA threads counts
     * its threads in thousands; podman allows 2048, some clusters 1024. */
    CONTAINER_PIDS_MIN = 4096,
    CONTAINER_LIST_MAX = 1024 /* devices counted in one variable */
};

static void container_where(const struct hw *hw, struct check_out *o)
{
    const struct hw_place *p = &hw->place;
    struct buf b = { 0 };

    if (p->k8s_pod)
        buf_addf(&b, "pod '%s'%s%s%s", p->k8s_pod, p->k8s_namespace ? " of namespace '" : "",
                 p->k8s_namespace ? p->k8s_namespace : "", p->k8s_namespace ? "'" : "");
    else if (p->container)
        buf_addf(&b, "a container (%s)", p->container);
    if (p->slurm_job)
        buf_addf(&b, "%sSlurm job %s", b.len ? ", " : "", p->slurm_job);
    if (p->hypervisor)
        buf_addf(&b, "%son a virtual machine (%s)", b.len ? ", " : "", p->hypervisor);
    if (b.len == 0)
        buf_adds(&b, "no container, no job, no virtual machine");
    check_pass(o, "%s", buf_str(&b));
    buf_release(&b);
}

/* ---- GPUs asked for and seen ---- */
/* Entries of "0,1,2" or "GPU-…,GPU-…". */
static size_t list_count(const char *s)
{
    size_t n = 1;

    for (; *s && n < CONTAINER_LIST_MAX; s++)
        n += *s == ',';
    return n;
}

static void visible_void(const struct hw *hw, const char *v, struct check_out *o)
{
    if (facts_gpus_ok(hw))
        check_pass(o, "NVIDIA_VISIBLE_DEVICES=%s, the device plug-in gave %zu GPUs itself", v,
                   facts_gpus_ok(hw));
    else
        check_fail(
            o,
            "Ask for GPUs: --gpus all (docker), nvidia.com/gpu in this container's resources "
            "(Kubernetes). An init container that does not ask gets none.",
            "NVIDIA_VISIBLE_DEVICES=%s: this container was given no GPU", v);
}

static void container_nvidia_visible(const struct hw *hw, struct check_out *o)
{
    const char *v = hw_env_get(hw, "NVIDIA_VISIBLE_DEVICES");
    size_t seen = facts_gpus_ok(hw), asked;

    if (!facts_in_container(hw)) {
        check_skip(o, "not in a container");
        return;
    }
    if (!v || !*v) {
        check_skip(o, "NVIDIA_VISIBLE_DEVICES is not set");
        return;
    }
    if (str_eq(v, "void") || str_eq(v, "none")) {
        visible_void(hw, v, o);
        return;
    }
    if (str_eq(v, "all") || str_starts(v, "/")) {
        if (seen)
            check_pass(o, "NVIDIA_VISIBLE_DEVICES=%s, %zu GPUs seen", v, seen);
        else
            check_fail(
                o, "Run the container with the NVIDIA runtime: the variable alone does nothing.",
                "NVIDIA_VISIBLE_DEVICES=%s, but no GPU is seen", v);
        return;
    }
    asked = list_count(v);
    if (asked == seen)
        check_pass(o, "%zu GPUs in NVIDIA_VISIBLE_DEVICES, %zu seen", asked, seen);
    else
        check_warn(o, "Compare the list with `nvidia-smi -L` on the host; restart the container.",
                   "%zu GPUs in NVIDIA_VISIBLE_DEVICES, %zu seen", asked, seen);
}

static void container_cuda_visible(const struct hw *hw, struct check_out *o)
{
    const char *v = hw_env_get(hw, "CUDA_VISIBLE_DEVICES");
    size_t seen = facts_gpus_ok(hw);

    if (!v)
        check_skip(o, "CUDA_VISIBLE_DEVICES is not set");
    else if (!*v || str_starts(v, "-1") || str_eq(v, "NoDevFiles"))
        check_warn(o, "Take it out of the environment, unless the job is meant to use no GPU.",
                   "CUDA_VISIBLE_DEVICES='%s' hides every GPU from CUDA", v);
    else if (seen && list_count(v) > seen)
        check_warn(
            o,
            "Take it out of the environment: inside, GPUs count from 0 again, and CUDA stops "
            "at the first number it does not have.",
            "CUDA_VISIBLE_DEVICES names %zu GPUs, %zu are seen", list_count(v), seen);
    else if (seen && maybe_or(o->nccl->gpus, 0) < (int64_t)list_count(v) && !facts_mig_on(hw))
        check_warn(
            o,
            "Name GPUs that are here, by number from 0 on or by UUID: CUDA stops at the first "
            "it does not have.",
            "CUDA_VISIBLE_DEVICES=%s leaves CUDA %lld of %zu GPUs", v,
            (long long)maybe_or(o->nccl->gpus, 0), seen);
    else
        check_pass(o, "CUDA_VISIBLE_DEVICES names %zu of %zu GPUs", list_count(v), seen);
}

/* "4", or "gpu:4" and "gpu:h100:4" as Slurm writes GPUs elsewhere; unknown for others. */
static struct maybe slurm_gpu_count(const char *s)
{
    const char *colon = s ? strrchr(s, ':') : NULL;

    return s ? str_to_maybe(colon ? colon + 1 : s) : maybe_none();
}

static void container_slurm(const struct hw *hw, struct check_out *o)
{
    const char *gpus = hw->place.slurm_gpus;
    struct maybe asked = slurm_gpu_count(gpus);
    size_t seen = facts_gpus_ok(hw);

    if (!hw->place.slurm_job)
        check_skip(o, "no Slurm job");
    else if (!gpus && seen)
        check_warn(o,
                   "Ask for GPUs with --gres=gpu:N, and set ConstrainDevices=yes in cgroup.conf: "
                   "jobs collide on GPUs nobody gave them.",
                   "the job asked for no GPU and sees %zu", seen);
    else if (!gpus)
        check_fail(o, "Ask for GPUs with --gres=gpu:N.", "the job asked for no GPU");
    else if (!asked.known)
        check_unknown(o, NULL, "Slurm's list of GPUs could not be read: '%s'", gpus);
    else if (asked.v == (int64_t)seen)
        check_pass(o, "%zu GPUs given and seen", seen);
    else if (asked.v < (int64_t)seen)
        check_warn(o, "Set ConstrainDevices=yes in cgroup.conf, so that jobs see their own alone.",
                   "%lld GPUs given, %zu seen", (long long)asked.v, seen);
    else
        check_fail(o, "Compare gres.conf with the GPUs of the node; drain it if one is lost.",
                   "%lld GPUs given, %zu seen", (long long)asked.v, seen);
}

/* ---- CPUs, processes, network ---- */
static void container_omp(const struct hw *hw, struct check_out *o)
{
    const char *v = hw_env_get(hw, "OMP_NUM_THREADS");
    struct maybe cpus = hw->place.cpus_usable, all = hw->cpu.threads;
    size_t gpus = facts_gpus_ok(hw);
    int64_t ranks = gpus ? (int64_t)gpus : 1, n = 0;
    const char *remedy;

    if (!cpus.known) {
        check_unknown(o, NULL, "how many CPUs may be used could not be read");
        return;
    }
    if (gpus == 0 && hw->gpus_count) {
        check_unknown(o, "Look again where the job sees its GPUs.",
                      "no GPU answers here, so the ranks cannot be counted");
        return;
    }
    remedy = check_text(o, "Set OMP_NUM_THREADS=%lld: the usable CPUs over %lld ranks.",
                        (long long)(cpus.v / ranks > 0 ? cpus.v / ranks : 1), (long long)ranks);
    if (v && (!str_to_i64(v, 10, &n) || n < 1))
        check_warn(o, remedy, "OMP_NUM_THREADS='%s' is no count", v);
    else if (v && n > cpus.v / ranks && n > 1)
        check_warn(o, remedy, "OMP_NUM_THREADS=%lld for %lld ranks on %lld usable CPUs",
                   (long long)n, (long long)ranks, (long long)cpus.v);
    else if (v)
        check_pass(o, "OMP_NUM_THREADS=%lld for %lld ranks on %lld usable CPUs", (long long)n,
                   (long long)ranks, (long long)cpus.v);
    else if (all.known && all.v > cpus.v)
        check_warn(o, remedy,
                   "OMP_NUM_THREADS is not set: libraries that count CPUs see %lld, %lld may be "
                   "used",
                   (long long)all.v, (long long)cpus.v);
    else
        check_pass(o, "OMP_NUM_THREADS is not set; torchrun sets 1 a rank");
}

static void container_quota(const struct hw *hw, struct check_out *o)
{
    struct maybe q = hw->place.cpu_quota_milli;

    if (!facts_in_container(hw) && !hw->place.slurm_job)
        check_skip(o, "neither container nor job");
    else if (!q.known && !hw->place.cgroup.known)
        check_unknown(o, NULL, "the cgroup could not be read");
    else if (!q.known)
        check_pass(o, "no CPU quota");
    else if (q.v % 1000)
        check_warn(o,
                   "Give it whole CPUs (with the static CPU manager they are its own): a fraction "
                   "throttles the thread that launches kernels.",
                   "a quota of %lld.%03lld CPUs", (long long)(q.v / 1000), (long long)(q.v % 1000));
    else
        check_pass(o, "a quota of %lld CPUs", (long long)(q.v / 1000));
}

static void container_pids(const struct hw *hw, struct check_out *o)
{
    struct maybe p = hw->place.pids_limit;

    if (!p.known && !hw->place.cgroup.known)
        check_unknown(o, NULL, "the cgroup could not be read");
    else if (!p.known || p.v < 0)
        check_pass(o, "no limit of processes");
    else if (p.v < CONTAINER_PIDS_MIN)
        check_warn(o,
                   check_text(o,
                              "Raise it: --pids-limit=%d (docker, podman), podPidsLimit of the "
                              "kubelet, TasksMax= of the unit.",
                              CONTAINER_PIDS_MIN * 4),
                   "%lld processes and threads allowed, %d are wanted", (long long)p.v,
                   CONTAINER_PIDS_MIN);
    else
        check_pass(o, "%lld processes and threads allowed", (long long)p.v);
}

/* NCCL_SOCKET_FAMILY by itself is why the interface leads nowhere. */
static bool family_is_cause(const struct hw *hw)
{
    struct arena a = { 0 };
    struct nccl_choice c;
    bool cause = false;

    if (hw_env_get(hw, "NCCL_SOCKET_FAMILY")) {
        nccl_choose_without(hw, "NCCL_SOCKET_FAMILY", &a, &c);
        cause = !c.socket_bad;
        nccl_choice_release(&c);
        arena_release(&a);
    }
    return cause;
}

/* The first interface leads nowhere: the link to a BMC, as a rule. */
static void network_bad(const struct hw *hw, struct check_out *o)
{
    const struct nccl_choice *c = o->nccl;

    check_warn(o,
               family_is_cause(hw) ? "Unset NCCL_SOCKET_FAMILY."
               : hw_env_get(hw, "NCCL_COMM_ID")
                   ? "Give NCCL_COMM_ID the address that the first node has in a subnet of all "
                     "nodes, or unset it."
               : hw_env_get(hw, "NCCL_SOCKET_IFNAME")
                   ? "Unset NCCL_SOCKET_IFNAME and set what `stoker detect --env` prints then."
                   : "Set the NCCL_SOCKET_IFNAME that `stoker detect --env` prints, or with --peer "
                     "and the address of another node.",
               "NCCL would start over %s, and no other node can be reached by it: %s", c->socket_if,
               c->socket_bad);
}

/* NCCL stops at start-up for want of an interface. */
static bool stops_by_network(const struct nccl_choice *c)
{
    return c->stop_var &&
           (str_starts(c->stop_var, "NCCL_SOCKET_") || str_eq(c->stop_var, "NCCL_COMM_ID"));
}

/* Interfaces with an address, other than loopback. */
static void container_network(const struct hw *hw, struct check_out *o)
{
    struct buf names = { 0 };
    size_t n = 0;

    FOR_EACH(const struct hw_net, e, hw->nets) {
        if (str_eq(e->kind, "loopback") || e->addrs_count == 0)
            continue;
        buf_addf(&names, "%s%s%s%s", n ? ", " : "", e->name, e->rdma ? " on " : "",
                 e->rdma ? e->rdma : "");
        n++;
    }
    if (hw->nets_count == 0)
        check_unknown(o, NULL, "the network devices could not be read");
    else if (n == 0 && hw_capture_damage(hw))
        check_unknown(o, "Capture the machine again.", "no address is known: %s",
                      hw_capture_damage(hw));
    else if (n == 0)
        check_fail(o, "Give the container a network: ranks find each other over IP.",
                   "no network device with an address");
    else if (stops_by_network(o->nccl) && hw->gpus_count)
        check_fail(o, check_text(o, "Unset %s, or correct it.", o->nccl->stop_var), "%s",
                   o->nccl->stop_why);
    else if (o->nccl->socket_bad && (hw->gpus_count || hw->rdma_count))
        network_bad(hw, o);
    else
        check_pass(o, "%s", buf_str(&names));
    buf_release(&names);
}

/* RoCE devices of the host that sysfs shows, but whose network device is elsewhere. */
static void container_rdma(const struct hw *hw, struct check_out *o)
{
    size_t ours = 0, others = 0;

    for (size_t i = 0; i < hw->rdma_count; i++) {
        if (!facts_rdma_roce(&hw->rdma[i]))
            continue;
        if (facts_rdma_here(hw, &hw->rdma[i]))
            ours++;
        else
            others++;
    }
    if (!facts_in_container(hw))
        check_skip(o, "not in a container");
    else if (ours + others == 0)
        check_skip(o, "no RoCE device here");
    else if (ours == 0)
        check_fail(o,
                   "Attach the NICs to the pod (annotation k8s.v1.cni.cncf.io/networks with the "
                   "SR-IOV networks) or use host networking.",
                   "%zu RoCE devices in sysfs, none with a network device in this namespace",
                   others);
    else if (others)
        check_pass(o, "%zu RoCE devices with a network device here; %zu more belong to others",
                   ours, others);
    else
        check_pass(o, "%zu RoCE devices, each with a network device here", ours);
}

static const struct health_check rows[] = {
    HEALTH_CHECK("container.where", CHECK_CONTAINER, "where this runs", .fn = container_where,
                 "The container, pod, Slurm job and virtual machine around this process."),
    HEALTH_CHECK(
        "container.nvidia-visible", CHECK_CONTAINER, "GPUs given", .fn = container_nvidia_visible,
        "NVIDIA_VISIBLE_DEVICES agrees with the GPUs seen. An init container that asks for no "
        "GPU has it set to void."),
    HEALTH_CHECK("container.cuda-visible", CHECK_CONTAINER | CHECK_TRAINING, "GPUs left to CUDA",
                 .fn = container_cuda_visible,
                 "CUDA_VISIBLE_DEVICES does not name GPUs that are not here."),
    HEALTH_CHECK("container.slurm", CHECK_CONTAINER, "GPUs of the job", .fn = container_slurm,
                 "A Slurm job sees the GPUs it was given, no more and no fewer."),
    HEALTH_CHECK("container.quota", CHECK_CONTAINER, "CPU quota", .fn = container_quota,
                 "The cgroup's CPU quota is none or whole CPUs."),
    HEALTH_CHECK(
        "container.omp", CHECK_CONTAINER | CHECK_TRAINING, "OpenMP threads", .fn = container_omp,
        "OMP_NUM_THREADS times the ranks fits the usable CPUs. Libraries count the machine's "
        "CPUs, not the quota's."),
    HEALTH_CHECK("container.pids", CHECK_CONTAINER, "process limit", .fn = container_pids,
                 "4,096 processes and threads are allowed."),
    HEALTH_CHECK(
        "container.network", CHECK_CONTAINER, "network", .fn = container_network,
        "A network device other than loopback has an address, and the one NCCL starts over "
        "leads to other nodes: not a link-local link to a BMC."),
    HEALTH_CHECK(
        "container.rdma", CHECK_CONTAINER, "RoCE in this namespace", .fn = container_rdma,
        "RoCE devices have their network device in this network namespace. Sysfs shows all "
        "devices of the host, also those that cannot be used here."),
};

const struct check_table checks_container = { rows, ARRAY_SIZE(rows) };

/* SPDX-License-Identifier: MIT */
/* checks_training: is everything here that a training job stands on?
 *
 * The software of the environment check (CUDA, cuDNN, NCCL, a framework), then what the
 * host gives a job: shared memory, files, processors, memory, disk.  Libraries may be
 * inside a Python environment that is not active here, so a missing one warns and does
 * not fail. */
#include "base/str.h"
#include "base/text/units.h"
#include "health/health_int.h"

/* ---- thresholds ---- */
#define GIB (INT64_C(1) << 30)
enum {
    /* The environment check of the training system: CUDA 12.1, cuDNN 8.9. */
    TRAIN_CUDA_MAJOR = 12,
    TRAIN_CUDA_MINOR = 1,
    TRAIN_CUDNN_MAJOR = 8,
    TRAIN_CUDNN_MINOR = 9,
    /* From 2.21 NCCL chooses the RoCE GID itself; before, it must be pinned by hand. */
    TRAIN_NCCL_MAJOR = 2,
    TRAIN_NCCL_MINOR = 21,
    /* Docker gives /dev/shm 64 MiB; NCCL's guide wants 1 GiB, loader workers pass their
     * batches through it: 1 GiB a GPU, at most 8 asked for. */
    TRAIN_SHM_GIB_MAX = 8,
    /* Loader workers hand each tensor over as an open file; 1024 is soon gone. */
    TRAIN_NOFILE_MIN = 65536,
    /* Main thread, backward thread and two loader workers a GPU. */
    TRAIN_CPUS_PER_GPU = 4,
    /* Host memory in percent of GPU memory.  200 is the usual advice; a DGX H200 has 180
     * (2 TB to 1.13 TB), so warn below 150. */
    TRAIN_MEM_PERCENT = 150,
    /* Room on the local disk for one checkpoint of a GPU memory's worth, and never less
     * than this. */
    TRAIN_DISK_GIB_MIN = 100
};

/* ---- software ---- */
struct soft_rule {
    const char *name;  /* in the inventory */
    const char *label; /* for people */
    int major, minor;  /* least wanted */
    const char *missing, *old;
};

static void soft_judge(const struct hw *hw, const struct soft_rule *r, struct check_out *o)
{
    const struct hw_soft *s = facts_soft(hw, r->name);
    int major, minor;

    if (!s)
        check_warn(o, r->missing, "%s was not found", r->label);
    else if (!s->version || !facts_version(s->version, &major, &minor))
        check_unknown(o, NULL, "%s found%s%s, its version is not told", r->label,
                      s->path ? " at " : "", s->path ? s->path : "");
    else if (facts_version_cmp(s->version, r->major, r->minor) < 0)
        check_warn(o, r->old, "%s %s is older than %d.%d", r->label, s->version, r->major,
                   r->minor);
    else
        check_pass(o, "%s %s", r->label, s->version);
}

/* The toolkit, or the driver that runs programs of a toolkit carried in the framework. */
static void training_cuda(const struct hw *hw, struct check_out *o)
{
    const struct hw_soft *s = facts_soft(hw, "cuda");
    struct maybe d = hw->nvidia.cuda_driver;
    int want = TRAIN_CUDA_MAJOR * 1000 + TRAIN_CUDA_MINOR * 10, major, minor;

    if (d.known && d.v < want)
        check_fail(o, "Install driver 530 or newer; 580 serves CUDA 13.",
                   "the driver serves CUDA %lld.%lld, %d.%d is wanted", (long long)(d.v / 1000),
                   (long long)(d.v % 1000 / 10), TRAIN_CUDA_MAJOR, TRAIN_CUDA_MINOR);
    else if (s && facts_version(s->version, &major, &minor) &&
             facts_version_cmp(s->version, TRAIN_CUDA_MAJOR, TRAIN_CUDA_MINOR) < 0)
        check_warn(o, "Install a newer toolkit, or use a framework that brings its own CUDA.",
                   "toolkit %s is older than %d.%d", s->version, TRAIN_CUDA_MAJOR,
                   TRAIN_CUDA_MINOR);
    else if (d.known)
        check_pass(o, "the driver serves CUDA %lld.%lld%s%s", (long long)(d.v / 1000),
                   (long long)(d.v % 1000 / 10), s ? ", toolkit " : "",
                   s ? s->version ? s->version : "found" : "");
    else
        check_unknown(o, NULL, "no driver tells%s%s", s ? "; toolkit " : "",
                      s ? s->version ? s->version : "found" : "");
}

static void training_cudnn(const struct hw *hw, struct check_out *o)
{
    static const struct soft_rule r = {
        "cudnn",
        "cuDNN",
        TRAIN_CUDNN_MAJOR,
        TRAIN_CUDNN_MINOR,
        "Install it, or run this inside the Python environment or image that brings it.",
        "Install cuDNN 8.9 or newer.",
    };

    soft_judge(hw, &r, o);
}

static void training_nccl(const struct hw *hw, struct check_out *o)
{
    static const struct soft_rule r = {
        "nccl",
        "NCCL",
        TRAIN_NCCL_MAJOR,
        TRAIN_NCCL_MINOR,
        "Install it, or run this inside the Python environment or image that brings it.",
        "Use NCCL 2.21 or newer: it chooses the RoCE GID itself.",
    };

    const struct hw_soft *loaded = facts_soft(hw, "nccl"), *old = NULL;
    int major, minor;

    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, "nccl") &&
            facts_version(hw->software[i].version, &major, &minor) &&
            facts_version_cmp(hw->software[i].version, r.major, r.minor) < 0)
            old = &hw->software[i];
    if (facts_gpus_ok(hw) == 1 && hw->rdma_count == 0 && !loaded)
        check_skip(o, "one GPU and no RDMA device: nothing to talk to");
    else if (old && loaded && loaded->version && !str_eq(old->version, loaded->version))
        check_warn(o, r.old,
                   "NCCL %s%s%s is beside %s: which of them a job loads is for its "
                   "environment",
                   old->version, old->path ? " at " : "", old->path ? old->path : "",
                   loaded->version);
    else
        soft_judge(hw, &r, o);
}

static void training_framework(const struct hw *hw, struct check_out *o)
{
    const struct hw_soft *s = facts_soft(hw, "torch");

    if (s)
        check_pass(o, "torch %s", s->version ? s->version : "found");
    else
        check_warn(o,
                   "Install PyTorch, or run this inside the environment or image of the job; "
                   "nothing to do for another framework.",
                   "torch was not found");
}

static void training_runtime(const struct hw *hw, struct check_out *o)
{
    static const char *const runtimes[] = { "docker", "podman", "containerd", "crio" };
    const struct hw_soft *s = NULL, *kit = facts_soft(hw, "nvidia-container-toolkit");

    for (size_t i = 0; i < ARRAY_SIZE(runtimes) && !s; i++)
        s = facts_soft(hw, runtimes[i]);
    if (facts_in_container(hw))
        check_skip(o, "inside a container: its host has the runtime");
    else if (!s)
        check_skip(o, "no container runtime here");
    else if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else if (!kit)
        check_warn(o,
                   "Install nvidia-container-toolkit and run `nvidia-ctk runtime configure`: "
                   "containers get no GPU without it.",
                   "%s %s without nvidia-container-toolkit", s->name, s->version ? s->version : "");
    else
        check_pass(o, "%s %s, nvidia-container-toolkit %s", s->name,
                   s->version ? s->version : "found", kit->version ? kit->version : "found");
}

static void training_dcgm(const struct hw *hw, struct check_out *o)
{
    const struct hw_soft *s = facts_soft(hw, "dcgm");

    if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else if (maybe_is(hw->nvidia.hostengine_running, 1))
        check_pass(o, "nv-hostengine runs%s%s", s && s->version ? ", DCGM " : "",
                   s && s->version ? s->version : "");
    else if (s)
        check_pass(o, "DCGM %s installed, nv-hostengine does not run here",
                   s->version ? s->version : "");
    else if (facts_in_container(hw))
        check_skip(o, "inside a container: DCGM belongs on the host");
    else
        check_warn(
            o,
            "Install datacenter-gpu-manager for its diagnosis (`dcgmi diag -r 3`); telemetry "
            "here does not need it.",
            "DCGM was not found");
}

/* ---- what the host gives ---- */
static void training_shm(const struct hw *hw, struct check_out *o)
{
    struct maybe shm = hw->limits.shm_bytes;
    size_t gpus = facts_gpus_ok(hw);
    int64_t want = GIB * (gpus < 1                   ? 1
                          : gpus > TRAIN_SHM_GIB_MAX ? TRAIN_SHM_GIB_MAX
                                                     : (int64_t)gpus);
    char have[UNITS_TEXT_MAX];
    const char *remedy =
        check_text(o,
                   "Start the container with --shm-size=%lldg or --ipc=host; in a pod mount an "
                   "emptyDir of medium Memory at /dev/shm; on a host `mount -o remount,size=%lldG "
                   "/dev/shm`.",
                   (long long)(want / GIB), (long long)(want / GIB));

    if (!shm.known) {
        check_unknown(o, NULL, "the size of /dev/shm could not be read");
        return;
    }
    units_bytes_human((uint64_t)shm.v, have);
    if (shm.v < GIB)
        check_fail(o, remedy, "%s in /dev/shm, NCCL and loader workers want %lld GiB", have,
                   (long long)(want / GIB));
    else if (shm.v < want)
        check_warn(o, remedy, "%s in /dev/shm, %lld GiB are wanted for %zu GPUs", have,
                   (long long)(want / GIB), gpus);
    else
        check_pass(o, "%s in /dev/shm", have);
}

static void training_nofile(const struct hw *hw, struct check_out *o)
{
    struct maybe n = hw->limits.nofile;

    if (!n.known)
        check_unknown(o, NULL, "the limit of open files could not be read");
    else if (n.v >= 0 && n.v < TRAIN_NOFILE_MIN)
        check_warn(o,
                   check_text(o,
                              "Raise it: `ulimit -n %d`, '* - nofile %d' in "
                              "/etc/security/limits.d, --ulimit nofile=%d for docker, or "
                              "LimitNOFILE= in the unit.",
                              TRAIN_NOFILE_MIN, TRAIN_NOFILE_MIN, TRAIN_NOFILE_MIN),
                   "%lld open files allowed, %d are wanted", (long long)n.v, TRAIN_NOFILE_MIN);
    else if (n.v < 0)
        check_pass(o, "unlimited");
    else
        check_pass(o, "%lld open files allowed", (long long)n.v);
}

static void training_governor(const struct hw *hw, struct check_out *o)
{
    const char *g = hw->cpu.governor;

    if (!g && hw->place.hypervisor)
        check_skip(o, "the host of this virtual machine decides");
    else if (!g)
        check_unknown(o, NULL, "the kernel tells of no governor");
    else if (str_eq(g, "performance"))
        check_pass(o, "performance");
    else
        check_warn(o, "Run `cpupower frequency-set -g performance`, and at boot.",
                   "%s: kernel launches and loaders wait for clocks to rise", g);
}

static void training_thp(const struct hw *hw, struct check_out *o)
{
    const char *t = hw->memory.thp;

    if (!t)
        check_unknown(o, NULL, "the kernel does not tell");
    else if (str_eq(t, "never"))
        check_warn(o, "Write madvise to /sys/kernel/mm/transparent_hugepage/enabled.",
                   "never: large host buffers pay for small pages");
    else
        check_pass(o, "%s", t);
}

/* Half the memory kept for explicit huge pages is memory the job cannot have. */
static void training_hugepages(const struct hw *hw, struct check_out *o)
{
    int64_t kept = 0, bytes;
    struct maybe total = hw->memory.total_bytes;
    char text[UNITS_TEXT_MAX];

    FOR_EACH(const struct hw_hugepages, h, hw->memory.hugepages) {
        if (h->size_bytes.known && h->free.known &&
            !__builtin_mul_overflow(h->size_bytes.v, h->free.v, &bytes) &&
            __builtin_add_overflow(kept, bytes, &kept))
            kept = INT64_MAX;
    }
    if (hw->memory.hugepages_count == 0 || !total.known)
        check_unknown(o, NULL, "the kernel does not tell");
    else if (kept > total.v / 2)
        check_warn(o, "Lower vm.nr_hugepages, unless the job asks for huge pages itself.",
                   "%s kept for huge pages that nobody uses",
                   units_bytes_human((uint64_t)kept, text));
    else if (kept)
        check_pass(o, "%s kept and free", units_bytes_human((uint64_t)kept, text));
    else
        check_pass(o, "none kept unused");
}

static void training_swap(const struct hw *hw, struct check_out *o)
{
    struct maybe s = hw->memory.swap_bytes;
    char text[UNITS_TEXT_MAX];
    bool kubelet = facts_soft(hw, "kubelet") || hw->place.k8s_pod;

    if (!s.known)
        check_unknown(o, NULL, "the kernel does not tell");
    else if (s.v == 0)
        check_pass(o, "none");
    else if (kubelet)
        check_warn(o, "Run `swapoff -a` and take swap out of /etc/fstab.",
                   "%s on a Kubernetes node, whose kubelet expects none",
                   units_bytes_human((uint64_t)s.v, text));
    else
        check_pass(o, "%s; pinned buffers stay in memory", units_bytes_human((uint64_t)s.v, text));
}

static void training_memory(const struct hw *hw, struct check_out *o)
{
    struct maybe gpu = facts_gpu_mem_bytes(hw), host = facts_host_mem_bytes(hw);
    struct maybe limit = hw->place.mem_limit_bytes;
    bool limited = limit.known && host.known && limit.v < host.v;
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];
    int64_t have = limited ? limit.v : host.v;

    if (!gpu.known || gpu.v <= 0) {
        check_skip(o, "no GPU memory to compare with");
        return;
    }
    if (!host.known) {
        check_unknown(o, NULL, "the machine's memory could not be read");
        return;
    }
    units_bytes_human((uint64_t)have, a);
    units_bytes_human((uint64_t)gpu.v, b);
    if (!limited && host.v < maybe_or(hw->memory.total_bytes, 0))
        check_pass(o, "%s beside %s of GPU memory, as boards with NVLink-C2C have it", a, b);
    else if (have / 100 < gpu.v / 10000 * TRAIN_MEM_PERCENT)
        check_warn(o,
                   "Raise the container's memory limit or add memory; twice the GPUs' leaves room "
                   "for checkpoints, offloading and loader workers.",
                   "%s%s for %s of GPU memory", a, limited ? " by cgroup limit" : "", b);
    else
        check_pass(o, "%s%s for %s of GPU memory", a, limited ? " by cgroup limit" : "", b);
}

static void training_cpus(const struct hw *hw, struct check_out *o)
{
    struct maybe cpus = hw->place.cpus_usable.known ? hw->place.cpus_usable : hw->cpu.threads;
    size_t gpus = facts_gpus_ok(hw);

    if (gpus == 0)
        check_skip(o, "no GPU answers the driver");
    else if (!cpus.known)
        check_unknown(o, NULL, "how many CPUs may be used could not be read");
    else if (cpus.v < (int64_t)gpus * TRAIN_CPUS_PER_GPU)
        check_warn(o, "Ask for more CPUs in the pod, job or container; read data in fewer workers.",
                   "%lld CPUs for %zu GPU%s, %d a GPU are wanted", (long long)cpus.v, gpus,
                   gpus == 1 ? "" : "s", TRAIN_CPUS_PER_GPU);
    else
        check_pass(o, "%lld CPUs for %zu GPU%s", (long long)cpus.v, gpus, gpus == 1 ? "" : "s");
}

/* Nodes of one socket (NPS4, SNC) are one place; where no socket is told, each node is. */
static int64_t place_of_node(const struct hw_numa *n)
{
    return maybe_or(n->socket, maybe_or(n->id, -1));
}

static int64_t place_of_gpu(const struct hw *hw, const struct hw_gpu *g)
{
    for (size_t i = 0; i < hw->numa_count; i++)
        if (g->numa.known && maybe_is(hw->numa[i].id, g->numa.v))
            return place_of_node(&hw->numa[i]);
    return -1;
}

/* Places with processors. */
static size_t places_count(const struct hw *hw)
{
    size_t n = 0;

    for (size_t i = 0; i < hw->numa_count; i++) {
        bool seen = hw->numa[i].id.known && !hw->numa[i].cpus && hw->numa[i].mem_total_bytes.known;

        for (size_t k = 0; k < i; k++)
            seen = seen || place_of_node(&hw->numa[k]) == place_of_node(&hw->numa[i]);
        n += !seen;
    }
    return n;
}

/* Do the GPUs that answer hang on different sockets in equal numbers? */
static void training_numa(const struct hw *hw, struct check_out *o)
{
    size_t most = 0, gpus = facts_gpus_ok(hw), known = 0, places = places_count(hw);
    const char *what = hw->numa_count && hw->numa[0].socket.known ? "socket" : "node";
    int64_t at = -1;

    if (places < 2 || gpus < 2) {
        check_skip(o, gpus < 2             ? "fewer than two GPUs answer"
                      : hw->numa_count < 2 ? "one NUMA node alone"
                                           : "one socket alone");
        return;
    }
    for (size_t i = 0; i < hw->gpus_count; i++) {
        int64_t place = facts_gpu_ok(&hw->gpus[i]) ? place_of_gpu(hw, &hw->gpus[i]) : -1;
        size_t here = 0;

        for (size_t k = 0; place >= 0 && k < hw->gpus_count; k++)
            here += facts_gpu_ok(&hw->gpus[k]) && place_of_gpu(hw, &hw->gpus[k]) == place;
        known += place >= 0;
        if (here > most) {
            most = here;
            at = place;
        }
    }
    if (known < gpus)
        check_unknown(o, NULL, "the NUMA node of %zu GPUs is not known", gpus - known);
    else if (most == gpus)
        check_warn(o,
                   "Bind the job to that node (`numactl --cpunodebind --membind`): memory of the "
                   "other socket is slow for these GPUs.",
                   "all %zu GPUs hang on %s %lld of %zu", gpus, what, (long long)at, places);
    else
        check_pass(o, "%zu GPUs over %zu %ss, at most %zu on one", gpus, places, what, most);
}

/* ---- disk ---- */
/* "/dev/nvme0n1p2" lies on the disk "nvme0n1". */
static const struct hw_disk *disk_of(const struct hw *hw, const struct hw_mount *m)
{
    if (!m->source || !str_starts(m->source, "/dev/"))
        return NULL;
    for (size_t i = 0; i < hw->disks_count; i++)
        if (hw->disks[i].name && str_starts(m->source + 5, hw->disks[i].name))
            return &hw->disks[i];
    return NULL;
}

static const struct hw_mount *roomiest_nvme(const struct hw *hw)
{
    const struct hw_mount *best = NULL;

    FOR_EACH(const struct hw_mount, m, hw->mounts) {
        const struct hw_disk *d = disk_of(hw, m);

        if (!d || !str_eq(d->transport, "nvme") || !m->avail_bytes.known)
            continue;
        if (!best || m->avail_bytes.v > best->avail_bytes.v)
            best = m;
    }
    return best;
}

static void training_disk(const struct hw *hw, struct check_out *o)
{
    const struct hw_mount *m = roomiest_nvme(hw);
    int64_t want = maybe_or(facts_gpu_mem_bytes(hw), 0);
    char have[UNITS_TEXT_MAX], need[UNITS_TEXT_MAX];
    size_t nvme = 0;

    for (size_t i = 0; i < hw->disks_count; i++)
        nvme += str_eq(hw->disks[i].transport, "nvme");
    if (want < TRAIN_DISK_GIB_MIN * GIB)
        want = TRAIN_DISK_GIB_MIN * GIB;
    units_bytes_human((uint64_t)want, need);
    if (hw->disks_count == 0 && hw->mounts_count == 0)
        check_unknown(o, NULL, "neither disks nor mounts could be read");
    else if (!m && nvme)
        check_unknown(o, NULL, "%zu NVMe disks, none mounted here under its own name", nvme);
    else if (!m)
        check_warn(o,
                   "Put the data set's cache and the checkpoints' first copy on a local NVMe disk; "
                   "a network file system slows every epoch and every checkpoint.",
                   "no local NVMe disk here");
    else if (m->avail_bytes.v < want)
        check_warn(
            o,
            "Make room, or write checkpoints elsewhere: one may be as large as the GPUs' memory.",
            "%s free on %s, %s are wanted", units_bytes_human((uint64_t)m->avail_bytes.v, have),
            m->target, need);
    else
        check_pass(o, "%s free on %s", units_bytes_human((uint64_t)m->avail_bytes.v, have),
                   m->target);
}

static const struct health_check rows[] = {
    HEALTH_CHECK("training.cuda", CHECK_TRAINING, "CUDA", .fn = training_cuda,
                 "The driver serves CUDA 12.1 or newer; a toolkit, when installed, is no older. "
                 "Frameworks mostly bring their own, so no toolkit is needed."),
    HEALTH_CHECK("training.cudnn", CHECK_TRAINING, "cuDNN", .fn = training_cudnn,
                 "cuDNN 8.9 or newer, in the system or in a Python environment."),
    HEALTH_CHECK("training.nccl", CHECK_TRAINING, "NCCL", .fn = training_nccl,
                 "NCCL is found; 2.21 or newer chooses the RoCE GID itself."),
    HEALTH_CHECK("training.framework", CHECK_TRAINING, "framework", .fn = training_framework,
                 "PyTorch is found where the job would look."),
    HEALTH_CHECK("training.runtime", CHECK_TRAINING, "container runtime", .fn = training_runtime,
                 "When docker, podman, containerd or CRI-O is installed, so is NVIDIA's container "
                 "toolkit."),
    HEALTH_CHECK(
        "training.dcgm", CHECK_TRAINING, "DCGM", .fn = training_dcgm,
        "DCGM is installed: the deployment checklist asks for it, and its diagnosis is the "
        "vendor's word on a suspect GPU."),
    HEALTH_CHECK(
        "training.shm", CHECK_TRAINING | CHECK_CONTAINER, "shared memory", .fn = training_shm,
        "/dev/shm has 1 GiB a GPU (8 GiB are enough). NCCL and loader workers use it; the 64 "
        "MiB of a plain container end in a bus error."),
    HEALTH_CHECK("training.nofile", CHECK_TRAINING | CHECK_CONTAINER, "open files",
                 .fn = training_nofile,
                 "65,536 open files are allowed: loader workers hand tensors over as open files."),
    HEALTH_CHECK("training.governor", CHECK_TRAINING, "CPU governor", .fn = training_governor,
                 "The CPUs' frequency governor is performance."),
    HEALTH_CHECK("training.thp", CHECK_TRAINING, "transparent huge pages", .fn = training_thp,
                 "Transparent huge pages are not forbidden."),
    HEALTH_CHECK("training.hugepages", CHECK_TRAINING, "reserved huge pages",
                 .fn = training_hugepages,
                 "No more than half of memory is kept for huge pages that nobody uses."),
    HEALTH_CHECK("training.swap", CHECK_TRAINING, "swap", .fn = training_swap,
                 "A Kubernetes node has no swap; elsewhere it is shown, not judged."),
    HEALTH_CHECK(
        "training.memory", CHECK_TRAINING | CHECK_CONTAINER, "host memory", .fn = training_memory,
        "Memory, or the cgroup's limit of it, is at least 1.5 times the GPUs' (twice is the "
        "usual advice, a DGX H200 has 1.8 times)."),
    HEALTH_CHECK(
        "training.cpus", CHECK_TRAINING | CHECK_CONTAINER, "CPUs per GPU", .fn = training_cpus,
        "Four usable CPUs a GPU (affinity, cpuset and quota counted): main thread, backward "
        "thread and two loader workers."),
    HEALTH_CHECK(
        "training.numa", CHECK_TRAINING, "GPUs over NUMA nodes", .fn = training_numa,
        "On a machine of several sockets, not all GPUs hang on one. NUMA nodes of one socket "
        "(NPS4, SNC) count as one."),
    HEALTH_CHECK(
        "training.disk", CHECK_TRAINING, "local disk", .fn = training_disk,
        "A local NVMe disk has room for one checkpoint as large as the GPUs' memory, and at "
        "least 100 GiB."),
};

const struct check_table checks_training = { rows, ARRAY_SIZE(rows) };

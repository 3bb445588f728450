/* SPDX-License-Identifier: MIT */
/* slurm_nodes: machines and partitions of slurm.conf, and gres.conf.
 *
 * Slurm numbers the cores of a machine socket by socket, and so do firmware and kernel number
 * NUMA nodes; that NUMA node k of m holds the k-th m-th of the cores follows from it, and is how
 * a GPU's NUMA node becomes Cores= here. */
#include "base/str.h"
#include "hw/hw.h"
#include "plan/feasible.h"
#include "render/slurm/slurm_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    MIB = 1 << 20,
    GPUS_MAX = 64,
    WEIGHT_GPUS = 5,  /* machines with GPUs weigh so much more than those without */
    WEIGHT_MEMORY = 3 /* and those with much memory at most this */
};

int64_t slurm_memory_mib(const struct spec_node *n)
{
    return feasible_slurm_mib(n);
}

int64_t slurm_cpus(const struct spec_node *n)
{
    return n->cpu_cores.v * n->threads_per_core;
}

static const char *mig_profile(const struct spec_node *n)
{
    return n->gpu && n->gpu->sharing == SPEC_SHARING_MIG ? n->gpu->mig_profile : NULL;
}

/* The driver calls an A100-80GB "nvidia_a100-sxm4-80gb" and an RTX 4090 "nvidia_geforce_rtx_4090",
 * and Slurm wants the type to be part of that: what stands before the first blank or '-' behind a
 * digit, with '_' for those before it. */
const char *slurm_gpu_type(const struct spec_node *n, char out[SLURM_TYPE_MAX])
{
    const char *from = mig_profile(n) ? mig_profile(n) : n->gpu->model;
    bool number = false;
    size_t len = 0;

    for (; from[len] && from[len] != '+' && len + 1 < SLURM_TYPE_MAX; len++) {
        char ch = (char)tolower((unsigned char)from[len]);

        number = number || isdigit((unsigned char)ch);
        if (isalnum((unsigned char)ch) || (ch == '.' && number))
            out[len] = ch;
        else if (number)
            break;
        else
            out[len] = '_';
    }
    out[len] = '\0';
    return out;
}

int64_t slurm_gpu_count(const struct spec_node *n)
{
    return feasible_gpus(n);
}

/* --- NodeName --- */

/* How often the memory of a machine without GPUs is twice that of the smallest of its capacity.
 * Small differences count for nothing: a job over several machines would be torn apart by them. */
static int memory_weight(const struct slurm *c, const struct spec_node *n)
{
    int64_t least = n->memory_bytes.v;
    int doubled = 0;

    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *m = &c->r->spec->nodes[i];

        if (slurm_has(c, m) && !m->gpus_per_node && m->capacity == n->capacity &&
            m->memory_bytes.v < least)
            least = m->memory_bytes.v;
    }
    for (; doubled < WEIGHT_MEMORY && n->memory_bytes.v / 2 >= least; doubled++)
        least *= 2;
    return doubled;
}

/* Cheap machines are filled first, those without GPUs before those with, and of these the ones
 * with much memory last: jobs that need it have no other. */
static int node_weight(const struct slurm *c, const struct spec_node *n)
{
    static const int by_capacity[] = {
        [SPEC_CAPACITY_OWNED] = 1,
        [SPEC_CAPACITY_RESERVED] = 10,
        [SPEC_CAPACITY_SPOT] = 100,
        [SPEC_CAPACITY_ON_DEMAND] = 200,
    };

    return by_capacity[n->capacity] + (n->gpus_per_node ? WEIGHT_GPUS : memory_weight(c, n));
}

static const char *capacity_word(enum spec_capacity k)
{
    static const char *const words[] = {
        [SPEC_CAPACITY_OWNED] = "owned",
        [SPEC_CAPACITY_RESERVED] = "reserved",
        [SPEC_CAPACITY_ON_DEMAND] = "on_demand",
        [SPEC_CAPACITY_SPOT] = "spot",
    };

    return words[k];
}

/* Group, capacity, GPU type and rack, each once: a job may ask for them with --constraint. */
static void put_features(const struct spec_node *n, struct buf *out)
{
    char type[SLURM_TYPE_MAX];
    const char *all[] = { n->name, capacity_word(n->capacity),
                          n->gpu ? slurm_gpu_type(n, type) : NULL, n->rack };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        bool seen = !all[i];

        for (size_t k = 0; k < i; k++)
            seen = seen || str_eq(all[k], all[i]);
        if (!seen)
            buf_addf(out, "%s%s", i ? "," : " Feature=", all[i]);
    }
}

/* Where the figures are a machine's and not the spec's. */
static void node_learned(const struct slurm *c, struct buf *out, const struct spec_node *n)
{
    if (spec_learned_from(c->r->spec, &n->cpu_cores))
        buf_addf(out, "# cores: %s\n", render_from(c->r, &n->cpu_cores));
    if (spec_learned_from(c->r->spec, &n->memory_bytes))
        buf_addf(out, "# memory: %s\n", render_from(c->r, &n->memory_bytes));
}

static void node_line(struct slurm *c, struct buf *out, const struct spec_node *n)
{
    struct buf hosts = slurm_hosts_of(n);
    char type[SLURM_TYPE_MAX];

    buf_addf(out,
             "# %s: %" PRId64 " machine%s, %s; %" PRId64 " MiB of each are left to the system\n",
             n->name, n->count, n->count == 1 ? "" : "s", render_from(c->r, &n->name),
             n->memory_bytes.v / MIB - slurm_memory_mib(n));
    node_learned(c, out, n);
    buf_addf(out,
             "NodeName=%s Sockets=%" PRId64 " CoresPerSocket=%" PRId64 " ThreadsPerCore=%" PRId64
             " RealMemory=%" PRId64,
             buf_str(&hosts), n->sockets, n->cpu_cores.v / n->sockets, n->threads_per_core,
             slurm_memory_mib(n));
    if (n->gpus_per_node) {
        buf_addf(out, " Gres=gpu:%s:%" PRId64, slurm_gpu_type(n, type), slurm_gpu_count(n));
        slurm_node_parts(c, n, out);
    }
    put_features(n, out);
    buf_addf(out, " Weight=%d State=%s\n", node_weight(c, n),
             slurm_sleeps(c, n) ? "CLOUD" : "UNKNOWN");
    buf_release(&hosts);
}

void slurm_nodes(struct slurm *c, struct buf *out)
{
    slurm_part(out, "machines");
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (slurm_has(c, &c->r->spec->nodes[i]))
            node_line(c, out, &c->r->spec->nodes[i]);
}

/* --- PartitionName --- */

/* Seconds that a job of a partition has to save in when it is pushed aside: the longest notice of
 * its machines, which is what the batch scripts count on.  Without it the signal and the end come
 * together. */
static int64_t partition_grace_s(const struct slurm *c, const struct spec_partition *p)
{
    size_t count;
    const struct spec_node **groups = slurm_partition_groups(c, p, &count);
    int64_t most = SLURM_NOTICE_S_MIN;

    for (size_t i = 0; i < count; i++) {
        int64_t s = slurm_seconds(groups[i]->notice_ms);

        most = s > most ? s : most;
    }
    free(groups);
    return most;
}

static void partition_rules(const struct slurm *c, const struct spec_partition *p,
                            struct slurm_share share, struct buf *out)
{
    char time[SLURM_TIME_MAX];

    buf_addf(out, " MaxTime=%s",
             p && p->time_limit_ms.known ? slurm_time(p->time_limit_ms.v, time) : "UNLIMITED");
    buf_addf(out, " DefaultTime=%s", slurm_time(slurm_default_time_ms(c, p), time));
    if (p)
        buf_addf(out, " PriorityTier=%" PRId64 " PriorityJobFactor=%" PRId64, p->priority,
                 p->priority);
    if (p && slurm_keeps_qos(c))
        for (size_t i = 0; i < p->qos.count; i++)
            buf_addf(out, "%s%s", i ? "," : " AllowQos=", p->qos.items[i]);
    if (p && slurm_preempt_by(c) == SLURM_PREEMPT_PARTITION) {
        buf_addf(out, " PreemptMode=%s", slurm_preempt_word(p->preempt));
        if (p->preempt == SPEC_PREEMPT_REQUEUE || p->preempt == SPEC_PREEMPT_CANCEL)
            buf_addf(out, " GraceTime=%" PRId64, partition_grace_s(c, p));
    }
    if (c->s->gang || slurm_suspends(c))
        buf_addf(out, " OverSubscribe=FORCE:%d", c->s->gang ? 2 : 1);
    buf_addf(out, " DefMemPerCPU=%" PRId64, share.cpu_mib);
    if (share.gpu_cpus)
        buf_addf(out, " DefCpuPerGPU=%" PRId64 " DefMemPerGPU=%" PRId64, share.gpu_cpus,
                 share.gpu_mib);
}

static void partition_line(struct slurm *c, struct buf *out, const struct spec_partition *p)
{
    bool first = !p || p->is_default || c->s->partition_count == 1; /* jobs that name none */
    size_t count;
    const struct spec_node **groups = slurm_partition_groups(c, p, &count);

    buf_addf(out, "# %s\n",
             slurm_is_implied(p) ? "the spec names no partition" : render_from(c->r, &p->name));
    buf_addf(out, "PartitionName=%s", p ? p->name : SLURM_MAIN);
    buf_adds(out, " Nodes=");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_addc(out, ',');
        slurm_hosts_add(out, groups[i]);
    }
    buf_addf(out, " Default=%s", first ? "YES" : "NO");
    partition_rules(c, slurm_is_implied(p) ? NULL : p, slurm_share_of(groups, count), out);
    buf_adds(out, " State=UP\n");
    free(groups);
}

void slurm_partitions(struct slurm *c, struct buf *out)
{
    slurm_part(out, "partitions");
    buf_adds(
        out,
        "# DefaultTime, DefMemPerCPU, DefCpuPerGPU, DefMemPerGPU: what a job gets that asks for\n"
        "# nothing, so that jobs share a machine; memory of a job without GPUs goes by its\n"
        "# hardware threads, that of one with GPUs by its GPUs.\n");
    for (size_t i = 0; i < c->s->partition_count; i++)
        partition_line(c, out, &c->s->partitions[i]);
    if (!c->s->partition_count)
        partition_line(c, out, NULL);
    for (size_t i = 0; slurm_implied(c, i); i++)
        partition_line(c, out, slurm_implied(c, i));
}

/* --- gres.conf --- */

struct gres_place { /* of one GPU */
    int64_t minor, numa;
};

/* Places of a group's GPUs by the inventory of a machine that is like it; false: none is. */
static bool places_of(const struct hw *hw, const struct spec_node *n, struct gres_place *out)
{
    int64_t m;

    if (!hw || hw->gpus_count != (size_t)n->gpus_per_node || hw->gpus_count > GPUS_MAX ||
        !hw->numa_count || !maybe_is(hw->cpu.cores, n->cpu_cores.v) ||
        n->cpu_cores.v % (int64_t)hw->numa_count)
        return false;
    m = (int64_t)hw->numa_count;
    for (size_t i = 0; i < hw->gpus_count; i++) {
        const struct hw_gpu *g = &hw->gpus[i];

        if (!g->minor.known || !g->numa.known || g->numa.v < 0 || g->numa.v >= m)
            return false;
        out[i] = (struct gres_place){ g->minor.v, g->numa.v };
    }
    for (size_t i = 1; i < hw->gpus_count; i++) /* a few: by device number */
        for (size_t k = i; k && out[k - 1].minor > out[k].minor; k--) {
            struct gres_place t = out[k];

            out[k] = out[k - 1];
            out[k - 1] = t;
        }
    return true;
}

static void gres_line(struct buf *out, const struct spec_node *n, const char *hosts, int64_t first,
                      int64_t last)
{
    char type[SLURM_TYPE_MAX];

    buf_addf(out, "NodeName=%s Name=gpu Type=%s File=/dev/nvidia", hosts, slurm_gpu_type(n, type));
    if (first == last)
        buf_addf(out, "%" PRId64, first);
    else
        buf_addf(out, "[%" PRId64 "-%" PRId64 "]", first, last);
}

static void gres_cores(struct buf *out, int64_t cores, int64_t part, int64_t parts)
{
    int64_t each = cores / parts;

    buf_addf(out, " Cores=%" PRId64 "-%" PRId64 "\n", part * each, (part + 1) * each - 1);
}

/* The same places on all machines of the group whose inventory is there: one line serves all. */
static const struct hw *places_shared(struct slurm *c, const struct spec_node *n,
                                      struct gres_place *out)
{
    const struct hw *first = NULL, *hw;
    struct gres_place other[GPUS_MAX] = { 0 };

    for (size_t at = 0; (hw = render_machine_next(c->r, n, &at));) {
        if (!places_of(hw, n, first ? other : out))
            continue;
        if (first && (hw->numa_count != first->numa_count ||
                      memcmp(out, other, (size_t)n->gpus_per_node * sizeof(*out)) != 0)) {
            render_warn(c->r, n, "Make two groups of them, or let slurmd ask the driver.",
                        "machines of group '%s' have their GPUs on different NUMA nodes; their "
                        "cores are not taken from the inventories",
                        n->name);
            return NULL;
        }
        first = first ? first : hw;
    }
    return first;
}

static void gres_by_inventory(struct buf *out, const struct spec_node *n, const char *hosts,
                              const struct hw *hw, const struct gres_place *at)
{
    int64_t last;

    buf_adds(out, "# cores by NUMA node, from the inventory\n");
    for (int64_t i = 0; i < n->gpus_per_node; i = last + 1) {
        for (last = i; last + 1 < n->gpus_per_node && at[last + 1].numa == at[i].numa &&
                       at[last + 1].minor == at[last].minor + 1;)
            last++;
        gres_line(out, n, hosts, at[i].minor, at[last].minor);
        gres_cores(out, n->cpu_cores.v, at[i].numa, (int64_t)hw->numa_count);
    }
}

static void gres_by_socket(struct buf *out, const struct spec_node *n, const char *hosts)
{
    int64_t each = n->gpus_per_node / n->sockets;

    if (n->gpus_per_node % n->sockets) {
        buf_addf(out,
                 "# %" PRId64 " GPUs do not spread evenly over %" PRId64
                 " sockets, and there is no inventory of such a machine: cores are left open\n",
                 n->gpus_per_node, n->sockets);
        gres_line(out, n, hosts, 0, n->gpus_per_node - 1);
        buf_addc(out, '\n');
        return;
    }
    buf_addf(out,
             "# no inventory of such a machine: the GPUs spread evenly over %" PRId64 " socket%s\n",
             n->sockets, n->sockets == 1 ? "" : "s");
    for (int64_t k = 0; k < n->sockets; k++) {
        gres_line(out, n, hosts, k * each, (k + 1) * each - 1);
        gres_cores(out, n->cpu_cores.v, k, n->sockets);
    }
}

static void gres_group(struct slurm *c, struct buf *out, const struct spec_node *n)
{
    struct buf hosts = slurm_hosts_of(n);
    struct gres_place at[GPUS_MAX] = { 0 };
    const struct hw *hw;

    buf_addf(out, "\n# %s: %" PRId64 " x %s, %s\n", n->name, n->gpus_per_node, n->gpu->model,
             render_from(c->r, &n->gpus_per_node));
    if (mig_profile(n)) {
        buf_addf(out,
                 "# MIG instances have no device of their own number: the driver is asked, for\n"
                 "# which slurmd needs its NVML plug-in (Debian: slurm-wlm-nvml-plugin)\n"
                 "NodeName=%s AutoDetect=nvml\n",
                 buf_str(&hosts));
    } else if ((hw = places_shared(c, n, at))) {
        gres_by_inventory(out, n, buf_str(&hosts), hw, at);
    } else {
        gres_by_socket(out, n, buf_str(&hosts));
    }
    slurm_gres_parts(c, n, buf_str(&hosts), out);
    buf_release(&hosts);
}

void slurm_gres_conf(struct slurm *c)
{
    struct buf *out = render_file(c->r, "slurm/gres.conf");

    render_head(c->r, out, "#", "gres.conf: the GPUs of each machine, for slurmd.");
    buf_adds(out,
             "#\n"
             "# Devices are named, which every build of slurmd can read.  Where slurmd was built\n"
             "# with NVML, 'AutoDetect=nvml' in place of all lines below finds the same and the\n"
             "# links between GPUs; Debian has it as slurm-wlm-nvml-plugin.\n"
             "AutoDetect=off\n");
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (n->gpus_per_node && slurm_has(c, n))
            gres_group(c, out, n);
    }
}

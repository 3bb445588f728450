/* SPDX-License-Identifier: MIT */
/* slurm_sharing: GPUs that several jobs use at once, as generic resources beside gres/gpu.
 *
 *   gpu.sharing: mps           gres/mps, 100 a GPU: --gres=mps:25 is a quarter of its threads
 *   gpu.sharing: time_slicing  gres/shard, one a GB of memory: --gres=shard:10 is 10 GB of a GPU
 *   gpu.sharing: auto          whichever the pools of jobs ask for that have no GPU of their own
 *   gpu.sharing: mig           instances are gres/gpu themselves, see slurm_nodes.c
 *
 * A GPU is given as a whole or in parts, never both at a time; Slurm sees to that.  Parts of one
 * job come from one GPU.  Shards are counted and not fenced: a job that takes more memory than it
 * asked for is stopped by nobody. */
#include "base/str.h"
#include "plan/plan.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

enum { MPS_PER_GPU = 100, GB = 1000 * 1000 * 1000 };

/* memory; 0: not known */
static int64_t slurm_gpu_bytes(const struct spec_node *n)
{
    struct plan_gpu gpu;

    if (!n->gpu)
        return 0;
    if (n->gpu->memory_bytes.known)
        return n->gpu->memory_bytes.v;
    return plan_gpu_by_name(n->gpu->model, &gpu, NULL) ? 0 : gpu.mem_bytes;
}

/* Has the job part of a GPU, by a memory pool and no GPU of its own? */
bool slurm_job_shares(const struct spec_component *k)
{
    return !k->gpus && k->pools.count;
}

static enum slurm_sharing wanted_sharing(const struct slurm *c, const struct spec_node *n)
{
    enum slurm_sharing want = SLURM_SHARING_NONE;

    for (size_t i = 0; i < c->r->spec->component_count; i++) {
        const struct spec_component *k = &c->r->spec->components[i];

        if (!slurm_is_job(k) || !slurm_job_shares(k) || !spec_component_on(c->r->spec, k, n))
            continue;
        for (size_t p = 0; p < k->pools.count; p++) {
            const struct spec_pool *pool = spec_pool_find(c->r->spec, k->pools.items[p]);

            if (pool && pool->sharing == SPEC_SHARING_MPS)
                return SLURM_SHARING_MPS;
        }
        want = SLURM_SHARING_SHARD;
    }
    return want;
}

enum slurm_sharing slurm_sharing_of(const struct slurm *c, const struct spec_node *n)
{
    if (!n->gpus_per_node || !n->gpu)
        return SLURM_SHARING_NONE;
    switch (n->gpu->sharing) {
    case SPEC_SHARING_MPS:
        return SLURM_SHARING_MPS;
    case SPEC_SHARING_TIME_SLICING:
        return SLURM_SHARING_SHARD;
    case SPEC_SHARING_AUTO:
        return wanted_sharing(c, n);
    case SPEC_SHARING_NONE:
    case SPEC_SHARING_MIG:
        break;
    }
    return SLURM_SHARING_NONE;
}

const char *slurm_sharing_word(enum slurm_sharing s)
{
    return s == SLURM_SHARING_MPS ? "mps" : "shard";
}

static int64_t parts_per_gpu(enum slurm_sharing s, const struct spec_node *n)
{
    int64_t gb = slurm_gpu_bytes(n) / GB;

    return s == SLURM_SHARING_SHARD && gb ? gb : MPS_PER_GPU;
}

int64_t slurm_gpu_parts(const struct slurm *c, const struct spec_node *n)
{
    return parts_per_gpu(slurm_sharing_of(c, n), n);
}

/* Parts of one GPU that the pools of a job are, rounded up. */
int64_t slurm_job_parts(const struct slurm *c, const struct spec_component *k,
                        const struct spec_node *n)
{
    int64_t bytes = 0, all = slurm_gpu_bytes(n);
    int64_t parts = parts_per_gpu(slurm_sharing_of(c, n), n), want;

    for (size_t i = 0; i < k->pools.count; i++) {
        const struct spec_pool *p = spec_pool_find(c->r->spec, k->pools.items[i]);

        bytes += p ? p->size_bytes : 0;
    }
    if (!all || bytes >= all)
        return parts;
    want = (parts * bytes + all - 1) / all;
    return want > 1 ? want : 1;
}

static bool any_sharing(const struct slurm *c, enum slurm_sharing s)
{
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (slurm_has(c, n) && slurm_sharing_of(c, n) == s)
            return true;
    }
    return false;
}

bool slurm_has_mps(const struct slurm *c)
{
    return any_sharing(c, SLURM_SHARING_MPS);
}

bool slurm_has_shards(const struct slurm *c)
{
    return any_sharing(c, SLURM_SHARING_SHARD);
}

/* --- slurm.conf and gres.conf --- */

void slurm_gres_types(const struct slurm *c, struct buf *out)
{
    bool gpus = false;

    for (size_t i = 0; i < c->r->spec->node_count; i++)
        gpus = gpus || (c->r->spec->nodes[i].gpus_per_node && slurm_has(c, &c->r->spec->nodes[i]));
    if (gpus)
        buf_addf(out, "\nGresTypes=gpu%s%s\n", slurm_has_mps(c) ? ",mps" : "",
                 slurm_has_shards(c) ? ",shard" : "");
}

/* ",mps:800" behind the GPUs of a machine. */
void slurm_node_parts(const struct slurm *c, const struct spec_node *n, struct buf *out)
{
    enum slurm_sharing s = slurm_sharing_of(c, n);

    if (s != SLURM_SHARING_NONE)
        buf_addf(out, ",%s:%" PRId64, slurm_sharing_word(s),
                 parts_per_gpu(s, n) * n->gpus_per_node);
}

void slurm_gres_parts(struct slurm *c, const struct spec_node *n, const char *hosts,
                      struct buf *out)
{
    enum slurm_sharing s = slurm_sharing_of(c, n);

    if (s == SLURM_SHARING_NONE)
        return;
    buf_addf(out, "# %s: %" PRId64 " a GPU, %s\n", render_from(c->r, &n->gpu->sharing),
             parts_per_gpu(s, n),
             s == SLURM_SHARING_MPS ? "percent of its threads" : "about a GB of its memory each");
    /* without the flag only one GPU of a machine is shared by MPS at a time */
    buf_addf(out, "NodeName=%s Name=%s Count=%" PRId64 "%s\n", hosts, slurm_sharing_word(s),
             parts_per_gpu(s, n) * n->gpus_per_node,
             s == SLURM_SHARING_MPS ? " Flags=all_sharing" : "");
}

/* SPDX-License-Identifier: MIT */
/* swap: weights out to pinned host memory, so that their place on the GPU is free, and back.
 *
 * The addresses stay reserved: memory that comes back is mapped where it was, and pointers into
 * it, those of graphs too, are good as they are.  Weights do not change, so what was copied out
 * once stays on the host, and going out again copies nothing. */
#include "engine/cuda/cuda_int.h"

enum { REGIONS = CU_WEIGHT_REGIONS };

static void regions_of(struct cuda_net *e, struct region *out[REGIONS])
{
    out[0] = &e->small;
    out[1] = &e->matrices;
    out[2] = &e->matrices8; /* not open but with fp8 */
}

/* All regions of weights, one behind the other. */
static bool copy_all(struct cuda_net *e, bool out, struct cu_try *t)
{
    enum cudaMemcpyKind kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    unsigned char *host = e->aside;
    struct region *all[REGIONS];

    regions_of(e, all);
    for (size_t i = 0; i < REGIONS; i++) {
        unsigned char *gpu = all[i]->base;
        size_t bytes = e->weight_bytes[i];

        if (bytes &&
            !cu_ok(t, cudaMemcpyAsync(out ? host : gpu, out ? gpu : host, bytes, kind, e->stream),
                   "cudaMemcpyAsync", "weights"))
            return false;
        host += bytes;
    }
    return cu_ok(t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "weights");
}

enum rc net_swap_out(struct cuda_net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    struct region *all[REGIONS];
    size_t bytes = 0;

    if (e->away)
        return RC_OK;
    regions_of(e, all);
    for (size_t i = 0; i < REGIONS; i++)
        bytes += e->weight_bytes[i] = all[i]->used;
    if (!cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "a batch"))
        return t.rc;
    if (!e->aside &&
        cu_ok(&t, cudaHostAlloc((void **)&e->aside, bytes, cudaHostAllocDefault), "cudaHostAlloc",
              "weights") &&
        !copy_all(e, true, &t)) {
        (void)cudaFreeHost(e->aside);
        e->aside = NULL;
    }
    if (t.rc != RC_OK)
        return t.rc;
    for (size_t i = 0; i < REGIONS; i++)
        if (all[i]->gpu)
            region_empty(all[i]);
    if (e->products.room.gpu)
        region_empty(&e->products.room);
    e->away = true;
    return RC_OK;
}

enum rc net_swap_in(struct cuda_net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    struct region *all[REGIONS];

    if (!e->away)
        return RC_OK;
    regions_of(e, all);
    for (size_t i = 0; i < REGIONS && t.rc == RC_OK; i++)
        if (all[i]->gpu)
            t.rc = region_commit(all[i], e->weight_bytes[i], e->stream, err);
    if (t.rc == RC_OK && e->products.room.gpu)
        t.rc = region_commit(&e->products.room, GK_LT_WORKSPACE_BYTES, e->stream, err);
    if (t.rc == RC_OK)
        (void)copy_all(e, false, &t);
    if (t.rc == RC_OK)
        e->away = false;
    return t.rc;
}

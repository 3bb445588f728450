/* SPDX-License-Identifier: MIT */
/* swap: weights out to pinned host memory, so that their place on the GPU is free, and back.
 *
 * The addresses stay reserved: memory that comes back is mapped where it was, and pointers into
 * it, those of graphs too, are good as they are.  Weights do not change, so what was copied out
 * once stays on the host, and going out again copies nothing. */
#include "engine/cuda/cuda_int.h"

/* Both regions of weights, one behind the other. */
static bool copy_all(struct net *e, size_t small, size_t matrices, bool out, struct cu_try *t)
{
    enum cudaMemcpyKind kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    unsigned char *host = e->aside, *host2 = e->aside + small;
    unsigned char *gpu = e->small.base, *gpu2 = e->matrices.base;

    return cu_ok(t, cudaMemcpyAsync(out ? host : gpu, out ? gpu : host, small, kind, e->stream),
                 "cudaMemcpyAsync", "tables") &&
           cu_ok(t,
                 cudaMemcpyAsync(out ? host2 : gpu2, out ? gpu2 : host2, matrices, kind, e->stream),
                 "cudaMemcpyAsync", "matrices") &&
           cu_ok(t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "weights");
}

enum rc net_swap_out(struct net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };

    if (e->away)
        return RC_OK;
    e->small_bytes = e->small.used;
    e->matrices_bytes = e->matrices.used;
    if (!cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "a batch"))
        return t.rc;
    if (!e->aside &&
        cu_ok(&t,
              cudaHostAlloc((void **)&e->aside, e->small_bytes + e->matrices_bytes,
                            cudaHostAllocDefault),
              "cudaHostAlloc", "weights") &&
        !copy_all(e, e->small_bytes, e->matrices_bytes, true, &t)) {
        (void)cudaFreeHost(e->aside);
        e->aside = NULL;
    }
    if (t.rc != RC_OK)
        return t.rc;
    region_empty(&e->small);
    region_empty(&e->matrices);
    if (e->products.room.gpu)
        region_empty(&e->products.room);
    e->away = true;
    return RC_OK;
}

enum rc net_swap_in(struct net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };

    if (!e->away)
        return RC_OK;
    t.rc = region_commit(&e->small, e->small_bytes, e->stream, err);
    if (t.rc == RC_OK)
        t.rc = region_commit(&e->matrices, e->matrices_bytes, e->stream, err);
    if (t.rc == RC_OK && e->products.room.gpu)
        t.rc = region_commit(&e->products.room, GK_LT_WORKSPACE_BYTES, e->stream, err);
    if (t.rc == RC_OK)
        (void)copy_all(e, e->small_bytes, e->matrices_bytes, false, &t);
    if (t.rc == RC_OK)
        e->away = false;
    return t.rc;
}

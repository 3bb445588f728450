/* SPDX-License-Identifier: MIT */
/* gpu_arena: the memory of one GPU that this process holds.
 *
 * A region is a range of addresses, reserved for the most it may ever want, with memory of the
 * GPU mapped behind its beginning:
 *
 *     base          used      committed                          reserved
 *      |############|.........|                                     |
 *      |<- handle 0 ->|<- 1 ->|
 *
 * Growing maps more behind what is there: nothing is copied, and pointers stay good.  Memory
 * comes in grains of 2 MiB, so nothing but the last grain of a region is ever lost, whatever
 * models come and go: addresses are many, and any free grain fits any region.
 *
 * The driver's functions are asked for by name, so that the plug-in links only the runtime. */
#include "engine/cuda/cuda_int.h"

#include <assert.h>
#include <cudaTypedefs.h>

enum { VMM_VERSION = 10020 }; /* of CUDA, in which these functions came */

static struct {
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemAddressFree_v10020 unreserve;
    PFN_cuMemCreate_v10020 create;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemSetAccess_v10020 access;
    PFN_cuMemGetAllocationGranularity_v10020 grain;
} vmm;

static bool find_symbol(const char *name, void *out)
{
    enum cudaDriverEntryPointQueryResult found;

    return cudaGetDriverEntryPointByVersion(name, out, VMM_VERSION, cudaEnableDefault, &found) ==
               cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
}

static bool find_all(void)
{
    return find_symbol("cuMemAddressReserve", &vmm.reserve) &&
           find_symbol("cuMemAddressFree", &vmm.unreserve) &&
           find_symbol("cuMemCreate", &vmm.create) && find_symbol("cuMemRelease", &vmm.release) &&
           find_symbol("cuMemMap", &vmm.map) && find_symbol("cuMemUnmap", &vmm.unmap) &&
           find_symbol("cuMemSetAccess", &vmm.access) &&
           find_symbol("cuMemGetAllocationGranularity", &vmm.grain);
}

static CUmemAllocationProp memory_of(const struct gpu *g)
{
    return (
        CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = g->index } };
}

/* With the arena locked. */
static enum rc prepare_gpu(struct gpu *g, struct err *err)
{
    CUmemAllocationProp prop = memory_of(g);

    if (g->arena.ready)
        return RC_OK;
    if (!find_all() || vmm.grain(&g->arena.grain, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return cu_host()->fail(err, RC_NODEV,
                               "GPU '%s' or its driver has no virtual memory to allocate with",
                               g->name);
    g->arena.ready = true;
    return RC_OK;
}

enum rc region_open(struct gpu *g, const char *what, size_t reserve, struct region *out,
                    struct err *err)
{
    CUdeviceptr base = 0;
    CUresult e = CUDA_SUCCESS;
    enum rc rc;

    assert(!out->gpu);
    (void)pthread_mutex_lock(&g->arena.lock);
    rc = prepare_gpu(g, err);
    if (rc == RC_OK) {
        reserve = cu_round_up(reserve ? reserve : 1, g->arena.grain);
        e = vmm.reserve(&base, reserve, 0, 0, 0);
        if (e)
            rc = cu_host()->fail(err, RC_LIMIT, "%s: %zu bytes of addresses of GPU '%s': error %d",
                                 what, reserve, g->name, (int)e);
    }
    if (rc == RC_OK) {
        g->arena.reserved += reserve;
        g->arena.regions++;
        *out = (struct region){
            .gpu = g, .what = what, .base = (unsigned char *)(uintptr_t)base, .reserved = reserve
        };
    }
    (void)pthread_mutex_unlock(&g->arena.lock);
    return rc;
}

static enum rc no_memory(const struct region *r, size_t bytes, CUresult e, struct err *err)
{
    size_t free_bytes = 0, total = 0;

    (void)cudaMemGetInfo(&free_bytes, &total);
    return cu_host()->fail(err, e == CUDA_ERROR_OUT_OF_MEMORY ? RC_LIMIT : RC_NODEV,
                           "GPU %d '%s' gave no memory for %s: %zu bytes were asked, %zu of %zu "
                           "are free (error %d)",
                           r->gpu->index, r->gpu->name, r->what, bytes, free_bytes, total, (int)e);
}

/* Maps `bytes` more; with the arena locked. */
static CUresult map_more(struct region *r, size_t bytes, CUmemGenericAllocationHandle *out)
{
    CUmemAllocationProp prop = memory_of(r->gpu);
    CUmemAccessDesc access = { .location = prop.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)(r->base + r->committed);
    CUresult e = vmm.create(out, bytes, &prop, 0);

    if (e)
        return e;
    e = vmm.map(at, bytes, 0, *out, 0);
    if (!e) {
        e = vmm.access(at, bytes, &access, 1);
        if (e)
            (void)vmm.unmap(at, bytes);
    }
    if (e)
        (void)vmm.release(*out);
    return e;
}

static void keep_handle(struct region *r, CUmemGenericAllocationHandle h, size_t bytes)
{
    size_t n = r->handle_count + 1;
    CUmemGenericAllocationHandle *handles = cu_host()->alloc(n, sizeof(*handles));
    size_t *sizes = cu_host()->alloc(n, sizeof(*sizes));

    for (size_t i = 0; i < r->handle_count; i++) {
        handles[i] = r->handles[i];
        sizes[i] = r->sizes[i];
    }
    handles[n - 1] = h;
    sizes[n - 1] = bytes;
    free(r->handles);
    free(r->sizes);
    r->handles = handles;
    r->sizes = sizes;
    r->handle_count = n;
}

enum rc region_commit(struct region *r, size_t bytes, cudaStream_t s, struct err *err)
{
    struct cu_arena *a = &r->gpu->arena;
    size_t was = r->committed, want = cu_round_up(bytes, a->grain);
    CUmemGenericAllocationHandle h;
    struct cu_try t = { r->gpu, err, RC_OK };
    CUresult e = CUDA_SUCCESS;

    assert(want <= r->reserved);
    (void)pthread_mutex_lock(&a->lock);
    if (want > r->committed)
        e = map_more(r, want - r->committed, &h);
    if (e == CUDA_SUCCESS && want > r->committed) {
        keep_handle(r, h, want - r->committed);
        a->committed += want - r->committed;
        r->committed = want;
    }
    if (e == CUDA_SUCCESS && bytes > r->used) {
        a->used += bytes - r->used;
        r->used = bytes;
    }
    (void)pthread_mutex_unlock(&a->lock);
    if (e)
        return no_memory(r, want - was, e, err);
    if (r->committed > was)
        (void)cu_ok(&t, cudaMemsetAsync(r->base + was, 0, r->committed - was, s), "cudaMemsetAsync",
                    r->what);
    return t.rc;
}

/* With the arena locked. */
static void unmap_all(struct region *r)
{
    unsigned char *at = r->base;

    for (size_t i = 0; i < r->handle_count; i++) {
        (void)vmm.unmap((CUdeviceptr)(uintptr_t)at, r->sizes[i]);
        (void)vmm.release(r->handles[i]);
        at += r->sizes[i];
    }
    r->gpu->arena.committed -= r->committed;
    r->gpu->arena.used -= r->used;
    free(r->handles);
    free(r->sizes);
    r->handles = NULL;
    r->sizes = NULL;
    r->handle_count = r->committed = r->used = 0;
}

void region_empty(struct region *r)
{
    assert(r->gpu);
    (void)pthread_mutex_lock(&r->gpu->arena.lock);
    unmap_all(r);
    (void)pthread_mutex_unlock(&r->gpu->arena.lock);
}

void region_close(struct region *r)
{
    struct gpu *g = r->gpu;

    if (!g)
        return;
    (void)pthread_mutex_lock(&g->arena.lock);
    unmap_all(r);
    (void)vmm.unreserve((CUdeviceptr)(uintptr_t)r->base, r->reserved);
    g->arena.reserved -= r->reserved;
    g->arena.regions--;
    (void)pthread_mutex_unlock(&g->arena.lock);
    *r = (struct region){ 0 };
}

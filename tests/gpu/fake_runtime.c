/* SPDX-License-Identifier: MIT */
/* fake_runtime: the calls of the CUDA runtime and driver that the engine makes (fake_gpu.h).
 * FAKE_GPU_BYTES is all the memory there is; FAKE_GPU_FAILS=N makes the N-th launch fail, and
 * everything behind it: an error that stays; FAKE_GPU_NAME is what it is called; FAKE_GPU_IDLE=1:
 * it computes nothing.  Its clock, for events, runs by what launches say they take. */
#include "fake_gpu.h"

#include <assert.h>
#include <cuda.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GRAIN = 2 << 20, LAUNCHES_MAX = 1 << 16 };

struct CUgraph_st {
    struct fake_launch *list;
    size_t count;
};

static struct CUgraph_st *captured; /* NULL: nothing is captured */
static atomic_size_t memory_used;
static long launches;
static double clock_us;
static bool broken;

static size_t memory_all(void)
{
    const char *text = getenv("FAKE_GPU_BYTES");

    return text ? (size_t)strtoull(text, NULL, 10) : (size_t)8 << 30;
}

static cudaError_t state(void)
{
    return broken ? cudaErrorIllegalAddress : cudaSuccess;
}

double fake_us(const char *variable, double us)
{
    const char *text = getenv(variable);

    return text ? strtod(text, NULL) : us;
}

/* ---- launches and graphs ---- */
cudaError_t fake_launch(const struct fake_launch *l)
{
    const char *fails = getenv("FAKE_GPU_FAILS");

    if (fails && ++launches >= strtol(fails, NULL, 10))
        broken = true;
    if (broken)
        return state();
    if (!captured) {
        if (!getenv("FAKE_GPU_IDLE"))
            fake_run(l);
        clock_us += l->us;
        return cudaSuccess;
    }
    assert(captured->count < LAUNCHES_MAX);
    captured->list[captured->count++] = *l;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void)s, (void)mode;
    captured = calloc(1, sizeof(*captured));
    captured->list = calloc(LAUNCHES_MAX, sizeof(*captured->list));
    return state();
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    (void)s;
    *out = captured;
    captured = NULL;
    return state();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    struct CUgraph_st *copy = calloc(1, sizeof(*copy));

    (void)flags;
    copy->count = g->count;
    copy->list = calloc(g->count ? g->count : 1, sizeof(*copy->list));
    memcpy(copy->list, g->list, g->count * sizeof(*copy->list));
    *out = (cudaGraphExec_t)(void *)copy;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{
    struct CUgraph_st *g = (struct CUgraph_st *)(void *)e;

    (void)s;
    for (size_t i = 0; i < g->count && !broken; i++)
        (void)fake_launch(&g->list[i]);
    return state();
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    free(g->list);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    return cudaGraphDestroy((struct CUgraph_st *)(void *)e);
}

/* ---- the device ---- */
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int device)
{
    (void)device;
    *v = a == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    const char *name = getenv("FAKE_GPU_NAME");

    (void)device;
    memset(p, 0, sizeof(*p));
    (void)snprintf(p->name, sizeof(p->name), "%s", name ? name : "Fake H200");
    p->major = 9;
    p->multiProcessorCount = 132;
    p->totalGlobalMem = memory_all();
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return state();
}

cudaError_t cudaDeviceSynchronize(void)
{
    return state();
}

cudaError_t cudaGetLastError(void)
{
    return state();
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory"
           : e == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                          : "an error";
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *all = memory_all();
    *left = *all - atomic_load(&memory_used);
    return state();
}

/* ---- streams and events ---- */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    (void)flags;
    *s = malloc(1);
    return state();
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    (void)s;
    return state();
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    double *at = calloc(1, sizeof(*at));

    *e = (cudaEvent_t)(void *)at;
    return state();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void)flags;
    return cudaEventCreate(e);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    (void)s;
    *(double *)(void *)e = clock_us;
    return state();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void)s;
    (void)e;
    (void)flags;
    return state();
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    (void)e;
    return state();
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    *ms = (float)((*(double *)(void *)b - *(double *)(void *)a) * 1e-3);
    return state();
}

/* ---- memory ---- */
cudaError_t cudaMalloc(void **p, size_t n)
{
    *p = malloc(n);
    memset(*p, 0xff, n);
    return state();
}

cudaError_t cudaFree(void *p)
{
    free(p);
    return state();
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    (void)flags;
    return cudaMalloc(p, n);
}

cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int c, size_t n, cudaStream_t s)
{
    (void)s;
    memset(p, c, n);
    return state();
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind k)
{
    (void)k;
    memcpy(to, from, n);
    return state();
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind k,
                            cudaStream_t s)
{
    (void)s;
    return cudaMemcpy(to, from, n, k);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind k, cudaStream_t s)
{
    (void)k, (void)s;
    assert(width <= to_pitch && width <= from_pitch);
    for (size_t i = 0; i < height; i++)
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return state();
}

/* ---- virtual memory: addresses without rights, then rights ---- */
static CUresult vm_reserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr at,
                           unsigned long long flags)
{
    void *base = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)align, (void)at, (void)flags;
    *p = (CUdeviceptr)(uintptr_t)base;
    return base == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult vm_unreserve(CUdeviceptr p, size_t n)
{
    return munmap((void *)(uintptr_t)p, n) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult vm_create(CUmemGenericAllocationHandle *h, size_t n,
                          const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)prop, (void)flags;
    assert(n % GRAIN == 0);
    if (atomic_load(&memory_used) + n > memory_all())
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_fetch_add(&memory_used, n);
    *h = n;
    return CUDA_SUCCESS;
}

static CUresult vm_release(CUmemGenericAllocationHandle h)
{
    atomic_fetch_sub(&memory_used, h);
    return CUDA_SUCCESS;
}

static CUresult vm_map(CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle h,
                       unsigned long long flags)
{
    (void)p, (void)offset, (void)flags;
    return h == n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult vm_unmap(CUdeviceptr p, size_t n)
{
    return mprotect((void *)(uintptr_t)p, n, PROT_NONE) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult vm_access(CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t count)
{
    (void)d, (void)count;
    if (mprotect((void *)(uintptr_t)p, n, PROT_READ | PROT_WRITE))
        return CUDA_ERROR_INVALID_VALUE;
    memset((void *)(uintptr_t)p, 0xff, n);
    return CUDA_SUCCESS;
}

static CUresult vm_grain(size_t *out, const CUmemAllocationProp *prop,
                         CUmemAllocationGranularity_flags f)
{
    (void)prop, (void)f;
    *out = GRAIN;
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } all[] = {
        { "cuMemAddressReserve", (void (*)(void))vm_reserve },
        { "cuMemAddressFree", (void (*)(void))vm_unreserve },
        { "cuMemCreate", (void (*)(void))vm_create },
        { "cuMemRelease", (void (*)(void))vm_release },
        { "cuMemMap", (void (*)(void))vm_map },
        { "cuMemUnmap", (void (*)(void))vm_unmap },
        { "cuMemSetAccess", (void (*)(void))vm_access },
        { "cuMemGetAllocationGranularity", (void (*)(void))vm_grain },
    };

    (void)version, (void)flags;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0) {
            memcpy(out, &all[i].fn, sizeof(*out));
            *found = cudaDriverEntryPointSuccess;
            return cudaSuccess;
        }
    return cudaErrorInvalidValue;
}

/* SPDX-License-Identifier: MIT */
/* probe: does CUDA work on each GPU, as a fact?
 *
 * For each device: its properties; then a kernel whose blocks ask for so much shared
 * memory that an SM holds one at a time, so that all SMs take part, and which writes a
 * word that depends on its place; the host compares every word.  Then a timed copy
 * inside the GPU's memory.  An error belongs to its device: the next one is still asked.
 *
 * Bounds: 4 MiB pattern, copies of at most 1 GiB or an eighth of the free memory. */
#include "engine/cuda/cuda_plugin.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace
{

enum {
    PATTERN_WORDS = 1 << 20,
    BLOCK_THREADS = 256,
    WAVES = 4,          /* blocks a SM */
    SM_WORDS = 1 << 10, /* one a SM id; ids may have gaps and end far above the count */
    COPY_MAX = 1 << 30,
    COPY_MIN = 64 << 20, /* smaller copies time the launch and the L2 cache */
    COPY_TIMES = 8
};

/* What the kernel writes at place i: every bit depends on every bit of i (the finishing
 * steps of MurmurHash3, a bijection of 32 bits). */
__host__ __device__ inline uint32_t pattern_at(uint32_t i)
{
    i ^= i >> 16;
    i *= 0x85ebca6bu;
    i ^= i >> 13;
    i *= 0xc2b2ae35u;
    return i ^ (i >> 16);
}

__global__ void pattern_write(uint32_t *out, uint32_t words, uint32_t *sm_seen)
{
    uint32_t sm, step = gridDim.x * blockDim.x;

    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (threadIdx.x == 0 && sm < SM_WORDS)
        atomicOr(&sm_seen[sm], 1u);
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        out[i] = pattern_at(i);
}

/* One device's probe: the caller's callbacks and what must be freed. */
struct probe_run {
    const struct stoker_cuda_probe_opts *opts;
    struct stoker_cuda_device *dev;
    uint32_t *dev_words, *dev_seen; /* device memory */
    uint32_t *host_words;           /* PATTERN_WORDS + SM_WORDS */
    void *from, *to;                /* device memory of the copy */
    cudaEvent_t begin, end;
};

void step(struct probe_run *r, const char *call)
{
    char text[STOKER_CUDA_TEXT_MAX];

    if (!r->opts->step)
        return;
    snprintf(text, sizeof(text), "%.100s on CUDA device %d", call, r->dev->index);
    r->opts->step(r->opts->arg, text);
}

/* Notes the first failure; true when the call worked. */
bool ok(struct probe_run *r, cudaError_t e, const char *call)
{
    if (e == cudaSuccess)
        return true;
    if (!r->dev->error[0])
        snprintf(r->dev->error, sizeof(r->dev->error), "%.40s: %.100s (%d)", call,
                 cudaGetErrorString(e), (int)e);
    return false;
}

int attribute(struct probe_run *r, enum cudaDeviceAttr a)
{
    int v = 0;

    (void)ok(r, cudaDeviceGetAttribute(&v, a, r->dev->index), "cudaDeviceGetAttribute");
    return v;
}

bool read_properties(struct probe_run *r)
{
    struct stoker_cuda_device *d = r->dev;
    static struct cudaDeviceProp prop; /* large, and one probe runs at a time */
    size_t free_bytes = 0, total_bytes = 0;

    step(r, "cudaGetDeviceProperties");
    if (!ok(r, cudaGetDeviceProperties(&prop, d->index), "cudaGetDeviceProperties"))
        return false;
    snprintf(d->name, sizeof(d->name), "%.95s", prop.name);
    snprintf(d->bdf, sizeof(d->bdf), "%04x:%02x:%02x.0", (unsigned)prop.pciDomainID,
             (unsigned)prop.pciBusID, (unsigned)prop.pciDeviceID);
    d->cc_major = prop.major;
    d->cc_minor = prop.minor;
    d->sms = prop.multiProcessorCount;
    d->l2_bytes = (uint64_t)prop.l2CacheSize;
    d->shared_block_bytes = prop.sharedMemPerBlockOptin;
    d->mem_bytes = prop.totalGlobalMem;
    step(r, "cudaSetDevice");
    if (!ok(r, cudaSetDevice(d->index), "cudaSetDevice"))
        return false;
    step(r, "cudaMemGetInfo");
    if (!ok(r, cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"))
        return false;
    d->mem_free_bytes = free_bytes;
    return true;
}

bool launch(struct probe_run *r)
{
    int shared = attribute(r, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    int blocks = r->dev->sms * WAVES;

    if (r->dev->error[0])
        return false;
    if (!ok(r,
            cudaFuncSetAttribute(pattern_write, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 shared),
            "cudaFuncSetAttribute"))
        return false;
    step(r, "pattern kernel");
    pattern_write<<<blocks, BLOCK_THREADS, shared>>>(r->dev_words, PATTERN_WORDS, r->dev_seen);
    return ok(r, cudaGetLastError(), "kernel launch") &&
           ok(r, cudaDeviceSynchronize(), "pattern kernel");
}

void compare(struct probe_run *r)
{
    const uint32_t *seen = r->host_words + PATTERN_WORDS;

    r->dev->words = PATTERN_WORDS;
    for (uint32_t i = 0; i < PATTERN_WORDS; i++)
        r->dev->bad_words += r->host_words[i] != pattern_at(i);
    for (uint32_t i = 0; i < SM_WORDS; i++)
        r->dev->sms_used += seen[i] != 0;
}

bool run_pattern(struct probe_run *r)
{
    size_t words = PATTERN_WORDS * sizeof(uint32_t), seen = SM_WORDS * sizeof(uint32_t);

    r->host_words = (uint32_t *)calloc(PATTERN_WORDS + SM_WORDS, sizeof(uint32_t));
    if (!r->host_words) {
        snprintf(r->dev->error, sizeof(r->dev->error), "no host memory for the pattern");
        return false;
    }
    step(r, "cudaMalloc");
    if (!ok(r, cudaMalloc((void **)&r->dev_words, words), "cudaMalloc of 4 MiB") ||
        !ok(r, cudaMalloc((void **)&r->dev_seen, seen), "cudaMalloc of 4 KiB") ||
        !ok(r, cudaMemset(r->dev_words, 0xff, words), "cudaMemset") ||
        !ok(r, cudaMemset(r->dev_seen, 0, seen), "cudaMemset") || !launch(r))
        return false;
    step(r, "cudaMemcpy to the host");
    if (!ok(r, cudaMemcpy(r->host_words, r->dev_words, words, cudaMemcpyDeviceToHost),
            "cudaMemcpy") ||
        !ok(r, cudaMemcpy(r->host_words + PATTERN_WORDS, r->dev_seen, seen, cudaMemcpyDeviceToHost),
            "cudaMemcpy"))
        return false;
    compare(r);
    return true;
}

/* COPY_TIMES copies between two events, after one that warms up. */
bool copy_timed(struct probe_run *r, size_t bytes)
{
    float ms = 0;

    if (!ok(r, cudaEventCreate(&r->begin), "cudaEventCreate") ||
        !ok(r, cudaEventCreate(&r->end), "cudaEventCreate"))
        return false;
    step(r, "copy in device memory");
    for (int i = 0; i <= COPY_TIMES; i++) {
        if (i == 1 && !ok(r, cudaEventRecord(r->begin), "cudaEventRecord"))
            return false;
        if (!ok(r, cudaMemcpyAsync(r->to, r->from, bytes, cudaMemcpyDeviceToDevice),
                "cudaMemcpyAsync"))
            return false;
    }
    if (!ok(r, cudaEventRecord(r->end), "cudaEventRecord") ||
        !ok(r, cudaEventSynchronize(r->end), "copy in device memory") ||
        !ok(r, cudaEventElapsedTime(&ms, r->begin, r->end), "cudaEventElapsedTime"))
        return false;
    if (ms > 0)
        r->dev->copy_gbps = 2.0 * (double)bytes * COPY_TIMES / ((double)ms * 1e6);
    return true;
}

/* A GPU full of somebody's work has no memory for it: the rate stays 0, no error. */
void run_copy(struct probe_run *r)
{
    uint64_t room = r->dev->mem_free_bytes / 8;
    size_t bytes =
        (size_t)(room < (uint64_t)COPY_MAX ? room : (uint64_t)COPY_MAX) & ~(size_t)0xfffff;

    if (bytes < COPY_MIN)
        return;
    step(r, "cudaMalloc");
    if (cudaMalloc(&r->from, bytes) != cudaSuccess || cudaMalloc(&r->to, bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* out of memory is no lasting error */
        return;
    }
    if (ok(r, cudaMemset(r->from, 0x5a, bytes), "cudaMemset"))
        (void)copy_timed(r, bytes);
}

void release(struct probe_run *r)
{
    step(r, "cudaFree");
    if (r->begin)
        (void)cudaEventDestroy(r->begin);
    if (r->end)
        (void)cudaEventDestroy(r->end);
    (void)cudaFree(r->from);
    (void)cudaFree(r->to);
    (void)cudaFree(r->dev_words);
    (void)cudaFree(r->dev_seen);
    free(r->host_words);
    (void)cudaGetLastError();
}

void probe_device(const struct stoker_cuda_probe_opts *opts, int index, int driver, int runtime,
                  struct stoker_cuda_device *out)
{
    struct probe_run r;

    memset(&r, 0, sizeof(r));
    memset(out, 0, sizeof(*out));
    r.opts = opts;
    r.dev = out;
    out->index = index;
    out->driver_version = driver;
    out->runtime_version = runtime;
    if (read_properties(&r) && run_pattern(&r))
        run_copy(&r);
    release(&r);
}

/* Why CUDA did not start, in words that tell the two common causes apart. */
void say_no_start(cudaError_t e, int driver, int runtime, char *err)
{
    if (driver == 0)
        snprintf(err, STOKER_CUDA_TEXT_MAX, "no CUDA driver on this machine");
    else if (driver / 1000 < runtime / 1000)
        snprintf(err, STOKER_CUDA_TEXT_MAX,
                 "the driver serves CUDA %d.%d, the plug-in was built with %d.%d", driver / 1000,
                 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else
        snprintf(err, STOKER_CUDA_TEXT_MAX, "CUDA did not start: %s (%d)", cudaGetErrorString(e),
                 (int)e);
}

} // namespace

#define EXPORT __attribute__((visibility("default")))

extern "C" EXPORT int stoker_cuda_version(void)
{
    return CUDART_VERSION;
}

extern "C" EXPORT int stoker_cuda_abi(void)
{
    return STOKER_CUDA_ABI;
}

extern "C" EXPORT int stoker_cuda_probe(const struct stoker_cuda_probe_opts *opts,
                                        struct stoker_cuda_device *out, int max, int *count,
                                        char err[STOKER_CUDA_TEXT_MAX])
{
    int driver = 0, runtime = 0, devices = 0;
    cudaError_t e;

    if (opts->step)
        opts->step(opts->arg, "cudaGetDeviceCount");
    (void)cudaDriverGetVersion(&driver); /* stays 0 when there is no driver */
    (void)cudaRuntimeGetVersion(&runtime);
    e = cudaGetDeviceCount(&devices);
    if (e == cudaErrorNoDevice)
        devices = 0;
    else if (e != cudaSuccess) {
        say_no_start(e, driver, runtime, err);
        return -1;
    }
    if (devices > max)
        devices = max;
    for (int i = 0; i < devices; i++) {
        probe_device(opts, i, driver, runtime, &out[i]);
        if (opts->done)
            opts->done(opts->arg, &out[i]);
    }
    *count = devices;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* cuda_report: what the CUDA plug-in tells about a model that is loaded, for tests and benchmarks.
 *
 * The functions are exported by stoker-cuda.so beside the engine itself: whoever loaded that
 * finds them with dlsym(). */
#ifndef ENGINE_CUDA_CUDA_REPORT_INT_H
#define ENGINE_CUDA_CUDA_REPORT_INT_H
#include <stdbool.h>
#include <stdint.h>

struct eng;

/* Memory of one GPU that this process holds through the arena. */
struct stoker_cuda_memory {
    uint64_t reserved;  /* addresses, which cost nothing */
    uint64_t committed; /* bytes of the GPU behind them */
    uint64_t used;      /* of those, bytes that hold something; the rest is lost to rounding */
    uint64_t regions;
    uint64_t gpu_free, gpu_total; /* as the driver says */
};

/* All return false where there is no such thing. */
bool stoker_cuda_memory(const struct eng *e, struct stoker_cuda_memory *out);
/* Where the time of the last run() went, in milliseconds of device events around each step of
 * every layer; recorded where STOKER_CUDA_PROFILE=1 was set when the model was loaded, which also
 * keeps graphs and programmatic launches away: what a step takes by itself. */
enum {
    STOKER_CUDA_EMBED,
    STOKER_CUDA_QKV,
    STOKER_CUDA_ATTENTION,
    STOKER_CUDA_O,
    STOKER_CUDA_NORM1,
    STOKER_CUDA_FFN1,
    STOKER_CUDA_FFN2,
    STOKER_CUDA_NORM2,
    STOKER_CUDA_TAIL,
    STOKER_CUDA_STEPS
};
bool stoker_cuda_profile(const struct eng *e, double out[STOKER_CUDA_STEPS]);
/* Graphs kept, runs that replayed one. */
bool stoker_cuda_graphs(const struct eng *e, uint64_t *kept, uint64_t *replayed);

#endif

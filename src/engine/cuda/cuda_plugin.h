/* SPDX-License-Identifier: MIT */
/* cuda_plugin: what stoker and its CUDA plug-in (stoker-cuda.so) say to each other.
 *
 * The plug-in is a shared object built by nvcc with the CUDA runtime inside it, so that
 * the program itself needs no CUDA to build or to run.  C and CUDA both include this
 * header; the layout of the structs is the contract, and STOKER_CUDA_ABI counts its
 * changes.  A program that finds another number uses nothing else of the plug-in.
 *
 * Only engine/plugin.c loads it, for a probe always in a child process: any call may hang. */
#ifndef ENGINE_CUDA_CUDA_PLUGIN_H
#define ENGINE_CUDA_CUDA_PLUGIN_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOKER_CUDA_ABI 1
enum {
    STOKER_CUDA_DEVICES_MAX = 64, /* devices told in one probe */
    STOKER_CUDA_NAME_MAX = 96,
    STOKER_CUDA_TEXT_MAX = 160
};

struct stoker_cuda_device {
    int index;                       /* CUDA's, after CUDA_VISIBLE_DEVICES */
    char name[STOKER_CUDA_NAME_MAX]; /* "NVIDIA H200" */
    char bdf[32];                    /* "0000:1b:00.0", lower case */
    int cc_major, cc_minor;          /* compute capability */
    int sms;                         /* streaming multiprocessors */
    int sms_used;                    /* different ones that took part in the kernel */
    uint64_t mem_bytes;
    uint64_t mem_free_bytes; /* before the probe took any */
    uint64_t l2_bytes;
    uint64_t shared_block_bytes; /* most shared memory a block may have, opted in */
    int driver_version;          /* 13000: CUDA 13.0 */
    int runtime_version;
    uint64_t words;                   /* 32-bit words the kernel wrote */
    uint64_t bad_words;               /* of them wrong, as the host saw it */
    double copy_gbps;                 /* device to device, read plus write, 10^9 bytes a second;
                                         0: no memory was free for it */
    char error[STOKER_CUDA_TEXT_MAX]; /* "" when all of it worked; else what did not, and why */
};

struct stoker_cuda_probe_opts {
    /* Told before each call that may hang ("cudaSetDevice(3)"); may be NULL. */
    void (*step)(void *arg, const char *what);
    /* Told after each device is done; may be NULL. */
    void (*done)(void *arg, const struct stoker_cuda_device *dev);
    void *arg;
};

/* STOKER_CUDA_ABI of the plug-in. */
int stoker_cuda_abi(void);
/* The CUDA it was built with, 13000: 13.0.  Calls no driver.  Not in plug-ins before 0.2. */
int stoker_cuda_version(void);

/* Probes every CUDA device, one after the other: 0 and *count devices in out[], some of
 * them perhaps with an error of their own; or -1 and the reason in err, when CUDA itself
 * did not start.  `out` holds `max` devices. */
int stoker_cuda_probe(const struct stoker_cuda_probe_opts *opts, struct stoker_cuda_device *out,
                      int max, int *count, char err[STOKER_CUDA_TEXT_MAX]);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: MIT */
/* A CUDA plug-in without CUDA, to test who asks it: FAKE_KIND is what it does. */
#include "engine/cuda/cuda_plugin.h"

#include <stdlib.h>
#include <unistd.h>

enum { FAKE_GOOD, FAKE_WRONG, FAKE_NO_START, FAKE_HANG, FAKE_CRASH, FAKE_OTHER_ABI, FAKE_EMPTY };

int stoker_cuda_abi(void)
{
    return FAKE_KIND == FAKE_OTHER_ABI ? STOKER_CUDA_ABI + 1 : STOKER_CUDA_ABI;
}

int stoker_cuda_version(void)
{
    return 13000;
}

static void fill(struct stoker_cuda_device *d, int index)
{
    *d = (struct stoker_cuda_device){ .index = index,
                                      .name = "NVIDIA\tH200\n",
                                      .bdf = "0000:1b:00.0",
                                      .cc_major = 9,
                                      .sms = 132,
                                      .sms_used = 132,
                                      .mem_bytes = 150000000000u,
                                      .driver_version = 13000,
                                      .runtime_version = 13000,
                                      .words = 1 << 20,
                                      .bad_words = FAKE_KIND == FAKE_WRONG && index ? 7 : 0,
                                      .copy_gbps = 4100.5 };
    d->bdf[6] = (char)('b' + index);
}

int stoker_cuda_probe(const struct stoker_cuda_probe_opts *opts, struct stoker_cuda_device *out,
                      int max, int *count, char err[STOKER_CUDA_TEXT_MAX])
{
    int devices = FAKE_KIND == FAKE_EMPTY ? 0 : 2;

    if (FAKE_KIND == FAKE_NO_START) {
        snprintf(err, STOKER_CUDA_TEXT_MAX, "no CUDA driver on this machine");
        return -1;
    }
    for (int i = 0; i < devices && i < max; i++) {
        opts->step(opts->arg, i ? "cudaSetDevice on CUDA device 1" : "cudaSetDevice");
        if (i == 1 && FAKE_KIND == FAKE_HANG)
            for (;;)
                pause();
        if (i == 1 && FAKE_KIND == FAKE_CRASH)
            abort();
        fill(&out[i], i);
        opts->done(opts->arg, &out[i]);
    }
    *count = devices;
    return 0;
}

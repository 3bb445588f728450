/* SPDX-License-Identifier: MIT */
/* fake_lt: cuBLASLt without the library (fake_gpu.h).  FAKE_LT=FILE: it is there, as that file,
 * with two algorithms, of which the second takes FAKE_LT_US microseconds and the first one more. */
#include "engine/cuda/gemm_lt_int.h"
#include "fake_gpu.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct gk_lt {
    char path[256];
};

enum { FIRST = 0x41, SECOND };

bool gk_lt_open(struct gk_lt **out, char err[GK_LT_TEXT_MAX])
{
    const char *path = getenv("FAKE_LT");

    if (!path) {
        (void)snprintf(err, GK_LT_TEXT_MAX, "there is none");
        return false;
    }
    *out = calloc(1, sizeof(**out));
    (void)snprintf((*out)->path, sizeof((*out)->path), "%s", path);
    return true;
}

void gk_lt_close(struct gk_lt *lt)
{
    free(lt);
}

const char *gk_lt_path(const struct gk_lt *lt)
{
    return lt->path;
}

int gk_lt_algos(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                const struct gk_lt_room *room, struct gk_lt_algo out[GK_LT_ALGOS_MAX],
                char err[GK_LT_TEXT_MAX])
{
    (void)lt, (void)g, (void)bias16, (void)err;
    assert(room->p && room->bytes == GK_LT_WORKSPACE_BYTES);
    out[0] = (struct gk_lt_algo){ .words = { FIRST } };
    out[1] = (struct gk_lt_algo){ .words = { SECOND } };
    return 2;
}

/* FAKE_LT_FAILS: it has changed its mind. */
bool gk_lt_product(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                   const struct gk_lt_algo *algo, const struct gk_lt_room *room, cudaStream_t s,
                   char err[GK_LT_TEXT_MAX])
{
    (void)lt, (void)s;
    assert(algo->words[0] == FIRST || algo->words[0] == SECOND);
    assert(room->p && bias16);
    if (getenv("FAKE_LT_FAILS")) {
        (void)snprintf(err, GK_LT_TEXT_MAX, "not today");
        return false;
    }
    return fake_launch(&(struct fake_launch){ .kind = FAKE_LT,
                                              .gemm = *g,
                                              .bias16 = bias16,
                                              .us = fake_us("FAKE_LT_US", 30) +
                                                    (algo->words[0] == FIRST) }) == cudaSuccess;
}

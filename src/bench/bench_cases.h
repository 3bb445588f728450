/* SPDX-License-Identifier: MIT */
/* bench_cases: what an engine is measured on: texts of given lengths, in packed batches.
 *
 *   100x128    100 texts of 128 tokens, one batch
 *   corpus     4,096 texts of log-normal lengths: median 90, at most 512
 *   @FILE      texts of the lengths that the file names, a number a line
 *
 * Tokens are random, and depend on nothing but the seed and the text's place in its case: the same
 * text has the same tokens in whichever batch it runs, on whichever device. */
#ifndef BENCH_BENCH_CASES_H
#define BENCH_BENCH_CASES_H
#include "engine/engine.h"

enum {
    CASE_TEXTS_MAX = 1 << 20,
    CASE_TOKENS_MAX = 1 << 24,  /* of all texts together */
    CASE_LENGTHS_MAX = 8 << 20, /* bytes of a file of lengths */
    CASE_CORPUS_TEXTS = 4096,
    CASE_BATCH_TOKENS = 32768 /* tokens a batch where lengths differ */
};

struct bench_case {
    const char *name;  /* as it was asked for; borrowed */
    uint32_t *lengths; /* [count], owned */
    size_t count, tokens;
    size_t batch_tokens; /* how it runs unless told otherwise: texts of one length together */
};

/* The texts of a case, sorted by length and cut into batches: the longest first, of equal ones the
 * earlier.  A text that is longer than a batch may be has one for itself; batch_tokens 0: as the
 * case has it. */
struct case_batches {
    struct eng_batch *items; /* [count], owned; they borrow from the arrays below */
    size_t count;
    uint32_t *order; /* [texts]: the text of the case behind each sequence, in the order they run */
    uint32_t *ids;   /* [tokens] */
    uint8_t *types;  /* [tokens]; NULL: the model has none, or no pairs */
    uint32_t *starts; /* [texts + batches] */
};

#endif

/* SPDX-License-Identifier: MIT */
/* bench_int: what the files of bench call of each other, and nobody else. */
#ifndef BENCH_BENCH_INT_H
#define BENCH_BENCH_INT_H
#include "bench/bench_cases.h"
#include "bench/bench_report.h"
#include "os/net/reply.h"

/* ---- hist.c */
void hist_add(struct hist *h, uint64_t v);
void hist_merge(struct hist *h, const struct hist *other);
double hist_mean(const struct hist *h); /* 0 when empty */

/* ---- texts.c */
/* Random numbers that are the same everywhere (splitmix64). */
uint64_t random_u64(uint64_t *state);
double random_unit(uint64_t *state);   /* in (0, 1) */
double random_normal(uint64_t *state); /* mean 0, deviation 1 */

/* ---- bench_api_guess.c */
/* What a body of GET `path` tells; pure, for tests.  True: the API is known now. */
bool api_guess_from(const char *path, const char *body, size_t len, struct api_guess *io);

/* ---- bench_load.c */
const char *load_kind_name(enum load_kind k);
/* Warm-up and one window; adds to *io. */
enum rc load_run(struct bench_load *l, int64_t warmup_ns, int64_t duration_ns,
                 struct load_stats *io, struct err *err) MUST_USE;

/* ---- bench_report.c */
/* With two sides: above 1 the first is the better one.  NAN when not known. */
double report_rps_ratio(const struct report *r); /* the median of the slices' ratios */
double report_p99_ratio(const struct report *r);
int bench_by_value(const void *a, const void *b); /* doubles, for qsort() */

/* ---- bench_cases.c */
/* `seed`: of the corpus' lengths. */
enum rc case_parse(const char *text, uint64_t seed, struct bench_case *out,
                   struct err *err) MUST_USE;
void case_release(struct bench_case *c);
/* Multiplications and additions of the layers for all texts: linear layers and attention. */
double case_operations(const struct bench_case *c, const struct model *m);
void case_cut(const struct bench_case *c, const struct model *m, size_t batch_tokens, uint64_t seed,
              struct case_batches *out);
void case_batches_release(struct case_batches *b);
/* Rows of an output in the order of the batches put into the order of the case. */
void case_sort_rows(const struct bench_case *c, const struct case_batches *b, enum eng_want want,
                    size_t width, const float *rows, float *out);
/* Rows of the whole output: texts, or tokens. */
size_t case_rows(const struct bench_case *c, enum eng_want want);

/* ---- reply_check.c */
enum { CHECK_DEPTH_MAX = 64, CHECK_NUMBER_MAX = 64 /* bytes of a number */ };

/* From the field x-compute-tokens, else "total_tokens", "prompt_tokens", "input_tokens" of
 * the body; -1: the server does not tell. */
int64_t check_tokens(const struct reply *r);

struct check_found {
    size_t vectors; /* arrays of numbers that are embeddings */
    size_t width;   /* of each; 0: none was found */
    size_t scores;  /* members "score" and "relevance_score" */
};

/* RC_PARSE says what is wrong: no JSON, a number that is none, vectors of two widths. */
enum rc check_body(const char *text, size_t len, struct check_found *out, struct err *err) MUST_USE;

#endif

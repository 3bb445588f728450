/* SPDX-License-Identifier: MIT */
/* reply_check: what stands in a server's reply.
 *
 * check_tokens() looks for a count of tokens in the first and last bytes of a body, which
 * costs next to nothing.  check_body() reads a whole body, without a tree: every vector is
 * counted and measured, every number must be finite. */
#ifndef BENCH_REPLY_CHECK_H
#define BENCH_REPLY_CHECK_H
#include "base/err.h"
#include "os/net/reply.h"

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

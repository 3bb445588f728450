/* SPDX-License-Identifier: MIT */
/* texts: what a benchmark sends: lines of a file, or sentences of real words whose
 * lengths are those of a log-normal law, the same for the same seed. */
#ifndef BENCH_TEXTS_H
#define BENCH_TEXTS_H
#include "base/err.h"

#include <stdint.h>

enum {
    TEXTS_FILE_MAX = 256 << 20, /* bytes of a file of texts */
    TEXTS_MAX = 1 << 20,        /* texts in one set; the lines behind are left out */
    TEXTS_TOKENS_MAX = 512      /* tokens of a generated text */
};

struct bench_text { /* borrowed from its set */
    const char *p;
    size_t len;
};

struct texts {
    struct bench_text *items; /* owned */
    size_t count;
    char *bytes; /* owned: what the items borrow from */
};

struct texts_law { /* of lengths in tokens: words, and two for the specials */
    double median, sigma;
    size_t least, most;
};
extern const struct texts_law texts_law_docs;    /* median 90, at most 512 */
extern const struct texts_law texts_law_queries; /* median 12, at most 64 */

/* One text a line; empty lines are left out.  RC_PARSE when none is left. */
enum rc texts_read(const char *path, struct texts *out, struct err *err) MUST_USE;
void texts_make(const struct texts_law *law, size_t count, uint64_t seed, struct texts *out);
void texts_release(struct texts *t);

extern const char *const texts_words[]; /* bench_words.c: lines of words, NULL at the end */

#endif

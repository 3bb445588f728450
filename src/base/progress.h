/* SPDX-License-Identifier: MIT */
/* progress: one line that says how far a long command is, as text.  Whoever has the
 * terminal prints it, behind a carriage return. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H
#include "base/buf.h"

#include <stdint.h>

struct progress {
    double done;        /* 0 to 1; below 0: how much there is, is not known */
    int64_t elapsed_ms; /* since it began */
    uint64_t items;     /* texts so far … */
    const char *what;   /* … and their name, "texts" */
    double rate;        /* a second; below 0: not known */
    const char *unit;   /* "tokens/s" */
};

/* At most `width` columns (80 when 0), no line feed. */
void progress_line(const struct progress *p, int width, struct buf *out);
/* "12,345" and "70.4k": numbers as people read them. */
enum { PROGRESS_TEXT_MAX = 32 };
const char *progress_count(uint64_t n, char out[PROGRESS_TEXT_MAX]);
const char *progress_rate(double v, char out[PROGRESS_TEXT_MAX]);

#endif

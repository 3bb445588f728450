/* SPDX-License-Identifier: MIT */
#include "base/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_WIDTH = 24, BAR_LEAST = 64 /* columns of a terminal that get a bar */ };

const char *progress_count(uint64_t n, char out[PROGRESS_TEXT_MAX])
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *progress_rate(double v, char out[PROGRESS_TEXT_MAX])
{
    static const char *const suffix[] = { "", "k", "M", "G" };
    size_t i = 0;

    if (!(v >= 0) || !isfinite(v)) {
        snprintf(out, PROGRESS_TEXT_MAX, "-");
        return out;
    }
    for (; v >= 999.5 && i + 1 < sizeof(suffix) / sizeof(suffix[0]); i++)
        v /= 1000;
    snprintf(out, PROGRESS_TEXT_MAX, "%.*f%s", i && v < 99.95 ? 1 : 0, v, suffix[i]);
    return out;
}

static void add_bar(double done, struct buf *out)
{
    size_t full = (size_t)(done * BAR_WIDTH);

    buf_addc(out, '[');
    buf_fill(out, '#', full);
    buf_fill(out, '.', BAR_WIDTH - full);
    buf_adds(out, "] ");
}

static void add_left(const struct progress *p, double done, struct buf *out)
{
    double s = (double)p->elapsed_ms / 1000 * (1 - done) / done;

    if (s < 100)
        buf_addf(out, ", %.0f s left", s);
    else if (s < 6000)
        buf_addf(out, ", %.0f min left", s / 60);
    else
        buf_addf(out, ", %.1f h left", s / 3600);
}

void progress_line(const struct progress *p, int width, struct buf *out)
{
    char count[PROGRESS_TEXT_MAX], rate[PROGRESS_TEXT_MAX];
    size_t limit = width > 0 ? (size_t)width : 80, start = out->len;
    double done = p->done > 1 ? 1 : p->done;

    if (done >= 0) {
        if (limit >= BAR_LEAST)
            add_bar(done, out);
        buf_addf(out, "%3.0f%% ", floor(done * 100));
    }
    buf_addf(out, "%s %s", progress_count(p->items, count), p->what);
    if (p->rate >= 0)
        buf_addf(out, ", %s %s", progress_rate(p->rate, rate), p->unit);
    if (done > 0.005 && done < 1)
        add_left(p, done, out);
    if (out->len - start >= limit) { /* only ASCII: bytes are columns */
        out->len = start + limit - 1;
        out->data[out->len] = '\0';
    }
}

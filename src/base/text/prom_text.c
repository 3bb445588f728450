/* SPDX-License-Identifier: MIT */
#include "base/text/prom_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_BITS = 53 }; /* whole numbers a double holds without a gap */

static void add_escaped(struct buf *out, const char *s, const char *special)
{
    for (;;) {
        size_t plain = strcspn(s, special);

        buf_add(out, s, plain);
        s += plain;
        if (!*s)
            return;
        buf_addc(out, '\\');
        buf_addc(out, *s == '\n' ? 'n' : *s);
        s++;
    }
}

void prom_add_head(struct buf *out, const char *name, size_t len, const char *help, bool open,
                   const char *type)
{
    if (help) {
        buf_addf(out, "# HELP %.*s ", (int)len, name);
        add_escaped(out, help, open ? "\\\n\"" : "\\\n");
        buf_addc(out, '\n');
    }
    buf_addf(out, "# TYPE %.*s %s\n", (int)len, name, type);
}

void prom_add_label(struct buf *out, size_t i, const char *name, const char *value)
{
    buf_addc(out, i ? ',' : '{');
    buf_adds(out, name);
    buf_add(out, "=\"", 2);
    add_escaped(out, value, "\\\"\n");
    buf_addc(out, '"');
}

void prom_add_labels_end(struct buf *out, size_t count)
{
    buf_adds(out, count ? "} " : " ");
}

void prom_add_number(struct buf *out, double v)
{
    char text[40];

    if (isnan(v)) {
        buf_adds(out, "NaN");
    } else if (isinf(v)) {
        buf_adds(out, v > 0 ? "+Inf" : "-Inf");
    } else if (v == floor(v) && fabs(v) <= (double)(INT64_C(1) << EXACT_BITS)) {
        buf_addf(out, "%" PRId64, (int64_t)v);
    } else { /* %g leaves trailing zeros out: what 15 digits give back is the shortest already */
        for (int digits = 15; digits <= 17; digits++) {
            (void)snprintf(text, sizeof(text), "%.*g", digits, v);
            if (strtod(text, NULL) == v)
                break;
        }
        buf_adds(out, text);
    }
}

/* SPDX-License-Identifier: MIT */
/* write: the registry as Prometheus text, exposition format 0.0.4. */
#include "base/mem.h"
#include "metrics/metrics_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_BITS = 53 }; /* whole numbers a double holds without a gap */

static const char *const kinds[] = { "counter", "gauge", "histogram" };

/* Backslash and newline always, quotes in label values. */
static void add_escaped(struct buf *out, const char *s, bool quotes)
{
    for (; *s; s++) {
        if (*s == '\\')
            buf_adds(out, "\\\\");
        else if (*s == '\n')
            buf_adds(out, "\\n");
        else if (*s == '"' && quotes)
            buf_adds(out, "\\\"");
        else
            buf_addc(out, *s);
    }
}

/* Whole numbers without exponent while they are exact, others as the shortest text that
 * reads back. */
static void add_number(struct buf *out, double v)
{
    char text[40];

    if (isnan(v)) {
        buf_adds(out, "NaN");
    } else if (isinf(v)) {
        buf_adds(out, v > 0 ? "+Inf" : "-Inf");
    } else if (v == floor(v) && fabs(v) <= (double)(INT64_C(1) << EXACT_BITS)) {
        buf_addf(out, "%" PRId64, (int64_t)v);
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, sizeof(text), "%.*g", digits, v);
            if (strtod(text, NULL) == v)
                break;
        }
        buf_adds(out, text);
    }
}

static void add_name(struct buf *out, const struct metrics_family *f, const char *suffix,
                     const struct series *s, const double *le)
{
    const char *value = s->values;

    buf_adds(out, f->name);
    buf_adds(out, suffix);
    if (f->label_count || le)
        buf_addc(out, '{');
    for (size_t i = 0; i < f->label_count; i++) {
        buf_addf(out, "%s%s=\"", i ? "," : "", f->labels[i]);
        add_escaped(out, value, true);
        buf_addc(out, '"');
        value += strlen(value) + 1;
    }
    if (le) {
        buf_adds(out, f->label_count ? ",le=\"" : "le=\"");
        add_number(out, *le);
        buf_addc(out, '"');
    }
    buf_adds(out, f->label_count || le ? "} " : " ");
}

static void add_counter(struct buf *out, const struct metrics_family *f, const struct series *s)
{
    const struct counter *c = &s->u.counter;

    add_name(out, f, "", s, NULL);
    if (atomic_load_explicit(&c->seconds, memory_order_relaxed) == 0) /* exact beyond 2^53 too */
        buf_addf(out, "%" PRIu64, counter_value(c));
    else
        add_number(out, counter_total(c));
    buf_addc(out, '\n');
}

static void add_histogram(struct buf *out, const struct metrics_family *f, const struct series *s)
{
    const double infinite = INFINITY;
    struct histogram_view v;

    histogram_look(&s->u.histogram, &v);
    for (size_t i = 0; i <= f->bound_count; i++) {
        add_name(out, f, "_bucket", s, i < f->bound_count ? &f->bounds[i] : &infinite);
        buf_addf(out, "%" PRIu64 "\n", v.below[i]);
    }
    add_name(out, f, "_sum", s, NULL);
    add_number(out, v.sum);
    buf_addc(out, '\n');
    add_name(out, f, "_count", s, NULL);
    buf_addf(out, "%" PRIu64 "\n", v.count);
}

static void add_gauge(struct buf *out, const struct metrics_family *f, const struct series *s)
{
    double v = gauge_value(&s->u.gauge);

    if (isnan(v)) /* unknown */
        return;
    add_name(out, f, "", s, NULL);
    add_number(out, v);
    buf_addc(out, '\n');
}

static void add_family(struct buf *out, struct metrics_family *f)
{
    buf_addf(out, "# HELP %s ", f->name);
    add_escaped(out, f->help, false);
    buf_addf(out, "\n# TYPE %s %s\n", f->name, kinds[f->kind]);
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->series_count; i++) {
        switch (f->kind) {
        case METRICS_COUNTER:
            add_counter(out, f, f->series[i]);
            break;
        case METRICS_GAUGE:
            add_gauge(out, f, f->series[i]);
            break;
        case METRICS_HISTOGRAM:
            add_histogram(out, f, f->series[i]);
            break;
        }
    }
    pthread_mutex_unlock(&f->lock);
}

static void call_collectors(struct metrics *m)
{
    size_t count;

    pthread_mutex_lock(&m->collecting);
    pthread_mutex_lock(&m->lock);
    count = m->collector_count; /* rows are only ever added behind */
    pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; i < count; i++)
        m->collectors[i].fn(m->collectors[i].arg);
    pthread_mutex_unlock(&m->collecting);
}

void metrics_write(struct metrics *m, struct buf *out)
{
    struct metrics_family **families;
    size_t count;

    call_collectors(m);
    pthread_mutex_lock(&m->lock);
    count = m->family_count;
    families = xcalloc(count + 1, sizeof(struct metrics_family *));
    memcpy(families, m->families, count * sizeof(struct metrics_family *));
    pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; i < count; i++)
        add_family(out, families[i]);
    free(families);
}

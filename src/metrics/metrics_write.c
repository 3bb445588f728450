/* SPDX-License-Identifier: MIT */
/* metrics_write: the registry as Prometheus text, exposition format 0.0.4. */
#include "base/mem.h"
#include "base/text/prom_text.h"
#include "metrics/metrics_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = { "counter", "gauge", "histogram" };

static void add_name(struct buf *out, const struct metrics_family *f, const char *suffix,
                     const struct series *s, const char *le)
{
    const char *value = s->values;
    size_t count = 0;

    buf_adds(out, f->name);
    buf_adds(out, suffix);
    for (; count < f->label_count; value += strlen(value) + 1, count++)
        prom_add_label(out, count, f->labels[count], value);
    if (le)
        prom_add_label(out, count++, "le", le);
    prom_add_labels_end(out, count);
}

static void add_counter(struct buf *out, const struct metrics_family *f, const struct series *s)
{
    const struct counter *c = &s->u.counter;

    add_name(out, f, "", s, NULL);
    if (atomic_load_explicit(&c->seconds, memory_order_relaxed) == 0) /* exact beyond 2^53 too */
        buf_addf(out, "%" PRIu64, counter_value(c));
    else
        prom_add_number(out, counter_total(c));
    buf_addc(out, '\n');
}

static void add_histogram(struct buf *out, const struct metrics_family *f, const struct series *s)
{
    struct buf le = { 0 };
    struct histogram_view v;

    histogram_look(&s->u.histogram, &v);
    for (size_t i = 0; i <= f->bound_count; i++) {
        buf_reset(&le);
        prom_add_number(&le, i < f->bound_count ? f->bounds[i] : INFINITY);
        add_name(out, f, "_bucket", s, buf_str(&le));
        buf_addf(out, "%" PRIu64 "\n", v.below[i]);
    }
    add_name(out, f, "_sum", s, NULL);
    prom_add_number(out, v.sum);
    buf_addc(out, '\n');
    add_name(out, f, "_count", s, NULL);
    buf_addf(out, "%" PRIu64 "\n", v.count);
    buf_release(&le);
}

static void add_gauge(struct buf *out, const struct metrics_family *f, const struct series *s)
{
    double v = gauge_value(&s->u.gauge);

    if (isnan(v)) /* unknown */
        return;
    add_name(out, f, "", s, NULL);
    prom_add_number(out, v);
    buf_addc(out, '\n');
}

static void add_family(struct buf *out, struct metrics_family *f)
{
    prom_add_head(out, f->name, strlen(f->name), f->help, false, kinds[f->kind]);
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

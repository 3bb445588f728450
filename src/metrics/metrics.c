/* SPDX-License-Identifier: MIT */
/* metrics: families and their series.
 *
 * A family keeps its series in an array sorted by label values, so that a look-up is a
 * binary search and the text comes out in order without sorting.  Values are atomics in
 * cache lines of their own; nothing that counts takes a lock.
 *
 * Locks: `lock` of the registry guards the list of families, `lock` of a family its list
 * of series.  They are never held together and never across a collector, so a scrape of
 * many series makes nobody wait who only counts.
 *
 * Label values may come from outside (a model's name): they are cut to METRICS_VALUE_MAX
 * bytes and made valid UTF-8 before they are looked up, and a registry has at most
 * METRICS_SERIES_MAX series.  What is beyond counts into a series that is never written. */
#include "metrics/metrics.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/utf8.h"
#include "metrics/metrics_int.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(double) == sizeof(uint64_t), "a double is kept as 64 bits");

/* Label values on their way to a look-up: each NUL-terminated, one behind the other. */
struct values {
    char text[METRICS_LABELS_MAX * METRICS_VALUE_MAX];
    size_t len;
};

struct metrics *metrics_new_max(size_t series_max)
{
    struct metrics *m = xcalloc(1, sizeof(*m));
    struct metrics_family *f;

    m->series_max = series_max;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->collecting, NULL);
    f = metrics_family(m, METRICS_COUNTER, "stoker_metrics_series_dropped_total",
                       "Series asked for beyond the registry's limit; they are not written.", NULL,
                       NULL, 0);
    m->dropped = metrics_counter(f);
    return m;
}

struct metrics *metrics_new(void)
{
    return metrics_new_max(METRICS_SERIES_MAX);
}

static void family_free(struct metrics_family *f)
{
    for (size_t i = 0; i < f->series_count; i++)
        free(f->series[i]);
    free(f->series);
    free(f->none);
    free(f->bounds);
    free(f->name);
    free(f->help);
    for (size_t i = 0; i < f->label_count; i++)
        free(f->labels[i]);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->family_count; i++)
        family_free(m->families[i]);
    free(m->families);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->collecting);
    free(m);
}

/* ---- families */

/* [a-zA-Z_:][a-zA-Z0-9_:]*, without the colon for labels */
static bool name_is_valid(const char *s, size_t len, bool colon)
{
    for (size_t i = 0; i < len; i++) {
        bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        bool digit = s[i] >= '0' && s[i] <= '9';

        if (!letter && !(digit && i > 0) && !(colon && s[i] == ':'))
            return false;
    }
    return len > 0;
}

static void labels_set(struct metrics_family *f, const char *labels)
{
    while (labels && *labels) {
        size_t len = strcspn(labels, ",");

        assert(f->label_count < METRICS_LABELS_MAX);
        assert(name_is_valid(labels, len, false) && strncmp(labels, "__", 2) != 0);
        f->labels[f->label_count] = xstrndup(labels, len);
        assert(f->kind != METRICS_HISTOGRAM || !str_eq(f->labels[f->label_count], "le"));
        f->label_count++;
        labels += len;
        labels += *labels == ',';
    }
}

static struct metrics_family *family_new(struct metrics *m, enum metrics_kind kind,
                                         const char *name, const char *help, const char *labels,
                                         const double *buckets, size_t bucket_count)
{
    struct metrics_family *f = xcalloc(1, sizeof(*f));

    assert(name_is_valid(name, strlen(name), true));
    assert(bucket_count <= METRICS_BUCKETS_MAX && (kind == METRICS_HISTOGRAM || !bucket_count));
    f->owner = m;
    f->kind = kind;
    f->name = xstrdup(name);
    f->help = xstrdup(help);
    labels_set(f, labels);
    if (bucket_count && isinf(buckets[bucket_count - 1]))
        bucket_count--; /* +Inf is there in any case */
    f->bound_count = bucket_count;
    f->bounds = xcalloc(bucket_count + 1, sizeof(*f->bounds));
    for (size_t i = 0; i < bucket_count; i++) {
        assert(isfinite(buckets[i]) && (i == 0 || buckets[i] > buckets[i - 1]));
        f->bounds[i] = buckets[i];
    }
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

/* The index of the name, or where it belongs. */
static size_t family_place(const struct metrics *m, const char *name, bool *found)
{
    size_t low = 0, high = m->family_count;

    *found = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(m->families[mid]->name, name);

        if (order == 0) {
            *found = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool family_matches(const struct metrics_family *f, enum metrics_kind kind,
                           const char *labels)
{
    if (f->kind != kind)
        return false;
    for (size_t i = 0; i < f->label_count; i++) {
        size_t len = strlen(f->labels[i]);

        if (!labels || strncmp(labels, f->labels[i], len) != 0)
            return false;
        labels += len;
        if (*labels != (i + 1 < f->label_count ? ',' : '\0'))
            return false;
        labels += *labels == ',';
    }
    return !labels || !*labels;
}

struct metrics_family *metrics_family(struct metrics *m, enum metrics_kind kind, const char *name,
                                      const char *help, const char *labels, const double *buckets,
                                      size_t bucket_count)
{
    struct metrics_family *f;
    bool found;
    size_t at;

    pthread_mutex_lock(&m->lock);
    at = family_place(m, name, &found);
    if (found) {
        f = m->families[at];
        assert(family_matches(f, kind, labels));
    } else {
        f = family_new(m, kind, name, help, labels, buckets, bucket_count);
        VEC_GROW(m->families, m->family_count, m->family_cap);
        memmove(&m->families[at + 1], &m->families[at],
                (m->family_count - at) * sizeof(struct metrics_family *));
        m->families[at] = f;
        m->family_count++;
    }
    pthread_mutex_unlock(&m->lock);
    return f;
}

struct metrics_family *metrics_counters(struct metrics *m, const char *name, const char *help,
                                        const char *labels)
{
    return metrics_family(m, METRICS_COUNTER, name, help, labels, NULL, 0);
}

struct metrics_family *metrics_gauges(struct metrics *m, const char *name, const char *help,
                                      const char *labels)
{
    return metrics_family(m, METRICS_GAUGE, name, help, labels, NULL, 0);
}

struct metrics_family *metrics_timings(struct metrics *m, const char *name, const char *help,
                                       const char *labels)
{
    return metrics_family(m, METRICS_HISTOGRAM, name, help, labels, metrics_durations,
                          metrics_durations_count);
}

/* ---- series */

/* One label value: valid UTF-8, cut between characters. */
static void values_add(struct values *v, const char *s)
{
    size_t left = strlen(s), room = METRICS_VALUE_MAX - 1;

    while (left > 0) {
        uint32_t c;
        size_t step = utf8_decode(s, left, &c);
        const char *from = step ? s : "\xef\xbf\xbd";
        size_t len = step ? step : 3;

        if (len > room)
            break;
        memcpy(&v->text[v->len], from, len);
        v->len += len;
        room -= len;
        s += step ? step : 1;
        left -= step ? step : 1;
    }
    v->text[v->len++] = '\0';
}

static void values_read(struct values *v, const struct metrics_family *f, va_list ap)
{
    v->len = 0;
    for (size_t i = 0; i < f->label_count; i++) {
        const char *s = va_arg(ap, const char *);

        values_add(v, s ? s : "");
    }
}

/* NUL is below every byte of a value, so comparing the whole text compares value by value. */
static int values_order(const struct values *v, const struct series *s)
{
    size_t len = v->len < s->values_len ? v->len : s->values_len;
    int order = memcmp(s->values, v->text, len);

    return order ? order : (s->values_len > v->len) - (s->values_len < v->len);
}

static size_t series_place(const struct metrics_family *f, const struct values *v, bool *found)
{
    size_t low = 0, high = f->series_count;

    *found = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = values_order(v, f->series[mid]);

        if (order == 0) {
            *found = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* One block in cache lines of its own: the numbers, a histogram's buckets, the label values. */
static struct series *series_new(const struct metrics_family *f, const struct values *v)
{
    size_t buckets = f->kind == METRICS_HISTOGRAM ? f->bound_count + 1 : 0;
    size_t head = sizeof(struct series) + buckets * sizeof(uint64_t);
    size_t size = (head + v->len + METRICS_LINE - 1) / METRICS_LINE * METRICS_LINE;
    struct series *s = aligned_alloc(METRICS_LINE, size);

    if (!s)
        return xcalloc(SIZE_MAX, 2); /* the one place where memory runs out says it */
    memset(s, 0, size);
    s->values = (char *)s + head;
    memcpy(s->values, v->text, v->len);
    s->values_len = v->len;
    if (f->kind == METRICS_HISTOGRAM) {
        s->u.histogram.buckets = (_Atomic uint64_t *)(s + 1);
        s->u.histogram.bounds = f->bounds;
        s->u.histogram.bound_count = f->bound_count;
    }
    return s;
}

static bool series_allowed(struct metrics *m)
{
    if (atomic_fetch_add_explicit(&m->series_count, 1, memory_order_relaxed) < m->series_max)
        return true;
    atomic_fetch_sub_explicit(&m->series_count, 1, memory_order_relaxed);
    return false;
}

static struct series *series_get(struct metrics_family *f, enum metrics_kind kind, va_list ap)
{
    struct values v;
    struct series *s;
    bool found, refused = false;
    size_t at;

    assert(f->kind == kind);
    values_read(&v, f, ap);
    pthread_mutex_lock(&f->lock);
    at = series_place(f, &v, &found);
    if (found) {
        s = f->series[at];
    } else if (series_allowed(f->owner)) {
        s = series_new(f, &v);
        VEC_GROW(f->series, f->series_count, f->series_cap);
        memmove(&f->series[at + 1], &f->series[at],
                (f->series_count - at) * sizeof(struct series *));
        f->series[at] = s;
        f->series_count++;
    } else {
        refused = true;
        if (!f->none)
            f->none = series_new(f, &(struct values){ .len = 0 });
        s = f->none;
    }
    pthread_mutex_unlock(&f->lock);
    if (refused && f->owner->dropped)
        counter_add(f->owner->dropped, 1);
    return s;
}

struct counter *metrics_counter(struct metrics_family *f, ...)
{
    struct series *s;
    va_list ap;

    va_start(ap, f);
    s = series_get(f, METRICS_COUNTER, ap);
    va_end(ap);
    return &s->u.counter;
}

struct gauge *metrics_gauge(struct metrics_family *f, ...)
{
    struct series *s;
    va_list ap;

    va_start(ap, f);
    s = series_get(f, METRICS_GAUGE, ap);
    va_end(ap);
    return &s->u.gauge;
}

struct histogram *metrics_histogram(struct metrics_family *f, ...)
{
    struct series *s;
    va_list ap;

    va_start(ap, f);
    s = series_get(f, METRICS_HISTOGRAM, ap);
    va_end(ap);
    return &s->u.histogram;
}

void metrics_drop(struct metrics_family *f, ...)
{
    struct values v;
    va_list ap;
    bool found;
    size_t at;

    va_start(ap, f);
    values_read(&v, f, ap);
    va_end(ap);
    pthread_mutex_lock(&f->lock);
    at = series_place(f, &v, &found);
    if (found) {
        free(f->series[at]);
        f->series_count--;
        memmove(&f->series[at], &f->series[at + 1],
                (f->series_count - at) * sizeof(struct series *));
        atomic_fetch_sub_explicit(&f->owner->series_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&f->lock);
}

void metrics_on_collect(struct metrics *m, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&m->lock);
    assert(m->collector_count < METRICS_COLLECTORS_MAX);
    m->collectors[m->collector_count].fn = fn;
    m->collectors[m->collector_count].arg = arg;
    m->collector_count++;
    pthread_mutex_unlock(&m->lock);
}

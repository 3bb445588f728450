/* SPDX-License-Identifier: MIT */
/* serve_models: what our model server says of its models, as the table's own metrics.
 *
 * Its text has counters and histograms by model; latency over the last minute is the difference of
 * two of its histograms, about a minute apart. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>

enum {
    MODELS_SHOWN_MAX = 64, /* models of a server */
    MODELS_BUCKETS_MAX = 64,
    MODELS_KEPT = 13,      /* histograms kept of each: a minute of 5 s, and one before it */
    MODELS_LINE_MAX = 1024 /* bytes of a line that is looked at */
};

struct latency_buckets {
    double upper[MODELS_BUCKETS_MAX], count[MODELS_BUCKETS_MAX]; /* cumulative */
    size_t n;
};
struct model_shown {
    char name[TELEMETRY_VALUE_MAX];
    struct latency_buckets kept[MODELS_KEPT]; /* a ring */
    size_t newest, filled;
    double requests, tokens, errors, queue, bytes, ready;
    bool seen;
};
struct models_shown {
    struct model_shown list[MODELS_SHOWN_MAX];
    size_t count;
};

struct models_shown *models_shown_new(void)
{
    return xcalloc(1, sizeof(struct models_shown));
}

void models_shown_free(struct models_shown *m)
{
    free(m);
}

/* ---- lines */

/* The value of a label in "name{a="x",b="y"} 1"; false: it has none. */
static bool label_of(const char *line, const char *name, char *out, size_t cap)
{
    char key[64];
    const char *p, *end;

    (void)snprintf(key, sizeof(key), "%s=\"", name);
    p = strstr(line, key);
    if (!p || p == line || (p[-1] != '{' && p[-1] != ','))
        return false;
    p += strlen(key);
    end = strchr(p, '"');
    if (!end || (size_t)(end - p) >= cap)
        return false;
    memcpy(out, p, (size_t)(end - p));
    out[end - p] = '\0';
    return true;
}

static struct model_shown *find_model(struct models_shown *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (str_eq(m->list[i].name, name))
            return &m->list[i];
    if (m->count == MODELS_SHOWN_MAX)
        return NULL;
    (void)str_copy(m->list[m->count].name, TELEMETRY_VALUE_MAX, name);
    return &m->list[m->count++];
}

static void add_known(double *sum, double v)
{
    *sum = isnan(*sum) ? v : *sum + v;
}

static void take_bucket(struct model_shown *d, const char *line, double v)
{
    struct latency_buckets *h = &d->kept[d->newest];
    char le[32];
    double upper = INFINITY;

    if (h->n == MODELS_BUCKETS_MAX || !label_of(line, "le", le, sizeof(le)) ||
        (!str_eq(le, "+Inf") && !str_to_f64(le, &upper)))
        return;
    h->upper[h->n] = upper;
    h->count[h->n++] = v;
}

static void take_line(struct models_shown *m, const char *line)
{
    char model[TELEMETRY_VALUE_MAX], word[64];
    const char *space = strrchr(line, ' ');
    struct model_shown *d;
    double v;

    if (!space || !str_to_f64(space + 1, &v) || !label_of(line, "model", model, sizeof(model)))
        return;
    d = find_model(m, model);
    if (!d)
        return;
    d->seen = true;
    if (str_starts(line, "stoker_stage_seconds_") && label_of(line, "stage", word, sizeof(word)) &&
        str_eq(word, "total")) {
        if (str_starts(line, "stoker_stage_seconds_bucket{"))
            take_bucket(d, line, v);
        else if (str_starts(line, "stoker_stage_seconds_count{"))
            d->requests = v;
    } else if (str_starts(line, "stoker_tokens_total{"))
        d->tokens = v;
    else if (str_starts(line, "stoker_batch_failures_total{") ||
             str_starts(line, "stoker_queue_dropped_total{"))
        add_known(&d->errors, v);
    else if (str_starts(line, "stoker_queue_jobs{"))
        add_known(&d->queue, v);
    else if (str_starts(line, "stoker_model_bytes{"))
        d->bytes = v;
    else if (str_starts(line, "stoker_model_state{") &&
             label_of(line, "state", word, sizeof(word)) && str_eq(word, "ready"))
        d->ready = v;
}

/* ---- latency */

/* Of the requests between two histograms; NAN: there were none. */
static double quantile_between(const struct latency_buckets *old, const struct latency_buckets *now,
                               double q)
{
    double below = 0, lower = 0, all, want;

    if (!now->n || (old && old->n != now->n))
        return NAN;
    all = now->count[now->n - 1] - (old ? old->count[now->n - 1] : 0);
    want = q * all;
    if (all <= 0)
        return NAN;
    for (size_t i = 0; i < now->n; i++) {
        double here = now->count[i] - (old ? old->count[i] : 0);
        if (here >= want && here > below)
            return isinf(now->upper[i])
                       ? lower
                       : lower + (now->upper[i] - lower) * (want - below) / (here - below);
        below = here;
        lower = now->upper[i];
    }
    return NAN;
}

static double latency_of(const struct model_shown *d, double q)
{
    size_t oldest = (d->newest + MODELS_KEPT - (d->filled - 1)) % MODELS_KEPT;

    return quantile_between(d->filled > 1 ? &d->kept[oldest] : NULL, &d->kept[d->newest], q);
}

/* ---- all */

static void put_model(struct telemetry *t, unsigned source, const struct model_shown *d,
                      const char *metric, double v)
{
    struct telemetry_label l = { "model", d->name };

    if (!isnan(v))
        telemetry_set(t, telemetry_series(t, source, telemetry_metric(metric), &l, 1), v);
}

static void begin_model(struct model_shown *d)
{
    d->seen = false;
    d->requests = d->tokens = d->errors = d->queue = d->bytes = d->ready = NAN;
    d->newest = (d->newest + 1) % MODELS_KEPT;
    d->filled += d->filled < MODELS_KEPT;
    d->kept[d->newest].n = 0;
}

void models_shown_take(struct models_shown *m, struct telemetry *t, const char *text,
                       int64_t now_ns)
{
    unsigned source = telemetry_source(t, "models");
    char line[MODELS_LINE_MAX];

    for (size_t i = 0; i < m->count; i++)
        begin_model(&m->list[i]);
    for (const char *p = text; *p;) {
        const char *end = strchrnul(p, '\n');
        size_t known = m->count;
        if (*p != '#' && (size_t)(end - p) < sizeof(line)) {
            memcpy(line, p, (size_t)(end - p));
            line[end - p] = '\0';
            take_line(m, line);
        }
        if (m->count > known) { /* its first line: once more, from clean values */
            begin_model(&m->list[known]);
            take_line(m, line);
        }
        p = *end ? end + 1 : end;
    }
    telemetry_begin(t, source, now_ns);
    for (size_t i = 0; i < m->count; i++) {
        const struct model_shown *d = &m->list[i];
        if (!d->seen)
            continue;
        put_model(t, source, d, "model.requests", d->requests);
        put_model(t, source, d, "model.tokens", d->tokens);
        put_model(t, source, d, "model.errors", d->errors);
        put_model(t, source, d, "model.queue", d->queue);
        put_model(t, source, d, "model.memory", d->bytes);
        put_model(t, source, d, "model.ready", d->ready);
        put_model(t, source, d, "model.latency.p50", latency_of(d, 0.5));
        put_model(t, source, d, "model.latency.p99", latency_of(d, 0.99));
    }
    telemetry_end(t);
}

/* SPDX-License-Identifier: MIT */
/* alert_sim: a table of telemetry and its alerts under a clock that the test turns. */
#ifndef TESTS_ALERT_SIM_H
#define TESTS_ALERT_SIM_H
#include "alert/alert_int.h"
#include "base/mem.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <string.h>

#define SEC      INT64_C(1000000000)
#define BEGIN_NS (INT64_C(1790000000) * SEC)

enum { SIM_SERIES_MAX = 16 };
struct sim {
    struct telemetry *t;
    struct alerts *a;
    unsigned source;
    int64_t now;
    uint32_t id[SIM_SERIES_MAX];
    double value[SIM_SERIES_MAX]; /* NaN: left out of the batch */
    size_t count;
    int fired, resolved;
    struct alert_active last;
};

static inline void sim_changed(void *arg, const struct alert_active *x)
{
    struct sim *s = arg;

    s->fired += x->state == ALERT_FIRING;
    s->resolved += x->state == ALERT_RESOLVED;
    s->last = *x;
}

static inline void sim_start(struct sim *s, const struct alert_rule *rules, size_t count)
{
    memset(s, 0, sizeof(*s));
    s->t = telemetry_new(0);
    s->source = telemetry_source(s->t, "sim");
    s->a = alerts_new(rules, count, s->t);
    s->now = BEGIN_NS;
}

static inline void sim_end(struct sim *s)
{
    alerts_free(s->a);
    telemetry_free(s->t);
}

/* A series with these labels, name and value in turn, NULL at the end; unknown at first. */
static inline size_t sim_series(struct sim *s, const char *metric, ...)
{
    struct telemetry_label l[TELEMETRY_LABELS_MAX];
    const struct telemetry_metric *m = telemetry_metric(metric);
    size_t n = 0;
    va_list ap;

    va_start(ap, metric);
    for (const char *name; (name = va_arg(ap, const char *)); n++)
        l[n] = (struct telemetry_label){ name, va_arg(ap, const char *) };
    va_end(ap);
    if (!m)
        m = telemetry_foreign(s->t, metric, "", TELEMETRY_GAUGE);
    s->id[s->count] = telemetry_series(s->t, s->source, m, l, n);
    s->value[s->count] = NAN;
    return s->count++;
}

static inline void sim_step(struct sim *s, int64_t step_ns)
{
    s->now += step_ns;
    telemetry_begin(s->t, s->source, s->now);
    for (size_t i = 0; i < s->count; i++)
        telemetry_set(s->t, s->id[i], s->value[i]);
    telemetry_end(s->t);
    alerts_turn(s->a, s->now, sim_changed, s);
}

static inline void sim_run(struct sim *s, int seconds)
{
    for (int i = 0; i < seconds; i++)
        sim_step(s, SEC);
}

/* The first series has this value for so long. */
static inline void sim_hold(struct sim *s, double value, int seconds)
{
    s->value[0] = value;
    sim_run(s, seconds);
}

/* It is a counter that rises by so much a second. */
static inline void sim_count(struct sim *s, double by, int seconds)
{
    for (int i = 0; i < seconds; i++)
        sim_hold(s, s->value[0] + by, 1);
}

/* With the temperature of one GPU. */
static inline void sim_start_hot(struct sim *s, const struct alert_rule *rule)
{
    sim_start(s, rule, 1);
    sim_series(s, "gpu.temp", "gpu", "0", NULL);
}

#endif

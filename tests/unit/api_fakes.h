/* SPDX-License-Identifier: MIT */
/* api_fakes: a fake history and fake alerts for tests of the agent's API, in the place of
 * src/history/history.c and alert.c: what they give stands in the test, second by second. */
#ifndef TESTS_API_FAKES_H
#define TESTS_API_FAKES_H
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"
#include "history/history.h"
#include "test.h"

#define NS INT64_C(1000000000)

static struct {
    struct telemetry *table;
    size_t extra; /* made-up series beside those of the table */
    struct alert_active alerts[4];
    size_t alert_count;
    struct telemetry_event events[8];
    size_t event_count;
    enum rc rc;       /* of history_read */
    const char *kept; /* a metric that the history has, and no point of it */
} fake;

/* Second s of series id has the value 10 * id + s % 10; every seventh is unknown, and all of
 * applications. */
enum rc history_read(struct history *r, const struct history_query *q, history_take *take,
                     void *arg, struct err *err)
{
    (void)r;
    if (fake.rc)
        return err_set(err, fake.rc, "a fake fault of the disk");
    for (uint32_t id = 0; id < telemetry_count(fake.table) + fake.extra; id++) {
        const struct telemetry_series *s = telemetry_get(fake.table, id);
        struct history_point p[64];
        size_t n = 0;

        if (id >= telemetry_count(fake.table))
            s = telemetry_get(fake.table, 0);
        if (!str_eq(s->metric->id, q->metric) || s->metric->entity == TELEMETRY_APP)
            continue;
        for (int64_t t = q->from_ns; t < q->to_ns && n < ARRAY_SIZE(p); t += NS) {
            double v = 10.0 * id + (double)(t / NS % 10);

            if (t / NS % 7)
                p[n++] = (struct history_point){ t, v, v, v, v, 1 };
        }
        if (!take(arg, s, p, n))
            break;
    }
    return RC_OK;
}

bool history_has(struct history *r, const char *metric)
{
    (void)r;
    return fake.kept && str_eq(fake.kept, metric);
}

enum rc history_events(struct history *r, int64_t from_ns, int64_t to_ns,
                       bool (*take)(void *arg, const struct telemetry_event *e), void *arg,
                       struct err *err)
{
    (void)r;
    (void)err;
    for (size_t i = 0; i < fake.event_count; i++)
        if (fake.events[i].time_ns >= from_ns && fake.events[i].time_ns <= to_ns &&
            !take(arg, &fake.events[i]))
            break;
    return RC_OK;
}

void history_stats(struct history *r, struct history_stats *out)
{
    (void)r;
    *out = (struct history_stats){ .bytes = 4096, .used = 100, .samples = 7, .newest_ns = 9 * NS };
}

size_t alerts_list(struct alerts *a, struct alert_active *out, size_t cap)
{
    size_t n = fake.alert_count < cap ? fake.alert_count : cap;

    (void)a;
    for (size_t i = 0; i < n; i++)
        out[i] = fake.alerts[i];
    return n;
}

struct alert_active *alerts_copy(struct alerts *a, size_t *count)
{
    struct alert_active *out = xcalloc(fake.alert_count + 1, sizeof *out);

    *count = alerts_list(a, out, fake.alert_count);
    return out;
}

const char *alert_how_word(enum alert_how h)
{
    return h == ALERT_VALUE ? "value" : "other";
}

const char *alert_op_word(enum alert_op o)
{
    return o == ALERT_ABOVE ? "above" : "other";
}

const char *alert_role_word(enum alert_role r)
{
    return r == ALERT_ROLE_NONE ? NULL : r == ALERT_ROLE_ROOT ? "root" : "symptom";
}

const struct alert_rule *alerts_rules(const struct alerts *a, size_t *count)
{
    (void)a;
    *count = fake.alert_count ? 1 : 0;
    return fake.alert_count ? fake.alerts[0].rule : NULL;
}

#endif

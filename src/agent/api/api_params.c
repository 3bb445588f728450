/* SPDX-License-Identifier: MIT */
/* api_params: query strings into what is asked.  Pure: text and the time in, a struct or a
 * sentence about the fault out. */
#include "agent/api/api_parts_int.h"

#include "base/str.h"
#include "base/text/units.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { SECONDS_MAX = 9000000 }; /* thousands of them: beyond the year 2200 */

static const char label_prefix[] = "label.";

/* ---- splitting */
static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* False: a bad escape, a control character, no UTF-8, or too long. */
static bool percent_decode(const char *in, size_t len, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        char c = in[i] == '+' ? ' ' : in[i];

        if (c == '%') {
            int high = i + 2 < len ? hex_digit(in[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(in[i + 2]) : -1;

            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= cap || c == '\0' || c == '\n' || c == '\t')
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return str_is_text(out, n);
}

enum rc api_params_read(const char *query, struct api_params *out, struct err *err)
{
    out->count = 0;
    for (const char *p = query; *p; p += *p == '&') {
        size_t all = strcspn(p, "&"), key = strcspn(p, "&=");
        struct api_param *to = &out->at[out->count];
        size_t equals = key < all;

        if (!all)
            continue;
        if (out->count == API_PARAMS_MAX)
            return err_set(err, RC_USAGE, "more than %d parameters", API_PARAMS_MAX);
        if (!percent_decode(p, key, to->name, sizeof(to->name)))
            return err_set(err, RC_USAGE, "the name of parameter %zu is not readable text",
                           out->count + 1);
        if (!percent_decode(p + key + equals, all - key - equals, to->value, sizeof(to->value)))
            return err_set(err, RC_USAGE,
                           "the value of '%s' is not readable text of at most %d bytes", to->name,
                           TELEMETRY_VALUE_MAX - 1);
        out->count++;
        p += all;
    }
    return RC_OK;
}

static bool is_label(const char *name)
{
    return str_starts(name, label_prefix) && name[sizeof(label_prefix) - 1];
}

static bool name_is_allowed(const char *name, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        if (str_eq(names[i], label_prefix) ? is_label(name) : str_eq(name, names[i]))
            return true;
    return false;
}

enum rc api_params_check(const struct api_params *p, const char *const *names, struct err *err)
{
    size_t count = 0;

    while (names[count])
        count++;
    for (size_t i = 0; i < p->count; i++) {
        const char *name = p->at[i].name;

        if (!name_is_allowed(name, names)) {
            const char *near = str_nearest(name, names, count);

            return err_set(err, RC_USAGE,
                           near ? "no parameter '%s'; did you mean '%s'?" : "no parameter '%s'%s",
                           name, near ? near : "");
        }
        if (api_param(p, name) != p->at[i].value)
            return err_set(err, RC_USAGE, "'%s' is given twice", name);
    }
    return RC_OK;
}

const char *api_param(const struct api_params *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (str_eq(p->at[i].name, name))
            return p->at[i].value;
    return NULL;
}

/* ---- values */
enum rc api_param_uint(const struct api_params *p, const char *name, uint64_t min, uint64_t max,
                       uint64_t dflt, uint64_t *out, struct err *err)
{
    const char *text = api_param(p, name);
    uint64_t v;

    if (!text) {
        *out = dflt;
        return RC_OK;
    }
    if (!str_to_u64(text, 10, &v) || v < min || v > max)
        return err_set(err, RC_USAGE, "'%s' is a whole number from %llu to %llu, not '%s'", name,
                       (unsigned long long)min, (unsigned long long)max, text);
    *out = v;
    return RC_OK;
}

enum rc api_param_time(const struct api_params *p, const char *name, int64_t now_ns, int64_t dflt,
                       int64_t *out, struct err *err)
{
    const char *text = api_param(p, name);
    struct err ignored = { 0 };
    uint64_t ms;
    double s;

    if (!text)
        *out = dflt;
    else if (str_eq(text, "now"))
        *out = now_ns;
    else if (text[0] == '-' && !units_duration_parse(text + 1, &ms, &ignored) &&
             ms / 1000 <= (uint64_t)now_ns / API_SECOND)
        *out = now_ns - (int64_t)ms * 1000000;
    else if (str_to_f64(text, &s) && s >= 0 && s <= SECONDS_MAX * 1e3)
        *out = (int64_t)(s * 1e3) * 1000000;
    else
        return err_set(err, RC_USAGE,
                       "'%s' is a time: seconds since 1970, 'now', or back from now as '-6h'; "
                       "not '%s'",
                       name, text);
    return RC_OK;
}

enum rc api_param_entities(const struct api_params *p, const char *name, unsigned dflt,
                           unsigned *out, struct err *err)
{
    const char *text = api_param(p, name);
    unsigned bits = 0;

    for (const char *s = text; s && *s; s += *s == ',') {
        size_t len = strcspn(s, ","), i = 0;

        while (i < API_ENTITIES &&
               !(strlen(telemetry_entity_word((enum telemetry_entity)i)) == len &&
                 !strncmp(telemetry_entity_word((enum telemetry_entity)i), s, len)))
            i++;
        if (i == API_ENTITIES)
            return err_set(err, RC_USAGE,
                           "'%s' is a list of host, gpu, link, port, net, disk, mount, process, "
                           "model, job, app; not '%s'",
                           name, text);
        bits |= 1U << i;
        s += len;
    }
    *out = text ? bits : dflt;
    return RC_OK;
}

/* ---- /query */
/* The smallest step that people like and that is no smaller. */
static int64_t nice_step(int64_t ns)
{
    static const int seconds[] = { 1,   2,   5,    10,   15,   30,    60,    120,   300,
                                   600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400 };

    for (size_t i = 0; i < ARRAY_SIZE(seconds); i++)
        if (seconds[i] * API_SECOND >= ns)
            return seconds[i] * API_SECOND;
    return (ns / (86400 * API_SECOND) + 1) * 86400 * API_SECOND;
}

static enum rc read_step(const struct api_params *p, struct api_query *q, struct err *err)
{
    const char *text = api_param(p, "step");
    struct err ignored = { 0 };
    uint64_t points = API_POINTS_DEFAULT, ms = 0, s;
    enum rc rc = api_param_uint(p, "points", 1, API_STEPS_MAX, API_POINTS_DEFAULT, &points, err);

    if (rc)
        return rc;
    if (text && api_param(p, "points"))
        return err_set(err, RC_USAGE, "give 'step' or 'points', not both");
    if (!text) {
        q->step_ns = nice_step((q->to_ns - q->from_ns) / (int64_t)points);
        return RC_OK;
    }
    if (str_to_u64(text, 10, &s) && s <= SECONDS_MAX)
        ms = s * 1000;
    else if (units_duration_parse(text, &ms, &ignored))
        ms = 0;
    if (ms < 1000 || ms % 1000 || ms > (uint64_t)SECONDS_MAX * 1000)
        return err_set(err, RC_USAGE, "'step' is whole seconds, as '10' or '5m'; not '%s'", text);
    q->step_ns = (int64_t)ms * 1000000;
    return RC_OK;
}

static enum rc read_labels(const struct api_params *p, struct api_query *q, struct err *err)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct api_param *at = &p->at[i];

        if (!is_label(at->name))
            continue;
        if (q->label_count == TELEMETRY_LABELS_MAX)
            return err_set(err, RC_USAGE, "more than %d labels", TELEMETRY_LABELS_MAX);
        q->labels[q->label_count++] =
            (struct telemetry_label){ at->name + sizeof(label_prefix) - 1, at->value };
    }
    return RC_OK;
}

static enum rc read_grid(struct api_query *q, struct err *err)
{
    int64_t steps;

    if (q->from_ns >= q->to_ns)
        return err_set(err, RC_USAGE, "'from' must be before 'to'");
    assert(q->step_ns > 0);
    q->from_ns -= q->from_ns % q->step_ns;
    steps = (q->to_ns - q->from_ns + q->step_ns - 1) / q->step_ns;
    if (steps > API_STEPS_MAX)
        return err_set(err, RC_USAGE, "%lld steps are more than %d: ask for a longer 'step'",
                       (long long)steps, API_STEPS_MAX);
    q->steps = (size_t)steps;
    return RC_OK;
}

enum rc api_query_read(const struct api_params *p, int64_t now_ns, struct api_query *out,
                       struct err *err)
{
    static const char *const names[] = { "metric", "from", "to",         "step",
                                         "points", "as",   label_prefix, NULL };
    const char *as = api_param(p, "as");
    struct api_query q = { .metric = api_param(p, "metric") };
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    if (!q.metric || !*q.metric)
        return err_set(err, RC_USAGE, "'metric' is missing: /api/v1/series lists them");
    if (as && !str_eq(as, "value") && !str_eq(as, "rate"))
        return err_set(err, RC_USAGE, "'as' is 'value' or 'rate', not '%s'", as);
    q.as = str_eq(as, "rate") ? API_RATE : API_VALUE;
    /* of an application's that has no type nobody knows */
    const struct telemetry_metric *m = telemetry_metric(q.metric);
    if (q.as == API_RATE && m && m->kind != TELEMETRY_COUNTER)
        return err_set(err, RC_USAGE, "'%s' is not a counter and has no rate: ask for as=value",
                       q.metric);
    rc = api_param_time(p, "to", now_ns, now_ns, &q.to_ns, err);
    if (!rc)
        rc = api_param_time(p, "from", now_ns, q.to_ns - 3600 * API_SECOND, &q.from_ns, err);
    if (!rc && q.from_ns < 0)
        q.from_ns = 0;
    if (!rc)
        rc = q.from_ns < q.to_ns ? read_step(p, &q, err) : read_grid(&q, err);
    if (!rc)
        rc = read_labels(p, &q, err);
    if (!rc)
        rc = read_grid(&q, err);
    if (!rc)
        *out = q;
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* api_query: history on a grid, events, alerts.
 *
 * A reply of /query has one row a series and one column a step: `min`, `mean` and `max` as arrays
 * of the same length, null where nothing is known.  A chart draws the band between min and max and
 * the line of the means, whatever the span: the server does the steps, not the page.  As a rate,
 * only `mean` is there: the rise of a counter over the step, a second; null where it fell. */
#include "agent/api/api_parts_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <string.h>

/* ---- /query */
struct query_cell {
    double min, max, sum, last;
    uint32_t count;
};

struct query_gather {
    struct agent_api *a;
    const struct api_query *q;
    struct json_out w;
    struct query_cell *cells; /* q->steps of them, of the series at hand */
    size_t series;
    bool known; /* the table or the history has the metric */
    char *unit; /* of a known one, owned: the history's names last as long as a call of take() */
    bool over;  /* too many */
};

static void begin_series(struct query_gather *g, const char *unit)
{
    if (g->known)
        return;
    g->known = true;
    g->unit = unit ? xstrdup(unit) : NULL;
}

static void add_column(struct query_gather *g, const char *name,
                       double (*of)(const struct query_cell *c))
{
    json_kv_arr(&g->w, name);
    for (size_t i = 0; i < g->q->steps; i++)
        api_add_value(&g->w, g->cells[i].count ? of(&g->cells[i]) : NAN);
    json_arr_end(&g->w);
}

static double cell_min(const struct query_cell *c)
{
    return c->min;
}

static double cell_max(const struct query_cell *c)
{
    return c->max;
}

static double cell_mean(const struct query_cell *c)
{
    return c->sum / c->count;
}

static void add_rate(struct query_gather *g)
{
    const struct query_cell *before = NULL;

    json_kv_arr(&g->w, "mean");
    for (size_t i = 0; i < g->q->steps; i++) {
        const struct query_cell *c = &g->cells[i];
        double rate = NAN;

        if (c->count && before && c->last >= before->last)
            rate = (c->last - before->last) / ((double)(c - before) * (double)g->q->step_ns / 1e9);
        if (c->count)
            before = c;
        api_add_value(&g->w, rate);
    }
    json_arr_end(&g->w);
}

static void fill_cells(struct query_gather *g, const struct history_point *p, size_t n)
{
    memset(g->cells, 0, g->q->steps * sizeof(*g->cells));
    for (size_t i = 0; i < n; i++) {
        int64_t at = (p[i].time_ns - g->q->from_ns) / g->q->step_ns;
        struct query_cell *c = &g->cells[at < 0 ? 0 : at];

        if (p[i].time_ns < g->q->from_ns || at >= (int64_t)g->q->steps || !p[i].count)
            continue;
        c->min = c->count && c->min < p[i].min ? c->min : p[i].min;
        c->max = c->count && c->max > p[i].max ? c->max : p[i].max;
        c->sum += p[i].mean * p[i].count;
        c->last = p[i].last;
        c->count += p[i].count;
    }
}

static bool take_series(void *arg, const struct telemetry_series *s, const struct history_point *p,
                        size_t n)
{
    struct query_gather *g = arg;

    if (g->series == API_SERIES_MAX || (g->series + 1) * g->q->steps > API_CELLS_MAX) {
        g->over = true;
        return false;
    }
    g->series++;
    begin_series(g, s->metric->unit);
    fill_cells(g, p, n);
    json_obj(&g->w);
    json_key(&g->w, "labels");
    api_add_labels(&g->w, s);
    if (g->q->as == API_RATE) {
        add_rate(g);
    } else {
        add_column(g, "min", cell_min);
        add_column(g, "mean", cell_mean);
        add_column(g, "max", cell_max);
    }
    json_obj_end(&g->w);
    return true;
}

static void add_grid(struct query_gather *g, const struct api_query *q)
{
    json_obj(&g->w);
    json_kv_str(&g->w, "schema", "stoker.query/1");
    json_kv_str(&g->w, "metric", q->metric);
    json_kv_str(&g->w, "as", q->as == API_RATE ? "rate" : "value");
    json_kv_int(&g->w, "from_ms", q->from_ns / 1000000);
    json_kv_int(&g->w, "step_ms", q->step_ns / 1000000);
    json_kv_int(&g->w, "steps", (int64_t)q->steps);
}

static enum rc read_ring(struct query_gather *g, struct history *ring, struct err *err)
{
    const struct api_query *q = g->q;
    struct history_query rq = { .metric = q->metric,
                                .labels = q->labels,
                                .label_count = q->label_count,
                                .from_ns = q->from_ns,
                                .to_ns = q->from_ns + (int64_t)q->steps * q->step_ns,
                                .step_ns = q->step_ns };

    if (!ring) {
        err_hint(err, "Start the agent with a history to keep one.");
        return err_set(err, RC_NODEV, "no history is kept");
    }
    return history_read(ring, &rq, take_series, g, err);
}

/* A metric without a point in the span is no unknown one: the table has it, built in or an
 * application's, or the history has, from the time when the application ran. */
static void find_metric(struct query_gather *g, struct history *ring)
{
    const struct telemetry_metric *m = telemetry_metric(g->q->metric);
    size_t count;

    if (m)
        begin_series(g, m->unit);
    telemetry_hold(g->a->o.telemetry);
    count = g->known ? 0 : telemetry_count(g->a->o.telemetry);
    for (uint32_t id = 0; id < count && !g->known; id++) {
        const struct telemetry_series *s = telemetry_get(g->a->o.telemetry, id);

        if (s && str_eq(s->metric->id, g->q->metric))
            begin_series(g, s->metric->unit);
    }
    telemetry_let(g->a->o.telemetry);
    if (!g->known && ring && history_has(ring, g->q->metric))
        begin_series(g, "1"); /* those of applications have no other */
}

enum rc api_history(struct agent_api *a, const struct api_params *p, struct buf *out,
                    struct err *err)
{
    struct query_gather g = { .a = a };
    struct api_view view;
    struct api_query q;
    enum rc rc = api_query_read(p, api_now_ns(a), &q, err);

    if (rc)
        return rc;
    g.q = &q;
    g.cells = xcalloc(q.steps, sizeof(*g.cells));
    json_out_init(&g.w, out, 0);
    add_grid(&g, &q);
    json_kv_arr(&g.w, "series");
    api_enter(a, &view);
    rc = read_ring(&g, view.ring, err);
    find_metric(&g, view.ring);
    api_leave(a);
    free(g.cells);
    json_arr_end(&g.w);
    json_kv_str(&g.w, "unit", g.unit);
    json_obj_end(&g.w);
    free(g.unit);
    if (!rc && g.over)
        rc = err_set(err, RC_USAGE,
                     "more than %d series or %d values: ask with labels (label.gpu=0) or a longer "
                     "'step'",
                     API_SERIES_MAX, API_CELLS_MAX);
    if (!rc && !g.known)
        rc = err_set(err, RC_USAGE, "no metric '%s': /api/v1/series lists them", q.metric);
    return rc;
}

/* ---- events */
void api_add_event(struct json_out *w, const struct telemetry_event *e)
{
    json_obj(w);
    api_add_time(w, "time_ms", e->time_ns);
    json_kv_str(w, "kind", telemetry_event_word(e->kind));
    json_kv_maybe(w, "gpu", e->gpu < 0 ? maybe_none() : maybe_of(e->gpu));
    json_kv_maybe(w, "code", e->code ? maybe_of(e->code) : maybe_none());
    json_kv_str(w, "text", e->text);
    json_obj_end(w);
}

/* The newest `cap` of what is taken, in a ring. */
struct events {
    struct telemetry_event *at;
    size_t cap, count; /* count: all that were taken */
    unsigned kinds;
    int64_t to_ns;
};

static bool take_event(void *arg, const struct telemetry_event *e)
{
    struct events *v = arg;

    if (e->time_ns <= v->to_ns && v->kinds & 1U << e->kind)
        v->at[v->count++ % v->cap] = *e;
    return true;
}

static enum rc kinds_of(const struct api_params *p, unsigned *out, struct err *err)
{
    const char *text = api_param(p, "kind");
    unsigned bits = 0;

    for (const char *s = text; s && *s; s += *s == ',') {
        size_t len = strcspn(s, ","), i = 0;

        while (i < TELEMETRY_EVENT_KINDS &&
               !(strlen(telemetry_event_word((enum telemetry_event_kind)i)) == len &&
                 !strncmp(telemetry_event_word((enum telemetry_event_kind)i), s, len)))
            i++;
        if (i == TELEMETRY_EVENT_KINDS)
            return err_set(err, RC_USAGE, "no kind of event in 'kind=%s' is '%.*s'", text, (int)len,
                           s);
        bits |= 1U << i;
        s += len;
    }
    *out = text ? bits : ~0U;
    return RC_OK;
}

/* From the history, else from memory. */
static enum rc read_events(struct agent_api *a, struct events *v, int64_t from_ns, struct err *err)
{
    struct telemetry_event *recent;
    size_t count;
    struct api_view view;
    enum rc rc = RC_OK;

    api_enter(a, &view);
    if (view.ring)
        rc = history_events(view.ring, from_ns, v->to_ns, take_event, v, err);
    api_leave(a);
    if (view.ring)
        return rc;
    recent = telemetry_events_copy(a->o.telemetry, from_ns, &count);
    for (size_t i = 0; i < count; i++)
        (void)take_event(v, &recent[i]);
    free(recent);
    return rc;
}

enum rc api_events(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err)
{
    static const char *const names[] = { "from", "to", "kind", "limit", NULL };
    int64_t now = api_now_ns(a), from = 0;
    struct events v = { 0 };
    uint64_t limit = 0;
    struct json_out w;
    enum rc rc = api_params_check(p, names, err);

    if (!rc)
        rc = api_param_time(p, "to", now, INT64_MAX, &v.to_ns, err);
    if (!rc)
        rc = api_param_time(p, "from", now, now - 86400 * API_SECOND, &from, err);
    if (!rc)
        rc = api_param_uint(p, "limit", 1, API_EVENTS_MAX, API_EVENTS_DEFAULT, &limit, err);
    if (!rc)
        rc = kinds_of(p, &v.kinds, err);
    if (rc)
        return rc;
    v.cap = (size_t)limit;
    v.at = xcalloc(v.cap, sizeof(*v.at));
    rc = read_events(a, &v, from, err);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.events/1");
    json_kv_arr(&w, "events");
    for (size_t i = v.count > v.cap ? v.count - v.cap : 0; i < v.count; i++)
        api_add_event(&w, &v.at[i % v.cap]);
    json_arr_end(&w);
    json_kv_int(&w, "matched", (int64_t)v.count);
    json_obj_end(&w);
    free(v.at);
    return rc;
}

/* ---- alerts */
const char *const api_severities[] = {
    [ALERT_INFO] = "info", [ALERT_WARNING] = "warning", [ALERT_CRITICAL] = "critical"
};
static const char *const states[] = {
    [ALERT_PENDING] = "pending", [ALERT_FIRING] = "firing", [ALERT_RESOLVED] = "resolved"
};

static void add_whose(struct json_out *w, const struct alert_whose *who)
{
    const struct telemetry_label rows[] = { { "job", who->job },
                                            { "user", who->user },
                                            { "pod", who->pod },
                                            { "namespace", who->space },
                                            { "command", who->command } };

    json_kv_obj(w, "whose");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        json_kv_str(w, rows[i].name, rows[i].value[0] ? rows[i].value : NULL);
    json_obj_end(w);
}

/* Which alert it is, for as long as it is listed. */
static void add_id(struct json_out *w, const char *key, const struct alert_rule *r, uint32_t series)
{
    char id[ALERT_NAME_MAX + 32];

    (void)snprintf(id, sizeof(id), "%s.%s.%u", r->name, api_severities[r->severity], series);
    json_kv_str(w, key, id);
}

/* What it is a part of, and the alert that it follows from. */
static void add_cause(struct json_out *w, const struct alert_active *x)
{
    json_kv_str(w, "cause", x->cause[0] ? x->cause : NULL);
    json_kv_str(w, "role", alert_role_word(x->role));
    if (x->root_rule)
        add_id(w, "root", x->root_rule, x->root_series);
    else
        json_kv_str(w, "root", NULL);
    json_kv_str(w, "follows", x->follows[0] ? x->follows : NULL);
}

static void add_alert(struct agent_api *a, struct json_out *w, const struct alert_active *x)
{
    const struct telemetry_series *s;

    telemetry_hold(a->o.telemetry);
    s = x->series == TELEMETRY_NONE ? NULL : telemetry_get(a->o.telemetry, x->series);
    json_obj(w);
    add_id(w, "id", x->rule, x->series);
    json_kv_str(w, "name", x->rule->name);
    json_kv_str(w, "severity", api_severities[x->rule->severity]);
    json_kv_str(w, "state", states[x->state]);
    json_kv_str(w, "metric", x->rule->metric);
    json_key(w, "labels");
    if (s)
        api_add_labels(w, s);
    else
        json_add_null(w);
    if (a->o.mark) {
        a->o.mark(a->o.arg, x->rule->name, s, w);
    } else {
        json_kv_str(w, "silenced", NULL);
        json_kv_str(w, "acknowledged", NULL);
    }
    telemetry_let(a->o.telemetry);
    api_add_time(w, "since_ms", x->since_ns);
    api_add_time(w, "fired_ms", x->fired_ns);
    api_add_time(w, "resolved_ms", x->resolved_ns);
    json_key(w, "value");
    api_add_value(w, x->value);
    json_key(w, "threshold");
    api_add_value(w, x->rule->threshold);
    json_kv_bool(w, "gone", x->gone);
    json_kv_str(w, "summary", x->summary);
    json_kv_str(w, "why", x->rule->why);
    json_kv_str(w, "runbook", x->rule->runbook);
    add_whose(w, &x->whose);
    add_cause(w, x);
    json_obj_end(w);
}

void api_add_alerts(struct agent_api *a, struct json_out *w)
{
    struct alert_active *list = NULL;
    struct api_view view;
    size_t n = 0;

    json_arr(w);
    api_enter(a, &view); /* the rules are the view's: held until all is written */
    if (view.alerts)
        list = alerts_copy(view.alerts, &n);
    for (size_t i = 0; i < n; i++)
        add_alert(a, w, &list[i]);
    api_leave(a);
    json_arr_end(w);
    free(list);
}

static void add_firing(struct agent_api *a, struct json_out *w, const struct alert_active *x)
{
    const struct telemetry_series *s;
    const char *gpu;
    uint64_t n;

    telemetry_hold(a->o.telemetry);
    s = x->series == TELEMETRY_NONE ? NULL : telemetry_get(a->o.telemetry, x->series);
    gpu = s ? api_label(s, "gpu") : NULL;
    json_obj(w);
    json_kv_str(w, "name", x->rule->name);
    json_kv_str(w, "severity", api_severities[x->rule->severity]);
    json_kv_maybe(w, "gpu",
                  gpu && str_to_u64(gpu, 10, &n) && n < API_GPUS_MAX ? maybe_of((int64_t)n)
                                                                     : maybe_none());
    telemetry_let(a->o.telemetry);
    api_add_time(w, "fired_ms", x->fired_ns);
    json_kv_str(w, "summary", x->summary);
    json_obj_end(w);
}

void api_add_firing(struct agent_api *a, struct json_out *w)
{
    struct alert_active *list = NULL;
    size_t counts[ALERT_CRITICAL + 1] = { 0 }, n = 0, told = 0;
    struct api_view view;

    api_enter(a, &view); /* the rules are the view's: held until all is written */
    if (view.alerts)
        list = alerts_copy(view.alerts, &n);
    for (size_t i = 0; i < n; i++)
        counts[list[i].rule->severity] += list[i].state == ALERT_FIRING;
    json_kv_obj(w, "firing");
    for (int k = ALERT_CRITICAL; k >= ALERT_INFO; k--)
        json_kv_int(w, api_severities[k], (int64_t)counts[k]);
    json_obj_end(w);
    json_kv_arr(w, "alerts");
    for (int k = ALERT_CRITICAL; k >= ALERT_INFO; k--)
        for (size_t i = 0; i < n && told < API_BRIEF_ALERTS_MAX; i++)
            if (list[i].state == ALERT_FIRING && (int)list[i].rule->severity == k) {
                add_firing(a, w, &list[i]);
                told++;
            }
    json_arr_end(w);
    api_leave(a);
    free(list);
}

static void add_rule(struct json_out *w, const struct alert_rule *r)
{
    json_obj(w);
    json_kv_str(w, "name", r->name);
    json_kv_str(w, "severity", api_severities[r->severity]);
    json_kv_str(w, "metric", r->metric);
    json_kv_str(w, "of", r->of);
    json_kv_str(w, "where", r->where);
    json_kv_str(w, "how", alert_how_word(r->how));
    json_kv_int(w, "window_s", r->window_ns / 1000000000);
    json_kv_str(w, "op", alert_op_word(r->op));
    json_key(w, "threshold");
    api_add_value(w, r->threshold);
    json_key(w, "clear");
    api_add_value(w, r->clear);
    json_kv_int(w, "for_s", r->for_ns / 1000000000);
    json_kv_int(w, "keep_s", r->keep_ns / 1000000000);
    json_kv_str(w, "unit", r->unit);
    json_kv_str(w, "summary", r->summary);
    json_kv_str(w, "why", r->why);
    json_kv_str(w, "source", r->source);
    json_kv_str(w, "runbook", r->runbook);
    json_obj_end(w);
}

/* What runs here of rules, all or those of one name: where an alert's runbook_url leads when the
 * spec names no other place. */
enum rc api_rules(struct agent_api *a, const struct api_params *p, struct buf *out, struct err *err)
{
    static const char *const names[] = { "name", NULL };
    const char *name = api_param(p, "name");
    struct api_view view;
    struct json_out w;
    size_t n = 0, found = 0;
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.rules/1");
    json_kv_arr(&w, "rules");
    api_enter(a, &view); /* the rules are the view's: held until all is written */
    const struct alert_rule *rules = view.alerts ? alerts_rules(view.alerts, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!name || str_eq(rules[i].name, name)) {
            add_rule(&w, &rules[i]);
            found++;
        }
    api_leave(a);
    json_arr_end(&w);
    json_obj_end(&w);
    return name && !found ? err_set(err, RC_NODEV, "there is no rule '%s'", name) : RC_OK;
}

enum rc api_alerts(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err)
{
    static const char *const names[] = { NULL };
    struct json_out w;
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.alerts/1");
    json_key(&w, "alerts");
    api_add_alerts(a, &w);
    json_obj_end(&w);
    return RC_OK;
}

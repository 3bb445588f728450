/* SPDX-License-Identifier: MIT */
/* alert_spec: the rules of a spec: the default ones as `default_alerts` changes them, then those
 * of `alerts`, whose metrics are words that mean the same on every system we write for.  Here is
 * what each word means on a node. */
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>

#define MINUTES(n) ((n)*60 * ALERT_SECOND)

/* One word may stand for several metrics: each gives a rule. */
struct meaning {
    enum spec_metric word;
    const char *metric, *of;
    enum alert_how how;
    bool from_zero;
    int64_t window_ns;
    const char *unit;  /* of alert_rule */
    const char *whose; /* for the summary */
    const char *guard;
    enum alert_op guard_op;
    double guard_than;
    bool left;   /* the table has what is left, the word means what is used */
    bool active; /* any value but 4 is bad, whatever the threshold: the state of a port */
};

#define OF_GPU  " of GPU {gpu}"
#define OF_LINK " of NVLink {nvlink} of GPU {gpu}"
#define OF_PORT " of RDMA port {device}/{port}"

static const struct meaning meanings[] = {
    { SPEC_METRIC_GPU_UTILIZATION, "gpu.util", .how = ALERT_MEAN, .window_ns = MINUTES(5),
      .unit = "%", .whose = OF_GPU },
    { SPEC_METRIC_GPU_MEMORY, "gpu.fb.used", "gpu.fb.total", .unit = "ratio", .whose = OF_GPU },
    { SPEC_METRIC_GPU_MEMORY_UNUSED, "gpu.fb.used", .unit = "B", .whose = OF_GPU,
      .guard = "gpu.util", .guard_op = ALERT_BELOW, .guard_than = 5 },
    { SPEC_METRIC_GPU_TEMPERATURE, "gpu.temp", .unit = "C", .whose = OF_GPU },
    { SPEC_METRIC_GPU_POWER, "gpu.power", .unit = "W", .whose = OF_GPU },
    { SPEC_METRIC_GPU_TENSOR, "gpu.prof.tensor", .how = ALERT_MEAN, .window_ns = MINUTES(5),
      .unit = "ratio", .whose = OF_GPU, .guard = "gpu.util", .guard_op = ALERT_ABOVE,
      .guard_than = 50 },
    { SPEC_METRIC_GPU_THROTTLE, "gpu.throttle.hw_thermal", .how = ALERT_RATE,
      .window_ns = MINUTES(5), .unit = "ns/s", .whose = OF_GPU " (heat)" },
    { SPEC_METRIC_GPU_THROTTLE, "gpu.throttle.sw_thermal", .how = ALERT_RATE,
      .window_ns = MINUTES(5), .unit = "ns/s", .whose = OF_GPU " (heat, by the driver)" },
    { SPEC_METRIC_GPU_THROTTLE, "gpu.throttle.hw_brake", .how = ALERT_RATE, .window_ns = MINUTES(5),
      .unit = "ns/s", .whose = OF_GPU " (power brake)" },
    { SPEC_METRIC_GPU_ECC_DOUBLE, "gpu.ecc.dbe.volatile", .unit = "1", .whose = OF_GPU },
    { SPEC_METRIC_GPU_REMAP, "gpu.remap.uncorrectable", .unit = "1", .whose = OF_GPU },
    { SPEC_METRIC_GPU_XID, "gpu.xid.total", .how = ALERT_INCREASE, .from_zero = true,
      .window_ns = MINUTES(10), .unit = "1", .whose = " {xid}" OF_GPU },
    { SPEC_METRIC_NVLINK_RATE, "gpu.prof.nvlink_tx", .unit = "B/s", .whose = OF_GPU " (sent)" },
    { SPEC_METRIC_NVLINK_RATE, "gpu.prof.nvlink_rx", .unit = "B/s", .whose = OF_GPU " (received)" },
    { SPEC_METRIC_NVLINK_ERRORS, "link.replay", .how = ALERT_INCREASE, .window_ns = MINUTES(10),
      .unit = "1", .whose = OF_LINK " (replays)" },
    { SPEC_METRIC_NVLINK_ERRORS, "link.recovery", .how = ALERT_INCREASE, .window_ns = MINUTES(10),
      .unit = "1", .whose = OF_LINK " (recoveries)" },
    { SPEC_METRIC_NVLINK_ERRORS, "link.crc", .how = ALERT_INCREASE, .window_ns = MINUTES(10),
      .unit = "1", .whose = OF_LINK " (CRC)" },
    { SPEC_METRIC_PCIE_RATE, "gpu.prof.pcie_tx", .unit = "B/s", .whose = OF_GPU " (sent)" },
    { SPEC_METRIC_PCIE_RATE, "gpu.prof.pcie_rx", .unit = "B/s", .whose = OF_GPU " (received)" },
    { SPEC_METRIC_PCIE_REPLAYS, "gpu.pcie.replay", .how = ALERT_INCREASE, .window_ns = MINUTES(5),
      .unit = "1", .whose = OF_GPU },
    { SPEC_METRIC_RDMA_LINK_DOWN, "port.state", .unit = "1", .whose = OF_PORT " (state)",
      .guard = "port.link_downed", .guard_op = ALERT_ABOVE, .active = true },
    { SPEC_METRIC_RDMA_FLAPS, "port.link_downed", .how = ALERT_INCREASE, .window_ns = MINUTES(180),
      .unit = "1", .whose = OF_PORT },
    { SPEC_METRIC_CPU_UTILIZATION, "host.cpu.util", .how = ALERT_MEAN, .window_ns = MINUTES(5),
      .unit = "%", .whose = "" },
    { SPEC_METRIC_DISK_USED, "mount.available", "mount.size", .unit = "ratio",
      .whose = " of {mountpoint} (what is left)", .left = true },
    { SPEC_METRIC_SWAP_USED, "host.mem.swap_free", "host.mem.swap_total", .unit = "ratio",
      .whose = " (what is left)", .left = true },
    { SPEC_METRIC_SAMPLES, "job.samples_per_second", .unit = "/s", .whose = " of job {job}" },
    { SPEC_METRIC_REQUESTS, "model.requests", .how = ALERT_RATE, .window_ns = MINUTES(5),
      .unit = "/s", .whose = " of model {model}" },
    { SPEC_METRIC_QUEUE_LENGTH, "model.queue", .unit = "1", .whose = " of model {model}" },
    { SPEC_METRIC_LATENCY_P50, "model.latency.p50", .unit = "s", .whose = " of model {model}" },
    { SPEC_METRIC_LATENCY_P99, "model.latency.p99", .unit = "s", .whose = " of model {model}" },
};

/* How many of the table's units one of the spec's is: percent, bits a second, milliseconds. */
static double scale_of(const char *unit)
{
    static const struct {
        const char *unit;
        double scale;
    } rows[] = { { "ratio", 0.01 }, { "ns/s", 1e7 }, { "B/s", 0.125 }, { "s", 0.001 } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_eq(unit, rows[i].unit))
            return rows[i].scale;
    return 1;
}

bool alert_meaning_at(enum spec_metric word, size_t at, struct alert_meaning *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
        const struct meaning *m = &meanings[i];

        if (m->word != word || at-- > 0)
            continue;
        *out = (struct alert_meaning){ m->metric, m->of, m->how, scale_of(m->unit), m->left };
        return true;
    }
    return false;
}

struct spec_rules {
    const struct spec *s;
    struct arena *a;
    struct alert_rule *rules; /* ALERT_RULES_MAX */
    size_t count;
};

static enum rc put_rule(struct spec_rules *g, const struct alert_rule *r, const void *at,
                        struct err *err)
{
    struct spec_pos pos;

    if (g->count < ALERT_RULES_MAX) {
        g->rules[g->count++] = *r;
        return RC_OK;
    }
    if (!g->s)
        return err_set(err, RC_LIMIT, "more than %d alerts", ALERT_RULES_MAX);
    pos = spec_where(g->s, at);
    return err_set(err, RC_LIMIT, "%s:%d:%d: more than %d alerts", spec_file(g->s), pos.line,
                   pos.col, ALERT_RULES_MAX);
}

/* ---- the default rules */
static const struct spec_default_alert *change_of(const struct spec *s, const char *name)
{
    for (size_t i = 0; s && i < s->default_alert_count; i++)
        if (str_eq(s->default_alerts[i].name, name))
            return &s->default_alerts[i];
    return NULL;
}

static void change_rule(struct alert_rule *r, const struct spec_default_alert *d)
{
    double scale = scale_of(r->unit);

    r->off = d->off;
    if (d->threshold.known) {
        r->threshold = d->threshold.v * scale;
        r->clear = d->clear.known ? d->clear.v * scale : NAN;
        r->why = "set by the spec";
    }
    if (d->for_ms.known)
        r->for_ns = d->for_ms.v * 1000000;
    if (d->keep_ms.known)
        r->keep_ns = d->keep_ms.v * 1000000;
    if (d->severity != SPEC_SEVERITY_UNCHANGED)
        r->severity = (enum alert_severity)(d->severity - SPEC_SEVERITY_INFO);
    if (d->summary)
        r->summary = d->summary;
    if (d->runbook)
        r->runbook = d->runbook;
}

static enum rc put_defaults(struct spec_rules *g, struct err *err)
{
    size_t n;
    const struct alert_rule *all = alert_defaults(&n);
    enum rc rc = RC_OK;

    for (size_t i = 0; i < n && rc == RC_OK; i++) {
        const struct spec_default_alert *d = change_of(g->s, all[i].name);
        struct alert_rule r = all[i];

        if (d)
            change_rule(&r, d);
        if (!r.off)
            rc = put_rule(g, &r, d, err);
    }
    return rc;
}

/* ---- the spec's own */
/* A critical threshold clears as far from itself as a warning does. */
static double clear_for(const struct spec_alert *x, const struct spec_quantity *q)
{
    const struct spec_quantity *first = x->warn.known ? &x->warn : &x->critical;

    return x->clear.known ? q->v + (x->clear.v - first->v) : NAN;
}

static void set_threshold(struct alert_rule *r, const struct spec_alert *x,
                          const struct spec_quantity *q, const struct meaning *m)
{
    double scale = scale_of(r->unit), clear = clear_for(x, q) * scale;

    r->op = x->when == SPEC_SIDE_ABOVE ? ALERT_ABOVE : ALERT_BELOW;
    r->threshold = q->v * scale;
    r->clear = clear;
    if (m && m->left) {
        r->op = x->when == SPEC_SIDE_ABOVE ? ALERT_BELOW : ALERT_ABOVE;
        r->threshold = 1 - r->threshold;
        r->clear = 1 - clear; /* NaN stays NaN */
    }
    if (m && m->active) {
        r->op = ALERT_NOT_EQUAL;
        r->threshold = 4;
        r->clear = NAN;
    }
}

static enum rc put_levels(struct spec_rules *g, struct alert_rule *r, const struct spec_alert *x,
                          const struct meaning *m, struct err *err)
{
    const struct spec_quantity *levels[] = { &x->warn, &x->critical };
    enum rc rc = RC_OK;

    if (r->how == ALERT_ABSENT && !x->warn.known && !x->critical.known) {
        r->severity = ALERT_WARNING;
        r->clear = NAN;
        return put_rule(g, r, &x->name, err);
    }
    for (size_t i = 0; i < ARRAY_SIZE(levels) && rc == RC_OK; i++) {
        if (!levels[i]->known)
            continue;
        r->severity = i ? ALERT_CRITICAL : ALERT_WARNING;
        set_threshold(r, x, levels[i], m);
        rc = put_rule(g, r, &x->name, err);
    }
    return rc;
}

static struct alert_rule rule_of(struct spec_rules *g, const struct spec_alert *x,
                                 const char *whose)
{
    struct alert_rule r = {
        .name = x->name,
        .for_ns = x->for_ms * 1000000,
        .keep_ns = x->keep_ms * 1000000,
        .window_ns = x->window_ms.known ? x->window_ms.v * 1000000 : 0,
        .summary = x->summary,
        .why = "set by the spec",
        .source = spec_file(g->s),
        .runbook = x->runbook,
    };

    if (!r.summary)
        r.summary = arena_printf(g->a, "%s%s is {value}",
                                 x->series ? x->series : spec_metric_name(x->metric), whose);
    return r;
}

static enum rc put_custom(struct spec_rules *g, const struct spec_alert *x, struct err *err)
{
    static const enum alert_how hows[] = {
        [SPEC_HOW_VALUE] = ALERT_VALUE,       [SPEC_HOW_RATE] = ALERT_RATE,
        [SPEC_HOW_INCREASE] = ALERT_INCREASE, [SPEC_HOW_MEAN] = ALERT_MEAN,
        [SPEC_HOW_ABSENT] = ALERT_ABSENT,
    };
    struct alert_rule r = rule_of(g, x, "");

    r.metric = x->series;
    r.how = hows[x->how];
    r.unit = "1";
    if (r.how == ALERT_VALUE || r.how == ALERT_ABSENT)
        r.window_ns = 0;
    return put_levels(g, &r, x, NULL, err);
}

static enum rc put_meanings(struct spec_rules *g, const struct spec_alert *x, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < ARRAY_SIZE(meanings) && rc == RC_OK; i++) {
        const struct meaning *m = &meanings[i];
        struct alert_rule r;

        if (m->word != x->metric)
            continue;
        r = rule_of(g, x, m->whose);
        r.metric = m->metric;
        r.of = m->of;
        r.how = m->how;
        r.from_zero = m->from_zero;
        r.window_ns = !m->window_ns ? 0 : r.window_ns ? r.window_ns : m->window_ns;
        r.unit = m->unit;
        r.guard = m->guard;
        r.guard_op = m->guard_op;
        r.guard_than = m->guard_than;
        rc = put_levels(g, &r, x, m, err);
    }
    return rc;
}

bool alert_is_watched(const struct spec_alert *x)
{
    if (x->metric == SPEC_METRIC_CUSTOM)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (meanings[i].word == x->metric)
            return true;
    return false;
}

enum rc alert_rules_of(const struct spec *s, struct arena *a, const struct alert_rule **out,
                       size_t *out_count, struct err *err)
{
    struct spec_rules g = { .s = s, .a = a };
    enum rc rc;

    g.rules = arena_array(a, struct alert_rule, ALERT_RULES_MAX);
    rc = put_defaults(&g, err);
    for (size_t i = 0; s && i < s->alert_count && rc == RC_OK; i++)
        rc = s->alerts[i].metric == SPEC_METRIC_CUSTOM ? put_custom(&g, &s->alerts[i], err)
                                                       : put_meanings(&g, &s->alerts[i], err);
    if (rc)
        return rc;
    *out = g.rules;
    *out_count = g.count;
    return RC_OK;
}

/* ---- targets */
static void add_quoted(struct buf *b, const char *word)
{
    buf_addc(b, '\'');
    for (; *word; word++)
        if (*word == '\'')
            buf_adds(b, "'\\''");
        else
            buf_addc(b, *word);
    buf_addc(b, '\'');
}

void alert_targets_of(const struct spec *s, struct arena *a, struct alert_targets *out)
{
    const struct spec_notify *n = &s->notify;
    struct buf b = { 0 };

    *out = (struct alert_targets){ .alertmanager = n->alertmanager,
                                   .webhook = n->webhook,
                                   .webhook_token_file = n->webhook_token_file,
                                   .trust = { .ca_file = n->ca_file },
                                   .log = n->log };
    for (size_t i = 0; i < n->command.count; i++) {
        buf_adds(&b, i ? " " : "exec ");
        add_quoted(&b, n->command.items[i]);
    }
    if (b.len)
        out->command = arena_strndup(a, b.data, b.len);
    buf_release(&b);
}

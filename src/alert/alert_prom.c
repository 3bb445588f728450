/* SPDX-License-Identifier: MIT */
/* alert_prom: the rules as a file for Prometheus, so that a site whose Prometheus already wakes
 * people gets the same alerts from it as from the agents.
 *
 *   how             expression
 *   value           M
 *   rate, increase  rate(M[w]), increase(M[w])
 *   mean            avg_over_time(M[w])
 *   absent          (last_over_time(M[1h]) or ALERTS of this rule) unless M and up
 *
 * A ratio is A / B.  Hysteresis asks ALERTS whether the alert fires already; a guard is `and`.
 * A count that is made by its first error has no increase in Prometheus: `unless offset` sees
 * it.  Where the agent waits for half of a window, `and M offset w/2` does: the series must have
 * been there half a window ago. */
#include "alert/alert_int.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"

#include <math.h>

/* What is not exported, but can be computed from what is; %s is the window. */
static const struct derived {
    const char *id, *expr;
    const char *there; /* has the labels of the result */
} derived[] = {
    { "host.cpu.util",
      "100 * (1 - sum without (mode) "
      "(rate(stoker_cpu_seconds_total{mode=~\"idle|iowait\"%s}[%s])) / "
      "stoker_cpus)",
      "stoker_cpus" },
};

static const struct derived *derived_of(const char *id)
{
    for (size_t i = 0; i < ARRAY_SIZE(derived); i++)
        if (str_eq(derived[i].id, id))
            return &derived[i];
    return NULL;
}

static const char *name_of(const struct telemetry_metric *m, enum prom_export_names names)
{
    if (names == PROM_EXPORT_NEW && m->dcgm46)
        return m->dcgm46;
    return m->dcgm ? m->dcgm : m->prom;
}

static bool is_prom_name(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") ==
                     strlen(s);
}

const char *alert_prom_name(const char *id, enum prom_export_names names, double *out_scale)
{
    const struct telemetry_metric *m = telemetry_metric(id);

    *out_scale = m && m->scale != 0 ? m->scale : 1;
    return m ? name_of(m, names) : is_prom_name(id) ? id : NULL;
}

/* What stands for the rule in Prometheus. */
struct prom_form {
    const struct alert_rule *r;
    const struct alert_prom *o;
    const char *metric, *of, *guard;
    const struct derived *derived; /* then `metric` is what must have been there */
    double scale, guard_scale;     /* threshold there of one here */
    double factor;                 /* of the expression; 1: none */
};

static void add_selector(const struct prom_form *f, const char *name, struct buf *out)
{
    const struct alert_rule *r = f->r;
    const char *label, *values;
    size_t len;
    bool others;

    buf_adds(out, name);
    if (!r->where) {
        if (f->o->only)
            buf_addf(out, "{%s}", f->o->only);
        return;
    }
    others = alert_where_split(r->where, &label, &len, &values);
    buf_addf(out, "{%.*s%s\"", (int)len, label, others ? "!~" : "=~");
    for (; *values; values++)
        if (strchr("\\\"\n", *values))
            buf_addc(out, '.'); /* a value that no collector gives */
        else
            buf_addc(out, *values);
    buf_addf(out, "\"%s%s}", f->o->only ? "," : "", f->o->only ? f->o->only : "");
}

static bool form_of(const struct alert_rule *r, const struct alert_prom *o, struct prom_form *out)
{
    struct prom_form f = { .r = r, .o = o, .factor = 1 };
    double of_scale = 1, want;

    f.metric = alert_prom_name(r->metric, o->names, &f.scale);
    f.of = r->of ? alert_prom_name(r->of, o->names, &of_scale) : NULL;
    f.guard = r->guard ? alert_prom_name(r->guard, o->names, &f.guard_scale) : NULL;
    f.derived = !f.metric && !r->of ? derived_of(r->metric) : NULL;
    if (f.derived)
        f.metric = f.derived->there;
    if (!f.metric || (r->of && !f.of) || (r->guard && !f.guard))
        return false;
    f.scale /= of_scale;
    want = str_eq(r->unit, "ns/s")                          ? 1e-9
           : str_eq(r->unit, "B") || str_eq(r->unit, "B/s") ? 1
                                                            : f.scale;
    f.factor = want / f.scale;
    f.scale = want;
    *out = f;
    return true;
}

static const char *duration_text(int64_t ns, char out[UNITS_TEXT_MAX])
{
    return units_duration_exact((uint64_t)(ns / 1000000), out);
}

static void derived_expr(const struct prom_form *f, struct buf *out)
{
    const char *only = f->o->only, *p = f->derived->expr, *at = strstr(p, "%s");
    char w[UNITS_TEXT_MAX];

    buf_add(out, p, (size_t)(at - p));
    if (only)
        buf_addf(out, ",%s", only);
    p = at + 2;
    at = strstr(p, "%s");
    buf_add(out, p, (size_t)(at - p));
    buf_adds(out, f->r->window_ns ? duration_text(f->r->window_ns, w) : "1m");
    buf_adds(out, at + 2);
}

/* What is compared with the threshold. */
static void value_expr(const struct prom_form *f, struct buf *out)
{
    static const char *const functions[] = {
        [ALERT_RATE] = "rate", [ALERT_INCREASE] = "increase", [ALERT_MEAN] = "avg_over_time"
    };
    const struct alert_rule *r = f->r;
    bool over = r->how == ALERT_RATE || r->how == ALERT_INCREASE || r->how == ALERT_MEAN;
    char w[UNITS_TEXT_MAX];

    if (f->derived) {
        derived_expr(f, out);
        return;
    }
    if (over)
        buf_addf(out, "%s(%s", functions[r->how], f->of ? "(" : "");
    add_selector(f, f->metric, out);
    if (f->of) {
        buf_adds(out, " / ");
        add_selector(f, f->of, out);
    }
    if (over)
        buf_addf(out, "%s[%s%s])", f->of ? ")" : "", duration_text(r->window_ns, w),
                 f->of ? ":" : "");
    if (fabs(f->factor - 1) > 1e-9)
        buf_addf(out, " * %.12g", f->factor);
}

static const char *op_sign(enum alert_op op)
{
    static const char *const signs[] = {
        [ALERT_ABOVE] = ">", [ALERT_BELOW] = "<", [ALERT_EQUAL] = "==", [ALERT_NOT_EQUAL] = "!="
    };

    return signs[op];
}

static void add_comparison(const struct prom_form *f, double than, struct buf *out)
{
    value_expr(f, out);
    buf_addf(out, " %s %.12g", op_sign(f->r->op), than * f->scale);
}

/* The agent knows a mean or a rate when half of the window was seen, that too little was added when
 * all of it was.  Prometheus spreads what a part of a window added over the whole, so that too
 * little is known only then too, and so is what is computed from a rate. */
static void add_seen_share(const struct prom_form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;
    bool above = r->op == ALERT_ABOVE;
    bool half = !f->derived && (r->how == ALERT_MEAN || above);
    char w[UNITS_TEXT_MAX];

    bool added = r->how == ALERT_INCREASE;

    if (!(f->o->exact || f->derived || added) || !r->window_ns || (added && above))
        return;
    buf_adds(out, " and ");
    add_selector(f, f->metric, out);
    buf_addf(out, " offset %s", duration_text(half ? r->window_ns / 2 : r->window_ns, w));
}

static bool list_has(const char *list, const char *word, size_t len)
{
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ",");

        if (n == len && !memcmp(p, word, n))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* "on (instance, gpu)": the labels of `id` that are `also`'s too (NULL: all). */
static void add_matching(const char *id, const char *also, struct buf *out)
{
    const struct telemetry_metric *m = telemetry_metric(id),
                                  *o = also ? telemetry_metric(also) : NULL;

    if (!m && !also) { /* of an application: what else it is labelled with is not known */
        buf_adds(out, " and ignoring (alertname, alertstate, severity, metric) ");
        return;
    }
    buf_adds(out, " and on (instance");
    for (const char *p = m ? m->labels : NULL; p && *p;) {
        size_t n = strcspn(p, ",");

        if (!also || (o && list_has(o->labels, p, n)))
            buf_addf(out, ", %.*s", (int)n, p);
        p += n + (p[n] == ',');
    }
    buf_adds(out, ") ");
}

/* What makes a series that one and no other: labels that only describe may change, as the driver's
 * version does, and the thing is there all the same.  A GPU is its UUID. */
static void add_identity(const char *id, struct buf *out)
{
    const struct telemetry_metric *m = telemetry_metric(id);
    static const char words[] = "gpu,pci_bus_id,device,modelName,DCGM_FI_DRIVER_VERSION";
    bool gpu = m && list_has(m->labels, "UUID", 4);

    if (!m) { /* of an application: what else it is labelled with is not known */
        buf_adds(out, "ignoring (alertname, alertstate, severity, metric) ");
        return;
    }
    buf_adds(out, "on (instance");
    for (const char *p = m->labels; p && *p;) {
        size_t n = strcspn(p, ",");

        if (!gpu || !list_has(words, p, n))
            buf_addf(out, ", %.*s", (int)n, p);
        p += n + (p[n] == ',');
    }
    buf_adds(out, ") ");
}

/* What was there within the hour, or is missed already: the alert remembers it, so that it ends
 * when the series is back or Prometheus has its machine no more, and not after a while. */
static void absent_expr(const struct prom_form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;

    buf_adds(out, "(last_over_time(");
    add_selector(f, f->metric, out);
    buf_adds(out, "[1h]) or ");
    add_identity(r->metric, out);
    buf_addf(out,
             "max without (alertname, alertstate, severity) "
             "(ALERTS{alertname=\"%s\",severity=\"%s\"%s%s})) unless ",
             r->name, alert_severity_word(r->severity), f->o->own ? "," : "",
             f->o->own ? f->o->own : "");
    add_identity(r->metric, out);
    add_selector(f, f->metric, out);
    buf_adds(out, " and on (instance) up");
}

/* Of a rule with a window the guard may have been off for a while, as on the node. */
static void guard_expr(const struct prom_form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;
    int64_t grace = alert_guard_grace(r);
    char w[UNITS_TEXT_MAX];

    if (grace >= ALERT_SECOND && (r->guard_op == ALERT_ABOVE || r->guard_op == ALERT_BELOW))
        buf_addf(out, "%s_over_time(%s[%s])", r->guard_op == ALERT_ABOVE ? "max" : "min", f->guard,
                 duration_text(grace, w));
    else
        buf_adds(out, f->guard);
}

static void rule_expr(const struct prom_form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;
    double clear = alert_clear_of(r);
    char w[UNITS_TEXT_MAX];

    if (r->how == ALERT_ABSENT) {
        absent_expr(f, out);
        return;
    }
    buf_adds(out, f->guard ? "((" : "(");
    add_comparison(f, r->threshold, out);
    add_seen_share(f, out);
    buf_addc(out, ')');
    if (r->from_zero && r->op == ALERT_ABOVE) {
        buf_adds(out, " or (");
        add_selector(f, f->metric, out);
        buf_addf(out, " > %.12g unless ", r->threshold * f->scale);
        add_selector(f, f->metric, out);
        buf_addf(out, " offset %s)", duration_text(r->window_ns, w));
    }
    if (clear != r->threshold) {
        buf_adds(out, " or (");
        add_comparison(f, clear, out);
        add_matching(r->metric, NULL, out);
        buf_addf(out, "ALERTS{alertname=\"%s\",alertstate=\"firing\",severity=\"%s\"%s%s})",
                 r->name, alert_severity_word(r->severity), f->o->own ? "," : "",
                 f->o->own ? f->o->own : "");
    }
    if (!f->guard)
        return;
    buf_addc(out, ')');
    add_matching(r->metric, r->guard, out);
    guard_expr(f, out);
    buf_addf(out, " %s %.12g", op_sign(r->guard_op), r->guard_than * f->guard_scale);
}

bool alert_prom_expr(const struct alert_rule *r, const struct alert_prom *o, struct buf *out)
{
    struct prom_form f;

    if (!form_of(r, o, &f))
        return false;
    rule_expr(&f, out);
    return true;
}

/* ---- words */
static void value_template(const char *unit, struct buf *out)
{
    if (str_eq(unit, "ratio") || str_eq(unit, "ns/s"))
        buf_adds(out, "{{ $value | humanizePercentage }}");
    else if (str_eq(unit, "B") || str_eq(unit, "B/s"))
        buf_addf(out, "{{ $value | humanize1024 }}%s", unit);
    else if (str_eq(unit, "$"))
        buf_adds(out, "{{ printf \"%.2f\" $value }}");
    else
        buf_addf(out, "{{ printf \"%%.4g\" $value }}%s",
                 str_eq(unit, "%")    ? " %"
                 : str_eq(unit, "C")  ? " °C"
                 : str_eq(unit, "W")  ? " W"
                 : str_eq(unit, "s")  ? " s"
                 : str_eq(unit, "/s") ? "/s"
                                      : "");
}

void alert_prom_summary(const struct alert_rule *r, struct buf *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    for (const char *p = r->summary; *p; p++) {
        size_t len = *p == '{' ? strspn(p + 1, letters) : 0;
        size_t all = *p == '{' ? strcspn(p + 1, "{}") : 0, one = strcspn(p + 1, "|");

        if (all && p[all + 1] == '}' && one < all) { /* {time|times} */
            buf_addf(out, "{{ if eq $value 1.0 }}%.*s{{ else }}%.*s{{ end }}", (int)one, p + 1,
                     (int)(all - one - 1), p + 2 + one);
            p += all + 1;
        } else if (len && p[len + 1] == '}') {
            if (len == 5 && !memcmp(p + 1, "value", len))
                value_template(r->unit, out);
            else
                buf_addf(out, "{{ $labels.%.*s }}", (int)len, p + 1);
            p += len + 1;
        } else if (*p == '{') {
            buf_adds(out, "{{ \"{\" }}");
        } else {
            buf_addc(out, *p);
        }
    }
}

/* A JSON string is a YAML one too. */
static void add_quoted(struct buf *out, const char *s)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_add_str(&w, s);
    buf_addc(out, '\n');
}

static void add_line(struct buf *out, const char *key, const struct buf *value)
{
    buf_addf(out, "%s: ", key);
    add_quoted(out, buf_str(value));
}

static void write_rule(const struct prom_form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;
    char w[UNITS_TEXT_MAX];
    struct buf b = { 0 };

    buf_adds(out, "      - alert: ");
    add_quoted(out, r->name);
    rule_expr(f, &b);
    add_line(out, "        expr", &b);
    if (r->for_ns)
        buf_addf(out, "        for: %s\n", duration_text(r->for_ns, w));
    if (r->keep_ns)
        buf_addf(out, "        keep_firing_for: %s\n", duration_text(r->keep_ns, w));
    buf_addf(out, "        labels:\n          severity: %s\n", alert_severity_word(r->severity));
    buf_adds(out, "        annotations:\n");
    buf_reset(&b);
    alert_prom_summary(r, &b);
    add_line(out, "          summary", &b);
    if (r->why && *r->why && !strchr(r->why, '{')) {
        buf_adds(out, "          description: ");
        add_quoted(out, r->why);
    }
    if (r->runbook) {
        buf_adds(out, "          runbook_url: ");
        add_quoted(out, r->runbook);
    }
    buf_release(&b);
}

void alert_prom_write(const struct alert_rule *rules, size_t count, enum prom_export_names names,
                      struct buf *out)
{
    buf_adds(out, "# The alerts of stoker's node agent for Prometheus 2.42 or later.\n"
                  "groups:\n  - name: stoker\n    rules:\n");
    for (size_t i = 0; i < count; i++) {
        struct alert_prom o = { .names = names };
        struct prom_form f;

        if (rules[i].off)
            continue;
        if (form_of(&rules[i], &o, &f))
            write_rule(&f, out);
        else
            buf_addf(out, "      # %s: only the agent sees what it is about\n", rules[i].name);
    }
}

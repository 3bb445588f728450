/* SPDX-License-Identifier: MIT */
/* alert_prom: the rules as a file for Prometheus, so that a site whose Prometheus already wakes
 * people gets the same alerts from it as from the agents.
 *
 *   how             expression
 *   value           M
 *   rate, increase  rate(M[w]), increase(M[w])
 *   mean            avg_over_time(M[w])
 *   absent          last_over_time(M[1h]) unless M
 *
 * A ratio is A / B.  Hysteresis asks ALERTS whether the alert fires already; a guard is `and`.
 * A count that is made by its first error has no increase in Prometheus: `unless offset` sees
 * it. */
#include "base/json.h"
#include "base/str.h"
#include "base/units.h"
#include "metrics/alert_int.h"

#include <math.h>

static const char *name_of(const struct tele_metric *m, enum expo_names names)
{
    if (names == EXPO_NEW && m->dcgm46)
        return m->dcgm46;
    return m->dcgm ? m->dcgm : m->prom;
}

static bool is_prom_name(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") ==
                     strlen(s);
}

/* The name in Prometheus and what a value there is of one in the table; NULL: it sees nothing. */
static const char *exported(const char *id, enum expo_names names, double *out_scale)
{
    const struct tele_metric *m = tele_metric(id);

    *out_scale = m && m->scale != 0 ? m->scale : 1;
    return m ? name_of(m, names) : is_prom_name(id) ? id : NULL;
}

static void selector(const struct alert_rule *r, const char *name, struct buf *out)
{
    const char *label, *values;
    size_t len;
    bool others;

    buf_adds(out, name);
    if (!r->where)
        return;
    others = alert_where_split(r->where, &label, &len, &values);
    buf_addf(out, "{%.*s%s\"", (int)len, label, others ? "!~" : "=~");
    for (; *values; values++)
        if (strchr("\\\"\n", *values))
            buf_addc(out, '.'); /* a value that no collector gives */
        else
            buf_addc(out, *values);
    buf_adds(out, "\"}");
}

/* What stands for the rule in Prometheus. */
struct form {
    const struct alert_rule *r;
    const char *metric, *of, *guard;
    double scale, guard_scale; /* threshold there of one here */
    double factor;             /* of the expression; 1: none */
    enum expo_names names;
};

static bool form_of(const struct alert_rule *r, enum expo_names names, struct form *out)
{
    struct form f = { .r = r, .factor = 1, .names = names };
    double of_scale = 1, want;

    f.metric = exported(r->metric, names, &f.scale);
    f.of = r->of ? exported(r->of, names, &of_scale) : NULL;
    f.guard = r->guard ? exported(r->guard, names, &f.guard_scale) : NULL;
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

static const char *duration(int64_t ns, char out[UNITS_TEXT_MAX])
{
    return units_duration_exact((uint64_t)(ns / 1000000), out);
}

/* What is compared with the threshold. */
static void value_expr(const struct form *f, struct buf *out)
{
    static const char *const functions[] = {
        [ALERT_RATE] = "rate", [ALERT_INCREASE] = "increase", [ALERT_MEAN] = "avg_over_time"
    };
    const struct alert_rule *r = f->r;
    bool over = r->how == ALERT_RATE || r->how == ALERT_INCREASE || r->how == ALERT_MEAN;
    char w[UNITS_TEXT_MAX];

    if (over)
        buf_addf(out, "%s(%s", functions[r->how], f->of ? "(" : "");
    selector(r, f->metric, out);
    if (f->of) {
        buf_adds(out, " / ");
        selector(r, f->of, out);
    }
    if (over)
        buf_addf(out, "%s[%s%s])", f->of ? ")" : "", duration(r->window_ns, w), f->of ? ":" : "");
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

static void compare(const struct form *f, double than, struct buf *out)
{
    value_expr(f, out);
    buf_addf(out, " %s %.12g", op_sign(f->r->op), than * f->scale);
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
static void matching(const char *id, const char *also, struct buf *out)
{
    const struct tele_metric *m = tele_metric(id), *o = also ? tele_metric(also) : NULL;

    buf_adds(out, " and on (instance");
    for (const char *p = m ? m->labels : NULL; p && *p;) {
        size_t n = strcspn(p, ",");

        if (!also || (o && list_has(o->labels, p, n)))
            buf_addf(out, ", %.*s", (int)n, p);
        p += n + (p[n] == ',');
    }
    buf_adds(out, ") ");
}

static void expr(const struct form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;
    double clear = alert_clear_of(r);
    char w[UNITS_TEXT_MAX];

    if (r->how == ALERT_ABSENT) {
        buf_adds(out, "last_over_time(");
        selector(r, f->metric, out);
        buf_adds(out, "[1h]) unless ");
        selector(r, f->metric, out);
        return;
    }
    buf_adds(out, f->guard ? "((" : "(");
    compare(f, r->threshold, out);
    buf_addc(out, ')');
    if (r->from_zero) {
        buf_adds(out, " or (");
        selector(r, f->metric, out);
        buf_addf(out, " > %.12g unless ", r->threshold * f->scale);
        selector(r, f->metric, out);
        buf_addf(out, " offset %s)", duration(r->window_ns, w));
    }
    if (clear != r->threshold) {
        buf_adds(out, " or (");
        compare(f, clear, out);
        matching(r->metric, NULL, out);
        buf_addf(out, "ALERTS{alertname=\"%s\",alertstate=\"firing\",severity=\"%s\"})", r->name,
                 alert_severity_word(r->severity));
    }
    if (!f->guard)
        return;
    buf_addc(out, ')');
    matching(r->metric, r->guard, out);
    buf_addf(out, "%s %s %.12g", f->guard, op_sign(r->guard_op), r->guard_than * f->guard_scale);
}

/* ---- words */
static void value_template(const char *unit, struct buf *out)
{
    if (str_eq(unit, "ratio") || str_eq(unit, "ns/s"))
        buf_adds(out, "{{ $value | humanizePercentage }}");
    else if (str_eq(unit, "B") || str_eq(unit, "B/s"))
        buf_addf(out, "{{ $value | humanize1024 }}%s", unit);
    else
        buf_addf(out, "{{ printf \"%%.4g\" $value }}%s",
                 str_eq(unit, "%")    ? " %"
                 : str_eq(unit, "C")  ? " °C"
                 : str_eq(unit, "W")  ? " W"
                 : str_eq(unit, "s")  ? " s"
                 : str_eq(unit, "/s") ? "/s"
                                      : "");
}

static void summary(const struct alert_rule *r, struct buf *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    for (const char *p = r->summary; *p; p++) {
        size_t len = *p == '{' ? strspn(p + 1, letters) : 0;

        if (len && p[len + 1] == '}') {
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
static void quoted(struct buf *out, const char *s)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_add_str(&w, s);
    buf_addc(out, '\n');
}

static void line(struct buf *out, const char *key, const struct buf *value)
{
    buf_addf(out, "%s: ", key);
    quoted(out, buf_str(value));
}

static void write_rule(const struct form *f, struct buf *out)
{
    const struct alert_rule *r = f->r;
    char w[UNITS_TEXT_MAX];
    struct buf b = { 0 };

    buf_adds(out, "      - alert: ");
    quoted(out, r->name);
    expr(f, &b);
    line(out, "        expr", &b);
    if (r->for_ns)
        buf_addf(out, "        for: %s\n", duration(r->for_ns, w));
    if (r->keep_ns)
        buf_addf(out, "        keep_firing_for: %s\n", duration(r->keep_ns, w));
    buf_addf(out, "        labels:\n          severity: %s\n", alert_severity_word(r->severity));
    buf_adds(out, "        annotations:\n");
    buf_reset(&b);
    summary(r, &b);
    line(out, "          summary", &b);
    if (r->why && *r->why && !strchr(r->why, '{')) {
        buf_adds(out, "          description: ");
        quoted(out, r->why);
    }
    if (r->runbook) {
        buf_adds(out, "          runbook_url: ");
        quoted(out, r->runbook);
    }
    buf_release(&b);
}

void alert_prom_write(const struct alert_rule *rules, size_t count, enum expo_names names,
                      struct buf *out)
{
    buf_adds(out, "# The alerts of stoker's node agent for Prometheus 2.42 or later.\n"
                  "groups:\n  - name: stoker\n    rules:\n");
    for (size_t i = 0; i < count; i++) {
        struct form f;

        if (rules[i].off)
            continue;
        if (form_of(&rules[i], names, &f))
            write_rule(&f, out);
        else
            buf_addf(out, "      # %s: the agent alone sees what it is about\n", rules[i].name);
    }
}

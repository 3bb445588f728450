/* SPDX-License-Identifier: MIT */
/* alerts: the rules of a site, gathered once and written as groups of Prometheus.
 *
 * The PromQL of a rule that the agent evaluates is alert/alert_prom.c's, so that the same rule
 * means the same there and here; the node groups and components that an alert of the spec is for
 * become matchers.  Two rules of one name and severity (a word that stands for several metrics)
 * are told apart by a label `metric`.  No alert of a spec has a default rule's name: those have
 * capitals, which names of a spec do not. */
#include "base/str.h"
#include "base/text/units.h"
#include "render/alerts/alerts_int.h"

#include <inttypes.h>
#include <math.h>

enum { SCRAPES_MIN = 4 }; /* in a window */

static const char *buf_taken(struct arena *a, struct buf *b)
{
    const char *s = b->len ? arena_strndup(a, b->data, b->len) : NULL;

    buf_release(b);
    return s;
}

/* A text inside a regular expression inside double quotes of PromQL. */
static void promql_regex(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (strchr("\\.+*?()|[]{}^$", *s))
            buf_adds(out, "\\\\");
        if (*s == '"')
            buf_addc(out, '\\');
        buf_addc(out, *s);
    }
}

/* ---- whom an alert is for */
/* Values of a label as a matcher, and the first as a label that matches it. */
struct alert_values {
    struct buf regex;
    const char *first;
};

static void add_one(struct alert_values *v, const char *s)
{
    if (v->regex.len)
        buf_addc(&v->regex, '|');
    promql_regex(&v->regex, s);
    if (!v->first)
        v->first = s;
}

static void groups_of(const struct spec *s, const struct spec_strs *components,
                      struct alert_values *out)
{
    for (size_t i = 0; i < s->node_count; i++)
        for (size_t k = 0; k < components->count; k++) {
            const struct spec_component *c = spec_component_find(s, components->items[k]);

            if (c && spec_component_on(s, c, &s->nodes[i])) {
                add_one(out, s->nodes[i].name);
                break;
            }
        }
}

bool alerts_is_for(const struct spec *s, const struct spec_alert *x, const struct spec_node *n)
{
    bool runs = !x->components.count;

    for (size_t i = 0; !runs && i < x->components.count; i++) {
        const struct spec_component *c = spec_component_find(s, x->components.items[i]);

        runs = c && spec_component_on(s, c, n);
    }
    return runs && (!x->nodes.count || render_strs_has(&x->nodes, n->name));
}

struct matchers {
    struct buf only, at;
};

static void add_matcher(struct matchers *m, const char *label, struct alert_values *v)
{
    const char *comma = m->only.len ? "," : "";

    if (!v->regex.len)
        return;
    buf_addf(&m->only, "%s%s=~\"%s\"", comma, label, buf_str(&v->regex));
    if (!strstr(buf_str(&m->at), "group=")) /* a label stands once, whatever asks for it */
        buf_addf(&m->at, "%s%s=\"%s\"", comma, label, v->first);
    buf_release(&v->regex);
    *v = (struct alert_values){ 0 };
}

static void for_whom(const struct render *r, struct render_alert *to, bool of_models,
                     struct arena *a)
{
    const struct spec_alert *x = to->own;
    struct matchers m = { 0 };
    struct alert_values v = { 0 };

    if (of_models) {
        for (size_t i = 0; i < r->spec->model_count; i++)
            if (r->spec->models[i].component &&
                render_strs_has(&x->components, r->spec->models[i].component))
                add_one(&v, r->spec->models[i].name);
    }
    if (v.regex.len)
        add_matcher(&m, "model", &v);
    else
        groups_of(r->spec, &x->components, &v);
    add_matcher(&m, "group", &v);
    for (size_t i = 0; i < x->nodes.count; i++)
        add_one(&v, x->nodes.items[i]);
    add_matcher(&m, "group", &v);
    to->only = buf_taken(a, &m.only);
    to->at = buf_taken(a, &m.at);
}

/* ---- gathering */
static const struct spec_alert *own_of(const struct spec *s, const struct alert_rule *rule)
{
    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].name == rule->name) /* the rule borrows it */
            return &s->alerts[i];
    return NULL;
}

static const void *change_of(const struct spec *s, const char *name)
{
    for (size_t i = 0; i < s->default_alert_count; i++)
        if (str_eq(s->default_alerts[i].name, name))
            return &s->default_alerts[i].name;
    return NULL;
}

static bool same_series(const struct render_alert *a, const struct render_alert *b)
{
    return a != b && a->rule.severity == b->rule.severity && str_eq(a->rule.name, b->rule.name);
}

static void rule_expr(const struct render_alerts *all, struct render_alert *x, struct arena *a)
{
    struct alert_prom o = { .names = all->names, .only = x->only, .exact = true };
    struct buf b = { 0 };

    if (x->metric)
        o.own = arena_printf(a, "metric=\"%s\"", x->metric);
    if (!alert_prom_expr(&x->rule, &o, &b))
        x->unseen = "only the agent sees what it is about";
    x->expr = buf_taken(a, &b);
}

/* ---- words that the agent does not watch */
static const char *word_expr(const struct render_alert *x, struct arena *a)
{
    const struct alert_rule *r = &x->rule;
    const char *sign = r->op == ALERT_ABOVE ? ">" : "<";
    struct buf b = { 0 };

    buf_addf(&b, "%s %s %.12g", x->value_expr, sign, r->threshold);
    if (!isnan(r->clear) && r->clear != r->threshold)
        buf_addf(&b,
                 " or (%s %s %.12g and ignoring (alertname, alertstate, severity) "
                 "ALERTS{alertname=\"%s\",alertstate=\"firing\",severity=\"%s\"})",
                 x->value_expr, sign, r->clear, r->name, alert_severity_word(r->severity));
    return buf_taken(a, &b);
}

/* What machines cost is one figure without labels: the words say whose. */
static const char *word_summary(const struct render *r, const struct spec_alert *x,
                                const struct alerts_word *w, struct arena *a)
{
    const char *name = spec_metric_name(x->metric);
    struct buf b = { 0 };

    if (x->metric != SPEC_METRIC_COST_DAY || (!x->nodes.count && !x->components.count))
        return arena_printf(a, "%s%s is {value}", name, w->whose);
    buf_addf(&b, "%s of the machines", name);
    for (size_t i = 0, n = 0; i < r->spec->node_count; i++)
        if (alerts_is_for(r->spec, x, &r->spec->nodes[i]))
            buf_addf(&b, "%s%s", n++ ? ", " : " ", r->spec->nodes[i].name);
    buf_adds(&b, " in dollars is {value}");
    return buf_taken(a, &b);
}

static void add_word(struct render *r, struct render_alerts *all, const struct spec_alert *x,
                     const struct alerts_word *w)
{
    const struct spec_quantity *levels[] = { &x->warn, &x->critical };
    struct arena *a = &all->arena;

    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        struct render_alert *to = &all->items[all->count];
        const struct spec_quantity *first = x->warn.known ? &x->warn : &x->critical;
        struct buf b = { 0 };

        if (!levels[i]->known)
            continue;
        *to = (struct render_alert){ .word = w, .own = x, .member = &x->name };
        for_whom(r, to, w->of_models, a);
        w->expr(r, x, to->only, &b);
        to->value_expr = buf_taken(a, &b);
        to->rule = (struct alert_rule){
            .name = x->name,
            .op = x->when == SPEC_SIDE_ABOVE ? ALERT_ABOVE : ALERT_BELOW,
            .threshold = levels[i]->v * w->scale,
            .clear = x->clear.known ? (levels[i]->v + x->clear.v - first->v) * w->scale : NAN,
            .for_ns = x->for_ms * 1000000,
            .keep_ns = x->keep_ms * 1000000,
            .severity = i ? ALERT_CRITICAL : ALERT_WARNING,
            .unit = w->unit,
            .summary = x->summary,
            .why = "set by the spec",
            .runbook = x->runbook,
        };
        if (!x->summary)
            to->rule.summary = word_summary(r, x, w, a);
        if (to->value_expr)
            to->expr = word_expr(to, a);
        else
            to->unseen = "the spec names no price of the machines it is for";
        all->count++;
    }
}

/* ---- what only the one who scrapes can see */
#define SECONDS(n) ((n)*INT64_C(1000000000))

static const struct alert_rule down[] = {
    { .name = "MachineDown",
      .metric = "up",
      .where = "job=" ALERTS_JOB_AGENT,
      .op = ALERT_EQUAL,
      .clear = NAN,
      .for_ns = SECONDS(120),
      .severity = ALERT_CRITICAL,
      .unit = "1",
      .summary = "The agent of {instance} does not answer",
      .why = "the machine, its network or the agent is down; nothing else is known of it" },
    { .name = "ServerDown",
      .metric = "up",
      .where = "job=" ALERTS_JOB_SERVE,
      .op = ALERT_EQUAL,
      .clear = NAN,
      .for_ns = SECONDS(60),
      .severity = ALERT_CRITICAL,
      .unit = "1",
      .summary = "The model server of {instance} does not answer",
      .why = "requests to its models fail" },
};

/* A window must hold a few scrapes, or Prometheus knows no rate. */
static void rule_widen(const struct render *r, struct alert_rule *rule)
{
    int64_t least_ns = SCRAPES_MIN * r->targets->prometheus->scrape_ms * 1000000;

    if (rule->window_ns && rule->window_ns < least_ns)
        rule->window_ns = least_ns;
}

/* ---- machines that sleep
 *
 * A machine that Slurm powered down does not answer, and nobody is to be woken for it.  Prometheus
 * knows it without asking Slurm: only machines that were idle for SuspendTime are powered down, so
 * that one of such a group which had no process on its GPUs when it was last seen is taken to
 * sleep (or to start), and one that had is down.  What was seen an hour ago is forgotten, but an
 * alert that fires is not: it ends when the machine is back.  A machine that breaks while idle is
 * Slurm's to find. */
bool alerts_group_sleeps(const struct render *r, const struct spec_node *n)
{
    return r->targets->slurm && r->targets->slurm->power_save &&
           (n->capacity == SPEC_CAPACITY_SPOT || n->capacity == SPEC_CAPACITY_ON_DEMAND);
}

static bool site_sleeps(const struct render *r)
{
    for (size_t i = 0; i < r->spec->node_count; i++)
        if (alerts_group_sleeps(r, &r->spec->nodes[i]))
            return true;
    return false;
}

/* ---- GPUs that were replaced
 *
 * A GPU that is gone is missed until it is back, unless the machine has as many as the spec says:
 * another one is in its place. */
static bool is_of_gpus(const struct render_alert *x)
{
    const struct telemetry_metric *m = telemetry_metric(x->rule.metric);

    return x->expr && x->rule.how == ALERT_ABSENT && m && str_starts(m->id, "gpu.") && m->labels &&
           str_starts(m->labels, "gpu,UUID,");
}

static bool has_whole_gpus(const struct spec_node *n, int64_t count)
{
    return n->gpus_per_node == count && n->count && n->gpu && n->gpu->sharing != SPEC_SHARING_MIG;
}

/* Groups whose machines have as many GPUs as that one, as a label's values; empty: an earlier group
 * has as many. */
static void groups_like(const struct spec *s, size_t at, struct buf *out)
{
    for (size_t i = 0; i < s->node_count; i++) {
        if (!has_whole_gpus(&s->nodes[i], s->nodes[at].gpus_per_node))
            continue;
        if (i < at)
            return;
        buf_addf(out, "%s%s", out->len ? "|" : "", s->nodes[i].name);
    }
}

static void spare_replaced(const struct render *r, struct render_alerts *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct render_alert *x = &all->items[i];
        double scale;
        const char *name =
            alert_prom_name(x->rule.metric ? x->rule.metric : "", all->names, &scale);
        struct buf b = { 0 };

        for (size_t n = 0; is_of_gpus(x) && n < r->spec->node_count; n++) {
            struct buf groups = { 0 };

            if (r->spec->nodes[n].gpus_per_node)
                groups_like(r->spec, n, &groups);
            if (groups.len)
                buf_addf(&b, "%scount by (instance) (%s{group=~\"%s\"}) >= %" PRId64,
                         b.len ? " or " : "", name, buf_str(&groups),
                         r->spec->nodes[n].gpus_per_node);
            buf_release(&groups);
        }
        if (b.len)
            x->expr =
                arena_printf(&all->arena, "(%s) unless on (instance) (%s)", x->expr, buf_str(&b));
        buf_release(&b);
    }
}

static void rules_gather(struct render *r, struct render_alerts *all,
                         const struct alert_rule *rules, size_t count)
{
    const struct spec *s = r->spec;

    for (size_t i = 0; i < count; i++) {
        struct render_alert *to = &all->items[all->count++];

        *to = (struct render_alert){ .rule = rules[i], .own = own_of(s, &rules[i]) };
        to->member = to->own ? (const void *)&to->own->name : change_of(s, rules[i].name);
        if (to->own)
            for_whom(r, to, str_starts(rules[i].metric, "model."), &all->arena);
    }
    if (r->spec->agent.enabled)
        all->items[all->count++].rule = down[0];
    if (r->spec->model_count)
        all->items[all->count++].rule = down[1];
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->count; k++)
            if (all->items[i].own && same_series(&all->items[i], &all->items[k]))
                all->items[i].metric = all->items[i].rule.metric;
    for (size_t i = 0; i < all->count; i++) {
        rule_widen(r, &all->items[i].rule);
        rule_expr(all, &all->items[i], &all->arena);
    }
    spare_replaced(r, all);
    /* Rules about what does not answer; those of values that are there need nothing. */
    for (size_t i = 0; site_sleeps(r) && i < all->count; i++) {
        struct render_alert *x = &all->items[i];
        bool is_up = str_eq(x->rule.metric, "up");
        const char *by =
            is_up && !strstr(x->expr ? x->expr : "", ALERTS_JOB_AGENT) ? "machine" : "instance";

        if (!x->expr || (!is_up && x->rule.how != ALERT_ABSENT))
            continue;
        x->expr = arena_printf(
            &all->arena,
            "(%s) unless on (%s) (up{job=\"" ALERTS_JOB_AGENT "\"," ALERTS_SLEEPS "} == 0 unless "
            "on (instance) (sum by (instance) (last_over_time(stoker_gpu_processes[1h])) > 0) "
            "unless on (%s) ALERTS{alertname=\"%s\",alertstate=\"firing\",severity=\"%s\"})",
            x->expr, by, by, x->rule.name, alert_severity_word(x->rule.severity));
    }
    for (size_t i = 0; i < s->alert_count; i++) {
        const struct alerts_word *w = alerts_word_of(s->alerts[i].metric);

        if (w && !alert_is_watched(&s->alerts[i]))
            add_word(r, all, &s->alerts[i], w);
    }
}

bool render_alerts_init(struct render *r, struct render_alerts *out)
{
    bool new_names = r->spec->agent.dcgm_names == SPEC_DCGM_NEW;
    const struct alert_rule *rules;
    struct err err = { 0 };
    size_t count;

    *out = (struct render_alerts){ .names = new_names ? PROM_EXPORT_NEW : PROM_EXPORT_OLD };
    if (alert_rules_of(r->spec, &out->arena, &rules, &count, &err)) {
        render_refuse(r, r->spec->alert_count ? &r->spec->alerts[0].name : NULL, NULL,
                      "there are more than %d alerts", ALERT_RULES_MAX);
        return false;
    }
    out->items = arena_array(&out->arena, struct render_alert,
                             count + 2 * r->spec->alert_count + ARRAY_SIZE(down) +
                                 alerts_budgets_most(r->spec));
    rules_gather(r, out, rules, count);
    if (r->spec->agent.enabled)
        alerts_budgets(r, out);
    return true;
}

void render_alerts_release(struct render_alerts *a)
{
    arena_release(&a->arena);
}

/* ---- writing */
static const struct alert_group {
    const char *name, *ids; /* begins of metric ids, a blank between; NULL: what the spec adds */
} groups[] = {
    { "stoker-gpu", "gpu. link." },
    { "stoker-network", "port. net." },
    { "stoker-storage", "mount. disk. nfs. lustre." },
    { "stoker-host", "host." },
    { "stoker-work", "job. model." },
    { "stoker-agent", "agent. up" },
    { "stoker-site", NULL },
};

static size_t group_of(const struct render_alert *x)
{
    if (x->budget)
        return ARRAY_SIZE(groups); /* alerts_groups() writes them */
    for (size_t i = 0; !x->own && i < ARRAY_SIZE(groups) - 1; i++)
        for (const char *p = groups[i].ids; *p; p += strspn(p, " ")) {
            size_t n = strcspn(p, " ");

            if (!strncmp(x->rule.metric, p, n))
                return i;
            p += n;
        }
    return ARRAY_SIZE(groups) - 1;
}

static void put_duration(struct yaml_out *y, const char *key, int64_t ns)
{
    char w[UNITS_TEXT_MAX];

    if (ns)
        yaml_str(y, key, units_duration_exact((uint64_t)(ns / 1000000), w));
}

static void put_alert(struct render *r, const struct render_alert *x, struct yaml_out *y)
{
    struct buf b = { 0 };

    yaml_map(y, NULL);
    yaml_note(y, x->member ? render_from(r, x->member) : "default");
    yaml_str(y, "alert", x->rule.name);
    yaml_str(y, "expr", x->expr);
    put_duration(y, "for", x->rule.for_ns);
    put_duration(y, "keep_firing_for", x->rule.keep_ns);
    yaml_map(y, "labels");
    yaml_str(y, "severity", alert_severity_word(x->rule.severity));
    if (x->metric)
        yaml_str(y, "metric", x->metric);
    if (x->component)
        yaml_str(y, "component", x->component);
    yaml_end(y);
    yaml_map(y, "annotations");
    alert_prom_summary(&x->rule, &b);
    yaml_str(y, "summary", buf_str(&b));
    if (x->rule.why && *x->rule.why && !strchr(x->rule.why, '{'))
        yaml_str(y, "description", x->rule.why);
    if (x->rule.runbook) { /* an address may hold braces, which are no template */
        buf_reset(&b);
        for (const char *p = x->rule.runbook; *p; p++)
            if (*p == '{')
                buf_adds(&b, "{{ \"{\" }}");
            else
                buf_addc(&b, *p);
        yaml_str(y, "runbook_url", buf_str(&b));
    }
    yaml_end(y);
    buf_release(&b);
    yaml_end(y);
}

static size_t seen_in(const struct render_alerts *all, size_t group)
{
    size_t n = 0;

    for (size_t i = 0; i < all->count; i++)
        n += group_of(&all->items[i]) == group && all->items[i].expr;
    return n;
}

static void put_group(struct render *r, const struct render_alerts *all, size_t group,
                      struct yaml_out *y)
{
    if (!seen_in(all, group))
        return;
    yaml_map(y, NULL);
    yaml_str(y, "name", groups[group].name);
    yaml_seq(y, "rules");
    for (size_t i = 0; i < all->count; i++) {
        const struct render_alert *x = &all->items[i];

        if (group_of(x) == group && x->expr)
            put_alert(r, x, y);
    }
    yaml_ends(y, 2);
}

void alerts_groups(struct render *r, struct yaml_out *y)
{
    struct render_alerts all;

    if (render_alerts_init(r, &all)) {
        for (size_t i = 0; i < all.count; i++) {
            const struct render_alert *x = &all.items[i];
            struct buf b = { 0 };

            if (x->expr)
                continue;
            buf_addf(&b, "left out: %s (%s)", x->rule.name, x->unseen);
            yaml_comment(y, buf_str(&b));
            buf_release(&b);
            if (x->own)
                render_warn(r, x->member, NULL, "Prometheus has no rule for alert '%s': %s",
                            x->rule.name, x->unseen);
        }
        yaml_seq(y, "groups");
        for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
            put_group(r, &all, i, y);
        /* What budgets need is in the file of the alerts: all that an operator's rules have. */
        if (all.record_count) {
            yaml_map(y, NULL);
            yaml_str(y, "name", "stoker-cost");
            yaml_str(y, "interval", "1m");
            yaml_seq(y, "rules");
            for (size_t i = 0; i < all.record_count; i++) {
                const struct alerts_record *x = &all.records[i];

                yaml_map(y, NULL);
                render_str(r, y, "record", x->name, x->member);
                yaml_str(y, "expr", x->expr);
                if (x->component)
                    yaml_map_of(y, "labels", "component", x->component);
                yaml_end(y);
            }
            for (size_t i = 0; i < all.count; i++)
                if (all.items[i].budget)
                    put_alert(r, &all.items[i], y);
            yaml_ends(y, 2);
        }
        yaml_end(y);
    }
    render_alerts_release(&all);
}

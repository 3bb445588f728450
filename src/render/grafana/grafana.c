/* SPDX-License-Identifier: MIT */
/* grafana: dashboards of machines, of all together and of model servers, and the two files by
 * which Grafana finds them and Prometheus when it starts.
 *
 * Limits drawn into a panel are those of the alert that watches the same thing: the spec's own
 * where it has one, else the default rule's.  Goals of the spec are lines beside what they are
 * about: a goal that is missed is no alarm, so they leave the colours to the limits. */
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "render/grafana/grafana_int.h"

#include <assert.h>
#include <math.h>

#define SOURCE_UID "stoker-prometheus"

enum { SCHEMA = 39, UID_SITE_MAX = 20 };

struct dashboard_file {
    struct render *r;
    const struct render_alerts *alerts;
    const struct dashboard *d;
    struct json_out w;
    int id, x, y, row_h; /* where the next panel goes */
};

/* ---- expressions */
static void expr_of(const struct dashboard_file *p, const char *text, struct buf *out)
{
    char id[64];
    double scale;

    for (; *text; text++) {
        const char *end = *text == '@' ? strchr(text + 1, '@') : NULL, *name;
        size_t len = end ? (size_t)(end - text) - 1 : 0;

        if (!end) {
            buf_addc(out, *text);
            continue;
        }
        assert(len && len < sizeof(id));
        memcpy(id, text + 1, len);
        id[len] = '\0';
        name = alert_prom_name(id, p->alerts->names, &scale);
        assert(name); /* the tables name what is exported */
        buf_adds(out, name);
        text = end;
    }
}

static void kv_expr(struct dashboard_file *p, const char *key, const char *text)
{
    struct buf b = { 0 };

    expr_of(p, text, &b);
    json_kv_str(&p->w, key, buf_str(&b));
    buf_release(&b);
}

/* ---- thresholds */
struct limits {
    double warning, critical; /* NaN: none */
    bool above;
};

/* `watch` is a metric's id, a quotient of two, or a word of the spec that is no metric. */
static bool alert_watches(const struct render_alert *x, const char *watch)
{
    const struct alert_rule *r = &x->rule;
    const char *of = strchr(watch, '/');
    size_t len = strcspn(watch, "/");

    if (r->how == ALERT_ABSENT || r->op == ALERT_EQUAL || r->op == ALERT_NOT_EQUAL)
        return false;
    if (x->word)
        return str_eq(spec_metric_name(x->word->metric), watch);
    return strlen(r->metric) == len && !memcmp(r->metric, watch, len) &&
           (of ? str_eq(r->of, of + 1) : !r->of);
}

/* The first alert of the spec, else of the default rules; NULL: none. */
static const struct render_alert *alert_watcher(const struct dashboard_file *p, const char *watch)
{
    for (int own = 1; watch && own >= 0; own--)
        for (size_t i = 0; i < p->alerts->count; i++) {
            const struct render_alert *x = &p->alerts->items[i];

            if ((x->own != NULL) == own && alert_watches(x, watch))
                return x;
        }
    return NULL;
}

static struct limits limits_of(const struct dashboard_file *p, const struct grafana_panel *panel)
{
    double scale = panel->watch_scale > 0 ? panel->watch_scale : 1;
    const struct render_alert *first = alert_watcher(p, panel->watch);
    struct limits l = { .warning = NAN, .critical = NAN };

    for (size_t i = 0; first && i < p->alerts->count; i++) {
        const struct render_alert *x = &p->alerts->items[i];

        if (!str_eq(x->rule.name, first->rule.name) || !alert_watches(x, panel->watch))
            continue;
        l.above = x->rule.op == ALERT_ABOVE;
        if (x->rule.severity == ALERT_CRITICAL)
            l.critical = x->rule.threshold * scale;
        else
            l.warning = x->rule.threshold * scale;
    }
    return l;
}

static void put_step(struct json_out *w, const char *color, double from)
{
    json_obj(w);
    json_kv_str(w, "color", color);
    json_key(w, "value");
    if (isnan(from))
        json_add_null(w); /* from the bottom */
    else
        buf_addf(json_raw(w), "%.9g", from);
    json_obj_end(w);
}

static void put_thresholds(struct json_out *w, const struct limits *l)
{
    bool warn = !isnan(l->warning), crit = !isnan(l->critical);

    json_kv_obj(w, "thresholds");
    json_kv_str(w, "mode", "absolute");
    json_kv_arr(w, "steps");
    if (l->above || (!warn && !crit)) {
        put_step(w, "green", NAN);
        if (warn)
            put_step(w, "orange", l->warning);
        if (crit)
            put_step(w, "red", l->critical);
    } else {
        put_step(w, crit ? "red" : "orange", NAN);
        if (crit && warn)
            put_step(w, "orange", l->critical);
        put_step(w, "green", warn ? l->warning : l->critical);
    }
    json_arr_end(w);
    json_obj_end(w);
}

/* ---- panels */
static void put_source(struct json_out *w)
{
    json_kv_obj(w, "datasource");
    json_kv_str(w, "type", "prometheus");
    json_kv_str(w, "uid", "${datasource}");
    json_obj_end(w);
}

static void put_query(struct dashboard_file *p, const struct grafana_panel *panel, size_t at,
                      const struct panel_query *q)
{
    struct json_out *w = &p->w;
    bool range = panel->kind == PANEL_LINES;
    char ref[8];

    if (at < 26)
        (void)snprintf(ref, sizeof(ref), "%c", (char)('A' + at));
    else
        (void)snprintf(ref, sizeof(ref), "Q%zu", at % 100000);
    json_obj(w);
    json_kv_str(w, "refId", ref);
    put_source(w);
    kv_expr(p, "expr", q->expr);
    json_kv_str(w, "legendFormat", q->legend);
    json_kv_bool(w, "range", range);
    json_kv_bool(w, "instant", !range);
    json_kv_str(w, "format", panel->kind == PANEL_TABLE ? "table" : "time_series");
    json_obj_end(w);
}

/* Is the goal about what the panel shows?  `out`: the panel's units in one of the goal's. */
static bool goal_fits(const struct spec_goal *g, const struct grafana_panel *panel, double *out)
{
    const char *watch = panel->kind == PANEL_LINES ? panel->watch : NULL;
    const struct alerts_word *word = alerts_word_of(g->metric);
    double scale = panel->watch_scale > 0 ? panel->watch_scale : 1;
    size_t len = watch ? strcspn(watch, "/") : 0;
    struct alert_meaning a;

    if (watch && word && str_eq(spec_metric_name(g->metric), watch)) {
        *out = word->scale * scale;
        return true;
    }
    for (size_t k = 0; watch && alert_meaning_at(g->metric, k, &a); k++)
        if ((a.how == ALERT_VALUE || a.how == ALERT_MEAN) && !a.left && strlen(a.metric) == len &&
            !memcmp(a.metric, watch, len) && (watch[len] ? str_eq(a.of, watch + len + 1) : !a.of)) {
            *out = a.scale * scale;
            return true;
        }
    return false;
}

static void put_goals(struct dashboard_file *p, const struct grafana_panel *panel, size_t at)
{
    const struct spec *s = p->r->spec;
    double scale = 1;

    for (size_t i = 0; i < s->goal_count; i++) {
        const struct spec_goal *g = &s->goals[i];

        for (int least = 1; least >= 0 && goal_fits(g, panel, &scale); least--) {
            const struct spec_quantity *q = least ? &g->min : &g->max;
            struct buf expr = { 0 }, legend = { 0 };

            if (!q->known)
                continue;
            buf_addf(&expr, "vector(%.9g)", q->v * scale);
            buf_addf(&legend, "goal %s, at %s", g->name, least ? "least" : "most");
            put_query(p, panel, at++, &(struct panel_query){ buf_str(&expr), buf_str(&legend) });
            buf_release(&expr);
            buf_release(&legend);
        }
    }
}

static void put_queries(struct dashboard_file *p, const struct grafana_panel *panel)
{
    struct json_out *w = &p->w;
    size_t n = 0;

    json_kv_arr(w, "targets");
    for (; n < PANEL_QUERIES_MAX && panel->queries[n].expr; n++)
        put_query(p, panel, n, &panel->queries[n]);
    put_goals(p, panel, n);
    json_arr_end(w);
}

static void put_fields(struct dashboard_file *p, const struct grafana_panel *panel)
{
    struct json_out *w = &p->w;
    struct limits l = limits_of(p, panel);
    bool limits = !isnan(l.warning) || !isnan(l.critical);

    json_kv_obj(w, "fieldConfig");
    json_kv_obj(w, "defaults");
    if (panel->unit)
        json_kv_str(w, "unit", panel->unit);
    if (panel->from_zero || panel->kind == PANEL_GAUGE)
        json_kv_int(w, "min", 0);
    if (panel->to_one)
        json_kv_int(w, "max", 1);
    else if (panel->kind == PANEL_GAUGE)
        json_kv_int(w, "max", 100);
    json_kv_obj(w, "color");
    json_kv_str(w, "mode", panel->kind == PANEL_LINES ? "palette-classic" : "thresholds");
    json_obj_end(w);
    put_thresholds(w, &l);
    if (panel->kind == PANEL_LINES) {
        json_kv_obj(w, "custom");
        json_kv_int(w, "lineWidth", 1);
        json_kv_int(w, "fillOpacity", panel->stack ? 30 : 0);
        json_kv_str(w, "showPoints", "never");
        json_kv_bool(w, "spanNulls", false);
        if (panel->stack) {
            json_kv_obj(w, "stacking");
            json_kv_str(w, "mode", "normal");
            json_kv_str(w, "group", "A");
            json_obj_end(w);
        }
        json_kv_obj(w, "thresholdsStyle");
        json_kv_str(w, "mode", limits ? "dashed" : "off");
        json_obj_end(w);
        json_obj_end(w);
    }
    json_obj_end(w);
    json_kv_arr(w, "overrides");
    json_arr_end(w);
    json_obj_end(w);
}

static void put_options(struct dashboard_file *p, const struct grafana_panel *panel)
{
    struct json_out *w = &p->w;

    json_kv_obj(w, "options");
    if (panel->kind == PANEL_LINES) {
        json_kv_obj(w, "legend");
        json_kv_str(w, "displayMode", "list");
        json_kv_str(w, "placement", "bottom");
        json_obj_end(w);
        json_kv_obj(w, "tooltip");
        json_kv_str(w, "mode", "multi");
        json_kv_str(w, "sort", "desc");
        json_obj_end(w);
    } else if (panel->kind != PANEL_TABLE) {
        json_kv_obj(w, "reduceOptions");
        json_kv_arr(w, "calcs");
        json_add_str(w, "lastNotNull");
        json_arr_end(w);
        json_kv_bool(w, "values", false);
        json_obj_end(w);
    }
    if (panel->kind == PANEL_STAT)
        json_kv_str(w, "graphMode", "none");
    if (panel->kind == PANEL_BARS)
        json_kv_str(w, "orientation", "horizontal");
    json_obj_end(w);
}

static void put_place(struct dashboard_file *p, int panel_w, int panel_h)
{
    struct json_out *w = &p->w;

    if (p->x + panel_w > PANEL_WIDTH) {
        p->x = 0;
        p->y += p->row_h;
        p->row_h = 0;
    }
    json_kv_obj(w, "gridPos");
    json_kv_int(w, "x", p->x);
    json_kv_int(w, "y", p->y);
    json_kv_int(w, "w", panel_w);
    json_kv_int(w, "h", panel_h);
    json_obj_end(w);
    p->x += panel_w;
    if (panel_h > p->row_h)
        p->row_h = panel_h;
}

static void put_panel(struct dashboard_file *p, const struct grafana_panel *panel)
{
    static const char *const kinds[] = {
        [PANEL_LINES] = "timeseries", [PANEL_STAT] = "stat",   [PANEL_GAUGE] = "gauge",
        [PANEL_BARS] = "bargauge",    [PANEL_TABLE] = "table", [PANEL_ROW] = "row"
    };
    struct json_out *w = &p->w;
    bool row = panel->kind == PANEL_ROW;

    json_obj(w);
    json_kv_int(w, "id", ++p->id);
    json_kv_str(w, "type", kinds[panel->kind]);
    json_kv_str(w, "title", panel->title);
    if (panel->about)
        json_kv_str(w, "description", panel->about);
    put_place(p, row ? PANEL_WIDTH : panel->w, row ? 1 : panel->h);
    if (row) {
        json_kv_bool(w, "collapsed", false);
        json_kv_arr(w, "panels");
        json_arr_end(w);
    } else {
        put_source(w);
        put_queries(p, panel);
        put_fields(p, panel);
        put_options(p, panel);
    }
    json_obj_end(w);
}

/* ---- the page around them */
static void put_current(struct json_out *w, const char *text, const char *value)
{
    json_kv_obj(w, "current");
    json_kv_str(w, "text", text);
    json_kv_str(w, "value", value);
    json_obj_end(w);
}

static void put_source_variable(struct dashboard_file *p)
{
    struct json_out *w = &p->w;

    json_obj(w);
    json_kv_str(w, "name", "datasource");
    json_kv_str(w, "label", "Prometheus");
    json_kv_str(w, "type", "datasource");
    json_kv_str(w, "query", "prometheus");
    json_kv_int(w, "refresh", 1);
    put_current(w, p->r->targets->grafana->datasource, SOURCE_UID);
    json_obj_end(w);
}

static void put_variable(struct dashboard_file *p, const struct variable *v)
{
    struct json_out *w = &p->w;

    json_obj(w);
    json_kv_str(w, "name", v->name);
    json_kv_str(w, "label", v->label);
    json_kv_str(w, "type", "query");
    put_source(w);
    kv_expr(p, "definition", v->query);
    json_kv_obj(w, "query");
    kv_expr(p, "query", v->query);
    json_kv_str(w, "refId", "StandardVariableQuery");
    json_obj_end(w);
    json_kv_int(w, "refresh", 2);
    json_kv_int(w, "sort", 3);
    json_kv_bool(w, "multi", true);
    json_kv_bool(w, "includeAll", true);
    json_kv_str(w, "allValue", ".*");
    put_current(w, "All", "$__all");
    json_obj_end(w);
}

static void put_names(struct dashboard_file *p)
{
    const char *site = p->r->spec->site.name;
    char name[SPEC_NAME_MAX + 1];
    struct buf b = { 0 };

    buf_addf(&b, "stoker-%s", p->d->file);
    if (site) {
        dns_name(name, site);
        buf_addf(&b, "-%.*s", UID_SITE_MAX, name);
    }
    json_kv_str(&p->w, "uid", buf_str(&b));
    buf_reset(&b);
    buf_addf(&b, "%s%s%s", p->d->title, site ? " of " : "", site ? site : "");
    json_kv_str(&p->w, "title", buf_str(&b));
    json_kv_str(&p->w, "description", p->d->about);
    json_kv_arr(&p->w, "tags");
    json_add_str(&p->w, "stoker");
    json_arr_end(&p->w);
    buf_release(&b);
}

static void put_dashboard(struct render *r, const struct render_alerts *alerts,
                          const struct dashboard *d)
{
    struct dashboard_file p = { .r = r, .alerts = alerts, .d = d };
    struct buf *b = render_file(r, "grafana/dashboards/%s.json", d->file);

    json_out_init(&p.w, b, 2);
    json_obj(&p.w);
    put_names(&p);
    json_kv_int(&p.w, "schemaVersion", SCHEMA);
    json_kv_int(&p.w, "version", 1);
    json_kv_bool(&p.w, "editable", true);
    json_kv_str(&p.w, "timezone", "browser");
    json_kv_str(&p.w, "refresh", "30s");
    json_kv_obj(&p.w, "time");
    json_kv_str(&p.w, "from", "now-3h");
    json_kv_str(&p.w, "to", "now");
    json_obj_end(&p.w);
    json_kv_arr(&p.w, "links");
    json_obj(&p.w);
    json_kv_str(&p.w, "title", "stoker");
    json_kv_str(&p.w, "type", "dashboards");
    json_kv_arr(&p.w, "tags");
    json_add_str(&p.w, "stoker");
    json_arr_end(&p.w);
    json_kv_bool(&p.w, "asDropdown", false);
    json_kv_bool(&p.w, "includeVars", true);
    json_kv_bool(&p.w, "keepTime", true);
    json_obj_end(&p.w);
    json_arr_end(&p.w);
    json_kv_obj(&p.w, "templating");
    json_kv_arr(&p.w, "list");
    put_source_variable(&p);
    for (size_t i = 0; i < p.d->variable_count; i++)
        put_variable(&p, &p.d->variables[i]);
    json_arr_end(&p.w);
    json_obj_end(&p.w);
    json_kv_arr(&p.w, "panels");
    for (size_t i = 0; i < d->panel_count; i++)
        put_panel(&p, &d->panels[i]);
    json_arr_end(&p.w);
    json_obj_end(&p.w);
    buf_addc(b, '\n');
}

/* ---- provisioning: in these files Grafana takes "$NAME" for the environment's */
static void put_literal(struct yaml_out *y, const char *key, const char *value)
{
    struct buf b = { 0 };

    for (; *value; value++) {
        if (*value == '$')
            buf_addc(&b, '$');
        buf_addc(&b, *value);
    }
    yaml_str(y, key, buf_str(&b));
    buf_release(&b);
}

static void put_provider(struct render *r)
{
    const struct spec_grafana *g = r->targets->grafana;
    struct buf *b = render_file(r, "grafana/provisioning/dashboards.yml");
    struct yaml_out y;

    render_head(r, b, "#", "/etc/grafana/provisioning/dashboards/stoker.yml");
    yaml_begin(&y, b);
    yaml_int(&y, "apiVersion", 1);
    yaml_open(&y, "providers[]");
    yaml_str(&y, "name", "stoker");
    yaml_int(&y, "orgId", 1);
    yaml_note(&y, render_from(r, &g->folder));
    put_literal(&y, "folder", g->folder);
    yaml_str(&y, "type", "file");
    yaml_bool(&y, "disableDeletion", true);
    yaml_bool(&y, "allowUiUpdates", false);
    yaml_map(&y, "options");
    yaml_note(&y, "where dashboards/*.json are put");
    yaml_str(&y, "path", "/var/lib/grafana/dashboards/stoker");
    yaml_finish(&y);
}

static void put_datasource(struct render *r)
{
    const struct spec_grafana *g = r->targets->grafana;
    const struct spec_prometheus *p = r->targets->prometheus;
    struct buf *b = render_file(r, "grafana/provisioning/datasources.yml");
    char w[UNITS_TEXT_MAX];
    struct yaml_out y;

    render_head(r, b, "#", "/etc/grafana/provisioning/datasources/stoker.yml");
    yaml_begin(&y, b);
    yaml_int(&y, "apiVersion", 1);
    yaml_open(&y, "datasources[]");
    yaml_note(&y, render_from(r, &g->datasource));
    put_literal(&y, "name", g->datasource);
    yaml_str(&y, "uid", SOURCE_UID);
    yaml_str(&y, "type", "prometheus");
    yaml_str(&y, "access", "proxy");
    yaml_note(&y, render_from(r, &p->url));
    put_literal(&y, "url", p->url);
    yaml_map(&y, "jsonData");
    yaml_str(&y, "httpMethod", "POST");
    render_str(r, &y, "timeInterval", units_duration_exact((uint64_t)p->scrape_ms, w),
               &p->scrape_ms);
    yaml_finish(&y);
}

void render_grafana(struct render *r)
{
    static const struct dashboard *const all[] = { &grafana_node, &grafana_fleet,
                                                   &grafana_serving };
    struct render_alerts alerts;

    if (render_alerts_init(r, &alerts)) {
        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
            put_dashboard(r, &alerts, all[i]);
        put_provider(r);
        put_datasource(r);
    }
    render_alerts_release(&alerts);
}

/* SPDX-License-Identifier: MIT */
/* api_series: the series of the table and their latest values, and the models among them. */
#include "agent/api/api_parts_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <string.h>

static const char *const kind_words[] = {
    [TELEMETRY_GAUGE] = "gauge", [TELEMETRY_COUNTER] = "counter"
};

void api_add_labels(struct json_out *w, const struct telemetry_series *s)
{
    json_obj(w);
    for (size_t i = 0; i < s->label_count; i++)
        json_kv_str(w, s->labels[i].name, s->labels[i].value);
    json_obj_end(w);
}

const char *api_label(const struct telemetry_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return NULL;
}

/* What is asked of a list of series. */
struct series_choice {
    const char *metric; /* NULL: all; a list, a star at the end of one: all that begin so */
    unsigned entities;
    uint64_t limit, offset;
};

static bool series_is_chosen(const struct series_choice *c, const struct telemetry_series *s)
{
    const char *p = c->metric;

    if (!(c->entities & 1U << s->metric->entity))
        return false;
    while (p && *p) {
        size_t len = strcspn(p, ",");

        if (len && p[len - 1] == '*' ? !strncmp(s->metric->id, p, len - 1)
                                     : !strncmp(s->metric->id, p, len) && !s->metric->id[len])
            return true;
        p += len + (p[len] == ',');
    }
    return !c->metric;
}

static void add_series(struct agent_api *a, struct json_out *w, uint32_t id,
                       const struct telemetry_series *s, double value)
{
    json_obj(w);
    json_kv_int(w, "id", id);
    json_kv_str(w, "metric", s->metric->id);
    json_kv_str(w, "source", telemetry_source_name(a->o.telemetry, s->source));
    json_key(w, "labels");
    api_add_labels(w, s);
    json_key(w, "value");
    api_add_value(w, value);
    json_obj_end(w);
}

static void add_metric(struct json_out *w, const struct telemetry_metric *m)
{
    json_kv_obj(w, m->id);
    json_kv_str(w, "entity", telemetry_entity_word(m->entity));
    json_kv_str(w, "kind", kind_words[m->kind]);
    json_kv_str(w, "unit", m->unit);
    json_kv_str(w, "help", m->help);
    json_obj_end(w);
}

/* Each metric of a chosen series once. */
static void add_metrics(struct agent_api *a, struct json_out *w, const struct series_choice *c,
                        size_t count)
{
    const struct telemetry_metric **seen = xcalloc(count + 1, sizeof(*seen));
    size_t n = 0;

    json_kv_obj(w, "metrics");
    for (uint32_t id = 0; id < count; id++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, id);
        size_t i = n;

        if (!s || !series_is_chosen(c, s))
            continue;
        while (i > 0 && seen[i - 1] != s->metric) /* series of a metric stand together mostly */
            i--;
        if (i)
            continue;
        seen[n++] = s->metric;
        add_metric(w, s->metric);
    }
    json_obj_end(w);
    free(seen);
}

enum rc api_series(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err)
{
    static const char *const names[] = { "metric", "entity", "limit", "offset", NULL };
    struct series_choice c = { .metric = api_param(p, "metric") };
    uint64_t matched = 0;
    struct json_out w;
    double *values;
    size_t count;
    enum rc rc = api_params_check(p, names, err);

    if (!rc)
        rc = api_param_entities(p, "entity", ~0U, &c.entities, err);
    if (!rc)
        rc = api_param_uint(p, "limit", 1, TELEMETRY_SERIES_MAX, TELEMETRY_SERIES_MAX, &c.limit,
                            err);
    if (!rc)
        rc = api_param_uint(p, "offset", 0, TELEMETRY_SERIES_MAX, 0, &c.offset, err);
    if (rc)
        return rc;
    values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*values));
    telemetry_hold(a->o.telemetry);
    count = telemetry_copy(a->o.telemetry, values, TELEMETRY_SERIES_MAX);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.series/1");
    api_add_time(&w, "time_ms", api_now_ns(a));
    add_metrics(a, &w, &c, count);
    json_kv_arr(&w, "series");
    for (uint32_t id = 0; id < count; id++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, id);

        if (!s || !series_is_chosen(&c, s))
            continue;
        if (matched >= c.offset && matched - c.offset < c.limit)
            add_series(a, &w, id, s, values[id]);
        matched++;
    }
    json_arr_end(&w);
    json_kv_int(&w, "count", (int64_t)count); /* of the table: more than before means new ones */
    json_kv_int(&w, "renewed",
                (int64_t)telemetry_renewed(a->o.telemetry)); /* ids given to others so far */
    telemetry_let(a->o.telemetry);
    json_kv_int(&w, "matched", (int64_t)matched);
    json_obj_end(&w);
    free(values);
    return RC_OK;
}

/* ---- models: the series of one `model` label as one object */
static bool first_of_model(struct agent_api *a, uint32_t id, const char *model)
{
    for (uint32_t i = 0; i < id; i++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, i);

        if (s && s->metric->entity == TELEMETRY_MODEL && str_eq(api_label(s, "model"), model))
            return false;
    }
    return true;
}

static void add_model(struct agent_api *a, struct json_out *w, const char *model,
                      const double *values, size_t count)
{
    json_obj(w);
    json_kv_str(w, "model", model);
    json_kv_arr(w, "series");
    for (uint32_t id = 0; id < count; id++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, id);

        if (s && s->metric->entity == TELEMETRY_MODEL && str_eq(api_label(s, "model"), model))
            add_series(a, w, id, s, values[id]);
    }
    json_arr_end(w);
    json_obj_end(w);
}

enum rc api_models(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err)
{
    static const char *const names[] = { NULL };
    struct json_out w;
    double *values;
    size_t count;
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*values));
    telemetry_hold(a->o.telemetry);
    count = telemetry_copy(a->o.telemetry, values, TELEMETRY_SERIES_MAX);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.models/1");
    api_add_time(&w, "time_ms", api_now_ns(a));
    json_kv_arr(&w, "models");
    for (uint32_t id = 0; id < count; id++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, id);
        const char *model =
            s && s->metric->entity == TELEMETRY_MODEL ? api_label(s, "model") : NULL;

        if (model && first_of_model(a, id, model))
            add_model(a, &w, model, values, count);
    }
    json_arr_end(&w);
    telemetry_let(a->o.telemetry);
    api_add_doc(a, &w, "server", "models");
    json_obj_end(&w);
    free(values);
    return RC_OK;
}

/* SPDX-License-Identifier: MIT */
/* api_brief: what a fleet keeps of a node: a few values a GPU, what fires, its jobs.
 *
 * A node's document has some kilobytes, most of them labels; of 512 nodes that is more than a page
 * should be sent every few seconds.  The brief is a tenth of it: values stand in columns, a list a
 * metric, one place a GPU.  What another agent says is taken member by member, texts cut and lists
 * bounded, so that nothing passes through as it came. */
#include "agent/api/api_parts_int.h"

#include "base/arena.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A text of at most `max` bytes, or null. */
static void add_text(struct json_out *w, const char *key, const struct json *v, size_t max)
{
    const char *s = json_str(v);
    size_t len = s ? strlen(s) : 0;

    json_key(w, key);
    if (!s) {
        json_add_null(w);
        return;
    }
    if (len > max) {
        len = max;
        while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
            len--; /* not within a character */
    }
    json_add_strn(w, s, len);
}

static void add_number(struct json_out *w, const char *key, const struct json *v)
{
    json_key(w, key);
    api_add_value(w, json_num(v, NAN));
}

/* Four digits: a shade and a sum of thousands need no more. */
static void add_short(struct json_out *w, double v)
{
    char text[40];

    if (!isfinite(v) || v == floor(v)) {
        api_add_value(w, v);
        return;
    }
    snprintf(text, sizeof(text), "%.4g", v);
    buf_adds(json_raw(w), text);
}

static bool any_value(const struct json *gpus, const char *metric)
{
    size_t n = 0;

    for (const struct json *g = gpus->first; g && n < API_GPUS_MAX; g = g->next, n++)
        if (!isnan(json_num(json_get(json_get(g, "now"), metric), NAN)))
            return true;
    return false;
}

/* {"gpu.util": [98, 97, …], …}, and the GPUs' numbers. */
static void add_columns(struct json_out *w, const struct json *gpus)
{
    const struct json *first = gpus ? gpus->first : NULL;

    json_kv_arr(w, "gpus");
    size_t n = 0;
    for (const struct json *g = first; g && n < API_GPUS_MAX; g = g->next, n++)
        api_add_value(w, json_num(json_get(g, "gpu"), NAN));
    json_arr_end(w);
    json_kv_obj(w, "now");
    for (size_t k = 0; first && k < API_BRIEF; k++) {
        if (!any_value(gpus, api_brief[k]))
            continue;
        json_kv_arr(w, api_brief[k]);
        n = 0;
        for (const struct json *g = first; g && n < API_GPUS_MAX; g = g->next, n++)
            add_short(w, json_num(json_get(json_get(g, "now"), api_brief[k]), NAN));
        json_arr_end(w);
    }
    json_obj_end(w);
    add_text(w, "model", json_get(json_get(first, "labels"), "modelName"), API_BRIEF_NAME_MAX);
}

static void add_alerts(struct json_out *w, const struct json *list)
{
    size_t n = 0;

    json_kv_arr(w, "alerts");
    for (const struct json *x = list && list->type == JSON_ARR ? list->first : NULL;
         x && n < API_BRIEF_ALERTS_MAX; x = x->next, n++) {
        json_obj(w);
        add_text(w, "name", json_get(x, "name"), API_BRIEF_NAME_MAX);
        add_text(w, "severity", json_get(x, "severity"), API_BRIEF_NAME_MAX);
        add_number(w, "gpu", json_get(x, "gpu"));
        add_number(w, "fired_ms", json_get(x, "fired_ms"));
        add_text(w, "summary", json_get(x, "summary"), TELEMETRY_VALUE_MAX);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static const char *const job_texts[] = { "job", "user", "state" };
static const char *const job_numbers[] = { "step",       "step_seconds", "rank",
                                           "world_size", "gpu",          "busy_seconds" };

static void add_jobs(struct json_out *w, const struct json *list)
{
    size_t n = 0;

    json_kv_arr(w, "jobs");
    for (const struct json *x = list && list->type == JSON_ARR ? list->first : NULL;
         x && n < API_BRIEF_JOBS_MAX; x = x->next, n++) {
        if (!json_str(json_get(x, "job")))
            continue; /* a file that is none */
        json_obj(w);
        for (size_t i = 0; i < ARRAY_SIZE(job_texts); i++)
            add_text(w, job_texts[i], json_get(x, job_texts[i]), API_BRIEF_NAME_MAX);
        for (size_t i = 0; i < ARRAY_SIZE(job_numbers); i++)
            add_number(w, job_numbers[i], json_get(x, job_numbers[i]));
        json_obj_end(w);
    }
    json_arr_end(w);
}

/* The jobs that this node's files tell, as a list after its key. */
void api_add_jobs(struct agent_api *a, struct json_out *w)
{
    struct buf doc = { .max = TELEMETRY_DOC_MAX };
    struct arena arena = { 0 };
    struct json *root = NULL;

    if (telemetry_doc_copy(a->o.telemetry, "jobs", &doc) && !doc.over &&
        json_parse(&arena, buf_str(&doc), doc.len, &root, NULL) == RC_OK)
        add_jobs(w, json_get(root, "jobs"));
    else
        add_jobs(w, NULL);
    arena_release(&arena);
    buf_release(&doc);
}

static int64_t count_of(const struct json *firing, const char *severity)
{
    double n = json_num(json_get(firing, severity), 0);

    return n > 0 && n < 1e9 ? (int64_t)n : 0;
}

static void take_members(const struct json *doc, struct buf *out)
{
    const struct json *gpus = json_get(doc, "gpus");
    struct json_out w;

    buf_reset(out);
    json_out_init(&w, out, 0);
    json_obj(&w);
    add_text(&w, "version", json_get(doc, "version"), API_BRIEF_NAME_MAX);
    json_kv_bool(&w, "demo", maybe_is(json_bool(json_get(doc, "demo")), 1));
    add_columns(&w, gpus && gpus->type == JSON_ARR ? gpus : NULL);
    add_alerts(&w, json_get(doc, "alerts"));
    add_jobs(&w, json_get(doc, "jobs"));
    json_obj_end(&w);
}

enum rc api_brief_of(const char *text, size_t len, struct api_brief *out, struct err *err)
{
    struct arena arena = { 0 };
    struct json *doc = NULL;
    struct err ignored = { 0 };
    const char *host, *schema;
    enum rc rc = RC_OK;

    if (json_parse(&arena, text, len, &doc, &ignored))
        rc = err_set(err, RC_PARSE, "not a stoker agent: its answer is not JSON");
    schema = json_str(json_get(doc, "schema"));
    if (rc == RC_OK && (!schema || !str_starts(schema, "stoker.node/")))
        rc = err_set(err, RC_PARSE, "not a stoker agent: it answers another document");
    if (rc == RC_OK) {
        host = json_str(json_get(doc, "host"));
        (void)str_copy(out->host, sizeof(out->host), host ? host : "");
        str_make_text(out->host);
        out->critical = count_of(json_get(doc, "firing"), "critical");
        out->warning = count_of(json_get(doc, "firing"), "warning");
        take_members(doc, &out->members);
    }
    arena_release(&arena);
    return rc;
}

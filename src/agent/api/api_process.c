/* SPDX-License-Identifier: MIT */
/* api_process: processes on GPUs, the series of one GPU and pid as one object, with what /proc says
 * of them.  The table's names are copied and let go of first: its writer never waits for /proc. */
#include "agent/api/api_parts_int.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "telemetry/collect/collect.h"

#include <math.h>
#include <stdlib.h>

struct process {
    struct telemetry_series series; /* whose labels name it: our own copy */
    double memory, util;
    const char *type; /* NULL: unknown */
};

static bool same_process(const struct telemetry_series *a, const struct telemetry_series *b)
{
    return str_eq(api_label(a, "gpu"), api_label(b, "gpu")) &&
           str_eq(api_label(a, "pid"), api_label(b, "pid"));
}

/* A series may be another one's as soon as the table is let go of. */
static struct telemetry_series own_copy(const struct telemetry_series *s, struct arena *arena)
{
    struct telemetry_label *labels = arena_array(arena, struct telemetry_label, s->label_count + 1);
    struct telemetry_series out = *s;

    for (size_t i = 0; i < s->label_count; i++)
        labels[i] = (struct telemetry_label){ arena_strdup(arena, s->labels[i].name),
                                              arena_strdup(arena, s->labels[i].value) };
    out.labels = labels;
    return out;
}

static void take_process(struct process *list, size_t *count, const struct telemetry_series *s,
                         double value, struct arena *arena)
{
    size_t i = *count;

    while (i > 0 && !same_process(&list[i - 1].series, s))
        i--;
    if (!i) {
        if (*count == API_PROCESSES_MAX)
            return;
        list[*count] = (struct process){ own_copy(s, arena), NAN, NAN, NULL };
        i = ++*count;
    }
    if (str_eq(s->metric->id, "process.gpu.memory"))
        list[i - 1].memory = value;
    else if (str_eq(s->metric->id, "process.gpu.util"))
        list[i - 1].util = value;
}

static bool is_process(const struct process *p, struct maybe gpu, struct maybe pid)
{
    const char *g = api_label(&p->series, "gpu"), *i = api_label(&p->series, "pid");
    uint64_t number, id;

    return g && i && str_to_u64(g, 10, &number) && str_to_u64(i, 10, &id) &&
           maybe_is(gpu, (int64_t)number) && maybe_is(pid, (int64_t)id);
}

/* What the collector's document says beside its series; both are in one order mostly. */
static void take_types(struct agent_api *a, struct process *list, size_t count, struct arena *arena)
{
    struct buf doc = { .max = TELEMETRY_DOC_MAX };
    struct err ignored = { 0 };
    struct json *root = NULL;
    const struct json *rows;
    size_t at = 0;

    if (telemetry_doc_copy(a->o.telemetry, "processes", &doc) && !doc.over &&
        !json_parse(arena, buf_str(&doc), doc.len, &root, &ignored) &&
        (rows = json_get(root, "processes")))
        for (const struct json *r = rows->first; r; r = r->next) {
            struct maybe gpu = json_int(json_get(r, "gpu")), pid = json_int(json_get(r, "pid"));
            size_t tried = 0;

            while (tried < count && !is_process(&list[(at + tried) % count], gpu, pid))
                tried++;
            if (tried == count)
                continue;
            at = (at + tried) % count;
            list[at++].type = json_str(json_get(r, "type"));
        }
    buf_release(&doc);
}

static void add_process(struct agent_api *a, struct json_out *w, const struct process *p)
{
    struct process_use use = { NAN, NAN };
    const char *text = api_label(&p->series, "pid");
    uint64_t pid;

    if (a->o.root && text && str_to_u64(text, 10, &pid) && pid <= INT32_MAX)
        (void)process_use(a->o.root, (int)pid, &use);
    json_obj(w);
    json_key(w, "labels");
    api_add_labels(w, &p->series);
    json_key(w, "memory_bytes");
    api_add_value(w, p->memory);
    json_key(w, "util_pct");
    api_add_value(w, p->util);
    json_kv_str(w, "type", p->type);
    json_key(w, "cpu_seconds");
    api_add_value(w, use.cpu_s);
    json_key(w, "rss_bytes");
    api_add_value(w, use.rss_bytes);
    json_obj_end(w);
}

static size_t take_all(struct agent_api *a, struct process *list, struct arena *arena)
{
    double *values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*values));
    size_t count, n = 0;

    telemetry_hold(a->o.telemetry);
    count = telemetry_copy(a->o.telemetry, values, TELEMETRY_SERIES_MAX);
    for (uint32_t id = 0; id < count; id++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, id);

        if (s && s->metric->entity == TELEMETRY_PROCESS &&
            !isnan(values[id])) /* it ended: unknown */
            take_process(list, &n, s, values[id], arena);
    }
    telemetry_let(a->o.telemetry);
    free(values);
    return n;
}

void api_add_processes(struct agent_api *a, struct json_out *w)
{
    struct arena arena = { 0 };
    struct process *list = xcalloc(API_PROCESSES_MAX, sizeof(*list));
    size_t n = take_all(a, list, &arena);

    take_types(a, list, n, &arena);
    json_kv_arr(w, "processes");
    for (size_t i = 0; i < n; i++)
        add_process(a, w, &list[i]);
    json_arr_end(w);
    arena_release(&arena);
    free(list);
}

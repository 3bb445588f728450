/* SPDX-License-Identifier: MIT */
/* gpu_once: one sample as JSON, with what each call of the driver cost.
 *
 * Three samples are made a period apart: the first opens everything, the second asks all there
 * is ("full"), the third what each period asks ("usual"). */
#include "telemetry/gpu/gpu_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>

enum { ONCE_APART_MS = 200 }; /* at least: the performance monitor needs half of it */

struct cost {
    const char *call;
    struct gpu_call_stat st;
};

/* Dearest first. */
static int by_cost(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;

    return (x->st.sum_ns < y->st.sum_ns) - (x->st.sum_ns > y->st.sum_ns);
}

static void write_us(struct json_out *w, const char *key, int64_t ns)
{
    int64_t tenths = ns / 100;

    json_kv_num(w, key, (double)tenths / 10);
}

static void write_costs(struct json_out *w, const char *key, const struct gpu_sampler *s,
                        int64_t whole_ns)
{
    struct cost all[GPU_CALL_COUNT];
    size_t n = 0;

    for (unsigned i = 0; i < GPU_CALL_LOAD; i++)
        if (s->stats[i].count)
            all[n++] = (struct cost){ gpu_call_name(i), s->stats[i] };
    qsort(all, n, sizeof(all[0]), by_cost);
    json_kv_obj(w, key);
    write_us(w, "sample_us", whole_ns);
    json_kv_arr(w, "calls");
    for (size_t i = 0; i < n; i++) {
        json_obj(w);
        json_kv_str(w, "call", all[i].call);
        json_kv_int(w, "count", (int64_t)all[i].st.count);
        write_us(w, "total_us", all[i].st.sum_ns);
        write_us(w, "max_us", all[i].st.max_ns);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_obj_end(w);
}

static void write_values(struct json_out *w, const char *const *ids, const double *v, size_t n)
{
    json_kv_obj(w, "metrics");
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            json_kv_num(w, ids[i], v[i]);
    json_obj_end(w);
}

static void write_parts(struct json_out *w, const struct gpu_dev *g)
{
    json_kv_arr(w, "links");
    for (unsigned i = 0; i < g->link_count; i++) {
        json_obj(w);
        json_kv_int(w, "link", i);
        write_values(w, gpu_link_row_ids, g->links[i].v, GPU_LINK_ROWS);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_kv_arr(w, "migs");
    for (size_t i = 0; i < g->mig_count; i++) {
        json_obj(w);
        json_kv_int(w, "gpu_instance", g->migs[i].gi);
        json_kv_str(w, "profile", g->migs[i].profile);
        write_values(w, gpu_row_ids, g->migs[i].values.v, GPU_ROW_COUNT);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void write_gpu(struct json_out *w, const struct gpu_dev *g)
{
    json_obj(w);
    json_kv_int(w, "gpu", g->index);
    json_kv_str(w, "uuid", g->uuid);
    json_kv_str(w, "name", g->name);
    json_kv_str(w, "pci_bus_id", g->bus);
    json_kv_bool(w, "lost", g->lost);
    write_values(w, gpu_row_ids, g->values.v, GPU_ROW_COUNT);
    write_parts(w, g);
    json_obj_end(w);
}

/* One sample; how long it took.  The costs in s->stats are its own. */
static int64_t sample_ns(struct gpu_sampler *s, bool everything)
{
    int64_t began = clock_mono_ns();

    memset(s->stats, 0, sizeof(s->stats));
    s->all_paces = everything;
    s->round = 1; /* only what each period asks, but for `everything` */
    (void)gpu_sampler_sample(s, clock_unix_ms() * 1000000);
    return clock_mono_ns() - began;
}

static void write_all(struct gpu_sampler *s, int apart_ms, struct buf *out)
{
    struct json_out w;
    int64_t first = sample_ns(s, true), full, usual;

    json_doc(&w, out, "stoker.gpu-sample/1");
    json_kv_str(&w, "driver", s->driver);
    write_costs(&w, "first", s, first);
    clock_sleep_ms(apart_ms);
    full = sample_ns(s, true);
    write_costs(&w, "full", s, full);
    clock_sleep_ms(apart_ms);
    usual = sample_ns(s, false);
    write_costs(&w, "usual", s, usual);
    json_kv_arr(&w, "gpus");
    for (unsigned i = 0; i < s->gpu_count; i++)
        write_gpu(&w, &s->gpus[i]);
    json_arr_end(&w);
    json_kv_int(&w, "processes", (int64_t)s->process_count);
    json_doc_end(&w);
}

enum rc gpu_sample_json(const struct gpu_child_opts *o, struct buf *out, struct err *err)
{
    struct gpu_page *page = xcalloc(1, sizeof(*page));
    struct gpu_sampler *s = gpu_sampler_new(page, o->root);
    int apart = o->period_ms > 0 ? o->period_ms : GPU_PERIOD_DEFAULT;
    enum rc rc = RC_OK;

    str_copy(page->library, sizeof(page->library), o->nvml ? o->nvml : "");
    if (gpu_sampler_open(s) != GPU_EXIT_ASKED)
        rc = err_set(err, RC_NODEV, "could not ask the driver: %s", page->reason);
    else
        write_all(s, apart > ONCE_APART_MS ? apart : ONCE_APART_MS, out);
    gpu_sampler_free(s);
    free(page);
    return rc;
}

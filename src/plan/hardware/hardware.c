/* SPDX-License-Identifier: MIT */
/* hardware: GPUs of the catalogue as the planner needs them. */
#include "plan/plan_int.h"

#include "base/str.h"
#include "catalog/catalog.h"

#include <math.h>

enum { NAMES_MAX = 64, MIB = 1 << 20 };

static double rate_scaled(struct maybe v, double unit)
{
    return v.known ? (double)v.v * unit : 0;
}

static void from_row(const struct cat_gpu *g, const char *alias, struct plan_gpu *out)
{
    struct plan_gpu p = {
        .mem_bytes = maybe_or(g->mem_mib, 0) * MIB,
        .mem_bytes_s = rate_scaled(g->mem_gbps, 1e9),
        .bf16_flops = rate_scaled(g->bf16_tflops, 1e12),
        .fp8_flops = rate_scaled(g->fp8_tflops, 1e12),
        .fp4_flops = rate_scaled(g->fp4_tflops, 1e12),
        .fp32_flops = rate_scaled(g->fp32_gflops, 1e9),
        .bf16_best = rate_scaled(g->bf16_best, 1e12),
        .fp8_best = rate_scaled(g->fp8_best, 1e12),
        .no_bf16 = g->compute[0] && g->compute[0] < '8' && g->compute[1] == '.', /* 7.5 */
        .few_queues = g->compute[0] && g->compute[1] == '.',                     /* 9.0 */
        .sms = maybe_or(g->sms, 0),
        .link_bytes_s = rate_scaled(g->nvlink_gbps, 1e9),
        .power_w = rate_scaled(g->tdp_w, 1),
        .price_usd_h = rate_scaled(g->price_cents_h, 0.01),
    };

    str_copy(p.name, sizeof(p.name), g->name);
    str_copy(p.alias, sizeof(p.alias), alias);
    str_copy(p.arch, sizeof(p.arch), g->arch);
    str_copy(p.price_date, sizeof(p.price_date), g->price_date);
    str_copy(p.note, sizeof(p.note), g->plan_note);
    *out = p;
}

/* The first of `aliases`, which | separates. */
static void alias_first(const char *aliases, char out[PLAN_ALIAS_MAX])
{
    snprintf(out, PLAN_ALIAS_MAX, "%.*s", (int)strcspn(aliases, "|"), aliases);
}

/* By the catalogue's own rule, so that a spec, `plan` and what the driver prints agree on names. */
static enum rc gpu_find(const struct cat_gpu_table *t, const char *name, struct plan_gpu *out,
                        struct err *err)
{
    const char *near = NULL;
    const struct cat_gpu *g = cat_gpu_named(t, name, &near);
    char firsts[NAMES_MAX][PLAN_ALIAS_MAX];
    const char *names[NAMES_MAX];
    struct buf list = { 0 };
    size_t count = 0;

    if (g && *g->alias) {
        alias_first(g->alias, firsts[0]);
        from_row(g, firsts[0], out);
        if (maybe_or(g->nvlink_bridge, 0)) /* a bridge joins two of them, not eight */
            out->link_bytes_s = 0;
        return RC_OK;
    }
    for (size_t i = 0; i < t->count && count < NAMES_MAX; i++) {
        names[count] = firsts[count];
        alias_first(t->rows[i].alias, firsts[count]);
        if (*firsts[count])
            buf_addf(&list, "%s%s", count ? ", " : "", firsts[count]);
        count += *firsts[count] != 0;
    }
    if (!near) /* the catalogue takes another number for another GPU; here it is a question */
        near = str_nearest(name, names, count);
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "Known are %s.", buf_str(&list));
    buf_release(&list);
    return err_set(err, RC_USAGE, "there is no GPU '%s' in the catalogue", name);
}

enum rc plan_gpu_by_product(const char *product, struct plan_gpu *out, struct err *err)
{
    const struct maybe no_id = { 0 };
    char first[PLAN_ALIAS_MAX];
    const struct cat_gpu *g;
    struct cat_gpu_table t;
    struct arena a = { 0 };
    enum rc rc = cat_gpu_load(&a, &t, err);

    if (rc == RC_OK) {
        g = cat_gpu_find(&t, no_id, product);
        if (g) {
            alias_first(g->alias, first);
            from_row(g, first, out);
        } else {
            err_hint(err, "Give its kind with --gpu; 'stoker plan memory --gpu x' names those that "
                          "are known.");
            rc = err_set(err, RC_USAGE, "the catalogue has no GPU '%s'", product);
        }
    }
    arena_release(&a);
    return rc;
}

enum rc plan_gpu_by_name(const char *name, struct plan_gpu *out, struct err *err)
{
    struct cat_gpu_table t;
    struct arena a = { 0 };
    enum rc rc = cat_gpu_load(&a, &t, err);

    if (rc == RC_OK)
        rc = gpu_find(&t, name, out, err);
    arena_release(&a);
    return rc;
}

void plan_cluster_usual(const struct plan_gpu *gpu, int64_t gpus, struct plan_cluster *out)
{
    bool rack = str_starts(gpu->alias, "gb");
    int64_t node = str_starts(gpu->alias, "gh") ? 4 : 8; /* no board has more than four GH200 */
    /* one adapter a GPU: 100 Gb/s beside Volta, 200 beside Ampere, 400 beside Hopper and later, and
     * one of 200 for a whole node of cards without NVLink */
    double nic = str_eq(gpu->arch, "Volta") ? 12.5e9 : str_eq(gpu->arch, "Ampere") ? 25e9 : 50e9;

    *out = (struct plan_cluster){ .gpu = *gpu,
                                  .gpus = gpus,
                                  .node_gpus = rack ? 72 : node,
                                  .net_bytes_s = gpu->link_bytes_s > 0 ? (double)node * nic : 25e9,
                                  .net_latency_s = 10e-6 };
    if (rack) { /* of trays of four */
        out->net_bytes_s = 72 * nic;
        out->machine_gpus = 4;
    }
}

void plan_gpu_cap(struct plan_gpu *g, double watts)
{
    const double idle = 0.15 * g->power_w; /* fans, leakage, memory: an idle H100 draws 70 to 120 */

    if (!(watts > 0) || !(watts < g->power_w))
        return;
    g->clock = cbrt((watts > 1.2 * idle ? watts - idle : 0.2 * idle) / (g->power_w - idle));
    g->power_w = watts;
}

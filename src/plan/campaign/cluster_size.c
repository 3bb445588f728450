/* SPDX-License-Identifier: MIT */
/* cluster_size: the smallest that meets a deadline, and its three costs. */
#include "plan/cluster_size.h"

#include "base/str.h"
#include "plan/campaign/campaign_int.h"
#include "plan/plan_int.h"

#include <math.h>

enum { GPUS_MOST = 65536, PARTS_MAX = 8, PORTS = 64, NODE_PORTS = 8 };

/* Nodes to try, at most `most`; returns how many. */
static size_t node_counts(int64_t most, int64_t out[PLAN_SIZES_MAX])
{
    size_t n = 0;

    for (int64_t p = 1; p <= most && n + 1 < PLAN_SIZES_MAX; p *= 2) {
        out[n++] = p;
        if (p >= 2 && p / 2 * 3 <= most)
            out[n++] = p / 2 * 3;
    }
    return n;
}

/* What is taken of each node: all of it, or of a rack whose number of GPUs does not divide the
 * batch (72) the largest power of two, as runs on such racks do. */
static void node_of(const struct plan_gpu *gpu, const struct plan_size_want *w,
                    struct plan_cluster *out)
{
    int64_t node, part = 1;

    plan_cluster_usual(gpu, 1, out);
    node = out->node_gpus;
    while (2 * part <= node)
        part *= 2;
    if (part == node || w->best.batch % node == 0)
        return;
    out->net_bytes_s *= (double)part / (double)node;
    out->node_gpus = part;
}

static enum rc size_at(const struct plan_facts *f, const struct plan_model *m,
                       const struct plan_counts *n, const struct plan_gpu *gpu,
                       const struct plan_size_want *w, int64_t gpus, bool whole,
                       struct plan_sized *out, struct err *err)
{
    struct plan_best_want want = w->best;
    struct plan_sized s = { 0 };
    enum rc rc;

    want.whole = whole;
    node_of(gpu, w, &s.cluster);
    s.cluster.gpus = gpus;
    rc = plan_best_of(m, n, &s.cluster, &want, &s.best, err);
    if (rc)
        return rc;
    plan_campaign_of(f, m, n, &s.cluster, &s.best.config, &s.best.time, &w->campaign, &s.campaign);
    *out = s;
    return RC_OK;
}

/* GPUs of each size that is tried: parts of a node where they are asked for, then whole nodes. */
static size_t sizes_of(const struct plan_size_want *w, int64_t node,
                       int64_t out[PLAN_SIZES_MAX + PARTS_MAX])
{
    int64_t most = w->most ? w->most : GPUS_MOST;
    size_t n = 0, nodes;

    for (int64_t g = 1; w->parts && g < node && g <= most && n < PARTS_MAX; g *= 2)
        out[n++] = g;
    nodes = node_counts(most / node, out + n);
    for (size_t i = 0; i < nodes; i++)
        out[n + i] *= node;
    return n + nodes;
}

static bool in_time(const struct plan_sized *s, const struct plan_size_want *w)
{
    return w->days <= 0 || (w->sure ? s->campaign.days.high : s->campaign.days.usual) <= w->days;
}

enum rc plan_size_for(const struct plan_facts *f, const struct plan_model *m,
                      const struct plan_counts *n, const struct plan_gpu *gpu,
                      const struct plan_size_want *w, struct plan_sized *out,
                      struct plan_sized *before, struct err *err)
{
    int64_t sizes[PLAN_SIZES_MAX + PARTS_MAX];
    struct plan_sized last = { 0 }, s;
    struct plan_cluster one;
    struct err inner = { 0 };
    size_t count;

    if (plan_precision_rule_check(gpu, w->best.precision, err))
        return RC_USAGE;
    node_of(gpu, w, &one);
    count = sizes_of(w, one.node_gpus, sizes);
    for (size_t i = 0; i < count; i++) {
        inner = (struct err){ 0 };
        if (size_at(f, m, n, gpu, w, sizes[i], false, &s, &inner))
            continue;         /* it does not fit, or the batch cannot be divided so far */
        if (in_time(&s, w)) { /* the size is found; its plan is the one that 'plan train' gives */
            *before = last;
            return size_at(f, m, n, gpu, w, sizes[i], w->best.whole, out, err);
        }
        if (last.cluster.gpus && s.campaign.days.usual > 2 * last.campaign.days.usual)
            break;
        last = s;
    }
    if (last.cluster.gpus) {
        err_hint(err, "A larger batch lets more GPUs work; a longer deadline needs fewer.");
        return err_set(err, RC_LIMIT, "no size up to %lld x %s does it in %.3g day%s: %.3g at best",
                       (long long)last.cluster.gpus, gpu->name, w->days, w->days == 1 ? "" : "s",
                       last.campaign.days.usual);
    }
    if (*inner.hint)
        err_hint(err, "%s", inner.hint);
    return err_set(err, RC_LIMIT, "%s", *inner.msg ? inner.msg : "nothing fits");
}

/* ---- cost ---- */
int64_t plan_switches(int64_t nodes, int64_t *out_layers)
{
    int64_t ports = nodes * NODE_PORTS;

    *out_layers = nodes < 2 ? 0 : ports <= PORTS * NODE_PORTS ? 1 : ports <= 16384 ? 2 : 3;
    switch (*out_layers) {
    case 0:
        return 0;
    case 1: /* one for each rail, or as many as there are ports for */
        return plan_ceil_div(ports, PORTS);
    case 2: /* half of a leaf's ports go up */
        return plan_ceil_div(ports, PORTS / 2) + plan_ceil_div(ports, PORTS);
    default:
        return 2 * plan_ceil_div(ports, PORTS / 2) + plan_ceil_div(ports, PORTS);
    }
}

static struct plan_range price_times(const struct plan_price *p, double v)
{
    return (struct plan_range){ p->low * v, p->usual * v, p->high * v };
}

static void rent_of(const struct plan_facts *f, const struct plan_sized *s, struct plan_cost *c)
{
    const struct plan_bill *bill = &s->campaign.bill[PLAN_ON_DEMAND];

    c->rent_known = bill->known;
    c->rent_gpus = bill->usd;
    c->rent_storage = price_times(plan_price(f, "fast storage"),
                                  (c->data_bytes + c->kept_bytes) / 1e9 * c->months);
    c->rent_network = price_times(plan_price(f, "egress"), c->egress_bytes / 1e9);
}

static void buy_of(const struct plan_facts *f, const struct plan_sized *s,
                   const struct plan_cost_want *w, struct plan_cost *c)
{
    const struct plan_gpu *gpu = &s->cluster.gpu;
    const struct plan_price *sw = plan_price(f, "switch"), *cable = plan_price(f, "cables");
    double nodes = (double)c->nodes, years = w->own_years > 0 ? w->own_years : 3, hours;
    struct plan_range price;

    c->buy_known = w->node_usd > 0 || str_starts(gpu->alias, "h100");
    if (!c->buy_known)
        return;
    c->buy_gpus = w->node_usd > 0 ? (struct plan_range){ w->node_usd * nodes, w->node_usd * nodes,
                                                         w->node_usd * nodes }
                                  : price_times(plan_price(f, "node"), nodes);
    c->buy_network = price_times(sw, (double)c->switches);
    if (c->layers) {
        double each = c->layers > 1 ? cable->high : cable->low;

        c->buy_network.low += nodes * each;
        c->buy_network.usual += nodes * each;
        c->buy_network.high += nodes * each;
    }
    c->buy_power = s->campaign.site_kwh * plan_price(f, "power")->usual;
    if (!plan_gpu_price(f, gpu, PLAN_ON_DEMAND, &price))
        return;
    /* of a GPU: what it costs to own over the years, by the hour it is worth in rent */
    hours = (c->buy_gpus.usual + c->buy_network.usual) / (nodes * (double)s->cluster.node_gpus);
    c->break_even_hours = hours / (price.usual - s->campaign.site_w / (double)s->cluster.gpus /
                                                     1e3 * plan_price(f, "power")->usual);
    if (c->break_even_hours < 0 || c->break_even_hours > years * 8760)
        c->break_even_hours = 0;
}

void plan_cost_of(const struct plan_facts *f, const struct plan_sized *s, double tokens,
                  const struct plan_cost_want *w, struct plan_cost *out)
{
    struct plan_cost c = { 0 };

    c.nodes = plan_ceil_div(s->cluster.gpus, s->cluster.node_gpus) + w->spares;
    c.months = s->campaign.days.usual * 24 / PLAN_MONTH_H;
    c.data_bytes = w->data_bytes > 0 ? w->data_bytes : plan_fact(f, "data_bytes_token") * tokens;
    c.kept_bytes =
        s->campaign.checkpoint_bytes * (w->kept > 0 ? w->kept : plan_fact(f, "checkpoints_kept"));
    c.egress_bytes = s->campaign.checkpoint_bytes; /* the last one is taken home */
    c.switches = plan_switches(c.nodes, &c.layers);
    rent_of(f, s, &c);
    buy_of(f, s, w, &c);
    *out = c;
}

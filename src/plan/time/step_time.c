/* SPDX-License-Identifier: MIT */
/* step_time: collectives, stages and the step half of a step's time. */
#include "plan/time/step_time_int.h"

#include "plan/plan_int.h"

#include <math.h>

const char *const plan_part_names[PLAN_PARTS] = {
    [PLAN_TIME_MATMUL] = "matmul",
    [PLAN_TIME_ATTENTION] = "attention",
    [PLAN_TIME_MEMORY] = "memory",
    [PLAN_TIME_HEAD] = "head",
    [PLAN_TIME_RECOMPUTE] = "recompute",
    [PLAN_TIME_LAUNCH] = "launch",
    [PLAN_TIME_TP] = "tp",
    [PLAN_TIME_CP] = "cp",
    [PLAN_TIME_EP] = "ep",
    [PLAN_TIME_PP] = "pp",
    [PLAN_TIME_BUBBLE] = "bubble",
    [PLAN_TIME_DP] = "dp",
    [PLAN_TIME_OPTIMIZER] = "optimizer",
    [PLAN_TIME_OFFLOAD] = "offload",
};

enum { SMS_UNKNOWN = 108 }; /* an A100's, where the catalogue has none */

void plan_rates_of(const struct plan_cluster *cl, const struct plan_consts *k,
                   struct plan_rates *out)
{
    const struct plan_gpu *g = &cl->gpu;
    double node = cl->node_gpus > 0 ? (double)cl->node_gpus : 1;
    double fabric = cl->fabric == PLAN_FABRIC_EFA        ? k->c[PLAN_C_EFA]
                    : cl->fabric == PLAN_FABRIC_OMNIPATH ? k->c[PLAN_C_OPA]
                                                         : 1;
    double clock = g->clock > 0 ? g->clock : 1;
    double fp8 = g->fp8_flops > 0 && g->bf16_flops > 0 ? g->fp8_flops / g->bf16_flops : 1;

    *out = (struct plan_rates){
        .peak = g->bf16_flops * clock,
        .fp32 = g->fp32_flops * clock,
        .hbm = g->mem_bytes_s * k->c[PLAN_C_HBM],
        .nvl = g->link_bytes_s > 0 ? g->link_bytes_s * k->c[PLAN_C_NVL] : k->c[PLAN_C_PCIE],
        .net = cl->net_bytes_s / node * fabric * k->c[PLAN_C_NET],
        .fp8 = fp8 * k->c[PLAN_C_FP8],
        .sms = g->sms > 0 ? (double)g->sms : SMS_UNKNOWN,
        .node = node,
        .nodes = ceil((double)cl->gpus / node),
        .memory = (double)g->mem_bytes,
    };
}

/* A ring pipelines NVLink and network, so that the slower one counts.  A larger fabric loses rate
 * to contention; a group with few ports a node loses less than its share, because groups do not
 * all send at once. */
void plan_group_of(const struct plan_rates *r, const struct plan_consts *k, double gpus,
                   double span, bool tp, struct plan_group *out)
{
    double each, ports, rate, in, net;

    *out = (struct plan_group){ 0 };
    if (gpus <= 1)
        return;
    if (span <= 1) {
        out->gather = out->reduce = (gpus - 1) / gpus / r->nvl;
        out->latency = k->c[PLAN_C_NLAT] * (1 + gpus / 4);
        return;
    }
    each = fmin(fmax(gpus / span, 1), r->node);
    ports = r->node * pow(fmin(gpus / span, r->node) / r->node, k->c[PLAN_C_NICP]);
    rate = r->net * pow(fmax(span, 2) / 2, -k->c[PLAN_C_CON]);
    in = (each - 1) / each / r->nvl;
    net = (span - 1) / span / ports / rate;
    out->reduce = fmax(net, in);
    out->gather = fmax(net / k->c[PLAN_C_AGX], in);
    out->latency =
        (tp ? k->c[PLAN_C_XLAT] * gpus : k->c[PLAN_C_XLOG] * log2(span)) + k->c[PLAN_C_NLAT];
    out->hop = k->c[PLAN_C_HOP];
    out->ring = 2 * k->c[PLAN_C_XLAT] * gpus;
}

void plan_groups_of(const struct plan_rates *r, const struct plan_consts *k, int32_t tp, int32_t cp,
                    int32_t dp, int32_t shard, struct plan_groups *out)
{
    double all = (double)dp * cp, each = shard ? shard : all, copies = all / each;
    double nodes = ceil(all * tp / r->node);

    out->shard_gpus = each;
    plan_group_of(r, k, each, fmin(fmax(ceil(each * tp / r->node), 1), each), false, &out->shard);
    plan_group_of(r, k, copies, fmin(fmax(nodes, 1), copies), false, &out->copies);
}

/* ---- stages ---- */

/* The head is worth so many layers; the cut whose fullest stage is least, of equal ones that with
 * the fewest layers on the last stage. */
static void cut_by_cost(const struct plan_model *m, int64_t pp, struct plan_cut *out)
{
    double h = (double)m->hidden, head = (double)(m->kv_lora ? m->v_dim : m->head_dim), best = 0;
    double share = m->experts ? (double)plan_moe_layers(m) / (double)m->layers : 0;
    double ffn =
        (1 - share) * (double)m->ffn + share * (double)(m->top_k * m->expert_ffn + m->shared_ffn);
    double layer = 2 * head * (double)(m->heads + m->kv_heads) * h + (m->gated ? 3 : 2) * ffn * h;
    double head_layers = m->head && layer > 0 ? (double)m->vocab * h / layer : 0;

    for (int64_t last = 0; last <= m->layers; last++) {
        int64_t each = plan_ceil_div(m->layers - last, pp - 1);
        double cost = fmax((double)each, head_layers + (double)last);

        if (last && cost >= best)
            continue;
        best = cost;
        *out = (struct plan_cut){ (double)each, pp > 2 ? (double)each : 0, (double)last };
    }
}

void plan_cut_of(const struct plan_model *m, enum plan_split split, int32_t pp,
                 struct plan_cut *out)
{
    int64_t layers = m->layers, each = layers / pp, rest = layers % pp;
    bool ends = split == PLAN_SPLIT_EMBED_LAYER || (split == PLAN_SPLIT_ENDS_LESS && rest);

    if (pp == 1) {
        *out = (struct plan_cut){ (double)layers, 0, (double)layers };
    } else if (split == PLAN_SPLIT_COST) {
        cut_by_cost(m, pp, out);
    } else if (ends && (layers + 2) % pp == 0) {
        each = (layers + 2) / pp;
        *out =
            (struct plan_cut){ (double)(each - 1), pp > 2 ? (double)each : 0, (double)(each - 1) };
    } else { /* what is left over goes to the stages nearest the middle, the lower one first */
        *out = (struct plan_cut){ (double)(each + (rest == pp - 1)),
                                  pp > 2 ? (double)(each + (rest > 0)) : 0, (double)each };
    }
}

/* ---- the step ---- */
struct traffic { /* seconds of replicas' traffic */
    double exposed, hidden;
};

static double above_zero(double x)
{
    return x > 0 ? x : 0;
}

/* A shard is summed inside its group, and then between the copies of it.  With ZeRO 2 and 3 the
 * gradients of every micro-batch are scattered, because nobody keeps all of them; a stage of a
 * pipeline keeps the sum and scatters it once (plan_scatters_each()).  A stack that sums the
 * gradients of a stage tensor by tensor waits for every rank of the ring with each. */
static struct traffic replica_traffic(const struct plan_layer_time *l, const struct plan_cut *cut,
                                      const struct plan_groups *gs, const struct plan_step *s,
                                      double params, double stage)
{
    const struct plan_group *g = &gs->shard, *c = &gs->copies;
    int w = s->pp > 1;
    double lf = l->fwd[w], lb = l->bwd[w], reduce, gather, exposed, most, times = 1;
    double between =
        2 * (l->grad_bytes * params / gs->shard_gpus * c->reduce + c->latency); /* copies */
    double tensors =
        l->tensors + l->tensors_layer * (cut->first > cut->middle ? cut->first : cut->middle);

    gather = 2 * params * g->gather + g->latency + tensors * g->hop;
    if (s->zero == 3) { /* gathered twice and scattered once for each micro-batch */
        double per = 3 * gather, comp = stage * (lf + lb), under = per < comp ? per : comp;

        exposed = s->micro_batches * (above_zero(per - comp) + l->zero3_open * under) + between;
        return (struct traffic){ exposed, s->micro_batches * per + between - exposed };
    }
    if (s->zero >= 1 && l->hide > 0)
        reduce = l->grad_bytes * params * g->gather + g->latency + between;
    else
        reduce = 2 * (l->grad_bytes * params * g->reduce + g->latency) + between;
    if (s->zero == 0 && s->pp > 1 && l->sums_apart)
        reduce += tensors * g->ring;
    if (plan_scatters_each(s->zero, s->pp))
        times = s->micro_batches;
    most = times * reduce;
    exposed = reduce - (s->zero >= 1 ? l->scatter_hide : l->hide) * cut->last * lb;
    exposed = times * (exposed > l->floor * reduce ? exposed : l->floor * reduce);
    if (s->zero >= 1) {
        double rest = gather - l->gather_hide * cut->first * lf;

        most += gather;
        exposed += rest > l->floor * gather ? rest : l->floor * gather;
    }
    return (struct traffic){ exposed, most - exposed };
}

struct pipe {                            /* what the pipeline half of plan_step_time() found */
    double slowest, all, bubble, layers; /* of the slowest stage: seconds, its layers */
    bool embed, head;
};

static struct pipe pipe_of(const struct plan_layer_time *l, const struct plan_cut *cut,
                           const struct plan_step *s)
{
    double layer = l->fwd[s->pp > 1] + l->bwd[s->pp > 1];
    double first = cut->first * layer + l->embed, last = cut->last * layer + l->head;
    double middle = cut->middle * layer;
    struct pipe p = { .layers = cut->first, .embed = true };

    if (s->pp == 1) {
        p.slowest = p.all = first + l->head + l->micro;
        p.head = true;
        return p;
    }
    p.slowest = first;
    if (middle > p.slowest)
        p = (struct pipe){ .slowest = middle, .layers = cut->middle };
    if (last > p.slowest)
        p = (struct pipe){ .slowest = last, .layers = cut->last, .head = true };
    p.slowest += l->micro + l->send;
    p.all = l->layers * layer + l->embed + l->head + s->pp * (l->micro + l->send);
    p.bubble = (p.all - p.slowest) / (s->vpp > 1 ? s->vpp : 1);
    return p;
}

static void fill_parts(const struct plan_layer_time *l, const struct plan_step *s,
                       const struct pipe *p, const struct traffic *t, double sends, double opt,
                       double offload, double total, struct plan_time *out)
{
    const double *layer = l->part[s->pp > 1];
    double m = s->micro_batches;

    *out = (struct plan_time){ .step_s = total };
    for (int i = 0; i < PLAN_PARTS; i++)
        out->part[i] = m * p->layers * layer[i];
    if (p->embed) {
        out->part[PLAN_TIME_HEAD] += m * (l->embed - l->embed_tp);
        out->part[PLAN_TIME_TP] += m * l->embed_tp;
    }
    if (p->head) {
        out->part[PLAN_TIME_HEAD] += m * (l->head - l->head_tp);
        out->part[PLAN_TIME_TP] += m * l->head_tp;
    }
    out->part[PLAN_TIME_PP] = sends;
    out->part[PLAN_TIME_BUBBLE] = p->bubble;
    out->part[PLAN_TIME_DP] = t->exposed;
    out->part[PLAN_TIME_OPTIMIZER] = opt;
    out->part[PLAN_TIME_OFFLOAD] = offload;
    out->part[PLAN_TIME_LAUNCH] += m * l->micro + l->step;
    out->hidden[PLAN_TIME_TP] = m * p->layers * l->tp_hidden;
    out->hidden[PLAN_TIME_PP] = s->pp > 1 ? m * l->send_hidden * (s->vpp > 1 ? s->vpp : 1) : 0;
    out->hidden[PLAN_TIME_CP] = m * p->layers * l->cp_hidden;
    out->hidden[PLAN_TIME_EP] = m * p->layers * l->ep_hidden;
    out->hidden[PLAN_TIME_DP] = t->hidden;
}

double plan_step_time(const struct plan_layer_time *l, const struct plan_cut *cut,
                      const struct plan_groups *g, const struct plan_step *s,
                      struct plan_time *parts)
{
    struct pipe p = pipe_of(l, cut, s);
    struct traffic t = { 0, 0 };
    double m = s->micro_batches, replicas_of_expert = s->dp * l->cp * l->expert_ratio;
    double sends, opt, total;
    double stage = cut->first > cut->middle ? cut->first : cut->middle, params, experts, held;
    double offload = 0, before;

    stage = stage > cut->last ? stage : cut->last;
    params = stage * l->params + l->table * (s->pp == 1 ? l->tables_one_stage : 1);
    experts = stage * l->expert_params;
    if (replicas_of_expert < 1)
        replicas_of_expert = 1;
    sends = s->pp > 1 ? m * l->send * (s->vpp > 1 ? s->vpp : 1) : 0;
    if (s->dp * l->cp > 1)
        t = replica_traffic(l, cut, g, s, params + (replicas_of_expert > 1 ? experts : 0), stage);
    if (g->shard_gpus < s->dp * l->cp && replicas_of_expert > g->shard_gpus)
        replicas_of_expert = g->shard_gpus;
    held = s->zero >= 1 ? params / g->shard_gpus + experts / replicas_of_expert : params + experts;
    opt = l->opt_bytes * held / l->hbm;
    if (l->offload_optimizer) { /* gradients down, weights up, the update on the host */
        offload = held * (6 / l->pcie + l->opt_bytes / l->host_mem);
        opt = 0;
    }
    if (l->offload_params)
        offload += m * 2 * 2 * params / g->shard_gpus / l->pcie;
    total = m * (p.slowest - (s->pp > 1 ? l->send : 0)) + sends + p.bubble + t.exposed + opt +
            offload + l->step;
    before = total;
    if (s->zero == 3 && 16 * params / g->shard_gpus > l->press_bytes)
        total *= l->press;
    if (parts) {
        fill_parts(l, s, &p, &t, sends, opt, offload, total, parts);
        parts->part[PLAN_TIME_LAUNCH] += total - before; /* the allocator's */
    }
    return total;
}

/* ---- both halves ---- */
static double whole_step(const struct plan_model *m, const struct plan_cluster *cl,
                         const struct plan_config *c, const struct plan_consts *k,
                         struct plan_time *parts)
{
    const struct plan_step s = {
        .pp = c->pp, .vpp = c->vpp, .micro_batches = c->grad_acc, .dp = c->dp, .zero = c->zero
    };
    struct plan_layer_time l;
    struct plan_rates r;
    struct plan_groups g;
    struct plan_cut cut = { 0 };

    plan_rates_of(cl, k, &r);
    plan_layer_time_of(m, &r, k, c, &l);
    plan_cut_of(m, c->profile.split, c->pp, &cut);
    plan_groups_of(&r, k, c->tp, c->cp, c->dp, c->zero ? c->shard : 0, &g);
    return plan_step_time(&l, &cut, &g, &s, parts);
}

double plan_seconds(const struct plan_model *m, const struct plan_cluster *cl,
                    const struct plan_config *c, const struct plan_consts *k)
{
    return whole_step(m, cl, c, k, NULL);
}

void plan_time_of(const struct plan_model *m, const struct plan_counts *n,
                  const struct plan_cluster *cl, const struct plan_config *c,
                  const struct plan_consts *k, struct plan_time *out)
{
    struct plan_recompute_share again = { 0, 0 };
    double tokens = (double)c->grad_acc * c->dp * c->micro_batch * (double)c->seq, peak;

    (void)n;
    whole_step(m, cl, c, k, out);
    if (c->recompute == PLAN_RECOMPUTE_FULL)
        again.layers = 1;
    else if (c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        again.attention = 1;
    peak = cl->gpu.bf16_flops * (double)cl->gpus;
    out->tokens_s = tokens / out->step_s;
    out->flops = PLAN_FLOPS_FULL;
    out->mfu = plan_flops_token(m, c->seq, PLAN_FLOPS_FULL, again) * out->tokens_s / peak;
    out->hfu = plan_flops_token(m, c->seq, PLAN_FLOPS_HARDWARE, again) * out->tokens_s / peak;
    out->joules = out->step_s * cl->gpu.power_w * (double)cl->gpus;
}

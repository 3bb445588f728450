/* SPDX-License-Identifier: MIT */
/* layer_time: the half of a step's time that does not depend on the pipeline, on replicas or on
 * ZeRO: one layer, the head and the embedding, for one micro-batch on one GPU.
 *
 * Matrix products are quantised to tiles and waves; what is bound by memory counts its bytes;
 * device and host run beside each other, so that the slower of them counts. */
#include "plan/time/step_time_int.h"

#include <math.h>

enum { TILE = 128, TILE_WIDE = 256 };

struct layer_work { /* one layer's job in doubles */
    const struct plan_rates *r;
    const double *k; /* enum plan_const */
    const struct plan_config *c;
    const struct plan_model *m;
    double tokens, tp, h, q, kv, heads; /* tokens of a micro-batch on this GPU; widths of Q, K */
    double gates;                       /* matrices into the MLP: 2 with a gate */
    double dense;                       /* share of layers without experts */
    double local, routed, etp;          /* experts here; tokens routed to them; their own cut */
    double size;                        /* bytes of an activation */
    double peak;                        /* FLOP/s of a product in fp32 or 16 bits */
    bool not_fused;                     /* the softmax kernel of Megatron does not apply */
};

/* A maximum with a rounded corner; the higher p, the sharper. */
static double power_max(double x, double y, double p)
{
    double m = x > y ? x : y, q = x > y ? y : x;

    return m > 0 ? m * pow(1 + pow(q / m, p), 1 / p) : 0;
}

static double tile_count(double n)
{
    return TILE * ceil(n / TILE);
}

static double gemm_time(const struct layer_work *w, double m, double n, double k, bool fp8)
{
    double waves = tile_count(m) * tile_count(n) / (TILE * TILE_WIDE) / w->r->sms, rate, busy,
           bytes;

    if (!(m > 0 && n > 0 && k > 0))
        return 0;
    rate = w->peak * w->k[PLAN_C_GEMM];
    if (fp8 && w->c->precision == PLAN_FP8)
        rate *= w->r->fp8;
    busy = 2 * tile_count(m) * tile_count(n) * k / rate * (1 + w->k[PLAN_C_K0] / k) *
           (1 + w->k[PLAN_C_TAIL] / fmax(waves, 0.25));
    bytes = w->size * (m * n + n * k + m * k);
    return power_max(busy, bytes / w->r->hbm, 10);
}

static void work_of(const struct plan_model *m, const struct plan_rates *r,
                    const struct plan_consts *k, const struct plan_config *c, struct layer_work *w)
{
    double head = (double)(m->kv_lora ? m->v_dim : m->head_dim);
    double each = (double)c->micro_batch * (double)m->heads / c->tp;

    *w = (struct layer_work){ .r = r,
                              .k = k->c,
                              .c = c,
                              .m = m,
                              .tokens = (double)c->micro_batch * (double)c->seq / c->cp,
                              .tp = c->tp,
                              .h = (double)m->hidden,
                              .heads = (double)m->heads,
                              .q = (double)m->heads * head,
                              .kv = (double)m->kv_heads * head,
                              .gates = m->gated ? 2 : 1,
                              .dense = 1,
                              .etp = 1,
                              .size = c->precision == PLAN_FP32 ? 4 : 2,
                              .peak = c->precision == PLAN_FP32 ? r->fp32 : r->peak,
                              .not_fused = !c->profile.flash && fmod(each, 4) != 0 };
    if (m->experts) {
        w->dense = 1 - (double)plan_moe_layers(m) / (double)m->layers;
        w->local = fmax((double)m->experts / c->ep, 1);
        w->routed = w->tokens * (double)m->top_k / w->tp;
        w->etp = c->etp ? c->etp : 1;
    }
}

static double mlp_time(const struct layer_work *w, double ffn)
{
    return gemm_time(w, w->tokens, w->gates * ffn / w->tp, w->h, true) +
           gemm_time(w, w->tokens, w->h, ffn / w->tp, true);
}

static double experts_time(const struct layer_work *w)
{
    double each = fmax(w->routed * w->etp / w->local, 1), rows = w->local * tile_count(each);
    double ffn = (double)w->m->expert_ffn / w->etp;

    return (gemm_time(w, rows, w->gates * ffn, w->h, true) + gemm_time(w, rows, w->h, ffn, true)) /
               w->k[PLAN_C_MOE] +
           (w->m->shared_ffn ? mlp_time(w, (double)w->m->shared_ffn) : 0);
}

static double projections_time(const struct layer_work *w)
{
    const struct plan_model *m = w->m;
    double t = w->tokens, a = w->heads / w->tp, qk = (double)(m->qk_nope + m->qk_rope);
    double down = (double)(m->q_lora + m->kv_lora + m->qk_rope);

    if (!m->kv_lora)
        return gemm_time(w, t, (w->q + 2 * w->kv) / w->tp, w->h, true) +
               gemm_time(w, t, w->h, w->q / w->tp, true);
    return gemm_time(w, t, down, w->h, true) +
           gemm_time(w, t, qk * a, m->q_lora ? (double)m->q_lora : w->h, true) +
           gemm_time(w, t, (double)(m->qk_nope + m->v_dim) * a, (double)m->kv_lora, true) +
           gemm_time(w, t, w->h, (double)m->v_dim * a, true);
}

static double matmul_time(const struct layer_work *w)
{
    double t = projections_time(w);

    if (w->dense > 0)
        t += w->dense * mlp_time(w, (double)w->m->ffn);
    if (w->dense < 1)
        t += (1 - w->dense) * experts_time(w);
    return t;
}

/* Of the pairs a causal mask keeps those inside the window, over all layers.  Kernels for attention
 * with sinks compute all of them: published runs of such models gain nothing from the window. */
static double window_share(const struct plan_model *m, double seq)
{
    double w = (double)m->window / seq, whole;

    if (m->window <= 0 || w >= 1 || m->attn_sinks)
        return 1;
    whole = m->window_every > 0 ? 1 / (double)m->window_every : 0;
    return whole + (1 - whole) * w * (2 - w);
}

/* The core: scores, softmax, values. */
static double attention_time(const struct layer_work *w)
{
    static const enum plan_const flash[] = { [PLAN_STACK_MEGATRON] = PLAN_C_AT_NANO,
                                             [PLAN_STACK_FSDP] = PLAN_C_AT_FSDP,
                                             [PLAN_STACK_NANOTRON] = PLAN_C_AT_NANO,
                                             [PLAN_STACK_TORCH] = PLAN_C_AT_FSDP };
    const struct plan_profile *p = &w->c->profile;
    const struct plan_model *m = w->m;
    double s = (double)w->c->seq, flops, t;
    double width = m->kv_lora ? w->heads * (double)(m->qk_nope + m->qk_rope + m->v_dim) / 2 : w->q;

    flops = 4 * s * w->tokens * width / w->tp; /* all pairs */
    if (p->flash)
        return 0.5 * window_share(m, s) * flops /
               (w->peak * w->k[p->fused ? PLAN_C_AT_FUSED : flash[p->stack]]);
    t = flops / (w->peak * w->k[PLAN_C_ATTN]) +
        w->k[PLAN_C_SMB] * (w->not_fused ? 2 : 1) * w->tokens * s * w->heads / w->tp / w->r->hbm;
    return m->head_dim % 8 ? t * w->k[PLAN_C_MISALIGN] : t; /* tensor cores stand still */
}

/* Norms, rotary, residuals, activation: counted in widths read and written. */
static double elementwise_time(const struct layer_work *w)
{
    static const enum plan_const eager[] = { [PLAN_STACK_MEGATRON] = PLAN_C_EL_MEG,
                                             [PLAN_STACK_FSDP] = PLAN_C_EL_FSDP,
                                             [PLAN_STACK_NANOTRON] = PLAN_C_EL_NANO,
                                             [PLAN_STACK_TORCH] = PLAN_C_EL_FSDP };
    const struct plan_profile *p = &w->c->profile;
    const struct plan_model *m = w->m;
    double wide = (double)(m->top_k * m->expert_ffn + m->shared_ffn), moe = 1 - w->dense, widths;

    widths = 18 * w->h / (w->c->seq_par ? w->tp : 1) + 2 * (w->q + 2 * w->kv) / w->tp;
    widths += (m->gated ? 8 : 5) * (w->dense * (double)m->ffn + moe * wide) / w->tp;
    widths += moe * 8 * (double)m->top_k * w->h / w->tp;
    return w->size * w->k[p->fused ? PLAN_C_EL_FUSED : eager[p->stack]] * w->tokens * widths /
           w->r->hbm;
}

/* Dispatch or combine: inside the node every routed token, outside each node once.  A fused stack
 * computes while the network sends; inside the node both want the same SMs. */
static double exchange_time(const struct layer_work *w, double *hidden)
{
    double ep = w->c->ep, span = fmax(1, ceil(ep * w->tp / w->r->node)), in, out, hit, most;
    double open = w->c->profile.fused ? w->k[PLAN_C_EXPOSED] : 1;

    *hidden = 0;
    if (w->dense >= 1 || ep <= 1)
        return 0;
    in = w->size * w->routed * w->h * (ep - 1) / ep / w->r->nvl;
    hit = span * (1 - pow(1 - 1 / span, (double)w->m->top_k));
    out = w->size * w->tokens / w->tp * w->h * hit * (span - 1) / span / w->r->net;
    most = fmax(in, open * out);
    *hidden = (1 - w->dense) * (fmax(in, out) - most);
    return (1 - w->dense) * (most + w->k[PLAN_C_NLAT] * ep / 4);
}

/* Keys and values of the other ranks' tokens come round a ring, a message for each rank; each
 * arrival is one more partial result to merge.  What is hidden is hidden by the attention core. */
static double ring_time(const struct layer_work *w)
{
    const struct plan_model *m = w->m;
    double others = w->c->cp - 1;
    bool across = w->tp * w->c->cp > w->r->node;
    double width = m->kv_lora ? w->heads * (double)(m->qk_nope + m->qk_rope + m->v_dim) : 2 * w->kv;

    return others * (w->size * w->tokens * width / w->tp / (across ? w->r->net : w->r->nvl) +
                     w->k[across ? PLAN_C_XLOG : PLAN_C_NLAT]);
}

struct pass { /* seconds of a layer's parts, one way */
    double matmul, attention, memory, tp, ep, cp;
};

static double pass_sum(const struct pass *p)
{
    return p->matmul + p->attention + p->memory + p->tp + p->ep + p->cp;
}

static void add_pass(const struct pass *p, double part[PLAN_PARTS])
{
    part[PLAN_TIME_MATMUL] += p->matmul;
    part[PLAN_TIME_ATTENTION] += p->attention;
    part[PLAN_TIME_MEMORY] += p->memory;
    part[PLAN_TIME_TP] += p->tp;
    part[PLAN_TIME_EP] += p->ep;
    part[PLAN_TIME_CP] += p->cp;
}

/* Host seconds of a forward pass without waits. */
static double host_time(const struct layer_work *w)
{
    const double *k = w->k;
    double ops = k[PLAN_C_OPS] + k[PLAN_C_HOSTTP] * log2(w->tp) + k[PLAN_C_OPSMOE] * (1 - w->dense);

    if (w->not_fused)
        ops += k[PLAN_C_OPSNF];
    return ops * (w->c->profile.fused ? k[PLAN_C_FUSE] : 1) * k[PLAN_C_HOST];
}

/* Single operations once more: norms and activations are shares of what memory bounds, as
 * elementwise_time() counts their widths. */
static double ops_time(const struct layer_work *w, const struct pass *f)
{
    static const double norm_share = 0.25, act_share = 0.3;
    uint32_t ops = w->c->recompute_ops;
    double t = 0;

    if (ops & PLAN_OP_NORM)
        t += norm_share * f->memory;
    if (ops & PLAN_OP_ACT)
        t += act_share * f->memory;
    if (ops & PLAN_OP_MLA && w->m->kv_lora)
        t += projections_time(w) / 2;
    if (ops & PLAN_OP_EXPERTS && w->dense < 1)
        t += (1 - w->dense) * experts_time(w) + f->ep;
    else if (ops & PLAN_OP_SHARED && w->m->shared_ffn)
        t += (1 - w->dense) * mlp_time(w, (double)w->m->shared_ffn);
    return t;
}

/* Forward and backward of a layer; `wait` is the host's, for a neighbour's messages: as the work,
 * a third of it forward. */
static void layer_times(const struct layer_work *w, const struct pass *f, const struct pass *b,
                        double wait, double *fwd, double *bwd, double part[PLAN_PARTS])
{
    double host = host_time(w), routing = (1 - w->dense) * w->k[PLAN_C_MSYNC], again = 0;
    double dev_f = pass_sum(f), dev_b = pass_sum(b);
    double lf = power_max(dev_f, host + wait / 3, w->k[PLAN_C_CORNER]);
    double lb = power_max(dev_b, w->k[PLAN_C_HOSTB] * host + wait * 2 / 3, w->k[PLAN_C_CORNER]);

    add_pass(f, part);
    add_pass(b, part);
    part[PLAN_TIME_LAUNCH] = lf - dev_f + lb - dev_b;
    part[PLAN_TIME_EP] += 2 * routing;
    lf += routing;
    lb += routing;
    if (w->c->recompute == PLAN_RECOMPUTE_FULL) {
        again = lf;
        if (w->c->profile.stack == PLAN_STACK_FSDP)
            again -=
                w->k[PLAN_C_EARLY] * gemm_time(w, w->tokens, w->h, (double)w->m->ffn / w->tp, true);
    } else {
        if (w->c->recompute == PLAN_RECOMPUTE_SELECTIVE)
            again = f->attention;
        again += ops_time(w, f);
    }
    part[PLAN_TIME_RECOMPUTE] = again;
    *fwd = lf;
    *bwd = lb + again;
}

/* Parameters, which gradients and the optimizer move. */
static void weights_of(const struct layer_work *w, struct plan_layer_time *o)
{
    const struct plan_model *m = w->m;
    double attn = w->h * (w->q + 2 * w->kv) + w->q * w->h, mats = w->gates + 1;
    double rank = w->c->lora_rank;

    if (m->kv_lora) {
        double ql = (double)m->q_lora, kl = (double)m->kv_lora, rope = (double)m->qk_rope;

        attn = w->h * (ql + kl + rope) +
               (ql > 0 ? ql : w->h) * ((double)m->qk_nope + rope) * w->heads +
               kl * (double)(m->qk_nope + m->v_dim) * w->heads + (double)m->v_dim * w->heads * w->h;
    }
    o->params = (attn + w->dense * mats * w->h * (double)m->ffn +
                 (1 - w->dense) * mats * w->h * (double)m->shared_ffn) /
                w->tp;
    o->expert_params = (1 - w->dense) * mats * w->h * (double)m->expert_ffn * w->local / w->etp;
    o->table = (double)m->vocab * w->h / w->tp;
    if (rank > 0) { /* what learns is two thin matrices beside each */
        o->params =
            rank * (4 * w->h + 2 * w->q + 2 * w->kv + mats * (w->h + (double)m->ffn)) / w->tp;
        o->expert_params = 0;
        o->table = 0;
    }
}

/* Bytes the optimizer reads and writes for a parameter: gradient, master copy, moments, weight. */
static double optimizer_bytes(const struct plan_config *c)
{
    static const double moments[PLAN_OPTIMIZERS] = {
        [PLAN_ADAM] = 16, [PLAN_ADAM8] = 4, [PLAN_SGD] = 8, [PLAN_ADAM16] = 8
    };

    if (c->precision == PLAN_PURE16)
        return 2 + 4 + moments[c->optimizer] / 2;
    return 4 + 8 + moments[c->optimizer] + 2;
}

static void step_constants(const struct layer_work *w, struct plan_layer_time *o)
{
    const struct plan_profile *p = &w->c->profile;
    const double *k = w->k;
    bool fp32 = !p->fused && (w->c->precision == PLAN_BF16 || w->c->precision == PLAN_FP32);

    o->layers = (double)w->m->layers;
    o->micro = k[PLAN_C_MB];
    o->step = k[PLAN_C_STEP];
    o->floor = k[PLAN_C_FLOOR];
    o->press = k[PLAN_C_PRESS];
    o->grad_bytes = fp32 ? 4 : 2;
    o->opt_bytes = optimizer_bytes(w->c);
    o->tables_one_stage = w->m->tied ? 1 : 2;
    o->tensors_layer = p->stack == PLAN_STACK_FSDP || p->fused ? 0 : 9;
    o->tensors = p->stack == PLAN_STACK_FSDP ? o->layers + 1 : p->fused ? 4 : 2;
    o->expert_ratio = w->tp / (w->c->ep * w->etp);
    o->hide = p->dp_overlap ? k[PLAN_C_OVL] : 0;
    o->gather_hide = p->stack != PLAN_STACK_NANOTRON ? o->hide : 0;
    o->scatter_hide = o->gather_hide; /* nanotron overlaps only all-reduces */
    o->zero3_open = 1 - fmin(k[PLAN_C_OVL], 1);
    o->chunk_open = p->fused ? k[PLAN_C_EXPOSED] : 1;
    o->sums_apart = p->stack == PLAN_STACK_NANOTRON && !p->fused;
    o->hbm = w->r->hbm;
    o->pcie = k[PLAN_C_PCIE];
    o->host_mem = k[PLAN_C_HOSTMEM];
    o->press_bytes = k[PLAN_C_PRESSAT] * w->r->memory;
    o->across = w->r->nodes > 1;
    o->offload_optimizer = w->c->offload_optimizer;
    o->offload_params = w->c->offload_params;
}

static void ends_of(const struct layer_work *w, double all_reduce, struct plan_layer_time *o)
{
    const double *k = w->k;
    double vocab = (double)w->m->vocab / w->tp, half, rate, all;
    double bytes = k[w->c->profile.fused ? PLAN_C_LOSSF : PLAN_C_LOSSB];

    o->head_tp = o->embed_tp = all_reduce;
    o->embed = 12 * w->tokens * w->h / w->r->hbm + all_reduce;
    o->head = all_reduce;
    if (w->m->head)
        o->head +=
            3 * gemm_time(w, w->tokens, vocab, w->h, false) + bytes * w->tokens * vocab / w->r->hbm;
    half = w->size * w->tokens * w->h; /* links are full duplex: activations go as gradients come */
    rate = o->across ? w->r->net * pow(fmax(w->r->nodes, 2) / 2, -k[PLAN_C_PCON]) : w->r->nvl;
    all = half / w->tp / rate + k[o->across ? PLAN_C_XLOG : PLAN_C_NLAT];
    if (!w->c->seq_par) /* each rank sends its share; the others' come from inside the node */
        all += half * (1 - 1 / w->tp) / w->r->nvl;
    o->send = all * o->chunk_open;
    o->send_hidden = all - o->send;
}

void plan_layer_time_of(const struct plan_model *m, const struct plan_rates *r,
                        const struct plan_consts *k, const struct plan_config *c,
                        struct plan_layer_time *out)
{
    struct plan_layer_time o = { 0 };
    struct plan_group tp;
    struct pass f, b;
    struct layer_work w;
    double all_reduce, exposed, ring, wait, exchange, unseen;

    work_of(m, r, k, c, &w);
    step_constants(&w, &o);
    weights_of(&w, &o);
    plan_group_of(r, k, c->tp, ceil(c->tp / r->node), true, &tp);
    all_reduce = 2 * (w.size * w.tokens * w.h * tp.reduce + tp.latency);
    /* kernels hide a collective behind a product only inside one NVLink domain */
    exposed = c->tp > r->node ? all_reduce : all_reduce * o.chunk_open;
    ring = ring_time(&w);
    exchange = exchange_time(&w, &unseen);
    f = (struct pass){ matmul_time(&w), attention_time(&w), elementwise_time(&w),
                       2 * exposed,     2 * exchange,       ring * o.chunk_open };
    b = (struct pass){ (c->lora_rank ? 1 : 2) * f.matmul,
                       (c->profile.flash ? 2.5 : 2) * f.attention,
                       2 * f.memory,
                       (c->seq_par ? 3 : 2) * exposed,
                       f.ep,
                       2 * f.cp };
    o.tp_hidden = (c->seq_par ? 5 : 4) * (all_reduce - exposed);
    o.cp_hidden = 3 * (ring - f.cp);
    o.ep_hidden = 4 * unseen;
    o.cp = c->cp;
    ends_of(&w, all_reduce, &o);
    wait = c->profile.stack == PLAN_STACK_NANOTRON && o.across && c->tp > 1
               ? k->c[PLAN_C_PPX] * c->tp
               : 0;
    layer_times(&w, &f, &b, 0, &o.fwd[0], &o.bwd[0], o.part[0]);
    layer_times(&w, &f, &b, wait, &o.fwd[1], &o.bwd[1], o.part[1]);
    *out = o;
}

/* SPDX-License-Identifier: MIT */
/* memory_text: the memory model in words and pictures.
 *
 * The words are the formula with its numbers, so that a reader can follow each figure with a
 * pencil. */
#include "plan/plan_int.h"

#include "base/text/svg.h"

#define GIB ((double)(1 << 30))

static void add_bytes(struct buf *out, double v)
{
    if (v >= 1e9)
        buf_addf(out, "%.4gB", v / 1e9);
    else
        buf_addf(out, "%.4gM", v / 1e6);
}

static void why_static(const struct plan_job *j, const struct plan_memory_stage *s,
                       enum plan_kind kind, struct buf *out)
{
    static const int zero_of[] = {
        [PLAN_MEM_WEIGHTS] = 3, [PLAN_MEM_GRADS] = 2, [PLAN_MEM_OPTIMIZER] = 1
    };
    const struct plan_config *c = j->config;
    int64_t group = c->shard ? c->shard : (int64_t)c->dp * c->cp;
    bool off = (kind == PLAN_MEM_WEIGHTS && c->offload_params) ||
               (kind == PLAN_MEM_OPTIMIZER && c->offload_optimizer);

    if (off) {
        buf_adds(out, "in host memory");
        return;
    }
    if (kind == PLAN_MEM_GRADS && c->profile.stack == PLAN_STACK_TORCH && group == 1 &&
        c->grad_acc == 1) {
        buf_adds(out, s->kind[kind]
                          ? c->offload_optimizer
                                ? "beyond the room that activations leave: the end of backward "
                                  "is the fullest moment"
                                : "beyond the room that activations leave: the optimizer's step "
                                  "is the fullest moment"
                          : "freed after each step: there are none at the loss");
        return;
    }
    if (c->lora_rank && kind != PLAN_MEM_WEIGHTS) {
        buf_addf(out, "adapters of rank %d alone", c->lora_rank);
        return;
    }
    add_bytes(out, (double)s->params);
    buf_adds(out, " parameters");
    if (kind == PLAN_MEM_GRADS && c->zero == 2 && c->pp > 1 && c->grad_acc > 1)
        buf_adds(out, ", summed whole: in a pipeline ZeRO 2 is ZeRO 1");
    else if (kind == PLAN_MEM_WEIGHTS && c->zero == 2 && c->precision == PLAN_FSDP_MIXED &&
             group > 1)
        buf_addf(out, ", fp32 over %lld GPUs (ZeRO 2) and 16 bits gathered", (long long)group);
    else if (c->zero >= zero_of[kind] && group > 1)
        buf_addf(out, " over %lld GPUs (ZeRO %d)", (long long)group, c->zero);
    if (s->params)
        buf_addf(out, ", %.3g bytes each on this GPU", (double)s->kind[kind] / (double)s->params);
    if (c->lora_rank && c->base_bits && c->base_bits < 16)
        buf_addf(out, ", frozen: %.4g bits in layers%s, 16 in embedding and head",
                 plan_frozen_bits(c), c->base_bits > 4 ? "" : " (double quantisation)");
    else if (c->lora_rank)
        buf_adds(out, ", frozen");
    if (c->lora_rank)
        buf_addf(out, ", and adapters of rank %d", c->lora_rank);
}

static void why_activations(const struct plan_job *j, const struct plan_memory_stage *s,
                            struct buf *out)
{
    const struct plan_config *c = j->config;
    double sets = (double)s->in_flight / c->vpp;
    double tokens = (double)c->seq / c->cp * c->micro_batch;

    if (j->model->sample_params) {
        buf_addf(out, "%d samples of %.4g MB as measured", c->micro_batch,
                 j->model->sample_bytes / 1e6);
        return;
    }
    if (c->recompute == PLAN_RECOMPUTE_FULL) {
        buf_addf(out, "inputs of one layer in %d kept, %lld layers x %.3g micro-batches",
                 c->recompute_every, (long long)s->stage.count, sets);
        buf_adds(out, ", and the layers being computed again");
        return;
    }
    buf_addf(out, "%lld layers x %.3g micro-batches x %.0f tokens", (long long)s->stage.count, sets,
             tokens);
    if (s->stage.count > 0 && sets > 0)
        buf_addf(out, " x %.0f bytes",
                 (double)s->kind[PLAN_MEM_ACTIVATIONS] / ((double)s->stage.count * sets * tokens));
}

static void why_comm(const struct plan_job *j, struct buf *out)
{
    const struct plan_config *c = j->config;
    const struct {
        bool on;
        const char *what;
    } rows[] = {
        { c->zero == 3 && (int64_t)c->dp * c->cp > 1, "two gathered layers and one's gradients" },
        { c->zero < 3 && (int64_t)c->dp * c->cp > 1, "gradient buckets" },
        { c->seq_par, "gathered inputs" },
        { c->cp > 1, "keys and values of a neighbour" },
        { c->ep > 1, "tokens to and from experts" },
        { c->pp > 1, "sends between stages" },
    };
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].on)
            buf_addf(out, "%s%s", n++ ? ", " : "", rows[i].what);
    if (!n)
        buf_adds(out, c->tp > 1 ? "tensor parallelism sums in place" : "one GPU, none");
}

static void why_fragments(const struct plan_job *j, const struct plan_memory_stage *s,
                          struct buf *out)
{
    const struct plan_memory_consts *k = j->consts;
    bool copies = j->config->profile.fp32_copies && j->config->grad_acc > 1;

    buf_addf(out, "%.3g %% of the tensors", 100 * k->fragment_share);
    if (s->kind[PLAN_MEM_LOGITS])
        buf_addf(out, " and %.3g %% of the logits",
                 100 * (copies ? k->logit_fragment : k->logit_fragment_low));
    buf_adds(out, ", between what is asked for and what is reserved");
}

void plan_memory_why(const struct plan_job *j, const struct plan_memory_stage *s,
                     enum plan_kind kind, struct buf *out)
{
    const struct plan_config *c = j->config;

    switch (kind) {
    case PLAN_MEM_WEIGHTS:
    case PLAN_MEM_GRADS:
    case PLAN_MEM_OPTIMIZER:
        why_static(j, s, kind, out);
        break;
    case PLAN_MEM_ACTIVATIONS:
        why_activations(j, s, out);
        break;
    case PLAN_MEM_LOGITS:
        if (j->model->sample_params)
            buf_adds(out, "with the activations");
        else if (s->kind[kind])
            buf_addf(out, "%.0f tokens x %lld / %d of the vocabulary x %.0f bytes (%s loss)",
                     (double)c->seq / c->cp * c->micro_batch, (long long)j->model->vocab, c->tp,
                     plan_logit_bytes(c, j->consts), c->profile.fused ? "fused" : "eager");
        else
            buf_adds(out, "the head is on another stage");
        break;
    case PLAN_MEM_COMM:
        why_comm(j, out);
        break;
    case PLAN_MEM_CONTEXT:
        buf_addf(out, "CUDA %.2g GiB and %.2g GiB for each group of GPUs",
                 j->consts->context_bytes / GIB, j->consts->comm_group_bytes / GIB);
        break;
    default:
        why_fragments(j, s, out);
    }
}

void plan_memory_bar(const struct plan_job *j, const struct plan_memory_stage *s, int width,
                     struct buf *out)
{
    static const char letters[] = "WGOALCXF";
    double full = (double)(j->limit > s->total ? j->limit : s->total);
    double sum = 0;
    int at = 0;

    static_assert(sizeof(letters) == PLAN_KINDS + 1, "a letter for every kind");
    buf_addc(out, '[');
    for (int i = 0; i < PLAN_KINDS; i++) {
        int end;

        sum += (double)s->kind[i];
        end = (int)(sum / full * width + 0.5);
        buf_fill(out, letters[i], (size_t)(end - at));
        at = end;
        /* what stands behind the GPU's end is shown behind it */
    }
    buf_fill(out, '.', (size_t)(width - at));
    buf_addf(out, "] %.1f of %.1f GiB", (double)s->total / GIB, (double)j->limit / GIB);
}

/* ---- the picture ---- */
enum { PIC_W = 860, PIC_H = 420, PIC_TOP = 40, PIC_LEFT = 60, PIC_RIGHT = 190, PIC_BASE = 370 };

static const char picture_css[] =
    "text{font:12px system-ui,sans-serif;fill:#222}.axis{stroke:#888}.limit{stroke:#c00;"
    "stroke-width:2;stroke-dasharray:6 4}.k0{fill:#1f77b4}.k1{fill:#6baed6}.k2{fill:#9e9ac8}"
    ".k3{fill:#fd8d3c}.k4{fill:#fdd0a2}.k5{fill:#74c476}.k6{fill:#969696}.k7{fill:#d9d9d9}"
    ".bg{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}.bg{fill:#111}}";

static void svg_legend(struct buf *out)
{
    for (int i = 0; i < PLAN_KINDS; i++) {
        char cls[8];
        double y = PIC_TOP + 22.0 * (PLAN_KINDS - 1 - i);

        snprintf(cls, sizeof(cls), "k%d", i);
        svg_rect(out, cls, PIC_W - PIC_RIGHT + 20, y, 14, 14, 2);
        svg_text(out, "name", PIC_W - PIC_RIGHT + 42, y + 12, "start", "%s", plan_kind_names[i]);
    }
}

static void stage_column(const struct plan_memory_stage *s, double x, double w, double unit,
                         int32_t stage, bool label, struct buf *out)
{
    double y = PIC_BASE;

    for (int i = 0; i < PLAN_KINDS; i++) {
        double h = (double)s->kind[i] * unit;
        char cls[8];

        snprintf(cls, sizeof(cls), "k%d", i);
        if (h > 0)
            svg_rect(out, cls, x, y - h, w, h, 0);
        y -= h;
    }
    if (!label)
        return;
    svg_text(out, "total", x + w / 2, y - 4, "middle", "%.1f", (double)s->total / GIB);
    svg_text(out, "stage", x + w / 2, PIC_BASE + 18, "middle", "%d", stage);
}

void plan_memory_svg(const struct plan_job *j, struct buf *out)
{
    int32_t pp = j->config->pp;
    double room = PIC_W - PIC_LEFT - PIC_RIGHT, step = room / pp;
    struct plan_memory all;
    double top, unit;

    plan_memory_of(j->model, j->counts, j->config, j->consts, &all);
    top = (double)(all.total > j->limit ? all.total : j->limit) * 1.05;
    unit = (PIC_BASE - PIC_TOP) / top;
    svg_begin(out, PIC_W, PIC_H, "Memory of a GPU by pipeline stage");
    svg_style(out, picture_css);
    svg_rect(out, "bg", 0, 0, PIC_W, PIC_H, 0);
    svg_text(out, "head", PIC_LEFT, 20, "start", "%s: GiB a GPU by pipeline stage", j->model->name);
    for (int32_t i = 0; i < pp; i++) {
        struct plan_memory_stage s;

        plan_memory_stage(j->model, j->counts, j->config, j->consts, i, &s);
        stage_column(&s, PIC_LEFT + step * i + step * 0.1, step * 0.8, unit, i,
                     step > 34 || i == all.worst, out);
    }
    svg_line(out, "axis", PIC_LEFT, PIC_BASE, PIC_LEFT + room, PIC_BASE);
    svg_line(out, "limit", PIC_LEFT, PIC_BASE - (double)j->limit * unit, PIC_LEFT + room,
             PIC_BASE - (double)j->limit * unit);
    svg_text(out, "limit-text", PIC_LEFT - 6, PIC_BASE - (double)j->limit * unit + 4, "end", "%.1f",
             (double)j->limit / GIB);
    svg_text(out, "axis-text", PIC_LEFT + room / 2, PIC_BASE + 38, "middle", "pipeline stage");
    svg_legend(out);
    svg_end(out);
}

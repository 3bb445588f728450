/* SPDX-License-Identifier: MIT */
/* gpu_choice: which kind of GPU for a model, a budget and a use.
 *
 * For training the smallest cluster of each kind that does it is sized as `plan cluster` does; for
 * serving the weights decide how many there are, and the bandwidth how fast one stream is, which
 * reads every active weight for each token. */
#include "plan/choices.h"

#include "base/str.h"

#include <math.h>
#include <stdlib.h>

const char *const plan_use_names[] = { "pretrain", "finetune", "lora", "serve", NULL };
const char *const plan_choice_kinds[PLAN_CHOICES] = { "a100-40gb", "a100", "h100", "h200", "b200",
                                                      "b300",      "l40s", "4090", "gb200" };
enum { SERVE_GPUS_MAX = 72 }; /* of one model that is served, where nobody says */

/* What servers cut by tensor parallelism: whole heads on each GPU; keys and values of one head may
 * be on several. */
static bool serve_tp_runs(const struct plan_model *m, int64_t tp)
{
    int64_t ffn = m->experts ? m->expert_ffn : m->ffn;
    bool kv = m->kv_lora || m->kv_heads < 1 || m->kv_heads % tp == 0 || tp % m->kv_heads == 0;

    return m->heads % tp == 0 && kv && (ffn % tp == 0 || m->sample_params);
}

/* The fewest: tensor parallelism inside a node, above it a pipeline over nodes that are as full as
 * their size can be cut. */
static void serve_gpus(const struct plan_choice_want *w, double need, double room,
                       struct plan_gpu_choice *c, int64_t *tp)
{
    const struct plan_model *m = w->model;
    struct plan_cluster node;

    plan_cluster_usual(&c->gpu, SERVE_GPUS_MAX, &node);
    *tp = 1;
    for (int64_t n = 1; n <= node.node_gpus; n++) {
        if (!serve_tp_runs(m, n))
            continue;
        *tp = n;
        if ((double)n * room >= need)
            break;
    }
    c->gpus = *tp * (int64_t)ceil(need / ((double)*tp * room));
}

static void serve_choice(const struct plan_choice_want *w, struct plan_gpu_choice *c)
{
    double weights = 2 * (double)w->counts->total, active = 2 * (double)w->counts->active;
    double room = (double)c->gpu.mem_bytes * 0.9 - plan_memory_default.context_bytes;
    int64_t tp;

    serve_gpus(w, weights * 1.2, room, c, &tp); /* a fifth is left for keys and values */
    c->fits = c->gpus <= (w->most ? w->most : SERVE_GPUS_MAX);
    c->metric = c->gpu.mem_bytes_s * (double)tp / active; /* stages take turns */
    c->usd = c->gpu.price_usd_h > 0 ? c->gpu.price_usd_h * (double)c->gpus : (double)NAN;
    c->affordable = w->budget <= 0 || c->usd * PLAN_MONTH_H <= w->budget;
    if (!c->fits)
        snprintf(c->why_not, sizeof(c->why_not), "the weights need %lld of them",
                 (long long)c->gpus);
}

static void train_choice(const struct plan_choice_want *want, struct plan_gpu_choice *c)
{
    struct plan_size_want w = { .best = *want->best, .days = want->days, .parts = true };
    struct plan_sized s = { 0 }, before;
    const struct plan_bill *bill = &s.campaign.bill[PLAN_ON_DEMAND];
    struct err err = { 0 };

    w.campaign.tokens = want->tokens;
    w.campaign.price_usd_h = c->gpu.price_usd_h;
    w.most = want->most ? want->most : want->use == PLAN_USE_PRETRAIN ? 16384 : 1024;
    if (plan_size_for(want->facts, want->model, want->counts, &c->gpu, &w, &s, &before, &err)) {
        str_copy(c->why_not, sizeof(c->why_not), err.msg);
        return;
    }
    c->fits = true;
    c->gpus = s.cluster.gpus;
    c->metric = s.campaign.days.usual;
    c->usd = bill->known ? bill->usd.usual : (double)NAN;
    c->affordable = want->budget <= 0 || c->usd <= want->budget;
}

/* What a data sheet says: the name's where it has a size, else the whole GiB above what a program
 * can have. */
static int sheet_gigabytes(const struct plan_gpu *g)
{
    const char *gb = strstr(g->name, "GB");
    const char *digits = gb;

    while (digits && digits > g->name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    if (gb && digits < gb)
        return (int)strtol(digits, NULL, 10);
    return (int)ceil((double)g->mem_bytes / 0x1p30);
}

/* The cheapest that does what is asked; without prices the fewest GPUs. */
static bool choice_is_better(const struct plan_gpu_choice *a, const struct plan_gpu_choice *b)
{
    if (isnan(a->usd) != isnan(b->usd))
        return !isnan(a->usd);
    return isnan(a->usd) ? a->gpus < b->gpus : a->usd < b->usd;
}

/* The best of those that fit and are affordable but for `without`; -1: none. */
static int choice_best(const struct plan_gpu_choice *c, int without)
{
    int best = -1;

    for (int i = 0; i < PLAN_CHOICES; i++)
        if (i != without && c[i].fits && c[i].affordable &&
            (best < 0 || choice_is_better(&c[i], &c[best])))
            best = i;
    return best;
}

enum rc plan_gpu_choices(const struct plan_choice_want *w, struct plan_gpu_choice out[PLAN_CHOICES],
                         int *best, int *next, struct err *err)
{
    for (int i = 0; i < PLAN_CHOICES; i++) {
        struct plan_gpu_choice *c = &out[i];

        *c = (struct plan_gpu_choice){ 0 };
        if (plan_gpu_by_name(plan_choice_kinds[i], &c->gpu, err))
            return err->code;
        if (w->usd[i] > 0) {
            c->gpu.price_usd_h = w->usd[i];
            str_copy(c->gpu.price_date, sizeof(c->gpu.price_date), "given");
        }
        c->sheet_gb = sheet_gigabytes(&c->gpu);
        if (w->use == PLAN_USE_SERVE)
            serve_choice(w, c);
        else
            train_choice(w, c);
        c->remark = !c->fits        ? c->why_not
                    : c->affordable ? ""
                    : isnan(c->usd) ? "no price is known"
                                    : "above the budget";
        if (!c->fits) {
            c->gpus = 0;
            c->affordable = false;
            c->usd = c->metric = (double)NAN;
        }
    }
    *best = choice_best(out, -1);
    *next = *best < 0 ? -1 : choice_best(out, *best);
    if (*best >= 0)
        out[*best].remark = "the choice";
    return RC_OK;
}

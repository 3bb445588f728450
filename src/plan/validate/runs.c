/* SPDX-License-Identifier: MIT */
/* runs: which published runs a figure covers, and what the model says of a run. */
#include "plan/runs.h"

#include "base/str.h"
#include "plan/plan_int.h"
#include "plan/time/step_time_int.h"
#include "plan/validate/validate_int.h"

/* Limits and numbers of rows are those of the accuracy table in docs/design/plan-time.md. */
const struct plan_set_info plan_sets[PLAN_SETS] = {
    [PLAN_SET_KORTHIKANTI] = { "korthikanti-t5", "Korthikanti Table 5", "a100", 0.06, false, 8 },
    [PLAN_SET_SC21] = { "sc21-t1", "SC'21 Table 1", "a100", 0.04, false, 7 },
    [PLAN_SET_VTRAIN_MULTI] = { "vtrain-multi", "vTrain multi-node", "a100", 0.09, false, 59 },
    [PLAN_SET_VTRAIN_SINGLE] = { "vtrain-single", "vTrain single node", "a100", 0.065, false, 852 },
    [PLAN_SET_BLOOM] = { "bloom", "BLOOM sweep", "a100", 0.07, false, 39 },
    [PLAN_SET_FOUNDRY_A100] = { "foundry-a100", "llm-foundry A100", "a100", 0.05, false, 94 },
    [PLAN_SET_FOUNDRY_H100] = { "foundry-h100", "llm-foundry H100", "h100", 0.035, false, 56 },
    [PLAN_SET_NEMO] = { "nemo-2407", "NeMo 24.07", "h100", 0.08, false, 30 },
    [PLAN_SET_BRIDGE_H100] = { "bridge-h100", "Megatron-Bridge H100 dense", "h100", 0.06, false,
                               7 },
    [PLAN_SET_HF_CLEAN] = { "hf-clean", "Ultra-Scale clean", "h100", 0, false, 0 },
    [PLAN_SET_BRIDGE_MOE] = { "bridge-h100-moe", "Megatron-Bridge H100 MoE", "h100", 0.20, false,
                              0 },
    [PLAN_SET_SIMUMAX] = { "simumax-b200", "SimuMax B200", "b200", 0.08, false, 0 },
    [PLAN_SET_BRIDGE_B200] = { "bridge-b200", "Megatron-Bridge B200 dense", "b200", 0, false, 0 },
    [PLAN_SET_HF_MFU20] = { "hf-mfu20", "Ultra-Scale above 20 % MFU", "h100", 0.065, false, 316 },
    [PLAN_SET_HF_CLEAN8] = { "hf-clean-tp8", "Ultra-Scale clean, TP to 8", "h100", 0.055, true,
                             590 },
};

/* A source that is fitted is held close.  One that is not may be as far off as two publications of
 * one run are; where another GPU's constants stand in (B300, GB200, GB300), twice that. */
double plan_source_limit(const char *source)
{
    static const struct {
        const char *prefix;
        double limit;
    } rows[] = {
        { "BLOOM tr11", 0.07 },
        { "BLOOM-176B", 0.25 },
        { "HF Ultra-Scale", 0.10 },
        { "Korthikanti", 0.06 },
        { "MosaicML", 0.05 },
        { "MegaScale", 0.25 },
        { "Megatron-LM README", 0.20 },
        { "Megatron-Bridge performance summary 26.06", 0.45 },
        { "Megatron-Bridge performance summary 26.08", 0.45 },
        { "Megatron-Bridge", 0.25 },
        { "Megatron MoE Model Zoo", 0.25 },
        { "Narayanan et al. 2021 (arXiv", 0.04 },
        { "Narayanan", 0.25 },
        { "nanotron", 0.15 },
        { "NeMo performance summary", 0.08 },
        { "NeMo Framework Launcher", 0.45 }, /* no batch and no recompute is printed */
        { "NeMo long-sequence", 0.15 },
        { "SimuMax", 0.08 },
        { "vTrain", 0.09 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_starts(source, rows[i].prefix))
            return rows[i].limit;
    return 0;
}

static bool is_kind(const struct plan_row *r, const char *kind)
{
    return str_starts(r->cluster.gpu.alias, kind);
}

bool plan_set_has(enum plan_set s, const struct plan_row *r)
{
    const char *src = r->source;
    bool bridge = str_starts(src, "Megatron-Bridge"), moe = r->model.experts > 0;
    bool hf = str_starts(src, "HF Ultra-Scale"), clean = hf && !(r->exclude & PLAN_R1_NOT_CLEAN);

    if (plan_row_no_time(r))
        return false;
    switch (s) {
    case PLAN_SET_KORTHIKANTI:
        return str_starts(src, "Korthikanti") && str_starts(r->loc, "Table"); /* not its text */
    case PLAN_SET_SC21:
        return str_starts(src, "Narayanan et al. 2021 (arXiv");
    case PLAN_SET_VTRAIN_MULTI:
        return str_starts(src, "vTrain MICRO24 ground truth multi");
    case PLAN_SET_VTRAIN_SINGLE:
        return str_starts(src, "vTrain MICRO24 ground truth single");
    case PLAN_SET_BLOOM:
        return str_starts(src, "BLOOM tr11");
    case PLAN_SET_FOUNDRY_A100:
        return str_starts(src, "MosaicML") && is_kind(r, "a100");
    case PLAN_SET_FOUNDRY_H100:
        return str_starts(src, "MosaicML") && is_kind(r, "h100");
    case PLAN_SET_NEMO:
        return strstr(src, "24.07");
    case PLAN_SET_BRIDGE_H100:
        return bridge && !moe && is_kind(r, "h100");
    case PLAN_SET_BRIDGE_MOE:
        return bridge && moe && is_kind(r, "h100");
    case PLAN_SET_BRIDGE_B200:
        return bridge && !moe && is_kind(r, "b200");
    case PLAN_SET_SIMUMAX:
        return str_starts(src, "SimuMax");
    case PLAN_SET_HF_CLEAN:
        return clean;
    case PLAN_SET_HF_CLEAN8:
        return clean && r->config.tp <= 8;
    case PLAN_SET_HF_MFU20:
        return hf && r->measured.mfu > 0.2;
    default:
        return false;
    }
}

const char *plan_row_no_time(const struct plan_row *r)
{
    static const unsigned needs[] = { PLAN_NO_GPU, PLAN_NO_SHAPE, PLAN_BAD_MODEL, PLAN_NO_HEADS,
                                      PLAN_NO_CUT, PLAN_NO_BATCH, PLAN_BAD_TIME };
    static const unsigned rules[] = { PLAN_R3_PEFT, PLAN_R5_OTHER_WORK, PLAN_R6_GPUS };

    for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
        if (r->missing & needs[i])
            return plan_missing_names[__builtin_ctz(needs[i])];
    if (r->rule == PLAN_RULE_RANGE)
        return "sizes out of range";
    if (r->measured.failed)
        return "failed";
    if (!(r->measured.iter_s > 0))
        return "no time";
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (r->exclude & rules[i])
            return plan_exclude_names[__builtin_ctz(rules[i])];
    return NULL;
}

/* ---- what the model says ---- */

/* The micro-batch is not in the table: the best one, as whoever tuned the run would have it. */
static double best_micro_batch(const struct plan_row *r, const struct plan_consts *k,
                               struct plan_config *chosen)
{
    static const int32_t sizes[] = { 1, 2, 4, 8, 16 }, chunks[] = { 1, 2, 3, 4, 5, 6, 8 };
    struct plan_config c = r->config;
    double best = 0;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (size_t j = 0; j < ARRAY_SIZE(chunks); j++) {
            int64_t each = (int64_t)c.dp * sizes[i], m = r->global_batch / each;
            double t;

            if (r->global_batch % each || m > PLAN_BATCH_MAX ||
                (chunks[j] > 1 &&
                 (c.pp == 1 || r->model.layers % ((int64_t)c.pp * chunks[j]) || m % c.pp)))
                continue;
            c.micro_batch = sizes[i];
            c.vpp = chunks[j];
            c.grad_acc = (int32_t)m;
            t = plan_seconds(&r->model, &r->cluster, &c, k);
            if (best > 0 && t >= best)
                continue;
            best = t;
            *chosen = c;
        }
    return best;
}

double plan_row_seconds(const struct plan_row *r, const struct plan_consts *k,
                        struct plan_config *chosen)
{
    struct plan_config c = r->config;
    double t = r->missing & PLAN_NO_MICRO_BATCH ? best_micro_batch(r, k, &c)
                                                : plan_seconds(&r->model, &r->cluster, &c, k);

    if (chosen)
        *chosen = c;
    return t;
}

void plan_consts_each(const struct plan_const_table *t, struct plan_consts_all *out)
{
    out->count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const char *kind = t->rows[i].kind;
        size_t n = 0;

        while (n < out->count && !str_eq(out->kind[n].kind, kind))
            n++;
        if (str_eq(kind, "all") || str_eq(kind, "memory") || n < out->count ||
            n == PLAN_CONST_KINDS_MAX)
            continue;
        plan_consts_of(t, kind, &out->kind[out->count++]);
    }
}

const struct plan_consts *plan_consts_for(const struct plan_consts_all *all,
                                          const struct plan_gpu *gpu)
{
    const char *kind = plan_consts_kind(gpu);

    for (size_t i = 0; i < all->count; i++)
        if (str_eq(all->kind[i].kind, kind))
            return &all->kind[i];
    return NULL;
}

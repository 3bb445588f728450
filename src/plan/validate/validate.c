/* SPDX-License-Identifier: MIT */
/* validate: the planner's figures against published ones, source by source.
 *
 *   parameters  every row that prints a count and has a shape; what rounding to the printed digits
 *               explains is no error
 *   FLOPs       rows that print a rate and a share of the peak in a convention we know
 *   memory      rows with a measurement that R1 and R6 leave in; torch's figure against tensors
 *               (of the first stage where rank 0 printed it), nvidia-smi's against all
 *   fits        rows that ran against rows that did not, without R2 */
#include "plan/run_rows.h"

#include "base/str.h"
#include "plan/plan_int.h"
#include "plan/validate/validate_int.h"

#include <math.h>

#define LARGE_BYTES (30.0 * (1 << 30))

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);

    return (x > y) - (x < y);
}

void plan_errors_of(double *err, size_t n, struct plan_errors *out)
{
    struct plan_errors e = { .n = n };

    if (n) {
        qsort(err, n, sizeof(*err), by_size);
        for (size_t i = 0; i < n; i++) {
            e.mape += fabs(err[i]) / (double)n;
            e.mean += err[i] / (double)n;
        }
        e.median = (fabs(err[(n - 1) / 2]) + fabs(err[n / 2])) / 2;
        e.p90 = fabs(err[(n - 1) * 9 / 10]);
        e.max = fabs(err[n - 1]);
    }
    *out = e;
}

static bool has_shape(const struct plan_row *r)
{
    return !(r->missing & (PLAN_NO_SHAPE | PLAN_BAD_MODEL));
}

static bool params_error(const struct plan_row *r, double *out)
{
    double want = r->measured.params, off;

    if (!has_shape(r) || !(want > 0))
        return false;
    off = (double)r->counts.total - want;
    /* a count printed as 7.5B says no more than 7.45 to 7.55 */
    off = fabs(off) <= r->measured.params_ulp / 2 ? 0
                                                  : off - copysign(r->measured.params_ulp / 2, off);
    *out = off / want;
    return true;
}

static struct plan_recompute_share row_recompute(const struct plan_config *c)
{
    struct plan_recompute_share s = { 0, 0 };

    if (c->recompute == PLAN_RECOMPUTE_FULL)
        s.layers = 1;
    else if (c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        s.attention = 1;
    return s;
}

/* FLOPs a token as the source counted them: its rate over its tokens. */
static bool flops_error(const struct plan_row *r, double *out)
{
    const struct plan_measured *m = &r->measured;
    double rate = m->tflops_gpu * 1e12, want, off;

    if (!has_shape(r) || (r->missing & (PLAN_NO_GPU | PLAN_NO_HEADS)) || !m->flops_known ||
        !(m->tokens_s_gpu > 0) || (r->exclude & (PLAN_R5_OTHER_WORK | PLAN_R6_GPUS)))
        return false;
    if (!(rate > 0))
        rate = m->mfu * r->cluster.gpu.bf16_flops;
    if (!(rate > 0))
        return false;
    want = rate / m->tokens_s_gpu;
    off =
        plan_flops_token(&r->model, r->config.seq, m->flops, row_recompute(&r->config)) / want - 1;
    *out = fabs(off) <= m->rate_ulp ? 0 : off - copysign(m->rate_ulp, off);
    return true;
}

/* A pipeline of as many stages as layers, which we refuse, has run four times. */
static bool has_memory(const struct plan_row *r)
{
    const unsigned needs = PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_CUT | PLAN_NO_MICRO_BATCH |
                           PLAN_NO_GPU | PLAN_NO_RECOMPUTE;
    bool can_be = !(r->missing & PLAN_BAD_CONFIG) ||
                  (r->rule == PLAN_RULE_PP_LAYERS && r->measured.iter_s > 0);

    return can_be && !(r->missing & needs) && !(r->exclude & (PLAN_R5_OTHER_WORK | PLAN_R6_GPUS));
}

struct error_tally { /* errors as they come; arrays of `rows` doubles */
    double *params, *flops, *memory, *large;
    size_t n_params, n_flops, n_memory, n_large;
};

static void one_memory(const struct plan_row *r, const struct plan_memory_consts *k,
                       struct plan_source_report *o, struct error_tally *t)
{
    const struct plan_measured *m = &r->measured;
    struct plan_memory_stage first;
    struct plan_memory got;
    bool fits;

    plan_memory_of(&r->model, &r->counts, &r->config, k, &got);
    plan_memory_stage(&r->model, &r->counts, &r->config, k, 0, &first);
    if (m->mem_kind != PLAN_MEM_NONE && !m->failed && !(r->exclude & PLAN_R1_NOT_CLEAN) &&
        r->config.tp <= 8) {
        double ours = (double)(m->mem_kind == PLAN_MEM_SMI     ? got.total
                               : m->mem_kind == PLAN_MEM_RANK0 ? plan_memory_allocated(first.kind)
                                                               : plan_memory_allocated(got.kind));

        t->memory[t->n_memory++] = ours / m->mem_bytes - 1;
        if (m->mem_bytes > LARGE_BYTES)
            t->large[t->n_large++] = ours / m->mem_bytes - 1;
    }
    if ((r->exclude & PLAN_R2_PP_LAYERS) || !(m->failed || m->iter_s > 0))
        return;
    fits = got.total <= (uint64_t)r->cluster.gpu.mem_bytes;
    o->fit_n++;
    o->fit_right += fits != m->failed;
    *(m->failed ? &o->fit_no : &o->fit_yes) += 1;
    if (fits != m->failed)
        *(m->failed ? &o->fit_no_right : &o->fit_yes_right) += 1;
}

static void one_row(const struct plan_row *r, const struct plan_memory_consts *k,
                    struct plan_source_report *o, struct error_tally *t)
{
    size_t before = t->n_params + t->n_flops + t->n_memory + o->fit_n;

    o->rows++;
    for (int i = 0; i < PLAN_MISSINGS; i++)
        o->missing[i] += r->missing >> i & 1;
    for (int i = 0; i < PLAN_EXCLUDES; i++)
        o->exclude[i] += r->exclude >> i & 1;
    t->n_params += params_error(r, &t->params[t->n_params]);
    t->n_flops += flops_error(r, &t->flops[t->n_flops]);
    if (has_memory(r))
        one_memory(r, k, o, t);
    o->used += t->n_params + t->n_flops + t->n_memory + o->fit_n > before;
}

static void one_source(const struct plan_rows *rows, const char *source,
                       const struct plan_memory_consts *k, struct error_tally *t,
                       struct plan_source_report *out)
{
    struct plan_source_report o = { .source = source ? source : "all" };

    t->n_params = t->n_flops = t->n_memory = t->n_large = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (!source || str_eq(rows->rows[i].source, source))
            one_row(&rows->rows[i], k, &o, t);
    plan_errors_of(t->params, t->n_params, &o.params);
    plan_errors_of(t->flops, t->n_flops, &o.flops);
    plan_errors_of(t->memory, t->n_memory, &o.memory);
    plan_errors_of(t->large, t->n_large, &o.memory_large);
    *out = o;
}

enum rc plan_rows_sources(const struct plan_rows *rows, const char *out[PLAN_SOURCES_MAX],
                          size_t *out_count, struct err *err)
{
    size_t count = 0;

    for (size_t i = 0; i < rows->count; i++) {
        size_t s = 0;

        while (s < count && !str_eq(out[s], rows->rows[i].source))
            s++;
        if (s < count)
            continue;
        if (count == PLAN_SOURCES_MAX)
            return err_set(err, RC_LIMIT, "more than %d sources", PLAN_SOURCES_MAX);
        out[count++] = rows->rows[i].source;
    }
    *out_count = count;
    return RC_OK;
}

/* A run that was published ran; whether it needed to compute norms and activations again is often
 * not printed. */
static bool fp8_fits(const struct plan_row *r, const struct plan_memory_consts *k)
{
    const uint32_t tries[] = { r->config.recompute_ops, PLAN_OP_NORM | PLAN_OP_ACT,
                               PLAN_OPS_ALL & ~(uint32_t)PLAN_OP_EXPERTS, PLAN_OPS_ALL };
    size_t n = r->missing & PLAN_NO_RECOMPUTE ? ARRAY_SIZE(tries) : 1;

    for (size_t i = 0; i < n; i++) {
        struct plan_config c = r->config;
        struct plan_memory got;

        c.recompute_ops = tries[i];
        plan_memory_of(&r->model, &r->counts, &c, k, &got);
        if (got.total <= (uint64_t)r->cluster.gpu.mem_bytes)
            return true;
    }
    return false;
}

static void tally_fp8(const struct plan_rows *rows, const struct plan_memory_consts *k,
                      struct plan_report *out)
{
    const unsigned needs = PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_CUT | PLAN_NO_MICRO_BATCH |
                           PLAN_NO_GPU | PLAN_BAD_CONFIG;

    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];

        if (r->config.precision != PLAN_FP8 || !str_eq(r->cluster.gpu.arch, "Hopper") ||
            r->missing & needs || r->measured.failed || !(r->measured.iter_s > 0) ||
            r->exclude & (PLAN_R3_PEFT | PLAN_R5_OTHER_WORK | PLAN_R6_GPUS))
            continue;
        out->fp8_n++;
        out->fp8_fit += fp8_fits(r, k);
    }
}

enum rc plan_validate(struct arena *a, const struct plan_rows *rows,
                      const struct plan_memory_consts *k, struct plan_report *out, struct err *err)
{
    const char *names[PLAN_SOURCES_MAX];
    struct plan_source_report *reports;
    size_t count = 0, n = rows->count ? rows->count : 1;
    struct error_tally t = { .params = arena_array(a, double, n),
                             .flops = arena_array(a, double, n),
                             .memory = arena_array(a, double, n),
                             .large = arena_array(a, double, n) };
    enum rc rc = plan_rows_sources(rows, names, &count, err);

    if (rc != RC_OK)
        return rc;
    reports = arena_array(a, struct plan_source_report, count + 1);
    for (size_t s = 0; s < count; s++)
        one_source(rows, names[s], k, &t, &reports[s]);
    one_source(rows, NULL, k, &t, &reports[count]);
    *out = (struct plan_report){ .sources = reports, .count = count + 1 };
    tally_fp8(rows, k, out);
    return RC_OK;
}

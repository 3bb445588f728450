/* SPDX-License-Identifier: MIT */
/* stoker plan train: the answer as text. */
#include "base/mem.h"
#include "base/str.h"
#include "cmd/plan/plan_request_int.h"
#include "cmd/plan/plan_train_int.h"

#include <math.h>
#include <stdlib.h>

enum { DIFFERENCES = 4, PARTS_SHOWN = 8 };

#define S struct plan_figures
static const struct field time_fields[] = {
    FIELD_OF("step_s", S, time.step_s, "seconds of a step", .title = "step s", .fmt = "%.3f"),
    FIELD_OF("step_s_low", S, step_s_low, "by the error band", .above_0 = true, .left_out = true),
    FIELD_OF("step_s_high", S, step_s_high, "likewise", .above_0 = true, .left_out = true),
    FIELD_OF("tokens_s", S, time.tokens_s, "tokens a second", .title = "tokens/s"),
    FIELD_OF("mfu", S, time.mfu, "model FLOPs utilisation", .title = "MFU", .fmt = "%.1f%%",
             .scale = 100),
    FIELD_OF("hfu", S, time.hfu, "the same with what is computed again"),
    FIELD_OF("joules", S, time.joules, "of a step on a GPU"),
};
FIELD_TABLE(train_time_table, "time", S, time_fields);
static const struct field cost_fields[] = {
    FIELD_OF("memory_bytes", S, memory.total, "of the fullest GPU", .title = "GiB", .fmt = "%.1f",
             .scale = 1 / GIB),
    FIELD_OF("days", S, days, "for the tokens", .above_0 = true),
    FIELD_OF("dollars", S, dollars, "for the tokens", .above_0 = true),
    FIELD_OF("dollars_per_billion_tokens", S, dollars_btok, "at the price", .above_0 = true),
    FIELD_OF("misses_days", S, misses_days, "it takes longer than is asked for"),
    FIELD_OF("misses_budget", S, misses_budget, "it costs more"),
};
FIELD_TABLE(train_cost_table, "cost", S, cost_fields);
#undef S

/* ---- pieces ---- */
static void config_cell(struct table *t, enum table_colour colour, const struct plan_config *c)
{
    table_cell(t, colour, "%s", TEXT_CONFIG(c));
}

static void add_dollars(struct buf *out, double v)
{
    if (!(v > 0))
        buf_addc(out, '-');
    else if (v < 1e4)
        buf_addf(out, "$%.0f", v);
    else if (v < 1e6)
        buf_addf(out, "$%.0fk", v / 1e3);
    else
        buf_addf(out, "$%.2fM", v / 1e6);
}

static void dollars_cell(struct table *t, double v, bool misses)
{
    struct buf text = { 0 };

    add_dollars(&text, v);
    table_cell(t, misses ? COLOUR_RED : COLOUR_NONE, "%s%s", buf_str(&text), misses ? "!" : "");
    buf_release(&text);
}

struct difference {
    int part;
    double s;
};

static int by_size(const void *pa, const void *pb)
{
    const struct difference *a = pa, *b = pb;
    double x = fabs(a->s), y = fabs(b->s);

    return x > y ? -1 : x < y ? 1 : a->part - b->part;
}

void train_differences(const struct plan_time *a, const struct plan_time *b, struct buf *out)
{
    struct difference d[PLAN_PARTS];
    int shown = 0;

    for (int i = 0; i < PLAN_PARTS; i++)
        d[i] = (struct difference){ i, b->part[i] - a->part[i] };
    qsort(d, PLAN_PARTS, sizeof(d[0]), by_size);
    for (int i = 0; i < PLAN_PARTS && shown < DIFFERENCES; i++) {
        if (fabs(d[i].s) < 0.0005)
            break;
        buf_addf(out, "%s%s %+.3f s", shown ? ", " : "", plan_part_names[d[i].part], d[i].s);
        shown++;
    }
    if (!shown)
        buf_adds(out, "no part differs by a millisecond");
}

static void print_head(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];

    term_text(&ctx->out_term, &ctx->out, COLOUR_BOLD, "%s", j->model.name);
    buf_addf(&ctx->out, ": %s parameters", TEXT_DIGITS(j->counts.total));
    if (j->model.experts)
        buf_addf(&ctx->out, " (%s active)", TEXT_DIGITS(j->counts.active));
    buf_addf(&ctx->out, ", %lld layers of %lld\n", (long long)j->model.layers,
             (long long)j->model.hidden);
    buf_addf(&ctx->out,
             "%lld x %s, %lld in a node, %.0f Gb/s of network a node; batch %lld of "
             "%lld tokens%s; %s kernels\n",
             (long long)k->cluster.gpus, k->cluster.gpu.name, (long long)k->cluster.node_gpus,
             k->cluster.net_bytes_s * 8e-9, (long long)j->batch, (long long)j->base.seq,
             j->batch_usual ? " (usual of this size; --batch sets it)" : "",
             k->space.base.profile.fused ? "fused" : "eager");
}

/* What to do, first. */
static void print_sentence(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    const struct plan_config *c = &plan_choice(&k->found)->config;
    struct buf line = { 0 };
    struct plan_figures f;

    plan_case_figures(k, &j->goal, c, &f);
    buf_addf(&line, "Run %s on %lld x %s: %s a step, %.1f of %.1f GiB", TEXT_CONFIG(c),
             (long long)k->cluster.gpus, k->cluster.gpu.name, TEXT_TIME(f.time.step_s),
             (double)f.memory.total / GIB, (double)k->cluster.gpu.mem_bytes / GIB);
    if (j->goal.tokens > 0)
        buf_addf(&line, ", %.3g days for %s tokens", f.days, TEXT_SHORT(j->goal.tokens));
    if (j->goal.tokens > 0 && f.dollars > 0)
        buf_addf(&line, " and %s", TEXT_USD(f.dollars));
    buf_addc(&line, '.');
    if (f.misses_days && j->gpus_in_time)
        buf_addf(&line, " That misses %.3g day%s: %lld GPUs would do.", j->goal.days,
                 j->goal.days > 1 ? "s" : "", (long long)j->gpus_in_time);
    else if (f.misses_days)
        buf_addf(&line,
                 " That misses %.3g day%s, and so does every larger number of GPUs at this "
                 "batch.",
                 j->goal.days, j->goal.days > 1 ? "s" : "");
    term_wrap(&ctx->out_term, &ctx->out, 0, buf_str(&line));
    buf_addc(&ctx->out, '\n');
    buf_release(&line);
}

/* Does any of the best have a pipeline? */
static bool has_pipelines(const struct plan_found *f)
{
    for (size_t i = 0; i < f->top_count; i++)
        if (f->top[i].config.pp > 1)
            return true;
    return false;
}

static void print_space(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    const struct plan_found *f = &k->found;
    struct buf rules = { 0 }, line = { 0 };

    buf_addf(&ctx->out, "%s configurations, %s fit in %.1f GiB (%.0f %% kept free).\n",
             TEXT_DIGITS(f->tried), TEXT_DIGITS(f->fit), (double)k->space.limit / GIB,
             j->free_percent);
    for (int i = 1; i < PLAN_RULES; i++)
        if (f->excluded[i])
            buf_addf(&rules, "%s%s %s", rules.len ? ", " : "", plan_rule_names[i],
                     TEXT_DIGITS(f->excluded[i]));
    if (f->excluded[PLAN_RULE_PP_EVEN] && !has_pipelines(f))
        buf_addf(&rules, " (--split cost lets stages of %lld layers be uneven)",
                 (long long)j->model.layers);
    if (rules.len && j->rules) {
        buf_addf(&line, "Refused, by rule: %s.", buf_str(&rules));
        term_wrap(&ctx->out_term, &ctx->out, 0, buf_str(&line));
    }
    buf_addc(&ctx->out, '\n');
    buf_release(&line);
    buf_release(&rules);
}

/* ---- tables ---- */

/* Rows of the ranking: the best of every cut (or all), and in front of them the choice where it
 * is none of them. */
static const struct plan_pick *front_row(const struct train_job *j)
{
    const struct plan_found *f = &j->cases[j->chosen].found;
    const struct plan_pick *choice = plan_choice(f);

    for (size_t i = 0; i < f->top_count; i++)
        if (plan_pick_cmp(&f->top[i], choice) == 0)
            return NULL;
    return choice;
}

static size_t ranked_count(const struct train_job *j)
{
    return j->cases[j->chosen].found.top_count + (front_row(j) != NULL);
}

static const struct plan_pick *ranked_at(const struct train_job *j, size_t row)
{
    const struct plan_pick *first = front_row(j);

    return first && row == 0 ? first : &j->cases[j->chosen].found.top[row - (first != NULL)];
}

static bool rank_cell(struct table *t, const struct train_job *j, size_t row)
{
    bool mine = plan_pick_cmp(ranked_at(j, row), plan_choice(&j->cases[j->chosen].found)) == 0;
    bool first = front_row(j) != NULL;

    if (first && row == 0)
        table_cell(t, COLOUR_GREEN, "*");
    else
        table_cell(t, mine ? COLOUR_GREEN : COLOUR_NONE, "%s%zu", mine ? "*" : "", row + 1 - first);
    return mine;
}

static void print_ranking(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    struct table *t = table_new();

    table_col(t, "", TABLE_RIGHT);
    table_col(t, "configuration", TABLE_LEFT | TABLE_WHOLE);
    fields_columns(t, &train_time_table);
    fields_columns(t, &train_cost_table);
    if (j->goal.tokens > 0)
        table_col(t, "days", TABLE_RIGHT);
    table_col(t, j->goal.tokens > 0 ? "cost" : "$/Gtok", TABLE_RIGHT);
    for (size_t i = 0; i < ranked_count(j); i++) {
        const struct plan_config *c = &ranked_at(j, i)->config;
        struct plan_figures f;

        plan_case_figures(k, &j->goal, c, &f);
        table_row(t);
        config_cell(t, rank_cell(t, j, i) ? COLOUR_BOLD : COLOUR_NONE, c);
        fields_cells(t, &train_time_table, &f, COLOUR_NONE);
        fields_cells(t, &train_cost_table, &f, COLOUR_NONE);
        if (j->goal.tokens > 0)
            table_cell(t, f.misses_days ? COLOUR_RED : COLOUR_NONE, "%.1f%s", f.days,
                       f.misses_days ? "!" : "");
        dollars_cell(t, j->goal.tokens > 0 ? f.dollars : f.dollars_btok, f.misses_budget);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    if (j->goal.days > 0 || j->goal.budget > 0)
        buf_adds(&ctx->out, "! misses the deadline or the budget.\n");
}

/* The largest parts have a column each, what is left is their rest: ten columns in all. */
static void print_parts(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    struct difference most[PLAN_PARTS];
    bool used[PLAN_PARTS] = { false }, rest = false;
    struct table *t = table_new();
    struct plan_figures f;

    for (int p = 0; p < PLAN_PARTS; p++)
        most[p] = (struct difference){ .part = p };
    for (size_t i = 0; i < ranked_count(j); i++) {
        plan_case_figures(k, &j->goal, &ranked_at(j, i)->config, &f);
        for (int p = 0; p < PLAN_PARTS; p++)
            most[p].s = fmax(most[p].s, f.time.part[p]);
    }
    qsort(most, PLAN_PARTS, sizeof(most[0]), by_size);
    for (int i = 0; i < PLAN_PARTS && most[i].s >= 0.0005; i++) {
        used[most[i].part] = i < PARTS_SHOWN;
        rest = rest || i >= PARTS_SHOWN;
    }
    table_col(t, "ms", TABLE_RIGHT);
    for (int p = 0; p < PLAN_PARTS; p++)
        if (used[p])
            table_col(t, plan_part_names[p], TABLE_RIGHT);
    if (rest)
        table_col(t, "rest", TABLE_RIGHT);
    for (size_t i = 0; i < ranked_count(j); i++) {
        double left = 0;

        plan_case_figures(k, &j->goal, &ranked_at(j, i)->config, &f);
        table_row(t);
        rank_cell(t, j, i);
        for (int p = 0; p < PLAN_PARTS; p++) {
            if (used[p])
                table_cell(t, COLOUR_NONE, "%.0f", 1e3 * f.time.part[p]);
            else
                left += f.time.part[p];
        }
        if (rest)
            table_cell(t, COLOUR_NONE, "%.0f", 1e3 * left);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void print_clusters(struct cmd_ctx *ctx, const struct train_job *j)
{
    struct table *t = table_new();

    table_col(t, "cluster", TABLE_LEFT);
    table_col(t, "choice", TABLE_LEFT | TABLE_WHOLE);
    table_col(t, "tokens/s", TABLE_RIGHT);
    table_col(t, "MFU", TABLE_RIGHT);
    table_col(t, "days", TABLE_RIGHT);
    table_col(t, j->goal.tokens > 0 ? "cost" : "$/Gtok", TABLE_RIGHT);
    for (size_t i = 0; i < j->count; i++) {
        const struct plan_case *k = &j->cases[i];
        const struct plan_pick *p = plan_choice(&k->found);
        enum table_colour colour = i == j->chosen ? COLOUR_BOLD : COLOUR_NONE;
        struct plan_figures f;

        table_row(t);
        table_cell(t, colour, "%s%lld x %s", i == j->chosen ? "* " : "", (long long)k->cluster.gpus,
                   k->cluster.gpu.alias);
        if (!p) {
            table_cell(t, COLOUR_RED, "nothing fits");
            continue;
        }
        plan_case_figures(k, &j->goal, &p->config, &f);
        config_cell(t, colour, &p->config);
        table_cell(t, COLOUR_NONE, "%.0f", f.time.tokens_s);
        table_cell(t, COLOUR_NONE, "%.1f%%", 100 * f.time.mfu);
        table_cell(t, f.misses_days ? COLOUR_RED : COLOUR_NONE, f.days > 0 ? "%.1f%s" : "-", f.days,
                   f.misses_days ? "!" : "");
        dollars_cell(t, j->goal.tokens > 0 ? f.dollars : f.dollars_btok, f.misses_budget);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    buf_addc(&ctx->out, '\n');
    table_free(t);
}

static void print_front(struct cmd_ctx *ctx, const struct train_job *j)
{
    struct plan_point *points = xcalloc(CASES_MAX * (size_t)PLAN_FRONT_MAX, sizeof(*points));
    size_t n = plan_cases_front(j->cases, j->count, points, CASES_MAX * (size_t)PLAN_FRONT_MAX),
           step;
    struct table *t = table_new();

    table_col(t, "nothing beats in all of", TABLE_LEFT | TABLE_WHOLE);
    table_col(t, "tokens/s", TABLE_RIGHT);
    table_col(t, "free GiB", TABLE_RIGHT);
    table_col(t, "$/Gtok", TABLE_RIGHT);
    step = n > FRONT_SHOWN ? (n + FRONT_SHOWN - 2) / (FRONT_SHOWN - 1) : 1;
    for (size_t i = 0; i < n; i += step) {
        const struct plan_point *p = &points[i];
        const struct plan_cluster *cl = &j->cases[p->cluster].cluster;

        table_row(t);
        if (j->count > 1)
            table_cell(t, COLOUR_NONE, "%lld x %s: %s", (long long)cl->gpus, cl->gpu.alias,
                       TEXT_CONFIG(&p->pick->config));
        else
            config_cell(t, COLOUR_NONE, &p->pick->config);
        table_cell(t, COLOUR_NONE, "%.0f", 1 / p->token_s);
        table_cell(t, COLOUR_NONE, "%.1f", p->headroom / GIB);
        dollars_cell(t, p->dollars * 1e9, false);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    if (step > 1)
        buf_addf(&ctx->out, "(%zu in all; --json has every one)\n", n);
    table_free(t);
    free(points);
}

/* ---- why ---- */
static void print_why(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    const struct plan_pick *choice = plan_choice(&k->found);
    const struct plan_pick *second = plan_runner_up(&k->found, &choice->config);
    struct buf line = { 0 };
    struct plan_figures a, b;

    buf_addf(&line, "The choice (*) is %s: ", TEXT_CONFIG(&choice->config));
    if (plan_pick_cmp(choice, &k->found.front[0]) == 0)
        buf_adds(&line, "the fastest, and nothing as fast is plainer.");
    else
        buf_addf(&line,
                 "%.2f %% behind the fastest, which the model cannot tell apart, and plainer; it "
                 "takes %.1f GiB %s.",
                 100 * (choice->step_s / k->found.front[0].step_s - 1),
                 fabs((double)k->found.front[0].memory - (double)choice->memory) / GIB,
                 choice->memory > k->found.front[0].memory ? "more" : "less");
    if (plan_megatron_queues(&choice->config, &k->cluster.gpu))
        buf_adds(&line,
                 " Megatron-LM advises against tensor and context parallelism with its FSDP "
                 "(ZeRO 2, 3) on GPUs before Blackwell; no plain plan without it is as fast.");
    buf_addc(&ctx->out, '\n');
    term_wrap(&ctx->out_term, &ctx->out, 0, buf_str(&line));
    if (second) {
        double d = second->step_s / choice->step_s - 1;

        plan_case_figures(k, &j->goal, &choice->config, &a);
        plan_case_figures(k, &j->goal, &second->config, &b);
        buf_reset(&line);
        buf_addf(&line, "The runner-up, %s, takes %.2f %% %s and %.1f GiB %s: ",
                 TEXT_CONFIG(&second->config), 100 * fabs(d), d < 0 ? "less time" : "more time",
                 fabs((double)second->memory - (double)choice->memory) / GIB,
                 second->memory < choice->memory ? "less" : "more");
        train_differences(&a.time, &b.time, &line);
        buf_addc(&line, '.');
        term_wrap(&ctx->out_term, &ctx->out, 0, buf_str(&line));
    }
    buf_release(&line);
}

/* The same to a reader; another batch has another number of micro-batches. */
static bool same_text(const struct plan_config *a, const struct plan_config *b)
{
    struct plan_config like = *a;

    like.grad_acc = b->grad_acc;
    return str_eq(TEXT_CONFIG(&like), TEXT_CONFIG(b));
}

static void print_varies(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_config *choice = &plan_choice(&j->cases[j->chosen].found)->config;
    struct table *t = table_new();

    table_col(t, "with", TABLE_LEFT);
    table_col(t, "the choice would be", TABLE_LEFT | TABLE_WHOLE);
    table_col(t, "step s", TABLE_RIGHT);
    table_col(t, "today's", TABLE_RIGHT);
    for (int i = 0; i < PLAN_VARIES; i++) {
        const struct plan_vary *v = &j->varies[i];

        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", v->name);
        if (!v->any) {
            table_cell(t, COLOUR_RED, "nothing fits");
            continue;
        }
        if (same_text(&v->best.config, choice))
            table_cell(t, COLOUR_DIM, "the same");
        else
            config_cell(t, COLOUR_NONE, &v->best.config);
        table_cell(t, COLOUR_NONE, "%.3f", v->best.step_s);
        if (!v->same_valid)
            table_cell(t, COLOUR_NONE, "cannot be");
        else if (!v->same_fits)
            table_cell(t, COLOUR_RED, "does not fit");
        else
            table_cell(t, COLOUR_NONE, "%.3f", v->same.step_s);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void print_notes(struct cmd_ctx *ctx, const struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    struct buf line = { 0 };
    struct plan_figures f;

    plan_case_figures(k, &j->goal, &plan_choice(&k->found)->config, &f);
    buf_addf(&line,
             "Error band: of published runs that the fit had not seen, eight in ten took between "
             "%.0f %% less and %.0f %% more than predicted%s. So the choice's step is %.2f to "
             "%.2f s",
             100 * (1 - j->band_low), 100 * (j->band_high - 1),
             j->band_stand_in ? " (none of this hardware and kind of model is among them)" : "",
             f.time.step_s * j->band_low, f.time.step_s * j->band_high);
    if (j->goal.tokens > 0)
        buf_addf(&line, ", the training %.1f to %.1f days without interruptions",
                 f.days * j->band_low, f.days * j->band_high);
    buf_addf(&line, ". MFU counts attention over all pairs (%s).", plan_flops_names[f.time.flops]);
    buf_addc(&ctx->out, '\n');
    term_wrap(&ctx->out_term, &ctx->out, 0, buf_str(&line));
    if (k->price > 0)
        buf_addf(&ctx->out, "A GPU-hour counts $%.2f.\n", k->price);
    else
        buf_addf(&ctx->out, "No price of %s is known: --price gives one.\n", k->cluster.gpu.name);
    if (*k->cluster.gpu.note)
        buf_addf(&ctx->out, "%s: %s.\n", k->cluster.gpu.name, k->cluster.gpu.note);
    else if (*k->consts.note)
        buf_addf(&ctx->out, "%s: %s.\n", k->cluster.gpu.name, k->consts.note);
    print_fp32(ctx, &k->cluster.gpu, plan_choice(&k->found)->config.precision);
    buf_release(&line);
}

void train_print(struct cmd_ctx *ctx, const struct train_job *j)
{
    print_sentence(ctx, j);
    print_head(ctx, j);
    train_spec_print(ctx, j);
    if (j->count > 1)
        print_clusters(ctx, j);
    print_space(ctx, j);
    print_ranking(ctx, j);
    print_parts(ctx, j);
    print_why(ctx, j);
    print_front(ctx, j);
    if (j->vary)
        print_varies(ctx, j);
    print_notes(ctx, j);
}

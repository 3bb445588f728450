/* SPDX-License-Identifier: MIT */
/* stoker plan train: the best way to cut a training job, out of all there are. */
#include "base/mem.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/text/units.h"
#include "cmd/plan/plan_train_int.h"
#include "os/clock.h"
#include "plan/campaign.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static enum rc option_missing(const char *option, const char *example, struct err *err)
{
    err_hint(err, "For example %s.", example);
    return err_set(err, RC_USAGE, "there is no %s", option);
}

/* "15T", "$2.5M", "300B": a number above 0. */
static enum rc read_amount(const char *option, const char *s, double *out, struct err *err)
{
    double v, ulp;

    if (!s)
        return RC_OK;
    if (!plan_count_parse(s + (*s == '$'), &v, &ulp) || !(v > 0) || v > 1e18) {
        err_hint(err, "Give a number above 0 and at most 1e18, as in 15T, 300B or 2500000.");
        return err_set(err, RC_USAGE, "option '--%s' cannot be '%s'", option, s);
    }
    *out = v;
    return RC_OK;
}

/* --flags asks for a choice that its framework can run, as --for does. */
static const char *framework_of(const struct train_opts *o)
{
    return o->framework ? o->framework : o->flags;
}

static void read_profile(const struct train_opts *o, const struct plan_cluster *cl,
                         struct plan_profile *out)
{
    plan_profile_usual(cl, out);
    out->split = (enum plan_split)plan_name_place(plan_split_names, o->split, (int)out->split);
    if (framework_of(o) && !str_eq(framework_of(o), "megatron") && cl->gpus > 1)
        out->stack = PLAN_STACK_FSDP;
    out->stack = (enum plan_stack)plan_name_place(plan_stack_names, o->stack, (int)out->stack);
    out->flash = !o->no_flash;
    out->dp_overlap = !o->no_overlap;
    out->fused = o->fused || (!o->eager && out->fused);
}

static enum rc read_base(const struct train_opts *o, struct train_job *j, struct err *err)
{
    struct plan_config *c = &j->base;

    plan_config_init(c);
    c->seq = o->seq ? o->seq : 4096;
    c->precision = plan_precision_of(o->precision);
    if (framework_of(o) && !o->precision)
        c->precision = plan_framework_precision(
            (enum plan_framework)plan_name_place(plan_framework_names, framework_of(o), 0));
    c->optimizer =
        (enum plan_optimizer)plan_name_place(plan_optimizer_names, o->optimizer, PLAN_ADAM);
    j->free_percent = 100 * PLAN_CHOICE_MARGIN;
    if (o->free && (units_percent_parse(o->free, &j->free_percent, err) || j->free_percent < 0 ||
                    j->free_percent > 90)) {
        err_hint(err, "Give 0%% to 90%%.");
        return err_set(err, RC_USAGE, "option '--free' cannot be '%s'", o->free);
    }
    if (read_amount("tokens", o->tokens, &j->goal.tokens, err) ||
        read_amount("days", o->days, &j->goal.days, err) ||
        read_amount("budget", o->budget, &j->goal.budget, err))
        return RC_USAGE;
    if ((o->days || o->budget) && !o->tokens)
        return option_missing("--tokens, which --days and --budget need", "--tokens 15T", err);
    return RC_OK;
}

/* What no cut of the job makes right: the GPU's types, and what its framework has for it. */
static enum rc read_types(const struct train_opts *o, const struct train_job *j,
                          const struct plan_cluster *cl, struct err *err)
{
    int f = plan_name_place(plan_framework_names, framework_of(o), PLAN_TORCHRUN);
    const char *why = plan_framework_refuses_gpu((enum plan_framework)f, &cl->gpu);

    if (plan_precision_rule_check(&cl->gpu, j->base.precision, err))
        return err->code;
    if (!why || j->base.precision == PLAN_FP32)
        return RC_OK;
    err_hint(err, "Megatron-LM, DeepSpeed and Accelerate have fp16.");
    return err_set(err, RC_USAGE, "%s cannot train on %s: %s", plan_framework_versions[f],
                   cl->gpu.name, why);
}

static enum rc read_case(const struct train_opts *o, struct train_job *j, const char *gpu,
                         int64_t gpus, struct err *err)
{
    struct plan_case *k = &j->cases[j->count];
    struct plan_gpu g;
    uint64_t bits;

    if (plan_gpu_by_name(gpu, &g, err) || plan_consts_builtin(&g, &k->consts, err))
        return err->code;
    plan_cluster_usual(&g, gpus, &k->cluster);
    if (o->node)
        k->cluster.net_bytes_s *= (double)o->node / (double)k->cluster.node_gpus;
    if (o->node)
        k->cluster.node_gpus = o->node;
    if (o->machine || (o->node && o->node < k->cluster.machine_gpus))
        k->cluster.machine_gpus = o->machine;
    if (o->net) {
        if (units_rate_parse(o->net, &bits, NULL) || !bits) {
            err_hint(err, "Give the rate of a node, as in 400Gb/s or 25GB/s.");
            return err_set(err, RC_USAGE, "option '--net' cannot be '%s'", o->net);
        }
        k->cluster.net_bytes_s = (double)bits / 8;
    }
    k->price = g.price_usd_h;
    if (read_amount("price", o->price, &k->price, err) || read_types(o, j, &k->cluster, err))
        return err->code;
    k->space = (struct plan_space){ .model = &j->model,
                                    .counts = &j->counts,
                                    .cluster = &k->cluster,
                                    .consts = &k->consts,
                                    .base = j->base,
                                    .batch = j->batch,
                                    .offload = o->offload,
                                    .all = o->all,
                                    .for_one = framework_of(o) != NULL };
    k->space.framework =
        (enum plan_framework)plan_name_place(plan_framework_names, framework_of(o), 0);
    read_profile(o, &k->cluster, &k->space.base.profile);
    k->space.limit = (uint64_t)((double)g.mem_bytes * (1 - j->free_percent / 100));
    if (o->fix && plan_config_parse(o->fix, &k->space.base, &k->space.fixed, err))
        return err_ctx(err, "option '--fix'");
    j->count++;
    return RC_OK;
}

/* The next of a list with commas; false at its end. */
static bool next_item(const char **list, char out[PLAN_NAME_MAX])
{
    size_t len = strcspn(*list, ",");

    if (!**list)
        return false;
    snprintf(out, PLAN_NAME_MAX, "%.*s", len < PLAN_NAME_MAX ? (int)len : PLAN_NAME_MAX - 1, *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

static enum rc read_gpus(const char *s, int64_t *out, struct err *err)
{
    if (str_to_i64(s, 10, out) && *out >= 1 && *out <= PLAN_GPUS_MAX)
        return RC_OK;
    err_hint(err, "The nearest valid value is %d.",
             strtod(s, NULL) > PLAN_GPUS_MAX ? PLAN_GPUS_MAX : 1); /* 1e30 too */
    return err_set(err, RC_USAGE, "option '--gpus' cannot be '%s'", s);
}

static enum rc read_cases(const struct train_opts *o, struct train_job *j, struct err *err)
{
    const char *kinds = o->gpu ? o->gpu : "h100";
    char kind[PLAN_NAME_MAX], number[PLAN_NAME_MAX];

    while (next_item(&kinds, kind)) {
        const char *counts = o->gpus;

        while (next_item(&counts, number)) {
            int64_t gpus;

            if (j->count == CASES_MAX) {
                err_hint(err, "Ask for at most %d at a time.", CASES_MAX);
                return err_set(err, RC_LIMIT, "--gpu and --gpus name too many clusters");
            }
            if (read_gpus(number, &gpus, err) || read_case(o, j, kind, gpus, err))
                return err->code;
        }
    }
    return j->count ? RC_OK : option_missing("--gpus", "--gpus 64", err);
}

static int64_t odd_multiple(int64_t a, int64_t gpus)
{
    int64_t odd = gpus >> __builtin_ctzll((unsigned long long)gpus), n = a;

    while (n % odd && n <= PLAN_BATCH_MAX)
        n += a;
    return n;
}

/* What published runs of the size took, as `plan campaign` takes it: a power of two, which three
 * nodes cannot share; so the nearest that every number of GPUs can, by about a quarter of it. */
static enum rc read_usual_batch(const struct train_opts *o, struct train_job *j, struct err *err)
{
    struct plan_recipes recipes;
    const char *counts = o->gpus;
    char number[PLAN_NAME_MAX];
    int64_t gpus, step = 1;

    if (plan_recipes_load(&j->arena, &recipes, err))
        return err->code;
    while (next_item(&counts, number)) {
        if (read_gpus(number, &gpus, err))
            return err->code;
        step = odd_multiple(step, gpus);
    }
    j->batch_usual = true;
    j->batch = plan_usual_sequences(&recipes, (double)j->counts.active, j->base.seq);
    while (step <= j->batch / 8)
        step *= 2;
    if (j->batch % step && step <= PLAN_BATCH_MAX)
        j->batch = (j->batch / step + (j->batch % step > step / 2 || j->batch < step)) * step;
    return RC_OK;
}

static enum rc read_job(const struct train_opts *o, struct train_job *j, struct err *err)
{
    if (!o->model && !j->model.layers) /* said together: who lacks one does not know of the other */
        return option_missing(
            o->gpus ? "--model" : "--model and no --gpus",
            "--model llama-3.1-70b --gpus 64; 'stoker plan models' lists the names", err);
    if (!o->gpus)
        return option_missing("--gpus", "--gpus 64 --gpu h100", err);
    j->batch = o->batch;
    if ((o->model && plan_read_model(o->model, &j->model, err)) ||
        plan_model_counts(&j->model, &j->counts, err) || read_base(o, j, err) ||
        (!o->batch && read_usual_batch(o, j, err)) || read_cases(o, j, err))
        return err->code;
    return RC_OK;
}

/* ---- searching ---- */
struct bar { /* on a terminal, at most ten times a second */
    int64_t begin, last;
    int width;
    bool shown, on;
};

static void on_progress(void *arg, uint64_t done, uint64_t all)
{
    struct bar *b = arg;
    int64_t now = clock_mono_ns();
    struct buf line = { 0 };
    struct progress p = { .done = all ? (double)done / (double)all : -1,
                          .elapsed_ms = (now - b->begin) / 1000000,
                          .items = done,
                          .what = "configurations",
                          .rate = -1 };

    if (!b->on || now - b->last < 100000000)
        return;
    b->last = now;
    b->shown = true;
    if (p.elapsed_ms > 0) {
        p.rate = (double)done / (double)p.elapsed_ms * 1000;
        p.unit = "configurations/s";
    }
    progress_line(&p, b->width, &line);
    fprintf(stderr, "\r%s\033[K", buf_str(&line));
    fflush(stderr);
    buf_release(&line);
}

static int threads_of(const struct train_opts *o)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return o->threads ? (int)o->threads : n > 0 ? (int)n : 1;
}

static enum rc search_cases(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                            struct err *err)
{
    struct bar bar = { .begin = clock_mono_ns(),
                       .last = clock_mono_ns(),
                       .width = ctx->err_term.width,
                       .on = isatty(STDERR_FILENO) && !o->json };
    struct plan_search_run run = { .threads = threads_of(o),
                                   .top = o->top ? (size_t)o->top : 10,
                                   .progress = on_progress,
                                   .arg = &bar };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < j->count && rc == RC_OK; i++)
        rc = plan_search(&j->cases[i].space, &run, &j->arena, &j->cases[i].found, err);
    if (bar.shown)
        fputs("\r\033[K", stderr);
    return rc;
}

/* Nothing is left by the rules, or nothing fits. */
static enum rc nothing_fits(const struct train_job *j, struct err *err)
{
    const struct plan_case *k = &j->cases[0];
    const struct plan_found *f = &k->found;
    int64_t more;

    if (!f->tried) {
        plan_refused_hint(&k->space, f, err);
        return err_set(err, RC_USAGE, "there is no configuration for %lld GPUs and a batch of %lld",
                       (long long)k->cluster.gpus, (long long)j->batch);
    }
    more = plan_enough_gpus(&k->space);
    if (more) /* what was given is not proposed */
        err_hint(err, "On %lld GPUs something fits%s%s.", (long long)more,
                 k->space.offload ? "" : "; or give --offload",
                 j->free_percent > 0 ? "; or less --free" : "");
    else
        err_hint(err, "GPUs with more memory%s or a shorter --seq would help.",
                 k->space.offload ? "" : ", --offload");
    return err_set(err, RC_LIMIT,
                   "none of %llu configurations fits: the leanest, %s, takes %.1f GiB of %.1f",
                   (unsigned long long)f->tried, TEXT_CONFIG(&f->least.config),
                   (double)f->least.memory / GIB, (double)k->space.limit / GIB);
}

static enum rc read_config(const struct train_job *j, const char *option, const char *text,
                           struct plan_config *out, struct err *err)
{
    const struct plan_case *k = &j->cases[j->chosen];
    unsigned given = 0;

    *out = k->space.base;
    out->etp = j->model.experts ? 1 : 0;
    if (plan_config_parse(text, out, &given, err) ||
        plan_config_complete(out, given, k->cluster.gpus, j->batch, err) ||
        plan_config_check(&j->model, &k->cluster, out, err))
        return err_ctx(err, "option '--%s'", option);
    return RC_OK;
}

static enum rc print_flags(struct cmd_ctx *ctx, const struct train_opts *o,
                           const struct train_job *j, const struct plan_config *choice,
                           struct err *err)
{
    enum plan_framework f = (enum plan_framework)plan_name_place(plan_framework_names, o->flags, 0);
    const struct plan_cluster *cl = &j->cases[j->chosen].cluster;
    int64_t nodes, each, machine = cl->machine_gpus ? cl->machine_gpus : cl->node_gpus;
    struct buf text = { 0 };
    struct json_out w;

    if (!plan_launch_shape(cl, choice, &nodes, &each)) {
        err_hint(err,
                 "Launchers start as many processes on each node. The nearest number of GPUs that "
                 "fills machines of %lld is %lld; --node says how many a machine has.",
                 (long long)machine, (long long)((cl->gpus + machine / 2) / machine * machine));
        return err_set(err, RC_USAGE, "no command starts %lld GPUs on machines of %lld",
                       (long long)cl->gpus, (long long)machine);
    }
    plan_flags(&j->model, cl, choice, f, &text);
    if (!o->json) {
        buf_add(&ctx->out, buf_str(&text), text.len);
    } else {
        json_doc(&w, &ctx->out, "stoker.plan-flags/1");
        json_kv_str(&w, "framework", o->flags);
        json_kv_str(&w, "version", plan_framework_versions[f]);
        json_kv_str(&w, "config", TEXT_CONFIG(choice));
        json_kv_str(&w, "text", buf_str(&text));
        json_doc_end(&w);
    }
    buf_release(&text);
    return RC_OK;
}

static enum rc print_answer(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                            struct err *err)
{
    struct plan_case *k = &j->cases[j->chosen];
    const struct plan_config *choice = &plan_choice(&k->found)->config;
    struct plan_config a, b;

    if (o->explain) {
        if (read_config(j, "explain", o->explain, &a, err))
            return err->code;
        train_explain(ctx, j, &a, o->json);
        return RC_OK;
    }
    if (o->compare) {
        if (read_config(j, "compare", o->compare, &a, err) ||
            read_config(j, "compare", ctx->argv[ctx->argc - 1], &b, err))
            return err->code;
        train_compare(ctx, j, &a, &b, o->json);
        return RC_OK;
    }
    if (o->flags)
        return print_flags(ctx, o, j, choice, err);
    j->rules = o->rules;
    if (j->goal.days > 0) {
        struct plan_figures f;

        plan_case_figures(k, &j->goal, choice, &f);
        if (f.misses_days)
            j->gpus_in_time = plan_gpus_in_time(k, &j->goal, threads_of(o));
    }
    j->vary = !o->no_vary && k->found.tried <= VARY_MAX;
    if (j->vary) {
        struct plan_search_run run = { .threads = threads_of(o), .top = 1 };

        if (plan_vary_all(&k->space, &run, choice, j->varies, err))
            return err->code;
    }
    if (o->json)
        train_json(ctx, j);
    else
        train_print(ctx, j);
    return RC_OK;
}

/* --explain and --compare need the rank: how many that fit are better. */
static enum rc read_reference(const struct train_opts *o, struct train_job *j, struct err *err)
{
    struct plan_config c;
    struct plan_pick p;

    if (!o->explain)
        return RC_OK;
    if (read_config(j, "explain", o->explain, &c, err))
        return err->code;
    plan_pick_of(&j->cases[0].space, &c, &p);
    j->cases[0].space.reference = p.step_s;
    return RC_OK;
}

static enum rc check_use(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                         struct err *err)
{
    int named = j->component && ctx->argc > (o->compare != NULL) ? 1 : 0;

    if ((ctx->argc > named) != (o->compare != NULL)) {
        err_hint(err, "For example --compare \"tp8 pp4 mbs1\" \"tp4 pp8 mbs1\".");
        return err_set(err, RC_USAGE, "--compare takes two configurations");
    }
    if (o->eager && o->fused) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "'--eager' and '--fused' contradict each other");
    }
    if (o->framework && o->flags && !str_eq(o->framework, o->flags)) {
        err_hint(err, "'--flags %s' searches for %s by itself.", o->flags, o->flags);
        return err_set(err, RC_USAGE, "'--for' and '--flags' name two frameworks");
    }
    if ((o->explain != NULL) + (o->compare != NULL) + (o->flags != NULL) > 1) {
        err_hint(err, "Leave all but one of them out.");
        return err_set(err, RC_USAGE,
                       "'--explain', '--compare' and '--flags' are three answers: one at a time");
    }
    if (j->count > 1 && (o->explain || o->compare)) {
        err_hint(err, "Give one --gpu and one number of --gpus.");
        return err_set(err, RC_USAGE, "a configuration is of one cluster, and there are %zu",
                       j->count);
    }
    return RC_OK;
}

static void read_band(struct train_job *j)
{
    const struct plan_case *k = &j->cases[j->chosen];
    struct plan_band band = { 1, 1, 0, "", true };
    struct plan_facts facts;

    if (plan_facts_load(&j->arena, &facts, NULL) == RC_OK)
        plan_band_of(&facts, &k->cluster.gpu, &j->model, &k->space.base, &band);
    j->band_low = band.low;
    j->band_high = band.high;
    j->band_source = band.source;
    j->band_stand_in = band.stand_in;
}

enum rc train_read(struct cmd_ctx *ctx, struct train_opts *o, const char *component,
                   struct train_job *j, struct err *err)
{
    enum rc rc = train_spec(ctx, o, component, j, err);

    if (rc != RC_OK)
        return rc;
    if (!j->measured)
        return read_job(o, j, err);
    err_hint(err, "'stoker plan train -f %s %s' says what the machine does with it.", j->file,
             j->component);
    return err_set(err, RC_USAGE,
                   "the model of component '%s' was measured and has no layers to cut",
                   j->component);
}

void train_job_free(struct train_job *j)
{
    if (j)
        arena_release(&j->arena);
    free(j);
}

enum rc train_search(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                     struct err *err)
{
    enum rc rc = search_cases(ctx, o, j, err);

    if (rc == RC_OK && !plan_cases_choose(j->cases, j->count, &j->goal, &j->chosen))
        rc = nothing_fits(j, err);
    return rc;
}

static enum rc cuts_answer(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                           struct err *err)
{
    enum rc rc = read_job(o, j, err);

    if (rc == RC_OK)
        rc = check_use(ctx, o, j, err);
    if (rc == RC_OK)
        rc = read_reference(o, j, err);
    if (rc == RC_OK)
        rc = train_search(ctx, o, j, err);
    if (rc == RC_OK) {
        read_band(j);
        rc = print_answer(ctx, o, j, err);
    }
    return rc;
}

/* A model that is known by what was measured of it: the machine's configuration. */
static enum rc measured_answer(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                               struct err *err)
{
    if (!o->json) {
        train_spec_print(ctx, j);
        buf_addf(&ctx->out, "The model has no layers to cut: what follows is 'stoker plan machine' "
                            "for what was measured of it.\n\n");
    }
    return machine_answer(ctx, &j->machine, o->json, err);
}

static enum rc run_train(struct cmd_ctx *ctx, struct err *err)
{
    struct train_opts *o = ctx->opts;
    struct train_job *j = xcalloc(1, sizeof(*j));
    enum rc rc = RC_OK;

    if (o->file) /* a component, then what --compare takes */
        rc = train_spec(ctx, o, ctx->argc > (o->compare != NULL) ? ctx->argv[0] : NULL, j, err);
    if (rc == RC_OK && j->measured)
        rc = measured_answer(ctx, o, j, err);
    else if (rc == RC_OK)
        rc = cuts_answer(ctx, o, j, err);
    train_job_free(j);
    return rc;
}

#define S train_opts
static const struct opt train_opts[] = {
    ROW_OPT(S, 'f', "file", STR, file, "SPEC",
            "the job is a component of this stoker.yaml; other options win over it"),
    ROW_OPT(S, 'm', "model", STR, model, "MODEL",
            "name, config.json, its folder, or PARAMETERS,LAYERS,HIDDEN"),
    ROW_OPT(S, 'g', "gpu", STR, gpu, "GPU[,GPU]",
            "kind of GPU (default h100); several are compared"),
    ROW_OPT(S, 'n', "gpus", STR, gpus, "N[,N]", "GPUs in all; several numbers are compared"),
    ROW_NUM(S, "batch", batch, 1, PLAN_BATCH_MAX,
            "sequences in a step (default: what published runs of such models took)"),
    ROW_NUM(S, "seq", seq, 1, PLAN_SEQ_MAX, "tokens in a sequence (default 4096)"),
    ROW_OPT(S, 0, "tokens", STR, tokens, "T",
            "tokens of the whole training (15T, 300B): days and cost"),
    ROW_OPT(S, 0, "days", STR, days, "D", "mark what takes longer (with --tokens)"),
    ROW_OPT(S, 0, "budget", STR, budget, "DOLLARS", "mark what costs more (with --tokens)"),
    ROW_OPT(S, 0, "price", STR, price, "DOLLARS", "of a GPU-hour (default: the catalogue's)"),
    ROW_ONE_OF(S, "precision", precision, PLAN_PRECISION_CHOICES,
               "bf16 (default: fp32 gradients and master), bf16-grads, fsdp, pure, fp8, fp32"),
    ROW_ONE_OF(S, "optimizer", optimizer, PLAN_OPTIMIZER_CHOICES,
               "adam (default), adam16 (bf16 moments), adam8 or sgd with momentum"),
    ROW_ONE_OF(S, "stack", stack, "megatron|fsdp|nanotron|torch",
               "whose loops (default: torch, a plain script, on one GPU; else megatron)"),
    ROW_ONE_OF(
        S, "split", split, "even|ends-less|embedding-layer|cost",
        "how layers go to stages (default ends-less: even, or embedding and head count as one)"),
    ROW_OPT(S, 0, "eager", FLAG, eager, NULL,
            "no fused kernels (default where A100 constants are taken)"),
    ROW_OPT(S, 0, "fused", FLAG, fused, NULL,
            "fused kernels, hidden tensor parallelism (default elsewhere)"),
    ROW_OPT(S, 0, "no-flash", FLAG, no_flash, NULL, "attention stores all pairs"),
    ROW_OPT(S, 0, "no-overlap", FLAG, no_overlap, NULL,
            "gradients are summed when backward has ended"),
    ROW_OPT(S, 0, "offload", FLAG, offload, NULL, "try the optimizer in host memory too"),
    ROW_NUM(S, "node", node, 1, 1024, "GPUs in one NVLink domain (default 8; 72 for NVL72)"),
    ROW_OPT(S, 0, "net", STR, net, "RATE",
            "network of a node, all adapters together (as in 3200Gb/s)"),
    ROW_OPT(S, 0, "free", STR, free, "PERCENT", "of the GPU's memory to keep free (default 5%)"),
    ROW_OPT(S, 0, "fix", STR, fix, "CONFIG", "sizes that are given, as in \"tp8 zero1\""),
    ROW_NUM(S, "top", top, 1, PLAN_TOP_MAX, "configurations in the table (default 10)"),
    ROW_OPT(S, 0, "all", FLAG, all, NULL, "rank every configuration, not the best of each cut"),
    ROW_OPT(S, 0, "explain", STR, explain, "CONFIG",
            "where the time and memory of one go, and its rank"),
    ROW_OPT(S, 0, "compare", STR, compare, "A B", "two configurations beside each other"),
    ROW_ONE_OF(S, "for", framework, "megatron|torchtitan|deepspeed|accelerate|torchrun",
               "leave out what this framework cannot run, with its usual precision"),
    ROW_ONE_OF(S, "flags", flags, "megatron|torchtitan|deepspeed|accelerate|torchrun",
               "print the choice as a command of a framework"),
    ROW_OPT(S, 0, "rules", FLAG, rules, NULL, "show how many configurations each rule refused"),
    ROW_OPT(S, 0, "no-vary", FLAG, no_vary, NULL, "do not search again under other conditions"),
    ROW_NUM(S, "threads", threads, 1, PLAN_THREADS_MAX, "threads (default: all cores)"),
    ROW_OPT(S, 'j', "json", FLAG, json, NULL, "print JSON instead of text"),
    { 0 },
};
#undef S
static const struct cmd_example train_examples[] = {
    { "stoker plan train --model llama-3.1-70b --gpus 64 --gpu h100 --batch 1024 --tokens 300B "
      "--days 7",
      "is a week enough?" },
    { "stoker plan train --model gpt3-175b --gpus 512 --gpu a100 --batch 1536 --seq 2048 --explain "
      "\"tp8 pp8 mbs1 full\"",
      "where the time of one configuration goes" },
    { "stoker plan train --model llama-3.1-8b --gpus 8,16,32 --gpu h100,h200 --batch 512 --tokens "
      "1T",
      "clusters beside each other" },
    { "stoker plan train -f stoker.yaml train-70b",
      "the job as a site's spec has it: model, machines, network, batch, sizes" },
    { "stoker plan train --model mixtral-8x7b --gpus 64 --gpu h200 --batch 512 --flags megatron",
      "the choice as flags of Megatron-LM" },
    { 0 },
};
const struct cmd cmd_plan_train = {
    .name = "train",
    .summary = "find the fastest way to cut a training job",
    .operands = "[COMPONENT] [B]",
    .args_max = 2,
    .opts = train_opts,
    .opts_size = sizeof(struct train_opts),
    .about =
        "Computes memory and time of every configuration: tensor, pipeline, context, expert and "
        "data parallelism, virtual stages, schedule, micro-batch, ZeRO 0 to 3 over every shard "
        "group, sequence parallelism and recompute. Those a rule refuses are counted by rule. Of "
        "those that cannot be told from the fastest (4 %: the error between plans of one job) the "
        "plainest is the choice: the fewest kinds of cuts.\n\n"
        "The answer says why the runner-up loses, which configurations no other beats in time, "
        "free memory and cost, and what another network, memory or batch would change. It is the "
        "same whatever the number of threads. Times carry the error band of published runs that "
        "the fit had not seen.\n\n"
        "A configuration is written as it is printed: \"tp8 pp4 dp2 zero1 mbs1 sp selective\"; "
        "what is left out follows from the GPUs and the batch. The exit status is 4 when nothing "
        "fits.\n\n"
        "With --file the component's shape, machines, network, batch, sequence length, precision, "
        "optimizer, parallel sizes and price are taken from the spec, each with the line it comes "
        "from; a fact that the spec lacks is asked for by its key. Sizes that the spec sets are "
        "kept as with --fix. COMPONENT may be left out where one component trains.",
    .examples = train_examples,
    .run = run_train,
};

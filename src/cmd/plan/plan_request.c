/* SPDX-License-Identifier: MIT */
/* plan_request: reading what is asked about a run, and writing figures. */
#include "cmd/plan/plan_request_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "cmd/plan/plan_train_int.h"
#include "os/file.h"
#include "plan/search.h"

#include <math.h>
#include <unistd.h>

static int threads_usual(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > 16 ? 16 : (int)n;
}

/* ---- a component of a spec ---- */
/* Options that the plan of a component leaves no room for. */
static enum rc spec_alone(const struct cmd_ctx *ctx, const struct request_opts *o, struct err *err)
{
    const char *other = o->machine ? "--machine"
                        : o->lora  ? "--lora"
                        : o->bits  ? "--base-bits"
                                   : NULL;

    if (!o->file && ctx->argc) {
        err_hint(err, "For example -f stoker.yaml %s.", ctx->argv[0]);
        return err_set(err, RC_USAGE, "'%s' is a component of no spec: there is no --file",
                       ctx->argv[0]);
    }
    if (!o->file || !other)
        return RC_OK;
    err_hint(err, "Leave one of them out.");
    return err_set(err, RC_USAGE, "'--file' and '%s' cannot be given together", other);
}

enum rc request_spec(struct cmd_ctx *ctx, struct request_opts *o, const char **price, bool search,
                     struct err *err)
{
    struct train_opts t = { .file = o->file,
                            .model = o->model,
                            .gpu = o->gpu,
                            .tokens = o->tokens,
                            .precision = o->precision,
                            .optimizer = o->optimizer,
                            .fix = o->config,
                            .price = price ? *price : NULL,
                            .batch = o->batch,
                            .seq = o->seq,
                            .eager = o->eager,
                            .no_flash = o->no_flash,
                            .json = o->json };
    struct train_job *j;
    enum rc rc = spec_alone(ctx, o, err);

    if (rc != RC_OK || !o->file)
        return rc;
    j = xcalloc(1, sizeof(*j));
    if (search && o->gpus)
        t.gpus = arena_printf(&j->arena, "%lld", (long long)o->gpus);
    rc = train_read(ctx, &t, ctx->argc ? ctx->argv[0] : NULL, j, err);
    if (rc == RC_OK && search)
        rc = train_search(ctx, &t, j, err);
    if (rc != RC_OK) {
        train_job_free(j);
        return rc;
    }
    o->planned = j;
    o->tokens = t.tokens;
    o->gpus = search ? j->cases[j->chosen].cluster.gpus : o->gpus;
    if (price)
        *price = t.price;
    return RC_OK;
}

static enum rc read_model(const struct request_opts *o, struct run_request *a, struct err *err)
{
    const struct train_job *j = o->planned;

    if (j) {
        a->model = j->model;
        a->counts = j->counts;
        a->gpu = j->cases[j->chosen].cluster.gpu;
        a->want.precision = j->base.precision;
        a->want.optimizer = j->base.optimizer;
        a->want.stack = j->cases[j->chosen].space.base.profile.stack;
        a->want.stack_given = true;
    } else if (!o->model) {
        err_hint(err, "For example --model llama-3.1-8b; 'stoker plan models' lists the names.");
        return err_set(err, RC_USAGE, "there is no --model");
    }
    if (!j && (plan_read_model(o->model, &a->model, err) ||
               plan_model_counts(&a->model, &a->counts, err)))
        return err->code;
    a->tokens = plan_fact(&a->facts, "tokens_a_parameter") * (double)a->counts.active;
    a->tokens_given = o->tokens != NULL;
    a->batch_given = o->batch > 0 || j;
    if (o->tokens && option_count("--tokens", o->tokens, 1, 1e18, &a->tokens, err))
        return err->code;
    a->want.seq = j ? j->base.seq : o->seq ? o->seq : 4096;
    a->want.batch = j ? j->batch
                    : o->batch
                        ? o->batch
                        : plan_usual_sequences(&a->recipes, (double)a->counts.active, a->want.seq);
    return RC_OK;
}

static void profile_of(const struct plan_cluster *cl, const struct request_opts *o,
                       struct plan_profile *out)
{
    plan_profile_usual(cl, out);
    out->fused = out->fused && !o->eager;
    out->flash = !o->no_flash;
}

enum rc request_read(const struct request_opts *o, struct run_request *out, struct err *err)
{
    struct run_request a = { .want = { .free_share = PLAN_CHOICE_MARGIN,
                                       .whole = true,
                                       .threads = threads_usual(),
                                       .eager = o->eager,
                                       .no_flash = o->no_flash,
                                       .lora_rank = (int32_t)o->lora,
                                       .base_bits = (int32_t)o->bits } };

    a.want.precision = plan_precision_of(o->precision);
    a.want.optimizer =
        (enum plan_optimizer)plan_name_place(plan_optimizer_names, o->optimizer, PLAN_ADAM);
    if (plan_facts_load(&a.arena, &a.facts, err) || plan_recipes_load(&a.arena, &a.recipes, err) ||
        plan_gpu_by_name(o->gpu ? o->gpu : "h100", &a.gpu, err) || read_model(o, &a, err) ||
        plan_precision_rule_check(&a.gpu, a.want.precision, err)) {
        arena_release(&a.arena);
        train_job_free(o->planned);
        return err->code;
    }
    a.planned = o->planned;
    *out = a;
    return RC_OK;
}

void request_release(struct run_request *a)
{
    arena_release(&a->arena);
    train_job_free(a->planned);
}

static enum rc given_config(struct run_request *a, const struct request_opts *o, struct err *err)
{
    const struct plan_cluster *cl = &a->cluster;
    struct plan_best b = { 0 };
    struct plan_consts k;
    unsigned given = 0;

    plan_config_init(&b.config);
    b.config.seq = a->want.seq;
    b.config.precision = a->want.precision;
    b.config.optimizer = a->want.optimizer;
    b.config.lora_rank = a->want.lora_rank;
    b.config.base_bits = a->want.base_bits;
    profile_of(cl, o, &b.config.profile);
    if (plan_config_parse(o->config, &b.config, &given, err) ||
        plan_config_complete(&b.config, given, cl->gpus, a->want.batch, err) ||
        plan_config_check(&a->model, cl, &b.config, err) || plan_consts_builtin(&cl->gpu, &k, err))
        return err_ctx(err, "--config");
    plan_memory_of(&a->model, &a->counts, &b.config, &k.memory, &b.memory);
    plan_time_of(&a->model, &a->counts, cl, &b.config, &k, &b.time);
    a->best = b;
    return RC_OK;
}

static enum rc machine_of(const char *path, int64_t gpus, struct plan_cluster *out, struct err *err)
{
    struct buf text = { 0 };
    enum rc rc = file_read(path, PLAN_FILE_MAX, &text, err);

    if (rc == RC_OK && plan_cluster_from_detect(buf_str(&text), text.len, gpus, out, err))
        rc = err_ctx(err, "machine '%s'", path);
    buf_release(&text);
    return rc;
}

enum rc request_cluster(struct run_request *a, const struct request_opts *o, int64_t gpus,
                        struct err *err)
{
    if (a->planned) {
        a->cluster = a->planned->cases[a->planned->chosen].cluster;
        return RC_OK;
    }
    if (o->machine && o->gpu) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "'--gpu' and '--machine' both say which GPU it is");
    }
    if (o->machine)
        return machine_of(o->machine, gpus, &a->cluster, err);
    plan_cluster_usual(&a->gpu, gpus, &a->cluster);
    return RC_OK;
}

enum rc request_best(struct run_request *a, const struct request_opts *o, struct err *err)
{
    const struct plan_cluster *cl = &a->cluster;

    if (a->planned) {
        const struct plan_case *k = &a->planned->cases[a->planned->chosen];
        struct plan_best b = { .config = plan_choice(&k->found)->config,
                               .tried = k->found.tried,
                               .fit = k->found.fit };

        plan_memory_of(&a->model, &a->counts, &b.config, &k->consts.memory, &b.memory);
        plan_time_of(&a->model, &a->counts, cl, &b.config, &k->consts, &b.time);
        a->best = b;
        return RC_OK;
    }
    if (o->config)
        return given_config(a, o, err);
    return plan_best_of(&a->model, &a->counts, cl, &a->want, &a->best, err);
}

/* ---- options ---- */
enum rc option_count(const char *option, const char *text, double least, double most, double *out,
                     struct err *err)
{
    double ulp;

    if (plan_count_parse(text, out, &ulp) && *out >= least && *out <= most)
        return RC_OK;
    err_hint(err, "Give a count such as 300B or 1.5T.");
    return err_set(err, RC_USAGE, "option '%s' cannot be '%s'", option, text);
}

enum rc option_seconds(const char *option, const char *text, double *out, struct err *err)
{
    struct err inner = { 0 };
    uint64_t ms;

    if (units_duration_parse(text, &ms, &inner) || !ms) {
        err_hint(err, "Give a time such as 90s, 10m, 12h or 7d.");
        return err_set(err, RC_USAGE, "option '%s' cannot be '%s'", option, text);
    }
    *out = (double)ms / 1e3;
    return RC_OK;
}

enum rc option_money(const char *option, const char *text, double *out, struct err *err)
{
    const char *s = *text == '$' ? text + 1 : text;
    double ulp;

    if (str_to_f64(s, out) && *out > 0 && *out < 1e15)
        return RC_OK;
    if (plan_count_parse(s, out, &ulp) && *out > 0 && *out < 1e15)
        return RC_OK;
    err_hint(err, "Give dollars such as 2.50, 40K or $1.5M.");
    return err_set(err, RC_USAGE, "option '%s' cannot be '%s'", option, text);
}

enum rc option_share(const char *option, const char *text, double *out, struct err *err)
{
    struct err inner = { 0 };

    if (!units_percent_parse(text, out, &inner) && *out > 0 && *out < 100) {
        *out /= 100;
        return RC_OK;
    }
    err_hint(err, "Give a percentage above 0 and below 100, such as 99%%.");
    return err_set(err, RC_USAGE, "option '%s' cannot be '%s'", option, text);
}

/* ---- figures ---- */
const char *text_short(double v, char out[FIELD_TEXT_MAX])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = { { 1e15, "e15" }, { 1e12, "T" }, { 1e9, "B" }, { 1e6, "M" } };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (v >= units[i].unit * 0.9995) {
            snprintf(out, FIELD_TEXT_MAX, "%.3g%s", v / units[i].unit, units[i].name);
            return out;
        }
    if (!isfinite(v))
        snprintf(out, FIELD_TEXT_MAX, "-");
    else if (v < 1e5 && v == floor(v)) /* a count: every digit is meant */
        snprintf(out, FIELD_TEXT_MAX, "%.0f", v);
    else if (v >= 9995)
        snprintf(out, FIELD_TEXT_MAX, "%.3gk", v / 1e3);
    else if (v >= 999.5)
        snprintf(out, FIELD_TEXT_MAX, "%.0f", round(v / 10) * 10);
    else
        snprintf(out, FIELD_TEXT_MAX, "%.3g", v);
    return out;
}

const char *text_usd(double v, char out[FIELD_TEXT_MAX])
{
    char text[FIELD_TEXT_MAX];

    if (v < 100 && isfinite(v))
        snprintf(out, FIELD_TEXT_MAX, "$%.2f", v);
    else
        snprintf(out, FIELD_TEXT_MAX, "$%.30s", text_short(v, text));
    return out;
}

const char *text_watts(double w, char out[FIELD_TEXT_MAX])
{
    snprintf(out, FIELD_TEXT_MAX, w >= 1e6 ? "%.3g MW" : "%.3g kW", w >= 1e6 ? w / 1e6 : w / 1e3);
    return out;
}

const char *text_time(double s, char out[FIELD_TEXT_MAX])
{
    if (!isfinite(s))
        snprintf(out, FIELD_TEXT_MAX, "never");
    else if (s < 100)
        snprintf(out, FIELD_TEXT_MAX, "%.3g s", s);
    else if (s < 100 * 60)
        snprintf(out, FIELD_TEXT_MAX, "%.3g min", s / 60);
    else if (s < 72.0 * PLAN_HOUR_S)
        snprintf(out, FIELD_TEXT_MAX, "%.3g h", s / PLAN_HOUR_S);
    else
        snprintf(out, FIELD_TEXT_MAX, s < 1000.0 * PLAN_DAY_S ? "%.3g d" : "%.0f d",
                 s / PLAN_DAY_S);
    return out;
}

const char *text_bytes(double b, char out[FIELD_TEXT_MAX])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    size_t i = 0;

    for (; b >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
        b /= 1e3;
    snprintf(out, FIELD_TEXT_MAX, "%.3g %s", b, units[i]);
    return out;
}

#define S struct plan_range
static const struct field range_fields[] = {
    FIELD_OF("low", S, low, "the low end"),
    FIELD_OF("expected", S, usual, "what is expected"),
    FIELD_OF("high", S, high, "the high end"),
};
FIELD_TABLE(plan_range_table, "range", S, range_fields);
#undef S

/* ---- tables ---- */
void figure_begin(struct figure_table *t, const struct field_table *fields, const void *obj)
{
    *t = (struct figure_table){ table_new(), fields, obj };
    table_col(t->t, "", TABLE_LEFT);
    table_col(t->t, "expected", TABLE_RIGHT);
    table_col(t->t, "range", TABLE_RIGHT);
    table_col(t->t, "why", TABLE_LEFT | TABLE_WRAP);
}

void figure_range(struct figure_table *t, const char *what, const struct plan_range *r,
                  const char *(*words)(double v, char *out), const char *fmt, ...)
{
    char value[FIELD_TEXT_MAX], low[FIELD_TEXT_MAX], high[FIELD_TEXT_MAX],
        range[2 * FIELD_TEXT_MAX] = "";
    struct buf why = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&why, fmt, ap);
    va_end(ap);
    if (r->low < r->high)
        snprintf(range, sizeof(range), "%s to %s", words(r->low, low), words(r->high, high));
    figure_row(t, what, words(r->usual, value), range, "%s", buf_str(&why));
    buf_release(&why);
}

void figure_field(struct figure_table *t, const char *key, const char *fmt, ...)
{
    const struct field *f = fields_find(t->fields, key);
    char value[FIELD_TEXT_MAX];
    struct buf why = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&why, fmt, ap);
    va_end(ap);
    if (f->kind == FIELD_STRUCT)
        figure_range(t, f->title, (const void *)((const char *)t->obj + f->off), f->words, "%s",
                     buf_str(&why));
    else
        figure_row(t, f->title, field_text(f, t->obj, value), "", "%s", buf_str(&why));
    buf_release(&why);
}

void figure_row(struct figure_table *t, const char *what, const char *value, const char *range,
                const char *fmt, ...)
{
    struct buf why = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&why, fmt, ap);
    va_end(ap);
    table_row(t->t);
    table_cell(t->t, COLOUR_NONE, "%s", what);
    table_cell(t->t, COLOUR_BOLD, "%s", value);
    table_cell(t->t, COLOUR_NONE, "%s", range);
    table_cell(t->t, COLOUR_DIM, "%s", buf_str(&why));
    buf_release(&why);
}

void figure_end(struct figure_table *t, struct cmd_ctx *ctx)
{
    table_print(t->t, &ctx->out_term, 0, &ctx->out);
    table_free(t->t);
    t->t = NULL;
}

void print_note(struct cmd_ctx *ctx, const char *fmt, ...)
{
    struct buf text = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    if (*buf_str(&text) == '\n')
        buf_addc(&ctx->out, '\n');
    term_wrap(&ctx->out_term, &ctx->out, 0, buf_str(&text) + (*buf_str(&text) == '\n'));
    buf_release(&text);
}

void print_fp32(struct cmd_ctx *ctx, const struct plan_gpu *g, enum plan_precision p)
{
    if (p == PLAN_FP32)
        buf_addf(&ctx->out,
                 "fp32 counts %.4g TFLOP/s: TF32, which PyTorch leaves off for products, is not "
                 "counted.\n",
                 g->fp32_flops / 1e12);
}

void print_request(struct cmd_ctx *ctx, const struct run_request *a)
{
    const struct plan_cluster *cl = &a->cluster;
    const struct plan_best *b = &a->best;
    const struct plan_config *c = &b->config;
    double step_tokens = (double)c->micro_batch * c->grad_acc * c->dp * (double)c->seq;

    if (a->planned)
        train_spec_print(ctx, a->planned);
    term_text(&ctx->out_term, &ctx->out, COLOUR_BOLD, "%s", a->model.name);
    buf_addf(&ctx->out, ": %s parameters", TEXT_SHORT((double)a->counts.total));
    if (a->model.experts)
        buf_addf(&ctx->out, " (%s active)", TEXT_SHORT((double)a->counts.active));
    buf_addf(&ctx->out, " on %lld x %s, sequences of %lld\n", (long long)cl->gpus, cl->gpu.name,
             (long long)c->seq);
    buf_addf(&ctx->out, "%s\n", TEXT_CONFIG(c));
    buf_addf(&ctx->out, "%s a step of %s tokens, %s tokens/s", TEXT_TIME(b->time.step_s),
             TEXT_SHORT(step_tokens), TEXT_SHORT(step_tokens / b->time.step_s));
    if (!c->lora_rank) /* adapters skip a third of the FLOPs it counts */
        buf_addf(&ctx->out, ", %.0f %% MFU (%s attention)", 100 * b->time.mfu,
                 plan_flops_names[b->time.flops]);
    buf_addf(&ctx->out, ", %.1f GiB of %.1f\n", (double)b->memory.total / 0x1p30,
             (double)cl->gpu.mem_bytes / 0x1p30);
    if (*cl->gpu.note)
        buf_addf(&ctx->out, "%s: %s.\n", cl->gpu.name, cl->gpu.note);
    print_fp32(ctx, &cl->gpu, c->precision);
    if (b->memory.total > (uint64_t)cl->gpu.mem_bytes)
        buf_adds(&ctx->out, "By this count it does not fit: 'stoker plan memory' explains each "
                            "byte.\n");
    buf_addc(&ctx->out, '\n');
}

void request_json_model(struct json_out *w, const void *request)
{
    const struct run_request *a = request;

    if (a->planned)
        train_spec_json(w, a->planned);
    json_kv_str(w, "model", a->model.name);
}

#define S struct run_request
static const struct field best_fields[] = {
    FIELD_OF("step_s", S, best.time.step_s, "seconds of a step"),
    FIELD_OF("mfu", S, best.time.mfu, "model FLOPs utilisation"),
    FIELD_NAME_OF("flops", S, best.time.flops, plan_flops_names, "which FLOPs that counts"),
    FIELD_OF("memory_bytes", S, best.memory.total, "of the fullest GPU"),
};
static FIELD_TABLE(best_table, "best", S, best_fields);
#undef S

void request_json_best(struct json_out *w, const void *request)
{
    const struct run_request *a = request;

    json_kv_str(w, "gpu", a->cluster.gpu.name);
    json_kv_int(w, "gpus", a->cluster.gpus);
    json_kv_str(w, "config", TEXT_CONFIG(&a->best.config));
    fields_write_members(w, &best_table, a);
}

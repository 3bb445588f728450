/* SPDX-License-Identifier: MIT */
/* stoker plan memory: will it fit, what takes the bytes, and what to change when it does not. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "cmd/plan/plan_train_int.h"
#include "os/file.h"
#include "plan/campaign.h"

enum { STAGES_SHOWN = 16, BAR_WIDTH = 64 };

struct memory_opts {
    const char *file; /* of a spec; NULL: none */
    const char *model, *gpu, *machine, *params, *flops, *act, *recompute, *precision, *optimizer;
    const char *schedule, *split, *offload, *free, *limit, *stack, *svg;
    int64_t gpus, tp, pp, vpp, cp, ep, etp, dp, micro_batch, grad_acc, batch, seq, zero, shard;
    int64_t every, lora, bits;
    bool sp, no_flash, eager, dropout, keep_gathered, json, parts;
};

struct memory_job { /* everything the answer is made from */
    struct plan_model model;
    struct plan_counts counts;
    struct plan_cluster cluster;
    struct plan_config config;
    struct plan_memory memory;
    struct plan_job job;
    double free_percent;
    uint64_t limit;    /* of --limit, 0: not given */
    int64_t low, high; /* bytes that nine of ten published runs were within */
    int64_t largest;   /* micro-batch that fits, everything else as it is; 0: none */
    bool fits;
    const struct train_job *planned; /* of --file; NULL: none */
};

static int32_t or_one(int64_t v)
{
    return v ? (int32_t)v : 1;
}

static enum rc read_batch(const struct memory_opts *o, struct plan_config *c, struct err *err)
{
    int64_t round = (int64_t)c->micro_batch * c->dp;

    if (o->grad_acc && o->batch && o->batch != round * o->grad_acc) {
        err_hint(err, "Without --grad-acc, it follows from the batch.");
        return err_set(err, RC_USAGE, "micro-batch x data-parallel x accumulation is not %lld",
                       (long long)o->batch);
    }
    if (!o->batch)
        return RC_OK;
    if (o->batch % round || o->batch < round) {
        int64_t times = (o->batch + round / 2) / round;

        err_hint(err, "The nearest valid value is %lld.", (long long)(times ? times : 1) * round);
        return err_set(err, RC_USAGE,
                       "batch %lld is not a multiple of micro-batch x data-parallel size, %lld",
                       (long long)o->batch, (long long)round);
    }
    if (o->batch / round > PLAN_BATCH_MAX)
        return err_set(err, RC_USAGE, "batch %lld is too large", (long long)o->batch);
    c->grad_acc = (int32_t)(o->batch / round);
    return RC_OK;
}

static enum rc read_config(const struct memory_opts *o, struct memory_job *j, struct err *err)
{
    struct plan_config *c = &j->config;
    int64_t model_gpus;

    plan_config_init(c);
    c->tp = or_one(o->tp);
    c->pp = or_one(o->pp);
    c->vpp = or_one(o->vpp);
    c->cp = or_one(o->cp);
    c->ep = or_one(o->ep);
    c->etp = (int32_t)o->etp;
    model_gpus = (int64_t)c->tp * c->pp * c->cp; /* options are below 2^20 each: no overflow */
    c->dp = o->dp ? (int32_t)o->dp : o->gpus > model_gpus ? (int32_t)(o->gpus / model_gpus) : 1;
    c->micro_batch = or_one(o->micro_batch);
    c->grad_acc = o->grad_acc ? (int32_t)o->grad_acc : c->pp > 1 ? 4 * c->pp : 1;
    c->seq = o->seq ? o->seq : 4096;
    c->zero = (int32_t)o->zero;
    c->shard = (int32_t)o->shard;
    c->seq_par = o->sp;
    c->recompute = (enum plan_recompute)plan_name_place(plan_recompute_names, o->recompute, 0);
    if (o->recompute && plan_name_place(plan_recompute_names, o->recompute, -1) < 0 &&
        !plan_ops_parse(o->recompute, &c->recompute_ops)) {
        err_hint(err, "Give none, selective, full, or operations: norm,act,mla-up,experts,"
                      "shared-experts.");
        return err_set(err, RC_USAGE, "option '--recompute' cannot be '%s'", o->recompute);
    }
    c->recompute_every = or_one(o->every);
    c->precision = plan_precision_of(o->precision);
    c->optimizer =
        (enum plan_optimizer)plan_name_place(plan_optimizer_names, o->optimizer, PLAN_ADAM);
    c->schedule = (enum plan_schedule)plan_name_place(plan_schedule_names, o->schedule,
                                                      c->vpp > 1 ? PLAN_INTERLEAVED : PLAN_1F1B);
    c->lora_rank = (int32_t)o->lora;
    c->base_bits = (int32_t)o->bits;
    c->offload_optimizer = o->offload != NULL;
    c->offload_params = str_eq(o->offload, "all");
    c->profile.split =
        (enum plan_split)plan_name_place(plan_split_names, o->split, PLAN_SPLIT_EVEN);
    c->profile.flash = !o->no_flash;
    c->profile.fused = !o->eager;
    c->profile.stack = (enum plan_stack)plan_name_place(plan_stack_names, o->stack,
                                                        (int)plan_stack_usual(model_gpus * c->dp));
    c->profile.dropout = o->dropout;
    c->profile.keep_gathered = o->keep_gathered;
    return read_batch(o, c, err);
}

/* A number with K, M, B or G, T behind it; NULL is 0. */
static enum rc read_count(const char *s, const char *option, double *out, struct err *err)
{
    char text[32];
    double ulp;
    size_t len;

    *out = 0;
    if (!s)
        return RC_OK;
    str_copy(text, sizeof(text), s);
    len = strlen(text);
    if (len && (text[len - 1] == 'G' || text[len - 1] == 'g'))
        text[len - 1] = 'B';
    if (strlen(s) < sizeof(text) && plan_count_parse(text, out, &ulp))
        return RC_OK;
    err_hint(err, "A number, with K, M, G (or B) or T behind it: 86M, 105G.");
    return err_set(err, RC_USAGE, "option '--%s' cannot be '%s'", option, s);
}

/* A model by its shape, or by what was measured of it. */
static enum rc read_model(const struct memory_opts *o, struct plan_model *out, struct err *err)
{
    double params, flops, bytes;

    if (o->params && o->model) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "'--model' and '--params' are two models");
    }
    if (o->params) {
        if (!o->act) {
            err_hint(err, "Measure it: torch.cuda.max_memory_allocated() of a forward pass at two "
                          "batch sizes, the difference over the samples.");
            return err_set(err, RC_USAGE, "'--params' needs '--act-bytes-sample'");
        }
        if (read_count(o->params, "params", &params, err) ||
            read_count(o->flops, "flops-sample", &flops, err) ||
            read_count(o->act, "act-bytes-sample", &bytes, err))
            return err->code;
        return plan_model_measured(params, flops, bytes, out, err);
    }
    if (o->act || o->flops) {
        err_hint(err, "A measured model needs all: --params 86M --act-bytes-sample 250M.");
        return err_set(err, RC_USAGE, "'--%s' needs '--params'",
                       o->act ? "act-bytes-sample" : "flops-sample");
    }
    if (!o->model) {
        err_hint(err, "For example --model llama-3.1-8b; 'stoker plan models' lists the names.");
        return err_set(err, RC_USAGE, "there is no --model");
    }
    return plan_read_model(o->model, out, err);
}

/* GPUs by their kind, or the machine a file describes. */
static enum rc read_cluster(const struct memory_opts *o, int64_t gpus, struct plan_cluster *out,
                            struct err *err)
{
    struct buf text = { 0 };
    struct plan_gpu gpu;
    enum rc rc;

    if (!o->machine) {
        if (plan_gpu_by_name(o->gpu ? o->gpu : "h100", &gpu, err))
            return err->code;
        plan_cluster_usual(&gpu, gpus, out);
        return RC_OK;
    }
    if (o->gpu) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "'--gpu' and '--machine' both say which GPU it is");
    }
    rc = file_read(o->machine, PLAN_FILE_MAX, &text, err);
    if (rc == RC_OK && plan_cluster_from_detect(buf_str(&text), text.len, gpus, out, err))
        rc = err_ctx(err, "machine '%s'", o->machine);
    buf_release(&text);
    return rc;
}

static enum rc read_limit(const struct memory_opts *o, struct memory_job *j, struct err *err)
{
    j->free_percent = 5;
    if (o->free && (units_percent_parse(o->free, &j->free_percent, err) || j->free_percent < 0 ||
                    j->free_percent > 90)) {
        err_hint(err, "Give 0%% to 90%%.");
        return err_set(err, RC_USAGE, "option '--free' cannot be '%s'", o->free);
    }
    if (o->limit && (units_bytes_parse(o->limit, &j->limit, err) || !j->limit))
        return err_ctx(err, "option '--limit'");
    return RC_OK;
}

/* A component's plan is whole: options that change the cut are the search's, not this command's. */
static enum rc file_alone(const struct memory_opts *o, struct err *err)
{
    const struct {
        const char *name;
        bool given;
    } rows[] = {
        { "machine", o->machine },
        { "params", o->params },
        { "flops-sample", o->flops },
        { "act-bytes-sample", o->act },
        { "tp", o->tp },
        { "pp", o->pp },
        { "vpp", o->vpp },
        { "cp", o->cp },
        { "ep", o->ep },
        { "etp", o->etp },
        { "dp", o->dp },
        { "micro-batch", o->micro_batch },
        { "grad-acc", o->grad_acc },
        { "zero", o->zero },
        { "shard", o->shard },
        { "sp", o->sp },
        { "recompute", o->recompute },
        { "recompute-every", o->every },
        { "schedule", o->schedule },
        { "lora", o->lora },
        { "base-bits", o->bits },
        { "offload", o->offload },
        { "dropout", o->dropout },
        { "keep-gathered", o->keep_gathered },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].given) {
            err_hint(err, "'stoker plan train -f SPEC COMPONENT --explain CONFIG' explains any cut "
                          "of it.");
            return err_set(err, RC_USAGE,
                           "'--file' and '--%s' cannot be given together: the cut is the one that "
                           "'stoker plan train -f' chooses",
                           rows[i].name);
        }
    return RC_OK;
}

static enum rc read_component(struct cmd_ctx *ctx, const struct memory_opts *o,
                              struct memory_job *j, struct train_job *planned, struct err *err)
{
    struct train_opts t = { .file = o->file,
                            .model = o->model,
                            .gpu = o->gpu,
                            .precision = o->precision,
                            .optimizer = o->optimizer,
                            .stack = o->stack,
                            .split = o->split,
                            .free = o->free,
                            .batch = o->batch,
                            .seq = o->seq,
                            .eager = o->eager,
                            .no_flash = o->no_flash,
                            .json = o->json };
    const struct plan_case *k;

    if (o->gpus)
        t.gpus = arena_printf(&planned->arena, "%lld", (long long)o->gpus);
    if (file_alone(o, err) || read_limit(o, j, err) ||
        train_read(ctx, &t, ctx->argc ? ctx->argv[0] : NULL, planned, err) ||
        train_search(ctx, &t, planned, err))
        return err->code;
    k = &planned->cases[planned->chosen];
    j->model = planned->model;
    j->counts = planned->counts;
    j->cluster = k->cluster;
    j->config = plan_choice(&k->found)->config;
    j->planned = planned;
    return RC_OK;
}

static enum rc read_job(const struct memory_opts *o, struct memory_job *j, struct err *err)
{
    const struct plan_config *c = &j->config;
    struct plan_profile usual;

    if (read_limit(o, j, err) || read_model(o, &j->model, err) ||
        plan_model_counts(&j->model, &j->counts, err) || read_config(o, j, err) ||
        read_cluster(o, o->gpus ? o->gpus : (int64_t)c->tp * c->pp * c->cp * c->dp, &j->cluster,
                     err))
        return err->code;
    plan_profile_usual(&j->cluster, &usual); /* of every command: one job is one count of bytes */
    j->config.profile.fused = usual.fused && !o->eager;
    if (!o->split && (j->model.layers + 2) % ((int64_t)c->pp * c->vpp) == 0)
        j->config.profile.split = usual.split; /* else even, or the rule says why not */
    return plan_config_check(&j->model, &j->cluster, c, err);
}

static void count_job(struct memory_job *j)
{
    double usable = (double)j->cluster.gpu.mem_bytes * (1 - j->free_percent / 100);

    if (j->limit)
        usable = (double)j->limit;

    plan_memory_of(&j->model, &j->counts, &j->config, &plan_memory_default, &j->memory);
    j->job = (struct plan_job){ .model = &j->model,
                                .counts = &j->counts,
                                .cluster = &j->cluster,
                                .config = &j->config,
                                .consts = &plan_memory_default,
                                .limit = (uint64_t)usable };
    j->fits = j->memory.total <= j->job.limit;
    j->low = (int64_t)((double)j->memory.total * (1 - plan_memory_default.error_share));
    j->high = (int64_t)((double)j->memory.total * (1 + plan_memory_default.error_share));
    j->largest = plan_memory_largest_batch(&j->job);
}

static void one_stage(const struct memory_job *j, int32_t i, struct plan_memory_stage *out)
{
    plan_memory_stage(&j->model, &j->counts, &j->config, &plan_memory_default, i, out);
}

/* ---- text ---- */
static void print_head(struct cmd_ctx *ctx, const struct memory_job *j)
{
    const struct plan_model *m = &j->model;

    term_text(&ctx->out_term, &ctx->out, COLOUR_BOLD, "%s", m->name);
    buf_addf(&ctx->out, ": %s parameters", TEXT_DIGITS(j->counts.total));
    if (m->experts)
        buf_addf(&ctx->out, " (%s active)", TEXT_DIGITS(j->counts.active));
    if (m->sample_params)
        buf_addf(&ctx->out, ", %.4g MB of activations a sample\n", m->sample_bytes / 1e6);
    else
        buf_addf(&ctx->out, ", %lld layers of %lld\n", (long long)m->layers, (long long)m->hidden);
    buf_addf(&ctx->out, "%lld x %s: %s", (long long)j->cluster.gpus, j->cluster.gpu.name,
             TEXT_CONFIG(&j->config));
    if (!m->sample_params)
        buf_addf(&ctx->out, ", sequences of %lld", (long long)j->config.seq);
    buf_adds(&ctx->out, "\n\n");
}

static void print_kinds(struct cmd_ctx *ctx, const struct memory_job *j,
                        const struct plan_memory_stage *s)
{
    struct table *t = table_new();
    struct buf why = { 0 };

    table_col(t, j->config.pp > 1 ? "fullest stage" : "kind", TABLE_LEFT);
    table_col(t, "GiB", TABLE_RIGHT);
    table_col(t, "share", TABLE_RIGHT);
    table_col(t, "why", TABLE_LEFT | TABLE_WRAP);
    for (int i = 0; i < PLAN_KINDS; i++) {
        buf_reset(&why);
        plan_memory_why(&j->job, s, (enum plan_kind)i, &why);
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", plan_kind_names[i]);
        table_cell(t, COLOUR_NONE, "%.2f", (double)s->kind[i] / GIB);
        table_cell(t, COLOUR_NONE, "%.0f %%", 100 * (double)s->kind[i] / (double)s->total);
        table_cell(t, COLOUR_DIM, "%s", buf_str(&why));
    }
    table_row(t);
    table_cell(t, COLOUR_BOLD, "total");
    table_cell(t, COLOUR_BOLD, "%.2f", (double)s->total / GIB);
    table_cell(t, COLOUR_NONE, "100 %%");
    table_cell(t, COLOUR_DIM, "stage %d of %d: layers %lld to %lld", j->memory.worst, j->config.pp,
               (long long)s->stage.first, (long long)(s->stage.first + s->stage.count - 1));
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    buf_release(&why);
}

static void print_stages(struct cmd_ctx *ctx, const struct memory_job *j)
{
    int32_t pp = j->config.pp;

    buf_addc(&ctx->out, '\n');
    for (int32_t i = 0; i < pp; i++) {
        struct plan_memory_stage s;

        if (pp > STAGES_SHOWN && i >= STAGES_SHOWN / 2 && i < pp - STAGES_SHOWN / 2 &&
            i != j->memory.worst)
            continue;
        one_stage(j, i, &s);
        if (pp > 1)
            buf_addf(&ctx->out, "%3d ", i);
        plan_memory_bar(&j->job, &s, BAR_WIDTH, &ctx->out);
        buf_addc(&ctx->out, '\n');
    }
    buf_adds(&ctx->out, "W weights, G gradients, O optimizer, A activations, L logits, "
                        "C communication, X context, F fragmentation\n");
}

static void print_parts(struct cmd_ctx *ctx, const struct memory_job *j, bool moe)
{
    struct plan_act_part parts[PLAN_ACT_PARTS_MAX];
    size_t n = plan_act_parts(&j->model, &j->config, &plan_memory_default, moe, parts);
    struct table *t = table_new();

    table_col(t, moe ? "saved by a MoE layer" : "saved by a layer", TABLE_LEFT);
    table_col(t, "bytes a token", TABLE_RIGHT);
    for (size_t i = 0; i < n; i++) {
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", parts[i].what);
        table_cell(t, COLOUR_NONE, "%.0f", parts[i].bytes);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

/* What published runs say of the figure; where it is narrow, it may go either way. */
static void print_band(struct cmd_ctx *ctx, const struct memory_job *j)
{
    double off = plan_memory_default.error_share, total = (double)j->memory.total / GIB;
    double limit = (double)j->job.limit / GIB;
    bool narrow = total * (1 - off) <= limit && total * (1 + off) > limit;

    buf_addf(&ctx->out, "Nine of ten published runs were within %.0f %%: %.1f to %.1f GiB%s.\n",
             100 * off, total * (1 - off), total * (1 + off), narrow ? ", which is narrow" : "");
}

static void print_verdict(struct cmd_ctx *ctx, const struct memory_job *j)
{
    double limit = (double)j->job.limit / GIB, total = (double)j->memory.total / GIB;
    struct plan_fix fix = { 0 };

    buf_addc(&ctx->out, '\n');
    term_text(&ctx->out_term, &ctx->out, j->fits ? COLOUR_GREEN : COLOUR_RED,
              j->fits ? "It fits" : "It does not fit");
    buf_addf(&ctx->out, ": %.1f GiB of %.1f", total, limit);
    if (!j->limit)
        buf_addf(&ctx->out, " (%.0f %% of the GPU is kept free)", j->free_percent);
    if (j->memory.host)
        buf_addf(&ctx->out, "; %.1f GiB of host memory a GPU", (double)j->memory.host / GIB);
    buf_adds(&ctx->out, ".\n");
    print_band(ctx, j);
    if (j->fits)
        buf_addf(&ctx->out, "The largest micro-batch that fits is %lld.\n", (long long)j->largest);
    if (*j->cluster.gpu.note)
        buf_addf(&ctx->out, "%s: %s.\n", j->cluster.gpu.name, j->cluster.gpu.note);
    if (j->fits)
        return;
    if (!plan_memory_fix(&j->job, &fix)) {
        buf_adds(&ctx->out, "No change of three steps makes it fit on so many GPUs: it needs more "
                            "of them, or larger ones.\n");
        return;
    }
    buf_addf(&ctx->out, "The cheapest change%s:\n", fix.steps > 1 ? "s" : "");
    for (size_t i = 0; i < fix.steps; i++)
        buf_addf(&ctx->out, "  %zu. %s\n", i + 1, fix.step[i]);
    buf_addf(&ctx->out, "Then %s takes %.1f GiB.\n", TEXT_CONFIG(&fix.config),
             (double)fix.memory.total / GIB);
}

static void print_text(struct cmd_ctx *ctx, const struct memory_job *j, bool parts)
{
    struct plan_memory_stage s;

    one_stage(j, j->memory.worst, &s);
    if (j->planned)
        train_spec_print(ctx, j->planned);
    print_head(ctx, j);
    print_kinds(ctx, j, &s);
    print_stages(ctx, j);
    if (parts && plan_moe_layers(&j->model) < j->model.layers)
        print_parts(ctx, j, false);
    if (parts && plan_moe_layers(&j->model))
        print_parts(ctx, j, true);
    print_verdict(ctx, j);
}

/* ---- JSON ---- */
static void json_config(struct json_out *w, const struct plan_config *c)
{
    json_kv_obj(w, "config");
    plan_json_config(w, c);
    json_obj_end(w);
}

#define S struct plan_memory_stage
static const struct field stage_fields[] = {
    FIELD_OF("first_layer", S, stage.first, "from 0"),
    FIELD_OF("layers", S, stage.count, "of the stage"),
    FIELD_OF("parameters", S, params, "that a GPU of it holds"),
    FIELD_OF("chunks_in_flight", S, in_flight, "micro-batches whose activations are kept"),
};
static FIELD_TABLE(stage_table, "stage", S, stage_fields);
#undef S

static void json_stages(struct json_out *w, const void *obj)
{
    const struct memory_job *j = obj;

    json_kv_arr(w, "stages");
    for (int32_t i = 0; i < j->config.pp; i++) {
        struct plan_memory_stage s;

        one_stage(j, i, &s);
        json_obj(w);
        json_kv_int(w, "stage", i);
        fields_write_members(w, &stage_table, &s);
        for (int k = 0; k < PLAN_KINDS; k++)
            json_kv_int(w, plan_kind_names[k], (int64_t)s.kind[k]);
        json_kv_int(w, "total", (int64_t)s.total);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_fix(struct json_out *w, const void *obj)
{
    const struct memory_job *j = obj;
    struct plan_fix fix = { 0 };

    json_key(w, "fix");
    if (j->fits || !plan_memory_fix(&j->job, &fix)) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_arr(w, "steps");
    for (size_t i = 0; i < fix.steps; i++)
        json_add_str(w, fix.step[i]);
    json_arr_end(w);
    json_config(w, &fix.config);
    json_kv_int(w, "total", (int64_t)fix.memory.total);
    json_obj_end(w);
}

static void json_planned(struct json_out *w, const void *obj)
{
    const struct memory_job *j = obj;

    if (j->planned)
        train_spec_json(w, j->planned);
}

static void json_cut(struct json_out *w, const void *obj)
{
    json_config(w, &((const struct memory_job *)obj)->config);
}

#define S struct memory_job
static const struct field memory_fields[] = {
    FIELD_BY(json_planned),
    FIELD_OF("model", S, model.name, "that is trained"),
    FIELD_OF("parameters", S, counts.total, "of it"),
    FIELD_OF("active_parameters", S, counts.active, "that a token meets"),
    FIELD_OF("gpu", S, cluster.gpu.name, "kind of GPU"),
    FIELD_OF("gpus", S, cluster.gpus, "GPUs in all"),
    FIELD_BY(json_cut),
    FIELD_OF("gpu_bytes", S, cluster.gpu.mem_bytes, "that a program can have"),
    FIELD_OF("limit_bytes", S, job.limit, "that the job may take"),
    FIELD_OF("total_bytes", S, memory.total, "of the fullest stage"),
    FIELD_OF("total_bytes_low", S, low, "nine of ten published runs took more"),
    FIELD_OF("total_bytes_high", S, high, "and less than this"),
    FIELD_OF("host_bytes", S, memory.host, "of host memory a GPU"),
    FIELD_OF("fullest_stage", S, memory.worst, "from 0"),
    FIELD_OF("fits", S, fits, "total_bytes is within limit_bytes"),
    FIELD_OF("largest_micro_batch", S, largest, "that fits, everything else as it is; 0: none"),
    FIELD_BY(json_stages),
    FIELD_BY(json_fix),
};
static FIELD_TABLE(memory_doc, "stoker.plan-memory/1", S, memory_fields);
#undef S

enum { EXIT_LIMIT = 4 };
static enum rc run_memory(struct cmd_ctx *ctx, struct err *err)
{
    const struct memory_opts *o = ctx->opts;
    struct memory_job j = { 0 };
    struct train_job *planned = NULL;
    struct buf svg = { 0 };
    enum rc rc = RC_OK;

    if (o->json && o->svg) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "'--json' and '--svg' are two outputs: one at a time");
    }
    if (!o->file && ctx->argc) {
        err_hint(err, "For example -f stoker.yaml %s.", ctx->argv[0]);
        return err_set(err, RC_USAGE, "'%s' is a component of no spec: there is no --file",
                       ctx->argv[0]);
    }
    if (o->file) {
        planned = xcalloc(1, sizeof(*planned));
        rc = read_component(ctx, o, &j, planned, err);
    } else
        rc = read_job(o, &j, err);
    if (rc == RC_OK) {
        count_job(&j);
        if (o->json)
            fields_write_report(&ctx->out, &memory_doc, &j);
        else if (o->svg) {
            plan_memory_svg(&j.job, &svg);
            rc = plan_write_out(ctx, &svg, o->svg, err);
        } else
            print_text(ctx, &j, o->parts);
        ctx->status = j.fits ? 0 : EXIT_LIMIT;
    }
    buf_release(&svg);
    train_job_free(planned);
    return rc;
}

#define S memory_opts
static const struct opt memory_opts[] = {
    ROW_OPT(S, 'f', "file", STR, file, "SPEC",
            "the job is a component of this stoker.yaml; other options win over it"),
    ROW_OPT(S, 'm', "model", STR, model, "MODEL",
            "name, config.json, its folder, or PARAMETERS,LAYERS,HIDDEN"),
    ROW_OPT(S, 'g', "gpu", STR, gpu, "GPU", "kind of GPU (default h100)"),
    ROW_OPT(S, 0, "machine", STR, machine, "FILE",
            "the machine that 'stoker detect --json' wrote, instead of --gpu"),
    ROW_OPT(S, 0, "params", STR, params, "COUNT",
            "a measured model's parameters, instead of --model"),
    ROW_OPT(S, 0, "act-bytes-sample", STR, act, "BYTES", "its activation bytes of one sample"),
    ROW_OPT(S, 0, "flops-sample", STR, flops, "FLOPS",
            "its FLOPs of one sample, forward and backward"),
    ROW_NUM(S, "gpus", gpus, 1, PLAN_GPUS_MAX,
            "GPUs in all (default: as many as the sizes multiply to)"),
    ROW_NUM(S, "tp", tp, 1, PLAN_GPUS_MAX, "tensor-parallel size"),
    ROW_NUM(S, "pp", pp, 1, PLAN_STAGES_MAX, "pipeline stages"),
    ROW_NUM(S, "vpp", vpp, 1, PLAN_LAYERS_MAX, "virtual stages on each (interleaved schedule)"),
    ROW_NUM(S, "cp", cp, 1, PLAN_GPUS_MAX, "context-parallel size"),
    ROW_NUM(S, "ep", ep, 1, PLAN_GPUS_MAX, "expert-parallel size"),
    ROW_NUM(S, "etp", etp, 1, PLAN_GPUS_MAX,
            "tensor-parallel size of experts (default: 1 with --ep)"),
    ROW_NUM(S, "dp", dp, 1, PLAN_GPUS_MAX, "data-parallel size (default: what is left of --gpus)"),
    ROW_NUM(S, "micro-batch", micro_batch, 1, PLAN_BATCH_MAX,
            "sequences in a micro-batch (default 1)"),
    ROW_NUM(S, "grad-acc", grad_acc, 1, PLAN_BATCH_MAX,
            "micro-batches in a step (default 1; 4 x stages with a pipeline)"),
    ROW_NUM(S, "batch", batch, 1, INT64_C(1) << 40, "sequences in a step, instead of --grad-acc"),
    ROW_NUM(S, "seq", seq, 1, PLAN_SEQ_MAX, "tokens in a sequence (default 4096)"),
    ROW_NUM(S, "zero", zero, 0, 3, "ZeRO stage; 1 is the distributed optimizer, 3 is FSDP"),
    ROW_NUM(S, "shard", shard, 1, PLAN_GPUS_MAX,
            "GPUs a ZeRO shard spreads over (default: all replicas)"),
    ROW_OPT(S, 0, "sp", FLAG, sp, NULL, "sequence parallelism"),
    ROW_OPT(
        S, 0, "recompute", STR, recompute, "WHICH",
        "none (default), selective, full, or operations: norm,act,mla-up,experts,shared-experts"),
    ROW_NUM(S, "recompute-every", every, 1, PLAN_LAYERS_MAX,
            "full: keep the input of one layer in N"),
    ROW_ONE_OF(
        S, "precision", precision, PLAN_PRECISION_CHOICES,
        "bf16 (default: fp32 gradients and master), bf16-grads, fsdp or autocast (fp32 weights), "
        "pure, fp8, fp32"),
    ROW_ONE_OF(S, "optimizer", optimizer, PLAN_OPTIMIZER_CHOICES,
               "adam (default), adam16 (bf16 moments), adam8 or sgd with momentum"),
    ROW_ONE_OF(S, "schedule", schedule, "1f1b|interleaved|gpipe", "1f1b, interleaved or gpipe"),
    ROW_ONE_OF(S, "split", split, "even|ends-less|embedding-layer|cost", "how layers go to stages"),
    ROW_NUM(S, "lora", lora, 1, 65536, "learn adapters of rank N alone"),
    ROW_NUM(S, "base-bits", bits, 4, 16,
            "bits of a layer's frozen weight with --lora (default 16)"),
    ROW_ONE_OF(S, "offload", offload, "optimizer|all",
               "to host memory: optimizer, or all with --zero 3"),
    ROW_OPT(S, 0, "no-flash", FLAG, no_flash, NULL, "attention stores all pairs"),
    ROW_OPT(S, 0, "eager", FLAG, eager, NULL,
            "no fused kernels and no torch.compile(): a larger loss"),
    ROW_ONE_OF(S, "stack", stack, "megatron|fsdp|nanotron|torch",
               "whose loops (default: torch, a plain script, on one GPU; else megatron)"),
    ROW_OPT(S, 0, "dropout", FLAG, dropout, NULL, "masks are stored"),
    ROW_OPT(S, 0, "keep-gathered", FLAG, keep_gathered, NULL,
            "with --sp: gathered inputs are kept for backward"),
    ROW_OPT(S, 0, "free", STR, free, "PERCENT", "of the GPU's memory to keep free (default 5%)"),
    ROW_OPT(S, 0, "limit", STR, limit, "BYTES",
            "what the job may take of a GPU (as in 40GiB), instead of --free"),
    ROW_OPT(S, 0, "parts", FLAG, parts, NULL, "show what a layer saves, operation by operation"),
    ROW_OPT(S, 'j', "json", FLAG, json, NULL, "print JSON instead of text"),
    ROW_OPT(S, 0, "svg", STR, svg, "FILE", "write a picture of the stages ('-' for stdout)"),
    { 0 },
};
#undef S
static const struct cmd_example memory_examples[] = {
    { "stoker plan memory --model llama-3.1-70b --gpu h100 --tp 8 --pp 4 --sp --zero 1 --gpus 64",
      "by stage and kind" },
    { "stoker plan memory --model ./config.json --gpu h200 --gpus 8 --zero 3 --seq 8192",
      "a model from its config.json under FSDP" },
    { "stoker plan memory --model 7B,32,4096 --gpu 4090 --lora 16 --base-bits 4 --parts",
      "adapters on a small GPU" },
    { "stoker plan memory --params 304M --act-bytes-sample 450M --micro-batch 64 --gpus 8",
      "a vision model, by what was measured of it" },
    { "stoker plan memory --model llama-3.1-8b --machine node.json --gpus 16 --zero 1",
      "two nodes like the one that 'stoker detect --json >node.json' described" },
    { "stoker plan memory -f stoker.yaml train-70b",
      "the plan of a site's component, byte by byte" },
    { 0 },
};
const struct cmd cmd_plan_memory = {
    .name = "memory",
    .summary = "explain every byte a training job takes on a GPU",
    .operands = "[COMPONENT]",
    .args_max = 1,
    .opts = memory_opts,
    .opts_size = sizeof(struct memory_opts),
    .about =
        "Counts weights, gradients, optimizer, activations, logits, buffers of communication, "
        "CUDA's own memory and fragmentation for each pipeline stage, and says where each comes "
        "from. Where the job does not fit, the cheapest change that makes it fit is named; the "
        "batch and the number of GPUs stay what they are.\n\n"
        "A configuration that cannot be is refused with the name of the rule and the nearest "
        "valid value. The exit status is 0 when it fits and 4 when it does not.\n\n"
        "With --file the job is read and planned as 'stoker plan train -f' does it, and the bytes "
        "are those of its choice. COMPONENT may be left out where one component trains.",
    .examples = memory_examples,
    .run = run_memory,
};

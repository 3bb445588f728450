/* SPDX-License-Identifier: MIT */
/* stoker plan: what a training job needs, before it runs.  memory and validate have files of
 * their own; models is here. */
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/plan/plan_cmd_int.h"
#include "os/file.h"

#include <assert.h>

extern const struct cmd cmd_plan;

enum rc plan_read_model(const char *name, struct plan_model *out, struct err *err)
{
    char path[FILE_PATH_MAX];
    struct buf text = { 0 };
    enum rc rc = RC_OK;

    if (!str_ends(name, ".json") && !file_is_dir(name))
        return plan_model_by_name(name, out, err);
    if (!file_is_dir(name))
        str_copy(path, sizeof(path), name);
    else
        rc = file_join(path, sizeof(path), name, "config.json", err);
    if (rc == RC_OK)
        rc = file_read(path, PLAN_FILE_MAX, &text, err);
    if (rc == RC_OK && plan_model_from_hf(buf_str(&text), text.len, out, err))
        rc = err_ctx(err, "model '%s'", path);
    buf_release(&text);
    return rc;
}

#define S struct plan_config
static const struct field config_fields[] = {
    FIELD_OF("tp", S, tp, "tensor-parallel size"),
    FIELD_OF("pp", S, pp, "pipeline stages"),
    FIELD_OF("vpp", S, vpp, "virtual stages on each"),
    FIELD_OF("cp", S, cp, "context-parallel size"),
    FIELD_OF("ep", S, ep, "expert-parallel size"),
    FIELD_OF("etp", S, etp, "tensor-parallel size of experts"),
    FIELD_OF("dp", S, dp, "data-parallel size"),
    FIELD_OF("zero", S, zero, "ZeRO stage"),
    FIELD_OF("shard", S, shard, "GPUs a ZeRO shard spreads over; 0: all replicas"),
    FIELD_OF("seq", S, seq, "tokens in a sequence"),
    FIELD_OF("micro_batch", S, micro_batch, "sequences in a micro-batch"),
    FIELD_OF("grad_acc", S, grad_acc, "micro-batches in a step"),
    FIELD_OF("recompute_every", S, recompute_every, "layers of which one input is kept"),
    FIELD_OF("lora_rank", S, lora_rank, "of adapters; 0: all weights learn"),
    FIELD_OF("seq_par", S, seq_par, "sequence parallelism"),
    FIELD_NAME_OF("recompute", S, recompute, plan_recompute_names, "what is computed again"),
    FIELD_NAME_OF("precision", S, precision, plan_precision_names, "what is stored how"),
    FIELD_NAME_OF("optimizer", S, optimizer, plan_optimizer_names, "which"),
    FIELD_NAME_OF("schedule", S, schedule, plan_schedule_names, "of the pipeline"),
    FIELD_OF("offload_optimizer", S, offload_optimizer, "its states are in host memory"),
    FIELD_OF("offload_params", S, offload_params, "weights too"),
};
static FIELD_TABLE(config_table, "configuration", S, config_fields);
#undef S

void plan_json_config(struct json_out *w, const struct plan_config *c)
{
    json_kv_str(w, "text", TEXT_CONFIG(c));
    fields_write_members(w, &config_table, c);
}

enum rc plan_write_text(const struct buf *text, const char *path, struct err *err)
{
    struct file_new f;
    enum rc rc = file_new_open(&f, path, err);

    if (rc == RC_OK)
        rc = file_new_close(&f, file_write(f.fd, path, buf_str(text), text->len, err), err);
    return rc;
}

enum rc plan_write_out(struct cmd_ctx *ctx, const struct buf *text, const char *path,
                       struct err *err)
{
    if (!str_eq(path, "-"))
        return plan_write_text(text, path, err);
    buf_add(&ctx->out, buf_str(text), text->len);
    return RC_OK;
}

const char *text_digits(uint64_t v, char out[FIELD_TEXT_MAX])
{
    char text[FIELD_TEXT_MAX], *p = out;
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)v);

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            *p++ = ',';
        *p++ = text[i];
    }
    *p = 0;
    return out;
}

const char *text_config(const struct plan_config *c, char out[CONFIG_TEXT_MAX])
{
    struct buf text = { 0 };

    plan_config_text(c, &text);
    assert(text.len < CONFIG_TEXT_MAX);
    memcpy(out, buf_str(&text), text.len + 1);
    buf_release(&text);
    return out;
}

/* ---- models ---- */
struct known_opts {
    bool json;
};

#define S struct known_row
struct known_row {
    struct plan_model m;
    struct plan_counts n;
    const char *published, *source;
    char heads[48], experts[48]; /* as text */
};
static const struct field known_fields[] = {
    FIELD_OF("name", S, m.name, "name", .title = "model", .colour = COLOUR_BOLD),
    FIELD_OF("parameters", S, n.total, "parameters, counted", .title = "parameters"),
    FIELD_OF("active", S, n.active, "parameters that a token meets", .title = "active"),
    FIELD_OF(NULL, S, published, "", .title = "published", .flags = TABLE_RIGHT),
    FIELD_OF("layers", S, m.layers, "layers", .title = "layers"),
    FIELD_OF("hidden", S, m.hidden, "width of a token", .title = "hidden"),
    FIELD_OF("heads", S, m.heads, "attention heads"),
    FIELD_OF("kv_heads", S, m.kv_heads, "key-value heads"),
    FIELD_OF(NULL, S, heads, "", .title = "heads", .flags = TABLE_RIGHT),
    FIELD_OF("vocab", S, m.vocab, "entries of the vocabulary"),
    FIELD_OF("experts", S, m.experts, "experts; 0: dense"),
    FIELD_OF(NULL, S, experts, "", .title = "experts", .flags = TABLE_RIGHT),
    FIELD_OF("published", S, published, "parameters as they were published"),
    FIELD_OF("source", S, source, "where the shape was read"),
};
static FIELD_TABLE(known_table, "model", S, known_fields);
#undef S

struct known_report {
    struct known_row *rows;
    size_t count;
};
static const struct field models_fields[] = {
    FIELD_SUBS("models", struct known_report, rows, count, &known_table, "models known by name"),
};
static FIELD_TABLE(models_doc, "stoker.plan-models/1", struct known_report, models_fields);

static enum rc run_models(struct cmd_ctx *ctx, struct err *err)
{
    const struct known_opts *o = ctx->opts;
    struct plan_known_table t = { 0 };
    struct known_report r = { 0 };
    struct arena a = { 0 };
    enum rc rc = plan_known_load(&a, &t, err);

    r.rows = arena_array(&a, struct known_row, t.count);
    for (size_t i = 0; i < t.count; i++) {
        const struct plan_model *m = &t.rows[i].model;
        struct known_row *k = &r.rows[r.count];

        *k = (struct known_row){ *m, { 0 }, t.rows[i].published, t.rows[i].source, "", "-" };
        if (plan_model_counts(m, &k->n, NULL))
            continue;
        snprintf(k->heads, sizeof(k->heads), "%lld/%lld", (long long)m->heads,
                 (long long)m->kv_heads);
        if (m->experts)
            snprintf(k->experts, sizeof(k->experts), "%lld of %lld", (long long)m->top_k,
                     (long long)m->experts);
        r.count++;
    }
    if (rc == RC_OK && o->json)
        fields_write_report(&ctx->out, &models_doc, &r);
    else if (rc == RC_OK)
        fields_print(&ctx->out, &ctx->out_term, &known_table, r.rows, r.count, -1);
    arena_release(&a);
    return rc;
}

#define S known_opts
static const struct opt known_opts[] = {
    ROW_OPT(S, 'j', "json", FLAG, json, NULL, "print JSON instead of text"),
    { 0 },
};
#undef S
static const struct cmd_example models_examples[] = {
    { "stoker plan models", "names that --model takes, with their parameters" },
    { 0 },
};
static const struct cmd cmd_plan_models = {
    .name = "models",
    .summary = "list the models known by name",
    .operands = "",
    .opts = known_opts,
    .opts_size = sizeof(struct known_opts),
    .about = "Parameters are counted from the shape; beside them stands what was published. Heads "
             "are attention heads and key-value heads.",
    .examples = models_examples,
    .run = run_models,
};

static const struct cmd *const subs[] = {
    &cmd_plan_advise,    &cmd_plan_campaign, &cmd_plan_choose, &cmd_plan_cluster,  &cmd_plan_fit,
    &cmd_plan_goodput,   &cmd_plan_machine,  &cmd_plan_memory, &cmd_plan_models,   &cmd_plan_queue,
    &cmd_plan_recompute, &cmd_plan_sizes,    &cmd_plan_train,  &cmd_plan_validate, NULL,
};
const struct cmd cmd_plan = {
    .name = "plan",
    .summary = "work out what a training job needs before it runs",
    .operands = "",
    .about = "Answers from the model's shape and the hardware's data sheet, without a GPU.",
    .subs = subs,
};

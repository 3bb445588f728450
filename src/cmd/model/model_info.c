/* SPDX-License-Identifier: MIT */
/* model_info: what a model is, as text and as JSON. */
#include "base/text/json.h"
#include "base/text/units.h"
#include "cmd/model/cmd_model_int.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "model/files/verify.h"
#include "model/model.h"
#include "os/file.h"

enum { DTYPES = ST_BOOL + 1, TEXT_MAX = 256, USES_MAX = 16 };

/* What each device of this machine takes for a model: weights as it packs them and room to
 * work in, by the device's own count. */
struct model_use {
    const struct eng_ops *ops;
    enum eng_dtype dtype;
    uint64_t bytes;
    bool chosen; /* what --device auto --dtype auto takes */
};

/* Entries of a device that can run; `ref` has only f32. */
static size_t uses_of(const struct model *m, const struct eng_ops *ops, bool best,
                      struct model_use *out)
{
    uint64_t automatic = ops->memory(m, &(struct eng_opts){ .dtype = ENG_AUTO });
    bool found = false;
    size_t n = 0;

    for (int d = ENG_F32; d < ENG_DTYPES; d++) {
        struct eng_opts o = { .dtype = (enum eng_dtype)d };
        uint64_t bytes = ops == &eng_ref && d != ENG_F32 ? 0 : ops->memory(m, &o);

        if (!bytes)
            continue;
        out[n] = (struct model_use){ .ops = ops, .dtype = o.dtype, .bytes = bytes };
        out[n].chosen = best && !found && bytes == automatic;
        found = found || out[n].chosen;
        n++;
    }
    return n;
}

static size_t uses_find(const struct model *m, struct model_use out[USES_MAX])
{
    const struct eng_ops *ops, *best = NULL;
    size_t n = 0;

    for (size_t i = 0; (ops = eng_device(i)); i++) {
        if (ops->score() > (best ? best->score() : 0))
            best = ops;
    }
    for (size_t i = 0; (ops = eng_device(i)) && n + ENG_DTYPES <= USES_MAX; i++) {
        if (ops->score() > 0)
            n += uses_of(m, ops, ops == best, out + n);
    }
    return n;
}

/* Beside the engine: the program, the vocabulary (four times its file, as measured) and one
 * full window of texts and results. */
static uint64_t beside_bytes(const struct model *m, const struct verify *files)
{
    const uint64_t program = 4 << 20, texts = 4 << 20;
    uint64_t results = (uint64_t)BATCH_WINDOW_MAX * sizeof(float) *
                       (m->head == MODEL_HEAD_NONE ? eng_dim(m) : m->labels);
    uint64_t words = 0;

    for (size_t i = 0; i < files->files_count; i++) {
        if (!strcmp(files->files[i].name, "tokenizer.json"))
            words = 4 * files->files[i].bytes;
    }
    return program + words + texts + results;
}

static void dtypes_count(const struct model *m, uint64_t out[DTYPES])
{
    for (size_t i = 0; i < st_count(m->tensors); i++)
        out[st_at(m->tensors, i)->dtype] += st_at(m->tensors, i)->count;
}

static const char *head_label(enum model_head h)
{
    return h == MODEL_HEAD_POOLER ? "pooler" : h == MODEL_HEAD_DENSE ? "dense" : NULL;
}

static const char *dense_label(int act)
{
    static const char *const names[] = { "identity", "tanh", "relu", "gelu" };

    return names[act];
}

/* --- text --- */
static void add_row(struct table *t, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void add_row(struct table *t, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    table_row(t);
    table_cell(t, COLOUR_DIM, "%s", key);
    table_cell(t, COLOUR_NONE, "%s", text);
}

static void net_rows(struct table *t, const struct model *m)
{
    uint64_t types[DTYPES] = { 0 };
    char text[TEXT_MAX];
    size_t at = 0;

    dtypes_count(m, types);
    text[0] = '\0';
    for (int i = 0; i < DTYPES && at < sizeof(text); i++) {
        if (types[i])
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", at ? ", " : "",
                                   st_dtype_name((enum st_dtype)i));
    }
    add_row(t, "architecture", "%s (%s)", m->arch_name, model_arch_label(m->arch));
    add_row(t, "parameters", "%llu (%.1f million)", (unsigned long long)m->parameters,
            (double)m->parameters / 1e6);
    add_row(t, "stored as", "%s", text);
    add_row(t, "size", "%zu layers, hidden %zu, %zu heads of %zu, feed-forward %zu, vocabulary %zu",
            m->layers, m->hidden, m->heads, m->head_dim, m->ffn, m->vocab);
    add_row(t, "activation", "%s", model_act_label(m->act));
    add_row(t, "longest text", "%zu tokens of %zu positions", m->max_tokens,
            m->positions - m->position_first);
}

/* "cls" or, where vectors are joined, "cls+mean". */
static void pools_text(const struct model *m, char out[TEXT_MAX])
{
    size_t used = (size_t)snprintf(out, TEXT_MAX, "%s", model_pool_label(m->pool));

    for (size_t i = 0; i < m->joined_count && used < TEXT_MAX; i++)
        used +=
            (size_t)snprintf(out + used, TEXT_MAX - used, "+%s", model_pool_label(m->joined[i]));
}

static void use_rows(struct table *t, const struct model *m)
{
    char pools[TEXT_MAX];

    pools_text(m, pools);
    if (m->head == MODEL_HEAD_NONE) {
        add_row(t, "gives", "vectors of %zu numbers, pooling %s%s%s", model_dim(m), pools,
                m->prompt_apart ? " without the prompt" : "",
                m->normalize ? ", normalised" : ", not normalised");
        for (size_t i = 0; i < m->dense_count; i++)
            add_row(t, "dense", "%s: %zu to %zu, %s%s", m->dense[i].dir, m->dense[i].in,
                    m->dense[i].out, dense_label(m->dense[i].act),
                    m->dense[i].bias ? "" : ", no bias");
    } else {
        add_row(t, "gives", "scores of %zu label%s, %s head, %s", m->labels,
                m->labels == 1 ? "" : "s", head_label(m->head),
                m->score == MODEL_SCORE_SIGMOID ? "sigmoid" : "raw");
    }
    if (m->rules.lower_first)
        add_row(t, "text", "lower case first");
    if (m->rules.side_set && m->rules.left)
        add_row(t, "longer texts", "lose their beginning");
    if (m->head != MODEL_HEAD_NONE && m->types > 1 && m->rules.types_zero)
        add_row(t, "token types", "none: the tokenizer's model_input_names lack token_type_ids");
    if (m->similarity)
        add_row(t, "compared by", "%s", m->similarity);
    for (size_t i = 0; i < m->ignored_count; i++)
        add_row(t, i ? "" : "ignored",
                strchr(m->ignored[i], ':') ? "%s: no class of %s has such a field"
                                           : "%s: %s does not read it in this folder",
                m->ignored[i], MODEL_REFERENCE);
    for (size_t i = 0; i < m->prompts_count; i++)
        add_row(t, i ? "" : "prompts", "%s: \"%s\"%s", m->prompts[i].name, m->prompts[i].text,
                m->default_prompt && !strcmp(m->default_prompt, m->prompts[i].name) ? " (default)"
                                                                                    : "");
}

static void memory_rows(struct table *t, const struct model *m, const struct verify *files)
{
    struct model_use uses[USES_MAX];
    size_t n = uses_find(m, uses), at = 0;
    char text[TEXT_MAX], bytes[UNITS_TEXT_MAX];

    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %s%s", at ? ", " : "",
                               units_bytes_human(uses[i].bytes, bytes),
                               eng_dtype_name(uses[i].dtype), uses[i].chosen ? " (auto)" : "");
        if (at >= sizeof(text))
            at = sizeof(text) - 1;
        if (i + 1 == n || uses[i + 1].ops != uses[i].ops) {
            char key[64];

            snprintf(key, sizeof(key), "memory on %s", uses[i].ops->name);
            add_row(t, key, "%s", text);
            at = 0;
        }
    }
    add_row(t, "", "and up to %s for program, vocabulary and texts",
            units_bytes_human(beside_bytes(m, files), bytes));
}

static void info_text(struct cmd_ctx *ctx, const struct model *m, const struct tokenizer *tok,
                      const struct verify *files)
{
    struct table *t = table_new();
    char a[UNITS_TEXT_MAX];

    term_text(&ctx->out_term, &ctx->out, COLOUR_BOLD, "%s", m->name);
    buf_addf(&ctx->out, "  %s\n", m->dir);
    table_col(t, NULL, TABLE_WHOLE);
    table_col(t, NULL, TABLE_WRAP);
    net_rows(t, m);
    if (tok)
        add_row(t, "tokenizer", "%s, %zu tokens", tokenizer_kind(tok), tokenizer_vocab_size(tok));
    else
        add_row(t, "tokenizer", "cannot be used");
    use_rows(t, m);
    memory_rows(t, m, files);
    for (size_t i = 0; i < files->files_count; i++)
        add_row(t, i ? "" : "files", "%s  %s", files->files[i].name,
                units_bytes_human(files->files[i].bytes, a));
    table_print(t, &ctx->out_term, 2, &ctx->out);
    table_free(t);
}

/* --- JSON --- */
static void net_json(struct json_out *w, const struct model *m)
{
    uint64_t types[DTYPES] = { 0 };

    dtypes_count(m, types);
    json_kv_str(w, "architecture", m->arch_name);
    json_kv_str(w, "family", model_arch_label(m->arch));
    json_kv_int(w, "parameters", (int64_t)m->parameters);
    json_kv_obj(w, "dtypes");
    for (int i = 0; i < DTYPES; i++) {
        if (types[i])
            json_kv_int(w, st_dtype_name((enum st_dtype)i), (int64_t)types[i]);
    }
    json_obj_end(w);
    json_kv_int(w, "layers", (int64_t)m->layers);
    json_kv_int(w, "hidden", (int64_t)m->hidden);
    json_kv_int(w, "heads", (int64_t)m->heads);
    json_kv_int(w, "head_dim", (int64_t)m->head_dim);
    json_kv_int(w, "ffn", (int64_t)m->ffn);
    json_kv_int(w, "vocab", (int64_t)m->vocab);
    json_kv_int(w, "positions", (int64_t)m->positions);
    json_kv_int(w, "position_first", (int64_t)m->position_first);
    json_kv_int(w, "token_types", (int64_t)m->types);
    json_kv_int(w, "pad_id", (int64_t)m->pad_id);
    json_kv_str(w, "activation", model_act_label(m->act));
    json_kv_int(w, "max_tokens", (int64_t)m->max_tokens);
    json_kv_bool(w, "lower_case", m->rules.lower_first);
}

static void vectors_json(struct json_out *w, const struct model *m)
{
    char pools[TEXT_MAX];

    json_key(w, "vectors");
    if (m->head != MODEL_HEAD_NONE) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_int(w, "size", (int64_t)model_dim(m));
    pools_text(m, pools);
    json_kv_str(w, "pooling", pools);
    json_kv_bool(w, "include_prompt", !m->prompt_apart);
    json_kv_bool(w, "normalize", m->normalize);
    json_kv_arr(w, "dense");
    for (size_t i = 0; i < m->dense_count; i++) {
        json_obj(w);
        json_kv_str(w, "dir", m->dense[i].dir);
        json_kv_int(w, "in", (int64_t)m->dense[i].in);
        json_kv_int(w, "out", (int64_t)m->dense[i].out);
        json_kv_bool(w, "bias", m->dense[i].bias);
        json_kv_str(w, "activation", dense_label(m->dense[i].act));
        json_obj_end(w);
    }
    json_arr_end(w);
    json_obj_end(w);
}

static void scores_json(struct json_out *w, const struct model *m)
{
    json_key(w, "scores");
    if (m->head == MODEL_HEAD_NONE) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_str(w, "head", head_label(m->head));
    json_kv_int(w, "labels", (int64_t)m->labels);
    json_kv_str(w, "activation", m->score == MODEL_SCORE_SIGMOID ? "sigmoid" : "raw");
    json_obj_end(w);
}

static void around_json(struct json_out *w, const struct model *m, const struct verify *files)
{
    struct model_use uses[USES_MAX];
    size_t n = uses_find(m, uses);

    json_kv_obj(w, "prompts");
    for (size_t i = 0; i < m->prompts_count; i++)
        json_kv_str(w, m->prompts[i].name, m->prompts[i].text);
    json_obj_end(w);
    json_kv_str(w, "default_prompt", m->default_prompt);
    json_kv_obj(w, "memory_bytes");
    for (size_t i = 0; i < n; i++) {
        char key[64];

        snprintf(key, sizeof(key), "%s_%s", uses[i].ops->name, eng_dtype_name(uses[i].dtype));
        json_kv_int(w, key, (int64_t)uses[i].bytes);
    }
    json_obj_end(w);
    json_kv_int(w, "memory_beside_bytes", (int64_t)beside_bytes(m, files));
    json_kv_arr(w, "files");
    for (size_t i = 0; i < files->files_count; i++) {
        json_obj(w);
        json_kv_str(w, "name", files->files[i].name);
        json_kv_int(w, "bytes", (int64_t)files->files[i].bytes);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void info_json(struct cmd_ctx *ctx, const struct model *m, const struct tokenizer *tok,
                      const struct verify *files)
{
    struct json_out w;

    json_doc(&w, &ctx->out, "stoker.model-info/1");
    json_kv_str(&w, "name", m->name);
    json_kv_str(&w, "dir", m->dir);
    net_json(&w, m);
    json_kv_str(&w, "tokenizer", tok ? tokenizer_kind(tok) : NULL);
    json_kv_str(&w, "reference", MODEL_REFERENCE);
    json_kv_arr(&w, "ignored");
    for (size_t i = 0; i < m->ignored_count; i++)
        json_add_str(&w, m->ignored[i]);
    json_arr_end(&w);
    vectors_json(&w, m);
    scores_json(&w, m);
    around_json(&w, m, files);
    json_doc_end(&w);
}

enum rc model_info_run(struct cmd_ctx *ctx, bool json, struct err *err)
{
    struct verify files = { 0 };
    char dir[FILE_PATH_MAX];
    struct model *m;
    enum rc rc = model_find(ctx->argv[0], dir, sizeof(dir), err);

    if (!rc)
        rc = model_open(dir, &m, err);
    if (rc)
        return rc;
    rc = verify_list(dir, &files, err);
    if (!rc) {
        struct tokenizer *tok = NULL;

        /* a network that no text can be given to is shown, and told as what it is */
        rc = model_tokenizer(m, &tok, err);
        if (json)
            info_json(ctx, m, tok, &files);
        else
            info_text(ctx, m, tok, &files);
        tokenizer_free(tok);
    }
    verify_release(&files);
    model_close(m);
    return rc;
}

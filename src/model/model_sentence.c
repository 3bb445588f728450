/* SPDX-License-Identifier: MIT */
/* model_sentence: the files that sentence-transformers puts beside a network: which
 * modules follow it (modules.json), how tokens become one vector (Pooling), layers behind
 * it (Dense, Normalize), prompts, the longest text. */
#include "base/str.h"
#include "model/model_int.h"

#include <assert.h>
#include <math.h>

enum { PATH_PART_MAX = 128 }; /* bytes of a module's folder name */

static const struct {
    const char *name; /* the class, whatever package it moved to */
    enum module_kind kind;
} kinds[] = {
    { "Transformer", MODULE_NET },     { "Pooling", MODULE_POOL },    { "Dense", MODULE_DENSE },
    { "Normalize", MODULE_NORMALIZE }, { "Dropout", MODULE_DROPOUT },
};

/* --- modules.json --- */
static bool path_ok(const char *path)
{
    return path && strlen(path) < PATH_PART_MAX && path[0] != '.' && !strchr(path, '/');
}

static enum rc module_fields(const struct json *v, struct err *err)
{
    static const char *const known[] = {
        "idx", "name", "path", "type", /* they are loaded in the order of the list */
        "kwargs" /* of encode(): which a module is given, where a call has any */
    };

    for (const struct json *x = v->type == JSON_OBJ ? v->first : NULL; x; x = x->next) {
        size_t i = 0;

        while (i < ARRAY_SIZE(known) && strcmp(x->key, known[i]))
            i++;
        if (i == ARRAY_SIZE(known))
            return err_set(err, RC_USAGE, "field '%.64s' is not supported", x->key);
    }
    return RC_OK;
}

static enum rc module_read(struct model *m, const struct json *v, struct module *out,
                           struct err *err)
{
    const char *type = json_str(json_get(v, "type")), *path = json_str(json_get(v, "path"));
    const char *dot = type ? strrchr(type, '.') : NULL;

    if (!dot || !path)
        return err_set(err, RC_PARSE, "a module has no 'type' or no 'path'");
    if (!path_ok(path))
        return err_set(err, RC_PARSE, "'path' '%.64s' is not a folder of the model", path);
    if (module_fields(v, err))
        return err->code;
    for (size_t i = 0; str_starts(type, "sentence_transformers.") && i < ARRAY_SIZE(kinds); i++) {
        if (!strcmp(dot + 1, kinds[i].name)) {
            out->kind = kinds[i].kind;
            out->path = arena_strdup(&m->arena, path);
            return RC_OK;
        }
    }
    return err_set(err, RC_USAGE, "module '%.100s' is not supported", type);
}

/* Transformer, Pooling, Dense..., Normalize: the order in which we compute. */
static enum rc order_check(const struct modules *mods, struct err *err)
{
    bool pooled = false, normal = false;

    if (!mods->count || mods->items[0].kind != MODULE_NET)
        return err_set(err, RC_USAGE, "the first module is not a Transformer");
    for (size_t i = 1; i < mods->count; i++) {
        enum module_kind k = mods->items[i].kind;

        if (k == MODULE_NET || (k == MODULE_POOL && pooled) ||
            ((k == MODULE_DENSE || k == MODULE_NORMALIZE) && !pooled) ||
            (k == MODULE_DENSE && normal))
            return err_set(err, RC_USAGE, "module '%s' stands where it is not supported",
                           mods->items[i].path);
        pooled = pooled || k == MODULE_POOL;
        normal = normal || k == MODULE_NORMALIZE;
    }
    return RC_OK;
}

enum rc config_modules(struct model *m, const struct json *cfg, struct modules *out,
                       struct err *err)
{
    struct modules mods = { 0 };
    enum rc rc;

    if (!cfg || cfg->type != JSON_ARR)
        return err_set(err, RC_PARSE, "it is not a list of modules");
    if (cfg->count > MODULES_MAX)
        return err_set(err, RC_LIMIT, "%zu modules; at most %d are supported", cfg->count,
                       MODULES_MAX);
    for (const struct json *v = cfg->first; v; v = v->next) {
        struct module *mod = &mods.items[mods.count];

        rc = module_read(m, v, mod, err);
        if (rc)
            return rc;
        for (const struct json *x = cfg->first; x != v; x = x->next) {
            const char *name = json_str(json_get(v, "name"));

            if (name && str_eq(name, json_str(json_get(x, "name"))))
                return err_set(err, RC_PARSE, "two modules have the 'name' '%.64s'", name);
        }
        mods.count++;
        mods.pools = mods.pools || mod->kind == MODULE_POOL;
        m->normalize = m->normalize || mod->kind == MODULE_NORMALIZE;
    }
    rc = order_check(&mods, err);
    if (!rc)
        *out = mods;
    return rc;
}

/* --- Pooling --- */
/* In the order in which the flags of older files join them. */
static const struct {
    const char *flag, *name;
    enum model_pool pool;
} pools[] = {
    { "pooling_mode_cls_token", "cls", MODEL_POOL_CLS },
    { "pooling_mode_max_tokens", "max", MODEL_POOL_MAX },
    { "pooling_mode_mean_tokens", "mean", MODEL_POOL_MEAN },
    { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", MODEL_POOL_MEAN_SQRT },
    { "pooling_mode_weightedmean_tokens", "weightedmean", MODEL_POOL_WEIGHTED },
    { "pooling_mode_lasttoken", "lasttoken", MODEL_POOL_LAST },
};

const char *model_pool_label(enum model_pool p)
{
    for (size_t i = 0; i < ARRAY_SIZE(pools); i++) {
        if (pools[i].pool == p)
            return pools[i].name;
    }
    return "?";
}

size_t model_pool_width(const struct model *m)
{
    return m->hidden * (1 + m->joined_count);
}

/* Poolings in their order, before they are the model's. */
struct pool_list {
    enum model_pool items[1 + MODEL_JOINED_MAX];
    size_t count;
};

/* The flags of older files; none of them means mean. */
static enum rc pool_flags(const struct json *cfg, struct pool_list *out, struct err *err)
{
    static_assert(ARRAY_SIZE(pools) <= ARRAY_SIZE(out->items), "each flag once");

    for (size_t i = 0; i < ARRAY_SIZE(pools); i++) {
        bool on = false;
        enum rc rc = config_flag(cfg, pools[i].flag, false, &on, err);

        if (rc)
            return rc;
        if (on)
            out->items[out->count++] = pools[i].pool;
    }
    if (!out->count)
        out->items[out->count++] = MODEL_POOL_MEAN;
    return RC_OK;
}

static enum rc pool_name(const struct json *v, struct pool_list *out, struct err *err)
{
    const char *name = json_str(v);

    if (!name)
        return err_set(err, RC_PARSE, "'pooling_mode' is not a text");
    for (size_t i = 0; i < ARRAY_SIZE(pools); i++) {
        if (!strcmp(name, pools[i].name)) {
            out->items[out->count++] = pools[i].pool;
            return RC_OK;
        }
    }
    return err_set(err, RC_USAGE, "pooling '%.64s' is not supported", name);
}

/* One name, or a list of names whose vectors are joined. */
static enum rc pool_modes(const struct json *cfg, struct pool_list *out, struct err *err)
{
    const struct json *v = json_get(cfg, "pooling_mode");
    enum rc rc = RC_OK;

    if (!v || v->type == JSON_NULL)
        return pool_flags(cfg, out, err);
    if (v->type != JSON_ARR)
        return pool_name(v, out, err);
    if (!v->count || v->count > ARRAY_SIZE(out->items))
        return err_set(err, RC_LIMIT, "'pooling_mode' has %zu modes, not 1 to %zu", v->count,
                       ARRAY_SIZE(out->items));
    for (const struct json *x = v->first; x && !rc; x = x->next)
        rc = pool_name(x, out, err);
    return rc;
}

enum rc config_pool(struct model *m, const struct json *cfg, struct err *err)
{
    const char *key = "embedding_dimension";
    struct pool_list list = { 0 };
    bool prompt = true;
    size_t dim = 0;
    enum rc rc = fields_check(m, FIELDS_POOL, cfg, err);

    if (!rc)
        rc = pool_modes(cfg, &list, err);
    if (!rc)
        rc = config_flag(cfg, "include_prompt", true, &prompt, err);
    if (!rc && json_get(cfg, "word_embedding_dimension"))
        key = "word_embedding_dimension";
    if (!rc)
        rc = config_size(cfg, key, 1, MODEL_HIDDEN_MAX, m->hidden, &dim, err);
    if (rc)
        return rc;
    if (dim != m->hidden)
        return err_set(err, RC_PARSE, "'%s' is %zu, the network's vectors have %zu", key, dim,
                       m->hidden);
    m->pool = list.items[0];
    m->joined_count = list.count - 1;
    memcpy(m->joined, list.items + 1, m->joined_count * sizeof(m->joined[0]));
    m->prompt_apart = !prompt;
    return RC_OK;
}

/* --- Dense --- */
static const struct {
    const char *path;
    int act;
} dense_acts[] = {
    { "torch.nn.modules.linear.Identity", MODEL_DENSE_IDENTITY },
    { "torch.nn.modules.activation.Tanh", MODEL_DENSE_TANH },
    { "torch.nn.modules.activation.ReLU", MODEL_DENSE_RELU },
    { "torch.nn.modules.activation.GELU", MODEL_DENSE_GELU },
};

static enum rc dense_act(const char *path, struct model_dense *d, struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(dense_acts); i++) {
        if (!strcmp(path, dense_acts[i].path)) {
            d->act = dense_acts[i].act;
            return RC_OK;
        }
    }
    return err_set(err, RC_USAGE, "'activation_function' '%.100s' is not supported", path);
}

/* Where the layer reads and writes: the sentence's vector, not a token's. */
static enum rc dense_place(const struct json *cfg, struct err *err)
{
    static const char *const keys[] = { "module_input_name", "module_output_name" };
    const char *name = NULL;
    bool residual = false;
    enum rc rc = config_flag(cfg, "use_residual", false, &residual, err);

    if (!rc && residual)
        rc = err_set(err, RC_USAGE, "'use_residual' is true, which is not supported");
    for (size_t i = 0; !rc && i < ARRAY_SIZE(keys); i++) {
        rc = config_str(cfg, keys[i], &name, err);
        if (!rc && name && strcmp(name, "sentence_embedding"))
            rc = err_set(err, RC_USAGE, "'%s' '%.64s' is not supported", keys[i], name);
    }
    return rc;
}

enum rc config_dense(struct model *m, const struct json *cfg, struct model_dense *out,
                     struct err *err)
{
    struct model_dense d = { .dir = out->dir };
    const char *act = NULL;

    if (fields_check(m, FIELDS_DENSE, cfg, err) ||
        config_size(cfg, "in_features", 1, MODEL_HIDDEN_MAX, SIZE_MAX, &d.in, err) ||
        config_size(cfg, "out_features", 1, MODEL_HIDDEN_MAX, SIZE_MAX, &d.out, err) ||
        config_flag(cfg, "bias", true, &d.bias, err) || dense_place(cfg, err) ||
        config_str(cfg, "activation_function", &act, err) ||
        dense_act(act ? act : "torch.nn.modules.activation.Tanh", &d, err))
        return err->code;
    *out = d;
    return RC_OK;
}

/* --- who saved it, and for what --- */
enum rc config_saved(const struct model *m, const struct json *cfg, bool *out, struct err *err)
{
    const char *type = NULL;
    enum rc rc = config_str(cfg, "model_type", &type, err);

    type = type ? type : "SentenceTransformer";
    *out = !strcmp(type, m->head == MODEL_HEAD_NONE ? "SentenceTransformer" : "CrossEncoder");
    if (rc || *out || m->head != MODEL_HEAD_NONE)
        return rc; /* as CrossEncoder: the network and its head, whatever else is there */
    err_hint(err, "SentenceTransformer models and cross-encoders with a classification head are "
                  "supported; embeddings that are sparse or of every token are not.");
    return err_set(err, RC_USAGE, "'model_type' '%.64s' is not supported for this network", type);
}

/* `v` is the text `want`, or a list of only it. */
static bool text_is(const struct json *v, const char *want)
{
    const char *text = json_str(v && v->type == JSON_ARR && v->count == 1 ? json_at(v, 0) : v);

    return text && !strcmp(text, want);
}

/* Which output of the network is used: of other entries than "text" none is ours. */
static enum rc modality_check(const struct json *cfg, const char *output, struct err *err)
{
    const struct json *all = json_get(cfg, "modality_config"), *text = json_get(all, "text");

    if (!all)
        return RC_OK;
    if (json_get(all, "message"))
        return err_set(err, RC_USAGE, "'modality_config' has 'message', which is not supported");
    if (!text_is(json_get(text, "method"), "forward") ||
        !text_is(json_get(text, "method_output_name"), output))
        return err_set(err, RC_USAGE,
                       "'modality_config' has for 'text' other than method 'forward' and output "
                       "'%s', which is not supported",
                       output);
    return RC_OK;
}

enum rc config_task(struct model *m, const struct json *cfg, struct err *err)
{
    bool pairs = m->head != MODEL_HEAD_NONE;
    const char *task = NULL, *output = NULL;
    const char *tasks = pairs ? "sequence-classification" : "feature-extraction";
    const char *outputs = pairs ? "scores" : "token_embeddings";

    if (fields_check(m, FIELDS_SENTENCE, cfg, err) ||
        config_str(cfg, "transformer_task", &task, err) ||
        config_str(cfg, "module_output_name", &output, err))
        return err->code;
    task = task ? task : "feature-extraction";
    if (strcmp(task, tasks))
        return err_set(err, RC_USAGE, "'transformer_task' is '%.64s', not %s, as this network's is",
                       task, tasks);
    if (output && strcmp(output, outputs))
        return err_set(err, RC_USAGE, "'module_output_name' other than %s is not supported",
                       outputs);
    return modality_check(cfg, pairs ? "logits" : "last_hidden_state", err);
}

/* --- prompts and the score's activation --- */
static enum rc similarity_read(struct model *m, const struct json *cfg, struct err *err)
{
    static const char *const names[] = { "dot", "euclidean", "manhattan" };
    const char *name = NULL;
    enum rc rc = config_str(cfg, "similarity_fn_name", &name, err);

    if (rc || !name || !strcmp(name, "cosine"))
        return rc;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!strcmp(name, names[i])) {
            m->similarity = arena_strdup(&m->arena, name);
            return RC_OK;
        }
    }
    return err_set(err, RC_PARSE,
                   "'similarity_fn_name' is '%.64s', not cosine, dot, euclidean or manhattan",
                   name);
}

enum rc config_prompts(struct model *m, const struct json *cfg, struct err *err)
{
    const struct json *prompts = json_get(cfg, "prompts");
    const char *dflt = NULL, *act = NULL;

    if (fields_check(m, FIELDS_PROMPTS, cfg, err) ||
        config_str(cfg, "default_prompt_name", &dflt, err) ||
        config_size(cfg, "truncate_dim", 1, MODEL_HIDDEN_MAX, 0, &m->truncate_dim, err) ||
        similarity_read(m, cfg, err) || config_str(cfg, "activation_fn", &act, err) ||
        (act && m->head != MODEL_HEAD_NONE && config_score(m, act, err)))
        return err->code;
    if (prompts && prompts->type != JSON_OBJ && prompts->type != JSON_NULL)
        return err_set(err, RC_PARSE, "'prompts' is not an object");
    if (prompts && prompts->count > MODEL_PROMPTS_MAX)
        return err_set(err, RC_LIMIT, "'prompts' has %zu entries; at most %d are supported",
                       prompts->count, MODEL_PROMPTS_MAX);
    m->prompts = arena_array(&m->arena, struct model_prompt, prompts ? prompts->count : 0);
    for (const struct json *v = prompts ? prompts->first : NULL; v; v = v->next) {
        if (v->type != JSON_STR || strlen(v->text) != v->len)
            return err_set(err, RC_PARSE, "prompt '%.64s' is not a text", v->key);
        m->prompts[m->prompts_count++] =
            (struct model_prompt){ .name = arena_strdup(&m->arena, v->key),
                                   .text = arena_strdup(&m->arena, v->text) };
    }
    if (dflt && !model_prompt(m, dflt))
        return err_set(err, RC_PARSE, "'default_prompt_name' '%.64s' is not one of 'prompts'",
                       dflt);
    m->default_prompt = arena_strdup(&m->arena, dflt);
    return RC_OK;
}

/* --- the longest text --- */
enum rc config_limit(const struct json *cfg, const char *key, size_t beyond, size_t *out,
                     struct err *err)
{
    const struct json *v = json_get(cfg, key);
    double n = json_num(v, NAN);

    *out = 0;
    if (!v || v->type == JSON_NULL)
        return RC_OK;
    if (!(n >= 1 && n == floor(n)))
        return err_set(err, RC_PARSE, "'%s' is not a whole number above 0", key);
    *out = n <= MODEL_POSITIONS_MAX ? (size_t)n : beyond;
    return RC_OK;
}

enum rc config_lengths(struct model *m, const struct json *sentence, const struct json *tokenizer,
                       struct err *err)
{
    size_t limit = 0;

    /* as the reference: it stands in for the tokenizer's own limit, also where it is none */
    if (config_limit(sentence, "max_seq_length", MODEL_POSITIONS_MAX, &limit, err) ||
        config_flag(sentence, "do_lower_case", false, &m->rules.lower_first, err) ||
        (!limit && config_limit(tokenizer, "model_max_length", 0, &limit, err)) ||
        (!limit && config_limit(tokenizer, "max_len", 0, &limit, err)))
        return err->code;
    if (limit && limit < m->max_tokens)
        m->max_tokens = limit;
    if (m->max_tokens < 3)
        return err_set(err, RC_PARSE, "a limit of %zu tokens leaves no room for text",
                       m->max_tokens);
    return RC_OK;
}

/* SPDX-License-Identifier: MIT */
/* model: puts a directory's files together and checks them against each other: every
 * tensor the network needs is there, has a floating type and the shape config.json says. */
#include "model/model.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/files/lfs_int.h"
#include "model/model_int.h"
#include "model/weights/safetensors_int.h"
#include "os/file.h"

#include <assert.h>
#include <stdarg.h>
#include <unistd.h>

enum { TENSOR_NAME_MAX = 1200, SHAPE_TEXT_MAX = 256 };

static const char word_table[] = "embeddings.word_embeddings.weight";

/* --- labels --- */
const char *model_arch_label(enum model_arch a)
{
    static const char *const names[] = { [MODEL_BERT] = "BERT",
                                         [MODEL_XLMR] = "XLM-RoBERTa",
                                         [MODEL_MPNET] = "MPNet",
                                         [MODEL_DISTILBERT] = "DistilBERT" };

    assert((size_t)a < ARRAY_SIZE(names));
    return names[a];
}

const char *model_act_label(enum model_act a)
{
    static const char *const names[] = {
        [MODEL_GELU] = "gelu", [MODEL_GELU_TANH] = "gelu_tanh", [MODEL_RELU] = "relu"
    };

    assert((size_t)a < ARRAY_SIZE(names));
    return names[a];
}

const char *model_prompt(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->prompts_count; i++) {
        if (!strcmp(m->prompts[i].name, name))
            return m->prompts[i].text;
    }
    return NULL;
}

size_t model_dim(const struct model *m)
{
    size_t all = m->dense_count ? m->dense[m->dense_count - 1].out : model_pool_width(m);

    return m->truncate_dim && m->truncate_dim < all ? m->truncate_dim : all;
}

/* --- tensors by name --- */
/* `name` as it is, or with the words older checkpoints have for a LayerNorm's two. */
static const struct st_tensor *find_spelled(const struct st *s, const char *name)
{
    const struct st_tensor *t = st_find(s, name);
    const char *dot = strrchr(name, '.');
    char old[TENSOR_NAME_MAX];

    if (t || !dot || (!strstr(name, "LayerNorm.") && !strstr(name, "layer_norm.")))
        return t;
    snprintf(old, sizeof(old), "%.*s.%s", (int)(dot - name), name,
             strcmp(dot, ".weight") ? "beta" : "gamma");
    return st_find(s, old);
}

const struct st_tensor *model_tensor(const struct model *m, const char *fmt, ...)
{
    char name[TENSOR_NAME_MAX];
    size_t len = strlen(m->prefix);
    const struct st_tensor *t;
    va_list ap;
    int n;

    if (len >= sizeof(name))
        return NULL;
    memcpy(name, m->prefix, len);
    va_start(ap, fmt);
    n = vsnprintf(name + len, sizeof(name) - len, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(name) - len)
        return NULL;
    t = find_spelled(m->tensors, name);
    return t || !len ? t : find_spelled(m->tensors, name + len);
}

/* What stands before the word table's name stands before all of the network's. */
static enum rc prefix_find(struct model *m, struct err *err)
{
    const char *found = NULL;

    for (size_t i = 0; i < st_count(m->tensors); i++) {
        const char *name = st_at(m->tensors, i)->name;
        size_t len = strlen(name), tail = sizeof(word_table) - 1;

        if (!str_ends(name, word_table) || (len > tail && name[len - tail - 1] != '.'))
            continue;
        if (found)
            return err_set(err, RC_PARSE, "there are two networks: '%s%s' and '%.200s'", found,
                           word_table, name);
        found = arena_strndup(&m->arena, name, len - tail);
    }
    if (!found)
        return err_set(err, RC_PARSE, "tensor '%s' is missing", word_table);
    m->prefix = found;
    return RC_OK;
}

/* --- shapes --- */
static const char *shape_text(const size_t *dims, size_t ndim, char out[SHAPE_TEXT_MAX])
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < ndim && at < SHAPE_TEXT_MAX; i++)
        at += (size_t)snprintf(out + at, SHAPE_TEXT_MAX - at, "%s%zu", i ? ", " : "", dims[i]);
    return out;
}

static bool is_float(enum st_dtype d)
{
    return d == ST_F32 || d == ST_F16 || d == ST_BF16 || d == ST_F64;
}

/* A tensor found (or not) against the shape it must have. */
static enum rc shape_check(const struct st *s, const struct st_tensor *t, const char *name,
                           const size_t *dims, size_t ndim, struct err *err)
{
    char want[SHAPE_TEXT_MAX], have[SHAPE_TEXT_MAX];

    shape_text(dims, ndim, want);
    if (!t)
        return err_set(err, RC_PARSE, "'%s': tensor '%s' of shape [%s] is missing",
                       st_shard_path(s, 0), name, want);
    if (t->ndim != ndim || memcmp(t->dims, dims, ndim * sizeof(*dims)))
        return err_set(err, RC_PARSE, "'%s': tensor '%s' has shape [%s], expected [%s]",
                       st_shard_path(s, t->shard), t->name, shape_text(t->dims, t->ndim, have),
                       want);
    if (!is_float(t->dtype))
        return err_set(err, RC_PARSE, "'%s': tensor '%s' has dtype %s, expected a floating one",
                       st_shard_path(s, t->shard), t->name, st_dtype_name(t->dtype));
    return RC_OK;
}

static enum rc role_check(const struct model *m, enum model_role role, size_t layer,
                          struct err *err)
{
    size_t dims[2], ndim = model_role_dims(m, role, dims);
    char name[MODEL_ROLE_NAME];

    if (!ndim)
        return RC_OK;
    model_role_name(m, role, layer, name);
    return shape_check(m->tensors, model_tensor(m, "%s", name), name, dims, ndim, err);
}

static enum rc tensors_check(struct model *m, struct err *err)
{
    static const enum model_role first[] = { W_WORD,     W_POSITION, W_EMB_LN_G,
                                             W_EMB_LN_B, W_TYPE,     W_REL_BIAS };
    enum rc rc = prefix_find(m, err);

    if (rc)
        return err_ctx(err, "'%s'", st_shard_path(m->tensors, 0));
    for (size_t i = 0; i < ARRAY_SIZE(first) && !rc; i++)
        rc = role_check(m, first[i], 0, err);
    for (size_t i = 0; i < m->layers; i++)
        for (int role = W_Q; role <= W_OUT_LN_B && !rc; role++)
            rc = role_check(m, (enum model_role)role, i, err);
    for (int role = W_HEAD1; role < W_ROLES && !rc; role++)
        rc = role_check(m, (enum model_role)role, 0, err);
    return rc;
}

static void count_parameters(struct model *m, const struct st *s)
{
    for (size_t i = 0; i < st_count(s); i++) {
        const struct st_tensor *t = st_at(s, i);

        if (is_float(t->dtype))
            m->parameters += t->count;
    }
}

/* --- files --- */
/* `path` is below m->dir. */
static void part_add(struct model *m, const char *path)
{
    const char *name = path + strlen(m->dir);

    name += strspn(name, "/");
    for (size_t i = 0; i < m->part_count; i++)
        if (!strcmp(m->parts[i], name))
            return;
    VEC_GROW(m->parts, m->part_count, m->part_cap);
    m->parts[m->part_count++] = xstrdup(name);
}

static void part_add_if(struct model *m, const char *dir, const char *name)
{
    char path[FILE_PATH_MAX];

    if (!file_join(path, sizeof(path), dir, name, NULL) && file_exists(path))
        part_add(m, path);
}

static void parts_add(struct model *m, const char *dir, const struct st *s)
{
    for (size_t i = 0; i < st_shards(s); i++)
        part_add(m, st_shard_path(s, i));
    part_add_if(m, dir, "model.safetensors.index.json");
}

/* *out is NULL when there is no such file. */
static enum rc json_load(struct model *m, struct arena *a, const char *dir, const char *name,
                         struct json **out, struct err *err)
{
    struct buf text = { 0 };
    char path[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), dir, name, err);

    *out = NULL;
    if (rc || access(path, F_OK))
        return rc;
    rc = file_read(path, MODEL_JSON_MAX, &text, err);
    if (!rc) {
        rc = lfs_pointer_refuse(buf_str(&text), text.len, err);
        if (!rc)
            rc = json_parse(a, buf_str(&text), text.len, out, err);
        if (rc)
            err_ctx(err, "'%s'", path);
        part_add(m, path);
    }
    buf_release(&text);
    return rc;
}

/* One file: read, and given to what understands it. */
#define WITH_FILE(rc, dir, name, cfg, call)                                                        \
    do {                                                                                           \
        (rc) = json_load(m, a, (dir), (name), &(cfg), err);                                        \
        if (!(rc) && (cfg)) {                                                                      \
            (rc) = (call);                                                                         \
            if (rc)                                                                                \
                err_ctx(err, "'%s/%s'", (dir), (name));                                            \
        }                                                                                          \
    } while (0)

static enum rc dense_tensors(struct model *m, const char *dir, const struct model_dense *d,
                             struct err *err)
{
    struct st *s;
    enum rc rc = st_open(dir, &s, err);

    if (rc)
        return rc;
    rc = shape_check(s, st_find(s, "linear.weight"), "linear.weight", (size_t[]){ d->out, d->in },
                     2, err);
    if (!rc && d->bias)
        rc = shape_check(s, st_find(s, "linear.bias"), "linear.bias", &d->out, 1, err);
    for (size_t i = 0; i < st_count(s) && !rc; i++) { /* a bias that 'bias' denies, for one */
        const char *name = st_at(s, i)->name;

        if (strcmp(name, "linear.weight") && (!d->bias || strcmp(name, "linear.bias")))
            rc = err_set(err, RC_PARSE,
                         "'%s': tensor '%.200s' is none of the layer that config.json "
                         "describes",
                         st_shard_path(s, st_at(s, i)->shard), name);
    }
    if (!rc) {
        count_parameters(m, s);
        parts_add(m, dir, s);
    }
    st_close(s);
    return rc;
}

static enum rc dense_open(struct model *m, struct arena *a, const char *name, struct err *err)
{
    const char *dir = arena_printf(a, "%s/%s", m->dir, name);
    struct model_dense *d = &m->dense[m->dense_count];
    size_t in = m->dense_count ? d[-1].out : model_pool_width(m);
    struct json *cfg;
    enum rc rc;

    if (m->dense_count == MODEL_DENSE_MAX)
        return err_set(err, RC_LIMIT, "more than %d Dense modules", MODEL_DENSE_MAX);
    d->dir = arena_strdup(&m->arena, name);
    WITH_FILE(rc, dir, "config.json", cfg, config_dense(m, cfg, d, err));
    if (rc)
        return rc;
    if (!cfg)
        return err_set(err, RC_NODEV, "there is no config.json in '%s'", dir);
    if (d->in != in)
        return err_set(err, RC_PARSE,
                       "'%s/config.json': 'in_features' is %zu, what comes in has "
                       "%zu",
                       dir, d->in, in);
    m->dense_count++;
    return dense_tensors(m, dir, d, err);
}

static enum rc modules_open(struct model *m, struct arena *a, const struct modules *mods,
                            struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < mods->count && !rc; i++) {
        enum module_kind kind = mods->items[i].kind;
        const char *dir = arena_printf(a, "%s/%s", m->dir, mods->items[i].path);
        struct json *cfg;

        if (kind == MODULE_POOL) {
            WITH_FILE(rc, dir, "config.json", cfg, config_pool(m, cfg, err));
            if (!rc && !cfg)
                rc = err_set(err, RC_NODEV, "there is no config.json in '%s'", dir);
        } else if (kind == MODULE_DENSE) {
            rc = dense_open(m, a, mods->items[i].path, err);
        } else if (kind == MODULE_NORMALIZE) { /* older releases wrote no file for it */
            WITH_FILE(rc, dir, "config.json", cfg, fields_check(m, FIELDS_NORMALIZE, cfg, err));
        }
    }
    return rc;
}

/* The older form: two files of their own, which count where tokenizer_config.json has no
 * added_tokens_decoder. */
static enum rc specials_open(struct model *m, struct arena *a, const struct json *cfg,
                             struct err *err)
{
    struct json *map = NULL, *added = NULL;
    bool older = !json_get(cfg, "added_tokens_decoder");
    enum rc rc = RC_OK;

    if (older)
        rc = json_load(m, a, m->net_dir, "special_tokens_map.json", &map, err);
    if (!rc && older)
        rc = json_load(m, a, m->net_dir, "added_tokens.json", &added, err);
    if (!rc && config_special(m, cfg, map, added, err))
        return err_ctx(err, "'%s'", m->net_dir);
    return rc;
}

static enum rc tokenizer_open(struct model *m, struct arena *a, const struct json *net,
                              struct err *err)
{
    struct json *cfg = NULL;
    enum rc rc;

    WITH_FILE(rc, m->net_dir, "tokenizer_config.json", cfg,
              fields_check(m, FIELDS_TOKENIZER, cfg, err));
    if (!rc && config_tokenizer(m, net, cfg, err))
        return err_ctx(err, "'%s/tokenizer_config.json'", m->net_dir);
    return rc ? rc : specials_open(m, a, cfg, err);
}

static const char prompts_name[] = "config_sentence_transformers.json";
static const char *const sentence_names[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"
};

static enum rc lengths_open(struct model *m, struct arena *a, bool saved, struct err *err)
{
    struct json *sentence = NULL, *tokenizer;
    const char *name = "tokenizer_config.json";
    enum rc rc = json_load(m, a, m->net_dir, name, &tokenizer, err);

    for (size_t i = 0; saved && i < ARRAY_SIZE(sentence_names) && !rc && !sentence; i++) {
        rc = json_load(m, a, m->net_dir, sentence_names[i], &sentence, err);
        if (sentence && sentence->type == JSON_OBJ && !sentence->count)
            sentence = NULL; /* as the reference: an empty one is none */
        if (sentence)
            name = sentence_names[i];
    }
    if (rc)
        return rc;
    rc = saved ? config_task(m, sentence, err) : RC_OK;
    if (!rc)
        rc = config_lengths(m, sentence, tokenizer, err);
    return rc ? err_ctx(err, "'%s/%s'", m->net_dir, name) : RC_OK;
}

/* As the reference: without modules.json, or when another of its classes saved the folder, the
 * network is all there is, and the files beside it are not read. */
static enum rc saved_find(struct model *m, struct arena *a, struct modules *mods, struct err *err)
{
    struct json *cfg;
    enum rc rc = RC_OK;

    mods->saved = false;
    if (mods->count) {
        rc = json_load(m, a, m->dir, prompts_name, &cfg, err);
        if (!rc && config_saved(m, cfg, &mods->saved, err))
            return err_ctx(err, "'%s/%s'", m->dir, prompts_name);
    }
    if (rc || mods->saved)
        return rc;
    if (file_exists_in(m->dir, prompts_name))
        ignored_add(m, prompts_name, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(sentence_names); i++)
        if (file_exists_in(m->net_dir, sentence_names[i]))
            ignored_add(m, sentence_names[i], NULL);
    return RC_OK;
}

/* The network and what stands around it, all from small files. */
static enum rc net_open(struct model *m, struct arena *a, struct modules *mods, struct err *err)
{
    struct json *cfg, *net;
    enum rc rc;

    WITH_FILE(rc, m->dir, "modules.json", cfg, config_modules(m, cfg, mods, err));
    if (rc)
        return rc;
    if (mods->count && mods->items[0].path[0])
        m->net_dir = arena_printf(&m->arena, "%s/%s", m->dir, mods->items[0].path);
    WITH_FILE(rc, m->net_dir, "config.json", net, config_net(m, net, err));
    if (!rc && !net)
        return err_set(err, RC_NODEV, "there is no config.json in '%s'", m->net_dir);
    if (!rc && mods->pools)
        m->head = MODEL_HEAD_NONE; /* sentence vectors are what the modules make */
    if (!rc && m->head == MODEL_HEAD_NONE)
        m->labels = 0;
    if (!rc)
        rc = saved_find(m, a, mods, err);
    if (!rc)
        rc = tokenizer_open(m, a, net, err);
    if (!rc)
        rc = lengths_open(m, a, mods->saved, err);
    return rc;
}

/* What the small files say: all of them, or only those that the tokenizer needs.  The model's name
 * is the folder's own even when that is given as ".". */
static enum rc configs_open(const char *dir, bool whole, struct model **out, struct err *err)
{
    struct model *m;
    struct arena small = { 0 }, *a = &small;
    struct modules mods = { 0 };
    char *real = str_ends(dir, ".") ? realpath(dir, NULL) : NULL;
    const char *name = real ? real : dir;
    size_t end = strlen(name), at;
    struct json *cfg;
    enum rc rc;

    *out = NULL;
    if (!file_is_dir(dir)) {
        free(real);
        return err_set(err, RC_NODEV, "there is no folder '%s'", dir);
    }
    m = *out = xcalloc(1, sizeof(*m));
    while (end > 1 && name[end - 1] == '/')
        end--;
    for (at = end; at && name[at - 1] != '/';)
        at--;
    m->dir = m->net_dir = arena_strdup(&m->arena, dir);
    m->name = arena_strndup(&m->arena, name + at, end - at);
    m->prefix = "";
    free(real);
    rc = net_open(m, a, &mods, err);
    if (!rc && whole && mods.saved)
        WITH_FILE(rc, m->dir, prompts_name, cfg, config_prompts(m, cfg, err));
    if (!rc && whole)
        rc = modules_open(m, a, &mods, err);
    arena_release(a);
    return rc;
}

enum rc model_open_tokenizer(const char *dir, struct tokenizer **out, struct err *err)
{
    struct err none = { 0 };
    struct model *m;
    enum rc rc;

    err = err ? err : &none;
    rc = configs_open(dir, false, &m, err);

    if (!rc)
        rc = model_tokenizer(m, out, err);
    model_close(m);
    return rc;
}

enum rc model_open(const char *dir, struct model **out, struct err *err)
{
    struct err none = { 0 };
    struct model *m;
    enum rc rc;

    err = err ? err : &none;
    rc = configs_open(dir, true, &m, err);

    if (!rc)
        rc = st_open(m->net_dir, &m->tensors, err);
    if (!rc)
        rc = tensors_check(m, err);
    if (rc) {
        model_close(m);
        return rc;
    }
    count_parameters(m, m->tensors);
    parts_add(m, m->net_dir, m->tensors);
    part_add_if(m, m->net_dir, "tokenizer.json");
    *out = m;
    return RC_OK;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    st_close(m->tensors);
    for (size_t i = 0; i < m->part_count; i++)
        free(m->parts[i]);
    free(m->parts);
    arena_release(&m->arena);
    free(m);
}

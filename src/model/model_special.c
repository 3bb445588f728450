/* SPDX-License-Identifier: MIT */
/* model_special: the special and the added tokens that the files beside tokenizer.json name.
 *
 *   tokenizer_config.json    cls_token and the like, extra_special_tokens (once
 *                            additional_special_tokens), other members that end with _token
 *   special_tokens_map.json  the same, over the former
 *   added_tokens_decoder     in tokenizer_config.json: all added tokens, by id
 *   added_tokens.json        the same in the form before it
 *
 * The second and the last count where there is no added_tokens_decoder.  Which of these tokens are
 * added to those of tokenizer.json is for tokenizer_tokens.c. */
#include "base/mem.h"
#include "base/str.h"
#include "model/model_int.h"

static const char *const names[TOK_NAMES] = {
    [TOK_BOS] = "bos_token",   [TOK_EOS] = "eos_token", [TOK_UNK] = "unk_token",
    [TOK_SEP] = "sep_token",   [TOK_PAD] = "pad_token", [TOK_CLS] = "cls_token",
    [TOK_MASK] = "mask_token",
};

static const char map_name[] = "special_tokens_map.json";
static const char config_name[] = "tokenizer_config.json";

/* Tokens under names that the reference does not have, and under "extra_special_tokens" without
 * any; in the model's arena while they grow. */
struct named_list {
    const char **keys;
    struct tok_token *v;
    size_t count;
};
struct lists {
    struct named_list config; /* of tokenizer_config.json, and objects of either file */
    struct named_list map;    /* of special_tokens_map.json: the former win */
    struct tok_token *extra;
    size_t extra_count;
    bool extra_given;              /* as a list, empty or null too */
    bool by_text[TOK_NAMES];       /* named by a text, or in the map */
    const struct json *additional; /* additional_special_tokens that are not the extra ones yet */
    const char *additional_file;
};

static enum rc bad_field(const char *file, const char *key, const char *what, struct err *err)
{
    return err_set(err, RC_PARSE, "%s: '%.64s' %s", file, key, what);
}

/* ---- one token ---- */
static enum rc text_check(const char *file, const char *key, const char *text, size_t len,
                          struct err *err)
{
    if (strlen(text) != len || len > MODEL_TOKEN_BYTES)
        return bad_field(file, key, "is not a token: it has a NUL or is too long", err);
    return RC_OK;
}

static bool flag_of(const struct json *v, const char *key, bool dflt)
{
    return maybe_or(json_bool(json_get(v, key)), dflt);
}

static bool is_given(const struct json *v)
{
    return v && v->type != JSON_NULL;
}

static enum rc flags_check(const char *file, const char *key, const struct json *v, struct err *err)
{
    static const char *const flags[] = { "single_word", "lstrip", "rstrip", "normalized",
                                         "special" };

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        const struct json *x = json_get(v, flags[i]);

        if (is_given(x) && x->type != JSON_BOOL)
            return err_set(err, RC_PARSE, "%s: '%.64s' has a '%s' that is neither true nor false",
                           file, key, flags[i]);
    }
    return RC_OK;
}

/* "[CLS]", or an object that has it as "content". */
static enum rc token_read(struct model *m, const char *file, const char *key, const struct json *v,
                          bool special, struct tok_token *out, struct err *err)
{
    const struct json *text = v->type == JSON_OBJ ? json_get(v, "content") : v;
    bool is_special = v->type == JSON_OBJ ? flag_of(v, "special", special) : true;

    if (!text || text->type != JSON_STR)
        return bad_field(file, key, "holds something that is not a token", err);
    if (text_check(file, key, text->text, text->len, err) ||
        (v->type == JSON_OBJ && flags_check(file, key, v, err)))
        return err->code;
    *out = (struct tok_token){
        .text = arena_strdup(&m->arena, text->text),
        .bare = v->type == JSON_STR,
        .single_word = flag_of(v, "single_word", false),
        .lstrip = flag_of(v, "lstrip", false),
        .rstrip = flag_of(v, "rstrip", false),
        .normalized = flag_of(v, "normalized", !is_special),
        .special = is_special,
        .loose = v->type == JSON_OBJ && !is_given(json_get(v, "normalized")),
    };
    return RC_OK;
}

static bool holds_text(const struct tok_token *v, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(v[i].text, text))
            return true;
    return false;
}

static enum rc too_many(struct err *err)
{
    return err_set(err, RC_LIMIT, "more than %d special tokens", MODEL_SPECIALS_MAX);
}

static enum rc extra_push(struct lists *l, const struct tok_token *k, struct err *err)
{
    if (holds_text(l->extra, l->extra_count, k->text))
        return RC_OK;
    if (l->extra_count == MODEL_SPECIALS_MAX)
        return too_many(err);
    l->extra[l->extra_count++] = *k;
    return RC_OK;
}

/* The last one under a name counts. */
static enum rc named_push(struct named_list *l, const char *key, const struct tok_token *k,
                          struct err *err)
{
    size_t i = 0;

    while (i < l->count && strcmp(l->keys[i], key))
        i++;
    if (i == MODEL_SPECIALS_MAX)
        return too_many(err);
    l->keys[i] = key;
    l->v[i] = *k;
    l->count += i == l->count;
    return RC_OK;
}

/* ---- many ---- */
/* A list of tokens, or an object of them by names of their own. */
static enum rc extra_read(struct model *m, struct lists *l, const char *file, const char *key,
                          const struct json *v, struct err *err)
{
    bool named = v->type == JSON_OBJ;
    struct tok_token k;

    if (v->type != JSON_ARR && !named)
        return bad_field(file, key, "is neither a list nor an object", err);
    for (const struct json *x = v->first; x; x = x->next) {
        if (token_read(m, file, key, x, named, &k, err) ||
            (named ? named_push(&l->config, x->key, &k, err) : extra_push(l, &k, err)))
            return err->code;
    }
    l->extra_given = !named;
    return RC_OK;
}

/* cls_token and the like, and any other member that ends with _token. */
static enum rc named_read(struct model *m, struct lists *all, struct named_list *l,
                          const char *file, const struct json *cfg, struct err *err)
{
    for (const struct json *v = cfg ? cfg->first : NULL; v; v = v->next) {
        struct tok_token k = { 0 };
        size_t n = 0;

        if (!str_ends(v->key, "_token"))
            continue;
        while (n < TOK_NAMES && strcmp(v->key, names[n]))
            n++;
        if (n == TOK_NAMES && v->type != JSON_STR && v->type != JSON_OBJ)
            continue; /* add_bos_token */
        if (v->type != JSON_NULL && token_read(m, file, v->key, v, true, &k, err))
            return err->code;
        if (n == TOK_NAMES && named_push(l, v->key, &k, err))
            return err_ctx(err, "%s", file);
        if (n < TOK_NAMES) {
            k.special = true;
            m->rules.named[n] = k;
            m->rules.nameless[n] = !k.text;
            all->by_text[n] = k.text && (k.bare || l == &all->map);
        }
    }
    return RC_OK;
}

static enum rc config_read(struct model *m, struct lists *l, const struct json *cfg,
                           struct err *err)
{
    static const char extra[] = "extra_special_tokens",
                      specific[] = "model_specific_special_tokens";
    static const char older[] = "additional_special_tokens";
    const struct json *v = json_get(cfg, extra);
    const char *key = extra;

    l->additional = json_get(cfg, older);
    l->additional_file = config_name;
    if (l->additional && (!is_given(v) || !v->count)) {
        v = l->additional;
        key = older;
        l->additional = NULL;
    }
    l->extra_given = v && v->type != JSON_OBJ;
    if (named_read(m, l, &l->config, config_name, cfg, err) ||
        (is_given(v) && extra_read(m, l, config_name, key, v, err)))
        return err->code;
    v = json_get(cfg, specific);
    if (!is_given(v) || l->config.count)
        return RC_OK;
    if (v->type != JSON_OBJ)
        return bad_field(config_name, specific, "is not an object", err);
    for (const struct json *x = v->first; x; x = x->next) {
        struct tok_token k;

        if (token_read(m, config_name, specific, x, true, &k, err) ||
            named_push(&l->config, x->key, &k, err))
            return err->code;
    }
    return RC_OK;
}

static enum rc map_read(struct model *m, struct lists *l, const struct json *map, struct err *err)
{
    const struct json *extra = json_get(map, "extra_special_tokens");
    const struct json *more = json_get(map, "additional_special_tokens");

    if (map && map->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "%s is not an object", map_name);
    for (const struct json *v = map ? map->first : NULL; v; v = v->next)
        if (!str_ends(v->key, "_token") && v != extra && v != more)
            return err_set(err, RC_USAGE, "%s: field '%.64s' is not supported", map_name, v->key);
    if (more) {
        l->additional = more;
        l->additional_file = map_name;
    }
    if (extra && extra->type != JSON_ARR) {
        l->extra_count = 0; /* an object and null stand for the list */
        l->extra_given = extra->type == JSON_NULL;
    }
    if (named_read(m, l, &l->map, map_name, map, err) ||
        (is_given(extra) && extra_read(m, l, map_name, "extra_special_tokens", extra, err)))
        return err->code;
    return RC_OK;
}

/* ---- listed by id ---- */
static enum rc listed_one(struct model *m, const struct lists *l, const struct json *v,
                          bool decoder, struct tok_token *out, struct err *err)
{
    const char *file = decoder ? config_name : "added_tokens.json";
    uint64_t id = 0;
    struct maybe n;

    if (decoder) {
        if (!str_to_u64(v->key, 10, &id) || id > INT64_MAX || v->type != JSON_OBJ)
            return bad_field(file, "added_tokens_decoder", "is not an object of tokens by id", err);
        if (token_read(m, file, "added_tokens_decoder", v, false, out, err))
            return err->code;
        out->id = (int64_t)id;
        return RC_OK;
    }
    n = json_int(v);
    if (!n.known || n.v < 0)
        return bad_field(file, v->key, "has no id", err);
    if (text_check(file, "a name", v->key, strlen(v->key), err))
        return err->code;
    *out = (struct tok_token){ .text = arena_strdup(&m->arena, v->key), .id = n.v };
    for (size_t i = 0; i < TOK_NAMES; i++)
        out->special = out->special || (l->by_text[i] && !strcmp(m->rules.named[i].text, v->key));
    out->special = out->special || holds_text(l->extra, l->extra_count, v->key);
    out->normalized = !out->special;
    return RC_OK;
}

static enum rc listed_read(struct model *m, const struct lists *l, const struct json *list,
                           bool decoder, struct err *err)
{
    const char *what = decoder ? "'added_tokens_decoder'" : "added_tokens.json";
    struct tok_token *all;
    size_t n = 0;

    m->rules.listed_all = decoder;
    if (!is_given(list))
        return RC_OK;
    if (list->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "%s is not an object", what);
    if (list->count > MODEL_ADDED_MAX)
        return err_set(err, RC_LIMIT, "%s has more than %d tokens", what, MODEL_ADDED_MAX);
    all = arena_array(&m->arena, struct tok_token, list->count);
    for (const struct json *v = list->first; v; v = v->next)
        if (listed_one(m, l, v, decoder, &all[n++], err))
            return err->code;
    m->rules.listed = all;
    m->rules.listed_count = n;
    return RC_OK;
}

/* The map's first, with the values of the configuration where both have a name. */
static void lists_join(struct model *m, const struct lists *l)
{
    struct tok_token *all =
        arena_array(&m->arena, struct tok_token, l->config.count + l->map.count + l->extra_count);
    size_t n = 0;

    for (size_t i = 0; i < l->map.count; i++) {
        all[n] = l->map.v[i];
        for (size_t k = 0; k < l->config.count; k++)
            if (!strcmp(l->config.keys[k], l->map.keys[i]))
                all[n] = l->config.v[k];
        n++;
    }
    memcpy(all + n, l->config.v, l->config.count * sizeof(*all));
    n += l->config.count;
    memcpy(all + n, l->extra, l->extra_count * sizeof(*all));
    m->rules.more = all;
    m->rules.more_named = n;
    m->rules.more_count = n + l->extra_count;
    m->rules.more_set = l->extra_given;
}

static void named_init(struct model *m, struct named_list *l)
{
    l->keys = arena_array(&m->arena, const char *, MODEL_SPECIALS_MAX);
    l->v = arena_array(&m->arena, struct tok_token, MODEL_SPECIALS_MAX);
}

enum rc config_special(struct model *m, const struct json *cfg, const struct json *map,
                       const struct json *added, struct err *err)
{
    const struct json *decoder = json_get(cfg, "added_tokens_decoder");
    struct lists l = { .extra = arena_array(&m->arena, struct tok_token, MODEL_SPECIALS_MAX) };

    if (cfg && cfg->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "%s is not an object", config_name);
    named_init(m, &l.config);
    named_init(m, &l.map);
    if (config_read(m, &l, cfg, err) || map_read(m, &l, map, err))
        return err->code;
    if (listed_read(m, &l, decoder ? decoder : added, decoder != NULL, err))
        return err->code;
    /* where no extra_special_tokens are left, the older name's are */
    if (!l.extra_given && is_given(l.additional) &&
        extra_read(m, &l, l.additional_file, "additional_special_tokens", l.additional, err))
        return err->code;
    lists_join(m, &l);
    return RC_OK;
}

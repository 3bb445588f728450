/* SPDX-License-Identifier: MIT */
/* model_special: tokens that the reference looks for in a text before anything else, whatever
 * tokenizer.json lists.
 *
 * transformers adds every special token that a class or tokenizer_config.json names, and where
 * that has no `added_tokens_decoder` (folders saved before transformers 4.34), those of
 * special_tokens_map.json, which win over tokenizer_config.json, and of added_tokens.json. */
#include "base/str.h"
#include "model/model_int.h"

enum { NAMES = 7 };
static const char config_file[] = "tokenizer_config.json";
static const char *const names[NAMES] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token" };
static const char *const usual[][NAMES] = {
    [TOK_CLASS_FILE] = { NULL },
    [TOK_CLASS_BERT] = { NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" },
    [TOK_CLASS_MPNET] = { "<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>" },
    [TOK_CLASS_XLMR] = { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" },
};

static const struct json *value_of(const struct special_files *f, const char *key)
{
    const struct json *v = json_get(f->map, key);

    return v ? v : json_get(f->config, key);
}

const char *special_name(struct model *m, const struct special_files *f, const char *key)
{
    const struct json *v = value_of(f, key);
    const char *name = json_str(v && v->type == JSON_OBJ ? json_get(v, "content") : v);

    return arena_strdup(&m->arena, name);
}

static bool flag_of(const struct json *v, const char *key, bool dflt)
{
    return maybe_or(json_bool(json_get(v, key)), dflt);
}

/* A name, or an object that has it as "content". */
static enum rc named_add(struct model *m, const struct json *v, const char *key,
                         struct tok_named **out, struct err *err)
{
    const char *text = json_str(v->type == JSON_OBJ ? json_get(v, "content") : v);
    struct tok_named *k = &m->named[m->rules.named_count];
    bool special = flag_of(v, "special", true);

    if (!text)
        return err_set(err, RC_PARSE, "'%s' holds something that is no token", key);
    *k = (struct tok_named){ .text = arena_strdup(&m->arena, text),
                             .lstrip = flag_of(v, "lstrip", false),
                             .rstrip = flag_of(v, "rstrip", false),
                             .single_word = flag_of(v, "single_word", false),
                             .normalized = flag_of(v, "normalized", !special),
                             .special = special };
    m->rules.named_count++;
    *out = k;
    return RC_OK;
}

static void token_wanted(struct model *m, const struct tok_named *k, const char *file,
                         struct maybe id)
{
    m->tokens[m->tokens_count++] = (struct model_token){ k->text, file, id };
}

/* added_tokens_decoder: objects by id; its tokens have the next ids where they are new. */
static enum rc decoder_read(struct model *m, const struct json *list, struct err *err)
{
    struct tok_named *k;
    uint64_t id;

    if (list && list->type != JSON_OBJ && list->type != JSON_NULL && list->type != JSON_ARR)
        return err_set(err, RC_PARSE, "'added_tokens_decoder' is neither a list nor an object");
    for (const struct json *v = list ? list->first : NULL; v; v = v->next) {
        if (named_add(m, v, "added_tokens_decoder", &k, err))
            return err->code;
        if (v->type == JSON_OBJ) { /* as the reference's AddedToken has it */
            k->special = flag_of(v, "special", false);
            k->normalized = flag_of(v, "normalized", !k->special);
        }
        k->fresh = true;
        token_wanted(m, k, config_file,
                     list->type == JSON_OBJ && str_to_u64(v->key, 10, &id) ? maybe_of((int64_t)id)
                                                                           : (struct maybe){ 0 });
    }
    return RC_OK;
}

/* added_tokens.json: ids by name. */
static enum rc added_read(struct model *m, const struct json *list, struct err *err)
{
    if (list && list->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "added_tokens.json is not an object");
    for (const struct json *v = list ? list->first : NULL; v; v = v->next) {
        struct tok_named *k = &m->named[m->rules.named_count++];

        *k = (struct tok_named){ .text = arena_strdup(&m->arena, v->key),
                                 .normalized = true,
                                 .fresh = true };
        token_wanted(m, k, "added_tokens.json", json_int(v));
    }
    return RC_OK;
}

static enum rc extra_read(struct model *m, const struct special_files *f, const char *key,
                          struct err *err)
{
    const char *file = json_get(f->map, key) ? "special_tokens_map.json" : config_file;
    const struct json *list = value_of(f, key);
    struct tok_named *k;

    if (!list || list->type == JSON_NULL)
        return RC_OK;
    if (list->type != JSON_ARR && list->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "'%s' is neither a list nor an object", key);
    for (const struct json *v = list->first; v; v = v->next) {
        if (named_add(m, v, key, &k, err))
            return err->code;
        token_wanted(m, k, file, (struct maybe){ 0 });
    }
    return RC_OK;
}

/* The seven that every tokenizer may have; one that is null is not there. */
static enum rc named_read(struct model *m, const struct special_files *f, bool by_class,
                          struct err *err)
{
    enum tok_class class = m->rules.class;
    struct tok_named *k;

    for (int i = 0; i < NAMES; i++) {
        const char *dflt = by_class ? usual[class][i] : NULL;
        const struct json *v = value_of(f, names[i]);
        struct json own = { .type = JSON_STR, .text = dflt, .len = dflt ? strlen(dflt) : 0 };

        if ((v && v->type == JSON_NULL) || (!v && !dflt))
            continue;
        if (named_add(m, v ? v : &own, names[i], &k, err))
            return err->code;
        k->special = true;
        if (str_eq(names[i], "mask_token") && (!v || v->type == JSON_STR))
            k->lstrip = class == TOK_CLASS_MPNET || (class == TOK_CLASS_XLMR && m->rules.camembert);
    }
    return RC_OK;
}

/* "query_token": "[Q]" is a special token too, whatever it is called. */
static enum rc others_read(struct model *m, const struct json *cfg, struct err *err)
{
    for (const struct json *v = cfg ? cfg->first : NULL; v; v = v->next) {
        bool known = false;
        struct tok_named *k;

        for (int i = 0; i < NAMES; i++)
            known = known || str_eq(v->key, names[i]);
        if (known || v->type != JSON_STR || !str_ends(v->key, "_token"))
            continue;
        if (named_add(m, v, v->key, &k, err))
            return err->code;
        token_wanted(m, k, config_file, (struct maybe){ 0 });
    }
    return RC_OK;
}

static size_t count_of(const struct json *v)
{
    return v ? v->count : 0;
}

enum rc special_read(struct model *m, const struct special_files *f, struct err *err)
{
    static const char *const lists[] = { "additional_special_tokens", "extra_special_tokens" };
    const struct json *decoder = json_get(f->config, "added_tokens_decoder");
    size_t most = NAMES + count_of(decoder) + count_of(f->added) + count_of(f->config);

    if (f->map && f->map->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "special_tokens_map.json is not an object");
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        most += count_of(json_get(f->config, lists[i])) + count_of(json_get(f->map, lists[i]));
    m->named = arena_array(&m->arena, struct tok_named, most);
    m->tokens = arena_array(&m->arena, struct model_token, most);
    m->rules.named = m->named;
    m->rules.named_alone = decoder && decoder->type == JSON_OBJ;
    if (decoder_read(m, decoder, err) || added_read(m, f->added, err) ||
        named_read(m, f, m->rules.class != TOK_CLASS_FILE, err) || others_read(m, f->config, err))
        return err->code;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (extra_read(m, f, lists[i], err))
            return err->code;
    return RC_OK;
}

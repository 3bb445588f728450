/* SPDX-License-Identifier: MIT */
/* tokenizer_check: what a tokenizer.json must be before anything in it is taken: a format that is
 * known, no member beside the known ones, and switches and words of their own type.  The
 * reference does not open other files; a default in the place of "false" gives other ids. */
#include "base/str.h"
#include "model/tokenizer/tokenizer_int.h"

static const char *const members[] = { "version",        "truncation", "padding",
                                       "added_tokens",   "normalizer", "pre_tokenizer",
                                       "post_processor", "decoder",    "model" };

static const char *const switches[] = {
    "add_prefix_space", "byte_fallback", "clean_text", "cleanup",          "handle_chinese_chars",
    "lowercase",        "lstrip",        "normalized", "rstrip",           "single_word",
    "special",          "split",         "strip_left", "strip_right",      "strip_accents",
    "trim_offsets",     "use_regex",     "invert",     "individual_digits"
};

static const char *const words[] = { "behavior", "direction", "prepend_scheme", "strategy" };

static bool is_among(const char *key, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(key, names[i]))
            return true;
    return false;
}

/* The one word that may be an object: {"padding": {"strategy": {"Fixed": 128}}}, beside
 * "BatchLongest".  Nothing is padded by it here, nor by sentence-transformers. */
static bool is_fixed_padding(const struct json *m, const char *top)
{
    struct maybe length = json_int(json_get(m, "Fixed"));

    return str_eq(top, "padding") && str_eq(m->key, "strategy") && m->type == JSON_OBJ &&
           m->first && !m->first->next && length.known && length.v >= 0;
}

/* `top`: the member of the document that `v` is in, for messages. */
static enum rc types_check(const struct json *v, const char *top, struct err *err)
{
    bool named = v->type == JSON_OBJ;
    enum rc rc = RC_OK;

    for (const struct json *m = v->first; m && !rc; m = m->next) {
        if (named && m->type == JSON_NULL && str_eq(m->key, "strip_accents"))
            continue; /* as lowercase is */
        if (named && m->type != JSON_BOOL && is_among(m->key, switches, ARRAY_SIZE(switches)))
            rc = err_set(err, RC_PARSE, "member '%s': '%s' is neither true nor false", top, m->key);
        else if (named && m->type != JSON_STR && is_among(m->key, words, ARRAY_SIZE(words)) &&
                 !is_fixed_padding(m, top))
            rc = err_set(err, RC_PARSE, "member '%s': '%s' is not a text", top, m->key);
        else if (!named || (!str_eq(m->key, "vocab") && !str_eq(m->key, "special_tokens")))
            rc = types_check(m, top, err); /* those two have names of tokens */
    }
    return rc;
}

static enum rc truncation_check(const struct json *v, struct err *err)
{
    const char *side = json_str(json_get(v, "direction"));

    if (v && v->type != JSON_OBJ && v->type != JSON_NULL)
        return err_set(err, RC_PARSE, "member 'truncation' is not an object");
    if (side && !str_eq(side, "Left") && !str_eq(side, "Right"))
        return err_set(err, RC_PARSE, "member 'truncation.direction': '%.32s' is not known", side);
    return RC_OK;
}

enum rc tok_check_document(const struct json *root, struct err *err)
{
    const struct json *version = json_get(root, "version");
    enum rc rc = truncation_check(json_get(root, "truncation"), err);

    if (!rc && version && !str_eq(json_str(version), "1.0"))
        rc = err_set(err, RC_USAGE, "'version' other than \"1.0\" is not supported");
    for (const struct json *m = root->first; m && !rc; m = m->next) {
        if (!is_among(m->key, members, ARRAY_SIZE(members)))
            rc = err_set(err, RC_USAGE, "member '%.64s' is not supported", m->key);
        else
            rc = types_check(m, m->key, err);
    }
    return rc;
}

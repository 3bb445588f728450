/* SPDX-License-Identifier: MIT */
/* tokenizer_model: the model member of a tokenizer.json.
 *
 * The classes of transformers take its vocabulary and make the model anew: prefix, longest word
 * and unknown piece are the class's own, or tokenizer_config.json's. */
#include "base/str.h"
#include "model/tokenizer/tokenizer_int.h"

enum { NAME_SHOWN = 40 }; /* bytes of a token in a message */

static enum rc bad_member(struct err *err, const char *member, const char *what)
{
    return err_set(err, RC_PARSE, "member '%s' %s", member, what);
}

/* ---- WordPiece ---- */
static enum rc read_wordpiece(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                              struct err *err)
{
    const struct json *vocab = json_get(v, "vocab");
    bool anew = r && tok_class_is_words(r);
    const char *unk = json_str(json_get(v, "unk_token"));
    const char *prefix = json_str(json_get(v, "continuing_subword_prefix"));
    struct maybe chars = json_int(json_get(v, "max_input_chars_per_word"));
    uint32_t unk_id;

    if (!unk || !prefix || !chars.known || chars.v < 0)
        return bad_member(
            err, "model",
            "has no unk_token, continuing_subword_prefix or max_input_chars_per_word");
    if (!vocab || vocab->type != JSON_OBJ)
        return bad_member(err, "model.vocab", "is not an object");
    if (anew) {
        prefix = "##";
        chars.v = TOK_WORD_CHARS;
        unk = tok_named(r, TOK_UNK, true).text;
    }
    if (!unk)
        return err_set(err, RC_USAGE, "'unk_token' is null, which is not supported");
    t->wordpiece = wordpiece_new(&t->vocab, prefix, (size_t)chars.v);
    if (!t->wordpiece)
        return err_set(err, RC_LIMIT, "member 'model.vocab' has too many pieces of the same hash");
    if (!wordpiece_find(t->wordpiece, unk, strlen(unk), &unk_id))
        return err_set(err, RC_PARSE, "%s '%.*s' is not in the vocabulary",
                       anew ? "the unknown token" : "member 'model.unk_token':", NAME_SHOWN, unk);
    wordpiece_set_unk(t->wordpiece, unk_id);
    return RC_OK;
}

/* ---- Unigram ---- */
/* The unknown piece of a class that makes the model anew. */
static struct maybe class_unk(const struct tokenizer *t, const struct tok_rules *r)
{
    const char *text = tok_named(r, TOK_UNK, true).text;

    if (r->class == TOK_CLASS_XLMR)
        return maybe_of(TOK_XLMR_UNK);
    for (uint32_t i = 0; text && i < t->vocab.count; i++) {
        const struct vocab_entry *e = vocab_get(&t->vocab, i);

        if (e && !strcmp(e->text, text))
            return maybe_of(i);
    }
    return maybe_of(0);
}

static enum rc read_unigram(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                            struct err *err)
{
    const struct json *vocab = json_get(v, "vocab");
    struct maybe unk = json_int(json_get(v, "unk_id"));
    bool fallback = maybe_or(json_bool(json_get(v, "byte_fallback")), 0);

    if (!vocab || vocab->type != JSON_ARR)
        return bad_member(err, "model.vocab", "is not an array");
    if (r && tok_class_is_pieces(r)) {
        unk = class_unk(t, r);
        fallback = false;
    }
    if (!unk.known || unk.v < 0 || (uint64_t)unk.v >= t->vocab.count)
        return bad_member(err, "model.unk_id", "is not an id of the vocabulary");
    t->unigram_unk = (uint32_t)unk.v;
    return unigram_of(&t->vocab, (uint32_t)unk.v, fallback, &t->unigram, err);
}

enum rc tok_read_model(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                       struct err *err)
{
    const char *type = json_str(json_get(v, "type"));

    if (!v || v->type != JSON_OBJ)
        return bad_member(err, "model", "is missing");
    if (str_eq(type, "Unigram"))
        return read_unigram(t, v, r, err);
    if (str_eq(type, "WordPiece") || (!type && json_get(v, "continuing_subword_prefix")))
        return read_wordpiece(t, v, r, err);
    return err_set(err, RC_USAGE, "member 'model': type '%.60s' is not supported",
                   type ? type : "?");
}

bool tok_model_id(const struct tokenizer *t, const char *s, size_t len, uint32_t *out)
{
    if (t->wordpiece)
        return wordpiece_find(t->wordpiece, s, len, out);
    return unigram_find(t->unigram, s, len, out);
}

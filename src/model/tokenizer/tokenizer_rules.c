/* SPDX-License-Identifier: MIT */
/* tokenizer_rules: what transformers makes of a tokenizer.json.
 *
 * BertTokenizer and its like take from the file the vocabulary and the added tokens, and build
 * normalizer, pre-tokenizer and template anew from tokenizer_config.json: a cased
 * file with `do_lower_case` missing is lower-cased, one of XLM-R with Metaspace only is split at
 * white space first.  A reader of the file that does not know gives other ids in silence.
 * Followed: transformers 5 (MODEL_REFERENCE names the release); 4 agrees for BERT.
 *
 * A class that the folder does not name but the network's family implies is left aside where
 * the file's model is not of its kind: the reference cannot load that, the file can be read. */
#include "model/tokenizer/tokenizer_int.h"

#include <assert.h>

enum { METASPACE_MARK = 0x2581 }; /* the lower one eighth block */

static void norms_drop(struct tokenizer *t, bool keep_precompiled)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->norms_count; i++) {
        if (keep_precompiled && !kept && t->norms[i].kind == NORM_PRECOMPILED)
            t->norms[kept++] = t->norms[i];
        else
            precompiled_free(t->norms[i].precompiled);
    }
    t->norms_count = kept;
}

static void steps_of_bert(struct tokenizer *t, const struct tok_rules *r)
{
    norms_drop(t, false);
    t->norms[t->norms_count++] =
        (struct norm){ .kind = NORM_BERT,
                       .clean = true,
                       .chinese = !r->keep_chinese,
                       .lower = !r->keep_case,
                       .accents = r->accents_set ? r->strip_accents : !r->keep_case };
    t->pres_count = 0;
    t->pres[t->pres_count++] = (struct pre){ .kind = PRE_WHITESPACE_SPLIT };
    t->pres[t->pres_count++] = (struct pre){ .kind = PRE_PUNCTUATION, .behavior = PRE_ISOLATED };
}

static void steps_of_xlmr(struct tokenizer *t, const struct tok_rules *r)
{
    norms_drop(t, true);
    t->pres_count = 0;
    t->pres[t->pres_count++] = (struct pre){ .kind = PRE_WHITESPACE_SPLIT };
    t->pres[t->pres_count++] = (struct pre){ .kind = PRE_METASPACE,
                                             .replacement = METASPACE_MARK,
                                             .prepend = r->no_prefix_space ? PRE_NEVER : PRE_ALWAYS,
                                             .split = true };
}

/* As sentence-transformers: not where a step of its own does it already. */
static enum rc lower_first(struct tokenizer *t, struct err *err)
{
    for (size_t i = 0; i < t->norms_count; i++) {
        if (t->norms[i].kind == NORM_LOWERCASE)
            return RC_OK;
    }
    if (t->norms_count == TOK_STEPS_MAX)
        return err_set(err, RC_LIMIT, "member 'normalizer' has more than %d steps", TOK_STEPS_MAX);
    memmove(t->norms + 1, t->norms, t->norms_count * sizeof(*t->norms));
    t->norms[0] = (struct norm){ .kind = NORM_LOWERCASE };
    t->norms_count++;
    return RC_OK;
}

/* ---- the class's own ---- */
static const char *const names_bert[TOK_NAMES] = { [TOK_UNK] = "[UNK]",
                                                   [TOK_SEP] = "[SEP]",
                                                   [TOK_PAD] = "[PAD]",
                                                   [TOK_CLS] = "[CLS]",
                                                   [TOK_MASK] = "[MASK]" };
static const char *const names_mpnet[TOK_NAMES] = {
    [TOK_BOS] = "<s>", [TOK_EOS] = "</s>",  [TOK_UNK] = "[UNK]",   [TOK_SEP] = "</s>",
    [TOK_CLS] = "<s>", [TOK_PAD] = "<pad>", [TOK_MASK] = "<mask>",
};
static const char *const names_xlmr[TOK_NAMES] = {
    [TOK_BOS] = "<s>", [TOK_EOS] = "</s>",  [TOK_UNK] = "<unk>",   [TOK_SEP] = "</s>",
    [TOK_CLS] = "<s>", [TOK_PAD] = "<pad>", [TOK_MASK] = "<mask>",
};

bool tok_class_is_words(const struct tok_rules *r)
{
    return r->class == TOK_CLASS_BERT || r->class == TOK_CLASS_MPNET;
}

bool tok_class_is_pieces(const struct tok_rules *r)
{
    return r->class == TOK_CLASS_XLMR || r->class == TOK_CLASS_CAMEMBERT;
}

struct tok_token tok_named(const struct tok_rules *r, enum tok_name name, bool by_class)
{
    const char *const *names = r->class == TOK_CLASS_BERT    ? names_bert
                               : r->class == TOK_CLASS_MPNET ? names_mpnet
                                                             : names_xlmr;
    struct tok_token t = r->named[name];

    assert(name < TOK_NAMES);
    if (!t.text && by_class && !r->nameless[name])
        t = (struct tok_token){ .text = names[name], .bare = true, .special = true };
    if (by_class && t.bare && name == TOK_MASK &&
        (r->class == TOK_CLASS_MPNET || r->class == TOK_CLASS_CAMEMBERT))
        t.lstrip = true; /* takes the space before it */
    return t;
}

/* Behind the added tokens: the template's two are among them. */
void tok_apply_template(struct tokenizer *t, const struct tok_rules *r)
{
    bool pieces = tok_class_is_pieces(r);
    const char *first, *last;
    uint32_t a, b;

    if (!t->by_class)
        return;
    first = tok_named(r, pieces ? TOK_BOS : TOK_CLS, true).text;
    last = tok_named(r, pieces ? TOK_EOS : TOK_SEP, true).text;
    if (first && last && tokenizer_id(t, first, &a) && tokenizer_id(t, last, &b))
        tok_fixed_template(t, a, b, r->class != TOK_CLASS_BERT);
}

/* The reference makes the text "None" of a null where the class needs a token, and finds no id for
 * an empty one. */
static enum rc names_check(const struct tok_rules *r, struct err *err)
{
    bool pieces = tok_class_is_pieces(r);
    const struct {
        enum tok_name name;
        const char *field;
    } ends[] = { { pieces ? TOK_BOS : TOK_CLS, pieces ? "bos_token" : "cls_token" },
                 { pieces ? TOK_EOS : TOK_SEP, pieces ? "eos_token" : "sep_token" } };

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        const char *text = r->named[ends[i].name].text;

        if (r->nameless[ends[i].name] || (text && !*text))
            return err_set(err, RC_USAGE, "'%s' is %s, which is not supported", ends[i].field,
                           text ? "empty" : "null");
    }
    return RC_OK;
}

enum rc tok_apply_rules(struct tokenizer *t, const struct tok_rules *r, struct err *err)
{
    bool words = tok_class_is_words(r);
    bool fits = r->class == TOK_CLASS_FILE || words == !!t->wordpiece;

    static_assert(TOK_STEPS_MAX >= 2, "room for the steps of a class");
    t->types_zero = r->types_zero;
    if (r->side_set)
        t->left = r->left;
    if (r->class == TOK_CLASS_OTHER) {
        err_hint(err, "The classes of BERT, DistilBERT, MPNet, XLM-RoBERTa and CamemBERT are "
                      "supported, and PreTrainedTokenizerFast, which takes tokenizer.json as it "
                      "is: set 'tokenizer_class' to it where that is meant.");
        return err_set(err, RC_USAGE, "tokenizer class '%.64s' is not supported", r->class_name);
    }
    if (!fits && r->class_name)
        return err_set(err, RC_USAGE,
                       "tokenizer class '%.64s' does not take a %s vocabulary, and tokenizer.json "
                       "has one",
                       r->class_name, tokenizer_kind(t));
    t->by_class = fits && r->class != TOK_CLASS_FILE;
    if (t->by_class && names_check(r, err))
        return err->code;
    if (t->by_class && words)
        steps_of_bert(t, r);
    if (t->by_class && !words)
        steps_of_xlmr(t, r);
    return r->lower_first ? lower_first(t, err) : RC_OK;
}

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
#include "model/tokenizer_int.h"

#include <assert.h>

enum {
    METASPACE_MARK = 0x2581, /* the lower one eighth block */
    WORD_CHARS = 100,        /* of a word that WordPiece looks at, where nobody says */
    XLMR_UNK = 3
};

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

/* BERT's and MPNet's classes make the model anew too: their own limit of a word, and the unknown
 * token that is configured. */
static enum rc wordpiece_of_class(struct tokenizer *t, const struct tok_rules *r, struct err *err)
{
    const char *name = r->unk ? r->unk : "[UNK]";
    uint32_t unk;

    if (t->odd_prefix || wordpiece_max_chars(t->wordpiece) != WORD_CHARS) {
        wordpiece_free(t->wordpiece);
        t->wordpiece = wordpiece_new(&t->vocab, "##", WORD_CHARS);
        if (!t->wordpiece)
            return err_set(err, RC_LIMIT,
                           "member 'model.vocab' has too many pieces of the same hash");
    }
    if (!wordpiece_find(t->wordpiece, name, strlen(name), &unk))
        return err_set(err, RC_USAGE, "the unknown token '%.64s' is not in the vocabulary", name);
    wordpiece_set_unk(t->wordpiece, unk);
    return RC_OK;
}

/* XLM-R's class takes the third id for unknown pieces, CamemBERT's looks its name up. */
static enum rc unigram_of_class(const struct tokenizer *t, const struct tok_rules *r,
                                struct err *err)
{
    const char *name = r->unk ? r->unk : "<unk>";
    uint32_t unk = XLMR_UNK;

    if (r->camembert && !unigram_find(t->unigram, name, strlen(name), &unk))
        unk = 0;
    if (unk == t->unigram_unk)
        return RC_OK;
    return err_set(err, RC_USAGE,
                   "member 'model.unk_id' is %u, and the tokenizer's class takes %u: that is not "
                   "supported",
                   t->unigram_unk, unk);
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

/* The class's own template, where the vocabulary has its tokens. */
void tok_apply_template(struct tokenizer *t, const struct tok_rules *r)
{
    bool bert = r->class == TOK_CLASS_BERT;
    const char *first = r->first ? r->first : bert ? "[CLS]" : "<s>";
    const char *last = r->last ? r->last : bert ? "[SEP]" : "</s>";
    uint32_t a, b;

    if (t->by_class && tokenizer_id(t, first, &a) && tokenizer_id(t, last, &b))
        tok_fixed_template(t, a, b, !bert);
}

enum rc tok_apply_rules(struct tokenizer *t, const struct tok_rules *r, struct err *err)
{
    bool words = r->class == TOK_CLASS_BERT || r->class == TOK_CLASS_MPNET;
    bool fits = r->class == TOK_CLASS_FILE || words == !!t->wordpiece;

    static_assert(TOK_STEPS_MAX >= 2, "room for the steps of a class");
    t->types_zero = r->types_zero;
    if (r->side_set)
        t->left = r->left;
    if (!fits && r->class_name)
        return err_set(err, RC_USAGE,
                       "tokenizer class '%.64s' does not take a %s vocabulary, and tokenizer.json "
                       "has one",
                       r->class_name, tokenizer_kind(t));
    t->by_class = fits && r->class != TOK_CLASS_FILE;
    if (t->by_class && (words ? wordpiece_of_class(t, r, err) : unigram_of_class(t, r, err)))
        return err->code;
    if (t->by_class && words)
        steps_of_bert(t, r);
    if (t->by_class && !words)
        steps_of_xlmr(t, r);
    return r->lower_first ? lower_first(t, err) : RC_OK;
}

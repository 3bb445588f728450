/* SPDX-License-Identifier: MIT */
/* tokenizer: text to ids, identical to Hugging Face `tokenizers`, id for id.
 *
 * A tokenizer is read-only once loaded and shared by all threads; each thread brings
 * its own scratch.  Text that is not UTF-8 is taken as Python's errors='replace' would
 * give it: each maximal bad sequence is one U+FFFD.  Truncation and padding that a
 * tokenizer.json carries are ignored: the caller says what it wants.
 *
 * A tokenizer.json is not the whole truth: the tokenizer classes of transformers build the
 * normalizer and the pre-tokenizer anew from tokenizer_config.json, whatever the file has.
 * struct tok_rules is what they say; tokenizer_rules.c applies it. */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct tokenizer;
struct tok_scratch; /* grows to the longest text it has seen; one a thread */

/* Which class of transformers reads the file. */
enum tok_class {
    TOK_CLASS_FILE, /* TokenizersBackend: the file as it is */
    TOK_CLASS_BERT, /* BertTokenizer, DistilBertTokenizer */
    TOK_CLASS_MPNET,
    TOK_CLASS_XLMR,
    TOK_CLASS_CAMEMBERT,
    TOK_CLASS_OTHER /* one that is not followed here: the file is refused */
};

/* The special tokens that have names, in the order in which the reference adds them. */
enum tok_name { TOK_BOS, TOK_EOS, TOK_UNK, TOK_SEP, TOK_PAD, TOK_CLS, TOK_MASK, TOK_NAMES };

/* A token that the files beside tokenizer.json add to its vocabulary. */
struct tok_token {
    const char *text; /* NULL: not given */
    int64_t id;       /* tokens are added in its order; what they get is the vocabulary's */
    bool bare;        /* given by its text only: the class may have its own way to match it */
    bool single_word, lstrip, rstrip, normalized, special;
    bool loose; /* `normalized` is not given: it follows `special` */
};

struct tok_rules {
    enum tok_class class;
    const char *class_name;            /* as the folder has it; NULL: by the network's family */
    struct tok_token named[TOK_NAMES]; /* text NULL: the class's own */
    bool nameless[TOK_NAMES];          /* null in the file: there is none */
    const struct tok_token *listed;    /* added_tokens_decoder, or added_tokens.json */
    size_t listed_count;
    bool listed_all;              /* the former: a class takes none of tokenizer.json beside them */
    const struct tok_token *more; /* special ones that have no name */
    size_t more_count, more_named;   /* all; those at the head that have other names */
    bool more_set;                   /* false: CamembertTokenizer's own */
    bool keep_case;                  /* BERT: do_lower_case is false */
    bool keep_chinese;               /* BERT: tokenize_chinese_chars is false */
    bool accents_set, strip_accents; /* BERT: strip_accents, which follows the case when not set */
    bool no_prefix_space;            /* XLMR: add_prefix_space is false */
    bool lower_first;                /* Lowercase before every other normalizer */
    bool types_zero;                 /* the network is given no token types */
    bool side_set, left;             /* truncation_side, which the file may have too */
};

enum tok_truncate { TOK_NEVER, TOK_LONGEST_FIRST, TOK_ONLY_FIRST, TOK_ONLY_SECOND };

struct tok_opts {
    size_t max_tokens; /* specials included; 0: no limit */
    enum tok_truncate truncate;
    bool left;        /* cut at the left */
    bool no_specials; /* no [CLS], [SEP], <s>, </s> */
    bool stop_early;  /* what lies behind the limit need not be counted */
    bool tokens;      /* tok_out.tokens is wanted */
};

struct tok_text {
    const char *p;
    size_t len;
};

struct tok_offset { /* bytes of the text it came from; 0,0 for added specials */
    uint32_t begin, end;
};

struct tok_out { /* borrowed from the scratch until its next use */
    const uint32_t *ids;
    const uint8_t *types;    /* token type ids */
    const uint8_t *special;  /* 1: added by the template */
    const uint8_t *sequence; /* 0 first text, 1 second, 255 special */
    const struct tok_offset *offsets;
    /* tok_opts.tokens: as the reference's Encoding.tokens has them: the piece of the vocabulary,
     * but for Unigram's unknown ones what stood there, normalised; else NULL */
    const char *const *tokens;
    size_t count;
    size_t untruncated; /* tokens it would have been; stop_early: at least */
    bool truncated;
    uint32_t cut[2]; /* byte of each text behind its last (left: first) kept token */
};

/* `path` is a tokenizer.json; errors name file and member.  `rules` NULL: the file as it is. */
enum rc tokenizer_load(const char *path, const struct tok_rules *rules, struct tokenizer **out,
                       struct err *err) MUST_USE;
void tokenizer_free(struct tokenizer *t);

size_t tokenizer_vocab_size(const struct tokenizer *t);              /* added tokens included */
const char *tokenizer_token(const struct tokenizer *t, uint32_t id); /* NULL: no such id */
const char *tokenizer_kind(const struct tokenizer *t);               /* "WordPiece", "Unigram" */
bool tokenizer_cuts_left(const struct tokenizer *t); /* longer texts lose their beginning */
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id); /* of those in tok_rules */

struct tok_scratch *tok_scratch_new(void);
void tok_scratch_free(struct tok_scratch *s);

/* `b` NULL: one text. RC_LIMIT when TOK_ONLY_* cannot cut enough, or a text is over
 * TOK_TEXT_MAX. */
enum { TOK_TEXT_MAX = 64 << 20 };
enum rc tokenizer_encode(const struct tokenizer *t, struct tok_scratch *s, struct tok_text a,
                         const struct tok_text *b, const struct tok_opts *opts, struct tok_out *out,
                         struct err *err) MUST_USE;
/* Ids back to text the way the tokenizer's decoder does it. */
enum rc tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t count,
                         bool skip_special, struct buf *out, struct err *err) MUST_USE;

#endif

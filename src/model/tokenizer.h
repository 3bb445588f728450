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
    TOK_CLASS_XLMR /* XLMRobertaTokenizer, CamembertTokenizer */
};

/* A token that is looked for in a text before anything else. */
struct tok_named {
    const char *text;
    bool lstrip, rstrip, single_word, normalized, special;
    bool fresh; /* where the vocabulary lacks it, it gets the next id; else it is passed over */
};

struct tok_rules {
    enum tok_class class;
    const char *class_name;   /* as tokenizer_config.json has it; NULL: by the network's family */
    const char *first, *last; /* the template's tokens; NULL: the class's own */
    const char *unk;          /* BERT, MPNet, CamemBERT: the unknown token; NULL: the class's own */
    const struct tok_named *named; /* beside those of the file */
    size_t named_count;
    bool named_alone; /* a class: instead of those of the file */
    bool camembert;
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
enum rc tokenizer_parse(const char *json, size_t len, const char *name,
                        const struct tok_rules *rules, struct tokenizer **out,
                        struct err *err) MUST_USE;
void tokenizer_free(struct tokenizer *t);

size_t tokenizer_vocab_size(const struct tokenizer *t);              /* added tokens included */
const char *tokenizer_token(const struct tokenizer *t, uint32_t id); /* NULL: no such id */
bool tokenizer_id(const struct tokenizer *t, const char *token, uint32_t *out);
const char *tokenizer_kind(const struct tokenizer *t); /* "WordPiece", "Unigram" */
bool tokenizer_cuts_left(const struct tokenizer *t);   /* longer texts lose their beginning */
size_t tokenizer_specials(const struct tokenizer *t, bool pair); /* tokens the template adds */

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

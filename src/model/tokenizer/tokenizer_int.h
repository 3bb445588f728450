/* SPDX-License-Identifier: MIT */
/* tokenizer_int: what the files of the tokenizer share.
 *
 *   text ─► added tokens (as written) ─► normalise ─► added tokens (normalised)
 *        ─► pre-tokenise ─► model ─► truncate ─► template
 *
 * Text on its way is an array of code points, each with the bytes of the text it came
 * from (struct tok_char): a split or a token is a range of it, its offsets are those of
 * its first and last code point.  Short cuts leave out the array where it cannot matter,
 * tokenizer_bert.c and tokenizer_plain.c for plain words; and pieces are cut at
 * spaces between ASCII letters (tokenizer_encode.c), which keeps a long text in the cache.
 *
 * Invariants
 *  1. Behind tokenizer_encode()'s first step all text is valid UTF-8; offsets are into
 *     that text and mapped back to the caller's bytes once, at the end.
 *  2. A struct tokenizer is never written after tokenizer_parse() has returned.
 *  3. What grows is in the scratch and is kept: no allocation a text once it has seen
 *     the longest one. */
#ifndef MODEL_TOKENIZER_TOKENIZER_INT_H
#define MODEL_TOKENIZER_TOKENIZER_INT_H
#include "base/arena.h"
#include "base/text/json.h"
#include "model/tokenizer.h"
#include "model/tokenizer/unigram_int.h"
#include "model/tokenizer/vocab_int.h"
#include "model/unicode/unicode_int.h"

enum {
    TOK_FILE_MAX = 256 << 20, /* bytes of a tokenizer.json */
    TOK_VOCAB_MAX = 4 << 20,  /* pieces of a vocabulary */
    TOK_ID_MAX = 4 << 20,     /* ids are below it */
    TOK_PIECE_MAX = 1024,     /* bytes of a WordPiece piece */
    TOK_ADDED_MAX = 65536,    /* added tokens */
    TOK_ADDED_BYTES = 1024,   /* bytes of one */
    TOK_WORD_CHARS = 100,     /* of a word, in the WordPiece that a class makes anew */
    TOK_XLMR_UNK = 3,         /* the unknown piece of the Unigram that XLMRobertaTokenizer makes */
    TOK_STEPS_MAX = 32,       /* normalizers, pre-tokenizers in a row */
    TOK_TEMPLATE_MAX = 64,    /* parts of a template, ids of one special token */
    TOK_PATTERN_MAX = 256     /* code points of a Replace pattern, its content, a Prepend */
};

/* ---- growing arrays ---- */
struct tok_char {
    uint32_t c, begin, end;
};

struct tok_chars {
    struct tok_char *v;
    size_t n, cap;
};

struct tok_range { /* of tok_chars */
    uint32_t begin, end;
};

struct tok_ranges {
    struct tok_range *v;
    size_t n, cap;
};

struct tok_item { /* one token of a text; laid out as struct unigram_token */
    uint32_t id, begin, end;
};

struct tok_items {
    struct tok_item *v;
    size_t n, cap;
};

struct tok_fix { /* a bad sequence: U+FFFD at `at` of the clean text was `len` bytes at `from` */
    uint32_t at, from, len;
};

struct tok_clean { /* one text, made valid */
    const char *p;
    size_t len;
    char *copy; /* when there were bad sequences */
    size_t copy_cap;
    struct tok_fix *fixes;
    size_t fixes_n, fixes_cap;
};

struct tok_spaces { /* white space inside an added token's match, for RobertaProcessing */
    uint32_t item, lead, trail;
};

struct tok_unknown { /* what an unknown token stands for: from `at` of unknown_text, to a NUL */
    uint32_t item, at;
};

struct tok_whole { /* a piece while its parts between added tokens are worked on */
    struct tok_chars chars;
    char *bytes;
    size_t bytes_cap;
    uint32_t *pos;
    size_t pos_cap;
};

struct tok_scratch {
    struct tok_clean clean[2];
    struct tok_chars cur, alt; /* the piece being worked on, and what it becomes */
    struct tok_whole whole;
    uint32_t *codes; /* cur for uni_normalize() */
    size_t codes_cap;
    struct uni_norm form;
    struct tok_ranges splits, splits_alt;
    char *bytes; /* cur as UTF-8 */
    size_t bytes_cap;
    uint32_t *pos; /* where each of cur begins in bytes; one more for the end */
    size_t pos_cap;
    struct tok_items items[2]; /* tokens of each text */
    struct tok_spaces *spaces[2];
    size_t spaces_n[2], spaces_cap[2];
    struct tok_unknown *unknown[2]; /* of items, in their order; only while `tokens` */
    size_t unknown_n[2], unknown_cap[2];
    char *unknown_text;
    size_t unknown_len, unknown_text_cap;
    struct unigram_scratch *unigram;
    bool open;      /* an added token took all the space before it: more may be before the piece */
    bool shifted;   /* Precompiled took the first away: offsets of the whole piece moved */
    bool tokens;    /* texts of tokens are wanted */
    int side;       /* which text is worked on */
    size_t enough;  /* tokens of it beyond which nobody looks */
    const char *at; /* its clean bytes */
    uint32_t *ids;  /* what tok_out lends */
    uint8_t *types, *special, *sequence;
    struct tok_offset *offsets;
    const char **texts;
    size_t out_cap, texts_cap;
};

/* Room for `more` elements behind n. */
#define TOK_ROOM(items, n, cap, more)                                                              \
    do {                                                                                           \
        if ((cap) - (n) < (more)) {                                                                \
            (cap) = ((n) + (more)) * 3 / 2 + 64;                                                   \
            (items) = xreallocarray((items), (cap), sizeof(*(items)));                             \
        }                                                                                          \
    } while (0)

/* Every step that goes on by words or chunks asks this between two of them. */
static inline bool tok_has_enough(const struct tok_scratch *s)
{
    return s->items[s->side].n > s->enough;
}

/* Token `id`, about to be the last of the text's items, is `len` bytes at p. */
void tok_note_unknown(struct tok_scratch *s, const char *p, size_t len);

static inline void tok_push(struct tok_chars *a, uint32_t c, struct tok_char from)
{
    a->v[a->n++] = (struct tok_char){ c, from.begin, from.end };
}

void tok_chars_room(struct tok_chars *a, size_t more);
void tok_swap(struct tok_scratch *s); /* cur and alt; alt is empty after */

/* ---- normalizers ---- */
enum norm_kind {
    NORM_BERT,
    NORM_NFC,
    NORM_NFD,
    NORM_NFKC,
    NORM_NFKD,
    NORM_LOWERCASE,
    NORM_STRIP_ACCENTS,
    NORM_STRIP,
    NORM_REPLACE,
    NORM_PRECOMPILED,
    NORM_PREPEND
};

struct norm {
    enum norm_kind kind;
    bool clean, chinese, accents, lower; /* NORM_BERT; accents: strip them */
    bool left, right;                    /* NORM_STRIP */
    const uint32_t *pattern;             /* NORM_REPLACE */
    size_t pattern_len;
    size_t repeat; /* NORM_REPLACE: pattern is one code point, this often or more; 0: literal */
    const uint32_t *content; /* NORM_REPLACE, NORM_PREPEND */
    size_t content_len;
    struct precompiled *precompiled; /* owned */
};

void tok_normalize(const struct norm *steps, size_t count, struct tok_scratch *s);

/* ---- pre-tokenizers ---- */
enum pre_kind { PRE_WHITESPACE_SPLIT, PRE_WHITESPACE, PRE_PUNCTUATION, PRE_METASPACE };
enum pre_behavior { PRE_REMOVED, PRE_ISOLATED, PRE_PREVIOUS, PRE_NEXT, PRE_CONTIGUOUS };
enum pre_prepend { PRE_ALWAYS, PRE_FIRST, PRE_NEVER };

struct pre {
    enum pre_kind kind;
    enum pre_behavior behavior; /* PRE_PUNCTUATION */
    uint32_t replacement;       /* PRE_METASPACE */
    enum pre_prepend prepend;
    bool split;
};

/* Splits cur into s->splits; Metaspace rewrites cur on the way. */
void tok_pretokenize(const struct pre *steps, size_t count, struct tok_scratch *s);

bool tok_is_word(uint32_t c); /* \w of the reference's regular expressions */
bool tok_is_mark(uint32_t c); /* M* as its StripAccents knows it */
static inline bool tok_ascii_punct(uint32_t c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}
bool tok_is_punct(uint32_t c);

/* ---- added tokens ---- */
struct added {
    const char *content;
    size_t len;
    const char *pattern; /* what is looked for: content, or its normalised form */
    size_t pattern_len;
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};

struct added_set {          /* tokens of one kind, sorted by pattern */
    const struct added **v; /* in the arena */
    size_t count;
    bool first[256]; /* bytes a pattern begins with */
};

struct added_hit {
    const struct added *token; /* NULL: text between tokens */
    size_t begin, end;
};

/* Walks a text: *pos is where the search goes on, *done where text not yet given begins
 * (both 0 at first).  False at the end. */
struct added_walk {
    size_t pos, done;
    struct added_hit pending; /* a token found behind text that was given first */
    bool has_pending;
};
bool added_next(const struct added_set *set, const char *text, size_t len, struct added_walk *w,
                struct added_hit *out);
void added_set_build(struct arena *a, struct added_set *set, const struct added *all, size_t count,
                     bool normalized);

/* ---- WordPiece ---- */
struct wordpiece;
/* The vocabulary is borrowed.  NULL: its hashes collide. */
struct wordpiece *wordpiece_new(const struct vocab *v, const char *prefix, size_t max_chars);
void wordpiece_set_unk(struct wordpiece *w, uint32_t id); /* 0 until then */
void wordpiece_free(struct wordpiece *w);
bool wordpiece_find(const struct wordpiece *w, const char *s, size_t len, uint32_t *out);
/* Appends the tokens of a word to items, with offsets in bytes of the word. */
void wordpiece_encode(const struct wordpiece *w, const char *s, size_t len, struct tok_items *out);

#define WORDPIECE_SEED   UINT64_C(0xcbf29ce484222325)
#define WORDPIECE_FACTOR UINT64_C(0x9e3779b97f4a7c15)
/* The whole word as one piece: `hash` is made of its bytes by wordpiece_step(). */
static inline uint64_t wordpiece_step(uint64_t h, unsigned char b)
{
    return (h ^ b) * WORDPIECE_FACTOR;
}
bool wordpiece_whole(const struct wordpiece *w, const char *s, size_t len, uint64_t hash,
                     uint32_t *out);
size_t wordpiece_max_chars(const struct wordpiece *w);

/* ---- template ---- */
enum part_kind { PART_A, PART_B, PART_SPECIAL };
struct template_part {
    enum part_kind kind;
    uint8_t type;
    uint32_t id; /* PART_SPECIAL */
};

struct template
{
    struct template_part *v;
    size_t count;
    size_t specials;
};

enum decoder_kind { DECODE_JOIN, DECODE_WORDPIECE, DECODE_METASPACE, DECODE_UNKNOWN };
struct decoder {
    enum decoder_kind kind;
    const char *name; /* as the file says */
    const char *prefix;
    size_t prefix_len;
    bool cleanup;
    uint32_t replacement;
    bool prepend;
};

struct tokenizer {
    struct arena arena; /* holds everything below that has no owner named */
    struct norm *norms;
    size_t norms_count;
    struct pre *pres;
    size_t pres_count;
    struct added *added;
    size_t added_count;
    struct added_set raw, normal; /* normalized false, true */
    uint32_t *specials;           /* ids of the special tokens in struct tok_rules */
    size_t specials_count;
    struct vocab vocab;          /* the model's */
    size_t size;                 /* texts, added ones included */
    struct wordpiece *wordpiece; /* owned; NULL: Unigram */
    struct unigram *unigram;     /* owned */
    uint32_t unigram_unk;
    struct template one, two;
    bool trim, prefix_space;   /* RobertaProcessing's offsets */
    bool by_class, types_zero; /* struct tok_rules */
    bool left;                 /* where it cuts when nobody says */
    struct decoder decoder;
    bool bert;                /* the short cut of tokenizer_bert.c is exact */
    uint8_t ascii[128];       /* its classes, enum bert_class */
    char lower[128];          /* and what a letter becomes */
    bool chunks;              /* a piece may be cut at a space between ASCII letters */
    bool plain;               /* the short cut of tokenizer_plain.c is exact */
    bool plain_split;         /* WhitespaceSplit comes before Metaspace */
    struct uni_set plain_set; /* what a plain word is made of */
    bool plain_byte[256];     /* the ASCII of it */
    char mark[4];             /* Metaspace's */
    size_t mark_len;
};

/* tokenizer_file.c: every member but the model's vocabulary's content. */
/* Whether the document is one that can be taken without a guess; `root` is an object. */
enum rc tok_check_document(const struct json *root, struct err *err) MUST_USE;
enum rc tok_read_members(struct tokenizer *t, const struct json *root, struct err *err) MUST_USE;
/* tokenizer_rules.c: steps of the file replaced by those of transformers' class. */
enum rc tok_apply_rules(struct tokenizer *t, const struct tok_rules *r, struct err *err) MUST_USE;
void tok_apply_template(struct tokenizer *t, const struct tok_rules *r); /* behind added tokens */
bool tok_class_is_words(const struct tok_rules *r);  /* a class that makes a WordPiece anew */
bool tok_class_is_pieces(const struct tok_rules *r); /* a class that makes a Unigram anew */
/* The token that a name stands for, the class's own with `by_class`; text NULL: none. */
struct tok_token tok_named(const struct tok_rules *r, enum tok_name name, bool by_class);
/* FIRST A LAST B LAST, or with RoBERTa's second separator and no token types. */
void tok_fixed_template(struct tokenizer *t, uint32_t first, uint32_t last, bool roberta);
enum rc tok_read_template(struct tokenizer *t, const struct json *v, struct err *err) MUST_USE;
enum rc tok_read_decoder(struct tokenizer *t, const struct json *v, struct err *err) MUST_USE;
/* tokenizer_vocab.c: model.vocab into t->vocab, where it stands in the file. */
enum rc tok_read_vocab(void *tokenizer, struct json_walk *w, struct err *err) MUST_USE;
/* tokenizer_model.c: the rest of the model. */
enum rc tok_read_model(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                       struct err *err) MUST_USE;
/* tokenizer_tokens.c: added_tokens, and those of the rules. */
enum rc tok_read_added(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                       struct err *err) MUST_USE;
bool tok_model_id(const struct tokenizer *t, const char *s, size_t len, uint32_t *out);

/* tokenizer_bert.c */
void tok_bert_prepare(struct tokenizer *t);
/* One piece without added tokens as written: bytes [begin, end) of s->at. */
void tok_bert_encode(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end);

/* tokenizer_plain.c */
void tok_plain_prepare(struct tokenizer *t);
/* The end of the plain stretch at `begin`, which is `begin` when there is none. */
size_t tok_plain_end(const struct tokenizer *t, const char *p, size_t begin, size_t end);
void tok_plain_encode(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end);

/* tokenizer_encode.c: the long way for one piece; tokenizer_post.c: the rest of the way. */
void tok_piece(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end);
enum rc tok_finish(const struct tokenizer *t, struct tok_scratch *s, bool pair,
                   const struct tok_opts *opts, struct tok_out *out, struct err *err) MUST_USE;
/* An offset of the clean text in the caller's bytes. */
uint32_t tok_unclean(const struct tok_clean *c, uint32_t at);

/* ---- tokenizer.c */
/* NULL: none. */
const struct added *added_of_id(const struct tokenizer *t, uint32_t id);
struct added *added_of_text(const struct tokenizer *t, const char *text, size_t len);
/* tokenizer_load() of a text; `name` is for messages. */
enum rc tokenizer_parse(const char *json, size_t len, const char *name,
                        const struct tok_rules *rules, struct tokenizer **out,
                        struct err *err) MUST_USE;
bool tokenizer_id(const struct tokenizer *t, const char *token, uint32_t *out);
size_t tokenizer_specials(const struct tokenizer *t, bool pair); /* tokens the template adds */

#endif

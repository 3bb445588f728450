/* SPDX-License-Identifier: MIT */
/* unigram: the Unigram model and its Precompiled normaliser, for the tokenizer only. */
#ifndef MODEL_TOKENIZER_UNIGRAM_INT_H
#define MODEL_TOKENIZER_UNIGRAM_INT_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct unigram;
struct unigram_piece {
    const char *text; /* borrowed while building */
    size_t len;
    double score;
};

enum {
    UNIGRAM_PIECES_MAX = 4 << 20,
    UNIGRAM_PIECE_BYTES_MAX = 4096,
    UNIGRAM_TEXT_MAX = 1 << 30 /* bytes of a pre-token; the callers see to it */
};
/* RC_LIMIT for more than that, RC_PARSE for no pieces, `unk_id` outside them or a score
 * that is no finite number.  Of equal pieces the last one counts, as in the library. */
enum rc unigram_new(const struct unigram_piece *pieces, size_t count, uint32_t unk_id,
                    bool byte_fallback, struct unigram **out, struct err *err) MUST_USE;
/* The same with a vocabulary whose ids are 0, 1, 2 …, which is borrowed for good. */
struct vocab;
enum rc unigram_of(const struct vocab *v, uint32_t unk_id, bool byte_fallback, struct unigram **out,
                   struct err *err) MUST_USE;
void unigram_free(struct unigram *u);
/* The id of the piece with this text. */
bool unigram_find(const struct unigram *u, const char *text, size_t len, uint32_t *out);

struct unigram_token {
    uint32_t id;
    uint32_t begin, end; /* bytes of the text given */
};
struct unigram_scratch; /* one a thread, grows */
struct unigram_scratch *unigram_scratch_new(void);
void unigram_scratch_free(struct unigram_scratch *s);
/* Viterbi over each of some pre-tokens of a text; tokens are borrowed from the scratch until
 * its next use. */
struct unigram_span {
    uint32_t begin, end;
};
size_t unigram_encode_all(const struct unigram *u, struct unigram_scratch *s, const char *text,
                          const struct unigram_span *spans, size_t count,
                          const struct unigram_token **out);
/* The whole text as one pre-token. */
size_t unigram_encode(const struct unigram *u, struct unigram_scratch *s, const char *text,
                      size_t len, const struct unigram_token **out);

/* ---- Precompiled ---- */
struct precompiled;
enum { PRECOMPILED_BYTES_MAX = 64 << 20 };
/* The blob of "precompiled_charsmap", base64 already taken off; checked, copied.  RC_PARSE
 * for one that lies about itself. */
enum rc precompiled_new(const void *blob, size_t len, struct precompiled **out,
                        struct err *err) MUST_USE;
void precompiled_free(struct precompiled *p);
/* Characters that stay as they are wherever none but these stand beside them. */
struct uni_set;
const struct uni_set *precompiled_plain(const struct precompiled *p);
/* Calls emit(arg, src, src_len, text, text_len) in order of the text, which it covers
 * without gaps.  Either `text` is `s + src` itself: these bytes, one character or many,
 * stay; or the bytes were replaced as one chunk (a character or a grapheme cluster) by
 * `text`, which may be empty.  `s` is UTF-8; of other bytes each stays. */
void precompiled_apply(const struct precompiled *p, const char *s, size_t len,
                       void (*emit)(void *arg, size_t src, size_t src_len, const char *text,
                                    size_t text_len),
                       void *arg);

#endif

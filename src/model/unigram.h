/* SPDX-License-Identifier: MIT */
/* unigram: the Unigram model and its Precompiled normaliser, for the tokenizer alone. */
#ifndef MODEL_UNIGRAM_H
#define MODEL_UNIGRAM_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct unigram;
struct unigram_piece {
    const char *text; /* borrowed while building */
    size_t len;
    double score;
};

enum { UNIGRAM_PIECES_MAX = 4 << 20 };
enum rc unigram_new(const struct unigram_piece *pieces, size_t count, uint32_t unk_id,
                    bool byte_fallback, struct unigram **out, struct err *err) MUST_USE;
void unigram_free(struct unigram *u);

struct unigram_token {
    uint32_t id;
    uint32_t begin, end; /* bytes of the text given */
};
struct unigram_scratch; /* one a thread, grows */
struct unigram_scratch *unigram_scratch_new(void);
void unigram_scratch_free(struct unigram_scratch *s);
/* Viterbi over one pre-token; tokens are borrowed from the scratch until its next use. */
size_t unigram_encode(const struct unigram *u, struct unigram_scratch *s, const char *text,
                      size_t len, const struct unigram_token **out);

/* ---- Precompiled ---- */
struct precompiled;
/* The blob of "precompiled_charsmap", base64 already taken off; checked, copied. */
enum rc precompiled_new(const void *blob, size_t len, struct precompiled **out,
                        struct err *err) MUST_USE;
void precompiled_free(struct precompiled *p);
/* Calls emit(arg, src_begin, src_len, text, text_len) for each chunk in order: the bytes
 * src_begin.. of `s` become `text` (the same bytes when nothing changes). */
void precompiled_apply(const struct precompiled *p, const char *s, size_t len,
                       void (*emit)(void *arg, size_t src, size_t src_len, const char *text,
                                    size_t text_len),
                       void *arg);

#endif

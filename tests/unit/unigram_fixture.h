/* SPDX-License-Identifier: MIT */
/* unigram_fixture: a Unigram tokenizer.json read just far enough to test our two parts of
 * it: Precompiled, then split at white space, U+2581 before each word, then the model.
 * tests/parity/tokens.py builds the same pipeline with the reference library. */
#ifndef TESTS_UNIGRAM_FIXTURE_H
#define TESTS_UNIGRAM_FIXTURE_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "model/tokenizer/unigram_int.h"
#include "model/unicode/unicode_int.h"

#include <stdio.h>
#include <string.h>

struct fixture {
    struct unigram *unigram;
    struct precompiled *map; /* NULL: the file has none */
    struct unigram_scratch *scratch;
    struct buf text, word; /* normalised line; one pre-token */
    uint32_t *ids;         /* of the last line */
    size_t count, cap;
};

static inline bool fixture_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rbe");
    char chunk[1 << 16];
    size_t n;

    if (!f)
        return false;
    buf_init(out, (size_t)256 << 20);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buf_add(out, chunk, n);
    return fclose(f) == 0 && !out->over;
}

static inline void fixture_base64(const char *s, struct buf *out)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0, have = 0;

    for (; *s && *s != '='; s++) {
        const char *at = strchr(set, *s);
        if (!at)
            return;
        bits = bits << 6 | (unsigned)(at - set);
        have += 6;
        if (have >= 8)
            buf_addc(out, (char)(bits >> (have -= 8) & 0xFF));
    }
}

/* The caller frees the array; its texts are the tree's. */
static inline struct unigram_piece *fixture_pieces(const struct json *model, size_t *count)
{
    const struct json *vocab = json_get(model, "vocab");
    size_t n = 0;

    *count = vocab ? vocab->count : 0;
    struct unigram_piece *pieces = xcalloc(*count + 1, sizeof(*pieces));
    for (const struct json *v = vocab ? vocab->first : NULL; v; v = v->next, n++) {
        const struct json *text = json_at(v, 0);
        if (text)
            pieces[n] = (struct unigram_piece){ text->text, text->len, json_num(json_at(v, 1), 0) };
    }
    return pieces;
}

static inline enum rc fixture_model(struct fixture *f, const struct json *model, struct err *err)
{
    size_t count;
    struct unigram_piece *pieces = fixture_pieces(model, &count);
    uint32_t unk = (uint32_t)maybe_or(json_int(json_get(model, "unk_id")), 0);
    bool bytes = maybe_is(json_bool(json_get(model, "byte_fallback")), 1);
    enum rc rc = unigram_new(pieces, count, unk, bytes, &f->unigram, err);

    free(pieces);
    return rc;
}

static inline enum rc fixture_load(const char *path, struct fixture *f, struct err *err)
{
    struct arena a = { 0 };
    struct buf text = { 0 }, blob = { 0 };
    struct json *top = NULL;
    enum rc rc;

    *f = (struct fixture){ .scratch = unigram_scratch_new() };
    buf_init(&f->text, (size_t)256 << 20);
    buf_init(&f->word, (size_t)256 << 20);
    if (!fixture_file(path, &text))
        rc = err_set(err, RC_FAIL, "could not read '%s'", path);
    else
        rc = json_parse(&a, text.data, text.len, &top, err);
    if (!rc)
        rc = fixture_model(f, json_get(top, "model"), err);
    const char *map = json_str(json_get(json_get(top, "normalizer"), "precompiled_charsmap"));
    if (!rc && map) {
        fixture_base64(map, &blob);
        rc = precompiled_new(blob.data, blob.len, &f->map, err);
    }
    buf_release(&text);
    buf_release(&blob);
    arena_release(&a);
    return rc;
}

static inline void fixture_release(struct fixture *f)
{
    unigram_free(f->unigram);
    precompiled_free(f->map);
    unigram_scratch_free(f->scratch);
    buf_release(&f->text);
    buf_release(&f->word);
    free(f->ids);
}

static inline void fixture_emit(void *arg, size_t src, size_t src_len, const char *text, size_t len)
{
    (void)src;
    (void)src_len;
    buf_add(arg, text, len);
}

static inline void fixture_piece(struct fixture *f, const char *text, size_t len)
{
    const struct unigram_token *tokens;
    size_t n = unigram_encode(f->unigram, f->scratch, text, len, &tokens);

    for (size_t i = 0; i < n; i++) {
        VEC_GROW(f->ids, f->count, f->cap);
        f->ids[f->count++] = tokens[i].id;
    }
}

/* Metaspace: the mark before the word, then a piece from each mark to the next. */
static inline void fixture_word(struct fixture *f, const char *text, size_t len)
{
    static const char mark[] = "\xE2\x96\x81";
    const char *p, *end, *next;

    buf_reset(&f->word);
    if (len < 3 || memcmp(text, mark, 3) != 0)
        buf_add(&f->word, mark, 3);
    buf_add(&f->word, text, len);
    p = f->word.data;
    end = p + f->word.len;
    for (; p < end; p = next) {
        next = memmem(p + 1, (size_t)(end - p - 1), mark, 3);
        if (!next)
            next = end;
        fixture_piece(f, p, (size_t)(next - p));
    }
}

/* The ids of a line of UTF-8 are f->ids[0, f->count). */
static inline void fixture_line(struct fixture *f, const char *s, size_t len)
{
    size_t begin = 0, at = 0, n;
    uint32_t c;

    f->count = 0;
    buf_reset(&f->text);
    if (f->map)
        precompiled_apply(f->map, s, len, fixture_emit, &f->text);
    else
        buf_add(&f->text, s, len);
    s = buf_str(&f->text);
    len = f->text.len;
    for (; at < len; at += n) {
        n = utf8_decode(s + at, len - at, &c);
        n = n ? n : 1;
        if (!uni_is_space(c))
            continue;
        if (at > begin)
            fixture_word(f, s + begin, at - begin);
        begin = at + n;
    }
    if (at > begin)
        fixture_word(f, s + begin, at - begin);
}

#endif

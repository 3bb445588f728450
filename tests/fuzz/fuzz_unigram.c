/* SPDX-License-Identifier: MIT */
/* A vocabulary and a text from bytes: tokens must cover the text without a gap, twice the
 * same.  Input: flags, then pieces as length, score, bytes; length 0 ends them; the rest
 * is the text. */
#include "fuzz.h"

#include "model/tokenizer/unigram_int.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 200 };

static void check(const struct unigram_token *t, size_t n, size_t len)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && t[i].begin == t[i - 1].begin && t[i].end == t[i - 1].end;
        if (!same && t[i].begin != at) /* byte pieces share their offsets */
            abort();
        at = t[i].end;
    }
    if (at != len)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct unigram_piece pieces[PIECES_MAX];
    struct unigram_scratch *s;
    const struct unigram_token *t;
    struct unigram *u;
    size_t at = 1, count = 0;

    while (at + 2 <= size && data[at] && count < PIECES_MAX) {
        size_t len = data[at];
        if (len > size - at - 2)
            len = size - at - 2;
        pieces[count++] = (struct unigram_piece){ (const char *)data + at + 2, len,
                                                  (double)(int8_t)data[at + 1] };
        at += 2 + len;
    }
    at = at + 1 < size ? at + 1 : size;
    if (unigram_new(pieces, count, size ? data[0] >> 1 : 0, size && data[0] & 1, &u, NULL))
        return 0;
    s = unigram_scratch_new();
    for (int round = 0; round < 2; round++) {
        size_t n = unigram_encode(u, s, (const char *)data + at, size - at, &t);
        check(t, n, size - at);
    }
    unigram_scratch_free(s);
    unigram_free(u);
    return 0;
}

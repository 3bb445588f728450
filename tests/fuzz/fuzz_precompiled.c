/* SPDX-License-Identifier: MIT */
/* A character map from bytes, and a text: chunks must cover the text without a gap.  The
 * first two bytes say how many bytes at the end are the text. */
#include "fuzz.h"

#include "model/tokenizer/unigram_int.h"

#include <stdlib.h>
#include <string.h>

struct seen {
    size_t at, written;
};

static void emit(void *arg, size_t src, size_t src_len, const char *text, size_t len)
{
    struct seen *k = arg;

    if (src != k->at || src_len == 0 || (len && memchr(text, '\0', len) && src_len != len))
        abort();
    k->at += src_len;
    k->written += len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct precompiled *p;
    struct seen k = { 0 };

    if (size < 2)
        return 0;
    size_t text = (size_t)data[0] | (size_t)data[1] << 8, rest = size - 2;
    text = text < rest ? text : rest;
    if (precompiled_new(data + 2, rest - text, &p, NULL))
        return 0;
    precompiled_apply(p, (const char *)data + size - text, text, emit, &k);
    if (k.at != text)
        abort();
    precompiled_free(p);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* A form fed whole and in random pieces gives the same parts; a line of it is read as one of a
 * batch.  The first line of the input is the Content-Type. */
#include "fuzz.h"

#include "serve/bulk/multipart_int.h"
#include "serve/bulk/offline_int.h"

#include <stdlib.h>
#include <string.h>

static enum rc take(void *arg, const struct multipart_part *part, const char *data, size_t len,
                    struct err *err)
{
    struct buf *out = arg;

    (void)err;
    if (!data)
        buf_addf(out, "[%s|%s]", part->name, part->filename);
    else
        buf_add(out, data, len);
    return RC_OK;
}

static void feed(const char *type, const char *data, size_t size, uint32_t seed, struct buf *out)
{
    struct multipart m;
    enum rc rc = multipart_init(&m, type, NULL);

    m.take = take;
    m.arg = out;
    for (size_t at = 0; rc == RC_OK && at < size;) {
        struct err err = { 0 };
        size_t piece = size - at;

        seed = seed ? seed * 1664525U + 1013904223U : 0;
        if (seed && piece > 1)
            piece = 1 + (seed >> 8) % (piece < 40 ? piece : 40);
        char *exact = malloc(piece);
        memcpy(exact, data + at, piece);
        rc = multipart_feed(&m, exact, piece, &err);
        free(exact);
        at += piece;
    }
    if (rc == RC_OK)
        rc = multipart_finish(&m, NULL);
    if (rc != RC_OK)
        buf_reset(out); /* what came before a fault depends on the pieces */
    buf_addf(out, "%d", rc != RC_OK);
    multipart_release(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *nl = size ? memchr(text, '\n', size) : NULL, *code;
    struct buf whole = { 0 }, pieces = { 0 };
    struct arena a = { 0 };
    struct offline_line line;
    char type[256], why[256];
    size_t len = nl ? (size_t)(nl - text) : 0;

    if (offline_line_read(&a, text, size, "/v1/embeddings", &line, &code, why, sizeof(why)) &&
        (!line.custom_id[0] || !line.body))
        abort();
    arena_release(&a);
    if (!nl || len >= sizeof(type))
        return 0;
    memcpy(type, text, len);
    type[len] = '\0';
    feed(type, nl + 1, size - len - 1, 0, &whole);
    feed(type, nl + 1, size - len - 1, (uint32_t)size | 1, &pieces);
    if (whole.len != pieces.len || memcmp(whole.data, pieces.data, whole.len) != 0)
        abort();
    buf_release(&whole);
    buf_release(&pieces);
    return 0;
}

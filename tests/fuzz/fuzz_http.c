/* SPDX-License-Identifier: MIT */
/* Requests fed whole and in random pieces give the same result: requests, bodies, fault. */
#include "fuzz.h"

#include "base/buf.h"
#include "http/http_int.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 4096, REQUESTS_MAX = 64 };

static void say(struct buf *b, const struct http_request *r, bool keeps)
{
    char value[64];

    if (r->body[r->body_len] != '\0' || r->path[0] != '/' || r->field_count > HTTP_FIELDS_MAX ||
        r->body_len > BODY_MAX)
        abort();
    buf_addf(b, "%d %s ? %s keep %d body %zu:", r->method, r->path, r->query, keeps, r->body_len);
    buf_add(b, r->body, r->body_len);
    for (size_t i = 0; i < r->field_count; i++)
        buf_addf(b, "\n%s=%s", r->fields[i].name, r->fields[i].value);
    if (http_field(r, "host"))
        buf_adds(b, http_field(r, "host"));
    if (http_query(r, "a", value, sizeof(value)))
        buf_adds(b, value);
    buf_addc(b, '\n');
}

/* Feeds all of it; seed 0: at once. */
static void feed(const char *data, size_t size, uint32_t seed, struct buf *out)
{
    struct http_parser p;
    enum http_step step = HTTP_MORE;
    size_t at = 0, requests = 0;

    http_parser_init(&p, BODY_MAX);
    while ((at < size || step == HTTP_HEAD_DONE) && requests < REQUESTS_MAX) {
        size_t piece = size - at, used;
        char *exact; /* its own block: a byte too far is seen */

        seed = seed ? seed * 1664525U + 1013904223U : 0;
        if (seed && piece > 1)
            piece = 1 + (seed >> 8) % (piece < 40 ? piece : 40);
        exact = malloc(piece + 1);
        memcpy(exact, data + at, piece);
        used = http_parse(&p, exact, piece, &step);
        if (used > piece || (step == HTTP_MORE && used != piece))
            abort();
        free(exact);
        at += used;
        if (step == HTTP_BAD) {
            buf_addf(out, "bad %d %s", p.status, p.why);
            break;
        }
        if (step == HTTP_DONE) {
            struct http_request r = { 0 };
            struct http_parsed own;
            bool keeps = http_parser_keeps(&p);

            http_parser_take(&p, &r, &own);
            say(out, &r, keeps);
            free(own.head);
            free(own.fields);
            free(own.body);
            requests++;
        }
    }
    http_parser_release(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = { 0 }, pieces = { 0 };
    uint32_t seed = 1;

    for (size_t i = 0; i < size; i++)
        seed = seed * 31 + data[i];
    feed((const char *)data, size, 0, &whole);
    for (int i = 0; i < 3; i++) {
        buf_reset(&pieces);
        feed((const char *)data, size, seed + (uint32_t)i * 2 + 1, &pieces);
        if (whole.len != pieces.len ||
            (whole.len && memcmp(whole.data, pieces.data, whole.len) != 0))
            abort();
    }
    buf_release(&whole);
    buf_release(&pieces);
    return 0;
}

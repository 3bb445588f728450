/* SPDX-License-Identifier: MIT */
/* request_bytes: what all requests together may hold in memory.
 *
 * A short request can ask for much: a body that grows when it is unpacked or becomes a tree, a
 * vector for each token, a list of millions of tokens.  Such a piece is counted, before it is made
 * where that can be, with the text of the reply that will be made of it, until the reply has been
 * sent: the request counts it first, the HTTP server from then on.  Bodies as they came have a
 * limit of their own (HTTP_BODIES_BYTES_MAX), lines of streams and batches their windows
 * (lines_int.h). */
#include "serve/serve_int.h"

bool request_take_bytes(struct request *r, size_t bytes)
{
    size_t most = r->s->o.calls_bytes_max, held = atomic_load(&r->s->requests_bytes), sent;

    if (r->line) { /* which may run before the HTTP server does */
        r->fault.retry_after_s = 1;
        return r->line->takes(r->line, bytes) ||
               request_fail(r, FAULT_OVERLOADED, NULL,
                            "lines before it hold what there is of memory (--calls-max)");
    }
    sent = http_replies_bytes(r->s->http);
    if (r->bytes + bytes > most)
        return request_fail(
            r, FAULT_TOO_LARGE, NULL,
            "it needs %zu MiB of memory, %zu at most for all (--calls-max): ask for "
            "less at a time",
            (r->bytes + bytes) >> 20, most >> 20);
    do {
        if (held + sent + bytes > most) {
            r->fault.retry_after_s = 1;
            return request_fail(
                r, FAULT_OVERLOADED, NULL,
                "it needs %zu MiB of memory and others hold %zu of %zu (--calls-max)",
                (r->bytes + bytes) >> 20, (held + sent - r->bytes) >> 20, most >> 20);
        }
    } while (!atomic_compare_exchange_weak(&r->s->requests_bytes, &held, held + bytes));
    r->bytes += bytes;
    return true;
}

void request_give_bytes(struct request *r)
{
    atomic_fetch_sub(&r->s->requests_bytes, r->bytes);
    r->bytes = 0;
}

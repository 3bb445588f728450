/* SPDX-License-Identifier: MIT */
/* call_bytes: what all calls together may hold in memory.
 *
 * A short request can ask for much: a body that grows when it is unpacked or becomes a tree, a
 * vector for each token, a list of millions of tokens.  Such a piece is counted, before it is
 * made where that can be, with the text of the reply that will be made of it, until the reply
 * has been sent: the call counts it first, the HTTP server from then on.  Bodies as they came
 * have a limit of their own (HTTP_BODIES_BYTES_MAX), lines of streams and batches their windows
 * (lines_int.h). */
#include "serve/serve_int.h"

bool call_take_bytes(struct call *c, size_t bytes)
{
    size_t most = c->s->o.calls_bytes_max, held = atomic_load(&c->s->calls_bytes), sent;

    if (c->line) { /* which may run before the HTTP server does */
        c->fault.retry_after_s = 1;
        return c->line->takes(c->line, bytes) ||
               ask_fault(&c->fault, ASK_E_OVERLOADED, NULL,
                         "lines before it hold what there is of memory (--calls-max)");
    }
    sent = http_replies_bytes(c->s->http);
    if (c->bytes + bytes > most)
        return ask_fault(&c->fault, ASK_E_TOO_LARGE, NULL,
                         "it needs %zu MiB of memory, %zu at most for all (--calls-max): ask for "
                         "less at a time",
                         (c->bytes + bytes) >> 20, most >> 20);
    do {
        if (held + sent + bytes > most) {
            c->fault.retry_after_s = 1;
            return ask_fault(&c->fault, ASK_E_OVERLOADED, NULL,
                             "it needs %zu MiB of memory and others hold %zu of %zu (--calls-max)",
                             (c->bytes + bytes) >> 20, (held + sent - c->bytes) >> 20, most >> 20);
        }
    } while (!atomic_compare_exchange_weak(&c->s->calls_bytes, &held, held + bytes));
    c->bytes += bytes;
    return true;
}

void call_give_bytes(struct call *c)
{
    atomic_fetch_sub(&c->s->calls_bytes, c->bytes);
    c->bytes = 0;
}

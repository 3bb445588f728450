/* SPDX-License-Identifier: MIT */
/* Replies of servers.  The first byte says how large the pieces are; the same bytes whole
 * must give the same answer, and what is read from bodies must not fall over. */
#include "fuzz.h"

#include "base/buf.h"
#include "bench/bench_int.h"
#include "os/net/net_int.h"

#include <stdlib.h>
#include <string.h>

struct answer {
    enum reply_state state;
    struct reply reply;
    struct buf body;
    size_t used;
};

static void feed(struct answer *a, const char *p, size_t len, size_t step)
{
    memset(a, 0, sizeof(*a));
    reply_reset(&a->reply, &a->body);
    while (a->used < len && a->state == REPLY_MORE) {
        size_t n = len - a->used < step ? len - a->used : step, used;

        a->state = reply_feed(&a->reply, p + a->used, n, &used);
        a->used += used;
    }
    if (a->state == REPLY_MORE)
        a->state = reply_eof(&a->reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct answer whole, parts;
    struct check_found f;

    if (size < 1 || size > 1 << 16)
        return 0;
    feed(&whole, (const char *)data + 1, size - 1, size);
    feed(&parts, (const char *)data + 1, size - 1, (size_t)data[0] % 61 + 1);
    if (whole.state != parts.state || whole.reply.status != parts.reply.status ||
        whole.body.len != parts.body.len ||
        (whole.state == REPLY_DONE && whole.used != parts.used) ||
        whole.reply.tokens != parts.reply.tokens || whole.reply.close != parts.reply.close)
        abort();
    if (whole.reply.last_len != parts.reply.last_len ||
        memcmp(whole.reply.last, parts.reply.last, whole.reply.last_len))
        abort();
    (void)check_tokens(&whole.reply);
    if (!check_body(buf_str(&whole.body), whole.body.len, &f, NULL) && f.vectors && !f.width)
        abort();
    if (!check_body((const char *)data, size, &f, NULL) && f.vectors && !f.width)
        abort();
    buf_release(&whole.body);
    buf_release(&parts.body);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* What a worker that has gone mad may write: its messages, and every byte of the page it shares.
 * The first byte says which of the two the rest is. */
#include "fuzz.h"

#include "engine/worker/worker_msg_int.h"
#include "engine/worker/worker_ring_int.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_FROM = 8, PAGE_BYTES = 6144, FLOATS = 64 };

static void message(const uint8_t *data, size_t size)
{
    struct err err = { 0 };
    static struct msg_response a, raw;
    static struct msg_request request, raw_ask;

    /* short ones lie over one that is right but for them */
    msg_response_init(&raw, MSG_REPLY);
    memcpy(&raw, data, size < sizeof(raw) ? size : sizeof(raw));
    if (msg_response_read(&raw, sizeof(raw), &a) && msg_response_rc(&a, &err) != (enum rc)a.rc)
        abort();
    if (msg_response_read(data, size, &a) && size != sizeof(a))
        abort();
    msg_request_init(&raw_ask, MSG_LOAD);
    memcpy(&raw_ask, data, size < sizeof(raw_ask) ? size : sizeof(raw_ask));
    if (msg_request_read(&raw_ask, sizeof(raw_ask), &request) &&
        (request.dtype >= ENG_DTYPES || strlen(request.dir) >= sizeof(request.dir)))
        abort();
}

static void page(struct wring *r, const uint8_t *data, size_t size)
{
    static const _Atomic bool fine;
    struct wring_patience p = { .lost = &fine };
    float out[FLOATS];

    memset((char *)r->page + PAGE_FROM, 0, PAGE_BYTES - PAGE_FROM);
    memcpy((char *)r->page + PAGE_FROM, data,
           size < PAGE_BYTES - PAGE_FROM ? size : PAGE_BYTES - PAGE_FROM);
    for (uint32_t t = 0; t < WRING_SLOTS; t++) {
        struct wring_work w;
        struct err err = { 0 };

        (void)wring_ready(r, t, 0, 0);
        if (wring_work(r, t, &w, &err) == RC_OK &&
            (!w.tokens || w.batch.starts[w.batch.sequences] != w.tokens))
            abort();
        if (wring_await(r, t, &p) == WRING_DONE)
            (void)wring_take(r, t, out, FLOATS, &err);
    }
    (void)worker_call_name(wring_call(r, WRING_BATCHES));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wring r;

    if (!r.page && wring_new(&r, NULL) != RC_OK)
        abort();
    if (size && data[0] & 1)
        page(&r, data + 1, size - 1);
    else if (size)
        message(data + 1, size - 1);
    return 0;
}

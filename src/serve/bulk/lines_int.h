/* SPDX-License-Identifier: MIT */
/* lines: many requests of one source, a few of them under way at a time, answered in order.
 *
 * The lines of a batch and those of a stream are requests like any client's (serve_int.h), so that
 * a reply is the same by either way.  A window holds those that were begun; its owner, one thread,
 * puts lines in at one end and takes replies at the other:
 *
 *     line_window_put() ─► frontend ─► scheduler ─► … ─► line_window_oldest(), line_window_pop()
 *
 * Memory is bounded by what the window may hold: lines by their bytes, replies by the largest one
 * seen of late, so that a source of large replies has few of them under way.  It opens slowly.
 * What a line will hold is counted as soon as it is known, in the server's sum too
 * (request_bytes.c): one behind the oldest is put off where that is too much.  A line that is
 * refused because the server is busy or its model is loading is put again. */
#ifndef SERVE_BULK_LINES_INT_H
#define SERVE_BULK_LINES_INT_H
#include "serve/serve_int.h"

#include <pthread.h>

enum {
    LINE_WINDOW_MAX = 512,              /* lines under way of one source */
    LINE_WINDOW_FIRST = 2,              /* before a reply's size is known */
    LINE_WINDOW_TEXT_BYTES = 4 << 20,   /* of lines under way, or one line */
    LINE_WINDOW_REPLY_BYTES = 16 << 20, /* of replies under way, or one reply */
    LINE_WINDOW_BYTES_MAX = 32 << 20,   /* that lines behind the oldest hold, as it is foreseen */
    LINE_AGAIN_MS = 250,                /* before a line is put again */
    LINE_ID_MAX = 512                   /* bytes of a custom_id */
};

struct line_slot {
    struct request_line request;
    char *text; /* the body, owned */
    uint64_t number;
    char *custom_id; /* owned; NULL: it has none */
    bool done;
    int status;
    enum fault_kind kind; /* where the status is not 200 */
    struct buf reply;
    size_t bytes; /* that it holds or will, in the window's and the server's sum */
    struct line_window *window;
};

struct line_window {
    struct serve *s;
    const struct serve_route *api;
    const char *query; /* of the request they came with; borrowed */
    uint64_t client;
    int64_t deadline_ns;
    _Atomic bool gone; /* nobody wants the replies: set by any thread */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct line_slot slots[LINE_WINDOW_MAX];
    size_t first, count, most; /* most: that may be under way now */
    size_t text_bytes, reply_largest;
    size_t bytes; /* of all slots, under the lock */
};

void line_window_init(struct line_window *w, struct serve *s, const struct serve_route *api,
                      const char *owner, const char *query, int64_t deadline_ns);
void line_window_release(struct line_window *w); /* waits for what is under way */
bool line_window_full(const struct line_window *w);
/* Takes `body` (a JSON value) and `custom_id`, both from malloc; the latter may be NULL. */
void line_window_put(struct line_window *w, uint64_t number, char *custom_id, char *body,
                     size_t body_len);
/* A line that is answered without a request: takes what is in `reply`. */
void line_window_put_reply(struct line_window *w, uint64_t number, char *custom_id, int status,
                           struct buf *reply);
/* The oldest line once it has its reply; NULL: not within `wait_ms`, or the window is empty. */
struct line_slot *line_window_oldest(struct line_window *w, int wait_ms);
void line_window_pop(struct line_window *w);

#endif

/* SPDX-License-Identifier: MIT */
/* lines: the window of lines that are under way (lines_int.h says what for).
 *
 * Its owner's thread adds slots at one end and takes them from the other; frontend and device
 * threads only ever finish one, under the lock.  How many may be under way doubles as long as all
 * goes well, and is halved when a line is refused because the server is busy; such a line is put
 * again, and nobody else hears of it. */
#include "serve/bulk/lines_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>

void line_window_init(struct line_window *w, struct serve *s, const struct serve_route *api,
                      const char *owner, const char *query, int64_t deadline_ns)
{
    memset(w, 0, sizeof(*w));
    w->s = s;
    w->api = api;
    w->query = query;
    w->client = request_client(owner);
    w->deadline_ns = deadline_ns;
    w->most = LINE_WINDOW_FIRST;
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->ended);
}

void line_window_release(struct line_window *w)
{
    atomic_store(&w->gone, true);
    while (w->count) {
        if (line_window_oldest(w, 1000))
            line_window_pop(w);
    }
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
}

bool line_window_full(const struct line_window *w)
{
    return w->count >= w->most ||
           (w->count && (w->text_bytes >= LINE_WINDOW_TEXT_BYTES ||
                         atomic_load(&w->s->requests_bytes) >= w->s->o.calls_bytes_max));
}

static struct line_slot *slot_at(struct line_window *w, size_t i)
{
    return &w->slots[(w->first + i) % LINE_WINDOW_MAX];
}

/* The lock is held. */
static void hold_bytes(struct line_slot *slot, size_t bytes)
{
    struct line_window *w = slot->window;

    atomic_fetch_add(&w->s->requests_bytes, bytes - slot->bytes); /* modulo 2^64 */
    w->bytes += bytes - slot->bytes;
    slot->bytes = bytes;
}

/* On any thread.  The oldest has to go on, whatever it is: others wait for it. */
static bool line_takes(struct request_line *l, size_t bytes)
{
    struct line_slot *slot = l->arg;
    struct line_window *w = slot->window;
    bool ok;

    pthread_mutex_lock(&w->lock);
    ok = slot == slot_at(w, 0) ||
         (w->bytes + bytes <= LINE_WINDOW_BYTES_MAX &&
          atomic_load(&w->s->requests_bytes) + bytes <= w->s->o.calls_bytes_max);
    if (ok)
        hold_bytes(slot, slot->bytes + bytes);
    pthread_mutex_unlock(&w->lock);
    return ok;
}

/* On any thread: the last that the request does with its line. */
static void line_done(struct request_line *l, int status, struct buf *body,
                      const struct request_fault *f)
{
    struct line_slot *slot = l->arg;
    struct line_window *w = slot->window;

    pthread_mutex_lock(&w->lock);
    slot->status = status;
    slot->kind = f ? f->kind : FAULT_BACKEND;
    slot->reply = *body;
    *body = (struct buf){ 0 };
    hold_bytes(slot, slot->reply.len);
    slot->done = true;
    if (slot == slot_at(w, 0))
        pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

static void begin_line(struct line_window *w, struct line_slot *slot)
{
    slot->request.http.begun_ns = clock_mono_ns();
    frontend_take_line(w->s->frontend, &slot->request);
}

/* The lock is held by none: the owner alone adds and takes. */
static struct line_slot *new_slot(struct line_window *w, uint64_t number, char *custom_id)
{
    struct line_slot *slot = slot_at(w, w->count);

    assert(w->count < LINE_WINDOW_MAX);
    *slot = (struct line_slot){ .number = number, .custom_id = custom_id, .window = w };
    return slot;
}

void line_window_put(struct line_window *w, uint64_t number, char *custom_id, char *body,
                     size_t body_len)
{
    struct line_slot *slot = new_slot(w, number, custom_id);

    slot->text = body;
    slot->request = (struct request_line){ .http = { .method = HTTP_POST,
                                                     .path = w->api->path,
                                                     .query = w->query ? w->query : "",
                                                     .body = body,
                                                     .body_len = body_len,
                                                     .peer = "",
                                                     .id = number },
                                           .api = w->api,
                                           .client = w->client,
                                           .deadline_ns = w->deadline_ns,
                                           .gone = &w->gone,
                                           .takes = line_takes,
                                           .done = line_done,
                                           .arg = slot };
    w->text_bytes += body_len;
    w->count++;
    begin_line(w, slot);
}

void line_window_put_reply(struct line_window *w, uint64_t number, char *custom_id, int status,
                           struct buf *reply)
{
    struct line_slot *slot = new_slot(w, number, custom_id);

    slot->status = status;
    slot->kind = FAULT_INVALID;
    slot->reply = *reply;
    *reply = (struct buf){ 0 };
    slot->done = true;
    w->count++;
}

/* The server would take it at another time. */
static bool is_refused_now(const struct line_window *w, const struct line_slot *slot)
{
    return slot->status != 200 && slot->text && !atomic_load(&w->gone) &&
           !atomic_load(&w->s->stopping) && clock_mono_ns() < w->deadline_ns &&
           (slot->kind == FAULT_OVERLOADED || slot->kind == FAULT_LOADING ||
            slot->kind == FAULT_NO_MEMORY);
}

/* Few lines where replies are large; twice as many each time all went well. */
static void adapt_window(struct line_window *w, size_t reply_bytes)
{
    size_t most = w->most * 2 < LINE_WINDOW_MAX ? w->most * 2 : LINE_WINDOW_MAX, fit;

    w->reply_largest -= w->reply_largest / 64; /* forgets slowly */
    if (reply_bytes > w->reply_largest)
        w->reply_largest = reply_bytes;
    fit = LINE_WINDOW_REPLY_BYTES / (w->reply_largest ? w->reply_largest : 1);
    most = fit < most ? fit : most;
    w->most = most ? most : 1;
}

struct line_slot *line_window_oldest(struct line_window *w, int wait_ms)
{
    int64_t due = clock_mono_ns() + (int64_t)wait_ms * 1000000;
    struct line_slot *slot = w->count ? slot_at(w, 0) : NULL;
    bool done;

    if (!slot)
        return NULL;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (!(done = slot->done) && clock_cond_wait(&w->ended, &w->lock, due))
            ;
        pthread_mutex_unlock(&w->lock);
        if (!done)
            return NULL;
        if (!is_refused_now(w, slot))
            return slot;
        w->most = w->most > 1 ? w->most / 2 : 1;
        pthread_mutex_lock(&w->lock);
        (void)clock_cond_wait(&w->ended, &w->lock, clock_mono_ns() + LINE_AGAIN_MS * 1000000LL);
        slot->done = false;
        hold_bytes(slot, 0);
        buf_release(&slot->reply);
        pthread_mutex_unlock(&w->lock);
        begin_line(w, slot);
    }
}

void line_window_pop(struct line_window *w)
{
    struct line_slot *slot = slot_at(w, 0);

    assert(w->count && slot->done);
    w->text_bytes -= slot->text ? slot->request.http.body_len : 0;
    adapt_window(w, slot->reply.len);
    buf_release(&slot->reply);
    free(slot->text);
    free(slot->custom_id);
    pthread_mutex_lock(&w->lock);
    hold_bytes(slot, 0);
    w->first = (w->first + 1) % LINE_WINDOW_MAX;
    w->count--;
    pthread_mutex_unlock(&w->lock);
}

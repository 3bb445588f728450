/* SPDX-License-Identifier: MIT */
/* stream_lines: a request a line in, a reply a line out, in the same order, while both go on.
 *
 * A line is the body of the route without "/stream", with a "custom_id" if its client wants one
 * back, or a text by itself; the query says what holds for such ("?model=", "?dimensions=").  A
 * reply is that route's reply or error with the number of its line before it.
 * Memory is that of the window (lines_int.h) whatever the stream's length: who does not read what
 * comes out is not read from either.  A reply is chunked, so that one which was cut off is seen to
 * be. */
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/bulk/bulk_int.h"
#include "serve/bulk/lines_int.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STREAM_LINE_BYTES_MAX = 8 << 20, /* of a line: its own error beyond */
    STREAM_READ_BYTES = 64 << 10,
    STREAM_SEND_BYTES = 128 << 10, /* that are gathered before they are sent */
    STREAM_TURN_MS = 5,            /* of waiting for one side while the other may go on */
    STREAM_IDLE_MS = 500,
    STREAM_TEXT_MAX = 255 /* bytes of a text in the query */
};

#define STREAM_LONGEST_NS (INT64_C(365) * 86400 * 1000000000) /* where the request names no time */

struct stream {
    struct serve *s;
    struct http_exchange *x;
    struct line_window window;
    struct buf in, out;
    size_t in_at;
    char *tail;      /* members for lines that are texts, owned: `,"model":…` */
    uint64_t number; /* of the line read last, from 1 */
    size_t skipping; /* bytes of a line that is too long; 0: none */
    bool ended;      /* no more lines come */
    bool cut;        /* the client left, or the server stops */
};

/* ---- out */
static void put_reply(struct stream *st, const struct line_slot *slot)
{
    struct json_out w;

    /* "{" of the reply becomes `{"line":7,` */
    assert(slot->reply.len > 1 && slot->reply.data[0] == '{');
    json_out_init(&w, &st->out, 0);
    json_obj(&w);
    json_kv_int(&w, "line", (int64_t)slot->number);
    if (slot->custom_id)
        json_kv_str(&w, "custom_id", slot->custom_id);
    if (slot->status != 200)
        json_kv_int(&w, "status", slot->status);
    buf_addc(&st->out, ',');
    buf_add(&st->out, slot->reply.data + 1, slot->reply.len - 1);
    buf_addc(&st->out, '\n');
}

/* All that is gathered; waits for the client. */
static void send_out(struct stream *st)
{
    size_t at = 0;

    while (at < st->out.len && !st->cut) {
        size_t n = st->out.len - at < STREAM_SEND_BYTES ? st->out.len - at : STREAM_SEND_BYTES;
        char size[16];
        int head = snprintf(size, sizeof(size), "%zx\r\n", n);

        st->cut =
            !http_stream_wait(st->x, n + 32) || !http_stream_send(st->x, size, (size_t)head) ||
            !http_stream_send(st->x, st->out.data + at, n) || !http_stream_send(st->x, "\r\n", 2);
        at += n;
    }
    buf_reset(&st->out);
}

static void take_replies(struct stream *st, int wait_ms)
{
    struct line_slot *slot;

    while (!st->cut && (slot = line_window_oldest(&st->window, wait_ms)) != NULL) {
        put_reply(st, slot);
        line_window_pop(&st->window);
        if (st->out.len >= STREAM_SEND_BYTES)
            send_out(st);
        wait_ms = 0;
    }
}

/* ---- in */
static void put_fault(struct stream *st, int status, const char *why)
{
    struct request_fault f = { .status = status };
    struct buf reply = { 0 };

    (void)fault_set(&f, status == 413 ? FAULT_TOO_LARGE : FAULT_JSON, NULL, "%s", why);
    (void)api_error(st->window.api->family, &f, &reply);
    line_window_put_reply(&st->window, st->number, NULL, status, &reply);
}

static void put_line(struct stream *st, const char *text, size_t len)
{
    struct arena a = { 0 };
    struct json *doc = NULL;
    struct err err = { 0 };
    struct buf body = { 0 };
    const struct json *id = NULL;

    buf_init(&body, 2 * STREAM_LINE_BYTES_MAX);
    if (text[0] == '"' && json_parse(&a, text, len, &doc, &err) == RC_OK) { /* a text by itself */
        buf_adds(&body, "{\"input\":");
        buf_add(&body, text, len);
        buf_adds(&body, st->tail);
        buf_addc(&body, '}');
    } else {
        buf_add(&body, text, len);
        if (memmem(text, len, "\"custom_id\"", 11) &&
            json_parse(&a, text, len, &doc, &err) == RC_OK)
            id = json_get(doc, "custom_id");
    }
    if (id && (id->type != JSON_STR || id->len > LINE_ID_MAX || strlen(id->text) != id->len)) {
        put_fault(st, 400, "'custom_id' must be a string of at most 512 bytes");
        buf_release(&body);
    } else {
        size_t n = body.len;

        line_window_put(&st->window, st->number, id ? xstrdup(id->text) : NULL, buf_take(&body), n);
    }
    arena_release(&a);
}

/* The next line of what was read, if it is whole. */
static bool next_line(struct stream *st)
{
    size_t left = st->in.len - st->in_at;
    const char *from = left ? st->in.data + st->in_at : NULL;
    const char *nl = left ? memchr(from, '\n', left) : NULL;
    size_t len = nl ? (size_t)(nl - from) : left;

    if (!nl && (!st->ended || !(left || st->skipping))) {
        if (left > STREAM_LINE_BYTES_MAX) { /* its end is waited for, not kept */
            st->skipping += left;
            buf_reset(&st->in);
            st->in_at = 0;
        }
        return false;
    }
    st->in_at += len + (nl != NULL);
    st->number++;
    if (st->skipping || len > STREAM_LINE_BYTES_MAX) {
        char why[96];

        (void)snprintf(why, sizeof(why), "the line has %zu bytes, %d at most", st->skipping + len,
                       STREAM_LINE_BYTES_MAX);
        st->skipping = 0;
        put_fault(st, 413, why);
        return true;
    }
    while (len && strchr(" \t\r", from[len - 1]))
        len--;
    while (len && strchr(" \t", from[0])) {
        from++;
        len--;
    }
    if (len)
        put_line(st, from, len);
    return true;
}

/* Bytes of the client, if some come in time. */
static void read_in(struct stream *st, int wait_ms)
{
    enum http_body what;
    char *room;
    size_t len;

    if (st->in_at) {
        memmove(st->in.data, st->in.data + st->in_at, st->in.len - st->in_at);
        st->in.len -= st->in_at;
        st->in_at = 0;
    }
    room = buf_reserve(&st->in, STREAM_READ_BYTES);
    assert(room);
    what = http_body_read(st->x, room, STREAM_READ_BYTES, &len, wait_ms);
    buf_commit(&st->in, len);
    st->ended = st->ended || what == HTTP_BODY_END;
    st->cut = st->cut || what == HTTP_BODY_FAILED || bulk_is_stopping(st->s);
}

static void pump_lines(struct stream *st)
{
    while (!st->cut) {
        size_t before = st->window.count;

        while (!line_window_full(&st->window) && next_line(st))
            ;
        if (st->ended && st->in_at == st->in.len && !st->skipping && !st->window.count)
            break;
        if (!st->ended && !line_window_full(&st->window)) {
            if (st->window.count && st->window.count == before && st->out.len)
                send_out(st); /* nothing new: the client may wait for what there is */
            read_in(st, st->window.count ? STREAM_TURN_MS : STREAM_IDLE_MS);
            take_replies(st, 0);
        } else {
            take_replies(st, st->ended ? STREAM_IDLE_MS : STREAM_TURN_MS);
            st->cut = st->cut || bulk_is_stopping(st->s);
        }
        if (!st->window.count && st->out.len)
            send_out(st);
    }
    send_out(st);
}

/* ---- the request */
/* What a query may say of lines that are texts; each is the member of that name. */
enum stream_kind { STREAM_TEXT, STREAM_COUNT, STREAM_BOOL };
static const struct {
    const char *name;
    enum stream_kind kind;
} stream_names[] = {
    { "model", STREAM_TEXT },       { "encoding_format", STREAM_TEXT },
    { "input_type", STREAM_TEXT },  { "prompt_name", STREAM_TEXT },
    { "priority", STREAM_TEXT },    { "truncation_side", STREAM_TEXT },
    { "dimensions", STREAM_COUNT }, { "normalize", STREAM_BOOL },
    { "truncate", STREAM_BOOL },
};

/* One parameter as a JSON member; false: not a value of its kind. */
static bool put_member(struct buf *out, size_t i, const char *text)
{
    struct json_out w;
    uint64_t n;

    buf_addf(out, ",\"%s\":", stream_names[i].name);
    switch (stream_names[i].kind) {
    case STREAM_TEXT:
        json_out_init(&w, out, 0);
        json_add_str(&w, text);
        return strlen(text) <= STREAM_TEXT_MAX;
    case STREAM_COUNT:
        buf_addf(out, "%s", text);
        return text[0] >= '1' && text[0] <= '9' && str_to_u64(text, 10, &n);
    case STREAM_BOOL:
        buf_adds(out, text);
        return str_eq(text, "true") || str_eq(text, "false");
    }
    return false;
}

/* The query as members of a body, owned.  NULL: it was refused, as a million lines in another shape
 * than the one that was meant would be found out at their end. */
static char *tail_of(struct http_exchange *x, bool texts)
{
    static const char *const kinds[] = { "a text of up to 255 bytes", "a number above 0",
                                         "true or false" };
    const struct http_request *r = http_request(x);
    struct buf out = { 0 };
    char value[STREAM_TEXT_MAX + 8];

    for (const char *at = r->query, *end; *at; at = *end ? end + 1 : end) {
        size_t i = 0, len = strcspn(at, "=&");

        end = at + strcspn(at, "&");
        while (i < ARRAY_SIZE(stream_names) &&
               (strncmp(stream_names[i].name, at, len) || stream_names[i].name[len]))
            i++;
        if (end == at)
            continue;
        if (i == ARRAY_SIZE(stream_names) || (!texts && i)) {
            bulk_refuse(x, 400, NULL, "'%.*s' is not a parameter of this route: %s",
                        len < 60 ? (int)len : 60, at,
                        texts ? "model, encoding_format, dimensions, input_type, prompt_name, "
                                "normalize, truncate, truncation_side, priority"
                              : "model is the only one; the others go into the lines");
        } else if (!http_query(r, stream_names[i].name, value, sizeof(value)) ||
                   !put_member(&out, i, value)) {
            bulk_refuse(x, 400, stream_names[i].name, "'%s' must be %s", stream_names[i].name,
                        kinds[stream_names[i].kind]);
        } else {
            continue;
        }
        buf_release(&out);
        return NULL;
    }
    return out.data ? buf_take(&out) : xstrdup("");
}

static void stream_route(struct serve *s, struct http_exchange *x, const char *path)
{
    struct request r = { .http = http_request(x),
                         .deadline_ns = clock_mono_ns() + STREAM_LONGEST_NS,
                         .timeout_max_ns = (int64_t)s->o.timeout_max_ms * 1000000 };
    char owner[REQUEST_OWNER_BYTES], *tail;
    struct stream *st;

    if (!api_timeout(&r)) { /* which is that of all lines together */
        bulk_refuse(x, 400, r.fault.param, "%s", r.fault.message);
        return;
    }
    tail = tail_of(x, str_ends(path, "embeddings"));
    if (!tail)
        return;
    st = xcalloc(1, sizeof(*st));
    request_owner(r.http, owner);
    st->s = s;
    st->x = x;
    st->tail = tail;
    buf_init(&st->in, STREAM_LINE_BYTES_MAX + 2 * STREAM_READ_BYTES);
    buf_init(&st->out, SERVE_REPLY_BYTES_MAX);
    line_window_init(&st->window, s, api_find(path), owner, r.http->query, r.deadline_ns);
    http_stream_begin(x, "application/x-ndjson", "Transfer-Encoding: chunked\r\n");
    pump_lines(st);
    if (!st->cut)
        (void)!http_stream_send(x, "0\r\n\r\n", 5);
    line_window_release(&st->window); /* its lines borrow the query */
    http_stream_end(x);
    buf_release(&st->in);
    buf_release(&st->out);
    free(st->tail);
    free(st);
}

void stream_embeddings(struct serve *s, struct http_exchange *x)
{
    stream_route(s, x, "/v1/embeddings");
}

void stream_rerank(struct serve *s, struct http_exchange *x)
{
    stream_route(s, x, "/v1/rerank");
}

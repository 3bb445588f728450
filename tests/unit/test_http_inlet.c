/* SPDX-License-Identifier: MIT */
/* test_http_inlet: bodies that are read while they come: order, back pressure, early replies,
 * bodies that break off, clients that leave, replies that begin before the body ends. */
#include "http_box.h"

enum { BIG = 8 << 20, READERS_MAX = 64 };

struct reader {
    struct http_server *s;
    int port;
    struct http_exchange *x[READERS_MAX];
    atomic_size_t count;
};

static void on_body(void *arg, struct http_exchange *x)
{
    struct reader *r = arg;

    r->x[atomic_load(&r->count)] = x;
    atomic_fetch_add(&r->count, 1);
}

static void on_refuse(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    buf_adds(&body, "no");
    http_reply(x, 400, "text/plain", &body, NULL);
}

static void reader_open(struct reader *r, int body_ms)
{
    static const char *const any_host[] = { "*", NULL };
    static struct http_route routes[1], streamed[2];
    struct http_opts o = { .routes = routes,
                           .route_count = 1,
                           .streamed = streamed,
                           .streamed_count = 2,
                           .body_bytes_max = 1000,
                           .hosts = any_host,
                           .body_ms = body_ms };
    struct err err = { 0 };

    memset(r, 0, sizeof(*r));
    routes[0] = (struct http_route){ HTTP_POST, "/echo", box_echo, r, HTTP_SCOPE_CALL };
    streamed[0] = (struct http_route){ HTTP_POST, "/body", on_body, r, HTTP_SCOPE_CALL };
    streamed[1] = (struct http_route){ HTTP_POST, "/refuse", on_refuse, r, HTTP_SCOPE_CALL };
    if (http_server_new(&o, &r->s, &err) || http_listen(r->s, "127.0.0.1", 0, &r->port, &err) ||
        http_start(r->s, &err))
        fail_msg("%s", err.msg);
}

static int dial_reader(struct reader *r, const char *text)
{
    size_t before = atomic_load(&r->count);
    int fd = dial_port(r->port);

    CHECK(fd >= 0 && say(fd, text));
    box_wait(&r->count, before + 1);
    return fd;
}

/* All of the body; how it ended. */
static enum http_body read_all(struct http_exchange *x, struct buf *out)
{
    enum http_body what;
    char piece[1000];
    size_t n;

    while ((what = http_body_read(x, piece, sizeof(piece), &n, BOX_WAIT_MS)) == HTTP_BODY_DATA)
        buf_add(out, piece, n);
    return what;
}

static void finish(struct http_exchange *x, const char *text)
{
    struct buf body = { 0 };

    buf_adds(&body, text);
    http_reply(x, 200, "text/plain", &body, NULL);
}

/* The whole reply until the connection ends, or `until` stands in it. */
static void read_reply(int fd, const char *until, struct buf *out)
{
    char piece[4096];
    ssize_t n;

    while (!strstr(buf_str(out), until) && (n = recv(fd, piece, sizeof(piece), 0)) > 0)
        buf_add(out, piece, (size_t)n);
}

TEST(bodies_are_read_while_they_come)
{
    struct reader r;
    struct buf got = { 0 }, reply = { 0 };
    char piece[16];
    size_t n;
    int fd;

    reader_open(&r, 0);
    fd = dial_reader(&r, "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    CHECK(http_body_read(r.x[0], piece, sizeof(piece), &n, 1) == HTTP_BODY_LATE);
    CHECK(say(fd, "5\r\nhello\r\n"));
    CHECK(http_body_read(r.x[0], piece, sizeof(piece), &n, BOX_WAIT_MS) == HTTP_BODY_DATA);
    CHECK(n == 5 && !memcmp(piece, "hello", 5));
    CHECK(say(fd, "6\r\n world\r\n0\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\n"
                  "Content-Length: 4\r\n\r\nnext"));
    CHECK(read_all(r.x[0], &got) == HTTP_BODY_END && !strcmp(buf_str(&got), " world"));
    finish(r.x[0], "whole");
    read_reply(fd, "next", &reply); /* the connection lives on, in order */
    CHECK(strstr(reply.data, "whole") && strstr(reply.data, "next"));
    buf_reset(&got);
    CHECK(say(fd, "POST /body HTTP/1.1\r\nHost: a\r\n\r\n"));
    box_wait(&r.count, 2);
    CHECK(read_all(r.x[1], &got) == HTTP_BODY_END && !got.len);
    finish(r.x[1], "none");
    close(fd);
    http_server_free(r.s);
    buf_release(&got);
    buf_release(&reply);
}

struct sender {
    int fd;
    atomic_size_t sent;
};

static void *send_main(void *arg)
{
    struct sender *s = arg;
    static char zeros[64 << 10];

    while (atomic_load(&s->sent) < BIG) {
        ssize_t n = send(s->fd, zeros, sizeof(zeros), MSG_NOSIGNAL);

        if (n <= 0)
            break;
        atomic_fetch_add(&s->sent, (size_t)n);
    }
    return NULL;
}

TEST(a_fast_client_waits_for_a_slow_reader)
{
    struct reader r;
    struct buf got = { .max = 2 * BIG }, reply = { 0 };
    struct sender s = { 0 };
    char head[128];
    pthread_t t;
    size_t before;

    reader_open(&r, 100); /* a reader that is slower than this is not the client's fault */
    (void)snprintf(head, sizeof(head),
                   "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", BIG);
    s.fd = dial_reader(&r, head);
    CHECK(pthread_create(&t, NULL, send_main, &s) == 0);
    do { /* until it can send no more */
        before = atomic_load(&s.sent);
        (void)poll(NULL, 0, 300);
    } while (atomic_load(&s.sent) != before);
    CHECK(before < BIG);
    CHECK(read_all(r.x[0], &got) == HTTP_BODY_END && got.len == BIG);
    finish(r.x[0], "done");
    CHECK(pthread_join(t, NULL) == 0);
    read_reply(s.fd, "done", &reply);
    CHECK(strstr(reply.data, "done") && !strstr(reply.data, "Connection: close"));
    close(s.fd);
    http_server_free(r.s);
    buf_release(&got);
    buf_release(&reply);
}

TEST(early_replies_end_the_connection)
{
    struct reader r;
    struct buf reply = { 0 };
    int fd;

    reader_open(&r, 0);
    fd = dial_port(r.port);
    CHECK(say(fd, "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nsome"));
    read_reply(fd, "never", &reply);
    CHECK(strstr(reply.data, "400 Bad Request") && strstr(reply.data, "Connection: close"));
    close(fd);
    http_server_free(r.s);
    buf_release(&reply);
}

TEST(bodies_that_break_off_are_told)
{
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        { "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
          400 },
        { "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", 408 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct reader r;
        struct buf got = { 0 }, reply = { 0 };
        const char *why;
        int fd;

        reader_open(&r, 300);
        fd = dial_reader(&r, rows[i].text);
        CHECK(read_all(r.x[0], &got) == HTTP_BODY_FAILED);
        CHECK(!strcmp(buf_str(&got), "abc"));
        CHECK(http_body_fault(r.x[0], &why) == rows[i].status && *why);
        finish(r.x[0], "sorry");
        read_reply(fd, "never", &reply);
        CHECK(strstr(reply.data, "sorry") && strstr(reply.data, "Connection: close"));
        close(fd);
        http_server_free(r.s);
        buf_release(&got);
        buf_release(&reply);
    }
}

TEST(clients_leave)
{
    struct reader r;
    struct buf got = { 0 };
    const char *why;
    int fd;

    reader_open(&r, 0);
    fd = dial_reader(&r, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    close(fd);
    CHECK(read_all(r.x[0], &got) == HTTP_BODY_FAILED && http_body_fault(r.x[0], &why) == 499);
    finish(r.x[0], "nobody");
    /* and the server ends while a reader waits */
    fd = dial_reader(&r, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
    http_server_free(r.s);
    (void)read_all(r.x[1], &got);
    CHECK(http_gone(r.x[1]));
    finish(r.x[1], "nobody");
    close(fd);
    buf_release(&got);
}

TEST(replies_begin_before_the_body_ends)
{
    struct reader r;
    struct buf got = { 0 }, reply = { 0 };
    int fd;

    reader_open(&r, 0);
    fd = dial_reader(&r, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    http_stream_begin(r.x[0], "text/plain", NULL);
    CHECK(http_stream_wait(r.x[0], 5) && http_stream_send(r.x[0], "first", 5));
    read_reply(fd, "first", &reply);
    CHECK(say(fd, "def"));
    CHECK(read_all(r.x[0], &got) == HTTP_BODY_END && !strcmp(buf_str(&got), "abcdef"));
    CHECK(http_stream_send(r.x[0], "last", 4));
    http_stream_end(r.x[0]);
    read_reply(fd, "never", &reply);
    CHECK(strstr(reply.data, "firstlast"));
    close(fd);
    http_server_free(r.s);
    buf_release(&got);
    buf_release(&reply);
}

TEST_MAIN(cmocka_unit_test(bodies_are_read_while_they_come),
          cmocka_unit_test(a_fast_client_waits_for_a_slow_reader),
          cmocka_unit_test(early_replies_end_the_connection),
          cmocka_unit_test(bodies_that_break_off_are_told), cmocka_unit_test(clients_leave),
          cmocka_unit_test(replies_begin_before_the_body_ends))

/* SPDX-License-Identifier: MIT */
/* test_http_stream: replies without an end: order, slow clients, clients that leave, draining. */
#include "http_box.h"

enum { STREAMS_MAX = 64, LINE = 1000 };

/* Streams that handlers began, for the test's thread to feed. */
struct feed {
    struct http_server *s;
    int port;
    struct http_exchange *x[STREAMS_MAX];
    atomic_size_t count, done, done_gone, bytes;
};

static void on_stream(void *arg, struct http_exchange *x)
{
    struct feed *f = arg;

    http_stream_begin(x, "text/event-stream", "Cache-Control: no-store\r\n");
    f->x[atomic_load(&f->count)] = x;
    atomic_fetch_add(&f->count, 1);
}

static void on_hold(void *arg, struct http_exchange *x)
{
    struct feed *f = arg;

    f->x[atomic_load(&f->count)] = x;
    atomic_fetch_add(&f->count, 1);
}

static void on_done(void *arg, const struct http_request *req, int status, size_t bytes,
                    int64_t end_ns, bool gone)
{
    struct feed *f = arg;

    (void)req;
    (void)status;
    (void)end_ns;
    atomic_fetch_add(&f->bytes, bytes);
    atomic_fetch_add(&f->done_gone, gone);
    atomic_fetch_add(&f->done, 1);
}

static void feed_open(struct feed *f, int write_ms)
{
    static struct http_route routes[3];
    struct http_opts o = { .routes = routes, .route_count = 3, .write_ms = write_ms };
    struct err err = { 0 };

    memset(f, 0, sizeof(*f));
    routes[0] = (struct http_route){ HTTP_GET, "/stream", on_stream, f, HTTP_SCOPE_CALL };
    routes[1] = (struct http_route){ HTTP_GET, "/hold", on_hold, f, HTTP_SCOPE_CALL };
    routes[2] = (struct http_route){ HTTP_GET, "/hello", box_hello, f, HTTP_SCOPE_CALL };
    o.on_done = on_done;
    o.arg = f;
    if (http_server_new(&o, &f->s, &err) || http_listen(f->s, "127.0.0.1", 0, &f->port, &err) ||
        http_start(f->s, &err))
        fail_msg("%s", err.msg);
}

static int ask(struct feed *f, const char *text)
{
    size_t before = atomic_load(&f->count);
    int fd = dial_port(f->port);

    CHECK(fd >= 0 && say(fd, text));
    box_wait(&f->count, before + 1);
    return fd;
}

/* Exactly this text comes next. */
static void expect(int fd, const char *text)
{
    char got[256];
    size_t len = strlen(text), at = 0;

    while (at < len) {
        ssize_t n = recv(fd, got + at, len - at, 0);

        CHECK(n > 0);
        at += (size_t)n;
    }
    assert_memory_equal(got, text, len);
}

static int hear_head(int fd)
{
    struct answer a = hear_of(fd, true);

    answer_free(&a);
    return a.status;
}

static bool send_text(struct http_exchange *x, const char *s)
{
    return http_stream_send(x, s, strlen(s));
}

TEST(a_stream_is_a_head_then_what_is_sent_then_the_end)
{
    struct feed f;
    struct answer a;
    int fd;

    feed_open(&f, 0);
    fd = ask(&f, GET("/stream"));
    a = hear_of(fd, true);
    assert_int_equal(a.status, 200);
    CHECK(strstr(a.head, "Content-Type: text/event-stream\r\n"));
    CHECK(strstr(a.head, "Cache-Control: no-store\r\n"));
    CHECK(strstr(a.head, "Connection: close\r\n") && !strstr(a.head, "Content-Length"));
    answer_free(&a);
    CHECK(send_text(f.x[0], "data: 1\n\n"));
    expect(fd, "data: 1\n\n");
    CHECK(send_text(f.x[0], "data: 2\n\n") && send_text(f.x[0], "data: 3\n\n"));
    http_stream_end(f.x[0]);
    expect(fd, "data: 2\n\ndata: 3\n\n");
    CHECK(hear_end(fd));
    close(fd);
    box_wait(&f.done, 1);
    assert_int_equal(f.done_gone, 0);
    http_server_free(f.s);
}

TEST(a_head_request_has_no_stream)
{
    struct feed f;
    struct answer a;
    int fd;

    feed_open(&f, 0);
    fd = ask(&f, "HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    a = hear_of(fd, true);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    CHECK(!send_text(f.x[0], "data: 1\n\n"));
    CHECK(hear_end(fd));
    http_stream_end(f.x[0]);
    close(fd);
    http_server_free(f.s);
}

/* A reply before a stream comes first; requests behind one get none. */
TEST(pipelined_around_a_stream)
{
    struct feed f;
    struct answer a;
    int fd;

    feed_open(&f, 0);
    fd = ask(&f, GET("/hold") GET("/stream") GET("/hold") GET("/hello"));
    box_wait(&f.count, 2);
    CHECK(send_text(f.x[1], "data: 1\n\n"));
    box_hello(NULL, f.x[0]);
    assert_int_equal(hear_status(fd), 200);
    a = hear_of(fd, true);
    CHECK(strstr(a.head, "text/event-stream"));
    answer_free(&a);
    expect(fd, "data: 1\n\n");
    http_stream_end(f.x[1]);
    for (int i = 0; i < BOX_WAIT_MS && atomic_load(&f.count) > 2 && !http_gone(f.x[2]); i++)
        usleep(1000);
    if (atomic_load(&f.count) > 2)
        box_hello(NULL, f.x[2]);
    CHECK(hear_end(fd));
    close(fd);
    http_server_free(f.s);
}

TEST(a_client_that_leaves_is_noticed)
{
    struct feed f;
    int fd;

    feed_open(&f, 0);
    fd = ask(&f, GET("/stream"));
    CHECK(send_text(f.x[0], "data: 1\n\n"));
    close(fd);
    for (int i = 0; i < BOX_WAIT_MS && !http_gone(f.x[0]); i++)
        usleep(1000);
    CHECK(http_gone(f.x[0]) && !send_text(f.x[0], "data: 2\n\n"));
    http_stream_end(f.x[0]);
    fd = ask(&f, GET("/hold")); /* gone before its stream begins */
    close(fd);
    for (int i = 0; i < BOX_WAIT_MS && !http_gone(f.x[1]); i++)
        usleep(1000);
    http_stream_begin(f.x[1], "text/event-stream", NULL);
    CHECK(!send_text(f.x[1], "data: 1\n\n"));
    http_stream_end(f.x[1]);
    box_wait(&f.done, 2);
    assert_int_equal(f.done_gone, 2);
    http_server_free(f.s);
}

/* One that never reads costs HTTP_STREAM_BYTES_MAX, not more; others go on. */
TEST(a_client_that_does_not_read_is_dropped)
{
    struct feed f;
    char text[LINE];
    int slow, quick, small = 4096;
    size_t given = 0;
    bool ok = true;

    feed_open(&f, 0);
    memset(text, 'x', sizeof(text));
    slow = ask(&f, GET("/stream"));
    setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    quick = ask(&f, GET("/stream"));
    for (; ok && given < (size_t)64 << 20; given += ok ? sizeof(text) : 0)
        ok = http_stream_send(f.x[0], text, sizeof(text));
    CHECK(!ok && given >= HTTP_STREAM_BYTES_MAX / 2);
    for (int i = 0; i < BOX_WAIT_MS && !http_gone(f.x[0]); i++)
        usleep(1000);
    CHECK(http_gone(f.x[0]));
    http_stream_end(f.x[0]);
    CHECK(send_text(f.x[1], "data: 1\n\n"));
    CHECK(hear_head(quick) == 200);
    expect(quick, "data: 1\n\n");
    CHECK(!http_stream_send(f.x[1], text, HTTP_STREAM_BYTES_MAX + 1)); /* at once too much */
    http_stream_end(f.x[1]);
    close(slow);
    close(quick);
    http_server_free(f.s);
}

TEST(draining_ends_streams)
{
    struct feed f;
    size_t cut = 9;
    int fd, late;

    feed_open(&f, 0);
    fd = ask(&f, GET("/stream"));
    late = ask(&f, GET("/hold"));
    CHECK(send_text(f.x[0], "data: 1\n\n"));
    CHECK(hear_head(fd) == 200);
    expect(fd, "data: 1\n\n");
    http_stream_begin(f.x[1], "text/event-stream", NULL);
    http_drain(f.s, BOX_WAIT_MS, &cut);
    assert_int_equal(cut, 0);
    CHECK(hear_end(fd));
    CHECK(!send_text(f.x[0], "data: 2\n\n") && !send_text(f.x[1], "data: 2\n\n"));
    http_stream_end(f.x[0]);
    http_server_free(f.s);
    http_stream_end(f.x[1]); /* after the server, too */
    close(fd);
    close(late);
}

/* ---- many at once: every byte in order, whatever the others do */
struct reader {
    int fd;
    size_t lines;
    bool ordered;
};

static void *read_lines(void *arg)
{
    struct reader *r = arg;
    char text[4096], line[64];
    size_t len = 0;
    ssize_t n;

    CHECK(hear_head(r->fd) == 200);
    r->ordered = true;
    while ((n = recv(r->fd, text, sizeof(text), 0)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] != '\n') {
                line[len < sizeof(line) - 1 ? len++ : len] = text[i];
                continue;
            }
            line[len] = '\0';
            r->ordered = r->ordered && strtoul(line, NULL, 10) == r->lines;
            r->lines++;
            len = 0;
        }
    return NULL;
}

struct sender {
    struct http_exchange *x;
    size_t lines;
};

static void *send_lines(void *arg)
{
    struct sender *s = arg;
    char line[32];

    for (size_t i = 0; i < s->lines; i++) {
        int n = snprintf(line, sizeof(line), "%zu\n", i);

        if (!http_stream_send(s->x, line, (size_t)n))
            break;
        if (i % 100 == 0)
            usleep(100);
    }
    http_stream_end(s->x);
    return NULL;
}

TEST(many_streams_from_many_threads)
{
    enum { COUNT = 24, LINES = 5000 };
    struct reader readers[COUNT];
    struct sender senders[COUNT];
    pthread_t rt[COUNT], st[COUNT];
    struct feed f;

    feed_open(&f, 0);
    for (size_t i = 0; i < COUNT; i++) {
        readers[i] = (struct reader){ .fd = ask(&f, GET("/stream")) };
        senders[i] = (struct sender){ f.x[i], LINES };
    }
    for (size_t i = 0; i < COUNT; i++) {
        pthread_create(&rt[i], NULL, read_lines, &readers[i]);
        pthread_create(&st[i], NULL, send_lines, &senders[i]);
    }
    for (size_t i = 0; i < COUNT; i += 3) /* some leave in the middle */
        shutdown(readers[i].fd, SHUT_RDWR);
    for (size_t i = 0; i < COUNT; i++) {
        pthread_join(st[i], NULL);
        pthread_join(rt[i], NULL);
        if (i % 3) {
            CHECK(readers[i].ordered);
            assert_int_equal(readers[i].lines, LINES);
        }
        close(readers[i].fd);
    }
    box_wait(&f.done, COUNT);
    http_server_free(f.s);
}

TEST(the_server_ends_while_streams_are_fed)
{
    enum { COUNT = 8 };
    struct sender senders[COUNT];
    pthread_t st[COUNT];
    int fds[COUNT];
    struct feed f;

    feed_open(&f, 0);
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = ask(&f, GET("/stream"));
        senders[i] = (struct sender){ f.x[i], 1000000 };
        pthread_create(&st[i], NULL, send_lines, &senders[i]);
    }
    usleep(20000);
    http_server_free(f.s);
    for (size_t i = 0; i < COUNT; i++) {
        pthread_join(st[i], NULL);
        close(fds[i]);
    }
}

TEST_MAIN(cmocka_unit_test(a_stream_is_a_head_then_what_is_sent_then_the_end),
          cmocka_unit_test(a_head_request_has_no_stream),
          cmocka_unit_test(pipelined_around_a_stream),
          cmocka_unit_test(a_client_that_leaves_is_noticed),
          cmocka_unit_test(a_client_that_does_not_read_is_dropped),
          cmocka_unit_test(draining_ends_streams), cmocka_unit_test(many_streams_from_many_threads),
          cmocka_unit_test(the_server_ends_while_streams_are_fed))

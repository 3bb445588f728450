/* SPDX-License-Identifier: MIT */
/* test_http: the server with real sockets: what well-behaved clients get. */
#include "http_box.h"

#include <sys/un.h>

TEST(replies_and_keep_alive)
{
    struct http_opts o = { .server_name = "stoker" };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    for (int i = 0; i < 3; i++) {
        CHECK(say(fd, GET("/hello")));
        a = hear(fd);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
        CHECK(strstr(a.head, "HTTP/1.1 200 OK\r\n") == a.head);
        CHECK(strstr(a.head, "\r\nDate: ") && strstr(a.head, " GMT\r\n"));
        CHECK(strstr(a.head, "\r\nServer: stoker\r\n"));
        CHECK(strstr(a.head, "\r\nX-Own: yes\r\n") && !strstr(a.head, "Connection"));
        answer_free(&a);
    }
    CHECK(say(fd, "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n" GET("/thread")));
    a = hear_of(fd, true);
    CHECK(a.status == 200 && strstr(a.head, "Content-Length: 5\r\n"));
    answer_free(&a);
    assert_int_equal(hear_status(fd), 200);
    CHECK(say(fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    a = hear(fd);
    CHECK(a.status == 200 && strstr(a.head, "Connection: keep-alive\r\n"));
    answer_free(&a);
    CHECK(say(fd, "GET /hello HTTP/1.0\r\n\r\n"));
    a = hear(fd);
    CHECK(a.status == 200 && strstr(a.head, "Connection: close\r\n"));
    answer_free(&a);
    CHECK(hear_end(fd));
    close(fd);
    box_wait_conns(&b, 0);
    assert_int_equal(b.done_count, 7);
    assert_int_equal(b.done_gone, 0);
    box_close(&b);
}

TEST(bodies)
{
    struct http_opts o = { .body_bytes_max = 1 << 20 };
    struct buf big = { 0 };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
    a = hear(fd);
    assert_string_equal(a.body, "abc");
    answer_free(&a);
    CHECK(say(fd, "PUT /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"));
    a = hear(fd);
    assert_string_equal(a.body, "abc");
    answer_free(&a);
    CHECK(say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                  "Content-Length: 3\r\n\r\n"));
    a = hear(fd);
    assert_int_equal(a.status, 100);
    answer_free(&a);
    CHECK(say(fd, "abc"));
    assert_int_equal(hear_status(fd), 200);
    buf_adds(&big, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
    buf_fill(&big, 'y', 1 << 20);
    CHECK(say_n(fd, big.data, big.len));
    a = hear(fd);
    CHECK(a.status == 200 && a.len == 1 << 20 && a.body[a.len - 1] == 'y');
    answer_free(&a);
    buf_release(&big);
    close(fd);
    box_close(&b);
}

TEST(a_body_cut_at_every_byte)
{
    static const char text[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                               "\r\n3\r\nabc\r\n0\r\n\r\n";
    struct http_opts o = { 0 };
    struct answer a;
    struct box b;

    box_open(&b, &o);
    for (size_t cut = 0; cut < sizeof(text); cut++) { /* then the client leaves */
        int fd = dial(&b);

        CHECK(say_n(fd, text, cut));
        shutdown(fd, SHUT_WR);
        a = hear(fd);
        assert_int_equal(a.status, cut == sizeof(text) - 1 ? 200 : 0);
        answer_free(&a);
        close(fd);
    }
    for (size_t cut = 1; cut < sizeof(text) - 1; cut++) { /* then the rest comes */
        int fd = dial(&b);

        CHECK(say_n(fd, text, cut));
        usleep(200);
        CHECK(say_n(fd, text + cut, sizeof(text) - 1 - cut));
        a = hear(fd);
        CHECK(a.status == 200 && !strcmp(a.body, "abc"));
        answer_free(&a);
        close(fd);
    }
    box_wait_conns(&b, 0);
    box_close(&b);
}

TEST(large_replies_wait_for_the_reader)
{
    struct http_opts o = { 0 };
    struct answer a;
    struct box b;
    int slow, fd;

    box_open(&b, &o);
    slow = dial(&b);
    fd = dial(&b);
    CHECK(say(slow, GET("/large")));
    usleep(20000); /* the kernel's buffers are full now */
    CHECK(say(fd, GET("/hello")));
    assert_int_equal(hear_status(fd), 200); /* others are served */
    a = hear(slow);
    CHECK(a.status == 200 && a.len == 100 << 20 && a.body[a.len - 1] == 'x');
    answer_free(&a);
    close(slow);
    close(fd);
    box_close(&b);
}

/* A reply of another thread leaves at once; what the kernel does not take, the loop sends.  A
 * unix socket takes less than the large ones here. */
TEST(replies_of_other_threads)
{
    enum { LARGE = 250 << 10, N = 8 };
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    struct http_opts o = { 0 };
    struct buf body = { 0 };
    char address[128];
    struct box b;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(to.sun_path, sizeof(to.sun_path), "/tmp/stoker-test-replies-%d", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", to.sun_path);
    box_open_at(&b, &o, address);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    for (size_t i = 0; i < N; i++) {
        size_t len = i % 2 ? LARGE : 10;
        struct answer a;
        CHECK(say(fd, GET("/keep")));
        box_wait(&b.kept_count, i + 1);
        buf_fill(&body, (char)('a' + i), len);
        http_reply(b.kept[i], 200, "text/plain", &body, "X-Own: yes\r\n");
        b.kept[i] = NULL;
        a = hear(fd);
        CHECK(a.status == 200 && a.len == len);
        CHECK(a.body[0] == (char)('a' + i) && a.body[len - 1] == a.body[0]);
        CHECK(strstr(a.head, "\r\nDate: ") && strstr(a.head, "\r\nX-Own: yes\r\n"));
        answer_free(&a);
    }
    box_wait(&b.done_count, N); /* the loop hears of them by itself */
    assert_int_equal(b.done_gone, 0);
    close(fd);
    box_wait_conns(&b, 0);
    box_close(&b);
}

TEST(pipelined_requests_are_answered_in_order)
{
    enum { N = 1000 };
    struct http_opts o = { 0 };
    struct buf all = { 0 };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    for (int i = 0; i < N; i++)
        buf_addf(&all, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n%04d", i);
    CHECK(say_n(fd, all.data, all.len));
    for (int i = 0; i < N; i++) {
        a = hear(fd);
        CHECK(a.status == 200 && strtol(a.body, NULL, 10) == i);
        answer_free(&a);
    }
    close(fd);
    fd = dial(&b); /* the first is answered last */
    CHECK(say(fd, GET("/keep") GET("/hello") GET("/thread") GET("/keep")));
    box_wait(&b.kept_count, 2);
    box_answer(&b, 1);
    usleep(2000);
    CHECK(recv(fd, all.data, 1, MSG_DONTWAIT) < 0);
    box_answer(&b, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(hear_status(fd), 200);
    close(fd);
    buf_release(&all);
    box_close(&b);
}

TEST(only_so_many_are_read_ahead)
{
    struct http_opts o = { 0 };
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    for (int i = 0; i < 40; i++)
        CHECK(say(fd, GET("/keep")));
    box_wait(&b.kept_count, HTTP_PIPELINE_MAX);
    usleep(5000);
    assert_int_equal(b.kept_count, HTTP_PIPELINE_MAX);
    for (size_t i = 0; i < 40; i++) {
        box_wait(&b.kept_count, i + 1);
        box_answer(&b, i);
        assert_int_equal(hear_status(fd), 200);
    }
    close(fd);
    box_wait_conns(&b, 0);
    assert_int_equal(b.gone_count, 0);
    box_close(&b);
}

TEST(routes)
{
    struct http_opts o = { 0 };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/helo")));
    a = hear(fd);
    CHECK(a.status == 404 && strstr(a.body, "did you mean '/hello'"));
    answer_free(&a);
    CHECK(say(fd, GET("/%22%5c%C3%28")));
    a = hear(fd);
    CHECK(a.status == 404 && strstr(a.body, "'/\\\"\\\\"));
    answer_free(&a);
    CHECK(say(fd, "DELETE /echo HTTP/1.1\r\nHost: a\r\n\r\n"));
    a = hear(fd);
    CHECK(a.status == 405 && strstr(a.head, "Allow: POST, PUT\r\n"));
    answer_free(&a);
    CHECK(say(fd, "OPTIONS /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"));
    a = hear(fd);
    CHECK(a.status == 405 && strstr(a.head, "Allow: GET, HEAD\r\n"));
    answer_free(&a);
    CHECK(say(fd, GET("/hello/a/b")));
    assert_int_equal(hear_status(fd), 200);
    CHECK(say(fd, GET("/hello/")));
    assert_int_equal(hear_status(fd), 404);
    CHECK(say(fd, "PUT /hello/a HTTP/1.1\r\nHost: a\r\n\r\n"));
    a = hear(fd);
    CHECK(a.status == 405 && strstr(a.head, "Allow: GET, HEAD\r\n"));
    answer_free(&a);
    CHECK(say(fd, GET("/hello?x=y"))); /* still the same connection */
    assert_int_equal(hear_status(fd), 200);
    close(fd);
    box_close(&b);
}

TEST(tokens)
{
    struct http_opts o = { .keys = { .token = "secret" } };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/hello")));
    a = hear(fd);
    CHECK(a.status == 401 && strstr(a.head, "WWW-Authenticate: Bearer\r\n"));
    answer_free(&a);
    CHECK(say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secreT\r\n\r\n"));
    assert_int_equal(hear_status(fd), 401);
    CHECK(say(fd, GET("/nothing"))); /* paths are nobody's business */
    assert_int_equal(hear_status(fd), 401);
    CHECK(say(fd, GET("/health")));
    assert_int_equal(hear_status(fd), 200);
    CHECK(say(fd, GET("/hello/a")));
    assert_int_equal(hear_status(fd), 200);
    CHECK(say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n"));
    assert_int_equal(hear_status(fd), 200);
    /* a large body is not read for a stranger, and the refusal is not lost */
    CHECK(say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc"));
    a = hear(fd);
    CHECK(a.status == 401 && strstr(a.head, "Connection: close\r\n"));
    answer_free(&a);
    CHECK(say(fd, "more of it") && hear_end(fd));
    close(fd);
    fd = dial(&b);
    CHECK(say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                  "Content-Length: 10\r\n\r\n"));
    assert_int_equal(hear_status(fd), 401); /* and no 100 */
    close(fd);
    box_close(&b);
}

TEST(unix_sockets)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct http_opts o = { 0 };
    struct box b;
    char address[128];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/stoker-test-http-%d", (int)getpid());
    CHECK(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0); /* left behind by somebody */
    close(fd);
    snprintf(address, sizeof(address), "unix:%s", a.sun_path);
    box_open_at(&b, &o, address);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    CHECK(say(fd, GET("/hello")));
    assert_int_equal(hear_status(fd), 200);
    close(fd);
    box_close(&b);
    CHECK(access(a.sun_path, F_OK) != 0);
}

TEST(addresses_that_cannot_be)
{
    struct http_opts o = { 0 };
    struct http_server *s, *other = NULL;
    struct err err = { 0 };
    int port;

    CHECK(!http_server_new(&o, &s, &err) && !http_server_new(&o, &other, &err));
    CHECK(http_listen(s, "example.org", 80, NULL, &err) == RC_USAGE);
    CHECK(http_listen(s, "127.0.0.1", 70000, NULL, NULL) == RC_USAGE);
    CHECK(http_listen(s, "unix:", 0, NULL, NULL) == RC_USAGE);
    CHECK(!http_listen(s, "127.0.0.1", 0, &port, NULL));
    CHECK(http_listen(other, "127.0.0.1", port, NULL, NULL) == RC_FAIL);
    http_server_free(other);
    http_server_free(s); /* never started */
    o.connections_max = 100000000;
    CHECK(!http_server_new(&o, &s, NULL));
    err = (struct err){ 0 };
    CHECK(http_start(s, &err) == RC_LIMIT && strstr(err.msg, "open files are limited to"));
    http_server_free(s);
    http_server_free(NULL);
}

TEST_MAIN(cmocka_unit_test(replies_and_keep_alive), cmocka_unit_test(bodies),
          cmocka_unit_test(a_body_cut_at_every_byte),
          cmocka_unit_test(large_replies_wait_for_the_reader),
          cmocka_unit_test(replies_of_other_threads),
          cmocka_unit_test(pipelined_requests_are_answered_in_order),
          cmocka_unit_test(only_so_many_are_read_ahead), cmocka_unit_test(routes),
          cmocka_unit_test(tokens), cmocka_unit_test(unix_sockets),
          cmocka_unit_test(addresses_that_cannot_be))

/* SPDX-License-Identifier: MIT */
/* test_http_parse: requests from bytes, without a socket. */
#include "base/buf.h"
#include "base/mem.h"
#include "http/http_int.h"
#include "test.h"

enum { BODY_MAX = 1000 };

struct got {
    struct http_request req;
    struct http_parsed own;
    int status; /* 0: whole; -1: more is wanted */
    bool keeps, expect;
};

static struct got parse(const char *text, size_t len, size_t piece)
{
    struct got g = { .status = -1 };
    struct http_parser p;
    enum http_step step = HTTP_MORE;
    size_t at = 0;

    http_parser_init(&p, BODY_MAX);
    while (g.status == -1 && (at < len || step == HTTP_HEAD_DONE)) {
        at += http_parse(&p, text + at, len - at < piece ? len - at : piece, &step);
        if (step == HTTP_HEAD_DONE)
            g.expect = p.expect;
        if (step == HTTP_BAD)
            g.status = p.status;
        if (step == HTTP_DONE) {
            g.status = 0;
            g.keeps = http_parser_keeps(&p);
            http_parser_take(&p, &g.req, &g.own);
        }
    }
    http_parser_release(&p);
    return g;
}

static void got_free(struct got *g)
{
    free(g->own.head);
    free(g->own.fields);
    free(g->own.body);
}

static int status_of(const char *text, size_t len)
{
    struct got whole = parse(text, len, len), bytes = parse(text, len, 1);

    assert_int_equal(whole.status, bytes.status);
    got_free(&whole);
    got_free(&bytes);
    return whole.status;
}

#define H "Host: a\r\n"

TEST(faults)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        { 0, "GET / HTTP/1.1\r\n" H "\r\n" },
        { 0, "\r\nGET / HTTP/1.1\r\n" H "\r\n" }, /* one empty line is forgiven */
        { 0, "GET / HTTP/1.0\r\n\r\n" },
        { 0, "GET http://h HTTP/1.1\r\n" H "\r\n" },
        { 0, "GET https://h?a HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET http:// HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET http:///a HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET http://u@h/a HTTP/1.1\r\n" H "\r\n" },
        { 0, "GET / HTTP/1.1\r\nHost:\r\n\r\n" },
        { 0, "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab" },
        { 0, "POST / HTTP/1.1\r\n" H "Content-Length: 0002\r\n\r\nab" },
        { 0, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n" },
        { 0, "POST / HTTP/1.1\r\n" H
             "Transfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\nA:b\r\n\r\n" },
        { -1, "GET / HTTP/1.1\r\n" H },
        { -1, "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nab" },
        { 400, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET / HTTP/1.1\r\n\r\n" },        /* no Host */
        { 400, "GET / HTTP/1.1\r\n" H H "\r\n" }, /* two */
        { 400, "GET / HTTP/1.1\n" H "\r\n" },     /* LF alone */
        { 400, "GET / HTTP/1.1\r\nHost: a\n\r\n" },
        { 400,
          "GET / HTTP/1.1\r\n" H "Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\n: a\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: \x01\r\n\r\n" },
        { 400, "GET  / HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /  HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET / \r\n" H "\r\n" },
        { 400, "GET /\r\n" H "\r\n" },
        { 400, "GET x HTTP/1.1\r\n" H "\r\n" },
        { 400, "OPTIONS * HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /a#b HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /%4 HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /%zz HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /%00 HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /%0d HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n" },
        { 400, "GET / HTTP/11\r\n" H "\r\n" },
        { 400, "G(T / HTTP/1.1\r\n" H "\r\n" },
        { 400, "\x16\x03\x01" },
        { 501, "BREW / HTTP/1.1\r\n" H "\r\n" },
        { 501, "get / HTTP/1.1\r\n" H "\r\n" },
        { 505, "PRI * HTTP/2.0\r\n\r\n" },
        { 417, "GET / HTTP/1.1\r\n" H "Expect: tea\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 2\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length: 2, 2\r\n\r\nab" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length: +2\r\n\r\nab" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length: -2\r\n\r\nab" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length: 0x2\r\n\r\nab" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\nab" },
        { 413, "POST / HTTP/1.1\r\n" H "Content-Length: 1001\r\n\r\n" },
        { 413, "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551617\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n" },
        { 400, "POST / HTTP/1.1\r\n" H
               "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { 501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n" },
        { 501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n" },
        { 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
#define C "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
        { 400, C "\r\n" },
        { 400, C "g\r\n" },
        { 400, C " 2\r\nab\r\n" },
        { 400, C "2 \r\nab\r\n" },
        { 400, C "-1\r\n" },
        { 400, C "2\nab\r\n0\r\n\r\n" },
        { 400, C "2\r\nabc\r\n0\r\n\r\n" },
        { 400, C "2\r\nab\n0\r\n\r\n" },
        { 400, C "2;\x01\r\nab\r\n" },
        { 400, C "0\r\nA : b\r\n\r\n" },
        { 400, C "0\r\n\n" },
        { 413, C "3e9\r\n" },
        { 413, C "fffffffff\r\n" },
        { 413, C "10000000000000000\r\n" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (status_of(rows[i].text, strlen(rows[i].text)) != rows[i].status)
            fail_msg("row %zu: %d, not %d: %s", i, status_of(rows[i].text, strlen(rows[i].text)),
                     rows[i].status, rows[i].text);
}

TEST(nul_bytes)
{
    static const char target[] = "GET /a\0b HTTP/1.1\r\n" H "\r\n";
    static const char value[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    static const char name[] = "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n";

    assert_int_equal(status_of(target, sizeof(target) - 1), 400);
    assert_int_equal(status_of(value, sizeof(value) - 1), 400);
    assert_int_equal(status_of(name, sizeof(name) - 1), 400);
}

TEST(limits)
{
    struct buf b = { 0 };

    buf_adds(&b, "GET /");
    buf_fill(&b, 'a', HTTP_TARGET_MAX - 1);
    buf_adds(&b, " HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(status_of(b.data, b.len), 0);
    buf_reset(&b);
    buf_adds(&b, "GET /");
    buf_fill(&b, 'a', HTTP_TARGET_MAX);
    buf_adds(&b, " HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(status_of(b.data, b.len), 414);
    buf_reset(&b);
    buf_adds(&b, "GET /");
    buf_fill(&b, 'a', 1 << 20); /* never ends */
    assert_int_equal(status_of(b.data, b.len), 414);
    buf_reset(&b);
    buf_adds(&b, "GET / HTTP/1.1\r\n" H);
    for (int i = 0; i < HTTP_FIELDS_MAX - 1; i++)
        buf_addf(&b, "F%d: v\r\n", i);
    buf_adds(&b, "\r\n");
    assert_int_equal(status_of(b.data, b.len), 0);
    b.len -= 2;
    buf_adds(&b, "One: more\r\n\r\n");
    assert_int_equal(status_of(b.data, b.len), 431);
    buf_reset(&b);
    buf_adds(&b, "GET / HTTP/1.1\r\n" H "A: ");
    buf_fill(&b, 'a', HTTP_HEAD_BYTES_MAX - b.len - 4);
    buf_adds(&b, "\r\n\r\n");
    assert_int_equal(status_of(b.data, b.len), 0);
    buf_reset(&b);
    buf_adds(&b, "GET / HTTP/1.1\r\n" H "A: ");
    buf_fill(&b, 'a', 1 << 20);
    assert_int_equal(status_of(b.data, b.len), 431);
    buf_release(&b);
}

TEST(what_a_request_says)
{
    static const char text[] =
        "POST /a%20b/%C3%A9?x=1%202&y=a+b&z&long=18446744073709551617&odd=a%zz "
        "HTTP/1.1\r\nhost: h\r\n"
        "X-One:\t two words \t\r\nCONTENT-LENGTH: 3\r\nExpect: 100-Continue\r\n"
        "\r\nabc";

    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct got g = parse(text, sizeof(text) - 1, piece);
        char out[8];

        assert_int_equal(g.status, 0);
        assert_int_equal(g.req.method, HTTP_POST);
        assert_string_equal(g.req.path, "/a b/\xc3\xa9");
        assert_string_equal(g.req.query, "x=1%202&y=a+b&z&long=18446744073709551617&odd=a%zz");
        assert_string_equal(http_field(&g.req, "x-one"), "two words");
        assert_null(http_field(&g.req, "x-two"));
        assert_string_equal(g.req.body, "abc");
        CHECK(g.keeps && g.expect);
        CHECK(http_query(&g.req, "x", out, sizeof(out)));
        assert_string_equal(out, "1 2");
        CHECK(http_query(&g.req, "y", out, sizeof(out)));
        assert_string_equal(out, "a b");
        CHECK(http_query(&g.req, "z", out, sizeof(out)) && !*out);
        CHECK(!http_query(&g.req, "w", out, sizeof(out)));
        /* what does not fit is there all the same, and is no value that anybody knows */
        CHECK(http_query(&g.req, "x", out, 7));
        assert_string_equal(out, "1 2");
        CHECK(http_query(&g.req, "long", out, sizeof(out)));
        assert_string_equal(out, "1844...");
        CHECK(http_query(&g.req, "odd", out, sizeof(out)));
        assert_string_equal(out, "a%zz");
        got_free(&g);
    }
}

TEST(chunks_are_joined)
{
    struct buf b = { 0 };
    struct got g;

    buf_adds(&b, C);
    for (int i = 0; i < 100; i++)
        buf_adds(&b, i ? "A\r\n0123456789\r\n" : "0000000000000000A\r\n0123456789\r\n");
    buf_adds(&b, "000000000000000000000000000000000000\r\nTrailer: x\r\n\r\n");
    for (size_t piece = 1; piece < 40; piece++) {
        g = parse(b.data, b.len, piece);
        assert_int_equal(g.status, 0);
        assert_int_equal(g.req.body_len, 1000);
        CHECK(!strncmp(g.req.body + 990, "0123456789", 11));
        assert_null(http_field(&g.req, "trailer"));
        got_free(&g);
    }
    buf_release(&b);
}

TEST(keep_alive)
{
    static const struct {
        const char *text;
        bool keeps;
    } rows[] = {
        { "GET / HTTP/1.1\r\n" H "\r\n", true },
        { "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", false },
        { "GET / HTTP/1.1\r\n" H "Connection: x, CLOSE ,y\r\n\r\n", false },
        { "GET / HTTP/1.1\r\n" H "Connection: closed\r\n\r\n", true },
        { "GET / HTTP/1.0\r\n\r\n", false },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct got g = parse(rows[i].text, strlen(rows[i].text), 7);

        assert_int_equal(g.status, 0);
        assert_int_equal(g.keeps, rows[i].keeps);
        got_free(&g);
    }
}

TEST(timers_keep_order)
{
    struct timers t;
    struct timer m[3] = { 0 };

    timers_init(&t);
    t.ns[TIMER_HEAD] = 100;
    t.ns[TIMER_BODY] = 10;
    CHECK(timers_next(&t) == INT64_MAX);
    timer_arm(&t, &m[0], TIMER_HEAD, 0);
    timer_arm(&t, &m[1], TIMER_HEAD, 5);
    timer_arm(&t, &m[2], TIMER_BODY, 50);
    CHECK(timers_next(&t) == 60 && !timers_due(&t, 59));
    CHECK(timers_due(&t, 60) == &m[2]);
    timer_arm(&t, &m[0], TIMER_HEAD, 20); /* again: behind m[1] */
    CHECK(timers_due(&t, 200) == &m[1] && timers_due(&t, 200) == &m[0] && !timers_due(&t, 200));
    timer_stop(&m[0]);
}

TEST_MAIN(cmocka_unit_test(faults), cmocka_unit_test(nul_bytes), cmocka_unit_test(limits),
          cmocka_unit_test(what_a_request_says), cmocka_unit_test(chunks_are_joined),
          cmocka_unit_test(keep_alive), cmocka_unit_test(timers_keep_order))

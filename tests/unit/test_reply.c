/* SPDX-License-Identifier: MIT */
/* Replies cut at every byte give the same answer as whole ones; addresses. */
#include "test.h"

#include "os/net/net_int.h"

#include <string.h>

#define OK "HTTP/1.1 200 OK\r\n"

struct row {
    const char *in;
    enum reply_state want; /* after the bytes, or after the end when `eof` */
    int status;
    const char *body;
    bool close, eof;
    size_t behind; /* bytes that are no more the reply's */
};

static const struct row rows[] = {
    { OK "Content-Length: 5\r\n\r\nhello", REPLY_DONE, 200, "hello", false, false, 0 },
    { OK "content-LENGTH:5\r\nX-Compute-Tokens: 7\r\n\r\nhello", REPLY_DONE, 200, "hello", false,
      false, 0 },
    { OK "Content-Length: 5\r\n\r\nhelloHTTP", REPLY_DONE, 200, "hello", false, false, 4 },
    { OK "Content-Length: 0\r\n\r\n", REPLY_DONE, 200, "", false, false, 0 },
    { OK "Content-Length: 2\nConnection: close\n\nok", REPLY_DONE, 200, "ok", true, false, 0 },
    { "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", REPLY_DONE, 200, "ok", true, false, 0 },
    { "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", REPLY_DONE, 200,
      "ok", false, false, 0 },
    { OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", REPLY_DONE,
      200, "hello world", false, false, 0 },
    { OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n", REPLY_DONE, 200,
      "hello", false, false, 0 },
    { OK "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\nab\r\n0\r\n\r\n", REPLY_DONE,
      200, "ab", false, false, 0 },
    { "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nok", REPLY_DONE, 200, "ok",
      false, false, 0 },
    { "HTTP/1.1 204 No Content\r\n\r\n", REPLY_DONE, 204, "", false, false, 0 },
    { "HTTP/1.1 429\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", REPLY_DONE, 429, "", false,
      false, 0 },
    { OK "\r\nuntil the end", REPLY_DONE, 200, "until the end", true, true, 0 },
    { OK "Content-Length: 9\r\n\r\nhello", REPLY_BAD, 200, "hello", true, true, 0 },
    { OK "Content-Len", REPLY_BAD, 200, "", true, true, 0 },
    { "", REPLY_BAD, 0, "", true, true, 0 },
    { "SSH-2.0-OpenSSH_9.2\r\n", REPLY_BAD, 0, "", true, false, 0 },
    { "HTTP/2 200\r\n", REPLY_BAD, 0, "", true, false, 0 },
    { "HTTP/1.1 2000 OK\r\n", REPLY_BAD, 0, "", true, false, 0 },
    { "HTTP/1.1 099 OK\r\n", REPLY_BAD, 0, "", true, false, 0 },
    { OK "no colon\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Content-Length: -1\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Content-Length: 99999999999999999999\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Content-Length: 1\r\nContent-Length: 2\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Transfer-Encoding: gzip\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Transfer-Encoding: chunked\r\n\r\nzz\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Transfer-Encoding: chunked\r\n\r\nffffffffffff\r\n", REPLY_BAD, 200, "", true, false, 0 },
    { OK "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", REPLY_BAD, 200, "ab", true, false, 0 },
    { "HTTP/1.1 101 Switching\r\n\r\n", REPLY_BAD, 101, "", true, false, 0 },
};

/* Feeds `step` bytes at a time. */
static void run_row(const struct row *w, size_t step)
{
    struct buf body = { 0 };
    enum reply_state s = REPLY_MORE;
    struct reply r = { 0 };
    size_t len = strlen(w->in), at = 0, used;

    reply_reset(&r, &body);
    while (at < len && s == REPLY_MORE) {
        size_t n = len - at < step ? len - at : step;

        s = reply_feed(&r, w->in + at, n, &used);
        CHECK(used <= n && (s != REPLY_MORE || used == n));
        at += used;
    }
    if (w->eof)
        s = reply_eof(&r);
    CHECK(s == w->want);
    CHECK((s == REPLY_BAD) == (r.why != NULL));
    CHECK(r.status == w->status && r.close == w->close);
    assert_string_equal(buf_str(&body), w->body);
    CHECK(r.body_bytes == strlen(w->body));
    if (s == REPLY_DONE) {
        CHECK(at == len - w->behind);
        CHECK(r.first_len == strlen(w->body) && !memcmp(r.first, w->body, r.first_len));
        CHECK(r.last_len == strlen(w->body) && !memcmp(r.last, w->body, r.last_len));
    }
    buf_release(&body);
}

TEST(replies_in_pieces_of_any_size)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        for (size_t step = 1; step <= strlen(rows[i].in) + 1; step++)
            run_row(&rows[i], step);
}

TEST(fields_that_are_read)
{
    const char *in =
        OK "X-Compute-Tokens: 123\r\nRetry-After: 9\r\nX-Other: 1\r\nContent-Length: 0\r\n\r\n";
    struct reply r = { 0 };
    size_t used;

    reply_reset(&r, NULL);
    CHECK(!reply_begun(&r) && r.tokens == -1);
    CHECK(reply_feed(&r, in, strlen(in), &used) == REPLY_DONE && used == strlen(in));
    CHECK(r.tokens == 123 && r.retry_after_s == 9 && reply_begun(&r));
    CHECK(reply_feed(&r, "x", 1, &used) == REPLY_DONE && used == 0);
    reply_reset(&r, NULL);
    CHECK(r.tokens == -1 && r.retry_after_s == -1 && !r.status);
}

TEST(long_lines_and_heads)
{
    struct buf in = { 0 };
    struct reply r = { 0 };
    size_t used;

    buf_adds(&in, OK "X-Long: ");
    buf_fill(&in, 'x', 5000);
    buf_adds(&in, "\r\nContent-Length: 1\r\n\r\n!");
    reply_reset(&r, NULL);
    CHECK(reply_feed(&r, in.data, in.len, &used) == REPLY_DONE && r.body_bytes == 1);
    buf_reset(&in);
    buf_adds(&in, OK);
    buf_fill(&in, 'x', REPLY_HEAD_MAX + 1);
    reply_reset(&r, NULL);
    CHECK(reply_feed(&r, in.data, in.len, &used) == REPLY_BAD);
    buf_reset(&in);
    buf_adds(&in, OK "Transfer-Encoding: chunked\r\n\r\n5;");
    buf_fill(&in, 'x', 5000);
    reply_reset(&r, NULL);
    CHECK(reply_feed(&r, in.data, in.len, &used) == REPLY_BAD);
    buf_release(&in);
}

TEST(the_ends_of_a_long_body)
{
    enum { LEN = 3000 };
    struct reply r = { 0 };
    char head[64], body[LEN];
    size_t used;

    for (size_t i = 0; i < LEN; i++)
        body[i] = (char)('a' + i % 26);
    for (size_t step = 1; step < LEN; step = step * 3 + 1) {
        snprintf(head, sizeof(head), OK "Content-Length: %d\r\n\r\n", LEN);
        reply_reset(&r, NULL);
        CHECK(reply_feed(&r, head, strlen(head), &used) == REPLY_MORE);
        for (size_t at = 0; at < LEN; at += used)
            (void)reply_feed(&r, body + at, LEN - at < step ? LEN - at : step, &used);
        CHECK(r.body_bytes == LEN && r.first_len == REPLY_ENDS_MAX && r.last_len == REPLY_ENDS_MAX);
        CHECK(!memcmp(r.first, body, REPLY_ENDS_MAX));
        CHECK(!memcmp(r.last, body + LEN - REPLY_ENDS_MAX, REPLY_ENDS_MAX));
    }
}

TEST(addresses)
{
    static const struct {
        const char *in, *authority, *prefix; /* authority NULL: refused */
    } urls[] = {
        { "http://127.0.0.1:8003", "127.0.0.1:8003", "" },
        { "http://host", "host:80", "" },
        { "host:81/", "host:81", "" },
        { "http://[::1]:8003/a/b//", "[::1]:8003", "/a/b" },
        { "unix:/run/x.sock", "localhost", "" },
        { "https://host", "host:443", "" },
        { "https://[::1]:8443/x/", "[::1]:8443", "/x" },
        { "https://user@host", NULL, NULL },
        { "https://", NULL, NULL },
        { "https://host/?x=1", NULL, NULL },
        { "ftp://host", NULL, NULL },
        { "http://", NULL, NULL },
        { "http://host:0", NULL, NULL },
        { "http://host:65536", NULL, NULL },
        { "http://host:80x", NULL, NULL },
        { "http://host:8888888888", NULL, NULL },
        { "http://[::1", NULL, NULL },
        { "http://[::1]80", NULL, NULL },
        { "http://a b", NULL, NULL },
        { "http://host\r\nX: y", NULL, NULL },
        { "http://host/?x=1", NULL, NULL },
        { "http://user@host", NULL, NULL },
        { "unix:", NULL, NULL },
        { "", NULL, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
        struct url u = { .port = "x" };
        struct err err = { 0 };
        char text[URL_AUTHORITY_MAX];

        CHECK((url_parse(urls[i].in, &u, &err) == RC_OK) == (urls[i].authority != NULL));
        if (urls[i].authority) {
            assert_string_equal(url_authority(&u, text), urls[i].authority);
            assert_string_equal(u.prefix, urls[i].prefix);
            CHECK(u.tls == !strncmp(urls[i].in, "https:", 6));
        } else {
            CHECK(err.code == RC_USAGE && u.port[0] == 'x');
        }
    }
}

TEST(origins_and_hosts)
{
    static const struct {
        const char *in, *why; /* NULL: it is one */
    } origins[] = {
        { "*", NULL },
        { "null", NULL },
        { "https://app.example", NULL },
        { "HTTPS://App.Example", NULL },
        { "http://127.0.0.1:3000", NULL },
        { "https://[2001:DB8::1]", NULL },
        { "http://app.example:443", NULL },
        { "chrome-extension://abcdef", NULL },
        { "app://.", NULL },
        { "https://app.example/", "browsers write it https://app.example" },
        { "https://app.example:443", "browsers write it https://app.example" },
        { "http://[::1]:80", "browsers write it http://[::1]" },
        { "https://app.example:08443", "browsers write it https://app.example:8443" },
        { "https://app.example/a?b#c", "browsers write it https://app.example" },
        { "app.example", "no scheme" },
        { "://app.example", "no scheme" },
        { "", "no scheme" },
        { "https://*.example", "no name of a host" },
        { "https://u@app.example", "no name of a host" },
        { "https://a b", "no name of a host" },
        { "https://app.example:99999", "no port" },
        { "https://", "no name of a host" },
        { "app://x/y", "more than a scheme" },
        { "app://", "more than a scheme" },
    };
    static const char *const hosts[] = { "*", "gpu7", "GPU7.example", "a-b_c.d" }, *const none[] = {
        "", "gpu7:8003", "http://gpu7", "gpu7.", "*.a.de", "[::1]", "a b", "a/b"
    };
    char longest[400] = "https://";

    for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
        struct err err = { 0 };

        CHECK(url_check_origin(origins[i].in, &err) == (origins[i].why ? RC_USAGE : RC_OK));
        CHECK(!origins[i].why || (strstr(err.msg, origins[i].why) && err.hint[0]));
    }
    memset(longest + 8, 'a', sizeof(longest) - 9);
    CHECK(url_check_origin(longest, NULL) == RC_USAGE);
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
        CHECK(url_check_host(hosts[i], NULL) == RC_OK);
    for (size_t i = 0; i < ARRAY_SIZE(none); i++)
        CHECK(url_check_host(none[i], NULL) == RC_USAGE);
}

TEST(addresses_with_a_query)
{
    static const struct {
        const char *in, *authority, *query; /* authority NULL: refused */
    } urls[] = {
        { "https://hooks.example/a?sig=x%20y&n=1", "hooks.example:443", "?sig=x%20y&n=1" },
        { "http://h/?", "h:80", "?" },
        { "https://h?a=b", "h:443", "?a=b" },
        { "https://h/a", "h:443", "" },
        { "unix:/run/x?y.sock", "localhost", "" },
        { "https://h/a?b c", NULL, NULL },
        { "https://h/a?b\r\nX: y", NULL, NULL },
        { "https://h/a?b#c", NULL, NULL },
        { "https://u@h/a?b", NULL, NULL },
        { "?a=b", NULL, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
        struct url u;
        const char *query = NULL;
        char text[URL_AUTHORITY_MAX];

        CHECK((url_parse_query(urls[i].in, &u, &query, NULL) == RC_OK) == !!urls[i].authority);
        if (urls[i].authority) {
            assert_string_equal(url_authority(&u, text), urls[i].authority);
            assert_string_equal(query, urls[i].query);
        }
    }
}

TEST_MAIN(cmocka_unit_test(replies_in_pieces_of_any_size), cmocka_unit_test(fields_that_are_read),
          cmocka_unit_test(long_lines_and_heads), cmocka_unit_test(the_ends_of_a_long_body),
          cmocka_unit_test(addresses), cmocka_unit_test(origins_and_hosts),
          cmocka_unit_test(addresses_with_a_query))

/* SPDX-License-Identifier: MIT */
/* test_http_guard: who may ask what: tokens by scope, sockets, what a browser says of a page. */
#include "http_box.h"

#include <sys/un.h>

static const char *const no_hosts[] = { NULL };

#define ASK(method, path, fields) method " " path " HTTP/1.1\r\n" fields "\r\n"
#define POST(path, fields)        ASK("POST", path, "Content-Length: 2\r\n" fields) "{}"
#define HERE                      "Host: localhost:1\r\n"
#define JSON                      "Content-Type: application/json\r\n"
#define BEARER(token)             "Authorization: Bearer " token "\r\n"

static int status_of(struct box *b, const char *text)
{
    int fd = dial(b), status;

    CHECK(say(fd, text));
    status = hear_status(fd);
    close(fd);
    return status;
}

TEST(scopes)
{
    struct http_opts o = { .keys = { "call", "admin", "figures" } };
    struct box b;

    box_open(&b, &o);
    assert_int_equal(status_of(&b, ASK("GET", "/health", HERE)), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE)), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("figures"))), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("call"))), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("cal"))), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("calls"))), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("callcall"))), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER(""))), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE "Authorization: Basic call\r\n")),
                     401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE "authorization: bEARER  call\r\n")),
                     200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("admin"))), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/figures", HERE)), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/figures", HERE BEARER("figures"))), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/figures", HERE BEARER("call"))), 200);
    assert_int_equal(status_of(&b, POST("/change", HERE JSON)), 401);
    assert_int_equal(status_of(&b, POST("/change", HERE JSON BEARER("call"))), 401);
    assert_int_equal(status_of(&b, POST("/change", HERE JSON BEARER("figures"))), 401);
    assert_int_equal(status_of(&b, POST("/change", HERE JSON BEARER("admin"))), 200);
    assert_int_equal(status_of(&b, POST("/change", HERE BEARER("admin"))), 415);
    assert_int_equal(
        status_of(&b, POST("/change", HERE BEARER("admin") "Content-Type: text/plain\r\n")), 415);
    http_set_keys(b.s, &(struct http_keys){ .token = "other" });
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("call"))), 401);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE BEARER("other"))), 200);
    assert_int_equal(status_of(&b, POST("/change", HERE JSON BEARER("other"))), 403);
    box_close(&b);
}

/* Where no token is set, changes still are not for everybody. */
TEST(changes_without_a_token)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct http_opts o = { 0 };
    struct box b;
    char address[128];
    int fd;

    box_open(&b, &o);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", HERE)), 200);
    assert_int_equal(status_of(&b, POST("/change", HERE JSON)), 403);
    box_close(&b);
    snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/stoker-test-guard-%d", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", a.sun_path);
    box_open_at(&b, &o, address);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    CHECK(say(fd, POST("/change", HERE JSON)));
    assert_int_equal(hear_status(fd), 200);
    CHECK(say(fd, POST("/change", HERE)));
    assert_int_equal(hear_status(fd), 415);
    close(fd);
    box_close(&b);
}

/* A page whose owner lets its name point at this machine. */
TEST(names_of_this_machine)
{
    static const char *const more[] = { "gpu7.example.org", NULL };
    struct http_opts o = { .hosts = no_hosts };
    char own[256] = "", text[512];
    struct box b;

    box_open(&b, &o);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: evil.example:1\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: localhost.evil.example\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: 127.0.0.1:evil.example\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: 127.0.0.1.evil.example\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/health", "Host: evil.example\r\n")), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: LOCALHOST.:80\r\n")), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: a.localhost\r\n")), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: 127.0.0.1:8003\r\n")), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: [::1]:8003\r\n")), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: [fe80::1%eth0]\r\n")), 200);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: [::1]evil.example\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: [::1]:1.evil.example\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: [evil.example]\r\n")), 421);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: [::1\r\n")), 421);
    /* a whole URL as target: its host counts, and Host does not */
    assert_int_equal(status_of(&b, ASK("GET", "http://evil.example/hello", HERE)), 421);
    assert_int_equal(status_of(&b, ASK("GET", "HTTP://evil.example:1/hello", HERE)), 421);
    assert_int_equal(status_of(&b, ASK("GET", "http://a@localhost/hello", HERE)), 400);
    assert_int_equal(status_of(&b, ASK("GET", "http:///hello", HERE)), 400);
    assert_int_equal(status_of(&b, ASK("GET", "http://evil.example", HERE)), 421);
    assert_int_equal(status_of(&b, ASK("GET", "http://evil.example?a=b", HERE)), 421);
    assert_int_equal(status_of(&b, ASK("GET", "http://localhost/hello", "Host: evil.example\r\n")),
                     200);
    assert_int_equal(status_of(&b, ASK("GET", "https://127.0.0.1:1/hello", HERE)), 200);
    CHECK(gethostname(own, sizeof(own) - 1) == 0);
    snprintf(text, sizeof(text), "GET /hello HTTP/1.1\r\nHost: %s:8003\r\n\r\n", own);
    assert_int_equal(status_of(&b, text), 200);
    box_close(&b);
    o.hosts = more;
    box_open(&b, &o);
    assert_int_equal(status_of(&b, ASK("GET", "/hello", "Host: gpu7.example.org\r\n")), 200);
    box_close(&b);
    o.hosts = no_hosts; /* who shows the token is no browser that was led here */
    o.keys.token = "call";
    box_open(&b, &o);
    assert_int_equal(
        status_of(&b, ASK("GET", "/hello", "Host: gateway.example\r\n" BEARER("call"))), 200);
    box_close(&b);
}

TEST(web_pages)
{
    static const char *const pages[] = { "https://app.example", NULL };
    struct http_opts o = { 0 };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    assert_int_equal(status_of(&b, POST("/echo", HERE "Origin: http://localhost:1\r\n")), 200);
    assert_int_equal(status_of(&b, POST("/echo", HERE "Origin: https://app.example\r\n")), 403);
    assert_int_equal(status_of(&b, POST("/echo", HERE "Origin: null\r\n")), 403);
    assert_int_equal(
        status_of(&b, POST("http://[::1]:9/echo", HERE "Origin: http://localhost:1\r\n")), 403);
    assert_int_equal(status_of(&b, POST("http://[::1]:9/echo", HERE "Origin: http://[::1]:9\r\n")),
                     200);
    assert_int_equal(status_of(&b, POST("/echo", HERE "Origin: http://localhost:2\r\n")), 403);
    assert_int_equal(status_of(&b, ASK("OPTIONS", "/echo",
                                       HERE "Origin: https://app.example\r\n"
                                            "Access-Control-Request-Method: POST\r\n")),
                     403);
    box_close(&b);
    o.origins = pages;
    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, ASK("OPTIONS", "/echo",
                      HERE "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
                           "Access-Control-Request-Headers: authorization\r\n")));
    a = hear(fd);
    CHECK(a.status == 204 &&
          strstr(a.head, "Access-Control-Allow-Origin: https://app.example\r\n"));
    CHECK(strstr(a.head, "Access-Control-Allow-Headers: Authorization, *\r\n"));
    answer_free(&a);
    CHECK(say(fd, POST("/echo", HERE "Origin: https://app.example\r\n")));
    a = hear(fd);
    CHECK(a.status == 200 &&
          strstr(a.head, "Access-Control-Allow-Origin: https://app.example\r\n"));
    CHECK(strstr(a.head, "Vary: Origin\r\n"));
    answer_free(&a);
    CHECK(say(fd, GET("/hello"))); /* the next one has no page behind it */
    a = hear(fd);
    CHECK(a.status == 200 && !strstr(a.head, "Access-Control"));
    answer_free(&a);
    close(fd);
    assert_int_equal(status_of(&b, POST("/echo", HERE "Origin: https://app.example.org\r\n")), 403);
    box_close(&b);
}

/* A byte now and then is progress, and yet not for ever. */
TEST(slow_bodies)
{
    struct http_opts o = { .body_ms = 10000, .body_total_ms = 100 };
    struct answer a;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"));
    for (int i = 0; i < BOX_WAIT_MS / 10; i++) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        if (poll(&p, 1, 10) == 1)
            break;
        CHECK(say(fd, "x"));
    }
    a = hear(fd);
    CHECK(a.status == 408 && strstr(a.head, "Connection: close\r\n"));
    answer_free(&a);
    close(fd);
    box_close(&b);
}

TEST_MAIN(cmocka_unit_test(scopes), cmocka_unit_test(changes_without_a_token),
          cmocka_unit_test(names_of_this_machine), cmocka_unit_test(web_pages),
          cmocka_unit_test(slow_bodies))

/* SPDX-License-Identifier: MIT */
/* http_box: a server on a free port of the loopback and a client that says what it likes. */
#ifndef TESTS_HTTP_BOX_H
#define TESTS_HTTP_BOX_H
#include "base/buf.h"
#include "http/http.h"
#include "os/clock.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BOX_WAIT_MS = 20000, BOX_KEPT_MAX = 64 };

struct box {
    struct http_server *s;
    int port;
    /* what the handler "keep" has kept */
    struct http_exchange *kept[BOX_KEPT_MAX];
    atomic_size_t kept_count, gone_count, done_count, done_gone;
    _Atomic int done_status;
};

static inline void box_hello(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    buf_adds(&body, "hello");
    http_reply(x, 200, "text/plain", &body, "X-Own: yes\r\n");
}

static inline void box_echo(void *arg, struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    struct buf body = { 0 };

    (void)arg;
    buf_add(&body, r->body, r->body_len);
    http_reply(x, 200, "application/octet-stream", &body, NULL);
}

static inline void box_on_gone(void *arg)
{
    struct box *b = arg;

    atomic_fetch_add(&b->gone_count, 1);
}

static inline void box_keep(void *arg, struct http_exchange *x)
{
    struct box *b = arg;

    http_on_gone(x, box_on_gone, b);
    b->kept[atomic_load(&b->kept_count)] = x;
    atomic_fetch_add(&b->kept_count, 1);
}

static inline void box_large(void *arg, struct http_exchange *x)
{
    struct buf body = { .max = 200 << 20 };

    (void)arg;
    buf_fill(&body, 'x', 100 << 20);
    http_reply(x, 200, "text/plain", &body, NULL);
}

static inline void *box_answer_main(void *arg)
{
    box_hello(NULL, arg);
    return NULL;
}

static inline void box_thread(void *arg, struct http_exchange *x)
{
    pthread_t t;

    (void)arg;
    pthread_create(&t, NULL, box_answer_main, x);
    pthread_detach(t);
}

static inline void box_done(void *arg, const struct http_request *req, int status, size_t bytes,
                            int64_t end_ns, bool gone)
{
    struct box *b = arg;

    (void)bytes;
    if (end_ns < req->begun_ns || !req->path)
        abort();
    atomic_store(&b->done_status, status);
    atomic_fetch_add(&b->done_gone, gone);
    atomic_fetch_add(&b->done_count, 1);
}

/* The usual routes; `o` gives the rest. */
static inline void box_open_at(struct box *b, struct http_opts *o, const char *address)
{
    static const char *const any_host[] = { "*", NULL };
    static struct http_route routes[11];
    struct err err = { 0 };

    memset(b, 0, sizeof(*b));
    routes[0] = (struct http_route){ HTTP_GET, "/hello", box_hello, b, HTTP_SCOPE_CALL };
    routes[1] = (struct http_route){ HTTP_POST, "/echo", box_echo, b, HTTP_SCOPE_CALL };
    routes[2] = (struct http_route){ HTTP_GET, "/keep", box_keep, b, HTTP_SCOPE_CALL };
    routes[3] = (struct http_route){ HTTP_GET, "/large", box_large, b, HTTP_SCOPE_CALL };
    routes[4] = (struct http_route){ HTTP_GET, "/thread", box_thread, b, HTTP_SCOPE_CALL };
    routes[5] = (struct http_route){ HTTP_GET, "/health", box_hello, b, HTTP_SCOPE_OPEN };
    routes[6] = (struct http_route){ HTTP_PUT, "/echo", box_echo, b, HTTP_SCOPE_CALL };
    routes[7] = (struct http_route){ HTTP_GET, "/hello/*", box_hello, b, HTTP_SCOPE_OPEN };
    routes[8] = (struct http_route){ HTTP_POST, "/change", box_echo, b, HTTP_SCOPE_ADMIN };
    routes[9] = (struct http_route){ HTTP_GET, "/figures", box_hello, b, HTTP_SCOPE_METRICS };
    routes[10] = (struct http_route){ HTTP_POST, "/keep", box_keep, b, HTTP_SCOPE_CALL };
    o->routes = routes;
    o->route_count = ARRAY_SIZE(routes);
    o->hosts = o->hosts ? o->hosts : any_host; /* requests here say "Host: a" */
    o->on_done = box_done;
    o->arg = b;
    if (http_server_new(o, &b->s, &err) || http_listen(b->s, address, 0, &b->port, &err) ||
        http_start(b->s, &err))
        fail_msg("%s", err.msg);
}

static inline void box_open(struct box *b, struct http_opts *o)
{
    box_open_at(b, o, "127.0.0.1");
}

static inline void box_close(struct box *b)
{
    http_server_free(b->s);
    for (size_t i = 0; i < b->kept_count; i++)
        if (b->kept[i])
            box_hello(NULL, b->kept[i]);
}

static inline void box_answer(struct box *b, size_t i)
{
    struct http_exchange *x = b->kept[i];

    b->kept[i] = NULL;
    box_hello(NULL, x);
}

/* Waits until *what is at least n. */
static inline void box_wait(atomic_size_t *what, size_t n)
{
    for (int i = 0; i < BOX_WAIT_MS && atomic_load(what) < n; i++)
        usleep(1000);
    CHECK(atomic_load(what) >= n);
}

static inline void box_wait_conns(struct box *b, size_t n)
{
    for (int i = 0; i < BOX_WAIT_MS && http_connections(b->s) != n; i++)
        usleep(1000);
    CHECK(http_connections(b->s) == n);
}

/* ---- the client */
static inline int dial_port(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct timeval wait = { .tv_sec = BOX_WAIT_MS / 1000 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline int dial(const struct box *b)
{
    int fd = dial_port(b->port);

    CHECK(fd >= 0);
    return fd;
}

static inline bool say_n(int fd, const void *p, size_t len)
{
    const char *s = p;

    while (len) {
        ssize_t n = send(fd, s, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        s += n;
        len -= (size_t)n;
    }
    return true;
}

static inline bool say(int fd, const char *s)
{
    return say_n(fd, s, strlen(s));
}

struct answer {
    int status;
    char head[4096];
    char *body; /* owned */
    size_t len;
};

static inline void answer_free(struct answer *a)
{
    free(a->body);
    a->body = NULL;
}

/* One reply; status 0: the connection ended first. */
static inline struct answer hear_of(int fd, bool bodiless)
{
    struct answer a = { 0 };
    const char *length;
    size_t n = 0;

    while (n < sizeof(a.head) - 1 && !(n >= 4 && !memcmp(a.head + n - 4, "\r\n\r\n", 4))) {
        if (recv(fd, a.head + n, 1, 0) != 1)
            return a;
        n++;
    }
    a.head[n] = '\0';
    a.status = (int)strtol(a.head + 9, NULL, 10);
    length = strcasestr(a.head, "content-length: ");
    a.len = length && !bodiless ? strtoul(length + 16, NULL, 10) : 0;
    a.body = calloc(1, a.len + 1);
    for (size_t at = 0; at < a.len;) {
        ssize_t got = recv(fd, a.body + at, a.len - at, 0);

        if (got <= 0) {
            a.status = 0;
            return a;
        }
        at += (size_t)got;
    }
    return a;
}

static inline struct answer hear(int fd)
{
    return hear_of(fd, false);
}

static inline int hear_status(int fd)
{
    struct answer a = hear(fd);

    answer_free(&a);
    return a.status;
}

static inline bool hear_end(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, 0);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

#endif

/* SPDX-License-Identifier: MIT */
/* The client against a server of a few lines that answers well, badly or not at all. */
#include "test.h"

#include "stub_server.h"

#include "base/mem.h"
#include "os/clock.h"
#include "os/net/client.h"

#define OK     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define ASK    "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
#define SECOND INT64_C(1000000000)

enum mode {
    M_OK,
    M_CHUNKED,
    M_UNTIL_END,
    M_CLOSE_EACH,  /* announced */
    M_DROP_SECOND, /* a kept connection ends unannounced when the second request comes */
    M_GARBAGE,
    M_RESET,     /* in the middle of the body */
    M_CUT_HEAD,  /* ends in the middle of the head */
    M_SILENT,    /* no reply */
    M_TOO_MUCH,  /* bytes behind the reply */
    M_EARLY_GONE /* every connection ends before a byte */
};

static bool answer(struct stub *s, int fd, const char *request, int nth)
{
    struct linger hard = { 1, 0 };

    (void)request;
    switch ((enum mode)atomic_load(&s->mode)) {
    case M_OK:
        return stub_write(fd, OK);
    case M_CHUNKED:
        return stub_write(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n") &&
               (usleep(2000), stub_write(fd, "1\r\nk\r\n0\r\n\r\n"));
    case M_UNTIL_END:
        return stub_write(fd, "HTTP/1.1 200 OK\r\n\r\nok") && false;
    case M_CLOSE_EACH:
        return stub_write(fd,
                          "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok") &&
               false;
    case M_DROP_SECOND:
        return !nth && stub_write(fd, OK);
    case M_GARBAGE:
        return stub_write(fd, "what do you want?\r\n");
    case M_RESET:
        (void)stub_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok");
        usleep(20000);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        return false;
    case M_CUT_HEAD:
        return stub_write(fd, "HTTP/1.1 200 OK\r\nConte") && false;
    case M_SILENT:
        return true;
    case M_TOO_MUCH:
        return stub_write(fd, OK "more");
    case M_EARLY_GONE:
        return false;
    }
    return false;
}

struct seen {
    size_t done, faults[5], good;
    int64_t longest_ns;
};

static void on_done(void *arg, const struct client_done *d)
{
    struct seen *s = arg;

    s->done++;
    s->faults[d->fault]++;
    if (d->fault == CLIENT_OK && d->reply->status == 200 && d->body->len == 2 &&
        !memcmp(d->body->data, "ok", 2))
        s->good++;
    if (d->done_ns - d->begun_ns > s->longest_ns)
        s->longest_ns = d->done_ns - d->begun_ns;
}

/* `total` requests over `slots` connections; what became of them. */
static struct seen ask_many(int port, size_t slots, size_t total, int64_t timeout_ns,
                            struct client_counts *out)
{
    struct url u = { .host = "127.0.0.1" };
    struct seen s = { 0 };
    struct client_opts o = { .url = &u,
                             .slots = slots,
                             .timeout_ns = timeout_ns,
                             .keep_bodies = true,
                             .on_done = on_done,
                             .arg = &s };
    int64_t end = clock_mono_ns() + 60 * SECOND;
    struct client *c;
    size_t sent = 0;

    snprintf(u.port, sizeof(u.port), "%d", port);
    assert_int_equal(client_new(&o, &c, NULL), RC_OK);
    while (s.done < total && clock_mono_ns() < end) {
        for (long slot; sent < total && (slot = client_free_slot(c)) >= 0; sent++)
            client_send(c, (size_t)slot, ASK, sizeof(ASK) - 1, sent);
        assert_int_equal(client_poll(c, clock_mono_ns() + SECOND / 10, NULL), RC_OK);
    }
    CHECK(s.done == total && client_in_flight(c) == 0);
    if (out)
        *out = client_counts(c);
    client_free(c);
    return s;
}

TEST(replies_of_every_kind)
{
    static const struct {
        enum mode mode;
        enum client_fault fault;
        bool new_connections; /* one a request */
    } rows[] = {
        { M_OK, CLIENT_OK, false },           { M_CHUNKED, CLIENT_OK, false },
        { M_UNTIL_END, CLIENT_OK, true },     { M_CLOSE_EACH, CLIENT_OK, true },
        { M_GARBAGE, CLIENT_GARBAGE, true },  { M_RESET, CLIENT_RESET, true },
        { M_CUT_HEAD, CLIENT_RESET, true },   { M_TOO_MUCH, CLIENT_OK, true },
        { M_EARLY_GONE, CLIENT_RESET, true },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct stub *s = xcalloc(1, sizeof(*s));
        struct client_counts n;
        struct seen seen;

        stub_start(s, answer);
        atomic_store(&s->mode, (int)rows[i].mode);
        seen = ask_many(s->port, 8, 40, 20 * SECOND, &n);
        assert_int_equal(seen.faults[rows[i].fault], 40);
        CHECK(rows[i].fault || seen.good == 40);
        assert_int_equal(n.connects, rows[i].new_connections ? 40 : 8);
        stub_stop(s);
        free(s);
    }
}

TEST(a_kept_connection_that_ended_is_no_error)
{
    struct stub *s = xcalloc(1, sizeof(*s));
    struct client_counts n;
    struct seen seen;

    stub_start(s, answer);
    atomic_store(&s->mode, M_DROP_SECOND);
    seen = ask_many(s->port, 4, 40, 20 * SECOND, &n);
    CHECK(seen.good == 40 && n.resent > 0 && n.connects >= 40);
    stub_stop(s);
    free(s);
}

TEST(silence_ends_in_time)
{
    struct stub *s = xcalloc(1, sizeof(*s));
    struct seen seen;

    stub_start(s, answer);
    atomic_store(&s->mode, M_SILENT);
    seen = ask_many(s->port, 8, 16, SECOND / 5, NULL);
    CHECK(seen.faults[CLIENT_TIMEOUT] == 16);
    CHECK(seen.longest_ns >= SECOND / 5);
    stub_stop(s);
    free(s);
}

TEST(many_connections)
{
    struct stub *s = xcalloc(1, sizeof(*s));
    struct client_counts n;
    struct seen seen;

    stub_start(s, answer);
    seen = ask_many(s->port, 300, 3000, 30 * SECOND, &n);
    CHECK(seen.good == 3000 && n.connects <= 300);
    CHECK(n.bytes_in == 3000 * (sizeof(OK) - 1) && n.bytes_out == 3000 * (sizeof(ASK) - 1));
    stub_stop(s);
    free(s);
}

TEST(nobody_listens)
{
    struct stub *s = xcalloc(1, sizeof(*s));
    struct url u = { .host = "127.0.0.1" };
    struct seen seen = { 0 };
    struct client_opts o = { .url = &u,
                             .slots = 2,
                             .timeout_ns = SECOND,
                             .keep_bodies = true,
                             .on_done = on_done,
                             .arg = &seen };
    struct err err = { 0 };
    struct client *c = NULL;

    stub_start(s, answer);
    snprintf(u.port, sizeof(u.port), "%d", s->port);
    assert_int_equal(client_new(&o, &c, &err), RC_OK);
    stub_stop(s); /* the server goes away after the client came */
    for (int i = 0; i < 2; i++)
        client_send(c, (size_t)client_free_slot(c), ASK, sizeof(ASK) - 1, 0);
    while (seen.done < 2)
        assert_int_equal(client_poll(c, clock_mono_ns() + SECOND / 10, NULL), RC_OK);
    CHECK(seen.faults[CLIENT_CONNECT] == 2);
    client_free(c);
    CHECK(client_new(&o, &c, &err) == RC_FAIL && strstr(err.msg, "could not connect"));
    free(s);
}

TEST_MAIN(cmocka_unit_test(replies_of_every_kind),
          cmocka_unit_test(a_kept_connection_that_ended_is_no_error),
          cmocka_unit_test(silence_ends_in_time), cmocka_unit_test(many_connections),
          cmocka_unit_test(nobody_listens))

/* SPDX-License-Identifier: MIT */
/* The memory and the messages between a process and its worker, both sides in this one: what is
 * posted is what arrives, and what is not right is refused by either. */
#include "test.h"

#include "base/mem.h"
#include "engine/worker/worker_msg_int.h"
#include "engine/worker/worker_ring_int.h"
#include "os/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 3000, SEQUENCES = 40, LENGTH = 30, WIDTH = 24 };

static const _Atomic bool fine;

struct both { /* the two views of one ring */
    struct wring owner, worker;
};

static void open_both(struct both *b)
{
    CHECK(wring_new(&b->owner, NULL) == RC_OK);
    CHECK(wring_open(b->owner.fd, &b->worker, NULL) == RC_OK);
}

static void close_both(struct both *b)
{
    wring_close(&b->owner);
    wring_close(&b->worker);
    wring_close(&b->owner); /* once more is fine */
}

struct load {
    uint32_t ids[SEQUENCES * LENGTH], starts[SEQUENCES + 1], skip[SEQUENCES];
    uint8_t types[SEQUENCES * LENGTH];
    struct eng_batch batch;
    enum eng_want want;
};

static void make_load(struct load *l, uint32_t seed)
{
    size_t n = 1 + seed % SEQUENCES;

    l->starts[0] = 0;
    for (size_t s = 0; s < n; s++) {
        l->starts[s + 1] = l->starts[s] + 1 + (uint32_t)(seed * 7 + s * 13) % LENGTH;
        l->skip[s] = (uint32_t)s;
    }
    for (uint32_t i = 0; i < l->starts[n]; i++) {
        l->ids[i] = seed * 31 + i;
        l->types[i] = (uint8_t)(i % 2);
    }
    l->want = (enum eng_want)(seed % 3);
    l->batch = (struct eng_batch){ .ids = l->ids,
                                   .starts = l->starts,
                                   .sequences = n,
                                   .types = seed % 2 ? l->types : NULL,
                                   .skip = seed % 5 ? NULL : l->skip };
}

static size_t rows_of(const struct load *l)
{
    return l->want == ENG_TOKENS ? l->starts[l->batch.sequences] : l->batch.sequences;
}

static float value(uint32_t seed, size_t i)
{
    return (float)(seed % 1000) + (float)i;
}

static bool same_batch(const struct eng_batch *a, const struct eng_batch *b)
{
    size_t tokens = a->starts[a->sequences];

    return a->sequences == b->sequences && !a->types == !b->types && !a->skip == !b->skip &&
           !memcmp(a->starts, b->starts, (a->sequences + 1) * sizeof(*a->starts)) &&
           !memcmp(a->ids, b->ids, tokens * sizeof(*a->ids)) &&
           (!a->types || !memcmp(a->types, b->types, tokens)) &&
           (!a->skip || !memcmp(a->skip, b->skip, a->sequences * sizeof(*a->skip)));
}

/* ---- the other side: checks what it gets and answers with numbers of the ticket */

static void *work(void *arg)
{
    struct wring *r = arg;
    struct load l;

    for (uint32_t t = 0; t < ROUNDS; t++) {
        struct wring_work w;
        while (!wring_ready(r, t, t % 7 ? 20000 : 0, 50000000))
            wring_beat(r, WRING_BATCHES, WORKER_IDLE);
        make_load(&l, t);
        bool ok = wring_work(r, t, &w, NULL) == RC_OK && w.handle == t && w.want == l.want &&
                  w.width == WIDTH && same_batch(&l.batch, &w.batch);
        for (size_t i = 0; ok && i < rows_of(&l) * WIDTH; i++)
            w.out[i] = value(t, i);
        wring_finish(r, t, !ok ? RC_PARSE : t % 11 ? RC_OK : RC_FAIL, ok ? "as asked" : "wrong");
    }
    return NULL;
}

static bool rows_right(const struct load *l, uint32_t ticket, const float *out)
{
    for (size_t i = 0; i < rows_of(l) * WIDTH; i++)
        if (out[i] != value(ticket, i))
            return false;
    return true;
}

static void post(struct wring *r, uint32_t ticket)
{
    struct load l;

    make_load(&l, ticket);
    struct wring_post p = { .handle = ticket, .want = l.want, .width = WIDTH, .batch = &l.batch };
    CHECK(wring_fits(&p));
    CHECK(wring_post(r, ticket, &p, NULL) == RC_OK);
}

static void take(struct wring *r, uint32_t ticket, float *out)
{
    struct wring_patience p = { .spin_ns = ticket % 3 ? 20000 : 0,
                                .until_ns = clock_mono_ns() + 20000000000,
                                .lost = &fine };
    struct err err = { 0 };
    struct load l;

    make_load(&l, ticket);
    CHECK(wring_await(r, ticket, &p) == WRING_DONE);
    enum rc rc = wring_take(r, ticket, out, rows_of(&l) * WIDTH, &err);
    if (ticket % 11) {
        CHECK(rc == RC_OK && rows_right(&l, ticket, out));
    } else {
        CHECK(rc == RC_FAIL);
        assert_string_equal(err.msg, "as asked");
    }
}

TEST(what_is_posted_arrives_and_comes_back_in_order)
{
    float *out = xcalloc(SEQUENCES * LENGTH * WIDTH, sizeof(*out));
    struct both b;
    pthread_t thread;

    open_both(&b);
    assert_int_equal(pthread_create(&thread, NULL, work, &b.worker), 0);
    for (uint32_t t = 0; t < ROUNDS + 2; t++) { /* three on their way */
        if (t < ROUNDS)
            post(&b.owner, t);
        if (t >= 2)
            take(&b.owner, t - 2, out);
    }
    pthread_join(thread, NULL);
    CHECK(wring_call(&b.owner, WRING_BATCHES) == WORKER_IDLE);
    close_both(&b);
    free(out);
}

TEST(who_waits_is_called_away)
{
    _Atomic bool lost = false, nudged = true;
    struct wring_patience p = { .lost = &lost, .nudged = &nudged };
    struct both b;

    open_both(&b);
    post(&b.owner, 0);
    p.until_ns = clock_mono_ns() + 1000000000;
    CHECK(wring_await(&b.owner, 0, &p) == WRING_NUDGED);
    CHECK(!nudged);
    p.until_ns = clock_mono_ns() + 2000000;
    CHECK(wring_await(&b.owner, 0, &p) == WRING_LATE);
    CHECK(clock_mono_ns() >= p.until_ns);
    lost = true;
    p.until_ns = clock_mono_ns() + 1000000000;
    CHECK(wring_await(&b.owner, 0, &p) == WRING_LOST);
    wring_finish(&b.worker, 0, RC_OK, NULL);
    CHECK(wring_await(&b.owner, 0, &p) == WRING_DONE); /* it came in time after all */
    close_both(&b);
}

TEST(a_batch_that_does_not_fit_is_refused)
{
    uint32_t starts[2] = { 0, 1 << 23 }, id = 0;
    struct eng_batch b = { .ids = &id, .starts = starts, .sequences = 1 };
    struct wring_post p = { .want = ENG_TOKENS, .width = 32, .batch = &b };
    struct err err = { 0 };
    struct both both;

    CHECK(!wring_fits(&p)); /* 1 GiB of rows */
    p.want = ENG_VECTORS;
    CHECK(!wring_fits(&p)); /* ids alone fill a slot */
    starts[1] = 1;
    CHECK(wring_fits(&p));
    p.width = 0;
    CHECK(!wring_fits(&p));
    p.width = UINT32_MAX;
    CHECK(!wring_fits(&p));
    open_both(&both);
    CHECK(wring_post(&both.owner, 0, &p, &err) == RC_LIMIT);
    CHECK(!wring_ready(&both.worker, 0, 0, 0));
    b.sequences = 0;
    CHECK(!wring_fits(&p));
    close_both(&both);
}

TEST(large_rows_give_their_memory_back)
{
    enum { TOKENS = 400000, WIDE = 100 }; /* 160 MB */
    uint32_t starts[2] = { 0, TOKENS }, *ids = xcalloc(TOKENS, sizeof(*ids));
    struct eng_batch b = { .ids = ids, .starts = starts, .sequences = 1 };
    struct wring_post p = { .want = ENG_TOKENS, .width = WIDE, .batch = &b };
    float *out = xcalloc((size_t)TOKENS * WIDE, sizeof(*out));
    struct wring_work w;
    struct both both;

    open_both(&both);
    CHECK(wring_post(&both.owner, 0, &p, NULL) == RC_OK);
    CHECK(wring_work(&both.worker, 0, &w, NULL) == RC_OK);
    w.out[(size_t)TOKENS * WIDE - 1] = 5;
    wring_finish(&both.worker, 0, RC_OK, NULL);
    CHECK(wring_take(&both.owner, 0, out, (size_t)TOKENS * WIDE, NULL) == RC_OK);
    CHECK(out[(size_t)TOKENS * WIDE - 1] == 5);
    CHECK(both.owner.out_have[0] <= WRING_KEEP_BYTES);
    CHECK(wring_post(&both.owner, WRING_SLOTS, &p, NULL) == RC_OK); /* and again */
    close_both(&both);
    free(out);
    free(ids);
}

TEST(another_file_is_no_ring)
{
    struct wring r;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), null;

    CHECK(wring_open(fd, &r, NULL) == RC_PARSE);
    CHECK(ftruncate(fd, 4096) == 0);
    CHECK(wring_open(fd, &r, NULL) == RC_PARSE);
    close(fd);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(wring_open(null, &r, NULL) == RC_PARSE);
    close(null);
    CHECK(wring_open(-1, &r, NULL) == RC_PARSE);
    CHECK(wring_new(&r, NULL) == RC_OK);
    CHECK(ftruncate(r.fd, 4096) < 0); /* it cannot shrink under who reads it */
    fd = r.fd;
    memset(r.page, 0, 8); /* its magic */
    struct wring other;
    CHECK(wring_open(fd, &other, NULL) == RC_PARSE);
    wring_close(&r);
}

/* Whatever the other side writes where both can. */
TEST(garbage_in_the_page_harms_nobody)
{
    enum { FROM = 8, BYTES = 8192 }; /* behind its magic and size */
    float out[WIDTH];
    uint32_t x = 1;
    struct both b;

    open_both(&b);
    for (size_t round = 0; round < 2000; round++) {
        unsigned char *page = (unsigned char *)b.owner.page;
        _Atomic bool nudged = false;
        struct wring_patience p = { .lost = &fine, .nudged = &nudged };
        struct wring_work w;
        for (size_t i = FROM; i < BYTES; i++) {
            x = x * 1664525 + 1013904223;
            if (round % 2 || x >> 30 == 0)
                page[i] = (unsigned char)(round % 3 ? x >> 24 : x >> 24 & 3);
        }
        for (uint32_t t = 0; t < WRING_SLOTS; t++) {
            struct err err = { 0 };
            if (wring_await(&b.owner, t, &p) == WRING_DONE)
                (void)wring_take(&b.owner, t, out, WIDTH, &err);
            (void)wring_ready(&b.worker, t, 0, 0);
            if (wring_work(&b.worker, t, &w, &err) == RC_OK)
                CHECK(w.tokens && w.batch.sequences && w.batch.starts[0] == 0 &&
                      w.batch.starts[w.batch.sequences] == w.tokens);
        }
        CHECK(worker_call_name(wring_call(&b.owner, WRING_BATCHES)) != NULL);
    }
    close_both(&b);
}

/* ---- messages */

TEST(messages_go_through_a_socket_with_a_descriptor)
{
    struct model net = { .dir = "/models/a", .pool = MODEL_POOL_CLS, .normalize = true };
    struct eng_opts o = { .device = "cuda:1", .dtype = ENG_BF16, .threads = 3, .isa = "avx2" };
    struct msg_request request, raw, back;
    int pair[2], fd = -1;

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    msg_request_init(&request, MSG_LOAD);
    request.number = 77;
    CHECK(msg_request_model(&request, &net, &o, NULL) == RC_OK);
    CHECK(fd_message_send(pair[0], &request, sizeof(request), STDERR_FILENO));
    CHECK(fd_message_receive(pair[1], &raw, sizeof(raw), &fd) == (ssize_t)sizeof(raw));
    CHECK(fd > STDERR_FILENO && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    CHECK(msg_request_read(&raw, sizeof(raw), &back));
    CHECK(back.number == 77 && back.dtype == ENG_BF16 && back.pool == MODEL_POOL_CLS &&
          back.normalize && back.threads == 3);
    assert_string_equal(back.dir, "/models/a");
    assert_string_equal(back.isa, "avx2");
    CHECK(send(pair[0], &request, 10, 0) == 10);
    ssize_t n = fd_message_receive(pair[1], &raw, sizeof(raw), NULL);
    CHECK(n == 10 && !msg_request_read(&raw, (size_t)n, &back));
    CHECK(fd_message_send(pair[0], &request, sizeof(request),
                          STDERR_FILENO));                    /* one that nobody asked for */
    CHECK(fd_message_receive(pair[1], &raw, 100, NULL) == 1); /* larger than there is room */
    close(pair[0]);
    CHECK(fd_message_receive(pair[1], &raw, sizeof(raw), NULL) == 0);
    CHECK(!fd_message_send(pair[1], &request, sizeof(request), -1));
    close(pair[1]);
}

TEST(answers_are_checked)
{
    struct msg_response good, a, out;
    struct err err = { 0 };

    msg_response_init(&good, MSG_REPLY);
    (void)err_set(&err, RC_LIMIT, "no memory");
    err_hint(&err, "Buy some.");
    msg_response_error(&good, RC_LIMIT, &err);
    CHECK(msg_response_read(&good, sizeof(good), &out));
    err = (struct err){ 0 };
    CHECK(msg_response_rc(&out, &err) == RC_LIMIT);
    assert_string_equal(err.msg, "no memory");
    assert_string_equal(err.hint, "Buy some.");
    CHECK(!msg_response_read(&good, sizeof(good) - 1, &out));
    a = good;
    a.magic++;
    CHECK(!msg_response_read(&a, sizeof(a), &out));
    a = good;
    a.kind = MSG_LOAD;
    CHECK(!msg_response_read(&a, sizeof(a), &out));
    a = good;
    a.rc = 1;
    CHECK(!msg_response_read(&a, sizeof(a), &out));
    a = good;
    a.count = MSG_DEVICES_MAX + 1;
    CHECK(!msg_response_read(&a, sizeof(a), &out));
    a = good;
    memset(a.hint, 'x', sizeof(a.hint));
    CHECK(!msg_response_read(&a, sizeof(a), &out));
    a = good;
    memcpy(a.msg, "\xff\x1b[2J", 6); /* words for a terminal are no words */
    CHECK(msg_response_read(&a, sizeof(a), &out));
    CHECK(!strchr(out.msg, '\x1b'));
}

TEST_MAIN(cmocka_unit_test(what_is_posted_arrives_and_comes_back_in_order),
          cmocka_unit_test(who_waits_is_called_away),
          cmocka_unit_test(a_batch_that_does_not_fit_is_refused),
          cmocka_unit_test(large_rows_give_their_memory_back),
          cmocka_unit_test(another_file_is_no_ring),
          cmocka_unit_test(garbage_in_the_page_harms_nobody),
          cmocka_unit_test(messages_go_through_a_socket_with_a_descriptor),
          cmocka_unit_test(answers_are_checked))

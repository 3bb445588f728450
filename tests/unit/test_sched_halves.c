/* SPDX-License-Identifier: MIT */
/* The scheduler on a device that takes batches in two halves.  The device here holds what it was
 * given until the test says that it is done, so that the test sees what is submitted when. */
#include "test.h"

#include "sched_fake.h"

enum { BUDGET = 64, FULL = BUDGET, SMALL = 8 };

struct held {
    struct eng_batch b;
    enum eng_want want;
    float *out;
    bool done;
    enum rc rc;
};

static struct device {
    struct eng eng; /* first */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct held held[ENG_IN_FLIGHT];
    size_t count, submits, most, nudges;
    size_t requests_done_at_submit; /* when the last one was */
    bool nudged, at_once;
    enum rc next_rc; /* of those that are done at once */
} device = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static _Atomic size_t requests_done;

static enum rc submit(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                      struct err *err)
{
    struct device *d = (struct device *)e;
    enum rc rc = RC_OK;

    pthread_mutex_lock(&d->lock);
    if (d->count == ENG_IN_FLIGHT) {
        rc = err_set(err, RC_LIMIT, "full");
    } else {
        d->held[d->count++] = (struct held){ *b, want, out, d->at_once, d->next_rc };
        d->submits++;
        d->most = d->count > d->most ? d->count : d->most;
        d->requests_done_at_submit = atomic_load(&requests_done);
    }
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

static enum rc collect(struct eng *e, bool *out_done, struct err *err)
{
    struct device *d = (struct device *)e;

    pthread_mutex_lock(&d->lock);
    assert_true(d->count);
    while (!d->held[0].done && !d->nudged)
        pthread_cond_wait(&d->changed, &d->lock);
    d->nudged = false;
    struct held h = d->held[0];
    *out_done = h.done;
    if (h.done)
        d->held[0] = d->held[--d->count];
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (!h.done)
        return RC_OK;
    if (h.rc != RC_OK)
        return err_set(err, h.rc, "the device is gone");
    return fake_run(e, &h.b, h.want, h.out, err);
}

static void nudge(struct eng *e)
{
    struct device *d = (struct device *)e;

    pthread_mutex_lock(&d->lock);
    d->nudged = true;
    d->nudges++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static const struct eng_ops ops = {
    .name = "test", .run = fake_run, .submit = submit, .collect = collect, .nudge = nudge
};

/* The oldest is done, once the one that was done before it has been fetched. */
static void finish(enum rc rc)
{
    pthread_mutex_lock(&device.lock);
    while (!device.count || device.held[0].done)
        pthread_cond_wait(&device.changed, &device.lock);
    device.held[0].done = true;
    device.held[0].rc = rc;
    pthread_cond_broadcast(&device.changed);
    pthread_mutex_unlock(&device.lock);
}

static void wait_submits(size_t n)
{
    pthread_mutex_lock(&device.lock);
    while (device.submits < n)
        pthread_cond_wait(&device.changed, &device.lock);
    pthread_mutex_unlock(&device.lock);
}

static size_t submits(void)
{
    pthread_mutex_lock(&device.lock);
    size_t n = device.submits;
    pthread_mutex_unlock(&device.lock);
    return n;
}

static struct fake_model model;

static struct sched *begin(bool at_once)
{
    struct sched_opts o = { 0 };
    struct sched *s = NULL;

    fake_reset();
    assert_int_equal(sched_new(&o, &s, NULL), RC_OK);
    fake_model(&model, s, "m", "dev", BUDGET);
    model.net.vocab = 1 << 20;
    model.net.positions = 4096;
    model.served.eng = &device.eng;
    device.eng = (struct eng){ .ops = &ops, .model = &model.net };
    device.count = device.submits = device.most = device.nudges = 0;
    device.nudged = false;
    device.at_once = at_once;
    device.next_rc = RC_OK;
    atomic_store(&requests_done, 0);
    return s;
}

static void count_done(struct fake_request *f)
{
    (void)f;
    atomic_fetch_add(&requests_done, 1);
}

static struct fake_request *ask(struct sched *s, uint32_t id, size_t tokens)
{
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    f->then = count_done;
    (void)fake_add(f, id, tokens);
    assert_int_equal(fake_submit(s, f, &retry_s), RC_OK);
    return f;
}

/* ---- */

TEST(a_full_batch_goes_behind_the_one_that_runs)
{
    struct sched *s = begin(false);
    struct fake_request *a = ask(s, 1, SMALL), *b, *c;

    wait_submits(1);
    b = ask(s, 2, FULL);
    wait_submits(2); /* the first is not back yet */
    c = ask(s, 3, FULL);
    fake_sleep(5000000);
    CHECK(submits() == 2); /* there is room for two */
    finish(RC_OK);
    fake_end(a, RC_OK);
    wait_submits(3);
    finish(RC_OK);
    fake_end(b, RC_OK);
    finish(RC_OK);
    fake_end(c, RC_OK);
    CHECK(device.most == 2);
    sched_free(s);
}

TEST(a_small_one_waits_for_more_but_not_for_rows_to_be_handed_out)
{
    struct sched *s = begin(false);
    struct fake_request *a = ask(s, 1, SMALL), *b, *c;

    wait_submits(1);
    b = ask(s, 2, SMALL);
    fake_sleep(5000000);
    c = ask(s, 3, SMALL);
    fake_sleep(5000000);
    CHECK(submits() == 1 && device.nudges == 0);
    finish(RC_OK);
    wait_submits(2);
    CHECK(device.requests_done_at_submit == 0); /* before the first was told */
    fake_end(a, RC_OK);
    finish(RC_OK);
    fake_end(b, RC_OK);
    fake_end(c, RC_OK);
    CHECK(submits() == 2 && device.most == 1); /* b and c together */
    sched_free(s);
}

TEST(a_device_that_fails_under_two_batches)
{
    struct sched *s = begin(false);
    struct fake_request *a = ask(s, 1, FULL), *b;

    wait_submits(1);
    b = ask(s, 2, FULL);
    wait_submits(2);
    finish(RC_NODEV);
    CHECK(fake_wait(a) == RC_FAIL && strstr(a->msg, "the device is gone"));
    fake_free(a);
    finish(RC_OK);
    fake_end(b, RC_OK);
    sched_free(s);
}

/* A request of texts in two batches ends once, when both are back, whichever fails. */
TEST(a_request_in_two_batches)
{
    for (int fails = 0; fails < 3; fails++) {
        struct sched *s = begin(false);
        struct fake_request *f = fake_request(&model, ENG_TOKENS);
        int retry_s = 0;

        for (uint32_t i = 0; i < 4; i++)
            (void)fake_add(f, 10 + i, FULL / 2);
        CHECK(fake_submit(s, f, &retry_s) == RC_OK);
        wait_submits(2);
        finish(fails == 1 ? RC_NODEV : RC_OK);
        fake_sleep(3000000);
        CHECK(f->calls == 0);
        if (fails == 2)
            fake_cancel(f); /* what runs, runs */
        finish(RC_OK);
        CHECK(fake_wait(f) == (fails == 2 ? f->why : RC_OK)); /* text by text it worked */
        if (f->why == RC_OK)
            CHECK(fake_rows_right(f));
        CHECK(f->calls == 1);
        fake_free(f);
        sched_free(s);
    }
}

TEST(it_stops_with_two_on_their_way)
{
    struct sched *s = begin(false);
    struct fake_request *a = ask(s, 1, FULL), *b, *c;

    wait_submits(1);
    b = ask(s, 2, FULL);
    wait_submits(2);
    c = ask(s, 3, FULL);
    finish(RC_OK);
    fake_end(a, RC_OK);
    wait_submits(3);
    finish(RC_OK);
    fake_end(b, RC_OK);
    finish(RC_OK);
    sched_free(s);
    CHECK(fake_wait(c) == RC_OK || c->why == RC_LIMIT);
    fake_free(c);
}

static void call(void *arg)
{
    struct device *d = arg;

    pthread_mutex_lock(&d->lock);
    size_t count = d->count;
    pthread_mutex_unlock(&d->lock);
    assert_int_equal(count, 0); /* between batches */
}

/* Many clients, cancels, the same texts, calls on the device queue, a device that fails now and
 * then. */
TEST(storm)
{
    enum { REQUESTS = 400, ROUNDS = 12 };
    struct sched *s = begin(true);
    static struct fake_request *requests[REQUESTS];
    size_t good = 0;
    uint32_t x = 1;

    for (size_t round = 0; round < ROUNDS; round++) {
        device.next_rc = round % 4 == 3 ? RC_NODEV : RC_OK;
        for (size_t i = 0; i < REQUESTS; i++) {
            int retry_s = 0;
            requests[i] = fake_request(&model, i % 5 ? ENG_VECTORS : ENG_TOKENS);
            for (size_t k = 0; k <= i % 4; k++) {
                x = x * 1664525 + 1013904223;
                (void)fake_add(requests[i], 1 + x % 300, 1 + (x >> 20) % FULL);
            }
            requests[i]->request.class = i % 3 ? REQUEST_INTERACTIVE : REQUEST_BULK;
            if (fake_submit(s, requests[i], &retry_s) != RC_OK) {
                fake_free(requests[i]);
                requests[i] = NULL;
            } else if (x >> 28 == 0) {
                fake_cancel(requests[i]);
            }
            if (i % 100 == 50)
                sched_on_device_queue(model.served.device_queue, call, &device);
        }
        for (size_t i = 0; i < REQUESTS; i++) {
            if (!requests[i])
                continue;
            enum rc why = fake_wait(requests[i]);
            CHECK(why == RC_OK || why == RC_LIMIT || (why == RC_FAIL && round % 4 == 3));
            CHECK(why != RC_OK || fake_rows_right(requests[i]));
            good += why == RC_OK;
            fake_free(requests[i]);
        }
    }
    CHECK(good > REQUESTS);
    CHECK(fake_waiting_tokens(s) == 0);
    sched_free(s);
    CHECK(device.count == 0);
}

TEST_MAIN(cmocka_unit_test(a_full_batch_goes_behind_the_one_that_runs),
          cmocka_unit_test(a_small_one_waits_for_more_but_not_for_rows_to_be_handed_out),
          cmocka_unit_test(a_device_that_fails_under_two_batches),
          cmocka_unit_test(a_request_in_two_batches),
          cmocka_unit_test(it_stops_with_two_on_their_way), cmocka_unit_test(storm))

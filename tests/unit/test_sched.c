/* SPDX-License-Identifier: MIT */
/* The scheduler step by step: what is taken in, what waits, what runs together, what ends how.
 * A gate in the fake engine holds a batch, so that the test knows what waits behind it. */
#include "test.h"

#include "base/text/json.h"
#include "sched_fake.h"

enum { BUDGET = 256 };

static struct fake_model model;

static struct sched *begin(struct sched_opts o)
{
    struct sched *s = fake_sched(o);

    assert_non_null(s);
    fake_model(&model, s, "m", "cpu", BUDGET);
    return s;
}

static void wait_idle(struct sched *s)
{
    while (fake_open_requests(s))
        fake_sleep(100000);
    CHECK(fake_waiting_tokens(s) == 0);
}

/* ---- */

TEST(one_request_of_each_kind)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    static const enum eng_want wants[] = { ENG_VECTORS, ENG_SCORES, ENG_TOKENS };

    for (size_t k = 0; k < ARRAY_SIZE(wants); k++) {
        struct fake_request *f = fake_request(&model, wants[k]);
        for (uint32_t i = 0; i < 40; i++) {
            (void)fake_add(f, 100 + i, 1 + i * 7);
            if (i % 3) {
                f->types[i][0] = (uint8_t)(i % 2);
                f->items[i].types = f->types[i];
            }
        }
        int retry_s = 0;
        CHECK(fake_submit(s, f, &retry_s) == RC_OK);
        CHECK(fake_wait(f) == RC_OK);
        CHECK(fake_rows_right(f));
        CHECK(f->request.submitted_ns <= f->request.started_ns &&
              f->request.started_ns <= f->request.ended_ns);
        fake_free(f);
    }
    wait_idle(s);
    sched_free(s);
    sched_free(NULL);
}

TEST(no_batch_is_above_its_budget_but_for_a_longer_text)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[100];

    for (uint32_t i = 0; i < 100; i++)
        f[i] = fake_one(s, &model, 1000 + i, i % 10 ? 1 + i * 37 % 200 : BUDGET + i, REQUEST_BULK);
    fake_open();
    for (size_t i = 0; i < 100; i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    for (size_t i = 0; i < fake.batches; i++)
        CHECK(fake.log[i].tokens <= BUDGET || fake.log[i].sequences == 1);
    sched_free(s);
}

TEST(kinds_and_models_do_not_mix)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_model other;
    struct fake_request *held = fake_hold(s, &model), *f[4];
    int retry_s = 0;

    fake_model(&other, s, "other", "cpu", BUDGET);
    for (uint32_t i = 0; i < 4; i++) {
        f[i] = fake_request(i == 3 ? &other : &model, i == 3 ? ENG_VECTORS : (enum eng_want)i);
        (void)fake_add(f[i], 5, 10); /* the same text four times, and nothing to share */
        CHECK(fake_submit(s, f[i], &retry_s) == RC_OK);
    }
    CHECK(fake_waiting_tokens(s) == 40);
    fake_open();
    for (size_t i = 0; i < 4; i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.batches == 5);
    sched_free(s);
}

/* ---- order */

TEST(interactive_goes_first_and_bulk_has_its_share)
{
    enum { N = 120 };
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[2 * N];
    size_t bulk = 0, run = 0;

    for (uint32_t i = 0; i < N; i++) {
        f[i] = fake_one(s, &model, 20000 + i, BUDGET - i % 5, REQUEST_BULK);
        f[N + i] = fake_one(s, &model, 10000 + i, BUDGET - i % 7, REQUEST_INTERACTIVE);
    }
    fake_open();
    for (size_t i = 0; i < ARRAY_SIZE(f); i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.log[1].first < 20000); /* who hurries begins */
    for (size_t i = 1; i <= N; i++) { /* as long as both wait: one of four */
        bool is_bulk = fake.log[i].first >= 20000;
        bulk += is_bulk;
        run = is_bulk ? 0 : run + 1;
        CHECK(run <= 3);
    }
    CHECK(bulk == N / 4);
    sched_free(s);
}

TEST(bulk_does_not_slow_a_small_interactive_batch)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[42];

    for (uint32_t i = 0; i < 40; i++)
        f[i] = fake_one(s, &model, 20000 + i, 40, REQUEST_BULK);
    f[40] = fake_one(s, &model, 1, 40, REQUEST_INTERACTIVE);
    fake_go();
    fake_entered();
    CHECK(fake.log[1].first == 1 && fake.log[1].sequences == 1);
    f[41] = fake_one(s, &model, 2, 200, REQUEST_INTERACTIVE);
    fake_go();
    fake_entered();
    CHECK(fake.log[2].first == 2 && fake.log[2].sequences == 2); /* more than half full */
    fake_open();
    for (size_t i = 0; i < ARRAY_SIZE(f); i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    sched_free(s);
}

enum { TEXTS = 6000, STEPS = 400 };
static struct {
    size_t came, ahead, tokens, ran; /* batches; tokens in front of it */
} texts[TEXTS];

static void note_text(size_t batch, uint32_t first, size_t tokens)
{
    (void)tokens;
    if (first < TEXTS)
        texts[first].ran = batch;
}

/* Twice what the device can run comes for a while, of lengths that suit one another better than
 * the few odd ones among them; each runs within the bound that sched_waiting.c states. */
static size_t worst_wait(bool odd_ones, size_t *out_bound_missed)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model),
                        **f = xcalloc(TEXTS, sizeof(struct fake_request *));
    uint32_t x = 12345, n = 1;
    size_t worst = 0;

    fake.on_text = note_text;
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t sum = 0; sum < 2 * BUDGET && step < STEPS / 2 && n < TEXTS; n++) {
            x = x * 1664525u + 1013904223u;
            size_t len = odd_ones && (x >> 8) % 16 == 0 ? 3 + (x >> 16) % 200 : 64;
            texts[n].came = fake.batches;
            texts[n].ahead = fake_waiting_tokens(s);
            texts[n].tokens = len;
            f[n] = fake_one(s, &model, n, len, REQUEST_INTERACTIVE);
            sum += len;
        }
        if (!fake_open_requests(s))
            break;
        fake_go();
        if (!fake_waiting_tokens(s))
            break;
        fake_entered();
    }
    fake_open();
    *out_bound_missed = 0;
    for (uint32_t i = 1; i < n; i++) {
        fake_end(f[i], RC_OK);
        size_t turns = (texts[i].ahead + BUDGET - 1) / BUDGET, wait = texts[i].ran - texts[i].came;
        *out_bound_missed += wait > turns + 4 + 2 * turns + 2;
        worst = wait > worst ? wait : worst;
    }
    fake_end(held, RC_OK);
    free(f);
    sched_free(s);
    return worst;
}

TEST(nothing_waits_beyond_its_bound)
{
    size_t missed, worst = worst_wait(true, &missed);

    CHECK(missed == 0);
    CHECK(worst < STEPS);
    worst = worst_wait(false, &missed);
    CHECK(missed == 0);
}

/* One old text of each length, and behind it a batch full of young ones of that length, which
 * suit it better than the other old ones do.  By nearness alone each batch would take one old
 * text. */
TEST(old_texts_are_not_passed_by_young_ones_of_better_length)
{
    enum { ROOM = 4096, OLD_MAX = 32, YOUNG_MAX = 64 };
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *old[OLD_MAX], *young[YOUNG_MAX] = { 0 };
    struct fake_model wide;
    size_t n = 0, requests = 0;
    uint32_t id = OLD_MAX;
    int retry_s = 0;

    fake_model(&wide, s, "wide", "cpu", ROOM);
    struct fake_request *held = fake_hold(s, &model);
    fake.on_text = note_text;
    for (size_t len = 16; len <= 448; len += len / 4, n++)
        old[n] = fake_one(s, &wide, (uint32_t)n, len, REQUEST_INTERACTIVE);
    CHECK(fake_waiting_tokens(s) <= ROOM && n > 12);
    for (size_t len = 16; len <= 448; len += len / 4)
        for (size_t sum = 0; sum < ROOM; sum += len) {
            struct fake_request *y = young[requests];
            y = young[requests] = y ? y : fake_request(&wide, ENG_VECTORS);
            (void)fake_add(y, id++, len);
            if (y->request.count == ARRAY_SIZE(y->items))
                CHECK(fake_submit(s, young[requests++], &retry_s) == RC_OK);
        }
    fake_open();
    for (size_t i = 0; i < n; i++) {
        fake_end(old[i], RC_OK);
        CHECK(texts[i].ran - 1 <= 1 + 4 + 2 + 2);
    }
    for (size_t i = 0; i < requests; i++)
        fake_end(young[i], RC_OK);
    fake_free(young[requests]);
    fake_end(held, RC_OK);
    CHECK(fake.batches > 10);
    sched_free(s);
}

/* The mean fill of batches that are filled first come, first served. */
static double fifo_fill(const size_t *lengths, size_t n)
{
    size_t batches = 1, sum = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        if (sum && sum + lengths[i] > BUDGET) {
            batches++;
            sum = 0;
        }
        sum += lengths[i];
        all += lengths[i];
    }
    return (double)all / (double)(batches * BUDGET);
}

TEST(batches_are_fuller_than_first_come_first_served)
{
    enum { N = 3000 };
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model),
                        **f = xcalloc(N, sizeof(struct fake_request *));
    size_t *lengths = xcalloc(N, sizeof(*lengths));
    uint32_t x = 99;

    for (uint32_t i = 0; i < N; i++) {
        double u[2], len;
        for (size_t k = 0; k < 2; k++, x = x * 1664525u + 1013904223u)
            u[k] = ((double)(x >> 8) + 1) / 16777217.0;
        len = exp(3.5 + 0.8 * sqrt(-2 * log(u[0])) * cos(6.283185307 * u[1]));
        lengths[i] = len < 3 ? 3 : len > 250 ? 250 : (size_t)len;
        f[i] = fake_one(s, &model, i, lengths[i], REQUEST_BULK);
    }
    fake_open();
    for (size_t i = 0; i < N; i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    double fill = (double)(fake.tokens - 2) / (double)((fake.batches - 1) * BUDGET);
    double fifo = fifo_fill(lengths, N);
    print_message("# fill %.4f, first come first served %.4f\n", fill, fifo);
    CHECK(fill > 0.9); /* who wants little goes first: long ones are left for the end */
    CHECK(fill > fifo + 0.04);
    free(lengths);
    free(f);
    sched_free(s);
}

/* ---- taking in */

TEST(a_request_is_taken_whole_or_not_at_all)
{
    struct sched *s = begin((struct sched_opts){ .queue_tokens_max = 1000 });
    struct fake_request *held = fake_hold(s, &model), *a = fake_request(&model, ENG_VECTORS),
                        *b = fake_request(&model, ENG_VECTORS),
                        *c = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    a->request.class = b->request.class = c->request.class = REQUEST_BULK;
    for (uint32_t i = 0; i < 9; i++)
        (void)fake_add(a, 10 + i, 100);
    CHECK(fake_submit(s, a, &retry_s) == RC_OK);
    CHECK(fake_waiting_tokens(s) == 900);
    (void)fake_add(b, 50, 50);
    (void)fake_add(b, 51, 51);
    CHECK(fake_submit(s, b, &retry_s) == RC_LIMIT);
    CHECK(retry_s >= 1 && retry_s <= 60);
    CHECK(fake_waiting_tokens(s) == 900);
    CHECK(fake_open_requests(s) == 2);
    CHECK(b->calls == 0);
    (void)fake_add(c, 60, 100); /* to the last token */
    CHECK(fake_submit(s, c, &retry_s) == RC_OK);
    CHECK(fake_waiting_tokens(s) == 1000);
    fake_open();
    fake_end(a, RC_OK);
    fake_end(c, RC_OK);
    fake_end(held, RC_OK);
    wait_idle(s);
    CHECK(fake.sequences == 11);
    CHECK(fake_submit(s, b, &retry_s) == RC_OK); /* now there is room */
    fake_end(b, RC_OK);
    sched_free(s);
}

TEST(a_request_above_the_limit_runs_when_nothing_waits)
{
    struct sched *s = begin((struct sched_opts){ .queue_tokens_max = 1000 });
    struct fake_request *held = fake_hold(s, &model), *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    for (uint32_t i = 0; i < 20; i++)
        (void)fake_add(f, 10 + i, 100);
    struct fake_request *first = fake_one(s, &model, 3, 1, REQUEST_BULK);
    CHECK(fake_submit(s, f, &retry_s) == RC_LIMIT);
    fake_open();
    fake_end(first, RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    fake_end(f, RC_OK);
    sched_free(s);
}

TEST(requests_are_counted)
{
    struct sched *s = begin((struct sched_opts){ .queue_requests_max = 3 });
    struct fake_request *f[5] = { fake_hold(s, &model) };

    for (uint32_t i = 1; i < 5; i++)
        f[i] = fake_one(s, &model, i, 5, REQUEST_BULK);
    CHECK(f[3]->why == RC_USAGE && f[4]->why == RC_USAGE); /* refused */
    CHECK(fake_open_requests(s) == 3);
    fake_open();
    for (size_t i = 0; i < 3; i++)
        fake_end(f[i], RC_OK);
    fake_free(f[3]);
    fake_free(f[4]);
    sched_free(s);
}

static struct fake_request *one_of(struct sched *s, uint64_t client, uint32_t first, size_t tokens,
                                   enum request_class class)
{
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    f->request.class = class;
    f->request.client = client;
    (void)fake_add(f, first, tokens);
    if (fake_submit(s, f, &retry_s) != RC_OK)
        f->why = RC_USAGE;
    return f;
}

/* A client that fills the queue has itself refused; a short request, and another client, have a
 * part of it for themselves. */
TEST(who_fills_the_queue_shuts_out_nobody_else)
{
    struct sched *s =
        begin((struct sched_opts){ .queue_tokens_max = 800, .queue_requests_max = 80 });
    struct fake_request *held = fake_hold(s, &model), *f[11] = { NULL };

    for (uint32_t i = 0; i < 4; i++) /* 800: full */
        f[i] = one_of(s, 7, 100 * (i + 1), 200, REQUEST_BULK);
    CHECK(f[3]->why == RC_OK);
    f[4] = one_of(s, 7, 700, 5, REQUEST_BULK);
    CHECK(f[4]->why == RC_USAGE);
    f[5] = one_of(s, 7, 710, 60, REQUEST_INTERACTIVE); /* 860 of 900 */
    CHECK(f[5]->why == RC_OK);
    f[6] = one_of(s, 7, 720, 60, REQUEST_INTERACTIVE);
    CHECK(f[6]->why == RC_USAGE);
    f[7] = one_of(s, 8, 730, 40, REQUEST_BULK); /* 900: of another client, bulk too */
    CHECK(f[7]->why == RC_OK);
    f[8] = one_of(s, 8, 740, 5, REQUEST_INTERACTIVE); /* it is here already */
    CHECK(f[8]->why == RC_USAGE);
    f[9] = one_of(s, 9, 750, 100, REQUEST_INTERACTIVE); /* 1000: to the last token */
    CHECK(f[9]->why == RC_OK);
    f[10] = one_of(s, 10, 760, 1, REQUEST_INTERACTIVE);
    CHECK(f[10]->why == RC_USAGE);
    fake_open();
    for (size_t i = 0; i < ARRAY_SIZE(f); i++)
        if (f[i]->why == RC_USAGE)
            fake_free(f[i]);
        else
            fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    sched_free(s);
}

/* Once the speed is known, what cannot end in time is not taken in. */
TEST(deadlines_that_cannot_be_met_are_refused)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f[20], *late = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_per_token_ns, 20000); /* 5 ms a batch */
    for (uint32_t i = 0; i < 20; i++)
        f[i] = fake_one(s, &model, i, 200, REQUEST_INTERACTIVE);
    for (size_t i = 0; i < 20; i++)
        fake_end(f[i], RC_OK);
    wait_idle(s);
    struct fake_request *held = fake_hold(s, &model);
    for (uint32_t i = 0; i < 20; i++)
        f[i] = fake_one(s, &model, i, 200, REQUEST_INTERACTIVE); /* 80 ms */
    (void)fake_add(late, 777, 200);
    late->request.deadline_ns = clock_mono_ns() + 30000000;
    CHECK(fake_submit(s, late, &retry_s) == RC_LIMIT);
    CHECK(retry_s >= 1 && retry_s <= 60);
    late->request.deadline_ns = clock_mono_ns() + 5000000000;
    CHECK(fake_submit(s, late, &retry_s) == RC_OK);
    fake_open();
    for (size_t i = 0; i < 20; i++)
        fake_end(f[i], RC_OK);
    fake_end(late, RC_OK);
    fake_end(held, RC_OK);
    sched_free(s);
}

/* ---- ends before the end */

TEST(a_deadline_passes)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[3],
                        *other = fake_one(s, &model, 9, 20, REQUEST_BULK);
    int retry_s = 0;

    for (uint32_t i = 0; i < 3; i++) {
        f[i] = fake_request(&model, ENG_VECTORS);
        (void)fake_add(f[i], 100 + i, 10);
        (void)fake_add(f[i], 200 + i, 10);
        f[i]->request.deadline_ns = clock_mono_ns() + (i == 2 ? INT64_C(60000000000) : 1000000);
        f[i]->request.class = i == 1 ? REQUEST_BULK : REQUEST_INTERACTIVE;
        CHECK(fake_submit(s, f[i], &retry_s) == RC_OK);
    }
    CHECK(fake_waiting_tokens(s) == 80);
    fake_sleep(2000000);
    fake_go(); /* the next batch is taken, and those whose time is over are not in it */
    fake_entered();
    CHECK(fake_wait(f[0]) == RC_TIMEOUT);
    CHECK(fake_wait(f[1]) == RC_TIMEOUT);
    CHECK(f[2]->calls == 0);
    CHECK(fake_waiting_tokens(s) == 20);
    fake_open();
    CHECK(fake_wait(f[2]) == RC_OK);
    for (size_t i = 0; i < 3; i++)
        fake_free(f[i]);
    fake_end(other, RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.sequences == 4);
    sched_free(s);
}

TEST(cancelled_at_every_stage)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *before = fake_request(&model, ENG_VECTORS), *waiting, *running, *flagged;
    int retry_s = 0;

    atomic_store(&before->request.cancelled, true);
    (void)fake_add(before, 1, 5);
    CHECK(fake_submit(s, before, &retry_s) == RC_OK);
    fake_end(before, RC_LIMIT);
    CHECK(fake.batches == 0);
    running = fake_hold(s, &model);
    waiting = fake_one(s, &model, 2, 5, REQUEST_INTERACTIVE);
    flagged = fake_one(s, &model, 3, 5, REQUEST_BULK);
    fake_cancel(running);
    fake_cancel(waiting);
    atomic_store(&flagged->request.cancelled, true); /* as a client that goes away does */
    fake_open();
    fake_end(waiting, RC_LIMIT);
    fake_end(flagged, RC_LIMIT);
    fake_end(running, RC_OK); /* it was computed already */
    wait_idle(s);
    CHECK(fake.sequences == 1);
    sched_free(s);
}

/* The source of many requests goes away: one flag ends all that wait. */
TEST(many_are_cancelled_at_once)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *running = fake_hold(s, &model), *f[8];
    _Atomic bool gone = false;
    int retry_s = 0;

    for (uint32_t i = 0; i < ARRAY_SIZE(f); i++) {
        f[i] = fake_request(&model, ENG_VECTORS);
        (void)fake_add(f[i], 10 + i, 5);
        f[i]->request.gone = &gone;
        CHECK(fake_submit(s, f[i], &retry_s) == RC_OK);
    }
    atomic_store(&gone, true);
    fake_open();
    for (size_t i = 0; i < ARRAY_SIZE(f); i++)
        fake_end(f[i], RC_LIMIT);
    fake_end(running, RC_OK);
    wait_idle(s);
    CHECK(fake.sequences == 1);
    sched_free(s);
}

TEST(a_shared_text_outlives_its_owner)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[4];

    for (size_t i = 0; i < 4; i++)
        f[i] = fake_one(s, &model, 5, 50, REQUEST_BULK);
    CHECK(fake_waiting_tokens(s) == 50);
    struct fake_request *after = fake_one(s, &model, 6, 50, REQUEST_BULK);
    fake_cancel(f[0]);
    fake_cancel(f[2]);
    fake_go();
    fake_entered();
    fake_end(f[0], RC_LIMIT); /* its ids are gone from here on */
    fake_end(f[2], RC_LIMIT);
    struct fake_request *joins = fake_one(s, &model, 5, 50, REQUEST_BULK); /* while it runs */
    fake_open();
    fake_end(f[1], RC_OK);
    fake_end(f[3], RC_OK);
    CHECK(fake_wait(joins) == RC_OK);
    CHECK(joins->items[0].shared && fake_rows_right(joins));
    fake_free(joins);
    fake_end(after, RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.sequences == 3);
    CHECK(fake.log[1].sequences == 2);
    sched_free(s);
}

/* ---- once for all */

TEST(the_same_text_is_computed_once)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[10],
                        *inside = fake_request(&model, ENG_VECTORS);
    struct fake_request *typed = fake_request(&model, ENG_VECTORS),
                        *zero = fake_request(&model, ENG_VECTORS);
    size_t shared = 0;
    int retry_s = 0;

    for (size_t i = 0; i < 10; i++)
        f[i] = fake_one(s, &model, 5, 30, REQUEST_BULK);
    for (size_t i = 0; i < 4; i++)
        (void)fake_add(inside, 7, 20);
    CHECK(fake_submit(s, inside, &retry_s) == RC_OK);
    (void)fake_add(typed, 5, 30); /* not the same: it has a type that is not 0 */
    typed->types[0][3] = 1;
    typed->items[0].types = typed->types[0];
    CHECK(fake_submit(s, typed, &retry_s) == RC_OK);
    (void)fake_add(zero, 5, 30); /* the same: types that are all 0 are none */
    zero->items[0].types = zero->types[0];
    CHECK(fake_submit(s, zero, &retry_s) == RC_OK);
    CHECK(fake_waiting_tokens(s) == 30 + 20 + 30);
    fake_open();
    for (size_t i = 0; i < 10; i++) {
        CHECK(fake_wait(f[i]) == RC_OK && fake_rows_right(f[i]));
        shared += f[i]->items[0].shared;
        fake_free(f[i]);
    }
    CHECK(fake_wait(zero) == RC_OK && fake_rows_right(zero));
    shared += zero->items[0].shared;
    fake_free(zero);
    CHECK(shared == 10);
    fake_end(inside, RC_OK);
    fake_end(typed, RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.sequences == 4);
    sched_free(s);
}

TEST(who_hurries_lifts_a_bulk_text)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[12];

    for (uint32_t i = 0; i < 10; i++)
        f[i] = fake_one(s, &model, 100 + i, BUDGET, REQUEST_BULK);
    f[10] = fake_one(s, &model, 109, BUDGET, REQUEST_INTERACTIVE);
    fake_go();
    fake_entered();
    CHECK(fake.log[1].first == 109);
    fake_open();
    for (size_t i = 0; i < 11; i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.sequences == 11);
    sched_free(s);
}

/* With one hash for all, texts are told apart by what they are. */
TEST(one_hash_for_all)
{
    struct sched *s = begin((struct sched_opts){ .one_hash = true, .cache_bytes = 1 << 20 });
    struct fake_request *held = fake_hold(s, &model), *f[40];

    for (uint32_t i = 0; i < 40; i++)
        f[i] = fake_one(s, &model, i / 2, 20 + i / 4, REQUEST_BULK);
    fake_open();
    for (size_t i = 0; i < 40; i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    wait_idle(s);
    CHECK(fake.sequences == 21);
    for (uint32_t i = 0; i < 40; i++) {
        struct fake_request *again = fake_one(s, &model, i / 2, 20 + i / 4, REQUEST_BULK);
        CHECK(again->calls == 1 && again->items[0].cached); /* inside sched_submit() */
        fake_end(again, RC_OK);
    }
    CHECK(fake.sequences == 21);
    sched_free(s);
}

TEST(the_cache_knows_version_and_kind)
{
    struct metrics *m = metrics_new();
    struct sched *s = begin((struct sched_opts){ .cache_bytes = 1 << 20, .metrics = m });
    struct fake_request *f;
    int retry_s = 0;
    static const bool want_hit[] = { false, true, false, false, false };

    for (size_t i = 0; i < ARRAY_SIZE(want_hit); i++) {
        f = fake_request(&model, i == 3 || i == 4 ? ENG_TOKENS : ENG_VECTORS);
        (void)fake_add(f, 4, 12);
        if (i == 2)
            model.served.key++; /* swapped */
        CHECK(fake_submit(s, f, &retry_s) == RC_OK);
        CHECK(fake_wait(f) == RC_OK && fake_rows_right(f));
        CHECK(f->items[0].cached == want_hit[i]);
        fake_free(f);
    }
    CHECK(fake.sequences == 4);
    struct buf b = { 0 };
    metrics_write(m, &b);
    assert_non_null(strstr(buf_str(&b), "stoker_cache_hits_total{model=\"m\"} 1\n"));
    assert_non_null(strstr(buf_str(&b), "stoker_cache_misses_total{model=\"m\"} 2\n"));
    assert_null(strstr(buf_str(&b), "stoker_cache_bytes 0\n"));
    buf_release(&b);
    sched_free(s);
    metrics_free(m);
}

/* ---- what fails */

TEST(a_bad_text_costs_its_own_request)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[20];
    int retry_s = 0;

    for (uint32_t i = 0; i < 20; i++) {
        f[i] = fake_request(&model, ENG_VECTORS);
        (void)fake_add(f[i], 100 + i, 5);
        (void)fake_add(f[i], 200 + i, 6);
        if (i == 3)
            f[i]->ids[1][2] = FAKE_FAILS;
        if (i == 8)
            f[i]->ids[0][1] = FAKE_NAN;
        if (i == 9) /* shares the bad one */
            memcpy(f[i]->ids[1], f[3]->ids[1], sizeof(f[i]->ids[1]));
        CHECK(fake_submit(s, f[i], &retry_s) == RC_OK);
    }
    fake_open();
    for (size_t i = 0; i < 20; i++) {
        bool bad = i == 3 || i == 8 || i == 9;
        CHECK(fake_wait(f[i]) == (bad ? RC_FAIL : RC_OK));
        if (bad) {
            CHECK(f[i]->items[i != 8].failed && f[i]->msg[0]);
            CHECK(!f[i]->items[i == 8].failed);
        } else {
            CHECK(fake_rows_right(f[i]));
        }
    }
    assert_string_equal(f[3]->msg, "a text that cannot be computed");
    assert_string_equal(f[8]->msg, "model 'm' gave a number that is not finite");
    for (size_t i = 0; i < 20; i++)
        fake_free(f[i]);
    fake_end(held, RC_OK);
    sched_free(s);
}

TEST(what_is_left_of_a_failed_request_does_not_run)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    fake_add(f, 1, BUDGET)[1] = FAKE_FAILS;
    for (uint32_t i = 0; i < 5; i++)
        (void)fake_add(f, 100 + i, BUDGET - 1); /* the longest runs first */
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    CHECK(fake_wait(f) == RC_FAIL);
    wait_idle(s);
    CHECK(fake.batches == 1);
    fake_free(f);
    sched_free(s);
}

/* ---- threads and ends */

static struct sched *the_sched;
static struct fake_request *follow_up;
static _Atomic int on_lane_calls;

static void count_call(void *arg)
{
    (void)arg;
    on_lane_calls++;
}

static void submit_more(struct fake_request *j)
{
    int retry_s = 0;

    sched_on_device_queue(j->request.model->device_queue, count_call,
                          NULL); /* on its own thread: at once */
    if (fake_submit(the_sched, follow_up, &retry_s) != RC_OK)
        follow_up->why = RC_USAGE;
}

TEST(done_may_submit)
{
    struct sched *s = the_sched = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    on_lane_calls = 0;
    follow_up = fake_request(&model, ENG_SCORES);
    (void)fake_add(follow_up, 5, 5);
    (void)fake_add(f, 4, 5);
    f->then = submit_more;
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    CHECK(fake_wait(f) == RC_OK);
    fake_end(follow_up, RC_OK);
    CHECK(on_lane_calls == 1);
    fake_free(f);
    sched_free(s);
}

TEST(devices_do_not_wait_for_one_another)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_model other;

    fake_model(&other, s, "other", "cuda:0", BUDGET);
    CHECK(sched_device_queue(s, "cuda:0") == other.served.device_queue);
    CHECK(other.served.device_queue != model.served.device_queue);
    struct fake_request *held = fake_hold(s, &model);
    atomic_store(&fake.gated, false); /* the first stays at the gate */
    struct fake_request *f = fake_one(s, &other, 1, 10, REQUEST_BULK);
    fake_end(f, RC_OK);
    CHECK(held->calls == 0);
    fake_go();
    fake_end(held, RC_OK);
    sched_free(s);
}

static void *open_late(void *arg)
{
    fake_sleep(5000000);
    fake_open();
    return arg;
}

TEST(stop_ends_what_waits)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[30];
    pthread_t t;
    int retry_s = 0;

    for (uint32_t i = 0; i < 30; i++)
        f[i] = fake_one(s, &model, i / 2, 100, i % 2 ? REQUEST_BULK : REQUEST_INTERACTIVE);
    CHECK(pthread_create(&t, NULL, open_late, NULL) == 0);
    sched_stop(s);
    for (size_t i = 0; i < 30; i++)
        CHECK(f[i]->calls == 1); /* it waited for them */
    CHECK(held->calls == 1);
    CHECK(fake_open_requests(s) == 0 && fake_waiting_tokens(s) == 0);
    pthread_join(t, NULL);
    for (size_t i = 0; i < 30; i++)
        fake_end(f[i], RC_LIMIT);
    fake_end(held, RC_OK);
    struct fake_request *late = fake_request(&model, ENG_VECTORS);
    (void)fake_add(late, 1, 1);
    CHECK(fake_submit(s, late, &retry_s) == RC_LIMIT);
    fake_free(late);
    on_lane_calls = 0;
    sched_on_device_queue(model.served.device_queue, count_call, NULL);
    sched_on_device_queue(sched_device_queue(s, "new"), count_call, NULL);
    CHECK(on_lane_calls == 2);
    sched_free(s);
}

TEST(series_are_there_before_the_first_request)
{
    struct metrics *m = metrics_new();
    struct sched *s = begin((struct sched_opts){ .metrics = m });
    static const char *const lines[] = {
        "stoker_batches_total{model=\"m\"} 0\n",
        "stoker_queue_tokens{model=\"m\",class=\"bulk\"} 0\n",
        "stoker_queue_dropped_total{model=\"m\",reason=\"deadline\"} 0\n",
        "stoker_queue_refused_total{model=\"m\",reason=\"tokens\"} 0\n",
        "stoker_batch_fill_count{model=\"m\"} 0\n",
    };
    struct buf b = { 0 };

    sched_expect_model(s, "m");
    metrics_write(m, &b);
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        if (!strstr(buf_str(&b), lines[i]))
            fail_msg("no %s", lines[i]);
    buf_reset(&b);
    fake_end(fake_one(s, &model, 1, 128, REQUEST_BULK), RC_OK);
    wait_idle(s);
    metrics_write(m, &b);
    assert_non_null(strstr(buf_str(&b), "stoker_batches_total{model=\"m\"} 1\n"));
    assert_non_null(strstr(buf_str(&b), "stoker_batch_fill_sum{model=\"m\"} 0.5\n"));
    assert_non_null(strstr(buf_str(&b), "stoker_queue_jobs{model=\"m\",class=\"bulk\"} 0\n"));
    buf_release(&b);
    sched_free(s);
    metrics_free(m);
}

TEST(the_last_batches)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct buf b = { 0 };
    struct json_out w;
    struct arena a = { 0 };
    struct json *doc = NULL;

    sched_batches_svg(s, &b);
    assert_non_null(strstr(buf_str(&b), "No batch"));
    buf_reset(&b);
    for (uint32_t i = 0; i < SCHED_BATCHES_KEPT + 10; i++)
        fake_end(fake_one(s, &model, 1 + i, 1 + i % 100, REQUEST_BULK), RC_OK);
    wait_idle(s);
    json_out_init(&w, &b, 0);
    sched_batches_json(s, &w);
    CHECK(json_parse(&a, b.data, b.len, &doc, NULL) == RC_OK);
    const struct json *list = json_get(doc, "batches"), *last = json_at(list, list->count - 1);
    CHECK(list->count == SCHED_BATCHES_KEPT);
    assert_string_equal(json_str(json_get(last, "model")), "m");
    CHECK(json_int(json_get(last, "tokens")).v == 1 + (SCHED_BATCHES_KEPT + 9) % 100);
    CHECK(json_int(json_get(last, "budget")).v == BUDGET);
    CHECK(json_int(json_get(last, "bulk")).v == 1);
    buf_reset(&b);
    sched_batches_svg(s, &b);
    assert_non_null(strstr(buf_str(&b), "</svg>"));
    CHECK(b.len > 10000 && !b.over);
    buf_release(&b);
    arena_release(&a);
    sched_free(s);
}

/* How long an idle device takes to begin; STOKER_BENCH=1 says it. */
TEST(an_idle_lane_begins_at_once)
{
    enum { N = 200 };
    struct sched *s = begin((struct sched_opts){ 0 });
    int64_t took[N];

    for (uint32_t i = 0; i < N; i++) {
        fake_sleep(200000);
        struct fake_request *f = fake_one(s, &model, i, 20, REQUEST_INTERACTIVE);
        CHECK(fake_wait(f) == RC_OK);
        took[i] = fake.last_begun_ns - f->request.submitted_ns;
        for (uint32_t k = i; k && took[k] < took[k - 1]; k--) {
            int64_t t = took[k];
            took[k] = took[k - 1];
            took[k - 1] = t;
        }
        fake_free(f);
    }
    if (getenv("STOKER_BENCH"))
        print_message("# submit to run: p50 %.1f us, p90 %.1f us\n", (double)took[N / 2] / 1e3,
                      (double)took[N * 9 / 10] / 1e3);
    CHECK(took[N / 2] < 50000000);
    sched_free(s);
}

TEST_MAIN(cmocka_unit_test(one_request_of_each_kind),
          cmocka_unit_test(no_batch_is_above_its_budget_but_for_a_longer_text),
          cmocka_unit_test(kinds_and_models_do_not_mix),
          cmocka_unit_test(interactive_goes_first_and_bulk_has_its_share),
          cmocka_unit_test(bulk_does_not_slow_a_small_interactive_batch),
          cmocka_unit_test(nothing_waits_beyond_its_bound),
          cmocka_unit_test(old_texts_are_not_passed_by_young_ones_of_better_length),
          cmocka_unit_test(batches_are_fuller_than_first_come_first_served),
          cmocka_unit_test(a_request_is_taken_whole_or_not_at_all),
          cmocka_unit_test(a_request_above_the_limit_runs_when_nothing_waits),
          cmocka_unit_test(requests_are_counted),
          cmocka_unit_test(who_fills_the_queue_shuts_out_nobody_else),
          cmocka_unit_test(deadlines_that_cannot_be_met_are_refused),
          cmocka_unit_test(a_deadline_passes), cmocka_unit_test(cancelled_at_every_stage),
          cmocka_unit_test(many_are_cancelled_at_once),
          cmocka_unit_test(a_shared_text_outlives_its_owner),
          cmocka_unit_test(the_same_text_is_computed_once),
          cmocka_unit_test(who_hurries_lifts_a_bulk_text), cmocka_unit_test(one_hash_for_all),
          cmocka_unit_test(the_cache_knows_version_and_kind),
          cmocka_unit_test(a_bad_text_costs_its_own_request),
          cmocka_unit_test(what_is_left_of_a_failed_request_does_not_run),
          cmocka_unit_test(done_may_submit), cmocka_unit_test(devices_do_not_wait_for_one_another),
          cmocka_unit_test(stop_ends_what_waits),
          cmocka_unit_test(series_are_there_before_the_first_request),
          cmocka_unit_test(the_last_batches), cmocka_unit_test(an_idle_lane_begins_at_once))

/* SPDX-License-Identifier: MIT */
/* Who waits for whom: short requests beside large ones, clients beside one another, what is
 * refused since it could not end in time, and how large a batch may be. */
#include "test.h"

#include "sched_fake.h"

enum { BUDGET = 256, LONG = 128, CLIENTS = 64 };

static struct fake_model model;

static struct sched *begin(struct sched_opts o)
{
    struct sched *s = fake_sched(o);

    assert_non_null(s);
    fake_model(&model, s, "m", "cpu", BUDGET);
    return s;
}

/* `texts` long texts of one client, which says nothing of bulk. */
static struct fake_request *large(struct sched *s, uint64_t client, uint32_t first, size_t texts)
{
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    f->request.client = client;
    for (uint32_t i = 0; i < texts; i++)
        (void)fake_add(f, first + i, LONG);
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    return f;
}

static struct fake_request *little(struct sched *s, uint64_t client, uint32_t first)
{
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    f->request.client = client;
    (void)fake_add(f, first, 4);
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    return f;
}

static void warm_up(struct sched *s)
{
    for (uint32_t i = 0; i < 12; i++)
        fake_end(fake_one(s, &model, 50000 + i, i % 2 ? BUDGET : BUDGET / 2, REQUEST_INTERACTIVE),
                 RC_OK);
}

/* ---- a short request */

/* 1, 8 and 64 clients send calls of 64 long texts each, from the same address or their own. */
static void beside_bulk(size_t clients, bool same)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[CLIENTS];

    for (uint32_t i = 0; i < clients; i++)
        f[i] = large(s, same ? 7 : i, 100 + 64 * i, 64);
    for (uint32_t round = 0; round < 5; round++) {
        size_t at = fake.batches; /* the one at the gate is at - 1 */
        struct fake_request *one = little(s, same ? 7 : 1000, 40000 + round);
        fake_go();
        fake_entered();
        CHECK(fake.log[at].first == 40000 + round && fake.log[at].sequences == 1);
        fake_go();
        fake_entered();
        fake_end(one, RC_OK);
    }
    fake_open();
    for (size_t i = 0; i < clients; i++)
        fake_end(f[i], RC_OK);
    fake_end(held, RC_OK);
    sched_free(s);
}

TEST(a_short_request_waits_for_one_batch)
{
    for (size_t clients = 1; clients <= CLIENTS; clients *= 8) {
        beside_bulk(clients, true);
        beside_bulk(clients, false);
    }
}

/* None of these is bulk, and all wait before the short one comes. */
TEST(a_short_request_passes_those_of_middle_size)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[40];

    for (uint32_t i = 0; i < ARRAY_SIZE(f); i++)
        f[i] = fake_one(s, &model, 100 + i, 200, REQUEST_INTERACTIVE);
    struct fake_request *one = little(s, 0, 40000);
    fake_go();
    fake_entered();
    CHECK(fake.log[1].first == 40000);
    fake_open();
    for (size_t i = 0; i < ARRAY_SIZE(f); i++)
        fake_end(f[i], RC_OK);
    fake_end(one, RC_OK);
    fake_end(held, RC_OK);
    sched_free(s);
}

/* A text of a large request that a short one wants too is computed with the short one. */
TEST(a_shared_text_runs_where_it_waits_less)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *bulk = large(s, 1, 100, 40);
    struct fake_request *one = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    (void)fake_add(one, 139, LONG);
    CHECK(fake_submit(s, one, &retry_s) == RC_OK);
    CHECK(fake_waiting_tokens(s) == 40 * LONG);
    fake_go();
    fake_entered();
    CHECK(fake.log[1].first == 139);
    atomic_store(&one->request.cancelled, true); /* too late: it runs */
    fake_open();
    CHECK(fake_wait(one) == RC_OK || one->why == RC_LIMIT);
    fake_free(one);
    fake_end(bulk, RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.sequences == 41);
    sched_free(s);
}

/* The short one goes away before its turn: the large one has its text back. */
TEST(a_shared_text_comes_back)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *bulk = large(s, 1, 100, 10);
    struct fake_request *one = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    (void)fake_add(one, 103, LONG);
    CHECK(fake_submit(s, one, &retry_s) == RC_OK);
    fake_cancel(one);
    fake_open();
    fake_end(one, RC_LIMIT);
    fake_end(bulk, RC_OK);
    fake_end(held, RC_OK);
    CHECK(fake.sequences == 11);
    sched_free(s);
}

/* ---- clients */

static size_t ran_at[60000];

static void note_text(size_t batch, uint32_t first, size_t tokens)
{
    (void)tokens;
    ran_at[first] = batch;
}

/* One client has eight calls of 32 texts there when another comes with one. */
TEST(clients_share_alike)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *held = fake_hold(s, &model), *f[8];

    fake.on_text = note_text;
    for (uint32_t i = 0; i < 8; i++)
        f[i] = large(s, 1, 1000 + 100 * i, 32);
    struct fake_request *other = large(s, 2, 30000, 32);
    fake_open();
    for (size_t i = 0; i < 8; i++)
        fake_end(f[i], RC_OK);
    fake_end(other, RC_OK);
    fake_end(held, RC_OK);
    size_t last = 0;
    for (uint32_t i = 0; i < 32; i++)
        last = ran_at[30000 + i] > last ? ran_at[30000 + i] : last;
    /* two texts a batch: alone 16 batches, by half 32, as the last of nine 144 */
    CHECK(last >= 30 && last <= 36);
    sched_free(s);
}

/* ---- time */

TEST(what_cannot_end_in_time_is_refused_on_an_idle_lane)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_per_token_ns, 20000); /* 50,000 tokens a second */
    warm_up(s);
    for (uint32_t i = 0; i < 40; i++)
        (void)fake_add(f, 100 + i, LONG); /* 102 ms */
    f->request.deadline_ns = clock_mono_ns() + 50000000;
    size_t before = fake.batches;
    CHECK(fake_submit(s, f, &retry_s) == RC_TIMEOUT);
    CHECK(strstr(f->msg, "and has 50 ms")); /* not "0.1 s" */
    CHECK(fake.batches == before && f->calls == 0);
    f->request.deadline_ns = clock_mono_ns() + 5000000000;
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    fake_end(f, RC_OK);
    sched_free(s);
}

/* Of equal texts one is computed, and so one is counted. */
TEST(equal_texts_are_foreseen_once)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_per_token_ns, 400000);
    warm_up(s);
    for (uint32_t i = 0; i < 40; i++)
        (void)fake_add(f, 100 + i % 2, LONG); /* 2 s, and 0.1 s of those that differ */
    f->request.deadline_ns = clock_mono_ns() + 1500000000;
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    fake_end(f, RC_OK);
    sched_free(s);
}

/* The same that lost its time before it came: with all of it, it would not be too large. */
TEST(what_waited_too_long_elsewhere_is_not_too_large)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_per_token_ns, 20000);
    warm_up(s);
    for (uint32_t i = 0; i < 40; i++)
        (void)fake_add(f, 100 + i, LONG); /* 102 ms */
    f->request.deadline_ns = clock_mono_ns() + 50000000;
    f->request.begun_ns = clock_mono_ns() - 60000000000;
    CHECK(fake_submit(s, f, &retry_s) == RC_LIMIT);
    CHECK(retry_s >= 1 && f->calls == 0);
    CHECK(strstr(f->msg, "it needs about") && strstr(f->msg, "--timeout-max"));
    fake_free(f);
    sched_free(s);
}

/* Nothing is known of the model's speed when it comes; after some batches something is. */
TEST(what_was_taken_in_too_large_ends_early)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_per_token_ns, 20000);
    for (uint32_t i = 0; i < 64; i++)
        (void)fake_add(f, 100 + i, LONG); /* 164 ms */
    f->request.deadline_ns = clock_mono_ns() + 110000000;
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    CHECK(fake_wait(f) == RC_TIMEOUT);
    CHECK(strstr(f->msg, "it needs about"));
    CHECK(fake.batches < 16); /* of 32 */
    fake_free(f);
    sched_free(s);
}

/* A batch costs 20 ms whatever its size.  Of one that held four tokens a token cost 5 ms: by that
 * 64 long texts would take 41 s, and they take 0.7. */
TEST(small_batches_tell_nothing_of_large_ones)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS), *one;
    int retry_s = 0;

    atomic_store(&fake.sleep_ns, 20000000);
    for (uint32_t i = 0; i < 12; i++)
        fake_end(fake_one(s, &model, 50000 + i, 4, REQUEST_INTERACTIVE), RC_OK);
    one = fake_one(s, &model, 60000, LONG, REQUEST_INTERACTIVE);
    for (uint32_t i = 0; i < 64; i++)
        (void)fake_add(f, 100 + i, LONG);
    f->request.deadline_ns = clock_mono_ns() + 20000000000;
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    fake_end(one, RC_OK);
    fake_end(f, RC_OK);
    sched_free(s);
}

/* The same where it is indeed too much: known after a few batches, and told. */
TEST(what_small_batches_hid_ends_early)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *f = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_ns, 20000000);
    for (uint32_t i = 0; i < 12; i++)
        fake_end(fake_one(s, &model, 50000 + i, 4, REQUEST_INTERACTIVE), RC_OK);
    for (uint32_t i = 0; i < 64; i++)
        (void)fake_add(f, 100 + i, LONG);
    f->request.deadline_ns = clock_mono_ns() + 400000000;
    CHECK(fake_submit(s, f, &retry_s) == RC_OK);
    CHECK(fake_wait(f) == RC_TIMEOUT);
    CHECK(strstr(f->msg, "it needs about"));
    fake_free(f);
    sched_free(s);
}

TEST(a_newcomer_does_not_make_others_late)
{
    struct sched *s = begin((struct sched_opts){ 0 });
    struct fake_request *first = fake_request(&model, ENG_VECTORS),
                        *late = fake_request(&model, ENG_VECTORS);
    int retry_s = 0;

    atomic_store(&fake.sleep_per_token_ns, 200000);
    warm_up(s);
    struct fake_request *held = fake_hold(s, &model);
    for (uint32_t i = 0; i < 40; i++) {
        (void)fake_add(first, 100 + i, LONG); /* a second, or what this machine makes of it */
        (void)fake_add(late, 200 + i, LONG);
    }
    enum rc rc = RC_TIMEOUT; /* the first deadline that it can hold: no other fits beside it */
    for (int64_t ns = 1000000000; rc != RC_OK && ns < 60000000000; ns += ns / 4) {
        first->request.deadline_ns = clock_mono_ns() + ns;
        rc = fake_submit(s, first, &retry_s);
    }
    assert_int_equal(rc, RC_OK);
    late->request.client = 9;
    late->request.deadline_ns = clock_mono_ns() + 60000000000;
    CHECK(fake_submit(s, late, &retry_s) == RC_LIMIT);
    CHECK(retry_s >= 1);
    atomic_store(&fake.sleep_per_token_ns, 0);
    fake_open();
    fake_end(first, RC_OK);
    fake_free(late);
    fake_end(held, RC_OK);
    sched_free(s);
}

/* ---- the size of a batch */

/* Mean tokens of the batches after `from`. */
static double mean_tokens(size_t from)
{
    double sum = 0;

    for (size_t i = from; i < fake.batches; i++)
        sum += (double)fake.log[i].tokens;
    return sum / (double)(fake.batches - from);
}

static double room_at(int64_t batch_ns, int64_t fixed_ns, int64_t token_ns)
{
    struct sched *s = begin((struct sched_opts){ .batch_ns = batch_ns });
    struct fake_request *f[12];

    fake_model(&model, s, "m", "cpu", 4096);
    atomic_store(&fake.sleep_ns, fixed_ns);
    atomic_store(&fake.sleep_per_token_ns, token_ns);
    for (uint32_t i = 0; i < ARRAY_SIZE(f); i++) {
        f[i] = fake_request(&model, ENG_VECTORS);
        int retry_s = 0;
        for (uint32_t k = 0; k < 64; k++)
            (void)fake_add(f[i], 100 + 64 * i + k, 32 + k);
        CHECK(fake_submit(s, f[i], &retry_s) == RC_OK);
    }
    for (size_t i = 0; i < ARRAY_SIZE(f); i++)
        fake_end(f[i], RC_OK);
    double mean = mean_tokens(8);
    sched_free(s);
    return mean;
}

TEST(a_batch_takes_its_time_and_not_more)
{
    /* 10 us a token and 10 ms: about a thousand tokens */
    double n = room_at(10000000, 0, 10000);
    CHECK(n > 400 && n < 1200);
    /* beyond the budget there is nothing to hold back */
    CHECK(room_at(100000000, 0, 1000) > 3000);
}

/* 8 ms whatever the size, and 4 ms wanted: tiny batches would not be sooner, only dearer. */
TEST(a_batch_is_not_smaller_than_its_fixed_part_is_worth)
{
    CHECK(room_at(4000000, 8000000, 10000) > 200);
}

TEST_MAIN(cmocka_unit_test(a_short_request_waits_for_one_batch),
          cmocka_unit_test(a_short_request_passes_those_of_middle_size),
          cmocka_unit_test(a_shared_text_runs_where_it_waits_less),
          cmocka_unit_test(a_shared_text_comes_back), cmocka_unit_test(clients_share_alike),
          cmocka_unit_test(what_cannot_end_in_time_is_refused_on_an_idle_lane),
          cmocka_unit_test(equal_texts_are_foreseen_once),
          cmocka_unit_test(what_waited_too_long_elsewhere_is_not_too_large),
          cmocka_unit_test(what_was_taken_in_too_large_ends_early),
          cmocka_unit_test(small_batches_tell_nothing_of_large_ones),
          cmocka_unit_test(what_small_batches_hid_ends_early),
          cmocka_unit_test(a_newcomer_does_not_make_others_late),
          cmocka_unit_test(a_batch_takes_its_time_and_not_more),
          cmocka_unit_test(a_batch_is_not_smaller_than_its_fixed_part_is_worth))

/* SPDX-License-Identifier: MIT */
/* The scheduler under threads that submit, cancel, share and fail at once: every job ends
 * exactly once, in the way it must, with its own rows.  For ThreadSanitizer above all. */
#include "test.h"

#include "sched_fake.h"

enum { THREADS = 8, IN_FLIGHT = 4, BUDGET = 300 };

static struct sched *the_sched;
static struct fake_model models[3];
static _Atomic size_t wrong, ends[16], refused;
static size_t rounds = 400;

static uint32_t next(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

static size_t length(uint32_t *x)
{
    double u = ((double)(next(x) % 65536) + 1) / 65537, v = (double)(next(x) % 65536) / 65536;
    double len = exp(2.8 + 0.9 * sqrt(-2 * log(u)) * cos(6.283185307 * v));

    return len < 1 ? 1 : len > 400 ? 400 : (size_t)len;
}

/* Texts of few kinds, so that many are the same; now and then one that fails. */
static void make(struct fake_request *f, uint32_t *x)
{
    size_t count = 1 + next(x) % 12;

    f->request.model = &models[next(x) % 3].served;
    f->request.want = (enum eng_want)(next(x) % 3);
    f->request.class = next(x) % 2 ? REQUEST_BULK : REQUEST_INTERACTIVE;
    f->request.deadline_ns = next(x) % 8 ? 0 : clock_mono_ns() + (int64_t)(next(x) % 3000000);
    f->request.count = 0;
    atomic_store(&f->request.cancelled, next(x) % 50 == 0);
    for (size_t i = 0; i < count; i++) {
        size_t n = length(x);
        uint32_t *ids = fake_add(f, next(x) % 40, next(x) % 2 ? n : 10 + next(x) % 3);
        if (next(x) % 150 == 0)
            ids[0] = next(x) % 2 ? FAKE_FAILS : FAKE_NAN;
        if (next(x) % 3 == 0) {
            memset(f->types[i], 0, sizeof(f->types[i]));
            f->types[i][0] = (uint8_t)(next(x) % 2);
            f->items[i].types = f->types[i];
        }
    }
}

static bool has_bad(const struct fake_request *f)
{
    bool bad = false;

    for (size_t i = 0; i < f->request.count; i++)
        bad |= f->ids[i][0] == FAKE_FAILS || f->ids[i][0] == FAKE_NAN;
    return bad;
}

static void check(struct fake_request *f)
{
    enum rc why = fake_wait(f);
    bool ok = f->calls == 1;

    if (why == RC_OK)
        ok = ok && !has_bad(f) && fake_rows_right(f);
    else if (why == RC_FAIL)
        ok = ok && has_bad(f) && f->msg[0];
    else if (why == RC_TIMEOUT)
        ok = ok && f->request.deadline_ns && /* it passed, or it was foreseen */
             (f->request.deadline_ns <= f->request.ended_ns || strstr(f->msg, "it needs about"));
    else
        ok = ok && why == RC_LIMIT; /* cancelled, or stopped */
    wrong += !ok;
    ends[-why]++;
}

static void *client(void *arg)
{
    uint32_t x = (uint32_t)(uintptr_t)arg * 2654435761u + 17;
    struct fake_request *f[IN_FLIGHT];
    bool out[IN_FLIGHT] = { false };
    int retry_s = 0;

    for (size_t i = 0; i < IN_FLIGHT; i++)
        f[i] = fake_request(&models[0], ENG_VECTORS);
    for (size_t r = 0; r < rounds * IN_FLIGHT; r++) {
        size_t i = r % IN_FLIGHT;
        if (out[i]) {
            if (next(&x) % 20 == 0)
                fake_cancel(f[i]);
            check(f[i]);
        }
        make(f[i], &x);
        f[i]->calls = 0;
        out[i] = fake_submit(the_sched, f[i], &retry_s) == RC_OK;
        refused += !out[i];
    }
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        if (out[i])
            check(f[i]);
        fake_free(f[i]);
    }
    return NULL;
}

static void start(struct sched_opts o, pthread_t *threads)
{
    wrong = refused = 0;
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        ends[i] = 0;
    the_sched = fake_sched(o);
    assert_non_null(the_sched);
    fake_model(&models[0], the_sched, "a", "cpu", BUDGET);
    fake_model(&models[1], the_sched, "b", "cpu", BUDGET);
    fake_model(&models[2], the_sched, "c", "cuda:0", BUDGET);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, client, (void *)i) == 0);
}

static void join(pthread_t *threads)
{
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(wrong == 0);
}

static void check_batches(void)
{
    for (size_t i = 0; i < fake.batches && i < FAKE_LOG; i++)
        CHECK(fake.log[i].tokens <= BUDGET || fake.log[i].sequences == 1);
}

static void load(struct sched_opts o)
{
    pthread_t threads[THREADS];

    start(o, threads);
    join(threads);
    print_message(
        "# %zu ok, %zu failed, %zu cancelled, %zu late, %zu refused; %zu batches of %.1f\n",
        ends[0], ends[-RC_FAIL], ends[-RC_LIMIT], ends[-RC_TIMEOUT], refused, fake.batches,
        (double)fake.sequences / (double)fake.batches);
    while (fake_open_requests(the_sched))
        fake_sleep(100000);
    CHECK(fake_waiting_tokens(the_sched) == 0);
    CHECK(ends[0] > 0 && ends[-RC_FAIL] > 0 && ends[-RC_LIMIT] > 0);
    CHECK(ends[0] + ends[-RC_FAIL] + ends[-RC_LIMIT] + ends[-RC_TIMEOUT] + refused ==
          THREADS * rounds * IN_FLIGHT);
    check_batches();
    sched_free(the_sched);
}

TEST(every_request_has_its_rows)
{
    load((struct sched_opts){ 0 });
}

TEST(with_a_cache)
{
    load((struct sched_opts){ .cache_bytes = 100000 });
}

TEST(with_one_hash_and_little_room)
{
    load((struct sched_opts){
        .one_hash = true, .cache_bytes = 5000, .queue_tokens_max = 600, .queue_requests_max = 12 });
}

TEST(stop_under_load)
{
    pthread_t threads[THREADS];

    start((struct sched_opts){ 0 }, threads);
    atomic_store(&fake.sleep_ns, 200000);
    fake_sleep(20000000);
    sched_stop(the_sched);
    CHECK(fake_open_requests(the_sched) == 0 && fake_waiting_tokens(the_sched) == 0);
    join(threads);
    CHECK(refused > 0);
    sched_free(the_sched);
}

/* Jobs wait when the scheduler is freed: each is told. */
TEST(free_with_jobs_waiting)
{
    struct fake_request *f[60];

    for (size_t round = 0; round < 20; round++) {
        struct fake_model m;
        the_sched = fake_sched((struct sched_opts){ 0 });
        assert_non_null(the_sched);
        fake_model(&m, the_sched, "a", "cpu", BUDGET);
        atomic_store(&fake.sleep_ns, 50000);
        for (uint32_t i = 0; i < ARRAY_SIZE(f); i++)
            f[i] = fake_one(the_sched, &m, i, 20 + i, i % 2 ? REQUEST_BULK : REQUEST_INTERACTIVE);
        fake_sleep((int64_t)round * 20000);
        sched_free(the_sched);
        for (uint32_t i = 0; i < ARRAY_SIZE(f); i++) {
            enum rc why = fake_wait(f[i]);
            CHECK(f[i]->calls == 1 && (why == RC_LIMIT || (why == RC_OK && fake_rows_right(f[i]))));
            fake_free(f[i]);
        }
    }
}

/* A queue of a model that is gone says nothing of a model at the same address. */
TEST(versions_come_and_go)
{
    struct fake_model *m = xcalloc(1, sizeof(*m));
    struct fake_request *f[5];

    the_sched = fake_sched((struct sched_opts){ .cache_bytes = 100000 });
    assert_non_null(the_sched);
    for (uint32_t v = 0; v < 100; v++) {
        fake_model(m, the_sched, "a", v % 3 ? "cpu" : "cuda:0", 20 + v);
        m->served.key = v;
        for (uint32_t i = 0; i < ARRAY_SIZE(f); i++)
            f[i] = fake_one(the_sched, m, i, 15, REQUEST_BULK);
        for (uint32_t i = 0; i < ARRAY_SIZE(f); i++) {
            CHECK(fake_wait(f[i]) == RC_OK && fake_rows_right(f[i]) && !f[i]->items[0].cached);
            fake_free(f[i]);
        }
        memset(m, 0xa5, sizeof(*m));
    }
    sched_free(the_sched);
    free(m);
}

TEST_MAIN(cmocka_unit_test(every_request_has_its_rows), cmocka_unit_test(with_a_cache),
          cmocka_unit_test(with_one_hash_and_little_room), cmocka_unit_test(stop_under_load),
          cmocka_unit_test(free_with_jobs_waiting), cmocka_unit_test(versions_come_and_go))

/* SPDX-License-Identifier: MIT */
/* models on device queues of the real scheduler: swaps and departures while requests run. */
#define FIX_REAL_QUEUES
#include "models_fixture.h"

#include <semaphore.h>

enum { CLIENTS = 8, SWAPS = 40, MIB = 1 << 20 };

struct clients {
    struct models *m;
    struct sched *sched;
    const char *names[2];
    float want[2][32]; /* what the two models give */
    _Atomic bool stop;
    _Atomic size_t jobs, bad;
};

struct one_request {
    struct request request; /* first: the two are one */
    struct request_text text;
    sem_t over;
};

static void on_done(struct request *r)
{
    sem_post(&((struct one_request *)r)->over);
}

/* Runs one text and waits for it. */
static enum rc run_one(struct sched *sched, struct served *s, float *out)
{
    static const uint32_t ids[] = { 2, 20, 30, 3 };
    struct one_request o = { .text = { .ids = ids, .tokens = 4, .out = out } };
    int retry_s;

    o.request = (struct request){
        .model = s, .want = ENG_VECTORS, .texts = &o.text, .count = 1, .done = on_done
    };
    sem_init(&o.over, 0, 0);
    if (sched_submit(sched, &o.request, &retry_s, NULL))
        return RC_LIMIT;
    while (sem_wait(&o.over) != 0)
        ;
    sem_destroy(&o.over);
    return o.request.why;
}

static void *client_main(void *arg)
{
    struct clients *c = arg;

    for (size_t i = 0; !c->stop; i++) {
        struct served *s = NULL;
        struct err err = { 0 };
        float v[32];

        if (fix_wait(c->m, c->names[i % 2], REQUEST_VECTORS, 0, &s, &err) != MODELS_READY) {
            c->bad++;
            continue;
        }
        c->bad += run_one(c->sched, s, v) != RC_OK;
        c->bad += memcmp(v, c->want[0], sizeof(v)) != 0 && memcmp(v, c->want[1], sizeof(v)) != 0;
        served_release(s);
        c->jobs++;
    }
    return NULL;
}

static void learn(struct clients *c, size_t i, const char *dir)
{
    CHECK(fix_load(c->m, "learn", dir) == RC_OK);
    struct served *s = fix_get(c->m, "learn");
    CHECK(run_one(c->sched, s, c->want[i]) == RC_OK);
    served_release(s);
    CHECK(models_unload(c->m, "learn", NULL) == RC_OK);
}

static void clients_open(struct clients *c, struct manager_opts o, char *const dirs[2])
{
    CHECK(sched_new(&(struct sched_opts){ 0 }, &c->sched, NULL) == RC_OK);
    o.sched = c->sched;
    CHECK(models_new(&o, &c->m, NULL) == RC_OK);
    learn(c, 0, dirs[0]);
    learn(c, 1, dirs[1]);
    CHECK(memcmp(c->want[0], c->want[1], sizeof(c->want[0])) != 0);
}

static void clients_close(struct clients *c)
{
    models_free(c->m);
    sched_free(c->sched);
}

TEST(swaps_while_requests_run)
{
    char *dirs[2] = { fix_model(1), fix_model(2) };
    struct clients c = { .names = { "x", NULL } };
    pthread_t ids[CLIENTS];

    clients_open(&c, (struct manager_opts){ 0 }, dirs);
    CHECK(fix_load(c.m, "x", dirs[0]) == RC_OK);
    for (size_t i = 0; i < CLIENTS; i++)
        CHECK(pthread_create(&ids[i], NULL, client_main, &c) == 0);
    for (size_t i = 0; i < SWAPS; i++)
        assert_int_equal(fix_load(c.m, "x", dirs[(i + 1) % 2]), RC_OK);
    c.stop = true;
    for (size_t i = 0; i < CLIENTS; i++)
        (void)pthread_join(ids[i], NULL);
    assert_int_equal(c.bad, 0);
    CHECK(c.jobs > CLIENTS);
    clients_close(&c);
    box_remove(dirs[0]);
    box_remove(dirs[1]);
}

TEST(two_take_turns_while_jobs_run)
{
    static const struct serve_pool pools[] = { { "p", 15 * MIB, MODELS_MEDIUM } };
    char *dirs[2] = { fix_model(1), fix_model(2) };
    struct clients c = { .names = { "a", "b" } };
    pthread_t ids[2];

    clients_open(&c, (struct manager_opts){ .pools = pools, .pool_count = 1 }, dirs);
    for (size_t i = 0; i < 2; i++) {
        struct serve_model o = {
            .name = c.names[i], .dir = dirs[i], .pool = "p", .threads = 1, .memory_bytes = 10 * MIB
        };
        assert_int_equal(models_load(c.m, &o, true, NULL), RC_OK);
    }
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&ids[i], NULL, client_main, &c) == 0);
    for (int i = 0; i < 10000 && c.jobs < 100; i++)
        usleep(1000);
    c.stop = true;
    for (size_t i = 0; i < 2; i++)
        (void)pthread_join(ids[i], NULL);
    assert_int_equal(c.bad, 0);
    CHECK(c.jobs >= 100);
    clients_close(&c);
    box_remove(dirs[0]);
    box_remove(dirs[1]);
}

TEST_MAIN(cmocka_unit_test(swaps_while_requests_run),
          cmocka_unit_test(two_take_turns_while_jobs_run))

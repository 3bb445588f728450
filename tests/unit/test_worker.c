/* SPDX-License-Identifier: MIT */
/* Workers as their owner sees them: real processes of the program beside this test, with the fake
 * device of tests/plugin/fake_engine.c.  Deadlines are short here; nothing else is timed. */
#include "engine/engine_int.h"
#include "test.h"

#include "base/str.h"
#include "engine/worker/worker.h"
#include "os/clock.h"
#include "vectors_box.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH_MS = 1500, WAIT_MS = 60000 };

static char exe[600], does[64];

/* The program and the plug-in beside this one. */
static void find_parts(void)
{
    char here[400], plugin[500];
    ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);

    assert_true(n > 0);
    here[n] = '\0';
    *strrchr(here, '/') = '\0';
    (void)snprintf(exe, sizeof(exe), "%s/../stoker", here);
    (void)snprintf(plugin, sizeof(plugin), "%s/plugin/engine", here);
    (void)snprintf(does, sizeof(does), "/tmp/stoker-worker-test.%d", (int)getpid());
    (void)setenv("STOKER_PLUGIN_DIR", plugin, 1);
    (void)setenv("FAKE_DEVICE_DOES", does, 1);
    (void)unsetenv("FAKE_DEVICE_FAILS");
    (void)unsetenv("FAKE_DEVICE_NULL");
    (void)unsetenv("FAKE_DEVICE_SUBMITS");
}

/* "run hang"; NULL: nothing special. */
static void fake(const char *what)
{
    FILE *f;

    if (!what) {
        (void)unlink(does);
        return;
    }
    f = fopen(does, "we");
    assert_non_null(f);
    (void)fputs(what, f);
    (void)fclose(f);
}

static struct {
    pthread_mutex_t lock;
    char text[16384];
} said = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void hear(void *arg, const char *line)
{
    size_t len;

    (void)arg;
    pthread_mutex_lock(&said.lock);
    len = strlen(said.text);
    (void)snprintf(said.text + len, sizeof(said.text) - len, "%s\n", line);
    pthread_mutex_unlock(&said.lock);
}

static void nap(void)
{
    const struct timespec t = { .tv_nsec = 2000000 };

    nanosleep(&t, NULL);
}

/* What the watching thread did is seen before it is heard: it lets go of its lock to say it. */
static bool is_said(const char *words)
{
    for (int64_t until = clock_mono_ms() + WAIT_MS;; nap()) {
        pthread_mutex_lock(&said.lock);
        bool found = strstr(said.text, words) != NULL;
        pthread_mutex_unlock(&said.lock);
        if (found || clock_mono_ms() >= until)
            return found;
    }
}

static struct workers *begin(struct workers_opts o)
{
    struct workers *w = NULL;

    find_parts();
    fake(NULL);
    pthread_mutex_lock(&said.lock);
    said.text[0] = '\0';
    pthread_mutex_unlock(&said.lock);
    o.exe = o.exe ? o.exe : exe;
    o.batch_ms = o.batch_ms ? o.batch_ms : BATCH_MS;
    o.say = hear;
    CHECK(workers_new(&o, &w, NULL) == RC_OK);
    return w;
}

static struct eng_opts on(struct workers *w, const char *device)
{
    return (struct eng_opts){ .device = device, .workers = w };
}

static struct worker_state look(struct workers *w, size_t i)
{
    struct worker_state list[4] = { 0 };

    (void)workers_look(w, list, ARRAY_SIZE(list));
    return list[i];
}

/* The rows of the reference. */
static bool right(struct eng *e, const struct box *b, enum eng_want want)
{
    struct eng_opts o = { .device = "ref", .dtype = ENG_F32 };
    struct eng *ref = box_load(b, &o);
    float *got = box_run(e, &b->batch, want), *know = box_run(ref, &b->batch, want);
    size_t rows = want == ENG_TOKENS ? b->starts[b->batch.sequences] : b->batch.sequences;
    bool same = !memcmp(got, know, rows * eng_width(b->model, want) * sizeof(*got));

    free(got);
    free(know);
    eng_free(ref);
    return same;
}

static enum rc run(struct eng *e, const struct box *b, struct err *err)
{
    float *out = xcalloc(b->batch.sequences * eng_dim(b->model), sizeof(*out));
    enum rc rc = eng_run(e, &b->batch, ENG_VECTORS, out, err);

    free(out);
    return rc;
}

static bool works_again(struct eng *e, const struct box *b)
{
    for (int64_t until = clock_mono_ms() + WAIT_MS; clock_mono_ms() < until; nap())
        if (run(e, b, NULL) == RC_OK)
            return true;
    return false;
}

/* ---- */

TEST(devices_say_what_they_are)
{
    struct workers *w = begin((struct workers_opts){ 0 });
    const struct eng_ops *ops = NULL, *other = NULL;
    struct err err = { 0 };

    CHECK(eng_check_in(w, "cuda:9", NULL) == RC_OK); /* nobody knows yet */
    CHECK(workers_look(w, (struct worker_state[1]){ 0 }, 1) == 0);
    CHECK(eng_find_in(w, "cuda:1", &ops, &err) == RC_OK);
    assert_string_equal(eng_ops_kind(ops), "Fake 9000");
    assert_string_equal(ops->name, "cuda");
    CHECK(eng_ops_count(ops) == 2 && eng_ops_score(ops) == 1);
    CHECK(eng_find_in(w, "cuda", &other, &err) == RC_OK && other == ops);
    CHECK(eng_find_in(w, "cuda:2", &other, &err) == RC_NODEV);
    CHECK(strstr(err.msg, "this machine has 2"));
    CHECK(eng_check_in(w, "cuda:9", NULL) == RC_NODEV);
    err = (struct err){ 0 };
    CHECK(eng_find_in(w, "nothing", &other, &err) == RC_USAGE);
    CHECK(eng_find_in(w, "cuda:x", &other, NULL) == RC_USAGE);
    CHECK(eng_find_in(w, "../cuda", &other, NULL) == RC_USAGE);
    CHECK(eng_find_in(w, "cpu", &other, NULL) == RC_OK && other == &eng_cpu);
    workers_free(w);
    workers_free(NULL);
}

TEST(models_of_every_kind_give_the_rows_of_the_reference)
{
    struct workers *w = begin((struct workers_opts){ 0 });
    struct eng_opts o = on(w, "cuda:0");
    struct eng *engines[ARRAY_SIZE(box_names)];
    struct box *boxes = xcalloc(ARRAY_SIZE(box_names), sizeof(*boxes));
    char text[64];

    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) { /* all at once, in one process */
        box_open(&boxes[i], box_names[i]);
        engines[i] = box_load(&boxes[i], &o);
        CHECK(eng_ops_of(engines[i])->memory(boxes[i].model, &o) ==
              eng_ref.memory(boxes[i].model, &o));
    }
    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) {
        CHECK(right(engines[i], &boxes[i], ENG_TOKENS));
        CHECK(right(engines[i], &boxes[i],
                    boxes[i].model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES));
    }
    eng_ops_of(engines[0])->describe(engines[0], text, sizeof(text));
    assert_string_equal(text, "fake f32");
    CHECK(look(w, 0).up && look(w, 0).restarts == 0 && look(w, 0).beat_s < 10);
    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) {
        eng_free(engines[i]);
        if (i + 1 < ARRAY_SIZE(box_names))
            CHECK(right(engines[i + 1], &boxes[i + 1], ENG_TOKENS)); /* the others are there */
        box_close(&boxes[i]);
    }
    free(boxes);
    workers_free(w);
}

/* What the owner changed of a model counts in the worker too. */
TEST(pooling_and_normalizing_travel)
{
    struct workers *w = begin((struct workers_opts){ 0 });
    struct eng_opts o = on(w, "cuda:0");
    struct box b;

    box_open(&b, "bert");
    b.model->pool = MODEL_POOL_CLS;
    b.model->normalize = !b.model->normalize;
    struct eng *e = box_load(&b, &o);
    CHECK(right(e, &b, ENG_VECTORS));
    eng_free(e);
    box_close(&b);
    workers_free(w);
}

/* ---- two halves */

static void fly_twice(struct eng *e, const struct box *b, const float *know, size_t floats)
{
    float *out[3];
    bool done = false;

    for (size_t i = 0; i < 3; i++)
        out[i] = xcalloc(floats, sizeof(float));
    CHECK(eng_submit(e, &b->batch, ENG_VECTORS, out[0], NULL) == RC_OK);
    CHECK(eng_submit(e, &b->batch, ENG_VECTORS, out[1], NULL) == RC_OK);
    CHECK(eng_submit(e, &b->batch, ENG_VECTORS, out[2], NULL) == RC_LIMIT);
    for (size_t i = 0; i < 2; i++) {
        done = false;
        while (!done)
            CHECK(eng_collect(e, &b->batch, ENG_VECTORS, out[i], &done, NULL) == RC_OK);
        CHECK(!memcmp(out[i], know, floats * sizeof(float)));
    }
    for (size_t i = 0; i < 3; i++)
        free(out[i]);
}

TEST(two_batches_are_on_their_way)
{
    for (int plugin_too = 0; plugin_too < 2; plugin_too++) {
        struct workers *w = begin((struct workers_opts){ 0 });
        struct eng_opts o = on(w, "cuda:0");
        struct box b;

        if (plugin_too)
            (void)setenv("FAKE_DEVICE_SUBMITS", "1", 1);
        box_open(&b, "bert");
        struct eng *e = box_load(&b, &o);
        float *know = box_run(e, &b.batch, ENG_VECTORS);
        CHECK(eng_can_submit(e) && right(e, &b, ENG_VECTORS));
        for (size_t i = 0; i < 200; i++)
            fly_twice(e, &b, know, b.batch.sequences * eng_dim(b.model));
        free(know);
        eng_free(e);
        box_close(&b);
        workers_free(w);
    }
}

static void *nudge(void *arg)
{
    nap();
    eng_nudge(arg);
    return NULL;
}

TEST(who_collects_is_called_away)
{
    struct workers *w = begin((struct workers_opts){ .batch_ms = 100000 });
    struct eng_opts o = on(w, "cuda:0");
    struct err err = { 0 };
    bool done = true;
    pthread_t thread;
    struct box b;

    box_open(&b, "bert");
    struct eng *e = box_load(&b, &o);
    float *out = xcalloc(b.batch.sequences * eng_dim(b.model), sizeof(*out));
    fake("run hang");
    CHECK(eng_submit(e, &b.batch, ENG_VECTORS, out, NULL) == RC_OK);
    assert_int_equal(pthread_create(&thread, NULL, nudge, e), 0);
    CHECK(eng_collect(e, &b.batch, ENG_VECTORS, out, &done, &err) == RC_OK);
    CHECK(!done);
    pthread_join(thread, NULL);
    (void)kill(look(w, 0).pid, SIGKILL);
    CHECK(eng_collect(e, &b.batch, ENG_VECTORS, out, &done, &err) == RC_NODEV);
    CHECK(done && strstr(err.msg, "died of signal 9 (Killed) in "));
    fake(NULL);
    free(out);
    eng_free(e);
    box_close(&b);
    workers_free(w);
}

/* ---- faults */

TEST(one_that_dies_comes_back_with_its_models)
{
    struct workers *w = begin((struct workers_opts){ 0 });
    struct eng_opts o = on(w, "cuda:0");
    struct err err = { 0 };
    struct box a, b;

    box_open(&a, "bert");
    box_open(&b, "mpnet");
    struct eng *first = box_load(&a, &o), *second = box_load(&b, &o);
    pid_t pid = look(w, 0).pid;
    CHECK(pid > 0 && kill(pid, SIGKILL) == 0);
    while (run(first, &a, &err) == RC_OK)
        nap();
    CHECK(err.code == RC_NODEV && strstr(err.msg, "cuda:0") && strstr(err.msg, "signal 9"));
    CHECK(works_again(first, &a) && works_again(second, &b));
    CHECK(right(first, &a, ENG_VECTORS) && right(second, &b, ENG_VECTORS));
    CHECK(look(w, 0).up && look(w, 0).pid != pid && look(w, 0).restarts == 1);
    CHECK(is_said("it is started again in 0.5 s") && is_said("is started again (process"));
    eng_free(first);
    CHECK(right(second, &b, ENG_VECTORS));
    eng_free(second);
    box_close(&a);
    box_close(&b);
    workers_free(w);
}

TEST(one_that_hangs_is_lost_with_all_it_has)
{
    struct workers *w = begin((struct workers_opts){ .batch_ms = 1500 });
    struct eng_opts o = on(w, "cuda:0");
    struct err err = { 0 }, next = { 0 };
    bool done = false;
    struct box b;

    box_open(&b, "bert");
    struct eng *e = box_load(&b, &o);
    float *out = xcalloc(b.batch.sequences * eng_dim(b.model), sizeof(*out));
    fake("run hang");
    pid_t pid = look(w, 0).pid;
    CHECK(eng_submit(e, &b.batch, ENG_VECTORS, out, NULL) == RC_OK);
    CHECK(eng_submit(e, &b.batch, ENG_VECTORS, out, NULL) == RC_OK);
    CHECK(eng_collect(e, &b.batch, ENG_VECTORS, out, &done, &err) == RC_NODEV && done);
    CHECK(strstr(err.msg, "did not answer for") && strstr(err.msg, "in run"));
    done = false;
    CHECK(eng_collect(e, &b.batch, ENG_VECTORS, out, &done, &next) == RC_NODEV && done);
    assert_string_equal(err.msg, next.msg);
    CHECK(run(e, &b, &next) == RC_NODEV); /* at once */
    fake(NULL);
    CHECK(works_again(e, &b) && look(w, 0).pid != pid && kill(pid, 0) != 0);
    CHECK(kill(look(w, 0).pid, SIGSTOP) == 0);
    pid = look(w, 0).pid;
    while (look(w, 0).pid == pid) /* nobody asked it for anything */
        nap();
    CHECK(is_said("state T") && works_again(e, &b));
    free(out);
    eng_free(e);
    box_close(&b);
    workers_free(w);
}

TEST(a_start_and_a_load_have_deadlines)
{
    struct workers_opts wo = { .start_ms = 300, .load_ms = 300 };
    struct workers *w = begin(wo);
    struct eng_opts o = on(w, "cuda:0");
    const struct eng_ops *ops = NULL;
    struct err err = { 0 };
    struct eng *e = NULL;
    struct box b;

    box_open(&b, "bert");
    fake("start hang");
    CHECK(eng_find_in(w, "cuda:0", &ops, &err) == RC_NODEV && !ops);
    CHECK(strstr(err.msg, "did not answer for") && strstr(err.msg, "asking for devices"));
    fake("load hang");
    err = (struct err){ 0 };
    CHECK(eng_load(b.model, &o, &e, &err) == RC_NODEV && !e);
    CHECK(strstr(err.msg, "did not answer for") && strstr(err.msg, "in load"));
    fake("load crash");
    err = (struct err){ 0 };
    CHECK(eng_load(b.model, &o, &e, &err) == RC_NODEV && !e);
    CHECK(strstr(err.msg, "died of signal 6") && strstr(err.msg, "in load"));
    fake(NULL);
    e = box_load(&b, &o);
    CHECK(right(e, &b, ENG_VECTORS));
    eng_free(e);
    box_close(&b);
    workers_free(w);
}

TEST(a_program_that_is_no_worker)
{
    static const char *const programs[] = { "/bin/true", "/bin/false", "/nonexistent" };

    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
        struct workers *w = begin((struct workers_opts){ .exe = programs[i] });
        const struct eng_ops *ops = NULL;
        struct err err = { 0 };

        CHECK(eng_find_in(w, "cuda:0", &ops, &err) == RC_NODEV);
        CHECK(strstr(err.msg, "ended with status") && strstr(err.msg, "in its start"));
        workers_free(w);
    }
}

/* More than the shared memory holds is run in parts. */
TEST(a_batch_of_any_size)
{
    enum { N = 5 << 20 }; /* sequences of one token: 40 MB of ids and starts */
    struct workers *w = begin((struct workers_opts){ 0 });
    struct eng_opts o = on(w, "cuda:0");
    uint32_t *ids = xcalloc(N, sizeof(*ids)), *starts = xcalloc(N + 1, sizeof(*starts));
    float *out = xcalloc(N, sizeof(*out));
    struct eng_batch many = { .ids = ids, .starts = starts, .sequences = N };
    size_t odd = 0;
    struct box b;

    (void)setenv("FAKE_DEVICE_NULL", "1", 1);
    box_open(&b, "bert-score");
    struct eng *e = box_load(&b, &o);
    for (uint32_t i = 0; i < N; i++) {
        starts[i + 1] = i + 1;
        out[i] = 1;
    }
    CHECK(eng_width(b.model, ENG_SCORES) == 1);
    CHECK(eng_submit(e, &many, ENG_SCORES, out, NULL) == RC_LIMIT);
    CHECK(eng_run(e, &many, ENG_SCORES, out, NULL) == RC_OK);
    for (size_t i = 0; i < N; i++)
        odd += out[i] != 0;
    CHECK(odd == 0);
    (void)unsetenv("FAKE_DEVICE_NULL");
    eng_free(e);
    box_close(&b);
    free(ids);
    free(starts);
    free(out);
    workers_free(w);
}

/* ---- many at once */

struct client {
    struct eng *e;
    const struct box *b;
    const float *know;
    size_t right, lost, wrong;
    _Atomic bool *over;
};

static void *run_client(void *arg)
{
    struct client *c = arg;
    size_t floats = c->b->batch.sequences * eng_dim(c->b->model);
    float *out = xcalloc(floats, sizeof(*out));

    while (!atomic_load(c->over)) {
        struct err err = { 0 };
        enum rc rc = eng_run(c->e, &c->b->batch, ENG_VECTORS, out, &err);
        if (rc == RC_OK && !memcmp(out, c->know, floats * sizeof(*out)))
            c->right++;
        else if (rc == RC_NODEV)
            c->lost++;
        else
            c->wrong++;
        if (rc != RC_OK)
            nap();
    }
    free(out);
    return NULL;
}

/* Models on several devices, more threads than there are slots, processes that die meanwhile. */
TEST(threads_and_deaths)
{
    enum { CLIENTS = 6, DEATHS = 6 };
    struct workers *w = begin((struct workers_opts){ .batch_ms = 20000 });
    struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    _Atomic bool over = false;
    size_t good = 0, wrong = 0;
    struct box b;

    box_open(&b, "bert");
    for (size_t i = 0; i < CLIENTS; i++) {
        struct eng_opts o = on(w, i % 3 ? "cuda:0" : "cuda:1");
        clients[i] = (struct client){ .e = box_load(&b, &o), .b = &b, .over = &over };
        clients[i].know = box_run(clients[i].e, &b.batch, ENG_VECTORS);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    for (size_t i = 0; i < DEATHS; i++) {
        struct worker_state s = look(w, i % 2);
        if (s.up)
            (void)kill(s.pid, SIGKILL);
        for (size_t k = 0; k < 150; k++)
            nap();
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        CHECK(works_again(clients[i].e, &b) && right(clients[i].e, &b, ENG_VECTORS));
        good += clients[i].right;
        wrong += clients[i].wrong;
        eng_free(clients[i].e);
        free((void *)(uintptr_t)clients[i].know);
    }
    CHECK(good > 0 && wrong == 0);
    box_close(&b);
    workers_free(w);
    (void)unlink(does);
}

TEST_MAIN(cmocka_unit_test(devices_say_what_they_are),
          cmocka_unit_test(models_of_every_kind_give_the_rows_of_the_reference),
          cmocka_unit_test(pooling_and_normalizing_travel),
          cmocka_unit_test(two_batches_are_on_their_way),
          cmocka_unit_test(who_collects_is_called_away),
          cmocka_unit_test(one_that_dies_comes_back_with_its_models),
          cmocka_unit_test(one_that_hangs_is_lost_with_all_it_has),
          cmocka_unit_test(a_start_and_a_load_have_deadlines),
          cmocka_unit_test(a_program_that_is_no_worker), cmocka_unit_test(a_batch_of_any_size),
          cmocka_unit_test(threads_and_deaths))

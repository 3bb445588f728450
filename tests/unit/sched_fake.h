/* SPDX-License-Identifier: MIT */
/* sched_fake: an engine for tests of the scheduler.  A row is a function of its ids and types
 * alone; some ids fail, give NaN or take long; a gate lets batches through one by one, so that
 * a test decides what waits while one runs. */
#ifndef TESTS_SCHED_FAKE_H
#define TESTS_SCHED_FAKE_H
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/sched/device_queue_int.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    FAKE_WIDTH = 4,
    FAKE_FAILS = 66601, /* an id: the batch fails */
    FAKE_NAN = 66602,   /* an id: its row is not finite */
    FAKE_LOG = 20000    /* batches that are remembered */
};

struct fake_batch {
    size_t sequences, tokens, longest;
    uint32_t first; /* first id of the first text */
    struct eng *eng;
};

static struct {
    _Atomic bool gated;
    sem_t entered, go;
    _Atomic int64_t sleep_ns, sleep_per_token_ns;
    _Atomic size_t batches, sequences, tokens;
    _Atomic int64_t last_begun_ns;
    struct fake_batch log[FAKE_LOG];
    /* each text that ran: told with the number of its batch */
    void (*on_text)(size_t batch, uint32_t first, size_t tokens);
} fake;

static inline void fake_reset(void)
{
    atomic_store(&fake.gated, false);
    sem_init(&fake.entered, 0, 0);
    sem_init(&fake.go, 0, 0);
    atomic_store(&fake.sleep_ns, 0);
    atomic_store(&fake.sleep_per_token_ns, 0);
    atomic_store(&fake.batches, 0);
    atomic_store(&fake.sequences, 0);
    atomic_store(&fake.tokens, 0);
    fake.on_text = NULL;
}

static inline void fake_row(const uint32_t *ids, const uint8_t *types, size_t n, float *out)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (ids[i] + (types ? types[i] * 7919u : 0))) * 16777619u;
    for (size_t k = 0; k < FAKE_WIDTH; k++, h = h * 1664525u + 1013904223u)
        out[k] = (float)(h >> 8);
}

/* All rows of one text. */
static inline void fake_text(const uint32_t *ids, const uint8_t *types, size_t n,
                             enum eng_want want, float *out)
{
    fake_row(ids, types, n, out);
    for (size_t i = 0; want == ENG_TOKENS && i < n; i++)
        fake_row(ids, types, i + 1, out + i * FAKE_WIDTH);
    if (want == ENG_SCORES)
        out[0] = -out[0];
}

static inline void fake_sleep(int64_t ns)
{
    struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    if (ns > 0)
        nanosleep(&t, NULL);
}

static inline enum rc fake_run(struct eng *e, const struct eng_batch *b, enum eng_want want,
                               float *out, struct err *err)
{
    size_t tokens = b->starts[b->sequences], longest = 0, at = atomic_fetch_add(&fake.batches, 1);
    bool fails = false;

    atomic_store(&fake.last_begun_ns, clock_mono_ns());
    atomic_fetch_add(&fake.sequences, b->sequences);
    atomic_fetch_add(&fake.tokens, tokens);
    for (size_t s = 0; s < b->sequences; s++) {
        const uint32_t *ids = b->ids + b->starts[s];
        size_t n = b->starts[s + 1] - b->starts[s];
        float *row = out + (want == ENG_TOKENS ? b->starts[s] : s) * FAKE_WIDTH;
        longest = n > longest ? n : longest;
        fake_text(ids, b->types ? b->types + b->starts[s] : NULL, n, want, row);
        if (fake.on_text)
            fake.on_text(at, ids[0], n);
        for (size_t i = 0; i < n; i++) {
            fails |= ids[i] == FAKE_FAILS;
            if (ids[i] == FAKE_NAN)
                row[FAKE_WIDTH - 1] = NAN;
        }
    }
    if (at < FAKE_LOG)
        fake.log[at] = (struct fake_batch){ b->sequences, tokens, longest, b->ids[0], e };
    if (atomic_load(&fake.gated)) {
        sem_post(&fake.entered);
        while (sem_wait(&fake.go) != 0)
            ;
    }
    fake_sleep(fake.sleep_ns + fake.sleep_per_token_ns * (int64_t)tokens);
    return fails ? err_set(err, RC_FAIL, "a text that cannot be computed") : RC_OK;
}

/* ---- a model and its device queue */

static inline struct sched *fake_sched(struct sched_opts o)
{
    struct sched *s = NULL;

    fake_reset();
    o.run = fake_run;
    return sched_new(&o, &s, NULL) == RC_OK ? s : NULL;
}

struct fake_model {
    struct model net;
    struct served served;
};

static inline void fake_model(struct fake_model *m, struct sched *s, const char *name,
                              const char *device, size_t budget)
{
    *m = (struct fake_model){ .net = { .hidden = FAKE_WIDTH, .labels = FAKE_WIDTH } };
    m->served = (struct served){ .name = name,
                                 .model = &m->net,
                                 .device_queue = sched_device_queue(s, device),
                                 .batch_tokens = budget,
                                 .key = (uint64_t)(uintptr_t)name };
}

/* ---- requests */

struct fake_request {
    struct request request; /* first: the two are one */
    struct request_text items[64];
    uint32_t ids[64][512];
    uint8_t types[64][512];
    float *out;
    sem_t over;
    enum rc why;
    char msg[128];
    _Atomic int calls; /* of done() */
    void (*then)(struct fake_request *f);
};

static inline void fake_done(struct request *r)
{
    struct fake_request *f = (struct fake_request *)r;

    f->why = r->why;
    snprintf(f->msg, sizeof(f->msg), "%.*s", (int)sizeof(f->msg) - 1, r->err.msg);
    atomic_fetch_add(&f->calls, 1);
    if (f->then)
        f->then(f);
    sem_post(&f->over);
}

static inline struct fake_request *fake_request(struct fake_model *m, enum eng_want want)
{
    struct fake_request *f = xcalloc(1, sizeof(*f));

    f->request =
        (struct request){ .model = &m->served, .want = want, .texts = f->items, .done = fake_done };
    sem_init(&f->over, 0, 0);
    return f;
}

/* One more text: `first` and then as many others as make `tokens`. */
static inline uint32_t *fake_add(struct fake_request *f, uint32_t first, size_t tokens)
{
    size_t i = f->request.count++;

    for (size_t k = 0; k < tokens; k++)
        f->ids[i][k] = k ? (uint32_t)(first * 31 + k) % 60000 : first;
    f->items[i] = (struct request_text){ .ids = f->ids[i], .tokens = (uint32_t)tokens };
    return f->ids[i];
}

static inline enum rc fake_submit(struct sched *s, struct fake_request *f, int *retry_s)
{
    size_t rows = 0;
    struct err err = { 0 };
    enum rc rc;

    for (size_t i = 0; i < f->request.count; i++)
        rows += f->request.want == ENG_TOKENS ? f->items[i].tokens : 1;
    free(f->out);
    f->out = xcalloc(rows, FAKE_WIDTH * sizeof(float));
    rows = 0;
    for (size_t i = 0; i < f->request.count; i++) {
        f->items[i].out = f->out + rows * FAKE_WIDTH;
        rows += f->request.want == ENG_TOKENS ? f->items[i].tokens : 1;
    }
    rc = sched_submit(s, &f->request, retry_s, &err);
    if (rc != RC_OK) /* it is still the caller's */
        (void)str_copy(f->msg, sizeof(f->msg), err.msg);
    return rc;
}

/* A request of one text, submitted. */
static inline struct fake_request *fake_one(struct sched *s, struct fake_model *m, uint32_t first,
                                            size_t tokens, enum request_class class)
{
    struct fake_request *f = fake_request(m, ENG_VECTORS);
    int retry_s = 0;

    f->request.class = class;
    (void)fake_add(f, first, tokens);
    if (fake_submit(s, f, &retry_s) != RC_OK)
        f->why = RC_USAGE;
    return f;
}

static inline enum rc fake_wait(struct fake_request *f)
{
    while (sem_wait(&f->over) != 0)
        ;
    return f->why;
}

static inline bool fake_rows_right(const struct fake_request *f)
{
    float *want = xcalloc(512, FAKE_WIDTH * sizeof(float));
    bool same = true;

    for (size_t i = 0; i < f->request.count; i++) {
        const struct request_text *it = &f->items[i];
        size_t rows = f->request.want == ENG_TOKENS ? it->tokens : 1;
        fake_text(it->ids, it->types, it->tokens, f->request.want, want);
        same = same && !memcmp(want, it->out, rows * FAKE_WIDTH * sizeof(float));
    }
    free(want);
    return same;
}

static inline void fake_free(struct fake_request *f)
{
    sem_destroy(&f->over);
    free(f->out);
    free(f);
}

/* Cancels it, and has its device queue look at once. */
static inline void fake_cancel(struct fake_request *f)
{
    atomic_store(&f->request.cancelled, true);
    atomic_store(&f->request.model->device_queue->sweep, true);
}

/* Of all device queues: tokens that wait, and requests whose done() has not returned. */
static inline void fake_count(struct sched *s, size_t *waiting, size_t *open)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->queue_count; /* they stay; theirs is the outer lock */
    pthread_mutex_unlock(&s->lock);
    *waiting = *open = 0;
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&s->queues[i]->lock);
        *waiting += s->queues[i]->tokens;
        *open += s->queues[i]->open;
        pthread_mutex_unlock(&s->queues[i]->lock);
    }
}

static inline size_t fake_waiting_tokens(struct sched *s)
{
    size_t waiting, open;

    fake_count(s, &waiting, &open);
    return waiting;
}

static inline size_t fake_open_requests(struct sched *s)
{
    size_t waiting, open;

    fake_count(s, &waiting, &open);
    return open;
}

/* Waits for it, once; its rows are right where it went well. */
static inline void fake_end(struct fake_request *f, enum rc why)
{
    CHECK(fake_wait(f) == why);
    CHECK(f->calls == 1);
    if (why == RC_OK)
        CHECK(fake_rows_right(f));
    fake_free(f);
}

/* ---- the gate: batches wait for fake_go() */
static inline void fake_gate(void)
{
    atomic_store(&fake.gated, true);
}

static inline void fake_entered(void) /* a batch stands at the gate */
{
    while (sem_wait(&fake.entered) != 0)
        ;
}

static inline void fake_go(void)
{
    sem_post(&fake.go);
}

static inline void fake_open(void) /* lets everything through, the one at the gate too */
{
    atomic_store(&fake.gated, false);
    sem_post(&fake.go);
}

/* A text of its own runs and stands at the gate: the device is busy. */
static inline struct fake_request *fake_hold(struct sched *s, struct fake_model *m)
{
    fake_gate();
    struct fake_request *f = fake_one(s, m, 59999, 2, REQUEST_INTERACTIVE);
    fake_entered();
    return f;
}

#endif

/* SPDX-License-Identifier: MIT */
/* worker: what a process of its own costs a device: the same plug-in, whose rows are zeros at
 * once, called in this process and through a worker.
 *
 *     bench-worker STOKER MODEL-DIR [ROUNDS]
 *
 * $STOKER_PLUGIN_DIR holds the plug-in (tests/plugin/fake_engine.c).  Batches follow one another
 * at once, so that both sides are awake; then with a pause between them, for which both go to
 * sleep.  The best tenth is told beside the middle one, since on a machine of few cores others are
 * in the way. */
#include "engine/worker/worker.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20000, PAUSES = 200, PAUSE_NS = 3000000, TARGET_NS = 5000 };

struct shape {
    const char *name;
    size_t sequences, tokens;
};

static const struct shape shapes[] = {
    { "1x32", 1, 32 }, { "8x32", 8, 32 }, { "128x128", 128, 128 }, { "512x128", 512, 128 }
};

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

enum how { RUN, HALVES, PAUSED };

struct load {
    uint32_t *ids, *starts;
    struct eng_batch batch;
    float *out;
    int64_t *ns;
    size_t rounds;
};

static bool one(struct eng *e, struct load *l, enum how how)
{
    struct err err = { 0 };
    bool done = false;
    enum rc rc;

    if (how != HALVES) {
        rc = e->ops->run(e, &l->batch, ENG_VECTORS, l->out, &err);
    } else {
        rc = e->ops->submit(e, &l->batch, ENG_VECTORS, l->out, &err);
        while (rc == RC_OK && !done)
            rc = e->ops->collect(e, &done, &err);
    }
    if (rc != RC_OK)
        (void)fprintf(stderr, "bench-worker: %s\n", err.msg);
    return rc == RC_OK;
}

/* Nanoseconds of a batch: the middle one, and the tenth of a hundred. */
static bool measure(struct eng *e, struct load *l, enum how how, int64_t *median, int64_t *tenth)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    size_t rounds = how == PAUSED && l->rounds > PAUSES ? PAUSES : l->rounds;

    for (size_t i = 0; i < rounds; i++) {
        if (how == PAUSED)
            nanosleep(&pause, NULL);
        int64_t begun = clock_mono_ns();
        if (!one(e, l, how))
            return false;
        l->ns[i] = clock_mono_ns() - begun;
    }
    qsort(l->ns, rounds, sizeof(*l->ns), by_value);
    *median = l->ns[rounds / 2];
    *tenth = l->ns[rounds / 10];
    return true;
}

static void make_load(struct load *l, const struct model *m, const struct shape *s, size_t rounds)
{
    *l = (struct load){ .ids = calloc(s->sequences * s->tokens, sizeof(uint32_t)),
                        .starts = calloc(s->sequences + 1, sizeof(uint32_t)),
                        .out = calloc(s->sequences * eng_dim(m), sizeof(float)),
                        .ns = calloc(rounds, sizeof(int64_t)),
                        .rounds = rounds };
    for (size_t i = 0; i <= s->sequences; i++)
        l->starts[i] = (uint32_t)(i * s->tokens);
    l->batch = (struct eng_batch){ .ids = l->ids, .starts = l->starts, .sequences = s->sequences };
}

static void free_load(struct load *l)
{
    free(l->ids);
    free(l->starts);
    free(l->out);
    free(l->ns);
}

static bool compare(struct eng *here, struct eng *there, const struct model *m, size_t rounds)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        int64_t in[2], run[2], halves[2], paused[2];
        struct load l;

        make_load(&l, m, &shapes[i], rounds);
        bool ok = measure(there, &l, RUN, &run[0], &run[1]) && /* memory is made */
                  measure(here, &l, RUN, &in[0], &in[1]) &&
                  measure(there, &l, RUN, &run[0], &run[1]) &&
                  measure(there, &l, HALVES, &halves[0], &halves[1]) &&
                  measure(there, &l, PAUSED, &paused[0], &paused[1]);
        free_load(&l);
        if (!ok)
            return false;
        printf("%-8s in this process %6.2f us, in a worker %6.2f us (best tenth %6.2f), in halves "
               "%6.2f us, after a pause %6.2f us\n",
               shapes[i].name, (double)in[0] / 1e3, (double)run[0] / 1e3, (double)run[1] / 1e3,
               (double)halves[0] / 1e3, (double)paused[0] / 1e3);
        if (i == 0)
            printf("RESULT worker.added_us %.2f us 5 %s\n", (double)(run[0] - in[0]) / 1e3,
                   run[0] - in[0] <= TARGET_NS ? "ok" : "short");
    }
    return true;
}

int main(int argc, char **argv)
{
    struct workers_opts wo = { .exe = argc > 1 ? argv[1] : NULL };
    struct eng_opts here = { .device = "cuda:0" }, there = here;
    struct eng *a = NULL, *b = NULL;
    struct model *m = NULL;
    struct err err = { 0 };
    uint64_t rounds = ROUNDS;

    if (argc < 3 || (argc > 3 && (!str_to_u64(argv[3], 10, &rounds) || !rounds))) {
        (void)fprintf(stderr, "usage: bench-worker STOKER MODEL-DIR [ROUNDS]\n");
        return 2;
    }
    (void)setenv("FAKE_DEVICE_NULL", "1", 1);
    enum rc rc = model_open(argv[2], &m, &err);
    if (rc == RC_OK)
        rc = workers_new(&wo, &there.workers, &err);
    if (rc == RC_OK)
        rc = eng_load(m, &here, &a, &err);
    if (rc == RC_OK)
        rc = eng_load(m, &there, &b, &err);
    bool ok = rc == RC_OK && compare(a, b, m, (size_t)rounds);
    if (rc != RC_OK)
        (void)fprintf(stderr, "bench-worker: %s\n", err.msg);
    eng_free(a);
    eng_free(b);
    workers_free(there.workers);
    model_close(m);
    return ok ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/* A device without hardware, to test who runs models on it: the reference engine under another
 * name, two devices of it, that fail on demand.
 *
 *   $FAKE_DEVICE_FAILS    a file: while it exists, a run fails on the devices whose numbers stand
 *                         in it, and on all when it is empty
 *   $FAKE_DEVICE_DOES     a file of lines "WHEN WHAT": at start, load or run: hang, crash, exit,
 *                         slow, talk, lost
 *   $FAKE_DEVICE_SUBMITS  it takes batches in two halves
 *   $FAKE_DEVICE_NULL     its rows are zeros, at once */
#include "engine/engine_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAKE_DEVICES = 2, FAKE_SLOW_MS = 50, FAKE_EXIT = 7 };

struct fake_batch { /* submitted */
    struct eng_batch b;
    enum eng_want want;
    float *out;
};

struct fake {
    struct eng eng; /* first */
    struct eng *inner;
    char number;
    struct fake_batch flying[ENG_IN_FLIGHT];
    size_t flying_count;
};

static const struct eng_host *host;

static void do_it(const char *what)
{
    const struct timespec slow = { .tv_nsec = FAKE_SLOW_MS * 1000000 };

    if (!strcmp(what, "hang"))
        for (;;)
            pause();
    if (!strcmp(what, "crash"))
        abort();
    if (!strcmp(what, "exit"))
        _exit(FAKE_EXIT);
    if (!strcmp(what, "slow"))
        nanosleep(&slow, NULL);
    if (!strcmp(what, "talk"))
        (void)fprintf(stderr, "the driver has something to say\n");
}

/* true: the device is lost. */
static bool behave(const char *when)
{
    const char *path = getenv("FAKE_DEVICE_DOES");
    FILE *in = path ? fopen(path, "r") : NULL;
    char at[16], what[16], found[16] = "";

    while (in && fscanf(in, "%15s %15s", at, what) == 2)
        if (!strcmp(at, when))
            memcpy(found, what, sizeof(found));
    if (in)
        (void)fclose(in);
    if (found[0])
        do_it(found);
    return !strcmp(found, "lost");
}

static int fake_score(void)
{
    (void)behave("start");
    return 1;
}

static size_t fake_count(void)
{
    return FAKE_DEVICES;
}

static const char *fake_kind(void)
{
    return "Fake 9000";
}

static enum rc fake_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                         struct err *err);

static void fake_unload(struct eng *e)
{
    struct fake *f = (struct fake *)e;

    host->ref->unload(f->inner);
    free(f);
}

static int fails(const struct fake *f)
{
    const char *path = getenv("FAKE_DEVICE_FAILS");
    FILE *in = path ? fopen(path, "r") : NULL;
    char numbers[16] = "";

    if (!in)
        return 0;
    size_t n = fread(numbers, 1, sizeof(numbers) - 1, in);
    (void)fclose(in);
    return !n || strchr(numbers, f->number) != NULL;
}

static enum rc fake_run(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                        struct err *err)
{
    struct fake *f = (struct fake *)e;
    const struct model *m = e->model;
    size_t width = want == ENG_SCORES ? m->labels : m->hidden;

    if (getenv("FAKE_DEVICE_NULL")) {
        memset(out, 0,
               (want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences) * width *
                   sizeof(*out));
        return RC_OK;
    }
    if (behave("run"))
        return host->fail(err, RC_NODEV, "an illegal address was used");
    if (fails(f))
        return host->fail(err, RC_FAIL, "device %c fell off the bus", f->number);
    return host->ref->run(f->inner, b, want, out, err);
}

static enum rc fake_submit(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                           struct err *err)
{
    struct fake *f = (struct fake *)e;

    if (f->flying_count == ENG_IN_FLIGHT)
        return host->fail(err, RC_LIMIT, "%d batches are on their way", ENG_IN_FLIGHT);
    f->flying[f->flying_count++] = (struct fake_batch){ *b, want, out };
    return RC_OK;
}

static enum rc fake_collect(struct eng *e, bool *out_done, struct err *err)
{
    struct fake *f = (struct fake *)e;
    struct fake_batch b = f->flying[0];

    memmove(f->flying, f->flying + 1, --f->flying_count * sizeof(f->flying[0]));
    *out_done = true;
    return fake_run(e, &b.b, b.want, b.out, err);
}

static uint64_t fake_memory(const struct model *m, const struct eng_opts *o)
{
    return host->ref->memory(m, o);
}

static void fake_describe(const struct eng *e, char *out, size_t cap)
{
    (void)e;
    snprintf(out, cap, "fake f32");
}

static struct eng_ops ops = {
    .name = "cuda",
    .score = fake_score,
    .load = fake_load,
    .unload = fake_unload,
    .run = fake_run,
    .memory = fake_memory,
    .describe = fake_describe,
    .kind = fake_kind,
    .count = fake_count,
};

static enum rc fake_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                         struct err *err)
{
    struct eng_opts inner = { .device = "ref", .dtype = ENG_F32 };
    const char *colon = strchr(o->device, ':');
    struct fake *f = calloc(1, sizeof(*f));

    if (!f)
        return host->fail(err, RC_LIMIT, "no memory");
    (void)behave("load");
    f->eng = (struct eng){ .ops = &ops, .model = m };
    f->number = colon ? colon[1] : '0';
    if (host->ref->load(m, &inner, &f->inner, err)) {
        free(f);
        return err ? err->code : RC_FAIL;
    }
    *out = &f->eng;
    return RC_OK;
}

int stoker_engine_abi(void)
{
    return STOKER_ENGINE_ABI + (getenv("FAKE_DEVICE_OLD") != NULL); /* of another build */
}

const struct eng_ops *stoker_engine(const struct eng_host *h)
{
    host = h;
    if (getenv("FAKE_DEVICE_SUBMITS")) {
        ops.submit = fake_submit;
        ops.collect = fake_collect;
    }
    return &ops;
}

/* SPDX-License-Identifier: MIT */
/* A device without hardware, to test who runs models on it: the reference engine under another
 * name, two devices of it, that fail on demand.  While the file $FAKE_DEVICE_FAILS names exists,
 * a run fails on the devices whose numbers stand in it, and on all when it is empty. */
#include "engine/engine_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_DEVICES = 2 };

struct fake {
    struct eng eng; /* first */
    struct eng *inner;
    char number;
};

static const struct eng_host *host;

static int fake_score(void)
{
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

    if (fails(f))
        return host->fail(err, RC_FAIL, "device %c fell off the bus", f->number);
    return host->ref->run(f->inner, b, want, out, err);
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

static const struct eng_ops ops = {
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
    return STOKER_ENGINE_ABI;
}

const struct eng_ops *stoker_engine(const struct eng_host *h)
{
    host = h;
    return &ops;
}

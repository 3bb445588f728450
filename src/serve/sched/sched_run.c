/* SPDX-License-Identifier: MIT */
/* sched_run: one batch on a device, here and now: packing, running, and what a failure costs.
 *
 * A batch that fails is run again text by text, so that a text which cannot be computed costs
 * its own request alone.  When it is the device that fails, the batch runs on the model's fallback.
 * */
#include "base/mem.h"
#include "os/clock.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>

static void *grow_buffer(void *p, size_t need, size_t *cap, size_t size)
{
    if (need <= *cap)
        return p;
    *cap = need;
    free(p);
    return xreallocarray(NULL, need, size);
}

size_t batch_row_count(const struct sched_batch *b, const struct request_text *t)
{
    return b->queue->want == ENG_TOKENS ? t->tokens : 1;
}

/* The rows of text i. */
float *batch_rows(const struct sched_batch *b, size_t i)
{
    size_t row = b->queue->want == ENG_TOKENS ? b->starts[i] : i;

    return b->out + row * b->queue->width;
}

static void make_room(struct sched_batch *b)
{
    size_t rows = b->queue->want == ENG_TOKENS ? b->tokens : b->count;

    if (b->tokens > b->tokens_cap) {
        size_t cap = b->tokens_cap;
        b->types = grow_buffer(b->types, b->tokens, &cap, sizeof(*b->types));
        b->ids = grow_buffer(b->ids, b->tokens, &b->tokens_cap, sizeof(*b->ids));
    }
    b->starts = grow_buffer(b->starts, b->count + 1, &b->starts_cap, sizeof(*b->starts));
    b->skips = grow_buffer(b->skips, b->count, &b->skips_cap, sizeof(*b->skips));
    b->out = grow_buffer(b->out, rows * b->queue->width, &b->out_cap, sizeof(*b->out));
}

/* Copies ids and types behind one another. */
static void pack_texts(struct sched_batch *b)
{
    uint32_t at = 0;

    b->typed = b->skipping = false;
    for (size_t i = 0; i < b->count; i++) {
        const struct request_text *t = b->texts[i];
        uint32_t n = t->tokens;
        b->starts[i] = at;
        b->skips[i] = t->skip;
        memcpy(b->ids + at, t->ids, n * sizeof(*b->ids));
        if (t->types)
            memcpy(b->types + at, t->types, n);
        else
            memset(b->types + at, 0, n);
        b->typed |= t->types != NULL;
        b->skipping |= t->skip != 0;
        at += n;
    }
    b->starts[b->count] = at;
    assert(at == b->tokens);
}

static bool all_finite(const float *v, size_t n)
{
    const uint32_t exponent = 0x7f800000; /* all ones for NaN and infinity alone */
    uint32_t odd = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof(bits));
        odd |= (bits & exponent) == exponent;
    }
    return !odd;
}

static enum rc check_finite(const struct sched_batch *b, size_t i, struct err *err)
{
    if (all_finite(batch_rows(b, i), batch_row_count(b, b->texts[i]) * b->queue->width))
        return RC_OK;
    return err_set(err, RC_FAIL, "model '%s' gave a number that is not finite",
                   b->queue->model->name);
}

static void fail_text(struct sched_batch *b, size_t i, const struct err *err)
{
    struct request_text *t = b->texts[i];

    t->err = xmalloc(sizeof(*t->err));
    *t->err = *err;
    b->failures++;
}

struct eng_batch batch_texts(const struct sched_batch *b)
{
    return (struct eng_batch){ .ids = b->ids,
                               .types = b->typed ? b->types : NULL,
                               .starts = b->starts,
                               .sequences = b->count,
                               .skip = b->skipping ? b->skips : NULL };
}

static void run_singly(struct device_queue *dq, struct eng *e)
{
    struct sched_batch *b = dq->batch;

    for (size_t i = 0; i < b->count; i++) {
        uint32_t at = b->starts[i], starts[2] = { 0, b->starts[i + 1] - at };
        struct eng_batch one = { .ids = b->ids + at,
                                 .types = b->typed ? b->types + at : NULL,
                                 .starts = starts,
                                 .sequences = 1,
                                 .skip = b->skipping ? b->skips + i : NULL };
        struct err err = { 0 };
        enum rc rc = dq->sched->o.run(e, &one, b->queue->want, batch_rows(b, i), &err);
        if (rc == RC_OK)
            rc = check_finite(b, i, &err);
        else
            (void)err_set(&err, rc, "the engine failed"); /* if it gave no reason */
        if (rc != RC_OK)
            fail_text(b, i, &err);
    }
}

enum rc batch_check(const struct sched_batch *b, enum rc rc, struct err *err)
{
    for (size_t i = 0; rc == RC_OK && i < b->count; i++)
        rc = check_finite(b, i, err);
    return rc;
}

static enum rc run_all(struct device_queue *dq, struct eng *e, struct err *err)
{
    struct sched_batch *b = dq->batch;
    struct eng_batch all = batch_texts(b);

    return batch_check(b, dq->sched->o.run(e, &all, b->queue->want, b->out, err), err);
}

/* What a failure costs: the one text, or each on its own. */
static void settle_failure(struct device_queue *dq, struct eng *e, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return;
    if (dq->batch->count > 1) {
        run_singly(dq, e);
        return;
    }
    (void)err_set(err, rc, "the engine failed");
    fail_text(dq->batch, 0, err);
}

/* The device failed: it is left alone for a while, each time for longer. */
static void device_down(const struct sched_batch *b)
{
    struct model_replica *r = b->queue->replica;
    int64_t most = (int64_t)SCHED_DEVICE_WAIT_MS_MAX * 1000000;

    r->wait_ns = r->wait_ns ? r->wait_ns * 2 : (int64_t)SCHED_DEVICE_WAIT_MS * 1000000;
    r->wait_ns = r->wait_ns < most ? r->wait_ns : most;
    atomic_store(&r->retry_ns, clock_mono_ns() + r->wait_ns);
    counter_add(b->queue->record->series.device_failures, 1);
}

/* On the fallback; false: there is none to be had, and *err says why. */
static bool run_elsewhere(struct device_queue *dq, struct err *err)
{
    struct sched_batch *b = dq->batch;
    struct served *m = b->queue->model;
    struct err own = { 0 };
    struct eng *e = fallback_take(m, err);

    if (!e)
        return false;
    b->fell_back = true;
    settle_failure(dq, e, run_all(dq, e, &own), &own);
    fallback_done(m);
    return true;
}

struct eng *batch_eng(const struct sched_batch *b)
{
    return b->queue->replica ? b->queue->replica->eng : b->queue->model->eng;
}

static bool has_fallback(const struct sched_batch *b)
{
    return b->queue->replica && b->queue->model->fallback;
}

/* What the model's own device said of the batch.  *other: why there is no fallback, if that is
 * known already. */
void batch_judge(struct device_queue *dq, enum rc rc, struct err *err, struct err *other)
{
    struct sched_batch *b = dq->batch;

    if (!has_fallback(b) || rc != RC_NODEV) {
        if (has_fallback(b)) {
            b->queue->replica->wait_ns = 0;
            atomic_store(&b->queue->replica->retry_ns, 0);
        }
        settle_failure(dq, batch_eng(b), rc, err);
        return;
    }
    device_down(b);
    if (other->code || !run_elsewhere(dq, other)) {
        (void)err_ctx(other, "%s", err->msg);
        for (size_t i = 0; i < b->count; i++)
            fail_text(b, i, other);
    }
}

/* A device that failed is not tried before its time, unless the fallback cannot be had. */
bool batch_rests(const struct sched_batch *b)
{
    return has_fallback(b) && atomic_load(&b->queue->replica->retry_ns) > b->begun_ns;
}

void batch_prepare(struct sched_batch *b)
{
    make_room(b);
    pack_texts(b);
    b->fell_back = false;
    b->begun_ns = clock_mono_ns();
}

void batch_compute(struct device_queue *dq)
{
    struct sched_batch *b = dq->batch;
    struct err err = { 0 }, other = { 0 };

    b->begun_ns = clock_mono_ns();
    if (!batch_rests(b) || !run_elsewhere(dq, &other))
        batch_judge(dq, run_all(dq, batch_eng(b), &err), &err, &other);
    b->ended_ns = dq->ended_ns = clock_mono_ns();
}

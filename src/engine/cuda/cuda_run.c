/* SPDX-License-Identifier: MIT */
/* cuda_run: batches in, vectors out.
 *
 * A batch is cut into passes of whole sequences, with fp8 those of short texts, which run in 16
 * bits, behind the others: how a text runs depends only on its own length.  All that the device
 * must know of a pass stands in one block of pinned memory (counts, ids, positions, starts, tiles
 * of attention, types), which one copy takes over; one copy brings the results back.  (Kernels do
 * both where there is little to copy.)  There are two such slots: while the device works on one
 * pass the next is staged, and copies of large passes have streams of their own, so that they run
 * beside the layers of another.
 *
 *     host    stage 0 | stage 1        | hand over 0, stage 2   |
 *     up              | 0 |    | 1 |                    | 2 |
 *     layers              | 0 ........ | 1 ................ | 2 ...
 *     down                             | 0 |                | 1 |
 *
 * In the steady state nothing is allocated: room grows with the largest pass so far. */
#include "engine/cuda/cuda_int.h"
#include "engine/cuda/kernels/fetch_int.h"

#include <assert.h>

enum {
    LENGTH_STEP = 8, /* tokens that one bucket of lengths spans */
    LONG_MEAN = 320  /* tokens of a sequence, in the mean, from which long tiles of attention pay */
};

/* ---- slots ---- */
static size_t length_buckets(const struct cuda_net *e)
{
    return e->tokens_max / LENGTH_STEP + 1;
}

static enum rc pinned_room(struct cuda_net *e, void **p, size_t *have, size_t want, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    void *more = NULL;

    if (want <= *have)
        return RC_OK;
    want = cu_round_up(cu_max(want, *have * 2), 1 << 16);
    if (!cu_ok(&t, cudaHostAlloc(&more, want, cudaHostAllocDefault), "cudaHostAlloc",
               "a batch's pinned memory"))
        return t.rc;
    if (*p)
        (void)cudaFreeHost(*p);
    *p = more;
    *have = want;
    return RC_OK;
}

/* Bytes of the vectors or scores of the largest pass. */
static size_t vectors_most(const struct cuda_net *e)
{
    const struct model *m = e->base.model;
    size_t width = cu_max(net_width(m, ENG_VECTORS), net_width(m, ENG_SCORES));

    return CU_PASS_SEQUENCES * width * sizeof(float);
}

static bool event_new(cudaEvent_t *out, struct cu_try *t)
{
    return cu_ok(t, cudaEventCreateWithFlags(out, cudaEventDisableTiming), "cudaEventCreate",
                 "a batch");
}

static void event_free(cudaEvent_t e)
{
    if (e)
        (void)cudaEventDestroy(e);
}

enum rc net_slots_open(struct cuda_net *e, struct err *err)
{
    size_t tokens = e->pass_tokens, sequences = CU_PASS_SEQUENCES;
    size_t most = net_layout_batch(tokens, sequences, net_tiles_max(tokens, sequences)).bytes;
    struct cu_try t = { e->gpu, err, RC_OK };

    e->order = cu_host()->alloc(CU_PASS_SEQUENCES, sizeof(*e->order));
    e->buckets = cu_host()->alloc(length_buckets(e) + 1, sizeof(*e->buckets));
    for (size_t i = 0; i < CU_SLOTS && t.rc == RC_OK; i++) {
        struct cu_slot *s = &e->slots[i];

        s->pick = cu_host()->alloc(CU_PASS_SEQUENCES, sizeof(*s->pick));
        t.rc = region_open(e->gpu, "batches", most, &s->block, err);
        if (t.rc == RC_OK)
            t.rc = region_commit(&s->block, most, e->stream, err);
        if (t.rc == RC_OK)
            t.rc = region_open(e->gpu, "vectors", vectors_most(e), &s->vectors, err);
        if (t.rc == RC_OK)
            (void)(event_new(&s->sent, &t) && event_new(&s->computed, &t) &&
                   event_new(&s->done, &t) &&
                   cu_ok(
                       &t,
                       cudaHostAlloc((void **)&s->graph_back, CU_GRAPH_BACK, cudaHostAllocDefault),
                       "cudaHostAlloc", "vectors"));
    }
    return t.rc;
}

void net_slots_close(struct cuda_net *e)
{
    for (size_t i = 0; i < CU_SLOTS; i++) {
        struct cu_slot *s = &e->slots[i];

        region_close(&s->block);
        if (s->stage)
            (void)cudaFreeHost(s->stage);
        if (s->back)
            (void)cudaFreeHost(s->back);
        if (s->graph_back)
            (void)cudaFreeHost(s->graph_back);
        region_close(&s->vectors);
        event_free(s->sent);
        event_free(s->computed);
        event_free(s->done);
        free(s->pick);
        *s = (struct cu_slot){ 0 };
    }
}

/* Waits for what the slot has under way and hands it over. */
static bool collect_slot(struct cuda_net *e, struct cu_slot *s, struct cu_try *t)
{
    (void)e;
    if (!s->busy)
        return t->rc == RC_OK;
    s->busy = false;
    if (!cu_ok(t, cudaEventSynchronize(s->done), "cudaEventSynchronize", "a batch"))
        return false;
    for (size_t i = 0; i < s->picked; i++)
        memcpy(s->out + s->pick[i] * s->width, s->result + i * s->width, s->width * sizeof(float));
    return true;
}

/* ---- staging ---- */

/* Some sequences of a batch, which one pass takes. */
struct run_part {
    const struct eng_batch *b;
    const uint32_t *pick; /* the slot's */
    size_t sequences, tokens;
    bool in16;
    bool first; /* of its batch */
};

static size_t length_of(const struct eng_batch *b, size_t s)
{
    return b->starts[s + 1] - b->starts[s];
}

static size_t part_length(const struct run_part *p, size_t s)
{
    return length_of(p->b, p->pick[s]);
}

static bool runs_in16(const struct cuda_net *e, const struct eng_batch *b, size_t s)
{
    return e->short_tokens && length_of(b, s) <= e->short_tokens;
}

/* As many sequences from *at on as a pass takes, and at least one if there is one of that kind. */
static struct run_part next_part(struct cuda_net *e, const struct eng_batch *b, bool in16,
                                 size_t *at, struct cu_slot *s)
{
    struct run_part p = { .b = b, .pick = s->pick, .in16 = in16 };

    for (; *at < b->sequences; ++*at) {
        size_t n = length_of(b, *at);

        if (runs_in16(e, b, *at) != in16)
            continue;
        if (p.sequences == CU_PASS_SEQUENCES || (p.sequences && p.tokens + n > e->cut_tokens))
            break;
        s->pick[p.sequences++] = (uint32_t)*at;
        p.tokens += n;
    }
    s->picked = p.sequences;
    return p;
}

static bool one_part(const struct cuda_net *e, const struct eng_batch *b)
{
    bool alike = true;

    for (size_t s = 1; s < b->sequences && alike; s++)
        alike = runs_in16(e, b, s) == runs_in16(e, b, 0);
    return alike && b->sequences <= CU_PASS_SEQUENCES &&
           (b->sequences == 1 || b->starts[b->sequences] - b->starts[0] <= e->cut_tokens);
}

/* e->order: the part's sequences, the longest first, by steps of LENGTH_STEP tokens. */
static void sort_lengths(struct cuda_net *e, const struct run_part *p)
{
    size_t n = p->sequences, buckets = length_buckets(e);

    memset(e->buckets, 0, (buckets + 1) * sizeof(*e->buckets));
    for (size_t s = 0; s < n; s++)
        e->buckets[buckets - part_length(p, s) / LENGTH_STEP]++;
    for (size_t i = 0, sum = 0; i <= buckets; i++) {
        size_t here = e->buckets[i];

        e->buckets[i] = (uint32_t)sum;
        sum += here;
    }
    for (size_t s = 0; s < n; s++)
        e->order[e->buckets[buckets - part_length(p, s) / LENGTH_STEP]++] = (uint32_t)s;
}

/* `starts`: of the part's sequences in the pass. */
static size_t stage_tiles(struct cuda_net *e, const struct run_part *p, const uint32_t *starts,
                          size_t rows, struct gk_tile *out)
{
    size_t n = 0;

    if (p->sequences > 1)
        sort_lengths(e, p);
    else
        e->order[0] = 0;
    for (size_t i = 0; i < p->sequences; i++) {
        size_t s = e->order[i], count = part_length(p, s);

        for (size_t q = 0; q < count; q += rows)
            out[n++] =
                (struct gk_tile){ .first = starts[s], .count = (uint32_t)count, .q = (uint32_t)q };
    }
    return n;
}

static void stage_part(struct cuda_net *e, const struct run_part *p, const struct cu_pass *pass,
                       unsigned char *to)
{
    const struct cu_layout *at = &pass->at;
    const struct eng_batch *b = p->b;
    size_t begin = 0;
    struct cu_counts *counts = (struct cu_counts *)(void *)to;
    uint32_t *ids = (uint32_t *)(void *)(to + at->ids);
    uint32_t *positions = (uint32_t *)(void *)(to + at->positions);
    uint32_t *starts = (uint32_t *)(void *)(to + at->starts);
    uint32_t *skip = (uint32_t *)(void *)(to + at->skip);

    for (size_t s = 0; s < p->sequences; s++) {
        size_t n = part_length(p, s), from = b->starts[p->pick[s]];

        memcpy(ids + begin, b->ids + from, n * sizeof(*ids));
        cu_host()->positions(e->base.model, ids + begin, n, positions + begin);
        starts[s] = (uint32_t)begin;
        skip[s] = b->skip ? b->skip[p->pick[s]] : 0;
        if (e->token_type && b->types)
            memcpy(to + at->types + begin, b->types + from, n);
        begin += n;
    }
    starts[p->sequences] = (uint32_t)begin;
    if (e->token_type && !b->types)
        memset(to + at->types, 0, begin);
    counts->tokens = (int32_t)begin;
    counts->sequences = (int32_t)p->sequences;
    counts->tiles = (int32_t)stage_tiles(e, p, starts, (size_t)pass->tile_rows,
                                         (struct gk_tile *)(void *)(to + at->tiles));
}

/* The next power of two: room then grows a few times and no more. */
static size_t room_for(size_t n, size_t most)
{
    size_t size = 256;

    while (size < n)
        size *= 2;
    return cu_max(cu_min(size, most), n);
}

static size_t part_tiles(const struct run_part *p, size_t rows)
{
    size_t n = 0;

    for (size_t s = 0; s < p->sequences; s++)
        n += (part_length(p, s) + rows - 1) / rows;
    return n;
}

/* Sizes of the pass and memory for it: those of its bucket, or its own. */
static enum rc prepare_pass(struct cuda_net *e, const struct run_part *part, enum eng_want want,
                            struct cu_slot *s, struct cu_pass *out, struct err *err)
{
    size_t tokens = part->tokens, sequences = part->sequences, tiles;
    size_t width = net_width(e->base.model, want);
    struct cu_pass p = { .want = want, .counted = tokens <= CU_GRAPH_TOKENS, .in16 = part->in16 };
    enum rc rc;

    if (p.counted) {
        tokens = graph_tokens(tokens);
        sequences = graph_sequences(sequences, tokens);
    }
    p.tile_rows = GK_ATTN_ROWS;
    if (!p.counted && tokens / sequences >= LONG_MEAN)
        p.tile_rows = GK_ATTN_ROWS_LONG;
    tiles = p.counted ? net_tiles_max(tokens, sequences) : part_tiles(part, (size_t)p.tile_rows);
    p.tokens = (int)tokens;
    p.sequences = (int)sequences;
    p.tiles = (int)tiles;
    p.at = net_layout_batch(tokens, sequences, tiles);
    p.block = s->block.base;
    if (p.counted && want != ENG_TOKENS && sequences * width * sizeof(float) <= CU_GRAPH_BACK)
        p.to = s->graph_back;
    rc = net_room(e, room_for(tokens, e->pass_tokens), room_for(sequences, CU_PASS_SEQUENCES), err);
    if (rc == RC_OK)
        rc = pinned_room(e, (void **)&s->stage, &s->stage_bytes, p.at.bytes, err);
    if (rc == RC_OK && want != ENG_TOKENS && !p.counted) {
        rc = region_commit(&s->vectors, part->sequences * width * sizeof(float), e->stream, err);
        p.to = (float *)(void *)s->vectors.base;
    }
    if (rc == RC_OK && want != ENG_TOKENS && p.to != s->graph_back)
        rc = pinned_room(e, (void **)&s->back, &s->back_bytes,
                         part->sequences * width * sizeof(float), err);
    if (rc == RC_OK)
        *out = p;
    return rc;
}

/* ---- running ---- */

/* Rows at .. at + n of the pass to where they stand in the batch. */
static void place_rows(const struct run_part *p, size_t at, size_t n, const float *from,
                       size_t hidden, float *out)
{
    for (size_t s = 0, row = 0, count; s < p->sequences; s++, row += count) {
        size_t first, end;

        count = part_length(p, s);
        first = cu_max(at, row);
        end = cu_min(at + n, row + count);
        if (first < end)
            memcpy(out + (p->b->starts[p->pick[s]] + first - row) * hidden,
                   from + (first - at) * hidden, (end - first) * hidden * sizeof(float));
    }
}

/* The rows as f32, some at a time. */
static enum rc fetch_rows(struct cuda_net *e, struct cu_slot *s, const struct run_part *p,
                          float *out, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    size_t hidden = e->base.model->hidden, rows = p->tokens,
           some = e->room.rows32.used / (hidden * sizeof(float));
    float *wide = (float *)(void *)e->room.rows32.base;

    t.rc = pinned_room(e, (void **)&s->back, &s->back_bytes,
                       cu_min(some, rows) * hidden * sizeof(float), err);
    for (size_t at = 0; at < rows && t.rc == RC_OK; at += some) {
        size_t n = cu_min(some, rows - at), bytes = n * hidden * sizeof(float);
        const void *x = e->room.x.base + at * e->ld * cu_type_bytes(e->type);

        if (cu_ok(&t, gk_widen(e->type, x, e->ld, (int)n, (int)hidden, wide, e->stream), "launch",
                  "token vectors") &&
            cu_ok(&t, cudaMemcpyAsync(s->back, wide, bytes, cudaMemcpyDeviceToHost, e->stream),
                  "cudaMemcpyAsync", "token vectors") &&
            cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "token vectors"))
            place_rows(p, at, n, s->back, hidden, out);
    }
    return t.rc;
}

static bool launch_pass(struct cuda_net *e, const struct cu_pass *p, int slot, struct cu_try *t)
{
    if (p->counted)
        t->rc = graph_run(e, p, slot, t->err);
    else
        (void)cu_ok(t, net_forward(e, p), "launch", "the layers");
    if (e->timed)
        (void)cu_ok(t, cudaEventRecord(e->ended, e->stream), "cudaEventRecord", "a batch");
    return t->rc == RC_OK;
}

/* What comes next on `then` waits for what is on `first` now. */
static bool wait_behind(cudaStream_t then, cudaStream_t first, cudaEvent_t mark, struct cu_try *t)
{
    return cu_ok(t, cudaEventRecord(mark, first), "cudaEventRecord", "a batch") &&
           cu_ok(t, cudaStreamWaitEvent(then, mark, 0), "cudaStreamWaitEvent", "a batch");
}

/* The batch onto the device: a small one by a kernel, which starts sooner than a copy. */
static bool send_batch(struct cuda_net *e, const struct cu_pass *p, struct cu_slot *s,
                       struct cu_try *t)
{
    size_t bytes = e->token_type ? p->at.bytes : p->at.types;

    if (p->counted)
        return cu_ok(t, gk_fetch(s->stage, s->block.base, bytes, e->stream), "launch", "a batch");
    return cu_ok(t, cudaMemcpyAsync(s->block.base, s->stage, bytes, cudaMemcpyHostToDevice, e->up),
                 "cudaMemcpyAsync", "a batch") &&
           wait_behind(e->stream, e->up, s->sent, t);
}

/* The results back, where the last kernel does not leave them there. */
static bool take_results(struct cuda_net *e, const struct cu_pass *p, struct cu_slot *s,
                         struct cu_try *t)
{
    bool there = p->to == s->graph_back; /* where the last kernel left them */
    const float *from = p->to ? p->to : net_result(e, p->want);
    size_t bytes = s->picked * s->width * sizeof(float);
    cudaStream_t on = p->counted ? e->stream : e->down;

    s->result = there ? p->to : s->back;
    return (p->counted || wait_behind(e->down, e->stream, s->computed, t)) &&
           (there || cu_ok(t, cudaMemcpyAsync(s->back, from, bytes, cudaMemcpyDeviceToHost, on),
                           "cudaMemcpyAsync", "vectors")) &&
           cu_ok(t, cudaEventRecord(s->done, on), "cudaEventRecord", "a batch");
}

static void drain_streams(struct cuda_net *e)
{
    (void)cudaStreamSynchronize(e->up);
    (void)cudaStreamSynchronize(e->stream);
    (void)cudaStreamSynchronize(e->down);
}

static enum rc run_part(struct cuda_net *e, const struct run_part *part, enum eng_want want,
                        int slot, float *out, struct err *err)
{
    struct cu_slot *s = &e->slots[slot];
    struct cu_try t = { e->gpu, err, RC_OK };
    struct cu_pass p;

    assert(!s->busy);
    t.rc = prepare_pass(e, part, want, s, &p, err);
    if (t.rc != RC_OK)
        return t.rc;
    stage_part(e, part, &p, s->stage);
    if (!send_batch(e, &p, s, &t) ||
        (e->timed && part->first &&
         !cu_ok(&t, cudaEventRecord(e->began, e->stream), "cudaEventRecord", "a batch")) ||
        !launch_pass(e, &p, slot, &t))
        return t.rc;
    if (want == ENG_TOKENS)
        return fetch_rows(e, s, part, out, err);
    s->out = out;
    s->width = net_width(e->base.model, want);
    s->busy = take_results(e, &p, s, &t);
    return t.rc;
}

static void read_times(struct cuda_net *e, struct cu_try *t)
{
    float ms = 0;

    if (e->timed && cu_ok(t, cudaEventSynchronize(e->ended), "cudaEventSynchronize", "a batch") &&
        cu_ok(t, cudaEventElapsedTime(&ms, e->began, e->ended), "cudaEventElapsedTime", "a batch"))
        e->forward_ms = (double)ms;
}

enum rc net_run(struct cuda_net *e, const struct eng_batch *b, enum eng_want want, float *out,
                struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    size_t parts = 0, at = 0;
    bool in16 = false;

    profile_begin(e);
    while (t.rc == RC_OK) {
        int slot = (int)(parts % CU_SLOTS);
        struct run_part part;

        if (!collect_slot(e, &e->slots[slot], &t))
            break;
        part = next_part(e, b, in16, &at, &e->slots[slot]);
        if (!part.sequences && in16)
            break;
        if (!part.sequences) {
            in16 = true;
            at = 0;
            continue;
        }
        part.first = parts++ == 0;
        t.rc = run_part(e, &part, want, slot, out, err);
    }
    for (size_t i = 0; i < CU_SLOTS; i++)
        (void)collect_slot(e, &e->slots[(parts + i) % CU_SLOTS], &t);
    if (t.rc == RC_OK)
        read_times(e, &t);
    if (t.rc == RC_OK)
        t.rc = profile_read(e, err);
    if (t.rc != RC_OK) /* what is still under way ends before its memory is used again */
        drain_streams(e);
    return t.rc;
}

/* A batch of several passes, or one of tokens, runs at once: what is under way before it ends
 * with it, and is handed over when it is asked for. */
enum rc net_submit(struct cuda_net *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    int slot = -1;

    if (e->flight_count == CU_SLOTS)
        return cu_host()->fail(err, RC_LIMIT, "%d batches are on the GPU already", CU_SLOTS);
    if (!one_part(e, b) || want == ENG_TOKENS) {
        t.rc = net_run(e, b, want, out, err);
    } else if (collect_slot(e, &e->slots[e->slot_next], &t)) {
        struct run_part all;
        size_t at = 0;

        slot = e->slot_next;
        all = next_part(e, b, runs_in16(e, b, 0), &at, &e->slots[slot]);
        all.first = true;
        t.rc = run_part(e, &all, want, slot, out, err);
        e->slot_next = (slot + 1) % CU_SLOTS;
    }
    if (t.rc == RC_OK)
        e->flights[e->flight_count++] = slot;
    return t.rc;
}

enum rc net_collect(struct cuda_net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    int slot = e->flights[0];

    assert(e->flight_count > 0);
    e->flight_count--;
    memmove(e->flights, e->flights + 1, e->flight_count * sizeof(*e->flights));
    if (slot >= 0)
        (void)collect_slot(e, &e->slots[slot], &t);
    return t.rc;
}

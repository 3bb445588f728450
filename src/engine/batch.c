/* SPDX-License-Identifier: MIT */
/* batch: texts of a window into packed batches and their rows back in order.
 *
 * Sorting by length keeps a batch's texts alike, which devices like; ties keep the order in which
 * texts came, so that the same window gives the same batches. */
#include "engine/batch.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void batch_reset(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->items[i].why);
    b->count = b->tokens = 0;
}

void batch_release(struct batch *b)
{
    batch_reset(b);
    free(b->ids);
    free(b->types);
    free(b->items);
    free(b->order);
    *b = (struct batch){ 0 };
}

void batch_add(struct batch *b, const uint32_t *ids, const uint8_t *types, size_t count,
               bool truncated)
{
    size_t need = b->tokens + count;

    assert(count > 0 && count <= UINT32_MAX);
    VEC_GROW(b->items, b->count, b->items_cap);
    if (need > b->tokens_cap) {
        b->tokens_cap = need < 2 * b->tokens_cap ? 2 * b->tokens_cap : need + 1024;
        b->ids = xreallocarray(b->ids, b->tokens_cap, sizeof(*b->ids));
        b->types = xreallocarray(b->types, b->tokens_cap, sizeof(*b->types));
    }
    memcpy(b->ids + b->tokens, ids, count * sizeof(*ids));
    if (types)
        memcpy(b->types + b->tokens, types, count);
    else
        memset(b->types + b->tokens, 0, count);
    b->items[b->count++] = (struct batch_item){ .first = b->tokens,
                                                .tokens = (uint32_t)count,
                                                .truncated = truncated };
    b->tokens += count;
}

void batch_skip(struct batch *b, size_t tokens)
{
    assert(b->count > 0 && tokens <= UINT32_MAX);
    b->items[b->count - 1].skip = (uint32_t)tokens;
}

void batch_add_failed(struct batch *b, const char *why)
{
    VEC_GROW(b->items, b->count, b->items_cap);
    b->items[b->count++] = (struct batch_item){ .first = b->tokens, .why = xstrdup(why) };
}

bool batch_full(const struct batch *b)
{
    return b->count >= BATCH_WINDOW_MAX || b->tokens >= BATCH_WINDOW_TOKENS_MAX;
}

/* ---- running ---- */
struct packed { /* room for one batch */
    uint32_t *ids, *starts, *skip;
    uint8_t *types;
    float *out;
    size_t ids_cap, starts_cap;
};

static void packed_reserve(struct packed *p, size_t tokens, size_t sequences, size_t width)
{
    if (tokens > p->ids_cap) {
        p->ids_cap = tokens;
        p->ids = xreallocarray(p->ids, tokens, sizeof(*p->ids));
        p->types = xreallocarray(p->types, tokens, sizeof(*p->types));
    }
    if (sequences + 1 > p->starts_cap) {
        p->starts_cap = sequences + 1;
        p->starts = xreallocarray(p->starts, p->starts_cap, sizeof(*p->starts));
        p->skip = xreallocarray(p->skip, p->starts_cap, sizeof(*p->skip));
        p->out = xreallocarray(p->out, p->starts_cap, width * sizeof(*p->out));
    }
}

static int by_length(const void *x, const void *y, void *arg)
{
    const struct batch_item *items = arg;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    if (items[a].tokens != items[b].tokens)
        return items[a].tokens > items[b].tokens ? -1 : 1;
    return a < b ? -1 : a > b;
}

static size_t sort_items(struct batch *b)
{
    size_t n = 0;

    if (b->order_cap < b->count) {
        b->order_cap = b->items_cap;
        b->order = xreallocarray(b->order, b->order_cap, sizeof(*b->order));
    }
    for (size_t i = 0; i < b->count; i++)
        if (!b->items[i].why)
            b->order[n++] = (uint32_t)i;
    if (n)
        qsort_r(b->order, n, sizeof(*b->order), by_length, b->items);
    return n;
}

/* How many of order[from..n) fit a batch: one at least. */
static size_t take_fitting(const struct batch *b, size_t from, size_t n, size_t budget,
                           size_t *out_tokens)
{
    size_t tokens = 0, i = from;

    for (; i < n; i++) {
        size_t more = b->items[b->order[i]].tokens;

        if (i > from && tokens + more > budget)
            break;
        tokens += more;
    }
    *out_tokens = tokens;
    return i - from;
}

static enum rc run_items(const struct batch *b, const struct batch_runner *r, const uint32_t *which,
                         size_t n, struct packed *p, float *rows, struct err *err)
{
    struct eng_batch eb;
    uint32_t at = 0;
    enum rc rc;

    assert(p->starts && p->skip && p->ids && p->types); /* packed_reserve() made room for n */
    for (size_t i = 0; i < n; i++) {
        const struct batch_item *it = &b->items[which[i]];

        p->starts[i] = at;
        p->skip[i] = it->skip;
        memcpy(p->ids + at, b->ids + it->first, it->tokens * sizeof(*p->ids));
        memcpy(p->types + at, b->types + it->first, it->tokens);
        at += it->tokens;
    }
    p->starts[n] = at;
    eb = (struct eng_batch){ p->ids, p->types, p->starts, n, p->skip };
    rc = r->run(r->arg, &eb, p->out, err);
    for (size_t i = 0; !rc && i < n; i++)
        memcpy(rows + which[i] * r->width, p->out + i * r->width, r->width * sizeof(*rows));
    return rc;
}

/* Each text of a batch that failed, alone. */
static void run_singly(struct batch *b, const struct batch_runner *r, const uint32_t *which,
                       size_t n, struct packed *p, float *rows)
{
    for (size_t i = 0; i < n; i++) {
        struct err err = { 0 };

        if (run_items(b, r, which + i, 1, p, rows, &err))
            b->items[which[i]].why = xstrdup(err.msg[0] ? err.msg : "the engine failed");
    }
}

static enum rc check_any(const struct batch *b, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!b->items[b->order[i]].why)
            return RC_OK;
    if (n < 2)
        return RC_OK; /* one text alone says nothing of the others */
    return err_set(err, RC_FAIL, "no text could be run: %s", b->items[b->order[0]].why);
}

enum rc batch_run(struct batch *b, const struct batch_runner *r, float *rows, struct err *err)
{
    size_t budget = r->budget ? r->budget : BATCH_TOKENS_DEFAULT, n = sort_items(b), count, tokens;
    struct packed p = { 0 };

    assert(r->width > 0 && budget <= BATCH_TOKENS_MAX);
    for (size_t from = 0; from < n; from += count) {
        struct err why = { 0 };

        count = take_fitting(b, from, n, budget, &tokens);
        packed_reserve(&p, tokens, count, r->width);
        if (!run_items(b, r, b->order + from, count, &p, rows, &why))
            continue;
        if (count > 1)
            run_singly(b, r, b->order + from, count, &p, rows);
        else
            b->items[b->order[from]].why = xstrdup(why.msg[0] ? why.msg : "the engine failed");
    }
    free(p.ids);
    free(p.types);
    free(p.starts);
    free(p.skip);
    free(p.out);
    for (size_t i = 0; i < b->count; i++)
        for (size_t k = 0; b->items[i].why && k < r->width; k++)
            rows[i * r->width + k] = NAN;
    return check_any(b, n, err);
}

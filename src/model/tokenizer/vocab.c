/* SPDX-License-Identifier: MIT */
/* vocab: texts lie one behind the other in units of VOCAB_UNIT bytes, found by id through an array
 * and by text through open addressing with the upper half of the hash beside each slot, so that a
 * look-up that misses touches one line.  vocab_int.h has the layout. */
#include "model/tokenizer/vocab_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

enum {
    HEADROOM = 512,   /* units and ids beyond those asked for */
    ID_BYTES = 16,    /* about what an entry takes in a file */
    PROBES_MAX = 1024 /* slots looked at for one entry; a fair file needs some dozens */
};

/* ---- entries ---- */
void vocab_release(struct vocab *v)
{
    free(v->units);
    free(v->at);
    *v = (struct vocab){ 0 };
}

void vocab_reserve(struct vocab *v, size_t bytes)
{
    assert(!v->units && !v->at);
    v->used = 1;
    v->cap = bytes / VOCAB_UNIT * 2 + HEADROOM;
    v->units = xlarge(v->cap * VOCAB_UNIT);
    v->at_cap = bytes / ID_BYTES + HEADROOM;
    v->at = xcalloc(v->at_cap, sizeof(*v->at));
}

void vocab_grow(struct vocab *v, size_t units)
{
    if (!v->used)
        v->used = 1;
    assert(v->used + units <= UINT32_MAX); /* TOK_FILE_MAX bounds it */
    v->cap = (v->used + units) * 2 + HEADROOM;
    v->units = xreallocarray(v->units, v->cap, VOCAB_UNIT);
}

void vocab_ids(struct vocab *v, uint32_t id)
{
    size_t cap = v->at_cap ? v->at_cap : HEADROOM;

    while (cap <= id)
        cap *= 2;
    v->at = xreallocarray(v->at, cap, sizeof(*v->at));
    memset(v->at + v->at_cap, 0, (cap - v->at_cap) * sizeof(*v->at));
    v->at_cap = cap;
}

/* ---- the table ---- */
void vocab_table_init(struct vocab_table *t, size_t count, uint32_t skip)
{
    size_t size = 16;

    while (size < count * 2)
        size *= 2;
    t->slots = xlarge(size * sizeof(*t->slots));
    memset(t->slots, 0, size * sizeof(*t->slots));
    t->mask = size - 1;
    t->skip = skip;
}

void vocab_table_release(struct vocab_table *t)
{
    free(t->slots);
    *t = (struct vocab_table){ 0 };
}

static bool same_entry(const struct vocab_fill *f, uint32_t a, uint32_t b)
{
    const struct vocab_entry *x = vocab_at(f->v, a), *y = vocab_at(f->v, b);

    return x->len == y->len && !memcmp(x->text, y->text, x->len);
}

static void put_entry(struct vocab_fill *f, uint64_t hash, uint32_t unit)
{
    struct vocab_slot new = { (uint32_t)(hash >> 32), unit };

    for (uint64_t i = hash; i - hash < PROBES_MAX; i++) {
        struct vocab_slot *slot = &f->t->slots[i & f->t->mask];

        if (!slot->unit || (slot->tag == new.tag &&same_entry(f, slot->unit, unit))) {
            *slot = new;
            return;
        }
    }
    f->crowded = true;
}

/* A slot is anywhere in a table of megabytes: it is asked for some entries ahead. */
void vocab_fill_add(struct vocab_fill *f, uint64_t hash, uint32_t unit)
{
    size_t k = f->n % VOCAB_AHEAD;

    if (f->crowded)
        return;
    f->n++;
    __builtin_prefetch(&f->t->slots[hash & f->t->mask], 1);
    if (f->n > VOCAB_AHEAD)
        put_entry(f, f->queue[k].hash, f->queue[k].unit);
    f->queue[k].hash = hash;
    f->queue[k].unit = unit;
}

bool vocab_fill_end(struct vocab_fill *f)
{
    size_t first = f->n > VOCAB_AHEAD ? f->n - VOCAB_AHEAD : 0;

    for (size_t i = first; i < f->n && !f->crowded; i++)
        put_entry(f, f->queue[i % VOCAB_AHEAD].hash, f->queue[i % VOCAB_AHEAD].unit);
    f->n = 0;
    return !f->crowded;
}

/* SPDX-License-Identifier: MIT */
/* row_cache: see row_cache_int.h.
 *
 * A shard is a table of chains and a list by last use, under one lock that is held for a
 * look-up and the copy of one row.  What a row costs is counted with its key and its
 * bookkeeping, so that the bound holds for short texts too. */
#include "serve/sched/row_cache_int.h"

#include "base/mem.h"

#include <assert.h>
#include <pthread.h>

enum {
    ROW_BYTES_GUESS = 2048, /* for the size of a table */
    ROW_OVERHEAD = 32       /* of the allocator, and the row's part of the table */
};

struct cache_row {
    struct cache_row *chain;         /* the same place in the table */
    struct cache_row *newer, *older; /* by last use */
    uint64_t hash[2], model;
    uint32_t want, tokens, skip, width;
    bool typed;
    uint32_t words[]; /* [tokens] ids, [width] floats, then types if typed */
};

struct shard {
    pthread_mutex_t lock;
    struct cache_row **chains; /* [mask + 1] */
    size_t mask;
    struct cache_row *newest, *oldest;
    uint64_t bytes, bytes_max, rows, evictions;
};

struct cache {
    size_t count;
    struct shard shards[CACHE_SHARDS_MAX];
};

static_assert(sizeof(float) == sizeof(uint32_t), "a row's numbers stand behind its ids");

static float *row_numbers(struct cache_row *r)
{
    return (float *)(void *)(r->words + r->tokens);
}

static uint8_t *row_types(struct cache_row *r)
{
    return (uint8_t *)(void *)(r->words + r->tokens + r->width);
}

static size_t row_size(uint32_t tokens, size_t width, bool typed)
{
    return sizeof(struct cache_row) + (tokens + width) * sizeof(uint32_t) + (typed ? tokens : 0);
}

/* ---- making */

static void shard_init(struct shard *s, uint64_t bytes)
{
    size_t chains = 16;

    while (chains < CACHE_CHAINS_MAX && chains < bytes / ROW_BYTES_GUESS)
        chains *= 2;
    pthread_mutex_init(&s->lock, NULL);
    s->chains = xcalloc(chains, sizeof(struct cache_row *));
    s->mask = chains - 1;
    s->bytes_max = bytes;
}

struct cache *cache_new(uint64_t bytes)
{
    struct cache *c = xcalloc(1, sizeof(*c));
    uint64_t shards = bytes / CACHE_SHARD_BYTES_MIN;

    c->count = shards < 1 ? 1 : shards > CACHE_SHARDS_MAX ? CACHE_SHARDS_MAX : (size_t)shards;
    for (size_t i = 0; i < c->count; i++)
        shard_init(&c->shards[i], bytes / c->count);
    return c;
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        struct shard *s = &c->shards[i];
        for (struct cache_row *r = s->newest, *older; r; r = older) {
            older = r->older;
            free(r);
        }
        free(s->chains);
        pthread_mutex_destroy(&s->lock);
    }
    free(c);
}

/* ---- one shard, its lock held */

static struct shard *shard_of(struct cache *c, const struct cache_key *k)
{
    return &c->shards[k->hash[1] % c->count];
}

static bool same_key(struct cache_row *r, const struct cache_key *k)
{
    return r->hash[0] == k->hash[0] && r->hash[1] == k->hash[1] && r->model == k->model &&
           r->want == k->want && r->tokens == k->tokens && r->skip == k->skip &&
           r->typed == (k->types != NULL) &&
           !memcmp(r->words, k->ids, k->tokens * sizeof(*k->ids)) &&
           (!r->typed || !memcmp(row_types(r), k->types, k->tokens));
}

static struct cache_row *find_row(struct shard *s, const struct cache_key *k)
{
    struct cache_row *r = s->chains[k->hash[0] & s->mask];

    while (r && !same_key(r, k))
        r = r->chain;
    return r;
}

static void unlink_use(struct shard *s, struct cache_row *r)
{
    *(r->newer ? &r->newer->older : &s->newest) = r->older;
    *(r->older ? &r->older->newer : &s->oldest) = r->newer;
}

static void link_newest(struct shard *s, struct cache_row *r)
{
    r->newer = NULL;
    r->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = r;
    s->newest = r;
}

static uint64_t row_cost(const struct cache_row *r)
{
    return row_size(r->tokens, r->width, r->typed) + ROW_OVERHEAD;
}

static void evict_row(struct shard *s)
{
    struct cache_row *r = s->oldest, **at = &s->chains[r->hash[0] & s->mask];

    while (*at != r)
        at = &(*at)->chain;
    *at = r->chain;
    unlink_use(s, r);
    s->bytes -= row_cost(r);
    s->rows--;
    s->evictions++;
    free(r);
}

static size_t insert_row(struct shard *s, struct cache_row *r)
{
    struct cache_row **at = &s->chains[r->hash[0] & s->mask];
    size_t evicted = 0;

    for (; s->oldest && s->bytes + row_cost(r) > s->bytes_max; evicted++)
        evict_row(s);
    r->chain = *at;
    *at = r;
    link_newest(s, r);
    s->bytes += row_cost(r);
    s->rows++;
    return evicted;
}

/* ---- from outside */

bool cache_get(struct cache *c, const struct cache_key *k, float *out, size_t width)
{
    struct shard *s = shard_of(c, k);

    pthread_mutex_lock(&s->lock);
    struct cache_row *r = find_row(s, k);
    bool found = r && r->width == width;
    if (found) {
        memcpy(out, row_numbers(r), width * sizeof(*out));
        unlink_use(s, r);
        link_newest(s, r);
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static struct cache_row *row_new(const struct cache_key *k, const float *numbers, size_t width)
{
    struct cache_row *r = xmalloc(row_size(k->tokens, width, k->types != NULL));

    *r = (struct cache_row){ .hash = { k->hash[0], k->hash[1] },
                             .model = k->model,
                             .want = k->want,
                             .tokens = k->tokens,
                             .skip = k->skip,
                             .width = (uint32_t)width,
                             .typed = k->types != NULL };
    memcpy(r->words, k->ids, k->tokens * sizeof(*k->ids));
    memcpy(row_numbers(r), numbers, width * sizeof(*numbers));
    if (r->typed)
        memcpy(row_types(r), k->types, k->tokens);
    return r;
}

size_t cache_put(struct cache *c, const struct cache_key *k, const float *row, size_t width)
{
    struct shard *s = shard_of(c, k);
    size_t evicted = 0;

    if (row_size(k->tokens, width, k->types != NULL) + ROW_OVERHEAD > s->bytes_max)
        return 0;
    struct cache_row *r = row_new(k, row, width); /* outside the lock: the copy takes longest */
    pthread_mutex_lock(&s->lock);
    bool there = find_row(s, k) != NULL;
    if (!there)
        evicted = insert_row(s, r);
    pthread_mutex_unlock(&s->lock);
    if (there)
        free(r);
    return evicted;
}

struct cache_stats cache_stats(struct cache *c)
{
    struct cache_stats all = { 0 };

    for (size_t i = 0; i < c->count; i++) {
        struct shard *s = &c->shards[i];
        pthread_mutex_lock(&s->lock);
        all.bytes += s->bytes;
        all.rows += s->rows;
        all.evictions += s->evictions;
        pthread_mutex_unlock(&s->lock);
    }
    return all;
}

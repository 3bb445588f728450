/* SPDX-License-Identifier: MIT */
/* row_cache: rows that were computed, within a bound of bytes.
 *
 * A row is found by what it was computed from: the model's version, what was wanted and every
 * token; the hash only says where to look.  Full, it forgets what was used longest ago.  Any
 * thread may call at any time; shards keep them out of each other's way. */
#ifndef SERVE_SCHED_ROW_CACHE_INT_H
#define SERVE_SCHED_ROW_CACHE_INT_H
#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CACHE_SHARDS_MAX = 16,
    CACHE_SHARD_BYTES_MIN = 1 << 20, /* fewer shards rather than smaller ones */
    CACHE_CHAINS_MAX = 1 << 20       /* of a shard */
};

struct cache_key {
    uint64_t hash[2]; /* of all that follows */
    uint64_t model;   /* served.key */
    uint32_t want;    /* enum eng_want */
    uint32_t tokens;
    uint32_t skip; /* of them left out of the pooling */
    const uint32_t *ids;
    const uint8_t *types; /* NULL: all 0; never an array of zeros */
};

struct cache_stats {
    uint64_t bytes, rows, evictions;
};

struct cache;
struct cache *cache_new(uint64_t bytes);
void cache_free(struct cache *c); /* NULL is fine */
/* Copies the row; false: it is not there, or has another width. */
bool cache_get(struct cache *c, const struct cache_key *k, float *out, size_t width);
/* Returns how many others it had to forget. */
size_t cache_put(struct cache *c, const struct cache_key *k, const float *row, size_t width);
struct cache_stats cache_stats(struct cache *c);

#endif

/* SPDX-License-Identifier: MIT */
/* Rows come back as they were put, by the whole key and not by its hash; the bound holds. */
#include "test.h"

#include "base/mem.h"
#include "serve/sched/row_cache_int.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WIDTH = 8, IDS = 16 };

static struct cache_key key_of(const uint32_t *ids, uint32_t tokens, uint64_t hash)
{
    return (struct cache_key){
        .hash = { hash, hash }, .model = 1, .want = 0, .tokens = tokens, .ids = ids
    };
}

static void row_of(uint32_t seed, float *out)
{
    for (size_t i = 0; i < WIDTH; i++)
        out[i] = (float)seed + (float)i;
}

TEST(a_row_comes_back)
{
    struct cache *c = cache_new(1 << 20);
    uint32_t ids[IDS] = { 7, 8, 9 };
    float row[WIDTH], got[WIDTH] = { 0 };
    struct cache_key k = key_of(ids, 3, 42);

    row_of(5, row);
    CHECK(!cache_get(c, &k, got, WIDTH));
    CHECK(cache_put(c, &k, row, WIDTH) == 0);
    CHECK(cache_get(c, &k, got, WIDTH));
    CHECK(!memcmp(row, got, sizeof(row)));
    CHECK(!cache_get(c, &k, got, WIDTH - 1));
    CHECK(cache_put(c, &k, row, WIDTH) == 0); /* twice is once */
    CHECK(cache_stats(c).rows == 1);
    cache_free(c);
    cache_free(NULL);
}

/* Every key has one hash: what is compared is the key. */
TEST(one_hash_many_keys)
{
    struct cache *c = cache_new(1 << 20);
    uint32_t ids[64][IDS];
    uint8_t types[2][IDS] = { { 0, 1 }, { 0, 0, 1 } };
    float row[WIDTH], got[WIDTH];

    for (uint32_t i = 0; i < 64; i++) {
        for (uint32_t k = 0; k < IDS; k++)
            ids[i][k] = k < 4 ? 1 : i;
        for (uint32_t v = 0; v < 12; v++) {
            struct cache_key k = key_of(ids[i], IDS - v % 3, 99);
            k.model = 1 + v / 3 % 2;
            k.want = v / 6;
            k.types = v % 5 < 2 ? types[v % 5] : NULL;
            row_of(i * 100 + v, row);
            (void)cache_put(c, &k, row, WIDTH);
        }
    }
    CHECK(cache_stats(c).rows == 64 * 12);
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t v = 0; v < 12; v++) {
            struct cache_key k = key_of(ids[i], IDS - v % 3, 99);
            k.model = 1 + v / 3 % 2;
            k.want = v / 6;
            k.types = v % 5 < 2 ? types[v % 5] : NULL;
            row_of(i * 100 + v, row);
            CHECK(cache_get(c, &k, got, WIDTH));
            CHECK(!memcmp(row, got, sizeof(row)));
            k.model = 3; /* another version */
            CHECK(!cache_get(c, &k, got, WIDTH));
        }
    cache_free(c);
}

TEST(the_bound_holds_and_the_oldest_leave)
{
    const uint64_t bytes = 20000;
    struct cache *c = cache_new(bytes);
    uint32_t kept[IDS] = { 1000000 };
    float row[WIDTH], got[WIDTH];
    struct cache_key keep = key_of(kept, IDS, 1);
    size_t evicted = 0;

    row_of(77, row);
    evicted += cache_put(c, &keep, row, WIDTH);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t ids[IDS] = { i };
        struct cache_key k = key_of(ids, IDS, i * UINT64_C(0x9e3779b97f4a7c15));
        row_of(i, row);
        evicted += cache_put(c, &k, row, WIDTH);
        CHECK(cache_stats(c).bytes <= bytes);
        CHECK(cache_get(c, &keep, got, WIDTH)); /* in use: it stays */
        CHECK(cache_get(c, &k, got, WIDTH) && !memcmp(row, got, sizeof(row)));
    }
    CHECK(evicted == cache_stats(c).evictions);
    CHECK(cache_stats(c).rows + evicted == 2001);
    CHECK(cache_stats(c).bytes > bytes / 2);
    cache_free(c);
    c = cache_new(64); /* too small for anything */
    CHECK(cache_put(c, &keep, row, WIDTH) == 0);
    CHECK(!cache_get(c, &keep, got, WIDTH));
    CHECK(cache_stats(c).bytes == 0);
    cache_free(c);
}

static struct cache *shared;
static _Atomic int wrong;

static void *hammer(void *arg)
{
    uint32_t x = (uint32_t)(uintptr_t)arg * 7919u + 1;

    for (int i = 0; i < 20000; i++) {
        x = x * 1664525u + 1013904223u;
        uint32_t seed = (x >> 8) % 500, ids[IDS] = { seed };
        struct cache_key k = key_of(ids, 1 + seed % IDS, seed % 7);
        float row[WIDTH], got[WIDTH];
        row_of(seed, row);
        if (cache_get(shared, &k, got, WIDTH))
            wrong += memcmp(row, got, sizeof(row)) != 0;
        else
            (void)cache_put(shared, &k, row, WIDTH);
    }
    return NULL;
}

TEST(threads)
{
    pthread_t t[4];

    shared = cache_new(3 << 20);
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, hammer, (void *)i) == 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CHECK(wrong == 0);
    cache_free(shared);
}

TEST_MAIN(cmocka_unit_test(a_row_comes_back), cmocka_unit_test(one_hash_many_keys),
          cmocka_unit_test(the_bound_holds_and_the_oldest_leave), cmocka_unit_test(threads))

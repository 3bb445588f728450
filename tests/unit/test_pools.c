/* SPDX-License-Identifier: MIT */
/* pools and settings: who leaves for whom, what a refusal says, how a model comes back, and
 * which row of data/serve.csv a device and a model get. */
#include "models_fixture.h"

#include "serve/models/manager_int.h"

enum { MIB = 1 << 20 };

/* A model that counts as so many MiB. */
static enum rc load(struct models *m, const char *name, const char *dir, struct serve_model o,
                    struct err *err)
{
    o.name = name;
    o.dir = dir;
    o.threads = 1;
    o.memory_bytes = o.memory_bytes ? o.memory_bytes : 10 * MIB;
    *err = (struct err){ 0 };
    return models_load(m, &o, true, err);
}

static const char *state_of(struct models *m, const char *name)
{
    return fix_json(m, models_json, name, "state");
}

/* Waits until it is back. */
static enum models_got come_back(struct models *m, const char *name, struct err *err)
{
    struct served *s = NULL;
    enum models_got got;

    *err = (struct err){ 0 };
    got = fix_wait(m, name, REQUEST_VECTORS, 0, &s, err);
    if (got == MODELS_READY)
        served_release(s);
    return got;
}

/* ---- leaving */

TEST(least_recently_used_leaves)
{
    static const struct serve_pool pools[] = { { "p", 35 * MIB, MODELS_MEDIUM } };
    char *dir = fix_model(1);
    struct metrics *metrics = metrics_new();
    struct models *m =
        fix_models(&(struct manager_opts){ .pools = pools, .pool_count = 1, .metrics = metrics });
    struct serve_model o = { .pool = "p", .priority = MODELS_MEDIUM };
    struct buf text = { 0 };
    struct err err;

    assert_int_equal(load(m, "a", dir, o, &err), RC_OK);
    assert_int_equal(load(m, "b", dir, o, &err), RC_OK);
    assert_int_equal(load(m, "c", dir, o, &err), RC_OK);
    assert_int_equal(fix_ask(m, "a", REQUEST_VECTORS, &err), MODELS_READY); /* b is the oldest */
    assert_int_equal(load(m, "d", dir, o, &err), RC_OK);
    assert_string_equal(state_of(m, "a"), "ready");
    assert_string_equal(state_of(m, "b"), "away");
    assert_string_equal(state_of(m, "c"), "ready");
    CHECK(models_all_ready(m)); /* each was, once */
    assert_int_equal(fix_used(m, "p"), 30 * MIB);
    metrics_write(metrics, &text);
    CHECK(strstr(buf_str(&text), "stoker_pool_bytes{pool=\"p\",state=\"used\"} 31457280\n"));
    CHECK(strstr(buf_str(&text), "stoker_pool_bytes{pool=\"p\",state=\"free\"} 5242880\n"));
    CHECK(strstr(buf_str(&text), "stoker_pool_bytes{pool=\"p\",state=\"largest_free\"} 5242880\n"));
    CHECK(strstr(buf_str(&text), "stoker_model_evictions_total{model=\"b\"} 1\n"));
    CHECK(strstr(buf_str(&text), "stoker_model_state{model=\"b\",state=\"away\"} 1\n"));
    CHECK(strstr(buf_str(&text), "stoker_model_bytes{model=\"b\"} 0\n"));
    CHECK(strstr(buf_str(&text), "stoker_model_bytes{model=\"a\"} 10485760\n"));
    buf_release(&text);

    /* its next request brings it back, and c goes */
    assert_int_equal(fix_ask(m, "b", REQUEST_VECTORS, &err), MODELS_LOADING);
    assert_int_equal(come_back(m, "b", &err), MODELS_READY);
    assert_string_equal(state_of(m, "c"), "away");
    assert_string_equal(fix_json(m, models_json, "b", "version"), "1");
    models_free(m);
    metrics_free(metrics);
    box_remove(dir);
}

TEST(priority_and_pins_are_kept)
{
    static const struct serve_pool pools[] = { { "p", 35 * MIB, MODELS_MEDIUM } };
    char *dir = fix_model(1);
    struct models *m = fix_models(&(struct manager_opts){ .pools = pools, .pool_count = 1 });
    struct serve_model low = { .pool = "p", .priority = MODELS_LOW };
    struct serve_model mid = { .pool = "p", .priority = MODELS_MEDIUM };
    struct serve_model high = { .pool = "p", .priority = MODELS_HIGH };
    struct serve_model pin = { .pool = "p", .priority = MODELS_LOW, .pinned = true };
    struct err err;

    assert_int_equal(load(m, "pinned", dir, pin, &err), RC_OK);
    assert_int_equal(load(m, "high", dir, high, &err), RC_OK);
    assert_int_equal(load(m, "low", dir, low, &err), RC_OK);
    assert_int_equal(fix_ask(m, "low", REQUEST_VECTORS, &err), MODELS_READY);
    /* used last, but of the lowest priority */
    assert_int_equal(load(m, "mid", dir, mid, &err), RC_OK);
    assert_string_equal(state_of(m, "low"), "away");
    assert_string_equal(state_of(m, "high"), "ready");
    assert_string_equal(state_of(m, "pinned"), "ready");

    /* low may push nobody out; it stays away, says why, and nobody left in vain */
    assert_int_equal(come_back(m, "low", &err), MODELS_FAILED);
    assert_int_equal(err.code, RC_LIMIT);
    assert_string_equal(err.msg,
                        "model 'low': pool 'p' has no room: 10 MiB (10485760 bytes) asked, 5 "
                        "MiB (5242880 bytes) of 35 MiB free; held by 'mid' (10 MiB, of higher "
                        "priority), 'high' (10 MiB, of higher priority), 'pinned' (10 MiB, "
                        "pinned)");
    assert_string_equal(state_of(m, "low"), "away");
    assert_string_equal(fix_json(m, models_json, "low", "error"), err.msg);
    /* when there is room it comes back, though not at once */
    assert_int_equal(models_unload(m, "mid", &err), RC_OK);
    for (int i = 0; i < 300 && come_back(m, "low", &err) != MODELS_READY; i++)
        usleep(10000);
    assert_string_equal(state_of(m, "low"), "ready");
    assert_string_equal(fix_json(m, models_json, "low", "error"), "");
    models_free(m);
    box_remove(dir);
}

static void *release_later(void *arg)
{
    usleep(30000);
    served_release(arg);
    return NULL;
}

TEST(what_is_in_use_is_waited_for)
{
    static const struct serve_pool pools[] = { { "p", 15 * MIB, MODELS_MEDIUM } };
    char *dir = fix_model(1);
    struct models *m = fix_models(&(struct manager_opts){ .pools = pools, .pool_count = 1 });
    struct serve_model o = { .pool = "p", .priority = MODELS_MEDIUM };
    struct err err;
    pthread_t id;

    /* in use when the other wants to come */
    assert_int_equal(load(m, "a", dir, o, &err), RC_OK);
    struct served *s = fix_get(m, "a");
    CHECK(pthread_create(&id, NULL, release_later, s) == 0);
    assert_int_equal(load(m, "b", dir, o, &err), RC_OK);
    (void)pthread_join(id, NULL);
    assert_string_equal(state_of(m, "a"), "away");

    /* unloaded and in use still */
    s = fix_get(m, "b");
    assert_int_equal(models_unload(m, "b", &err), RC_OK);
    CHECK(pthread_create(&id, NULL, release_later, s) == 0);
    assert_int_equal(come_back(m, "a", &err), MODELS_READY);
    (void)pthread_join(id, NULL);
    models_free(m);
    box_remove(dir);
}

/* ---- refusing */

TEST(refusals_say_who_has_it)
{
    static const struct serve_pool pools[] = { { "p", 30 * MIB, MODELS_LOW } };
    char *dir = fix_model(1);
    struct models *m = fix_models(&(struct manager_opts){ .pools = pools, .pool_count = 1 });
    struct serve_model o = { .pool = "p", .priority = MODELS_MEDIUM };
    struct serve_model big = { .pool = "p", .priority = MODELS_HIGH, .memory_bytes = 64 * MIB };
    struct serve_model fits = { .pool = "p", .priority = MODELS_HIGH, .memory_bytes = 21 * MIB };
    struct err err;

    assert_int_equal(load(m, "big", dir, big, &err), RC_LIMIT);
    assert_string_equal(err.msg,
                        "model 'big': pool 'p' has no room: 64 MiB (67108864 bytes) asked, 30 "
                        "MiB (31457280 bytes) of 30 MiB free; held by no model");
    assert_int_equal(fix_ask(m, "big", REQUEST_VECTORS, &err), MODELS_FAILED);
    assert_int_equal(err.code, RC_LIMIT);
    assert_int_equal(models_unload(m, "big", &err), RC_OK);

    /* a swap needs room for both; the old one is never the one that leaves */
    assert_int_equal(load(m, "a", dir, o, &err), RC_OK);
    assert_int_equal(load(m, "a", dir, fits, &err), RC_LIMIT);
    assert_string_equal(err.msg,
                        "model 'a': pool 'p' has no room: 21 MiB (22020096 bytes) asked, 20 "
                        "MiB (20971520 bytes) of 30 MiB free; held by 'a' (10 MiB, the "
                        "version it would replace)");
    CHECK(str_starts(err.hint, "The old version stays until"));
    assert_string_equal(state_of(m, "a"), "ready");

    /* counted, not told */
    struct serve_model counted = { .name = "t", .dir = dir, .threads = 1, .dtype = ENG_F32 };
    assert_int_equal(models_load(m, &counted, true, &err), RC_OK);
    struct served *s = fix_get(m, "t");
    struct eng_opts eo = { .dtype = ENG_F32, .threads = 1 };
    CHECK(s->bytes > eng_cpu.memory(s->model, &eo) + 4 * 3433);
    CHECK(s->bytes < eng_cpu.memory(s->model, &eo) + 4 * MIB);
    assert_int_equal(fix_used(m, "default"), s->bytes);
    served_release(s);
    models_free(m);
    box_remove(dir);
}

TEST(the_machine_is_shared_by_all_pools)
{
    static const struct serve_pool pools[] = { { "low", 0, MODELS_LOW },
                                               { "high", 100 * MIB, MODELS_HIGH } };
    char *dir = fix_model(1);
    struct models *m = fix_models(
        &(struct manager_opts){ .pools = pools, .pool_count = 2, .memory_bytes = 25 * MIB });
    struct serve_model low = { .pool = "low", .priority = MODELS_HIGH };
    struct serve_model high = { .pool = "high", .priority = MODELS_LOW };
    struct err err;

    assert_string_equal(fix_json(m, pools_json, "low", "bytes"), "26214400");
    assert_int_equal(load(m, "a", dir, low, &err), RC_OK);
    assert_int_equal(load(m, "b", dir, low, &err), RC_OK);
    /* the pool has room, the machine has not: those of the lower pool leave */
    assert_int_equal(load(m, "c", dir, high, &err), RC_OK);
    assert_string_equal(state_of(m, "a"), "away");
    assert_int_equal(load(m, "d", dir, high, &err), RC_OK);
    assert_string_equal(state_of(m, "b"), "away");
    assert_int_equal(come_back(m, "a", &err), MODELS_FAILED);
    assert_string_equal(err.msg,
                        "model 'a': the machine has no room: 10 MiB (10485760 bytes) asked, 5 "
                        "MiB (5242880 bytes) free; held by 'd' (10 MiB, of higher priority), "
                        "'c' (10 MiB, of higher priority)");
    models_free(m);
    box_remove(dir);
}

TEST(pools_that_cannot_be)
{
    static const struct serve_pool twice[] = { { "p", MIB, MODELS_LOW }, { "p", MIB, MODELS_LOW } };
    static const struct serve_pool empty[] = { { "", MIB, MODELS_LOW } };
    static const struct serve_pool own[] = { { "default", 3 * MIB, MODELS_HIGH } };
    struct models *m = NULL;
    struct err err = { 0 };

    CHECK(models_new(&(struct manager_opts){ .pools = twice, .pool_count = 2 }, &m, &err) ==
          RC_USAGE);
    assert_string_equal(err.msg, "there are two pools 'p'");
    CHECK(models_new(&(struct manager_opts){ .pools = empty, .pool_count = 1 }, &m, NULL) ==
          RC_USAGE);
    CHECK(models_new(&(struct manager_opts){ .pools = empty, .pool_count = 65 }, &m, NULL) ==
          RC_LIMIT);
    CHECK(m == NULL);
    m = fix_models(&(struct manager_opts){ .pools = own, .pool_count = 1 });
    assert_string_equal(fix_json(m, pools_json, "default", "bytes"), "3145728");
    assert_string_equal(fix_json(m, pools_json, "default", "priority"), "high");
    models_free(m);
    m = fix_models(NULL); /* what the machine has */
    uint64_t bytes = 0;
    CHECK(str_to_u64(fix_json(m, pools_json, "default", "bytes"), 10, &bytes));
    CHECK(bytes > 16 * MIB && bytes < (uint64_t)1 << 50);
    models_free(m);
}

/* A machine's files in a new folder, and what may be taken there. */
static uint64_t machine(const char *meminfo, const char *own, const char *max, const char *stat)
{
    char name[] = "/tmp/stoker-machine-XXXXXX", path[BOX_PATH_MAX];
    char *root = xstrdup(mkdtemp(name) ? name : "");

    box_path(path, root, "proc/self");
    CHECK(file_make_dirs(path, NULL) == RC_OK);
    box_path(path, root, "sys/fs/cgroup/a/b");
    CHECK(file_make_dirs(path, NULL) == RC_OK);
    box_put(root, "proc/meminfo", meminfo);
    box_put(root, "proc/self/cgroup", own);
    box_put(root, "sys/fs/cgroup/a/memory.max", max);
    box_put(root, "sys/fs/cgroup/a/memory.current", "4000000000\n");
    box_put(root, "sys/fs/cgroup/a/memory.stat", stat);
    box_put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    box_path(path, root, "sys/fs/cgroup/memory/old");
    CHECK(file_make_dirs(path, NULL) == RC_OK);
    box_put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    box_put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    box_put(root, "sys/fs/cgroup/memory/old/memory.limit_in_bytes", "2000000000\n");
    box_put(root, "sys/fs/cgroup/memory/old/memory.usage_in_bytes", "1000000000\n");
    box_put(root, "sys/fs/cgroup/memory/old/memory.stat",
            "inactive_file 1\ntotal_inactive_file 200000000\n");
    uint64_t bytes = pools_machine_bytes(root);
    box_remove(root);
    return bytes;
}

TEST(the_machines_memory)
{
    static const char mem[] = "MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable:  8000000 kB\n";
    static const char cache[] = "anon 5\ninactive_file 1500000000\nactive_file 500000000\n";
    const uint64_t reserve = 512 * MIB;

    CHECK(machine(mem, "0::/\n", "5000000000\n", "") == 8192000000 - reserve);
    /* a group above ours has the limit; its page cache does not count */
    CHECK(machine(mem, "0::/a/b\n", "5000000000\n", "") == 1000000000 / 8 * 7);
    CHECK(machine(mem, "0::/a/b\n", "5000000000\n", cache) == 3000000000 / 8 * 7);
    CHECK(machine(mem, "0::/a/b\n", "3000000000\n", "") == 0);
    CHECK(machine(mem, "4:memory:/old\n0::/\n", "", "") == 1200000000 / 8 * 7);
    CHECK(machine(mem, "4:memory:/hidden\n0::/\n", "", "") == 8192000000 - reserve);
    CHECK(machine(mem, "0::/a/b\n", "max\n", "") == 8192000000 - reserve);
    CHECK(machine(mem, "0::/a/b\n", "", "") == 8192000000 - reserve);
    CHECK(machine("MemTotal: 16000000 kB\n", "", "", "") > (uint64_t)1 << 60); /* unknown */
    CHECK(machine("MemAvailable: 99999999999999999999 kB\n", "", "", "") > (uint64_t)1 << 60);
}

/* ---- leaving and coming back */

TEST(comes_back_the_same_or_new)
{
    static const struct serve_pool pools[] = { { "p", 15 * MIB, MODELS_MEDIUM } };
    char *one = fix_model(1), *two = fix_model(2);
    struct models *m = fix_models(&(struct manager_opts){ .pools = pools, .pool_count = 1 });
    struct serve_model o = { .pool = "p", .priority = MODELS_MEDIUM };
    struct err err;
    float before[32], after[32];

    assert_int_equal(load(m, "a", one, o, &err), RC_OK);
    struct served *s = fix_get(m, "a");
    uint64_t key = s->key;
    assert_int_equal(fix_run(s, before, &err), RC_OK);
    served_release(s);
    assert_int_equal(load(m, "b", two, o, &err), RC_OK);
    assert_int_equal(come_back(m, "a", &err), MODELS_READY);
    s = fix_get(m, "a");
    CHECK(s->key == key && s->version == 1); /* caches hold what is right */
    assert_int_equal(fix_run(s, after, &err), RC_OK);
    assert_memory_equal(before, after, sizeof(before));
    served_release(s);

    /* other weights came while it was away: nobody asked for them until there is a load */
    assert_int_equal(come_back(m, "b", &err), MODELS_READY);
    fix_copy(two, one, "model.safetensors");
    err = (struct err){ 0 };
    assert_int_equal(come_back(m, "a", &err), MODELS_CHANGED);
    CHECK(strstr(err.msg, "model 'a'") && strstr(err.msg, "file 'model.safetensors'"));
    assert_string_equal(state_of(m, "b"), "ready"); /* nobody left in vain */
    assert_int_equal(load(m, "a", one, o, &err), RC_OK);
    s = fix_get(m, "a");
    CHECK(s->key != key && s->version == 2);
    served_release(s);

    /* broken ones came: it says so, and is back when they are mended */
    assert_int_equal(come_back(m, "b", &err), MODELS_READY);
    char path[BOX_PATH_MAX];
    box_path(path, one, "config.json");
    CHECK(truncate(path, 3) == 0);
    err = (struct err){ 0 };
    assert_int_equal(come_back(m, "a", &err), MODELS_CHANGED);
    CHECK(strstr(err.msg, "config.json"));
    assert_string_equal(state_of(m, "a"), "away");
    fix_copy(two, one, "config.json");
    for (int i = 0; i < 300 && come_back(m, "a", &err) != MODELS_READY; i++)
        usleep(10000);
    assert_string_equal(state_of(m, "a"), "ready");
    models_free(m);
    box_remove(one);
    box_remove(two);
}

/* Two models take turns in a pool for one while threads ask for both. */
enum { TAKERS = 4, TURNS = 50 };
struct takers {
    struct models *m;
    _Atomic size_t bad;
};

static void *taker_main(void *arg)
{
    struct takers *t = arg;

    for (size_t i = 0; i < TURNS; i++) {
        struct served *s = NULL;
        struct err err = { 0 };
        float v[32];
        if (fix_wait(t->m, i % 2 ? "a" : "b", REQUEST_VECTORS, 0, &s, &err) != MODELS_READY) {
            t->bad++;
            continue;
        }
        t->bad += fix_run(s, v, &err) != RC_OK;
        served_release(s);
    }
    return NULL;
}

TEST(takes_turns_under_load)
{
    static const struct serve_pool pools[] = { { "p", 15 * MIB, MODELS_MEDIUM } };
    char *dir = fix_model(1);
    struct models *m = fix_models(&(struct manager_opts){ .pools = pools, .pool_count = 1 });
    struct serve_model o = { .pool = "p", .priority = MODELS_MEDIUM };
    struct takers t = { .m = m };
    pthread_t ids[TAKERS];
    struct err err;

    assert_int_equal(load(m, "a", dir, o, &err), RC_OK);
    assert_int_equal(load(m, "b", dir, o, &err), RC_OK);
    for (size_t i = 0; i < TAKERS; i++)
        CHECK(pthread_create(&ids[i], NULL, taker_main, &t) == 0);
    for (size_t i = 0; i < TAKERS; i++)
        (void)pthread_join(ids[i], NULL);
    assert_int_equal(t.bad, 0);
    models_free(m);
    box_remove(dir);
}

/* ---- settings */

TEST(settings_by_device_and_model)
{
    static const struct {
        const char *kind;
        uint64_t parameters;
        enum eng_dtype dtype;
        size_t batch_tokens;
        bool per_thread;
    } rows[] = {
        { "cpu amx", 22000000, ENG_BF16, 2048, true },
        { "cpu amx", 560000000, ENG_BF16, 512, true },
        { "cpu avx512bf16", 22000000, ENG_BF16, 2048, true },
        { "cpu avx512bf16", 110000000, ENG_BF16, 1024, true },
        { "cpu avx512bf16", 560000000, ENG_BF16, 512, true },
        { "cpu avx512vnni", 22000000, ENG_BF16, 1024, true },
        { "cpu avx512", 22000000, ENG_F32, 512, true },
        { "cpu avx2", 22000000, ENG_F32, 512, true },
        { "cpu avx2", 560000000, ENG_F32, 256, true },
        { "cpu", 22000000, ENG_F32, 512, true },
        { "ref", 22000000, ENG_F32, 512, false },
        { "NVIDIA A100-SXM4-80GB", 22000000, ENG_F16, 16384, false },
        { "NVIDIA A100-SXM4-80GB", 560000000, ENG_F16, 8192, false },
        { "NVIDIA H100 80GB HBM3", 22000000, ENG_F16, 32768, false },
        { "NVIDIA H200", 22000000, ENG_F16, 16384, false },
        { "NVIDIA H200", 560000000, ENG_F16, 8192, false },
        { "something new", 22000000, ENG_AUTO, 8192, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct model m = { .parameters = rows[i].parameters, .head_dim = 32 };
        struct arena a = { 0 };
        struct serve_setting s;
        struct err err = { 0 };

        if (settings_of(rows[i].kind, &m, &a, &s, &err))
            fail_msg("%s: %s", rows[i].kind, err.msg);
        CHECK(s.dtype == rows[i].dtype);
        assert_int_equal(s.batch_tokens, rows[i].batch_tokens);
        CHECK(s.per_thread == rows[i].per_thread);
        CHECK(strlen(s.dtype_why) > 20 && strlen(s.batch_why) > 20 && strlen(s.fallback_why) > 20);
        m.head_dim = 5;
        CHECK(settings_of(rows[i].kind, &m, &a, &s, &err) == RC_OK);
        CHECK(s.dtype == ENG_AUTO || s.dtype == ENG_F32);
        arena_release(&a);
    }
}

TEST_MAIN(cmocka_unit_test(least_recently_used_leaves),
          cmocka_unit_test(priority_and_pins_are_kept),
          cmocka_unit_test(what_is_in_use_is_waited_for), cmocka_unit_test(refusals_say_who_has_it),
          cmocka_unit_test(the_machine_is_shared_by_all_pools),
          cmocka_unit_test(pools_that_cannot_be), cmocka_unit_test(the_machines_memory),
          cmocka_unit_test(comes_back_the_same_or_new), cmocka_unit_test(takes_turns_under_load),
          cmocka_unit_test(settings_by_device_and_model))

/* SPDX-License-Identifier: MIT */
/* models: loading, names, references, swaps, reloads and what goes wrong, on tiny models and
 * the real engine. */
#include "models_fixture.h"

#include <math.h>
#include <sys/stat.h>

/* ---- one model */

TEST(loads_and_serves)
{
    char *dir = fix_model(1);
    struct models *m = fix_models(NULL);
    struct model_prompt prompts[] = { { "query", "query: " } };
    struct serve_model o = { .name = "tiny",
                             .dir = dir,
                             .aliases = { "t", "small" },
                             .alias_count = 2,
                             .dtype = ENG_F32,
                             .threads = 1,
                             .prompts = prompts,
                             .prompt_count = 1 };
    struct err err = { 0 };
    float v[32], again[32];

    CHECK(models_all_ready(m)); /* nothing was asked for */
    assert_int_equal(models_load(m, &o, true, &err), RC_OK);
    CHECK(models_all_ready(m));
    assert_int_equal(fix_wait_all(m, &err), RC_OK);
    struct served *s = fix_get(m, "tiny");
    assert_string_equal(s->name, "tiny");
    assert_string_equal(s->dtype, "f32");
    CHECK(s->normalize && !s->model->normalize);
    CHECK(s->tok && s->eng && s->device_queue == &fix_queue);
    assert_int_equal(s->version, 1);
    assert_int_equal(s->max_tokens, s->model->max_tokens < 64 ? s->model->max_tokens : 64);
    CHECK(s->batch_tokens && s->bytes > 1 << 20 && s->key && s->loaded_unix_s > 0);
    CHECK(s->settings && strstr(s->settings, "the operator chose the type"));
    assert_string_equal(s->prompts[0].text, "query: ");
    assert_int_equal(fix_run(s, v, &err), RC_OK);
    struct served *t = fix_get(m, "t");
    CHECK(s == t && fix_get(m, "tiny") == t);
    served_release(t);
    served_release(t);

    /* files that change or go after the load are nobody's business */
    char path[BOX_PATH_MAX];
    box_path(path, dir, "model.safetensors");
    CHECK(truncate(path, 100) == 0);
    CHECK(unlink(path) == 0);
    assert_int_equal(fix_run(s, again, &err), RC_OK);
    assert_memory_equal(v, again, sizeof(v));
    served_release(s);
    models_free(m);
    box_remove(dir);
}

TEST(every_fixture_loads)
{
    static const struct {
        const char *name, *kind;
    } rows[] = { { "bert", "embedding" },       { "bert-score", "reranker" },
                 { "distilbert", "embedding" }, { "mpnet", "embedding" },
                 { "xlmr", "embedding" },       { "xlmr-score", "reranker" } };
    struct models *m = fix_models(NULL);

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *dir = fix_fixture(rows[i].name);
        float out[64];
        struct err err = { 0 };

        assert_int_equal(fix_load(m, rows[i].name, dir), RC_OK);
        struct served *s = fix_get(m, rows[i].name);
        assert_int_equal(fix_run(s, out, &err), RC_OK);
        if (s->model->labels == 1 || s->model->head == MODEL_HEAD_NONE)
            assert_string_equal(fix_json(m, models_json, rows[i].name, "kind"), rows[i].kind);
        served_release(s);
        box_remove(dir);
    }
    models_free(m);
}

TEST(nan_weights_load_and_the_engine_tells)
{
    char *dir = fix_model(1), path[BOX_PATH_MAX];
    float nan[32], out[32];
    struct models *m = fix_models(NULL);
    struct err err = { 0 };
    struct stat st;

    for (size_t i = 0; i < ARRAY_SIZE(nan); i++)
        nan[i] = NAN;
    box_path(path, dir, "model.safetensors");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    CHECK(pwrite(fd, nan, sizeof(nan), st.st_size - (off_t)sizeof(nan)) == (ssize_t)sizeof(nan));
    close(fd);
    assert_int_equal(fix_load(m, "nan", dir), RC_OK);
    struct served *s = fix_get(m, "nan");
    assert_int_equal(fix_run(s, out, &err), RC_FAIL);
    CHECK(strstr(err.msg, "NaN"));
    served_release(s);
    models_free(m);
    box_remove(dir);
}

/* ---- names */

TEST(names_aliases_and_defaults)
{
    char *embed = fix_model(1), *rank = fix_make((struct box){ .labels = 1 });
    struct models *m = fix_models(NULL);
    struct serve_model o = { .name = "encoder",
                             .dir = embed,
                             .threads = 1,
                             .aliases = { "text-embedding-3-small" },
                             .alias_count = 1 };
    struct err err;

    assert_int_equal(fix_ask(m, NULL, REQUEST_VECTORS, &err), MODELS_NONE);
    assert_string_equal(err.msg, "no model is loaded");
    assert_int_equal(models_load(m, &o, true, NULL), RC_OK);
    assert_int_equal(fix_load(m, "ranker", rank), RC_OK);

    struct served *s = NULL;
    assert_int_equal(models_acquire(m, "", REQUEST_RANK, &s, &err), MODELS_READY);
    assert_string_equal(s->name, "ranker");
    served_release(s);
    assert_int_equal(models_acquire(m, NULL, REQUEST_VECTORS, &s, &err), MODELS_READY);
    assert_string_equal(s->name, "encoder");
    served_release(s);
    assert_int_equal(models_acquire(m, "text-embedding-3-small", REQUEST_RANK, &s, &err),
                     MODELS_READY); /* a name is a name; the caller sees what it is */
    served_release(s);

    assert_int_equal(fix_ask(m, "encodr", REQUEST_VECTORS, &err), MODELS_NONE);
    assert_string_equal(err.msg,
                        "there is no model 'encodr' (nearest: 'encoder'); there is 'encoder', "
                        "'ranker'");
    assert_string_equal(err.hint, "Did you mean 'encoder'?");
    assert_int_equal(fix_ask(m, "something else", REQUEST_VECTORS, &err), MODELS_NONE);
    assert_string_equal(err.msg,
                        "there is no model 'something else'; there is 'encoder', 'ranker'");

    err = (struct err){ 0 };
    assert_int_equal(models_unload(m, "text-embedding-3-small", &err), RC_NODEV);
    assert_string_equal(err.hint, "'text-embedding-3-small' is an alias of 'encoder'.");
    assert_int_equal(models_unload(m, "encoder", &err), RC_OK);
    assert_int_equal(fix_ask(m, "text-embedding-3-small", REQUEST_VECTORS, &err), MODELS_NONE);
    /* nothing gives vectors now: the first, whose kind the caller names in its refusal */
    assert_int_equal(models_acquire(m, NULL, REQUEST_VECTORS, &s, &err), MODELS_READY);
    assert_string_equal(s->name, "ranker");
    served_release(s);
    models_free(m);
    box_remove(embed);
    box_remove(rank);
}

TEST(refuses_what_cannot_be)
{
    static char long_name[MODELS_NAME_MAX + 1];
    struct models *m = fix_models(NULL);
    char *dir = fix_model(1);
    struct err err;
    const struct {
        struct serve_model o;
        enum rc rc;
        const char *msg;
    } rows[] = {
        { { .name = "", .dir = dir }, RC_USAGE, "a model's name must be text of 1 to 127 bytes" },
        { { .name = long_name, .dir = dir }, RC_USAGE, "a model's name must be text of 1 to" },
        { { .name = "a\1", .dir = dir }, RC_USAGE, "a model's name must be text" },
        { { .name = "a" }, RC_USAGE, "model 'a' has no folder" },
        { { .name = "a", .dir = dir, .pool = "x" }, RC_USAGE, "model 'a': there is no pool 'x'" },
        { { .name = "a", .dir = dir, .device = "tpu" },
          RC_USAGE,
          "model 'a': unknown device 'tpu'" },
        { { .name = "a", .dir = dir, .batch_tokens = (size_t)1 << 40 },
          RC_LIMIT,
          "model 'a': 1099511627776 tokens a batch" },
        { { .name = "a", .dir = dir, .aliases = { "taken" }, .alias_count = 1 },
          RC_USAGE,
          "models 'a' and 'taken' are both called 'taken'" },
        { { .name = "its-alias", .dir = dir },
          RC_USAGE,
          "models 'its-alias' and 'taken' are both called 'its-alias'" },
        { { .name = "a", .dir = dir, .max_tokens = 65 },
          RC_USAGE,
          "model 'a': it has positions for 64 tokens, not 65" },
    };
    struct serve_model taken = {
        .name = "taken", .dir = dir, .threads = 1, .aliases = { "its-alias" }, .alias_count = 1
    };

    memset(long_name, 'x', sizeof(long_name) - 1);
    assert_int_equal(models_load(m, &taken, true, NULL), RC_OK);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        err = (struct err){ 0 };
        assert_int_equal(models_load(m, &rows[i].o, true, &err), rows[i].rc);
        if (strncmp(err.msg, rows[i].msg, strlen(rows[i].msg)) != 0)
            fail_msg("row %zu: %s", i, err.msg);
    }
    models_free(m);
    box_remove(dir);
}

/* ---- references */

enum { SWAPS = 100, USERS = 8 };

struct users {
    struct models *m;
    _Atomic bool stop;
    _Atomic size_t calls, bad;
    _Atomic uint64_t newest;
};

static void *user_main(void *arg)
{
    struct users *u = arg;
    struct tok_scratch *scratch = tok_scratch_new();
    struct tok_opts to = { .max_tokens = 16, .truncate = TOK_LONGEST_FIRST };

    while (!u->stop) {
        struct served *s = NULL;
        struct err err = { 0 };
        struct tok_out out;
        float v[32];
        uint64_t newest = u->newest;

        if (models_acquire(u->m, "x", REQUEST_VECTORS, &s, &err) != MODELS_READY) {
            u->bad++;
            continue;
        }
        u->calls++;
        u->bad += s->version < newest || s->model->hidden != 32;
        u->bad += tokenizer_encode(s->tok, scratch, (struct tok_text){ "a b", 3 }, NULL, &to, &out,
                                   &err) != RC_OK;
        u->bad += u->calls % 16 == 0 && fix_run(s, v, &err) != RC_OK;
        served_release(s);
    }
    tok_scratch_free(scratch);
    return NULL;
}

TEST(swaps_under_load)
{
    char *dirs[2] = { fix_model(1), fix_model(2) };
    struct metrics *metrics = metrics_new();
    struct models *m = fix_models(&(struct manager_opts){ .metrics = metrics });
    struct users u = { .m = m };
    pthread_t ids[USERS];
    struct buf text = { 0 };

    assert_int_equal(fix_load(m, "x", dirs[0]), RC_OK);
    uint64_t one = fix_used(m, "default");
    for (size_t i = 0; i < USERS; i++)
        CHECK(pthread_create(&ids[i], NULL, user_main, &u) == 0);
    for (size_t i = 0; i < SWAPS; i++) {
        assert_int_equal(fix_load(m, "x", dirs[(i + 1) % 2]), RC_OK);
        u.newest = i + 2;
    }
    u.stop = true;
    for (size_t i = 0; i < USERS; i++)
        (void)pthread_join(ids[i], NULL);
    assert_int_equal(u.bad, 0);
    CHECK(u.calls > SWAPS);
    fix_wait_used(m, "default", one); /* one version is left */
    assert_string_equal(fix_json(m, models_json, "x", "version"), "101");
    metrics_write(metrics, &text);
    CHECK(strstr(buf_str(&text), "stoker_model_swaps_total{model=\"x\"} 100\n"));
    CHECK(strstr(buf_str(&text), "stoker_model_loads_total{model=\"x\",result=\"ok\"} 101\n"));
    CHECK(strstr(buf_str(&text), "stoker_model_state{model=\"x\",state=\"ready\"} 1\n"));
    buf_release(&text);
    models_free(m);
    metrics_free(metrics);
    box_remove(dirs[0]);
    box_remove(dirs[1]);
}

TEST(unloads_under_use)
{
    char *dir = fix_model(1);
    struct models *m = fix_models(NULL);
    struct err err;
    float v[32];

    assert_int_equal(fix_load(m, "x", dir), RC_OK);
    struct served *s = fix_get(m, "x");
    size_t calls = fix_queue.calls;
    assert_int_equal(models_unload(m, "x", &err), RC_OK);
    assert_int_equal(fix_ask(m, "x", REQUEST_VECTORS, &err), MODELS_NONE);
    assert_string_equal(fix_json(m, models_json, "x", "state"), "leaving");
    assert_int_equal(fix_run(s, v, &err), RC_OK);
    CHECK(fix_used(m, "default") == s->bytes);
    served_release(s);
    fix_wait_used(m, "default", 0);
    assert_int_equal(fix_queue.calls, calls + 1); /* freed there */
    assert_string_equal(fix_json(m, models_json, "x", "state"), "");
    /* the name is free again */
    assert_int_equal(fix_load(m, "x", dir), RC_OK);
    models_free(m);
    box_remove(dir);
}

static void *release_later(void *arg)
{
    usleep(50000);
    served_release(arg);
    return NULL;
}

TEST(free_waits_for_references)
{
    char *dir = fix_model(1);
    struct models *m = fix_models(NULL);
    pthread_t id;

    assert_int_equal(fix_load(m, "x", dir), RC_OK);
    struct served *s = fix_get(m, "x");
    int64_t begun = clock_mono_ns();
    CHECK(pthread_create(&id, NULL, release_later, s) == 0);
    models_free(m);
    CHECK(clock_mono_ns() - begun >= 45000000);
    (void)pthread_join(id, NULL);
    models_free(NULL);
    box_remove(dir);
}

TEST(acquire_is_fast)
{
    enum { TURNS = 200000, NAMES = 64 };
    char *dir = fix_model(1);
    struct models *m = fix_models(NULL);

    for (size_t i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "model-%zu", i);
        struct serve_model o = { .name = name, .dir = dir, .threads = 1 };
        CHECK(models_load(m, &o, i + 1 == NAMES, NULL) == RC_OK);
    }
    int64_t begun = clock_mono_ns();
    for (size_t i = 0; i < TURNS; i++)
        served_release(fix_get(m, "model-63"));
    print_message("# acquire and release among %d: %lld ns\n", NAMES,
                  (long long)(clock_mono_ns() - begun) / TURNS);
    models_free(m);
    box_remove(dir);
}

/* ---- failing */

struct changes {
    _Atomic size_t count;
};

static void on_change(void *arg, const char *name)
{
    struct changes *c = arg;

    CHECK(name[0]);
    c->count++;
}

TEST(failures_are_told_and_change_nothing)
{
    char *good = fix_model(1), *bad = fix_model(2), path[BOX_PATH_MAX];
    struct changes c = { 0 };
    struct models *m = fix_models(&(struct manager_opts){ .on_change = on_change, .arg = &c });
    struct err err = { 0 };

    box_path(path, bad, "model.safetensors");
    CHECK(truncate(path, 5000) == 0);
    struct serve_model o = { .name = "x", .dir = bad, .threads = 1 };
    assert_int_not_equal(models_load(m, &o, true, &err), RC_OK);
    CHECK(str_starts(err.msg, "model 'x': "));
    CHECK(strstr(err.msg, "model.safetensors"));
    CHECK(!models_all_ready(m));
    assert_int_equal(fix_ask(m, "x", REQUEST_VECTORS, &err), MODELS_FAILED);
    CHECK(strstr(err.msg, "model.safetensors"));
    assert_int_not_equal(fix_wait_all(m, &err), RC_OK);
    assert_string_equal(fix_json(m, models_json, "x", "state"), "failed");
    assert_int_equal(fix_used(m, "default"), 0);

    /* asked for again, it works; then a swap to the broken one leaves it as it is */
    assert_int_equal(fix_load(m, "x", good), RC_OK);
    CHECK(models_all_ready(m));
    assert_string_equal(fix_json(m, models_json, "x", "error"), "");
    err = (struct err){ 0 };
    assert_int_not_equal(models_load(m, &o, true, &err), RC_OK);
    struct served *s = fix_get(m, "x");
    assert_int_equal(s->version, 1);
    served_release(s);
    assert_string_equal(fix_json(m, models_json, "x", "state"), "ready");
    assert_string_equal(fix_json(m, models_json, "x", "source"), strrchr(good, '/') + 1);
    CHECK(str_starts(fix_json(m, models_json, "x", "error"), "model 'x': "));

    /* no tokenizer; no folder */
    box_path(path, bad, "tokenizer.json");
    CHECK(unlink(path) == 0);
    o = (struct serve_model){ .name = "y", .dir = bad, .threads = 1 };
    assert_int_not_equal(models_load(m, &o, true, NULL), RC_OK);
    o.dir = "/nowhere/at/all";
    err = (struct err){ 0 };
    assert_int_equal(models_load(m, &o, true, &err), RC_NODEV);
    assert_string_equal(err.msg, "model 'y': there is no model '/nowhere/at/all'");
    models_stop(m);
    assert_int_equal(c.count, 5);
    models_free(m);
    box_remove(good);
    box_remove(bad);
}

/* What a test does in the middle of a load. */
static struct {
    const char *from, *to, *name;
    _Atomic bool hold, holding;
} during;

static enum rc load_with(const struct model *m, const struct eng_opts *o, struct eng **out,
                         struct err *err)
{
    enum rc rc = eng_load(m, o, out, err);

    if (during.name)
        fix_copy(during.from, during.to, during.name);
    during.holding = true;
    while (during.hold)
        usleep(1000);
    during.holding = false;
    return rc;
}

TEST(files_replaced_during_a_load)
{
    static const char *const names[] = { "model.safetensors", "tokenizer.json", "config.json",
                                         "1_Pooling/config.json" };
    char *one = fix_model(1), *two = fix_model(2);
    struct models *m = fix_models(&(struct manager_opts){ .load = load_with });

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct serve_model o = { .name = "x", .dir = one, .threads = 1 };
        struct err err = { 0 };
        char want[ERR_MSG_MAX];

        during.from = two;
        during.to = one;
        during.name = names[i];
        assert_int_equal(models_load(m, &o, true, &err), RC_FAIL);
        during.name = NULL;
        snprintf(want, sizeof(want), "model 'x': file '%s' changed while the model was loading",
                 names[i]);
        assert_string_equal(err.msg, want);
        assert_int_equal(fix_used(m, "default"), 0);
    }
    assert_int_equal(fix_load(m, "x", one), RC_OK);
    models_free(m);
    box_remove(one);
    box_remove(two);
}

static void *let_go(void *arg)
{
    usleep(50000);
    during.hold = false;
    return arg;
}

TEST(loading_is_seen_and_stops)
{
    char *dir = fix_model(1);
    struct models *m = fix_models(&(struct manager_opts){ .load = load_with });
    struct serve_model a = { .name = "a", .dir = dir, .threads = 1 };
    struct serve_model b = { .name = "b", .dir = dir, .threads = 1 };
    struct served *s = NULL;
    struct err err = { 0 };
    pthread_t id;

    during.hold = true;
    assert_int_equal(models_load(m, &a, false, &err), RC_OK);
    assert_int_equal(fix_ask(m, "a", REQUEST_VECTORS, &err), MODELS_LOADING);
    assert_int_equal(fix_ask(m, NULL, REQUEST_VECTORS, &err), MODELS_LOADING);
    CHECK(!models_all_ready(m));
    int64_t begun = clock_mono_ns();
    assert_int_equal(fix_wait(m, "a", REQUEST_VECTORS, begun + 20000000, &s, &err), MODELS_LOADING);
    CHECK(clock_mono_ns() - begun >= 20000000);
    CHECK(pthread_create(&id, NULL, let_go, NULL) == 0);
    assert_int_equal(fix_wait(m, "a", REQUEST_VECTORS, 0, &s, &err), MODELS_READY);
    (void)pthread_join(id, NULL);
    served_release(s);

    /* unloaded in the middle: nothing of it stays */
    during.hold = true;
    assert_int_equal(models_load(m, &b, false, &err), RC_OK);
    while (!during.holding)
        usleep(1000);
    assert_int_equal(models_unload(m, "b", &err), RC_OK);
    during.hold = false;
    assert_int_equal(models_unload(m, "a", &err), RC_OK);
    fix_wait_used(m, "default", 0);

    /* stopped in the middle: the load ends, what waits has failed */
    during.hold = true;
    assert_int_equal(models_load(m, &a, false, &err), RC_OK);
    while (!during.holding)
        usleep(1000);
    assert_int_equal(models_load(m, &b, false, &err), RC_OK);
    CHECK(pthread_create(&id, NULL, let_go, NULL) == 0);
    models_stop(m);
    (void)pthread_join(id, NULL);
    assert_int_equal(fix_ask(m, "a", REQUEST_VECTORS, &err), MODELS_READY);
    assert_int_equal(fix_ask(m, "b", REQUEST_VECTORS, &err), MODELS_FAILED);
    assert_string_equal(err.msg, "model 'b' is not loaded: the server is stopping");
    err = (struct err){ 0 };
    assert_int_equal(models_load(m, &b, true, &err), RC_FAIL);
    models_free(m);
    box_remove(dir);
}

/* ---- another list */

static void wait_quiet(struct models *m, const char *name)
{
    for (int i = 0; i < 5000 && str_eq(fix_json(m, models_json, name, "loading"), "true"); i++)
        usleep(1000);
}

TEST(reload_changes_what_differs)
{
    char *one = fix_model(1), *two = fix_model(2);
    struct metrics *metrics = metrics_new();
    struct models *m = fix_models(&(struct manager_opts){ .metrics = metrics });
    struct metrics_family *loads = metrics_family(
        metrics, METRICS_COUNTER, "stoker_model_loads_total", "", "model,result", NULL, 0);
    struct serve_model list[] = { { .name = "a", .dir = one, .threads = 1 },
                                  { .name = "b", .dir = one, .threads = 1 },
                                  { .name = "c", .dir = two, .threads = 1 } };
    struct err err = { 0 };

    assert_int_equal(models_reload(m, list, 2, &err), RC_OK);
    assert_int_equal(fix_wait_all(m, &err), RC_OK);
    struct served *a = fix_get(m, "a"), *b = fix_get(m, "b");
    CHECK(a->key == b->key); /* the same files: the same vectors */

    /* a is gone, b stays, c is new */
    assert_int_equal(models_reload(m, list + 1, 2, &err), RC_OK);
    assert_int_equal(fix_ask(m, "a", REQUEST_VECTORS, &err), MODELS_NONE);
    wait_quiet(m, "c");
    assert_int_equal(fix_ask(m, "c", REQUEST_VECTORS, &err), MODELS_READY);
    struct served *again = fix_get(m, "b");
    CHECK(again == b);
    served_release(again);
    served_release(a);

    /* names and priority change without a load, other options with one */
    list[1].aliases[list[1].alias_count++] = "bee";
    list[1].priority = MODELS_HIGH;
    assert_int_equal(models_reload(m, list + 1, 2, &err), RC_OK);
    again = fix_get(m, "bee");
    CHECK(again == b);
    served_release(again);
    assert_int_equal(counter_value(metrics_counter(loads, "b", "ok")), 1);
    assert_string_equal(fix_json(m, models_json, "b", "priority"), "high");
    list[1].max_tokens = 16;
    assert_int_equal(models_reload(m, list + 1, 2, &err), RC_OK);
    wait_quiet(m, "b");
    again = fix_get(m, "b");
    CHECK(again != b);
    assert_int_equal(again->max_tokens, 16);
    served_release(again);
    served_release(b);

    /* files with another number */
    uint64_t key = (b = fix_get(m, "b"))->key;
    served_release(b);
    fix_copy(two, one, "model.safetensors");
    assert_int_equal(models_reload(m, list + 1, 2, &err), RC_OK);
    wait_quiet(m, "b");
    b = fix_get(m, "b");
    CHECK(b->key != key && b->version == 3);
    served_release(b);
    assert_int_equal(counter_value(metrics_counter(loads, "c", "ok")), 1);

    /* an entry that cannot be leaves all as it is; the order of the list is ours */
    struct serve_model wrong[] = { list[2], { .name = "d", .dir = "/nowhere" } };
    assert_int_equal(models_reload(m, wrong, 2, &err), RC_NODEV);
    assert_int_equal(fix_ask(m, "b", REQUEST_VECTORS, &err), MODELS_READY);
    struct serve_model twice[] = { list[2], list[2] };
    err = (struct err){ 0 };
    assert_int_equal(models_reload(m, twice, 2, &err), RC_USAGE);
    struct serve_model turned[] = { list[2], list[1] };
    err = (struct err){ 0 };
    assert_int_equal(models_reload(m, turned, 2, &err), RC_OK);
    struct served *first = fix_get(m, NULL);
    assert_string_equal(first->name, "c");
    served_release(first);
    models_free(m);
    metrics_free(metrics);
    box_remove(one);
    box_remove(two);
}

/* ---- lists */

TEST(lists_for_clients)
{
    char *dir = fix_model(1);
    struct models *m = fix_models(NULL);
    struct serve_model o = { .name = "tiny",
                             .dir = dir,
                             .dtype = ENG_F32,
                             .threads = 1,
                             .batch_tokens = 100,
                             .max_tokens = 10,
                             .aliases = { "t" },
                             .alias_count = 1 };
    struct buf b = { 0 };
    struct json_out w;
    struct arena a = { 0 };
    struct json *v = NULL;

    assert_int_equal(models_load(m, &o, true, NULL), RC_OK);
    json_out_init(&w, &b, 0);
    models_openai_json(m, &w, "stoker");
    CHECK(json_parse(&a, b.data, b.len, &v, NULL) == RC_OK);
    assert_string_equal(json_str(json_get(v, "object")), "list");
    const struct json *e = json_at(json_get(v, "data"), 0), *own = json_get(e, "stoker");
    assert_string_equal(json_str(json_get(e, "id")), "tiny");
    assert_string_equal(json_str(json_get(e, "object")), "model");
    assert_string_equal(json_str(json_get(e, "owned_by")), "stoker");
    CHECK(json_int(json_get(e, "created")).v > 0);
    assert_string_equal(json_str(json_get(own, "kind")), "embedding");
    assert_string_equal(json_str(json_get(own, "state")), "ready");
    assert_string_equal(json_str(json_get(own, "pool")), "default");
    assert_string_equal(json_str(json_get(own, "dtype")), "f32");
    assert_string_equal(json_str(json_at(json_get(own, "aliases"), 0)), "t");
    buf_reset(&b);
    json_out_init(&w, &b, 0);
    struct err err = { 0 };
    CHECK(!models_openai_one(m, "nobody", &w, &err) && !b.len && strstr(err.msg, "'nobody'"));
    CHECK(models_openai_one(m, "t", &w, &err)); /* an alias */
    CHECK(json_parse(&a, b.data, b.len, &v, NULL) == RC_OK);
    assert_string_equal(json_str(json_get(v, "id")), "tiny");
    assert_int_equal(json_int(json_get(own, "max_tokens")).v, 10);
    assert_int_equal(json_int(json_get(own, "batch_tokens")).v, 100);
    assert_int_equal(json_int(json_get(own, "version")).v, 1);
    CHECK(!json_get(own, "error") && json_get(own, "prompts"));
    arena_release(&a);
    buf_release(&b);
    models_free(m);
    box_remove(dir);
}

TEST_MAIN(cmocka_unit_test(loads_and_serves), cmocka_unit_test(every_fixture_loads),
          cmocka_unit_test(nan_weights_load_and_the_engine_tells),
          cmocka_unit_test(names_aliases_and_defaults), cmocka_unit_test(refuses_what_cannot_be),
          cmocka_unit_test(swaps_under_load), cmocka_unit_test(unloads_under_use),
          cmocka_unit_test(free_waits_for_references), cmocka_unit_test(acquire_is_fast),
          cmocka_unit_test(failures_are_told_and_change_nothing),
          cmocka_unit_test(files_replaced_during_a_load),
          cmocka_unit_test(loading_is_seen_and_stops),
          cmocka_unit_test(reload_changes_what_differs), cmocka_unit_test(lists_for_clients))

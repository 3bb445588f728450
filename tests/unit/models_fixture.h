/* SPDX-License-Identifier: MIT */
/* models_fixture: model folders with a tokenizer, a device queue without a thread, and a manager.
 *
 * The queue here is a lock: the manager's calls on it and the tests' runs exclude each other as
 * they do on its thread.  With FIX_REAL_QUEUES there is none: a test brings a scheduler. */
#ifndef TESTS_MODELS_FIXTURE_H
#define TESTS_MODELS_FIXTURE_H
#include "test.h"

#include "base/str.h"
#include "base/text/json.h"
#include "model_box.h"
#include "os/clock.h"
#include "os/file.h"
#include "serve/models/models_int.h"
#include "serve/sched/sched_int.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#ifndef FIX_REAL_QUEUES
struct device_queue {
    pthread_mutex_t lock;
    _Atomic size_t calls;
};
static struct device_queue fix_queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct device_queue *sched_device_queue(struct sched *s, const char *device)
{
    (void)s;
    return device ? &fix_queue : NULL;
}

void sched_on_device_queue(struct device_queue *l, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&l->lock);
    fn(arg);
    l->calls++;
    pthread_mutex_unlock(&l->lock);
}
#endif

/* A seeded model in a new folder; the caller gives it to box_remove(). */
static inline char *fix_make(struct box b)
{
    struct buf text = { 0 };
    b.positions = b.positions ? b.positions : 64;
    char *dir = box_make(&b);

    if (file_read("tests/fixtures/tokenizers/tiny-bert.json", 1 << 20, &text, NULL))
        abort();
    box_put(dir, "tokenizer.json", buf_str(&text));
    buf_release(&text);
    return dir;
}

static inline char *fix_model(uint64_t seed)
{
    return fix_make((struct box){ .seed = seed, .pool = "mean", .normalize = true });
}

static inline void fix_copy(const char *from, const char *to, const char *name)
{
    char a[BOX_PATH_MAX], b[BOX_PATH_MAX];
    struct buf text = { 0 };
    struct file_new f;

    box_path(a, from, name);
    box_path(b, to, name);
    CHECK(file_read(a, 64 << 20, &text, NULL) == RC_OK);
    CHECK(file_new_open(&f, b, NULL) == RC_OK);
    CHECK(file_new_close(&f, file_write(f.fd, b, text.data, text.len, NULL), NULL) == RC_OK);
    buf_release(&text);
}

/* One of tests/fixtures/models with a tokenizer, in a new folder. */
static inline char *fix_fixture(const char *name)
{
    char from[BOX_PATH_MAX], path[BOX_PATH_MAX];
    char *dir = fix_model(1);

    box_path(from, "tests/fixtures/models", name);
    box_path(path, from, "modules.json");
    if (!file_exists(path)) {
        box_path(path, dir, "modules.json");
        CHECK(unlink(path) == 0);
    } else {
        fix_copy(from, dir, "modules.json");
        fix_copy(from, dir, "1_Pooling/config.json");
    }
    fix_copy(from, dir, "config.json");
    fix_copy(from, dir, "model.safetensors");
    return dir;
}

#ifndef FIX_REAL_QUEUES
/* Runs a few ids as a device queue would. */
static inline enum rc fix_run(struct served *s, float *out, struct err *err)
{
    static const uint32_t ids[] = { 2, 20, 30, 3 };
    static const uint32_t starts[] = { 0, 4 };
    struct eng_batch b = { .ids = ids, .types = NULL, .starts = starts, .sequences = 1 };
    enum eng_want want = s->model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;

    pthread_mutex_lock(&s->device_queue->lock);
    enum rc rc = eng_run(s->eng, &b, want, out, err);
    pthread_mutex_unlock(&s->device_queue->lock);
    return rc;
}

static inline struct models *fix_models(const struct manager_opts *o)
{
    struct manager_opts own = o ? *o : (struct manager_opts){ 0 };
    struct models *m = NULL;
    struct err err = { 0 };

    own.sched = (struct sched *)&fix_queue; /* never looked into */
    if (models_new(&own, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}
#endif

static inline enum rc fix_load(struct models *m, const char *name, const char *dir)
{
    struct serve_model o = { .name = name, .dir = dir, .priority = MODELS_MEDIUM, .threads = 1 };
    struct err err = { 0 };
    enum rc rc = models_load(m, &o, true, &err);

    if (rc)
        print_message("# %s\n", err.msg);
    return rc;
}

/* The current version of a name, with a reference. */
static inline struct served *fix_get(struct models *m, const char *name)
{
    struct served *s = NULL;
    struct err err = { 0 };

    if (models_acquire(m, name, REQUEST_IDS, &s, &err) != MODELS_READY)
        fail_msg("'%s' is not ready: %s", name ? name : "", err.msg);
    return s;
}

/* Until it is ready or failed, or the deadline; 0: none. */
static inline enum models_got fix_wait(struct models *m, const char *name, enum request_what what,
                                       int64_t deadline_ns, struct served **out, struct err *err)
{
    enum models_got got;

    while ((got = models_acquire(m, name, what, out, err)) == MODELS_LOADING &&
           (!deadline_ns || clock_mono_ns() < deadline_ns))
        (void)usleep(1000);
    return got;
}

/* Until all are ready, or one has failed. */
static inline enum rc fix_wait_all(struct models *m, struct err *err)
{
    enum rc rc;

    while ((rc = models_check_all(m, err)) == RC_OK && !models_all_ready(m))
        (void)usleep(1000);
    return rc;
}

static inline enum models_got fix_ask(struct models *m, const char *name, enum request_what what,
                                      struct err *err)
{
    struct served *s = NULL;
    enum models_got got;

    *err = (struct err){ 0 };
    got = models_acquire(m, name, what, &s, err);
    if (got == MODELS_READY)
        served_release(s);
    return got;
}

/* A member of the entry of `name` in models_json() or pools_json(), as text; "" when missing.
 * From one static buffer. */
static inline const char *fix_json(struct models *m,
                                   void (*list)(struct models *, struct json_out *),
                                   const char *name, const char *key)
{
    static char text[ERR_MSG_MAX];
    struct buf b = { 0 };
    struct json_out w;
    struct arena a = { 0 };
    struct json *v = NULL;

    json_out_init(&w, &b, 0);
    list(m, &w);
    CHECK(json_parse(&a, b.data, b.len, &v, NULL) == RC_OK);
    text[0] = '\0';
    for (const struct json *e = v->first; e; e = e->next) {
        const struct json *x = json_get(e, key);
        if (str_eq(json_str(json_get(e, "name")), name) && x) {
            (void)str_copy(text, sizeof(text),
                           x->type == JSON_BOOL ? (x->boolean ? "true" : "false")
                           : x->text            ? x->text
                                                : "null");
            break;
        }
    }
    arena_release(&a);
    buf_release(&b);
    return text;
}

static inline uint64_t fix_used(struct models *m, const char *pool)
{
    uint64_t v = UINT64_MAX;

    CHECK(str_to_u64(fix_json(m, pools_json, pool, "used_bytes"), 10, &v));
    return v;
}

/* What is freed is freed by another thread. */
static inline void fix_wait_used(struct models *m, const char *pool, uint64_t bytes)
{
    for (int i = 0; i < 5000 && fix_used(m, pool) != bytes; i++)
        usleep(1000);
    assert_int_equal(fix_used(m, pool), bytes);
}

#endif

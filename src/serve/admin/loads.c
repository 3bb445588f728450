/* SPDX-License-Identifier: MIT */
/* loads: the routes that load and unload models, and the clients that wait for a load to end.
 *
 * A load takes seconds or minutes, and the HTTP loop's thread waits for nobody: whoever says `wait`
 * is put on a list that is looked at when a model changed and when time passed.  One whose time is
 * over gets what it would have got without waiting: 202, and the load goes on. */
#include "serve/admin/loads_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "serve/admin/admin_int.h"
#include "serve/models/manager_int.h"
#include "serve/serve_int.h"

#include <assert.h>
#include <pthread.h>

struct load_wait {
    struct http_exchange *x;
    char name[MODELS_NAME_MAX];
    uint64_t ticket;
    int64_t until_ns;
    struct load_wait *next;
};

struct loads {
    pthread_mutex_t lock;
    struct load_wait *first;
    size_t count;
};

struct loads *loads_new(void)
{
    struct loads *l = xcalloc(1, sizeof(*l));

    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void loads_free(struct loads *l)
{
    if (!l)
        return;
    assert(!l->first);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- replies */

static void reply_status(struct http_exchange *x, int status, const char *name, const char *what,
                         const struct models_loaded *is)
{
    struct buf body = { 0 };
    struct json_out w;

    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "model", name);
    json_kv_str(&w, "status", what);
    if (is && is->digest[0])
        json_kv_str(&w, "digest", is->digest);
    if (is && is->dtype[0])
        json_kv_str(&w, "dtype", is->dtype);
    if (is)
        json_kv_int(&w, "version", (int64_t)is->version);
    json_obj_end(&w);
    admin_reply_json(x, status, &body);
}

/* What cannot be loaded, by whose fault. */
static void reply_failed(struct http_exchange *x, const struct err *err)
{
    bool own = err->code == RC_FAIL || err->code == RC_TIMEOUT;

    if (err->code == RC_LIMIT)
        admin_reply_error(x, 507, FAULT_NO_MEMORY, err->msg);
    else
        admin_reply_error(x, own ? 500 : 400, own ? FAULT_BACKEND : FAULT_INVALID, err->msg);
}

static void reply_over(const struct serve *s, struct load_wait *w, const struct models_loaded *is,
                       const struct err *err)
{
    switch (is->how) {
    case MODELS_LOAD_OK:
        reply_status(w->x, 200, w->name, is->away ? "away" : "ready", is);
        break;
    case MODELS_LOAD_FAILED:
        reply_failed(w->x, err);
        break;
    case MODELS_LOAD_REPLACED:
        admin_reply_error(w->x, 409, FAULT_INVALID, err->msg);
        break;
    case MODELS_LOAD_RUNS:
        if (atomic_load(&s->stopping))
            admin_reply_error(w->x, 503, FAULT_STOPPING, "the server is stopping");
        else
            reply_status(w->x, 202, w->name, "loading", NULL);
        break;
    }
    free(w);
}

/* ---- waiting */

/* Takes those off the list whose wait is over; the caller answers them. */
static struct load_wait *take_over(struct serve *s)
{
    struct load_wait **at, *over = NULL;
    int64_t now = clock_mono_ns();

    pthread_mutex_lock(&s->loads->lock);
    for (at = &s->loads->first; *at;) {
        struct load_wait *w = *at;
        struct models_loaded is;

        models_loaded(s->models, w->name, w->ticket, &is, NULL);
        if (is.how == MODELS_LOAD_RUNS && now < w->until_ns && !http_gone(w->x) &&
            !atomic_load(&s->stopping)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        s->loads->count--;
        w->next = over;
        over = w;
    }
    pthread_mutex_unlock(&s->loads->lock);
    return over;
}

void loads_look(struct serve *s)
{
    struct load_wait *over = s->loads && s->models ? take_over(s) : NULL;

    while (over) {
        struct load_wait *w = over;
        struct models_loaded is;
        struct err err = { 0 };

        over = w->next;
        models_loaded(s->models, w->name, w->ticket, &is, &err);
        reply_over(s, w, &is, &err);
    }
}

static void wait_for(struct serve *s, struct http_exchange *x, const char *name, uint64_t ticket,
                     int64_t ms)
{
    struct load_wait *w = xcalloc(1, sizeof(*w));
    bool full;

    w->x = x;
    (void)str_copy(w->name, sizeof(w->name), name);
    w->ticket = ticket;
    w->until_ns = clock_mono_ns() + ms * 1000000;
    pthread_mutex_lock(&s->loads->lock);
    full = s->loads->count == LOADS_WAITS_MAX;
    if (!full) {
        w->next = s->loads->first;
        s->loads->first = w;
        s->loads->count++;
    }
    pthread_mutex_unlock(&s->loads->lock);
    if (full) {
        reply_status(x, 202, name, "loading", NULL);
        free(w);
    } else {
        loads_look(s); /* it may be over already */
    }
}

/* ---- what is asked for */

static enum rc read_priority(const char *name, enum models_priority *out, struct err *err)
{
    static const char *const names[] = { "low", "medium", "high" };

    *out = MODELS_MEDIUM;
    for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
        if (str_eq(name, names[i])) {
            *out = (enum models_priority)i;
            return RC_OK;
        }
    return name ? err_set(err, RC_USAGE, "priority '%s' is not low, medium or high", name) : RC_OK;
}

static enum rc read_dtype(const char *name, enum eng_dtype *out, struct err *err)
{
    *out = ENG_AUTO;
    if (!name || eng_dtype_parse(name, out))
        return RC_OK;
    return err_set(err, RC_USAGE, "dtype '%s' is not auto, f32, bf16, int8, f16 or fp8", name);
}

static enum rc read_choice(const struct json *b, const char *name, enum serve_choice *out,
                           struct err *err)
{
    const struct json *v = json_get(b, name);
    struct maybe is = json_bool(v);

    *out = SERVE_DEFAULT;
    if (is.known)
        *out = is.v ? SERVE_YES : SERVE_NO;
    else if (v && v->type != JSON_NULL)
        return err_set(err, RC_USAGE, "'%s' must be true or false", name);
    return RC_OK;
}

/* What its vectors are, and where they are computed when its device fails. */
static enum rc read_rest(const struct json *b, struct serve_model *o, struct err *err)
{
    const char *load = json_str(json_get(b, "load"));
    enum serve_choice early;

    o->fallback = json_str(json_get(b, "fallback"));
    o->pooling = json_str(json_get(b, "pooling"));
    if (o->pooling && !models_pooling_known(o->pooling))
        return err_set(err, RC_USAGE, "there is no pooling '%.64s'", o->pooling);
    if (read_choice(b, "normalize", &o->normalize, err) ||
        read_choice(b, "fallback_at_start", &early, err))
        return err->code;
    o->fallback_at_start = early == SERVE_YES;
    if (load && !str_eq(load, "at_start") && !str_eq(load, "on_demand"))
        return err_set(err, RC_USAGE, "load '%.64s' is not at_start or on_demand", load);
    o->on_demand = str_eq(load, "on_demand");
    return RC_OK;
}

/* A member that is mistyped is not passed over: the model would be loaded as another than asked. */
static enum rc check_members(const struct json *b, struct err *err)
{
    static const struct {
        const char *name, *what;
        enum json_type type, or ;
    } members[] = {
        { "model", "a text", JSON_STR, JSON_STR },
        { "source", "a text", JSON_STR, JSON_STR },
        { "aliases", "a list", JSON_ARR, JSON_ARR },
        { "device", "a text", JSON_STR, JSON_STR },
        { "dtype", "a text", JSON_STR, JSON_STR },
        { "pool", "a text", JSON_STR, JSON_STR },
        { "priority", "a text", JSON_STR, JSON_STR },
        { "batch_tokens", "a number", JSON_NUM, JSON_NUM },
        { "max_tokens", "a number", JSON_NUM, JSON_NUM },
        { "load", "a text", JSON_STR, JSON_STR },
        { "pooling", "a text", JSON_STR, JSON_STR },
        { "normalize", "true or false", JSON_BOOL, JSON_BOOL },
        { "fallback", "a text", JSON_STR, JSON_STR },
        { "fallback_at_start", "true or false", JSON_BOOL, JSON_BOOL },
        { "wait", "true, false or a time such as \"30s\"", JSON_BOOL, JSON_STR },
    };

    if (b->type != JSON_OBJ)
        return err_set(err, RC_USAGE, "the body must be a JSON object");
    for (const struct json *m = b->first; m; m = m->next) {
        size_t i = 0;

        while (i < ARRAY_SIZE(members) && !str_eq(members[i].name, m->key))
            i++;
        if (i == ARRAY_SIZE(members))
            return err_set(err, RC_USAGE, "unknown member '%.64s'; /openapi.json lists them",
                           m->key);
        if (m->type != members[i].type && m->type != members[i].or &&m->type != JSON_NULL)
            return err_set(err, RC_USAGE, "'%s' must be %s", m->key, members[i].what);
    }
    return RC_OK;
}

static enum rc read_load(const struct json *b, struct serve_model *o, struct err *err)
{
    const struct json *aliases = json_get(b, "aliases");
    struct maybe batch = json_int(json_get(b, "batch_tokens"));
    struct maybe most = json_int(json_get(b, "max_tokens"));

    o->name = json_str(json_get(b, "model"));
    o->dir = json_str(json_get(b, "source"));
    if (!o->name || !o->name[0] || !o->dir || !o->dir[0])
        return err_set(err, RC_USAGE, "\"model\" (a name) and \"source\" (a folder) are needed");
    o->device = json_str(json_get(b, "device"));
    o->pool = json_str(json_get(b, "pool"));
    o->batch_tokens = batch.known && batch.v > 0 ? (size_t)batch.v : 0;
    o->max_tokens = most.known && most.v > 0 ? (size_t)most.v : 0;
    for (const struct json *a = aliases ? aliases->first : NULL; a; a = a->next)
        if (json_str(a) && o->alias_count < MODELS_ALIASES_MAX)
            o->aliases[o->alias_count++] = json_str(a);
    enum rc rc = read_priority(json_str(json_get(b, "priority")), &o->priority, err);
    if (rc == RC_OK)
        rc = read_dtype(json_str(json_get(b, "dtype")), &o->dtype, err);
    return rc == RC_OK ? read_rest(b, o, err) : rc;
}

/* "?wait", "?wait=30s", "wait": true or "30s" in the body; 0: no wait.  Never longer than a request
 * may take. */
static enum rc read_wait(const struct serve *s, const struct http_request *r, const struct json *b,
                         int64_t *out_ms, struct err *err)
{
    const struct json *v = json_get(b, "wait");
    struct maybe is = json_bool(v);
    char text[32] = "";
    uint64_t ms = 0, most = (uint64_t)s->o.timeout_max_ms;
    bool asked = http_query(r, "wait", text, sizeof(text));

    if (!asked && json_str(v))
        asked = str_copy(text, sizeof(text), json_str(v));
    else if (!asked && is.known)
        (void)str_copy(text, sizeof(text), is.v ? "true" : "false");
    else if (!asked && v && v->type != JSON_NULL)
        return err_set(err, RC_USAGE, "'wait' must be true, false or a time such as \"30s\"");
    if (str_eq(text, "false") || (!asked && !text[0]))
        ms = 0;
    else if (!text[0] || str_eq(text, "true"))
        ms = most;
    else if (units_duration_parse(text, &ms, err))
        return err_ctx(err, "'wait'");
    *out_ms = (int64_t)(ms < most ? ms : most);
    return RC_OK;
}

/* ---- routes */

static void on_load(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    const struct http_request *r = http_request(x);
    struct serve_model o = { 0 };
    struct arena a = { 0 };
    struct json *b = NULL;
    struct err err = { 0 };
    uint64_t ticket = 0;
    int64_t wait_ms = 0;
    enum rc rc = json_parse(&a, r->body, r->body_len, &b, &err);

    if (rc == RC_OK)
        rc = check_members(b, &err);
    if (rc == RC_OK)
        rc = read_load(b, &o, &err);
    if (rc == RC_OK)
        rc = read_wait(s, r, b, &wait_ms, &err);
    if (rc == RC_OK)
        rc = models_load_begin(s->models, &o, &ticket, &err);
    if (rc != RC_OK)
        admin_reply_error(x, rc == RC_LIMIT ? 507 : 400,
                          rc == RC_LIMIT ? FAULT_NO_MEMORY : FAULT_INVALID, err.msg);
    else if (wait_ms)
        wait_for(s, x, o.name, ticket, wait_ms);
    else
        reply_status(x, 202, o.name, "loading", NULL);
    arena_release(&a);
}

static void on_unload(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    const struct http_request *r = http_request(x);
    struct arena a = { 0 };
    struct json *b = NULL;
    struct err err = { 0 };
    enum rc rc = json_parse(&a, r->body, r->body_len, &b, &err);
    const char *name = rc == RC_OK ? json_str(json_get(b, "model")) : NULL;

    if (rc == RC_OK && !name)
        rc = err_set(&err, RC_USAGE, "\"model\" (a name) is needed");
    if (rc == RC_OK)
        rc = models_unload(s->models, name, &err);
    if (rc == RC_OK) {
        reply_status(x, 202, name, "unloading", NULL);
    } else {
        admin_reply_error(x, rc == RC_NODEV ? 404 : 400,
                          rc == RC_NODEV ? FAULT_NO_MODEL : FAULT_INVALID, err.msg);
    }
    arena_release(&a);
}

const struct http_route loads_routes[] = {
    { .method = HTTP_POST, .path = "/v1/models/load", .run = on_load, .scope = HTTP_SCOPE_ADMIN },
    { .method = HTTP_POST,
      .path = "/v1/models/unload",
      .run = on_unload,
      .scope = HTTP_SCOPE_ADMIN },
    { .path = NULL },
};

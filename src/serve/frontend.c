/* SPDX-License-Identifier: MIT */
/* front: the threads that take calls from the HTTP loop, make jobs of them, and answer.
 *
 * Finished jobs go before new calls: an answer that is ready frees memory and a client; a
 * new call only adds to the queue.  A call whose model is being loaded is parked, so that no
 * thread waits for a disk.
 *
 * Megabytes take long to parse, to tokenise and to write.  So large calls have queues of their
 * own, one thread never takes them, and the others take one after some small ones at the latest.
 *
 * A wake-up of another thread takes as long as all the rest of a short request.  So the only
 * call of an idle server stays where it is: the loop's thread makes its job, the lane's thread
 * writes its answer.  Both are short by the limits below, and nobody else waits for either. */
#include "base/codec/gzip.h"
#include "base/codec/sha256.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/serve_int.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum {
    FRONT_ALONE_BODY_MAX = 4 << 10,    /* bytes of a request that skips the front threads */
    FRONT_ALONE_FLOATS_MAX = 4 << 10,  /* numbers of its answer */
    FRONT_SMALL_BODY_MAX = 64 << 10,   /* bytes of a request that is not large */
    FRONT_SMALL_FLOATS_MAX = 64 << 10, /* numbers of its answer */
    FRONT_LARGE_EVERY = 8              /* calls: one of so many is large where both wait */
};

enum front_size { FRONT_SMALL, FRONT_LARGE, FRONT_SIZES };

struct queue {
    struct call *first, **last;
};

struct front {
    struct serve *s;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct queue done[FRONT_SIZES], fresh[FRONT_SIZES], parked;
    size_t parked_count;
    size_t large_max;     /* threads that may have a large call at once */
    size_t large;         /* threads that have a large call */
    unsigned since_large; /* calls taken since one was large */
    bool stop;
    _Atomic size_t open;  /* calls that are not answered */
    struct front_own own; /* the loop's thread's */
    size_t threads;
    pthread_t ids[];
};

static void put(struct queue *q, struct call *c)
{
    c->next = NULL;
    *q->last = c;
    q->last = &c->next;
}

static struct call *take(struct queue *q)
{
    struct call *c = q->first;

    if (c && !(q->first = c->next))
        q->last = &q->first;
    return c;
}

static void queue_init(struct queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static bool is_gone(const struct call *c)
{
    return c->x ? http_gone(c->x) : atomic_load(c->line->gone);
}

/* Known before the body is read: who waits too long for that is answered without. */
static void set_deadline(struct call *c)
{
    struct ask_fault ignored = { 0 }; /* told when the request is read */

    c->ask.deadline_ns = c->req->begun_ns + (int64_t)c->s->o.timeout_ms * 1000000;
    c->ask.timeout_max_ns = (int64_t)c->s->o.timeout_max_ms * 1000000;
    if (c->line)
        c->ask.deadline_ns = c->line->deadline_ns;
    else
        (void)api_timeout(c->req, &c->ask, &ignored);
}

static bool is_late(const struct call *c)
{
    return clock_mono_ns() > c->ask.deadline_ns;
}

/* Its body is as long as it says only when it is not packed. */
static bool is_packed(const struct call *c)
{
    const char *coding = c->line ? NULL : http_field(c->req, "content-encoding");

    return coding && strcasestr(coding, "gzip"); /* the HTTP server lets no other through */
}

/* Is it the only call, and a short one? */
static bool alone(const struct call *c)
{
    return !c->line && atomic_load(&c->s->front->open) == 1 && !is_packed(c) &&
           c->req->body_len <= FRONT_ALONE_BODY_MAX &&
           c->row_count * c->full_width <= FRONT_ALONE_FLOATS_MAX;
}

static enum front_size size_of(const struct call *c)
{
    return c->line || is_packed(c) || c->req->body_len > FRONT_SMALL_BODY_MAX ||
                   c->row_count * c->full_width > FRONT_SMALL_FLOATS_MAX
               ? FRONT_LARGE
               : FRONT_SMALL;
}

/* `queues`: by size. */
static void push(struct front *f, struct queue *queues, struct call *c)
{
    pthread_mutex_lock(&f->lock);
    put(&queues[size_of(c)], c);
    pthread_cond_signal(&f->more);
    pthread_mutex_unlock(&f->lock);
}

/* ---- answering */

static void call_free(struct call *c)
{
    if (c->model)
        served_release(c->model);
    free(c->rows);
    call_give_bytes(c);
    arena_release(&c->ask.arena);
    free(c);
}

/* "NAME@DIGEST"; of a name what is no plain ASCII is written as in a URL. */
static void model_field(const struct call *c, struct buf *out)
{
    const char *digest = c->job.fell_back ? spare_digest(c->model) : c->model->digest;

    buf_adds(out, "x-stoker-model: ");
    for (const char *p = c->model->name; *p; p++)
        if (*p > ' ' && *p < 0x7f && *p != '%')
            buf_addc(out, *p);
        else
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)*p);
    buf_addf(out, "@%s\r\n", digest);
}

/* The fields that TEI's clients know, and ours. */
static void reply_fields(const struct call *c, bool ok, struct buf *out)
{
    const struct answer_times *t = &c->answer.times;

    if (c->model)
        model_field(c, out);
    if (c->fault.retry_after_s)
        buf_addf(out, "Retry-After: %d\r\n", c->fault.retry_after_s);
    if (!c->answer.items)
        return;
    buf_addf(out,
             "x-compute-type: %s\r\nx-compute-tokens: %" PRIu64 "\r\n"
             "x-total-time: %" PRId64 "\r\nx-tokenization-time: %" PRId64 "\r\n"
             "x-queue-time: %" PRId64 "\r\nx-inference-time: %" PRId64 "\r\n",
             c->answer.device ? c->answer.device : "cpu", c->answer.tokens_total,
             t->total / 1000000, t->tokenize / 1000000, t->queue / 1000000, t->run / 1000000);
    if (c->answer.fell_back)
        buf_addf(out, "x-stoker-device: %s; fallback-from=%s\r\n", c->answer.device,
                 c->answer.failed_device);
    if (ok && c->api->fields)
        c->api->fields(&c->ask, &c->answer, out);
}

static void log_call(const struct call *c, int status, size_t bytes_out)
{
    const struct http_request *r = c->req;
    const struct answer_times *t = &c->answer.times;
    struct access_record a = { .unix_ms = clock_unix_ms(),
                               .id = r->id,
                               .method = "POST",
                               .error = status >= 400 ? stats_error_name(c->fault.kind) : NULL,
                               .status = status,
                               .gone = is_gone(c),
                               .items = c->ask.count,
                               .tokens = c->answer.tokens_total,
                               .bytes_in = r->body_len,
                               .bytes_out = bytes_out,
                               .queue_ns = c->job.submitted_ns ? t->queue : -1,
                               .run_ns = c->job.submitted_ns ? t->run : -1,
                               .total_ns = t->total };

    access_text(a.peer, sizeof(a.peer), r->peer);
    access_text(a.path, sizeof(a.path), r->path);
    access_names(&a, http_field(r, "x-request-id"), http_field(r, "traceparent"));
    access_text(a.model, sizeof(a.model), c->model ? c->model->name : "");
    (void)access_put(c->s->access, &a);
}

static void answer(struct call *c, bool ok)
{
    struct buf body, fields = { 0 };
    const char *type = "application/json";
    int status = 200;

    buf_init(&body, SERVE_REPLY_BYTES_MAX);
    c->answer.times.total = clock_mono_ns() - c->req->begun_ns;
    c->answer.unix_s = clock_unix_s();
    if (ok && (c->line || !is_gone(c))) {
        int64_t begun = clock_thread_ns();
        type = c->api->write(&c->ask, &c->answer, &body);
        c->answer.times.write = clock_thread_ns() - begun;
        if (body.over) {
            buf_release(&body);
            ok = ask_fault(&c->fault, ASK_E_TOO_MANY, NULL,
                           "the reply is larger than %d bytes: ask for less at a time",
                           SERVE_REPLY_BYTES_MAX);
        }
    }
    if (!ok) {
        type = "application/json";
        status = api_error(c->api->family, &c->fault, &body);
    }
    reply_fields(c, ok, &fields);
    stats_call(c->s->stats, c, status);
    te_metrics_call(c->s->te, c, status);
    if (c->s->access && !c->line)
        log_call(c, status, body.len);
    atomic_fetch_sub(&c->s->front->open, 1); /* its client may ask again before this returns */
    if (c->line)
        c->line->done(c->line, status, &body, status == 200 ? NULL : &c->fault);
    else
        http_reply(c->x, status, type, &body, buf_str(&fields));
    buf_release(&fields);
    buf_release(&body);
    call_free(c);
}

/* ---- jobs */

/* The engine counts within what it ran; a client counts the inputs of its own. */
static bool engine_failed(struct call *c)
{
    const char *why = c->err.msg[0] ? c->err.msg : "the engine failed";
    size_t i = 0;

    while (i < c->job.count && !c->job.items[i].failed)
        i++;
    if (i == c->job.count)
        return ask_fault(&c->fault, ASK_E_BACKEND, NULL, "%s", why);
    if (str_starts(why, "sequence ") && strstr(why, ": "))
        why = strstr(why, ": ") + 2;
    return ask_fault(&c->fault, ASK_E_BACKEND, NULL, "input %zu: %s", i, why);
}

/* It would not end in time if it were alone: another time is as good as now. */
static bool too_large(struct call *c, const struct err *err)
{
    return ask_fault(&c->fault, ASK_E_TOO_LARGE, NULL,
                     "the request is too large for its time: %s: send fewer texts at a time, or "
                     "x-request-timeout up to %d s (--timeout-max)",
                     err->msg, c->s->o.timeout_max_ms / 1000);
}

/* Alone it would have ended in time: another time is better. */
static bool overloaded(struct call *c, int retry_s, const struct err *err)
{
    c->fault.retry_after_s = retry_s ? retry_s : 1;
    return ask_fault(&c->fault, ASK_E_OVERLOADED, NULL, "model '%s' is overloaded: %s",
                     c->model->name, err->msg);
}

static bool job_failed(struct call *c)
{
    if (c->why == RC_TIMEOUT && c->err.msg[0])
        return too_large(c, &c->err);
    if (c->why == RC_TIMEOUT)
        return ask_fault(&c->fault, ASK_E_DEADLINE, NULL, "the deadline passed");
    if (c->why == RC_LIMIT && c->err.code == RC_LIMIT)
        return overloaded(c, 0, &c->err);
    if (c->why == RC_LIMIT)
        return ask_fault(&c->fault, atomic_load(&c->s->stopping) ? ASK_E_STOPPING : ASK_E_DEADLINE,
                         NULL, "the request was cancelled");
    return engine_failed(c);
}

static void finish(struct call *c)
{
    c->answer.times.tokenize = c->tokenize_ns;
    c->answer.times.queue = c->job.started_ns ? c->job.started_ns - c->job.submitted_ns : 0;
    c->answer.times.run = c->job.started_ns ? c->job.ended_ns - c->job.started_ns : 0;
    answer(c, c->why == RC_OK ? call_finish(c) : job_failed(c));
}

/* On the lane's thread, or on the submitter's when the cache had it all. */
static void on_job_done(struct job *j, enum rc why, const struct err *err)
{
    struct call *c = j->arg;

    c->why = why;
    if (err)
        c->err = *err;
    c->stage = CALL_FINISH;
    if (alone(c))
        finish(c);
    else
        push(c->s->front, c->s->front->done, c);
}

void call_owner(const struct http_request *r, char out[CALL_OWNER_BYTES])
{
    const char *token = r->proven ? "" : http_field(r, "authorization");
    const char *key = token ? token : r->peer, *end = token ? NULL : strrchr(key, ':');
    uint8_t sum[SHA256_BYTES];
    struct sha256 h;

    static_assert((int)CALL_OWNER_BYTES == (int)SHA256_HEX, "it is the hash as text");
    sha256_init(&h);
    sha256_add(&h, token ? "token " : "address ", token ? 6 : 8);
    sha256_add(&h, key, end ? (size_t)(end - key) : strlen(key));
    sha256_end(&h, sum);
    (void)sha256_hex(sum, out);
}

uint64_t call_client(const char owner[CALL_OWNER_BYTES])
{
    char first[17];
    uint64_t n = 0;

    memcpy(first, owner, 16);
    first[16] = '\0';
    (void)str_to_u64(first, 16, &n);
    return n;
}

static uint64_t client_of(const struct call *c)
{
    char owner[CALL_OWNER_BYTES];

    if (c->line)
        return c->line->client;
    call_owner(c->req, owner);
    return call_client(owner);
}

static void submit(struct call *c)
{
    int retry_s = 0;
    struct err err = { 0 };

    c->job.model = c->model;
    c->job.class = c->ask.class;
    c->job.client = client_of(c);
    c->job.deadline_ns = c->ask.deadline_ns;
    c->job.begun_ns = c->req->begun_ns;
    c->job.gone = c->line ? c->line->gone : NULL;
    c->job.done = on_job_done;
    c->job.arg = c;
    enum rc rc = sched_submit(c->s->sched, &c->job, &retry_s, &err);
    if (rc == RC_OK)
        return; /* it may be gone by now */
    answer(c, rc == RC_TIMEOUT ? too_large(c, &err) : overloaded(c, retry_s, &err));
}

/* ---- a new call */

static bool check_kind(struct call *c)
{
    const struct model *m = c->model->model;
    bool head = m->head != MODEL_HEAD_NONE;

    if (c->ask.what == ASK_RANK && (!head || m->labels != 1))
        return ask_fault(&c->fault, ASK_E_MODEL_KIND, "model", "model '%s' is not a reranker",
                         c->model->name);
    if (c->ask.what == ASK_CLASSES && !head)
        return ask_fault(&c->fault, ASK_E_MODEL_KIND, "model", "model '%s' is not a classifier",
                         c->model->name);
    if ((c->ask.what == ASK_VECTORS || c->ask.what == ASK_TOKENS) && head)
        return ask_fault(&c->fault, ASK_E_MODEL_KIND, "model",
                         "model '%s' gives scores, not vectors", c->model->name);
    if (c->ask.what == ASK_VECTORS && c->ask.dimensions > eng_dim(m))
        return ask_fault(&c->fault, ASK_E_INVALID, "dimensions",
                         "model '%s' gives %zu numbers, not %zu", c->model->name, eng_dim(m),
                         c->ask.dimensions);
    return true;
}

static void run_model(struct call *c, struct front_own *own)
{
    int64_t begun = clock_mono_ns();
    bool ok = check_kind(c);

    if (ok && (c->ask.what == ASK_IDS || c->ask.what == ASK_TEXTS)) {
        answer(c, call_tokenize(c, own));
        return;
    }
    c->job.want = c->ask.what == ASK_VECTORS  ? ENG_VECTORS
                  : c->ask.what == ASK_TOKENS ? ENG_TOKENS
                                              : ENG_SCORES;
    ok = ok && call_encode(c, own);
    c->tokenize_ns = clock_mono_ns() - begun;
    if (ok)
        submit(c);
    else
        answer(c, false);
}

static void park(struct call *c)
{
    struct front *f = c->s->front;
    bool full;

    c->stage = CALL_MODEL;
    pthread_mutex_lock(&f->lock);
    full = f->parked_count >= SERVE_PARKED_MAX;
    if (!full) {
        put(&f->parked, c);
        f->parked_count++;
    }
    pthread_mutex_unlock(&f->lock);
    if (full) {
        c->fault.retry_after_s = 1;
        answer(c, ask_fault(&c->fault, ASK_E_LOADING, "model", "the model is being loaded"));
    }
}

/* Of a text that the model would see the least part of: what comes behind costs time and changes
 * nothing, so the limit follows from the model's length. */
static bool texts_fit(struct call *c)
{
    size_t most = c->s->o.text_bytes_max, by_length = c->model->max_tokens * SERVE_TEXT_TOKEN_BYTES;
    size_t longest = c->ask.query.len;

    if (!most)
        most = by_length > SERVE_TEXT_BYTES_MIN ? by_length : SERVE_TEXT_BYTES_MIN;
    for (size_t i = 0; i < c->ask.count; i++) {
        const struct ask_input *in = &c->ask.inputs[i];

        longest = in->text.p && in->text.len > longest ? in->text.len : longest;
        longest = in->pair.p && in->pair.len > longest ? in->pair.len : longest;
    }
    if (longest <= most)
        return true;
    return ask_fault(&c->fault, ASK_E_TOO_LARGE, NULL,
                     "a text of %zu bytes, %zu at most for a model of %zu tokens (--text-max): cut "
                     "it into parts",
                     longest, most, (size_t)c->model->max_tokens);
}

/* What depends on the model, and the count, which that may change. */
static bool settle(struct call *c)
{
    if (c->api->settle && !c->api->settle(&c->ask, c->model->model, &c->fault))
        return false;
    if (c->ask.count > c->s->o.items_max)
        return ask_fault(&c->fault, ASK_E_TOO_MANY, NULL,
                         "%zu inputs in one call, %zu at most (--items-max)", c->ask.count,
                         c->s->o.items_max);
    return texts_fit(c);
}

static void find_model(struct call *c, struct front_own *own)
{
    struct err err = { 0 };

    if (is_late(c)) {
        answer(c, ask_fault(&c->fault, ASK_E_DEADLINE, NULL, "the deadline passed while %s",
                            c->stage == CALL_MODEL ? "the model was loading"
                                                   : "the request was read"));
        return;
    }
    switch (models_acquire(c->s->models, c->ask.model, c->ask.what, &c->model, &err)) {
    case MODELS_READY:
        if (settle(c))
            run_model(c, own);
        else
            answer(c, false);
        return;
    case MODELS_LOADING:
        park(c);
        return;
    case MODELS_NONE:
        (void)ask_fault(&c->fault, ASK_E_NO_MODEL, "model", "%s", err.msg);
        break;
    case MODELS_FAILED:
        (void)ask_fault(&c->fault, err.code == RC_LIMIT ? ASK_E_NO_MEMORY : ASK_E_BACKEND, "model",
                        "%s", err.msg);
        break;
    case MODELS_CHANGED:
        (void)ask_fault(&c->fault, ASK_E_CHANGED, "model", "%s", err.msg);
        break;
    }
    answer(c, false);
}

/* The body as a tree, which keeps nothing of the bytes. */
static bool read_body(struct call *c, struct json **out)
{
    const struct http_request *r = c->req;
    size_t most = c->s->o.body_bytes_max ? c->s->o.body_bytes_max : HTTP_BODY_BYTES_DEFAULT;
    struct buf plain;
    struct err err = { 0 };

    buf_init(&plain, most + 1);
    enum rc rc = is_packed(c) ? gzip_unpack(r->body, r->body_len, most, &plain, &err) : RC_OK;
    bool ok = rc == RC_OK && call_take_bytes(c, plain.len);

    if (rc == RC_LIMIT)
        (void)ask_fault(&c->fault, ASK_E_TOO_LARGE, NULL,
                        "the body is longer than %zu bytes when it is unpacked (--body-max)", most);
    else if (rc != RC_OK)
        (void)ask_fault(&c->fault, ASK_E_JSON, NULL, "the body cannot be unpacked: %s", err.msg);
    else if (ok && json_parse(&c->ask.arena, is_packed(c) ? buf_str(&plain) : r->body,
                              is_packed(c) ? plain.len : r->body_len, out, &err))
        ok = ask_fault(&c->fault, ASK_E_JSON, NULL, "the body cannot be read as JSON: %s", err.msg);
    if (ok && c->ask.arena.used_bytes > FRONT_SMALL_BODY_MAX) /* a value of 2 bytes takes 60 */
        ok = call_take_bytes(c, c->ask.arena.used_bytes);
    buf_release(&plain);
    return ok;
}

static bool parse(struct call *c)
{
    const struct http_request *r = c->req;
    struct json *body = NULL;

    c->ask.encodings = ASK_FLOAT;
    c->ask.norm_p = 2;
    if (!read_body(c, &body))
        return false;
    if (!c->api->parse(r, body, &c->ask, &c->fault))
        return false;
    if (c->line)
        c->ask.class = ASK_BULK;
    if (c->line && c->ask.encodings & ASK_OCTETS)
        return ask_fault(&c->fault, ASK_E_INVALID, "encoding_format",
                         "'octets' are not JSON, and this reply is a line of it");
    if (!c->ask.count)
        return ask_fault(&c->fault, ASK_E_EMPTY, NULL, "there are no inputs");
    return true;
}

static bool parse_timed(struct call *c)
{
    int64_t begun = clock_thread_ns();
    bool ok = parse(c);

    c->answer.times.parse = clock_thread_ns() - begun;
    return ok;
}

static void work(struct call *c, struct front_own *own)
{
    if (c->stage == CALL_FINISH)
        finish(c);
    else if (is_gone(c)) /* nobody waits: the reply goes nowhere */
        answer(c, ask_fault(&c->fault, ASK_E_DEADLINE, NULL, "the client went away"));
    else if (c->stage == CALL_PARSE && is_late(c)) /* its body is never unpacked */
        answer(c, ask_fault(&c->fault, ASK_E_DEADLINE, NULL,
                            "the deadline passed while the request waited for its turn"));
    else if (c->stage == CALL_MODEL || parse_timed(c))
        find_model(c, own);
    else
        answer(c, false);
}

static struct call *take_of(struct front *f, enum front_size size)
{
    struct call *c = take(&f->done[size]);

    return c ? c : take(&f->fresh[size]);
}

static struct call *take_next(struct front *f, enum front_size *out)
{
    bool may = f->large < f->large_max;
    enum front_size first =
        may && f->since_large >= FRONT_LARGE_EVERY - 1 ? FRONT_LARGE : FRONT_SMALL;
    struct call *c = take_of(f, first);

    *out = first;
    if (!c && (first == FRONT_LARGE || may)) {
        *out = first == FRONT_LARGE ? FRONT_SMALL : FRONT_LARGE;
        c = take_of(f, *out);
    }
    if (c)
        f->since_large = *out == FRONT_LARGE ? 0 : f->since_large + 1;
    return c;
}

static void *front_main(void *arg)
{
    struct front *f = arg;
    struct front_own own = { .scratch = tok_scratch_new() };
    enum front_size size;

    pthread_mutex_lock(&f->lock);
    for (;;) {
        struct call *c = take_next(f, &size);
        if (!c && f->stop)
            break;
        if (!c) {
            pthread_cond_wait(&f->more, &f->lock);
            continue;
        }
        f->large += size == FRONT_LARGE;
        pthread_mutex_unlock(&f->lock);
        work(c, &own);
        pthread_mutex_lock(&f->lock);
        f->large -= size == FRONT_LARGE;
    }
    pthread_mutex_unlock(&f->lock);
    tok_scratch_free(own.scratch);
    buf_release(&own.prepared);
    return NULL;
}

/* ---- from outside */

/* On the loop's thread, before http_reply() has returned: the call is alive. */
static void on_gone(void *arg)
{
    struct call *c = arg;

    atomic_store(&c->job.cancelled, true);
}

void front_take(struct front *f, const struct api *api, struct http_exchange *x)
{
    struct call *c = xcalloc(1, sizeof(*c));

    atomic_fetch_add(&f->open, 1);
    c->s = f->s;
    c->x = x;
    c->req = http_request(x);
    c->api = api;
    c->stage = CALL_PARSE;
    set_deadline(c);
    http_on_gone(x, on_gone, c);
    if (alone(c))
        work(c, &f->own);
    else
        push(f, f->fresh, c);
}

void front_take_line(struct front *f, struct call_line *l)
{
    struct call *c = xcalloc(1, sizeof(*c));

    atomic_fetch_add(&f->open, 1);
    c->s = f->s;
    c->line = l;
    c->req = &l->req;
    c->api = l->api;
    c->stage = CALL_PARSE;
    set_deadline(c);
    push(f, f->fresh, c);
}

void front_wake_parked(struct front *f)
{
    pthread_mutex_lock(&f->lock);
    for (struct call *c; (c = take(&f->parked));)
        put(&f->fresh[size_of(c)], c);
    f->parked_count = 0;
    pthread_cond_broadcast(&f->more);
    pthread_mutex_unlock(&f->lock);
}

enum rc front_new(struct serve *s, size_t threads, struct front **out, struct err *err)
{
    struct front *f = xcalloc(1, sizeof(*f) + threads * sizeof(f->ids[0]));

    assert(threads && threads <= SERVE_FRONT_THREADS_MAX);
    f->s = s;
    f->large_max = threads > 1 ? threads - 1 : 1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->more, NULL);
    for (size_t i = 0; i < FRONT_SIZES; i++) {
        queue_init(&f->done[i]);
        queue_init(&f->fresh[i]);
    }
    queue_init(&f->parked);
    f->own.scratch = tok_scratch_new();
    for (; f->threads < threads; f->threads++)
        if (pthread_create(&f->ids[f->threads], NULL, front_main, f) != 0)
            break;
    if (!f->threads) {
        front_free(f);
        return err_set(err, RC_FAIL, "could not start a thread for requests");
    }
    *out = f;
    return RC_OK;
}

void front_free(struct front *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->more);
    pthread_mutex_unlock(&f->lock);
    for (size_t i = 0; i < f->threads; i++)
        (void)pthread_join(f->ids[i], NULL);
    for (struct call *c; (c = take(&f->parked));) /* their model never came */
        answer(c, ask_fault(&c->fault, ASK_E_STOPPING, NULL, "the server is stopping"));
    tok_scratch_free(f->own.scratch);
    buf_release(&f->own.prepared);
    pthread_cond_destroy(&f->more);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

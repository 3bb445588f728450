/* SPDX-License-Identifier: MIT */
/* frontend: the threads that take requests from the HTTP loop, hand them to the scheduler, and
 * answer.
 *
 * What was computed goes before what is new: a response that is ready frees memory and a client; a
 * new request only adds to the queue.  One whose model is being loaded is parked, so that no thread
 * waits for a disk.
 *
 * Megabytes take long to parse, to tokenise and to write.  So large requests have queues of their
 * own, one thread never takes them, and the others take one after some small ones at the latest.
 *
 * A wake-up of another thread takes as long as all the rest of a short request.  So the only
 * request of an idle server stays where it is: the loop's thread submits it, the device queue's
 * thread writes its response.  Both are short by the limits below, and nobody else waits for
 * either. */
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
    FRONTEND_ALONE_BODY_MAX = 4 << 10,    /* bytes of a request that skips the frontend threads */
    FRONTEND_ALONE_FLOATS_MAX = 4 << 10,  /* numbers of its answer */
    FRONTEND_SMALL_BODY_MAX = 64 << 10,   /* bytes of a request that is not large */
    FRONTEND_SMALL_FLOATS_MAX = 64 << 10, /* numbers of its answer */
    FRONTEND_LARGE_EVERY = 8              /* requests: one of so many is large where both wait */
};

enum frontend_size { FRONTEND_SMALL, FRONTEND_LARGE, FRONTEND_SIZES };

struct request_queue {
    struct request *first, **last;
};

struct frontend {
    struct serve *s;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct request_queue done[FRONTEND_SIZES], fresh[FRONTEND_SIZES], parked;
    size_t parked_count;
    size_t large_max;     /* threads that may have a large request at once */
    size_t large;         /* threads that have a large request */
    unsigned since_large; /* requests taken since one was large */
    bool stop;
    _Atomic size_t open;             /* requests that are not answered */
    struct frontend_scratch scratch; /* the loop's thread's */
    size_t threads;
    pthread_t ids[];
};

static void queue_put(struct request_queue *q, struct request *r)
{
    r->next = NULL;
    *q->last = r;
    q->last = &r->next;
}

static struct request *queue_take(struct request_queue *q)
{
    struct request *r = q->first;

    if (r && !(q->first = r->next))
        q->last = &q->first;
    return r;
}

static void queue_init(struct request_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static bool is_gone(const struct request *r)
{
    return r->x ? http_gone(r->x) : atomic_load(r->line->gone);
}

/* Known before the body is read: who waits too long for that is answered without. */
static void set_deadline(struct request *r)
{
    r->deadline_ns = r->http->begun_ns + (int64_t)r->s->o.timeout_ms * 1000000;
    r->timeout_max_ns = (int64_t)r->s->o.timeout_max_ms * 1000000;
    if (r->line)
        r->deadline_ns = r->line->deadline_ns;
    else
        (void)api_timeout(r); /* a fault is told when the body is read */
}

static bool is_late(const struct request *r)
{
    return clock_mono_ns() > r->deadline_ns;
}

/* Its body is as long as it says only when it is not packed. */
static bool is_packed(const struct request *r)
{
    const char *coding = r->line ? NULL : http_field(r->http, "content-encoding");

    return coding && strcasestr(coding, "gzip"); /* the HTTP server lets no other through */
}

/* Is it the only request, and a short one? */
static bool is_alone(const struct request *r)
{
    return !r->line && atomic_load(&r->s->frontend->open) == 1 && !is_packed(r) &&
           r->http->body_len <= FRONTEND_ALONE_BODY_MAX &&
           r->row_count * r->full_width <= FRONTEND_ALONE_FLOATS_MAX;
}

static enum frontend_size size_of(const struct request *r)
{
    return r->line || is_packed(r) || r->http->body_len > FRONTEND_SMALL_BODY_MAX ||
                   r->row_count * r->full_width > FRONTEND_SMALL_FLOATS_MAX
               ? FRONTEND_LARGE
               : FRONTEND_SMALL;
}

/* `queues`: by size. */
static void push_request(struct frontend *f, struct request_queue *queues, struct request *r)
{
    pthread_mutex_lock(&f->lock);
    queue_put(&queues[size_of(r)], r);
    pthread_cond_signal(&f->more);
    pthread_mutex_unlock(&f->lock);
}

/* ---- answering */

static void request_free(struct request *r)
{
    if (r->model)
        served_release(r->model);
    free(r->rows);
    request_give_bytes(r);
    arena_release(&r->arena);
    free(r);
}

/* "NAME@DIGEST"; of a name what is no plain ASCII is written as in a URL. */
static void model_field(const struct request *r, struct buf *out)
{
    const char *digest = r->fell_back ? fallback_digest(r->model) : r->model->digest;

    buf_adds(out, "x-stoker-model: ");
    for (const char *p = r->model->name; *p; p++)
        if (*p > ' ' && *p < 0x7f && *p != '%')
            buf_addc(out, *p);
        else
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)*p);
    buf_addf(out, "@%s\r\n", digest);
}

/* The fields that TEI's clients know, and ours. */
static void reply_fields(const struct request *r, bool ok, struct buf *out)
{
    const struct response_times *t = &r->response.times;

    if (r->model)
        model_field(r, out);
    if (r->fault.retry_after_s)
        buf_addf(out, "Retry-After: %d\r\n", r->fault.retry_after_s);
    if (!r->texts)
        return;
    buf_addf(out,
             "x-compute-type: %s\r\nx-compute-tokens: %" PRIu64 "\r\n"
             "x-total-time: %" PRId64 "\r\nx-tokenization-time: %" PRId64 "\r\n"
             "x-queue-time: %" PRId64 "\r\nx-inference-time: %" PRId64 "\r\n",
             r->response.device ? r->response.device : "cpu", r->response.tokens_total,
             t->total / 1000000, t->tokenize / 1000000, t->queue / 1000000, t->run / 1000000);
    if (r->response.device && r->fell_back)
        buf_addf(out, "x-stoker-device: %s; fallback-from=%s\r\n", r->response.device,
                 r->failed_device);
    if (ok && r->api->fields)
        r->api->fields(r, out);
}

static void log_request(const struct request *r, int status, size_t bytes_out)
{
    const struct http_request *http = r->http;
    const struct response_times *t = &r->response.times;
    struct access_record a = { .unix_ms = clock_unix_ms(),
                               .id = http->id,
                               .method = "POST",
                               .error = status >= 400 ? stats_error_name(r->fault.kind) : NULL,
                               .status = status,
                               .gone = is_gone(r),
                               .items = r->count,
                               .tokens = r->response.tokens_total,
                               .bytes_in = http->body_len,
                               .bytes_out = bytes_out,
                               .queue_ns = r->submitted_ns ? t->queue : -1,
                               .run_ns = r->submitted_ns ? t->run : -1,
                               .total_ns = t->total };

    access_text(a.peer, sizeof(a.peer), http->peer);
    access_text(a.path, sizeof(a.path), http->path);
    access_names(&a, http_field(http, "x-request-id"), http_field(http, "traceparent"));
    access_text(a.model, sizeof(a.model), r->model ? r->model->name : "");
    (void)access_put(r->s->access, &a);
}

static void send_response(struct request *r, bool ok)
{
    struct buf body, fields = { 0 };
    const char *type = "application/json";
    int status = 200;

    buf_init(&body, SERVE_REPLY_BYTES_MAX);
    r->response.times.total = clock_mono_ns() - r->http->begun_ns;
    r->response.unix_s = clock_unix_s();
    if (ok && (r->line || !is_gone(r))) {
        int64_t begun = clock_thread_ns();
        type = api_write(r, &body);
        r->response.times.write = clock_thread_ns() - begun;
        if (body.over) {
            buf_release(&body);
            ok = request_fail(r, FAULT_TOO_MANY, NULL,
                              "the reply is larger than %d bytes: ask for less at a time",
                              SERVE_REPLY_BYTES_MAX);
        }
    }
    if (!ok) {
        type = "application/json";
        status = api_error(r->api->family, &r->fault, &body);
    }
    reply_fields(r, ok, &fields);
    stats_request(r->s->stats, r, status);
    te_metrics_request(r->s->te, r, status);
    if (r->s->access && !r->line)
        log_request(r, status, body.len);
    atomic_fetch_sub(&r->s->frontend->open, 1); /* its client may ask again before this returns */
    if (r->line)
        r->line->done(r->line, status, &body, status == 200 ? NULL : &r->fault);
    else
        http_reply(r->x, status, type, &body, buf_str(&fields));
    buf_release(&fields);
    buf_release(&body);
    request_free(r);
}

/* ---- what the scheduler says */

/* The engine counts within what it ran; a client counts the inputs of its scratch. */
static bool engine_failed(struct request *r)
{
    const char *why = r->err.msg[0] ? r->err.msg : "the engine failed";
    size_t i = 0;

    while (i < r->count && !r->texts[i].failed)
        i++;
    if (i == r->count)
        return request_fail(r, FAULT_BACKEND, NULL, "%s", why);
    if (str_starts(why, "sequence ") && strstr(why, ": "))
        why = strstr(why, ": ") + 2;
    return request_fail(r, FAULT_BACKEND, NULL, "input %zu: %s", i, why);
}

/* It would not end in time if it were alone: another time is as good as now. */
static bool refuse_too_large(struct request *r, const struct err *err)
{
    return request_fail(r, FAULT_TOO_LARGE, NULL,
                        "the request is too large for its time: %s: send fewer texts at a time, or "
                        "x-request-timeout up to %d s (--timeout-max)",
                        err->msg, r->s->o.timeout_max_ms / 1000);
}

/* Alone it would have ended in time: another time is better. */
static bool refuse_overloaded(struct request *r, int retry_s, const struct err *err)
{
    r->fault.retry_after_s = retry_s ? retry_s : 1;
    return request_fail(r, FAULT_OVERLOADED, NULL, "model '%s' is overloaded: %s", r->model->name,
                        err->msg);
}

static bool computing_failed(struct request *r)
{
    if (r->why == RC_TIMEOUT && r->err.msg[0])
        return refuse_too_large(r, &r->err);
    if (r->why == RC_TIMEOUT)
        return request_fail(r, FAULT_DEADLINE, NULL, "the deadline passed");
    if (r->why == RC_LIMIT && r->err.code == RC_LIMIT)
        return refuse_overloaded(r, 0, &r->err);
    if (r->why == RC_LIMIT)
        return request_fail(r, atomic_load(&r->s->stopping) ? FAULT_STOPPING : FAULT_DEADLINE, NULL,
                            "the request was cancelled");
    return engine_failed(r);
}

static void finish_request(struct request *r)
{
    r->response.times.tokenize = r->tokenize_ns;
    r->response.times.queue = r->started_ns ? r->started_ns - r->submitted_ns : 0;
    r->response.times.run = r->started_ns ? r->ended_ns - r->started_ns : 0;
    send_response(r, r->why == RC_OK ? request_finish(r) : computing_failed(r));
}

/* On the device queue's thread, or on the submitter's when the cache had it all. */
static void on_computed(struct request *r)
{
    r->stage = REQUEST_FINISH;
    if (is_alone(r))
        finish_request(r);
    else
        push_request(r->s->frontend, r->s->frontend->done, r);
}

void request_owner(const struct http_request *http, char out[REQUEST_OWNER_BYTES])
{
    const char *token = http->proven ? "" : http_field(http, "authorization");
    const char *key = token ? token : http->peer, *end = token ? NULL : strrchr(key, ':');
    uint8_t sum[SHA256_BYTES];
    struct sha256 h;

    static_assert((int)REQUEST_OWNER_BYTES == (int)SHA256_HEX, "it is the hash as text");
    sha256_init(&h);
    sha256_add(&h, token ? "token " : "address ", token ? 6 : 8);
    sha256_add(&h, key, end ? (size_t)(end - key) : strlen(key));
    sha256_end(&h, sum);
    (void)sha256_hex(sum, out);
}

uint64_t request_client(const char owner[REQUEST_OWNER_BYTES])
{
    char first[17];
    uint64_t n = 0;

    memcpy(first, owner, 16);
    first[16] = '\0';
    (void)str_to_u64(first, 16, &n);
    return n;
}

static uint64_t client_of(const struct request *r)
{
    char owner[REQUEST_OWNER_BYTES];

    if (r->line)
        return r->line->client;
    request_owner(r->http, owner);
    return request_client(owner);
}

static void submit_request(struct request *r)
{
    int retry_s = 0;
    struct err err = { 0 };

    r->client = client_of(r);
    r->begun_ns = r->http->begun_ns;
    r->gone = r->line ? r->line->gone : NULL;
    r->done = on_computed;
    enum rc rc = sched_submit(r->s->sched, r, &retry_s, &err);
    if (rc == RC_OK)
        return; /* it may be gone by now */
    send_response(r, rc == RC_TIMEOUT ? refuse_too_large(r, &err)
                                      : refuse_overloaded(r, retry_s, &err));
}

/* ---- a new request */

static bool check_kind(struct request *r)
{
    const struct model *m = r->model->model;
    bool head = m->head != MODEL_HEAD_NONE;

    if (r->what == REQUEST_RANK && (!head || m->labels != 1))
        return request_fail(r, FAULT_MODEL_KIND, "model", "model '%s' is not a reranker",
                            r->model->name);
    if (r->what == REQUEST_CLASSES && !head)
        return request_fail(r, FAULT_MODEL_KIND, "model", "model '%s' is not a classifier",
                            r->model->name);
    if ((r->what == REQUEST_VECTORS || r->what == REQUEST_TOKENS) && head)
        return request_fail(r, FAULT_MODEL_KIND, "model", "model '%s' gives scores, not vectors",
                            r->model->name);
    if (r->what == REQUEST_VECTORS && r->dimensions > eng_dim(m))
        return request_fail(r, FAULT_INVALID, "dimensions", "model '%s' gives %zu numbers, not %zu",
                            r->model->name, eng_dim(m), r->dimensions);
    return true;
}

static void compute_request(struct request *r, struct frontend_scratch *scratch)
{
    int64_t begun = clock_mono_ns();
    bool ok = check_kind(r);

    if (ok && (r->what == REQUEST_IDS || r->what == REQUEST_TEXTS)) {
        send_response(r, request_tokenize(r, scratch));
        return;
    }
    r->want = r->what == REQUEST_VECTORS  ? ENG_VECTORS
              : r->what == REQUEST_TOKENS ? ENG_TOKENS
                                          : ENG_SCORES;
    ok = ok && request_encode(r, scratch);
    r->tokenize_ns = clock_mono_ns() - begun;
    if (ok)
        submit_request(r);
    else
        send_response(r, false);
}

static void park_request(struct request *r)
{
    struct frontend *f = r->s->frontend;
    bool full;

    r->stage = REQUEST_MODEL;
    pthread_mutex_lock(&f->lock);
    full = f->parked_count >= SERVE_PARKED_MAX;
    if (!full) {
        queue_put(&f->parked, r);
        f->parked_count++;
    }
    pthread_mutex_unlock(&f->lock);
    if (full) {
        r->fault.retry_after_s = 1;
        send_response(r, request_fail(r, FAULT_LOADING, "model", "the model is being loaded"));
    }
}

/* Of a text that the model would see the least part of: what comes behind costs time and changes
 * nothing, so the limit follows from the model's length. */
static bool texts_fit(struct request *r)
{
    size_t most = r->s->o.text_bytes_max, by_length = r->model->max_tokens * SERVE_TEXT_TOKEN_BYTES;
    size_t longest = r->query.len;

    if (!most)
        most = by_length > SERVE_TEXT_BYTES_MIN ? by_length : SERVE_TEXT_BYTES_MIN;
    for (size_t i = 0; i < r->count; i++) {
        const struct request_input *in = &r->inputs[i];

        longest = in->text.p && in->text.len > longest ? in->text.len : longest;
        longest = in->pair.p && in->pair.len > longest ? in->pair.len : longest;
    }
    if (longest <= most)
        return true;
    return request_fail(
        r, FAULT_TOO_LARGE, NULL,
        "a text of %zu bytes, %zu at most for a model of %zu tokens (--text-max): cut "
        "it into parts",
        longest, most, (size_t)r->model->max_tokens);
}

/* What depends on the model, and the count, which that may change. */
static bool settle_request(struct request *r)
{
    if (r->api->settle && !r->api->settle(r, r->model->model))
        return false;
    if (r->count > r->s->o.items_max)
        return request_fail(r, FAULT_TOO_MANY, NULL,
                            "%zu inputs in one call, %zu at most (--items-max)", r->count,
                            r->s->o.items_max);
    return texts_fit(r);
}

static void find_model(struct request *r, struct frontend_scratch *scratch)
{
    struct err err = { 0 };

    if (is_late(r)) {
        send_response(r, request_fail(r, FAULT_DEADLINE, NULL, "the deadline passed while %s",
                                      r->stage == REQUEST_MODEL ? "the model was loading"
                                                                : "the request was read"));
        return;
    }
    switch (models_acquire(r->s->models, r->model_name, r->what, &r->model, &err)) {
    case MODELS_READY:
        if (settle_request(r))
            compute_request(r, scratch);
        else
            send_response(r, false);
        return;
    case MODELS_LOADING:
        park_request(r);
        return;
    case MODELS_NONE:
        (void)request_fail(r, FAULT_NO_MODEL, "model", "%s", err.msg);
        break;
    case MODELS_FAILED:
        (void)request_fail(r, err.code == RC_LIMIT ? FAULT_NO_MEMORY : FAULT_BACKEND, "model", "%s",
                           err.msg);
        break;
    case MODELS_CHANGED:
        (void)request_fail(r, FAULT_CHANGED, "model", "%s", err.msg);
        break;
    }
    send_response(r, false);
}

/* The body as a tree, which keeps nothing of the bytes. */
static bool read_body(struct request *r, struct json **out)
{
    const struct http_request *http = r->http;
    size_t most = r->s->o.body_bytes_max ? r->s->o.body_bytes_max : HTTP_BODY_BYTES_DEFAULT;
    struct buf plain;
    struct err err = { 0 };

    buf_init(&plain, most + 1);
    enum rc rc = is_packed(r) ? gzip_unpack(http->body, http->body_len, most, &plain, &err) : RC_OK;
    bool ok = rc == RC_OK && request_take_bytes(r, plain.len);

    if (rc == RC_LIMIT)
        (void)request_fail(r, FAULT_TOO_LARGE, NULL,
                           "the body is longer than %zu bytes when it is unpacked (--body-max)",
                           most);
    else if (rc != RC_OK)
        (void)request_fail(r, FAULT_JSON, NULL, "the body cannot be unpacked: %s", err.msg);
    else if (ok && json_parse(&r->arena, is_packed(r) ? buf_str(&plain) : http->body,
                              is_packed(r) ? plain.len : http->body_len, out, &err))
        ok = request_fail(r, FAULT_JSON, NULL, "the body cannot be read as JSON: %s", err.msg);
    if (ok && r->arena.used_bytes > FRONTEND_SMALL_BODY_MAX) /* a value of 2 bytes takes 60 */
        ok = request_take_bytes(r, r->arena.used_bytes);
    buf_release(&plain);
    return ok;
}

static bool parse_request(struct request *r)
{
    struct json *body = NULL;

    r->encodings = API_FLOAT;
    r->norm_p = 2;
    if (!read_body(r, &body))
        return false;
    if (!r->api->parse(r, body))
        return false;
    if (r->line)
        r->class = REQUEST_BULK;
    if (r->line && r->encodings & API_OCTETS)
        return request_fail(r, FAULT_INVALID, "encoding_format",
                            "'octets' are not JSON, and this reply is a line of it");
    if (!r->count)
        return request_fail(r, FAULT_EMPTY, NULL, "there are no inputs");
    return true;
}

static bool parse_timed(struct request *r)
{
    int64_t begun = clock_thread_ns();
    bool ok = parse_request(r);

    r->response.times.parse = clock_thread_ns() - begun;
    return ok;
}

static void advance_request(struct request *r, struct frontend_scratch *scratch)
{
    if (r->stage == REQUEST_FINISH)
        finish_request(r);
    else if (is_gone(r)) /* nobody waits: the reply goes nowhere */
        send_response(r, request_fail(r, FAULT_DEADLINE, NULL, "the client went away"));
    else if (r->stage == REQUEST_PARSE && is_late(r)) /* its body is never unpacked */
        send_response(r, request_fail(r, FAULT_DEADLINE, NULL,
                                      "the deadline passed while the request waited for its turn"));
    else if (r->stage == REQUEST_MODEL || parse_timed(r))
        find_model(r, scratch);
    else
        send_response(r, false);
}

static struct request *take_of(struct frontend *f, enum frontend_size size)
{
    struct request *r = queue_take(&f->done[size]);

    return r ? r : queue_take(&f->fresh[size]);
}

static struct request *take_next(struct frontend *f, enum frontend_size *out)
{
    bool may = f->large < f->large_max;
    enum frontend_size first =
        may && f->since_large >= FRONTEND_LARGE_EVERY - 1 ? FRONTEND_LARGE : FRONTEND_SMALL;
    struct request *r = take_of(f, first);

    *out = first;
    if (!r && (first == FRONTEND_LARGE || may)) {
        *out = first == FRONTEND_LARGE ? FRONTEND_SMALL : FRONTEND_LARGE;
        r = take_of(f, *out);
    }
    if (r)
        f->since_large = *out == FRONTEND_LARGE ? 0 : f->since_large + 1;
    return r;
}

static void *frontend_main(void *arg)
{
    struct frontend *f = arg;
    struct frontend_scratch scratch = { .tok = tok_scratch_new() };
    enum frontend_size size;

    pthread_mutex_lock(&f->lock);
    for (;;) {
        struct request *r = take_next(f, &size);
        if (!r && f->stop)
            break;
        if (!r) {
            pthread_cond_wait(&f->more, &f->lock);
            continue;
        }
        f->large += size == FRONTEND_LARGE;
        pthread_mutex_unlock(&f->lock);
        advance_request(r, &scratch);
        pthread_mutex_lock(&f->lock);
        f->large -= size == FRONTEND_LARGE;
    }
    pthread_mutex_unlock(&f->lock);
    tok_scratch_free(scratch.tok);
    buf_release(&scratch.prepared);
    return NULL;
}

/* ---- from outside */

/* On the loop's thread, before http_reply() has returned: the request is alive. */
static void on_gone(void *arg)
{
    struct request *r = arg;

    atomic_store(&r->cancelled, true);
}

void frontend_take(struct frontend *f, const struct serve_route *api, struct http_exchange *x)
{
    struct request *r = xcalloc(1, sizeof(*r));

    atomic_fetch_add(&f->open, 1);
    r->s = f->s;
    r->x = x;
    r->http = http_request(x);
    r->api = api;
    r->stage = REQUEST_PARSE;
    set_deadline(r);
    http_on_gone(x, on_gone, r);
    if (is_alone(r))
        advance_request(r, &f->scratch);
    else
        push_request(f, f->fresh, r);
}

void frontend_take_line(struct frontend *f, struct request_line *l)
{
    struct request *r = xcalloc(1, sizeof(*r));

    atomic_fetch_add(&f->open, 1);
    r->s = f->s;
    r->line = l;
    r->http = &l->http;
    r->api = l->api;
    r->stage = REQUEST_PARSE;
    set_deadline(r);
    push_request(f, f->fresh, r);
}

void frontend_wake_parked(struct frontend *f)
{
    pthread_mutex_lock(&f->lock);
    for (struct request *r; (r = queue_take(&f->parked));)
        queue_put(&f->fresh[size_of(r)], r);
    f->parked_count = 0;
    pthread_cond_broadcast(&f->more);
    pthread_mutex_unlock(&f->lock);
}

enum rc frontend_new(struct serve *s, size_t threads, struct frontend **out, struct err *err)
{
    struct frontend *f = xcalloc(1, sizeof(*f) + threads * sizeof(f->ids[0]));

    assert(threads && threads <= SERVE_FRONTEND_THREADS_MAX);
    f->s = s;
    f->large_max = threads > 1 ? threads - 1 : 1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->more, NULL);
    for (size_t i = 0; i < FRONTEND_SIZES; i++) {
        queue_init(&f->done[i]);
        queue_init(&f->fresh[i]);
    }
    queue_init(&f->parked);
    f->scratch.tok = tok_scratch_new();
    for (; f->threads < threads; f->threads++)
        if (pthread_create(&f->ids[f->threads], NULL, frontend_main, f) != 0)
            break;
    if (!f->threads) {
        frontend_free(f);
        return err_set(err, RC_FAIL, "could not start a thread for requests");
    }
    *out = f;
    return RC_OK;
}

void frontend_free(struct frontend *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->more);
    pthread_mutex_unlock(&f->lock);
    for (size_t i = 0; i < f->threads; i++)
        (void)pthread_join(f->ids[i], NULL);
    for (struct request *r; (r = queue_take(&f->parked));) /* their model never came */
        send_response(r, request_fail(r, FAULT_STOPPING, NULL, "the server is stopping"));
    tok_scratch_free(f->scratch.tok);
    buf_release(&f->scratch.prepared);
    pthread_cond_destroy(&f->more);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

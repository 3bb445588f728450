/* SPDX-License-Identifier: MIT */
/* te_metrics: see te_metrics_int.h.  Names, labels and buckets are those of TEI 1.9
 * (router/src/prometheus.rs, core/src/infer.rs, core/src/queue.rs).
 *
 * As there, a request counts once with its method, and each of its inputs once in te_embed_… or,
 * classes and ranks, in te_predict_…; durations are of what succeeded.  The inputs of a request
 * share its times.  Series are there from the start, with 0. */
#include "serve/admin/te_metrics_int.h"

#include "base/mem.h"
#include "serve/serve_int.h"

enum {
    TE_DURATION_BUCKETS = 35, /* 10 us times 1.5, and so on */
    TE_LENGTH_BUCKETS = 20,   /* powers of two from 1; TEI leaves out those above the model's */
    TE_SIZE_BUCKETS = 13,
    TE_TOKEN_BUCKETS = 21
};

struct te_times {
    struct histogram *duration, *tokenize, *queue, *run;
};

/* What it has twice: inputs that became vectors, and inputs that became scores. */
struct te_inputs {
    struct counter *count, *success;
    struct te_times times;
};

struct te_metrics {
    struct metrics_family *count, *success; /* by method */
    struct metrics_family *failure;         /* by err */
    struct te_times times;
    struct histogram *length;
    struct te_inputs embed, predict;
    struct histogram *batch_size, *batch_tokens;
    struct gauge *queue_size;
};

static const char *const methods[] = { "single", "batch" };
static const char *const failures[] = { "batch_size", "dropped",      "inference", "model_type",
                                        "overloaded", "tokenization", "validation" };

/* TEI's words for what went wrong. */
static const char *failure_of(enum fault_kind e)
{
    switch (e) {
    case FAULT_OVERLOADED:
        return "overloaded";
    case FAULT_TOO_MANY:
    case FAULT_TOO_LARGE:
        return "batch_size";
    case FAULT_TOKENIZER:
        return "tokenization";
    case FAULT_BACKEND:
    case FAULT_NO_MEMORY:
    case FAULT_CHANGED:
        return "inference";
    case FAULT_MODEL_KIND:
        return "model_type";
    case FAULT_DEADLINE:
        return "dropped";
    default:
        return "validation";
    }
}

static struct histogram *seconds_of(struct metrics *m, const char *name, const char *help)
{
    double bounds[TE_DURATION_BUCKETS], at = 0.00001;

    for (size_t i = 0; i < TE_DURATION_BUCKETS; i++)
        bounds[i] = at *= 1.5;
    return metrics_histogram(
        metrics_family(m, METRICS_HISTOGRAM, name, help, NULL, bounds, TE_DURATION_BUCKETS));
}

static struct histogram *powers_of(struct metrics *m, const char *name, const char *help,
                                   size_t count)
{
    double bounds[METRICS_BUCKETS_MAX];

    for (size_t i = 0; i < count; i++)
        bounds[i] = (double)(1u << i);
    return metrics_histogram(metrics_family(m, METRICS_HISTOGRAM, name, help, NULL, bounds, count));
}

static void make_requests(struct te_metrics *t, struct metrics *m)
{
    t->count = metrics_counters(m, "te_request_count", "Requests.", "method");
    t->success = metrics_counters(m, "te_request_success", "Requests answered.", "method");
    t->failure = metrics_counters(m, "te_request_failure", "Requests refused or failed.", "err");
    t->times.duration = seconds_of(m, "te_request_duration", "Seconds a request took.");
    t->times.tokenize =
        seconds_of(m, "te_request_tokenization_duration", "Seconds of tokenising a request.");
    t->times.queue = seconds_of(m, "te_request_queue_duration", "Seconds a request waited.");
    t->times.run =
        seconds_of(m, "te_request_inference_duration", "Seconds of a request's batches.");
    t->length = powers_of(m, "te_request_input_length", "Tokens of an input.", TE_LENGTH_BUCKETS);
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        (void)metrics_counter(t->count, methods[i]);
        (void)metrics_counter(t->success, methods[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
        (void)metrics_counter(t->failure, failures[i]);
}

struct te_metrics *te_metrics_new(struct metrics *m)
{
    struct te_metrics *t = xcalloc(1, sizeof(*t));

    make_requests(t, m);
    t->embed = (struct te_inputs){
        metrics_counter(metrics_counters(m, "te_embed_count", "Inputs for vectors.", NULL)),
        metrics_counter(
            metrics_counters(m, "te_embed_success", "Inputs that became vectors.", NULL)),
        { seconds_of(m, "te_embed_duration", "Seconds an input for a vector took."),
          seconds_of(m, "te_embed_tokenization_duration", "Seconds of tokenising it."),
          seconds_of(m, "te_embed_queue_duration", "Seconds it waited."),
          seconds_of(m, "te_embed_inference_duration", "Seconds of its batches.") },
    };
    t->predict = (struct te_inputs){
        metrics_counter(metrics_counters(m, "te_predict_count", "Inputs for scores.", NULL)),
        metrics_counter(
            metrics_counters(m, "te_predict_success", "Inputs that became scores.", NULL)),
        { seconds_of(m, "te_predict_duration", "Seconds an input for a score took."),
          seconds_of(m, "te_predict_tokenization_duration", "Seconds of tokenising it."),
          seconds_of(m, "te_predict_queue_duration", "Seconds it waited."),
          seconds_of(m, "te_predict_inference_duration", "Seconds of its batches.") },
    };
    t->batch_size = powers_of(m, "te_batch_next_size", "Texts of a batch.", TE_SIZE_BUCKETS);
    t->batch_tokens = powers_of(m, "te_batch_next_tokens", "Tokens of a batch.", TE_TOKEN_BUCKETS);
    t->queue_size = metrics_gauge(metrics_gauges(m, "te_queue_size", "Texts that wait.", NULL));
    gauge_set(t->queue_size, 0);
    return t;
}

void te_metrics_free(struct te_metrics *t)
{
    free(t);
}

static double in_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static void add_times(const struct te_times *t, const struct request *r, size_t n)
{
    const struct response_times *spent = &r->response.times;

    histogram_add_many(t->duration, in_seconds(spent->total), n);
    histogram_add_many(t->tokenize, in_seconds(spent->tokenize), n);
    histogram_add_many(t->queue, in_seconds(spent->queue), n);
    histogram_add_many(t->run, in_seconds(spent->run), n);
}

void te_metrics_request(struct te_metrics *t, const struct request *r, int status)
{
    const char *method = methods[!r->single];
    bool vectors = r->what == REQUEST_VECTORS || r->what == REQUEST_TOKENS, ok = status < 400;

    if (!t)
        return;
    const struct te_inputs *in = vectors ? &t->embed : &t->predict;
    if (!ok)
        counter_add(metrics_counter(t->failure, failure_of(r->fault.kind)), 1);
    if (r->what == REQUEST_IDS || r->what == REQUEST_TEXTS)
        return; /* TEI counts what its model computes */
    counter_add(metrics_counter(t->count, method), 1);
    if (r->model)
        counter_add(in->count, r->count);
    if (!ok)
        return;
    counter_add(in->success, r->count);
    add_times(&in->times, r, r->count);
    counter_add(metrics_counter(t->success, method), 1);
    add_times(&t->times, r, 1);
    for (size_t i = 0; i < r->count; i++)
        histogram_add(t->length, (double)r->texts[i].tokens);
}

void te_metrics_batch(struct te_metrics *t, size_t texts, size_t tokens)
{
    if (!t)
        return;
    histogram_add(t->batch_size, (double)texts);
    histogram_add(t->batch_tokens, (double)tokens);
}

void te_metrics_wait(struct te_metrics *t, int texts)
{
    if (t)
        gauge_add(t->queue_size, texts);
}

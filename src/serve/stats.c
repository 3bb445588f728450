/* SPDX-License-Identifier: MIT */
#include "serve/stats.h"

#include "base/mem.h"
#include "os/clock.h"
#include "serve/call.h"

#include <stdio.h>

static const char *const error_names[] = {
    [ASK_E_JSON] = "json",         [ASK_E_EMPTY] = "empty",         [ASK_E_INVALID] = "invalid",
    [ASK_E_TOO_LONG] = "too_long", [ASK_E_TOO_MANY] = "too_many",   [ASK_E_NO_MODEL] = "no_model",
    [ASK_E_MODEL_KIND] = "kind",   [ASK_E_LOADING] = "loading",     [ASK_E_OVERLOADED] = "overload",
    [ASK_E_DEADLINE] = "deadline", [ASK_E_TOKENIZER] = "tokenizer", [ASK_E_BACKEND] = "backend",
    [ASK_E_NO_MEMORY] = "memory",  [ASK_E_STOPPING] = "stopping",   [ASK_E_TOO_LARGE] = "too_large",
};

/* TEI's words for what went wrong. */
static const char *te_error(enum ask_error e)
{
    switch (e) {
    case ASK_E_OVERLOADED:
        return "overloaded";
    case ASK_E_TOO_MANY:
    case ASK_E_TOO_LARGE:
        return "batch_size";
    case ASK_E_TOKENIZER:
        return "tokenization";
    case ASK_E_BACKEND:
    case ASK_E_NO_MEMORY:
        return "inference";
    case ASK_E_MODEL_KIND:
        return "model_type";
    case ASK_E_DEADLINE:
        return "dropped";
    default:
        return "validation";
    }
}

struct stats {
    struct metrics_family *requests, *seconds, *errors, *items, *tokens, *truncated, *cached;
    struct metrics_family *stages;
    struct metrics_family *te_count, *te_success, *te_failure; /* NULL: not wanted */
    struct metrics_family *te_duration, *te_tokenize, *te_queue, *te_run, *te_length;
};

const char *stats_error_name(enum ask_error e)
{
    return error_names[e];
}

static struct metrics_family *times(struct metrics *m, const char *name, const char *help,
                                    const char *labels)
{
    return metrics_family(m, METRICS_HISTOGRAM, name, help, labels, metrics_durations,
                          metrics_durations_count);
}

static struct metrics_family *counts(struct metrics *m, const char *name, const char *help,
                                     const char *labels)
{
    return metrics_family(m, METRICS_COUNTER, name, help, labels, NULL, 0);
}

static void make_te(struct stats *s, struct metrics *m)
{
    static const double lengths[] = { 1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192 };

    s->te_count = counts(m, "te_request_count", "Requests.", "method");
    s->te_success = counts(m, "te_request_success", "Requests answered.", "method");
    s->te_failure = counts(m, "te_request_failure", "Requests refused or failed.", "err");
    s->te_duration = times(m, "te_request_duration", "Seconds a request took.", NULL);
    s->te_tokenize =
        times(m, "te_request_tokenization_duration", "Seconds of tokenising a request.", NULL);
    s->te_queue = times(m, "te_request_queue_duration", "Seconds a request waited.", NULL);
    s->te_run = times(m, "te_request_inference_duration", "Seconds of a request's batches.", NULL);
    s->te_length = metrics_family(m, METRICS_HISTOGRAM, "te_request_input_length",
                                  "Tokens of an input.", NULL, lengths, ARRAY_SIZE(lengths));
}

struct stats *stats_new(struct metrics *m, bool te_names)
{
    struct stats *s = xcalloc(1, sizeof(*s));

    s->requests =
        counts(m, "stoker_requests_total", "Requests answered, by status code.", "route,code");
    s->seconds = times(m, "stoker_request_seconds", "Seconds from first byte to reply.", "route");
    s->errors = counts(m, "stoker_errors_total", "Requests refused or failed, by kind.", "kind");
    s->items = counts(m, "stoker_items_total", "Texts computed or found.", "model");
    s->tokens = counts(m, "stoker_tokens_total", "Tokens of them.", "model");
    s->truncated = counts(m, "stoker_truncated_total", "Texts that were cut.", "model");
    s->cached = counts(m, "stoker_cached_total", "Texts found in the cache.", "model");
    s->stages =
        times(m, "stoker_stage_seconds",
              "Seconds of a request in each stage; of parse and write, seconds of CPU time.",
              "model,stage");
    if (te_names)
        make_te(s, m);
    for (size_t i = 0; i < ARRAY_SIZE(error_names); i++)
        (void)metrics_counter(s->errors, error_names[i]);
    for (size_t i = 0; api_at(i); i++) {
        (void)metrics_counter(s->requests, api_at(i)->path, "200");
        (void)metrics_histogram(s->seconds, api_at(i)->path);
    }
    return s;
}

void stats_free(struct stats *s)
{
    free(s);
}

void stats_expect_model(struct stats *s, const char *model)
{
    static const char *const stages[] = { "parse", "tokenize", "queue", "run", "write", "total" };

    (void)metrics_counter(s->items, model);
    (void)metrics_counter(s->tokens, model);
    (void)metrics_counter(s->truncated, model);
    (void)metrics_counter(s->cached, model);
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
        (void)metrics_histogram(s->stages, model, stages[i]);
}

static double seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static void count_work(struct stats *s, const struct call *c)
{
    const char *model = c->model->name;
    const struct answer_times *t = &c->answer.times;
    uint64_t cut = 0, found = 0;

    for (size_t i = 0; i < c->ask.count; i++) {
        cut += c->answer.items[i].truncated;
        found += c->answer.items[i].cached;
        if (s->te_length)
            histogram_add(metrics_histogram(s->te_length), (double)c->answer.items[i].tokens);
    }
    counter_add(metrics_counter(s->items, model), c->ask.count);
    counter_add(metrics_counter(s->tokens, model), c->answer.tokens_total);
    counter_add(metrics_counter(s->truncated, model), cut);
    counter_add(metrics_counter(s->cached, model), found);
    histogram_add(metrics_histogram(s->stages, model, "parse"), seconds(t->parse));
    histogram_add(metrics_histogram(s->stages, model, "tokenize"), seconds(t->tokenize));
    histogram_add(metrics_histogram(s->stages, model, "queue"), seconds(t->queue));
    histogram_add(metrics_histogram(s->stages, model, "run"), seconds(t->run));
    histogram_add(metrics_histogram(s->stages, model, "write"), seconds(t->write));
    histogram_add(metrics_histogram(s->stages, model, "total"), seconds(t->total));
    if (s->te_tokenize) {
        histogram_add(metrics_histogram(s->te_tokenize), seconds(t->tokenize));
        histogram_add(metrics_histogram(s->te_queue), seconds(t->queue));
        histogram_add(metrics_histogram(s->te_run), seconds(t->run));
    }
}

void stats_call(struct stats *s, const struct call *c, int status)
{
    const char *method = c->ask.single ? "single" : "batch";
    bool ok = status < 400;
    char code[16];

    snprintf(code, sizeof(code), "%d", status);
    counter_add(metrics_counter(s->requests, c->api->path, code), 1);
    histogram_add(metrics_histogram(s->seconds, c->api->path), seconds(c->answer.times.total));
    if (!ok)
        counter_add(metrics_counter(s->errors, error_names[c->fault.kind]), 1);
    else if (c->job.count)
        count_work(s, c);
    if (!s->te_count)
        return;
    counter_add(metrics_counter(s->te_count, method), 1);
    histogram_add(metrics_histogram(s->te_duration), seconds(c->answer.times.total));
    if (ok)
        counter_add(metrics_counter(s->te_success, method), 1);
    else
        counter_add(metrics_counter(s->te_failure, te_error(c->fault.kind)), 1);
}

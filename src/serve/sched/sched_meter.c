/* SPDX-License-Identifier: MIT */
/* sched_meter: what the scheduler counts.
 *
 * Pointers to a model's series are looked up once for each device queue; from there on counting
 * takes no lock. */
#include "serve/admin/te_metrics_int.h"
#include "serve/sched/device_queue_int.h"

static const char *const class_names[SCHED_CLASSES] = {
    [REQUEST_INTERACTIVE] = "interactive", [REQUEST_BULK] = "bulk"
};
static const char *const drop_names[DROP_REASONS] = { [DROP_DEADLINE] = "deadline",
                                                      [DROP_CANCELLED] = "cancelled",
                                                      [DROP_FAILED] = "failed",
                                                      [DROP_STOPPED] = "stopped" };
static const char *const refuse_names[REFUSE_REASONS] = { [REFUSE_TOKENS] = "tokens",
                                                          [REFUSE_REQUESTS] = "jobs",
                                                          [REFUSE_DEADLINE] = "deadline",
                                                          [REFUSE_SIZE] = "size",
                                                          [REFUSE_STOPPED] = "stopped" };

static const double fills[] = { 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1 };
static const double counts[] = { 1,   2,    4,    8,    16,   32,    64,    128,  256,
                                 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536 };

void meter_families(struct sched *s)
{
    struct sched_families *f = &s->families;
    struct metrics *m = s->o.metrics;

    f->batches = metrics_counters(m, "stoker_batches_total", "Batches that were run.", "model");
    f->failures =
        metrics_counters(m, "stoker_batch_failures_total",
                         "Texts that could not be computed, or gave what is not finite.", "model");
    f->device_failures = metrics_counters(m, "stoker_device_failures_total",
                                          "Batches that a model's device could not run.", "model");
    f->fallbacks = metrics_counters(m, "stoker_fallback_batches_total",
                                    "Batches that ran on the fallback instead.", "model");
    f->fill = metrics_family(m, METRICS_HISTOGRAM, "stoker_batch_fill",
                             "Tokens of a batch by its budget.", "model", fills, ARRAY_SIZE(fills));
    f->sequences = metrics_family(m, METRICS_HISTOGRAM, "stoker_batch_sequences",
                                  "Texts of a batch.", "model", counts, ARRAY_SIZE(counts));
    f->tokens = metrics_family(m, METRICS_HISTOGRAM, "stoker_batch_tokens", "Tokens of a batch.",
                               "model", counts, ARRAY_SIZE(counts));
    f->seconds = metrics_timings(m, "stoker_batch_seconds", "Seconds that a batch ran.", "model");
    f->age = metrics_timings(m, "stoker_queue_seconds", "Seconds that a text waited for its batch.",
                             "model,class");
    f->class_tokens =
        metrics_counters(m, "stoker_class_tokens_total",
                         "Tokens that ran, by the class of their request.", "model,class");
    f->queue_tokens = metrics_gauges(m, "stoker_queue_tokens", "Tokens that wait.", "model,class");
    f->queue_requests =
        metrics_gauges(m, "stoker_queue_jobs", "Requests that wait or run.", "model,class");
    f->dropped = metrics_counters(m, "stoker_queue_dropped_total",
                                  "Requests that ended without a result.", "model,reason");
    f->refused = metrics_counters(m, "stoker_queue_refused_total",
                                  "Requests that were not taken in.", "model,reason");
    f->coalesced = metrics_counters(m, "stoker_queue_coalesced_total",
                                    "Texts whose result another's computation gave.", "model");
    f->hits = metrics_counters(m, "stoker_cache_hits_total", "Texts found in the cache.", "model");
    f->misses =
        metrics_counters(m, "stoker_cache_misses_total", "Texts not found in the cache.", "model");
    f->evictions = metrics_counter(
        metrics_counters(m, "stoker_cache_evictions_total", "Rows that left a full cache.", NULL));
    f->cache_bytes =
        metrics_gauge(metrics_gauges(m, "stoker_cache_bytes", "Bytes of cached rows.", NULL));
    f->busy = metrics_counters(m, "stoker_lane_busy_seconds_total",
                               "Seconds that a device ran batches.", "device");
}

void meter_make(struct sched *s, const char *model, struct model_series *out)
{
    const struct sched_families *f = &s->families;

    *out = (struct model_series){ .batches = metrics_counter(f->batches, model),
                                  .failures = metrics_counter(f->failures, model),
                                  .device_failures = metrics_counter(f->device_failures, model),
                                  .fallbacks = metrics_counter(f->fallbacks, model),
                                  .coalesced = metrics_counter(f->coalesced, model),
                                  .hits = metrics_counter(f->hits, model),
                                  .misses = metrics_counter(f->misses, model),
                                  .fill = metrics_histogram(f->fill, model),
                                  .sequences = metrics_histogram(f->sequences, model),
                                  .tokens = metrics_histogram(f->tokens, model),
                                  .seconds = metrics_histogram(f->seconds, model) };
    for (size_t i = 0; i < DROP_REASONS; i++)
        out->dropped[i] = metrics_counter(f->dropped, model, drop_names[i]);
    for (size_t i = 0; i < REFUSE_REASONS; i++)
        out->refused[i] = metrics_counter(f->refused, model, refuse_names[i]);
    for (size_t c = 0; c < SCHED_CLASSES; c++) {
        out->age[c] = metrics_histogram(f->age, model, class_names[c]);
        out->class_tokens[c] = metrics_counter(f->class_tokens, model, class_names[c]);
        out->queue_tokens[c] = metrics_gauge(f->queue_tokens, model, class_names[c]);
        out->queue_requests[c] = metrics_gauge(f->queue_requests, model, class_names[c]);
    }
}

void meter_batch(const struct device_queue *dq)
{
    const struct sched_batch *b = dq->batch;
    const struct model_series *m = &b->queue->record->series;
    double run = (double)(b->ended_ns - b->begun_ns) * 1e-9;

    counter_add(m->batches, 1);
    counter_add(m->failures, b->failures);
    counter_add(m->fallbacks, b->fell_back);
    histogram_add(m->fill, (double)b->tokens / (double)b->queue->budget);
    histogram_add(m->sequences, (double)b->count);
    histogram_add(m->tokens, (double)b->tokens);
    histogram_add(m->seconds, run);
    te_metrics_batch(dq->sched->o.te, b->count, b->tokens);
    counter_add_seconds(dq->busy, run);
    for (size_t i = 0; i < b->count; i++) {
        const struct request *r = b->texts[i]->request;

        counter_add(m->class_tokens[r->class], b->texts[i]->tokens);
        histogram_add(m->age[r->class], (double)(b->begun_ns - r->submitted_ns) * 1e-9);
    }
}

void meter_end(const struct request *r, bool stopping)
{
    const struct model_series *m = &r->queue->record->series;

    if (r->why == RC_TIMEOUT || (r->why == RC_LIMIT && r->err.code == RC_LIMIT))
        counter_add(m->dropped[DROP_DEADLINE], 1);
    else if (r->why == RC_LIMIT)
        counter_add(m->dropped[stopping ? DROP_STOPPED : DROP_CANCELLED], 1);
    else if (r->why != RC_OK)
        counter_add(m->dropped[DROP_FAILED], 1);
}

void meter_queue(const struct model_record *m)
{
    for (size_t c = 0; c < SCHED_CLASSES; c++) {
        gauge_set(m->series.queue_tokens[c], (double)m->waiting[c]);
        gauge_set(m->series.queue_requests[c], (double)m->requests[c]);
    }
}

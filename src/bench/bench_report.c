/* SPDX-License-Identifier: MIT */
#include "bench/bench_int.h"

#include "base/mem.h"
#include "base/progress.h"
#include "base/text/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { REPORT_LEAD = 10 /* a later slice warms up for this part of itself */ };

static const struct {
    const char *name, *key;
    double q;
} percentiles[] = {
    { "p50", "p50", 0.5 },
    { "p90", "p90", 0.9 },
    { "p99", "p99", 0.99 },
    { "p99.9", "p99_9", 0.999 },
};

static double ms_of(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double per_second(const struct load_stats *s, uint64_t n)
{
    return s->seconds > 0 ? (double)n / s->seconds : NAN;
}

/* Tokens a second where every good reply told them, else NAN. */
static double tokens_per_second(const struct load_stats *s)
{
    return s->tokens_told && s->tokens_told == s->done_good ? per_second(s, s->done_tokens) : NAN;
}

/* ---- running ---- */
static bool ended_early(const struct report *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->sides[i].stats.stopped || r->sides[i].stats.too_many_errors)
            return true;
    return false;
}

enum rc report_run(struct report *r, size_t slices, struct err *err)
{
    int64_t slice_ns = r->opts->duration_ns / (int64_t)slices, lead_ns = slice_ns / REPORT_LEAD;

    assert(slices > 0 && slices <= REPORT_SLICES_MAX);
    if (lead_ns > r->opts->warmup_ns)
        lead_ns = r->opts->warmup_ns;
    for (size_t k = 0; k < slices; k++) {
        for (size_t i = 0; i < r->count && !ended_early(r); i++) {
            struct report_side *s = &r->sides[i];
            double seconds = s->stats.seconds;
            uint64_t good = s->stats.done_good;

            if (load_run(s->load, k ? lead_ns : r->opts->warmup_ns, slice_ns, &s->stats, err))
                return err_ctx(err, "server '%s'", s->url);
            seconds = s->stats.seconds - seconds;
            s->slice_rps[k] = seconds > 0 ? (double)(s->stats.done_good - good) / seconds : 0;
        }
        if (ended_early(r))
            break;
        r->slices++;
    }
    return RC_OK;
}

int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double report_rps_ratio(const struct report *r)
{
    double *v, median;
    size_t n = 0;

    if (r->count < 2 || !r->slices)
        return NAN;
    v = xcalloc(r->slices, sizeof(*v));
    for (size_t i = 0; i < r->slices; i++)
        if (r->sides[1].slice_rps[i] > 0)
            v[n++] = r->sides[0].slice_rps[i] / r->sides[1].slice_rps[i];
    qsort(v, n, sizeof(*v), bench_by_value);
    median = !n ? NAN : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    free(v);
    return median;
}

double report_p99_ratio(const struct report *r)
{
    double a = ms_of(hist_quantile(&r->sides[0].stats.latency, 0.99));
    double b = ms_of(hist_quantile(&r->sides[1].stats.latency, 0.99));

    return r->count == 2 && a > 0 && b > 0 ? b / a : NAN;
}

/* ---- text ---- */
static void text_row(struct table *t, const char *what)
{
    table_row(t);
    table_cell(t, COLOUR_DIM, "%s", what);
}

static void cell_count(struct table *t, enum table_colour c, uint64_t n)
{
    char text[PROGRESS_TEXT_MAX];

    table_cell(t, c, "%s", progress_count(n, text));
}

static void cell_rate(struct table *t, double v)
{
    char text[PROGRESS_TEXT_MAX];

    if (!isfinite(v))
        table_cell(t, COLOUR_NONE, "-");
    else if (v < 1000)
        table_cell(t, COLOUR_BOLD, "%.1f", v);
    else
        table_cell(t, COLOUR_BOLD, "%s", progress_count((uint64_t)llround(v), text));
}

static void cell_ms(struct table *t, const struct hist *h, double ns)
{
    if (h->count)
        table_cell(t, COLOUR_NONE, ns < 1e8 ? "%.2f ms" : "%.0f ms", ns / 1e6);
    else
        table_cell(t, COLOUR_NONE, "-");
}

/* NOLINTBEGIN(bugprone-macro-parentheses): it declares its second argument */
#define EACH(r, s) for (const struct report_side *s = (r)->sides; s < (r)->sides + (r)->count; s++)
/* NOLINTEND(bugprone-macro-parentheses) */

static void text_requests(const struct report *r, struct table *t)
{
    text_row(t, "requests");
    EACH(r, s) cell_count(t, COLOUR_NONE, s->stats.requests);
    text_row(t, "errors");
    EACH(r, s)
    cell_count(t, load_errors(&s->stats) ? COLOUR_RED : COLOUR_NONE, load_errors(&s->stats));
    for (int k = 0; k < LOAD_KINDS; k++) {
        char name[32];

        if (!r->sides[0].stats.errors[k] && !r->sides[1].stats.errors[k])
            continue;
        snprintf(name, sizeof(name), "  %s", load_kind_name((enum load_kind)k));
        text_row(t, name);
        EACH(r, s) cell_count(t, COLOUR_RED, s->stats.errors[k]);
    }
    if (r->sides[0].stats.resent || r->sides[1].stats.resent) {
        text_row(t, "sent again");
        EACH(r, s) cell_count(t, s->stats.resent ? COLOUR_RED : COLOUR_NONE, s->stats.resent);
    }
    text_row(t, "requests/s");
    EACH(r, s) cell_rate(t, per_second(&s->stats, s->stats.done_good));
    text_row(t, r->opts->route == API_EMBED ? "texts/s" : "documents/s");
    EACH(r, s) cell_rate(t, per_second(&s->stats, s->stats.done_items));
    text_row(t, "tokens/s");
    EACH(r, s) cell_rate(t, tokens_per_second(&s->stats));
}

static void text_latency(const struct report *r, struct table *t)
{
    text_row(t, r->opts->rate > 0 ? "latency min" : "service time min");
    EACH(r, s) cell_ms(t, &s->stats.latency, (double)s->stats.latency.least);
    for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++) {
        char name[32];

        snprintf(name, sizeof(name), "  %s", percentiles[i].name);
        text_row(t, name);
        EACH(r, s)
        cell_ms(t, &s->stats.latency, (double)hist_quantile(&s->stats.latency, percentiles[i].q));
    }
    text_row(t, "  max");
    EACH(r, s) cell_ms(t, &s->stats.latency, (double)s->stats.latency.greatest);
    text_row(t, "  mean");
    EACH(r, s) cell_ms(t, &s->stats.latency, hist_mean(&s->stats.latency));
    if (r->sides[0].stats.failed.count || r->sides[1].stats.failed.count) {
        text_row(t, "errors came after, p99");
        EACH(r, s)
        cell_ms(t, &s->stats.failed, (double)hist_quantile(&s->stats.failed, 0.99));
    }
    if (r->opts->rate > 0) {
        text_row(t, "sent late, p99");
        EACH(r, s) cell_ms(t, &s->stats.lag, (double)hist_quantile(&s->stats.lag, 0.99));
    }
}

static void text_client(const struct report *r, struct table *t)
{
    text_row(t, "connections opened");
    EACH(r, s) cell_count(t, COLOUR_NONE, s->stats.connects);
    text_row(t, "measured for");
    EACH(r, s) table_cell(t, COLOUR_NONE, "%.2f s", s->stats.seconds);
    text_row(t, "this client's CPU time");
    EACH(r, s)
    table_cell(t, COLOUR_NONE, "%.2f s (%.0f%%)", s->stats.cpu_s,
               s->stats.seconds > 0 ? s->stats.cpu_s / s->stats.seconds * 100 : 0);
    if (r->opts->check && r->opts->route == API_EMBED) {
        text_row(t, "vectors checked, width");
        EACH(r, s) table_cell(t, COLOUR_NONE, "%zu", s->stats.width);
    }
}

static void text_notes(const struct report *r, const struct term *term, struct buf *out)
{
    EACH(r, s)
    if (load_errors(&s->stats) && s->stats.sample[0])
        buf_addf(out, "first error of %s: %s\n", s->url, s->stats.sample);
    if (r->sides[0].stats.resent || r->sides[1].stats.resent)
        term_wrap(term, out, 0,
                  "Sent again: the server ended a kept connection without a reply, which is no "
                  "error of HTTP where it was at rest; the request went out once more on a new "
                  "one, and its time counts from the first. A server that drops requests shows "
                  "here.");
    if (!(r->opts->rate > 0))
        term_wrap(term, out, 0,
                  "Closed loop: times are service times, what a stall costs those who would have "
                  "come is not in them. Use --rate for latencies of an open loop.");
    if (r->count < 2)
        return;
    buf_addf(out, "ratio of requests/s: %.2f (median of %zu slices)\n", report_rps_ratio(r),
             r->slices);
    buf_addf(out, "ratio of p99: %.2f (above 1 the first is better)\n", report_p99_ratio(r));
}

void report_text(const struct report *r, const struct term *term, struct buf *out)
{
    struct table *t = table_new();
    char load[96];

    if (r->opts->rate > 0)
        snprintf(load, sizeof(load), "%g requests/s, %s", r->opts->rate,
                 r->opts->uniform ? "evenly" : "Poisson");
    else
        snprintf(load, sizeof(load), "%zu clients", r->opts->clients);
    EACH(r, s)
    buf_addf(out, "%s%s  %s%s%s, %s, %zu %s a request\n", s->url, s->path, s->api,
             s->model[0] ? ", " : "", s->model, load, r->items,
             r->opts->route == API_EMBED ? "texts" : "documents");
    table_col(t, NULL, TABLE_LEFT);
    EACH(r, s) table_col(t, r->count == 2 ? s->url : NULL, TABLE_RIGHT);
    text_requests(r, t);
    text_latency(r, t);
    text_client(r, t);
    table_print(t, term, 0, out);
    table_free(t);
    text_notes(r, term, out);
}

/* ---- JSON ---- */
static void kv_num(struct json_out *w, const char *key, double v)
{
    json_kv_num(w, key, isfinite(v) ? round(v * 1e4) / 1e4 : v);
}

static void json_hist(struct json_out *w, const char *key, const struct hist *h)
{
    json_key(w, key);
    if (!h->count) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_int(w, "count", (int64_t)h->count);
    kv_num(w, "min", ms_of(h->least));
    for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
        kv_num(w, percentiles[i].key, ms_of(hist_quantile(h, percentiles[i].q)));
    kv_num(w, "max", ms_of(h->greatest));
    kv_num(w, "mean", hist_mean(h) / 1e6);
    json_obj_end(w);
}

static void json_errors(struct json_out *w, const struct load_stats *s)
{
    json_kv_obj(w, "errors");
    json_kv_int(w, "total", (int64_t)load_errors(s));
    for (int k = 0; k < LOAD_KINDS; k++)
        json_kv_int(w, load_kind_name((enum load_kind)k), (int64_t)s->errors[k]);
    json_kv_str(w, "first", load_errors(s) && s->sample[0] ? s->sample : NULL);
    json_obj_end(w);
    json_kv_obj(w, "statuses");
    for (size_t i = 0; i < s->status_count; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d", s->statuses[i].status);
        json_kv_int(w, name, (int64_t)s->statuses[i].count);
    }
    json_obj_end(w);
}

static void json_side(const struct report *r, const struct report_side *side, struct json_out *w)
{
    const struct load_stats *s = &side->stats;

    json_obj(w);
    json_kv_str(w, "url", side->url);
    json_kv_str(w, "api", side->api);
    json_kv_str(w, "path", side->path);
    json_kv_str(w, "model", side->model[0] ? side->model : NULL);
    json_kv_int(w, "requests", (int64_t)s->requests);
    json_kv_int(w, "good", (int64_t)s->good);
    json_errors(w, s);
    kv_num(w, "seconds", s->seconds);
    kv_num(w, "requests_per_s", per_second(s, s->done_good));
    kv_num(w, "items_per_s", per_second(s, s->done_items));
    kv_num(w, "tokens_per_s", tokens_per_second(s));
    json_hist(w, r->opts->rate > 0 ? "latency_ms" : "service_time_ms", &s->latency);
    json_hist(w, "error_time_ms", &s->failed);
    json_hist(w, "sent_late_ms", &s->lag);
    kv_num(w, "client_cpu_s", s->cpu_s);
    json_kv_int(w, "connections_opened", (int64_t)s->connects);
    json_kv_int(w, "resent", (int64_t)s->resent);
    json_kv_int(w, "bytes_out", (int64_t)s->bytes_out);
    json_kv_int(w, "bytes_in", (int64_t)s->bytes_in);
    json_key(w, "width");
    if (s->width)
        json_add_uint(w, s->width);
    else
        json_add_null(w);
    json_kv_arr(w, "slices_requests_per_s");
    for (size_t i = 0; i < r->slices; i++)
        json_add_num(w, round(side->slice_rps[i] * 1e4) / 1e4);
    json_arr_end(w);
    json_obj_end(w);
}

void report_json(const struct report *r, struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.bench-serve/1");
    json_kv_str(&w, "loop", r->opts->rate > 0 ? "open" : "closed");
    json_kv_int(&w, "clients", (int64_t)r->opts->clients);
    json_kv_num(&w, "rate", r->opts->rate > 0 ? r->opts->rate : NAN);
    json_kv_str(&w, "route", r->opts->route == API_EMBED ? "embed" : "rerank");
    json_kv_int(&w, "items", (int64_t)r->items);
    json_kv_bool(&w, "stopped", ended_early(r));
    json_kv_arr(&w, "servers");
    EACH(r, s) json_side(r, s, &w);
    json_arr_end(&w);
    if (r->count == 2) {
        kv_num(&w, "ratio_requests_per_s", report_rps_ratio(r));
        kv_num(&w, "ratio_p99", report_p99_ratio(r));
    }
    json_doc_end(&w);
}

/* ---- RESULT lines ---- */
static void result_line(struct buf *out, const char *prefix, const char *name, double v,
                        const char *unit)
{
    if (isfinite(v))
        buf_addf(out, "RESULT %s.%s %.5g %s\n", prefix, name, v, unit);
}

static void side_results(const struct load_stats *s, const char *prefix, struct buf *out)
{
    result_line(out, prefix, "rps", per_second(s, s->done_good), "requests/s");
    result_line(out, prefix, "items", per_second(s, s->done_items), "items/s");
    result_line(out, prefix, "tokens", tokens_per_second(s), "tokens/s");
    result_line(out, prefix, "p50", s->latency.count ? ms_of(hist_quantile(&s->latency, 0.5)) : NAN,
                "ms");
    result_line(out, prefix, "p99",
                s->latency.count ? ms_of(hist_quantile(&s->latency, 0.99)) : NAN, "ms");
    result_line(out, prefix, "errors", (double)load_errors(s), "requests");
    result_line(out, prefix, "client_cpu", s->cpu_s, "s");
}

void report_results(const struct report *r, const char *prefix, struct buf *out)
{
    struct buf name = { 0 };

    if (r->count == 1) {
        side_results(&r->sides[0].stats, prefix, out);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        buf_reset(&name);
        buf_addf(&name, "%s.%s", prefix, i ? "second" : "first");
        side_results(&r->sides[i].stats, buf_str(&name), out);
    }
    buf_release(&name);
    result_line(out, prefix, "rps", report_rps_ratio(r), "x");
    result_line(out, prefix, "p99", report_p99_ratio(r), "x");
}

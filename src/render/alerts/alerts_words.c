/* SPDX-License-Identifier: MIT */
/* alerts_words: words of the spec's alerts that no single node can answer, as PromQL.
 *
 *   queue_age           99 of 100 texts waited less than this for their batch, over 5 minutes
 *   error_rate          share of a server's replies in 5 minutes that are its own failures (5xx)
 *   pool_used           share of a memory pool that models hold
 *   cost_per_day        machines at the spec's prices, as alerts_cost.c counts them
 *   cost_per_task_rise  what an hour of tasks (texts served, else steps of training) cost each,
 *                       against the same hour of the day before */
#include "base/str.h"
#include "render/alerts/alerts_int.h"

#include <math.h>

static void put_selector(struct buf *out, const char *name, const char *first, const char *only)
{
    buf_adds(out, name);
    if (!*first && !only)
        return;
    buf_addf(out, "{%s%s%s}", first, *first && only ? "," : "", only ? only : "");
}

/* ---- queue_age */
static void queue_age(const struct render *r, const struct spec_alert *own, const char *only,
                      struct buf *out)
{
    (void)r;
    (void)own;
    buf_adds(out, "histogram_quantile(0.99, sum by (instance, group, model, le) (rate(");
    put_selector(out, "stoker_queue_seconds_bucket", "", only);
    buf_adds(out, "[5m])))");
}

/* All between 0 and v / 0.99: the quantile is v. */
static void queue_age_series(const struct render *r, double v, const char *labels, struct buf *out)
{
    (void)r;
    buf_addf(out, "stoker_queue_seconds_bucket{%s,class=\"online\",le=\"%.12g\"}\t0+100x\n", labels,
             v / 0.99);
    buf_addf(out, "stoker_queue_seconds_bucket{%s,class=\"online\",le=\"+Inf\"}\t0+100x\n", labels);
}

/* ---- error_rate */
static void error_rate(const struct render *r, const struct spec_alert *own, const char *only,
                       struct buf *out)
{
    (void)r;
    (void)own;
    buf_adds(out, "sum by (instance, group) (rate(");
    put_selector(out, "stoker_requests_total", "code=~\"5..\"", only);
    buf_adds(out, "[5m])) / sum by (instance, group) (rate(");
    put_selector(out, "stoker_requests_total", "", only);
    buf_adds(out, "[5m]))");
}

static void error_rate_series(const struct render *r, double v, const char *labels, struct buf *out)
{
    (void)r;
    buf_addf(out, "stoker_requests_total{%s,route=\"/embed\",code=\"200\"}\t0+%.12gx\n", labels,
             fmax(0, 1000 * (1 - v)));
    buf_addf(out, "stoker_requests_total{%s,route=\"/embed\",code=\"500\"}\t0+%.12gx\n", labels,
             1000 * v);
}

/* ---- pool_used */
static void pool_used(const struct render *r, const struct spec_alert *own, const char *only,
                      struct buf *out)
{
    (void)r;
    (void)own;
    put_selector(out, "stoker_pool_bytes", "state=\"used\"", only);
    buf_adds(out, " / ignoring (state) sum without (state) (");
    put_selector(out, "stoker_pool_bytes", "state=~\"used|free\"", only);
    buf_addc(out, ')');
}

static void pool_used_series(const struct render *r, double v, const char *labels, struct buf *out)
{
    (void)r;
    buf_addf(out, "stoker_pool_bytes{%s,pool=\"p\",state=\"used\"}\t%.12g+0x\n", labels, 1e9 * v);
    buf_addf(out, "stoker_pool_bytes{%s,pool=\"p\",state=\"free\"}\t%.12g+0x\n", labels,
             1e9 * (1 - v));
}

/* ---- cost */
static void cost_day(const struct render *r, const struct spec_alert *own, const char *only,
                     struct buf *out)
{
    struct buf hour = { 0 };
    struct buf b = { 0 };

    (void)only;
    /* Dollars an hour of the site, or of the groups that the alert is for. */
    alerts_cost_groups(r, own, &b);
    if (b.len)
        buf_addf(&hour, "(sum(%s) or vector(0))", buf_str(&b));
    buf_release(&b);
    if (hour.len)
        buf_addf(out, "24 * %s", buf_str(&hour));
    buf_release(&hour);
}

static void tasks_expr(struct buf *out, const char *only, const char *offset)
{
    static const char *const series[] = { "stoker_items_total", "stoker_job_step" };

    for (size_t i = 0; i < ARRAY_SIZE(series); i++) {
        buf_adds(out, i ? " or sum(rate(" : "(sum(rate(");
        put_selector(out, series[i], "", only);
        buf_addf(out, "[1h]%s))", offset);
    }
    buf_addc(out, ')');
}

static void agents_expr(struct buf *out, const char *only, const char *offset)
{
    buf_adds(out, "count(");
    put_selector(out, "up", "job=\"" ALERTS_JOB_AGENT "\"", only);
    buf_addf(out, "%s)", offset);
}

/* Prices are the spec's and do not change: what a task costs rises as machines do less of them.
 * The last term is nothing, but unknown until a whole hour of the day before is known. */
static void cost_task(const struct render *r, const struct spec_alert *own, const char *only,
                      struct buf *out)
{
    (void)r;
    (void)own;
    buf_adds(out, "100 * (");
    agents_expr(out, only, " == 1");
    buf_adds(out, " / ");
    tasks_expr(out, only, "");
    buf_adds(out, " / (");
    agents_expr(out, only, " offset 1d == 1");
    buf_adds(out, " / ");
    tasks_expr(out, only, " offset 1d");
    buf_adds(out, ") - 1) + 0 * ");
    agents_expr(out, only, " offset 25h");
}

static const struct alerts_word words[] = {
    { SPEC_METRIC_QUEUE_AGE, "s", 0.001, " of model {model}", true, queue_age, queue_age_series,
      1 },
    { SPEC_METRIC_ERROR_RATE, "ratio", 0.01, " of {instance}", false, error_rate, error_rate_series,
      1 },
    { SPEC_METRIC_POOL_USED, "ratio", 0.01, " of pool {pool} of {instance}", false, pool_used,
      pool_used_series, 0 },
    { SPEC_METRIC_COST_DAY, "$", 1e-6, " of the site in dollars", false, cost_day, NULL, 0 },
    { SPEC_METRIC_COST_TASK_RISE, "%", 1, " since yesterday", false, cost_task, NULL, 0 },
};

const struct alerts_word *alerts_word_of(enum spec_metric m)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (words[i].metric == m)
            return &words[i];
    return NULL;
}

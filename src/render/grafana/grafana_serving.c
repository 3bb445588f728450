/* SPDX-License-Identifier: MIT */
/* grafana_serving: the model servers: requests, latency, queues, batches, models, memory pools. */
#include "render/grafana/grafana_int.h"

#define ON    "{instance=~\"$instance\"}"
#define MODEL "{instance=~\"$instance\",model=~\"$model\"}"

static const struct variable variables[] = {
    { "instance", "Server", "label_values(stoker_requests_total, instance)" },
    { "model", "Model", "label_values(stoker_items_total{instance=~\"$instance\"}, model)" },
};

#define QUANTILE(q, name, by, where)                                                               \
    "histogram_quantile(" q ", sum by (" by ", le) (rate(" name "_bucket" where                    \
    "[$__rate_interval])))"

static const struct grafana_panel panels[] = {
    { PANEL_STAT, "Servers", "none", 4, 4,
      .queries = { { "count(up{job=\"" ALERTS_JOB_SERVE "\"} == 1)", "" } } },
    { PANEL_STAT, "Requests", "reqps", 4, 4,
      .queries = { { "sum(rate(stoker_requests_total" ON "[$__rate_interval]))", "" } } },
    { PANEL_STAT, "Failures", "percentunit", 4, 4,
      .queries = { { "(sum(rate(stoker_requests_total{instance=~\"$instance\",code=~\"5..\"}"
                     "[$__rate_interval])) or vector(0)) / sum(rate(stoker_requests_total" ON
                     "[$__rate_interval]))",
                     "" } },
      .watch = "error_rate" },
    { PANEL_STAT, "Latency, 99 of 100", "s", 4, 4,
      .queries = { { "histogram_quantile(0.99, sum by (le) (rate(stoker_request_seconds_bucket" ON
                     "[$__rate_interval])))",
                     "" } },
      .watch = "model.latency.p99" },
    { PANEL_STAT, "Texts", "ops", 4, 4,
      .queries = { { "sum(rate(stoker_items_total" MODEL "[$__rate_interval]))", "" } } },
    { PANEL_STAT, "Models ready", "none", 4, 4,
      .queries = { { "count(count by (model) (stoker_model_state{instance=~\"$instance\","
                     "state=\"ready\"} == 1))",
                     "" } } },

    { PANEL_LINES, "Requests", "reqps", 12, 8,
      .queries = { { "sum by (route) (rate(stoker_requests_total" ON "[$__rate_interval]))",
                     "{{route}}" } },
      .from_zero = true, .stack = true },
    { PANEL_LINES, "Latency by route", "s", 12, 8,
      .queries = { { QUANTILE("0.5", "stoker_request_seconds", "route", ON), "{{route}} half" },
                   { QUANTILE("0.99", "stoker_request_seconds", "route", ON),
                     "{{route}} 99 of 100" } },
      .watch = "model.latency.p99", .from_zero = true },
    { PANEL_LINES, "Replies by code", "reqps", 8, 8,
      .queries = { { "sum by (code) (rate(stoker_requests_total" ON "[$__rate_interval]))",
                     "{{code}}" } },
      .from_zero = true },
    { PANEL_LINES, "Errors by kind", "ops", 8, 8,
      .queries = { { "sum by (kind) (rate(stoker_errors_total" ON "[$__rate_interval]))",
                     "{{kind}}" } },
      .from_zero = true },
    { PANEL_LINES, "Stages of a request, mean", "s", 8, 8,
      .queries = { { "sum by (stage) (rate(stoker_stage_seconds_sum" ON "[$__rate_interval])) / "
                     "sum by (stage) (rate(stoker_stage_seconds_count" ON "[$__rate_interval]))",
                     "{{stage}}" } },
      .from_zero = true },

    { PANEL_ROW, .title = "Queues and batches" },
    { PANEL_LINES, "Waiting, 99 of 100", "s", 8, 8,
      .queries = { { QUANTILE("0.99", "stoker_queue_seconds", "model", MODEL), "{{model}}" } },
      .watch = "queue_age", .from_zero = true },
    { PANEL_LINES, "Requests that wait or run", "none", 8, 8,
      .queries = { { "sum by (model, class) (stoker_queue_jobs" MODEL ")",
                     "{{model}} {{class}}" } },
      .watch = "model.queue", .from_zero = true },
    { PANEL_LINES, "Not taken in, ended without a result", "ops", 8, 8,
      .queries = { { "sum by (model, reason) (rate(stoker_queue_refused_total" MODEL
                     "[$__rate_interval]))",
                     "{{model}} refused: {{reason}}" },
                   { "sum by (model, reason) (rate(stoker_queue_dropped_total" MODEL
                     "[$__rate_interval]))",
                     "{{model}} ended: {{reason}}" } },
      .from_zero = true },
    { PANEL_LINES, "Tokens a second", "ops", 8, 8,
      .queries = { { "sum by (model) (rate(stoker_tokens_total" MODEL "[$__rate_interval]))",
                     "{{model}}" } },
      .from_zero = true },
    { PANEL_LINES, "Tokens of a batch by its budget, mean", "percentunit", 8, 8,
      .queries = { { "sum by (model) (rate(stoker_batch_fill_sum" MODEL "[$__rate_interval])) / "
                     "sum by (model) (rate(stoker_batch_fill_count" MODEL "[$__rate_interval]))",
                     "{{model}}" } },
      .from_zero = true, .to_one = true },
    { PANEL_LINES, "Seconds of a batch, 99 of 100", "s", 8, 8,
      .queries = { { QUANTILE("0.99", "stoker_batch_seconds", "model", MODEL), "{{model}}" } },
      .from_zero = true },

    { PANEL_ROW, .title = "Devices, models and memory" },
    { PANEL_LINES, "Devices busy", "percentunit", 8, 8,
      .queries = { { "rate(stoker_lane_busy_seconds_total" ON "[$__rate_interval])",
                     "{{instance}} {{device}}" } },
      .from_zero = true, .to_one = true },
    { PANEL_LINES, "Failures of devices, fallbacks", "ops", 8, 8,
      .queries = { { "sum by (model) (rate(stoker_device_failures_total" MODEL
                     "[$__rate_interval]))",
                     "{{model}} failures" },
                   { "sum by (model) (rate(stoker_fallback_batches_total" MODEL
                     "[$__rate_interval]))",
                     "{{model}} on the fallback" } },
      .from_zero = true },
    { PANEL_LINES, "Found in the cache", "percentunit", 8, 8,
      .queries = { { "sum by (model) (rate(stoker_cache_hits_total" MODEL "[$__rate_interval])) / "
                     "(sum by (model) (rate(stoker_cache_hits_total" MODEL "[$__rate_interval])) + "
                     "sum by (model) (rate(stoker_cache_misses_total" MODEL "[$__rate_interval])))",
                     "{{model}}" } },
      .from_zero = true, .to_one = true },
    { PANEL_LINES, "Memory pools used", "percentunit", 8, 8,
      .queries = { { "stoker_pool_bytes{instance=~\"$instance\",state=\"used\"} / ignoring (state) "
                     "sum without (state) "
                     "(stoker_pool_bytes{instance=~\"$instance\",state=~\"used|free\"})",
                     "{{instance}} {{pool}}" } },
      .watch = "pool_used", .from_zero = true, .to_one = true },
    { PANEL_LINES, "Memory of models", "bytes", 8, 8,
      .queries = { { "sum by (model) (stoker_model_bytes" MODEL ")", "{{model}}" } },
      .from_zero = true, .stack = true },
    { PANEL_LINES, "Loads and swaps of models", "none", 8, 8,
      .queries = { { "sum by (model, result) (increase(stoker_model_loads_total" MODEL "[10m]))",
                     "{{model}} loads: {{result}}" },
                   { "sum by (model) (increase(stoker_model_swaps_total" MODEL "[10m]))",
                     "{{model}} swaps" } },
      .from_zero = true },
};

const struct dashboard grafana_serving = {
    .file = "serving",
    .title = "Model servers",
    .about = "requests, latency, queues, batches, models and memory pools",
    .variables = variables,
    .variable_count = ARRAY_SIZE(variables),
    .panels = panels,
    .panel_count = ARRAY_SIZE(panels),
};

/* SPDX-License-Identifier: MIT */
/* grafana_fleet: all machines together, by node group, from the recording rules; the worst ones by
 * name. */
#include "render/grafana/grafana_int.h"

#define IN "{group=~\"$group\"}"

static const struct variable variables[] = {
    { "group", "Group", "label_values(up{job=\"" ALERTS_JOB_AGENT "\"}, group)" },
};

static const struct grafana_panel panels[] = {
    { PANEL_STAT, "Machines that answer", "none", 4, 4,
      .queries = { { "sum(group:machines_up:count" IN ")", "" } } },
    { PANEL_STAT, "Machines", "none", 4, 4,
      .queries = { { "sum(group:machines:count" IN ")", "" } } },
    { PANEL_STAT, "GPUs", "none", 4, 4, .queries = { { "sum(group:gpus:count" IN ")", "" } } },
    { PANEL_STAT, "GPU power", "watt", 4, 4,
      .queries = { { "sum(group:gpu_power_watts:sum" IN ")", "" } } },
    { PANEL_STAT, "Cost of an hour", "currencyUSD", 4, 4,
      .queries = { { "sum(group:cost_dollars_per_hour:sum" IN ")", "" } },
      .about = "Machines at the prices of the spec: owned and reserved ones all the time, others "
               "while they answer." },
    { PANEL_STAT, "Alerts firing", "none", 4, 4,
      .queries = { { "count(ALERTS{alertstate=\"firing\",group=~\"$group\"}) or vector(0)",
                     "" } } },

    { PANEL_LINES, "GPU utilization", "percent", 12, 8,
      .queries = { { "group:gpu_utilization:avg" IN, "{{group}}" } }, .watch = "gpu.util",
      .from_zero = true },
    { PANEL_LINES, "Tensor cores active", "percentunit", 12, 8,
      .queries = { { "group:gpu_tensor_activity:avg" IN, "{{group}}" } },
      .watch = "gpu.prof.tensor", .from_zero = true },
    { PANEL_LINES, "GPU memory used", "percentunit", 8, 8,
      .queries = { { "group:gpu_memory_used:ratio" IN, "{{group}}" } },
      .watch = "gpu.fb.used/gpu.fb.total", .from_zero = true, .to_one = true },
    { PANEL_LINES, "GPU power", "watt", 8, 8,
      .queries = { { "group:gpu_power_watts:sum" IN, "{{group}}" } }, .from_zero = true,
      .stack = true },
    { PANEL_LINES, "Machines that answer", "none", 8, 8,
      .queries = { { "group:machines_up:count" IN, "{{group}}" } }, .from_zero = true },

    { PANEL_ROW, .title = "The worst" },
    { PANEL_BARS, "Hottest machines", "celsius", 8, 9,
      .queries = { { "topk(10, instance:gpu_temperature:max" IN ")", "{{instance}}" } },
      .watch = "gpu.temp" },
    { PANEL_BARS, "Least used machines", "percent", 8, 9,
      .queries = { { "bottomk(10, instance:gpu_utilization:avg" IN ")", "{{instance}}" } },
      .watch = "gpu.util" },
    { PANEL_BARS, "Most power", "watt", 8, 9,
      .queries = { { "topk(10, instance:gpu_power_watts:sum" IN ")", "{{instance}}" } } },
    { PANEL_TABLE, "Alerts", "none", 12, 9,
      .queries = { { "ALERTS{alertstate=\"firing\",group=~\"$group\"}", "" } } },
    { PANEL_TABLE, "Machines that do not answer", "none", 12, 9,
      .queries = { { "up{job=\"" ALERTS_JOB_AGENT "\",group=~\"$group\"," ALERTS_AWAKE "} == 0",
                     "" } } },

    { PANEL_ROW, .title = "Work" },
    { PANEL_LINES, "Training, tokens a second", "ops", 12, 8,
      .queries = { { "sum by (job) (@job.tokens_per_second@" IN ")", "{{job}}" } },
      .from_zero = true },
    { PANEL_LINES, "Requests by model", "reqps", 12, 8,
      .queries = { { "model:requests:rate5m", "{{model}}" } }, .from_zero = true },
};

const struct dashboard grafana_fleet = {
    .file = "fleet",
    .title = "All machines",
    .about = "groups of machines, the worst of them, alerts and cost",
    .variables = variables,
    .variable_count = ARRAY_SIZE(variables),
    .panels = panels,
    .panel_count = ARRAY_SIZE(panels),
};

/* SPDX-License-Identifier: MIT */
/* prometheus_rules: rules/recording.yml, the sums that dashboards of many machines ask for, so
 * that a page of 10,000 GPUs asks for one series a group instead. */
#include "base/str.h"
#include "render/prometheus/prometheus_int.h"

/* %s: a name of DCGM's, by the id in front of it. */
static const struct record_rule {
    const char *name, *id, *id2, *before, *middle, *after;
} records[] = {
    { "instance:gpu_utilization:avg", "gpu.util", NULL, "avg by (instance, group) (", "", ")" },
    { "group:gpu_utilization:avg", "gpu.util", NULL, "avg by (group) (", "", ")" },
    { "group:gpu_tensor_activity:avg", "gpu.prof.tensor", NULL, "avg by (group) (", "", ")" },
    { "instance:gpu_memory_used:ratio", "gpu.fb.used", "gpu.fb.total", "sum by (instance, group) (",
      ") / sum by (instance, group) (", ")" },
    { "group:gpu_memory_used:ratio", "gpu.fb.used", "gpu.fb.total", "sum by (group) (",
      ") / sum by (group) (", ")" },
    { "instance:gpu_temperature:max", "gpu.temp", NULL, "max by (instance, group) (", "", ")" },
    { "instance:gpu_power_watts:sum", "gpu.power", NULL, "sum by (instance, group) (", "", ")" },
    { "group:gpu_power_watts:sum", "gpu.power", NULL, "sum by (group) (", "", ")" },
    { "group:gpus:count", "gpu.temp", NULL, "count by (group) (", "", ")" },
    { "instance:cpu_utilization:ratio", NULL, NULL,
      "1 - sum by (instance, group) (rate(stoker_cpu_seconds_total{mode=~\"idle|iowait\"}[5m])) / "
      "sum by (instance, group) (stoker_cpus)",
      "", "" },
    { "instance:memory_used:ratio", "host.mem.available", "host.mem.total",
      "1 - sum by (instance, group) (", ") / sum by (instance, group) (", ")" },
    { "group:machines_up:count", NULL, NULL,
      "count by (group) (up{job=\"" ALERTS_JOB_AGENT "\"} == 1)", "", "" },
    { "group:machines:count", NULL, NULL, "count by (group) (up{job=\"" ALERTS_JOB_AGENT "\"})", "",
      "" },
    { "model:requests:rate5m", "model.requests", NULL, "sum by (model) (rate(", "", "[5m]))" },
};

static void put_record(const struct record_rule *x, enum prom_export_names names,
                       struct yaml_out *y)
{
    struct buf b = { 0 };
    double scale;

    buf_adds(&b, x->before);
    if (x->id)
        buf_adds(&b, alert_prom_name(x->id, names, &scale));
    buf_adds(&b, x->middle);
    if (x->id2)
        buf_adds(&b, alert_prom_name(x->id2, names, &scale));
    buf_adds(&b, x->after);
    yaml_map_of(y, NULL, "record", x->name, "expr", buf_str(&b));
    buf_release(&b);
}

/* Machines at the spec's prices. */
static void put_cost(struct render *r, struct yaml_out *y)
{
    struct buf b = { 0 };

    alerts_cost_groups(r, NULL, &b);
    if (b.len)
        yaml_map_of(y, NULL, "record", "group:cost_dollars_per_hour:sum", "expr", buf_str(&b));
    buf_release(&b);
}

void prometheus_recording(struct render *r)
{
    enum prom_export_names names =
        r->spec->agent.dcgm_names == SPEC_DCGM_NEW ? PROM_EXPORT_NEW : PROM_EXPORT_OLD;
    struct buf *b = render_file(r, "prometheus/rules/recording.yml");
    struct yaml_out y;

    render_head(r, b, "#", "recording rules: sums of machines and groups for the dashboards");
    yaml_begin(&y, b);
    yaml_open(&y, "groups[]");
    yaml_str(&y, "name", "stoker-sums");
    yaml_seq(&y, "rules");
    for (size_t i = 0; i < ARRAY_SIZE(records); i++)
        put_record(&records[i], names, &y);
    put_cost(r, &y);
    yaml_finish(&y);
}

/* SPDX-License-Identifier: MIT */
/* alertmanager: alertmanager.yml, who is told of what fires: by severity, at once for what is
 * critical, once a day for what is only worth knowing; and which alert makes another needless. */
#include "base/str.h"
#include "render/prometheus_int.h"

static void put_list(struct yaml_out *y, const char *key, const char *words)
{
    yaml_seq(y, key);
    for (const char *p = words; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        yaml_strf(y, NULL, "%.*s", (int)n, p);
        p += n;
    }
    yaml_end(y);
}

static const struct way {
    const char *severity, *wait, *interval, *repeat;
} ways[] = {
    { "critical", "10s", "1m", "1h" },
    { "warning", "1m", "5m", "12h" },
    { "info", "10m", "1h", "24h" },
};

static void put_route(struct yaml_out *y)
{
    yaml_map(y, "route");
    yaml_str(y, "receiver", "default");
    put_list(y, "group_by", "alertname group severity");
    yaml_str(y, "group_wait", "30s");
    yaml_str(y, "group_interval", "5m");
    yaml_str(y, "repeat_interval", "12h");
    yaml_seq(y, "routes");
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        yaml_map(y, NULL);
        yaml_str(y, "receiver", ways[i].severity);
        yaml_seq(y, "matchers");
        yaml_strf(y, NULL, "severity=\"%s\"", ways[i].severity);
        yaml_end(y);
        yaml_str(y, "group_wait", ways[i].wait);
        yaml_str(y, "group_interval", ways[i].interval);
        yaml_str(y, "repeat_interval", ways[i].repeat);
        yaml_end(y);
    }
    yaml_end(y);
    yaml_end(y);
}

static void put_receiver(struct render *r, struct yaml_out *y, const char *name)
{
    const char *const *hook = &r->spec->notify.webhook;

    yaml_map(y, NULL);
    yaml_str(y, "name", name);
    if (*hook) {
        yaml_seq(y, "webhook_configs");
        yaml_map(y, NULL);
        yaml_note(y, render_from(r, hook));
        yaml_str(y, "url", *hook);
        yaml_bool(y, "send_resolved", true);
        yaml_end(y);
        yaml_end(y);
    }
    yaml_end(y);
}

static void put_receivers(struct render *r, struct yaml_out *y)
{
    const struct spec_notify *n = &r->spec->notify;
    struct web_address a;

    if (n->webhook && !web_address_of(n->webhook, &a))
        render_refuse(r, &n->webhook, "Write it like https://HOST/PATH.",
                      "'%s' is no address that Alertmanager can post to", n->webhook);
    if (!n->webhook)
        yaml_comment(y, "the spec names no webhook: alerts are kept and shown, and nobody is told");
    if (n->command.count)
        yaml_comment(y, "notify.command is run by the agents: Alertmanager runs no programs");
    yaml_seq(y, "receivers");
    put_receiver(r, y, "default");
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
        put_receiver(r, y, ways[i].severity);
    yaml_end(y);
}

/* Who fires makes the others of the same thing needless. */
static const struct inhibit {
    const char *source, *target, *equal;
} inhibits[] = {
    { "severity=\"critical\"", "severity=~\"warning|info\"",
      "alertname instance gpu nvlink device port mountpoint model metric component" },
    { "alertname=~\"GpuLost|GpuDriverHung\"",
      "alertname=~\"GpuTelemetryAbsent|GpuMissing|NvlinkDown|CollectorStalled\"", "instance" },
    { "alertname=\"BudgetMonth\",severity=\"critical\"", "alertname=\"BudgetForecast\"",
      "component" },
    { "alertname=\"DiskFull\"", "alertname=\"DiskSpaceLow\"", "instance mountpoint" },
    { "alertname=\"RdmaLinkFlapping\"", "alertname=\"RdmaLinkDropped\"", "instance device port" },
    { "alertname=~\"GpuThrottledByHeat|GpuTemperatureAtLimit\"",
      "alertname=~\"GpuTemperatureHigh|GpuThrottledBySoftwareHeat\"", "instance gpu" },
    { "alertname=\"GpuMemoryFull\"", "alertname=\"GpuMemoryAboveTarget\"", "instance gpu" },
    { "alertname=\"GpuUtilizationLow\"", "alertname=~\"GpuUtilizationBelowTarget|GpuUnderused\"",
      "instance gpu" },
};

static void put_inhibits(struct yaml_out *y)
{
    yaml_seq(y, "inhibit_rules");
    for (size_t i = 0; i < ARRAY_SIZE(inhibits); i++) {
        yaml_map(y, NULL);
        yaml_seq(y, "source_matchers");
        yaml_str(y, NULL, inhibits[i].source);
        yaml_end(y);
        yaml_seq(y, "target_matchers");
        yaml_str(y, NULL, inhibits[i].target);
        yaml_end(y);
        put_list(y, "equal", inhibits[i].equal);
        yaml_end(y);
    }
    yaml_end(y);
}

void prometheus_alertmanager(struct render *r)
{
    /* who knows the address of a webhook can post to it */
    struct buf *b =
        (r->spec->notify.webhook ? render_secret : render_file)(r, "prometheus/alertmanager.yml");
    struct yaml_out y;

    render_head(r, b, "#", "alertmanager.yml: who is told of what fires");
    yaml_begin(&y, b);
    put_route(&y);
    put_receivers(r, &y);
    put_inhibits(&y);
    yaml_finish(&y);
}

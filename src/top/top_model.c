/* SPDX-License-Identifier: MIT */
/* top_model: what the API says, as a snapshot.  Whatever is missing or of another type is unknown;
 * only a text that is no JSON, or no agent's, is an error. */
#include "base/mem.h"
#include "base/str.h"
#include "top/top_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char top_series_path[] =
    "/api/v1/series?entity=gpu,host&metric=gpu.util,gpu.fb.*,gpu.temp*,gpu.mem.temp,gpu.power*,"
    "gpu.clock*,gpu.prof.*,gpu.pcie.*,gpu.nvlink.*,gpu.lost,gpu.enc.util,gpu.dec.util,gpu.fan,"
    "host.cpu.util,host.mem.total,host.mem.available,host.load1";

static const char *const gpu_metrics[TOP_VALUES] = {
    [TOP_UTIL] = "gpu.util",
    [TOP_MEM_USED] = "gpu.fb.used",
    [TOP_MEM_TOTAL] = "gpu.fb.total",
    [TOP_TEMP] = "gpu.temp",
    [TOP_TEMP_MEM] = "gpu.mem.temp",
    [TOP_TEMP_SLOW] = "gpu.temp.slowdown",
    [TOP_POWER] = "gpu.power",
    [TOP_POWER_LIMIT] = "gpu.power.limit",
    [TOP_CLOCK_SM] = "gpu.clock.sm",
    [TOP_CLOCK_SM_MAX] = "gpu.clock.sm.max",
    [TOP_CLOCK_MEM] = "gpu.clock.mem",
    [TOP_SM] = "gpu.prof.sm",
    [TOP_TENSOR] = "gpu.prof.tensor",
    [TOP_DRAM] = "gpu.prof.dram",
    [TOP_PCIE_RX] = "gpu.prof.pcie_rx",
    [TOP_PCIE_TX] = "gpu.prof.pcie_tx",
    [TOP_PCIE_RX_BYTES] = "gpu.pcie.rx_bytes",
    [TOP_PCIE_TX_BYTES] = "gpu.pcie.tx_bytes",
    [TOP_PCIE_GEN] = "gpu.pcie.gen",
    [TOP_PCIE_WIDTH] = "gpu.pcie.width",
    [TOP_NVLINK_RX] = "gpu.prof.nvlink_rx",
    [TOP_NVLINK_TX] = "gpu.prof.nvlink_tx",
    [TOP_NVLINK_RX_BYTES] = "gpu.nvlink.rx_bytes",
    [TOP_NVLINK_TX_BYTES] = "gpu.nvlink.tx_bytes",
    [TOP_NVLINK_LINKS] = "gpu.nvlink.links",
    [TOP_REASONS] = "gpu.clock_events",
    [TOP_LOST] = "gpu.lost",
    [TOP_ENCODER] = "gpu.enc.util",
    [TOP_DECODER] = "gpu.dec.util",
    [TOP_FAN] = "gpu.fan",
};

static const char *const host_metrics[TOP_HOST_VALUES] = {
    [TOP_HOST_CPU] = "host.cpu.util",
    [TOP_HOST_MEM_TOTAL] = "host.mem.total",
    [TOP_HOST_MEM_FREE] = "host.mem.available",
    [TOP_HOST_LOAD] = "host.load1",
};

static void copy_text(char *out, size_t cap, const char *from)
{
    (void)str_copy(out, cap, from ? from : "");
}

/* ---- GPUs */
/* The number of a GPU from a label; -1: it has none that we show. */
static int gpu_of(const struct json *labels)
{
    const char *text = json_str(json_get(labels, "gpu"));
    uint64_t n;

    return text && str_to_u64(text, 10, &n) && n < TOP_GPUS_MAX ? (int)n : -1;
}

static struct top_gpu *add_gpu(struct top_snap *s, int index, const struct json *labels)
{
    struct top_gpu *g;

    for (size_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].index == index)
            return &s->gpus[i];
    g = &s->gpus[s->gpu_count++]; /* indices are below the maximum, and once each */
    *g = (struct top_gpu){ .index = index };
    copy_text(g->name, sizeof(g->name), json_str(json_get(labels, "modelName")));
    copy_text(g->driver, sizeof(g->driver), json_str(json_get(labels, "DCGM_FI_DRIVER_VERSION")));
    for (size_t k = 0; k < TOP_VALUES; k++)
        g->v[k] = NAN;
    return g;
}

static void take_value(double *values, const char *const *names, size_t count, const char *metric,
                       const struct json *value)
{
    for (size_t k = 0; k < count; k++)
        if (str_eq(names[k], metric))
            values[k] = json_num(value, (double)NAN);
}

static void read_gpus(struct top_snap *s, const struct json *node)
{
    for (const struct json *g = json_first(json_get(node, "gpus")); g; g = g->next) {
        const struct json *labels = json_get(g, "labels"), *now = json_get(g, "now");
        int index = gpu_of(labels);
        struct top_gpu *to;

        if (index < 0)
            continue;
        to = add_gpu(s, index, labels);
        for (const struct json *m = json_first(now); m; m = m->next)
            take_value(to->v, gpu_metrics, TOP_VALUES, m->key, m);
    }
}

static void read_series(struct top_snap *s, const struct json *doc)
{
    for (const struct json *m = json_first(json_get(doc, "series")); m; m = m->next) {
        const struct json *labels = json_get(m, "labels"), *value = json_get(m, "value");
        const char *metric = json_str(json_get(m, "metric"));
        int index = gpu_of(labels);

        if (!metric || json_get(labels, "GPU_I_ID")) /* of a part of a GPU */
            continue;
        if (index < 0)
            take_value(s->host_v, host_metrics, TOP_HOST_VALUES, metric, value);
        else
            take_value(add_gpu(s, index, labels)->v, gpu_metrics, TOP_VALUES, metric, value);
    }
}

/* ---- processes */
static void read_job(struct top_process *p, const struct json *labels)
{
    const char *slurm = json_str(json_get(labels, "slurm_job"));
    const char *pod = json_str(json_get(labels, "pod")),
               *space = json_str(json_get(labels, "namespace"));
    const char *uid = json_str(json_get(labels, "pod_uid"));
    const char *container = json_str(json_get(labels, "container"));

    if (slurm)
        (void)snprintf(p->job, sizeof(p->job), "slurm %s", slurm);
    else if (pod)
        (void)snprintf(p->job, sizeof(p->job), "%s%s%s", space ? space : "", space ? "/" : "", pod);
    else if (uid)
        (void)snprintf(p->job, sizeof(p->job), "pod %s", uid);
    else if (container)
        (void)snprintf(p->job, sizeof(p->job), "ctr %s", container);
    else
        copy_text(p->job, sizeof(p->job), json_str(json_get(labels, "unit")));
}

static void read_process(struct top_snap *s, const struct json *from)
{
    struct top_process *p = &s->processes[s->process_count];
    const struct json *labels = json_get(from, "labels");
    const char *pid = json_str(json_get(labels, "pid")), *type = json_str(json_get(from, "type")),
               *part = json_str(json_get(labels, "GPU_I_ID"));
    int64_t instance = -1;

    *p = (struct top_process){ .gpu = gpu_of(labels) };
    if (p->gpu < 0 || !pid || !str_to_i64(pid, 10, &p->pid) || p->pid <= 0)
        return;
    if (part)
        (void)str_to_i64(part, 10, &instance);
    p->instance = instance >= 0 && instance < 1000 ? (int)instance : -1;
    p->type = str_eq(type, "compute") ? 'C' : str_eq(type, "graphics") ? 'G' : '\0';
    copy_text(p->user, sizeof(p->user), json_str(json_get(labels, "user")));
    copy_text(p->command, sizeof(p->command), json_str(json_get(labels, "command")));
    read_job(p, labels);
    p->util = json_num(json_get(from, "util_pct"), (double)NAN);
    p->memory = json_num(json_get(from, "memory_bytes"), (double)NAN);
    p->cpu_s = json_num(json_get(from, "cpu_seconds"), (double)NAN);
    p->rss = json_num(json_get(from, "rss_bytes"), (double)NAN);
    p->cpu = (double)NAN;
    s->process_count++;
}

static int by_pid(const void *a, const void *b)
{
    const struct top_process *x = a, *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->gpu != y->gpu)
        return x->gpu < y->gpu ? -1 : 1;
    return (x->instance > y->instance) - (x->instance < y->instance);
}

static void read_processes(struct top_snap *s, const struct json *doc)
{
    const struct json *list = json_get(doc, "processes");
    size_t count = list ? list->count : 0;

    count = count < TOP_PROCESSES_MAX ? count : TOP_PROCESSES_MAX;
    s->processes = xcalloc(count + 1, sizeof(*s->processes));
    for (const struct json *p = json_first(list); p && s->process_count < count; p = p->next)
        read_process(s, p);
    qsort(s->processes, s->process_count, sizeof(*s->processes), by_pid);
}

/* ---- alerts */
static void read_alert(struct top_snap *s, const struct json *from)
{
    struct top_alert *a = &s->alerts[s->alert_count];
    const char *state = json_str(json_get(from, "state"));
    const char *severity = json_str(json_get(from, "severity"));

    *a = (struct top_alert){ .firing = str_eq(state, "firing") };
    if (!a->firing && !str_eq(state, "pending"))
        return;
    a->severity = str_eq(severity, "critical")  ? TOP_CRITICAL
                  : str_eq(severity, "warning") ? TOP_WARNING
                                                : TOP_INFO;
    copy_text(a->name, sizeof(a->name), json_str(json_get(from, "name")));
    copy_text(a->text, sizeof(a->text), json_str(json_get(from, "summary")));
    a->below = json_str(json_get(from, "root")) != NULL;
    copy_text(a->id, sizeof(a->id), json_str(json_get(from, a->below ? "root" : "id")));
    s->firing += a->firing;
    s->alert_count++;
}

static int worst_first(const void *a, const void *b)
{
    const struct top_alert *x = a, *y = b;

    if (x->firing != y->firing)
        return x->firing ? -1 : 1;
    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    return strcmp(x->name, y->name) ? strcmp(x->name, y->name) : strcmp(x->text, y->text);
}

/* What follows from another one stands below it, in the order it had. */
static void put_below(struct top_alert *list, size_t count)
{
    struct top_alert *sorted = xcalloc(count ? count : 1, sizeof(*sorted));
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        if (list[i].below)
            continue;
        sorted[n++] = list[i];
        for (size_t k = 0; k < count && list[i].id[0]; k++)
            if (list[k].below && str_eq(list[k].id, list[i].id))
                sorted[n++] = list[k];
    }
    for (size_t i = 0; i < count && n < count; i++) { /* whose root is not listed */
        bool there = !list[i].below;

        for (size_t k = 0; k < n && !there; k++)
            there = str_eq(sorted[k].name, list[i].name) && str_eq(sorted[k].text, list[i].text) &&
                    str_eq(sorted[k].id, list[i].id);
        if (!there)
            sorted[n++] = list[i];
    }
    memcpy(list, sorted, n * sizeof(*list));
    free(sorted);
}

static void read_alerts(struct top_snap *s, const struct json *doc)
{
    s->alerts = xcalloc(TOP_ALERTS_MAX, sizeof(*s->alerts));
    for (const struct json *a = json_first(json_get(doc, "alerts"));
         a && s->alert_count < TOP_ALERTS_MAX; a = a->next)
        read_alert(s, a);
    qsort(s->alerts, s->alert_count, sizeof(*s->alerts), worst_first);
    put_below(s->alerts, s->alert_count);
}

/* ---- the whole */
static int by_index(const void *a, const void *b)
{
    const struct top_gpu *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

static void read_node(struct top_snap *s, const struct json *node)
{
    const struct json *driver = json_get(json_get(node, "agent"), "driver");
    const char *state = json_str(json_get(driver, "state")),
               *why = json_str(json_get(driver, "why"));
    int64_t period = maybe_or(json_int(json_get(node, "period_ms")), 1000);

    copy_text(s->host, sizeof(s->host), json_str(json_get(node, "host")));
    copy_text(s->version, sizeof(s->version), json_str(json_get(node, "version")));
    copy_text(s->note, sizeof(s->note), json_str(json_get(node, "note")));
    s->demo = maybe_is(json_bool(json_get(node, "demo")), 1);
    s->time_ms = maybe_or(json_int(json_get(node, "time_ms")), 0);
    s->period_ms = period >= 100 && period <= 3600000 ? (int)period : 1000;
    if (why && *why)
        (void)snprintf(s->driver, sizeof(s->driver), "%s%s%s", state ? state : "",
                       state ? ": " : "", why);
    read_gpus(s, node);
}

static enum rc parse_document(struct arena *a, const char *text, size_t len, const char *what,
                              const struct json **out, struct err *err)
{
    struct json *doc = NULL;

    if (!text || !len)
        return RC_OK;
    if (len > TOP_BODY_MAX)
        return err_set(err, RC_LIMIT, "its %s take more than %d bytes", what, TOP_BODY_MAX);
    if (json_parse(a, text, len, &doc, err))
        return err_ctx(err, "its %s", what);
    *out = doc;
    return RC_OK;
}

enum rc top_snap_read(const struct top_docs *d, struct top_snap **out, struct err *err)
{
    const struct json *node = NULL, *series = NULL, *processes = NULL, *alerts = NULL;
    struct arena a = { 0 };
    struct top_snap *s;
    enum rc rc = parse_document(&a, d->node, d->node_len, "facts", &node, err);

    if (!rc && !str_eq(json_str(json_get(node, "schema")), "stoker.node/1"))
        rc = err_set(err, RC_PARSE, "what answers there is not a stoker agent");
    if (!rc)
        rc = parse_document(&a, d->series, d->series_len, "series", &series, err);
    if (!rc)
        rc = parse_document(&a, d->processes, d->processes_len, "processes", &processes, err);
    if (!rc)
        rc = parse_document(&a, d->alerts, d->alerts_len, "alerts", &alerts, err);
    if (!rc) {
        s = xcalloc(1, sizeof(*s));
        s->gpus = xcalloc(TOP_GPUS_MAX, sizeof(*s->gpus));
        for (size_t i = 0; i < TOP_HOST_VALUES; i++)
            s->host_v[i] = NAN;
        read_node(s, node);
        read_series(s, series);
        read_processes(s, processes);
        read_alerts(s, alerts);
        qsort(s->gpus, s->gpu_count, sizeof(*s->gpus), by_index);
        *out = s;
    }
    arena_release(&a);
    return rc;
}

void top_snap_free(struct top_snap *s)
{
    if (!s)
        return;
    free(s->gpus);
    free(s->processes);
    free(s->alerts);
    free(s);
}

/* ---- rates */
/* A counter that began anew gives none. */
static double rate_of(double now, double before, double seconds)
{
    return now >= before ? (now - before) / seconds : (double)NAN;
}

static void gpu_rates(struct top_gpu *g, const struct top_gpu *before, double seconds)
{
    static const enum top_value pairs[][2] = { { TOP_PCIE_RX, TOP_PCIE_RX_BYTES },
                                               { TOP_PCIE_TX, TOP_PCIE_TX_BYTES },
                                               { TOP_NVLINK_RX, TOP_NVLINK_RX_BYTES },
                                               { TOP_NVLINK_TX, TOP_NVLINK_TX_BYTES } };

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
        if (isnan(g->v[pairs[i][0]]))
            g->v[pairs[i][0]] = rate_of(g->v[pairs[i][1]], before->v[pairs[i][1]], seconds);
}

void top_snap_rates(struct top_snap *s, const struct top_snap *before)
{
    double seconds = (double)(s->time_ms - before->time_ms) / 1000;
    size_t k = 0;

    if (seconds <= 0 || !s->time_ms || !before->time_ms)
        return;
    for (size_t i = 0; i < s->gpu_count; i++) {
        while (k < before->gpu_count && before->gpus[k].index < s->gpus[i].index)
            k++;
        if (k < before->gpu_count && before->gpus[k].index == s->gpus[i].index)
            gpu_rates(&s->gpus[i], &before->gpus[k], seconds);
    }
    k = 0;
    for (size_t i = 0; i < s->process_count; i++) {
        struct top_process *p = &s->processes[i];
        while (k < before->process_count && by_pid(&before->processes[k], p) < 0)
            k++;
        if (k < before->process_count && !by_pid(&before->processes[k], p))
            p->cpu = 100 * rate_of(p->cpu_s, before->processes[k].cpu_s, seconds);
    }
}

/* ---- words */
enum grid_look top_reasons(double mask, char *out, size_t cap)
{
    static const struct {
        unsigned bit;
        const char *word;
        enum grid_look look;
    } rows[] = { { 0x8, "HW slowdown", LOOK_BAD },  { 0x40, "thermal (HW)", LOOK_BAD },
                 { 0x80, "power brake", LOOK_BAD }, { 0x20, "thermal (SW)", LOOK_BAD },
                 { 0x4, "power cap", LOOK_WARN },   { 0x10, "sync boost", LOOK_PLAIN },
                 { 0x2, "clocks set", LOOK_PLAIN }, { 0x100, "display clocks", LOOK_PLAIN },
                 { 0x1, "idle", LOOK_DIM } };
    enum grid_look worst = LOOK_DIM;
    size_t len = 0;
    unsigned bits;

    copy_text(out, cap, isnan(mask) ? "-" : "none");
    if (!(mask >= 1 && mask < 4294967296.0)) /* NaN too */
        return worst;
    bits = (unsigned)mask;
    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(rows) && len < cap; i++) {
        if (!(bits & rows[i].bit))
            continue;
        worst = len ? worst : rows[i].look;
        len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? ", " : "", rows[i].word);
        bits &= ~rows[i].bit;
    }
    if (bits && len < cap)
        (void)snprintf(out + len, cap - len, "%s0x%x", len ? ", " : "", bits);
    return worst;
}

/* SPDX-License-Identifier: MIT */
/* intervals: seconds become sums of the run and of the interval under way; an interval that is
 * over becomes facts, a line and rows of CSV.  Neighbouring intervals with one verdict are a
 * phase. */
#include "monitor/monitor_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Beside what bottleneck_metrics[] has. */
static const char *const more_metrics[] = {
    "gpu.fb.used",
    "gpu.fb.total",
    "gpu.temp",
    "gpu.mem.temp",
    "gpu.power",
    "gpu.power.limit",
    "gpu.prof.occupancy",
    "gpu.ecc.sbe.volatile",
    "gpu.ecc.dbe.volatile",
    "gpu.pcie.replay",
    "gpu.remap.correctable",
    "gpu.remap.uncorrectable",
    "gpu.nvlink.crc_flit",
    "gpu.nvlink.replay",
    "process.gpu.memory",
    "host.mem.available",
    "host.mem.total",
    "host.load1",
    "job.tokens_per_second",
    "job.samples_per_second",
    "job.step_seconds",
    NULL,
};

const struct monitor_row monitor_rows[] = {
    { "util", "utilisation", "gpu.util", 1, "%" },
    { "tensor", "tensor cores", "gpu.prof.tensor", 100, "%" },
    { "sm", "SMs", "gpu.prof.sm", 100, "%" },
    { "dram", "memory traffic", "gpu.prof.dram", 100, "%" },
    { "memory", "memory used", "gpu.fb.used", 1, "B" },
    { "temp", "temperature", "gpu.temp", 1, "C" },
    { "mem_temp", "memory temperature", "gpu.mem.temp", 1, "C" },
    { "power", "power", "gpu.power", 1, "W" },
    { "clock", "SM clock", "gpu.clock.sm", 1, "MHz" },
    { "pcie_in", "PCIe in", "gpu.prof.pcie_rx", 1, "B/s" },
    { "pcie_out", "PCIe out", "gpu.prof.pcie_tx", 1, "B/s" },
    { "nvlink_in", "NVLink in", "gpu.prof.nvlink_rx", 1, "B/s" },
    { "nvlink_out", "NVLink out", "gpu.prof.nvlink_tx", 1, "B/s" },
};
const size_t monitor_row_count = ARRAY_SIZE(monitor_rows);

const struct monitor_error monitor_errors[] = {
    { "ecc_double_bit", "double-bit ECC", "gpu.ecc.dbe.volatile" },
    { "ecc_single_bit", "single-bit ECC", "gpu.ecc.sbe.volatile" },
    { NULL, "rows remapped", "gpu.remap.uncorrectable" },
    { "pcie_replay", "PCIe replays", "gpu.pcie.replay" },
    { "nvlink_replay", "NVLink replays", "gpu.nvlink.replay" },
    { 0 },
};

const char monitor_csv_head[] =
    "time,elapsed_s,gpu,util_pct,tensor_pct,sm_pct,dram_pct,memory_bytes,memory_total_bytes,"
    "temp_c,power_w,clock_sm_mhz,held_back_pct,pcie_in_bytes_s,pcie_out_bytes_s,nvlink_in_bytes_s,"
    "nvlink_out_bytes_s,ecc_dbe,xid,cpu_pct,limit,confidence\n";
const char monitor_memory_head[] = "time,elapsed_s,gpu,pid,command,user,bytes\n";

/* ---- life */

void monitor_init(struct monitor *m, int64_t interval_ns)
{
    *m = (struct monitor){ .interval_ns = interval_ns };
    pthread_mutex_init(&m->lock, NULL);
    m->intervals = xcalloc(MONITOR_INTERVALS_MAX, sizeof(*m->intervals));
    m->events = xcalloc(MONITOR_EVENTS_MAX, sizeof(*m->events));
}

void monitor_windows(struct monitor *m)
{
    const char *ids[WINDOW_METRICS_MAX + 1] = { NULL };
    size_t n = 0;

    for (size_t i = 0; bottleneck_metrics[i]; i++)
        ids[n++] = bottleneck_metrics[i];
    for (size_t i = 0; more_metrics[i]; i++)
        ids[n++] = more_metrics[i];
    for (size_t i = 0; i < m->target_count && n < WINDOW_METRICS_MAX; i++)
        if (!m->targets[i].dflt)
            ids[n++] = m->targets[i].metric;
    m->all = window_new(ids, true);
    m->span = window_new(ids, false);
}

void monitor_release(struct monitor *m)
{
    for (size_t i = 0; i < m->interval_count; i++)
        free(m->intervals[i].facts);
    free(m->intervals);
    free(m->events);
    window_free(m->all);
    window_free(m->span);
    buf_release(&m->csv);
    buf_release(&m->memory_csv);
    buf_release(&m->lines);
    pthread_mutex_destroy(&m->lock);
}

/* ---- asking */

const struct window_slot *monitor_slot(const struct monitor *m, const char *metric, int gpu)
{
    return window_find(m->all, metric, gpu);
}

const char *monitor_model(const struct monitor *m, int gpu)
{
    for (size_t i = 0; i < window_count(m->all); i++) {
        const struct window_slot *s = window_at(m->all, i);
        if (s->entity == TELEMETRY_GPU && s->gpu == gpu && window_label(s, "modelName"))
            return window_label(s, "modelName");
    }
    return NULL;
}

static uint64_t xids_since(const struct monitor *m, int gpu, int64_t from_ns)
{
    uint64_t n = 0;

    for (size_t i = 0; i < m->event_count; i++)
        n += m->events[i].kind == TELEMETRY_EVENT_XID && (gpu < 0 || m->events[i].gpu == gpu) &&
             m->events[i].time_ns >= from_ns;
    return n;
}

uint64_t monitor_xids(const struct monitor *m, int gpu)
{
    return xids_since(m, gpu, INT64_MIN);
}

static double held_share(const struct window_slot *s, unsigned bits)
{
    double share = NAN;

    for (size_t i = 0; s && s->count && i < WINDOW_BITS; i++) {
        double v = (double)s->bits[i] / (double)s->count;
        if (bits >> i & 1 && (isnan(share) || v > share))
            share = v;
    }
    return share;
}

double monitor_held(const struct monitor *m, int gpu, unsigned bits)
{
    return held_share(monitor_slot(m, "gpu.clock_events", gpu), bits);
}

/* ---- an interval that is over */

static void time_text(int64_t ns, char out[32])
{
    time_t s = (time_t)(ns / MONITOR_SECOND);
    struct tm tm;

    if (!gmtime_r(&s, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
        out[0] = '\0';
}

/* A number, or an empty cell: unknown is not 0. */
static void number_cell(struct buf *out, double v)
{
    buf_addc(out, ',');
    if (isfinite(v))
        buf_addf(out, "%.10g", v);
}

static void text_cell(struct buf *out, const char *s)
{
    buf_adds(out, ",\"");
    for (; s && *s; s++)
        if (*s == '"')
            buf_adds(out, "\"\"");
        else
            buf_addc(out, (unsigned char)*s < 0x20 ? ' ' : *s);
    buf_addc(out, '"');
}

static void row_begin(const struct monitor *m, struct buf *out)
{
    char when[32];

    time_text(m->last_ns, when);
    buf_addf(out, "%s,%.0f", when, (double)(m->last_ns - m->begun_ns) / 1e9);
}

static void csv_row(struct monitor *m, int gpu, const struct bottleneck_verdict *v)
{
    static const char *const before[] = { "util", "tensor", "sm", "dram", "memory" };
    static const char *const after[] = { "pcie_in", "pcie_out", "nvlink_in", "nvlink_out" };
    struct buf *out = &m->csv;

#define MEAN(metric) window_mean(window_find(m->span, metric, gpu))
#define NAMED(list, i)                                                                             \
    for (size_t k = 0; k < monitor_row_count; k++)                                                 \
        if (str_eq(monitor_rows[k].key, (list)[i]))                                                \
    number_cell(out, gpu < 0 ? NAN : MEAN(monitor_rows[k].metric) * monitor_rows[k].scale)
    row_begin(m, out);
    if (gpu < 0)
        buf_adds(out, ",");
    else
        buf_addf(out, ",%d", gpu);
    for (size_t i = 0; i < ARRAY_SIZE(before); i++)
        NAMED(before, i);
    number_cell(out, gpu < 0 ? NAN : MEAN("gpu.fb.total"));
    number_cell(out, gpu < 0 ? NAN : MEAN("gpu.temp"));
    number_cell(out, gpu < 0 ? NAN : MEAN("gpu.power"));
    number_cell(out, gpu < 0 ? NAN : MEAN("gpu.clock.sm"));
    number_cell(out, gpu < 0 ? NAN
                             : 100 * held_share(window_find(m->span, "gpu.clock_events", gpu),
                                                HELD_POWER | HELD_HEAT | HELD_BRAKE));
    for (size_t i = 0; i < ARRAY_SIZE(after); i++)
        NAMED(after, i);
    number_cell(out, gpu < 0 ? NAN : MEAN("gpu.ecc.dbe.volatile"));
    number_cell(out, gpu < 0 ? NAN : (double)xids_since(m, gpu, m->span_ns));
    number_cell(out, window_mean(window_find(m->span, "host.cpu.util", -1)));
    buf_addf(out, ",%s", bottleneck_word(v->limit));
    number_cell(out, v->confidence);
    buf_addc(out, '\n');
#undef NAMED
#undef MEAN
}

static void memory_rows(struct monitor *m)
{
    for (size_t i = 0; i < window_count(m->span); i++) {
        const struct window_slot *s = window_at(m->span, i);
        if (!s->count || !str_eq(s->id, "process.gpu.memory"))
            continue;
        row_begin(m, &m->memory_csv);
        buf_addf(&m->memory_csv, ",%d", s->gpu);
        text_cell(&m->memory_csv, window_label(s, "pid"));
        text_cell(&m->memory_csv, window_label(s, "command"));
        text_cell(&m->memory_csv, window_label(s, "user"));
        number_cell(&m->memory_csv, window_mean(s));
        buf_addc(&m->memory_csv, '\n');
    }
}

/* Over all GPUs that know it. */
static double mean_over(const struct monitor *m, const char *metric)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < window_count(m->span); i++) {
        const struct window_slot *s = window_at(m->span, i);
        if (s->count && str_eq(s->id, metric)) {
            sum += window_mean(s);
            n++;
        }
    }
    return n ? sum / (double)n : NAN;
}

static void add_line(struct monitor *m, const struct bottleneck_verdict *v)
{
    struct buf *out = &m->lines;
    uint64_t s = (uint64_t)((m->last_ns - m->begun_ns) / MONITOR_SECOND);

    buf_addf(out, "%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 "  ", s / 3600, s / 60 % 60, s % 60);
    if (m->gpu_count) {
        buf_adds(out, "util ");
        monitor_value(mean_over(m, "gpu.util"), "%", out);
        buf_adds(out, "  tensor ");
        monitor_value(mean_over(m, "gpu.prof.tensor") * 100, "%", out);
        buf_adds(out, "  memory ");
        monitor_value(mean_over(m, "gpu.fb.used"), "B", out);
        buf_adds(out, "  ");
        monitor_value(mean_over(m, "gpu.temp"), "C", out);
        buf_adds(out, "  ");
        monitor_value(mean_over(m, "gpu.power"), "W", out);
    } else {
        buf_adds(out, "CPUs ");
        monitor_value(mean_over(m, "host.cpu.util"), "%", out);
    }
    buf_addf(out, "  limit: %s (%.2f)\n", bottleneck_title(v->limit), v->confidence);
}

/* Two neighbours become one, so that a run of any length has room. */
static void halve_intervals(struct monitor *m)
{
    size_t n = 0;

    for (size_t i = 0; i + 1 < m->interval_count; i += 2) {
        struct monitor_interval *a = &m->intervals[i], *b = &m->intervals[i + 1];
        for (size_t k = 0; k < a->count && k < b->count; k++)
            bottleneck_facts_merge(&a->facts[k], &b->facts[k]);
        a->to_ns = b->to_ns;
        free(b->facts);
        m->intervals[n++] = *a;
    }
    if (m->interval_count % 2)
        m->intervals[n++] = m->intervals[m->interval_count - 1];
    m->interval_count = n;
}

static void judge_interval(const struct bottleneck_facts *facts, size_t count, const int *gpus,
                           struct bottleneck_report *out)
{
    *out = (struct bottleneck_report){ .node_gpu = -1 };
    if (facts[0].no_gpu) {
        bottleneck_judge(&facts[0], &out->node);
        return;
    }
    out->gpu_count = count;
    for (size_t i = 0; i < count; i++) {
        out->gpus[i].gpu = gpus ? gpus[i] : (int)i;
        bottleneck_judge(&facts[i], &out->gpus[i].verdict);
    }
    bottleneck_report_node(out);
}

static void close_interval(struct monitor *m)
{
    struct bottleneck_report *r;
    struct monitor_interval n = { .from_ns = m->span_ns, .to_ns = m->last_ns };

    m->gpu_count = bottleneck_gpus(m->all, m->gpus, BOTTLENECK_GPUS_MAX);
    n.count = m->gpu_count ? m->gpu_count : 1;
    n.facts = xcalloc(n.count, sizeof(*n.facts));
    for (size_t i = 0; i < n.count; i++)
        bottleneck_facts_of(m->span, m->gpu_count ? m->gpus[i] : -1, &n.facts[i]);
    r = xcalloc(1, sizeof(*r));
    judge_interval(n.facts, n.count, m->gpus, r);
    for (size_t i = 0; m->want_csv && i < m->gpu_count; i++)
        csv_row(m, m->gpus[i], &r->gpus[i].verdict);
    if (m->want_csv && !m->gpu_count)
        csv_row(m, -1, &r->node);
    if (m->want_memory)
        memory_rows(m);
    if (m->want_lines)
        add_line(m, &r->node);
    free(r);
    if (m->interval_count == MONITOR_INTERVALS_MAX)
        halve_intervals(m);
    m->intervals[m->interval_count++] = n;
    window_next(m->span);
    m->span_ns = m->last_ns;
}

/* ---- coming in */

static void note_second(struct monitor *m, int64_t time_ns, uint64_t seconds)
{
    if (!m->begun_ns || time_ns < m->begun_ns)
        m->begun_ns = m->span_ns = time_ns;
    m->last_ns = time_ns > m->last_ns ? time_ns : m->last_ns;
    m->samples += seconds;
    if (m->last_ns - m->span_ns >= m->interval_ns)
        close_interval(m);
}

void monitor_note(struct monitor *m, int64_t time_ns, uint64_t seconds)
{
    pthread_mutex_lock(&m->lock);
    note_second(m, time_ns, seconds);
    pthread_mutex_unlock(&m->lock);
}

void monitor_add_event(struct monitor *m, const struct telemetry_event *e)
{
    int64_t from = m->from_ns ? m->from_ns : m->begun_ns;

    if (e->time_ns < from - MONITOR_SECOND)
        return; /* of before: the log's backlog, another run's */
    if (m->event_count == MONITOR_EVENTS_MAX)
        m->events_left_out++;
    else
        m->events[m->event_count++] = *e;
}

static void take_events(struct monitor *m, struct telemetry *t)
{
    struct telemetry_event some[16];
    size_t n;

    while ((n = telemetry_events_after(t, &m->events_seen, some, ARRAY_SIZE(some))) > 0)
        for (size_t i = 0; i < n; i++)
            if (some[i].kind != TELEMETRY_EVENT_AGENT)
                monitor_add_event(m, &some[i]);
}

void monitor_second(struct monitor *m, struct telemetry *t, int64_t time_ns)
{
    pthread_mutex_lock(&m->lock);
    window_take(m->all, t, time_ns);
    window_take(m->span, t, time_ns);
    note_second(m, time_ns, 1);
    take_events(m, t);
    pthread_mutex_unlock(&m->lock);
}

void monitor_end(struct monitor *m)
{
    pthread_mutex_lock(&m->lock);
    if (m->samples && (m->last_ns > m->span_ns || !m->interval_count))
        close_interval(m);
    pthread_mutex_unlock(&m->lock);
}

/* ---- phases */

/* Facts of neighbours added up, judged anew. */
static void judge_run(const struct monitor *m, size_t from, size_t to, struct monitor_phase *out)
{
    struct bottleneck_report *r = xcalloc(1, sizeof(*r));
    const struct monitor_interval *first = &m->intervals[from];
    struct bottleneck_facts *sum = xcalloc(first->count, sizeof(*sum));

    memcpy(sum, first->facts, first->count * sizeof(*sum));
    for (size_t i = from + 1; i < to; i++)
        for (size_t k = 0; k < first->count && k < m->intervals[i].count; k++)
            bottleneck_facts_merge(&sum[k], &m->intervals[i].facts[k]);
    judge_interval(sum, first->count, m->gpus, r);
    *out = (struct monitor_phase){ .from_ns = first->from_ns,
                                   .to_ns = m->intervals[to - 1].to_ns,
                                   .verdict = r->node };
    free(sum);
    free(r);
}

/* Intervals [from, to) of each phase. */
struct phase_stretch {
    size_t from, to;
};

/* Facts of neighbours added up may give another verdict than each had by itself: those that are
 * equal now are one, judged anew. */
static size_t join_equal(const struct monitor *m, struct phase_stretch *s, struct monitor_phase *p,
                         size_t n)
{
    for (size_t i = 1; i < n;) {
        if (p[i].verdict.limit != p[i - 1].verdict.limit) {
            i++;
            continue;
        }
        s[i - 1].to = s[i].to;
        judge_run(m, s[i - 1].from, s[i - 1].to, &p[i - 1]);
        memmove(&s[i], &s[i + 1], (n - i - 1) * sizeof(*s));
        memmove(&p[i], &p[i + 1], (n - i - 1) * sizeof(*p));
        n--;
        i = i > 1 ? i - 1 : 1; /* the one before may equal it now */
    }
    return n;
}

size_t monitor_phases(const struct monitor *m, struct monitor_phase *out, size_t cap)
{
    enum bottleneck_class *c = xcalloc(m->interval_count ? m->interval_count : 1, sizeof(*c));
    struct phase_stretch *s = xcalloc(cap, sizeof(*s));
    size_t n = 0, from = 0;

    for (size_t i = 0; i < m->interval_count; i++) {
        struct monitor_phase one;
        judge_run(m, i, i + 1, &one);
        c[i] = one.verdict.limit;
    }
    /* One interval between two of another class is that class too: a phase lasts. */
    for (size_t i = 1; i + 1 < m->interval_count; i++)
        if (c[i - 1] == c[i + 1])
            c[i] = c[i - 1];
    for (size_t i = 1; i <= m->interval_count && n < cap; i++) {
        if (i < m->interval_count &&
            (c[i] == c[from] || n + 1 == cap)) /* the last takes the rest */
            continue;
        s[n] = (struct phase_stretch){ from, i };
        judge_run(m, from, i, &out[n++]);
        from = i;
    }
    n = join_equal(m, s, out, n);
    free(s);
    free(c);
    return n;
}

void monitor_whole(const struct monitor *m, struct bottleneck_report *out)
{
    bottleneck_report(m->all, out);
}

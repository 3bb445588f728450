/* SPDX-License-Identifier: MIT */
/* monitor_report: a run for people. */
#include "monitor/monitor_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { EVENTS_SHOWN = 20, PROCESSES_SHOWN = 32 };

void monitor_value(double v, const char *unit, struct buf *out)
{
    char text[UNITS_TEXT_MAX];

    if (!isfinite(v))
        buf_addc(out, '-');
    else if (unit[0] == 'B' && v >= 0)
        buf_addf(out, "%s%s", units_bytes_human((uint64_t)v, text), unit + 1);
    else
        buf_addf(out, "%.*f %s", v > 0 && v < 9.95 && !str_eq(unit, "C") ? 1 : 0, v, unit);
}

static void value_cell(struct table *t, double v, const char *unit)
{
    struct buf b = { 0 };

    monitor_value(v, unit, &b);
    table_cell(t, COLOUR_NONE, "%s", buf_str(&b));
    buf_release(&b);
}

static void add_heading(const struct term *term, struct buf *out, const char *text)
{
    buf_addc(out, '\n');
    term_text(term, out, COLOUR_BOLD, "%s", text);
    buf_addc(out, '\n');
}

/* What came from outside and is printed. */
static const char *clean_text(const char *s, char *out, size_t cap)
{
    (void)str_copy(out, cap, s ? s : "-");
    str_make_text(out);
    for (char *p = out; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    return out;
}

static void clock_text(int64_t ns, char out[16])
{
    time_t s = (time_t)(ns / MONITOR_SECOND);
    struct tm tm;

    if (!gmtime_r(&s, &tm) || !strftime(out, 16, "%H:%M:%S", &tm))
        (void)str_copy(out, 16, "-");
}

/* Since the run began. */
static void since_text(const struct monitor *m, int64_t ns, char out[16])
{
    long long s = (long long)((ns - m->begun_ns) / MONITOR_SECOND);

    s = s < 0 ? 0 : s;
    (void)snprintf(out, 16, "%02lld:%02lld:%02lld", s / 3600 % 1000, s / 60 % 60, s % 60);
}

static void add_head(const struct monitor *m, struct buf *out)
{
    char host[TELEMETRY_VALUE_MAX], from[16], to[16];

    clock_text(m->begun_ns, from);
    clock_text(m->last_ns, to);
    buf_addf(out, "Watched %s",
             clean_text(m->host[0] ? m->host : "this machine", host, sizeof(host)));
    if (!m->samples) {
        buf_adds(out, ": it ended before a sample was taken\n");
        return;
    }
    buf_addf(out, " for %.0f s, %s to %s UTC: %" PRIu64 " sample%s, ",
             (double)(m->last_ns - m->begun_ns) / 1e9, from, to, m->samples,
             m->samples == 1 ? "" : "s");
    if (m->gpu_count)
        buf_addf(out, "%zu GPU%s\n", m->gpu_count, m->gpu_count > 1 ? "s" : "");
    else
        buf_adds(out, "no GPU: the host alone\n");
    if (m->torn)
        buf_adds(out, "The recording is torn; this is as far as it is whole.\n");
}

/* ---- GPUs */

static void add_gpu_table(const struct monitor *m, int gpu, const struct term *term,
                          struct buf *out)
{
    struct table *t = table_new();
    static const char *const titles[] = { "mean", "p50", "p95", "max" };

    table_col(t, "", TABLE_LEFT);
    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], TABLE_RIGHT);
    for (size_t i = 0; i < monitor_row_count; i++) {
        const struct monitor_row *r = &monitor_rows[i];
        const struct window_slot *s = monitor_slot(m, r->metric, gpu);
        if (!s)
            continue;
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", r->title);
        value_cell(t, window_mean(s) * r->scale, r->unit);
        value_cell(t, window_quantile(s, 0.5) * r->scale, r->unit);
        value_cell(t, window_quantile(s, 0.95) * r->scale, r->unit);
        value_cell(t, s->max * r->scale, r->unit);
    }
    table_print(t, term, 2, out);
    table_free(t);
}

static void add_gpu(const struct monitor *m, int gpu, const struct term *term, struct buf *out)
{
    char model[TELEMETRY_VALUE_MAX], title[TELEMETRY_VALUE_MAX + 32];
    double power = monitor_held(m, gpu, HELD_POWER);

    (void)snprintf(title, sizeof(title), "GPU %d  %s", gpu,
                   clean_text(monitor_model(m, gpu), model, sizeof(model)));
    add_heading(term, out, title);
    add_gpu_table(m, gpu, term, out);
    buf_adds(out, "  not known:");
    size_t before = out->len;
    for (size_t i = 0; i < monitor_row_count; i++)
        if (!monitor_slot(m, monitor_rows[i].metric, gpu))
            buf_addf(out, "%s %s", out->len > before ? "," : "", monitor_rows[i].title);
    buf_adds(out, out->len > before ? "\n" : " nothing\n");
    buf_adds(out, "  clocks held back: ");
    if (isnan(power))
        buf_adds(out, "not known\n");
    else
        buf_addf(out, "power limit %.0f %%, heat %.0f %%, power brake %.0f %% of the time\n",
                 power * 100, monitor_held(m, gpu, HELD_HEAT) * 100,
                 monitor_held(m, gpu, HELD_BRAKE) * 100);
    buf_addf(out, "  new errors: XID %" PRIu64, monitor_xids(m, gpu));
    for (const struct monitor_error *e = monitor_errors; e->metric; e++) {
        const struct window_slot *w = monitor_slot(m, e->metric, gpu);
        if (w)
            buf_addf(out, ", %s %.0f", e->title, w->rise);
    }
    buf_addc(out, '\n');
}

static void add_host(const struct monitor *m, const struct term *term, struct buf *out)
{
    const struct window_slot *cpu = monitor_slot(m, "host.cpu.util", -1);
    const struct window_slot *free_ = monitor_slot(m, "host.mem.available", -1);
    struct bottleneck_facts f;

    add_heading(term, out, "Host");
    bottleneck_facts_of(m->all, -1, &f);
    buf_adds(out, "  CPUs busy ");
    monitor_value(window_mean(cpu), "%", out);
    buf_adds(out, ", at most ");
    monitor_value(cpu ? cpu->max : NAN, "%", out);
    buf_adds(out, "; memory free at least ");
    monitor_value(free_ ? free_->min : NAN, "B", out);
    buf_addc(out, '\n');
    for (int i = BOTTLENECK_F_CORE; i < BOTTLENECK_FACTS; i++) {
        if (isnan(f.at[i]))
            continue;
        buf_adds(out, "  ");
        bottleneck_fact_text((enum bottleneck_fact)i, f.at[i], out);
        buf_addc(out, '\n');
    }
}

/* ---- targets */

static void add_targets(const struct monitor *m, const struct term *term, struct buf *out)
{
    static const enum table_colour colours[] = {
        [TARGET_UNKNOWN] = COLOUR_YELLOW, [TARGET_MET] = COLOUR_GREEN, [TARGET_FAILED] = COLOUR_RED
    };
    struct target_result *r = xcalloc(MONITOR_RESULTS_MAX, sizeof(*r));
    struct table *t = table_new();

    add_heading(term, out, "Targets");
    table_col(t, "", TABLE_LEFT);
    table_col(t, "", TABLE_LEFT);
    table_col(t, "", TABLE_LEFT | TABLE_SHRINK);
    table_col(t, "", TABLE_RIGHT);
    for (size_t i = 0; i < m->target_count; i++) {
        size_t n = target_judge(m, &m->targets[i], r, MONITOR_RESULTS_MAX);
        for (size_t k = 0; k < n; k++) {
            table_row(t);
            table_cell(t, colours[r[k].state], "%s", target_word(r[k].state));
            if (m->targets[i].goal[0])
                table_cell(t, COLOUR_NONE, "%s (goal %s)", m->targets[i].text, m->targets[i].goal);
            else
                table_cell(t, COLOUR_NONE, "%s", m->targets[i].text);
            if (r[k].gpu >= 0)
                table_cell(t, COLOUR_NONE, "GPU %d", r[k].gpu);
            else
                table_cell(t, COLOUR_NONE, "%s", r[k].label);
            table_cell(t, COLOUR_NONE, isnan(r[k].value) ? "-" : "%.4g", r[k].value);
        }
    }
    table_print(t, term, 2, out);
    table_free(t);
    free(r);
}

/* ---- memory by process */

static int by_most(const void *a, const void *b)
{
    double x = (*(const struct window_slot *const *)a)->max,
           y = (*(const struct window_slot *const *)b)->max;

    return (x < y) - (x > y);
}

static void add_processes(const struct monitor *m, const struct term *term, struct buf *out)
{
    const struct window_slot **list = xcalloc(WINDOW_SLOTS_MAX, sizeof(struct window_slot *));
    char text[TELEMETRY_VALUE_MAX], seen[16];
    struct table *t = table_new();
    size_t n = 0;

    for (size_t i = 0; i < window_count(m->all); i++)
        if (str_eq(window_at(m->all, i)->id, "process.gpu.memory") && window_at(m->all, i)->count)
            list[n++] = window_at(m->all, i);
    qsort(list, n, sizeof(*list), by_most);
    static const char *const titles[] = { "GPU",   "pid",  "command", "user", "seen",
                                          "first", "mean", "most",    "last" };
    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i],
                  i == 2   ? TABLE_LEFT | TABLE_SHRINK
                  : i == 3 ? TABLE_LEFT
                           : TABLE_RIGHT);
    for (size_t i = 0; i < n && i < PROCESSES_SHOWN; i++) {
        const struct window_slot *s = list[i];
        table_row(t);
        table_cell(t, COLOUR_NONE, "%d", s->gpu);
        table_cell(t, COLOUR_NONE, "%s", clean_text(window_label(s, "pid"), text, sizeof(text)));
        table_cell(t, COLOUR_NONE, "%s",
                   clean_text(window_label(s, "command"), text, sizeof(text)));
        table_cell(t, COLOUR_NONE, "%s", clean_text(window_label(s, "user"), text, sizeof(text)));
        since_text(m, s->first_ns, seen);
        table_cell(t, COLOUR_NONE, "%s", seen);
        value_cell(t, s->first, "B");
        value_cell(t, window_mean(s), "B");
        value_cell(t, s->max, "B");
        value_cell(t, s->last, "B");
    }
    add_heading(term, out, "GPU memory by process");
    if (n)
        table_print(t, term, 2, out);
    else
        buf_adds(out, "  no process was seen\n");
    if (n > PROCESSES_SHOWN)
        buf_addf(out, "  and %zu more\n", n - PROCESSES_SHOWN);
    table_free(t);
    free((void *)list);
}

/* ---- limits and events */

static void add_verdict(const struct bottleneck_verdict *v, const struct term *term, int indent,
                        struct buf *out)
{
    struct buf text = { 0 };
    bool first = true;

    for (size_t i = 0; i < v->evidence_count; i++) {
        bottleneck_fact_text(v->evidence[i].fact, v->evidence[i].value, &text);
        buf_adds(&text, i + 1 < v->evidence_count ? "; " : ".");
    }
    for (size_t i = 0; i < BOTTLENECK_FACTS; i++)
        if (v->missing[i]) {
            buf_addf(&text, "%s%s", first ? " Not known: " : ", ",
                     bottleneck_fact_metric((enum bottleneck_fact)i));
            first = false;
        }
    if (text.len)
        term_wrap(term, out, indent, buf_str(&text) + (text.data[0] == ' '));
    buf_release(&text);
}

static void add_limits(const struct monitor *m, const struct term *term, struct buf *out)
{
    struct bottleneck_report *r = xcalloc(1, sizeof(*r));
    struct monitor_phase *phases = xcalloc(MONITOR_PHASES_MAX, sizeof(*phases));
    size_t n = monitor_phases(m, phases, MONITOR_PHASES_MAX);

    monitor_whole(m, r);
    add_heading(term, out, "What limits it");
    buf_addf(out, "  the whole: %s (confidence %.2f)\n", bottleneck_title(r->node.limit),
             r->node.confidence);
    add_verdict(&r->node, term, 4, out);
    term_wrap(term, out, 4, r->node.advice);
    for (size_t i = 0; i < r->gpu_count; i++)
        if (r->gpus[i].verdict.limit != r->node.limit)
            buf_addf(out, "  GPU %d: %s (confidence %.2f)\n", r->gpus[i].gpu,
                     bottleneck_title(r->gpus[i].verdict.limit), r->gpus[i].verdict.confidence);
    for (size_t i = 0; n > 1 && i < n; i++) {
        char from[16], to[16];
        since_text(m, phases[i].from_ns, from);
        since_text(m, phases[i].to_ns, to);
        buf_addf(out, "  %s to %s: %s (confidence %.2f)\n", from, to,
                 bottleneck_title(phases[i].verdict.limit), phases[i].verdict.confidence);
        if (phases[i].verdict.limit != r->node.limit && phases[i].verdict.evidence_count)
            add_verdict(&phases[i].verdict, term, 4, out);
    }
    free(phases);
    free(r);
}

static void add_events(const struct monitor *m, const struct term *term, struct buf *out)
{
    size_t first = m->event_count > EVENTS_SHOWN ? m->event_count - EVENTS_SHOWN : 0;
    char when[16], text[TELEMETRY_VALUE_MAX];

    if (!m->event_count)
        return;
    add_heading(term, out, "Events");
    if (first || m->events_left_out)
        buf_addf(out, "  the last %zu of %" PRIu64 "\n", m->event_count - first,
                 m->event_count + m->events_left_out);
    for (size_t i = first; i < m->event_count; i++) {
        since_text(m, m->events[i].time_ns, when);
        buf_addf(out, "  %s  %s  %s\n", when, telemetry_event_word(m->events[i].kind),
                 clean_text(m->events[i].text, text, sizeof(text)));
    }
}

/* ---- the short one */

/* "GPU 3", "GPUs 0-7", "GPUs 0, 2-3". */
static void add_gpu_list(const int *gpus, size_t n, struct buf *out)
{
    buf_adds(out, n > 1 ? "GPUs " : "GPU ");
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && gpus[k] == gpus[k - 1] + 1;)
            k++;
        buf_addf(out, "%s%d", i ? ", " : "", gpus[i]);
        if (k > i + 1)
            buf_addf(out, "-%d", gpus[k - 1]);
    }
}

/* Those of one target that are in this state, in one line. */
static void add_short_target(const struct monitor_target *t, const struct target_result *r,
                             size_t n, enum target_state state, struct table *table)
{
    double lo = INFINITY, hi = -INFINITY;
    int gpus[MONITOR_RESULTS_MAX];
    struct buf who = { 0 };
    size_t of_gpus = 0, others = 0;

    for (size_t i = 0; i < n; i++) {
        if (r[i].state != state)
            continue;
        lo = fmin(lo, r[i].value);
        hi = fmax(hi, r[i].value);
        if (r[i].gpu >= 0)
            gpus[of_gpus++] = r[i].gpu;
        else if (!others++ && r[i].label[0])
            buf_adds(&who, r[i].label);
    }
    if (!of_gpus && !others)
        return;
    if (of_gpus)
        add_gpu_list(gpus, of_gpus, &who);
    else if (others > 1)
        buf_addf(&who, " and %zu more", others - 1);
    table_row(table);
    table_cell(table, state == TARGET_FAILED ? COLOUR_RED : COLOUR_YELLOW, "%s",
               target_word(state));
    table_cell(table, COLOUR_NONE, t->goal[0] ? "%s (goal %s)" : "%s", t->text, t->goal);
    table_cell(table, COLOUR_NONE, "%s", buf_str(&who));
    if (state == TARGET_UNKNOWN)
        table_cell(table, COLOUR_NONE, "not known");
    else if (lo < hi)
        table_cell(table, COLOUR_NONE, "%.4g to %.4g", lo, hi);
    else
        table_cell(table, COLOUR_NONE, "%.4g", lo);
    buf_release(&who);
}

/* Failed ones, and those asked for that could not be judged; the others are counted. */
static void add_short_targets(const struct monitor *m, const struct term *term, struct buf *out)
{
    struct target_result *r = xcalloc(MONITOR_RESULTS_MAX, sizeof(*r));
    struct table *t = table_new();
    size_t counts[3] = { 0 };

    for (int i = 0; i < 4; i++)
        table_col(t, "", i == 3 ? TABLE_RIGHT : i == 2 ? TABLE_LEFT | TABLE_SHRINK : TABLE_LEFT);
    for (size_t i = 0; i < m->target_count; i++) {
        size_t n = target_judge(m, &m->targets[i], r, MONITOR_RESULTS_MAX);

        for (size_t k = 0; k < n; k++)
            counts[r[k].state]++;
        add_short_target(&m->targets[i], r, n, TARGET_FAILED, t);
        if (m->targets[i].asked)
            add_short_target(&m->targets[i], r, n, TARGET_UNKNOWN, t);
    }
    buf_addf(out, "\nTargets: %zu met, %zu failed", counts[TARGET_MET], counts[TARGET_FAILED]);
    if (counts[TARGET_UNKNOWN])
        buf_addf(out, ", %zu not known", counts[TARGET_UNKNOWN]);
    buf_addc(out, '\n');
    table_print(t, term, 2, out);
    table_free(t);
    free(r);
}

static void add_short_gpus(const struct monitor *m, const struct term *term, struct buf *out)
{
    static const char *const keys[] = { "util", "tensor", "memory", "temp", "power", "clock" };
    static const char *const titles[] = { "GPU",     "model", "util",  "tensor", "memory",
                                          "hottest", "power", "clock", "XIDs" };
    struct table *t = table_new();
    char model[TELEMETRY_VALUE_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], i == 1 ? TABLE_LEFT | TABLE_SHRINK : TABLE_RIGHT);
    for (size_t g = 0; g < m->gpu_count; g++) {
        table_row(t);
        table_cell(t, COLOUR_NONE, "%d", m->gpus[g]);
        table_cell(t, COLOUR_NONE, "%s",
                   clean_text(monitor_model(m, m->gpus[g]), model, sizeof(model)));
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            for (size_t i = 0; i < monitor_row_count; i++) {
                const struct monitor_row *row = &monitor_rows[i];
                const struct window_slot *s;

                if (!str_eq(row->key, keys[k]))
                    continue;
                s = monitor_slot(m, row->metric, m->gpus[g]);
                value_cell(t,
                           !s                        ? NAN
                           : str_eq(keys[k], "temp") ? s->max
                                                     : window_mean(s) * row->scale,
                           row->unit);
            }
        table_cell(t, monitor_xids(m, m->gpus[g]) ? COLOUR_RED : COLOUR_NONE, "%" PRIu64,
                   monitor_xids(m, m->gpus[g]));
    }
    buf_addc(out, '\n');
    table_print(t, term, 2, out);
    table_free(t);
}

static void add_short(const struct monitor *m, const struct term *term, struct buf *out)
{
    struct bottleneck_report *r = xcalloc(1, sizeof(*r));

    monitor_whole(m, r);
    term_text(term, out, COLOUR_BOLD, "What limits it: %s", bottleneck_title(r->node.limit));
    buf_addf(out, " (confidence %.2f)\n", r->node.confidence);
    add_verdict(&r->node, term, 2, out);
    term_wrap(term, out, 2, r->node.advice);
    if (m->gpu_count)
        add_short_gpus(m, term, out);
    if (m->target_count)
        add_short_targets(m, term, out);
    buf_adds(out, "\nThe rest: --full, or --json.\n");
    free(r);
}

void monitor_text(const struct monitor *m, const struct term *term, bool full, struct buf *out)
{
    add_head(m, out);
    if (!m->samples)
        return;
    if (!full) {
        add_short(m, term, out);
        return;
    }
    for (size_t i = 0; i < m->gpu_count; i++)
        add_gpu(m, m->gpus[i], term, out);
    add_host(m, term, out);
    if (m->target_count)
        add_targets(m, term, out);
    if (m->gpu_count)
        add_processes(m, term, out);
    add_limits(m, term, out);
    add_events(m, term, out);
}

/* SPDX-License-Identifier: MIT */
/* monitor_plot: a run as one SVG: a strip of what limits it, then a panel a metric with a line a
 * GPU, dashed lines for targets, marks for events, and the memory of processes. */
#include "monitor/monitor_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/svg.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLOT_WIDTH = 1000,
    PLOT_LEFT = 70,
    PLOT_RIGHT = 20,
    PLOT_TOP = 88,
    PLOT_PANEL = 150, /* height of a panel, with what is between two */
    PLOT_GAP = 36,
    PLOT_COLOURS = 8,
    PLOT_POINTS = 860, /* of a line: no more than there are columns */
    PLOT_PROCESSES = 8,
    PLOT_TICKS = 8
};

static const char style[] =
    "svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#222}.t{font-size:15px;"
    "font-weight:600}.s{font-size:11px;fill:#444}.a{stroke:#999}.g{stroke:#e4e4e4}"
    ".l{fill:none;stroke-width:1.5}.w{stroke:#b00020;stroke-dasharray:6 4}"
    ".e{stroke:#b00020;stroke-width:1.5}.el{fill:#b00020;font-size:10px}"
    ".c0{stroke:#1f77b4}.c1{stroke:#d95f02}.c2{stroke:#1b7837}.c3{stroke:#7b3294}"
    ".c4{stroke:#8c510a}.c5{stroke:#c51b7d}.c6{stroke:#5b5b5b}.c7{stroke:#01665e}"
    ".p0{fill:#eee}.p1{fill:#ddd}.p2{fill:#e8e8d0}.p3{fill:#f4b6b6}.p4{fill:#d9c8ef}"
    ".p5{fill:#c8e1ef}.p6{fill:#ffe0b8}.p7{fill:#cfe8c4}.p8{fill:#bfe3d0}.p9{fill:#fbd5e5}"
    ".p10{fill:#f3e3a8}\n";
static_assert(BOTTLENECK_CLASSES == 11, "a colour for each class");

struct plot_panel {
    const char *title, *metric, *whole; /* whole: in percent of this metric's mean; NULL */
    double scale, most;                 /* most 0: as the values are */
    const char *unit;
    const char *target; /* metric of targets whose lines are drawn */
    double target_scale;
};
static const struct plot_panel panels[] = {
    { "GPU utilisation", "gpu.util", NULL, 1, 100, "%", "gpu.util", 1 },
    { "tensor cores", "gpu.prof.tensor", NULL, 100, 100, "%", "gpu.prof.tensor", 100 },
    { "memory used", "gpu.fb.used", "gpu.fb.total", 100, 100, "%", "gpu.memory", 1 },
    { "temperature", "gpu.temp", NULL, 1, 0, "C", "gpu.temp", 1 },
    { "power", "gpu.power", NULL, 1, 0, "W", "gpu.power", 1 },
};

struct plot {
    const struct monitor *m;
    struct buf *out;
    double top; /* of the panel at hand */
};

static double x_of(const struct plot *p, int64_t ns)
{
    double span = (double)(p->m->last_ns - p->m->begun_ns);
    double at = span > 0 ? (double)(ns - p->m->begun_ns) / span : 0;

    return PLOT_LEFT + (at < 0 ? 0 : at > 1 ? 1 : at) * (PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT);
}

static double y_of(const struct plot *p, double v, double most)
{
    double at = most > 0 ? v / most : 0;

    return p->top + PLOT_PANEL - PLOT_GAP -
           (at < 0   ? 0
            : at > 1 ? 1
                     : at) *
               (PLOT_PANEL - PLOT_GAP);
}

/* A round number, at least `v`. */
static double round_up(double v)
{
    static const double marks[] = { 1, 2, 3, 4, 5, 6, 8 };
    double ten = pow(10, floor(log10(v > 0 ? v : 1)));

    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        if (v <= marks[i] * ten)
            return marks[i] * ten;
    return 10 * ten;
}

static double round_step(double v)
{
    static const double steps[] = { 1,   2,   5,   10,   15,   30,   60,    120,
                                    300, 600, 900, 1800, 3600, 7200, 21600, 86400 };

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        if (steps[i] >= v)
            return steps[i];
    return ceil(v / 86400) * 86400;
}

/* ---- axes */

static void time_axis(struct plot *p, bool words)
{
    double span = (double)(p->m->last_ns - p->m->begun_ns) / 1e9, step;
    double low = p->top + PLOT_PANEL - PLOT_GAP;

    step = round_step(span / PLOT_TICKS);
    for (int i = 0; i <= 2 * PLOT_TICKS && i * step <= span; i++) {
        double s = i * step, x = x_of(p, p->m->begun_ns + (int64_t)(s * 1e9));
        long long t = (long long)s;
        svg_line(p->out, "g", x, p->top, x, low);
        if (words)
            svg_text(p->out, "s", x, low + 14, "middle", "%lld:%02lld:%02lld", t / 3600,
                     t / 60 % 60, t % 60);
    }
    svg_line(p->out, "a", PLOT_LEFT, low, PLOT_WIDTH - PLOT_RIGHT, low);
    svg_line(p->out, "a", PLOT_LEFT, p->top, PLOT_LEFT, low);
}

static void value_axis(struct plot *p, double most, const char *unit)
{
    for (int i = 0; i <= 2; i++) {
        double v = most * i / 2, y = y_of(p, v, most);
        struct buf text = { 0 };
        if (i)
            svg_line(p->out, "g", PLOT_LEFT, y, PLOT_WIDTH - PLOT_RIGHT, y);
        monitor_value(v, unit, &text);
        svg_text(p->out, "s", PLOT_LEFT - 6, y + 4, "end", "%s", buf_str(&text));
        buf_release(&text);
    }
}

static void event_marks(struct plot *p)
{
    for (size_t i = 0; i < p->m->event_count; i++) {
        const struct telemetry_event *e = &p->m->events[i];
        double x = x_of(p, e->time_ns);
        svg_line(p->out, "e", x, p->top, x, p->top + PLOT_PANEL - PLOT_GAP);
        if (e->code)
            svg_text(p->out, "el", x + 3, p->top + 10, "start", "%s %d",
                     telemetry_event_word(e->kind), e->code);
        else
            svg_text(p->out, "el", x + 3, p->top + 10, "start", "%s",
                     telemetry_event_word(e->kind));
    }
}

/* ---- lines */

static void draw_line(struct plot *p, const struct window_slot *s, size_t colour, double scale,
                      double most)
{
    size_t stride = s->kept_count / PLOT_POINTS + 1;
    struct buf d = { 0 };
    char cls[16];
    int64_t gap = 0;

    if (s->kept_count > 1) /* three times the usual distance is a hole, not a slope */
        gap = 3 * (s->kept_ns[s->kept_count - 1] - s->kept_ns[0]) / (int64_t)(s->kept_count - 1) *
              (int64_t)stride;
    for (size_t i = 0; i < s->kept_count; i += stride) {
        bool first = !i || (gap && s->kept_ns[i] - s->kept_ns[i - stride] > gap);
        buf_addf(&d, "%c%.1f %.1f", first ? 'M' : 'L', x_of(p, s->kept_ns[i]),
                 y_of(p, (double)s->kept[i] * scale, most));
    }
    (void)snprintf(cls, sizeof(cls), "l c%zu", colour % PLOT_COLOURS);
    if (d.len)
        svg_path(p->out, cls, buf_str(&d));
    buf_release(&d);
}

static void target_lines(struct plot *p, const struct plot_panel *n, double most)
{
    for (size_t i = 0; i < p->m->target_count; i++) {
        const struct monitor_target *t = &p->m->targets[i];
        double y;
        if (!str_eq(t->metric, n->target) || t->stat == TARGET_RISE)
            continue;
        y = y_of(p, t->value * n->target_scale, most);
        svg_line(p->out, "w", PLOT_LEFT, y, PLOT_WIDTH - PLOT_RIGHT, y);
        svg_text(p->out, "el", PLOT_WIDTH - PLOT_RIGHT, y - 3, "end", "%s", t->text);
    }
}

static double panel_most(const struct plot *p, const struct plot_panel *n)
{
    double most = n->most;

    for (size_t i = 0; !n->most && i < p->m->gpu_count; i++) {
        const struct window_slot *s = monitor_slot(p->m, n->metric, p->m->gpus[i]);
        if (s && s->max * n->scale > most)
            most = s->max * n->scale;
    }
    for (size_t i = 0; !n->most && i < p->m->target_count; i++)
        if (str_eq(p->m->targets[i].metric, n->target) && p->m->targets[i].value > most)
            most = p->m->targets[i].value;
    return n->most > 0 ? n->most : round_up(most);
}

static void draw_panel(struct plot *p, const struct plot_panel *n)
{
    double most = panel_most(p, n);
    bool any = false;

    for (size_t i = 0; i < p->m->gpu_count; i++)
        any = any || monitor_slot(p->m, n->metric, p->m->gpus[i]);
    svg_text(p->out, "", PLOT_LEFT, p->top - 6, "start", "%s%s", n->title,
             any ? "" : ": not known");
    time_axis(p, true);
    value_axis(p, most, n->unit);
    for (size_t i = 0; i < p->m->gpu_count; i++) {
        const struct window_slot *s = monitor_slot(p->m, n->metric, p->m->gpus[i]);
        double whole = n->whole ? window_mean(monitor_slot(p->m, n->whole, p->m->gpus[i])) : 1;
        if (s && whole > 0)
            draw_line(p, s, i, n->scale / whole, most);
    }
    target_lines(p, n, most);
    event_marks(p);
}

/* ---- the host, where there is no GPU: its CPUs in intervals */

static void draw_host(struct plot *p)
{
    struct buf d = { 0 };

    svg_text(p->out, "", PLOT_LEFT, p->top - 6, "start", "CPUs (no GPU was seen)");
    time_axis(p, true);
    value_axis(p, 100, "%");
    for (size_t i = 0; i < p->m->interval_count; i++) {
        const struct monitor_interval *n = &p->m->intervals[i];
        if (isnan(n->facts[0].at[BOTTLENECK_F_CPU]))
            continue;
        buf_addf(&d, "%c%.1f %.1f", d.len ? 'L' : 'M', x_of(p, n->to_ns),
                 y_of(p, n->facts[0].at[BOTTLENECK_F_CPU] * 100, 100));
    }
    if (d.len)
        svg_path(p->out, "l c0", buf_str(&d));
    buf_release(&d);
    event_marks(p);
}

/* ---- memory of processes */

static size_t biggest_processes(const struct monitor *m, const struct window_slot **out)
{
    size_t n = 0;

    for (size_t i = 0; i < window_count(m->all); i++) {
        const struct window_slot *s = window_at(m->all, i);
        size_t at;
        if (!s->count || !str_eq(s->id, "process.gpu.memory"))
            continue;
        for (at = n; at > 0 && out[at - 1]->max < s->max; at--)
            if (at < PLOT_PROCESSES)
                out[at] = out[at - 1];
        if (at < PLOT_PROCESSES)
            out[at] = s;
        n += n < PLOT_PROCESSES;
    }
    return n;
}

static void draw_processes(struct plot *p)
{
    const struct window_slot *list[PLOT_PROCESSES];
    size_t n = biggest_processes(p->m, list);
    double most = n ? round_up(list[0]->max / (1 << 30)) * (1 << 30) : 0;
    char name[64];

    svg_text(p->out, "", PLOT_LEFT, p->top - 6, "start", "GPU memory by process%s",
             n ? "" : ": none was seen");
    time_axis(p, true);
    if (!n)
        return;
    value_axis(p, most, "B");
    for (size_t i = 0; i < n; i++) {
        char cls[16];
        draw_line(p, list[i], i, 1, most);
        (void)snprintf(cls, sizeof(cls), "l c%zu", i % PLOT_COLOURS);
        svg_line(p->out, cls, PLOT_LEFT + 10, p->top + 8 + 14 * (double)i, PLOT_LEFT + 28,
                 p->top + 8 + 14 * (double)i);
        (void)str_copy(name, sizeof(name),
                       window_label(list[i], "command") ? window_label(list[i], "command") : "-");
        svg_text(p->out, "s", PLOT_LEFT + 34, p->top + 12 + 14 * (double)i, "start",
                 "GPU %d, %s, %s", list[i]->gpu,
                 window_label(list[i], "pid") ? window_label(list[i], "pid") : "-", name);
    }
}

/* ---- head */

static void draw_phases(struct plot *p)
{
    struct monitor_phase *list = xcalloc(MONITOR_PHASES_MAX, sizeof(*list));
    size_t n = monitor_phases(p->m, list, MONITOR_PHASES_MAX);

    svg_text(p->out, "s", PLOT_LEFT - 6, 58, "end", "limit");
    for (size_t i = 0; i < n; i++) {
        double x = x_of(p, list[i].from_ns), w = x_of(p, list[i].to_ns) - x;
        const char *title = bottleneck_title(list[i].verdict.limit);
        char cls[8];
        (void)snprintf(cls, sizeof(cls), "p%d", (int)list[i].verdict.limit);
        svg_rect(p->out, cls, x, 44, w, 20, 2);
        if (w > 7.0 * (double)strlen(title))
            svg_text(p->out, "s", x + w / 2, 58, "middle", "%s", title);
    }
    free(list);
}

static void draw_head(struct plot *p)
{
    const struct monitor *m = p->m;
    char host[TELEMETRY_VALUE_MAX];

    (void)str_copy(host, sizeof(host), m->host[0] ? m->host : "this machine");
    svg_text(p->out, "t", PLOT_LEFT, 22, "start", "%s: %.0f s, %zu GPU%s", host,
             (double)(m->last_ns - m->begun_ns) / 1e9, m->gpu_count, m->gpu_count == 1 ? "" : "s");
    for (size_t i = 0; i < m->gpu_count && i < 16; i++) {
        double x =
            PLOT_WIDTH - PLOT_RIGHT - 62 * (double)((m->gpu_count < 16 ? m->gpu_count : 16) - i);
        char cls[16];
        (void)snprintf(cls, sizeof(cls), "l c%zu", i % PLOT_COLOURS);
        svg_line(p->out, cls, x, 30, x + 16, 30);
        svg_text(p->out, "s", x + 20, 34, "start", "GPU %d", m->gpus[i]);
    }
    draw_phases(p);
}

void monitor_plot(const struct monitor *m, struct buf *out)
{
    size_t count = m->gpu_count ? ARRAY_SIZE(panels) + 1 : 1;
    struct plot p = { .m = m, .out = out, .top = PLOT_TOP };

    svg_begin(out, PLOT_WIDTH, PLOT_TOP + (int)count * PLOT_PANEL, "stoker monitor");
    svg_style(out, style);
    draw_head(&p);
    for (size_t i = 0; m->gpu_count && i < ARRAY_SIZE(panels); i++) {
        draw_panel(&p, &panels[i]);
        p.top += PLOT_PANEL;
    }
    if (m->gpu_count)
        draw_processes(&p);
    else
        draw_host(&p);
    svg_end(out);
}

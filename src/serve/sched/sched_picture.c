/* SPDX-License-Identifier: MIT */
/* sched_picture: the last batches as a picture.
 *
 * Above, time: a row for each device, a box for each batch, coloured by how full it was; idle
 * time that would push everything else together is cut out, and the cut is marked.  Below, the
 * same batches side by side: tokens by budget, what was bulk in another colour, and how long
 * the oldest text had waited. */
#include "base/mem.h"
#include "base/text/svg.h"
#include "serve/sched/device_queue_int.h"

#include <math.h>

enum {
    PIC_W = 1200,
    PIC_LEFT = 110,
    PIC_RIGHT = 24,
    PIC_TOP = 92,
    PIC_QUEUE_H = 46,
    PIC_QUEUE_GAP = 12,
    PIC_BARS_H = 120,
    PIC_WAITS_H = 70,
    PIC_CUT_W = 16, /* of idle time that is cut out */
    PIC_TICKS = 8
};
static const double CUT_SHARE = 0.08; /* of the busy time: idle gaps above it are cut */

static const char css[] =
    "text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', "
    "'DejaVu Sans', sans-serif; fill: #1c2430; }\n"
    ".bg { fill: #ffffff; }\n"
    ".h1 { font-size: 20px; font-weight: 600; }\n"
    ".h2 { font-size: 13px; fill: #55606e; }\n"
    ".t { font-size: 13px; font-weight: 600; }\n"
    ".m { font-size: 11px; fill: #55606e; }\n"
    ".row { fill: #f6f7f9; }\n"
    ".grid { stroke: #dde2e9; stroke-width: 1; }\n"
    ".scale { stroke: #55606e; stroke-width: 1.5; }\n"
    ".cut { stroke: #94a0b0; stroke-width: 1; stroke-dasharray: 2 3; }\n"
    ".f0 { fill: #c2d8ee; } .f1 { fill: #97c1e3; } .f2 { fill: #5f9fd0; }\n"
    ".f3 { fill: #2b76b6; } .f4 { fill: #0b4a8c; }\n"
    ".bad { fill: #c8372d; }\n"
    ".hurry { fill: #3787c0; } .bulk { fill: #e0a43a; } .wait { fill: #8d97a5; }\n"
    "g.b:hover rect { stroke: #1c2430; stroke-width: 1.5; }\n";

struct picture {
    struct buf *out;
    struct sched *s;
    struct sched_note *notes;
    size_t count;
    size_t queues; /* the highest that ran something, and 1 */
    int64_t from_ns, to_ns;
    int64_t cut_ns; /* gaps above it are cut out */
    double shown_ns;
    size_t cuts;
};

/* ---- time */

static int by_begin(const void *a, const void *b)
{
    const struct sched_note *x = a, *y = b;

    return (x->begun_ns > y->begun_ns) - (x->begun_ns < y->begun_ns);
}

/* Time without cut gaps and cuts, up to `ns`; notes are in the order of their beginning. */
static double time_before(const struct picture *p, int64_t ns, size_t *out_cuts)
{
    int64_t end = p->from_ns;
    double cut = 0;

    *out_cuts = 0;
    for (size_t i = 0; i < p->count && p->notes[i].begun_ns <= ns; i++) {
        const struct sched_note *n = &p->notes[i];
        if (n->begun_ns - end > p->cut_ns) {
            cut += (double)(n->begun_ns - end);
            ++*out_cuts;
        }
        end = n->begun_ns + n->run_ns > end ? n->begun_ns + n->run_ns : end;
    }
    return (double)(ns - p->from_ns) - cut;
}

/* Width for time. */
static double room_of(const struct picture *p)
{
    return PIC_W - PIC_LEFT - PIC_RIGHT - (double)p->cuts * PIC_CUT_W;
}

static double x_of(const struct picture *p, int64_t ns)
{
    size_t cuts;
    double t = time_before(p, ns, &cuts);

    return PIC_LEFT + t / p->shown_ns * room_of(p) + (double)cuts * PIC_CUT_W;
}

static void measure_batches(struct picture *p)
{
    double busy = 0;

    qsort(p->notes, p->count, sizeof(*p->notes), by_begin);
    p->from_ns = p->notes[0].begun_ns;
    for (size_t i = 0; i < p->count; i++) {
        const struct sched_note *n = &p->notes[i];
        p->to_ns = n->begun_ns + n->run_ns > p->to_ns ? n->begun_ns + n->run_ns : p->to_ns;
        p->queues = n->device_queue + 1 > p->queues ? n->device_queue + 1 : p->queues;
        busy += (double)n->run_ns;
    }
    p->cut_ns = (int64_t)(busy * CUT_SHARE) + 1000;
    p->shown_ns = fmax(time_before(p, p->to_ns, &p->cuts), 1);
    while (p->cuts * PIC_CUT_W > (PIC_W - PIC_LEFT - PIC_RIGHT) / 2) {
        p->cut_ns *= 2; /* so many that nothing would be left to look at */
        p->shown_ns = fmax(time_before(p, p->to_ns, &p->cuts), 1);
    }
}

static const char *duration_text(double ns, char *out, size_t cap)
{
    if (ns < 1e6)
        snprintf(out, cap, "%.3g µs", ns / 1e3);
    else if (ns < 1e9)
        snprintf(out, cap, "%.3g ms", ns / 1e6);
    else
        snprintf(out, cap, "%.3g s", ns / 1e9);
    return out;
}

/* ---- batches */

static double fill_of(const struct sched_note *n)
{
    return (double)n->tokens / (double)n->budget;
}

static const char *batch_colour(const struct sched_note *n)
{
    static const char *const classes[] = { "f0", "f1", "f2", "f3", "f4" };
    double f = fill_of(n);

    return n->failures ? "bad"
                       : classes[f < 0.25   ? 0
                                 : f < 0.5  ? 1
                                 : f < 0.75 ? 2
                                 : f < 0.95 ? 3
                                            : 4];
}

static void begin_box(struct picture *p, const struct sched_note *n)
{
    char run[32], wait[32];
    struct buf text = { 0 };

    buf_addf(&text, "%s: %zu texts (%zu bulk), %zu of %zu tokens (%.0f %%)\n", n->model->name,
             n->sequences, n->bulk, n->tokens, n->budget, 100 * fill_of(n));
    buf_addf(&text, "lengths %zu to %zu, oldest waited %s, ran %s", n->shortest, n->longest,
             duration_text((double)n->wait_ns, wait, sizeof(wait)),
             duration_text((double)n->run_ns, run, sizeof(run)));
    if (n->shared)
        buf_addf(&text, ", %zu shared", n->shared);
    if (n->failures)
        buf_addf(&text, ", %zu failed", n->failures);
    buf_adds(p->out, "<g class=\"b\"><title>");
    svg_escape(p->out, buf_str(&text));
    buf_adds(p->out, "</title>");
    buf_release(&text);
}

static void end_box(struct picture *p)
{
    buf_adds(p->out, "</g>\n");
}

static double queue_y(size_t queue)
{
    return PIC_TOP + (double)queue * (PIC_QUEUE_H + PIC_QUEUE_GAP);
}

/* ---- above: time */

/* A round time of which eight or so are shown. */
static double round_step(double shown_ns)
{
    double step = pow(10, floor(log10(shown_ns / PIC_TICKS)));

    while (shown_ns / step > PIC_TICKS * 1.5)
        step *= shown_ns / step > PIC_TICKS * 4 ? 5 : 2;
    return step;
}

static void draw_ticks(struct picture *p)
{
    double step = round_step(p->shown_ns), bottom = queue_y(p->queues) - PIC_QUEUE_GAP;
    char text[32];

    if (p->cuts) { /* there is no one zero to count from: a length instead */
        double x = PIC_W - PIC_RIGHT, w = step / p->shown_ns * room_of(p);
        svg_line(p->out, "scale", x - w, bottom + 10, x, bottom + 10);
        svg_text(p->out, "m", x - w / 2, bottom + 24, "middle", "%s",
                 duration_text(step, text, sizeof(text)));
        return;
    }
    for (int i = 0; i * step <= p->shown_ns; i++) {
        double t = i * step, x = x_of(p, p->from_ns + (int64_t)t);
        svg_line(p->out, "grid", x, PIC_TOP - 6, x, bottom);
        svg_text(p->out, "m", x, PIC_TOP - 11, "middle", "%s",
                 t > 0 ? duration_text(t, text, sizeof(text)) : "0");
    }
}

/* Where idle time is left out, and how much. */
static void draw_cuts(struct picture *p)
{
    int64_t end = p->from_ns;
    double bottom = queue_y(p->queues) - PIC_QUEUE_GAP, last = 0;
    char text[32];

    for (size_t i = 0; i < p->count; i++) {
        const struct sched_note *n = &p->notes[i];
        if (n->begun_ns - end > p->cut_ns) {
            double x = x_of(p, n->begun_ns) - PIC_CUT_W / 2.0;
            svg_line(p->out, "cut", x, PIC_TOP - 6, x, bottom);
            if (x - last > 84) {
                svg_text(p->out, "m", x, PIC_TOP - 11, "middle", "%s idle",
                         duration_text((double)(n->begun_ns - end), text, sizeof(text)));
                last = x;
            }
        }
        end = n->begun_ns + n->run_ns > end ? n->begun_ns + n->run_ns : end;
    }
}

static void draw_lanes(struct picture *p)
{
    for (size_t i = 0; i < p->queues; i++) {
        svg_rect(p->out, "row", PIC_LEFT, queue_y(i), PIC_W - PIC_LEFT - PIC_RIGHT, PIC_QUEUE_H, 3);
        svg_text(p->out, "t", PIC_LEFT - 12, queue_y(i) + PIC_QUEUE_H / 2.0 + 5, "end", "%s",
                 p->s->queues[i]->device);
    }
    draw_ticks(p);
    draw_cuts(p);
    for (size_t i = 0; i < p->count; i++) {
        const struct sched_note *n = &p->notes[i];
        double x = x_of(p, n->begun_ns), w = x_of(p, n->begun_ns + n->run_ns) - x;
        begin_box(p, n);
        svg_rect(p->out, batch_colour(n), x, queue_y(n->device_queue) + 4,
                 fmax(w - (w > 3 ? 0.8 : 0), 0.8), PIC_QUEUE_H - 8, w > 6 ? 2 : 0);
        end_box(p);
    }
}

/* ---- below: one beside the other */

static void draw_bars(struct picture *p, double top)
{
    double room = PIC_W - PIC_LEFT - PIC_RIGHT, step = fmin(room / (double)p->count, 24);
    double bottom = top + PIC_BARS_H;

    for (int k = 0; k <= 4; k++) {
        double y = bottom - PIC_BARS_H * k / 4.0;
        svg_line(p->out, "grid", PIC_LEFT, y, PIC_W - PIC_RIGHT, y);
        if (k % 2 == 0)
            svg_text(p->out, "m", PIC_LEFT - 12, y + 4, "end", "%d %%", k * 25);
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct sched_note *n = &p->notes[i];
        double x = PIC_LEFT + (double)i * step, w = fmax(step * 0.82, 0.6);
        double h = fmin(fill_of(n), 1) * PIC_BARS_H;
        double bulk = h * (double)n->bulk_tokens / (double)n->tokens;
        begin_box(p, n);
        svg_rect(p->out, n->failures ? "bad" : "hurry", x, bottom - h, w, h - bulk, 0);
        svg_rect(p->out, "bulk", x, bottom - bulk, w, bulk, 0);
        end_box(p);
    }
}

static void draw_waits(struct picture *p, double top)
{
    double room = PIC_W - PIC_LEFT - PIC_RIGHT, step = fmin(room / (double)p->count, 24);
    double bottom = top + PIC_WAITS_H, most = 1;
    char text[32];

    for (size_t i = 0; i < p->count; i++)
        most = fmax(most, (double)p->notes[i].wait_ns);
    svg_line(p->out, "grid", PIC_LEFT, top, PIC_W - PIC_RIGHT, top);
    svg_line(p->out, "grid", PIC_LEFT, bottom, PIC_W - PIC_RIGHT, bottom);
    svg_text(p->out, "m", PIC_LEFT - 12, top + 4, "end", "%s",
             duration_text(most, text, sizeof(text)));
    svg_text(p->out, "m", PIC_LEFT - 12, bottom + 4, "end", "0");
    for (size_t i = 0; i < p->count; i++) {
        const struct sched_note *n = &p->notes[i];
        double h = (double)n->wait_ns / most * PIC_WAITS_H;
        begin_box(p, n);
        svg_rect(p->out, "wait", PIC_LEFT + (double)i * step, bottom - h, fmax(step * 0.82, 0.6), h,
                 0);
        end_box(p);
    }
}

/* ---- the whole */

static void draw_key(struct picture *p, const char *cls, double *x, double y, const char *text)
{
    svg_rect(p->out, cls, *x, y - 10, 12, 12, 2);
    svg_text(p->out, "m", *x + 17, y, "start", "%s", text);
    *x += 17 + (double)strlen(text) * 6.2 + 18;
}

static void draw_head(struct picture *p)
{
    double tokens = 0, budget = 0, run = 0, x = PIC_LEFT + 400;
    char text[32];

    for (size_t i = 0; i < p->count; i++) {
        tokens += (double)p->notes[i].tokens;
        budget += (double)p->notes[i].budget;
        run += (double)p->notes[i].run_ns;
    }
    svg_text(p->out, "h1", PIC_LEFT, 34, "start", "The last %zu batches", p->count);
    svg_text(p->out, "h2", PIC_LEFT, 55, "start",
             "%.0f tokens, %.0f %% of the budgets, in %s of running", tokens,
             100 * tokens / fmax(budget, 1), duration_text(run, text, sizeof(text)));
    draw_key(p, "f0", &x, 34, "under 25 % full");
    draw_key(p, "f1", &x, 34, "under 50 %");
    draw_key(p, "f2", &x, 34, "under 75 %");
    draw_key(p, "f3", &x, 34, "under 95 %");
    draw_key(p, "f4", &x, 34, "full");
    draw_key(p, "bad", &x, 34, "failures");
}

static void draw_picture(struct picture *p)
{
    double bars, waits, x = PIC_LEFT + 300;

    measure_batches(p);
    bars = queue_y(p->queues) + 40;
    waits = bars + PIC_BARS_H + 48;
    svg_begin(p->out, PIC_W, (int)(waits + PIC_WAITS_H + 24), "the last batches");
    svg_style(p->out, css);
    svg_rect(p->out, "bg", 0, 0, PIC_W, waits + PIC_WAITS_H + 24, 0);
    draw_head(p);
    draw_lanes(p);
    svg_text(p->out, "t", PIC_LEFT, bars - 12, "start", "Tokens by budget, batch by batch");
    draw_key(p, "hurry", &x, bars - 12, "interactive");
    draw_key(p, "bulk", &x, bars - 12, "bulk");
    draw_bars(p, bars);
    svg_text(p->out, "t", PIC_LEFT, waits - 12, "start", "How long its oldest text had waited");
    draw_waits(p, waits);
    svg_end(p->out);
}

void sched_batches_svg(struct sched *s, struct buf *out)
{
    struct picture p = { .out = out, .s = s, .queues = 1 };

    p.notes = xcalloc(SCHED_BATCHES_KEPT, sizeof(*p.notes));
    p.count = trace_copy(s, p.notes);
    if (p.count) {
        draw_picture(&p);
    } else {
        svg_begin(out, 480, 80, "the last batches");
        svg_style(out, css);
        svg_text(out, "h2", 24, 46, "start", "No batch has run yet.");
        svg_end(out);
    }
    free(p.notes);
}

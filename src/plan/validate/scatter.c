/* SPDX-License-Identifier: MIT */
/* scatter: predicted over measured seconds of published runs, as a picture and in characters. */
#include "plan/runs.h"

#include "base/str.h"

#include <math.h>

enum { SIDE = 640, MARGIN = 60, LEGEND = 330, LINE = 16, COLOURS = 10 };

struct plot_axis { /* logarithms to the base of 10; both axes are alike */
    double lo, hi;
};

static bool row_is_shown(const struct plan_rows *rows, const struct plan_time_report *t, size_t i)
{
    return t->seconds[i] > 0 && !(rows->rows[i].exclude & PLAN_R1_NOT_CLEAN);
}

static struct plot_axis axis_of(const struct plan_rows *rows, const struct plan_time_report *t)
{
    struct plot_axis x = { 1e9, -1e9 };

    for (size_t i = 0; i < rows->count; i++)
        if (row_is_shown(rows, t, i)) {
            double a = log10(t->seconds[i]), b = log10(rows->rows[i].measured.iter_s);

            x.lo = fmin(x.lo, fmin(a, b));
            x.hi = fmax(x.hi, fmax(a, b));
        }
    if (x.hi < x.lo)
        return (struct plot_axis){ -1, 1 };
    return (struct plot_axis){ floor(x.lo * 2) / 2,
                               fmax(ceil(x.hi * 2) / 2, floor(x.lo * 2) / 2 + 0.5) };
}

static double axis_place(const struct plot_axis *x, double seconds)
{
    double v = (log10(seconds) - x->lo) / (x->hi - x->lo);

    return fmin(fmax(v, 0), 1);
}

static void svg_text(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '<')
            buf_adds(out, "&lt;");
        else if (*s == '&')
            buf_adds(out, "&amp;");
        else
            buf_addc(out, *s);
    }
}

static void svg_axes(const struct plot_axis *x, struct buf *out)
{
    const int end = MARGIN + SIDE, lines = (int)((x->hi - x->lo) * 2 + 1e-9);

    for (int i = 0; i <= lines; i++) {
        double at = x->lo + i * 0.5;
        double p = MARGIN + SIDE * (at - x->lo) / (x->hi - x->lo), q = end - (p - MARGIN);

        buf_addf(out,
                 "<path d='M%.1f %d V%d M%d %.1f H%d' stroke='#ddd'/>"
                 "<text x='%.1f' y='%d' text-anchor='middle'>%.3g</text>"
                 "<text x='%d' y='%.1f' text-anchor='end'>%.3g</text>\n",
                 p, MARGIN, end, MARGIN, q, end, p, end + 18, pow(10, at), MARGIN - 6, q + 4,
                 pow(10, at));
    }
    buf_addf(out,
             "<path d='M%d %d L%d %d' stroke='#888'/>\n<text x='%d' y='%d' text-anchor='middle'>"
             "measured seconds of a step</text>\n<text transform='translate(16 %d) rotate(-90)' "
             "text-anchor='middle'>predicted seconds of a step</text>\n",
             MARGIN, end, end, MARGIN, MARGIN + SIDE / 2, end + 40, MARGIN + SIDE / 2);
}

void plan_scatter_svg(const struct plan_rows *rows, const struct plan_time_report *t,
                      struct buf *out)
{
    static const char *const colours[COLOURS] = { "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728",
                                                  "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
                                                  "#bcbd22", "#17becf" };
    struct plot_axis x = axis_of(rows, t);
    size_t line = 0;

    buf_addf(out,
             "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
             "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
             2 * MARGIN + SIDE + LEGEND, 2 * MARGIN + SIDE);
    svg_axes(&x, out);
    for (size_t s = 0; s + 1 < t->source_count; s++) {
        const struct plan_time_source *o = &t->sources[s];
        const char *colour = colours[line % COLOURS];

        if (!o->used)
            continue;
        buf_addf(out, "<g fill='%s' fill-opacity='0.55'>\n", colour);
        for (size_t i = 0; i < rows->count; i++)
            if (row_is_shown(rows, t, i) && str_eq(rows->rows[i].source, o->source))
                buf_addf(out, "<circle cx='%.1f' cy='%.1f' r='2'/>\n",
                         MARGIN + SIDE * axis_place(&x, rows->rows[i].measured.iter_s),
                         MARGIN + SIDE * (1 - axis_place(&x, t->seconds[i])));
        buf_addf(out, "</g>\n<text x='%d' y='%zu' fill='%s'>", MARGIN + SIDE + 12,
                 MARGIN + LINE * line + 10, colour);
        svg_text(out, o->source);
        buf_addf(out, " (%zu, %.1f %%)</text>\n", o->used, 100 * o->e.mape);
        line++;
    }
    buf_adds(out, "</svg>\n");
}

void plan_scatter_text(const struct plan_rows *rows, const struct plan_time_report *t, int width,
                       int height, struct buf *out)
{
    enum { W_MAX = 160, H_MAX = 60 };
    static const char shades[] = " .:*#@";
    unsigned grid[H_MAX][W_MAX] = { { 0 } };
    struct plot_axis x = axis_of(rows, t);

    width = width < 10 ? 10 : width > W_MAX ? W_MAX : width;
    height = height < 5 ? 5 : height > H_MAX ? H_MAX : height;
    for (size_t i = 0; i < rows->count; i++)
        if (row_is_shown(rows, t, i)) {
            int c = (int)(axis_place(&x, rows->rows[i].measured.iter_s) * (width - 1) + 0.5);
            int r = (int)((1 - axis_place(&x, t->seconds[i])) * (height - 1) + 0.5);

            grid[r][c]++;
        }
    buf_addf(out, "predicted s, from %.3g below to %.3g\n", pow(10, x.lo), pow(10, x.hi));
    for (int r = 0; r < height; r++) {
        buf_adds(out, "  |");
        for (int c = 0; c < width; c++) {
            unsigned n = grid[r][c], shade = n > 30 ? 5 : n > 9 ? 4 : n > 3 ? 3 : n > 1 ? 2 : n;
            bool ideal = r == (int)((1 - (double)c / (width - 1)) * (height - 1) + 0.5);

            buf_addc(out, n ? shades[shade] : ideal ? '/' : ' ');
        }
        buf_addc(out, '\n');
    }
    buf_adds(out, "  +");
    for (int c = 0; c < width; c++)
        buf_addc(out, '-');
    buf_addf(out,
             "\n   measured s, the same scale; / is where both agree; . 1 row, : 2, * 4, # 10, "
             "@ more than 30\n");
}

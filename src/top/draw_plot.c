/* SPDX-License-Identifier: MIT */
/* draw_plot: lines over time, the newest at the right.  A column whose value is unknown is blank; a
 * known zero has the lowest mark, so that the two differ. */
#include "top/top_int.h"

#include <math.h>
#include <stdio.h>

enum { PANE_COLS = 38, EIGHTHS = 8 };

static const struct {
    enum top_line line;
    const char *title;
    enum grid_look look;
} panes[] = { { TOP_LINE_UTIL, "utilisation", LOOK_GOOD },
              { TOP_LINE_MEM, "memory", LOOK_WARN },
              { TOP_LINE_TENSOR, "tensor activity", LOOK_TITLE },
              { TOP_LINE_POWER, "power", LOOK_PLAIN } };

/* The mark for `level` eighths of a cell: nothing, a part, all of it. */
static uint32_t mark_of(const struct grid *g, int level, bool lowest)
{
    static const char ascii[] = " __..::#";

    if (level <= 0)
        return lowest ? (g->utf8 ? 0x2581 : '_') : ' ';
    if (g->utf8)
        return 0x2580 + (uint32_t)(level < EIGHTHS ? level : EIGHTHS);
    return (uint32_t)(unsigned char)ascii[level < EIGHTHS ? level : EIGHTHS - 1];
}

static void draw_column(struct grid *g, int row, int rows, int col, double percent,
                        enum grid_look look)
{
    int level;

    if (isnan(percent))
        return;
    percent = percent < 0 ? 0 : percent > 100 ? 100 : percent;
    level = (int)lround(percent * rows * EIGHTHS / 100);
    for (int r = rows - 1; r >= 0; r--, level -= EIGHTHS)
        grid_char(g, row + r, col, look, mark_of(g, level, r == rows - 1));
}

static void span_text(int seconds, char *out, size_t cap)
{
    if (seconds < 120)
        (void)snprintf(out, cap, "%d s", seconds);
    else
        (void)snprintf(out, cap, "%d min", seconds / 60);
}

static void draw_pane(struct grid *g, const struct top_frame *f, size_t which, int row, int rows,
                      int col, int cols)
{
    const struct top_history *h = f->history;
    int per = top_zoom_s(f->view), gpu = f->view->gpu;
    char now[DRAW_WORD_MAX], span[DRAW_WORD_MAX], of[DRAW_WORD_MAX] = "";

    span_text((int)((int64_t)cols * per * (h->period_ms ? h->period_ms : 1000) / 1000), span,
              sizeof(span));
    if (gpu >= 0)
        (void)snprintf(of, sizeof(of), " GPU %d", gpu);
    else if (f->snap->gpu_count > 1)
        (void)snprintf(of, sizeof(of), " mean");
    (void)grid_textf(g, row, col, cols, LOOK_TITLE, "%s %s%s, %s", panes[which].title,
                     draw_percent(top_history_at(h, gpu, panes[which].line, 0, 1), now), of, span);
    for (int c = 0; c < cols; c++)
        draw_column(g, row + 1, rows - 1, col + cols - 1 - c,
                    top_history_at(h, gpu, panes[which].line, (int64_t)c * per, per),
                    panes[which].look);
}

void draw_plots(struct grid *g, const struct top_frame *f, int row, int rows)
{
    int count = (g->cols + 2) / (PANE_COLS + 2), width;

    if (rows < 2)
        return;
    count = count < 1 ? 1 : count > (int)ARRAY_SIZE(panes) ? (int)ARRAY_SIZE(panes) : count;
    width = (g->cols + 2) / count - 2;
    for (int i = 0; i < count; i++)
        draw_pane(g, f, (size_t)i, row, rows, i * (width + 2), width);
}

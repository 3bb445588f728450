/* SPDX-License-Identifier: MIT */
/* draw_table: processes. */
#include "top/top_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *title;
    int width, wide; /* on 80 columns, on 120 and more */
    bool left;
} columns[TOP_SORTS] = {
    [TOP_BY_PID] = { "PID", 7, 7, false },   [TOP_BY_USER] = { "USER", 8, 12, true },
    [TOP_BY_GPU] = { "GPU", 3, 5, false },   [TOP_BY_TYPE] = { "TYPE", 4, 8, true },
    [TOP_BY_UTIL] = { "GPU%", 4, 5, false }, [TOP_BY_MEMORY] = { "GPUMEM", 6, 7, false },
    [TOP_BY_CPU] = { "CPU%", 5, 5, false },  [TOP_BY_RSS] = { "HOSTMEM", 7, 7, false },
    [TOP_BY_JOB] = { "JOB", 11, 28, true },  [TOP_BY_COMMAND] = { "COMMAND", 0, 0, true },
};

static int width_of(const struct grid *g, int c, int col)
{
    if (c == TOP_BY_COMMAND)
        return g->cols - col;
    return g->cols >= 120 ? columns[c].wide : columns[c].width;
}

static void text_of(const struct top_process *p, enum top_sort c, bool wide, char *out, size_t cap)
{
    char word[DRAW_WORD_MAX];
    const char *s = word;

    switch (c) {
    case TOP_BY_PID:
        (void)snprintf(word, sizeof(word), "%lld", (long long)p->pid);
        break;
    case TOP_BY_USER:
        s = p->user[0] ? p->user : "-";
        break;
    case TOP_BY_GPU:
        (void)snprintf(word, sizeof(word), p->instance >= 0 ? "%d:%d" : "%d", p->gpu, p->instance);
        break;
    case TOP_BY_TYPE:
        s = p->type == 'C'   ? (wide ? "compute" : "comp")
            : p->type == 'G' ? (wide ? "graphics" : "grap")
                             : "-";
        break;
    case TOP_BY_UTIL:
        s = draw_number(p->util, "", word);
        break;
    case TOP_BY_MEMORY:
        s = draw_bytes(p->memory, word);
        break;
    case TOP_BY_CPU:
        s = draw_number(p->cpu, "", word);
        break;
    case TOP_BY_RSS:
        s = draw_bytes(p->rss, word);
        break;
    case TOP_BY_JOB:
        s = p->job[0] ? p->job : "-";
        break;
    default:
        s = p->command[0] ? p->command : "-";
    }
    (void)snprintf(out, cap, "%s", s);
}

static void draw_line(struct grid *g, int row, const struct top_process *p, enum grid_look look)
{
    char text[sizeof(p->command) + 1];
    int col = 0;

    for (int c = 0; c < TOP_SORTS; c++) {
        int width = width_of(g, c, col);

        text_of(p, (enum top_sort)c, g->cols >= 120, text, sizeof(text));
        if (columns[c].left)
            (void)grid_text(g, row, col, width, look, text);
        else
            grid_right(g, row, col, width, look, text);
        col += width + 1;
    }
    if (look == LOOK_SELECTED)
        grid_paint(g, row, 0, g->cols, look);
}

static void draw_head(struct grid *g, const struct top_frame *f, int row)
{
    int col = 0;

    for (int c = 0; c < TOP_SORTS; c++) {
        bool sorted = !f->plain && f->view->sort == (enum top_sort)c;
        int width = width_of(g, c, col);

        if (columns[c].left)
            (void)grid_text(g, row, col, width, LOOK_HEAD, columns[c].title);
        else
            grid_right(g, row, col, width, LOOK_HEAD, columns[c].title);
        grid_paint(g, row, col, width + 1, sorted ? LOOK_SELECTED : LOOK_HEAD);
        col += width + 1;
    }
}

void draw_table(struct grid *g, const struct top_frame *f, int row, int rows)
{
    struct top_view *v = f->view;
    size_t count, *order;

    if (rows < 2)
        return;
    order = top_sorted(v, f->snap, &count);
    draw_head(g, f, row);
    if (!count)
        (void)grid_text(g, row + 1, 0, g->cols, LOOK_DIM, "no process on a GPU is known");
    top_select(v, f->snap, order, count);
    v->page_rows = rows - 1;
    if (v->row < v->scroll)
        v->scroll = v->row;
    if (v->row >= v->scroll + v->page_rows)
        v->scroll = v->row - v->page_rows + 1;
    if (v->scroll > 0 && v->scroll + v->page_rows > (int)count)
        v->scroll = (int)count > v->page_rows ? (int)count - v->page_rows : 0;
    for (int i = 0; i < v->page_rows && v->scroll + i < (int)count; i++)
        draw_line(g, row + 1 + i, &f->snap->processes[order[v->scroll + i]],
                  v->scroll + i == v->row && !f->plain ? LOOK_SELECTED : LOOK_PLAIN);
    free(order);
}

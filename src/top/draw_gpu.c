/* SPDX-License-Identifier: MIT */
/* draw_gpu: GPUs, a line each where there are many, a card of three lines where there is room. */
#include "base/text/utf8.h"
#include "top/top_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_MAX = 60 }; /* columns */

/* ---- figures */
static const char *scaled_value(double v, double step, char out[DRAW_WORD_MAX])
{
    static const char units[] = "BKMGTPE";
    size_t i = 0;

    if (!isfinite(v))
        return "-";
    while (fabs(v) >= step * 0.9995 && units[i + 1]) {
        v /= step;
        i++;
    }
    (void)snprintf(out, DRAW_WORD_MAX, i && fabs(v) < 9.95 ? "%.1f%c" : "%.0f%c", v, units[i]);
    return out;
}

const char *draw_bytes(double bytes, char out[DRAW_WORD_MAX])
{
    return scaled_value(bytes, 1024, out);
}

const char *draw_rate(double rate, char out[DRAW_WORD_MAX])
{
    return scaled_value(rate, 1000, out);
}

const char *draw_number(double v, const char *unit, char out[DRAW_WORD_MAX])
{
    if (!isfinite(v))
        return "-";
    (void)snprintf(out, DRAW_WORD_MAX, "%.0f%s", v, unit);
    return out;
}

const char *draw_percent(double v, char out[DRAW_WORD_MAX])
{
    return draw_number(v, "%", out);
}

static enum grid_look heat_look(const struct top_gpu *g)
{
    double slow = isnan(g->v[TOP_TEMP_SLOW]) ? 87 : g->v[TOP_TEMP_SLOW], t = g->v[TOP_TEMP];

    return t >= slow ? LOOK_BAD : t >= slow - 7 ? LOOK_WARN : LOOK_PLAIN;
}

/* "[|||||     53%]" over `width` columns. */
static void draw_bar(struct grid *g, int row, int col, int width, double percent,
                     enum grid_look look, const char *text)
{
    int inner = width - 2, len = (int)strlen(text), room = inner - len, full;

    if (room < 0)
        return;
    full = isnan(percent) || percent <= 0 ? 0
           : percent >= 100               ? inner
                                          : (int)lround(percent * inner / 100);
    grid_char(g, row, col, LOOK_PLAIN, '[');
    for (int i = 0; i < room && i < full; i++)
        grid_char(g, row, col + 1 + i, look, '|');
    (void)grid_text(g, row, col + 1 + room, len, isnan(percent) ? LOOK_DIM : LOOK_PLAIN, text);
    for (int i = room; i < full; i++) /* the bar goes on behind the text, in its colour */
        grid_paint(g, row, col + 1 + i, 1, look);
    grid_char(g, row, col + width - 1, LOOK_PLAIN, ']');
}

static void util_bar(struct grid *g, int row, int col, int width, const struct top_gpu *gpu)
{
    char text[DRAW_WORD_MAX];

    if (gpu->v[TOP_LOST] > 0)
        draw_bar(g, row, col, width, 0, LOOK_BAD, "LOST");
    else
        draw_bar(g, row, col, width, gpu->v[TOP_UTIL], LOOK_GOOD,
                 draw_percent(gpu->v[TOP_UTIL], text));
}

static void mem_bar(struct grid *g, int row, int col, int width, const struct top_gpu *gpu)
{
    char used[DRAW_WORD_MAX], total[DRAW_WORD_MAX], text[2 * DRAW_WORD_MAX];
    double percent = gpu->v[TOP_MEM_TOTAL] > 0 ? 100 * gpu->v[TOP_MEM_USED] / gpu->v[TOP_MEM_TOTAL]
                                               : (double)NAN;

    (void)snprintf(text, sizeof(text), "%s/%s", draw_bytes(gpu->v[TOP_MEM_USED], used),
                   draw_bytes(gpu->v[TOP_MEM_TOTAL], total));
    draw_bar(g, row, col, width, percent,
             percent >= 98   ? LOOK_BAD
             : percent >= 90 ? LOOK_WARN
                             : LOOK_GOOD,
             text);
}

static void power_text(const struct top_gpu *gpu, char *out, size_t cap)
{
    char now[DRAW_WORD_MAX], limit[DRAW_WORD_MAX];

    (void)snprintf(out, cap, "%s/%s", draw_number(gpu->v[TOP_POWER], "", now),
                   draw_number(gpu->v[TOP_POWER_LIMIT], "W", limit));
}

bool draw_shown(const struct top_frame *f, const struct top_gpu *g)
{
    return f->view->gpu < 0 || f->view->gpu == g->index;
}

size_t draw_gpu_count(const struct top_frame *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->snap->gpu_count; i++)
        n += draw_shown(f, &f->snap->gpus[i]);
    return n;
}

/* ---- a line each */
enum gpu_column {
    COL_GPU,
    COL_UTIL,
    COL_MEM,
    COL_TEMP,
    COL_POWER,
    COL_TENSOR,
    COL_CLOCK,
    COL_RX,
    COL_TX,
    COL_NV_RX,
    COL_NV_TX,
    COL_FAN,
    COL_WHY,
    COL_COUNT
};
static const struct {
    const char *title;
    int width, wide; /* on 80 columns, and the most it grows to */
    bool left;
    int from; /* columns of the screen from which it is shown */
} columns[COL_COUNT] = {
    [COL_GPU] = { "GPU", 3, 3, false, 0 },
    [COL_UTIL] = { "utilisation", 11, BAR_MAX, true, 0 },
    [COL_MEM] = { "memory", 13, BAR_MAX, true, 0 },
    [COL_TEMP] = { "temp", 4, 4, false, 0 },
    [COL_POWER] = { "power", 8, 9, false, 0 },
    [COL_TENSOR] = { "tens", 4, 4, false, 0 },
    [COL_CLOCK] = { "MHz", 4, 5, false, 70 },
    [COL_RX] = { "PCIe rx/tx", 5, 5, false, 76 },
    [COL_TX] = { "", 4, 5, false, 76 },
    [COL_NV_RX] = { "NVLink rx/tx", 6, 7, false, 104 },
    [COL_NV_TX] = { "", 6, 7, false, 104 },
    [COL_FAN] = { "fan", 4, 4, false, 112 },
    [COL_WHY] = { "throttle", 12, 40, true, 0 },
};

/* Widths for a screen: what is shown has its least width, the bars share most of the rest. */
static void spread_widths(int cols, int width[COL_COUNT])
{
    static const enum gpu_column order[] = { COL_POWER, COL_CLOCK, COL_RX, COL_TX,
                                             COL_UTIL,  COL_MEM,   COL_WHY };
    int left = cols;

    for (int c = 0; c < COL_COUNT; c++) {
        width[c] = cols >= columns[c].from ? columns[c].width : 0;
        left -= width[c] ? width[c] + 1 : 0;
    }
    left++; /* none behind the last */
    for (size_t i = 0; i < ARRAY_SIZE(order) && left > 0; i++) {
        int more = columns[order[i]].wide - width[order[i]];
        int share = order[i] == COL_UTIL ? left * 2 / 5 : order[i] == COL_MEM ? left * 2 / 3 : left;

        if (!width[order[i]])
            continue;
        more = more < share ? more : share;
        width[order[i]] += more;
        left -= more;
    }
    width[COL_WHY] += left < 0 ? left : 0;
}

static void draw_cell(struct grid *g, int row, int col, int width, const struct top_gpu *gpu,
                      enum gpu_column c)
{
    char text[2 * DRAW_WORD_MAX + 2], word[DRAW_WORD_MAX];
    enum grid_look look = LOOK_PLAIN;

    switch (c) {
    case COL_GPU:
        grid_right(g, row, col, width, LOOK_BOLD, draw_number(gpu->index, "", word));
        return;
    case COL_UTIL:
        util_bar(g, row, col, width, gpu);
        return;
    case COL_MEM:
        mem_bar(g, row, col, width, gpu);
        return;
    case COL_TEMP:
        grid_right(g, row, col, width, heat_look(gpu), draw_number(gpu->v[TOP_TEMP], "C", word));
        return;
    case COL_POWER:
        power_text(gpu, text, sizeof(text));
        grid_right(g, row, col, width, LOOK_PLAIN, text);
        return;
    case COL_TENSOR:
        grid_right(g, row, col, width, LOOK_PLAIN, draw_percent(100 * gpu->v[TOP_TENSOR], word));
        return;
    case COL_CLOCK:
        grid_right(g, row, col, width, LOOK_PLAIN, draw_number(gpu->v[TOP_CLOCK_SM], "", word));
        return;
    case COL_RX:
    case COL_TX:
    case COL_NV_RX:
    case COL_NV_TX:
        grid_right(g, row, col, width, LOOK_PLAIN,
                   draw_rate(gpu->v[c == COL_RX      ? TOP_PCIE_RX
                                    : c == COL_TX    ? TOP_PCIE_TX
                                    : c == COL_NV_RX ? TOP_NVLINK_RX
                                                     : TOP_NVLINK_TX],
                             word));
        return;
    case COL_FAN:
        grid_right(g, row, col, width, LOOK_PLAIN, draw_percent(gpu->v[TOP_FAN], word));
        return;
    default:
        look = top_reasons(gpu->v[TOP_REASONS], text, sizeof(text));
        (void)grid_text(g, row, col, width, look, text);
    }
}

static void list_row(struct grid *g, int row, const int width[COL_COUNT], const struct top_gpu *gpu)
{
    int col = 0;

    for (int c = 0; c < COL_COUNT; c++) {
        if (width[c] <= 0)
            continue;
        if (gpu)
            draw_cell(g, row, col, width[c], gpu, (enum gpu_column)c);
        else if (columns[c].left)
            (void)grid_text(g, row, col, width[c], LOOK_TITLE, columns[c].title);
        else /* that of received stands over sent too */
            grid_right(g, row, col,
                       c == COL_RX || c == COL_NV_RX ? width[c] + 1 + width[c + 1] : width[c],
                       LOOK_TITLE, columns[c].title);
        col += width[c] + 1;
    }
}

int draw_gpu_list(struct grid *g, const struct top_frame *f, int row, int rows)
{
    int width[COL_COUNT], at = row, left = (int)draw_gpu_count(f);

    if (rows < 2)
        return 0;
    spread_widths(g->cols, width);
    list_row(g, at++, width, NULL);
    for (size_t i = 0; i < f->snap->gpu_count; i++) {
        if (!draw_shown(f, &f->snap->gpus[i]))
            continue;
        if (at - row == rows - 1 && left > 1) {
            (void)grid_textf(g, at++, 0, g->cols, LOOK_DIM, "    and %d more: [ and ] choose one",
                             left);
            break;
        }
        list_row(g, at++, width, &f->snap->gpus[i]);
        left--;
    }
    return at - row;
}

/* ---- a card each */
struct pen { /* pieces in a row, as many as fit */
    struct grid *g;
    int row, col;
};

static void draw_piece(struct pen *p, enum grid_look look, const char *title, const char *text)
{
    int need = (int)(utf8_width(title) + utf8_width(text)) + (*title ? 1 : 0);

    if (p->col + need > p->g->cols)
        return;
    if (*title)
        p->col += grid_text(p->g, p->row, p->col, p->g->cols, LOOK_TITLE, title) + 1;
    p->col += grid_text(p->g, p->row, p->col, p->g->cols, look, text) + 2;
}

static void card_head(struct grid *g, int row, const struct top_gpu *gpu)
{
    char a[DRAW_WORD_MAX], b[DRAW_WORD_MAX], text[2 * DRAW_WORD_MAX + 8];
    struct pen p = { g, row, 0 };

    (void)snprintf(text, sizeof(text), "GPU %d", gpu->index);
    draw_piece(&p, LOOK_BOLD, "", text);
    draw_piece(&p, LOOK_BOLD, "", gpu->name[0] ? gpu->name : "-");
    draw_piece(&p, heat_look(gpu), "", draw_number(gpu->v[TOP_TEMP], "C", a));
    power_text(gpu, text, sizeof(text));
    draw_piece(&p, LOOK_PLAIN, "", text);
    (void)snprintf(text, sizeof(text), "%s/%s", draw_number(gpu->v[TOP_CLOCK_SM], "", a),
                   draw_number(gpu->v[TOP_CLOCK_SM_MAX], "MHz", b));
    draw_piece(&p, LOOK_PLAIN, "SM", text);
    draw_piece(&p, LOOK_PLAIN, "mem", draw_number(gpu->v[TOP_CLOCK_MEM], "MHz", a));
    draw_piece(&p, LOOK_PLAIN, "", draw_number(gpu->v[TOP_TEMP_MEM], "C", a));
    if (!isnan(gpu->v[TOP_FAN]))
        draw_piece(&p, LOOK_PLAIN, "fan", draw_percent(gpu->v[TOP_FAN], a));
}

static void card_bars(struct grid *g, int row, const struct top_gpu *gpu)
{
    char text[DRAW_WORD_MAX];
    int third = g->cols / 3, width = third - 6 < BAR_MAX ? third - 6 : BAR_MAX;

    (void)grid_text(g, row, 0, 4, LOOK_TITLE, "util");
    util_bar(g, row, 5, width, gpu);
    (void)grid_text(g, row, third, 3, LOOK_TITLE, "mem");
    mem_bar(g, row, third + 4, width + 1, gpu);
    (void)grid_text(g, row, 2 * third, 6, LOOK_TITLE, "tensor");
    draw_bar(g, row, 2 * third + 7, width - 1, 100 * gpu->v[TOP_TENSOR], LOOK_GOOD,
             draw_percent(100 * gpu->v[TOP_TENSOR], text));
}

static void card_rates(struct pen *p, const char *title, double rx, double tx)
{
    char a[DRAW_WORD_MAX], b[DRAW_WORD_MAX], text[2 * DRAW_WORD_MAX + 8];

    (void)snprintf(text, sizeof(text), "rx %s tx %s", draw_rate(rx, a), draw_rate(tx, b));
    draw_piece(p, LOOK_PLAIN, title, text);
}

static void card_foot(struct grid *g, int row, const struct top_gpu *gpu)
{
    char a[DRAW_WORD_MAX], title[2 * DRAW_WORD_MAX], why[2 * DRAW_WORD_MAX];
    enum grid_look look = top_reasons(gpu->v[TOP_REASONS], why, sizeof(why));
    struct pen p = { g, row, 0 };

    draw_piece(&p, look, "throttle", why);
    (void)snprintf(title, sizeof(title), isnan(gpu->v[TOP_PCIE_GEN]) ? "PCIe" : "PCIe%.0fx%.0f",
                   gpu->v[TOP_PCIE_GEN], gpu->v[TOP_PCIE_WIDTH]);
    card_rates(&p, title, gpu->v[TOP_PCIE_RX], gpu->v[TOP_PCIE_TX]);
    (void)snprintf(title, sizeof(title), "NVLink %s", draw_number(gpu->v[TOP_NVLINK_LINKS], "", a));
    card_rates(&p, title, gpu->v[TOP_NVLINK_RX], gpu->v[TOP_NVLINK_TX]);
    draw_piece(&p, LOOK_PLAIN, "DRAM", draw_percent(100 * gpu->v[TOP_DRAM], a));
    draw_piece(&p, LOOK_PLAIN, "SM", draw_percent(100 * gpu->v[TOP_SM], a));
    if (gpu->v[TOP_ENCODER] > 0)
        draw_piece(&p, LOOK_PLAIN, "enc", draw_percent(gpu->v[TOP_ENCODER], a));
    if (gpu->v[TOP_DECODER] > 0)
        draw_piece(&p, LOOK_PLAIN, "dec", draw_percent(gpu->v[TOP_DECODER], a));
}

int draw_gpu_cards(struct grid *g, const struct top_frame *f, int row, int rows)
{
    int at = row;

    for (size_t i = 0; i < f->snap->gpu_count && at + DRAW_CARD_ROWS <= row + rows; i++) {
        const struct top_gpu *gpu = &f->snap->gpus[i];

        if (!draw_shown(f, gpu))
            continue;
        card_head(g, at, gpu);
        card_bars(g, at + 1, gpu);
        card_foot(g, at + 2, gpu);
        at += DRAW_CARD_ROWS;
    }
    return at - row;
}

/* SPDX-License-Identifier: MIT */
#include "top/grid_int.h"

#include "base/mem.h"
#include "base/text/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRID_TEXT_MAX = 1024 }; /* bytes of one formatted piece: more columns than there are */

static int clamp_to(int v, int most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

void grid_init(struct grid *g, int cols, int rows, bool utf8)
{
    *g = (struct grid){ .cols = clamp_to(cols, GRID_COLS_MAX),
                        .rows = clamp_to(rows, GRID_ROWS_MAX),
                        .utf8 = utf8 };
    g->cells = xcalloc((size_t)g->cols * (size_t)g->rows + 1, sizeof(*g->cells));
    for (int i = 0; i < g->cols * g->rows; i++)
        g->cells[i].ch = ' ';
}

void grid_release(struct grid *g)
{
    free(g->cells);
    *g = (struct grid){ 0 };
}

const struct grid_cell *grid_at(const struct grid *g, int row, int col)
{
    assert(row >= 0 && row < g->rows && col >= 0 && col < g->cols);
    return &g->cells[row * g->cols + col];
}

/* A wide character that loses a half loses both. */
static void put_cell(struct grid *g, int row, int col, enum grid_look look, uint32_t ch)
{
    struct grid_cell *line = &g->cells[row * g->cols];

    if (!line[col].ch && col > 0)
        line[col - 1].ch = ' ';
    if (col + 1 < g->cols && !line[col + 1].ch)
        line[col + 1].ch = ' ';
    line[col] = (struct grid_cell){ ch, (uint8_t)look };
}

/* May this character reach a terminal?  Controls (C0, DEL, C1), what has no form or turns the
 * direction of others, what is for private use or no character at all. */
static bool harmless_char(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } bad[] = {
        { 0x00, 0x1f },     { 0x7f, 0x9f },     { 0xad, 0xad },        { 0x61c, 0x61c },
        { 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },    { 0x2060, 0x206f },
        { 0xd800, 0xf8ff }, { 0xfff0, 0xffff }, { 0xe0000, 0x10ffff },
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (c >= bad[i].first && c <= bad[i].last)
            return false;
    return true;
}

/* The next character of a text as it may be shown, and its columns. */
static uint32_t take_char(const struct grid *g, const char **text, size_t *left, int *out_columns)
{
    uint32_t c;
    size_t step, columns = utf8_columns(*text, *left, &step);
    bool valid = utf8_decode(*text, *left, &c) > 0;

    *text += step;
    *left -= step;
    if (!valid || !columns || !harmless_char(c) || (c > 0x7e && !g->utf8)) {
        c = '?';
        columns = 1;
    }
    *out_columns = (int)columns;
    return c;
}

int grid_text(struct grid *g, int row, int col, int width, enum grid_look look, const char *text)
{
    size_t left = strlen(text);
    int end = col + clamp_to(width, g->cols), at = col, last = col, columns;

    if (row < 0 || row >= g->rows || col < 0)
        return 0;
    end = end < g->cols ? end : g->cols;
    while (left) {
        uint32_t c = take_char(g, &text, &left, &columns);
        if (at + columns > end) {
            if (at > col) /* it is cut: the last character says so */
                grid_char(g, row, last, look, g->utf8 ? 0x2026 : '~');
            break;
        }
        last = at;
        put_cell(g, row, at++, look, c);
        if (columns == 2)
            put_cell(g, row, at++, look, ' ');
        if (columns == 2)
            g->cells[row * g->cols + at - 1].ch = 0;
    }
    return at - col;
}

int grid_textf(struct grid *g, int row, int col, int width, enum grid_look look, const char *fmt,
               ...)
{
    char text[GRID_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return grid_text(g, row, col, width, look, text);
}

void grid_right(struct grid *g, int row, int col, int width, enum grid_look look, const char *text)
{
    int wide = (int)utf8_width(text);

    if (wide > width)
        wide = width;
    (void)grid_text(g, row, col + width - wide, wide, look, text);
}

void grid_char(struct grid *g, int row, int col, enum grid_look look, uint32_t ch)
{
    if (row < 0 || row >= g->rows || col < 0 || col >= g->cols)
        return;
    put_cell(g, row, col, look, harmless_char(ch) && (ch < 0x7f || g->utf8) ? ch : '?');
}

void grid_paint(struct grid *g, int row, int col, int width, enum grid_look look)
{
    if (row < 0 || row >= g->rows || col < 0)
        return;
    for (int i = col; i < col + width && i < g->cols; i++)
        g->cells[row * g->cols + i].look = (uint8_t)look;
}

void grid_print(const struct grid *g, struct buf *out)
{
    for (int row = 0; row < g->rows; row++) {
        int end = g->cols;

        while (end > 0 && grid_at(g, row, end - 1)->ch == ' ')
            end--;
        for (int col = 0; col < end; col++) {
            char bytes[4];
            uint32_t c = grid_at(g, row, col)->ch;

            if (c)
                buf_add(out, bytes, utf8_encode(c, bytes));
        }
        buf_addc(out, '\n');
    }
}

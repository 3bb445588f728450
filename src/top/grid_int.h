/* SPDX-License-Identifier: MIT */
/* grid_int: a screen as cells, without a terminal.
 *
 * Everything that is shown is drawn here first; ncurses, plain text and tests read the cells.
 * Invariants:
 *   1. A cell holds a character that takes exactly one column, or the first half of a wide one
 *      whose second half is the next cell (ch 0).
 *   2. No cell holds a control character, a piece of an escape sequence, or a character that
 *      changes how its neighbours are shown: grid_text() puts '?' there, so names of processes,
 *      labels and messages of others cannot speak to the terminal.
 *   3. Without `utf8` every cell is ASCII. */
#ifndef TOP_GRID_INT_H
#define TOP_GRID_INT_H
#include "base/buf.h"

#include <stdint.h>

enum { GRID_COLS_MAX = 1000, GRID_ROWS_MAX = 10000 }; /* a larger terminal is used up to there */

enum grid_look {
    LOOK_PLAIN,
    LOOK_DIM,
    LOOK_BOLD,
    LOOK_TITLE, /* what a figure is */
    LOOK_GOOD,
    LOOK_WARN,
    LOOK_BAD,
    LOOK_HEAD,     /* head of a table, reversed */
    LOOK_SELECTED, /* the row that keys mean */
    LOOK_COUNT
};

struct grid_cell {
    uint32_t ch; /* code point; 0: second half of a wide one */
    uint8_t look;
};

struct grid {
    int cols, rows;
    bool utf8;
    struct grid_cell *cells; /* owned: rows of cols */
};

void grid_init(struct grid *g, int cols, int rows, bool utf8); /* blank; cut to the maxima */
void grid_release(struct grid *g);
const struct grid_cell *grid_at(const struct grid *g, int row, int col);

/* Text from `col` on, at most `width` columns and never over the edge; longer text ends in a mark
 * of that.  Outside rows it is nothing.  Returns the columns that it took. */
int grid_text(struct grid *g, int row, int col, int width, enum grid_look look, const char *text);
int grid_textf(struct grid *g, int row, int col, int width, enum grid_look look, const char *fmt,
               ...) PRINTF_LIKE(6, 7);
/* The same with its end at the right of `width` columns. */
void grid_right(struct grid *g, int row, int col, int width, enum grid_look look, const char *text);
void grid_char(struct grid *g, int row, int col, enum grid_look look, uint32_t ch);
void grid_paint(struct grid *g, int row, int col, int width, enum grid_look look);
/* Rows as lines, blanks at their ends left out. */
void grid_print(const struct grid *g, struct buf *out);

#endif

/* SPDX-License-Identifier: MIT */
/* table: aligned text for terminals.
 *
 * Columns are as wide as their widest cell (counted in code points); when the whole
 * is wider than the terminal, columns marked TABLE_SHRINK are cut with "…", widest
 * first, and then all others
 * of text but TABLE_WHOLE.  A TABLE_WRAP column must be the last; it goes on below itself.
 * Colour is asked for a cell and printed only when `colour` is on. */
#ifndef BASE_TEXT_TABLE_H
#define BASE_TEXT_TABLE_H
#include "base/buf.h"

enum table_colour {
    COLOUR_NONE,
    COLOUR_BOLD,
    COLOUR_DIM,
    COLOUR_RED,
    COLOUR_GREEN,
    COLOUR_YELLOW,
    COLOUR_BLUE,
    COLOUR_CYAN
};
enum { TABLE_LEFT = 0, TABLE_RIGHT = 1, TABLE_SHRINK = 2, TABLE_WHOLE = 4, TABLE_WRAP = 8 };
enum { TABLE_COLS_MAX = 80 };

struct term { /* where the text goes */
    bool colour;
    int width; /* columns; 0: no limit */
};

struct table;
struct table *table_new(void);
void table_free(struct table *t);
/* `flags`: TABLE_LEFT|RIGHT, TABLE_SHRINK|WHOLE|WRAP.  A NULL or "" title on every column:
 * no header. */
void table_col(struct table *t, const char *title, int flags);
/* Cells fill rows from left to right; table_row() starts the next row. */
void table_row(struct table *t);
void table_cell(struct table *t, enum table_colour c, const char *fmt, ...) PRINTF_LIKE(3, 4);
void table_print(const struct table *t, const struct term *term, int indent, struct buf *out);

/* Text in a colour, or plain when the terminal has none. */
void term_text(const struct term *term, struct buf *out, enum table_colour c, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* Wraps `text` at term->width (80 when 0) with `indent` before each line. */
void term_wrap(const struct term *term, struct buf *out, int indent, const char *text);

#endif

/* SPDX-License-Identifier: MIT */
#include "base/text/table.h"

#include "base/mem.h"
#include "base/text/text_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_GAP = 2, TABLE_SHRUNK_MIN = 6, TABLE_CUT_MIN = 4, TABLE_WRAPPED_MIN = 16 };

struct cell {
    char *text; /* owned */
    enum table_colour colour;
};

struct column {
    char *title; /* owned */
    int flags;
};

struct table {
    struct column cols[TABLE_COLS_MAX];
    size_t cols_count;
    struct cell *cells; /* owned, row-major; a row may be short */
    size_t cells_count, cells_cap;
    size_t *rows; /* owned: first cell of each row */
    size_t rows_count, rows_cap;
};

static const char *const colour_codes[] = {
    [COLOUR_NONE] = "",         [COLOUR_BOLD] = "\033[1m",   [COLOUR_DIM] = "\033[2m",
    [COLOUR_RED] = "\033[31m",  [COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m",
    [COLOUR_BLUE] = "\033[34m", [COLOUR_CYAN] = "\033[36m",
};

struct table *table_new(void)
{
    return xcalloc(1, sizeof(struct table));
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->cells_count; i++)
        free(t->cells[i].text);
    for (size_t i = 0; i < t->cols_count; i++)
        free(t->cols[i].title);
    free(t->cells);
    free(t->rows);
    free(t);
}

void table_col(struct table *t, const char *title, int flags)
{
    assert(t->cols_count < TABLE_COLS_MAX);
    t->cols[t->cols_count++] =
        (struct column){ .title = xstrdup(title ? title : ""), .flags = flags };
}

void table_row(struct table *t)
{
    VEC_GROW(t->rows, t->rows_count, t->rows_cap);
    t->rows[t->rows_count++] = t->cells_count;
}

void table_cell(struct table *t, enum table_colour c, const char *fmt, ...)
{
    struct buf text = { 0 };
    va_list ap;

    assert(t->rows_count);
    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    VEC_GROW(t->cells, t->cells_count, t->cells_cap);
    t->cells[t->cells_count++] = (struct cell){ .text = buf_take(&text), .colour = c };
    assert(t->cells_count - t->rows[t->rows_count - 1] <= t->cols_count);
}

static size_t row_cells(const struct table *t, size_t row)
{
    size_t end = row + 1 < t->rows_count ? t->rows[row + 1] : t->cells_count;

    return end - t->rows[row];
}

static void measure_columns(const struct table *t, size_t width[TABLE_COLS_MAX])
{
    for (size_t c = 0; c < t->cols_count; c++)
        width[c] = utf8_width(t->cols[c].title);
    for (size_t r = 0; r < t->rows_count; r++)
        for (size_t c = 0; c < row_cells(t, r) && c < t->cols_count; c++) {
            size_t w = utf8_width(t->cells[t->rows[r] + c].text);

            if (w > width[c])
                width[c] = w;
        }
}

static bool can_give(int flags, size_t width, bool all)
{
    if (flags & TABLE_WRAP)
        return width > TABLE_WRAPPED_MIN;
    if (width <= (size_t)(all ? TABLE_CUT_MIN : TABLE_SHRUNK_MIN))
        return false;
    return (flags & TABLE_SHRINK) || (all && !(flags & (TABLE_WHOLE | TABLE_RIGHT)));
}

/* Takes from the widest shrinkable column, or from any of text when `all`, until the row fits
 * or none can give. */
static void shrink_columns(const struct table *t, size_t room, bool all,
                           size_t width[TABLE_COLS_MAX])
{
    for (;;) {
        size_t total = 0, widest = t->cols_count;

        for (size_t c = 0; c < t->cols_count; c++) {
            total += width[c] + (c ? TABLE_GAP : 0);
            if (can_give(t->cols[c].flags, width[c], all) &&
                (widest == t->cols_count || width[c] > width[widest]))
                widest = c;
        }
        if (total <= room || widest == t->cols_count)
            return;
        width[widest]--;
    }
}

/* The text cut to `room` columns, its last one an ellipsis when cut. */
static void add_cut(struct buf *out, const char *text, size_t room)
{
    size_t len = strlen(text), at = 0, used = 0;

    if (utf8_width(text) <= room) {
        buf_adds(out, text);
        return;
    }
    while (at < len) {
        size_t n, cols = utf8_columns(text + at, len - at, &n);

        if (used + cols + 1 > room)
            break;
        used += cols;
        at += n;
    }
    buf_add(out, text, at);
    buf_adds(out, "…");
    if (used + 1 < room) /* a wide one did not fit */
        buf_fill(out, ' ', room - used - 1);
}

static void add_cell(struct buf *out, const struct term *term, const char *text,
                     enum table_colour colour, int flags, size_t width, bool last)
{
    size_t have = utf8_width(text);
    size_t pad = have < width ? width - have : 0;

    if (flags & TABLE_RIGHT)
        buf_fill(out, ' ', pad);
    if (term->colour)
        buf_adds(out, colour_codes[colour]);
    add_cut(out, text, width);
    if (term->colour && colour != COLOUR_NONE)
        buf_adds(out, "\033[0m");
    if (!(flags & TABLE_RIGHT) && !last)
        buf_fill(out, ' ', pad);
}

/* Bytes of the words at the front of `text` that fit into `room`; a longer word is cut. */
static size_t fitting_bytes(const char *text, size_t room)
{
    size_t len = strlen(text), at = 0, used = 0, space = 0;

    while (at < len) {
        size_t n, cols = utf8_columns(text + at, len - at, &n);

        if (used + cols > room)
            return space ? space : at ? at : n;
        if (text[at] == ' ')
            space = at;
        used += cols;
        at += n;
    }
    return len;
}

/* The last cell of a row, in as many lines as it takes, `before` columns from the left. */
static void add_wrapped(struct buf *out, const struct term *term, const struct cell *cell,
                        size_t width, size_t before)
{
    const char *text = cell->text;
    bool first = true;

    do {
        size_t n = fitting_bytes(text, width), shown = n;

        while (shown && text[shown - 1] == ' ')
            shown--;
        if (!first) {
            buf_addc(out, '\n');
            buf_fill(out, ' ', before);
        }
        if (term->colour)
            buf_adds(out, colour_codes[cell->colour]);
        buf_add(out, text, shown);
        if (term->colour && cell->colour != COLOUR_NONE)
            buf_adds(out, "\033[0m");
        text += n;
        text += strspn(text, " ");
        first = false;
    } while (*text);
}

static void add_row(const struct table *t, const struct term *term, int indent,
                    const size_t width[TABLE_COLS_MAX], const struct cell *cells, size_t count,
                    struct buf *out)
{
    size_t before = (size_t)indent;

    while (count > 1 && !cells[count - 1].text[0])
        count--; /* no blanks at the end of a line */
    buf_fill(out, ' ', (size_t)indent);
    for (size_t c = 0; c < count; c++) {
        if (c)
            buf_fill(out, ' ', TABLE_GAP);
        before += c ? width[c - 1] + TABLE_GAP : 0;
        if (t->cols[c].flags & TABLE_WRAP)
            add_wrapped(out, term, &cells[c], width[c], before);
        else
            add_cell(out, term, cells[c].text, cells[c].colour, t->cols[c].flags, width[c],
                     c + 1 == count);
    }
    buf_addc(out, '\n');
}

void table_print(const struct table *t, const struct term *term, int indent, struct buf *out)
{
    struct cell head[TABLE_COLS_MAX];
    size_t width[TABLE_COLS_MAX];
    bool titled = false;

    measure_columns(t, width);
    if (term->width > indent) {
        shrink_columns(t, (size_t)(term->width - indent), false, width);
        shrink_columns(t, (size_t)(term->width - indent), true, width);
    }
    for (size_t c = 0; c < t->cols_count; c++) {
        head[c] = (struct cell){ .text = t->cols[c].title, .colour = COLOUR_DIM };
        titled = titled || t->cols[c].title[0];
    }
    if (titled)
        add_row(t, term, indent, width, head, t->cols_count, out);
    for (size_t r = 0; r < t->rows_count; r++)
        add_row(t, term, indent, width, t->cells + t->rows[r], row_cells(t, r), out);
}

void term_text(const struct term *term, struct buf *out, enum table_colour c, const char *fmt, ...)
{
    va_list ap;

    if (term->colour)
        buf_adds(out, colour_codes[c]);
    va_start(ap, fmt);
    buf_vaddf(out, fmt, ap);
    va_end(ap);
    if (term->colour && c != COLOUR_NONE)
        buf_adds(out, "\033[0m");
}

void term_wrap(const struct term *term, struct buf *out, int indent, const char *text)
{
    size_t room = (size_t)((term->width ? term->width : 80) - indent);
    size_t used = 0;

    if (term->width && term->width - indent < 20)
        room = 20;
    while (*text) {
        size_t len = strcspn(text, " \n"), cols = utf8_width_n(text, len);

        if (used && used + 1 + cols > room) {
            buf_addc(out, '\n');
            used = 0;
        }
        if (!used)
            buf_fill(out, ' ', (size_t)indent);
        else
            buf_addc(out, ' ');
        buf_add(out, text, len);
        used += cols + (used ? 1 : 0);
        text += len;
        text += strspn(text, " \n");
    }
    buf_addc(out, '\n');
}

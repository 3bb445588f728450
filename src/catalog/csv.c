/* SPDX-License-Identifier: MIT */
/* csv: see csv.h.  One pass over the text; cells gather in a growing array on the
 * heap that moves into the arena at the end, so that a bad file leaves nothing. */
#include "catalog/csv.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>

struct csv_reader {
    const char *p, *end;
    size_t line; /* of the cell that is read, from 1 */
    struct arena *a;
    struct buf cell;
    const char **cells; /* owned until csv_parse() hands it over */
    size_t count, cap;
    size_t cols; /* 0 until the header is read */
};

static enum rc read_quoted(struct csv_reader *r, struct err *err)
{
    size_t start = r->line;

    for (r->p++; r->p < r->end; r->p++) {
        if (*r->p == '"') {
            if (r->p + 1 == r->end || r->p[1] != '"') {
                r->p++;
                return RC_OK;
            }
            r->p++;
        } else if (*r->p == '\n') {
            r->line++;
        }
        buf_addc(&r->cell, *r->p);
    }
    return err_set(err, RC_PARSE, "line %zu: the quoted cell has no end", start);
}

static bool at_cell_end(const struct csv_reader *r)
{
    return r->p == r->end || *r->p == ',' || *r->p == '\n' ||
           (*r->p == '\r' && r->p + 1 < r->end && r->p[1] == '\n');
}

static enum rc read_cell(struct csv_reader *r, struct err *err)
{
    buf_reset(&r->cell);
    if (r->p < r->end && *r->p == '"') {
        if (read_quoted(r, err))
            return RC_PARSE;
        if (!at_cell_end(r))
            return err_set(err, RC_PARSE, "line %zu: text after the closing quote", r->line);
    } else {
        for (; !at_cell_end(r); r->p++) {
            if (*r->p == '"')
                return err_set(err, RC_PARSE, "line %zu: a quote inside a plain cell", r->line);
            buf_addc(&r->cell, *r->p);
        }
    }
    if (r->cell.over)
        return err_set(err, RC_LIMIT, "line %zu: a cell is longer than %d bytes", r->line,
                       CSV_CELL_MAX);
    if (r->cell.len && !str_is_text(r->cell.data, r->cell.len))
        return err_set(err, RC_PARSE, "line %zu: a cell is not UTF-8 text", r->line);
    VEC_GROW(r->cells, r->count, r->cap);
    r->cells[r->count++] = arena_strndup(r->a, buf_str(&r->cell), r->cell.len);
    return RC_OK;
}

/* One line of cells; *out_cols is how many it had. */
static enum rc read_row(struct csv_reader *r, size_t *out_cols, struct err *err)
{
    size_t cols = 0;

    for (;;) {
        enum rc rc = read_cell(r, err);
        if (rc)
            return rc;
        if (++cols > CSV_COLS_MAX)
            return err_set(err, RC_LIMIT, "line %zu: more than %d columns", r->line, CSV_COLS_MAX);
        if (r->p == r->end || *r->p != ',')
            break;
        r->p++;
    }
    if (r->p < r->end && *r->p == '\r')
        r->p++;
    if (r->p < r->end)
        r->p++; /* the newline */
    *out_cols = cols;
    return RC_OK;
}

static enum rc read_rows(struct csv_reader *r, struct err *err)
{
    while (r->p < r->end) {
        size_t cols = 0;
        enum rc rc = read_row(r, &cols, err);

        if (rc)
            return rc;
        if (r->cols == 0)
            r->cols = cols;
        if (cols != r->cols)
            return err_set(err, RC_PARSE, "line %zu: %zu cells where the header has %zu", r->line,
                           cols, r->cols);
        if (r->count / r->cols > CSV_ROWS_MAX)
            return err_set(err, RC_LIMIT, "line %zu: more than %d rows", r->line, CSV_ROWS_MAX);
        r->line++;
    }
    if (r->cols == 0)
        return err_set(err, RC_PARSE, "line 1: there is no header");
    return RC_OK;
}

enum rc csv_parse(struct arena *a, const char *text, size_t len, struct csv *out, struct err *err)
{
    struct csv_reader r = { .p = text, .end = text + len, .line = 1, .a = a };
    enum rc rc;

    if (len > CSV_TEXT_MAX)
        return err_set(err, RC_LIMIT, "the table has more than %d bytes", CSV_TEXT_MAX);
    buf_init(&r.cell, CSV_CELL_MAX);
    rc = read_rows(&r, err);
    if (rc == RC_OK) {
        const char **all = arena_memdup(a, r.cells, r.count * sizeof(*all));

        *out = (struct csv){
            .header = all, .cols = r.cols, .cells = all + r.cols, .rows = r.count / r.cols - 1
        };
    }
    free(r.cells);
    buf_release(&r.cell);
    return rc;
}

int csv_col(const struct csv *t, const char *name)
{
    for (size_t i = 0; i < t->cols; i++)
        if (str_eq(t->header[i], name))
            return (int)i;
    return -1;
}

const char *csv_cell(const struct csv *t, size_t r, size_t c)
{
    return r < t->rows && c < t->cols ? t->cells[r * t->cols + c] : "";
}

enum rc csv_columns(const struct csv *t, const char *const *names, size_t count, size_t *out,
                    struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        int c = csv_col(t, names[i]);

        if (c < 0)
            return err_set(err, RC_PARSE, "there is no column '%s'", names[i]);
        out[i] = (size_t)c;
    }
    return RC_OK;
}

static enum rc cell_read(const struct field *f, const char *cell, size_t row, char *out,
                         struct err *err)
{
    double v = f->or_null ? (double)NAN : 0;

    if (f->kind == FIELD_STR) {
        *(const char **)(void *)(out + f->off) = cell;
        return RC_OK;
    }
    if (*cell && !str_to_f64(cell, &v))
        return err_set(err, RC_PARSE, "line %zu: '%s' is not a number", row + 2, cell);
    if (f->scale)
        v *= f->scale;
    if (f->kind == FIELD_F64)
        *(double *)(void *)(out + f->off) = v;
    else
        *(int64_t *)(void *)(out + f->off) = (int64_t)v;
    return RC_OK;
}

enum rc csv_rows(struct arena *a, const char *file, const char *text, size_t len,
                 const struct field_table *fields, void *out_rows, size_t *out_count,
                 struct err *err)
{
    const char *names[CSV_COLS_MAX];
    size_t col[CSV_COLS_MAX];
    struct csv t;
    char *rows;
    enum rc rc;

    for (size_t i = 0; i < fields->count; i++)
        names[i] = fields->rows[i].key;
    rc = csv_parse(a, text, len, &t, err);
    if (rc == RC_OK)
        rc = csv_columns(&t, names, fields->count, col, err);
    if (rc != RC_OK)
        return err_ctx(err, "table '%s'", file);
    rows = arena_array_bytes(a, t.rows, fields->size);
    for (size_t r = 0; r < t.rows; r++)
        for (size_t i = 0; i < fields->count; i++)
            if (cell_read(&fields->rows[i], csv_cell(&t, r, col[i]), r, rows + r * fields->size,
                          err))
                return err_ctx(err, "table '%s'", file);
    memcpy(out_rows, &rows, sizeof(rows));
    *out_count = t.rows;
    return RC_OK;
}

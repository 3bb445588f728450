/* SPDX-License-Identifier: MIT */
/* csv: a small reader for the tables in data/.
 *
 * RFC 4180 with a header line: fields separated by commas, quoted with " where
 * they hold commas, quotes ("") or line ends.  Every row must have as many fields
 * as the header.  Cells are copied into the arena; errors name the line. */
#ifndef CATALOG_CSV_H
#define CATALOG_CSV_H
#include "base/arena.h"
#include "base/err.h"
#include "base/text/fields.h"

enum { CSV_COLS_MAX = 64, CSV_ROWS_MAX = 8192, CSV_CELL_MAX = 4096, CSV_TEXT_MAX = 4 << 20 };

struct csv {
    const char **header; /* cols names */
    size_t cols;
    const char **cells; /* rows * cols, row by row; "" for an empty cell */
    size_t rows;
};

enum rc csv_parse(struct arena *a, const char *text, size_t len, struct csv *out,
                  struct err *err) MUST_USE;
/* Position of a column, or -1. */
int csv_col(const struct csv *t, const char *name);
/* Positions of columns by name, so that their order in the file is free; RC_PARSE without one. */
enum rc csv_columns(const struct csv *t, const char *const *names, size_t count, size_t *out,
                    struct err *err) MUST_USE;
/* A whole table as structs: the keys of `fields` are its columns, which are strings (borrowed from
 * the arena) or numbers.  An empty number is 0, or NaN where the field has or_null; others are
 * multiplied by the field's scale.  Errors name the file. */
enum rc csv_rows(struct arena *a, const char *file, const char *text, size_t len,
                 const struct field_table *fields, void *out_rows, size_t *out_count,
                 struct err *err) MUST_USE;
/* Never NULL. */
const char *csv_cell(const struct csv *t, size_t row, size_t col);

#endif

/* SPDX-License-Identifier: MIT */
/* doc_int: the parts of the site's page. */
#ifndef RENDER_SITE_DOC_INT_H
#define RENDER_SITE_DOC_INT_H
#include "render/render_int.h"

struct site_doc {
    struct render *r;
    struct buf *out;
};

/* doc_html.c: one table after another */
void doc_style(struct buf *out);
void doc_section(struct site_doc *d, const char *id, const char *title);
/* Column titles, "|" between them; a leading '#' sets the column to the right. */
void doc_table(struct site_doc *d, const char *columns);
void doc_row(struct site_doc *d);
void doc_cell(struct site_doc *d, const char *fmt, ...) PRINTF_LIKE(2, 3);  /* text, escaped */
void doc_right(struct site_doc *d, const char *fmt, ...) PRINTF_LIKE(2, 3); /* the same, a number */
void doc_list(struct site_doc *d, const struct spec_strs *words);           /* a cell */
void doc_row_end(struct site_doc *d);
void doc_table_end(struct site_doc *d);
void doc_para(struct site_doc *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
void doc_code(struct site_doc *d, const char *lines);

static inline const char *doc_s(int64_t n) /* "1 machine", "2 machines" */
{
    return n == 1 ? "" : "s";
}

/* doc_picture.c: the five layers of the stack */
void doc_picture(struct site_doc *d);
/* doc_places.c: components on GPUs, machine by machine */
void doc_places(struct site_doc *d);
/* doc_money.c: what it costs, and how the budgets compare */
void doc_money(struct site_doc *d);

#endif

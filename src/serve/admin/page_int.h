/* SPDX-License-Identifier: MIT */
/* page: what a person or a tool asks the server about itself: the OpenAPI document, the
 * list of routes with an example of each, and the page that tries them. */
#ifndef SERVE_ADMIN_PAGE_INT_H
#define SERVE_ADMIN_PAGE_INT_H
#include "base/buf.h"
#include "serve/api/routes_int.h"

/* GET /openapi.json: data/openapi.json with the program's version. */
void openapi_write(struct buf *out);
/* GET /api/routes: [{"method","path","summary","example"}], the example a request body as
 * text or null.  Rows come from the document; `at` (api_at) wins with its summary and example,
 * and adds what the document lacks.  NULL: the document alone. */
void openapi_routes(const struct serve_route *(*at)(size_t i), struct buf *out);

/* GET /: the page, and the fields that keep it to itself ("Name: value\r\n"…). */
void page_write(struct buf *out);
extern const char page_type[], page_fields[];

#endif

/* SPDX-License-Identifier: MIT */
/* admin: the routes that compute nothing: health, what is loaded, figures, loading. */
#ifndef SERVE_ADMIN_ADMIN_INT_H
#define SERVE_ADMIN_ADMIN_INT_H
#include "http/http.h"
#include "serve/request_int.h"

extern const struct http_route admin_routes[]; /* ends with path NULL; arg: struct serve */
/* Takes what is in `body`. */
void admin_reply_json(struct http_exchange *x, int status, struct buf *body);
void admin_reply_error(struct http_exchange *x, int status, enum fault_kind kind, const char *why);
/* http_opts.on_done: the access log. */
void admin_on_done(void *serve, const struct http_request *req, int status, size_t bytes_out,
                   int64_t end_ns, bool gone);

#endif

/* SPDX-License-Identifier: MIT */
/* admin: the routes that compute nothing: health, what is loaded, figures, loading. */
#ifndef SERVE_ADMIN_H
#define SERVE_ADMIN_H
#include "http/http.h"

extern const struct http_route admin_routes[]; /* ends with path NULL; arg: struct serve */
/* http_opts.on_done: the access log. */
void admin_on_done(void *serve, const struct http_request *req, int status, size_t bytes_out,
                   int64_t end_ns, bool gone);

#endif

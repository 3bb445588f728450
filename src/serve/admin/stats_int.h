/* SPDX-License-Identifier: MIT */
/* stats: the server's own figures, under our names; te_metrics_int.h has TEI's. */
#ifndef SERVE_ADMIN_STATS_INT_H
#define SERVE_ADMIN_STATS_INT_H
#include "metrics/metrics.h"
#include "serve/request_int.h"

struct request;
struct http_server;
struct stats;

struct stats *stats_new(struct metrics *m);
void stats_free(struct stats *s);
/* Figures of the connections, from here on. */
void stats_watch_http(struct stats *s, struct metrics *m, const struct http_server *http);
/* Every route's and model's series, so that they are there before the first request. */
void stats_expect_model(struct stats *s, const char *model);
/* A request that was answered, with its status. */
void stats_request(struct stats *s, const struct request *c, int status);
/* A request that became none: the HTTP server refused it. */
void stats_refused(struct stats *s, int status);
const char *stats_error_name(enum fault_kind e); /* "overloaded" … */

#endif

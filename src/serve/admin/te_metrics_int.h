/* SPDX-License-Identifier: MIT */
/* te_metrics: the figures of Text Embeddings Inference under its names (te_…), with its types,
 * labels and buckets, so that what was drawn and alerted on for that server goes on working.
 *
 * Its series carry no model, as that server has one.  Here they are sums over all models; ours
 * (stats_int.h) have them apart. */
#ifndef SERVE_ADMIN_TE_METRICS_INT_H
#define SERVE_ADMIN_TE_METRICS_INT_H
#include "metrics/metrics.h"

struct request;
struct te_metrics;

struct te_metrics *te_metrics_new(struct metrics *m);
void te_metrics_free(struct te_metrics *t); /* NULL is fine */
/* The rest takes NULL too: nothing is counted.  Any thread. */
/* A request that was answered, with its status. */
void te_metrics_request(struct te_metrics *t, const struct request *c, int status);
void te_metrics_batch(struct te_metrics *t, size_t texts, size_t tokens); /* one that ran */
void te_metrics_wait(struct te_metrics *t, int texts); /* more that wait; below 0: fewer */

#endif

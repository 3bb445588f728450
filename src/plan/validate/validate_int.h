/* SPDX-License-Identifier: MIT */
/* validate_int: what the files that hold the planner against published runs share. */
#ifndef PLAN_VALIDATE_VALIDATE_INT_H
#define PLAN_VALIDATE_VALIDATE_INT_H
#include "plan/runs.h"
#include "plan/time/step_time_int.h"

/* Sorts `err` by size. */
void plan_errors_of(double *err, size_t n, struct plan_errors *out);
enum { PLAN_SOURCES_MAX = 256 };
/* The sources' names in the order in which they first appear. */
enum rc plan_rows_sources(const struct plan_rows *rows, const char *out[PLAN_SOURCES_MAX],
                          size_t *out_count, struct err *err) MUST_USE;
/* Is the row one that the set's figure covers? */
bool plan_set_has(enum plan_set s, const struct plan_row *r);
/* Why a row has no figure of time, or NULL: it has one. */
const char *plan_row_no_time(const struct plan_row *r);
/* Seconds the model gives a row.  Where the table has no micro-batch, the least over those that
 * divide the batch, with the virtual stages that go with them: `chosen`, where it is not NULL. */
double plan_row_seconds(const struct plan_row *r, const struct plan_consts *k,
                        struct plan_config *chosen);
/* Of the kind that the GPU takes. */
const struct plan_consts *plan_consts_for(const struct plan_consts_all *all,
                                          const struct plan_gpu *gpu);

#endif

/* SPDX-License-Identifier: MIT */
/* prom_text: the parts of Prometheus' text format 0.0.4 (and OpenMetrics), for who writes it.
 *
 *   # HELP name help
 *   # TYPE name counter
 *   name{label="value",le="+Inf"} 12.5 */
#ifndef BASE_TEXT_PROM_TEXT_H
#define BASE_TEXT_PROM_TEXT_H
#include "base/buf.h"

/* The two lines of a family whose name is the first `len` bytes of `name`; `help` NULL: only the
 * type.  OpenMetrics has quotes escaped in a help text, too. */
void prom_add_head(struct buf *out, const char *name, size_t len, const char *help, bool open,
                   const char *type);
/* The i-th label of a line, with the brace before the first. */
void prom_add_label(struct buf *out, size_t i, const char *name, const char *value);
/* What follows `count` labels. */
void prom_add_labels_end(struct buf *out, size_t count);
/* Whole numbers without exponent while they are exact, others as the shortest text that reads
 * back. */
void prom_add_number(struct buf *out, double v);

#endif

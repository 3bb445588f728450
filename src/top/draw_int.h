/* SPDX-License-Identifier: MIT */
/* draw_int: what the files that draw share.
 *
 *     draw.c        the layout, head and foot, help and alerts
 *     draw_gpu.c    GPUs: a line each, or a card of three
 *     draw_plot.c   lines over time
 *     draw_table.c  processes */
#ifndef TOP_DRAW_INT_H
#define TOP_DRAW_INT_H
#include "top/top.h"

enum { DRAW_CARD_ROWS = 3, DRAW_WORD_MAX = 64 };

/* A figure for people in at most five columns; "-" when unknown. */
const char *draw_bytes(double bytes, char out[DRAW_WORD_MAX]); /* 1.5G, of 1024 */
const char *draw_rate(double rate, char out[DRAW_WORD_MAX]);   /* 1.5G, of 1000 */
const char *draw_number(double v, const char *unit, char out[DRAW_WORD_MAX]);
const char *draw_percent(double v, char out[DRAW_WORD_MAX]);
bool draw_shown(const struct top_frame *f, const struct top_gpu *g); /* of the chosen ones */
size_t draw_gpu_count(const struct top_frame *f);

/* Rows from `row` on, at most `rows`; how many were taken. */
int draw_gpu_list(struct grid *g, const struct top_frame *f, int row, int rows);
int draw_gpu_cards(struct grid *g, const struct top_frame *f, int row, int rows);
void draw_plots(struct grid *g, const struct top_frame *f, int row, int rows);
void draw_table(struct grid *g, const struct top_frame *f, int row, int rows);

#endif

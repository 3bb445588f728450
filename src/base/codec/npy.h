/* SPDX-License-Identifier: MIT */
/* npy: the head of NumPy's file of one array, here always [rows][cols] of little-endian f32.
 *
 * Ours is always NPY_HEAD bytes long, so that the number of rows can be written again as
 * the file grows: data first, then the head, and the file is valid at any moment. */
#ifndef BASE_CODEC_NPY_H
#define BASE_CODEC_NPY_H
#include "base/err.h"

#include <stdint.h>

enum { NPY_HEAD = 128 };

void npy_head(uint64_t rows, uint64_t cols, char out[NPY_HEAD]);
/* Reads a head that npy_head() wrote; RC_PARSE for any other, however valid. */
enum rc npy_read_head(const char head[NPY_HEAD], uint64_t *out_rows, uint64_t *out_cols,
                      struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* safetensors: named tensors in files, one or sharded.
 *
 * The header is read, checked whole (every offset inside the file, no overlap, sizes
 * that equal shape times type) and kept; the data is read with pread() when asked for,
 * so that a file that changes or shrinks under us is an error, never a SIGBUS. */
#ifndef MODEL_WEIGHTS_SAFETENSORS_H
#define MODEL_WEIGHTS_SAFETENSORS_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum st_dtype { ST_F64, ST_F32, ST_F16, ST_BF16, ST_I64, ST_I32, ST_I16, ST_I8, ST_U8, ST_BOOL };
enum { ST_DIMS_MAX = 8, ST_TENSORS_MAX = 65536, ST_SHARDS_MAX = 512, ST_HEADER_MAX = 32 << 20 };

struct st_tensor {
    const char *name;
    enum st_dtype dtype;
    size_t dims[ST_DIMS_MAX], ndim; /* ndim 0: a scalar */
    uint64_t count;                 /* elements */
    uint64_t offset, bytes;         /* in its shard */
    size_t shard;
};

struct st;
/* `dir` holds model.safetensors, or model.safetensors.index.json and its shards. */
enum rc st_open(const char *dir, struct st **out, struct err *err) MUST_USE;
void st_close(struct st *s);
size_t st_count(const struct st *s);
const struct st_tensor *st_at(const struct st *s, size_t i);           /* sorted by name */
const struct st_tensor *st_find(const struct st *s, const char *name); /* NULL: none */
const char *st_dtype_name(enum st_dtype d);
/* Elements [first, first+count) as f32; integers are converted too, f64 is rounded. */
enum rc st_read_f32(const struct st *s, const struct st_tensor *t, uint64_t first, uint64_t count,
                    float *out, struct err *err) MUST_USE;
/* Raw bytes. */
enum rc st_read(const struct st *s, const struct st_tensor *t, uint64_t first_byte, uint64_t count,
                void *out, struct err *err) MUST_USE;

uint16_t st_f32_to_bf16(float f); /* round to nearest even, NaN stays NaN */
uint16_t st_f32_to_f16(float f);

#endif

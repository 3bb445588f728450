/* SPDX-License-Identifier: MIT */
/* safetensors_int: writing safetensors, and what reading takes apart. */
#ifndef MODEL_WEIGHTS_SAFETENSORS_INT_H
#define MODEL_WEIGHTS_SAFETENSORS_INT_H
#include "model/weights/safetensors.h"

enum rc st_open_file(const char *path, struct st **out, struct err *err) MUST_USE;
size_t st_shards(const struct st *s); /* files */
const char *st_shard_path(const struct st *s, size_t i);
/* Is `map` the weight_map of an index: an object with tensors, not too many? */
struct json;
enum rc st_index_check(const struct json *map, struct err *err) MUST_USE;
/* A shard is a file beside the index: its name must not lead elsewhere.  NULL is none. */
bool st_shard_name_ok(const char *name);
size_t st_dtype_bytes(enum st_dtype d);

/* --- writing --- */
struct st_new { /* a tensor to write */
    const char *name;
    enum st_dtype dtype;
    size_t dims[ST_DIMS_MAX], ndim;
};
struct st_source {
    /* Gives bytes [first, first + count) of list[i]; count is a multiple of the type's size. */
    enum rc (*fill)(void *arg, size_t i, uint64_t first, void *out, size_t count, struct err *err);
    void *arg;
};
/* Writes a whole file or none: to a file beside it, flushed to the disk, then renamed. */
enum rc st_write(const char *path, const struct st_new *list, size_t count,
                 const struct st_source *from, struct err *err) MUST_USE;

/* Conversions, exact. */
float st_f16_to_f32(uint16_t h);
float st_bf16_to_f32(uint16_t h);
/* Many at once; `from` needs no alignment. */
void st_f16s_to_f32(const void *from, size_t n, float *out);
void st_bf16s_to_f32(const void *from, size_t n, float *out);

#endif

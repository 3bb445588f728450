/* SPDX-License-Identifier: MIT */
/* pickle: what a plain pytorch_model.bin says about its tensors.
 *
 * A pickle is a program for a stack machine and can call anything.  This reader knows the
 * two dozen opcodes and the thirteen names that a dictionary of tensors needs, makes
 * values of them and calls nothing; whatever else it meets is an error with opcode and
 * position. */
#ifndef MODEL_PICKLE_H
#define MODEL_PICKLE_H
#include "base/arena.h"
#include "model/safetensors.h"

enum {
    PICKLE_BYTES_MAX = 64 << 20, /* of data.pkl */
    PICKLE_STACK_MAX = 1 << 18,  /* values on the stack */
    PICKLE_MEMO_MAX = 1 << 20,   /* numbered values */
    PICKLE_VALUES_MAX = 1 << 22, /* values made in all */
    PICKLE_NAME_MAX = 1024       /* bytes of a tensor's name */
};

struct pickle_tensor {
    const char *name;
    enum st_dtype dtype;
    size_t dims[ST_DIMS_MAX], ndim;
    const char *storage; /* its bytes are the archive's "data/<storage>" */
    uint64_t first;      /* element of the storage it begins with */
    uint64_t count;      /* elements; they lie one behind the other */
    uint64_t storage_count;
};

struct pickle {
    struct arena arena;
    struct pickle_tensor *tensors; /* in the arena */
    size_t count;
};

enum rc pickle_parse(const uint8_t *data, size_t len, struct pickle *out, struct err *err) MUST_USE;
void pickle_release(struct pickle *p);

/* pytorch_model.bin of `dir` becomes its model.safetensors; *out_count: tensors written.
 * `progress` may be NULL. */
enum rc pickle_convert(const char *dir, size_t *out_count,
                       void (*progress)(uint64_t done, uint64_t total), struct err *err) MUST_USE;

#endif

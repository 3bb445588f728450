/* SPDX-License-Identifier: MIT */
/* pickle: what a plain pytorch_model.bin says about its tensors.
 *
 * A pickle is a program for a stack machine and can call anything.  This reader knows the
 * three dozen opcodes (protocols 2 to 5) and the thirteen names that a dictionary of tensors
 * needs, makes values of them and calls nothing; whatever else it meets is an error with
 * opcode and position. */
#ifndef MODEL_WEIGHTS_PICKLE_INT_H
#define MODEL_WEIGHTS_PICKLE_INT_H
#include "base/arena.h"
#include "model/weights/safetensors.h"

enum {
    PICKLE_BYTES_MAX = 64 << 20, /* of data.pkl */
    PICKLE_STACK_MAX = 1 << 18,  /* values on the stack */
    PICKLE_MEMO_MAX = 1 << 20,   /* numbered values */
    PICKLE_VALUES_MAX = 1 << 22, /* values made in all */
    PICKLE_NAME_MAX = 1024,      /* bytes of a tensor's name */
    PICKLE_REPEAT_MAX = 1 << 24  /* numbers of a tensor that has more than its storage */
};

struct pickle_tensor {
    const char *name;
    enum st_dtype dtype;
    size_t dims[ST_DIMS_MAX], ndim;
    uint64_t strides[ST_DIMS_MAX]; /* elements from one to the next */
    const char *storage;           /* the key of its storage */
    uint64_t first;                /* element of the storage it begins with */
    uint64_t count;                /* elements */
    uint64_t span;                 /* elements of the storage from the first to the last */
    bool in_one_piece;             /* they lie one behind the other: span == count */
    uint64_t storage_count;
};

struct pickle_storage {
    const char *key; /* in an archive its bytes are "data/<key>" */
    enum st_dtype dtype;
    uint64_t count; /* elements */
    bool listed;
};

struct pickle {
    struct arena arena;
    struct pickle_tensor *tensors; /* in the arena */
    size_t count;
    struct pickle_storage *storages; /* in the arena; each once */
    size_t storages_count;
};

enum rc pickle_parse(const uint8_t *data, size_t len, struct pickle *out, struct err *err) MUST_USE;
/* The beginning of a file of torch before 1.6.  *out_end: where its storages begin, each
 * behind a count of 8 bytes, in the order of out->storages. */
enum rc pickle_parse_old(const uint8_t *data, size_t len, struct pickle *out, size_t *out_end,
                         struct err *err) MUST_USE;
void pickle_release(struct pickle *p);

#endif

/* SPDX-License-Identifier: MIT */
/* sums: SHA-256 of a model's files, and the lists that say what they should be.
 *
 * Three forms of list are known: SHA256SUMS and NAME.sha256 as sha256sum writes them, and
 * RECORD of a Python wheel (path,sha256=BASE64,bytes). */
#ifndef MODEL_FILES_SUMS_INT_H
#define MODEL_FILES_SUMS_INT_H
#include "base/arena.h"
#include "base/codec/sha256.h"
#include "base/err.h"

#include <stdbool.h>

enum {
    SUMS_MAX = 65536,         /* lines of a list that name a file */
    SUMS_TEXT_MAX = 16 << 20, /* bytes of a list */
    SUMS_NAME_MAX = 1024      /* bytes of a name in one */
};

struct sum {
    const char *name; /* relative, as listed, without a leading "./" or "*" */
    uint8_t sha[SHA256_BYTES];
};
struct sums {
    struct arena arena;
    struct sum *items; /* owned */
    size_t count, cap;
};

void sums_release(struct sums *s);
/* Lines that are no sum are an error that names the line; empty ones and, in a RECORD,
 * files without a sum are passed over. */
enum rc sums_parse(struct sums *s, const char *text, size_t len, struct err *err) MUST_USE;
enum rc sums_parse_record(struct sums *s, const char *text, size_t len, struct err *err) MUST_USE;
const struct sum *sums_find(const struct sums *s, const char *name); /* NULL: none */
bool sums_hex_parse(const char *hex, uint8_t out[SHA256_BYTES]);

/* The sum of a file; `watch` hears of the bytes as they go by, and may end it. */
enum rc sums_file(const char *path, enum rc (*watch)(void *arg, uint64_t bytes, struct err *err),
                  void *arg, uint8_t out[SHA256_BYTES], struct err *err) MUST_USE;
/* The same of one that is open: its first `size` bytes. */
enum rc sums_fd(int fd, const char *path, uint64_t size,
                enum rc (*watch)(void *arg, uint64_t bytes, struct err *err), void *arg,
                uint8_t out[SHA256_BYTES], struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* zip: reads archives as torch and wheels write them: stored and deflated entries, zip64,
 * no encryption, one disk.  The central directory is checked whole before anything is
 * read: every entry inside the file, no two with one name. */
#ifndef OS_ZIP_H
#define OS_ZIP_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZIP_ENTRIES_MAX = 131072, ZIP_NAME_MAX = 1024, ZIP_DIRECTORY_MAX = 64 << 20 };

struct zip_entry {
    const char *name; /* as in the archive; zip_name_ok() before it becomes a path */
    bool deflated;
    uint32_t crc;
    uint64_t packed, size; /* bytes in the file, bytes that come out */
    uint64_t header;       /* where its local header lies */
};

struct zip;
enum rc zip_open(const char *path, struct zip **out, struct err *err) MUST_USE;
void zip_close(struct zip *z);
size_t zip_count(const struct zip *z);
const struct zip_entry *zip_at(const struct zip *z, size_t i);           /* sorted by name */
const struct zip_entry *zip_find(const struct zip *z, const char *name); /* NULL: none */
/* Relative, without "..", empty parts or bytes below space. */
bool zip_name_ok(const char *name);

struct zip_sink {
    enum rc (*write)(void *arg, const void *p, size_t len, struct err *err);
    void *arg;
};
/* All bytes of an entry, in order; its size and CRC are checked. */
enum rc zip_read(const struct zip *z, const struct zip_entry *e, const struct zip_sink *to,
                 struct err *err) MUST_USE;
/* Where the bytes of a stored entry lie in the file. */
enum rc zip_place(const struct zip *z, const struct zip_entry *e, uint64_t *out,
                  struct err *err) MUST_USE;
int zip_fd(const struct zip *z);

#endif

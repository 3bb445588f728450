/* SPDX-License-Identifier: MIT */
/* files: which files a model consists of, and what is in them.
 *
 * A look takes name, device, number, size and times of each.  Two looks tell whether someone wrote
 * there meanwhile: before and after a load, the same look means that what was read is what is
 * there.  Times can be set and files be linked anew, though, so a look that differs says nothing
 * of the content, and one on another machine always differs.
 *
 * What says it is the SHA-256 of each file that the model was read from.  Gigabytes take a second
 * or more, so it is made on a thread of its own while an engine reads the same pages, and kept in
 * a cache under what the look saw: a model that comes back is not read twice.
 *
 *     digest = SHA-256 of the lines that `sha256sum FILE…` prints for them, sorted by name
 *
 * which is the same on every machine, and which a shell can compute too. */
#ifndef MODEL_FILES_FILES_H
#define MODEL_FILES_FILES_H
#include "base/codec/sha256.h"
#include "base/err.h"

#include <stdint.h>

enum {
    MODEL_FILES_MAX = 2048, /* files of one model */
    FILES_CACHE_MAX = 4096, /* sums that are kept; the oldest goes */
    /* A file that was written so lately may be written again without another time in its inode. */
    FILES_TICK_MS = 20,     /* by the kernel's clock for them: waited for before a load */
    FILES_SETTLED_MS = 2000 /* by any file system's: such a sum is not kept */
};

struct model;
struct files;
/* Waits until its newest file is older than FILES_TICK_MS. */
enum rc files_look(const char *dir, struct files **out, struct err *err) MUST_USE;
struct files *files_ref(struct files *f);
void files_free(struct files *f); /* gives a reference back; NULL is fine */
/* The name of a file that differs, or NULL; borrowed from either. */
const char *files_differ(const struct files *a, const struct files *b);

/* ---- content */
struct files_cache;
struct files_cache *files_cache_new(void);    /* any thread may use it */
void files_cache_free(struct files_cache *c); /* NULL is fine, here and below */

/* Begins to sum the files that `m` was read from, on another thread; `f` is its until the end.
 * A file that is not the one that was looked at is an error. */
struct files_task;
struct files_task *files_sum_begin(struct files *f, const struct model *m, struct files_cache *c);
enum rc files_sum_end(struct files_task *t, struct err *err) MUST_USE; /* once; waits */
void files_sum_drop(struct files_task *t); /* instead, where nobody wants it; NULL is fine */
/* Of those that were summed. */
void files_digest(const struct files *f, uint8_t out[SHA256_BYTES]);
/* The name of a summed file whose content in `dir` is another now, or that is not there; NULL:
 * they are the same.  Borrowed from `f`. */
const char *files_changed(const struct files *f, const char *dir, struct files_cache *c);
/* The name of a file that only one of the two was summed of, or of other content; NULL: none. */
const char *files_differ_summed(const struct files *a, const struct files *b);

#endif

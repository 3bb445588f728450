/* SPDX-License-Identifier: MIT */
/* place_int: files below one folder, reached without following a link in it.
 *
 * Paths are relative, with '/' between folders.  Every folder on the way is opened by itself,
 * O_NOFOLLOW, so that a link in the folder never leads out of it. */
#ifndef RENDER_OUTDIR_OUTDIR_INT_H
#define RENDER_OUTDIR_OUTDIR_INT_H
#include "base/buf.h"
#include "base/err.h"

#include <sys/stat.h>

struct outdir_made { /* folders that were made, for the way back; all zero is none */
    char **paths;    /* owned; in the order in which they were made */
    size_t count, cap;
};

struct outdir { /* a folder of the user's */
    const char *dir;
    int fd;                   /* -1: there is no such folder */
    struct outdir_made above; /* the folder itself and those above it that were made */
    struct outdir_made below; /* relative to it */
};

/* Opens the folder; with `make` it is made where it is missing, else `fd` becomes -1. */
enum rc outdir_open(struct outdir *p, const char *dir, bool make, struct err *err) MUST_USE;
/* The folder is this process's until it is closed; RC_FAIL: another's. */
enum rc outdir_lock(struct outdir *p, struct err *err) MUST_USE;
/* Removes the folders that were made, where they are empty. */
void outdir_undo(struct outdir *p);
void outdir_close(struct outdir *p);

/* Has the path no empty part, "." or "..", and does it not begin with '/'? */
bool outdir_path_ok(const char *path);

/* What stands at a path, links not followed.  False: nothing; an error when it cannot be known. */
enum rc outdir_look(struct outdir *p, const char *path, bool *out_there, struct stat *out,
                    struct err *err) MUST_USE;
/* A regular file's text; RC_LIMIT beyond `max`. */
enum rc outdir_read(struct outdir *p, const char *path, size_t max, struct buf *out,
                    struct err *err) MUST_USE;
enum rc outdir_read_link(struct outdir *p, const char *path, struct buf *out,
                         struct err *err) MUST_USE;

/* A file beside its place, on the disk when this returns; then in place; or thrown away. */
enum rc outdir_prepare(struct outdir *p, const char *path, const char *text, size_t len,
                       unsigned mode, struct err *err) MUST_USE;
enum rc outdir_commit(struct outdir *p, const char *path, struct err *err) MUST_USE;
void outdir_discard(struct outdir *p, const char *path);
/* The path of the file beside a place; the caller frees it. */
char *outdir_beside(const char *path);
/* The same file by a second name in its folder as well, which must be free.  Where a file system
 * knows no second names, or does not give this file one, outdir_link() leaves it and outdir_aside()
 * moves the file there. */
enum rc outdir_link(struct outdir *p, const char *path, const char *aside,
                    struct err *err) MUST_USE;
enum rc outdir_aside(struct outdir *p, const char *path, const char *aside,
                     struct err *err) MUST_USE;
enum rc outdir_remove(struct outdir *p, const char *path, struct err *err) MUST_USE;
/* Removes the folders around a path that are empty. */
enum rc outdir_prune(struct outdir *p, const char *path, struct err *err) MUST_USE;
/* What was renamed and removed in the folder of a path, to the disk. */
void outdir_sync(struct outdir *p, const char *path);
void outdir_sync_made(struct outdir *p); /* the folders that were made */

#endif

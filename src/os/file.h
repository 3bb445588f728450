/* SPDX-License-Identifier: MIT */
/* file: whole reads and whole writes of ordinary files.
 *
 * Reading takes only regular files (a FIFO or a device never blocks us) and never more
 * than a limit the caller names.  Interrupted and short reads are finished; a file that
 * ends early is an error that says so.  Messages name the path. */
#ifndef OS_FILE_H
#define OS_FILE_H
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { FILE_PATH_MAX = 4096 }; /* bytes in a path we put together, NUL included */

/* Opens a regular file for reading; its size where `out_size` is not NULL. */
enum rc file_open(const char *path, int *out_fd, uint64_t *out_size, struct err *err) MUST_USE;
/* The whole file behind what `out` holds already; RC_LIMIT when longer than `max` bytes. */
enum rc file_read(const char *path, size_t max, struct buf *out, struct err *err) MUST_USE;
/* Exactly `count` bytes from `offset`. */
enum rc file_pread(int fd, const char *path, uint64_t offset, void *out, size_t count,
                   struct err *err) MUST_USE;
/* Exactly `count` bytes at the file's place. */
enum rc file_write(int fd, const char *path, const void *p, size_t count, struct err *err) MUST_USE;
/* A file that appears whole or not at all: written beside `path`, renamed when closed well. */
struct file_new {
    int fd;
    char path[FILE_PATH_MAX], temp[FILE_PATH_MAX];
};
enum rc file_new_open(struct file_new *f, const char *path, struct err *err) MUST_USE;
/* With this mode, less the umask, in place of 0666. */
enum rc file_new_open_mode(struct file_new *f, const char *path, unsigned mode,
                           struct err *err) MUST_USE;
enum { FILE_MODE_GROUP = 0640 }; /* of what not everybody on the machine may read */
/* With `rc` RC_OK: to the disk, then in place; else it is thrown away.  Returns the first fault. */
enum rc file_new_close(struct file_new *f, enum rc rc, struct err *err) MUST_USE;
bool file_exists(const char *path); /* a regular file, links followed */
bool file_exists_in(const char *dir, const char *name);
bool file_is_dir(const char *path); /* a folder, links followed */
/* "dir/name"; RC_LIMIT past `cap`. */
enum rc file_join(char *out, size_t cap, const char *dir, const char *name,
                  struct err *err) MUST_USE;

/* A folder and the folders above it; fine when they are there. */
enum rc file_make_dirs(const char *path, struct err *err) MUST_USE;
/* The folders above a file. */
enum rc file_make_parents(const char *path, struct err *err) MUST_USE;
/* A folder with all below it, links not followed; what cannot go stays. */
void file_remove_tree(const char *path);

#endif

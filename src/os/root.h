/* SPDX-License-Identifier: MIT */
/* root: the files of a machine, live or captured.
 *
 * Everything hw/ learns from files it reads through one struct root: "/" of this
 * machine, a directory that holds a copy, or a tar of one.  Symbolic links are
 * resolved inside the root, so a captured link can never reach the host's files.
 *
 * Paths are absolute as on the machine itself ("/sys/class/net").  Files of the
 * capture that are no files of the machine lie below "/stoker/" (self.json: what
 * system calls said; nvml.json: what the driver said; errors: files whose reading
 * failed, "PATH<TAB>ERRNO-NUMBER" a line, replayed as that error).
 *
 * Most files may be missing on most machines, so these functions answer with a
 * count or a negative errno instead of an err.  Only regular files are read, never
 * more than the caller's buffer holds; a longer file is cut there.
 *
 * A recorder sees every look-up and keeps what a replay needs to answer the same:
 * `stoker gather` is a probe with a recorder. */
#ifndef OS_ROOT_H
#define OS_ROOT_H
#include "base/arena.h"
#include "base/err.h"
#include "base/maybe.h"

#include <sys/types.h>

enum {
    ROOT_PATH_MAX = 1024,     /* bytes in a path, as given and as resolved */
    ROOT_LINKS_MAX = 40,      /* links followed in one look-up */
    ROOT_LIST_MAX = 4096,     /* names in one directory; the rest is left out */
    ROOT_TAR_MAX = 256 << 20, /* bytes of a captured tar */
    ROOT_LINE_MAX = 4096      /* what root_line() and friends read */
};

struct root;
struct recorder;

/* NULL or "/" is this machine; a directory or an uncompressed tar is a captured one. */
enum rc root_open(const char *path, struct root **out, struct err *err) MUST_USE;
void root_close(struct root *r);
bool root_is_live(const struct root *r);
void root_record(struct root *r, struct recorder *rec); /* borrowed; NULL stops */

/* Bytes read (at most cap-1, NUL-terminated) or -errno. */
ssize_t root_read(struct root *r, const char *path, char *buf, size_t cap);
/* The same for a file that anybody may have put there: not through a link at the path's end, and
 * nothing but a regular file is opened even if it is exchanged meanwhile; -ENOTSUP. */
ssize_t root_read_foreign(struct root *r, const char *path, char *buf, size_t cap);
/* An open file for repeated reading from its start (pread), or -errno; of a tar it is a copy in
 * memory.  Not recorded: for files that are read over and over. */
int root_open_file(struct root *r, const char *path);
/* The first line, trimmed, made printable UTF-8; length or -errno. */
ssize_t root_line(struct root *r, char *buf, size_t cap, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The first line in the arena; NULL when missing or empty. */
const char *root_str(struct root *r, struct arena *a, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The first line as a whole number (decimal or 0x…); unknown when it is not one. */
struct maybe root_int(struct root *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool root_exists(struct root *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The last component of a link's target ("driver" links and such); NULL when none. */
const char *root_link_name(struct root *r, struct arena *a, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The path with all links resolved, as on the machine ("/sys/devices/…"); 0 or -errno. */
int root_real(struct root *r, const char *path, char *buf, size_t cap);

struct root_names {
    const char **items; /* sorted with version order (eth2 before eth10), in the arena */
    size_t count;
};
/* Names in a directory without "." and ".."; 0 or -errno (count is 0 then). */
int root_list(struct root *r, struct arena *a, const char *path, struct root_names *out);

/* --- recording --- */
struct recorder *recorder_new(void);
void recorder_free(struct recorder *rec);
/* Puts a file of the capture ("/stoker/self.json") or replaces a recorded one. */
void recorder_put(struct recorder *rec, const char *path, const void *data, size_t len);
/* Lets `fn` change each recorded file's bytes (masking): `io` holds them. */
struct buf;
void recorder_each(struct recorder *rec, void (*fn)(void *arg, const char *path, struct buf *io),
                   void *arg);
/* Writes a ustar/pax archive, names sorted, times zero: the same machine state gives
 * the same bytes. */
enum rc recorder_write(struct recorder *rec, const char *path, struct err *err) MUST_USE;

#endif

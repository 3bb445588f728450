/* SPDX-License-Identifier: MIT */
/* written_int: the list of what 'stoker render' wrote into a folder, DIR/.stoker-render.
 *
 * A line for each file as sha256sum writes it, so that `sha256sum -c .stoker-render` tells what was
 * edited since.  A file whose sum is not in the list was edited.  The list has the sum of what we
 * rendered, also where a merged text stands there: the edits stay edits, run after run. */
#ifndef RENDER_OUTDIR_WRITTEN_INT_H
#define RENDER_OUTDIR_WRITTEN_INT_H
#include "base/codec/sha256.h"
#include "render/outdir/outdir_int.h"

#define LIST_NAME ".stoker-render"
enum { LIST_MAX = 16 << 20 }; /* bytes of the list */

struct listed_file {
    char *path; /* owned */
    char sum[SHA256_HEX];
};
struct written_list { /* sorted by path; all zero is an empty one */
    struct listed_file *items;
    size_t count, cap;
};
void written_release(struct written_list *l);
/* Of the folder; one that is not there is empty.  RC_LIMIT beyond LIST_MAX. */
enum rc written_read(struct outdir *p, struct written_list *l, struct err *err) MUST_USE;
const struct listed_file *written_find(const struct written_list *l, const char *path);
/* Did we write this text there?  A path may have two sums: versions before the journal left that
 * when they were killed. */
bool written_has(const struct written_list *l, const char *path, const char *sum);
/* The sum of what we wrote last; NULL when it could be one of two. */
const char *written_sum(const struct written_list *l, const char *path);
void written_line(struct buf *out, const char *sum, const char *path);
/* Are these 64 hexadecimal digits? */
bool written_is_sum(const char *s);

/* A file of our own beside the list, on the disk and in place, unless it is that already. */
enum rc written_own_file(struct outdir *p, const char *name, const struct buf *text, size_t max,
                         unsigned mode, struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* tree: files, folders and links in memory, for captured machines.
 *
 * A tree is what a tar holds and what a recorder gathers: nodes sorted by path, so
 * that a look-up is a binary search and a folder's children are one run.  Paths are
 * absolute and clean ("/sys/class/net", no "..", no "//"); parents are added with
 * their children.  Links are resolved inside the tree. */
#ifndef OS_TREE_H
#define OS_TREE_H
#include "base/buf.h"
#include "base/err.h"
#include "os/root.h"

#include <stdint.h>

enum tree_kind { TREE_FILE, TREE_DIR, TREE_LINK };

struct tree_node {
    char *path; /* owned */
    enum tree_kind kind;
    char *data; /* owned: a file's bytes or a link's target, NUL-terminated */
    size_t len; /* of data */
    int error;  /* reading it fails with this errno; 0: it does not */
};

struct tree {
    struct tree_node *nodes; /* owned; sorted once `sorted` */
    size_t count, cap;
    bool sorted;
};

enum { TREE_NODES_MAX = 200000 };

void tree_init(struct tree *t);
void tree_release(struct tree *t);
/* Adds a node; of several with one path the one that tells most stays (bytes over an
 * error over a bare name).  False past TREE_NODES_MAX or for a path that is not clean
 * and absolute. */
bool tree_put(struct tree *t, const char *path, enum tree_kind kind, const void *data, size_t len,
              int error);

void tar_write(struct tree *t, struct buf *out);

#endif

/* SPDX-License-Identifier: MIT */
/* root_int: what root.c and recorder.c share. */
#ifndef OS_ROOT_INT_H
#define OS_ROOT_INT_H
#include "os/root.h"
#include "os/tree.h"

struct recorder {
    struct tree tree;
};

struct root {
    bool live;            /* this machine: the kernel resolves links */
    bool in_memory;       /* a tar: everything is in `tree` */
    int fd;               /* a folder, or "/" when live; -1 for a tar */
    struct tree tree;     /* the tar; for a folder only the errors to replay */
    struct recorder *rec; /* borrowed; NULL: nothing is recorded */
};

/* ---- tree.c, tar.c */
/* The node itself, links not followed; NULL when missing. */
struct tree_node *tree_find(struct tree *t, const char *path);
/* Position of the first node below folder `path`: its children and theirs follow. */
size_t tree_first_below(struct tree *t, const char *path);
void tree_sort(struct tree *t); /* also adds missing parents */
/* tar: ustar, GNU long names and pax paths are read; ustar with pax is written.
 * data[len] must be readable and NUL. */
enum rc tar_read(const char *data, size_t len, struct tree *out, struct err *err) MUST_USE;

#endif

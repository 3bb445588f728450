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
    struct tree tree;     /* the tar; for a folder the errors to replay alone */
    struct recorder *rec; /* borrowed; NULL: nothing is recorded */
};

#endif

/* SPDX-License-Identifier: MIT */
/* nccl_int: between the files of the nccl target. */
#ifndef RENDER_NCCL_NCCL_FILE_INT_H
#define RENDER_NCCL_NCCL_FILE_INT_H
#include "base/arena.h"
#include "base/mem.h"
#include "nccl/nccl.h"
#include "render/render_int.h"

#include <stdlib.h>

struct conf_var {
    const char *name, *value;
    const char *reason; /* NULL: the spec says so */
    const void *member; /* where it stands in the spec; NULL: nowhere */
};

struct conf { /* the settings of one node group */
    struct render *r;
    const struct spec_node *node;     /* NULL: the site has no GPU machines */
    const struct spec_fabric *fabric; /* the one between the GPUs; NULL: none */
    struct spec_nics_of nics;         /* the group's on it */
    struct conf_var *vars;
    size_t count;
    bool from_inventory;
    struct arena arena;
};

/* What the spec says: nccl.env, then what the group's fabric fixes and nccl.env does not. */
void conf_collect(struct conf *c);
/* Do two groups differ in nothing that the spec tells NCCL?  Both have GPUs. */
bool conf_same(const struct render *r, const struct spec_node *a, const struct spec_node *b);
const struct conf_var *conf_find(const struct conf *c, const char *name);
/* The machine to judge them on: that of an inventory, or (NULL) one with no more than the spec
 * tells of it; either with these settings as its environment. */
const struct hw *conf_machine(struct conf *c, const struct hw *seen);
/* Does a finding hold though the machine is only as much as the spec tells? */
bool conf_lint_holds(const struct conf *c, const struct nccl_lint *l);

#endif

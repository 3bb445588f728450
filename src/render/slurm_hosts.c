/* SPDX-License-Identifier: MIT */
/* slurm_hosts: names of machines in order, to ask whether one is among them.  Lists were found
 * sound before any target began. */
#include "base/mem.h"
#include "render/slurm_int.h"

#include <stdlib.h>

void slurm_names_add(struct slurm_names *n, const char *name)
{
    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 64;
        n->items = xreallocarray(n->items, n->cap, sizeof(*n->items));
    }
    n->items[n->count++] = xstrdup(name);
}

void slurm_names_add_list(struct slurm_names *n, const char *hosts)
{
    struct spec_walk w;

    for (spec_walk_list(&w, hosts); spec_walk_next(&w);)
        slurm_names_add(n, w.name);
}

void slurm_names_add_group(struct slurm_names *n, const struct spec_node *group)
{
    struct spec_walk w;

    for (spec_walk(&w, group); spec_walk_next(&w);)
        slurm_names_add(n, w.name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void slurm_names_sort(struct slurm_names *n)
{
    if (n->count)
        qsort(n->items, n->count, sizeof(*n->items), by_name);
}

bool slurm_names_has(const struct slurm_names *n, const char *name)
{
    return n->count && bsearch(&name, n->items, n->count, sizeof(*n->items), by_name);
}

void slurm_names_release(struct slurm_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
    *n = (struct slurm_names){ 0 };
}

struct buf slurm_hosts_of(const struct spec_node *n)
{
    struct buf b = { 0 };

    spec_hosts(n, &b);
    return b;
}

/* SPDX-License-Identifier: MIT */
/* slurm_hosts: names of machines in order, to ask whether one is among them.  Lists were found
 * sound before any target began. */
#include "base/mem.h"
#include "render/slurm/slurm_int.h"

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

/* Slurm takes a bracket at the end of a name and nowhere else: slurmctld does not start with
 * "r[1-2]-gpu" in topology.conf.  Items of that kind are written out name by name. */
static void item_add(struct buf *out, const char *item, size_t len)
{
    const char *close = memchr(item, ']', len);
    struct buf one = { 0 };
    struct spec_walk w;

    if (!close || close + 1 == item + len) {
        buf_add(out, item, len);
        return;
    }
    buf_add(&one, item, len);
    spec_walk_list(&w, buf_str(&one));
    for (bool more = spec_walk_next(&w); more;) {
        buf_adds(out, w.name);
        more = spec_walk_next(&w);
        if (more)
            buf_addc(out, ',');
    }
    buf_release(&one);
}

struct buf slurm_hosts_list(const char *hosts)
{
    struct buf out = { 0 };

    for (const char *p = hosts; *p;) {
        bool in = false;
        size_t len = 0;

        for (; p[len] && (in || p[len] != ','); len++)
            in = p[len] == '[' || (in && p[len] != ']');
        if (out.len)
            buf_addc(&out, ',');
        item_add(&out, p, len);
        p += len + (p[len] == ',');
    }
    return out;
}

struct buf slurm_hosts_of(const struct spec_node *n)
{
    struct buf b = { 0 }, out;

    spec_hosts(n, &b);
    out = slurm_hosts_list(buf_str(&b));
    buf_release(&b);
    return out;
}

void slurm_hosts_add(struct buf *out, const struct spec_node *n)
{
    struct buf b = slurm_hosts_of(n);

    buf_adds(out, buf_str(&b));
    buf_release(&b);
}

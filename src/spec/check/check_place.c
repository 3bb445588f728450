/* SPDX-License-Identifier: MIT */
/* check_place: things that are named for machines that do not have them: a fabric for a component
 * whose group is not on it, login nodes for a partition that runs jobs, more local storage than the
 * machines have disks. */
#include "base/str.h"
#include "spec/check/check_int.h"

static void component_fabric(struct check *c, const struct spec_component *k,
                             const char *const *name)
{
    const struct spec_fabric *f = spec_fabric_find(c->s, *name);
    size_t groups = spec_component_group_count(c->s, k), on = 0;
    const struct spec_node *off = NULL;

    for (size_t i = 0; f && i < groups; i++) {
        const struct spec_node *n = spec_component_group(c->s, k, i);

        if (n && spec_group_on(n, f))
            on++;
        else if (n)
            off = n;
    }
    if (off && !on)
        check_fault(c, name, "Name it in the 'fabrics' of the group, or leave it out here.",
                    "component '%s' uses fabric '%s', and its node group '%s' is not on it",
                    k->name, f->name, off->name);
    else if (off)
        check_doubt(c, name, "Between these groups another network is used.",
                    "component '%s' uses fabric '%s', and node group '%s' is not on it", k->name,
                    f->name, off->name);
}

static void partition_groups(struct check *c, const struct spec_partition *p)
{
    for (size_t i = 0; i < p->nodes.count; i++) {
        const struct spec_node *n = spec_node_find(c->s, p->nodes.items[i]);

        if (n && n->role == SPEC_ROLE_LOGIN)
            check_doubt(c, &p->nodes.items[i], "Jobs would run where people log in.",
                        "partition '%s' has the login nodes '%s'", p->name, n->name);
    }
}

static bool storage_is_used(const struct spec *s, const struct spec_storage *x,
                            const struct spec_node *n)
{
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *k = &s->components[i];

        for (size_t j = 0; j < k->mount_count; j++)
            if (str_eq(k->mounts[j].storage, x->name) && spec_component_on(s, k, n))
                return true;
    }
    return false;
}

/* Storages of kind local below the path of a group's disk, which components mount there. */
static void local_disk(struct check *c, const struct spec_node *n)
{
    char sum[UNITS_TEXT_MAX], have[UNITS_TEXT_MAX];
    size_t len = n->local_path ? strlen(n->local_path) : 0;
    int64_t used = 0;

    while (len > 1 && n->local_path[len - 1] == '/')
        len--;
    for (size_t i = 0; len && i < c->s->storage_count; i++) {
        const struct spec_storage *x = &c->s->storage[i];

        if (x->kind != SPEC_STORAGE_LOCAL || !x->size_bytes.known || !x->path ||
            strncmp(x->path, n->local_path, len) || (x->path[len] && x->path[len] != '/') ||
            !storage_is_used(c->s, x, n))
            continue;
        used += x->size_bytes.v; /* at most 2^60, and the loop ends above the disk's 2^56 */
        if (used <= n->local_disk_bytes.v)
            continue;
        check_doubt(c, &x->size_bytes, "The disk is full before the storage is.",
                    "local storage takes %s of a machine of '%s', whose disk at '%s' has %s",
                    units_bytes_exact((uint64_t)used, sum), n->name, n->local_path,
                    units_bytes_exact((uint64_t)n->local_disk_bytes.v, have));
        return;
    }
}

void check_places(struct check *c)
{
    const struct spec_slurm *s = c->s->targets.slurm;

    for (size_t i = 0; i < c->s->component_count; i++) {
        const struct spec_component *k = &c->s->components[i];

        for (size_t j = 0; j < k->fabrics.count; j++)
            component_fabric(c, k, &k->fabrics.items[j]);
    }
    for (size_t i = 0; s && i < s->partition_count; i++)
        partition_groups(c, &s->partitions[i]);
    for (size_t i = 0; i < c->s->node_count; i++)
        if (c->s->nodes[i].local_disk_bytes.known)
            local_disk(c, &c->s->nodes[i]);
}

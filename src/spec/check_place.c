/* SPDX-License-Identifier: MIT */
/* check_place: things that are named for machines that do not have them: a fabric for a component
 * whose group is not on it, login nodes for a partition that runs jobs. */
#include "base/str.h"
#include "spec/check_int.h"

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
}

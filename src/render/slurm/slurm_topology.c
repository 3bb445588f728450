/* SPDX-License-Identifier: MIT */
/* slurm_topology: topology.conf, from the switches of a fabric or, without any, from racks; where
 * NVLink joins machines, from its domains instead (slurm_blocks.c).
 *
 * With topology/tree a machine that no switch has could never be given to a job, so machines the
 * spec does not place get a switch of their own.  And a job never has machines of two trees: Slurm
 * refuses it as one that no machines are there for, and what fits into one tree goes to the
 * smallest that holds it, whatever the weights of the machines say.  So where the spec has several
 * roots there is a switch above all of them, which stands for the network that every machine of a
 * cluster has in common. */
#include "base/mem.h"
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <stdlib.h>

static const struct spec_fabric *fabric_of(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->fabric_count; i++)
        if (c->r->spec->fabrics[i].switch_count)
            return &c->r->spec->fabrics[i];
    return NULL;
}

static bool any_rack(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (c->r->spec->nodes[i].rack && slurm_has(c, &c->r->spec->nodes[i]))
            return true;
    return false;
}

bool slurm_has_topology(const struct slurm *c)
{
    return slurm_has_blocks(c) || fabric_of(c) || any_rack(c);
}

/* Switches of a fabric that are below none of it. */
static void fabric_roots(const struct spec_fabric *f, struct slurm_names *roots)
{
    struct slurm_names below = { 0 };

    for (size_t i = 0; i < f->switch_count; i++)
        for (size_t k = 0; k < f->switches[i].switches.count; k++)
            slurm_names_add(&below, f->switches[i].switches.items[k]);
    slurm_names_sort(&below);
    for (size_t i = 0; i < f->switch_count; i++)
        if (!slurm_names_has(&below, f->switches[i].name))
            slurm_names_add(roots, f->switches[i].name);
    slurm_names_release(&below);
}

static void put_switches(struct slurm *c, struct buf *out, const struct spec_fabric *f,
                         struct slurm_names *placed)
{
    buf_addf(out, "\n# fabric %s, %s\n", f->name, render_from(c->r, &f->name));
    for (size_t i = 0; i < f->switch_count; i++) {
        const struct spec_switch *s = &f->switches[i];

        buf_addf(out, "SwitchName=%s ", s->name);
        if (s->hosts) {
            struct buf hosts = slurm_hosts_list(s->hosts);

            slurm_names_add_list(placed, s->hosts);
            slurm_line(c, out, &s->hosts, "Nodes=%s", buf_str(&hosts));
            buf_release(&hosts);
            continue;
        }
        buf_adds(out, "Switches=");
        for (size_t k = 0; k < s->switches.count; k++)
            buf_addf(out, "%s%s", k ? "," : "", s->switches.items[k]);
        buf_addf(out, "  # %s\n", render_from(c->r, &s->switches));
    }
}

struct racked { /* a group that stands in a rack */
    const struct spec_node *n;
    const struct spec_node *first; /* of the same rack, in the order of the spec */
};

static int by_rack(const void *a, const void *b)
{
    const struct racked *x = a, *y = b;
    int d = strcmp(x->n->rack, y->n->rack);

    return d ? d : (x->n > y->n) - (x->n < y->n);
}

static int by_first(const void *a, const void *b)
{
    const struct racked *x = a, *y = b;

    return x->first == y->first ? (x->n > y->n) - (x->n < y->n)
                                : (x->first > y->first) - (x->first < y->first);
}

/* Groups with a rack, those of one rack together; the caller frees the array. */
static struct racked *racked_groups(const struct slurm *c, size_t *count)
{
    const struct spec *s = c->r->spec;
    struct racked *out = xcalloc(s->node_count, sizeof(*out));

    *count = 0;
    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].rack && slurm_has(c, &s->nodes[i]))
            out[(*count)++].n = &s->nodes[i];
    qsort(out, *count, sizeof(*out), by_rack);
    for (size_t i = 0; i < *count; i++)
        out[i].first =
            i && str_eq(out[i].n->rack, out[i - 1].n->rack) ? out[i - 1].first : out[i].n;
    qsort(out, *count, sizeof(*out), by_first);
    return out;
}

static void put_racks(struct slurm *c, struct buf *out, struct slurm_names *placed,
                      struct slurm_names *roots)
{
    size_t count;
    struct racked *g = racked_groups(c, &count);

    buf_adds(out, "\n# no fabric names its switches: a rack is one\n");
    for (size_t i = 0; i < count; i++) {
        struct buf hosts = slurm_hosts_of(g[i].n);

        if (g[i].first == g[i].n) {
            buf_addf(out, "SwitchName=%s Nodes=%s", g[i].n->rack, buf_str(&hosts));
            slurm_names_add(roots, g[i].n->rack);
        } else {
            buf_addf(out, ",%s", buf_str(&hosts));
        }
        if (i + 1 == count || g[i + 1].first != g[i].first)
            buf_addf(out, "  # %s\n", render_from(c->r, &g[i].first->rack));
        slurm_names_add_group(placed, g[i].n);
        buf_release(&hosts);
    }
    free(g);
}

/* Hosts of a group that no switch has: all of them by their list, some of them one by one. */
static void left_of(const struct spec_node *n, const struct slurm_names *placed, struct buf *out)
{
    struct spec_walk w;
    int64_t count = 0;

    for (spec_walk(&w, n); spec_walk_next(&w);)
        if (!slurm_names_has(placed, w.name))
            buf_addf(out, "%s%s", count++ ? "," : "", w.name);
    if (count == n->count) {
        buf_reset(out);
        slurm_hosts_add(out, n);
    }
}

static void left_over(struct slurm *c, struct buf *out, const struct slurm_names *placed,
                      struct slurm_names *roots)
{
    struct buf left = { 0 }, name = { 0 };

    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (!slurm_has(c, n))
            continue;
        buf_reset(&left);
        left_of(n, placed, &left);
        if (!left.len)
            continue;
        buf_reset(&name);
        buf_addf(&name, "unlisted-%s", n->name);
        slurm_fixed(out, "on no switch of the spec: reachable, near nobody",
                    "SwitchName=%s Nodes=%s", buf_str(&name), buf_str(&left));
        slurm_names_add(roots, buf_str(&name));
    }
    buf_release(&left);
    buf_release(&name);
}

static void top_switch(struct buf *out, const char *name, const struct slurm_names *roots)
{
    if (roots->count < 2)
        return;
    buf_addf(out,
             "# above them all, for jobs that need machines of several\n"
             "SwitchName=%s Switches=",
             name);
    for (size_t i = 0; i < roots->count; i++)
        buf_addf(out, "%s%s", i ? "," : "", roots->items[i]);
    buf_addc(out, '\n');
}

void slurm_topology_conf(struct slurm *c)
{
    struct slurm_names placed = { 0 }, roots = { 0 }; /* roots: in the order of the file */
    const struct spec_fabric *f = fabric_of(c);
    struct buf *out;

    if (!slurm_has_topology(c))
        return;
    out = render_file(c->r, "slurm/topology.conf");
    render_head(c->r, out, "#",
                slurm_has_blocks(c)
                    ? "topology.conf: NVLink domains, for jobs to be kept in one."
                    : "topology.conf: switches, for jobs to be placed close together.");
    if (c->v->topology_yaml)
        buf_addf(out,
                 "# Slurm %s also reads topology.yaml; this file serves as long as there is "
                 "one %s.\n",
                 c->v->name, slurm_has_blocks(c) ? "topology" : "tree");
    if (slurm_has_blocks(c)) {
        slurm_blocks_print(c, out);
        return;
    }
    if (f) {
        put_switches(c, out, f, &placed);
        fabric_roots(f, &roots);
    } else {
        put_racks(c, out, &placed, &roots);
    }
    slurm_names_sort(&placed);
    left_over(c, out, &placed, &roots);
    top_switch(out, f ? SLURM_SWITCHES : SLURM_RACKS, &roots);
    slurm_names_release(&placed);
    slurm_names_release(&roots);
}

/* SPDX-License-Identifier: MIT */
/* slurm_blocks: topology.conf of topology/block, where NVLink joins the GPUs of several machines.
 *
 * A block is one NVLink domain: so many machines of a group, in the order of its hosts.  The
 * plug-in gives a job that fits into a block machines of one, and a larger one as few blocks as
 * hold it; '--segment' asks that each so many machines of a job are of one block.  What the plug-in
 * wants (block_record.c and eval_nodes_block.c of Slurm 24.11):
 *   - no block is smaller than the first of BlockSizes, before 25.05: slurmctld does not start;
 *   - a segment is not larger than that, and divides the machines of the job;
 *   - it is of one block: a job of more segments than fit into the blocks never starts;
 *   - where a partition has machines of blocks, its others are not given to jobs.
 * So the others are blocks, too: one a group, or before 25.05 one of them all, if it is large
 * enough. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

int64_t slurm_domain_machines(const struct spec_node *n)
{
    return n->gpus_per_node ? spec_group_nvlink_gpus(n) / n->gpus_per_node : 1;
}

static int64_t group_domains(const struct slurm *c, const struct spec_node *n)
{
    int64_t machines = slurm_domain_machines(n);

    return slurm_has(c, n) && machines > 1 ? n->count / machines : 0;
}

/* Machines of the smallest domain: the first of BlockSizes; 0: there are not two domains. */
static int64_t base_machines(const struct slurm *c)
{
    int64_t least = 0, domains = 0;

    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];
        int64_t machines = slurm_domain_machines(n);

        if (!group_domains(c, n))
            continue;
        domains += group_domains(c, n);
        least = least && least < machines ? least : machines;
    }
    return domains > 1 ? least : 0;
}

/* two or more in the cluster */
static bool slurm_has_domains(const struct slurm *c)
{
    return base_machines(c) > 0;
}

bool slurm_has_blocks(const struct slurm *c)
{
    return c->v->blocks && slurm_has_domains(c);
}

bool slurm_has_imex(const struct slurm *c)
{
    for (size_t i = 0; c->v->imex && i < c->r->spec->node_count; i++)
        if (slurm_has(c, &c->r->spec->nodes[i]) && slurm_domain_machines(&c->r->spec->nodes[i]) > 1)
            return true;
    return false;
}

/* Machines of the smallest domain that a job may run in; 1: not all of its machines are in one. */
int64_t slurm_job_domain(const struct slurm *c, const struct spec_component *k)
{
    const struct spec_node *n;
    int64_t least = 0;

    for (size_t i = 0; (n = spec_component_group(c->r->spec, k, i)); i++) {
        int64_t machines = slurm_domain_machines(n);

        least = least && least < machines ? least : machines;
    }
    return least;
}

/* Machines of a group that are in no domain. */
static int64_t group_rest(const struct slurm *c, const struct spec_node *n)
{
    return slurm_has(c, n) ? n->count - group_domains(c, n) * slurm_domain_machines(n) : 0;
}

/* Are the machines that are in no domain a block together, before blocks may be small? */
static bool rest_is_block(const struct slurm *c)
{
    int64_t rest = 0;

    for (size_t i = 0; i < c->r->spec->node_count; i++)
        rest += group_rest(c, &c->r->spec->nodes[i]);
    return rest >= base_machines(c);
}

/* How many segments of `size` machines the blocks of the job's machines hold: each is of one. */
static int64_t job_segments(const struct slurm *c, const struct spec_component *k, int64_t size)
{
    const struct spec_node *n;
    int64_t segments = 0, rest = 0;

    for (size_t i = 0; (n = spec_component_group(c->r->spec, k, i)); i++) {
        segments += group_domains(c, n) * (slurm_domain_machines(n) / size);
        if (c->v->small_blocks)
            segments += group_rest(c, n) / size;
        else
            rest += group_rest(c, n);
    }
    return segments + (rest_is_block(c) ? rest / size : 0);
}

int64_t slurm_segment(const struct slurm *c, const struct spec_component *k)
{
    int64_t nodes = slurm_job_nodes(k), most = slurm_job_domain(c, k), base = base_machines(c);

    if (!slurm_has_blocks(c) || nodes < 2 || !k->gpus)
        return 0;
    most = most < base ? most : base;
    for (int64_t size = most < nodes ? most : nodes; size > 1; size--)
        if (nodes % size == 0 && job_segments(c, k, size) >= nodes / size)
            return size;
    return 0;
}

/* --- lists of names --- */

struct block_hosts { /* "gpu007" to "gpu012" */
    size_t stem;     /* bytes before the number; the same in all */
    size_t len;      /* of each name */
    int64_t last;
};

/* The number that ends a name, as a run of one. */
static bool run_begin(const char *name, struct block_hosts *out)
{
    size_t len = strlen(name), stem = len;

    while (stem && isdigit((unsigned char)name[stem - 1]))
        stem--;
    *out = (struct block_hosts){ .stem = stem, .len = len };
    return stem < len && str_to_i64(name + stem, 10, &out->last);
}

static bool run_goes_on(const char *first, const struct block_hosts *r, const char *name)
{
    struct block_hosts next;

    return run_begin(name, &next) && next.stem == r->stem && next.last == r->last + 1 &&
           strncmp(first, name, r->stem) == 0 &&
           (next.len == r->len ||
            (next.len == r->len + 1 && name[r->stem] != '0' && first[r->stem] != '0'));
}

/* Names in their order as Slurm reads them: "gpu[1-18],login". */
static void names_print(const struct slurm_names *names, struct buf *out)
{
    for (size_t i = 0; i < names->count;) {
        const char *first = names->items[i], *last = first;
        struct block_hosts r;
        bool numbered = run_begin(first, &r);

        if (i)
            buf_addc(out, ',');
        for (i++; numbered && i < names->count && run_goes_on(first, &r, names->items[i]); i++) {
            last = names->items[i];
            r.last++;
            r.len = strlen(last);
        }
        if (first == last)
            buf_adds(out, first);
        else
            buf_addf(out, "%.*s[%s-%s]", (int)r.stem, first, first + r.stem, last + r.stem);
    }
}

/* --- blocks --- */

struct blocks {
    struct slurm *c;
    struct buf *out;
    int64_t base;
    struct slurm_names rest; /* machines in no domain, before blocks may be small */
};

static void block_line(struct blocks *b, const char *name, const struct slurm_names *hosts,
                       const char *from)
{
    struct buf list = { 0 };

    names_print(hosts, &list);
    slurm_fixed(b->out, from, "BlockName=%s Nodes=%s", name, buf_str(&list));
    buf_release(&list);
}

/* Machines that fill no domain, or have none. */
static void rest_block(struct blocks *b, const struct spec_node *n, const struct slurm_names *hosts)
{
    char name[SLURM_HOST_MAX + 8];

    (void)snprintf(name, sizeof(name), "rest-%s", n->name);
    if (hosts->count && b->c->v->small_blocks)
        block_line(b, name, hosts, "in no NVLink domain");
    for (size_t i = 0; i < hosts->count && !b->c->v->small_blocks; i++)
        slurm_names_add(&b->rest, hosts->items[i]);
}

static void group_blocks(struct blocks *b, const struct spec_node *n)
{
    int64_t machines = slurm_domain_machines(n), left = group_domains(b->c, n), done = 0;
    struct slurm_names hosts = { 0 };
    struct spec_walk w;

    for (spec_walk(&w, n); spec_walk_next(&w);) {
        char name[SLURM_HOST_MAX + 32];

        slurm_names_add(&hosts, w.name);
        if (!left || (int64_t)hosts.count < machines)
            continue;
        (void)snprintf(name, sizeof(name), "nvlink-%s-%" PRId64, n->name, ++done);
        block_line(b, name, &hosts, render_from(b->c->r, &n->nvlink_domain));
        slurm_names_release(&hosts);
        left--;
    }
    rest_block(b, n, &hosts);
    slurm_names_release(&hosts);
}

/* All that are in no domain as one block. */
static void rest_together(struct blocks *b)
{
    struct buf list = { 0 };

    if ((int64_t)b->rest.count >= b->base) {
        block_line(b, "rest", &b->rest, "in no NVLink domain");
    } else if (b->rest.count) {
        names_print(&b->rest, &list);
        buf_addf(b->out,
                 "# In no block, and too few for one with Slurm %s: %s.\n"
                 "# Jobs get them in partitions that have no machine of a block.\n",
                 b->c->v->name, buf_str(&list));
    }
    buf_release(&list);
}

void slurm_blocks_print(struct slurm *c, struct buf *out)
{
    struct blocks b = { .c = c, .out = out, .base = base_machines(c) };

    buf_adds(out, "\n# a block is an NVLink domain: hosts of a group in their order\n");
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (slurm_has(c, &c->r->spec->nodes[i]))
            group_blocks(&b, &c->r->spec->nodes[i]);
    rest_together(&b);
    slurm_fixed(out, "the most that '--segment' may be", "BlockSizes=%" PRId64, b.base);
    slurm_names_release(&b.rest);
}

const struct spec_node *slurm_blocks_miss(const struct slurm *c, const struct spec_partition *p)
{
    const struct spec_node *missed = NULL;
    const struct spec_node **groups;
    bool block = false;
    size_t count;

    if (!slurm_has_blocks(c) || c->v->small_blocks || rest_is_block(c))
        return NULL;
    groups = slurm_partition_groups(c, p, &count);
    for (size_t i = 0; i < count; i++) {
        missed = !missed && group_rest(c, groups[i]) ? groups[i] : missed;
        block = block || group_domains(c, groups[i]);
    }
    free(groups);
    return block ? missed : NULL;
}

bool slurm_blocks_hold(const struct slurm *c, const struct spec_component *k,
                       const struct spec_partition *p)
{
    const struct spec_node *n;
    int64_t machines = 0;

    if (!slurm_blocks_miss(c, p))
        return true;
    for (size_t i = 0; (n = spec_component_group(c->r->spec, k, i)); i++)
        machines += group_domains(c, n) * slurm_domain_machines(n);
    return machines >= slurm_job_nodes(k);
}

/* SPDX-License-Identifier: MIT */
/* doc_places: which component has which GPU.  Components of compose and systemd are on the GPUs
 * that those targets give them, a row for each machine.  Where a scheduler decides, nobody knows
 * the GPU before it has: a row for each group says who asks for how many of its GPUs. */
#include "base/arena.h"
#include "base/str.h"
#include "plan/feasible.h"
#include "render/host/host_int.h"
#include "render/site/doc_int.h"

#include <inttypes.h>

enum { MACHINES_SHOWN = 16 }; /* of a group; the rest is counted */

static bool keeps_gpus(const struct spec_component *c)
{
    return !c->queued && c->nodes_per_replica <= 1;
}

static const struct host_run *gpu_holder(const struct host_plan *p, const struct spec_node *n,
                                         int64_t machine, int gpu)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->runs[i].node == n && p->runs[i].machine == machine &&
            (p->runs[i].gpus & (1U << gpu)))
            return &p->runs[i];
    return NULL;
}

static bool machine_used(const struct host_plan *p, const struct spec_node *n, int64_t machine)
{
    for (int g = 0; g < HOST_GPUS_MAX; g++)
        if (gpu_holder(p, n, machine, g))
            return true;
    return false;
}

static void machine_row(struct site_doc *d, const struct host_plan *p, const struct spec_node *n,
                        int64_t machine)
{
    char host[SPEC_NAME_MAX + 12];

    doc_row(d);
    doc_cell(d, "%s", spec_host(n, machine, host, sizeof(host)) ? host : n->name);
    buf_adds(d->out, "<td>");
    for (int g = 0; g < n->gpus_per_node && g < HOST_GPUS_MAX; g++) {
        const struct host_run *run = gpu_holder(p, n, machine, g);

        buf_addf(d->out, "<span class=\"g%s\">%d ", run ? "" : " free", g);
        quote_html(d->out, run ? run->name : "free");
        buf_adds(d->out, run && run->shared ? " +</span>" : "</span>");
    }
    buf_adds(d->out, "</td>");
    doc_row_end(d);
}

/* May its scheduler put it on machines of `n`, and on those only? */
static bool scheduled_on(const struct spec *s, struct arena *a, const struct spec_component *c,
                         const struct spec_node *n, bool *only)
{
    const struct spec_node **groups = arena_array(a, const struct spec_node *, s->node_count + 2);
    size_t count = feasible_groups(s, c, groups);
    bool found = false;

    for (size_t i = 0; c->gpus && i < count; i++)
        found = found || groups[i] == n;
    *only = count == 1;
    return found;
}

static const char *unit_of(const struct spec_node *n, int64_t count)
{
    if (n && feasible_mig_instances(n))
        return count == 1 ? "MIG instance" : "MIG instances";
    return count == 1 ? "GPU" : "GPUs";
}

/* ": chat (6 of 12 GPUs), train (16 GPUs, queued)" */
static void scheduled_list(const struct spec *s, const struct host_plan *p,
                           const struct spec_node *n, struct buf *out)
{
    int64_t have = feasible_gpus(n) * n->count;
    struct arena a;
    size_t told = 0;

    arena_init(&a);
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];
        int64_t want = c->gpus * c->nodes_per_replica * c->replicas;
        bool queued = c->queued || c->target == SPEC_TARGET_SLURM, only = true;

        if (host_run_find(p, c->name) || !scheduled_on(s, &a, c, n, &only))
            continue;
        buf_addf(out, "%s%s (%" PRId64, told++ ? ", " : ": ", c->name, want);
        if (only && !queued)
            buf_addf(out, " of %" PRId64, have);
        buf_addf(out, " %s%s%s)", unit_of(n, only && !queued ? have : want),
                 only ? "" : ", here or in other groups", queued ? ", queued" : "");
    }
    if (!told)
        buf_adds(out, ", of no component");
    arena_release(&a);
}

static void put_kept(struct site_doc *d)
{
    const struct spec *s = d->r->spec;
    struct host_plan p = { 0 };

    if (!host_plan_make(d->r, keeps_gpus, &p)) {
        host_plan_release(&p);
        return;
    }
    doc_table(d, "machine|GPUs");
    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        int64_t shown = 0, hidden = 0, others = 0;

        for (int64_t m = 0; n->gpus_per_node && m < n->count; m++) {
            if (!machine_used(&p, n, m))
                others++;
            else if (shown++ < MACHINES_SHOWN)
                machine_row(d, &p, n, m);
            else
                hidden++;
        }
        if (hidden) {
            doc_row(d);
            doc_cell(d, "%s", n->name);
            doc_cell(d, "%" PRId64 " more machine%s in use, not shown", hidden, doc_s(hidden));
            doc_row_end(d);
        }
        if (others) {
            /* Machines of which no GPU is anybody's by number. */
            struct buf text = { 0 };

            scheduled_list(d->r->spec, &p, n, &text);
            doc_row(d);
            doc_cell(d, "%s", n->name);
            doc_cell(d, "%" PRId64 "%s machine%s%s", others, others == n->count ? "" : " more",
                     doc_s(others), buf_str(&text));
            doc_row_end(d);
            buf_release(&text);
        }
    }
    doc_table_end(d);
    host_plan_release(&p);
}

static const char *target_word(enum spec_target t)
{
#define WORD_(id, text) text,
    static const char *const words[] = { SPEC_TARGETS(WORD_) };
#undef WORD_

    return words[t];
}

static void put_wanted(struct site_doc *d)
{
    const struct spec *s = d->r->spec;

    doc_table(d, "component|what|on|by|#GPUs a machine|#machines|#replicas|#GPUs|from");
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];
        const struct spec_node *n = spec_component_group(s, c, 0);

        doc_row(d);
        doc_cell(d, "%s", c->name);
        doc_cell(d, "%s%s", c->description ? c->description : "", c->queued ? " (queued)" : "");
        if (c->groups.count > 1)
            doc_list(d, &c->groups);
        else
            doc_cell(d, "%s", n ? n->name : "");
        doc_cell(d, "%s", target_word(c->target));
        doc_right(d, "%" PRId64, c->gpus);
        doc_right(d, "%" PRId64, c->nodes_per_replica);
        doc_right(d, "%" PRId64, c->replicas);
        doc_right(d, "%" PRId64 "%s", c->gpus * c->nodes_per_replica * c->replicas,
                  n && c->gpus && feasible_mig_instances(n) ? " MIG" : "");
        doc_cell(d, "%s", render_from(d->r, &c->name));
        doc_row_end(d);
    }
    doc_table_end(d);
}

void doc_places(struct site_doc *d)
{
    if (!d->r->spec->component_count) {
        doc_para(d, "No component is described.");
        return;
    }
    put_wanted(d);
    if (d->r->spec->node_count)
        put_kept(d);
}

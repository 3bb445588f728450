/* SPDX-License-Identifier: MIT */
/* doc_places: which component has which GPU.  Components that keep their GPUs are placed as the
 * compose and systemd targets place them; those that wait in a queue are listed with what they
 * ask for. */
#include "base/str.h"
#include "render/doc_int.h"
#include "render/host_int.h"

#include <inttypes.h>

enum { MACHINES_SHOWN = 16 }; /* of a group; the rest is counted */

static bool keeps(const struct spec_component *c)
{
    return !c->queued && c->nodes_per_replica <= 1;
}

static const struct host_run *holder(const struct host_plan *p, const struct spec_node *n,
                                     int64_t machine, int gpu)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->runs[i].node == n && p->runs[i].machine == machine &&
            (p->runs[i].gpus & (1U << gpu)))
            return &p->runs[i];
    return NULL;
}

static bool used(const struct host_plan *p, const struct spec_node *n, int64_t machine)
{
    for (int g = 0; g < HOST_GPUS_MAX; g++)
        if (holder(p, n, machine, g))
            return true;
    return false;
}

static void machine_row(struct doc *d, const struct host_plan *p, const struct spec_node *n,
                        int64_t machine)
{
    char host[SPEC_NAME_MAX + 12];

    doc_row(d);
    doc_cell(d, "%s", spec_host(n, machine, host, sizeof(host)) ? host : n->name);
    buf_adds(d->out, "<td>");
    for (int g = 0; g < n->gpus_per_node && g < HOST_GPUS_MAX; g++) {
        const struct host_run *run = holder(p, n, machine, g);

        buf_addf(d->out, "<span class=\"g%s\">%d ", run ? "" : " free", g);
        quote_html(d->out, run ? run->name : "free");
        buf_adds(d->out, run && run->shared ? " +</span>" : "</span>");
    }
    buf_adds(d->out, "</td>");
    doc_row_end(d);
}

static void kept(struct doc *d)
{
    const struct spec *s = d->r->spec;
    struct host_plan p = { 0 };

    if (!host_plan_make(d->r, keeps, &p)) {
        host_plan_release(&p);
        return;
    }
    doc_table(d, "machine|GPUs");
    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        int64_t shown = 0, idle = 0;

        for (int64_t m = 0; n->gpus_per_node && m < n->count; m++) {
            if (shown < MACHINES_SHOWN && used(&p, n, m)) {
                machine_row(d, &p, n, m);
                shown++;
            } else {
                idle++;
            }
        }
        if (idle) {
            doc_row(d);
            doc_cell(d, "%s", n->name);
            doc_cell(d, "%" PRId64 "%s machine%s%s for queued work", idle,
                     idle == n->count ? "" : " more", doc_s(idle),
                     idle == n->count && idle > 1 ? ", all of them" : "");
            doc_row_end(d);
        }
    }
    doc_table_end(d);
    host_plan_release(&p);
}

static const char *word(enum spec_target t)
{
#define WORD_(id, text) text,
    static const char *const words[] = { SPEC_TARGETS(WORD_) };
#undef WORD_

    return words[t];
}

static void wanted(struct doc *d)
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
        doc_cell(d, "%s", word(c->target));
        doc_right(d, "%" PRId64, c->gpus);
        doc_right(d, "%" PRId64, c->nodes_per_replica);
        doc_right(d, "%" PRId64, c->replicas);
        doc_right(d, "%" PRId64, c->gpus * c->nodes_per_replica * c->replicas);
        doc_cell(d, "%s", render_from(d->r, &c->name));
        doc_row_end(d);
    }
    doc_table_end(d);
}

void doc_places(struct doc *d)
{
    if (!d->r->spec->component_count) {
        doc_para(d, "No component is described.");
        return;
    }
    wanted(d);
    if (d->r->spec->node_count)
        kept(d);
}

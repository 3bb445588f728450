/* SPDX-License-Identifier: MIT */
/* k8s_wishes: what a spec may ask for and the objects of Kubernetes and OpenShift do not do.
 *
 * Each is a warning at its line, so that nobody relies on a limit or an order that is not kept.  A
 * component is told by whoever writes it, which knows whether its pods run to an end (Job and its
 * kin) or are kept (Deployment, StatefulSet). */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/k8s.h"

static void kept_wishes(struct k8s *k, const struct spec_component *c)
{
    if (c->time_limit_ms.known)
        render_warn(k->r, &c->time_limit_ms, "Kind batch has a limit.",
                    "pods of '%s' are kept running: its 'time_limit' ends nothing", c->name);
    if (c->restart != SPEC_RESTART_ALWAYS)
        render_warn(k->r, &c->restart, "Kind batch runs to its end.",
                    "pods of '%s' are always started again, whatever 'restart' says", c->name);
    if (c->queued && c->kind != SPEC_COMPONENT_TRAINING)
        render_warn(k->r, &c->queued, "Kinds batch and training are queued.",
                    "pods of '%s' are started at once: 'queued' is not followed", c->name);
}

static void scale_wishes(struct k8s *k, const struct spec_component *c)
{
    const struct spec_scale *s = c->scale;

    if (s->zero_after_ms.known)
        render_warn(k->r, &s->zero_after_ms, "Scale it to zero by hand.",
                    "nothing scales '%s' to zero: 'zero_after' is not followed", c->name);
    if (s->predict)
        render_warn(k->r, &s->predict, "Leave it out: replicas follow the load as it comes.",
                    "nothing scales '%s' ahead of its load: 'predict' is not followed", c->name);
    if (k->scc && s->max_cost.known)
        render_warn(k->r, &s->max_cost, NULL,
                    "replicas on OpenShift follow no cost: 'max_cost' of '%s' is not kept",
                    c->name);
}

void k8s_component_wishes(struct k8s *k, const struct spec_component *c, bool kept)
{
    if (kept)
        kept_wishes(k, c);
    if (c->scale)
        scale_wishes(k, c);
    if (c->depends_on.count)
        render_warn(k->r, &c->depends_on,
                    "Let its program ask again until they answer; they may speak to each other.",
                    "pods of '%s' start without waiting for '%s'", c->name, c->depends_on.items[0]);
    if (k->priority_class && c->priority != SPEC_PRIORITY_MEDIUM)
        render_warn(k->r, &c->priority, "Leave out 'priority_class' for a class of each priority.",
                    "all pods have the class '%s': 'priority' of '%s' is not followed",
                    k->priority_class, c->name);
}

static void group_wishes(struct k8s *k, const struct spec_node *n, bool shared)
{
    static const char hint[] = "Set it on the machines, with nvidia-smi.";
    const struct spec_gpu *g = n->gpu;
    const struct {
        const void *at;
        const char *key;
        bool wanted;
    } rows[] = {
        { &g->power_limit_w, "power_limit", g->power_limit_w.known },
        { &g->clock_mhz, "clock", g->clock_mhz.known },
        { &g->compute_mode, "compute_mode", g->compute_mode != SPEC_COMPUTE_DEFAULT },
        { &g->ecc, "ecc", !g->ecc },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].wanted)
            render_warn(k->r, rows[i].at, hint, "nothing sets '%s' of the GPUs of '%s'",
                        rows[i].key, n->name);
    if (!shared && (g->sharing == SPEC_SHARING_MPS || g->sharing == SPEC_SHARING_TIME_SLICING))
        render_warn(k->r, &g->sharing,
                    k->scc ? "Leave it out: each pod has GPUs of its own."
                           : "A component with 'pools' and without 'gpus' shares one.",
                    "no component shares a GPU of '%s': 'sharing' is not followed", n->name);
}

void k8s_group_wishes(struct k8s *k, const struct spec_component *const *all, size_t count,
                      bool by_name)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    struct feasible_opts opts = { .kubernetes_by_name = by_name };

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        bool used = false;

        for (size_t j = 0; j < count && n->gpu && !used; j++) {
            size_t of = feasible_groups(s, all[j], groups);

            for (size_t g = 0; g < of; g++)
                used = used || (groups[g] == n && (all[j]->gpus || all[j]->pools.count));
        }
        if (used)
            group_wishes(k, n, !k->scc && feasible_shares(s, n, &opts) > 0);
    }
}

/* SPDX-License-Identifier: MIT */
/* k8s_wishes: what a spec may ask for and the objects of Kubernetes and OpenShift do not do.
 *
 * Here is what depends on the object a component becomes, which whoever writes it knows: its pods
 * run to an end (Job and its kin) or are kept (Deployment, StatefulSet); the rest is in follow.c.
 * Each is a warning at its line, so that nobody relies on a limit or an order that is not kept. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/follow_int.h"
#include "render/k8s/k8s_int.h"

enum { HOUR_MS = 3600 * 1000 };

static void kept_wishes(struct k8s *k, const struct spec_component *c)
{
    if (c->time_limit_ms.known)
        render_warn(k->r, &c->time_limit_ms, "Kind batch has a limit.",
                    "pods of '%s' are kept running: its 'time_limit' ends nothing", c->name);
    if (c->restart != SPEC_RESTART_ALWAYS && spec_where(k->r->spec, &c->restart).line)
        render_warn(k->r, &c->restart, "Kind batch runs to its end.",
                    "pods of '%s' are always started again, whatever 'restart' says", c->name);
    if (c->queued && c->kind != SPEC_COMPONENT_TRAINING)
        render_warn(k->r, &c->queued, "Kinds batch and training are queued.",
                    "pods of '%s' are started at once: 'queued' is not followed", c->name);
}

/* A pod that finds no room waits, and so does a Job of one.  Several that need each other must
 * start together, or two Jobs hold half of what they need for ever. */
static void job_wishes(struct k8s *k, const struct spec_component *c)
{
    bool together =
        c->nodes_per_replica > 1 || (c->kind == SPEC_COMPONENT_TRAINING && c->replicas > 1);

    if (c->restart == SPEC_RESTART_ALWAYS)
        render_warn(k->r, &c->restart, "Set 'restart: on_failure'; kind service is kept running.",
                    "a job is started again when it failed, not when it is through: 'restart: "
                    "always' of '%s' is not followed",
                    c->name);
    if (c->queued && together && !k->scc && !k->r->targets->kubernetes->queue)
        render_warn(k->r, &c->queued, "Name Kueue's queue: 'targets.kubernetes.queue'.",
                    "pods of '%s' start one by one as there is room: to wait together, 'queued' "
                    "needs a queue",
                    c->name);
}

/* An autoscaler has bounds of its own. */
static void scale_wishes(struct k8s *k, const struct spec_component *c)
{
    const struct spec_scale *s = c->scale;
    const struct {
        const int64_t *ms;
        int64_t most_ms;
        const char *key, *most;
    } rows[] = {
        { &s->up_after_ms, HOUR_MS, "up_after", "an hour" },
        { &s->down_after_ms, HOUR_MS, "down_after", "an hour" },
        { &s->cooldown_ms, HOUR_MS / 2, "cooldown", "half an hour" },
    };

    for (size_t i = 0; !k->scc && s->target.known && i < ARRAY_SIZE(rows); i++)
        if (*rows[i].ms > rows[i].most_ms)
            render_warn(k->r, rows[i].ms, NULL,
                        "an autoscaler waits %s at most: '%s' of '%s' is held to that",
                        rows[i].most, rows[i].key, c->name);
}

/* An image has one architecture unless somebody took care; who names the groups did. */
static void arch_wishes(struct k8s *k, const struct spec_component *c)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    size_t count = c->nodes ? 0 : feasible_groups(s, c, groups);

    for (size_t i = 1; i < count; i++)
        if (groups[i]->arch != groups[0]->arch) {
            render_warn(k->r, &c->name, "Name its groups with 'nodes'.",
                        "pods of '%s' may be on machines of two architectures ('%s', '%s'): its "
                        "image must be of both",
                        c->name, groups[0]->name, groups[i]->name);
            return;
        }
}

/* Pods have the NICs that they ask for.  Who spans machines with RDMA between them and names no
 * network would go over that of the pods, by TCP and through the CPU, without a word. */
static void fabric_wishes(struct k8s *k, const struct spec_component *c)
{
    const struct spec *s = k->r->spec;
    const struct spec_node *n = spec_component_group(s, c, 0);

    if (c->fabrics.count || !c->gpus || (c->nodes_per_replica < 2 && c->replicas < 2) ||
        c->kind != SPEC_COMPONENT_TRAINING)
        return;
    for (size_t i = 0; n && i < n->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(s, n->fabrics.items[i]);

        if (!f || f->kind == SPEC_FABRIC_ETHERNET)
            continue;
        render_warn(k->r, &c->name,
                    arena_printf(&k->arena, "Add 'fabrics: [%s]' to the component.", f->name),
                    "pods of '%s' do not see '%s': what they send each other goes over the pod "
                    "network",
                    c->name, f->name);
        return;
    }
}

void k8s_component_wishes(struct k8s *k, const struct spec_component *c, bool kept)
{
    fabric_wishes(k, c);
    arch_wishes(k, c);
    if (kept)
        kept_wishes(k, c);
    else
        job_wishes(k, c);
    if (!kept) {
        /* Pods of a Job are new ones at each try, and so are the volumes of each: only a
         * StatefulSet's pods find theirs again. */
        const char *path = c->training ? c->training->checkpoint.path : NULL;
        const struct spec_storage *saved = path ? follow_mount_at(k->r, c, path) : NULL;
        const char *hint = k->scc || c->kind != SPEC_COMPONENT_TRAINING
                               ? "Use storage that machines share."
                               : "Use storage that machines share, or 'targets.kubernetes.job: "
                                 "statefulset', whose pods keep theirs.";

        if (saved && k8s_per_replica(saved))
            render_warn(
                k->r, &c->training->checkpoint.path, hint,
                "checkpoints of '%s' go with its pod: each try of a job has a new volume of "
                "'%s'",
                c->name, saved->name);
        for (size_t i = 0; i < c->mount_count; i++) {
            const struct spec_storage *s = spec_storage_find(k->r->spec, c->mounts[i].storage);

            if (s && s != saved && k8s_per_replica(s) && s->keep)
                render_warn(
                    k->r, &c->mounts[i].storage,
                    "Use storage that machines share, or say 'keep: false' of it.",
                    "'keep' of '%s' is not followed: a volume of each replica goes with the "
                    "pod, which job '%s' makes anew at each try",
                    s->name, c->name);
        }
    }
    if (c->scale && kept)
        scale_wishes(k, c);
    if (k->priority_class && c->priority != SPEC_PRIORITY_MEDIUM)
        render_warn(k->r, &c->priority, "Leave out 'priority_class' for a class of each priority.",
                    "all pods have the class '%s': 'priority' of '%s' is not followed",
                    k->priority_class, c->name);
}

static void group_wishes(struct k8s *k, const struct spec_node *n, bool shared)
{
    const struct spec_gpu *g = n->gpu;

    if (!shared && (g->sharing == SPEC_SHARING_MPS || g->sharing == SPEC_SHARING_TIME_SLICING))
        render_warn(k->r, &g->sharing,
                    k->scc ? "Leave it out: each pod has GPUs of its own."
                           : "A component with 'pools' and without 'gpus' shares one.",
                    "no component shares a GPU of '%s': 'sharing' is not followed", n->name);
    if (g->sharing == SPEC_SHARING_MIG && !g->mig_profile)
        render_warn(k->r, &g->sharing, "Add 'mig_profile: 1g.10gb' or the like.",
                    "group '%s' says no MIG profile: pods have its GPUs as a whole", n->name);
}

/* NVLink across machines needs IMEX, whose channels NVIDIA's DRA driver gives to pods that claim a
 * ComputeDomain, and pods that are all in one domain. */
static void domain_wishes(struct k8s *k, const struct spec_component *const *all, size_t count,
                          const struct spec_node *n)
{
    if (spec_group_nvlink_gpus(n) <= n->gpus_per_node)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct spec_component *c = all[i];
        bool together =
            c->nodes_per_replica > 1 || (c->kind == SPEC_COMPONENT_TRAINING && c->replicas > 1);

        if (!together || !c->gpus || !spec_component_on(k->r->spec, c, n))
            continue;
        render_warn(k->r, &n->nvlink_domain,
                    "Install NVIDIA's DRA driver, and give the pods a claim of a ComputeDomain.",
                    "pods of '%s' reach GPUs of other machines of '%s' by NVLink only in one "
                    "domain and with a channel of IMEX, which these files do not see to",
                    c->name, n->name);
        return;
    }
}

/* Names of machines are names of the DNS there: no '_', no capitals. */
static bool is_node_name(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(s);
}

static void host_names(struct k8s *k, const struct spec_component *const *all, size_t count,
                       const struct spec_node *n)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    struct spec_walk w;
    bool used = false;

    for (size_t j = 0; j < count && !used; j++)
        for (size_t g = feasible_groups(s, all[j], groups); g > 0; g--)
            used = used ||
                   (groups[g - 1] == n && (all[j]->nodes || all[j]->gpus || all[j]->pools.count));
    if (!used || (!s->targets.kubernetes && !s->targets.openshift))
        return;
    for (spec_walk(&w, n); spec_walk_next(&w);)
        if (!is_node_name(w.name)) {
            render_refuse(k->r, n->hosts ? (const void *)&n->hosts : (const void *)&n->name,
                          "Give the machines' names as 'hosts', in lower-case letters, digits, '-' "
                          "and '.'.",
                          "a machine of '%s' is called '%s', which Kubernetes takes for no node",
                          n->name, w.name);
            return;
        }
}

void k8s_group_wishes(struct k8s *k, const struct spec_component *const *all, size_t count)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    struct feasible_opts opts = { .kubernetes_by_name = k->by_name };

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        bool used = false;

        host_names(k, all, count, n);
        domain_wishes(k, all, count, n);
        for (size_t j = 0; j < count && n->gpu && !used; j++) {
            size_t of = feasible_groups(s, all[j], groups);

            for (size_t g = 0; g < of; g++)
                used = used || (groups[g] == n && (all[j]->gpus || all[j]->pools.count));
        }
        if (used)
            group_wishes(k, n, !k->scc && feasible_shares(s, n, &opts) > 0);
    }
}

/* What is written for a namespace holds for all pods in it: a policy that cuts them off and a
 * security level, and `kubectl delete -k` takes it away whole. */
static bool namespace_is_taken(const char *name)
{
    return str_eq(name, "default") || str_starts(name, "kube-") || str_eq(name, "openshift") ||
           str_starts(name, "openshift-");
}

void k8s_namespace_wish(struct k8s *k, const char *const *name)
{
    const char *ours = k8s_name(k, *name, "");

    if (namespace_is_taken(ours))
        render_refuse(k->r, name, "Give the site a namespace of its own.",
                      "namespace '%s' is the cluster's own", ours);
    else if (!str_eq(ours, *name))
        render_warn(k->r, name, "Write it so in the spec.",
                    "'%s' cannot be the name of a namespace: it becomes '%s'", *name, ours);
}

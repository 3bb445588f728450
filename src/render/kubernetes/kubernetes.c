/* SPDX-License-Identifier: MIT */
/* kubernetes: a spec as manifests, kustomize base and overlays, and what prepares the machines.
 *
 * Components whose target is kubernetes are written; when a spec has none and the target was asked
 * for by name, all that have an image, since anything in a container can run there. */
#include "base/str.h"
#include "render/kubernetes/kubernetes_int.h"

#include <assert.h>

static struct buf *file_listed(struct kube *q, const char *const where, const char *name,
                               const char *what, const char **list, size_t *count)
{
    struct buf *out = render_file(q->k.r, "kubernetes/%s/%s", where, name);

    assert(*count < KUBE_FILES_MAX); /* their names stand in these files */
    list[(*count)++] = arena_strdup(&q->k.arena, name);
    render_head(q->k.r, out, "#", what);
    return out;
}

struct buf *kube_base(struct kube *q, const char *name, const char *what)
{
    return file_listed(q, "base", name, what, q->base, &q->base_count);
}

struct buf *kube_site(struct kube *q, const char *name, const char *what)
{
    return file_listed(q, "overlays/site", name, what, q->site, &q->site_count);
}

/* ---- which components ---- */

static enum kube_kind kind_of(const struct kube *q, const struct spec_component *c)
{
    static const enum kube_kind jobs[] = {
        [SPEC_JOB_JOB] = KUBE_JOB,
        [SPEC_JOB_STATEFULSET] = KUBE_STATEFULSET,
        [SPEC_JOB_PYTORCHJOB] = KUBE_PYTORCHJOB,
        [SPEC_JOB_TRAINJOB] = KUBE_TRAINJOB,
        [SPEC_JOB_JOBSET] = KUBE_JOBSET,
    };

    if (c->kind == SPEC_COMPONENT_TRAINING)
        return jobs[q->t->job];
    if (c->kind == SPEC_COMPONENT_BATCH)
        return KUBE_JOB;
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct spec_storage *s = spec_storage_find(q->k.r->spec, c->mounts[i].storage);

        if (s && k8s_per_replica(s))
            return KUBE_STATEFULSET; /* only its pods keep a volume of their own */
    }
    return c->nodes_per_replica > 1 ? KUBE_STATEFULSET : KUBE_DEPLOYMENT;
}

static void work_add(struct kube *q, const struct spec_component *c)
{
    struct kube_work *w = &q->works[q->work_count];

    *w = (struct kube_work){
        .c = c,
        .kind = kind_of(q, c),
        .node = spec_node_of(q->k.r->spec, c->nodes),
        .name = k8s_name(&q->k, c->name, ""),
        .pods = c->replicas * c->nodes_per_replica,
        .launched = c->kind == SPEC_COMPONENT_TRAINING ||
                    (c->kind == SPEC_COMPONENT_BATCH && c->nodes_per_replica > 1),
    };
    w->launched = w->launched && c->command.count;
    q->launcher = q->launcher || w->launched;
    q->work_count++;
}

/* Does the spec have its own target write files of it, too?  That of `local` is systemd's. */
static const char *other_runner(const struct spec_targets *t, const struct spec_component *c)
{
    switch (c->target) {
    case SPEC_TARGET_SLURM:
        return t->slurm ? "slurm" : NULL;
    case SPEC_TARGET_OPENSHIFT:
        return t->openshift ? "openshift" : NULL;
    case SPEC_TARGET_COMPOSE:
        return t->compose ? "compose" : NULL;
    case SPEC_TARGET_SYSTEMD:
    case SPEC_TARGET_LOCAL:
        return t->systemd ? "systemd" : NULL;
    default:
        return NULL;
    }
}

static void twice_tell(struct kube *q, const struct spec_component *c)
{
    struct render *r = q->k.r;
    const struct spec_kubernetes *t = r->spec->targets.kubernetes;
    const char *other = other_runner(&r->spec->targets, c);
    const void *target = spec_where(r->spec, &c->target).line ? (const void *)&c->target : c;

    if (t && t->components == SPEC_TAKES_AUTO && other)
        render_warn(r, target,
                    "Say which is meant, below targets.kubernetes: 'components: own', or 'all'.",
                    "'%s' is rendered for %s and for kubernetes: where both are applied, it runs "
                    "twice",
                    c->name, other);
}

static void works_find(struct kube *q)
{
    const struct spec *s = q->k.r->spec;

    q->works = arena_array(&q->k.arena, struct kube_work, s->component_count + 1);
    q->k.by_name = spec_kubernetes_takes_others(s);
    for (size_t i = 0; i < s->component_count; i++)
        if (spec_kubernetes_takes(s, &s->components[i])) {
            work_add(q, &s->components[i]);
            twice_tell(q, &s->components[i]);
        }
}

/* ---- the namespace and its rights ---- */

/* The strictest Pod Security Standard that the pods of the spec pass. */
static const char *level_of(const struct kube *q, const char **why)
{
    const char *level = "restricted";

    *why = "no pod is root, keeps a capability or sees the machine";
    for (size_t i = 0; i < q->work_count; i++) {
        const struct kube_work *w = &q->works[i];
        bool root = k8s_is_root(w->c);

        if (root && w->c->fabrics.count) {
            *why = "a component is root and locks memory for RDMA";
            return "privileged";
        }
        if (root || w->kind == KUBE_PYTORCHJOB) {
            *why = root ? "a component is root"
                        : "the training operator's init container says nothing of its rights";
            level = "baseline";
        }
    }
    return level;
}

static void namespace_write(struct kube *q, struct buf *out, const char *name, const char *level,
                            const char *why)
{
    struct yaml_out y;
    const char *keys[] = { "enforce", "audit", "warn" };

    yaml_begin(&y, out);
    yaml_str(&y, "apiVersion", "v1");
    yaml_str(&y, "kind", "Namespace");
    yaml_map(&y, "metadata");
    render_str(q->k.r, &y, "name", name, &q->t->namespace);
    yaml_map(&y, "labels");
    yaml_str(&y, "app.kubernetes.io/managed-by", "stoker");
    for (size_t i = 0; i < 3; i++) {
        if (i == 0)
            yaml_note(&y, why);
        yaml_str(&y, arena_printf(&q->k.arena, "pod-security.kubernetes.io/%s", keys[i]), level);
    }
    yaml_finish(&y);
}

static void namespaces_write(struct kube *q)
{
    struct buf *out = kube_base(q, "namespace.yaml", "Namespaces, and what pods in them may do.");
    const char *why, *level = level_of(q, &why);

    namespace_write(q, out, q->k.namespace, level, why);
    if (q->agent)
        namespace_write(q, out, q->watch.namespace, "privileged",
                        "the agent reads the machine; nothing else is in here");
}

static void account_write(struct k8s *k, struct buf *out, const char *name)
{
    struct yaml_out y;

    k8s_object(k, &y, out, "v1", "ServiceAccount", name, NULL);
    yaml_bool(&y, "automountServiceAccountToken", false);
    yaml_finish(&y);
}

static void put_rule(struct kube *q, struct yaml_out *y, const char *group, const char *resource,
                     enum kube_kind kind, const char *const *verbs, size_t verb_count)
{
    yaml_map(y, NULL);
    yaml_seq_of(y, "apiGroups", group);
    yaml_seq_of(y, "resources", resource);
    if (*group) {
        yaml_seq(y, "resourceNames");
        for (size_t i = 0; i < q->work_count; i++)
            if (q->works[i].c->scale && q->works[i].kind == kind)
                yaml_str(y, NULL, q->works[i].name);
        yaml_end(y);
    }
    yaml_seq(y, "verbs");
    for (size_t i = 0; i < verb_count; i++)
        yaml_str(y, NULL, verbs[i]);
    yaml_ends(y, 2);
}

static bool kind_scales(const struct kube *q, enum kube_kind kind)
{
    for (size_t i = 0; i < q->work_count; i++)
        if (q->works[i].c->scale && q->works[i].kind == kind)
            return true;
    return false;
}

/* Who changes replicas sees pods and the scale of the named workloads, and nothing else. */
static void scaler_role(struct kube *q, struct buf *out)
{
    static const char *const see[] = { "get", "list", "watch" }, *const turn[] = { "get", "update",
                                                                                   "patch" };
    struct yaml_out y;

    account_write(&q->k, out, "stoker-scale");
    k8s_object(&q->k, &y, out, "rbac.authorization.k8s.io/v1", "Role", "stoker-scale", NULL);
    yaml_seq(&y, "rules");
    put_rule(q, &y, "", "pods", KUBE_JOB, see, 3);
    if (kind_scales(q, KUBE_DEPLOYMENT))
        put_rule(q, &y, "apps", "deployments/scale", KUBE_DEPLOYMENT, turn, 3);
    if (kind_scales(q, KUBE_STATEFULSET))
        put_rule(q, &y, "apps", "statefulsets/scale", KUBE_STATEFULSET, turn, 3);
    yaml_finish(&y);
    k8s_object(&q->k, &y, out, "rbac.authorization.k8s.io/v1", "RoleBinding", "stoker-scale", NULL);
    yaml_map_of(&y, "roleRef", "apiGroup", "rbac.authorization.k8s.io", "kind", "Role", "name",
                "stoker-scale");
    yaml_seq(&y, "subjects");
    yaml_map_of(&y, NULL, "kind", "ServiceAccount", "name", "stoker-scale", "namespace",
                q->k.namespace);
    yaml_finish(&y);
}

static void rights_write(struct kube *q)
{
    struct buf *out = kube_base(q, "rights.yaml",
                                "Accounts of the pods. They ask nothing of the API server, so they "
                                "have no role.");

    account_write(&q->k, out, q->k.service_account);
    if (q->agent)
        account_write(&q->watch, out, q->watch.service_account);
    if (kind_scales(q, KUBE_DEPLOYMENT) || kind_scales(q, KUBE_STATEFULSET))
        scaler_role(q, out);
}

/* ---- classes, storage, networks ---- */

static void priorities_write(struct kube *q)
{
    struct buf *out = NULL;

    for (size_t p = 0; !q->t->priority_class && p <= SPEC_PRIORITY_HIGH; p++) {
        bool used = false;

        for (size_t i = 0; i < q->work_count; i++)
            used = used || (size_t)q->works[i].c->priority == p;
        if (!used)
            continue;
        if (!out)
            out = kube_base(q, "priority.yaml", "Who goes first when GPUs are short.");
        k8s_priority(&q->k, out, (enum spec_priority)p);
    }
}

bool kube_mounted(const struct kube *q, const struct spec_storage *s)
{
    for (size_t i = 0; i < q->work_count; i++)
        if (k8s_uses_storage(&q->k, q->works[i].c, s))
            return true;
    return q->serve && k8s_serves_from(&q->k, NULL, s);
}

static void storage_write(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    struct buf *out = NULL;

    for (size_t i = 0; i < s->storage_count; i++) {
        const struct spec_storage *t = &s->storage[i];

        if (!kube_mounted(q, t) || t->kind == SPEC_STORAGE_MEMORY ||
            t->kind == SPEC_STORAGE_OBJECT || k8s_per_replica(t))
            continue;
        if (!out)
            out = kube_base(q, "storage.yaml",
                            "Storage. Paths of machines stand in volumes that an administrator "
                            "makes, so that pods need no right to name one.");
        k8s_claim_write(&q->k, out, t);
        if (k8s_static_volume(t))
            k8s_static_volume_write(&q->k, out, t);
    }
}

static void networks_write(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    struct buf *out = NULL;

    for (size_t i = 0; i < s->fabric_count; i++) {
        for (size_t j = 0;
             kube_fabric_used(q, &s->fabrics[i]) && j < k8s_rail_count(&s->fabrics[i]); j++) {
            if (!out)
                out = kube_base(q, "networks.yaml", "Networks beside the cluster's own (Multus).");
            k8s_attachment(&q->k, out, &s->fabrics[i], j);
        }
    }
}

/* ---- what is not followed ---- */

static const char trainjob_hint[] = "'targets.kubernetes.job: jobset' follows it.";

/* Parts of its container that the patch cannot name. */
static void trainjob_container(struct kube *q, const struct kube_work *w)
{
    const struct spec_component *c = w->c;

    if (c->workdir && !w->launched)
        render_warn(q->k.r, &c->workdir, "Give it a 'command': the launch script goes there first.",
                    "a TrainJob starts in the folder of its image: 'workdir' of '%s' is not "
                    "followed",
                    c->name);
    if (c->health)
        render_warn(q->k.r, &c->health, trainjob_hint,
                    "a TrainJob has no probes: 'health' of '%s' is not followed", c->name);
    if (c->port_count)
        render_warn(q->k.r, &c->ports[0].name, trainjob_hint,
                    "a TrainJob names no ports: 'ports' of '%s' is not followed", c->name);
    if (w->launched)
        render_warn(q->k.r, c->image ? (const void *)&c->image : (const void *)&c->name,
                    "Put stoker into the image, or set 'targets.kubernetes.job: jobset'.",
                    "a TrainJob takes no init container: pods of '%s' have stoker, which finds "
                    "NCCL's settings, only where their image has it",
                    c->name);
}

static void wishes_tell(struct kube *q)
{
    const struct spec_component **all =
        arena_array(&q->k.arena, const struct spec_component *, q->work_count + 1);
    const void *at = &q->t->namespace;

    for (size_t i = 0; i < q->work_count; i++) {
        const struct kube_work *w = &q->works[i];

        all[i] = w->c;
        k8s_component_wishes(&q->k, w->c,
                             w->kind == KUBE_DEPLOYMENT || w->kind == KUBE_STATEFULSET);
        if (w->kind == KUBE_TRAINJOB) {
            /* The pod of a TrainJob is its runtime's, and its patch has no field for these. */
            const struct spec_component *c = w->c;
            const char *hint = trainjob_hint;
            const struct spec *s = q->k.r->spec;
            bool said = spec_where(q->k.r->spec, &c->priority).line, others = false;

            /* Its pods have priority 0, below the lowest of ours: any pod with a class may
             * evict them. */
            for (size_t j = 0; j < q->work_count; j++)
                others = others || q->works[j].kind != KUBE_TRAINJOB;
            if (said || others)
                render_warn(q->k.r, said ? (const void *)&c->priority : (const void *)&c->name,
                            trainjob_hint,
                            "a TrainJob has no priority: that of '%s' is not followed%s", c->name,
                            others ? ", and pods of any other component may evict its own" : "");
            trainjob_container(q, w);
            if (spec_where(s, &c->restart).line)
                render_warn(
                    q->k.r, &c->restart, hint,
                    "the runtime of a TrainJob says when its pods are started again: 'restart' of "
                    "'%s' is not followed",
                    c->name);
            if (c->training && spec_where(s, &c->training->rendezvous.max_restarts).line)
                render_warn(
                    q->k.r, &c->training->rendezvous.max_restarts, hint,
                    "the runtime of a TrainJob counts restarts: 'max_restarts' of '%s' is not "
                    "followed",
                    c->name);
        }
        if (w->kind == KUBE_JOBSET) {
            /* The deadline is of the Job that a JobSet makes, and a restart makes a new one. */
            if (w->c->time_limit_ms.known && w->c->restart != SPEC_RESTART_NEVER &&
                !(w->c->training && !w->c->training->rendezvous.max_restarts))
                render_warn(
                    q->k.r, &w->c->time_limit_ms,
                    "'targets.kubernetes.job: job' counts from the first start.",
                    "a JobSet counts 'time_limit' of '%s' anew at each restart: it ends a try, not "
                    "the run",
                    w->c->name);
        }
    }
    k8s_names_check(&q->k, all, q->work_count);
    kube_headless_check(q);
    k8s_group_wishes(&q->k, all, q->work_count);
    if (q->work_count && !spec_where(q->k.r->spec, at).line)
        at = &q->works[0].c->target;
    if (str_eq(q->k.stoker_image, KUBE_STOKER_IMAGE) && (q->agent || q->serve || q->launcher))
        render_warn(q->k.r, at,
                    "Set 'targets.kubernetes.stoker_image' to an image with stoker in it.",
                    "the image of %s is '%s', which no machine can pull: no registry is named",
                    q->agent   ? "the agent"
                    : q->serve ? "stoker serve"
                               : "the init containers",
                    q->k.stoker_image);
}

/* ---- the whole ---- */

static bool kube_begin(struct kube *q, struct render *r)
{
    const struct spec_kubernetes *t = r->targets->kubernetes;

    *q = (struct kube){ .t = t, .agent = r->spec->agent.enabled };
    q->k = (struct k8s){
        .r = r,
        .storage_class = t->storage_class,
        .storage_class_at = &t->storage_class,
        .service_account = "stoker",
        .runtime_class = t->runtime_class,
        .runtime_class_at = &t->runtime_class,
        .priority_class = t->priority_class,
        .priority_class_at = &t->priority_class,
        .pull_secrets = &t->pull_secrets,
        .mig_strategy = t->mig_strategy,
        .mig_strategy_at = &t->mig_strategy,
        .minor = k8s_minor(r, t->version, &t->version),
    };
    if (q->k.minor < 0)
        return false;
    q->k.namespace = k8s_name(&q->k, t->namespace, "");
    k8s_stoker_image(&q->k, &t->stoker_image, KUBE_STOKER_IMAGE);
    q->watch = q->k;
    q->watch.arena = (struct arena){ 0 };
    q->watch.namespace = k8s_name(&q->k, t->namespace, "-agent");
    q->watch.service_account = "stoker-agent";
    k8s_site_check(&q->k);
    k8s_namespace_wish(&q->k, &t->namespace);
    works_find(q);
    kube_sharing_check(q);
    kube_mps_users_check(q);
    kube_release_check(q);
    q->serve = k8s_has_models(r->spec, NULL);
    q->serves = q->serve;
    for (size_t i = 0; i < q->work_count; i++)
        q->serves = q->serves || k8s_is_server(q->works[i].c);
    wishes_tell(q);
    return true;
}

void render_kubernetes(struct render *r)
{
    struct kube q;

    if (!kube_begin(&q, r))
        return;
    namespaces_write(&q);
    rights_write(&q);
    priorities_write(&q);
    storage_write(&q);
    networks_write(&q);
    if (q.t->queue)
        kube_queue_write(&q);
    if (q.launcher)
        kube_launch_write(&q);
    for (size_t i = 0; i < q.work_count; i++)
        kube_work_write(&q, &q.works[i]);
    if (q.agent)
        kube_agent_write(&q);
    if (q.serve)
        kube_serve_write(&q);
    if (q.t->network_policy) {
        struct buf *out =
            kube_base(&q, "network-policy.yaml",
                      "Who may speak to whom: nobody, but for what the spec names; outside the "
                      "cluster what `egress` of a component does.");
        const struct spec_component **all =
            arena_array(&q.k.arena, const struct spec_component *, q.work_count + 1);

        for (size_t i = 0; i < q.work_count; i++)
            all[i] = q.works[i].c;
        k8s_policies_write(&q.k, out,
                           &(struct k8s_policies){ .components = all,
                                                   .count = q.work_count,
                                                   .dns_namespace = "kube-system",
                                                   .dns_port = 53,
                                                   .dns_cache = true });
        if (q.serve)
            k8s_server_policy(&q.k, out);
    }
    kube_monitors_write(&q);
    kube_node_write(&q);
    kube_operator_write(&q);
    kube_install_write(&q);
    kube_kustomize_write(&q);
    k8s_release(&q.k);
    k8s_release(&q.watch);
}

/* SPDX-License-Identifier: MIT */
/* k8s_place: on which machines a pod may go: taints it bears, labels it wants, how pods of one
 * component spread. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/k8s/k8s_int.h"

struct taint {
    const char *key, *value, *effect; /* value NULL: none */
};

/* "key=value:effect", "key:effect". */
static bool taint_parse(struct k8s *k, const char *s, struct taint *out)
{
    static const char *const effects[] = { "NoSchedule", "PreferNoSchedule", "NoExecute" };
    const char *colon = strrchr(s, ':'), *eq;
    bool known = false;

    if (!colon)
        return false;
    for (size_t i = 0; i < sizeof(effects) / sizeof(*effects); i++)
        known = known || str_eq(colon + 1, effects[i]);
    eq = memchr(s, '=', (size_t)(colon - s));
    out->effect = colon + 1;
    out->key = arena_strndup(&k->arena, s, (size_t)((eq ? eq : colon) - s));
    out->value = eq ? arena_strndup(&k->arena, eq + 1, (size_t)(colon - eq - 1)) : NULL;
    return known && k8s_label_key_ok(out->key) && (!eq || k8s_label_value_ok(out->value));
}

void k8s_node_check(struct k8s *k, const struct spec_node *n)
{
    struct taint t;

    for (size_t i = 0; i < n->labels.count; i++) {
        const struct spec_pair *p = &n->labels.items[i];

        if (!k8s_label_key_ok(p->key) || !k8s_label_value_ok(p->value))
            render_refuse(k->r, p, "At most 63 letters, digits, '-', '_' and '.'.",
                          "'%s: %s' is no label of Kubernetes", p->key, p->value);
    }
    for (size_t i = 0; i < n->taints.count; i++)
        if (!taint_parse(k, n->taints.items[i], &t))
            render_refuse(k->r, &n->taints.items[i],
                          "Write key=value:NoSchedule, or NoExecute or PreferNoSchedule.",
                          "'%s' is no taint", n->taints.items[i]);
}

static void put_toleration(struct k8s *k, struct yaml_out *y, const struct taint *t, const void *at)
{
    yaml_map(y, NULL);
    render_str(k->r, y, "key", t->key, at);
    yaml_str(y, "operator", t->value ? "Equal" : "Exists");
    if (t->value)
        yaml_str(y, "value", t->value);
    yaml_str(y, "effect", t->effect);
    yaml_end(y);
}

static bool taint_seen(const struct spec_node *const *groups, size_t g, size_t i)
{
    for (size_t h = 0; h <= g; h++)
        for (size_t k = 0; k < (h == g ? i : groups[h]->taints.count); k++)
            if (str_eq(groups[h]->taints.items[k], groups[g]->taints.items[i]))
                return true;
    return false;
}

/* ---- who sets a label ---- */

static bool prefix_in(const char *key, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_starts(key, list[i]))
            return true;
    return false;
}

/* Node feature discovery and GPU feature discovery say what a machine is; the kubelet says what it
 * runs on.  What it may be told to set itself is in its own check of --node-labels. */
enum k8s_labeller k8s_label_by(const char *key)
{
    static const char *const ours[] = { "nvidia.com/gpu.deploy.", "nvidia.com/gpu.workload." };
    static const char *const known[] = { "kubernetes.io/arch",
                                         "kubernetes.io/os",
                                         "kubernetes.io/hostname",
                                         "beta.kubernetes.io/",
                                         "feature.node.kubernetes.io/",
                                         "nvidia.com/gpu.",
                                         "nvidia.com/cuda.",
                                         "nvidia.com/mig.",
                                         "nvidia.com/mps.",
                                         "nvidia.com/vgpu.",
                                         "nvidia.com/device-plugin." };
    static const char *const kubelet[] = { "node.kubernetes.io/", "kubelet.kubernetes.io/",
                                           "topology.kubernetes.io/zone",
                                           "topology.kubernetes.io/region" };

    if (prefix_in(key, ours, ARRAY_SIZE(ours)))
        return K8S_LABEL_JOIN;
    if (prefix_in(key, known, ARRAY_SIZE(known)))
        return K8S_LABEL_SYSTEM;
    if (prefix_in(key, kubelet, ARRAY_SIZE(kubelet)))
        return K8S_LABEL_JOIN;
    return strstr(key, "kubernetes.io/") || strstr(key, "k8s.io/") ? K8S_LABEL_ADMIN
                                                                   : K8S_LABEL_JOIN;
}

/* ---- taints ---- */

/* kubeadm and OpenShift keep the control plane's machines to themselves. */
static void control_tolerate(struct k8s *k, struct yaml_out *y, const struct spec_node *n)
{
    static const char *const keys[] = { "node-role.kubernetes.io/control-plane",
                                        "node-role.kubernetes.io/master" };

    for (size_t i = 0; i < (k->scc ? 2 : 1); i++)
        put_toleration(k, y, &(struct taint){ .key = keys[i], .effect = "NoSchedule" }, &n->role);
}

static void groups_tolerate(struct k8s *k, struct yaml_out *y,
                            const struct spec_node *const *groups, size_t count)
{
    bool open = false, control = false;
    struct taint t;

    for (size_t g = 0; g < count; g++) {
        if (groups[g]->role == SPEC_ROLE_CONTROL && !control) {
            if (!open)
                yaml_seq(y, "tolerations");
            open = control = true;
            control_tolerate(k, y, groups[g]);
        }
        for (size_t i = 0; i < groups[g]->taints.count; i++) {
            if (taint_seen(groups, g, i) || !taint_parse(k, groups[g]->taints.items[i], &t))
                continue; /* what is no taint: k8s_site_check() */
            if (!open)
                yaml_seq(y, "tolerations");
            open = true;
            put_toleration(k, y, &t, &groups[g]->taints.items[i]);
        }
    }
    if (open)
        yaml_end(y);
}

void k8s_taints(struct k8s *k, struct yaml_out *y, const char *key, const struct spec_node *n)
{
    struct taint t;

    if (!n->taints.count)
        return;
    yaml_seq(y, key);
    for (size_t i = 0; i < n->taints.count; i++) {
        if (!taint_parse(k, n->taints.items[i], &t))
            continue; /* k8s_site_check() */
        yaml_map(y, NULL);
        render_str(k->r, y, "key", t.key, &n->taints.items[i]);
        if (t.value)
            yaml_str(y, "value", t.value);
        yaml_str(y, "effect", t.effect);
        yaml_end(y);
    }
    yaml_end(y);
}

void k8s_tolerations_gpus(struct k8s *k, struct yaml_out *y)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    size_t count = 0;

    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].role == SPEC_ROLE_GPU || s->nodes[i].gpus_per_node)
            groups[count++] = &s->nodes[i];
    groups_tolerate(k, y, groups, count);
}

/* Groups of a pod: those of its component, or of the model server. */
static const struct spec_node **pod_groups(struct k8s *k, const struct k8s_pod *pod, size_t *count)
{
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, k->r->spec->node_count + 1);

    *count = feasible_groups(k->r->spec, pod->c, groups);
    return groups;
}

void k8s_tolerations_of(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    size_t count;
    const struct spec_node **groups = pod_groups(k, pod, &count);

    groups_tolerate(k, y, groups, count);
}

static void put_expression(struct k8s *k, struct yaml_out *y, const char *key, const char *value,
                           const void *at)
{
    yaml_map(y, NULL);
    render_str(k->r, y, "key", key, at);
    yaml_str(y, "operator", "In");
    yaml_seq_of(y, "values", value);
    yaml_end(y);
}

/* Collectives between zones are slow: pods of one job stay together where they can. */
static void put_together(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_open(y, "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[]");
    yaml_int(y, "weight", 50);
    yaml_map(y, "podAffinityTerm");
    yaml_str(y, "topologyKey", "topology.kubernetes.io/zone");
    yaml_map(y, "labelSelector");
    k8s_match(k, y, "matchLabels", pod->name);
    yaml_ends(y, 5);
}

static bool fills_machines(const struct k8s *k, const struct spec_component *c)
{
    return feasible_fills(k->r->feasible, c);
}

/* Others take whole machines of the group: those that do not go where others of their kind are. */
static void put_filled(struct k8s *k, struct yaml_out *y)
{
    const struct spec *s = k->r->spec;

    yaml_open(y, "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[]");
    yaml_note(y, "others need whole machines: fill one before the next");
    yaml_int(y, "weight", 100);
    yaml_map(y, "podAffinityTerm");
    yaml_str(y, "topologyKey", "kubernetes.io/hostname");
    yaml_open(y, "labelSelector.matchExpressions[]");
    yaml_str(y, "key", "app.kubernetes.io/component");
    yaml_str(y, "operator", "In");
    yaml_seq(y, "values");
    for (size_t i = 0; i < s->component_count; i++)
        if (fills_machines(k, &s->components[i]))
            yaml_str(y, NULL, k8s_name(k, s->components[i].name, ""));
    for (int i = 0; i < 8; i++)
        yaml_end(y);
}

static bool has_many_pods(const struct spec_component *c)
{
    return c->nodes_per_replica * c->replicas > 1 || (c->scale && c->scale->max > 1);
}

void k8s_affinity(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    size_t count;
    const struct spec_node **groups = pod_groups(k, pod, &count);
    bool close = pod->c && pod->spread_hard && has_many_pods(pod->c);
    bool fill = pod->c && !pod->spread_hard && fills_machines(k, pod->c);

    if (!count && !close)
        return;
    yaml_map(y, "affinity");
    if (count) {
        /* A term for each group: its label, and those of the spec that its machines are sure to
         * have: those that they join with (one that nobody sets would keep the pods waiting for
         * ever), and on OpenShift, whose operators find the rest and whose administrator sets what
         * they do not, all. Required: a pod that wants another kind of machine gets the wrong GPU,
         * memory or network and runs, which nobody notices. */
        yaml_open(y, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
        yaml_seq(y, "nodeSelectorTerms");
        for (size_t g = 0; g < count; g++) {
            const struct spec_node *n = groups[g];

            yaml_map(y, NULL);
            yaml_seq(y, "matchExpressions");
            put_expression(k, y, K8S_GROUP_LABEL, n->name, &n->name);
            for (size_t i = 0; i < n->labels.count; i++)
                if (k->scc || k8s_label_by(n->labels.items[i].key) == K8S_LABEL_JOIN)
                    put_expression(k, y, n->labels.items[i].key, n->labels.items[i].value,
                                   &n->labels.items[i]);
            yaml_ends(y, 2);
        }
        yaml_ends(y, 3);
    }
    if (close)
        put_together(k, y, pod);
    else if (fill)
        put_filled(k, y);
    yaml_end(y);
}

/* Pods that fill machines have a constraint too, without which the scheduler spreads them by one of
 * its own, with the same weight as the affinity of put_filled(). */
static void k8s_spread(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    bool fill;

    if (!pod->c || !has_many_pods(pod->c))
        return;
    fill = !pod->spread_hard && fills_machines(k, pod->c);
    yaml_open(y, "topologySpreadConstraints[]");
    if (fill)
        yaml_note(y, "so wide that it decides nothing; without one the scheduler spreads them");
    yaml_int(y, "maxSkew", fill ? FEASIBLE_FILL_SKEW : 1);
    yaml_str(y, "topologyKey", "kubernetes.io/hostname");
    if (!fill)
        yaml_note(y, pod->spread_hard ? "a machine each" : "as even as can be");
    yaml_str(y, "whenUnsatisfiable", pod->spread_hard ? "DoNotSchedule" : "ScheduleAnyway");
    yaml_map(y, "labelSelector");
    k8s_match(k, y, "matchLabels", pod->name);
    yaml_end(y);
    yaml_note(y, "machines whose taints the pods do not bear are not counted");
    yaml_str(y, "nodeTaintsPolicy", "Honor");
    yaml_ends(y, 2);
}

/* By the label that the GPU Operator gives to machines with GPUs. */
static void by_gpus(struct yaml_out *y, bool with)
{
    yaml_open(y, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    yaml_open(y, "nodeSelectorTerms[].matchExpressions[]");
    yaml_str(y, "key", "nvidia.com/gpu.present");
    yaml_str(y, "operator", with ? "In" : "NotIn");
    yaml_seq_of(y, "values", "true");
    yaml_ends(y, 7);
}

void k8s_placement(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    if (pod->any_node) {
        yaml_open(y, "tolerations[]");
        yaml_note(y, "it watches every machine, sick ones first");
        yaml_str(y, "operator", "Exists");
        yaml_ends(y, 2);
        if (pod->machines)
            by_gpus(y, pod->machines == K8S_WITH_GPUS);
        return;
    }
    k8s_tolerations_of(k, y, pod);
    k8s_affinity(k, y, pod);
    k8s_spread(k, y, pod);
}

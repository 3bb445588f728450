/* SPDX-License-Identifier: MIT */
/* openshift: multi-node training with RDMA on OpenShift, whole.
 *
 *   openshift/kustomization.yaml   oc apply -k: everything below but run/ and node/
 *     namespace.yaml               the project
 *     access.yaml                  service account, security context constraint, role to use it
 *     priority.yaml                priority classes
 *     network-policy.yaml          who may speak to whom
 *     network.yaml                 SR-IOV policies and networks, one a rail
 *     storage.yaml                 claims that pods share
 *     build.yaml                   image stream and build; Containerfile is its recipe
 *     launcher.yaml                launcher.sh as a ConfigMap
 *     components/NAME.yaml         StatefulSet and headless Service; Service and Route
 *   openshift/operators/, install.sh   what all of it relies on, and the order of it
 *   openshift/run/NAME.yaml        Jobs and debug Pods: oc create -f, when they are wanted
 *   openshift/node/label.sh        the groups' labels, taints and MIG on the machines, once
 *   openshift/node/memlock.bu      unlimited locked memory on the machines, once
 *
 * Only `oc scale` scales: no file names the number of pods (see data/render/launcher.sh). */
#include "base/str.h"
#include "render/follow_int.h"
#include "render/openshift/openshift_int.h"

#include <stdlib.h>

/* ---- components ---- */

const struct spec_component *shift_component(const struct shift *s, size_t *i)
{
    const struct spec *spec = s->k.r->spec;

    while (*i < spec->component_count) {
        const struct spec_component *c = &spec->components[(*i)++];

        if (c->target == SPEC_TARGET_OPENSHIFT)
            return c;
    }
    return NULL;
}

/* Does it wait to be entered instead of doing something? */
static bool waits_for_demand(const struct spec_component *c)
{
    return c->command.count == 2 && str_eq(c->command.items[0], "sleep") &&
           str_eq(c->command.items[1], "infinity");
}

enum shift_kind shift_kind_of(const struct spec_component *c)
{
    if (c->kind != SPEC_COMPONENT_BATCH)
        return SHIFT_SET;
    return waits_for_demand(c) && shift_pods(c) == 1 ? SHIFT_POD : SHIFT_JOB;
}

int64_t shift_pods(const struct spec_component *c)
{
    return c->replicas * c->nodes_per_replica;
}

bool shift_has_peers(const struct spec_component *c)
{
    return c->kind != SPEC_COMPONENT_BATCH || shift_pods(c) > 1;
}

bool shift_launched(const struct spec_component *c)
{
    return c->kind == SPEC_COMPONENT_TRAINING ||
           (c->kind == SPEC_COMPONENT_BATCH && shift_kind_of(c) == SHIFT_JOB);
}

const char *shift_service(struct shift *s, const struct spec_component *c)
{
    if (c == s->named)
        return k8s_name(&s->k, s->t->service, "");
    return k8s_name(&s->k, c->name, "-headless");
}

/* ---- what cannot be ---- */

/* Is there a Service of a component's own name beside the headless one? */
static bool has_service(struct shift *s, const struct spec_component *c)
{
    size_t ports;

    (void)k8s_ports_of(&s->k, c, &ports);
    return ports > 0;
}

static void component_check(struct shift *s, const struct spec_component *c)
{
    const struct spec_component *o;

    if (c->nodes_per_replica > 1 && (c->replicas > 1 || c->scale))
        render_refuse(s->k.r, &c->nodes_per_replica,
                      "Leave it out: replicas are pods of one run, one on each machine.",
                      "'%s' has replicas of several machines, and a StatefulSet counts pods",
                      c->name);
    if (shift_launched(c) && !c->command.count)
        render_refuse(s->k.r, &c->name, "Give it a command.",
                      "'%s' has no command for the launcher to start", c->name);
    if (k8s_shares_gpu(c))
        render_warn(s->k.r, &c->pools, "Give it GPUs of its own.",
                    "the GPUs of OpenShift's machines are not shared: '%s' takes a whole one",
                    c->name);
    if (!s->named && shift_has_peers(c))
        s->named = c;
    /* The service of the spec's name is for one component; another's is named after it. */
    if (shift_has_peers(c)) {
        if (c != s->named && str_eq(shift_service(s, c), shift_service(s, s->named)))
            render_refuse(s->k.r, &s->t->service, "Give the service another name.",
                          "'%s' is the service of '%s' already, and would be that of '%s'",
                          s->t->service, s->named->name, c->name);
        for (size_t i = 0; (o = shift_component(s, &i));)
            if (has_service(s, o) && str_eq(shift_service(s, c), k8s_name(&s->k, o->name, "")))
                render_refuse(s->k.r, &o->name,
                              "Rename it; pods of a component meet by a service of their own, "
                              "'targets.openshift.service' or NAME-headless.",
                              "'%s' is the name of the headless service of '%s'", o->name, c->name);
    }
    s->root = s->root || k8s_is_root(c);
}

/* May pods of the project be attached to a network in this namespace?  The cluster's network
 * operator sets namespaceIsolation, and these as globalNamespaces. */
static bool is_global(const struct shift *s, const char *namespace)
{
    static const char *const global[] = { "default", "openshift-multus", SHIFT_SRIOV_NAMESPACE };

    for (size_t i = 0; i < ARRAY_SIZE(global); i++)
        if (str_eq(namespace, global[i]))
            return true;
    return str_eq(namespace, s->k.namespace);
}

static void fabric_check(struct shift *s, const struct spec_fabric *f)
{
    if (shift_fabric_used(s, f->name) && k8s_rail_count(f) &&
        !is_global(s, k8s_rail_namespace(&s->k, f)))
        render_warn(s->k.r, &f->sriov->network_namespace,
                    "Leave it out, or take 'default', which pods of every project may use.",
                    "OpenShift's Multus keeps pods to networks of their own project: those of '%s' "
                    "are not given '%s' of '%s'",
                    s->k.namespace, f->name, k8s_rail_namespace(&s->k, f));
}

static void check_site(struct shift *s)
{
    const struct spec *spec = s->k.r->spec;
    const struct spec_component **all =
        arena_array(&s->k.arena, const struct spec_component *, spec->component_count + 1);
    const struct spec_component *c;
    size_t count = 0;

    k8s_site_check(&s->k);
    for (size_t i = 0; (c = shift_component(s, &i));) {
        component_check(s, c);
        k8s_component_wishes(&s->k, c, shift_kind_of(c) == SHIFT_SET);
        all[count++] = c;
    }
    k8s_names_check(&s->k, all, count);
    k8s_group_wishes(&s->k, all, count);
    k8s_namespace_wish(&s->k, &s->t->namespace);
    follow_loose_models(s->k.r, "openshift");
    for (size_t i = 0; !s->k.stoker_image_from && !s->t->build && i < count; i++)
        if (shift_launched(all[i])) {
            render_warn(s->k.r,
                        spec_where(spec, &s->t->namespace).line ? (const void *)&s->t->namespace
                                                                : &all[i]->target,
                        "Push it there, or set 'targets.openshift.stoker_image'.",
                        "the init container of '%s' pulls '%s', which nothing here builds",
                        all[i]->name, s->k.stoker_image);
            break;
        }
    for (size_t i = 0; i < spec->fabric_count; i++)
        fabric_check(s, &spec->fabrics[i]);
}

/* "4.14" as the release of Kubernetes it is made of. */
static int kube_minor(struct shift *s)
{
    const char *v = s->t->version;
    char *end = NULL;
    long minor = str_starts(v, "4.") ? strtol(v + 2, &end, 10) : -1;

    if (minor < 0 || minor > 999 || end == v + 2 || (*end && *end != '.')) {
        render_refuse(s->k.r, &s->t->version, "Write it as 4.14.", "'%s' is no OpenShift release",
                      v);
        return K8S_MINOR_MIN;
    }
    if (minor < SHIFT_MINOR_MIN)
        render_refuse(s->k.r, &s->t->version,
                      "Claims that outlive a StatefulSet (KEP-1847) are relied on from 4.14.",
                      "OpenShift %s is older than 4.%d, the oldest that is written for", v,
                      SHIFT_MINOR_MIN);
    if (minor + SHIFT_KUBE_MINOR > K8S_MINOR_MAX)
        render_warn(s->k.r, &s->t->version, "What it changed is not known here.",
                    "OpenShift %s is newer than 4.%d, the newest that is written for", v,
                    K8S_MINOR_MAX - SHIFT_KUBE_MINOR);
    return (int)minor + SHIFT_KUBE_MINOR;
}

/* ---- files ---- */

struct buf *shift_file(struct shift *s, const char *path, const char *what)
{
    struct buf *b = render_file(s->k.r, "openshift/%s", path);

    yaml_str(&s->kustomization, NULL, path);
    render_head(s->k.r, b, "#", what);
    return b;
}

static void namespace_write(struct shift *s)
{
    struct buf *b = shift_file(s, "namespace.yaml", "The project that everything goes into.");
    struct yaml_out y;

    buf_addf(b, "# Its name: %s.\n", render_from(s->k.r, &s->t->namespace));
    yaml_begin(&y, b);
    k8s_head_open(&s->k, &y, "v1", "Namespace", NULL, s->k.namespace, NULL);
    yaml_map(&y, "annotations");
    yaml_strf(&y, "openshift.io/display-name", "stoker: %s", s->k.r->spec->site.name);
    yaml_finish(&y);
}

bool shift_fabric_used(struct shift *s, const char *name)
{
    const struct spec_component *c;

    for (size_t i = 0; (c = shift_component(s, &i));)
        for (size_t j = 0; j < c->fabrics.count; j++)
            if (str_eq(c->fabrics.items[j], name))
                return true;
    return false;
}

bool shift_storage_used(struct shift *s, const struct spec_storage *st)
{
    const struct spec_component *c;

    for (size_t i = 0; (c = shift_component(s, &i));)
        if (k8s_uses_storage(&s->k, c, st))
            return true;
    return false;
}

/* ---- priorities and policies ---- */

static void policy_open(struct shift *s, struct buf *b, struct yaml_out *y, const char *name)
{
    k8s_object(&s->k, y, b, "networking.k8s.io/v1", "NetworkPolicy", name, NULL);
    yaml_map(y, "spec");
}

static void policy_side(struct yaml_out *y, const char *side)
{
    yaml_seq_of(y, "policyTypes", side);
}

/* Routers of the cluster, which no component of the spec is, and its Prometheus. */
static void allow_from(struct shift *s, struct buf *b, const char *name, const char *key,
                       const char *value)
{
    struct yaml_out y;

    policy_open(s, b, &y, name);
    yaml_map(&y, "podSelector");
    yaml_end(&y);
    policy_side(&y, "Ingress");
    yaml_open(&y, "ingress[].from[].namespaceSelector.matchLabels");
    yaml_str(&y, key, value);
    for (int i = 0; i < 7; i++)
        yaml_finish(&y);
}

static void policies_write(struct shift *s)
{
    const struct spec *spec = s->k.r->spec;
    const struct spec_component **all =
        arena_array(&s->k.arena, const struct spec_component *, spec->component_count + 1);
    const struct spec_component *c;
    struct k8s_policies p = { .components = all,
                              .dns_namespace = "openshift-dns",
                              .dns_port = 5353 }; /* of the pods behind the Service's 53 */
    bool served = false;
    struct buf *b;
    struct yaml_out y;

    for (size_t i = 0; (c = shift_component(s, &i));) {
        all[p.count++] = c;
        served = served || c->kind == SPEC_COMPONENT_SERVING;
    }
    if (!s->t->network_policy || !p.count)
        return;
    b = shift_file(s, "network-policy.yaml",
                   "Who may speak to whom: nobody, but for what the spec names; outside the "
                   "cluster what `egress` of a component does.");
    k8s_policies_write(&s->k, b, &p);
    if (served) {
        allow_from(s, b, "allow-router", "network.openshift.io/policy-group", "ingress");
        allow_from(s, b, "allow-prometheus", "kubernetes.io/metadata.name",
                   "openshift-user-workload-monitoring");
    }
    /* A build fetches its sources and pushes its image. */
    policy_open(s, b, &y, "allow-builds");
    yaml_map(&y, "podSelector");
    yaml_seq(&y, "matchExpressions");
    yaml_map_of(&y, NULL, "key", "openshift.io/build.name", "operator", "Exists");
    yaml_ends(&y, 2);
    policy_side(&y, "Egress");
    yaml_open(&y, "egress[]");
    yaml_finish(&y);
}

/* ---- networks and storage ---- */

static void fabric_write(struct shift *s, struct buf *b, const struct spec_fabric *f)
{
    size_t rails = k8s_rail_count(f);

    if (!f->sriov) { /* the machines' own interfaces, bridged */
        for (size_t i = 0; i < rails; i++)
            k8s_attachment(&s->k, b, f, i);
        return;
    }
    for (size_t i = 0; i < (k8s_rails_apart(f) ? rails : 1); i++)
        k8s_sriov_policy(&s->k, b, SHIFT_SRIOV_NAMESPACE, f, i);
    for (size_t i = 0; i < rails; i++)
        k8s_sriov_network(&s->k, b, SHIFT_SRIOV_NAMESPACE, f, i);
}

/* openshift.c */
static void shift_networks(struct shift *s)
{
    const struct spec *spec = s->k.r->spec;
    struct buf *b = NULL;

    for (size_t i = 0; i < spec->fabric_count; i++) {
        const struct spec_fabric *f = &spec->fabrics[i];

        if (!shift_fabric_used(s, f->name) || !k8s_rail_count(f))
            continue;
        if (!b) {
            b = shift_file(s, "network.yaml",
                           "Networks of the pods beside the cluster's own, one a rail.");
            buf_adds(b, "# The SR-IOV operator makes virtual functions by the policies, draining "
                        "each machine the first\n# time, and an attachment of each network.\n");
        }
        fabric_write(s, b, f);
    }
}

static void storage_write(struct shift *s)
{
    const struct spec *spec = s->k.r->spec;
    struct buf *b = NULL;

    for (size_t i = 0; i < spec->storage_count; i++) {
        const struct spec_storage *st = &spec->storage[i];

        if (!shift_storage_used(s, st) || k8s_per_replica(st) || st->kind == SPEC_STORAGE_MEMORY ||
            st->kind == SPEC_STORAGE_OBJECT)
            continue;
        if (!b)
            b = shift_file(s, "storage.yaml", "Storage that pods share.");
        if (k8s_static_volume(st))
            k8s_static_volume_write(&s->k, b, st);
        k8s_claim_write(&s->k, b, st);
    }
}

static void put_command(struct buf *b, const char *what, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void put_command(struct buf *b, const char *what, const char *fmt, ...)
{
    va_list ap;

    buf_addf(b, "# %s\n#   ", what);
    va_start(ap, fmt);
    buf_vaddf(b, fmt, ap);
    va_end(ap);
    buf_addc(b, '\n');
}

static void put_commands(struct shift *s, struct buf *b)
{
    const char *ns = s->k.namespace;

    buf_adds(b, "#\n");
    put_command(b, "Operators and all of it; without --apply it prints what it would do:",
                "sh install.sh --apply operators");
    put_command(b, "All of it again after each change; who is scaled stays so:",
                "sh install.sh --apply manifests");
    if (s->t->build)
        put_command(b, "The image, again:", "oc -n %s start-build %s", ns,
                    k8s_name(&s->k, s->t->image_stream, ""));
    put_command(b, "More or fewer pods; no file is touched, and with 0 the volumes stay:",
                "oc -n %s scale statefulset/NAME --replicas=N", ns);
    put_command(b, "A Job, or a pod to look around in:", "oc create -f run/NAME.yaml");
    put_command(b, "Unlimited locked memory, once; restarts the machines one by one:",
                "butane node/memlock.bu | oc apply -f -");
    put_command(b, "Stop all that runs; volumes stay:", "oc -n %s delete statefulset,job,pod --all",
                ns);
    put_command(b, "Take everything away, the project's volumes too:", "oc delete -k .");
}

static void kustomization_begin(struct shift *s)
{
    struct buf *b = render_file(s->k.r, "openshift/kustomization.yaml");

    render_head(s->k.r, b, "#", "What `oc apply -k` applies.");
    put_commands(s, b);
    yaml_begin(&s->kustomization, b);
    yaml_str(&s->kustomization, "apiVersion", "kustomize.config.k8s.io/v1beta1");
    yaml_str(&s->kustomization, "kind", "Kustomization");
    yaml_seq(&s->kustomization, "resources");
}

static void write_all(struct shift *s)
{
    struct buf *b = NULL;

    kustomization_begin(s);
    namespace_write(s);
    shift_access(s);
    for (size_t p = 0; p <= SPEC_PRIORITY_HIGH; p++) {
        const struct spec_component *c;
        bool used = false;

        for (size_t i = 0; (c = shift_component(s, &i));)
            used = used || (size_t)c->priority == p;
        if (used && !b)
            b = shift_file(s, "priority.yaml", "Who goes first when GPUs are short.");
        if (used)
            k8s_priority(&s->k, b, (enum spec_priority)p);
    }
    policies_write(s);
    shift_networks(s);
    storage_write(s);
    shift_build(s);
    shift_launcher(s);
    shift_components(s);
    shift_nodes(s);
    shift_install(s);
    yaml_finish(&s->kustomization);
}

void render_openshift(struct render *r)
{
    const struct spec_openshift *t = r->targets->openshift;
    struct shift s = {
        .k = { .r = r, .storage_class = t->storage_class, .storage_class_at = &t->storage_class },
        .t = t,
    };

    s.k.namespace = k8s_name(&s.k, t->namespace, "");
    s.k.service_account = k8s_name(&s.k, t->service_account, "");
    k8s_stoker_image(&s.k, &t->stoker_image,
                     arena_printf(&s.k.arena, SHIFT_REGISTRY "/%s/stoker:latest", s.k.namespace));
    s.k.minor = kube_minor(&s);
    s.k.mig_strategy = t->mig_strategy;
    s.k.mig_strategy_at = &t->mig_strategy;
    s.k.scc = true;
    s.k.ipc_lock = true;
    check_site(&s);
    if (!r->diags->count)
        write_all(&s);
    k8s_release(&s.k);
}

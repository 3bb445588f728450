/* SPDX-License-Identifier: MIT */
/* openshift_install: operators that the objects of a spec rely on, and a script that brings both in
 * an order that works.
 *
 *   openshift/operators/subscriptions.yaml   OLM installs what is named here, by its own time
 *   openshift/operators/config.yaml          what the operators do, once their kinds are there
 *   openshift/install.sh                     operators: both, then what the site must have, then
 *                                            the objects; manifests: only the objects
 *
 * No channel is named: a catalogue's default is the one for the cluster's own release.  Multus and
 * whereabouts are part of OpenShift.  What a site has installed already is left as it is. */
#include "base/str.h"
#include "render/openshift/openshift_int.h"

#include <inttypes.h>

struct operator_package {
    const char *name, *namespace, *source;
    const char *crd; /* of a kind that it brings */
    const char *what;
};

static const struct operator_package nfd = { .name = "nfd",
                                             .namespace = "openshift-nfd",
                                             .source = "redhat-operators",
                                             .crd = "nodefeaturediscoveries.nfd.openshift.io",
                                             .what = "labels of PCI devices" };
static const struct operator_package gpu = { .name = "gpu-operator-certified",
                                             .namespace = SHIFT_GPU_NAMESPACE,
                                             .source = "certified-operators",
                                             .crd = "clusterpolicies.nvidia.com",
                                             .what = "driver and device plug-in" };
static const struct operator_package sriov = {
    .name = "sriov-network-operator",
    .namespace = SHIFT_SRIOV_NAMESPACE,
    .source = "redhat-operators",
    .crd = "sriovnetworknodepolicies.sriovnetwork.openshift.io",
    .what = "virtual functions"
};

static const struct operator_package network = { .name = "nvidia-network-operator",
                                                 .namespace = "nvidia-network-operator",
                                                 .source = "certified-operators",
                                                 .crd = "nicclusterpolicies.mellanox.com",
                                                 .what = "nv-ipam, which gives addresses" };

static bool has_gpus(struct shift *s)
{
    const struct spec_component *c;

    for (size_t i = 0; (c = shift_component(s, &i));)
        if (c->gpus || k8s_shares_gpu(c))
            return true;
    return false;
}

static bool any_fabric(struct shift *s, bool (*is)(const struct spec_fabric *f))
{
    const struct spec *spec = s->k.r->spec;

    for (size_t i = 0; i < spec->fabric_count; i++)
        if (shift_fabric_used(s, spec->fabrics[i].name) && is(&spec->fabrics[i]))
            return true;
    return false;
}

static bool has_functions(const struct spec_fabric *f)
{
    return f->sriov != NULL;
}

static bool has_nv_pool(const struct spec_fabric *f)
{
    return k8s_rail_count(f) > 0 && k8s_ipam_kind(f) == SPEC_IPAM_NV;
}

static bool is_direct(const struct spec_fabric *f)
{
    return f->gpudirect;
}

/* Those that are wanted, in the order in which one relies on the other. */
static size_t packages_of(struct shift *s, const struct operator_package **out)
{
    size_t n = 0;

    if (has_gpus(s) || any_fabric(s, has_functions))
        out[n++] = &nfd;
    if (any_fabric(s, has_functions))
        out[n++] = &sriov;
    if (any_fabric(s, has_nv_pool))
        out[n++] = &network;
    if (has_gpus(s))
        out[n++] = &gpu;
    return n;
}

/* ---- subscriptions ---- */

static void namespace_write(struct shift *s, struct buf *b, const struct operator_package *p)
{
    struct yaml_out y;

    yaml_begin(&y, b);
    k8s_head_labels(&s->k, &y, "v1", "Namespace", NULL, p->namespace, NULL);
    yaml_note(&y, "its pods reach into machines");
    yaml_str(&y, "pod-security.kubernetes.io/enforce", "privileged");
    yaml_str(&y, "openshift.io/cluster-monitoring", "true");
    yaml_finish(&y);
}

static void group_write(struct shift *s, struct buf *b, const struct operator_package *p)
{
    struct yaml_out y;

    k8s_object_in(&s->k, &y, b, "operators.coreos.com/v1", "OperatorGroup", p->namespace, p->name,
                  NULL);
    yaml_map(&y, "spec");
    yaml_seq_of(&y, "targetNamespaces", p->namespace);
    yaml_finish(&y);
}

static void subscription_write(struct shift *s, struct buf *b, const struct operator_package *p)
{
    struct yaml_out y;

    k8s_object_in(&s->k, &y, b, "operators.coreos.com/v1alpha1", "Subscription", p->namespace,
                  p->name, NULL);
    yaml_map(&y, "spec");
    yaml_note(&y, p->what);
    yaml_str(&y, "name", p->name);
    yaml_str(&y, "source", p->source);
    yaml_str(&y, "sourceNamespace", "openshift-marketplace");
    yaml_str(&y, "installPlanApproval", "Automatic");
    yaml_finish(&y);
}

/* ---- what they do ---- */

static void discovery_write(struct shift *s, struct buf *b)
{
    struct yaml_out y;

    k8s_object_in(&s->k, &y, b, "nfd.openshift.io/v1", "NodeFeatureDiscovery", nfd.namespace,
                  "nfd-instance", NULL);
    yaml_open(&y, "spec.operand");
    yaml_str(&y, "imagePullPolicy", "IfNotPresent");
    yaml_int(&y, "servicePort", 12000);
    yaml_end(&y);
    yaml_map(&y, "workerConfig");
    yaml_text(&y, "configData",
              "sources:\n"
              "  pci:\n"
              "    deviceClassWhitelist: [\"0200\", \"0207\", \"03\", \"12\"]\n"
              "    deviceLabelFields: [vendor]\n");
    yaml_finish(&y);
}

static void pools_write(struct shift *s)
{
    const struct spec *spec = s->k.r->spec;
    struct buf *b = render_file(s->k.r, "openshift/operators/ip-pools.yaml");

    render_head(s->k.r, b, "#", "Addresses of pods on networks of nv-ipam, by machine.");
    for (size_t i = 0; i < spec->fabric_count; i++) {
        const struct spec_fabric *f = &spec->fabrics[i];

        for (size_t j = 0; shift_fabric_used(s, f->name) && has_nv_pool(f) && j < f->subnets.count;
             j++)
            k8s_ip_pool(&s->k, b, network.namespace, f, j);
    }
}

static void put_enabled(struct yaml_out *y, const char *key, bool on)
{
    yaml_map(y, key);
    yaml_bool(y, "enabled", on);
    yaml_end(y);
}

static void policy_write(struct shift *s, struct buf *b)
{
    struct yaml_out y;

    if (k8s_has_mig(s->k.r->spec))
        k8s_mig_map(&s->k, b, gpu.namespace);
    k8s_object_in(&s->k, &y, b, "nvidia.com/v1", "ClusterPolicy", NULL, SHIFT_GPU_POLICY, NULL);
    yaml_open(&y, "spec.operator");
    yaml_str(&y, "defaultRuntime", "crio");
    yaml_bool(&y, "use_ocp_driver_toolkit", true);
    yaml_end(&y);
    yaml_map(&y, "daemonsets");
    k8s_tolerations_gpus(&s->k, &y);
    yaml_end(&y);
    yaml_map(&y, "driver");
    yaml_bool(&y, "enabled", true);
    k8s_driver_rdma(&y, any_fabric(s, is_direct));
    yaml_end(&y);
    put_enabled(&y, "toolkit", true);
    put_enabled(&y, "devicePlugin", true);
    k8s_mig_values(&s->k, &y, false);
    put_enabled(&y, "gfd", true);
    put_enabled(&y, "dcgm", true);
    put_enabled(&y, "dcgmExporter", true);
    put_enabled(&y, "nodeStatusExporter", false);
    yaml_finish(&y);
}

/* ---- the script ---- */

static const char HEAD[] =
    "#\n"
    "#   sh install.sh operators           print what the cluster needs, and the objects\n"
    "#   sh install.sh manifests           the objects alone, after each change\n"
    "#   sh install.sh prune               deletes what the spec no longer names\n"
    "#   sh install.sh --apply COMMAND     do it, as an administrator of the cluster\n"
    "set -eu\n" K8S_SCRIPT_APPLY "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
    "# kind CRD: OLM installs in its own time\n"
    "kind() {\n"
    "    left=120\n"
    "    until ! $apply || oc get crd \"$1\" >/dev/null 2>&1; do\n"
    "        left=$((left - 1))\n"
    "        if [ \"$left\" -le 0 ]; then\n"
    "            echo \"install.sh: no kind $1 after ten minutes\" >&2\n"
    "            exit 1\n"
    "        fi\n"
    "        sleep 5\n"
    "    done\n"
    "    run oc wait --for=condition=Established --timeout=60s \"crd/$1\"\n"
    "}\n"
    "\n";

static const char TAIL[] =
    "case \"${1-}\" in\n"
    "operators) operators ;;\n"
    "manifests) manifests ;;\n"
    "prune) prune ;;\n"
    "*)\n"
    "    echo \"usage: install.sh [--apply] operators | manifests | prune\" >&2\n"
    "    exit 2\n"
    "    ;;\n"
    "esac\n";

static bool has_servers(struct shift *s)
{
    const struct spec_component *c;

    for (size_t i = 0; (c = shift_component(s, &i));)
        if (k8s_is_server(c))
            return true;
    return false;
}

static bool is_claimed(struct shift *s, const struct spec_storage *st)
{
    return shift_storage_used(s, st) && st->kind != SPEC_STORAGE_MEMORY &&
           st->kind != SPEC_STORAGE_OBJECT && !k8s_static_volume(st);
}

static const char *class_of(const struct shift *s, const struct spec_storage *st)
{
    return st->storage_class ? st->storage_class : s->t->storage_class;
}

/* Was a claim of the same class before this one? */
static bool class_seen(struct shift *s, size_t at)
{
    const struct spec_storage *all = s->k.r->spec->storage;
    const char *want = class_of(s, &all[at]);

    for (size_t i = 0; i < at; i++) {
        const char *class = class_of(s, &all[i]);

        if (is_claimed(s, &all[i]) && (want && class ? str_eq(want, class) : want == class))
            return true;
    }
    return false;
}

static void put_classes(struct shift *s, struct buf *b)
{
    const struct spec *spec = s->k.r->spec;

    for (size_t i = 0; i < spec->storage_count; i++) {
        const struct spec_storage *st = &spec->storage[i];
        const char *class = class_of(s, st);

        if (!is_claimed(s, st) || class_seen(s, i))
            continue;
        buf_adds(b, "    run oc get storageclass");
        if (class) {
            buf_addc(b, ' ');
            quote_sh(b, class);
        }
        buf_adds(b, class ? "\n" : " # one must be marked as the default\n");
    }
}

static bool fabric_attaches(void *of, const struct spec_fabric *f)
{
    return shift_fabric_used(of, f->name);
}

static void put_operators(struct shift *s, struct buf *b,
                          const struct operator_package *const *list, size_t n)
{
    buf_adds(b, "operators() {\n");
    if (n)
        buf_adds(b, "    run oc apply -f \"$here/operators/subscriptions.yaml\"\n");
    for (size_t i = 0; i < n; i++)
        buf_addf(b, "    kind %s # %s\n", list[i]->crd, list[i]->what);
    if (n)
        buf_adds(b, "    run oc apply -f \"$here/operators/config.yaml\"\n");
    if (has_gpus(s))
        buf_adds(b, "    run oc wait --for='jsonpath={.status.state}=ready' "
                    "clusterpolicy/" SHIFT_GPU_POLICY " --timeout=60m\n");
    buf_adds(b, "    # labels and taints of node groups, by which pods choose machines\n"
                "    if $apply; then sh \"$here/node/label.sh\" --apply; else sh "
                "\"$here/node/label.sh\"; fi\n");
    if (any_fabric(s, has_nv_pool))
        buf_adds(b, "    kind ippools.nv-ipam.nvidia.com # brought by the Network Operator\n"
                    "    run oc apply -f \"$here/operators/ip-pools.yaml\"\n");
    put_classes(s, b);
    buf_adds(b, "    run oc apply -f \"$here/namespace.yaml\"\n");
    k8s_script_namespaces(&s->k, b, "oc", fabric_attaches, s);
    if (has_servers(s))
        buf_addf(b, "    secret %s\n", s->k.namespace);
    buf_adds(b, "    manifests\n}\n\n");
}

static void script_write(struct shift *s, const struct operator_package *const *list, size_t n)
{
    struct buf *b = render_script(s->k.r, "openshift/install.sh");
    struct buf scaled = { 0 }, headless = { 0 };
    const struct spec_component *c;

    buf_adds(b, "#!/bin/sh\n");
    render_head(s->k.r, b, "#", "Brings the operators, then the objects, to a cluster.");
    buf_adds(b, HEAD);
    if (has_servers(s))
        buf_adds(b, K8S_SCRIPT_SECRET("oc"));
    for (size_t i = 0; (c = shift_component(s, &i));) {
        if (shift_has_peers(c))
            buf_addf(&headless, "%s%s", headless.len ? " " : "", shift_service(s, c));
        if (c->scale && shift_kind_of(c) == SHIFT_SET)
            buf_addf(&scaled, "%sstatefulset/%s=%" PRId64, scaled.len ? " " : "",
                     k8s_name(&s->k, c->name, ""), shift_pods(c));
    }
    k8s_script_apply(&s->k, b,
                     &(struct k8s_apply){ .tool = "oc",
                                          .script = "install.sh",
                                          .folder = "$here",
                                          .scaled = buf_str(&scaled),
                                          .headless = buf_str(&headless) });
    put_operators(s, b, list, n);
    buf_adds(b, TAIL);
    buf_release(&scaled);
    buf_release(&headless);
}

void shift_install(struct shift *s)
{
    const struct operator_package *list[4];
    size_t n = packages_of(s, list);
    struct buf *b;

    if (n) {
        b = render_file(s->k.r, "openshift/operators/subscriptions.yaml");
        render_head(s->k.r, b, "#", "Operators that the objects rely on, for OLM.");
        for (size_t i = 0; i < n; i++) {
            namespace_write(s, b, list[i]);
            group_write(s, b, list[i]);
            subscription_write(s, b, list[i]);
        }
        b = render_file(s->k.r, "openshift/operators/config.yaml");
        render_head(s->k.r, b, "#", "What those operators do.");
        discovery_write(s, b);
        if (any_fabric(s, has_functions)) {
            struct yaml_out y;

            k8s_object_in(&s->k, &y, b, "sriovnetwork.openshift.io/v1", "SriovOperatorConfig",
                          sriov.namespace, "default", NULL);
            yaml_comment(&y, "without it the operator does nothing");
            yaml_map(&y, "spec");
            yaml_bool(&y, "enableInjector", true);
            yaml_bool(&y, "enableOperatorWebhook", true);
            yaml_int(&y, "logLevel", 2);
            yaml_finish(&y);
        }
        if (any_fabric(s, has_nv_pool)) {
            /* Of all that the Network Operator can bring, nv-ipam only: drivers and device
             * plug-ins are others' here. */
            struct yaml_out y;

            k8s_object_in(&s->k, &y, b, "mellanox.com/v1alpha1", "NicClusterPolicy", NULL,
                          "nic-cluster-policy", NULL);
            yaml_open(&y, "spec.nvIpam");
            yaml_str(&y, "image", "nvidia-k8s-ipam");
            yaml_str(&y, "repository", "ghcr.io/mellanox");
            yaml_str(&y, "version", K8S_NV_IPAM);
            yaml_bool(&y, "enableWebhook", false);
            yaml_end(&y);
            k8s_tolerations_gpus(&s->k, &y);
            yaml_finish(&y);
        }
        if (has_gpus(s))
            policy_write(s, b);
    }
    if (any_fabric(s, has_nv_pool))
        pools_write(s);
    script_write(s, list, n);
}

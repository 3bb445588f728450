/* SPDX-License-Identifier: MIT */
/* kubernetes_install: what the manifests rely on, in the order in which one needs the other.
 *
 *   kinds first           Prometheus Operator, KEDA, metrics-server: what others make objects of
 *   machines              GPU Operator (or the device plug-in), which also labels machines
 *   networks              Multus and address management, virtual functions, shared RDMA devices
 *   jobs                  the controller of the kind of job, then Kueue, which looks for that kind
 *   what the site has     storage classes, secrets: asked for, so that a missing one is told now
 *   the manifests
 *
 * tests/render/install.py reads the dry run: each kind, namespace, class, pool, network, resource
 * and label of machines that a manifest uses must be made, installed or asked for by a line above.
 * Releases stand here once; each was read at that tag of its project's repository. */
#include "base/str.h"
#include "base/text/json.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>
#include <stdlib.h>

#define MULTUS            "v4.3.0"
#define WHEREABOUTS       "v0.9.4"
#define RDMA_SHARED       "v1.5.3"
#define TRAINING_OPERATOR "v1.9.4"
#define TRAINER           "v2.3.0"
#define JOBSET            "v0.12.0"
#define KUEUE             "0.19.2"

#define SRIOV_NAMESPACE "sriov-network-operator"
#define IPAM_NAMESPACE  "kube-system" /* of nv-ipam and its pools */

struct chart {
    const char *what;
    const char *release, *where, *version; /* `where`: oci://..., or NAME --repo URL */
    const char *variable;                  /* another version, from outside */
    const char *namespace;
    const char *crd;     /* of a kind it brings, that a site may have already; NULL: none */
    const char *options; /* lines of its own, each ended by " \\\n"; NULL: none */
};

/* ---- what is needed ---- */

bool kube_fabric_used(const struct kube *q, const struct spec_fabric *f)
{
    for (size_t i = 0; i < q->work_count; i++)
        if (render_strs_has(&q->works[i].c->fabrics, f->name))
            return true;
    return false;
}

static bool any_used(const struct kube *q, bool (*is)(const struct spec_fabric *f))
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < s->fabric_count; i++)
        if (kube_fabric_used(q, &s->fabrics[i]) && is(&s->fabrics[i]))
            return true;
    return false;
}

static bool has_functions(const struct spec_fabric *f)
{
    return f->sriov != NULL;
}

static bool has_rails(const struct spec_fabric *f)
{
    return k8s_rail_count(f) > 0;
}

static bool is_efa(const struct spec_fabric *f)
{
    return f->kind == SPEC_FABRIC_EFA;
}

static bool has_nv_pool(const struct spec_fabric *f)
{
    return has_rails(f) && k8s_ipam_kind(f) == SPEC_IPAM_NV;
}

static bool has_whereabouts(const struct spec_fabric *f)
{
    return has_rails(f) && k8s_ipam_kind(f) == SPEC_IPAM_WHEREABOUTS;
}

static bool uses_kind(const struct kube *q, enum kube_kind kind)
{
    for (size_t i = 0; i < q->work_count; i++)
        if (q->works[i].kind == kind)
            return true;
    return false;
}

static bool scales_by(const struct kube *q, bool cpu)
{
    for (size_t i = 0; i < q->work_count; i++) {
        const struct kube_work *w = &q->works[i];

        if (kube_scaled(w) && w->c->scale->target.known &&
            (w->c->scale->metric == SPEC_METRIC_CPU_UTILIZATION) == cpu)
            return true;
    }
    return false;
}

static bool has_gpus(const struct spec *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].gpus_per_node)
            return true;
    return false;
}

/* ---- helpers of the script ---- */

static const char HELPERS[] =
    "# foreign CRD RELEASE NAMESPACE: is the kind there, and not by this script?\n"
    "foreign() {\n"
    "    kubectl get crd \"$1\" >/dev/null 2>&1 && ! helm -n \"$3\" status \"$2\" >/dev/null 2>&1\n"
    "}\n"
    "\n";

static void chart_write(struct buf *out, const struct chart *c)
{
    const char *in = c->crd ? "        " : "    ";

    buf_addf(out, "    # %s; values by chart %s\n", c->what, c->version);
    if (c->crd)
        buf_addf(out,
                 "    if foreign %s %s %s; then\n"
                 "        echo '# %s: the site has it already'\n"
                 "    else\n",
                 c->crd, c->release, c->namespace, c->release);
    buf_addf(out, "%srun helm upgrade --install %s %s \\\n", in, c->release, c->where);
    buf_addf(out, "%s    --version \"${%s:-%s}\" --namespace %s --create-namespace \\\n", in,
             c->variable, c->version, c->namespace);
    for (const char *p = c->options; p && *p;) {
        const char *end = strchr(p, '\n');

        buf_addf(out, "%s    %.*s\n", in, (int)(end - p), p);
        p = end + 1;
    }
    buf_addf(out, "%s    --wait\n", in);
    if (c->crd)
        buf_adds(out, "    fi\n");
}

static void put_rollout(struct buf *out, const char *namespace, const char *deployment)
{
    buf_addf(out, "    run kubectl -n %s rollout status deployment/%s --timeout=5m\n", namespace,
             deployment);
}

/* ---- kinds that others make objects of ---- */

/* Selectors: objects of every namespace, not only those with the label of the chart's release. */
static const struct chart prometheus_chart = {
    .what = "Prometheus Operator: PodMonitor, ServiceMonitor, PrometheusRule",
    .release = "kube-prometheus-stack",
    .where = "oci://ghcr.io/prometheus-community/charts/kube-prometheus-stack",
    .version = "88.5.3",
    .variable = "PROMETHEUS_STACK_VERSION",
    .namespace = KUBE_PROMETHEUS_NAMESPACE,
    .crd = "podmonitors.monitoring.coreos.com",
    .options = "--set prometheus.prometheusSpec.podMonitorSelectorNilUsesHelmValues=false \\\n"
               "--set prometheus.prometheusSpec.serviceMonitorSelectorNilUsesHelmValues=false \\\n"
               "--set prometheus.prometheusSpec.ruleSelectorNilUsesHelmValues=false \\\n",
};
static const struct chart keda_chart = {
    .what = "KEDA: ScaledObject",
    .release = "keda",
    .where = "keda --repo https://kedacore.github.io/charts",
    .version = "2.20.2",
    .variable = "KEDA_VERSION",
    .namespace = "keda",
    .crd = "scaledobjects.keda.sh",
};
static const struct chart metrics_chart = {
    .what = "metrics-server: CPU use of pods; kubeadm's kubelets sign their own certificates",
    .release = "metrics-server",
    .where = "metrics-server --repo https://kubernetes-sigs.github.io/metrics-server/",
    .version = "3.13.1",
    .variable = "METRICS_SERVER_VERSION",
    .namespace = "kube-system",
    .options = "--set 'args={--kubelet-insecure-tls}' \\\n",
};

/* ---- machines ---- */

static const struct chart gpu_chart = {
    .what = "GPU Operator: driver, container toolkit, device plug-in, labels of machines",
    .release = "gpu-operator",
    .where = "gpu-operator --repo https://helm.ngc.nvidia.com/nvidia",
    .version = "v26.7.0",
    .variable = "GPU_OPERATOR_VERSION",
    .namespace = "gpu-operator",
    .options = "--values \"$here/gpu-operator-values.yaml\" \\\n",
};
static const struct chart plugin_chart = {
    .what =
        "NVIDIA's device plug-in, with labels of GPUs; driver and toolkit are the machines' own",
    .release = "nvidia-device-plugin",
    .where = "nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin",
    .version = "0.20.0",
    .variable = "DEVICE_PLUGIN_VERSION",
    .namespace = "nvidia-device-plugin",
    .options = "--values \"$here/device-plugin-values.yaml\" \\\n",
};
static const struct chart nfd_chart = {
    .what = "Node Feature Discovery: labels of NICs",
    .release = "node-feature-discovery",
    .where = "oci://registry.k8s.io/nfd/charts/node-feature-discovery",
    .version = "0.19.0",
    .variable = "NFD_VERSION",
    .namespace = "node-feature-discovery",
    .options = "--set-json 'worker.tolerations=[{\"operator\":\"Exists\"}]' \\\n",
};
static const struct chart efa_chart = {
    .what = "EFA's device plug-in",
    .release = "aws-efa-k8s-device-plugin",
    .where = "aws-efa-k8s-device-plugin --repo https://aws.github.io/eks-charts",
    .version = "v0.5.30",
    .variable = "EFA_PLUGIN_VERSION",
    .namespace = "kube-system",
};

static void install_gpus(struct kube *q, struct buf *out)
{
    const char *driver = q->k.r->spec->software.driver;

    if (q->t->gpu_operator) {
        chart_write(out, &gpu_chart);
        buf_adds(out, "    run kubectl wait --for='jsonpath={.status.state}=ready' "
                      "clusterpolicy/cluster-policy --timeout=30m\n");
        if (driver) {
            buf_adds(out, "    # The driver must be ");
            quote_comment(out, driver);
            buf_addf(out, " or newer (%s):\n", render_from(q->k.r, &q->k.r->spec->software.driver));
            buf_adds(out, "    run kubectl -n gpu-operator exec ds/nvidia-driver-daemonset -- "
                          "nvidia-smi\n");
        }
    } else if (has_gpus(q->k.r->spec)) {
        chart_write(out, &plugin_chart);
    } else if (any_used(q, has_functions)) {
        chart_write(out, &nfd_chart);
    }
    if (q->t->runtime_class && !q->t->gpu_operator)
        buf_adds(out, "    run kubectl apply -f \"$here/cluster/runtime-class.yaml\"\n");
}

/* ---- networks ---- */

static const char *prefix_of(const struct kube *q)
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < s->fabric_count; i++)
        if (s->fabrics[i].sriov && kube_fabric_used(q, &s->fabrics[i]))
            return s->fabrics[i].sriov->resource_prefix;
    return NULL;
}

static bool has_networking(const struct kube *q)
{
    return any_used(q, has_rails) || any_used(q, k8s_rdma_shared);
}

static void install_networks(struct kube *q, struct buf *out)
{
    if (has_networking(q))
        buf_adds(out, "    # Multus, addresses and shared RDMA devices: as networking/ names them\n"
                      "    run kubectl apply --server-side -k \"$here/networking\"\n");
    if (any_used(q, has_rails))
        buf_adds(out, "    run kubectl wait --for=condition=Established --timeout=60s "
                      "crd/network-attachment-definitions.k8s.cni.cncf.io\n");
    if (any_used(q, has_nv_pool))
        buf_adds(out, "    run kubectl wait --for=condition=Established --timeout=60s "
                      "crd/ippools.nv-ipam.nvidia.com\n"
                      "    run kubectl apply -f \"$here/cluster/ip-pools.yaml\"\n");
    if (any_used(q, has_functions)) {
        struct chart c = {
            .what = "SR-IOV operator: virtual functions; `deploy` makes its configuration, without "
                    "which it does nothing",
            .release = "sriov-network-operator",
            .where = "oci://ghcr.io/k8snetworkplumbingwg/sriov-network-operator-chart",
            .version = "1.6.0",
            .variable = "SRIOV_OPERATOR_VERSION",
            .namespace = SRIOV_NAMESPACE,
        };
        struct buf options = { 0 };

        buf_adds(&options,
                 "--set sriovOperatorConfig.deploy=true \\\n--set operator.resourcePrefix=");
        quote_sh(&options, prefix_of(q));
        buf_adds(&options, " \\\n");
        c.options = buf_str(&options);
        chart_write(out, &c);
        buf_adds(out, "    run kubectl apply -f \"$here/cluster/sriov.yaml\"\n");
        buf_release(&options);
    }
    if (any_used(q, is_efa))
        chart_write(out, &efa_chart);
}

/* ---- jobs ---- */

static const struct chart queue_chart = {
    .what = "Kueue: a job starts when there is room for all its pods",
    .release = "kueue",
    .where = "oci://registry.k8s.io/kueue/charts/kueue",
    .version = KUEUE,
    .variable = "KUEUE_VERSION",
    .namespace = "kueue-system",
    .options = "--values \"$here/kueue-values.yaml\" \\\n",
};

static void install_jobs(struct kube *q, struct buf *out)
{
#define OVERLAY(name, at)                                                                          \
    "    run kubectl apply --server-side -k "                                                      \
    "'https://github.com/kubeflow/trainer.git/manifests/overlays/" name "?ref=" at "'\n"
    if (uses_kind(q, KUBE_PYTORCHJOB)) {
        buf_adds(out, "    # PyTorchJob: the training operator " TRAINING_OPERATOR
                      "\n" OVERLAY("standalone", TRAINING_OPERATOR));
        put_rollout(out, "kubeflow", "training-operator");
    }
    if (uses_kind(q, KUBE_TRAINJOB)) {
        buf_adds(out, "    # TrainJob: Trainer " TRAINER
                      " with JobSet; its webhook answers before runtimes are sent\n" OVERLAY(
                          "manager", TRAINER));
        put_rollout(out, "kubeflow-system", "kubeflow-trainer-controller-manager");
        put_rollout(out, "kubeflow-system", "jobset-controller-manager");
        buf_adds(out, "    # the runtime torch-distributed\n" OVERLAY("runtimes", TRAINER));
    }
    if (uses_kind(q, KUBE_JOBSET)) {
        buf_adds(out, "    # JobSet " JOBSET "\n"
                      "    run kubectl apply --server-side -f "
                      "'https://github.com/kubernetes-sigs/jobset/releases/download/" JOBSET
                      "/manifests.yaml'\n");
        put_rollout(out, "jobset-system", "jobset-controller-manager");
    }
    if (q->t->queue) {
        chart_write(out, &queue_chart);
        put_rollout(out, "kueue-system", "kueue-controller-manager");
    }
#undef OVERLAY
}

/* What the releases that are installed ask of the cluster, by their own pages: Kueue's README,
 * JobSet's ("one of the last 3 minor versions", tested on 1.32 to 1.34), the README of Trainer's
 * chart.  The charts of the others take 1.25 and older (`kubeVersion`), which are refused. */
void kube_release_check(struct kube *q)
{
    const struct {
        bool used;
        int minor;
        const char *what;
        const void *at;
    } rows[] = {
        { q->t->queue != NULL, 29, "Kueue " KUEUE, &q->t->queue },
        { uses_kind(q, KUBE_JOBSET), 32, "JobSet " JOBSET, &q->t->job },
        { uses_kind(q, KUBE_TRAINJOB), 31, "Trainer " TRAINER, &q->t->job },
    };
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].used && q->k.minor < rows[i].minor)
            render_warn(q->k.r,
                        spec_where(s, &q->t->version).line ? (const void *)&q->t->version
                                                           : rows[i].at,
                        "Say the cluster's release in 'targets.kubernetes.version', or install an "
                        "older one by hand.",
                        "node-prepare.sh installs %s, which needs Kubernetes 1.%d: the files are "
                        "for 1.%d",
                        rows[i].what, rows[i].minor, q->k.minor);
}

/* ---- what the site has ---- */

/* Classes of the claims that the manifests make; without one it is the cluster's default. */
static void ask_classes(struct kube *q, struct buf *out)
{
    const struct spec *s = q->k.r->spec;
    struct buf seen = { 0 };
    bool plain = false;

    for (size_t i = 0; i < s->storage_count; i++) {
        const struct spec_storage *t = &s->storage[i];
        const char *class = t->storage_class ? t->storage_class : q->t->storage_class;

        if (!kube_mounted(q, t) || t->kind == SPEC_STORAGE_MEMORY ||
            t->kind == SPEC_STORAGE_OBJECT || k8s_static_volume(t))
            continue;
        if (class) {
            struct buf key = { 0 };

            buf_addf(&key, "\n%s\n", class);
            if (!strstr(buf_str(&seen), buf_str(&key))) {
                buf_adds(&seen, buf_str(&key));
                buf_adds(out, "    run kubectl get storageclass ");
                quote_sh(out, class);
                buf_addc(out, '\n');
            }
            buf_release(&key);
        }
        plain = plain || !class;
    }
    if (plain)
        buf_adds(out, "    # claims without a class: one of these must be marked as the default\n"
                      "    run kubectl get storageclass\n");
    buf_release(&seen);
}

static void ask_secrets(struct kube *q, struct buf *out, const char *namespace)
{
    for (size_t i = 0; i < q->t->pull_secrets.count; i++) {
        buf_addf(out, "    run kubectl -n %s get secret ", namespace);
        quote_sh(out, q->t->pull_secrets.items[i]);
        buf_addc(out, '\n');
    }
}

static bool fabric_attaches(void *of, const struct spec_fabric *f)
{
    return kube_fabric_used(of, f);
}

static void ask_site(struct kube *q, struct buf *out)
{
    buf_adds(out, "    # what the site has, or makes now\n");
    ask_classes(q, out);
    if (q->t->priority_class) {
        buf_adds(out, "    run kubectl get priorityclass ");
        quote_sh(out, q->t->priority_class);
        buf_addc(out, '\n');
    }
    buf_adds(out, "    run kubectl apply -f \"$here/base/namespace.yaml\"\n");
    k8s_script_namespaces(&q->k, out, "kubectl", fabric_attaches, q);
    if (q->serves)
        buf_addf(out, "    secret %s\n", q->k.namespace);
    if (q->agent)
        buf_addf(out, "    secret %s\n", q->watch.namespace);
    ask_secrets(q, out, q->k.namespace);
    if (q->agent)
        ask_secrets(q, out, q->watch.namespace);
}

/* ---- the manifests ---- */

static void script_manifests(struct kube *q, struct buf *out)
{
    struct buf scaled = { 0 }, first = { 0 }, headless = { 0 };

    if (q->t->queue) { /* quotas and places follow every change of the machines, too */
        kube_queue_labels(q, &first);
        buf_adds(&first, "    run kubectl apply -f \"$here/cluster/queues.yaml\"\n");
    }
    for (size_t i = 0; i < q->work_count; i++) {
        const char *name = kube_headless(q, &q->works[i]);

        if (name)
            buf_addf(&headless, "%s%s", headless.len ? " " : "", name);
        if (kube_scaled(&q->works[i]))
            buf_addf(&scaled, "%s%s/%s=%" PRId64, scaled.len ? " " : "",
                     q->works[i].kind == KUBE_STATEFULSET ? "statefulset" : "deployment",
                     q->works[i].name, q->works[i].pods);
    }
    k8s_script_apply(&q->k, out,
                     &(struct k8s_apply){ .tool = "kubectl",
                                          .script = "node-prepare.sh",
                                          .folder = "\"$here/overlays/site\"",
                                          .also = q->agent ? q->watch.namespace : NULL,
                                          .scaled = buf_str(&scaled),
                                          .headless = buf_str(&headless),
                                          .first = q->t->queue ? buf_str(&first) : NULL });
    buf_release(&scaled);
    buf_release(&first);
    buf_release(&headless);
}

/* What a kubelet may not give itself: most labels of kubernetes.io. */
static void label_machines(struct kube *q, struct buf *out)
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        for (size_t j = 0; j < n->labels.count; j++) {
            const struct spec_pair *p = &n->labels.items[j];

            if (k8s_label_by(p->key) != K8S_LABEL_ADMIN)
                continue;
            buf_addf(out,
                     "    # %s\n    run kubectl label node --overwrite -l " K8S_GROUP_LABEL "=%s ",
                     render_from(q->k.r, p), n->name);
            quote_sh(out, p->key);
            buf_addc(out, '=');
            quote_sh(out, p->value);
            buf_addc(out, '\n');
        }
    }
}

void kube_install_script(struct kube *q, struct buf *out)
{
    bool monitored = q->site_count > 0;

    buf_adds(out, HELPERS);
    if (q->agent || q->serves)
        buf_adds(out, K8S_SCRIPT_SECRET("kubectl"));
    if (q->t->queue)
        k8s_script_mark(out, "kubectl");
    script_manifests(q, out);
    buf_adds(out, "operators() {\n");
    label_machines(q, out);
    buf_adds(out, "    # namespaces whose pods reach into machines\n"
                  "    run kubectl apply -f \"$here/cluster/00-namespaces.yaml\"\n");
    if (monitored)
        chart_write(out, &prometheus_chart);
    if (scales_by(q, false))
        chart_write(out, &keda_chart);
    if (scales_by(q, true))
        chart_write(out, &metrics_chart);
    install_gpus(q, out);
    install_networks(q, out);
    install_jobs(q, out);
    ask_site(q, out);
    buf_adds(out, "    manifests\n}\n\n");
}

/* ---- files of the cluster ---- */

static void put_privileged(struct kube *q, struct buf *out, const char *name)
{
    struct yaml_out y;

    yaml_begin(&y, out);
    yaml_str(&y, "apiVersion", "v1");
    yaml_str(&y, "kind", "Namespace");
    yaml_map(&y, "metadata");
    yaml_str(&y, "name", name);
    yaml_map_of(&y, "labels", "app.kubernetes.io/managed-by", "stoker",
                "pod-security.kubernetes.io/enforce", "privileged");
    yaml_finish(&y);
    (void)q;
}

static void namespaces_file(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/cluster/00-namespaces.yaml");

    render_head(q->k.r, out, "#",
                "Namespaces of operators whose pods reach into machines: a cluster that holds pods "
                "to a standard must let them.");
    put_privileged(q, out, q->t->gpu_operator ? "gpu-operator" : "nvidia-device-plugin");
    put_privileged(q, out, KUBE_PROMETHEUS_NAMESPACE);
    if (any_used(q, has_functions))
        put_privileged(q, out, SRIOV_NAMESPACE);
}

static void runtime_file(struct kube *q)
{
    struct buf *out;
    struct yaml_out y;

    if (!q->t->runtime_class || q->t->gpu_operator)
        return;
    out = render_file(q->k.r, "kubernetes/cluster/runtime-class.yaml");
    render_head(q->k.r, out, "#", "The runtime of pods with GPUs, as nvidia-ctk names it.");
    k8s_object_in(&q->k, &y, out, "node.k8s.io/v1", "RuntimeClass", NULL, q->t->runtime_class,
                  NULL);
    yaml_str(&y, "handler", "nvidia");
    yaml_finish(&y);
}

/* ---- Multus, addresses and shared devices ---- */

#define RAW "https://raw.githubusercontent.com/"

static void put_image(struct yaml_out *y, const char *name, const char *tag)
{
    yaml_map_of(y, NULL, "name", name, "newTag", tag);
}

static void networking_resources(struct kube *q, struct yaml_out *y)
{
    static const char *const whereabouts[] = {
        "daemonset-install.yaml",
        "reconciler-deployment.yaml",
        "whereabouts.cni.cncf.io_ippools.yaml",
        "whereabouts.cni.cncf.io_nodeslicepools.yaml",
        "whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml",
    };

    yaml_seq(y, "resources");
    if (any_used(q, has_rails))
        yaml_str(y, NULL,
                 RAW "k8snetworkplumbingwg/multus-cni/" MULTUS
                     "/deployments/multus-daemonset-thick.yml");
    for (size_t i = 0; any_used(q, has_whereabouts) && i < ARRAY_SIZE(whereabouts); i++)
        yaml_strf(y, NULL, RAW "k8snetworkplumbingwg/whereabouts/" WHEREABOUTS "/doc/crds/%s",
                  whereabouts[i]);
    if (any_used(q, has_nv_pool))
        yaml_str(y, NULL,
                 "https://github.com/Mellanox/nvidia-k8s-ipam/deploy/overlays/no-webhook"
                 "?ref=" K8S_NV_IPAM);
    if (any_used(q, k8s_rdma_shared)) {
        yaml_str(y, NULL, "rdma-devices.yaml");
        yaml_str(y, NULL,
                 RAW "Mellanox/k8s-rdma-shared-dev-plugin/" RDMA_SHARED
                     "/deployment/k8s/base/daemonset.yaml");
    }
    yaml_end(y);
}

/* Their own files name moving tags, and bear few taints: machines with GPUs have others. */
static void networking_file(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/networking/kustomization.yaml");
    struct yaml_out y;

    render_head(q->k.r, out, "#",
                "What attaches pods to networks beside the cluster's own, by fixed releases.");
    yaml_begin(&y, out);
    yaml_str(&y, "apiVersion", "kustomize.config.k8s.io/v1beta1");
    yaml_str(&y, "kind", "Kustomization");
    networking_resources(q, &y);
    yaml_seq(&y, "images");
    if (any_used(q, has_rails))
        put_image(&y, "ghcr.io/k8snetworkplumbingwg/multus-cni", MULTUS "-thick");
    if (any_used(q, has_whereabouts))
        put_image(&y, "ghcr.io/k8snetworkplumbingwg/whereabouts", WHEREABOUTS);
    if (any_used(q, has_nv_pool))
        put_image(&y, "ghcr.io/mellanox/nvidia-k8s-ipam", K8S_NV_IPAM);
    if (any_used(q, k8s_rdma_shared))
        put_image(&y, "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin", RDMA_SHARED);
    yaml_end(&y);
    yaml_open(&y, "patches[]");
    yaml_note(&y, "on every machine, whatever its taints");
    yaml_text(&y, "patch",
              "- op: add\n  path: /spec/template/spec/tolerations\n  value: "
              "[{operator: Exists}]\n");
    yaml_map_of(&y, "target", "kind", "DaemonSet");
    yaml_finish(&y);
}

/* The devices of a fabric on all machines; without names every device of the kind, which two
 * fabrics would share. */
static void device_names(const struct spec *s, struct json_out *w, const struct spec_fabric *f)
{
    bool listed = false, named = f->interfaces.count > 0, common = false;

    for (size_t g = 0; g < s->node_count; g++) {
        const struct spec_strs *own = spec_group_nics(&s->nodes[g], f).interfaces;

        if (!spec_group_on(&s->nodes[g], f))
            continue;
        listed = true;
        named = named && own->count;
        common = common || own == &f->interfaces;
    }
    if (!named)
        return;
    json_kv_arr(w, "ifNames");
    for (size_t i = 0; (common || !listed) && i < f->interfaces.count; i++)
        json_add_str(w, f->interfaces.items[i]);
    for (size_t g = 0; g < s->node_count; g++) {
        const struct spec_strs *own = spec_group_nics(&s->nodes[g], f).interfaces;
        bool there = spec_group_on(&s->nodes[g], f) && own != &f->interfaces;

        for (size_t i = 0; there && i < own->count; i++)
            json_add_str(w, own->items[i]);
    }
    json_arr_end(w);
}

static void device_config(struct kube *q, struct json_out *w, const struct spec_fabric *f)
{
    json_obj(w);
    json_kv_str(w, "resourceName", k8s_rail_resource_bare(&q->k, f, 0));
    json_kv_int(w, "rdmaHcaMax", 64);
    json_kv_obj(w, "selectors");
    json_kv_arr(w, "linkTypes");
    json_add_str(w, f->kind == SPEC_FABRIC_INFINIBAND ? "infiniband" : "ether");
    json_arr_end(w);
    device_names(q->k.r->spec, w, f);
    json_obj_end(w);
    json_obj_end(w);
}

static void devices_file(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    struct buf json = { 0 };
    struct buf *out = render_file(q->k.r, "kubernetes/networking/rdma-devices.yaml");
    struct json_out w;
    struct yaml_out y;

    json_out_init(&w, &json, 2);
    json_obj(&w);
    json_kv_arr(&w, "configList");
    for (size_t i = 0; i < s->fabric_count; i++)
        if (kube_fabric_used(q, &s->fabrics[i]) && k8s_rdma_shared(&s->fabrics[i]))
            device_config(q, &w, &s->fabrics[i]);
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(&json, '\n');
    render_head(q->k.r, out, "#", "RDMA devices that pods share, for k8s-rdma-shared-dev-plugin.");
    k8s_object_in(&q->k, &y, out, "v1", "ConfigMap", "kube-system", "rdma-devices", NULL);
    yaml_map(&y, "data");
    yaml_text(&y, "config.json", buf_str(&json));
    yaml_finish(&y);
    buf_release(&json);
}

/* ---- pools of nv-ipam ---- */

static void pools_file(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    struct buf *out = render_file(q->k.r, "kubernetes/cluster/ip-pools.yaml");

    render_head(q->k.r, out, "#", "Addresses of pods on networks of nv-ipam, by machine.");
    for (size_t i = 0; i < s->fabric_count; i++)
        for (size_t j = 0; kube_fabric_used(q, &s->fabrics[i]) && has_nv_pool(&s->fabrics[i]) &&
                           j < s->fabrics[i].subnets.count;
             j++)
            k8s_ip_pool(&q->k, out, IPAM_NAMESPACE, &s->fabrics[i], j);
}

static void sriov_file(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    struct buf *out = render_file(q->k.r, "kubernetes/cluster/sriov.yaml");

    render_head(q->k.r, out, "#", "Virtual functions on the machines' NICs.");
    for (size_t i = 0; i < s->fabric_count; i++) {
        const struct spec_fabric *f = &s->fabrics[i];

        if (!f->sriov || !kube_fabric_used(q, f))
            continue;
        if (!str_eq(f->sriov->resource_prefix, prefix_of(q)))
            render_refuse(q->k.r, &f->sriov->resource_prefix, "Give all fabrics the same.",
                          "the SR-IOV operator has one prefix, and another fabric says '%s'",
                          prefix_of(q));
        for (size_t j = 0; j < (k8s_rails_apart(f) ? k8s_rail_count(f) : 1); j++)
            k8s_sriov_policy(&q->k, out, SRIOV_NAMESPACE, f, j);
    }
}

void kube_install_write(struct kube *q)
{
    namespaces_file(q);
    runtime_file(q);
    if (!q->t->gpu_operator && has_gpus(q->k.r->spec))
        kube_plugin_write(q);
    if (has_networking(q))
        networking_file(q);
    if (any_used(q, k8s_rdma_shared))
        devices_file(q);
    if (any_used(q, has_nv_pool))
        pools_file(q);
    if (any_used(q, has_functions))
        sriov_file(q);
}

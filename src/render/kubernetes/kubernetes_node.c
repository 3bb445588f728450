/* SPDX-License-Identifier: MIT */
/* kubernetes_node: what an administrator does once: prepares machines, installs the operators that
 * the manifests rely on.  The script prints what it would do, and does it with --apply. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

static bool any_fabric(const struct spec *s, bool (*is)(const struct spec_fabric *f))
{
    for (size_t i = 0; i < s->fabric_count; i++)
        if (is(&s->fabrics[i]))
            return true;
    return false;
}

static bool is_rdma(const struct spec_fabric *f)
{
    return f->kind == SPEC_FABRIC_ROCE || f->kind == SPEC_FABRIC_INFINIBAND;
}

static bool is_direct(const struct spec_fabric *f)
{
    return f->gpudirect;
}

static bool is_roce(const struct spec_fabric *f)
{
    return f->kind == SPEC_FABRIC_ROCE;
}

int64_t kube_shares(const struct kube *q, const struct spec_node *n)
{
    int64_t count = feasible_shares(q->k.r->spec, n,
                                    &(struct feasible_opts){ .kubernetes_by_name = q->k.by_name });

    return count > 1 ? count : 1;
}

/* ---- the script ---- */

static const char HEAD[] =
    "#\n"
    "#   sh node-prepare.sh machine GROUP          print what a machine of GROUP needs\n"
    "#   sh node-prepare.sh --apply machine GROUP  do it (root, Debian or Ubuntu)\n"
    "#   sh node-prepare.sh control                the first of the control plane, after machine\n"
    "#   sh node-prepare.sh operators              what the manifests rely on, then the manifests\n"
    "#   sh node-prepare.sh manifests              the manifests alone, after each change\n"
    "#   sh node-prepare.sh prune                  deletes what the spec no longer names\n"
    "set -eu\n" K8S_SCRIPT_APPLY "# put FILE: standard input becomes FILE\n"
    "put() {\n"
    "    if $apply; then\n"
    "        mkdir -p \"$(dirname \"$1\")\"\n"
    "        cat >\"$1\"\n"
    "    else\n"
    "        echo \"+ write $1:\"\n"
    "        sed 's/^/+   /'\n"
    "    fi\n"
    "}\n"
    "\n";

static void script_versions(struct kube *q, struct buf *out)
{
    buf_addf(out,
             "# Kubernetes release (%s); packages of it come from the project's own repository.\n"
             "minor=%d\n"
             "kubeadm_api=%s\n",
             render_from(q->k.r, &q->t->version), q->k.minor,
             k8s_has(&q->k, K8S_KUBEADM_V1BETA4) ? "v1beta4" : "v1beta3");
    buf_addc(out, '\n');
}

static const char SWAP[] =
    "# The kubelet counts memory without swap, and a GPU job that swaps is lost anyway.\n"
    "swap_off() {\n"
    "    run swapoff -a\n"
    "    run sed -i.before-kubernetes -E 's@^([^#].*[[:space:]]swap[[:space:]].*)$@#\\1@' "
    "/etc/fstab\n"
    "}\n\n";

static void script_modules(struct kube *q, struct buf *out)
{
    const struct spec *s = q->k.r->spec;
    bool peermem = any_fabric(s, is_direct) && !q->t->gpu_operator;

    buf_adds(out,
             "# overlay: layers of images. br_netfilter: Services see traffic between pods.\n");
    if (any_fabric(s, is_rdma))
        buf_adds(out, "# rdma_ucm, ib_umad: RDMA from user space.\n");
    if (peermem)
        buf_adds(out, "# nvidia-peermem: NICs reach GPU memory.\n");
    buf_adds(out, "modules() {\n    put /etc/modules-load.d/kubernetes.conf <<'END'\n"
                  "overlay\nbr_netfilter\n");
    if (any_fabric(s, is_rdma))
        buf_adds(out, "rdma_ucm\nib_umad\n");
    if (peermem)
        buf_adds(out, "nvidia-peermem\n");
    buf_adds(out, "END\n    run modprobe overlay\n    run modprobe br_netfilter\n");
    if (any_fabric(s, is_rdma))
        buf_adds(out, "    run modprobe rdma_ucm\n    run modprobe ib_umad\n");
    if (peermem)
        buf_adds(out, "    run modprobe nvidia-peermem\n");
    buf_adds(out, "}\n\n");
}

static void script_sysctls(struct kube *q, struct buf *out)
{
    buf_adds(out, "# Forwarding and filtering for pods; many mappings, which large models need.\n");
    if (any_fabric(q->k.r->spec, is_roce))
        buf_adds(out, "# rp_filter and arp_*: several NICs in one subnet answer for themselves.\n");
    buf_adds(out, "sysctls() {\n    put /etc/sysctl.d/90-kubernetes.conf <<'END'\n"
                  "net.bridge.bridge-nf-call-iptables = 1\n"
                  "net.bridge.bridge-nf-call-ip6tables = 1\n"
                  "net.ipv4.ip_forward = 1\n"
                  "vm.max_map_count = 1048576\n"
                  "fs.inotify.max_user_instances = 8192\n");
    if (any_fabric(q->k.r->spec, is_roce))
        buf_adds(out, "net.ipv4.conf.all.rp_filter = 2\n"
                      "net.ipv4.conf.all.arp_ignore = 1\n"
                      "net.ipv4.conf.all.arp_announce = 2\n");
    buf_adds(out, "END\n    run sysctl --system\n}\n\n");
}

static void script_runtime(struct kube *q, struct buf *out)
{
    buf_adds(
        out,
        "# containerd with systemd's cgroups, as the kubelet has them. Locked memory without a\n"
        "# limit: RDMA locks its buffers, and pods are not root.\n"
        "runtime() {\n"
        "    run apt-get update\n"
        "    run apt-get install -y containerd apt-transport-https ca-certificates curl gpg\n"
        "    containerd config default 2>/dev/null |\n"
        "        sed 's/SystemdCgroup = false/SystemdCgroup = true/' |\n"
        "        put /etc/containerd/config.toml\n"
        "    put /etc/systemd/system/containerd.service.d/memlock.conf <<'END'\n"
        "[Service]\n"
        "LimitMEMLOCK=infinity\n"
        "END\n");
    if (!q->t->gpu_operator)
        buf_adds(out,
                 "    # without the GPU Operator the driver and its container toolkit are the "
                 "machine's own\n"
                 "    run apt-get install -y nvidia-container-toolkit\n"
                 "    run nvidia-ctk runtime configure --runtime=containerd --set-as-default\n");
    buf_adds(out, "    run systemctl daemon-reload\n    run systemctl restart containerd\n}\n\n");
}

static const char PACKAGES[] =
    "# kubeadm, kubelet and kubectl of one release, held there: upgrades are a decision.\n"
    "packages() {\n"
    "    url=https://pkgs.k8s.io/core:/stable:/v1.$minor/deb\n"
    "    key=/etc/apt/keyrings/kubernetes.gpg\n"
    "    run mkdir -p /etc/apt/keyrings\n"
    "    run sh -c \"curl -fsSL $url/Release.key | gpg --dearmor --yes -o $key\"\n"
    "    echo \"deb [signed-by=$key] $url/ /\" | put /etc/apt/sources.list.d/kubernetes.list\n"
    "    run apt-get update\n"
    "    run apt-get install -y kubelet kubeadm kubectl\n"
    "    run apt-mark hold kubelet kubeadm kubectl\n"
    "}\n\n";

static void script_groups(struct kube *q, struct buf *out)
{
    const struct spec *s = q->k.r->spec;

    buf_adds(out, "# Labels and taints with which a machine of a node group joins.\n"
                  "group_of() {\n    case \"$1\" in\n");
    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        struct buf labels = { 0 }, taints = { 0 };

        buf_addf(&labels, "%s=%s", K8S_GROUP_LABEL, n->name);
        if (n->gpus_per_node && kube_shares(q, n) > 1)
            buf_addf(&labels, ",nvidia.com/device-plugin.config=%s", n->name);
        if (feasible_mig_instances(n) && q->t->gpu_operator)
            buf_addf(&labels, ",nvidia.com/mig.config=%s", n->name);
        for (size_t j = 0; j < n->labels.count; j++) {
            const char *key = n->labels.items[j].key;

            if (k8s_label_by(key) == K8S_LABEL_JOIN)
                buf_addf(&labels, ",%s=%s", key, n->labels.items[j].value);
        }
        for (size_t j = 0; j < n->taints.count; j++)
            buf_addf(&taints, "%s%s", j ? "," : "", n->taints.items[j]);
        buf_addf(out, "    %s) # %s, %" PRId64 " machine%s: ", n->name,
                 render_from(q->k.r, &n->name), n->count, n->count == 1 ? "" : "s");
        spec_hosts(n, out);
        buf_adds(out, "\n        labels=");
        quote_sh(out, buf_str(&labels));
        buf_adds(out, "\n        taints=");
        quote_sh(out, buf_str(&taints));
        if (kube_cuts_gpus(q)) {
            buf_adds(out, "\n        mig='");
            kube_cut_of(n, out);
            buf_addc(out, '\'');
        }
        buf_adds(out, "\n        ;;\n");
        buf_release(&labels);
        buf_release(&taints);
    }
    buf_adds(out, "    *)\n        echo \"node-prepare.sh: no node group '$1'\" >&2\n"
                  "        exit 2\n        ;;\n    esac\n}\n\n");
}

static const char MACHINE[] = "machine() {\n"
                              "    group_of \"$1\"\n"
                              "    swap_off\n"
                              "    modules\n"
                              "    sysctls\n"
                              "    runtime\n"
                              "    packages\n";

static const char JOIN[] =
    "    args=\"--node-labels=$labels${taints:+ --register-with-taints=$taints}\"\n"
    "    echo \"KUBELET_EXTRA_ARGS=$args\" | put /etc/default/kubelet\n"
    "    run systemctl enable kubelet\n"
    "    echo \"# Join it with what the control plane prints: kubeadm token create "
    "--print-join-command\"\n"
    "}\n\n"
    "# The first control-plane machine. Cores and NUMA: a pod that asks for whole cores gets\n"
    "# them, next to its GPUs and NICs.\n"
    "control() {\n"
    "    put /etc/kubernetes/kubeadm-config.yaml <<END\n"
    "apiVersion: kubeadm.k8s.io/$kubeadm_api\n"
    "kind: ClusterConfiguration\n"
    "kubernetesVersion: stable-1.$minor\n"
    "networking:\n"
    "  podSubnet: 10.244.0.0/16\n"
    "---\n"
    "apiVersion: kubelet.config.k8s.io/v1beta1\n"
    "kind: KubeletConfiguration\n"
    "cgroupDriver: systemd\n"
    "cpuManagerPolicy: static\n"
    "topologyManagerPolicy: best-effort\n"
    "kubeReserved:\n"
    "  cpu: \"1\"\n"
    "  memory: 4Gi\n"
    "systemReserved:\n"
    "  cpu: \"1\"\n"
    "  memory: 4Gi\n"
    "END\n"
    "    run kubeadm init --config /etc/kubernetes/kubeadm-config.yaml\n"
    "    echo '# Then a network plug-in that enforces NetworkPolicy (Calico, Cilium).'\n"
    "}\n\n";

static const char MAIN[] =
    "case \"${1-}\" in\n"
    "machine) machine \"${2?name a node group}\" ;;\n"
    "control) control ;;\n"
    "operators) operators ;;\n"
    "manifests) manifests ;;\n"
    "prune) prune ;;\n"
    "*)\n"
    "    echo \"usage: node-prepare.sh [--apply] machine GROUP | control | operators | "
    "manifests | prune\" >&2\n"
    "    exit 2\n"
    "    ;;\n"
    "esac\n";

void kube_node_write(struct kube *q)
{
    struct buf *out = render_script(q->k.r, "kubernetes/node-prepare.sh");

    buf_adds(out, "#!/bin/sh\n");
    render_head(q->k.r, out, "#", "Prepares machines for Kubernetes, step by step.");
    buf_adds(out, HEAD);
    script_versions(q, out);
    buf_adds(out, SWAP);
    script_modules(q, out);
    script_sysctls(q, out);
    script_runtime(q, out);
    buf_adds(out, PACKAGES);
    script_groups(q, out);
    if (kube_cuts_gpus(q))
        kube_cut_script(out);
    buf_adds(out, MACHINE);
    if (kube_cuts_gpus(q))
        buf_adds(out, "    test -z \"$mig\" || mig\n");
    buf_adds(out, JOIN);
    buf_adds(out, "here=$(cd \"$(dirname \"$0\")\" && pwd)\n\n");
    kube_install_script(q, out);
    buf_adds(out, MAIN);
}

/* ---- the GPU Operator ---- */

static size_t gpu_groups(const struct kube *q, bool shared)
{
    const struct spec *s = q->k.r->spec;
    size_t count = 0;

    for (size_t i = 0; i < s->node_count; i++)
        count += s->nodes[i].gpus_per_node && (!shared || kube_shares(q, &s->nodes[i]) > 1);
    return count;
}

size_t kube_sharing_groups(const struct kube *q)
{
    return gpu_groups(q, true);
}

static const char *sharing_text(struct kube *q, const struct spec_node *n)
{
    bool mps = n->gpu && n->gpu->sharing == SPEC_SHARING_MPS;

    return arena_printf(&q->k.arena,
                        "version: v1\nsharing:\n  %s:\n    failRequestsGreaterThanOne: true\n"
                        "    resources:\n    - name: nvidia.com/gpu\n      replicas: %" PRId64 "\n",
                        mps ? "mps" : "timeSlicing", kube_shares(q, n));
}

void kube_sharing_data(struct kube *q, struct yaml_out *y, const char *key)
{
    const struct spec *s = q->k.r->spec;

    yaml_map(y, key);
    for (size_t i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].gpus_per_node || kube_shares(q, &s->nodes[i]) < 2)
            continue;
        yaml_note(y, "its components with a pool and no GPU of their own share one");
        yaml_text(y, s->nodes[i].name, sharing_text(q, &s->nodes[i]));
    }
    yaml_end(y);
}

const char *kube_sharing_default(const struct kube *q)
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; gpu_groups(q, false) == 1 && i < s->node_count; i++)
        if (s->nodes[i].gpus_per_node)
            return s->nodes[i].name;
    return "";
}

/* Is a GPU of the group one share of it only? */
static const struct spec_component *sharing_component(const struct kube *q,
                                                      const struct spec_node *n)
{
    for (size_t i = 0; n && i < q->work_count; i++)
        if (k8s_shares_gpu(q->works[i].c) && spec_component_on(q->k.r->spec, q->works[i].c, n) &&
            kube_shares(q, n) > 1)
            return q->works[i].c;
    return NULL;
}

/* The server of models without a component takes GPUs as a component does. */
static void serve_sharing_check(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    const struct spec_node **groups =
        arena_array(&q->k.arena, const struct spec_node *, s->node_count + 1);
    int64_t gpus = k8s_has_models(s, NULL) ? feasible_serve_request(s).gpus : 0;
    size_t count = gpus ? feasible_groups(s, NULL, groups) : 0;

    for (size_t i = 0; i < count; i++) {
        const struct spec_component *c = sharing_component(q, groups[i]);
        bool mps = groups[i]->gpu && groups[i]->gpu->sharing == SPEC_SHARING_MPS;

        if (c && (gpus > 1 || mps))
            render_refuse(q->k.r, &c->pools,
                          "Give the models a component, whose 'nodes' are another group.",
                          "'%s' shares a GPU of '%s' where stoker serve, for models of no "
                          "component, takes %" PRId64 ": Kubernetes shares all GPUs of a machine "
                          "or none",
                          c->name, groups[i]->name, gpus);
        else if (c)
            render_warn(q->k.r, &c->pools,
                        "Give the models a component, whose 'nodes' are another group.",
                        "the GPU of stoker serve, for models of no component, is not its own: "
                        "'%s' shares those of '%s'",
                        c->name, groups[i]->name);
    }
}

/* The device plug-in shares all GPUs of a machine or none, and then gives one at a time; with MPS
 * each has its part of the memory, who asked for a GPU too. */
void kube_sharing_check(struct kube *q)
{
    for (size_t i = 0; i < q->work_count; i++) {
        const struct spec_component *o = q->works[i].c, *c = NULL;
        const struct spec_node *n = NULL;

        for (size_t g = 0; o->gpus && !c; g++) {
            n = spec_component_group(q->k.r->spec, o, g);
            if (!n)
                break;
            c = sharing_component(q, n);
        }
        if (c && (o->gpus > 1 || (n->gpu && n->gpu->sharing == SPEC_SHARING_MPS)))
            render_refuse(q->k.r, &c->pools, "Give it GPUs of its own, or a node group of its own.",
                          "'%s' shares a GPU where '%s' takes %" PRId64
                          ": Kubernetes shares all GPUs of a machine or none",
                          c->name, o->name, o->gpus);
        else if (c)
            render_warn(q->k.r, &o->gpus, "Give it a node group of its own.",
                        "the GPU of '%s' is not its own: '%s' shares those of '%s', and up to "
                        "%" PRId64 " pods meet at each",
                        o->name, c->name, n->name, kube_shares(q, n));
    }
    serve_sharing_check(q);
}

static const struct spec_node *group_of_both(const struct spec *s, const struct spec_component *a,
                                             const struct spec_component *b)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].gpu && s->nodes[i].gpu->sharing == SPEC_SHARING_MPS &&
            spec_component_on(s, a, &s->nodes[i]) && spec_component_on(s, b, &s->nodes[i]))
            return &s->nodes[i];
    return NULL;
}

/* The plug-in starts one MPS daemon a machine (`nvidia-cuda-mps-control -d`, mps/daemon.go), whose
 * server has one user at a time: clients of another wait until it has no client left, which those
 * of services never come to. */
void kube_mps_users_check(struct kube *q)
{
    for (size_t i = 0; i < q->work_count; i++)
        for (size_t j = 0; j < i; j++) {
            const struct spec_component *a = q->works[j].c, *b = q->works[i].c;
            struct maybe ours = k8s_uid(a), its = k8s_uid(b);
            const struct spec_node *n = group_of_both(q->k.r->spec, a, b);

            if (!n || !ours.known || !its.known || ours.v == its.v ||
                !k8s_is_mps_client(&q->k, a) || !k8s_is_mps_client(&q->k, b))
                continue;
            render_refuse(q->k.r,
                          b->user   ? (const void *)&b->user
                          : a->user ? (const void *)&a->user
                                    : (const void *)&b->name,
                          "Give both the same user, or share the GPUs by time_slicing.",
                          "components '%s' and '%s' share GPUs of '%s' as users %" PRId64
                          " and %" PRId64 ": MPS serves one",
                          a->name, b->name, n->name, ours.v, its.v);
        }
}

static void put_enabled(struct yaml_out *y, const char *key, bool enabled, const char *why)
{
    yaml_map(y, key);
    yaml_note(y, why);
    yaml_bool(y, "enabled", enabled);
    yaml_end(y);
}

/* The driver that the GPU Operator of kubernetes_install.c brings: values.yaml of its v26.7.0. */
#define OPERATOR_DRIVER "595.91.07"

/* <0, 0, >0: number by number; one that is missing counts as 0. */
static int version_order(const char *a, const char *b)
{
    while (*a || *b) {
        char *a_end, *b_end;
        unsigned long x = strtoul(a, &a_end, 10), y = strtoul(b, &b_end, 10);

        if (x != y)
            return x < y ? -1 : 1;
        if (a_end == a && b_end == b)
            return 0; /* words */
        a = *a_end == '.' ? a_end + 1 : "";
        b = *b_end == '.' ? b_end + 1 : "";
    }
    return 0;
}

static int dots_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '.';
    return n;
}

static void put_driver(struct kube *q, struct yaml_out *y)
{
    const struct spec_software *w = &q->k.r->spec->software;
    bool direct = any_fabric(q->k.r->spec, is_direct);

    yaml_map(y, "driver");
    yaml_bool(y, "enabled", true);
    if (w->driver && version_order(w->driver, OPERATOR_DRIVER) <= 0) {
        yaml_comment(y, arena_printf(&q->k.arena,
                                     "version: the operator's own, %s, which is no older than the "
                                     "site's minimum %s (%s)",
                                     OPERATOR_DRIVER, w->driver, render_from(q->k.r, &w->driver)));
    } else if (w->driver) {
        if (dots_of(w->driver) != 2) /* a tag of the driver's image has three numbers */
            render_warn(q->k.r, &w->driver, "Write all of it, as in '" OPERATOR_DRIVER "'.",
                        "there is no driver image '%s' for the GPU Operator to install, and its "
                        "own driver is " OPERATOR_DRIVER,
                        w->driver);
        render_str(q->k.r, y, "version", w->driver, &w->driver);
    }
    k8s_driver_rdma(y, direct);
    yaml_end(y);
}

/* What helm values and the ClusterPolicy have in common. */
static void policy_body(struct kube *q, struct yaml_out *y, bool helm)
{
    const struct spec *s = q->k.r->spec;
    bool exporter = s->software.dcgm || s->agent.dcgm || !s->agent.enabled;

    yaml_map(y, "operator");
    if (!helm)
        yaml_str(y, "defaultRuntime", "containerd");
    yaml_str(y, "runtimeClass", q->t->runtime_class ? q->t->runtime_class : "nvidia");
    yaml_end(y);
    yaml_map(y, "daemonsets");
    k8s_tolerations_gpus(&q->k, y);
    yaml_end(y);
    put_driver(q, y);
    put_enabled(y, "toolkit", true, NULL);
    yaml_map(y, "devicePlugin");
    yaml_bool(y, "enabled", true);
    if (kube_sharing_groups(q)) {
        yaml_map(y, "config");
        if (helm)
            yaml_bool(y, "create", true);
        yaml_str(y, "name", "stoker-sharing");
        yaml_note(y, *kube_sharing_default(q) ? NULL
                                              : "machines: label nvidia.com/device-plugin.config");
        yaml_str(y, "default", kube_sharing_default(q));
        if (helm)
            kube_sharing_data(q, y, "data");
        yaml_end(y);
    }
    yaml_end(y);
    k8s_mig_values(&q->k, y, helm);
    put_enabled(y, "gfd", true, "labels of GPUs on the machines");
    put_enabled(y, "dcgm", exporter, NULL);
    /* Labels of pods are the exporter's own: without honorLabels they would be renamed, and no
     * rule or scaler would find them. */
    yaml_map(y, "dcgmExporter");
    yaml_note(y, exporter ? "DCGM is asked for" : "`stoker agent` exports the same names");
    yaml_bool(y, "enabled", exporter);
    if (exporter) {
        yaml_map(y, "serviceMonitor");
        yaml_bool(y, "enabled", true);
        yaml_bool(y, "honorLabels", true);
        yaml_end(y);
    }
    yaml_end(y);
    put_enabled(y, "nodeStatusExporter", false, NULL);
    put_enabled(y, "gdrcopy", any_fabric(s, is_direct), NULL);
}

static void policy_object(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/cluster/cluster-policy.yaml");
    struct yaml_out y;

    render_head(q->k.r, out, "#",
                "The GPU Operator's policy, where the operator came without helm (OLM); with helm, "
                "gpu-operator-values.yaml makes the same one.");
    if (k8s_has_mig(q->k.r->spec))
        k8s_mig_map(&q->k, out, "gpu-operator");
    if (kube_sharing_groups(q)) {
        k8s_object_in(&q->k, &y, out, "v1", "ConfigMap", "gpu-operator", "stoker-sharing", NULL);
        kube_sharing_data(q, &y, "data");
        yaml_finish(&y);
    }
    k8s_object_in(&q->k, &y, out, "nvidia.com/v1", "ClusterPolicy", NULL, "gpu-cluster-policy",
                  NULL);
    yaml_map(&y, "spec");
    policy_body(q, &y, false);
    yaml_finish(&y);
}

void kube_operator_write(struct kube *q)
{
    struct buf *out;
    struct yaml_out y;

    if (!q->t->gpu_operator)
        return;
    out = render_file(q->k.r, "kubernetes/gpu-operator-values.yaml");
    render_head(q->k.r, out, "#",
                "Values of the GPU Operator's chart: helm upgrade --install gpu-operator "
                "nvidia/gpu-operator --values this-file");
    yaml_begin(&y, out);
    policy_body(q, &y, true);
    put_enabled(&y, "nfd", true, "labels of PCI devices, which node selectors use");
    yaml_open(&y, "node-feature-discovery.worker");
    yaml_note(&y, "machines with taints have devices too");
    yaml_open(&y, "tolerations[]");
    yaml_str(&y, "operator", "Exists");
    for (int i = 0; i < 4; i++)
        yaml_finish(&y);
    policy_object(q);
}

#!/bin/sh
# Prepares machines for Kubernetes, step by step.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
#   sh node-prepare.sh machine GROUP          print what a machine of GROUP needs
#   sh node-prepare.sh --apply machine GROUP  do it (root, Debian or Ubuntu)
#   sh node-prepare.sh control                the first of the control plane, after machine
#   sh node-prepare.sh operators              what the manifests rely on, then the manifests
#   sh node-prepare.sh manifests              the manifests alone, after each change
#   sh node-prepare.sh prune                  deletes what the spec no longer names
set -eu
apply=false
if [ "${1-}" = --apply ]; then
    apply=true
    shift
fi
# the command as a shell takes it
show() (
    line=
    for w; do
        case "$w" in
        '' | *[!A-Za-z0-9_./:@=,%+-]*)
            w="'$(printf '%s' "$w" | sed "s/'/'\\\\''/g")'"
            ;;
        esac
        line="$line${line:+ }$w"
    done
    printf '%s\n' "$line"
)
run() {
    if $apply; then
        "$@"
    else
        printf '+ '
        show "$@"
    fi
}
# put FILE: standard input becomes FILE
put() {
    if $apply; then
        mkdir -p "$(dirname "$1")"
        cat >"$1"
    else
        echo "+ write $1:"
        sed 's/^/+   /'
    fi
}

# Kubernetes release (targets.kubernetes.version); packages of it come from the project's own repository.
minor=30
kubeadm_api=v1beta3

# The kubelet counts memory without swap, and a GPU job that swaps is lost anyway.
swap_off() {
    run swapoff -a
    run sed -i.before-kubernetes -E 's@^([^#].*[[:space:]]swap[[:space:]].*)$@#\1@' /etc/fstab
}

# overlay: layers of images. br_netfilter: Services see traffic between pods.
# rdma_ucm, ib_umad: RDMA from user space.
modules() {
    put /etc/modules-load.d/kubernetes.conf <<'END'
overlay
br_netfilter
rdma_ucm
ib_umad
END
    run modprobe overlay
    run modprobe br_netfilter
    run modprobe rdma_ucm
    run modprobe ib_umad
}

# Forwarding and filtering for pods; many mappings, which large models need.
sysctls() {
    put /etc/sysctl.d/90-kubernetes.conf <<'END'
net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
net.ipv4.ip_forward = 1
vm.max_map_count = 1048576
fs.inotify.max_user_instances = 8192
END
    run sysctl --system
}

# containerd with systemd's cgroups, as the kubelet has them. Locked memory without a
# limit: RDMA locks its buffers, and pods are not root.
runtime() {
    run apt-get update
    run apt-get install -y containerd apt-transport-https ca-certificates curl gpg
    containerd config default 2>/dev/null |
        sed 's/SystemdCgroup = false/SystemdCgroup = true/' |
        put /etc/containerd/config.toml
    put /etc/systemd/system/containerd.service.d/memlock.conf <<'END'
[Service]
LimitMEMLOCK=infinity
END
    run systemctl daemon-reload
    run systemctl restart containerd
}

# kubeadm, kubelet and kubectl of one release, held there: upgrades are a decision.
packages() {
    url=https://pkgs.k8s.io/core:/stable:/v1.$minor/deb
    key=/etc/apt/keyrings/kubernetes.gpg
    run mkdir -p /etc/apt/keyrings
    run sh -c "curl -fsSL $url/Release.key | gpg --dearmor --yes -o $key"
    echo "deb [signed-by=$key] $url/ /" | put /etc/apt/sources.list.d/kubernetes.list
    run apt-get update
    run apt-get install -y kubelet kubeadm kubectl
    run apt-mark hold kubelet kubeadm kubectl
}

# Labels and taints with which a machine of a node group joins.
group_of() {
    case "$1" in
    gpu) # nodes[0].name, 64 machines: gpu[1-64]
        labels=stoker/group=gpu,node-type=gpu
        taints=nvidia.com/gpu=present:NoSchedule
        ;;
    spot) # nodes[1].name, 8 machines: spot[1-8]
        labels=stoker/group=spot
        taints=''
        ;;
    login) # nodes[2].name, 2 machines: login[1-2]
        labels=stoker/group=login
        taints=''
        ;;
    ctl) # nodes[3].name, 2 machines: ctl[1-2]
        labels=stoker/group=ctl
        taints=''
        ;;
    *)
        echo "node-prepare.sh: no node group '$1'" >&2
        exit 2
        ;;
    esac
}

machine() {
    group_of "$1"
    swap_off
    modules
    sysctls
    runtime
    packages
    args="--node-labels=$labels${taints:+ --register-with-taints=$taints}"
    echo "KUBELET_EXTRA_ARGS=$args" | put /etc/default/kubelet
    run systemctl enable kubelet
    echo "# Join it with what the control plane prints: kubeadm token create --print-join-command"
}

# The first control-plane machine. Cores and NUMA: a pod that asks for whole cores gets
# them, next to its GPUs and NICs.
control() {
    put /etc/kubernetes/kubeadm-config.yaml <<END
apiVersion: kubeadm.k8s.io/$kubeadm_api
kind: ClusterConfiguration
kubernetesVersion: stable-1.$minor
networking:
  podSubnet: 10.244.0.0/16
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
cpuManagerPolicy: static
topologyManagerPolicy: best-effort
kubeReserved:
  cpu: "1"
  memory: 4Gi
systemReserved:
  cpu: "1"
  memory: 4Gi
END
    run kubeadm init --config /etc/kubernetes/kubeadm-config.yaml
    echo '# Then a network plug-in that enforces NetworkPolicy (Calico, Cilium).'
}

here=$(cd "$(dirname "$0")" && pwd)

# foreign CRD RELEASE NAMESPACE: is the kind there, and not by this script?
foreign() {
    kubectl get crd "$1" >/dev/null 2>&1 && ! helm -n "$3" status "$2" >/dev/null 2>&1
}

# secret NAMESPACE: the token of agent and servers, made once
secret() {
    kubectl -n "$1" get secret stoker-token >/dev/null 2>&1 ||
        run sh -c "head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' | kubectl -n $1 create secret generic stoker-token --from-file=token=/dev/stdin"
}

# mark LABELS MACHINE...: what has not joined yet is named
mark() {
    labels=$1
    shift
    for n; do
        # shellcheck disable=SC2086 # several words
        run kubectl label --overwrite node "$n" $labels ||
            echo "# $n has no label yet: once it has joined, do this again"
    done
}

tool=kubectl
script=node-prepare.sh
folder="$here/overlays/site"
namespaces='llm llm-agent'
ours=app.kubernetes.io/managed-by=stoker,app.kubernetes.io/instance=llm
headless=''
workloads='deployment.apps statefulset.apps job.batch pytorchjob.kubeflow.org trainjob.trainer.kubeflow.org jobset.jobset.x-k8s.io pod'
others='daemonset.apps service poddisruptionbudget.policy networkpolicy.networking.k8s.io horizontalpodautoscaler.autoscaling scaledobject.keda.sh podmonitor.monitoring.coreos.com prometheusrule.monitoring.coreos.com route.route.openshift.io configmap'
# What the cluster has of this site and the spec no longer names: NAMESPACE KIND/NAME. Data
# (claims, volumes, secrets) is not looked for, nor what an object made for itself.
stale() {
    none='{{range .items}}{{if not .metadata.ownerReferences}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
    for ns in $namespaces; do
        for kind in $workloads $others; do
            $tool -n "$ns" get "$kind" -l "$ours" -o "go-template=$none" 2>/dev/null |
                while read -r name; do
                    names "$kind/$name" || echo "$ns $kind/$name"
                done
        done
    done
}
# names KIND/NAME: is it in the manifests?
names() {
    echo "$named" | grep -qxF -e "$1"
}
# False where no cluster answers. Files of run/ count as well: people start them by hand.
look() {
    named=$(
        $tool apply -k "$folder" --dry-run=client -o name 2>/dev/null || exit 1
        for f in "$folder"/run/*.yaml; do
            [ ! -e "$f" ] || $tool create --dry-run=client -o name -f "$f" 2>/dev/null || exit 1
        done
    ) && [ -n "$named" ]
}
# moved KIND/NAME: is that component of another kind now?
moved() {
    case " $workloads " in *" ${1%/*} "*) ;; *) return 1 ;; esac
    for as in $workloads; do
        if names "$as/${1#*/}"; then return 0; fi
    done
    return 1
}
# What became another kind, and what the API server would not change, makes room: pods of a
# StatefulSet stay, and claims keep the size they have. A Job may be at work: it is told of.
room() {
    stale | while read -r ns o; do
        if moved "$o"; then
            run $tool -n "$ns" delete "$o"
        else
            echo "# runs on, though the spec no longer names it: $o in $ns; '$script --apply prune' deletes it"
        fi
    done
    none='{{range .items}}{{if eq .spec.clusterIP "None"}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
    $tool -n "${namespaces%% *}" get service -l "$ours" -o "go-template=$none" 2>/dev/null |
        while read -r name; do
            case " $headless " in *" $name "*) continue ;; esac
            if names "service/$name"; then
                run $tool -n "${namespaces%% *}" delete "service/$name"
            fi
        done
    { $tool apply -k "$folder" --dry-run=server >/dev/null || true; } 2>&1 |
        sed -n -e 's/.*Service "\([^"]*\)" is invalid: .*may not change.*/service \1/p' \
            -e 's/.*StatefulSet[.a-z]* "\([^"]*\)" is invalid: .*updates to statefulset spec.*/statefulset \1/p' \
            -e 's/.*Job[.a-z]* "\([^"]*\)" is invalid: .*field is immutable.*/job \1/p' |
        sort -u | while read -r kind name; do
            case $kind in
            service) run $tool -n "${namespaces%% *}" delete "$kind/$name" ;;
            statefulset)
                run $tool -n "${namespaces%% *}" delete "$kind/$name" --cascade=orphan ;;
            job)
                echo "# a Job cannot be changed; to begin anew: $tool -n ${namespaces%% *} delete $kind/$name, then this again" ;;
            esac
        done
}
# Deletes what the spec no longer names.
prune() {
    if ! look; then
        echo '# no cluster answers'
        return 1
    fi
    stale | while read -r ns o; do
        run $tool -n "$ns" delete "$o"
    done
}

# The manifests. Replicas that people or an autoscaler change are left as they are;
# those of the spec are for what is new.
manifests() {
    # where machines of gpu are
    mark 'stoker/switch-1=leaf1 stoker/switch-2=spine ' gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7 gpu8 gpu9 gpu10 gpu11 gpu12 gpu13 gpu14 gpu15 gpu16 gpu17 gpu18 gpu19 gpu20 gpu21 gpu22 gpu23 gpu24 gpu25 gpu26 gpu27 gpu28 gpu29 gpu30 gpu31 gpu32
    mark 'stoker/switch-1=leaf2 stoker/switch-2=spine ' gpu33 gpu34 gpu35 gpu36 gpu37 gpu38 gpu39 gpu40 gpu41 gpu42 gpu43 gpu44 gpu45 gpu46 gpu47 gpu48 gpu49 gpu50 gpu51 gpu52 gpu53 gpu54 gpu55 gpu56 gpu57 gpu58 gpu59 gpu60 gpu61 gpu62 gpu63 gpu64
    run kubectl apply -f "$here/cluster/queues.yaml"
    if look; then room; fi
    run kubectl apply -k "$folder"
}

operators() {
    # namespaces whose pods reach into machines
    run kubectl apply -f "$here/cluster/00-namespaces.yaml"
    # Prometheus Operator: PodMonitor, ServiceMonitor, PrometheusRule; values by chart 88.5.3
    if foreign podmonitors.monitoring.coreos.com kube-prometheus-stack monitoring; then
        echo '# kube-prometheus-stack: the site has it already'
    else
        run helm upgrade --install kube-prometheus-stack oci://ghcr.io/prometheus-community/charts/kube-prometheus-stack \
            --version "${PROMETHEUS_STACK_VERSION:-88.5.3}" --namespace monitoring --create-namespace \
            --set prometheus.prometheusSpec.podMonitorSelectorNilUsesHelmValues=false \
            --set prometheus.prometheusSpec.serviceMonitorSelectorNilUsesHelmValues=false \
            --set prometheus.prometheusSpec.ruleSelectorNilUsesHelmValues=false \
            --wait
    fi
    # GPU Operator: driver, container toolkit, device plug-in, labels of machines; values by chart v26.7.0
    run helm upgrade --install gpu-operator gpu-operator --repo https://helm.ngc.nvidia.com/nvidia \
        --version "${GPU_OPERATOR_VERSION:-v26.7.0}" --namespace gpu-operator --create-namespace \
        --values "$here/gpu-operator-values.yaml" \
        --wait
    run kubectl wait --for='jsonpath={.status.state}=ready' clusterpolicy/cluster-policy --timeout=30m
    # The driver must be 535 or newer (software.driver):
    run kubectl -n gpu-operator exec ds/nvidia-driver-daemonset -- nvidia-smi
    # Multus, addresses and shared RDMA devices: as networking/ names them
    run kubectl apply --server-side -k "$here/networking"
    # PyTorchJob: the training operator v1.9.4
    run kubectl apply --server-side -k 'https://github.com/kubeflow/trainer.git/manifests/overlays/standalone?ref=v1.9.4'
    run kubectl -n kubeflow rollout status deployment/training-operator --timeout=5m
    # Kueue: a job starts when there is room for all its pods; values by chart 0.19.2
    run helm upgrade --install kueue oci://registry.k8s.io/kueue/charts/kueue \
        --version "${KUEUE_VERSION:-0.19.2}" --namespace kueue-system --create-namespace \
        --values "$here/kueue-values.yaml" \
        --wait
    run kubectl -n kueue-system rollout status deployment/kueue-controller-manager --timeout=5m
    # what the site has, or makes now
    run kubectl apply -f "$here/base/namespace.yaml"
    secret llm-agent
    manifests
}

case "${1-}" in
machine) machine "${2?name a node group}" ;;
control) control ;;
operators) operators ;;
manifests) manifests ;;
prune) prune ;;
*)
    echo "usage: node-prepare.sh [--apply] machine GROUP | control | operators | manifests | prune" >&2
    exit 2
    ;;
esac

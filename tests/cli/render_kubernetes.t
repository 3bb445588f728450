#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render kubernetes`: the fields that decide whether a pod gets its GPUs, finds its peers and
# may do no more than it needs; what is refused, and where; scripts by shellcheck and by running
# them; kustomize builds of base and overlays.
. "$(dirname "$0")/lib.sh"

KUBE=$TOP/tests/fixtures/render/kube.yaml
EXAMPLES="ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift"

# render NAME SPEC: into NAME/
render() { stoker render kubernetes -f "$2" -o "$1" >/dev/null; }
# variant NAME SED...: the fixture, changed, rendered into NAME
variant() {
    name=$1
    shift
    sed "$@" "$KUBE" >"$name.yaml" && render "$name" "$name.yaml"
}
# has FILE TEXT...: each stands in the file, comments behind values aside
has() {
    file=$1
    shift
    for text; do
        sed 's/  # .*$//' "$file" | grep -qF -- "$text" || { echo "no '$text' in $file"; return 1; }
    done
}
hasnt() { ! has "$@" >/dev/null; }
# refused NAME LINE:COL TEXT SED...: exit 1, the place and the words, and nothing written
refused() {
    name=$1 at=$2 text=$3
    shift 3
    sed "$@" "$KUBE" >"$name.yaml"
    stoker render kubernetes -f "$name.yaml" -o "$name" >out 2>err && return 1
    grep -q "^$name.yaml:$at: .*$text" err && test ! -e "$name"
}
# configmap FILE KEY: the text of a literal block of a ConfigMap
configmap() {
    awk -v key="$2" '
        $0 ~ "^  " key ": \\|" { on = 1; next }
        on && /^    / { print substr($0, 5); next }
        on && /^$/ { print ""; next }
        on { exit }' "$1"
}
at() { # LINE:COL where TEXT begins in the fixture
    grep -nF -- "$1" "$KUBE" | head -1 | awk -F: -v t="$1" '{
        line = $0; sub(/^[0-9]*:/, "", line); print $1 ":" index(line, t) + '"${2:-0}"' }'
}

for e in $EXAMPLES; do
    test_expect "$e renders" '
        stoker spec example '"$e"' >'"$e"'.yaml && render '"$e $e"'.yaml &&
        test -s '"$e"'/kubernetes/base/kustomization.yaml &&
        test -x '"$e"'/kubernetes/node-prepare.sh'
done
test_expect 'the same spec gives the same bytes' '
    render again llm-cluster.yaml && diff -r llm-cluster again'
test_expect 'components of no kubernetes target: those with an image, the rest named' '
    f=llm-cluster/kubernetes/base/kustomization.yaml &&
    grep -q "Components of other targets that have an image are here, too" $f && grep -q "no image: sweep" $f &&
    test ! -e llm-cluster/kubernetes/base/component-sweep.yaml'

for j in job statefulset pytorchjob trainjob jobset; do
    test_expect "job: $j renders" 'variant '"$j"' "s/job: jobset/job: '"$j"'/"'
done
B=kubernetes/base/component-train-big.yaml

test_expect 'Job: indexed, a pod a machine, a headless service that names pods before they are ready' '
    has job/$B "kind: Job" "completionMode: Indexed" "completions: 2" "parallelism: 2" \
        "clusterIP: \"None\"" "publishNotReadyAddresses: true" "subdomain: train-big" \
        "backoffLimit: 8" "activeDeadlineSeconds: 86400" "podReplacementPolicy: Failed" \
        "type: DisruptionTarget" "value: train-big-0.train-big.lab.svc"'
test_expect 'StatefulSet: claims of each pod stay, pods start together' '
    has statefulset/$B "kind: StatefulSet" "serviceName: train-big" "replicas: 2" \
        "podManagementPolicy: Parallel" "whenScaled: Retain" "volumeClaimTemplates:" \
        "publishNotReadyAddresses: true" "apps.kubernetes.io/pod-index"'
test_expect 'PyTorchJob: a master and the rest as workers, the container its operator looks for' '
    has pytorchjob/$B "kind: PyTorchJob" "nprocPerNode: \"8\"" "Master:" "Worker:" \
        "name: pytorch" "runPolicy:" &&
    has pytorchjob/kubernetes/base/namespace.yaml "pod-security.kubernetes.io/enforce: baseline"'
test_expect 'TrainJob: nodes, processes and resources, the rest as a patch of its runtime' '
    has trainjob/$B "kind: TrainJob" "numNodes: 2" "numProcPerNode: 8" "name: torch-distributed" \
        "runtimePatches:" "resourcesPerNode:"'
test_expect 'JobSet: restarts together, names before ready' '
    has jobset/$B "kind: JobSet" "publishNotReadyAddresses: true" "maxRestarts: 4" \
        "value: train-big-workers-0-0.train-big.lab.svc"'
test_expect 'Kueue: every kind of job names its queue, services do not; no apply suspends what runs' '
    for j in job pytorchjob trainjob jobset; do
        has $j/$B "kueue.x-k8s.io/queue-name: team" && ! grep -rq "^ *suspend:" $j/kubernetes || exit 1
    done
    hasnt statefulset/$B "queue-name" && hasnt job/kubernetes/base/component-api.yaml "queue-name"'

test_expect 'GPUs, virtual functions, cores and memory: requests equal limits' '
    sed "1,/^ *containers:/d" job/$B | sed -n "/^ *resources:$/,/securityContext:/p" >all &&
    sed -n "/ requests:/,/ limits:/p" all | sed "1d;/limits:/,\$d" >r &&
    sed -n "/ limits:/,/securityContext:/p" all | sed "1d;/securityContext:/,\$d" >l &&
    diff r l && has r "nvidia.com/gpu: 8" "openshift.io/rails_ens1f0: 1" \
        "openshift.io/rails_ens2f0: 1" "cpu: \"241\"" "memory: \"921Gi\""'
test_expect 'values carry where they come from' '
    grep -q "nvidia.com/gpu: 8  # components.train_big.gpus$" job/$B'
test_expect '/dev/shm is memory of the size in the spec' '
    has job/$B "medium: Memory" "sizeLimit: \"32Gi\"" "mountPath: /dev/shm"'
test_expect 'taints are tolerated, labels wanted, machines not shared' '
    has job/$B "key: nvidia.com/gpu" "operator: Equal" "value: present" "effect: NoSchedule" \
        "key: dedicated" "operator: Exists" "effect: NoExecute" "key: node-type" \
        "requiredDuringSchedulingIgnoredDuringExecution" "topologyKey: kubernetes.io/hostname" \
        "whenUnsatisfiable: DoNotSchedule"'
test_expect 'the node group is required of every pod, the model server has one too' '
    for f in job/kubernetes/base/component-*.yaml job/kubernetes/base/serve.yaml; do
        sed -n "/requiredDuringScheduling/,/containers:/p" $f | grep -q "key: stoker/group" || exit 1
        ! grep -q "preference:" $f || exit 1
    done
    sh job/kubernetes/node-prepare.sh machine share | grep -q "node-labels=stoker/group=share"'
cat >mig.yaml <<'END'
schema: stoker.spec/1
site: {name: lab}
nodes:
  - {name: whole, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 64, memory: 1TiB,
     taints: ["whole=yes:NoSchedule"]}
  - {name: cut, count: 2, gpus_per_node: 4, cpu_cores: 32, memory: 512GiB,
     gpu: {model: H200, sharing: mig, mig_profile: 1g.18gb}, taints: ["cut=yes:NoSchedule"]}
components:
  train: {kind: training, target: kubernetes, nodes: whole, gpus: 8, nodes_per_replica: 2,
          image: "registry.example.org/t:1", command: [t]}
  serve: {target: kubernetes, nodes: cut, gpus: 2, replicas: 28, image: "registry.example.org/s:1"}
targets: {kubernetes: {}}
END
test_expect 'MIG: instances by profile, counted a group, strategy, manager and label' '
    render mig mig.yaml && k=mig/kubernetes &&
    has $k/base/component-serve.yaml "nvidia.com/mig-1g.18gb: 2" "cpu: \"4\"" &&
    hasnt $k/base/component-serve.yaml "nvidia.com/gpu:" "DoNotSchedule" &&
    has $k/base/component-train.yaml "nvidia.com/gpu: 8" &&
    for f in gpu-operator-values.yaml cluster/cluster-policy.yaml; do
        has $k/$f "strategy: mixed" "name: stoker-mig" "default: all-disabled" \
            "\"1g.18gb\": 7" "key: whole" "key: cut" || exit 1
    done &&
    sh $k/node-prepare.sh machine cut >cut.txt && sh $k/node-prepare.sh machine whole >whole.txt &&
    has cut.txt "nvidia.com/mig.config=cut" && hasnt whole.txt "mig.config"'
test_expect 'beside whole machines others fill a machine before the next, and may name groups' '
    render kinds "$TOP/tests/kube/sites/two-kinds.yaml" && f=kinds/kubernetes/base/component-search.yaml &&
    has $f "podAffinity:" "- h100" "- l40s" && hasnt $f "topologySpreadConstraints" "DoNotSchedule" &&
    test "$(grep -c "key: stoker/group" $f)" = 2 &&
    has kinds/kubernetes/base/component-service.yaml "ScheduleAnyway"'
test_expect 'what finds no room is refused at its line: render, spec check and up say the same' '
    sed "s/replicas: 28/replicas: 29/" mig.yaml >full.yaml &&
    say="full.yaml:11:49: component .serve. needs 2 MIG instances (1g.18gb) for each of 29 pods on .cut.; 28 fit" &&
    for c in "render kubernetes -o full -f" "spec check" "up --file"; do
        ! stoker $c full.yaml 2>err && grep -q "$say" err || exit 1
    done && test ! -e full'
test_expect 'nobody is root, nothing is kept, nothing of the machine is seen' '
    for f in job/kubernetes/base/component-*.yaml job/kubernetes/base/serve.yaml; do
        has $f "runAsNonRoot: true" "allowPrivilegeEscalation: false" "- ALL" \
            "type: RuntimeDefault" "automountServiceAccountToken: false" || exit 1
    done
    ! grep -l "hostPath\|privileged: true\|hostNetwork\|hostPID" job/kubernetes/base/component-*.yaml &&
    has job/kubernetes/base/namespace.yaml "pod-security.kubernetes.io/enforce: restricted"'
test_expect 'root is said, and only then IPC_LOCK for RDMA' '
    hasnt job/$B IPC_LOCK && variant root "s/    shm: 32GiB/    shm: 32GiB\n    user: root/" &&
    has root/$B "runAsNonRoot: false" "runAsUser: 0" "- IPC_LOCK" &&
    has root/kubernetes/base/namespace.yaml "pod-security.kubernetes.io/enforce: privileged"'
test_expect 'words mean themselves: $(X) and $$ are not expanded by the kubelet' '
    has job/$B "\"it'"'"'s \$\$(HOME) and \$\$\$\$ \\\"quoted\\\"\"" "value: \"\$\$(WORLD)\""'
python=
for p in ${PYTHON:-python3} /usr/bin/python3; do
    "$p" -c 'import yaml' 2>/dev/null && python=$p && break
done
if [ -n "$python" ]; then
    test_expect 'hostile words come back as they were meant' '
        mkdir words && "$python" "$TOP/tests/render/kube_words.py" "$BUILD/stoker" words'
else
    test_skip 'hostile words come back as they were meant' 'no python3-yaml: tools/setup test'
fi
test_expect 'a large site: the agent has the part of the spec that a ConfigMap holds' '
    awk "BEGIN { print \"schema: stoker.spec/1\\nnodes:\"
        for (i = 0; i < 2000; i++)
            printf \"  - {name: g%d, count: 5, gpus_per_node: 8, gpu: {model: H100}}\\n\", i
        print \"targets: {kubernetes: {}}\" }" >large.yaml &&
    render large large.yaml && configmap large/kubernetes/base/agent.yaml stoker.yaml >part.yaml &&
    test "$(wc -c <part.yaml)" -lt 1000000 && stoker spec check part.yaml &&
    sh large/kubernetes/node-prepare.sh machine g1999 | grep -q "stoker/group=g1999"'
test_expect 'networks: one attachment a NIC, jumbo frames, routes by source, a policy each' '
    n=job/kubernetes/base/networks.yaml &&
    has $n "name: rails-ens1f0" "resourceName: openshift.io/rails_ens1f0" "\"mtu\": 9000" \
        "\"type\": \"sbr\"" "\"range\": \"10.1.0.0/16\"" &&
    has job/kubernetes/cluster/sriov.yaml "numVfs: 8" "isRdma: true" "- ens1f0" "deviceID: \"101e\"" &&
    has job/$B "\"interface\": \"ens2f0\""'
test_expect 'networks whose names are the pods own: one resource for all NICs' '
    variant inside "s/ens1f0, ens2f0/net1, net2/;s/job: jobset/job: job/" &&
    has inside/$B "openshift.io/rails: 2" "\"interface\": \"net2\"" &&
    test "$(grep -c "^kind: SriovNetworkNodePolicy" inside/kubernetes/cluster/sriov.yaml)" = 1 &&
    test "$(grep -c "^kind: SriovNetworkNodePolicy" job/kubernetes/cluster/sriov.yaml)" = 2'
test_expect 'storage: claims, a volume by name for NFS and for paths of machines, a class, a folder' '
    s=job/kubernetes/base/storage.yaml &&
    has $s "server: nfs.example.org" "path: /export/home" "volumeName: lab-home" \
        "storageClassName: fast" "persistentVolumeReclaimPolicy: Retain" &&
    has job/$B "subPath: sets/one" "readOnly: true" "ephemeral:" &&
    has llm-cluster/kubernetes/base/storage.yaml "path: /lustre" "type: Directory"'
test_expect 'services: probes, ports with short names, no second GPU for an update' '
    has job/kubernetes/base/component-api.yaml "startupProbe:" "livenessProbe:" "readinessProbe:" \
        "path: /ready" "failureThreshold: 12" "name: port-9090" "protocol: UDP" "maxSurge: 0" \
        "runAsUser: 2000" "kind: PodDisruptionBudget"'
test_expect 'scaling: KEDA by GPU use, an autoscaler by CPU' '
    has job/kubernetes/base/component-api.yaml "kind: ScaledObject" "threshold: \"70\"" \
        "serverAddress: \"http://prom.example.org:9090\"" "DCGM_FI_DEV_GPU_UTIL" &&
    has job/kubernetes/base/component-web.yaml "kind: HorizontalPodAutoscaler" \
        "averageUtilization: 60" "minReplicas: 2" "maxReplicas: 6" &&
    has job/kubernetes/base/rights.yaml "deployments/scale" "resourceNames:"'
# scaled NAME METRIC TARGET SED...: `api` as a model server that scales by METRIC
scaled() {
    name=$1 metric=$2 target=$3
    shift 3
    variant "$name" -e "s|metric: gpu_utilization, target: 70%|metric: $metric, target: $target|" "$@"
}
test_expect 'scaling by what adds up: the sum, and the target is of one replica' '
    server="/^  api:/,/^  web:/s/kind: service/kind: serving/" &&
    for m in requests_per_second=100/s=sum\(rate\(stoker_requests_total queue_length=8=sum\(stoker_queue_jobs; do
        rest=${m#*=} && scaled "${m%%=*}" "${m%%=*}" "${rest%%=*}" -e "$server" &&
        has "${m%%=*}/kubernetes/base/component-api.yaml" "metricType: AverageValue" "${rest#*=}" || exit 1
    done'
test_expect 'scaling by what is the same for any number of pods: compared as it is' '
    scaled p99 latency_p99 50ms -e "/^  api:/,/^  web:/s/kind: service/kind: serving/" &&
    has p99/kubernetes/base/component-api.yaml "metricType: Value" "histogram_quantile(0.99" &&
    has job/kubernetes/base/component-api.yaml "metricType: Value" "avg(DCGM_FI_DEV_GPU_UTIL{"'
test_expect 'scaling: pods of a component whose name another one begins with are not counted' '
    re=$(sed -n "s/.*pod=~\\\\\"\([^\\\\]*\)\\\\\".*/\1/p" job/kubernetes/base/component-api.yaml) &&
    echo api-7d4b9c6f5d-x2x9k | grep -qxE "$re" && ! echo api-v2-7d4b9c6f5d-x2x9k | grep -qxE "$re" &&
    ! echo api-v2-0 | grep -qxE "$re"'
test_expect 'replicas are named only where nobody else changes them: autoscaler, by hand, fixed' '
    hasnt job/kubernetes/base/component-api.yaml "  replicas:" && hasnt job/kubernetes/base/component-web.yaml "  replicas:" &&
    variant hand "s/scale: {min: 1, max: 4, metric: gpu_utilization, target: 70%}/scale: {min: 1, max: 4}/" &&
    hasnt hand/kubernetes/base/component-api.yaml "  replicas:" && has hand/kubernetes/base/component-api.yaml "PodDisruptionBudget" &&
    has job/kubernetes/base/component-tiny.yaml "  replicas: 1" &&
    variant kept -e "/^  api:/,/^  web:/s/ports:/mounts: [{storage: scratch_disk, path: \/s}]\n    ports:/" &&
    has kept/kubernetes/base/component-api.yaml "kind: StatefulSet" && hasnt kept/kubernetes/base/component-api.yaml "  replicas:"'
test_expect 'traffic class and GID index of a RoCE fabric reach the pods; the environment wins' '
    variant roce "s/    gpudirect: true/    gpudirect: true\n    gid_index: 3\n    traffic_class: 106/" &&
    grep -A1 "name: NCCL_IB_TC" roce/$B | grep -q "value: \"106\"" &&
    grep -A1 "name: NCCL_IB_GID_INDEX" roce/$B | grep -q "value: \"3\"" &&
    hasnt job/$B NCCL_IB_TC && hasnt job/$B NCCL_IB_GID_INDEX && hasnt roce/kubernetes/base/component-api.yaml NCCL_IB_TC &&
    variant won -e "s/    gpudirect: true/    gpudirect: true\n    traffic_class: 106/" -e "s/NCCL_DEBUG: INFO/NCCL_IB_TC: \"41\"/" &&
    test "$(grep -c "name: NCCL_IB_TC" won/$B)" = 1 && grep -A1 "name: NCCL_IB_TC" won/$B | grep -q "value: \"41\""'
test_expect 'devices are named where pods see those of the machine, not for virtual functions' '
    has llm-cluster/kubernetes/base/component-train-70b.yaml "NCCL_IB_HCA" "\"=mlx5_0,mlx5_1," &&
    variant vf "s/    gpudirect: true/    gpudirect: true\n    hcas: [mlx5_0, mlx5_1]/" && hasnt vf/$B NCCL_IB_HCA'
test_expect 'scaling by names of DCGM 4.6' '
    variant renamed "s/^models:/agent: {dcgm_names: new}\nmodels:/" &&
    has renamed/kubernetes/base/component-api.yaml "DCGM_FI_DEV_GPU_UTIL_RATIO"'
test_expect 'a shared GPU: the device plug-in offers it as often as the pool fits, by MPS, where the group says so' '
    has job/kubernetes/base/component-tiny.yaml "nvidia.com/gpu: 1" &&
    has job/kubernetes/gpu-operator-values.yaml "mps:" "replicas: 6" "default: \"\"" &&
    has job/kubernetes/node-prepare.sh "nvidia.com/device-plugin.config=share" &&
    has kb-a100/kubernetes/gpu-operator-values.yaml "timeSlicing:" "default: a100"'
test_expect 'network policies: nothing, then DNS, own pods, and what traffic names' '
    p=job/kubernetes/base/network-policy.yaml &&
    has $p "name: default-deny" "name: allow-dns" "port: 53" &&
    awk "/^  name: api/ { on = 1 } /^---/ { on = 0 } on" $p | sed -n "/^  ingress:/,/^  egress:/p" >in &&
    grep -q "component: web" in && grep -q "port: 8080" in && ! grep -q "component: tiny" in &&
    variant open "s/{namespace: lab,/{namespace: lab, network_policy: false,/" &&
    test ! -e open/kubernetes/base/network-policy.yaml'
test_expect 'agent: its own namespace, read-only mounts, not root, no capability' '
    a=job/kubernetes/base/agent.yaml &&
    has $a "namespace: lab-agent" "kind: DaemonSet" "hostPID: true" "runAsNonRoot: true" \
        "path: /sys" "containerPort: 9400" "secretName: stoker-token" "runtimeClassName: nvidia" \
        "name: stoker-agent-cpu" "operator: NotIn" "recursiveReadOnly: IfPossible" &&
    ! grep -q "privileged: true$" $a &&
    has job/kubernetes/overlays/site/monitors.yaml "kind: PodMonitor" "port: metrics" "key: token" \
        "honorLabels: true" &&
    has job/kubernetes/overlays/site/rules.yaml "kind: PrometheusRule" "alert:" &&
    variant quiet "s/^models:/agent: {enabled: false}\nmodels:/" &&
    test ! -e quiet/kubernetes/base/agent.yaml && test ! -e quiet/kubernetes/overlays/site/rules.yaml'

test_expect 'the specs that agent and servers read are specs' '
    configmap job/kubernetes/base/agent.yaml stoker.yaml >agent-spec.yaml &&
    stoker spec check agent-spec.yaml &&
    configmap job/kubernetes/base/serve.yaml stoker.yaml >serve-spec.yaml &&
    stoker spec check serve-spec.yaml && grep -q "e5" serve-spec.yaml &&
    for c in embeddings reranker; do
        configmap kb-a100/kubernetes/base/component-$c.yaml stoker.yaml >$c.spec &&
        stoker spec check $c.spec || exit 1
    done &&
    grep -q all-mpnet embeddings.spec && ! grep -q all-mpnet reranker.spec &&
    grep -q bge-reranker reranker.spec && ! grep -q bge-reranker embeddings.spec'

test_expect 'Kueue: manifests brings quotas and places of machines up to date; a machine that has not joined stops nothing' '
    mkdir -p absent && printf "%s\n" "#!/bin/sh" "echo \"\$*\" >>\"\$LOG\"" "case \"\$*\" in *node\\ gpu2\\ *) exit 1 ;; esac" "test \"\$1\" != get" >absent/kubectl &&
    chmod +x absent/kubectl && cp absent/kubectl absent/helm && rm -f calls &&
    LOG=$PWD/calls PATH=$PWD/absent:$PATH sh llm-cluster/kubernetes/node-prepare.sh --apply manifests >said 2>&1 &&
    grep -q "^# gpu2 has no label yet" said && grep -q "^label --overwrite node gpu3 .*stoker/" calls &&
    awk "/^apply -f .*cluster.queues.yaml/ { q = NR } /^apply -k .*overlays.site\$/ { k = NR } END { exit !(q && q < k) }" calls || { cat said calls; exit 1; }'
test_expect 'Kueue: the queue, what groups have, and their machines by switch and rack' '
    q=llm-cluster/kubernetes/cluster/queues.yaml &&
    has llm-cluster/kubernetes/base/queue.yaml "kind: LocalQueue" "name: llm" "clusterQueue: llm-llm" &&
    has $q "kind: ClusterQueue" "kind: ResourceFlavor" "stoker/group: gpu" "nominalQuota: \"512\"" "topologyName: gpu" &&
    test "$(grep -c "nodeLabel: stoker/switch-" $q)" = 2 && ! grep -q "name: login\|name: ctl" $q &&
    sh llm-cluster/kubernetes/node-prepare.sh operators >plan &&
    grep -qx "+ kubectl label --overwrite node gpu33 stoker/switch-1=leaf2 stoker/switch-2=spine" plan &&
    has llm-cluster/kubernetes/base/component-train-70b.yaml "podset-preferred-topology: stoker/switch-1" &&
    hasnt llm-cluster/kubernetes/base/component-train-7b.yaml "podset-preferred-topology"'
test_expect 'Kueue looks at the kind of job that is written; NICs are not counted' '
    has pytorchjob/kubernetes/kueue-values.yaml "kubeflow.org/pytorchjob" "openshift.io/" &&
    has jobset/kubernetes/kueue-values.yaml "jobset.x-k8s.io/jobset" && hasnt jobset/kubernetes/kueue-values.yaml pytorchjob'
test_expect 'a group of which a machine is below no switch has no level of switches' '
    sed "s/leaf2: {hosts: \"gpu\[33-64\]\"}/leaf2: {hosts: \"gpu[33-63]\"}/" llm-cluster.yaml >hole.yaml && ! cmp -s hole.yaml llm-cluster.yaml &&
    render hole hole.yaml && hasnt hole/kubernetes/cluster/queues.yaml "stoker/switch-"'
test_expect 'nv-ipam: a pool for each subnet, one where NICs share it, by machine' '
    variant ipam "s/sriov: {vfs: 8,/sriov: {vfs: 8, ipam: nv-ipam,/;s/job: jobset/job: job/" &&
    has ipam/kubernetes/cluster/ip-pools.yaml "kind: IPPool" "name: rails" "subnet: \"10.1.0.0/16\"" "perNodeBlockSize: 256" &&
    test "$(grep -c "^kind: IPPool" ipam/kubernetes/cluster/ip-pools.yaml)" = 1 && has ipam/kubernetes/base/networks.yaml "\"poolName\": \"rails\"" &&
    refused r15 "[0-9]*:[0-9]*" "has none" "/subnets:/d" &&
    refused r13 "[0-9]*:[0-9]*" "has none" "s/sriov: {vfs: 8,/sriov: {vfs: 8, ipam: nv-ipam,/;/subnets:/d" &&
    refused r14 "[0-9]*:[0-9]*" "addresses for each of 4 machines" "s/sriov: {vfs: 8,/sriov: {vfs: 8, ipam: nv-ipam,/;s|10.1.0.0/16|10.1.0.0/30|"'

# Serving: a port, a Service, probes and the model, whether the spec says so or not.
SERVING=$TOP/tests/fixtures/render/serving.yaml
render serving "$SERVING"
test_expect 'a server without ports has one, with its Service and probes' '
    f=serving/kubernetes/base/component-plain.yaml &&
    has $f "containerPort: 8003" "port: 8003" "kind: Service" "startupProbe:" "readinessProbe:" "path: /health" "- \"--port\"" "- \"8003\"" &&
    has serving/kubernetes/base/network-policy.yaml "port: 8003" && has serving/kubernetes/overlays/site/monitors.yaml "name: plain"'
test_expect 'a server of another program is asked by its port' '
    has serving/kubernetes/base/component-other.yaml "tcpSocket:" "port: 8000" "kind: Service" "startupProbe:"'
test_expect 'a model on a storage: mounted, read-only, and the claim is there' '
    has serving/kubernetes/base/component-plain.yaml "mountPath: /srv/models" "readOnly: true" "claimName: models" &&
    has serving/kubernetes/base/storage.yaml "name: models" "server: nfs.example.org" &&
    hasnt serving/kubernetes/base/component-hub.yaml "/srv/models"'
test_expect 'a model of the hub: fetched into the pod before it starts, and the way out is open' '
    f=serving/kubernetes/base/component-hub.yaml &&
    has $f "initContainers:" "name: fetch-models" "- BAAI/bge-m3" "- abc123" "- /var/cache/stoker/models/m3" "source: /var/cache/stoker/models/m3" "mountPath: /var/cache/stoker/models" &&
    awk "/^  name: hub/ { on = 1 } /^---/ { on = 0 } on" serving/kubernetes/base/network-policy.yaml | grep -q "port: 443" &&
    ! awk "/^  name: plain/ { on = 1 } /^---/ { on = 0 } on" serving/kubernetes/base/network-policy.yaml | grep -q "port: 443"'
test_expect 'the site'"'"'s own server fetches models of the hub, too: its way out is open; names of a cache on the machine' '
    printf "%s\n" "schema: stoker.spec/1" "site: {name: hubs}" "models: {m3: {source: BAAI/bge-m3, kind: embedding}}" \
        "nodes: [{name: g, gpus_per_node: 4, gpu: {model: A100-80GB}, cpu_cores: 64, memory: 512GiB}]" \
        "serve: {listen: 0.0.0.0, token_file: /etc/stoker/token}" "targets: {kubernetes: {stoker_image: r.example.org/stoker:1}}" >hubs.yaml &&
    stoker render kubernetes -f hubs.yaml -o hubs && p=hubs/kubernetes/base/network-policy.yaml &&
    has hubs/kubernetes/base/serve.yaml "name: fetch-models" && has $p "169.254.20.10/32" &&
    awk "/^  name: stoker-serve/ { on = 1 } /^---/ { on = 0 } on" $p | sed -n "/^  egress:/,\$p" | grep -q "port: 443"'
# warned NAME AT TEXT FILE SED...: rendered, with the warning at its place
warned() {
    name=$1 at=$2 text=$3 file=$4
    shift 4
    sed "$@" "$file" >"$name.yaml" && ! cmp -s "$name.yaml" "$file" &&
        stoker render kubernetes -f "$name.yaml" -o "$name" >out 2>err && cat err &&
        grep -q "^$name.yaml:$at: warning: .*$text" err
}
test_expect 'warned: a model that no storage holds, a server without models, a program without ports' '
    warned w1 "14:16" "no storage of the spec holds" "$SERVING" "s|source: /srv/models/e5|source: /elsewhere/e5|" &&
    warned w2 "10:3" "serves no model" "$SERVING" "/^  e5:/d" &&
    warned w3 "12:3" "has no port: no Service" "$SERVING" "s/, ports: .*}/}/" &&
    ! stoker render kubernetes --strict -f w1.yaml -o w1s 2>/dev/null'
test_expect 'a server whose only model is refused is not told to serve none' '
    sed "s|^  e5: {|  e5: {device: cpu, dtype: f16, |" "$SERVING" >f16.yaml && ! stoker spec check f16.yaml >out 2>err &&
    grep -q "does not compute in f16" err && hasnt err "serves no model"'
test_expect 'warned: wishes that an autoscaler or an address plug-in does not follow' '
    warned w4 "[0-9]*:[0-9]*" "one stays" "$KUBE" "s/scale: {min: 1, max: 4,/scale: {min: 0, max: 4,/" &&
    has w4/kubernetes/base/component-api.yaml "minReplicaCount: 1" &&
    warned w5 "[0-9]*:[0-9]*" "runs another program" "$KUBE" "s|metric: gpu_utilization, target: 70%|metric: requests_per_second, target: 10/s|" &&
    warned w6 "[0-9]*:[0-9]*" "the same address" "$KUBE" "s/sriov: {vfs: 8,/sriov: {vfs: 8, ipam: host-local,/" &&
    warned w7 "[0-9]*:[0-9]*" "have none on" "$KUBE" "s/sriov: {vfs: 8,/sriov: {vfs: 8, ipam: static,/"'
test_expect 'warned: training over machines with RDMA between them that names no fabric' '
    cat >net.yaml <<END
nodes: [{name: h, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB, fabrics: [front, rails]}]
fabrics:
  - {name: front, kind: ethernet, rate: 25Gb/s}
  - {name: rails, kind: roce, rate: 400Gb/s, nics_per_node: 8, traffic_class: 106}
components:
  t: {kind: training, target: kubernetes, gpus: 8, nodes_per_replica: 2, image: r.example/t:1, command: [t]}
targets: {kubernetes: {stoker_image: "r.example/s:1"}, openshift: {stoker_image: "r.example/s:1"}}
END
    for x in kubernetes openshift; do
        sed "s/target: kubernetes/target: $x/" net.yaml >n.yaml && stoker spec check n.yaml 2>err >/dev/null && grep -q "^n.yaml:6:.*do not see .rails.: .*pod network" err &&
        sed "s/nodes_per_replica: 2/&, fabrics: [rails]/" n.yaml >m.yaml && stoker spec check m.yaml 2>err >/dev/null && ! grep "pod network" err || exit 1
    done
    sed "s/nodes_per_replica: 2/nodes_per_replica: 1/" net.yaml >n.yaml && stoker spec check n.yaml 2>err >/dev/null && ! grep "pod network" err
'
test_expect 'any image gets stoker: an init container copies it where the launcher looks' '
    has job/$B "initContainers:" "name: stoker" "- cp" "- /usr/local/bin/stoker" "mountPath: /opt/stoker-bin" &&
    hasnt trainjob/$B "initContainers:" && hasnt job/kubernetes/base/component-api.yaml "initContainers:" &&
    variant named "s/{namespace: lab,/{namespace: lab, stoker_image: registry.example.org\/stoker:7,/;s/job: jobset/job: job/" &&
    has named/$B "image: \"registry.example.org/stoker:7\"" && has named/kubernetes/base/agent.yaml "image: \"registry.example.org/stoker:7\"" &&
    ! grep -q "images:" named/kubernetes/overlays/site/kustomization.yaml &&
    configmap job/kubernetes/base/launch.yaml launch.sh | grep -qx "PATH=.PATH:/opt/stoker-bin"'

# The launch script, run beside programs that write down how they were called.
configmap job/kubernetes/base/launch.yaml launch.sh >launch.sh
mkdir bin
printf '#!/bin/sh\necho "$(basename "$0") $*" >>"%s/called"\nenv | sort >"%s/env"\n' "$TMP" "$TMP" >bin/python3
cp bin/python3 bin/torchrun
cp bin/python3 bin/program
printf '#!/bin/sh\necho "export NCCL_TEST=found"\n' >bin/stoker
printf '#!/bin/sh\nexit 0\n' >bin/getent
chmod +x bin/*
launch() { # VARIABLE=VALUE... -- COMMAND...
    rm -f called env
    vars=
    while [ "$1" != -- ]; do
        vars="$vars $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    env -i PATH="$TMP/bin:$PATH" $vars sh launch.sh "$@" 2>talk
}
test_expect 'launch: rank of an indexed Job, python by torch.distributed.run' '
    launch STOKER_NODES=2 STOKER_GPUS=8 STOKER_LAUNCHER=torchrun STOKER_MASTER=t-0.t STOKER_PORT=29600 \
        JOB_COMPLETION_INDEX=1 -- python3 -m train "a  b" &&
    grep -qx "python3 -m torch.distributed.run --nnodes=2 --nproc-per-node=8 --node-rank=1 --master-addr=t-0.t --master-port=29600 -m train a  b" called &&
    grep -qx NCCL_TEST=found env'
test_expect 'launch: ranks of the training operator and of Trainer' '
    launch STOKER_NODES=4 STOKER_GPUS=8 STOKER_LAUNCHER=torchrun MASTER_ADDR=t-master-0 RANK=3 -- torchtitan x &&
    grep -qx "torchrun --no-python --nnodes=4 --nproc-per-node=8 --node-rank=3 --master-addr=t-master-0 --master-port=29500 torchtitan x" called &&
    launch STOKER_NODES=4 STOKER_GPUS=8 STOKER_LAUNCHER=torchrun PET_MASTER_ADDR=a PET_NODE_RANK=2 -- program &&
    grep -q -- "--node-rank=2 --master-addr=a" called'
test_expect 'launch: a script and a module are given to torchrun as its users give them' '
    for w in "train.py --lr 1" "/app/train.py" "-m pkg.train x"; do
        launch STOKER_NODES=1 STOKER_GPUS=2 STOKER_LAUNCHER=torchrun -- $w &&
        grep -qx -e "torchrun --nnodes=1 --nproc-per-node=2 --node-rank=0 --master-addr=localhost --master-port=29500 $w" called || { cat called; exit 1; }
    done'
test_expect 'launch: options of Python before the script, and a torchrun that the command names, start one run' '
    launch STOKER_NODES=1 STOKER_GPUS=2 STOKER_LAUNCHER=torchrun -- python3 -u a.py --x &&
    grep -qx -e "python3 -m torch.distributed.run --nnodes=1 .* --master-port=29500 --no-python python3 -u a.py --x" called &&
    launch STOKER_NODES=1 STOKER_GPUS=2 STOKER_LAUNCHER=torchrun -- torchrun --max-restarts=2 a.py &&
    grep -qx -e "torchrun --nnodes=1 --nproc-per-node=2 .* --master-port=29500 --max-restarts=2 a.py" called || { cat called; exit 1; }'
test_expect 'launch: pods that come and go meet at the first one' '
    launch STOKER_NODES=1:6 STOKER_GPUS=4 STOKER_LAUNCHER=torchrun STOKER_MASTER=t-0.t STOKER_RANK=0 -- python3 a.py &&
    grep -q -- "--nnodes=1:6 .*--rdzv-backend=c10d --rdzv-endpoint=t-0.t:29500 .*is_host=true" called &&
    launch STOKER_NODES=1:6 STOKER_GPUS=4 STOKER_LAUNCHER=torchrun STOKER_MASTER=t-0.t STOKER_RANK=5 -- python3 a.py &&
    grep -q "is_host=false" called'
test_expect 'launch: other programs get the environment and nothing else' '
    launch STOKER_NODES=2 STOKER_GPUS=4 STOKER_LAUNCHER=none STOKER_MASTER=t-0.t JOB_COMPLETION_INDEX=1 -- program -b 8G &&
    grep -qx "program -b 8G" called && grep -qx NODE_RANK=1 env && grep -qx MASTER_ADDR=t-0.t env'
test_expect 'launch: a torchrun of the command knows who it is, unless pods come and go' '
    launch STOKER_NODES=2 STOKER_GPUS=4 STOKER_MASTER=t-0.t JOB_COMPLETION_INDEX=1 -- torchrun a.py && grep -qx "torchrun a.py" called &&
    test "$(grep ^PET_ env | tr "\n" " ")" = "PET_MASTER_ADDR=t-0.t PET_MASTER_PORT=29500 PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=4 " &&
    launch STOKER_NODES=1:6 STOKER_GPUS=4 STOKER_MASTER=t-0.t JOB_COMPLETION_INDEX=1 -- torchrun a.py && ! grep ^PET_ env'
test_expect 'launch: no address for the first pod is an error in time' '
    printf "#!/bin/sh\nexit 2\n" >bin/getent && chmod +x bin/getent &&
    ! launch STOKER_NODES=2 STOKER_MASTER=t-0.t STOKER_TIMEOUT=2 -- program &&
    grep -q "no address for t-0.t" talk && test ! -e called'

test_expect 'node-prepare.sh prints and does nothing without --apply' '
    sh llm-cluster/kubernetes/node-prepare.sh machine gpu >plan &&
    grep -q "swapoff -a" plan && grep -q "br_netfilter" plan && grep -q "LimitMEMLOCK=infinity" plan &&
    grep -q -- "--node-labels=stoker/group=gpu,node-type=gpu --register-with-taints=nvidia.com/gpu=present:NoSchedule" plan &&
    sh llm-cluster/kubernetes/node-prepare.sh operators >plan &&
    grep -q "gpu-operator-values.yaml" plan && grep -q "ref=v1.9.4" plan &&
    ! sh llm-cluster/kubernetes/node-prepare.sh machine nosuch 2>/dev/null'
test_expect 'node-prepare.sh prints a command as a shell reads it: pasted, it does the same' '
    sh job/kubernetes/node-prepare.sh machine share >plan && printf "/dev/sda1 / ext4 x 0 1\n/dev/sda2 none swap sw 0 0\n" >fstab &&
    sed -n "/fstab/s/^+ //p" plan | sed "s:/etc/fstab:fstab:" >pasted.sh && sh pasted.sh &&
    grep -qx "#/dev/sda2 none swap sw 0 0" fstab && grep -qx "/dev/sda1 / ext4 x 0 1" fstab &&
    sed -n "/^show() /,/^[})]/p" job/kubernetes/node-prepare.sh >show.sh &&
    cat >words.sh <<-"EOF" &&
	. ./show.sh
	set -- printf "%s|" "a b" "it'"'"'s" "" "\\1 \$HOME" "*" "a=b,c:d"
	"$@" >run.txt
	show "$@" >shown.sh
	EOF
    sh words.sh && sh shown.sh | cmp - run.txt'
test_expect 'node-prepare.sh follows the release: packages and the form of the configuration' '
    sh job/kubernetes/node-prepare.sh control >plan && grep -q "kubeadm.k8s.io/v1beta4" plan &&
    grep -q "stable-1.31" plan && sh llm-cluster/kubernetes/node-prepare.sh control >plan &&
    grep -q "kubeadm.k8s.io/v1beta3" plan'
test_expect 'releases: fields appear with the release that has them' '
    variant old "s/version: \"1.31\"/version: \"1.27\"/;s/job: jobset/job: job/" &&
    hasnt old/$B podReplacementPolicy && hasnt old/$B appArmorProfile && has job/$B appArmorProfile: &&
    hasnt old/kubernetes/base/agent.yaml recursiveReadOnly &&
    variant exact "s/version: \"1.31\"/version: v1.29.4/;s/job: jobset/job: job/" &&
    has exact/$B podReplacementPolicy && hasnt exact/$B appArmorProfile'

V=$(at '"1.31"')
test_expect 'refused: a release before 1.27' 'refused r1 "$V" "older than 1.27" "s/\"1.31\"/\"1.26\"/"'
test_expect 'refused: no release' 'refused r2 "$V" "no Kubernetes release" "s/\"1.31\"/\"latest\"/"'
test_expect 'refused: a label that Kubernetes cannot hold' '
    refused r3 "$(at "test}")" "value of a Kubernetes label" "s/environment: test/environment: a b/"'
test_expect 'refused: no taint' '
    refused r4 "$(at "\"dedicated:NoExecute\"")" "no taint" "s/dedicated:NoExecute/dedicated:Never/"'
test_expect 'refused: a user by name' '
    refused r5 "$(at "\"2000\"")" "by number" "s/user: \"2000\"/user: \"alice\"/"'
test_expect 'refused: object storage as a mount' '
    refused r6 "$(at "data, path: /data")" "cannot be mounted" \
        "s/kind: volume, size: 1TiB, storage_class: fast/kind: object, source: \"s3:\/\/x\"/"'
test_expect 'refused: a subpath that leads out' '
    refused r7 "$(at "sets/one")" "leads out" "s/sets\/one/..\/other/"'
test_expect 'refused: storage without a size' '
    refused r8 "[0-9]*:[0-9]*" "must ask for a size" "s/, size: 1TiB//"'
test_expect 'refused: shares of a GPU beside whole ones' '
    refused r9 "$(at "[small]")" "shares all GPUs of a machine or none" "s/nodes: share/nodes: gpu/"'
test_expect 'refused: a metric that replicas cannot follow' '
    refused r10 "$(at "gpu_utilization, target")" "cannot follow" \
        "s/metric: gpu_utilization, target: 70%/metric: gpu_temperature, target: 70C/"'
test_expect 'refused: no image' '
    refused r11 "[0-9]*:[0-9]*" "no image" "/image: registry.example.org\/tiny:1/d"'
test_expect 'refused: two names that are one to Kubernetes' '
    refused r12 "[0-9]*:[0-9]*" "one name to Kubernetes" "s/^  web:/  n7:/;s/from: web/from: n7/;s/^  tiny:/  7:/"'

# ---- what would be accepted and then not run ----
# site NAME COMPONENTS [REST]: machines of two kinds and what runs on them, rendered into NAME;
# messages in NAME.err
site() {
    printf '%s\n' 'site: {name: s}' \
        'nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB},' \
        '  {name: c, role: cpu, count: 2, cpu_cores: 32, memory: 128GiB}]' 'agent: {enabled: false}' 'targets: {kubernetes: {namespace: ml, stoker_image: r/stoker:1}}' \
        "${3:-}" 'components:' "$2" >"$1.yaml"
    stoker render kubernetes -f "$1.yaml" -o "$1" >"$1.out" 2>"$1.err"
}
# strategy NAME SURGE: of the Deployment of component u
strategy() { has "$1/kubernetes/base/component-u.yaml" "maxSurge: $2" "maxUnavailable: $((1 - $2))"; }
U='kind: service, target: kubernetes, nodes: c, image: r/x, command: [x], memory: 4GiB'

test_expect 'a rolling update starts a pod more only where one has room' '
    site full "  u: {$U, replicas: 2, cpus: 50}" && strategy full 0 &&
    site roomy "  u: {$U, replicas: 2, cpus: 20}" && strategy roomy 1 &&
    site grown "  u: {$U, cpus: 50, scale: {min: 1, max: 2}}" && strategy grown 0 &&
    site beside "  u: {$U, cpus: 50}
  v: {$U, cpus: 50}" && strategy beside 0'
test_expect 'the server of models of no component leaves first where no second has room' '
    site served "  u: {$U, cpus: 4}" "models: {m: {source: /m, kind: embedding, device: gpu}}" &&
    has served/kubernetes/base/serve.yaml "maxSurge: 0" "maxUnavailable: 1" &&
    site cpu "  u: {$U, cpus: 4}" "models: {m: {source: /m, kind: embedding, device: cpu}}" &&
    has cpu/kubernetes/base/serve.yaml "maxSurge: 1" "maxUnavailable: 0"'
V='storage: [{name: v, kind: volume, size: 1GiB, access: ReadWriteOnce'
test_expect 'warned: pods on several machines with a volume that is at one' '
    M="mounts: [{storage: v, path: /v}]" &&
    site once "  u: {$U, replicas: 2, cpus: 4, $M}" "$V}]" &&
    grep -q "^once.yaml:[0-9]*:[0-9]*: warning: .v. is at one machine.*of .u. on others" once.err &&
    site grows "  u: {$U, cpus: 4, $M, scale: {min: 1, max: 2}}" "$V}]" &&
    grep -q "at one machine" grows.err &&
    site own "  u: {$U, replicas: 2, cpus: 4, $M}" "$V, per_replica: true}]" && test ! -s own.err &&
    site one "  u: {$U, cpus: 4, $M}" "$V}]" && test ! -s one.err && strategy one 0'
test_expect 'zero replicas: what stays is not said to be the spec.s' '
    site zero "  u: {$U, cpus: 4, scale: {min: 0, max: 2, metric: cpu_utilization, target: 50%}}" &&
    grep -q "minReplicas: 1  # at zero nothing is counted" zero/kubernetes/base/component-u.yaml &&
    grep -q ":[0-9]*:[0-9]*: warning: at zero replicas" zero.err'

# told NAME TEXT...: warnings at a line and column that have each of these
told() {
    name=$1
    shift
    for text; do
        grep -q "^$name.yaml:[0-9]*:[0-9]*: warning: .*$text" "$name.err" ||
            { echo "'$text' is not told"; cat "$name.err"; return 1; }
    done
}
test_expect 'warned: the agent has an image that nobody can pull' '
    sed "s/, stoker_image: [^}]*//;/^agent/s/false/true/" roomy.yaml >agent.yaml && ! grep -q stoker_image agent.yaml &&
    stoker render kubernetes -f agent.yaml -o agent >out 2>agent.err && told agent "image of the agent" &&
    grep -q "Set .targets.kubernetes.stoker_image" agent.err && test ! -s roomy.err &&
    sed "s/{namespace: ml}/{}/" agent.yaml >bare-agent.yaml &&
    stoker render kubernetes -f bare-agent.yaml -o bare-agent >out 2>bare-agent.err && told bare-agent "image of the agent"'
test_expect 'warned: a volume of each replica goes with a pod of a job, and checkpoints and keep with it' '
    T="kind: training, target: kubernetes, nodes: g, gpus: 8, image: r/x, command: [x], mounts: [{storage: v, path: /ck}]" &&
    site gone "  t: {$T, training: {checkpoint: {path: /ck/run}}}" "$V, per_replica: true}]" &&
    told gone "checkpoints of .t. go with its pod" && grep -q "statefulset" gone.err && ! grep -q ".keep. of" gone.err &&
    site loose "  t: {$T}" "$V, per_replica: true}]" && told loose ".keep. of .v. is not followed" &&
    site scratch "  t: {$T}" "$V, per_replica: true, keep: false}]" && test ! -s scratch.err &&
    sed "s/{namespace: ml/{job: statefulset, namespace: ml/" gone.yaml >held.yaml &&
    stoker render kubernetes -f held.yaml -o held >out 2>held.err && ! grep -q "checkpoints of\|.keep. of" held.err'
test_expect 'warned: wishes that pods which are kept running do not follow' '
    site kept "  w: {$U, cpus: 4}
  u: {$U, cpus: 4, time_limit: 1h, restart: never, queued: true, depends_on: [w], scale: {min: 0, max: 2,
    metric: cpu_utilization, target: 50%, zero_after: 10m, predict: true, max_cost: \$9/h}}" &&
    told kept "time_limit" "restart" "queued" ".depends_on. of component .u." "zero_after" "predict" "max_cost"'
test_expect 'a batch component has its limit and ends: nothing to tell' '
    site ends "  u: {kind: batch, target: kubernetes, nodes: c, image: r/x, command: [x], cpus: 4, memory: 4GiB,
    time_limit: 1h, restart: never}" && test ! -s ends.err'
test_expect 'warned: a priority under one class for all' '
    sed "s/{namespace: ml,/{namespace: ml, priority_class: pc,/;s/replicas: 2/replicas: 2, priority: high/" roomy.yaml >class.yaml &&
    stoker render kubernetes -f class.yaml -o class >out 2>class.err && told class "priority. of .u."'
test_expect 'warned: settings of GPUs that nothing makes' '
    site gpus "  u: {kind: service, target: kubernetes, nodes: g, gpus: 1, image: r/x, command: [x]}" && test ! -s gpus.err &&
    sed "s/model: H100/model: H100, sharing: mps, power_limit: 500, clock: 1500, compute_mode: prohibited, ecc: false/" gpus.yaml >set.yaml &&
    stoker render kubernetes -f set.yaml -o set >out 2>set.err &&
    told set "sharing" "power_limit" "clock" "compute_mode" "ecc" &&
    sed "s/model: H100/model: H100, sharing: mig/" gpus.yaml >whole.yaml && has gpus/kubernetes/base/component-u.yaml "nvidia.com/gpu: 1" &&
    stoker render kubernetes -f whole.yaml -o whole >out 2>whole.err && told whole "says no MIG profile: pods have its GPUs as a whole"'
test_expect 'warned: a release older than Kueue, JobSet or Trainer take' '
    for v in 1.27 1.28 1.29 1.30 1.31 1.32; do
        for kind in "queue: q" "job: jobset" "job: trainjob" "namespace: x"; do
            cat >old.yaml <<END
nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB}]
components: {t: {kind: training, target: kubernetes, nodes_per_replica: 2, gpus: 8, image: r.org/t:1, command: [t]}}
targets: {kubernetes: {version: "$v", $kind, stoker_image: r.org/s:1}}
END
            stoker spec check old.yaml 2>err
            case $kind in queue*) least=29 ;; *jobset) least=32 ;; *trainjob) least=31 ;; *) least=27 ;; esac
            grep -q "^old.yaml:3:33: warning: node-prepare.sh installs .* needs Kubernetes 1.$least: the files are for $v" err
            test $? = $([ "${v#1.}" -lt $least ] && echo 0 || echo 1) || { echo "$v $kind"; cat err; exit 1; }
        done
    done
    sed -i "s/version: \"1.32\", namespace: x/queue: q/" old.yaml && stoker spec check old.yaml 2>err && grep -q "^old.yaml:3:31: warning: .* Kueue 0" err'
test_expect 'warned: a release newer than those known' '
    sed "s/{namespace: ml,/{namespace: ml, version: \"1.99\",/" roomy.yaml >newer.yaml &&
    stoker render kubernetes -f newer.yaml -o newer >out 2>newer.err && told newer "1.99 is newer than 1"'

test_expect 'refused: a namespace of the cluster.s own; warned: a name that becomes another' '
    for n in default kube-system openshift-monitoring; do
        sed "s/namespace: ml/namespace: $n/" roomy.yaml >taken.yaml && rm -rf taken &&
        ! stoker render kubernetes -f taken.yaml -o taken 2>err && test ! -e taken &&
        grep -q "^taken.yaml:5:[0-9]*: namespace .$n. is the cluster.s own" err || exit 1
    done
    sed "s/namespace: ml/namespace: my_lab/" roomy.yaml >upper.yaml &&
    stoker render kubernetes -f upper.yaml -o upper >out 2>upper.err && told upper "it becomes .my-lab."'
H='target: kubernetes, nodes: c, cpus: 4, memory: 4GiB'
S='storage: [{name: v, kind: volume, size: 1GiB}]
models: {m: {source: a/b, kind: embedding, component: u, device: cpu}}'
# mounts PATH: a server of a fetched model, and a training component, with a storage there
mounts() {
    site served "  u: {kind: serving, $H, image: r/stoker:1, mounts: [{storage: v, path: $1}]}" "$S"
    site trained "  u: {kind: training, $H, image: r/x, command: [x], mounts: [{storage: v, path: $1}]}" "${S%%models*}"
}
test_expect 'refused: a mount where a pod has folders of its own, at its line; a model is fetched elsewhere' '
    for p in /tmp /tmp/ /etc/stoker //etc/./stoker/x /run/secrets/stoker; do
        mounts $p; grep -q "^served.yaml:[0-9]*:[0-9]*: .v. cannot be mounted at .$p.: stoker" served.err || { echo $p; exit 1; }
    done
    for p in /opt/stoker-bin /etc/stoker/launch; do
        mounts $p; grep -q "^trained.yaml:[0-9]*:[0-9]*: .v. cannot be mounted at .$p.: stoker" trained.err || { echo $p; exit 1; }
    done
    mounts /models && test ! -s trained.err && has served/kubernetes/base/component-u.yaml "mountPath: /models" "mountPath: /var/cache/stoker/models"'
test_expect 'refused: one folder twice, however it is written; what leads out of a storage; no user' '
    ! site twice "  u: {$U, cpus: 4, mounts: [{storage: v, path: /d}, {storage: v, path: /d/}]}" "${S%%models*}" &&
    grep -q "is mounted twice" twice.err &&
    for t in compose systemd kubernetes; do
        ! site outside "  u: {$U, cpus: 4, mounts: [{storage: v, path: /d, subpath: a/../../etc}]}" "${S%%models*}" &&
        sed -i "s/target: kubernetes/target: $t/" outside.yaml && ! stoker spec check outside.yaml 2>err && grep -q "leads out of" err &&
        sed "s/subpath: [^}]*/subpath: a..b/;s/cpus: 4,/cpus: 4, user: \"\$(id)\",/" outside.yaml >user.yaml && ! stoker spec check user.yaml 2>err &&
        grep -q "is no user" err && ! grep -q "leads out" err || exit 1
    done'
test_expect 'pods require labels that the scripts set when a machine joins; the rest is set by hand or by the system' '
    sed "s|{name: c, role: cpu|{name: c, labels: {tier: gold, topology.kubernetes.io/zone: z1, node.kubernetes.io/pool: p, node-role.kubernetes.io/db: \"true\", x.k8s.io/y: z, feature.node.kubernetes.io/pci-15b3.present: \"true\", nvidia.com/gpu.product: Q}, role: cpu|" roomy.yaml >lab.yaml &&
    stoker render kubernetes -f lab.yaml -o lab >out && f=lab/kubernetes/base/component-u.yaml && sh lab/kubernetes/node-prepare.sh machine c >said &&
    for l in tier=gold topology.kubernetes.io/zone=z1 node.kubernetes.io/pool=p; do
        has $f "key: ${l%=*}" && grep -q "node-labels=.*,$l" said || { echo $l; exit 1; }
    done
    sh lab/kubernetes/node-prepare.sh operators >ops &&
    for l in node-role.kubernetes.io/db=true x.k8s.io/y=z; do
        hasnt $f "key: ${l%=*}" && ! grep -q "$l" said && grep -q "kubectl label node --overwrite -l stoker/group=c $l" ops || { echo $l; exit 1; }
    done
    hasnt $f "key: feature" && hasnt $f "key: nvidia" && ! grep -q "feature.node\|gpu.product" said ops &&
    sed "s/target: kubernetes/target: openshift/;s/{kubernetes: {namespace: ml,/{openshift: {namespace: ml,/" lab.yaml >oc.yaml &&
    stoker render openshift -f oc.yaml -o oc >out && sh oc/openshift/node/label.sh c >said &&
    for l in tier=gold topology.kubernetes.io/zone=z1 node-role.kubernetes.io/db=true x.k8s.io/y=z; do
        has oc/openshift/components/u.yaml "key: ${l%=*}" && grep -q "oc label node --overwrite c2 .* $l" said || { echo $l; exit 1; }
    done'
test_expect 'what is to run on the control plane bears its taint' '
    sed "s/role: cpu/role: control/" roomy.yaml >control.yaml && stoker render kubernetes -f control.yaml -o control >out &&
    has control/kubernetes/base/component-u.yaml "key: node-role.kubernetes.io/control-plane" "operator: Exists" &&
    hasnt roomy/kubernetes/base/component-u.yaml "node-role"'
test_expect 'warned: a volume of one machine in two components; none on one machine' '
    M="mounts: [{storage: v, path: /v}]" &&
    site two "  u: {$U, cpus: 4, $M}
  w: {$U, cpus: 4, $M}" "$V}]" && told two "at one machine at a time.*.w. never starts on another than .u." &&
    sed "/role: cpu/s/count: 2/count: 1/" two.yaml >same.yaml && stoker render kubernetes -f same.yaml -o same >out 2>same.err && test ! -s same.err'
test_expect 'NFS that only has a path is what machines mounted there, not an empty volume' '
    site nfs "  u: {$U, cpus: 4, mounts: [{storage: n, path: /q}]}" "storage: [{name: n, kind: nfs, path: /q, size: 1TB}]" &&
    has nfs/kubernetes/base/storage.yaml "hostPath:" "path: /q" &&
    sed "s/path: .q, size/storage_class: fast, size/" nfs.yaml >nfs2.yaml && stoker render kubernetes -f nfs2.yaml -o nfs2 >out &&
    has nfs2/kubernetes/base/storage.yaml "storageClassName: fast" && hasnt nfs2/kubernetes/base/storage.yaml "hostPath:"'
test_expect 'warned: pods may meet two architectures where no group is named' '
    sed "s/nodes: c, //;s/{name: g,/{name: g, arch: aarch64,/" roomy.yaml >arches.yaml &&
    stoker render kubernetes -f arches.yaml -o arches >out 2>arches.err && told arches "two architectures (.g., .c.)" &&
    sed "s/target: kubernetes/target: kubernetes, nodes: [c, g]/" arches.yaml >both.yaml &&
    stoker render kubernetes -f both.yaml -o both >out 2>both.err && ! grep -q architectures both.err'
# sharing HOW REPLICAS [COMPONENT]: pods of a pool of 20 GB on one GPU of 48 GB
sharing() {
    site sharing "  u: {target: kubernetes, nodes: g, pools: [p], image: r/x, command: [x], replicas: $2}
${3-}" "pools: {p: {size: 20GB, nodes: g}}"
    sed "s/name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}/name: g, count: 1, gpus_per_node: 1, gpu: {model: L40S, sharing: $1}/" sharing.yaml >cut.yaml
    rm -rf cut && stoker render kubernetes -f cut.yaml -o cut >cut.out 2>cut.err
}
test_expect 'a GPU is offered as often as the largest pool fits, and no oftener' '
    for how in mps time_slicing; do
        sharing $how 2 && has cut/kubernetes/gpu-operator-values.yaml "replicas: 2" && test ! -s cut.err || exit 1
        ! sharing $how 3 && grep -q "^cut.yaml:[0-9]*:[0-9]*: .*2 fit" cut.err || exit 1
    done'
test_expect 'who shares a GPU by MPS has the /dev/shm of its daemon and one user; with time slices each has its own' '
    cat >mps.yaml <<END
site: {name: s}
nodes: [{name: s, count: 2, gpus_per_node: 4, gpu: {model: L40S, sharing: mps}, cpu_cores: 48, memory: 384GB}]
storage: [{name: quick, kind: memory, size: 2GiB}]
pools: {p: {size: 10GB}}
components:
  a: {target: kubernetes, image: r.org/a:1, command: [a], pools: [p], user: "1000"}
  b: {target: kubernetes, image: r.org/b:1, command: [b], pools: [p]}
targets: {kubernetes: {stoker_image: r.example/stoker:1}}
END
    stoker render kubernetes -f mps.yaml -o mps >out 2>err && ! grep -v "Prometheus" err | grep warning: &&
    has mps/kubernetes/base/component-a.yaml "nvidia.com/gpu: 1" && ! grep -r "/dev/shm" mps/kubernetes/base &&
    sed "s/sharing: mps/sharing: time_slicing/" mps.yaml >slices.yaml && stoker render kubernetes -f slices.yaml -o slices >out 2>err &&
    has slices/kubernetes/base/component-a.yaml "mountPath: /dev/shm" &&
    sed "s/size: 10GB/size: 40GB/" mps.yaml >one.yaml && stoker render kubernetes -f one.yaml -o one >out 2>err &&
    has one/kubernetes/base/component-a.yaml "mountPath: /dev/shm" &&
    sed "s/  b: {/&shm: 1GiB, /" mps.yaml >shm.yaml && stoker spec check shm.yaml >out 2>err &&
    grep -q "^shm.yaml:7:12: warning: MPS brings /dev/shm into pods of .b.: its .shm. is not followed" err &&
    sed "s|  b: {|&mounts: [{storage: quick, path: /dev/shm}], |" mps.yaml >hides.yaml && ! stoker spec check hides.yaml 2>err &&
    grep -q "^hides.yaml:7:39: a mount at /dev/shm hides that of the MPS daemon" err &&
    sed "s/1000/2000/" mps.yaml >users.yaml && ! stoker spec check users.yaml 2>err &&
    grep -q "^users.yaml:6:77: components .a. and .b. share GPUs of .s. as users 2000 and 1000: MPS serves one" err &&
    sed "s/mps}/time_slicing}/" users.yaml >apart.yaml && stoker spec check apart.yaml'
test_expect 'a whole GPU where all are shared: refused with MPS, told with time slices' '
    W="  w: {target: kubernetes, nodes: g, gpus: 1, image: r/x, command: [x]}" &&
    ! sharing mps 1 "$W" && grep -q "^cut.yaml:[0-9]*:[0-9]*: .u. shares a GPU where .w. takes 1" cut.err &&
    sharing time_slicing 1 "$W" && told cut "the GPU of .w. is not its own: .u. shares"'
# Machines that share GPUs in every way, and one that does not; no GPU Operator.
cat >without.yaml <<'END'
schema: stoker.spec/1
site: {name: without}
nodes:
  - {name: m, count: 1, gpus_per_node: 4, gpu: {model: H100, sharing: mig, mig_profile: 3g.40gb}, cpu_cores: 64, memory: 512GB}
  - {name: s, count: 1, gpus_per_node: 2, gpu: {model: L40S, sharing: mps}, cpu_cores: 64, memory: 512GB}
  - {name: t, count: 1, gpus_per_node: 1, gpu: {model: L40S, sharing: time_slicing}, cpu_cores: 64, memory: 512GB}
  - {name: w, count: 1, gpus_per_node: 1, gpu: {model: L40S}, cpu_cores: 64, memory: 512GB}
  - {name: cp, role: control, cpu_cores: 8, memory: 32GB}
pools: {p: {size: 10GB, nodes: s}, q: {size: 20GB, nodes: t}}
components:
  a: {target: kubernetes, nodes: m, gpus: 1, replicas: 3, image: "r/a:1"}
  b: {target: kubernetes, nodes: s, pools: [p], replicas: 6, image: "r/a:1"}
  c: {target: kubernetes, nodes: t, pools: [q], replicas: 2, image: "r/a:1"}
targets: {kubernetes: {gpu_operator: false, stoker_image: "r/s:1"}}
END
test_expect 'the server of models without a component has whole GPUs, of any group that has so many' '
    cat >loose.yaml <<END
nodes:
  - {name: s, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 48, memory: 384GB}
  - {name: t, gpus_per_node: 1, gpu: {model: L4}, cpu_cores: 48, memory: 384GB}
  - {name: cut, gpus_per_node: 8, gpu: {model: H100, sharing: mig, mig_profile: 1g.10gb}, cpu_cores: 48, memory: 384GB}
models: {m: {source: BAAI/bge-m3, kind: embedding, gpus: "0-1"}}
serve: {listen: 0.0.0.0, token_file: /etc/t}
targets: {kubernetes: {stoker_image: "r.example/stoker:1"}}
END
    f=loose/kubernetes/base/serve.yaml && stoker render kubernetes -f loose.yaml -o loose >out 2>err && has $f "nvidia.com/gpu: 2" && grep -A3 "key: stoker/group" $f | grep -qw s &&
    ! grep -A3 "key: stoker/group" $f | grep -qw -e t -e cut &&
    sed "s/gpus: .0-1./device: gpu/; /name: cut/d" loose.yaml >whole.yaml && stoker render kubernetes -f whole.yaml -o loose >out 2>err && has $f "nvidia.com/gpu: 1" && grep -A3 "key: stoker/group" $f | grep -qw t &&
    sed "/name: cut/d; /name: t/d" loose.yaml >shared.yaml && printf "pools: {p: {size: 10GB}}\ncomponents: {a: {target: kubernetes, image: r.org/a:1, command: [a], pools: [p]}}\n" >>shared.yaml &&
    ! stoker spec check shared.yaml 2>err && grep -q "^shared.yaml:7:77: .a. shares a GPU of .s. where stoker serve, for models of no component, takes 2" err &&
    sed "s/0-1/0/" shared.yaml >one.yaml && stoker spec check one.yaml 2>err && grep -q "warning: the GPU of stoker serve, for models of no component, is not its own: .a. shares" err &&
    sed "s/L40S/L40S, sharing: mps/" one.yaml >mps1.yaml && ! stoker spec check mps1.yaml 2>err && grep -q "no component, takes 1: Kubernetes shares all" err'
test_expect 'without the GPU Operator the device plug-in is told what is shared; who has no label shares nothing' '
    render without without.yaml && f=without/kubernetes/device-plugin-values.yaml &&
    has $f "migStrategy: mixed" "mps:" "timeSlicing:" "replicas: 4" "replicas: 2" "- empty" &&
    grep -q "device-plugin-values.yaml" without/kubernetes/node-prepare.sh &&
    sh without/kubernetes/node-prepare.sh machine s | grep -q "nvidia.com/device-plugin.config=s" &&
    ! sh without/kubernetes/node-prepare.sh machine w | grep -q "device-plugin.config"'
test_expect 'without the GPU Operator a machine cuts its GPUs itself, before the kubelet' '
    sh without/kubernetes/node-prepare.sh machine m >m.txt && sh without/kubernetes/node-prepare.sh machine s >s.txt &&
    has m.txt "nvidia-smi mig -cgi 3g.40gb,3g.40gb -C" "Before=kubelet.service" "enable --now mig-instances.service" &&
    hasnt m.txt "mig.config" && hasnt s.txt "mig-instances"'
# A cluster that has the Deployments u and old, a Service that must lose its address and a set with other claims.
mkdir -p stub && cat >stub/kubectl <<'END'
#!/bin/sh
case "$*" in
*"--dry-run=client"*) printf '%s\n' statefulset.apps/u service/u service/x service/y ;;
*"--dry-run=server"*)
    echo 'for: "x": error when patching "x": Service "u" is invalid: spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set' >&2
    echo 'The StatefulSet "u" is invalid: spec: Forbidden: updates to statefulset spec for fields other than these are forbidden' >&2
    exit 1 ;;
*"get deployment.apps -l app.kubernetes.io/managed-by=stoker,app.kubernetes.io/instance=s "*) printf 'u\nold\n' ;;
*"get service -l"*clusterIP*) printf 'x\ny\n' ;;
*"get service -l"*) printf 'u\nold\n' ;;
*" get "*) exit 1 ;;
esac
END
chmod 755 stub/kubectl
test_expect 'manifests makes room for what apply cannot change and names what the spec no longer has; prune deletes that' '
    site rooms "  u: {$U, replicas: 2, cpus: 20}
  x: {$U, ports: [{name: p, port: 80}]}
  y: {kind: training, target: kubernetes, nodes: c, gpus: 0, nodes_per_replica: 2, image: r/x, command: [x]}" &&
    PATH=$PWD/stub:$PATH sh rooms/kubernetes/node-prepare.sh manifests >room.txt && cat room.txt &&
    has room.txt "+ kubectl -n ml delete deployment.apps/u" "+ kubectl -n ml delete service/u" \
        "+ kubectl -n ml delete statefulset/u --cascade=orphan" "no longer names it: deployment.apps/old in ml" "no longer names it: service/old" &&
    has room.txt "+ kubectl -n ml delete service/x" && hasnt room.txt "delete service/y" &&
    hasnt room.txt "delete deployment.apps/old" && tail -1 room.txt | grep -q "apply -k" &&
    PATH=$PWD/stub:$PATH sh rooms/kubernetes/node-prepare.sh prune >prune.txt &&
    has prune.txt "+ kubectl -n ml delete deployment.apps/old" "+ kubectl -n ml delete service/old"'
test_expect 'small asks for the instances that machines with MIG have' '
    site cutup "  u: {target: kubernetes, nodes: g, gpus: 2, image: r/x, command: [x]}" &&
    sed "s/{model: H100}/{model: H100, sharing: mig, mig_profile: 1g.10gb}/" cutup.yaml >mig.yaml && stoker render kubernetes -f mig.yaml -o mig >out &&
    has mig/kubernetes/overlays/small/u.yaml "nvidia.com/mig-1g.10gb: 1" && hasnt mig/kubernetes/overlays/small/u.yaml "nvidia.com/gpu:"'
test_expect 'MIG strategy single: the operator, the plug-in.s chart and requests say nvidia.com/gpu, a component may be on groups cut in different ways' '
    s="$TOP/tests/kube/sites/mig-single.yaml" && stoker render kubernetes -f "$s" -o single >out && k=single/kubernetes &&
    has $k/gpu-operator-values.yaml "strategy: single" && has $k/base/component-small.yaml "nvidia.com/gpu: 1" && ! grep -r "nvidia.com/mig-" $k &&
    grep -q "1g.18gb.: 7" $k/gpu-operator-values.yaml && sh $k/node-prepare.sh machine slices | grep -q "nvidia.com/mig.config=slices" &&
    sed "s/mig_strategy: single/mig_strategy: single, gpu_operator: false/" "$s" >bare-single.yaml && stoker render kubernetes -f bare-single.yaml -o bare-single >out 2>err &&
    has bare-single/kubernetes/device-plugin-values.yaml "migStrategy: single" &&
    sed "s/mig_strategy: single/mig_strategy: mixed/" "$s" >mixed.yaml && ! stoker render kubernetes -f mixed.yaml -o mixed 2>err &&
    grep -q "asks for GPUs of .slices. and of .halves., which are not cut alike" err && grep -q "mig_strategy: single" err'
test_expect 'MIG strategy single: Kueue counts instances as GPUs, at the flavor of their group' '
    sed "s/mig_strategy: single/mig_strategy: single, queue: q/; s/, nodes: \[slices, halves\]/, nodes: slices/" "$TOP/tests/kube/sites/mig-single.yaml" >queued-single.yaml &&
    stoker render kubernetes -f queued-single.yaml -o queued-single >out 2>err && awk "/- name: slices/ { on = 1 } on && /nominalQuota/ { print; exit }" queued-single/kubernetes/cluster/queues.yaml | grep -q "28"'
test_expect 'small runs where no group is and nobody lets jobs in: group preferred, in no queue' '
    stoker render kubernetes -f "$TOP/tests/kube/sites/queue.yaml" -o lone >out && l=lone/kubernetes/overlays/small &&
    ! grep -rq "suspend:\|/suspend" lone/kubernetes/base lone/kubernetes/overlays &&
    for c in pretrain rack eval prep; do
        grep -B1 "path: .*kueue.x-k8s.io~1queue-name" $l/$c.yaml | grep -q "op: remove" || exit 1
    done &&
    for c in rack chat api; do
        grep -A9 "path: .*/nodeAffinity" $l/$c.yaml | grep -q "key: kubernetes.io/arch" &&
        sed -n "/preferredDuring/,\$p" $l/$c.yaml | grep -q "key: stoker/group" && ! sed -n "/requiredDuring/,/preferredDuring/p" $l/$c.yaml | grep -q stoker/group || exit 1
    done'
test_expect 'pods that fill machines: a constraint of their own keeps the scheduler from spreading them by its default' '
    stoker render kubernetes -f "$TOP/tests/kube/sites/fill.yaml" -o fill >out 2>err && test ! -s err && f=fill/kubernetes/base/component-serve.yaml &&
    has $f "maxSkew: 1000" "whenUnsatisfiable: ScheduleAnyway" "weight: 100" && has fill/kubernetes/base/component-train.yaml "maxSkew: 1" "whenUnsatisfiable: DoNotSchedule"'
test_expect 'warned: all fits, but pods that spread leave no machine for a large one; not where it goes first' '
    site spread "  u: {$U, replicas: 2, cpus: 20}
  w: {$U, cpus: 50}" && told spread "all pods fit, but .* may leave one of .w. without a machine" &&
    sed "s/cpus: 50/cpus: 50, priority: high/" spread.yaml >first.yaml && stoker render kubernetes -f first.yaml -o first >out 2>first.err && test ! -s first.err'
test_expect 'a component without an image is told which one it may have' '
    sed "s|, image: r/x, command: .x.||;s/kind: service/kind: serving/" roomy.yaml >bare-image.yaml &&
    stoker render kubernetes -f bare-image.yaml -o bare-image >/dev/null 2>err && grep -rq "image: .*r/stoker:1.*# targets.kubernetes.stoker_image" bare-image/kubernetes/base/component-u.yaml &&
    sed "s|, image: r/x||" roomy.yaml >bare-image.yaml &&
    ! stoker render kubernetes -f bare-image.yaml -o bare-image 2>err && grep -q "image: registry.example.org/u:1" err'
test_expect 'Kueue: a fabric.s resources are left out by name, GPUs of the same prefix are not; a job over groups is told' '
    stoker render kubernetes -f "$TOP/tests/kube/sites/queue.yaml" -o kueue 2>kueue.err &&
    grep -rhF "excludeResourcePrefixes: [rdma/" kueue/kubernetes >x && ! grep -q "nvidia.com/[,]]" x && grep -q "nvidia.com/[a-z]" x &&
    grep -q ": warning: Kueue gives all pods of .pretrain. machines of one group" kueue.err'

if command -v shellcheck >/dev/null; then
    test_expect 'shellcheck finds nothing in the scripts' '
        shellcheck */kubernetes/node-prepare.sh launch.sh'
    test_expect 'shellcheck finds nothing without the GPU Operator either' '
        variant bare "s/{namespace: lab,/{namespace: lab, gpu_operator: false,/" &&
        shellcheck bare/kubernetes/node-prepare.sh without/kubernetes/node-prepare.sh'
else
    test_skip 'shellcheck finds nothing in the scripts' 'no shellcheck: tools/setup test'
fi

# kubectl before 1.21 has kustomize 2, whose words were others.
old_words() {
    sed -e 's/^patches:/patchesJson6902:/' -e '/^  - "*\.\.\/\.\.\/base"*$/d' "$1/kustomization.yaml" >k
    case "$1" in */overlays/*) printf 'bases:\n  - ../../base\n' >>k ;; esac
    cp k "$1/kustomization.yaml"
}
build() { # DIR: every kustomization of it
    for k in base overlays/site overlays/small; do
        case "$KUSTOMIZE" in old) old_words "$1/kubernetes/$k" ;; esac
        kubectl kustomize "$1/kubernetes/$k" >"$1-$(basename $k).built" || return 1
    done
}
if command -v kubectl >/dev/null; then
    KUSTOMIZE=new
    case $(kubectl version --client 2>/dev/null) in *'Minor:"20"'*) KUSTOMIZE=old ;; esac
    for e in $EXAMPLES job statefulset pytorchjob trainjob jobset; do
        test_expect "kustomize builds $e" 'cp -r '"$e"' k-'"$e"' && build k-'"$e"
    done
    test_expect 'small: one pod, one GPU, no second network' '
        for j in job pytorchjob trainjob jobset statefulset; do
            ! grep -q "nvidia.com/gpu: [2-9]" k-$j-small.built &&
            ! grep -q "k8s.v1.cni.cncf.io/networks" k-$j-small.built &&
            grep -q "nvidia.com/gpu: 8" k-$j-base.built || exit 1
        done
        ! grep -q "Worker:" k-pytorchjob-small.built && grep -q "numNodes: 1" k-trainjob-small.built'
    test_expect 'kustomize takes no file that is not there' '
        cp -r job k-broken && rm k-broken/kubernetes/base/storage.yaml && ! build k-broken'
else
    test_skip 'kustomize builds' 'no kubectl: tools/setup test'
fi
test_expect 'the agent gets no environment of components; pods of a job are replicas times machines' '
    cat >secret.yaml <<END &&
nodes: [{name: g, count: 4, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
components:
  tr: {kind: training, target: kubernetes, nodes: g, gpus: 8, image: a/b:1, command: [x], env: {PASSWORD: s3cr3t}, replicas: 2, nodes_per_replica: 2, training: {framework: torchrun}}
targets: {kubernetes: {namespace: kk, stoker_image: r.org/s:1}}
END
    stoker render kubernetes -f secret.yaml -o secret >/dev/null 2>&1 && ! grep -q s3cr3t secret/kubernetes/base/agent.yaml &&
    grep -rq s3cr3t secret/kubernetes/base &&
    grep -rq "completions: 4 *# components.tr.replicas x components.tr.nodes_per_replica" secret/kubernetes
'
test_expect "storage of any name leaves stoker's own volumes alone" '
    for n in models spec token tmp dev-shm stoker launcher bin shm launch; do
        cat >own.yaml <<END
nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
storage: [{name: $n, kind: nfs, path: /n, source: "s:/n", size: 1TB}]
models: {m: {source: BAAI/bge-m3, kind: embedding, component: x}}
components:
  x: {kind: serving, target: kubernetes, nodes: g, gpus: 1, image: r.example/a:1, mounts: [{storage: $n, path: /n}]}
  t: {kind: training, target: kubernetes, nodes: g, gpus: 8, image: a/b:1, command: [x], mounts: [{storage: $n, path: /n}], training: {framework: torchrun}}
serve: {listen: 0.0.0.0, token_file: /etc/t}
targets: {kubernetes: {stoker_image: "r.example/s:1"}}
END
        rm -rf own && stoker render kubernetes -f own.yaml -o own >/dev/null 2>err || { cat err; exit 1; }
        for c in x t; do
            f=own/kubernetes/base/component-$c.yaml
            test "$(grep -c "^ *mountPath: /n *\(#.*\)*$" $f)" = 1 && test "$(grep -c "claimName: $n *\(#.*\)*$" $f)" = 1 || { echo "$n in $c"; exit 1; }
        done
        has own/kubernetes/base/component-x.yaml "name: stoker-token" "name: stoker-spec" "name: stoker-models" "name: stoker-tmp" || exit 1
    done
    sed "s/name: launch,/name: stoker-shm,/; s/storage: launch,/storage: stoker-shm,/" own.yaml >theirs.yaml &&
    ! stoker spec check theirs.yaml 2>err && grep -q "^theirs.yaml:2:[0-9]*: .*stoker.s own" err
'
test_expect 'a StatefulSet holds training that is done, and starts one that failed again' '
    configmap statefulset/kubernetes/base/launch.yaml launch.sh >launch.sh && stoker spec example rdma-openshift >shift.yaml &&
    stoker render openshift -f shift.yaml -o shift >/dev/null 2>&1 &&
    python3 -c "import sys; hold, *all = (open(f).read() for f in sys.argv[1:]); sys.exit(not all[0].count(hold) == all[1].count(hold) == 1)" \
        "$TOP/data/render/hold.sh" launch.sh shift/openshift/launcher.sh &&
    grep -rq "name: STOKER_HOLD" statefulset/kubernetes/base && ! grep -rq "name: STOKER_HOLD" job/kubernetes/base &&
    configmap statefulset/kubernetes/base/launch.yaml launch.sh >launch.sh &&
    { STOKER_HOLD=1 STOKER_NODES=1 sh launch.sh true 2>hold.err & held=$!; } &&
    n=0 && until grep -q "waiting to be scaled down" hold.err || test $n = 600; do n=$((n + 1)); sleep 0.1; done &&
    kill -0 $held && kill $held && wait $held &&
    ! STOKER_HOLD=1 STOKER_NODES=1 sh launch.sh false 2>/dev/null && STOKER_NODES=1 sh launch.sh true 2>/dev/null
'
cat >server.yaml <<'END'
nodes:
  - {name: g, count: 2, gpus_per_node: 2, gpu: {model: L40S, sharing: time_slicing}, cpu_cores: 64, memory: 512GB}
  - {name: whole, count: 1, gpus_per_node: 4, gpu: {model: H100}, cpu_cores: 64, memory: 512GB}
pools: {small: {size: 12GB, nodes: g}}
components:
  many: {kind: batch, target: kubernetes, nodes: g, pools: [small], replicas: 10, queued: true, image: r.example/b:1, command: [x]}
  part: {kind: serving, target: kubernetes, nodes: g, pools: [small]}
  two: {kind: serving, target: TARGET, nodes: whole, gpus: 2}
  none: {kind: serving, target: TARGET, nodes: whole, image: r.example/own:1}
models:
  a: {source: org/a, kind: embedding, component: part}
  b: {source: org/b, kind: embedding, component: two, dtype: f16}
  c: {source: org/c, kind: embedding, component: none}
  d: {source: org/d, kind: embedding, component: two, gpus: "1"}
  e: {source: org/e, kind: embedding, component: two, device: cpu}
serve: {listen: 0.0.0.0, token_file: /etc/t}
targets: {kubernetes: {stoker_image: "r.example/s:1", queue: main}, openshift: {stoker_image: "r.example/s:1"}}
END
sed 's/TARGET/kubernetes/' server.yaml >server-kubernetes.yaml
sed '/^  many:/d;/^  part:/d;/^  a:/d;s/TARGET/openshift/' server.yaml >server-openshift.yaml
test_expect 'a server of a pod has its models on the GPUs that the pod asks for' '
    for t in kubernetes openshift; do
        rm -rf srv && stoker render $t -f server-$t.yaml -o srv >/dev/null 2>err || { cat err; exit 1; }
        python3 - "$t" <<"END" || exit 1
import sys, yaml, glob
gpus = {}
for path in glob.glob("srv/" + sys.argv[1] + "/**/*.yaml", recursive=True):
    for o in yaml.safe_load_all(open(path)):
        if isinstance(o, dict) and o.get("kind") == "ConfigMap" and "models:" in o.get("data", {}).get("stoker.yaml", "") and o["metadata"]["name"] != "stoker-spec":
            text = yaml.safe_load(o["data"]["stoker.yaml"])
            assert "connections_max" not in text["serve"], text["serve"]
            gpus.update({n: m.get("gpus") for n, m in text["models"].items()})
want = {"a": "0", "b": "0-1", "c": None, "d": "1", "e": None}
assert gpus == {k: v for k, v in want.items() if k != "a" or sys.argv[1] == "kubernetes"}, gpus
END
    done
'
test_expect 'a server without an image is of the image with stoker in it' '
    for t in kubernetes openshift; do
        rm -rf srv && stoker render $t -f server-$t.yaml -o srv >/dev/null 2>&1 || exit 1
        f=$(ls srv/$t/base/component-two.yaml srv/$t/components/two.yaml 2>/dev/null)
        grep -q "image: .*r.example/s:1.*# targets.$t.stoker_image" $f || exit 1
        sed "s/stoker_image: \"r.example.s:1\"/version: \"1.30\"/g;s/openshift: {version: \"1.30\"}/openshift: {}/" server-$t.yaml >bare.yaml
        ! stoker spec check bare.yaml 2>err && grep -q "set .targets.$t.stoker_image., or give it an image" err || { cat err; exit 1; }
    done
'
test_expect 'Kueue counts shares of GPUs, as pods ask for them' '
    rm -rf srv && stoker render kubernetes -f server-kubernetes.yaml -o srv >/dev/null 2>&1 &&
    python3 - <<"END"
import yaml
for o in yaml.safe_load_all(open("srv/kubernetes/cluster/queues.yaml")):
    if o["kind"] == "ClusterQueue":
        got = {f["name"]: r["nominalQuota"] for f in o["spec"]["resourceGroups"][0]["flavors"] for r in f["resources"] if r["name"] == "nvidia.com/gpu"}
assert got == {"g": "16", "whole": "4"}, got
END
'
test_expect 'a model on a share of a GPU may ask for the GPU' '
    sed "s,source: org/a,source: org/a\, device: gpu," server-kubernetes.yaml >dev.yaml && stoker spec check dev.yaml >/dev/null
'
test_expect 'machines whose names Kubernetes takes for no node are refused where a component needs them' '
    for host in "name: gpu_a" "name: g, hosts: \"GPU[1-2]\""; do
        cat >names.yaml <<END
nodes:
  - {$host, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}
components: {u: {kind: service, target: kubernetes, gpus: 8, image: r/x:1, command: [x]}}
targets: {kubernetes: {stoker_image: r/s:1}}
END
        ! stoker spec check names.yaml 2>err && grep -q "^names.yaml:2:[0-9]*: a machine of .* which Kubernetes takes for no node" err || { cat err; exit 1; }
    done
    sed "s/  - {.*hosts: .[^,]*,/  - {name: gpu_a, hosts: \"gpu-a[1-2]\",/" names.yaml >fine.yaml && stoker spec check fine.yaml >/dev/null 2>err || { cat err fine.yaml; exit 1; }
'
test_expect 'a pool of a model is where its component runs' '
    sed "s/^  a: {source: org.a,/  a: {source: org\/a, pool: big,/;s/^pools: {/pools: {big: {size: 12GB, nodes: whole}, /" server-kubernetes.yaml >mpool.yaml && ! cmp -s mpool.yaml server-kubernetes.yaml &&
    ! stoker spec check mpool.yaml 2>err && grep -q "pool .big. is memory of the GPUs of .whole., where component .part. of model .a. does not run" err || { cat err; exit 1; }
'
# driver VERSION: the driver that the GPU Operator is told to bring, where it is told one
driver() {
    { cat "$KUBE"; echo "software: {driver: \"$1\"}"; } >d.yaml
    stoker render kubernetes -f d.yaml -o d >out 2>err && sed -n '/^driver:/,/^[a-z]/s/^  version: "*\([0-9.]*\)"*.*/\1/p' d/kubernetes/gpu-operator-values.yaml
}
test_expect 'software.driver is a minimum: an older one never takes the place of the operator'"'"'s' '
    test -z "$(driver 535)$(driver 550.54)$(driver 550.54.15)$(driver 595.91.07)" && test "$(driver 600.10.03)" = 600.10.03 && ! grep "driver image" err &&
    test "$(driver 600.1)" = 600.1 && grep -q "no driver image .600.1." err
'
test_expect 'a port below 1024 is opened to any user of its pod, by the lowest one, and to no other pod' '
    cat >low.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
	components:
	  ui: {target: kubernetes, nodes: c, image: "nginx:1", ports: [{name: tls, port: 443}, {name: web, port: 80}]}
	  dns: {target: kubernetes, nodes: c, image: "nginx:1", ports: [{name: x, port: 53, protocol: udp}], user: root}
	  api: {target: kubernetes, nodes: c, image: "nginx:1", ports: [{name: x, port: 1024}]}
	targets: {kubernetes: {stoker_image: "r.example.org/s:1"}}
	EOF
    render low low.yaml && b=low/kubernetes/base/component &&
    has $b-ui.yaml "name: net.ipv4.ip_unprivileged_port_start" "value: \"80\"" &&
    has $b-dns.yaml "name: net.ipv4.ip_unprivileged_port_start" "value: \"53\"" && hasnt $b-api.yaml sysctls:
'
test_expect 'the namespace of the networks is made before them, where it is not the target'"'"'s, and by no manifest' '
    variant nets "s/sriov: {vfs: 8,/sriov: {vfs: 8, network_namespace: nets,/" && hasnt nets/kubernetes/base/namespace.yaml "name: nets" &&
    PATH=$PWD/none:$PATH sh nets/kubernetes/node-prepare.sh operators >plan &&
    test "$(grep -n -A1 "base/namespace.yaml" plan | sed -n "2s/^[0-9]*-//p")" = "+ kubectl create namespace nets" &&
    sh job/kubernetes/node-prepare.sh operators >plan && ! grep "create namespace" plan'
test_expect 'virtual functions are made on groups of the fabric alone, a policy for each, with its own names of NICs' '
    has job/kubernetes/cluster/sriov.yaml "stoker/group: " && variant chosen "s/sriov: {vfs: 8,/sriov: {vfs: 8, node_selector: {nic: cx7},/" &&
    hasnt chosen/kubernetes/cluster/sriov.yaml stoker/group && has chosen/kubernetes/cluster/sriov.yaml "nic: cx7" &&
    cat >groups.yaml <<-"EOF" &&
	nodes:
	  - {name: one, count: 2, gpus_per_node: 8, gpu: {model: H100}, fabrics: [rails]}
	  - {name: two, count: 2, gpus_per_node: 8, gpu: {model: H100}, fabrics: [rails], nics: {rails: {pfs: [p0, p1]}}}
	  - {name: web, role: cpu, cpu_cores: 16, memory: 64GB}
	fabrics: [{name: rails, kind: roce, rate: 400Gb/s, nics_per_node: 2, subnets: [10.1.0.0/24, 10.2.0.0/24], sriov: {pfs: [e0, e1], vfs: 4}}]
	components: {t: {kind: training, target: kubernetes, nodes: one, gpus: 8, image: "x:1", command: [x], fabrics: [rails]}}
	targets: {kubernetes: {stoker_image: "x:1"}}
	EOF
    render groups groups.yaml && python3 - groups/kubernetes/cluster/sriov.yaml <<-"EOF"
	import sys, yaml
	got = {d["metadata"]["name"]: (d["spec"]["nodeSelector"]["stoker/group"], d["spec"]["nicSelector"]["pfNames"]) for d in yaml.safe_load_all(open(sys.argv[1]))}
	assert got == {"rails-net1-one": ("one", ["e0"]), "rails-net2-one": ("one", ["e1"]), "rails-net1-two": ("two", ["p0"]), "rails-net2-two": ("two", ["p1"])}, got
	EOF'
test_expect 'RDMA devices that pods share are those of all groups of the fabric, by the names of each' '
    cat >shared.yaml <<-"EOF" &&
	nodes:
	  - {name: one, count: 2, gpus_per_node: 8, gpu: {model: H100}, fabrics: [ib]}
	  - {name: two, count: 2, gpus_per_node: 8, gpu: {model: H100}, fabrics: [ib], nics: {ib: {interfaces: [ibp1, ibp2]}}}
	fabrics: [{name: ib, kind: infiniband, rate: 400Gb/s, nics_per_node: 2, interfaces: [ib0, ib1]}]
	components: {t: {kind: training, target: kubernetes, nodes: two, gpus: 8, image: "x:1", command: [x], fabrics: [ib]}}
	targets: {kubernetes: {stoker_image: "x:1"}}
	EOF
    render shared shared.yaml && has shared/kubernetes/networking/rdma-devices.yaml "\"ib0\"" "\"ib1\"" "\"ibp1\"" "\"ibp2\"" &&
    sed "s/interfaces: .ibp1, ibp2./count: 1/" shared.yaml >unnamed.yaml && render unnamed unnamed.yaml && hasnt unnamed/kubernetes/networking/rdma-devices.yaml ifNames'
test_expect 'restart: always of a Job is told: it is started again when it failed' '
    cat >again.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
	components: {n: {kind: batch, target: kubernetes, nodes: c, image: "x:1", command: [x], restart: always}}
	targets: {kubernetes: {}}
	EOF
    stoker spec check again.yaml >/dev/null 2>err && grep -q "^again.yaml:2:.* warning: a job is started again when it failed, .*.restart: always. of .n." err &&
    sed "s/always/on_failure/" again.yaml >once.yaml && stoker spec check once.yaml >/dev/null 2>err && ! grep "restart: always" err'
cat >names.yaml <<'EOF'
nodes: [{name: g, count: 2, cpu_cores: 32, memory: 256GB, gpus_per_node: 4, gpu: {model: L40S}}]
components: {NAME: {target: kubernetes, nodes: g, image: "x:1", ports: [{name: http, port: 8004}]}}
targets: {kubernetes: {}, openshift: {}}
EOF
test_expect 'components with names of our own containers, policies and workloads are refused on both targets' '
    for n in stoker stoker-serve fetch-models default-deny allow-dns allow-prometheus allow-router allow-builds allow_dns; do
        sed "s/NAME/$n/" names.yaml >n.yaml && ! stoker render kubernetes -f n.yaml -o n 2>err && grep -q "^n.yaml:2:14: component .$n. has a name of stoker" err || { cat err; exit 1; }
        sed "s/NAME/$n/;s/target: kubernetes/target: openshift/" names.yaml >n.yaml && ! stoker render openshift -f n.yaml -o n 2>err && grep -q "^n.yaml:2:14: component .$n. has a name of stoker" err || { cat err; exit 1; }
    done
    for n in stokers my-stoker dns; do
        sed "s/NAME/$n/" names.yaml >n.yaml && render n-$n n.yaml || exit 1
    done'
test_expect 'depends_on shuts nobody out of a service; traffic names who may send' '
    cat >order.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 64, memory: 64GB}]
	components:
	  db: {target: kubernetes, nodes: c, image: "x:1", ports: [{name: db, port: 5432}]}
	  web: {target: kubernetes, nodes: c, image: "x:1", ports: [{name: web, port: 8080}], depends_on: [db]}
	targets: {kubernetes: {}}
	EOF
    render order order.yaml && { cat order.yaml; echo "traffic: [{from: web, to: db, rate: 1GB/s}]"; } >sent.yaml && render sent sent.yaml &&
    python3 - <<-"EOF"
	import yaml
	def policy(folder, name): return next(d["spec"] for d in yaml.safe_load_all(open(folder + "/kubernetes/base/network-policy.yaml")) if d["metadata"]["name"] == name)
	port = [{"protocol": "TCP", "port": 5432}]
	assert {"ports": port} in policy("order", "db")["ingress"], policy("order", "db")
	assert any(r.get("ports") == port and "to" in r for r in policy("order", "web")["egress"])
	sent = policy("sent", "db")["ingress"]
	assert {"ports": port} not in sent and any(r.get("ports") == port and "from" in r for r in sent), sent
	EOF'
test_expect 'a service with a volume of its own has an address that leads to pods which are ready, beside the names of its pods' '
    site own "  u: {$U, replicas: 2, ports: [{name: p, port: 80}], mounts: [{storage: d, path: /d}]}" \
        "storage: [{name: d, kind: volume, size: 10GiB, per_replica: true}]" && f=own/kubernetes/base/component-u.yaml &&
    has $f "serviceName: u-headless" "type: ClusterIP" "name: u-headless" && test "$(grep -c "^kind: Service" $f)" = 2 &&
    test "$(grep -c "publishNotReadyAddresses" $f)" = 1 && grep -q "^headless=.u-headless.$" own/kubernetes/node-prepare.sh &&
    ! site own2 "  u: {$U, ports: [{name: p, port: 80}], mounts: [{storage: d, path: /d}]}
  u-headless: {$U}" "storage: [{name: d, kind: volume, size: 10GiB, per_replica: true}]" &&
    grep -q "^own2.yaml:9:3: .u-headless. is the name of the headless service of .u." own2.err || { cat own2.err; exit 1; }'
test_expect 'refused: more machines than there are, a /dev/shm above what the pod gets' '
    T="kind: training, target: kubernetes, nodes: g, image: r/x, command: [x]" &&
    ! site span "  a: {$T, gpus: 4, nodes_per_replica: 3}" && grep -q "^span.yaml:8:.*component .a. spans 3 machines, but .g. has 2" span.err &&
    site span2 "  a: {$T, gpus: 4, nodes_per_replica: 2, replicas: 2}" &&
    ! site shm "  a: {$T, gpus: 2, shm: 300GiB}" && grep -q "^shm.yaml:8:.*.a. has a larger /dev/shm than its GPUs. part of the memory, [0-9]* GiB" shm.err &&
    site shm2 "  a: {$T, gpus: 2, memory: 400GiB, shm: 300GiB}" || { cat s*.err; exit 1; }'
test_expect 'refused: storage in memory above what the container gets, at any path' '
    heap() { # TARGET SIZE MOUNT MORE
        cat >heap.yaml <<-EOF
	nodes: [{name: g, count: 1, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 256GiB}]
	storage: [{name: mem, kind: memory, size: $2}]
	components:
	  a: {target: $1, gpus: 1, replicas: 2, image: "r/x:1", command: [x], mounts: [{storage: mem, path: $3}]$4}
	targets: {$1: {}}
	EOF
        rm -rf heap && stoker render $1 -f heap.yaml -o heap >/dev/null 2>err
    }
    for t in kubernetes openshift compose; do
        for more in ", memory: 64GiB" ""; do
            ! heap $t 200GiB /m "$more" && test "$(grep -c "^heap.yaml:4:.*storage .mem. is in memory and larger than the .*memory of component .a." err)" = 1 || { cat err; exit 1; }
            ! heap $t 200GiB /dev/shm "$more" && heap $t 200GiB /dev/shm "$more, shm: 4GiB" && heap $t 40GiB /m "$more" || { cat err; exit 1; }
        done
    done'
test_expect 'JobSet: the end of the time limit is the end; TrainJob: what its runtime decides is told' '
    has jobset/$B "action: FailJobSet" "onJobFailureReasons:" "- DeadlineExceeded" &&
    sed "s/job: jobset/job: trainjob/;s/^    kind: training/&\n    priority: high\n    restart: never/" "$KUBE" >told.yaml && grep -q "max_restarts:" told.yaml &&
    stoker render kubernetes -f told.yaml -o told >out 2>err; for w in "has no priority" "restart. of" "max_restarts. of"; do
        grep -q "^told.yaml:[0-9]*:[0-9]*: warning: .*$w" err || { cat err; exit 1; }
    done'
test_expect 'egress opens what is outside, to the component that names it alone' '
    for t in kubernetes openshift; do
        sed "s/TARGET/$t/" >out.yaml <<-"EOF" && rm -rf out && stoker render $t -f out.yaml -o out >/dev/null && f=$(find out -name network-policy.yaml) &&
	nodes: [{name: c, role: cpu, cpu_cores: 64, memory: 64GB}]
	components:
	  a: {target: TARGET, nodes: c, image: x, cpus: 1, memory: 1GB, egress: ["10.9.0.0/16:5432", "0.0.0.0/0"]}
	  b: {target: TARGET, nodes: c, image: x, cpus: 1, memory: 1GB}
	agent: {enabled: false}
	targets: {TARGET: {stoker_image: r/s:1}}
	EOF
        has $f "cidr: \"10.9.0.0/16\"" "cidr: \"0.0.0.0/0\"" && test "$(grep cidr: $f | grep -vc 169.254)" = 2 && test "$(grep -c "port: 5432" $f)" = 2 || exit 1
    done'
test_expect 'egress is all that a component reaches outside, whatever object storage and models the spec has' '
    for t in kubernetes openshift; do
        sed "s/TARGET/$t/" >limit.yaml <<-"EOF" && rm -rf limit && stoker render $t -f limit.yaml -o limit >/dev/null 2>err || exit 1
	nodes: [{name: c, role: cpu, cpu_cores: 64, memory: 64GB}, {name: g, count: 1, gpus_per_node: 8, gpu: {model: L4}, cpu_cores: 64, memory: 512GB}]
	storage: [{name: o, kind: object, source: "s3://o", path: /o, size: 1TB}]
	components:
	  some: {target: TARGET, nodes: c, image: x, cpus: 1, memory: 1GB, egress: ["10.9.0.0/16:5432"]}
	  none: {target: TARGET, nodes: c, image: x, cpus: 1, memory: 1GB, egress: []}
	  free: {target: TARGET, nodes: c, image: x, cpus: 1, memory: 1GB}
	  shut: {kind: serving, target: TARGET, nodes: g, gpus: 1, image: x, ports: [{name: p, port: 8003}], egress: ["10.9.0.0/16:5432"]}
	  hub: {kind: serving, target: TARGET, nodes: g, gpus: 1, image: x, ports: [{name: p, port: 8003}], egress: ["10.8.0.0/16"]}
	  open: {kind: serving, target: TARGET, nodes: g, gpus: 1, image: x, ports: [{name: p, port: 8003}]}
	models: {a: {source: BAAI/bge-m3, kind: embedding, component: shut}, b: {source: BAAI/bge-m3, kind: embedding, component: hub}, c: {source: BAAI/bge-m3, kind: embedding, component: open}}
	serve: {listen: 0.0.0.0, token_file: /etc/stoker/token}
	agent: {enabled: false}
	targets: {TARGET: {stoker_image: r/s:1, storage_class: s}}
	EOF
        test "$(grep -c "egress. opens no port 443" err)" = 1 && grep -q "^limit.yaml:7:.*warning: .shut. fetches models of the hub" err || { cat err; exit 1; }
        python3 - "$(find limit -name network-policy.yaml)" <<-"EOF" || exit 1
	import sys, yaml
	rules = {d["metadata"]["name"]: d["spec"].get("egress", []) for d in yaml.safe_load_all(open(sys.argv[1])) if d}
	world = {n for n, all in rules.items() for r in all if "to" not in r and r.get("ports")}
	assert world == {"free", "open"}, world
	EOF
    done'
test_expect 'egress is told where nothing limits it: without policies, and outside of clusters' '
    limits() { # TARGET SECTION EGRESS
        cat >loose.yaml <<-EOF
	nodes: [{name: c, role: cpu, cpu_cores: 64, memory: 64GB}, {name: m, role: control, hosts: m1, cpu_cores: 8, memory: 32GB}]
	components:
	  a: {target: $1, nodes: c, IMAGEcommand: [/bin/x], cpus: 1, memory: 1GB, egress: $3, KINDrestart: on_failure}
	agent: {enabled: false}
	targets: {$1: {$2}}
	EOF
        case $1 in systemd | slurm) image= ;; *) image="image: x, " ;; esac
        case $1 in slurm) kind="kind: batch, queued: true, " ;; *) kind= ;; esac
        sed -i "s/IMAGE/$image/;s/KIND/$kind/" loose.yaml && rm -rf loose && stoker render $1 -f loose.yaml -o loose >/dev/null 2>err || { cat err; exit 1; }
        grep -q "^loose.yaml:3:.*warning: $1 does not follow .egress. of component .a." err
    }
    E="[10.9.0.0/16]" &&
    limits compose "" "$E" && limits systemd "" "$E" && limits slurm "controller: m1" "$E" && limits kubernetes "stoker_image: r/s:1, network_policy: false" "$E" &&
    limits openshift "stoker_image: r/s:1, network_policy: false" "$E" && limits compose "" "[]" && ! limits compose "" "[0.0.0.0/0]" &&
    ! limits kubernetes "stoker_image: r/s:1" "$E" && ! limits openshift "stoker_image: r/s:1" "$E" || { cat loose.yaml err; exit 1; }'
test_expect 'readiness fails after as many retries as liveness' '
    site tries "  u: {$U, ports: [{name: p, port: 80}], health: {path: /, retries: 7}}" && f=tries/kubernetes/base/component-u.yaml &&
    test "$(grep -c "failureThreshold: 7" $f)" = 2 && ! grep "failureThreshold: 1$" $f'
test_expect 'a user whom the image may not know has a home that it can write, unless it is root or the spec says so' '
    for t in kubernetes openshift; do
        sed "s/TARGET/$t/" >homes.yaml <<-"EOF" && rm -rf homes && stoker render $t -f homes.yaml -o homes >/dev/null || exit 1
	nodes: [{name: c, role: cpu, cpu_cores: 64, memory: 64GB}]
	components:
	  u: {target: TARGET, nodes: c, image: x}
	  v: {target: TARGET, nodes: c, image: x, user: "2000"}
	  r: {target: TARGET, nodes: c, image: x, user: root}
	  e: {target: TARGET, nodes: c, image: x, kind: batch, command: [x], env: {HOME: /home/e}}
	  t: {target: TARGET, nodes: c, image: x, kind: training, command: [x]}
	agent: {enabled: false}
	targets: {TARGET: {stoker_image: r/s:1}}
	EOF
        for n in u v r e t; do
            f=$(grep -rlE "^    app.kubernetes.io/component: $n$" homes | grep -E "/(run|components|base)/(component-)?$n.yaml") &&
            echo "$n $(sed -n "/ name: HOME$/,+1s/.*value: \\([^ ]*\\).*/\\1/p" $f | tr "\n" " ")$(grep -c " name: USER$" $f)" || exit 1
        done >had.txt; cat had.txt
        printf "%s\n" "u /tmp 1" "v /tmp 1" "r 0" "e /home/e 1" "t /tmp 1" | diff - had.txt || exit 1
    done'
test_expect 'several fabrics: RoCE has its traffic class whatever is named before it; two values are told' '
    two() { # KIND VALUES, of the fabric before that of class 106
        for t in kubernetes openshift slurm; do
            cat >two.yaml <<-EOF && rm -rf two && stoker render $t -f two.yaml -o two >/dev/null 2>err || return 1
	nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB, fabrics: [r0, r1]}]
	fabrics:
	  - {name: r0, kind: $1, rate: 400Gb/s, nics_per_node: 4, mtu: 4096$2}
	  - {name: r1, kind: roce, rate: 400Gb/s, nics_per_node: 4, mtu: 4096, traffic_class: 106, gid_index: 3}
	components:
	  a: {target: $t, kind: training, image: "x/y:1", gpus: 8, nodes: g, nodes_per_replica: 2, fabrics: [r0, r1], command: [x], training: {}}
	targets: {$t: {}}
	EOF
            test "$(grep -rhA1 --exclude=".stoker*" "NCCL_IB_TC" two | grep -c "$3")" = 1 || { grep -r NCCL_IB two; return 1; }
            test "$(grep -c "^two.yaml:4:.*warning: .*NCCL has one" err)" = "$4" || { cat err; return 1; }
        done
    }
    two infiniband "" 106 0 && two roce "" 106 0 && two roce ", traffic_class: 98, gid_index: 3" 98 1 &&
    two roce ", traffic_class: 98, gid_index: 1" 98 2'
test_expect 'TrainJob: the folder it works in is followed; its priority, probes, ports and stoker are told' '
    cat >dropped.yaml <<-EOF && rm -rf dropped && stoker render kubernetes -f dropped.yaml -o dropped >/dev/null 2>err &&
	nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB}]
	components:
	  a: {target: kubernetes, kind: training, image: "x/y:1", gpus: 8, nodes: g, nodes_per_replica: 2, workdir: $PWD, health: {command: [x]}, ports: [{name: m, port: 9000}], command: [pwd], training: {framework: other}}
	  b: {target: kubernetes, kind: batch, image: "x/y:1", command: [x], nodes: g, priority: low}
	targets: {kubernetes: {job: trainjob}}
	EOF
    for w in "priority: .*may evict" "no probes: .health." "no ports: .ports." "only where their image has it"; do
        grep -q "^dropped.yaml:3:[0-9]*: warning: a TrainJob .*$w" err || { cat err; exit 1; }
    done
    has dropped/kubernetes/base/component-a.yaml "name: \"STOKER_WORKDIR\"" "value: \"$PWD\"" ||
        has dropped/kubernetes/base/component-a.yaml "name: STOKER_WORKDIR" "value: $PWD" || exit 1
    configmap dropped/kubernetes/base/launch.yaml launch.sh >launch.sh && (cd / && STOKER_WORKDIR=$OLDPWD sh "$OLDPWD/launch.sh" pwd 2>/dev/null) | grep -qx "$PWD" &&
    sed "/^  b:/d" dropped.yaml >alone.yaml && stoker render kubernetes -f alone.yaml -o alone >/dev/null 2>err && ! grep -q "no priority" err || { cat err; exit 1; }
    sed "s/command: .pwd., //" dropped.yaml >image.yaml && stoker render kubernetes -f image.yaml -o image >/dev/null 2>err; grep -q "^image.yaml:3:.*warning: .*.workdir. of .a. is not followed" err || { cat err; exit 1; }'
test_expect 'MIG: training on several instances of one pod or machine is told, one instance is not' '
    for t in kubernetes openshift slurm; do
        cat >cuts.yaml <<-EOF || exit 1
	nodes: [{name: g, count: 2, gpus_per_node: 4, gpu: {model: A100-80GB, sharing: mig, mig_profile: 3g.40gb}, cpu_cores: 64, memory: 512GB}]
	components:
	  a: {target: $t, kind: training, image: "x/y:1", gpus: 2, nodes: g, command: [x], training: {}}
	  b: {target: $t, kind: training, image: "x/y:1", gpus: 1, nodes: g, command: [x], training: {}}
	targets: {$t: {}}
	EOF
        stoker spec check cuts.yaml >/dev/null 2>err && grep -q "^cuts.yaml:3:[0-9]*: warning: component .a. trains on 2 MIG instances of .g." err &&
            test "$(grep -c "MIG instances" err)" = 1 || { cat err; exit 1; }
    done'
test_expect 'JobSet: a time limit that each restart begins anew is told, and stands in the file' '
    sed "s/max_restarts: [0-9]*/max_restarts: 4/" "$KUBE" >again.yaml && stoker render kubernetes -f again.yaml -o limits >/dev/null 2>err &&
    grep -q "^again.yaml:[0-9]*:[0-9]*: warning: a JobSet counts .time_limit. of .train_big. anew" err &&
    grep -A1 "# of each try" limits/$B | grep -q "activeDeadlineSeconds: 86400" || { cat err; exit 1; }
    for to in "s/job: jobset/job: job/" "s/^    kind: training/&\n    restart: never/"; do
        sed "$to" again.yaml >once.yaml && rm -rf once && stoker render kubernetes -f once.yaml -o once >/dev/null 2>err &&
        ! grep -q "a JobSet counts" err && ! grep -q "of each try" once/$B || { cat err; exit 1; }
    done'
test_done

#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render openshift`: the files for the example rdma-openshift, the launcher run for real with
# pods' names on captured machines, and twelve mistakes that were made elsewhere and are not here.
# What the objects look like is asked in tests/render/openshift.py.
. "$(dirname "$0")/lib.sh"
python=
for p in ${PYTHON:-python3} /usr/bin/python3; do
    "$p" -c 'import yaml' 2>/dev/null && python=$p && break
done
[ -n "$python" ] || {
    echo "Bail out! a Python with PyYAML is wanted: tools/setup test"
    exit 1
}
export python
"$TOP/tests/machines/build.py" "$TMP/tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}

# ---- what stands in for the pod: names, torchrun, and stoker on a captured machine
mkdir bin rec
cat >bin/stoker <<'END'
#!/bin/sh
# a captured machine has an environment of its own; what is set here is as if it had that too
case "$*" in *--env*) for v in $(env | grep -E '^(NCCL|OMP)_'); do set -- "$@" -e "$v"; done ;; esac
exec "$BUILD/stoker" "$@" --root "$TMP/tars/${MACHINE:-openshift-roce}.tar"
END
cat >bin/torchrun <<'END'
#!/bin/sh
exec "$python" "$TOP/tests/render/torchrun.py" "$@"
END
# a name service: "hosts" and "ahostsv4"; $TMP/late holds how often it does not know yet
cat >bin/getent <<'END'
#!/bin/sh
left=$(cat "$TMP/late" 2>/dev/null || echo 0)
[ "$left" -le 0 ] || { echo $((left - 1)) >"$TMP/late"; exit 2; }
case $1 in
hosts) echo "10.128.2.9 $2" ;;
ahostsv4) for i in 1 2 3; do echo "10.128.2.$i STREAM $2"; echo "10.128.2.$i DGRAM"; done ;;
esac
END
# counts instead of waiting, but for the long sleep of a pod whose work is done
cat >bin/sleep <<'END'
#!/bin/sh
echo "$1" >>"$TMP/slept"
[ "$1" != 3600 ] || exec /bin/sleep 30
END
chmod +x bin/*
export TMP RECORD="$TMP/rec"

stoker spec example rdma-openshift >stoker.yaml
stoker render openshift -f stoker.yaml -o out >/dev/null 2>&1
holds() { "$python" "$TOP/tests/render/openshift.py" out "$1"; }

# launch POD ARG...: the launcher as the StatefulSet starts it, variables of the manifest and all
"$python" - >env.sh <<'END'
import shlex, yaml
for d in yaml.safe_load_all(open('out/openshift/components/trainer.yaml')):
    if d['kind'] == 'StatefulSet':
        for e in d['spec']['template']['spec']['containers'][0]['env']:
            print('export %s=%s' % (e['name'], shlex.quote(e.get('value', 'rdma'))))
END
launch() {
    pod=$1
    shift
    (
        . ./env.sh
        export PATH="$TMP/bin:$PATH" HOSTNAME="$pod" STOKER_HOLD="${HOLD:-0}"
        for v in ${SET-}; do export "${v?}"; done
        exec ${SHELL_OF:-sh} out/openshift/launcher.sh "$@"
    ) >"$pod.out" 2>"$pod.err"
}
# of POD EXPRESSION: over what torchrun was given, as r
of() {
    "$python" -c "
import json, os, sys
r = json.load(open(os.environ['RECORD'] + '/$1.json')); o = r['options']; e = r['env']
sys.exit(0 if $2 else print(json.dumps(r, indent=1)) or 1)"
}

# ---- the objects
test_expect 'StatefulSet: 4 GPUs a pod, a volume each that survives scaling to zero' 'holds statefulset'
test_expect 'four rails: net1 to net4, policy, network and resource each, MTU 9000' 'holds networks'
test_expect 'node affinity, /dev/shm' 'holds placement'
test_expect 'constraint: IPC_LOCK alone, and a role that lets the account use it' 'holds access'
test_expect 'image stream, build, the image that pods ask for' 'holds build'
test_expect 'debug pod and Job are not started by oc apply -k' 'holds run_later'
test_expect 'the kustomization names every file there is' 'holds kustomization'
test_expect 'the ConfigMap holds the launcher as it is' 'holds launcher'
test_expect 'the same spec gives the same bytes' '
    stoker render openshift -f stoker.yaml -o again && diff -r out again'
for f in "$PWD/out/openshift/launcher.sh" "$TOP/data/render/launcher.sh" "$TOP/data/render/launch.sh" "$TOP/data/render/hold.sh"; do
    if command -v shellcheck >/dev/null; then
        test_expect "shellcheck: ${f##*/}" "(cd '$TOP' && shellcheck -x -s sh '$f' && shellcheck -x -s bash '$f')"
    else
        test_skip "shellcheck: ${f##*/}" "shellcheck is not here"
    fi
done

# ---- the launcher
test_expect 'rank from the name, rendezvous at pod 0 of the headless service' '
    launch trainer-2 train.py --steps 5 && of trainer-2 "
        o[\"rdzv-endpoint\"] == \"trainer-0.trainer-headless.rdma.svc:29500\" and o[\"rdzv-backend\"] == \"c10d\" and
        o[\"local-addr\"] == \"trainer-2.trainer-headless.rdma.svc\" and o[\"nnodes\"] == \"1:6\" and
        o[\"nproc-per-node\"] == \"4\" and o[\"max-restarts\"] == \"10\" and o[\"rdzv-id\"] == \"trainer\" and
        o[\"rdzv-conf\"] == \"is_host=0,join_timeout=600,last_call_timeout=30\" and
        r[\"program\"] == [\"train.py\", \"--steps\", \"5\"]" &&
    of trainer-2 "e[\"TORCH_DISABLE_SHARE_RDZV_TCP_STORE\"] == \"1\"" # else nobody could join later'
test_expect 'pod 0 hosts the rendezvous; a full host name is as good' '
    launch trainer-0.trainer-headless.rdma.svc.cluster.local train.py &&
    of trainer-0 "o[\"rdzv-conf\"].startswith(\"is_host=1,\")"'
# meet N: N pods at once on loopback find each other; each gets the rank of its name
meet() {
    rm -f rec/*
    port=$((20000 + ($$ + $1 * 97) % 20000))
    i=$(($1 - 1)) all=
    while [ $i -ge 0 ]; do # the last first
        SET="MEET=$1 STOKER_PORT=$port" launch trainer-$i train.py &
        all="$all $!" i=$((i - 1))
    done
    for p in $all; do wait "$p" || return 1; done
    i=0
    while [ $i -lt "$1" ]; do
        of trainer-$i "r[\"rank\"] == $i" || return 1
        i=$((i + 1))
    done
}
for n in 1 2 6; do
    test_expect "$n of up to 6 pods, the same files: ranks are the numbers of the pods" "meet $n"
done
for sh in dash bash; do
    if command -v $sh >/dev/null; then
        test_expect "with $sh" "SHELL_OF=$sh launch trainer-1 x.py && of trainer-1 'r[\"program\"] == [\"x.py\"]'"
    else
        test_skip "with $sh" "$sh is not here"
    fi
done
test_expect 'a pod beyond the most of the spec is told so' '
    rm -f rec/*; ! launch trainer-6 train.py && grep -q "beyond the 6 nodes" trainer-6.err && test ! -e rec/trainer-6.json'
test_expect 'a pod without a number, a program or a service is told so' '
    ! launch trainer train.py && grep -q "no number at its end" trainer.err &&
    ! launch trainer-1 && grep -q "no program" trainer-1.err &&
    ! SET="STOKER_SERVICE=" launch trainer-1 x.py && grep -q "headless service is not named" trainer-1.err &&
    ! SET="STOKER_NODES=two" launch trainer-1 x.py && grep -q "is no number" trainer-1.err'
test_expect 'pod 0 may get its name later' '
    rm -f slept; echo 3 >late; launch trainer-1 x.py && test "$(wc -l <slept)" = 3 && grep -q "waiting for" trainer-1.err'
test_expect 'pod 0 never comes: said after the time of the spec' '
    echo 1000 >late; ! SET="STOKER_JOIN_S=10" launch trainer-1 x.py; rm -f late
    grep -q "has no address after 10 s" trainer-1.err'
# program WANT ARG...: how torchrun is asked to start it
program() {
    want=$1
    shift
    launch trainer-1 "$@" && of trainer-1 "r['program'] == $want"
}
test_expect 'any command: scripts, modules, programs, torchtitan' '
    program "[\"a.py\", \"b c\"]" a.py "b c" && program "[\"a.py\"]" python3 a.py &&
    program "[\"-m\", \"m\", \"x\"]" python -m m x && program "[\"-m\", \"m\"]" -m m &&
    program "[\"--no-python\", \"python3\", \"-u\", \"a.py\"]" python3 -u a.py &&
    program "[\"--no-python\", \"./a.out\", \"-x\"]" ./a.out -x && program "[\"a.py\"]" torchrun a.py &&
    program "[\"-m\", \"torchtitan.train\", \"--job.config_file\", \"t.toml\"]" torchtitan --job.config_file t.toml'
test_expect 'a torchtitan of the image is taken as it is' '
    printf "#!/bin/sh\n" >bin/torchtitan && chmod +x bin/torchtitan &&
    program "[\"--no-python\", \"torchtitan\", \"x\"]" torchtitan x; rc=$?; rm bin/torchtitan; exit $rc'
test_expect 'exec: the program itself, with what it needs to find the others' '
    SET="STOKER_LAUNCH=exec STOKER_NODES=2" launch allreduce-1 sh -c "echo \$NODE_RANK \$NNODES \$MASTER_ADDR \$MASTER_PORT; env | grep ^PET_ | sort" &&
    grep -qx "1 2 allreduce-0.trainer-headless.rdma.svc 29500" allreduce-1.out && test "$(grep -c ^PET_ allreduce-1.out)" = 5 &&
    grep -qx "PET_NODE_RANK=1" allreduce-1.out && grep -qx "PET_NNODES=2" allreduce-1.out && grep -qx "PET_NPROC_PER_NODE=4" allreduce-1.out &&
    grep -qx "PET_MASTER_ADDR=allreduce-0.trainer-headless.rdma.svc" allreduce-1.out &&
    SET="STOKER_LAUNCH=exec" launch x-1 sh -c "echo \$NNODES" && grep -qx 3 x-1.out'
test_expect 'alone: no name is needed' '
    SET="STOKER_NODES=1 STOKER_SERVICE=" launch sweep-x7k2p x.py &&
    of sweep-x7k2p "o[\"nnodes\"] == \"1\" and o[\"rdzv-endpoint\"] == \"127.0.0.1:29500\""'
test_expect 'a failed program: its status is the pod'"'"'s, and the StatefulSet starts it again' '
    { HOLD=1 SET=STATUS=3 launch trainer-1 x.py; test $? = 3; } && { SET=STATUS=4 launch trainer-1 x.py; test $? = 4; }'
# upto SECONDS CONDITION
upto() {
    i=$(($1 * 10))
    until eval "$2"; do
        [ $i -gt 0 ] || return 1
        i=$((i - 1))
        /bin/sleep 0.1
    done
}
test_expect 'done work is not begun again: the pod waits to be scaled down, and then goes at once' '
    rm -f slept; (. ./env.sh; PATH="$TMP/bin:$PATH" HOSTNAME=trainer-1 exec timeout --foreground -k 1 40 sh out/openshift/launcher.sh x.py >o 2>e) & p=$!
    upto 20 "grep -q 3600 slept 2>/dev/null" && kill -0 $p && grep -q "waiting to be scaled down" e &&
    kill -TERM $p && wait $p'
test_expect 'SIGTERM reaches the program, and its status is kept' '
    rm -f rec/*; (. ./env.sh; export LINGER=1; PATH="$TMP/bin:$PATH" HOSTNAME=trainer-1 exec timeout --foreground -k 1 40 sh out/openshift/launcher.sh x.py >o 2>e) & p=$!
    upto 20 "test -e rec/trainer-1.json" && kill -TERM $p; wait $p
    test $? = 7 && grep -qx "told to end" o && ! grep -q "scaled down" e'

# ---- twelve mistakes
test_expect '1: the GID index is neither guessed nor pinned; IPv6 rails get what they need' '
    holds asks_no_text && launch trainer-1 x.py && of trainer-1 "\"NCCL_IB_GID_INDEX\" not in e" &&
    SET="MACHINE=roce-ipv6" launch trainer-1 x.py && of trainer-1 "e[\"NCCL_IB_ADDR_FAMILY\"] == \"AF_INET6\" and \"NCCL_IB_GID_INDEX\" not in e"'
test_expect '2: a device is a device, never a headline of ibv_devinfo' '
    SET="MACHINE=dgx-h100 STOKER_GPUS=8" launch trainer-1 x.py &&
    of trainer-1 "all(p.startswith(\"mlx5_\") and p.endswith(\":1\") for p in e[\"NCCL_IB_HCA\"].lstrip(\"=\").split(\",\"))"'
test_expect '3: no "1 HCA found:" in the list' '
    SET="MACHINE=ib-roce-mixed" launch trainer-1 x.py &&
    of trainer-1 "\"found\" not in json.dumps(e) and \" \" not in e[\"NCCL_IB_HCA\"]"'
test_expect '4: only ports that are active and of the fabric, matched exactly' '
    SET="MACHINE=ib-roce-mixed" launch trainer-1 x.py &&
    of trainer-1 "e[\"NCCL_IB_HCA\"] == \"=mlx5_0:1,mlx5_2:1,mlx5_10:1,mlx5_11:1\""'
test_expect '5: no NVLink is claimed where PCIe joins the GPUs' '
    SET="MACHINE=a100-pcie STOKER_GPUS=0" launch trainer-1 x.py && of trainer-1 "e.get(\"NCCL_P2P_LEVEL\") is None"'
test_expect '6: GPUDirect is not forced by a number' '
    for m in openshift-roce ib-roce-mixed roce-ipv6; do
        SET="MACHINE=$m" launch trainer-1 x.py && of trainer-1 "not e.get(\"NCCL_NET_GDR_LEVEL\", \"\").isdigit()" || exit 1; done'
test_expect '7: the rails are not taken for the way to the other nodes' '
    launch trainer-1 x.py && of trainer-1 "\"net\" not in e.get(\"NCCL_SOCKET_IFNAME\", \"=eth0\")"'
test_expect '8: detected where the devices are; without GPUs it ends instead of going on with none' '
    holds main_container && rm -f rec/* && ! SET="MACHINE=openshift-init" launch trainer-1 x.py &&
    grep -q "4 GPUs should be here, none can be seen" trainer-1.err && test ! -e rec/trainer-1.json'
test_expect '9: no manifest sets what is detected; what the spec sets wins' '
    holds hides_nothing &&
    sed "s/^  env: {}/  env: {NCCL_IB_GID_INDEX: \"5\", OMP_NUM_THREADS: \"2\"}/" stoker.yaml >set.yaml && ! cmp -s set.yaml stoker.yaml &&
    stoker render openshift -f set.yaml -o set && grep -A1 "name: NCCL_IB_GID_INDEX" set/openshift/components/trainer.yaml | grep -q "value: \"5\"" &&
    SET="NCCL_IB_GID_INDEX=5 OMP_NUM_THREADS=2 NCCL_CROSS_NIC=1" launch trainer-1 x.py &&
    of trainer-1 "e[\"NCCL_IB_GID_INDEX\"] == \"5\" and e[\"OMP_NUM_THREADS\"] == \"2\" and e[\"NCCL_CROSS_NIC\"] == \"1\""'
test_expect '10: no algorithm, family or device is pinned anywhere' 'holds pins_nothing'
test_expect '11: threads by the quota: 64 of 128 CPUs for 4 ranks' '
    launch trainer-1 x.py && of trainer-1 "e[\"OMP_NUM_THREADS\"] == \"16\""'
test_expect '12: names before readiness, no privilege, restarts, and no world size by hand' '
    holds service && holds unprivileged && holds by_replicas'
test_expect 'too little locked memory is said, with the remedy' '
    SET="MACHINE=openshift-memlock" launch trainer-1 x.py && grep -q "FAIL.*locked memory" trainer-1.err && grep -q "a check failed" trainer-1.err'

# ---- the image
# base SED TAG: the changed spec begins its image from there
base() {
    sed "/^      base: /d; $1" stoker.yaml >sw.yaml && rm -rf sw && stoker render openshift -f sw.yaml -o sw &&
        grep -qx "ARG BASE=docker.io/pytorch/pytorch:$2-runtime" sw/openshift/Containerfile
}
test_expect 'the base image has the CUDA, PyTorch and NCCL that the spec asks for' '
    base "" 2.5.1-cuda12.1-cudnn9 && base "s/cuda: .*/cuda: \"12.8\"/" 2.7.1-cuda12.8-cudnn9 &&
    base "s/nccl: .*/nccl: \"2.20.6\"/" 2.5.1-cuda12.1-cudnn9 && base "s/nccl: .*/nccl: \"2.27.5\"/" 2.9.1-cuda12.8-cudnn9 && base "s/nccl: .*/torch: \"2.6\"/" 2.6.0-cuda12.6-cudnn9 &&
    base "s/cuda: .*/cuda: \"11.8\"/; /nccl: .2/d" 2.4.1-cuda11.8-cudnn9 && base "s/cuda: .*/cuda: \"13.0\"/" 2.9.1-cuda12.8-cudnn9 &&
    grep -q "None of the images known" sw/openshift/Containerfile'
test_expect 'without a build there is no image to make' '
    sed "/^    build:\$/,/containerfile:/d" stoker.yaml >nb.yaml && stoker render openshift -f nb.yaml -o nb &&
    test ! -e nb/openshift/Containerfile && test ! -e nb/openshift/build.yaml && ! grep -q build nb/openshift/kustomization.yaml'

# ---- who goes first, who may speak to whom, what a drain takes, and servers
test_expect 'every pod names a priority class that is there' '
    for c in $(grep -rhoE "priorityClassName: \S+" out/openshift | sort -u | cut -d" " -f2); do
        grep -q "name: $c" out/openshift/priority.yaml || exit 1
    done && grep -q "priorityClassName: rdma-medium" out/openshift/components/trainer.yaml'
test_expect 'network policies: nothing, then names, own pods, builds; off by the spec' '
    for n in default-deny allow-dns trainer allow-builds; do grep -q "^  name: $n" out/openshift/network-policy.yaml || exit 1; done &&
    grep -q openshift-dns out/openshift/network-policy.yaml && grep -q network-policy.yaml out/openshift/kustomization.yaml &&
    sed "s/^    service: trainer-headless/&\n    network_policy: false/" stoker.yaml >open.yaml &&
    stoker render openshift -f open.yaml -o open && test ! -e open/openshift/network-policy.yaml'
test_expect 'what is scaled names no replicas, what is fixed does' '
    ! grep -q "^  replicas:" out/openshift/components/trainer.yaml &&
    sed "/^    scale:/,/max:/d" stoker.yaml >fixed.yaml && stoker render openshift -f fixed.yaml -o fixed &&
    grep -q "^  replicas: 2" fixed/openshift/components/trainer.yaml'
sed -e "s/target: kubernetes/target: openshift/" -e "s/plain: {/plain: {replicas: 2, /" "$TOP/tests/fixtures/render/serving.yaml" >serving.yaml
stoker render openshift -f serving.yaml -o serving >/dev/null 2>&1
test_expect 'a server: ports, Service, Route, probes, budget, its models and its spec' '
    f=serving/openshift/components/plain.yaml &&
    for t in "kind: Route" "termination: edge" "targetPort: http" "type: ClusterIP" "startupProbe:" "path: /health" "kind: PodDisruptionBudget" \
        "mountPath: /srv/models" "name: plain-spec" "/run/secrets/stoker/token"; do grep -qF -- "$t" $f || { echo "no $t"; exit 1; }; done &&
    grep -q "fetch-models" serving/openshift/components/hub.yaml && grep -q "name: models" serving/openshift/storage.yaml &&
    grep -q "policy-group: ingress" serving/openshift/network-policy.yaml'
test_expect 'without a build an init container brings stoker into the image' '
    grep -q "name: stoker$" nb/openshift/components/trainer.yaml && grep -q "/rdma/stoker:latest" nb/openshift/components/trainer.yaml &&
    ! grep -q initContainers out/openshift/components/trainer.yaml'

# ---- what cannot be written
# refused SED WORDS: the changed spec is refused at a line and column, and nothing is written
refused() {
    sed "$1" stoker.yaml >bad.yaml && ! cmp -s bad.yaml stoker.yaml && rm -rf bad &&
        ! stoker render openshift -f bad.yaml -o bad 2>err && cat err && grep -q "$2" err &&
        grep -Eq "bad.yaml:[1-9][0-9]*:[0-9]+:" err && test ! -e bad
}
test_expect 'refused: an old release' 'refused "s/version: \"4.14\"/version: \"4.10\"/" "older than 4.14"'
test_expect 'refused: no release' 'refused "s/version: \"4.14\"/version: \"four\"/" "no OpenShift release"'
test_expect 'refused: more rails than interfaces named' 'refused "s/eno7np0, eno8np0/eno7np0/" "3 interfaces are named"'
test_expect 'refused: replicas of several machines' 'refused "s/^    nodes_per_replica: 2/&\n    replicas: 2/" "counts pods"'
test_expect 'refused: nothing to launch' 'refused "/command: .torchtitan/d" "no command for the launcher"'
test_expect 'refused: no image' 'refused "0,/^    image: .*/{//d}" "has no image"'
test_expect 'refused: one service for two' 'refused "s/service: trainer-headless/service: allreduce-headless/" "is the service of .trainer. already"'
test_expect 'machines get the label that pods require, taints, MIG and its configuration' '
    stoker render openshift -f "$TOP/tests/kube/sites/openshift-mig.yaml" -o cut && o=cut/openshift &&
    grep -q "key: stoker/group" $o/components/small.yaml $o/components/trainer.yaml &&
    grep -q "nvidia.com/mig-1g.10gb: 1" $o/components/small.yaml && ! grep -q "nvidia.com/gpu:" $o/components/small.yaml &&
    sh $o/node/label.sh slices >said && grep -q "stoker/group=slices nvidia.com/mig.config=slices" said &&
    grep -q "taint node --overwrite slices1 slices=yes:NoSchedule" said && ! grep -q worker1 said &&
    grep -q "\"1g.10gb\": 7" $o/node/mig.yaml && grep -q "strategy: mixed" $o/node/mig-policy.yaml'
test_expect 'MIG strategy single: the patch of the operator and the requests' '
    sed "s/{namespace: shift}/{namespace: shift, mig_strategy: single}/" "$TOP/tests/kube/sites/openshift-mig.yaml" >cut-single.yaml && stoker render openshift -f cut-single.yaml -o cut-single >/dev/null 2>err &&
    grep -q "strategy: single" cut-single/openshift/node/mig-policy.yaml && ! grep -r "nvidia.com/mig-" cut-single/openshift && grep -rq "nvidia.com/gpu: 1 " cut-single/openshift/ &&
    stoker render openshift -f "$TOP/tests/kube/sites/openshift-mig.yaml" -o cut-mixed >/dev/null 2>err && grep -q "strategy: mixed" cut-mixed/openshift/node/mig-policy.yaml && grep -rq "nvidia.com/mig-1g.10gb: 1 " cut-mixed/openshift'
test_expect 'hostile words arrive as they are' '
    sed "s|command: .torchtitan.*|command: [run, \"a b\", \"\$(HOME)\", \"q\\\\\"uo'"'"'te\", \"#x: y\", \"é\"]|" stoker.yaml >odd.yaml &&
    stoker render openshift -f odd.yaml -o odd && "$python" -c "
import yaml
for d in yaml.safe_load_all(open(\"odd/openshift/components/trainer.yaml\")):
    if d[\"kind\"] == \"StatefulSet\":
        a = d[\"spec\"][\"template\"][\"spec\"][\"containers\"][0][\"args\"]
assert a == [\"run\", \"a b\", \"\$\$(HOME)\", \"q\\\"uo\x27te\", \"#x: y\", \"\u00e9\"], a"'
test_expect 'warned: wishes that OpenShift does not follow, each at its line' '
    cat >wishes.yaml <<END
site: {name: s}
nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100, sharing: mps, power_limit: 500}, cpu_cores: 96, memory: 1TiB}]
components:
  w: {kind: service, target: openshift, image: r/x, command: [x], cpus: 4, memory: 4GiB}
  u: {kind: service, target: openshift, image: r/x, command: [x], gpus: 1, time_limit: 1h, depends_on: [w],
    scale: {min: 0, max: 2, metric: gpu_utilization, target: 50%, zero_after: 10m}}
targets: {openshift: {version: "4.99"}}
END
    stoker render openshift -f wishes.yaml -o wishes >wishes.out 2>wishes.err &&
    for text in sharing power_limit time_limit ".depends_on. of component .u." ".scale. of component .u." "4.99 is newer than 4"; do
        grep -q "^wishes.yaml:[0-9]*:[0-9]*: warning: .*$text" wishes.err || { echo "$text is not told"; cat wishes.err; exit 1; }
    done'
test_expect 'warned: an init container pulls what nothing builds; told: the image that the build makes' '
    stoker render openshift -f nb.yaml -o nb2 2>nb.err
    cat nb.err && grep -q ": warning: the init container of .* pulls .*/rdma/stoker:latest" nb.err &&
    sed "0,/^    image: .*/{//d}" stoker.yaml >noimage.yaml && ! stoker render openshift -f noimage.yaml -o noimage 2>err &&
    cat err && grep -q "The build.s is .image: image-registry.openshift-image-registry.svc:5000/" err'
test_expect 'install.sh asks for each storage class once' '
    cat >classes.yaml <<END &&
nodes: [{name: g, count: 1, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB}]
storage: [{name: a, kind: volume, size: 1GB}, {name: b, kind: volume, size: 1GB}, {name: c, kind: volume, size: 1GB, storage_class: fast}]
components:
  w: {kind: service, target: openshift, image: r/x, command: [x], cpus: 4, memory: 4GiB,
    mounts: [{storage: a, path: /a}, {storage: b, path: /b}, {storage: c, path: /c}]}
targets: {openshift: {}}
END
    stoker render openshift -f classes.yaml -o classes >/dev/null 2>&1 &&
    test "$(grep -c "oc get storageclass # one must" classes/openshift/install.sh)" = 1 && grep -q "oc get storageclass fast" classes/openshift/install.sh
'
# A cluster with what the manifests name, a Job that people started from run/, and one that the spec has lost.
mkdir -p stub && cat >stub/oc <<'END'
#!/bin/sh
names() { awk '/^apiVersion:/ { g = $2; sub("/.*", "", g); g = g == "v1" ? "" : "." g } /^kind:/ { k = tolower($2) } /^  name:/ { print k g "/" $2 }' "$@"; }
case "$*" in
*"apply -k"*"--dry-run=client"*) echo statefulset.apps/w ;;
*"create --dry-run=client"*) test -z "${BROKEN-}" || exit 1; for f; do :; done; names "$f" ;;
*" get job.batch "*) printf 'check\nlost\n' ;;
*" get service "*clusterIP*) ;;
*" get service "*) echo check-headless ;;
*" get "*) exit 1 ;;
esac
END
chmod 755 stub/oc
test_expect 'what people start from run/ is the spec.s: no script calls it lost or deletes it' '
    cat >started.yaml <<END &&
nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB}]
components:
  w: {kind: training, target: openshift, image: r/x, command: [x], gpus: 4}
  check: {kind: batch, target: openshift, image: r/x, command: [x], gpus: 4, nodes_per_replica: 2, queued: true}
targets: {openshift: {}}
END
    stoker render openshift -f started.yaml -o started >/dev/null 2>&1 &&
    PATH=$PWD/stub:$PATH sh started/openshift/install.sh manifests >manifests.txt && cat manifests.txt &&
    PATH=$PWD/stub:$PATH sh started/openshift/install.sh prune >prune.txt && cat prune.txt &&
    grep -q "no longer names it: job.batch/lost" manifests.txt && grep -qx "+ oc -n stoker delete job.batch/lost" prune.txt &&
    ! grep check manifests.txt prune.txt &&
    ! BROKEN=1 PATH=$PWD/stub:$PATH sh started/openshift/install.sh prune >broken.txt && ! grep delete broken.txt
'
test_expect 'from 4.21 on machines keep more, by their size' '
    cat >sized.yaml <<END
site: {name: s}
nodes: [{name: g, count: 1, role: cpu, cpu_cores: 64, threads_per_core: 2, memory: 1TiB}]
components:
  u: {kind: service, target: openshift, image: r/x, command: [x], cpus: 127, memory: 996GiB}
targets: {openshift: {version: "4.20"}}
END
    stoker spec check sized.yaml && sed "s/4.20/4.21/" sized.yaml >sized21.yaml && ! stoker spec check sized21.yaml 2>err && cat err &&
    grep -q "^sized21.yaml:4:[0-9]*: .*127" err &&
    sed "s/127/126/" sized21.yaml >sized2.yaml && stoker spec check sized2.yaml &&
    sed "s/996/1000/" sized2.yaml >sized3.yaml && ! stoker spec check sized3.yaml 2>err'
test_expect 'no agent is rendered: Prometheus is not told to scrape one, and that is told' '
    printf "%s\n" "site: {name: s}" "nodes: [{name: g, count: 2, role: cpu, cpu_cores: 64, memory: 1TiB}]" "agent: {listen: 0.0.0.0, token_file: /etc/t}" \
        "components:" "  u: {kind: service, target: openshift, image: r/x, command: [x], cpus: 2, memory: 1GiB}" "targets: {openshift: {}, prometheus: {}}" >agentless.yaml &&
    stoker render openshift prometheus -f agentless.yaml -o agentless 2>err && cat err && grep -q "^agentless.yaml:5:[0-9]*: warning: no agent is rendered for OpenShift" err &&
    ! grep -q "g1:9400" agentless/prometheus/prometheus.yml'
test_expect 'an agent that the spec wants and nobody starts is told of at its line; who starts it by hand says where it listens' '
    sed "s/^agent:.*/agent: {enabled: true}/" agentless.yaml >wanted.yaml &&
    stoker render openshift -f wanted.yaml -o wanted 2>err && cat err && grep -q "^wanted.yaml:3:18: warning: openshift does not follow .enabled. of agent" err &&
    ! stoker spec check --strict wanted.yaml 2>err && stoker spec check --json wanted.yaml | grep -q "of agent: it starts none" &&
    sed "s/^agent: {/agent: {enabled: true, /" agentless.yaml >hand.yaml && stoker spec check --strict hand.yaml'
test_expect 'addresses that pods would not have, or have twice, are told' '
    for k in host-local static; do
        stoker spec example rdma-openshift | sed "s/ipam: whereabouts/ipam: $k/" >ipam.yaml
        stoker spec check ipam.yaml >/dev/null 2>err && test "$(grep -c "^ipam.yaml:56:[0-9]*: warning: .$k. " err)" = 1 || { cat err; exit 1; }
    done
'
test_expect 'a selector of virtual functions that no machine of the fabric fits is refused, one that the site may set is not' '
    stoker spec example rdma-openshift >sel.yaml && sed "/node_selector/s/\"true\"/\"no\"/" sel.yaml >other.yaml && ! cmp -s sel.yaml other.yaml &&
    ! stoker spec check other.yaml 2>err && grep -q "^other.yaml:57:.*no machine on fabric .rails. has the label .feature.node.kubernetes.io/pci-15b3.present=no." err &&
    sed "/node_selector/s/feature.node.*present/site/" sel.yaml >site.yaml && ! cmp -s sel.yaml site.yaml && stoker spec check site.yaml >/dev/null 2>err || { cat err; exit 1; }
'
test_expect 'a build whose image nobody runs is told at the name of its stream' '
    stoker spec example rdma-openshift >built.yaml && stoker spec check --strict built.yaml >/dev/null &&
    sed "s/image_stream: .*/image_stream: elsewhere/" built.yaml >moved.yaml && ! cmp -s built.yaml moved.yaml &&
    stoker spec check moved.yaml >/dev/null 2>err && grep -q "^moved.yaml:[0-9]*:[0-9]*: warning: no component runs the image that is built, .elsewhere." err || { cat err; exit 1; }
'
cat >users.yaml <<'EOF'
nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
components:
  u0: {target: openshift, nodes: c, image: "nginx:1", user: "0"}
  ur: {target: openshift, nodes: c, image: "nginx:1", user: root}
  ud: {target: openshift, nodes: c, image: "nginx:1", ports: [{name: web, port: 80}]}
targets: {openshift: {}}
EOF
test_expect 'who is to be root says so, or restricted-v2 would take the pod and give it another user; nobody else names one' '
    stoker render openshift -f users.yaml -o users >/dev/null && c=users/openshift/components &&
    grep -q "^ *runAsUser: 0 " $c/u0.yaml && grep -q "^ *runAsUser: 0 " $c/ur.yaml && ! grep runAsUser $c/ud.yaml &&
    sed "s/user: \"0\"/user: \"00\"/;/ ur:/d" users.yaml >zero.yaml && stoker render openshift -f zero.yaml -o zero >/dev/null &&
    grep -A1 "^runAsUser:" zero/openshift/access.yaml | grep -q "type: RunAsAny"'
test_expect 'a port below 1024 is opened to the user of the project' '
    grep -A1 "name: net.ipv4.ip_unprivileged_port_start" users/openshift/components/ud.yaml | grep -q "value: \"80\"" &&
    ! grep sysctls users/openshift/components/u0.yaml'
cat >heads.yaml <<'EOF'
nodes: [{name: g, count: 2, cpu_cores: 32, memory: 256GB, gpus_per_node: 4, gpu: {model: L40S}}]
components:
  t: {kind: training, target: openshift, nodes: g, gpus: 1, image: "x:1", command: [a]}
  b: {target: openshift, nodes: g, image: "x:1", ports: [{name: http, port: 8004}]}
  c: {target: openshift, nodes: g, image: "x:1", ports: [{name: http, port: 8004}]}
targets: {openshift: {}}
EOF
test_expect 'a component whose Service would be the headless one of another, or one name with another, is refused' '
    stoker spec check heads.yaml >/dev/null 2>err && sed "s/^  c:/  b-headless:/" heads.yaml >h1.yaml && ! stoker spec check h1.yaml 2>err &&
    grep -q "^h1.yaml:5:3: .b-headless. is the name of the headless service of .b." err &&
    sed "s/^  c:/  headless:/" heads.yaml >h2.yaml && ! stoker spec check h2.yaml 2>err && grep -q "^h2.yaml:5:3: .headless. is the name of the headless service of .t." err &&
    sed "s/^  b:/  1b:/;s/^  c:/  n1b:/" heads.yaml >h3.yaml && ! stoker spec check h3.yaml 2>err && grep -q "^h3.yaml:5:3: .1b. and .n1b. are one name to Kubernetes" err || { cat err; exit 1; }'
test_expect 'networks in a namespace whose networks Multus gives to its own pods alone are told; one for all is made' '
    stoker spec example rdma-openshift | sed "s/ipam: whereabouts/ipam: whereabouts, network_namespace: nets/;s/^\( *\)ipam: whereabouts, network/\1ipam: whereabouts\n\1network/" >nets.yaml &&
    stoker render openshift -f nets.yaml -o nets >/dev/null 2>err && grep -q "warning: OpenShift.s Multus keeps pods to networks of their own project: those of .rdma. are not given .rails. of .nets." err &&
    sh nets/openshift/install.sh operators | grep -qx "+ oc create namespace nets" &&
    sed "s/: nets/: default/" nets.yaml >dflt.yaml && stoker render openshift -f dflt.yaml -o dflt >/dev/null 2>err && ! grep Multus err || { cat err; exit 1; }'
cat >few.yaml <<'EOF'
nodes:
  - {name: four, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB, fabrics: [rails], labels: {nic: cx7}}
  - {name: two, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB, fabrics: [rails], labels: {nic: cx7}, nics: {rails: {count: 2, pfs: [q0, q1]}}}
  - {name: none, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB, labels: {nic: cx7}}
fabrics: [{name: rails, kind: roce, rate: 400Gb/s, nics_per_node: 4, subnets: [10.1.0.0/24, 10.2.0.0/24, 10.3.0.0/24, 10.4.0.0/24],
  sriov: {pfs: [e0, e1, e2, e3], vfs: 4, ipam: nv-ipam}}]
components: {t: {kind: training, target: openshift, nodes: [four, two], gpus: 8, replicas: 4, image: "x:1", command: [x], fabrics: [rails]}}
targets: {openshift: {}}
EOF
# functions FILE: its policies are on machines that have the NIC, and on no other
functions() {
    "$python" - "$1" <<'EOF'
import sys, yaml
want = [('four', 'e%d' % i) for i in range(4)] + [('two', 'q0'), ('two', 'q1')]
got = [d for d in yaml.safe_load_all(open(sys.argv[1])) if d['kind'] == 'SriovNetworkNodePolicy']
pairs = [(d['spec']['nodeSelector'].get('stoker/group'), *d['spec']['nicSelector']['pfNames']) for d in got]
assert sorted(pairs) == want, pairs
assert len({d['metadata']['name'] for d in got}) == len(got)
EOF
}
test_expect 'virtual functions are made where the NIC is: not on groups with fewer, whatever the selector reaches' '
    stoker render openshift -f few.yaml -o few >/dev/null && functions few/openshift/network.yaml &&
    sed "s/vfs: 4,/vfs: 4, node_selector: {nic: cx7},/" few.yaml >wide.yaml && ! cmp -s few.yaml wide.yaml && stoker render openshift -f wide.yaml -o wide >/dev/null && functions wide/openshift/network.yaml &&
    grep -q "nic: cx7" wide/openshift/network.yaml &&
    sed "s/openshift/kubernetes/" few.yaml >kfew.yaml && stoker render kubernetes -f kfew.yaml -o kfew >/dev/null && functions kfew/kubernetes/cluster/sriov.yaml'
test_expect 'addresses of a rail go to machines that are on it' '
    "$python" - few/openshift/operators/ip-pools.yaml <<-"EOF"
	import sys, yaml
	pools = {d["metadata"]["name"]: d["spec"] for d in yaml.safe_load_all(open(sys.argv[1]))}
	on = lambda p: p["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
	assert [on(pools["rails-net%d" % i]) for i in (1, 2, 3, 4)] == [["four", "two"]] * 2 + [["four"]] * 2, pools
	assert pools["rails-net1"]["perNodeBlockSize"] == 63 and pools["rails-net4"]["perNodeBlockSize"] == 127, pools
	EOF'
test_expect 'told: a group that has some of the NICs and does not say which; refused on both targets: too few names' '
    sed "s/, pfs: .q0, q1.//" few.yaml >which.yaml && stoker render openshift -f which.yaml -o which >/dev/null 2>err && cat err && grep -q "^which.yaml:3:[0-9]*: warning: .two. has 2 of the 4 NICs of .rails., and does not say which" err &&
    for f in few kfew; do
        sed "s/e2, e3/e2/" $f.yaml >short.yaml && ! stoker render all --check -f short.yaml 2>err && grep -q "^short.yaml:6:.*has 4 NICs, and 3 interfaces are named" err || { cat err; exit 1; }
    done'
test_done

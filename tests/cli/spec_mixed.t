#!/bin/sh
# SPDX-License-Identifier: MIT
# Sites that are not all alike: NICs by node group, components over several groups, Arm machines
# and NVLink domains, file systems of several makers; and what the targets make of them.
. "$(dirname "$0")/lib.sh"

cat >"$TMP/mixed.yaml" <<'END'
site: {name: mixed}
nodes:
  - {name: h100, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB, fabrics: [ib]}
  - name: a100
    count: 2
    gpus_per_node: 4
    gpu: {model: A100}
    cpu_cores: 64
    memory: 512GB
    fabrics: [ib]
    nics:
      ib: {rate: 200Gb/s, hcas: [mlx5_2, mlx5_3]}
  - {name: grace, count: 18, gpus_per_node: 4, gpu: {model: GB200}, cpu_cores: 144, memory: 900GB, nvlink_domain: 72}
fabrics:
  - {name: ib, kind: infiniband, rate: 400Gb/s, nics_per_node: 4, hcas: [mlx5_0, mlx5_1, mlx5_4, mlx5_5]}
storage:
  - {name: gpfs, kind: gpfs, path: /gpfs/fs1, size: 100TB}
  - {name: weka, kind: weka, path: /weka, size: 50TB, storage_class: weka-csi}
components:
  any:
    nodes: [h100, a100]
    gpus: 4
    replicas: 2
    target: kubernetes
    image: registry.example.org/any:1
    command: [run]
    ports: [{name: http, port: 8080}]
    mounts: [{storage: gpfs, path: /data}, {storage: weka, path: /scratch}]
targets: {kubernetes: {}}
END

test_expect 'a mixed site is clean' 'stoker spec check mixed.yaml >out && grep -q "^ok  mixed.yaml: 22 machines" out'
test_expect 'show: what the model decides, groups as a list, NICs of a group' '
    stoker spec show mixed.yaml >out && grep -q "link: nvlink4 *# default" out &&
    grep -q "link: nvlink3 *# default" out && grep -q "arch: aarch64 *# default" out &&
    grep -q "nodes: .h100, a100. *# line [0-9]*$" out && grep -q "rate: 200Gb/s *# line 12" out &&
    stoker spec check out
'
test_expect 'the link of a GPU is that of its model: only PCIe cards have pcie' '
    for m in A100=nvlink3 H100=nvlink4 H200=nvlink4 B200=nvlink5 L40S=pcie; do
        printf "nodes: [{name: a, gpus_per_node: 8, gpu: {model: %s}}]\n" ${m%=*} >link.yaml
        stoker spec show link.yaml | grep -q "link: ${m#*=} *# default" || { echo "$m"; stoker spec show link.yaml; exit 1; }
    done
'
test_expect 'nccl: each group has its own devices' '
    stoker render nccl -f mixed.yaml -o o1 >/dev/null &&
    grep -qx "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_4,mlx5_5" o1/nccl/h100/nccl.conf &&
    grep -qx "NCCL_IB_HCA==mlx5_2,mlx5_3" o1/nccl/a100/nccl.conf &&
    ! grep -q "^NCCL_IB_HCA" o1/nccl/grace/nccl.conf
'
test_expect 'kubernetes: gpfs by the path of the machines, weka by its class' '
    stoker render kubernetes -f mixed.yaml -o o2 >/dev/null &&
    grep -rq "path: /gpfs/fs1" o2/kubernetes && grep -rq "storageClassName: weka-csi" o2/kubernetes &&
    ! grep -rq "path: /weka" o2/kubernetes/base/storage*
'
test_expect 'compose: the same file systems by their paths' '
    sed "s/target: kubernetes/target: compose/; s/kubernetes: {}/compose: {}/; s/replicas: 2/replicas: 1/" mixed.yaml >c.yaml &&
    stoker render compose -f c.yaml -o o3 >/dev/null && grep -q "source: /gpfs/fs1" o3/compose/compose.yaml &&
    grep -q "source: /weka" o3/compose/compose.yaml
'
test_expect 'gpfs, weka, beegfs, ceph: by the class of a CSI driver where one is named, else by the path' '
    cat >kinds.yaml <<END
nodes: [{name: a, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
storage:
  - {name: g, kind: gpfs, path: /fs/g, size: 1TB}
  - {name: w, kind: weka, path: /fs/w, size: 1TB}
  - {name: b, kind: beegfs, path: /fs/b, size: 1TB}
  - {name: c, kind: ceph, path: /fs/c, size: 1TB}
components:
  t: {target: kubernetes, gpus: 8, image: r.org/t:1, command: [t], mounts: [{storage: g, path: /g},
      {storage: w, path: /w}, {storage: b, path: /b}, {storage: c, path: /c}]}
targets: {kubernetes: {}}
END
    stoker render kubernetes -f kinds.yaml -o k1 >/dev/null && test "$(grep -c " path: /fs/" k1/kubernetes/base/storage.yaml)" = 4 &&
    sed "s/, size: 1TB/, size: 1TB, storage_class: csi/" kinds.yaml >class.yaml && stoker render kubernetes -f class.yaml -o k2 >/dev/null &&
    test "$(grep -c "storageClassName: csi" k2/kubernetes/base/storage.yaml)" = 4 && ! grep -q " path: /fs/" k2/kubernetes/base/storage.yaml
'
test_expect 'doc: a row for the group whose NICs differ' '
    stoker render doc -f mixed.yaml -o o4 >/dev/null && grep -q "on machines of a100" o4/doc/*.html
'
test_expect 'machines of several groups: each must have the GPUs asked of one, all together what is asked of all' '
    cat >g.yaml <<END
nodes:
  - {name: a, gpus_per_node: 8, gpu: {model: H100}}
  - {name: b, gpus_per_node: 4, gpu: {model: L40S}}
components:
  c: {nodes: [a, b], gpus: 4, replicas: 3}
END
    stoker spec check g.yaml && sed "s/replicas: 3/replicas: 4/" g.yaml >h.yaml &&
    { stoker spec check h.yaml 2>err; test $? = 1; } && grep -q "^h.yaml:5:.*component .c." err &&
    sed "s/gpus: 4, r/gpus: 8, r/" g.yaml >h.yaml && { stoker spec check h.yaml 2>err; test $? = 1; } &&
    grep -q "^h.yaml:5:" err
'
# told FILE LINE COLUMN WORDS: a warning there, in text, and an error with --strict
told() {
    f=$1 at=$2:$3
    shift 3
    stoker spec check "$f" >out 2>err && grep -q "^$f:$at: warning: .*$*" err && ! stoker spec check --strict "$f" >out 2>&1 ||
        { echo "not told at $at: $*"; cat err; return 1; }
}
test_expect 'Slurm and systemd mount nothing: storage without a path, of no machine, or to be read alone is told' '
    cat >mounts.yaml <<END
nodes: [{name: w, hosts: w1, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 256GiB}]
storage:
  - {name: ce, kind: ceph, size: 1TB}
  - {name: ob, kind: object, source: "s3://b"}
  - {name: me, kind: memory, size: 1GiB}
  - {name: vo, kind: volume, size: 1TB}
  - {name: rw, kind: nfs, path: /home, source: "a:/c"}
components:
  job:
    {kind: batch, target: slurm, gpus: 1, command: [x], mounts: [
      {storage: ce, path: /ce},
      {storage: ob, path: /ob},
      {storage: rw, path: /home, read_only: true}]}
  unit:
    {target: systemd, gpus: 1, command: [/usr/bin/x], mounts: [
      {storage: ce, path: /ce},
      {storage: ob, path: /ob},
      {storage: me, path: /me},
      {storage: vo, path: /vo},
      {storage: rw, path: /home, read_only: true}]}
targets: {slurm: {controller: w1}, systemd: {}}
agent: {enabled: false}
END
    told mounts.yaml 11 17 "storage .ce. has no path on the machines: component .job." && told mounts.yaml 12 17 "Slurm mounts no object" &&
    told mounts.yaml 13 45 "read_only. of .rw. is not followed in component .job." && told mounts.yaml 16 17 "component .unit. has ./ce. only" &&
    told mounts.yaml 17 17 "systemd mounts no object" && told mounts.yaml 18 17 "systemd mounts no memory" &&
    told mounts.yaml 19 17 "systemd mounts no volume" && ! grep "^mounts.yaml:20" err
'
test_expect 'stripes that nobody sets are told: without target lustre, of another file system, of no Lustre' '
    cat >stripes.yaml <<END
nodes: [{name: s, role: storage, count: 4, hosts: "s[1-4]", cpu_cores: 32, memory: 256GiB}]
storage:
  - {name: a, kind: lustre, path: /a, size: 1PB, stripes: [{match: "*.pt", count: -1}]}
  - {name: b, kind: lustre, path: /b, source: "10.0.0.9@o2ib:/b", size: 1PB, stripes: [{match: "*.pt", count: -1}]}
  - {name: n, kind: nfs, path: /n, source: "a:/b", stripes: [{match: "*.pt", count: 2}]}
targets: {prometheus: {}}
agent: {enabled: false}
END
    told stripes.yaml 3 68 "nobody sets the stripes of .a.: the spec has no target lustre" && told stripes.yaml 5 70 "it is no Lustre" &&
    sed "s/prometheus: {}/lustre: {fsname: a, mgs: 10.0.0.2@o2ib}/" stripes.yaml >two.yaml &&
    told two.yaml 4 96 "nobody sets the stripes of .b.: target lustre is for .a." && ! grep "stripes of .a." err
'
test_expect 'pods that would need IMEX for NVLink across machines are told, those of one machine are not' '
    for t in kubernetes openshift; do
        cat >nvl.yaml <<END
nodes: [{name: gb, count: 36, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, cpu_cores: 144, memory: 960GB}]
components:
  t: {kind: training, target: $t, gpus: 4, nodes_per_replica: 18, image: "r.org/t:1", command: [python, t.py]}
targets: {$t: {stoker_image: r.org/s:1}}
agent: {enabled: false}
END
        told nvl.yaml 1 85 "pods of .t. reach GPUs of other machines of .gb. by NVLink" &&
        sed "s/, nodes_per_replica: 18//" nvl.yaml >one.yaml && stoker spec check one.yaml >out 2>err && ! grep "NVLink" err || exit 1
    done
'
test_expect 'a grace before a suspension is told not to be followed' '
    cat >grace.yaml <<END
nodes: [{name: c, role: cpu, count: 2, hosts: "c[1-2]", cpu_cores: 32, memory: 128GiB}]
targets:
  slurm:
    controller: c1
    preempt: suspend
    accounts: {a: {users: [u]}}
    qos:
      hi: {priority: 9, preempts: [lo]}
      lo: {grace: 5m}
END
    told grace.yaml 9 19 "grace. of QOS .lo. is not followed" &&
    sed "s/suspend/requeue/" grace.yaml >r.yaml && stoker spec check r.yaml 2>err && ! grep "grace" err
'
# hybrid COMPONENTS: a site of Slurm, OpenShift, units and Kubernetes; three of four components have an image
hybrid() {
    extra=${1-}
    cat <<END
nodes: [{name: k, count: 4, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
components:
  sl: {kind: training, target: slurm, gpus: 8, image: "r.org/a:1", command: [x], training: {framework: other}}
  oc: {kind: service, target: openshift, gpus: 8, image: "r.org/a:1", command: [x]}
  lo: {kind: service, image: "r.org/a:1", command: [x]}
  bare: {kind: batch, target: slurm, command: [x]}
software: {container_runtime: true}
targets: {slurm: {}, openshift: {stoker_image: "r.org/s:1"}, kubernetes: {stoker_image: "r.org/s:1"$extra}}
END
}
pods() { (cd "$1/kubernetes/base" && echo component-*.yaml | sed "s/component-//g; s/\.yaml//g"); }
test_expect 'a component that another target runs is rendered for Kubernetes as the spec says, never without a word' '
    hybrid >auto.yaml && stoker render all -f auto.yaml -o hybrid-auto >/dev/null 2>err && test "$(pods hybrid-auto)" = "lo oc sl" &&
    grep -q "^auto.yaml:3:32: warning: .sl. is rendered for slurm and for kubernetes: where both are applied, it runs twice" err &&
    grep -q "^auto.yaml:4:31: warning: .oc. is rendered for openshift and for kubernetes" err && test "$(grep -c "runs twice" err)" = 2 &&
    hybrid ", components: all" >all.yaml && stoker render all -f all.yaml -o hybrid-all >/dev/null 2>err && ! grep "runs twice" err &&
    test "$(pods hybrid-all)" = "lo oc sl" &&
    hybrid ", components: own" >own.yaml && stoker render all -f own.yaml -o hybrid-own >/dev/null 2>err && ! grep "runs twice" err &&
    test "$(pods hybrid-own)" = "*" && test -e hybrid-own/slurm/sbatch/sl.sbatch && test -e hybrid-own/kubernetes/base/kustomization.yaml &&
    for mode in auto own all; do
        sed "/^software/i\  kk: {kind: service, target: kubernetes, image: \"r.org/a:1\", command: [x]}" $mode.yaml >kk.yaml && rm -rf kk &&
        stoker render all -f kk.yaml -o kk >/dev/null 2>err && ! grep "runs twice" err || exit 1
        case $mode in all) want="kk lo oc sl" ;; *) want=kk ;; esac
        test "$(pods kk)" = "$want" || { pods kk; exit 1; }
    done || { cat err; exit 1; }
    sed "s/, kubernetes: {[^}]*}//" auto.yaml >asked.yaml && stoker render kubernetes -f asked.yaml -o asked >/dev/null 2>err && ! grep "runs twice" err &&
    test "$(pods asked)" = "lo oc sl"
'
test_done

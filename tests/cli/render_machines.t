#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render --inventory`, many of them: each for its node group, and what contradicts the spec is told at its line.
. "$(dirname "$0")/lib.sh"
python3 "$TOP/tests/machines/build.py" "$TMP/tars" dgx-h100 openshift-roce a100-pcie >/dev/null
stoker detect --root tars/dgx-h100.tar --json >dgx.json
stoker detect --root tars/a100-pcie.tar --json >a100.json
# named FILE HOST [PYTHON]: the inventory of FILE as host HOST, changed
named() { python3 -c "
import json, sys
m = json.load(open('$1')); m['place']['hostname'] = '$2'
${3-}
json.dump(m, open('$2.json', 'w'))"; }
cat >site.yaml <<'END'
schema: stoker.spec/1
nodes:
  - name: gpu
    count: 4
    gpus_per_node: 8
    cpu_cores: 112
    memory: 2TiB
    gpu: {model: H100, link: nvlink4}
    fabrics: [ib]
  - name: old
    count: 2
    gpus_per_node: 4
    gpu: {model: A100, link: pcie}
fabrics:
  - {name: ib, kind: infiniband, rate: 400Gb/s, nics_per_node: 8}
END
for n in 1 2 3; do named dgx.json gpu$n; done
for n in 1 2; do named a100.json old$n; done

test_expect 'each inventory is for its group; those of one group are told together' '
    stoker render nccl -f site.yaml --inventory gpu1.json --inventory gpu2.json --inventory old1.json --inventory gpu3.json -o out 2>err &&
    grep -q "From the inventories of gpu1 and 2 more" out/nccl/gpu/nccl.conf && grep -q "From the inventory of old1" out/nccl/old/nccl.conf &&
    test ! -s err
'
test_expect 'many are the same as one, where they are equal' '
    stoker render nccl -f site.yaml --inventory gpu1.json --inventory old1.json -o one &&
    diff out/nccl/gpu/nccl.conf one/nccl/gpu/nccl.conf | grep "^[<>]" | grep -v "From the inventor" >d; test ! -s d
'
test_expect 'a folder of inventories and captures' '
    mkdir all && cp gpu1.json gpu2.json all && cp tars/dgx-h100.tar all/gpu4.tar && stoker render nccl -f site.yaml --inventory all -o folder 2>err &&
    grep -q "and 2 more" folder/nccl/gpu/nccl.conf
'
test_expect 'machines of a group that need different values: told, and left unset' '
    named dgx.json gpu2 "
for d in m[\"rdma\"]:
    if d[\"name\"] == \"mlx5_0\": d[\"name\"] = \"mlx5_20\"
for d in m[\"distances\"]:
    if d[\"nic\"] == \"mlx5_0\": d[\"nic\"] = \"mlx5_20\"
" && stoker render nccl -f site.yaml --inventory gpu1.json --inventory gpu2.json -o differ 2>err && cat err &&
    grep -q "^site.yaml:3:.*warning: machines of group .gpu. need different values of NCCL_IB_HCA: .* on gpu1, .*mlx5_20.* on gpu2" err &&
    ! grep -q "^NCCL_IB_HCA" differ/nccl/gpu/nccl.conf && grep -q "need different values" differ/nccl/gpu/nccl.conf &&
    grep -q "^NCCL_IB_HCA" one/nccl/gpu/nccl.conf
'
test_expect '... and what hangs on such a value is not told as if it held for all' '
    cat >roce.yaml <<END
schema: stoker.spec/1
nodes: [{name: r, count: 2, gpus_per_node: 4, gpu: {model: H100, link: nvlink4}, fabrics: [f]}]
fabrics: [{name: f, kind: roce, rate: 400Gb/s, nics_per_node: 4}]
END
    python3 "$TOP/tests/machines/rails.py" tars zeroconf && stoker detect --root tars/zeroconf.tar --json >z1.json && sed "s/10\.100\./10.101./g; s/ffff:0a64:/ffff:0a65:/g" z1.json >z2.json &&
    named z1.json r1 && named z2.json r2 && stoker render nccl -f roce.yaml --inventory r1.json --inventory r2.json -o range 2>err && cat err &&
    tr "\n" " " <range/nccl/nccl.conf | sed "s/ # / /g" >flat && grep -q "different values: 10.100.0.0/22 on r1, 10.101.0.0/22 on r2" flat &&
    ! grep -q "With NCCL_IB_ADDR_RANGE" flat && grep -q "which is another on each" flat
'
refused() { # HOST PYTHON WORDS: refused, nothing is written
    named dgx.json "$1" "$2" && rm -rf no && ! stoker render nccl -f site.yaml --inventory "$1.json" -o no 2>err &&
        cat err && grep -q "^site.yaml:$3" err && test ! -e no
}
warned() {
    named dgx.json "$1" "$2" && rm -rf yes && stoker render nccl -f site.yaml --inventory "$1.json" -o yes 2>err && cat err &&
        grep -q "^site.yaml:$3" err && test -e yes && ! stoker render nccl -f site.yaml --strict --inventory "$1.json" -o no 2>err
}
test_expect 'another number of GPUs' 'refused gpu1 "del m[\"gpus\"][7:]" "5:20: GPUs: 7 on gpu1, the spec says 8"'
test_expect 'another GPU' 'refused gpu1 "for g in m[\"gpus\"]: g[\"name\"] = \"NVIDIA H200\"" "8:18: GPU model: NVIDIA H200 on gpu1, the spec says H100"'
test_expect 'another link layer' 'refused gpu1 "
for d in m[\"rdma\"]:
    for p in d[\"ports\"]: p[\"link_layer\"] = \"Ethernet\"" "15:.* link layer of the RDMA ports: Ethernet on gpu1, the spec says InfiniBand"'
test_expect 'another architecture' 'refused gpu1 "m[\"cpu\"][\"arch\"] = \"aarch64\"" "3:.* architecture: aarch64 on gpu1"'
test_expect 'a device that is not there' '
    sed "s/nics_per_node: 8/nics_per_node: 1, hcas: [mlx5_77]/" site.yaml >hca.yaml && ! stoker render nccl -f hca.yaml --inventory gpu3.json -o no 2>err &&
    grep -q "^hca.yaml:15:.* RDMA device mlx5_77: missing on gpu3" err'
test_expect 'less memory' 'warned gpu1 "m[\"memory\"][\"total_bytes\"] //= 2" "7:13: warning: memory: .* on gpu1, the spec says 2TiB"'
test_expect 'other cores' 'warned gpu1 "m[\"cpu\"][\"cores\"] = 96" "6:.*warning: CPU cores: 96 on gpu1, the spec says 112"'
test_expect 'fewer NICs' 'warned gpu1 "del m[\"rdma\"][4:]" "15:.*warning: RDMA ports: . on gpu1, the spec says 8"'
test_expect 'NICs that are slower, without names: as many as the spec counts must not be' '
    warned gpu1 "
for d in m[\"rdma\"][:4]:
    for p in d[\"ports\"]: p[\"rate_mbps\"] = 200000" "15:.*warning: rate of 3 RDMA ports: 200Gb/s on gpu1, the spec says 400Gb/s" &&
    warned gpu1 "
for d in m[\"rdma\"]:
    for p in d[\"ports\"]: p[\"rate_mbps\"] = 200000" "15:.*warning: rate of 8 RDMA ports: 200Gb/s on gpu1" &&
    warned gpu1 "
for d in m[\"rdma\"][:4]:
    for p in d[\"ports\"]: p[\"rate_mbps\"] = 200000" "15:.*warning: rate of 3 RDMA ports" &&
    sed "s/nics_per_node: 8/nics_per_node: 6/" site.yaml >six.yaml && stoker render nccl -f six.yaml --inventory gpu1.json -o six 2>err && ! grep "rate of" err'
test_expect 'slower NICs with names: one warning for all of one rate' '
    sed "s/nics_per_node: 8/nics_per_node: 3, hcas: [mlx5_0, mlx5_3, mlx5_4]/; s/400Gb/800Gb/" site.yaml >names.yaml && named dgx.json gpu1 "
for d in m[\"rdma\"]:
    for p in d[\"ports\"]: p[\"rate_mbps\"] = 200000 if d[\"name\"] == \"mlx5_4\" else 400000" && stoker render nccl -f names.yaml --inventory gpu1.json -o yes 2>err && cat err &&
    grep -q "warning: rate of mlx5_0, mlx5_3: 400Gb/s on gpu1, the spec says 800Gb/s" err && grep -q "warning: rate of mlx5_4: 200Gb/s" err && test "$(grep -c "rate of" err)" = 2'
test_expect 'a GPU of another size, though near' '
    sed "s/model: H100,/model: H100-NVL,/; s/link: nvlink4/memory: 94GB/" site.yaml >nvl.yaml && named dgx.json gpu1 && { stoker render nccl -f nvl.yaml --inventory gpu1.json -o no 2>err; cat err; } &&
    grep -q "^nvl.yaml:8:.* GPU memory: 79.6 GiB on gpu1, the spec says 94GB" err && for m in 80GB 80GiB 85.5GB "79.6 GiB" 79.6GiB; do
        sed "s/link: nvlink4/memory: $m/" site.yaml >ok.yaml && stoker render nccl -f ok.yaml --inventory gpu1.json -o ok 2>err && ! grep "GPU memory" err || exit 1; done'
test_expect 'another link between the GPUs; bridges between some are none between all' '
    sed "s/nvlink4/pcie/" site.yaml >pcie.yaml && stoker render nccl -f pcie.yaml --inventory gpu1.json -o yes 2>err &&
    grep -q "^pcie.yaml:8:30: warning: link between the GPUs: nvlink4 on gpu1, the spec says pcie" err &&
    warned gpu1 "for p in m[\"gpu_pairs\"]: p[\"nvlinks\"] = 0" "8:30: warning: link between the GPUs: pcie on gpu1, the spec says nvlink4"'
test_expect 'one GPU that does not work' 'warned gpu1 "m[\"gpus\"][2][\"state\"] = \"lost\"" "5:.*warning: GPUs: 7 and 1 that does not work on gpu1"'
test_expect 'a machine of no group: told, with its name' 'warned login1 "del m[\"gpus\"][3:]" "3:.*warning: machine .login1. is in no node group"'
test_expect 'a machine that no group lists but is like one' 'warned dgx-77 "pass" "3:.*warning: no node group lists machine .dgx-77.; it is taken for one of .gpu."'
test_expect 'the same contradiction of many machines is told once' '
    for n in 1 2 3; do named dgx.json gpu$n "m[\"cpu\"][\"cores\"] = 96"; done &&
    stoker render nccl -f site.yaml --inventory gpu1.json --inventory gpu2.json --inventory gpu3.json -o no 2>err &&
    test "$(grep -c "CPU cores: 96 on gpu\[1-3\]" err)" = 1
'
test_expect 'JSON has them as warnings' '
    stoker render nccl -f site.yaml --inventory gpu1.json --json -o no | python3 -c "
import json, sys
d = json.load(sys.stdin)
assert any(w[\"line\"] == 6 and \"CPU cores\" in w[\"message\"] for w in d[\"warnings\"]), d[\"warnings\"]"
'
test_expect 'GPUs on other NUMA nodes than their group: cores are not taken from one of them' '
    sed "s/^fabrics/targets: {slurm: {}}\nfabrics/; s/gpu: {model: A100/cpu_cores: 64\n    memory: 1TiB\n    &/" site.yaml >slurm.yaml && for n in 1 2; do named dgx.json gpu$n; done &&
    stoker render slurm -f slurm.yaml --inventory gpu1.json --inventory gpu2.json -o s 2>err && grep -q "from the inventory" s/slurm/gres.conf &&
    named dgx.json gpu2 "m[\"gpus\"][0][\"numa\"] = 1" &&
    stoker render slurm -f slurm.yaml --inventory gpu1.json --inventory gpu2.json -o s 2>err && grep -q "warning: machines of group .gpu. have their GPUs on different" err
'
test_expect 'cores and memory that the spec does not give are the machine'"'"'s' '
    sed "s/^fabrics/targets: {slurm: {controller: ctl}}\nfabrics/; /cpu_cores/d; /memory/d; /- name: old/,/model: A100/d" site.yaml >none.yaml &&
    named dgx.json gpu1 && ! stoker render slurm -f none.yaml -o n 2>err && grep -q "how many cores" err &&
    stoker render slurm -f none.yaml --inventory gpu1.json -o n 2>err && cat err && test ! -s err &&
    grep -q "^NodeName=gpu\[1-4\] Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=" n/slurm/slurm.conf &&
    grep -q "^# cores: the inventory of gpu1" n/slurm/slurm.conf && grep -q "^# memory: the inventory of gpu1" n/slurm/slurm.conf
'
test_expect 'a machine with less than the spec says: told, and the smaller figures are written' '
    named dgx.json gpu2 "
m[\"cpu\"][\"cores\"] = 64; m[\"cpu\"][\"threads\"] = 64; m[\"memory\"][\"total_bytes\"] = 512 << 30" &&
    stoker render slurm -f slurm.yaml --inventory gpu1.json --inventory gpu2.json -o s 2>err && cat err &&
    grep -q "^slurm.yaml:6:16: warning: CPU cores: 64 on gpu2, the spec says 112" err && grep -q "^The smaller one is written" err &&
    grep -q "^NodeName=gpu\[1-4\] Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=503317 " s/slurm/slurm.conf &&
    grep -q "^# cores: nodes\[0\].cpu_cores, changed by the inventory of gpu2" s/slurm/slurm.conf
'
test_expect 'a machine with more: told, and the spec holds' '
    named dgx.json gpu1 "
m[\"cpu\"][\"cores\"] = 128; m[\"cpu\"][\"threads\"] = 256; m[\"memory\"][\"total_bytes\"] = 4 << 40" &&
    stoker render slurm -f slurm.yaml --inventory gpu1.json -o s 2>err && grep -q "warning: CPU cores: 128 on gpu1, the spec says 112" err &&
    grep -q "^NodeName=gpu\[1-4\] Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2013266 " s/slurm/slurm.conf
'
test_expect 'less memory than Slurm would be told of, by little: told' '
    named dgx.json gpu1 "m[\"memory\"][\"total_bytes\"] = (2 << 40) * 94 // 100" && stoker render slurm -f slurm.yaml --inventory gpu1.json -o s 2>err &&
    grep -q "^slurm.yaml:7:13: warning: memory: " err
'
test_expect 'figures that no machine has are refused' '
    for x in "cores\"] = -5" "threads\"] = 10**12" "sockets\"] = 0" "threads\"] = 3"; do
        named dgx.json gpu1 "m[\"cpu\"][\"$x" && ! stoker render slurm -f slurm.yaml --inventory gpu1.json -o no 2>err && cat err &&
        grep -q "^stoker: inventory .gpu1.json.: cpu\.[a-z]* is " err || exit 1
    done; named dgx.json gpu1 "m[\"memory\"][\"total_bytes\"] = -1" && ! stoker detect --compare gpu1.json gpu3.json 2>err && grep -q "memory.total_bytes is -1" err
'
test_expect 'two inventories of one machine are told as such' '
    named dgx.json gpu1 && cp gpu1.json later.json && stoker render slurm -f slurm.yaml --inventory gpu1.json --inventory later.json -o s 2>err && cat err &&
    grep -q "^slurm.yaml:3:.* warning: two inventories are of machine .gpu1.: .gpu1. and .later." err
'
test_done

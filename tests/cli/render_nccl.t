#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render nccl`: nccl.conf as NCCL reads it holds what the spec says; what NCCL ignores or
# fails with is refused at its line and column.
. "$(dirname "$0")/lib.sh"

# NCCL's own reading: '#' in the first column is a comment, NAME=VALUE to the end of the line
settings() { sed -n '/^#/d; /^[^=]*=/p' "$1"; }
site() { # LINES OF nccl.env...: a RoCE site with NVLink
    printf '%s\n' 'schema: stoker.spec/1' 'nodes: [{name: g, gpus_per_node: 8, fabrics: [f], gpu: {model: H100, link: nvlink4}}]' \
        'fabrics: [{name: f, kind: roce, rate: 400Gb/s, nics_per_node: 4, traffic_class: 106, gid_index: 3}]' 'nccl:' '  env:'
    for line; do printf '    %s\n' "$line"; done
}

for name in ai-platform-h200 driving-h200 kb-a100 rdma-openshift; do
    test_expect "$name: one file for every machine" '
        stoker spec example $name >$name.yaml && stoker render nccl -f $name.yaml -o $name && test -s $name/nccl/nccl.conf
    '
done
test_expect 'what the spec forces is there, with its line, and nothing else' '
    settings ai-platform-h200/nccl/nccl.conf >got && echo NCCL_DEBUG=WARN | diff - got &&
    grep -B1 "^NCCL_DEBUG" ai-platform-h200/nccl/nccl.conf | grep -qx "# nccl.env.NCCL_DEBUG" &&
    settings rdma-openshift/nccl/nccl.conf >got && test ! -s got
'
test_expect 'groups on different fabrics have a file each' '
    stoker spec example llm-cluster >llm.yaml && stoker render nccl -f llm.yaml -o llm && test ! -e llm/nccl/nccl.conf &&
    settings llm/nccl/gpu/nccl.conf >got && echo NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7 | diff - got &&
    settings llm/nccl/spot/nccl.conf >got && test ! -s got
'
test_expect 'the fabric fixes what it must, the spec wins over it' '
    site "NCCL_IB_TC: \"41\"" >s.yaml && stoker render nccl -f s.yaml -o s && settings s/nccl/nccl.conf | sort >got &&
    printf "%s\n" NCCL_IB_GID_INDEX=3 NCCL_IB_TC=41 | diff - got
'
test_expect 'texts are as they were meant, comments are on lines of their own' '
    site "NCCL_DEBUG_FILE: \"/x y/%h # %p = '\''q'\'' \\\\ \$HOME\"" "FI_PROVIDER: efa" >s.yaml && stoker render nccl -f s.yaml -o s &&
    settings s/nccl/nccl.conf >got && grep -qxF "NCCL_DEBUG_FILE=/x y/%h # %p = '\''q'\'' \\ \$HOME" got && grep -qx FI_PROVIDER=efa got &&
    grep -B2 "^FI_PROVIDER" s/nccl/nccl.conf | grep -q "Not NCCL.s own"
'
test_expect 'what works but is doubtful is told beside it' '
    site "NCCL_ALGO: Ring" >s.yaml && stoker render nccl -f s.yaml -o s && grep -qx NCCL_ALGO=Ring s/nccl/nccl.conf &&
    grep -qx "# warning: NCCL_ALGO" s/nccl/nccl.conf
'
told() { # LINE WORDS: written as it is, with a warning that --strict refuses
    site "$1" >cost.yaml && rm -rf cost && stoker render nccl -f cost.yaml -o cost 2>err &&
    test "$(grep -c "^cost.yaml:6:[1-9][0-9]*: warning: .*$2" err)" = 1 && ! stoker spec check --strict cost.yaml 2>/dev/null &&
    settings cost/nccl/nccl.conf | grep -qx "$(echo "$1" | tr -d \" | sed "s/: /=/")" && ! grep "^# error" cost/nccl/nccl.conf || { cat err; return 1; }
}
test_expect 'what is forced and NCCL follows is written, and told with what it costs' '
    told "NCCL_IB_DISABLE: \"1\"" "RDMA ports stay unused: .* goes over TCP" && told "NCCL_NET: Socket" "goes over TCP" &&
    told "NCCL_P2P_DISABLE: \"1\"" "NVLink joins the GPUs" && told "NCCL_P2P_LEVEL: LOC" "No two GPUs copy directly" &&
    told "NCCL_SHM_DISABLE: \"1\"" "without a direct path"
'
refused() { # LINE WORDS: refused at line 6, where the value begins, and nothing is written
    site "$1" >bad.yaml && ! stoker render nccl -f bad.yaml -o bad 2>err && grep -q "^bad.yaml:6:[1-9][0-9]*: .*$2" err && test ! -e bad
}
test_expect 'two lines' 'refused "NCCL_DEBUG_FILE: \"a\\nb\"" "cannot hold this value of NCCL_DEBUG_FILE"'
test_expect 'a blank at the end' 'refused "NCCL_DEBUG_FILE: \"a \"" "cannot hold"'
test_expect 'more than NCCL reads of a line' 'refused "NCCL_DEBUG_FILE: /$(printf %01100d 0)" "cannot hold"'
test_expect 'every RDMA device excluded' 'refused "NCCL_IB_HCA: \"^mlx5_\"" "every active RDMA port is left out"'
test_expect 'the heading of a list as a device' 'refused "NCCL_IB_HCA: \"1 HCA found:,mlx5_0\"" "heading of ibv_devinfo"'
test_expect 'a family that is none' 'refused "NCCL_SOCKET_FAMILY: \"4\"" "AF_INET6 alone"'
test_expect 'a name with a slip' 'refused "NCCL_DEBG: INFO" "did you mean NCCL_DEBUG"'
test_expect 'a number that is none' 'refused "NCCL_BUFFSIZE: 4M" "reads 4"'
test_expect 'text that turns nothing off' 'refused "NCCL_IB_DISABLE: \"yes\"" "reads 0" && refused "NCCL_P2P_DISABLE: \"yes\"" "reads 0"'
test_expect 'all faults of a file are told, each once' '
    site "NCCL_DEBG: INFO" "NCCL_BUFFSIZE: 4M" | sed "s/^nodes: .*/&\n/; s/^nodes: \[\(.*\)\]/nodes: [\1, {name: h, gpus_per_node: 4, gpu: {model: H100}}]/" >bad.yaml &&
    ! stoker render nccl -f bad.yaml -o bad 2>err && test "$(grep -c "^bad.yaml:.*NCCL" err)" = 2
'
test_expect 'the same spec, the same bytes; 2,000 groups are no burden' '
    stoker render nccl -f llm.yaml -o again && diff -r llm again &&
    { echo "schema: stoker.spec/1"; echo nodes:; i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); echo "  - {name: n$i, gpus_per_node: 8, gpu: {model: H100}}"; done; } >many.yaml &&
    timeout 20 "$BUILD/stoker" render nccl -f many.yaml -o many && test -s many/nccl/nccl.conf
'
test_done

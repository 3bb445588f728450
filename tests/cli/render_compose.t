#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render compose`: the file has the form compose asks for, says what the spec says, whatever
# its texts hold, and its health checks ask real servers.
. "$(dirname "$0")/lib.sh"
python=
for p in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $p -c 'import yaml' 2>/dev/null || python=$p
done
[ -n "$python" ] || { test_skip "compose files" "no python3 with yaml is here"; 
cat >low.yaml <<'EOF'
nodes: [{name: g, gpus_per_node: 8, gpu: {model: H100}, fabrics: [ib]}]
fabrics: [{name: ib, kind: infiniband, rate: 400Gb/s}]
components:
  a: {target: compose, nodes: g, gpus: 1, image: "x:1", command: [x], fabrics: [ib], user: "1000", ports: [{port: 80}]}
  b: {target: compose, nodes: g, gpus: 1, image: "x:1", command: [x], user: "1000", ports: [{port: 81}]}
targets: {compose: {}}
EOF
test_expect 'a port below 1024 of who is not root is told on the network of the host, and there alone' '
    stoker render compose -f low.yaml -o low >/dev/null 2>err && grep -q "^low.yaml:4:.*warning: .a. is on the host.s network for RDMA, where user .1000. cannot listen on port 80" err &&
    ! grep "port 81" err || { cat err; exit 1; }'
test_done; }
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
$python "$TOP/tests/cli/render_compose.py" "$BUILD/stoker" "${STOKER_SCHEMAS:-$TOP/../shared/schemas}/compose-spec.json"

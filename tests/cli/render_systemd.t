#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render systemd`: systemd itself takes the units and reads from them what the spec has, and
# the real agent, server and up run by the rendered lines.
. "$(dirname "$0")/lib.sh"
for need in python3 systemd-analyze; do
    command -v $need >/dev/null || { test_skip "systemd units" "$need is not here"; 
test_expect 'a port below 1024 brings the capability to bind it, behind the line that takes them all' '
    cat >low.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
	components:
	  ui: {target: systemd, nodes: c, command: [/bin/x], ports: [{port: 80}]}
	  api: {target: systemd, nodes: c, command: [/bin/x], ports: [{port: 1024}]}
	agent: {port: 90}
	targets: {systemd: {}}
	EOF
    stoker render systemd -f low.yaml -o low >/dev/null && u=low/systemd/stoker &&
    test "$(grep Capabilit $u-component-ui.service | tr "\n" " ")" = "CapabilityBoundingSet= CapabilityBoundingSet=CAP_NET_BIND_SERVICE AmbientCapabilities=CAP_NET_BIND_SERVICE " &&
    ! grep CAP_NET_BIND $u-component-api.service && grep -q AmbientCapabilities=CAP_NET_BIND $u-agent.service && grep -q AmbientCapabilities=CAP_NET_BIND $u-up.service'
test_done; }
done
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
python3 "$TOP/tests/cli/render_systemd.py" "$BUILD/stoker" "$TOP"

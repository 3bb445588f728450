#!/bin/sh
# SPDX-License-Identifier: MIT
# Delivery: a real Alertmanager receives an alert that fires, and its end.
. "$(dirname "$0")/../cli/lib.sh"
tool=$BUILD/tests/prometheus/alerts

manager=$(command -v prometheus-alertmanager || command -v alertmanager)
if [ -z "$manager" ] || ! command -v curl >/dev/null; then
    test_skip 'Alertmanager receives a firing and a resolved alert' \
        'Alertmanager or curl is not here: tools/setup prometheus'
    test_done
fi

cat >manager.yml <<'EOF'
route: {receiver: none, group_wait: 1s, group_interval: 1s}
receivers: [{name: none}]
EOF
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
"$manager" --config.file=manager.yml --storage.path=data --cluster.listen-address= \
    --web.listen-address="127.0.0.1:$port" >manager.log 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid; rm -rf "$TMP"' EXIT

# until WHAT: within a minute
until_true() {
    for _ in $(seq 600); do
        eval "$1" && return 0
        sleep 0.1
    done
    tail -5 manager.log
    return 1
}

alerts() { curl -fsS "$url/api/v2/alerts?$1"; }

test_expect 'Alertmanager is there' 'until_true "curl -fsS $url/-/ready >/dev/null 2>&1"'
mkfifo go
"$tool" "$url" <go >said &
fire=$!
exec 3>go
test_expect 'it receives the firing alert with labels, annotations and its source' '
    until_true "alerts active=true | grep -q GpuTemperatureHigh" &&
    alerts active=true >got.json && python3 - <<EOF
import json
[a] = json.load(open("got.json"))
labels = a["labels"]
assert labels["alertname"] == "GpuTemperatureHigh" and labels["gpu"] == "3", labels
assert labels["severity"] == "warning" and labels["UUID"] == "GPU-0" and labels["hostname"], labels
assert a["annotations"]["summary"] == "GPU 3 is at 91 °C", a["annotations"]
assert a["generatorURL"] == "http://node:8090/" and a["startsAt"] < a["endsAt"], a
assert a["status"]["state"] == "active", a["status"]
EOF
'
echo >&3
exec 3>&-
test_expect 'and that it is over' 'until_true "[ \"\$(alerts active=true)\" = \"[]\" ]"'
test_expect 'nothing was refused or lost' '
    wait_for=$fire; until_true "! kill -0 $wait_for 2>/dev/null" && cat said &&
    test "$(cat said)" = "$(printf "firing GpuTemperatureHigh\nresolved GpuTemperatureHigh")"
'
test_done

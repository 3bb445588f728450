#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render prometheus`: promtool and amtool take the files of every example, the unit tests
# of all alerts hold and find what is changed, and what Prometheus cannot hold is refused.
. "$(dirname "$0")/lib.sh"
for p in promtool amtool python3; do
    command -v $p >/dev/null || {
        test_skip 'promtool and amtool take what is rendered' "$p is not here: tools/setup prometheus"
        test_done
    }
done

# rendered FILE: into out/
rendered() { rm -rf out && stoker render prometheus -f "$1" -o out >said 2>&1 || { cat said; return 1; }; }
# tested TITLE CODE: promtool runs the tests of rules
tested() { if plain_build; then test_expect "$1" "$2"; else test_skip "$1" "$ONCE"; fi; }
tests() { (cd "$1/prometheus/tests" && promtool test rules ./*.yml); }

# silent FILE: without the default rules, whose tests are the same for every spec
silent() {
    cat "$1"
    cat <<EOF
default_alerts:
$(awk -F, 'NR > 1 { print "  " $1 ": {off: true}" }' "$TOP/data/alerts.csv")
EOF
}

for name in ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift; do
    stoker spec example $name | sed "s|/etc/stoker/agent.token|$TMP/token|" >$name.yaml
    : >token # promtool looks for it
    test_expect "example $name: promtool and amtool take every file" '
        rendered $name.yaml && promtool check config out/prometheus/prometheus.yml &&
        amtool check-config out/prometheus/alertmanager.yml
    '
    tested "example $name: the tests of its own alerts hold" '
        silent $name.yaml >own.yaml && rendered own.yaml && tests out
    '
done

cat >site.yaml <<'EOF'
schema: stoker.spec/1
site: {name: site}
nodes:
  - {name: a, count: 40, gpus_per_node: 8, gpu: {model: H200}, price: $36/h, rack: r1}
  - {name: b, count: 2, gpus_per_node: 4, gpu: {model: A100}}
prices: {gpu_hour: $4/h}
agent: {token_file: /etc/stoker/token, listen: 0.0.0.0}
serve: {token_file: /etc/stoker/serve, listen: 0.0.0.0, tls_cert: /etc/c.pem, tls_key: /etc/k.pem}
models: {m: {source: /srv/m, kind: embedding}}
components:
  train: {kind: batch, nodes: b, gpus: 4, command: [./train]}
alerts:
  dear: {metric: cost_per_day, warn: $5000, critical: $9000, for: 10m, clear: $4000}
  rise: {metric: cost_per_task_rise, warn: 15%, for: 1h}
  silent: {metric: custom, series: gpu.temp, how: absent, for: 5m}
  mean: {metric: custom, series: vllm_queue, how: mean, window: 5m, warn: 100, clear: 80}
  rate: {metric: custom, series: vllm_done_total, how: rate, window: 5m, warn: 100, when: below}
  more: {metric: custom, series: vllm_errors_total, how: increase, window: 30m, warn: 100, keep: 1h}
  cpu: {metric: cpu_utilization, critical: 99%, nodes: [a]}
  slowed: {metric: gpu_throttle_time, warn: 10%, critical: 20%, clear: 5%}
  hot: {metric: gpu_temperature, warn: 80C, critical: 85C, clear: 75C, for: 2m, keep: 3m, components: [train], runbook: "https://wiki/{hot}"}
  disk: {metric: disk_used, warn: 85%}
  pool: {metric: pool_used, warn: 90%, for: 5m}
  waits: {metric: queue_age, warn: 100ms}
  fails: {metric: error_rate, warn: 1%}
notify: {webhook: "http://chat.example.org/a/c%20d", command: [/bin/page]}
targets:
  prometheus: {url: "http://p:9090", retention: 36h, alertmanagers: ["am1:9093", "[::1]:9093"]}
EOF
silent site.yaml >own.yaml

tested 'the tests of every default rule hold' '
    echo "schema: stoker.spec/1" >defaults.yaml && rendered defaults.yaml && tests out
'
tested 'those of alerts of every kind too' 'rendered own.yaml && tests out'
# every WHEN: a spec with an alert on each word, with where it ends
every() {
    python3 - "$1" <<'EOF'
import sys
units = {"gpu_memory_unused": "GB", "gpu_temperature": "C", "gpu_power": "W", "nvlink_rate": "Gb/s", "pcie_rate": "Gb/s", "samples_per_second": "/s",
         "requests_per_second": "/s", "queue_age": "ms", "latency_p50": "ms", "latency_p99": "ms", "cost_per_day": "$"}
counts = "gpu_ecc_double_bit gpu_remapped_rows gpu_xid nvlink_errors pcie_replays rdma_link_down rdma_link_flaps queue_length".split()
percents = ("gpu_utilization gpu_memory gpu_tensor_activity gpu_throttle_time cpu_utilization disk_used swap_used error_rate cost_per_task_rise "
            "pool_used").split()
units.update({c: "" for c in counts}, **{p: "%" for p in percents})
print("schema: stoker.spec/1\nnodes: [{name: a, gpus_per_node: 8, gpu: {model: H200}, price: $36/h}]\n"
      "models: {m: {source: /srv/m, kind: embedding}}\nalerts:")
for word, unit in units.items():
    levels = (40, 30) if sys.argv[1] == "above" else (60, 70)
    warn, clear = (f'"${v}00"' if unit == "$" else f"{v}{unit}" for v in levels)
    print(f"  {word}: {{metric: {word}, when: {sys.argv[1]}, warn: {warn}, clear: {clear}, for: 90s, keep: 2m}}")
EOF
}
for when in above below; do
    every $when | silent - >every.yaml
    test_expect "every word that a spec has, $when, is a rule" '
        test "$(grep -c "metric: " every.yaml)" = 29 && rendered every.yaml &&
        test "$(grep -c "severity: warning" out/prometheus/rules/alerts.yml)" -ge 31
    '
    tested "their tests hold, $when" 'tests out'
done
test_expect 'every alert has a test' '
    rendered site.yaml && python3 - <<EOF
import re, pathlib
rules = re.findall(r"alert: \"?([\w.-]+)", pathlib.Path("out/prometheus/rules/alerts.yml").read_text())
tests = "".join(p.read_text() for p in pathlib.Path("out/prometheus/tests").glob("*.yml"))
missing = {r for r in rules if not re.search(f"name: \"{re.escape(r)} ", tests)}
assert len(set(rules)) > 80 and not missing, missing
EOF
'
test_expect 'and none of the rules is left out' '! grep "# left out" out/prometheus/rules/alerts.yml'

# changed SED: the tests of the alerts of the spec no longer hold
cat >small.yaml <<'EOF'
schema: stoker.spec/1
alerts:
  hot: {metric: gpu_temperature, warn: 80C, critical: 85C, clear: 75C, for: 2m, keep: 3m}
  mean: {metric: custom, series: vllm_queue, how: mean, window: 5m, warn: 100, clear: 80}
  idle: {metric: gpu_memory_unused, warn: 20GB, for: 1m}
EOF
silent small.yaml >small_own.yaml && rendered small_own.yaml && cp -r out whole
changed() {
    rm -rf bad && cp -r whole bad && sed -i "$1" bad/prometheus/rules/alerts.yml &&
        ! cmp -s bad/prometheus/rules/alerts.yml whole/prometheus/rules/alerts.yml &&
        promtool check rules bad/prometheus/rules/alerts.yml && ! tests bad
}
tested 'the tests of the rules hold before they are changed' 'tests whole'
tested 'a threshold that is off by a hundredth is found' 'changed "s/GPU_TEMP > 85/GPU_TEMP > 86/"'
tested 'another time is found' 'changed "s/for: \"2m\"/for: \"4m\"/"'
tested 'an end that comes too soon is found' 'changed "s/keep_firing_for: \"3m\"/keep_firing_for: \"1m\"/"'
tested 'an end that does not come is found' 'changed "s/ > 75 and on/ > 60 and on/"'
tested 'a misspelt metric is found' 'changed "s/vllm_queue/vllm_qeueu/"'
tested 'a state that is not looked at is found' 'changed "s/ and on ([^)]*) DCGM_FI_DEV_GPU_UTIL < 5//"'

# ---- budgets
# money [LINE…]: a site with money, in money.yaml, without the default rules
money() {
    {
        cat <<'EOF'
schema: stoker.spec/1
site: {name: b}
agent: {token_file: /etc/stoker/token, listen: 0.0.0.0}
EOF
        printf '%s\n' "$@"
    } | silent - >money.yaml
}
OWN='- {name: gpu, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB, price: $30/h}'
CLOUD='- {name: cloud, count: 4, capacity: spot, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB, price: $20/h}'
JOB='job: {kind: training, target: slurm, nodes: gpu, gpus: 8, queued: true, command: [x], training: {framework: other}}'
SLURM='slurm: {cluster: b, controller: c1, power_save: {suspend_program: /s, resume_program: /r}}'
# said TEXT…: the warnings have each
said() { for text; do grep -qF "$text" warned || { echo "not said: $text"; cat warned; return 1; }; done; }
checked() { rm -rf out; stoker render all -f money.yaml -o out >said 2>warned || { cat warned; return 1; }; }

money 'nodes:' "  $OWN" "  $CLOUD" 'components:' "  $JOB" \
    'budgets: {day: $100/d, month: $3000/mo, overrun: hold, components: {job: {day: $1/d, month: $20/mo}}}' "targets: {$SLURM, prometheus: {}}"
test_expect 'budgets are rules of the day, the month and what is ahead, of the site and of a component' '
    checked && promtool check rules out/prometheus/rules/*.yml && amtool check-config out/prometheus/alertmanager.yml &&
    for e in "budget:cost_dollars:day{component=\\\"\\\"} > 80\"" "budget:cost_dollars:day{component=\\\"\\\"} > 100\"" \
        "budget:cost_dollars:month{component=\\\"\\\"} > 2400\"" "budget:cost_dollars:month{component=\\\"\\\"} > 3000\"" \
        "minute() / 60, 168) > 3000\"" "budget:cost_dollars:day{component=\\\"job\\\"} > 0.8\"" "budget:cost_dollars:month{component=\\\"job\\\"} > 20\"" \
        "3.75 * count by (group) (last_over_time(stoker_gpu_processes{group=\\\"gpu\\\"}[10m]) > 0)"; do
        grep -qF "$e" out/prometheus/rules/alerts.yml || { echo "not there: $e"; return 1; }
    done
'
tested 'their tests hold: a young Prometheus, gaps, machines that are away, the end of a month' 'tests out'
rm -rf whole && cp -r out whole
tested 'a budget that is another is found' 'changed "s/day{component=\\\\\"\\\\\"} > 100/day{component=\\\\\"\\\\\"} > 101/"'
tested 'a day that is guessed from its first hours is found' 'changed "s/sum_over_time(\(budget:[a-z_]*:sum\[1439m\)/288 * avg_over_time(\1/"'
tested 'a cloud machine that is away and paid for is found' 'changed "s/sum by (group) (max_over_time/count by (group) (max_over_time/"'
tested 'an owned machine that is down and not paid for is found' 'changed "s/30 \* count by (group) (last_over_time/30 * sum by (group) (last_over_time/"'
tested 'a month that does not end is found' 'changed "s/ and on (month) count_values(.*month())//"'
tested 'a forecast of another time is found' 'changed "s/minute() \/ 60, 168)/minute() \/ 60, 160)/"'
test_expect 'what prices exceed, and what nobody holds, is told with both numbers, in text, JSON and by --strict' '
    said "the machines cost \$1440/d at the prices of the spec, the budget is \$100/d" \
        "the machines cost \$43800/mo at the prices of the spec, the budget is \$3000/mo" "slurm does not follow '"'overrun'"' of budgets" &&
    ! stoker spec check --strict money.yaml >said 2>&1 && stoker spec check --json money.yaml >j.json && python3 - <<EOF
import json
text = open("j.json").read()
assert "the machines cost" in text and "overrun" in text, text
json.loads(text)
EOF
'
money 'nodes:' "  $OWN" "  $CLOUD" 'components:' "  $JOB" 'budgets: {day: $1500/d, month: $45000/mo, components: {job: {day: $999/d}}}' "targets: {$SLURM, prometheus: {}}"
test_expect 'machines that are suspended are not in the sum; a component that cannot spend its budget needs no rule' '
    checked && ! grep -i "budget\|cost" warned && grep -q BudgetForecast out/prometheus/rules/alerts.yml && ! grep -q "component: job" out/prometheus/rules/alerts.yml
'
money 'nodes:' "  ${OWN%, price*}}" 'budgets: {day: $10/d}' 'targets: {prometheus: {}}'
test_expect 'without a price: a warning at the key, and no rule' '
    checked && said "money.yaml:6:16: warning: what the site costs is unknown: no node group has a price" && ! grep -q Budget out/prometheus/rules/alerts.yml
'
money 'nodes:' "  $OWN" '  - {name: ctl, role: control}' 'budgets: {day: $10000/d}' 'targets: {prometheus: {}}'
test_expect 'a group without a price is named' '
    checked && said "money.yaml:7:16: warning: the cost that is held against this budget leaves out '"'ctl'"': no price is known" &&
    grep -q BudgetDay out/prometheus/rules/alerts.yml
'
money 'nodes:' "  $OWN" 'components:' "  $JOB" "  other: {kind: batch, target: slurm, nodes: gpu, gpus: 1, command: [x]}" \
    'budgets: {components: {job: {month: $99/mo}}}' "targets: {$SLURM, prometheus: {}}"
test_expect 'a component whose nodes others use is not measured: told' '
    checked && said "what component '"'job'"' costs is not measured" "it costs \$21900/mo, the budget is \$99/mo" && ! grep -q Budget out/prometheus/rules/alerts.yml
'
money 'nodes:' "  $OWN" 'components:' '  api: {kind: service, target: systemd, nodes: gpu, gpus: 4, command: [x]}' \
    'budgets: {components: {api: {day: $99/d}}}' 'targets: {systemd: {}}'
test_expect 'budgets that no target watches are told, and a service that costs more' '
    checked && said "nobody is told of what is spent: no target has alert rules" "component '"'api'"' costs \$360/d at the prices of the spec, the budget is \$99/d"
'
money 'nodes:' "  $OWN" 'budgets: {month: $99999/mo, overrun: stop}' 'targets: {prometheus: {retention: 10d}}'
test_expect 'a retention that is shorter than a month, and an overrun that nobody is there to stop, are told' '
    checked && said "the budget of a month needs the samples of 31 days" "does not follow '"'overrun'"' of budgets"
'
sed 's/^agent:.*/agent: {enabled: false}/' money.yaml >off.yaml && mv off.yaml money.yaml
test_expect 'without agents nothing is measured: told' 'checked && said "what is spent is not measured: no machine has an agent"'
money 'nodes:' "  $OWN" "  $CLOUD" 'components:' "  $JOB" 'alerts:' '  group: {metric: cost_per_day, warn: $10, nodes: [cloud]}' \
    '  part: {metric: cost_per_day, warn: $10, components: [job]}' '  all: {metric: cost_per_day, warn: $10}' \
    '  rise: {metric: cost_per_task_rise, warn: 15%, nodes: [cloud]}' "targets: {$SLURM, prometheus: {}}"
test_expect 'alerts about cost are for the groups and components that they name' '
    checked && promtool check rules out/prometheus/rules/*.yml && python3 - <<END
import yaml
rules = {r["alert"]: r for g in yaml.safe_load(open("out/prometheus/rules/alerts.yml"))["groups"] for r in g["rules"] if "alert" in r}
groups = {n: [g for g in ("gpu", "cloud") if "group=\"" + g + "\"" in rules[n]["expr"]] for n in ("group", "part", "all")}
assert groups == {"group": ["cloud"], "part": ["gpu"], "all": ["gpu", "cloud"]}, groups
assert rules["rise"]["expr"].count("group=~\"cloud\"") == 7, rules["rise"]["expr"]
assert "of the machines cloud in dollars" in rules["group"]["annotations"]["summary"], rules["group"]
assert "of the site in dollars" in rules["all"]["annotations"]["summary"], rules["all"]
END
'
money 'nodes:' "  ${OWN%, price*}}" 'alerts: {dear: {metric: cost_per_day, warn: $10}}' 'targets: {prometheus: {}}'
test_expect 'an alert that Prometheus has no rule for is told' '
    checked && said "money.yaml:6:10: warning: Prometheus has no rule for alert '"'dear'"': the spec names no price"
'

test_expect 'whom it is for, tokens, TLS, lists of machines and flags' '
    rendered own.yaml && promtool check config --syntax-only out/prometheus/prometheus.yml && cd out/prometheus &&
    test "$(grep -c "a[0-9]*:9400" targets/stoker-agent-a.yml)" = 40 && grep -q "rack: r1" targets/stoker-agent-a.yml &&
    grep -q "targets/stoker-agent-a.yml" prometheus.yml && grep -q "\"b1:9400\"" prometheus.yml &&
    grep -q "credentials_file: /etc/stoker/token  # agent.token_file" prometheus.yml &&
    grep -q "credentials_file: /etc/stoker/serve" prometheus.yml && grep -q "scheme: https" prometheus.yml &&
    grep -q "\"am1:9093\"" prometheus.yml && grep -q "honor_labels: true" prometheus.yml &&
    grep -q "retention.time=36h" prometheus.default && grep -q "external-url=http://p:9090" prometheus.default &&
    grep -q "notify.command is run by the agents" alertmanager.yml
'
test_expect 'alertmanager.yml is for its owner where it holds the address of a webhook' '
    printf "schema: stoker.spec/1\ntargets: {prometheus: {}}\n" >hook.yaml && stoker render all -f hook.yaml -o hook >/dev/null &&
    test "$(stat -c %a hook/prometheus/alertmanager.yml)" = 644 && echo "notify: {webhook: \"http://chat.example.org/hooks/abc\"}" >>hook.yaml &&
    stoker render all -f hook.yaml -o hook >/dev/null && test "$(stat -c %a hook/prometheus/alertmanager.yml)" = 600 &&
    test "$(stat -c %a hook/prometheus/prometheus.yml)" = 644
'
test_expect 'alerts reach who they are for, by severity' '
    rendered own.yaml &&
    test "$(amtool config routes test --config.file=out/prometheus/alertmanager.yml severity=critical)" = critical &&
    test "$(amtool config routes test --config.file=out/prometheus/alertmanager.yml severity=info)" = info &&
    test "$(amtool config routes test --config.file=out/prometheus/alertmanager.yml a=b)" = default
'
test_expect 'names since DCGM 4.6 when the agents export those' '
    printf "schema: stoker.spec/1\nagent: {dcgm_names: new}\n" >new.yaml && rendered new.yaml &&
    promtool check rules out/prometheus/rules/*.yml && grep -q "DCGM_FI_DEV_GPU_TEMP_CELSIUS > 85" out/prometheus/rules/alerts.yml &&
    ! grep -q "DCGM_FI_DEV_GPU_TEMP " out/prometheus/rules/alerts.yml out/prometheus/rules/recording.yml
'

tested 'whatever a text holds, it stays text' '
    cat >odd.yaml <<"EOF"
schema: stoker.spec/1
alerts:
  odd: {metric: gpu_temperature, warn: 80C, summary: "{{ .Evil }} {value} \"q\" {gpu} # {{", runbook: "https://w/{{x}}"}
EOF
    rendered odd.yaml && promtool check config out/prometheus/prometheus.yml && silent odd.yaml >odd_own.yaml &&
    rendered odd_own.yaml && cat >out/prometheus/tests/odd.yml <<"EOF"
rule_files: [../rules/alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: [{series: "DCGM_FI_DEV_GPU_TEMP{gpu=\"3\"}", values: "90x5"}]
    alert_rule_test:
      - eval_time: 3m
        alertname: odd
        exp_alerts:
          - exp_labels: {severity: warning, gpu: "3"}
            exp_annotations: {summary: "{{ .Evil }} 90 °C \"q\" 3 # {{", description: set by the spec, runbook_url: "https://w/{{x}}"}
EOF
    tests out
'
test_expect '10,000 machines are one file of targets' '
    printf "schema: stoker.spec/1\nnodes: [{name: n, count: 10000, gpus_per_node: 8, gpu: {model: H200}}]\n" >many.yaml &&
    rendered many.yaml &&
    test "$(grep -c ":9400" out/prometheus/targets/stoker-agent-n.yml)" = 10000 && promtool check config out/prometheus/prometheus.yml
'

# refused SPEC WORDS: with the line, and nothing is written
refused() {
    printf 'schema: stoker.spec/1\n%s\n' "$1" >bad.yaml
    rm -rf out
    ! stoker render prometheus -f bad.yaml -o out 2>said && grep -q "^bad.yaml:2:[0-9]*: $2" said && test ! -e out || { cat said; return 1; }
}
test_expect 'an address that nobody can post to' 'refused "notify: {webhook: \"ftp://x\"}" "the agent cannot use this address: .*'"'"'ftp://x'"'"'"'
test_expect 'one that Prometheus does not take' 'refused "notify: {alertmanager: \"am:9093\"}" "'"'"'am:9093'"'"' is no address that Prometheus"'
test_expect 'an Alertmanager that is no host and port' 'refused "targets: {prometheus: {alertmanagers: [\"http://am\"]}}" "'"'"'http://am'"'"' is not the host"'
test_expect 'scrapes that are too far apart' 'refused "targets: {prometheus: {scrape_interval: 10m}}" "Prometheus forgets a value"'
test_expect 'a window holds four scrapes at least' '
    printf "schema: stoker.spec/1\ntargets: {prometheus: {scrape_interval: 1m}}\n" >rare.yaml && rendered rare.yaml &&
    grep -qF "rate(node_infiniband_symbol_error_total[4m])" out/prometheus/rules/alerts.yml
'
test_expect 'a web address with a bad escape' 'refused "targets: {prometheus: {url: \"http://p/%%zz\"}}" ".*is no address of a web server"'
cat >sleep.yaml <<'EOF'
schema: stoker.spec/1
nodes:
  - {name: own, count: 2, gpus_per_node: 8, gpu: {model: H100}}
  - {name: cloud, count: 2, gpus_per_node: 8, gpu: {model: H100}, capacity: on_demand}
agent: {token_file: /etc/stoker/token, listen: 0.0.0.0}
targets:
  prometheus: {}
  slurm:
    partitions: [{name: p, nodes: [own, cloud], default: true}]
    power_save: {resume_program: /opt/start, suspend_program: /opt/stop}
EOF
cat >sleep_test.yml <<'EOF'
rule_files: [out/prometheus/rules/alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'up{job="stoker-agent",instance="own1:9400",machine="own1",group="own"}', values: "1x10 0x60"}
      - {series: 'stoker_gpu_processes{instance="own1:9400",gpu="0"}', values: "0x10 stale"}
      - {series: 'up{job="stoker-agent",instance="idle:9400",machine="idle",group="cloud",power_save="true"}', values: "1x10 0x60 1x10"}
      - {series: 'stoker_gpu_processes{instance="idle:9400",gpu="0"}', values: "1x4 0x6 stale"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="idle:9400",gpu="0"}', values: "40x10 stale"}
      - {series: 'up{job="stoker-agent",instance="new:9400",machine="new",group="cloud",power_save="true"}', values: "0x70"}
      - {series: 'up{job="stoker-agent",instance="busy:9400",machine="busy",group="cloud",power_save="true"}', values: "1x10 0x60"}
      - {series: 'stoker_gpu_processes{instance="busy:9400",gpu="0"}', values: "2x10 stale"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="busy:9400",gpu="0"}', values: "40x10 stale"}
    promql_expr_test:
      - expr: 'count by (alertname, instance) (ALERTS{alertstate="firing",alertname=~"MachineDown|GpuTelemetryAbsent"})'
        eval_time: 20m
        exp_samples:
          - {labels: '{alertname="MachineDown", instance="own1:9400"}', value: 1}
          - {labels: '{alertname="MachineDown", instance="busy:9400"}', value: 1}
          - {labels: '{alertname="GpuTelemetryAbsent", instance="busy:9400"}', value: 1}
EOF
test_expect 'machines that Slurm powers down: told by a label, spared while they sleep or start, alarmed when they had work' '
    rendered sleep.yaml && test "$(grep -c "power_save: .true" out/prometheus/prometheus.yml)" = 1 && promtool test rules sleep_test.yml &&
    sed "s/capacity: on_demand/capacity: owned/" sleep.yaml >own.yaml && rendered own.yaml &&
    ! grep -r power_save out/prometheus/rules out/prometheus/prometheus.yml
'
test_expect 'an agent on loopback that Prometheus should scrape is a warning with its place, an error with --strict' '
    sed "s/listen: 0.0.0.0/listen: 127.0.0.1/" sleep.yaml >loop.yaml && stoker render prometheus -f loop.yaml -o out2 2>err &&
    grep -q "^loop.yaml:5:[0-9]*: warning: Prometheus cannot scrape job .stoker-agent.: it listens on .127.0.0.1. only" err &&
    ! stoker render prometheus -f loop.yaml -o out2 --strict 2>/dev/null && stoker render prometheus -f sleep.yaml --strict -o out3 2>err && test ! -s err &&
    stoker spec example driving-h200 >one.yaml && stoker render prometheus -f one.yaml -o out4 --strict && grep -q "\"127.0.0.1:9400\"" out4/prometheus/prometheus.yml
'
# What vanished is missed until it is back or is no target any more: ten hours, and Prometheus forgets values after one.
cat >gone.yaml <<'EOF'
nodes:
  - {name: own, count: 4, gpus_per_node: 2, gpu: {model: H100}, cpu_cores: 8, memory: 64GB}
  - {name: cloud, count: 4, gpus_per_node: 2, gpu: {model: H100}, cpu_cores: 8, memory: 64GB, capacity: on_demand}
agent: {listen: 0.0.0.0, token_file: /etc/t}
alerts:
  quiet: {metric: custom, series: app_queue, how: absent, for: 90m}
targets:
  prometheus: {}
  slurm: {power_save: {resume_program: /opt/start, suspend_program: /opt/stop}}
EOF
cat >gone_test.yml <<'EOF'
rule_files: [out/prometheus/rules/alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: # one GPU of each machine is lost in the tenth minute, the other stays
      - {series: 'up{job="stoker-agent",instance="lost:9400",machine="lost",group="own"}', values: "1x700"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="lost:9400",group="own",gpu="0",UUID="a"}', values: "40x700"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="lost:9400",group="own",gpu="1",UUID="b"}', values: "40x10 stale _x590 40x100"}
      - {series: 'up{job="stoker-agent",instance="other:9400",machine="other",group="own"}', values: "1x700"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="other:9400",group="own",gpu="0",UUID="c"}', values: "40x700"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="other:9400",group="own",gpu="1",UUID="d"}', values: "40x10 stale"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="other:9400",group="own",gpu="1",UUID="new"}', values: "_x300 40x400"}
      - {series: 'up{job="stoker-agent",instance="removed:9400",machine="removed",group="own"}', values: "1x300 stale"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="removed:9400",group="own",gpu="0",UUID="e"}', values: "40x300 stale"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="removed:9400",group="own",gpu="1",UUID="f"}', values: "40x10 stale"}
      - {series: 'up{job="stoker-agent",instance="driver:9400",machine="driver",group="own"}', values: "1x700"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="driver:9400",group="own",gpu="0",UUID="g",DCGM_FI_DRIVER_VERSION="1"}', values: "40x10 stale"}
      - {series: 'DCGM_FI_DEV_GPU_TEMP{instance="driver:9400",group="own",gpu="0",UUID="g",DCGM_FI_DRIVER_VERSION="2"}', values: "_x11 40x690"}
      - {series: 'up{job="stoker-agent",instance="busy:9400",machine="busy",group="cloud",power_save="true"}', values: "1x10 0x590 1x100"}
      - {series: 'stoker_gpu_processes{instance="busy:9400",gpu="0"}', values: "2x10 stale"}
      - {series: 'app_queue{instance="lost:9400",queue="a"}', values: "7x10 stale _x590 7x100"}
    promql_expr_test:
      - expr: 'count by (alertname, instance) (ALERTS{alertstate="firing",alertname=~"MachineDown|GpuTelemetryAbsent|quiet"})'
        eval_time: 90m
        exp_samples:
          - {labels: '{alertname="GpuTelemetryAbsent", instance="lost:9400"}', value: 1}
          - {labels: '{alertname="GpuTelemetryAbsent", instance="other:9400"}', value: 1}
          - {labels: '{alertname="GpuTelemetryAbsent", instance="removed:9400"}', value: 1}
          - {labels: '{alertname="MachineDown", instance="busy:9400"}', value: 1}
      - expr: 'count by (alertname, instance) (ALERTS{alertstate="firing",alertname=~"MachineDown|GpuTelemetryAbsent|quiet"})'
        eval_time: 590m
        exp_samples:
          - {labels: '{alertname="GpuTelemetryAbsent", instance="lost:9400"}', value: 1}
          - {labels: '{alertname="MachineDown", instance="busy:9400"}', value: 1}
          - {labels: '{alertname="quiet", instance="lost:9400"}', value: 1}
      - expr: 'count by (alertname, instance) (ALERTS{alertstate="firing",alertname=~"MachineDown|GpuTelemetryAbsent|quiet"})'
        eval_time: 620m
EOF
test_expect 'what vanished is missed until it is back, replaced or removed; another driver is no loss' '
    rendered gone.yaml && promtool check rules out/prometheus/rules/alerts.yml && promtool test rules gone_test.yml && tests out
'
cat >pods.yaml <<'EOF'
schema: stoker.spec/1
site: {name: pods}
nodes: [{name: a, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 512GB}]
serve: {listen: 0.0.0.0, token_file: /etc/stoker/serve}
models: {m: {source: org/m, kind: embedding, component: s}}
components:
  s: {kind: serving, target: kubernetes, gpus: 1, replicas: 2, ports: [{name: http, port: 8003}]}
targets: {kubernetes: {stoker_image: r.example/stoker:1}, prometheus: {}}
EOF
test_expect 'a model server in pods is not scraped at its machine, where nothing listens' '
    rendered pods.yaml && ! grep -q "stoker-serve\|:8003" out/prometheus/prometheus.yml && grep -q "run in pods" out/prometheus/prometheus.yml &&
    sed "s/target: kubernetes/target: systemd/; s/kubernetes: {stoker_image.*:1}/systemd: {}/" pods.yaml >host.yaml && rendered host.yaml &&
    grep -q "job_name: stoker-serve" out/prometheus/prometheus.yml
'

cat >where.yaml <<'EOF'
schema: stoker.spec/1
site: {name: where}
nodes:
  - {name: m, count: 3, gpus_per_node: 8, gpu: {model: H200}, cpu_cores: 128, memory: 2TB}
serve: {listen: 0.0.0.0, token_file: /etc/stoker/serve.token}
agent: {enabled: false}
components:
  a: {kind: serving, target: systemd, gpus: 2, ports: [{name: http, port: 9003}]}
  b: {kind: serving, target: systemd, gpus: 8, ports: [{name: http, port: 9004}]}
models:
  e5: {source: org/e5, kind: embedding, component: a}
  bge: {source: org/bge, kind: embedding, component: b}
targets: {systemd: {}, prometheus: {}}
EOF
scraped() { # what the job of model servers asks, in a line
    sed -n '/job_name: stoker-serve/,/labels:/p' out/prometheus/prometheus.yml | sed -n 's/^          - "\(.*\)"$/\1/p' | tr '\n' ' '
}
test_expect 'a model server is scraped where it listens: on the machine of its unit, at its own port' '
    rendered where.yaml && test "$(scraped)" = "m2:9003 m1:9004 " || { scraped; exit 1; }
    sed "s/, ports: .*9003}\]//" where.yaml >own.yaml && rendered own.yaml && test "$(scraped)" = "m2:8003 m1:9004 " || { scraped; exit 1; }
    sed "s/, component: b//" own.yaml | sed "/^  b:/d; s/port: 8003/port: 9003/; s/gpus: 2/gpus: 2, ports: [{name: http, port: 9003}]/" >loose.yaml && rendered loose.yaml &&
    test "$(scraped)" = "m1:8003 m2:8003 m3:8003 m1:9003 " || { scraped; exit 1; }
'
test_expect 'a model server of compose is scraped at the port that is published; one of several has none' '
    sed "s/count: 3, //; s/systemd/compose/g; s/kind: serving,/&image: r.example\/s:1,/; s/gpus: 8/gpus: 1/" where.yaml >box.yaml &&
    stoker render all -f box.yaml -o box >/dev/null 2>err && ! grep "cannot scrape" err && rendered box.yaml && test "$(scraped)" = "127.0.0.1:9003 127.0.0.1:9004 " &&
    sed "/^  b:/d; /^  bge:/d; s/, ports: .*9003}\]//" box.yaml >plain.yaml && stoker render all -f plain.yaml -o plain >/dev/null && rendered plain.yaml &&
    grep -q "BIND_ADDRESS:-127.0.0.1}:8003:8003" plain/compose/compose.yaml && grep -q ":8002:8002" plain/compose/compose.yaml && test "$(scraped)" = "127.0.0.1:8003 " &&
    sed "s/gpus: 2/&, replicas: 2/" plain.yaml >several.yaml && stoker render all -f several.yaml -o several >/dev/null 2>err && rendered several.yaml &&
    grep -q "no port of .a. is published: 2 replicas" err && test -z "$(scraped)" && grep -q "no model server has an address" out/prometheus/prometheus.yml &&
    sed "s/, ports: .*}\]//" box.yaml >both.yaml && stoker render all -f both.yaml -o both >/dev/null 2>err && rendered both.yaml &&
    grep -q "no port of .a. is published: .b. has port 8003 or 8002" err && test -z "$(scraped)" && ! grep -q BIND_ADDRESS: both/compose/compose.yaml &&
    sed "s/gpus_per_node/count: 2, &/" plain.yaml >far.yaml && stoker render all -f far.yaml -o far >/dev/null 2>err && rendered far.yaml &&
    grep -q "Prometheus cannot scrape .a. from another machine: compose publishes it on 127.0.0.1 only" err && test "$(scraped)" = "m1:8003 "
'

test_done

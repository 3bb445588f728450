#!/bin/sh
# SPDX-License-Identifier: MIT
# stoker render doc: one well-formed page, with what the spec says and nothing that runs.
. "$(dirname "$0")/lib.sh"

cat > page.py <<'PY'
"""page.py FILE TEXT...: the page nests well, its rows are as long as their heads, it loads nothing, and shows each text as text."""
import html.parser
import sys

VOID = {"meta", "rect", "line", "path", "br"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.bad = [], [], []
        self.cells, self.wide = 0, None  # of this row, of its table

    def handle_starttag(self, tag, attrs):
        if tag == "script" or any(k.startswith("on") or (k in ("src", "href") and not v.startswith("#")) for k, v in attrs):
            self.bad.append(f"<{tag} {attrs}>")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.wide = None
        self.cells = 0 if tag == "tr" else self.cells + (tag in ("td", "th"))

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}>")
        if tag == "tr" and (self.wide or self.cells) != self.cells:
            self.bad.append(f"a row of {self.cells} cells in a table of {self.wide}")
        self.wide = self.wide or self.cells if tag == "tr" else self.wide

    def handle_data(self, data):
        self.text.append(data)


page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
page.close()
text = "\n".join(page.text)
missing = [t for t in sys.argv[2:] if t not in text]
if page.open or page.bad or missing:
    sys.exit(f"open {page.open}, bad {page.bad}, missing {missing}")
PY

for e in ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift; do
    test_expect "$e: a well-formed page with all five layers" '
        stoker spec example $e >$e.yaml && stoker render doc -f $e.yaml -o $e &&
        python3 page.py $e/doc/index.html interfaces scheduling orchestration "network and storage" compute
    '
done
test_expect 'each GPU with the component that has it' '
    python3 page.py ai-platform-h200/doc/index.html "0 world_model" "4 rl_engine" "7 agent_registry"
'
test_expect 'where a scheduler places them, groups name who asks for their GPUs: services are not called queued work' '
    cat >who.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: h, count: 4, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 64, memory: 1TB}
  - {name: l, count: 3, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 64, memory: 1TB}
  - {name: m, gpus_per_node: 1, gpu: {model: A100-PCIe-80GB, sharing: mig, mig_profile: 1g.10gb}, cpu_cores: 64, memory: 1TB}
  - {name: x, gpus_per_node: 1, gpu: {model: L4}, cpu_cores: 64, memory: 1TB}
  - {name: c, count: 20, gpus_per_node: 1, gpu: {model: L4}, cpu_cores: 8, memory: 64GB}
components:
  train: {kind: training, target: kubernetes, nodes: h, gpus: 8, nodes_per_replica: 2, queued: true, image: r.org/t:1, command: [t]}
  chat: {target: kubernetes, nodes: l, gpus: 1, replicas: 6, image: r.org/c:1, command: [c]}
  part: {target: kubernetes, nodes: m, gpus: 1, replicas: 3, image: r.org/p:1, command: [p]}
  host: {target: systemd, nodes: c, gpus: 1, replicas: 18, command: [/bin/h]}
targets: {kubernetes: {version: "1.31"}, systemd: {}}
END
    stoker render doc -f who.yaml -o who 2>/dev/null && python3 page.py who/doc/index.html "4 machines: train (16 GPUs, queued)" "3 machines: chat (6 of 12 GPUs)" \
        "1 machine: part (3 of 7 MIG instances)" "1 machine, of no component" "2 more machines in use, not shown" "2 more machines, of no component" "3 MIG"
'
test_expect 'the commands of its targets' '
    python3 page.py llm-cluster/doc/index.html "scontrol reconfigure" "kubectl diff"
'
# commands TARGET: those of the page and those of docs/user/deploying.md, without folder, prompt and comments
cat > commands.py <<'PY'
import html
import re
import sys

target, page, text = sys.argv[1], open(sys.argv[2]).read(), open(sys.argv[3]).read()
ours = html.unescape(re.search(rf"<h3>{target}</h3>\s*<pre>(.*?)</pre>", re.sub("</?code>", "", page), re.S)[1])
theirs = re.search(rf"^## {target}$.*?^```console$(.*?)^```$", text, re.S | re.M)[1]
ours, theirs = ([re.sub(r"\s+#.*", "", re.sub(r"^[$#] ", "", w)).replace("out/", "") for w in t.strip().splitlines()] for t in (ours, theirs))
if ours != theirs:
    sys.exit(f"the page has\n{ours}\nand DEPLOYING\n{theirs}")
PY
for t in kubernetes:llm-cluster openshift:rdma-openshift; do
    test_expect "the page has the commands of DEPLOYING.md for ${t%:*}" '
        python3 commands.py ${t%:*} ${t#*:}/doc/index.html "$TOP/docs/user/deploying.md"
    '
done
test_expect 'the check of the page can fail' '! python3 page.py llm-cluster/doc/index.html "no such words"'

cat > hostile.yaml <<'Y'
schema: stoker.spec/1
site: {name: hostile, description: "<script>alert(1)</script> & \"quotes\"", owner: "</p><img src=x onerror=y>"}
nodes: [{name: gpu, count: 2, gpus_per_node: 8, gpu: {model: H100}}]
components:
  a: {gpus: 1, nodes: gpu, description: "</td></table><b>", command: [x]}
Y
test_expect 'hostile texts stay texts' '
    stoker render doc -f hostile.yaml -o hostile &&
    python3 page.py hostile/doc/index.html "<script>alert(1)</script> & \"quotes\"" "</p><img src=x onerror=y>" "</td></table><b>"
'
cat >money.yaml <<'END'
schema: stoker.spec/1
nodes:
  - {name: one, gpus_per_node: 8, gpu: {model: H100}}
  - {name: desk, role: login}
components:
  train: {kind: training, nodes: one, gpus: 8, command: [x]}
budgets: {month: $1000/mo}
END
# words FILE: the page as text
words() { python3 -c 'import html,re,sys; print(re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", " ", open(sys.argv[1]).read()))))' "$1"; }
test_expect 'money that the spec does not say is unknown, not 0, in parts, sums and shares of a budget' '
    stoker render doc -f money.yaml -o money && words money/doc/index.html >w && grep -q "What the site costs is unknown" w &&
    grep -q "what share the machines take is unknown" w && ! grep -q "[$]0 a month" w &&
    sed "s/model: H100}}/model: H100}, capex: \$200000}/" money.yaml >capex.yaml && stoker render doc -f capex.yaml -o capex && words capex/doc/index.html >w &&
    grep -q "one 1 - [0-9]* unknown - unknown" w && grep -q "What the site costs is unknown" w &&
    sed "s/model: H100}}/model: H100}, price: \$10\/h}/" money.yaml >price.yaml && stoker render doc -f price.yaml -o price && words price/doc/index.html >w &&
    grep -q "one 1 7300 - - - 7300" w && grep -q "At least [$]7300 a month" w
'
test_expect 'counts of one are singular; the ways to run it are compared by the numbers of the site' '
    words money/doc/index.html >w && ! grep -qE "(^|[^0-9])1 (machines|GPUs|jobs|services)\b" w && grep -q "login, 1 machine " w &&
    grep -q "1 job (training and batch) asks for 8 GPUs of 8 and queues for them; the largest, train, starts on 1 machine at once" w &&
    grep -q "not for 2 machines" w && stoker spec example llm-cluster >llm.yaml && stoker render doc -f llm.yaml -o llm && words llm/doc/index.html >w &&
    grep -q "train-175b needs a gang of 64 machines" w && grep -q "6 jobs (training and batch) ask for [0-9]* GPUs of 576" w
'
test_expect 'a budget that known prices exceed is told; MIG instances are no GPUs; the commands do what they say' '
    cat >mig.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: m, gpus_per_node: 2, gpu: {model: H100, memory: 80GB, sharing: mig, mig_profile: 1g.10gb}, price: \$10/h}
  - {name: g, gpus_per_node: 4, gpu: {model: H100}}
components:
  a: {kind: training, target: slurm, nodes: m, gpus: 2, command: [x], nodes_per_replica: 1, queued: true}
  b: {kind: training, nodes: g, gpus: 2, command: [x]}
budgets: {month: \$3650/mo}
targets: {slurm: {cluster: x}, grafana: {}, prometheus: {}}
END
    stoker render all -f mig.yaml -o mig >/dev/null 2>&1; stoker render doc -f mig.yaml -o mig && words mig/doc/index.html >w &&
    grep -q "at least 200 % of which the machines take" w && grep -q "ask for 2 GPUs of 6 and 2 MIG instances" w &&
    ! grep -q "is the line" w && ! grep -q "restart slurmdbd slurmctld" w && grep -q "check config --syntax-only" w &&
    at=$(stoker render grafana -f mig.yaml -o graf >/dev/null 2>&1; sed -n "s/^ *path: *\([^ ]*\).*/\1/p" graf/grafana/provisioning/dashboards.yml) &&
    test -n "$at" && grep -q -- "-t $at grafana/dashboards" w && grep -q "provisioning/datasources.yml" w
'
cat >sums.yaml <<'END'
site: {name: s, labels: {team: x, example.org/team: y}}
nodes:
  - {name: spot, capacity: spot, gpus_per_node: 8, gpu: {model: H100}}
  - {name: kept, capacity: reserved, gpus_per_node: 8, gpu: {model: H100}}
  - {name: own, gpus_per_node: 8, gpu: {model: H100}, capex: $262800, power: 10000}
agent: {listen: 0.0.0.0, token_file: /t}
prices: {gpu_hour: $2/h, spot_discount: 75%, reserved_discount: 50%, energy_per_kwh: $0.1, pue: 1.5, years: 3, colo_per_kw: $73/mo}
END
test_expect 'what spot and reservations save, and what bought machines cost, is in the sums; labels of the site are on all, or told of' '
    stoker render prometheus doc -f sums.yaml -o sums 2>err && cat err && f=sums/prometheus/rules/recording.yml && grep cost -A1 $f &&
    grep -q "4 \* sum by (group) (max_over_time(up{job=.*group=.*spot" $f && grep -q "or 8 \* count by (group) (last_over_time(up{job=.*kept" $f &&
    grep -q "or 12.5 \* count" $f && grep -q "^    team: x" sums/prometheus/prometheus.yml &&
    grep -q "sums.yaml:1:[0-9]*: warning: Prometheus takes no label .example.org/team." err &&
    grep -q "<td>own</td>.*>9125</td><td>" sums/doc/index.html
'
test_expect 'where all components are jobs of Slurm the site is not told to be a hybrid with nothing to divide' '
    stoker spec example llm-cluster >llm.yaml && stoker render doc -f llm.yaml -o llm >/dev/null 2>&1 && grep "this site</td>" llm/doc/index.html | grep -q "HPC: Slurm"'
test_done

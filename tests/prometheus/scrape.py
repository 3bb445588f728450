# SPDX-License-Identifier: MIT
"""TAP of agents that a real Prometheus scrapes: scrape.py STOKER FAKE-NVML, in an empty folder (scrape.t).
Standard library alone."""
import csv
import json
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import agent_box
from agent_box import wait
from prom_box import Program
from serve_test import STOKER, check, done, part, run, skip

FAKE = sys.argv[2]
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = TOP / "tests/prometheus/dashboard-12239.tsv"
LINT = TOP / "tests/golden/prom_export/lint-names.txt"
SCRAPES = 12  # of each target, before anything is asked
NAMES = ("old", "new", "both")
FAULTY = 3  # the GPU whose memory fails


# ---- what is asked for

def rows():
    return [line.split("\t") for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def rows_of(path):
    """The same of the dashboard itself."""
    d = json.loads(pathlib.Path(path).read_text())
    out = [["variable", v["name"], v["query"]] for v in d["templating"]["list"] if v["type"] == "query"]
    return out + [["range" if p["type"] == "graph" else "last", p["title"], t["expr"]]
                  for p in d["panels"] for t in p.get("targets", [])]


def telemetry():
    with open(TOP / "data/telemetry.csv", newline="") as f:
        return list(csv.DictReader(f))


def renamed():
    """DCGM's names before 4.6 to those since."""
    return {r["dcgm"]: r["dcgm46"] for r in telemetry() if r["dcgm"] and r["dcgm46"]}


def since46(expr):
    names = renamed()
    return re.sub(r"DCGM_\w+", lambda m: names.get(m[0], m[0]), expr)


def chosen(values):
    """A variable's values as Grafana puts them into a Prometheus query: escaped, several as (a|b)."""
    escaped = [re.sub(r"[\\^$*+?.()|{}\[\]]", lambda m: "\\\\" + m[0], v) for v in values]
    return escaped[0] if len(escaped) == 1 else "(" + "|".join(escaped) + ")"


def filled(expr, variables):
    for name, values in variables.items():
        expr = expr.replace("$" + name, chosen(values))
    return expr


# ---- the programs

def alertmanager():
    name = next((n for n in ("prometheus-alertmanager", "alertmanager") if shutil.which(n)), None)
    if not name:
        return None
    pathlib.Path("manager.yml").write_text("route: {receiver: none, group_wait: 1s, group_interval: 1s}\nreceivers: [{name: none}]\n")
    return Program(name, "/-/ready", "--config.file=manager.yml", "--storage.path=manager", "--cluster.listen-address=")


def prometheus(targets, manager):
    """targets: name to an agent."""
    jobs = "".join(f"  - job_name: {n}\n    static_configs: [{{targets: ['127.0.0.1:{a.metrics_port}']}}]\n" for n, a in targets.items())
    alerting = f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{manager.port}']}}]}}]}}\n" if manager else ""
    pathlib.Path("prometheus.yml").write_text("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
                                              f"{alerting}rule_files: [rules.yml]\nscrape_configs:\n{jobs}")
    return Program("prometheus", "/-/ready", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb")


class Data:
    """What Prometheus has by now."""

    def __init__(self, p):
        self.p, self.to = p, time.time()
        self.since = self.to - SCRAPES

    def last(self, expr):
        return self.p.ask("/api/v1/query", query=expr, time=self.to)

    def range(self, expr):
        return self.p.ask("/api/v1/query_range", query=expr, start=self.since, end=self.to, step=1)

    def labels(self, metric, label):
        return self.p.ask(f"/api/v1/label/{label}/values", **{"match[]": metric})["data"]


def points(reply):
    """Series of a reply that have a finite value."""
    if reply.get("status") != "success":
        return []
    series = reply["data"]["result"]
    return [s for s in series if any(math.isfinite(float(v)) for _, v in s.get("values", [s.get("value")]))]


# ---- the parts

def listed():
    path = os.environ.get("DASHBOARD")
    if not path:
        skip("our list of queries is the dashboard's", "DASHBOARD names no JSON of dashboard 12239")
        return
    check("our list of queries is the dashboard's", rows() == rows_of(path), rows(), rows_of(path))


def variables_of(d, instance, rename=False):
    out = {}
    for kind, name, query in rows():
        if kind == "variable":
            metric, label = re.fullmatch(r"label_values\((\w+), *(\w+)\)", query).groups()
            out[name] = d.labels((since46(metric) if rename else metric) + f'{{instance="{instance}"}}', label)
    return out


def shown(a, d, metric):
    """GPUs of which the agent itself has this metric in the time asked for."""
    ids = {r["dcgm"]: r["id"] for r in telemetry()}
    reply = a.ask(f"/api/v1/query?metric={ids[metric]}&from={d.since:.3f}&to={d.to:.3f}&step=1")[1]
    return {s["labels"]["gpu"] for s in reply["series"] if any(v is not None for v in s["mean"])}


def panels(d, what, a, rename=False):
    """Every panel, for all values of the variables and for one."""
    instance = f"127.0.0.1:{a.metrics_port}"
    variables = variables_of(d, instance, rename)
    gpus = set(variables.get("gpu", []))
    check(f"{what}: the dashboard's variables have values", variables.get("instance") == [instance] and gpus and gpus >= shown(a, d, "DCGM_FI_DEV_GPU_TEMP"), variables)
    for kind, title, expr in rows():
        if kind == "variable":
            continue
        ask, q = d.range if kind == "range" else d.last, since46(expr) if rename else expr
        whole = filled(q, variables)
        want = sorted(shown(a, d, re.search(r"DCGM_\w+", expr)[0]) & gpus)
        got = points(ask(whole))
        one = points(d.range(filled(q, {**variables, "gpu": want[:1]})))
        found = sorted(s["metric"].get("gpu", "all") for s in got)
        check(f"{what}: '{title}' has data, {len(want)} GPUs", want and found == (want if kind == "range" else ["all"]) and len(one) == 1,
              whole, want, found, one, d.p.ask("/api/v1/query", query=whole))


def dashboard(d, agents):
    inst = {n: f"127.0.0.1:{a.metrics_port}" for n, a in agents.items()}
    panels(d, "names before 4.6", agents["old"])
    panels(d, "names since 4.6", agents["new"], rename=True)
    panels(d, "both", agents["both"])
    panels(d, "both, names since 4.6", agents["both"], rename=True)
    moved = [(o, n) for o, n in renamed().items() if o != n and points(d.last(f'{o}{{instance="{inst["both"]}"}}'))]
    check("names that changed are there", len(moved) >= 10, moved)
    wrong = [o for o, _ in moved if points(d.last(f'{o}{{instance="{inst["new"]}"}}'))] + \
            [n for _, n in moved if points(d.last(f'{n}{{instance="{inst["old"]}"}}'))]
    check("a name of the other kind is not", not wrong, wrong)
    unlike = [(o, n) for o, n in moved if points(d.last(f'{o}{{instance="{inst["both"]}"}} - on (gpu) {n}{{instance="{inst["both"]}"}} != 0'))]
    check("both names of a field have one value", not unlike, unlike)


def scraped(d, agents):
    up = {s["metric"]["job"]: s["value"][1] for s in d.last("up")["data"]["result"]}
    check("Prometheus reaches every agent", up and all(v == "1" for v in up.values()), up, d.p.words())
    with urllib.request.urlopen(d.p.url + "/metrics", timeout=30) as r:
        own = r.read().decode()
    bad = [line for line in own.splitlines() if re.match(r"prometheus_target_scrapes_(sample_\w+|exceeded\w+|cache\w+)_total [1-9]", line)]
    check("and takes every sample", not bad, bad)
    a, api = agents["old"], "gpu.power"
    have = a.ask(f"/api/v1/query?metric={api}&from={d.since - 5:.3f}&to={d.to + 2:.3f}&step=1&label.gpu=0")[1]["series"][0]["mean"]
    got = points(d.range(f'DCGM_FI_DEV_POWER_USAGE{{instance="127.0.0.1:{a.metrics_port}",gpu="0"}}'))
    values = [float(v) for _, v in got[0]["values"]] if got else []
    near = lambda x: any(y is not None and math.isclose(x, y, rel_tol=1e-4) for y in have)  # noqa: E731: the API has five digits
    check("what Prometheus stored is what the agent kept", len(values) >= SCRAPES // 2 and all(map(near, values)), values, have)


def linted(agents):
    known = set(LINT.read_text().split())
    for name, a in agents.items():
        p = subprocess.run(["promtool", "check", "metrics"], input=a.metrics(), capture_output=True, text=True)
        said = (p.stdout + p.stderr).splitlines()
        # 3: it parses, and the linter has complaints
        check(f"{name}: promtool parses the text and complains of no name but DCGM's and node_exporter's",
              p.returncode in (0, 3) and not [s for s in said if s.split()[0] not in known], *[s for s in said if s.split()[0] not in known][:9])


def rules():
    for names in NAMES:
        p = run("agent", "--print-rules", "--metric-names", names)
        pathlib.Path(f"{names}.yml").write_text(p.stdout)
        q = subprocess.run(["promtool", "check", "rules", f"{names}.yml"], capture_output=True, text=True)
        check(f"--print-rules with names '{names}': promtool takes them", p.returncode == 0 and q.returncode == 0, p.stderr, q.stdout, q.stderr)
    pathlib.Path("rules.yml").write_bytes(pathlib.Path("old.yml").read_bytes())
    shutil.copy(TOP / "tests/prometheus/alerts_test.yml", "alerts_test.yml")
    q = subprocess.run(["promtool", "test", "rules", "alerts_test.yml"], capture_output=True, text=True)
    check("the rules fire in Prometheus as in the agent", q.returncode == 0, q.stdout, q.stderr)


def evaluated(p):
    groups = p.ask("/api/v1/rules")["data"]["groups"]
    every = [r for g in groups for r in g["rules"]]
    bad = [(r["name"], r.get("lastError")) for r in every if r["health"] != "ok"]
    check("Prometheus evaluates every rule without an error", len(every) > 50 and not bad, bad)


def faulty(manager):
    """A live agent on a fake driver, one GPU of which has an uncorrected error; its recording."""
    doc = json.loads((TOP / "tests/fakenvml/dgx-h100.json").read_text())
    doc["gpus"][FAULTY]["ecc_dbe_volatile"] = 2
    pathlib.Path("faulty.json").write_text(json.dumps(doc))
    spec = ["-f", "notify.yml"] if manager else []
    pathlib.Path("notify.yml").write_text(f"notify: {{alertmanager: '{manager.url if manager else ''}', log: false}}\n")
    return agent_box.Agent(STOKER, "--no-history", "--record", "faulty.rec", *spec,
                           env=dict(FAKE_NVML_JSON="faulty.json", STOKER_NVML_LIB=FAKE))


def reached(manager, wanted):
    """The alert in Alertmanager that has these labels; None: it has not come."""
    def look():
        found.extend(a for a in manager.ask("/api/v2/alerts") if isinstance(a, dict) and all(a["labels"].get(k) == v for k, v in wanted.items()))
        return bool(found)
    found = []
    wait(look, 60)
    return found[0] if found else None


def alerts(manager, replayed):
    if not manager:
        skip("an alert reaches Alertmanager", "Alertmanager is not here: tools/setup prometheus")
        return
    wanted = {"alertname": "GpuEccDoubleBit", "gpu": str(FAULTY), "severity": "critical"}
    a = reached(manager, {**wanted, "hostname": socket.gethostname()})
    check("a fault of a fake driver reaches Alertmanager from the agent", a and a["status"]["state"] == "active" and "GPU 3" in a["annotations"]["summary"],
          a, manager.ask("/api/v2/alerts"), manager.words())
    b = reached(manager, {**wanted, "instance": f"127.0.0.1:{replayed.metrics_port}"})
    check("and, replayed, from Prometheus by our rules", b and b["status"]["state"] == "active" and b["annotations"]["summary"] == a["annotations"]["summary"],
          b, a, manager.ask("/api/v2/alerts"))
    check("both say the same of it", a and b and a["labels"].get("UUID") == b["labels"].get("UUID"), a, b)


def main():
    part(listed)
    part(rules)
    manager = alertmanager()
    live = faulty(manager)
    check("an agent on a fake driver", wait(lambda: f'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="{FAULTY}"' in live.metrics(), 60), live.text, live.metrics()[:600])
    time.sleep(5)
    shutil.copy("faulty.rec", "fault.rec")  # so far: a recording that was cut off plays as far as it is whole
    source = ["--replay", os.environ["RECORDING"]] if os.environ.get("RECORDING") else ["--demo"]
    agents = {n: agent_box.Agent(STOKER, *source, "--metric-names", n) for n in NAMES}
    replayed = agent_box.Agent(STOKER, "--replay", "fault.rec")
    p = prometheus({**agents, "fault": replayed}, manager)
    check("Prometheus is there", p.up, p.words())
    slow = 'min(count_over_time(up[10m]))'
    wait(lambda: float((p.ask("/api/v1/query", query=slow)["data"]["result"] or [{"value": [0, "0"]}])[0]["value"][1]) > SCRAPES, 120)
    d = Data(p)
    part(scraped, d, agents)
    part(dashboard, d, agents)
    part(linted, {**agents, "fake driver": live})
    part(evaluated, p)
    part(alerts, manager, replayed)
    for x in (*agents.values(), replayed, live):
        x.stop()
    p.end()
    if manager:
        manager.end()
    done()


main()

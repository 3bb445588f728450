# SPDX-License-Identifier: MIT
"""TAP of the dashboards and rules before a real Prometheus: render_grafana.py STOKER
FAKE-NVML MACHINE.tar, in an empty folder with a model (render_grafana.t).  Standard library alone."""
import json
import math
import os
import pathlib
import re
import sys
import tarfile
import time

import agent_box
from serve_box import free_ports, wait
from prom_box import Program
from serve_test import STOKER, Server, check, done, part, run

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE, CAPTURED = sys.argv[2:4]
SCRAPES = 15  # of each target, before anything is asked
DASHBOARDS = ("node", "fleet", "serving")

SPEC = """schema: stoker.spec/1
site: {{name: proof}}
nodes:
  - {{name: demo, hosts: "127.0.0.[1-4]", count: 4, gpus_per_node: 8, gpu: {{model: H200}}, price: $36/h}}
models:
  bert: {{source: {model}, kind: embedding, device: cpu}}
agent: {{metrics_port: {metrics}}}
serve: {{port: {serve}, rerank_port: {rerank}, cache: 1MiB}}
alerts:
  dear: {{metric: cost_per_day, warn: $5000}}
  dearer: {{metric: cost_per_task_rise, warn: 15%}}
  waits: {{metric: queue_age, warn: 100ms}}
  fails: {{metric: error_rate, warn: 1%}}
  full: {{metric: pool_used, warn: 90%}}
  slow: {{metric: latency_p99, warn: 50ms}}
  busy: {{metric: cpu_utilization, warn: 90%, nodes: [demo]}}
  hot: {{metric: gpu_temperature, warn: 80C, critical: 85C, clear: 75C}}
  errors: {{metric: nvlink_errors, warn: 0}}
notify: {{webhook: "http://127.0.0.1:9/hook", command: [/bin/true]}}
targets:
  prometheus: {{scrape_interval: 1s, evaluation_interval: 1s}}
  grafana: {{folder: proof}}
"""

PORT_COUNTERS = [f"counters/{n}" for n in (
    "port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets", "port_xmit_wait", "link_downed", "link_error_recovery", "symbol_error",
    "port_rcv_errors", "port_xmit_discards", "excessive_buffer_overrun_errors", "local_link_integrity_errors")] + [
    f"hw_counters/{n}" for n in ("local_ack_timeout_err", "roce_slow_restart")]

# What none of the machines can have, with the reason; who has data all the same is taken off the
# list.  Queries by dashboard, panel and letter; metrics of alert rules by their pattern.
NO_DATA = {}
NO_METRIC = {k: why for k, why, kind in (("node_mountstats_nfs_.*", "nothing is mounted from an NFS server", "nfs"),
                                         ("stoker_lustre_.*", "no Lustre file system is mounted", "lustre"))
             if f" {kind}" not in pathlib.Path("/proc/mounts").read_text()}
NO_METRIC.update({"stoker_kernel_faults_total": "the kernel has told of no fault of the hardware",
                  "stoker_driver_call_hung_seconds": "no call of the driver hangs",
                  "stoker_nvswitch_sxid_errors_total": "no NVSwitch has told of an error"})


class Prometheus(Program):
    def __init__(self, config):
        super().__init__("prometheus", "/-/ready", f"--config.file={config}", "--storage.tsdb.path=tsdb")

    def points(self, expr):
        """Finite values of an expression now; None: it is none."""
        reply = self.ask("/api/v1/query", query=expr)
        if reply["status"] != "success":
            return None
        return [s for s in reply["data"]["result"] if math.isfinite(float(s["value"][1]))]


def filled(expr):
    """As Grafana fills it: everything chosen, a rate over a minute."""
    return re.sub(r"\$(group|instance|gpu|model)\b", ".*", expr.replace("$__rate_interval", "1m"))


def pages():
    return {n: json.loads(pathlib.Path(f"out/grafana/dashboards/{n}.json").read_text()) for n in DASHBOARDS}


def queries():
    for name, page in pages().items():
        for panel in page["panels"]:
            for t in panel.get("targets", []):
                yield f"{name}: {panel['title']}, {t['refId']}", t["expr"]


def traffic(server, words):
    for i in range(6):
        server.ask("/embed", {"inputs": [f"{words} {' and' * i}", "hello world"]})
        server.ask("/embed", {"inputs": "hello world"})
        server.ask("/embed", {"inputs": 7})
        time.sleep(0.2)


def looked(p):
    """Queries without data, those that are no PromQL, those that have data against what is named, names that are of none."""
    known = dict(NO_DATA)
    empty, wrong, surprising = [], [], []
    for what, expr in queries():
        points = p.points(filled(expr))
        if points is None:
            wrong.append((what, filled(expr)))
        elif what in known:
            surprising += [what] if points else []
            del known[what]
        elif not points:
            empty.append((what, filled(expr)))
    return empty, wrong, surprising, known


def settled(what, good):
    """What it says once that is good, or after two minutes: a scrape that comes too late on a busy machine leaves a gap, which closes."""
    end = time.monotonic() + 120
    while not good(said := what()) and time.monotonic() < end:
        time.sleep(0.2)
    return said


def asked(p, server):
    """A rate wants requests of the last minute, which a busy machine may have spent: they are made again."""
    empty, wrong, surprising, known = settled(lambda: looked(p), lambda said: not said[0] or traffic(server, "again"))
    check("every query of every dashboard is PromQL", not wrong, *wrong)
    check("every one has data, but those that are named with a reason", not empty, *empty)
    check("and none of those has", not surprising, *surprising)
    check("all that are named exist", not known, *known)


def without_values(p):
    bad = []
    for name, page in pages().items():
        for v in page["templating"]["list"]:
            if v["type"] != "query":
                continue
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", filled(v["query"]["query"])).groups()
            values = p.ask(f"/api/v1/label/{label}/values", **{"match[]": metric}).get("data")
            if not values:
                bad.append((name, v["name"], metric))
    return bad


def variables(p):
    bad = settled(lambda: without_values(p), lambda bad: not bad)
    check("every variable of every dashboard has values", not bad, *bad)


def evaluated(p):
    """All rules, those that failed, those that record nothing."""
    every = [r for g in p.ask("/api/v1/rules")["data"]["groups"] for r in g["rules"]]
    bad = [(r["name"], r.get("lastError")) for r in every if r["health"] != "ok"]
    return every, bad, {r["name"] for r in every if r["type"] == "recording" and not p.points(r["name"])} - {"model:requests:rate5m"}


def rules(p):
    every, bad, empty = settled(lambda: evaluated(p), lambda said: not said[1] and not said[2])
    check("Prometheus evaluates every rule without an error", len(every) > 80 and not bad, len(every), *bad)
    check("every recording rule has data", not empty, *empty)
    return [r for r in every if r["type"] == "alerting"]


WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\b(?:by|on|ignoring|without) *\([^)]*\)')
FUNCTIONS = {"rate", "increase", "avg_over_time", "last_over_time", "max_over_time", "min_over_time", "max", "min", "and", "or", "unless", "offset", "histogram_quantile", "sum", "count",
             "vector", "up", "ALERTS", "by", "on", "ignoring", "without"}


def metrics_of(expr):
    """Names of metrics in an expression: what is neither a string, a range nor a function."""
    text = re.sub(r"\{[^}]*\}", "", WORDS.sub("", expr))
    return {w for w in re.findall(r"[A-Za-z_:][A-Za-z0-9_:]*", text) if w not in FUNCTIONS and not re.fullmatch(r"[smhd](\d+[smhd])*|e\d*", w)}


def unknown(alerts, there):
    """Rules that ask for a metric that is not there and has no reason not to be."""
    out = []
    for r in alerts:
        for m in metrics_of(r["query"]):
            if m not in there and not any(re.fullmatch(k, m) for k in NO_METRIC):
                out.append((r["name"], m))
    return out


def alerts(p, every):
    there = set(p.ask("/api/v1/label/__name__/values")["data"])
    gone = unknown(every, there)
    check("every alert's metrics are there, but those that are named with a reason", every and not gone, *gone)
    used = {m for r in every for m in metrics_of(r["query"])}
    surprising = [k for k in NO_METRIC if any(re.fullmatch(k, m) for m in there & used)]
    check("and none of those is", not surprising, *surprising)
    idle = [k for k in NO_METRIC if not any(re.fullmatch(k, m) for m in used)]
    check("all that are named are asked for", not idle, *idle)
    spoiled = [dict(r, query=r["query"].replace("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UITL")) for r in every if r["name"] == "GpuUnderused"]
    check("a metric that does not exist is caught", unknown(spoiled, there), spoiled[0]["query"])
    what, expr = next((w, e) for w, e in queries() if "DCGM_FI_DEV_GPU_TEMP{" in e)
    check("in a dashboard too", wait(lambda: p.points(filled(expr))) and not p.points(filled(expr).replace("GPU_TEMP", "GPU_TMEP")), what)


def put(path, text):
    p = pathlib.Path(path)
    p.parent.mkdir(parents=True, exist_ok=True)
    p.write_text(text)


def machines(metrics, server):
    """A replayed node, a live one with a fake driver, a job and a fault, and one with RDMA ports as
    it was captured; the fourth of the spec is not there."""
    doc = json.loads((TOP / "tests/fakenvml/dgx-h100.json").read_text())
    doc["gpus"][3]["ecc_dbe_volatile"] = 2
    put("faulty.json", json.dumps(doc))
    put("run/stoker/jobs/llama.json", json.dumps(dict(schema="stoker.job/1", job="llama", user="alice", updated=time.time(), step=7, steps=100, loss=2.5,
                                                      mfu=0.4, tokens_per_second=1000, checkpoint_step=5, checkpoint_time=time.time(), gpus=[0, 1])))
    put("live.json", json.dumps({"gpus": [{"index": i, "links": 2, "link_fields": {"138": 1000, "161": 0, "162": 0, "163": 0, "165": 1}} for i in range(8)]}))
    with tarfile.open(CAPTURED) as t:
        t.extractall("captured")
    with open("captured/proc/meminfo", "a") as f:
        f.write("HardwareCorrupted:     0 kB\n")  # some kernels do not have it
    for name in PORT_COUNTERS:
        put(f"captured/sys/class/infiniband/mlx5_0/ports/1/{name}", "0\n")
    env = dict(FAKE_NVML_JSON="faulty.json", FAKE_NVML_LIVE="live.json", STOKER_NVML_LIB=FAKE, FAKE_NVML_FAULT="xid:2:79:1", XDG_RUNTIME_DIR=os.path.abspath("run"))
    live = ["--history", "ring", "--serve", f"http://127.0.0.1:{server.port}", "--scrape", f"http://127.0.0.1:{server.port}/metrics"]
    return [agent_box.Agent(STOKER, "--demo", "--listen", "127.0.0.1", ports=(0, metrics)),
            agent_box.Agent(STOKER, *live, "--listen", "127.0.0.2", ports=(0, metrics), env=env),
            agent_box.Agent(STOKER, "--root", "captured", "--no-gpu", "--no-history", "--listen", "127.0.0.3", ports=(0, metrics))]


def need(what, ok, *why):
    """Nothing that follows says anything without it."""
    check(what, ok, *why)
    if not ok:
        done()


def main():
    metrics, serve, rerank = free_ports(3)
    pathlib.Path("stoker.yaml").write_text(SPEC.format(model=os.path.abspath("bert"), metrics=metrics, serve=serve, rerank=rerank))
    r = run("render", "prometheus", "grafana", "-f", "stoker.yaml", "-o", "out")
    need("the spec is rendered", r.returncode == 0, r.stdout, r.stderr)
    server = Server("-f", "stoker.yaml", port=serve)
    need("a model server is there", server.port == serve, server.text)
    nodes = machines(metrics, server)
    need("agents are there", all(a.metrics_port == metrics for a in nodes), *[a.text for a in nodes])
    p = Prometheus("out/prometheus/prometheus.yml")
    need("Prometheus takes the rendered configuration", p.up, p.words())
    traffic(server, "before")

    def scraped():
        got = p.points('sum_over_time(up{job=~"stoker-.*"}[10m]) and up{job=~"stoker-.*"} == 1') or []
        return len(got) == 4 and all(float(s["value"][1]) > SCRAPES for s in got)
    need("it scrapes the agents and the server", wait(scraped, 240), p.ask("/api/v1/query", query="up"), p.words())
    traffic(server, "after")
    time.sleep(4)
    part(variables, p)
    every = rules(p)
    part(asked, p, server)
    part(alerts, p, every)
    for a in nodes:
        a.stop()
    server.stop()
    p.p.terminate()
    p.p.wait(30)
    done()


main()

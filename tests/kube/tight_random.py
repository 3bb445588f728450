#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TAP: does `stoker spec check` tell whether a full site schedules?  tight_random.py STOKER [SEEDS [WORKERS]], in an
empty folder; SEEDS is 1-60 or 7,9,30-40.

A seed makes a random site (tight_site.py).  `spec check` refuses it, warns of the order in which pods arrive, or is
quiet.  What is not refused is rendered and applied to a real control plane with the machines of the spec, several
times: with kubectl as it is, in a random order, and one workload after the other.  What is refused is rendered for
more machines, and every placement on the real ones is tried (tight_pack.py).

  quiet, and a pod stays Pending          not ok
  refused, and a placement exists         not ok
  warned, and no pod was Pending          ok, said: the warning is weak
  the others                              ok

Sites have groups and namespaces of their own, so that several are on one control plane at once."""
import copy
import http.client
import json
import os
import pathlib
import random
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests/cli"))
import serve_box  # noqa: E402
from serve_test import check, done, run  # noqa: E402
import control_plane  # noqa: E402
import site_machines  # noqa: E402
import tight_pack  # noqa: E402
import tight_site  # noqa: E402
import yaml  # noqa: E402

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
QUIET_TRIALS = ("apply", "shuffled", "one by one", "shuffled", "apply")
WARNED_TRIALS = ("apply", "shuffled", "one by one", "apply", "shuffled", "apply", "apply", "shuffled")
STILL_S = 12       # the scheduler tries a pod again after 10 s at most
TRIAL_S_MAX = 120
MACHINES_MAX = 12  # of a group
# kinds that decide where pods go: path, of a namespace
KINDS = {"Namespace": ("api/v1", "namespaces", False), "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses", False),
         "RuntimeClass": ("apis/node.k8s.io/v1", "runtimeclasses", False), "ServiceAccount": ("api/v1", "serviceaccounts", True),
         "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets", True), "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True),
         "DaemonSet": ("apis/apps/v1", "daemonsets", True), "Deployment": ("apis/apps/v1", "deployments", True),
         "StatefulSet": ("apis/apps/v1", "statefulsets", True), "Job": ("apis/batch/v1", "jobs", True)}
WORK = ("Deployment", "StatefulSet", "Job")
says = threading.Lock()


class Plane(control_plane.Cluster):
    """A control plane that several sites are on at once, without a wait for its own limits of requests."""

    def start(self, name, *args):
        more = {"kube-controller-manager": ["--kube-api-qps=400", "--kube-api-burst=800"],
                "kube-scheduler": ["--kube-api-qps=400", "--kube-api-burst=800", *os.environ.get("SCHEDULER_FLAGS", "").split()]}
        super().start(name, *args, *more.get(name, []))

    def open(self):
        self.tls = ssl._create_unverified_context()
        self.host = urllib.parse.urlsplit(self.url).netloc
        self.local = threading.local()

    def ask(self, method, path, body=None, kind="application/json"):
        """Status and answer; a connection a thread."""
        for attempt in (0, 1):
            c = getattr(self.local, "c", None)
            if not c:
                c = self.local.c = http.client.HTTPSConnection(self.host, context=self.tls, timeout=60)
            try:
                c.request(method, "/" + path, json.dumps(body) if body is not None else None, {"Authorization": "Bearer secret", "Content-Type": kind})
                r = c.getresponse()
                return r.status, json.loads(r.read() or b"{}")
            except (OSError, http.client.HTTPException):
                self.local.c = None
                if attempt:
                    raise

    def items(self, path):
        return self.ask("GET", path)[1].get("items", [])

    def make(self, d):
        base, plural, spaced = KINDS[d["kind"]]
        path = f"{base}/namespaces/{d['metadata']['namespace']}/{plural}" if spaced else f"{base}/{plural}"
        status, answer = self.ask("POST", path, d)
        assert status in (200, 201, 202, 409), answer


def machines(c, nodes):
    ready = [{"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    for n, held, given in nodes:
        path = "api/v1/nodes/" + n["metadata"]["name"]
        for method, where, body in (("POST", "api/v1/nodes", n), ("PATCH", path + "/status", {"status": {"capacity": held, "allocatable": given, "conditions": ready}}),
                                    ("PATCH", path, {"spec": {"taints": n["spec"]["taints"]}})):
            status, answer = c.ask(method, where, body, "application/merge-patch+json" if method == "PATCH" else "application/json")
            assert status in (200, 201), answer
    names = {n["metadata"]["name"] for n, _, _ in nodes}
    serve_box.wait(lambda: names <= {p["spec"].get("nodeName") for p in c.items("api/v1/namespaces/kube-system/pods")}, 60)


def gone(c, nodes):
    for n, _, _ in nodes:
        name = n["metadata"]["name"]
        c.ask("DELETE", "api/v1/nodes/" + name)
        c.ask("DELETE", f"api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName%3D{name}", {"gracePeriodSeconds": 0})


def bury(c, pods):
    """What a kubelet does with a pod that was preempted: it has failed, and is gone."""
    for p in pods:
        if p["metadata"].get("deletionTimestamp"):
            path = f"api/v1/namespaces/{p['metadata']['namespace']}/pods/{p['metadata']['name']}"
            c.ask("PATCH", path + "/status", {"status": {"phase": "Failed"}}, "application/merge-patch+json")
            c.ask("DELETE", path, {"gracePeriodSeconds": 0})


def owner(p):
    return (p["metadata"].get("ownerReferences") or [{"kind": "", "name": ""}])[0]


class Trial:
    """Pods of a site that settle: `pending` are those that found no machine, `moved` those that were preempted."""

    def __init__(self, c, spaces, daemons):
        self.c, self.spaces, self.daemons = c, spaces, daemons
        self.pending, self.moved, self.pods = [], 0, []

    def look(self):
        pods = [p for s in self.spaces for p in self.c.items(f"api/v1/namespaces/{s}/pods")
                if p["status"].get("phase") not in ("Failed", "Succeeded") or p["metadata"].get("deletionTimestamp")]
        dying = [p for p in pods if p["metadata"].get("deletionTimestamp")]
        bury(self.c, dying)
        self.moved += len(dying)
        return [p for p in pods if not p["metadata"].get("deletionTimestamp")], bool(dying)

    def settle(self, many):
        """Until `many` pods and those of each machine have one, or nothing has moved for long enough."""
        start = last = time.monotonic()
        before = None
        while True:
            self.pods, dying = self.look()
            free = [p for p in self.pods if not p["spec"].get("nodeName")]
            own = [p for p in self.pods if owner(p)["kind"] == "DaemonSet"]
            if not dying and not free and len(self.pods) - len(own) == many and len(own) == self.daemons:
                self.pending = []
                return
            state = sorted((p["metadata"]["name"], p["spec"].get("nodeName", ""), p["status"].get("nominatedNodeName", "")) for p in self.pods)
            now = time.monotonic()
            if state != before or dying:
                before, last = state, now
            missing = many + self.daemons - len(self.pods)
            if now - last > STILL_S * (3 if missing else 1) or now - start > TRIAL_S_MAX:
                self.pending = [(p["metadata"]["name"], [x.get("message", "") for x in p["status"].get("conditions", [])]) for p in free] + [
                    (f"{missing} pods were not made", [])] * bool(missing)
                return
            time.sleep(0.15 if now - last < 3 else 0.5)


def clear(c, space):
    """Workloads and their pods go; the namespace stays for the next trial."""
    ns = f"namespaces/{space}"
    kinds = [f"apis/apps/v1/{ns}/{k}" for k in ("deployments", "replicasets", "statefulsets", "daemonsets")] + [f"apis/batch/v1/{ns}/jobs"]
    for path in kinds:
        c.ask("DELETE", path, {"propagationPolicy": "Background"})

    def empty():
        c.ask("DELETE", f"api/v1/{ns}/pods", {"gracePeriodSeconds": 0})
        left = c.items(f"apis/apps/v1/{ns}/replicasets")
        if left:
            c.ask("DELETE", f"apis/apps/v1/{ns}/replicasets", {"propagationPolicy": "Background"})
        time.sleep(0.1)
        return not left and not c.items(f"api/v1/{ns}/pods") and not any(c.items(p) for p in kinds)
    assert serve_box.wait(empty, 120), f"{space} does not become empty"


def applied(c, r, how, docs, trial):
    """One creation of everything, in the order `how`."""
    first = [d for d in docs if d["kind"] not in WORK]
    work = [d for d in docs if d["kind"] in WORK]
    many = {d["metadata"]["name"]: n for d in work for w, n, _ in tight_pack.workloads([d])}
    if how == "apply":
        text = "---\n".join(json.dumps(d) + "\n" for d in docs)
        p = c.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=text)
        assert p.returncode == 0, p.stderr
    else:
        r.shuffle(work)
        for d in first:
            c.make(d)
        there = 0
        for d in work:
            c.make(d)
            there += many.get(d["metadata"]["name"], 0)
            if how == "one by one":
                trial.settle(there)
    trial.settle(sum(many.values()))


def scheduling(words):
    """Lines of `spec check` that are about room on the machines."""
    return [w for w in words.splitlines() if re.search(r"warning: .*(scheduler|pods? fit|room)", w)]


def rendered(c, spec, folder):
    """Documents of a spec's manifests that matter here, and the folder; None with what was said where they are refused."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False, default_flow_style=None, width=200))
    p = run("render", "kubernetes", "-f", str(path), "-o", str(folder / "out"))
    if p.returncode:
        return None, p.stderr
    base = folder / "out/kubernetes"
    text = c.kubectl("kustomize", str(base / "overlays/site")).stdout
    return [d for d in yaml.load_all(text, LOADER) if d and d["kind"] in KINDS], base


def shown(path):
    return json.loads(run("spec", "show", "--json", str(path)).stdout)["spec"]


def judged(c, spec, folder):
    """Of a refused site: whether there is a placement after all (True, False, None: not known), and how that is known."""
    more = copy.deepcopy(spec)
    for g in more["nodes"]:
        g["count"] += 60
    docs, base = rendered(c, more, folder / "more")
    if docs is None:
        return None, "refused with 60 machines more in each group: " + base
    nodes = site_machines.machines(shown(folder / "site.yaml"), base, MACHINES_MAX)
    network = site_machines.daemons(spec, base)
    parts = {n: [k for k in ("cpu", "memory") if {"cpu": "cpus"}.get(k, k) not in c] for n, c in spec["components"].items()}
    whole = tight_pack.placeable(nodes, docs, network)
    if whole or not any(parts.values()):
        return whole, "every placement was tried"
    least = tight_pack.placeable(nodes, docs, network, lambda name: parts.get(name, ()))
    return (False, "every placement was tried") if least is False else (None, "with less for who names no CPUs or memory it may fit")


def site_tried(c, seed, folder):
    """What `stoker` says of a seed's site and what came of it."""
    spec = tight_site.site(seed)
    folder.mkdir()
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False, default_flow_style=None, width=200))
    p = run("spec", "check", str(path))
    out = {"seed": seed, "words": p.stderr.replace(str(path), "site.yaml"), "trials": []}
    if p.returncode:
        possible, why = judged(c, spec, folder)
        return {**out, "said": "refused", "class": {True: "refused, placeable", False: "refused, impossible", None: "refused, not known"}[possible], "why": why}
    out["said"] = "warned" if scheduling(p.stderr) else "quiet"
    docs, base = rendered(c, spec, folder)
    if docs is None:
        return {**out, "class": "checked, not rendered", "why": base}
    nodes = site_machines.machines(shown(path), base, MACHINES_MAX)
    network = site_machines.daemons(spec, base)
    # agents are for every machine of a cluster, which here has other sites' too
    for n, _, _ in nodes:
        n["metadata"]["labels"]["tight/site"] = f"s{seed}"
    for d in docs:
        if d["kind"] == "DaemonSet":
            d["spec"]["template"]["spec"].setdefault("nodeSelector", {})["tight/site"] = f"s{seed}"
    out["packs"] = tight_pack.placeable(nodes, docs, network)
    spaces = [d["metadata"]["name"] for d in docs if d["kind"] == "Namespace"]
    own = sum(tight_pack.may_be(d["spec"]["template"]["spec"], n) for d in docs if d["kind"] == "DaemonSet" for n, _, _ in nodes)
    r = random.Random(seed)
    machines(c, nodes)
    for d in docs:
        if d["kind"] == "Namespace":
            c.make(d)
    serve_box.wait(lambda: all(c.ask("GET", f"api/v1/namespaces/{s}/serviceaccounts/default")[0] == 200 for s in spaces), 60)
    for how in QUIET_TRIALS if out["said"] == "quiet" else WARNED_TRIALS:
        t = Trial(c, spaces, own)
        applied(c, r, how, docs, t)
        out["trials"].append({"how": how, "pending": t.pending, "moved": t.moved})
        if t.pending:
            out["placed"] = sorted((p["metadata"]["name"], p["spec"].get("nodeName")) for p in t.pods)
        for space in spaces:
            clear(c, space)
        if t.pending:
            break
    gone(c, nodes)
    for space in spaces:
        c.ask("DELETE", f"api/v1/namespaces/{space}")
    return {**out, "class": f"{out['said']}, " + ("Pending" if out["trials"][-1]["pending"] else "never Pending")}


def tried(c, seed):
    folder = pathlib.Path(f"s{seed}")
    try:
        got = site_tried(c, seed, folder)
    except Exception as e:  # of one site: the others go on
        got = {"seed": seed, "said": "", "class": "broken", "why": repr(e), "words": "", "trials": []}
    with says:
        bad = got["class"] in ("quiet, Pending", "refused, placeable", "checked, not rendered", "broken")
        last = got["trials"][-1] if got["trials"] else {}
        check(f"seed {seed}: {got['class']}" + (f" ({len(got['trials'])} trials, the last {last['how']})" if last else ""), not bad,
              got["words"], got.get("why", ""), *last.get("pending", []))
        with open("results.jsonl", "a") as f:
            f.write(json.dumps(got) + "\n")
    return got


def seeds(text):
    out = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        out += range(int(low), int(high or low) + 1)
    return out


def main():
    why = control_plane.missing(os.environ.get("KUBEBUILDER_ASSETS"))
    assert not why, why
    chosen = seeds(sys.argv[2] if sys.argv[2:] else "1-60")
    c = Plane(os.environ["KUBEBUILDER_ASSETS"], "cluster")
    check("an API server, its controllers and its scheduler are there", c.up, c.words())
    if c.up:
        c.open()
        c.put({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}, *site_machines.daemons({}, ""))
        with ThreadPoolExecutor(int(sys.argv[3]) if sys.argv[3:] else 6) as pool:
            all_of = list(pool.map(lambda s: tried(c, s), chosen))
        classes = sorted({g["class"] for g in all_of})
        for name in classes:
            print(f"# {sum(g['class'] == name for g in all_of):4} {name}")
    c.end()
    done()


if __name__ == "__main__":
    main()

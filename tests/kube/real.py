#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TAP: what `stoker render kubernetes openshift` writes, before a real API server, its controllers and its
scheduler: real.py STOKER [changed | sites [NAME ...]], in an empty folder; `sites` leaves the examples out.

Every object is taken without a warning and is then what was meant (a second look finds no difference);
controllers make the pods, which the namespace's security level lets through, and the scheduler finds
machines for them, on those the spec names and one a machine where it says so.  The machines are objects
that are made from the spec (site_machines.py), never from what pods ask for:
no kubelet is there, so nothing runs.  Kinds of operators have their definition where tools/kube-assets or
$STOKER_SCHEMAS (else shared/schemas beside the source) has it, and one that takes every field where they
have not.  Jobs of a queue are let in by Kueue itself where tools/kube-assets made it, else by hand."""
import json
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests/cli"))
from serve_box import wait  # noqa: E402
from serve_test import check, done, part, run  # noqa: E402
import control_plane  # noqa: E402
import kueue_here  # noqa: E402
import site_machines as site  # noqa: E402
import yaml  # noqa: E402

EXAMPLES = ("ai-platform-h200", "driving-h200", "kb-a100", "llm-cluster", "rdma-openshift")
KINDS = ("job", "statefulset", "pytorchjob", "trainjob", "jobset")
MACHINES_MAX = 12  # of a group
SCHEMAS = pathlib.Path(os.environ.get("STOKER_SCHEMAS") or TOP.parent / "shared/schemas")
# Kinds that are no part of Kubernetes: group, version, kind, plural, of a namespace
OPERATORS = (("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors", True), ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", True),
             ("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies", False), ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", True),
             ("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions", True),
             ("image.openshift.io", "v1", "ImageStream", "imagestreams", True), ("build.openshift.io", "v1", "BuildConfig", "buildconfigs", True),
             ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", True), ("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", True),
             ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True), ("security.openshift.io", "v1", "SecurityContextConstraints", "securitycontextconstraints", False),
             ("sriovnetwork.openshift.io", "v1", "SriovNetwork", "sriovnetworks", True), ("sriovnetwork.openshift.io", "v1", "SriovIBNetwork", "sriovibnetworks", True),
             ("sriovnetwork.openshift.io", "v1", "SriovNetworkNodePolicy", "sriovnetworknodepolicies", True),
             ("sriovnetwork.openshift.io", "v1", "SriovOperatorConfig", "sriovoperatorconfigs", True), ("route.openshift.io", "v1", "Route", "routes", True),
             ("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", True), ("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", False),
             ("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", False), ("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", False),
             ("nv-ipam.nvidia.com", "v1alpha1", "IPPool", "ippools", True))


def open_definition(group, version, kind, plural, namespaced):
    """A kind whose objects may have any field."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced" if namespaced else "Cluster", "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                     "versions": [{"name": version, "served": True, "storage": True, "schema": {
                         "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """A plain `=`, which PyYAML has a tag for and nobody else, is a text."""


Loader.add_constructor("tag:yaml.org,2002:value", Loader.construct_yaml_str)


def definitions(c):
    """Kinds as published: those of the releases that node-prepare.sh installs (tools/kube-assets), then those of $STOKER_SCHEMAS."""
    seen = set()
    for path in (*sorted(pathlib.Path(c.assets, "kinds").glob("*.yaml")), *sorted(SCHEMAS.glob("*_*.yaml"))):
        for doc in yaml.load_all(path.read_text(), Loader):
            if doc and doc["kind"] == "CustomResourceDefinition" and doc["metadata"]["name"] not in seen:
                seen.add(doc["metadata"]["name"])
                doc["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = "unapproved, a test"
                doc["spec"].pop("conversion", None)
                yield doc


def define(c):
    published = set()
    wanted = {f"{o[3]}.{o[0]}" for o in OPERATORS}
    for doc in definitions(c):
        if doc["metadata"]["name"] in wanted or doc["spec"]["group"] == "kueue.x-k8s.io":
            c.put(doc)
            published.add(doc["metadata"]["name"])
    rest = [o for o in OPERATORS if f"{o[3]}.{o[0]}" not in published]
    c.put(*[open_definition(*o) for o in rest])
    r = c.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    check("kinds of operators are defined", r.returncode == 0, r.stdout, r.stderr)
    print(f"# {len(published)} as published, {len(rest)} that take every field")


def documents(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.yaml")):
        yield from (d for d in yaml.safe_load_all(path.read_text()) if d and "kind" in d)


def machines(c, spec, base):
    """The machines of a spec as objects: see site.py."""
    nodes = site.machines(spec, base, MACHINES_MAX)
    c.kubectl("delete", "node", "--all", "--wait=true")
    c.put(*[n for n, _, _ in nodes])
    for n, held, given in nodes:
        status = {"status": {"capacity": held, "allocatable": given, "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "",
                  "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        r = c.kubectl("patch", "node", n["metadata"]["name"], "--subresource=status", "--type=merge", "-p", json.dumps(status))
        assert r.returncode == 0, r.stderr
    c.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready-")
    c.put(*site.daemons(spec, base))


def volumes(c):
    """A volume for every claim that nobody else fills: a site's own classes do."""
    for v in c.get("persistentvolumeclaims", "-A"):
        if v["status"].get("phase") != "Bound" and not v["spec"].get("volumeName"):
            s = v["spec"]
            name = f"{v['metadata']['namespace']}-{v['metadata']['name']}"
            c.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {"by": "test"}}, "spec": {
                "capacity": s["resources"]["requests"], "accessModes": s["accessModes"], "storageClassName": s.get("storageClassName", ""),
                "hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": v["metadata"]["namespace"], "name": v["metadata"]["name"]}}})


def waits(d):
    """Whether it is a job that Kueue holds until it lets it in."""
    return d["kind"] == "Job" and "kueue.x-k8s.io/queue-name" in d["metadata"].get("labels", {})


def held(name, overlay):
    """An overlay whose jobs of a queue are held, as Kueue's webhook does, which is not there yet."""
    folder = pathlib.Path(name) / "held"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [os.path.relpath(overlay, folder)], "patches": [{
        "target": {"kind": "Job", "labelSelector": "kueue.x-k8s.io/queue-name"}, "patch": '[{"op": "add", "path": "/spec/suspend", "value": true}]'}]}))
    return folder


def wanted_pods(docs):
    """Pods that controllers of Kubernetes itself will make: namespace and name of whose, how many."""
    least = {(d["metadata"]["namespace"], d["spec"]["scaleTargetRef"]["name"]): d["spec"].get("minReplicas", 1)
             for d in docs if d["kind"] == "HorizontalPodAutoscaler"}
    out = {}
    for d in docs:
        spec = d.get("spec", {})
        own = least.get((d["metadata"].get("namespace"), d["metadata"]["name"]), 1)
        many = {"Deployment": spec.get("replicas", own), "StatefulSet": spec.get("replicas", 1),
                "Job": 0 if waits(d) else spec.get("parallelism", 1)}.get(d["kind"])
        if many is not None:
            out[(d["metadata"]["namespace"], d["metadata"]["name"])] = many
    return out


def owned(pods, namespace, name):
    return [p for p in pods if p["metadata"]["namespace"] == namespace and re.fullmatch(re.escape(name) + r"-[a-z0-9]+(-[a-z0-9]+)?", p["metadata"]["name"])]


def refused(c):
    """What controllers could not make, and why."""
    return sorted({e["message"][:300] for e in c.get("events", "-A") if e["reason"] in ("FailedCreate", "FailedCreatePodSandBox")})


def apply(c, what, flag, path):
    r = c.kubectl("apply", "--server-side", flag, str(path))
    check(f"{what}: taken without a warning", r.returncode == 0 and "arning" not in r.stderr, r.stderr[:2000])
    if r.returncode:
        return False
    r = c.kubectl("diff", "--server-side", flag, str(path))
    check(f"{what}: and is what was meant", r.returncode == 0 and not r.stdout, r.stdout[:1500], r.stderr)
    return True


def operators(c, docs):
    """What the installation of operators makes: their namespaces, and the runtime of containers with GPUs."""
    names = {d["metadata"].get("namespace") for d in docs} - {None} - {d["metadata"]["name"] for d in docs if d["kind"] == "Namespace"}
    c.put({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
          *[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in names])


def bury(c):
    """What a kubelet does with a pod that was asked to end, preempted or scaled away: it has failed, and is gone."""
    for p in c.get("pods", "-A"):
        if p["metadata"].get("deletionTimestamp"):
            which = ("-n", p["metadata"]["namespace"])
            c.kubectl(*which, "patch", "pod", p["metadata"]["name"], "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}')
            c.kubectl(*which, "delete", "pod", p["metadata"]["name"], "--force", "--grace-period=0", "--wait=false")


def lonely(c, agents):
    """Machines with GPUs that no pod of a DaemonSet is on."""
    at = {p["spec"].get("nodeName") for p in c.get("pods", "-A") if any(p["metadata"]["name"].startswith(a + "-") for a in agents)}
    return [n["metadata"]["name"] for n in c.get("nodes") if "nvidia.com/gpu" in n["status"].get("capacity", {}) and n["metadata"]["name"] not in at]


def placed(c, what, docs, spec):
    """Pods are made and find machines; those of one run a machine each."""
    want = {k: n for k, n in wanted_pods(docs).items() if n}
    missing, homeless, crowded = [], [], []

    def settled():
        nonlocal missing, homeless
        volumes(c)
        bury(c)
        pods = c.get("pods", "-A")
        missing = [(k, n, len(owned(pods, *k))) for k, n in want.items() if len(owned(pods, *k)) != n]
        homeless = [p for k in want for p in owned(pods, *k) if not p["spec"].get("nodeName")]
        return not missing and not homeless
    wait(settled, 60)
    check(f"{what}: controllers make its {sum(want.values())} pods", not missing and not refused(c), *missing, *refused(c))
    check(f"{what}: each finds a machine", not homeless, *[(p["metadata"]["name"], [x.get("message") for x in p["status"].get("conditions", [])]) for p in homeless[:4]])
    pods = c.get("pods", "-A")
    for k in want:
        at = [p["spec"].get("nodeName") for p in owned(pods, *k)]
        alone = any(t.get("topologyKey") == "kubernetes.io/hostname" and t["whenUnsatisfiable"] == "DoNotSchedule"
                    for p in owned(pods, *k) for t in p["spec"].get("topologySpreadConstraints", []))
        crowded += [(k, at)] if alone and len(set(at)) != len(at) else []
    check(f"{what}: pods of one run are on different machines", not crowded, *crowded)
    strangers = site.strangers(spec, c.get("nodes"), [(k[1], p["spec"].get("nodeName")) for k in want for p in owned(pods, *k)])
    check(f"{what}: pods are on machines of the groups that the spec names", not strangers, *strangers[:4])
    agents = [d["metadata"]["name"] for d in docs if d["kind"] == "DaemonSet"]
    if agents:
        check(f"{what}: machines have an agent each", wait(lambda: not lonely(c, agents), 30), lonely(c, agents))


def admitted(c, what, docs, spec):
    """Jobs that wait in a queue find machines when they are let in, one after the other."""
    for d in docs:
        if not waits(d):
            continue
        where = (d["metadata"]["namespace"], d["metadata"]["name"])
        many = d["spec"].get("parallelism", 1)
        c.kubectl("-n", where[0], "patch", "job", where[1], "--type=merge", "-p", '{"spec":{"suspend":false}}')

        def there():
            volumes(c)
            pods = owned(c.get("pods", "-n", where[0]), *where)
            return len(pods) == many and all(p["spec"].get("nodeName") for p in pods)
        found = wait(there, 30)
        pods = owned(c.get("pods", "-n", where[0]), *where)
        check(f"{what}: {where[1]} is let in and its {many} pods find machines", found,
              *[(p["metadata"]["name"], p["spec"].get("nodeName"), [x.get("message") for x in p["status"].get("conditions", [])]) for p in pods[:4]])
        strangers = site.strangers(spec, c.get("nodes"), [(where[1], p["spec"].get("nodeName")) for p in pods])
        check(f"{what}: {where[1]} is on machines of its groups", not strangers, *strangers[:4])
        c.kubectl("-n", where[0], "delete", "job", where[1], "--wait=false", "--cascade=background")
        c.kubectl("-n", where[0], "delete", "pods", *[p["metadata"]["name"] for p in pods], "--force", "--grace-period=0")


def applied_again(c, what, d, file, pods):
    """Manifests are applied after each change, whatever runs: the job stays let in, with the pods it has."""
    name, space = d["metadata"]["name"], d["metadata"]["namespace"]
    r = c.kubectl("apply", "-f", str(file))

    def ended():
        now = owned(c.get("pods", "-n", space), space, name)
        return {p["metadata"]["uid"] for p in now if not p["metadata"].get("deletionTimestamp")} != {p["metadata"]["uid"] for p in pods}
    check(f"{what} is applied again and runs on", r.returncode == 0 and not wait(ended, 3) and not any(j["spec"].get("suspend") for j in c.get("jobs", "-n", space) if j["metadata"]["name"] == name), r.stdout, r.stderr)


def queued(c, what, base, docs, path):
    """Kueue itself lets jobs in: those that no warning excepts, on machines of their groups, all pods of one at once."""
    text = subprocess.run(["sh", str(base / "node-prepare.sh"), "operators"], capture_output=True, text=True, check=True).stdout
    for line in re.findall(r"^\+ kubectl (label .*)$", text, re.M):
        c.kubectl(*line.split())
    warned = " ".join(re.findall(r"warning: (Kueue .*|queued component .*)", run("spec", "check", str(path)).stderr))
    jobs = [d for d in docs if waits(d)]
    files = {d["metadata"]["name"]: pathlib.Path(f"{what}-{d['metadata']['name']}.json") for d in jobs}
    for d in jobs:
        files[d["metadata"]["name"]].write_text(json.dumps(d))
        c.kubectl("-n", d["metadata"]["namespace"], "delete", "job", d["metadata"]["name"], "--wait=true")
    k = kueue_here.Kueue(c, base / "kueue-values.yaml")
    check(f"{what}: Kueue takes its configuration and runs", k.up, k.words()[-2500:])
    if not k.up:
        return
    r = c.kubectl("apply", "--server-side", "--dry-run=server", "-f", str(base / "cluster/queues.yaml"))
    check(f"{what}: its webhooks take queue, flavors and topologies", r.returncode == 0, r.stderr)

    made = [c.kubectl("apply", "-f", str(f)) for f in files.values()]
    check(f"{what}: jobs are made anew, before its webhooks", not any(r.returncode for r in made), *[r.stderr for r in made])

    def state():
        # a job that was let in ends here: no kubelet runs it, and others wait for its machines
        return {w["metadata"]["ownerReferences"][0]["name"]: {x["type"]: (x["status"], x.get("message")) for x in w.get("status", {}).get("conditions", [])}
                for w in c.get("workloads.kueue.x-k8s.io", "-A") if w["metadata"].get("ownerReferences")}
    for d in jobs:
        name, space, many = d["metadata"]["name"], d["metadata"]["namespace"], d["spec"].get("parallelism", 1)
        excepted = f"'{name}'" in warned

        def there():
            volumes(c)
            pods = owned(c.get("pods", "-n", space), space, name)
            return len(pods) == many and all(p["spec"].get("nodeName") for p in pods)
        found = wait(there, 5 if excepted else 40)
        pods = owned(c.get("pods", "-n", space), space, name)
        if excepted:
            check(f"{what}: {name} waits for ever, as a warning says", not pods, state().get(name))
        else:
            check(f"{what}: Kueue lets {name} in and its {many} pods find machines", found, state().get(name), *[
                (p["metadata"]["name"], p["spec"].get("nodeName"), [x.get("message") for x in p["status"].get("conditions", [])]) for p in pods[:3]])
            strange = site.strangers(spec_of(path), c.get("nodes"), [(name, p["spec"].get("nodeName")) for p in pods])
            check(f"{what}: {name} is on machines of its groups", not strange, *strange[:4])
            applied_again(c, f"{what}: {name}", d, files[name], pods)
        c.kubectl("-n", space, "delete", "job", name, "--wait=false", "--cascade=background")
        c.kubectl("-n", space, "delete", "pods", *[p["metadata"]["name"] for p in pods], "--force", "--grace-period=0")
    for d in docs: # kinds of operators that are not here, of which Kueue makes workloads all the same
        if "kueue.x-k8s.io/queue-name" in d["metadata"].get("labels", {}) and not waits(d):
            c.kubectl("-n", d["metadata"]["namespace"], "delete", f"{d['kind'].lower()}.{d['apiVersion'].partition('/')[0]}", d["metadata"]["name"], "--wait=false")
    # only Kueue lets go of them: left behind, they would hold the namespace for ever
    check(f"{what}: what Kueue made of the jobs goes with them", wait(lambda: not c.get("workloads.kueue.x-k8s.io", "-A"), 60),
          [w["metadata"].get("finalizers") for w in c.get("workloads.kueue.x-k8s.io", "-A")])
    k.end()


def away(c, what, *applied):
    """Deleted as the page says; the namespaces go too, once pods have, which no kubelet lets go here."""
    for flag, path in applied:
        c.kubectl("delete", flag, str(path), "--wait=false", "--ignore-not-found")
    c.kubectl("delete", "persistentvolumeclaims", "-A", "--all", "--wait=false")
    c.kubectl("delete", "persistentvolumes", "-l", "by=test", "--wait=false")

    def gone():
        c.kubectl("delete", "pods", "-A", "--all", "--force", "--grace-period=0")
        return not [n for n in c.get("namespaces") if n["metadata"].get("deletionTimestamp")]
    check(f"{what}: deleted, nothing is left", wait(gone, 300), [(n["metadata"]["name"], n["status"]) for n in c.get("namespaces")])
    c.kubectl("delete", "events", "-A", "--all")


def spec_of(path):
    return json.loads(run("spec", "show", "--json", str(path)).stdout)["spec"]


def kubernetes(c, name, path):
    r = run("render", "kubernetes", "-f", str(path), "-o", name)
    if not check_rendered(name, r):
        return
    base = pathlib.Path(name) / "kubernetes"
    site = base / "overlays/site"
    docs = [d for d in yaml.safe_load_all(c.kubectl("kustomize", str(site)).stdout) if d]
    cluster = list(documents(base / "cluster"))
    operators(c, docs + cluster)
    machines(c, spec_of(path), base)
    if cluster:
        apply(c, f"{name}, what a cluster has once", "-f", base / "cluster")
    queue = any(waits(d) for d in docs)
    if apply(c, f"{name}", "-k", held(name, site) if queue else site):
        placed(c, name, docs, spec_of(path))
        if any(d["kind"] == "LocalQueue" for d in docs) and not kueue_here.missing(c.assets):
            queued(c, name, base, docs, path)
        else:
            admitted(c, name, docs, spec_of(path))
    away(c, name, ("-k", site), ("-f", base / "cluster"))


def later(c):
    """Services alone, on machines without a label of a zone, as those of one's own have none: they fill one, and a training finds the rest whole."""
    path = TOP / "tests/kube/sites/fill.yaml"
    if not check_rendered("later", run("render", "kubernetes", "-f", str(path), "-o", "later")):
        return
    overlay = pathlib.Path("later/kubernetes/overlays/site")
    docs = [d for d in yaml.safe_load_all(c.kubectl("kustomize", str(overlay)).stdout) if d]
    operators(c, docs)
    machines(c, spec_of(path), pathlib.Path("later/kubernetes"))
    c.kubectl("label", "node", "--all", "topology.kubernetes.io/zone-")
    c.put(*[d for d in docs if d["kind"] == "Namespace"])
    c.put(*[d for d in docs if d["kind"] not in ("Namespace", "Job")])

    def at():
        return [p["spec"].get("nodeName") for p in c.get("pods", "-A") if p["metadata"]["labels"].get("app.kubernetes.io/component") == "serve"]
    wait(lambda: len(at()) == 8 and all(at()), 60)
    check("later: eight pods of a GPU each fill one machine", len(at()) == 8 and len(set(at())) == 1, at())
    if apply(c, "later", "-k", overlay):
        placed(c, "later", docs, spec_of(path))
    away(c, "later", ("-k", overlay))


def small(c):
    """overlays/small of a site of many groups with a queue: one machine of no group does, and no Kueue is there."""
    if not check_rendered("small", run("render", "kubernetes", "-f", str(TOP / "tests/kube/sites/queue.yaml"), "-o", "small")):
        return
    base = pathlib.Path("small/kubernetes")
    docs = [d for d in yaml.safe_load_all(c.kubectl("kustomize", str(base / "overlays/small")).stdout) if d]
    operators(c, docs + list(documents(base / "cluster")))
    machines(c, {"nodes": [{"name": "r1", "count": 1, "gpus_per_node": 8, "cpu_cores": 64, "memory": "512GiB"}], "fabrics": []}, base)
    c.kubectl("label", "node", "--all", "stoker/group-", "stoker/rack-")
    if apply(c, "small", "-k", base / "overlays/small"):
        placed(c, "small", docs, {"components": {}})
    away(c, "small", ("-k", base / "overlays/small"))


def check_rendered(name, r):
    if r.returncode:
        check(f"{name} is rendered", False, r.stderr)
    return r.returncode == 0


def openshift_site(c, name, path):
    if not check_rendered(name, run("render", "openshift", "-f", str(path), "-o", name)):
        return
    base = pathlib.Path(name) / "openshift"
    docs = [d for d in yaml.safe_load_all(c.kubectl("kustomize", str(base)).stdout) if d]
    operators(c, docs)
    machines(c, spec_of(path), base)
    if apply(c, name, "-k", base):
        placed(c, name, docs, spec_of(path))
    away(c, name, ("-k", base))


def sites(c):
    """Mixed sites: machines are the spec's and nothing else, and everything finds one of its group."""
    for path in sorted((TOP / "tests/kube/sites").glob("*.yaml")):
        if sys.argv[3:] and path.stem not in sys.argv[3:]:
            continue
        part(openshift_site if "openshift" in spec_targets(path) else kubernetes, c, path.stem, path)


def spec_targets(path):
    return [k for k, v in spec_of(path)["targets"].items() if v]


def openshift(c):
    pathlib.Path("oc.yaml").write_text(run("spec", "example", "rdma-openshift").stdout)
    if not check_rendered("openshift", run("render", "openshift", "-f", "oc.yaml", "-o", "oc")):
        return
    base = pathlib.Path("oc/openshift")
    docs = [d for d in yaml.safe_load_all(c.kubectl("kustomize", str(base)).stdout) if d]
    later = list(documents(base / "run"))
    operators(c, docs)
    machines(c, spec_of("oc.yaml"), base)
    if apply(c, "openshift", "-k", base):
        placed(c, "openshift", docs, spec_of("oc.yaml"))
        one = next(d for d in docs if d["kind"] == "StatefulSet")
        where = (one["metadata"]["namespace"], one["metadata"]["name"])
        for many in (6, 0, 1):
            c.kubectl("-n", where[0], "scale", f"statefulset/{where[1]}", f"--replicas={many}")

            def there(many=many):
                volumes(c)
                bury(c)
                return sorted(p["metadata"]["name"] for p in owned(c.get("pods", "-n", where[0]), *where)) == [f"{where[1]}-{i}" for i in range(many)]
            check(f"openshift: scaled to {many} by the replica count alone", wait(there, 60), [p["metadata"]["name"] for p in c.get("pods", "-A")], refused(c))
        claims = c.get("persistentvolumeclaims", "-n", where[0])
        check("openshift: volumes of all six stay", len(claims) == 6, [v["metadata"]["name"] for v in claims])
        r = c.kubectl("create", "-f", str(base / "run"))
        check("openshift: debug pod and job are taken", r.returncode == 0 and "arning" not in r.stderr, r.stderr)
        placed(c, "openshift, started later", later, spec_of("oc.yaml"))
    away(c, "openshift", ("-f", base / "run"), ("-k", base))


def wrong(c):
    """What a server refuses is refused here: the checks above can fail."""
    pathlib.Path("w.yaml").write_text(run("spec", "example", "kb-a100").stdout)
    run("render", "kubernetes", "-f", "w.yaml", "-o", "w")
    base = pathlib.Path("w/kubernetes")
    docs = [d for d in yaml.safe_load_all(c.kubectl("kustomize", str(base / "overlays/site")).stdout) if d]
    c.put(*[d for d in docs if d["kind"] in ("Namespace", "ServiceAccount", "PriorityClass")])
    one = next(d for d in docs if d["kind"] == "Deployment")
    text = json.dumps(one)

    def sent(change):
        doc = json.loads(text)
        change(doc["spec"]["template"]["spec"])
        return c.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", text=json.dumps(doc))
    same = sent(lambda pod: None)
    check("a Deployment as it is written is taken", same.returncode == 0 and "arning" not in same.stderr, same.stderr)

    def limit(pod):
        pod["containers"][0]["resources"]["requests"]["cpu"] = "9999"
    for title, change, words in (
            ("a request beyond its limit is refused", limit, "must be less than or equal to cpu limit"),
            ("a volume that is not there is", lambda pod: pod["containers"][0]["volumeMounts"].append({"name": "gone", "mountPath": "/gone"}), "Not found"),
            ("a field that nobody knows is", lambda pod: pod.update(tolerationz=[]), "tolerationz")):
        r = sent(change)
        check(title, r.returncode != 0 and words in r.stderr, r.stdout, r.stderr)
    r = sent(lambda pod: pod["containers"][0]["securityContext"].update(privileged=True, allowPrivilegeEscalation=True))
    check("and a privileged one is warned of", "would violate PodSecurity" in r.stderr, r.stderr)
    away(c, "what was refused", ("-k", base / "overlays/site"))


CHANGING = """
site: {{name: turn}}
nodes: [{{name: c, role: cpu, count: 2, cpu_cores: 16, memory: 64GB}}]
storage: [{{name: d, kind: volume, size: {size}, access: ReadWriteOnce, per_replica: true, storage_class: s}}]
agent: {{enabled: false}}
targets: {{kubernetes: {{namespace: turn, stoker_image: "r.x/s:1"}}}}
components:
  web: {{{base}, replicas: 2{web}}}
  store: {{{base}, mounts: [{{storage: d, path: /d}}]}}
  {third}: {{{base}, replicas: 2}}
  back: {{{base}, command: [x]{back}}}
"""


def changed(c):
    """A spec whose components change their kind, their claims and their names: `manifests`, then `prune`."""
    base = 'target: kubernetes, nodes: c, cpus: 1, memory: 1GB, image: "r.x/a:1", ports: [{name: http, port: 80}]'
    bin_dir = pathlib.Path("changed-bin").resolve()
    bin_dir.mkdir()
    (bin_dir / "kubectl").write_text(KUBECTL.format(kubectl=os.path.join(c.assets, "kubectl"), config=pathlib.Path(c.at("config")).resolve()))
    (bin_dir / "kubectl").chmod(0o755)

    def sh(folder, *words):
        return subprocess.run(["sh", f"{folder}/kubernetes/node-prepare.sh", *words], env={**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"},
                              capture_output=True, text=True, check=False)

    def have():
        return sorted(f"{o['kind']}/{o['metadata']['name']}" for o in c.get("deployments,statefulsets,services,poddisruptionbudgets", "-n", "turn"))
    for name, values in (("turn1", {"size": "10GiB", "web": "", "third": "old", "back": ", kind: training, nodes_per_replica: 2"}),
                         ("turn2", {"size": "30GiB", "web": ", mounts: [{storage: d, path: /d}]", "third": "new", "back": ", kind: service"})):
        pathlib.Path(f"{name}.yaml").write_text(CHANGING.format(base=base, **values))
        if not check_rendered(name, run("render", "kubernetes", "-f", f"{name}.yaml", "-o", name)):
            return
    r = sh("turn1", "--apply", "manifests")
    check("a changed spec: the first is taken, and nothing is said to be left", r.returncode == 0 and "runs on" not in r.stdout, r.stdout, r.stderr)
    wait(lambda: c.get("pods", "-n", "turn", "-l", "app.kubernetes.io/component=store"), 60)
    pod = c.get("pods", "-n", "turn", "-l", "app.kubernetes.io/component=store")[0]["metadata"]["uid"]
    r = sh("turn2", "--apply", "manifests")
    check("a changed spec: what cannot be changed in place makes room", r.returncode == 0, r.stdout, r.stderr)
    address = {o["metadata"]["name"]: o["spec"]["clusterIP"] for o in c.get("services", "-n", "turn")}
    check("a changed spec: who has clients now has an address, who was headless too; names of pods are apart",
          [address.get(n) == "None" for n in ("back", "web", "store", "web-headless", "store-headless")] == [False, False, False, True, True], address)
    check("a changed spec: one of each component, and the dropped one is told", "Deployment/web" not in have() and "StatefulSet/web" in have() and
          "runs on, though the spec no longer names it: deployment.apps/old in turn" in r.stdout, have(), r.stdout)
    check("a changed spec: pods of a StatefulSet whose claims differ stay", pod in
          [p["metadata"]["uid"] for p in c.get("pods", "-n", "turn", "-l", "app.kubernetes.io/component=store")])
    r = sh("turn2", "prune")
    check("a changed spec: prune prints first", r.returncode == 0 and "+ kubectl -n turn delete deployment.apps/old" in r.stdout and "Deployment/old" in have(), r.stdout)
    r = sh("turn2", "--apply", "prune")
    check("a changed spec: prune takes what is no longer named, and nothing else", r.returncode == 0 and have() == sorted(
        ["Deployment/back", "Deployment/new", "StatefulSet/store", "StatefulSet/web", "Service/back", "Service/new", "Service/store", "Service/store-headless",
         "Service/web", "Service/web-headless", "PodDisruptionBudget/new", "PodDisruptionBudget/web"]),
        have(), r.stdout, r.stderr)
    check("a changed spec: claims stay", len(c.get("persistentvolumeclaims", "-n", "turn")) >= 1)
    away(c, "a changed spec", ("-k", "turn2/kubernetes/overlays/site"))


HELM = """#!/bin/sh
# helm, as far as kinds go: what a chart brings that the manifests name
kubectl apply -f {kinds} && kubectl wait --for=condition=Established --timeout=60s crd --all &&
kubectl apply -f {policy}
"""
KUBECTL = """#!/bin/sh
# no container runs here: what is run inside one is left out
for a; do
    [ "$a" != exec ] || exit 0
done
exec {kubectl} --kubeconfig {config} "$@"
"""


def fresh(c):
    """The order of docs/user/deploying.md on a cluster that has nothing of ours: no namespace, no kind of an operator."""
    if not check_rendered("fresh", run("render", "kubernetes", "-f", str(TOP / "tests/kube/sites/services.yaml"), "-o", "fresh")):
        return
    base = pathlib.Path("fresh/kubernetes").resolve()
    site_dir = str(base / "overlays/site")
    dry = ("apply", "-k", site_dir, "--dry-run=server")
    r = c.kubectl(*dry)
    check("a fresh cluster: a dry run of the manifests fails, as DEPLOYING says", r.returncode != 0 and "not found" in r.stderr and "no matches for kind" in r.stderr,
          r.stdout, r.stderr)
    bin_dir = pathlib.Path("fresh-bin").resolve()
    bin_dir.mkdir()
    kinds, policy = bin_dir / "kinds.json", bin_dir / "policy.json"
    kinds.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [open_definition(*o) for o in OPERATORS]}))
    policy.write_text(json.dumps({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "status": {"state": "ready"}}))
    for name, text in (("helm", HELM.format(kinds=kinds, policy=policy)),
                       ("kubectl", KUBECTL.format(kubectl=os.path.join(c.assets, "kubectl"), config=pathlib.Path(c.at("config")).resolve()))):
        (bin_dir / name).write_text(text)
        (bin_dir / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    for title, words in (("operators does all, the manifests last", ("--apply", "operators")), ("and once more", ("--apply", "operators")), ("manifests after a change", ("--apply", "manifests"))):
        r = subprocess.run(["sh", str(base / "node-prepare.sh"), *words], env=env, capture_output=True, text=True, check=False)
        check(f"a fresh cluster: {title}", r.returncode == 0, r.stdout[-1500:], r.stderr[-1500:])
        r = c.kubectl(*dry)
        check(f"a fresh cluster: {title}: a dry run is taken then", r.returncode == 0, r.stderr)
        r = c.kubectl("diff", "-k", site_dir)
        check(f"a fresh cluster: {title}: and nothing differs", r.returncode == 0 and not r.stdout, r.stdout[:1500], r.stderr)
    away(c, "a fresh cluster", ("-k", site_dir), ("-f", base / "cluster"))
    c.kubectl("delete", "crd", "--all", "--wait=true")
    c.kubectl("delete", "namespace", "monitoring", "gpu-operator", "--wait=false", "--ignore-not-found")


def main():
    only_sites = sys.argv[2:3] == ["sites"]
    why = control_plane.missing(os.environ.get("KUBEBUILDER_ASSETS"))
    assert not why, why
    c = control_plane.Cluster(os.environ["KUBEBUILDER_ASSETS"], "cluster")
    check("an API server, its controllers and its scheduler are there", c.up, c.words())
    if c.up and sys.argv[2:3] == ["changed"]:
        part(changed, c)
    elif c.up:
        if not only_sites:
            part(changed, c)
            part(fresh, c)
        part(define, c)
        part(sites, c)
        for name in EXAMPLES if not only_sites else ():
            pathlib.Path(f"{name}.yaml").write_text(run("spec", "example", name).stdout)
            part(kubernetes, c, name, f"{name}.yaml")
        fixture = (TOP / "tests/fixtures/render/kube.yaml").read_text()
        for kind in KINDS if not only_sites else ():
            pathlib.Path(f"{kind}.yaml").write_text(fixture.replace("job: jobset", f"job: {kind}").replace(", queue: team", ""))
            part(kubernetes, c, kind, f"{kind}.yaml")
        if not only_sites or not sys.argv[3:] or "later" in sys.argv[3:]:
            part(later, c)
        if not only_sites:
            part(small, c)
            part(openshift, c)
            part(wrong, c)
    c.end()
    done()


main()

# SPDX-License-Identifier: MIT
"""site_machines: the machines that a spec describes, as Node objects.

CPUs, memory, GPUs and NICs are the spec's.  Labels and taints are those with which a machine of its group
joins, by the script that prepares it (run here, without --apply), and those that operators set on machines
of this kind.  What a machine has for pods is what the kubelet's configuration of the same script leaves.
MIG instances, shares of GPUs and virtual functions are what the operators would make of the configuration
that is rendered for them: nothing is taken from what pods ask for."""
import pathlib
import re
import subprocess

import yaml

# by the script that prepares a machine: what a kubelet keeps on OpenShift, where ours does not configure it
SHIFT_KEPT = ("500m", "1Gi")
EVICTION = 100 << 20
UNITS = {"": 1, "m": 0.001, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def quantity(text, units=None):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return float(number) * (units or UNITS)[unit]


def said(script, *args):
    return subprocess.run(["sh", str(script), *args], capture_output=True, text=True, check=True).stdout


def joined(base, group):
    """Labels and taints of a group's machines by node-prepare.sh, or by node/label.sh of OpenShift."""
    script = base / "node-prepare.sh"
    if script.exists():
        text = said(script, "machine", group)
        labels = re.search(r"--node-labels=([^ \n\"]*)", text)
        taints = re.search(r"--register-with-taints=([^ \n\"]*)", text)
        pairs, marks = (x.group(1).split(",") if x else [] for x in (labels, taints))
    else:
        text = said(base / "node/label.sh", group)
        pairs = [w for line in re.findall(r"^\+ oc label node .*$", text, re.M) for w in line.split() if "=" in w]
        marks = [w for line in re.findall(r"^\+ oc adm taint node .*$", text, re.M) for w in line.split() if re.search(r":(No|Prefer)", w)]
    return dict(p.split("=", 1) for p in pairs), list(dict.fromkeys(marks))


def kept(base):
    """CPUs and bytes that the kubelet keeps."""
    script = base / "node-prepare.sh"
    if not script.exists():
        return quantity(SHIFT_KEPT[0]), quantity(SHIFT_KEPT[1]) + EVICTION
    text = said(script, "control")
    cpu = sum(quantity(x) for x in re.findall(r'Reserved:\n\+ +cpu: "?([^"\n]+)', text))
    memory = sum(quantity(x) for x in re.findall(r'Reserved:\n\+ +cpu: .*\n\+ +memory: "?([^"\n]+)', text))
    assert cpu and memory, text
    return cpu, memory + EVICTION


def maps(base):
    """ConfigMaps of what a cluster has once, by name; those inside the GPU Operator's values too."""
    out = {}
    for path in sorted(base.rglob("*.yaml")):
        for d in yaml.safe_load_all(path.read_text()):
            if isinstance(d, dict) and d.get("kind") == "ConfigMap":
                out[d["metadata"]["name"]] = d["data"]
    for path in base.rglob("mig-policy.yaml"):
        out["mig.strategy"] = yaml.safe_load(path.read_text())["spec"]["mig"]["strategy"]
    values = base / "gpu-operator-values.yaml"
    if values.exists():
        v = yaml.safe_load(values.read_text())
        out["mig.strategy"] = v["mig"]["strategy"]
        for part in ("migManager", "devicePlugin"):
            config = v.get(part, {}).get("config") or {}
            if config.get("create"):
                out[config["name"]] = config["data"]
                out[part + ".default"] = config.get("default", "")
    return out


def gpus(g, labels, configs):
    """What the device plug-in offers of a machine's GPUs."""
    count = int(g.get("gpus_per_node") or 0)
    mig = labels.get("nvidia.com/mig.config")
    if not count:
        return {}
    if mig and "stoker-mig" in configs:
        wanted = yaml.safe_load(configs["stoker-mig"]["config.yaml"])["mig-configs"][mig]
        cut = [d for d in wanted if d["mig-enabled"]]
        if cut and configs.get("mig.strategy") == "single":
            return {"nvidia.com/gpu": str(count * sum(cut[0]["mig-devices"].values()))}
        if cut:
            return {"nvidia.com/mig-" + p.replace("+", "."): str(count * n) for p, n in cut[0]["mig-devices"].items()}
    shared = labels.get("nvidia.com/device-plugin.config") or configs.get("devicePlugin.default")
    if shared and shared in configs.get("stoker-sharing", {}):
        how = next(iter(yaml.safe_load(configs["stoker-sharing"][shared])["sharing"].values()))
        count *= how["resources"][0]["replicas"]
    return {"nvidia.com/gpu": str(count)}


def nics(spec, g, fabric):
    own = (g.get("nics") or {}).get(fabric["name"]) or {}
    count = int(own.get("count") or fabric["nics_per_node"])
    names = own.get("pfs") or own.get("interfaces") or (fabric.get("sriov") or {}).get("pfs") or fabric.get("interfaces") or []
    return count, names


def functions(spec, g, base, labels):
    """Virtual functions by the policies of the SR-IOV operator, RDMA devices that pods share."""
    out = {}
    policies = [d for p in base.rglob("*.yaml") for d in yaml.safe_load_all(p.read_text()) if isinstance(d, dict) and d.get("kind") == "SriovNetworkNodePolicy"]
    for name in g.get("fabrics") or []:
        f = next(x for x in spec["fabrics"] if x["name"] == name)
        count, names = nics(spec, g, f)
        if f.get("sriov"):
            for p in policies:
                s = p["spec"]
                if not (s["resourceName"] + "_").startswith(name.replace("-", "_") + "_") or any(labels.get(k) != v for k, v in s["nodeSelector"].items()):
                    continue
                chosen = s["nicSelector"].get("pfNames")
                hit = count if not chosen else len(set(chosen) & set(names[:count]))
                if hit:
                    out[f"{f['sriov']['resource_prefix']}/{s['resourceName']}"] = str(hit * s["numVfs"])
        elif f["kind"] in ("roce", "infiniband"):
            out["rdma/" + name.replace("-", "_")] = "64"
        elif f["kind"] == "efa":
            out["vpc.amazonaws.com/efa"] = str(count)
    return out


def found(g, spec):
    """Labels that node and GPU feature discovery and the kubelet set on such a machine."""
    out = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64" if g.get("arch") == "aarch64" else "amd64", "topology.kubernetes.io/zone": "z"}
    if g.get("gpus_per_node"):
        out["nvidia.com/gpu.present"] = "true"
    if any((f.get("sriov")) for f in spec.get("fabrics") or [] if f["name"] in (g.get("fabrics") or [])):
        out["feature.node.kubernetes.io/network-sriov.capable"] = "true"
    # what the spec says is on the machines and only others may set
    out.update({k: str(v) for k, v in (g.get("labels") or {}).items() if "kubernetes.io/" in k or k.startswith("nvidia.com/")})
    for f in spec.get("fabrics") or []:
        if f["name"] in (g.get("fabrics") or []):
            out.update((f.get("sriov") or {}).get("node_selector") or {})
    return out


def machines(spec, base, most):
    """(object, capacity, allocatable) of each machine, at most `most` of a group."""
    base = pathlib.Path(base)
    configs, (cpu_kept, memory_kept), out = maps(base), kept(base), []
    for g in spec.get("nodes") or []:
        labels, marks = joined(base, g["name"])
        labels = {**found(g, spec), **labels}
        taints = [dict(zip(("key", "value", "effect"), re.fullmatch(r"([^=:]+)(?:=([^:]*))?:(\w+)", t).groups(""))) for t in marks]
        if g.get("role") == "control":
            taints.append({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})  # kubeadm's
        cpu = int(g.get("cpu_cores") or 128) * int(g.get("threads_per_core") or 1)
        memory = int(quantity(g.get("memory") or "1TiB", BYTES))
        rest = {"ephemeral-storage": "8Ti", "pods": "110", **gpus(g, labels, configs), **functions(spec, g, base, labels)}
        held = {"cpu": str(cpu), "memory": str(memory), **rest}
        given = {"cpu": f"{int((cpu - cpu_kept) * 1000)}m", "memory": str(int(memory - memory_kept)), **rest}
        for i in range(min(int(g.get("count") or 1), most)):
            name = f"{g['name'].replace('_', '-')}{i + 1}"  # as the spec's hosts are where it names none
            out.append(({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}},
                         "spec": {"taints": [{k: v for k, v in t.items() if v} for t in taints]}}, held, given))
    return out


def daemons(spec, base):
    """Pods that every machine of a cluster has beside ours: the network plug-in's."""
    labels = {"app": "network"}
    return [{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "network", "namespace": "kube-system"}, "spec": {
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "tolerations": [{"operator": "Exists"}], "priorityClassName": "system-node-critical",
            "containers": [{"name": "network", "image": "network", "resources": {"requests": {"cpu": "250m"}}}]}}}}]


def strangers(spec, nodes, pods):
    """Pods, as (name of their workload, machine), that are on a machine of a group their component does not name."""
    group = {n["metadata"]["name"]: n["metadata"]["labels"].get("stoker/group") for n in nodes}
    wanted = {}
    for name, c in (spec.get("components") or {}).items():
        named = c.get("nodes")
        wanted[name.replace("_", "-")] = [named] if isinstance(named, str) else named
    return [(who, at, group.get(at)) for who, at in pods if at and wanted.get(who) and group.get(at) not in wanted[who]]

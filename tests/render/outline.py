#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""outline: what a rendered folder holds, in as many lines as a person reads.

    tests/render/outline.py FOLDER MODES [--queries]

Each file with its mode, and what stands in it by name: objects with their images, GPUs and ports,
services, alerts and recorded rules, panels (with --queries what they ask), nodes and partitions,
what a job asks for, what a unit runs.  The golden files of a site whose files are not kept whole."""
import json
import os
import re
import sys
import textwrap

import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from readers import Loader  # noqa: E402


def wrap(head, words):
    return textwrap.wrap(f"{head} {', '.join(words)}", 118, initial_indent="  ", subsequent_indent="      ",
                         break_long_words=False, break_on_hyphens=False) if words else []


def pod_specs(x):
    if isinstance(x, dict):
        if isinstance(x.get("containers"), list):
            yield x
        for v in x.values():
            yield from pod_specs(v)
    elif isinstance(x, list):
        for v in x:
            yield from pod_specs(v)


def container(c):
    limits = (c.get("resources") or {}).get("limits") or {}
    words = [c["name"], str(c.get("image", "-"))] + [f"{k.split('/')[-1]}={v}" for k, v in limits.items()]
    words += [f":{p['containerPort']}" for p in c.get("ports") or []]
    words += [f"{m['mountPath']}" for m in c.get("volumeMounts") or []]
    return " ".join(words)


def manifest(d):
    meta = d.get("metadata") or {}
    name = "/".join(w for w in (meta.get("namespace"), meta.get("name")) if w)
    out = [f"  {d['kind']} {name}" + (f" x {d['spec']['replicas']}" if "replicas" in (d.get("spec") or {}) else "")]
    for pod in pod_specs(d):
        out += [line for c in (pod.get("initContainers") or []) + pod["containers"] for line in wrap("  ", [container(c)])]
    if d["kind"] in ("ConfigMap", "Secret"):
        out += wrap("  keys", sorted((d.get("data") or {}) | (d.get("stringData") or {})))
    if d["kind"] == "Kustomization":
        out += wrap("  ", d.get("resources") or [])
    return out


def rules(doc):
    out = []
    for g in doc.get("groups", []):
        out += wrap(f"group {g['name']}:", [r.get("alert") or r.get("record") for r in g["rules"]])
    return out


def dashboard(doc, queries):
    rows = []
    for p in doc["panels"]:
        asks = [t["expr"] for t in p.get("targets", []) if "expr" in t]
        unit = p.get("fieldConfig", {}).get("defaults", {}).get("unit")
        rows.append(f"{p['title']} ({' '.join([p['type']] + ([unit] if unit else []) + ([str(len(asks))] if asks else []))})")
        if queries:
            rows += [f"      {t.get('legendFormat') or '-'}: {t['expr']}" for t in p.get("targets", []) if "expr" in t]
    return ["  " + r for r in rows] if queries else wrap(f"{doc['title']}:", rows)


def of_yaml(path, text):
    out = []
    for d in yaml.load_all(text, Loader):
        if not isinstance(d, dict):
            continue
        if "kind" in d and "apiVersion" in d:
            out += manifest(d)
        elif "groups" in d:
            out += rules(d)
        elif "services" in d and "compose" in path:
            for name, s in d["services"].items():
                out += wrap(f"service {name}", [str(s.get("image"))] + [str(p) for p in s.get("ports") or []])
        elif "tests" in d and "rule_files" in d:
            out.append(f"  {len(d['tests'])} tests")
        else:
            out += wrap("keys", list(d))
    return out


def of_lines(path, text):
    lines = [line.strip() for line in text.split("\n")]
    if path.endswith("slurm.conf"):
        return [f"  {line}" for line in lines if re.match("(NodeName|PartitionName|NodeSet|ClusterName|SelectType|TopologyPlugin)=", line)]
    if path.endswith((".sbatch", ".sh")) and any(line.startswith("#SBATCH") for line in lines):
        return wrap("#SBATCH", [line.split(None, 1)[1] for line in lines if line.startswith("#SBATCH")])
    if path.endswith(".service"):
        return [f"  {line}" for line in lines if line.startswith(("ExecStart=", "User="))]
    return []


def main():
    folder, modes, queries = sys.argv[1], sys.argv[2], "--queries" in sys.argv[3:]
    with open(modes, encoding="utf-8") as f:
        rows = [line.split(None, 1) for line in f.read().splitlines()]
    for mode, path in sorted(rows, key=lambda r: r[1]):
        print(path + ("" if mode == "644" else f" {mode}"))
        with open(os.path.join(folder, path), encoding="utf-8") as f:
            text = f.read()
        if path.endswith(".json"):
            doc = json.loads(text)
            out = dashboard(doc, queries) if "panels" in doc else wrap("keys", list(doc))
        elif path.endswith((".yaml", ".yml")):
            out = of_yaml(path, text)
        else:
            out = of_lines(path, text)
        for line in out:
            print(line.rstrip())


main()

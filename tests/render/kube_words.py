# SPDX-License-Identifier: MIT
"""Hostile words in a spec reach the pod as they are: render, read the YAML back, do what the kubelet
does with $(NAME), and compare.  Usage: kube_words.py STOKER DIR; prints what differs, exit 1."""
import json
import pathlib
import re
import subprocess
import sys

import yaml

WORDS = [
    "", " ", "a b", "yes", "no", "on", "null", "~", "1", "0x1f", "1e3", "1:30", "0o7", "2001-01-01", "=",
    "- x", "a: b", "a #b", "#", "'", '"', "''", '"quoted"', "it's", "\\", "\\n", "a\nb", "a\n", "\na",
    "a\tb", "\t", "$HOME", "$(HOME)", "$$", "$$(HOME)", "$", "$(", "${X}", "`id`", "$(id)", "a;b", "a|b",
    "{}", "[]", "{a: b}", "&a", "*a", "!tag", "%x", "@x", ">", "|", "?", ":", ",", "---", "...", "é",
    "日本", "\U0001f600", "a\u2028b", "\ufeffx", "a" * 3000, "--flag=a b", "{{x}}", "<&>",
]


def expand(text, env):
    """What the kubelet makes of a command, an argument or a value."""
    def one(m):
        if m.group(0) == "$$":
            return "$"
        return env.get(m.group(1), m.group(0))
    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def spec():
    env = {f"WORD_{i}": w for i, w in enumerate(WORDS)}
    env["HOME"] = "/home/of/the/component"
    return {
        "schema": "stoker.spec/1",
        "site": {"name": "words", "description": "a: b\n# c"},
        "nodes": [{"name": "gpu", "gpus_per_node": 8, "gpu": {"model": "H100"}, "cpu_cores": 64,
                   "memory": "1TiB"}],
        "storage": [{"name": "d", "kind": "volume", "size": "1GiB"}],
        "components": {
            "run": {"kind": "training", "target": "kubernetes", "gpus": 8, "image": "r.example.org/x:1",
                    "description": "a # b: 'c' \u2028 kind: Secret", "command": ["program"] + WORDS,
                    "args": WORDS[::-1], "env": env, "workdir": "/a b'\"$(HOME)#",
                    "mounts": [{"storage": "d", "path": "/m n'\"#", "subpath": "a b'\"#"}],
                    "training": {"framework": "other"}},
            "web": {"kind": "service", "target": "kubernetes", "image": "r.example.org/y:1",
                    "cpus": 1, "memory": "1GiB", "command": WORDS[2:], "ports": [{"name": "http", "port": 80}],
                    "health": {"command": ["sh", "-c"] + WORDS}},
        },
        "targets": {"kubernetes": {}},
    }


def differs(what, got, want):
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w:
            print(f"{what}[{i}]: {g!r} instead of {w!r}")
            return True
    if len(got) != len(want):
        print(f"{what}: {len(got)} instead of {len(want)}")
        return True
    return False


def main():
    stoker, out = sys.argv[1], pathlib.Path(sys.argv[2])
    source = out / "words.yaml"
    source.write_text(json.dumps(spec(), ensure_ascii=False))
    run = subprocess.run([stoker, "render", "kubernetes", "-f", source, "-o", out / "o"],
                         capture_output=True, text=True)
    if run.returncode:
        print(run.stderr)
        return 1
    base = out / "o/kubernetes/base"
    pods = {}
    for f in sorted(base.glob("*.yaml")):
        for d in yaml.safe_load_all(f.read_text()):
            if d and d["kind"] in ("Job", "Deployment"):
                pods[d["metadata"]["name"]] = d["spec"]["template"]["spec"]["containers"][0]
            if d and d["kind"] in ("Secret", "Pod"):
                print(f"{f}: a {d['kind']} from a comment")
                return 1
    want = spec()["components"]
    bad = False
    c = pods["run"]
    env = {}
    for e in c["env"]:
        env[e["name"]] = expand(e.get("value", ""), env)
    for k, v in want["run"]["env"].items():
        bad |= differs(f"env {k}", [env.get(k)], [v])
    bad |= differs("args", [expand(a, env) for a in c["args"]],
                   want["run"]["command"] + want["run"]["args"])
    bad |= differs("workdir", [c["workingDir"]], [want["run"]["workdir"]])
    m = [v for v in c["volumeMounts"] if v["name"] == "d"][0]
    bad |= differs("mount", [m["mountPath"], m["subPath"]], ["/m n'\"#", "a b'\"#"])
    c = pods["web"]
    bad |= differs("command", [expand(a, {}) for a in c["command"]], want["web"]["command"])
    bad |= differs("probe", [expand(a, {}) for a in c["livenessProbe"]["exec"]["command"]],
                   want["web"]["health"]["command"])
    agent = [d for d in yaml.safe_load_all((base / "agent.yaml").read_text()) if d["kind"] == "ConfigMap"]
    (out / "agent.yaml").write_text(agent[0]["data"]["stoker.yaml"])
    run = subprocess.run([stoker, "spec", "show", "--json", out / "agent.yaml"], capture_output=True,
                         text=True)
    if run.returncode:
        print("the agent's spec:", run.stderr)
        return 1
    got = json.loads(run.stdout)["spec"]["components"]
    got = got["run"] if isinstance(got, dict) else [x for x in got if x["name"] == "run"][0]
    bad |= differs("the agent's spec: args", got["args"], want["run"]["args"])
    return int(bad)


sys.exit(main())

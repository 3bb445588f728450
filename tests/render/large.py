#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sites of ten thousand machines: everything rendered, in at most 200 MB, and the machines are the same behind it.

    large.py STOKER [MACHINES] [--bench]

Prints TAP; with --bench the time and memory of each as RESULT lines (name value unit bound ok|short).
Sanitizers take memory of their own: with one in the path of STOKER the bound is not held against it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

stoker = os.path.abspath(sys.argv[1])
numbers = [a for a in sys.argv[2:] if a.isdigit()]
machines = int(numbers[0]) if numbers else 10000
bench = "--bench" in sys.argv
sanitized = re.search(r"/(address|thread|clang-\w+)/", stoker)
MEMORY_MB, SECONDS = 200, 1.0

REST = """
fabrics:
  - name: ib
    kind: infiniband
    rate: 400Gb/s
    nics_per_node: 8
    switches:
{switches}
storage:
  - {{name: lustre, kind: lustre, path: /lustre, source: "10.0.0.2@o2ib:/big", size: 2PB}}
components:
  train:
    kind: training
    target: slurm
    nodes: {first}
    gpus: 8
    nodes_per_replica: 2
    queued: true
    image: registry.example.org/train:1
    command: [python, train.py]
    training: {{framework: torchrun, global_batch: 512}}
targets:
  slurm: {{cluster: big, controller: ctl1}}
  kubernetes: {{}}
  openshift: {{}}
  compose: {{}}
  systemd: {{}}
  prometheus: {{}}
  grafana: {{}}
  lustre: {{fsname: big, mgs: 10.0.0.2@o2ib}}
"""
NODE = ("  - {{name: {name}, count: {count}, hosts: \"{hosts}\", gpus_per_node: 8, gpu: {{model: H100, memory: 80GB}}, "
        "cpu_cores: 112, memory: 2TB, fabrics: [ib]}}\n")


def spec(groups, switches):
    """groups: (name, host list, names); switches: (name, host list)."""
    nodes = "".join(NODE.format(name=n, count=len(all_), hosts=h) for n, h, all_ in groups)
    lines = "".join(f'      {n}: {{hosts: "{h}"}}\n' for n, h in switches)
    return f"schema: stoker.spec/1\nsite: {{name: big}}\nnodes:\n{nodes}" + REST.format(switches=lines.rstrip("\n"), first=groups[0][0])


def sites():
    n = machines
    names = [f"gpu{i}" for i in range(1, n + 1)]
    leaves = [(f"leaf{i // 32}", f"gpu[{i + 1}-{min(i + 32, n)}]") for i in range(0, n, 32)]
    yield "one range", [("gpu", f"gpu[1-{n}]", names)], leaves
    step = max(n // 20, 1)
    groups = []
    for g in range(0, n, step):
        part = [f"r{g // step}n{i:03}-ib" for i in range(min(step, n - g))]
        groups.append((f"rack{g // step}", ",".join(part), part))
    yield "every name by itself", groups, [(f"leaf{g[0]}", g[1]) for g in groups]
    few = max(n // 500, 1)
    groups = []
    for g in range(0, n, few):
        k = min(few, n - g)
        groups.append((f"g{g // few}", f"g{g // few}-[00-{k - 1:02}]", [f"g{g // few}-{i:02}" for i in range(k)]))
    yield "hundreds of groups", groups, [(f"l{g[0]}", g[1]) for g in groups]


def expand(hosts):
    """The names of a Slurm host list, in order."""
    out = []
    for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hosts):
        m = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", item)
        if not m:
            out.append(item)
            continue
        for part in m[2].split(","):
            a, _, b = part.partition("-")
            out += [f"{m[1]}{i:0{len(a)}}{m[3]}" for i in range(int(a), int(b or a) + 1)]
    return out


def run(folder, text):
    """Milliseconds and peak kilobytes of one render of everything into a new folder."""
    (folder / "stoker.yaml").write_text(text)
    out = folder / "out"
    subprocess.run(["rm", "-rf", out], check=True)
    start = time.monotonic()
    p = subprocess.Popen([stoker, "render", "all", "-f", "stoker.yaml", "-o", "out"], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, use = os.wait4(p.pid, 0)
    assert status == 0, f"exit status {status}"
    return (time.monotonic() - start) * 1e3, use.ru_maxrss


def slurm_names(folder):
    text = (folder / "out/slurm/slurm.conf").read_text()
    return [n for m in re.finditer(r"^NodeName=(\S+)", text, re.M) if m[1] != "DEFAULT" for n in expand(m[1])]


count = failed = 0


def tap(title, wrong):
    global count, failed
    count += 1
    failed += bool(wrong)
    print(("not ok" if wrong else "ok"), count, "-", title)
    if wrong:
        print("#", wrong)


with tempfile.TemporaryDirectory(prefix="stoker-large.") as name:
    folder = pathlib.Path(name)
    for title, groups, switches in sites():
        text = spec(groups, switches)
        ms, kb = run(folder, text)
        if bench:
            for _ in range(4):
                again, more = run(folder, text)
                ms, kb = min(ms, again), max(kb, more)
            key = "render." + title.replace(" ", "-")
            print(f"RESULT {key}.ms {ms:.4g} ms {SECONDS * 1e3:g} {'ok' if ms <= SECONDS * 1e3 else 'short'}")
            print(f"RESULT {key}.mb {kb / 1024:.4g} MB {MEMORY_MB} {'ok' if kb <= MEMORY_MB * 1024 else 'short'}")
            continue
        tap(f"{machines} machines, {title}: at most {MEMORY_MB} MB",
            "" if sanitized or kb <= MEMORY_MB * 1024 else f"{kb / 1024:.0f} MB")
        want, got = sorted(n for g in groups for n in g[2]), sorted(slurm_names(folder))
        tap(f"{machines} machines, {title}: slurm.conf has each of them once",
            "" if want == got else f"{len(want)} wanted, {len(got)} there: {sorted(set(want) ^ set(got))[:5]}")
if not bench:
    print(f"1..{count}")
sys.exit(failed > 0)

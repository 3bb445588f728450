#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the agent tell the truth about a real GPU?  TAP.

    tests/gpu/agent.py build/stoker [--record DIR] [--seconds N] [--cpus LIST]

Needs an NVIDIA GPU, nvidia-smi and torch.  First every figure that nvidia-smi has too, idle and under a
load: the agent's must lie between what nvidia-smi says before and after it, within nvidia-smi's
rounding; a figure that moves gets several tries.  Then what GPM says of the matrix units, of device
memory and of PCIe under loads of which the answer is known.  With --record, each load is recorded for
`stoker agent --replay`: DIR/CLASS.rec.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TRIES = 6
MIB = 1 << 20
# metric, nvidia-smi's field, what one unit of nvidia-smi is of ours, half a step of its rounding.  Ours is compared
# in nvidia-smi's unit.  Utilisation is averaged by the driver over windows that the two meet at other times.
ROWS = [
    ("gpu.temp", "temperature.gpu", 1, 0), ("gpu.mem.temp", "temperature.memory", 1, 0),
    ("gpu.power", "power.draw", 1, 0.01), ("gpu.power.instant", "power.draw.instant", 1, 0.01),
    ("gpu.power.limit", "enforced.power.limit", 1, 0.01),
    ("gpu.clock.sm", "clocks.sm", 1, 0), ("gpu.clock.mem", "clocks.mem", 1, 0),
    ("gpu.clock.sm.max", "clocks.max.sm", 1, 0), ("gpu.clock.mem.max", "clocks.max.mem", 1, 0),
    ("gpu.util", "utilization.gpu", 1, 1), ("gpu.mem.util", "utilization.memory", 1, 1),
    ("gpu.fb.used", "memory.used", MIB, 1), ("gpu.fb.free", "memory.free", MIB, 1),
    ("gpu.fb.reserved", "memory.reserved", MIB, 1), ("gpu.fb.total", "memory.total", MIB, 1),
    ("gpu.pcie.gen", "pcie.link.gen.gpucurrent", 1, 0), ("gpu.pcie.width", "pcie.link.width.current", 1, 0),
    ("gpu.pcie.gen.max", "pcie.link.gen.gpumax", 1, 0), ("gpu.pcie.width.max", "pcie.link.width.max", 1, 0),
    ("gpu.ecc.sbe.volatile", "ecc.errors.corrected.volatile.total", 1, 0),
    ("gpu.ecc.dbe.volatile", "ecc.errors.uncorrected.volatile.total", 1, 0),
    ("gpu.ecc.sbe.aggregate", "ecc.errors.corrected.aggregate.total", 1, 0),
    ("gpu.ecc.dbe.aggregate", "ecc.errors.uncorrected.aggregate.total", 1, 0),
    ("gpu.remap.correctable", "remapped_rows.correctable", 1, 0), ("gpu.remap.uncorrectable", "remapped_rows.uncorrectable", 1, 0),
    ("gpu.clock_events", "clocks_event_reasons.active", 1, 0), ("gpu.pstate", "pstate", 1, 0),
]
# load: bounds of GPM's figures, of 1 or bytes a second; None is no bound
SANE = {
    "gemm": [("gpu.prof.sm", 0.8, 1.01), ("gpu.prof.tensor", 0.5, 1.01), ("gpu.prof.hmma", 0.5, 1.01), ("gpu.prof.fp64", None, 0.01),
             ("gpu.prof.dram", 0.02, 0.7)],
    "devcopy": [("gpu.prof.dram", 0.6, 1.01), ("gpu.prof.tensor", None, 0.01), ("gpu.prof.graphics", 0.9, 1.01)],
    "h2d": [("gpu.prof.pcie_rx", 10e9, 64e9), ("gpu.prof.tensor", None, 0.01), ("gpu.prof.dram", None, 0.2)],
    "d2h": [("gpu.prof.pcie_tx", 10e9, 64e9), ("gpu.prof.tensor", None, 0.01)],
    "launch": [("gpu.prof.sm", None, 0.1), ("gpu.prof.tensor", None, 0.01)],
}
count = failed = 0


def tap(ok, title, *notes):
    global count, failed
    count += 1
    failed += not ok
    print("ok" if ok else "not ok", count, "-", title, flush=True)
    for n in notes if not ok else ():
        print("#", n)


def number(text):
    text = text.strip()
    try:
        return float(int(text, 16)) if text.startswith("0x") else float(text.lstrip("P"))
    except ValueError:
        return None


def smi():
    fields = ["index"] + [r[1] for r in ROWS]
    out = subprocess.run(["nvidia-smi", "--format=csv,noheader,nounits", "--query-gpu=" + ",".join(fields)], check=True,
                         capture_output=True, text=True).stdout
    return {line.split(",")[0].strip(): dict(zip(fields[1:], map(number, line.split(",")[1:]))) for line in out.strip().splitlines()}


def agent(stoker):
    doc = json.loads(subprocess.run([stoker, "agent", "--once", "--json", "--quiet"], check=True, capture_output=True, text=True).stdout)
    out = {}
    for v in doc["values"]:
        if v["metric"].startswith("gpu.") and "gpu" in v.get("labels", {}):
            out.setdefault(v["labels"]["gpu"], {}).setdefault(v["metric"], v["value"])
    return out


def compare(stoker, state):
    """A figure holds when one of the tries puts it between nvidia-smi's before and after."""
    seen, good = {}, set()
    for _ in range(TRIES):
        before, ours, after = smi(), agent(stoker), smi()
        for gpu in before:
            for metric, field, unit, slack in ROWS:
                a, b, v = before[gpu][field], after.get(gpu, {}).get(field), ours.get(gpu, {}).get(metric)
                key = gpu, metric
                if a is None or b is None:
                    seen[key], held = "nvidia-smi has none", v is None
                else:
                    seen[key] = f"nvidia-smi {a:g} then {b:g}, the agent {'nothing' if v is None else format(v / unit, 'g')}"
                    held = v is not None and min(a, b) - slack <= v / unit <= max(a, b) + slack
                if held:
                    good.add(key)
        if len(good) == len(seen):
            break
    for gpu, metric in seen:
        tap((gpu, metric) in good, f"{state}: GPU {gpu}: {metric}: {seen[gpu, metric]}")


def sane(stoker, kind):
    values = agent(stoker)
    for gpu, v in sorted(values.items())[:1]:  # the load is on the first
        for metric, least, most in SANE.get(kind, []):
            had = v.get(metric)
            ok = had is not None and (least is None or had >= least) and (most is None or had <= most)
            tap(ok, f"{kind}: GPU {gpu}: {metric} is {had if had is None else format(had, '.4g')}, wanted {least or 0:g} to {most:g}")


class Load:
    def __init__(self, args, kind, seconds):
        self.args, self.kind, self.seconds = args, kind, seconds

    def __enter__(self):
        cmd = [sys.executable, "-W", "ignore", str(HERE / "loads.py"), self.kind, str(self.seconds)]
        self.process = subprocess.Popen(cmd + (["--cpus", self.args.cpus] if self.args.cpus else []), stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"agent.py: the load {self.kind} did not start")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def record(args, kind):
    """Starts recording; None: not asked for."""
    if not args.record:
        return None
    return subprocess.Popen([args.stoker, "agent", "--quiet", "--no-history", "--port", "none", "--metrics-port", "none", "--record",
                             str(pathlib.Path(args.record) / f"{kind}.rec"), "--duration", f"{args.seconds}s"])


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("stoker")
    ap.add_argument("--record")
    ap.add_argument("--seconds", type=int, default=20, help="of a recording")
    ap.add_argument("--cpus", help="where loads run: numbers with commas")
    ap.add_argument("--classes", default="idle,gemm,devcopy,h2d,d2h,launch,dataload")
    args = ap.parse_args()
    for kind in args.classes.split(","):
        with Load(args, kind, 600):
            recorder = record(args, kind)
            if kind in ("idle", "gemm"):
                compare(args.stoker, kind)
            sane(args.stoker, kind)
            if recorder and recorder.wait():
                tap(False, f"{kind}: recording")
    print(f"1..{count}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast is the GPU engine?  One table: ours, PyTorch as people run it, PyTorch at its best, the floor.

    bench.py [--device cuda] [--seconds 450] [--rows NAME,...] [--no-torch] [--peers FILE] [--work DIR]

Models are random ones of real shape (models.py).  Forward passes are timed with device events on both sides, ours
also from tokens in host memory to vectors in host memory (`host`).  The floor of one text is the bytes of the
weights over the bandwidth of a copy; that of batches is the operations of the products over the rate that the best
library reaches at those sizes, as measured in the same run.

Rows: xlmr.1x32 … as in the table; also vs_cpu, http, load, swap, invariant.  What the time does not suffice for is
named.  --peers takes the figures of an earlier peers_torch.py --json instead of running it.  Ends in lines
RESULT name value unit target ok|short; the exit status is 1 when one is short.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402
from gpulib import HERE, Budget, EngineFailed, Results, engine, say, stoker_path, work_folder  # noqa: E402

SIXTEEN = ("f16", "bf16")
# RESULT name: model, case, types of which the best counts, kind of figure, at least, stretch
TABLE = {
    "gpu.xlmr.1x32_ms": ("xlmr", "1x32", SIXTEEN, "ms", 0.6, 0.4),
    "gpu.mpnet.1x32_ms": ("mpnet", "1x32", SIXTEEN, "ms", 0.3, 0.2),
    "gpu.minilm.1x32_ms": ("minilm", "1x32", SIXTEEN, "ms", 0.1, 0.06),
    "gpu.xlmr.128x512_tflops": ("xlmr", "128x512", SIXTEEN, "tflops", 540, 570),
    "gpu.xlmr.128x512_fp8_tflops": ("xlmr", "128x512", ("fp8",), "tflops", 760, 850),
    "gpu.xlmr.corpus_mtok": ("xlmr", "corpus", SIXTEEN, "mtok", 0.85, 0.92),
    "gpu.xlmr.corpus_fp8_mtok": ("xlmr", "corpus", ("fp8",), "mtok", 1.2, 1.4),
    "gpu.mpnet.corpus_mtok": ("mpnet", "corpus", SIXTEEN, "mtok", 2.6, 2.9),
    "gpu.minilm.corpus_mtok": ("minilm", "corpus", SIXTEEN, "mtok", 13, 16),
    "gpu.bge.rerank100_ms": ("bge", "100x128", (*SIXTEEN, "fp8"), "ms", 15, 12),
}
UNITS = {"ms": "ms", "tflops": "TFLOP/s", "mtok": "Mtok/s"}
RERANK_RATIO = 1.3  # times the best of PyTorch
ALSO = ["invariant", "vs_cpu", "load", "swap", "http"]
VS_CPU, HTTP_RPS, HTTP_P99_MS, LOAD_S, SWAP_MS = 50, 20000, 10, 1.0, 60
SAMPLE = 32  # every so many-th text of the corpus for the CPU
CLIENTS, CLIENT_PROCESSES, HTTP_SECONDS, HTTP_WINDOWS = 100, 4, 3, 3
SHORT_WORDS = (4, 24)


def lengths_of(case):
    if case == "corpus":
        return models.corpus_lengths()
    count, tokens = map(int, case.split("x"))
    return [tokens] * count


def figure(kind, model, case, ms):
    """What the row is about, from milliseconds."""
    if kind == "ms":
        return ms
    lens = lengths_of(case)
    return models.operations(model, lens) / ms / 1e9 if kind == "tflops" else sum(lens) / ms / 1e3


class Bench:
    def __init__(self, args, budget, results):
        self.args, self.budget, self.results = args, budget, results
        self.work = pathlib.Path(args.work)
        self.peers = {"rows": {}, "rates": {}}
        self.ours = {}  # (model, dtype, case): figures of the engine

    # ---- PyTorch
    def run_torch(self, rows):
        if self.args.peers:
            self.peers = json.loads(pathlib.Path(self.args.peers).read_text())
            return
        if self.args.no_torch or not rows:
            return
        out, seconds = self.work / "peers.json", min(200.0, self.budget.left() - 8)
        command = [sys.executable, str(HERE / "peers_torch.py"), "--rows", ",".join(rows), "--seconds", str(seconds),
                   "--json", str(out)]
        try:
            subprocess.run(command, timeout=seconds + 60, check=True)
            self.peers = json.loads(out.read_text())
        except (subprocess.SubprocessError, OSError) as e:
            self.budget.skip("PyTorch", str(e)[:200])

    def peer_ms(self, kind, model, case):
        of = self.peers["rows"].get(f"{model}.{case}", {}).get(kind, {})
        return min((v["ms"] for v in of.values()), default=None)

    # ---- floors
    def floor_ms(self, model, case, dtypes):
        lens, fp8 = lengths_of(case), "fp8" in dtypes
        if len(lens) == 1:
            copy = self.peers.get("copy_tbs")
            return models.weight_bytes(model, 1 if fp8 else 2) / copy / 1e9 if copy else None
        rates = {k: v["fp8" if fp8 else "bfloat16"] for k, v in self.peers["rates"].items() if "fp8" in v}
        needed = [f"{n}x{k}" for n, k in models.products(model)]
        if any(k not in rates for k in needed) or "8192x8192" not in rates:
            return None
        tokens, layers = sum(lens), models.layers(model)
        linear = sum(2 * tokens * n * k * layers / rates[f"{n}x{k}"] for n, k in models.products(model))
        attention = models.operations(model, lens) - sum(2 * tokens * n * k * layers for n, k in models.products(model))
        return (linear + attention / self.peers["rates"]["8192x8192"]["bfloat16"]) / 1e9

    # ---- ours
    def case_of(self, case):
        return f"@{self.work / 'corpus.lengths'}" if case == "corpus" else case

    def run_ours(self, model, dtype, cases, *more):
        doc = engine(self.args.stoker, self.work / model, "--device", self.args.device, "--dtype", dtype, "--seconds",
                     self.args.each, *more, cases=[self.case_of(c) for c in cases], timeout=max(60, self.budget.left()))
        return dict(zip(cases, doc["cases"]))

    def measure(self, rows):
        wanted = {}
        for model, case, dtypes, *_ in (TABLE[r] for r in rows):
            for dtype in dtypes:
                if not self.args.dtypes or dtype in self.args.dtypes:
                    wanted.setdefault((model, dtype), []).append(case)
        for (model, dtype), cases in wanted.items():
            if not self.budget.fits(f"{model} {dtype}", 2 + (self.args.each + 1) * len(cases)):
                continue
            try:
                found = self.run_ours(model, dtype, cases)
            except EngineFailed as e:
                self.results.add(f"gpu.{model}.{dtype}.failed", 1, "runs", 0, False)
                say(f"# {model} {dtype}: {e}")
                continue
            for case, f in found.items():
                self.ours[model, dtype, case] = f
                device = f"device {f['device_ms']:.4g} ms, " if f["device_ms"] else ""
                say(f"OURS {model}.{case} {dtype}: {device}host {f['ms']:.4g} ms, least {f['ms_least']:.4g}, "
                    f"first {f['first_ms']:.4g}, {f['passes']} passes" + ("" if f["steady"] else ", bits differ"))

    def best_ms(self, model, case, dtypes, key="device_ms"):
        """The fastest type; by the wall where the device has no clock."""
        found = [(f[key] or f["ms"], t) for t in dtypes if (f := self.ours.get((model, t, case)))]
        return min(found, default=(None, None))


# ---- the table

def number(v):
    return "-" if v is None else f"{v:.3g}" if v < 1000 else f"{v:,.0f}"


def table(b, rows):
    lines = [("row", "ours", "host", "eager", "best", "floor", "target", "stretch", "type", "")]
    for name in rows:
        model, case, dtypes, kind, target, stretch = TABLE[name]
        ms, dtype = b.best_ms(model, case, dtypes)
        host, _ = b.best_ms(model, case, dtypes, "ms")
        eager, best = (None, None) if dtypes == ("fp8",) else (b.peer_ms("eager", model, case), b.peer_ms("best", model, case))
        if name == "gpu.bge.rerank100_ms" and best:
            target = min(target, best / RERANK_RATIO)
        shown = [v and figure(kind, model, case, v) for v in (ms, host, eager, best, b.floor_ms(model, case, dtypes))]
        ok = None
        if ms:
            value = shown[0]
            ok = value <= target if kind == "ms" else value >= target
            b.results.add(name, value, UNITS[kind], target, ok, False)
            b.results.add(name.replace("_" + kind, "_host_" + kind), shown[1], UNITS[kind], None, True, False)
            if dtype == "fp8" and dtypes != ("fp8",) and (sixteen := b.best_ms(model, case, SIXTEEN)[0]):
                b.results.add(name.replace("_" + kind, "_16bit_" + kind), figure(kind, model, case, sixteen), UNITS[kind], None,
                              True, False)
        lines.append((name, *map(number, shown), number(target), number(stretch), dtype or "-",
                      "" if ok is None else "ok" if ok else "short"))
    widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
    say("")
    for row in lines:
        say("  ".join(c.ljust(w) if i in (0, 8, 9) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())


# ---- beside it

def invariant(b):
    """What the same bits in every batch cost."""
    cases = ["1x32", "128x512"]
    found = b.run_ours("xlmr", "f16", cases, "--invariant")
    for case, f in found.items():
        if plain := b.ours.get(("xlmr", "f16", case)):
            ratio = (f["device_ms"] or f["ms"]) / (plain["device_ms"] or plain["ms"])
            b.results.add(f"gpu.xlmr.{case}_invariant", ratio, "times", None, True)


def vs_cpu(b):
    """Tokens a second of both, host to host; the CPU's on a part of the corpus."""
    part = sorted(models.corpus_lengths())[SAMPLE // 2::SAMPLE]
    path = b.work / "sample.lengths"
    path.write_text("".join(f"{n}\n" for n in part))
    doc = engine(b.args.stoker, b.work / "xlmr", "--device", "cpu", "--passes", 1, "--no-warmup", "--batch-tokens", 8192,
                 cases=[f"@{path}"], timeout=200)
    cpu = doc["cases"][0]["tokens_per_s"]
    say(f"# CPU: {cpu:.0f} tokens/s on {doc['device']}, {len(part)} texts of {sum(part)} tokens")
    ms, dtype = b.best_ms("xlmr", "corpus", SIXTEEN, "ms")
    if not ms:
        ms = b.run_ours("xlmr", b.args.dtype, ["corpus"])["corpus"]["ms"]
    b.results.add("gpu.cpu.corpus_tok", cpu, "tokens/s", None, True)
    b.results.at_least("gpu.vs_cpu", figure("mtok", "xlmr", "corpus", ms) * 1e6 / cpu, "times", VS_CPU)


def load(b):
    """From a warm page cache to the first vector, the GPU's start included."""
    least = None
    for _ in range(3):
        doc = engine(b.args.stoker, b.work / "xlmr", "--device", b.args.device, "--dtype", b.args.dtype, "--passes", 1, "--no-warmup",
                     cases=["1x32"])
        parts = doc["open_ms"], doc["load_ms"], doc["cases"][0]["first_ms"]
        say("# load: opened in %.0f ms, loaded in %.0f ms, first vector in %.0f ms" % parts)
        least = min(least or sum(parts), sum(parts))
    b.results.at_most("gpu.xlmr.load_s", least / 1e3, "s", LOAD_S)


def swap(b):
    """A model out to host memory and back, where the device has that; its vectors stay what they were."""
    common, saved = (b.work / "xlmr", "--device", b.args.device, "--dtype", b.args.dtype, "--passes", 1, "--no-warmup"), b.work / "swap.npy"
    engine(b.args.stoker, *common, cases=["1x32"], saves=[saved])
    try:
        doc = engine(b.args.stoker, *common, "--swap", cases=["1x32"], checks=[saved])
    except EngineFailed as e:
        return b.budget.skip("swap", str(e).splitlines()[0][:200])
    say(f"# swapped out in {doc['swap_out_ms']:.1f} ms, in again in {doc['swap_in_ms']:.1f} ms")
    if doc["cases"][0]["difference_largest"] != 0:
        raise EngineFailed("a model gives other bits once it was swapped out")
    return b.results.at_most("gpu.xlmr.swap_in_ms", doc["swap_in_ms"], "ms", SWAP_MS)


# ---- HTTP

def short_texts(path):
    rng, words = random.Random(1), models.words()
    path.write_text("".join(" ".join(rng.choices(words, k=rng.randint(*SHORT_WORDS))) + "\n" for _ in range(4096)))


def cpu_lists():
    """Cores for the server and for each client: a quarter is the clients'."""
    cores = sorted(os.sched_getaffinity(0))
    clients = cores[-max(1, min(CLIENT_PROCESSES, len(cores) // 4)):]
    server = cores[:-len(clients)] or cores
    return server, clients


def start_server(b, cores, *more):
    p = subprocess.Popen([b.args.stoker, "serve", "-m", f"m={b.work / 'minilm'}", "--port", "0", "--device", b.args.device,
                          "--dtype", b.args.dtype, *more], stderr=subprocess.PIPE, text=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, cores))
    port, lines = 0, []
    for line in p.stderr:
        lines.append(line.strip())
        found = re.search(r"://[0-9.]+:(\d+)", line)
        port = port or (int(found[1]) if found else 0)
        if line.strip().endswith("ready"):
            return p, f"http://127.0.0.1:{port}"
    raise EngineFailed("the server did not start: " + " | ".join(lines[-4:]))


def drive(b, url, clients, texts):
    """Requests a second of all clients together, the worst of their 99th percentiles, errors."""
    each = CLIENTS // len(clients)
    running = [subprocess.Popen([b.args.stoker, "bench", "serve", url, "--texts", str(texts), "-c", str(each), "--json", "--quiet",
                                 "--warmup", "1s", "--duration", f"{HTTP_SECONDS}s", "--seed", str(i + 1)],
                                stdout=subprocess.PIPE, text=True, preexec_fn=lambda c=core: os.sched_setaffinity(0, {c}))
               for i, core in enumerate(clients)]
    docs = [json.loads(p.communicate(timeout=HTTP_SECONDS + 60)[0])["servers"][0] for p in running]
    busy = max(d["client_cpu_s"] / d["seconds"] for d in docs)
    say(f"# http: {each} clients on each of {len(docs)} cores, the busiest {busy:.0%} busy, p50 "
        f"{max(d['service_time_ms']['p50'] for d in docs):.2f} ms, p99.9 {max(d['service_time_ms']['p99_9'] for d in docs):.2f} ms")
    return (sum(d["requests_per_s"] for d in docs), max(d["service_time_ms"]["p99"] for d in docs),
            sum(d["errors"]["total"] for d in docs))


def http(b):
    server_cores, clients = cpu_lists()
    texts = b.work / "short.txt"
    short_texts(texts)
    server, url = start_server(b, server_cores, *b.args.serve.split())
    try:
        windows = [drive(b, url, clients, texts) for _ in range(HTTP_WINDOWS)]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    rps, p99, _ = sorted(windows, key=lambda w: w[1])[HTTP_WINDOWS // 2]  # others share the machine: the middle one
    errors = sum(w[2] for w in windows)
    b.results.add("gpu.http_p99_ms", p99, "ms", HTTP_P99_MS, p99 < HTTP_P99_MS)
    b.results.add("gpu.http_errors", errors, "requests", 0, errors == 0)
    b.results.add("gpu.http_rps", rps, "requests/s", HTTP_RPS, rps >= HTTP_RPS and p99 < HTTP_P99_MS)


def beside(b, parts):
    for part, seconds in (("load", 3), ("http", HTTP_WINDOWS * (HTTP_SECONDS + 1) + 5), ("vs_cpu", 10), ("swap", 3), ("invariant", 4)):
        if part not in parts or not b.budget.fits(part, seconds):
            continue
        try:
            globals()[part](b)
        except (EngineFailed, subprocess.SubprocessError, ValueError, KeyError, TypeError) as e:
            b.results.add(f"gpu.{part}.failed", 1, "runs", 0, False)
            say(f"# {part}: {type(e).__name__}: {e}")


def short_name(row):
    """gpu.xlmr.128x512_fp8_tflops is asked for as xlmr.128x512_fp8."""
    return row.removeprefix("gpu.").rsplit("_", 1)[0]


def main():
    names = {short_name(r): r for r in TABLE}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stoker", default=stoker_path())
    p.add_argument("--device", default="cuda")
    p.add_argument("--dtype", default="f16", help="of load, swap and http")
    p.add_argument("--dtypes", type=lambda s: s.split(","), help="only these in the table")
    p.add_argument("--seconds", type=float, default=450)
    p.add_argument("--each", type=float, default=0.5, help="seconds for a case of ours")
    p.add_argument("--rows", default=list(names) + ALSO, type=lambda s: s.split(","), help=", ".join([*names, *ALSO]))
    p.add_argument("--no-torch", action="store_true")
    p.add_argument("--peers", metavar="FILE")
    p.add_argument("--serve", default="", help="more options of stoker serve")
    p.add_argument("--work", metavar="DIR", help="where models are written, and kept (default: a folder that goes)")
    args = p.parse_args()
    if unknown := [r for r in args.rows if r not in names and r not in ALSO]:
        p.error(f"no such row: {', '.join(unknown)}")
    keep, args.work = args.work, args.work or tempfile.mkdtemp(dir=work_folder(None).parent, prefix="stoker-gpu-")
    rows = [names[r] for r in args.rows if r in names]
    b = Bench(args, Budget(args.seconds), Results())
    needed = {TABLE[r][0] for r in rows} | {"xlmr" for r in ("invariant", "vs_cpu", "load", "swap") if r in args.rows}
    needed |= {"minilm"} if "http" in args.rows else set()
    try:
        if missing := [m for m in models.MODELS if m in needed and not (b.work / m / "config.json").is_file()]:
            models.write_all(args.work, missing)
        (b.work / "corpus.lengths").write_text("".join(f"{n}\n" for n in models.corpus_lengths()))
        b.measure(rows)
        beside(b, args.rows)
        b.run_torch(list(dict.fromkeys(f"{TABLE[r][0]}.{TABLE[r][1]}" for r in rows)))
        if rows:
            table(b, rows)
    finally:
        if not keep:
            shutil.rmtree(args.work, ignore_errors=True)
    b.results.print_all()
    say(f"# {b.budget.used():.0f} s; skipped: {', '.join(b.budget.skipped) or 'nothing'}")
    return 1 if b.results.failed else 0


if __name__ == "__main__":
    sys.exit(main())

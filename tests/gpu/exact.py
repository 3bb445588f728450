#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is the GPU engine right?  One table of shapes over six models, against our own CPU engine in f32.

    exact.py [--device cuda] [--seconds 450] [--models xlmr,...] [--parts ...] [--real DIR] [--work DIR]

    types      f16, bf16 and fp8 against f32: odd lengths, one token to the most a model has positions for,
               one text to 4,096; all layers up to 4,096 tokens, two of them beyond
    batches    the same texts alone and together: the same bits with --invariant, almost the same without
    sm80       both again with STOKER_SM=80, the kernels of older GPUs
    kernels    every test_* program beside this file
    real       all-MiniLM-L6-v2 itself (--real, or `minilm` beside this file): the ten nearest of 20,000
               sentences for 1,000 queries, against f32
    sanitizer  a small model under compute-sanitizer, where that is installed
    smi        what `stoker detect` says, against nvidia-smi
    faults     a server on one GPU that plays two: its replicas, a worker killed, one that hangs, no memory left

Rows are compared by their angle: vectors of texts, and of all tokens for some shapes; of a reranker those of all
tokens, since a score has no angle: its largest difference stands beside them.  With fp8 bounds hold for what users
get, the vectors of texts and of a reranker the first token's, which its head reads; all tokens are printed.
Ends in lines RESULT name value unit target ok|short; the exit status is 1 when one is short.  Needs numpy, and
torch to write the models fast.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults as serving  # noqa: E402
import models  # noqa: E402
from gpulib import HERE, TOP, Budget, EngineFailed, Results, engine, say, stoker_path, work_folder  # noqa: E402

COSINE = {"f16": 0.9995, "bf16": 0.9995, "fp8": {24: 0.99, 12: 0.99, 6: 0.999, 2: 0.999}}
SAME_COSINE = 0.99999  # of two ways to batch, without --invariant
SCORES = 0.99  # correlation of a reranker's scores
OVERLAP = {"f16": 0.99, "bf16": 0.98, "fp8": 0.97}
QUERIES, SENTENCES, NEAREST, SEED = 1000, 20000, 10, 20240229
TYPES = ("f16", "bf16", "fp8")
PARTS = ["types", "batches", "sm80", "real", "smi", "faults", "kernels", "sanitizer"]
DEEP_MAX = 4096  # tokens through all layers
SIDE_BY_SIDE = 3  # of each of two kinds
BATCHED = ["xlmr", "mpnet", "minilm", "bge"]  # one of each kind

# lengths of the texts of a case; the table of shapes
ODD = [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 191, 255, 257, 383, 511]
FEW = [130, 1, 64, 65, 300, 17, 512, 2]


def shapes(name):
    """(case, lengths, on two layers?) of a model."""
    most = models.config(name)["max_position_embeddings"] - (2 if models.config(name)["pad_token_id"] else 0)
    small = models.config(name)["hidden_size"] < 512
    rng = np.random.default_rng(SEED)
    yield "one", [1], False
    yield "odd", ODD, False
    yield "full", [min(most, DEEP_MAX)], False
    yield "many", rng.integers(1, 9, 4096).tolist(), not small
    yield "batch", rng.integers(1, 513, 32).tolist(), not small
    if most > DEEP_MAX:
        yield "long", [8192], True
        yield "longs", [4097, 1, 513], True


class Run:
    """One run of the tests: options, files, what was found."""

    def __init__(self, args, budget, results):
        self.args, self.budget, self.results = args, budget, results
        self.work = pathlib.Path(args.work)
        self.done, self.cpu, self.sentences = set(), threading.Lock(), None
        for old in [*self.work.glob("*.lengths"), *self.work.glob("*.npy")]:
            old.unlink()

    def file(self, *parts):
        return self.work / ("-".join(parts) + ".npy")

    def case(self, name, case, lengths):
        path = self.work / f"{name}-{case}.lengths"
        if not path.exists():
            part = path.with_suffix(f".{threading.get_ident()}")
            part.write_text("".join(f"{n}\n" for n in lengths))
            part.replace(path)
        return f"@{path}"

    def models(self, names):
        return [m for m in names if m in self.args.models]

    def types(self, of):
        return [t for t in of if t in self.args.dtypes]

    def engine(self, *args, **more):
        return engine(self.args.stoker, *args, timeout=max(20, min(300, self.budget.left() + 60)), **more)


def groups(name):
    """The shapes of a model by the folder they run in: all layers, or two."""
    for cut in (False, True):
        mine = [(c, lens) for c, lens, two in shapes(name) if two == cut]
        if mine:
            yield (f"{name}-2" if cut else name), mine


def scored(name):
    return "Classification" in models.MODELS[name.removesuffix("-2")][0]


def wants(name, mine):
    """(what, cases) to compare: a model's own output for all, the vectors of all tokens for some."""
    yield ("scores" if scored(name) else "vectors"), mine
    deep = ("one", "odd", "full", "long", "longs") if scored(name) else ("odd",)
    if some := [m for m in mine if m[0] in deep]:
        yield "tokens", some


def bound(name, dtype):
    return COSINE["fp8"][models.layers(name)] if dtype == "fp8" else COSINE[dtype]


def reference(run, folder, mine):
    """The vectors of all tokens from the CPU in f32, once for each model and case; one model at a time, since it
    takes all cores."""
    with run.cpu:
        if folder in run.done:
            return
        doc = run.engine(run.work / folder, "--device", "cpu", "--dtype", "f32", "--want", "tokens", "--no-warmup", "--passes",
                         1, cases=[run.case(folder, c, lens) for c, lens in mine], saves=[run.file(folder, c) for c, _ in mine])
        run.done.add(folder)
        say(f"# {folder}: reference in {sum(c['ms'] for c in doc['cases']) / 1e3:.1f} s")


def head_of(path):
    """The tensors of a reranker's head as f64: (weight, bias) of the first layer and of the second."""
    with open(path / "model.safetensors", "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(size))

        def tensor(name):
            at = head[name]["data_offsets"]
            f.seek(8 + size + at[0])
            return np.frombuffer(f.read(at[1] - at[0]), np.float16).astype(np.float64).reshape(head[name]["shape"])
        names = ("classifier.dense", "classifier.out_proj") if "classifier.dense.weight" in head else ("bert.pooler.dense",
                                                                                                     "classifier")
        return [(tensor(n + ".weight"), tensor(n + ".bias")) for n in names]


def expected(run, folder, want, case, lens):
    """What should come out, from the reference's tokens."""
    tokens = np.load(run.file(folder, case))
    if want == "tokens":
        return tokens
    starts = np.concatenate([[0], np.cumsum(lens)[:-1]])
    if want == "vectors":
        return unit(np.add.reduceat(tokens.astype(np.float64), starts) / np.array(lens)[:, None])
    (w1, b1), (w2, b2) = head_of(run.work / folder)
    return np.tanh(tokens[starts].astype(np.float64) @ w1.T + b1) @ w2.T + b2


def unit(v):
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12)


def angles(got, want):
    """Of two arrays of rows: the least cosine, the same without the rows' mean, the share of rows that are nearer
    to their own counterpart than to any other, and how near two different rows come.  Random weights give vectors
    that are much alike, so that the first says little about texts that were taken for one another."""
    a, b = unit(got.astype(np.float64)), unit(want.astype(np.float64))
    least, centred, own, apart = float((a * b).sum(1).min()), np.nan, np.nan, np.nan
    if len(b) >= 8:
        mean = want.mean(0, dtype=np.float64)
        centred = float((unit(got - mean) * unit(want - mean)).sum(1).min())
    if 2 <= len(b) <= 4096:
        all_of = (a.astype(np.float32) @ b.astype(np.float32).T) - 1
        exact = (a * b).sum(1) - 1  # f32 cannot tell the nearest ones apart
        np.fill_diagonal(all_of, -np.inf)
        own, apart = float((exact >= all_of.max(1) - 1e-6).mean()), 1 + float(all_of.max())
    return least, centred, own, apart


def compare_case(run, folder, want, case, lens, dtype, label):
    path = run.file("got", label + folder, dtype, want, case)
    got, ref = np.load(path), expected(run, folder, want, case, lens)
    path.unlink()
    name, differ = f"gpu.exact.{label}{folder}.{dtype}", float(np.abs(got.astype(np.float64) - ref).max())
    head = f"# {name} {case}, {want}: {len(lens)} texts, {sum(lens)} tokens: largest difference {differ:.3g}"
    if want == "scores":
        alike = float(np.corrcoef(got[:, 0], ref[:, 0])[0, 1]) if len(ref) >= 8 else np.nan
        say(f"{head} of {float(np.abs(ref).max()):.3g}, correlation {alike:.6f}")
        if dtype != "fp8" and not np.isnan(alike):
            run.results.least(f"{name}.scores", alike, "correlation", SCORES)
        return run.results.greatest(f"{name}.score_diff", differ, "max", None)
    least, centred, own, apart = angles(got, ref)
    say(f"{head}, cosine {least:.7f}, centred {centred:.5f}, own {own:.4f}, apart {apart:.5f}")
    if dtype == "f16" and want == "vectors" and not np.isnan(own):  # coarser types can come nearer to a neighbour
        run.results.least(f"{name}.own", own, "share", 1)
    if want == "tokens" and dtype == "fp8":  # bound is what users get: below, and vectors of whole texts
        run.results.least(f"{name}.tokens", least, "cosine", None)
        if not scored(folder):
            return None
        rows, want = np.concatenate([[0], np.cumsum(lens)[:-1]]), "first"  # what the head of a reranker reads
        least = angles(got[rows], ref[rows])[0]
        say(f"# {name} {case}, first tokens: cosine {least:.7f}")
    run.results.greatest(f"{name}.{want}_diff", differ, "max", None)
    return run.results.least(f"{name}.{want}", least, "cosine", bound(folder, dtype))


def compare(run, folder, mine, dtype, label, env):
    for want, cases in wants(folder, mine):
        doc = run.engine(run.work / folder, "--device", run.args.device, "--dtype", dtype, "--want", want, "--no-warmup",
                         "--passes", 3, cases=[run.case(folder, c, lens) for c, lens in cases], env=env,
                         saves=[run.file("got", label + folder, dtype, want, c) for c, _ in cases])
        for (case, lens), figures in zip(cases, doc["cases"]):
            compare_case(run, folder, want, case, lens, dtype, label)
            if not figures["steady"]:
                say(f"# {label}{folder} {case} {dtype}: passes differ in their bits")


def guarded(run, what, fn):
    """A run that fails is short, and leaves the others."""
    try:
        fn()
    except (EngineFailed, OSError, ValueError, subprocess.SubprocessError) as e:
        run.results.add(f"{what}.failed", 1, "runs", 0, False)
        say(f"# {what}: {e}")


def types_of(run, name, label, env, dtypes):
    for folder, mine in groups(name):
        if not run.budget.fits(f"types {label}{folder}", 10):
            continue
        guarded(run, f"gpu.exact.{label}{folder}.reference", lambda: reference(run, folder, mine))
        for dtype in run.types(dtypes):
            if run.budget.fits(f"types {label}{folder} {dtype}", 5):
                guarded(run, f"gpu.exact.{label}{folder}.{dtype}", lambda: compare(run, folder, mine, dtype, label, env))


def types(run):
    return [lambda name=name: types_of(run, name, "", None, TYPES) for name in run.args.models]


def alone_and_together(run, name, dtype, label, env, invariant):
    """Bits, or angle, of the texts in one batch and each by itself."""
    want = "tokens" if scored(name) else "vectors"
    lens = {"few": FEW, "odd": ODD}
    how = ["--invariant"] if invariant else []
    files = [run.file("together", label + name, dtype, str(invariant), c) for c in lens]
    cases = [run.case(name, c, n) for c, n in lens.items()]
    common = [run.work / name, "--device", run.args.device, "--dtype", dtype, "--want", want, "--no-warmup", "--passes", 1, *how]
    run.engine(*common, cases=cases, saves=files, env=env)
    for tokens in (1, 600):  # alone, then in batches of some
        doc = run.engine(*common, "--batch-tokens", tokens, cases=cases, checks=files, env=env)
        what = f"gpu.{'invariant' if invariant else 'batches'}.{label}{name}.{dtype}.{'alone' if tokens == 1 else 'parts'}"
        differ, cosine = max(c["difference_largest"] for c in doc["cases"]), min(c["cosine_least"] for c in doc["cases"])
        say(f"# {what}: cosine {cosine:.8f}, largest difference {differ:.3g}")
        if invariant:
            run.results.greatest(what.rsplit(".", 1)[0], differ, "max", 0)
        else:
            run.results.least(what.rsplit(".", 1)[0], cosine, "cosine", SAME_COSINE)


def batches_of(run, name, label, env, dtypes):
    for dtype in run.types(dtypes):
        for invariant in (True, False):
            what = f"gpu.{'invariant' if invariant else 'batches'}.{label}{name}.{dtype}"
            if run.budget.fits(what, 5):
                guarded(run, what, lambda: alone_and_together(run, name, dtype, label, env, invariant))


def batches(run):
    return [lambda name=name: batches_of(run, name, "", None, TYPES) for name in run.models(BATCHED)]


def sm80(run):
    older = {"STOKER_SM": "80"}
    return [lambda name=name: types_of(run, name, "sm80.", older, ("f16", "bf16")) for name in run.args.models] + \
           [lambda name=name: batches_of(run, name, "sm80.", older, ("f16",)) for name in run.models(BATCHED)]


def kernels(run):
    programs = sorted(p for p in HERE.glob("test_*") if p.suffix == "" and os.access(p, os.X_OK))
    for p in programs:
        if not run.budget.fits(f"kernels {p.name}", 12):
            continue
        try:
            out = subprocess.run([p, "quick"], capture_output=True, text=True, timeout=60)
            tail, bad = (out.stdout + out.stderr).strip().splitlines()[-1:], out.returncode != 0
        except subprocess.TimeoutExpired:
            tail, bad = ["no end within 60 s"], True
        say(f"# {p.name}: {' '.join(tail)}")
        run.results.add(f"gpu.kernel.{p.name.removeprefix('test_')}", int(bad), "failures", 0, not bad, False)
    if not programs:
        run.budget.skip("kernels", "no test_* programs beside this file")


# ---- real weights

def gather_sentences(path):
    """Begins to write the texts beside everything else: it takes a while, and one core."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import exact, pathlib; " \
           "sys.exit(0 if exact.write_sentences(pathlib.Path(sys.argv[2])) else 1)"
    return subprocess.Popen([sys.executable, "-c", code, str(HERE), str(path)])


def write_sentences(path):
    """Texts of the documentation that this Python brings along; False when there are too few."""
    sys.path.insert(0, str(TOP / "tests/parity"))
    import vectors
    texts = vectors.sentences()
    if len(texts) < QUERIES + SENTENCES:
        return False
    picked = np.random.default_rng(SEED).choice(len(texts), QUERIES + SENTENCES, replace=False)
    path.write_text("".join(texts[i] + "\n" for i in picked), encoding="utf-8")
    return True


def embed(run, folder, texts, device, dtype):
    out = run.work / f"real-{device}-{dtype}.npy"
    done = subprocess.run([run.args.stoker, "embed", "-m", str(folder), "--device", device, "--dtype", dtype, "--format", "npy",
                           "--batch-tokens", "32768", "--quiet", "--force", "-o", str(out), str(texts)],
                          capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise EngineFailed(done.stderr.strip()[-400:])
    return np.load(out)


def nearest(v):
    scores = v[:QUERIES] @ v[QUERIES:].T
    return np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST]


def real(run):
    folder = pathlib.Path(run.args.real) if run.args.real else TOP / "minilm"
    if not (folder / "model.safetensors").is_file():
        return run.budget.skip("real", f"no all-MiniLM-L6-v2 in {folder}")
    if not run.budget.fits("real", 60):
        return None
    texts = run.work / "sentences.txt"
    if run.sentences.wait() != 0:
        return run.budget.skip("real", "too few sentences on this machine")

    def compare_all():
        with run.cpu:
            want = embed(run, folder, texts, "cpu", "f32")
        for dtype in run.types(TYPES):
            got = embed(run, folder, texts, run.args.device, dtype)
            share = np.mean([len(set(a) & set(b)) for a, b in zip(nearest(want), nearest(got))]) / NEAREST
            run.results.at_least(f"gpu.real.{dtype}.top{NEAREST}", share, "share", OVERLAP[dtype])
            run.results.add(f"gpu.real.{dtype}.cosine", float((want * got).sum(1).min()), "min", None, True)
    return guarded(run, "gpu.real", compare_all)


def sanitizer(run):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).is_file():
        return run.budget.skip("sanitizer", "compute-sanitizer is not installed")
    case = run.case("minilm-2", "sanitizer", [1, 7, 65, 130])
    for kind in ("memcheck", "racecheck"):
        for dtype in run.types(("f16", "fp8")):
            if not run.budget.fits(f"sanitizer {kind} {dtype}", 30):
                continue
            try:
                out = subprocess.run([tool, "--tool", kind, "--error-exitcode", "99", run.args.stoker, "bench", "engine",
                                      str(run.work / "minilm-2"), "--device", run.args.device, "--dtype", dtype, "--case", case,
                                      "--no-warmup", "--passes", "2"], capture_output=True, text=True, timeout=120)
                bad, log = out.returncode != 0, (out.stdout + out.stderr).strip().splitlines()
            except subprocess.TimeoutExpired:
                bad, log = True, ["no end within 120 s"]
            for line in log[:12] if bad else log[-1:]:
                say(f"# {kind} {dtype}: {line[:200]}")
            run.results.add(f"gpu.sanitizer.{kind}.{dtype}", int(bad), "failures", 0, not bad, False)
    return None


def smi(run):
    if not shutil.which("nvidia-smi"):
        return run.budget.skip("smi", "nvidia-smi is not installed")
    out = subprocess.run([sys.executable, str(HERE / "compare-smi.py"), run.args.stoker], capture_output=True, text=True, timeout=60)
    for line in (out.stdout + out.stderr).strip().splitlines()[-6:]:
        say(f"# smi: {line}")
    run.results.add("gpu.smi", out.returncode, "status", 0, out.returncode == 0, False)
    return None


def faults(run):
    if run.budget.fits("faults", 40):
        guarded(run, "gpu.faults", lambda: serving.run_all(run))


def run_parts(run, parts):
    """Whole models first, side by side, since a right answer does not take its time; what waits for the CPU's
    reference in threads of its own.  Then the rest, one by one."""
    waiting = [t for part in ("types",) if part in parts for t in types(run)]
    others = [t for part in ("batches", "sm80") if part in parts for t in globals()[part](run)]
    others += [lambda: real(run)] if "real" in parts else []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as first, ThreadPoolExecutor(SIDE_BY_SIDE) as second:
        done = [first.submit(t) for t in waiting] + [second.submit(t) for t in others]
        for f in done:
            f.result()
    say(f"# models: {run.budget.used():.1f} s")
    for part in parts:
        if part in ("kernels", "sanitizer", "smi", "faults"):
            start = run.budget.used()
            globals()[part](run)
            say(f"# {part}: {run.budget.used() - start:.1f} s")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stoker", default=stoker_path())
    p.add_argument("--device", default="cuda")
    p.add_argument("--seconds", type=float, default=450)
    p.add_argument("--models", default="bge,xlmr,mpnet,minilm,marco,sbert", type=lambda s: s.split(","))
    p.add_argument("--parts", default=PARTS, type=lambda s: s.split(","))
    p.add_argument("--dtypes", default=TYPES, type=lambda s: s.split(","))
    p.add_argument("--real", metavar="DIR")
    p.add_argument("--work", metavar="DIR", help="where models are written, and kept (default: a folder that goes)")
    args = p.parse_args()
    keep, args.work = args.work, args.work or tempfile.mkdtemp(dir=work_folder(None).parent, prefix="stoker-gpu-")
    budget, results, run = Budget(args.seconds), Results(), None
    try:
        missing = [m for m in args.models if not (pathlib.Path(args.work) / m / "config.json").is_file()]
        if missing:
            models.write_all(args.work, missing)
        run = Run(args, budget, results)
        if "real" in args.parts:
            run.sentences = gather_sentences(run.work / "sentences.txt")
        run_parts(run, args.parts)
    finally:
        if run and run.sentences:
            run.sentences.kill()
        if not keep:
            shutil.rmtree(args.work, ignore_errors=True)
    results.print_all()
    say(f"# {budget.used():.0f} s; skipped: {', '.join(budget.skipped) or 'nothing'}")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast `stoker embed` is beside onnxruntime, sentence-transformers and llama.cpp: one machine, one run.

    tests/bench/bench_embed.py build/stoker build/tests/measure [--model DIR|NAME] [options]

Cases: 4,096 texts of log-normal length (median 90 tokens, cap 512) through all-MiniLM-L6-v2; one text
of 16 tokens at a time through it; 8 texts of 128 and one of 32 through an XLM-R-large of 24 layers whose
random weights and cut vocabulary are made here.  Then the start of the program, and its memory.

Every contender is a process with its model loaded.  In each round every one runs for the same time, one
after the other while the rest are stopped, in an order that turns, so that a slow phase of the machine
meets all alike.  A slice's rate is all of its tokens by all of its time.  Figures are medians over the
rounds; a ratio is the median of the rounds' ratios.  Tokens for each second of CPU time (waiting threads
that spin included) are told beside them, which other work on the machine disturbs less.  Tokenising is included on both sides.  Ours is timed
from here, the pipe to it and back included; a peer times itself, from Python strings to vectors.

Peers need Python packages: onnxruntime, tokenizers and numpy (with torch, transformers and onnx to make
the graphs, or --prepared), and torch with sentence-transformers; llama.cpp needs --llama or llama-server
on PATH, and --gguf.  What is missing is said and left out; our own figures are printed all the same.

For a machine without network and without `onnx`: --prepare DIR makes a folder to carry there (46 MB),
--prepared DIR uses it.

On the machine whose figures of onnxruntime are known, a ratio is void when it has less than 0.7 of them: then
the machine, or the peer, was not itself.  It is judged as those figures were taken: without tokenising, the best
sample of a fifth of a second or more.  Those of XLM-R are the time of 4 layers, which stay in the cache, times
six, so a short slice of each round runs the same graph with 4 layers, and its time times six is what is
compared.  The ratios are medians, with tokenising, and of 24 real layers on both sides.

Ends with one line a figure: RESULT name value unit target ok|short|void.  Ratios are those of
--ours; `best` takes for each the fastest of our types, all of which hold their bound of exactness
(make parity), and names it.
"""
import argparse
import atexit
import fcntl
import importlib.util
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import bench_graphs
import bench_models
import bench_peers

MEDIAN, SIGMA, SEED = 90, 0.7, 20240229
TOKENS_MAX = bench_peers.TOKENS_MAX
PIPE_BYTES = 1 << 20
WARM_CALLS, CHECKED_TOKENS, COSINE_MIN = 3, 1024, 0.99
BATCHES = (4, 8, 16, 32)
TARGETS = {"minilm.corpus": (6, 2.8), "minilm.1x16": (3.5, 1.8), "xlmr.8x128": (6, 1.5), "xlmr.1x32": (4, 1.0)}
# Tokens/s of onnxruntime f32 and int8 (node 1.30, 2 threads) on the machine of the targets: 2 CPUs of family 6,
# model 207 with AMX.  Where its corpus int8 was given as 10.2k to 14.3k the middle stands here.  A run below 0.7
# of them is void on that machine.  They are the best of samples of 0.2 to 1 s of the engine alone, on ready tokens:
# that machine has phases of half its speed, so the best sample is compared.  The XLM-R figures are the time of 4 layers times six.  At 1x32 these stay in the
# cache, while 24 layers of int8 are 302 MB to read for each text: a sound peer has half of the figure.  So 4
# layers times six are measured in the same rounds, and only they are held against it.
KNOWN_CPU, VOID_BELOW = (6, 207, 2), 0.7
KNOWN_LAYERS = {"xlmr": 4}
HEALTH_SECONDS = 0.5
SAMPLE_SECONDS = 0.2
KNOWN = {"minilm.corpus": (7082, 12250), "minilm.1x16": (7733, 14782), "xlmr.8x128": (363, 1543), "xlmr.1x32": (278, 1631)}
ORT = ("ort_f32", "ort_int8")
results, running = [], []


def say(text):
    print(text, flush=True)


def result(name, value, unit, target, least=True, void=False):
    ok = value >= target if least else value <= target
    results.append(f"RESULT {name} {value:.4g} {unit} {target:g} {'void' if void else 'ok' if ok else 'short'}")


def model_dir(name):
    """The folder of a model: as it is, or where `stoker model get` puts it."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    for path in (pathlib.Path(name), pathlib.Path(home) / "stoker/models" / name):
        if (path / "config.json").exists():
            return path
    return None


def cpu():
    """Model name, and what KNOWN_CPU is compared with."""
    info = dict(re.findall(r"^([^\t\n]+)\t*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0], re.M))
    return info.get("model name", "unknown CPU"), (int(info.get("cpu family", 0)), int(info.get("model", 0)))


# ---- texts
def corpus(words, count, rng):
    """Sentences of real words: capitals, commas, stops, and now and then a word of several tokens."""
    texts = []
    for _ in range(count):
        left = min(TOKENS_MAX, max(3, round(rng.lognormvariate(math.log(MEDIAN), SIGMA)))) - 2
        text, start = [], True
        while left > 0:
            word = rng.choice(words)
            if rng.random() < 0.04 and left > 3:
                word, left = word + rng.choice(words), left - 1
            text.append(word.capitalize() if start else word)
            left, start = left - 1, False
            if left > 0 and rng.random() < 0.12:
                start = rng.random() < 0.6
                text[-1] += "." if start else ","
                left -= 1
        texts.append(" ".join(text))
    return texts


def exact(words, length, rng):
    return " ".join(rng.choices(words, k=length - 2))


def token_counts(args, folder, texts):
    out = subprocess.run([args.stoker, "tokenize", "-m", str(folder), "--ids", "--max", str(TOKENS_MAX)], check=True,
                         input="".join(t + "\n" for t in texts), capture_output=True, text=True).stdout
    return [len(line.split()) for line in out.splitlines()]


# ---- contenders: start(), then run(groups, seconds, batch) -> seconds of each call
class Contender:
    batch = 32
    about = ""
    slice_max = math.inf

    def start(self, cmd, **kw):
        self.process = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=bench_peers.end_with_parent, **kw)
        running.append(self)

    def cpu_seconds(self):
        """Of the process, all threads; a server that a peer asks is not counted."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def signal(self, number):
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


class Us(Contender):
    """One `stoker embed` that answers through a pipe."""

    def __init__(self, args, folder, dtype):
        self.name = f"stoker_{dtype}"
        self.width = json.loads((folder / "config.json").read_text())["hidden_size"]
        base = [args.stoker, "embed", "-m", str(folder), "--max-tokens", str(TOKENS_MAX), "--dtype", dtype, "--threads", str(args.threads),
                "--format", "raw"]
        said = subprocess.run(base, input=b"a\n", capture_output=True, check=True).stderr.decode()
        self.about = f"stoker, {re.search(r'.*[(](.*?)[)]', said)[1]}"
        self.dtype = (re.findall("f32|bf16|int8", self.about) or ["f32"])[-1]
        self.start([*base, "--quiet"], bufsize=0)
        for pipe in (self.process.stdin, self.process.stdout):
            fcntl.fcntl(pipe, 1031, PIPE_BYTES)  # F_SETPIPE_SZ: a group is in the pipe before it is read

    def encode(self, texts):
        out = bytearray(len(texts) * self.width * 4)
        view = memoryview(out)
        sent = ("\n".join(texts) + "\n").encode()
        assert len(sent) <= PIPE_BYTES
        self.process.stdin.write(sent)
        while view:
            got = self.process.stdout.readinto(view)
            if not got:
                sys.exit(f"{self.name}: 'stoker embed' ended with status {self.process.wait()}")
            view = view[got:]
        return out

    def run(self, groups, seconds, _batch):
        times, until = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < until:
            begun = time.perf_counter()
            self.encode(groups[len(times) % len(groups)])
            times.append(time.perf_counter() - begun)
        self.inside = times  # a peer tells here what it took without tokenising
        return times

    def vectors(self, texts):
        flat = memoryview(self.encode(texts)).cast("f")
        return [flat[i * self.width:(i + 1) * self.width].tolist() for i in range(len(texts))]


class Gone(Exception):
    """A peer that cannot run, with the reason."""

    def __init__(self, why, peer=None):
        super().__init__(why)
        self.peer = peer


class Peer(Contender):
    def __init__(self, args, name, *what):
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")
        self.start([sys.executable, "-W", "ignore", str(pathlib.Path(__file__).with_name("bench_peers.py")), name, str(args.threads),
                    *map(str, what)], stderr=self.errors, text=True)
        self.about = self.answer()["about"]

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or [""])[-1]
        raise Gone(f"signal {-status}" if status < 0 else last[:200] or f"status {status}", self)

    def ask(self, **what):
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass
        return self.answer()

    def run(self, groups, seconds, batch):
        got = self.ask(groups=groups, seconds=seconds, batch=batch)
        self.inside = got["inside"]
        return got["times"]

    def vectors(self, texts):
        return self.ask(groups=[texts], seconds=0, batch=8, vectors=True)["vectors"]

    def counts(self, texts):
        return self.ask(count=texts)["tokens"]


class Health(Peer):
    """A peer on the first layers of its graph: tells whether the machine is itself, and is compared with nobody."""
    slice_max = HEALTH_SECONDS

    def __init__(self, args, peer, layers, *what):
        super().__init__(args, peer, *what)
        self.name, self.about = health_name(peer, layers), f"{layers} layers only, {self.about}"


def health_name(peer, layers):
    return f"{peer}_{layers}"


def stop_all():
    for c in running:
        c.signal(signal.SIGCONT)
        c.signal(signal.SIGKILL)
    running.clear()


def contenders(args, label, folder, graphs):
    """Those that can run here; a line for each that cannot."""
    out = [Us(args, folder, d) for d in args.dtypes.split(",")]
    wanted = [(n, lambda n=n: (folder, graphs())) for n in ORT] + [(n, lambda: (folder,)) for n in ("st_f32", "st_bf16")]
    if label == "minilm" and args.gguf:
        wanted += [("llama_" + str(i), lambda g=g: (g, args.llama)) for i, g in enumerate(args.gguf)]
    for name, what in wanted:
        if args.peers != "all" and name not in args.peers.split(","):
            continue
        try:
            if name.startswith("llama") and not args.llama:
                raise Gone("no llama-server: give --llama")
            out.append(Peer(args, name, *what()))
        except Gone as e:
            say(f"{name}: left out: {e}")
    layers = KNOWN_LAYERS.get(label)
    for name in [c.name for c in out if c.name in ORT and layers]:
        try:
            out.append(Health(args, name, layers, folder, graphs(layers)))
        except Gone as e:
            say(f"{health_name(name, layers)}: left out: {e}")
    for c in out:
        c.signal(signal.SIGSTOP)
    return out


class Awake:
    """A contender goes on for a while."""

    def __init__(self, contender):
        self.contender = contender

    def __enter__(self):
        self.contender.signal(signal.SIGCONT)
        return self.contender

    def __exit__(self, *_):
        self.contender.signal(signal.SIGSTOP)


# ---- checks before measuring
def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def check_vectors(label, those, texts, counts):
    """All must do the same work: the same tokens and, within their types, the same vectors."""
    judge = next((c for c in those if c.name == "ort_f32"), None)
    if not judge:
        return set()
    some = texts[:max(1, sum(sum(counts[:i + 1]) <= CHECKED_TOKENS for i in range(min(len(texts), 64))))]
    with Awake(judge):
        theirs = judge.counts(texts)
        want = judge.vectors(some)
    if theirs != counts:
        sys.exit(f"{label}: {sum(a != b for a, b in zip(theirs, counts))} texts have another number of tokens than the peer says")
    wrong = set()
    for c in those:
        if isinstance(c, Health):
            continue
        with Awake(c):
            least = min(map(cosine, c.vectors(some), want))
        c.cosine = least
        if isinstance(c, Us) and not least >= COSINE_MIN:
            say(f"{label}: {c.name}'s vectors are not the peer's: cosine {least:.4f}")
            wrong.add(c.name)
    return wrong


def tune(label, those, texts, counts):
    """A peer runs with the batch size that suits it best."""
    for c in those:
        if isinstance(c, Us):
            continue
        with Awake(c):
            c.run([texts[:8]], 0, 8)
            rates = {b: sum(counts) / sum(c.run([texts], 0, b)) for b in BATCHES}
        c.batch = max(rates, key=rates.get)
        say(f"{label}: {c.name} runs with batches of {c.batch}: " + ", ".join(f"{b}: {r:.0f}" for b, r in rates.items()) + " tokens/s")


# ---- rounds
def best_sample(done, inside):
    """The highest tokens/s of consecutive calls that last SAMPLE_SECONDS together; one long call is a sample too."""
    best, tokens, seconds = 0.0, 0, 0.0
    for n, s in zip(done, inside):
        tokens, seconds = tokens + n, seconds + s
        if seconds >= SAMPLE_SECONDS:
            best, tokens, seconds = max(best, tokens / seconds), 0, 0.0
    return best


def rounds(args, those, count, seconds, groups, tokens, warm):
    """speeds[name][round].  `groups` of texts are run in turn; each contender goes on where it was."""
    speeds, at = {c.name: [] for c in those}, {c.name: 0 for c in those}
    for c in those:
        c.by_cpu, c.best = [], 0.0
        with Awake(c):  # one call of the slowest may outlast a slice: then all run as long
            seconds = max(seconds, *c.run(groups[:1], 0, c.batch))
    say(f"slices of {seconds:.1f} s, {count} rounds")
    for i in range(count):
        for c in those[i % len(those):] + those[:i % len(those)]:
            with Awake(c):
                for _ in range(warm):
                    c.run(groups[:1], 0, c.batch)
                cpu_begun = c.cpu_seconds()
                if warm:
                    times = c.run(groups, min(seconds, c.slice_max), c.batch)
                    done = [tokens[k % len(groups)] for k in range(len(times))]
                    inside = list(c.inside)
                else:
                    times, done, inside = [], [], []
                    while sum(times) < seconds:
                        k = at[c.name] % len(groups)
                        times += c.run([groups[k]], 0, c.batch)
                        inside += c.inside
                        done.append(tokens[k])
                        at[c.name] += 1
                c.best = max(c.best, best_sample(done, inside))
                c.by_cpu.append(sum(done) / max(c.cpu_seconds() - cpu_begun, 0.01))
            speeds[c.name].append(sum(done) / sum(times))
    return speeds


def health(label, peer, those):
    """What of a peer is held against its known figure: tokens/s, measured as that was."""
    best, layers = {c.name: c.best for c in those}, KNOWN_LAYERS.get(label.partition(".")[0])
    if not layers:
        return best[peer]
    real, few = bench_models.XLMR["num_hidden_layers"], best.get(health_name(peer, layers))
    scaled = few * layers / real if few else best[peer]
    say(f"{label:>13} {peer:>12} has {best[peer]:.0f} tokens/s at best with {real} real layers; the known figure is {layers} layers' " +
        f"time times {real // layers}, " + (f"and so measured it has {scaled:.0f}" if few else f"which was not measured: the {real} stand for it"))
    return scaled


def report(args, label, those, speeds, wrong):
    for c in those:
        v = speeds[c.name]
        paid = "" if c.name.startswith("llama") else f", {statistics.median(c.by_cpu):.0f} a CPU second"
        close = f"cosine {c.cosine:.4f}, " if getattr(c, "cosine", None) else ""
        say(f"{label:>13} {c.name:>12} {statistics.median(v):9.0f} tokens/s ({min(v):.0f} to {max(v):.0f}{paid})  {close}{c.about}")
    ratio = {}
    for us in (c.name for c in those if isinstance(c, Us)):
        for peer in (c.name for c in those if not isinstance(c, (Us, Health))):
            ratio[us, peer] = statistics.median(a / b for a, b in zip(speeds[us], speeds[peer]))
        if len(ratio):
            say(f"{label:>13} {us:>12} is " + ", ".join(f"{r:.2f} x {p}" for (u, p), r in ratio.items() if u == us))
    name, kind = cpu()
    for peer, target, known in zip(ORT, TARGETS[label], KNOWN[label]):
        if peer not in speeds:
            continue
        had, same = health(label, peer, those), (*kind, args.threads) == KNOWN_CPU
        low = had < VOID_BELOW * known
        say(f"{label:>13} {peer:>12} has {had:.0f} at best, without tokenising: {had / known:.2f} of the {known} tokens/s known " +
            (f"of this machine{': void' if low else ''}" if same else f"of 2 Xeon CPUs with AMX; this is another machine ({name})"))
        mine = [c.name for c in those if isinstance(c, Us) and c.name not in wrong and (args.ours == "best" or c.name == f"stoker_{args.ours}")]
        us = max(mine, key=lambda u: ratio[u, peer], default=None)
        if us and args.ours == "best":
            say(f"{label:>13} {peer:>12} is compared with {us}")
        result(f"embed.{label}.vs_{peer}", ratio[us, peer] if us else math.nan, "x", target, void=(low and same) or not us)


def bench_corpus(args, label, those, folder, words):
    texts = corpus(words, args.texts, random.Random(SEED))
    counts = token_counts(args, folder, texts)
    say(f"{label:>13} {len(texts)} texts, {sum(counts)} tokens, median {statistics.median(counts):.0f}, longest {max(counts)}")
    wrong = check_vectors(label, those, texts, counts)
    tune(label, those, texts[:args.tune], counts[:args.tune])
    size = min(args.chunk, len(texts))
    groups = [texts[i:i + size] for i in range(0, len(texts) - size + 1, size)]
    tokens = [sum(counts[i * size:(i + 1) * size]) for i in range(len(groups))]
    report(args, label, those, rounds(args, those, args.rounds, args.corpus_seconds, groups, tokens, 0), wrong)


def bench_shape(args, label, those, folder, words, batch, length, seconds):
    rng = random.Random(SEED)
    groups = [[exact(words, length, rng) for _ in range(batch)] for _ in range(16)]
    flat = [t for g in groups for t in g]
    if set(token_counts(args, folder, flat)) != {length}:
        sys.exit(f"{label}: texts that are not {length} tokens long")
    wrong = check_vectors(label, those, flat, [length] * len(flat))
    for c in those:
        c.batch = batch
    speeds = rounds(args, those, args.rounds, seconds, groups, [batch * length] * len(groups), WARM_CALLS if batch == 1 else 1)
    report(args, label, those, speeds, wrong)


# ---- start and memory
def packed_bytes(args, folder, dtype):
    """Bytes of the packed weights: as many numbers as `stoker model info` counts, by the type; None when it is not told."""
    p = subprocess.run([args.stoker, "model", "info", "--json", str(folder)], capture_output=True, text=True)
    try:
        return json.loads(p.stdout)["parameters"] * {"f32": 4, "bf16": 2}[dtype]
    except (ValueError, KeyError, TypeError):
        return None


def bench_start(args, folder, words, dtype):
    """From exec to the end of a process that makes one vector, files in the page cache; the largest
    resident set of one that embeds the corpus, less the weights it packed."""
    base = [args.stoker, "embed", "-m", str(folder), "--quiet", "--max-tokens", str(TOKENS_MAX), "--threads", str(args.threads),
            "--dtype", dtype, "--format", "raw", "-o", "/dev/null"]
    with tempfile.TemporaryDirectory() as d:
        one, many = pathlib.Path(d) / "one", pathlib.Path(d) / "many"
        one.write_text("hello world\n")
        many.write_text("".join(t + "\n" for t in corpus(words, args.texts, random.Random(SEED))))

        def measure(n, path):
            out = subprocess.run([args.measure, str(n), *base, str(path)], check=True, capture_output=True, text=True).stdout
            return [(float(ms), int(kb) / 1024) for ms, kb in (line.split() for line in out.splitlines())]
        starts = [ms for ms, _ in measure(16, one)[1:]]
        peak = max(mb for _, mb in measure(1, many))
    say(f"        start median {statistics.median(starts):.1f} ms, fastest {min(starts):.1f}, slowest {max(starts):.1f}")
    result("embed.start_ms", statistics.median(starts), "ms", 150, least=False)
    packed = packed_bytes(args, folder, dtype)
    if packed is None:
        say(f"       memory peak {peak:.0f} MB; what the packed weights take is not told, so embed.rss_extra_mb is left out")
        return
    say(f"       memory peak {peak:.1f} MB, packed {dtype} weights {packed / 2**20:.1f} MB")
    result("embed.rss_extra_mb", peak - packed / 2**20, "MB", 64, least=False)


# ---- models and graphs
def folders(args):
    """{label: folder}, and {label: function that gives the folder of graphs, of some layers only if told, or raises Gone}."""
    cache = pathlib.Path(args.cache)
    where = {"minilm": model_dir(args.model)}
    if args.prepared:
        where["minilm"] = cache / "minilm"
        if not (where["minilm"] / "model.safetensors").exists():
            bench_models.recode(pathlib.Path(args.prepared) / "minilm", where["minilm"], "F32")
    if not where["minilm"]:
        say(f"bench-embed: model '{args.model}' is not here: stoker model get {args.model}")
        sys.exit(0)
    if args.xlmr != "none":
        try:
            where["xlmr"] = bench_models.make_xlmr(args.xlmr or cache / "xlmr", bench_models.words_of(where["minilm"]))
        except ImportError as e:
            say(f"xlmr: left out: {e}: its weights are made with numpy")

    def graphs(label, layers):
        name = graphs_name(label, layers)
        if args.prepared:
            if not (pathlib.Path(args.prepared) / name).exists():
                raise Gone(f"no {name} in {args.prepared}: make it anew with --prepare")
            return bench_graphs.fill(where[label], pathlib.Path(args.prepared) / name, cache / name)
        missing = [m for m in ("onnx", "onnxruntime", "torch", "transformers") if not importlib.util.find_spec(m)]
        if missing:
            raise Gone(f"graphs are made with Python packages that are not here: {', '.join(missing)} (see --prepare)")
        try:
            return bench_graphs.export(where[label], cache / name, layers)
        except Exception as e:  # whatever torch's exporter or the optimizer stumbles over
            raise Gone(f"no graph: {type(e).__name__}: {str(e).splitlines()[0][:160] if str(e) else ''}") from e
    return where, {label: lambda layers=None, label=label: graphs(label, layers) for label in where}


def graphs_name(label, layers):
    return f"{label}-{layers}-graphs" if layers else f"{label}-graphs"


def prepare(args):
    """A folder to carry: MiniLM in f16, and all graphs without their weights."""
    to, work = pathlib.Path(args.prepare), pathlib.Path(args.cache) / "prepare"
    if not model_dir(args.model):
        sys.exit(f"model '{args.model}' is not here: stoker model get {args.model}")
    shutil.rmtree(to, ignore_errors=True)
    bench_models.recode(model_dir(args.model), to / "minilm", "F16")
    args.prepared, args.cache = str(to), str(work)
    shutil.rmtree(work, ignore_errors=True)
    where, _ = folders(args)
    for label, layers in [(l, None) for l in where] + [(l, n) for l, n in KNOWN_LAYERS.items() if l in where]:
        name = graphs_name(label, layers)
        made = bench_graphs.export(where[label], work / "made" / name, layers)
        bench_graphs.strip(where[label], made, to / name)
        say(f"{name}: " + "; ".join(f"{k}: {bench_graphs.fusions(made, k)}" for k in bench_graphs.KINDS))
    shutil.rmtree(work)
    say(f"{to}: {sum(f.stat().st_size for f in to.rglob('*') if f.is_file()) / 2**20:.0f} MB")


def options():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stoker")
    ap.add_argument("measure")
    ap.add_argument("--model", default="all-MiniLM-L6-v2", help="folder or name of all-MiniLM-L6-v2")
    ap.add_argument("--xlmr", help="folder of the XLM-R-large, made there when it is not; 'none' leaves its cases out")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--dtypes", default="auto,f32,bf16,int8", help="our own types to run")
    ap.add_argument("--ours", default="best", help="the one of them that ratios are given for; best: the fastest of a case")
    ap.add_argument("--peers", default="all", help="names with commas: ort_f32,ort_int8,st_f32,st_bf16,llama_0…")
    ap.add_argument("--llama", default=shutil.which("llama-server"), help="path of llama-server")
    ap.add_argument("--gguf", action="append", help="MiniLM as llama.cpp's convert_hf_to_gguf.py makes it; may be given again")
    ap.add_argument("--cases", default=",".join(TARGETS) + ",start")
    ap.add_argument("--texts", type=int, default=4096)
    ap.add_argument("--rounds", type=int, default=8)
    ap.add_argument("--chunk", type=int, default=512, help="texts handed over at once")
    ap.add_argument("--tune", type=int, default=256, help="texts on which a peer's batch size is chosen")
    ap.add_argument("--corpus-seconds", type=float, default=6, help="least length of a slice of the corpus")
    ap.add_argument("--shape-seconds", type=float, default=3, help="length of a slice of the other cases")
    ap.add_argument("--quick", action="store_true", help="about five minutes: our auto and int8 beside onnxruntime only, short slices")
    ap.add_argument("--cache", default="build/bench", help="where models and graphs are kept")
    ap.add_argument("--prepare", metavar="DIR", help="write a folder for --prepared, and end")
    ap.add_argument("--prepared", metavar="DIR", help="model and graphs from such a folder")
    if "--quick" in sys.argv:
        ap.set_defaults(dtypes="auto,int8", peers=",".join(ORT), rounds=4, chunk=256, tune=64, corpus_seconds=2.5, shape_seconds=1.5)
    args = ap.parse_args()
    if args.ours != "best" and args.ours not in args.dtypes.split(","):
        args.dtypes = args.ours + "," + args.dtypes
    return args


def main():
    args = options()
    if args.prepare:
        return prepare(args)
    atexit.register(stop_all)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.time()
    say(f"{cpu()[0]}, {args.threads} threads, load {os.getloadavg()[0]:.1f}; Python {sys.version.split()[0]}")
    where, graphs = folders(args)
    shapes = {"minilm.1x16": (1, 16), "xlmr.8x128": (8, 128), "xlmr.1x32": (1, 32)}
    cases = args.cases.split(",")
    for label, folder in where.items():
        mine = [c for c in cases if c.startswith(label)]
        words = bench_models.words_of(folder)
        those = contenders(args, label, folder, graphs[label]) if mine else []
        while mine:
            try:
                if mine[0] in shapes:
                    bench_shape(args, mine[0], those, folder, words, *shapes[mine[0]], args.shape_seconds)
                else:
                    bench_corpus(args, mine[0], those, folder, words)
                mine.pop(0)
            except Gone as e:
                say(f"{mine[0]}: again without {e.peer.name}, which ended: {e}")
                those.remove(e.peer)
        dtype = "auto" if args.ours == "best" else args.ours
        ours = next((c.dtype for c in those if c.name == f"stoker_{dtype}"), None)
        stop_all()
        if label == "minilm" and "start" in cases:
            bench_start(args, folder, words, ours or Us(args, folder, dtype).dtype)
    say(f"{time.time() - begun:.0f} s in all")
    for line in results:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

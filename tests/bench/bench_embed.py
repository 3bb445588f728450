#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast `stoker embed` is beside onnxruntime and sentence-transformers, on one machine in one run.

    tests/bench/bench_embed.py build/stoker build/tests/measure [--model DIR|NAME] [options]

4,096 texts of log-normal length (median 90 tokens, cap 512) are cut into slices; every contender
runs each slice in turn, tokenising included, models loaded beforehand, so that a slow phase of the
machine meets all alike.  Figures are medians over the slices; a ratio is the median of the slices'
ratios.  Then one text of 16 tokens at a time, the start of the program and its memory.

Peers need Python packages: onnxruntime, onnx, torch, transformers, tokenizers, numpy for both kinds
of onnxruntime (its transformer fusions are on; int8 is its dynamic quantisation), and
sentence-transformers.  What is missing is said and left out; our own figures are printed all the same.

Ends with one line a figure: RESULT name value unit target ok|short.
"""
import argparse
import importlib
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

TOKENS_MAX, MEDIAN, SIGMA, SEED = 512, 90, 0.7, 20240229
PEER_BATCH = 32
TARGETS = {"minilm.corpus": (6, 2.8), "minilm.1x16": (3.5, 1.8), "xlmr.8x128": (6, 1.5), "xlmr.1x32": (4, 1.0)}
# What the peers reached on the machine of the targets; below 0.7 of it a run is void there.
PEER_FIGURES = {"ort_f32": 7082, "ort_int8": 11800}
results = []


def say(text):
    print(text, flush=True)


def result(name, value, unit, target, least=True):
    ok = value >= target if least else value <= target
    results.append(f"RESULT {name} {value:.4g} {unit} {target:g} {'ok' if ok else 'short'}")


def model_dir(name):
    """The folder of a model: as it is, or where `stoker model get` puts it."""
    if (pathlib.Path(name) / "config.json").exists():
        return pathlib.Path(name)
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    path = pathlib.Path(home) / "stoker/models" / name
    return path if (path / "config.json").exists() else None


def words_of(folder):
    """Words that are one token each, so that a text's length is known without a tokenizer."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    vocab = model["vocab"]
    if isinstance(vocab, dict):
        return sorted(w for w in vocab if re.fullmatch("[a-z]{3,9}", w))
    return sorted(p[0][1:] for p in vocab if re.fullmatch("\u2581[a-z]{3,9}", p[0]))


def corpus(words, count, rng):
    lengths = [min(TOKENS_MAX, max(3, round(rng.lognormvariate(math.log(MEDIAN), SIGMA)))) for _ in range(count)]
    return [" ".join(rng.choices(words, k=n - 2)) for n in lengths]


# ---- contenders: a name and encode(texts) -> seconds, tokens
class Us:
    def __init__(self, args, folder, dtype):
        self.cmd = [args.stoker, "embed", "-m", str(folder), "--max-tokens", str(TOKENS_MAX), "--dtype", dtype,
                    "--threads", str(args.threads)]
        self.name = f"stoker_{dtype}"
        self.about = ""

    def encode(self, texts):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("".join(t + "\n" for t in texts))
            f.flush()
            p = subprocess.run([*self.cmd, "--format", "raw", "-o", "/dev/null", f.name], capture_output=True, text=True)
        m = re.search(r"([\d,]+) texts, ([\d,]+) tokens in ([\d.]+) s: .*\((.*?)\)", p.stderr)
        if p.returncode or not m:
            sys.exit(f"{' '.join(self.cmd)}: {p.stderr}")
        self.about = m[4]
        return max(float(m[3]), 0.005), int(m[2].replace(",", ""))

    def single(self, text, count, width):
        """One text at a time through a pipe: seconds of each answer."""
        p = subprocess.Popen([*self.cmd, "--quiet", "--format", "raw"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        times = []
        for _ in range(count + 3):
            begun, got = time.perf_counter(), 0
            p.stdin.write((text + "\n").encode())
            while got < width * 4:
                got += len(p.stdout.read(width * 4 - got))
            times.append(time.perf_counter() - begun)
        p.stdin.close()
        p.wait()
        return times[3:]


class Ort:
    """onnxruntime on an export of the model, fusions of its transformer optimizer applied."""

    def __init__(self, args, folder, int8, cache):
        ort = importlib.import_module("onnxruntime")
        self.np = importlib.import_module("numpy")
        self.name = "ort_int8" if int8 else "ort_f32"
        path = cache / ("int8.onnx" if int8 else "fused.onnx")
        fused = export(folder, cache)
        if int8 and not path.exists():
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(str(cache / "fused.onnx"), str(path), weight_type=QuantType.QInt8,
                             extra_options={"DefaultTensorType": importlib.import_module("onnx").TensorProto.FLOAT})
        opts = ort.SessionOptions()
        opts.intra_op_num_threads = args.threads
        opts.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(path), opts, providers=["CPUExecutionProvider"])
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.tok = importlib.import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tok.enable_truncation(TOKENS_MAX)
        self.tok.enable_padding()
        self.about = f"onnxruntime {ort.__version__}, {args.threads} threads, {fused}"

    def run(self, texts):
        np, enc = self.np, self.tok.encode_batch(texts)
        ids = np.array([e.ids for e in enc], dtype=np.int64)
        mask = np.array([e.attention_mask for e in enc], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self.session.run(None, {k: v for k, v in feed.items() if k in self.inputs})[0]
        m = mask[..., None].astype(np.float32)
        v = (hidden * m).sum(1) / m.sum(1)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        return int(mask.sum())

    def encode(self, texts):
        begun, tokens = time.perf_counter(), 0
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for i in range(0, len(order), PEER_BATCH):
            tokens += self.run([texts[k] for k in order[i:i + PEER_BATCH]])
        return time.perf_counter() - begun, tokens

    def single(self, text, count, _width):
        times = []
        for _ in range(count + 3):
            begun = time.perf_counter()
            self.run([text])
            times.append(time.perf_counter() - begun)
        return times[3:]


class SentenceTransformers:
    def __init__(self, args, folder):
        torch = importlib.import_module("torch")
        st = importlib.import_module("sentence_transformers")
        torch.set_num_threads(args.threads)
        self.name = "st_f32"
        self.model = st.SentenceTransformer(str(folder), device="cpu")
        self.model.max_seq_length = TOKENS_MAX
        self.tok = importlib.import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tok.enable_truncation(TOKENS_MAX)
        self.tok.no_padding()
        self.about = f"sentence-transformers {st.__version__}, torch {torch.__version__}, {args.threads} threads"

    def encode(self, texts):
        tokens = sum(len(e.ids) for e in self.tok.encode_batch(texts)) # not timed
        begun = time.perf_counter()
        self.model.encode(texts, batch_size=PEER_BATCH, show_progress_bar=False)
        return time.perf_counter() - begun, tokens

    def single(self, text, count, _width):
        times = []
        for _ in range(count + 3):
            begun = time.perf_counter()
            self.model.encode([text], show_progress_bar=False)
            times.append(time.perf_counter() - begun)
        return times[3:]


def export(folder, cache):
    """fused.onnx in `cache`; says which fusions it holds."""
    onnx = importlib.import_module("onnx")
    path, fused = cache / "plain.onnx", cache / "fused.onnx"
    if not fused.exists():
        torch = importlib.import_module("torch")
        tr = importlib.import_module("transformers")
        model = tr.AutoModel.from_pretrained(str(folder), attn_implementation="eager").eval()
        ids = torch.ones(2, 8, dtype=torch.int64)
        names = ["input_ids", "attention_mask"] + ["token_type_ids"] * hasattr(model.embeddings, "token_type_embeddings")
        axes = {n: {0: "batch", 1: "sequence"} for n in [*names, "last_hidden_state"]}

        class Wrap(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids, attention_mask, token_type_ids=None):
                kw = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
                return self.model(input_ids=input_ids, attention_mask=attention_mask, **kw).last_hidden_state

        args = (ids, ids.clone()) + ((torch.zeros_like(ids),) if len(names) == 3 else ())
        with torch.no_grad():
            torch.onnx.export(Wrap().eval(), args, str(path), input_names=names, output_names=["last_hidden_state"],
                              dynamic_axes=axes, opset_version=17, dynamo=False)
        from onnxruntime.transformers import optimizer
        m = optimizer.optimize_model(str(path), model_type="bert", num_heads=model.config.num_attention_heads,
                                     hidden_size=model.config.hidden_size, opt_level=0)
        m.save_model_to_file(str(fused), use_external_data_format=(folder / "model.safetensors").stat().st_size > 1 << 30)
    kinds = {n.op_type for n in onnx.load(str(fused), load_external_data=False).graph.node}
    known = [k for k in ("Attention", "MultiHeadAttention", "EmbedLayerNormalization", "SkipLayerNormalization", "BiasGelu",
                         "FastGelu", "Gelu") if k in kinds]
    return "fusions: " + (", ".join(known) or "none of its transformer kind")


def peers(args, folder, cache):
    """The peers that can run here, and a line for each that cannot."""
    out = []
    makers = [("onnxruntime f32", lambda: Ort(args, folder, False, cache)),
              ("onnxruntime int8", lambda: Ort(args, folder, True, cache)),
              ("sentence-transformers", lambda: SentenceTransformers(args, folder))]
    for name, make in makers:
        try:
            out.append(make())
        except Exception as e: # whatever a peer's set-up lacks: it is left out, with its own words
            say(f"{name}: left out: {type(e).__name__}: {str(e).splitlines()[0][:160] if str(e) else 'no reason given'}")
    return out


def ratios(label, ours, speeds, void):
    """RESULT lines of our best type against each peer."""
    say(f"{label}: ratios are those of {ours}")
    for kind, target in zip(("ort_f32", "ort_int8"), TARGETS[label]):
        if kind not in speeds:
            continue
        per_slice = [a / b for a, b in zip(speeds[ours], speeds[kind])]
        if kind in void:
            say(f"{label}: {kind} ran below 0.7 of its known figure: the ratio is void")
        result(f"embed.{label}.vs_{kind}", statistics.median(per_slice), "x", target)
    if "st_f32" in speeds:
        r = statistics.median(a / b for a, b in zip(speeds[ours], speeds["st_f32"]))
        say(f"{label}: {r:.2f} times sentence-transformers")


def table(label, contenders, speeds):
    for c in contenders:
        v = speeds[c.name]
        say(f"{label:>15} {c.name:>12} {statistics.median(v):9.0f} tokens/s  ({min(v):.0f} to {max(v):.0f})  {c.about}")


def bench_corpus(args, label, contenders, texts):
    speeds = {c.name: [] for c in contenders}
    size = len(texts) // args.slices
    for i in range(args.slices):
        for c in contenders:
            seconds, tokens = c.encode(texts[i * size:(i + 1) * size])
            speeds[c.name].append(tokens / seconds)
    table(label, contenders, speeds)
    best = max((c.name for c in contenders if isinstance(c, Us)), key=lambda n: statistics.median(speeds[n]))
    void = {k for k, v in PEER_FIGURES.items() if args.reference and k in speeds and statistics.median(speeds[k]) < 0.7 * v}
    ratios(label, best, speeds, void)
    result(f"embed.{label}.tokens_per_s", statistics.median(speeds[best]), "tokens/s", 0)


def bench_shape(args, label, contenders, words, batch, length, width):
    """A batch of equal texts again and again; a batch of one goes through the pipe."""
    rng = random.Random(SEED)
    speeds = {c.name: [] for c in contenders}
    for _ in range(args.slices):
        texts = [" ".join(rng.choices(words, k=length - 2)) for _ in range(batch)]
        for c in contenders:
            if batch == 1:
                speeds[c.name].append(length / statistics.median(c.single(texts[0], args.singles, width)))
            else:
                seconds, tokens = c.encode(texts * 4)
                speeds[c.name].append(tokens / seconds)
    table(label, contenders, speeds)
    best = max((c.name for c in contenders if isinstance(c, Us)), key=lambda n: statistics.median(speeds[n]))
    ratios(label, best, speeds, set())


def packed_bytes(args, folder, dtype):
    """Memory of the packed weights in use, as `stoker model info` tells it; None when it does not."""
    p = subprocess.run([args.stoker, "model", "info", "--json", str(folder)], capture_output=True, text=True)
    try:
        return json.loads(p.stdout)["memory_bytes"]["cpu_" + dtype]
    except (ValueError, KeyError, TypeError):
        return None


def bench_start(args, folder, words, dtype):
    with tempfile.TemporaryDirectory() as d:
        one, many = pathlib.Path(d) / "one", pathlib.Path(d) / "many"
        one.write_text("hello world\n")
        many.write_text("".join(t + "\n" for t in corpus(words, 1024, random.Random(SEED))))
        base = [args.stoker, "embed", "-m", str(folder), "--quiet", "--max-tokens", str(TOKENS_MAX), "--format", "raw", "-o", "/dev/null"]

        def measure(n, path):
            out = subprocess.run([args.measure, str(n), *base, str(path)], check=True, capture_output=True, text=True).stdout
            return [(float(ms), int(kb) / 1024) for ms, kb in (line.split() for line in out.splitlines())]
        start = statistics.median(ms for ms, _ in measure(9, one)[1:])
        peak = max(mb for _, mb in measure(2, many))
    result("embed.start_ms", start, "ms", 150, least=False)
    packed = packed_bytes(args, folder, dtype)
    if packed is None:
        say(f"memory: peak {peak:.0f} MB; what the packed weights take is not told, so embed.rss_extra_mb is left out")
    else:
        result("embed.rss_extra_mb", peak - packed / 2**20, "MB", 64, least=False)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stoker")
    ap.add_argument("measure")
    ap.add_argument("--model", default="all-MiniLM-L6-v2")
    ap.add_argument("--xlmr", help="folder of an XLM-R-large model, for the shapes 8x128 and 1x32")
    ap.add_argument("--texts", type=int, default=4096)
    ap.add_argument("--slices", type=int, default=8)
    ap.add_argument("--singles", type=int, default=50, help="answers timed a slice with one text at a time")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--dtypes", default="f32,auto", help="our own types to run")
    ap.add_argument("--no-peers", action="store_true")
    ap.add_argument("--reference", action="store_true", help="this is the machine of the targets: void runs below 0.7 of its figures")
    ap.add_argument("--cache", default="build/bench", help="where exports are kept")
    args = ap.parse_args()

    folder = model_dir(args.model)
    if not folder:
        say(f"bench-embed: model '{args.model}' is not here: stoker model get {args.model}")
        return 0
    for label, where in (("minilm", folder), ("xlmr", args.xlmr and pathlib.Path(args.xlmr))):
        if not where:
            continue
        cache = pathlib.Path(args.cache) / where.resolve().name
        cache.mkdir(parents=True, exist_ok=True)
        words = words_of(where)
        width = json.loads((where / "config.json").read_text())["hidden_size"]
        contenders = [Us(args, where, d) for d in args.dtypes.split(",")] + ([] if args.no_peers else peers(args, where, cache))
        if label == "minilm":
            bench_corpus(args, "minilm.corpus", contenders, corpus(words, args.texts, random.Random(SEED)))
            bench_shape(args, "minilm.1x16", contenders, words, 1, 16, width)
            auto = next((c for c in contenders if c.name == "stoker_auto"), contenders[0])
            bench_start(args, where, words, (re.findall("f32|bf16|int8", auto.about) or ["f32"])[-1])
        else:
            bench_shape(args, "xlmr.8x128", contenders, words, 8, 128, width)
            bench_shape(args, "xlmr.1x32", contenders, words, 1, 32, width)
    for line in results:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

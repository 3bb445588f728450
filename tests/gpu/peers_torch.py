#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch reaches on this GPU: the figures that `make gpu-bench` holds ours against.

    peers_torch.py [--rows NAME,...] [--dtypes bfloat16,float16] [--seconds N] [--json FILE]

    eager   transformers as people run it: f16, padded batches of 128 sorted texts, scaled dot product
            attention
    best    packed by hand: attention of variable length, no padding, layers through torch.compile; one
            text also as a CUDA graph, of the compiled kernels and of the plain ones, whichever is faster.
            It looks up words alone (no positions, no LayerNorm behind them), pools nothing, and has no
            relative bias for MPNet, which this attention cannot add: it does less than ours.
    copy    bytes read and written a second by a copy of 2 GiB
    rates   TFLOP/s of the models' matrix products in bf16 (f16 is as fast or slower) and fp8, for the floors

Times are medians of device events around a forward pass; host_ms counts from ids in host memory to vectors
in host memory.  A row that the time does not suffice for is named and left out.  Needs torch and, for eager,
transformers.
"""
import argparse
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402

GRAPH_WARM, RATE_ROWS, EAGER_BATCH, VOCAB = 3, 32768, 128, 30000
ROWS = ["xlmr.1x32", "mpnet.1x32", "minilm.1x32", "xlmr.128x512", "xlmr.corpus", "mpnet.corpus", "minilm.corpus",
        "bge.100x128"]


def lengths_of(case):
    if case == "corpus":
        return models.corpus_lengths()
    count, tokens = map(int, case.split("x"))
    return [tokens] * count


def median_ms(fn, warm=3, most=30, seconds=0.6):
    """Median by device events: two runs at least, at most `most`, about `seconds` in all; those that warm up take
    as long at most, but for the first."""
    end = time.monotonic() + seconds
    for i in range(warm):
        if i == 0 or time.monotonic() < end:
            fn()
            torch.cuda.synchronize()
    times, end = [], time.monotonic() + seconds
    while len(times) < 2 or (len(times) < most and time.monotonic() < end):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        fn()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[len(times) // 2]


def wall_ms(fn, runs=50):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return sorted(times)[runs // 2] * 1e3


class Found:
    """What was measured, printed as it comes."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.doc = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": {}, "rates": {}, "skipped": []}

    def late(self, what):
        if time.monotonic() < self.end:
            return False
        self.doc["skipped"].append(what)
        print(f"# skipped, out of time: {what}", flush=True)
        return True

    def add(self, row, kind, dtype, ms, host_ms=None):
        name, case = row.split(".")
        lens = lengths_of(case)
        self.doc["rows"].setdefault(row, {}).setdefault(kind, {})[dtype] = {"ms": ms, "host_ms": host_ms}
        print(f"PEER {row} {kind} {dtype} {ms:.4g} ms {sum(lens) / ms / 1e3:.3g} Mtok/s "
              f"{models.operations(name, lens) / ms / 1e9:.0f} TFLOP/s" +
              (f", host to host {host_ms:.4g} ms" if host_ms else ""), flush=True)


def guarded(found, what, fn):
    """One failing measurement leaves the others."""
    try:
        fn()
    except Exception as e:  # whatever a version of torch does not take
        found.doc["skipped"].append(what)
        print(f"# {what} failed: {type(e).__name__}: {str(e)[:300]}", flush=True)


# ---- ceilings

def copy_rate(found):
    a = torch.empty(1 << 31, dtype=torch.uint8, device="cuda").random_()
    b = torch.empty_like(a)
    found.doc["copy_tbs"] = 2 * a.numel() / median_ms(lambda: b.copy_(a), seconds=0.2) / 1e9
    print(f"PEER copy {found.doc['copy_tbs']:.2f} TB/s", flush=True)


def product_ms(m, n, k, dtype):
    """One product of random numbers, over sets of operands that do not fit the cache together."""
    sets = max(1, min(8, (200 << 20) // (2 * (m * k + n * k))))
    a = [torch.randn(m, k, device="cuda").to(dtype) for _ in range(sets)]
    b = [torch.randn(n, k, device="cuda").to(dtype) for _ in range(sets)]
    one = torch.tensor(1.0, device="cuda")

    def all_of():
        for x, w in zip(a, b):
            if dtype == torch.float8_e4m3fn:
                torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
            else:
                F.linear(x, w)
    return median_ms(all_of, warm=2, seconds=0.05) / sets


def product_rates(found, names):
    shapes = sorted({(n, k) for name in names for n, k in models.products(name)})
    for m, n, k in [(8192, 8192, 8192)] + [(RATE_ROWS, n, k) for n, k in shapes]:
        if found.late(f"rate {m}x{n}x{k}"):
            continue
        line = []
        for label, dtype in (("bfloat16", torch.bfloat16), ("fp8", torch.float8_e4m3fn)):
            rate = 2 * m * n * k / product_ms(m, n, k, dtype) / 1e9
            found.doc["rates"].setdefault(f"{n}x{k}", {})[label] = rate
            line.append(f"{label} {rate:.0f}")
        print(f"PEER product {m}x{n}x{k}: {', '.join(line)} TFLOP/s", flush=True)


# ---- the best: packed by hand

def layer_of(heads, size, eps):
    from torch.nn.attention.varlen import varlen_attn

    def layer(x, cu, longest, wqkv, bqkv, wo, bo, g1, c1, w1, b1, w2, b2, g2, c2):
        wide = heads * size
        q, k, v = F.linear(x, wqkv, bqkv).view(-1, 3, heads, size).unbind(1)
        o = varlen_attn(q, k, v, cu, cu, longest, longest).reshape(-1, wide)
        x = F.layer_norm(x + F.linear(o, wo, bo), (wide,), g1, c1, eps)
        return F.layer_norm(x + F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2), (wide,), g2, c2, eps)
    return layer


class Packed:
    """Layers compiled one by one: the code of the first serves all.  Only the tokens are of any number; sizes of
    weights are constants of the compiled code, which matters much for its LayerNorms."""

    def __init__(self, name, dtype):
        c = models.config(name)
        h, f = c["hidden_size"], c["intermediate_size"]

        def kept(t):
            torch._dynamo.mark_static(t)
            return t

        def drawn(*shape):
            return kept((torch.randn(*shape, device="cuda") * models.DEVIATION).to(dtype))

        def filled(n, value):
            return kept(torch.full((n,), value, device="cuda", dtype=dtype))

        self.layers = [(drawn(3 * h, h), drawn(3 * h), drawn(h, h), drawn(h), filled(h, 1.0), filled(h, 0.0), drawn(f, h),
                        drawn(f), drawn(h, f), drawn(h), filled(h, 1.0), filled(h, 0.0)) for _ in range(models.layers(name))]
        self.words = drawn(VOCAB, h)
        self.head = drawn(h, h), drawn(1, h)
        self.plain = layer_of(c["num_attention_heads"], h // c["num_attention_heads"], c["layer_norm_eps"])
        torch.compiler.reset()
        self.compiled = torch.compile(self.plain, dynamic=True)

    def forward(self, layer, batch, scores=False):
        ids, cu, longest = batch
        x = F.embedding(ids, self.words)
        for weights in self.layers:
            x = layer(x, cu, longest, *weights)
        if scores:
            x = F.linear(torch.tanh(F.linear(x[cu[:-1].long()], self.head[0])), self.head[1])
        return x


def packed_batch(lengths):
    cu = torch.tensor([0] + lengths, dtype=torch.int32).cumsum(0, dtype=torch.int32).cuda()
    return torch.randint(0, VOCAB, (sum(lengths),), device="cuda"), cu, max(lengths)


def graph_of(net, layer, batch):
    """(graph, what it gives); warmed up on a stream of its own, as captures want it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(GRAPH_WARM):
            net.forward(layer, batch)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = net.forward(layer, batch)
    return graph, out


def one_text(net, case):
    """The faster of two graphs, by the device and from host to host."""
    batch = packed_batch(lengths_of(case))
    pinned = batch[0].cpu().pin_memory()
    best = None
    for layer in (net.plain, net.compiled):
        graph, out = graph_of(net, layer, batch)
        ms = median_ms(graph.replay, most=200, seconds=0.3)

        def from_host():
            batch[0].copy_(pinned, non_blocking=True)
            graph.replay()
            out.mean(0).cpu()
        host_ms = wall_ms(from_host)
        best = min(best or (ms, host_ms), (ms, host_ms))
    return best


def best_row(found, net, row, dtype):
    case = row.split(".")[1]
    label = str(dtype).removeprefix("torch.")
    if case == "1x32":
        ms, host_ms = one_text(net, case)
        return found.add(row, "best", label, ms, host_ms)
    lens, scores = lengths_of(case), "Classification" in models.MODELS[row.split(".")[0]][0]
    batches = [packed_batch(b) for b in models.cut_batches(lens, models.CORPUS_BATCH if case == "corpus" else sum(lens))]
    return found.add(row, "best", label,
                     median_ms(lambda: [net.forward(net.compiled, b, scores) for b in batches], warm=2, most=10))


def shape_of(row):
    name = row.split(".")[0]
    return models.layers(name), *models.products(name)


def best(found, rows, dtypes):
    for shape in dict.fromkeys(map(shape_of, rows)):
        mine = [r for r in rows if shape_of(r) == shape]
        for dtype in dtypes:
            if found.late(f"best {', '.join(mine)} {dtype}"):
                continue
            net = Packed(mine[0].split(".")[0], dtype)
            for row in mine:
                if not found.late(f"best {row} {dtype}"):
                    guarded(found, f"best {row} {dtype}", lambda: best_row(found, net, row, dtype))
            del net
            torch.cuda.empty_cache()


# ---- eager

def eager_model(name):
    import transformers
    transformers.logging.set_verbosity_error()
    cls, c, _ = models.MODELS[name]
    kind = getattr(transformers, cls)
    c = dict(c, vocab_size=VOCAB, **({"num_labels": 1} if "Classification" in cls else {}))
    with torch.device("cuda"):
        cfg = kind.config_class(**c)
        m = kind(cfg) if "Classification" in cls else kind(cfg, add_pooling_layer=False)
    return m.half().cuda().eval()


def padded_batches(lengths):
    out = []
    lengths = sorted(lengths, reverse=True)
    for i in range(0, len(lengths), EAGER_BATCH):
        part = torch.tensor(lengths[i:i + EAGER_BATCH])
        longest = int(part.max())
        mask = (torch.arange(longest)[None] < part[:, None]).long().cuda()
        out.append((torch.randint(5, VOCAB, (len(part), longest), device="cuda"), mask))
    return out


def eager(found, rows):
    for name in dict.fromkeys(r.split(".")[0] for r in rows):
        if found.late(f"eager {name}"):
            continue
        m = eager_model(name)
        for row in [r for r in rows if r.split(".")[0] == name]:
            if found.late(f"eager {row}"):
                continue
            batches = padded_batches(lengths_of(row.split(".")[1]))

            def all_of():
                for ids, mask in batches:
                    m(input_ids=ids, attention_mask=mask)
            guarded(found, f"eager {row}",
                    lambda: found.add(row, "eager", "float16", median_ms(all_of, warm=2, most=12)))
        del m
        torch.cuda.empty_cache()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default=",".join(ROWS))
    p.add_argument("--dtypes", default="bfloat16", help="of best; bfloat16 was the faster one in every row so far")
    p.add_argument("--seconds", type=float, default=200)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    rows, dtypes = args.rows.split(","), [getattr(torch, d) for d in args.dtypes.split(",")]
    found, start = Found(args.seconds), time.monotonic()
    torch.manual_seed(0)
    print(f"# torch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    with torch.inference_mode():
        guarded(found, "copy", lambda: copy_rate(found))
        guarded(found, "rates", lambda: product_rates(found, dict.fromkeys(r.split(".")[0] for r in rows)))
        guarded(found, "best", lambda: best(found, rows, dtypes))
        guarded(found, "eager", lambda: eager(found, rows))
    print(f"# {time.monotonic() - start:.1f} s", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found.doc, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

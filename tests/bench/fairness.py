#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`stoker serve`: how long does a short request wait beside large ones, and what does that cost them?

    tests/bench/fairness.py build/stoker [--seconds 2] [--rounds 10] [--bulk 1,8,64] [--model DIR] [--device NAME]

One client asks for a two-word text, again and again; beside it 1, 8 and 64 clients send calls of many long
texts, all from one address and without a token.  The promise: whatever others send, a short request waits for
at most one batch.  Measured are the short one alone, the large ones alone, and both together.  Without --model
there is one of MiniLM's shape with random weights.

    RESULT serve.short_p99_over   (p99 beside large calls - p99 alone) / longest batch seen; bound 1.5
    RESULT serve.bulk_share       tokens a second of the large calls beside short ones / alone; bound 0.9

each for the worst of the three numbers of clients.  One window of each kind tells more of what else the machine
did in it than of the server: a machine's rate swings by half within seconds.  So the large calls go on without a
break while short windows without and with the short client take turns, ten of them with it; each one with it is held
against the mean of its two neighbours without, and the median of the ten ratios counts, as does the median of the p99s.  How far the ratios lie apart is printed beside them; where that is
much, the machine is too busy for the clients that make the load, and the figures tell of it, not of the server."""
import argparse
import array
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "cli"))
from serve_box import Server  # noqa: E402

OVER, SHARE = 1.5, 0.9
LAYERS, HIDDEN, WIDE, POSITIONS = 6, 384, 1536, 512


def make_model(folder):
    """MiniLM's shape over the tiny tokenizer, weights from one block of random numbers."""
    shutil.copytree(TOP / "tests/fixtures/models/bert", folder)
    shutil.copy(TOP / "tests/fixtures/tokenizers/tiny-bert.json", folder / "tokenizer.json")
    config = json.loads((folder / "config.json").read_text())
    config.update(hidden_size=HIDDEN, intermediate_size=WIDE, num_hidden_layers=LAYERS, num_attention_heads=12,
                  max_position_embeddings=POSITIONS)
    (folder / "config.json").write_text(json.dumps(config))
    for f in folder.glob("*.safetensors"):
        f.unlink()
    for f in folder.rglob("*.json"):  # lengths and widths of the small model
        text = json.loads(f.read_text())
        if isinstance(text, dict) and f.name != "config.json" or "Pooling" in str(f):
            for key, value in (("max_seq_length", POSITIONS), ("word_embedding_dimension", HIDDEN), ("embedding_dimension", HIDDEN), ("model_max_length", POSITIONS)):
                if isinstance(text, dict) and key in text:
                    text[key] = value
            f.write_text(json.dumps(text))
    r = random.Random(1)
    block = array.array("f", (r.gauss(0, 0.02) for _ in range(WIDE * HIDDEN)))
    shapes = {"embeddings.word_embeddings.weight": (config["vocab_size"], HIDDEN),
              "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
              "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], HIDDEN)}
    norms = ["embeddings.LayerNorm"]
    for i in range(LAYERS):
        at = f"encoder.layer.{i}."
        for name, rows, cols in [(f"attention.self.{p}", HIDDEN, HIDDEN) for p in ("query", "key", "value")] + [
                ("attention.output.dense", HIDDEN, HIDDEN), ("intermediate.dense", WIDE, HIDDEN), ("output.dense", HIDDEN, WIDE)]:
            shapes[at + name + ".weight"], shapes[at + name + ".bias"] = (rows, cols), (rows,)
        norms += [at + "attention.output.LayerNorm", at + "output.LayerNorm"]
    shapes["pooler.dense.weight"], shapes["pooler.dense.bias"] = (HIDDEN, HIDDEN), (HIDDEN,)
    data = {name: block[:rows[0] * (rows[1] if len(rows) > 1 else 1)].tobytes() for name, rows in shapes.items()}
    for n in norms:
        for part, value in ((".weight", 1.0), (".bias", 0.0)):
            shapes[n + part], data[n + part] = (HIDDEN,), array.array("f", [value] * HIDDEN).tobytes()
    head, at = {}, 0
    for name, shape in shapes.items():
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(data[name])]}
        at += len(data[name])
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in shapes:
            f.write(data[name])
    return folder


def load(args, s, texts, *more):
    return subprocess.Popen([args.stoker, "bench", "serve", f"http://127.0.0.1:{s.port}", "--api", "tei", "--model", "m", "--texts", str(texts),
                             "--json", "--quiet", "--timeout", "600s", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(p):
    out, err = p.communicate()
    try:
        return json.loads(out)["servers"][0]
    except ValueError:
        sys.exit(f"the load failed: {err}{out[-500:]}")


class Batches:
    """Tokens that ran and the longest batch, from the server's own record."""

    def __init__(self, s):
        self.s, self.longest = s, 0.0
        self.start()

    def start(self):
        self.tokens, self.at = self.bulk(), time.monotonic()

    def rate(self):
        return (self.bulk() - self.tokens) / (time.monotonic() - self.at)

    def bulk(self):
        """Those of large calls alone: on a slow machine the short ones' are a part that counts."""
        return self.s.metric("stoker_class_tokens_total", 'class="bulk"')

    def look(self):
        rows = self.s.ask("/debug/batches")[1]
        self.longest = max([self.longest] + [b["run_us"] * 1e-3 for b in rows["batches"]])


def take_turns(args, s, folder, short, clients):
    """Windows without and with the short client, in turn, beside one load of large calls."""
    rounds = args.rounds
    seconds = (2 * rounds + 1) * (args.seconds + 2) + 10
    p = load(args, s, folder / "long", "-c", str(clients), "--items", str(args.items), "-d", f"{seconds}s", "--warmup", "0s")
    time.sleep(2)
    b, alone, beside, replies = Batches(s), [], [], []
    for _ in range(rounds):
        b.start()
        time.sleep(args.seconds)
        alone.append(b.rate())
        q = load(args, s, folder / "short", *short, "--warmup", "0s")
        b.start()
        replies.append(answer(q))
        beside.append(b.rate())
        b.look()
    b.start()
    time.sleep(args.seconds)
    alone.append(b.rate())
    p.terminate()
    answer(p)
    shares = sorted(2 * x / (alone[i] + alone[i + 1]) for i, x in enumerate(beside))
    return b.longest, alone, beside, replies, shares


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("stoker")
    a.add_argument("--seconds", type=int, default=2, help="of a window")
    a.add_argument("--rounds", type=int, default=10, help="windows with the short client, each between two without")
    a.add_argument("--bulk", default="1,8,64", help="clients that send large calls")
    a.add_argument("--items", type=int, default=100, help="texts of a large call")
    a.add_argument("--model")
    a.add_argument("--device")
    args = a.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    model = os.path.abspath(args.model) if args.model else make_model(folder / "minilm")
    r = random.Random(1)
    words = "hello world the quick brown fox jumps over a lazy dog".split()
    (folder / "long").write_text("".join(" ".join(r.choices(words, k=r.randint(80, 160))) + "\n" for _ in range(20000)))
    (folder / "short").write_text("".join(" ".join(r.choices(words, k=2)) + f" {i}\n" for i in range(997)))
    s = Server(args.stoker, "-m", f"m={model}", "--timeout", "10m", *(["--device", args.device] if args.device else []))
    if s.p.poll() is not None:
        sys.exit(s.text)
    d = f"{args.seconds}s"
    short = ("-c", "1", "-d", d)
    alone = answer(load(args, s, folder / "short", *short))["service_time_ms"]
    print(f"short alone: p50 {alone['p50']:.2f} p99 {alone['p99']:.2f} ms", flush=True)
    over, share = [], []
    for clients in (int(n) for n in args.bulk.split(",")):
        longest, without, beside, replies, shares = take_turns(args, s, folder, short, clients)
        p99 = statistics.median(r["service_time_ms"]["p99"] for r in replies)
        p50 = statistics.median(r["service_time_ms"]["p50"] for r in replies)
        over.append((p99 - alone["p99"]) / longest)
        share.append(statistics.median(shares))
        print(f"beside {clients} large: p50 {p50:.2f} p99 {p99:.2f} ms, {sum(r['errors']['total'] for r in replies)} errors; "
              f"longest batch {longest:.1f} ms; tokens/s {statistics.median(without):.0f} alone, {statistics.median(beside):.0f} beside; "
              f"shares {' '.join('%.2f' % x for x in shares)}", flush=True)
    s.stop()
    shutil.rmtree(folder)
    print(f"RESULT serve.short_p99_over {max(over):.3f} batches {OVER} {'ok' if max(over) <= OVER else 'short'}")
    print(f"RESULT serve.bulk_share {min(share):.3f} ratio {SHARE} {'ok' if min(share) >= SHARE else 'short'}")


main()

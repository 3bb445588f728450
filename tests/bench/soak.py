#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does `stoker serve` grow?  Very many requests of mixed kinds, and its resident memory before and after.

    tests/bench/soak.py build/stoker [--requests 1000000] [--warmup 100000] [--rounds 20] [--model DIR] [--reranker DIR]

A round is a share of the requests: vectors in three APIs, one and eight texts a call, reranks, all by
`stoker bench serve`; meanwhile a client makes errors, hangs up in the middle, and has both models
swapped.  The warm-up is two rounds more, before.  Memory is read when nothing waits; right after a
swap it can be an eighth lower, so growth is the median of the last quarter of the readings over that
of the first.  Models are the tiny ones of tests/fixtures unless others are given.

Ends with RESULT serve.rss_growth PERCENT % 5 ok|short."""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "cli"))
from serve_box import Server, request, wait  # noqa: E402

WARM = 2  # rounds of the warm-up
WORDS = "hello world the quick brown fox jumps over a lazy dog".split()
KINDS = [  # share of the requests, what `stoker bench serve` is told
    (0.45, ["--api", "tei", "--model", "emb"]),
    (0.25, ["--api", "openai", "--model", "emb"]),
    (0.10, ["--api", "cohere", "--model", "emb"]),
    (0.10, ["--api", "tei", "--model", "emb", "--items", "8"]),
    (0.10, ["--api", "jina", "--model", "rank", "--route", "rerank", "--docs", "5"]),
]


def tiny(folder, name):
    to = folder / name
    shutil.copytree(TOP / "tests" / "fixtures" / "models" / name, to)
    shutil.copy(TOP / "tests" / "fixtures" / "tokenizers" / "tiny-bert.json", to / "tokenizer.json")
    return str(to)


class Mischief(threading.Thread):
    """What clients do besides: wrong requests, and leaving at every stage; now and then a swap."""

    def __init__(self, s, models, swap_s):
        super().__init__(daemon=True)
        self.s, self.models, self.swap_s, self.end, self.count, self.swaps = s, models, swap_s, threading.Event(), 0, 0
        self.bad = []

    def wrong(self, r):
        body, status = r.choice([("{", 400), ({"inputs": []}, 400), ({"inputs": 5}, 422), ({"inputs": "a", "model": f"no{r.random()}"}, 404),
                                 ({"inputs": ["a"] * 1025}, 422), (b'{"inputs":"\xff"}', 400), ({"inputs": "hello " * 3000}, 200)])
        got = self.s.ask("/embed", body)[0]
        if got != status:
            self.bad.append((status, got))

    def hang_up(self, r):
        data = request("/embed_all" if r.random() < 0.1 else "/embed", {"inputs": [" ".join(r.choices(WORDS, k=20)) for _ in range(r.randint(1, 50))]})
        c = self.s.connect()
        c.sendall(data[:r.randrange(len(data))] if r.random() < 0.5 else data)
        if r.random() < 0.3:
            c.settimeout(0.01)
            try:
                c.recv(100)
            except OSError:
                pass
        c.close()

    def run(self):
        r, due = random.Random(1), time.monotonic() + self.swap_s
        while not self.end.is_set():
            (self.wrong if r.random() < 0.5 else self.hang_up)(r)
            self.count += 1
            if time.monotonic() > due:
                name = r.choice(list(self.models))
                self.s.ask("/v1/models/load", {"model": name, "source": self.models[name]})
                self.swaps += 1
                due = time.monotonic() + self.swap_s
            self.end.wait(0.005)


def load(args, s, n, kind, texts):
    p = subprocess.run([args.stoker, "bench", "serve", f"http://127.0.0.1:{s.port}", "-c", str(args.clients), "-n", str(n), "-d", "1h", "--warmup", "0s",
                        "--texts", texts, "--json", "--quiet", *kind], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"the load failed: {p.stderr}{p.stdout[-500:]}")
    return json.loads(p.stdout)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("stoker")
    a.add_argument("--requests", type=int, default=1000000)
    a.add_argument("--warmup", type=int, default=100000, help="requests before the first look")
    a.add_argument("--rounds", type=int, default=20)
    a.add_argument("--clients", type=int, default=64)
    a.add_argument("--swap-s", type=float, default=1.0, help="seconds between two swaps")
    a.add_argument("--model", help="embedding model")
    a.add_argument("--reranker")
    args = a.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    models = {"emb": args.model or tiny(folder, "bert"), "rank": args.reranker or tiny(folder, "bert-score")}
    r = random.Random(2)
    texts = folder / "texts"
    texts.write_text("".join(" ".join(r.choices(WORDS, k=r.randint(1, 30))) + "\n" for _ in range(4096)))
    s = Server(args.stoker, *(x for n, d in models.items() for x in ("-m", f"{n}={os.path.abspath(d)}")),
               "--access-log", str(folder / "log"), "--cache", "4MiB")
    if s.p.poll() is not None:
        sys.exit(s.text)
    m = Mischief(s, {n: os.path.abspath(d) for n, d in models.items()}, args.swap_s)
    m.start()
    sizes, at, before = [], time.monotonic(), 0
    plan = [args.warmup / WARM] * WARM + [args.requests / args.rounds] * args.rounds
    for turn, n in enumerate(plan):
        for share, kind in KINDS:
            load(args, s, max(1, round(n * share)), kind, str(texts))
        wait(lambda: s.metric("stoker_queue_jobs") == 0, 10)
        sizes.append(s.rss_kb())
        done = s.metric("stoker_requests_total")
        if os.path.getsize(folder / "log") > 256 << 20:
            os.truncate(folder / "log", 0)
        print(f"{'warm-up' if turn < WARM else 'round'} {turn + 1}/{len(plan)}: {done:.0f} requests, {(done - before) / (time.monotonic() - at):.0f}/s, {m.swaps} swaps, "
              f"{m.count} of mischief, {sizes[-1] / 1024:.1f} MiB, {s.fds()} descriptors", flush=True)
        at, before = time.monotonic(), done
    m.end.set()
    m.join()
    failed = s.metric("stoker_requests_total", 'code="5') - s.metric("stoker_requests_total", 'code="504')
    rc = s.stop()
    shutil.rmtree(folder)
    rounds = sizes[WARM - 1:]
    few = max(1, len(rounds) // 4)
    base, last = statistics.median(rounds[:few]), statistics.median(rounds[-few:])
    growth = 100 * (last - base) / base
    print(f"{base / 1024:.1f} MiB in the first {few} readings behind the warm-up, {last / 1024:.1f} MiB in the last (medians), "
          f"{min(rounds) / 1024:.1f} to {max(rounds) / 1024:.1f} between; "
          f"{failed:.0f} replies of 500 or 503, {len(m.bad)} odd statuses {m.bad[:3]}, exit status {rc}")
    ok = growth <= 5 and rc == 0 and not m.bad and failed == 0
    print(f"RESULT serve.rss_growth {growth:.3g} % 5 {'ok' if ok else 'short'}")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`stoker serve` at ten times what it can do: how long do those wait that it takes, how fast are the others told?

    tests/bench/overload.py build/stoker [--seconds 60] [--times 10] [--queue 64] [--model DIR]

First the rate it can do is measured: a closed loop of as many clients as the queue has places, so that none
is refused.  Then ten times that falls due, by an open loop, for a minute.  A request that is taken waits
for at most `--queue` others, so no such wait should exceed the queue divided by the rate of the first part
(twice that, since the load takes its share of the machine); a refusal waits for nothing.

Ends with RESULT serve.overload.p99_ms and RESULT serve.overload.reject_ms (both: value ms bound ok|short)."""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "cli"))
from serve_box import Server  # noqa: E402

REJECT_MS = 50  # a refusal at the 99th percentile: read, tokenised and answered on a machine that is full
SLACK = 2       # the load's share of the machine


def bench(args, s, texts, *more):
    p = subprocess.run([args.stoker, "bench", "serve", f"http://127.0.0.1:{s.port}", "--api", "tei", "--model", "m", "--texts", str(texts),
                        "--items", str(args.items), "--json", "--quiet", *more], capture_output=True, text=True)
    try:
        return json.loads(p.stdout)["servers"][0]
    except ValueError:
        sys.exit(f"the load failed: {p.stderr}{p.stdout[-500:]}")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("stoker")
    a.add_argument("--seconds", type=int, default=60)
    a.add_argument("--times", type=float, default=10)
    a.add_argument("--queue", type=int, default=64, help="requests that may wait")
    a.add_argument("--items", type=int, default=8, help="texts a request")
    a.add_argument("--model", help="embedding model; without it a tiny one on the scalar engine")
    args = a.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    tiny = folder / "tiny"
    shutil.copytree(TOP / "tests" / "fixtures" / "models" / "bert", tiny)
    shutil.copy(TOP / "tests" / "fixtures" / "tokenizers" / "tiny-bert.json", tiny / "tokenizer.json")
    (folder / "spec.yaml").write_text(f"serve: {{queue_max: {args.queue}}}\n")
    r = random.Random(1)
    words = "hello world the quick brown fox jumps over a lazy dog".split()
    (folder / "texts").write_text("".join(" ".join(r.choices(words, k=50)) + "\n" for _ in range(4096)))
    device = [] if args.model else ["--device", "ref", "--threads", "1"]
    s = Server(args.stoker, "-f", str(folder / "spec.yaml"), "-m", f"m={os.path.abspath(args.model) if args.model else tiny}", *device)
    if s.p.poll() is not None:
        sys.exit(s.text)
    calm = bench(args, s, folder / "texts", "-c", str(max(1, args.queue // 2)), "-d", f"{max(5, args.seconds // 6)}s")
    rate = calm["requests_per_s"]
    print(f"it can do {rate:.1f} requests/s of {args.items} texts; now {rate * args.times:.0f} fall due each second", flush=True)
    hard = bench(args, s, folder / "texts", "-r", f"{rate * args.times:.0f}", "-d", f"{args.seconds}s")
    rc = s.stop()
    shutil.rmtree(folder)
    judge(args, rate, hard, rc)


def judge(args, rate, hard, rc):
    good, refused, e = hard["latency_ms"], hard["error_time_ms"], hard["errors"]
    odd = e["total"] - e["429"]
    print(f"{hard['requests']} requests: {hard['good']} answered ({hard['requests_per_s']:.1f}/s), {e['429']} refused, {odd} otherwise "
          f"({e['first'] if odd else '-'}); exit status {rc}")
    print(f"answered: p50 {good['p50']:.1f} p99 {good['p99']:.1f} max {good['max']:.1f} ms; "
          f"refused: p50 {refused['p50']:.2f} p99 {refused['p99']:.2f} max {refused['max']:.2f} ms")
    bound = SLACK * 1000 * args.queue / rate
    whole = odd == 0 and rc == 0
    print(f"the bound: {SLACK} x {args.queue} requests / {rate:.1f} a second")
    print(f"RESULT serve.overload.p99_ms {good['p99']:.4g} ms {bound:.4g} {'ok' if good['p99'] <= bound and whole else 'short'}")
    print(f"RESULT serve.overload.reject_ms {refused['p99']:.4g} ms {REJECT_MS} {'ok' if refused['p99'] <= REJECT_MS and whole else 'short'}")

main()

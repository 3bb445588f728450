#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How much of the engine's speed `stoker serve` hands on, and what HTTP adds to one short text.

    tests/bench/bench_serve.py build/stoker [--model DIR|NAME] [--seconds 20] [--rounds 3] [--peer NAME=URL]…

Offline (`stoker embed` on a file) and served (`stoker bench serve`, 64 closed-loop clients that keep
their connections and do not parse) take turns on the same texts.  The client's own CPU time is taken
out: what it used of the machine's cores the server could not have.  A peer that already runs is
measured beside us by `--peer`, in turning slices.

Ends with RESULT name value unit target ok|short."""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bench_embed  # noqa: E402
import bench_models  # noqa: E402

CLIENTS, TEXTS = 64, 2048
results = []


def say(text):
    print(text, flush=True)


def result(name, value, unit, target, ok):
    results.append(f"RESULT {name} {value:.4g} {unit} {target:g} {'ok' if ok else 'short'}")


class Server:
    def __init__(self, args, folder):
        self.p = subprocess.Popen([args.stoker, "serve", "-m", f"m={folder}", "--port", "0", "--threads", str(args.threads),
                                   "--dtype", args.dtype, *args.serve.split()], stderr=subprocess.PIPE, text=True)
        self.port = 0
        for line in self.p.stderr:
            found = re.search(r"://[0-9.]+:(\d+)", line)
            self.port = self.port or (int(found[1]) if found else 0)
            if line.strip().endswith("ready"):
                break
        self.url = f"http://127.0.0.1:{self.port}"

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.request("GET", path)
        return c.getresponse().read()

    def rss_mb(self):
        text = pathlib.Path(f"/proc/{self.p.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def stop(self):
        self.p.terminate()
        self.p.wait()


def load(args, url, texts, clients, seconds, *more):
    out = subprocess.run([args.stoker, "bench", "serve", url, "--texts", texts, "-c", str(clients), "--duration", f"{seconds}s",
                          "--warmup", "1s", "--json", "--quiet", *more], capture_output=True, text=True)
    if not out.stdout:
        sys.exit(out.stderr)
    return json.loads(out.stdout)["servers"]


def offline(args, folder, path, tokens):
    """Tokens a second of one process over the file, the start of the program taken out."""
    def once(name):
        begun = time.monotonic()
        subprocess.run([args.stoker, "embed", "-m", str(folder), "--quiet", "--threads", str(args.threads), "--dtype", args.dtype,
                        "--format", "raw", "-o", "/dev/null", name], check=True)
        return time.monotonic() - begun
    one = path + ".one"
    pathlib.Path(one).write_text("hello world\n")
    return tokens / (once(path) - min(once(one) for _ in range(3)))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stoker")
    ap.add_argument("--model", default="all-MiniLM-L6-v2")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--dtype", default="auto")
    ap.add_argument("--seconds", type=int, default=20)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--serve", default="", help="further options of stoker serve")
    ap.add_argument("--peer", action="append", default=[], help="NAME=URL of a server that runs")
    args = ap.parse_args()
    folder = bench_embed.model_dir(args.model)
    if not folder:
        say(f"bench-serve: model '{args.model}' is not here: stoker model get {args.model}")
        return 0
    lines = bench_embed.corpus(bench_models.words_of(folder), TEXTS, random.Random(7))
    lines = [t[:900] for t in lines]  # below the model's own limit on both sides
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "texts")
        pathlib.Path(path).write_text("".join(t + "\n" for t in lines))
        tokens = sum(bench_embed.token_counts(args, folder, lines))
        say(f"{TEXTS} texts, {tokens} tokens; {args.threads} threads, load {os.getloadavg()[0]:.1f}")
        s = Server(args, folder)
        ratios, cores = [], len(os.sched_getaffinity(0))
        for _ in range(args.rounds):
            s.p.send_signal(19)  # SIGSTOP: nothing of it disturbs
            off = offline(args, folder, path, tokens)
            s.p.send_signal(18)
            got = load(args, s.url, path, CLIENTS, args.seconds)[0]
            left = 1 - got["client_cpu_s"] / (cores * got["seconds"])
            ratios.append(got["tokens_per_s"] / left / off)
            say(f"offline {off:.0f} tokens/s, served {got['tokens_per_s']:.0f}, client's CPU {got['client_cpu_s']:.2f} s, "
                f"p99 {got['service_time_ms']['p99']:.0f} ms, errors {got['errors']['total']}: {ratios[-1]:.3f}")
        result("serve.efficiency", statistics.median(ratios), "share", 0.95, statistics.median(ratios) >= 0.95)
        one = os.path.join(d, "one")
        pathlib.Path(one).write_text("hello world\n")
        got = load(args, s.url, one, 1, 5)[0]
        runs = [b["run_us"] for b in json.loads(s.get("/debug/batches"))["batches"]]
        added = got["service_time_ms"]["p50"] * 1000 - statistics.median(runs)
        say(f"one short text: {got['service_time_ms']['p50'] * 1000:.0f} us, of which the engine {statistics.median(runs):.0f}")
        result("serve.http_us", added, "us", 150, added <= 150)
        say(f"resident {s.rss_mb():.1f} MB")
        for peer in args.peer:
            name, url = peer.split("=", 1)
            ours, theirs = load(args, s.url, path, CLIENTS, args.seconds, "--compare", url)
            rps = ours["requests_per_s"] / theirs["requests_per_s"]
            p99 = theirs["service_time_ms"]["p99"] / ours["service_time_ms"]["p99"]
            say(f"{name}: {theirs['requests_per_s']:.1f} requests/s, p99 {theirs['service_time_ms']['p99']:.0f} ms; ours "
                f"{ours['requests_per_s']:.1f}, {ours['service_time_ms']['p99']:.0f} ms")
            result(f"serve.vs_{name}.rps", rps, "x", 5, rps >= 5)
            result(f"serve.vs_{name}.p99", p99, "x", 5, p99 >= 5)
        s.stop()
    for line in results:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

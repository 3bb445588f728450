#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How much of the engine's speed `stoker serve` hands on, what HTTP adds to one short text, what
serialising costs, and how other servers do under the same load.

    tests/bench/bench_serve.py build/stoker [--model DIR|NAME] [--seconds 20] [--rounds 3]
        [--peers-python PYTHON] [--peers infinity,fastapi] [--peer NAME=URL]…

Offline (`stoker embed` on a file) and served (`stoker bench serve`, 64 closed-loop clients that keep
their connections and do not parse) take turns on the same texts.  The client's own CPU time is taken
out: what it used of the machine's cores the server could not have.  Serialising is the CPU time that
the server itself counts for reading and writing JSON, of all it used.

Peers whose packages --peers-python has (by default the Python that runs this) are started on the same
model and take turns with us, all others stopped meanwhile; figures are medians of rounds.  They run
float32.  Of ours there are two, what --dtype auto chooses and int8; both hold their bound of exactness
(make parity: cosine 0.99 at least), the faster one is compared, and the other's figures stand beside it.
infinity's own int8 does not hold it (cosine 0.94 on MiniLM).  A peer that runs already is measured by
--peer.

Ends with RESULT name value unit target ok|short."""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bench_embed  # noqa: E402
import bench_models  # noqa: E402
import bench_peers  # noqa: E402
import serve_peers  # noqa: E402

CLIENTS, TEXTS = 64, 2048
SHORT_RUNS, SHORT_REQUESTS = 20, 500  # of one short text; fewer than /debug/batches keeps
TRIAL_S = 6  # of each way to run a peer
REPLY_S = 120  # for one reply: a peer may compile first
results = []


def say(text):
    print(text, flush=True)


def result(name, value, unit, target, ok):
    results.append(f"RESULT {name} {value:.4g} {unit} {target:g} {'ok' if ok else 'short'}")


class Server:
    def __init__(self, args, folder, dtype):
        self.p = subprocess.Popen([args.stoker, "serve", "-m", f"m={folder}", "--port", "0", "--threads", str(args.threads),
                                   "--dtype", dtype, *args.serve.split()], stderr=subprocess.PIPE, text=True,
                                  preexec_fn=bench_peers.end_with_parent)
        self.port = 0
        for line in self.p.stderr:
            found = re.search(r"://[0-9.]+:(\d+)", line)
            self.port = self.port or (int(found[1]) if found else 0)
            if line.strip().endswith("ready"):
                break
        self.url = f"http://127.0.0.1:{self.port}"
        self.name = f"stoker {json.loads(self.get('/info')).get('model_dtype', dtype)}"

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.request("GET", path)
        return c.getresponse().read()

    def rss_mb(self):
        text = pathlib.Path(f"/proc/{self.p.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.p.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def serialise_s(self):
        """CPU seconds of reading and of writing JSON, as the server counts them."""
        text = self.get("/metrics").decode()
        return [float(re.search(rf'stoker_stage_seconds_sum{{[^}}]*stage="{stage}"[^}}]*}} (\S+)', text)[1]) for stage in ("parse", "write")]

    def pause(self):
        self.p.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.p.send_signal(signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.p.terminate()
        self.p.wait()


class Running:
    """A peer that somebody else started."""

    def __init__(self, name, url):
        self.name, self.url = name, url

    def pause(self):
        pass

    go_on = stop = pause


def load(args, url, texts, clients, *more):
    out = subprocess.run([args.stoker, "bench", "serve", url, "--texts", texts, "-c", str(clients), "--json", "--quiet", *more],
                         capture_output=True, text=True)
    if not out.stdout:
        raise RuntimeError(out.stderr.strip())
    return json.loads(out.stdout)["servers"][0]


def load_all(args, url, path, seconds):
    return load(args, url, path, CLIENTS, "--duration", f"{seconds}s", "--warmup", "2s", "--timeout", f"{REPLY_S}s")


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


def efficiency(args, s, folder, path, tokens):
    ratios, shares, cores = [], [], len(os.sched_getaffinity(0))
    for _ in range(args.rounds):
        s.pause()
        off = offline(args, folder, path, tokens)
        s.go_on()
        cpu, ser = s.cpu_s(), s.serialise_s()
        got = load_all(args, s.url, path, args.seconds)
        cpu, ser = s.cpu_s() - cpu, [b - a for a, b in zip(ser, s.serialise_s())]
        left = 1 - got["client_cpu_s"] / (cores * got["seconds"])
        ratios.append(got["tokens_per_s"] / left / off)
        shares.append(sum(ser) / cpu)
        say(f"offline {off:.0f} tokens/s, served {got['tokens_per_s']:.0f}, client's CPU {got['client_cpu_s']:.2f} s, "
            f"p99 {got['service_time_ms']['p99']:.0f} ms, errors {got['errors']['total']}: {ratios[-1]:.3f}; "
            f"server's CPU {cpu:.1f} s, reading JSON {ser[0]:.4f} s, writing {ser[1]:.4f} s; load {os.getloadavg()[0]:.1f}")
    result("serve.efficiency", statistics.median(ratios), "share", 0.95, statistics.median(ratios) >= 0.95)
    result("serve.serialise_share", max(shares), "share", 0.05, max(shares) <= 0.05)


def short_text(args, s, d):
    """Client's median minus the engine's of the same requests, run by run: the machine's speed may change."""
    one, rows = os.path.join(d, "one"), []
    pathlib.Path(one).write_text("hello world\n")
    for _ in range(SHORT_RUNS):
        got = load(args, s.url, one, 1, "--requests", str(SHORT_REQUESTS), "--warmup", "50ms")
        batches = json.loads(s.get("/debug/batches"))["batches"]
        rows.append((got["service_time_ms"]["p50"] * 1000, statistics.median(b["run_us"] for b in batches[-SHORT_REQUESTS:])))
    added = statistics.median(a - b for a, b in rows)
    say(f"one short text: {statistics.median(a for a, _ in rows):.0f} us, of which the engine {statistics.median(b for _, b in rows):.0f}; "
        f"added in {SHORT_RUNS} runs: {min(a - b for a, b in rows):.0f} to {max(a - b for a, b in rows):.0f}")
    result("serve.http_us", added, "us", 150, added <= 150)


def start_peers(args, folder, path):
    peers = [Running(*peer.split("=", 1)) for peer in args.peer]
    names = [n for n in args.peers.split(",") if n]
    for name in names:
        why = serve_peers.missing(args.peers_python, name)
        if why:
            say(f"{name}: not measured, {args.peers_python} cannot run it: {why}")
        elif name == "infinity":
            peer = serve_peers.fastest_infinity(args.peers_python, folder, args.infinity_ways,
                                                lambda p: load_all(args, p.url, path, TRIAL_S)["requests_per_s"], say)
            peers += [peer] if peer else []
        else:
            peers.append(serve_peers.fastapi_peer(args.peers_python, folder, args.threads))
        for p in peers:
            p.pause()
    return peers


def turns(args, servers, path):
    """{name: [(requests/s, p99 ms) of each round]}; one server runs, the others are stopped."""
    got = {s.name: [] for s in servers}
    for s in servers:
        s.pause()
    for _ in range(args.rounds):
        for s in servers:
            s.go_on()
            g = load_all(args, s.url, path, args.seconds)
            s.pause()
            got[s.name].append((g["requests_per_s"], g["service_time_ms"]["p99"]))
            say(f"{s.name}: {g['requests_per_s']:.1f} requests/s, p50 {g['service_time_ms']['p50']:.0f} ms, "
                f"p99 {g['service_time_ms']['p99']:.0f} ms, errors {g['errors']['total']}; load {os.getloadavg()[0]:.1f}")
    return got


def against(args, ours, int8, peers, path):
    got = turns(args, [ours, *int8, *peers], path)
    for p in peers:
        found = []
        for s in [ours, *int8]:
            rps = statistics.median(a[0] / b[0] for a, b in zip(got[s.name], got[p.name]))
            p99 = statistics.median(b[1] / a[1] for a, b in zip(got[s.name], got[p.name]))
            say(f"{s.name} against {p.name} (float32): {rps:.2f} x the requests/s, p99 {p99:.2f} x shorter")
            found.append((rps, p99, s.name))
        rps, p99, name = max(found)
        say(f"{p.name} is compared with {name}")
        result(f"serve.vs_{p.name}.rps", rps, "x", 5, rps >= 5)
        result(f"serve.vs_{p.name}.p99", p99, "x", 5, p99 >= 5)


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stoker")
    ap.add_argument("--model", default="all-MiniLM-L6-v2")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--dtype", default="auto")
    ap.add_argument("--seconds", type=int, default=20)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--serve", default="", help="further options of stoker serve")
    ap.add_argument("--peers-python", default=sys.executable, help="a Python that has the peers' packages")
    ap.add_argument("--peers", default="infinity,fastapi", help="which to start; '' for none")
    ap.add_argument("--infinity-ways", default="", help="try these alone, ';' between them (default: all)")
    ap.add_argument("--peer", action="append", default=[], help="NAME=URL of a server that runs")
    ap.add_argument("--only-peers", action="store_true", help="leave out what needs no peer")
    return ap.parse_args()


def main():
    args = arguments()
    folder = bench_embed.model_dir(args.model)
    if not folder:
        say(f"bench-serve: model '{args.model}' is not here: stoker model get {args.model}")
        return 0
    lines = bench_embed.corpus(bench_models.words_of(folder), TEXTS, random.Random(7))
    lines = [t[:900] for t in lines]  # below the model's own limit on both sides
    servers = []
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "texts")
        pathlib.Path(path).write_text("".join(t + "\n" for t in lines))
        tokens = sum(bench_embed.token_counts(args, folder, lines))
        try:
            servers.append(Server(args, folder, args.dtype))
            ours = servers[0]
            say(f"{TEXTS} texts, {tokens} tokens; {args.threads} threads, load {os.getloadavg()[0]:.1f}; --dtype {args.dtype}: {ours.name}")
            if not args.only_peers:
                efficiency(args, ours, folder, path, tokens)
                short_text(args, ours, d)
                say(f"resident {ours.rss_mb():.1f} MB")
            ours.pause()
            peers = start_peers(args, folder, path)
            servers += peers
            int8 = [Server(args, folder, "int8")] if peers and "int8" not in ours.name else []
            servers += int8
            if peers:
                against(args, ours, int8, peers, path)
        finally:
            for s in servers:
                s.stop()
    for line in results:
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

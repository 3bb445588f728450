#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `stoker agent` costs: CPU, memory, time of a scrape; beside prometheus-node-exporter from Debian.

    tests/bench/agent.py build/stoker build/tests/libfakenvml.so [--quick] [--only node,peer,growth,scrape,crowd]

Less than five minutes, --quick about ninety seconds.  CPU is CPU time of the process and its children, exact to the
nanosecond and not disturbed by other work as the wall clock is; memory is Private_Dirty of /proc/PID/smaps_rollup:
what the process wrote and shares with nobody, without the text of programs and libraries.

node    Two agents with history, both 1 s, scraped every 15 s.  One is live: the sources of this machine, history
        synced each second, and the collector with a fake driver library of eight H100 (tests/fakenvml), which
        answers at once: the real driver's own time is in `stoker agent --gpu-sample` on a GPU, not here.  The other
        is the demo, a recording played as eight GPUs.  agent.cpu_pct is of the dearer one.  A third takes ten samples
        a second, so that its buffer for rows is full within the minute: agent.rss_anon_mb is of the largest.
peer    node_exporter with the collectors that both have, nothing else; ours with --no-gpu and --no-history,
        because it keeps none.  Both are scraped once a second, uncompressed, on one connection.
growth  A recording of the live agent without its events, in a loop at full speed with history, for 24 hours of its
        time, scraped and queried meanwhile.  The least of hours three to six, since a request under way has its text in
        memory, and the second hour is the first whose seconds become minutes; against the least of the last three.  5 % is for the index of a history that fills up, and for the allocator.
scrape  The live agent's whole text, on one connection and with one for each.  20 a second: each twentieth is the
        first of its second and waits for the text to be made, so the 99th percentile is of those; the figure is the
        median of that of each hundred.  wedged: the same
        with one GPU whose driver call never returns, from before the agent notices on.
crowd   100 connections ask at once.  A client in one thread reads all of it: most of the time is its own.

Ends with RESULT lines: name, value, unit, target, ok or short.  Without node_exporter (tools/setup bench-agent) its
lines are left out, and it says so."""
import argparse
import contextlib
import csv
import http.client
import os
import pathlib
import platform
import re
import selectors
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "cli"))
import serve_box  # noqa: E402
from agent_box import Agent, wait  # noqa: E402

PEER = "prometheus-node-exporter"
# What both have wholly.  Of meminfo_numa, netclass, netstat and sockstat ours has a part alone: they are off, in its favour.
SHARED = ("cpu", "diskstats", "filefd", "filesystem", "infiniband", "loadavg", "meminfo", "mountstats", "netdev", "nfs",
          "pressure", "stat", "uname", "vmstat")
GPU_CALL = "nvmlDeviceGetTemperatureV:3"  # never returns, of GPU 3
RATE = 20                                 # scrapes a second
CROWD = 100
DAY_S, LOOK_S = 86400, 3 * 3600
results = []


def say(text):
    print(text, flush=True)


def result(name, value, unit, target=None, good=True):
    results.append(f"RESULT {name} {value:.4g} {unit}" + (f" {target:g} {'ok' if good and value <= target else 'short'}" if target is not None else ""))


# ---- what a process costs


def tree(pid):
    """It and its children, as long as they live."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += tree(int(child))
    return found


def cpu_s(pid):
    """CPU seconds of each process of the tree: the kernel's clock of another process is named by its inverted number."""
    found = {}
    for p in tree(pid):
        with contextlib.suppress(OSError):
            found[p] = time.clock_gettime((~p << 3) | 2)
    return found


def private_kb(pid):
    total = 0
    for p in tree(pid):
        with contextlib.suppress(OSError):
            total += int(re.search(r"Private_Dirty:\s+(\d+)", pathlib.Path(f"/proc/{p}/smaps_rollup").read_text())[1])
    return total


class Cost:
    """CPU of a tree in slices, so that one bad second shows as what it is."""

    def __init__(self, name, pid):
        self.name, self.pid, self.slices, self.kb = name, pid, [], 0
        self.at, self.before, self.total, self.begun = time.monotonic(), cpu_s(pid), 0.0, time.monotonic()

    def look(self):
        now, after = time.monotonic(), cpu_s(self.pid)
        used = sum(s - self.before.get(p, 0) for p, s in after.items())
        self.total += used
        self.slices.append(100 * used / (now - self.at))
        self.at, self.before = now, after
        self.kb = max(self.kb, private_kb(self.pid))

    def pct(self):
        return 100 * self.total / (self.at - self.begun)

    def tell(self):
        say(f"{self.name}: {self.pct():.3f} % of a core (slices: median {statistics.median(self.slices):.3f}, worst {max(self.slices):.3f}), "
            f"{self.kb / 1024:.1f} MB private, {len(tree(self.pid))} process{'es' if len(tree(self.pid)) > 1 else ''}")


# ---- asking


class Client:
    """One connection; http.client would cost more than the server."""

    def __init__(self, port):
        self.port, self.s = port, None

    def open(self):
        self.s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, path="/metrics"):
        """Length of the body."""
        if not self.s:
            self.open()
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        got, end, want, chunked = bytearray(), -1, 0, False
        while end < 0 or (not got.endswith(b"0\r\n\r\n") if chunked else len(got) < end + want):
            piece = self.s.recv(1 << 18)
            if not piece:
                raise OSError("the server closed the connection")
            got += piece
            if end < 0 and (end := got.find(b"\r\n\r\n")) >= 0:
                end += 4
                head = bytes(got[:end]).lower()
                found = re.search(rb"content-length: *(\d+)", head)
                want, chunked = int(found[1]) if found else 0, not found
                if not head.startswith(b"http/1.1 200"):
                    raise OSError(head[:60])
        return len(got) - end

    def close(self):
        if self.s:
            self.s.close()
        self.s = None


class Scraper(threading.Thread):
    """Asks once a period until stopped."""

    def __init__(self, port, period, path="/metrics"):
        super().__init__(daemon=True)
        self.c, self.period, self.path, self.end, self.count, self.failed = Client(port), period, path, threading.Event(), 0, 0
        self.start()

    def run(self):
        while not self.end.wait(self.period):
            try:
                self.c.get(self.path)
                self.count += 1
            except OSError:
                self.failed += 1
                self.c.close()

    def stop(self):
        self.end.set()
        self.join()
        self.c.close()


# ---- agents


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.env = dict(FAKE_NVML_JSON=str(TOP / "tests/fakenvml/dgx-h100.json"), FAKE_NVML_LIVE=str(TOP / "tests/fixtures/gpu/dgx-h100.json"),
                        TMPDIR=str(folder))

    def agent(self, *more, env=None, ready=True):
        a = Agent(self.args.stoker, *more, env=dict(self.env, **(env or {})), ready=ready)
        wait(lambda: a.metrics_port or a.p.poll() is not None, 20)
        if a.p.poll() is not None or not a.metrics_port:
            sys.exit(f"the agent does not start: {a.text}")
        return a

    def live(self, *more, env=None):
        a = self.agent("--gpu-library", self.args.fake, *more, env=env)
        if not wait(lambda: "\nDCGM_FI_DEV_GPU_TEMP{" in a.metrics(), 30):
            sys.exit(f"the fake GPUs are not there: {a.text}")
        return a

    def history(self, name):
        return "--history", str(self.folder / name)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def start_peer():
    program = shutil.which(os.environ.get("NODE_EXPORTER", PEER))
    if not program:
        return None, 0
    port = free_port()
    p = subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}", "--web.disable-exporter-metrics", "--collector.disable-defaults",
                          *(f"--collector.{c}" for c in SHARED)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    serve_box.living.append(p)

    def there():
        with contextlib.suppress(OSError):
            Client(port).get()
            return True
        return p.poll() is not None
    wait(there, 20)
    return (p, port) if p.poll() is None else (None, 0)


# ---- the parts


def families(port):
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    return {l.split()[2] for l in text.splitlines() if l.startswith("# TYPE node_")}, sum(not l.startswith("#") for l in text.splitlines())


def minute(b):
    """node and peer, in the same minute."""
    costs, agents, scrapers, peer = {}, [], [], (None, 0)
    if "node" in b.args.only:
        agents += [b.live(*b.history("live.ring")), b.agent("--demo"), b.live(*b.history("fast.ring"), "--interval", "100ms")]
        scrapers += [Scraper(a.metrics_port, 15) for a in agents]
    ours = None
    if "peer" in b.args.only:
        peer = start_peer()
        ours = b.agent("--no-gpu", "--no-history")
        scrapers += [Scraper(port, 1) for port in (ours.metrics_port, peer[1]) if port]
        if not peer[0]:
            say(f"{PEER} is not here (tools/setup bench-agent): nothing to compare with")
        elif not families(peer[1])[0]:
            sys.exit("node_exporter tells nothing")
    time.sleep(5)
    names = ("live, eight fake GPUs", "demo, eight played GPUs", "live at 100 ms")
    costs = {n: Cost(n, a.p.pid) for n, a in zip(names, agents)}
    if ours:
        costs["ours"] = Cost("ours, host alone", ours.p.pid)
    if peer[0]:
        costs["theirs"] = Cost("node_exporter", peer[0].pid)
    for _ in range(b.args.seconds // 5):
        time.sleep(5)
        for c in costs.values():
            c.look()
    for c in costs.values():
        c.tell()
    if agents:
        series = [len([l for l in a.metrics().splitlines() if not l.startswith("#")]) for a in agents]
        say(f"lines of /metrics: live {series[0]}, demo {series[1]}")
        result("agent.cpu_pct", max(costs[n].pct() for n in names[:2]), "%", 0.5)
        result("agent.rss_anon_mb", max(costs[n].kb for n in names) / 1024, "MB", 20)
    if ours and peer[0]:
        (of, on), (tf, tn) = families(ours.metrics_port), families(peer[1])
        say(f"collectors of node_exporter: {' '.join(SHARED)}: {tn} lines, {len(tf)} names, of which ours has {len(of & tf)} "
            f"(not: {' '.join(sorted(tf - of))}); ours: all sources of the host, {on} lines")
        result("agent.vs_node_exporter.cpu", costs["ours"].pct() / costs["theirs"].pct(), "ratio", 1)
        result("agent.vs_node_exporter.rss", costs["ours"].kb / costs["theirs"].kb, "ratio", 1)
    for s in scrapers:
        s.stop()
    for a in agents + ([ours] if ours else []):
        a.stop()
    if peer[0]:
        peer[0].terminate()
        peer[0].wait()


def without_events(path, to):
    """Records stand alone, each with its length: those of type E are left out.  Else each round would tell of a start."""
    data = path.read_bytes()
    at = data.index(b"\n") + 1
    out = [data[:at]]
    while at + 9 <= len(data):
        end = at + 8 + struct.unpack_from("<I", data, at)[0]
        if data[at + 8:at + 9] != b"E":
            out.append(data[at:end])
        at = end
    to.write_bytes(b"".join(out))


def growth(b):
    rec, calm = b.folder / "node.rec", b.folder / "calm.rec"
    a = b.live("--no-history", "--record", str(rec))
    time.sleep(b.args.record)
    a.stop()
    without_events(rec, calm)
    a = b.agent("--replay", str(calm), "--loop", "--speed", "max", "--samples", str(DAY_S), ready=False)
    asked = [(a.metrics_port, "/metrics"), (a.port, "/api/v1/query?metric=gpu.power&from=-1h&points=200"), (a.port, "/api/v1/node")]
    for port, path in asked * 8:  # every thread has answered each once, so its heap is what it will be
        a.ask(path, port)
    scrapers = [Scraper(port, 0.4, path) for port, path in asked]

    looks, at, begun = [], 0, time.monotonic()
    while at < DAY_S:
        time.sleep(0.1)
        node = a.ask("/api/v1/node")[1]
        at = node["agent"]["seconds"]
        looks.append((at, private_kb(a.p.pid)))
        if a.p.poll() is not None or time.monotonic() - begun > 600:
            sys.exit(f"the replay does not get on: {at} s, {a.text}")
    for s in scrapers:
        s.stop()
    looks.append((at, private_kb(a.p.pid)))
    first = min(kb for s, kb in looks if LOOK_S <= s <= 2 * LOOK_S)
    last = min(kb for s, kb in looks if s >= DAY_S - LOOK_S)
    say(f"24 h of {node['series']['count']} series in {time.monotonic() - begun:.0f} s, {sum(s.count for s in scrapers)} requests "
        f"({sum(s.failed for s in scrapers)} failed): {first / 1024:.2f} MB after {LOOK_S / 3600:.0f} h, {last / 1024:.2f} MB at the end, "
        f"at most {max(kb for _, kb in looks) / 1024:.2f}")
    result("agent.rss_growth", last / first, "ratio", 1.05, not sum(s.failed for s in scrapers))
    a.stop()


def p99(ms):
    return sorted(ms)[max(0, int(0.99 * len(ms) + 0.5) - 1)]


def p99_usual(ms):
    """The median of the hundreds' percentiles: one moment in which another program had the machine does not decide."""
    return statistics.median(p99(ms[i:i + 100]) for i in range(0, len(ms) - 99, 100))


def paced(port, count, fresh):
    """Times of scrapes that fall due RATE times a second; fresh: a connection for each, its opening counted."""
    c, ms, due, size = Client(port), [], time.monotonic(), 0
    for _ in range(count):
        due += 1 / RATE
        time.sleep(max(0, due - time.monotonic()))
        begun = time.perf_counter()
        size = c.get()
        ms.append((time.perf_counter() - begun) * 1000)
        if fresh:
            c.close()
    c.close()
    return ms, size


def one_way(b, a, fresh, what):
    ms, size = paced(a.metrics_port, b.args.scrapes, fresh)
    say(f"{what}, {'a connection for each' if fresh else 'one connection'}: {len(ms)} scrapes of {size >> 10} KiB, p50 {statistics.median(ms):.2f} "
        f"p95 {sorted(ms)[int(0.95 * len(ms))]:.2f} p99 {p99(ms):.2f} max {max(ms):.2f} ms; median of the hundreds' p99 {p99_usual(ms):.2f}")
    return p99_usual(ms)


def both_ways(b, a, what):
    before = sum(cpu_s(a.p.pid).values())
    worst = max(one_way(b, a, fresh, what) for fresh in (False, True))
    used = sum(cpu_s(a.p.pid).values()) - before
    say(f"{what}: {1000 * used / (2 * b.args.scrapes):.2f} ms of the agent's CPU for each, sampling included")
    return worst


def scrape(b):
    a = b.live(*b.history("scrape.ring"))
    result("agent.scrape_p99_ms", both_ways(b, a, "scrape"), "ms", 5)
    text = a.metrics()
    a.stop()
    a = b.agent("--gpu-library", b.args.fake, *b.history("wedged.ring"), env=dict(FAKE_NVML_FAULT=f"hang:{GPU_CALL}"))
    worst = one_way(b, a, False, "while the agent finds out that a GPU is wedged")
    others = wait(lambda: a.metrics().count("\nDCGM_FI_DEV_GPU_TEMP{") == 7, 60)
    worst = max(worst, both_ways(b, a, "one GPU wedged"))
    say(f"GPUs told: {text.count(chr(10) + 'DCGM_FI_DEV_GPU_TEMP{')} of 8 without a fault, {a.metrics().count(chr(10) + 'DCGM_FI_DEV_GPU_TEMP{')} with one wedged; "
        f"calls that hang: {a.value('stoker_driver_abandoned') or a.value('stoker_driver_hung')}")
    result("agent.scrape_wedged_p99_ms", worst, "ms", 5, others)
    a.stop()


def at_once(port):
    """Time of each of CROWD answers, from the moment when all were asked."""
    sel, took, left = selectors.DefaultSelector(), [], {}
    for _ in range(CROWD):
        s = socket.create_connection(("127.0.0.1", port), timeout=30)
        left[s] = [0, 0]
        sel.register(s, selectors.EVENT_READ)
    begun = time.perf_counter()
    for s in left:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while left:
        for key, _ in sel.select(30):
            s, piece = key.fileobj, key.fileobj.recv(1 << 20)
            if not piece:
                raise OSError("a scraper of the crowd got no whole answer")
            if not left[s][1]:
                end = piece.find(b"\r\n\r\n") + 4
                left[s][1] = end + int(re.search(rb"(?i)content-length: *(\d+)", piece[:end])[1])
            left[s][0] += len(piece)
            if left[s][0] >= left[s][1]:
                took.append((time.perf_counter() - begun) * 1000)
                sel.unregister(s)
                s.close()
                del left[s]
    return took


def crowd(b):
    a = b.live(*b.history("crowd.ring"))
    before, ms = sum(cpu_s(a.p.pid).values()), []
    for _ in range(b.args.rounds):
        ms += at_once(a.metrics_port)
        time.sleep(0.3)
    used = sum(cpu_s(a.p.pid).values()) - before
    say(f"{CROWD} scrapers at once, {b.args.rounds} times: p50 {statistics.median(ms):.1f} p99 {p99(ms):.1f} max {max(ms):.1f} ms to the whole answer of each; "
        f"{1000 * used / len(ms):.2f} ms of CPU for one; {private_kb(a.p.pid) / 1024:.1f} MB private afterwards")
    result("agent.scrape_100_p99_ms", p99(ms), "ms")
    a.stop()


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    git = subprocess.run(["git", "-C", str(TOP), "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    say(f"machine: {os.cpu_count()} x {model[1] if model else platform.machine()}, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}; commit {git or 'unknown'}")


def recorded():
    """Others' figures are not ours to measure here: they need a GPU, or are told by their users."""
    say("for comparison, as recorded:")
    with open(TOP / "tests/bench/peers/agents.csv", newline="") as f:
        for r in csv.DictReader(f):
            say(f"  {r['program']}, {r['figure']}: {r['value']} {r['unit']} ({r['conditions']}; {r['source']})")


PARTS = ("node", "peer", "growth", "scrape", "crowd")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("stoker")
    a.add_argument("fake", help="the fake driver library")
    a.add_argument("--quick", action="store_true", help="shorter: figures vary more")
    a.add_argument("--only", default=",".join(PARTS), help="some of: " + ", ".join(PARTS))
    args = a.parse_args()
    args.stoker, args.fake, args.only = os.path.abspath(args.stoker), os.path.abspath(args.fake), set(args.only.split(","))
    if args.only - set(PARTS):
        a.error(f"no part '{(args.only - set(PARTS)).pop()}'")
    args.seconds, args.record, args.scrapes, args.rounds = (20, 8, 5 * RATE, 5) if args.quick else (60, 30, 20 * RATE, 20)
    machine()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    b = Bench(args, folder)
    try:
        if args.only & {"node", "peer"}:
            minute(b)
        for part in (growth, scrape, crowd):
            if part.__name__ in args.only:
                part(b)
        recorded()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for r in results:
        say(r)


main()

# SPDX-License-Identifier: MIT
"""TAP of `stoker serve` with devices in processes of their own: serve_worker.py STOKER PLUGIN-DIR
[PART…], in a folder with the models bert and bert-score.  The plug-in is tests/plugin/fake_engine.c;
faults are those of real processes: kill -9, SIGSTOP, abort().  No time decides but --device-timeout."""
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import time

import serve_test
from serve_box import wait
from serve_test import STOKER, Server, check, embed, run

PLUGIN = sys.argv[2]
DOES = os.path.abspath("does")
ENV = dict(STOKER_PLUGIN_DIR=PLUGIN, FAKE_DEVICE_DOES=DOES, FAKE_DEVICE_FAILS=os.path.abspath("fails"))
TEXTS = ["hello world", "a", "the quick brown fox", "hello hello hello world"]
servers = []


def serve(*args, **more):
    s = Server(*args, env=dict(ENV, **more.pop("env", {})), **more)
    servers.append(s)
    return s


def does(text):
    pathlib.Path("does.new").write_text(text)
    os.replace("does.new", DOES)


def heal():
    pathlib.Path(DOES).unlink(missing_ok=True)


def stat(pid, field):
    """A field of /proc/PID/stat behind the name, from 3 on; None: no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field - 3]
    except OSError:
        return None


def gone(pid):
    return stat(pid, 3) in (None, "Z", "X")


def workers(parent):
    """Processes of this parent: {device: pid}."""
    found = {}
    for p in pathlib.Path("/proc").iterdir():
        if p.name.isdigit() and stat(p.name, 4) == str(parent) and not gone(p.name):
            try:
                found[(p / "comm").read_text().strip()] = int(p.name)
            except OSError:
                pass
    return found


def worker(s, device="cuda:0"):
    """Its pid, once it is there."""
    wait(lambda: f"stoker-{device}" in workers(s.p.pid))
    return workers(s.p.pid).get(f"stoker-{device}")


def where(s, text="hello"):
    return s.ask("/embed", {"inputs": f"{text} {time.monotonic()}"})[2].getheader("x-compute-type")


def comes_back(s, device="cuda:0"):
    return wait(lambda: where(s) == device)


class Load:
    """Clients that ask until told otherwise: every reply is a 200 with the bits of the device it names."""

    def __init__(self, s, clients=6):
        self.s, self.odd, self.seen, self.count, self.over = s, [], set(), 0, threading.Event()
        self.texts = [f"hello {w}" for w in ("world", "fox", "brown", "quick", "the", "a")][:clients]
        self.bits = dict(cpu=embed("bert", self.texts, "--normalize"), cuda=embed("bert", self.texts, "--normalize", "--device", "ref"))
        self.those = [threading.Thread(target=self.client, args=(k,)) for k in range(clients)]
        for t in self.those:
            t.start()

    def client(self, k):
        while not self.over.is_set():
            try:
                st, v, r = self.s.ask("/embed", {"inputs": self.texts[k]})
            except OSError as e:
                self.odd.append(repr(e))
                return
            device, field = r.getheader("x-compute-type"), r.getheader("x-stoker-device")
            self.seen.add((device, bool(field)))
            self.count += 1
            if st != 200 or v[0] != self.bits[device.split(":")[0]][k] or (device == "cpu") != bool(field):
                self.odd.append((st, v, device, field))

    def stop(self):
        self.over.set()
        for t in self.those:
            t.join()
        return not self.odd


# ----

def apart():
    on_ref = embed("bert", TEXTS, "--normalize", "--device", "ref")
    s = serve("-m", "bert", "-m", "bert-score", "--device", "cuda:0")
    st, v, r = s.ask("/embed", {"inputs": TEXTS})
    check("a worker computes", st == 200 and v == on_ref and r.getheader("x-compute-type") == "cuda:0", st, v, s.text)
    st, v, _ = s.ask("/rerank", {"query": "hello", "documents": TEXTS})
    check("another model in the same process", st == 200 and list(workers(s.p.pid)) == ["stoker-cuda:0"], st, workers(s.p.pid))
    st, v, _ = s.ask("/embed_all", {"inputs": TEXTS})
    check("rows of every token", st == 200 and [len(x) for x in v] == [len(x) for x in s.ask("/tokenize", {"inputs": TEXTS})[1]], st)
    pid = worker(s)
    plugin = os.path.basename(PLUGIN)
    maps = [pathlib.Path(f"/proc/{p}/maps").read_text() for p in (s.p.pid, pid)]
    check("the plug-in is in the worker, and not in the server", "stoker-cuda.so" not in maps[0] and "stoker-cuda.so" in maps[1], plugin)
    fds = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    check("it has no descriptor of its parent's", len(fds) <= 4 and sum("socket" in f for f in fds) == 1, fds)
    check("it has a group of its own", stat(pid, 5) == str(pid) and stat(s.p.pid, 5) != str(pid))
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, sig)
    check("signals for a terminal or a service are not for it", where(s) == "cuda:0" and worker(s) == pid, s.text)
    up = s.metric("stoker_worker_up", 'device="cuda:0"')
    beat = s.metric("stoker_worker_heartbeat_seconds", 'device="cuda:0"')
    check("metrics tell of it", up == 1 and 0 <= beat < 5 and "stoker_worker_restarts_total{device=\"cuda:0\"} 0" in s.ask("/metrics")[1].decode(), up, beat)
    check("unloading a model leaves the other", s.ask("/v1/models/unload", {"model": "bert-score"})[0] < 300 and where(s) == "cuda:0")
    rc, text = s.stop()
    check("it ends with the server", rc == 0 and wait(lambda: gone(pid)), rc, text)


def killed():
    s = serve("-m", "bert", "--device", "cuda:0", "--fallback-at-start")
    first, fds = worker(s), s.fds()
    load = Load(s)
    wait(lambda: load.count > 50)
    pids = [first]
    for _ in range(3):
        os.kill(pids[-1], signal.SIGKILL)
        wait(lambda: gone(pids[-1]) and worker(s) not in (None, pids[-1]))
        pids.append(worker(s))
        comes_back(s)
    ok = load.stop()
    check("kill -9 of the worker under load loses no request", ok and ("cpu", True) in load.seen and ("cuda:0", False) in load.seen, load.odd[:2], load.seen)
    check("another one takes its place", len(set(pids)) == 4 and where(s) == "cuda:0", pids)
    check("and is counted", s.metric("stoker_worker_restarts_total", 'device="cuda:0"') == 3 and s.metric("stoker_worker_up") == 1)
    check("device, process, signal and call are told", re.search(rf"the worker of device 'cuda:0' \(process {first}\) died of signal 9 \(Killed\) in \w", s.text), s.text)
    check("nothing is left open", wait(lambda: s.fds() <= fds + 1), s.fds(), fds)
    check("it ends well", s.stop()[0] == 0, s.text)


def stopped():
    s = serve("-m", "bert", "--device", "cuda:0", "--fallback-at-start", "--device-timeout", "1s")
    pid = worker(s)
    load = Load(s)
    wait(lambda: load.count > 50)
    os.kill(pid, signal.SIGSTOP)
    went = wait(lambda: gone(pid))
    back = comes_back(s)
    ok = load.stop()
    check("SIGSTOP of the worker under load loses no request", ok and ("cpu", True) in load.seen, load.odd[:2], load.seen)
    check("it is killed, and another one started", went and back and worker(s) != pid, went, back)
    check("how long it did not answer is told", re.search(rf"process {pid}\) did not answer for \d+\.\d s in .*state T", s.text), s.text)
    pid = worker(s)
    os.kill(pid, signal.SIGSTOP)
    check("one that stands still without any work is seen too", wait(lambda: gone(pid)) and comes_back(s), s.text)
    check("it ends well", s.stop()[0] == 0, s.text)


def faults():
    for what, word in (("hang", r"did not answer for .* in run"), ("crash", r"died of signal 6 \(Aborted\) in run"), ("exit", r"ended with status 7 in run"),
                       ("lost", r"worker cuda:0: the device is lost to this process: an illegal address was used")):
        s = serve("-m", "bert", "--device", "cuda:0", *(["--device-timeout", "500ms"] if what == "hang" else []))
        pid = worker(s)
        does(f"run {what}")
        st, v, r = s.ask("/embed", {"inputs": f"one {what}"})
        check(f"{what} in a batch: the fallback computes", st == 200 and r.getheader("x-stoker-device") == "cpu; fallback-from=cuda:0"
              and v == embed("bert", [f"one {what}"], "--normalize"), st, v)
        check(f"{what}: the reason is told", wait(lambda: re.search(word, s.text)) and wait(lambda: gone(pid)), s.text)
        heal()
        check(f"{what}: the device comes back", comes_back(s), s.text)
        check(f"{what}: it ends well", s.stop()[0] == 0, s.text)


def trouble():
    s = serve("-m", "bert", "--device", "cuda:0")
    does("run talk")
    s.ask("/embed", {"inputs": "talk"})
    heal()
    check("what a driver prints is told by the server", s.wait_text("worker cuda:0: the driver has something to say"), s.text)
    does("run crash\nload crash")
    s.ask("/embed", {"inputs": "crash"})
    check("one that crashes while it loads again is tried again and again", s.wait_text("it is started again in 2.0 s") and s.ask("/embed", {"inputs": "then"})[0] == 200, s.text)
    heal()
    check("until it works", comes_back(s), s.text)
    check("it ends well", s.stop()[0] == 0, s.text)


def without_fallback():
    s = serve("-m", "bert", "--device", "cuda:0", "--fallback", "none", "--device-timeout", "500ms")
    does("run hang")
    st, v, _ = s.ask("/embed", {"inputs": TEXTS})
    check("without a fallback: an error that names device, process and call", st in (424, 500) and re.search(r"cuda:0.*process \d+.*did not answer for .* in run", json.dumps(v)), st, v)
    begun = time.monotonic()
    st, v, _ = s.ask("/embed", {"inputs": TEXTS})
    check("until it is back requests fail at once", st in (200, 424, 500) and time.monotonic() - begun < 30, st)
    heal()
    check("and then they do not", wait(lambda: s.ask("/embed", {"inputs": TEXTS})[0] == 200))
    check("it ends well", s.stop()[0] == 0, s.text)


def at_the_start():
    for what, status, word in (("load crash", 3, r"died of signal 6 \(Aborted\) in load"), ("load exit", 3, "ended with status 7 in load"),
                               ("start exit", 3, "ended with status 7 in asking for devices"), ("start crash", 3, "died of signal 6")):
        does(what)
        p = run("serve", "-m", "bert", "--device", "cuda:0", "--port", "0", env=dict(os.environ, **ENV))
        check(f"{what}: the server says why and ends", p.returncode == status and re.search(word, p.stderr), p.returncode, p.stderr)
    heal()
    p = run("serve", "-m", "bert", "--device", "npu:0", "--port", "0", env=dict(os.environ, **ENV))
    check("no plug-in: told", p.returncode == 2 and "unknown device 'npu:0'" in p.stderr and "no stoker-npu.so in" in p.stderr, p.returncode, p.stderr)
    os.makedirs("broken", exist_ok=True)
    pathlib.Path("broken/stoker-cuda.so").write_text("no shared object")
    p = run("serve", "-m", "bert", "--device", "cuda:0", "--port", "0", env=dict(os.environ, STOKER_PLUGIN_DIR=os.path.abspath("broken")))
    check("a broken plug-in: told", p.returncode == 3 and "cannot be loaded" in p.stderr, p.returncode, p.stderr)
    s = serve("-m", "bert")
    st, v, _ = s.ask("/v1/models/load", {"model": "late", "source": os.path.abspath("bert"), "device": "cuda:7"})
    told = wait(lambda: "this machine has 2" in s.text)
    check("a device asked for later that is not there: told", st == 202 and told and where(s) == "cpu", st, v, s.text)
    check("and its process goes", wait(lambda: not workers(s.p.pid)), workers(s.p.pid))
    does("load crash")
    st, v, _ = s.ask("/v1/models/load", {"model": "late", "source": os.path.abspath("bert"), "device": "cuda:1"})
    check("a model that crashes its worker harms nobody", st == 202 and s.wait_text("in load") and where(s) == "cpu", st, v, s.text)
    heal()
    st, v, _ = s.ask("/v1/models/load", {"model": "late", "source": os.path.abspath("bert"), "device": "cuda:1"})
    check("and may be loaded again", st == 202 and wait(lambda: s.ask("/embed", {"inputs": "a", "model": "late"})[0] == 200), st, v)
    s.stop()


def parent_dies():
    s = serve("-m", "bert", "--device", "cuda:0,cuda:1")
    pids = [worker(s, "cuda:0"), worker(s, "cuda:1")]
    s.p.kill()
    s.p.wait()
    check("kill -9 of the server: no worker is left", all(pids) and wait(lambda: all(map(gone, pids)), 10), pids)
    s = serve("-m", "bert", "--device", "cuda:0", "--device-timeout", "1h")
    pid = worker(s)
    does("run hang")
    t = threading.Thread(target=lambda: suppress(s.ask, "/embed", {"inputs": "a"}))
    t.start()
    wait(lambda: s.metric("stoker_queue_jobs") == 1)
    s.p.kill()
    s.p.wait()
    t.join()
    heal()
    check("not even one that hangs", wait(lambda: gone(pid), 10), pid)


def suppress(fn, *args):
    try:
        fn(*args)
    except Exception:
        pass


def two():
    s = serve("-m", "bert", "--device", "cuda:0,cuda:1", "--fallback-at-start")
    pids = {d: worker(s, d) for d in ("cuda:0", "cuda:1")}
    check("two devices: two processes", len(set(pids.values())) == 2 and None not in pids.values(), pids)
    load = Load(s)
    wait(lambda: {("cuda:0", False), ("cuda:1", False)} <= load.seen)
    os.kill(pids["cuda:1"], signal.SIGKILL)
    wait(lambda: worker(s, "cuda:1") not in (None, pids["cuda:1"]))
    load.seen.discard(("cuda:1", False))
    back = wait(lambda: ("cuda:1", False) in load.seen)
    check("one that is killed: no request is lost, the other goes on, it comes back", load.stop() and back and worker(s, "cuda:0") == pids["cuda:0"], load.odd[:2], load.seen)
    ups = [s.metric("stoker_worker_up", f'device="{d}"') for d in pids]
    check("metrics tell them apart", ups == [1, 1] and s.metric("stoker_worker_restarts_total", 'device="cuda:1"') == 1, ups)
    check("it ends well", s.stop()[0] == 0, s.text)


def halves():
    """A plug-in that takes batches in two halves, small ones, so that there are always more."""
    on_ref = embed("bert", TEXTS, "--normalize", "--device", "ref")
    for more in (dict(FAKE_DEVICE_SUBMITS="1"), {}):
        s = serve("-m", "bert", "--device", "cuda:0", "--batch-tokens", "16", env=more)
        load = Load(s)
        many = [TEXTS[i % 4] + f" {i}" for i in range(300)]
        want = embed("bert", many, "--normalize", "--device", "ref")
        st, v, _ = s.ask("/embed", {"inputs": many})
        check(f"batches one behind the other {'in the plug-in too' if more else 'in the worker'}", st == 200 and v == want and load.stop(), st, load.odd[:2])
        st, v, _ = s.ask("/embed", {"inputs": TEXTS})
        check("each row is its own", st == 200 and v == on_ref)
        check("it ends well", s.stop()[0] == 0, s.text)


def other_files():
    """What is in the files counts when a worker loads again, not what their inodes say."""
    shutil.copytree("bert", "same")
    s = serve("-m", "same", "--device", "cuda:0", "--fallback-at-start")
    for p in [p for p in pathlib.Path("same").rglob("*") if p.is_file()]:
        shutil.copyfile(p, "fresh")
        os.replace("fresh", p)
    os.kill(worker(s), signal.SIGKILL)
    check("a model whose files were copied anew is loaded again", comes_back(s), s.text)
    weights = pathlib.Path("same/model.safetensors")
    was, data = weights.stat(), weights.read_bytes()
    with open(weights, "r+b") as f:
        f.write(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(weights, ns=(was.st_atime_ns, was.st_mtime_ns))
    os.kill(worker(s), signal.SIGKILL)
    told = s.wait_text("its files are not those it was loaded from")
    st, v, r = s.ask("/embed", {"inputs": "hello"})
    check("one bit of the weights, the same length and time: it is not", told and st == 200 and r.getheader("x-compute-type") == "cpu", st, v, s.text)
    s.stop()
    shutil.copytree("bert", "changing")
    s = serve("-m", "changing", "--device", "cuda:0", "--fallback-at-start")
    pid = worker(s)
    config = pathlib.Path("changing/config.json")
    config.write_text(config.read_text() + " ")
    os.kill(pid, signal.SIGKILL)
    told = s.wait_text("its files are not those it was loaded from")
    st, v, r = s.ask("/embed", {"inputs": "hello"})
    check("a model whose files changed is not loaded again", told and st == 200 and r.getheader("x-compute-type") == "cpu", st, v, s.text)
    check("it ends well", s.stop()[0] == 0, s.text)


def stops_in_a_load():
    does("load hang")
    s = serve("-m", "bert", "--device", "cuda:0", ready=False)
    pid = worker(s)
    health = s.ask("/health")[0]
    begun = time.monotonic()
    rc, text = s.stop()
    heal()
    check("SIGTERM while a load hangs: it ends, and so does the worker", health == 503 and rc is not None and time.monotonic() - begun < 30 and gone(pid), health, rc, text)


def stops_under_load():
    does("run slow")
    s = serve("-m", "bert", "--device", "cuda:0", "--drain", "20s")
    pid, got = worker(s), []
    those = [threading.Thread(target=lambda i=i: got.append(s.ask("/embed", {"inputs": f"text {i}"})[0])) for i in range(20)]
    for t in those:
        t.start()
    wait(lambda: len(got) + s.metric("stoker_queue_jobs") >= 20)  # all have come
    rc, _ = s.stop()
    for t in those:
        t.join()
    heal()
    check("SIGTERM under load: what was asked is answered by the device", rc == 0 and got.count(200) == 20 and gone(pid), rc, got, s.text)


parts = [apart, killed, stopped, faults, trouble, without_fallback, at_the_start, parent_dies, two, halves, other_files, stops_in_a_load, stops_under_load]
for part in parts:
    if sys.argv[3:] and part.__name__ not in sys.argv[3:]:
        continue
    begun = time.monotonic()
    try:
        part()
    except Exception as e:  # the rest still runs
        check(f"{part.__name__} ends", False, repr(e), *e.__traceback__.tb_next and [e.__traceback__.tb_next.tb_lineno] or [])
    heal()
    print(f"# {part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
said = [s.text for s in servers if re.search("Sanitizer|runtime error|[Aa]ssertion", s.text)]
check("no sanitizer and no assertion had a word", not said, *said)
serve_test.done()

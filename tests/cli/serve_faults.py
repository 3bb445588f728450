# SPDX-License-Identifier: MIT
"""TAP of `stoker serve` under faults: serve_faults.py STOKER EMBEDDING-MODEL RERANKER [PART…].

Every server is a process of its own on a free port, every client a real socket.  What must be slow
runs on the scalar engine (--device ref).  No time decides: waits end when the thing has happened."""
import concurrent.futures
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import serve_test
from serve_box import Server as Box, reply, request, secret, wait
from serve_test import check

STOKER, EMB, RANK = sys.argv[1:4]
WORDS = "hello world the quick brown fox jumps over a lazy dog".split()
SLOW = ["--device", "ref", "--threads", "1", "--batch-tokens", "512", "--timeout", "1h"]
POOLS = """nodes:
  - {name: here, count: 1, gpus_per_node: 1, gpu: {model: A100-80GB, memory: 80GB}}
pools:
  small: {size: 100MiB}
"""
with open(STOKER, "rb") as program:
    LONG = 200 if b"__tsan_init" in program.read() else 1000  # texts that take a while
servers = []


def Server(*args, **more):
    s = Box(STOKER, *args, **more)
    servers.append(s)
    if s.p.poll() is not None:
        raise RuntimeError(s.text)
    return s


def texts(n, seed, words=50):
    r = random.Random(seed)
    return [" ".join(r.choice(WORDS) for _ in range(words)) for _ in range(n)]


def vectors(model, lines, *args):
    p = subprocess.run([STOKER, "embed", "-m", model, "--quiet", "--normalize", *args], input="\n".join(lines) + "\n",
                       capture_output=True, text=True)
    return [json.loads(x)["embedding"] for x in p.stdout.splitlines()]


def at_rest(s):
    """Nothing waits, nothing runs."""
    return wait(lambda: s.metric("stoker_queue_jobs") == 0 and s.metric("stoker_queue_tokens") == 0)


def cancelled(s):
    return s.metric("stoker_queue_dropped_total", 'reason="cancelled"')


def answers(s):
    st, v, _ = s.ask("/embed", {"inputs": "hello world"})
    return st == 200 and len(v) == 1


def client(s, data, reads=0):
    """A process of its own that sends and waits for ever; told through a pipe when it has sent (and read)."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            c = s.connect()
            c.sendall(data)
            if reads:
                c.recv(reads)
            os.write(w, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(w)
    os.read(r, 1)
    os.close(r)
    return pid


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


# ---- clients that die

def killed_clients():
    s = Server("-m", f"emb={EMB}", *SLOW)
    answers(s)
    fds = s.fds()
    big = {"inputs": texts(LONG, 1)}
    whole = request("/embed", big)
    for cut in (10, 60, len(whole) // 2, len(whole) - 1):
        kill(client(s, whole[:cut]))
    check("kill -9 while it sends: the next request is fine", answers(s) and wait(lambda: s.fds() <= fds + 1), s.fds(), fds)

    before = cancelled(s)
    pid = client(s, whole)
    wait(lambda: s.metric("stoker_batches_total") > 2)
    kill(pid)
    check("kill -9 while it is computed: the rest is cancelled", wait(lambda: cancelled(s) == before + 1) and at_rest(s), cancelled(s))

    first = client(s, whole)
    wait(lambda: s.metric("stoker_queue_jobs") == 1)
    second = client(s, request("/embed", {"inputs": texts(200, 2)}))
    wait(lambda: s.metric("stoker_queue_jobs") == 2)
    kill(second)
    gone = wait(lambda: cancelled(s) == before + 2)
    left = s.metric("stoker_queue_jobs")
    kill(first)
    check("kill -9 while it is queued: its texts leave the queue", gone and left <= 1 and wait(lambda: cancelled(s) == before + 3), gone, left)

    data = request("/embed_all", {"inputs": texts(200, 3)})
    for _ in range(3):
        kill(client(s, data, reads=1000))
    check("kill -9 while it reads the reply", answers(s) and wait(lambda: s.fds() <= fds + 1), s.fds(), fds)

    pids = [client(s, request("/embed", {"inputs": texts(20, 10 + i)})) for i in range(30)]
    for p in pids:
        kill(p)
    check("kill -9 of 30 at once leaves nothing behind", at_rest(s) and wait(lambda: s.fds() <= fds + 1) and answers(s), s.fds(), fds)
    check("and it stops well", s.stop() == 0, s.text)


# ---- clients that are slow

def slow_clients():
    s = Server("-m", f"emb={EMB}", "--head-timeout", "1s", "--body-timeout", "1s")
    heads = [s.connect() for _ in range(20)]
    bodies = [s.connect() for _ in range(20)]
    drops = [s.connect() for _ in range(5)]
    for c in heads:
        c.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\n")
    for c in bodies:
        c.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    for c in drops:
        c.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
    stop = threading.Event()

    def drip():  # a byte now and then keeps neither a head nor a body alive
        while not stop.is_set():
            for c, byte in [(heads[0], b"X")] + [(c, b" ") for c in drops]:
                try:
                    c.send(byte)
                except OSError:
                    pass
            time.sleep(0.1)
    t = threading.Thread(target=drip)
    t.start()
    good = all(answers(s) for _ in range(20))
    got_heads, got_bodies = [reply(c)[0] for c in heads], [reply(c)[0] for c in bodies]
    stop.set()
    t.join()
    got_drops = [reply(c)[0] for c in drops]
    for c in heads + bodies + drops:
        c.close()
    check("slow-loris heads are ended with 408", got_heads == [408] * 20, got_heads)
    check("slow-loris bodies are ended with 408", got_bodies == [408] * 20, got_bodies)
    check("a body of a byte now and then too", got_drops == [408] * 5, got_drops)
    check("while others are served", good and answers(s))
    c = s.connect()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.sendall(request("/embed_all", {"inputs": texts(300, 1)}))
    good = all(answers(s) for _ in range(20))
    check("a client that does not read its reply keeps nobody", good)
    c.close()
    check("it stops well", s.stop() == 0, s.text)


# ---- clients that send what they should not

def raw(s, data):
    """The status of what comes back."""
    c = s.connect()
    try:
        c.sendall(data)
    except OSError:
        pass
    got = reply(c)
    c.close()
    return got


def bad_bytes(s):
    fds = s.fds()
    for i in range(3):
        st = raw(s, b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n")[0]
        check(f"a header of 1 MB: 431 ({i + 1})", st == 431, st)
    whole = request("/embed", {"inputs": "hello world"})
    for cut in range(len(whole)):
        c = s.connect()
        c.sendall(whole[:cut])
        c.shutdown(socket.SHUT_WR)
        got = c.recv(100)
        if got and b" 400 " not in got and b" 408 " not in got:
            break
        c.close()
    check("a body cut at every byte harms nobody", cut == len(whole) - 1 and answers(s), cut, got)
    for cut in range(len(whole)):
        c = s.connect()
        c.sendall(whole[:cut])
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    check("the same with a reset", answers(s))
    body = whole[whole.index(b"{"):]
    odd = [st for n in range(len(body)) for st in [s.ask("/embed", body[:n])[0]] if st != 400 and st != 422]
    check("JSON cut at every byte is a 400", not odd, odd)
    for what, data in [("invalid UTF-8", b'{"inputs":"\xff\xfe"}'), ("an overlong form", b'{"inputs":"\xc0\x80"}'),
                       ("a surrogate", b'{"inputs":"\xed\xa0\x80"}'), ("half a surrogate", b'{"inputs":"\\ud800"}'),
                       ("a cut character", b'{"inputs":"\xf0\x9f\x98"}')]:
        st, v, _ = s.ask("/embed", data)
        check(f"{what}: 400 with a reason", st == 400 and "error" in v, st, v)
    garbage = random.Random(7)
    statuses = set()
    for _ in range(50):
        data = request("/embed", {"inputs": "a"}) + bytes(garbage.randrange(256) for _ in range(200)) + b"\r\n\r\n"
        c = s.connect()
        c.sendall(data)
        statuses.add((reply(c)[0], ))
        c.close()
    check("garbage behind a request: the request is answered", statuses == {(200,)}, statuses)
    st = raw(s, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n")[0]
    check("TLS spoken to a plain port: 400", st == 400, st)
    c = s.connect()
    c.sendall(b"".join(request("/embed", {"inputs": w}) for w in WORDS) + b"NONSENSE\r\n\r\n")
    f = c.makefile("rb")
    got = f.read()
    check("a pipeline that ends in nonsense: all before it are answered, then 400",
          got.count(b"HTTP/1.1 200") == len(WORDS) and got.count(b"HTTP/1.1 400") == 1, got[-200:])
    c.close()
    check("nothing is left open", wait(lambda: s.fds() <= fds + 1), s.fds(), fds)


def bombs(s):
    deep = "[" * 100000
    keys = "{" + ",".join(f'"k{i}":0' for i in range(1000000)) + "}"
    for what, path, body, ok in [
            ("brackets", "/embed", deep, {400}), ("brackets in inputs", "/embed", '{"inputs":' + deep, {400}),
            ("objects", "/v1/embeddings", '{"input":' * 50000, {400}),
            ("10^6 keys", "/embed", keys, {400, 422}), ("10^6 equal keys", "/v1/embeddings", "{" + '"input":"a",' * 999999 + '"input":"a"}', {200, 400, 422}),
            ("a number of 10^6 digits", "/embed", '{"inputs":"a","dimensions":' + "9" * 1000000 + "}", {200, 400, 422}),
            ("1e999999 as a dimension", "/v1/embeddings", '{"input":"a","dimensions":1e999999}', {400, 422}),
            ("-1 as a dimension", "/v1/embeddings", '{"input":"a","dimensions":-1}', {400, 422}),
            ("ids of 10^6 digits", "/v1/embeddings", '{"input":[' + "1" * 1000000 + "]}", {400, 422}),
            ("ids beyond 64 bits", "/v1/embeddings", '{"input":[[18446744073709551616]]}', {400, 422}),
            ("10^6 ids", "/v1/embeddings", '{"input":[' + "1," * 999999 + "1]}", {200, 400, 413, 422}),
            ("a text of 8 MB", "/embed", {"inputs": "hello " * 1400000}, {200, 413, 422}),
            ("a text of 4 MB without a space", "/embed", {"inputs": "x" * 4000000}, {200, 413, 422}),
            ("a text of 10^6 escapes", "/embed", '{"inputs":"' + "\\u0041" * 1000000 + '"}', {200, 422}),
            ("a model's name of 1 MB", "/v1/embeddings", {"input": "a", "model": "m" * 1000000}, {400, 404, 422}),
            ("10^6 empty lists", "/embed", '{"inputs":[' + "[]," * 999999 + "[]]}", {400, 422})]:
        st, v, _ = s.ask(path, body)
        check(f"a bomb of {what}: {'/'.join(map(str, sorted(ok)))}", st in ok and (st == 200 or b"error" in json.dumps(v).encode()), st, v)
    check("and it still answers", answers(s))
    if not s.sanitized():
        check("bombs are not kept in memory", wait(lambda: s.rss_kb() < 64 << 10, 10), s.rss_kb())


def garbage():
    s = Server("-m", f"emb={EMB}")
    bad_bytes(s)
    bombs(s)
    check("it stops well", s.stop() == 0, s.text)


# ---- files that change

def copy_model(model, name):
    shutil.copytree(model, name)
    return name


def changed_weights(data, factor):
    """The same file with every weight of the word table times `factor`."""
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    t = head[next(k for k in head if k.endswith("word_embeddings.weight"))]
    at, end = (8 + n + x for x in t["data_offsets"])
    size, letter = {"F32": (4, "f"), "F16": (2, "e")}[t["dtype"]]
    w = struct.unpack(f"<{(end - at) // size}{letter}", data[at:end])
    new = struct.pack(f"<{len(w)}{letter}", *(factor(i, x) for i, x in enumerate(w)))
    return data[:at] + new + data[end:]


def files_after_load():
    d = copy_model(EMB, "after")
    lines = texts(20, 5)
    s = Server("-m", f"emb={d}", "-m", "ref=" + d)
    want = s.ask("/embed", {"inputs": lines})[1]
    good = open(f"{d}/model.safetensors", "rb").read()
    with open(f"{d}/model.safetensors", "r+b") as f:
        f.truncate(100)
    st, v, _ = s.ask("/embed", {"inputs": lines})
    check("weights cut short after the load: the same bits", st == 200 and v == want, st)
    with open(f"{d}/model.safetensors", "r+b") as f:
        f.truncate(0)
        f.write(os.urandom(len(good)))
    st, v, _ = s.ask("/embed", {"inputs": lines})
    check("weights overwritten after the load: the same bits", st == 200 and v == want, st)
    shutil.rmtree(d)
    st, v, _ = s.ask("/embed", {"inputs": lines})
    check("the folder removed after the load: the same bits", st == 200 and v == want, st)
    st, v, _ = s.ask("/v1/models/load", {"model": "emb", "source": os.path.abspath(d)})
    ok = wait(lambda: s.metric("stoker_model_loads_total", 'model="emb"', 'result="failed"') > 0 or st >= 400)
    check("loading it again fails", ok, st, v)
    st, v, _ = s.ask("/embed", {"inputs": lines, "model": "emb"})
    check("and the version that is there goes on", st == 200 and v == want, st)
    check("it stops well", s.stop() == 0, s.text)
    # the scalar engine, which has another way to its weights
    d = copy_model(EMB, "after2")
    s = Server("-m", f"emb={d}", "--device", "ref")
    want = s.ask("/embed", {"inputs": lines})[1]
    os.truncate(f"{d}/model.safetensors", 0)
    st, v, _ = s.ask("/embed", {"inputs": lines})
    check("the scalar engine keeps its bits too", st == 200 and v == want, st)
    s.stop()


def files_during_load():
    d = copy_model(EMB, "during")
    path = f"{d}/model.safetensors"
    a = open(path, "rb").read()
    b = changed_weights(a, lambda i, x: x * 3 if i % 2 else x)
    open("b.st", "wb").write(b)
    os.replace("b.st", path)
    line = "hello world"
    of_b = vectors(d, [line])[0]
    open("a.st", "wb").write(a)
    os.replace("a.st", path)
    of_a = vectors(d, [line])[0]
    s = Server("-m", f"emb={EMB}")
    for what, name, data in [("cut short", "model.safetensors", a[:len(a) // 2]), ("empty", "model.safetensors", b""),
                             ("without its header", "model.safetensors", a[:8]), ("of garbage", "model.safetensors", os.urandom(5000)),
                             ("broken", "config.json", b"{"), ("cut", "tokenizer.json", b'{"version":"1.0","model":{')]:
        old = open(f"{d}/{name}", "rb").read()
        open(f"{d}/{name}", "wb").write(data)
        s.ask("/v1/models/load", {"model": "other", "source": os.path.abspath(d)})
        st, v, _ = s.ask("/v1/embeddings", {"input": line, "model": "other"})
        check(f"a load of a {name} that is {what}: an error that names it", st >= 400 and name in json.dumps(v), st, v)
        open(f"{d}/{name}", "wb").write(old)
    stop = threading.Event()

    def disturb():  # cut, filled again, and replaced by another version, without an end
        turn = 0
        while not stop.is_set():
            with open("new.st", "wb") as f:
                f.write(a if turn % 2 else b)
            os.replace("new.st", path)
            with open(path, "r+b") as f:
                f.truncate(len(a) // 3)
            turn += 1
    t = threading.Thread(target=disturb)
    t.start()
    odd, kinds = [], {}
    for i in range(40):
        s.ask("/v1/models/load", {"model": f"d{i}", "source": os.path.abspath(d)})
        st, v, _ = s.ask("/v1/embeddings", {"input": line, "model": f"d{i}"})
        kinds[st] = kinds.get(st, 0) + 1
        if st == 200 and v["data"][0]["embedding"] not in (of_a, of_b):
            odd.append("a vector of neither version")
        elif st != 200 and "model.safetensors" not in json.dumps(v):
            odd.append((st, v))
        s.ask("/v1/models/unload", {"model": f"d{i}"})
    stop.set()
    t.join()
    print(f"# replies by status: {kinds}")
    check("weights that change while they load: a whole version, or an error that names the file", not odd, kinds, *odd[:3])
    check("the server lives on", answers(s))
    check("and says in its log what failed", "model 'other'" in s.text and "model.safetensors" in s.text, s.text)
    check("it stops well", s.stop() == 0, s.text)


# ---- models that come and go under load

class Load:
    """Clients that ask again and again, each on its own connection; `bad` is what was no whole 200."""

    def __init__(self, s, clients, ask):
        self.s, self.ask, self.end, self.good, self.bad = s, ask, threading.Event(), 0, []
        self.lock = threading.Lock()
        self.those = [threading.Thread(target=self.run, args=(k,)) for k in range(clients)]
        for t in self.those:
            t.start()

    def run(self, k):
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=60)
        i = 0
        while not self.end.is_set():
            try:
                path, body, fits = self.ask(k, i)
                c.request("POST", path, json.dumps(body))
                r = c.getresponse()
                v = r.read()
                ok = r.status == 200 and fits(json.loads(v))
                with self.lock:
                    self.good += ok
                    if not ok:
                        self.bad.append((r.status, v[:300]))
                if r.getheader("connection") == "close":
                    return
            except Exception as e:
                with self.lock:
                    self.bad.append(repr(e))
                return
            i += 1

    def stop(self):
        self.end.set()
        for t in self.those:
            t.join()


def swap_under_load():
    one, two = copy_model(EMB, "one"), copy_model(EMB, "two")
    data = open("two/model.safetensors", "rb").read()
    open("two/model.safetensors", "wb").write(changed_weights(data, lambda i, x: -x if i % 3 else x))
    want = [vectors(m, [" ".join(WORDS)])[0] for m in (one, two)]
    s = Server("-m", f"emb={one}")
    seen = [0, 0]

    def fits(v):
        if v[0] not in want:
            return False
        seen[want.index(v[0])] += 1
        return True
    load = Load(s, 8, lambda k, i: ("/embed", {"inputs": " ".join(WORDS), "model": "emb"}, fits))
    for turn in range(10):
        at = s.metric("stoker_model_swaps_total")
        s.ask("/v1/models/load", {"model": "emb", "source": os.path.abspath((two, one)[turn % 2])})
        wait(lambda: s.metric("stoker_model_swaps_total") > at or load.bad)
        there = load.good
        wait(lambda: load.good > there + 8 or load.bad)
    load.stop()
    check("ten swaps under load: no request fails, every vector is a version's", not load.bad and min(seen) > 0, seen, *load.bad[:3])
    check("it stops well", s.stop() == 0, s.text)


def write_spec(models, extra=""):
    with open("spec.new", "w") as f:
        f.write(extra + "models:\n" + "".join(f"  {n}: {{source: {os.path.abspath(d)}, kind: embedding{more}}}\n" for n, d, more in models))
    os.replace("spec.new", "spec.yaml")


def spec_again():
    copy_model(EMB, "changed")
    write_spec([("a", EMB, ""), ("b", EMB, "")])
    s = Server("-f", "spec.yaml")
    load = Load(s, 4, lambda k, i: ("/embed", {"inputs": "hello", "model": "a"}, lambda v: len(v) == 1))

    def status(name, **more):
        return s.ask("/v1/embeddings", {"input": "a", "model": name, **more})[0]

    def hup():
        n = s.text.count("\n")
        s.p.send_signal(signal.SIGHUP)
        wait(lambda: "read again" in "\n".join(s.text.split("\n")[n:]) or "stays" in "\n".join(s.text.split("\n")[n:]))
        return "\n".join(s.text.split("\n")[n:])

    swaps = s.metric("stoker_model_swaps_total")
    hup()
    check("SIGHUP on the same spec changes nothing", status("a") == status("b") == 200 and s.metric("stoker_model_swaps_total") == swaps)
    write_spec([("a", EMB, ""), ("b", EMB, ""), ("c", EMB, "")])
    hup()
    check("SIGHUP adds a model", wait(lambda: status("c") == 200))
    write_spec([("a", EMB, ""), ("c", EMB, ", aliases: [cc]")])
    hup()
    check("SIGHUP removes one", wait(lambda: status("b") == 404))
    check("and changes one", wait(lambda: status("cc") == 200))
    write_spec([("a", "changed", ""), ("c", EMB, ", aliases: [cc]")])
    hup()
    check("SIGHUP swaps one that has another folder", wait(lambda: s.metric("stoker_model_swaps_total", 'model="a"') > 0))
    with open("spec.yaml") as f:
        kept = f.read()
    with open("spec.yaml", "a") as f:
        f.write("serve: {items_max: 7, token_file: %s}\n" % os.path.abspath("of-calls"))
    with open("of-calls", "w") as f:
        f.write("x\n")
    check("limits and tokens that have changed: the log says that they wait for a start", "token and TLS files, limits of the spec have changed" in hup(), s.text)
    with open("spec.yaml", "w") as f:
        f.write(kept)
    hup()
    for what, text, at in [("no YAML", "models:\n  a: {source: [\n", "spec.yaml:"), ("a key that is none", "models:\n  a: {source: x, kind: embedding, colour: red}\n", "spec.yaml:2:35"),
                           ("a kind that is none", "models:\n  a:\n    source: x\n    kind: poem\n", "spec.yaml:4:11")]:
        with open("spec.yaml", "w") as f:
            f.write(text)
        said = hup()
        check(f"{what}: the log says where, and nothing changes", at in said and "stays" in said and status("a") == status("cc") == 200, said)
    write_spec([("a", "changed", ""), ("c", "/nowhere", ""), ("d", EMB, "")])
    said = hup()
    check("a folder that is not there: the log names it, and nothing changes", "/nowhere" in said and status("c") == 200 and status("d") == 404, said)
    os.remove("spec.yaml")
    said = hup()
    check("a spec that is gone: the log says so, and nothing changes", "spec.yaml" in said and status("c") == 200, said)
    load.stop()
    check("no request failed all the while", not load.bad and load.good > 0, *load.bad[:3])
    check("it stops well", s.stop() == 0, s.text)


# ---- memory

def full_pool():
    mem = ", pool: small, memory: "
    write_spec([("a", EMB, mem + "60MiB"), ("b", EMB, mem + "30MiB, priority: high")], POOLS)
    s = Server("-f", "spec.yaml")

    def ask(name):
        st, v, _ = s.ask("/v1/embeddings", {"input": "hello", "model": name})
        return st, json.dumps(v)
    want = ask("a")[1]
    write_spec([("a", EMB, mem + "60MiB"), ("b", EMB, mem + "30MiB, priority: high"), ("huge", EMB, mem + "200MiB")], POOLS)
    s.p.send_signal(signal.SIGHUP)
    wait(lambda: "asked" in ask("huge")[1])
    st, v = ask("huge")
    check("a model that does not fit is refused", st >= 400 and st != 404, st, v)
    check("with the bytes asked, the bytes free and by whom they are held",
          "200 MiB (209715200 bytes) asked" in v and re.search(r"\(\d+ bytes\) of 100 MiB free", v) and "'a'" in v and "'b'" in v, v)
    check("and nobody left in vain", ask("a")[0] == ask("b")[0] == 200 and s.metric("stoker_model_evictions_total") == 0)
    write_spec([("a", EMB, mem + "60MiB"), ("b", EMB, mem + "30MiB, priority: high"), ("c", EMB, mem + "50MiB"), ("low", EMB, mem + "90MiB, priority: low")], POOLS)
    s.p.send_signal(signal.SIGHUP)
    check("a full pool lets the least recently used leave", wait(lambda: ask("c")[0] == 200) and s.metric("stoker_model_evictions_total", 'model="a"') == 1)
    check("the one of higher priority stays", s.metric("stoker_model_evictions_total", 'model="b"') == 0)
    st, v = ask("a")
    check("the one that left comes back when it is asked for", st == 200, st, v)
    check("with the same bits", re.search(r'"embedding": (\[[^]]*\])', v)[1] == re.search(r'"embedding": (\[[^]]*\])', want)[1])
    check("and another left for it", s.metric("stoker_model_evictions_total", 'model="c"') == 1)
    st, v = ask("low")
    check("one of low priority is refused rather than others sent away", st >= 400 and "higher priority" in v, st, v)
    used = s.metric("stoker_pool_bytes", 'pool="small"', "used")
    check("the pool never held more than it has", used <= 100 << 20, used)
    bad = []

    def turn(k):
        for i in range(6):
            st, v = ask(("a", "c")[(i + k) % 2])
            if st != 200:
                bad.append((st, v))
    with concurrent.futures.ThreadPoolExecutor(4) as ex:
        list(ex.map(turn, range(4)))
    check("two that take turns in a pool for one, under load: all are answered", not bad, *bad[:3])
    check("it stops well", s.stop() == 0, s.text)


# ---- numbers that are none

def nan():
    d = copy_model(EMB, "nan")
    data = open("nan/model.safetensors", "rb").read()
    tok = Server("-m", f"emb={EMB}")
    ids = {w: [t["id"] for t in tok.ask("/tokenize", {"inputs": w})[1][0]] for w in ("hello", "world")}
    tok.stop()
    bad = (set(ids["world"]) - set(ids["hello"])).pop()
    width = json.load(open("nan/config.json"))["hidden_size"]
    open("nan/model.safetensors", "wb").write(changed_weights(data, lambda i, x: float("nan") if i // width == bad else x))
    r = copy_model(RANK, "nan-rank")
    data = open("nan-rank/model.safetensors", "rb").read()
    open("nan-rank/model.safetensors", "wb").write(changed_weights(data, lambda i, x: float("inf")))
    s = Server("-m", f"nan={d}", "-m", f"rank={r}", "--cache", "1MiB")
    for what, path, body, head in [
            ("/embed", "/embed", {"inputs": "world"}, {}), ("/v1/embeddings as base64", "/v1/embeddings", {"input": "world", "encoding_format": "base64"}, {}),
            ("/embed as octets", "/embed", {"inputs": "world"}, {"Accept": "application/octet-stream"}), ("/embed_all", "/embed_all", {"inputs": "world"}, {}),
            ("/embed without normalising", "/embed", {"inputs": "world", "normalize": False}, {}),
            ("/v2/embed as int8", "/v2/embed", {"texts": ["world"], "model": "nan", "input_type": "search_document", "embedding_types": ["int8"]}, {}),
            ("/similarity", "/similarity", {"inputs": {"source_sentence": "world", "sentences": ["hello"]}}, {}),
            ("/rerank", "/rerank", {"query": "hello", "documents": ["hello"]}, {}), ("/rerank in TEI's shape", "/rerank", {"query": "hello", "texts": ["hello"]}, {}),
            ("/embed of one among good ones", "/embed", {"inputs": ["hello", "world", "hello"]}, {})]:
        for _ in range(2):  # the second time past the cache
            st, v, _ = s.ask(path, body, head)
        check(f"NaN at {what}: 424 or 500 with the reason", st in (424, 500) and re.search("finite|NaN", json.dumps(v)), st, v)
    check("and it says which input", "input 1:" in json.dumps(v), v)
    with concurrent.futures.ThreadPoolExecutor(16) as ex:
        got = list(ex.map(lambda i: s.ask("/embed", {"inputs": ("hello", "world")[i % 2]})[0], range(64)))
    check("who shares a batch with it is not harmed", got[::2] == [200] * 32 and set(got[1::2]) <= {424, 500}, got)
    check("it is counted", s.metric("stoker_errors_total", 'kind="backend"') > 10)
    check("it stops well", s.stop() == 0, s.text)


# ---- signals

def stops_under_load():
    s = Server("-m", f"emb={EMB}")
    load = Load(s, 16, lambda k, i: ("/embed", {"inputs": [" ".join(WORDS)] * 8}, lambda v: len(v) == 8))
    wait(lambda: load.good > 200)
    rc = s.stop()
    for t in load.those:
        t.join()
    check("SIGTERM under load: every request is answered with 200, to the last", rc == 0 and not load.bad, rc, *load.bad[:5])

    s = Server("-m", f"emb={EMB}", *SLOW)
    data = request("/embed", {"inputs": texts(300, 1)})
    those = [s.connect() for _ in range(4)]
    for c in those:
        c.sendall(data)
    half = s.connect()  # a request whose last bytes come when it stops already
    half.sendall(data[:-10])
    wait(lambda: s.metric("stoker_queue_jobs") == 4)
    s.p.send_signal(signal.SIGTERM)
    s.wait_text("stopping")
    half.sendall(data[-10:])
    got = [reply(c) for c in those + [half]]
    rc = s.stop()
    check("SIGTERM with work for a while: all that was accepted is answered whole", rc == 0 and all(g[0] == 200 and len(json.loads(g[2])) == 300 for g in got), rc, [g[0] for g in got])
    check("and each connection is told to close", all(g[1].get("connection") == "close" for g in got), [g[1] for g in got])


def stops_in_time():
    s = Server("-m", f"emb={EMB}", *SLOW, "--drain", "200ms")
    those = [s.connect() for _ in range(10)]
    for i, c in enumerate(those):
        c.sendall(request("/embed", {"inputs": texts(LONG // 4, i)}))
    wait(lambda: s.metric("stoker_queue_jobs") == 10)
    rc = s.stop()
    got = [reply(c)[0] for c in those]
    check("the drain has an end: the rest is cut off, and that is told", rc not in (0, None) and re.search(r"\d+ requests? (was|were) cut off", s.text) and None in got, rc, got, s.text)

    s = Server("-m", f"emb={EMB}", *SLOW, "--drain", "1h")
    those = [s.connect() for _ in range(10)]
    for i, c in enumerate(those):
        c.sendall(request("/embed", {"inputs": texts(LONG // 4, i)}))
    wait(lambda: s.metric("stoker_queue_jobs") == 10)
    s.p.send_signal(signal.SIGTERM)
    s.wait_text("stopping")
    s.p.send_signal(signal.SIGTERM)
    rc = s.stop(signal.SIGCONT, 60)
    check("a second SIGTERM does not wait", rc not in (0, None) and "cut off" in s.text, rc, s.text)

    s = Server("-m", f"emb={EMB}", *SLOW, "--drain", "0s")
    c = s.connect()
    c.sendall(request("/embed", {"inputs": texts(LONG, 1)}))
    wait(lambda: s.metric("stoker_queue_jobs") == 1)
    rc = s.stop()
    check("--drain 0s waits for nobody", rc not in (0, None) and reply(c)[0] is None, rc, s.text)

    p = Server("-m", f"emb={EMB}")
    held = [p.connect() for _ in range(10)]
    for c in held:
        c.sendall(b"POST /embed HTTP/1.1\r\n")
    p.ask("/health")
    p.p.kill()
    p.p.wait()
    again = Server("-m", f"emb={EMB}", port=p.port)
    check("SIGKILL, and a new one has the port at once", again.port == p.port and answers(again), again.text)
    again.stop()


def ends_while_loading():
    """Calls that wait for a model when it ends are answered, and nothing is left of them."""
    mem = ", pool: small, memory: 60MiB"
    write_spec([("a", EMB, mem), ("b", EMB, mem)], POOLS)
    s = Server("-f", "spec.yaml", "--drain", "1s")
    data = [request("/v1/embeddings", {"input": texts(5, i), "model": "ab"[i % 2]}) for i in range(40)]
    those = [s.connect() for _ in data]
    for c, d in zip(those, data):
        c.sendall(d)
    rc = s.stop()
    got = [reply(c)[0] for c in those]
    check("SIGTERM while models come and go: it ends, every reply is whole", rc is not None and rc >= 0 and set(got) <= {200, 424, 429, 500, 503, None}, rc, got, s.text)


# ---- much

def many_connections():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    n = 10000 if hard == resource.RLIM_INFINITY or hard >= 10200 else hard - 200
    if n < 10000:
        print(f"# the hard limit of open files is {hard}: {n} connections instead of 10000")
    s = Server("-m", f"emb={EMB}", "--connections-max", str(n + 50))
    before, fds = s.rss_kb(), s.fds()
    those = []
    for i in range(n):
        those.append(s.connect())
    check(f"{n} connections are all accepted", wait(lambda: s.fds() >= fds + n), s.fds(), fds)
    picked = those[::n // 100][:100]
    for i, c in enumerate(picked):
        c.sendall(request("/embed", {"inputs": WORDS[i % len(WORDS)]}))
    got = [reply(c)[0] for c in picked]
    check("100 of them are answered", got == [200] * 100, got)
    check("and one more", answers(s))
    if not s.sanitized():
        each = (s.rss_kb() - before) / n * 1024
        check("at most 4 KiB of memory for each", each < 4096, each)
    for c in those:
        c.close()
    check("when they go, their descriptors go", wait(lambda: s.fds() <= fds + 2), s.fds(), fds)
    check("it stops well", s.stop() == 0, s.text)


def silent_connections():
    """As many that say nothing as there is room for: others are let in all the same, who is at work stays."""
    s = Server("-m", f"emb={EMB}", "--connections-max", "20")
    half = s.connect()
    half.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n")
    those = [s.connect() for _ in range(40)]
    check("health is asked beside silent connections", [s.ask("/health")[0] for _ in range(30)] == [200] * 30)
    half.sendall(b'{"inputs":"hello world"}')
    got = reply(half)
    check("a request under way is not closed for it", got[0] == 200, got, s.text)
    text = s.ask("/metrics")[1].decode()
    value = {x.split()[0]: float(x.split()[1]) for x in text.splitlines() if x.startswith("stoker_http_connections")}
    check("figures tell of it", value["stoker_http_connections_max"] == 20 and 1 <= value["stoker_http_connections"] <= 20 and
          value["stoker_http_connections_dropped_total"] >= 21, value)
    check("so does the log, once", s.text.count("connections are taken") == 1, s.text)
    for c in those:
        c.close()
    check("it stops well", s.stop() == 0, s.text)


def crowd_of_silent_ones():
    """One address opens connections again as they are closed, silent, with half a head, or at rest after a request: another one is let in at once."""
    for name, said in (("silent", b""), ("half a head", b"GET /health HTTP/1.1\r\nHo"), ("at rest", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")):
        s = Server("-m", f"emb={EMB}", "--connections-max", "50")
        stop = time.time() + 20

        def hold():
            while time.time() < stop:
                try:
                    with socket.create_connection(("127.0.0.1", s.port), timeout=5) as c:
                        c.sendall(said)
                        while time.time() < stop and c.recv(4096):
                            pass
                except OSError:
                    time.sleep(.01)

        crowd = [threading.Thread(target=hold) for _ in range(200)]
        for t in crowd:
            t.start()
        wait(lambda: "connections are taken" in s.text)
        took, got = [], []
        for _ in range(10):
            t = time.time()
            try:
                with socket.create_connection(("127.0.0.1", s.port), timeout=10, source_address=("127.0.0.9", 0)) as c:
                    c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    got.append(c.recv(4096)[:15])
            except OSError as e:
                got.append(repr(e))
            took.append(time.time() - t)
        stop = 0
        check(f"beside a crowd ({name}) each of another address is answered", got == [b"HTTP/1.1 200 OK"] * 10, got)
        check(f"most of them within a second ({name})", sorted(took)[5] < 1, took)
        print("#", name, [round(x, 3) for x in took])
        check(f"the log names the address ({name})", "of them from 127.0.0.1" in s.text, s.text)
        check("it stops well", s.stop() == 0, s.text)
        for t in crowd:
            t.join()


def crowd_of_slow_ones():
    """Who has no token keeps connections by bodies that do not end and replies that are not read: others are let in."""
    post = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    quick = b"%x\r\n%s\r\n" % (500, b"a" * 500)
    for name, said, more, reads in (("a body without an end", post.replace(b"POST", b"GET") + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\nab", b"x", False),
                                    ("a body at 2 kB/s", post + b"Content-Length: 60000\r\n\r\n{", quick, False),
                                    ("a body of a page at 2 kB/s", b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", quick, False),
                                    ("a short body that never comes", post + b"Content-Length: 900\r\n\r\n{", b"x", False),
                                    ("short requests without a pause", health, health, True),
                                    ("replies that are not read", b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100, b"", False)):
        s = Server("-m", f"emb={EMB}", "--connections-max", "20", "--token-file", secret("right"))
        stop = time.time() + 30

        def hold():
            while time.time() < stop:
                try:
                    with socket.socket() as c:
                        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                        c.settimeout(3 if reads else 0.3)
                        c.connect(("127.0.0.1", s.port))
                        c.sendall(said)
                        while time.time() < stop:
                            c.sendall(more)
                            if reads and not c.recv(4096):
                                break
                            if c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                                break
                            time.sleep(.02 if reads else .25)
                except OSError:
                    time.sleep(.01)

        crowd = [threading.Thread(target=hold) for _ in range(24)]
        for t in crowd:
            t.start()
        wait(lambda: "connections are taken" in s.text, 10)
        took, got = [], []
        for _ in range(3):
            t = time.time()
            try:
                with socket.create_connection(("127.0.0.1", s.port), timeout=10, source_address=("127.0.0.9", 0)) as c:
                    c.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nConnection: close\r\n\r\n")
                    got.append(c.recv(4096)[:15])
            except OSError as e:
                got.append(repr(e))
            took.append(time.time() - t)
        stop = 0
        check(f"beside a crowd ({name}) each of another address is answered", got == [b"HTTP/1.1 200 OK"] * 3, got, s.text)
        check(f"within some seconds ({name})", max(took) < 6, took)
        for t in crowd:
            t.join()
        check("it stops well", s.stop() == 0, s.text)
    s = Server("-m", f"emb={EMB}", "--token-file", secret("right"))
    c = s.connect()
    c.sendall(b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
    c.settimeout(3)
    check("without the token a body without an end is answered from its head", reply(c)[0] in (401, 405))
    c.close()
    c = s.connect()
    c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
    c.settimeout(3)
    got = reply(c)
    check("a page's body is not waited for", got[0] == 200 and got[1].get("connection") == "close", got)
    c.close()
    s.stop()


def crowd_of_busy_ones():
    """One address has a large request in progress on each connection that it gets, and comes again: others are let in meanwhile."""
    s = Server("-m", f"emb={EMB}", *SLOW, "--connections-max", "40")
    stop, refused = [], []

    def hold(i):
        body = json.dumps({"inputs": texts(LONG // 4, i)}).encode()
        said = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        while not stop:
            try:
                with socket.create_connection(("127.0.0.1", s.port), timeout=2, source_address=("127.0.0.3", 0)) as c:
                    c.sendall(said)
                    while not stop:
                        try:
                            got = c.recv(4096)
                        except TimeoutError:
                            continue
                        refused.append(got)
                        break
            except OSError:
                pass
            time.sleep(.05)

    crowd = [threading.Thread(target=hold, args=(i,)) for i in range(80)]
    for t in crowd:
        t.start()
    check("one address does not get all connections for requests in progress", wait(lambda: "127.0.0.3 has a request in progress on 35 of 40 connections" in s.text), s.text)
    wait(lambda: s.metric("stoker_queue_jobs") > 33)
    got = []
    for _ in range(5):
        try:
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10, source_address=("127.0.0.9", 0))
            c.request("POST", "/embed", json.dumps({"inputs": "hello"}), {"Content-Type": "application/json"})
            r = c.getresponse()
            r.read()
            c.request("GET", "/metrics")
            left = sum(float(x.split()[-1]) for x in c.getresponse().read().decode().splitlines() if x.startswith("stoker_queue_jobs{"))
            got.append((r.status, left > 30))
            c.close()
        except OSError as e:
            got.append(repr(e))
    stop.append(True)
    check("another one is answered while all of those wait", got == [(200, True)] * 5, got, s.text)
    said429 = [x for x in refused if x.startswith(b"HTTP/1.1 429 ")]
    check("those beyond are told so, and when to come again", said429 and all(b"connections_max" in x and b"Retry-After: " in x and b"Connection: close" in x for x in said429), refused[:3])
    check("the log says so once", s.text.count("further requests are refused") == 1, s.text)
    for t in crowd:
        t.join()
    check("what its clients left is given up", at_rest(s))
    check("it stops well", s.stop() == 0, s.text)


def many_documents():
    s = Server("-m", f"rank={RANK}")
    docs = texts(1000, 9, 20)
    st, v, _ = s.ask("/rerank", {"query": "hello fox", "documents": docs, "return_documents": True})
    r = v.get("results", []) if st == 200 else []
    check("1,000 documents in one rerank call, each once, best first",
          [x["index"] for x in sorted(r, key=lambda x: x["index"])] == list(range(1000)) and all(a["relevance_score"] >= b["relevance_score"] for a, b in zip(r, r[1:])), st)
    one = {i: s.ask("/rerank", {"query": "hello fox", "documents": [docs[i]]})[1]["results"][0]["relevance_score"] for i in (0, 500, 999)}
    check("with the scores each has alone", all(x["relevance_score"] == one[x["index"]] for x in r if x["index"] in one), one)
    st, v, _ = s.ask("/rerank", {"query": "hello fox", "documents": ["a"] * 2049})
    check("more than --items-max: refused with the number", st in (400, 413, 422) and "2048" in json.dumps(v), st, v)
    s.stop()


def overload():
    with open("q.yaml", "w") as f:
        f.write("serve: {queue_max: 4}\n")
    s = Server("-f", "q.yaml", "-m", f"emb={EMB}", *SLOW)
    big = [texts(LONG // 3, i) for i in range(4)]
    want = [vectors(EMB, b, "--device", "ref") for b in big]
    those = [s.connect() for _ in big]
    for c, b in zip(those, big):
        c.sendall(request("/embed", {"inputs": b}))
    wait(lambda: s.metric("stoker_queue_jobs") == 4)
    with concurrent.futures.ThreadPoolExecutor(8) as ex:
        got = [(st, r) for st, _, r in ex.map(lambda i: s.ask("/embed", {"inputs": "hello"}), range(40))]
    left = s.metric("stoker_queue_jobs")
    refused = [r for st, r in got if st == 429]
    check("overload: 429 comes while those that were admitted still run", refused and {st for st, _ in got} <= {200, 429} and left > 0, [st for st, _ in got], left)
    check("each with Retry-After", all(int(r.getheader("retry-after", "0")) >= 1 for r in refused))
    check("and is counted", s.metric("stoker_queue_refused_total") == len(refused), len(refused))
    replies = [reply(c) for c in those]
    check("every admitted request is answered whole", all(st == 200 and json.loads(v) == w for (st, _, v), w in zip(replies, want)), [x[0] for x in replies])
    got = []

    def flood(k):
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        for i in range(10):
            c.request("POST", "/embed", json.dumps({"inputs": texts(4, k * 100 + i)}))
            r = c.getresponse()
            whole = r.status != 200 or len(json.loads(r.read())) == 4
            r.read()
            key = r.status if whole and (r.status != 429 or r.getheader("retry-after")) else "odd"
            got.append(key)
    with concurrent.futures.ThreadPoolExecutor(40) as ex:
        list(ex.map(flood, range(40)))
    check("40 clients on a queue of 4: each request is answered whole or told when to come again", set(got) == {200, 429} and len(got) == 400, set(got), len(got))
    check("it is at rest afterwards", at_rest(s) and answers(s))
    check("it stops well", s.stop() == 0, s.text)


# ---- the access log

def log_full():
    s = Server("-m", f"emb={EMB}", "--access-log", "/dev/full")
    ok = all(answers(s) for _ in range(50))
    check("disk full for the access log: every request is answered", ok)
    check("the lines are counted as lost", wait(lambda: s.metric("stoker_access_log_lost_total") >= 50), s.metric("stoker_access_log_lost_total"))
    check("and it says so, once", s.wait_text("could not write access log '/dev/full'") and s.text.count("could not write") == 1, s.text)
    check("it stops well", s.stop() == 0, s.text)
    os.symlink("/dev/full", "log")
    s = Server("-m", f"emb={EMB}", "--access-log", "log")
    answers(s)
    s.wait_text("could not write access log")
    os.remove("log")
    s.p.send_signal(signal.SIGHUP)
    ok = wait(lambda: answers(s) and "is written again" in s.text)
    s.stop()
    check("a log that can be written again is, and says what it missed", ok and re.search(r"(1 request is|[2-9] requests are|[1-9]\d+ requests are) missing", s.text) and os.path.getsize("log") > 0, s.text)


parts = [killed_clients, slow_clients, garbage, files_after_load, files_during_load, swap_under_load, spec_again, full_pool, nan,
         stops_under_load, stops_in_time, ends_while_loading, many_connections, silent_connections, crowd_of_silent_ones, crowd_of_slow_ones,
         crowd_of_busy_ones,
         many_documents, overload, log_full]
for part in parts:
    if sys.argv[4:] and part.__name__ not in sys.argv[4:]:
        continue
    begun = time.monotonic()
    try:
        part()
    except Exception as e:  # the rest still runs
        check(f"{part.__name__} ends", False, repr(e), *e.__traceback__.tb_next and [e.__traceback__.tb_next.tb_lineno] or [])
    print(f"# {part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
said = [s.text for s in servers if re.search("Sanitizer|runtime error|[Aa]ssert", s.text)]
check("no sanitizer and no assertion had a word", not said, *said)
serve_test.done()

# SPDX-License-Identifier: MIT
"""`stoker serve` on a real GPU that plays two: replicas share the work, and faults lose no reply.

A part of gpu-test (exact.py calls run_all).  Every reply is held against the vector our CPU engine gives in f32,
so a retried batch that came back wrong would be seen.  Faults are real ones: kill -9 of a worker under load, a
worker that is stopped and so never answers, a GPU whose memory another program holds.
"""
import collections
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np

import models
from gpulib import EngineFailed, say

TEXTS, CLIENTS, SECONDS, NEAR = 64, 16, 3.0, 0.9995
SHARE = 0.25  # of the replies that the idler of two replicas must have given
BACK_SECONDS = 60
DEVICES = ("cuda:0", "cuda:1")


class Server:
    """`stoker serve` with the model on both devices."""

    def __init__(self, stoker, model, *more):
        command = [stoker, "serve", "-m", f"m={model}", "--port", "0", "--device", ",".join(DEVICES), "--dtype", "f16", *more]
        self.p = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ, STOKER_CUDA_COUNT="2"))
        self.lines, self.port = [], 0
        for line in self.p.stderr:
            self.lines.append(line.strip())
            if found := re.search(r"://[0-9.]+:(\d+)", line):
                self.port = int(found[1])
            if line.strip().endswith("ready"):
                break
        else:
            raise EngineFailed("the server did not start: " + " | ".join(self.lines[-4:]))
        threading.Thread(target=lambda: self.lines.extend(s.strip() for s in self.p.stderr), daemon=True).start()

    def worker(self, device):
        """The process that has the device; None while there is none."""
        for p in pathlib.Path("/proc").iterdir():
            try:
                if p.name.isdigit() and (p / "comm").read_text().strip() == f"stoker-{device}" and \
                        (p / "stat").read_text().rpartition(")")[2].split()[1] == str(self.p.pid):
                    return int(p.name)
            except OSError:
                continue
        return None

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(60)
        except subprocess.TimeoutExpired:
            self.p.kill()
            return -1


class Load:
    """Clients that ask without a pause.  Counts replies by device; keeps what was wrong."""

    def __init__(self, port, texts, want):
        self.port, self.texts, self.want = port, texts, want
        self.by_device, self.wrong, self.fell_back, self.worst_s = collections.Counter(), [], 0, 0.0
        self.lock, self.going = threading.Lock(), True
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(CLIENTS)]
        for t in self.threads:
            t.start()

    def client(self, i):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while self.going:
            i = (i * 31 + 7) % len(self.texts)
            start = time.monotonic()
            try:
                c.request("POST", "/embed", json.dumps({"inputs": self.texts[i]}), {"Content-Type": "application/json"})
                r = c.getresponse()
                body, took = r.read(), time.monotonic() - start
                cosine = float(np.dot(np.array(json.loads(body)[0]), self.want[i])) if r.status == 200 else 0.0
            except (OSError, http.client.HTTPException, ValueError) as e:
                with self.lock:
                    self.wrong.append(repr(e))
                return
            with self.lock:
                self.by_device[r.getheader("x-compute-type")] += 1
                self.fell_back += "fallback-from" in (r.getheader("x-stoker-device") or "")
                self.worst_s = max(self.worst_s, took)
                if r.status != 200 or cosine < NEAR:
                    self.wrong.append(f"status {r.status}, cosine {cosine:.6f} on {r.getheader('x-compute-type')}")

    def stop(self):
        self.going = False
        for t in self.threads:
            t.join()
        return self


def reference(run, model, texts):
    path, out = run.work / "faults.txt", run.work / "faults.npy"
    path.write_text("".join(t + "\n" for t in texts))
    subprocess.run([run.args.stoker, "embed", "-m", str(model), "--device", "cpu", "--dtype", "f32", "--format", "npy", "--quiet",
                    "--force", "-o", str(out), str(path)], check=True, timeout=120)
    return np.load(out)


def until(what, seconds=BACK_SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    return None


def told(run, name, load, problems):
    for p in (load.wrong + problems)[:5]:
        say(f"# {name}: {p}")
    say(f"# {name}: {sum(load.by_device.values())} replies by {dict(load.by_device)}, {load.fell_back} from the fallback, "
        f"the longest took {load.worst_s * 1e3:.0f} ms")
    bad = len(load.wrong) + len(problems)
    run.results.add(f"gpu.faults.{name}", bad, "failures", 0, bad == 0, False)


def replicas(run, server, texts, want):
    load = Load(server.port, texts, want)
    time.sleep(SECONDS)
    load.stop()
    counts = [load.by_device[d] for d in DEVICES]
    told(run, "replicas", load, [] if min(counts) >= SHARE * sum(counts) > 0 else [f"unequal work: {dict(load.by_device)}"])


def broken(run, server, texts, want, name, sent):
    """The first device's worker is sent a signal under load: it comes back as another process."""
    load, old = Load(server.port, texts, want), server.worker(DEVICES[0])
    time.sleep(SECONDS / 3)
    os.kill(old, sent)
    came = until(lambda: (p := server.worker(DEVICES[0])) and p != old and p)
    if came:
        before = load.by_device[DEVICES[0]]
        came = until(lambda: load.by_device[DEVICES[0]] > before + CLIENTS)
    load.stop()
    told(run, name, load, [] if came else [f"{DEVICES[0]} did not come back within {BACK_SECONDS} s"])


def no_memory(run):
    """Another program holds the GPU's memory: an error with bytes asked for and free, and nothing hangs."""
    hold = "import torch,sys\nf,_=torch.cuda.mem_get_info(); x=torch.empty(f-(1000<<20),dtype=torch.uint8,device='cuda'); " \
           "print('held',flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if holder.stdout.readline().strip() != "held":
            return run.budget.skip("faults: memory", "torch could not hold it")
        out = subprocess.run([run.args.stoker, "bench", "engine", str(run.work / "xlmr"), "--device", "cuda", "--case", "1x32"],
                             capture_output=True, text=True, timeout=90)
    finally:
        holder.stdin.close()
        holder.wait(30)
    good = out.returncode != 0 and re.search(r"\d.*\bfree\b", out.stderr)
    say(f"# memory: status {out.returncode}: {out.stderr.strip()[-300:]}")
    return run.results.add("gpu.faults.memory", int(not good), "failures", 0, bool(good), False)


def run_all(run):
    model, words = run.work / "minilm", models.words()
    texts = [" ".join(words[(i * 37 + j * 11) % len(words)] for j in range(1 + i % 23)) for i in range(TEXTS)]
    want = reference(run, model, texts)
    server = Server(run.args.stoker, model, "--device-timeout", "2s")
    try:
        replicas(run, server, texts, want)
        broken(run, server, texts, want, "killed", signal.SIGKILL)
        broken(run, server, texts, want, "stopped", signal.SIGSTOP)
    finally:
        status = server.stop()
    run.results.add("gpu.faults.end", status, "status", 0, status == 0, False)
    no_memory(run)

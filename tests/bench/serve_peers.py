# SPDX-License-Identifier: MIT
"""Servers that `stoker serve` is measured beside, started and ended by bench_serve.py.

Each runs in a process group of its own, stopped (SIGSTOP) while others have their turn, with float32
weights on all cores.  infinity-emb has several ways to run a model; each that works here is tried for
some seconds and the fastest is the one we are compared with."""
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import bench_peers

START_S = 300  # until a peer answers
TRIALS = 2  # of each way to run one
HERE = pathlib.Path(__file__).parent
# Its cache of vectors on disk is off: it would answer repeated texts without computing them.
INFINITY_ALL = ["v2", "--device", "cpu", "--dtype", "float32", "--no-vector-disk-cache", "--no-model-warmup", "--host", "127.0.0.1",
                "--log-level", "error"]
INFINITY_WAYS = {
    "torch": ["--engine", "torch", "--no-compile", "--no-bettertransformer"],
    "torch, BetterTransformer": ["--engine", "torch", "--no-compile", "--bettertransformer"],
    "torch, batches of 8": ["--engine", "torch", "--no-compile", "--no-bettertransformer", "--batch-size", "8"],
    "torch, BetterTransformer, batches of 8": ["--engine", "torch", "--no-compile", "--bettertransformer", "--batch-size", "8"],
    "torch, compiled": ["--engine", "torch", "--compile", "--no-bettertransformer"],
    "optimum": ["--engine", "optimum", "--no-compile"],
}
CHECKS = {"infinity": [str(HERE / "peers/infinity_server.py")],
          "fastapi": ["-c", "import fastapi, uvicorn, uvloop, httptools, orjson, torch, sentence_transformers"]}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def missing(python, name):
    """Why this Python cannot run the peer; "" when it can."""
    out = subprocess.run([python, *CHECKS[name]], capture_output=True, text=True, env=environment())
    return (out.stderr.strip().splitlines() or ["it does not import"])[-1] if out.returncode else ""


def environment():
    return dict(os.environ, DO_NOT_TRACK="1", HF_HUB_OFFLINE="1", INFINITY_ANONYMOUS_USAGE_STATS="0", TOKENIZERS_PARALLELISM="true",
                PYTHONWARNINGS="ignore")


class Peer:
    def __init__(self, name, argv, port):
        self.name, self.url, self.port = name, f"http://127.0.0.1:{port}", port
        self.log = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen(argv, stdout=self.log, stderr=self.log, start_new_session=True,
                                  preexec_fn=bench_peers.end_with_parent, env=environment())
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise

    def wait(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.p.poll() is None:
            try:
                c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                c.request("GET", "/health")
                if c.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        self.log.seek(0)
        words = [line for line in self.log.read().splitlines() if line.strip()]
        raise RuntimeError(words[-1].strip() if words else "it does not answer")

    def signal(self, number):
        if self.p.poll() is None:
            os.killpg(self.p.pid, number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def stop(self):
        self.signal(signal.SIGKILL)
        self.p.wait()


def fastapi_peer(python, folder, threads):
    port = free_port()
    return Peer("fastapi", [python, str(HERE / "peers/fastapi_server.py"), "--model", str(folder), "--port", str(port), "--threads",
                            str(threads), "--batch", "32"], port)


def infinity_peer(python, folder, way):
    port = free_port()
    return Peer("infinity", [python, str(HERE / "peers/infinity_server.py"), *INFINITY_ALL, "--model-id", str(folder), "--port",
                             str(port), *INFINITY_WAYS[way]], port)


def all_infinities(python, folder, ways, say):
    """{way: a peer that runs, stopped}"""
    peers, wanted = {}, [w.strip() for w in ways.split(";") if w.strip()]
    for way in INFINITY_WAYS:
        if wanted and way not in wanted:
            say(f"infinity ({way}): not asked for")
            continue
        if way == "optimum" and not (pathlib.Path(folder) / "onnx").is_dir():
            say("infinity (optimum): the model's folder has no onnx/")
            continue
        try:
            peers[way] = infinity_peer(python, folder, way)
            peers[way].pause()
        except RuntimeError as e:
            say(f"infinity ({way}) does not run: {e}")
    return peers


def fastest_infinity(python, folder, ways, measure, say):
    """The peer with most requests a second, of two turns the better; measure(peer) gives them.  None: none runs."""
    peers = all_infinities(python, folder, ways, say)
    best = dict.fromkeys(peers, 0)
    for _ in range(TRIALS):
        for way, peer in peers.items():
            peer.go_on()
            try:
                best[way] = max(best[way], measure(peer))
            except RuntimeError as e:
                say(f"infinity ({way}) does not answer: {e}")
            peer.pause()
    for way, rate in best.items():
        say(f"infinity ({way}): {rate:.1f} requests/s")
    chosen = max(best, key=best.get, default=None)
    for way, peer in peers.items():
        if way != chosen or not best[chosen]:
            peer.stop()
    if not chosen or not best[chosen]:
        return None
    say(f"infinity: '{chosen}' is the fastest and is measured")
    return peers[chosen]


if __name__ == "__main__":
    sys.exit(__doc__)

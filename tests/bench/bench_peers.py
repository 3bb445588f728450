#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One peer of the measurements in a process of its own, so that it can crash or be stopped alone.

    bench_peers.py NAME THREADS MODEL-FOLDER [GRAPHS|SERVER]

Reads one JSON value a line: {"groups": [[text, …], …], "seconds": s, "batch": b} encodes group after
group, each timed from texts to vectors, until s seconds have passed, and answers {"times": […],
"inside": […]}, the second without tokenising where the peer can tell it; with "vectors" true it answers the
vectors of the first group too.  What it prints first is {"about": "…"}.  {"count": [text, …]} answers the
number of tokens of each."""
import ctypes
import importlib
import json
import os
import pathlib
import signal
import sys
import time

TOKENS_MAX = 512


def end_with_parent():
    """For the child of a fork: PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def by_length(texts, batch):
    """Batches of like lengths, longest first, as sentence-transformers makes them."""
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    for i in range(0, len(order), batch):
        yield [texts[k] for k in order[i:i + batch]], order[i:i + batch]


class Ort:
    """onnxruntime on a graph whose end is the normalised vector."""

    def __init__(self, kind, threads, folder, graphs):
        import numpy as np
        import onnxruntime as ort
        from bench_graphs import fusions
        self.np = np
        opts = ort.SessionOptions()
        opts.intra_op_num_threads, opts.inter_op_num_threads = threads, 1
        self.session = ort.InferenceSession(str(graphs / f"{kind}.onnx"), opts, providers=["CPUExecutionProvider"])
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.tok, self.inside = tokenizer(folder), 0.0
        self.about = f"onnxruntime {ort.__version__}, {threads} threads, {fusions(graphs, kind)}"

    def encode(self, texts, batch):
        np, out = self.np, [None] * len(texts)
        for part, places in by_length(texts, batch):
            enc = self.tok.encode_batch(part)
            feed = {"input_ids": np.array([e.ids for e in enc], dtype=np.int64),
                    "attention_mask": np.array([e.attention_mask for e in enc], dtype=np.int64)}
            if "token_type_ids" in self.inputs:
                feed["token_type_ids"] = np.zeros_like(feed["input_ids"])
            begun = time.perf_counter()
            rows = self.session.run(None, feed)[0]
            self.inside += time.perf_counter() - begun
            for k, v in zip(places, rows):
                out[k] = v
        return out


class SentenceTransformers:
    def __init__(self, kind, threads, folder, _):
        import torch
        import sentence_transformers as st
        torch.set_num_threads(threads)
        kwargs = {} if kind == "f32" else {"model_kwargs": {"torch_dtype": torch.bfloat16}}
        self.model = st.SentenceTransformer(str(folder), device="cpu", **kwargs)
        self.model.max_seq_length = TOKENS_MAX
        self.about = f"sentence-transformers {st.__version__}, torch {torch.__version__} {kind}, {threads} threads"

    def encode(self, texts, batch):
        return self.model.encode(texts, batch_size=batch, show_progress_bar=False)


class Llama:
    """llama-server over one connection that stays open."""

    def __init__(self, _kind, threads, folder, server):
        import http.client
        import socket
        import subprocess
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        slots = 32
        self.server = subprocess.Popen(
            [str(server), "-m", str(folder), "--embedding", "--pooling", "mean", "-t", str(threads), "-tb", str(threads), "-np", str(slots),
             "-c", str(slots * TOKENS_MAX), "-b", str(slots * TOKENS_MAX), "-ub", str(slots * TOKENS_MAX), "--port", str(port),
             "--host", "127.0.0.1", "--no-webui", "--log-disable"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent)
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        for _ in range(300):
            if self.server.poll() is not None:
                raise RuntimeError(f"llama-server ended with status {self.server.returncode}")
            try:
                if self.ask("GET", "/health")[0] == 200:
                    break
            except OSError:
                self.http.close()
            time.sleep(0.1)
        version = subprocess.run([str(server), "--version"], capture_output=True, text=True).stderr
        self.about = f"llama.cpp {' '.join(version.split()[1:2])}, {folder.name}, {threads} threads, over HTTP"

    def ask(self, how, path, body=None, again=True):
        try:
            self.http.request(how, path, body, {"Content-Type": "application/json"} if body else {})
            r = self.http.getresponse()
            return r.status, r.read()
        except ConnectionError:  # it closes a connection that was idle while others ran
            self.http.close()
            if not again or self.server.poll() is not None:
                raise
            return self.ask(how, path, body, False)

    def encode(self, texts, batch):
        out = [None] * len(texts)
        for part, places in by_length(texts, batch):
            status, body = self.ask("POST", "/v1/embeddings", json.dumps({"input": part}))
            if status != 200:
                raise RuntimeError(f"llama-server answered {status}: {body[:200]!r}")
            for k, row in zip(places, json.loads(body)["data"]):
                out[k] = row["embedding"]
        return out


def tokenizer(folder):
    tok = importlib.import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    pad = json.loads((folder / "config.json").read_text()).get("pad_token_id") or 0
    tok.enable_truncation(TOKENS_MAX)
    tok.enable_padding(pad_id=pad, pad_token=tok.id_to_token(pad))
    return tok


KINDS = {"ort": Ort, "st": SentenceTransformers, "llama": Llama}


def serve(peer, ask):
    if "count" in ask:
        return {"tokens": [sum(e.attention_mask) for e in peer.tok.encode_batch(ask["count"])]}
    times, inside, until, groups = [], [], time.perf_counter() + ask["seconds"], ask["groups"]
    while not times or time.perf_counter() < until:
        begun, before = time.perf_counter(), getattr(peer, "inside", None)
        got = peer.encode(groups[len(times) % len(groups)], ask["batch"])
        times.append(time.perf_counter() - begun)
        inside.append(times[-1] if before is None else peer.inside - before)
    out = {"times": times, "inside": inside}
    if ask.get("vectors"):
        out["vectors"] = [[float(x) for x in row] for row in got]
    return out


def main():
    name, threads, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    maker, _, kind = name.partition("_")
    peer = KINDS[maker](kind, threads, folder, pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None)
    try:
        print(json.dumps({"about": peer.about}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(serve(peer, json.loads(line))), file=answers, flush=True)
    finally:
        if maker == "llama":
            peer.server.terminate()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""TAP of `stoker serve` with two tiny models: serve.py STOKER EMBEDDING-MODEL RERANKER.

Only the standard library.  Each server is a process of its own on a free port."""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import serve_test
from serve_test import Server, check, lines

STOKER, EMB, RANK = sys.argv[1:4]
TEXTS = ["hello world", "a", "the quick brown fox", "hello hello hello world"]


def apis(s):
    want = lines(EMB, TEXTS, "--normalize")
    st, v, r = s.ask("/embed", {"inputs": TEXTS})
    check("/embed gives the bits of stoker embed", st == 200 and v == want, st, v)
    check("its fields tell tokens", int(r.getheader("x-compute-tokens", "0")) > 8, r.getheaders())
    check("/embed of one text is a list of one", s.ask("/embed", {"inputs": TEXTS[0]})[1] == want[:1])
    st, v, _ = s.ask("/embed", {"inputs": TEXTS, "normalize": False})
    check("/embed without normalising", st == 200 and v == lines(EMB, TEXTS, "--no-normalize"), st)
    st, v, _ = s.ask("/v1/embeddings", {"input": TEXTS, "model": "emb"})
    check("/v1/embeddings: the same bits", st == 200 and [d["embedding"] for d in v["data"]] == want, st, v)
    check("/v1/embeddings: usage and order", v["usage"]["prompt_tokens"] > 8 and [d["index"] for d in v["data"]] == [0, 1, 2, 3], v)
    st, v, _ = s.ask("/v1/embeddings", {"input": TEXTS, "encoding_format": "base64"})
    got = [list(struct.unpack(f"<{len(want[0])}f", base64.b64decode(d["embedding"]))) for d in v["data"]]
    f32 = [[struct.unpack("<f", struct.pack("<f", x))[0] for x in row] for row in want]
    check("/v1/embeddings: base64 is the same", st == 200 and got == f32)
    st, v, _ = s.ask("/v1/embeddings", {"input": TEXTS, "dimensions": 8})
    check("/v1/embeddings: dimensions", st == 200 and v["data"][0]["embedding"] == lines(EMB, TEXTS, "--normalize", "--dims", "8")[0], st, v)
    ids = [t["id"] for t in s.ask("/tokenize", {"inputs": TEXTS[0]})[1][0]]
    st, v, _ = s.ask("/v1/embeddings", {"input": [ids]})
    check("ids pass through untouched", st == 200 and v["data"][0]["embedding"] == want[0], st, v)
    st, v, _ = s.ask("/v2/embed", {"texts": TEXTS, "model": "emb", "input_type": "search_document", "embedding_types": ["float"]})
    check("/v2/embed", st == 200 and v["embeddings"]["float"] == want, st, v)
    st, v, _ = s.ask("/embedding", {"content": TEXTS[0]})
    check("/embedding", st == 200 and v[0]["embedding"][0] == want[0], st, v)
    st, v, _ = s.ask("/embed_all", {"inputs": TEXTS[0]})
    check("/embed_all: a vector a token", st == 200 and len(v[0]) == len(ids), st)
    st, v, _ = s.ask("/similarity", {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}})
    check("/similarity", st == 200 and abs(v[0] - 1) < 1e-5 and len(v) == 4, st, v)
    st, v, _ = s.ask("/decode", {"ids": ids})
    check("/decode", st == 200 and v == [TEXTS[0]], st, v)


def ranking(s):
    docs = ["hello world", "fox", "brown fox quick"]
    p = subprocess.run([STOKER, "rerank", "-m", RANK, "-q", "hello", "--json", "--quiet"], input="\n".join(docs) + "\n", capture_output=True, text=True)
    want = [(r["index"], r["score"]) for r in json.loads(p.stdout)["results"]]
    st, v, _ = s.ask("/rerank", {"query": "hello", "documents": docs, "model": "rank"})
    check("/rerank gives the scores of stoker rerank", st == 200 and [(r["index"], r["relevance_score"]) for r in v["results"]] == want, st, v, want)
    st, v, _ = s.ask("/rerank", {"query": "hello", "texts": docs, "raw_scores": True, "model": "rank"})
    check("/rerank in TEI's shape", st == 200 and [r["index"] for r in v] == [i for i, _ in want], st, v)
    st, v, _ = s.ask("/v2/rerank", {"query": "hello", "documents": docs, "top_n": 1, "model": "rank"})
    check("/v2/rerank: top_n", st == 200 and len(v["results"]) == 1 and v["results"][0]["index"] == want[0][0], st, v)
    st, v, _ = s.ask("/score", {"text_1": "hello", "text_2": docs, "model": "rank"})
    check("/score keeps the order", st == 200 and [d["index"] for d in v["data"]] == [0, 1, 2], st, v)
    st, v, _ = s.ask("/rerank", {"query": "hello", "documents": ["x"] * 1000, "model": "rank"})
    check("1,000 documents in one call", st == 200 and len(v["results"]) == 1000, st)


def about(s):
    st, v, _ = s.ask("/v1/models")
    check("/v1/models", st == 200 and {m["id"] for m in v["data"]} == {"emb", "rank"}, v)
    st, v, _ = s.ask("/info?model=emb")
    check("/info", st == 200 and v["served_model_name"] == "emb" and "embedding" in v["model_type"], v)
    st, v, _ = s.ask("/health")
    check("/health", st == 200 and v["status"] == "ok", st, v)
    st, v, _ = s.ask("/metrics")
    text = v.decode()
    check("/metrics counts", st == 200 and re.search(r'stoker_tokens_total\{model="emb"\} [1-9]', text), text[:400])
    st, v, _ = s.ask("/openapi.json")
    check("/openapi.json", st == 200 and "/v1/embeddings" in v["paths"])
    st, v, r = s.ask("/")
    check("the page", st == 200 and b"<html" in v.lower() and "text/html" in r.getheader("content-type"))
    st, v, _ = s.ask("/debug/batches")
    check("/debug/batches", st == 200 and "batches" in json.dumps(v), v)
    st, v, r = s.ask("/debug/batches?format=svg")
    check("/debug/batches as a picture", st == 200 and b"<svg" in v, st)


def errors(s):
    for what, path, body, status in [
            ("no JSON", "/embed", "{", 400), ("not the shape", "/embed", {"inputs": 5}, 422),
            ("nothing to embed", "/embed", {"inputs": []}, 400), ("an empty text", "/embed", {"inputs": ""}, 400),
            ("no such model", "/v1/embeddings", {"input": "a", "model": "nope"}, 404),
            ("a reranker asked for vectors", "/v1/embeddings", {"input": "a", "model": "rank"}, 400),
            ("an embedding model asked to rank", "/rerank", {"query": "a", "documents": ["b"], "model": "emb"}, 400),
            ("too long, and no cutting", "/embed", {"inputs": "hello " * 600, "truncate": False}, 422),
            ("too many inputs", "/embed", {"inputs": ["a"] * 2049}, 422),
            ("too many dimensions", "/v1/embeddings", {"input": "a", "dimensions": 100000}, 400),
            ("an id beyond the vocabulary", "/v1/embeddings", {"input": [99999999]}, 400),
            ("a bomb of brackets", "/embed", "[" * 100000, 400),
            ("invalid UTF-8", "/embed", b'{"inputs":"\xff\xfe"}', 400),
            ("a deadline that cannot be held", "/embed", {"inputs": "a"}, 504)]:
        head = {"x-request-timeout": "1ms"} if "deadline" in what else {}
        body = {"inputs": [f"{i} hello world " * 100 for i in range(1000)]} if "deadline" in what else body
        st, v, _ = s.ask(path, body, head)
        check(f"{what}: {status}", st == status, st, v)
    check("a request may ask for more time than the default", s.ask("/embed", {"inputs": "a"}, {"x-request-timeout": "600s"})[0] == 200)
    st, v, _ = s.ask("/embed", {"inputs": "a"}, {"x-request-timeout": "601s"})
    check("but not for more than --timeout-max, which is named", st == 422 and "at most 600 s (--timeout-max)" in v["error"], st, v)
    check("no such path: 404", s.ask("/nope", {})[0] == 404)
    check("GET of a POST: 405", s.ask("/embed")[0] == 405)
    check("and it still answers", s.ask("/embed", {"inputs": "a"})[0] == 200)


def faults(s):
    body = json.dumps({"inputs": "hello world"}).encode()
    head = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for cut in range(0, len(head) + len(body), 7):
        c = socket.create_connection(("127.0.0.1", s.port))
        c.sendall((head + body)[:cut])
        c.close()
    check("bodies cut at many bytes harm nobody", s.ask("/embed", {"inputs": "a"})[0] == 200)
    c = socket.create_connection(("127.0.0.1", s.port))
    try:
        c.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n")
        got = c.recv(64)
    except OSError:
        got = b" 431 "
    check("a header of 1 MB: 431", b" 431 " in got, got)
    c.close()
    for _ in range(20):
        c = socket.create_connection(("127.0.0.1", s.port))
        c.sendall(head.replace(b"%d" % len(body), b"%d" % len(body)) + body)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    check("clients that reset while they wait harm nobody", s.ask("/embed", {"inputs": "a"})[0] == 200)


def many(s):
    want = {t: v for t, v in zip(TEXTS, lines(EMB, TEXTS, "--normalize"))}
    bad = []

    def client(k):
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        for i in range(30):
            t = TEXTS[(k + i) % len(TEXTS)]
            c.request("POST", "/embed", json.dumps({"inputs": t}))
            r = c.getresponse()
            v = r.read()
            if r.status != 200 or json.loads(v) != [want[t]]:
                bad.append((r.status, v[:100]))
    those = [threading.Thread(target=client, args=(k,)) for k in range(16)]
    for t in those:
        t.start()
    for t in those:
        t.join()
    check("16 clients at once: every vector is the right one", not bad, *bad[:3])


def come_and_go(s):
    st, v, _ = s.ask("/v1/models/load", {"model": "emb", "source": os.path.abspath(EMB)})
    check("loading the same name again is a swap", st == 202, st, v)
    ok = all(s.ask("/embed", {"inputs": "a", "model": "emb"})[0] == 200 for _ in range(50))
    check("and no request fails meanwhile", ok)
    st, v, _ = s.ask("/v1/models/load", {"model": "second", "source": os.path.abspath(EMB), "aliases": ["alias"]})
    check("a further model", st == 202, st, v)
    st, v, _ = s.ask("/v1/embeddings", {"input": "a", "model": "alias"})
    check("by its alias, waiting until it is loaded", st == 200 and v["model"] in ("second", "alias"), st, v)
    check("unloading", s.ask("/v1/models/unload", {"model": "second"})[0] == 202)
    st = 200
    for _ in range(100):
        st = s.ask("/v1/embeddings", {"input": "a", "model": "second"})[0]
        if st == 404:
            break
        time.sleep(0.02)
    check("it is gone then", st == 404, st)
    st, v, _ = s.ask("/v1/models/load", {"model": "bad", "source": "/nowhere"})
    st, v, _ = s.ask("/v1/embeddings", {"input": "a", "model": "bad"})
    check("a folder that is not there is an error with its name", st >= 400 and "/nowhere" in json.dumps(v), st, v)


def stopping():
    s = Server("-m", f"emb={EMB}", "--rerank-port", "0")
    done = []

    def client():
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        try:
            while True:
                c.request("POST", "/embed", json.dumps({"inputs": ["hello world"] * 64}))
                r = c.getresponse()
                done.append(r.status if len(r.read()) > 2 else 0)
                if r.getheader("connection") == "close":
                    return
        except (ConnectionError, http.client.HTTPException) as e:
            # A keep-alive connection may be closed between two requests: that one was not accepted.
            done.append("refused" if isinstance(e, (http.client.RemoteDisconnected, ConnectionError)) else repr(e))

    those = [threading.Thread(target=client) for _ in range(8)]
    for t in those:
        t.start()
    time.sleep(0.5)
    rc, rest = s.stop()
    for t in those:
        t.join()
    odd = [d for d in done if d not in (200, 503, "refused")]
    check("SIGTERM under load: accepted requests are answered", rc == 0 and not odd and done.count(200) > 8, rc, odd, rest)


def listening():
    p = subprocess.run([STOKER, "serve", "-m", EMB, "--listen", "0.0.0.0", "--port", "0"], capture_output=True, text=True, timeout=30)
    check("beyond loopback it wants a token", p.returncode == 2 and "token" in p.stderr, p.stderr)
    p = subprocess.run([STOKER, "serve", "--port", "0"], capture_output=True, text=True, timeout=30)
    check("no model is an error with a hint", p.returncode == 2 and "model get" in p.stderr, p.stderr)
    p = subprocess.run([STOKER, "serve", "-m", "x=/nowhere", "--port", "0"], capture_output=True, text=True, timeout=30)
    check("a model that is not there is told at once", p.returncode != 0 and "/nowhere" in p.stderr, p.stderr)
    with open("token", "w") as f:
        f.write("secret\n")
    s = Server("-m", f"emb={EMB}", "--token-file", "token", "--access-log", "access.log", "--no-te-metrics")
    check("without the token: 401", s.ask("/embed", {"inputs": "a"})[0] == 401)
    check("with it: 200", s.ask("/embed", {"inputs": "a"}, {"Authorization": "Bearer secret"})[0] == 200)
    check("/health needs none", s.ask("/health")[0] == 200)
    text = s.ask("/metrics", None, {"Authorization": "Bearer secret"})[1].decode()
    check("TEI's names can be left out", "stoker_requests_total" in text and "te_request_count" not in text)
    rc, rest = s.stop(signal.SIGINT)
    check("SIGINT ends it well", rc == 0, rc, rest)
    log = [json.loads(x) for x in open("access.log")]
    check("the access log has every request", len(log) >= 4 and {x["status"] for x in log} >= {200, 401}, log)


def nan():
    shutil.copytree(EMB, "nan")
    data = bytearray(open("nan/model.safetensors", "rb").read())
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    name = next(k for k in head if k.endswith("word_embeddings.weight"))
    at = 8 + n + head[name]["data_offsets"][0]
    end = 8 + n + head[name]["data_offsets"][1]
    data[at:end] = struct.pack("<f", float("nan")) * ((end - at) // 4) if head[name]["dtype"] == "F32" else b"\xff\x7f" * ((end - at) // 2)
    open("nan/model.safetensors", "wb").write(data)
    s = Server("-m", "nan=nan")
    st, v, _ = s.ask("/embed", {"inputs": "a"})
    check("numbers that are none are never a 200", st in (424, 500), st, v)
    s.stop()


s = Server("-m", f"emb={EMB}", "-m", f"rank={RANK}")
check("it starts and says where", s.port > 0 and "ready" in s.text, s.text, s.p.poll())
if s.port:
    for part in (apis, ranking, about, errors, faults, many, come_and_go):
        try:
            part(s)
        except Exception as e:  # the rest still runs
            check(f"{part.__name__} ends", False, repr(e), s.p.poll())
    rc, rest = s.stop()
    check("it stops", rc == 0, rc, rest)
    for part in (stopping, listening, nan):
        try:
            part()
        except Exception as e:
            check(f"{part.__name__} ends", False, repr(e))
serve_test.done()

# SPDX-License-Identifier: MIT
"""TAP of `stoker serve` in the place of other servers: serve_dropin.py STOKER, in an empty folder."""
import gzip
import http.client
import json
import re
import zlib

import serve_models
import serve_test
from serve_test import Server, check, part

# ---- TEI's figures: TEI 1.9, router/src/prometheus.rs and what core and router record

DURATIONS = [0.00001 * 1.5]
while len(DURATIONS) < 35:
    DURATIONS.append(DURATIONS[-1] * 1.5)
TE_COUNTERS = {"te_request_count": {"method": {"single", "batch"}}, "te_request_success": {"method": {"single", "batch"}},
               "te_request_failure": {"err": {"batch_size", "dropped", "inference", "model_type", "overloaded", "tokenization", "validation"}},
               "te_embed_count": {}, "te_embed_success": {}, "te_predict_count": {}, "te_predict_success": {}}
TE_HISTOGRAMS = {f"te_{of}_{what}duration": DURATIONS for of in ("request", "embed", "predict") for what in ("", "tokenization_", "queue_", "inference_")}
TE_HISTOGRAMS |= {"te_request_input_length": [2 ** i for i in range(20)], "te_batch_next_size": [2 ** i for i in range(13)],
                  "te_batch_next_tokens": [2 ** i for i in range(21)]}
# What dashboards ask of that server: a rate, a share, a quantile, a mean and a gauge of each figure.
TE_EXPRESSIONS = [
    'sum(rate(te_request_count{method="single"}[5m]))', 'sum by (method) (rate(te_request_success[5m]))',
    'sum(rate(te_request_failure{err="overloaded"}[5m])) / sum(rate(te_request_count[5m]))', "sum(rate(te_embed_success[1m]))",
    "sum(rate(te_predict_success[1m]))", "histogram_quantile(0.99, sum by (le) (rate(te_request_duration_bucket[5m])))",
    "histogram_quantile(0.95, sum(rate(te_embed_inference_duration_bucket[1m])) by (le))",
    "histogram_quantile(0.5, sum(rate(te_embed_queue_duration_bucket[1m])) by (le))",
    "sum(rate(te_predict_tokenization_duration_sum[1m])) / sum(rate(te_predict_tokenization_duration_count[1m]))",
    "histogram_quantile(0.95, sum(rate(te_request_input_length_bucket[1m])) by (le))",
    "histogram_quantile(0.95, sum(rate(te_batch_next_size_bucket[1m])) by (le))",
    "sum(rate(te_batch_next_tokens_sum[1m]))", "avg_over_time(te_queue_size[5m])",
]


def figures(s):
    """Types by family and values by (name, labels)."""
    types, values = {}, {}
    for line in s.ask("/metrics")[1].decode().splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            name, labels, value = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line).groups()
            values[name, tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels or "")))] = float(value)
    return types, values


def te_names(s):
    types, values = figures(s)
    for name, labels in TE_COUNTERS.items():
        got = {k: {v for n, ls in values if n == name for key, v in ls if key == k} for k in labels}
        check(f"{name}: a counter with TEI's labels, from the start", types.get(name) == "counter" and got == labels and (labels or (name, ()) in values), got)
    for name, bounds in TE_HISTOGRAMS.items():
        got = sorted(float(dict(ls)["le"]) for n, ls in values if n == name + "_bucket")
        check(f"{name}: a histogram with TEI's buckets, from the start", types.get(name) == "histogram" and got[:-1] == bounds and got[-1:] == [float("inf")], got)
    check("te_queue_size: a gauge", types.get("te_queue_size") == "gauge" and values.get(("te_queue_size", ())) == 0)
    for text in TE_EXPRESSIONS:
        for name, labels in re.findall(r"(te_\w+)(?:\{(.*?)\})?", text):
            want = set(re.findall(r'(\w+)="([^"]*)"', labels))
            check(f"{text}: has series of {name}", any(n == name and want <= set(ls) for n, ls in values))


def te_counts(s):
    before = figures(s)[1]
    s.ask("/embed", {"inputs": "hello"})
    s.ask("/embed", {"inputs": ["one", "two", "three"]})
    s.ask("/rerank", {"query": "hello", "texts": ["one", "two"]})
    s.ask("/predict", {"inputs": "hello"})
    s.ask("/embed", {"inputs": ""})
    s.ask("/embed", {"inputs": "hello", "model": "class"})
    s.ask("/tokenize", {"inputs": "hello"})
    after = figures(s)[1]

    def more(name, **labels):
        key = name, tuple(sorted(labels.items()))
        return after.get(key, 0) - before.get(key, 0)

    got = {n: more(n) for n in ("te_embed_count", "te_embed_success", "te_predict_count", "te_predict_success", "te_embed_duration_count",
                                "te_embed_queue_duration_count", "te_predict_inference_duration_count", "te_request_duration_count", "te_request_input_length_count")}
    check("te_embed_ and te_predict_ count inputs", got == {"te_embed_count": 5, "te_embed_success": 4, "te_predict_count": 3, "te_predict_success": 3,
          "te_embed_duration_count": 4, "te_embed_queue_duration_count": 4, "te_predict_inference_duration_count": 3, "te_request_duration_count": 4,
          "te_request_input_length_count": 7}, got)
    got = [more("te_request_count", method=m) for m in ("single", "batch")] + [more("te_request_success", method=m) for m in ("single", "batch")]
    check("te_request_ counts requests, by method", got == [4, 2, 2, 2], got)
    got = more("te_request_failure", err="validation"), more("te_request_failure", err="model_type")
    check("te_request_failure: by cause", got == (1, 1), got)
    got = more("te_batch_next_size_sum"), more("te_batch_next_tokens_count"), after["te_queue_size", ()]
    check("te_batch_next_: every text that ran; te_queue_size: none waits", got[0] == 7 and got[1] >= 4 and got[2] == 0, got)


# ---- which model is meant

def default_classes(s):
    for path, body in (("/predict", {"inputs": "hello"}), ("/predict", {"inputs": "hello", "model": ""}), ("/classify", {"input": ["hello"]})):
        st, v, _ = s.ask(path, body)
        rows = v["data"][0] if isinstance(v, dict) and "data" in v else v
        check(f"{path} {body}: the classifier's labels, though a reranker comes first",
              st == 200 and sorted(x["label"] for x in rows) == sorted(serve_models.LABELS), st, v)
    any_name = Server("-m", "rank=rank", "-m", "class=class", "--any-model")
    st, v, _ = any_name.ask("/predict", {"inputs": "hello", "model": "another/model"})
    check("/predict with any name: the classifier's labels", st == 200 and sorted(x["label"] for x in v) == sorted(serve_models.LABELS), st, v)
    st, v, _ = any_name.ask("/rerank", {"query": "hello", "texts": ["a"], "model": "another/model"})
    check("/rerank with any name: the reranker", st == 200 and v[0]["index"] == 0, st, v)
    any_name.stop()
    alone = Server("-m", "rank=rank")
    st, v, _ = alone.ask("/predict", {"inputs": ["hello", "fire"]})
    check("/predict where there is no classifier: the reranker", st == 200 and len(v) == 1, st, v)
    alone.stop()


# ---- Infinity's and Voyage's shapes

def infinity(s):
    v = s.ask("/models")[1]
    check("/models: what Infinity's client wants of each", v["object"] == "list" and all(m["owned_by"] == "infinity" and isinstance(m["stats"], dict) for m in v["data"]) and
          [m["capabilities"] for m in v["data"]] == [["embed"], ["rerank"], ["classify"]], v)
    check("/v1/models: ours", all(m["owned_by"] == "stoker" for m in s.ask("/v1/models")[1]["data"]))
    body = {"query": "hello", "documents": ["one", "two"], "return_documents": False, "raw_scores": False, "model": "default/not-specified"}
    for path in ("/rerank", "/v1/rerank"):
        v = s.ask(path, body)[1]
        check(f"{path} with raw_scores: Infinity's shape", v["object"] == "rerank" and "document" not in v["results"][0] and v["usage"]["total_tokens"], v)
        v = s.ask(path, {**body, "return_documents": True, "top_n": 1})[1]
        check(f"{path}: documents are plain strings there", len(v["results"]) == 1 and v["results"][0]["document"] in ("one", "two"), v)
        v = s.ask(path, {"query": "hello", "documents": ["one"]})[1]
        check(f"{path} without it: objects, as ever", v["object"] == "list" and v["results"][0]["document"] == {"text": "one"}, v)
        v = s.ask(path, {"query": "hello", "documents": ["one", "two"], "truncation": True, "top_k": 1})[1]
        check(f"{path} with truncation: Voyage's shape", "results" not in v and len(v["data"]) == 1 and "relevance_score" in v["data"][0], v)
    for path, name in (("/embeddings", "input"), ("/classify", "input")):
        check(f"{path}: Infinity's word for no model", s.ask(path, {name: ["hello"], "model": "default/not-specified"})[0] == 200)


# ---- values that an API refuses: path, body, status, member at fault, words of the message

TEXT = {"input": "hello"}
COHERE = {"texts": ["hello"], "model": "emb"}
REFUSED = [
    ("/v2/embed", {**COHERE, "input_type": "documents"}, 400, "input_type", "search_document, search_query, classification or clustering"),
    ("/v1/embed", {**COHERE, "input_type": "SEARCH"}, 400, "input_type", "search_query"),
    ("/v2/embed", {**COHERE, "input_type": "image"}, 400, "input_type", "images"),
    ("/v2/embed", {**COHERE, "embedding_types": ["float", "floats"]}, 400, "embedding_types", "ubinary"),
    ("/v2/embed", {**COHERE, "truncate": "MIDDLE"}, 400, "truncate", '"NONE", "START" or "END"'),
    ("/v2/embed", {**COHERE, "truncate": True}, 400, "truncate", '"NONE", "START" or "END"'),
    ("/v2/rerank", {"query": "a", "documents": ["b"], "truncate": 3}, 400, "truncate", '"NONE"'),
    ("/v1/embeddings", {**TEXT, "late_chunking": True}, 400, "late_chunking", "false"),
    ("/v1/embeddings", {**TEXT, "late_chunking": "yes"}, 400, "late_chunking", "true or false"),
    ("/v1/embeddings", {**TEXT, "return_multivector": True}, 400, "return_multivector", "not supported"),
    ("/v1/embeddings", {**TEXT, "embedding_type": "int4"}, 400, "embedding_type", "binary"),
    ("/v1/embeddings", {**TEXT, "task": "retrieval.document"}, 400, "task", "retrieval.passage"),
    ("/v1/embeddings", {**TEXT, "input_type": "doc"}, 400, "input_type", "query, document"),
    ("/embeddings", {**TEXT, "input_type": "Query"}, 400, "input_type", "query, document"),
    ("/v1/embeddings", {**TEXT, "encoding_format": "hex"}, 400, "encoding_format", "base64"),
    ("/v1/embeddings", {**TEXT, "truncation": "END"}, 400, "truncation", "true or false"),
    ("/v1/embeddings", {**TEXT, "output_dtype": "int4"}, 400, "output_dtype", "int8"),
    ("/v1/embeddings", {**TEXT, "modality": "image"}, 400, "modality", "text"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "input_type": "doc"}, 400, "input_type", "query, document"),
    ("/embed", {"inputs": "hello", "truncate": "END"}, 422, "truncate", "true or false"),
    ("/embed", {"inputs": "hello", "truncation_direction": "up"}, 422, "truncation_direction", "left"),
    ("/embed", {"inputs": "hello", "input_type": "doc"}, 422, "input_type", "query, document"),
    ("/predict", {"inputs": "hello", "truncate": "NONE"}, 422, "truncate", "true or false"),
]
TAKEN = [
    ("/v2/embed", {**COHERE, "input_type": "search_query", "truncate": "START"}), ("/v2/embed", {**COHERE, "input_type": "clustering"}), ("/v2/embed", COHERE),
    ("/v1/embeddings", {**TEXT, "late_chunking": False, "task": "text-matching", "embedding_type": "binary", "normalized": True, "truncate": False}),
    ("/v1/embeddings", {**TEXT, "task": "retrieval.passage"}), ("/v1/embeddings", {**TEXT, "input_type": "passage", "truncate": "NONE"}),
    ("/v1/embeddings", {**TEXT, "input_type": "document", "truncation": True, "output_dtype": "int8", "output_dimension": 8}),
    ("/v1/embeddings", {**TEXT, "input_type": "cat"}), ("/v1/embeddings", {**TEXT, "input_type": None, "task": None, "truncate": None, "late_chunking": None}),
    ("/embed", {"inputs": "hello", "truncate": True, "truncation_direction": "Left"}),
]


def refusals(s):
    for path, body, status, member, words in REFUSED:
        st, v, _ = s.ask(path, body)
        text = v.get("message") or (v["error"]["message"] if isinstance(v["error"], dict) else v["error"])
        check(f"{path}: {member} {body.get(member)!r} is refused, with what it may be", st == status and (f"'{member}'" in text or words == "images") and words in text, st, v)
    for path, body in TAKEN:
        st, v, _ = s.ask(path, body)
        check(f"{path}: {body} is taken", st == 200, st, v)


# ---- ids

def token_ids(s):
    """What LangChain sends by default is of another tokenizer, and often below the vocabulary's end."""
    own = [t["id"] for t in s.ask("/tokenize", {"inputs": "hello world", "model": "emb"})[1][0]]
    want = s.ask("/v1/embeddings", {"input": "hello world", "model": "emb"})[1]["data"][0]["embedding"]
    for path in ("/v1/embeddings", "/embeddings"):
        for given in (own[1:-1], [own[1:-1]], own[:-1], own[1:], [own, own[1:-1]], [5]):
            st, v, _ = s.ask(path, {"input": given, "model": "emb"})
            check(f"{path}: {given} could be any tokenizer's: refused, with the setting", st == 400 and v["error"]["param"] == "input" and
                  "check_embedding_ctx_length=False" in v["error"]["message"] and "add_special_tokens" in v["error"]["message"], st, v)
        st, v, _ = s.ask(path, {"input": [15339, 100256], "model": "emb"})
        check(f"{path}: ids beyond the vocabulary: refused, with the setting", st == 400 and "check_embedding_ctx_length=False" in v["error"]["message"], st, v)
        for given in (own, [own]):
            v = s.ask(path, {"input": given, "model": "emb"})[1]
            check(f"{path}: the model's own ids, with its special tokens", v["data"][0]["embedding"] == want, v)
        st, v, _ = s.ask(path, {"input": own, "model": "emb", "add_special_tokens": False})
        check(f"{path}: and as they are when the request says so", st == 200 and v["data"][0]["embedding"] == want, st, v)
        check(f"{path}: also without special tokens", s.ask(path, {"input": own[1:-1], "model": "emb", "add_special_tokens": False})[0] == 200)
    check("/embed: ids are the model's, as at TEI", s.ask("/embed", {"inputs": own[1:-1], "model": "emb"})[0] == 200)


# ---- packed bodies

def post(s, path, body, **fields):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("POST", path, body, {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in fields.items()}})
    r = c.getresponse()
    return r.status, r.read(), r


def packed(s):
    want = s.ask("/embed", {"inputs": ["hello", "world"]})[1]
    plain = json.dumps({"inputs": ["hello", "world"]}).encode()
    named = gzip.compress(plain)[:3] + b"\x1c" + gzip.compress(plain)[4:10] + b"\x03\x00xyz" + b"name\0comment\0" + gzip.compress(plain)[10:]
    for what, body, coding in (("gzip", gzip.compress(plain), "gzip"), ("x-gzip", gzip.compress(plain), "x-gzip"), ("GZip", gzip.compress(plain, 1), "GZip"),
                               ("a head with all that it may have", named, "gzip"), ("identity", plain, "identity"), ("stored blocks", gzip.compress(plain, 0), "gzip")):
        st, v, _ = post(s, "/embed", body, Content_Encoding=coding)
        check(f"a body with Content-Encoding {what}", st == 200 and json.loads(v) == want, st, v)
    many = json.dumps({"input": ["hello world"] * 500, "model": "emb"}).encode()
    st, v, _ = post(s, "/v1/embeddings", gzip.compress(many), Content_Encoding="gzip")
    check("a long one", st == 200 and len(json.loads(v)["data"]) == 500, st)
    for coding in ("deflate", "br", "zstd", "gzip, gzip", "compress"):
        st, v, r = post(s, "/embed", plain, Content_Encoding=coding)
        check(f"Content-Encoding {coding}: 415 with what is taken", st == 415 and r.getheader("Accept-Encoding") == "gzip" and "error" in json.loads(v), st, v, r.getheaders())
    st, v, r = post(s, "/v1/embeddings/stream", gzip.compress(b'"hello"\n'), Content_Encoding="gzip")
    check("a stream takes none: 415 with what is taken", st == 415 and r.getheader("Accept-Encoding") == "identity", st, v, r.getheaders())
    good = gzip.compress(plain)
    broken = {"cut off": good[:-9], "a wrong checksum": good[:-8] + b"\0\0\0\0" + good[-4:], "no gzip": plain, "empty": b"", "two members": good + good,
              "a changed byte": good[:14] + bytes([good[14] ^ 0xFF]) + good[15:], "zlib's": zlib.compress(plain), "a head alone": good[:10]}
    for what, body in broken.items():
        st, v, _ = post(s, "/embed", body, Content_Encoding="gzip")
        check(f"a packed body that is {what}: 400", st == 400 and json.loads(v)["error_type"] == "Validation", st, v)
    st, v, _ = post(s, "/embed", gzip.compress(b'{"inputs": "' + b"a" * (200 << 20) + b'"}'), Content_Encoding="gzip")
    check("200 MB in 200 kB: 413 with the option's name", st == 413 and b"--body-max" in v, st, v)
    check("it grew by less", int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{s.p.pid}/status").read())[1]) < 500_000)
    text = "hello world and the cat sat on the mat " * 20
    for path, body in (("/tokenize", {"inputs": [text] * 40}), ("/v1/rerank", {"query": "a", "documents": [text] * 200})):
        _, plain_reply, r = post(s, path, json.dumps(body).encode(), Accept_Encoding="identity")
        check(f"{path}: plain where gzip is not taken", r.getheader("Content-Encoding") is None and "Accept-Encoding" in r.getheader("Vary", ""), r.getheaders())
        for accept in ("gzip", "deflate, gzip;q=0.5", "br;q=1.0, gzip"):
            st, v, r = post(s, path, json.dumps(body).encode(), Accept_Encoding=accept)
            same = r.getheader("Content-Encoding") == "gzip" and len(v) < len(plain_reply) / 2 and len(gzip.decompress(v)) in range(len(plain_reply) - 40, len(plain_reply) + 40)
            check(f"{path}: packed for Accept-Encoding {accept}", st == 200 and same and int(r.getheader("Content-Length")) == len(v), r.getheaders())
        st, v, r = post(s, path, json.dumps(body).encode(), Accept_Encoding="gzip;q=0, identity")
        check(f"{path}: gzip;q=0 is no", r.getheader("Content-Encoding") is None)
    st, v, r = post(s, "/tokenize", b'{"inputs": "hello"}', Accept_Encoding="gzip")
    check("a short reply stays plain", st == 200 and r.getheader("Content-Encoding") is None)


serve_models.vectors("emb")
serve_models.ranker("rank")
serve_models.classifier("class")
s = Server("-m", "emb=emb", "-m", "rank=rank", "-m", "class=class")
check("it starts", s.port > 0 and "ready" in s.text, s.text, s.p.poll())
if s.port:
    for one in (te_names, te_counts, default_classes, infinity, refusals, token_ids, packed):
        part(one, s)
    rc, rest = s.stop()
    check("it stops", rc == 0, rc, rest)
serve_test.done()

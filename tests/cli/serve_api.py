# SPDX-License-Identifier: MIT
"""TAP of every route of `stoker serve`: serve_api.py STOKER, in an empty folder.

Vectors and scores are those of `stoker embed` and `stoker rerank` bit for bit wherever the
form of the reply can hold the bits."""
import base64
import json
import math
import os
import struct

import serve_test
import serve_models
from serve_test import Server, check, lines, part, ranks

TEXTS = ["hello world", "a", "the cat sat on the mat", "how do magnets work"]
DOCS = ["hello world", "fire", "the dog runs fast"]
LONG = "hello world " * 60


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def rows_of(raw, width):
    flat = struct.unpack(f"<{len(raw) // 4}f", raw)
    return [list(flat[i:i + width]) for i in range(0, len(flat), width)]


# ---- what each form holds, from the f32 row

def as_int8(v):
    most = max(abs(x) for x in v)
    return [round(127.0 * x / most) for x in v]


def as_bits(v):
    return [sum((v[i + k] > 0) << (7 - k) for k in range(8)) for i in range(0, len(v), 8)]


FORMS = {
    "float": lambda v: v,
    "base64": lambda v: base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode(),
    "float16": lambda v: base64.b64encode(struct.pack(f"<{len(v)}e", *v)).decode(),
    "int8": as_int8,
    "uint8": lambda v: [x + 128 for x in as_int8(v)],
    "binary": lambda v: [x - 128 for x in as_bits(v)],
    "ubinary": as_bits,
}

# ---- the routes of vectors: path, member of the texts, field of the form, reply to vectors

def bare(v):
    return v


def openai(v):
    return [d["embedding"] for d in v["data"]]


def llama(v):
    return [d["embedding"][0] for d in v]


def cohere(v):
    e = v["embeddings"]
    return e if isinstance(e, list) else next(iter(e.values()))


VECTORS = [
    ("/embed", "inputs", "encoding_format", bare),
    ("/", "inputs", "encoding_format", bare),
    ("/invocations", "inputs", "encoding_format", bare),
    ("/v1/embeddings", "input", "encoding_format", openai),
    ("/embeddings", "input", "encoding_format", openai),
    ("/embeddings", "content", "encoding_format", llama),
    ("/embedding", "content", "encoding_format", llama),
    ("/embedding", "input", "encoding_format", llama),
    ("/v2/embed", "texts", "embedding_types", cohere),
    ("/v1/embed", "texts", "embedding_types", cohere),
]


def ask_vectors(s, route, texts, form=None, **more):
    path, member, field, read = route
    if form:
        more[field] = [form] if field == "embedding_types" else form
    st, v, r = s.ask(path, {member: texts, **more})
    return read(v) if st == 200 else (st, v)


def vectors(s):
    want = lines("emb", TEXTS, "--normalize")
    width = len(want[0])
    exact = [[f32(x) for x in row] for row in want]
    forms = {f: want if f == "float" else [how(v) for v in exact] for f, how in FORMS.items()}
    for route in VECTORS:
        name = f"{route[0]} with {route[1]}"
        check(f"{name}: the bits of stoker embed", ask_vectors(s, route, TEXTS) == want, ask_vectors(s, route, TEXTS))
        bad = {f: got for f in FORMS if (got := ask_vectors(s, route, TEXTS, f)) != forms[f]}
        check(f"{name}: {', '.join(FORMS)}", not bad, bad)
        st, v, r = s.ask(route[0], {route[1]: TEXTS}, {"Accept": "application/octet-stream"})
        ok = st == 200 and r.getheader("content-type") == "application/octet-stream" and rows_of(v, width) == exact
        check(f"{name}: octets by Accept, with their shape", ok and r.getheader("x-stoker-shape") == f"4, {width}", st, r.getheaders())
        v = s.ask(route[0], {route[1]: TEXTS, route[2]: ["octets"] if "types" in route[2] else "octets"})[1]
        check(f"{name}: octets by field", isinstance(v, bytes) and rows_of(v, width) == exact, v)
    st, v, _ = s.ask("/v2/embed", {"texts": TEXTS, "embedding_types": [*FORMS]})
    check("/v2/embed: all forms in one reply", st == 200 and v["embeddings"] == forms, v)
    v = s.ask("/v2/embed", {"inputs": [{"content": [{"type": "text", "text": t}]} for t in TEXTS]})[1]
    check("/v2/embed: inputs", v["embeddings"]["float"] == want, v)
    one = lines("emb", [TEXTS[2]], "--normalize", "--dims", "8")
    for route in VECTORS:
        if route[1] == "content" or route[0] == "/embedding":
            continue  # llama.cpp has no such member
        member = "output_dimension" if "/embed" in route[0] and route[1] == "texts" else "dimensions"
        check(f"{route[0]}: {member}", ask_vectors(s, route, [TEXTS[2]], **{member: 8}) == one)
    plain = lines("emb", TEXTS, "--no-normalize")
    check("/embedding: embd_normalize -1", ask_vectors(s, VECTORS[6], TEXTS, embd_normalize=-1) == plain)
    check("/v1/embeddings: normalize false", ask_vectors(s, VECTORS[3], TEXTS, normalize=False) == plain)


def ids(s):
    want = lines("emb", TEXTS, "--normalize")
    given = [[t["id"] for t in row] for row in s.ask("/tokenize", {"inputs": TEXTS})[1]]
    for route in VECTORS:
        if route[1] != "texts":
            check(f"{route[0]} with {route[1]}: ids are passed through", ask_vectors(s, route, given) == want)
    check("/v1/embeddings: one list of ids", ask_vectors(s, VECTORS[3], given[2]) == want[2:3])
    check("/decode gives the texts back", s.ask("/decode", {"ids": given})[1] == TEXTS)


def tokens(s):
    """[CLS] pooling would be a row; this model pools the mean of its rows."""
    st, v, _ = s.ask("/embed_all", {"inputs": TEXTS})
    plain = lines("emb", TEXTS, "--no-normalize")
    mean = [[sum(col) / len(rows) for col in zip(*rows)] for rows in v]
    near = all(abs(a - b) < 1e-5 for m, p in zip(mean, plain) for a, b in zip(m, p))
    cls = all(rows[0] == p for rows, p in zip(v, plain))
    check("/embed_all: rows that pool to the vector", st == 200 and (near or cls), st)
    st, raw, r = s.ask("/embed_all", {"inputs": TEXTS}, {"Accept": "application/octet-stream"})
    flat = [[f32(x) for x in row] for rows in v for row in rows]
    check("/embed_all: octets", rows_of(raw, len(plain[0])) == flat and r.getheader("x-stoker-shape") == f"{len(flat)}, {len(plain[0])}", r.getheaders())


def cosine(u, v):
    return sum(a * b for a, b in zip(u, v)) / math.sqrt(sum(a * a for a in u) * sum(b * b for b in v))


def similarity(s):
    w = lines("emb", TEXTS, "--normalize")
    want = [cosine(w[0], v) for v in w]
    body = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}}
    for path in ("/similarity", "/", "/invocations"):
        v = s.ask(path, body)[1]
        check(f"{path}: cosines", len(v) == 4 and all(abs(a - b) < 1e-6 for a, b in zip(v, want)), v, want)
    v = s.ask("/score", {"text_1": TEXTS[0], "text_2": TEXTS, "model": "emb"})[1]
    check("/score of a model of vectors: cosines", all(abs(d["score"] - b) < 1e-6 for d, b in zip(v["data"], want)), v)


def ranking(s):
    want, raw = ranks("rank", "hello", DOCS), ranks("rank", "hello", DOCS, "--raw-scores")
    order = sorted(raw)
    docs = {"query": "hello", "documents": DOCS, "model": "rank"}
    tei = {"query": "hello", "texts": DOCS, "model": "rank"}

    def got(path, body, list_of, score):
        st, v, _ = s.ask(path, body)
        return [(r["index"], r[score]) for r in (v[list_of] if list_of else v)] if st == 200 else (st, v)

    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        check(f"{path}: the scores of stoker rerank", got(path, docs, "results", "relevance_score") == want, got(path, docs, "results", "relevance_score"), want)
        check(f"{path}: top_n", got(path, {**docs, "top_n": 2}, "results", "relevance_score") == want[:2])
    check("/reranking: raw", got("/reranking", docs, "results", "relevance_score") == raw)
    check("/reranking in TEI's shape: raw", got("/reranking", tei, None, "score") == raw)
    for path in ("/rerank", "/v1/rerank", "/", "/invocations"):
        check(f"{path} with texts, raw_scores: the model's", got(path, {**tei, "raw_scores": True}, None, "score") == raw)
        v = got(path, tei, None, "score")
        check(f"{path} with texts: sigmoid", all(i == k and abs(x - 1 / (1 + math.exp(-y))) < 1e-6 for (i, x), (k, y) in zip(v, raw)), v, raw)
    for path in ("/score", "/v1/score"):
        check(f"{path}: in the order of the documents", got(path, {"text_1": "hello", "text_2": DOCS, "model": "rank"}, "data", "score") == sorted(want))
        check(f"{path}: pair by pair", got(path, {"queries": ["hello"] * 3, "documents": DOCS, "model": "rank"}, "data", "score") == sorted(want))
    for path in ("/predict", "/", "/invocations"):
        v = s.ask(path, {"inputs": [["hello", d] for d in DOCS], "raw_scores": True, "model": "rank"})[1]
        check(f"{path}: pairs, raw", [(i, x[0]["score"]) for i, x in enumerate(v)] == order, v, order)


def classes(s):
    raw = dict(ranks("rank", "hello", ["fire"], "--raw-scores"))[0]
    names = serve_models.LABELS
    v = s.ask("/predict", {"inputs": ["hello", "fire"], "raw_scores": True, "model": "class"})[1]
    check("/predict: every label, best first", [x["label"] for x in v] == sorted(names, key=lambda n: -dict((x["label"], x["score"]) for x in v)[n]), v)
    by = {x["label"]: x["score"] for x in v}
    check("its raw scores are the rows'", abs(by["red"] - raw) < 1e-2 and abs(by["red"] + by["green"]) < 1e-5 and abs(by["blue"] - by["red"] / 2) < 1e-2, by, raw)
    soft = {k: math.exp(x) / sum(math.exp(y) for y in by.values()) for k, x in by.items()}
    v = s.ask("/predict", {"inputs": ["hello", "fire"], "model": "class"})[1]
    check("/predict: softmax", all(abs(soft[x["label"]] - x["score"]) < 1e-6 for x in v), v, soft)
    v1 = s.ask("/?model=class", {"inputs": [["hello"], ["fire"]]})[1]
    v2 = s.ask("/classify", {"input": ["hello", "fire"], "model": "class"})[1]
    v3 = s.ask("/predict", {"inputs": [["hello"], ["fire"]], "model": "class"})[1]
    check("/, /classify and /predict agree", v1 == v2["data"] == v3 and len(v1) == 2, v1, v2, v3)
    v = s.ask("/?model=class", {"inputs": "hello", "parameters": {"top_k": 2}})[1]
    check("/: top_k, and a list of lists for parameters", len(v) == 1 and v[0] == v1[0][:2], v)


def prompts(s):
    plain = lines("emb", TEXTS, "--normalize")
    query, cat = (lines("emb", TEXTS, "--normalize", "--prompt", p) for p in ("query", "cat"))
    doc, task = lines("emb", TEXTS, "--normalize", "--prompt", "document"), lines("emb", TEXTS, "--normalize", "--instruction", "red")
    check("prompts make a difference", len({json.dumps(x) for x in (plain, query, cat, doc, task)}) == 5)
    for route in VECTORS:
        bad = [k for k, want in ((("prompt_name", "cat"), cat), (("input_type", "search_query" if route[1] == "texts" else "query"), query), (("input_type", "search_document"), doc),
                                 (("input_type", "classification"), plain), (("instruction", "red"), task))
               if ask_vectors(s, route, TEXTS, **dict([k])) != want]
        check(f"{route[0]} with {route[1]}: prompt_name, input_type, instruction", not bad, bad)
    check("/v1/embeddings: Jina's task", ask_vectors(s, VECTORS[3], TEXTS, task="retrieval.query") == query)
    v = s.ask("/embed_all", {"inputs": TEXTS[0], "prompt_name": "cat"})[1]
    check("/embed_all", v == s.ask("/embed_all", {"inputs": "cat " + TEXTS[0]})[1])
    v = s.ask("/tokenize", {"inputs": TEXTS[0], "prompt_name": "cat"})[1]
    check("/tokenize", [t["text"] for t in v[0]] == ["[CLS]", "cat", "hello", "world", "[SEP]"], v)
    both = {"source_sentence": "cat " + TEXTS[0], "sentences": ["cat " + t for t in TEXTS]}
    want = s.ask("/similarity", {"inputs": both})[1]
    body = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}}
    check("/similarity: below parameters or beside inputs",
          want == s.ask("/similarity", {**body, "parameters": {"prompt_name": "cat"}})[1] == s.ask("/similarity", {**body, "prompt_name": "cat"})[1])
    bad = {p: r for p in ("/embed", "/v1/embeddings", "/v2/embed", "/embedding") if (r := s.ask(p, {
        "inputs" if p == "/embed" else "texts" if "v2" in p else "input": ["a"], "prompt_name": "nobody"})[0]) != (422 if p == "/embed" else 400)}
    check("a prompt that is not there is an error", not bad, bad)


def prompts_of_pairs(s):
    """The query, or a pair's first text, has the prompt."""
    task = "Instruct: red\nQuery: hello"
    for path, score in (("/rerank", "relevance_score"), ("/v1/rerank", "relevance_score"), ("/v2/rerank", "relevance_score"), ("/reranking", "relevance_score")):
        a = s.ask(path, {"query": "hello", "documents": DOCS, "instruction": "red", "model": "rank2"})[1]["results"]
        b = s.ask(path, {"query": task, "documents": DOCS, "model": "rank2"})[1]["results"]
        c = s.ask(path, {"query": "hello", "documents": DOCS, "prompt_name": "cat", "model": "rank2"})[1]["results"]
        d = s.ask(path, {"query": "cat hello", "documents": DOCS, "model": "rank2"})[1]["results"]
        e = s.ask(path, {"query": "hello", "documents": DOCS, "model": "rank2"})[1]["results"]
        check(f"{path}: instruction and prompt_name", a == b and c == d and a != e != c, a, b, c, d)
    a = s.ask("/rerank", {"query": "hello", "texts": DOCS, "input_type": "query", "model": "rank2"})[1]
    check("/rerank with texts: input_type", a == s.ask("/rerank", {"query": "query: hello", "texts": DOCS, "model": "rank2"})[1], a)
    a = s.ask("/score", {"text_1": "hello", "text_2": DOCS, "prompt_name": "cat", "model": "rank2"})[1]["data"]
    b = s.ask("/score", {"text_1": ["hello"] * 3, "text_2": DOCS, "prompt_name": "cat", "model": "rank2"})[1]["data"]
    c = s.ask("/score", {"text_1": "cat hello", "text_2": DOCS, "model": "rank2"})[1]["data"]
    check("/score: prompt_name, both ways", a == b == c, a, b, c)
    a = s.ask("/predict", {"inputs": ["hello", "fire"], "prompt_name": "cat", "model": "rank2"})[1]
    check("/predict: prompt_name", a == s.ask("/predict", {"inputs": ["cat hello", "fire"], "model": "rank2"})[1])
    check("/rerank: no such prompt", s.ask("/rerank", {"query": "q", "documents": DOCS, "prompt_name": "x", "model": "rank2"})[0] == 400)


def cuts(s):
    """66 tokens fit: the cut is behind the 32nd 'hello world', 64 words less the two specials."""
    at = len(LONG[:12 * 32].rstrip())
    for route in VECTORS:
        path, member, field, _ = route
        st, v, r = s.ask(path, {member: ["  " + LONG, "a"]})
        if path in ("/embed", "/", "/invocations"):
            told = [r.getheader("x-stoker-tokens"), r.getheader("x-stoker-truncated"), r.getheader("x-stoker-cuts")]
            check(f"{path}: tokens, cut and where in header lines", told == ["66, 3", "1", f"0;at={at + 2}"], told, at)
            continue
        items = v["meta"]["items"] if "meta" in v else v["data"] if isinstance(v, dict) else v
        told = [{k: i[k] for k in ("tokens", "truncated", "cut") if k in i} for i in items]
        check(f"{path} with {member}: tokens, cut and where", told == [{"tokens": 66, "truncated": True, "cut": at + 2}, {"tokens": 3, "truncated": False}], told, at)
    v = s.ask("/v1/embeddings", {"input": LONG, "prompt_name": "cat"})[1]["data"][0]
    check("a prompt's bytes are not counted", v["cut"] == len(LONG[:12 * 31] + "hello"), v["cut"])
    v = s.ask("/v1/embeddings", {"input": LONG, "truncation_side": "left"})[1]["data"][0]
    check("at the left it is before the first token kept", v["cut"] == len(LONG.rstrip()) - at, v["cut"])
    v = s.ask("/v1/embeddings", {"input": [[5] * 100], "add_special_tokens": False, "truncation_side": "left"})[1]["data"][0]
    check("of ids it is how many are before it", v["cut"] == 34 and v["tokens"] == 66, v["cut"])
    for path, body in (("/rerank", {"query": "hello", "documents": [LONG, "a"]}), ("/v1/rerank", {"query": "hello", "documents": [LONG, "a"]}),
                       ("/v2/rerank", {"query": "hello", "documents": [LONG, "a"]}), ("/reranking", {"query": "hello", "documents": [LONG, "a"]}),
                       ("/score", {"text_1": "hello", "text_2": [LONG, "a"]})):
        v = s.ask(path, {**body, "model": "rank"})[1]
        items = v["meta"]["items"] if "meta" in v else sorted(v.get("results") or v["data"], key=lambda x: x["index"])
        check(f"{path}: tokens, cut and where", items[0]["tokens"] == 66 and items[0]["truncated"] and 0 < items[0]["cut"] < at and not items[1]["truncated"], items)
    for path in ("/rerank", "/reranking", "/", "/invocations"):
        r = s.ask(path, {"query": "hello", "texts": [LONG, "a"], "model": "rank"})[2]
        check(f"{path} with texts: in header lines", r.getheader("x-stoker-tokens") == "66, 5" and r.getheader("x-stoker-cuts", "").startswith("0;at="), r.getheaders())
    for path, body in (("/predict", {"inputs": [[LONG], ["a"]]}), ("/classify", {"input": [LONG, "a"]})):
        r = s.ask(path, {**body, "model": "class"})[2]
        check(f"{path}: in header lines", r.getheader("x-stoker-tokens") == "66, 3" and r.getheader("x-stoker-cuts") == f"0;at={at}", r.getheaders())
    r = s.ask("/embed", {"inputs": ["h\u00e9llo", [5, 6]]})[2]
    check("/embed: the characters, as TEI counts them", r.getheader("x-compute-characters") == "7" and r.getheader("x-compute-time").isdigit(), r.getheaders())
    r = s.ask("/similarity", {"inputs": {"source_sentence": "a", "sentences": [LONG]}})[2]
    check("/similarity: in header lines, the source first", r.getheader("x-stoker-tokens") == "3, 66" and r.getheader("x-stoker-cuts") == f"1;at={at}", r.getheaders())


# ---- errors

def errors(s):
    def word(v):
        e = v.get("error") if isinstance(v, dict) else None
        return (e.get("type"), e.get("code"), e.get("param")) if isinstance(e, dict) else (v.get("error_type"),) if e else tuple(v)

    for path, body, status, want in (
            ("/embed", "{", 400, ("Validation",)), ("/embed", {"inputs": ""}, 400, ("Empty",)),
            ("/embed", {"inputs": 5}, 422, ("Validation",)), ("/embed", {"inputs": LONG, "truncate": False}, 422, ("Validation",)),
            ("/embed", {"inputs": "a", "model": "rank"}, 424, ("Backend",)), ("/predict", {"inputs": "a", "model": "emb"}, 424, ("Backend",)),
            ("/rerank", {"query": "a", "texts": ["b"], "model": "emb"}, 424, ("Backend",)), ("/rerank", {"query": "a", "texts": []}, 400, ("Empty",)),
            ("/v1/embeddings", {"input": "a", "model": "x"}, 404, ("invalid_request_error", "model_not_found", "model")),
            ("/v1/embeddings", {"input": LONG, "truncate": False}, 400, ("invalid_request_error", "context_length_exceeded", None)),
            ("/v1/embeddings", {"input": "a", "dimensions": -1}, 400, ("invalid_request_error", None, "dimensions")),
            ("/v2/embed", {"texts": ["a"], "model": "x"}, 404, ("message",)), ("/v2/embed", {"texts": ["a"], "truncate": "NO"}, 400, ("message",)),
            ("/v2/rerank", {"query": "", "documents": ["a"]}, 400, ("message",)),
            ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "x"}, 404, ("NotFoundError", 404, "model")),
            ("/rerank", {"query": "a", "documents": []}, 400, ("BadRequestError", 400, "documents")),
            ("/score", {"text_1": "a"}, 400, ("BadRequestError", 400, "text_2")), ("/score", "[", 400, ("Bad Request", 400, None)),
            ("/embedding", {"content": LONG, "truncate": False}, 400, ("exceed_context_size_error", 400, None)),
            ("/embedding", {"content": "a", "model": "x"}, 404, ("not_found_error", 404, None)),
            ("/reranking", {"query": "a", "documents": ["b"], "model": "emb"}, 501, ("not_supported_error", 501, None)),
            ("/v1/nothing", {}, 404, ("invalid_request_error", None, None))):
        st, v, _ = s.ask(path, body)
        check(f"{path}: {status} {want[0]}", st == status and word(v) == want, st, v)
    with open("token", "w") as f:
        f.write("secret\n")
    t = Server("-m", "emb=emb", "--token-file", "token")
    for path, want in (("/embed", ("Validation",)), ("/v1/embeddings", ("invalid_request_error", "invalid_api_key", None)), ("/v2/embed", ("message",)),
                       ("/v1/rerank", ("Unauthorized", 401, None)), ("/embedding", ("authentication_error", 401, None))):
        st, v, _ = t.ask(path, {})
        check(f"{path} without the token: 401 {want[0]}", st == 401 and word(v) == want, st, v)
    check("/v1/models/emb needs it too", t.ask("/v1/models/emb")[0] == 401)
    t.stop()


# ---- the document

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_kind(v, kind):
    if kind in ("integer", "number"):
        return isinstance(v, int if kind == "integer" else (int, float)) and not isinstance(v, bool)
    return isinstance(v, KINDS[kind])


def unfit(doc, schema, v, at="", known=None):
    """Why `v` is not what the schema says, or None.  Members nobody describes are a fault too."""
    if "$ref" in schema:
        for name in schema["$ref"][2:].split("/"):
            doc_part = doc if name == "components" else doc_part
            doc_part = doc_part[name]
        return unfit(doc, doc_part, v, at, known)
    kinds = schema.get("type")
    if kinds and not any(is_kind(v, k) for k in ([kinds] if isinstance(kinds, str) else kinds)):
        return f"{at}: no {kinds}"
    if "const" in schema and v != schema["const"] or "enum" in schema and v not in schema["enum"]:
        return f"{at}: {v!r} may not be"
    for key in ("oneOf", "anyOf"):
        if key in schema:
            tries = [unfit(doc, one, v, at, known) for one in schema[key]]
            if all(tries):
                return "; ".join(tries)
    names = set(known or ())
    for one in schema.get("allOf", ()):
        names |= members(doc, one)
    for one in schema.get("allOf", ()):
        if why := unfit(doc, one, v, at, names):
            return why
    if isinstance(v, dict) and "properties" in schema:
        for name in schema.get("required", ()):
            if name not in v:
                return f"{at}: no {name}"
        for name, x in v.items():
            if name in schema["properties"]:
                if why := unfit(doc, schema["properties"][name], x, f"{at}.{name}"):
                    return why
            elif name not in names and not schema.get("additionalProperties"):
                return f"{at}: {name} is not described"
    if isinstance(v, list) and "items" in schema:
        for i, x in enumerate(v):
            if why := unfit(doc, schema["items"], x, f"{at}[{i}]"):
                return why
    return None


def members(doc, schema):
    while "$ref" in schema:
        schema = doc["components"]["schemas"][schema["$ref"].split("/")[-1]]
    names = set(schema.get("properties", ()))
    for one in schema.get("allOf", ()):
        names |= members(doc, one)
    return names


def resolved(doc, r):
    return doc["components"]["responses"][r["$ref"].split("/")[-1]] if "$ref" in r else r


def odd_requests(body):
    """Every member empty, of another kind or away, every kind of model, and what the HTTP server refuses."""
    for model in ("emb", "rank", "class", ""):
        yield {**body, "model": model}, {}
        for name in body:
            for value in ("", " ", [], [""], {}, 5, None, True, [[]], [[""]], {"text": ""}):
                yield {**body, "model": model, name: value}, {}
    for name in body:
        yield {k: v for k, v in body.items() if k != name}, {}
    yield [], {}
    yield body, {"Content-Encoding": "br"}
    yield body, {"Origin": "http://elsewhere.example"}
    yield body, {"x-request-timeout": "soon"}
    yield body, {"x-request-timeout": "1ms"}


def beyond(doc, schema):
    """Members of a request and values that its schema forbids: below a minimum, above a maximum, no word of a list."""
    while "$ref" in schema:
        schema = doc["components"]["schemas"][schema["$ref"].split("/")[-1]]
    for one in schema.get("allOf", ()):
        yield from beyond(doc, one)
    for name, of in schema.get("properties", {}).items():
        if "minimum" in of:
            yield name, of["minimum"] - 1
        if "maximum" in of:
            yield name, of["maximum"] + 1
        if "enum" in of:
            yield name, "no such word"


def document(s):
    doc = s.ask("/openapi.json")[1]
    routes = s.ask("/api/routes")[1]
    ops = {(o.upper(), p) for p, of in doc["paths"].items() for o in of}
    check("/api/routes lists the document's", ops == {(r["method"], r["path"]) for r in routes}, ops)
    for r in routes:
        method, path = r["method"], r["path"]
        if path.startswith(("/v1/files", "/v1/batches")) or path.endswith("/stream"):
            continue  # serve_bulk.py's
        op = doc["paths"][path][method.lower()]
        bodies = [json.loads(r["example"])] if r["example"] else [None]
        if method == "POST" and "/models/" not in path:
            content = op["requestBody"]["content"]["application/json"]
            bodies += [content["example"]]
            why = [w for b in bodies if (w := unfit(doc, content["schema"], b, "body"))]
            check(f"{path}: its examples are what it takes", not why, why)
        elif method == "POST":
            bodies = [{"model": "other", "source": os.path.abspath("emb")}] if path.endswith("/load") else [{"model": "other"}]
        octets = "application/octet-stream" in op["responses"].get("200", {}).get("content", {})
        for body, accept in [(b, "*/*") for b in bodies] + ([(bodies[0], "application/octet-stream")] if octets else []):
            model = "class" if path == "/classify" else "rank" if path == "/predict" else None
            url = path.replace("{model}", "emb") + (f"?model={model}" if model else "")
            st, v, reply = s.ask(url, body, {"Accept": accept})
            spec = resolved(doc, op["responses"].get(str(st), {}))
            kind = (reply.getheader("content-type") or "").split(";")[0]
            content = {k.split(";")[0]: c for k, c in spec.get("content", {}).items()}
            schema = content.get(kind, {}).get("schema", {})
            why = f"{st} with {kind} is not described" if kind not in content else \
                unfit(doc, schema, v, "reply") if kind == "application/json" else None
            check(f"{method} {path}: the reply is as described", st in (200, 202) and not why, st, why, v)
            if accept != "*/*":
                check(f"{method} {path}: octets to who asks for them", kind == accept, kind)
            for h, _ in reply.getheaders():
                h = h.lower()
                if h.startswith(("x-stoker-", "x-compute-")) or h.endswith("-time"):
                    if h not in {k.lower() for k in spec.get("headers", {})}:
                        check(f"{path}: {h} is described", False)
        if method == "POST" and "/models/" not in path:
            for body in ("{", {"model": "nobody", **bodies[0]} if "model" not in bodies[0] else {**bodies[0], "model": "nobody"}):
                st, v, _ = s.ask(path, body)
                spec = resolved(doc, op["responses"].get(str(st), {}))
                why = f"{st} is not described" if not spec else unfit(doc, spec["content"]["application/json"]["schema"], v, "error")
                check(f"{path}: {st} as described", not why, why, v)
            faults = []
            for body, fields in odd_requests(bodies[0]):
                st, v, _ = s.ask(path, body, fields)
                spec = resolved(doc, op["responses"].get(str(st), {}))
                why = f"{st} is not described" if not spec else st != 200 and unfit(doc, spec["content"]["application/json"]["schema"], v, "error")
                faults += [(body, fields, st, why, v)] if why else []
            check(f"{path}: whatever is asked, status and error are described", not faults, *faults[:4])
            model = "class" if path == "/classify" else "rank" if path == "/predict" else None
            taken = [(name, value) for name, value in beyond(doc, op["requestBody"]["content"]["application/json"]["schema"])
                     if "dimension" in name and s.ask(path + (f"?model={model}" if model else ""), {**bodies[0], name: value})[0] < 400]
            check(f"{path}: dimensions that the document forbids are refused", not taken, *taken)
    st, v, _ = s.ask("/v1/models/nobody")
    check("/v1/models/nobody: 404", st == 404 and v["error"]["code"] == "model_not_found", st, v)
    st, v, _ = s.ask("/info?model=nobody")
    check("/info: errors are TEI's", st == 404 and v["error_type"] == "Validation" and "nobody" in v["error"], st, v)
    v = s.ask("/info?model=class")[1]
    check("/info: labels both ways", v["model_type"]["classifier"] == {"id2label": {"0": "red", "1": "green", "2": "blue"}, "label2id": {"red": 0, "green": 1, "blue": 2}}, v)


serve_models.vectors("emb")
serve_models.ranker("rank")
serve_models.classifier("class")
serve_models.saved_ranker("rank2")
s = Server("-m", "emb=emb", "-m", "rank=rank", "-m", "class=class", "-m", "rank2=rank2")
check("it starts", s.port > 0 and "ready" in s.text, s.text, s.p.poll())
if s.port:
    for one in (vectors, ids, tokens, similarity, ranking, classes, prompts, prompts_of_pairs, cuts, errors, document):
        part(one, s)
    rc, rest = s.stop()
    check("it stops", rc == 0, rc, rest)
serve_test.done()

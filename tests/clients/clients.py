# SPDX-License-Identifier: MIT
"""TAP of `stoker serve` through the official Python clients of OpenAI, Cohere and Hugging Face,
unmodified: clients.py STOKER EMBEDDING-MODEL, in an empty folder.

The embedding model is a real one; classes and ranks come from tiny models.  Vectors are
compared bit for bit with those of `stoker embed`."""
import asyncio
import base64
import json
import os
import struct
import sys
import threading

os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "CO_API_URL", "CO_API_KEY", "HF_TOKEN", "HF_HUB_OFFLINE"):
    os.environ.pop(name, None)

import cohere  # noqa: E402
import huggingface_hub  # noqa: E402
import numpy as np  # noqa: E402
import openai  # noqa: E402
from huggingface_hub import AsyncInferenceClient, InferenceClient  # noqa: E402
from huggingface_hub.errors import HfHubHTTPError  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import serve_box  # noqa: E402
import serve_test  # noqa: E402
import serve_models  # noqa: E402
from serve_test import Server, check, lines, part, ranks  # noqa: E402

MODEL = sys.argv[2]
NAME = "all-MiniLM-L6-v2"
TEXTS = ["The GPU in slot 3 is overheating.", "A graphics card is running too hot.", "How do I reset my password?"]
DOCS = ["hello world", "fire", "the dog runs fast"]


def bits(rows):
    return [struct.pack(f"<{len(r)}f", *r) for r in rows]


def raises(what, kind, fn, ok=lambda e: True):
    try:
        got = fn()
        check(what, False, "no error", got)
    except Exception as e:
        check(what, type(e) is kind and ok(e), repr(e))


# ---- OpenAI

def openai_vectors(s, want):
    c = openai.OpenAI(base_url=s.url + "/v1", api_key="any", max_retries=0)
    r = c.embeddings.create(model=NAME, input=TEXTS)
    check("openai: the client's default (base64)", bits(d.embedding for d in r.data) == want, r)
    check("openai: order, model, usage", [d.index for d in r.data] == [0, 1, 2] and r.model == NAME and r.object == "list" and
          r.usage.prompt_tokens == r.usage.total_tokens > 20, r.usage)
    r = c.embeddings.create(model=NAME, input=TEXTS, encoding_format="float")
    check("openai: float", bits(d.embedding for d in r.data) == want)
    r = c.embeddings.create(model=NAME, input=TEXTS, encoding_format="base64")
    check("openai: base64 as it is", [base64.b64decode(d.embedding) for d in r.data] == want)
    r = c.embeddings.create(model=NAME, input=TEXTS[0])
    check("openai: one text", bits(d.embedding for d in r.data) == want[:1])
    r = c.embeddings.create(model=NAME, input=TEXTS, dimensions=64)
    check("openai: dimensions", bits(d.embedding for d in r.data) == bits(lines(MODEL, TEXTS, "--normalize", "--dims", "64")))
    ids = [[t["id"] for t in row] for row in s.ask("/tokenize", {"inputs": TEXTS})[1]]
    r = c.embeddings.create(model=NAME, input=ids)
    check("openai: lists of ids", bits(d.embedding for d in r.data) == want)
    r = c.embeddings.create(model=NAME, input=ids[1])
    check("openai: one list of ids", bits(d.embedding for d in r.data) == want[1:2])
    r = c.embeddings.create(model=NAME, input=TEXTS * 300)
    check("openai: 900 texts", bits(d.embedding for d in r.data) == want * 300)
    r = c.embeddings.with_raw_response.create(model=NAME, input="x " * 600)
    d = r.parse().data[0].model_extra
    check("openai: what we add is there for who asks", d["truncated"] and d["tokens"] == 256 and d["cut"] > 0 and int(r.headers["x-compute-tokens"]) == 256, d)
    check("openai: models.list", [m.id for m in c.models.list()] == [NAME, "reranker", "classifier"])
    m = c.models.retrieve(NAME)
    check("openai: models.retrieve", m.id == NAME and m.object == "model" and m.created > 0, m)


def openai_async(s, want):
    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=s.url + "/v1", api_key="any", max_retries=0) as c:
            got = await asyncio.gather(*(c.embeddings.create(model=NAME, input=TEXTS[i % 3]) for i in range(32)))
            models = [m.id async for m in c.models.list()]
            return [r.data[0].embedding for r in got], models

    got, models = asyncio.run(all_of_them())
    check("openai: 32 at once, asynchronously", bits(got) == [want[i % 3] for i in range(32)])
    check("openai: models.list, asynchronously", models[0] == NAME, models)


def openai_errors(s, t):
    c = openai.OpenAI(base_url=s.url + "/v1", api_key="any", max_retries=0)
    raises("openai: BadRequestError", openai.BadRequestError, lambda: c.embeddings.create(model=NAME, input=[]),
           lambda e: e.status_code == 400 and e.type == "invalid_request_error" and e.param == "input")
    raises("openai: BadRequestError for ids that are none", openai.BadRequestError, lambda: c.embeddings.create(model=NAME, input=[10**8]))
    raises("openai: BadRequestError for a model that ranks", openai.BadRequestError, lambda: c.embeddings.create(model="reranker", input="a"),
           lambda e: e.code == "model_not_supported")
    raises("openai: NotFoundError", openai.NotFoundError, lambda: c.embeddings.create(model="none", input="a"),
           lambda e: e.code == "model_not_found" and e.param == "model")
    raises("openai: NotFoundError of models.retrieve", openai.NotFoundError, lambda: c.models.retrieve("none"), lambda e: e.code == "model_not_found")
    raises("openai: a path of another service", openai.NotFoundError, lambda: c.moderations.create(input="a"))
    raises("openai: AuthenticationError", openai.AuthenticationError,
           lambda: openai.OpenAI(base_url=t.url + "/v1", api_key="wrong", max_retries=0).embeddings.create(model=NAME, input="a"),
           lambda e: e.code == "invalid_api_key")
    r = openai.OpenAI(base_url=t.url + "/v1", api_key="secret").embeddings.create(model=NAME, input="a")
    check("openai: with the token", len(r.data) == 1)
    raises("openai: InternalServerError for a deadline", openai.InternalServerError,
           lambda: c.embeddings.create(model=NAME, input=[f"{i} " * 200 for i in range(1000)], extra_headers={"x-request-timeout": "1ms"}),
           lambda e: e.status_code == 504)


def openai_batches(s, model=NAME):
    c = openai.OpenAI(base_url=s.url + "/v1", api_key="any", max_retries=0)
    rows = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/embeddings", "body": {"model": model, "input": t}} for i, t in enumerate(TEXTS)]
    rows.append({"custom_id": "wrong", "method": "POST", "url": "/v1/embeddings", "body": {"model": "none", "input": "a"}})
    with open("requests.jsonl", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    file = c.files.create(file=open("requests.jsonl", "rb"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
    check("openai: files.create", file.object == "file" and file.bytes == os.path.getsize("requests.jsonl") and file.purpose == "batch" and
          file.filename == "requests.jsonl" and file.expires_at == file.created_at + 3600, file)
    check("openai: files.retrieve, files.list", c.files.retrieve(file.id) == file and [f.id for f in c.files.list(purpose="batch")] == [file.id])
    check("openai: files.content", c.files.content(file.id).read() == open("requests.jsonl", "rb").read())
    b = c.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h", metadata={"a": "b"})
    check("openai: batches.create", b.object == "batch" and b.endpoint == "/v1/embeddings" and b.metadata == {"a": "b"}, b)
    serve_box.wait(lambda: c.batches.retrieve(b.id).status in ("completed", "failed"))
    b = c.batches.retrieve(b.id)
    n = b.request_counts
    check("openai: batches.retrieve", b.status == "completed" and (n.total, n.completed, n.failed) == (4, 3, 1) and b.completed_at, b)
    check("openai: batches.list", [x.id for x in c.batches.list(limit=1)] == [b.id])
    out = [json.loads(x) for x in c.files.content(b.output_file_id).text.splitlines()]
    want = c.embeddings.create(model=model, input=TEXTS, encoding_format="float").data
    check("openai: the output file", {r["custom_id"]: r["response"]["body"]["data"][0]["embedding"] for r in out} ==
          {f"r{i}": d.embedding for i, d in enumerate(want)})
    bad = [json.loads(x) for x in c.files.content(b.error_file_id).text.splitlines()]
    check("openai: the error file", [(r["custom_id"], r["response"]["status_code"]) for r in bad] == [("wrong", 404)], bad)
    raises("openai: batches.cancel of one that has ended", openai.BadRequestError, lambda: c.batches.cancel(b.id))
    raises("openai: files of others", openai.NotFoundError, lambda: c.with_options(api_key="other").files.retrieve(file.id))
    check("openai: files.delete", c.files.delete(file.id).deleted)
    raises("openai: batches.create without its file", openai.BadRequestError,
           lambda: c.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"))
    with open("long.jsonl", "w") as f:
        for i in range(20000):
            f.write(json.dumps(dict(rows[0], custom_id=str(i), body={"model": model, "input": [f"text {i} {k}" for k in range(32)]})) + "\n")
    b = c.batches.create(input_file_id=c.files.create(file=open("long.jsonl", "rb"), purpose="batch").id, endpoint="/v1/embeddings", completion_window="24h")
    check("openai: batches.cancel", c.batches.cancel(b.id).status == "cancelling")
    check("openai: it ends", serve_box.wait(lambda: c.batches.retrieve(b.id).status == "cancelled"))


def openai_overload(s):
    """More than can end in time, all at once: what is refused is refused as OpenAI does it.  One call alone would end
    in time on two quiet cores; on busy ones it is too large by itself, which is a 413 and no RateLimitError."""
    texts = [f"{i} " + "word " * 250 for i in range(64)]
    got, lock = [], threading.Lock()

    def ask():
        c = openai.OpenAI(base_url=s.url + "/v1", api_key="any", max_retries=0, timeout=120)
        try:
            r = c.embeddings.create(model=NAME, input=texts, extra_headers={"x-request-timeout": "6s"})
            with lock:
                got.append(len(r.data))
        except Exception as e:
            with lock:
                got.append(e)

    those = [threading.Thread(target=ask) for _ in range(24)]
    for x in those:
        x.start()
    for x in those:
        x.join()
    limited = [e for e in got if isinstance(e, openai.RateLimitError)]
    odd = [e for e in got if not (isinstance(e, (openai.RateLimitError, openai.InternalServerError)) or e == len(texts) or
                                  getattr(e, "status_code", 0) == 413 and "too large for its time" in str(e))]
    check("openai: overload is RateLimitError, a deadline or an answer", not odd, odd)
    if limited:
        e = limited[0]
        check("openai: RateLimitError tells when to come again", e.code == "rate_limit_exceeded" and int(e.response.headers["retry-after"]) >= 1, repr(e))
    else:
        serve_test.skip("openai: RateLimitError tells when to come again", "the queue was never full")


# ---- Cohere

def cohere_vectors(s, want):
    c = cohere.ClientV2(api_key="any", base_url=s.url)
    kinds = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    r = c.embed(model=NAME, texts=TEXTS, input_type="search_document", embedding_types=kinds)
    e = r.embeddings
    check("cohere: float", bits(e.float_) == want)
    check("cohere: base64", [base64.b64decode(x) for x in e.base64] == want)
    rows = np.array([np.frombuffer(b, "<f4") for b in want])
    int8 = np.rint(127 * rows.astype("f8") / np.abs(rows).max(axis=1, keepdims=True).astype("f8")).astype(int)
    check("cohere: int8, uint8", e.int8 == int8.tolist() and e.uint8 == (int8 + 128).tolist())
    ubinary = np.packbits(rows > 0, axis=1).astype(int)
    check("cohere: binary, ubinary", e.ubinary == ubinary.tolist() and e.binary == (ubinary - 128).tolist())
    check("cohere: texts, id, billed units", r.texts == TEXTS and r.id and r.meta.billed_units.input_tokens > 20 and r.response_type == "embeddings_by_type", r.meta)
    check("cohere: what we add is in meta", [i["truncated"] for i in r.meta.items] == [False] * 3, r.meta)
    r = c.embed(model=NAME, inputs=[{"content": [{"type": "text", "text": x}]} for x in TEXTS], input_type="search_query", embedding_types=["float"])
    check("cohere: inputs", bits(r.embeddings.float_) == want)
    typed = [cohere.EmbedInput(content=[cohere.TextEmbedContent(text=x)]) for x in TEXTS]
    r = c.embed(model=NAME, inputs=typed, input_type="classification", embedding_types=["float"], truncate="START", priority=1)
    check("cohere: inputs with the client's types, truncate, priority", bits(r.embeddings.float_) == want)
    r = c.embed(model=NAME, texts=TEXTS, input_type="clustering", output_dimension=64, embedding_types=["float"])
    check("cohere: output_dimension", bits(r.embeddings.float_) == bits(lines(MODEL, TEXTS, "--normalize", "--dims", "64")))
    r = c.embed(model=NAME, texts=TEXTS, input_type="search_document")
    check("cohere: no type named is float", bits(r.embeddings.float_) == want)
    old = cohere.Client(api_key="any", base_url=s.url)
    r = old.embed(model=NAME, texts=TEXTS, input_type="search_document")
    check("cohere: the older client", bits(r.embeddings) == want)
    r = old.embed(model=NAME, texts=TEXTS, input_type="search_document", embedding_types=["float", "int8"])
    check("cohere: the older client, by type", bits(r.embeddings.float_) == want and r.embeddings.int8 == int8.tolist())

    async def soon():
        return await cohere.AsyncClientV2(api_key="any", base_url=s.url).embed(model=NAME, texts=TEXTS, input_type="search_document", embedding_types=["float"])

    check("cohere: asynchronously", bits(asyncio.run(soon()).embeddings.float_) == want)


def cohere_ranks(s):
    c = cohere.ClientV2(api_key="any", base_url=s.url)
    want = ranks("rank", "hello", DOCS)
    r = c.rerank(model="reranker", query="hello", documents=DOCS)
    check("cohere: rerank", [(x.index, x.relevance_score) for x in r.results] == want, r, want)
    check("cohere: rerank's id and search units", r.id and r.meta.billed_units.search_units == 1, r.meta)
    r = c.rerank(model="reranker", query="hello", documents=DOCS, top_n=2, max_tokens_per_doc=4096)
    check("cohere: rerank's top_n", [(x.index, x.relevance_score) for x in r.results] == want[:2])
    r = cohere.Client(api_key="any", base_url=s.url).rerank(model="reranker", query="hello", documents=[{"text": d} for d in DOCS], top_n=1, return_documents=True)
    check("cohere: the older client's rerank with documents", [(x.index, x.document.text) for x in r.results] == [(want[0][0], DOCS[want[0][0]])], r)


def cohere_errors(s, t):
    c = cohere.ClientV2(api_key="any", base_url=s.url)
    no_retry = {"max_retries": 0}

    def embed(client=c, **more):
        return client.embed(**{"model": NAME, "texts": ["a"], "input_type": "search_document", "embedding_types": ["float"], "request_options": no_retry, **more})

    def said(e):
        return isinstance(e.body, dict) and isinstance(e.body.get("message"), str)

    raises("cohere: BadRequestError", cohere.BadRequestError, lambda: embed(texts=[]), said)
    raises("cohere: BadRequestError for a type that is none", cohere.BadRequestError, lambda: embed(embedding_types=["float3"]), said)
    raises("cohere: BadRequestError for images", cohere.BadRequestError, lambda: embed(texts=None, images=["data:image/png;base64,AA=="]), said)
    raises("cohere: NotFoundError", cohere.NotFoundError, lambda: embed(model="none"), said)
    raises("cohere: BadRequestError of rerank", cohere.BadRequestError, lambda: c.rerank(model=NAME, query="a", documents=["b"], request_options=no_retry), said)
    raises("cohere: UnauthorizedError", cohere.UnauthorizedError, lambda: embed(cohere.ClientV2(api_key="wrong", base_url=t.url)), said)
    check("cohere: with the token", len(embed(cohere.ClientV2(api_key="secret", base_url=t.url)).embeddings.float_) == 1)


# ---- Hugging Face

def hub_vectors(s, want):
    for what, c in (("model=URL", InferenceClient(model=s.url)), ("base_url=URL", InferenceClient(base_url=s.url)), ("/embed", InferenceClient(model=s.url + "/embed")),
                    ("?model=", InferenceClient(model=f"{s.url}/?model={NAME}"))):
        v = c.feature_extraction(TEXTS)
        check(f"huggingface_hub: feature_extraction, {what}", v.dtype == np.float32 and [r.tobytes() for r in v] == want, v)
    c = InferenceClient(model=s.url)
    check("huggingface_hub: one text", [r.tobytes() for r in c.feature_extraction(TEXTS[0])] == want[:1])
    v = c.feature_extraction(TEXTS, normalize=False)
    check("huggingface_hub: normalize", [r.tobytes() for r in v] == bits(lines(MODEL, TEXTS, "--no-normalize")))
    v = c.feature_extraction(TEXTS, dimensions=64, encoding_format="float")
    check("huggingface_hub: dimensions", [r.tobytes() for r in v] == bits(lines(MODEL, TEXTS, "--normalize", "--dims", "64")))
    long = "word " * 400
    right, left = (c.feature_extraction(long + TEXTS[0], truncate=True, truncation_direction=d).tobytes() for d in ("right", "left"))
    check("huggingface_hub: truncate", right == c.feature_extraction(long).tobytes() != left)
    raises("huggingface_hub: truncate=False", HfHubHTTPError, lambda: c.feature_extraction(long, truncate=False), lambda e: e.response.status_code == 422)

    async def soon():
        return await AsyncInferenceClient(model=s.url).feature_extraction(TEXTS)

    check("huggingface_hub: asynchronously", [r.tobytes() for r in asyncio.run(soon())] == want)


def hub_prompts(p):
    c = InferenceClient(model=p.url)
    v = c.feature_extraction(DOCS, prompt_name="cat")
    check("huggingface_hub: prompt_name", [r.tobytes() for r in v] == bits(lines("emb", DOCS, "--normalize", "--prompt", "cat")))
    raises("huggingface_hub: no such prompt", HfHubHTTPError, lambda: c.feature_extraction("a", prompt_name="none"), lambda e: e.response.status_code == 422)


def hub_others(s, t, want):
    rows = np.array([np.frombuffer(b, "<f4") for b in want], "f8")
    for what, url in (("/", s.url), ("/similarity", s.url + "/similarity")):
        v = InferenceClient(model=url).sentence_similarity(TEXTS[0], other_sentences=TEXTS[1:])
        check(f"huggingface_hub: sentence_similarity, {what}", np.allclose(v, rows[1:] @ rows[0], atol=1e-6), v)
    for what, url in (("/", f"{s.url}/?model=classifier"), ("/predict", f"{s.url}/predict?model=classifier")):
        v = InferenceClient(model=url).text_classification("hello world")
        check(f"huggingface_hub: text_classification, {what}", sorted(x.label for x in v) == sorted(serve_models.LABELS) and
              abs(sum(x.score for x in v) - 1) < 1e-5 and [x.score for x in v] == sorted((x.score for x in v), reverse=True), v)
        v = InferenceClient(model=url).text_classification("hello world", top_k=1, function_to_apply="sigmoid")
        check(f"huggingface_hub: top_k and function_to_apply, {what}", len(v) == 1 and 0 < v[0].score < 1, v)
    raises("huggingface_hub: without the token", HfHubHTTPError, lambda: InferenceClient(model=t.url, token="wrong").feature_extraction("a"), lambda e: e.response.status_code == 401)
    check("huggingface_hub: with it", InferenceClient(model=t.url, token="secret").feature_extraction("a").shape == (1, 384))
    raises("huggingface_hub: a model that is not there", HfHubHTTPError, lambda: InferenceClient(model=s.url + "/embed?model=none").feature_extraction("a"),
           lambda e: e.response.status_code == 404)


def main():
    print(f"# openai {openai.__version__}, cohere {cohere.__version__}, huggingface_hub {huggingface_hub.__version__}")
    serve_models.vectors("emb")
    serve_models.ranker("rank")
    serve_models.classifier("class")
    with open("token", "w") as f:
        f.write("secret\n")
    s = Server("-m", f"{NAME}={MODEL}", "-m", "reranker=rank", "-m", "classifier=class", "--batch-dir", "batches")
    t = Server("-m", f"{NAME}={MODEL}", "--token-file", "token")
    p = Server("-m", "emb=emb")
    for x in (s, t, p):
        x.url = f"http://127.0.0.1:{x.port}"
    check("the servers start", all(x.port and "ready" in x.text for x in (s, t, p)), s.text, t.text, p.text)
    if not serve_test.failed:
        want = bits(lines(MODEL, TEXTS, "--normalize"))
        check("stoker embed says what they must be", len(want) == 3 and len(want[0]) == 384 * 4)
        for fn, args in ((openai_vectors, (s, want)), (openai_async, (s, want)), (openai_errors, (s, t)), (openai_batches, (s,)), (cohere_vectors, (s, want)),
                         (cohere_ranks, (s,)), (cohere_errors, (s, t)), (hub_vectors, (s, want)), (hub_prompts, (p,)),
                         (hub_others, (s, t, want)), (openai_overload, (s,))):
            part(fn, *args)
    for x in (s, t, p):
        rc, rest = x.stop()
        check("a server stops", rc == 0, rc, rest)
    serve_test.done()


main()

# SPDX-License-Identifier: MIT
"""TAP of `stoker serve` through the Python clients of Infinity, LangChain (for OpenAI) and Voyage,
unmodified: others.py STOKER, in an empty folder.  Models are tiny; vectors and scores are compared with
those of the commands."""
import os
import struct
import sys

os.environ.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1", LANGSMITH_TRACING="false")
for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "VOYAGE_API_KEY"):
    os.environ.pop(name, None)

import infinity_client  # noqa: E402
import openai  # noqa: E402
import tiktoken  # noqa: E402
import voyageai  # noqa: E402
from infinity_client.api.default import classify, embeddings, health, models, rerank  # noqa: E402
from infinity_client.models import ClassifyInput, OpenAIEmbeddingInputText, RerankInput  # noqa: E402
from langchain_openai import OpenAIEmbeddings  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import serve_models  # noqa: E402
import serve_test  # noqa: E402
from serve_test import Server, check, lines, part, ranks  # noqa: E402

TEXTS = ["hello world", "a", "the cat sat on the mat"]
DOCS = ["hello world", "fire", "the dog runs fast"]


def bits(rows):
    return [struct.pack(f"<{len(r)}f", *r) for r in rows]


def infinity(s, want):
    c = infinity_client.Client(base_url=s.url, raise_on_unexpected_status=True)
    check("infinity: health", health.sync(client=c)["unix"] > 0)
    got = models.sync(client=c)
    check("infinity: models", [(m.id, m.capabilities) for m in got.data] == [("emb", ["embed"]), ("rank", ["rerank"]), ("class", ["classify"])], got)
    order = ranks("rank", "hello", DOCS)
    for what, more in (("no model named", {}), ("by name", {"model": "rank"})):
        got = rerank.sync(client=c, body=RerankInput(query="hello", documents=DOCS, **more))
        check(f"infinity: rerank, {what}", [r.index for r in got.results] == [i for i, _ in order] and got.model == "rank" and got.usage.total_tokens > 0, got)
    got = rerank.sync(client=c, body=RerankInput(query="hello", documents=DOCS, return_documents=True, top_n=2))
    check("infinity: rerank's documents are strings", [r.document for r in got.results] == [DOCS[i] for i, _ in order[:2]], got)
    raw = rerank.sync(client=c, body=RerankInput(query="hello", documents=DOCS, raw_scores=True))
    check("infinity: raw_scores", [r.index for r in raw.results] == [i for i, _ in order] and raw.results[0].relevance_score != got.results[0].relevance_score, raw)
    for what, body in (("a list", OpenAIEmbeddingInputText(input_=TEXTS)), ("by name", OpenAIEmbeddingInputText(input_=TEXTS, model="emb"))):
        got = embeddings.sync(client=c, body=body)
        check(f"infinity: embeddings, {what}", bits(d.embedding for d in got.data) == want)
    got = embeddings.sync(client=c, body=OpenAIEmbeddingInputText(input_=TEXTS[0]))
    check("infinity: embeddings, one text", bits(d.embedding for d in got.data) == want[:1])
    got = classify.sync(client=c, body=ClassifyInput(input_=["hello", "fire"]))
    check("infinity: classify takes the classifier", [sorted(x.label for x in row) for row in got.data] == [sorted(serve_models.LABELS)] * 2, got)


def fake_cl100k():
    """The encoding itself is no package's: this one has its name, and its ids for single bytes."""
    order = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100), *range(0x21), *range(0x7F, 0xA1), 0xAD]
    tiktoken.registry.ENCODINGS["cl100k_base"] = tiktoken.Encoding(
        "cl100k_base", pat_str=r"[^\r\n]|\r|\n", mergeable_ranks={bytes([b]): i for i, b in enumerate(order)}, special_tokens={"<|endoftext|>": 100257})


def langchain(s, want):
    fake_cl100k()
    for what, text in (("words", "hello world"), ("one letter", "a"), ("a special token of cl100k", "a<|endoftext|>")):
        try:
            c = OpenAIEmbeddings(model="emb", base_url=s.url + "/v1", api_key="any", max_retries=0, allowed_special={"<|endoftext|>"})
            got = c.embed_documents([text])
            check(f"langchain: ids of cl100k are refused, {what}", False, got)
        except openai.BadRequestError as e:
            check(f"langchain: ids of cl100k are refused with the setting's name, {what}", "check_embedding_ctx_length=False" in str(e), e)
    c = OpenAIEmbeddings(model="emb", base_url=s.url + "/v1", api_key="any", max_retries=0, check_embedding_ctx_length=False)
    check("langchain: with it, documents", bits(c.embed_documents(TEXTS)) == want)
    check("langchain: and a query", bits([c.embed_query(TEXTS[2])]) == want[2:])


def voyage(s, want):
    c = voyageai.Client(api_key="any", base_url=s.url + "/v1")
    got = c.embed(TEXTS, model="emb")
    check("voyage: embed", bits(got.embeddings) == want and got.total_tokens > 0)
    got = c.embed(TEXTS, model="emb", input_type="document", output_dimension=8)
    check("voyage: input_type, output_dimension", bits(got.embeddings) == bits(lines("emb", TEXTS, "--normalize", "--dims", "8", "--prompt", "document")), got.embeddings)
    got = c.rerank("hello", DOCS, model="rank", top_k=2)
    want = ranks("rank", "hello", DOCS)[:2]
    check("voyage: rerank", [(r.index, r.relevance_score, r.document) for r in got.results] == [(i, x, DOCS[i]) for i, x in want], got.results, want)
    for kind in ("int8", "uint8", "binary", "ubinary"):
        got = c.embed(TEXTS, model="emb", output_dtype=kind)
        plain = [d["embedding"] for d in s.ask("/v1/embeddings", {"input": TEXTS, "model": "emb", "encoding_format": kind})[1]["data"]]
        check(f"voyage: output_dtype {kind}", [list(r) for r in got.embeddings] == plain, got.embeddings)
    for what, more in (("an input_type", {"input_type": "doc"}), ("an output_dtype", {"output_dtype": "int4"})):
        try:
            check(f"voyage: {what} that is none is refused", False, c.embed(TEXTS, model="emb", **more))
        except voyageai.error.InvalidRequestError as e:
            check(f"voyage: {what} that is none is refused", e.http_status == 400 and "must be" in str(e), e)
    for what, call in (("embed", lambda: c.embed(["a " * 3000], model="emb", truncation=False)), ("rerank", lambda: c.rerank("a", [], model="rank"))):
        try:
            check(f"voyage: what {what} refuses is an invalid request", False, call())
        except Exception as e:  # noqa: BLE001
            check(f"voyage: what {what} refuses is an invalid request", isinstance(e, voyageai.error.InvalidRequestError) and e.http_status == 400, repr(e))


def main():
    serve_models.vectors("emb")
    serve_models.ranker("rank")
    serve_models.classifier("class")
    s = Server("-m", "emb=emb", "-m", "rank=rank", "-m", "class=class")
    check("the server starts", s.port and "ready" in s.text, s.text)
    if s.port:
        s.url = f"http://127.0.0.1:{s.port}"
        want = bits(lines("emb", TEXTS, "--normalize"))
        for one in (infinity, langchain, voyage):
            part(one, s, want)
        rc, rest = s.stop()
        check("it stops", rc == 0, rc, rest)
    serve_test.done()


main()

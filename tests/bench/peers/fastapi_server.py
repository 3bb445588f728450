#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The server people write themselves: FastAPI and sentence-transformers, written well.

    tests/bench/peers/fastapi_server.py --model DIR [--port 8010] [--threads N] [--batch 32]

Requests put their texts on one queue.  One task takes what waits there, orders it by length as
sentence-transformers does, so that little is padded, and has --batch texts at a time encoded in a
thread while the loop goes on reading and answering.  A batch's requests are answered when it is
done; nothing waits for a batch to fill.  Torch has all cores for a batch, JSON is orjson's, the
event loop uvloop's, the HTTP parser httptools'.  POST /v1/embeddings as OpenAI has it.
"""
import argparse
import asyncio
import concurrent.futures
import contextlib
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import fastapi
import orjson
import torch
import uvicorn
from sentence_transformers import SentenceTransformer


def parse_args():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", required=True, help="folder of a sentence-transformers model")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=8010)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--batch", type=int, default=32)
    return ap.parse_args()


WINDOW = 8  # batches that are ordered by length together


class Batcher:
    """Texts of all requests in one queue; each gets its vector and its count of tokens."""

    def __init__(self, model, batch):
        self.model, self.batch = model, batch
        self.queue = asyncio.Queue()
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def encode(self, texts):
        with torch.inference_mode():
            features = self.model.tokenize(texts)
            tokens = features["attention_mask"].sum(1).tolist()
            return self.model(features)["sentence_embedding"].numpy(), tokens

    async def run_batch(self, items):
        items = [i for i in items if not i[1].done()]  # whose client is still there
        if not items:
            return
        try:
            loop = asyncio.get_running_loop()
            rows, tokens = await loop.run_in_executor(self.pool, self.encode, [text for text, _ in items])
            results = list(zip(rows, tokens))
        except Exception as e:  # the batch fails, the server goes on
            results = [e] * len(items)
        for (_, future), result in zip(items, results):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    async def run(self):
        while True:
            items = [await self.queue.get()]
            while len(items) < WINDOW * self.batch and not self.queue.empty():
                items.append(self.queue.get_nowait())
            items.sort(key=lambda i: -len(i[0]))
            for at in range(0, len(items), self.batch):
                await self.run_batch(items[at:at + self.batch])

    async def embed(self, texts):
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in texts]
        for item in zip(texts, futures):
            self.queue.put_nowait(item)
        return await asyncio.gather(*futures)


def make_app(args):
    torch.set_num_threads(args.threads)
    model = SentenceTransformer(args.model, device="cpu")
    model.eval()
    name = os.path.basename(os.path.normpath(args.model))
    state = {}

    @contextlib.asynccontextmanager
    async def lifespan(_app):
        state["batcher"] = Batcher(model, args.batch)
        task = asyncio.create_task(state["batcher"].run())
        yield
        task.cancel()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/v1/models")
    async def models():
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "fastapi"}]}

    @app.get("/health")
    async def health():
        return {}

    @app.post("/v1/embeddings")
    async def embeddings(request: fastapi.Request):
        body = orjson.loads(await request.body())
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        results = await state["batcher"].embed(texts)
        tokens = sum(count for _, count in results)
        reply = {"object": "list",
                 "data": [{"object": "embedding", "index": i, "embedding": row} for i, (row, _) in enumerate(results)],
                 "model": name, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
        return fastapi.Response(orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")

    return app


if __name__ == "__main__":
    a = parse_args()
    uvicorn.run(make_app(a), host=a.host, port=a.port, log_level="warning", access_log=False, loop="uvloop", http="httptools")

# SPDX-License-Identifier: MIT
"""Tiny models for tests of the server, made from the fixtures: vectors (with prompts), one
score, three classes.  Only the standard library."""
import json
import os
import shutil
import struct

TOP = os.environ.get("TOP") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROMPTS = {"query": "query: ", "document": "the ", "cat": "cat "}
LABELS = ["red", "green", "blue"]


def tiny(fixture, to):
    shutil.copytree(os.path.join(TOP, "tests/fixtures/models", fixture), to, copy_function=shutil.copyfile)
    shutil.copyfile(os.path.join(TOP, "tests/fixtures/tokenizers/tiny-bert.json"), os.path.join(to, "tokenizer.json"))
    return to


def vectors(to):
    tiny("bert", to)
    with open(os.path.join(to, "config_sentence_transformers.json"), "w") as f:
        json.dump({"prompts": PROMPTS, "default_prompt_name": None}, f)
    return to


def ranker(to):
    return tiny("bert-score", to)


def classifier(to):
    """The reranker with its one row of weights, its negative, and that by half."""
    tiny("bert-score", to)
    path = os.path.join(to, "model.safetensors")
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8:8 + size]), data[8 + size:]
    out, new = b"", {}
    for name, t in head.items():
        if name == "__metadata__":
            new[name] = t
            continue
        raw, shape = body[t["data_offsets"][0]:t["data_offsets"][1]], t["shape"]
        if name.startswith("classifier."):
            row = struct.unpack(f"<{len(raw) // 2}e", raw)
            raw = b"".join(struct.pack("<e", x * k) for k in (1, -1, 0.5) for x in row)
            shape = [3] + shape[1:]
        new[name] = {"dtype": t["dtype"], "shape": shape, "data_offsets": [len(out), len(out) + len(raw)]}
        out += raw
    text = json.dumps(new).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + out)
    path = os.path.join(to, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["id2label"] = {str(i): name for i, name in enumerate(LABELS)}
    config["label2id"] = {name: i for i, name in enumerate(LABELS)}
    with open(path, "w") as f:
        json.dump(config, f)
    return to

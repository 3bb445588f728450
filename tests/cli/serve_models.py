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


def change(to, how, **config):
    """Rewrites the weights, how(name, dtype, shape, raw) -> (shape, raw), and the config."""
    path = os.path.join(to, "model.safetensors")
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8:8 + size]), data[8 + size:]
    out, new = b"", {k: v for k, v in head.items() if k == "__metadata__"}
    for name, t in head.items():
        if name in new:
            continue
        shape, raw = how(name, t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
        new[name] = {"dtype": t["dtype"], "shape": shape, "data_offsets": [len(out), len(out) + len(raw)]}
        out += raw
    text = json.dumps(new).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + out)
    path = os.path.join(to, "config.json")
    with open(path) as f:
        config = {**json.load(f), **config}
    with open(path, "w") as f:
        json.dump(config, f)


def vectors(to, vocab=None):
    """`vocab`: that many words, the fixture's again and again."""
    tiny("bert", to)
    with open(os.path.join(to, "config_sentence_transformers.json"), "w") as f:
        json.dump({"prompts": PROMPTS, "default_prompt_name": None}, f)

    def wide(name, dtype, shape, raw):
        if not name.endswith("word_embeddings.weight"):
            return shape, raw
        row = len(raw) // shape[0]
        return [vocab, shape[1]], (raw * (vocab // shape[0] + 1))[:vocab * row]

    if vocab:
        change(to, wide, vocab_size=vocab)
    return to


def ranker(to):
    return tiny("bert-score", to)


def saved_ranker(to):
    """The same with prompts, as CrossEncoder.save_pretrained() writes them."""
    ranker(to)
    for name, doc in (("modules.json", [{"path": "", "type": "sentence_transformers.models.Transformer"}]),
                      ("sentence_bert_config.json", {"transformer_task": "sequence-classification"}),
                      ("config_sentence_transformers.json", {"model_type": "CrossEncoder", "prompts": PROMPTS})):
        with open(os.path.join(to, name), "w") as f:
            json.dump(doc, f)
    return to


def classifier(to):
    """The reranker with its one row of weights, its negative, and that by half."""
    def three(name, dtype, shape, raw):
        if not name.startswith("classifier."):
            return shape, raw
        row = struct.unpack(f"<{len(raw) // 2}e", raw)
        return [3] + shape[1:], b"".join(struct.pack("<e", x * k) for k in (1, -1, 0.5) for x in row)

    change(tiny("bert-score", to), three, id2label={str(i): name for i, name in enumerate(LABELS)},
           label2id={name: i for i, name in enumerate(LABELS)})
    return to

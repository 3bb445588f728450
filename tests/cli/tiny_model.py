# SPDX-License-Identifier: MIT
"""Writes a tiny BERT folder, and with --wheel a wheel that carries it.

    tiny_model.py DIR [--nan|--zero] [--zero-tensor NAME [--fill NUMBER]] [--layers N] [--wheel FILE [--spoil]]

Standard library only: weights are random, or with --zero those of a file that was never filled; sizes are
the smallest that open.
"""
import base64
import hashlib
import json
import pathlib
import random
import struct
import sys
import zipfile

args = sys.argv[1:]
top = pathlib.Path(args[0])
H, F, V, P = 8, 16, 20, 12
LAYERS = int(args[args.index("--layers") + 1]) if "--layers" in args else 1
FILL = float(args[args.index("--fill") + 1]) if "--fill" in args else 0.0
ZERO = args[args.index("--zero-tensor") + 1] if "--zero-tensor" in args else None


def tensors():
    e = "embeddings."
    yield e + "word_embeddings.weight", [V, H]
    yield e + "position_embeddings.weight", [P, H]
    yield e + "token_type_embeddings.weight", [2, H]
    pairs = [("embeddings.LayerNorm", [H])]
    for i in range(LAYERS):
        b = f"encoder.layer.{i}."
        pairs += [(b + "attention.self." + n, [H, H]) for n in ("query", "key", "value")]
        pairs += [(b + "attention.output.dense", [H, H]), (b + "attention.output.LayerNorm", [H]),
                  (b + "intermediate.dense", [F, H]), (b + "output.dense", [H, F]), (b + "output.LayerNorm", [H])]
    for name, shape in pairs:
        yield name + ".weight", shape
        yield name + ".bias", shape[:1]


def safetensors(nan, zero):
    rng = random.Random(7)
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in tensors():
        count = 1
        for n in shape:
            count *= n
        norm = name.endswith("LayerNorm.weight")
        values = [float(norm) if zero or "LayerNorm" in name else rng.uniform(-1, 1) for _ in range(count)]
        if name == ZERO:
            values = [FILL] * count
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack(f"<{count}f", *values)
    if nan:
        data = data[:-4] + struct.pack("<f", float("nan"))
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "of", "texts", "second", "query", ":", "2",
             "b", "c", "d", "e", "##s", "##t", "##x"]
    special = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, w in enumerate(words[:5])]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(words)}}}).encode()


def files():
    yield "config.json", json.dumps({
        "architectures": ["BertModel"], "model_type": "bert", "num_hidden_layers": LAYERS, "hidden_size": H,
        "num_attention_heads": 2, "intermediate_size": F, "vocab_size": V, "max_position_embeddings": P}).encode()
    yield "modules.json", json.dumps([
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]).encode()
    yield "1_Pooling/config.json", b'{"pooling_mode_cls_token": true}'
    yield "config_sentence_transformers.json", b'{"prompts": {"query": "query: "}, "default_prompt_name": "query"}'
    yield "tokenizer.json", tokenizer()
    yield "model.safetensors", safetensors("--nan" in args, "--zero" in args)


for name, data in files():
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)

if "--wheel" in args:
    record = []
    with zipfile.ZipFile(args[args.index("--wheel") + 1], "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files():
            inside = "tiny_model/model/" + name
            sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{inside},sha256={sha},{len(data)}\n")
            z.writestr(inside, data if name != "config.json" or "--spoil" not in args else data + b" ")
        z.writestr("tiny_model-1.dist-info/RECORD", "".join(record) + "tiny_model-1.dist-info/RECORD,,\n")

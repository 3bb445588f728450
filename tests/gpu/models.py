#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Model folders in the shapes of six models of use, with random weights.

    models.py DIR [NAME ...]        all of them below DIR; about 3 GB, seconds with a GPU
    models.py DIR --lengths FILE    also the lengths of the corpus, a number a line

Weights are normal with deviation 0.02, rounded to f16 as they are stored; LayerNorm is 1 and 0.  The
generator is seeded by the tensor's name.  Vocabularies are cut to 30,000 rows where nobody looks at
their size: a text of n tokens reads n rows.  XLM-R keeps its own, since loading it is measured.

NAME-2 is the same model without its layers behind the second: the weights are a link.

Tokenizers know a few thousand words, one token each (words()), which is enough to write texts of a
known length.  Needs numpy; torch with a GPU makes it fast.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

DEVIATION, CUT, WORDS = 0.02, 30000, 4000
CORPUS_TEXTS, CORPUS_MEDIAN, CORPUS_SPREAD, CORPUS_SHORTEST, CORPUS_LONGEST = 4096, 90, 0.8, 4, 512
CORPUS_SEED, CORPUS_BATCH = 1, 32768

LARGE = dict(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, intermediate_size=4096)
MINI = dict(hidden_size=384, num_attention_heads=12, intermediate_size=1536, max_position_embeddings=512,
            layer_norm_eps=1e-12, type_vocab_size=2, pad_token_id=0, vocab_size=30522)
XLMR = dict(LARGE, layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
# name: class, configuration, longest text it is meant for
MODELS = {
    "xlmr": ("XLMRobertaModel", dict(XLMR, vocab_size=250002, max_position_embeddings=514), 512),
    "sbert": ("BertModel", dict(LARGE, vocab_size=CUT, max_position_embeddings=512, layer_norm_eps=1e-12,
                                type_vocab_size=2, pad_token_id=0), 512),
    "mpnet": ("MPNetModel", dict(num_hidden_layers=12, hidden_size=768, num_attention_heads=12, intermediate_size=3072,
                                 vocab_size=CUT, max_position_embeddings=514, layer_norm_eps=1e-5, pad_token_id=1,
                                 bos_token_id=0, eos_token_id=2, relative_attention_num_buckets=32), 512),
    "minilm": ("BertModel", dict(MINI, num_hidden_layers=6), 512),
    "bge": ("XLMRobertaForSequenceClassification", dict(XLMR, vocab_size=CUT, max_position_embeddings=8194), 8192),
    "marco": ("BertForSequenceClassification", dict(MINI, num_hidden_layers=12), 512),
}
TYPES = {"XLMR": "xlm-roberta", "Bert": "bert", "MPNe": "mpnet"}


# ---- figures of a shape

def config(name):
    return MODELS[name.removesuffix("-2")][1]


def layers(name):
    return 2 if name.endswith("-2") else config(name)["num_hidden_layers"]


def operations(name, lengths):
    """Multiplications and additions of the layers' products and of attention."""
    c = config(name)
    h, f = c["hidden_size"], c["intermediate_size"]
    return sum(n * layers(name) * (2 * (4 * h * h + 2 * h * f) + 4 * n * h) for n in lengths)


def weight_bytes(name, size=2):
    """Bytes of the matrices that every text goes through."""
    c = config(name)
    h, f = c["hidden_size"], c["intermediate_size"]
    return size * layers(name) * (4 * h * h + 2 * h * f)


def products(name):
    """(columns out, columns in) of a layer's four products."""
    c = config(name)
    h, f = c["hidden_size"], c["intermediate_size"]
    return [(3 * h, h), (h, h), (f, h), (h, f)]


def corpus_lengths():
    """Lengths of 4,096 texts, as torch draws them; numpy's where there is no torch."""
    try:
        import torch
        z = torch.randn(CORPUS_TEXTS, generator=torch.Generator().manual_seed(CORPUS_SEED))
        lengths = torch.exp(math.log(CORPUS_MEDIAN) + CORPUS_SPREAD * z).round().numpy()
    except ModuleNotFoundError:
        z = np.random.default_rng(CORPUS_SEED).standard_normal(CORPUS_TEXTS)
        lengths = np.rint(np.exp(math.log(CORPUS_MEDIAN) + CORPUS_SPREAD * z))
    return np.clip(lengths, CORPUS_SHORTEST, CORPUS_LONGEST).astype(int).tolist()


def cut_batches(lengths, most=CORPUS_BATCH):
    """The longest first, as many as fit into a batch of `most` tokens."""
    out, room = [], 0
    for n in sorted(lengths, reverse=True):
        if n > room:
            out.append([])
            room = most
        out[-1].append(n)
        room -= n
    return out


# ---- tensors

def tensors(cls, c):
    """(name, shape) of everything a folder of the class holds."""
    h, f, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    mpnet, head = cls.startswith("MPNet"), cls.endswith("Classification")
    prefix = "" if not head else "roberta." if cls.startswith("XLM") else "bert."

    def linear(name, rows, cols):
        return [(prefix + name + ".weight", (rows, cols)), (prefix + name + ".bias", (rows,))]

    def norm(name):
        return [(prefix + name + ".LayerNorm.weight", (h,)), (prefix + name + ".LayerNorm.bias", (h,))]

    out = [(prefix + "embeddings.word_embeddings.weight", (v, h)),
           (prefix + "embeddings.position_embeddings.weight", (c["max_position_embeddings"], h))]
    if not mpnet:
        out.append((prefix + "embeddings.token_type_embeddings.weight", (c["type_vocab_size"], h)))
    else:
        out.append(("encoder.relative_attention_bias.weight", (32, c["num_attention_heads"])))
    out += norm("embeddings")
    for i in range(c["num_hidden_layers"]):
        at = f"encoder.layer.{i}."
        names = ["attn.q", "attn.k", "attn.v"] if mpnet else ["self.query", "self.key", "self.value"]
        for n in names:
            out += linear(at + "attention." + n, h, h)
        out += linear(at + ("attention.attn.o" if mpnet else "attention.output.dense"), h, h)
        out += norm(at + ("attention" if mpnet else "attention.output"))
        out += linear(at + "intermediate.dense", f, h) + linear(at + "output.dense", h, f) + norm(at + "output")
    if head and cls.startswith("XLM"):
        prefix = ""
        out += linear("classifier.dense", h, h) + linear("classifier.out_proj", 1, h)
    elif head:
        out += linear("pooler.dense", h, h)
        prefix = ""
        out += linear("classifier", 1, h)
    return out


def maker():
    """normal(count, seed): that many numbers as the bytes of f16; on the GPU where there is one."""
    try:
        import torch
        if torch.cuda.is_available():
            def on_gpu(count, seed):
                g = torch.Generator(device="cuda").manual_seed(seed)
                return (torch.randn(count, device="cuda", generator=g) * DEVIATION).half().cpu().numpy()
            return on_gpu
    except ModuleNotFoundError:
        pass

    def on_cpu(count, seed):
        x = np.random.default_rng(seed).standard_normal(count, np.float32)
        return (x * np.float32(DEVIATION)).astype(np.float16)
    return on_cpu


def values(name, shape, normal):
    count = math.prod(shape)
    if "LayerNorm" in name:
        return np.full(count, 1.0 if name.endswith("weight") else 0.0, np.float16)
    return normal(count, zlib.crc32(name.encode()))


def write_weights(path, cls, c, normal):
    head, at, all_of = {"__metadata__": {"format": "pt"}}, 0, tensors(cls, c)
    for name, shape in all_of:
        size = 2 * math.prod(shape)
        head[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out, ThreadPoolExecutor(1) as pool:  # one tensor is written, the next is made
        out.write(struct.pack("<Q", len(text)) + text)
        written = None
        for name, shape in all_of:
            data = values(name, shape, normal)
            if written:
                written.result()
            written = pool.submit(out.write, data.data)
        written.result()


# ---- tokenizers

def words():
    """Words of the tokenizers, one token each."""
    first, last = "bdfgklmnprstvz", "aeiou"
    sounds = [a + b for a in first for b in last]
    return [sounds[i % 70] + sounds[i // 70 % 70] + sounds[i * 7 % 70] for i in range(WORDS)]


def token(at, text, lstrip=False):
    return dict(id=at, content=text, single_word=False, lstrip=lstrip, rstrip=False, normalized=False, special=True)


def template(begin, end, pair, types):
    """`pair`: what stands between the two texts."""
    def special(name, t):
        return {"SpecialToken": {"id": name[0], "type_id": t}}

    a, b = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": types}}
    return {"type": "TemplateProcessing", "single": [special(begin, 0), a, special(end, 0)],
            "pair": [special(begin, 0), a] + [special(end, 0)] * pair + [b, special(end, types)],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in (begin, end)}}


def word_pieces(specials):
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?!"
    return specials + list(dict.fromkeys(list(letters) + ["##" + c for c in letters] + words()))


def bert_tokenizer(specials, begin, end, unk, pair, types):
    vocab = {w: i for i, w in enumerate(word_pieces(specials))}
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[token(i, s) for i, s in enumerate(specials)],
                normalizer=dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None,
                                lowercase=True),
                pre_tokenizer=dict(type="BertPreTokenizer"),
                post_processor=template((begin, vocab[begin]), (end, vocab[end]), pair, types),
                decoder=dict(type="WordPiece", prefix="##", cleanup=True),
                model=dict(type="WordPiece", unk_token=unk, continuing_subword_prefix="##", max_input_chars_per_word=100,
                           vocab=vocab))


def xlmr_tokenizer():
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?!"
    pieces = [[s, 0.0] for s in specials] + [["\u2581", -4.0]]
    pieces += [["\u2581" + w, -9.0] for w in dict.fromkeys(words())] + [[c, -12.0] for c in letters]
    space = dict(type="Metaspace", replacement="\u2581", prepend_scheme="always", split=True)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[token(i, s) for i, s in enumerate(specials)],
                normalizer=None, pre_tokenizer=space, post_processor=template(("<s>", 0), ("</s>", 2), 2, 0), decoder=space,
                model=dict(type="Unigram", unk_id=3, vocab=pieces, byte_fallback=False))


def tokenizer(cls):
    if cls.startswith("XLM"):
        return xlmr_tokenizer()
    if cls.startswith("MPNet"):
        return bert_tokenizer(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], "<s>", "</s>", "[UNK]", 2, 0)
    return bert_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], "[CLS]", "[SEP]", "[UNK]", 1, 1)


# ---- folders

def write_json(path, doc):
    path.write_text(json.dumps(doc, ensure_ascii=False) + "\n", encoding="utf-8")


def write_model(top, name, normal):
    cls, c, longest = MODELS[name]
    c = dict(c, architectures=[cls], model_type=TYPES[cls[:4]], hidden_act="gelu", torch_dtype="float16")
    if cls.endswith("Classification"):
        c.update(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})
    for folder, depth in ((top / name, c["num_hidden_layers"]), (top / f"{name}-2", 2)):
        (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", dict(c, num_hidden_layers=depth))
        write_json(folder / "tokenizer.json", tokenizer(cls))
        if cls.endswith("Model"):
            kinds = ["Transformer", "Pooling", "Normalize"]
            paths = ["", "1_Pooling", "2_Normalize"]
            write_json(folder / "modules.json", [dict(idx=i, name=str(i), path=p, type=f"sentence_transformers.models.{k}")
                                                 for i, (k, p) in enumerate(zip(kinds, paths))])
            write_json(folder / "1_Pooling/config.json", dict(word_embedding_dimension=c["hidden_size"],
                                                              pooling_mode_mean_tokens=True))
            write_json(folder / "sentence_bert_config.json", dict(max_seq_length=longest, do_lower_case=False))
        weights = folder / "model.safetensors"
        weights.unlink(missing_ok=True)
        if folder.name == name:
            write_weights(weights, cls, c, normal)
        else:
            os.symlink(f"../{name}/model.safetensors", weights)


def write_all(top, names, lengths=None):
    """Every model in a thread of its own: the disk and the GPU's copies overlap."""
    start, top, normal = time.monotonic(), pathlib.Path(top), maker()
    with ThreadPoolExecutor(1 if len(names) == 1 else 4) as pool:
        list(pool.map(lambda n: write_model(top, n, normal), names))
    if lengths:
        pathlib.Path(lengths).write_text("".join(f"{n}\n" for n in corpus_lengths()))
    size = sum(f.stat().st_size for n in names for f in (top / n).rglob("*") if f.is_file())
    print(f"# {len(names)} models, {size / 1e9:.2f} GB in {time.monotonic() - start:.1f} s below {top}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("names", nargs="*", help=", ".join(MODELS))
    p.add_argument("--lengths", metavar="FILE")
    args = p.parse_args()
    write_all(args.folder, args.names or list(MODELS), args.lengths)
    return 0


if __name__ == "__main__":
    sys.exit(main())

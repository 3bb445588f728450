#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `stoker embed` and `stoker rerank`, from text to numbers, with sentence-transformers.

    vectors_cmd.py pairs [MINILM-DIR]  cross-encoders of each head and score activation against
                                       CrossEncoder.predict
    vectors_cmd.py pools               poolings, prompts, dense layers, Matryoshka against
                                       SentenceTransformer.encode
    vectors_cmd.py same MINILM-DIR     the bits of a vector, whatever its batch, order, threads

Models are made here with random weights and written as their own packages write them; their
tokenizers are those of tests/fixtures, for BERT that of MINILM-DIR when it is given.  Options
and output are those of vectors.py; all devices and types are run.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import vectors
from vectors import SEED, TEXTS, TOP, Verdict

TOKENIZERS = TOP / "tests/fixtures"
QUERIES = ["How do I reset my password?", "Быстрая лиса и 素早い狐"]
REF_DOCS = 6  # of the documents that the scalar engine scores
LONG = " ".join(TEXTS)
DOCS = [t for t in TEXTS if t.strip()] + ["  spaces at both ends  ", LONG * 2]
PROMPT = "query: "
COMMON = dict(hidden_size=384, num_attention_heads=12, intermediate_size=1536)
DISTIL = dict(dim=384, n_layers=6, n_heads=12, hidden_dim=1536, max_position_embeddings=512)
ROBERTA = dict(COMMON, num_hidden_layers=6, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1,
               bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5)
# the fixture's <pad> is 0, and the positions of MPNet step over id 1 all the same
MPNET = dict(COMMON, num_hidden_layers=6, max_position_embeddings=514, layer_norm_eps=1e-5, pad_token_id=0,
             bos_token_id=2, eos_token_id=3)
BERT = dict(COMMON, num_hidden_layers=12, max_position_embeddings=512)
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
# name: class, configuration, tokenizer, what the config says of the activation
PAIRS = {
    "bert": ("BertForSequenceClassification", BERT, "uncased", {}),
    "bert-identity": ("BertForSequenceClassification", BERT, "uncased",
                      dict(sentence_transformers=dict(activation_fn=IDENTITY, version="4.1.0"))),
    "bert-legacy": ("BertForSequenceClassification", BERT, "uncased",
                    dict(sbert_ce_default_activation_function=IDENTITY)),
    "xlmr": ("XLMRobertaForSequenceClassification", ROBERTA, "unigram", {}),
    "xlmr-sigmoid": ("XLMRobertaForSequenceClassification", ROBERTA, "unigram",
                     dict(sentence_transformers=dict(activation_fn=SIGMOID, version="4.1.0"))),
    "xlmr-identity": ("XLMRobertaForSequenceClassification", ROBERTA, "unigram",
                      dict(sentence_transformers=dict(activation_fn=IDENTITY, version="4.1.0"))),
    "mpnet-identity": ("MPNetForSequenceClassification", MPNET, "mpnet",
                       dict(sentence_transformers=dict(activation_fn=IDENTITY, version="4.1.0"))),
    "distilbert-identity": ("DistilBertForSequenceClassification", DISTIL, "uncased",
                            dict(sentence_transformers=dict(activation_fn=IDENTITY, version="4.1.0"))),
}
# name: pooling, options of vectors.modules(), prompt
POOLS = {p: (p, {}, None) for p in vectors.POOLS}
POOLS.update({
    "joined": (vectors.JOINED, {}, PROMPT),
    "without-prompt": ("mean", dict(skip=True), PROMPT),
    "weighted-without-prompt": ("weightedmean", dict(skip=True, normalize=True), PROMPT),
    "cls-without-prompt": ("cls", dict(skip=True), "Represent the sentence for retrieval :"),
    "no-prompt-to-leave-out": ("mean", dict(skip=True), None),
    "dense": ("mean", dict(dense=40, normalize=True), None),
    "joined-dense": (vectors.JOINED, dict(dense=37, skip=True, normalize=True), PROMPT),
})


# ---- models

def tokenizer(name, minilm):
    """A tokenizer of transformers and the vocabulary it needs."""
    from tokenizers import AddedToken, Tokenizer, processors
    from transformers import PreTrainedTokenizerFast
    bert = dict(unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]",
                model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    other = dict(unk_token="<unk>", sep_token="</s>", pad_token="<pad>", cls_token="<s>", bos_token="<s>",
                 eos_token="</s>", model_input_names=["input_ids", "attention_mask"])
    if name == "uncased":
        file = pathlib.Path(minilm, "tokenizer.json") if minilm else TOKENIZERS / "tokens-uncased.json"
        tok, opts = Tokenizer.from_file(str(file)), bert
    elif name == "mpnet":
        tok, opts = Tokenizer.from_file(str(TOKENIZERS / "tokens-mpnet.json")), dict(other, unk_token="[UNK]")
    else:
        tok, opts = Tokenizer.from_file(str(TOKENIZERS / "unigram-small.json")), other
        tok.add_special_tokens([AddedToken(t, normalized=False) for t in ("<s>", "<pad>", "</s>", "<unk>")])
        tok.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tok.no_padding()
    tok.no_truncation()
    return PreTrainedTokenizerFast(tokenizer_object=tok, model_max_length=512, **opts), tok.get_vocab_size()


def scorer(path, name, minilm):
    import torch
    cls, config, kind, extra = PAIRS[name]
    tok, vocab = tokenizer(kind, minilm if cls.startswith("Bert") else None)
    if cls.startswith("Distil"):
        tok.model_input_names = ["input_ids", "attention_mask"]
    model = vectors.build(cls, dict(config, vocab_size=vocab, num_labels=1, **extra), SEED, wide=False)
    with torch.no_grad():  # scores that differ from each other
        for key, p in model.named_parameters():
            if "classifier" in key or "pooler" in key:
                p.normal_(0.0, 0.1)
    model.save_pretrained(path)
    tok.save_pretrained(path)


def embedder(path, pool, opts):
    """A SentenceTransformer of its own modules, saved by it and read back."""
    from sentence_transformers import SentenceTransformer, models
    tok, vocab = tokenizer("uncased", None)
    with tempfile.TemporaryDirectory() as tmp:
        vectors.build("BertModel", dict(BERT, num_hidden_layers=2, vocab_size=vocab), SEED, wide=False).save_pretrained(
            tmp)
        tok.save_pretrained(tmp)
        net = models.Transformer(tmp, max_seq_length=128)
    st = SentenceTransformer(modules=[net] + vectors.modules(opts, 384, pool, SEED), device="cpu")
    st.save(str(path))
    return st


# ---- the commands

def flags(kind):
    return ["--device", kind.device, "--dtype", {"i8": "int8"}.get(kind.dtype, kind.dtype), "--quiet"]


def rerank(kind, path, query, docs, *more):
    run = subprocess.run([kind.stoker, "rerank", "-m", path, "-q", query, "--json", *flags(kind), *more],
                         input="".join(d + "\n" for d in docs).encode(), stdout=subprocess.PIPE, check=True)
    out = np.full(len(docs), np.nan, np.float32)
    for r in json.loads(run.stdout)["results"]:
        out[r["index"]] = r["score"]
    return out


def embed(kind, path, texts, *more):
    run = subprocess.run([kind.stoker, "embed", "-m", path, "--format", "raw", *flags(kind), *more],
                         input="".join(t + "\n" for t in texts).encode(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(run.stdout, np.float32).reshape(len(texts), -1)


# ---- the comparisons

def pairs(args):
    from sentence_transformers import CrossEncoder
    minilm = args.names[0] if args.names else None
    for name in [args.only] if args.only else PAIRS:
        with tempfile.TemporaryDirectory(dir=args.tmp) as tmp:
            scorer(tmp, name, minilm)
            ce = CrossEncoder(tmp, device="cpu", max_length=512)
            want = np.stack([ce.predict([(q, d) for d in DOCS], batch_size=8) for q in QUERIES])
            print(f"pairs.{name}: {want.size} pairs, scores {want.min():.4f} to {want.max():.4f}")
            for kind in vectors.kinds(args):
                docs = DOCS[:REF_DOCS] if kind.device == "ref" else DOCS
                got = np.stack([rerank(kind, tmp, q, docs) for q in QUERIES])
                Verdict.compare(kind, f"pairs.{name}", got, want[:, :len(docs)], scores=True)


def pools(args):
    for name in [args.only] if args.only else POOLS:
        pool, opts, prompt = POOLS[name]
        with tempfile.TemporaryDirectory(dir=args.tmp) as tmp:
            st = embedder(tmp, pool, opts)
            texts = DOCS[::4] + [DOCS[-2]]
            want = st.encode(texts, prompt=prompt, batch_size=8)
            cut = st.encode(texts, prompt=prompt, batch_size=8, truncate_dim=16, normalize_embeddings=True)
            more = ["--prompt-text", prompt or ""]
            for kind in vectors.kinds(args):
                Verdict.compare(kind, f"pools.{name}", embed(kind, tmp, texts, *more), want)
                got = embed(kind, tmp, texts, *more, "--dims", "16", "--normalize")
                Verdict.compare(kind, f"pools.{name}.dims16", got, cut)


def same(args):
    if not args.names or not pathlib.Path(args.names[0], "model.safetensors").exists():
        print("skip: no all-MiniLM-L6-v2 directory (vectors_cmd.py same DIR)")
        return
    path, rng = args.names[0], np.random.default_rng(SEED)
    words = LONG.split()
    texts = DOCS + [" ".join(rng.choice(words, n)) for n in np.minimum(1 + rng.lognormal(3.5, 1, 160).astype(int), 400)]
    for kind in vectors.kinds(args):
        if kind.device == "ref":
            continue
        first, runs, differ = embed(kind, path, texts, "--threads", "1"), 0, 0
        for threads in "1234":
            for budget in ("1", "100", "1000", "20000"):
                order = rng.permutation(len(texts))
                got = embed(kind, path, [texts[i] for i in order], "--threads", threads, "--batch-tokens", budget)
                differ += int((got.view(np.uint32) != first[order].view(np.uint32)).any(1).sum())
                runs += 1
        Verdict.line(f"parity.same.minilm.{kind.device}.{kind.dtype}", differ, f"of_{runs * len(texts)}_vectors", 0,
                     differ == 0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["pairs", "pools", "same"])
    p.add_argument("names", nargs="*")
    p.add_argument("--stoker", default=str(TOP / "build/stoker"))
    p.add_argument("--tmp", help="where models are made")
    p.add_argument("--only", help="one of the models")
    args = p.parse_intermixed_args()
    args.all = True
    try:
        globals()[args.what](args)
    except ModuleNotFoundError as e:
        print(f"skip: {args.what} needs the Python package {e.name}")
    return 1 if Verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())

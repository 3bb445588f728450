#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares our encoder with transformers and sentence-transformers in f32.

    vectors.py fixtures [NAME ...] writes the tiny models below tests/fixtures/models
    vectors.py tiny                those models, against the outputs kept beside them
    vectors.py minilm DIR          all-MiniLM-L6-v2 against sentence-transformers
    vectors.py shapes [NAME ...]   real depth and width with random weights
    vectors.py overlap DIR         top 10 of 1,000 queries over 20,000 sentences: --dtype
                                   against f32 on the same device

Options: --driver build/tests/parity-vectors, --device ref|cpu, --dtype f32|bf16|i8, --isa;
--all: every device with every type it has, instead of these.
Each comparison ends in a line `RESULT name value unit target ok|short`; the exit status is
1 when one is short.  `tiny` needs numpy alone, `overlap` tokenizers too; the others torch.
"""
import argparse
import ast
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import warnings

import numpy as np

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
FIXTURES = TOP / "tests/fixtures/models"
# largest difference of an f32 vector and of a score; least cosine for the smaller types
VECTOR_MAX, SCORE_MAX = 2e-5, 1e-4
COSINE_MIN = {"bf16": 0.9995, "i8": 0.99}
OVERLAP_MIN = {"f32": 1.0, "bf16": 0.995, "i8": 0.97}  # of the ten nearest sentences
QUERIES, SENTENCES, NEAREST = 1000, 20000, 10
KINDS = [("ref", "f32"), ("cpu", "f32"), ("cpu", "bf16"), ("cpu", "i8")]  # for --all
POOLS = ["mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"]
JOINED = ["cls", "mean", "weightedmean"]
LENGTHS = [3, 17, 64, 200, 512]  # of the sequences that `shapes` puts in one batch
REF_TOKENS = 100  # of them that the scalar engine runs through a large model
SEED = 20240229

# name: class, configuration, options.  Sizes differ on purpose: head dimensions of 8, 16
# and 12, feed-forward layers that are no multiple of 32.
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
             vocab_size=100, max_position_embeddings=66)
DISTIL = dict(dim=32, n_layers=2, n_heads=2, hidden_dim=48, vocab_size=100, max_position_embeddings=64)
ROBERTA = dict(SMALL, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1, layer_norm_eps=1e-5)
MPNET = dict(SMALL, hidden_size=24, num_attention_heads=2, max_position_embeddings=152, layer_norm_eps=1e-5,
             pad_token_id=1)
TINY = {
    "bert": ("BertModel", dict(SMALL), dict(pools=POOLS, types=2)),
    "bert-dense": ("BertModel", dict(SMALL, num_hidden_layers=1, layer_norm_eps=1e-3),
                   dict(dense=40, normalize=True, types=2, dtype="float16")),
    # layers of 37 numbers: no multiple of anything; a prompt of three tokens that is not pooled
    "bert-joined": ("BertModel", dict(SMALL, num_hidden_layers=1),
                    dict(pools=[JOINED], skip=3, dense=37, normalize=True, types=2, dtype="bfloat16")),
    "bert-score": ("BertForSequenceClassification", dict(SMALL, num_labels=1, hidden_act="gelu_new"),
                   dict(dtype="float16", types=2, gamma=True)),
    "xlmr": ("XLMRobertaModel", ROBERTA, dict(dtype="bfloat16", normalize=True, pools=["mean", "cls"])),
    "xlmr-score": ("XLMRobertaForSequenceClassification", dict(ROBERTA, num_labels=1), dict(dtype="float16")),
    "roberta-score": ("RobertaForSequenceClassification",
                      dict(ROBERTA, hidden_size=48, num_attention_heads=3, num_hidden_layers=1, num_labels=3,
                           intermediate_size=52), dict(dtype="float16")),
    "mpnet": ("MPNetModel", MPNET, dict(normalize=True, long=True, dtype="bfloat16")),
    "mpnet-score": ("MPNetForSequenceClassification", dict(MPNET, num_labels=2), dict(dtype="float16", long=True)),
    "distilbert": ("DistilBertModel", dict(DISTIL), dict(pools=["cls", "mean"], dtype="bfloat16")),
    "distilbert-score": ("DistilBertForSequenceClassification",
                         dict(DISTIL, num_labels=2, activation="relu"), dict(dtype="float16")),
}

# Six models of use at their real size, and DistilBERT.  Weights: normal(0, 0.02), LayerNorm 1/0.
XLMR_LARGE = dict(vocab_size=250002, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                  intermediate_size=4096, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                  layer_norm_eps=1e-5)
MINILM = dict(vocab_size=30522, hidden_size=384, num_attention_heads=12, intermediate_size=1536,
              max_position_embeddings=512)
SHAPES = {
    "all-MiniLM-L6-v2": ("BertModel", dict(MINILM, num_hidden_layers=6), dict(normalize=True)),
    "ms-marco-MiniLM-L-12-v2": ("BertForSequenceClassification", dict(MINILM, num_hidden_layers=12, num_labels=1),
                                dict(types=2)),
    "all-mpnet-base-v2": ("MPNetModel", dict(vocab_size=30527, hidden_size=768, num_hidden_layers=12,
                                             num_attention_heads=12, intermediate_size=3072,
                                             max_position_embeddings=514, layer_norm_eps=1e-5, pad_token_id=1),
                          dict(normalize=True)),
    "sbert_large_nlu_ru": ("BertModel", dict(vocab_size=120138, hidden_size=1024, num_hidden_layers=24,
                                             num_attention_heads=16, intermediate_size=4096,
                                             max_position_embeddings=512), dict(normalize=True)),
    "multilingual-e5-large-instruct": ("XLMRobertaModel", dict(XLMR_LARGE, max_position_embeddings=514),
                                       dict(normalize=True)),
    "bge-reranker-v2-m3": ("XLMRobertaForSequenceClassification",
                           dict(XLMR_LARGE, max_position_embeddings=8194, num_labels=1), {}),
    "distilbert-base": ("DistilBertModel", dict(dim=768, n_layers=6, n_heads=12, hidden_dim=3072, vocab_size=30522,
                                                max_position_embeddings=512), dict(normalize=True)),
}

TEXTS = """\
The cat sits on the mat.
A feline rests upon a rug.
Quantum chromodynamics describes the strong interaction.
How do I reset my password?
I forgot my login credentials; what now?
The stock market fell sharply on Monday.
It's raining cats and dogs!
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
SELECT name, COUNT(*) FROM users GROUP BY name HAVING COUNT(*) > 1;
naïve café déjà vu façade
Der schnelle braune Fuchs springt über den faulen Hund.
Le vif renard brun saute par-dessus le chien paresseux.
Быстрая коричневая лиса прыгает через ленивую собаку.
素早い茶色の狐がのろまな犬を飛び越える
敏捷的棕色狐狸跳过了懒狗
빠른 갈색 여우가 게으른 개를 뛰어넘는다
الثعلب البني السريع يقفز فوق الكلب الكسول
🙂 👍🏽 👨‍👩‍👧‍👦 emoji sequences
3.14159 2.71828 1.41421 0.57721
http://example.com/a/b?c=d&e=f#g
a
.
[MASK] [SEP] [CLS] [PAD] [UNK]
Supercalifragilisticexpialidocious
e = mc²; ∑ᵢ xᵢ ≠ ∫ f(t) dt
""".splitlines()


def token_ids(seed, vocab, lengths, kinds=1, pad=None):
    """Random sequences; for models with a pad id one of them has it inside the text."""
    rng = np.random.default_rng(seed)
    out = []
    for i, n in enumerate(lengths):
        ids = rng.integers(4, vocab, n)
        if pad and i == 1:
            ids[[2, 3, n - 2]] = pad
        types = np.sort(rng.integers(0, kinds, n))
        out.append((ids.tolist(), types.tolist()))
    return out


# ---- our side

def kinds(args):
    """The runs asked for, each as arguments with one device and type."""
    for device, dtype in KINDS if args.all else [(args.device, args.dtype)]:
        yield argparse.Namespace(**dict(vars(args), device=device, dtype=dtype))


def ours(args, model, sequences, want, width, batch=4, skip=0):
    with tempfile.TemporaryDirectory() as tmp:
        ids, out = pathlib.Path(tmp, "ids"), pathlib.Path(tmp, "out")
        ids.write_text("".join(f"skip={skip} " + " ".join(f"{i}:{t}" for i, t in zip(*s)) + "\n"
                               for s in sequences))
        subprocess.run([args.driver, model, ids, out, want, args.device, args.dtype, args.isa, str(batch)], check=True,
                       stderr=None if args.verbose else subprocess.DEVNULL)
        return np.fromfile(out, np.float32).reshape(-1, width)


class Verdict:
    failed = False

    @classmethod
    def line(cls, name, value, unit, target, ok):
        cls.failed |= not ok
        print(f"RESULT {name} {value:.6g} {unit} {target:g} {'ok' if ok else 'short'}", flush=True)

    @classmethod
    def compare(cls, args, name, got, want, scores=False):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        name = f"{name}.{args.device}.{args.dtype}"
        if args.dtype in COSINE_MIN and not scores:
            cos = (got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)
            least = COSINE_MIN[args.dtype]
            return cls.line(f"parity.{name}.cosine", cos.min(), "min", least, cos.min() >= least)
        worst = np.abs(got - want).max()
        if args.dtype in COSINE_MIN:  # scores have no angle: stated, no bound
            return cls.line(f"parity.{name}.diff", worst, "max", np.inf, np.isfinite(worst))
        bound = SCORE_MAX if scores else VECTOR_MAX
        return cls.line(f"parity.{name}.diff", worst, "max", bound, worst <= bound)


# ---- the reference's side

def build(cls, config, seed, wide):
    """A model with random weights: `wide` draws every parameter far enough from its usual
    start value that leaving out a bias or a gain shows."""
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(seed)
    kind = getattr(transformers, cls)
    cfg = kind.config_class(**config)
    model = kind(cfg, add_pooling_layer=False) if cls.endswith("Model") and cls != "DistilBertModel" else kind(cfg)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = "LayerNorm" in name or "layer_norm" in name
            if wide:
                p.normal_(1.0 if norm and name.endswith("weight") else 0.0, 0.2 if p.ndim > 1 else 0.1)
            elif norm:
                p.fill_(1.0 if name.endswith("weight") else 0.0)
            elif p.ndim > 1:
                p.normal_(0.0, 0.02)
            else:
                p.zero_()
    return model.eval()


def hidden_states(model, sequences):
    """Last hidden states, one sequence at a time: no padding, no mask."""
    import torch
    base = getattr(model, model.base_model_prefix, model)
    out = []
    for ids, types in sequences:
        with torch.no_grad():
            out.append(base(**inputs(model, ids, types)).last_hidden_state[0])
    return out


def inputs(model, ids, types):
    import torch
    x = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    if getattr(model.config, "type_vocab_size", 0) and model.config.model_type not in ("mpnet", "distilbert"):
        x["token_type_ids"] = torch.tensor([types])
    return x


def scores(model, sequences):
    import torch
    with torch.no_grad():
        return np.stack([model(**inputs(model, *s)).logits[0].numpy() for s in sequences])


def padded(model, sequences):
    """The same as one batch with padding and a mask: hidden states, and scores if it has a head."""
    import torch
    n, most = len(sequences), max(len(s[0]) for s in sequences)
    ids = torch.full((n, most), model.config.pad_token_id or 0)
    mask, types = torch.zeros(n, most, dtype=torch.long), torch.zeros(n, most, dtype=torch.long)
    for i, s in enumerate(sequences):
        ids[i, :len(s[0])], types[i, :len(s[0])], mask[i, :len(s[0])] = torch.tensor(s[0]), torch.tensor(s[1]), 1
    x = dict(inputs(model, *sequences[0]), input_ids=ids, attention_mask=mask)
    if "token_type_ids" in x:
        x["token_type_ids"] = types
    with torch.no_grad():
        if hasattr(model, "classifier"):
            return None, model(**x).logits.numpy()
        states = model(**x).last_hidden_state
    return [h[:len(s[0])] for h, s in zip(states, sequences)], None


def modules(opts, width, pool, seed):
    """What follows the transformer, as sentence-transformers' own modules."""
    import torch
    from sentence_transformers import models
    torch.manual_seed(seed)
    out = [models.Pooling(width, pooling_mode=pool, include_prompt="skip" not in opts)]
    if opts.get("dense"):
        width = out[0].get_embedding_dimension()
        out.append(models.Dense(width, opts["dense"], activation_function=torch.nn.Tanh()))
        out.append(models.Dense(opts["dense"], 20, bias=False, activation_function=torch.nn.Identity()))
    if opts.get("normalize"):
        out.append(models.Normalize())
    return out


def pooled(mods, states, skip=0):
    import torch
    rows = []
    for h in states:
        x = dict(token_embeddings=h[None], attention_mask=torch.ones(1, len(h), dtype=torch.long), prompt_length=skip)
        with torch.no_grad():
            for mod in mods:
                x = mod(x)
        rows.append(x["sentence_embedding"][0].numpy())
    return np.stack(rows)


# ---- writing model directories

def save(model, path, opts, mods):
    import torch
    from safetensors.torch import load_file, save_file
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path)
    if opts.get("gamma"):  # the spelling of old checkpoints
        w = load_file(path / "model.safetensors")
        w = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
             for k, v in w.items()}
        save_file(w, path / "model.safetensors", metadata={"format": "pt"})
    if not mods:
        return
    kinds = [dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer")]
    for i, mod in enumerate(mods, 1):
        name = type(mod).__name__
        kinds.append(dict(idx=i, name=str(i), path=f"{i}_{name}", type=f"sentence_transformers.models.{name}"))
        sub = path / f"{i}_{name}"
        if name != "Normalize":
            sub.mkdir(exist_ok=True)
            with torch.no_grad():
                mod.save(str(sub))
    (path / "modules.json").write_text(json.dumps(kinds, indent=1) + "\n")


def short(rows):
    return [[float(f"{float(x):.9g}") for x in row] for row in rows]


def fixtures(args):
    import torch
    for name, (cls, config, opts) in TINY.items():
        if args.names and name not in args.names:
            continue
        model = build(cls, config, SEED, wide=True)
        if "dtype" in opts:  # round the weights once, so that the file and the reference agree
            dtype = getattr(torch, opts["dtype"])
            model = model.to(dtype)
        width = getattr(model.config, "hidden_size", None) or model.config.dim
        lengths = [7, 13, 1, 33] + ([150] if opts.get("long") else [62])
        pad = model.config.pad_token_id if name.startswith(("xlmr", "roberta", "mpnet")) else None
        seqs = token_ids(SEED, 100, lengths, opts.get("types", 1), pad)
        pools = opts.get("pools", ["mean"])
        head = "score" in name
        mods = None if head else modules(opts, width, pools[0], SEED)
        save(model, FIXTURES / name, opts, mods)
        model = model.float()
        doc = dict(ids=[s[0] for s in seqs], types=[s[1] for s in seqs])
        if "skip" in opts:
            doc["skip"] = opts["skip"]
        states = hidden_states(model, seqs)
        doc["tokens"] = short(states[0].numpy())
        if head:
            doc["scores"] = short(scores(model, seqs))
        else:
            doc["vectors"] = {"+".join(p) if p is JOINED else p: short(pooled(
                mods if p == pools[0] else modules(opts, width, p, SEED), states, opts.get("skip", 0))) for p in pools}
        text = json.dumps(doc).replace("]], ", "]],\n ").replace("], ", "],\n  ")
        (FIXTURES / name / "expected.json").write_text(text + "\n")
        print(name, sum(f.stat().st_size for f in (FIXTURES / name).rglob("*") if f.is_file()), "bytes")


# ---- the comparisons

def tiny(args):
    for name in TINY:
        doc = json.loads((FIXTURES / name / "expected.json").read_text())
        seqs = list(zip(doc["ids"], doc["types"]))
        what = "scores" if "scores" in doc else "vectors"
        want = np.array(doc["scores"] if what == "scores" else next(iter(doc["vectors"].values())))
        tokens = np.array(doc["tokens"])
        for kind in kinds(args):
            got = ours(kind, FIXTURES / name, seqs, what, want.shape[1], skip=doc.get("skip", 0))
            Verdict.compare(kind, f"tiny.{name}", got, want, what == "scores")
            got = ours(kind, FIXTURES / name, seqs[:1], "tokens", tokens.shape[1])
            Verdict.compare(kind, f"tiny.{name}.tokens", got, tokens)


def minilm(args):
    if not args.names or not pathlib.Path(args.names[0], "model.safetensors").exists():
        print("skip: no all-MiniLM-L6-v2 directory (vectors.py minilm DIR)")
        return
    from sentence_transformers import SentenceTransformer
    path = args.names[0]
    st = SentenceTransformer(path, device="cpu")
    texts = TEXTS + [" ".join(TEXTS[i:i + 4]) for i in range(20)] + [" ".join(TEXTS) * k for k in (1, 2)]
    texts += ["", " "]
    want = np.stack([st.encode([t], batch_size=1)[0] for t in texts])
    tok = st.tokenizer
    seqs = []
    for t in texts:
        enc = tok(t, truncation=True, max_length=st.max_seq_length)
        seqs.append((enc["input_ids"], enc.get("token_type_ids", [0] * len(enc["input_ids"]))))
    print(f"{len(texts)} texts, {sum(len(s[0]) for s in seqs)} tokens")
    for kind in kinds(args):
        Verdict.compare(kind, "minilm.real", ours(kind, path, seqs, "vectors", want.shape[1]), want)


def shapes(args):
    for name in args.names or SHAPES:
        cls, config, opts = SHAPES[name]
        model = build(cls, config, SEED, wide=False)
        seqs = token_ids(SEED, config["vocab_size"], LENGTHS, opts.get("types", 1))
        head = "num_labels" in config
        width = config.get("hidden_size") or config["dim"]
        mods = None if head else modules(opts, width, "mean", SEED)
        states = hidden_states(model, seqs)
        tokens = np.concatenate([h.numpy() for h in states])
        want = dict(alone=scores(model, seqs) if head else pooled(mods, states))
        states, logits = padded(model, seqs)
        want["padded"] = logits if head else pooled(mods, states)
        large = sum(p.numel() for p in model.parameters()) > 2e8
        with tempfile.TemporaryDirectory(dir=args.tmp) as tmp:
            path = pathlib.Path(tmp, name)
            save(model, path, opts, mods)
            del model
            for kind in kinds(args):
                few = len(seqs)
                while large and kind.device == "ref" and sum(LENGTHS[:few]) > REF_TOKENS:
                    few -= 1
                got = ours(kind, path, seqs[:few], "scores" if head else "vectors", want["alone"].shape[1], len(seqs))
                for how, rows in want.items():
                    Verdict.compare(kind, f"shapes.{name}.{how}", got, rows[:few], head)
                if head and kind.dtype in COSINE_MIN:  # one number has no angle, what the head reads has
                    got = ours(kind, path, seqs, "tokens", width, len(seqs))
                    Verdict.compare(kind, f"shapes.{name}.tokens", got, tokens)


def sentences():
    """Sentences of the docstrings that every Python brings along, and of what is installed
    beside it: English enough for a search, and nothing to download."""
    roots = [pathlib.Path(sysconfig.get_paths()["stdlib"])]
    roots += [pathlib.Path(s.origin).parent for s in map(importlib.util.find_spec, ["numpy", "transformers"]) if s]
    found = set()
    for f in sorted(f for r in roots for f in r.rglob("*.py")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(f.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                parts = re.split(r"(?<=[.!?])\s+|\n\s*\n", ast.get_docstring(node) or "")
                found.update(" ".join(p.split()) for p in parts if 5 <= len(p.split()) <= 60)
        if len(found) > 4 * SENTENCES:
            break
    return sorted(found)


def overlap(args):
    from tokenizers import Tokenizer
    path, texts = args.names[0], sentences()
    if len(texts) < QUERIES + SENTENCES:
        print(f"skip: only {len(texts)} sentences here")
        return
    picked = np.random.default_rng(SEED).choice(len(texts), QUERIES + SENTENCES, replace=False)
    tok = Tokenizer.from_file(str(pathlib.Path(path, "tokenizer.json")))
    tok.no_padding()
    tok.enable_truncation(256)
    seqs = [(e.ids, e.type_ids) for e in tok.encode_batch([texts[i] for i in picked])]
    order = sorted(range(len(seqs)), key=lambda i: len(seqs[i][0]))
    width = json.loads(pathlib.Path(path, "config.json").read_text())["hidden_size"]

    def nearest(dtype):
        kind = argparse.Namespace(**dict(vars(args), dtype=dtype))
        v = np.empty((len(seqs), width), np.float32)
        v[order] = ours(kind, path, [seqs[i] for i in order], "vectors", width, batch=64)
        q, docs = v[:QUERIES], v[QUERIES:]
        return v, np.argsort(-(q @ docs.T), axis=1, kind="stable")[:, :NEAREST]

    (v32, want), (v, got) = nearest("f32"), nearest(args.dtype)
    share = np.mean([len(set(a) & set(b)) for a, b in zip(want, got)]) / NEAREST
    cos = (v32 * v).sum(1).min()
    least = COSINE_MIN.get(args.dtype, 1 - 1e-6)
    Verdict.line(f"parity.overlap.{args.dtype}.top{NEAREST}", share, "share", OVERLAP_MIN[args.dtype],
                 share >= OVERLAP_MIN[args.dtype])
    Verdict.line(f"parity.overlap.{args.dtype}.cosine", cos, "min", least, cos >= least)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["fixtures", "tiny", "minilm", "shapes", "overlap"])
    p.add_argument("names", nargs="*")
    p.add_argument("--driver", default=str(TOP / "build/tests/parity-vectors"))
    p.add_argument("--device", default="ref")
    p.add_argument("--dtype", default="f32")
    p.add_argument("--isa", default="-")
    p.add_argument("--all", action="store_true")
    p.add_argument("--tmp", help="where `shapes` puts up to 2.3 GB")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_intermixed_args()
    try:
        globals()[args.what](args)
    except ModuleNotFoundError as e:
        print(f"skip: {args.what} needs the Python package {e.name}")
    return 1 if Verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())

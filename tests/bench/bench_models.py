# SPDX-License-Identifier: MIT
"""Models for the measurements, with numpy alone: safetensors in and out, an XLM-R-large with random
weights, a copy of a model in f16 that is small enough to carry to another machine."""
import json
import pathlib
import re
import shutil
import struct

SEED = 20240229
DTYPES = {"F32": "float32", "F16": "float16", "I64": "int64"}
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# The shape of XLM-R large (24 layers, all of them real); only the vocabulary is cut, from 250,002
# rows, of which a text of n tokens reads n: a cut that costs neither side anything but the file.
XLMR = {"architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 4096, "hidden_act": "gelu", "max_position_embeddings": 514,
        "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
        "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "initializer_range": 0.02}
XLMR_PIECES = 8000


def safetensors_read(path):
    """{name: array}, mapped, not read."""
    import numpy as np
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(size))
    data = np.memmap(path, mode="r", offset=8 + size)
    return {n: data[t["data_offsets"][0]:t["data_offsets"][1]].view(DTYPES[t["dtype"]]).reshape(t["shape"])
            for n, t in head.items() if n != "__metadata__"}


def safetensors_write(path, tensors):
    """`tensors`: (name, dtype as safetensors names it, shape, function that gives the array) each."""
    import numpy as np
    head, at = {}, 0
    for name, dtype, shape, _ in tensors:
        end = at + int(np.prod(shape, dtype=np.int64)) * np.dtype(DTYPES[dtype]).itemsize
        head[name], at = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}, end
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, dtype, _, make in tensors:
            np.ascontiguousarray(make(), DTYPES[dtype]).tofile(f)


def recode(folder, to, dtype):
    """A copy of a model folder with its f32 or f16 weights as `dtype`."""
    to = pathlib.Path(to)
    shutil.copytree(folder, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "*.safetensors", "README*", "data_config*"))
    old = safetensors_read(pathlib.Path(folder) / "model.safetensors")
    names = {v: k for k, v in DTYPES.items()}
    safetensors_write(to / "model.safetensors",
                      [(n, dtype if v.dtype.kind == "f" else names[v.dtype.name], v.shape, lambda v=v: v) for n, v in old.items()])
    return to


def words_of(folder):
    """Words that are one token each: a text's length is known without a tokenizer."""
    vocab = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    if isinstance(vocab, dict):
        return sorted(w for w in vocab if re.fullmatch("[a-z]{3,9}", w))
    return sorted(p[0][1:] for p in vocab if re.fullmatch("\u2581[a-z]{3,9}", p[0]))


def xlmr_tokenizer(words):
    """Unigram with XLM-R's own normaliser, over whole words and their letters."""
    tok = json.loads((TOP / "tests/fixtures/unigram-small.json").read_text(encoding="utf-8"))
    letters = sorted({c for w in words for c in w} | set(".,"))
    pieces = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["\u2581", -4.0]]
    pieces += [["\u2581" + w, -9.0 - i / XLMR_PIECES] for i, w in enumerate(words)] + [[c, -12.0] for c in letters]
    pieces.append(["<mask>", 0.0])
    special = {i: p for i, (p, _) in enumerate(pieces) if p.startswith("<")}
    tok["model"] = {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": False}
    tok["added_tokens"] = [{"id": i, "content": p, "single_word": False, "lstrip": p == "<mask>", "rstrip": False,
                            "normalized": False, "special": True} for i, p in special.items()]
    one, two = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}
    begin, end = ({"SpecialToken": {"id": p, "type_id": 0}} for p in ("<s>", "</s>"))
    tok["post_processor"] = {"type": "TemplateProcessing", "single": [begin, one, end], "pair": [begin, one, end, end, two, end],
                             "special_tokens": {p: {"id": p, "ids": [i], "tokens": [p]} for p, i in (("<s>", 0), ("</s>", 2))}}
    return tok, len(pieces)


def xlmr_tensors(vocab):
    import numpy as np
    rng = np.random.Generator(np.random.Philox(SEED))
    hidden, wide = XLMR["hidden_size"], XLMR["intermediate_size"]

    def normal(*shape):
        return ("F32", shape, lambda: rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02))

    def linear(name, rows, cols):
        return [(name + ".weight", *normal(rows, cols)), (name + ".bias", *normal(rows))]

    def norm(name):
        return [(name + ".LayerNorm.weight", "F32", (hidden,), lambda: np.ones(hidden)),
                (name + ".LayerNorm.bias", "F32", (hidden,), lambda: np.zeros(hidden))]
    out = [("embeddings.word_embeddings.weight", *normal(vocab, hidden)),
           ("embeddings.position_embeddings.weight", *normal(XLMR["max_position_embeddings"], hidden)),
           ("embeddings.token_type_embeddings.weight", *normal(1, hidden)), *norm("embeddings")]
    for i in range(XLMR["num_hidden_layers"]):
        at = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            out += linear(at + "attention.self." + part, hidden, hidden)
        out += linear(at + "attention.output.dense", hidden, hidden) + norm(at + "attention.output")
        out += linear(at + "intermediate.dense", wide, hidden) + linear(at + "output.dense", hidden, wide) + norm(at + "output")
    return out + linear("pooler.dense", hidden, hidden)


def make_xlmr(folder, words):
    """A folder as sentence-transformers writes it: 1.2 GB of f32, made in seconds, the same everywhere."""
    folder = pathlib.Path(folder)
    if (folder / "model.safetensors").exists():
        return folder
    tok, vocab = xlmr_tokenizer(words[::2][:XLMR_PIECES])
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    files = {"config.json": dict(XLMR, vocab_size=vocab), "tokenizer.json": tok,
             "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "bos_token": "<s>",
                                       "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>",
                                       "sep_token": "</s>", "mask_token": "<mask>",
                                       "model_input_names": ["input_ids", "attention_mask"]},
             "modules.json": [{"idx": i, "name": str(i), "path": p, "type": "sentence_transformers.models." + t}
                              for i, (p, t) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))],
             "sentence_bert_config.json": {"max_seq_length": 512, "do_lower_case": False},
             "1_Pooling/config.json": {"word_embedding_dimension": XLMR["hidden_size"], "pooling_mode_cls_token": False,
                                       "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
                                       "pooling_mode_mean_sqrt_len_tokens": False}}
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    safetensors_write(folder / "part", xlmr_tensors(vocab))
    (folder / "part").rename(folder / "model.safetensors")
    return folder

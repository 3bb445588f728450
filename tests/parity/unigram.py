#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our Unigram and Precompiled against the `tokenizers` library.

    unigram.py [--driver build/tests/parity-unigram] [--work DIR] [--pieces N] [--lines N]
               [--fixture] [--bench]

Gathers text in many languages from the message catalogues of this machine (Debian's
packages put them below /usr/share/locale), trains a SentencePiece Unigram model with the
nmt_nfkc rule on it, writes it as an XLM-R style tokenizer.json, and compares ids line by
line, hostile lines included.  Wants zero differences.  --fixture rewrites the small model
and its tricky lines below tests/fixtures; --bench compares speeds on one thread.
Needs the Python packages tokenizers and sentencepiece (with protobuf).
"""
import argparse
import base64
import gettext
import glob
import io
import json
import pathlib
import random
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
MARK = "\u2581"
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", MARK, MARK * 3, "<0x41>"]


# ---- text
def catalogue_lines():
    """Lines of translated text by language."""
    langs = {}
    for path in sorted(glob.glob("/usr/share/locale/*/LC_MESSAGES/*.mo")):
        try:
            with open(path, "rb") as f:
                messages = gettext.GNUTranslations(f)._catalog.values()
        except (OSError, UnicodeDecodeError, LookupError, ValueError):
            continue
        lines = langs.setdefault(path.split("/")[4], set())
        for text in messages:
            lines.update(s for s in (part.strip() for part in text.splitlines()) if s)
    return {k: sorted(v) for k, v in sorted(langs.items()) if len(v) >= 50}


def sample(langs, count, rng):
    """About `count` lines, every language represented, the large ones cut down."""
    sizes = sorted(len(v) for v in langs.values())
    share, left, n = 0, count, len(sizes)
    for i, size in enumerate(sizes):
        share = left // (n - i)
        if size > share:
            break
        left -= size
    out = []
    for lines in langs.values():
        out += lines if len(lines) <= share else rng.sample(lines, share)
    rng.shuffle(out)
    return out


def hostile_lines(count, rng, clean):
    """Emoji, marks, controls, jamo, specials, odd spaces, long words and random code points."""
    import unicodedata as u
    words = [w for s in clean[:4000] for w in s.split()]
    pools = [
        [chr(c) for c in range(0x300, 0x370)], [chr(c) for c in range(1, 0x20) if c != 10],
        [chr(c) for c in range(0x7F, 0x100)], [chr(c) for c in range(0x1100, 0x1200)],
        [chr(c) for c in range(0x2000, 0x2070)], [chr(c) for c in range(0x1F1E6, 0x1F200)],
        [chr(c) for c in range(0x1F300, 0x1F650)] + ["\u200d", "\ufe0f", "\U0001f3fd"],
        [chr(c) for c in range(0x900, 0xE00)], [chr(c) for c in range(0xE00, 0x1000)],
        [chr(c) for c in range(0xFF00, 0xFFF0)], [chr(c) for c in range(0x3000, 0x3400)],
        [chr(c) for c in range(0xFB00, 0xFE00)], [chr(c) for c in range(0x1D400, 0x1D800)],
        [chr(c) for c in range(0x2100, 0x2600)], [chr(c) for c in range(0xAC00, 0xAE00)],
        SPECIALS, [" ", "  ", "\t", "\u3000", "\xa0", "\u200b", "\ufeff", "\x85", "\r"], ["\0"],
    ]
    any_code = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 10]
    out = ["", " ", "\0", "a" * 5000, MARK, "<unk>", "x<unk>y", "<unk><unk>", "\u4e00" * 700]
    while len(out) < count:
        kind, n = rng.randrange(6), rng.randrange(1, 24)
        if kind == 0:
            s = "".join(rng.choice(any_code) for _ in range(n))
        elif kind == 1:
            s = u.normalize(rng.choice(("NFD", "NFKD")), rng.choice(clean))
        elif kind == 2:
            s = "".join(w + rng.choice(rng.choice(pools)) for w in rng.choices(words, k=n))
        elif kind == 3:
            s = "".join(rng.choice(rng.choice(pools)) for _ in range(n))
        elif kind == 4:
            s = "".join(c + rng.choice(pools[0]) * rng.randrange(3) for c in rng.choice(clean))
        else:
            pool = rng.choice(pools)
            s = " ".join("".join(rng.choice(pool) for _ in range(rng.randrange(1, 6))) for _ in range(n))
        out.append(s.replace("\n", " "))
    return out


# ---- model
def train(lines, pieces, byte_fallback=False, coverage=0.9995):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(s for s in lines if "\0" not in s), model_writer=model, model_type="unigram",
        vocab_size=pieces, normalization_rule_name="nmt_nfkc", character_coverage=coverage,
        byte_fallback=byte_fallback, hard_vocab_limit=False, num_threads=2, minloglevel=2,
        input_sentence_size=2_000_000, shuffle_input_sentence=False, max_sentence_length=4000,
        seed_sentencepiece_size=max(4 * pieces, 200_000))
    proto = pb.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto


def tokenizer_json(proto, byte_fallback=False):
    """As the converters write XLM-R: control pieces shifted, <mask> at the end."""
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    vocab += [[p.piece, p.score] for p in proto.pieces if p.type not in (2, 3)]  # unknown, control
    vocab.append(["<mask>", 0.0])
    meta = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, meta]},
            "post_processor": None, "decoder": meta,
            "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": byte_fallback}}


# ---- comparing
def ours(driver, what, model, lines):
    raw = ("\n".join(lines) + "\n").encode()
    return subprocess.run([driver, what, model], input=raw, capture_output=True, check=True).stdout.decode()


def compare(driver, model, lines):
    from tokenizers import Tokenizer
    t = Tokenizer.from_file(str(model))
    got = ours(driver, "ids", model, lines).split("\n")[:-1]
    bad = 0
    for i in range(0, len(lines), 1000):
        batch = t.encode_batch(lines[i:i + 1000], add_special_tokens=False)
        for s, g, want in zip(lines[i:i + 1000], got[i:i + 1000], batch, strict=True):
            if g != " ".join(map(str, want.ids)):
                bad += 1
                if bad <= 5:
                    print(f"  differs: {ascii(s[:200])}\n    want {want.ids[:40]}\n    got  {g[:200]}")
    print(f"{model.name}: {len(lines)} lines compared, {bad} different")
    return bad


def bench(driver, model, lines):
    """One thread each, the best of some rounds; ids alone, offsets are made by both."""
    from tokenizers import Tokenizer
    size = sum(len(s.encode()) for s in lines)
    t = Tokenizer.from_file(str(model))
    best = min(timed(lambda: [t.encode(s, add_special_tokens=False) for s in lines]) for _ in range(3))
    map_ms, all_ms = map(float, ours(driver, "time", model, lines).split())
    print(f"library {size / best / 1e6:.1f} MB/s; ours {size / all_ms / 1e3:.1f} MB/s "
          f"(character map alone {size / map_ms / 1e3:.1f} MB/s)")
    built = float(subprocess.run([driver, "build", model], capture_output=True, check=True).stdout)
    ratio = best * 1e3 / all_ms
    print(f"RESULT unigram.build_ms {built:.1f} ms 50 {'ok' if built < 50 else 'short'}")
    print(f"RESULT unigram.driver.vs_hf {ratio:.1f} x 10 {'ok' if ratio >= 10 else 'short'}")


def timed(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def write_fixture(langs, rng):
    from tokenizers import Tokenizer
    small = sample(langs, 40_000, rng)
    model = TOP / "tests/fixtures/unigram-small.json"
    model.parent.mkdir(exist_ok=True)
    text = json.dumps(tokenizer_json(train(small, 3000, coverage=0.98)), ensure_ascii=False, separators=(",", ":"))
    model.write_text(text + "\n", encoding="utf-8")
    t = Tokenizer.from_file(str(model))
    lines = [s[:120] for s in rng.sample(small, 120) + hostile_lines(180, rng, small)]
    rows = [{"text": s, "normal": t.normalizer.normalize_str(s),
             "ids": t.encode(s, add_special_tokens=False).ids} for s in lines]
    with open(model.with_suffix(".jsonl"), "w", encoding="ascii") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--driver", default=str(TOP / "build/tests/parity-unigram"))
    ap.add_argument("--work", default=str(TOP / "build/parity"))
    ap.add_argument("--pieces", type=int, default=8000)
    ap.add_argument("--lines", type=int, default=200_000)
    ap.add_argument("--train-lines", type=int, default=200_000)
    ap.add_argument("--byte-fallback", action="store_true")
    ap.add_argument("--fixture", action="store_true")
    ap.add_argument("--bench", action="store_true")
    a = ap.parse_args()
    rng = random.Random(7)
    work = pathlib.Path(a.work)
    work.mkdir(parents=True, exist_ok=True)
    langs = catalogue_lines()
    if a.fixture:
        write_fixture(langs, rng)
        return 0
    model = work / f"unigram-{a.pieces}{'-bytes' if a.byte_fallback else ''}.json"
    if not model.exists():
        proto = train(sample(langs, a.train_lines, rng), a.pieces, a.byte_fallback)
        model.write_text(json.dumps(tokenizer_json(proto, a.byte_fallback), ensure_ascii=False))
    rng = random.Random(8)
    clean = sample(langs, a.lines, rng)
    print(f"{len(clean)} lines in {len(langs)} languages, {sum(len(s.encode()) for s in clean) / 1e6:.1f} MB")
    bad = compare(a.driver, model, clean) + compare(a.driver, model, hostile_lines(a.lines // 5, rng, clean))
    if a.bench:
        bench(a.driver, model, clean[:50_000])
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())

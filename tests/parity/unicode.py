#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our Unicode functions against the `tokenizers` library: every code point, every pair
that could compose, and random hostile sequences.  Wants zero differences.

    tests/parity/unicode.py build/tests/parity-unicode
"""
import importlib.machinery
import importlib.util
import pathlib
import random
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("unicode_tool", str(TOP / "tools/unicode"))
spec = importlib.util.spec_from_loader("unicode_tool", loader)
tool = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
loader.exec_module(tool)
RANDOM_LINES = 100_000


def ours(what, lines=None):
    text = None if lines is None else ("\n".join(lines) + "\n").encode()
    out = subprocess.run([sys.argv[1], what], input=text, capture_output=True, check=True).stdout
    return out.decode().splitlines()


def report(name, count, bad):
    print(f"{name}: {count} compared, {len(bad)} different")
    for line in bad[:5]:
        print("   ", line)
    return len(bad)


def check_props(p):
    def codes(s):
        return ",".join(f"{ord(ch):x}" for ch in s)
    bad = []
    for c, line in zip(tool.CODES, ours("props"), strict=True):
        s = chr(c)
        flags = "".join("01"[f(c)] for f in (p.space, p.other, p.mark, p.punct, p.chinese))
        want = [f"{c:x}", flags, str(p.combining(c)), codes(p.low(s)), codes(p.nfd(s)), codes(p.nfkd(s)),
                codes(p.nfc(s)), codes(p.nfd(s)), codes(p.nfkc(s)), codes(p.nfkd(s))]
        if " ".join(want) != line:
            bad.append(f"want {' '.join(want)}, got {line}")
    return report("code points", len(tool.CODES), bad)


def aligned(form):
    """The library's normal form of a text with the source of each code point."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    t = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    t.normalizer = getattr(normalizers, form)()
    t.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")

    def run(text):
        out = t.normalizer.normalize_str(text)
        offsets = t.encode(text, add_special_tokens=False).offsets
        assert len(offsets) == len(out), (text, out)
        return " ".join(f"{ord(ch):x}@{a}" for ch, (a, _) in zip(out, offsets))
    return run


def check_sequences(p, rng):
    marks = [chr(c) for c in tool.CODES if p.combining(c)]
    odd = [chr(c) for c in tool.CODES if p.nfkd(chr(c)) != chr(c)]
    hangul = [chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(50)] + \
        [chr(c) for r in ((0x1100, 0x1115), (0x115F, 0x1178), (0x11A6, 0x11C5)) for c in range(*r)]
    firsts = {p.nfc(p.nfd(ch)[:-1]) for ch in odd if p.nfd(ch) != ch} | set(hangul)
    seconds = {p.nfd(ch)[-1] for ch in odd if p.nfd(ch) != ch} | set(hangul)
    texts = [("NFC", a + b) for a in firsts for b in seconds]
    pools = [marks, odd, hangul, list("aeo AEO."), list(firsts), list(seconds)]
    for _ in range(RANDOM_LINES):
        size = rng.choice((2, 4, 8, 40))
        texts.append((rng.choice(("NFC", "NFD", "NFKC", "NFKD")),
                      "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, size)))))
    got = ours("normalize", [f + " " + " ".join(f"{ord(ch):x}" for ch in s) for f, s in texts])
    run = {f: aligned(f) for f in ("NFC", "NFD", "NFKC", "NFKD")}
    bad = []
    for (f, s), line in zip(texts, got, strict=True):
        want = run[f](s)
        if want != line:
            bad.append(f"{f} {ascii(s)}: want {want}, got {line}")
    return report("normal forms with alignment", len(texts), bad)


def check_clusters(p, rng):
    """Shown through Precompiled: one X a cluster below six bytes, else one X a character."""
    kinds = {}
    for c in tool.CODES:
        if c not in (0, 10):
            kinds.setdefault((p.break_class(c), p.picto(c), tuple(sorted(p.conjunct(c)))), []).append(chr(c))
    pools = list(kinds.values())
    texts = ["".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(2, 9)))
             for _ in range(2 * RANDOM_LINES)]
    bad = []
    for s, line in zip(texts, ours("clusters", texts), strict=True):
        raw, at, want = s.encode(), 0, 0
        for n in map(int, line.split()):
            want += 1 if n < 6 else len(raw[at:at + n].decode())
            at += n
        if want != len(p.clusters(s)):
            bad.append(f"{ascii(s)}: {line}")
    return report(f"grapheme clusters ({len(pools)} kinds)", len(texts), bad)


def main():
    p, rng = tool.Probe(), random.Random(1)
    sys.exit(check_props(p) + check_sequences(p, rng) + check_clusters(p, rng) > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Free text of a spec, whatever it holds: `stoker render` refuses it at a line, or every file means what was meant.

    hostile.py STOKER [--quick] [--only KEY]

Every value of full.yaml that takes free text is replaced, once by harmless tokens and once by each of the texts below.
Values that are refused, at their own line, are put back; of what is left both results are read by readers of the
formats (readers.py), and must be the same but for the text in the tokens' places: no key more, no line more, no other
type.  Prints TAP, a line for each text.
"""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import readers
import yaml

stoker = os.path.abspath(sys.argv[1])
quick = "--quick" in sys.argv
only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
here = pathlib.Path(__file__).resolve().parent
TOKEN = "zqtokenqz"  # with a number behind "token": one for each place

# (name, text, instead of the value: True; behind it: False)
TEXTS = [
    ("quotes", "it's \"q\" \\ `id` $(id) $HOME ${HOME} ;&|<>(){}[]*?!~ x", False),
    ("marks", "'\"\\`$(id)${X}%n%%;&|<>(){}[]*?!~^@+=,", False),
    ("lines", "x\n- y: z\n#SBATCH --uid=0\n---\nEOF\n[Service]\nExecStart=/bin/false\nw: \"v\n", False),
    ("comment", "a #b # c", False),
    ("unicode", "a\u2028b: c\u2029d\ufeffe\u202ef \u00a0\U0001f525 \u0130\u0131 e\u0301", False),
    ("templates", "{{ .x }} {{ $labels.y }} %i %% $$ ${A:-b} {% x %} #{y} @z@", False),
    ("html", "</script><b onload=\"x\">&amp;<!-- -->", False),
    ("backslash", "x\\", False),
    ("quote", "'", False),
    ("tab and blanks", "\t  x \t ", False),
    ("long", "l" * 4000, False),
    ("comma", "a,b=c:d", False),
    ("yes", "yes", True), ("null", "null", True), ("number", "1e3", True), ("octal", "0o17", True), ("date", "2026-01-01", True),
    ("option", "--help", True), ("at", "@x", True), ("star", "*x", True), ("bang", "!x", True), ("dash", "- x", True),
    ("brace", "{x: y}", True), ("empty", "", True), ("blank", " ", True), ("dots", "../../etc/passwd", True),
]
if quick:
    TEXTS = TEXTS[:5] + [t for t in TEXTS if t[0] in ("yes", "option")]
# Values that decide what is written, not only what stands in it: a name for an object is made of them, or a setting is
# chosen by them.  Of these the files must be readable, no more.
DECIDE = {"alerts.mine.series", "fabrics.0.interfaces", "targets.systemd.state_dir", "targets.systemd.log_dir",
          "storage.0.path", "storage.1.path", ("site.labels", "key")} | {f"software.{k}" for k in ("driver", "cuda", "cudnn", "nccl", "python", "torch")}
KINDS = {"text": "one", "a word": "one", "an absolute path": "path", "a list of text": "list", "a map of text": "map",
         "a map of environment variables": "map"}


def parents(value, path):
    """Every container that a key's path leads to, for its last part: (container, address)."""
    steps = re.findall(r"[^.\[\]]+|\[\]", path)
    found = [(value, [])]
    for step in steps[:-1]:
        following = []
        for v, at in found:
            if step == "[]" and isinstance(v, list):
                following += [(x, at + [i]) for i, x in enumerate(v)]
            elif step == "NAME" and isinstance(v, dict):
                following += [(x, at + [k]) for k, x in v.items()]
            elif isinstance(v, dict) and step in v:
                following.append((v[step], at + [step]))
        found = following
    return [(v, at + [steps[-1]]) for v, at in found if isinstance(v, dict)]


def places(spec):
    """(address, kind) of all free text: where full.yaml sets it, or the first place where it could stand."""
    keys = json.loads(subprocess.run([stoker, "spec", "doc", "--json"], check=True, capture_output=True).stdout)["keys"]
    for key in keys:
        kind = KINDS.get(key["value"])
        spots = parents(spec, key["key"]) if kind else []
        there = [at for v, at in spots if at[-1] in v]
        for at in there or [at for _, at in spots[:1]]:
            yield at, kind
            if kind == "map" and key["value"] == "a map of text":
                yield at, "key"


def name_of(place):
    return ".".join(map(str, place[0]))


def put(spec, at, kind, text, instead):
    """The text at an address of the spec."""
    v = spec
    for step in at[:-1]:
        v = v[step]
    old = v.get(at[-1])
    if kind == "one":
        v[at[-1]] = text if instead or not isinstance(old, str) else old + text
    elif kind == "path":
        v[at[-1]] = "/" + text if instead or not old else old + text
    elif kind == "list":
        first = [text if instead or not old else old[0] + text]
        v[at[-1]] = first + list(old or [])[1:]
    else:
        pairs = list((old or {"a": "b"}).items())
        k, w = pairs[0]
        pairs[0] = (text if instead else k + text, w) if kind == "key" else (k, text if instead else w + text)
        v[at[-1]] = dict(pairs)


def filled(spec, chosen, text, instead):
    """A copy with a text at every chosen place; text None: a token of its own at each."""
    out = copy.deepcopy(spec)
    for n, (at, kind) in chosen.items():
        put(out, at, kind, TOKEN.replace("token", f"token{n}") if text is None else text, instead)
    return out


class Refused(Exception):
    def __init__(self, lines, message):
        super().__init__(message)
        self.lines = lines


def render(folder, spec):
    """The files by path; Refused as it should be; anything else is an AssertionError."""
    (folder / "stoker.yaml").write_text(json.dumps(spec, indent=1, ensure_ascii=False), encoding="utf-8")
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    p = subprocess.run([stoker, "render", *targets, "-o", "out"], cwd=folder, capture_output=True, check=False)
    if p.returncode == 0:
        return {str(f.relative_to(out)): f.read_bytes() for f in out.rglob("*") if f.is_file() and not f.name.startswith(".stoker-render")}
    message = p.stderr.decode("utf-8", "replace")
    lines = {int(n) for n in re.findall(r"^stoker\.yaml:(\d+):\d+: ", message, re.M)}
    if p.returncode != 1 or not lines:
        raise AssertionError(f"exit status {p.returncode}: {message[:300]}")
    if out.exists():
        raise AssertionError("refused, but a folder was made")
    raise Refused(lines, message)


def lines_of(spec, chosen):
    """The line of the JSON text on which each chosen place stands, by the place's number."""
    marked, first = copy.deepcopy(spec), {}
    for n, place in chosen.items():
        if first.setdefault(name_of(place), n) == n:  # a key stands on its value's line
            put(marked, place[0], "map" if place[1] == "key" else place[1], f"zqline{n}qz", True)
    lines = {}
    for line, text in enumerate(json.dumps(marked, indent=1, ensure_ascii=False).split("\n"), 1):
        lines.update((int(n), line) for n in re.findall(r"zqline(\d+)qz", text))
    return {n: lines[first[name_of(place)]] for n, place in chosen.items()}


def accepted(folder, spec, places_, text, instead):
    """The places at which the text is rendered, and the files; those that are refused are left out."""
    chosen = dict(places_)
    while True:
        now = filled(spec, chosen, text, instead)
        try:
            return chosen, render(folder, now)
        except Refused as e:
            lines = lines_of(now, chosen)
            guilty = [n for n in chosen if lines[n] in e.lines]
            if not guilty:  # at another line: of two that contradict each other, say; each by itself then
                guilty = alone(folder, spec, chosen, text, instead)
            if not guilty:
                raise AssertionError(f"refused at a line where nothing was put: {str(e)[:600]}") from e
            for n in guilty:
                del chosen[n]


def alone(folder, spec, chosen, text, instead):
    """The places that are refused by themselves, looked for in halves."""
    try:
        render(folder, filled(spec, chosen, text, instead))
        return []
    except Refused:
        places_ = list(chosen.items())
        half = len(places_) // 2
        return [n for part in (places_[:half], places_[half:]) for n in alone(folder, spec, dict(part), text, instead)] if half else list(chosen)


def compare(plain, got, text):
    """What is wrong with the files of a hostile text beside those of the tokens, a fault a file."""
    other = {f for f in plain.keys() ^ got.keys() if not f.endswith("/models.sh")}  # a model whose source is a path is not fetched
    if other:
        return [f"other files: {sorted(other)}"]
    faults = []
    for path, new in got.items():
        old = plain.get(path, new)
        if old == new:
            continue
        try:
            was, now = readers.meaning(path, old.decode()), readers.meaning(path, new.decode())
            wrong = readers.differs(was, now, text)
        except (readers.Unreadable, UnicodeDecodeError) as e:
            wrong = str(e)
        if wrong and "'/var/lib/stoker/models/" in wrong and wrong.endswith(f"became {text!r}"):
            continue  # a name of the hub has a folder of ours, a path is itself
        if wrong:
            faults.append(f"{path}: {wrong}")
    return faults


def readable(files):
    faults = []
    for path, data in files.items():
        try:
            readers.meaning(path, data.decode())
        except (readers.Unreadable, UnicodeDecodeError) as e:
            faults.append(f"{path}: {e}")
    return faults


def one_text(folder, spec, plain, deciding, text, instead):
    """(faults, places that were rendered) of a text."""
    chosen, files = accepted(folder, spec, plain, text, instead)
    tokens = render(folder, filled(spec, chosen, None, instead)) if text else files  # what is empty is left out
    decided, others = accepted(folder, spec, deciding, text, instead)
    return compare(tokens, files, text) + readable(others), {**chosen, **decided}


def main():
    spec = yaml.safe_load((here / "full.yaml").read_text())
    spots = dict(enumerate(p for p in places(spec) if only in name_of(p)))
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # memory syncs faster
    failed, seen = 0, set()

    def tap(n, title, faults):
        nonlocal failed
        failed += bool(faults)
        print("not ok" if faults else "ok", f"{n} - {title}", flush=True)
        for f in faults:
            print("#", f[:1500].encode("unicode_escape").decode())

    with tempfile.TemporaryDirectory(prefix="stoker-hostile.", dir=base) as folder_name:
        folder = pathlib.Path(folder_name)
        files = render(folder, spec)
        tap(1, f"full.yaml is rendered for every target, and read: {len(files)} files", readable(files))
        deciding = {n: p for n, p in spots.items() if name_of(p) in DECIDE or (name_of(p), p[1]) in DECIDE}
        rest = {n: p for n, p in spots.items() if n not in deciding}
        plain = {i: accepted(folder, spec, rest, None, i)[0] for i in (False, True)}
        for n, (title, text, instead) in enumerate(TEXTS, 2):
            rendered = {}
            try:
                faults, rendered = one_text(folder, spec, plain[instead], deciding, text, instead)
            except (AssertionError, Refused) as e:
                faults = [str(e)]
            seen |= set(rendered)
            tap(n, f"{title}: at {len(rendered)} of {len(spots)} places", faults)
    never = [name_of(p) for n, p in spots.items() if n not in seen]
    tap(len(TEXTS) + 2, "nearly every place has taken some of the texts", never if len(never) > len(spots) / 8 else [])
    print(f"1..{len(TEXTS) + 2}")
    return failed > 0


readers.STOKER = stoker
listed = subprocess.run([stoker, "render", "--list", "--json"], check=True, capture_output=True).stdout
targets = [t["name"] for t in json.loads(listed)["targets"]]
sys.exit(main())

# SPDX-License-Identifier: MIT
"""What a rendered file means: readers of every format that `stoker render` writes, and a comparison of two meanings.

meaning(path, text) gives lists, dicts and leaves; what a reader cannot take raises Unreadable.
differs(a, b, text) says where `b` is not `a` with `text` in the place of tokens ("zqtoken1qz"); '' when it is nowhere.
"""
import functools
import html
import html.parser
import json
import re
import shlex
import subprocess

import yaml


class Unreadable(Exception):
    pass


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML 1.1 as most readers have it, but a key that stands twice is an error."""


def _mapping(loader, node):
    loader.flatten_mapping(node)
    keys = [loader.construct_object(k, deep=True) for k, _ in node.value]
    if len(set(map(repr, keys))) != len(keys):
        raise Unreadable(f"a key stands twice: {keys}")
    return dict(zip(keys, (loader.construct_object(v, deep=True) for _, v in node.value)))


Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


STOKER = "stoker"  # who reads a spec


def read_spec(text):
    p = subprocess.run([STOKER, "spec", "show", "--json", "-"], input=text, capture_output=True, text=True, check=False)
    if p.returncode:
        raise Unreadable(p.stderr.replace("\n", " "))
    return json.loads(p.stdout)["spec"]


def read_yaml(text):
    if re.search("^schema: stoker", text, re.M):
        return read_spec(text)
    try:
        return list(yaml.load_all(text, Loader))
    except (yaml.YAMLError, ValueError) as e:
        raise Unreadable(str(e).replace("\n", " ")) from e


def read_json(text):
    try:
        return json.loads(text)
    except ValueError as e:
        raise Unreadable(str(e)) from e


# ---- shells

def shell_words(text):
    """Words of a script without its comments; bodies of here-documents are one word each."""
    bodies = []

    def take(m):
        bodies.append(m[4])
        return f"{m[1]}{m[5]}"

    text = re.sub(r"(<<-?\s*(['\"]?)(\w+)\2[^\n]*\n)(.*?\n)?([ \t]*\3\n)", take, text, flags=re.S)
    lex = shlex.shlex(text, posix=True, punctuation_chars=True)
    lex.commenters = ""
    lex.whitespace_split = True
    try:
        return list(lex) + bodies
    except ValueError as e:
        raise Unreadable(f"{e} in a script") from e


def without_comments(text):
    """Comments of a shell begin at a word; quotes keep what looks like one."""
    out, quote, word, i = [], None, False, 0
    while i < len(text):
        c = text[i]
        if quote:
            out.append(c)
            if c == "\\" and quote == '"' and i + 1 < len(text):
                out.append(text[i + 1])
                i += 1
            elif c == quote:
                quote = None
        elif c == "\\":
            out.append(text[i:i + 2])
            i += 1
            word = True
        elif c in "'\"":
            quote, word = c, True
            out.append(c)
        elif c == "#" and not word:
            while i < len(text) and text[i] != "\n":
                i += 1
            continue
        else:
            word = c not in " \t\n;&|()"
            out.append(c)
        i += 1
    return "".join(out)


def read_shell(text):
    shell = "bash" if "bash" in text.split("\n", 1)[0] else "sh"
    checked = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
    if checked.returncode:
        raise Unreadable(checked.stderr.replace("\n", " "))
    head = re.match(r"(?:[ \t]*(?:#.*)?\n)*", text)[0]  # where sbatch looks: up to the first command
    directives = [shlex.split(m[1], comments=True) for m in re.finditer(r"^#SBATCH\s+(.*)$", head, re.M)]
    return [directives, shell_words(without_comments(text))]


def read_env(text):
    """NAME=VALUE lines as a shell, compose and systemd read them alike."""
    out = []
    for line in re.findall(r"(?:[^\n'\"]|'[^']*'|\"(?:[^\"\\]|\\.)*\")+", text, re.S):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"\s*[A-Za-z_][A-Za-z0-9_]*", name):
            raise Unreadable(f"no NAME=VALUE: {line!r}")
        out.append([name.strip(), words(value)])
    return out


# ---- systemd

ESCAPES = {"n": "\n", "t": "\t", "s": " ", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def words(value):
    """Words as systemd splits them: both quotes, C's escapes in them and outside; %% is one."""
    out, word, quote, i = [], None, None, 0
    while i < len(value):
        c = value[i]
        if c == "\\" and i + 1 < len(value):
            m = re.match(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[0-7]{3}|.)", value[i:], re.S)
            e = m[1]
            if e[0] in "xuU" and len(e) > 1:
                word = (word or "") + chr(int(e[1:], 16))
            elif len(e) == 3:
                word = (word or "") + chr(int(e, 8))
            else:
                word = (word or "") + ESCAPES.get(e, e)
            i += len(m[0])
            continue
        if quote:
            if c == quote:
                quote = None
            else:
                word += c
        elif c in "'\"" :
            quote, word = c, word or ""
        elif c.isspace() and c in " \t\n":
            if word is not None:
                out.append(word)
            word = None
        else:
            word = (word or "") + c
        i += 1
    if quote:
        raise Unreadable(f"a quote without its end: {value!r}")
    if word is not None:
        out.append(word)
    return [w.replace("%%", "%") for w in out]


LISTS = {"Environment", "EnvironmentFile", "ReadWritePaths", "ReadOnlyPaths", "BindPaths", "BindReadOnlyPaths", "Documentation"}


def read_unit(text):
    out = []
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if re.fullmatch(r"\[\w+\]", line):
            out.append([line])
            continue
        key, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z][\w-]*", key) or not out:
            raise Unreadable(f"no line of a unit: {line!r}")
        if key.startswith("Exec"):
            out[-1].append([key, [w.replace("$$", "$") for w in words(value)]])
        elif key in LISTS:
            out[-1].append([key, words(value)])
        else:
            out[-1].append([key, value.replace("%%", "%")])
    return out


def read_fields(text):
    """sysusers.d, tmpfiles.d, presets: words on lines."""
    return [words(line) for line in text.split("\n") if line.strip() and not line.startswith("#")]


# ---- the rest

def read_slurm(text):
    out = []
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        line = re.sub(r"(?:^|\s)#.*", "", line)
        pairs = re.findall(r'([A-Za-z]\w*)=("[^"]*"|\S*)', line)
        if line.strip() and not pairs:
            raise Unreadable(f"no NAME=VALUE: {line!r}")
        rest = re.sub(r'[A-Za-z]\w*=("[^"]*"|\S*)', "", line).strip()
        if rest:
            raise Unreadable(f"{rest!r} belongs to no name: {line!r}")
        if pairs:
            out.append([[k, v.strip('"')] for k, v in pairs])
    return out


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append([tag] + [list(a) for a in attrs])

    def handle_endtag(self, tag):
        self.seen.append(["/" + tag])

    def handle_data(self, data):
        if self.seen and isinstance(self.seen[-1], str):
            self.seen[-1] += data
        else:
            self.seen.append(data)

    def handle_comment(self, data):
        self.seen.append(["!"])


def read_html(text):
    page = Page()
    page.feed(text)
    page.close()
    return page.seen


def read_containerfile(text):
    lines = [l for l in re.sub(r"\\\n", " ", text).split("\n") if l.strip() and not l.startswith("#")]
    for line in lines:
        if not re.match(r"[A-Z]+\s", line):
            raise Unreadable(f"no instruction: {line!r}")
    return lines


def read_nccl(text):
    out = []
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            if not equals or not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
                raise Unreadable(f"no NAME=VALUE: {line!r}")
            out.append([name, value])
    return out


def read_text(text):
    return text.split("\n")


READERS = [
    (r".*\.(ya?ml|bu)$", read_yaml), (r".*\.json$", read_json), (r".*\.html$", read_html),
    (r".*\.(service|timer|socket|target)$", read_unit), (r".*(sysusers|tmpfiles)\.d/.*|.*\.preset$", read_fields),
    (r"slurm/.*\.conf$", read_slurm), (r".*Containerfile$", read_containerfile),
    (r".*nccl\.conf$", read_nccl), (r".*\.(env|env\.example|default)$|.*/\.env\S*$", read_env),
]


def meaning(path, text):
    for pattern, reader in READERS:
        if re.match(pattern, path):
            return reader(text)
    return read_shell(text) if text.startswith("#!") else read_text(text)


# ---- comparing

@functools.lru_cache(None)
def quoted(text):
    """The forms that a text may have inside another language."""
    flat = re.sub(r"[\x00-\x1f\u2028\u2029\ufeff\x7f-\x9f\ufffe\uffff]", " ", text)
    forms = {text, flat, html.escape(text), html.escape(text, quote=False), html.escape(text).replace("&#x27;", "&#39;"),
             shlex.quote(text), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1],
             "'" + text.replace("'", "'\\''") + "'", text.replace("'", "'\\''"), text.replace("'", "''")}
    for mark in ("$", "%"):
        forms |= {f.replace(mark, mark * 2) for f in forms}
    # Prometheus' templates: a brace is one, but in a summary {gpu} is a label
    braces = {f.replace("{", '{{ "{" }}') for f in forms}
    labels = {re.sub(r"\{(?!\w+\})", '{{ "{" }}', f) for f in forms}
    forms |= braces | {re.sub(r"(?<!\{)\{(\w+)\}", r"{{ $labels.\1 }}", f) for f in labels}
    return sorted(forms, key=len, reverse=True)


def filled(parts, forms, text):
    """Is the text those parts in order, with one of the forms in each gap?"""
    ends = {len(parts[0])} if text.startswith(parts[0]) else set()
    for part in parts[1:]:
        ends = {end + len(form) + len(part) for end in ends for form in forms if text.startswith(form + part, end)}
    return len(text) in ends


TOKEN = re.compile(r"zqtoken\d+qz")
DEPTH_MAX = 3  # texts in texts: a script in YAML in a script


def leaf(a, b, text, depth):
    if not re.search(r"zq[a-z0-9]*…$", a) and not TOKEN.search(a):
        return a == b or (re.fullmatch(r"[0-9a-f]{8,64}", a) and re.fullmatch(r"[0-9a-f]{8,64}", b))
    if a.endswith("…") or b.endswith("…"):  # cut to fit a picture
        return b.startswith(re.split("zq", a)[0][:max(len(b) - 1, 0)])
    if filled(TOKEN.split(a), quoted(text), b):
        return True
    for reader in (read_json, lambda t: read_shell("#!/bin/bash\n" + t), read_yaml, words) if depth < DEPTH_MAX else ():
        try:
            if not differs(reader(a), reader(b), text, depth=depth + 1):
                return True
        except (Unreadable, RecursionError):
            continue
    return False


def differs(a, b, text, where="", depth=0):
    if isinstance(a, str):
        if isinstance(b, str) and leaf(a, b, text, depth):
            return ""
        return f"{where}: {a!r} became {b!r}"
    if type(a) is not type(b):
        return f"{where}: {a!r} became {b!r}"
    if isinstance(a, dict):
        return differs([[k, v] for k, v in a.items()], [[k, v] for k, v in b.items()], text, where, depth)
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{where}: {len(a)} became {len(b)}: {str(a)[:400]} {str(b)[:400]}"
        for i, (x, y) in enumerate(zip(a, b)):
            wrong = differs(x, y, text, f"{where}/{i}", depth)
            if wrong:
                return wrong
        return ""
    return "" if a == b else f"{where}: {a!r} became {b!r}"

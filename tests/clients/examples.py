# SPDX-License-Identifier: MIT
"""TAP of the curl lines in docs/user/serving.md: examples.py STOKER [EMBEDDING-MODEL], in an empty folder.

Each line is run by a shell as it stands, but for the port, and the comment under it is the
reply: a status when it is not 200, then JSON in which `…` ends a list of more of the same.
Members, kinds of values and the words that are constants must be those.  Numbers may differ;
with a real model those of vectors are near what is shown, which is f32."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import serve_test  # noqa: E402
import serve_models  # noqa: E402
from serve_test import Server, check  # noqa: E402

WORDS = {"object", "type", "error_type", "code", "response_type", "model", "param"}  # compared as they are
MORE = "…"
NEAR = 0.02  # of a vector's numbers, whatever type computed them
REAL = len(sys.argv) > 2


def examples(path):
    """(heading, command, reply) of each fenced block's commands."""
    heading, inside, found = "Serving models", False, []
    for line in open(path, encoding="utf-8").read().replace("\\\n", "\\\r").split("\n"):
        line = line.replace("\\\r", "\\\n")
        if line.startswith("## "):
            heading = line[3:]
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside and line.startswith("# "):
            found[-1][2] += line[2:]
        elif inside and line.startswith(" "):
            found[-1][1] += "\n" + line
        elif inside:
            found.append([heading, line, ""])
    return [e for e in found if e[1].startswith("curl ")]


def reply_of(text):
    """(status, value)"""
    status, text = (int(text[:3]), text[4:]) if re.match(r"\d{3} ", text) else (200, text)
    return status, json.loads(re.sub(r'(?<![^\s,\[])…(?=[\]\s])', f'"{MORE}"', text)) if text else None


def unlike(shown, got, at="reply", word=False, near=REAL):
    """Why `got` is not of the shape that is shown, or None; `near`: this is the very place."""
    if isinstance(shown, dict) and isinstance(got, dict):
        for name, x in shown.items():
            if name not in got:
                return f"{at}: no {name}"
            if why := unlike(x, got[name], f"{at}.{name}", name in WORDS, near):
                return why
        return None
    if isinstance(shown, list) and isinstance(got, list):
        more = MORE in shown
        shown = [x for x in shown if x != MORE]
        if len(got) != len(shown) and not (more and len(got) > len(shown)):
            return f"{at}: {len(got)} elements"
        if near and any(isinstance(a, float) and isinstance(b, float) and abs(a - b) > NEAR for a, b in zip(shown, got)):
            return f"{at}: not near {shown}"
        last = len(shown) - 1
        tries = (unlike(shown[min(i, last)], x, f"{at}[{i}]", near=near and i <= last) for i, x in enumerate(got))
        return next(filter(None, tries), None)
    if isinstance(shown, str) and isinstance(got, str):
        return f"{at}: {got!r}" if word and MORE not in shown and shown != got else None
    number = (int, float)
    if isinstance(shown, number) and isinstance(got, number) and isinstance(shown, bool) == isinstance(got, bool):
        return f"{at}: {got!r}" if word and shown != got else None
    # the elements of a list may be null where the first one is: a special token's offsets
    return None if shown is None or type(shown) is type(got) else f"{at}: {got!r} for {shown!r}"


def run(line, port):
    """The line, with a curl that tells the status too."""
    env = {**os.environ, "PATH": os.path.abspath("bin") + os.pathsep + os.environ["PATH"]}
    line = re.sub(r"127\.0\.0\.1:800[23]", f"127.0.0.1:{port}", line)
    p = subprocess.run(["sh", "-c", line], capture_output=True, env=env, timeout=60)
    return int(p.stderr[-3:] or 0), p.stdout


def main():
    curl = shutil.which("curl")
    if not curl:
        print("1..0 # SKIP curl is not installed")
        return
    os.makedirs("bin")
    with open("bin/curl", "w") as f:
        f.write(f'#!/bin/sh\nexec {curl} --noproxy "*" -w "%{{stderr}}%{{http_code}}" "$@"\n')
    os.chmod("bin/curl", 0o755)
    model = sys.argv[2] if REAL else serve_models.vectors("emb", vocab=30522)
    s = Server("-m", f"all-MiniLM-L6-v2={model}", "-m", f"reranker={serve_models.ranker('rank')}", "-m",
               f"classifier={serve_models.classifier('class')}")
    check("it starts", s.port > 0 and "ready" in s.text, s.text)
    found = examples(os.path.join(serve_models.TOP, "docs/user/serving.md"))
    for heading, line, text in found if s.port else ():
        path = re.search(r"127\.0\.0\.1:\d+(/[^ '?]*)", line)[1]
        status, want = reply_of(text)
        st, out = run(line, s.port)
        try:
            why = unlike(want, json.loads(out)) if want is not None else None if out else "nothing"
        except ValueError:
            why = "no JSON"
        check(f"{heading}: {path}: {status}", st == status and not why, line, st, why, out)
    # every API has its examples
    want = {"Serving models", "Text Embeddings Inference", "OpenAI", "Cohere", "Jina, vLLM", "llama.cpp", "Other forms of a vector"}
    have = {h for h, _, _ in found}
    check("each chapter has some", want <= have, want - have)
    if s.port:
        s.stop()
    serve_test.done()


main()

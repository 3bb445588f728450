#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rows: an inventory as people compare it, for golden files.

    tests/machines/rows.py INVENTORY        prints it

A value a line.  Of a list of objects only the first has all its keys; each that follows is one
line of the keys whose values differ from the one before it ("-key" where it has none), so that
eight GPUs that are alike take eight short lines, and one that is not is seen.  What is unknown
(null) and what is empty stands together at the end of its object.  No value is left out."""
import json
import sys
import textwrap


def value(x):
    return json.dumps(x, ensure_ascii=False, separators=(", ", ":"))


def changes(before, x):
    """x as one line, told by what differs from `before`."""
    if isinstance(before, dict) and isinstance(x, dict):
        gone = ["-" + k for k in before if k not in x]
        return "{" + " ".join(gone + [f"{k}={changes(before[k], v)}" if k in before else f"+{k}={value(v)}"
                                      for k, v in x.items() if k not in before or before[k] != v]) + "}"
    if isinstance(before, list) and isinstance(x, list) and before and len(before) == len(x):
        if all(isinstance(i, dict) for i in before + x):
            return "[" + " ".join(f"{n}:{changes(b, i)}" for n, (b, i) in enumerate(zip(before, x)) if b != i) + "]"
    return value(x)


def show(x, depth, key, out):
    pad = "  " * depth
    if isinstance(x, dict) and x:
        out.append(f"{pad}{key}")
        for k, v in x.items():
            if v is not None and v != []:
                show(v, depth + 1, k, out)
        for word, none in (("null", None), ("empty", [])):
            keys = [k for k, v in x.items() if v == none and isinstance(v, list) == isinstance(none, list)]
            if keys:
                out += textwrap.wrap(f"{word}: {' '.join(keys)}", 100, initial_indent=pad + "  ", subsequent_indent=pad + "    ")
    elif isinstance(x, list) and x and all(isinstance(i, dict) for i in x):
        show(x[0], depth, f"{key} 0 of {len(x)}", out)
        for n, (before, i) in enumerate(zip(x, x[1:]), 1):
            out.append(f"{pad}  {n} {changes(before, i)}")
    else:
        out.append(f"{pad}{key} {value(x)}")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        doc = json.load(f)
    out = []
    show(doc, 0, "inventory", out)
    print("\n".join(out))


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""picture: does a machine's SVG show what its inventory has?

    tests/machines/picture.py INVENTORY SVG     0, or what is missing

Each GPU by its number, one that is lost or not ours by its address, each RDMA device that can be
opened by its name, and nothing drawn outside the picture."""
import json
import sys
import xml.etree.ElementTree as tree


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        doc = json.load(f)
    root = tree.parse(sys.argv[2]).getroot()
    texts = {"".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("}text")}
    wanted = [f"GPU {g['index']}" if g["state"] == "ok" else g["bdf"] for g in doc["gpus"] if g["bdf"]]
    wanted += [r["name"] for r in doc["rdma"] if r["openable"]]
    missing = [w for w in wanted if not any(w == t or w in t.split(", ") for t in texts)]
    wide, high = (float(v) for v in root.get("viewBox").split()[2:])
    for e in root.iter():
        x, y = (float(e.get(k) or 0) for k in ("x", "y"))
        if not (0 <= x <= wide and 0 <= y <= high):
            missing.append(f"{e.tag} at {x},{y} is outside")
    for m in missing:
        print(m)
    return bool(missing)


sys.exit(main())

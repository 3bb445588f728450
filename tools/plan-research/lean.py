#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the table of published runs as it is kept in data/runs: without columns that nothing reads, and with "^"
for a cell that equals the one above it.

    python3 lean.py training_runs.csv >../../data/runs/published.csv
"""
import csv
import sys

UNUSED = {"hfu_pct", "fields_known"}


def main():
    with open(sys.argv[1], newline="") as f:
        rows = list(csv.reader(f))
    keep = [i for i, name in enumerate(rows[0]) if name not in UNUSED]
    rows = [[r[i] for i in keep] for r in rows]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(rows[0])
    above = [None] * len(keep)
    for r in rows[1:]:
        assert "^" not in r, r
        out.writerow(["^" if cell and cell == last else cell for cell, last in zip(r, above)])
        above = r


if __name__ == "__main__":
    main()

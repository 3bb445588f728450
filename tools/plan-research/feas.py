# SPDX-License-Identifier: MIT
"""Fits or not, and the measured speed of the first choice of each cell."""
import json, sys
import numpy as np
import rows, model, mem
from collections import defaultdict
d = rows.load("/work/shared/research/tables/training_runs.csv"); S = rows.sets(d)
C = json.load(open("/tmp/C.json")); M = json.load(open("/tmp/M.json"))
hf = np.char.startswith(d["src"], "HF Ultra")
k = hf & (d["pp"] < d["L"])
q = model.gather(d, k); mm = mem.memory(q, M); ok = q["t"] > 0
print("n", k.sum(), "ok", ok.sum(), "oom", (~ok).sum())
for th in (60, 64, 68, 70, 72, 74, 76, 78, 80, 84, 88):
    p = mm < th
    print(th, "acc %.2f  ok called oom %d  oom called ok %d" % (100*np.mean(p == ok), (ok & ~p).sum(), (~ok & p).sum()))
th = float(sys.argv[1]) if len(sys.argv) > 1 else 76
p = mm < th
bad = p != ok
for keys in (("n",), ("pp",), ("tp",), ("h",), ("b",), ("zero",), ("h", "pp"), ("h","tp"), ("gbs",)):
    g = defaultdict(lambda: [0, 0, 0])
    for i in range(len(mm)):
        z = g[tuple(int(q[x][i]) for x in keys)]; z[0] += 1; z[1] += (ok[i] and not p[i]); z[2] += (not ok[i] and p[i])
    print(keys, {kk: tuple(int(x) for x in v) for kk, v in sorted(g.items())})
R = [d["rows"][i] for i in np.where(k)[0]]
print("oom called ok:")
for i in np.where(~ok & p)[0][:60]:
    print("h%d n%d tp%d pp%d dp%d z%d b%d m%d gbs%d mem %.1f %s" % (*[q[x][i] for x in ("h","n","tp","pp","dp","zero","b","m","gbs")], mm[i], R[i]["notes"]))

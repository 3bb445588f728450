# SPDX-License-Identifier: MIT
"""Fits or not, and the measured speed of the first choice of each cell."""
import json, sys
import numpy as np
import rows, model, mem
from collections import defaultdict
d = rows.load(rows.CSV); S = rows.sets(d)
C = json.load(open("constants-time.json")); M = json.load(open("constants-memory.json"))
hf = np.char.startswith(d["src"], "HF Ultra")
k = hf & (d["pp"] < d["L"])
q = model.gather(d, k); mm = mem.memory(q, M); ok = q["t"] > 0
print("n", k.sum(), "ok", ok.sum(), "oom", (~ok).sum())
mf = mem.memory(q, M, feas=True)
for th in (70, 72, 74, 75, 76, 77, 78, 80):
    p = mm < th; pf = mf < th
    print(th, "acc %.2f (ok called oom %d, oom called ok %d)  with FRAG acc %.2f (%d, %d)" % (100*np.mean(p == ok), (ok & ~p).sum(), (~ok & p).sum(), 100*np.mean(pf == ok), (ok & ~pf).sum(), (~ok & pf).sum()))
allk = ((d["t"] > 0) | (d["oom"] > 0)) & (d["L"] > 0) & (d["h"] > 0) & (d["pp"] < d["L"]) & (d["b"] > 0) & (d["dp"] > 0) & (d["tp"] * d["pp"] * d["cp"] * d["dp"] == d["n"])
r3 = ~(np.char.startswith(d["src"], "Megatron-Bridge") & ((16 * d["params"] * 1e9 > d["n"] * 80 * 2**30)))
allk &= np.array(["?" not in r["recompute"] for r in d["rows"]])
allk &= r3 & ~np.array(["LoRA" in r["notes"] and "packed" in r["notes"] for r in d["rows"]])
qa = model.gather(d, allk)
qa["a"] = np.where(np.isnan(qa["a"]), qa["h"] / 128, qa["a"]); qa["kv"] = np.where(np.isnan(qa["kv"]), qa["a"], qa["kv"]); qa["hd"] = np.where(np.isnan(qa["hd"]), 128, qa["hd"])
cap = np.where(qa["cap40"] > 0, 40.0, qa["gib"]) * 0.95
oka = qa["oom"] == 0
pa = mem.memory(qa, M, feas=True) < cap
print("all sources n %d acc %.2f; ok called oom %d, oom called ok %d" % (allk.sum(), 100*np.mean(pa == oka), (oka & ~pa).sum(), (~oka & pa).sum()))
sa = d["src"][allk]
for sname in sorted(set(sa)):
    mk = sa == sname
    if (pa != oka)[mk].sum(): print("   ", sname[:50], mk.sum(), "wrong", (pa != oka)[mk].sum())
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

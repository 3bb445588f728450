# SPDX-License-Identifier: MIT
"""Measured speed of our first choice over the best measured, by cell (model, GPUs)."""
import json
import numpy as np
import rows, model, mem
from collections import defaultdict
def top1(d, S, C, M, limit=80.0, margin=0.9, risk=1.5, tie=0.02, verbose=False):
    hf = np.char.startswith(d["src"], "HF Ultra") & (d["pp"] < d["L"])
    q = model.gather(d, hf); idx = np.where(hf)[0]
    t = model.time(q, C["H100"]); mm = mem.memory(q, M); ok = q["t"] > 0
    clean = S["hf_clean"][hf]
    fl = q["gbs"] * q["s"] / q["n"]
    out = {}
    for tag, sel in (("clean", clean), ("clean incl. crashed", clean | (~ok & (q["n"] != 512) & (q["gbs"] == 256))), ("all<=256", (q["n"] <= 256))):
        g = defaultdict(list)
        for i in np.where(sel)[0]:
            g[(int(q["h"][i]), int(q["kv"][i]), int(q["n"][i]), int(q["gbs"][i]))].append(i)
        r = []
        crash = 0
        for kk, v in sorted(g.items()):
            v = np.array(v)
            if not ok[v].any(): continue
            f = v[mm[v] < limit * margin]
            if not len(f): f = v
            sp = fl[f] / t[f] / np.where(q["tp"][f] > 8, risk, 1.0)
            near = f[sp >= sp.max() * (1 - tie)]          # as fast as we can tell: take the emptiest
            ch = near[np.argmin(mm[near])]
            best = (fl[v] / np.where(ok[v], q["t"][v], np.inf)).max()
            got = fl[ch] / q["t"][ch] if ok[ch] else 0.0
            crash += not ok[ch]
            r.append(got / best)
            if verbose and got / best < 0.97:
                j = v[np.argmax(fl[v] / np.where(ok[v], q["t"][v], np.inf))]
                ds = lambda i: "tp%d pp%d dp%d z%d b%d t %.2f pred %.2f mem %.0f" % (*[q[x][i] for x in ("tp","pp","dp","zero","b","t")], t[i], mm[i])
                print("  ", tag, kk, "%.2f" % (got / best), "chose", ds(ch), "| best", ds(j))
        out[tag] = (np.mean(r), len(r), crash)
        print("top-1 %-20s mean %.3f median %.3f cells %d crashed %d" % (tag, np.mean(r), np.median(r), len(r), crash))
    return out
if __name__ == "__main__":
    d = rows.load(rows.CSV); S = rows.sets(d)
    C = json.load(open("constants-time.json")); M = json.load(open("constants-memory.json"))
    for mg in (0.92, 0.9, 0.88, 0.85):
        for tie in (0.0, 0.01, 0.02, 0.03, 0.05):
            print(mg, tie); top1(d, S, C, M, margin=mg, tie=tie)

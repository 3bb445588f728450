# SPDX-License-Identifier: MIT
"""Fit on a random two thirds of every set, print the table on the third left out: what unseen rows will see."""
import numpy as np
import rows, model, fit
d = rows.load(rows.CSV); S = rows.sets(d)
rng = np.random.default_rng(7)
acc = {}
for trial in range(3):
    part = rng.random(len(d["t"])) < 2 / 3
    C = {}
    for kind, names in fit.ALL.items():
        T = {k: v & part for k, v in S.items()}
        C[kind], _ = fit.fitkind(d, T, kind, [n for n in names if T[n].sum()])
    for nm in fit.TARGET:
        for tag, k in (("in", S[nm] & part), ("out", S[nm] & ~part)):
            if not k.sum(): continue
            kind = rows.KINDS[int(np.median(d["knd"][k]))]
            e = fit.sc21(d, k, C[kind]) if nm == "sc21" else (lambda q: model.time(q, C[kind]) / q["t"] - 1)(model.gather(d, k))
            acc.setdefault((nm, tag), []).append(100 * (np.median(abs(e)) if nm == "hf_clean8" else np.mean(abs(e))))
for nm in fit.TARGET:
    print("%-16s in %5.2f out %5.2f  at most %s" % (nm, np.mean(acc.get((nm, "in"), [np.nan])), np.mean(acc.get((nm, "out"), [np.nan])), fit.TARGET[nm]))

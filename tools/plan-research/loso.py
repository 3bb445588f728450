# SPDX-License-Identifier: MIT
"""Leave one source out: fit a GPU kind's constants without it, then predict it."""
import numpy as np
import rows, model, fit
d = rows.load(rows.CSV); S = rows.sets(d)
def run(verbose=True):
    out = []
    for kind, names in fit.ALL.items():
        for nm in names:
            c, l = fit.fitkind(d, S, kind, [x for x in names if x != nm])
            k = S[nm] if nm != "hf_clean" else S["hf_clean8"]
            e = fit.sc21(d, k, c) if nm == "sc21" else (lambda q: model.time(q, c) / q["t"] - 1)(model.gather(d, k))
            m, md = 100 * np.mean(abs(e)), 100 * np.median(abs(e))
            out.append((nm, m, md))
            if verbose:
                print("left out %-14s mape %.1f median %.1f bias %.1f" % (nm, m, md, 100 * np.median(e)))
    v = [m for _, m, _ in out]; w = [x for _, _, x in out]
    print("LOSO mape: median %.1f worst %.1f ; by median error: median %.1f worst %.1f" % (np.median(v), max(v), np.median(w), max(w)))
if __name__ == "__main__":
    run()

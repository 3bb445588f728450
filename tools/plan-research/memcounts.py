# SPDX-License-Identifier: MIT
"""The memory model of src/plan/memory/step_memory.c for the Ultra-Scale rows (nanotron), vectorised: counts instead
of the weights mem.py fits.  Prints what each finding is worth, errors on thirds, models and GPU counts
left out (nothing is fitted, so a left-out error is the error of the same constants), and fits or not."""
import numpy as np
import rows, model

GIB = 2.0**30
# what memory.c takes; each can be switched off to see what it is worth
FACTS = ("rank0", "stays", "bucket", "table")


def memory(q, off=(), fits=False, frag=0.01, logit_frag=0.8, low=0.15):
    """GiB: tensors of the first stage (what rank 0 prints), or all of the fullest stage."""
    T = q["b"] * q["s"]
    tp, pp, h, f, z, m, dp = (q[k] for k in ("tp", "pp", "h", "f", "zero", "m", "dp"))
    Q, K = q["a"] * q["hd"], q["kv"] * q["hd"]
    lp = (h * (2 * Q + 2 * K) + 3 * h * f) / tp + 2 * h
    emb = q["V"] * h / tp
    # weights 2, fp32 gradients 4, optimizer 12; 16-bit buckets of gradients where replicas are
    copy = np.where((dp > 1) & ((z == 0) | (m > 1)), 2.0, 0.0)
    if "bucket" in off:
        copy = 2.0 * (z >= 1)
    per = 6 + copy + 12 / np.where(z >= 1, dp, 1)
    # inputs of two norms, of q, k, v and of the MLP; fp32 copies in the norms; q, k, v, output; gate, up, both
    act = (4 * 2 * h + 8 * h + 4 * Q + 4 * K + 8 * f) / tp
    fly = np.where(pp == 1, 1, np.minimum(m, pp))
    one = pp == 1
    ahead = one | (T * h * f / tp**2 > 3e10)      # the host runs ahead of the device
    def stay(sets):
        s = np.where(ahead, sets, np.maximum(sets - 2, 0))
        return np.where((tp > 1) & (tp <= 16), 4 * h * (1 - 1 / tp) * (sets if "stays" in off else s), 0)
    log = 10 * T * q["V"] / tp
    X = emb * (0 if "table" in off else 2)
    send = np.where(tp > 1, 4 * h * T, 0) + np.where(pp > 1, 4 * h * T / tp, 0)
    tail = 4 * h * T / tp                          # the final norm
    first = per * (q["n0"] * lp + emb * np.where(one & (q["tied"] == 0), 2, 1)) + q["n0"] * T * (fly * act + stay(fly)) + X
    first = first + np.where(one, log + tail, 0)
    mid = np.where(pp > 2, per * q["nm"] * lp + q["nm"] * T * (np.minimum(m, pp - 1) * act + stay(np.minimum(m, pp - 1))), 0)
    last = np.where(one, 0, per * (q["nl"] * lp + emb) + q["nl"] * T * (act + stay(1.0)) + log + tail + X)
    fixed = send + (0.1 + 0.1 * (dp > 1)) * GIB
    if not fits:
        top = np.maximum(np.maximum(first, mid), last) if "rank0" in off else first
        return (top + fixed) / GIB
    ctx = 0.7 + 0.3 * ((tp > 1) * 1.0 + (pp > 1) + (dp > 1))
    lf = np.where(m > 1, logit_frag, low)
    each = [np.where(s > 0, (s + fixed) * (1 + frag) + l * lf * log, 0) for s, l in ((first, one), (mid, 0), (last, ~one))]
    return np.max(each, axis=0) / GIB + ctx


def main():
    d = rows.load(rows.CSV)
    S = rows.sets(d)
    q = model.gather(d, S["hf_clean8"])
    big = q["mem"] > 30
    for off in ((),) + tuple((x,) for x in FACTS):
        e = memory(q, off) / q["mem"] - 1
        print("%-16s median %.2f %%, above 30 GiB %.2f, mean %.2f, signed %+.2f" % (
            "without " + off[0] if off else "all facts", 100 * np.median(abs(e)), 100 * np.median(abs(e[big])),
            100 * np.mean(abs(e)), 100 * np.median(e)))
    e = abs(memory(q) / q["mem"] - 1)
    third = np.random.RandomState(1).randint(0, 3, len(e))
    for name, g in (("third", third), ("hidden", q["h"]), ("GPUs", q["n"])):
        print("by %s:" % name, "  ".join("%d: %.2f (%d)" % (v, 100 * np.median(e[g == v]), (g == v).sum()) for v in np.unique(g)))
    a = model.gather(d, np.char.startswith(d["src"], "HF Ultra") & (d["pp"] < d["L"]))
    ok = a["t"] > 0
    right = (memory(a, fits=True) <= 79.6) == ok
    print("fits or not: %.2f %% of %d;" % (100 * right.mean(), len(ok)),
          "  ".join("%d: %.1f" % (v, 100 * right[a["h"] == v].mean()) for v in np.unique(a["h"])))
    odd = (a["zero"] == 0) & (a["pp"] > 1) & (a["dp"] > 1) & (a["n"] > 8)
    print("ZeRO 0 with a pipeline and replicas over nodes: %d ran, %d crashed, of which %d far below the limit" % (
        (odd & ok).sum(), (odd & ~ok).sum(), (odd & ~ok & (memory(a, fits=True) < 65)).sum()))
    lo = []
    for v in np.unique(a["h"]):   # pick the three shares on the other models
        best = max(((((memory(a, (), True, fr, lf, lw) <= 79.6) == ok)[a["h"] != v].mean(), fr, lf, lw)
                    for fr in (0, .01, .02, .03) for lf in (.4, .6, .8, 1) for lw in (0, .15, .3)))
        lo.append(((memory(a, (), True, *best[1:]) <= 79.6) == ok)[a["h"] == v])
    print("shares picked on the other models: %.2f %%" % (100 * np.concatenate(lo).mean()))


if __name__ == "__main__":
    main()

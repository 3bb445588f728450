# SPDX-License-Identifier: MIT
"""Memory of the fullest GPU, vectorised over rows; constants in MC."""
import sys, json
import numpy as np
import rows, model, fit

GIB = 2.0**30
SW = float(__import__("os").environ.get("SW", "0.03"))
MCONST = [
    ("sw", 6.0, SW, "bytes a parameter never sharded: weights and gradients"),
    ("so", 12.0, SW, "bytes a parameter of optimizer, sharded by ZeRO 1"),
    ("sx", 2.0, 0.5, "bytes a parameter more with ZeRO 1"),
    ("ah", 16.0, 0.2, "bytes a token and hidden unit of a layer, sharded by TP"),
    ("af", 6.0, 0.2, "bytes a token and ffn unit of a layer, sharded by TP"),
    ("ar", 4.0, 0.5, "bytes a token and hidden unit of a layer kept whole when TP > 1"),
    ("lg", 12.0, 0.3, "bytes a logit"),
    ("ctx", 0.5, 0.8, "GiB of fixed buffers"),
    ("ex", 4.0, 0.7, "bytes more a parameter of embedding and head"),
]


def memory(q, c, parts=False):
    T = q["b"] * q["s"] / q["cp"]
    tp, pp, h, f = q["tp"], q["pp"], q["h"], q["f"]
    qd, kvd = q["a"] * q["hd"], q["kv"] * q["hd"]
    lp = (h * (qd + 2 * kvd) + qd * h + (2 + q["gated"]) * h * f) / tp + 2 * h
    emb = q["V"] * h / tp
    emx = emb * c["ex"]
    m = q["m"]
    z = q["zero"]
    per = np.where(z >= 1, c["sw"] + c["sx"] + c["so"] / q["dp"], c["sw"] + c["so"])
    act = ((c["ah"] - 12) * h + 4 * (qd + 2 * kvd) + c["af"] * f) / tp + np.where(tp > 1, c["ar"] * h * np.minimum(1, 8 / tp) ** 2, 0)
    lay = T * act
    log = c["lg"] * T * q["V"] / tp
    one = pp == 1
    st_f = per * (q["n0"] * lp + emb * np.where(one & (q["tied"] == 0), 2, 1)) + np.where(one, 1, np.minimum(m, pp)) * q["n0"] * lay + np.where(one, log, 0) + emx
    st_m = np.where(pp > 2, per * q["nm"] * lp + np.minimum(m, pp - 1) * q["nm"] * lay, 0)
    st_l = np.where(one, 0, per * (q["nl"] * lp + emb) + q["nl"] * lay + log + emx)
    return (np.maximum(np.maximum(st_f, st_m), st_l)) / GIB + c["ctx"]


def fitmem(q, w=None):
    x0 = np.array([x[1] for x in MCONST]); wd = np.array([x[2] for x in MCONST]); nm = [x[0] for x in MCONST]
    lt = np.log(q["mem"])
    fun = lambda x: np.log(np.maximum(memory(q, dict(zip(nm, x))), 1e-3)) - lt
    x, l = fit.irls(fun, x0, wd, np.ones(len(lt)) / len(lt) if w is None else w, iters=60)
    return dict(zip(nm, x)), l


if __name__ == "__main__":
    d = rows.load("/work/shared/research/tables/training_runs.csv"); S = rows.sets(d)
    k8 = S["hf_clean8"]; q = model.gather(d, k8)
    c, l = fitmem(model.gather(d, S["hf_clean8"]))
    print(l, {k: float(f"{v:.3g}") for k, v in c.items()})
    e = memory(q, c) / q["mem"] - 1
    print("hf clean8 n=%d median %.2f mape %.2f bias %.1f" % (len(e), 100*np.median(abs(e)), 100*np.mean(abs(e)), 100*np.median(e)))
    b = q["mem"] > 30
    print("  >30 GiB n=%d median %.2f" % (b.sum(), 100*np.median(abs(e[b]))))
    from collections import defaultdict
    for keys in (("tp",), ("pp",), ("zero", "dp"), ("h", "tp"), ("b",), ("tp","pp")):
        g = defaultdict(list)
        for i in range(len(e)): g[tuple(int(q[x][i]) for x in keys)].append(e[i])
        print(keys); 
        for kk, v in sorted(g.items()): print("  ", kk, len(v), "med %.1f  |e| %.1f q10 %.0f q90 %.0f" % (100*np.median(v), 100*np.median(np.abs(v)), 100*np.quantile(v,.1), 100*np.quantile(v,.9)))
    json.dump(c, open("/tmp/M.json", "w"))

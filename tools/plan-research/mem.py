# SPDX-License-Identifier: MIT
"""Memory of the fullest GPU, vectorised over rows; constants in MC."""
import sys, json
import numpy as np
import rows, model, fit

GIB = 2.0**30
FRAG = 1.6
SW = 0.03
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


def memory(q, c, feas=False):
    """GiB of the fullest GPU; feas adds what the allocator loses around the largest buffers."""
    T = q["b"] * q["s"] / q["cp"]
    tp, pp, h, f, z = q["tp"], q["pp"], q["h"], q["f"], q["zero"]
    qd, kvd = q["a"] * q["hd"], q["kv"] * q["hd"]
    gated = q["gated"]
    moe = q["E"] > 0
    share = np.where(moe, q["dl"] / q["L"], 1.0)
    QL, KL = model.QL, model.KL
    pa = np.where(q["mla"] > 0, h * (QL + KL + 64) + QL * 192 * q["a"] + KL * 256 * q["a"] + 128 * q["a"] * h,
                  h * (qd + 2 * kvd) + qd * h)
    pe = (2 + gated) * h * q["fe"]
    lp = (pa + share * (2 + gated) * h * f + (1 - share) * pe * q["sh"]) / tp + 2 * h
    lpe = np.where(moe, (1 - share) * pe * np.maximum(q["E"] / q["ep"], 1), 0)
    emb = q["V"] * h / tp
    emx = emb * np.where(q["nano"] > 0, c["ex"], 0)
    m = q["m"]
    g32 = (q["g32"] > 0) | (q["eager"] == 0)
    dpc = q["dp"] * q["cp"]   # the optimizer is sharded over context ranks as well
    sw = np.where(g32, c["sw"], c["sw"] - 2)   # fp16 gradients take 2 bytes, not 4
    per = np.where(z >= 1, sw + np.where(q["nano"] > 0, c["sx"], 0) + c["so"] / dpc, sw + c["so"])
    per = np.where(z == 2, 2 + 14 / dpc, per)
    per = np.where(z == 3, 16 / dpc, per)
    edp = np.maximum(dpc * tp / q["ep"], 1)
    pere = np.where(z >= 1, sw + c["so"] / edp, sw + c["so"])
    fsdp = np.where(z == 3, 3 * 2 * (lp + lpe) + 2 * emb, 0)      # three gathered layers in bf16
    # activations of a layer
    af = np.where(gated > 0, c["af"], 4.0)
    fw = share * f + (1 - share) * (q["topk"] * q["fe"] + q["sh"] * q["fe"])
    att = np.where(q["mla"] > 0, 4 * 576.0 * q["a"], 4 * (qd + 2 * kvd))
    full = T * ((c["ah"] - 12) * h + att + af * fw + (1 - share) * 4 * q["topk"] * h) / tp
    full = np.where(q["fsdp"] * q["eager"] > 0, T * (4 * h + 2 * (qd + 2 * kvd) + af * fw), full)
    whole = np.where((tp > 1) & (q["sp"] == 0), 10 * (1 - 1 / tp), 0) * h + np.where(
        (tp > 1) & (q["nano"] > 0), c["ar"] * h * np.minimum(1, 8 / tp) ** 2, 0)
    full = full + T * whole
    score = np.where((q["flash"] == 0) & (q["rc"] != 1), 5.0 * q["a"] * q["s"] * T / tp, 0)
    full = full + score
    kept = np.where(q["rc"] == 2, 2 * T * h / np.where(q["sp"] > 0, tp, 1), full)
    work = np.where(q["rc"] == 2, full, 0)
    log = np.where(q["nano"] > 0, c["lg"], np.where(q["fsdp"] + (1 - q["eager"]) > 0, 6.0, 10.0)) * T * q["V"] / tp
    if feas:
        log = log * FRAG
    one = pp == 1
    v = np.maximum(q["vpp"], 1)
    infl = np.where(one, 1, np.minimum(m, pp * np.where(v > 1, 1 + (pp - 1) / (pp * v), 1)))
    infm = np.minimum(m, pp - 1)
    st_f = per * (q["n0"] * lp + emb * np.where(one & (q["tied"] == 0), 2, 1)) + pere * q["n0"] * lpe + infl * q["n0"] * kept + work + np.where(one, log, 0) + emx
    st_m = np.where(pp > 2, per * q["nm"] * lp + pere * q["nm"] * lpe + infm * q["nm"] * kept + work, 0)
    st_l = np.where(one, 0, per * (q["nl"] * lp + emb) + pere * q["nl"] * lpe + q["nl"] * kept + work + log + emx)
    ctx = np.where(q["nano"] > 0, c["ctx"], np.where(q["smi"] > 0, 3.0, 0.2))
    return (np.maximum(np.maximum(st_f, st_m), st_l) + fsdp) / GIB + ctx


def fitmem(q, w=None):
    x0 = np.array([x[1] for x in MCONST]); wd = np.array([x[2] for x in MCONST]); nm = [x[0] for x in MCONST]
    lt = np.log(q["mem"])
    fun = lambda x: np.log(np.maximum(memory(q, dict(zip(nm, x))), 1e-3)) - lt
    x, l = fit.irls(fun, x0, wd, np.ones(len(lt)) / len(lt) if w is None else w, iters=60, prior=0.001)
    return dict(zip(nm, x)), l


if __name__ == "__main__":
    d = rows.load(rows.CSV); S = rows.sets(d)
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
    json.dump({n: float(f"{v:.6g}") for n, v in c.items()}, open("constants-memory.json", "w"), indent=1)
    for nm, k in (("simumax", S["simumax"]), ("bloom", np.char.startswith(d["src"], "BLOOM tr11") & (d["mem"] > 0))):
        q = model.gather(d, k)
        q["a"] = np.where(np.isnan(q["a"]), q["h"] / 128, q["a"]); q["kv"] = np.where(np.isnan(q["kv"]), q["a"], q["kv"]); q["hd"] = np.where(np.isnan(q["hd"]), 128, q["hd"])
        e = memory(q, c) / q["mem"] - 1
        print("%s n=%d median %.2f mape %.2f bias %.1f" % (nm, len(e), 100*np.median(abs(e)), 100*np.mean(abs(e)), 100*np.median(e)))
        for i in range(0, len(e), max(1, len(e)//14)): print("   ", " ".join("%s%g" % (x, q[x][i]) for x in ("h","L","n","tp","pp","dp","cp","ep","b","m")), "meas %.1f pred %.1f" % (q["mem"][i], memory(q, c)[i]))

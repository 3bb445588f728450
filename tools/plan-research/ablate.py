# SPDX-License-Identifier: MIT
"""What each term is worth: the table refitted with one term of the model taken out."""
import sys, types
import numpy as np
import rows, fit

SRC = open("model.py").read()
ROWS = open("rows.py").read()
CUT = {
    "nothing": None,
    "host cost": ("m", "host_f = ops * c[\"host\"] + wait / 3", "host_f = 1e-9 + wait / 3"),
    "wait of PP with TP across nodes": ("m", "c[\"ppx\"] * tp, 0)", "0 * tp, 0)"),
    "gather latency a tensor": ("m", "HOP = 1.5e-4", "HOP = 0.0"),
    "TP and PP overlap of fused stacks": ("m", "hid = np.where(eag, 1.0, 0.25)", "hid = np.where(eag, 1.0, 1.0)"),
    "early stop of recompute": ("m", "\"early\", 1.0", "\"early\", 0.001"),
    "head_dim not a multiple of 8": ("m", "at * 4.0", "at * 1.0"),
    "softmax kernel needs b*heads % 4": ("m", "% 4", "% 4"),
    "EFA share": ("r", "EFA = 0.6", "EFA = 1.0"),
    "Omni-Path share": ("r", "OPA = 0.5", "OPA = 1.0"),
    "GEMM tail wave": ("m", "(1 + c[\"tail\"] / np.maximum(waves, 0.25))", "1.0"),
    "ring pipelined (sum, not max)": ("m", "np.maximum(tx, intra) + lat", "tx + intra + lat"),
    "cost-balanced split": ("r", "if split == \"cost-balanced\":", "if split == \"never\":"),
    "embedding counts as a layer": ("r", "if split == \"embedding-counts-as-layer\"", "if split == \"never\""),
    "contention": ("m", "** -c[\"con\"]", "** -(0 * c[\"con\"])"),
}


def load(name, src):
    m = types.ModuleType(name)
    sys.modules[name] = m
    exec(compile(src, name, "exec"), m.__dict__)
    return m


for tag, cut in CUT.items():
    ms, rs = SRC, ROWS
    if cut:
        if cut[0] == "m":
            assert cut[1] in ms or tag.startswith("softmax"), tag
            ms = ms.replace(cut[1], cut[2])
        else:
            assert cut[1] in rs, tag
            rs = rs.replace(cut[1], cut[2])
    if tag.startswith("softmax"):
        ms = ms.replace("nofuse = (q[\"flash\"] == 0) &", "nofuse = (q[\"flash\"] == 9) &")
    r = load("rows", rs)
    m = load("model", ms)
    fit.model, fit.rows = m, r
    d = r.load(r.CSV)
    S = r.sets(d)
    out = []
    C = {k: fit.fitkind(d, S, k, n)[0] for k, n in fit.ALL.items()}
    for nm in fit.TARGET:
        k = S[nm]
        c = C[r.KINDS[int(np.median(d["knd"][k]))]]
        q = m.gather(d, k)
        e = fit.sc21(d, k, c) if nm == "sc21" else m.time(q, c) / q["t"] - 1
        out.append("%s %.1f" % (nm, 100 * (np.median(abs(e)) if nm == "hf_clean8" else np.mean(abs(e)))))
    print("%-34s %s" % (tag, " ".join(out)), flush=True)

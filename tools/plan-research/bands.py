# SPDX-License-Identifier: MIT
"""Writes data/plan_bands.csv to stdout: where the errors of runs lie whose source the fit had not seen.

    RUNS=training_runs.csv python3 bands.py >../../data/plan_bands.csv

For each kind of GPU and of software the sources that describe it are left out one at a time, their errors
(predicted over measured time, less one) pooled, and the 10th and 90th percentile taken.
"""
import csv
import sys
import numpy as np
import rows, model, fit

GROUPS = [
    ("a100", "no", "megatron", ["vtrain_multi", "bloom", "korthikanti", "sc21"], "vTrain multi-node, BLOOM's sweep, Korthikanti Table 5 and SC'21 Table 1"),
    ("a100", "no", "fsdp", ["foundry_a100"], "llm-foundry A100"),
    ("h100", "no", "megatron", ["nemo2407", "bridge_h100"], "NeMo 24.07 and Megatron-Bridge dense"),
    ("h100", "no", "fsdp", ["foundry_h100"], "llm-foundry H100"),
    ("h100", "yes", "any", ["bridge_h100_moe"], "each model of Megatron-Bridge MoE"),
    ("b200", "no", "any", ["simumax", "bridge_b200"], "SimuMax and Megatron-Bridge dense"),
]
d = rows.load(rows.CSV)
S = rows.sets(d)


def experts():
    """One source has all the H100 runs with experts: each of its models is left out in turn."""
    e, names = [], fit.ALL["H100"]
    for h in np.unique(d["h"][S["bridge_h100_moe"]]):
        k = S["bridge_h100_moe"] & (d["h"] == h)
        c, _ = fit.fitkind(d, {**S, "bridge_h100_moe": S["bridge_h100_moe"] & ~k}, "H100", names)
        q = model.gather(d, k)
        e.append(model.time(q, c) / q["t"] - 1)
    return np.concatenate(e)


def left_out(name):
    if name == "bridge_h100_moe":
        return experts()
    for kind, names in fit.ALL.items():
        if name in names:
            c, _ = fit.fitkind(d, S, kind, [x for x in names if x != name])
            k = S["hf_clean8" if name == "hf_clean" else name]
            if name == "sc21":
                return np.asarray(fit.sc21(d, k, c))
            q = model.gather(d, k)
            return model.time(q, c) / q["t"] - 1
    raise KeyError(name)


w = csv.writer(sys.stdout, lineterminator="\n")
w.writerow(["gpu", "moe", "stack", "p10", "p90", "n", "source"])
for gpu, moe, stack, names, what in GROUPS:
    e = np.concatenate([left_out(n) for n in names])
    w.writerow([gpu, moe, stack, *("%.1f" % (100 * np.quantile(e, x)) for x in (0.1, 0.9)), len(e), what + ", each left out of the fit" if len(names) > 1 else what + " left out of the fit"])
e = [left_out(n) for names in fit.ALL.values() for n in names]
w.writerow(["any", "any", "any", "%.1f" % (100 * min(np.quantile(x, 0.1) for x in e)), "%.1f" % (100 * max(np.quantile(x, 0.9) for x in e)), sum(map(len, e)),
            "the widest of all sources left out of the fit: nothing like it is among the published runs"])

# SPDX-License-Identifier: MIT
"""The whole of it: fit, then the accuracy table (set, n, ours, best known, at most)."""
import io, json, contextlib
import numpy as np
import rows, model, fit, mem, top1

NAME = {"korthikanti": "Korthikanti Table 5, time MAPE", "sc21": "SC'21 Table 1, time", "vtrain_multi": "vTrain multi-node, time",
        "vtrain_single": "vTrain single node, time", "bloom": "BLOOM sweep, time", "foundry_a100": "llm-foundry A100, time",
        "foundry_h100": "llm-foundry H100, time", "nemo2407": "NeMo 24.07, time", "bridge_h100": "Megatron-Bridge H100 dense, time",
        "hf_mfu20": "HF above 20 % MFU, time", "hf_clean8": "HF clean TP <= 8, median", "bridge_h100_moe": "Megatron-Bridge H100 MoE, time",
        "simumax": "SimuMax B200, time"}


def line(name, n, ours, best, most, ok):
    print(f"| {name:40s} | {n:4d} | {ours:8s} | {best:22s} | {most:5s} | {'yes' if ok else 'NO'} |")


def main():
    d = rows.load(rows.CSV)
    S = rows.sets(d)
    C = {}
    for kind, names in fit.ALL.items():
        C[kind], _ = fit.fitkind(d, S, kind, names)
    q8 = model.gather(d, S["hf_clean8"])
    M, _ = mem.fitmem(q8)
    print("| set | n | ours | best known | at most | holds |\n|---|---|---|---|---|---|")
    for nm, title in NAME.items():
        k = S[nm]
        c = C[rows.KINDS[int(np.median(d["knd"][k]))]]
        if nm == "sc21":
            e = fit.sc21(d, k, c)
        else:
            q = model.gather(d, k)
            e = model.time(q, c) / q["t"] - 1
        v = 100 * (np.median(abs(e)) if nm == "hf_clean8" else np.mean(abs(e)))
        line(title, int(k.sum()), f"{v:.2f} %", fit.BEST.get(nm, "-"), f"{fit.TARGET[nm]}", v <= fit.TARGET[nm])
    e = mem.memory(q8, M) / q8["mem"] - 1
    b = q8["mem"] > 30
    v, w = 100 * np.median(abs(e)), 100 * np.median(abs(e[b]))
    line("memory, HF clean TP <= 8, median", len(e), f"{v:.2f} %", "(quick 6.0)", "5", v <= 5)
    line("memory, rows above 30 GiB, median", int(b.sum()), f"{w:.2f} %", "-", "7", w <= 7)
    with contextlib.redirect_stdout(io.StringIO()):
        t = top1.top1(d, S, C, M)
    line("top-1, clean", t["clean"][1], f"{t['clean'][0]:.3f}", "(quick .96)", "0.97", t["clean"][0] >= 0.97)
    line("top-1, all up to 256 GPUs", t["all<=256"][1], f"{t['all<=256'][0]:.3f}", "(quick .91)", "0.94", t["all<=256"][0] >= 0.94)


if __name__ == "__main__":
    main()

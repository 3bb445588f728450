# SPDX-License-Identifier: MIT
"""Reads a table of published training runs into arrays, one value a row, with the traps of each
column handled in one place, and names the sets the accuracy table is printed for."""
import csv
import math
import os
import re
import numpy as np

CSV = os.environ.get("RUNS", os.path.join(os.path.dirname(__file__), "../../data/runs/published.csv"))  # published runs

GPU = {  # name -> (kind, peak bf16 TFLOP/s, fp8 factor, HBM bytes/s, memory GiB, SMs, NVLink B/s)
    "A100": (312e12, 1.0, 2.039e12, 80.0, 108, 300e9),
    "H100": (989e12, 2.0, 3.35e12, 80.0, 132, 450e9),
    "B200": (2250e12, 2.0, 8.0e12, 180.0, 148, 900e9),
    "B300": (2250e12, 2.0, 8.0e12, 270.0, 148, 900e9),
    "GB200": (2500e12, 2.0, 8.0e12, 186.0, 152, 900e9),
    "GB300": (2500e12, 2.0, 8.0e12, 277.0, 152, 900e9),
}
KINDS = list(GPU)


def num(x):
    """First number of a cell, NaN when there is none: '51200?' is 51200, 'n/a' is NaN."""
    m = re.match(r"\s*~?([0-9.]+)(K?)", x or "")
    if not m:
        return math.nan
    return float(m.group(1)) * (1024 if m.group(2) else 1)


def kind_of(hw):
    for k in ("GB300", "GB200", "B300", "B200", "H100", "A100"):
        if k in hw:
            return k
    return ""


EFA = 0.6  # EFA is no RDMA fabric: its share of what InfiniBand reaches at the same line rate
OPA = 0.5  # Omni-Path moves GPU memory through the host: half its line rate


def nodes_bw(hw):
    """Bytes/s of network a GPU has by what the hardware column states; 0 when it states nothing."""
    m = re.search(r"(\d+)x(\d+)Gb", hw)
    if m:
        return int(m.group(1)) * int(m.group(2)) / 8 * 1e9 / 8
    m = re.search(r"(\d+) Omni-Path (\d+)Gb/s", hw)
    if m:
        return OPA * int(m.group(1)) * int(m.group(2)) / 8 * 1e9 / 8
    m = re.search(r"(\d+)x(\d+)GB/s", hw)
    if m:
        return int(m.group(1)) * int(m.group(2)) * 1e9 / 8
    m = re.search(r"(\d+)Gb/s", hw)
    if m:
        return int(m.group(1)) / 8 * 1e9 / 8
    if "EFA" in hw:
        return EFA * 50e9  # p5: 3200 Gb/s a node
    return 0.0


def zero_of(z):
    z = z.strip()
    if "(0)" in z:
        return 1
    if "FULL_SHARD" in z or z.startswith("FSDP") and "GRAD" not in z or z == "3":
        return 3
    if "SHARD_GRAD" in z or z == "ZeRO-2" or z == "2":
        return 2
    if z.startswith("dist-opt") or z == "1" or "ZeRO-1" in z:
        return 1
    return 0


def moe_of(cell, model, r):
    """experts, top-k, expert ffn, shared experts, dense layers."""
    m = re.match(r"(\d+) experts top(\d+) ffn(\d+)", cell)
    if m:
        sh = re.search(r"\+(\d+) shared", cell)
        de = re.search(r"(\d+) dense layers", cell)
        return (int(m[1]), int(m[2]), int(m[3]), int(sh[1]) if sh else 0, int(de[1]) if de else 0)
    return (0, 0, 0, 0, 0)


F = ("L h a kv hd f gated V E topk fe sh dl mla s n tp pp vpp cp ep dp b gbs m zero sp rc fp8 bw "
     "tied eager flash ovl split fsdp t mem oom knd params mfu amp40 nano g32 smi cap40").split()


def stage_layers(L, pp, split, h, f, a, hd, kv, gated, V):
    """layers on the first, the busiest middle and the last stage."""
    L, pp = int(L), int(pp)
    if pp == 1:
        return L, 0, L
    if split == "cost-balanced":
        lay = (a * hd + 2 * kv * hd + a * hd) * h + (3 if gated else 2) * f * h
        hc = V * h / lay
        best = None
        for nl in range(0, L + 1):
            k = -(-(L - nl) // (pp - 1))
            cost = max(k, hc + nl)
            if best is None or cost < best[0]:
                best = (cost, k, nl)
        return best[1], best[1] if pp > 2 else 0, best[2]
    if split == "embedding-counts-as-layer" and (L + 2) % pp == 0:
        k = (L + 2) // pp
        return k - 1, k if pp > 2 else 0, k - 1
    if split.startswith("first-and-last") and L % pp:
        if (L + 2) % pp == 0:
            k = (L + 2) // pp
            return k - 1, k if pp > 2 else 0, k - 1
    k = L // pp
    rem = L - k * pp
    c = [k + (1 if i < rem else 0) for i in range(pp)]
    if rem:
        c = c[::-1] if False else c
        # spare layers go to the middle
        c = [k] * pp
        mid = sorted(range(pp), key=lambda i: abs(i - (pp - 1) / 2))
        for i in mid[:rem]:
            c[i] += 1
    return c[0], max(c[1:-1] + [0]), c[-1]


def load(path):
    rows = list(csv.DictReader(open(path)))
    for above, row in zip(rows, rows[1:]):  # "^" is what stands above
        row.update({k: above[k] for k, v in row.items() if v == "^"})
    out = {k: np.full(len(rows), np.nan) for k in F}
    for k in ("n0", "nm", "nl"):
        out[k] = np.zeros(len(rows))
    src = []
    for i, r in enumerate(rows):
        k = kind_of(r["hardware"])
        out["knd"][i] = KINDS.index(k) if k else -1
        src.append(r["source"])
        L, h, a = num(r["layers"]), num(r["hidden"]), num(r["heads"])
        mla = r["kv_heads"] == "MLA"
        kv = a if mla else num(r["kv_heads"])
        if r["source"].startswith("BLOOM") and math.isnan(a):
            pass
        f, V = num(r["ffn"]), num(r["vocab"])
        E, tk, fe, sh, dl = moe_of(r["moe"], r["model"], r)
        if not E and mla and "DeepSeek-V2" in r["model"]:  # reduced layers: the public config
            E, tk, fe, sh, dl = 160, 6, 1536, 2, 1
        if not E and mla and "DeepSeek-V3" in r["model"]:
            E, tk, fe, sh, dl = 256, 8, 2048, 1, 1
        hd = 128.0 if mla else (128.0 if r["model"].startswith("Qwen3") else
                                64.0 if r["model"].startswith("GPT OSS") else
                                (h / a if a == a else math.nan))
        s, n = num(r["seq_len"]), num(r["gpus"])
        one = lambda x: 1.0 if math.isnan(num(x)) else num(x)
        tp, pp, vpp, cp = one(r["tp"]), one(r["pp"]), one(r["vpp"]), one(r["cp"])
        ep, dp = one(r["ep"]), num(r["dp"])
        b, gbs, ga = num(r["micro_batch"]), num(r["global_batch"]), num(r["grad_acc"])
        m = gbs / (dp * b)
        if r["framework"] == "torch-fsdp" and ga == ga:
            m = ga
        t = num(r["iter_time_s"])
        tok = num(r["tok_s_gpu"])
        if math.isnan(t) and tok > 0:
            t = gbs * s / (n * tok)
        P = 12 * L * h * h * (1 + s / (6 * h) + V / (16 * L * h)) if L == L else math.nan
        if math.isnan(t) and r["source"].startswith("Narayanan"):
            t = 8 * gbs * s * P / (n * num(r["tflops_gpu"]) * 1e12)
        if math.isnan(t) and r["source"].startswith("Korthikanti"):
            q = re.search(r"iteration time ([0-9.]+) s", r["notes"])
            t = float(q[1]) if q else t
        mem = num(r["mem_gib"])
        if r["mem_kind"].startswith("GB, nvidia"):
            pass
        zero = zero_of(r["zero"])
        rc = {"full": 2, "sele": 1}.get(r["recompute"][:4], 0)
        gated = 1.0 if r["mlp"] == "swiglu" else 0.0
        fp8 = 1.0 if re.search("fp8|FP8|FP4", r["precision"], re.I) else 0.0
        vals = dict(L=L, h=h, a=a, kv=kv, hd=hd, f=f, gated=gated, V=V, E=E, topk=tk, fe=fe, sh=sh,
                    dl=dl, mla=float(mla), s=s, n=n, tp=tp, pp=pp, vpp=vpp, cp=cp, ep=ep, dp=dp,
                    b=b, gbs=gbs, m=m, zero=zero, sp=float(r["seq_par"].startswith("yes") and tp > 1),
                    rc=rc, fp8=fp8, bw=nodes_bw(r["hardware"]),
                    tied=float("untied" not in r["notes"] and not
                               (gated and r["framework"] == "megatron")),
                    eager=float(r["kernels"] == "eager"), flash=float(r["attn"] == "flash"),
                    ovl=float(r["dp_overlap"] == "yes"),
                    fsdp=float(r["framework"] == "torch-fsdp" or r["zero"].startswith("FSDP")),
                    t=t, mem=mem, oom=float("OOM" in r["notes"]), params=num(r["params_b"]),
                    mfu=num(r["mfu_pct"]), amp40=float("amp" in r["precision"]),
                    nano=float(r["framework"] == "nanotron"),
                    smi=float("smi" in r["mem_kind"]), cap40=float("40GB" in r["hardware"]),
                    g32=float("fp32 grad" in r["precision"] or "BF16_Opt" in r["precision"]))
        vals["split"] = 0
        for kk, v in vals.items():
            out[kk][i] = v
        if L == L and L > 0 and V == V and h == h:
            out["n0"][i], out["nm"][i], out["nl"][i] = stage_layers(
                L, pp, r["stage_split"], h, f, a if a == a else h / 128, hd if hd == hd else 128,
                kv if kv == kv else h / 128, gated, V)
    out["src"] = np.array(src)
    out["rows"] = rows
    return out


def sets(d):
    """The sets of the accuracy table, as boolean masks over the rows."""
    src, rows = d["src"], d["rows"]
    S = lambda p: np.char.startswith(src, p)
    ok = (d["t"] > 0) & (d["L"] > 0) & (d["h"] > 0) & (d["a"] > 0) & (d["b"] > 0) & (d["dp"] > 0)
    r6 = d["tp"] * d["pp"] * d["cp"] * d["dp"] == d["n"]
    note = np.array([r["notes"] + " " + r["model"] for r in rows])
    r5 = ~np.array([("LoRA" in x and "packed" in x) or "MegaScale rows" in x or
                    x.endswith("530B MegaScale") for x in note])
    gib = np.array([GPU[KINDS[int(k)]][3] if k >= 0 else 0 for k in d["knd"]])
    r3 = ~(S("Megatron-Bridge") & (16 * d["params"] * 1e9 > d["n"] * gib * 2**30))
    base = ok & r5 & r6 & r3
    nodes = np.ceil(d["n"] / 8)
    hf = S("HF Ultra") & (d["t"] > 0)
    tmb = d["t"] / d["m"]
    # measured MFU is rounded to 0.1: the time at a given MFU follows from it
    fl = (6 * d["params"] * 1e9 + 12 * d["L"] * d["h"] * d["s"]) * d["gbs"] * d["s"]
    t_at = lambda x: fl / (d["n"] * 989e12 * x) / d["m"]
    lim = np.where(d["tp"] > 8, t_at(0.03), t_at(0.20)) + 0.5
    stall = (nodes > 1) & ((d["pp"] > 1) | (d["tp"] > 8)) & (tmb > lim)
    clean = hf & (d["n"] != 512) & (d["gbs"] == 256) & ~stall
    moe = d["E"] > 0
    kd = lambda k: d["knd"] == KINDS.index(k)
    return {
        "korthikanti": base & S("Korthikanti") & ~np.array(["DP8" in x for x in note]),
        "sc21": ok_sc(d) & S("Narayanan et al. 2021 (arXiv"),
        "vtrain_multi": base & S("vTrain MICRO24 ground truth multi"),
        "vtrain_single": base & S("vTrain MICRO24 ground truth single"),
        "bloom": base & S("BLOOM tr11"),
        "foundry_a100": base & S("MosaicML") & kd("A100"),
        "foundry_h100": base & S("MosaicML") & kd("H100"),
        "nemo2407": base & np.array(["24.07" in x for x in src]),
        "bridge_h100": base & S("Megatron-Bridge") & kd("H100") & ~moe,
        "hf_mfu20": hf & (d["mfu"] > 20),
        "hf_clean8": clean & (d["tp"] <= 8),
        "hf_clean": clean,
        "hf_all": hf,
        "bridge_h100_moe": base & S("Megatron-Bridge") & kd("H100") & moe,
        "simumax": base & S("SimuMax"),
        "bridge_b200": base & S("Megatron-Bridge") & kd("B200") & ~moe,
    }


def ok_sc(d):
    return (d["t"] > 0) & (d["L"] > 0) & (d["h"] > 0)


if __name__ == "__main__":
    d = load(CSV)
    for k, v in sets(d).items():
        print(k, v.sum())

# SPDX-License-Identifier: MIT
"""The model once more, one row at a time and written from MODEL.md, as C will have it: held against
the vectorised one on every row, and the source of golden.csv."""
import csv, json, math
import numpy as np
import rows, model, mem

GIB = 2.0**30


def pmax(x, y, p=10.0):
    M = max(x, y)
    return M * ((x / M) ** p + (y / M) ** p) ** (1 / p)


def gemm(r, c, M, N, K, head=False):
    Mp, Np = 128 * math.ceil(M / 128), 128 * math.ceil(N / 128)
    waves = Mp * Np / (128 * 256) / r["sms"]
    rate = r["peak"] * c["gemm"] * (r["f8"] * c["fp8"] if r["fp8"] and not head else 1)
    tg = 2 * Mp * Np * K / rate * (1 + c["k0"] / K) * (1 + c["tail"] / max(waves, 0.25))
    return pmax(tg, 2 * (M * N + N * K + M * K) / (r["hbmr"] * c["hbm"]))


def ring(r, c, S, g, span, ar, tpl=False):
    if g <= 1:
        return 0.0
    dom, nvl = r["dom"], r["nvlr"] * c["nvl"]
    if span <= 1:
        return ar * ((g - 1) / g * S / nvl + c["nlat"] * (1 + g / 4))
    i, p = min(max(g / span, 1), dom), min(g / span, dom)
    rate = r["bwr"] * c["net"] * (max(span, 2) / 2) ** -c["con"] * (c["agx"] if ar == 1 else 1)
    tx = (span - 1) / span * S / (dom * (p / dom) ** c["nicp"]) / rate
    ti = (i - 1) / i * S / nvl
    lat = c["xlat"] * g if tpl else 40e-6 * math.log2(span)
    return ar * (max(tx, ti) + lat + c["nlat"])


def step_time(r, c):
    h, f, tp, pp, L, V, dp = r["h"], r["f"], r["tp"], r["pp"], r["L"], r["V"], r["dp"]
    T, Q, K = r["b"] * r["s"] / r["cp"], r["a"] * r["hd"], r["kv"] * r["hd"]
    dom, hbm, nvl = r["dom"], r["hbmr"] * c["hbm"], r["nvlr"] * c["nvl"]
    nodes, gm, E = math.ceil(r["n"] / dom), 1 + r["gated"], r["E"]
    x = r["dl"] / L if E > 0 else 1.0
    prof = 3 if not r["eager"] else 2 if r["nano"] else 1 if r["fsdp"] else 0
    mlp = gemm(r, c, T, gm * f / tp, h) + gemm(r, c, T, h, f / tp)
    exch, loc, ex = 0.0, 0.0, 0.0
    if r["mla"]:
        g = (gemm(r, c, T, 1536 + 512 + 64, h) + gemm(r, c, T, 192 * r["a"] / tp, 1536)
             + gemm(r, c, T, 256 * r["a"] / tp, 512) + gemm(r, c, T, h, 128 * r["a"] / tp))
        la = h * (1536 + 512 + 64) + 1536 * 192 * r["a"] + 512 * 256 * r["a"] + 128 * r["a"] * h
        F = 2 * r["s"] * T * r["a"] * 320 / tp
    else:
        g = gemm(r, c, T, (Q + 2 * K) / tp, h) + gemm(r, c, T, h, Q / tp)
        la = h * (Q + 2 * K) + Q * h
        F = 4 * r["s"] * T * Q / tp
    wide = 0.0
    if E > 0:
        fe, k = r["fe"], r["topk"]
        rt, loc = T * k / tp, max(E / r["ep"], 1)
        n_rows = loc * 128 * math.ceil(max(rt / loc, 1) / 128)
        ex = (gemm(r, c, n_rows, gm * fe, h) + gemm(r, c, n_rows, h, fe)) / c["moe"]
        if r["sh"]:
            fs = r["sh"] * fe
            ex += gemm(r, c, T, gm * fs / tp, h) + gemm(r, c, T, h, fs / tp)
        wide = k * fe + r["sh"] * fe
        if r["ep"] > 1:
            es = max(1, math.ceil(r["ep"] * tp / dom))
            inside = 2 * rt * h * (r["ep"] - 1) / r["ep"] / nvl
            hit = es * (1 - (1 - 1 / es) ** k)
            outside = 2 * T / tp * h * hit * (es - 1) / es / (r["bwr"] * c["net"])
            exch = (1 - x) * (max(inside, (1.0 if r["eager"] else 0.25) * outside) + c["nlat"] * r["ep"] / 4)
    g += x * mlp + (1 - x) * ex
    nf = (not r["flash"]) and (r["b"] * r["a"] / tp) % 4 != 0
    if r["flash"]:
        at = 0.5 * F / (r["peak"] * c[("at_nano", "at_fsdp", "at_nano", "at_fused")[prof]])
    else:
        at = F / (r["peak"] * c["attn"]) + c["smb"] * (2 if nf else 1) * T * r["s"] * r["a"] / tp / hbm
        at *= 4 if r["hd"] % 8 != 0 else 1
    e = c[("el_meg", "el_fsdp", "el_nano", "el_fused")[prof]]
    el = 2 * e * T * (18 * h / (tp if r["sp"] else 1) + 2 * (Q + 2 * K) / tp
                      + (5 + 3 * r["gated"]) * (x * f + (1 - x) * wide) / tp + (1 - x) * 8 * r["topk"] * h / tp) / hbm
    H = 1.0 if r["eager"] else 0.25
    full_ar = ring(r, c, 2 * T * h, tp, math.ceil(tp / dom), 2, True)
    ar = H * full_ar
    far = tp * r["cp"] > dom  # keys and values of the other ranks come round a ring
    kvw = r["a"] * 320 if r["mla"] else 2 * K
    cpt = H * (r["cp"] - 1) * (2 * T * kvw / tp / (r["bwr"] * c["net"] if far else nvl) + (40e-6 if far else c["nlat"]))
    dev_f = g + at + el + 2 * ar + 2 * exch + cpt
    dev_b = 2 * g + (2.5 if r["flash"] else 2) * at + 2 * el + 2 * ar + (ar if r["sp"] else 0) + 2 * exch + 2 * cpt
    ops = (40 + c["hosttp"] * math.log2(tp) + 20 * nf + 40 * (1 - x)) * (1 if r["eager"] else c["fuse"])
    W = c["ppx"] * tp if r["nano"] and pp > 1 and nodes > 1 and tp > 1 else 0.0
    lf = pmax(dev_f, ops * c["host"] + W / 3, c["corner"]) + (1 - x) * c["msync"]
    lb = pmax(dev_b, c["hostb"] * ops * c["host"] + W * 2 / 3, c["corner"]) + (1 - x) * c["msync"]
    if r["rc"] == 2:
        lb += lf - (c["early"] * gemm(r, c, T, h, f / tp) if r["fsdp"] else 0)
    if r["rc"] == 1:
        lb += at
    lay = lf + lb
    head = 3 * gemm(r, c, T, V / tp, h, True) + (c["lossb"] if r["eager"] else 20) * T * V / tp / hbm + full_ar
    emb = 12 * T * h / hbm + full_ar
    n0, nm, nl, m, v = r["n0"], r["nm"], r["nl"], r["m"], max(r["vpp"], 1)
    if pp == 1:
        p2p, mx = 0.0, n0 * lay + emb + head + c["mb"]
        tot = mx
    else:
        far = r["bwr"] * c["net"] * (max(nodes, 2) / 2) ** -c["pcon"]
        p2p = 2 * T * h / tp / (far if nodes > 1 else nvl) + (40e-6 if nodes > 1 else c["nlat"])
        p2p = H * (p2p + (0 if r["sp"] else 2 * T * h * (1 - 1 / tp) / nvl))
        mx = max(n0 * lay + emb, nm * lay, nl * lay + head) + c["mb"] + p2p
        tot = L * lay + emb + head + pp * (c["mb"] + p2p)
    pipe = m * mx + (tot - mx) / v + ((v - 1) * m * p2p if v > 1 else 0)
    lp = (la + x * (2 + r["gated"]) * h * f + (1 - x) * (2 + r["gated"]) * h * r["fe"] * r["sh"]) / tp
    le = (1 - x) * (2 + r["gated"]) * h * r["fe"] * loc
    lm = max(n0, nm, nl)
    P = lm * lp + V * h / tp * (2 if pp == 1 and not r["tied"] else 1)
    all_dp = dp * r["cp"]  # context-parallel ranks share weights
    edp = max(all_dp * tp / r["ep"], 1)
    D = P + (lm * le if edp > 1 else 0)
    z, dpt = r["zero"], 0.0
    if all_dp > 1:
        span = min(max(math.ceil(all_dp * tp / dom), 1), all_dp)
        N = L + 1 if r["fsdp"] else 9 * max(n0, nm) + 2 if r["eager"] else 4
        ag = ring(r, c, 2 * D, all_dp, span, 1) + (1.5e-4 * N if span > 1 else 0)
        gb = 4 if r["g32"] else 2
        if z == 3:
            per, comp = 3 * ag, lm * lay
            dpt = m * (max(per - comp, 0) + (1 - min(c["ovl"], 1)) * min(per, comp))
        else:
            red = ring(r, c, gb * D, all_dp, span, 1 if z >= 1 and r["ovl"] else 2)
            if z == 0 and r["nano"] and pp > 1 and span > 1:
                red += 2 * c["xlat"] * all_dp * N
            if not (z >= 1 and r["nano"]):
                red = max(red - (c["ovl"] * nl * lb if r["ovl"] else 0), 0.05 * red)
            agt = 0.0
            if z >= 1:
                agt = max(ag - c["ovl"] * n0 * lf, 0.05 * ag) if r["ovl"] and not r["nano"] else ag
            dpt = red + agt
    opt = 30 * (P / (all_dp if z >= 1 else 1) + lm * le / (edp if z >= 1 else 1)) / hbm
    t = pipe + dpt + opt + c["step"]
    cap = (40 if r["cap40"] else r["gib"]) * GIB
    return t * 1.13 if z == 3 and 16 * P / all_dp > 0.5 * cap else t


def memory(r, c, feas=False):
    h, f, tp, pp, L, V, z = r["h"], r["f"], r["tp"], r["pp"], r["L"], r["V"], r["zero"]
    T, Q, K, gated, N = r["b"] * r["s"] / r["cp"], r["a"] * r["hd"], r["kv"] * r["hd"], r["gated"], r["nano"]
    x = r["dl"] / L if r["E"] > 0 else 1.0
    la = h * (1536 + 512 + 64) + 1536 * 192 * r["a"] + 512 * 256 * r["a"] + 128 * r["a"] * h if r["mla"] else h * (Q + 2 * K) + Q * h
    pe = (2 + gated) * h * r["fe"]
    lp = (la + x * (2 + gated) * h * f + (1 - x) * pe * r["sh"]) / tp + 2 * h
    le = (1 - x) * pe * max(r["E"] / r["ep"], 1) if r["E"] > 0 else 0.0
    emb, dpc = V * h / tp, r["dp"] * r["cp"]
    sw = c["sw"] if r["g32"] or not r["eager"] else c["sw"] - 2
    per = {0: sw + c["so"], 1: sw + (c["sx"] if N else 0) + c["so"] / dpc, 2: 2 + 14 / dpc, 3: 16 / dpc}[int(z)]
    edp = max(dpc * tp / r["ep"], 1)
    pere = sw + c["so"] / edp if z >= 1 else sw + c["so"]
    af = c["af"] if gated else 4.0
    fw = x * f + (1 - x) * (r["topk"] * r["fe"] + r["sh"] * r["fe"])
    full = T * ((c["ah"] - 12) * h + (4 * 576 * r["a"] if r["mla"] else 4 * (Q + 2 * K)) + af * fw + (1 - x) * 4 * r["topk"] * h) / tp
    if r["fsdp"] and r["eager"]:
        full = T * (4 * h + 2 * (Q + 2 * K) + af * fw)
    if tp > 1 and not r["sp"]:
        full += T * h * 10 * (1 - 1 / tp)
    if tp > 1 and N:
        full += T * h * c["ar"] * min(1, 8 / tp) ** 2
    if not r["flash"] and r["rc"] != 1:
        full += 5 * r["a"] * r["s"] * T / tp
    kept, work = (2 * T * h / (tp if r["sp"] else 1), full) if r["rc"] == 2 else (full, 0.0)
    log = (c["lg"] if N else 6 if r["fsdp"] or not r["eager"] else 10) * T * V / tp * (1.6 if feas else 1)
    n0, nm, nl, m, v = r["n0"], r["nm"], r["nl"], r["m"], max(r["vpp"], 1)
    X = c["ex"] * emb if N else 0.0
    if pp == 1:
        top = per * (n0 * lp + emb * (1 if r["tied"] else 2)) + pere * n0 * le + n0 * kept + work + log + X
    else:
        fly = min(m, pp * (1 + (pp - 1) / (pp * v) if v > 1 else 1))
        top = max(per * (n0 * lp + emb) + pere * n0 * le + fly * n0 * kept + work + X,
                  per * nm * lp + pere * nm * le + min(m, pp - 1) * nm * kept + work if pp > 2 else 0,
                  per * (nl * lp + emb) + pere * nl * le + nl * kept + work + log + X)
    if z == 3:
        top += 6 * (lp + le) + 2 * emb
    return top / GIB + (c["ctx"] if N else 3.0 if r["smi"] else 0.2)


def main():
    d = rows.load(rows.CSV)
    C, M = json.load(open("constants-time.json")), json.load(open("constants-memory.json"))
    keep = (d["L"] > 0) & (d["h"] > 0) & (d["a"] > 0) & (d["b"] > 0) & (d["dp"] > 0) & (d["m"] > 0) & (d["V"] > 0) & (d["knd"] >= 0)
    q = model.gather(d, keep)
    idx = np.where(keep)[0]
    kinds = [rows.KINDS[int(k)] for k in q["knd"]]
    want = {k: model.time(q, c) for k, c in C.items()}
    wm, wf = mem.memory(q, M), mem.memory(q, M, True)
    worst, out = [0.0, 0.0, 0.0], []
    names = [k for k in q if k != "src" and q[k].dtype.kind in "fi"]
    for i in range(len(idx)):
        r = {k: float(q[k][i]) for k in names}
        ck = kinds[i] if kinds[i] in C else "B200"
        t, g, gf = step_time(r, C[ck]), memory(r, M), memory(r, M, True)
        worst = [max(worst[0], abs(t / want[ck][i] - 1)), max(worst[1], abs(g / wm[i] - 1)), max(worst[2], abs(gf / wf[i] - 1))]
        if i % 41 == 0 or (r["E"] > 0 and i % 7 == 0):
            out.append([int(idx[i]) + 2, ck, "%.9g" % t, "%.9g" % g, "%.9g" % gf])
    print("rows", len(idx), "largest relative difference: time %.1e memory %.1e fits %.1e" % tuple(worst))
    with open("golden.csv", "w", newline="") as fo:
        w = csv.writer(fo, lineterminator="\n")
        w.writerow(["line_of_training_runs", "constants", "time_s", "memory_gib", "memory_fits_gib"])
        w.writerows(out)
    print("golden rows", len(out))


if __name__ == "__main__":
    main()

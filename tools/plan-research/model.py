# SPDX-License-Identifier: MIT
"""Time of a training step, vectorised over rows; c is a dict of constants of one GPU kind."""
import numpy as np
from rows import GPU, KINDS

# name, start value, prior width (log units), meaning
CONST = [
    ("gemm", 0.75, 0.15, "share of peak a large GEMM reaches"),
    ("k0", 60.0, 1.0, "K at which a GEMM loses half its rate to prologue and epilogue"),
    ("attn", 0.5, 0.4, "share of peak of the unfused attention products (full square)"),
    ("at_nano", 0.38, 0.3, "share of peak of flash attention (causal half), eager stack"),
    ("at_fsdp", 0.25, 0.3, "the same, torch-fsdp stack"),
    ("at_fused", 0.5, 0.3, "the same, fused stack"),
    ("hbm", 0.85, 0.3, "share of HBM rate of memory-bound operators"),
    ("host", 18e-6, 0.4, "host seconds an operation of an eager layer"),
    ("nvl", 0.7, 0.3, "share of NVLink rate of a collective"),
    ("nlat", 12e-6, 0.5, "seconds a collective in a node, and a quarter of it a rank"),
    ("net", 0.6, 0.4, "share of network rate of a collective"),
    ("xlat", 20e-6, 0.7, "seconds a rank of a tensor-parallel collective across nodes"),
    ("ovl", 0.7, 0.4, "share of the backward pass that hides data-parallel traffic"),
    ("step", 8e-3, 1.2, "fixed seconds a step"),
    ("mb", 0.9e-3, 0.8, "fixed seconds a micro-batch and stage"),
    ("ppx", 1e-3, 1.0, "seconds per (tp-1), layer and micro-batch of PP across nodes"),
    ("fuse", 0.5, 0.4, "operations of a fused layer over eager"),
    ("fp8", 0.78, 0.2, "fp8 share of its peak relative to bf16's share"),
    ("tail", 0.5, 0.5, "waves lost by a GEMM"),
    ("moe", 0.65, 0.3, "rate of a grouped GEMM over a plain one"),
    ("msync", 1e-6, 1.0, "seconds a pass of an expert layer waits for its routing"),
    ("con", 0.25, 0.7, "loss of network rate a doubling of nodes, exponent"),
    ("nicp", 0.75, 0.4, "exponent: how the rate of a group grows with its network ports a node"),
    ("agx", 0.8, 0.3, "rate of gather and scatter over all-reduce across nodes"),
    ("smb", 11.0, 0.5, "bytes a score element, forward, unfused attention"),
    ("lossb", 60.0, 0.5, "bytes a logit, eager"),
    ("el_meg", 0.8, 0.4, "elementwise bytes over the nominal count, megatron eager"),
    ("el_fsdp", 1.0, 0.4, "the same, torch-fsdp"),
    ("el_nano", 1.3, 0.4, "the same, nanotron"),
    ("el_fused", 0.5, 0.4, "the same, fused"),
    ("hosttp", 4.0, 0.5, "operations more a doubling of TP"),
    ("hostb", 1.2, 0.3, "backward host over forward"),
    ("pcon", 0.25, 0.3, "rate of sends between stages falls with (nodes / 2) to minus this"),
    ("early", 1.0, 0.3, "share of the last product that recompute under FSDP leaves out"),
    ("corner", 10.0, 0.3, "sharpness of the corner between device and host"),
]
NAMES = [x[0] for x in CONST]
START = {"A100": {"tail": 0.4, "nlat": 20e-6, "corner": 5.0, "pcon": 0.5, "early": 0.0}, "H100": {"msync": 1.5e-3, "host": 25e-6}, "B200": {"gemm": 0.52, "fp8": 1.0}}
HOP = 1.5e-4
QL, KL = 1536.0, 512.0  # ranks of the latent attention of DeepSeek-V2 and V3
XLOG = 40e-6
PRESS = 1.13
FREE = {
    "A100": "gemm at_fsdp el_meg el_fsdp host hosttp hostb nvl net nicp ovl step mb lossb smb".split(),
    "H100": "gemm tail msync host nvl net con ovl step xlat ppx el_nano nicp el_fused at_fsdp lossb".split(),
    "B200": "gemm tail fp8 at_fused el_fused nvl step moe".split(),
}


def pmax(a, b, p=10.0):
    m = np.maximum(a, b)
    return m * ((a / m) ** p + (b / m) ** p) ** (1 / p)


def gather(d, mask):
    q = {k: v[mask] for k, v in d.items() if isinstance(v, np.ndarray)}
    kn = q["knd"].astype(int)
    for j, nm in enumerate(("peak", "f8", "hbmr", "gib", "sms", "nvlr")):
        q[nm] = np.array([GPU[KINDS[k]][j] for k in kn])
    q["dom"] = np.where(kn >= KINDS.index("GB200"), 64.0, 8.0)  # GPUs of an NVLink domain
    q["hbmr"] = np.where(q["cap40"] > 0, 1.555e12, q["hbmr"])  # the 40 GB A100
    q["bwr"] = np.where(q["bw"] > 0, q["bw"], 25e9 * (1 + (kn > 0)))
    return q


def gemm(q, c, M, N, K, f8=None):
    pm = np.ceil(M / 128) * 128
    pn = np.ceil(N / 128) * 128
    rate = q["peak"] * c["gemm"] * np.where(q["fp8"] * (1 if f8 is None else f8) > 0, q["f8"] * c["fp8"], 1.0)
    tiles = pm * pn / (128 * 256)
    waves = tiles / q["sms"]
    t = 2 * pm * pn * K / rate * (1 + c["k0"] / K) * (1 + c["tail"] / np.maximum(waves, 0.25))
    byts = 2 * (M * N + N * K + M * K) / (q["hbmr"] * c["hbm"])
    return pmax(t, byts)


def ring(q, c, S, g, span, ar, nics=None, tpl=False):
    """collective of S bytes over g GPUs that lie on span nodes; ar 2 for all-reduce, 1 for one half."""
    g1 = np.maximum(g, 1)
    D = q["dom"]
    inner = np.clip(g1 / span, 1, D)
    nics = np.minimum(g1 / span, D) if nics is None else nics
    tin = (g1 - 1) / g1 * S / (q["nvlr"] * c["nvl"]) + c["nlat"] * (1 + g1 / 4)
    rate = q["bwr"] * c["net"] * (np.maximum(span, 2) / 2) ** -c["con"] * np.where(ar == 1.0, c["agx"], 1.0)
    tx = (span - 1) / span * S / (D * (nics / D) ** c["nicp"]) / rate
    intra = np.where(span > 1, (inner - 1) / inner * S / (q["nvlr"] * c["nvl"]), 0)
    lat = np.where(tpl, c["xlat"] * g1, XLOG * np.log2(np.maximum(span, 2))) + c["nlat"]
    t = np.where(span > 1, np.maximum(tx, intra) + lat, tin)
    return np.where(g > 1, ar * t, 0.0)


def time(q, c, detail=False):
    T = q["b"] * q["s"] / q["cp"]
    tp, h, f = q["tp"], q["h"], q["f"]
    eag = q["eager"] > 0
    fz = np.where(eag, 1.0, c["fuse"])
    qd = q["a"] * q["hd"]
    kvd = q["kv"] * q["hd"]
    gm = 1 + q["gated"]
    # --- one layer, forward
    ga = gemm(q, c, T, (qd + 2 * kvd) / tp, h) + gemm(q, c, T, h, qd / tp)
    gl = (gemm(q, c, T, QL + KL + 64, h) + gemm(q, c, T, 192 * q["a"] / tp, QL)
          + gemm(q, c, T, 256 * q["a"] / tp, KL) + gemm(q, c, T, h, 128 * q["a"] / tp))
    ga = np.where(q["mla"] > 0, gl, ga)
    mlp = gemm(q, c, T, gm * f / tp, h) + gemm(q, c, T, h, f / tp)
    # mixture of experts: routed tokens in a grouped GEMM, shared experts, two exchanges
    moe = q["E"] > 0
    E1, fe = np.maximum(q["E"], 1), np.maximum(q["fe"], 1)
    rt = T * q["topk"] / tp                      # routed tokens a GPU
    loc = np.maximum(E1 / q["ep"], 1)            # experts a GPU
    per_e = np.maximum(rt / loc, 1)
    pad = loc * np.ceil(per_e / 128) * 128
    gexp = (gemm(q, c, pad, gm * fe, h) + gemm(q, c, pad, h, fe)) / c["moe"]
    shf = np.maximum(q["sh"] * fe, 1)
    gsh = np.where(q["sh"] > 0, gemm(q, c, T, gm * shf / tp, h) + gemm(q, c, T, h, shf / tp), 0)
    dense_share = np.where(moe, q["dl"] / q["L"], 1.0)
    mlp = dense_share * mlp + (1 - dense_share) * np.where(moe, gexp + gsh, 0)
    espan = np.clip(np.ceil(q["ep"] * tp / q["dom"]), 1, None)
    a2a_b = 2 * rt * h * (q["ep"] - 1) / q["ep"]
    inn = a2a_b / (q["nvlr"] * c["nvl"])
    hit = espan * (1 - (1 - 1 / espan) ** np.maximum(q["topk"], 1))   # nodes a token visits: sent once to each
    out_ = 2 * T / tp * h * hit * (espan - 1) / espan / (q["bwr"] * c["net"])
    shown = np.where(eag, 1.0, 0.25)  # fused stacks compute while the network sends
    a2a = (1 - dense_share) * np.where(q["ep"] > 1, np.maximum(inn, shown * out_) + c["nlat"] * q["ep"] / 4, 0)
    g = ga + mlp
    # attention
    fl = np.where(q["mla"] > 0, 2 * q["s"] * T * q["a"] * 320 / tp, 4 * q["s"] * T * qd / tp)
    prof = np.where(q["eager"] == 0, 3, np.where(q["nano"] > 0, 2, np.where(q["fsdp"] > 0, 1, 0)))
    fr = np.choose(prof, [c["at_nano"], c["at_fsdp"], c["at_nano"], c["at_fused"]])
    fa = fl * 0.5 / (q["peak"] * fr)
    nofuse = (q["flash"] == 0) & (np.mod(q["b"] * q["a"] / tp, 4) != 0)
    el = T * q["s"] * q["a"] / tp  # score elements
    ua = gemm_bmm(q, c, fl) + c["smb"] * el * np.where(nofuse, 2.0, 1.0) / (q["hbmr"] * c["hbm"])
    at = np.where(q["flash"] > 0, fa, ua)
    mis = (q["flash"] == 0) & (np.mod(q["hd"], 8) != 0)
    at = np.where(mis, at * 4.0, at)
    # memory-bound operators
    shard = np.where(q["sp"] > 0, tp, 1.0)
    nel = np.choose(prof, [c["el_meg"], c["el_fsdp"], c["el_nano"], c["el_fused"]])
    el_b = 2 * nel * T * (18 * h / shard + 6 * (qd + 2 * kvd) / 3 / tp + (5 + 3 * q["gated"]) * (dense_share * f + (1 - dense_share) * np.where(moe, q["topk"] * fe + shf * (q["sh"] > 0), 0)) / tp
                         + (1 - dense_share) * 8 * q["topk"] * h / tp)
    el_t = el_b / (q["hbmr"] * c["hbm"])
    # tensor parallel
    span_tp = np.ceil(tp / q["dom"])
    hid = np.where(eag, 1.0, 0.25)  # fused stacks overlap TP and PP traffic
    ar1 = hid * ring(q, c, 2 * T * h, tp, span_tp, 2.0, tpl=True)  # an all-reduce, or gather + scatter
    far = tp * q["cp"] > q["dom"]  # keys and values of the other ranks come round a ring
    kvw = np.where(q["mla"] > 0, q["a"] * 320, 2 * kvd)
    cpt = hid * (q["cp"] - 1) * (2 * T * kvw / tp / np.where(far, q["bwr"] * c["net"], q["nvlr"] * c["nvl"]) + np.where(far, XLOG, c["nlat"]))
    dev_f = g + at + el_t + 2 * ar1 + 2 * a2a + cpt
    dev_b = 2 * g + np.where(q["flash"] > 0, 2.5, 2.0) * at + 2 * el_t + 2 * ar1 + np.where(q["sp"] > 0, 0.5 * ar1 * 2, 0) + 2 * a2a + 2 * cpt
    nodes = np.ceil(q["n"] / q["dom"])
    pp = q["pp"]
    ops = (40 + c["hosttp"] * np.log2(tp) + 20 * nofuse + 40 * (1 - dense_share)) * fz
    wait = np.where((pp > 1) & (nodes > 1) & (tp > 1) & (q["nano"] > 0), c["ppx"] * tp, 0)
    host_f = ops * c["host"] + wait / 3
    host_b = c["hostb"] * ops * c["host"] + wait * 2 / 3
    full = q["rc"] == 2
    ms = (1 - dense_share) * c["msync"]
    lf = pmax(dev_f, host_f, c["corner"]) + ms
    lb = pmax(dev_b, host_b, c["corner"]) + ms + np.where(full, lf - np.where(q["fsdp"] > 0, c["early"] * gemm(q, c, T, h, f / tp), 0), 0) + np.where(q["rc"] == 1, at, 0)
    lay = lf + lb
    # --- head and embedding
    hd_f = gemm(q, c, T, q["V"] / tp, h, 0.0)
    loss = np.where(eag, c["lossb"], 20.0) * T * q["V"] / tp / (q["hbmr"] * c["hbm"])
    head = 3 * hd_f + loss + ring(q, c, 2 * T * h, tp, span_tp, 2.0, tpl=True)
    emb = 12 * T * h / (q["hbmr"] * c["hbm"]) + ring(q, c, 2 * T * h, tp, span_tp, 2.0, tpl=True)
    # --- pipeline
    far = q["bwr"] * c["net"] * (np.maximum(nodes, 2) / 2) ** -c["pcon"]
    p2p = 2 * T * h / tp / np.where(nodes > 1, far, q["nvlr"] * c["nvl"]) + np.where(nodes > 1, XLOG, c["nlat"])  # full duplex: one way counts
    p2p = np.where(pp > 1, hid * (p2p + np.where(q["sp"] > 0, 0, 2 * T * h * (1 - 1 / tp) / (q["nvlr"] * c["nvl"]))), 0)
    st0 = q["n0"] * lay + emb + np.where(pp == 1, head, 0)
    stm = q["nm"] * lay
    stl = q["nl"] * lay + head
    mx = np.where(pp == 1, st0, np.maximum(np.maximum(st0, stm), stl)) + c["mb"] + p2p
    tot = np.where(pp == 1, st0, q["L"] * lay + emb + head) + pp * (c["mb"] + p2p)
    v = np.maximum(q["vpp"], 1)
    pipe = q["m"] * mx + (tot - mx) / v + np.where(v > 1, (v - 1) * q["m"] * p2p, 0)
    # --- data parallel
    pa = np.where(q["mla"] > 0, h * (QL + KL + 64) + QL * 192 * q["a"] + KL * 256 * q["a"] + 128 * q["a"] * h, h * (qd + 2 * kvd) + qd * h)
    pe = (2 + q["gated"]) * h * fe
    lp = (pa + dense_share * (2 + q["gated"]) * h * f + (1 - dense_share) * pe * q["sh"]) / tp
    lpe = (1 - dense_share) * pe * np.where(moe, loc, 0)   # expert parameters a GPU and layer
    lmax = np.maximum(np.maximum(q["n0"], q["nm"]), q["nl"])
    mp = np.maximum(np.maximum(q["n0"] * lp, q["nm"] * lp), q["nl"] * lp) + q["V"] * h / tp * np.where((pp == 1) & (q["tied"] == 0), 2, 1)
    dp = q["dp"] * q["cp"]  # context-parallel ranks share weights
    dspan = np.clip(np.ceil(dp * tp / q["dom"]), 1, dp)
    gb = np.where(q["g32"] > 0, 4.0, 2.0)
    edp0 = np.maximum(dp * tp / q["ep"], 1)
    mp_ = mp
    mp = mp + np.where(edp0 > 1, lmax * lpe, 0)
    rs = ring(q, c, gb * mp, dp, dspan, 1.0)
    ar = ring(q, c, gb * mp, dp, dspan, 2.0)
    ntens = np.where(q["fsdp"] > 0, q["L"] + 1, np.where(eag, 9 * np.maximum(q["n0"], q["nm"]) + 2, 4))
    hop = np.where(dspan > 1, HOP, 0)  # a gather is tensor by tensor
    ag = ring(q, c, 2 * mp, dp, dspan, 1.0) + ntens * hop
    hide = np.where(q["ovl"] > 0, c["ovl"] * q["nl"] * lb, 0)
    # nanotron without ZeRO in a pipeline sums tensor by tensor, and waits for every rank with each
    apart = (q["nano"] > 0) & (q["zero"] == 0) & (pp > 1) & (dspan > 1)
    ar = ar + np.where(apart & (dp > 1), 2 * c["xlat"] * dp * ntens, 0)
    red = np.where((q["zero"] >= 1) & (q["ovl"] > 0), rs, ar)
    alone = (q["zero"] >= 1) & (q["nano"] > 0)  # nanotron overlaps all-reduces alone, not the scatter of ZeRO
    red = np.where(alone, red, np.maximum(red - hide, 0.05 * red))
    agt = np.where(q["zero"] >= 1, np.where((q["ovl"] > 0) & (q["nano"] == 0), np.maximum(ag - c["ovl"] * q["n0"] * lf, 0.05 * ag), ag), 0)
    # FSDP: gather twice and scatter once a micro-batch, hidden by the layers
    fs = q["zero"] == 3
    per = 3 * ag
    comp = lmax * lay
    fsx = (np.maximum(per - comp, 0) + (1 - np.minimum(c["ovl"], 1)) * np.minimum(per, comp)) * q["m"]
    dpt = np.where(dp > 1, np.where(fs, fsx, red + agt), 0)
    # --- optimizer
    mp = mp_
    edp = np.maximum(dp * tp / q["ep"], 1)
    opt = (mp / np.where(q["zero"] >= 1, dp, 1) + lmax * lpe / np.where(q["zero"] >= 1, edp, 1)) * 30 / (q["hbmr"] * c["hbm"])
    out = pipe + dpt + opt + c["step"]
    # fully sharded states that fill more than half of the memory: the allocator frees and asks again
    cap = np.where(q["cap40"] > 0, 40.0, q["gib"]) * 2.0**30
    out = np.where((q["zero"] == 3) & (16 * mp / dp > 0.5 * cap), PRESS * out, out)
    if detail:
        return out, dict(g=g, at=at, el=el_t, ar=ar1, host_f=host_f, dev_f=dev_f, dev_b=dev_b, lay=lay, head=head,
                         pipe=pipe, dpt=dpt, opt=opt, p2p=p2p, mx=mx)
    return out


def gemm_bmm(q, c, fl):
    return fl / (q["peak"] * c["attn"])

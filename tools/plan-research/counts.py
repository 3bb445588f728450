# SPDX-License-Identifier: MIT
"""Parameters and FLOPs a token, held against published counts."""
import rows


def params(L, h, a, kv, d, f, V, gated=True, tied=False, s=0, qk_bias=0):
    """gated: Llama (RMS norms, no biases); else GPT (LayerNorm and biases, learned positions of s tokens)."""
    att = h * (a + 2 * kv) * d + a * d * h
    mlp = (3 if gated else 2) * h * f
    if gated:
        return L * (att + mlp + 2 * h) + V * h * (1 if tied else 2) + h
    bias = (a + 2 * kv) * d + h + f + h
    return L * (att + mlp + bias + 4 * h) + V * h * (1 if tied else 2) + s * h + 2 * h


def flops_token(L, h, a, kv, d, f, V, s, gated=True, causal=False):
    """forward and backward, model FLOPs; the head counts, the embedding look-up does not."""
    att = h * (a + 2 * kv) * d + a * d * h
    mlp = (3 if gated else 2) * h * f
    return 3 * (2 * L * (att + mlp) + 4 * L * s * a * d * (0.5 if causal else 1) + 2 * h * V)


if __name__ == "__main__":
    llama = [("8B", (32, 4096, 32, 8, 128, 14336, 128256), 8030261248), ("70B", (80, 8192, 64, 8, 128, 28672, 128256), 70553706496),
             ("405B", (126, 16384, 128, 8, 128, 53248, 128256), 405853388800)]
    for n, x, want in llama:
        print("Llama-3.1", n, params(*x), want, "%.4f %%" % (100 * (params(*x) / want - 1)))
    print("Llama3-8B s 8192 GF/token full %.2f (57.9) causal %.2f (51.5)" % (flops_token(*llama[0][1], 8192) / 1e9, flops_token(*llama[0][1], 8192, causal=True) / 1e9))
    d = rows.load(rows.CSV)
    seen = {}
    for i, r in enumerate(d["rows"]):
        if r["source"].startswith("HF Ultra") and "GQA" not in r["notes"]:
            x = [int(d[k][i]) for k in ("L", "h", "a", "kv", "hd", "f", "V")]
            seen[(r["model"], r["params_b"])] = (params(*x, tied=bool(d["tied"][i])) / 1e9, params(*x, tied=False) / 1e9)
        if r["source"].startswith("Narayanan et al. 2021 (arXiv"):
            L, h, V, s = (d[k][i] for k in ("L", "h", "V", "s"))
            x = [int(d[k][i]) for k in ("L", "h", "a", "kv", "hd", "f", "V")]
            eq2 = 12 * L * h * h * (1 + 13 / (12 * h) + (V + s) / (12 * L * h))
            seen[(r["model"], r["params_b"])] = (params(*x, gated=False, tied=True, s=int(s)) / 1e9, eq2 / 1e9)
    for k, v in sorted(seen.items()):
        print(k, "ours %.4f, reference or untied %.4f" % v)

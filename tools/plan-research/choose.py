# SPDX-License-Identifier: MIT
"""The fastest, or the emptiest of those as fast, as the first choice, against others on the cells of the Ultra-Scale table: how
wide a tie is, what decides in it, and a malus for tensor parallelism or pipelines over the network.  Each
rule is scored on all cells; then a rule is picked on all cells but one and scored on that one."""
import itertools, json
from collections import defaultdict
import numpy as np
import rows, model, memcounts


def main():
    d = rows.load(rows.CSV)
    S = rows.sets(d)
    C = json.load(open("constants-time.json"))["H100"]
    hf = np.char.startswith(d["src"], "HF Ultra") & (d["pp"] < d["L"])
    q = model.gather(d, hf)
    t, mem, ok = model.time(q, C), memcounts.memory(q, fits=True), q["t"] > 0
    far_tp, far_pp = (q["tp"] > 8), (q["pp"] > 1) & (q["n"] > 8)
    order = {"memory": [mem], "fragile, memory": [far_tp * 2.0 + far_pp, mem], "ZeRO, memory": [-q["zero"], mem]}

    def cells(sel):
        g = defaultdict(list)
        for i in np.where(sel)[0]:
            g[(q["h"][i], q["kv"][i], q["n"][i], q["gbs"][i])].append(i)
        return [np.array(v) for _, v in sorted(g.items()) if ok[v].any()]

    def ratios(rule, sel):
        margin, tie, key, malus_tp, malus_pp = rule
        out = []
        for v in cells(sel):
            f = v[mem[v] <= 79.6 * (1 - margin)]
            f = f if len(f) else v[[np.argmin(mem[v])]]
            s = t[f] * np.where(far_tp[f], malus_tp, 1) * np.where(far_pp[f], malus_pp, 1)
            near = f[s <= s.min() * (1 + tie)]
            c = near[np.lexsort([k[near] for k in reversed(order[key])])[0]]
            best = np.where(ok[v], q["t"][v], np.inf).min()
            out.append(best / q["t"][c] if ok[c] else 0.0)
        return np.array(out)

    sets = {"clean": S["hf_clean"][hf] | (~ok & (q["n"] != 512) & (q["gbs"] == 256)), "all": q["n"] <= 256}
    rules = list(itertools.product((.05,), (0, .005, .01, .02, .03, .05, .08), order, (1, 1.2, 1.5), (1, 1.05)))
    for name, sel in sets.items():
        R = np.array([ratios(r, sel) for r in rules])
        ours = rules.index((.05, .005, "memory", 1, 1))
        print("%s: %d cells, ours %.4f (crashed %d, median %.3f)" % (name, R.shape[1], R[ours].mean(), (R[ours] == 0).sum(), np.median(R[ours])))
        for i in np.argsort(-R.mean(1), kind="stable")[:3]:
            print("   best of %d rules: %.4f" % (len(rules), R[i].mean()), rules[i])
        left = [R[np.argmax(np.delete(R, j, 1).mean(1)), j] for j in range(R.shape[1])]
        print("   rule picked without the cell: %.4f" % np.mean(left))
        for m in (.02, .03, .04, .05, .06, .08, .10):
            print("   margin %.2f: %.4f" % (m, ratios((m, .005, "memory", 1, 1), sel).mean()), end=";")
        print()


if __name__ == "__main__":
    main()

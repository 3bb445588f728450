# SPDX-License-Identifier: MIT
"""Mean signed error of a set by the values of its columns: where the model is wrong."""
import sys, json
import numpy as np
import rows, model
def group(d, k, c, keys, top=60):
    q = model.gather(d, k)
    e = model.time(q, c) / q["t"] - 1
    from collections import defaultdict
    g = defaultdict(list)
    for i in range(len(e)):
        g[tuple(int(q[x][i]) for x in keys)].append(e[i])
    for kk, v in sorted(g.items())[:top]:
        print(dict(zip(keys, kk)), len(v), "mean %.1f med|e| %.1f" % (100*np.mean(v), 100*np.median(np.abs(v))))
if __name__ == "__main__":
    d = rows.load(rows.CSV); S = rows.sets(d); C = json.load(open("constants-time.json"))
    k = S[sys.argv[1]]
    kind = rows.KINDS[int(np.median(d["knd"][k]))]
    for ks in sys.argv[2:]:
        print("--", ks); group(d, k, C[kind], ks.split(","))

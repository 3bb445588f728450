#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render prometheus grafana`: a real Prometheus runs the rendered configuration over a
# replayed node, a live one, a captured one and a model server, and has data for every query of every dashboard.
. "$(dirname "$0")/lib.sh"
cat >odd.yaml <<'EOF'
schema: stoker.spec/1
targets: {grafana: {folder: "a $HOME: #b \"c\" é", datasource: "${X}"}, prometheus: {url: "http://p:9090/x"}}
EOF
test_expect 'names of the folder and the source stay what they are; dashboards are JSON' '
    stoker render grafana -f odd.yaml -o odd && cd odd/grafana &&
    grep -qF "folder: \"a \$\$HOME: #b \\\"c\\\" é\"  # targets.grafana.folder" provisioning/dashboards.yml &&
    grep -qF "name: \"\$\${X}\"" provisioning/datasources.yml && grep -qF "url: \"http://p:9090/x\"" provisioning/datasources.yml &&
    for f in dashboards/*.json; do python3 -m json.tool <$f >/dev/null || exit 1; done
'
test_expect 'limits are those of the alerts: the spec'"'"'s, else the default rules'"'"'' '
    printf "schema: stoker.spec/1\nalerts: {hot: {metric: gpu_temperature, warn: 70C, critical: 77C}}\n" >limits.yaml &&
    stoker render grafana -f limits.yaml -o limits && python3 - <<EOF
import json
page = json.load(open("limits/grafana/dashboards/node.json"))
steps = {p["title"]: [(s["color"], s["value"]) for s in p["fieldConfig"]["defaults"]["thresholds"]["steps"]] for p in page["panels"] if p["type"] != "row"}
assert steps["GPU temperature"] == [("green", None), ("orange", 70), ("red", 77)], steps["GPU temperature"]
assert steps["GPU utilization"] == [("orange", None), ("green", 50)], steps["GPU utilization"]
assert steps["GPU memory, part of the whole"] == [("green", None), ("orange", 0.95)], steps
assert steps["SM active"] == [("green", None)], steps["SM active"]
places = [p["gridPos"] for p in page["panels"]]
for a in places:
    assert a["x"] + a["w"] <= 24, a
    assert sum(a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"] for b in places) == 1, a
assert len({p["id"] for p in page["panels"]}) == len(page["panels"])
EOF
'
test_expect 'goals of the spec are lines beside what they are about, in its units; limits stay those of alerts' '
    cat >goals.yaml <<END &&
schema: stoker.spec/1
goals:
  busy: {metric: gpu_utilization, min: 80%}
  full: {metric: gpu_memory, min: 70%, max: 90%}
  quick: {metric: latency_p99, max: 20ms}
  rate: {metric: samples_per_second, min: 2000/s}
END
    stoker render grafana -f goals.yaml -o goals && python3 - <<EOF
import json
lines = {}
for name in ("node", "serving"):
    for p in json.load(open("goals/grafana/dashboards/%s.json" % name))["panels"]:
        got = [(t["legendFormat"], t["expr"]) for t in p.get("targets", []) if t["legendFormat"].startswith("goal ")]
        assert not got or p["type"] == "timeseries", p
        lines.update({p["title"]: got} if got else {})
        refs = [t["refId"] for t in p.get("targets", [])]
        assert len(set(refs)) == len(refs), refs
assert lines.pop("GPU utilization") == [("goal busy, at least", "vector(80)")], lines
assert lines.pop("GPU memory, part of the whole") == [("goal full, at least", "vector(0.7)"), ("goal full, at most", "vector(0.9)")], lines
(title, got), = lines.items()
assert "atency" in title and got == [("goal quick, at most", "vector(0.02)")], lines
EOF
'
plain_build || { test_skip 'every query of every dashboard has data' "$ONCE"; test_done; }
for p in prometheus promtool python3; do
    command -v $p >/dev/null || {
        test_skip 'every query of every dashboard has data' "$p is not here: tools/setup prometheus"
        test_done
    }
done
cp -r "$TOP/tests/fixtures/models/bert" bert && chmod -R u+w bert
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" bert/tokenizer.json
test_expect 'a real Prometheus has data for every query of every dashboard' '
    python3 "$TOP/tests/cli/render_grafana.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so" "$BUILD/machines/dgx-h100.tar" >said 2>&1; rc=$?
    grep -v "^ok" said; test $rc = 0
'
test_done

#!/bin/sh
# SPDX-License-Identifier: MIT
# One job is one plan and one count of bytes, whichever of train, memory, campaign and cluster is
# asked.
. "$(dirname "$0")/lib.sh"

same() { # MODEL GPU GPUS BATCH SEQ PRECISION
    job="--model $1 --gpu $2 --batch $4 --seq $5 --precision $6"
    stoker plan train $job --gpus $3 --no-vary --json >train.json &&
    stoker plan campaign $job --gpus $3 --tokens 10B --json >campaign.json &&
    python3 - $3 <<\EOF >memory.sh &&
import json, sys
t = json.load(open("train.json"))["clusters"][0]["choice"]
c = json.load(open("campaign.json"))
assert t["text"] == c["config"] and t["memory_bytes"] == c["memory_bytes"], (t["text"], c["config"])
assert abs(t["step_s"] / c["step_s"] - 1) < 1e-9
words = ["--gpus", sys.argv[1]]
for key in ("tp", "pp", "vpp", "cp", "ep", "zero"):
    words += ["--" + key, str(t[key])]
words += ["--micro-batch", str(t["micro_batch"]), "--recompute", t["recompute"]]
words += ["--etp", str(t["etp"])] if t["etp"] else []
words += ["--shard", str(t["shard"])] if t["shard"] else []
words += ["--recompute-every", str(t["recompute_every"])] if t["recompute_every"] > 1 else []
words += ["--sp"] if t["seq_par"] else []
words += ["--schedule", t["schedule"]] if t["schedule"] == "gpipe" else []
print(" ".join(words))
EOF
    stoker plan memory $job $(cat memory.sh) --json >memory.json &&
    python3 -c "
import json
t = json.load(open(\"train.json\"))[\"clusters\"][0][\"choice\"]
m = json.load(open(\"memory.json\"))
assert m[\"total_bytes\"] == t[\"memory_bytes\"] and m[\"fits\"], (m[\"total_bytes\"], t)"
}

test_expect 'train, campaign and memory: dense models, three kinds of GPUs, one GPU' '
    same llama-3.1-8b h100 8 64 4096 bf16 && same llama-3.1-70b h100 64 512 8192 bf16 &&
    same gpt3-175b a100 512 1536 2048 bf16 && same llama-3.1-70b h200 32 256 8192 fp8 &&
    same llama-3.2-1b h100 1 8 4096 pure && same llama-3.1-405b h100 2048 2048 8192 bf16
'
test_expect 'train, campaign and memory: experts' '
    same mixtral-8x7b h100 64 512 4096 bf16 && same qwen3-30b-a3b h200 16 256 4096 bf16
'
test_expect 'cluster: the plan of the size it finds is the one of train' '
    stoker plan cluster --model llama-3.1-70b --tokens 1.4T --deadline 30d --batch 1024 --json >c.json &&
    gpus=$(python3 -c "import json; print(json.load(open(\"c.json\"))[\"gpus\"])") &&
    stoker plan train --model llama-3.1-70b --gpus $gpus --batch 1024 --no-vary --json >t.json &&
    python3 -c "
import json
c, t = json.load(open(\"c.json\")), json.load(open(\"t.json\"))[\"clusters\"][0][\"choice\"]
assert c[\"config\"] == t[\"text\"] and c[\"memory_bytes\"] == t[\"memory_bytes\"], (c[\"config\"], t[\"text\"])"
'
test_expect 'of plans that cannot be told apart the plainest: no context parallelism for 4096 tokens' '
    stoker plan train --model llama-3.1-70b --gpus 64 --batch 512 --no-vary --json >t.json && python3 -c "
import json
c = json.load(open(\"t.json\"))[\"clusters\"][0]
t, best = c[\"choice\"], min(x[\"step_s\"] for x in c[\"top\"])
assert t[\"cp\"] == 1 and t[\"vpp\"] == 1 and t[\"step_s\"] <= 1.04 * best, t"
'
stoker spec example llm-cluster >site.yaml
test_expect 'a component of a spec: train, memory and campaign have one plan, cluster and goodput its facts' '
    f="-f site.yaml train-7b" && stoker plan train $f --no-vary --json >t.json && stoker plan memory $f --json >m.json &&
    stoker plan campaign $f --json >c.json && stoker plan cluster $f --deadline 30d --json >l.json &&
    stoker plan goodput $f --json >g.json && python3 - <<\EOF
import json
t, m, c, l, g = (json.load(open(x + ".json")) for x in "tmclg")
choice = t["clusters"][0]["choice"]
assert m["config"]["text"] == c["config"] == choice["text"], (m["config"]["text"], c["config"], choice["text"])
assert m["total_bytes"] == c["memory_bytes"] == choice["memory_bytes"] and m["fits"]
assert c["step_s"] == choice["step_s"] and c["gpus"] == m["gpus"] == g["gpus"] == 8
assert t["given"] == m["given"] == c["given"] and c["component"] == l["component"] == g["component"] == "train-7b"
value = {x["option"]: x["value"] for x in t["given"]}
assert float(value["--tokens"]) == l["tokens"] == 140e9
usual = c["cost"]["on_demand"]["usd"]["expected"] / c["gpu_hours"]["expected"]
assert abs(usual / float(value["--price"]) - 1) < 0.01, (usual, value)
assert {x["option"] for x in l["given"]} == {"--model", "--gpu", "--price", "--batch", "--seq", "--tokens", "--precision", "--optimizer", "--stack"}
assert {x["option"] for x in g["given"]} == {"--model", "--gpu", "--gpus"}
EOF
'
test_expect 'the optimizer and the framework of a component, and an optimizer by option, are those of campaign and cluster too' '
    python3 - <<\EOF >own.yaml &&
s = open("site.yaml").read()
a, b = s.index("  train-7b:"), s.index("  train-13b:")
print(s[:a] + s[a:b].replace("      parallel: {zero: 3}\n", "").replace("      global_batch: 512", "      optimizer: adamw8bit\n      global_batch: 512") + s[b:])
EOF
    f="-f own.yaml train-7b" && stoker plan train $f --no-vary --json >t.json && stoker plan campaign $f --json >c.json && stoker plan cluster $f --deadline 30d --json >l.json &&
    job="--model llama-3.1-8b --batch 512 --optimizer sgd" && stoker plan train $job --gpus 8 --no-vary --json >t2.json && stoker plan campaign $job --gpus 8 --json >c2.json &&
    stoker plan cluster $job --tokens 10B --deadline 30d --json >l2.json && python3 - <<\EOF
import json
for n in ("", "2"):
    t, c, l = (json.load(open(x + n + ".json")) for x in "tcl")
    t = t["clusters"][0]["choice"]
    assert c["gpus"] == l["gpus"] == 8
    assert t["text"] == c["config"] == l["config"] and t["memory_bytes"] == c["memory_bytes"] == l["memory_bytes"], (t["text"], c["config"], l["config"])
EOF
'
test_expect 'options win over the spec; what a plan leaves no room for is refused' '
    stoker plan memory -f site.yaml train-7b --gpus 16 --seq 2048 --json >m.json && stoker plan campaign -f site.yaml train-7b --price 9 --config "zero3 mbs1" --json >c.json &&
    python3 -c "
import json
m, c = json.load(open(\"m.json\")), json.load(open(\"c.json\"))
assert m[\"gpus\"] == 16 and m[\"config\"][\"seq\"] == 2048 and not [x for x in m[\"given\"] if x[\"option\"] in (\"--gpus\", \"--seq\")]
assert \" mbs1 \" in c[\"config\"] and not [x for x in c[\"given\"] if x[\"option\"] == \"--price\"], c[\"config\"]" &&
    for line in "memory -f site.yaml train-7b --tp 8" "campaign -f site.yaml train-7b --lora 8" "campaign -f site.yaml train-7b --machine x" "memory train-7b" "cluster train-7b" \
        "goodput -f site.yaml" "memory -f site.yaml nobody"; do
        ! stoker plan $line >out 2>err && test ! -s out && test $(wc -l <err) = 2 && ! grep -qi sanitizer err || return 1
    done &&
    stoker spec example driving-h200 >d.yaml && ! stoker plan memory -f d.yaml 2>err && grep -q "was measured and has no layers to cut" err
'
test_done

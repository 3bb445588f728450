#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker monitor`: recordings, this machine, a driver that is a fake, another agent, a command with
# its status and signals, targets, files that cannot be written, hostile names.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "monitor" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
REC=$TOP/tests/fixtures/limits
FAKE="env STOKER_NVML_LIB=$BUILD/tests/libfakenvml.so FAKE_NVML_JSON=$TOP/tests/fakenvml/dgx-h100.json"
mon() { stoker monitor -q "$@"; }
json() { python3 -c "import json,sys; d=json.load(open('$1')); sys.exit(not ($2))"; }

for pair in idle:idle gemm:compute devcopy:memory h2d:pcie dataload:data launch:host fake-nvlink:nvlink \
    fake-network:network fake-throttling:throttling; do
    name=${pair%:*} want=${pair#*:}
    test_expect "recording '$name' is limited by $want" "
        mon --replay $REC/$name.rec --json >r.json && json r.json 'd[\"limits\"][\"node\"][\"limit\"] == \"$want\"'
    "
done

test_expect 'a report has GPUs, targets, processes, the limit with its evidence and advice' '
    mon --replay $REC/gemm.rec --interval 5 --full >out 2>err && test ! -s err &&
    grep -q "GPU 0  NVIDIA H200" out && grep -Eq "tensor cores +93 %" out &&
    grep -Eq "met +gpu.util>80 +GPU 0" out && grep -Eq "failed +gpu.memory>=70" out &&
    grep -Eq "0 +[0-9]+ +python3 +root" out && grep -q "the whole: compute" out && grep -q "Faster: a type" out &&
    grep -q "power limit 100 %" out
'
test_expect 'the short report: what limits it, a row a GPU, what failed' '
    mon --replay $REC/gemm.rec --interval 5 >out 2>err && test ! -s err && test "$(wc -l <out)" -lt 20 &&
    sed -n 2p out | grep -q "^What limits it: compute (confidence 0.9" && grep -Eq "^ +0  NVIDIA H200 +99 % +93 %" out &&
    grep -q "^Targets: 6 met, 1 failed" out && grep -Eq "failed +gpu.memory>=70 +GPU 0" out && ! grep -q "met +gpu.util" out &&
    grep -q -- "--full" out
'
test_expect 'a line an interval' '
    stoker monitor --replay $REC/gemm.rec -i 5 >out 2>err && test "$(grep -c "limit: compute" err)" -ge 2 &&
    grep -Eq "^00:00:05  util 9[0-9] %  tensor 93 %" err
'
test_expect 'JSON: schema, percentiles, phases, unknown is null' '
    mon --replay $REC/h2d.rec -i 5 --json >r.json &&
    json r.json "d[\"schema\"] == \"stoker.monitor/1\" and d[\"source\"] == \"replay\" and d[\"samples\"] > 8" &&
    json r.json "all(d[\"gpus\"][0][\"metrics\"][\"pcie_in\"][k] > 5e10 for k in (\"mean\", \"p50\", \"p95\", \"max\"))" &&
    json r.json "d[\"gpus\"][0][\"metrics\"][\"mem_temp\"] is None" &&
    json r.json "len(d[\"phases\"]) == 1 and d[\"phases\"][0][\"verdict\"][\"limit\"] == \"pcie\""
'
test_expect 'CSV: a row an interval and GPU, an unknown value is an empty cell' '
    mon --replay $REC/gemm.rec -i 4 --csv r.csv --memory-csv m.csv >out && python3 -c "
import csv
r = list(csv.DictReader(open(\"r.csv\")))
assert len(r) == 3, r
assert all(x[\"gpu\"] == \"0\" and float(x[\"util_pct\"]) > 80 and x[\"limit\"] == \"compute\" for x in r)
assert r[0][\"nvlink_in_bytes_s\"] in (\"\", \"0\")
m = list(csv.DictReader(open(\"m.csv\")))
assert m and all(float(x[\"bytes\"]) > 1e8 and x[\"command\"] == \"python3\" for x in m)
"'
test_expect 'goals of a spec are targets by name, in place of the defaults; options win' '
    stoker spec example driving-h200 >site.yaml && mon -f site.yaml --replay $REC/gemm.rec --full >out 2>err && test ! -s err &&
    grep -Eq "met +gpu.util>=80 .goal utilization. +GPU 0" out && grep -Eq "failed +gpu.memory>=70 .goal memory." out &&
    grep -Eq "met +max.gpu.temp.<=85 .goal temperature." out && grep -Eq "unknown +job.samples_per_second>=2000" out &&
    ! grep -q "gpu.util>80" out && grep -q "gpu.xid<=0" out &&
    mon -f site.yaml -t "gpu.util>=100" --replay $REC/gemm.rec --json >r.json &&
    json r.json "[t[\"target\"] for t in d[\"targets\"] if t[\"target\"].startswith(\"gpu.util\")] == [\"gpu.util>=100\"]" &&
    json r.json "{t[\"goal\"] for t in d[\"targets\"] if \"goal\" in t} == {\"memory\", \"temperature\", \"power\", \"throughput\"}"
'
cat >two.yaml <<'END'
schema: stoker.spec/1
nodes:
  - {name: gpu, count: 2, gpus_per_node: 1, gpu: {model: H100}}
  - {name: one, hosts: far-away, gpus_per_node: 1, gpu: {model: H100}}
components:
  a: {nodes: gpu, gpus: 1, command: [x]}
  b: {nodes: one, gpus: 1, command: [x]}
goals:
  replays: {metric: pcie_replays, max: 5}
  money: {metric: cost_per_day, max: $5}
END
test_expect 'a goal that no report can show is warned about with its line; counts are held against their rise' '
    mon -f two.yaml --replay $REC/gemm.rec --full >out 2>err && grep -q "two.yaml:10: goal .money. is about cost_per_day" err &&
    grep -q "rise(gpu.pcie.replay)<=5 (goal replays)" out
'
test_expect 'the machine of a component: several, one far away whose agent is on loopback, none of a spec' '
    ! mon -f two.yaml --component a 2>err && grep -q "any of the 2 machines of .gpu." err && grep -q -- "--host gpu1" err &&
    ! mon -f two.yaml --component b 2>err && grep -q "the agent of .far-away. listens on 127.0.0.1 only" err &&
    ! mon -f two.yaml --component c 2>err && grep -q "no component .c." err &&
    ! mon --component a 2>err && grep -q "give --file" err
'
test_expect 'SVG: well formed, a line a GPU, target lines' '
    mon --replay $REC/gemm.rec -i 4 --svg r.svg >out && python3 -c "
import xml.dom.minidom as x
d = x.parse(\"r.svg\")
assert len([p for p in d.getElementsByTagName(\"path\") if p.getAttribute(\"class\") == \"l c0\"]) >= 5
t = [e.firstChild.data for e in d.getElementsByTagName(\"text\") if e.firstChild]
assert \"gpu.util>80\" in t and \"compute\" in t and \"GPU 0\" in t, t
"'
test_expect 'neighbouring phases differ, at any interval' '
    for r in $REC/*.rec $TOP/tests/fixtures/h200.rec; do for i in 1 2 3 5 8; do
        mon --replay $r -i $i --json >r.json && json r.json "all(a[\"verdict\"][\"limit\"] != b[\"verdict\"][\"limit\"] for a, b in zip(d[\"phases\"], d[\"phases\"][1:]))" || exit 1
    done; done
'
test_expect 'duration cuts a recording; a torn one is read as far as it is whole' '
    mon --replay $REC/gemm.rec --duration 5 --json >r.json && json r.json "d[\"samples\"] == 6" &&
    head -c 40000 $REC/gemm.rec >torn.rec && mon --replay torn.rec --json >r.json && json r.json "d[\"torn\"] and d[\"samples\"] > 4"
'

# ---- targets
test_expect 'targets fail a run only when asked to' '
    mon --replay $REC/idle.rec >out && mon --replay $REC/idle.rec --fail-on-target >out; test $? = 1 &&
    mon --replay $REC/gemm.rec --no-default-targets -t "gpu.util>=80" -t "p95(gpu.temp)<85" --fail-on-target >out
'
test_expect 'a target given replaces the default of its metric; one of unknown value is neither' '
    mon --replay $REC/gemm.rec -t "gpu.util>=99.9" -t "nobody_has_it>1" --json >r.json &&
    json r.json "[t[\"state\"] for t in d[\"targets\"] if t[\"target\"].startswith(\"gpu.util\")] == [\"failed\"]" &&
    json r.json "[t[\"state\"] for t in d[\"targets\"] if t[\"target\"].startswith(\"nobody\")] == [\"unknown\"]"
'
test_expect 'a metric that is mistyped is refused, with the nearest; one asked for that is not known fails when asked to' '
    mon --replay $REC/gemm.rec -t "gpu.utl>=90" --fail-on-target >out 2>err; test $? = 2 && test ! -s out &&
    grep -q "unknown metric .gpu.utl." err && grep -q "Did you mean .gpu.util." err &&
    mon --replay $REC/gemm.rec --no-default-targets -t "nobody_has_it>1" >out && grep -Eq "unknown +nobody_has_it>1" out &&
    mon --replay $REC/gemm.rec --no-default-targets -t "nobody_has_it>1" --fail-on-target >out; test $? = 1
'
for bad in '' gpu.util 'gpu.util>' 'gpu.util>x' 'most(gpu.util)>1' '>5' 'p95(gpu.util>1' 'a b>1' "$(printf '%0300d' 1)>1"; do
    test_expect "no target: '$(printf '%.20s' "$bad")'" '
        mon --replay $REC/gemm.rec -t "$bad" >out 2>err; test $? = 2 && test ! -s out && grep -q "is not a target" err
    '
done

# ---- files
test_expect 'a full disk is an error, the rest of the report comes' '
    for o in csv memory-csv svg; do
        mon --replay $REC/gemm.rec --$o /dev/full >out 2>err; test $? = 1 &&
        grep -q "What limits it: compute" out && grep -q "cannot write ./dev/full.: No space left" err || exit 1
    done
    mon --replay $REC/gemm.rec --output /dev/full >out 2>err; test $? = 1 && grep -q "No space left" err
'
test_expect 'so is one that cannot be made: the command runs, and all the rest is written' '
    for o in csv memory-csv svg; do
        rm -f ran rest.csv; mon --no-gpu --$o no/such/file --output rest -- touch ran 2>err; test $? = 1 && test -e ran &&
        grep -q "could not write .no/such/file.: No such file" err && grep -q "^Watched" rest || exit 1
    done
    mon --no-gpu --csv no/such/file --memory-csv rest.csv -- true 2>err; test $? = 1 && test -s rest.csv &&
    test "$(grep -c "goes on without it" err)" = 1 &&
    mon --replay $REC/gemm.rec --output no/such/file 2>err; test $? = 1 && grep -q "no/such/file" err
'

# ---- a command
test_expect 'a command: its output and status are its own, the report goes to standard error' '
    mon --no-gpu -i 1 -- sh -c "echo mine; sleep 2.5; exit 7" >out 2>err; test $? = 7 &&
    test "$(cat out)" = mine && grep -q "no GPU: the host alone" err && grep -q "What limits it" err
'
test_expect 'a command: report into a file, as JSON' '
    mon --no-gpu --json -o r.json -- sh -c "sleep 2.2; exit 0" && json r.json "d[\"samples\"] >= 1 and d[\"gpus\"] == []"
'
test_expect 'a command that a signal ends, one that is not there, one too short to see' '
    mon --no-gpu -o /dev/null -- sh -c "kill -9 \$\$"; test $? = 137 || exit 1
    mon --no-gpu -- ./no-such-command 2>err; test $? = 127 && grep -q "could not run ...no-such-command." err || exit 1
    echo x >plain && mon --no-gpu -- ./plain 2>err; test $? = 126 && grep -q "Permission denied" err || exit 1
    mon --no-gpu -- true 2>err && grep -Eq "ended before a sample|[0-9] samples?" err
'
test_expect 'signals are passed on to the command' '
    "$BUILD/stoker" monitor -q --no-gpu -o r.txt -- sh -c "trap \"exit 42\" TERM; echo >ready; while :; do sleep 0.1; done" & p=$!
    while [ ! -e ready ]; do sleep 0.1; done
    kill -TERM $p; wait $p; test $? = 42 && test -s r.txt
'
test_expect 'an interrupt ends a run early, with a report' '
    "$BUILD/stoker" monitor -q --no-gpu --duration 1h >out 2>err & p=$!
    sleep 2.5; kill -TERM $p; wait $p; test $? = 0 && grep -q "Watched .* samples" out
'

# ---- what the kernel's log holds from before
test_expect 'an XID of before the run is not the run its own, one of the run is' '
    mkdir -p old/dev old/proc && now=$(date +%s) && printf "cpu  1 0 0 1 0 0 0 0 0 0\nbtime %s\n" $((now - 1000)) >old/proc/stat &&
    echo "4,1,5000000,-;NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus." >old/dev/kmsg &&
    mon --no-gpu --root old --json -o r.json -- sh -c "sleep 1; echo \"4,2,\$(((\$(date +%s) - $now + 1001) * 1000000)),-;NVRM: Xid (PCI:0000:0a:00): 48, x\" >>old/dev/kmsg; sleep 3" &&
    json r.json "[e[\"code\"] for e in d[\"events\"] if e[\"kind\"] == \"xid\"] == [48]"
'

# ---- GPUs of a fake driver, and their processes
if [ -e "$BUILD/tests/libfakenvml.so" ]; then
    test_expect 'a fake driver: eight GPUs, memory, processes' '
        $FAKE "$BUILD/stoker" monitor -q --json --duration 5 -i 2 --svg r.svg --csv r.csv >r.json &&
        json r.json "len(d[\"gpus\"]) == 8 and d[\"gpus\"][0][\"metrics\"][\"memory\"] is not None" &&
        python3 -c "import xml.dom.minidom as x; x.parse(\"r.svg\")" &&
        test "$(cut -d, -f3 r.csv | sort -u | grep -c "^[0-7]$")" = 8
    '
else
    test_skip 'a fake driver' 'libfakenvml.so is not built'
fi

# ---- hostile names: a recording whose processes and host are called anything
python3 - "$REC/gemm.rec" hostile.rec <<'PY'
import importlib.machinery, importlib.util, json, os, struct, sys
sys.argv, (source, target) = [sys.argv[0]], sys.argv[1:]
spec = importlib.util.spec_from_loader("cut", importlib.machinery.SourceFileLoader("cut", os.environ["TOP"] + "/tools/demo-recording"))
cut = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cut)
data = open(source, "rb").read()
name = '</text><script>"x",\x1b[31m\r\n=cmd|\'/bin/sh\'!A1 \u202e&amp;'
out = [b"STKTELE1" + json.dumps({"schema": "stoker.tele/1", "host": name}).encode() + b"\n"]
for body in cut.records(data):
    if body[:1] == b"S" and b"process.gpu.memory" in body:
        body = body.replace(cut.text("python3"), cut.text(name))
    out.append(cut.record(body))
open(target, "wb").write(b"".join(out))
PY
test_expect 'hostile names: no control character on the terminal, XML and CSV and JSON stay whole' '
    mon --replay hostile.rec --svg h.svg --csv h.csv --memory-csv hm.csv >out && mon --replay hostile.rec --json >h.json &&
    python3 -c "
import csv, json, re, xml.dom.minidom as x
assert not re.search(rb\"[\\x00-\\x08\\x0b-\\x1f]\", open(\"out\", \"rb\").read())
x.parse(\"h.svg\")
assert \"<script>\" not in open(\"h.svg\").read()
rows = list(csv.reader(open(\"hm.csv\", newline=\"\")))
assert len(rows) > 1 and all(len(r) == len(rows[0]) for r in rows), rows
assert \"script\" in json.load(open(\"h.json\"))[\"processes\"][0][\"command\"]
"'

# ---- another agent
test_expect 'another agent: its history is what is reported' '
    "$BUILD/stoker" agent --replay $REC/gemm.rec --port 0 --metrics-port none --control none 2>log & p=$!
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q ready log && break; sleep 0.5; done
    at=$(sed -n "s/.*page http:..\([0-9.:]*\).*/\1/p" log)
    mon --host "$at" --duration 7 -i 2 --json >r.json 2>err; rc=$?; kill $p; wait $p
    test $rc = 0 && json r.json "d[\"source\"] == \"remote\" and d[\"samples\"] >= 3 and len(d[\"gpus\"]) == 1" &&
    json r.json "d[\"limits\"][\"node\"][\"limit\"] == \"compute\""
'
test_expect 'nobody there, wrong uses' '
    mon --host 127.0.0.1:1 --duration 2 2>err; test $? = 1 || test $? = 3 || exit 1
    grep -q "agent .127.0.0.1:1.:" err || exit 1
    mon --replay x --host y 2>err; test $? = 2 || exit 1
    mon --interval 0 2>err; test $? = 2 && mon --duration soon 2>err; test $? = 2 || exit 1
    mon --replay no.rec 2>err; test $? = 3 && mon --replay $TOP/README.md 2>err; test $? = 1 && grep -q "not a recording" err
'
test_done

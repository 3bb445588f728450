#!/bin/sh
# SPDX-License-Identifier: MIT
# The driver through the command line: STOKER_NVML_LIB names the fake library, which
# answers from a machine's document (FAKE_NVML_JSON) and misbehaves as told
# (FAKE_NVML_FAULT).  The unit tests know every call; here it is that a wedged,
# crashing or absent driver costs a sentence and seconds, never the command.
. "$(dirname "$0")/lib.sh"

fake=$BUILD/tests/libfakenvml.so
docs=$TOP/tests/fakenvml

# A capture that holds the driver's answers and nothing else.
machine() {
    rm -rf m && mkdir -p m/stoker m/sys m/proc && cp "$docs/$1.json" m/stoker/nvml.json
}

# detect_fake MACHINE FAULT: the driver is the fake, for the capture's files.
detect_fake() {
    machine "$1" &&
        FAKE_NVML_JSON=$docs/$1.json FAKE_NVML_FAULT=$2 STOKER_NVML_LIB=$fake \
            stoker detect --json --root m
}

# json EXPRESSION: whether Python finds it true of the inventory d in the file out.
json() {
    python3 -c '
import json, sys
d = json.load(open("out", encoding="utf-8")); gpus = d["gpus"]; nv = d["nvidia"]
if not eval(sys.argv[1]):
    print("not so:", sys.argv[1]); print(nv); print([g["state"] for g in gpus]); sys.exit(1)
' "$1"
}

for m in h200 dgx-h100 a100-pcie h200-mig trouble; do
    test_expect "$m: the same inventory by replay and through the library" "
        machine $m && stoker detect --json --root m >replay &&
        detect_fake $m '' >through && cmp replay through
    "
done

test_expect 'a hung call costs at most five seconds and is named' '
    start=$(date +%s%N) &&
    detect_fake dgx-h100 hang:nvmlDeviceGetHandleByIndex_v2:3 >out &&
    took=$((($(date +%s%N) - start) / 1000000)) && echo "$took ms" && test $took -le 5000 &&
    json "nv[\"hung_call\"] == \"nvmlDeviceGetHandleByIndex_v2(3)\"" &&
    json "nv[\"hung_pid\"] > 0 and nv[\"hung_state\"]" &&
    json "[g[\"state\"] for g in gpus] == 3 * [\"ok\"] + 5 * [\"unanswered\"]"
'
test_expect 'the hung process is gone' '
    pid=$(python3 -c "import json; print(json.load(open(\"out\"))[\"nvidia\"][\"hung_pid\"])") &&
    ! kill -0 "$pid"
'
test_expect 'a hang is in the page, with the call' '
    machine h200 &&
    FAKE_NVML_JSON=$docs/h200.json FAKE_NVML_FAULT=hang:nvmlInit_v2 STOKER_NVML_LIB=$fake \
        stoker detect --root m >page 2>&1; cat page; grep -q "nvmlInit_v2" page
'
test_expect 'a lost GPU leaves the others' '
    detect_fake dgx-h100 lose:2 >out &&
    json "sorted(g[\"state\"] for g in gpus) == [\"lost\"] + 7 * [\"ok\"]"
'
test_expect 'a crash in the library stays there' '
    detect_fake h200 crash:nvmlDeviceGetName:0 >out &&
    json "nv[\"nvml_error\"].startswith(\"the driver library crashed in nvmlDeviceGetName(0)\")"
'
test_expect 'a code is kept with its text' '
    detect_fake h200 rc:nvmlDeviceGetMemoryInfo_v2:0:999 >out &&
    json "gpus[0][\"mem_total_bytes\"] is None and gpus[0][\"errors\"][0][\"code\"] == 999"
'
test_expect 'no library is a fact, not a failure' '
    machine h200 && STOKER_NVML_LIB=/nonexistent.so stoker detect --json --root m >out &&
    json "nv[\"nvml_error\"] == \"library '\''/nonexistent.so'\'' not found\" and not gpus"
'
test_expect 'a capture without answers says so' '
    machine h200 && rm m/stoker/nvml.json && stoker detect --json --root m >out &&
    json "nv[\"nvml_error\"] == \"not captured\""
'
test_done

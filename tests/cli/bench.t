#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker bench serve`: a load on a server that computes nothing.
. "$(dirname "$0")/lib.sh"

if ! command -v python3 >/dev/null; then
    test_skip 'bench serve' 'python3 is missing'
    test_done
fi
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$TMP"' EXIT
# start NAME ARGUMENT…: a stub whose address is then in $NAME
start() {
    name=$1
    shift
    python3 "$TOP/tests/cli/stub_server.py" "$TMP/port-$name" "$@" >/dev/null 2>&1 &
    pids="$pids $!"
    i=0
    while [ ! -s "$TMP/port-$name" ] && [ $i -lt 100 ]; do
        sleep 0.1
        i=$((i + 1))
    done
    eval "$name=http://127.0.0.1:$(cat "$TMP/port-$name")"
}
start tei tei
start openai openai
start infinity infinity
start mute mute
start locked tei --token sesame
start busy tei --fail 3
start drops tei --drop 3
bench() { stoker bench serve --warmup 0s -c 4 "$@"; }
get() { python3 -c "import json; d = json.load(open('$1')); s = d['servers'][0]; print($2)"; }

test_expect 'a table, and what kind of times it holds' '
    bench "$tei" -n 50 --check >out && grep -q "^$tei/embed  tei, stub, 4 clients" out &&
    grep -q "^requests  *50$" out && grep -q "^errors  *0$" out && grep -q "^service time min" out &&
    grep -q "^tokens/s  *[0-9]" out && grep -q "Closed loop" out && grep -q "width  *2$" out'
test_expect 'JSON' '
    bench "$tei" -n 50 --items 3 --json >j && get j "d[\"schema\"], d[\"loop\"], s[\"requests\"], s[\"good\"], s[\"errors\"][\"total\"], s[\"statuses\"]" |
        grep -qx "stoker.bench-serve/1 closed 50 50 0 {.200.: 50}" &&
    get j "abs(s[\"items_per_s\"] / s[\"requests_per_s\"] - 3) < 0.01, abs(s[\"tokens_per_s\"] / s[\"items_per_s\"] - 5) < 0.01" | grep -qx "True True" &&
    get j "s[\"service_time_ms\"][\"min\"] <= s[\"service_time_ms\"][\"p50\"] <= s[\"service_time_ms\"][\"p99\"] <= s[\"service_time_ms\"][\"max\"]" | grep -qx True'
test_expect 'an open loop' '
    bench "$tei" --rate 100 -d 1s --json >j && get j "d[\"loop\"], 50 < s[\"requests\"] < 150, s[\"latency_ms\"][\"count\"] == s[\"requests\"], s[\"sent_late_ms\"] is not None" |
        grep -qx "open True True True" &&
    bench "$tei" --rate 50 --uniform -d 1s | grep -q "50 requests/s, evenly"'
test_expect 'APIs are found out' '
    bench "$openai" -n 5 --check | grep -q "^$openai/v1/embeddings  openai, stub" &&
    bench "$infinity" -n 5 --check | grep -q "^$infinity/embeddings  infinity, stub"'
test_expect 'a server that does not tell: exit 1 and the way out' '
    bench "$mute" -n 5 >out 2>err; test $? = 1 && test ! -s out && grep -q "does not tell which API" err && grep -q -- "--api" err &&
    bench "$mute" --api tei -n 5 >out && grep -q "^requests  *5$" out'
test_expect 'reranks' '
    bench "$tei" --route rerank --docs 7 -n 10 --check --json >j && get j "s[\"path\"], d[\"items\"], s[\"good\"]" | grep -qx "/rerank 7 10" &&
    { bench "$openai" --route rerank 2>err; test $? = 2; } && grep -q "has no rerank" err'
test_expect 'tokens' '
    { bench "$locked" -n 5 2>err; test $? = 1; } && grep -q "status 401" err && grep -q -- "--token-file" err &&
    bench "$locked" --token sesame -n 5 >/dev/null && echo sesame >t && bench "$locked" --token-file t -n 5 >/dev/null'
test_expect 'what a server drops is told: sent again where the connection was kept, else an error' '
    bench "$drops" -n 100 --max-errors 100 >out && grep -q "^sent again  *[1-9]" out && grep -q "ended a kept connection" out &&
    bench "$drops" -n 100 --max-errors 100 --json >j &&
    get j "s[\"resent\"] > 0, abs(s[\"resent\"] + s[\"errors\"][\"reset\"] - (s[\"requests\"] + s[\"resent\"]) / 3) < 3" | grep -qx "True True" &&
    bench "$tei" -n 50 >out && ! grep -q "sent again" out'
test_expect 'errors are counted, and too many end it' '
    bench "$busy" -n 60 --json >j && get j "s[\"errors\"][\"429\"] == s[\"errors\"][\"total\"] == s[\"statuses\"][\"429\"] >= 15, s[\"errors\"][\"first\"]" | grep -q "True status 429.*busy" &&
    { bench "$busy" -n 60 --max-errors 3 >out 2>err; test $? = 1; } && grep -q "more than --max-errors" err && grep -Eq "^  429  *[4-9]$" out'
test_expect 'own texts, and two servers in turn' '
    printf "one\n\ntwo\r\nthree \"x\"\n" >texts &&
    bench "$tei" --compare "$openai" --texts texts --slices 2 -d 400ms --check --result-prefix t.vs >out &&
    grep -q "^ratio of requests/s: [0-9.]* (median of 2 slices)" out && grep -q "^RESULT t.vs.rps [0-9.]* x$" out &&
    grep -q "^RESULT t.vs.p99 [0-9.]* x$" out && grep -q "^RESULT t.vs.second.rps [0-9.]* requests/s$" out'
test_expect 'an end that is asked for prints what was measured' '
    "$BUILD/stoker" bench serve "$tei" --warmup 0s -d 120s --progress >out 2>err & p=$!; i=0
    until tr "\\r" "\\n" <err | grep -q "^measuring .* [1-9][0-9.]*[kM]* requests/s" || test $i = 100; do sleep 0.2; i=$((i + 1)); done
    kill -TERM $p; wait $p; test $? = 1 &&
    grep -q "^requests  *[1-9]" out && grep -q "stoker: stopped: the figures are of" err'
test_expect 'progress' '
    bench "$tei" -d 600ms --progress 2>err >/dev/null && grep -q "^measuring .*requests/s .*p50 .*p99 .* 0 errors" err &&
    bench "$tei" -n 5 2>err >/dev/null && test ! -s err'
test_expect 'nobody there: exit 1' '
    bench http://127.0.0.1:1 >out 2>err; test $? = 1 && test ! -s out && grep -q "could not connect to .127.0.0.1:1.: Connection refused" err'
test_expect 'wrong use: exit 2' '
    for args in "" "https://h" "x://h" "$tei --rate 0" "$tei --rate x" "$tei --uniform" "$tei --duration 5" "$tei --slices 2" "$tei --docs 3" \
        "$tei --api nope" "$tei --json --result-prefix x" "$tei --max-errors x" "$tei --token a --token-file b" "$tei --compare x --requests 1"; do
        stoker bench serve $args >out 2>err; test $? = 2 && test ! -s out && test -s err || { echo "$args"; cat err; exit 1; }; done'
# ---- bench engine
model=$TOP/tests/fixtures/models/bert ranker=$TOP/tests/fixtures/models/bert-score
engine() { stoker bench engine "$@" --passes 2; }
test_expect 'engine: a table' '
    engine "$model" --device ref -c 2x7 -c 1x3 >out && cat out && head -1 out | grep -q "^bert: 2 layers of 32, on " &&
    grep -q "^2x7  *2  *14  *1  *2  *[0-9.]*  *[0-9,]*  *[0-9.e+-]*$" out && grep -q "^1x3 " out'
test_expect 'engine: JSON' '
    engine "$model" -c 2x7 --json >j && python3 -c "
import json; d = json.load(open(\"j\")); c = d[\"cases\"][0]
assert (d[\"schema\"], c[\"texts\"], c[\"tokens\"], c[\"steady\"]) == (\"stoker.bench-engine/1\", 2, 14, True), d
assert c[\"device_ms\"] is None and c[\"cosine_least\"] is None and c[\"ms_least\"] <= c[\"ms\"]"'
test_expect 'engine: vectors of two devices, and of two ways to batch' '
    printf "3\n20\n1\n20\n" >lens && engine "$model" --device ref -c @lens --save v.npy >/dev/null && test $(wc -c <v.npy) = $((128 + 4 * 32 * 4)) &&
    engine "$model" --device cpu --dtype f32 --batch-tokens 1 -c @lens --check v.npy >out && cat out &&
    grep -q "^@lens  *4  *44  *4 " out && grep -Eq "least cosine (0.99999|1.0)" out'
test_expect 'engine: a device that takes the next batch while one runs' '
    test -e "$BUILD/tests/plugin/engine/stoker-cuda.so" || exit 0
    engine "$model" --device ref -c @lens --save v.npy >/dev/null &&
    FAKE_DEVICE_SUBMITS=1 STOKER_PLUGIN_DIR=$BUILD/tests/plugin/engine engine "$model" --device cuda -c @lens --batch-tokens 20 --check v.npy >out &&
    cat out && grep -q "^@lens  *4  *44  *3 " out && grep -q "largest difference 0$" out && ! grep -q "differ in their bits" out'
test_expect 'engine: a plug-in of another build is refused, not asked for vectors' '
    test -e "$BUILD/tests/plugin/engine/stoker-cuda.so" || exit 0
    { FAKE_DEVICE_OLD=1 STOKER_PLUGIN_DIR=$BUILD/tests/plugin/engine engine "$model" --device cuda -c 1x3 >out 2>err; test $? = 3; } &&
    test ! -s out && grep -q "is of another build" err'
test_expect 'engine: scores of a reranker, and its tokens' '
    engine "$ranker" -c 5x9 --save s.npy >/dev/null && test $(wc -c <s.npy) = $((128 + 5 * 4)) &&
    engine "$ranker" -c 5x9 --want tokens --save t.npy >/dev/null && test $(wc -c <t.npy) = $((128 + 45 * 32 * 4))'
test_expect 'engine: what cannot be' '
    { engine "$model" -c 3y4 2>err; test $? = 2; } && grep -q "unknown case" err &&
    { engine "$model" -c 1x67 2>err; test $? = 4; } && grep -q "takes 66 at most" err &&
    { engine "$model" -c 1x2 -c 1x3 --save v.npy 2>err; test $? = 2; } &&
    { engine "$model" -c 1x2 --swap 2>err; test $? = 2; } && grep -q "does not swap" err &&
    { engine "$model" -c 1x2 --dtype f33 2>err; test $? = 2; } && grep -q "unknown type" err &&
    { engine "$model" -c 1x2 --check v.npy 2>err; test $? = 2; } && grep -q "does not hold 1 rows" err'
test_done

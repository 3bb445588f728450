#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker embed`: lines in, vectors out.  The model is a tiny one of random weights.
. "$(dirname "$0")/lib.sh"

cp -r "$TOP/tests/fixtures/models/bert" m && chmod -R u+w m
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" m/tokenizer.json
cat >texts <<'EOF'
hello world
the cat sat on the mat

the dog runs fast, the cat runs fast and the house is red
water and fire
EOF
lines() { # COUNT: different texts of different lengths
    awk -v n="$1" 'BEGIN { split("the cat dog sat on mat hello world runs fast red blue green tree", w, " ")
        for (i = 0; i < n; i++) { s = ""; for (k = 0; k <= i % 17; k++) s = s w[(i * 7 + k * 3) % 14 + 1] " "; print s i } }'
}
embed() { stoker embed -m m --quiet "$@"; }
# whole records only: every line is JSON; the head of a .npy counts what is there
whole() {
    python3 - "$1" <<'EOF'
import json, re, sys
data = open(sys.argv[1], "rb").read()
if data[:6] == b"\x93NUMPY":
    rows, cols = map(int, re.search(rb"\((\d+), (\d+)\)", data[:128]).groups())
    assert len(data) == 128 + rows * cols * 4, (len(data), rows, cols)
else:
    assert data == b"" or data.endswith(b"\n"), data[-40:]
    rows = len([json.loads(line) for line in data.splitlines()])
print(rows)
EOF
}
# rows in OUTPUT so far; raw vectors have neither lines nor a head
rows_of() {
    case $1 in
    *.raw) echo $(($(wc -c <"$1" 2>/dev/null || echo 0) / (32 * 4))) ;;
    *) whole "$1" 2>/dev/null || echo 0 ;;
    esac
}
# RUN.pid: a run over a pipe that stays open, killed once it has written something
interrupted() { # OUTPUT, options
    rm -f fifo "$1" "$1.resume" && mkfifo fifo && out=$1 && shift
    "$BUILD/stoker" embed -m m --quiet -o "$out" "$@" <fifo & # its own pid, not a subshell's
    run=$!
    exec 9>fifo
    lines 40 | head -25 >&9
    i=0
    while [ "$(rows_of "$out")" -lt 25 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
    kill -9 $run
    exec 9>&-
    wait $run 2>/dev/null
    test -s "$out.resume"
}

test_expect 'Ctrl-C names the way on, ends by the signal, and a resume counts its own' '
    rm -f fifo v.jsonl v.jsonl.resume && mkfifo fifo && {
        trap - INT
        env --default-signal=INT "$BUILD/stoker" embed -m m -o v.jsonl <fifo 2>err & run=$!
        exec 9>fifo; lines 40 | head -25 >&9
        i=0; while [ "$(rows_of v.jsonl)" -lt 25 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
        kill -INT $run; wait $run; code=$?; exec 9>&-; test $code = 130
    } && grep -q "interrupted; the same command with --resume continues .v.jsonl." err &&
    lines 40 | stoker embed -m m -o v.jsonl --resume 2>err && test "$(whole v.jsonl)" = 40 &&
    grep -q "^15 texts, .*, 40 with those before" err'
test_expect 'a record a line, in order' '
    embed texts >out && test "$(wc -l <out)" = 5 &&
    python3 -c "
import json
rows = [json.loads(l) for l in open(\"out\")]
assert [r[\"index\"] for r in rows] == list(range(5))
assert all(len(r[\"embedding\"]) == 32 and not r[\"truncated\"] for r in rows)
assert [r[\"tokens\"] for r in rows] == [4, 8, 2, 16, 5], [r[\"tokens\"] for r in rows]
"'
test_expect 'the figures stand on stderr' '
    stoker embed -m m texts >/dev/null 2>err && grep -q "^5 texts, 35 tokens in .* tokens/s (.*)$" err &&
    ! grep -q "$(printf "\r")" err'
test_expect 'auto says which type it took, where that is not exact' '
    stoker embed -m m texts 2>err >/dev/null && sed -n "s/.* (.* \([a-z]*[0-9]*\), .*)$/\1/p" err >type && type=$(cat type) && test "$type" &&
    if test $type = f32; then ! grep "the default here" err; else head -1 err | grep -q "^stoker: $type on .*, the default here: .*f32"; fi &&
    stoker embed -m m --dtype f32 texts 2>err >/dev/null && ! grep "the default here" err &&
    stoker embed -m m --quiet texts 2>err >/dev/null && ! test -s err'
test_expect 'and --resume goes by that type' '
    embed --resume -o auto.jsonl texts && stoker embed -m m --quiet --dtype $(cat type) --resume -o auto.jsonl texts &&
    { stoker embed -m m --quiet --dtype int8 --resume -o auto.jsonl texts 2>err; test $? = 1; } && grep -q "other options" err'
test_expect 'stdin, - and files are the same' '
    embed <texts >a && embed - <texts >b && head -2 texts >t1 && tail -n +3 texts >t2 &&
    embed t1 t2 >c && cmp out a && cmp out b && cmp out c'
test_expect 'the same bits whatever shares the batch' '
    lines 300 >many && embed many >one && embed --batch-tokens 7 many >two && cmp one two &&
    for n in 1 17 300; do sed -n ${n}p many | embed | sed "s/^{.index.:0/{\"index\":$((n - 1))/" >x &&
        sed -n ${n}p one | cmp - x || exit 1; done'
test_expect 'the last line needs no line feed' '
    printf "hello world" | embed >x && head -1 out | cmp - x'
test_expect 'white space at the ends does not count' '
    printf "  hello world\t\r\n" | embed >x && head -1 out | cmp - x'
test_expect 'no input, no output' 'embed </dev/null >x && test ! -s x'

test_expect 'raw: floats alone' 'embed --format raw texts >raw && test "$(wc -c <raw)" = $((5 * 32 * 4))'
test_expect 'npy: a head and the same floats' '
    embed --format npy -o v.npy texts && test "$(whole v.npy)" = 5 && tail -c +129 v.npy | cmp - raw &&
    test ! -e v.npy.resume'
test_expect 'npy: stdout that is a file will do' 'embed --format npy texts >w.npy && cmp v.npy w.npy'
test_expect 'npy: a pipe will not' '
    (embed --format npy texts 2>err; echo $? >rc) | cat >x; test "$(cat rc)" = 2 && test ! -s x && grep -q "plain file" err'
test_expect 'JSON floats read back as the raw ones' 'python3 -c "
import json, struct
raw = struct.unpack(\"<160f\", open(\"raw\", \"rb\").read())
text = [struct.unpack(\"<f\", struct.pack(\"<f\", x))[0] for l in open(\"out\") for x in json.loads(l)[\"embedding\"]]
assert list(raw) == text"'

test_expect 'JSON lines: a field, or a string' '
    printf "%s\n" "{\"id\":1,\"body\":\"hello world\"}" "" "\"hello world\"" | embed --jsonl --field body >x &&
    test "$(wc -l <x)" = 2 && head -1 out | cut -d, -f2- >want && cut -d, -f2- x | sort -u | cmp want -'
test_expect '--id hands a member on, as it was' '
    printf "%s\n" "{\"id\":\"a\\\"b\",\"text\":\"hello world\"}" "{\"id\":12345678901234567890,\"text\":\"cat\"}" "{\"text\":\"dog\"}" \
        "{\"id\":[1],\"text\":\"mat\"}" "{\"id\":7,\"text\":8}" "\"tree\"" >ids &&
    { embed --jsonl --id id ids >x 2>err; test $? = 1; } && cut -d, -f2 x >y &&
    printf "%s\n" "\"id\":\"a\\\"b\"" "\"id\":12345678901234567890" "\"id\":null" "\"id\":null" "\"id\":7" "\"id\":null" | cmp - y &&
    python3 -c "import json; [json.loads(l) for l in open(\"x\")]" && head -1 out | cut -d, -f2- >want && head -1 x | cut -d, -f3- | cmp want -'
test_expect '--id: wrong use, and one too long' '
    for args in "--id id" "--jsonl --id id --format raw"; do embed $args ids >x 2>err; test $? = 2 && grep -q -- --id err || exit 1; done
    python3 -c "import json; print(json.dumps({\"id\": \"x\" * 1025, \"text\": \"a\"}))" | embed --jsonl --id id 2>err >x; test $? = 1 && grep -q "longer than 1024 bytes" err'
test_expect '--resume minds the ids' '
    rm -f r r.resume; grep -v ":8}" ids >good && embed --jsonl --id id --resume -o r good &&
    { sed "s/12345678901234567890/5/" good | embed --jsonl --id id --resume -o r 2>err; test $? = 1; } && grep -q "another input" err &&
    { embed --jsonl --resume -o r good 2>err; test $? = 1; } && grep -q "other options" err'
test_expect 'a bad line costs itself alone: exit 1, its number on stderr' '
    printf "%s\n" "{\"text\":\"hello world\"}" "{oops" "{\"text\":3}" "{\"other\":1}" "{\"text\":\"\"}" >bad &&
    embed --jsonl bad >x 2>err; test $? = 1 && test "$(wc -l <x)" = 5 &&
    head -1 out >want && head -1 x | cmp want - &&
    sed -n 2p x | grep -q "^{\"index\":1,\"error\":\"not JSON" && tail -1 x | grep -q "\"tokens\":2" &&
    grep -q "^stoker: bad:2: not JSON: line 1, column 2" err && grep -q "^stoker: bad:3: member .text. is not a string" err &&
    grep -q "^stoker: bad:4: no member .text." err && grep -q "^stoker: 3 of 5 texts failed" err'
test_expect 'npy: a bad line is a row of NaN' '
    embed --jsonl --format npy -o bad.npy bad 2>/dev/null; test $? = 1 && python3 -c "
import math, struct
v = struct.unpack(\"<160f\", open(\"bad.npy\", \"rb\").read()[128:])
assert not math.isnan(v[0]) and all(map(math.isnan, v[32:128])) and not math.isnan(v[128])"'
test_expect 'a NUL byte is dropped, each bad sequence of bytes is a U+FFFD' '
    printf "hello\000 world\n\377\376\302\n\342\202 cat\n" | embed --no-normalize >x &&
    printf "hello world\n\357\277\275\357\277\275\357\277\275\n\357\277\275 cat\n" | embed --no-normalize | cmp - x && test "$(wc -l <x)" = 3'
test_expect 'in JSON a NUL character is text; bad UTF-8 costs its line' '
    printf "%s\n" "\"hello\\u0000 world\"" >in0 && printf "{\"text\":\"a\377\"}\n\"\\ud800\"\n\"hello\000 world\"\n\"\"\n" >>in0 &&
    embed --jsonl in0 >x 2>err; test $? = 1 && head -1 out >want && head -1 x | cmp - want && grep -q "^stoker: in0:2: .*not UTF-8" err &&
    grep -q "^stoker: in0:3: .*surrogate" err && grep -q "^stoker: in0:4: .*control character" err && sed -n 5p x | grep -q "\"tokens\":2,"'
test_expect 'a line of 10 MB is cut, and says so' '
    { yes "the cat sat on" | head -c 10000000 | tr "\n" " "; echo; echo hello world; } | embed >x &&
    head -1 x | grep -q "\"tokens\":6[46],\"truncated\":true" && tail -1 x | cut -d, -f2- >y && head -1 out | cut -d, -f2- | cmp - y'
test_expect 'a line above 64 MiB costs itself alone' '
    { head -c 67108865 /dev/zero | tr "\000" a; echo; echo hello world; } | embed >x 2>err; test $? = 1 && test "$(wc -l <x)" = 2 &&
    head -1 x | grep -q "^{\"index\":0,\"error\":\"the line is longer than 67108864 bytes\"}" && grep -q "^stoker: stdin:1: " err &&
    tail -1 x | cut -d, -f2- >y && head -1 out | cut -d, -f2- | cmp - y'
test_expect '--max-tokens cuts' '
    embed --max-tokens 4 texts >x && sed -n 2p x | grep -q "\"tokens\":4,\"truncated\":true" &&
    head -1 x >y && head -1 out | cmp - y'
test_expect '--max-tokens beyond the positions: exit 2' 'embed --max-tokens 1000 texts 2>err; test $? = 2 && grep -q "positions for" err'

test_expect '--dims cuts and normalises; --no-normalize does not' 'python3 - <<EOF
import json, math, subprocess
def run(*a):
    out = subprocess.run(["$BUILD/stoker", "embed", "-m", "m", "--quiet", "texts", *a], capture_output=True, check=True).stdout
    return [json.loads(l)["embedding"] for l in out.splitlines()]
norm = lambda v: math.sqrt(sum(x * x for x in v))
plain, unit, cut, raw_cut = run("--no-normalize"), run("--normalize"), run("--normalize", "--dims", "8"), run("--no-normalize", "--dims", "8")
assert all(abs(norm(v) - 1) < 1e-5 for v in unit + cut)
assert [v[:8] for v in plain] == raw_cut and all(len(v) == 8 for v in cut)
assert any(abs(norm(v) - 1) > 1e-3 for v in plain)
for c, r in zip(cut, raw_cut):
    assert all(abs(x * norm(r) - y) < 1e-5 for x, y in zip(c, r))
EOF'
test_expect '--dims beyond the model: exit 2' 'embed --dims 33 texts 2>err; test $? = 2 && grep -q "gives 32 numbers" err'
test_expect 'a prompt is text before the text' '
    echo world | embed --prompt-text "hello " >x && head -1 out | cmp - x &&
    echo cat | embed --instruction "the dog" >x && echo "Instruct: the dog Query: cat" | embed >y && cmp x y'
test_expect 'a prompt by name, and a default one' '
    cp -r m p && printf "%s" "{\"prompts\":{\"query\":\"hello \",\"doc\":\"the cat \"},\"default_prompt_name\":\"query\"}" >p/config_sentence_transformers.json &&
    echo world | stoker embed -m p --quiet >x && head -1 out | cmp - x &&
    echo "sat on the mat" | stoker embed -m p --quiet --prompt doc >x && sed -n "2s/:1,/:0,/p" out | cmp - x &&
    echo "hello world" | stoker embed -m p --quiet --prompt-text "" >x && head -1 out | cmp - x &&
    { stoker embed -m p --prompt nix texts 2>err; test $? = 2; } && grep -q "no prompt .nix." err'

test_expect 'similarity: a matrix' '
    embed --similarity texts >x && test "$(wc -l <x)" = 6 && grep -q "^1 *hello world *1.00" x &&
    embed --similarity --json texts | python3 -c "
import json, sys
d = json.load(sys.stdin)
c = d[\"cosine\"]
assert d[\"schema\"] == \"stoker.similarity/1\" and len(c) == 5
assert all(abs(c[i][i] - 1) < 1e-6 for i in range(5)) and all(c[i][k] == c[k][i] for i in range(5) for k in range(5))"'
test_expect 'similarity: too many texts, exit 4' 'lines 65 | embed --similarity 2>err; test $? = 4 && grep -q "at most 64" err'

test_expect 'a pipe that trickles is answered as it goes' '
    rm -f fifo x; mkfifo fifo; "$BUILD/stoker" embed -m m --quiet <fifo >x & run=$!
    exec 9>fifo; echo hello world >&9
    i=0; while [ ! -s x ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
    cp x y; exec 9>&-; wait $run; head -1 out | cmp - y'
test_expect 'an endless input ends when the reader leaves' '
    (yes hello | timeout 60 "$BUILD/stoker" embed -m m --quiet; echo $? >rc) | head -3 >x && test "$(wc -l <x)" = 3 && test "$(cat rc)" = 0'

test_expect 'an output that exists is not replaced' '
    echo precious >f && embed -o f texts 2>err; test $? = 1 && grep -q "exists already" err && grep -q precious f &&
    embed --force -o f texts && cmp f out'
test_expect 'a tokenizer beside the network, below 0_Transformer' '
    mkdir z z/1_Pooling && cp -r m z/0_Transformer && cp m/1_Pooling/config.json z/1_Pooling/ 2>/dev/null
    echo "{\"pooling_mode_mean_tokens\": true}" >z/1_Pooling/config.json
    echo "[{\"path\": \"0_Transformer\", \"type\": \"sentence_transformers.models.Transformer\"}, {\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}]" >z/modules.json
    rm -f z/0_Transformer/modules.json; stoker embed -m z --quiet --no-normalize texts >x && embed --no-normalize texts | cmp - x'
for format in jsonl raw npy; do
    lines 40 >in
    embed --format $format -o full.$format in
    test_expect "$format: killed, then continued: the same file" '
        interrupted part.$format --format $format && printf "torn" >>part.$format &&
        embed --format $format --resume -o part.$format in && cmp full.$format part.$format'
    test_expect "$format: continuing a whole file changes nothing" '
        embed --format $format --resume -o part.$format in && cmp full.$format part.$format'
    test_expect "$format: a full disk: exit 1, what is there is valid and can be continued" '
        rm -f disk.$format disk.$format.resume
        (trap "" XFSZ; ulimit -f 6; embed --format $format -o disk.$format in 2>err; echo $? >rc)
        test "$(cat rc)" = 1 && grep -q "could not write .disk.$format." err &&
        { test $format = raw || whole disk.$format; } && test $(($(wc -c <disk.$format) % 128)) = 0 -o $format = jsonl &&
        embed --format $format --resume -o disk.$format in && cmp full.$format disk.$format'
done
test_expect 'resume refuses other options and another input' '
    interrupted p.npy --format npy && cp p.npy keep &&
    { embed --format npy --dims 8 --resume -o p.npy in 2>err; test $? = 1; } && grep -q "another model or other options" err &&
    { sed "s/cat/dog/" in | embed --format npy --resume -o p.npy 2>err; test $? = 1; } && grep -q "another input" err &&
    { head -3 in | embed --format npy --resume -o p.npy 2>err; test $? = 1; } && grep -q "more records than the input" err &&
    { embed --format npy -o p.npy in 2>err; test $? = 1; } && grep -q "did not end" err && cmp keep p.npy'
test_expect 'resume without a side file is refused, without a file it begins' '
    echo x >q && { embed --resume -o q texts 2>err; test $? = 1; } && grep -q "could not continue" err &&
    rm q && embed --resume -o q texts && cmp q out'
test_expect 'a full stdout is an error' 'embed texts >/dev/full 2>err; test $? = 1 && grep -q "could not write" err'
test_expect 'a full disk below stdout: exit 1, whole records alone' '
    for format in jsonl raw npy; do
        (trap "" XFSZ; ulimit -f 6; embed --format $format in >disk 2>err; echo $? >rc)
        test "$(cat rc)" = 1 && grep -q "could not write" err && test $(($(wc -c <disk) % 128)) = 0 &&
            { test $format = raw || whole disk >rows; } || exit 1; done'

test_expect 'wrong use: exit 2' '
    for args in "" "-m m --resume" "-m m --similarity -o x" "-m m --json" "-m m --field x" "-m m --format xml" \
        "-m m --normalize --no-normalize" "-m m --prompt a --prompt-text b" "-m m --threads 0" "-m m --dtype f8"; do
        stoker embed $args texts >x 2>err; test $? = 2 && test ! -s x && test -s err || exit 1; done'
test_expect 'a model that is not there: exit 3, and what to do' '
    stoker embed -m nix texts 2>err; test $? = 3 && grep -q "no model .nix." err && grep -q "stoker model get" err &&
    { XDG_DATA_HOME="$TMP/none" stoker embed -m all-MiniLM-L6-v2 texts 2>err; test $? = 3; } && grep -q "Fetch it with .stoker model get all-MiniLM-L6-v2." err'
test_expect 'an input that is not there: exit 1, before the model is read' '
    embed texts nix 2>err >x; test $? = 1 && test ! -s x && grep -q "could not read .nix." err'
test_expect 'a reranker gives no vectors' '
    cp -r "$TOP/tests/fixtures/models/bert-score" s && chmod -R u+w s && cp m/tokenizer.json s/ &&
    { stoker embed -m s texts 2>err; test $? = 2; } && grep -q "gives scores, not vectors" err'

if default_model; then
    test_expect 'all-MiniLM-L6-v2: what means the same is alike' '
        printf "%s\n" "A cat sat on the mat." "A kitten rested on the rug." "Interest rates rose again." |
        stoker embed -m all-MiniLM-L6-v2 --similarity --json | python3 -c "
import json, sys
c = json.load(sys.stdin)[\"cosine\"]
assert c[0][1] > 0.5 and c[0][2] < 0.2, c"'
else
    test_skip 'all-MiniLM-L6-v2' "$NO_MODEL"
fi
test_done

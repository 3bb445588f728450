#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker tokenize`: forms of output, pairs and limits, text that is none, and the way back.
. "$(dirname "$0")/lib.sh"
M=$TOP/tests/fixtures/tokens-uncased.json

test_expect 'tokens of lines, one line each' '
    printf "Hello, world!\n\nfile\n" | stoker tokenize -m "$M" >out &&
    printf "[CLS] hel ##lo , wor ##ld ! [SEP]\n[CLS] [SEP]\n[CLS] file [SEP]\n" | diff - out
'
test_expect 'ids with offsets equal the reference for every fixture line' '
    for name in uncased cased mpnet xlmr; do
        model=$TOP/tests/fixtures/tokens-$name.json
        test -f "$model" || model=$TOP/tests/fixtures/unigram-small.json
        cut -f1 "$TOP/tests/fixtures/tokens-$name.tsv" | python3 -c "
import re, sys
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(re.sub(rb\"\\\\x(..)\", lambda m: bytes.fromhex(m[1].decode()), data))" >in &&
        cut -f2 "$TOP/tests/fixtures/tokens-$name.tsv" >want &&
        stoker tokenize -m "$model" --ids --offsets in >got && diff want got >differ || { head -4 differ; exit 1; }
    done
'
test_expect 'JSON is one object a line with every field' '
    printf "a b\n\"\\\\\n" | stoker tokenize -m "$M" --json >out && test "$(wc -l <out)" = 2 &&
    head -1 out | python3 -c "
import json, sys
d = json.load(sys.stdin)
assert d[\"tokens\"] == [\"[CLS]\", \"a\", \"b\", \"[SEP]\"], d
assert d[\"offsets\"] == [[0, 0], [0, 1], [2, 3], [0, 0]], d
assert d[\"types\"] == [0, 0, 0, 0] and d[\"untruncated\"] == 4 and len(d[\"ids\"]) == 4, d"
'
test_expect 'unknown tokens of a Unigram are what stood there, normalised, also where one character becomes several' '
    printf "½ ㌀ a☃☃ 漢\t☃ <unk>½\n" >in &&
    stoker tokenize -m "$TOP/tests/fixtures/unigram-small.json" --pair --json in | python3 -c "
import json, sys
want = [chr(0x2581), \"1\", chr(0x2044), \"2\", chr(0x2581), chr(0x30a2) + chr(0x30d1), chr(0x30fc), chr(0x30c8),
        chr(0x2581), \"a\", chr(0x2603) * 2, chr(0x2581), chr(0x6f22)]
got = json.load(sys.stdin)[\"tokens\"]
assert got[:len(want)] == want and got[-3:] == [\"1\", chr(0x2044), \"2\"] and chr(0x2603) in got[len(want):], got" &&
    stoker tokenize -m "$TOP/tests/fixtures/unigram-small.json" --max 3 --left <in | grep -q "⁄ 2$"
'
test_expect 'a pair has its token types and its own offsets' '
    printf "a\tb b\n" | stoker tokenize -m "$M" --pair --json >out && grep -q "\"types\":\[0,0,0,1,1,1\]" out &&
    grep -q "\"offsets\":\[\[0,0\],\[0,1\],\[0,0\],\[0,1\],\[2,3\],\[0,0\]\]" out
'
test_expect 'a pair without a tab ends the run, and says where' '
    printf "a\tb\nno\n" | stoker tokenize -m "$M" --pair >out 2>err; test $? = 1 &&
    grep -q "^stoker: line 2 of .-.: a pair needs a tab" err && test "$(wc -l <out)" = 1
'
test_expect 'limits: right, left, the second text alone' '
    printf "a b c d\n" | stoker tokenize -m "$M" --max 4 >out && grep -qx "\[CLS\] a b \[SEP\]" out &&
    printf "a b c d\n" | stoker tokenize -m "$M" --max 4 --left >out && grep -qx "\[CLS\] c d \[SEP\]" out &&
    printf "a b\tc d e\n" | stoker tokenize -m "$M" --pair --max 6 --truncate second >out &&
    grep -qx "\[CLS\] a b \[SEP\] c \[SEP\]" out &&
    ! printf "a b c d\te\n" | stoker tokenize -m "$M" --pair --max 6 --truncate second 2>err &&
    grep -q "the second text has 1 tokens" err &&
    printf "a\n" | stoker tokenize -m "$M" --no-specials >out && grep -qx a out
'
test_expect 'an empty line, a NUL byte, bytes that are not UTF-8, no newline at the end' '
    printf "\na\\000b\na\\377 \\303\nlast" >in && stoker tokenize -m "$M" --offsets in >out &&
    printf "[CLS]:0-0 [SEP]:0-0\n[CLS]:0-0 ab:0-3 [SEP]:0-0\n[CLS]:0-0 a:0-1 [SEP]:0-0\n" >want &&
    head -3 out | diff want - && test "$(wc -l <out)" = 4
'
test_expect 'ids become text again, with and without special tokens' '
    printf "Hello, world!\n" | stoker tokenize -m "$M" --ids >ids && stoker tokenize -m "$M" --decode ids >out &&
    grep -qx "\[CLS\] hello, world! \[SEP\]" out && stoker tokenize -m "$M" --decode --no-specials ids >out &&
    grep -qx "hello, world!" out && stoker tokenize -m "$M" --decode --no-specials --json ids | grep -qx "{\"text\":\"hello, world!\"}" &&
    ! echo "1 x" | stoker tokenize -m "$M" --decode 2>err && grep -q "line 1 of .-.: .x. is not an id" err
'
test_expect 'several files, a directory as model, - as stdin' '
    mkdir m && cp "$M" m/tokenizer.json && echo a >f1 && echo b >f2 && echo c | stoker tokenize -m m --no-specials f1 - f2 >out &&
    printf "a\nc\nb\n" | diff - out
'
test_expect 'a line of ten megabytes' '
    head -c 10000000 /dev/zero | tr "\\0" "a" >in && echo >>in && stoker tokenize -m "$M" --ids in >out && test "$(wc -w <out)" = 3 &&
    yes "word" | head -c 10000000 | tr "\n" " " | stoker tokenize -m "$M" --ids >out && test "$(wc -l <out)" = 1
'
test_expect 'wrong use: no model, no file, a broken file' '
    stoker tokenize </dev/null 2>err; test $? = 2 && grep -q "needs a model" err &&
    stoker tokenize -m none.json </dev/null 2>err; test $? = 3 && grep -q "none.json" err &&
    echo "{\"model\":{\"type\":\"BPE\"}}" >b.json &&
    ! stoker tokenize -m b.json </dev/null 2>err && grep -q "tokenizer .b.json.: member .model.: type .BPE. is not supported" err &&
    ! stoker tokenize -m "$M" none.txt 2>err && grep -q "none.txt" err
'
test_expect 'a full disk is an error; a reader that left is not' '
    test -e /dev/full || exit 0
    yes "some words" | head -50000 >in
    ! stoker tokenize -m "$M" in >/dev/full 2>err && grep -q "could not write the output" err &&
    stoker tokenize -m "$M" in 2>err | head -1 >out && test ! -s err
'
test_expect 'a full disk below a file: whole lines alone, told once' '
    (trap "" XFSZ; ulimit -f 1000; stoker tokenize -m "$M" in >out 2>err; echo $? >rc); test "$(cat rc)" = 1 && test "$(wc -l <err)" = 1 &&
    test -s out && stoker tokenize -m "$M" in | head -$(wc -l <out) | cmp - out
'
test_done

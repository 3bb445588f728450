#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker rerank`: documents, best first.  The model is a tiny one of random weights.
. "$(dirname "$0")/lib.sh"

cp -r "$TOP/tests/fixtures/models/bert-score" m && chmod -R u+w m
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" m/tokenizer.json
cat >docs <<'EOF'
the cat sat on the mat
how do magnets work

water and fire
the house is red and the tree is green
the cat sat on the mat
EOF
Q='how do magnets work?'
rerank() { stoker rerank -m m --quiet "$@"; }
get() { python3 -c "import json, sys; d = json.load(open('$1')); r = d['results']; print($2)"; }

test_expect 'a tokenizer that is not supported: its message and exit status 2, as embed gives' '
    cp -r m bytes && echo "{\"model\":{\"type\":\"BPE\"}}" >bytes/tokenizer.json &&
    { stoker rerank -m bytes -q "$Q" docs >out 2>err; test $? = 2; } && test ! -s out &&
    grep -q "member .model.: type .BPE. is not supported" err &&
    stoker model --help | tr "\n" " " | grep -q "byte-level BPE"
'
test_expect 'a table, best first' '
    rerank -q "$Q" docs >out && head -1 out | grep -q "rank *score *index *text" && test "$(wc -l <out)" = 7 &&
    tail -n +2 out | awk "{ print \$2 }" >scores && sort -c -rn scores && tail -n +2 out | awk "{ print \$1 }" | sort -c -n'
test_expect 'JSON: every document once, equal ones in their order' '
    rerank -q "$Q" --json docs >j && test "$(get j "sorted(x[\"index\"] for x in r)")" = "[0, 1, 2, 3, 4, 5]" &&
    get j "d[\"schema\"], d[\"query\"], d[\"documents\"]" | grep -q "stoker.rerank/1.*how do magnets work?.* 6" &&
    get j "[x[\"index\"] for x in r if x[\"index\"] in (0, 5)]" | grep -qx "\[0, 5\]" &&
    get j "len({x[\"score\"] for x in r if x[\"index\"] in (0, 5)})" | grep -qx 1 &&
    get j "[x[\"text\"] for x in r if x[\"index\"] == 3]" | grep -q "water and fire"'
test_expect '--top keeps the best' '
    rerank -q "$Q" --top 2 --json docs >t && get j "[(x[\"index\"], x[\"score\"]) for x in r[:2]]" >a &&
    get t "[(x[\"index\"], x[\"score\"]) for x in r]" | cmp a - && rerank -q "$Q" --top 100 --json docs | cmp - j'
test_expect '--top of many is the head of all' '
    awk "BEGIN { for (i = 0; i < 700; i++) { s = \"\"; for (k = 0; k <= i % 23; k++) s = s substr(\"abcdefghijklmnopqrstuvwxyz\", (i * 7 + k * i) % 26 + 1, 1) \" \"; print s } }" >many &&
    rerank -q "$Q" --json many >a && for n in 1 10 699 700; do rerank -q "$Q" --top $n --json many >b &&
        get a "[(x[\"index\"], x[\"score\"]) for x in r[:$n]]" >x && get b "[(x[\"index\"], x[\"score\"]) for x in r]" | cmp x - || exit 1; done'
test_expect 'scores are sigmoids of --raw-scores' '
    rerank -q "$Q" --raw-scores --json docs >raw && python3 -c "
import json, math
a, b = (json.load(open(f))[\"results\"] for f in (\"j\", \"raw\"))
assert [x[\"index\"] for x in a] == [x[\"index\"] for x in b]
assert all(abs(x[\"score\"] - 1 / (1 + math.exp(-y[\"score\"]))) < 1e-5 for x, y in zip(a, b))"'
test_expect 'the same score whatever shares the batch' '
    rerank -q "$Q" --json --batch-tokens 9 docs | cmp - j &&
    sed -n 4p docs | rerank -q "$Q" --json >x && test "$(get x "r[0][\"score\"]")" = "$(get j "[x[\"score\"] for x in r if x[\"index\"] == 3][0]")"'
test_expect 'stdin and JSON lines' '
    rerank -q "$Q" --json <docs | cmp - j &&
    python3 -c "import json
for line in open(\"docs\"): print(json.dumps({\"body\": line.rstrip()}))" >l && rerank -q "$Q" --jsonl --field body --json l | cmp - j'
test_expect 'a long document is cut, the query is not' '
    { cat docs; yes "the cat sat on" | head -c 100000 | tr "\n" " "; echo; } | rerank -q "$Q" --json >x &&
    get x "[(x[\"tokens\"], x[\"truncated\"]) for x in r if x[\"index\"] == 6]" | grep -qx "\[(66, True)\]" &&
    test "$(get x "sum(x[\"truncated\"] for x in r)")" = 1'
test_expect 'an empty document, 10 MB, a NUL byte, bad UTF-8' '
    { printf "the cat\n\nthe\000 cat\nthe \377cat\nthe \357\277\275cat\n"; yes "the cat sat on" | head -c 10000000 | tr "\n" " "; echo; } >odd &&
    rerank -q "$Q" --json odd >x && python3 -c "
import json
r = {d[\"index\"]: d for d in json.load(open(\"x\", encoding=\"utf-8\"))[\"results\"]}
assert len(r) == 6 and r[0][\"score\"] == r[2][\"score\"] and r[3][\"score\"] == r[4][\"score\"]
assert r[1][\"text\"] == \"\" and not r[1][\"truncated\"] and r[2][\"text\"] == \"the\\0 cat\" and r[3][\"text\"] == r[4][\"text\"]
assert r[5][\"truncated\"] and len(r[5][\"text\"]) == 10000000"'
test_expect 'a document above 64 MiB costs itself alone' '
    { head -c 67108865 /dev/zero | tr "\000" a; echo; echo the cat; } | rerank -q "$Q" --json >x 2>err; test $? = 1 &&
    get x "[x[\"index\"] for x in r], d[\"failed\"]" | grep -qx "\[1\] 1" && grep -q "^stoker: stdin:1: the line is longer than" err'
test_expect 'an empty query and one of bad UTF-8 are texts' '
    rerank -q "" --json docs >x && rerank -q "  " --json docs | grep -v "\"query\"" >y && grep -v "\"query\"" x | cmp - y &&
    rerank -q "$(printf "a\377")" --json docs >x && rerank -q "$(printf "a\357\277\275")" --json docs | cmp - x'
test_expect 'a full disk: exit 1, and no half of a result' '
    { rerank -q "$Q" docs >/dev/full 2>err; test $? = 1; } && grep -q "could not write" err &&
    for form in "" --json; do
        (trap "" XFSZ; ulimit -f 2; rerank -q "$Q" $form many >disk 2>err; echo $? >rc)
        test "$(cat rc)" = 1 && grep -q "could not write" err && test ! -s disk || exit 1; done'
test_expect 'a query that fills the model is cut too' '
    long=$(yes "how do magnets work" | head -40 | tr "\n" " ") &&
    rerank -q "$long" --json docs >x && get x "all(x[\"truncated\"] and x[\"tokens\"] <= 66 for x in r)" | grep -qx True'
test_expect '--id hands a member on' '
    printf "%s\n" "{\"id\":\"a\",\"text\":\"cat\"}" "{\"id\":2,\"text\":\"dog\"}" "{\"text\":\"mat\"}" >ids &&
    rerank -q "$Q" --jsonl --json --id id ids >x && test "$(get x "sorted((x[\"index\"], x[\"id\"]) for x in r)")" = "[(0, '\''a'\''), (1, 2), (2, None)]" &&
    rerank -q "$Q" --jsonl --json --id id --top 1 ids >y && test "$(get y "r[0][\"id\"]")" = "$(get x "r[0][\"id\"]")" &&
    { rerank -q "$Q" --jsonl --id id ids 2>err; test $? = 2; }'
test_expect 'a bad line costs itself alone' '
    printf "%s\n" "{\"text\":\"cat\"}" "{" "\"dog\"" | rerank -q "$Q" --jsonl --json >x 2>err; test $? = 1 &&
    get x "sorted(x[\"index\"] for x in r), d[\"failed\"]" | grep -qx "\[0, 2\] 1" &&
    grep -q "^stoker: stdin:2: not JSON" err && grep -q "^stoker: 1 of 3 documents failed" err'
# as CrossEncoder.save_pretrained() of sentence-transformers 6.2 writes it
saved() { # TASK OUTPUT METHOD CONFIG: the model with these in the files of the library
    rm -rf s && cp -r m s && printf "%s" "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.base.modules.transformer.Transformer\"}]" >s/modules.json &&
    printf "%s" "{\"transformer_task\":\"$1\",\"modality_config\":{\"text\":{\"method\":\"forward\",\"method_output_name\":$3}},\"module_output_name\":\"$2\"}" >s/sentence_bert_config.json &&
    printf "%s" "$4" >s/config_sentence_transformers.json
}
T=sequence-classification C="\"model_type\":\"CrossEncoder\""
test_expect 'a cross-encoder that the library saved: its activation, its length, its default prompt before the query' '
    saved $T scores "\"logits\"" "{$C,\"prompts\":{}}" && stoker rerank -m s --quiet -q "$Q" --json docs | sed "s/\"s\"/\"m\"/" | cmp - j &&
    saved $T scores "[\"logits\"]" "{$C,\"activation_fn\":\"torch.nn.modules.linear.Identity\"}" &&
    stoker rerank -m s --quiet -q "$Q" --json docs | sed "s/\"s\"/\"m\"/" | cmp - raw &&
    saved $T scores "\"logits\"" "{$C,\"prompts\":{\"q\":\"the house: \"},\"default_prompt_name\":\"q\"}" &&
    stoker rerank -m s --quiet -q "$Q" --json docs | grep -v query >x && rerank -q "the house: $Q" --json docs | grep -v query | sed "s/\"m\"/\"s\"/" | cmp - x &&
    sed -i "s/^{/{\"max_seq_length\":9,/" s/sentence_bert_config.json && stoker rerank -m s --quiet -q "$Q" --json docs >x && get x "max(x[\"tokens\"] for x in r)" | grep -qx 9'
test_expect 'files that the library does not read for a cross-encoder change nothing, and info says so' '
    saved $T scores "\"logits\"" "{$C,\"activation_fn\":\"torch.nn.modules.linear.Identity\"}" && sed -i "s/^{/{\"max_seq_length\":9,/" s/sentence_bert_config.json &&
    mv s/modules.json . && stoker rerank -m s --quiet -q "$Q" --json docs | sed "s/\"s\"/\"m\"/" | cmp - j &&
    COLUMNS=300 stoker model info s >out && grep -q "config_sentence_transformers.json: .* does not read it" out && grep -q "sentence_bert_config.json: " out &&
    mv modules.json s/ && sed -i "s/CrossEncoder/SentenceTransformer/" s/config_sentence_transformers.json && stoker rerank -m s --quiet -q "$Q" --json docs | sed "s/\"s\"/\"m\"/" | cmp - j'
test_expect 'an output that is not the head is refused by the field that asks for it' '
    no() { { stoker rerank -m s --quiet -q x docs 2>err; test $? = 2; } && grep -q "$1" err; } &&
    saved feature-extraction scores "\"logits\"" "{$C}" && no transformer_task && saved $T token_embeddings "\"logits\"" "{$C}" && no module_output_name &&
    saved $T scores "[\"hidden_states\",0]" "{$C}" && no modality_config'
test_expect 'control characters do not reach the terminal' '
    printf "cat \033[31m dog\t\000mat\n" | rerank -q "$Q" >x && ! grep -q "$(printf "\033")" x && grep -q "mat" x'
test_expect 'no documents, no table' 'rerank -q "$Q" </dev/null >x && test ! -s x'
test_expect 'the figures stand on stderr' '
    stoker rerank -m m -q "$Q" docs 2>err >/dev/null && grep -q "^6 documents, .* tokens/s (" err'
test_expect 'wrong use: exit 2' '
    for args in "-m m" "-q x" "-m m -q x --top 0" "-m m -q x --field y"; do
        stoker rerank $args docs >x 2>err; test $? = 2 && test ! -s x && test -s err || exit 1; done'
test_expect 'a model without a head is no reranker' '
    cp -r "$TOP/tests/fixtures/models/bert" e && chmod -R u+w e && cp m/tokenizer.json e/ &&
    { stoker rerank -m e -q x docs 2>err; test $? = 2; } && grep -q "is not a reranker" err'
test_done

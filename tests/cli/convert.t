#!/bin/sh
# SPDX-License-Identifier: MIT
# stoker model convert on files that torch.save() wrote (tests/parity/convert.py keeps them).
. "$(dirname "$0")/lib.sh"

cat >check.py <<'END2'
"""check.py FOLDER: model.safetensors holds what expected.json says, and nothing else."""
import hashlib, json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
assert head.pop("__metadata__") == {"format": "pt"} and n % 8 == 0
got = {name: {"dtype": t["dtype"], "shape": t["shape"],
              "sha256": hashlib.sha256(data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]).hexdigest()}
       for name, t in head.items()}
want = json.load(open(sys.argv[1] + "/expected.json"))
assert got == want, [name for name in set(got) | set(want) if got.get(name) != want.get(name)]
END2
cp -r "$TOP/tests/fixtures/torch" t && chmod -R u+w t
for way in t/*; do
    test_expect "${way#t/}: the same types, shapes and numbers" '
        stoker model convert "$way" >out && grep -q "^$way/model.safetensors: [0-9]* tensors$" out && python3 check.py "$way"'
done

fresh() { rm -rf x && cp -r "t/$1" x && rm -f x/model.safetensors; }
refused() { # TEXT: convert of x fails with it and leaves nothing
    stoker model convert x >out 2>err
    test $? = "${2:-1}" && grep -q "$1" err && test ! -s out && ! ls x | grep -q safetensors
}
test_expect 'a shard that is missing is named' '
    fresh shards && rm x/pytorch_model-00002-of-00003.bin && refused "x/pytorch_model-00002-of-00003.bin" 3'
test_expect 'a shard that leads elsewhere is refused' '
    fresh shards && sed -i "s,pytorch_model-00001-of-00003.bin,../t/shards/&," x/*.json && refused "gives no file name"'
test_expect 'a tensor the index names and no shard has' '
    fresh shards && sed -i "s,\"a.bias\",\"b.bias\"," x/*.json && refused "tensor .b.bias. is not in its shard"'
test_expect 'one tensor in two shards' '
    fresh shards && cp x/pytorch_model-00001-of-00003.bin x/pytorch_model-00002-of-00003.bin && refused "is there twice"'
test_expect 'an index that is no index' '
    fresh shards && echo "{\"weight_map\": []}" >x/pytorch_model.bin.index.json && refused "weight_map"'
test_expect 'safetensors in shards are left alone' '
    fresh shards && echo "{}" >x/model.safetensors.index.json && { stoker model convert --force x 2>err; test $? = 2; } &&
    grep -q "index.json. is there already" err'
for way in views-zip4 views-old2 module-old4; do
    test_expect "$way: cut anywhere: an error with the file's name, nothing left" '
        fresh $way && size=$(wc -c <x/pytorch_model.bin) && at=0 && while [ $at -lt $size ]; do
            head -c $at "t/$way/pytorch_model.bin" >x/pytorch_model.bin
            refused "x/pytorch_model.bin" || { echo "$at: $(cat err)"; exit 1; }
            at=$((at + size / 37)); done'
done
test_expect 'an old file that says another count of numbers' '
    fresh tied-old2 && python3 - <<EOF
d = open("x/pytorch_model.bin", "rb").read()
at = d.rindex(b"\x0c\0\0\0\0\0\0\0")
open("x/pytorch_model.bin", "wb").write(d[:at] + b"\xff" * 8 + d[at + 8:])
EOF
    refused "numbers, the pickle wants 12"'
test_expect 'a pointer of Git LFS' '
    fresh tied-old2 && echo "version https://git-lfs.github.com/spec/v1" >x/pytorch_model.bin && refused "Git LFS" && grep -q "git lfs pull" err'
test_expect 'something else' 'fresh tied-old2 && echo "hello, this is text" >x/pytorch_model.bin && refused "no file of torch.save"'
test_expect 'a full disk leaves nothing' '
    fresh views-zip4 && (trap "" XFSZ; ulimit -f 1; refused "cannot write")'
test_expect 'a model without safetensors hints at convert, in shards too' '
    fresh shards && cp "$TOP/tests/fixtures/models/bert/config.json" x && { stoker model info x 2>err; test $? = 3; } && grep -q "stoker model convert x" err'
test_done

#!/bin/sh
# SPDX-License-Identifier: MIT
# A spec in several files: what is joined, where its values come from, what is refused.
. "$(dirname "$0")/lib.sh"

mkdir -p "$TMP/site/groups" && cd "$TMP/site" || exit 1
cat >stoker.yaml <<'END'
include: [groups/gpu.yaml, watch.yaml]
site: {name: split}
nodes:
  - {name: login, role: login}
targets: {slurm: {}}
END
cat >groups/gpu.yaml <<'END'
schema: stoker.spec/1
include: [fast.yaml]
nodes:
  - {name: a, gpus_per_node: 8, cpu_cores: 64, memory: 1TB, gpu: {model: H100}}
END
cat >groups/fast.yaml <<'END'
nodes:
  - {name: b, gpus_per_node: 8, cpu_cores: 64, memory: 1TB, gpu: {model: H200}}
END
cat >watch.yaml <<'END'
alerts:
  hot: {metric: gpu_temperature, critical: 90C}
targets: {prometheus: {}}
agent: {listen: 0.0.0.0, token_file: /etc/stoker/token}
END
cd "$TMP" || exit 1

# refused NAME MESSAGE: site/NAME is refused with the message, exit 1
refused() {
    stoker spec check "site/$1" >out 2>err
    [ $? = 1 ] && grep -q "$2" err || { cat err; return 1; }
}

test_expect 'lists are put one behind the other, maps are joined' '
    stoker spec check site/stoker.yaml >out && grep -q "^ok  site/stoker.yaml: 3 machines, 16 GPUs" out &&
    stoker spec show --json site/stoker.yaml | python3 -c "
import json, sys
s = json.load(sys.stdin)[\"spec\"]
assert [n[\"name\"] for n in s[\"nodes\"]] == [\"login\", \"a\", \"b\"], s[\"nodes\"]
assert s[\"targets\"][\"slurm\"] and s[\"targets\"][\"prometheus\"] and s[\"alerts\"][\"hot\"]
assert s[\"include\"] == [\"groups/gpu.yaml\", \"watch.yaml\"]
"'
test_expect 'show: values say which file they are from, and the output is one spec' '
    stoker spec show site/stoker.yaml >out && grep -q "name: login *# line 4$" out &&
    grep -q "name: a *# site/groups/gpu.yaml:4$" out && grep -q "name: b *# site/groups/fast.yaml:2$" out &&
    ! grep -q "^include" out && stoker spec check out
'
test_expect 'show --json: origins have the file' '
    stoker spec show --json site/stoker.yaml | python3 -c "
import json, sys
o = {x[\"path\"]: x for x in json.load(sys.stdin)[\"origins\"]}
assert o[\"nodes[2].name\"][\"file\"] == \"site/groups/fast.yaml\" and o[\"nodes[2].name\"][\"line\"] == 2, o
assert o[\"site.name\"][\"file\"] == \"site/stoker.yaml\"
"'
test_expect 'errors of values, names and targets name the file they stand in' '
    mkdir -p bad && cp -r site/. bad && printf "nodes:\n  - {name: b, gpus_per_node: many}\n" >bad/groups/fast.yaml &&
    { stoker spec check bad/stoker.yaml 2>err; test $? = 1; } &&
    grep -q "^bad/groups/fast.yaml:2:30: .nodes.2..gpus_per_node. must be a whole number" err &&
    grep -q "^    2 |   - {name: b, gpus_per_node: many}" err &&
    printf "nodes:\n  - {name: a, gpus_per_node: 8, cpu_cores: 64, memory: 1TB, gpu: {model: H100}}\n" >bad/groups/fast.yaml &&
    { stoker spec check bad/stoker.yaml 2>err; test $? = 1; } && grep -q "^bad/groups/fast.yaml:2:12: node group .a. has" err &&
    grep -q "Line 4 of .bad/groups/gpu.yaml. has" err &&
    printf "targets: {slurm: {}}\nnodes:\n  - {name: z, hosts: \"z[2-1]\"}\n" >bad/groups/fast.yaml &&
    { stoker spec check --json bad/stoker.yaml >out; test $? = 1; } && grep -q "\"file\": \"bad/groups/fast.yaml\"" out &&
    { stoker render all -f bad/stoker.yaml -o o 2>err; test $? = 1; } && grep -q "^bad/groups/fast.yaml:3:" err
'
test_expect 'a value that two files give is refused, with both places' '
    printf "include: [w.yaml]\nsite: {name: x}\n" >site/twice.yaml && printf "site:\n  name: y\n" >site/w.yaml &&
    refused twice.yaml "^site/w.yaml:2:3: .name. is given in two files" && grep -q "Line 2 of .site/twice.yaml. has it" err
'
test_expect 'syntax of an included file, and one that is empty or a list' '
    printf "include: [w.yaml]\n" >site/s.yaml && printf "nodes:\n\t- x\n" >site/w.yaml && refused s.yaml "^site/w.yaml:2:1: a tab" &&
    : >site/w.yaml && refused s.yaml "^site/w.yaml:1:1: the file is empty" &&
    printf -- "- a\n" >site/w.yaml && refused s.yaml "^site/w.yaml:1:1: a spec is a map"
'
for path in ../out.yaml /etc/passwd a/../b.yaml ./w.yaml a//b '""' groups/; do
    test_expect "the path $path is refused" '
        printf "include: [%s]\n" "$path" >site/p.yaml && refused p.yaml "^site/p.yaml:1:11: .*cannot be included"
    '
done
test_expect 'a missing file, a folder, a FIFO, a device: refused at the line, no waiting' '
    printf "include: [gone.yaml]\n" >site/p.yaml && refused p.yaml "cannot be included: could not open .gone.yaml." &&
    printf "include: [groups]\n" >site/p.yaml && refused p.yaml "cannot be included: .groups. is not a file" &&
    mkfifo site/pipe && printf "include: [pipe]\n" >site/p.yaml && refused p.yaml "is not a file"
'
test_expect 'a link that leads out is refused, one that stays is followed' '
    printf "site: {name: far}\n" >far.yaml && ln -s ../far.yaml site/out.yaml && ln -s w.yaml site/in.yaml &&
    ln -s / site/root && printf "site: {name: near}\n" >site/w.yaml &&
    printf "include: [out.yaml]\n" >site/p.yaml && refused p.yaml "cannot be included" &&
    printf "include: [root%s]\n" "$PWD/far.yaml" >site/p.yaml && refused p.yaml "cannot be included" &&
    printf "include: [in.yaml]\n" >site/p.yaml && stoker spec show site/p.yaml | grep -q "name: near"
'
test_expect 'cycles, twice the same, too deep, too many' '
    printf "include: [c2.yaml]\n" >site/c1.yaml && printf "include: [c1.yaml]\n" >site/c2.yaml &&
    refused c1.yaml "^site/c2.yaml:1:11: .c1.yaml. is included twice" &&
    printf "include: [me.yaml]\n" >site/me.yaml && refused me.yaml "^site/me.yaml:1:11: .me.yaml. is included twice" &&
    for i in 1 2 3 4 5; do printf "include: [d%d.yaml]\n" $((i + 1)) >site/d$i.yaml; done &&
    printf "site: {name: deep}\n" >site/d6.yaml && refused d1.yaml "more than 4 deep" &&
    { printf "include:\n"; for i in $(seq 70); do printf "site: {labels: {k%d: v}}\n" $i >site/m$i.yaml; printf "  - m%d.yaml\n" $i; done; } >site/m.yaml &&
    refused m.yaml "^site/m.yaml:66:5: more than 64 files are included"
'
test_expect 'aliases that are joined stay what they were elsewhere' '
    printf "include: [w.yaml]\nsite: {labels: &l {a: x}}\nnodes:\n  - {name: n, labels: *l}\n" >site/al.yaml &&
    printf "site: {labels: {b: y}}\n" >site/w.yaml && stoker spec show --json site/al.yaml | python3 -c "
import json, sys
s = json.load(sys.stdin)[\"spec\"]
assert s[\"site\"][\"labels\"] == {\"a\": \"x\", \"b\": \"y\"} and s[\"nodes\"][0][\"labels\"] == {\"a\": \"x\"}, s
"'
test_expect 'standard input includes nothing' '
    { printf "include: [a.yaml]\n" | stoker spec check - 2>err; test $? = 1; } && grep -q "there is no folder" err
'
test_expect 'render: the files are those of the one spec' '
    { sed "/include/d; /^targets/d" site/stoker.yaml; sed -n 4p site/groups/gpu.yaml; sed -n 2p site/groups/fast.yaml
      echo "targets: {slurm: {}, prometheus: {}}"; sed "/^targets/d" site/watch.yaml; } >stoker.yaml &&
    stoker render all -f site/stoker.yaml -o o1 >/dev/null && stoker render all -o o2 >/dev/null && diff -r o1 o2
'
test_expect 'plan train names the file that a value stands in' '
    mkdir -p pt && printf "include: [jobs.yaml]\nnodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}}]\n" >pt/stoker.yaml &&
    printf "components:\n  t: {kind: training, nodes: g, gpus: 8, nodes_per_replica: 2, command: [x], training: {framework: torchrun, shape: l, batch_per_gpu: 1}}\nshapes: {l: {params: 7B, layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000, seq_len: 4096}}\n" >pt/jobs.yaml &&
    stoker plan train -f pt/stoker.yaml t >out 2>err && grep -q "pt/jobs.yaml:2: components.t" out && ! grep -q "stoker.yaml:2: components.t" out || { cat out err; false; }
'
test_expect 'an included file of another format is refused at its line' '
    mkdir -p form && printf "schema: stoker.spec/1\ninclude: [b.yaml]\n" >form/a.yaml &&
    printf "schema: stoker.spec/1\nsite: {name: x}\n" >form/b.yaml && stoker spec check form/a.yaml >/dev/null &&
    printf "schema: stoker.spec/2\nsite: {name: x}\n" >form/b.yaml && ! stoker spec check form/a.yaml 2>err &&
    grep -q "^form/b.yaml:1:9: the format here is .stoker.spec/2., and that of .form/a.yaml. is .stoker.spec/1.$" err || { cat err; exit 1; }
'
test_done

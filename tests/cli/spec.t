#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker spec`: the five examples, every broken spec with its exact message, the ways to
# show a spec, and the reference page.  UPDATE_GOLDEN=1 rewrites tests/spec/*.expect.
. "$(dirname "$0")/lib.sh"

for name in ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift; do
    test_expect "example $name is listed, printed unchanged and clean" '
        stoker spec example | grep -q "^$name  " &&
        stoker spec example $name >out.yaml && cmp out.yaml "$TOP/data/examples/$name.yaml" &&
        stoker spec check out.yaml >out && test "$(wc -l <out)" = 1 && grep -q "^ok  out.yaml: " out
    '
    test_expect "example $name, shown, is a spec with the same values" '
        stoker spec example $name >a.yaml &&
        stoker spec show a.yaml >b.yaml && stoker spec show b.yaml >c.yaml &&
        sed "s/ *# line [0-9]*$//" b.yaml >b && sed "s/ *# line [0-9]*$//" c.yaml >c &&
        diff b c && stoker spec show --all a.yaml | stoker spec check - &&
        stoker spec show --json a.yaml | python3 -m json.tool >/dev/null
    '
done

# Where a key is left open a target may do more than its default says: the shown spec must leave it
# open, too.
for spec in "$TOP"/data/examples/*.yaml "$TOP"/tests/*/sites/*.yaml "$TOP/tests/slurm/site.yaml" \
    "$TOP"/tests/fixtures/render/*.yaml "$TOP/tests/render/full.yaml"; do
    test_expect "${spec#"$TOP"/}, shown, gives the same files of every target" '
        rm -rf one two && mkdir one two && stoker spec show "$spec" >two/s.yaml && cp "$spec" one/s.yaml &&
        stoker spec show two/s.yaml >again.yaml &&
        sed "s/ *# line [0-9]*$//" two/s.yaml >b && sed "s/ *# line [0-9]*$//" again.yaml >c && diff b c &&
        (cd one && stoker render all -f s.yaml -o out >told 2>&1; echo $? >rc) &&
        (cd two && stoker render all -f s.yaml -o out >told 2>&1; echo $? >rc) &&
        cmp one/rc two/rc && test "$(cat one/rc)" = 0 && diff -r one/out two/out &&
        sed "s/:[0-9]*:[0-9]*:/:/;/^ *[0-9]* | /d;/^ *| /d" one/told | sort >b && sed "s/:[0-9]*:[0-9]*:/:/;/^ *[0-9]* | /d;/^ *| /d" two/told | sort >c && diff b c
    '
done

# the numbers a site of each kind must have
example_has() {
    stoker spec example "$1" | stoker spec show - >shown || return 1
    shift
    for want; do grep -q -- "$want" shown || { echo "lacks: $want"; return 1; }; done
}
test_expect 'ai-platform-h200 has its pools, GPUs, budgets and alerts' '
    example_has ai-platform-h200 "memory: 141GB" "memory_bandwidth: 4.8TB/s" "link_bandwidth: 900GB/s" \
        "power: 700" "cpu_cores: 128" "memory: 2TB" "local_disk: 16TB" "rate: 400Gb/s" "kind: roce" \
        "size: 64GB" "size: 32GB" "size: 16GB" "size: 13GB" "gpus: 4" "gpus: 2" "gpus: 1" \
        "day: .5000/d" "month: .150000/mo" "warn: 70%" "for: 1h" "warn: 20GB" "warn: 15%" "port: 8090"
'
test_expect 'driving-h200 has its batch, loader and goals' '
    example_has driving-h200 "global_batch: 256" "batch_per_gpu: 32" "precision: bf16" "workers_per_gpu: 2" \
        "prefetch: 4" "pin_memory: true" "persistent_workers: true" "drop_last: true" "sync_batch_norm: true" \
        "min: 80%" "min: 70%" "max: 90%" "max: 85C" "cudnn: 8.9" "cuda: 12.1"
'
test_expect 'llm-cluster has its scheduler, thresholds and sizes' '
    example_has llm-cluster "fair_share: 10000" "preempt: requeue" "gang: false" "window: 7d" "warn: 50%" \
        "warn: 95%" "critical: 85C" "warn: 700W" "metric: gpu_ecc_double_bit" "nodes_per_replica: 64" "params: 7B" \
        "params: 175B" "notice: 2m" "metric: nvlink_rate" "metric: pcie_rate"
'
test_expect 'kb-a100 has its models, batches and ports' '
    example_has kb-a100 "multilingual-e5-large-instruct:" "sbert_large_nlu_ru:" "all-mpnet-base-v2:" \
        "bge-reranker-v2-m3:" "ms-marco-MiniLM-L-12-v2:" "batch: 128" "batch: 256" "dtype: f16" \
        "normalize: true" "port: 8003" "port: 8002" "restart: always"
'
test_expect 'rdma-openshift has its NICs, replicas and volumes' '
    example_has rdma-openshift "gpus_per_node: 4" "interfaces: .net1, net2, net3, net4" "mtu: 9000" \
        "nics_per_node: 4" "min: 0" "max: 6" "size: 100GiB" "per_replica: true" "keep: true" \
        "service: trainer-headless" "framework: torchtitan"
'

for file in "$TOP"/tests/spec/*.yaml; do
    name=$(basename "$file" .yaml)
    test_expect "broken spec $name gives its message" '
        (cd "$TOP/tests/spec" && stoker spec check $name.yaml >"$TMP/out" 2>"$TMP/err"); status=$?
        [ -z "${UPDATE_GOLDEN-}" ] || cp err "$TOP/tests/spec/$name.expect"
        test $status = 1 && test ! -s out && diff -u "$TOP/tests/spec/$name.expect" err
    '
done
test_expect 'there are twenty broken specs and more' 'test "$(ls "$TOP"/tests/spec/*.yaml | wc -l)" -ge 20'

test_expect 'check: several files, one bad: exit 1, all reported' '
    stoker spec example kb-a100 >good.yaml && printf "site:\n  nam: x\n" >bad.yaml
    stoker spec check good.yaml bad.yaml good.yaml >out 2>err; test $? = 1 &&
    test "$(grep -c "^ok  good.yaml" out)" = 2 && grep -q "^bad.yaml:2:3: unknown key .nam. in .site." err &&
    grep -qx "stoker: 1 error in 1 of 3 files" err
'
test_expect 'check --json: line, column, message and hint; exit 1; nothing on stderr' '
    printf "site:\n  nam: x\n" >bad.yaml
    stoker spec check --json bad.yaml >out 2>err; test $? = 1 && test ! -s err &&
    python3 -c "
import json
f = json.load(open(\"out\"))
assert f[\"schema\"] == \"stoker.spec-check/1\"
e, = f[\"files\"][0][\"errors\"]
assert (e[\"line\"], e[\"column\"]) == (2, 3) and \"nam\" in e[\"message\"] and \"name\" in e[\"hint\"]
"
'
test_expect 'check, show, render: a missing file is exit 3 and one line' '
    stoker spec check nowhere.yaml >out 2>err; test $? = 3 && test ! -s out &&
    { stoker spec show nowhere.yaml 2>/dev/null; test $? = 3; } && { stoker render all -f nowhere.yaml 2>/dev/null; test $? = 3; } &&
    grep -q "^stoker: could not open .nowhere.yaml.: No such file" err
'
test_expect 'check: a file above 1 MiB is exit 4' '
    head -c 1100000 /dev/zero | tr "\0" "#" >big.yaml
    stoker spec check big.yaml >out 2>err; test $? = 4 && grep -q "larger than 1048576 bytes" err
'
test_expect 'check: an endless file ends' 'stoker spec check /dev/zero >out 2>err; test $? = 4'
test_expect 'check: colour when asked, none otherwise' '
    printf "x: 1\n" >bad.yaml
    stoker spec check --colour=always bad.yaml 2>&1 | grep -q "$(printf "\033")" &&
    ! stoker spec check bad.yaml 2>&1 | grep -q "$(printf "\033")"
'
test_expect 'show: values say where they are from' '
    printf "site:\n  name: kb\n" | stoker spec show - >out &&
    grep -q "^  name: kb  *# line 2$" out && grep -q "^  # port: 8090  *# default$" out
'
test_expect 'show: without a file, the defaults' 'stoker spec show | stoker spec check -'
test_expect 'show: a broken spec is exit 1 with its errors' '
    printf "x: 1\n" | stoker spec show - >out 2>err; test $? = 1 && test ! -s out &&
    grep -q "^standard input:1:1: unknown key .x." err
'
test_expect 'doc: one key, a path with a name, an unknown one' '
    stoker spec doc pools.world_model.size | grep -q "^pools.NAME.size  a size" &&
    stoker spec doc nodes | grep -q "^nodes\[\].gpu.memory" &&
    { stoker spec doc nodes.gpuz 2>err; test $? = 2; } && grep -q "Did you mean .gpu.?" err
'
test_expect 'example: an unknown one is exit 2 with the nearest' '
    stoker spec example kb-a10 2>err; test $? = 2 && grep -q "Did you mean .kb-a100.?" err
'
test_expect 'docs/reference/spec.md is current (make docs)' '
    stoker spec doc --markdown >out && diff -u "$TOP/docs/reference/spec.md" out
'
test_expect 'doc --json: the keys below a path, with meaning' '
    stoker spec doc --json nodes.gpu.memory | python3 -c "
import json, sys
d = json.load(sys.stdin)
assert d[\"schema\"] == \"stoker.spec-keys/1\" and d[\"keys\"][0][\"key\"] == \"nodes[].gpu.memory\", d
" && ! stoker spec doc --json nosuch
'
test_expect 'example --json: a list' '
    test "$(stoker spec example --json | python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"examples\"]))")" = 5
'
test_expect 'check: a GPU that the catalogue lacks may be described; that is a warning' '
    printf "nodes:\n  - {name: a, gpus_per_node: 8, gpu: {model: X900, memory: 80GB}}\n" >odd.yaml
    stoker spec check odd.yaml >out 2>err && grep -q "^ok  odd.yaml" out &&
    grep -q "^odd.yaml:2:46: warning: the catalogue has no GPU .X900." err &&
    { stoker spec check --strict odd.yaml >out 2>err; test $? = 1; } && test ! -s out &&
    grep -q "^stoker: 1 warning, and --strict is set" err
'
test_expect 'check --json: warnings have line and column; --strict decides' '
    stoker spec check --json odd.yaml >out 2>err && test ! -s err && cat >j.py <<END
import json, sys
f = json.load(open("out"))["files"][0]
w, = f["warnings"]
assert (w["line"], w["column"]) == (2, 46) and "X900" in w["message"] and not f["errors"], f
assert f["ok"] == (sys.argv[1] == "ok"), f
END
    python3 j.py ok && { stoker spec check --json --strict odd.yaml >out; test $? = 1; } && python3 j.py bad
'
test_expect 'up --strict does not start with a warning, which it prints' '
    { timeout 20 "$BUILD/stoker" up --strict -f odd.yaml >out 2>err; test $? = 1; } && grep -q "^odd.yaml:2:46: warning: " err &&
    grep -q "1 warning, and --strict is set" err
'
test_expect 'what a target cannot follow is a warning at its line, not only a comment in a file' '
    cat >wish.yaml <<END
nodes:
  - {name: a, gpus_per_node: 8, gpu: {model: H100}}
nccl:
  env: {NCCL_DEBUG: TRACE}
components:
  c: {target: compose, image: x.org/c:1, command: [c], gpus: 1, priority: high}
  u: {target: systemd, shm: 1GiB, command: [/bin/u], gpus: 1, health: {path: /ok}}
targets: {compose: {}, systemd: {}}
END
    stoker spec check wish.yaml 2>err && grep -q "^wish.yaml:4:21: warning: NCCL_DEBUG=TRACE" err &&
    grep -q "^wish.yaml:6:.*warning: compose does not follow .priority. of component .c." err &&
    grep -q "^wish.yaml:7:.*warning: systemd does not follow .shm. of component .u." err &&
    grep -q "^wish.yaml:7:.*warning: systemd does not follow .health. of component .u." err &&
    stoker render all -f wish.yaml -o o 2>err2 >/dev/null && diff err err2 && rm -r o &&
    { stoker render all --strict -f wish.yaml -o o 2>/dev/null; test $? = 1; } && test ! -e o
'
# one judgement: whatever render refuses, check refuses, with the same words
for file in "$TOP"/tests/spec/*.yaml; do
    name=$(basename "$file" .yaml)
    test_expect "render all refuses $name as check does" '
        (cd "$TOP/tests/spec" && stoker render all --check -f $name.yaml >"$TMP/out" 2>"$TMP/err"); test $? = 1 &&
        sed "\$d" err >a && sed "\$d" "$TOP/tests/spec/$name.expect" >b && diff -u b a
    '
done
test_expect 'a server without a model is told of, whatever runs it: it would end at once and be started for ever' '
    for t in compose systemd kubernetes openshift local; do
        cat >served.yaml <<END
nodes: [{name: a, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 64, memory: 512GiB}]
components:
  s: {kind: serving, target: $t, gpus: 1, IMAGE}
  other: {kind: serving, target: $t, gpus: 1, IMAGE, command: [/opt/server], ports: [{name: h, port: 9}]}
  named: {kind: serving, target: $t, gpus: 1, IMAGE, args: [-m, "e5=/models/e5"], ports: [{name: h, port: 8}]}
targets: {$([ $t = local ] || echo "$t: {}")}
END
        case $t in systemd) sed -i "s/, IMAGE//" served.yaml ;; *) sed -i "s|IMAGE|image: r.org/s:1|" served.yaml ;; esac
        stoker spec check served.yaml 2>err && grep -q "^served.yaml:3:3: warning: .s. serves no model of the spec" err &&
        test "$(grep -c "serves no model" err)" = 1 || { cat err; exit 1; }
        printf "models:\n  m: {source: org/m, kind: embedding, component: s}\n" >>served.yaml
        stoker spec check served.yaml 2>err && ! grep "serves no model" err || exit 1
    done
'
test_expect 'what is to be written does not lie on storage that nobody may write to' '
    for t in kubernetes openshift slurm compose systemd; do
        for how in storage mount; do
            image=", image: r.org/t:1" ro= mro=
            case $t in slurm | systemd) image= ;; esac
            case $how in storage) ro=", read_only: true" ;; mount) mro=", read_only: true" ;; esac
            cat >writes.yaml <<END
nodes: [{name: g, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
storage: [{name: d, kind: nfs, path: /d, source: "n:/d", size: 1TB$ro}, {name: rw, kind: nfs, path: /d/rw, source: "n:/rw", size: 1TB}]
components:
  t: {kind: training, target: $t, gpus: 8, command: [python, t.py], mounts: [{storage: d, path: /d$mro}, {storage: rw, path: /d/rw}]$image,
    training: {checkpoint: {path: /d//ck, every: 10m}}}
targets: {$t: {}}
END
            ! stoker spec check writes.yaml 2>err && grep -q "^writes.yaml:5:35: checkpoints of .t. cannot be written: .d. is read-only there" err || { cat err; exit 1; }
            grep -q "says .read_only: true.\.$" err && sed -i "s|/d//ck|/d/rw/ck|" writes.yaml
            stoker spec check writes.yaml 2>err || { cat err; exit 1; }
        done
    done
    cat >daemons.yaml <<END
nodes: [{name: g, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
storage: [{name: d, kind: nfs, path: /d, source: "n:/d", size: 1TB, read_only: true}]
serve: {batch_dir: /d/b}
targets: {slurm: {state_dir: /d/s, log_dir: /dd}, systemd: {log_dir: /d}}
END
    ! stoker spec check daemons.yaml 2>err && grep -q "^daemons.yaml:3:20: files and batches of the model server cannot be written" err &&
    grep -q "^daemons.yaml:4:30: the state of slurmctld" err && grep -q "^daemons.yaml:4:70: logs of the units" err && grep -q "3 errors" err
'
test_expect 'to wait for nothing and to have no pools are no wishes' '
    cat >nothing.yaml <<END
nodes: [{name: g, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
components:
  t: {kind: batch, target: slurm, gpus: 1, command: [x], depends_on: [], pools: [], env: {}, mounts: []}
  b: {kind: batch, target: slurm, gpus: 1, command: [x], depends_on: [t]}
targets: {slurm: {controller: c}}
END
    stoker spec check nothing.yaml 2>err && grep -q "^nothing.yaml:4:.* slurm does not follow .depends_on." err && test "$(grep -c warning: err)" = 1 || { cat err; exit 1; }
'
test_expect 'a number that is too large is told of as one, with the most that is allowed' '
    large() { # KEYS OF A GROUP COLUMN WORDS
        printf "nodes:\n  - {name: g, %s}\n" "$1" >large.yaml && ! stoker spec check large.yaml 2>err && grep -q "^large.yaml:2:$2: .*$3" err || { cat err; exit 1; }
    }
    large "count: 99999999999999999999" 22 "is 99999999999999999999, but at most 10000 is allowed" && large "count: -99999999999999999999" 22 "but at least 0 is allowed" &&
    large "memory: 99999999999999999999GB" 23 "is 99999999999999999999GB, but at most .* is allowed" && large "memory: 9999999.5PB" 23 "but at most" &&
    large "notice: 99999999999999999999h30m" 23 "but at most .* is allowed" && large "count: 1e30" 22 "must be a whole number, not" && large "count: 9x" 22 "must be a whole number" &&
    large "memory: 0.3B" 23 "must be a size" && printf "agent: {port: 99999999999999999999}\n" >port.yaml && ! stoker spec check port.yaml 2>err && grep -q "but at most 65535 is allowed" err &&
    printf "budgets: {day: %s/d}\n" "\$99999999999999999999" >money.yaml && ! stoker spec check money.yaml 2>err && grep -q "^money.yaml:1:16: .budgets.day. is too large: " err
'
test_expect 'a control character is called one, whatever stands in front of it' '
    for c in "000:0000" "033:001B" "177:007F" "302\\0205:0085" "rx:000D"; do
        case $c in r*) byte="\\rx" ;; *) byte="\\0${c%%:*}" ;; esac
        printf "site: {name: a}\nmodels: {} # %b\n" "$byte" >control.yaml
        ! stoker spec check control.yaml 2>err && grep -q "^control.yaml:2:14: U+${c#*:} is a control character" err || { echo "$c"; cat -v err; exit 1; }
    done
    printf "site: {name: a}\nmodels: {} # \\302x\n" >control.yaml && ! stoker spec check control.yaml 2>err && grep -q "^control.yaml:2:14: byte 0xc2 is not UTF-8 text" err
'
test_expect 'words of other systems lead to ours' '
    printf "nodes:\n  - {name: a, cpus: 8, ram: 1TB, gpus: 8}\ncomponents: {c: {cpu: 4, volumes: []}}\n" >words.yaml &&
    { stoker spec check words.yaml 2>err; test $? = 1; } && grep -A3 "key .cpus." err | grep -q "mean .cpu_cores.?" &&
    grep -A3 "key .ram." err | grep -q "mean .memory.?" && grep -A3 "key .gpus." err | grep -q "mean .gpus_per_node.?" &&
    grep -A3 "key .cpu." err | grep -q "mean .cpus.?" && grep -A3 "key .volumes." err | grep -q "mean .mounts.?"
'
test_expect 'switches are a tree, and those of their fabric' '
    switches() { printf "fabrics:\n  - {name: o, kind: efa, rate: 9Gb/s, switches: {x: {}}}\n  - {name: r, kind: roce, rate: 9Gb/s, switches: {\n%s}}\n" "$1" >switches.yaml; } &&
    switches "      l1: {switches: [l2]},
      l2: {switches: [l1]}" && { stoker spec check switches.yaml 2>err; test $? = 1; } &&
    grep -q "^switches.yaml:5:23: switch .l1. is below .l2., which is below it" err &&
    switches "      a: {switches: [b]},
      b: {switches: [c]},
      c: {switches: [d, a]},
      d: {}" && ! stoker spec check switches.yaml 2>err && grep -q "^switches.yaml:6:25: switch .a. is below .c." err &&
    switches "      a: {switches: [a]}" && ! stoker spec check switches.yaml 2>/dev/null &&
    switches "      a: {switches: [x]}" && ! stoker spec check switches.yaml 2>err && grep -q "switch .x. is not one of fabric .r." err &&
    switches "      a: {switches: [b, c]},
      b: {switches: [d]},
      c: {switches: [d]},
      d: {}" && stoker spec check switches.yaml
'
test_expect 'an image with a command on systemd is refused: it would run on the host' '
    printf "components:\n  j: {kind: batch, target: systemd, command: [/bin/echo], image: r.org/j:1}\n  s: {kind: serving, target: systemd, command: [/bin/s], image: r.org/s:1}\ntargets: {systemd: {}}\n" >image.yaml
    { stoker spec check image.yaml 2>err; test $? = 1; } &&
    grep -q "^image.yaml:2:66: .*the command of .j. would run on the host" err &&
    grep -q "^image.yaml:3:.*the command of .s. would run on the host" err
'
test_expect 'components that wait for each other are refused, the circle named' '
    printf "components:\n  z: {command: [z], depends_on: [a]}\n  a: {command: [a], depends_on: [b]}\n  b: {command: [b], depends_on: [c]}\n  c: {command: [c], depends_on: [d, a]}\n  d: {command: [d]}\n" >circle.yaml
    { stoker spec check circle.yaml 2>err; test $? = 1; } &&
    grep -q "^circle.yaml:5:37: components depend on each other in a circle: .a. on .b. on .c. on .a.$" err &&
    grep -q "^stoker: 1 error" err && sed -i "s/, a\]/]/" circle.yaml && stoker spec check circle.yaml
'
test_expect 'a fabric that the group of a component is not on is refused' '
    cat >off.yaml <<END
nodes:
  - {name: a, gpus_per_node: 8, gpu: {model: H100}, fabrics: [m]}
  - {name: b, gpus_per_node: 8, gpu: {model: H100}}
fabrics: [{name: m, kind: roce, rate: 400Gb/s}]
components:
  t: {command: [t], gpus: 8, nodes: b, fabrics: [m]}
END
    { stoker spec check off.yaml 2>err; test $? = 1; } && grep -q "^off.yaml:6:50: .*node group .b. is not on it" err &&
    sed -i "s/nodes: b/nodes: a/" off.yaml && stoker spec check --strict off.yaml
'
test_expect 'NVLink that the model cannot have, and login nodes in a partition, are doubted' '
    cat >link.yaml <<END
nodes:
  - {name: l, count: 4, gpus_per_node: 8, gpu: {model: L40S, link: nvlink4}, cpu_cores: 64, memory: 1TB}
  - {name: h, count: 4, gpus_per_node: 8, gpu: {model: H100}, nvlink_domain: 32, cpu_cores: 64, memory: 1TB}
  - {name: g, count: 8, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, cpu_cores: 144, memory: 960GB}
  - {name: in, role: login, count: 1, cpu_cores: 8, memory: 64GB}
targets: {slurm: {controller: c, partitions: [{name: p, nodes: [h, in]}]}}
END
    stoker spec check link.yaml 2>err && grep -q "^link.yaml:2:68: warning: the L40S.* has no NVLink" err &&
    grep -q "^link.yaml:3:78: warning: machines with .*H100.* have no NVLink between each other" err &&
    grep -q "^link.yaml:4:79: warning: an NVLink domain of 72 GPUs is more than the 32 of .g." err &&
    grep -q "^link.yaml:6:68: warning: partition .p. has the login nodes .in." err
'
test_expect 'memory and power that the model does not have, and local storage that no disk holds, are doubted' '
    cat >sizes.yaml <<END
nodes:
  - {name: a, gpus_per_node: 8, gpu: {model: H100, memory: 141GB, power_limit: 900}, local_disk: 20TB}
  - {name: b, gpus_per_node: 8, gpu: {model: A100, memory: 40GB}, local_disk: 20TB, local_path: /nvme}
  - {name: c, gpus_per_node: 8, gpu: {model: RTX-4090, power_limit: 500}}
storage:
  - {name: s, kind: local, path: /scratch/s, size: 15TB}
  - {name: t, kind: local, path: /scratch/t, size: 6TB}
components:
  x: {command: [x], nodes: a, mounts: [{storage: s, path: /s}, {storage: t, path: /t}]}
  y: {command: [x], nodes: [b, c], mounts: [{storage: s, path: /s}, {storage: t, path: /t}]}
END
    stoker spec check sizes.yaml 2>err && cat err && grep -q "^sizes.yaml:2:60: warning: the H100 SXM5 80GB has 80GB of memory, not 141GB" err &&
    grep -q "^sizes.yaml:2:80: warning: the H100 SXM5 80GB takes at most 700 W, not 900" err &&
    grep -q "^sizes.yaml:3:60: warning: the A100 SXM4 80GB has 80GB of memory, not 40GB" err && grep -q "A100 SXM4 40GB has so much: name it .a100-40gb." err &&
    grep -q "^sizes.yaml:7:52: warning: local storage takes 21TB of a machine of .a., whose disk at ./scratch. has 20TB" err && test "$(grep -c warning err)" = 4 &&
    sed "s/141GB, power_limit: 900/80GiB, power_limit: 700/; s/40GB/80GB/; s/15TB/14TB/" sizes.yaml >fit.yaml && stoker spec check --strict fit.yaml
'
test_expect 'a message about a default points at the nearest key that the file has' '
    cat >near.yaml <<END
nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB}]
components:
  s: {kind: service, target: kubernetes, image: r.org/x:1, health: {path: /ok}}
targets:
  slurm: {}
  kubernetes: {stoker_image: r.org/stoker:1}
END
    { stoker spec check near.yaml 2>err; test $? = 1; } && grep -q "^near.yaml:3:60: .* no port to ask" err &&
    sed -i /^components/,+1d near.yaml && stoker spec check near.yaml 2>err &&
    grep -q "^near.yaml:3:3: warning: the controller is .localhost." err
'
test_expect 'the examples are clean, warnings counted' '
    for e in $(stoker spec example --json | python3 -c "import json, sys; print(*[x[\"name\"] for x in json.load(sys.stdin)[\"examples\"]])"); do
        stoker spec example $e >$e.yaml && stoker spec check --strict $e.yaml >/dev/null && stoker render all -f $e.yaml --check --strict >/dev/null || exit 1
    done
'
test_expect 'a GPU that the catalogue does not have: the nearest or all that it has, refused, or told when it is described' '
    printf "nodes:\n  - {name: g, count: 1, gpus_per_node: 8, gpu: {model: MI300X}}\n  - {name: h, count: 1, gpus_per_node: 8, gpu: {model: H10O, memory: 80GB}}\n  - {name: i, count: 1, gpus_per_node: 8, gpu: {model: MI300X, memory: 192GB, link: pcie}}\n" >gpus.yaml &&
    { stoker spec check gpus.yaml 2>err; test $? = 1; } && cat err && grep -q "^gpus.yaml:2:56: the catalogue has no GPU .MI300X." err && grep -q "^It has .*H100, .*Give .memory. and .link." err &&
    grep -q "^gpus.yaml:3:56: warning: the catalogue has no GPU .H10O." err && grep -q "^Did you mean .H100.? What the spec says" err &&
    grep -q "^gpus.yaml:4:56: warning: the catalogue has no GPU .MI300X." err
'
test_expect 'every GPU of the catalogue: a spec with it is clean and its link is its own, plans have its memory, a bridge is what the site says' '
    set -- L4 pcie 22 A10 pcie 22 A30 pcie 24 A40 pcie 44 T4 pcie 15 H20 nvlink4 95 GH200 nvlink4 95 gh200-144gb nvlink4 142 V100 nvlink2 32 V100-16GB nvlink2 16 a100-pcie-40gb pcie 40 h100-nvl pcie 93
    while test $# -gt 0; do
        printf "nodes:\n  - {name: g, count: 2, gpus_per_node: 4, gpu: {model: $1}}\n" >g.yaml
        stoker spec check --strict g.yaml >/dev/null 2>err && stoker spec show --json g.yaml >out || { cat err; exit 1; }
        test "$(python3 -c "import json; d = json.load(open(\"out\")); print(d.get(\"spec\", d)[\"nodes\"][0][\"gpu\"][\"link\"])")" = $2 || { echo $1; cat out; exit 1; }
        stoker plan memory --model llama-3.1-8b --gpu $1 --gpus 8 --batch 64 --json >out
        test "$(python3 -c "import json; print(json.load(open(\"out\"))[\"gpu_bytes\"] >> 30)")" = $3 || { echo $1; cat out; exit 1; }
        stoker plan train --model llama-3.1-8b --gpu $1 --gpus 32 --batch 64 --fix "tp4 pp4" --no-vary >out && grep -q "^32 x $(echo $1 | cut -c1-2 | tr a-z A-Z)" out || { echo $1; cat out; exit 1; }
        shift 3
    done
    for m in A30 A40 a100-pcie; do
        printf "nodes:\n  - {name: g, count: 1, gpus_per_node: 2, gpu: {model: $m, link: nvlink3}}\n" >g.yaml
        stoker spec check --strict g.yaml >/dev/null || exit 1
    done
    printf "nodes:\n  - {name: g, count: 1, gpus_per_node: 2, gpu: {model: L4, link: nvlink3}}\n" >g.yaml
    stoker spec check g.yaml 2>err && grep -q "^g.yaml:2:.*warning: the L4 24GB has no NVLink" err
'
test_expect 'another GPU is not taken for a slip of the pen, and how to describe one is always said' '
    for m in P100 A16 A2 L20 L40 A6000 H10O A100-80G; do
        printf "nodes:\n  - {name: g, count: 1, gpus_per_node: 1, gpu: {model: $m}}\n" >slip.yaml
        ! stoker spec check slip.yaml 2>err && grep -q "Give .memory. and .link." err || { echo $m; cat err; exit 1; }
        case $m in
        H10O) grep -q "^Did you mean .H100.?" err ;;
        A100-80G) grep -q "^Did you mean .A100-80GB.?" err ;;
        *) ! grep -q "Did you mean" err ;;
        esac || { echo $m; cat err; exit 1; }
    done
'
test_expect 'characters that hide or turn the text around are shown as what they are' '
    printf "nodes:\n  - {name: \"a\342\200\256b\", count: 1}\n" >bidi.yaml && ! stoker spec check bidi.yaml 2>err && cat err &&
    grep -q "is not a name: .a.u202eb." err && ! grep -q "$(printf "\342\200\256")" err && grep -q "^      |            ^" err &&
    ! stoker spec check bidi.yaml --json >out && ! grep -q "$(printf "\342\200\256")" out &&
    ! stoker render "$(printf "\342\200\256")" 2>err && grep -q "no target ..u202e." err
'
test_expect 'every file is checked, whichever cannot be read; in JSON, too' '
    printf "site: {nme: x}\n" >two.yaml && printf "site: {name: x}\n" >one.yaml &&
    { stoker spec check nofile.yaml two.yaml nofile2.yaml one.yaml >out 2>err; test $? = 3; } && cat err &&
    grep -q "nofile.yaml" err && grep -q "nofile2.yaml" err && grep -q "^two.yaml:1:" err && grep -q "^ok  one.yaml" out &&
    { stoker spec check --json nofile.yaml two.yaml one.yaml >out 2>err; test $? = 3; } && ! test -s err &&
    python3 -c "
import json
f = json.load(open(\"out\"))[\"files\"]
assert [x[\"ok\"] for x in f] == [False, False, True], f
assert \"nofile.yaml\" in f[0][\"errors\"][0][\"message\"] and f[0][\"errors\"][0][\"line\"] is None"
'
test_expect 'commands that take a spec tell what is wrong with it as the check does, in JSON, too' '
    printf "site: {nme: x}\nnodes: 3\n" >two.yaml &&
    for c in "spec show" "detect --check -f" "plan train -f" "monitor -f"; do
        for f in two.yaml nofile.yaml; do
            ! stoker $c $f --json >out 2>err && ! test -s err && python3 -c "
import json, sys
f = json.load(open(\"out\"))[\"files\"][0]
assert not f[\"ok\"] and len(f[\"errors\"]) == (2 if sys.argv[1] == \"two.yaml\" else 1), f" $f || { echo "$c $f"; cat out err; exit 1; }
        done
        ! stoker $c two.yaml >out 2>err && grep -q "^two.yaml:1:" err && grep -q "^two.yaml:2:" err && grep -q "^      | *^" err ||
            { echo "$c"; cat err; exit 1; }
    done
'
test_expect 'a target of scaling in a wrong unit is told the right one' '
    printf "nodes: [{name: g, gpus_per_node: 4, gpu: {model: L40S}}]\ncomponents:\n  e: {nodes: g, gpus: 1, scale: {max: 3, metric: requests_per_second, target: 50}}\n" >u.yaml &&
    ! stoker spec check u.yaml 2>err && grep -q "^u.yaml:3:.*requests_per_second is a number a second, not .50." err && grep -q "Write it like 1000/s" err
'
test_expect 'an empty file has a place: line 1, column 1' '
    : >empty.yaml && printf "# only a comment\n\n" >comment.yaml && for f in empty comment; do
        ! stoker spec check $f.yaml 2>err && grep -qx "$f.yaml:1:1: the file is empty" err &&
        ! stoker spec check --json $f.yaml >out && python3 -c "
import json
e = json.load(open(\"out\"))[\"files\"][0][\"errors\"][0]
assert (e[\"line\"], e[\"column\"]) == (1, 1), e" || exit 1
    done
'
test_expect 'values, names, what must agree and what cannot be rendered or placed: in one run' '
    cat >all.yaml <<\EOF
nodes:
  - {name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TiB}
  - {name: c, role: cpu, count: 2, cpu_cores: 32, memory: 128GiB}
components:
  bad: {kind: batch, target: kubernetes, nodes: c, image: r/x, cpus: lots}
  ghost: {kind: batch, target: kubernetes, nodes: nowhere, image: r/x}
  big: {kind: batch, target: kubernetes, nodes: g, image: r/x, gpus: 64}
  bare: {kind: batch, target: kubernetes, nodes: g, gpus: 1}
  many: {kind: service, target: kubernetes, nodes: c, image: r/x, replicas: 9, cpus: 30, memory: 100GiB}
  fine: {kind: batch, target: kubernetes, nodes: g, gpus: 1, image: r/x}
targets: {kubernetes: {namespace: ml}}
EOF
    status=0; stoker spec check all.yaml 2>err || status=$?; test $status = 1 && grep -o "^all.yaml:[0-9]*" err >places &&
    printf "all.yaml:%s\n" 5 6 7 8 9 | cmp - places && grep -q "must be a whole number" err && grep -q "there is no node group" err &&
    grep -q "has no image" err && grep -q "for each of 9 pods" err
'
test_expect 'what finds no room hides no fault of another object: check and render tell both' '
    cat >room.yaml <<\EOF
nodes: [{name: c, role: cpu, count: 2, cpu_cores: 32, memory: 128GiB}]
storage:
  - {name: fs, kind: ceph, size: 1TB}
components:
  a: {target: kubernetes, nodes: c, image: r/x, mounts: [{storage: fs, path: /fs}]}
  b: {target: kubernetes, nodes: c, image: r/x, cpus: 64}
targets: {kubernetes: {}}
EOF
    for command in "spec check" "render kubernetes --check -f"; do
        status=0; stoker $command room.yaml 2>err || status=$?
        test $status = 1 && grep "^room.yaml.*[^:]*$" err | grep -v warning | grep -o "^room.yaml:[0-9]*" >places &&
        printf "room.yaml:%s\n" 3 6 | cmp - places || { cat err; exit 1; }
    done
'
# A target without components of its own takes those of others, and its only one may be the faulty one.
test_expect 'a target whose only component is faulty is not judged by those of others' '
    cat >own.yaml <<\EOF
nodes: [{name: w, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 256GiB}]
components:
  unit: {target: systemd, nodes: w, gpus: 1, command: [/usr/bin/x], ports: [{name: h, port: 8011}]}
  box: {target: compose, nodes: w, gpus: 1, image: "r/x:1", ports: [{name: h, port: 8011}]}
  job: {kind: batch, target: slurm, nodes: w, gpus: 1, image: "r/x:1", command: [x], user: "7x"}
  pod: {target: kubernetes, nodes: w, cpus: lots, image: "r/x:1"}
targets: {compose: {}, systemd: {}, slurm: {}, kubernetes: {}}
EOF
    ! stoker spec check --json own.yaml >own.json && python3 - <<\EOF
import json
f = json.load(open("own.json"))["files"][0]
assert [e["line"] for e in f["errors"]] == [4, 6], f["errors"]
assert not [w for w in f["warnings"] if "kubernetes" in w["message"] or "compose" in w["message"]], f["warnings"]
EOF
'
# Better to miss a fault than to invent one: a value that cannot be is one error, whatever else is there.
test_expect 'one wrong value anywhere in an example is one error, and no warning follows from it' '
    python3 - "$BUILD/stoker" <<\EOF
import json, re, subprocess, sys
stoker, tried = sys.argv[1], 0
for name in subprocess.run([stoker, "spec", "example"], capture_output=True, text=True).stdout.split("\n"):
    if not name.strip():
        continue
    lines = subprocess.run([stoker, "spec", "example", name.split()[0]], capture_output=True, text=True).stdout.split("\n")
    for i in range(0, len(lines), 5):
        m = re.match(r"^(\s*(?:- )?[\w-]+: )([^\s#{\[|>*][^#]*?)(\s*#.*)?$", lines[i])
        if not m or any("&" in l for l in lines[max(0, i - 8):i]):  # what an anchor has is wrong at each alias
            continue
        text = "\n".join(lines[:i] + [m.group(1) + "{zzz: 1}"] + lines[i + 1:])
        r = subprocess.run([stoker, "spec", "check", "--json", "-"], input=text, capture_output=True, text=True)
        f = json.loads(r.stdout)["files"][0]
        tried += 1
        assert [e["line"] for e in f["errors"]] == [i + 1] and not f["warnings"], (name, lines[i], f)
assert tried > 60, tried
EOF
'
test_expect '/dev/shm has one size: that of a mount beside "shm" is told not to be followed' '
    shm() { printf "%s\n" "nodes: [{name: c, role: cpu, cpu_cores: 8, memory: 64GB}]" "storage: [{name: m, kind: memory, size: $1}]" \
        "components: {a: {image: x, command: [x], shm: 32GiB, mounts: [{storage: m, path: /dev/shm}]}}" >shm.yaml && stoker spec check shm.yaml >out 2>err; } &&
    shm 4GiB && grep -q "^shm.yaml:3:[0-9]*: warning: /dev/shm of .a. is as large as .shm. says: the size of .m." err &&
    shm 32GiB && ! grep "is as large" err || { cat err; exit 1; }'
test_expect 'a launcher in the command below the one that the target starts: each process would train apart' '
    apart() { # TARGET FRAMEWORK COMMAND
        printf "%s\n" "nodes: [{name: g, gpu: {model: h100}, gpus_per_node: 8, count: 2, hosts: \"g[1-2]\", cpu_cores: 96, memory: 1TiB}]" \
            "components: {a: {kind: training, target: $1, image: r.example/x:1, gpus: 8, nodes_per_replica: 2, training: {framework: $2}," \
            "  command: [$3]}}" "targets: {$1: {}}" >apart.yaml && stoker spec check apart.yaml >out 2>err || { cat err; exit 1; }
        grep -q "^apart.yaml:3:[0-9]*: warning: .a. is started by [a-z]* in each process, where .* starts a run of its own: they train apart" err
    }
    for t in kubernetes openshift slurm; do
        for c in "mpirun, ./x" "python, -m, torch.distributed.run, t.py"; do
            apart $t torchrun "$c" && ! apart $t other "$c" || { echo "$t: $c"; exit 1; }
        done
        apart $t torchrun "accelerate, launch, t.py" && ! apart $t torchrun "accelerate, config" &&
        apart $t deepspeed "accelerate, launch, t.py" && ! apart $t torchrun "torchrun, t.py" && ! apart $t torchrun "python, t.py" || { echo $t; exit 1; }
    done
    apart kubernetes accelerate "accelerate, launch, t.py" && ! apart slurm accelerate "accelerate, launch, t.py"'
test_done

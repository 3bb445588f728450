#!/bin/bash
# SPDX-License-Identifier: MIT
# Small wrong specs, one a line: every error at its line and column, none beside it, and the exit
# statuses of `spec check` and `render all` the same.
. "$(dirname "$0")/lib.sh"

N='nodes: [{name: n, count: 2, gpus_per_node: 8, gpu: {model: H100}}]\n'
T='targets: {systemd: {}}\n'

# wrong TEXT PLACE...
wrong()
{
    text=$1
    shift
    places="$*"
    test_expect "at $places: ${text:0:120}" '
        printf -- "$text" >w.yaml && { stoker spec check w.yaml >out 2>err; test $? = 1; } &&
        { stoker render all -f w.yaml -o w >out 2>err2; test $? = 1; } && test ! -e w &&
        grep -v warning: err | sed -n "s/^w.yaml:\([0-9]*:[0-9]*\): .*/\1/p" | tr "\n" " " >found &&
        { test "$(cat found)" = "$places " || { echo "found: $(cat found)"; false; }; }
    '
}
wrong "nodes: [{name: n, count: 3, hosts: 'n[1-2]'}]\n$T" 1:26
wrong "nodes: [{name: n, hosts: 'gpu[4-1]'}]\n$T" 1:26
wrong "nodes: [{name: n, count: 2, hosts: 'a[1-2]'}, {name: m, count: 2, hosts: 'a[2-3]'}]\n$T" 1:74
wrong "nodes: [{name: n, gpus_per_node: 1, gpu: {model: Z9000}}]\n$T" 1:50
wrong "nodes: [{name: n, gpus_per_node: 1, gpu: {model: H100, sharing: mig, mig_profile: 9g.1gb}}]\n$T" 1:83
wrong "nodes: [{name: n, count: x}, {name: m, hosts: 'm[2-1]'}]\n$T" 1:26 1:47
wrong "nodes: [{name: n, count: 99999999999999999999}]\n$T" 1:26
wrong "nodes: [{name: n, count: 0x}]\n$T" 1:26
wrong "nodes: 5\n$T" 1:8
wrong "nodes:\n$T" 1:1
wrong "nodes: {name: n}\n$T" 1:8
wrong "nodes: [{count: 2}]\n$T" 1:9
wrong "nodse: []\n$T" 1:1
wrong "nodes: [{name: n}]\nnodes: []\n" 2:1
wrong "nodes:\n\t- {name: n}\n" 2:1
wrong "nodes: [{name: n}, {name: n}]\n$T" 1:27
wrong "$N${T}components: {c: {gpus: 1, nodes: m, command: [x], target: systemd}}\n" 3:34
wrong "$N${T}components: {c: {gpus: -1, command: [x], target: systemd}}\n" 3:24
wrong "$N${T}components: {c: {gpus: [1], command: [x], target: systemd}}\n" 3:24
wrong "$N${T}components: {c: {gpus: 1, command: x, target: systemd}}\n" 3:36
wrong "$N${T}components: {c: {gpus: 1, command: [x], target: sistemd}}\n" 3:49
wrong "$N${T}components: {c: {gpus: 1, command: [x], target: compose, image: a/b:1}}\n" 3:49
wrong "$N${T}components: {c: {target: systemd, command: [x], ports: [{name: p, port: 0}]}}\n" 3:73
wrong "$N${T}components: {c: {target: systemd, command: [x], ports: [{name: p, port: 70000}]}}\n" 3:73
wrong "$N${T}components: {c: {target: systemd, command: [x], memory: 4XB}}\n" 3:57
wrong "$N${T}components: {c: {target: systemd, command: [x], depends_on: [d]}}\n" 3:62
wrong "$N${T}agent: {port: no}\nbudgets: {day: \$9/d, month: \$1/mo}\n" 3:15 4:29
wrong "include: [w.yaml]\n" 1:11
wrong "include: [none.yaml]\n" 1:11
wrong "include: [../x.yaml]\n" 1:11
wrong "- a\n" 1:1

test_expect 'a value of several lines is told in one' '
    printf "components: {c: {workdir: \"a\\\\nb\"}}\n" >lines.yaml && { stoker spec check lines.yaml >out 2>err; test $? = 1; } &&
    grep -q "^lines.yaml:1:27: .*a b" err
'
test_expect 'an error in a file that is included is told there, beside those of the first' '
    printf "nodes: [{name: n, count: x}]\n" >part.yaml &&
    printf "include: [part.yaml]\nagent: {port: no}\n" >whole.yaml &&
    { stoker spec check whole.yaml >out 2>err; test $? = 1; } &&
    grep -q "^whole.yaml:2:15: " err && grep -q "^part.yaml:1:26: " err
'
test_done

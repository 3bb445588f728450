#!/bin/sh
# SPDX-License-Identifier: MIT
# What compose and systemd share: which server has which model, where models of the hub lie, and
# wishes that one of the two does not follow.
. "$(dirname "$0")/lib.sh"

# site TEXT: site.yaml, of one machine with 4 GPUs
site() {
    cat >site.yaml <<END
schema: stoker.spec/1
site: {name: here}
nodes: [{name: ws, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 128GB}]
$1
END
}
# both TEXT: its files below out; what was said in ./err
both() { site "$1" && rm -rf out && stoker render all -f site.yaml -o out >/dev/null 2>err || { cat err; false; }; }
# refused TEXT PLACE WORDS: refused there, and nothing is written
refused() {
    site "$1" && rm -rf out
    ! stoker render all -f site.yaml -o out >/dev/null 2>err && test ! -e out &&
        grep -q "^site.yaml:$2: .*$3" err || { cat err; false; }
}
# warned PLACE WORDS: a warning of the last run
warned() { grep -q "^site.yaml:$1: warning: .*$2" err || { cat err; false; }; }

ON_BOTH='components:
  emb: {kind: serving, target: compose, gpus: 1, image: "localhost/stoker:1"}
  own: {kind: serving, target: systemd, gpus: 1, ports: [{name: http, port: 9003}]}
targets: {compose: {}, systemd: {}}'

test_expect 'the own server of a machine has the models without a component, and no others' '
    both "models:
  a: {source: /srv/a, kind: embedding, component: emb}
  b: {source: /srv/b, kind: embedding, component: own}
  c: {source: /srv/c, kind: embedding}
$ON_BOTH" || exit
    cd out/systemd && grep -q "source: /srv/c" etc/serve.yaml && ! grep -q "/srv/[ab]" etc/serve.yaml &&
    grep -q "source: /srv/b" etc/component-own.yaml && ! grep -q "/srv/[ac]" etc/component-own.yaml &&
    grep -qx "enable stoker-serve.service" 50-stoker.preset &&
    grep -qx "enable stoker-component-own.service" 50-stoker.preset &&
    ! grep -q "^Conflicts=.*component-own" stoker-serve.service &&
    ! grep -q "^Conflicts=.*stoker-serve" stoker-component-own.service
'
test_expect 'where every model has a component it does not start, and has none of compose' '
    both "models:
  a: {source: /srv/a, kind: embedding, component: emb}
  b: {source: /srv/b, kind: embedding, component: own}
$ON_BOTH" || exit
    cd out/systemd && grep -q "source: /srv/b" etc/serve.yaml && ! grep -q "/srv/a" etc/serve.yaml &&
    grep -qx "disable stoker-serve.service" 50-stoker.preset &&
    grep -q "^Conflicts=.*component-own" stoker-serve.service
'
test_expect 'both on one port are refused at the component, or at its port' '
    refused "models:
  a: {source: /srv/a, kind: embedding, component: own}
  b: {source: /srv/b, kind: embedding}
components:
  own: {kind: serving, target: systemd, gpus: 1}
targets: {systemd: {}}" 8:3 "port 8003 is used by component .own. and by stoker-serve" &&
    refused "models:
  a: {source: /srv/a, kind: embedding, component: own}
  b: {source: /srv/b, kind: embedding}
components:
  own: {kind: serving, target: systemd, gpus: 1, ports: [{name: h, port: 8002}]}
targets: {systemd: {}}" 8:74 "port 8002 is used"
'
test_expect 'compose alone says that nobody serves a model without a component' '
    both "models:
  a: {source: /srv/a, kind: embedding}
components:
  emb: {kind: serving, target: compose, gpus: 1, image: x}
targets: {compose: {}}" && warned 5:3 "model .a. names no component"
'
test_done

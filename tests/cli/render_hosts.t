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
HUB='models:
  mini: {source: sentence-transformers/all-MiniLM-L6-v2, kind: embedding, component: emb}
  old: {source: sentence-transformers/all-MiniLM-L6-v2, revision: abc, kind: embedding, component: own}
  bge: {source: BAAI/bge-m3, kind: embedding}
  here: {source: /srv/x, kind: embedding, component: own}'

test_expect 'a model of the hub has a folder, which its server opens and a script fills' '
    both "$HUB
$ON_BOTH" || exit
    cd out && M=/var/lib/stoker/models &&
    grep -q "source: $M/mini " compose/serve/emb.yaml && grep -q "source: $M/bge " systemd/etc/serve.yaml &&
    grep -q "source: $M/old " systemd/etc/component-own.yaml && grep -q "source: $M/bge " systemd/etc/stoker.yaml &&
    grep -qx "own all-MiniLM-L6-v2 $M/mini" compose/models.sh && ! grep -q "bge\|$M/old" compose/models.sh &&
    grep -qx "get BAAI/bge-m3 main $M/bge" systemd/models.sh && ! grep -q "$M/mini\|/srv/x" systemd/models.sh &&
    grep -qx "get sentence-transformers/all-MiniLM-L6-v2 abc $M/old" systemd/models.sh &&
    grep -q "sh models.sh" compose/compose.yaml && grep -q "sh models.sh" systemd/install.sh &&
    { ! command -v shellcheck >/dev/null || shellcheck compose/models.sh systemd/models.sh; }
'
cat >asks <<'END'
#!/bin/sh
echo "$@" >>asked
case $* in *--revision*) echo "$HF_HUB_CACHE" >>asked; exit 1 ;; esac
END
test_expect 'the script leaves what is there, takes what stoker has, and names the folder it cannot fill' '
    both "$HUB
$ON_BOTH" || exit
    mkdir -p bin dir/bge && sed "s,/var/lib/stoker/models,$PWD/dir," out/systemd/models.sh >run.sh &&
    sed "s,/var/lib/stoker/models,$PWD/dir," out/compose/models.sh >own.sh &&
    cp asks bin/stoker && chmod +x bin/stoker &&
    PATH=$PWD/bin:$PATH && sh own.sh && grep -qx "model get all-MiniLM-L6-v2 --output $PWD/dir/mini" asked &&
    ! sh run.sh 2>err && cat err &&
    grep -qx "model get sentence-transformers/all-MiniLM-L6-v2 --revision abc --output $PWD/dir/old" asked &&
    grep -qx "$PWD/dir/old.hub" asked && ! grep -rq "huggingface_hub" out &&
    grep -q "could not fetch model .*: put its files into .$PWD/dir/old. and run this again" err &&
    mkdir dir/old && touch dir/old/config.json dir/bge/modules.json && rm asked && sh run.sh && test ! -e asked
'
test_done

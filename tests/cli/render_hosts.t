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
test_expect 'OpenShift serves no model without a component either, and says so' '
    both "models: {a: {source: /srv/a, kind: embedding}}
targets: {openshift: {}, compose: {}}" && warned 4:10 "model .a. names no component: openshift serves it nowhere" && warned 4:10 "compose serves it nowhere" &&
    both "models: {a: {source: /srv/a, kind: embedding}}
targets: {openshift: {}, systemd: {}}" && ! grep "serves it nowhere" err
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
# --- units of several machines, in one folder for all of them ---
cat >boxes.yaml <<'END'
nodes:
  - {name: b1, hosts: "box1", gpus_per_node: 2, gpu: {model: L40S}}
  - {name: b2, hosts: "box2.example.org", gpus_per_node: 4, gpu: {model: L40S}}
components:
  embed: {target: systemd, nodes: b1, gpus: 1, command: [/bin/x]}
  train: {target: systemd, nodes: b2, gpus: 4, command: [/bin/x], depends_on: [embed]}
  eval: {target: systemd, nodes: b1, gpus: 1, command: [/bin/x], depends_on: [embed]}
targets: {systemd: {}}
END
# host FILE: the conditions of a unit
host() { grep ^ConditionHost= "boxes/systemd/stoker-component-$1.service" | tr "\n" " "; }
test_expect 'a unit starts on the machine that has its GPUs, and waits for units of that machine' '
    stoker render systemd -f boxes.yaml -o boxes >/dev/null 2>err &&
    test "$(host embed)" = "ConditionHost=|box1 ConditionHost=|box1.* " && test "$(host train)" = "ConditionHost=|box2.example.org ConditionHost=|box2 " &&
    grep -q "^boxes.yaml:6:.*warning: .train. does not wait for .embed., which is not a systemd unit of its machine" err &&
    test "$(grep -c warning: err)" = 1 && ! grep -q "^Wants=stoker" boxes/systemd/stoker-component-train.service &&
    grep -q "^Wants=stoker-component-embed.service" boxes/systemd/stoker-component-eval.service || { cat err; exit 1; }'
test_expect 'a machine without a name beside others is told of; one alone needs none' '
    sed "s/hosts: \"box1\", //" boxes.yaml >anon.yaml && stoker render systemd -f anon.yaml -o anon >/dev/null 2>err &&
    grep -q "^anon.yaml:2:.*warning: the machine of .b1. has no name: the unit of .embed. starts on every machine" err &&
    ! grep -q ^ConditionHost= anon/systemd/stoker-component-embed.service &&
    sed "/name: b2/d;/train:/d;s/hosts: \"box1\", //" boxes.yaml >one.yaml && stoker render systemd -f one.yaml -o one >/dev/null 2>err &&
    ! grep warning: err && ! grep -q ^ConditionHost= one/systemd/*.service || { cat err; exit 1; }'
test_expect 'a name with its domain is the short one, too, where no other machine has it' '
    sed "s/box1/box2.example.com/" boxes.yaml >twins.yaml && stoker render systemd -f twins.yaml -o boxes >/dev/null 2>err &&
    test "$(host train)" = "ConditionHost=|box2.example.org " &&
    grep -q "^twins.yaml:3:.*warning: several machines are .box2. without their domain: the unit of .train. starts only where" err || { cat err; exit 1; }'
test_expect 'a component that names no machine of several runs on one: that of what it waits for, or the first, and is told' '
    sed "/depends_on: \[embed\]}/d;/^targets/i\  db: {target: systemd, command: [/bin/x]}\n  train: {target: systemd, nodes: b2, gpus: 4, command: [/bin/x]}\n  gate: {target: systemd, command: [/bin/x], depends_on: [train]}" boxes.yaml >free.yaml &&
    stoker render systemd -f free.yaml -o boxes >/dev/null 2>err && test "$(grep -c warning: err)" = 2 &&
    test "$(host db)" = "ConditionHost=|box1 ConditionHost=|box1.* " && test "$(host gate)" = "$(host train)" &&
    grep -q "^free.yaml:6:.*warning: component .db. names no machine of several: it starts on .box1. only" err || { cat err; exit 1; }'
cat >chain.yaml <<'END'
nodes:
  - {name: m, count: 3, gpus_per_node: 8, gpu: {model: H200}, cpu_cores: 128, memory: 2TB}
components:
  far: {target: systemd, command: [/bin/x], depends_on: [near], replicas: 2}
  near: {target: systemd, command: [/bin/x], depends_on: [b]}
  named: {target: systemd, nodes: m, command: [/bin/x], depends_on: [b]}
  a: {target: systemd, gpus: 8, command: [/bin/x]}
  b: {target: systemd, gpus: 8, command: [/bin/x]}
targets: {systemd: {}}
END
test_expect 'a component without GPUs is on the machine of what it depends on, in one group, too, and in any order' '
    stoker render systemd -f chain.yaml -o boxes >/dev/null 2>err && ! grep "does not wait" err &&
    test "$(host b)" = "ConditionHost=|m2 ConditionHost=|m2.* " &&
    for unit in near named far@1 far@2; do test "$(host $unit)" = "$(host b)" || { echo $unit; exit 1; }; done &&
    grep -q "^chain.yaml:4:.*component .far. names no machine of several: it starts on .m2. only" err &&
    test "$(grep -c warning: err)" = 2 || { cat err; exit 1; }
    sed -i "s/, depends_on: .[a-z]*.//" chain.yaml && stoker spec check chain.yaml 2>err &&
    grep -q "^chain.yaml:5:.*component .near. names no machine of several: it starts on .m1. only" err &&
    ! grep "component .named." err'
cat >hub.yaml <<'END'
nodes:
  - {name: b1, hosts: "box1", gpus_per_node: 2, gpu: {model: L40S}}
  - {name: b2, hosts: "box2.example.org", gpus_per_node: 4, gpu: {model: L40S}}
models:
  bge: {source: BAAI/bge-m3, kind: embedding, component: embed}
  mini: {source: sentence-transformers/all-MiniLM-L6-v2, kind: embedding, component: rank}
  every: {source: BAAI/bge-base-en, kind: embedding}
components:
  embed: {target: systemd, kind: serving, nodes: b1, gpus: 1, ports: [{name: h, port: 9003}]}
  rank: {target: systemd, kind: serving, nodes: b2, gpus: 1, ports: [{name: h, port: 9004}]}
targets: {systemd: {}}
END
# fetched HOST: the models that models.sh brings there
fetched() {
    mkdir -p hub/bin && printf "#!/bin/sh\necho %s\n" "$1" >hub/bin/uname &&
        printf "#!/bin/sh\nprintf '%%s ' \"\$3\"\n" >hub/bin/stoker && chmod +x hub/bin/* &&
        PATH=$PWD/hub/bin:$PATH sh hub/systemd/models.sh
}
test_expect 'a model is fetched where a unit opens it, and units are in place where that fails' '
    stoker render systemd -f hub.yaml -o hub >/dev/null 2>&1 &&
    test "$(fetched box1)" = "BAAI/bge-m3 BAAI/bge-base-en " && test "$(fetched box1.lan)" = "$(fetched box1)" &&
    test "$(fetched box2)" = "all-MiniLM-L6-v2 BAAI/bge-base-en " && test "$(fetched box2.example.org)" = "$(fetched box2)" &&
    test "$(fetched box3)" = "BAAI/bge-base-en " &&
    sed -n "/daemon-reload/,\$p" hub/systemd/install.sh | sed -n "/^systemctl preset/,\$p" | grep -q "sh models.sh" &&
    { ! command -v shellcheck >/dev/null || shellcheck hub/systemd/models.sh; }'
test_expect 'a unit needs the file systems that its program writes to, and does not start beside them' '
    cat >nas.yaml <<-"EOF" &&
	nodes: [{name: b, gpus_per_node: 2, gpu: {model: L40S}}]
	storage:
	  - {name: nas, kind: nfs, path: "/mnt/my nas", source: "n:/e"}
	  - {name: disk, kind: local, path: /srv/data}
	components:
	  a: {target: systemd, gpus: 1, command: [/bin/x], mounts: [{storage: nas, path: /in}, {storage: disk, path: /srv/data}]}
	  b: {target: systemd, kind: training, gpus: 1, command: [/bin/x], training: {framework: other, checkpoint: {path: /scratch/ckpt}}}
	targets: {systemd: {}}
	EOF
    stoker render systemd -f nas.yaml -o nas >/dev/null && u=nas/systemd/stoker-component &&
    grep -qxF "RequiresMountsFor=\"/mnt/my nas\"" $u-a.service && test "$(grep -c RequiresMountsFor= $u-a.service)" = 1 &&
    grep -qxF "BindPaths=\"/mnt/my nas:/in\"" $u-a.service && grep -qx "ReadWritePaths=-/srv/data" $u-a.service &&
    grep -qx "RequiresMountsFor=/scratch/ckpt" $u-b.service || { cat $u-a.service; exit 1; }'
test_expect 'models, folders and programs on a file system of the network: units need its mount, and nothing makes folders below it' '
    cat >share.yaml <<-"EOF" &&
	nodes: [{name: b, gpus_per_node: 4, gpu: {model: L40S}}]
	storage: [{name: nas, kind: gpfs, path: /srv/nas}, {name: disk, kind: local, path: /srv}]
	serve: {batch_dir: /srv/nas/batch}
	components:
	  emb: {kind: serving, target: systemd, gpus: 1, ports: [{name: h, port: 9003}], user: "1234"}
	  run: {kind: batch, target: systemd, gpus: 1, command: [/bin/x], workdir: /srv/nas/run}
	  bin: {kind: batch, target: systemd, gpus: 1, command: [/srv/nas/bin/x]}
	  off: {kind: batch, target: systemd, gpus: 1, command: [/srv/x], workdir: /srv/nas2}
	models: {m: {source: /srv/m, kind: embedding, component: emb}, n: {source: /srv/nas/n, kind: embedding}}
	targets: {systemd: {}}
	EOF
    stoker render systemd -f share.yaml -o share >/dev/null && cd share/systemd && grep -l "^RequiresMountsFor=/srv/nas$" *.service | tr "\n" " " >got && cat got &&
    test "$(cat got)" = "stoker-component-bin.service stoker-component-emb.service stoker-component-run.service stoker-serve.service stoker-up.service " &&
    ! grep -h RequiresMountsFor *.service | grep -v "=/srv/nas$" && ! grep /srv/nas tmpfiles.d/stoker.conf && grep -q "^d /var/lib/stoker " tmpfiles.d/stoker.conf &&
    grep -qx "share /srv/nas/batch stoker stoker /srv/nas" install.sh && grep -qx "share /srv/nas/batch/emb 1234 root /srv/nas" install.sh &&
    { ! command -v shellcheck >/dev/null || shellcheck install.sh; } &&
    mkdir -p bin here && printf "#!/bin/sh\necho \$AT\n" >bin/findmnt && chmod +x bin/findmnt &&
    { sed -n "/^share() {/,/^}/p" install.sh; printf "%s\n" "share here/made $(id -u) $(id -g) here" "echo \"missing=\${missing-}\""; } >share.sh &&
    AT=/ PATH=$PWD/bin:$PATH sh share.sh 2>err | grep -qx missing=1 && test ! -e here/made && grep -q "here is not mounted" err &&
    AT=/here PATH=$PWD/bin:$PATH sh share.sh | grep -qx missing= && test -d here/made
'
test_expect 'a folder in a volume of compose, which docker does not make, is told with the command that does' '
    cat >vol.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
	storage: [{name: vol, kind: volume, size: 10GiB}]
	components:
	  db: {target: compose, image: "x:1", mounts: [{storage: vol, path: /a, subpath: pg}]}
	  ok: {target: compose, image: "x:1", mounts: [{storage: vol, path: /a}]}
	targets: {compose: {project: lab}}
	EOF
    stoker render compose -f vol.yaml -o vol >/dev/null 2>err && test "$(grep -c "warning: docker makes no folder" err)" = 1 &&
    grep -q "^vol.yaml:4:[0-9]*: warning: .*.pg. of .vol. has to be there before .db. starts" err && grep -q "run --rm -v lab_vol:/v debian install -d ./v/pg.; or" err || { cat err; exit 1; }'
test_expect 'the command names the volumes of all replicas, and gives the folder to who writes there' '
    sed "s/size: 10GiB/size: 10GiB, per_replica: true/;s/db: {target: compose,/db: {target: compose, replicas: 3, user: \"1000:1001\",/;s/ok: {/ok: {user: app, /;s,path: /a}]},path: /a\, subpath: x}]}," vol.yaml >reps.yaml &&
    stoker render compose -f reps.yaml -o vol >/dev/null 2>err && test "$(grep -c "warning: docker makes no folder" err)" = 2 &&
    grep -qF "for i in \$(seq 3); do docker run --rm -v lab_vol.db-\$i:/v debian install -d -o 1000 -g 1001 '"'/v/pg'"'; done; or" err &&
    grep -q "lab_vol.ok:/v debian install -d ./v/x., and give it to the .app. of its image" err &&
    test "$(grep -o "source: vol.db-[123]" vol/compose/compose.yaml | sort -u | wc -l)" = 3 || { cat err; exit 1; }'
test_expect 'a bind of a mount that is written to is told, unless it is of a folder that only the mount has' '
    cat >nfs.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
	storage: [{name: nas, kind: nfs, path: /mnt/nas, source: "n:/e"}, {name: disk, kind: local, path: /srv/data}]
	components:
	  a: {target: compose, replicas: 2, image: "x:1", mounts: [{storage: nas, path: /ck}]}
	  b: {target: compose, image: "x:1", mounts: [{storage: nas, path: /ck, subpath: runs}, {storage: disk, path: /d}]}
	  c: {target: compose, image: "x:1", mounts: [{storage: nas, path: /ck, read_only: true}]}
	targets: {compose: {}}
	EOF
    stoker render compose -f nfs.yaml -o nfs >/dev/null 2>err && test "$(grep -c "warning:" err)" = 1 &&
    grep -q "^nfs.yaml:4:.*warning: while ./mnt/nas. is not mounted, .a. writes into the folder below it, on the root disk" err &&
    grep -q "a drop-in with RequiresMountsFor=/mnt/nas" err || { cat err; exit 1; }'
# --- ports that ask for a capability ---
test_expect 'a port below 1024 brings the capability to bind it, behind the line that takes them all' '
    cat >low.yaml <<-"EOF" &&
	nodes: [{name: c, role: cpu, cpu_cores: 16, memory: 64GB}]
	components:
	  ui: {target: systemd, nodes: c, command: [/bin/x], ports: [{name: p, port: 80}]}
	  api: {target: systemd, nodes: c, command: [/bin/x], ports: [{name: p, port: 1024}]}
	agent: {port: 90}
	targets: {systemd: {}}
	EOF
    stoker render systemd -f low.yaml -o low >/dev/null && u=low/systemd/stoker &&
    test "$(grep Capabilit $u-component-ui.service | tr "\n" " ")" = "CapabilityBoundingSet= CapabilityBoundingSet=CAP_NET_BIND_SERVICE AmbientCapabilities=CAP_NET_BIND_SERVICE " &&
    ! grep CAP_NET_BIND $u-component-api.service && grep -q AmbientCapabilities=CAP_NET_BIND $u-agent.service && grep -q AmbientCapabilities=CAP_NET_BIND $u-up.service'
cat >port.yaml <<'EOF'
nodes: [{name: g, gpus_per_node: 8, gpu: {model: H100}, fabrics: [ib]}]
fabrics: [{name: ib, kind: infiniband, rate: 400Gb/s}]
components:
  a: {target: compose, nodes: g, gpus: 1, image: "x:1", command: [x], fabrics: [ib], user: "1000", ports: [{name: p, port: 80}]}
  b: {target: compose, nodes: g, gpus: 1, image: "x:1", command: [x], user: "1000", ports: [{name: p, port: 81}]}
targets: {compose: {}}
EOF
test_expect 'a port below 1024 of who is not root is told on the network of the host, and there alone' '
    stoker render compose -f port.yaml -o port >/dev/null 2>err && grep -q "^port.yaml:4:.*warning: .a. is on the host.s network for RDMA, where user .1000. cannot listen on port 80" err &&
    ! grep "port 81" err || { cat err; exit 1; }'
test_expect 'a launcher gets scripts and modules as its users give them, other programs as they stand' '
    command() { # FRAMEWORK COMMAND WANTED
        both "components:
  c: {kind: training, target: compose, gpus: 2, image: \"r.org/t:1\", command: $2, training: {framework: $1}}
  s: {kind: training, target: systemd, gpus: 2, command: $2, training: {framework: $1}}
targets: {compose: {}, systemd: {}}" &&
            grep -q "^ExecStart=.*$3\$" out/systemd/stoker-component-s.service || { grep ^ExecStart out/systemd/stoker-component-s.service; exit 1; }
        sed -n "/^    command:/,/^    [a-z]/p" out/compose/compose.yaml | sed -n "s/^      - //p" | tr -d "\"" | tr "\n" " " | grep -q -e "$3 $" || exit 1
    }
    command torchrun "[train.py, --lr, \"1\"]" "--max-restarts=3 train.py --lr 1" &&
    command torchtitan "[-m, pkg.train]" "--max-restarts=3 -m pkg.train" &&
    command deepspeed "[/app/train.py]" "--master_port=29500 /app/train.py" &&
    command deepspeed "[-m, pkg.train, x]" "--master_port=29500 --module pkg.train x" &&
    command accelerate "[-m, pkg.train]" "--main_process_port=29500 -m pkg.train" &&
    command torchrun "[trainer]" "--no-python trainer" && command deepspeed "[trainer]" "--no_python trainer"
'
test_done

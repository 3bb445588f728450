#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render`: what is written, where, and what is left alone; diffs that patch applies; specs
# that cannot be rendered.  The files themselves are render_golden.t's.
. "$(dirname "$0")/lib.sh"

# each test in a folder of its own, with the spec in it
expect() {
    n=$((${n-0} + 1))
    test_expect "$1" "mkdir $TMP/$n && cd $TMP/$n && stoker spec example kb-a100 >stoker.yaml && $2"
}
# status N COMMAND...: it ends with N
status() { want=$1; shift; "$@"; got=$?; test $got = "$want" || { echo "status $got instead of $want"; return 1; }; }
# tree DIR: every file with its mode and sum, the list too
tree() { (cd "$1" && find . -type f -printf '%m %p ' -exec sha256sum '{}' ';' | awk '{ print $1, $2, $3 }' | sort -k2); }

for name in ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift; do
    expect "example $name, from a pipe, renders for all its targets" '
        stoker spec example $name | stoker render all -f - -o out >text && test -s out/.stoker-render &&
        test -s out/prometheus/rules/alerts.yml &&
        grep -q "^[0-9]* files in .out.: [0-9]* new$" text &&
        (cd out && sha256sum --quiet -c .stoker-render) && ! find out -name ".stoker-new*" | grep .
    '
done
expect 'the same again writes nothing' '
    stoker render all -o out >/dev/null && tree out >a && find out -printf "%p %T@\n" | sort >times &&
    stoker render all -o out >text && tree out >b && cmp a b && find out -printf "%p %T@\n" | sort | cmp - times &&
    test "$(wc -l <text)" = 1 && grep -q ": [0-9]* the same$" text
'
expect 'the result does not depend on where and how it is written' '
    mkdir x && (cd x && stoker spec example kb-a100 >stoker.yaml && umask 077 && stoker render all -o ../p/q >/dev/null) &&
    TZ=Asia/Tokyo LC_ALL=C stoker render systemd all doc -o r >/dev/null && tree p/q >a && tree r >b && cmp a b
'
expect 'modes: scripts 0755, others 0644' '
    stoker render all -o out >/dev/null &&
    test -z "$(find out -type f ! -perm 644 ! -perm 755 ! -perm 600)" &&
    for f in $(find out -type f -perm 755); do head -c2 $f | grep -q "#!" || { echo $f; exit 1; }; done
'
expect 'one target alone leaves the others; all removes what is no longer rendered' '
    stoker render all -o out >/dev/null && echo mine >out/systemd/mine &&
    stoker render systemd -o out >/dev/null && test -s out/systemd/install.sh &&
    sed "/^  prometheus:/d" stoker.yaml >less.yaml && stoker render all -f less.yaml -o out >text &&
    test ! -e out/prometheus && grep -q "^removed  prometheus/" text && test -s out/systemd/mine && test -s out/systemd/stoker-agent.service
'
expect 'a file of somebody else is not replaced; --force does' '
    mkdir -p out/systemd && echo mine >out/systemd/stoker-agent.service && tree out >a &&
    status 1 stoker render all -o out >text 2>err && test ! -s text && tree out | cmp - a &&
    grep -q "^stoker: .systemd/stoker-agent.service. in .out. is not a file that .stoker render. wrote$" err &&
    grep -q -- --force err && stoker render all -o out --force >/dev/null && ! grep -q mine out/systemd/stoker-agent.service
'
expect 'a link is not followed' '
    mkdir out elsewhere && ln -s ../elsewhere out/systemd &&
    status 1 stoker render all -o out --force >text 2>err && test ! -s text && test -z "$(ls elsewhere)" &&
    test "$(ls -A out)" = systemd && grep -q "a link or file stands in .out." err
'
expect 'a folder that cannot be made is exit 1 and one message' '
    echo x >file && status 1 stoker render systemd -o file/out 2>err && grep -q "^stoker: cannot make folder .file" err
'
expect 'a full disk: exit 1, nothing of it there' '
    mkdir out && echo mine >out/mine &&
    (trap "" XFSZ; ulimit -f 1; status 1 stoker render all -o out >text 2>err) &&
    test "$(find out -type f)" = out/mine && test "$(find out | wc -l)" = 2 && grep -q "File too large" err
'
expect 'interrupted at any moment, the same command finishes it' '
    stoker render all -o want >/dev/null && tree want >a && sed "s/port: 8003/port: 8013/" stoker.yaml >other.yaml &&
    for ms in 0 1 2 3 4 6 8 12 16; do
        rm -rf out; stoker render all -f other.yaml -o out >/dev/null
        ("$BUILD/stoker" render all -o out >/dev/null & p=$!; sleep 0.0$ms; kill -9 $p 2>/dev/null; wait $p) 2>/dev/null
        stoker render all -o out >/dev/null && tree out | cmp - a || exit 1
    done; ! find out -name ".stoker-new*" | grep .
'

# ---- --diff
expect 'diff: a folder that is not there; patch makes it' '
    status 1 stoker render all --diff new >d && test ! -e new && mkdir new && patch -s -p1 -d new <d &&
    stoker render all -o out >/dev/null && rm out/.stoker-render* && tree out >a && tree new | cmp - a
'
expect 'diff: what writing changes, no more and no less' '
    stoker render all -o out >/dev/null && cp -a out copy &&
    sed "s/port: 8003/port: 8013/; /^  prometheus:/d" stoker.yaml >other.yaml &&
    status 1 stoker render all -f other.yaml --diff out >d && tree out >a && tree copy | cmp - a &&
    patch -s -p1 -d copy <d && stoker render all -f other.yaml -o out >/dev/null &&
    rm out/.stoker-render* copy/.stoker-render* && tree out >a && tree copy | cmp - a
'
expect 'diff: a comment in the spec changes nothing; --where gives its lines' '
    stoker render all -o out >/dev/null && sed "1s/^/# one more line, and another\n#\n/" stoker.yaml >commented.yaml &&
    mkdir -p sub && mv commented.yaml sub/stoker.yaml && stoker render all -f sub/stoker.yaml --diff out >d && test ! -s d &&
    stoker render all -o lines --where >/dev/null &&
    line=$(grep -n "^  port:" stoker.yaml | head -1 | cut -d: -f1) && grep -rq "serve.port, stoker.yaml:$line" lines
'
expect 'diff: nothing to change is exit 0 and no output' '
    stoker render all -o out >/dev/null && stoker render all --diff out >d && test ! -s d
'
expect 'diff: an edited file, a mode, a file of somebody else' '
    stoker render all -o out >/dev/null && echo edited >>out/systemd/stoker-agent.service && chmod 600 out/systemd/50-stoker.preset &&
    status 1 stoker render all --diff out >d 2>err && ! grep -q edited d && grep -q "stoker-agent.service. in .out. was edited by hand: it stays" err &&
    status 1 stoker render all --diff out --force >d 2>err && grep -qx -- "-edited" d && grep -q "would be kept as .systemd/stoker-agent.service.edited." err &&
    grep -qx "old mode 100600" d && grep -qx "new mode 100644" d && rm out/.stoker-render &&
    status 1 stoker render all --diff out >d 2>err && grep -q "2 files in .out. were not written by" err
'

# ---- edits by hand
ours() { sed "s/port: 8003/port: 8013/" stoker.yaml >other.yaml; }
expect 'an edited file stays when what is rendered is the same; told, exit 0' '
    stoker render all -o out >/dev/null && echo "# mine" >>out/systemd/stoker-agent.service && tree out >a &&
    stoker render all -o out >text 2>err && tree out | cmp - a && grep -q "^stoker: .systemd/stoker-agent.service. in .out. was edited by hand: it stays" err &&
    (cd out && ! sha256sum --quiet -c .stoker-render >bad 2>&1; grep -c FAILED bad | grep -qx 1)
'
expect 'an edited file that was closed to others stays closed, as it is and merged' '
    ours && stoker render all -o out >/dev/null && f=$(grep -rl 8003 out/systemd | head -1) && sed -i "1s/^/# mine\n/" $f && chmod 600 $f &&
    stoker render all -o out >text 2>err && test "$(stat -c %a $f)" = 600 && ! grep -q "^changed" text &&
    stoker render all -f other.yaml -o out >text 2>err && grep -q 8013 $f && test "$(stat -c %a $f)" = 600
'
expect 'an edit in other lines than the change: merged, told, exit 0, and again the next time' '
    ours && stoker render all -o out >/dev/null && f=$(grep -rl 8003 out/systemd | head -1) && sed -i "1s/^/# mine\n/" $f && echo "# the end" >>$f &&
    stoker render all -f other.yaml -o out >text 2>err && head -1 $f | grep -qx "# mine" && tail -1 $f | grep -qx "# the end" && grep -q 8013 $f && ! grep -q 8003 $f &&
    grep -q "was edited by hand: the edits and what is rendered anew are merged" err && test ! -e $f.edited &&
    stoker render all -o out 2>err >text && grep -q 8003 $f && grep -q "^# mine" $f && grep -q merged err && stoker render all -o clean >/dev/null &&
    diff $f clean/${f#out/} | grep "^[<>]" >d; printf "< # mine
< # the end
" | cmp - d
'
expect 'an edit of the same line: kept aside, ours is written, exit 1; an earlier copy is not replaced' '
    ours && stoker render all -o out >/dev/null && f=$(grep -rl 8003 out/systemd | head -1) && echo other >$f.edited && sed -i "s/8003/9999/" $f && cp $f mine &&
    status 1 stoker render all -f other.yaml -o out >text 2>err && cmp mine $f.edited.2 && grep -qx other $f.edited && grep -q 8013 $f && ! grep -q 9999 $f &&
    grep -q "was edited by hand: the edited file is kept as .*\.edited\.2" err &&
    stoker render all -f other.yaml -o out >text 2>err && test ! -s err && cmp mine $f.edited.2
'
expect 'an edited file that is no longer rendered is kept aside' '
    stoker render all -o out >/dev/null && f=$(ls out/prometheus/*.yml | head -1) && echo "# mine" >>$f && cp $f mine && sed "/^  prometheus:/d" stoker.yaml >less.yaml &&
    status 1 stoker render all -f less.yaml -o out >text 2>err && test ! -e $f && cmp mine $f.edited && grep -q "is kept as" err
'
expect 'without the texts of the last run an edit cannot be merged, and is kept aside' '
    ours && stoker render all -o out >/dev/null && f=$(grep -rl 8003 out/systemd | head -1) && sed -i "1s/^/# mine\n/" $f && cp $f mine && rm out/.stoker-render.base &&
    status 1 stoker render all -f other.yaml -o out >text 2>err && cmp mine $f.edited && grep -q 8013 $f
'
expect 'texts of the last run that somebody changed are not believed' '
    ours && stoker render all -o out >/dev/null && f=$(grep -rl 8003 out/systemd | head -1) && sed -i "1s/^/# mine\n/" $f && cp $f mine && sed -i "s/8003/8004/g" out/.stoker-render.base &&
    status 1 stoker render all -f other.yaml -o out >text 2>err && cmp mine $f.edited
'
expect 'edits in --json and --diff; --force sets aside and is no failure' '
    ours && stoker render all -o out >/dev/null && f=$(grep -rl 8003 out/systemd | head -1) && sed -i "s/8003/9999/" $f && cp -a out copy &&
    status 1 stoker render all -f other.yaml --diff out >d 2>err && grep -q "would be kept as" err && patch -s -p1 -d copy <d && cmp copy/${f#out/}.edited $f &&
    cp -a out forced && stoker render all -o forced --force 2>err && grep -q "kept as" err && grep -q 9999 forced/${f#out/}.edited &&
    status 1 stoker render all -f other.yaml -o out --json >j 2>err && test ! -s err && python3 -c "
import json
e = [f for f in json.load(open(\"j\"))[\"files\"] if f[\"edited\"]]
assert len(e) == 1 and e[0][\"edited\"] == \"aside\" and e[0][\"aside\"].endswith(\".edited\"), e"
'
expect 'killed at any moment an edit is somewhere' '
    ours && for ms in 0 1 2 3 5 8 12; do
        rm -rf out; stoker render all -o out >/dev/null; f=$(grep -rl 8003 out/systemd | head -1); sed -i "s/8003/9999/" $f; cp $f mine
        ("$BUILD/stoker" render all -f other.yaml -o out >/dev/null & p=$!; sleep 0.0$ms; kill -9 $p 2>/dev/null; wait $p) 2>/dev/null
        cmp -s $f mine || cmp -s $f.edited mine || exit 1
        stoker render all -f other.yaml -o out >/dev/null 2>err; cmp $f.edited mine && test ! -e $f.edited.2 && grep -q 8013 $f || exit 1
    done
'
# Stopped before or after each system call that changes the folder, by ptrace: the program that ships, not a unit.
folder() { tree "$1" | grep -v "stoker-render.base "; find "$1" -type d -printf "%P\n" | sort; }
begin() { # start: rendered, one file edited; its state, and what rendering another spec makes of it
    ours && stoker render systemd -o out >/dev/null && f=$(cd out && grep -rl 8003 systemd | head -1) && sed -i "s/8003/9999/" out/$f &&
        cp -a out start && folder out >old && status 1 stoker render systemd -f other.yaml -o out >/dev/null 2>&1 && folder out >new && ! cmp -s old new
}
stopped() { # CALL: killed at its first, second, ... occurrence; then recovered by --diff, old or new and nothing between
    n=0
    while n=$((n + 1)); do
        rm -rf out && cp -a start out
        strace -qq -o /dev/null -e trace=$1 -e inject=$1:signal=KILL:when=$n "$BUILD/stoker" render systemd -f other.yaml -o out >/dev/null 2>&1
        test $? = 137 || break
        stoker render systemd -f other.yaml --diff out >d 2>err
        folder out >now
        cmp -s now old || cmp -s now new || { echo "# $1 $n: neither old nor new"; return 1; }
        ls -a out | grep -q journal && return 1
        grep -qs 9999 out/$f out/$f.edited || { echo "# $1 $n: the edit is lost"; return 1; }
    done
    test $n -gt 3
}
if command -v strace >/dev/null && strace -qq -o /dev/null -e trace=renameat -e inject=renameat:signal=KILL:when=9 true 2>/dev/null; then
expect 'killed at every rename, unlink and fsync: old or new as a whole, edits kept' '
    begin && stopped renameat && stopped unlinkat && stopped fsync
'
expect 'the run that finishes a killed one tells what that set aside, and ends with 1' '
    begin && told=0 && for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
        for how in "-o out" "--diff out" "-o out --json" "-o out --force"; do
            rm -rf out && cp -a start out
            strace -qq -o /dev/null -e trace=renameat -e inject=renameat:signal=KILL:when=$n "$BUILD/stoker" render systemd -f other.yaml -o out >/dev/null 2>&1
            test $? = 137 && test -e out/$f.edited && test -e out/.stoker-render.journal || continue
            head -1 out/.stoker-render.journal | grep -q commit || continue
            stoker render systemd -f other.yaml $how >d 2>err; rc=$?
            case $how in
            *json) grep -q "\"recovered\": \"finished\"" d && tr -d " \n" <d | grep -q "\"recovered_edited\":\[{\"path\":\"$f\",\"aside\":\"$f.edited\"}\]" ;;
            *) grep -q "earlier run was stopped" err && grep -q "$f. in .out. was edited by hand: the edited file is kept as .$f.edited" err ;;
            esac || { echo "# $n $how"; cat d err; exit 1; }
            case $how in *force) test $rc = 0 ;; *) test $rc = 1 ;; esac || { echo "# $n $how: $rc"; exit 1; }
            told=$((told + 1))
            stoker render systemd -f other.yaml -o out >/dev/null 2>err && ! grep edited err || exit 1
        done
    done; test $told -ge 8
'
expect 'a full disk at every fsync: exit 1, the folder as it was, or finished by the next run' '
    begin && n=0; while n=$((n + 1)); do
        rm -rf out && cp -a start out
        strace -qq -o tr -e trace=fsync -e inject=fsync:error=ENOSPC:when=$n "$BUILD/stoker" render systemd -f other.yaml -o out >/dev/null 2>err
        grep -q INJECTED tr || break
        grep -q "No space left" err || continue # of a folder: not every file system can
        want=old; test ! -e out/.stoker-render.journal || want=new
        stoker render systemd -f other.yaml --diff out >/dev/null 2>err; folder out | cmp - $want || exit 1
    done; test $n -gt 5
'
else
test_skip 'killed at every rename, link, unlink and fsync: old or new as a whole, edits kept' 'strace may not trace here'
test_skip 'the run that finishes a killed one tells what that set aside, and ends with 1' 'strace may not trace here'
test_skip 'a full disk at every fsync: exit 1, the folder as it was, or finished by the next run' 'strace may not trace here'
fi

expect 'diff: colour when asked' '
    stoker render systemd --diff new --colour=always | grep -q "$(printf "\033")" &&
    ! stoker render systemd --diff new | grep -q "$(printf "\033")"
'

# ---- --check, --list, --json
expect 'check: says so and writes nothing' '
    stoker render all --check >text && grep -q "^ok  stoker.yaml: [0-9]* files for compose, doc, " text && test ! -e out
'
expect 'a spec that cannot be rendered: every fault at its place, exit 1, nothing written' '
    sed "s/^    count: 1/    count: 3\n    hosts: a100[1-2]/; s/stoker:latest/Stoker:latest/" stoker.yaml >bad.yaml &&
    status 1 stoker render all -f bad.yaml -o out >text 2>err && test ! -s text && test ! -e out &&
    grep -q "^bad.yaml:[0-9]*:[0-9]*: node group .a100. names 2 machines, but its count is 3$" err &&
    test "$(grep -c "is not an image" err)" = 2 && grep -qx "stoker: .bad.yaml. cannot be rendered: 3 errors" err &&
    status 1 stoker render all -f bad.yaml --check 2>err
'
expect 'a broken spec is exit 1 with its errors' '
    echo "x: 1" >bad && status 1 stoker render all -f - -o out 2>err <bad && grep -q "^standard input:1:1: unknown key" err &&
    test ! -e out
'
expect 'list: every target, with what it writes' '
    stoker render --list >text && test "$(wc -l <text)" = 10 && grep -q "^slurm  *slurm.conf" text &&
    for t in $(cut -d" " -f1 text); do stoker render --help | grep -q . && stoker completion bash | grep -q "$t"; done
'
expect 'json: what was written, with sums and kinds of change' '
    stoker render all -o out --json >a.json && echo x >>out/systemd/stoker-agent.service &&
    sed "/^  prometheus:/d" stoker.yaml >less.yaml && stoker render all -f less.yaml -o out --json >b.json &&
    stoker render --list --json >l.json && stoker render all --check --json >c.json && python3 -c "
import hashlib, json
a, b = json.load(open(\"a.json\")), json.load(open(\"b.json\"))
assert a[\"schema\"] == \"stoker.render/1\" and a[\"written\"] is True and a[\"dir\"] == \"out\", a
assert {f[\"change\"] for f in a[\"files\"]} == {\"new\"} and \"systemd\" in a[\"targets\"]
kinds = {f[\"path\"]: f for f in b[\"files\"]}
assert kinds[\"systemd/stoker-agent.service\"][\"change\"] == \"changed\"
gone = [f for f in b[\"files\"] if f[\"change\"] == \"gone\"]
assert gone and all(f[\"path\"].startswith(\"prometheus/\") and f[\"sha256\"] is None for f in gone)
for f in b[\"files\"]:
    if f[\"change\"] != \"gone\":
        data = open(\"out/\" + f[\"path\"], \"rb\").read()
        assert len(data) == f[\"bytes\"] and hashlib.sha256(data).hexdigest() == f[\"sha256\"], f
c = json.load(open(\"c.json\"))
assert c[\"written\"] is False and c[\"dir\"] is None and len(c[\"files\"]) == len(a[\"files\"])
assert len(json.load(open(\"l.json\"))[\"targets\"]) == 10
"
'
expect 'json: faults; exit 1, nothing on stderr' '
    sed "s/stoker:latest/Stoker:latest/" stoker.yaml >bad.yaml &&
    status 1 stoker render all -f bad.yaml --json >j 2>err && test ! -s err && test ! -e out && python3 -c "
import json
j = json.load(open(\"j\"))
assert len(j[\"errors\"]) == 2 and j[\"errors\"][0][\"line\"] and not j[\"files\"], j
"
'
# ---- the command line
expect 'no target, unknown targets, options that contradict: exit 2' '
    status 2 stoker render 2>err && grep -q "no target is given" err &&
    status 2 stoker render slrum 2>err && grep -q "Did you mean .slurm.?" err &&
    status 2 stoker render zzzzzz 2>err && grep -q -- "--list" err &&
    status 2 stoker render all --check --diff x 2>err && status 2 stoker render all --check -o x 2>err &&
    status 2 stoker render --list all 2>err
'
expect 'no spec: exit 3 with the way on; lustre without a server is refused' '
    mkdir empty && cd empty && status 3 stoker render all 2>err && grep -q "stoker spec example" err && cd .. &&
    status 1 stoker render lustre -o out 2>err && grep -q "does not say where the Lustre" err && test ! -e out
'
expect 'inventory: one of a machine is taken, anything else is not' '
    stoker detect --root "$BUILD/machines/dgx-h100.tar" --json >inv.json &&
    stoker render all --inventory inv.json -o out >/dev/null && test -s out/systemd/stoker-agent.service &&
    echo "{}" >bad.json && status 1 stoker render all --inventory bad.json 2>err &&
    grep -q "^stoker: inventory .bad.json.: " err && grep -q "stoker detect --json" err &&
    status 3 stoker render all --inventory none.json 2>err
'
expect 'a target that the spec does not name: a warning with a place, also in JSON; --strict refuses it' '
    printf "site: {name: x}\nnodes: [{name: g, count: 1}]\n" >untold.yaml && stoker render kubernetes -f untold.yaml -o un >/dev/null 2>err && cat err &&
    grep -q "^untold.yaml:1:1: warning: kubernetes is not among the spec.s targets" err && status 1 stoker render systemd -f untold.yaml --strict -o un 2>err &&
    stoker render kubernetes -f untold.yaml --check --json >out && grep -q "\"line\": 1" out && ! grep -q "\"line\": null" out &&
    stoker render all -f untold.yaml --check 2>err >/dev/null && ! grep -q "not among" err
'
cat >elsewhere.yaml <<'END'
nodes:
  - {name: a, gpus_per_node: 8, gpu: {model: H100, memory: 80GB}}
  - {name: b, gpus_per_node: 8, gpu: {model: H100, memory: 80GB, power_limit: 500}}
pools: {p: {size: 10GB, nodes: b}}
components: {c: {target: compose, image: x.org/c:1, command: [c], nodes: a, pools: [p]}}
budgets: {day: $9/d, overrun: stop}
targets: {compose: {mps: true}}
END
test_expect 'a pool of GPUs where its component does not run is refused; settings of GPUs and of budgets that nobody follows are told of' '
    { stoker render compose -f elsewhere.yaml -o elsewhere 2>err; test $? = 1; } && cat err &&
    grep -q "elsewhere.yaml:5:[0-9]*: pool .p. is memory of the GPUs of .b., where component .c. does not run" err &&
    sed "s/nodes: a,/nodes: b,/" elsewhere.yaml >there.yaml && stoker render compose -f there.yaml -o there 2>err && cat err &&
    grep -q "there.yaml:3:[0-9]*: warning: compose does not follow .gpu.power_limit. of nodes .b." err &&
    grep -q "there.yaml:6:[0-9]*: warning: compose does not follow .overrun. of budgets" err
'

cat >hook.yaml <<'END'
site: {name: s}
nodes: [{name: g, gpus_per_node: 1, gpu: {model: H100}, cpu_cores: 8, memory: 64GB}]
notify: {webhook: "http://chat.example.org/s3cr3t"}
targets: {systemd: {group: watch}, kubernetes: {stoker_image: "x.org/s:1"}}
END
test_expect 'the address of a webhook is for the agent alone: modes and owner on a machine, a Secret in Kubernetes' '
    stoker render systemd kubernetes -f hook.yaml -o hook 2>err && cat err && test "$(stat -c %a hook/systemd/etc/stoker.yaml)" = 600 &&
    DESTDIR="$PWD/root" sh hook/systemd/install.sh && test "$(stat -c %a root/etc/stoker/stoker.yaml)" = 600 &&
    test "$(stat -c %a root/etc/stoker/serve.yaml)" = 644 && grep -qx "z /etc/stoker/stoker.yaml 0640 root watch -" root/etc/tmpfiles.d/stoker.conf &&
    f=hook/kubernetes/base/agent.yaml && test "$(stat -c %a $f)" = 600 && grep -q "^kind: Secret" $f && grep -q "secretName: stoker-spec" $f &&
    test "$(stat -c %a hook/.stoker-render.base)" = 600 && ! grep -q "^kind: ConfigMap" $f && test "$(grep -rl s3cr3t hook | grep -vc "stoker.yaml\|base/agent.yaml\|render.base")" = 0 &&
    sed "/^notify/d" hook.yaml >none.yaml && stoker render kubernetes -f none.yaml -o none 2>err && grep -q "^kind: ConfigMap" none/kubernetes/base/agent.yaml
'
test_expect 'work that is done is not begun again, unless the spec says so' '
    cat >once.yaml <<END &&
nodes: [{name: ws, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 128GB}]
components:
  tr: {kind: training, target: systemd, gpus: 1, command: [python3, t.py], training: {framework: other}}
  ba: {kind: batch, target: systemd, cpus: 1, memory: 1GB, command: [/bin/true]}
  on: {kind: batch, target: systemd, cpus: 1, memory: 1GB, command: [/bin/true], restart: always}
  sv: {kind: service, target: systemd, cpus: 1, memory: 1GB, command: [/bin/true]}
  ctr: {kind: training, target: compose, gpus: 1, image: "a/b:1", command: [python3, t.py], training: {framework: other}}
  cba: {kind: batch, target: compose, cpus: 1, memory: 1GB, image: "a/b:1", command: [/bin/true]}
targets: {systemd: {}, compose: {}}
END
    stoker render all -f once.yaml -o once >/dev/null 2>&1 && cd once &&
    grep -q "^Restart=on-failure" systemd/stoker-component-tr.service && grep -q "^Restart=on-failure" systemd/stoker-component-ba.service &&
    grep -q "^Restart=always" systemd/stoker-component-on.service && grep -q "^Restart=always" systemd/stoker-component-sv.service &&
    test "$(grep -c "restart: \"*on-failure" compose/compose.yaml)" = 2
'
test_done

#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render lustre`: scripts that only print unless told to apply, and then call Lustre's
# programs (here: ones that write down how they were called) with exactly what was printed.
. "$(dirname "$0")/lib.sh"

stoker spec example llm-cluster >llm.yaml
cat >site.yaml <<'END'
schema: stoker.spec/1
nodes:
  - {name: fast, role: storage, count: 4}
  - {name: slow, role: storage, count: 4, hosts: "slow[01-04]"}
  - {name: gpu, gpus_per_node: 8, gpu: {model: H200}}
storage:
  - name: s
    kind: lustre
    path: "/l 'x'"
    source: "10.0.0.1@tcp:/s"
    stripes:
      - {match: "*.pt", count: -1, size: 16MiB}
      - {match: "it's a *.bin", count: 2, size: 64KiB}
components:
  t: {command: [x], kind: training, gpus: 1, training: {checkpoint: {path: "/l 'x'/c k"}}}
targets: {lustre: {fsname: s, mgs: "10.0.0.1@tcp", osts: 6, mdts: 2}}
END
# programs that write down their arguments, a line a call, and answer as a healthy system
mkdir bin
for p in mkfs.lustre mount lfs lctl blkid mkdir; do
    cat >bin/$p <<'END'
#!/bin/sh
{ printf '%s' "${0##*/}"; for w; do printf ' [%s]' "$w"; done; echo; } >>"$CALLS"
case "${0##*/} $1" in
blkid*) exit 2 ;;
"lfs mdts") printf '0: s-MDT0000_UUID ACTIVE\n1: s-MDT0001_UUID ACTIVE\n' ;;
"lfs osts") for i in 0 1 2 3 4 ${LAST_OST-5}; do echo "$i: s-OST000${i}_UUID ACTIVE"; done ;;
"lfs getstripe") echo -1 ;;
"lfs find") printf 'one\0two words\0' ;;
esac
END
    chmod +x bin/$p
done
export CALLS="$TMP/calls"
apply() { : >"$CALLS" && PATH="$TMP/bin:$PATH" sh "$@"; }
scripts='format mount stripe check'

test_expect 'both sites are rendered' '
    stoker render lustre -f llm.yaml -o llm && stoker render lustre -f site.yaml -o site &&
    for s in $scripts; do test -s llm/lustre/$s.sh && test -s site/lustre/$s.sh || exit 1; done
'
if command -v shellcheck >/dev/null; then
    test_expect 'shellcheck takes every script' 'shellcheck llm/lustre/*.sh site/lustre/*.sh'
else
    test_skip 'shellcheck takes every script' 'shellcheck is not here'
fi
test_expect 'without --apply nothing is called' '
    for s in $scripts; do apply site/lustre/$s.sh >/dev/null || exit 1; test ! -s "$CALLS" || exit 1; done
'
test_expect 'without storage machines hosts and devices are left to variables' '
    sh llm/lustre/format.sh >out && grep -qx "# OST31: set LUSTRE_HOST_OST31 to the machine that carries it" out &&
    grep -qx "mkfs.lustre --backfstype=ldiskfs --fsname=llm --ost --index=31 --mgsnode=10.10.0.2@o2ib LUSTRE_DEVICE_OST31" out &&
    grep -c "^mkfs.lustre" out >n && test "$(cat n)" = 35
'
test_expect 'and nothing is applied while they are unset' '
    ! apply llm/lustre/format.sh --apply >out 2>err && grep -q "no host for MGS: set LUSTRE_HOST_MGS" err && test ! -s "$CALLS" &&
    ! LUSTRE_HOST_MGS=m apply llm/lustre/format.sh --apply --host=m >out 2>err && grep -q "set LUSTRE_DEVICE_MGS" err && test ! -s "$CALLS"
'
test_expect 'a quarter of the machines has metadata, the rest objects' '
    sh site/lustre/format.sh --all | grep "^# " >out &&
    printf "# %s\n" "MGS on fast1" "MDT0 on fast1" "MDT1 on fast2" "OST0 on fast3" "OST1 on fast4" "OST2 on slow01" \
        "OST3 on slow02" "OST4 on slow03" "OST5 on slow04" | diff - out
'
test_expect 'a machine does its own targets alone' '
    sh site/lustre/format.sh --host=slow02 >out && test "$(grep -c ^mkfs out)" = 1 && grep -q -- "--index=3 " out
'
test_expect 'a device that is no device is not formatted' '
    ! LUSTRE_DEVICE_OST3=/nowhere apply site/lustre/format.sh --apply --host=slow02 2>err && grep -q "no block device" err && ! grep -q mkfs "$CALLS"
'
test_expect 'mounting calls what it printed, on the server and on a client' '
    LUSTRE_DEVICE_OST3="/dev/x y" apply site/lustre/mount.sh --apply --host=slow02 >out &&
    printf "%s\n" "mkdir [-p] [/srv/lustre/s-ost3]" "mount [-t] [lustre] [/dev/x y] [/srv/lustre/s-ost3]" | diff - "$CALLS" &&
    LUSTRE_CLIENT=1 apply site/lustre/mount.sh --apply >out &&
    printf "%s\n" "mkdir [-p] [/l '\''x'\'']" "mount [-t] [lustre] [-o] [flock,lazystatfs] [10.0.0.1@tcp:/s] [/l '\''x'\'']" | diff - "$CALLS"
'
test_expect 'what is printed is what a shell would do' '
    LUSTRE_CLIENT=1 apply site/lustre/mount.sh >out && grep -v "^#" out >commands && apply commands &&
    printf "%s\n" "mkdir [-p] [/l '\''x'\'']" "mount [-t] [lustre] [-o] [flock,lazystatfs] [10.0.0.1@tcp:/s] [/l '\''x'\'']" | diff - "$CALLS"
'
test_expect 'layouts by kind of file, checkpoints on every OST' '
    apply site/lustre/stripe.sh --apply >out && sort "$CALLS" >got &&
    grep -qxF "lfs [setstripe] [-c] [-1] [-S] [16777216] [/l '\''x'\''/c k]" got &&
    grep -qxF "lfs [find] [/l '\''x'\''] [-type] [f] [-name] [it'\''s a *.bin] [!] [--stripe-count] [2] [--print0]" got &&
    grep -qxF "lfs [find] [/l '\''x'\''] [-type] [f] [-name] [*.pt] [!] [--stripe-count] [6] [--print0]" got &&
    grep -qxF "lfs [migrate] [-c] [2] [-S] [65536] [two words]" got && grep -qxF "lfs [migrate] [-c] [-1] [-S] [16777216] [one]" got
'
test_expect 'a pool for each group of servers, and one to use' '
    grep -qxF "lctl [pool_new] [s.group1]" got && grep -qxF "lctl [pool_add] [s.group2] [s-OST0005]" got &&
    LUSTRE_POOL=s.group1 apply site/lustre/stripe.sh --apply >out && grep -q "\[-p\] \[s.group1\] \[/l" "$CALLS"
'
test_expect 'check tells a whole file system from one that lacks an OST' '
    apply site/lustre/check.sh --apply >out && grep -qx "ok: 2 MDTs" out && grep -qx "ok: 6 OSTs" out &&
    ! LAST_OST= apply site/lustre/check.sh --apply >out && grep -qx "bad: 5 of 6 OSTs are active" out
'
test_expect 'a word nobody knows: exit 2; --help says what it does' '
    sh site/lustre/format.sh --aply; test $? = 2 && sh site/lustre/check.sh --help | grep -q "only with --apply"
'
refused() { # SED-EXPRESSION WORDS: the changed site is refused at a line, and nothing is written
    sed "$1" site.yaml >bad.yaml && ! cmp -s site.yaml bad.yaml && ! stoker render lustre -f bad.yaml -o bad 2>err &&
        grep -q "^bad.yaml:[1-9][0-9]*:[1-9].*$2" err && test ! -e bad
}
test_expect 'more stripes than OSTs' 'refused "s/count: 2,/count: 7,/" "on 7 OSTs, and there are 6"'
test_expect 'a stripe that is no multiple of 64 KiB' 'refused "s/64KiB/65537B/" "multiple of 64 KiB"'
test_expect 'a storage of another server' 'refused "s|10.0.0.1@tcp:/s|10.0.0.9@tcp:/s|" "but targets.lustre has"'
test_expect 'two rules for one pattern would move files to and fro' 'refused "s/it.s a ..bin/*.pt/" "files .*pt. have two rules"'
test_expect 'a pattern with a folder fits no name' 'refused "s|it.s a |data/|" "a name has no ./."'
test_expect 'a pattern that is refused is not held against the others' '
    refused "s|it.s a ..bin|*a/*|" "a name has no ./." && ! grep "may fit both" err
'
test_expect 'a name that fits two rules of different layout: told; names that cannot: not' '
    for x in "big*" "*.p?" "m*.pt" "*a*" "[mn].p[a-z]"; do
        sed "s/it.s a ..bin/$x/" site.yaml >two.yaml && stoker render lustre -f two.yaml -o two 2>err && grep -q "^two.yaml:13:.* warning: a file may fit both .\*.pt. and " err || { echo "$x"; exit 1; }
    done && for x in "*.bin" "*.ptx" "a.b" "*.pt.?" "*.p[st]x"; do
        sed "s/it.s a ..bin/$x/" site.yaml >two.yaml && stoker render lustre -f two.yaml -o two 2>err && ! grep "may fit both" err || { echo "$x"; exit 1; }
    done
'
test_expect 'a file system that no storage is: told at its name' '
    sed "s/fsname: s,/fsname: x,/" site.yaml >typo.yaml && stoker render lustre -f typo.yaml -o typo 2>err &&
    grep -q "^typo.yaml:16:28: warning: no storage is .10.0.0.1@tcp:/x.: .s. comes from .10.0.0.1@tcp:/s." err
'
test_expect 'a group for the metadata: all of it there and nothing else; without it, told where objects join it' '
    sed "s/mdts: 2/mdts: 3, failover: true, metadata: fast/" site.yaml >meta.yaml && stoker render lustre -f meta.yaml -o meta 2>err && ! grep -q "of role storage" err &&
    sh meta/lustre/format.sh --all | grep "^# " >out &&
    printf "# %s\n" "MGS on fast1" "MDT0 on fast1" "MDT1 on fast2" "MDT2 on fast3" "OST0 on slow01" "OST1 on slow02" "OST2 on slow03" \
        "OST3 on slow04" "OST4 on slow01" "OST5 on slow02" | diff - out &&
    sh meta/lustre/format.sh --all | grep -q -- "--mdt --index=2 .*--servicenode=fast3@tcp --servicenode=fast4@tcp" &&
    stoker render lustre -f site.yaml -o told 2>err && grep -q "^site.yaml:16:.* warning: metadata is on 2 of the 8 machines of role storage, and the others of .fast. have objects" err &&
    refused "s/mdts: 2/mdts: 2, metadata: gpu/" "node group .gpu. is no storage" && refused "/name: slow/d; s/mdts: 2/mdts: 2, metadata: fast/" "no machine is left for objects"
'
test_expect 'a site without targets.lustre is told to add it' '
    stoker spec example kb-a100 >kb.yaml && ! stoker render lustre -f kb.yaml -o bad 2>err && grep -q "Add .*lustre: {" err && test ! -e bad
'
cat >ha.yaml <<'END'
schema: stoker.spec/1
nodes:
  - {name: oss, role: storage, count: 4}
  - {name: gpu, gpus_per_node: 8, gpu: {model: H200}}
storage: [{name: s, kind: lustre, path: /s, source: "10.0.0.1@o2ib:10.0.0.2@o2ib:/s"}]
targets:
  lustre:
    {fsname: s, mgs: "10.0.0.1@o2ib:10.0.0.2@o2ib", osts: 3, mdts: 1, failover: true, networks: ["o2ib(ib0,ib1)", tcp1(eth0)], mount_options: "flock,noatime"}
END
test_expect 'failover: every management server is told, a target may run on its server and the next' '
    stoker render lustre -f ha.yaml -o ha --strict && sh ha/lustre/format.sh --all >out &&
    grep -qx "mkfs.lustre --backfstype=ldiskfs --mgs --servicenode=10.0.0.1@o2ib --servicenode=10.0.0.2@o2ib LUSTRE_DEVICE_MGS" out &&
    grep -qx "mkfs.lustre --backfstype=ldiskfs --fsname=s --ost --index=1 --mgsnode=10.0.0.1@o2ib --mgsnode=10.0.0.2@o2ib --servicenode=oss3@o2ib --servicenode=oss4@o2ib LUSTRE_DEVICE_OST1" out &&
    grep -q -- "--mdt --index=0 .*--servicenode=oss1@o2ib --servicenode=oss2@o2ib" out && grep -q -- "--index=2 .*--servicenode=oss4@o2ib --servicenode=oss2@o2ib" out
'
test_expect 'a client is mounted by an option, from all management servers, with the options of the spec' '
    sh ha/lustre/mount.sh --client >out && grep -qx "mount -t lustre -o flock,noatime 10.0.0.1@o2ib:10.0.0.2@o2ib:/s /s" out &&
    grep -q "lustre flock,noatime,_netdev,nofail 0 0" out && ! grep -q /srv/lustre out && sh ha/lustre/mount.sh --help | grep -q -- --client &&
    { ! command -v shellcheck >/dev/null || shellcheck ha/lustre/*.sh; }
'
test_expect 'LNet: networks for lnetctl and for the module; without them no file' '
    python3 -c "
import yaml
d = yaml.safe_load(open(\"ha/lustre/lnet.conf\"))
assert [(n[\"net type\"], list(n[\"local NI(s)\"][0][\"interfaces\"].values())) for n in d[\"net\"]] == [(\"o2ib\", [\"ib0\", \"ib1\"]), (\"tcp1\", [\"eth0\"])], d
" && grep -qx "options lnet networks=\"o2ib(ib0,ib1),tcp1(eth0)\"" ha/lustre/lnet-modprobe.conf && test ! -e site/lustre/lnet.conf
'
test_expect 'what is no NID or network is refused at its line; one management server beside failover is a warning' '
    for bad in "s/mgs: [^ ]*/mgs: 10.0.0.1,/" "s/mgs: [^ ]*/mgs: \"10.0.0.1@ether\",/" "s/mgs: [^ ]*/mgs: \"fd00::1@tcp\",/" "s/tcp1(eth0)/\"tcp1(eth0\"/" "s/tcp1(eth0)/\"tcp1()\"/" "s/tcp1(eth0)/\"net(eth0)\"/"; do
        sed "$bad; /^storage/d" ha.yaml >bad.yaml
        if stoker render lustre -f bad.yaml -o bad 2>err || ! grep -q "^bad.yaml:7:" err; then echo "$bad"; cat err; exit 1; fi
    done
    sed "s/:10.0.0.2@o2ib//" ha.yaml >alone.yaml && stoker render lustre -f alone.yaml -o alone 2>err >/dev/null && grep -q "warning: targets may move, but the management server" err
'
test_done

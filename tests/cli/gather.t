#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker gather`: a capture replays to what it was captured from, and a masked one
# tells no address, name or serial number of the machine.
. "$(dirname "$0")/lib.sh"

"$TOP/tests/machines/build.py" "$TMP/tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}

inventory() { tar -xOf "$1" stoker/inventory.json; }

# ---- this machine
test_expect 'this machine: the capture replays to its own inventory' '
    stoker gather live.tar >out && inventory live.tar >want &&
    stoker detect --root live.tar --json >got && diff -u want got
'
test_expect 'it says what it holds and what was masked' '
    grep -q "^live.tar: [0-9]* files" out && grep -q "^  masked: " out &&
    tar -xOf live.tar stoker/README | grep -q "^Masked:"
'
test_expect 'unmasked: the inventory of detect itself, and it says so' '
    stoker gather --unmasked raw.tar >out && grep -q "not masked" out &&
    tar -xOf raw.tar stoker/README | grep -q "NOT masked" && inventory raw.tar >want &&
    stoker detect --root raw.tar --json | diff -u want -
'
test_expect 'a file that exists is kept, unless forced' '
    echo precious >mine && stoker gather mine >out 2>err; test $? = 1 && test ! -s out &&
    grep -q "exists already" err && grep -q "force" err && test "$(cat mine)" = precious &&
    stoker gather --force mine >out && tar -tf mine >list && grep -q "stoker/self.json" list
'
test_expect 'a folder that is not there: an error, and nothing is left behind' '
    stoker gather nowhere/x.tar >out 2>err; test $? != 0 && test ! -s out && test ! -e nowhere &&
    ! ls -a | grep -q "\.tmp\."
'
test_expect 'no operand, two operands: usage error' '
    stoker gather >out 2>err; test $? = 2 && stoker gather a b >out 2>err; test $? = 2
'

# ---- captured machines: whatever they are, masked or not, they replay
secrets='
import json, re, sys
d = json.load(open(sys.argv[1]))
def walk(v, key=None):
    if isinstance(v, dict):
        for k in v:
            yield from walk(v[k], k)
    elif isinstance(v, list):
        for x in v:
            yield from walk(x, key)
    elif isinstance(v, str) and key in ("mac", "uuid", "serial", "node_guid", "addr", "gateway",
                                        "hostname", "k8s_node"):
        if not v.startswith("fd"): # a prefix of zeros may become itself
            yield v
stays = re.compile(r"^(0+|00:.*|127\..*|::1|fe80::?1?|localhost|fe80(:0000){6}:0001)$")
for s in sorted(set(walk(d))):
    if len(s) > 4 and not stays.match(s):
        print(s)
'
for t in "$TMP"/tars/*.tar; do
    m=$(basename "$t" .tar)
    test_expect "$m: unmasked, it replays to the same JSON" "
        stoker detect --root $t --json >$m.json && stoker gather --unmasked --root $t $m.raw.tar &&
        stoker detect --root $m.raw.tar --json | diff -u $m.json -
    "
    test_expect "$m: masked, it replays to the masked JSON" "
        stoker gather --root $t $m.tar && inventory $m.tar >$m.want &&
        stoker detect --root $m.tar --json | diff -u $m.want -
    "
    test_expect "$m: masked, the page, the matrix and the checks differ in names alone" "
        stoker detect --root $t --topo | sed \"s/GPU at.*//\" >a &&
        stoker detect --root $m.tar --topo | sed \"s/GPU at.*//\" >b && diff -u a b &&
        { stoker detect --root $t --check all; echo \$?; } | cut -c1-40 | grep -c . >a &&
        { stoker detect --root $m.tar --check all; echo \$?; } | cut -c1-40 | grep -c . >b && cmp a b
    "
    test "$m" = hostile && continue
    tar -xOf "$t" stoker/README 2>/dev/null | grep -q '^Masked' && continue # masked when captured
    test_expect "$m: masked, nothing of the machine is left" "
        python3 -c '$secrets' $m.json >$m.secrets && mkdir -p x && tar -xf $m.tar -C x &&
        ! grep -rFwn -f $m.secrets x && rm -rf x
    "
done

test_expect 'hosts that only NCCL is told of, and who mounted a share, are masked' '
    mkdir shares && tar -xf "$TMP/tars/dgx-h100.tar" -C shares && python3 -c "
import json
p = \"shares/stoker/self.json\"
d = json.load(open(p))
d[\"env\"] += [{\"name\": \"NCCL_COMM_ID\", \"value\": \"headnode77:1234\"}, {\"name\": \"NCCL_HOSTID\", \"value\": \"blade0815\"}]
json.dump(d, open(p, \"w\"))
p = \"shares/proc/self/mountinfo\"
rows = open(p).read() + \"99 1 0:99 / /share rw - cifs //filer9/s rw,vers=3.1.1,username=jdoe,domain=CORPX,uid=0,addr=10.9.9.9\\n\"
open(p, \"w\").write(rows)
" && mkdir -p shares/etc && echo "NCCL_COMM_ID=confnode5:99" >shares/etc/nccl.conf &&
    stoker gather --root shares shares.tar && mkdir masked && tar -xf shares.tar -C masked && grep -rq "username=x,domain=x" masked && grep -rq "NCCL_COMM_ID" masked &&
    ! grep -rE "headnode77|blade0815|jdoe|CORPX|confnode5|filer9" masked
'
test_expect 'the same capture masked twice gives the same bytes' '
    stoker gather --root "$TMP/tars/openshift-roce.tar" one.tar &&
    stoker gather --root "$TMP/tars/openshift-roce.tar" two.tar && cmp one.tar two.tar
'
test_expect 'masked, NCCL still finds the interface to the other nodes' '
    stoker detect --root "$TMP/tars/openshift-roce.tar" --env=full >a 2>/dev/null &&
    stoker detect --root one.tar --env=full >b 2>/dev/null &&
    grep "^export" a >a.vars && grep "^export" b >b.vars && diff -u a.vars b.vars
'

test_expect '--json says what was captured' '
    stoker gather --json said.tar | python3 -c "
import json, sys
d = json.load(sys.stdin)
assert d[\"schema\"] == \"stoker.gather/1\" and d[\"masked\"] and d[\"files\"] > 20, d
"
'
test_done

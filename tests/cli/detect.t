#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker detect`: its options, on this machine whatever it is and on captured ones.
# What each captured machine says in full is in machines.t.
. "$(dirname "$0")/lib.sh"

"$TOP/tests/machines/build.py" "$TMP/tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}
dgx=$TMP/tars/dgx-h100.tar
lost=$TMP/tars/gpu-lost.tar
roce=$TMP/tars/openshift-roce.tar

# ---- this machine
test_expect 'this machine: exit 0, a page on stdout, nothing on stderr' '
    stoker detect >out 2>err && test ! -s err && grep -q "^Machine " out && grep -q "^GPUs " out
'
test_expect 'this machine: JSON with its schema' '
    stoker detect --json >out && python3 -c "
import json
d = json.load(open(\"out\"))
assert d[\"schema\"] == \"stoker.inventory/1\"
assert d[\"captured\"] is False
"
'
test_expect 'this machine: the other forms end well too' '
    stoker detect --topo >out && test -s out && stoker detect --svg - >out && grep -q "</svg>" out &&
    stoker detect --env >out 2>&1 && stoker detect --env=full >out 2>&1
'

# ---- the page
test_expect 'no colour but on a terminal; --colour=always paints' '
    stoker detect --root "$lost" >out && ! grep -q "$(printf "\033")" out &&
    stoker detect --root "$lost" --colour=always >out && grep -q "$(printf "\033\\[31mLOST")" out
'
# fits COLUMNS FILE: no line has more characters
fits() {
    python3 -c 'import sys
wide = [l for l in open(sys.argv[2], encoding="utf-8") if len(l.rstrip("\n")) > int(sys.argv[1])]
sys.exit("".join(wide) or 0)' "$1" "$2"
}
test_expect 'no line of the page is wider than 100 columns' '
    for t in "$TMP"/tars/*.tar; do
        COLUMNS=250 stoker detect --root "$t" >out && fits 100 out || exit 1
    done
'
test_expect 'a page of a GPU machine fits 80 columns, tables included' '
    COLUMNS=80 stoker detect --root "$dgx" >out && fits 80 out
'
test_expect 'the page says what NCCL will do' '
    stoker detect --root "$dgx" >out && grep -q "^NCCL  *Between machines: RDMA over mlx5_" out &&
    grep -q "Bootstrap: " out && grep -q "Between GPUs here: NVLink" out
'

# ---- options
usage() {
    stoker detect "$@" >out 2>err
    test $? = 2 && test ! -s out && test -s err
}
test_expect 'two outputs at once: usage error that names both' '
    usage --topo --svg x && grep -q "^stoker: options .--topo. and .--svg. are two different" err &&
    usage --env --check gpu && usage --why NCCL_IB_HCA --env && test ! -e x
'
test_expect 'JSON of a form that has none: usage error' '
    usage --json --svg x && grep -q "option .--svg. has no JSON form" err
'
test_expect 'unknown check, mode and option: usage error with a hint' '
    usage --check nvme && grep -q "Choose from" err && usage --check gpu,nvme &&
    usage --env=all && usage --jsn && grep -q "Did you mean .--json." err
'
test_expect '--deep without --check, an operand: usage error' '
    usage --deep && usage something
'
test_expect '--with needs VAR=VALUE' '
    usage -e NCCL_IB_HCA && grep -q "VAR=VALUE" err && usage -e =x && usage -e "A B=c" &&
    usage --with 1A=b
'
test_expect 'a root that is not there: one line, exit 3' '
    stoker detect --root nowhere.tar >out 2>err; test $? = 3 && test ! -s out &&
    test "$(wc -l <err)" = 1 && grep -q "nowhere.tar" err
'
test_expect 'a root that is no capture: an error, not a crash' '
    echo hello >file && stoker detect --root file >out 2>err; test $? -ge 1 && test $? -le 4 &&
    test -s err
'
test_expect 'a picture that cannot be written: exit 1 or 3, and no half file' '
    stoker detect --svg nowhere/x.svg 2>err; test $? != 0 && grep -q "could not create" err
'
test_expect 'stdout that is full is an error' '
    test ! -e /dev/full || { stoker detect >/dev/full 2>err; test $? = 1 && grep -q "could not write" err; }
'

# ---- environment
test_expect '--env is text a shell takes' '
    stoker detect --root "$roce" --env=full >env.sh 2>err && sh -n env.sh &&
    grep -q "^export NCCL_IB_GID_INDEX=3$" env.sh
'
test_expect '--env --json has its schema' '
    stoker detect --root "$roce" --env --json >out && python3 -c "
import json
d = json.load(open(\"out\"))
assert d[\"schema\"] == \"stoker.nccl/1\", d[\"schema\"]
assert \"choice\" in d and \"env\" in d and \"lint\" in d
"
'
test_expect '-e: as if the environment had it; it wins and is linted on stderr' '
    stoker detect --root "$roce" -e NCCL_IB_HCA=mlx5_1 -e NCCL_SOCKET_IFNAME=eth0 --env=full >out 2>err &&
    grep -q "NCCL_IB_HCA" err && ! grep -q "^warning" out && stoker detect --root "$roce" --env=full >out2 2>err2 &&
    ! grep -q "NCCL_IB_HCA" err2
'
test_expect '-e replaces what the capture had, the last one wins' '
    stoker detect --root "$roce" -e OMP_NUM_THREADS=3 --with=OMP_NUM_THREADS=5 --json >out &&
    python3 -c "
import json
env = json.load(open(\"out\"))[\"place\"][\"env\"]
assert [e[\"value\"] for e in env if e[\"name\"] == \"OMP_NUM_THREADS\"] == [\"5\"]
"
'
test_expect '--why explains one variable; an unknown one is a usage error' '
    stoker detect --root "$roce" --why NCCL_IB_HCA >out && grep -q mlx5_6 out &&
    usage --root "$roce" --why NCCL_IB_HCAA && grep -q "NCCL_IB_HCA" err
'

# ---- checks
test_expect '--check: exit 1 and a fail line when a check fails' '
    stoker detect --root "$lost" --check gpu >out 2>err; test $? = 1 && grep -qi fail out &&
    test ! -s err
'
test_expect '--check: exit 0 on a healthy machine' '
    stoker detect --root "$dgx" --check gpu,rdma >out; test $? = 0 && grep -qi pass out
'
test_expect '--check: a comma list, repeated options and JSON agree' '
    stoker detect --root "$dgx" --check gpu,rdma --json >a; stoker detect --root "$dgx" --check gpu \
        --check rdma --json >b; cmp a b && python3 -c "
import json
assert json.load(open(\"a\"))[\"schema\"] == \"stoker.checks/1\"
"
'

M=$TMP/machines
python3 "$TOP/tests/machines/build.py" "$M" openshift-roce
test_expect '--topo --json: a square of words' '
    stoker detect --root $M/openshift-roce.tar --topo --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
n = len(d[\"devices\"])
assert d[\"schema\"] == \"stoker.topo/1\" and n == 12, n
assert len(d[\"paths\"]) == n and all(len(r) == n for r in d[\"paths\"])
assert d[\"paths\"][0][0] == \"X\" and d[\"devices\"][-1][\"name\"] == \"mlx5_12\", d[\"devices\"][-1]
"
'
test_expect '--why of a link between GPUs: one GPU, two of which one is hidden, none told' '
    said() { stoker detect --root "$BUILD/machines/$1.tar" --why NCCL_P2P_LEVEL ${2-} ${3-} >out && grep -q "$need" out || { cat out; return 1; }; }
    need="needs two GPUs; fewer are visible here" && said h200-vm && said dgx-h100 -e CUDA_VISIBLE_DEVICES=1 &&
    need="pairs of GPUs" && said dgx-h100 && need="the number of GPUs cannot be known" && said openshift-init
'
test_expect '--why --json: the same answer, labelled' '
    stoker detect --root $M/openshift-roce.tar --why NCCL_IB_GID_INDEX --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
here = [s for s in d[\"says\"] if s[\"about\"] == \"here\"][0]
assert d[\"variable\"] == \"NCCL_IB_GID_INDEX\" and len(here[\"text\"]) == 4, here
"
'
test_expect '--peer wants an address, and --env' '
    { stoker detect --env --peer bogus >x 2>err; test $? = 2; } && test ! -s x && grep -q "takes an IP address, not .bogus." err &&
    { stoker detect --peer 10.0.0.2 2>err >x; test $? = 2; } && grep -q "with --env" err &&
    for a in 10.0.0.2 fd00::2 fe80::1%eth0; do stoker detect --env --peer $a >x || exit 1; done'
test_expect '--why knows a variable in small letters' '
    { stoker detect --why nccl_ib_hca 2>err; test $? = 2; } && grep -q "Did you mean NCCL_IB_HCA?" err'
test_expect 'a narrow terminal: nothing is wider' '
    for w in 40 60; do for c in "detect" "help" "model list" "embed --help"; do COLUMNS=$w stoker $c >x &&
        python3 -c "
import sys
long = [l for l in open(\"x\", encoding=\"utf-8\").read().splitlines() if len(l) > $w and not l.lstrip().startswith(\"stoker \")]
assert len(long) <= 2, long" || exit 1; done; done'
test_done

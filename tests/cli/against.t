#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker detect --against`: our choice beside the log or the topology of a real run, as NCCL
# 2.18 to 2.30 write them (against_log.py), and beside what is no such file.
. "$(dirname "$0")/lib.sh"

"$TOP/tests/machines/build.py" "$TMP/tars" dgx-h100 h200-vm >/dev/null || {
    echo "Bail out! the machines could not be built"
    exit 1
}
dgx=$TMP/tars/dgx-h100.tar
log() {
    python3 "$TOP/tests/cli/against_log.py" "$@"
}

# against STATUS FILE OPTION...: the comparison as JSON into json
against() {
    want=$1 file=$2
    shift 2
    stoker detect --root "$dgx" --against "$file" --json "$@" >json 2>err
    test $? = "$want" || { cat json err; return 1; }
}
# table STATUS FILE: for people, into out
table() {
    stoker detect --root "$dgx" --against "$2" >out 2>err
    test $? = "$1" || { cat out err; return 1; }
}

# row WHAT KEY=VALUE... [-- WHAT ...]: the rows of these names say so
row() {
    python3 -c '
import itertools, json, sys
doc = json.load(open("json"))
assert doc["schema"] == "stoker.against/1"
for sep, group in itertools.groupby(sys.argv[1:], lambda a: a == "--"):
    what, *wants = group
    rows = [r for r in doc["rows"] if r["what"] == what]
    assert sep or rows, "no row %s in %s" % (what, [r["what"] for r in doc["rows"]])
    for want in wants:
        key, value = want.split("=", 1)
        assert any(str(r[key]) == value for r in rows), (want, rows)
' "$@"
}

for v in 2.18.3 2.19.4 2.21.5 2.23.4 2.24.3 2.26.2 2.27.3 2.28.9 2.29.3 2.30.7; do
    reach="'GPU 4 and mlx5_6' nccl=PXB about=distance -- 'GPU 4 and mlx5_0' stoker=PXN about=distance"
    test $v = 2.30.7 && reach="'GPU 4 and mlx5_6' about=gdr" # it says no distance
    test_expect "the log of NCCL $v: all as predicted, exit 0" "
        log $v >nccl.log && against 0 nccl.log && row mlx5_11:1 verdict=same nccl=used -- \
        mlx5_2:1 verdict=same -- \
        interface verdict=same nccl=ibp41s0f0 -- \
        'between machines' nccl=IB verdict=same -- \
        'GPU 4 sends by' verdict=same nccl=mlx5_6 -- \
        'GPU 4 and mlx5_6' nccl=direct verdict=same -- \
        $reach -- \
        'GPU 0 and GPU 1' nccl=P2P verdict=same
    "
done
"$TOP/tests/machines/rails.py" "$TMP/tars" bluefield
sends() { # sends NIC: GPU 0 of the machine bluefield, by NCCL's device number
    cat <<EOF
rail-node:1:1 [0] NCCL INFO Bootstrap : Using eno1:10.10.0.17<0>
NCCL version 2.21.5+cuda12.4
rail-node:1:2 [0] NCCL INFO NET/IB : Using$(i=0; while [ $i -lt 10 ]; do printf ' [%d]mlx5_%d:1/RoCE' $i $i; i=$((i + 1)); done) [RO]; OOB eno1:10.10.0.17<0>
rail-node:1:2 [0] NCCL INFO Using network IB
rail-node:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/$1
EOF
}
test_expect 'NCCL sends by the widest path, then the nearest: a fast NIC at a root port is no difference' '
    sends 8 >nccl.log && dgx=$TMP/tars/bluefield.tar against 0 nccl.log && row "GPU 0 sends by" verdict=same stoker=mlx5_8 &&
    sends 0 >nccl.log && dgx=$TMP/tars/bluefield.tar against 1 nccl.log && row "GPU 0 sends by" verdict=differs
'
test_expect 'fused devices of 2.21: every port counts as used' '
    log 2.21.5 --virtual >nccl.log && against 0 nccl.log && row mlx5_11:1 verdict=same nccl=used
'
test_expect 'time stamps and a rank label before the line' '
    log 2.28.9 --stamps | sed "s/^/3: /" >nccl.log && against 0 nccl.log && row mlx5_0:1 verdict=same
'

test_expect 'labels of launchers without a blank behind them are no part of the host' '
    for label in "[1,3]<stdout>:" "[default3]:" "[rank0]:" "[3]" "[prterun-dgx-01-77@1,3]<stdout>:" "worker-0|"; do
        log 2.21.5 --other dgx-02 | sed "s/^/$label/" >nccl.log && against 0 nccl.log && row mlx5_0:1 verdict=same -- NCCL verdict=same || exit 1
        against 1 nccl.log --host dgx-02 || exit 1
    done
'

# ---- where NCCL chose otherwise
test_expect 'a port that NCCL did not take: exit 1, its row and our reason' '
    log 2.28.9 --without mlx5_3 >nccl.log && against 1 nccl.log && row mlx5_3:1 verdict=differs "nccl=not used" &&
    table 1 nccl.log && grep -q "^differs  *port  *mlx5_3:1  *used  *not used" out && grep -q "mlx5_3:1: we say used" out
'
test_expect 'another bootstrap interface' '
    log 2.28.9 --boot bond0:10.150.0.21 >nccl.log && against 1 nccl.log &&
    row interface verdict=differs nccl=bond0 stoker=ibp41s0f0
'
test_expect 'sockets in place of RDMA' '
    log 2.28.9 --network Socket >nccl.log && against 1 nccl.log && row "between machines" verdict=differs stoker=IB nccl=Socket -- \
        mlx5_0:1 verdict=differs
'
test_expect 'a net plug-in carries the data' '
    log 2.21.5 --network "AWS Libfabric" >nccl.log && against 1 nccl.log && row "between machines" verdict=differs "nccl=AWS Libfabric (a plug-in)"
'
test_expect 'shared memory in place of NVLink' '
    log 2.28.9 --shm >nccl.log && against 1 nccl.log && row "GPU 0 and GPU 1" verdict=differs stoker=P2P nccl=SHM
'
test_expect 'a GPU that sends by a NIC of the other socket' '
    log 2.28.9 --far >nccl.log && against 1 nccl.log && row "GPU 0 sends by" verdict=differs nccl=mlx5_6
'
test_expect 'a device by its Data Direct function is that device, and its distance is unknown' '
    log 2.28.9 --direct >nccl.log && grep -q mlx5_0_dma:1 nccl.log && against 0 nccl.log && row mlx5_0:1 verdict=same -- \
        "GPU 0 sends by" verdict=same nccl=mlx5_0_dma -- "GPU 0 and mlx5_0_dma" nccl=direct &&
    log 2.28.9 --direct --far >nccl.log && against 0 nccl.log && row "GPU 0 sends by" verdict=unknown &&
    log 2.28.9 --direct --without mlx5_3 >nccl.log && against 1 nccl.log && row mlx5_3:1 verdict=differs &&
    log --xml --direct --pix >t.xml && against 0 t.xml && row mlx5_3:1 verdict=same -- "GPU 7 and mlx5_11" verdict=unknown
'
test_expect 'no GPUDirect RDMA' '
    log 2.28.9 --nogdr >nccl.log && against 1 nccl.log && row "GPUDirect RDMA on mlx5_0" verdict=differs -- \
        "GPU 0 and mlx5_0" verdict=differs "nccl=host memory"
'

# ---- the job's own settings
test_expect 'variables of the log are followed: a filter explains a missing port' '
    log 2.28.9 --without mlx5_3 --set NCCL_IB_HCA=^=mlx5_3 >nccl.log && against 0 nccl.log && row mlx5_3:1 verdict=same "nccl=not used" && table 0 nccl.log && grep -q " 0 different" out &&
    grep -q "Followed from the log: NCCL_IB_HCA=^=mlx5_3" out
'
test_expect 'numbers are said with a full stop: NCCL_IB_DISABLE' '
    log 2.28.9 --network Socket --set NCCL_IB_DISABLE=1 >nccl.log && against 0 nccl.log && row "between machines" verdict=same nccl=Socket && grep -q "\"value\": \"1\"" json
'
test_expect 'the version is the log'"'"'s: what another NCCL does is no difference' '
    log 2.28.9 >nccl.log && against 0 nccl.log && row NCCL verdict=unknown nccl=2.28.9 stoker=2.21.5 &&
    log 2.21.5 >nccl.log && against 0 nccl.log && row NCCL verdict=same
'

# ---- what the log does not say
test_expect 'a log that ends early: unknown, exit 0' '
    log 2.28.9 | head -4 >nccl.log && against 0 nccl.log && row mlx5_0:1 verdict=same -- \
        "between machines" verdict=unknown
'
test_expect 'a log of several hosts: this one'"'"'s lines, or those of --host' '
    log 2.28.9 --other dgx-02 --other dgx-03 >nccl.log && against 0 nccl.log && row mlx5_0:1 verdict=same &&
    log 2.28.9 --other dgx-02 --host renamed >nccl.log && against 2 nccl.log && grep -q -- "--host" err &&
    against 0 nccl.log --host renamed && row mlx5_0:1 verdict=same && against 1 nccl.log --host dgx-02 &&
    against 2 nccl.log --host nobody
'
test_expect 'a log of one host under another name (a masked capture) needs no --host' '
    log 2.28.9 --host somewhere >nccl.log && against 0 nccl.log && row mlx5_0:1 verdict=same
'
test_expect 'no log, no file, no XML' '
    echo hello >nccl.log && ! stoker detect --root "$dgx" --against nccl.log 2>err && grep -q "NCCL_DEBUG=INFO" err &&
    { stoker detect --root "$dgx" --against nowhere 2>err; test $? = 3; } &&
    echo "<system><cpu>" >t.xml && ! stoker detect --root "$dgx" --against t.xml 2>err &&
    grep -q "line 2, column 1" err && echo "<html></html>" >t.xml &&
    ! stoker detect --root "$dgx" --against t.xml 2>err && grep -q NCCL_TOPO_DUMP_FILE err
'
test_expect 'options: --host alone, two outputs' '
    ! stoker detect --host x 2>err && grep -q -- "--against" err &&
    ! stoker detect --against x --topo 2>err && grep -q "two different outputs" err
'

# ---- NCCL_TOPO_DUMP_FILE
test_expect 'a topology: all as predicted, exit 0' '
    log --xml >t.xml && against 0 t.xml && row "GPU 7 (0000:df:00.0)" verdict=same -- \
        "GPU 7 and mlx5_11" verdict=same nccl=PXB -- \
        "GPU 0 and mlx5_11" nccl=SYS verdict=same -- \
        "GPU 0 and mlx5_1" nccl=PHB verdict=same && row "GPU 0 NVLinks" verdict=same nccl=18 -- \
        "mlx5_2:1 Mb/s" verdict=same nccl=200000
'
test_expect 'a topology without a port' '
    log --xml --without mlx5_3 >t.xml && against 1 t.xml && row mlx5_3:1 verdict=differs
'
test_expect 'a topology with one switch less' '
    log --xml --pix >t.xml && against 1 t.xml && row "GPU 7 and mlx5_11" verdict=differs nccl=PIX stoker=PXB
'
test_expect 'a topology with a link down and the sockets changed' '
    log --xml --links 17 --numa >t.xml && against 1 t.xml && row "GPU 0 NVLinks" verdict=differs nccl=17 -- \
        "GPU 0 NUMA node" verdict=differs nccl=1
'
test_expect 'a topology of fewer ranks than GPUs: the others are not spoken of' '
    log --xml --gpus 2 >t.xml && stoker detect --root "$dgx" --against t.xml --json >json;
    ! grep -q "GPU 5" json
'
# Log and topology that NCCL 2.28.9 wrote on the machine that h200-vm is a capture of.
for kind in log xml; do
    test_expect "a real run on an H200, its $kind: nothing differs" '
        dgx=$TMP/tars/h200-vm.tar && against 0 "$TOP/tests/fixtures/nccl/h200-2.28.9.'$kind'" &&
        row "between machines" verdict=same nccl=Socket -- eth0 verdict=same stoker=used nccl=used
    '
done
test_done

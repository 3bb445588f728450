#!/bin/sh
# SPDX-License-Identifier: MIT
# Captured machines: what `stoker detect` says of each, in every form it can say it.
# tests/machines/README.md tells what they are; UPDATE_GOLDEN=1 rewrites the golden
# files (`UPDATE_GOLDEN=1 tests/cli/machines.t`), MACHINES="a b" takes only these.
. "$(dirname "$0")/lib.sh"

build="$TOP/tests/machines/build.py"
facts="$TOP/tests/machines/facts.py"
rows="$TOP/tests/machines/rows.py"
picture="$TOP/tests/machines/picture.py"
fake="$BUILD/tests/libfakenvml.so"
tars=$TMP/tars
limit_s=2
case "$BUILD" in */thread | */address | *-address | *-thread) limit_s=20 ;; esac # a sanitizer is slow
# folders of thousands of small files: memory is ten times as fast as a disk
dirs=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$TMP" "$dirs"' EXIT

"$build" "$tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}
all=$("$build" --list | cut -d' ' -f1)
machines=${MACHINES:-$all}

has() {
    case " $(echo $machines) " in *" $1 "*) ;; *) return 1 ;; esac
}

# say NAME FORM ARG...: detect's answer as NAME.FORM, its exit status as the last line
# where that is part of the answer.
say() {
    name=$1 form=$2
    shift 2
    stoker detect --root "$tars/$name.tar" "$@" >"$name.$form" 2>"$name.err"
    status=$?
    cat "$name.err"
    case $form in
    check-*) echo "exit $status" >>"$name.$form" ;;
    *) test "$status" = 0 ;;
    esac
}

# A pod's variants are told by what differs from the pod, form by form.
like_of() {
    case $1 in openshift-init | openshift-memlock) echo openshift-roce ;; esac
}

# answer NAME FORM ARG...: as say, and NAME.inventory.txt has the inventory as rows
answer() {
    say "$@" || return
    test "$2" != inventory.json || "$rows" "$1.$2" >"$1.inventory.txt"
}

same() {
    of=$1 said=$2 shown=$2 like=$(like_of "$1")
    test "$said" != inventory.json || shown=inventory.txt
    answer "$@" || return
    if [ -z "$like" ]; then
        golden "$of.$shown" "machines/$of/$shown"
        return
    fi
    shift 2
    answer "$like" "$said" "$@" && diff -U0 "$like.$shown" "$of.$shown" | sed '/^---/d; /^+++/d; /^@@/d' >"$of.changes"
    golden "$of.changes" "machines/$of/beside-$like/$shown"
}

# exported FILE NAME: the value that a shell gets from the file, empty when unset.
exported() {
    env -i PATH="$PATH" sh -c '. "./$1" && eval "printf %s \"\${$2-}\""' sh "$1" "$2"
}

is() {
    got=$(exported "$1" "$2")
    test "$got" = "$3" || {
        echo "$2 is '$got', expected '$3'"
        return 1
    }
}

driver_gpus() {
    tar -xOf "$tars/$1.tar" stoker/nvml.json >"$1.nvml.json" 2>/dev/null &&
        python3 -c 'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["gpus"])' \
            "$1.nvml.json" 2>/dev/null
}

# ---- every machine, every form
for m in $machines; do
    test_expect "$m: inventory" "same $m inventory.json --json"
    test_expect "$m: page" "same $m page.txt"
    test_expect "$m: matrix" "same $m topo.txt --topo"
    test_expect "$m: smallest environment" "same $m env.sh --env"
    test_expect "$m: full environment" "same $m env-full.sh --env=full"
    for group in gpu rdma training container; do
        test_expect "$m: check $group" "same $m check-$group.txt --check $group"
    done
    test_expect "$m: picture" "say $m svg.log --svg $m.svg"
    case $m in
    # looked at when they were new: NVSwitches, the NVLink domain of a tray, MIG; the hostile one
    dgx-h100 | gb200 | mig-h200 | hostile)
        test_expect "$m: the picture is what was looked at" "golden $m.svg machines/$m/picture.svg" ;;
    esac
    test "$m" = hostile || test_expect "$m: the picture shows what the inventory has" "
        $picture $m.inventory.json $m.svg
    "
    test_expect "$m: the picture is well-formed XML" "
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' $m.svg
    "
    test_expect "$m: a folder says the same as a tar" "
        $build --dir $dirs $m && stoker detect --root $dirs/$m --json >$m.dir.json &&
        diff -u $m.inventory.json $m.dir.json
    "
    rm -rf "${dirs:?}/$m"
    if driver_gpus "$m"; then
        test_expect "$m: the driver's library says the same as the capture" "
            STOKER_NVML_LIB=$fake FAKE_NVML_JSON=\$PWD/$m.nvml.json \
                stoker detect --root $tars/$m.tar --json >$m.fake.json &&
            diff -u $m.inventory.json $m.fake.json
        "
    fi
done

# the bytes themselves, of a small one: names, order, numbers, spaces
if has mig-h200; then
    test_expect "mig-h200: JSON, byte for byte" "golden mig-h200.inventory.json machines/mig-h200/inventory.json"
fi

# ---- what must hold whatever the golden files say
for m in $machines; do
    "$facts" "$m" >"$TMP/titles"
    n=0
    while IFS= read -r title; do
        n=$((n + 1))
        test_expect "$m: $title" "$facts $m $n $m.inventory.json"
    done <"$TMP/titles"
done

m=openshift-roce
if has $m; then
    test_expect "$m: full environment pins what the tree says" "
        is $m.env-full.sh GPUS_PER_NODE 4 && is $m.env-full.sh OMP_NUM_THREADS 16 &&
        is $m.env-full.sh NCCL_IB_GID_INDEX 3 && is $m.env-full.sh NCCL_P2P_LEVEL NVL &&
        is $m.env-full.sh NCCL_SOCKET_IFNAME =eth0 && is $m.env-full.sh NCCL_IB_DISABLE 0 &&
        is $m.env-full.sh NCCL_IB_HCA =mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1
    "
    test_expect "$m: the GDR level is a name and enough for PIX" "
        exported $m.env-full.sh NCCL_NET_GDR_LEVEL | grep -qxE 'PIX|PXB'
    "
    test_expect "$m: transport is rdma" "
        grep -qiE '^export [A-Z_]*TRANSPORT=rdma$' $m.env-full.sh
    "
    test_expect "$m: UCX is told the same devices" "
        exported $m.env-full.sh UCX_NET_DEVICES | grep -q 'mlx5_6:1' &&
        ! exported $m.env-full.sh UCX_NET_DEVICES | grep -q 'mlx5_7:1'
    "
    test_expect "$m: the smallest environment is smaller" "
        test \$(grep -c ^export $m.env.sh) -lt \$(grep -c ^export $m.env-full.sh) &&
        is $m.env.sh NCCL_P2P_LEVEL '' && is $m.env.sh NCCL_IB_GID_INDEX ''
    "
    test_expect "$m: every line has its reason above it" "
        awk '/^export/ { if (last !~ /^#/) bad = 1 } { last = \$0 } END { exit bad }' \
            $m.env.sh $m.env-full.sh
    "
fi

m=openshift-init
if has $m; then
    test_expect "$m: it cannot know how many GPUs the job will have, and writes no 0" "
        is $m.env-full.sh GPUS_PER_NODE '' && is $m.env-full.sh OMP_NUM_THREADS '' &&
        grep -q '^#.*GPUS_PER_NODE' $m.env-full.sh &&
        ! grep -qE '^export (GPUS_PER_NODE|OMP_NUM_THREADS)=' $m.env-full.sh
    "
    test_expect "$m: what the network tells is the same as in the job" "
        is $m.env-full.sh NCCL_IB_GID_INDEX 3 && is $m.env-full.sh NCCL_SOCKET_IFNAME =eth0 &&
        is $m.env-full.sh NCCL_IB_HCA =mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1
    "
fi

m=openshift-memlock
if has $m; then
    test_expect "$m: 8 MiB of locked memory fails the RDMA check" "
        grep -qi 'fail.*locked memory' $m.check-rdma.txt
    "
fi

m=dgx-h100
if has $m; then
    test_expect "$m: a GID is not pinned on InfiniBand" "
        is $m.env.sh NCCL_IB_GID_INDEX '' && is $m.env-full.sh NCCL_IB_GID_INDEX ''
    "
fi

m=a100-pcie
if has $m; then
    test_expect "$m: no RDMA device is named, nothing exports one" "
        is $m.env-full.sh NCCL_IB_HCA '' && is $m.env-full.sh NCCL_SOCKET_IFNAME =enp161s0f0
    "
fi

m=gpu-lost
if has $m; then
    test_expect "$m: the GPU check fails and names it" "
        grep -qi 'fail' $m.check-gpu.txt && grep -q '5d:00.0\|GPU 3' $m.check-gpu.txt
    "
fi

m=cloud-efa
if has $m; then
    test_expect "$m: no InfiniBand variable is set for EFA" "
        is $m.env.sh NCCL_IB_HCA '' && is $m.env-full.sh NCCL_IB_HCA '' &&
        is $m.env-full.sh NCCL_IB_GID_INDEX ''
    "
fi

m=roce-ipv6
if has $m; then
    test_expect "$m: NCCL must be told that the fabric is IPv6" "
        is $m.env.sh NCCL_IB_ADDR_FAMILY AF_INET6
    "
fi

m=ib-roce-mixed
if has $m; then
    test_expect "$m: exact names keep mlx5_1 out and mlx5_10 in" "
        is $m.env-full.sh NCCL_IB_HCA =mlx5_0:1,mlx5_2:1,mlx5_10:1,mlx5_11:1
    "
fi

# ---- a machine made to break its readers
m=hostile
if has $m; then
    for form in --json '' --topo --env --env=full '--check all' '--svg hostile.svg'; do
        test_expect "$m: detect $form ends in time, without a report of a fault" "
            timeout $limit_s $BUILD/stoker detect --root $tars/$m.tar $form >out 2>err
            status=\$?; cat err
            case '$form' in --check*) test \$status -lt 124 ;; *) test \$status = 0 ;; esac &&
            ! grep -qE 'Sanitizer|runtime error' err
        "
        test_expect "$m: detect $form prints text and no control characters" "
            python3 -c '
import sys
text = open(\"out\", \"rb\").read().decode(\"utf-8\")
sys.exit(any(ord(c) < 32 and c not in \"\n\t\" or ord(c) == 127 for c in text))'
        "
    done
    test_expect "$m: its JSON is a document" "python3 -m json.tool $m.inventory.json >/dev/null"
    test_expect "$m: its environment runs nothing" "
        for f in $m.env.sh $m.env-full.sh; do
            (cd '$TMP' && env -i PATH=\"\$PATH\" sh -c '. ./\$0' \$f) || exit 1
        done
        test ! -e '$TMP/pwned'
    "
    test_expect "$m: a file of 1 GiB costs nothing" "
        $build --dir --large large $m &&
        timeout $limit_s $BUILD/stoker detect --root large/$m --json >large.json
    "
    rm -rf "$TMP/large"
fi

# ---- the text form in which captures are kept
test_expect 'machine: every tree comes back the same from its text' "
    '$TOP/tools/machine' check $tars/mig-h200.tar $tars/hostile.tar
"
test_expect 'machine: the same sources give the same bytes' "
    $build again mig-h200 openshift-roce && cmp again/mig-h200.tar $tars/mig-h200.tar &&
    cmp again/openshift-roce.tar $tars/openshift-roce.tar
"
test_expect 'machine: a broken text is refused with its line' "
    printf '# x\nfile /a <<EOF\nb\n' >bad.txt &&
    ! '$TOP/tools/machine' to-tar bad.txt bad.tar 2>err && grep -q '^bad.txt:3: ' err
"
test_done

#!/bin/sh
# Labels, taints and MIG of the machines; names are the spec's, as `oc get nodes` has them.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
#   sh label.sh [GROUP...]          print what machines of GROUP (none: all) are given
#   sh label.sh --apply [GROUP...]  do it, as an administrator of the cluster
set -eu
apply=false
if [ "${1-}" = --apply ]; then
    apply=true
    shift
fi
# the command as a shell takes it
show() (
    line=
    for w; do
        case "$w" in
        '' | *[!A-Za-z0-9_./:@=,%+-]*)
            w="'$(printf '%s' "$w" | sed "s/'/'\\\\''/g")'"
            ;;
        esac
        line="$line${line:+ }$w"
    done
    printf '%s\n' "$line"
)
run() {
    if $apply; then
        "$@"
    else
        printf '+ '
        show "$@"
    fi
}

# gpu: nodes[0].name
machine_0() {
    run oc label node --overwrite "$1" stoker/group=gpu node-type=gpu
    run oc adm taint node --overwrite "$1" nvidia.com/gpu=present:NoSchedule
}
group_0() {
    machine_0 gpu1
    machine_0 gpu2
    machine_0 gpu3
    machine_0 gpu4
    machine_0 gpu5
    machine_0 gpu6
    machine_0 gpu7
    machine_0 gpu8
    machine_0 gpu9
    machine_0 gpu10
    machine_0 gpu11
    machine_0 gpu12
    machine_0 gpu13
    machine_0 gpu14
    machine_0 gpu15
    machine_0 gpu16
    machine_0 gpu17
    machine_0 gpu18
    machine_0 gpu19
    machine_0 gpu20
    machine_0 gpu21
    machine_0 gpu22
    machine_0 gpu23
    machine_0 gpu24
    machine_0 gpu25
    machine_0 gpu26
    machine_0 gpu27
    machine_0 gpu28
    machine_0 gpu29
    machine_0 gpu30
    machine_0 gpu31
    machine_0 gpu32
    machine_0 gpu33
    machine_0 gpu34
    machine_0 gpu35
    machine_0 gpu36
    machine_0 gpu37
    machine_0 gpu38
    machine_0 gpu39
    machine_0 gpu40
    machine_0 gpu41
    machine_0 gpu42
    machine_0 gpu43
    machine_0 gpu44
    machine_0 gpu45
    machine_0 gpu46
    machine_0 gpu47
    machine_0 gpu48
    machine_0 gpu49
    machine_0 gpu50
    machine_0 gpu51
    machine_0 gpu52
    machine_0 gpu53
    machine_0 gpu54
    machine_0 gpu55
    machine_0 gpu56
    machine_0 gpu57
    machine_0 gpu58
    machine_0 gpu59
    machine_0 gpu60
    machine_0 gpu61
    machine_0 gpu62
    machine_0 gpu63
    machine_0 gpu64
}
# spot: nodes[1].name
machine_1() {
    run oc label node --overwrite "$1" stoker/group=spot
}
group_1() {
    machine_1 spot1
    machine_1 spot2
    machine_1 spot3
    machine_1 spot4
    machine_1 spot5
    machine_1 spot6
    machine_1 spot7
    machine_1 spot8
}
# login: nodes[2].name
machine_2() {
    run oc label node --overwrite "$1" stoker/group=login
}
group_2() {
    machine_2 login1
    machine_2 login2
}
# ctl: nodes[3].name
machine_3() {
    run oc label node --overwrite "$1" stoker/group=ctl
}
group_3() {
    machine_3 ctl1
    machine_3 ctl2
}
if [ $# = 0 ]; then
    group_0
    group_1
    group_2
    group_3
fi
for group; do
    case "$group" in
    gpu) group_0 ;;
    spot) group_1 ;;
    login) group_2 ;;
    ctl) group_3 ;;
    *)
        echo "label.sh: no node group '$group'" >&2
        exit 2
        ;;
    esac
done

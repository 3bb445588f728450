#!/bin/sh
# Labels, taints and MIG of the machines; names are the spec's, as `oc get nodes` has them.
# Written by 'stoker render' from stoker.yaml, site ai-platform; change that file and render again.
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

# h200: nodes[0].name
machine_0() {
    run oc label node --overwrite "$1" stoker/group=h200
}
group_0() {
    machine_0 h2001
}
if [ $# = 0 ]; then
    group_0
fi
for group; do
    case "$group" in
    h200) group_0 ;;
    *)
        echo "label.sh: no node group '$group'" >&2
        exit 2
        ;;
    esac
done

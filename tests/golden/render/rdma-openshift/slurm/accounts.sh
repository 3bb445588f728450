#!/bin/bash
# accounts.sh: cluster, QOS, accounts and users; run it as root, again and again.
# Written by 'stoker render' from stoker.yaml, site rdma; change that file and render again.
set -u
failed=0

# sacctmgr fails when there is nothing to do; that is no failure here.
run() {
    local said
    if said=$(sacctmgr -i "$@" 2>&1); then
        printf 'sacctmgr -i %s\n' "$*"
        return
    fi
    case $said in
    *'Nothing modified'* | *'Nothing new added'* | *'already exist'*) ;;
    *)
        printf 'sacctmgr -i %s: %s\n' "$*" "$said" >&2
        failed=1
        ;;
    esac
}

cluster=cluster # default
run add cluster "$cluster"

exit $failed

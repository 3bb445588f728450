#!/bin/bash
# accounts.sh: cluster, QOS, accounts and users; run it as root, again and again.
# Written by 'stoker render' from stoker.yaml, site kb; change that file and render again.
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
    *'Nothing modified'* | *'Nothing new added'* | *'lready exist'*) return ;;
    *"Request didn't affect anything"*)
        # Slurm 24.11: a user who is there, or an account that is not
        if [ "$1 $2" = 'add user' ] &&
            found=$(sacctmgr -nP show assoc where user="$3" "${@:4}" format=user) &&
            [ -n "$found" ]; then
            return
        fi
        ;;
    esac
    printf 'sacctmgr -i %s: %s\n' "$*" "$said" >&2
    failed=1
}

cluster=cluster # default
run add cluster "$cluster"

exit $failed

#!/bin/bash
# accounts.sh: cluster, QOS, accounts and users; run it as root, again and again.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
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

# preempts QOS LIST: is that what it has?  Slurm takes a list that is there for a loop.
preempts() {
    [ "$(sacctmgr -nP show qos "$1" format=preempt | tr , '\n' | sort)" = \
        "$(printf '%s' "$2" | tr , '\n' | sort)" ]
}

# clear_list QOS LIST OTHER: empty unless it is LIST.  Slurm 22.05 takes a list that was
# emptied for a loop until one that is not in it is taken out of it.
clear_list() {
    if preempts "$1" "$2"; then
        [ -z "$2" ] || return 0
    elif ! preempts "$1" ''; then
        run modify qos where name="$1" set Preempt=''
    fi
    sacctmgr -i modify qos where name="$1" set Preempt-="$3" >/dev/null 2>&1 || :
}

cluster=llm # targets.slurm.cluster
run add cluster "$cluster"

# --- QOS: all of them first, since they name each other ---
run add qos high # targets.slurm.qos.high
run add qos normal # targets.slurm.qos.normal
run add qos low # targets.slurm.qos.low
# priority targets.slurm.qos.high.priority, GraceTime targets.slurm.qos.high.grace, limits of a user none
run modify qos where name=high set Priority=1000 GraceTime=300 MaxTRESPerUser=gres/gpu=-1 MaxJobsPerUser=-1 MaxWall=-1
# priority targets.slurm.qos.normal.priority, GraceTime default, limits of a user targets.slurm.qos.normal.max_gpus
run modify qos where name=normal set Priority=500 GraceTime=120 MaxTRESPerUser=gres/gpu=128 MaxJobsPerUser=-1 MaxWall=-1
# priority targets.slurm.qos.low.priority, GraceTime targets.slurm.qos.high.grace, limits of a user none
run modify qos where name=low set Priority=100 GraceTime=300 MaxTRESPerUser=gres/gpu=-1 MaxJobsPerUser=50 MaxWall=-1
clear_list high low normal
clear_list normal '' high
clear_list low '' high
preempts high low || run modify qos where name=high set Preempt=low # targets.slurm.qos.high.preempts

# --- accounts ---
run add account foundation cluster="$cluster" # targets.slurm.accounts.foundation
run modify account where name=foundation cluster="$cluster" set Fairshare=60 GrpTRES=gres/gpu=-1 # targets.slurm.accounts.foundation.share, no limit
run modify account where name=foundation cluster="$cluster" set QOS=high,normal # targets.slurm.accounts.foundation.qos
run modify account where name=foundation cluster="$cluster" set DefaultQOS=normal # of jobs that name none
run add account research cluster="$cluster" # targets.slurm.accounts.research
run modify account where name=research cluster="$cluster" set Fairshare=40 GrpTRES=gres/gpu=256 # targets.slurm.accounts.research.share, targets.slurm.accounts.research.max_gpus
run modify account where name=research cluster="$cluster" set QOS=normal,low # targets.slurm.accounts.research.qos
run modify account where name=research cluster="$cluster" set DefaultQOS=normal # of jobs that name none

# --- users: the first account is their default ---
run add user alice account=foundation cluster="$cluster" # targets.slurm.accounts.foundation.users[0]
run modify user where name=alice cluster="$cluster" set DefaultAccount=foundation
run add user bob account=foundation cluster="$cluster" # targets.slurm.accounts.foundation.users[1]
run modify user where name=bob cluster="$cluster" set DefaultAccount=foundation
run add user carol account=research cluster="$cluster" # targets.slurm.accounts.research.users[0]
run modify user where name=carol cluster="$cluster" set DefaultAccount=research
run add user dan account=research cluster="$cluster" # targets.slurm.accounts.research.users[1]
run modify user where name=dan cluster="$cluster" set DefaultAccount=research

exit $failed

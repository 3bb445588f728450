#!/bin/bash
# suspend.sh: stops machines, by slurmctld as user slurm.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
log=/var/log/slurm/power.log # default
program=/opt/site/bin/spot-stop # targets.slurm.power_save.suspend_program

# start PROGRAM HOST...: with the signals unblocked that slurmctld blocks
# shellcheck disable=SC2016 # the inner shell expands it
start() { env --default-signal bash -c 'exec "$0" "$@"' "$@" >>"$log" 2>&1; }

say() { printf '%s %s: %s\n' "$(date '+%F %T')" "$0" "$*" >>"$log"; }

list=${1:?usage: $0 HOSTLIST}
mapfile -t hosts < <(scontrol show hostnames "$list")
if [ ${#hosts[@]} = 0 ]; then
    say "no hosts in '$list'"
    exit 1
fi
say "stopping ${hosts[*]}"
start "$program" "${hosts[@]}"
rc=$?
if [ $rc = 0 ]; then
    say "stopped ${hosts[*]}"
    exit 0
fi
# They may still run and cost money, and nobody would know: say so where it is seen.
say "$program failed with status $rc: ${hosts[*]} may still be running"
scontrol update nodename="$list" state=drain reason="stoker: suspend failed ($rc), may still be running" >>"$log" 2>&1
exit 1

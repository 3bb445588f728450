#!/bin/bash
# resume.sh: starts machines, by slurmctld as user slurm.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
log=/var/log/slurm/power.log # default
program=/opt/site/bin/spot-start # targets.slurm.power_save.resume_program

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
say "starting ${hosts[*]}"
start "$program" "${hosts[@]}"
rc=$?
if [ $rc = 0 ]; then
    say "asked for ${hosts[*]}"
    exit 0
fi
# Down first: jobs that wait for these machines go elsewhere now instead of after
# ResumeTimeout.  Powered down then: suspend.sh removes what was half started, and
# the machines can be asked for again.
say "$program failed with status $rc: ${hosts[*]} did not start"
scontrol update nodename="$list" state=down reason="stoker: resume failed ($rc)" >>"$log" 2>&1
scontrol update nodename="$list" state=power_down >>"$log" 2>&1
exit 1

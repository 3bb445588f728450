#!/bin/bash
# resumefail.sh: machines that did not come up in ResumeTimeout, by slurmctld.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
log=/var/log/slurm/power.log # default

say() { printf '%s %s: %s\n' "$(date '+%F %T')" "$0" "$*" >>"$log"; }

list=${1:?usage: $0 HOSTLIST}
mapfile -t hosts < <(scontrol show hostnames "$list")
if [ ${#hosts[@]} = 0 ]; then
    say "no hosts in '$list'"
    exit 1
fi
# They are 'down~' now and stay so unless they are powered down, which runs
# suspend.sh and makes them eligible again.
say "${hosts[*]} did not come up in time: powering down"
scontrol update nodename="$list" state=power_down >>"$log" 2>&1

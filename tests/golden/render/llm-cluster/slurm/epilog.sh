#!/bin/bash
# epilog.sh: after a job on a machine, by slurmd as root.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname -s)}

# among LIST: is this machine one of them?  Asks nobody.
among() { scontrol show hostnames "$1" | grep -qxF -- "$node"; }

# What this machine must have, by its group.
checks() {
    ! among 'gpu[1-64]' || echo 'gpu,rdma' # gpu, nodes[0].name
    ! among 'spot[1-8]' || echo 'gpu' # spot, nodes[1].name
    return 0
}

# Drains this machine with a reason, unless it is drained already: the first reason counts.
drain() {
    logger -t stoker "$node: $1"
    case "$(sinfo -h -N -n "$node" -o %T 2>/dev/null | head -n 1)" in
    *drain*) return 0 ;;
    esac
    scontrol update nodename="$node" state=drain reason="$1"
}

# check WHEN: 0 when the machine is well or cannot be judged, else it is drained.
check() {
    local want report rc why
    want=$(checks)
    [ -n "$want" ] || return 0
    if ! command -v stoker >/dev/null; then
        logger -t stoker "$node: stoker is not installed, nothing was checked"
        return 0
    fi
    report=$(timeout -k 5 45 stoker detect --check "$want" 2>&1)
    rc=$?
    case $rc in
    0) return 0 ;;
    1) why=$(printf '%s\n' "$report" | sed -n '/^ *FAIL  */{s///;s/  */ /g;p;q}') ;;
    124 | 137) why='no answer in 45 s' ;;
    *)
        logger -t stoker "$node: stoker detect exited with $rc: ${report:0:200}"
        return 0
        ;;
    esac
    why=${why//\"/}
    drain "stoker $1: ${why:-a check failed}"
    return 1
}

# The next job must not find what this one broke.
[ -n "${SLURM_JOB_GPUS:-}${CUDA_VISIBLE_DEVICES:-}" ] || exit 0
check epilog
exit 0

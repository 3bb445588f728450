#!/bin/sh
# Starts one pod's part of a run: launch.sh COMMAND [ARGUMENT...]
# STOKER_NODES (N, or MIN:MAX), STOKER_GPUS, STOKER_LAUNCHER, STOKER_MASTER, STOKER_PORT,
# STOKER_TIMEOUT, STOKER_HOLD and STOKER_WORKDIR come from the manifest.
set -eu
say() { echo "launch: $*" >&2; }
# shellcheck source=data/render/hold.sh
. "${0%/*}/hold.sh"
[ -z "${STOKER_WORKDIR:-}" ] || cd "$STOKER_WORKDIR" # the pod of a TrainJob has no workingDir

# The number of this pod: of a StatefulSet's label, of an indexed Job or JobSet, of Trainer,
# of the training operator, else the end of the pod's name.
rank=${STOKER_RANK:-${JOB_COMPLETION_INDEX:-${PET_NODE_RANK:-${RANK:-}}}}
if [ -z "$rank" ]; then
    rank=$(hostname)
    rank=${rank##*-}
fi
case "$rank" in '' | *[!0-9]*) rank=0 ;; esac
nodes=${STOKER_NODES:-1}
gpus=${STOKER_GPUS:-0}
[ "$gpus" -gt 0 ] || gpus=1
port=${STOKER_PORT:-29500}
master=${STOKER_MASTER:-${PET_MASTER_ADDR:-${MASTER_ADDR:-localhost}}}
[ "$nodes" != 1 ] || master=localhost
export MASTER_ADDR="$master" MASTER_PORT="$port" NODE_RANK="$rank" NNODES="$nodes"

# The first pod's name appears a moment after it starts.
left=${STOKER_TIMEOUT:-600}
while [ "$master" != localhost ] && command -v getent >/dev/null 2>&1 &&
    ! getent hosts "$master" >/dev/null; do
    if [ "$left" -le 0 ]; then
        say "no address for $master after ${STOKER_TIMEOUT:-600} s"
        exit 1
    fi
    sleep 2
    left=$((left - 2))
done

# What NCCL would not find itself; a variable that is set already wins. An init container
# brings stoker where the image has none.
PATH=$PATH:/opt/stoker-bin
if command -v stoker >/dev/null 2>&1; then
    settings=$(stoker detect --env) || settings=
    eval "$settings"
else
    say "no stoker in this image: NCCL chooses for itself"
fi

say "rank $rank of $nodes, first pod $master:$port"
if [ "${STOKER_LAUNCHER:-none}" != torchrun ]; then
    case "$nodes" in
    *:*) ;;
    *) # a torchrun that the command starts itself reads these
        export PET_NNODES="$nodes" PET_NODE_RANK="$rank" PET_NPROC_PER_NODE="$gpus"
        export PET_MASTER_ADDR="$master" PET_MASTER_PORT="$port"
        ;;
    esac
    run "$@"
fi
first=false
[ "$rank" != 0 ] || first=true
case "$nodes" in
*:*) # pods come and go: whoever is there forms the run anew
    options="--rdzv-backend=c10d --rdzv-endpoint=$master:$port --rdzv-id=stoker"
    options="$options --rdzv-conf=is_host=$first,join_timeout=${STOKER_TIMEOUT:-600}"
    options="$options --max-restarts=${STOKER_RESTARTS:-3}"
    ;;
*) options="--node-rank=$rank --master-addr=$master --master-port=$port" ;;
esac
program=$1
case "${program##*/}" in
python | python3 | python3.*) # this Python's torchrun
    case "${2-}" in
    *.py | -m) shift ;;
    *) set -- --no-python "$@" ;; # options of Python's own, such as -u
    esac
    # shellcheck disable=SC2086 # options hold no blanks of their own
    run "$program" -m torch.distributed.run --nnodes="$nodes" \
        --nproc-per-node="$gpus" $options "$@"
    ;;
torchrun) # what it is told counts, behind ours
    shift
    # shellcheck disable=SC2086
    run "$program" --nnodes="$nodes" --nproc-per-node="$gpus" $options "$@"
    ;;
*.py | -m) # a script or a module: torchrun starts Python for it
    # shellcheck disable=SC2086
    run torchrun --nnodes="$nodes" --nproc-per-node="$gpus" $options "$@"
    ;;
*)
    # shellcheck disable=SC2086
    run torchrun --no-python --nnodes="$nodes" --nproc-per-node="$gpus" $options "$@"
    ;;
esac

#!/bin/sh
# launcher: starts a program on one pod of several, which find each other by their names.
#
#   launcher.sh PROGRAM [ARGUMENT...]
#
# The pod's name gives the rank: trainer-2 of a StatefulSet, or of an indexed Job, is rank 2.  Rank 0
# is where they meet: trainer-0.SERVICE.NAMESPACE.svc, a name of the headless service that is there
# before any pod is ready.
#
# How many there are is never written down: STOKER_NODES is the least and the most ("1:6"), and the
# elastic rendezvous of torchrun takes those that come, starts again with more when pods are added,
# and with fewer when they are gone.  So the replica count alone decides.  (Asking the API server
# for it would need a token and a role in every training pod, and still a watch to notice changes.)
# torchrun numbers nodes in the order of the addresses they give; they give their names, so that
# ranks follow the pods' numbers (as text: with more than ten pods, 10 comes before 2).
#
# What NCCL needs is detected here, in the container that has the GPUs and RDMA devices; a variable
# that is set already wins, and nothing is set that detection leaves unset.
#
#   STOKER_SERVICE, POD_NAMESPACE   where the names are       STOKER_PORT       of the rendezvous
#   STOKER_NODES     "MIN:MAX" or "N"; 1: alone               STOKER_JOIN_S     to wait for the others
#   STOKER_GPUS      GPUs this pod should have                STOKER_RESTARTS   of failed workers
#   STOKER_LAUNCH    torchrun, or exec: the program itself    STOKER_RDMA       1: check RDMA first
#   STOKER_HOLD      1: when all is done, wait to be scaled down instead of starting over
#   STOKER_LAST_CALL_S  after the least are there, for more
set -eu

say() { printf 'launcher: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# shellcheck source=data/render/hold.sh
. "${0%/*}/hold.sh"

# number NAME VALUE
number() {
    case $2 in '' | *[!0-9]*) die "$1 is '$2', which is no number" ;; esac
}

[ $# -gt 0 ] || die "no program to start"

nodes=${STOKER_NODES:-1}
least=${nodes%%:*}
most=${nodes##*:}
number STOKER_NODES "$least"
number STOKER_NODES "$most"
port=${STOKER_PORT:-29500}
number STOKER_PORT "$port"
join=${STOKER_JOIN_S:-600}
number STOKER_JOIN_S "$join"

# ---- who this is
# shellcheck disable=SC3028 # every container runtime sets it
host=${HOSTNAME:-$(hostname)}
host=${host%%.*}
if [ "$most" = 1 ]; then
    rank=0 here=127.0.0.1 first=127.0.0.1 group=${host%-*}
else
    : "${STOKER_SERVICE:?the headless service is not named}"
    : "${POD_NAMESPACE:?the namespace is not named}"
    group=${host%-*}
    rank=${host##*-}
    case $rank in
    '' | *[!0-9]*) die "the pod '$host' has no number at its end: it is of no StatefulSet or indexed Job" ;;
    esac
    [ "$rank" -lt "$most" ] || die "'$host' is beyond the $most nodes of STOKER_NODES: raise the most in the spec"
    domain=$STOKER_SERVICE.$POD_NAMESPACE.svc
    here=$host.$domain
    first=$group-0.$domain
fi

# ---- where rank 0 is; its name may come a little later than this pod
address() {
    getent hosts "$1" | { read -r a _ && printf '%s\n' "$a"; }
}
peer=
if [ "$rank" != 0 ]; then
    waited=0
    until peer=$(address "$first"); do
        [ "$waited" -lt "$join" ] || die "'$first' has no address after $join s: is the service there, and pod 0?"
        [ "$waited" != 0 ] || say "waiting for '$first'"
        sleep 2
        waited=$((waited + 2))
    done
fi

# ---- what is in this pod
# shellcheck disable=SC3045 # where the shell cannot, the check below says so
ulimit -l unlimited 2>/dev/null || true # what the hard limit allows; RDMA locks memory
PATH=$PATH:/opt/stoker-bin # an init container brings it where the image has none
command -v stoker >/dev/null || die "stoker is not in this image: its settings cannot be detected"
settings=$(stoker detect --env ${peer:+--peer "$peer"}) || die "stoker detect failed"
printf '%s\n' "$settings" >&2
eval "$settings"
# counts, which the smallest set leaves out: GPUs, and threads by the quota of the control group
counts=$(stoker detect --env=full ${peer:+--peer "$peer"} 2>/dev/null) || die "stoker detect failed"
count() { printf '%s\n' "$counts" | sed -n "s/^export $1=\([0-9][0-9]*\)\$/\1/p"; }
gpus=${GPUS_PER_NODE:-$(count GPUS_PER_NODE)}
threads=${OMP_NUM_THREADS:-$(count OMP_NUM_THREADS)}
if [ "${STOKER_GPUS:-0}" != 0 ] && [ "${gpus:-0}" != "$STOKER_GPUS" ]; then
    die "$STOKER_GPUS GPUs should be here, ${gpus:-none} can be seen: does this container ask for them?"
fi
[ -z "$threads" ] || export OMP_NUM_THREADS="$threads"
[ -z "$gpus" ] || export GPUS_PER_NODE="$gpus"
if [ "${STOKER_RDMA:-0}" = 1 ]; then
    stoker detect --check rdma,container >&2 || say "a check failed; see above for its remedy"
fi

# ---- the command
if [ "${STOKER_LAUNCH:-torchrun}" = exec ]; then
    # For programs that find each other by themselves, a torchrun of their own among them.
    if [ "$least" != "$most" ]; then
        most=$(getent ahostsv4 "$STOKER_SERVICE.$POD_NAMESPACE.svc" | sort -u | grep -c STREAM) || most=1
    fi
    export NODE_RANK="$rank" NNODES="$most" MASTER_ADDR="$first" MASTER_PORT="$port"
    export PET_NODE_RANK="$rank" PET_NNODES="$most" PET_MASTER_ADDR="$first" PET_MASTER_PORT="$port" # torchrun's names
    export PET_NPROC_PER_NODE="${gpus:-1}"
    say "node $rank of $most, rank 0 at $first:$port"
else
    program=$1
    case $program in
    *.py | -m) ;;
    torchrun | */torchrun) shift ;;
    python | python3)
        case ${2-} in
        *.py | -m) shift ;;
        *) set -- --no-python "$@" ;;
        esac
        ;;
    torchtitan)
        if command -v torchtitan >/dev/null; then
            set -- --no-python "$@"
        else
            shift
            set -- -m torchtitan.train "$@"
        fi
        ;;
    *) set -- --no-python "$@" ;;
    esac
    # Where agents share a store, who comes later waits in vain for the address of rank 0, which is
    # told in the first round alone (seen with PyTorch 2.15); without sharing every round tells it.
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE="${TORCH_DISABLE_SHARE_RDZV_TCP_STORE:-1}"
    hosts=0
    [ "$rank" != 0 ] || hosts=1
    conf="is_host=$hosts,join_timeout=$join,last_call_timeout=${STOKER_LAST_CALL_S:-30}"
    set -- torchrun --nnodes="$nodes" --nproc-per-node="${gpus:-1}" --max-restarts="${STOKER_RESTARTS:-3}" \
        --rdzv-backend=c10d --rdzv-id="$group" --rdzv-endpoint="$first:$port" --rdzv-conf="$conf" \
        --local-addr="$here" "$@"
    say "node $rank of $nodes, ${gpus:-no} GPUs, rendezvous at $first:$port"
fi

run "$@"

/* SPDX-License-Identifier: MIT */
/* kubernetes_launch: the script that starts a component's command on every pod of a run.
 *
 * It runs in the container that has the GPUs and NICs (an init container has neither), takes the
 * rank from whoever numbers the pods, waits until the first pod has a name, lets `stoker detect`
 * set what NCCL would not find by itself, and becomes the command. */
#include "render/kubernetes_int.h"

static const char LAUNCH[] =
    "#!/bin/sh\n"
    "# Starts one pod's part of a run: launch.sh COMMAND [ARGUMENT...]\n"
    "# STOKER_NODES (N, or MIN:MAX), STOKER_GPUS, STOKER_LAUNCHER, STOKER_MASTER, STOKER_PORT and\n"
    "# STOKER_TIMEOUT come from the manifest.\n"
    "set -eu\n"
    "say() { echo \"launch: $*\" >&2; }\n"
    "\n"
    "# The number of this pod: of a StatefulSet's label, of an indexed Job or JobSet, of Trainer,\n"
    "# of the training operator, else the end of the pod's name.\n"
    "rank=${STOKER_RANK:-${JOB_COMPLETION_INDEX:-${PET_NODE_RANK:-${RANK:-}}}}\n"
    "if [ -z \"$rank\" ]; then\n"
    "    rank=$(hostname)\n"
    "    rank=${rank##*-}\n"
    "fi\n"
    "case \"$rank\" in '' | *[!0-9]*) rank=0 ;; esac\n"
    "nodes=${STOKER_NODES:-1}\n"
    "gpus=${STOKER_GPUS:-0}\n"
    "[ \"$gpus\" -gt 0 ] || gpus=1\n"
    "port=${STOKER_PORT:-29500}\n"
    "master=${STOKER_MASTER:-${PET_MASTER_ADDR:-${MASTER_ADDR:-localhost}}}\n"
    "[ \"$nodes\" != 1 ] || master=localhost\n"
    "export MASTER_ADDR=\"$master\" MASTER_PORT=\"$port\" NODE_RANK=\"$rank\" NNODES=\"$nodes\"\n"
    "\n"
    "# The first pod's name appears a moment after it starts.\n"
    "left=${STOKER_TIMEOUT:-600}\n"
    "while [ \"$master\" != localhost ] && command -v getent >/dev/null 2>&1 &&\n"
    "    ! getent hosts \"$master\" >/dev/null; do\n"
    "    if [ \"$left\" -le 0 ]; then\n"
    "        say \"no address for $master after ${STOKER_TIMEOUT:-600} s\"\n"
    "        exit 1\n"
    "    fi\n"
    "    sleep 2\n"
    "    left=$((left - 2))\n"
    "done\n"
    "\n"
    "# What NCCL would not find itself; a variable that is set already wins. An init container\n"
    "# brings stoker where the image has none.\n"
    "PATH=$PATH:" K8S_STOKER_DIR "\n"
    "if command -v stoker >/dev/null 2>&1; then\n"
    "    settings=$(stoker detect --env) || settings=\n"
    "    eval \"$settings\"\n"
    "else\n"
    "    say \"no stoker in this image: NCCL chooses for itself\"\n"
    "fi\n"
    "\n"
    "say \"rank $rank of $nodes, first pod $master:$port\"\n"
    "if [ \"${STOKER_LAUNCHER:-none}\" != torchrun ]; then\n"
    "    case \"$nodes\" in\n"
    "    *:*) ;;\n"
    "    *) # a torchrun that the command starts itself reads these\n"
    "        export PET_NNODES=\"$nodes\" PET_NODE_RANK=\"$rank\" PET_NPROC_PER_NODE=\"$gpus\"\n"
    "        export PET_MASTER_ADDR=\"$master\" PET_MASTER_PORT=\"$port\"\n"
    "        ;;\n"
    "    esac\n"
    "    exec \"$@\"\n"
    "fi\n"
    "first=false\n"
    "[ \"$rank\" != 0 ] || first=true\n"
    "case \"$nodes\" in\n"
    "*:*) # pods come and go: whoever is there forms the run anew\n"
    "    options=\"--rdzv-backend=c10d --rdzv-endpoint=$master:$port --rdzv-id=stoker\"\n"
    "    options=\"$options --rdzv-conf=is_host=$first,join_timeout=${STOKER_TIMEOUT:-600}\"\n"
    "    options=\"$options --max-restarts=${STOKER_RESTARTS:-3}\"\n"
    "    ;;\n"
    "*) options=\"--node-rank=$rank --master-addr=$master --master-port=$port\" ;;\n"
    "esac\n"
    "program=$1\n"
    "case \"${program##*/}\" in\n"
    "python | python3 | python3.*)\n"
    "    shift\n"
    "    # shellcheck disable=SC2086 # options hold no blanks of their own\n"
    "    exec \"$program\" -m torch.distributed.run --nnodes=\"$nodes\" \\\n"
    "        --nproc-per-node=\"$gpus\" $options \"$@\"\n"
    "    ;;\n"
    "*)\n"
    "    # shellcheck disable=SC2086\n"
    "    exec torchrun --no-python --nnodes=\"$nodes\" --nproc-per-node=\"$gpus\" $options \"$@\"\n"
    "    ;;\n"
    "esac\n";

void kube_launch_write(struct kube *q)
{
    struct buf *out = kube_base(q, "launch.yaml", "How a run starts on each of its pods.");
    struct yaml_out y;

    yaml_begin(&y, out);
    k8s_head(&q->k, &y, "v1", "ConfigMap", "stoker-launch", NULL);
    yaml_map(&y, "data");
    yaml_text(&y, "launch.sh", LAUNCH);
    yaml_end(&y);
    yaml_finish(&y);
}

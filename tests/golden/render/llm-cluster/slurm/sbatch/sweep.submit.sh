#!/bin/bash
# A sweep: a job array with one task a line of a file.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#   sweep.submit.sh [FILE [OPTION OF SBATCH...]]     FILE: sweep.tasks unless said
set -eu
tasks=$(realpath "${1:-sweep.tasks}")
[ $# = 0 ] || shift
count=$(grep -c -v -e '^[[:space:]]*#' -e '^[[:space:]]*$' "$tasks" || true)
if [ "$count" = 0 ]; then
    echo "$tasks has no tasks" >&2
    exit 1
fi
limit='%128' # tasks at once, from QOS and scale; empty: no limit
exec sbatch --array="0-$((count - 1))$limit" --output='%x-%A_%a.out' --export=ALL,TASKS="$tasks" \
    "$@" "$(dirname "$0")/sweep.sbatch"

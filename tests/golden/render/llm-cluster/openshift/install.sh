#!/bin/sh
# Brings the operators, then the objects, to a cluster.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
#   sh install.sh operators           print what the cluster needs, and the objects
#   sh install.sh manifests           the objects alone, after each change
#   sh install.sh --apply COMMAND     do it, as an administrator of the cluster
set -eu
apply=false
if [ "${1-}" = --apply ]; then
    apply=true
    shift
fi
run() {
    if $apply; then "$@"; else echo "+ $*"; fi
}
here=$(cd "$(dirname "$0")" && pwd)
# kind CRD: OLM installs in its own time
kind() {
    left=120
    until ! $apply || oc get crd "$1" >/dev/null 2>&1; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            echo "install.sh: no kind $1 after ten minutes" >&2
            exit 1
        fi
        sleep 5
    done
    run oc wait --for=condition=Established --timeout=60s "crd/$1"
}

# The manifests. Replicas that people or an autoscaler change are left as they are;
# those of the spec are for what is new.
manifests() {
    run oc apply -k "$here"
}

operators() {
    # labels and taints of node groups, by which pods choose machines
    if $apply; then sh "$here/node/label.sh" --apply; else sh "$here/node/label.sh"; fi
    run oc apply -f "$here/namespace.yaml"
    manifests
}

case "${1-}" in
operators) operators ;;
manifests) manifests ;;
*)
    echo "usage: install.sh [--apply] operators | manifests" >&2
    exit 2
    ;;
esac

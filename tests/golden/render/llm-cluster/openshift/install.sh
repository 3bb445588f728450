#!/bin/sh
# Brings the operators, then the objects, to a cluster.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
#   sh install.sh operators           print what the cluster needs, and the objects
#   sh install.sh manifests           the objects alone, after each change
#   sh install.sh prune               deletes what the spec no longer names
#   sh install.sh --apply COMMAND     do it, as an administrator of the cluster
set -eu
apply=false
if [ "${1-}" = --apply ]; then
    apply=true
    shift
fi
# the command as a shell takes it
show() (
    line=
    for w; do
        case "$w" in
        '' | *[!A-Za-z0-9_./:@=,%+-]*)
            w="'$(printf '%s' "$w" | sed "s/'/'\\\\''/g")'"
            ;;
        esac
        line="$line${line:+ }$w"
    done
    printf '%s\n' "$line"
)
run() {
    if $apply; then
        "$@"
    else
        printf '+ '
        show "$@"
    fi
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

tool=oc
script=install.sh
folder=$here
namespaces='stoker'
ours=app.kubernetes.io/managed-by=stoker,app.kubernetes.io/instance=llm
headless=''
workloads='deployment.apps statefulset.apps job.batch pytorchjob.kubeflow.org trainjob.trainer.kubeflow.org jobset.jobset.x-k8s.io pod'
others='daemonset.apps service poddisruptionbudget.policy networkpolicy.networking.k8s.io horizontalpodautoscaler.autoscaling scaledobject.keda.sh podmonitor.monitoring.coreos.com prometheusrule.monitoring.coreos.com route.route.openshift.io configmap'
# What the cluster has of this site and the spec no longer names: NAMESPACE KIND/NAME. Data
# (claims, volumes, secrets) is not looked for, nor what an object made for itself.
stale() {
    none='{{range .items}}{{if not .metadata.ownerReferences}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
    for ns in $namespaces; do
        for kind in $workloads $others; do
            $tool -n "$ns" get "$kind" -l "$ours" -o "go-template=$none" 2>/dev/null |
                while read -r name; do
                    names "$kind/$name" || echo "$ns $kind/$name"
                done
        done
    done
}
# names KIND/NAME: is it in the manifests?
names() {
    echo "$named" | grep -qxF -e "$1"
}
# False where no cluster answers. Files of run/ count as well: people start them by hand.
look() {
    named=$(
        $tool apply -k "$folder" --dry-run=client -o name 2>/dev/null || exit 1
        for f in "$folder"/run/*.yaml; do
            [ ! -e "$f" ] || $tool create --dry-run=client -o name -f "$f" 2>/dev/null || exit 1
        done
    ) && [ -n "$named" ]
}
# moved KIND/NAME: is that component of another kind now?
moved() {
    case " $workloads " in *" ${1%/*} "*) ;; *) return 1 ;; esac
    for as in $workloads; do
        if names "$as/${1#*/}"; then return 0; fi
    done
    return 1
}
# What became another kind, and what the API server would not change, makes room: pods of a
# StatefulSet stay, and claims keep the size they have. A Job may be at work: it is told of.
room() {
    stale | while read -r ns o; do
        if moved "$o"; then
            run $tool -n "$ns" delete "$o"
        else
            echo "# runs on, though the spec no longer names it: $o in $ns; '$script --apply prune' deletes it"
        fi
    done
    none='{{range .items}}{{if eq .spec.clusterIP "None"}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
    $tool -n "${namespaces%% *}" get service -l "$ours" -o "go-template=$none" 2>/dev/null |
        while read -r name; do
            case " $headless " in *" $name "*) continue ;; esac
            if names "service/$name"; then
                run $tool -n "${namespaces%% *}" delete "service/$name"
            fi
        done
    { $tool apply -k "$folder" --dry-run=server >/dev/null || true; } 2>&1 |
        sed -n -e 's/.*Service "\([^"]*\)" is invalid: .*may not change.*/service \1/p' \
            -e 's/.*StatefulSet[.a-z]* "\([^"]*\)" is invalid: .*updates to statefulset spec.*/statefulset \1/p' \
            -e 's/.*Job[.a-z]* "\([^"]*\)" is invalid: .*field is immutable.*/job \1/p' |
        sort -u | while read -r kind name; do
            case $kind in
            service) run $tool -n "${namespaces%% *}" delete "$kind/$name" ;;
            statefulset)
                run $tool -n "${namespaces%% *}" delete "$kind/$name" --cascade=orphan ;;
            job)
                echo "# a Job cannot be changed; to begin anew: $tool -n ${namespaces%% *} delete $kind/$name, then this again" ;;
            esac
        done
}
# Deletes what the spec no longer names.
prune() {
    if ! look; then
        echo '# no cluster answers'
        return 1
    fi
    stale | while read -r ns o; do
        run $tool -n "$ns" delete "$o"
    done
}

# The manifests. Replicas that people or an autoscaler change are left as they are;
# those of the spec are for what is new.
manifests() {
    if look; then room; fi
    run oc apply -k "$folder"
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
prune) prune ;;
*)
    echo "usage: install.sh [--apply] operators | manifests | prune" >&2
    exit 2
    ;;
esac

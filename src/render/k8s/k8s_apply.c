/* SPDX-License-Identifier: MIT */
/* k8s_apply: how the scripts of kubernetes and openshift bring manifests to a cluster.
 *
 * `apply` changes and adds, and that is not all a changed spec needs:
 *
 *   another kind        a Deployment that became a StatefulSet stays beside it, with the same
 *                       labels behind the same Service: it is deleted first
 *   cannot be changed   a Service that loses its address, a StatefulSet whose claims differ: the
 *                       API server is asked in a dry run, and what it refuses is made anew; pods
 *                       of such a set stay and are taken over
 *   is not changed      a headless Service that is to have an address keeps "None" without a word
 *                       (the API server fills in what was there): it is made anew as well
 *   no longer named     keeps running, with its GPUs: told at each run, deleted by `prune`; what
 *                       people start by hand from run/ is named as much as what `apply` makes
 *
 * Deleting is by label within the namespaces of the spec, of kinds that hold no data: claims,
 * volumes, secrets and namespaces are never among them.  It is a step of its own, since two specs
 * of one site may share a namespace; `apply --prune` cannot be looked at first in that way, and
 * takes a kind that the cluster does not know for an error. */
#include "render/k8s/k8s_int.h"

#define WORKLOADS                                                                                  \
    "deployment.apps statefulset.apps job.batch pytorchjob.kubeflow.org "                          \
    "trainjob.trainer.kubeflow.org jobset.jobset.x-k8s.io pod"
#define OTHERS                                                                                     \
    "daemonset.apps service poddisruptionbudget.policy networkpolicy.networking.k8s.io "           \
    "horizontalpodautoscaler.autoscaling scaledobject.keda.sh podmonitor.monitoring.coreos.com "   \
    "prometheusrule.monitoring.coreos.com route.route.openshift.io configmap"

/* $TOOL, $FOLDER and so on are set in front of it. */
static const char STALE[] =
    "# What the cluster has of this site and the spec no longer names: NAMESPACE KIND/NAME. Data\n"
    "# (claims, volumes, secrets) is not looked for, nor what an object made for itself.\n"
    "stale() {\n"
    "    none='{{range .items}}{{if not .metadata.ownerReferences}}{{.metadata.name}}"
    "{{\"\\n\"}}{{end}}{{end}}'\n"
    "    for ns in $namespaces; do\n"
    "        for kind in $workloads $others; do\n"
    "            $tool -n \"$ns\" get \"$kind\" -l \"$ours\" -o \"go-template=$none\" 2>/dev/null "
    "|\n"
    "                while read -r name; do\n"
    "                    names \"$kind/$name\" || echo \"$ns $kind/$name\"\n"
    "                done\n"
    "        done\n"
    "    done\n"
    "}\n"
    "# names KIND/NAME: is it in the manifests?\n"
    "names() {\n"
    "    echo \"$named\" | grep -qxF -e \"$1\"\n"
    "}\n"
    "# False where no cluster answers. Files of run/ count as well: people start them by hand.\n"
    "look() {\n"
    "    named=$(\n"
    "        $tool apply -k \"$folder\" --dry-run=client -o name 2>/dev/null || exit 1\n"
    "        for f in \"$folder\"/run/*.yaml; do\n"
    "            [ ! -e \"$f\" ] || $tool create --dry-run=client -o name -f \"$f\" 2>/dev/null || "
    "exit 1\n"
    "        done\n"
    "    ) && [ -n \"$named\" ]\n"
    "}\n"
    "# moved KIND/NAME: is that component of another kind now?\n"
    "moved() {\n"
    "    case \" $workloads \" in *\" ${1%/*} \"*) ;; *) return 1 ;; esac\n"
    "    for as in $workloads; do\n"
    "        if names \"$as/${1#*/}\"; then return 0; fi\n"
    "    done\n"
    "    return 1\n"
    "}\n"
    "# What became another kind, and what the API server would not change, makes room: pods of a\n"
    "# StatefulSet stay, and claims keep the size they have. A Job may be at work: it is told of.\n"
    "room() {\n"
    "    stale | while read -r ns o; do\n"
    "        if moved \"$o\"; then\n"
    "            run $tool -n \"$ns\" delete \"$o\"\n"
    "        else\n"
    "            echo \"# runs on, though the spec no longer names it: $o in $ns; '$script --apply "
    "prune' deletes it\"\n"
    "        fi\n"
    "    done\n"
    "    none='{{range .items}}{{if eq .spec.clusterIP \"None\"}}{{.metadata.name}}"
    "{{\"\\n\"}}{{end}}{{end}}'\n"
    "    $tool -n \"${namespaces%% *}\" get service -l \"$ours\" -o \"go-template=$none\" "
    "2>/dev/null |\n"
    "        while read -r name; do\n"
    "            case \" $headless \" in *\" $name \"*) continue ;; esac\n"
    "            if names \"service/$name\"; then\n"
    "                run $tool -n \"${namespaces%% *}\" delete \"service/$name\"\n"
    "            fi\n"
    "        done\n"
    "    { $tool apply -k \"$folder\" --dry-run=server >/dev/null || true; } 2>&1 |\n"
    "        sed -n -e 's/.*Service \"\\([^\"]*\\)\" is invalid: .*may not change.*/"
    "service \\1/p' \\\n"
    "            -e 's/.*StatefulSet[.a-z]* \"\\([^\"]*\\)\" is invalid: .*updates to statefulset "
    "spec.*/statefulset \\1/p' \\\n"
    "            -e 's/.*Job[.a-z]* \"\\([^\"]*\\)\" is invalid: .*field is immutable.*/job \\1/p' "
    "|\n"
    "        sort -u | while read -r kind name; do\n"
    "            case $kind in\n"
    "            service) run $tool -n \"${namespaces%% *}\" delete \"$kind/$name\" ;;\n"
    "            statefulset)\n"
    "                run $tool -n \"${namespaces%% *}\" delete \"$kind/$name\" "
    "--cascade=orphan ;;\n"
    "            job)\n"
    "                echo \"# a Job cannot be changed; to begin anew: $tool -n ${namespaces%% *} "
    "delete $kind/$name, then this again\" ;;\n"
    "            esac\n"
    "        done\n"
    "}\n"
    "# Deletes what the spec no longer names.\n"
    "prune() {\n"
    "    if ! look; then\n"
    "        echo '# no cluster answers'\n"
    "        return 1\n"
    "    fi\n"
    "    stale | while read -r ns o; do\n"
    "        run $tool -n \"$ns\" delete \"$o\"\n"
    "    done\n"
    "}\n\n";

void k8s_script_apply(struct k8s *k, struct buf *out, const struct k8s_apply *a)
{
    buf_addf(out,
             "tool=%s\n"
             "script=%s\n"
             "folder=%s\n"
             "namespaces='%s%s%s'\n"
             "ours=app.kubernetes.io/managed-by=stoker,app.kubernetes.io/instance=%s\n"
             "headless='%s'\n"
             "workloads='" WORKLOADS "'\n"
             "others='" OTHERS "'\n",
             a->tool, a->script, a->folder, k->namespace, a->also ? " " : "",
             a->also ? a->also : "", k8s_name(k, k->r->spec->site.name, ""), a->headless);
    buf_adds(out, STALE);
    buf_adds(out, "# The manifests. Replicas that people or an autoscaler change are left as they "
                  "are;\n# those of the spec are for what is new.\nmanifests() {\n");
    if (*a->scaled)
        buf_addf(out,
                 "    scaled='%s'\n"
                 "    counts=\n"
                 "    for w in $scaled; do\n"
                 "        now=$(%s -n %s get \"${w%%=*}\" -o 'jsonpath={.spec.replicas}' "
                 "2>/dev/null) || now=\n"
                 "        counts=\"$counts ${w%%=*}=${now:-${w#*=}}\"\n"
                 "    done\n",
                 a->scaled, a->tool, k->namespace);
    if (a->first)
        buf_adds(out, a->first);
    buf_addf(out, "    if look; then room; fi\n    run %s apply -k \"$folder\"\n", a->tool);
    if (*a->scaled)
        buf_addf(out,
                 "    for w in $counts; do\n"
                 "        run %s -n %s scale \"${w%%=*}\" --replicas=\"${w#*=}\"\n"
                 "    done\n",
                 a->tool, k->namespace);
    buf_adds(out, "}\n\n");
}

/* SPDX-License-Identifier: MIT */
/* openshift_node: what an administrator does to the machines once: node/label.sh.
 *
 * OpenShift installs its machines itself, so there is no script that prepares them; what pods and
 * operators of this spec look for on a machine is set afterwards: the label of its node group, by
 * which every pod chooses, the labels and taints that the spec gives the group, and how the GPU
 * Operator cuts its GPUs (MIG).  The script prints what it would do, and does it with --apply. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/openshift/openshift_int.h"

#define GPU_NAMESPACE "nvidia-gpu-operator"

static const char HEAD[] =
    "#\n"
    "#   sh label.sh [GROUP...]          print what machines of GROUP (none: all) are given\n"
    "#   sh label.sh --apply [GROUP...]  do it, as an administrator of the cluster\n"
    "set -eu\n" K8S_SCRIPT_APPLY "\n";

static void group_function(struct shift *s, struct buf *out, const struct spec_node *n, size_t i)
{
    struct spec_walk w;

    buf_addf(out, "# %s: %s\nmachine_%zu() {\n", n->name, render_from(s->k.r, &n->name), i);
    buf_addf(out, "    run oc label node --overwrite \"$1\" %s=%s", K8S_GROUP_LABEL, n->name);
    for (size_t j = 0; j < n->labels.count; j++)
        if (k8s_label_by(n->labels.items[j].key) != K8S_LABEL_SYSTEM) {
            buf_addc(out, ' ');
            quote_sh(out, n->labels.items[j].key);
            buf_addc(out, '=');
            quote_sh(out, n->labels.items[j].value);
        }
    if (feasible_mig_instances(n))
        buf_addf(out, " nvidia.com/mig.config=%s", n->name);
    buf_addc(out, '\n');
    for (size_t j = 0; j < n->taints.count; j++) {
        buf_adds(out, "    run oc adm taint node --overwrite \"$1\" ");
        quote_sh(out, n->taints.items[j]);
        buf_addc(out, '\n');
    }
    buf_addf(out, "}\ngroup_%zu() {\n", i);
    for (spec_walk(&w, n); spec_walk_next(&w);)
        buf_addf(out, "    machine_%zu %s\n", i, w.name);
    buf_adds(out, "}\n");
}

static void mig_step(struct shift *s, struct buf *out)
{
    if (!k8s_has_mig(s->k.r->spec))
        return;
    buf_adds(out,
             "# The GPU Operator cuts GPUs by the configuration that a machine's label names.\n"
             "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
             "run oc apply -f \"$here/mig.yaml\"\n"
             "run oc patch clusterpolicy/gpu-cluster-policy --type=merge --patch-file "
             "\"$here/mig-policy.yaml\"\n");
}

static void mig_files(struct shift *s)
{
    struct buf *out;
    struct yaml_out y;

    if (!k8s_has_mig(s->k.r->spec))
        return;
    out = render_file(s->k.r, "openshift/node/mig.yaml");
    render_head(s->k.r, out, "#", "How the GPU Operator's MIG manager cuts the GPUs of a group.");
    k8s_mig_map(&s->k, out, GPU_NAMESPACE);
    out = render_file(s->k.r, "openshift/node/mig-policy.yaml");
    render_head(s->k.r, out, "#", "What of the GPU Operator's ClusterPolicy MIG needs: a patch.");
    yaml_begin(&y, out);
    yaml_map(&y, "spec");
    k8s_mig_values(&s->k, &y, false);
    yaml_finish(&y);
}

void shift_nodes(struct shift *s)
{
    const struct spec *spec = s->k.r->spec;
    struct buf *out = render_script(s->k.r, "openshift/node/label.sh");

    buf_adds(out, "#!/bin/sh\n");
    render_head(s->k.r, out, "#",
                "Labels, taints and MIG of the machines; names are the spec's, as `oc get nodes` "
                "has them.");
    buf_adds(out, HEAD);
    for (size_t i = 0; i < spec->node_count; i++)
        group_function(s, out, &spec->nodes[i], i);
    mig_step(s, out);
    buf_adds(out, "if [ $# = 0 ]; then\n");
    for (size_t i = 0; i < spec->node_count; i++)
        buf_addf(out, "    group_%zu\n", i);
    buf_adds(out, spec->node_count ? "fi\n" : "    :\nfi\n");
    buf_adds(out, "for group; do\n    case \"$group\" in\n");
    for (size_t i = 0; i < spec->node_count; i++)
        buf_addf(out, "    %s) group_%zu ;;\n", spec->nodes[i].name, i);
    buf_adds(out, "    *)\n        echo \"label.sh: no node group '$group'\" >&2\n"
                  "        exit 2\n        ;;\n    esac\ndone\n");
    mig_files(s);
}

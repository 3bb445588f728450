/* SPDX-License-Identifier: MIT */
/* kubernetes_plugin: GPUs that are shared, where no GPU Operator is: `gpu_operator: false`.
 *
 * The device plug-in's own chart takes the same configurations of sharing as the operator does
 * (config.map, chosen by a label of the machine) and offers MIG instances by profile
 * (migStrategy), but nothing of it cuts a GPU: the operator's MIG manager is what reads
 * nvidia.com/mig.config.  So a unit of the machine cuts them with nvidia-smi, before the kubelet
 * starts: instances do not outlive a boot, nor does MIG mode from Hopper on.  NVIDIA's own unit
 * (mig-parted) does the same; it is in no package repository, so it is not relied upon. */
#include "plan/feasible.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

bool kube_cuts_gpus(const struct kube *q)
{
    return !q->t->gpu_operator && k8s_has_mig(q->k.r->spec);
}

/* What every GPU of a group is cut into, as `nvidia-smi mig -cgi` takes it. */
void kube_cut_of(const struct spec_node *n, struct buf *out)
{
    for (int64_t i = 0; i < feasible_mig_instances(n); i++)
        buf_addf(out, "%s%s", i ? "," : "", n->gpu->mig_profile);
}

void kube_cut_script(struct buf *out)
{
    buf_adds(
        out,
        "# MIG: no GPU Operator is there to cut GPUs, so the machine does it at each boot, before\n"
        "# the kubelet. Where a program holds a GPU the mode changes with the next boot.\n"
        "mig() {\n"
        "    put /usr/local/sbin/mig-instances <<END\n"
        "#!/bin/sh\n"
        "set -eu\n"
        "nvidia-smi -mig 1\n"
        "nvidia-smi mig -dci || true # of an earlier start; none is no fault\n"
        "nvidia-smi mig -dgi || true\n"
        "nvidia-smi mig -cgi $mig -C\n"
        "END\n"
        "    run chmod 755 /usr/local/sbin/mig-instances\n"
        "    put /etc/systemd/system/mig-instances.service <<'END'\n"
        "[Unit]\n"
        "Description=MIG instances of this machine's GPUs\n"
        "After=nvidia-persistenced.service nvidia-fabricmanager.service\n"
        "Before=kubelet.service\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        "ExecStart=/usr/local/sbin/mig-instances\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
        "END\n"
        "    run systemctl daemon-reload\n"
        "    run systemctl enable --now mig-instances.service\n"
        "}\n\n");
}

static void plugin_anywhere(struct yaml_out *y)
{
    yaml_seq(y, "tolerations");
    yaml_map_of(y, NULL, "operator", "Exists");
    yaml_end(y);
}

void kube_plugin_write(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/device-plugin-values.yaml");
    struct yaml_out y;

    render_head(q->k.r, out, "#",
                "Values of NVIDIA's device plug-in's chart, for a cluster without the GPU "
                "Operator.");
    yaml_begin(&y, out);
    yaml_map(&y, "gfd");
    yaml_note(&y, "labels of GPUs on the machines; MPS starts where it says so");
    yaml_bool(&y, "enabled", true);
    yaml_end(&y);
    if (k8s_has_mig(q->k.r->spec))
        k8s_mig_strategy(&q->k, &y, "migStrategy");
    if (kube_sharing_groups(q)) {
        yaml_map(&y, "config");
        kube_sharing_data(q, &y, "map");
        yaml_note(&y,
                  "machines: label nvidia.com/device-plugin.config; those without share nothing");
        yaml_str(&y, "default", kube_sharing_default(q));
        yaml_seq_of(&y, "fallbackStrategies", "empty");
        yaml_end(&y);
    }
    yaml_comment(&y, "machines with taints have devices too");
    plugin_anywhere(&y);
    yaml_open(&y, "nfd.worker");
    plugin_anywhere(&y);
    yaml_finish(&y);
}

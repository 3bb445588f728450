/* SPDX-License-Identifier: MIT */
/* kubernetes_launch: the script that starts a component's command on every pod of a run,
 * data/render/launch.sh.
 *
 * It runs in the container that has the GPUs and NICs (an init container has neither), takes the
 * rank from whoever numbers the pods, waits until the first pod has a name, lets `stoker detect`
 * set what NCCL would not find by itself, and becomes the command. */
#include "base/buf.h"
#include "base/embed.h"
#include "render/kubernetes/kubernetes_int.h"

EMBED(kube_script, "data/render/launch.sh");

void kube_launch_write(struct kube *q)
{
    struct buf *out = kube_base(q, "launch.yaml", "How a run starts on each of its pods.");
    struct yaml_out y;
    struct buf script = { 0 };

    k8s_launch_script(&script, kube_script);
    yaml_begin(&y, out);
    k8s_head(&q->k, &y, "v1", "ConfigMap", "stoker-launch", NULL);
    yaml_map(&y, "data");
    yaml_text(&y, "launch.sh", buf_str(&script));
    yaml_finish(&y);
    buf_release(&script);
}

/* SPDX-License-Identifier: MIT */
/* kubernetes_launch: the script that starts a component's command on every pod of a run,
 * data/render/launch.sh, and the pods that it starts.
 *
 * It runs in the container that has the GPUs and NICs (an init container has neither), takes the
 * rank from whoever numbers the pods, waits until the first pod has a name, lets `stoker detect`
 * set what NCCL would not find by itself, and becomes the command. */
#include "base/embed.h"
#include "render/host/host_int.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

#define LAUNCH_MAP "stoker-launch"
#define LAUNCH_DIR "/etc/stoker/launch"

EMBED(kube_script, "data/render/launch.sh");

void kube_launch_write(struct kube *q)
{
    struct buf *out = kube_base(q, "launch.yaml", "How a run starts on each of its pods.");
    struct buf script = { 0 };

    k8s_launch_script(&script, kube_script);
    k8s_config_map(&q->k, out, LAUNCH_MAP, NULL, "launch.sh", &script);
    buf_release(&script);
}

static const char *nodes_text(struct kube *q, const struct kube_work *w)
{
    const struct spec_scale *s = w->c->scale;

    if (w->kind == KUBE_STATEFULSET && s && s->max > 1)
        return arena_printf(&q->k.arena, "%" PRId64 ":%" PRId64, s->min > 1 ? s->min : (int64_t)1,
                            s->max);
    return arena_printf(&q->k.arena, "%" PRId64, w->pods);
}

static const char *master_of(struct kube *q, const struct kube_work *w)
{
    if (w->kind == KUBE_PYTORCHJOB || w->kind == KUBE_TRAINJOB)
        return NULL;
    if (w->kind == KUBE_JOBSET)
        return arena_printf(&q->k.arena, "%s-workers-0-0.%s.%s.svc", w->name, w->name,
                            q->k.namespace);
    if (w->pods <= 1 && !w->c->scale)
        return "localhost";
    return arena_printf(&q->k.arena, "%s-0.%s.%s.svc", w->name, w->name, q->k.namespace);
}

void kube_launch(struct kube *q, const struct kube_work *w, struct k8s_pod *pod)
{
    static const char *const start[] = { "/bin/sh", LAUNCH_DIR "/launch.sh" };
    struct k8s_vars v = { .k = &q->k };
    const struct render *r = q->k.r;
    const struct spec_training *t = w->c->training;
    const struct spec_rendezvous *rv = t ? &t->rendezvous : NULL;
    bool torch = t && t->framework != SPEC_FRAMEWORK_OTHER, set = w->kind == KUBE_STATEFULSET;

    /* What the launch script reads.  STOKER_NODES and STOKER_GPUS stand first: overlays/small
     * changes them by place. */
    host_warn_launcher(q->k.r, w->c, torch ? "torchrun" : NULL);
    k8s_vars_add(&v, "STOKER_NODES", nodes_text(q, w), k8s_pods_from(&q->k, w->c));
    k8s_vars_add_int(&v, "STOKER_GPUS", w->c->gpus, &w->c->gpus);
    k8s_vars_add(&v, "STOKER_LAUNCHER", torch ? "torchrun" : "none",
                 t ? render_from(r, &t->framework) : NULL);
    k8s_vars_add(&v, "STOKER_MASTER", master_of(q, w), NULL);
    k8s_vars_add_int(&v, "STOKER_PORT", rv ? rv->port : KUBE_RDZV_PORT, rv ? &rv->port : NULL);
    k8s_vars_add_int(&v, "STOKER_TIMEOUT", rv ? rv->timeout_ms / 1000 : 600,
                     rv ? &rv->timeout_ms : NULL);
    if (set && k8s_has(&q->k, K8S_POD_INDEX_LABEL))
        k8s_vars_add_field(&v, "STOKER_RANK", "metadata.labels['apps.kubernetes.io/pod-index']");
    if (set && rv)
        k8s_vars_add_int(&v, "STOKER_RESTARTS", rv->max_restarts, &rv->max_restarts);
    if (set && w->c->restart != SPEC_RESTART_ALWAYS)
        k8s_vars_add(&v, "STOKER_HOLD", "1", render_from(r, &w->c->restart));
    if (w->kind == KUBE_TRAINJOB) /* the patch of its container has no workingDir */
        k8s_vars_add(&v, "STOKER_WORKDIR", w->c->workdir, render_from(r, &w->c->workdir));
    if (t)
        k8s_vars_add(&v, "PYTORCH_CUDA_ALLOC_CONF", t->allocator, render_from(r, &t->allocator));
    k8s_launch_command(&v, pod, (struct spec_strs){ start, 2 });
    /* the pod of a TrainJob's runtime takes no container more */
    k8s_launch_volume(&q->k, pod, LAUNCH_MAP, LAUNCH_DIR, 0, w->kind != KUBE_TRAINJOB);
}

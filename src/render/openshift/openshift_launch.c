/* SPDX-License-Identifier: MIT */
/* openshift_launch: the launcher, and the pods that it starts.  It is one script for all of them,
 * data/render/launcher.sh; what differs stands in variables of its own.  None of NCCL's is set
 * here: what is set in a pod wins over what is detected in it. */
#include "base/embed.h"
#include "base/mem.h"
#include "base/str.h"
#include "render/host/host_int.h"
#include "render/openshift/openshift_int.h"

#include <inttypes.h>

EMBED(shift_script, "data/render/launcher.sh");

/* The script with our head behind its first line. */
static void put_script(struct shift *s, struct buf *out)
{
    const char *body = strchr(shift_script, '\n') + 1;

    buf_add(out, shift_script, (size_t)(body - shift_script));
    render_head(s->k.r, out, "#", "How a program is started on the pods of a component.");
    buf_adds(out, "#\n");
    k8s_launch_script(out, body);
}

void shift_launcher(struct shift *s)
{
    struct buf *file = NULL;
    const struct spec_component *c;

    for (size_t i = 0; !file && (c = shift_component(s, &i));)
        if (shift_launched(c) || shift_kind_of(c) == SHIFT_POD)
            file = render_script(s->k.r, "openshift/launcher.sh");
    if (!file)
        return;
    put_script(s, file);
    k8s_config_map(&s->k, shift_file(s, "launcher.yaml", "launcher.sh, as pods see it."),
                   SHIFT_LAUNCHER, NULL, "launcher.sh", file);
}

/* ---- variables ---- */

/* "1:6", the least and the most: one at least takes part, however few are asked for. */
static void put_nodes(struct shift *s, struct k8s_vars *v, const struct spec_component *c)
{
    const struct spec_scale *sc = c->scale;
    int64_t least, most;

    if (!sc || shift_kind_of(c) == SHIFT_JOB) {
        k8s_vars_add_int(v, "STOKER_NODES", shift_pods(c) > 0 ? shift_pods(c) : 1,
                         c->nodes_per_replica > 1 ? &c->nodes_per_replica : &c->replicas);
        return;
    }
    least = sc->min > 1 ? sc->min : 1;
    most = sc->max > c->replicas ? sc->max : c->replicas;
    k8s_vars_add(v, "STOKER_NODES", arena_printf(&s->k.arena, "%" PRId64 ":%" PRId64, least, most),
                 render_from(s->k.r, &sc->max));
}

static void put_variables(struct shift *s, struct k8s_vars *v, const struct spec_component *c)
{
    bool training = c->kind == SPEC_COMPONENT_TRAINING;
    bool torchrun = training && (!c->training || c->training->framework != SPEC_FRAMEWORK_OTHER);

    host_warn_launcher(s->k.r, c, torchrun ? "torchrun" : NULL);
    k8s_vars_add_field(v, "POD_NAMESPACE", "metadata.namespace");
    if (shift_has_peers(c))
        k8s_vars_add(v, "STOKER_SERVICE", shift_service(s, c),
                     c == s->named ? render_from(s->k.r, &s->t->service) : NULL);
    put_nodes(s, v, c);
    k8s_vars_add(v, "STOKER_LAUNCH", torchrun ? "torchrun" : "exec",
                 c->training ? render_from(s->k.r, &c->training->framework) : NULL);
    if (c->gpus)
        k8s_vars_add_int(v, "STOKER_GPUS", c->gpus, &c->gpus);
    if (c->training) {
        k8s_vars_add_int(v, "STOKER_PORT", c->training->rendezvous.port,
                         &c->training->rendezvous.port);
        k8s_vars_add_int(v, "STOKER_JOIN_S", (c->training->rendezvous.timeout_ms + 999) / 1000,
                         &c->training->rendezvous.timeout_ms);
        k8s_vars_add_int(v, "STOKER_RESTARTS", c->training->rendezvous.max_restarts,
                         &c->training->rendezvous.max_restarts);
    }
    if (c->training && c->training->allocator)
        k8s_vars_add(v, "PYTORCH_CUDA_ALLOC_CONF", c->training->allocator,
                     render_from(s->k.r, &c->training->allocator));
    if (render_uses_rdma(s->k.r, &c->fabrics))
        k8s_vars_add(v, "STOKER_RDMA", "1", render_from(s->k.r, &c->fabrics));
    if (training)
        k8s_vars_add(v, "STOKER_HOLD", "1", "done work is not begun again");
}

/* ---- the pod ---- */

void shift_launch(struct shift *s, struct k8s_pod *pod)
{
    static const char *const launcher[] = { SHIFT_LAUNCHER_DIR "/launcher.sh" };
    struct k8s_vars v = { .k = &s->k };

    if (shift_launched(pod->c)) {
        put_variables(s, &v, pod->c);
        k8s_launch_command(&v, pod, (struct spec_strs){ launcher, 1 });
    }
    /* the recipe of a build puts stoker into the image */
    k8s_launch_volume(&s->k, pod, SHIFT_LAUNCHER, SHIFT_LAUNCHER_DIR, 0555, !s->t->build);
}

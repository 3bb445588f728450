/* SPDX-License-Identifier: MIT */
/* k8s_launch: what the launchers of Kubernetes and OpenShift share.
 *
 * Both are a script of data/render that a ConfigMap brings into the pod, that stands before the
 * component's command, and that is told by variables what differs between pods.  A script reads
 * data/render/hold.sh; what is rendered has its text in the place of the lines that do. */
#include "base/embed.h"
#include "base/mem.h"
#include "render/k8s/k8s_int.h"

#include <assert.h>
#include <inttypes.h>

EMBED(k8s_hold, "data/render/hold.sh");

void k8s_launch_script(struct buf *out, const char *script)
{
    static const char reads[] = "# shellcheck source=data/render/hold.sh\n. \"${0%/*}/hold.sh\"\n";
    const char *at = strstr(script, reads);

    assert(at);
    buf_add(out, script, (size_t)(at - script));
    buf_adds(out, k8s_hold);
    buf_adds(out, at + strlen(reads));
}

static struct k8s_env *var_next(struct k8s_vars *v)
{
    if (!v->items)
        v->items = arena_array(&v->k->arena, struct k8s_env, K8S_VARS_MAX);
    assert(v->count < K8S_VARS_MAX);
    return &v->items[v->count++];
}

void k8s_vars_add(struct k8s_vars *v, const char *name, const char *value, const char *from)
{
    if (value)
        *var_next(v) = (struct k8s_env){ .name = name,
                                         .value = value,
                                         .from = from ? arena_strdup(&v->k->arena, from) : NULL };
}

void k8s_vars_add_int(struct k8s_vars *v, const char *name, int64_t value, const void *member)
{
    k8s_vars_add(v, name, arena_printf(&v->k->arena, "%" PRId64, value),
                 member ? render_from(v->k->r, member) : NULL);
}

void k8s_vars_add_field(struct k8s_vars *v, const char *name, const char *field)
{
    *var_next(v) = (struct k8s_env){ .name = name, .field = field };
}

void k8s_launch_command(struct k8s_vars *v, struct k8s_pod *pod, struct spec_strs launcher)
{
    size_t n = pod->command.count + pod->args.count;
    const char **args = arena_array(&v->k->arena, const char *, n + 1);

    for (size_t i = 0; i < n; i++)
        args[i] = i < pod->command.count ? pod->command.items[i]
                                         : pod->args.items[i - pod->command.count];
    pod->command = launcher;
    pod->args = (struct spec_strs){ args, n };
    pod->env = v->items;
    pod->env_count = v->count;
}

void k8s_launch_volume(struct k8s *k, struct k8s_pod *pod, const char *map, const char *dir,
                       int64_t mode, bool stoker)
{
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = map,
                                        .kind = K8S_CONFIG,
                                        .source = map,
                                        .path = dir,
                                        .read_only = true,
                                        .mode = mode });
    if (stoker)
        k8s_stoker_add(k, pod);
}

void k8s_config_map(struct k8s *k, struct buf *out, const char *name, const char *component,
                    const char *file, const struct buf *text)
{
    struct yaml_out y;

    k8s_object(k, &y, out, "v1", "ConfigMap", name, component);
    yaml_map(&y, "data");
    yaml_text(&y, file, buf_str(text));
    yaml_finish(&y);
}

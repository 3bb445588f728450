/* SPDX-License-Identifier: MIT */
/* render_targets: what can be rendered, and what `all` means for a spec: the systems it names, and
 * those that every site has use for. */
#include "base/str.h"
#include "render/render_int.h"

#define IN_SPEC(section)                                                                           \
    static bool in_##section(const struct spec *s)                                                 \
    {                                                                                              \
        return s->targets.section != NULL;                                                         \
    }
IN_SPEC(slurm)
IN_SPEC(kubernetes)
IN_SPEC(openshift)
IN_SPEC(compose)
IN_SPEC(systemd)
IN_SPEC(prometheus)
IN_SPEC(grafana)
IN_SPEC(lustre)

static bool in_every(const struct spec *s)
{
    (void)s;
    return true;
}

static const struct render_target targets[] = {
    { "compose", "containers on one machine", render_compose, in_compose },
    { "doc", "the site as one HTML page", render_doc, in_every },
    { "grafana", "dashboards", render_grafana, in_grafana },
    { "kubernetes", "manifests, with a kustomize base and overlays", render_kubernetes,
      in_kubernetes },
    { "lustre", "commands that make, mount and stripe the file system", render_lustre, in_lustre },
    { "nccl", "nccl.conf", render_nccl, in_every },
    { "openshift", "StatefulSet, networks, build and launcher", render_openshift, in_openshift },
    { "prometheus", "scraping, rules with their tests, Alertmanager", render_prometheus,
      in_prometheus },
    { "slurm", "slurm.conf and its companions, sbatch files", render_slurm, in_slurm },
    { "systemd", "units for agent, serve and up", render_systemd, in_systemd },
};

size_t render_target_count(void)
{
    return sizeof(targets) / sizeof(*targets);
}

const struct render_target *render_target_at(size_t i)
{
    return &targets[i];
}

const struct render_target *render_target_find(const char *name)
{
    for (size_t i = 0; i < render_target_count(); i++)
        if (str_eq(targets[i].name, name))
            return &targets[i];
    return NULL;
}

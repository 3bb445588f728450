/* SPDX-License-Identifier: MIT */
/* k8s_mig: what the GPU Operator is told on both targets: RDMA of the driver, MIG.
 *
 * The GPU Operator's MIG manager reads configurations from a ConfigMap and cuts the GPUs of each
 * machine as its label nvidia.com/mig.config says.  We write one configuration a node group, named
 * after it, instead of relying on those that the operator brings: their names differ by release
 * and GPU.  The strategy is "mixed" wherever a group has MIG, unless the spec says otherwise: then
 * instances are asked for by profile (nvidia.com/mig-1g.18gb), and groups without MIG keep
 * nvidia.com/gpu.  With "single" an instance is an nvidia.com/gpu too.  That takes machines whose
 * GPUs are all cut alike, as those of a group are; which kind a pod gets is then only its group's
 * to say. */
#include "plan/feasible.h"
#include "render/k8s/k8s_int.h"

#include <inttypes.h>

void k8s_driver_rdma(struct yaml_out *y, bool direct)
{
    yaml_map(y, "rdma");
    yaml_note(y, direct ? "a fabric of the spec has gpudirect" : "no fabric has gpudirect");
    yaml_bool(y, "enabled", direct);
    if (direct) {
        yaml_note(y,
                  "no container brings a driver of the NICs: that of the machines is waited for");
        yaml_bool(y, "useHostMofed", true);
    }
    yaml_end(y);
}

bool k8s_has_mig(const struct spec *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (feasible_mig_instances(&s->nodes[i]))
            return true;
    return false;
}

void k8s_mig_strategy(struct k8s *k, struct yaml_out *y, const char *key)
{
    bool mig = k8s_has_mig(k->r->spec), mixed = mig && k->mig_strategy == SPEC_MIG_MIXED;

    yaml_note(y, mixed ? "instances by profile: nvidia.com/mig-PROFILE"
                 : mig ? render_from(k->r, k->mig_strategy_at)
                       : NULL);
    yaml_str(y, key, mixed ? "mixed" : "single");
}

static const char *k8s_mig_text(struct k8s *k)
{
    const struct spec *s = k->r->spec;
    struct buf b = { 0 };
    const char *out;

    buf_adds(&b, "version: v1\n"
                 "mig-configs:\n"
                 "  all-disabled:\n"
                 "    - devices: all\n"
                 "      mig-enabled: false\n");
    for (size_t i = 0; i < s->node_count; i++)
        if (feasible_mig_instances(&s->nodes[i]))
            buf_addf(&b,
                     "  %s:\n"
                     "    - devices: all\n"
                     "      mig-enabled: true\n"
                     "      mig-devices:\n"
                     "        \"%s\": %" PRId64 "\n",
                     s->nodes[i].name, s->nodes[i].gpu->mig_profile,
                     feasible_mig_instances(&s->nodes[i]));
    out = arena_strdup(&k->arena, buf_str(&b));
    buf_release(&b);
    return out;
}

void k8s_mig_values(struct k8s *k, struct yaml_out *y, bool create)
{
    bool mig = k8s_has_mig(k->r->spec);

    yaml_map(y, "mig");
    k8s_mig_strategy(k, y, "strategy");
    yaml_end(y);
    yaml_map(y, "migManager");
    yaml_bool(y, "enabled", mig);
    if (mig) {
        yaml_map(y, "config");
        if (create)
            yaml_bool(y, "create", true);
        yaml_str(y, "name", K8S_MIG_CONFIG);
        yaml_note(y, "machines with MIG: label nvidia.com/mig.config");
        yaml_str(y, "default", "all-disabled");
        if (create) {
            yaml_map(y, "data");
            yaml_text(y, "config.yaml", k8s_mig_text(k));
            yaml_end(y);
        }
        yaml_end(y);
    }
    yaml_end(y);
}

void k8s_mig_map(struct k8s *k, struct buf *out, const char *namespace)
{
    struct yaml_out y;

    k8s_object_in(k, &y, out, "v1", "ConfigMap", namespace, K8S_MIG_CONFIG, NULL);
    yaml_map(&y, "data");
    yaml_text(&y, "config.yaml", k8s_mig_text(k));
    yaml_finish(&y);
}

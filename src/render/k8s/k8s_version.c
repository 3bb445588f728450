/* SPDX-License-Identifier: MIT */
/* k8s_version: what changed between releases of Kubernetes, as far as our files use it.
 *
 * A row's release is the first in which the field works without a feature gate being set, that is,
 * where its gate is beta and on by default, or is general; the source is the enhancement's number,
 * as in the feature gate's comment in pkg/features/kube_features.go. */
#include "base/str.h"
#include "render/k8s/k8s_int.h"

#include <stdlib.h>

struct k8s_field {
    int minor;
    const char *what;
};

static const struct k8s_field features[K8S_FEATURE_COUNT] = {
    [K8S_POD_INDEX_LABEL] = { 28, "pods carry their index as a label (KEP-4017, PodIndexLabel)" },
    [K8S_POD_REPLACEMENT] = { 29, "a Job waits until a failed pod is gone before it makes another "
                                  "(KEP-3939, JobPodReplacementPolicy)" },
    [K8S_APPARMOR_FIELD] = { 30, "the AppArmor profile is a field of the security context "
                                 "(KEP-24, AppArmorFields)" },
    [K8S_RECURSIVE_READ_ONLY] = { 31, "mounts below a read-only mount are read-only too "
                                      "(KEP-3857, RecursiveReadOnlyMounts)" },
    [K8S_KUBEADM_V1BETA4] = { 31, "kubeadm reads its configuration as v1beta4 (KEP-970)" },
};

bool k8s_has(const struct k8s *k, enum k8s_feature f)
{
    return k->minor >= features[f].minor;
}

const char *k8s_feature_at(size_t i, int *minor)
{
    if (i >= K8S_FEATURE_COUNT)
        return NULL;
    *minor = features[i].minor;
    return features[i].what;
}

int k8s_minor(struct render *r, const char *version, const void *member)
{
    const char *p = *version == 'v' ? version + 1 : version;
    char *end;
    long minor;

    if (!str_starts(p, "1.") || p[2] < '0' || p[2] > '9') {
        render_refuse(r, member, "Write it as 1.27 or 1.31.4.", "'%s' is no Kubernetes release",
                      version);
        return -1;
    }
    minor = strtol(p + 2, &end, 10);
    if ((*end && *end != '.') || minor > 999) {
        render_refuse(r, member, "Write it as 1.27 or 1.31.4.", "'%s' is no Kubernetes release",
                      version);
        return -1;
    }
    if (minor < K8S_MINOR_MIN) {
        render_refuse(r, member,
                      "Volume claims of a StatefulSet (KEP-1847) and pod failure policies "
                      "(KEP-3329) are relied on from 1.27.",
                      "Kubernetes %s is older than 1.%d, the oldest that is written for", version,
                      K8S_MINOR_MIN);
        return -1;
    }
    if (minor > K8S_MINOR_MAX)
        render_warn(r, member, "What it changed is not known here.",
                    "Kubernetes %s is newer than 1.%d, the newest that is written for", version,
                    K8S_MINOR_MAX);
    return (int)minor;
}

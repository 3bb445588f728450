/* SPDX-License-Identifier: MIT */
/* openshift_int: what the files of the target openshift share. */
#ifndef RENDER_OPENSHIFT_OPENSHIFT_INT_H
#define RENDER_OPENSHIFT_OPENSHIFT_INT_H
#include "render/k8s/k8s_int.h"

enum {
    SHIFT_KUBE_MINOR = 13, /* OpenShift 4.N is Kubernetes 1.(N + 13) */
    SHIFT_MINOR_MIN = 14,  /* oldest release: 4.14 */
    SHIFT_GRACE_S = 120,   /* for a last checkpoint, when a training pod is to go */
    SHIFT_KEEP_S = 86400,  /* a finished Job stays for its log */
};
#define SHIFT_LAUNCHER        "stoker-launcher"
#define SHIFT_LAUNCHER_DIR    "/opt/stoker"
#define SHIFT_SRIOV_NAMESPACE "openshift-sriov-network-operator"
#define SHIFT_GPU_NAMESPACE   "nvidia-gpu-operator"
#define SHIFT_GPU_POLICY      "gpu-cluster-policy"
#define SHIFT_REGISTRY        "image-registry.openshift-image-registry.svc:5000"

enum shift_kind {
    SHIFT_SET, /* StatefulSet behind a headless service */
    SHIFT_JOB, /* Job, indexed when it spans machines: started when it is wanted */
    SHIFT_POD  /* Pod to look around in: started when it is wanted */
};

struct shift {
    struct k8s k;
    const struct spec_openshift *t;
    struct yaml_out kustomization;
    const struct spec_component *named; /* the first with peers: its service is the spec's */
    bool root;                          /* a component runs as user 0 */
};

/* Components of this target, in the order of the spec; NULL past the end. */
const struct spec_component *shift_component(const struct shift *s, size_t *i);
enum shift_kind shift_kind_of(const struct spec_component *c);
/* Pods of it that find each other. */
int64_t shift_pods(const struct spec_component *c);
bool shift_has_peers(const struct spec_component *c);
/* Does the launcher start it? */
bool shift_launched(const struct spec_component *c);
const char *shift_service(struct shift *s, const struct spec_component *c);
/* A new file of the kustomization, opened by its head. */
struct buf *shift_file(struct shift *s, const char *path, const char *what);

void shift_access(struct shift *s);     /* openshift_access.c: account, constraint, role */
void shift_components(struct shift *s); /* openshift_work.c */
void shift_launcher(struct shift *s);   /* openshift_launch.c: script and its ConfigMap */
/* A pod of a component that the launcher starts: command, variables, the script itself. */
void shift_launch(struct shift *s, struct k8s_pod *pod);
void shift_nodes(struct shift *s);   /* openshift_node.c: labels, taints and MIG of the machines */
void shift_install(struct shift *s); /* openshift_install.c: operators, and the script */
bool shift_fabric_used(struct shift *s, const char *name);
bool shift_storage_used(struct shift *s, const struct spec_storage *st);
void shift_build(struct shift *s); /* openshift_build.c: stream, build, Containerfile */
#endif

/* SPDX-License-Identifier: MIT */
/* kubernetes_int: what the files of the kubernetes target share.
 *
 *   kubernetes.c        which components, the namespace and its rights, the list of files
 *   kubernetes_work.c   a component as Job, PyTorchJob, TrainJob, JobSet, StatefulSet, Deployment
 *   kubernetes_launch.c the script that starts a command on every pod of a run
 *   kubernetes_own.c    the agent on every machine, the model server
 *   kubernetes_net.c    Services
 *   kubernetes_watch.c  what Prometheus reads, and what changes replicas
 *   kubernetes_node.c   what an administrator does once: machines, the GPU Operator's values
 *   kubernetes_plugin.c shared GPUs without the GPU Operator
 *   kubernetes_install.c  what the manifests rely on, in the order in which it is needed
 *   kubernetes_queue.c  Kueue
 *   kubernetes_kust.c   kustomize: base and overlays */
#ifndef RENDER_KUBERNETES_KUBERNETES_INT_H
#define RENDER_KUBERNETES_KUBERNETES_INT_H
#include "render/k8s/k8s_int.h"

#define KUBE_PROMETHEUS_NAMESPACE "monitoring"
#define KUBE_KUEUE_API            "kueue.x-k8s.io/v1beta2"
#define KUBE_STOKER_IMAGE         "stoker" /* for kustomize's `images` to replace */
#define KUBE_NO_GPU               "no GPU is kept free for a second pod beside the old one"
#define KUBE_NO_ROOM              "a second pod beside the old one may find no room"
#define KUBE_HELD                 "the old pod holds its volume on its machine"
enum { KUBE_FILES_MAX = 16, KUBE_RDZV_PORT = 29500 };

/* What becomes of a component. */
enum kube_kind {
    KUBE_JOB,
    KUBE_STATEFULSET,
    KUBE_PYTORCHJOB,
    KUBE_TRAINJOB,
    KUBE_JOBSET,
    KUBE_DEPLOYMENT
};

struct kube_work {
    const struct spec_component *c;
    enum kube_kind kind;
    const struct spec_node *node; /* the group it runs on; NULL: none is said */
    const char *name;
    int64_t pods;  /* machines of a run, or replicas */
    bool launched; /* by the launch script */
};

struct kube {
    struct k8s k;     /* of the namespace of jobs */
    struct k8s watch; /* of the agent's namespace */
    const struct spec_kubernetes *t;
    struct kube_work *works;
    size_t work_count;
    const char *base[KUBE_FILES_MAX]; /* files of base beside those of components */
    size_t base_count;
    const char *site[KUBE_FILES_MAX]; /* files of overlays/site */
    size_t site_count;
    bool launcher; /* is the launch script in use? */
    bool agent, serve;
    bool serves; /* is a pod of `stoker serve` among them? */
};

/* A new file of base (or of overlays/site), listed in its kustomization. */
struct buf *kube_base(struct kube *q, const char *name, const char *what);
struct buf *kube_site(struct kube *q, const char *name, const char *what);

void kube_work_write(struct kube *q, const struct kube_work *w);
/* How a Deployment takes a new version: the new pod first, or, where `full` says why that cannot
 * be, an old one goes first. */
void kube_strategy(struct yaml_out *y, const char *full);
/* kubernetes_launch.c: the script, and a pod that it starts. */
void kube_launch_write(struct kube *q);
void kube_launch(struct kube *q, const struct kube_work *w, struct k8s_pod *pod);
void kube_agent_write(struct kube *q);
void kube_serve_write(struct kube *q);

/* The Service that gives its pods names of their own; NULL: it has none, or its controller makes
 * it. */
const char *kube_headless(struct kube *q, const struct kube_work *w);
void kube_headless_check(struct kube *q);
void kube_services(struct kube *q, struct buf *out, const struct kube_work *w);
void kube_service(struct kube *q, struct buf *out, const char *name, const struct spec_port *ports,
                  size_t count);

void kube_monitors_write(struct kube *q);
/* Do people or an autoscaler change its replicas?  Its object then names none. */
bool kube_scaled(const struct kube_work *w);
void kube_scaler(struct kube *q, struct buf *out, const struct kube_work *w);

void kube_node_write(struct kube *q);
void kube_operator_write(struct kube *q);
void kube_sharing_check(struct kube *q);   /* refuses shares that the device plug-in cannot give */
void kube_release_check(struct kube *q);   /* warns of releases that the cluster is too old for */
void kube_mps_users_check(struct kube *q); /* refuses users that MPS would not serve together */
/* How often the device plug-in offers each GPU of a group: 1 where it shares none. */
int64_t kube_shares(const struct kube *q, const struct spec_node *n);
/* Node groups whose GPUs are shared; their configurations below `key`; the group that shares, when
 * it is the only one with GPUs (else machines carry a label: ""). */
size_t kube_sharing_groups(const struct kube *q);
void kube_sharing_data(struct kube *q, struct yaml_out *y, const char *key);
const char *kube_sharing_default(const struct kube *q);
/* kubernetes_plugin.c: the device plug-in's own chart; does the machine itself cut its GPUs (MIG)?
 * Into what; and the script's function `mig`, which reads $mig. */
void kube_plugin_write(struct kube *q);
bool kube_cuts_gpus(const struct kube *q);
void kube_cut_of(const struct spec_node *n, struct buf *out);
void kube_cut_script(struct buf *out);

/* kubernetes_install.c: functions of the script, and the files of the cluster that it applies. */
void kube_install_script(struct kube *q, struct buf *out);
void kube_install_write(struct kube *q);
bool kube_fabric_used(const struct kube *q, const struct spec_fabric *f);
bool kube_mounted(const struct kube *q, const struct spec_storage *s);
/* kubernetes_queue.c: Kueue's queue, its flavors and topology; lines that label machines with
 * where they are; the level that pods of a component should share, NULL: none is known. */
void kube_queue_write(struct kube *q);
void kube_queue_labels(struct kube *q, struct buf *out);
const char *kube_queue_level(struct kube *q, const struct spec_component *c);

void kube_kustomize_write(struct kube *q);
/* Where a work's pod template stands in its object, as a JSON pointer. */
const char *kube_template_path(const struct kube_work *w);
const char *kube_kind_name(const struct kube_work *w);
#endif

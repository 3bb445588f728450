/* SPDX-License-Identifier: MIT */
/* kubernetes_work: a component as the object that runs it.
 *
 * A training component becomes what targets.kubernetes.job says, a batch one a Job, others a
 * Deployment, or a StatefulSet when each replica keeps a volume.  The pod is the same in all; what
 * differs is who numbers the pods and who names the first one:
 *
 *   Job, JobSet   JOB_COMPLETION_INDEX      NAME-0.NAME, NAME-workers-0-0.NAME
 *   StatefulSet   a label, else its name    NAME-0.NAME
 *   PyTorchJob    RANK of its operator      MASTER_ADDR of its operator
 *   TrainJob      PET_NODE_RANK of Trainer  PET_MASTER_ADDR of Trainer */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/containerfile_int.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

enum { TTL_S = 7 * 24 * 3600, RESTARTS_DEFAULT = 3 };

const char *kube_kind_name(const struct kube_work *w)
{
    static const char *const names[] = {
        [KUBE_JOB] = "Job",
        [KUBE_STATEFULSET] = "StatefulSet",
        [KUBE_PYTORCHJOB] = "PyTorchJob",
        [KUBE_TRAINJOB] = "TrainJob",
        [KUBE_JOBSET] = "JobSet",
        [KUBE_DEPLOYMENT] = "Deployment",
    };

    return names[w->kind];
}

const char *kube_template_path(const struct kube_work *w)
{
    static const char *const paths[] = {
        [KUBE_JOB] = "/spec/template",
        [KUBE_STATEFULSET] = "/spec/template",
        [KUBE_PYTORCHJOB] = "/spec/pytorchReplicaSpecs/Master/template",
        [KUBE_TRAINJOB] = NULL, /* the pod is the runtime's: other paths */
        [KUBE_JOBSET] = "/spec/replicatedJobs/0/template/spec/template",
        [KUBE_DEPLOYMENT] = "/spec/template",
    };

    return paths[w->kind];
}

/* ---- the pod ---- */

static void pod_make(struct kube *q, const struct kube_work *w, struct k8s_pod *pod)
{
    const struct spec_node *n = w->node;
    bool batch = w->kind != KUBE_DEPLOYMENT && w->kind != KUBE_STATEFULSET;

    k8s_pod_of(&q->k, w->c, w->kind == KUBE_STATEFULSET, pod);
    pod->readiness = !batch;
    pod->restart = batch ? "Never" : NULL;
    pod->spread_hard = feasible_apart(q->k.r->spec, w->c, FEASIBLE_KUBERNETES);
    if (w->kind == KUBE_JOB && w->launched)
        pod->subdomain = w->name;
    if (batch && w->pods > 1)
        pod->level = kube_queue_level(q, w->c);
    if (w->kind == KUBE_PYTORCHJOB)
        pod->container = "pytorch"; /* the name its operator looks for */
    if (w->c->training && w->c->training->checkpoint.on_notice && n)
        pod->grace_s = (n->notice_ms + 999) / 1000; /* for one more checkpoint */
    if (k8s_is_server(w->c))
        k8s_serve_pod(&q->k, w->c, pod);
    if (w->launched)
        kube_launch(q, w, pod);
}

/* ---- objects ---- */

static int64_t restart_limit(const struct kube_work *w)
{
    if (w->c->restart == SPEC_RESTART_NEVER)
        return 0;
    return w->c->training ? w->c->training->rendezvous.max_restarts : RESTARTS_DEFAULT;
}

static void put_head(struct kube *q, struct yaml_out *y, const char *api, const struct kube_work *w)
{
    bool job = w->kind != KUBE_DEPLOYMENT && w->kind != KUBE_STATEFULSET;

    if (w->c->description && k8s_comment_ok(w->c->description))
        yaml_comment(y, w->c->description);
    k8s_head_labels(&q->k, y, api, kube_kind_name(w), q->k.namespace, w->name, w->name);
    if (job && q->t->queue)
        render_str(q->k.r, y, "kueue.x-k8s.io/queue-name", q->t->queue, &q->t->queue);
    yaml_ends(y, 2);
}

/* Kueue holds each job with the label above from the moment it is made, and lets it in.  `suspend:
 * true` in the file would be set again by each apply, and that ends the pods of a running job. */
static void put_queued(struct kube *q, struct yaml_out *y)
{
    if (q->t->queue)
        yaml_comment(y, "no suspend here: Kueue sets it, and lifts it when every pod has room");
}

static void put_deadline(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    if (!w->c->time_limit_ms.known)
        return;
    render_int(q->k.r, y, "activeDeadlineSeconds", w->c->time_limit_ms.v / 1000,
               &w->c->time_limit_ms);
}

/* A machine that is drained or taken away is no fault of the job. */
static void failure_policy(struct yaml_out *y)
{
    yaml_open(y, "podFailurePolicy.rules[]");
    yaml_note(y, "a drained or reclaimed machine does not count as a failure");
    yaml_str(y, "action", "Ignore");
    yaml_seq(y, "onPodConditions");
    yaml_map_of(y, NULL, "type", "DisruptionTarget", "status", "True");
    yaml_ends(y, 4);
}

static void job_pods(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    yaml_note(y, "every pod has a number");
    yaml_str(y, "completionMode", "Indexed");
    yaml_note(y, k8s_pods_from(&q->k, w->c));
    yaml_int(y, "completions", w->pods);
    yaml_int(y, "parallelism", w->pods);
}

static void jobset_write(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                         const struct k8s_pod *pod)
{
    put_head(q, y, "jobset.x-k8s.io/v1alpha2", w);
    yaml_map(y, "spec");
    put_queued(q, y);
    yaml_map(y, "network");
    yaml_bool(y, "enableDNSHostnames", true);
    yaml_note(y, "pods find each other before they are ready");
    yaml_bool(y, "publishNotReadyAddresses", true);
    yaml_str(y, "subdomain", w->name);
    yaml_end(y);
    yaml_map(y, "failurePolicy");
    yaml_note(y, "a pod that fails restarts all of them together");
    yaml_int(y, "maxRestarts", restart_limit(w));
    /* A failure that no rule names starts all anew, the end of the time limit too: with as much
     * time as before. */
    if (w->c->time_limit_ms.known) {
        yaml_open(y, "rules[]");
        yaml_str(y, "name", "timelimit");
        render_str(q->k.r, y, "action", "FailJobSet", &w->c->time_limit_ms);
        yaml_seq_of(y, "onJobFailureReasons", "DeadlineExceeded");
        yaml_ends(y, 2);
    }
    yaml_end(y);
    yaml_int(y, "ttlSecondsAfterFinished", TTL_S);
    yaml_open(y, "replicatedJobs[]");
    yaml_str(y, "name", "workers");
    yaml_int(y, "replicas", 1);
    yaml_open(y, "template.spec");
    job_pods(q, y, w);
    yaml_note(y, "the JobSet counts restarts");
    yaml_int(y, "backoffLimit", 0);
    failure_policy(y);
    if (w->c->time_limit_ms.known && restart_limit(w))
        yaml_comment(y, "of each try: a restart of the JobSet makes this Job anew");
    put_deadline(q, y, w);
    k8s_template(&q->k, y, pod);
    yaml_ends(y, 5);
}

static void replica_spec(struct kube *q, struct yaml_out *y, const char *role, int64_t count,
                         const struct k8s_pod *pod)
{
    yaml_map(y, role);
    yaml_int(y, "replicas", count);
    render_str(q->k.r, y, "restartPolicy",
               pod->c->restart == SPEC_RESTART_NEVER ? "Never" : "OnFailure", &pod->c->restart);
    k8s_template(&q->k, y, pod);
    yaml_end(y);
}

static void pytorchjob_write(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                             struct k8s_pod *pod)
{
    put_head(q, y, "kubeflow.org/v1", w);
    pod->restart = NULL; /* the replica's, above it */
    yaml_map(y, "spec");
    yaml_note(y, render_from(q->k.r, &w->c->gpus));
    yaml_strf(y, "nprocPerNode", "%" PRId64, w->c->gpus > 0 ? w->c->gpus : (int64_t)1);
    yaml_map(y, "runPolicy");
    put_queued(q, y);
    yaml_int(y, "backoffLimit", restart_limit(w));
    yaml_str(y, "cleanPodPolicy", "Running");
    yaml_int(y, "ttlSecondsAfterFinished", TTL_S);
    put_deadline(q, y, w);
    yaml_end(y);
    yaml_map(y, "pytorchReplicaSpecs");
    replica_spec(q, y, "Master", 1, pod);
    if (w->pods > 1)
        replica_spec(q, y, "Worker", w->pods - 1, pod);
    yaml_ends(y, 2);
}

static void trainjob_write(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                           struct k8s_pod *pod)
{
    pod->container = "node"; /* its name in the runtime */
    put_head(q, y, "trainer.kubeflow.org/v1alpha1", w);
    yaml_map(y, "spec");
    yaml_map_of(y, "runtimeRef", "apiGroup", "trainer.kubeflow.org", "kind",
                "ClusterTrainingRuntime", "name", "torch-distributed");
    put_queued(q, y);
    put_deadline(q, y, w);
    yaml_map(y, "trainer");
    yaml_note(y, pod->image_from);
    yaml_str(y, "image", pod->image);
    k8s_words(&q->k, y, "command", &pod->command);
    k8s_words(&q->k, y, "args", &pod->args);
    k8s_env(&q->k, y, pod);
    yaml_note(y, k8s_pods_from(&q->k, w->c));
    yaml_int(y, "numNodes", w->pods);
    render_int(q->k.r, y, "numProcPerNode", w->c->gpus > 0 ? w->c->gpus : 1, &w->c->gpus);
    k8s_resources(&q->k, y, "resourcesPerNode", w->c);
    yaml_end(y);
    /* What a TrainJob may change of its runtime's pod; the runtime "torch-distributed" comes with
     * Trainer and makes a JobSet. */
    yaml_open(y, "runtimePatches[]");
    yaml_str(y, "manager", "stoker/render");
    yaml_open(y, "trainingRuntimeSpec.template.spec.replicatedJobs[]");
    yaml_str(y, "name", "node");
    yaml_open(y, "template.spec.template");
    k8s_template_meta(&q->k, y, pod);
    k8s_pod_patch(&q->k, y, pod);
    for (int i = 0; i < 3; i++)
        yaml_end(y);
    yaml_ends(y, 2);
    for (int i = 0; i < 3; i++)
        yaml_end(y);
    yaml_ends(y, 3);
}

/* A number here would be set again by each apply: over what an autoscaler chose, or somebody by
 * hand.  node-prepare.sh sets that of the spec when the object is new. */
static void put_replicas(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    if (kube_scaled(w)) {
        yaml_comment(y,
                     arena_printf(&q->k.arena, "no replicas here: %s changes them (%s)",
                                  w->c->scale->target.known ? "the scaler below" : "whoever scales",
                                  render_from(q->k.r, &w->c->scale)));
        return;
    }
    render_int(q->k.r, y, "replicas", w->pods, &w->c->replicas);
}

static void statefulset_write(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                              const struct k8s_pod *pod)
{
    bool keep = true;

    for (size_t i = 0; i < w->c->mount_count; i++) {
        const struct spec_storage *s = spec_storage_find(q->k.r->spec, w->c->mounts[i].storage);

        keep = keep && (!s || !k8s_per_replica(s) || s->keep);
    }
    put_head(q, y, "apps/v1", w);
    yaml_map(y, "spec");
    yaml_str(y, "serviceName", kube_headless(q, w));
    put_replicas(q, y, w);
    yaml_note(y, "no pod waits for the one before it");
    yaml_str(y, "podManagementPolicy", "Parallel");
    yaml_map(y, "persistentVolumeClaimRetentionPolicy");
    yaml_str(y, "whenDeleted", keep ? "Retain" : "Delete");
    yaml_note(y, keep ? "volumes survive scaling to zero" : NULL);
    yaml_str(y, "whenScaled", keep ? "Retain" : "Delete");
    yaml_end(y);
    yaml_map(y, "selector");
    k8s_match(&q->k, y, "matchLabels", w->name);
    yaml_end(y);
    k8s_template(&q->k, y, pod);
    k8s_claim_templates(&q->k, y, w->c);
    yaml_end(y);
}

void kube_strategy(struct yaml_out *y, const char *full)
{
    yaml_map(y, "strategy");
    yaml_str(y, "type", "RollingUpdate");
    yaml_map(y, "rollingUpdate");
    yaml_note(y, full);
    yaml_int(y, "maxSurge", full ? 0 : 1);
    yaml_int(y, "maxUnavailable", full ? 1 : 0);
    yaml_ends(y, 2);
}

static void deployment_write(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                             const struct k8s_pod *pod)
{
    bool gpu = w->c->gpus || k8s_shares_gpu(w->c);
    const char *full = gpu                                       ? KUBE_NO_GPU
                       : !feasible_spare(q->k.r->feasible, w->c) ? KUBE_NO_ROOM
                       : k8s_held_at_one(&q->k, w->c)            ? KUBE_HELD
                                                                 : NULL;

    put_head(q, y, "apps/v1", w);
    yaml_map(y, "spec");
    put_replicas(q, y, w);
    yaml_map(y, "selector");
    k8s_match(&q->k, y, "matchLabels", w->name);
    yaml_end(y);
    kube_strategy(y, full);
    k8s_template(&q->k, y, pod);
    yaml_end(y);
}

void kube_work_write(struct kube *q, const struct kube_work *w)
{
    struct buf *out = render_file(q->k.r, "kubernetes/base/component-%s.yaml", w->name);
    struct k8s_pod pod;
    struct yaml_out y;

    render_head(q->k.r, out, "#", arena_printf(&q->k.arena, "Component %s.", w->c->name));
    if (containerfile_for(q->k.r, w->c, "kubernetes/images", &q->k.arena))
        buf_addf(out, "# Its image: images/Containerfile.%s.\n", w->c->name);
    pod_make(q, w, &pod);
    yaml_begin(&y, out);
    switch (w->kind) {
    case KUBE_JOB:
        put_head(q, &y, "batch/v1", w);
        yaml_map(&y, "spec");
        job_pods(q, &y, w);
        yaml_note(&y, w->c->training ? render_from(q->k.r, &w->c->training->rendezvous.max_restarts)
                                     : render_from(q->k.r, &w->c->restart));
        yaml_int(&y, "backoffLimit", restart_limit(w) * (w->pods > 0 ? w->pods : 1));
        if (k8s_has(&q->k, K8S_POD_REPLACEMENT)) {
            yaml_note(&y, "its GPUs must be free first");
            yaml_str(&y, "podReplacementPolicy", "Failed");
        }
        failure_policy(&y);
        put_deadline(q, &y, w);
        yaml_int(&y, "ttlSecondsAfterFinished", TTL_S);
        put_queued(q, &y);
        k8s_template(&q->k, &y, &pod);
        yaml_end(&y);
        break;
    case KUBE_JOBSET:
        jobset_write(q, &y, w, &pod);
        break;
    case KUBE_PYTORCHJOB:
        pytorchjob_write(q, &y, w, &pod);
        break;
    case KUBE_TRAINJOB:
        trainjob_write(q, &y, w, &pod);
        break;
    case KUBE_STATEFULSET:
        statefulset_write(q, &y, w, &pod);
        break;
    case KUBE_DEPLOYMENT:
        deployment_write(q, &y, w, &pod);
        break;
    }
    yaml_finish(&y);
    kube_services(q, out, w);
    if (k8s_needs_budget(w->c))
        k8s_budget(&q->k, out, w->c);
    if (w->c->scale)
        kube_scaler(q, out, w);
    if (k8s_is_server(w->c))
        k8s_serve_spec(&q->k, out, w->c);
}

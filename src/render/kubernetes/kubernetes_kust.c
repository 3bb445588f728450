/* SPDX-License-Identifier: MIT */
/* kubernetes_kust: kustomize files.
 *
 *   base            everything that runs
 *   overlays/site   base, with what Prometheus reads: the site as the spec has it
 *   overlays/small  base cut down to one pod with one GPU a component and no second network, to
 *                   try each component with one pod: its node group is preferred and not
 *                   required, so that one machine may do, and nothing waits in a queue */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

static void put_kustomization(struct kube *q, struct yaml_out *y, struct buf *out, const char *what)
{
    render_head(q->k.r, out, "#", what);
    yaml_begin(y, out);
    yaml_str(y, "apiVersion", "kustomize.config.k8s.io/v1beta1");
    yaml_str(y, "kind", "Kustomization");
}

/* kustomize of kubectl 1.20 knows no `labels`, and nothing here needs it. */
static void base_write(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/base/kustomization.yaml");
    const struct spec *s = q->k.r->spec;
    struct yaml_out y;
    int minor;

    put_kustomization(q, &y, out, "Everything that runs; apply an overlay, not this.");
    if (q->k.by_name)
        yaml_comment(&y, "Components of other targets that have an image are here, too.");
    for (size_t i = 0; q->k.by_name && i < s->component_count; i++)
        if (!spec_kubernetes_takes(s, &s->components[i]))
            yaml_comment(&y, arena_printf(&q->k.arena, "Left out, since it has no image: %s (%s)",
                                          s->components[i].name,
                                          render_from(q->k.r, &s->components[i].name)));
    yaml_comment(&y, arena_printf(&q->k.arena, "For Kubernetes 1.%d (%s); what releases bring:",
                                  q->k.minor, render_from(q->k.r, &q->t->version)));
    for (size_t i = 0; k8s_feature_at(i, &minor); i++)
        yaml_comment(&y, arena_printf(&q->k.arena, "  1.%d %s: %s", minor,
                                      q->k.minor >= minor ? "used" : "not there",
                                      k8s_feature_at(i, &minor)));
    yaml_seq(&y, "resources");
    for (size_t i = 0; i < q->base_count; i++)
        yaml_str(&y, NULL, q->base[i]);
    for (size_t i = 0; i < q->work_count; i++)
        yaml_strf(&y, NULL, "component-%s.yaml", q->works[i].name);
    yaml_finish(&y);
}

/* Where the image with stoker in it comes from, when no component of the spec names one. */
static void put_images(struct kube *q, struct yaml_out *y)
{
    if (!str_eq(q->k.stoker_image, KUBE_STOKER_IMAGE) || (!q->agent && !q->serve && !q->launcher))
        return;
    yaml_open(y, "images[]");
    yaml_str(y, "name", KUBE_STOKER_IMAGE);
    yaml_note(y, "your registry's; targets.kubernetes.stoker_image names it for good");
    yaml_str(y, "newName", "stoker");
    yaml_str(y, "newTag", "latest");
    yaml_ends(y, 2);
}

static void site_write(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/overlays/site/kustomization.yaml");
    struct yaml_out y;

    put_kustomization(q, &y, out, "The site as the spec has it: kubectl apply -k overlays/site");
    yaml_seq(&y, "resources");
    yaml_str(&y, NULL, "../../base");
    for (size_t i = 0; i < q->site_count; i++)
        yaml_str(&y, NULL, q->site[i]);
    yaml_end(&y);
    put_images(q, &y);
    yaml_finish(&y);
}

/* ---- small ---- */

static void put_op(struct yaml_out *y, const char *what, const char *path)
{
    yaml_map(y, NULL);
    yaml_str(y, "op", what);
    yaml_str(y, "path", path);
}

static void op_int(struct kube *q, struct yaml_out *y, const char *path, const char *tail,
                   int64_t value)
{
    put_op(y, "replace", arena_printf(&q->k.arena, "%s%s", path, tail));
    yaml_int(y, "value", value);
    yaml_end(y);
}

static void op_str(struct kube *q, struct yaml_out *y, const char *path, const char *tail,
                   const char *value)
{
    put_op(y, "replace", arena_printf(&q->k.arena, "%s%s", path, tail));
    yaml_str(y, "value", value);
    yaml_end(y);
}

static void op_resources(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                         const char *path, const char *tail)
{
    static const char *const keys[] = { "requests", "limits" };

    put_op(y, "replace", arena_printf(&q->k.arena, "%s%s", path, tail));
    yaml_map(y, "value");
    for (size_t i = 0; i < 2; i++) {
        yaml_map(y, keys[i]);
        if (w->c->gpus || k8s_shares_gpu(w->c))
            yaml_int(y, k8s_gpu_resource(&q->k, spec_component_group(q->k.r->spec, w->c, 0)), 1);
        yaml_str(y, "cpu", i ? "4" : "1");
        yaml_str(y, "memory", i ? "16Gi" : "4Gi");
        yaml_end(y);
    }
    yaml_ends(y, 2);
}

static void op_remove(struct kube *q, struct yaml_out *y, const char *path, const char *tail)
{
    put_op(y, "remove", arena_printf(&q->k.arena, "%s%s", path, tail));
    yaml_end(y);
}

static bool has_networks(struct kube *q, const struct kube_work *w)
{
    struct buf nets = { 0 };
    bool any;

    k8s_networks(&q->k, w->c, &nets);
    any = nets.len > 0;
    buf_release(&nets);
    return any;
}

static void expression_of(struct yaml_out *y, const char *key)
{
    yaml_open(y, "matchExpressions[]");
    yaml_str(y, "key", key);
    yaml_str(y, "operator", "In");
    yaml_seq(y, "values");
}

static void expression_end(struct yaml_out *y)
{
    yaml_ends(y, 3);
}

/* Which kinds of machine its image is for, of all that its groups have. */
static void arch_require(struct yaml_out *y, const struct spec_node *const *groups, size_t count)
{
    static const char *const names[] = {
        [SPEC_ARCH_X86_64] = "amd64", [SPEC_ARCH_AARCH64] = "arm64"
    };
    bool seen[ARRAY_SIZE(names)] = { false };

    yaml_open(y, "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]");
    expression_of(y, "kubernetes.io/arch");
    for (size_t g = 0; g < count; g++)
        if (!seen[groups[g]->arch]) {
            seen[groups[g]->arch] = true;
            yaml_str(y, NULL, names[groups[g]->arch]);
        }
    expression_end(y);
    yaml_ends(y, 3);
}

/* `at`: the pod's template. */
static void op_groups(struct kube *q, struct yaml_out *y, const struct kube_work *w, const char *at)
{
    const struct spec_node **groups =
        arena_array(&q->k.arena, const struct spec_node *, q->k.r->spec->node_count + 1);
    size_t count = feasible_groups(q->k.r->spec, w->c, groups);

    if (!count)
        return;
    put_op(y, "replace", arena_printf(&q->k.arena, "%s/spec/affinity/nodeAffinity", at));
    yaml_map(y, "value");
    arch_require(y, groups, count);
    yaml_open(y, "preferredDuringSchedulingIgnoredDuringExecution[]");
    yaml_note(y, "another machine does where there is none of the group");
    yaml_int(y, "weight", 100);
    yaml_map(y, "preference");
    expression_of(y, K8S_GROUP_LABEL);
    for (size_t g = 0; g < count; g++)
        yaml_str(y, NULL, groups[g]->name);
    expression_end(y);
    yaml_ends(y, 5);
}

static void small_pod(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    const char *at = kube_template_path(w);

    op_resources(q, y, w, at, "/spec/containers/0/resources");
    if (w->launched) {
        op_str(q, y, at, "/spec/containers/0/env/0/value", "1");
        op_str(q, y, at, "/spec/containers/0/env/1/value", w->c->gpus ? "1" : "0");
    }
    op_groups(q, y, w, at);
    if (has_networks(q, w))
        op_remove(q, y, at, "/metadata/annotations");
}

static void small_trainjob(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    const char *pod = "/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/0"
                      "/template/spec/template";

    op_int(q, y, "/spec/trainer", "/numNodes", 1);
    op_int(q, y, "/spec/trainer", "/numProcPerNode", 1);
    op_resources(q, y, w, "/spec/trainer", "/resourcesPerNode");
    if (w->launched) {
        op_str(q, y, "/spec/trainer", "/env/0/value", "1");
        op_str(q, y, "/spec/trainer", "/env/1/value", w->c->gpus ? "1" : "0");
    }
    op_groups(q, y, w, pod);
    if (has_networks(q, w))
        op_remove(q, y, pod, "/metadata/annotations");
}

static void small_counts(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    const char *jobset = "/spec/replicatedJobs/0/template/spec";
    switch (w->kind) {
    case KUBE_JOB:
        op_int(q, y, "/spec", "/completions", 1);
        op_int(q, y, "/spec", "/parallelism", 1);
        break;
    case KUBE_JOBSET:
        op_int(q, y, jobset, "/completions", 1);
        op_int(q, y, jobset, "/parallelism", 1);
        break;
    case KUBE_PYTORCHJOB:
        op_str(q, y, "/spec", "/nprocPerNode", "1");
        if (w->pods > 1)
            op_remove(q, y, "/spec/pytorchReplicaSpecs", "/Worker");
        break;
    case KUBE_STATEFULSET:
    case KUBE_DEPLOYMENT:
        put_op(y, "add", "/spec/replicas"); /* also where the base names none */
        yaml_int(y, "value", 1);
        yaml_end(y);
        break;
    case KUBE_TRAINJOB:
        break;
    }
}

static void small_patch(struct kube *q, const struct kube_work *w)
{
    struct buf *out = render_file(q->k.r, "kubernetes/overlays/small/%s.yaml", w->name);
    struct yaml_out y;

    render_head(
        q->k.r, out, "#",
        arena_printf(&q->k.arena, "Component %s with one pod and at most one GPU.", w->c->name));
    yaml_begin(&y, out);
    y.seq[0] = true; /* the document is a list */
    small_counts(q, &y, w);
    /* Nobody is asked to let it in: Kueue may not be there. */
    if (q->t->queue && w->kind != KUBE_DEPLOYMENT && w->kind != KUBE_STATEFULSET) {
        put_op(&y, "remove", "/metadata/labels/kueue.x-k8s.io~1queue-name");
        yaml_end(&y);
    }
    if (w->kind == KUBE_TRAINJOB)
        small_trainjob(q, &y, w);
    else
        small_pod(q, &y, w);
    yaml_finish(&y);
}

static const char *api_group(const struct kube_work *w, const char **version)
{
    static const char *const rows[][2] = {
        [KUBE_JOB] = { "batch", "v1" },
        [KUBE_STATEFULSET] = { "apps", "v1" },
        [KUBE_PYTORCHJOB] = { "kubeflow.org", "v1" },
        [KUBE_TRAINJOB] = { "trainer.kubeflow.org", "v1alpha1" },
        [KUBE_JOBSET] = { "jobset.x-k8s.io", "v1alpha2" },
        [KUBE_DEPLOYMENT] = { "apps", "v1" },
    };

    *version = rows[w->kind][1];
    return rows[w->kind][0];
}

static void small_write(struct kube *q)
{
    struct buf *out = render_file(q->k.r, "kubernetes/overlays/small/kustomization.yaml");
    const char *version;
    struct yaml_out y;

    put_kustomization(
        q, &y, out,
        "One pod of each component, to try them, on a machine of its group or another: "
        "kubectl apply -k overlays/small");
    yaml_seq_of(&y, "resources", "../../base");
    if (q->work_count) {
        yaml_seq(&y, "patches");
        for (size_t i = 0; i < q->work_count; i++) {
            const struct kube_work *w = &q->works[i];

            yaml_map(&y, NULL);
            yaml_strf(&y, "path", "%s.yaml", w->name);
            yaml_map_of(&y, "target", "group", api_group(w, &version), "version", version, "kind",
                        kube_kind_name(w), "name", w->name);
            yaml_end(&y);
        }
        yaml_end(&y);
    }
    put_images(q, &y);
    yaml_finish(&y);
    for (size_t i = 0; i < q->work_count; i++)
        small_patch(q, &q->works[i]);
}

void kube_kustomize_write(struct kube *q)
{
    base_write(q);
    site_write(q);
    small_write(q);
}

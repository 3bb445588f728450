/* SPDX-License-Identifier: MIT */
/* check: what no single key can say: names that must exist, sums that must fit, values
 * that must agree.  Runs on what is right by itself (prune_faulty.c); reports at the value that
 * is to be mended.  Each function below is one rule, listed in rules[]. */
#include "base/args.h"
#include "base/str.h"
#include "os/net/address.h"
#include "os/net/url.h"
#include "spec/check/check_int.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>

enum {
    CHECK_PORTS_MAX = 4096, /* ports of a site compared with each other */
    CHECK_GPUS_MAX = 16     /* GPUs of a node: the schema's maximum */
};

/* --- NICs of a group that differ from the fabric's --- */
static void check_nics_names(struct check *c, const struct spec_node *n, const struct spec_nics *k,
                             const struct spec_nics_of *v)
{
    const struct {
        const struct spec_strs *names;
        const char *what;
    } lists[] = { { &k->interfaces, "interfaces" },
                  { &k->hcas, "RDMA devices" },
                  { &k->pfs, "interfaces with virtual functions" } };

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (lists[i].names->count && (int64_t)lists[i].names->count != v->count)
            ERROR(c, lists[i].names, "node group '%s' has %zu %s but %" PRId64 " NIC%s on '%s'",
                  n->name, lists[i].names->count, lists[i].what, v->count, v->count == 1 ? "" : "s",
                  k->fabric);
}

static void check_nics(struct check *c, const struct spec_node *n)
{
    for (size_t i = 0; i < n->nics_count; i++) {
        const struct spec_nics *k = &n->nics[i];
        const struct spec_fabric *f = spec_fabric_find(c->s, k->fabric);
        struct spec_nics_of v;

        if (!f || !spec_group_on(n, f)) {
            const char *near = str_nearest(k->fabric, n->fabrics.items, n->fabrics.count);

            ERROR(c, &k->fabric, "node group '%s' is not on a fabric '%s'", n->name, k->fabric);
            if (near)
                diag_hint(c->l, "Did you mean '%s'?", near);
            else
                diag_hint(c->l, "Its 'fabrics' names the networks that 'nics' may describe.");
            continue;
        }
        v = spec_group_nics(n, f);
        check_nics_names(c, n, k, &v);
        if (f->interfaces.count && !v.interfaces->count && f->kind != SPEC_FABRIC_INFINIBAND) {
            ERROR(c, v.count_at,
                  "node group '%s' has %" PRId64 " NIC%s on '%s', whose interfaces are %zu others",
                  n->name, v.count, v.count == 1 ? "" : "s", f->name, f->interfaces.count);
            diag_hint(c->l, "Name those of this group with 'interfaces'.");
        }
        if (f->subnets.count > 1 && v.count > (int64_t)f->subnets.count)
            ERROR(c, v.count_at,
                  "node group '%s' has %" PRId64 " NICs on '%s', which has %zu subnets", n->name,
                  v.count, f->name, f->subnets.count);
    }
}

static void check_domain(struct check *c, const struct spec_node *n)
{
    if (!n->nvlink_domain.known)
        return;
    if (!n->gpu || n->gpu->link == SPEC_LINK_PCIE) {
        ERROR(c, &n->nvlink_domain, "node group '%s' has an NVLink domain but no NVLink", n->name);
        diag_hint(c->l, "Set 'gpu.link'.");
    } else if (n->gpus_per_node && n->nvlink_domain.v % n->gpus_per_node) {
        ERROR(c, &n->nvlink_domain,
              "an NVLink domain of %" PRId64 " GPUs is not a multiple of the machine's %" PRId64,
              n->nvlink_domain.v, n->gpus_per_node);
    }
}

/* --- nodes --- */
static void check_nodes(struct check *c)
{
    for (size_t i = 0; i < c->s->node_count; i++) {
        const struct spec_node *n = &c->s->nodes[i];

        if (n->gpus_per_node && !n->gpu) {
            ERROR(c, &n->gpus_per_node, "node group '%s' has GPUs but does not say which", n->name);
            diag_hint(c->l, "Add 'gpu: {model: H200}' or the like.");
        }
        if (n->gpu && !n->gpus_per_node) {
            ERROR(c, &n->gpu->model, "node group '%s' describes a GPU but has none", n->name);
            diag_hint(c->l, "Add 'gpus_per_node: 8' or the like.");
        }
        if (n->gpu && n->gpu->mig_profile && n->gpu->sharing != SPEC_SHARING_MIG)
            ERROR(c, &n->gpu->mig_profile, "a MIG profile needs 'sharing: mig'");
        if (n->gpu && n->gpu->power_limit_w.known && n->gpu->power_w.known &&
            n->gpu->power_limit_w.v > n->gpu->power_w.v)
            ERROR(c, &n->gpu->power_limit_w,
                  "the power limit of %" PRId64 " W is above the board's %" PRId64 " W",
                  n->gpu->power_limit_w.v, n->gpu->power_w.v);
        if (n->fallback.count && n->capacity == SPEC_CAPACITY_OWNED) {
            ERROR(c, &n->fallback,
                  "machines that are owned have no instance types to fall back to");
            diag_hint(c->l, "Set 'capacity' to spot, on_demand or reserved.");
        }
        check_nics(c, n);
        check_domain(c, n);
    }
}

/* Rails are subnets of their own: whoever gives addresses counts within one, and a machine with two
 * NICs in one subnet answers for both on either. */
static void check_subnets(struct check *c, const struct spec_fabric *f)
{
    for (size_t i = 1; i < f->subnets.count; i++)
        for (size_t j = 0; j < i; j++)
            if (value_cidrs_meet(f->subnets.items[j], f->subnets.items[i])) {
                ERROR(
                    c, &f->subnets.items[i],
                    "subnets '%s' and '%s' of fabric '%s' have addresses in common: NICs would be "
                    "given the same",
                    f->subnets.items[j], f->subnets.items[i], f->name);
                diag_hint(c->l, "One subnet for all NICs is written once.");
                break;
            }
}

static void check_fabrics(struct check *c)
{
    for (size_t i = 0; i < c->s->fabric_count; i++) {
        const struct spec_fabric *f = &c->s->fabrics[i];

        if (f->interfaces.count && (int64_t)f->interfaces.count != f->nics_per_node)
            ERROR(c, &f->interfaces, "fabric '%s' has %zu interfaces but %" PRId64 " NICs a node",
                  f->name, f->interfaces.count, f->nics_per_node);
        if (f->hcas.count && (int64_t)f->hcas.count != f->nics_per_node)
            ERROR(c, &f->hcas, "fabric '%s' has %zu RDMA devices but %" PRId64 " NICs a node",
                  f->name, f->hcas.count, f->nics_per_node);
        if (f->subnets.count > 1 && (int64_t)f->subnets.count != f->nics_per_node)
            ERROR(c, &f->subnets, "fabric '%s' has %zu subnets but %" PRId64 " NICs a node",
                  f->name, f->subnets.count, f->nics_per_node);
        check_subnets(c, f);
        if (f->gid_index.known && f->kind != SPEC_FABRIC_ROCE)
            ERROR(c, &f->gid_index, "only a RoCE fabric has a GID to pin");
    }
}

/* --- GPUs --- */
/* Whether there are as many GPUs, CPUs ... as are asked for is plan/feasible.h's to say. */
static void check_group(struct check *c, const struct spec_component *k)
{
    if (!spec_component_group(c->s, k, 0) && !k->nodes && k->gpus) {
        ERROR(c, &k->gpus, "component '%s' does not say on which node group it runs", k->name);
        diag_hint(c->l,
                  c->s->node_count ? "Add 'nodes: %s' or another group."
                                   : "The spec has no nodes.%s",
                  c->s->node_count ? c->s->nodes[0].name : "");
    }
}

bool check_target_there(const struct spec *s, enum spec_target t)
{
    switch (t) {
    case SPEC_TARGET_SLURM:
        return s->targets.slurm;
    case SPEC_TARGET_KUBERNETES:
        return s->targets.kubernetes;
    case SPEC_TARGET_OPENSHIFT:
        return s->targets.openshift;
    case SPEC_TARGET_COMPOSE:
        return s->targets.compose;
    case SPEC_TARGET_SYSTEMD:
        return s->targets.systemd;
    default:
        return true;
    }
}

static bool target_is_pods(enum spec_target t)
{
    return t == SPEC_TARGET_KUBERNETES || t == SPEC_TARGET_OPENSHIFT;
}

static const char *target_word(enum spec_target t)
{
    static const char *const words[] = {
#define WORD_(id, text) text,
        SPEC_TARGETS(WORD_)
#undef WORD_
    };

    return words[t];
}

static bool runs_server(const struct spec_component *k)
{
    return k->kind == SPEC_COMPONENT_SERVING && !k->command.count;
}

/* What a pod that runs `stoker serve` is made of where it names no image; NULL: nothing. */
static const char *stoker_image_of(const struct spec *s, const struct spec_component *k)
{
    const struct spec_targets *t = &s->targets;

    if (!runs_server(k))
        return NULL;
    return k->target == SPEC_TARGET_KUBERNETES && t->kubernetes ? t->kubernetes->stoker_image
           : k->target == SPEC_TARGET_OPENSHIFT && t->openshift ? t->openshift->stoker_image
                                                                : NULL;
}

static void image_hint(struct check *c, const struct spec_component *k)
{
    const struct spec_targets *t = &c->s->targets;

    if (runs_server(k) && target_is_pods(k->target))
        diag_hint(c->l,
                  "It runs `stoker serve`: set 'targets.%s.stoker_image', or give it an image.",
                  target_word(k->target));
    else if (k->target == SPEC_TARGET_OPENSHIFT && t->openshift && t->openshift->build)
        diag_hint(c->l,
                  "The build's is 'image: image-registry.openshift-image-registry.svc:5000/%s/%s:"
                  "latest'.",
                  t->openshift->namespace, t->openshift->image_stream);
    else
        diag_hint(c->l, "Name a registry's, such as 'image: registry.example.org/%s:1'.", k->name);
}

static void check_target(struct check *c, const struct spec_component *k)
{
    bool queues = target_is_pods(k->target) || k->target == SPEC_TARGET_SLURM;

    if (!check_target_there(c->s, k->target)) {
        ERROR(c, &k->target, "component '%s' runs on %s, which 'targets' does not have", k->name,
              target_word(k->target));
        diag_hint(c->l, "Add '%s: {}' below 'targets'.", target_word(k->target));
    }
    if (k->queued && !queues)
        ERROR(c, &k->queued, "component '%s' cannot be queued: %s has no queue", k->name,
              target_word(k->target));
    if (!k->image && !stoker_image_of(c->s, k) &&
        (target_is_pods(k->target) || k->target == SPEC_TARGET_COMPOSE)) {
        ERROR(c, &k->name, "component '%s' has no image, and %s needs one", k->name,
              target_word(k->target));
        image_hint(c, k);
    }
    if ((k->partition || k->qos || k->account) && k->target != SPEC_TARGET_SLURM)
        ERROR(c,
              k->partition ? (const void *)&k->partition
              : k->qos     ? (const void *)&k->qos
                           : (const void *)&k->account,
              "component '%s' runs on %s: partition, QOS and account are Slurm's", k->name,
              target_word(k->target));
}

static void check_scale(struct check *c, const struct spec_component *k)
{
    const struct spec_scale *x = k->scale;
    struct spec_pos p;

    if (!x)
        return;
    if (x->min > x->max)
        ERROR(c, spec_where(c->s, &x->min).line ? &x->min : &x->max,
              "component '%s' scales to at least %" PRId64 " but at most %" PRId64 " replicas",
              k->name, x->min, x->max);
    else if (k->replicas < x->min || k->replicas > x->max) {
        p = spec_where(c->s, &k->replicas);
        ERROR(c, p.line ? &k->replicas : &x->max,
              "component '%s' starts with %" PRId64 " replicas, outside %" PRId64 " to %" PRId64,
              k->name, k->replicas, x->min, x->max);
    }
    if (x->zero_after_ms.known && x->min != 0)
        ERROR(c, &x->zero_after_ms, "component '%s' can only scale to zero with 'min: 0'", k->name);
    (void)check_metric_unit(c, &x->target, x->metric);
}

/* The planner still chooses how a language model is spread when no size is given. */
static bool is_planned(struct check *c, const struct spec_training *t)
{
    const struct spec_shape *h = spec_shape_find(c->s, t->shape);

    return h && (h->kind == SPEC_SHAPE_DENSE || h->kind == SPEC_SHAPE_MOE) &&
           !t->parallel.tensor.known && !t->parallel.pipeline.known && !t->parallel.context.known &&
           !t->parallel.data.known;
}

static void check_batch(struct check *c, const struct spec_component *k, int64_t data)
{
    const struct spec_training *t = k->training;
    int64_t copies = is_planned(c, t) ? 1 : data, whole;

    if (!t->global_batch.known || !t->batch_per_gpu.known)
        return;
    whole = t->batch_per_gpu.v * copies;
    if (t->global_batch.v % whole == 0)
        return;
    ERROR(c, &t->global_batch,
          "global batch %" PRId64 " is not a multiple of %" PRId64 " a GPU on %" PRId64
          " data-parallel GPU%s",
          t->global_batch.v, t->batch_per_gpu.v, copies, copies == 1 ? "" : "s");
    diag_hint(c->l, "%" PRId64 " would be.", (t->global_batch.v / whole + 1) * whole);
}

/* Tensor x pipeline x context must divide the GPUs. */
static void check_training(struct check *c, const struct spec_component *k)
{
    const struct spec_training *t = k->training;
    int64_t gpus = k->gpus * k->nodes_per_replica, group, data;

    if (!t)
        return;
    if (!gpus) {
        ERROR(c, &k->name, "component '%s' trains but asks for no GPUs", k->name);
        return;
    }
    group = maybe_or(t->parallel.tensor, 1) * maybe_or(t->parallel.pipeline, 1) *
            maybe_or(t->parallel.context, 1);
    if (gpus % group) {
        ERROR(c,
              t->parallel.tensor.known     ? &t->parallel.tensor
              : t->parallel.pipeline.known ? &t->parallel.pipeline
                                           : &t->parallel.context,
              "tensor x pipeline x context is %" PRId64 ", which does not divide the %" PRId64
              " GPUs of '%s'",
              group, gpus, k->name);
        return;
    }
    data = gpus / group;
    if (t->parallel.data.known && t->parallel.data.v != data)
        ERROR(c, &t->parallel.data,
              "data parallel size %" PRId64 " leaves GPUs over: %" PRId64 " / %" PRId64
              " is %" PRId64,
              t->parallel.data.v, gpus, group, data);
    check_batch(c, k, data);
}

static void check_egress(struct check *c, const struct spec_component *k)
{
    char cidr[SPEC_CIDR_MAX];
    int64_t port;

    for (size_t i = 0; i < k->egress.count; i++)
        if (!spec_egress(k->egress.items[i], cidr, &port)) {
            ERROR(c, &k->egress.items[i], "'%s' is not a subnet, with or without a port",
                  k->egress.items[i]);
            diag_hint(c->l, "Write 10.0.0.0/8, 10.0.0.7/32:5432 or 0.0.0.0/0:443.");
        }
}

static void check_mounts(struct check *c, const struct spec_component *k)
{
    for (size_t i = 0; i < k->mount_count; i++) {
        const struct spec_mount *m = &k->mounts[i];
        const struct spec_storage *s = spec_storage_find(c->s, m->storage);

        if (s && s->kind == SPEC_STORAGE_MEMORY && str_eq(m->path, "/dev/shm") &&
            s->size_bytes.known && k->shm_bytes.known && s->size_bytes.v != k->shm_bytes.v)
            check_doubt(c, &m->path, "Leave out 'shm', or the mount.",
                        "/dev/shm of '%s' is as large as 'shm' says: the size of '%s' is not "
                        "followed",
                        k->name, s->name);

        if (m->subpath && !str_path_inside(m->subpath)) {
            ERROR(c, &m->subpath, "'%s' leads out of the storage", m->subpath);
            diag_hint(c->l, "A folder below the storage, without '..'.");
        }
        for (size_t j = 0; j < i; j++)
            if (str_path_below(m->path, k->mounts[j].path) &&
                str_path_below(k->mounts[j].path, m->path))
                ERROR(c, &m->path, "'%s' is mounted twice in component '%s'", m->path, k->name);
    }
}

/* A name or a number, and a group behind ':'. */
static void check_user(struct check *c, const struct spec_component *k)
{
    const char *s = k->user ? k->user : "x";
    size_t parts = 1;
    bool ok = isalnum((unsigned char)*s) || *s == '_';

    for (; *s; s++) {
        bool colon = *s == ':';

        parts += colon;
        ok = ok && (isalnum((unsigned char)*s) || strchr("_.-@", *s) || (colon && s[1]));
    }
    if (!ok || parts > 2) {
        ERROR(c, &k->user, "'%s' is no user", k->user);
        diag_hint(c->l, "Write a name or a number, and a group behind ':': 1000, 1000:1000, app.");
    }
}

/* NCCL has one value of each for all RDMA devices of a process. */
static void check_roce(struct check *c, const struct spec_component *k)
{
    const struct spec_node *n = spec_component_group(c->s, k, 0);
    bool own = k->fabrics.count || !n || k->target != SPEC_TARGET_SLURM;
    struct spec_roce r = spec_roce_of(c->s, own ? &k->fabrics : &n->fabrics);

    if (k->gpus && r.gid_index_other)
        check_doubt(c, &r.gid_index_other->gid_index, "Use one GID index on both.",
                    "component '%s' is on '%s' and '%s', and NCCL has one GID index for all: that "
                    "of '%s' is used",
                    k->name, r.gid_index->name, r.gid_index_other->name, r.gid_index->name);
    if (k->gpus && r.traffic_class_other)
        check_doubt(c, &r.traffic_class_other->traffic_class, "Use one traffic class on both.",
                    "component '%s' is on '%s' and '%s', and NCCL has one traffic class for all: "
                    "that of '%s' is used",
                    k->name, r.traffic_class->name, r.traffic_class_other->name,
                    r.traffic_class->name);
}

/* CUDA enumerates one MIG instance in a process, however many the pod or job was given. */
static void check_instances(struct check *c, const struct spec_component *k)
{
    const struct spec_node *n = NULL;
    bool counted = target_is_pods(k->target) || k->target == SPEC_TARGET_SLURM;

    for (size_t i = 0; (n = spec_component_group(c->s, k, i)) != NULL; i++)
        if (n->gpu && n->gpu->sharing == SPEC_SHARING_MIG && n->gpu->mig_profile)
            break;
    if (n && counted && k->kind == SPEC_COMPONENT_TRAINING && k->gpus > 1)
        check_doubt(c, &k->gpus,
                    "Ask for one instance of a larger 'mig_profile', or for GPUs that are not cut.",
                    "component '%s' trains on %" PRId64
                    " MIG instances of '%s' at once: a CUDA process sees one, and ranks after the "
                    "first of a machine find no GPU",
                    k->name, k->gpus, n->name);
}

static void check_components(struct check *c)
{
    for (size_t i = 0; i < c->s->component_count; i++) {
        const struct spec_component *k = &c->s->components[i];

        check_group(c, k);
        check_target(c, k);
        check_scale(c, k);
        check_training(c, k);
        check_mounts(c, k);
        check_egress(c, k);
        check_user(c, k);
        check_roce(c, k);
        check_instances(c, k);
        for (size_t j = 1; j < k->groups.count; j++)
            for (size_t o = 0; o < j; o++)
                if (str_eq(k->groups.items[j], k->groups.items[o]))
                    ERROR(c, &k->groups.items[j], "component '%s' names node group '%s' twice",
                          k->name, k->groups.items[j]);
    }
}

/* --- pools --- */
/* What pools take of each GPU; one error a node group, at the pool that overflows it. */
static void check_pool_sums(struct check *c)
{
    char have[UNITS_TEXT_MAX], sum[UNITS_TEXT_MAX];
    struct arena a = { 0 };
    int64_t(*used)[CHECK_GPUS_MAX] =
        arena_array_bytes(&a, c->s->node_count + 1, sizeof(int64_t[CHECK_GPUS_MAX]));

    for (size_t i = 0; i < c->s->pool_count; i++) {
        const struct spec_pool *p = &c->s->pools[i];
        const struct spec_node *n =
            p->device == SPEC_POOL_CPU ? NULL : spec_node_of(c->s, p->nodes);
        int64_t total = n && n->gpu ? maybe_or(n->gpu->memory_bytes, 0) : 0;

        for (int64_t g = 0; total && g < n->gpus_per_node && g < CHECK_GPUS_MAX; g++) {
            int64_t *u = &used[n - c->s->nodes][g];
            bool was_full = *u > total;

            if (!spec_range_has(p->gpus, g))
                continue;
            *u += p->size_bytes; /* at most 4 TiB each and 10,000 of them */
            if (*u <= total || was_full)
                continue;
            ERROR(c, &p->size_bytes, "pools take %s of GPU %" PRId64 " of '%s', which has %s",
                  units_bytes_exact((uint64_t)*u, sum), g, n->name,
                  units_bytes_exact((uint64_t)total, have));
            break;
        }
    }
    arena_release(&a);
}

static void check_component_pools(struct check *c)
{
    for (size_t i = 0; i < c->s->component_count; i++) {
        const struct spec_component *k = &c->s->components[i];

        for (size_t j = 0; j < k->pools.count; j++) {
            const struct spec_pool *p = spec_pool_find(c->s, k->pools.items[j]);

            if (p && p->device == SPEC_POOL_CPU) {
                ERROR(c, &k->pools.items[j],
                      "component '%s' takes GPU memory, and pool '%s' is memory of the machine",
                      k->name, p->name);
                diag_hint(c->l, "Models name it in their 'pool'; 'memory' is the component's.");
            }
        }
    }
}

static void check_pools(struct check *c)
{
    for (size_t i = 0; i < c->s->pool_count; i++) {
        const struct spec_pool *p = &c->s->pools[i];
        const struct spec_node *n = spec_node_of(c->s, p->nodes);

        if (p->device == SPEC_POOL_CPU) {
            if (p->gpus)
                ERROR(c, &p->gpus, "pool '%s' is memory of the machine, not of its GPUs", p->name);
        } else if (!n && !p->nodes) {
            ERROR(c, &p->name, "pool '%s' does not say on which node group it is", p->name);
            diag_hint(c->l, "Add 'nodes:' with the name of a group that has GPUs, or 'device: cpu' "
                            "for memory of the machine.");
        } else if (n && !n->gpus_per_node) {
            ERROR(c, p->nodes ? (const void *)&p->nodes : (const void *)&p->name,
                  "pool '%s' is on '%s', which has no GPUs", p->name, n->name);
            diag_hint(c->l, "Set 'device: cpu' for memory of the machine.");
        } else if (n && p->gpus && !n->gpu) {
            continue;
        } else if (n && p->gpus) {
            for (int64_t g = n->gpus_per_node; g < 1024; g++)
                if (spec_range_has(p->gpus, g)) {
                    ERROR(c, &p->gpus, "'%s' has no GPU %" PRId64 ", only 0 to %" PRId64, n->name,
                          g, n->gpus_per_node - 1);
                    break;
                }
        }
    }
    check_pool_sums(c);
    check_component_pools(c);
}

/* --- ports --- */
struct port_use {
    const char *owner;                  /* component; NULL: the agent */
    const struct spec_component *where; /* the same */
    int64_t port;
    enum spec_protocol protocol;
    bool pods; /* has an address of its own */
    const void *at;
};

static bool share_a_group(const struct spec *s, const struct spec_component *a,
                          const struct spec_component *b)
{
    const struct spec_node *n;

    if (!spec_component_group_count(s, a) && !spec_component_group_count(s, b))
        return true; /* neither says where: both may be anywhere */
    for (size_t i = 0; (n = spec_component_group(s, a, i)) != NULL; i++)
        if (spec_component_on(s, b, n))
            return true;
    return false;
}

static bool ports_clash(const struct spec *s, const struct port_use *a, const struct port_use *b)
{
    if (a->port != b->port || a->protocol != b->protocol)
        return false;
    if (a->owner == b->owner)
        return true;
    if (a->pods || b->pods)
        return false;
    return !a->owner || !b->owner || share_a_group(s, a->where, b->where);
}

static void port_clash(struct check *c, const struct port_use *a, const struct port_use *b)
{
    bool dflt = spec_where(c->s, a->at).line == 0; /* then the other one is to be changed */

    if (a->owner == b->owner)
        ERROR(c, dflt ? b->at : a->at, "port %" PRId64 " is used twice by %s%s%s", a->port,
              a->owner ? "component '" : "the agent", a->owner ? a->owner : "",
              a->owner ? "'" : "");
    else
        ERROR(c, a->at, "port %" PRId64 " is used by component '%s' and by %s%s%s", a->port,
              a->owner, b->owner ? "component '" : "the agent", b->owner ? b->owner : "",
              b->owner ? "' on the same nodes" : " of every node");
}

static void check_ports(struct check *c)
{
    const struct spec *s = c->s;
    struct arena a = { 0 };
    struct port_use *v = arena_array(&a, struct port_use, CHECK_PORTS_MAX);
    size_t n = 0;

    if (s->agent.enabled) {
        v[n++] = (struct port_use){ .port = s->agent.port, .at = &s->agent.port };
        v[n++] = (struct port_use){ .port = s->agent.metrics_port, .at = &s->agent.metrics_port };
    }
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *k = &s->components[i];

        for (size_t j = 0; j < k->port_count && n < CHECK_PORTS_MAX; j++)
            v[n++] = (struct port_use){ .owner = k->name,
                                        .where = k,
                                        .port = k->ports[j].port,
                                        .protocol = k->ports[j].protocol,
                                        .pods = target_is_pods(k->target),
                                        .at = &k->ports[j].port };
    }
    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (ports_clash(s, &v[i], &v[j])) {
                port_clash(c, &v[i], &v[j]);
                break;
            }
    arena_release(&a);
}

/* --- models and the server --- */

/* f16 and fp8 are for GPUs.  A model that no component serves is on the CPU unless an option of the
 * server says otherwise. */
static void check_dtype(struct check *c, const struct spec_model *m, const struct spec_component *k)
{
    const char *type = m->dtype == SPEC_DTYPE_F16   ? "f16"
                       : m->dtype == SPEC_DTYPE_FP8 ? "fp8"
                                                    : NULL;
    bool gpu = m->device == SPEC_DEVICE_GPU || m->gpus || (k && (k->gpus || k->pools.count));
    bool cpu = spec_model_on_cpu(c->s, m), sure = cpu || k;

    if (!type || (gpu && !cpu))
        return;
    (sure ? check_fault
          : check_doubt)(c, &m->dtype,
                         sure ? "bf16 is as small as f16 on a CPU, and auto chooses by "
                                "the device."
                              : "Name its 'gpus', or set 'device: gpu'.",
                         "model '%s' runs on the CPU, which does not compute in %s", m->name, type);
}

/* A model's memory is where it runs. */
static void check_memory(struct check *c, const struct spec_model *m)
{
    const struct spec_pool *p = m->pool ? spec_pool_find(c->s, m->pool) : NULL;
    bool of_cpu = p && p->device == SPEC_POOL_CPU;

    if (m->device == SPEC_DEVICE_CPU && (m->gpus || (p && !of_cpu))) {
        ERROR(c, m->gpus ? (const void *)&m->gpus : (const void *)&m->pool,
              "model '%s' runs on the CPU and has no GPU memory", m->name);
        if (!m->gpus)
            diag_hint(c->l, "Give it a pool with 'device: cpu'.");
    }
    if (of_cpu && (m->device == SPEC_DEVICE_GPU || m->gpus))
        ERROR(c, &m->pool, "model '%s' runs on GPUs, and pool '%s' is memory of the machine",
              m->name, p->name);
}

static void check_models(struct check *c)
{
    for (size_t i = 0; i < c->s->model_count; i++) {
        const struct spec_model *m = &c->s->models[i];
        const struct spec_component *k = spec_component_find(c->s, m->component);

        if (k && k->kind != SPEC_COMPONENT_SERVING) {
            ERROR(c, &m->component, "component '%s' does not serve models", k->name);
            diag_hint(c->l, "Set its 'kind' to serving.");
        }
        check_memory(c, m);
        if (k && m->device == SPEC_DEVICE_GPU && !k->gpus && !k->pools.count)
            ERROR(c, &m->device, "model '%s' wants a GPU, but component '%s' has none", m->name,
                  k->name);
        check_dtype(c, m, k);
        for (size_t j = 0; j < m->aliases.count; j++)
            for (size_t o = 0; o < c->s->model_count; o++)
                if (str_eq(m->aliases.items[j], c->s->models[o].name))
                    ERROR(c, &m->aliases.items[j], "alias '%s' is the name of a model",
                          m->aliases.items[j]);
    }
}

/* One that no browser sends would allow nobody. */
static void check_origins(struct check *c, const struct spec_strs *origins)
{
    for (size_t i = 0; i < origins->count; i++) {
        struct err err = { 0 };

        if (i == ARGS_REPEAT_MAX)
            ERROR(c, &origins->items[i], "an origin above %d, which is as many as are taken",
                  ARGS_REPEAT_MAX);
        else if (i < ARGS_REPEAT_MAX && url_check_origin(origins->items[i], &err))
            check_fault(c, &origins->items[i], err.hint, "%s", err.msg);
    }
}

static void check_listen(struct check *c)
{
    const struct spec_serve *v = &c->s->serve;
    const struct spec_agent *g = &c->s->agent;

    if (!address_text_is_loopback(v->listen) && !v->token_file) {
        ERROR(c, &v->listen, "the model server listens on '%s' without a token", v->listen);
        diag_hint(c->l, "Add 'token_file', or listen on 127.0.0.1.");
    }
    if (!address_text_is_loopback(g->listen) && !g->token_file) {
        ERROR(c, &g->listen, "the agent listens on '%s' without a token", g->listen);
        diag_hint(c->l, "Add 'token_file', or listen on 127.0.0.1.");
    }
    check_origins(c, &v->allow_origin);
    if (!v->tls_cert != !v->tls_key)
        ERROR(c, v->tls_cert ? (const void *)&v->tls_cert : (const void *)&v->tls_key,
              "TLS needs both 'tls_cert' and 'tls_key'");
    if (!g->tls_cert != !g->tls_key)
        ERROR(c, g->tls_cert ? (const void *)&g->tls_cert : (const void *)&g->tls_key,
              "TLS needs both 'tls_cert' and 'tls_key'");
}

/* --- money --- */
static void check_budget(struct check *c, const struct spec_money *day,
                         const struct spec_money *month, const char *whose)
{
    char d[UNITS_TEXT_MAX], m[UNITS_TEXT_MAX];

    if (!day->known || !month->known || month->micro >= day->micro)
        return;
    ERROR(c, month, "the budget of %s is less a month (%s) than a day (%s)", whose,
          units_money_exact(month->micro, month->per, m),
          units_money_exact(day->micro, day->per, d));
}

static void check_money(struct check *c)
{
    const struct spec_budgets *b = &c->s->budgets;
    char whose[SPEC_NAME_MAX + 16];

    check_budget(c, &b->day, &b->month, "the site");
    for (size_t i = 0; i < b->component_count; i++) {
        snprintf(whose, sizeof(whose), "'%s'", b->components[i].name);
        check_budget(c, &b->components[i].day, &b->components[i].month, whose);
    }
}

static void check_shapes(struct check *c)
{
    for (size_t i = 0; i < c->s->shape_count; i++) {
        const struct spec_shape *h = &c->s->shapes[i];

        if (h->heads.known && h->hidden.known && h->hidden.v % h->heads.v)
            ERROR(c, &h->heads, "%" PRId64 " heads do not divide the hidden size %" PRId64,
                  h->heads.v, h->hidden.v);
        if (h->kv_heads.known && h->heads.known && h->heads.v % h->kv_heads.v)
            ERROR(c, &h->kv_heads,
                  "%" PRId64 " key and value heads do not divide %" PRId64 " heads", h->kv_heads.v,
                  h->heads.v);
        if (h->experts.known && h->kind != SPEC_SHAPE_MOE)
            ERROR(c, &h->experts, "only a shape of kind moe has experts");
        if (h->experts.known && h->experts_per_token.known && h->experts_per_token.v > h->experts.v)
            ERROR(c, &h->experts_per_token,
                  "each token goes through %" PRId64 " of %" PRId64 " experts",
                  h->experts_per_token.v, h->experts.v);
    }
}

static void check_traffic(struct check *c)
{
    for (size_t i = 0; i < c->s->traffic_count; i++) {
        const struct spec_traffic *t = &c->s->traffic[i];

        if (!t->rate_bps.known && !t->bytes_per_step.known) {
            ERROR(c, &t->from, "traffic from '%s' to '%s' does not say how much", t->from, t->to);
            diag_hint(c->l, "Add 'rate' or 'bytes_per_step'.");
        }
    }
}

static void check_slurm(struct check *c)
{
    const struct spec_slurm *s = c->s->targets.slurm;
    const struct spec_partition *first = NULL;

    for (size_t i = 0; s && i < s->partition_count; i++) {
        const struct spec_partition *p = &s->partitions[i];

        if (p->is_default && first)
            ERROR(c, &p->is_default, "partitions '%s' and '%s' are both the default", first->name,
                  p->name);
        if (p->is_default && !first)
            first = p;
        if (p->time_limit_ms.known && p->default_time_ms.known &&
            p->default_time_ms.v > p->time_limit_ms.v)
            ERROR(c, &p->default_time_ms,
                  "the default time of partition '%s' is above its time limit", p->name);
        if (p->time_limit_ms.known && s->backfill.enabled &&
            spec_where(c->s, &s->backfill.window_ms).line &&
            p->time_limit_ms.v > s->backfill.window_ms) {
            char w[UNITS_TEXT_MAX];

            ERROR(c, &p->time_limit_ms,
                  "jobs of partition '%s' may outlast the backfill window (%s)", p->name,
                  units_duration_exact((uint64_t)s->backfill.window_ms, w));
            diag_hint(c->l, "Raise 'targets.slurm.backfill.window' to the longest time limit.");
        }
    }
    if (c->s->targets.lustre && strlen(c->s->targets.lustre->fsname) > 8)
        ERROR(c, &c->s->targets.lustre->fsname,
              "the name of a Lustre file system has at most 8 characters, not '%s'",
              c->s->targets.lustre->fsname);
}

/* Names first: the other rules look things up by them. */
static void (*const rules[])(struct check *c) = {
    check_names,  check_nodes,      check_fabrics,   check_components,  check_pools,
    check_ports,  check_models,     check_listen,    check_thresholds,  check_money,
    check_shapes, check_traffic,    check_slurm,     check_hosts,       check_switches,
    check_images, check_gpu_models, check_addresses, check_serve_ports, check_depends,
    check_places, check_served,     check_writes,
};

static void fault_add(struct check *c, const void *at, const char *hint, bool doubt,
                      const char *fmt, va_list ap)
{
    struct buf b = { 0 };

    buf_vaddf(&b, fmt, ap);
    if (doubt) {
        spec_diag_warn_at(c->l->diags, c->s, at, hint, "%s", buf_str(&b));
    } else {
        ERROR(c, at, "%s", buf_str(&b));
        if (hint)
            diag_hint(c->l, "%s", hint);
    }
    buf_release(&b);
}

void check_fault(struct check *c, const void *at, const char *hint, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fault_add(c, at, hint, false, fmt, ap);
    va_end(ap);
}

void check_doubt(struct check *c, const void *at, const char *hint, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fault_add(c, at, hint, true, fmt, ap);
    va_end(ap);
}

/* Does it compare with what the file says of the agent and the model server? */
static bool rule_needs_servers(void (*rule)(struct check *c))
{
    return rule == check_ports || rule == check_listen || rule == check_serve_ports ||
           rule == check_addresses;
}

void check_agree(struct check *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (!c->gaps.servers || !rule_needs_servers(rules[i]))
            rules[i](c);
}

bool spec_check_names(struct load *l, const struct spec *s)
{
    size_t before = l->diags->count;

    check_refs(&(struct check){ .l = l, .s = s, .faulty = before > 0 });
    return l->diags->count == before;
}

void spec_check(struct load *l, const struct spec *s)
{
    check_agree(&(struct check){ .l = l, .s = s });
}

/* SPDX-License-Identifier: MIT */
/* derive: defaults that depend on other values of the file.
 *
 * A schema row has one default for every site.  Some have none that is true everywhere: an H100 is
 * joined by NVLink, an L40S is not; the machines of a GB200 have Arm CPUs.  What the file leaves
 * open there is taken from the catalogue (data/gpus.csv) once everything is bound; a GPU that the
 * catalogue does not have keeps the row's default.  Here too are the questions whose answer is put
 * together from several members: the NICs of a group on a fabric, the groups of a component. */
#include "base/str.h"
#include "catalog/catalog.h"
#include "spec/spec_int.h"

static enum spec_link link_of(const struct cat_gpu *g)
{
    switch (cat_gpu_nvlink(g)) {
    case 2:
        return SPEC_LINK_NVLINK2;
    case 3:
        return SPEC_LINK_NVLINK3;
    case 4:
        return SPEC_LINK_NVLINK4;
    case 5:
        return SPEC_LINK_NVLINK5;
    default:
        return SPEC_LINK_PCIE;
    }
}

/* slurmdbd is beside slurmctld; backfill looks as far as the longest job: one that ends behind the
 * window is started in front of whom it delays. */
static void slurm_derive(const struct spec *s, struct spec_slurm *t)
{
    if (!spec_where(s, &t->accounting.host).line)
        t->accounting.host = t->controller;
    if (spec_where(s, &t->backfill.window_ms).line)
        return;
    for (size_t i = 0; i < t->partition_count; i++) {
        int64_t limit = maybe_or(t->partitions[i].time_limit_ms, 0);

        if (limit > t->backfill.window_ms)
            t->backfill.window_ms = limit < SPEC_BACKFILL_MAX_MS ? limit : SPEC_BACKFILL_MAX_MS;
    }
}

void spec_derive(struct spec *s)
{
    struct arena a = { 0 };
    struct cat_gpu_table t;

    for (size_t i = 0; i < s->fabric_count; i++) {
        struct spec_fabric *f = &s->fabrics[i];

        f->nics_most = f->nics_per_node;
        for (size_t k = 0; k < s->node_count; k++) {
            int64_t count = spec_group_nics(&s->nodes[k], f).count;

            f->nics_most = count > f->nics_most ? count : f->nics_most;
        }
    }
    if (cat_gpu_load(&a, &t, NULL))
        t = (struct cat_gpu_table){ 0 };
    for (size_t i = 0; i < s->node_count; i++) {
        struct spec_node *n = &s->nodes[i];
        const struct cat_gpu *g = n->gpu ? cat_gpu_named(&t, n->gpu->model, NULL) : NULL;

        if (g && !spec_where(s, &n->gpu->link).line)
            n->gpu->link = link_of(g);
        if (g && !spec_where(s, &n->arch).line && cat_gpu_is_grace(g))
            n->arch = SPEC_ARCH_AARCH64;
        if (n->arch == SPEC_ARCH_AARCH64 && !spec_where(s, &n->threads_per_core).line)
            n->threads_per_core = 1; /* Grace and its like have no SMT */
    }
    for (size_t i = 0; i < s->component_count; i++) {
        struct spec_component *c = &s->components[i];

        /* work that ends: one that is done is not begun again */
        if ((c->kind == SPEC_COMPONENT_BATCH || c->kind == SPEC_COMPONENT_TRAINING) &&
            !spec_where(s, &c->restart).line)
            c->restart = SPEC_RESTART_ON_FAILURE;
    }
    if (s->targets.slurm)
        slurm_derive(s, s->targets.slurm);
    arena_release(&a);
}

bool spec_model_is_fetched(const struct spec_model *m)
{
    return m->source[0] != '/' && m->source[0] != '.' && m->source[0] != '~';
}

/* --- the groups of a component --- */
size_t spec_component_group_count(const struct spec *s, const struct spec_component *c)
{
    return c->groups.count ? c->groups.count : spec_node_of(s, c->nodes) ? 1 : 0;
}

const struct spec_node *spec_component_group(const struct spec *s, const struct spec_component *c,
                                             size_t i)
{
    if (c->groups.count)
        return i < c->groups.count ? spec_node_find(s, c->groups.items[i]) : NULL;
    return i == 0 ? spec_node_of(s, c->nodes) : NULL;
}

bool spec_kubernetes_takes_others(const struct spec *s)
{
    const struct spec_kubernetes *k = s->targets.kubernetes;

    if (k && k->components != SPEC_TAKES_AUTO)
        return k->components == SPEC_TAKES_ALL;
    for (size_t i = 0; i < s->component_count; i++)
        if (s->components[i].target == SPEC_TARGET_KUBERNETES)
            return false;
    return true;
}

bool spec_kubernetes_takes(const struct spec *s, const struct spec_component *c)
{
    return c->target == SPEC_TARGET_KUBERNETES || (c->image && spec_kubernetes_takes_others(s));
}

bool spec_component_on(const struct spec *s, const struct spec_component *c,
                       const struct spec_node *n)
{
    const struct spec_node *one;

    for (size_t i = 0; (one = spec_component_group(s, c, i)) != NULL; i++)
        if (one == n)
            return true;
    return false;
}

/* --- the NICs of a group --- */
bool spec_group_on(const struct spec_node *n, const struct spec_fabric *f)
{
    for (size_t i = 0; i < n->fabrics.count; i++)
        if (str_eq(n->fabrics.items[i], f->name))
            return true;
    return false;
}

struct spec_roce spec_roce_of(const struct spec *s, const struct spec_strs *fabrics)
{
    struct spec_roce r = { 0 };

    for (size_t i = 0; i < fabrics->count; i++) {
        const struct spec_fabric *f = spec_fabric_find(s, fabrics->items[i]);

        if (!f || f->kind != SPEC_FABRIC_ROCE)
            continue;
        if (f->gid_index.known && !r.gid_index)
            r.gid_index = f;
        else if (f->gid_index.known && f->gid_index.v != r.gid_index->gid_index.v)
            r.gid_index_other = f;
        if (f->traffic_class.known && !r.traffic_class)
            r.traffic_class = f;
        else if (f->traffic_class.known && f->traffic_class.v != r.traffic_class->traffic_class.v)
            r.traffic_class_other = f;
    }
    return r;
}

struct spec_nics_of spec_group_nics(const struct spec_node *n, const struct spec_fabric *f)
{
    static const struct spec_strs none;
    struct spec_nics_of v = { .count = f->nics_per_node,
                              .rate_bps = f->rate_bps,
                              .interfaces = &f->interfaces,
                              .hcas = &f->hcas,
                              .pfs = f->sriov ? &f->sriov->pfs : &none,
                              .count_at = &f->nics_per_node,
                              .rate_at = &f->rate_bps };
    const struct spec_nics *own = NULL;

    for (size_t i = 0; n && i < n->nics_count; i++)
        if (str_eq(n->nics[i].fabric, f->name))
            own = &n->nics[i];
    if (!own)
        return v;
    if (own->rate_bps.known) {
        v.rate_bps = own->rate_bps.v;
        v.rate_at = &own->rate_bps;
    }
    if (own->interfaces.count)
        v.interfaces = &own->interfaces;
    if (own->hcas.count)
        v.hcas = &own->hcas;
    if (own->pfs.count)
        v.pfs = &own->pfs;
    if (own->count.known || own->interfaces.count || own->hcas.count) {
        v.count = own->count.known        ? own->count.v
                  : own->interfaces.count ? (int64_t)own->interfaces.count
                                          : (int64_t)own->hcas.count;
        v.count_at = own->count.known        ? (const void *)&own->count
                     : own->interfaces.count ? (const void *)&own->interfaces
                                             : (const void *)&own->hcas;
    }
    /* names of the fabric that are not as many as this group's NICs are other machines' */
    if ((int64_t)v.interfaces->count != v.count && v.interfaces == &f->interfaces)
        v.interfaces = &none;
    if ((int64_t)v.hcas->count != v.count && v.hcas == &f->hcas)
        v.hcas = &none;
    return v;
}

int64_t spec_group_nvlink_gpus(const struct spec_node *n)
{
    if (!n->gpu || n->gpu->link == SPEC_LINK_PCIE)
        return 1;
    return maybe_or(n->nvlink_domain, n->gpus_per_node);
}

bool spec_storage_is_shared_fs(enum spec_storage_kind k)
{
    return k == SPEC_STORAGE_LUSTRE || k == SPEC_STORAGE_NFS || k == SPEC_STORAGE_GPFS ||
           k == SPEC_STORAGE_WEKA || k == SPEC_STORAGE_BEEGFS || k == SPEC_STORAGE_CEPH;
}

bool spec_egress(const char *text, char out_cidr[SPEC_CIDR_MAX], int64_t *out_port)
{
    const char *slash = strchr(text, '/'), *colon = slash ? strchr(slash, ':') : NULL;
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    char cidr[SPEC_CIDR_MAX];
    int64_t port = 0;

    if (len >= sizeof(cidr))
        return false;
    (void)snprintf(cidr, sizeof(cidr), "%.*s", (int)len, text);
    if (!value_cidr_ok(cidr))
        return false;
    if (colon && (!str_to_i64(colon + 1, 10, &port) || port < 1 || port > UINT16_MAX))
        return false;
    memcpy(out_cidr, cidr, sizeof(cidr));
    *out_port = port;
    return true;
}

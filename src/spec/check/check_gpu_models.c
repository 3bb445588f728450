/* SPDX-License-Identifier: MIT */
/* check_gpu_models: what the catalogue knows of the GPUs that a spec names: that there is such a
 * model, the MIG profiles it has, its memory and power against what the spec says of them, and its
 * memory against the pools where the spec gives none.
 *
 * A GPU that the catalogue does not have can be described: with 'memory' given nothing else of the
 * catalogue is needed, and the name is then only doubted. */
#include "base/str.h"
#include "catalog/catalog.h"
#include "spec/check/check_int.h"

#include <ctype.h>
#include <inttypes.h>

enum { CHECK_GPUS_MAX = 16 }; /* GPUs of a node: the schema's maximum */

/* ---- pools, where the spec leaves the GPU's memory to the catalogue ---- */

static int64_t catalogue_bytes(const struct cat_gpu *g, const struct spec_node *n)
{
    return n->gpu->memory_bytes.known ? 0 : maybe_or(g->mem_mib, 0) << 20;
}

static void check_pools_of(struct check *c, const struct cat_gpu *cat, const struct spec_node *n)
{
    char sum[UNITS_TEXT_MAX], have[UNITS_TEXT_MAX];
    int64_t used[CHECK_GPUS_MAX] = { 0 }, total = catalogue_bytes(cat, n);

    for (size_t i = 0; total && i < c->s->pool_count; i++) {
        const struct spec_pool *p = &c->s->pools[i];

        for (int64_t g = 0; g < n->gpus_per_node && g < CHECK_GPUS_MAX; g++) {
            if (p->device == SPEC_POOL_CPU || spec_node_of(c->s, p->nodes) != n ||
                !spec_range_has(p->gpus, g))
                continue;
            used[g] += p->size_bytes;
            if (used[g] <= total)
                continue;
            check_fault(c, &p->size_bytes, "Set 'gpu.memory' where the catalogue is wrong.",
                        "pools take %s of GPU %" PRId64 " of '%s', and a %s has %s",
                        units_bytes_exact((uint64_t)used[g], sum), g, n->name, n->gpu->model,
                        units_bytes_human((uint64_t)total, have));
            return;
        }
    }
}

/* The short name of each GPU, as a spec would have it. */
static void models_list(const struct cat_gpu_table *t, struct buf *out)
{
    for (size_t i = 0, n = 0; i < t->count; i++) {
        const char *names = t->rows[i].alias ? t->rows[i].alias : "";
        size_t len = strcspn(names, "|");

        if (len && n++)
            buf_adds(out, ", ");
        for (size_t k = 0; k < len; k++)
            buf_addc(out, (char)toupper((unsigned char)names[k]));
    }
}

/* With 'memory' given it is a GPU of the site's own, and a warning; nothing else of the catalogue
 * is needed for it. */
static void check_unknown(struct check *c, const struct cat_gpu_table *t, const struct spec_node *n,
                          const char *near)
{
    bool described = n->gpu->memory_bytes.known;
    struct buf hint = { 0 };

    if (near) {
        buf_addf(&hint, "Did you mean '%s'?", near);
    } else {
        buf_adds(&hint, "It has ");
        models_list(t, &hint);
        buf_addc(&hint, '.');
    }
    if (described)
        buf_adds(&hint, " What the spec says of it is all that is known.");
    else
        buf_adds(&hint, " Give 'memory' and 'link' of a GPU that it does not have.");
    (described ? check_doubt : check_fault)(c, &n->gpu->model, buf_str(&hint),
                                            "the catalogue has no GPU '%s'", n->gpu->model);
    buf_release(&hint);
}

static void check_mig(struct check *c, const struct cat_gpu *g, const struct spec_node *n)
{
    const char *profile = n->gpu->mig_profile;
    struct maybe fit = cat_mig_instances(g, profile ? profile : "");
    struct buf list = { 0 }, hint = { 0 };

    cat_mig_list(g, &list);
    buf_addf(&hint, "It has %s.", buf_str(&list));
    if (n->gpu->sharing != SPEC_SHARING_MIG || !fit.known || fit.v > 0)
        ; /* not asked for, not known, or there */
    else if (!list.len)
        check_fault(c, &n->gpu->sharing, "Share it by mps or time_slicing.", "the %s has no MIG",
                    g->name);
    else if (profile)
        check_fault(c, &n->gpu->mig_profile, buf_str(&hint), "the %s has no MIG profile '%s'",
                    g->name, profile);
    buf_release(&list);
    buf_release(&hint);
}

/* The catalogue has the NVLink of a model; a card without one, or of another generation, is a slip
 * of the pen more often than a new card, but it may be one.  Cards that take bridges have none
 * unless the site says so, and then the generation that the card is made for. */
static void check_link(struct check *c, const struct cat_gpu *g, const struct spec_node *n)
{
    int have = (int)maybe_or(g->nvlink_gen, 0), said = 0;

    if (n->gpu->link == SPEC_LINK_NVLINK2)
        said = 2;
    else if (n->gpu->link == SPEC_LINK_NVLINK3)
        said = 3;
    else if (n->gpu->link == SPEC_LINK_NVLINK4)
        said = 4;
    else if (n->gpu->link == SPEC_LINK_NVLINK5)
        said = 5;
    if (said && said != have && have)
        check_doubt(c, &n->gpu->link, "Leave 'link' out to have the catalogue's.",
                    "the %s has NVLink %d, not %d", g->name, have, said);
    else if (said && !have)
        check_doubt(c, &n->gpu->link, "Leave 'link' out to have the catalogue's.",
                    "the %s has no NVLink", g->name);
}

/* The model of the catalogue that is named like this one and has so much memory; NULL: none. */
static const struct cat_gpu *sibling_find(const struct cat_gpu_table *t, const struct cat_gpu *g,
                                          int64_t bytes)
{
    size_t word = strcspn(g->name, " ");

    for (size_t i = 0; i < t->count; i++)
        if (!strncmp(t->rows[i].name, g->name, word + 1) && t->rows[i].mem_gb.known &&
            cat_gpu_memory_is(&t->rows[i], bytes))
            return &t->rows[i];
    return NULL;
}

static void check_memory(struct check *c, const struct cat_gpu_table *t, const struct cat_gpu *g,
                         const struct spec_node *n)
{
    const struct maybe want = n->gpu->memory_bytes;
    const struct cat_gpu *other;
    struct buf hint = { 0 };
    char said[UNITS_TEXT_MAX];

    if (!want.known || cat_gpu_memory_is(g, want.v))
        return;
    other = sibling_find(t, g, want.v);
    if (other && other->alias && *other->alias)
        buf_addf(&hint, "The %s has so much: name it '%.*s'.", other->name,
                 (int)strcspn(other->alias, "|"), other->alias);
    else
        buf_adds(&hint, "Leave 'memory' out to have the catalogue's.");
    check_doubt(c, &n->gpu->memory_bytes, buf_str(&hint),
                "the %s has %" PRId64 "GB of memory, not %s", g->name, g->mem_gb.v,
                units_bytes_exact((uint64_t)want.v, said));
    buf_release(&hint);
}

/* A data centre's card takes no limit above its power; GeForce cards do. */
static void check_power(struct check *c, const struct cat_gpu *g, const struct spec_node *n)
{
    bool geforce = str_starts(g->name, "RTX ") && isdigit((unsigned char)g->name[4]);

    if (!geforce && g->tdp_w.known && n->gpu->power_limit_w.known &&
        n->gpu->power_limit_w.v > g->tdp_w.v)
        check_doubt(c, &n->gpu->power_limit_w, "The driver refuses a limit above it.",
                    "the %s takes at most %" PRId64 " W, not %" PRId64, g->name, g->tdp_w.v,
                    n->gpu->power_limit_w.v);
}

/* NVLink between machines is what Grace's trays have; the others end at the machine. */
static void check_domain_size(struct check *c, const struct cat_gpu *g, const struct spec_node *n)
{
    int64_t all = n->count * n->gpus_per_node;

    if (!n->nvlink_domain.known)
        return;
    if (n->nvlink_domain.v > all)
        check_doubt(c, &n->nvlink_domain, NULL,
                    "an NVLink domain of %" PRId64 " GPUs is more than the %" PRId64 " of '%s'",
                    n->nvlink_domain.v, all, n->name);
    else if (n->nvlink_domain.v > n->gpus_per_node && !cat_gpu_is_grace(g))
        check_doubt(c, &n->nvlink_domain, "Leave it out: the domain is then the machine.",
                    "machines with %s have no NVLink between each other", g->name);
}

void check_gpu_models(struct check *c)
{
    struct arena a = { 0 };
    struct cat_gpu_table t;

    if (cat_gpu_load(&a, &t, NULL))
        t.count = 0;
    for (size_t i = 0; t.count && i < c->s->node_count; i++) {
        const struct spec_node *n = &c->s->nodes[i];
        const char *near = NULL;
        const struct cat_gpu *g = n->gpu ? cat_gpu_named(&t, n->gpu->model, &near) : NULL;

        if (n->gpu && !g)
            check_unknown(c, &t, n, near);
        if (!g)
            continue;
        check_mig(c, g, n);
        check_link(c, g, n);
        check_memory(c, &t, g, n);
        check_power(c, g, n);
        check_domain_size(c, g, n);
        check_pools_of(c, g, n);
    }
    arena_release(&a);
}

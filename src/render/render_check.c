/* SPDX-License-Identifier: MIT */
/* check: faults of a spec that no target could write down rightly.
 *
 * src/spec/check*.c have refused already what needs only the file and the catalogue: names that do
 * not exist, machines named twice, images that are none, ports used twice, pools above a memory.
 * Here is what needs more: the targets asked for, what becomes of names in other formats, and
 * whether a machine holds what is asked of it. */
#include "base/arena.h"
#include "base/str.h"
#include "plan/feasible.h"
#include "render/render_int.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- room for everything ---- */

/* ---- names that become one ---- */

struct name {
    char dns[SPEC_NAME_MAX + 1];
    const char *const *at;
};
struct taken_names {
    struct name *items;
    size_t count;
};

static int by_dns(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = strcmp(x->dns, y->dns);

    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static void name_add(struct taken_names *v, const char *const *name)
{
    struct name *n = &v->items[v->count++];

    dns_name(n->dns, *name);
    n->at = name;
}

static void names_differ(struct render *r, struct taken_names *v, const char *what)
{
    char hint[SPEC_LINE_WORDS_MAX + 128 + 2 * SPEC_NAME_MAX], words[SPEC_LINE_WORDS_MAX];

    if (v->count)
        qsort(v->items, v->count, sizeof(*v->items), by_dns);
    for (size_t i = 1; i < v->count; i++) {
        const char *const *a = v->items[i - 1].at, *const *b = v->items[i].at;

        if (strcmp(v->items[i - 1].dns, v->items[i].dns) != 0)
            continue;
        (void)snprintf(hint, sizeof(hint), "%s has '%s'; both become '%s' where they are used.",
                       spec_line_words(r->spec, a, words), *a, v->items[i].dns);
        render_refuse(r, b, hint, "%s '%s' has the name of another one", what, *b);
    }
    v->count = 0;
}

static void check_names(struct render *r)
{
    const struct spec *s = r->spec;
    const struct spec_slurm *slurm = s->targets.slurm;
    struct arena a = { 0 };
    struct taken_names v = { .items = arena_array(&a, struct name, SPEC_NODES_MAX) };

    for (size_t i = 0; i < s->component_count; i++) {
        for (size_t k = 0; k < s->components[i].port_count; k++)
            name_add(&v, &s->components[i].ports[k].name);
        names_differ(r, &v, "port");
    }
    for (size_t i = 0; i < s->fabric_count; i++)
        for (size_t k = 0; k < s->fabrics[i].switch_count; k++)
            name_add(&v, &s->fabrics[i].switches[k].name);
    names_differ(r, &v, "switch");
    for (size_t i = 0; i < s->fabric_count; i++) { /* a network is named after each */
        for (size_t k = 0; k < s->fabrics[i].interfaces.count; k++)
            name_add(&v, &s->fabrics[i].interfaces.items[k]);
        names_differ(r, &v, "interface");
    }
    for (size_t i = 0; i < s->alert_count; i++)
        name_add(&v, &s->alerts[i].name);
    names_differ(r, &v, "alert");
    for (size_t i = 0; slurm && i < slurm->qos_count; i++)
        name_add(&v, &slurm->qos[i].name);
    names_differ(r, &v, "QOS");
    for (size_t i = 0; slurm && i < slurm->account_count; i++)
        name_add(&v, &slurm->accounts[i].name);
    names_differ(r, &v, "account");
    arena_release(&a);
}

/* ---- the targets asked for ---- */

/* ---- pools ---- */

void render_check(struct render *r, const struct render_target *const *targets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = targets[i]->name;
        char hint[96];

        (void)snprintf(hint, sizeof(hint), "Add '%.32s: {}' below 'targets'.", name);
        if (targets[i]->in_spec(r->spec))
            continue;
        if (str_eq(name, "lustre"))
            render_refuse(r, &r->spec->targets,
                          "Add 'lustre: {mgs: 10.0.0.2@o2ib}' below 'targets'.",
                          "the spec does not say where the Lustre file system's server is");
        else
            render_warn(r, &r->spec->targets, hint,
                        "%s is not among the spec's targets: it is written with its defaults",
                        name);
    }
    for (size_t i = 0; i < feasible_fault_count(r->feasible); i++) {
        const struct feasible_fault *f = feasible_fault_at(r->feasible, i);

        (f->warning ? render_warn : render_refuse)(r, f->member, f->hint, "%s", f->msg);
    }
    check_names(r);
    /* A pool is memory of the GPUs of one group; elsewhere there is none of it. */
    for (size_t i = 0; i < r->spec->component_count; i++) {
        const struct spec_component *c = &r->spec->components[i];

        for (size_t k = 0; k < c->pools.count; k++) {
            const struct spec_pool *p = spec_pool_find(r->spec, c->pools.items[k]);
            const struct spec_node *n = p && p->nodes ? spec_node_find(r->spec, p->nodes) : NULL;

            if (n && !spec_component_on(r->spec, c, n))
                render_refuse(r, &c->pools.items[k], "Make a pool for the group it runs on.",
                              "pool '%s' is memory of the GPUs of '%s', where component '%s' does "
                              "not run",
                              p->name, n->name, c->name);
        }
    }
    for (size_t i = 0; i < r->spec->model_count; i++) {
        const struct spec_model *m = &r->spec->models[i];
        const struct spec_component *c = spec_component_find(r->spec, m->component);
        const struct spec_pool *p = m->pool ? spec_pool_find(r->spec, m->pool) : NULL;
        const struct spec_node *n = p && p->nodes ? spec_node_find(r->spec, p->nodes) : NULL;

        if (c && n && p->device == SPEC_POOL_GPU && !spec_component_on(r->spec, c, n))
            render_refuse(r, &m->pool, "Make a pool for the group its component runs on.",
                          "pool '%s' is memory of the GPUs of '%s', where component '%s' of model "
                          "'%s' does not run",
                          p->name, n->name, c->name, m->name);
    }
    /* Only scripts of target lustre set stripes, those of its file system. */
    for (size_t i = 0; i < r->spec->storage_count; i++) {
        const struct spec_storage *s = &r->spec->storage[i];

        if (s->stripe_count && s->kind != SPEC_STORAGE_LUSTRE)
            render_warn(r, &s->stripes[0].match, "Leave them out.",
                        "'stripes' of storage '%s' are not followed: it is no Lustre", s->name);
        else if (s->stripe_count && !r->spec->targets.lustre)
            render_warn(r, &s->stripes[0].match,
                        "Add 'lustre: {mgs: 10.0.0.2@o2ib}' below 'targets'.",
                        "nobody sets the stripes of '%s': the spec has no target lustre", s->name);
    }
}

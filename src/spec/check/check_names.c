/* SPDX-License-Identifier: MIT */
/* check_names: every name that refers to something must exist, and names of one kind must
 * differ.  Which key refers to what is in the schema's rows (`refers`). */
#include "base/str.h"
#include "spec/check/check_int.h"

#include <assert.h>

enum { CHECK_NAMES_MAX = SPEC_NODES_MAX }; /* names of one kind: no file holds more */

/* --- names that must exist --- */
struct known_names {
    const char *items[CHECK_NAMES_MAX];
    size_t count;
    bool holes; /* one could not be read */
};

static void names_add(struct known_names *n, const void *items, size_t count, size_t size)
{
    for (size_t i = 0; i < count && n->count < CHECK_NAMES_MAX; i++) {
        const char *name = *(const char *const *)((const char *)items + i * size);

        if (name)
            n->items[n->count++] = name;
        n->holes = n->holes || !name;
    }
}

#define NAMES_ADD(n, items, count) names_add((n), (items), (count), sizeof(*(items)))

/* Fills `n` with the names of one collection of the spec. */
static void names_of(const struct spec *s, const char *what, struct known_names *n)
{
    const struct spec_slurm *slurm = s->targets.slurm;

    n->count = 0;
    n->holes = false;
    if (str_eq(what, "nodes"))
        NAMES_ADD(n, s->nodes, s->node_count);
    else if (str_eq(what, "fabrics"))
        NAMES_ADD(n, s->fabrics, s->fabric_count);
    else if (str_eq(what, "storage"))
        NAMES_ADD(n, s->storage, s->storage_count);
    else if (str_eq(what, "pools"))
        NAMES_ADD(n, s->pools, s->pool_count);
    else if (str_eq(what, "shapes"))
        NAMES_ADD(n, s->shapes, s->shape_count);
    else if (str_eq(what, "components"))
        NAMES_ADD(n, s->components, s->component_count);
    else if (str_eq(what, "switches"))
        for (size_t i = 0; i < s->fabric_count; i++)
            NAMES_ADD(n, s->fabrics[i].switches, s->fabrics[i].switch_count);
    else if (slurm && str_eq(what, "partitions"))
        NAMES_ADD(n, slurm->partitions, slurm->partition_count);
    else if (slurm && str_eq(what, "qos"))
        NAMES_ADD(n, slurm->qos, slurm->qos_count);
    else if (slurm && str_eq(what, "accounts"))
        NAMES_ADD(n, slurm->accounts, slurm->account_count);
}

static const struct {
    const char *collection, *one;
} nouns[] = {
    { "nodes", "node group" }, { "fabrics", "fabric" },       { "storage", "storage" },
    { "pools", "pool" },       { "shapes", "shape" },         { "components", "component" },
    { "switches", "switch" },  { "partitions", "partition" }, { "qos", "QOS" },
    { "accounts", "account" },
};

static const char *collection_noun(const char *collection)
{
    for (size_t i = 0; i < ARRAY_SIZE(nouns); i++)
        if (str_eq(nouns[i].collection, collection))
            return nouns[i].one;
    assert(!"a row refers to a collection that has no noun");
    return "";
}

static void check_name(struct check *c, struct known_names *n, const char *what, const char *name,
                       const void *at)
{
    const char *near;

    for (size_t i = 0; i < n->count; i++)
        if (str_eq(n->items[i], name))
            return;
    if (c->faulty && (n->holes || !n->count))
        return;
    ERROR(c, at, "there is no %s '%.64s'", collection_noun(what), name);
    if (c->l->diags->dropped) /* nobody will see the hint */
        return;
    near = str_nearest(name, n->items, n->count);
    if (near)
        diag_hint(c->l, "Did you mean '%s'?", near);
    else if (n->count == 0)
        diag_hint(c->l, "The spec has no %s.", str_eq(what, "nodes") ? "nodes" : what);
    else if (n->count <= 12) {
        struct buf b;

        buf_init(&b, 1024);
        for (size_t i = 0; i < n->count; i++)
            buf_addf(&b, "%s%s", i ? ", " : "", n->items[i]);
        diag_hint(c->l, "There %s %s.", n->count == 1 ? "is only" : "are", buf_str(&b));
        buf_release(&b);
    }
}

static void check_refs_row(struct check *c, struct known_names *n, const struct spec_row *r,
                           const void *at)
{
    const struct spec_strs *list = at;
    const char *one;

    if (!r->refers)
        return;
    names_of(c->s, r->refers, n);
    if (r->store == STORE_STRS) {
        for (size_t i = 0; i < list->count; i++)
            check_name(c, n, r->refers, list->items[i], &list->items[i]);
        return;
    }
    one = *(const char *const *)at;
    if (one)
        check_name(c, n, r->refers, one, at);
}

/* Every row with `refers`, wherever it is. */
static void check_refs_table(struct check *c, struct known_names *n, const struct spec_table *t,
                             const void *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct spec_row *r = &t->rows[i];
        const char *at = (const char *)obj + r->off;

        if (!spec_kind_is_tree(r->kind)) {
            check_refs_row(c, n, r, at);
        } else if (r->kind == SPEC_SECTION) {
            check_refs_table(c, n, r->sub, at);
        } else if (r->kind == SPEC_OPTION) {
            if (*(const void *const *)at)
                check_refs_table(c, n, r->sub, *(const void *const *)at);
        } else {
            const char *items = *(const char *const *)at;
            size_t count = *(const size_t *)((const char *)obj + r->count_off);

            for (size_t j = 0; j < count; j++)
                check_refs_table(c, n, r->sub, items + j * r->sub->size);
        }
    }
}

void check_refs(struct check *c)
{
    struct arena a = { 0 };

    check_refs_table(c, arena_new(&a, struct known_names), &spec_schema, c->s);
    arena_release(&a);
    for (size_t i = 0; i < c->s->budgets.component_count; i++)
        if (!spec_component_find(c->s, c->s->budgets.components[i].name) &&
            !(c->faulty && !c->s->component_count))
            ERROR(c, &c->s->budgets.components[i].name, "there is no component '%s'",
                  c->s->budgets.components[i].name);
}

/* --- names that must differ --- */
/* '-' and '_' are one to Kubernetes, so names that differ only there are one too. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
            return false;
    return *a == *b;
}

static void check_distinct(struct check *c, const char *what, const void *items, size_t count,
                           size_t size)
{
    char words[SPEC_LINE_WORDS_MAX];

    for (size_t i = 1; i < count; i++) {
        const char *const *x = (const void *)((const char *)items + i * size);

        for (size_t j = 0; j < i; j++) {
            const char *const *y = (const void *)((const char *)items + j * size);

            if (*x && *y && same_name(*x, *y)) {
                ERROR(c, x, "%s '%s' has the name of another one", what, *x);
                diag_hint(c->l, "%s has '%s'; '-' and '_' count as the same.",
                          spec_line_words(c->s, y, words), *y);
                break;
            }
        }
    }
}

#define DISTINCT(c, what, items, count)                                                            \
    check_distinct((c), (what), (items), (count), sizeof(*(items)))

void check_names(struct check *c)
{
    const struct spec *s = c->s;

    DISTINCT(c, "node group", s->nodes, s->node_count);
    DISTINCT(c, "fabric", s->fabrics, s->fabric_count);
    DISTINCT(c, "storage", s->storage, s->storage_count);
    DISTINCT(c, "component", s->components, s->component_count);
    DISTINCT(c, "pool", s->pools, s->pool_count);
    if (s->targets.slurm)
        DISTINCT(c, "partition", s->targets.slurm->partitions, s->targets.slurm->partition_count);
}

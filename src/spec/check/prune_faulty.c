/* SPDX-License-Identifier: MIT */
/* prune_faulty: what else is wrong in a file with faults.
 *
 * Values are judged first, then names, then what must agree; a later step needs what an earlier one
 * has found to be sound.  So that one fault does not hide those of other objects, everything faulty
 * is left out of the tree (the item of a list or map, or else the section), then whatever refers to
 * what was left out, until the remainder is a spec without such faults; that one is judged further.
 *
 * Better to miss a fault than to invent one: a component without 'nodes' goes with any faulty node
 * group, one whose target is faulty goes with that, a server with its only model, a target with its
 * only component, and rules that compare with a faulty section do not run (struct rest_gaps).
 * Faults of the remainder are faults of the file, for nothing in it knows of what is missing. */
#include "base/str.h"
#include "spec/check/check_int.h"

#include <stdlib.h>

enum { REST_ROUNDS_MAX = 64 }; /* each leaves something out */

struct rest {
    struct load *l; /* of the file: its faults are told already */
    struct yaml *root;
    struct rest_gaps gaps;
    size_t count; /* left out so far */
};

/* --- leaving out --- */

static bool node_is_at(const struct yaml *y, int line, int col)
{
    return (y->line == line && y->col == col) ||
           (y->key && y->key_line == line && y->key_col == col);
}

static bool node_has(const struct yaml *y, int line, int col)
{
    if (node_is_at(y, line, col))
        return true;
    for (const struct yaml *c = y->first; c; c = c->next)
        if (node_has(c, line, col))
            return true;
    return false;
}

static void node_drop(struct rest *x, struct yaml *y)
{
    x->count += !y->dropped;
    y->dropped = true;
}

/* The items of a list or map that have the place; false when it is the list's own. */
static bool items_drop(struct rest *x, struct yaml *list, int line, int col)
{
    bool found = false;

    for (struct yaml *c = list->first; c; c = c->next)
        if (node_has(c, line, col)) {
            node_drop(x, c);
            found = true;
        }
    return found;
}

/* The same in every list and map below a section. */
static bool items_below(struct rest *x, const struct spec_table *t, struct yaml *section, int line,
                        int col)
{
    bool found = false;

    for (struct yaml *c = section->first; c; c = c->next) {
        const struct spec_row *r = c->key ? spec_row_find(t, c->key) : NULL;

        if (!r || !r->sub || !node_has(c, line, col))
            continue;
        if (r->kind == SPEC_LIST || r->kind == SPEC_MAP)
            found = items_drop(x, c, line, col) || found;
        else
            found = items_below(x, r->sub, c, line, col) || found;
    }
    return found;
}

/* What has the place, as little as can stand alone: an item, a target, a section. */
static void part_drop(struct rest *x, const struct spec_row *r, struct yaml *y, int line, int col)
{
    bool found = false;

    if (r && (r->kind == SPEC_LIST || r->kind == SPEC_MAP))
        found = items_drop(x, y, line, col);
    else if (r && r->sub && r->sub == spec_row_find(&spec_schema, "targets")->sub)
        for (struct yaml *c = y->first; c; c = c->next) {
            if (!node_has(c, line, col))
                continue;
            part_drop(x, c->key ? spec_row_find(r->sub, c->key) : NULL, c, line, col);
            found = true;
        }
    else if (r && r->sub)
        found = items_below(x, r->sub, y, line, col);
    if (!found)
        node_drop(x, y);
}

static void gap_note(struct rest_gaps *g, const struct spec_row *r)
{
    g->nodes = g->nodes || !r || str_eq(r->key, "nodes"); /* !r: misspelt, it may be any */
    g->components = g->components || !r || str_eq(r->key, "components");
    g->models = g->models || !r || str_eq(r->key, "models");
    g->servers = g->servers || !r || str_eq(r->key, "agent") || str_eq(r->key, "serve");
    g->targets = g->targets || !r || str_eq(r->key, "targets");
    g->section = g->section || !r || (r->kind != SPEC_LIST && r->kind != SPEC_MAP);
}

static void place_drop(struct rest *x, int line, int col)
{
    for (struct yaml *c = x->root->first; c; c = c->next) {
        const struct spec_row *r = c->key ? spec_row_find(&spec_schema, c->key) : NULL;

        if (!node_has(c, line, col))
            continue;
        gap_note(&x->gaps, r);
        part_drop(x, r, c, line, col);
    }
}

static void faults_drop(struct rest *x, const struct spec_diags *d)
{
    for (size_t i = 0; i < d->count; i++)
        place_drop(x, line_at(d->items[i].file_no, d->items[i].line), d->items[i].col);
}

static void member_drop(struct rest *x, const struct spec *s, const void *member)
{
    struct spec_pos p = spec_place(s, member);

    place_drop(x, line_at(p.file_no, p.line), p.col);
}

/* Does no model of the rest name the server?  One that was left out may have. */
static bool serves_none(const struct spec *s, const struct spec_component *c)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c->name))
            return false;
    return c->kind == SPEC_COMPONENT_SERVING;
}

/* A target without a component of its own takes those of others; one that was left out may have
 * been its own. */
static void target_drop(struct rest *x, const struct spec *s, enum spec_target t,
                        const void *member)
{
    struct rest_gaps gaps;

    for (size_t i = 0; i < s->component_count; i++)
        if (s->components[i].target == t)
            return;
    gaps = x->gaps;
    member_drop(x, s, member);
    x->gaps = gaps; /* nothing refers to it */
}

/* What depends on something that is left out without naming it. */
static void silent_drop(struct rest *x, const struct spec *s)
{
    const struct spec_targets *t = &s->targets;

    if (x->gaps.components && t->kubernetes)
        target_drop(x, s, SPEC_TARGET_KUBERNETES, &t->kubernetes->namespace);
    if (x->gaps.components && t->compose)
        target_drop(x, s, SPEC_TARGET_COMPOSE, &t->compose->project);
    for (size_t i = 0; i < s->component_count; i++)
        if ((x->gaps.nodes && !s->components[i].nodes) ||
            (x->gaps.models && serves_none(s, &s->components[i])) ||
            (x->gaps.targets && !check_target_there(s, s->components[i].target)))
            member_drop(x, s, &s->components[i].name);
    for (size_t i = 0; x->gaps.nodes && i < s->pool_count; i++)
        if (!s->pools[i].nodes)
            member_drop(x, s, &s->pools[i].name);
}

/* --- the remainder --- */

/* The tree as it is now; `l` collects its faults. */
static struct spec *remainder_bind(const struct rest *x, struct load *l, struct spec_diags *faults)
{
    struct spec *s = spec_new(x->l->files[0].name);

    *l = (struct load){ .arena = &s->priv->arena,
                        .diags = faults,
                        .files = x->l->files,
                        .file_count = x->l->file_count };
    s->priv->files = l->files;
    s->priv->file_count = l->file_count;
    s->priv->first_line = x->root->line;
    s->priv->first_col = x->root->col;
    bind_document(l, x->root, s);
    load_keep(l, s->priv);
    free(l->origins);
    free(l->regions);
    check_refs(&(struct check){ .l = l, .s = s });
    return s;
}

/* NULL: there is none that is sound. */
static struct spec *remainder_find(struct rest *x, struct load *l)
{
    for (int i = 0; i < REST_ROUNDS_MAX; i++) {
        struct spec_diags faults = { 0 };
        struct spec *s = remainder_bind(x, l, &faults);
        size_t before = x->count;
        bool sound = !faults.count;

        if (sound)
            silent_drop(x, s);
        else
            faults_drop(x, &faults);
        spec_diags_release(&faults);
        if (sound && x->count == before)
            return s;
        spec_free(s);
        if (x->count == before)
            return NULL;
    }
    return NULL;
}

/* Without those that disagree, too; NULL: none. */
static struct spec *remainder_agreed(struct rest *x, struct load *own)
{
    for (int i = 0; i < REST_ROUNDS_MAX; i++) {
        struct spec_diags faults = { 0 };
        struct spec *s = remainder_find(x, own);
        struct load judge = *own;
        size_t before;
        bool sound;

        if (!s)
            return NULL;
        judge.diags = &faults;
        spec_derive(s);
        check_agree(&(struct check){ .l = &judge, .s = s, .gaps = x->gaps });
        sound = !faults.count;
        before = x->count;
        faults_drop(x, &faults);
        spec_diags_release(&faults);
        if (sound)
            return s;
        spec_free(s);
        if (x->count == before)
            return NULL;
    }
    return NULL;
}

/* Is the place in a component of the file? */
static bool in_components(const struct rest *x, const struct spec_diag *g)
{
    for (const struct yaml *c = x->root->first; c; c = c->next)
        if (str_eq(c->key, "components") && node_has(c, line_at(g->file_no, g->line), g->col))
            return true;
    return false;
}

/* What a later stage says of the sound part: of its components; errors of other places where all
 * machines are there.  Without a section that is in the file nothing is asked.  That stage has
 * steps of its own, and a fault of an early one hides those of later ones: it is asked again
 * without. */
static void rest_judge(struct rest *x)
{
    struct load *l = x->l;
    bool more = l->judge;

    faults_drop(x, l->diags);
    for (int i = 0; more && i < REST_ROUNDS_MAX; i++) {
        struct load own;
        struct spec *s = remainder_agreed(x, &own);
        struct spec_diags found = { 0 };
        struct err err = { 0 };
        size_t before = x->count;

        if (s && !x->gaps.section)
            more = l->judge->fn(s, false, &found, l->judge->ctx, &err) && found.count;
        else
            more = false;
        for (size_t k = 0; k < found.count; k++)
            if (!x->gaps.nodes || in_components(x, &found.items[k]))
                diag_take(l, &found.items[k], false);
        for (size_t k = 0; k < found.warning_count; k++)
            if (in_components(x, &found.warnings[k]))
                diag_take(l, &found.warnings[k], true);
        faults_drop(x, &found);
        more = more && x->count > before;
        spec_diags_release(&found);
        spec_free(s);
    }
}

void spec_judge_rest(struct load *l, struct yaml *root)
{
    rest_judge(&(struct rest){ .l = l, .root = root });
}

void spec_check_rest(struct load *l, struct yaml *root)
{
    struct rest x = { .l = l, .root = root };
    struct load own;
    struct spec *s;

    faults_drop(&x, l->diags);
    s = remainder_find(&x, &own);
    if (!s)
        return;
    own.diags = l->diags;
    spec_derive(s);
    check_agree(&(struct check){ .l = &own, .s = s, .gaps = x.gaps });
    spec_free(s);
    rest_judge(&x);
}

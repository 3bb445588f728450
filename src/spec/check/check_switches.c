/* SPDX-License-Identifier: MIT */
/* check_switches: the switches of a fabric hang below each other without a loop, and all of them
 * are the fabric's own.  slurmctld does not start with any other topology.conf.
 *
 * The walk keeps its own stack, since a file may hold thousands of switches in a row. */
#include "base/arena.h"
#include "spec/check/check_int.h"

#include <stdlib.h>

enum walk_state { WALK_NEW, WALK_OPEN, WALK_DONE };

struct switch_tree { /* all arrays by position in the fabric, but `sorted` */
    const struct spec_fabric *f;
    const struct spec_switch **sorted; /* by name */
    enum walk_state *state;
    size_t *next;  /* child to look at */
    size_t *stack; /* of positions */
    size_t depth;
};

static int by_name(const void *a, const void *b)
{
    const struct spec_switch *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static const struct spec_switch *switch_find(const struct switch_tree *t, const char *name)
{
    struct spec_switch key = { .name = name };
    const struct spec_switch *k = &key;
    const struct spec_switch **found =
        bsearch(&k, t->sorted, t->f->switch_count, sizeof(*t->sorted), by_name);

    return found ? *found : NULL;
}

static void walk_open(struct switch_tree *t, size_t at)
{
    t->state[at] = WALK_OPEN;
    t->stack[t->depth++] = at;
}

/* One step down, or back up; false: a loop was told, and one is enough. */
static bool walk_step(struct check *c, struct switch_tree *t)
{
    size_t at = t->stack[t->depth - 1];
    const struct spec_switch *s = &t->f->switches[at], *below;
    const char *const *name;

    if (t->next[at] == s->switches.count) {
        t->state[at] = WALK_DONE;
        t->depth--;
        return true;
    }
    name = &s->switches.items[t->next[at]++];
    below = switch_find(t, *name);
    if (!below) {
        check_fault(c, name, "Each fabric has switches of its own.",
                    "switch '%s' is not one of fabric '%s'", *name, t->f->name);
        return true;
    }
    if (t->state[below - t->f->switches] == WALK_OPEN) {
        check_fault(c, name, "Switches are a tree: none is below itself, by whatever way.",
                    "switch '%s' is below '%s', which is below it", below->name, s->name);
        return false;
    }
    if (t->state[below - t->f->switches] == WALK_NEW)
        walk_open(t, (size_t)(below - t->f->switches));
    return true;
}

static void check_fabric(struct check *c, const struct spec_fabric *f)
{
    struct arena a = { 0 };
    size_t n = f->switch_count;
    struct switch_tree t = { .f = f };
    bool ok = true;

    t.sorted = arena_array(&a, const struct spec_switch *, n);
    t.state = arena_array(&a, enum walk_state, n);
    t.next = arena_array(&a, size_t, n);
    t.stack = arena_array(&a, size_t, n);
    for (size_t i = 0; i < n; i++)
        t.sorted[i] = &f->switches[i];
    qsort(t.sorted, n, sizeof(*t.sorted), by_name);
    for (size_t i = 0; ok && i < n; i++) {
        if (t.state[i] == WALK_NEW)
            walk_open(&t, i);
        while (ok && t.depth)
            ok = walk_step(c, &t);
    }
    arena_release(&a);
}

void check_switches(struct check *c)
{
    for (size_t i = 0; i < c->s->fabric_count; i++)
        if (c->s->fabrics[i].switch_count)
            check_fabric(c, &c->s->fabrics[i]);
}

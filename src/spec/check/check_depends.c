/* SPDX-License-Identifier: MIT */
/* check_depends: components that wait for each other never start.
 *
 * Every component is walked once along its depends_on, with a stack instead of calls, so that a
 * long chain costs no more than its length; one that leads back into the stack closes a cycle. */
#include "base/str.h"
#include "spec/check/check_int.h"

enum { CYCLE_NAMES_MAX = 8 }; /* of a cycle that are named */

enum depends_state { DEPENDS_NEW, DEPENDS_OPEN, DEPENDS_DONE };

struct depends {
    enum depends_state *state; /* of each component */
    size_t *stack, *next;      /* those being walked, and which of their names comes next */
    size_t depth;
};

static void cycle_report(struct check *c, const struct depends *d, size_t from, const void *at)
{
    const struct spec_component *v = c->s->components;
    struct buf names = { 0 };

    for (size_t i = from; i < d->depth && i - from < CYCLE_NAMES_MAX; i++)
        buf_addf(&names, "'%s' on ", v[d->stack[i]].name);
    if (d->depth - from > CYCLE_NAMES_MAX)
        buf_addf(&names, "%zu more, the last of them on ", d->depth - from - CYCLE_NAMES_MAX);
    check_fault(c, at, "None of them would start: leave out one that need not wait.",
                "components depend on each other in a circle: %s'%s'", buf_str(&names),
                v[d->stack[from]].name);
    buf_release(&names);
}

static void depends_push(struct depends *d, size_t i)
{
    d->state[i] = DEPENDS_OPEN;
    d->next[d->depth] = 0;
    d->stack[d->depth++] = i;
}

/* One step: the next name of the component on top. */
static void depends_step(struct check *c, struct depends *d)
{
    size_t top = d->depth - 1, own = d->stack[top], from = 0, i;
    const struct spec_component *k = &c->s->components[own], *on;
    const char *const *name;

    if (d->next[top] == k->depends_on.count) {
        d->state[own] = DEPENDS_DONE;
        d->depth--;
        return;
    }
    name = &k->depends_on.items[d->next[top]++];
    on = spec_component_find(c->s, *name);
    if (on == k)
        ERROR(c, name, "component '%s' depends on itself", k->name);
    if (!on || on == k)
        return;
    i = (size_t)(on - c->s->components);
    if (d->state[i] == DEPENDS_NEW) {
        depends_push(d, i);
    } else if (d->state[i] == DEPENDS_OPEN) {
        while (d->stack[from] != i)
            from++;
        cycle_report(c, d, from, name);
    }
}

void check_depends(struct check *c)
{
    size_t n = c->s->component_count + 1;
    struct arena a = { 0 };
    struct depends d = { .state = arena_array(&a, enum depends_state, n),
                         .stack = arena_array(&a, size_t, n),
                         .next = arena_array(&a, size_t, n) };

    for (size_t i = 0; i < c->s->component_count; i++) {
        if (d.state[i] == DEPENDS_NEW)
            depends_push(&d, i);
        while (d.depth)
            depends_step(c, &d);
    }
    arena_release(&a);
}

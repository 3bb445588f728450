/* SPDX-License-Identifier: MIT */
/* check_hosts: machines by name: lists that name as many as there are, no machine in two groups,
 * switches that name machines there are. */
#include "base/arena.h"
#include "spec/check/check_int.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CHECK_HOSTS_MAX = 200000 }; /* machines of a site */

struct host {
    const char *name;
    const struct spec_node *node;
};
struct hosts {
    struct host *items; /* sorted by name */
    size_t count;
};

/* False: the list is none, which is told. */
static bool check_list(struct check *c, const char *const *hosts, const char *what,
                       const char *name, int64_t *out_count)
{
    const char *fault = spec_hosts_fault(*hosts, out_count);

    if (fault)
        check_fault(c, hosts, "Write it like gpu[1-4,7],login1.", "%s of %s '%s': %s", "hosts",
                    what, name, fault);
    return !fault;
}

static void check_count(struct check *c, const struct spec_node *n, int64_t named)
{
    bool given = spec_where(c->s, &n->count).line;
    char hint[64];

    (void)snprintf(hint, sizeof(hint), "%s 'count: %" PRId64 "'.", given ? "Set" : "Add", named);
    check_fault(c, given ? (const void *)&n->count : (const void *)&n->hosts, hint,
                "node group '%s' names %" PRId64 " machine%s, but its count is %" PRId64, n->name,
                named, named == 1 ? "" : "s", n->count);
}

/* Counts the machines; false when they cannot be listed. */
static bool check_groups(struct check *c, int64_t *out_total)
{
    bool ok = true;
    int64_t total = 0;

    for (size_t i = 0; i < c->s->node_count; i++) {
        const struct spec_node *n = &c->s->nodes[i];
        int64_t named = n->count;

        if (n->hosts && !check_list(c, &n->hosts, "node group", n->name, &named)) {
            ok = false;
            continue;
        }
        if (named != n->count) {
            check_count(c, n, named);
            ok = false;
        }
        total += n->count;
        if (total > CHECK_HOSTS_MAX) {
            check_fault(c, &n->count, NULL,
                        "the site has more than %d machines, which is the most that is rendered",
                        CHECK_HOSTS_MAX);
            return false;
        }
    }
    *out_total = total;
    return ok;
}

static int by_name(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->node > y->node) - (x->node < y->node);
}

static struct hosts gather_hosts(const struct spec *s, struct arena *a, int64_t total)
{
    struct hosts h = { .items = arena_array(a, struct host, (size_t)total + 1) };
    struct spec_walk w;

    for (size_t i = 0; i < s->node_count; i++)
        for (spec_walk(&w, &s->nodes[i]); spec_walk_next(&w) && h.count < (size_t)total;)
            h.items[h.count++] = (struct host){ arena_strdup(a, w.name), &s->nodes[i] };
    qsort(h.items, h.count, sizeof(*h.items), by_name);
    return h;
}

static void check_twice(struct check *c, const struct hosts *h)
{
    for (size_t i = 1; i < h->count; i++) {
        const struct host *a = &h->items[i - 1], *b = &h->items[i];
        const void *at = b->node->hosts ? (const void *)&b->node->hosts : &b->node->name;
        char hint[SPEC_LINE_WORDS_MAX + SPEC_NAME_MAX + 16], words[SPEC_LINE_WORDS_MAX];

        if (strcmp(a->name, b->name) != 0 ||
            (a->node != b->node && !strcmp(a->node->name, b->node->name)))
            continue; /* two groups of one name are told already */
        (void)snprintf(hint, sizeof(hint), "%s has '%s'.",
                       spec_line_words(c->s, &a->node->name, words), a->node->name);
        if (a->node == b->node)
            check_fault(c, at, NULL, "node group '%s' names machine '%s' twice", b->node->name,
                        b->name);
        else
            check_fault(c, at, hint, "machine '%s' is in node group '%s' and in '%s'", b->name,
                        a->node->name, b->node->name);
        return; /* the next ones are most likely of the same mistake */
    }
}

static void check_switch(struct check *c, const struct hosts *h, const struct spec_switch *sw)
{
    struct spec_walk w;
    int64_t named;

    if (!sw->hosts || !check_list(c, &sw->hosts, "switch", sw->name, &named))
        return;
    for (spec_walk_list(&w, sw->hosts); spec_walk_next(&w);) {
        struct host lo = { .name = w.name };
        size_t at = 0, end = h->count;

        while (at < end) {
            size_t mid = at + (end - at) / 2;

            if (strcmp(h->items[mid].name, lo.name) < 0)
                at = mid + 1;
            else
                end = mid;
        }
        if (at < h->count && !strcmp(h->items[at].name, w.name))
            continue;
        check_fault(c, &sw->hosts, "Its machines must be among the hosts of the node groups.",
                    "switch '%s' names machine '%s', which there is not", sw->name, w.name);
        return;
    }
}

void check_hosts(struct check *c)
{
    struct arena a = { 0 };
    struct hosts h;
    int64_t total;

    if (!check_groups(c, &total))
        return;
    h = gather_hosts(c->s, &a, total);
    check_twice(c, &h);
    for (size_t i = 0; i < c->s->fabric_count && !c->gaps.nodes; i++)
        for (size_t k = 0; k < c->s->fabrics[i].switch_count; k++)
            check_switch(c, &h, &c->s->fabrics[i].switches[k]);
    arena_release(&a);
}

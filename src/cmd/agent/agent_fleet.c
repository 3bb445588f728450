/* SPDX-License-Identifier: MIT */
/* agent_fleet: which other agents there are, and where their machines stand.
 *
 * An address may name many machines as Slurm does, http://gpu[001-512]:8090.  Groups, racks and
 * switches come from the spec: a machine is found in it by its name. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { AGENT_PLACES_MAX = 65536 }; /* machines of a spec whose place is known */

static enum rc add_peer(struct agent_plan *p, const char *address, struct err *err)
{
    if (p->fleet_count == AGENT_FLEET_MAX)
        return err_set(err, RC_LIMIT, "there are more than %d peers", AGENT_FLEET_MAX);
    p->fleet[p->fleet_count++] = address;
    return RC_OK;
}

enum rc agent_plan_peers(struct agent_plan *p, const char *const *items, size_t count,
                         struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct spec_address at;
        struct spec_walk w;
        const char *fault = spec_address_split(items[i], &p->arena, &at);

        if (fault) {
            rc = err_set(err, RC_USAGE, "peer '%.200s': %s", items[i], fault);
        } else if (!at.hosts) {
            rc = add_peer(p, items[i], err);
        } else {
            for (spec_walk_list(&w, at.hosts); rc == RC_OK && spec_walk_next(&w);)
                rc = add_peer(p, arena_printf(&p->arena, "%s%s%s", at.head, w.name, at.tail), err);
        }
    }
    p->o.fleet = p->fleet;
    return rc;
}

/* ---- where machines stand */

static int compare_hosts(const void *a, const void *b)
{
    return strcmp(((const struct agent_place *)a)->host, ((const struct agent_place *)b)->host);
}

static void take_switch(struct agent_place *places, size_t count, const struct spec_switch *s)
{
    struct spec_walk w;

    if (!s->hosts)
        return;
    for (spec_walk_list(&w, s->hosts); spec_walk_next(&w);) {
        struct agent_place key = { .host = w.name }, *found;

        found = bsearch(&key, places, count, sizeof(*places), compare_hosts);
        if (found && !found->leaf)
            found->leaf = s->name;
    }
}

void agent_plan_places(struct agent_plan *p)
{
    const struct spec *s = p->spec;
    struct agent_place *places;
    struct spec_walk w;
    size_t most = 0, n = 0;

    for (size_t i = 0; i < s->node_count; i++)
        for (spec_walk(&w, &s->nodes[i]); most < AGENT_PLACES_MAX && spec_walk_next(&w);)
            most++;
    places = arena_array(&p->arena, struct agent_place, most + 1);
    for (size_t i = 0; i < s->node_count; i++)
        for (spec_walk(&w, &s->nodes[i]); n < most && spec_walk_next(&w);)
            places[n++] = (struct agent_place){ .host = arena_strdup(&p->arena, w.name),
                                                .group = s->nodes[i].name,
                                                .rack = s->nodes[i].rack };
    qsort(places, n, sizeof(*places), compare_hosts);
    for (size_t i = 0; i < s->fabric_count; i++)
        for (size_t k = 0; k < s->fabrics[i].switch_count; k++)
            take_switch(places, n, &s->fabrics[i].switches[k]);
    p->o.places = places;
    p->o.place_count = n;
}

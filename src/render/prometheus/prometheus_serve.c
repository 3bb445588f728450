/* SPDX-License-Identifier: MIT */
/* prometheus_serve: which machines have a model server, and at which port.
 *
 *   models of no component   `stoker serve` of every machine with GPUs, at serve.port
 *   target systemd, local    the machine whose unit starts (its replicas), at the component's port
 *   target compose           the file's machine, at the port that is published on it; none for one
 *                            of several replicas
 *   pods                     an address of their own: ServiceMonitors find them, not this target
 *
 * A machine on which no server listens would be down for ever in the eyes of ServerDown, and one
 * at another port would be watched by nobody. */
#include "base/str.h"
#include "render/compose/compose_int.h"
#include "render/prometheus/prometheus_int.h"
#include "render/systemd/systemd_int.h"

static void server_add(struct prom_servers *p, struct prom_server s)
{
    if (p->count == p->cap) {
        struct prom_server *more = arena_array(&p->arena, struct prom_server, 2 * p->cap + 16);

        for (size_t i = 0; i < p->count; i++)
            more[i] = p->items[i];
        p->items = more;
        p->cap = 2 * p->cap + 16;
    }
    p->items[p->count++] = s;
}

/* stoker-serve.service, or who starts `stoker serve` by hand. */
static void own_servers(const struct render *r, struct prom_servers *out)
{
    const struct spec_targets *t = &r->spec->targets;
    const struct spec *s = r->spec;

    if (!host_models_loose(s) || (t->kubernetes && !t->systemd))
        return;
    for (size_t i = 0; i < s->node_count; i++)
        for (int64_t m = 0; s->nodes[i].role == SPEC_ROLE_GPU && m < s->nodes[i].count; m++)
            server_add(out, (struct prom_server){
                                .node = &s->nodes[i], .machine = m, .port = s->serve.port });
}

static bool is_of_units(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_LOCAL || c->target == SPEC_TARGET_SYSTEMD;
}

static void plan_servers(struct render *r, const struct host_plan *p, bool compose,
                         struct prom_servers *out)
{
    const struct spec *s = r->spec;

    for (size_t i = 0; i < p->count; i++) {
        const struct host_run *run = &p->runs[i];
        const struct spec_component *c = run->c;
        const struct spec_node *n = run->node ? run->node : s->node_count ? s->nodes : NULL;
        struct prom_server server = { .node = n, .machine = run->machine, .c = c };

        if (!n || !host_is_server(c) || (compose && !compose_publishes(s, c)))
            continue;
        server.published = compose;
        server.port = c->port_count ? c->ports[0].port : s->serve.port;
        server_add(out, server);
    }
}

void prometheus_servers(struct render *r, struct prom_servers *out)
{
    const struct spec_targets *t = &r->spec->targets;
    bool instead = t->compose && !t->systemd && compose_is_fallback(r->spec);
    struct host_plan p;

    *out = (struct prom_servers){ 0 };
    own_servers(r, out);
    if (!instead && host_plan_make(r, is_of_units, &p)) {
        systemd_place(r, &p);
        plan_servers(r, &p, false, out);
        host_plan_release(&p);
    }
    if (t->compose && (instead || !compose_is_fallback(r->spec)) &&
        host_plan_make(r, compose_takes(r->spec), &p)) {
        plan_servers(r, &p, true, out);
        host_plan_release(&p);
    }
}

void prometheus_servers_release(struct prom_servers *p)
{
    arena_release(&p->arena);
    *p = (struct prom_servers){ 0 };
}

bool prometheus_servers_on(const struct prom_servers *p, const struct spec_node *n)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].node == n)
            return true;
    return false;
}

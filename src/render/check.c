/* SPDX-License-Identifier: MIT */
/* check: faults of a spec that no target could write down rightly.
 *
 * src/spec/check.c has refused already what needs the file alone: GPUs that there are not, pools
 * above a memory that is given, components for containers without an image, ports of components
 * and of the agent, names that do not exist.  Here is what needs more: the catalogue, machines by
 * name, what becomes of names in other formats, and where the model server runs. */
#include "base/arena.h"
#include "base/str.h"
#include "plan/feasible.h"
#include "plan/plan.h"
#include "render/check_int.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CHECK_GPUS_MAX = 16 }; /* GPUs of a node: the schema's maximum */

/* ---- pools, where the spec leaves the GPU's memory to the catalogue ---- */

static int64_t catalogue_bytes(const struct spec_node *n)
{
    struct plan_gpu gpu;

    if (!n->gpu || n->gpu->memory_bytes.known || plan_gpu_by_name(n->gpu->model, &gpu, NULL))
        return 0;
    return gpu.mem_bytes;
}

static void check_pools_of(struct render *r, const struct spec_node *n)
{
    char sum[UNITS_TEXT_MAX], have[UNITS_TEXT_MAX];
    int64_t used[CHECK_GPUS_MAX] = { 0 }, total = catalogue_bytes(n);

    for (size_t i = 0; total && i < r->spec->pool_count; i++) {
        const struct spec_pool *p = &r->spec->pools[i];

        for (int64_t g = 0; g < n->gpus_per_node && g < CHECK_GPUS_MAX; g++) {
            if (spec_node_of(r->spec, p->nodes) != n || !spec_range_has(p->gpus, g))
                continue;
            used[g] += p->size_bytes;
            if (used[g] <= total)
                continue;
            render_refuse(r, &p->size_bytes, "Set 'gpu.memory' where the catalogue is wrong.",
                          "pools take %s of GPU %" PRId64 " of '%s', and a %s has %s",
                          units_bytes_exact((uint64_t)used[g], sum), g, n->name, n->gpu->model,
                          units_bytes_human((uint64_t)total, have));
            return;
        }
    }
}

/* ---- room for everything ---- */

static void check_room(struct render *r)
{
    for (size_t i = 0; i < feasible_fault_count(r->feasible); i++) {
        const struct feasible_fault *f = feasible_fault_at(r->feasible, i);

        (f->warning ? render_warn : render_refuse)(r, f->member, f->hint, "%s", f->msg);
    }
}

/* ---- ports of the model server ---- */

static bool has_own_address(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_KUBERNETES || c->target == SPEC_TARGET_OPENSHIFT;
}

/* Does `stoker serve` run on the machines of a group (NULL: on any)? */
static bool serves(const struct spec *s, const struct spec_node *n)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (!s->models[i].component)
            return true; /* every node has it */
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        if (c->kind == SPEC_COMPONENT_SERVING && !has_own_address(c) &&
            (!n || spec_component_on(s, c, n)))
            return true;
    }
    return false;
}

/* Does it run on a machine of the component? */
static bool serves_beside(const struct spec *s, const struct spec_component *c)
{
    const struct spec_node *n = spec_component_group(s, c, 0);

    if (!n)
        return serves(s, NULL);
    for (size_t i = 1; n; n = spec_component_group(s, c, i++))
        if (serves(s, n))
            return true;
    return false;
}

/* At the first of the two that stands in the file. */
static void port_twice(struct render *r, const int64_t *a, const char *of_a, const int64_t *b,
                       const char *of_b)
{
    int line_a = spec_where(r->spec, a).line, line_b = spec_where(r->spec, b).line;
    char hint[160];

    if (*a != *b)
        return;
    if (line_a && line_b)
        (void)snprintf(hint, sizeof(hint), "Line %d has the other one.", line_b);
    else
        (void)snprintf(hint, sizeof(hint), "%s has it by default.", line_a ? of_b : of_a);
    hint[0] = (char)(hint[0] >= 'a' && hint[0] <= 'z' ? hint[0] - 'a' + 'A' : hint[0]);
    render_refuse(r, line_a ? a : b, hint,
                  "port %" PRId64 " is used by %s and by %s on the same machines", *a, of_a, of_b);
}

static void check_serve_ports(struct render *r)
{
    const struct spec *s = r->spec;
    const struct {
        const int64_t *port;
        const char *what;
    } own[] = { { &s->serve.port, "the model server" },
                { &s->serve.rerank_port, "the model server's rerank port" } };

    if (!serves(s, NULL))
        return;
    port_twice(r, own[0].port, own[0].what, own[1].port, own[1].what);
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
        if (s->agent.enabled) {
            port_twice(r, own[i].port, own[i].what, &s->agent.port, "the agent");
            port_twice(r, own[i].port, own[i].what, &s->agent.metrics_port, "the agent's metrics");
        }
        for (size_t k = 0; k < s->component_count; k++) {
            const struct spec_component *c = &s->components[k];
            char who[SPEC_NAME_MAX + 16];

            if (c->kind == SPEC_COMPONENT_SERVING || has_own_address(c) || !serves_beside(s, c))
                continue; /* a serving component's port is the server's own */
            (void)snprintf(who, sizeof(who), "component '%s'", c->name);
            for (size_t p = 0; p < c->port_count; p++)
                if (c->ports[p].protocol == SPEC_PROTOCOL_TCP)
                    port_twice(r, &c->ports[p].port, who, own[i].port, own[i].what);
        }
    }
}

/* ---- names that become one ---- */

struct name {
    char dns[SPEC_NAME_MAX + 1];
    const char *const *at;
};
struct names {
    struct name *items;
    size_t count;
};

static int by_dns(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = strcmp(x->dns, y->dns);

    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static void name_add(struct names *v, const char *const *name)
{
    struct name *n = &v->items[v->count++];

    dns_name(n->dns, *name);
    n->at = name;
}

static void names_differ(struct render *r, struct names *v, const char *what)
{
    char hint[128 + 2 * SPEC_NAME_MAX];

    if (v->count)
        qsort(v->items, v->count, sizeof(*v->items), by_dns);
    for (size_t i = 1; i < v->count; i++) {
        const char *const *a = v->items[i - 1].at, *const *b = v->items[i].at;

        if (strcmp(v->items[i - 1].dns, v->items[i].dns) != 0)
            continue;
        (void)snprintf(hint, sizeof(hint),
                       "Line %d has '%s'; both become '%s' where they are used.",
                       spec_where(r->spec, a).line, *a, v->items[i].dns);
        render_refuse(r, b, hint, "%s '%s' has the name of another one", what, *b);
    }
    v->count = 0;
}

static void check_names(struct render *r)
{
    const struct spec *s = r->spec;
    const struct spec_slurm *slurm = s->targets.slurm;
    struct arena a = { 0 };
    struct names v = { .items = arena_array(&a, struct name, SPEC_NODES_MAX) };

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

static void check_targets(struct render *r, const struct render_target *const *targets,
                          size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(targets[i]->name, "lustre") && !r->targets->lustre)
            render_refuse(r, &r->spec->targets,
                          "Add 'lustre: {mgs: 10.0.0.2@o2ib}' below 'targets'.",
                          "the spec does not say where the Lustre file system's server is");
}

void render_check(struct render *r, const struct render_target *const *targets, size_t count)
{
    check_targets(r, targets, count);
    render_check_hosts(r);
    for (size_t i = 0; i < r->spec->node_count; i++)
        check_pools_of(r, &r->spec->nodes[i]);
    check_room(r);
    render_check_images(r);
    check_serve_ports(r);
    check_names(r);
}

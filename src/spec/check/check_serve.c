/* SPDX-License-Identifier: MIT */
/* check_serve: the model server's ports against those of the agent and of components that run on
 * the same machines (its defaults count as much as what the file says), and that a server has
 * something to serve. */
#include "base/str.h"
#include "spec/check/check_int.h"

#include <inttypes.h>

static bool has_own_address(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_KUBERNETES || c->target == SPEC_TARGET_OPENSHIFT;
}

/* Does `stoker serve` run on the machines of a group (NULL: on any)? */
static bool serves_on(const struct spec *s, const struct spec_node *n)
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
        return serves_on(s, NULL);
    for (size_t i = 1; n; n = spec_component_group(s, c, i++))
        if (serves_on(s, n))
            return true;
    return false;
}

/* At the first of the two that stands in the file. */
static void port_twice(struct check *c, const int64_t *a, const char *of_a, const int64_t *b,
                       const char *of_b)
{
    int line_a = spec_where(c->s, a).line, line_b = spec_where(c->s, b).line;
    char hint[SPEC_LINE_WORDS_MAX + 64], words[SPEC_LINE_WORDS_MAX];

    if (*a != *b)
        return;
    if (line_a && line_b)
        (void)snprintf(hint, sizeof(hint), "%s has the other one.",
                       spec_line_words(c->s, b, words));
    else
        (void)snprintf(hint, sizeof(hint), "%s has it by default.", line_a ? of_b : of_a);
    hint[0] = (char)(hint[0] >= 'a' && hint[0] <= 'z' ? hint[0] - 'a' + 'A' : hint[0]);
    check_fault(c, line_a ? a : b, hint,
                "port %" PRId64 " is used by %s and by %s on the same machines", *a, of_a, of_b);
}

/* A unit that runs a model server of its own: on the server's ports where it names none. */
static bool is_server_unit(const struct spec_component *k)
{
    return k->target == SPEC_TARGET_SYSTEMD && k->kind == SPEC_COMPONENT_SERVING &&
           !k->command.count;
}

static bool on_one_group(const struct spec *s, const struct spec_component *a,
                         const struct spec_component *b)
{
    const struct spec_node *n;

    for (size_t i = 0; (n = spec_component_group(s, a, i)) != NULL; i++)
        if (spec_component_on(s, b, n))
            return true;
    return !spec_component_group_count(s, a) && !spec_component_group_count(s, b);
}

/* `by` has the defaults; `k` has them too, or names one of them. */
static void default_twice(struct check *c, const struct spec_component *k,
                          const struct spec_component *by)
{
    const struct spec_serve *v = &c->s->serve;
    const void *at = k->port_count ? NULL : (const void *)&k->name;
    int64_t port = v->port;

    for (size_t i = 0; i < k->port_count && !at; i++)
        if (k->ports[i].protocol == SPEC_PROTOCOL_TCP &&
            (k->ports[i].port == v->port || k->ports[i].port == v->rerank_port)) {
            at = &k->ports[i].port;
            port = k->ports[i].port;
        }
    if (at)
        check_fault(c, at,
                    k->port_count ? "The other one names no port and has the model server's."
                                  : "Neither names a port, so both have the model server's: give "
                                    "each its 'ports'.",
                    "port %" PRId64
                    " is used by component '%s' and by component '%s' on the same nodes",
                    port, k->name, by->name);
}

static void server_units(struct check *c)
{
    for (size_t i = 1; i < c->s->component_count; i++)
        for (size_t j = 0; j < i; j++) {
            const struct spec_component *a = &c->s->components[j], *b = &c->s->components[i];

            if (!is_server_unit(a) || !is_server_unit(b) || (a->port_count && b->port_count) ||
                !on_one_group(c->s, a, b))
                continue;
            default_twice(c, a->port_count ? a : b, a->port_count ? b : a);
        }
}

void check_serve_ports(struct check *c)
{
    const struct spec *s = c->s;
    const struct {
        const int64_t *port;
        const char *what;
    } own[] = { { &s->serve.port, "the model server" },
                { &s->serve.rerank_port, "the model server's rerank port" } };

    if (!serves_on(s, NULL))
        return;
    port_twice(c, own[0].port, own[0].what, own[1].port, own[1].what);
    server_units(c);
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
        if (s->agent.enabled) {
            port_twice(c, own[i].port, own[i].what, &s->agent.port, "the agent");
            port_twice(c, own[i].port, own[i].what, &s->agent.metrics_port, "the agent's metrics");
        }
        for (size_t k = 0; k < s->component_count; k++) {
            const struct spec_component *x = &s->components[k];
            char who[SPEC_NAME_MAX + 16];

            if (x->kind == SPEC_COMPONENT_SERVING || has_own_address(x) || !serves_beside(s, x))
                continue; /* a serving component's port is the server's own */
            (void)snprintf(who, sizeof(who), "component '%s'", x->name);
            for (size_t p = 0; p < x->port_count; p++)
                if (x->ports[p].protocol == SPEC_PROTOCOL_TCP)
                    port_twice(c, &x->ports[p].port, who, own[i].port, own[i].what);
        }
    }
}

/* Does its command line name a model, beside those of the spec? */
static bool args_name_model(const struct spec_component *c)
{
    for (size_t i = 0; i < c->args.count; i++)
        if (str_starts(c->args.items[i], "-m") || str_starts(c->args.items[i], "--model"))
            return true;
    return false;
}

/* `stoker serve` has nothing to do without a model: it ends at once, and whatever runs it starts it
 * again, for ever. */
void check_served(struct check *c)
{
    const struct spec *s = c->s;

    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *k = &s->components[i];
        bool served = k->command.count || args_name_model(k);

        for (size_t m = 0; m < s->model_count && !served; m++)
            served = str_eq(s->models[m].component, k->name);
        if (k->kind == SPEC_COMPONENT_SERVING && !served)
            check_doubt(c, &k->name, "Name it as the 'component' of a model.",
                        "'%s' serves no model of the spec: `stoker serve` ends at once", k->name);
    }
}

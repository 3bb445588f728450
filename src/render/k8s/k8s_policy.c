/* SPDX-License-Identifier: MIT */
/* k8s_policy: who may speak to whom, who goes first, and what a drain may take.
 *
 * Network policies begin with nothing allowed, then open the ports of the spec: to the components
 * that `traffic` names, to everybody for a service that no traffic mentions, and between pods of
 * one component.  `depends_on` is an order, not a policy: it lets who depends ask, and shuts nobody
 * out.  Outside the cluster a pod reaches what `egress` of its component names; one that names none
 * reaches port 443 where the spec has object storage or its models come from the hub, whose
 * addresses nobody knows.  Policies hold for the cluster's network; networks of Multus and RDMA
 * pass them by, which is why those are networks of their own. */
#include "base/str.h"
#include "render/k8s/k8s_int.h"

static void policy_head(struct k8s *k, struct yaml_out *y, struct buf *out, const char *name,
                        const char *component)
{
    k8s_object(k, y, out, "networking.k8s.io/v1", "NetworkPolicy", name, component);
    yaml_open(y, "spec.podSelector");
    if (component)
        k8s_match(k, y, "matchLabels", component);
    yaml_end(y);
}

static void policy_types(struct yaml_out *y, bool in, bool out)
{
    yaml_seq(y, "policyTypes");
    if (in)
        yaml_str(y, NULL, "Ingress");
    if (out)
        yaml_str(y, NULL, "Egress");
    yaml_end(y);
}

static void one_port(struct yaml_out *y, const char *protocol, int64_t port)
{
    yaml_map(y, NULL);
    yaml_str(y, "protocol", protocol);
    yaml_int(y, "port", port);
    yaml_end(y);
}

static void allow_names(struct k8s *k, struct buf *out, const struct k8s_policies *p)
{
    struct yaml_out y;

    policy_head(k, &y, out, "allow-dns", NULL);
    policy_types(&y, false, true);
    yaml_open(&y, "egress[].to[].namespaceSelector");
    yaml_map_of(&y, "matchLabels", "kubernetes.io/metadata.name", p->dns_namespace);
    yaml_ends(&y, 2);
    if (p->dns_cache) {
        yaml_open(&y, "[].ipBlock");
        yaml_note(&y, "NodeLocal DNSCache, where there is one: it is in no pod's network");
        yaml_str(&y, "cidr", "169.254.20.10/32");
        yaml_ends(&y, 2);
    }
    yaml_end(&y);
    yaml_seq(&y, "ports");
    one_port(&y, "UDP", p->dns_port);
    one_port(&y, "TCP", p->dns_port);
    yaml_finish(&y);
}

static void put_peer(struct k8s *k, struct yaml_out *y, const char *component, const char *why)
{
    yaml_map(y, NULL);
    yaml_note(y, why);
    yaml_map(y, "podSelector");
    k8s_match(k, y, "matchLabels", component);
    yaml_ends(y, 2);
}

static void ports_of(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    size_t count;
    const struct spec_port *ports = k8s_ports_of(k, c, &count);

    if (!count)
        return;
    yaml_seq(y, "ports");
    for (size_t i = 0; i < count; i++)
        one_port(y, ports[i].protocol == SPEC_PROTOCOL_UDP ? "UDP" : "TCP", ports[i].port);
    yaml_end(y);
}

/* Does `traffic` go from `a` to `b`?  `*at` the value that says so. */
static bool sends_to(const struct spec *s, const struct spec_component *a,
                     const struct spec_component *b, const void **at)
{
    for (size_t i = 0; i < s->traffic_count; i++) {
        if (str_eq(s->traffic[i].from, a->name) && str_eq(s->traffic[i].to, b->name)) {
            *at = &s->traffic[i].from;
            return true;
        }
    }
    return false;
}

/* May `a` open a connection to `b`?  `*at` the value that says so. */
static bool speaks_to(const struct spec *s, const struct spec_component *a,
                      const struct spec_component *b, const void **at)
{
    if (sends_to(s, a, b, at))
        return true;
    for (size_t i = 0; i < a->depends_on.count; i++) {
        if (str_eq(a->depends_on.items[i], b->name)) {
            *at = &a->depends_on.items[i];
            return true;
        }
    }
    return false;
}

/* Is it a service for everybody: has it ports, and does no traffic name who sends to them? */
static bool is_open(struct k8s *k, const struct k8s_policies *p, const struct spec_component *c)
{
    const void *at;
    size_t ports;

    if (c->kind != SPEC_COMPONENT_SERVICE && c->kind != SPEC_COMPONENT_SERVING)
        return false;
    for (size_t i = 0; i < p->count; i++)
        if (p->components[i] != c && sends_to(k->r->spec, p->components[i], c, &at))
            return false;
    (void)k8s_ports_of(k, c, &ports);
    return ports > 0;
}

static void put_ingress(struct k8s *k, struct yaml_out *y, const struct k8s_policies *p,
                        const struct spec_component *c)
{
    const struct spec *s = k->r->spec;
    bool open = is_open(k, p, c);
    const void *at;

    yaml_open(y, "ingress[]");
    yaml_seq(y, "from");
    put_peer(k, y, k8s_name(k, c->name, ""), "its own pods, every port: ranks and NCCL");
    yaml_ends(y, 2);
    for (size_t i = 0; !open && i < p->count; i++) {
        const struct spec_component *from = p->components[i];

        if (from == c || !speaks_to(s, from, c, &at))
            continue;
        yaml_map(y, NULL);
        yaml_seq(y, "from");
        put_peer(k, y, k8s_name(k, from->name, ""), render_from(k->r, at));
        yaml_end(y);
        ports_of(k, y, c);
        yaml_end(y);
    }
    if (open) {
        yaml_map(y, NULL);
        ports_of(k, y, c);
        yaml_end(y);
    }
    yaml_end(y);
}

static void https_out(struct yaml_out *y, const char *why)
{
    yaml_map(y, NULL);
    yaml_note(y, why);
    yaml_seq(y, "ports");
    one_port(y, "TCP", 443);
    yaml_ends(y, 2);
}

static bool needs_outside(const struct spec *s)
{
    for (size_t i = 0; i < s->storage_count; i++)
        if (s->storage[i].kind == SPEC_STORAGE_OBJECT)
            return true;
    return false;
}

static void put_outside(struct k8s *k, struct yaml_out *y, const char *const *text)
{
    char cidr[SPEC_CIDR_MAX];
    int64_t port;

    if (!spec_egress(*text, cidr, &port))
        return; /* refused as the spec was checked */
    yaml_open(y, "[].to[].ipBlock");
    render_str(k->r, y, "cidr", cidr, text);
    yaml_ends(y, 3);
    if (port) {
        yaml_seq(y, "ports");
        one_port(y, "TCP", port);
        one_port(y, "UDP", port);
        yaml_end(y);
    }
    yaml_end(y);
}

static bool egress_is_written(struct k8s *k, const struct spec_component *c)
{
    return c->egress.count || spec_where(k->r->spec, &c->egress).line; /* `egress: []`: nothing */
}

static bool egress_has_https(const struct spec_component *c)
{
    char cidr[SPEC_CIDR_MAX];
    int64_t port;

    for (size_t i = 0; i < c->egress.count; i++)
        if (spec_egress(c->egress.items[i], cidr, &port) && (!port || port == 443))
            return true;
    return false;
}

/* Who writes `egress` means a limit, so nothing is added to it. */
static void outside_all(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    bool fetches = k8s_fetches(k, c);

    for (size_t i = 0; i < c->egress.count; i++)
        put_outside(k, y, &c->egress.items[i]);
    if (egress_is_written(k, c)) {
        if (fetches && !egress_has_https(c))
            render_warn(k->r, &c->egress, "Add the address of the hub, or \"0.0.0.0/0:443\".",
                        "'%s' fetches models of the hub, and its 'egress' opens no port 443",
                        c->name);
    } else if (fetches || needs_outside(k->r->spec)) {
        https_out(y,
                  fetches ? "models of the hub, by HTTPS" : "object storage of the spec, by HTTPS");
    }
}

static void component_policy(struct k8s *k, struct buf *out, const struct k8s_policies *p,
                             const struct spec_component *c)
{
    const char *name = k8s_name(k, c->name, "");
    struct yaml_out y;
    const struct spec *s = k->r->spec;
    const void *at;

    policy_head(k, &y, out, name, name);
    policy_types(&y, true, true);
    put_ingress(k, &y, p, c);
    yaml_open(&y, "egress[]");
    yaml_seq(&y, "to");
    put_peer(k, &y, k8s_name(k, c->name, ""), NULL);
    yaml_ends(&y, 2);
    for (size_t i = 0; i < p->count; i++) {
        const struct spec_component *to = p->components[i];

        if (to == c || !speaks_to(s, c, to, &at))
            continue;
        yaml_map(&y, NULL);
        yaml_seq(&y, "to");
        put_peer(k, &y, k8s_name(k, to->name, ""), render_from(k->r, at));
        yaml_end(&y);
        ports_of(k, &y, to);
        yaml_end(&y);
    }
    outside_all(k, &y, c);
    yaml_end(&y);
    yaml_finish(&y);
}

void k8s_server_policy(struct k8s *k, struct buf *out)
{
    const struct spec_serve *s = &k->r->spec->serve;
    bool fetches = k8s_fetches(k, NULL);
    struct yaml_out y;

    policy_head(k, &y, out, "stoker-serve", "stoker-serve");
    policy_types(&y, true, fetches);
    yaml_open(&y, "ingress[]");
    yaml_seq(&y, "ports");
    one_port(&y, "TCP", s->port);
    one_port(&y, "TCP", s->rerank_port);
    yaml_ends(&y, 3);
    if (fetches) {
        yaml_seq(&y, "egress");
        https_out(&y, "models of the hub, by HTTPS");
        yaml_end(&y);
    }
    yaml_finish(&y);
}

void k8s_policies_write(struct k8s *k, struct buf *out, const struct k8s_policies *p)
{
    struct yaml_out y;

    policy_head(k, &y, out, "default-deny", NULL);
    policy_types(&y, true, true);
    yaml_finish(&y);
    allow_names(k, out, p);
    for (size_t i = 0; i < p->count; i++)
        component_policy(k, out, p, p->components[i]);
}

/* ---- drains and preemption ---- */

bool k8s_needs_budget(const struct spec_component *c)
{
    int64_t most = c->scale && c->scale->max > c->replicas ? c->scale->max : c->replicas;

    return (c->kind == SPEC_COMPONENT_SERVICE || c->kind == SPEC_COMPONENT_SERVING) && most > 1;
}

void k8s_budget(struct k8s *k, struct buf *out, const struct spec_component *c)
{
    const char *name = k8s_name(k, c->name, "");
    struct yaml_out y;

    k8s_object(k, &y, out, "policy/v1", "PodDisruptionBudget", name, name);
    yaml_map(&y, "spec");
    yaml_note(&y, "drains take one pod at a time");
    yaml_int(&y, "maxUnavailable", 1);
    yaml_map(&y, "selector");
    k8s_match(k, &y, "matchLabels", name);
    yaml_finish(&y);
}

const char *k8s_priority_name(struct k8s *k, enum spec_priority p)
{
    static const char *const levels[] = { [SPEC_PRIORITY_LOW] = "low",
                                          [SPEC_PRIORITY_MEDIUM] = "medium",
                                          [SPEC_PRIORITY_HIGH] = "high" };

    return arena_printf(&k->arena, "%s-%s", k->namespace, levels[p]);
}

void k8s_priority(struct k8s *k, struct buf *out, enum spec_priority p)
{
    static const struct {
        int64_t value;
        const char *what;
    } rows[] = { [SPEC_PRIORITY_LOW] = { 1000, "gives way first" },
                 [SPEC_PRIORITY_MEDIUM] = { 10000, "the default of a component" },
                 [SPEC_PRIORITY_HIGH] = { 100000, "keeps its GPUs longest" } };
    struct yaml_out y;

    k8s_object_in(k, &y, out, "scheduling.k8s.io/v1", "PriorityClass", NULL,
                  k8s_priority_name(k, p), NULL);
    yaml_int(&y, "value", rows[p].value);
    yaml_bool(&y, "globalDefault", false);
    yaml_str(&y, "description", rows[p].what);
    yaml_finish(&y);
}

/* ---- applying ---- */

void k8s_script_mark(struct buf *out, const char *tool)
{
    buf_addf(out,
             "# mark LABELS MACHINE...: what has not joined yet is named\n"
             "mark() {\n"
             "    labels=$1\n"
             "    shift\n"
             "    for n; do\n"
             "        # shellcheck disable=SC2086 # several words\n"
             "        run %s label --overwrite node \"$n\" $labels ||\n"
             "            echo \"# $n has no label yet: once it has joined, do this again\"\n"
             "    done\n"
             "}\n\n",
             tool);
}

/* SPDX-License-Identifier: MIT */
/* kubernetes_net: Services, and who may speak to whom.
 *
 * Network policies begin with nothing allowed, then open the ports of the spec: to the components
 * that `traffic` and `depends_on` name, to everybody for a service that no traffic mentions, and
 * between pods of one component.  They hold for the cluster's network; networks of Multus and RDMA
 * pass them by, which is why those are networks of their own. */
#include "base/str.h"
#include "render/kubernetes_int.h"

static void service_ports(struct kube *q, struct yaml_out *y, const struct spec_port *ports,
                          size_t count)
{
    char name[16];

    yaml_seq(y, "ports");
    for (size_t i = 0; i < count; i++) {
        k8s_port_name(ports, i, name);
        yaml_map(y, NULL);
        yaml_str(y, "name", name);
        yaml_note(y, render_from(q->k.r, &ports[i].port));
        yaml_int(y, "port", ports[i].port);
        yaml_str(y, "targetPort", name);
        yaml_str(y, "protocol", ports[i].protocol == SPEC_PROTOCOL_UDP ? "UDP" : "TCP");
        yaml_end(y);
    }
    yaml_end(y);
}

void kube_service(struct kube *q, struct buf *out, const char *name, const struct spec_port *ports,
                  size_t count)
{
    struct yaml_out y;

    yaml_begin(&y, out);
    k8s_head(&q->k, &y, "v1", "Service", name, name);
    yaml_map(&y, "spec");
    yaml_str(&y, "type", "ClusterIP");
    k8s_match(&q->k, &y, "selector", name);
    service_ports(q, &y, ports, count);
    yaml_end(&y);
    yaml_finish(&y);
}

/* A name for each pod, from the moment it has an address: ranks look for each other before any of
 * them is ready. */
static void headless(struct kube *q, struct buf *out, const struct kube_work *w)
{
    const struct spec_training *t = w->c->training;
    struct yaml_out y;

    yaml_begin(&y, out);
    k8s_head(&q->k, &y, "v1", "Service", w->name, w->name);
    yaml_map(&y, "spec");
    yaml_note(&y, "headless: every pod has a name of its own");
    yaml_str(&y, "clusterIP", "None");
    yaml_note(&y, "ranks look for each other before they are ready");
    yaml_bool(&y, "publishNotReadyAddresses", true);
    k8s_match(&q->k, &y, "selector", w->name);
    if (w->c->port_count) {
        service_ports(q, &y, w->c->ports, w->c->port_count);
    } else {
        yaml_seq(&y, "ports");
        yaml_map(&y, NULL);
        yaml_str(&y, "name", "rendezvous");
        yaml_int(&y, "port", t ? t->rendezvous.port : KUBE_RDZV_PORT);
        yaml_end(&y);
        yaml_end(&y);
    }
    yaml_end(&y);
    yaml_finish(&y);
}

void kube_services(struct kube *q, struct buf *out, const struct kube_work *w)
{
    bool own = w->kind == KUBE_PYTORCHJOB || w->kind == KUBE_TRAINJOB || w->kind == KUBE_JOBSET;

    if (own)
        return; /* their controllers make the headless Service */
    if (w->kind == KUBE_STATEFULSET || (w->kind == KUBE_JOB && w->launched))
        headless(q, out, w);
    else if (w->c->port_count)
        kube_service(q, out, w->name, w->c->ports, w->c->port_count);
}

/* ---- policies ---- */

static void policy_head(struct kube *q, struct yaml_out *y, struct buf *out, const char *name,
                        const char *component)
{
    yaml_begin(y, out);
    k8s_head(&q->k, y, "networking.k8s.io/v1", "NetworkPolicy", name, component);
    yaml_map(y, "spec");
    yaml_map(y, "podSelector");
    if (component)
        k8s_match(&q->k, y, "matchLabels", component);
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

static void default_deny(struct kube *q, struct buf *out)
{
    struct yaml_out y;

    policy_head(q, &y, out, "default-deny", NULL);
    policy_types(&y, true, true);
    yaml_end(&y);
    yaml_finish(&y);
}

static void one_port(struct yaml_out *y, const char *protocol, int64_t port)
{
    yaml_map(y, NULL);
    yaml_str(y, "protocol", protocol);
    yaml_int(y, "port", port);
    yaml_end(y);
}

static void allow_names(struct kube *q, struct buf *out)
{
    struct yaml_out y;

    policy_head(q, &y, out, "allow-dns", NULL);
    policy_types(&y, false, true);
    yaml_seq(&y, "egress");
    yaml_map(&y, NULL);
    yaml_seq(&y, "to");
    yaml_map(&y, NULL);
    yaml_map(&y, "namespaceSelector");
    yaml_map(&y, "matchLabels");
    yaml_str(&y, "kubernetes.io/metadata.name", "kube-system");
    yaml_end(&y);
    yaml_end(&y);
    yaml_end(&y);
    yaml_end(&y);
    yaml_seq(&y, "ports");
    one_port(&y, "UDP", 53);
    one_port(&y, "TCP", 53);
    yaml_end(&y);
    yaml_end(&y);
    yaml_end(&y);
    yaml_end(&y);
    yaml_finish(&y);
}

static void peer(struct kube *q, struct yaml_out *y, const char *component, const char *why)
{
    yaml_map(y, NULL);
    yaml_note(y, why);
    yaml_map(y, "podSelector");
    k8s_match(&q->k, y, "matchLabels", component);
    yaml_end(y);
    yaml_end(y);
}

static void ports_of(struct yaml_out *y, const struct spec_component *c)
{
    if (!c->port_count)
        return;
    yaml_seq(y, "ports");
    for (size_t i = 0; i < c->port_count; i++)
        one_port(y, c->ports[i].protocol == SPEC_PROTOCOL_UDP ? "UDP" : "TCP", c->ports[i].port);
    yaml_end(y);
}

/* May `a` open a connection to `b`?  `*at` the value that says so. */
static bool speaks(const struct spec *s, const struct spec_component *a,
                   const struct spec_component *b, const void **at)
{
    for (size_t i = 0; i < s->traffic_count; i++) {
        if (str_eq(s->traffic[i].from, a->name) && str_eq(s->traffic[i].to, b->name)) {
            *at = &s->traffic[i].from;
            return true;
        }
    }
    for (size_t i = 0; i < a->depends_on.count; i++) {
        if (str_eq(a->depends_on.items[i], b->name)) {
            *at = &a->depends_on.items[i];
            return true;
        }
    }
    return false;
}

static void ingress(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    const struct spec *s = q->k.r->spec;
    const void *at;
    bool any = false;

    yaml_seq(y, "ingress");
    yaml_map(y, NULL);
    yaml_seq(y, "from");
    peer(q, y, w->name, "its own pods, every port: ranks and NCCL");
    yaml_end(y);
    yaml_end(y);
    for (size_t i = 0; i < q->work_count; i++) {
        if (&q->works[i] == w || !speaks(s, q->works[i].c, w->c, &at))
            continue;
        any = true;
        yaml_map(y, NULL);
        yaml_seq(y, "from");
        peer(q, y, q->works[i].name, render_from(q->k.r, at));
        yaml_end(y);
        ports_of(y, w->c);
        yaml_end(y);
    }
    if (!any && w->c->port_count &&
        (w->c->kind == SPEC_COMPONENT_SERVICE || w->c->kind == SPEC_COMPONENT_SERVING)) {
        yaml_map(y, NULL); /* no sender is named: a service for everybody */
        ports_of(y, w->c);
        yaml_end(y);
    }
    yaml_end(y);
}

static bool needs_outside(const struct spec *s)
{
    for (size_t i = 0; i < s->storage_count; i++)
        if (s->storage[i].kind == SPEC_STORAGE_OBJECT)
            return true;
    return false;
}

static void egress(struct kube *q, struct yaml_out *y, const struct kube_work *w)
{
    const struct spec *s = q->k.r->spec;
    const void *at;

    yaml_seq(y, "egress");
    yaml_map(y, NULL);
    yaml_seq(y, "to");
    peer(q, y, w->name, NULL);
    yaml_end(y);
    yaml_end(y);
    for (size_t i = 0; i < q->work_count; i++) {
        const struct kube_work *to = &q->works[i];

        if (to == w || !speaks(s, w->c, to->c, &at))
            continue;
        yaml_map(y, NULL);
        yaml_seq(y, "to");
        peer(q, y, to->name, render_from(q->k.r, at));
        yaml_end(y);
        ports_of(y, to->c);
        yaml_end(y);
    }
    if (needs_outside(s)) {
        yaml_map(y, NULL);
        yaml_note(y, "object storage of the spec, by HTTPS");
        yaml_seq(y, "ports");
        one_port(y, "TCP", 443);
        yaml_end(y);
        yaml_end(y);
    }
    yaml_end(y);
}

static void component_policy(struct kube *q, struct buf *out, const struct kube_work *w)
{
    struct yaml_out y;

    policy_head(q, &y, out, w->name, w->name);
    policy_types(&y, true, true);
    ingress(q, &y, w);
    egress(q, &y, w);
    yaml_end(&y);
    yaml_finish(&y);
}

static void server_policy(struct kube *q, struct buf *out)
{
    const struct spec_serve *s = &q->k.r->spec->serve;
    struct yaml_out y;

    policy_head(q, &y, out, "stoker-serve", "stoker-serve");
    policy_types(&y, true, false);
    yaml_seq(&y, "ingress");
    yaml_map(&y, NULL);
    yaml_seq(&y, "ports");
    one_port(&y, "TCP", s->port);
    one_port(&y, "TCP", s->rerank_port);
    yaml_end(&y);
    yaml_end(&y);
    yaml_end(&y);
    yaml_end(&y);
    yaml_finish(&y);
}

void kube_policies_write(struct kube *q)
{
    struct buf *out = kube_base(q, "network-policy.yaml",
                                "Who may speak to whom: nobody, but for what the spec names.");

    default_deny(q, out);
    allow_names(q, out);
    for (size_t i = 0; i < q->work_count; i++)
        component_policy(q, out, &q->works[i]);
    if (q->serve)
        server_policy(q, out);
}

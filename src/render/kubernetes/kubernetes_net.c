/* SPDX-License-Identifier: MIT */
/* kubernetes_net: Services. */
#include "base/str.h"
#include "render/kubernetes/kubernetes_int.h"

static void service_ports(struct kube *q, struct yaml_out *y, const struct spec_port *ports,
                          size_t count)
{
    char name[16];

    yaml_seq(y, "ports");
    for (size_t i = 0; i < count; i++) {
        k8s_port_name(ports, i, name);
        yaml_map(y, NULL);
        yaml_str(y, "name", name);
        render_int(q->k.r, y, "port", ports[i].port, &ports[i].port);
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

    k8s_object(&q->k, &y, out, "v1", "Service", name, name);
    yaml_map(&y, "spec");
    yaml_str(&y, "type", "ClusterIP");
    k8s_match(&q->k, &y, "selector", name);
    service_ports(q, &y, ports, count);
    yaml_finish(&y);
}

/* Is it asked by clients?  They want the pods that are ready, by one address: what the headless
 * Service of a StatefulSet gives them is every pod, from the second it has an address. */
static bool has_clients(struct kube *q, const struct kube_work *w)
{
    size_t count;

    (void)k8s_ports_of(&q->k, w->c, &count);
    return count && !w->launched && w->c->kind != SPEC_COMPONENT_TRAINING;
}

const char *kube_headless(struct kube *q, const struct kube_work *w)
{
    if (w->kind == KUBE_STATEFULSET)
        return has_clients(q, w) ? k8s_name(&q->k, w->c->name, "-headless") : w->name;
    return w->kind == KUBE_JOB && w->launched ? w->name : NULL;
}

/* A Service is named after its component: another's headless one cannot be called like that. */
void kube_headless_check(struct kube *q)
{
    for (size_t i = 0; i < q->work_count; i++) {
        const char *name = kube_headless(q, &q->works[i]);

        for (size_t k = 0; name && k < q->work_count; k++)
            if (k != i && str_eq(q->works[k].name, name))
                render_refuse(q->k.r, &q->works[k].c->name,
                              "Rename it; pods with volumes of their own meet by NAME-headless.",
                              "'%s' is the name of the headless service of '%s'",
                              q->works[k].c->name, q->works[i].c->name);
    }
}

/* A name for each pod, from the moment it has an address: ranks look for each other before any of
 * them is ready. */
static void headless_write(struct kube *q, struct buf *out, const struct kube_work *w)
{
    const struct spec_training *t = w->c->training;
    struct yaml_out y;
    size_t count;
    const struct spec_port *ports = k8s_ports_of(&q->k, w->c, &count);

    k8s_object(&q->k, &y, out, "v1", "Service", kube_headless(q, w), w->name);
    yaml_map(&y, "spec");
    yaml_note(&y, "headless: every pod has a name of its own");
    yaml_str(&y, "clusterIP", "None");
    yaml_note(&y, has_clients(q, w) ? "pods look for each other before they are ready"
                                    : "ranks look for each other before they are ready");
    yaml_bool(&y, "publishNotReadyAddresses", true);
    k8s_match(&q->k, &y, "selector", w->name);
    if (count) {
        service_ports(q, &y, ports, count);
    } else {
        yaml_open(&y, "ports[]");
        yaml_str(&y, "name", "rendezvous");
        yaml_int(&y, "port", t ? t->rendezvous.port : KUBE_RDZV_PORT);
        yaml_ends(&y, 2);
    }
    yaml_finish(&y);
}

void kube_services(struct kube *q, struct buf *out, const struct kube_work *w)
{
    bool own = w->kind == KUBE_PYTORCHJOB || w->kind == KUBE_TRAINJOB || w->kind == KUBE_JOBSET;
    size_t count;
    const struct spec_port *ports = k8s_ports_of(&q->k, w->c, &count);

    if (own)
        return; /* their controllers make the headless Service */
    if (kube_headless(q, w))
        headless_write(q, out, w);
    if (count && (!kube_headless(q, w) || has_clients(q, w)))
        kube_service(q, out, w->name, ports, count);
}

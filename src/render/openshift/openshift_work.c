/* SPDX-License-Identifier: MIT */
/* openshift_work: components as StatefulSets, Jobs and Pods, with the headless services by which
 * their pods find each other, and for those that serve a Service and a Route. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/openshift/openshift_int.h"

/* ---- service ---- */

static bool has_port(const struct spec_port *ports, size_t count, int64_t port)
{
    for (size_t i = 0; i < count; i++)
        if (ports[i].port == port)
            return true;
    return false;
}

static void service_port(struct yaml_out *y, const char *name, int64_t port, bool udp)
{
    yaml_map(y, NULL);
    yaml_str(y, "name", name);
    yaml_int(y, "port", port);
    yaml_str(y, "protocol", udp ? "UDP" : "TCP");
    yaml_end(y);
}

static void service_ports(struct shift *s, struct yaml_out *y, const struct spec_component *c)
{
    const struct spec_rendezvous *rv = c->training ? &c->training->rendezvous : NULL;
    size_t count;
    const struct spec_port *ports = k8s_ports_of(&s->k, c, &count);
    bool extra = rv && !has_port(ports, count, rv->port);
    char name[16];

    if (!count && !extra)
        return;
    yaml_seq(y, "ports");
    for (size_t i = 0; i < count; i++) {
        k8s_port_name(ports, i, name);
        yaml_note(y, render_from(s->k.r, &ports[i].port));
        service_port(y, name, ports[i].port, ports[i].protocol == SPEC_PROTOCOL_UDP);
    }
    if (extra) {
        yaml_note(y, render_from(s->k.r, &rv->port));
        service_port(y, "torchrun", rv->port, false);
    }
    yaml_end(y);
}

static void service_write(struct shift *s, struct buf *b, const struct spec_component *c)
{
    const char *name = k8s_name(&s->k, c->name, "");
    struct yaml_out y;

    k8s_object(&s->k, &y, b, "v1", "Service", shift_service(s, c), name);
    yaml_map(&y, "spec");
    yaml_note(&y, "headless: a name of its own for each pod");
    yaml_str(&y, "clusterIP", "None");
    yaml_note(&y, "pods meet before any of them is ready");
    yaml_bool(&y, "publishNotReadyAddresses", true);
    k8s_match(&s->k, &y, "selector", name);
    service_ports(s, &y, c);
    yaml_finish(&y);
}

/* One address for all pods of a service, for those who do not ask for a certain one. */
static void balanced_write(struct shift *s, struct buf *b, const struct spec_component *c)
{
    const char *name = k8s_name(&s->k, c->name, "");
    struct yaml_out y;

    k8s_object(&s->k, &y, b, "v1", "Service", name, name);
    yaml_map(&y, "spec");
    yaml_str(&y, "type", "ClusterIP");
    k8s_match(&s->k, &y, "selector", name);
    service_ports(s, &y, c);
    yaml_finish(&y);
}

/* From outside the cluster, by the router's own name for it, over TLS as far as the router. */
static void route_write(struct shift *s, struct buf *b, const struct spec_component *c)
{
    const char *name = k8s_name(&s->k, c->name, "");
    size_t count;
    char port[16];
    struct yaml_out y;

    k8s_port_name(k8s_ports_of(&s->k, c, &count), 0, port);
    k8s_object(&s->k, &y, b, "route.openshift.io/v1", "Route", name, name);
    yaml_map(&y, "spec");
    yaml_map_of(&y, "to", "kind", "Service", "name", name);
    yaml_map_of(&y, "port", "targetPort", port);
    yaml_map_of(&y, "tls", "termination", "edge", "insecureEdgeTerminationPolicy", "Redirect");
    yaml_finish(&y);
}

/* ---- StatefulSet ---- */

/* Do all volumes of its pods outlive them? */
static bool keeps_volumes(const struct shift *s, const struct spec_component *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct spec_storage *st = spec_storage_find(s->k.r->spec, c->mounts[i].storage);

        if (st && k8s_per_replica(st) && !st->keep)
            return false;
    }
    return true;
}

static void set_head(struct shift *s, struct yaml_out *y, const struct spec_component *c)
{
    bool keep = keeps_volumes(s, c);

    yaml_str(y, "serviceName", shift_service(s, c));
    if (c->scale) { /* else each apply would set it again, over what was scaled since */
        yaml_comment(y,
                     arena_printf(&s->k.arena, "no replicas here: whoever scales changes them (%s)",
                                  render_from(s->k.r, &c->scale)));
    } else {
        render_int(s->k.r, y, "replicas", shift_pods(c), &c->replicas);
    }
    yaml_note(y, "all at once: they wait for each other");
    yaml_str(y, "podManagementPolicy", "Parallel");
    yaml_note(y, keep ? "volumes stay, also at zero replicas" : "volumes go with their pods");
    yaml_map_of(y, "persistentVolumeClaimRetentionPolicy", "whenScaled", keep ? "Retain" : "Delete",
                "whenDeleted", keep ? "Retain" : "Delete");
    yaml_map(y, "selector");
    k8s_match(&s->k, y, "matchLabels", k8s_name(&s->k, c->name, ""));
    yaml_end(y);
}

/* For a last checkpoint: as long as the machine is there after it was told of, on_notice. */
static int64_t grace_s(const struct shift *s, const struct spec_component *c)
{
    const struct spec_node *n = spec_node_of(s->k.r->spec, c->nodes);

    if (c->kind != SPEC_COMPONENT_TRAINING)
        return 0;
    if (!c->training || !n)
        return SHIFT_GRACE_S;
    return c->training->checkpoint.on_notice ? (n->notice_ms + 999) / 1000 : 0;
}

static void set_write(struct shift *s, const struct spec_component *c)
{
    const char *name = k8s_name(&s->k, c->name, "");
    struct buf *b = shift_file(s, arena_printf(&s->k.arena, "components/%s.yaml", name),
                               "StatefulSet and headless service of a component.");
    struct k8s_pod pod;
    struct yaml_out y;
    size_t count;

    service_write(s, b, c);
    k8s_pod_of(&s->k, c, true, &pod);
    pod.readiness = true;
    pod.spread_hard = feasible_apart(s->k.r->spec, c, FEASIBLE_OPENSHIFT);
    pod.grace_s = grace_s(s, c);
    if (shift_launched(c))
        shift_launch(s, &pod);
    if (k8s_is_server(c))
        k8s_serve_pod(&s->k, c, &pod);
    (void)k8s_ports_of(&s->k, c, &count);
    if (count && c->kind != SPEC_COMPONENT_TRAINING)
        balanced_write(s, b, c);
    if (count && c->kind == SPEC_COMPONENT_SERVING)
        route_write(s, b, c);
    if (k8s_needs_budget(c))
        k8s_budget(&s->k, b, c);
    if (k8s_is_server(c))
        k8s_serve_spec(&s->k, b, c);
    k8s_object(&s->k, &y, b, "apps/v1", "StatefulSet", name, name);
    yaml_map(&y, "spec");
    set_head(s, &y, c);
    k8s_template(&s->k, &y, &pod);
    k8s_claim_templates(&s->k, &y, c);
    yaml_finish(&y);
}

/* ---- Job and Pod, started when they are wanted ---- */

static struct buf *run_file(struct shift *s, const char *name, const char *what)
{
    struct buf *b = render_file(s->k.r, "openshift/run/%s.yaml", name);

    render_head(s->k.r, b, "#", what);
    buf_addf(b, "# oc -n %s create -f %s.yaml\n", s->k.namespace, name);
    return b;
}

static void job_head(struct shift *s, struct yaml_out *y, const struct spec_component *c)
{
    int64_t pods = shift_pods(c);

    yaml_note(y, k8s_pods_from(&s->k, c));
    yaml_int(y, "completions", pods);
    yaml_int(y, "parallelism", pods);
    yaml_note(y, "each pod has a number and a name by it");
    yaml_str(y, "completionMode", "Indexed");
    render_int(s->k.r, y, "backoffLimit", c->restart == SPEC_RESTART_NEVER ? 0 : 6, &c->restart);
    if (c->time_limit_ms.known) {
        render_int(s->k.r, y, "activeDeadlineSeconds", (c->time_limit_ms.v + 999) / 1000,
                   &c->time_limit_ms);
    }
    yaml_int(y, "ttlSecondsAfterFinished", SHIFT_KEEP_S);
}

static void job_write(struct shift *s, const struct spec_component *c)
{
    const char *name = k8s_name(&s->k, c->name, "");
    struct buf *b = run_file(s, name, "Job of a component, started when it is wanted.");
    struct k8s_pod pod;
    struct yaml_out y;

    if (shift_has_peers(c))
        service_write(s, b, c);
    k8s_pod_of(&s->k, c, false, &pod);
    pod.restart = c->restart == SPEC_RESTART_NEVER ? "Never" : "OnFailure";
    pod.subdomain = shift_has_peers(c) ? shift_service(s, c) : NULL;
    pod.spread_hard = shift_pods(c) > 1;
    shift_launch(s, &pod);
    k8s_object(&s->k, &y, b, "batch/v1", "Job", name, name);
    yaml_map(&y, "spec");
    job_head(s, &y, c);
    k8s_template(&s->k, &y, &pod);
    yaml_finish(&y);
}

static void debug_write(struct shift *s, const struct spec_component *c)
{
    const char *name = k8s_name(&s->k, c->name, "");
    struct buf *b = run_file(s, name, "Pod to look around in, started when it is wanted.");
    struct k8s_pod pod;
    struct yaml_out y;
    struct buf nets = { 0 };

    buf_addf(b, "# oc -n %s exec -it %s -- stoker detect --check all\n", s->k.namespace, name);
    k8s_pod_of(&s->k, c, false, &pod);
    pod.restart = "Never";
    pod.deadline_s = c->time_limit_ms.known ? (c->time_limit_ms.v + 999) / 1000 : 0;
    shift_launch(s, &pod);
    yaml_begin(&y, b);
    k8s_head_open(&s->k, &y, "v1", "Pod", s->k.namespace, name, name);
    k8s_networks(&s->k, c, &nets);
    if (nets.len) {
        yaml_map(&y, "annotations");
        render_str(s->k.r, &y, "k8s.v1.cni.cncf.io/networks", buf_str(&nets), &c->fabrics);
        yaml_end(&y);
    }
    buf_release(&nets);
    yaml_end(&y);
    k8s_pod_spec(&s->k, &y, &pod);
    yaml_finish(&y);
}

void shift_components(struct shift *s)
{
    static void (*const write[])(struct shift *, const struct spec_component *) = {
        [SHIFT_SET] = set_write, [SHIFT_JOB] = job_write, [SHIFT_POD] = debug_write
    };
    const struct spec_component *c;

    for (size_t i = 0; (c = shift_component(s, &i));)
        write[shift_kind_of(c)](s, c);
}

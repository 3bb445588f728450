/* SPDX-License-Identifier: MIT */
/* kubernetes_watch: what Prometheus reads of the pods, its rules, and what changes replicas. */
#include "base/str.h"
#include "render/alerts/alerts_int.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

/* ---- scraping ---- */

static void put_relabel(struct yaml_out *y, const char *from, const char *to, const char *value)
{
    yaml_map(y, NULL);
    if (from)
        yaml_seq_of(y, "sourceLabels", from);
    yaml_str(y, "targetLabel", to);
    if (value)
        yaml_str(y, "replacement", value);
    yaml_end(y);
}

static void monitor_write(struct kube *q, struct k8s *k, struct buf *out, const char *component,
                          const char *port, const char *job, bool token)
{
    struct yaml_out y;
    const struct spec_prometheus *p = q->k.r->targets->prometheus;

    k8s_object(k, &y, out, "monitoring.coreos.com/v1", "PodMonitor", component, component);
    yaml_open(&y, "spec.selector");
    k8s_match(k, &y, "matchLabels", component);
    yaml_end(&y);
    yaml_map(&y, "attachMetadata");
    yaml_bool(&y, "node", true);
    yaml_end(&y);
    yaml_open(&y, "podMetricsEndpoints[]");
    yaml_str(&y, "port", port);
    yaml_note(&y, render_from(q->k.r, &p->scrape_ms));
    if (p->scrape_ms % 1000)
        yaml_strf(&y, "interval", "%" PRId64 "ms", p->scrape_ms);
    else
        yaml_strf(&y, "interval", "%" PRId64 "s", p->scrape_ms / 1000);
    yaml_note(&y, "the pod and the job of a GPU are the agent's labels");
    yaml_bool(&y, "honorLabels", true);
    if (token) {
        yaml_map(&y, "authorization");
        yaml_str(&y, "type", "Bearer");
        yaml_map_of(&y, "credentials", "name", "stoker-token", "key", "token");
        yaml_end(&y);
    }
    yaml_seq(&y, "relabelings");
    put_relabel(&y, NULL, "job", job);
    put_relabel(&y, "__meta_kubernetes_pod_node_name", "node", NULL);
    put_relabel(&y, "__meta_kubernetes_node_label_stoker_group", "group", NULL);
    yaml_ends(&y, 3);
    yaml_finish(&y);
}

static void rules_write(struct kube *q)
{
    struct buf *out = kube_site(q, "rules.yaml", "Alerts, for the Prometheus Operator.");
    struct yaml_out y;

    k8s_object(&q->watch, &y, out, "monitoring.coreos.com/v1", "PrometheusRule", "stoker", NULL);
    yaml_map(&y, "spec");
    alerts_groups(q->k.r, &y);
    yaml_finish(&y);
}

void kube_monitors_write(struct kube *q)
{
    struct buf *out = NULL;
    char port[16];
    size_t count;
    bool served = false;

    if (q->agent) {
        out = kube_site(q, "monitors.yaml", "What the Prometheus Operator scrapes.");
        monitor_write(q, &q->watch, out, "stoker-agent", "metrics", ALERTS_JOB_AGENT,
                      !q->k.r->spec->agent.open_metrics);
        if (q->t->gpu_operator)
            monitor_write(q, &q->watch, out, "stoker-agent-cpu", "metrics", ALERTS_JOB_AGENT,
                          !q->k.r->spec->agent.open_metrics);
    }
    for (size_t i = 0; i < q->work_count; i++) {
        if (!k8s_is_server(q->works[i].c))
            continue;
        if (!out)
            out = kube_site(q, "monitors.yaml", "What the Prometheus Operator scrapes.");
        k8s_port_name(k8s_ports_of(&q->k, q->works[i].c, &count), 0, port);
        monitor_write(q, &q->k, out, q->works[i].name, port, ALERTS_JOB_SERVE, true);
        served = true;
    }
    if (q->serve) {
        if (!out)
            out = kube_site(q, "monitors.yaml", "What the Prometheus Operator scrapes.");
        monitor_write(q, &q->k, out, "stoker-serve", "http", ALERTS_JOB_SERVE, true);
        served = true;
    }
    if (served && q->t->network_policy) {
        /* The policies shut Prometheus out too. */
        struct yaml_out y;

        k8s_object(&q->k, &y, out, "networking.k8s.io/v1", "NetworkPolicy", "allow-prometheus",
                   NULL);
        yaml_open(&y, "spec.podSelector");
        yaml_end(&y);
        yaml_seq_of(&y, "policyTypes", "Ingress");
        yaml_open(&y, "ingress[].from[].namespaceSelector");
        yaml_map_of(&y, "matchLabels", "kubernetes.io/metadata.name", KUBE_PROMETHEUS_NAMESPACE);
        yaml_finish(&y);
    }
    if (q->agent)
        rules_write(q);
}

/* ---- replicas ---- */

/* How a metric becomes replicas.  What adds up over the pods (requests, jobs that wait) is summed
 * and divided by their number: AverageValue, the target is that of one replica.  What is the same
 * however many there are (a share of a GPU, a latency) is compared as it is: Value, and the number
 * of pods is multiplied by how far it is off.  A sum compared as it is would grow with the pods it
 * asks for. */
struct query { /* %s: matchers of the component's pods */
    enum spec_metric metric;
    bool adds_up;
    bool served; /* counted by `stoker serve` */
    const char *expr;
    const char *renamed; /* with the names of DCGM 4.6; NULL: the same */
};

static const struct query queries[] = {
    { .metric = SPEC_METRIC_GPU_UTILIZATION,
      .expr = "avg(DCGM_FI_DEV_GPU_UTIL{%s})",
      .renamed = "avg(DCGM_FI_DEV_GPU_UTIL_RATIO{%s})" },
    { .metric = SPEC_METRIC_GPU_POWER,
      .expr = "avg(DCGM_FI_DEV_POWER_USAGE{%s})",
      .renamed = "avg(DCGM_FI_DEV_BOARD_POWER_WATTS{%s})" },
    { .metric = SPEC_METRIC_GPU_TENSOR,
      .expr = "100 * avg(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{%s})",
      .renamed = "100 * avg(DCGM_FI_PROF_TENSOR_UTIL_RATIO{%s})" },
    { .metric = SPEC_METRIC_REQUESTS,
      .adds_up = true,
      .served = true,
      .expr = "sum(rate(stoker_requests_total{%s}[1m]))" },
    { .metric = SPEC_METRIC_QUEUE_LENGTH,
      .adds_up = true,
      .served = true,
      .expr = "sum(stoker_queue_jobs{%s})" },
    { .metric = SPEC_METRIC_QUEUE_AGE,
      .served = true,
      .expr = "1000 * histogram_quantile(0.99, sum by (le) "
              "(rate(stoker_queue_seconds_bucket{%s}[1m])))" },
    { .metric = SPEC_METRIC_LATENCY_P50,
      .served = true,
      .expr = "1000 * histogram_quantile(0.5, sum by (le) "
              "(rate(stoker_request_seconds_bucket{%s}[1m])))" },
    { .metric = SPEC_METRIC_LATENCY_P99,
      .served = true,
      .expr = "1000 * histogram_quantile(0.99, sum by (le) "
              "(rate(stoker_request_seconds_bucket{%s}[1m])))" },
};

static const struct query *query_find(enum spec_metric metric)
{
    for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++)
        if (queries[i].metric == metric)
            return &queries[i];
    return NULL;
}

/* Pods by the names that their controller gives them, so that those of "api" are not those of
 * "api-v2" too. */
static const char *query_text(struct kube *q, const struct kube_work *w, const struct query *query)
{
    const char *tail = w->kind == KUBE_STATEFULSET ? "[0-9]+" : "[a-z0-9]{1,10}-[a-z0-9]{5}";
    const char *pods =
        arena_printf(&q->k.arena, "namespace=\"%s\",pod=~\"%s-%s\"", q->k.namespace, w->name, tail);
    bool renamed = q->k.r->spec->agent.dcgm_names == SPEC_DCGM_NEW && query->renamed;
    const char *expr = renamed ? query->renamed : query->expr;
    const char *at = strstr(expr, "%s");

    return arena_printf(&q->k.arena, "%.*s%s%s", (int)(at - expr), expr, pods, at + 2);
}

static void target_ref(struct yaml_out *y, const struct kube_work *w)
{
    yaml_map_of(y, "scaleTargetRef", "apiVersion", "apps/v1", "kind", kube_kind_name(w), "name",
                w->name);
}

static void put_direction(struct kube *q, struct yaml_out *y, const char *key,
                          const int64_t *after_ms, const struct spec_scale *s)
{
    int64_t period = (s->cooldown_ms + 999) / 1000;

    period = period < 1 ? 1 : period > 1800 ? 1800 : period;
    yaml_map(y, key);
    yaml_note(y, render_from(q->k.r, after_ms));
    yaml_int(y, "stabilizationWindowSeconds",
             *after_ms / 1000 > 3600 ? 3600 : *after_ms / 1000); /* the most that it takes */
    yaml_open(y, "policies[]");
    yaml_str(y, "type", "Pods");
    render_int(q->k.r, y, "value", s->step, &s->step);
    render_int(q->k.r, y, "periodSeconds", period, &s->cooldown_ms);
    yaml_ends(y, 3);
}

static void put_behavior(struct kube *q, struct yaml_out *y, const struct spec_scale *s)
{
    yaml_map(y, "behavior");
    put_direction(q, y, "scaleUp", &s->up_after_ms, s);
    put_direction(q, y, "scaleDown", &s->down_after_ms, s);
    yaml_end(y);
}

/* One replica at least: none would count anything, and nothing would start the first again. */
static int64_t least_replicas(const struct spec_scale *s)
{
    return s->min > 1 ? s->min : 1;
}

static const char *least_from(struct kube *q, const struct spec_scale *s)
{
    return s->min > 0 ? render_from(q->k.r, &s->min)
                      : "at zero nothing is counted, and nothing would start the first again";
}

static void hpa_write(struct kube *q, struct buf *out, const struct kube_work *w)
{
    const struct spec_scale *s = w->c->scale;
    struct yaml_out y;

    k8s_object(&q->k, &y, out, "autoscaling/v2", "HorizontalPodAutoscaler", w->name, w->name);
    yaml_map(&y, "spec");
    target_ref(&y, w);
    yaml_note(&y, least_from(q, s));
    yaml_int(&y, "minReplicas", least_replicas(s));
    render_int(q->k.r, &y, "maxReplicas", s->max, &s->max);
    yaml_open(&y, "metrics[]");
    yaml_str(&y, "type", "Resource");
    yaml_map(&y, "resource");
    yaml_str(&y, "name", "cpu");
    yaml_map(&y, "target");
    yaml_str(&y, "type", "Utilization");
    render_int(q->k.r, &y, "averageUtilization", (int64_t)s->target.v, &s->target);
    yaml_ends(&y, 4);
    put_behavior(q, &y, s);
    yaml_finish(&y);
}

static void put_trigger(struct kube *q, struct yaml_out *y, const struct kube_work *w,
                        const struct query *query)
{
    const struct spec_scale *s = w->c->scale;
    const struct spec_prometheus *p = q->k.r->targets->prometheus;
    bool named = q->k.r->spec->targets.prometheus && spec_where(q->k.r->spec, &p->url).line;

    yaml_open(y, "triggers[]");
    yaml_str(y, "type", "prometheus");
    yaml_note(y,
              query->adds_up ? "the target is of one replica" : "the same for any number of pods");
    yaml_str(y, "metricType", query->adds_up ? "AverageValue" : "Value");
    yaml_map(y, "metadata");
    yaml_note(y, named ? render_from(q->k.r, &p->url)
                       : "the Prometheus Operator's; targets.prometheus.url names another");
    yaml_str(y, "serverAddress",
             named ? p->url : "http://prometheus-operated." KUBE_PROMETHEUS_NAMESPACE ".svc:9090");
    render_str(q->k.r, y, "query", query_text(q, w, query), &s->metric);
    yaml_note(y, render_from(q->k.r, &s->target));
    yaml_strf(y, "threshold", "%.12g", s->target.v);
    yaml_ends(y, 3);
}

static void scaled_object(struct kube *q, struct buf *out, const struct kube_work *w,
                          const struct query *query)
{
    const struct spec_scale *s = w->c->scale;
    struct yaml_out y;

    k8s_object(&q->k, &y, out, "keda.sh/v1alpha1", "ScaledObject", w->name, w->name);
    yaml_map(&y, "spec");
    target_ref(&y, w);
    yaml_note(&y, least_from(q, s));
    yaml_int(&y, "minReplicaCount", least_replicas(s));
    render_int(q->k.r, &y, "maxReplicaCount", s->max, &s->max);
    yaml_int(&y, "pollingInterval", 30);
    yaml_open(&y, "advanced.horizontalPodAutoscalerConfig");
    put_behavior(q, &y, s);
    yaml_ends(&y, 2);
    put_trigger(q, &y, w, query);
    yaml_finish(&y);
}

bool kube_scaled(const struct kube_work *w)
{
    return w->c->scale && (w->kind == KUBE_DEPLOYMENT || w->kind == KUBE_STATEFULSET);
}

/* What an autoscaler of Kubernetes does not do. */
static void scale_wishes(struct kube *q, const struct kube_work *w, const struct query *query)
{
    const struct spec_scale *s = w->c->scale;

    if (s->min < 1)
        render_warn(
            q->k.r, &s->min, "Scale it to zero by hand.",
            "at zero replicas '%s' counts nothing, and nothing would start the first again: "
            "one stays",
            w->c->name);
    if (query && query->served && !k8s_is_server(w->c))
        render_warn(q->k.r, &s->metric, "Take gpu_utilization or cpu_utilization.",
                    "'%s' is counted by 'stoker serve', and '%s' runs another program",
                    spec_metric_name(s->metric), w->c->name);
    if (s->max_cost.known)
        render_warn(q->k.r, &s->max_cost, NULL,
                    "replicas on Kubernetes follow no cost: 'max_cost' of '%s' is not kept",
                    w->c->name);
}

void kube_scaler(struct kube *q, struct buf *out, const struct kube_work *w)
{
    const struct spec_scale *s = w->c->scale;
    const struct query *query;

    if (!kube_scaled(w)) {
        buf_addf(out, "# scale (%s): a %s has no replicas to change; its pods are one run.\n",
                 render_from(q->k.r, &w->c->scale), kube_kind_name(w));
        if (w->c->scale->max > 1)
            render_warn(q->k.r, &w->c->scale->max, "Set 'job: statefulset' to scale it.",
                        "'%s' is a %s, whose pods are one run: it is not scaled", w->c->name,
                        kube_kind_name(w));
        return;
    }
    if (!s->target.known) {
        buf_addf(out,
                 "# scale (%s) has no target: by hand, between %" PRId64 " and %" PRId64 ":\n"
                 "#   kubectl -n %s scale %s/%s --replicas=N\n",
                 render_from(q->k.r, &w->c->scale), s->min, s->max, q->k.namespace,
                 w->kind == KUBE_STATEFULSET ? "statefulset" : "deployment", w->name);
        return;
    }
    query = query_find(s->metric);
    scale_wishes(q, w, query);
    if (s->metric == SPEC_METRIC_CPU_UTILIZATION) {
        hpa_write(q, out, w);
        return;
    }
    if (query)
        scaled_object(q, out, w, query);
    else
        render_refuse(q->k.r, &s->metric,
                      "cpu_utilization, gpu_utilization, gpu_power, gpu_tensor_activity, "
                      "requests_per_second, queue_length, queue_age or latency.",
                      "replicas cannot follow '%s' on Kubernetes", spec_metric_name(s->metric));
}

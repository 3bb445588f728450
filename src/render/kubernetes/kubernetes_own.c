/* SPDX-License-Identifier: MIT */
/* kubernetes_own: stoker's own pods: the agent on every machine, the model server.
 *
 * The agent's rights, one by one: hostPID, to tell whose processes are on a GPU (and so that the
 * pod's /proc is the machine's: the runtime allows no mount over /proc); hostNetwork, for the
 * machine's interfaces; /sys, /var/log/pods and /var/log/containers, read-only.  It is not root
 * and has no capability.  The kernel's log stays closed: /dev/kmsg needs a privileged pod; errors
 * of the driver (Xid) come from the driver itself. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>

enum { CONFIG_MAX = 1000000 }; /* of the 1 MiB that etcd takes */

static const char *kube_cpu(struct kube *q, int64_t cpu_m)
{
    return cpu_m % 1000 ? arena_printf(&q->k.arena, "%" PRId64 "m", cpu_m)
                        : arena_printf(&q->k.arena, "%" PRId64, cpu_m / 1000);
}

static const char *kube_mib(struct kube *q, int64_t mib)
{
    return mib % 1024 ? arena_printf(&q->k.arena, "%" PRId64 "Mi", mib)
                      : arena_printf(&q->k.arena, "%" PRId64 "Gi", mib / 1024);
}

/* ---- the agent ---- */

/* Whoever knows the address of a webhook may post there. */
static bool spec_is_secret(const struct render *r)
{
    return r->spec->notify.webhook;
}

static void agent_volumes(struct k8s *k, struct k8s_pod *pod)
{
    static const char *const seen[][2] = { { K8S_OWN_VOLUME "sys", "/sys" },
                                           { K8S_OWN_VOLUME "pod-logs", "/var/log/pods" },
                                           { K8S_OWN_VOLUME "container-logs",
                                             "/var/log/containers" } };

    if (spec_is_secret(k->r))
        k8s_volume_add(k, pod,
                       (struct k8s_volume){ .name = "spec",
                                            .kind = K8S_SECRET,
                                            .source = "stoker-spec",
                                            .path = "/etc/stoker",
                                            .read_only = true,
                                            .mode = 0440 });
    else
        k8s_config_volume(k, pod, "stoker-spec");
    k8s_token_volume(k, pod);
    for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++)
        k8s_volume_add(k, pod,
                       (struct k8s_volume){ .name = seen[i][0],
                                            .kind = K8S_HOST,
                                            .source = seen[i][1],
                                            .host_type = "Directory",
                                            .path = seen[i][1],
                                            .read_only = true });
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = K8S_OWN_VOLUME "state",
                                        .kind = K8S_SCRATCH,
                                        .path = "/var/lib/stoker" });
    k8s_volume_add(
        k, pod,
        (struct k8s_volume){ .name = K8S_OWN_VOLUME "run", .kind = K8S_SCRATCH, .path = "/tmp" });
}

static void agent_pod(struct kube *q, struct k8s_pod *pod)
{
    static const char *const args[] = { "agent",
                                        "-f",
                                        "/etc/stoker/stoker.yaml",
                                        "--listen",
                                        "0.0.0.0",
                                        "--token-file",
                                        K8S_TOKEN_FILE,
                                        "--history",
                                        "/var/lib/stoker/history.ring",
                                        "--control",
                                        "/tmp/agent.sock" };
    static const char *const command[] = { "stoker" };
    static const struct k8s_env env[] = {
        { .name = "NVIDIA_VISIBLE_DEVICES",
          .value = "all",
          .from = "every GPU is watched and none is taken" },
        { .name = "NVIDIA_DRIVER_CAPABILITIES", .value = "utility" },
    };
    const struct spec_agent *a = &q->k.r->spec->agent;
    struct spec_port *ports = arena_array(&q->watch.arena, struct spec_port, 2);
    struct spec_health *health = arena_new(&q->watch.arena, struct spec_health);

    ports[0] = (struct spec_port){ .name = "page", .port = a->port };
    ports[1] = (struct spec_port){ .name = "metrics", .port = a->metrics_port };
    *health = (struct spec_health){ .path = "/health",
                                    .port = maybe_of(a->port),
                                    .interval_ms = 10000,
                                    .timeout_ms = 5000,
                                    .start_ms = 60000,
                                    .retries = 3 };
    *pod = (struct k8s_pod){ .name = "stoker-agent",
                             .command = { command, 1 },
                             .args = { args, sizeof(args) / sizeof(*args) },
                             .env = env,
                             .env_count = 2,
                             .service_account = q->watch.service_account,
                             .host_network = true,
                             .host_pid = true,
                             .any_node = true,
                             .read_only_root = true,
                             .uid = K8S_UID_DEFAULT,
                             .priority = "system-node-critical",
                             .cpu = kube_cpu(q, FEASIBLE_AGENT_CPU_M),
                             .memory = kube_mib(q, FEASIBLE_AGENT_MIB),
                             .ports = ports,
                             .port_count = 2,
                             .health = health,
                             .readiness = true };
    pod->image = q->k.stoker_image;
    pod->image_from = q->k.stoker_image_from;
    agent_volumes(&q->watch, pod);
}

static void agent_daemon(struct kube *q, struct buf *out, const struct k8s_pod *pod)
{
    struct yaml_out y;

    k8s_object(&q->watch, &y, out, "apps/v1", "DaemonSet", pod->name, pod->name);
    yaml_open(&y, "spec.selector");
    k8s_match(&q->watch, &y, "matchLabels", pod->name);
    yaml_end(&y);
    yaml_map(&y, "updateStrategy");
    yaml_str(&y, "type", "RollingUpdate");
    yaml_map_of(&y, "rollingUpdate", "maxUnavailable", "10%");
    yaml_end(&y);
    k8s_template(&q->watch, &y, pod);
    yaml_finish(&y);
}

/* Files of a machine, which a pod does not have. */
#define MACHINE_FILES                                                                              \
    "agent.tls_cert", "agent.tls_key", "agent.admin_token_file", "notify.webhook_token_file",      \
        "notify.ca_file"

/* What the agent need not read of a spec that is too large for a ConfigMap: what runs, and machines
 * that no alert names. */
static const char *const *agent_without(const struct spec *s)
{
    static const char *const machines_too[] = {
        MACHINE_FILES, "targets", "traffic", "components",         "shapes",  "models",
        "storage",     "pools",   "nodes",   "budgets.components", "fabrics", NULL
    };
    static const char *const work[] = { MACHINE_FILES, "targets", "traffic",
                                        "components",  "shapes",  "models",
                                        "storage",     "pools",   "budgets.components",
                                        NULL };
    static const char *const targets[] = { MACHINE_FILES, "targets", "traffic", NULL };
    bool nodes = false, components = false;

    for (size_t i = 0; i < s->alert_count; i++) {
        nodes = nodes || s->alerts[i].nodes.count;
        components = components || s->alerts[i].components.count;
    }
    return components ? targets : nodes ? work : machines_too;
}

static void agent_text(struct kube *q, struct buf *out)
{
    static const char *const files[] = { MACHINE_FILES, NULL };
    const struct spec *s = q->k.r->spec;

    spec_show_set(s, SPEC_SHOW_AGENT, files, out);
    if (out->len > CONFIG_MAX) {
        buf_reset(out);
        buf_adds(out, "# Without what runs and what nobody watches: the whole is too large for a "
                      "ConfigMap.\n");
        spec_show_set(s, SPEC_SHOW_AGENT, agent_without(s), out);
    }
    if (out->len > CONFIG_MAX)
        render_refuse(q->k.r, &s->version, "Split the spec, or turn the agent off.",
                      "what the agent reads of it has %zu bytes, and a ConfigMap holds %d",
                      out->len, CONFIG_MAX);
}

/* The driver's library comes with the GPU Operator's runtime class, which machines without GPUs do
 * not have: two DaemonSets then. */
void kube_agent_write(struct kube *q)
{
    struct buf *out = kube_base(q, "agent.yaml", "`stoker agent` on every machine.");
    struct k8s_pod pod;
    const struct spec_agent *a = &q->k.r->spec->agent;
    const struct spec_notify *n = &q->k.r->spec->notify;
    bool hidden = spec_is_secret(q->k.r);
    struct buf text = { 0 };
    struct yaml_out y;

    if (a->tls_cert)
        render_warn(q->k.r, &a->tls_cert, "Let an ingress end TLS.",
                    "agents in pods answer without TLS: 'tls_cert' is a file of a machine");
    if (a->admin_token_file)
        render_warn(q->k.r, &a->admin_token_file, "Silence alerts in Alertmanager.",
                    "agents in pods silence nothing: 'admin_token_file' is a file of a machine");
    if (n->webhook_token_file)
        render_warn(q->k.r, &n->webhook_token_file,
                    "Post to Alertmanager, which may have the token.",
                    "agents in pods post to the webhook without a token: 'webhook_token_file' is a "
                    "file of a machine");
    if (n->ca_file)
        render_warn(q->k.r, &n->ca_file,
                    "Add it to the image, where the system's certificates are.",
                    "agents in pods do not have 'ca_file', which is a file of a machine");
    agent_pod(q, &pod);
    buf_addf(
        out,
        "# Its token is a Secret that is made by hand, before the first start:\n"
        "#   kubectl -n %s create secret generic %s --from-file=token=FILE\n"
        "# The kernel's log (/dev/kmsg) is not read: a pod would have to be privileged for it.\n"
        "# To read it all the same: securityContext.privileged: true, runAsUser: 0, and a\n"
        "# hostPath of type CharDevice for /dev/kmsg.\n",
        q->watch.namespace, K8S_TOKEN_SECRET);
    if (q->t->gpu_operator) {
        pod.machines = K8S_WITH_GPUS;
        pod.runtime_class = q->t->runtime_class ? q->t->runtime_class : "nvidia";
        agent_daemon(q, out, &pod);
        pod.name = pod.container = "stoker-agent-cpu";
        pod.machines = K8S_WITHOUT_GPUS;
        pod.runtime_class = NULL;
    }
    agent_daemon(q, out, &pod);
    agent_text(q, &text);
    k8s_object(&q->watch, &y, out, "v1", hidden ? "Secret" : "ConfigMap", "stoker-spec",
               "stoker-agent");
    if (hidden) {
        render_str(q->k.r, &y, "type", "Opaque", &q->k.r->spec->notify.webhook);
        render_keep_secret(q->k.r, out);
    }
    yaml_map(&y, hidden ? "stringData" : "data");
    yaml_text(&y, "stoker.yaml", buf_str(&text));
    yaml_finish(&y);
    buf_release(&text);
}

/* ---- the model server ---- */

/* Models that no component serves: one server of the site. */
static void site_server(struct kube *q, struct k8s_pod *pod)
{
    const struct spec_serve *s = &q->k.r->spec->serve;
    struct spec_port *ports = arena_array(&q->k.arena, struct spec_port, 2);
    struct spec_health *health = arena_new(&q->k.arena, struct spec_health);

    ports[0] = (struct spec_port){ .name = "http", .port = s->port };
    ports[1] = (struct spec_port){ .name = "rerank", .port = s->rerank_port };
    *health = (struct spec_health){ .path = "/health",
                                    .port = maybe_of(s->port),
                                    .interval_ms = 10000,
                                    .timeout_ms = 5000,
                                    .start_ms = 300000,
                                    .retries = 3 };
    *pod = (struct k8s_pod){ .name = "stoker-serve",
                             .service_account = q->k.service_account,
                             .uid = K8S_UID_DEFAULT,
                             .cpu = kube_cpu(q, FEASIBLE_SERVE_CPU_M),
                             .memory = kube_mib(q, FEASIBLE_SERVE_MIB),
                             .gpus = feasible_serve_request(q->k.r->spec).gpus,
                             .ports = ports,
                             .port_count = 2,
                             .health = health,
                             .readiness = true };
    pod->image = q->k.stoker_image;
    pod->image_from = q->k.stoker_image_from;
    k8s_serve_pod(&q->k, NULL, pod);
}

void kube_serve_write(struct kube *q)
{
    struct buf *out = kube_base(q, "serve.yaml", "`stoker serve` for models of no component.");
    struct k8s_pod pod;
    struct yaml_out y;

    site_server(q, &pod);
    k8s_object(&q->k, &y, out, "apps/v1", "Deployment", pod.name, pod.name);
    yaml_map(&y, "spec");
    yaml_int(&y, "replicas", 1);
    yaml_map(&y, "selector");
    k8s_match(&q->k, &y, "matchLabels", pod.name);
    yaml_end(&y);
    kube_strategy(&y, pod.gpus                                 ? KUBE_NO_GPU
                      : feasible_spare(q->k.r->feasible, NULL) ? NULL
                                                               : KUBE_NO_ROOM);
    k8s_template(&q->k, &y, &pod);
    yaml_finish(&y);
    kube_service(q, out, pod.name, pod.ports, pod.port_count);
    k8s_serve_spec(&q->k, out, NULL);
}

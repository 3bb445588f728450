/* SPDX-License-Identifier: MIT */
/* kubernetes_own: stoker's own pods: the agent on every machine, the model server.
 *
 * The agent's rights, one by one: hostPID, to tell whose processes are on a GPU (and so that the
 * pod's /proc is the machine's: the runtime allows no mount over /proc); hostNetwork, for the
 * machine's interfaces; /sys, /var/log/pods and /var/log/containers, read-only.  It is not root
 * and has no capability.  The kernel's log stays closed: /dev/kmsg needs a privileged pod; errors
 * of the driver (Xid) come from the driver itself. */
#include "base/str.h"
#include "render/kubernetes_int.h"

#include <inttypes.h>

#define TOKEN_SECRET "stoker-token"
enum { CONFIG_MAX = 1000000 }; /* of the 1 MiB that etcd takes */
#define TOKEN_PATH "/run/secrets/stoker"
#define TOKEN_FILE TOKEN_PATH "/token"

/* The image that has stoker in it: that of a serving component, else a name for kustomize's
 * `images` to replace. */
const char *kube_stoker_image(const struct kube *q, const char **from)
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        if (c->kind == SPEC_COMPONENT_SERVING && c->image && !c->command.count) {
            *from = render_from(q->k.r, &c->image);
            return c->image;
        }
    }
    *from = "overlays name the registry: images";
    return "stoker";
}

bool kube_has_models(const struct spec *s, const char *component)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, component))
            return true;
    return false;
}

static void token_volume(struct k8s *k, struct k8s_pod *pod)
{
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = "token",
                                        .kind = K8S_SECRET,
                                        .source = TOKEN_SECRET,
                                        .path = TOKEN_PATH,
                                        .read_only = true,
                                        .mode = 0440 });
}

static void config_volume(struct k8s *k, struct k8s_pod *pod, const char *name)
{
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = "spec",
                                        .kind = K8S_CONFIG,
                                        .source = name,
                                        .path = "/etc/stoker",
                                        .read_only = true });
}

/* ---- the agent ---- */

static void agent_volumes(struct k8s *k, struct k8s_pod *pod)
{
    static const char *const seen[][2] = { { "sys", "/sys" },
                                           { "pod-logs", "/var/log/pods" },
                                           { "container-logs", "/var/log/containers" } };

    config_volume(k, pod, "stoker-spec");
    token_volume(k, pod);
    for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++)
        k8s_volume_add(k, pod,
                       (struct k8s_volume){ .name = seen[i][0],
                                            .kind = K8S_HOST,
                                            .source = seen[i][1],
                                            .host_type = "Directory",
                                            .path = seen[i][1],
                                            .read_only = true });
    k8s_volume_add(
        k, pod,
        (struct k8s_volume){ .name = "state", .kind = K8S_SCRATCH, .path = "/var/lib/stoker" });
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = "run", .kind = K8S_SCRATCH, .path = "/tmp" });
}

static void agent_pod(struct kube *q, struct k8s_pod *pod)
{
    static const char *const args[] = { "agent",
                                        "-f",
                                        "/etc/stoker/stoker.yaml",
                                        "--listen",
                                        "0.0.0.0",
                                        "--token-file",
                                        TOKEN_FILE,
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
                             .cpu = "250m",
                             .memory = "512Mi",
                             .ports = ports,
                             .port_count = 2,
                             .health = health,
                             .readiness = true };
    pod->image = kube_stoker_image(q, &pod->image_from);
    agent_volumes(&q->watch, pod);
}

static void agent_daemon(struct kube *q, struct buf *out, const struct k8s_pod *pod)
{
    struct yaml_out y;

    yaml_begin(&y, out);
    k8s_head(&q->watch, &y, "apps/v1", "DaemonSet", pod->name, pod->name);
    yaml_map(&y, "spec");
    yaml_map(&y, "selector");
    k8s_match(&q->watch, &y, "matchLabels", pod->name);
    yaml_end(&y);
    yaml_map(&y, "updateStrategy");
    yaml_str(&y, "type", "RollingUpdate");
    yaml_map(&y, "rollingUpdate");
    yaml_str(&y, "maxUnavailable", "10%");
    yaml_end(&y);
    yaml_end(&y);
    k8s_template(&q->watch, &y, pod);
    yaml_end(&y);
    yaml_finish(&y);
}

/* What the agent reads of a spec that is too large for a ConfigMap: not what runs, and no machines
 * that no alert names. */
static struct spec reduced(const struct spec *s)
{
    struct spec out = *s;
    bool nodes = false, components = false;

    for (size_t i = 0; i < s->alert_count; i++) {
        nodes = nodes || s->alerts[i].nodes.count;
        components = components || s->alerts[i].components.count;
    }
    out.targets = (struct spec_targets){ 0 };
    out.traffic_count = 0;
    if (components)
        return out;
    out.component_count = out.shape_count = out.model_count = out.storage_count = 0;
    out.pool_count = out.budgets.component_count = 0;
    if (!nodes)
        out.node_count = out.fabric_count = 0;
    return out;
}

static void agent_text(struct kube *q, struct buf *out)
{
    struct spec less;

    spec_show(q->k.r->spec, &(struct term){ 0 }, 0, out);
    if (out->len <= CONFIG_MAX)
        return;
    buf_reset(out);
    less = reduced(q->k.r->spec);
    buf_adds(out, "# Without what runs and what nobody watches: the whole is too large for a "
                  "ConfigMap.\n");
    spec_show(&less, &(struct term){ 0 }, 0, out);
    if (out->len > CONFIG_MAX)
        render_refuse(q->k.r, &q->k.r->spec->version, "Split the spec, or turn the agent off.",
                      "with everything filled in it has %zu bytes, and a ConfigMap holds %d",
                      out->len, CONFIG_MAX);
}

static void agent_config(struct kube *q, struct buf *out)
{
    struct buf text = { 0 };
    struct yaml_out y;

    agent_text(q, &text);
    yaml_begin(&y, out);
    k8s_head(&q->watch, &y, "v1", "ConfigMap", "stoker-spec", "stoker-agent");
    yaml_map(&y, "data");
    yaml_text(&y, "stoker.yaml", buf_str(&text));
    yaml_end(&y);
    yaml_finish(&y);
    buf_release(&text);
}

/* The driver's library comes with the GPU Operator's runtime class, which machines without GPUs do
 * not have: two DaemonSets then. */
void kube_agent_write(struct kube *q)
{
    struct buf *out = kube_base(q, "agent.yaml", "`stoker agent` on every machine.");
    struct k8s_pod pod;

    agent_pod(q, &pod);
    buf_addf(
        out,
        "# Its token is a Secret that is made by hand, before the first start:\n"
        "#   kubectl -n %s create secret generic %s --from-file=token=FILE\n"
        "# The kernel's log (/dev/kmsg) is not read: a pod would have to be privileged for it.\n"
        "# To read it all the same: securityContext.privileged: true, runAsUser: 0, and a\n"
        "# hostPath of type CharDevice for /dev/kmsg.\n",
        q->watch.namespace, TOKEN_SECRET);
    if (q->t->gpu_operator) {
        pod.machines = K8S_WITH_GPUS;
        pod.runtime_class = q->t->runtime_class ? q->t->runtime_class : "nvidia";
        agent_daemon(q, out, &pod);
        pod.name = pod.container = "stoker-agent-cpu";
        pod.machines = K8S_WITHOUT_GPUS;
        pod.runtime_class = NULL;
    }
    agent_daemon(q, out, &pod);
    agent_config(q, out);
}

/* ---- the model server ---- */

void kube_serve_pod(struct kube *q, const struct spec_component *c, struct k8s_pod *pod)
{
    static const char *const command[] = { "stoker" };
    const struct spec_serve *s = &q->k.r->spec->serve;
    const char **args = arena_array(&q->k.arena, const char *, 16);
    const char *fixed[] = { "serve",    "-f",      "/etc/stoker/stoker.yaml",
                            "--listen", "0.0.0.0", "--token-file",
                            TOKEN_FILE };
    size_t n = 0;

    for (; n < sizeof(fixed) / sizeof(*fixed); n++)
        args[n] = fixed[n];
    if (c && c->port_count) { /* a component has one port, whatever the site's server has */
        args[n++] = "--port";
        args[n++] = arena_printf(&q->k.arena, "%" PRId64, c->ports[0].port);
    }
    pod->command = (struct spec_strs){ command, 1 };
    pod->args = (struct spec_strs){ args, n };
    pod->read_only_root = true;
    pod->grace_s = s->drain_ms / 1000 + 10;
    config_volume(&q->k, pod, c ? k8s_name(&q->k, c->name, "-spec") : "stoker-serve-spec");
    token_volume(&q->k, pod);
    k8s_volume_add(&q->k, pod,
                   (struct k8s_volume){ .name = "tmp", .kind = K8S_SCRATCH, .path = "/tmp" });
}

static const struct spec_node *gpu_group(const struct spec *s, const struct spec_component *c)
{
    return spec_node_of(s, c ? c->nodes : NULL);
}

static void spec_bytes(struct yaml_out *y, const char *key, int64_t bytes)
{
    yaml_strf(y, key, "%" PRId64 "B", bytes);
}

static void serve_nodes(struct kube *q, struct yaml_out *y, const struct spec_component *c)
{
    const struct spec_node *n = gpu_group(q->k.r->spec, c);

    if (!n || !n->gpu)
        return;
    yaml_seq(y, "nodes");
    yaml_map(y, NULL);
    yaml_str(y, "name", n->name);
    yaml_int(y, "gpus_per_node", c && c->gpus ? c->gpus : 1);
    yaml_map(y, "gpu");
    yaml_str(y, "model", n->gpu->model);
    if (n->gpu->memory_bytes.known)
        spec_bytes(y, "memory", n->gpu->memory_bytes.v);
    yaml_end(y);
    yaml_end(y);
    yaml_end(y);
}

static bool pool_used(const struct spec *s, const struct spec_component *c, const char *pool)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c ? c->name : NULL) && str_eq(s->models[i].pool, pool))
            return true;
    return false;
}

static void serve_pools(struct kube *q, struct yaml_out *y, const struct spec_component *c)
{
    static const char *const levels[] = { "low", "medium", "high" };
    const struct spec *s = q->k.r->spec;
    bool open = false;

    for (size_t i = 0; i < s->pool_count; i++) {
        if (!pool_used(s, c, s->pools[i].name))
            continue;
        if (!open)
            yaml_map(y, "pools");
        open = true;
        yaml_map(y, s->pools[i].name);
        yaml_note(y, render_from(q->k.r, &s->pools[i].size_bytes));
        spec_bytes(y, "size", s->pools[i].size_bytes);
        yaml_str(y, "priority", levels[s->pools[i].priority]);
        yaml_end(y);
    }
    if (open)
        yaml_end(y);
}

static void model_extra(struct yaml_out *y, const struct spec_model *m)
{
    static const char *const poolings[] = { "auto", "mean", "cls", "last" };
    static const char *const levels[] = { "low", "medium", "high" };

    if (m->batch.known)
        yaml_int(y, "batch", m->batch.v);
    if (m->batch_tokens.known)
        yaml_int(y, "batch_tokens", m->batch_tokens.v);
    if (m->max_tokens.known)
        yaml_int(y, "max_tokens", m->max_tokens.v);
    if (m->memory_bytes.known)
        spec_bytes(y, "memory", m->memory_bytes.v);
    if (m->pool)
        yaml_str(y, "pool", m->pool);
    yaml_str(y, "pooling", poolings[m->pooling]);
    yaml_str(y, "priority", levels[m->priority]);
    yaml_str(y, "fallback", m->fallback);
    yaml_bool(y, "fallback_at_start", m->fallback_at_start);
    if (m->aliases.count)
        yaml_strs(y, "aliases", &m->aliases);
    if (m->prompts.count) {
        yaml_map(y, "prompts");
        for (size_t i = 0; i < m->prompts.count; i++)
            yaml_str(y, m->prompts.items[i].key, m->prompts.items[i].value);
        yaml_end(y);
    }
}

static void model(struct kube *q, struct yaml_out *y, const struct spec_model *m)
{
    static const char *const kinds[] = { "embedding", "rerank", "classify" };
    static const char *const devices[] = { "auto", "gpu", "cpu" };
    static const char *const dtypes[] = { "auto", "f32", "f16", "bf16", "int8", "fp8" };

    yaml_map(y, m->name);
    yaml_note(y, render_from(q->k.r, &m->source));
    yaml_str(y, "source", m->source);
    if (m->revision)
        yaml_str(y, "revision", m->revision);
    yaml_str(y, "kind", kinds[m->kind]);
    yaml_str(y, "device", devices[m->device]);
    yaml_str(y, "dtype", dtypes[m->dtype]);
    if (m->gpus)
        yaml_str(y, "gpus", m->gpus);
    if (spec_where(q->k.r->spec, &m->normalize).line)
        yaml_bool(y, "normalize", m->normalize); /* unset: as each API does */
    model_extra(y, m);
    yaml_end(y);
}

static void serve_limits(struct kube *q, struct yaml_out *y)
{
    const struct spec_serve *s = &q->k.r->spec->serve;
    const struct {
        const char *key;
        const int64_t *value;
        const char *unit;
    } rows[] = {
        { "port", &s->port, "" },           { "rerank_port", &s->rerank_port, "" },
        { "items_max", &s->items_max, "" }, { "body_max", &s->body_bytes_max, "B" },
        { "queue_max", &s->queue_max, "" }, { "connections_max", &s->connections_max, "" },
        { "users_max", &s->users_max, "" }, { "timeout", &s->timeout_ms, "ms" },
        { "drain", &s->drain_ms, "ms" },    { "cache", &s->cache_bytes, "B" },
    };

    yaml_map(y, "serve");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        yaml_note(y, render_from(q->k.r, rows[i].value));
        if (*rows[i].unit)
            yaml_strf(y, rows[i].key, "%" PRId64 "%s", *rows[i].value, rows[i].unit);
        else
            yaml_int(y, rows[i].key, *rows[i].value);
    }
    yaml_end(y);
}

/* A spec of what this server alone serves: one server of several must not load the models of the
 * others. */
static void serve_text(struct kube *q, struct buf *out, const struct spec_component *c)
{
    const struct spec *s = q->k.r->spec;
    struct yaml_out y;

    yaml_begin(&y, out);
    yaml_str(&y, "schema", "stoker.spec/1");
    yaml_map(&y, "site");
    yaml_str(&y, "name", s->site.name);
    yaml_end(&y);
    serve_nodes(q, &y, c);
    serve_pools(q, &y, c);
    yaml_map(&y, "models");
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c ? c->name : NULL))
            model(q, &y, &s->models[i]);
    yaml_end(&y);
    serve_limits(q, &y);
    yaml_finish(&y);
}

void kube_serve_spec(struct kube *q, struct buf *out, const struct spec_component *c)
{
    struct buf text = { 0 };
    struct yaml_out y;

    serve_text(q, &text, c);
    yaml_begin(&y, out);
    k8s_head(&q->k, &y, "v1", "ConfigMap",
             c ? k8s_name(&q->k, c->name, "-spec") : "stoker-serve-spec",
             c ? k8s_name(&q->k, c->name, "") : "stoker-serve");
    yaml_map(&y, "data");
    yaml_text(&y, "stoker.yaml", buf_str(&text));
    yaml_end(&y);
    yaml_finish(&y);
    buf_release(&text);
}

/* As many as the models that no component serves are loaded on. */
static int64_t site_gpus(const struct spec *s)
{
    const struct spec_node *n = spec_node_of(s, NULL);
    int64_t most = 0;

    for (size_t i = 0; i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];

        if (m->component || m->device == SPEC_DEVICE_CPU ||
            (!m->gpus && !m->pool && m->device != SPEC_DEVICE_GPU))
            continue;
        for (int64_t g = 0; n && g < n->gpus_per_node; g++)
            if (spec_range_has(m->gpus, g) && g + 1 > most)
                most = g + 1;
    }
    return most;
}

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
                             .cpu = "4",
                             .memory = "16Gi",
                             .gpus = site_gpus(q->k.r->spec),
                             .ports = ports,
                             .port_count = 2,
                             .health = health,
                             .readiness = true };
    pod->image = kube_stoker_image(q, &pod->image_from);
    kube_serve_pod(q, NULL, pod);
}

void kube_serve_write(struct kube *q)
{
    struct buf *out = kube_base(q, "serve.yaml", "`stoker serve` for models of no component.");
    struct k8s_pod pod;
    struct yaml_out y;

    site_server(q, &pod);
    yaml_begin(&y, out);
    k8s_head(&q->k, &y, "apps/v1", "Deployment", pod.name, pod.name);
    yaml_map(&y, "spec");
    yaml_int(&y, "replicas", 1);
    yaml_map(&y, "selector");
    k8s_match(&q->k, &y, "matchLabels", pod.name);
    yaml_end(&y);
    k8s_template(&q->k, &y, &pod);
    yaml_end(&y);
    yaml_finish(&y);
    kube_service(q, out, pod.name, pod.ports, pod.port_count);
    kube_serve_spec(q, out, NULL);
}

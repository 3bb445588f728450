/* SPDX-License-Identifier: MIT */
/* k8s_serve: components that serve, on Kubernetes and OpenShift.
 *
 * One without a command is `stoker serve` with a spec of its own.  It answers on a port, is asked
 * whether it is well, and has its models, whether the spec says so or not:
 *
 *   ports    unset: serve.port           health   unset: GET /health; of other programs: the port
 *   models   a folder on a storage of the spec: that storage is mounted, read-only
 *            a name of the Hugging Face hub: fetched by an init container into the pod
 *            any other folder: the image must have it, and the user is told */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/k8s/k8s_int.h"

#include <inttypes.h>

bool k8s_has_models(const struct spec *s, const char *component)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, component))
            return true;
    return false;
}

void k8s_token_volume(struct k8s *k, struct k8s_pod *pod)
{
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = K8S_OWN_VOLUME "token",
                                        .kind = K8S_SECRET,
                                        .source = K8S_TOKEN_SECRET,
                                        .path = K8S_TOKEN_PATH,
                                        .read_only = true,
                                        .mode = 0440 });
}

void k8s_config_volume(struct k8s *k, struct k8s_pod *pod, const char *name)
{
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = K8S_OWN_VOLUME "spec",
                                        .kind = K8S_CONFIG,
                                        .source = name,
                                        .path = "/etc/stoker",
                                        .read_only = true });
}

bool k8s_is_server(const struct spec_component *c)
{
    return c->kind == SPEC_COMPONENT_SERVING && !c->command.count;
}

void k8s_stoker_image(struct k8s *k, const char *const *named, const char *fallback)
{
    const struct spec *s = k->r->spec;

    k->stoker_image = *named ? *named : fallback;
    k->stoker_image_from = *named ? arena_strdup(&k->arena, render_from(k->r, named)) : NULL;
    for (size_t i = 0; !*named && i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        if (!k8s_is_server(c) || !c->image)
            continue;
        k->stoker_image = c->image;
        k->stoker_image_from = arena_strdup(&k->arena, render_from(k->r, &c->image));
        return;
    }
}

/* ---- what a serving component always has ---- */

const struct spec_port *k8s_ports_of(struct k8s *k, const struct spec_component *c, size_t *count)
{
    struct spec_port *one;

    *count = c->port_count;
    if (c->port_count || !k8s_is_server(c))
        return c->ports;
    one = arena_new(&k->arena, struct spec_port);
    *one = (struct spec_port){ .name = "http", .port = k->r->spec->serve.port };
    *count = 1;
    return one;
}

const struct spec_health *k8s_health_of(struct k8s *k, const struct spec_component *c)
{
    struct spec_health *h;
    size_t count;
    const struct spec_port *ports = k8s_ports_of(k, c, &count);

    if (c->health || c->kind != SPEC_COMPONENT_SERVING || !count)
        return c->health;
    h = arena_new(&k->arena, struct spec_health);
    *h = (struct spec_health){ .path = k8s_is_server(c) ? "/health" : NULL,
                               .port = maybe_of(ports[0].port),
                               .interval_ms = 10000,
                               .timeout_ms = 5000,
                               .start_ms = 600000, /* a large model takes minutes to load */
                               .retries = 3 };
    return h;
}

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    while (len > 1 && folder[len - 1] == '/')
        len--;
    return !strncmp(path, folder, len) && (path[len] == '/' || !path[len] || len == 1);
}

static bool is_mounted(const struct spec_component *c, const char *path)
{
    for (size_t i = 0; c && i < c->mount_count; i++)
        if (is_below(path, c->mounts[i].path))
            return true;
    return false;
}

static bool is_of(const struct spec_model *m, const struct spec_component *c)
{
    return str_eq(m->component, c ? c->name : NULL);
}

static bool can_mount(const struct spec_storage *s)
{
    return s->path && s->kind != SPEC_STORAGE_MEMORY && s->kind != SPEC_STORAGE_OBJECT &&
           !k8s_per_replica(s);
}

/* The storage a model of the component lies on, when nothing is mounted there; NULL: none. */
static const struct spec_storage *storage_of(const struct k8s *k, const struct spec_component *c,
                                             const struct spec_model *m)
{
    const struct spec_storage *best = NULL;

    if (spec_model_is_fetched(m) || is_mounted(c, m->source))
        return NULL;
    for (size_t i = 0; i < k->r->spec->storage_count; i++) {
        const struct spec_storage *s = &k->r->spec->storage[i];

        if (can_mount(s) && is_below(m->source, s->path) &&
            (!best || strlen(s->path) > strlen(best->path)))
            best = s;
    }
    return best;
}

bool k8s_serves_from(const struct k8s *k, const struct spec_component *c,
                     const struct spec_storage *s)
{
    const struct spec *spec = k->r->spec;

    for (size_t i = 0; (!c || k8s_is_server(c)) && i < spec->model_count; i++)
        if (is_of(&spec->models[i], c) && storage_of(k, c, &spec->models[i]) == s)
            return true;
    return false;
}

bool k8s_fetches(const struct k8s *k, const struct spec_component *c)
{
    for (size_t i = 0; (!c || k8s_is_server(c)) && i < k->r->spec->model_count; i++)
        if (is_of(&k->r->spec->models[i], c) && spec_model_is_fetched(&k->r->spec->models[i]))
            return true;
    return false;
}

/* ---- models of the hub ---- */

#define FETCH_FOLDER "/var/cache/stoker/models"

/* Words: NAME REVISION FOLDER, three for each model.  An init container that is started again goes
 * on where the one before stopped. */
static const char FETCH[] =
    "set -eu\n"
    "while [ $# -gt 0 ]; do\n"
    "    HF_HUB_CACHE=\"$3.hub\" stoker model get \"$1\" --revision \"$2\" --output \"$3\"\n"
    "    rm -rf \"$3.hub\"\n"
    "    shift 3\n"
    "done\n";

static const char *model_folder(struct k8s *k, const struct spec_model *m)
{
    return arena_printf(&k->arena, FETCH_FOLDER "/%s", m->name);
}

static void fetch_add(struct k8s *k, const struct spec_component *c, struct k8s_pod *pod)
{
    static const struct k8s_env home[] = { { .name = "HOME", .value = "/tmp" } };
    const struct spec *s = k->r->spec;
    const char **words = arena_array(&k->arena, const char *, 4 + 3 * s->model_count);
    size_t n = 0;

    words[n++] = "sh";
    words[n++] = "-c";
    words[n++] = FETCH;
    words[n++] = "fetch";
    for (size_t i = 0; i < s->model_count; i++) {
        if (!is_of(&s->models[i], c) || !spec_model_is_fetched(&s->models[i]))
            continue;
        words[n++] = s->models[i].source;
        words[n++] = s->models[i].revision ? s->models[i].revision : "main";
        words[n++] = model_folder(k, &s->models[i]);
    }
    k8s_volume_add(k, pod,
                   (struct k8s_volume){ .name = K8S_OWN_VOLUME "models",
                                        .kind = K8S_SCRATCH,
                                        .path = FETCH_FOLDER });
    k8s_init_add(k, pod,
                 (struct k8s_init){ .name = "fetch-models",
                                    .image = k->stoker_image,
                                    .command = { words, n },
                                    .env = home,
                                    .env_count = 1,
                                    .volume = K8S_OWN_VOLUME "models",
                                    .path = FETCH_FOLDER,
                                    .cpu = "1",
                                    .memory = "2Gi" });
}

static void models_add(struct k8s *k, const struct spec_component *c, struct k8s_pod *pod)
{
    const struct spec *s = k->r->spec;

    for (size_t i = 0; i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];

        if (is_of(m, c) && !spec_model_is_fetched(m) && !is_mounted(c, m->source) &&
            !storage_of(k, c, m))
            render_warn(k->r, &m->source,
                        "Describe the storage it lies on, with its path, or mount one there.",
                        "no storage of the spec holds '%s': the image must have the model '%s'",
                        m->source, m->name);
    }
    for (size_t i = 0; i < s->storage_count; i++)
        if (k8s_serves_from(k, c, &s->storage[i]))
            k8s_storage_add(k, pod, &s->storage[i]);
    if (k8s_fetches(k, c))
        fetch_add(k, c, pod);
}

/* ---- the model server ---- */

void k8s_serve_pod(struct k8s *k, const struct spec_component *c, struct k8s_pod *pod)
{
    static const char *const command[] = { "stoker" };
    const struct spec_serve *s = &k->r->spec->serve;
    const char **args = arena_array(&k->arena, const char *, 16 + (c ? c->args.count : 0));
    const char *fixed[] = { "serve",       "-f",      "/etc/stoker/stoker.yaml",
                            "--listen",    "0.0.0.0", "--token-file",
                            K8S_TOKEN_FILE };
    size_t n = 0;

    for (; n < sizeof(fixed) / sizeof(*fixed); n++)
        args[n] = fixed[n];
    if (c) { /* a component has one port, whatever the site's server has */
        args[n++] = "--port";
        args[n++] = arena_printf(&k->arena, "%" PRId64, pod->ports[0].port);
    }
    for (size_t i = 0; c && i < c->args.count; i++)
        args[n++] = c->args.items[i];
    pod->command = (struct spec_strs){ command, 1 };
    pod->args = (struct spec_strs){ args, n };
    pod->read_only_root = true;
    pod->grace_s = s->drain_ms / 1000 + 10;
    k8s_config_volume(k, pod, c ? k8s_name(k, c->name, "-spec") : "stoker-serve-spec");
    k8s_token_volume(k, pod);
    k8s_volume_add(
        k, pod,
        (struct k8s_volume){ .name = K8S_OWN_VOLUME "tmp", .kind = K8S_SCRATCH, .path = "/tmp" });
    models_add(k, c, pod);
    if (s->tls_cert)
        render_warn(k->r, &s->tls_cert, "Let an ingress or a Route end TLS.",
                    "servers in pods answer without TLS: 'tls_cert' is a file of a machine");
    if (s->admin_token_file)
        render_warn(k->r, &s->admin_token_file, "Change 'models' and render again.",
                    "servers in pods load no models by request: 'admin_token_file' is a file of a "
                    "machine");
    if (s->batch_dir)
        render_warn(k->r, &s->batch_dir, "Run a server with batches on a machine of its own.",
                    "servers in pods keep no files and batches: 'batch_dir' is a folder of a "
                    "machine");
}

static void spec_bytes(struct yaml_out *y, const char *key, int64_t bytes)
{
    yaml_strf(y, key, "%" PRId64 "B", bytes);
}

/* GPUs, or shares of them, that the server's container sees, which it counts from 0. */
static int64_t serve_gpus(const struct spec *s, const struct spec_component *c)
{
    if (!c)
        return feasible_serve_request(s).gpus;
    return c->gpus ? c->gpus : k8s_shares_gpu(c);
}

static void serve_nodes(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    const struct spec_node *n = spec_node_of(k->r->spec, c ? c->nodes : NULL);
    int64_t gpus = serve_gpus(k->r->spec, c);

    if (!n || !n->gpu || !gpus)
        return;
    yaml_open(y, "nodes[]");
    yaml_str(y, "name", n->name);
    yaml_int(y, "gpus_per_node", gpus);
    yaml_map(y, "gpu");
    yaml_str(y, "model", n->gpu->model);
    if (n->gpu->memory_bytes.known)
        spec_bytes(y, "memory", n->gpu->memory_bytes.v);
    yaml_ends(y, 3);
}

static bool pool_used(const struct spec *s, const struct spec_component *c, const char *pool)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c ? c->name : NULL) && str_eq(s->models[i].pool, pool))
            return true;
    return false;
}

static void serve_pools(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    static const char *const levels[] = { "low", "medium", "high" };
    const struct spec *s = k->r->spec;
    bool open = false;

    for (size_t i = 0; i < s->pool_count; i++) {
        if (!pool_used(s, c, s->pools[i].name))
            continue;
        if (!open)
            yaml_map(y, "pools");
        open = true;
        yaml_map(y, s->pools[i].name);
        yaml_note(y, render_from(k->r, &s->pools[i].size_bytes));
        spec_bytes(y, "size", s->pools[i].size_bytes);
        if (s->pools[i].device == SPEC_POOL_CPU)
            yaml_str(y, "device", "cpu");
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
    if (m->load == SPEC_LOAD_ON_DEMAND)
        yaml_str(y, "load", "on_demand");
    if (m->aliases.count)
        yaml_strs(y, "aliases", &m->aliases);
    if (m->prompts.count) {
        yaml_map(y, "prompts");
        for (size_t i = 0; i < m->prompts.count; i++)
            yaml_str(y, m->prompts.items[i].key, m->prompts.items[i].value);
        yaml_end(y);
    }
}

/* Where it runs: what the spec says; else on the GPUs that the pod asks for it. */
static void model_gpus(struct k8s *k, struct yaml_out *y, const struct spec_model *m,
                       const struct spec_component *c)
{
    int64_t gpus = serve_gpus(k->r->spec, c);

    if (m->gpus) {
        yaml_str(y, "gpus", m->gpus);
        return;
    }
    if (m->device != SPEC_DEVICE_AUTO || spec_model_on_cpu(k->r->spec, m) || !gpus ||
        (!c && !m->pool))
        return;
    yaml_note(y, "the GPUs of its pod");
    if (gpus > 1)
        yaml_strf(y, "gpus", "0-%" PRId64, gpus - 1);
    else
        yaml_str(y, "gpus", "0");
}

static void put_model(struct k8s *k, struct yaml_out *y, const struct spec_model *m,
                      const struct spec_component *c)
{
    static const char *const kinds[] = { "embedding", "rerank", "classify" };
    static const char *const devices[] = { "auto", "gpu", "cpu" };
    static const char *const dtypes[] = { "auto", "f32", "f16", "bf16", "int8", "fp8" };

    yaml_map(y, m->name);
    render_str(k->r, y, "source", spec_model_is_fetched(m) ? model_folder(k, m) : m->source,
               &m->source);
    if (m->revision)
        yaml_str(y, "revision", m->revision);
    yaml_str(y, "kind", kinds[m->kind]);
    yaml_str(y, "device", devices[m->device]);
    yaml_str(y, "dtype", dtypes[m->dtype]);
    model_gpus(k, y, m, c);
    if (spec_where(k->r->spec, &m->normalize).line)
        yaml_bool(y, "normalize", m->normalize); /* unset: as each API does */
    model_extra(y, m);
    yaml_end(y);
}

static void serve_limits(struct k8s *k, struct yaml_out *y)
{
    const struct spec_serve *s = &k->r->spec->serve;
    const struct {
        const char *key;
        const int64_t *value;
        const char *unit;
    } rows[] = {
        { "port", &s->port, "" },
        { "rerank_port", &s->rerank_port, "" },
        { "items_max", &s->items_max, "" },
        { "body_max", &s->body_bytes_max, "B" },
        { "queue_max", &s->queue_max, "" },
        { "connections_max", &s->connections_max, "" },
        { "users_max", &s->users_max, "" },
        { "timeout", &s->timeout_ms, "ms" },
        { "drain", &s->drain_ms, "ms" },
        { "cache", &s->cache_bytes, "B" },
        { "text_max", &s->text_bytes_max, "B" },
        { "calls_max", &s->calls_bytes_max, "B" },
        { "timeout_max", &s->timeout_max_ms, "ms" },
        { "body_total_timeout", &s->body_total_ms, "ms" },
        { "batch_time", &s->batch_ms, "ms" },
    };
    enum { ALWAYS = 10 }; /* of those; the others are written where they were given */

    yaml_map(y, "serve");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        /* a number that is not given is what the machine can hold */
        if ((rows[i].value == &s->connections_max || i >= ALWAYS) &&
            !spec_where(k->r->spec, rows[i].value).line)
            continue;
        yaml_note(y, render_from(k->r, rows[i].value));
        if (*rows[i].unit)
            yaml_strf(y, rows[i].key, "%" PRId64 "%s", *rows[i].value, rows[i].unit);
        else
            yaml_int(y, rows[i].key, *rows[i].value);
    }
    if (s->any_model) {
        yaml_note(y, render_from(k->r, &s->any_model));
        yaml_bool(y, "any_model", true);
    }
    if (s->allow_origin.count) {
        yaml_note(y, render_from(k->r, &s->allow_origin));
        yaml_seq(y, "allow_origin");
        for (size_t i = 0; i < s->allow_origin.count; i++)
            yaml_str(y, NULL, s->allow_origin.items[i]);
        yaml_end(y);
    }
    yaml_end(y);
}

void k8s_serve_spec(struct k8s *k, struct buf *out, const struct spec_component *c)
{
    struct buf text = { 0 };
    const struct spec *s = k->r->spec;
    struct yaml_out y;

    /* A spec of what only this server serves: one server of several must not load the models of
     * the others. */
    yaml_begin(&y, &text);
    yaml_str(&y, "schema", "stoker.spec/1");
    yaml_map_of(&y, "site", "name", s->site.name);
    serve_nodes(k, &y, c);
    serve_pools(k, &y, c);
    yaml_map(&y, "models");
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c ? c->name : NULL))
            put_model(k, &y, &s->models[i], c);
    yaml_end(&y);
    serve_limits(k, &y);
    yaml_finish(&y);
    k8s_config_map(k, out, c ? k8s_name(k, c->name, "-spec") : "stoker-serve-spec",
                   c ? k8s_name(k, c->name, "") : "stoker-serve", "stoker.yaml", &text);
    buf_release(&text);
}

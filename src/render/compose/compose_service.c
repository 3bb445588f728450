/* SPDX-License-Identifier: MIT */
/* compose_service: one component as a service. */
#include "base/str.h"
#include "render/compose/compose_int.h"
#include "render/containerfile_int.h"
#include "render/follow_int.h"

#include <ctype.h>
#include <inttypes.h>

enum {
    STACK_BYTES = 64 << 20, /* what trainers that recurse into graphs have been seen to need */
    STOP_MARGIN_S = 10,
    SERVER_START_MS = 600000, /* to load its models in */
    STOP_S = 30
};

static void put_duration(struct compose *k, const char *key, int64_t ms, const void *member)
{
    if (member)
        yaml_note(&k->y, render_from(k->r, member));
    if (ms % 1000)
        yaml_strf(&k->y, key, "%" PRId64 "ms", ms);
    else
        yaml_strf(&k->y, key, "%" PRId64 "s", ms / 1000);
}

static void put_list(struct compose *k, const char *key, const char *const *items, size_t count)
{
    yaml_seq(&k->y, key);
    for (size_t i = 0; i < count; i++)
        yaml_str(&k->y, NULL, items[i]);
    yaml_end(&k->y);
}

/* ---- command and environment ---- */

static void put_command(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    const struct spec_serve *v = &k->r->spec->serve;
    struct host_serve how = { .spec = "/etc/stoker/stoker.yaml",
                              .listen = "0.0.0.0",
                              .token_file = v->token_file ? "/run/secrets/token" : NULL,
                              .insecure = !v->token_file };
    struct host_words w = host_command(&k->arena, run, &how);

    if (host_is_server(c))
        yaml_comment(&k->y, "inside the container; who reaches it decides the published address");
    if (c->command.count)
        yaml_note(&k->y, render_from(k->r, &c->command));
    if (!w.count)
        return;
    yaml_seq(&k->y, "command");
    for (size_t i = 0; i < w.count; i++)
        yaml_text(&k->y, NULL, compose_text(k, w.items[i]));
    yaml_end(&k->y);
}

/* The daemon limits a client's device memory to its pools, on each GPU as the client counts. */
static void mps_env(struct compose *k, const struct host_run *run, struct host_envs *e)
{
    const struct spec_compose *t = k->r->targets->compose;
    struct maybe pool = host_pool_bytes(k->r->spec, run->c);
    struct buf b = { 0 };

    host_env_set(&k->arena, e,
                 (struct host_env){ .key = "CUDA_MPS_PIPE_DIRECTORY",
                                    .value = t->mps_dir,
                                    .member = &t->mps_dir });
    if (!pool.known)
        return;
    for (int i = 0; i < host_gpu_count(run->gpus); i++)
        buf_addf(&b, "%s%d=%" PRId64 "M", i ? "," : "", i, pool.v >> 20);
    host_env_set(&k->arena, e,
                 (struct host_env){ .key = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                                    .value = arena_strdup(&k->arena, buf_str(&b)),
                                    .why = "its pools, on each GPU" });
    buf_release(&b);
}

static void put_environment(struct compose *k, const struct host_run *run)
{
    struct host_envs e = { 0 };

    if (compose_is_client(k, run))
        mps_env(k, run, &e);
    if (host_is_server(run->c))
        host_env_set(&k->arena, &e,
                     (struct host_env){ .key = "XDG_DATA_HOME", .value = "/var/lib" });
    host_env_make(&k->arena, k->r, run, &e);
    if (!e.count)
        return;
    yaml_map(&k->y, "environment");
    for (size_t i = 0; i < e.count; i++) {
        if (e.items[i].why)
            yaml_note(&k->y, e.items[i].why);
        compose_str(k, e.items[i].key, e.items[i].value, e.items[i].member);
    }
    yaml_end(&k->y);
}

/* ---- health ---- */

/* A path for a shell and for any client: what is not plain is written as %XX. */
static const char *url_path(struct compose *k, const char *path)
{
    const char *out;
    struct buf b = { 0 };

    for (const char *p = path; *p; p++) {
        if (isalnum((unsigned char)*p) || strchr("/-._~?=&+,:@%", *p))
            buf_addc(&b, *p);
        else
            buf_addf(&b, "%%%02X", (unsigned char)*p);
    }
    out = arena_strdup(&k->arena, buf_str(&b));
    buf_release(&b);
    return out;
}

/* Images differ in what they have to ask with: curl, wget, Python, or only bash. */
static const char *ask_http(struct compose *k, int64_t port, const char *path, int64_t s)
{
    const char *at = arena_printf(&k->arena, "http://127.0.0.1:%" PRId64 "%s", port, path);
    const char *clients = arena_printf(
        &k->arena,
        "curl -fsS -m %" PRId64 " -o /dev/null '%s' || wget -q -T %" PRId64 " -O /dev/null '%s' || "
        "python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=%" PRId64
        ")' '%s'",
        s, at, s, at, s, at);

    return arena_printf(&k->arena,
                        "%s || bash -c 'exec 3<>/dev/tcp/127.0.0.1/%" PRId64
                        " && printf \"%%s\\r\\n\" \"GET %s HTTP/1.1\" \"Host: 127.0.0.1\" "
                        "\"Connection: close\" \"\" >&3 && grep -q \"^HTTP/1.1 200\" <&3'",
                        clients, port, path);
}

/* The container's own certificate is for its name outside. */
static const char *ask_https(struct compose *k, int64_t port, const char *path, int64_t s)
{
    const char *at = arena_printf(&k->arena, "https://127.0.0.1:%" PRId64 "%s", port, path);

    return arena_printf(&k->arena,
                        "curl -fsSk -m %" PRId64 " -o /dev/null '%s' || wget -q "
                        "--no-check-certificate -T %" PRId64 " -O /dev/null '%s'",
                        s, at, s, at);
}

/* What is asked of it: `stoker serve` has a path for that, which the spec need not name. */
static const struct spec_health *health_of(struct compose *k, const struct spec_component *c)
{
    struct spec_health *h;

    if (c->health || !host_is_server(c))
        return c->health && (c->health->path || c->health->command.count) ? c->health : NULL;
    h = arena_new(&k->arena, struct spec_health);
    *h = (struct spec_health){ .path = "/health",
                               .interval_ms = 10000,
                               .timeout_ms = 5000,
                               .start_ms = SERVER_START_MS,
                               .retries = 3 };
    return h;
}

static void put_probe(struct compose *k, const struct spec_component *c,
                      const struct spec_health *h)
{
    int64_t s = (h->timeout_ms + 999) / 1000;
    bool tls = host_is_server(c) && k->r->spec->serve.tls_cert;
    const char *path = url_path(k, h->path), *sh;
    int64_t port;

    if (!h->port.known && !c->port_count && !host_is_server(c)) {
        render_refuse(k->r, &h->path, "Give the component a port, or the health check one.",
                      "component '%s' has no port to ask for its health", c->name);
        return;
    }
    port = h->port.known ? h->port.v : c->port_count ? c->ports[0].port : k->r->spec->serve.port;
    sh = tls ? ask_https(k, port, path, s) : ask_http(k, port, path, s);
    yaml_note(&k->y, render_from(k->r, &h->path));
    put_list(k, "test", (const char *const[]){ "CMD-SHELL", sh }, 2);
}

static void put_health(struct compose *k, const struct spec_component *c)
{
    const struct spec_health *h = health_of(k, c);

    if (!h)
        return;
    yaml_map(&k->y, "healthcheck");
    if (h->command.count) {
        yaml_note(&k->y, render_from(k->r, &h->command));
        yaml_seq(&k->y, "test");
        yaml_str(&k->y, NULL, "CMD");
        for (size_t i = 0; i < h->command.count; i++)
            yaml_str(&k->y, NULL, compose_text(k, h->command.items[i]));
        yaml_end(&k->y);
    } else {
        put_probe(k, c, h);
    }
    put_duration(k, "interval", h->interval_ms, &h->interval_ms);
    put_duration(k, "timeout", h->timeout_ms, &h->timeout_ms);
    put_duration(k, "start_period", h->start_ms, &h->start_ms);
    render_int(k->r, &k->y, "retries", h->retries, &h->retries);
    yaml_end(&k->y);
}

/* ---- order, restart, resources ---- */

static void put_depends(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    bool mps = compose_is_client(k, run), any = mps;

    for (size_t i = 0; i < c->depends_on.count; i++) {
        if (host_run_find(k->plan, c->depends_on.items[i]))
            any = true;
        else if (run->replica == 0)
            render_warn(k->r, &c->depends_on.items[i],
                        "Start it before 'docker compose up', or let the program wait for it.",
                        "'%s' does not wait for '%s', which is not a service of the compose file",
                        c->name, c->depends_on.items[i]);
    }
    if (!any)
        return;
    if (c->depends_on.count)
        yaml_note(&k->y, render_from(k->r, &c->depends_on));
    yaml_map(&k->y, "depends_on");
    if (mps)
        yaml_map_of(&k->y, "mps", "condition", "service_healthy");
    for (size_t i = 0; i < k->plan->count; i++) {
        const struct host_run *on = &k->plan->runs[i];
        bool wanted = false;

        for (size_t j = 0; j < c->depends_on.count; j++)
            wanted = wanted || str_eq(on->c->name, c->depends_on.items[j]);
        if (!wanted)
            continue;
        yaml_map_of(&k->y, on->name, "condition",
                    health_of(k, on->c)                   ? "service_healthy"
                    : on->c->kind == SPEC_COMPONENT_BATCH ? "service_completed_successfully"
                                                          : "service_started");
    }
    yaml_end(&k->y);
}

static void put_resources(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    struct maybe cpus = host_cpus(run), memory = host_memory(run);
    struct maybe limit = memory.known || !run->node ? memory : run->node->memory_bytes;
    static const char share[] = "in proportion to its GPUs";

    follow_memory_mounts(k->r, c, limit);
    if (!cpus.known && !memory.known && !run->gpus)
        return;
    yaml_open(&k->y, "deploy.resources");
    if (cpus.known || memory.known) {
        yaml_map(&k->y, "limits");
        if (cpus.known) {
            yaml_note(&k->y, c->cpus.known ? render_from(k->r, &c->cpus) : share);
            yaml_strf(&k->y, "cpus", "%" PRId64, cpus.v);
        }
        if (memory.known) {
            yaml_note(&k->y, c->memory_bytes.known ? render_from(k->r, &c->memory_bytes) : share);
            yaml_strf(&k->y, "memory", "%" PRId64 "b", memory.v);
        }
        yaml_end(&k->y);
    }
    if (run->gpus) {
        yaml_open(&k->y, "reservations.devices[]");
        yaml_str(&k->y, "driver", "nvidia");
        yaml_note(&k->y, run->shared ? "of others too" : render_from(k->r, &run->c->gpus));
        yaml_seq(&k->y, "device_ids");
        for (int i = 0; i < HOST_GPUS_MAX; i++)
            if (run->gpus & (1U << i))
                yaml_strf(&k->y, NULL, "%d", i);
        yaml_end(&k->y);
        put_list(k, "capabilities", (const char *const[]){ "gpu", "compute", "utility" }, 3);
        yaml_ends(&k->y, 3);
    }
    yaml_ends(&k->y, 2);
}

/* ---- network ---- */

/* A server that names no port listens on those of 'serve'.  Who else has one of them on the
 * machine: another server, or the machine's own.  (Other programs are refused there.) */
static const char *server_beside(const struct spec *s, const struct spec_component *c)
{
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *o = &s->components[i];
        bool same = !o->port_count;

        if (o == c || !host_is_server(o) || o->target == SPEC_TARGET_KUBERNETES ||
            o->target == SPEC_TARGET_OPENSHIFT)
            continue;
        for (size_t p = 0; p < o->port_count; p++)
            same = same || o->ports[p].port == s->serve.port ||
                   o->ports[p].port == s->serve.rerank_port;
        if (same)
            return o->name;
    }
    return s->targets.systemd && host_models_loose(s) ? "stoker-serve" : NULL;
}

bool compose_publishes(const struct spec *s, const struct spec_component *c)
{
    return c->replicas == 1 && (c->port_count || (host_is_server(c) && !server_beside(s, c)));
}

static void port_line(struct compose *k, const struct host_run *run, const int64_t *port,
                      const char *udp)
{
    yaml_note(&k->y, render_from(k->r, port));
    if (run->c->replicas > 1)
        yaml_strf(&k->y, NULL, "%" PRId64 "%s", *port, udp);
    else
        yaml_strf(&k->y, NULL, "${BIND_ADDRESS:-127.0.0.1}:%" PRId64 ":%" PRId64 "%s", *port, *port,
                  udp);
}

static void put_ports(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    const struct spec_serve *v = &k->r->spec->serve;
    const char *beside = server_beside(k->r->spec, c);

    if (!c->port_count && !host_is_server(c))
        return;
    if (c->replicas > 1)
        yaml_comment(&k->y, "one of several: its ports are for the other services only");
    if (c->replicas > 1 && run->replica == 0)
        render_warn(k->r, c->port_count ? (const void *)&c->ports[0].port : &c->name,
                    "Put a proxy before them as a component of its own, which has the port.",
                    "no port of '%s' is published: %" PRId64 " replicas cannot share one of the "
                    "machine",
                    c->name, c->replicas);
    if (c->replicas == 1 && !compose_publishes(k->r->spec, c)) {
        render_warn(k->r, &c->name, "Give it 'ports' of its own.",
                    "no port of '%s' is published: '%s' has port %" PRId64 " or %" PRId64
                    " of the machine",
                    c->name, beside, v->port, v->rerank_port);
        return;
    }
    yaml_seq(&k->y, c->replicas > 1 ? "expose" : "ports");
    for (size_t i = 0; i < c->port_count; i++)
        port_line(k, run, &c->ports[i].port,
                  c->ports[i].protocol == SPEC_PROTOCOL_UDP ? "/udp" : "");
    if (!c->port_count) {
        port_line(k, run, &v->port, "");
        port_line(k, run, &v->rerank_port, "");
    }
    yaml_end(&k->y);
}

static void put_network(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    if (!render_uses_rdma(k->r, &c->fabrics)) {
        put_ports(k, run);
        put_list(k, "networks", (const char *const[]){ "default" }, 1);
        return;
    }
    for (size_t i = 0; c->user && !str_eq(c->user, "root") && !str_eq(c->user, "0") &&
                       run->replica == 0 && i < c->port_count;
         i++)
        if (c->ports[i].port < RENDER_PORT_FREE)
            render_warn(k->r, &c->ports[i].port, "Take one from 1024 on, or leave out 'user'.",
                        "'%s' is on the host's network for RDMA, where user '%s' cannot listen on "
                        "port %" PRId64,
                        c->name, c->user, c->ports[i].port);
    yaml_comment(&k->y, "RDMA works where the network devices are: the host's");
    render_str(k->r, &k->y, "network_mode", "host", &c->fabrics);
    put_list(k, "devices", (const char *const[]){ "/dev/infiniband:/dev/infiniband" }, 1);
    put_list(k, "cap_add", (const char *const[]){ "IPC_LOCK" }, 1);
}

static void shared_memory(struct compose *k, const struct host_run *run)
{
    struct maybe shm = compose_shm(k, run->c);

    if (compose_is_client(k, run)) {
        yaml_note(&k->y, "the MPS daemon's, whose shared memory it uses");
        yaml_str(&k->y, "ipc", "service:mps");
        return;
    }
    if (!shm.known)
        return;
    yaml_note(&k->y, render_from(k->r, &run->c->shm_bytes));
    yaml_strf(&k->y, "shm_size", "%" PRId64 "b", shm.v);
}

void compose_log_limits(struct compose *k)
{
    yaml_map(&k->y, "logging");
    yaml_str(&k->y, "driver", "json-file");
    yaml_map_of(&k->y, "options", "max-size", "50m", "max-file", "5");
    yaml_end(&k->y);
}

static void put_basics(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    const char *recipe = containerfile_for(k->r, c, "compose", &k->arena);

    compose_str(k, "image", c->image, &c->image);
    if (recipe) {
        yaml_note(&k->y, render_from(k->r, c->build));
        yaml_map_of(&k->y, "build", "context", ".", "dockerfile", recipe);
    }
    put_command(k, run);
    if (c->workdir)
        compose_str(k, "working_dir", c->workdir, &c->workdir);
    if (c->user)
        compose_str(k, "user", c->user, &c->user);
    yaml_note(&k->y, render_from(k->r, &c->restart));
    if (c->restart == SPEC_RESTART_ALWAYS)
        yaml_str(&k->y, "restart", "always");
    else if (c->restart == SPEC_RESTART_NEVER)
        yaml_str(&k->y, "restart", "no");
    else if (c->training)
        yaml_strf(&k->y, "restart", "on-failure:%" PRId64, c->training->rendezvous.max_restarts);
    else
        yaml_str(&k->y, "restart", "on-failure");
    yaml_bool(&k->y, "init", true);
    put_list(k, "security_opt", (const char *const[]){ "no-new-privileges:true" }, 1);
    if (host_is_server(c))
        yaml_strf(&k->y, "stop_grace_period", "%" PRId64 "s",
                  k->r->spec->serve.drain_ms / 1000 + STOP_MARGIN_S);
    else
        put_duration(k, "stop_grace_period",
                     c->training && run->node ? run->node->notice_ms : STOP_S * 1000, NULL);
}

void compose_service(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    yaml_note(&k->y, render_from(k->r, c));
    yaml_map(&k->y, run->name);
    put_basics(k, run);
    shared_memory(k, run);
    put_environment(k, run);
    compose_mounts(k, run);
    if (run->gpus) {
        yaml_map(&k->y, "ulimits");
        yaml_note(&k->y, "pinned memory and RDMA need it without limit");
        yaml_int(&k->y, "memlock", -1);
        yaml_int(&k->y, "stack", STACK_BYTES);
        yaml_end(&k->y);
    }
    put_network(k, run);
    put_health(k, c);
    put_depends(k, run);
    put_resources(k, run);
    compose_log_limits(k);
    yaml_end(&k->y);
    if (host_is_server(c) && run->replica == 0)
        host_serve_spec(k->r, k->plan, run, render_file(k->r, "compose/serve/%s.yaml", c->name));
}

/* SPDX-License-Identifier: MIT */
/* compose: the components of one machine as containers.
 *
 *     compose/compose.yaml      services, volumes, network
 *     compose/.env.example      what may be set beside it
 *     compose/serve/NAME.yaml   spec of each model server
 *     compose/models.sh         fetches the models that they take from the hub; only with such
 *
 * GPUs are given by index, each to one component, as the comment at the head lists them.  With
 * targets.compose.mps a control daemon runs beside them: its clients share its IPC namespace and
 * its pipe folder, and a pool's size becomes their limit of device memory.  NCCL gets what the
 * spec forces and nothing else, so that it finds the rest itself.
 *
 * Where no component names compose as its target, those of local and systemd are written, as the
 * other way to run the same machine. */
#include "base/str.h"
#include "render/compose/compose_int.h"
#include "render/follow_int.h"

#include <inttypes.h>

#define MPS_SERVICE "mps"
#define MPS_LOG     "/var/log/nvidia-mps"

static bool target_is_named(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_COMPOSE;
}

static bool on_host(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_LOCAL || c->target == SPEC_TARGET_SYSTEMD;
}

bool compose_is_fallback(const struct spec *s)
{
    for (size_t i = 0; i < s->component_count; i++)
        if (target_is_named(&s->components[i]))
            return false;
    return true;
}

bool (*compose_takes(const struct spec *s))(const struct spec_component *c)
{
    return compose_is_fallback(s) ? on_host : target_is_named;
}

const char *compose_text(struct compose *k, const char *s)
{
    return strchr(s, '$') ? quote_dollars(&k->arena, s) : s;
}

void compose_str(struct compose *k, const char *key, const char *value, const void *member)
{
    if (member)
        yaml_note(&k->y, render_from(k->r, member));
    yaml_str(&k->y, key, compose_text(k, value));
}

/* ---- what one machine cannot do ---- */

static bool check_one(struct render *r, const struct host_plan *p, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    if (run->machine > 0 || run->node != p->runs[0].node) {
        render_refuse(r, c->nodes ? (const void *)&c->nodes : c,
                      "Write one spec for each machine, or use target kubernetes or slurm.",
                      "component '%s' is on another machine than '%s'; a compose file is for one",
                      c->name, p->runs[0].c->name);
        return false;
    }
    if (!c->image) {
        render_refuse(r, c, "Name an image, as in image: registry.example.org/name:1.0.",
                      "component '%s' has no image for compose to run", c->name);
        return false;
    }
    for (size_t i = 0; i < p->count; i++)
        if (&p->runs[i] != run && str_eq(p->runs[i].name, run->name)) {
            render_refuse(r, c, "Rename one of them.",
                          "'%s' names a component and a replica of another", run->name);
            return false;
        }
    return true;
}

/* An MPS server serves one user at a time: clients of a second one would wait for ever. */
static bool check_users(struct compose *k)
{
    const struct host_run *first = NULL;

    for (size_t i = 0; i < k->plan->count; i++) {
        const struct host_run *run = &k->plan->runs[i];

        if (str_eq(run->name, MPS_SERVICE) && k->mps) {
            render_refuse(k->r, run->c, "Rename the component.",
                          "the MPS daemon's service is called '" MPS_SERVICE "'");
            return false;
        }
        if (!compose_is_client(k, run))
            continue;
        if (first && !str_eq(first->c->user, run->c->user)) {
            render_refuse(k->r, run->c->user ? (const void *)&run->c->user : run->c,
                          "Give both the same user, or turn targets.compose.mps off.",
                          "components '%s' and '%s' run as different users; MPS serves one",
                          first->c->name, run->c->name);
            return false;
        }
        first = run;
    }
    return true;
}

static bool check_images(struct compose *k)
{
    for (size_t i = 0; i < k->plan->count && i < HOST_ORDER_MAX; i++)
        if (!check_one(k->r, k->plan, &k->plan->runs[i]))
            return false;
    /* Without MPS a pool's size is a number in the spec. */
    for (size_t i = 0; i < k->plan->count; i++) {
        const struct host_run *run = &k->plan->runs[i];

        if (run->c->pools.count && run->gpus && !k->mps && !host_is_server(run->c))
            render_warn(k->r, &run->c->pools, "Set 'mps: true' below 'targets.compose'.",
                        "nothing holds component '%s' to its 'pools' of GPU memory", run->c->name);
    }
    follow_loose_models(k->r, "compose");
    return check_users(k);
}

/* ---- the MPS daemon ---- */

bool compose_is_client(const struct compose *k, const struct host_run *run)
{
    return k->mps && run->gpus != 0;
}

struct maybe compose_shm(const struct compose *k, const struct spec_component *c)
{
    if (c->shm_bytes.known)
        return c->shm_bytes;
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct spec_storage *s = spec_storage_find(k->r->spec, c->mounts[i].storage);

        if (s->kind == SPEC_STORAGE_MEMORY && str_eq(c->mounts[i].path, "/dev/shm"))
            return s->size_bytes;
    }
    return maybe_none();
}

/* Clients are in the daemon's IPC namespace: their shared memory is its. */
static int64_t shm_sum(const struct compose *k)
{
    int64_t sum = (int64_t)1 << 30;

    for (size_t i = 0; i < k->plan->count; i++)
        if (compose_is_client(k, &k->plan->runs[i]))
            sum += maybe_or(compose_shm(k, k->plan->runs[i].c), 0);
    return sum;
}

static void mps_volumes(struct compose *k)
{
    struct yaml_out *y = &k->y;

    yaml_open(y, "volumes[]");
    yaml_str(y, "type", "volume");
    yaml_str(y, "source", "mps.pipe");
    compose_str(k, "target", k->r->targets->compose->mps_dir, &k->r->targets->compose->mps_dir);
    yaml_end(y);
    yaml_map_of(y, NULL, "type", "volume", "source", "mps.log", "target", MPS_LOG);
    yaml_end(y);
}

static void mps_gpus(struct compose *k)
{
    struct yaml_out *y = &k->y;

    yaml_open(y, "deploy.resources.reservations.devices[]");
    yaml_str(y, "driver", "nvidia");
    yaml_str(y, "count", "all");
    yaml_seq(y, "capabilities");
    yaml_str(y, NULL, "gpu");
    yaml_str(y, NULL, "compute");
    yaml_str(y, NULL, "utility");
    for (int i = 0; i < 6; i++)
        yaml_end(y);
}

static void put_mps(struct compose *k)
{
    const struct spec_compose *t = k->r->targets->compose;
    struct yaml_out *y = &k->y;

    yaml_comment(y, "The control daemon; its program comes with the driver, so any image will do.");
    yaml_note(y, render_from(k->r, &t->mps));
    yaml_map(y, MPS_SERVICE);
    yaml_str(y, "image", "${MPS_IMAGE:-nvidia/cuda:12.4.1-base-ubuntu22.04}");
    yaml_seq_of(y, "command", "nvidia-cuda-mps-control", "-f");
    for (size_t i = 0; i < k->plan->count; i++)
        if (compose_is_client(k, &k->plan->runs[i]) && k->plan->runs[i].c->user) {
            compose_str(k, "user", k->plan->runs[i].c->user, &k->plan->runs[i].c->user);
            break;
        }
    yaml_str(y, "restart", "always");
    yaml_bool(y, "init", true);
    yaml_str(y, "ipc", "shareable");
    yaml_note(y, "the sum of its clients', which share it");
    yaml_strf(y, "shm_size", "%" PRId64 "b", shm_sum(k));
    yaml_map(y, "environment");
    compose_str(k, "CUDA_MPS_PIPE_DIRECTORY", t->mps_dir, &t->mps_dir);
    yaml_str(y, "CUDA_MPS_LOG_DIRECTORY", MPS_LOG);
    yaml_end(y);
    mps_volumes(k);
    yaml_map(y, "healthcheck");
    yaml_seq_of(y, "test", "CMD-SHELL",
                "echo get_default_active_thread_percentage | nvidia-cuda-mps-control");
    yaml_str(y, "interval", "10s");
    yaml_str(y, "timeout", "5s");
    yaml_int(y, "retries", 3);
    yaml_str(y, "start_period", "10s");
    yaml_end(y);
    mps_gpus(k);
    compose_log_limits(k);
    yaml_end(y);
}

/* ---- the file ---- */

static void put_placement(struct compose *k, struct buf *out)
{
    const struct spec_node *n = k->plan->count ? k->plan->runs[0].node : NULL;

    if (!k->plan->count) {
        buf_adds(out, "#\n# No component of the spec runs on one machine without a scheduler.\n");
        return;
    }
    buf_adds(out, "#\n# GPUs, neighbours for those that talk most (traffic):\n");
    if (n)
        buf_addf(out, "#   machine: group %s, %" PRId64 " GPUs (%s)\n", n->name, n->gpus_per_node,
                 render_from(k->r, &n->gpus_per_node));
    for (size_t i = 0; i < k->plan->count; i++) {
        const struct host_run *run = &k->plan->runs[i];
        struct buf list = { 0 };

        host_gpu_list(&list, run->gpus);
        buf_addf(out, "#   %s: %s%s (%s)\n", run->name, run->gpus ? buf_str(&list) : "none",
                 run->shared ? ", shared" : "", render_from(k->r, &run->c->gpus));
        buf_release(&list);
    }
}

/* Models of its servers, those of the hub. */
static bool fetch_script(struct compose *k)
{
    const struct spec *s = k->r->spec;
    struct host_fetch *of = arena_array(&k->arena, struct host_fetch, s->model_count);
    size_t n = 0;

    for (size_t i = 0; i < s->model_count; i++) {
        const struct host_run *run = host_run_find(k->plan, s->models[i].component);

        if (run && host_is_server(run->c))
            of[n++] = (struct host_fetch){ .model = &s->models[i] };
    }
    return host_fetch_script(k->r, "compose/models.sh", k->plan->models, of, n);
}

/* docker binds no folder that is not there. */
static void batch_folders(struct compose *k, struct buf *out)
{
    const char *first =
        "#\n# First, for files and batches of the servers, whose user writes there:\n";

    for (size_t i = 0; k->r->spec->serve.batch_dir && i < k->plan->count; i++) {
        const struct host_run *run = &k->plan->runs[i];

        if (!host_is_server(run->c))
            continue;
        buf_addf(out, "%s#   install -d -m 700%s ", first, compose_folder_owner(k, run->c->user));
        quote_sh(out, compose_batch_dir(k, run));
        buf_addc(out, '\n');
        first = "";
    }
}

static void put_head(struct compose *k, struct buf *out, bool fallback)
{
    render_head(k->r, out, "#", "Containers of one machine.");
    buf_adds(out,
             "#\n#   docker compose config -q          is the file in order?\n"
             "#   docker compose up -d --wait       start, and wait until all are healthy\n"
             "#   docker compose up -d --wait --remove-orphans\n"
             "#                                     and end what the spec no longer names\n"
             "#   docker compose ps; docker compose logs -f NAME\n"
             "#   docker compose down               stop; volumes stay\n"
             "#\n# Needs the NVIDIA container toolkit.  Settings of the machine go into .env,\n"
             "# see .env.example.\n");
    if (fallback && k->plan->count)
        buf_adds(out, "#\n# No component has target compose; these are the ones of local and\n"
                      "# systemd.  Run them one way or the other: they want the same ports.\n");
    if (fetch_script(k))
        buf_adds(out, "#\n# First: sh models.sh, as root; it fetches models into\n"
                      "# " HOST_MODELS_DIR ", which the servers read.\n");
    batch_folders(k, out);
    put_placement(k, out);
}

static void put_body(struct compose *k)
{
    const struct spec_compose *t = k->r->targets->compose;
    struct yaml_out *y = &k->y;

    render_str(k->r, y, "name", t->project, &t->project);
    yaml_map(y, "services");
    if (k->mps)
        put_mps(k);
    for (size_t i = 0; i < k->plan->count; i++)
        compose_service(k, &k->plan->runs[i]);
    yaml_end(y);
    compose_volumes(k);
    yaml_map(y, "networks");
    yaml_map_of(y, "default", "driver", "bridge");
    yaml_end(y);
}

static void env_example(struct compose *k)
{
    struct buf *out = render_file(k->r, "compose/.env.example");

    render_head(k->r, out, "#", "Copy to .env: what compose.yaml leaves to the machine.");
    buf_adds(out, "\n# address that ports are published on; 0.0.0.0 is every one, past most\n"
                  "# firewalls\nBIND_ADDRESS=127.0.0.1\n");
    if (k->mps)
        buf_adds(out, "\n# image of the MPS daemon\n"
                      "MPS_IMAGE=nvidia/cuda:12.4.1-base-ubuntu22.04\n");
}

void render_compose(struct render *r)
{
    bool fallback = compose_is_fallback(r->spec);
    struct compose k = { .r = r };
    struct host_plan p;
    struct buf doc = { 0 }, *out;

    if (!host_plan_make(r, compose_takes(r->spec), &p))
        return;
    p.models = HOST_MODELS_DIR;
    k.plan = &p;
    for (size_t i = 0; i < p.count; i++)
        k.mps = k.mps || (r->targets->compose->mps && p.runs[i].gpus);
    if (check_images(&k)) {
        out = render_file(r, "compose/compose.yaml");
        put_head(&k, out, fallback);
        yaml_begin(&k.y, &doc);
        put_body(&k);
        yaml_finish(&k.y);
        buf_add(out, buf_str(&doc), doc.len);
        env_example(&k);
    }
    buf_release(&doc);
    arena_release(&k.arena);
    host_plan_release(&p);
}

/* SPDX-License-Identifier: MIT */
/* k8s_pod: a pod from a component, and any pod as YAML. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/follow_int.h"
#include "render/k8s/k8s_int.h"

#include <assert.h>
#include <inttypes.h>

/* ---- from a component ---- */

void k8s_volume_add(struct k8s *k, struct k8s_pod *pod, struct k8s_volume v)
{
    if (!pod->volumes)
        pod->volumes = arena_array(&k->arena, struct k8s_volume, K8S_VOLUMES_MAX);
    if (pod->volume_count == K8S_VOLUMES_MAX) {
        render_refuse(k->r, pod->c ? (const void *)&pod->c->mounts : NULL, NULL,
                      "'%s' mounts more than %d volumes", pod->name, K8S_VOLUMES_MAX);
        return;
    }
    if (v.storage && str_starts(v.name, K8S_OWN_VOLUME))
        render_refuse(
            k->r, &v.storage->name, "Give it another name.",
            "volumes whose names begin with '%s' are stoker's own, and storage '%s' would "
            "take the place of one",
            K8S_OWN_VOLUME, v.storage->name);
    /* A folder of the spec that is also one of ours is refused by the API server; one below a
     * folder that nobody can write keeps the container from starting, as its mount point cannot be
     * made. */
    for (size_t i = 0; !v.at && i < pod->volume_count; i++) {
        const struct k8s_volume *o = &pod->volumes[i];
        bool below = str_path_below(o->path, v.path), above = str_path_below(v.path, o->path);

        if (o->at && ((below && above) || (below && v.read_only) || (above && o->read_only)))
            render_refuse(k->r, o->at, "Mount it elsewhere.",
                          "'%s' cannot be mounted at '%s': stoker mounts its own at '%s' there",
                          o->name, o->path, v.path);
    }
    for (size_t i = 0; i < pod->volume_count; i++)
        v.again = v.again || str_eq(pod->volumes[i].name, v.name);
    pod->volumes[pod->volume_count++] = v;
}

static enum k8s_volume_kind volume_kind(const struct spec_storage *s, bool templates)
{
    if (s->kind == SPEC_STORAGE_MEMORY)
        return K8S_MEMORY;
    if (k8s_per_replica(s))
        return templates ? K8S_TEMPLATE : K8S_OWN;
    return K8S_CLAIM;
}

static void mount_add(struct k8s *k, struct k8s_pod *pod, const struct spec_mount *m,
                      bool templates)
{
    const struct spec_storage *s = spec_storage_find(k->r->spec, m->storage);

    assert(s); /* names that refer to something exist */
    if (s->kind == SPEC_STORAGE_OBJECT) {
        render_refuse(k->r, &m->storage, "Let the program read it, and mount another storage.",
                      "object storage '%s' cannot be mounted into a pod", s->name);
        return;
    }
    if (strchr(m->path, ':'))
        render_refuse(k->r, &m->path, NULL, "Kubernetes mounts nothing at a path with ':'");
    k8s_volume_add(k, pod,
                   (struct k8s_volume){
                       .name = k8s_claim_name(k, s),
                       .kind = volume_kind(s, templates),
                       .source = k8s_claim_name(k, s),
                       .bytes = pod->c->shm_bytes.known && str_eq(m->path, "/dev/shm")
                                    ? pod->c->shm_bytes.v
                                    : maybe_or(s->size_bytes, -1),
                       .storage = s,
                       .path = m->path,
                       .subpath = m->subpath,
                       .read_only = m->read_only || s->read_only,
                       .from = arena_strdup(&k->arena, render_from(k->r, &m->storage)),
                       .at = &m->path,
                   });
}

void k8s_storage_add(struct k8s *k, struct k8s_pod *pod, const struct spec_storage *s)
{
    k8s_volume_add(k, pod,
                   (struct k8s_volume){
                       .name = k8s_claim_name(k, s),
                       .kind = K8S_CLAIM,
                       .source = k8s_claim_name(k, s),
                       .storage = s,
                       .path = s->path,
                       .read_only = true,
                       .from = arena_strdup(&k->arena, render_from(k->r, &s->path)),
                   });
}

void k8s_init_add(struct k8s *k, struct k8s_pod *pod, struct k8s_init init)
{
    if (!pod->inits)
        pod->inits = arena_array(&k->arena, struct k8s_init, K8S_INITS_MAX);
    assert(pod->init_count < K8S_INITS_MAX); /* of our own making */
    pod->inits[pod->init_count++] = init;
}

void k8s_stoker_add(struct k8s *k, struct k8s_pod *pod)
{
    static const char *const copy[] = { "cp", "-t", K8S_STOKER_DIR, "/usr/local/bin/stoker" };

    k8s_volume_add(k, pod,
                   (struct k8s_volume){
                       .name = K8S_OWN_VOLUME "bin", .kind = K8S_SCRATCH, .path = K8S_STOKER_DIR });
    k8s_init_add(k, pod,
                 (struct k8s_init){ .name = "stoker",
                                    .image = k->stoker_image,
                                    .image_from = k->stoker_image_from,
                                    .command = { copy, 4 },
                                    .volume = K8S_OWN_VOLUME "bin",
                                    .path = K8S_STOKER_DIR,
                                    .cpu = "100m",
                                    .memory = "64Mi" });
}

/* Workers of a loader and NCCL pass memory through /dev/shm, where a container has 64 MB unless
 * told; what is written there counts as the pod's memory. */
static void shm_add(struct k8s *k, struct k8s_pod *pod)
{
    const struct spec_component *c = pod->c;
    struct maybe memory = feasible_request_of(k->r->feasible, c).memory_mib;
    bool said = c->memory_bytes.known;

    if (c->shm_bytes.known && said && c->shm_bytes.v > c->memory_bytes.v)
        render_refuse(k->r, &c->shm_bytes, "/dev/shm is part of the memory of a pod.",
                      "'%s' has a larger /dev/shm than memory", c->name);
    else if (c->shm_bytes.known && !said && memory.known && c->shm_bytes.v > memory.v << 20)
        render_refuse(
            k->r, &c->shm_bytes, "/dev/shm is part of the memory of a pod: give it 'memory'.",
            "'%s' has a larger /dev/shm than its GPUs' part of the memory, %" PRId64 " GiB",
            c->name, memory.v >> 10);
    follow_memory_mounts(k->r, c,
                         said           ? c->memory_bytes
                         : memory.known ? maybe_of(memory.v << 20)
                                        : maybe_none());
    if (k8s_is_mps_client(k, c)) {
        /* The device plug-in mounts the MPS daemon's /dev/shm, by which clients reach it, into
         * pods that share a GPU (k8s-device-plugin, internal/plugin/mps.go).  The kubelet mounts
         * the pod's own volumes after those of plug-ins: one of the same path would hide it, and
         * no client would find its GPU. */
        if (c->shm_bytes.known)
            render_warn(
                k->r, &c->shm_bytes,
                "The daemon's has half of the machine's memory, for all pods of it together.",
                "MPS brings /dev/shm into pods of '%s': its 'shm' is not followed", c->name);
        for (size_t i = 0; i < c->mount_count; i++)
            if (str_eq(c->mounts[i].path, "/dev/shm"))
                render_refuse(
                    k->r, &c->mounts[i].path, "Leave it out, or share the GPUs by time_slicing.",
                    "a mount at /dev/shm hides that of the MPS daemon: '%s' could not use its "
                    "GPU",
                    c->name);
        return;
    }
    for (size_t i = 0; i < pod->volume_count; i++)
        if (str_eq(pod->volumes[i].path, "/dev/shm"))
            return;
    if (!c->shm_bytes.known && !c->gpus && !k8s_shares_gpu(c))
        return;
    k8s_volume_add(k, pod,
                   (struct k8s_volume){
                       .name = K8S_OWN_VOLUME "shm",
                       .kind = K8S_MEMORY,
                       .bytes = maybe_or(c->shm_bytes, -1),
                       .path = "/dev/shm",
                       .from = arena_strdup(&k->arena, render_from(k->r, &c->shm_bytes)),
                   });
}

bool k8s_is_root(const struct spec_component *c)
{
    int64_t uid;

    return c->user && (str_eq(c->user, "root") || (str_to_i64(c->user, 10, &uid) && uid == 0));
}

struct maybe k8s_uid(const struct spec_component *c)
{
    int64_t uid;

    if (!c->user)
        return maybe_of(K8S_UID_DEFAULT);
    if (k8s_is_root(c))
        return maybe_of(0);
    if (str_to_i64(c->user, 10, &uid) && uid >= 0 && uid <= INT32_MAX)
        return maybe_of(uid);
    return maybe_none();
}

static int64_t user_of(struct k8s *k, const struct spec_component *c)
{
    struct maybe uid = k8s_uid(c);

    if (!uid.known)
        render_refuse(k->r, &c->user, "Write the number: user: \"1000\".",
                      "Kubernetes takes a user by number, and '%s' is none", c->user);
    return maybe_or(uid, K8S_UID_DEFAULT);
}

void k8s_pod_of(struct k8s *k, const struct spec_component *c, bool templates, struct k8s_pod *out)
{
    bool own = !c->image && k8s_is_server(c) && k->stoker_image_from; /* `stoker serve` */

    *out = (struct k8s_pod){
        .c = c,
        .name = k8s_name(k, c->name, ""),
        .image = own        ? k->stoker_image
                 : c->image ? c->image
                            : "",
        .image_from =
            own ? k->stoker_image_from : arena_strdup(&k->arena, render_from(k->r, &c->image)),
        .command = c->command,
        .args = c->args,
        .workdir = c->workdir,
        .health = k8s_health_of(k, c),
        .service_account = k->service_account,
        .uid = user_of(k, c),
    };
    out->ports = k8s_ports_of(k, c, &out->port_count);
    out->root = out->uid == 0;
    if (c->kind == SPEC_COMPONENT_SERVING && !out->port_count)
        render_warn(k->r, &c->name, "Name the port its program listens on.",
                    "component '%s' has no port: no Service is written and it cannot be reached",
                    c->name);
    if (!c->image && !own)
        render_refuse(k->r, &c->name, "Give it an image.",
                      "'%s' has no image, and Kubernetes runs nothing else", c->name);
    if (c->image && spec_image_is_file(c->image))
        render_refuse(k->r, &c->image, "Write it like registry.example.org/team/name:1.0.",
                      "'%.80s' is the path of a file, and only Slurm starts images from one",
                      c->image);
    for (size_t i = 0; i < c->mount_count; i++)
        mount_add(k, out, &c->mounts[i], templates);
    k8s_mounts_check(k, c);
    shm_add(k, out);
}

bool k8s_shares_gpu(const struct spec_component *c)
{
    return !c->gpus && c->pools.count;
}

bool k8s_is_mps_client(struct k8s *k, const struct spec_component *c)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    struct feasible_opts opts = { .kubernetes_by_name = k->by_name };
    size_t count = !k->scc && k8s_shares_gpu(c) ? feasible_groups(s, c, groups) : 0;

    for (size_t i = 0; i < count; i++)
        if (groups[i]->gpu && groups[i]->gpu->sharing == SPEC_SHARING_MPS &&
            feasible_shares(s, groups[i], &opts) > 1)
            return true;
    return false;
}

/* ---- as YAML ---- */

void k8s_words(struct k8s *k, struct yaml_out *y, const char *key, const struct spec_strs *w)
{
    if (!w->count)
        return;
    yaml_seq(y, key);
    for (size_t i = 0; i < w->count; i++)
        yaml_text(y, NULL, k8s_verbatim(k, w->items[i]));
    yaml_end(y);
}

/* RDMA locks memory: root may with IPC_LOCK, everybody else by the limit of the runtime, since
 * Kubernetes gives added capabilities to root only. */
static void put_capabilities(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    bool lock = pod->c && render_uses_rdma(k->r, &pod->c->fabrics) && (pod->root || k->ipc_lock);

    yaml_map(y, "capabilities");
    yaml_seq_of(y, "drop", "ALL");
    if (lock || pod->caps.count) {
        yaml_seq(y, "add");
        if (lock) {
            yaml_note(y, "RDMA locks memory");
            yaml_str(y, NULL, "IPC_LOCK");
        }
        for (size_t i = 0; i < pod->caps.count; i++)
            yaml_str(y, NULL, pod->caps.items[i]);
        yaml_end(y);
    }
    yaml_end(y);
}

static void container_security(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_map(y, "securityContext");
    yaml_bool(y, "allowPrivilegeEscalation", false);
    if (pod->read_only_root)
        yaml_bool(y, "readOnlyRootFilesystem", true);
    put_capabilities(k, y, pod);
    yaml_end(y);
}

static void pod_user(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    const char *from =
        pod->c ? render_from(k->r, &pod->c->user) : "an account without rights of its own";

    yaml_bool(y, "runAsNonRoot", !pod->root);
    if (pod->uid < 0 || (k->scc && !pod->root))
        return; /* the security context constraint picks one of the namespace's range */
    yaml_note(y, from);
    if (k->scc) { /* to a pod that names no user, restricted-v2 gives one of that range, too */
        yaml_int(y, "runAsUser", pod->uid);
        return;
    }
    yaml_int(y, "runAsUser", pod->uid);
    yaml_int(y, "runAsGroup", pod->uid);
    yaml_note(y, "volumes are made writable for this group, once");
    yaml_int(y, "fsGroup", pod->uid);
    yaml_str(y, "fsGroupChangePolicy", "OnRootMismatch");
}

/* The lowest port that the pod listens on, where that one needs a capability; NULL: none does. */
static const struct spec_port *low_port(const struct k8s_pod *pod)
{
    const struct spec_port *low = NULL;

    for (size_t i = 0; i < pod->port_count; i++)
        if (pod->ports[i].port < RENDER_PORT_FREE && (!low || pod->ports[i].port < low->port))
            low = &pod->ports[i];
    return low;
}

/* Containers keep no capability, root's neither, and runtimes differ: containerd before 2.0 lets
 * nobody bind a port below 1024.  This sysctl is one of the pod's own network and safe: Pod
 * Security and the constraints of OpenShift let it pass, and it works for every user, where an
 * added NET_BIND_SERVICE would be given to root only. */
static void put_sysctls(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    const struct spec_port *low = pod->host_network ? NULL : low_port(pod);

    if (!low)
        return;
    yaml_open(y, "sysctls[]");
    render_str(k->r, y, "name", "net.ipv4.ip_unprivileged_port_start", &low->port);
    yaml_strf(y, "value", "%" PRId64, low->port);
    yaml_ends(y, 2);
}

static void pod_security(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_map(y, "securityContext");
    pod_user(k, y, pod);
    put_sysctls(k, y, pod);
    yaml_map_of(y, "seccompProfile", "type", "RuntimeDefault");
    if (k8s_has(k, K8S_APPARMOR_FIELD) && !k->scc)
        yaml_map_of(y, "appArmorProfile", "type", "RuntimeDefault");
    yaml_end(y);
}

static void put_container(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_map(y, NULL);
    yaml_str(y, "name", pod->container ? pod->container : pod->name);
    yaml_note(y, pod->image_from);
    yaml_str(y, "image", pod->image);
    k8s_words(k, y, "command", &pod->command);
    k8s_words(k, y, "args", &pod->args);
    if (pod->workdir) {
        yaml_note(y, pod->c ? render_from(k->r, &pod->c->workdir) : NULL);
        yaml_str(y, "workingDir", pod->workdir);
    }
    k8s_env(k, y, pod);
    k8s_ports(k, y, pod);
    if (pod->c)
        k8s_resources(k, y, "resources", pod->c);
    else
        k8s_own_resources(k, y, pod);
    k8s_probes(k, y, pod);
    container_security(k, y, pod);
    k8s_mounts(k, y, pod);
    yaml_end(y);
}

static void put_quantities(struct yaml_out *y, const char *key, const struct k8s_init *init)
{
    yaml_map_of(y, key, "cpu", init->cpu, "memory", init->memory);
}

static void init_container(struct k8s *k, struct yaml_out *y, const struct k8s_init *init)
{
    struct k8s_pod plain = { .env = init->env, .env_count = init->env_count };

    yaml_map(y, NULL);
    yaml_str(y, "name", init->name);
    yaml_note(y, init->image_from);
    yaml_str(y, "image", init->image);
    k8s_words(k, y, "command", &init->command);
    k8s_env(k, y, &plain);
    yaml_map(y, "resources");
    put_quantities(y, "requests", init);
    put_quantities(y, "limits", init); /* equal, or the whole pod is not Guaranteed */
    yaml_end(y);
    container_security(k, y, &plain);
    yaml_seq(y, "volumeMounts");
    yaml_map_of(y, NULL, "name", init->volume, "mountPath", init->path);
    yaml_ends(y, 2);
}

static void pull_secrets(struct k8s *k, struct yaml_out *y)
{
    if (!k->pull_secrets || !k->pull_secrets->count)
        return;
    yaml_seq(y, "imagePullSecrets");
    for (size_t i = 0; i < k->pull_secrets->count; i++)
        yaml_map_of(y, NULL, "name", k->pull_secrets->items[i]);
    yaml_end(y);
}

void k8s_pod_spec(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_map(y, "spec");
    if (pod->restart)
        yaml_str(y, "restartPolicy", pod->restart);
    if (pod->subdomain)
        yaml_str(y, "subdomain", pod->subdomain);
    if (pod->service_account)
        yaml_str(y, "serviceAccountName", pod->service_account);
    if (!pod->token)
        yaml_note(y, "it asks nothing of the API server");
    yaml_bool(y, "automountServiceAccountToken", pod->token);
    yaml_bool(y, "enableServiceLinks", false);
    pull_secrets(k, y);
    if (k->priority_class && pod->c) {
        render_str(k->r, y, "priorityClassName", k->priority_class, k->priority_class_at);
    } else if (pod->c) {
        render_str(k->r, y, "priorityClassName", k8s_priority_name(k, pod->c->priority),
                   &pod->c->priority);
    } else if (pod->priority) {
        yaml_str(y, "priorityClassName", pod->priority);
    }
    if (k->runtime_class && pod->c && (pod->c->gpus || k8s_shares_gpu(pod->c))) {
        render_str(k->r, y, "runtimeClassName", k->runtime_class, k->runtime_class_at);
    } else if (pod->runtime_class) {
        yaml_str(y, "runtimeClassName", pod->runtime_class);
    }
    if (pod->host_network) {
        yaml_bool(y, "hostNetwork", true);
        yaml_str(y, "dnsPolicy", "ClusterFirstWithHostNet");
    }
    if (pod->host_pid)
        yaml_bool(y, "hostPID", true);
    if (pod->grace_s)
        yaml_int(y, "terminationGracePeriodSeconds", pod->grace_s);
    if (pod->deadline_s)
        yaml_int(y, "activeDeadlineSeconds", pod->deadline_s);
    k8s_placement(k, y, pod);
    pod_security(k, y, pod);
    if (pod->init_count) {
        yaml_seq(y, "initContainers");
        for (size_t i = 0; i < pod->init_count; i++)
            init_container(k, y, &pod->inits[i]);
        yaml_end(y);
    }
    yaml_seq(y, "containers");
    put_container(k, y, pod);
    yaml_end(y);
    k8s_volumes(k, y, pod);
    yaml_end(y);
}

void k8s_pod_patch(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_map(y, "spec");
    if (pod->service_account)
        yaml_str(y, "serviceAccountName", pod->service_account);
    pull_secrets(k, y);
    if (pod->grace_s)
        yaml_int(y, "terminationGracePeriodSeconds", pod->grace_s);
    k8s_tolerations_of(k, y, pod);
    k8s_affinity(k, y, pod);
    pod_security(k, y, pod);
    yaml_open(y, "containers[]");
    yaml_str(y, "name", pod->container ? pod->container : pod->name);
    container_security(k, y, pod);
    k8s_mounts(k, y, pod);
    yaml_ends(y, 2);
    k8s_volumes(k, y, pod);
    yaml_end(y);
}

void k8s_template_meta(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    struct buf nets = { 0 };

    yaml_map(y, "metadata");
    k8s_labels(k, y, "labels", pod->name);
    if (pod->c)
        k8s_networks(k, pod->c, &nets);
    if (nets.len || pod->level)
        yaml_map(y, "annotations");
    if (nets.len) {
        yaml_note(y, render_from(k->r, &pod->c->fabrics));
        yaml_text(y, "k8s.v1.cni.cncf.io/networks", buf_str(&nets));
    }
    if (pod->level) {
        yaml_note(y, "below one of them, where that can be");
        yaml_str(y, "kueue.x-k8s.io/podset-preferred-topology", pod->level);
    }
    if (nets.len || pod->level)
        yaml_end(y);
    buf_release(&nets);
    yaml_end(y);
}

void k8s_template(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    yaml_map(y, "template");
    k8s_template_meta(k, y, pod);
    k8s_pod_spec(k, y, pod);
    yaml_end(y);
}

const char *k8s_pods_from(struct k8s *k, const struct spec_component *c)
{
    const char *nodes = render_from(k->r, &c->nodes_per_replica);

    if (c->nodes_per_replica > 1 && c->replicas > 1)
        return arena_printf(&k->arena, "%s x %s", render_from(k->r, &c->replicas), nodes);
    return c->nodes_per_replica > 1 ? nodes : render_from(k->r, &c->replicas);
}

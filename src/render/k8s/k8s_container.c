/* SPDX-License-Identifier: MIT */
/* k8s_container: what a container asks for and sees: GPUs, RDMA devices, cores and memory,
 * environment, ports, probes, volumes. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/k8s/k8s_int.h"

#include <inttypes.h>

/* ---- resources ---- */

const char *k8s_gpu_resource(struct k8s *k, const struct spec_node *n)
{
    if (!n || !feasible_mig_instances(n) || k->mig_strategy == SPEC_MIG_SINGLE)
        return "nvidia.com/gpu";
    return arena_printf(&k->arena, "nvidia.com/mig-%s", feasible_mig_name(&k->arena, n));
}

static void put_gpus(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    const char *name = k8s_gpu_resource(k, spec_component_group(k->r->spec, c, 0));

    if (!c->gpus && !k8s_shares_gpu(c))
        return;
    if (c->gpus) {
        render_int(k->r, y, name, c->gpus, &c->gpus);
    } else {
        yaml_note(y, "a share: it has a memory pool and no GPU of its own");
        yaml_int(y, name, 1);
    }
}

/* Unset: its GPUs' part of what a machine has for pods, see plan/feasible.h; nothing where that is
 * not known. */
static void put_cores(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    struct feasible_request request = feasible_request_of(k->r->feasible, c);

    if (!request.cpu_m.known)
        return;
    yaml_note(y, request.cpu_derived ? "its GPUs' part of the CPUs that pods can have"
                                     : render_from(k->r, &c->cpus));
    if (request.cpu_m.v % 1000)
        yaml_strf(y, "cpu", "%" PRId64 "m", request.cpu_m.v);
    else
        yaml_strf(y, "cpu", "%" PRId64, request.cpu_m.v / 1000);
}

static void put_memory(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    struct feasible_request request = feasible_request_of(k->r->feasible, c);
    char size[32];

    if (!request.memory_mib.known)
        return;
    k8s_quantity(size, sizeof(size),
                 c->memory_bytes.known ? c->memory_bytes.v : request.memory_mib.v << 20);
    yaml_note(y, request.memory_derived ? "its GPUs' part of the memory that pods can have"
                                        : render_from(k->r, &c->memory_bytes));
    yaml_str(y, "memory", size);
}

static void put_quantities(struct k8s *k, struct yaml_out *y, const char *key,
                           const struct spec_component *c)
{
    yaml_map(y, key);
    put_gpus(k, y, c);
    for (size_t i = 0; i < c->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(k->r->spec, c->fabrics.items[i]);

        struct spec_nics_of nics;

        if (!f)
            continue;
        nics = k8s_component_nics(k, c, f);
        if (f->kind == SPEC_FABRIC_EFA) {
            render_int(k->r, y, "vpc.amazonaws.com/efa", nics.count, nics.count_at);
        } else if (k8s_rdma_shared(f)) {
            yaml_note(y, "every RDMA device of this network, shared");
            yaml_int(y, k8s_rail_resource(k, f, 0), 1);
        }
        for (size_t j = 0; f->sriov && j < (k8s_rails_apart(f) ? (size_t)nics.count : 1); j++) {
            render_int(k->r, y, k8s_rail_resource(k, f, j), k8s_rails_apart(f) ? 1 : nics.count,
                       nics.count_at);
        }
    }
    put_cores(k, y, c);
    put_memory(k, y, c);
    yaml_end(y);
}

void k8s_resources(struct k8s *k, struct yaml_out *y, const char *key,
                   const struct spec_component *c)
{
    yaml_map(y, key);
    put_quantities(k, y, "requests", c);
    put_quantities(k, y, "limits",
                   c); /* equal: QoS class Guaranteed, whole cores, no eviction first */
    yaml_end(y);
}

void k8s_own_resources(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    if (!pod->cpu)
        return;
    yaml_map(y, "resources");
    yaml_map_of(y, "requests", "cpu", pod->cpu, "memory", pod->memory);
    yaml_map(y, "limits");
    yaml_str(y, "memory", pod->memory);
    if (pod->gpus)
        yaml_int(y, k8s_gpu_resource(k, spec_node_of(k->r->spec, NULL)), pod->gpus);
    yaml_ends(y, 2);
}

/* ---- environment ---- */

static bool set_by(const struct spec_pairs *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (str_eq(p->items[i].key, name))
            return true;
    return false;
}

static void put_variable(struct k8s *k, struct yaml_out *y, const struct k8s_env *e)
{
    yaml_map(y, NULL);
    yaml_str(y, "name", e->name);
    if (e->field) {
        yaml_map(y, "valueFrom");
        yaml_map_of(y, "fieldRef", "fieldPath", e->field);
        yaml_end(y);
    } else {
        yaml_note(y, e->from);
        yaml_str(y, "value", k8s_verbatim(k, e->value));
    }
    yaml_end(y);
}

static void put_pairs(struct k8s *k, struct yaml_out *y, const struct spec_pairs *p,
                      const struct spec_pairs *winner)
{
    for (size_t i = 0; i < p->count; i++)
        if (!winner || !set_by(winner, p->items[i].key))
            put_variable(k, y,
                         &(struct k8s_env){ .name = p->items[i].key,
                                            .value = p->items[i].value,
                                            .from = render_from(k->r, &p->items[i]) });
}

/* ---- NCCL's settings of a fabric ----
 *
 * A pod reads no nccl.conf of its machine, so what the spec fixes of a fabric comes as variables,
 * the same as in that file (nccl_spec.c).  All else is left to detection in the pod.  Devices are
 * named only where pods see those of the machine: a virtual function has a name of its own. */

enum { FABRIC_ENV_MAX = 3 };

static const struct spec_fabric *rdma_fabric(const struct k8s *k, const struct spec_component *c)
{
    const struct spec_fabric *best = NULL;

    for (size_t i = 0; i < c->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(k->r->spec, c->fabrics.items[i]);
        bool rdma = f && (f->kind == SPEC_FABRIC_ROCE || f->kind == SPEC_FABRIC_INFINIBAND);

        if (rdma && (!best || f->rate_bps > best->rate_bps))
            best = f;
    }
    return best;
}

static struct k8s_env number_env(struct k8s *k, const char *name, const struct maybe *m)
{
    return (struct k8s_env){ .name = name,
                             .value = arena_printf(&k->arena, "%" PRId64, m->v),
                             .from = arena_strdup(&k->arena, render_from(k->r, m)) };
}

/* Devices as the machines of all its groups name them; NULL: they differ. */
static const struct spec_strs *common_hcas(const struct k8s *k, const struct spec_component *c,
                                           const struct spec_fabric *f)
{
    const struct spec_node *n = spec_component_group(k->r->spec, c, 0);
    const struct spec_strs *all = spec_group_nics(n, f).hcas;

    for (size_t i = 1; n && (n = spec_component_group(k->r->spec, c, i)) != NULL; i++)
        if (spec_group_nics(n, f).hcas != all)
            return NULL;
    return all;
}

static size_t fabric_env(struct k8s *k, const struct spec_component *c, struct k8s_env *out)
{
    const struct spec_fabric *f = c->gpus ? rdma_fabric(k, c) : NULL;
    struct spec_roce roce = spec_roce_of(k->r->spec, &c->fabrics);
    const struct spec_strs *hcas;
    size_t count = 0;

    if (!f)
        return 0;
    if (roce.gid_index)
        out[count++] = number_env(k, "NCCL_IB_GID_INDEX", &roce.gid_index->gid_index);
    if (roce.traffic_class)
        out[count++] = number_env(k, "NCCL_IB_TC", &roce.traffic_class->traffic_class);
    hcas = common_hcas(k, c, f);
    if (!f->sriov && hcas && hcas->count) {
        struct buf names = { 0 };

        for (size_t i = 0; i < hcas->count; i++)
            buf_addf(&names, "%c%s", i ? ',' : '=', hcas->items[i]);
        out[count++] = (struct k8s_env){
            .name = "NCCL_IB_HCA",
            .value = arena_strdup(&k->arena, buf_str(&names)),
            .from = arena_strdup(&k->arena, render_from(k->r, hcas)),
        };
        buf_release(&names);
    }
    return count;
}

/* A user that the image's /etc/passwd does not have gets "/" for a home, which it cannot write:
 * caches (Triton, torch.compile, CUDA, the hub's) end there with "permission denied", and who asks
 * for the user's name gets none. */
static const struct k8s_env home[] = { { .name = "HOME", .value = "/tmp" },
                                       { .name = "USER", .value = "stoker" } };

/* Ours, but for those that the spec sets. */
static void own_variables(struct k8s *k, struct yaml_out *y, const struct spec_component *c,
                          const struct k8s_env *env, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!c || (!set_by(&c->env, env[i].name) &&
                   !(c->gpus && set_by(&k->r->spec->nccl.env, env[i].name))))
            put_variable(k, y, &env[i]);
}

void k8s_env(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    const struct spec_component *c = pod->c;
    const struct spec_pairs *nccl = &k->r->spec->nccl.env;
    struct k8s_env fabric[FABRIC_ENV_MAX];
    bool gpu = c && c->gpus, homeless = c && !pod->root;
    size_t fixed = c ? fabric_env(k, c, fabric) : 0;

    if (!pod->env_count && !homeless && !fixed && !(gpu && nccl->count) && !(c && c->env.count))
        return;
    yaml_seq(y, "env");
    own_variables(k, y, c, pod->env, pod->env_count);
    if (homeless)
        own_variables(k, y, c, home, ARRAY_SIZE(home));
    for (size_t i = 0; i < fixed; i++)
        if (!set_by(&c->env, fabric[i].name) && !set_by(nccl, fabric[i].name))
            put_variable(k, y, &fabric[i]);
    if (gpu)
        put_pairs(k, y, nccl, &c->env);
    if (c)
        put_pairs(k, y, &c->env, NULL);
    yaml_end(y);
}

/* ---- ports and probes ---- */

void k8s_port_name(const struct spec_port *ports, size_t i, char *out)
{
    enum { ROOM = 15 };
    char dns[SPEC_NAME_MAX + 1];
    bool letter = false;

    dns_name(dns, ports[i].name);
    for (const char *p = dns; *p; p++)
        letter = letter || (*p >= 'a' && *p <= 'z');
    if (strlen(dns) <= ROOM && letter && !strstr(dns, "--"))
        (void)snprintf(out, ROOM + 1, "%s", dns);
    else
        (void)snprintf(out, ROOM + 1, "port-%u", (unsigned)ports[i].port % 65536);
}

void k8s_ports(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    char name[16];

    if (!pod->port_count)
        return;
    yaml_seq(y, "ports");
    for (size_t i = 0; i < pod->port_count; i++) {
        k8s_port_name(pod->ports, i, name);
        yaml_map(y, NULL);
        yaml_str(y, "name", name);
        render_int(k->r, y, "containerPort", pod->ports[i].port, &pod->ports[i].port);
        yaml_str(y, "protocol", pod->ports[i].protocol == SPEC_PROTOCOL_UDP ? "UDP" : "TCP");
        yaml_end(y);
    }
    yaml_end(y);
}

static int64_t whole_seconds(int64_t ms) /* rounded up, at least one */
{
    return ms <= 1000 ? 1 : (ms + 999) / 1000;
}

static void probe_how(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    const struct spec_health *h = pod->health;
    int64_t port = h->port.known ? h->port.v : pod->port_count ? pod->ports[0].port : 0;

    if (h->command.count) {
        yaml_map(y, "exec");
        yaml_seq(y, "command");
        for (size_t i = 0; i < h->command.count; i++)
            yaml_str(y, NULL, k8s_verbatim(k, h->command.items[i]));
        yaml_ends(y, 2);
        return;
    }
    if (!port) {
        render_refuse(k->r, pod->c ? (const void *)&pod->c->health : NULL,
                      "Give a port, or a command.", "the health check of '%s' has no port to ask",
                      pod->name);
        return;
    }
    yaml_map(y, h->path ? "httpGet" : "tcpSocket");
    if (h->path)
        render_str(k->r, y, "path", h->path, &h->path);
    yaml_int(y, "port", port);
    yaml_end(y);
}

static void put_probe(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod, const char *key,
                      int64_t failures)
{
    const struct spec_health *h = pod->health;

    yaml_map(y, key);
    probe_how(k, y, pod);
    render_int(k->r, y, "periodSeconds", whole_seconds(h->interval_ms), &h->interval_ms);
    render_int(k->r, y, "timeoutSeconds", whole_seconds(h->timeout_ms), &h->timeout_ms);
    yaml_int(y, "failureThreshold", failures);
    yaml_end(y);
}

void k8s_probes(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    const struct spec_health *h = pod->health;
    int64_t starts;

    if (!h)
        return;
    starts = (h->start_ms + h->interval_ms - 1) / h->interval_ms;
    put_probe(k, y, pod, "startupProbe", starts > 0 ? starts : 1);
    put_probe(k, y, pod, "livenessProbe", h->retries);
    if (pod->readiness)
        put_probe(k, y, pod, "readinessProbe", h->retries);
}

/* ---- volumes ---- */

static void memory_volume(struct yaml_out *y, const struct k8s_volume *v)
{
    char size[32];

    yaml_map(y, "emptyDir");
    yaml_str(y, "medium", "Memory");
    if (v->bytes >= 0) {
        k8s_quantity(size, sizeof(size), v->bytes);
        yaml_note(y, v->from);
        yaml_str(y, "sizeLimit", size);
    } else {
        yaml_comment(y, "no sizeLimit: as much as the pod's memory limit");
    }
    yaml_end(y);
}

static void put_named(struct yaml_out *y, const char *key, const char *name_key,
                      const struct k8s_volume *v)
{
    yaml_map(y, key);
    yaml_note(y, v->from);
    yaml_str(y, name_key, v->source);
    if (v->mode)
        yaml_int(y, "defaultMode", v->mode);
    if (v->kind == K8S_HOST && v->host_type)
        yaml_str(y, "type", v->host_type);
    yaml_end(y);
}

static void put_volume(struct k8s *k, struct yaml_out *y, const struct k8s_volume *v)
{
    yaml_map(y, NULL);
    yaml_str(y, "name", v->name);
    switch (v->kind) {
    case K8S_CLAIM:
        put_named(y, "persistentVolumeClaim", "claimName", v);
        break;
    case K8S_OWN:
        yaml_map(y, "ephemeral");
        yaml_comment(y, "a volume of this pod alone, which goes with it");
        yaml_open(y, "volumeClaimTemplate.spec");
        k8s_claim_spec(k, y, v->storage);
        yaml_ends(y, 3);
        break;
    case K8S_MEMORY:
        memory_volume(y, v);
        break;
    case K8S_SCRATCH:
        yaml_map(y, "emptyDir");
        yaml_end(y);
        break;
    case K8S_CONFIG:
        put_named(y, "configMap", "name", v);
        break;
    case K8S_SECRET:
        put_named(y, "secret", "secretName", v);
        break;
    case K8S_HOST:
        put_named(y, "hostPath", "path", v);
        break;
    case K8S_TEMPLATE:
        break;
    }
    yaml_end(y);
}

void k8s_volumes(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    bool open = false;

    for (size_t i = 0; i < pod->volume_count; i++) {
        const struct k8s_volume *v = &pod->volumes[i];

        if (v->again || v->kind == K8S_TEMPLATE)
            continue;
        if (!open)
            yaml_seq(y, "volumes");
        open = true;
        put_volume(k, y, v);
    }
    if (open)
        yaml_end(y);
}

void k8s_mounts(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod)
{
    if (!pod->volume_count)
        return;
    yaml_seq(y, "volumeMounts");
    for (size_t i = 0; i < pod->volume_count; i++) {
        const struct k8s_volume *v = &pod->volumes[i];

        yaml_map(y, NULL);
        yaml_str(y, "name", v->name);
        yaml_note(y, v->from);
        yaml_str(y, "mountPath", v->path);
        if (v->subpath)
            yaml_str(y, "subPath", v->subpath);
        if (v->read_only)
            yaml_bool(y, "readOnly", true);
        if (v->read_only && v->kind == K8S_HOST && k8s_has(k, K8S_RECURSIVE_READ_ONLY))
            yaml_str(y, "recursiveReadOnly", "IfPossible");
        yaml_end(y);
    }
    yaml_end(y);
}

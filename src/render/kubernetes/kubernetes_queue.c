/* SPDX-License-Identifier: MIT */
/* kubernetes_queue: Kueue's objects of a site.
 *
 *   LocalQueue      the spec's `queue` in the namespace of jobs (base/queue.yaml)
 *   ClusterQueue    what all machines that run jobs have together (cluster/queues.yaml)
 *   ResourceFlavor  one for each node group, by its label and taints
 *   Topology        one for each node group: rack, switches from the top to the leaf, machine
 *
 * Switches and racks come from the spec; machines get them as labels (node-prepare.sh), the leaf
 * as stoker/switch-1, the one above it as stoker/switch-2.  A machine without a label of some level
 * does not count for Kueue at all, so a group has only the levels that all its machines have.
 *
 * Kueue refuses a job that asks for anything its queue has no quota of.  NICs are not counted there
 * (they go with the GPUs), nor cores and memory where the spec leaves those of a group open. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/kubernetes/kubernetes_int.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LEVELS_MAX = 8 };
#define SWITCH_LABEL "stoker/switch-"
#define RACK_LABEL   "stoker/rack"

static bool runs_jobs(const struct spec_node *n)
{
    return n->role == SPEC_ROLE_GPU || n->role == SPEC_ROLE_CPU;
}

/* ---- where machines are ---- */

struct place_row {
    const char *host;
    const struct spec_switch *leaf;
};

struct queue_places { /* hosts of a fabric's leaves, sorted */
    const struct spec_fabric *fabric;
    struct place_row *rows;
    size_t count;
};

static int by_host(const void *a, const void *b)
{
    return strcmp(((const struct place_row *)a)->host, ((const struct place_row *)b)->host);
}

static const struct spec_switch *parent_of(const struct spec_fabric *f,
                                           const struct spec_switch *sw)
{
    for (size_t i = 0; i < f->switch_count; i++)
        for (size_t j = 0; j < f->switches[i].switches.count; j++)
            if (str_eq(f->switches[i].switches.items[j], sw->name))
                return &f->switches[i];
    return NULL;
}

static size_t depth_of(const struct spec_fabric *f, const struct spec_switch *leaf)
{
    size_t depth = 0;

    while (leaf && depth < LEVELS_MAX) { /* a spec's tree has no ring, and this none without end */
        depth++;
        leaf = parent_of(f, leaf);
    }
    return depth;
}

static struct queue_places places_of(struct kube *q, const struct spec_node *n)
{
    struct queue_places p = { 0 };
    struct spec_walk w;
    size_t cap = 0;

    for (size_t i = 0; !p.fabric && i < n->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(q->k.r->spec, n->fabrics.items[i]);

        p.fabric = f && f->switch_count ? f : NULL;
    }
    for (size_t pass = 0; p.fabric && pass < 2; pass++) {
        for (size_t i = 0; i < p.fabric->switch_count; i++) {
            const struct spec_switch *sw = &p.fabric->switches[i];

            if (!sw->hosts)
                continue;
            for (spec_walk_list(&w, sw->hosts); spec_walk_next(&w);) {
                if (pass)
                    p.rows[p.count++] = (struct place_row){ arena_strdup(&q->k.arena, w.name), sw };
                else
                    cap++;
            }
        }
        if (!pass)
            p.rows = arena_array(&q->k.arena, struct place_row, cap + 1);
    }
    if (p.count)
        qsort(p.rows, p.count, sizeof(*p.rows), by_host);
    return p;
}

static const struct spec_switch *leaf_of(const struct queue_places *p, const char *host)
{
    struct place_row key = { .host = host }, *row;

    row = p->count ? bsearch(&key, p->rows, p->count, sizeof(key), by_host) : NULL;
    return row ? row->leaf : NULL;
}

/* Levels of switches that every machine of the group has above it. */
static size_t switch_levels(struct kube *q, const struct spec_node *n)
{
    struct queue_places p = places_of(q, n);
    size_t least = LEVELS_MAX;
    struct spec_walk w;

    if (!p.count)
        return 0;
    for (spec_walk(&w, n); least && spec_walk_next(&w);) {
        size_t depth = depth_of(p.fabric, leaf_of(&p, w.name));

        least = depth < least ? depth : least;
    }
    return least;
}

const char *kube_queue_level(struct kube *q, const struct spec_component *c)
{
    const struct spec_node *n;
    bool switches = true, racks = true;

    if (!q->t->queue || !spec_component_group(q->k.r->spec, c, 0))
        return NULL;
    for (size_t i = 0; (n = spec_component_group(q->k.r->spec, c, i)) != NULL; i++) {
        switches = switches && switch_levels(q, n);
        racks = racks && n->rack;
    }
    return switches ? SWITCH_LABEL "1" : racks ? RACK_LABEL : NULL;
}

/* Machines below the same switches, on one line. */
static void label_hosts(struct buf *out, const struct spec_node *n, const struct queue_places *p,
                        size_t levels, const struct spec_switch *leaf)
{
    const struct spec_switch *up = leaf;
    struct buf labels = { 0 };
    struct spec_walk w;
    bool any = false;

    if (n->rack)
        buf_addf(&labels, RACK_LABEL "=%s ", n->rack);
    for (size_t i = 0; up && i < levels; i++, up = parent_of(p->fabric, up))
        buf_addf(&labels, SWITCH_LABEL "%zu=%s ", i + 1, up->name);
    for (spec_walk(&w, n); spec_walk_next(&w);) {
        if (levels && leaf_of(p, w.name) != leaf)
            continue;
        if (!any) {
            buf_adds(out, "    mark ");
            quote_sh(out, buf_str(&labels));
        }
        any = true;
        buf_addc(out, ' ');
        quote_sh(out, w.name);
    }
    if (any)
        buf_addc(out, '\n');
    buf_release(&labels);
}

void kube_queue_labels(struct kube *q, struct buf *out)
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        size_t levels = runs_jobs(n) ? switch_levels(q, n) : 0;
        struct queue_places p = levels ? places_of(q, n) : (struct queue_places){ 0 };

        if (!runs_jobs(n) || (!levels && !n->rack))
            continue;
        if (n->rack && !k8s_label_value_ok(n->rack))
            render_refuse(q->k.r, &n->rack, "At most 63 letters, digits, '-', '_' and '.'.",
                          "'%s' cannot be the value of a Kubernetes label", n->rack);
        buf_addf(out, "    # where machines of %s are\n", n->name);
        if (!levels)
            label_hosts(out, n, &p, 0, NULL);
        for (size_t j = 0; levels && j < p.fabric->switch_count; j++)
            if (p.fabric->switches[j].hosts)
                label_hosts(out, n, &p, levels, &p.fabric->switches[j]);
    }
}

/* ---- quotas ---- */

/* Are cores and memory of every group that runs jobs known? */
static bool counts_cores(const struct spec *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (runs_jobs(&s->nodes[i]) &&
            (!s->nodes[i].cpu_cores.known || !s->nodes[i].memory_bytes.known))
            return false;
    return true;
}

/* Names of GPUs, or of parts of them, that groups have; each once. */
static size_t gpu_names(struct kube *q, const char **out)
{
    const struct spec *s = q->k.r->spec;
    size_t count = 0;

    for (size_t i = 0; i < s->node_count; i++) {
        const char *name = k8s_gpu_resource(&q->k, &s->nodes[i]);
        bool seen = !s->nodes[i].gpus_per_node || !runs_jobs(&s->nodes[i]);

        for (size_t j = 0; j < count; j++)
            seen = seen || str_eq(out[j], name);
        if (!seen)
            out[count++] = name;
    }
    return count;
}

static void put_quota(struct yaml_out *y, const char *name, const char *value)
{
    yaml_map_of(y, NULL, "name", name, "nominalQuota", value);
}

static void flavor_quotas(struct kube *q, struct yaml_out *y, const struct spec_node *n,
                          const char *const *gpus, size_t gpu_count)
{
    struct feasible_room room = feasible_room_of(q->k.r->spec, n, FEASIBLE_KUBERNETES);
    struct arena *a = &q->k.arena;
    char size[32];

    yaml_map(y, NULL);
    yaml_str(y, "name", k8s_name(&q->k, n->name, ""));
    yaml_seq(y, "resources");
    for (size_t i = 0; i < gpu_count; i++) {
        bool own = n->gpus_per_node && str_eq(gpus[i], k8s_gpu_resource(&q->k, n));

        put_quota(y, gpus[i],
                  arena_printf(a, "%" PRId64, own ? n->count * room.gpus * kube_shares(q, n) : 0));
    }
    if (counts_cores(q->k.r->spec)) {
        put_quota(y, "cpu", arena_printf(a, "%" PRId64 "m", room.cpu_m.v * n->count));
        k8s_quantity(size, sizeof(size), (room.memory_mib.v * n->count) << 20);
        put_quota(y, "memory", size);
    }
    yaml_ends(y, 2);
}

static const char *cluster_queue(struct kube *q)
{
    return arena_printf(&q->k.arena, "%s-%s", q->k.namespace, k8s_name(&q->k, q->t->queue, ""));
}

static void resource_groups(struct kube *q, struct yaml_out *y)
{
    const struct spec *s = q->k.r->spec;
    const char **gpus = arena_array(&q->k.arena, const char *, s->node_count + 1);
    size_t count = gpu_names(q, gpus);

    yaml_open(y, "resourceGroups[]");
    yaml_seq(y, "coveredResources");
    for (size_t i = 0; i < count; i++)
        yaml_str(y, NULL, gpus[i]);
    if (counts_cores(s)) {
        yaml_str(y, NULL, "cpu");
        yaml_str(y, NULL, "memory");
    }
    yaml_end(y);
    yaml_seq(y, "flavors");
    for (size_t i = 0; i < s->node_count; i++)
        if (runs_jobs(&s->nodes[i]))
            flavor_quotas(q, y, &s->nodes[i], gpus, count);
    yaml_ends(y, 3);
}

/* ---- flavors and topology ---- */

static void topology_write(struct kube *q, struct buf *out, const struct spec_node *n)
{
    struct yaml_out y;

    k8s_object_in(&q->k, &y, out, KUBE_KUEUE_API, "Topology", NULL, k8s_name(&q->k, n->name, ""),
                  NULL);
    yaml_map(&y, "spec");
    yaml_seq(&y, "levels");
    if (n->rack) {
        yaml_map(&y, NULL);
        render_str(q->k.r, &y, "nodeLabel", RACK_LABEL, &n->rack);
        yaml_end(&y);
    }
    for (size_t i = switch_levels(q, n); i > 0; i--) {
        yaml_map(&y, NULL);
        yaml_strf(&y, "nodeLabel", SWITCH_LABEL "%zu", i);
        yaml_end(&y);
    }
    yaml_map_of(&y, NULL, "nodeLabel", "kubernetes.io/hostname");
    yaml_finish(&y);
}

static void flavor_write(struct kube *q, struct buf *out, const struct spec_node *n)
{
    const char *name = k8s_name(&q->k, n->name, "");
    struct yaml_out y;

    k8s_object_in(&q->k, &y, out, KUBE_KUEUE_API, "ResourceFlavor", NULL, name, NULL);
    yaml_open(&y, "spec.nodeLabels");
    render_str(q->k.r, &y, K8S_GROUP_LABEL, n->name, &n->name);
    yaml_end(&y);
    k8s_taints(&q->k, &y, "nodeTaints", n);
    yaml_str(&y, "topologyName", name);
    yaml_finish(&y);
}

static void local_queue_write(struct kube *q)
{
    struct buf *out = kube_base(q, "queue.yaml", "The queue that jobs name.");
    struct yaml_out y;

    k8s_object(&q->k, &y, out, KUBE_KUEUE_API, "LocalQueue", q->t->queue, NULL);
    yaml_map_of(&y, "spec", "clusterQueue", cluster_queue(q));
    yaml_finish(&y);
}

/* ---- its configuration ---- */

/* By fabric, not by the prefix of its resources: that may be nvidia.com, as the GPUs' is. */
static void put_excluded(struct kube *q, struct buf *out)
{
    const struct spec *s = q->k.r->spec;

    buf_adds(out, "resources:\n  excludeResourcePrefixes: [rdma/, vpc.amazonaws.com/");
    for (size_t i = 0; i < s->fabric_count; i++) {
        const struct spec_fabric *f = &s->fabrics[i];

        for (size_t j = 0; f->sriov && j < k8s_rail_count(f); j++)
            buf_addf(out, ", %s", k8s_rail_resource(&q->k, f, j));
    }
    if (!counts_cores(s))
        buf_adds(out, ", cpu, memory");
    buf_adds(out, "]\n");
}

/* Kueue gives all pods of a job one flavor, that is, machines of one group. */
static void spans_tell(struct kube *q)
{
    const struct spec *s = q->k.r->spec;

    for (size_t i = 0; i < q->work_count; i++) {
        const struct spec_component *c = q->works[i].c;
        const struct spec_node *n;
        int64_t most = 0;

        if (c->kind != SPEC_COMPONENT_TRAINING && c->kind != SPEC_COMPONENT_BATCH)
            continue;
        for (size_t g = 0; (n = spec_component_group(s, c, g)) != NULL; g++) {
            int64_t room = c->gpus ? n->count * (feasible_gpus(n) / c->gpus) : INT64_MAX;

            most = room > most ? room : most;
        }
        if (c->groups.count > 1 && c->nodes_per_replica * c->replicas > most)
            render_warn(q->k.r, &c->groups,
                        "Make one node group of them, or start it without the queue.",
                        "Kueue gives all pods of '%s' machines of one group, and none of its "
                        "groups has room for %" PRId64,
                        c->name, c->nodes_per_replica * c->replicas);
    }
}

/* As the chart's own, but for the kinds of job (it leaves PyTorchJob out, and would never start
 * one) and for what is not counted. */
static void values_write(struct kube *q)
{
    static const char *const jobs[] = { [KUBE_PYTORCHJOB] = "kubeflow.org/pytorchjob",
                                        [KUBE_TRAINJOB] = "trainer.kubeflow.org/trainjob",
                                        [KUBE_JOBSET] = "jobset.x-k8s.io/jobset" };
    struct buf *out = render_file(q->k.r, "kubernetes/kueue-values.yaml");
    struct buf text = { 0 };
    struct yaml_out y;

    buf_adds(&text, "apiVersion: config.kueue.x-k8s.io/v1beta2\n"
                    "kind: Configuration\n"
                    "health: {healthProbeBindAddress: \":8081\"}\n"
                    "metrics: {bindAddress: \":8443\"}\n"
                    "webhook: {port: 9443}\n"
                    "leaderElection: {leaderElect: true, resourceName: "
                    "c1f6bfd2.kueue.x-k8s.io}\n"
                    "integrations:\n  frameworks: [batch/job");
    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        bool used = false;

        for (size_t j = 0; j < q->work_count; j++)
            used = used || (size_t)q->works[j].kind == i;
        if (used && jobs[i])
            buf_addf(&text, ", %s", jobs[i]);
    }
    buf_adds(&text, "]\n");
    put_excluded(q, &text);
    render_head(q->k.r, out, "#", "Values of Kueue's chart.");
    yaml_begin(&y, out);
    yaml_map(&y, "managerConfig");
    yaml_text(&y, "controllerManagerConfigYaml", buf_str(&text));
    yaml_finish(&y);
    buf_release(&text);
}

void kube_queue_write(struct kube *q)
{
    const struct spec *s = q->k.r->spec;
    struct buf *out = render_file(q->k.r, "kubernetes/cluster/queues.yaml");
    struct yaml_out y;

    spans_tell(q);
    render_head(q->k.r, out, "#",
                "What jobs of the queue may use, group by group, and where its machines are.");
    for (size_t i = 0; i < s->node_count; i++) {
        if (!runs_jobs(&s->nodes[i]))
            continue;
        topology_write(q, out, &s->nodes[i]);
        flavor_write(q, out, &s->nodes[i]);
    }
    k8s_object_in(&q->k, &y, out, KUBE_KUEUE_API, "ClusterQueue", NULL, cluster_queue(q), NULL);
    yaml_open(&y, "spec.namespaceSelector");
    yaml_map_of(&y, "matchLabels", "kubernetes.io/metadata.name", q->k.namespace);
    yaml_end(&y);
    yaml_note(&y, "a job that does not fit does not hold up those behind it");
    yaml_str(&y, "queueingStrategy", "BestEffortFIFO");
    yaml_map(&y, "preemption");
    yaml_note(&y, "by the priority of its pods");
    yaml_str(&y, "withinClusterQueue", "LowerPriority");
    yaml_end(&y);
    resource_groups(q, &y);
    yaml_finish(&y);
    local_queue_write(q);
    values_write(q);
}

/* SPDX-License-Identifier: MIT */
/* hardware_detect: a node as `stoker detect --json` describes it, as a cluster of such nodes.
 *
 * What a machine tells goes before the catalogue: memory the driver leaves, NVLinks that are up,
 * the power limit, adapters with an active port.  Adapters beyond one a GPU are taken for storage
 * (EFA's are many small ones: all count).  Rates that someone measured go before both. */
#include "plan/consts.h"
#include "plan/plan_int.h"

#include "base/str.h"
#include "base/text/json.h"

enum { MBIT_TO_BYTES = 125000, NODE_GPUS_MAX = 1024 };

/* Bytes that can be: 0 for what is not told or absurd. */
static int64_t bytes_at(const struct json *obj, const char *key)
{
    int64_t v = maybe_or(json_int(json_get(obj, key)), 0);

    return v > 0 && v < INT64_C(1) << 50 ? v : 0;
}

/* A GPU that is lost is not planned with. */
static bool gpu_works(const struct json *gpu)
{
    const char *state = json_str(json_get(gpu, "state"));

    return json_str(json_get(gpu, "name")) && (!state || str_eq(state, "ok"));
}

static enum rc read_gpus(const struct json *list, struct plan_cluster *o, struct err *err)
{
    const char *name = NULL;
    int64_t least = INT64_MAX;
    size_t n = 0;
    enum rc rc;

    for (const struct json *g = list ? list->first : NULL; g; g = g->next) {
        const char *product = json_str(json_get(g, "name"));
        int64_t mem = bytes_at(g, "mem_total_bytes") - bytes_at(g, "mem_reserved_bytes");

        if (!gpu_works(g))
            continue;
        if (name && !str_eq(name, product))
            return err_set(err, RC_USAGE, "the GPUs differ: '%s' and '%s'", name, product);
        if (maybe_or(json_bool(json_get(g, "mig")), 0)) {
            err_hint(err, "Plan with --gpu and the whole GPU, or switch MIG off.");
            return err_set(err, RC_USAGE, "GPU %zu is cut into MIG instances", n);
        }
        name = product;
        if (mem > 0 && mem < least)
            least = mem;
        n++;
    }
    if (!n)
        return err_set(err, RC_NODEV, "the machine has no GPU that works");
    if (n > NODE_GPUS_MAX)
        return err_set(err, RC_LIMIT, "more than %d GPUs in a node", NODE_GPUS_MAX);
    rc = plan_gpu_by_product(name, &o->gpu, err);
    if (rc)
        return rc;
    if (least < INT64_MAX)
        o->gpu.mem_bytes = least;
    o->node_gpus = (int64_t)n;
    return RC_OK;
}

/* Links of the GPU that has fewest, at the catalogue's rate a link; a GPU without is on PCIe. */
static void read_links(const struct json *list, struct plan_cluster *o)
{
    int64_t fewest = INT64_MAX, most = 0;

    for (const struct json *g = list->first; g; g = g->next) {
        const struct json *links = json_get(g, "nvlinks");
        int64_t up = 0;

        if (!gpu_works(g))
            continue;
        if (!links || maybe_or(json_int(json_get(g, "nvlinks_total")), 0) < 1)
            return; /* not told, as in most virtual machines: the catalogue's */
        for (const struct json *l = links->first; l; l = l->next)
            up += maybe_or(json_bool(json_get(l, "active")), 0);
        fewest = plan_min(fewest, up);
        most = plan_max(most, maybe_or(json_int(json_get(g, "nvlinks_total")), 0));
    }
    if (most > 0 && fewest < most)
        o->gpu.link_bytes_s *= (double)fewest / (double)most;
}

static void read_power(const struct json *list, struct plan_cluster *o)
{
    double least = o->gpu.power_w;

    for (const struct json *g = list->first; g; g = g->next) {
        double w = json_num(json_get(g, "power_limit_mw"), 0) / 1000;

        least = w > 0 && w < least ? w : least;
    }
    plan_gpu_cap(&o->gpu, least); /* the slowest sets the pace */
}

/* The fastest kind of adapter, at most one a GPU. */
static void read_adapters(const struct json *list, struct plan_cluster *o)
{
    double fastest = 0;
    int64_t count = 0;
    bool efa = false;

    for (const struct json *r = list ? list->first : NULL; r; r = r->next) {
        const struct json *ports = json_get(r, "ports");
        const char *driver = json_str(json_get(r, "driver"));

        if (maybe_or(json_bool(json_get(r, "vf")), 0) && o->node_gpus > 1)
            continue;
        for (const struct json *p = ports ? ports->first : NULL; p; p = p->next) {
            double rate = json_num(json_get(p, "rate_mbps"), 0) * MBIT_TO_BYTES;
            const char *state = json_str(json_get(p, "state"));

            if (!state || !str_eq(state, "ACTIVE") || !(rate > 0) || rate < fastest)
                continue;
            count = rate > fastest ? 1 : count + 1;
            fastest = rate;
            efa = driver && str_eq(driver, "efa");
        }
    }
    if (!count)
        return; /* none is told: the kind's usual */
    o->fabric = efa ? PLAN_FABRIC_EFA : PLAN_FABRIC_RDMA;
    o->net_bytes_s = fastest * (double)(efa ? count : plan_min(count, o->node_gpus));
}

/* A measured rate is what the model takes as reached: the share that its constants would take off
 * is put on. */
static enum rc read_measured(const struct json *m, struct plan_cluster *o, struct err *err)
{
    const struct {
        const char *key;
        double unit;
    } rows[] = { { "bf16_tflops", 1e12 },
                 { "fp8_tflops", 1e12 },
                 { "memory_gb_s", 1e9 },
                 { "nvlink_gb_s", 1e9 },
                 { "network_gb_s", 1e9 } };
    double v[ARRAY_SIZE(rows)], fabric;
    struct plan_gpu *g = &o->gpu;
    struct plan_consts k;
    enum rc rc;

    if (!m)
        return RC_OK;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        v[i] = json_num(json_get(m, rows[i].key), 0) * rows[i].unit;
        if (v[i] < 0 || v[i] > 1e19)
            return err_set(err, RC_USAGE, "measured rate '%s' cannot be", rows[i].key);
    }
    rc = plan_consts_builtin(g, &k, err);
    if (rc)
        return rc;
    fabric = o->fabric == PLAN_FABRIC_EFA ? k.c[PLAN_C_EFA] : 1;
    if (v[0] > 0 && g->bf16_best > 0) { /* against the best anyone measured on the kind */
        g->bf16_flops *= v[0] / g->bf16_best;
        g->fp32_flops *= v[0] / g->bf16_best; /* not measured: as much slower */
        g->bf16_best = v[0];
        g->clock = 0; /* measured under the cap */
    }
    if (v[1] > 0 && g->fp8_best > 0) {
        g->fp8_flops *= v[1] / g->fp8_best;
        g->fp8_best = v[1];
    }
    if (v[2] > 0)
        g->mem_bytes_s = v[2] / k.c[PLAN_C_HBM];
    if (v[3] > 0)
        g->link_bytes_s = v[3] / k.c[PLAN_C_NVL];
    if (v[4] > 0)
        o->net_bytes_s = v[4] / (k.c[PLAN_C_NET] * fabric);
    str_copy(g->note, sizeof(g->note), "rates as measured on the machine");
    return RC_OK;
}

/* Nodes of this size, with one adapter a GPU where nothing else is told. */
static void usual_nodes(int64_t gpus, struct plan_cluster *o)
{
    struct plan_gpu found = o->gpu;
    int64_t node = o->node_gpus;
    double each;

    plan_cluster_usual(&found, gpus ? gpus : node, o);
    each = o->net_bytes_s / (double)o->node_gpus;
    if (found.link_bytes_s > 0)
        o->net_bytes_s = each * (double)node;
    o->node_gpus = node;
    o->machine_gpus = 0;
}

static enum rc read_doc(const struct json *doc, int64_t gpus, struct plan_cluster *o,
                        struct err *err)
{
    const char *schema = json_str(json_get(doc, "schema"));
    const struct json *list = json_get(doc, "gpus");
    enum rc rc;

    if (!schema || !str_starts(schema, "stoker.inventory/")) {
        err_hint(err, "Write it with 'stoker detect --json >machine.json'.");
        return err_set(err, RC_PARSE, "the document is no inventory of a machine");
    }
    rc = read_gpus(list, o, err);
    if (rc)
        return rc;
    if (gpus && gpus > o->node_gpus && gpus % o->node_gpus) {
        int64_t near = (gpus + o->node_gpus / 2) / o->node_gpus * o->node_gpus;

        err_hint(err, "The nearest valid value is %lld.", (long long)near);
        return err_set(err, RC_USAGE, "%lld GPUs are no whole nodes of %lld", (long long)gpus,
                       (long long)o->node_gpus);
    }
    usual_nodes(gpus, o);
    read_links(list, o);
    read_power(list, o);
    read_adapters(json_get(doc, "rdma"), o);
    return read_measured(json_get(doc, "measured"), o, err);
}

enum rc plan_cluster_from_detect(const char *text, size_t len, int64_t gpus,
                                 struct plan_cluster *out, struct err *err)
{
    struct plan_cluster o = { 0 };
    struct arena a = { 0 };
    struct json *doc;
    enum rc rc = json_parse(&a, text, len, &doc, err);

    if (rc == RC_OK)
        rc = read_doc(doc, gpus, &o, err);
    if (rc == RC_OK)
        *out = o;
    arena_release(&a);
    return rc;
}

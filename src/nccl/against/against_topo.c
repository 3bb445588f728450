/* SPDX-License-Identifier: MIT */
/* against_topo: the rows of a topology that NCCL wrote (NCCL_TOPO_DUMP_FILE).
 *
 * It has the GPUs of the job's ranks, the devices of the network in use, where they hang
 * and how fast they are; what is not in it NCCL does not use.  A file of an NVLink
 * domain has the processors of several hosts: those of the first are taken. */
#include "nccl/against/against_int.h"

#include "base/str.h"
#include "hw/topo_xml.h"

struct topo_run {
    struct against *g;
    struct topo_xml xml;
    const char *host; /* host_hash of the first cpu; NULL: the file has none */
    bool rdma;        /* a net of it is an RDMA device */
};

static bool is_ours(const struct topo_run *r, int node)
{
    int cpu = topo_xml_above(&r->xml, node, "cpu");
    const char *host = cpu >= 0 ? topo_xml_get(&r->xml.nodes[cpu], "host_hash") : NULL;

    return str_eq(host, r->host);
}

/* A net that NCCL uses has a number. */
static bool is_used_net(const struct topo_run *r, int node)
{
    const struct topo_xml_node *n = &r->xml.nodes[node];

    return str_eq(n->name, "net") && topo_xml_get(n, "name") && topo_xml_get(n, "dev") &&
           is_ours(r, node);
}

/* The next name of "a+b" into `out`; false at the end. */
static bool next_name(const char **list, char *out, size_t cap)
{
    size_t len = strcspn(*list, "+");

    if (!len || len >= cap)
        return false;
    memcpy(out, *list, len);
    out[len] = '\0';
    *list += len + ((*list)[len] == '+');
    return true;
}

static const char *bdf_lower(struct arena *a, const char *busid)
{
    char *s = arena_strdup(a, busid);

    for (char *p = s; p && *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'F' ? *p - 'A' + 'a' : *p);
    return s;
}

/* The GPU of a <gpu>, by the address of the function it stands in; -1: not known here. */
static int gpu_of_node(const struct topo_run *r, int node, const char **out_bdf)
{
    int pci = topo_xml_above(&r->xml, node, "pci");

    *out_bdf = pci >= 0 ? bdf_lower(r->g->a, topo_xml_get(&r->xml.nodes[pci], "busid")) : NULL;
    return against_gpu_at(r->g->hw, *out_bdf);
}

static const char *number_text(struct arena *a, struct maybe v)
{
    return v.known ? arena_printf(a, "%lld", (long long)v.v) : NULL;
}

/* ---- GPUs ---- */

static void row_links(struct topo_run *r, int node, size_t gpu)
{
    const struct hw_gpu *h = &r->g->hw->gpus[gpu];
    int64_t ours = 0, theirs = 0;

    for (size_t i = 0; i < h->nvlinks_count; i++)
        ours += maybe_is(h->nvlinks[i].active, 1);
    for (size_t i = 0; i < r->xml.count; i++)
        if (r->xml.nodes[i].parent == node && str_eq(r->xml.nodes[i].name, "nvlink"))
            theirs += maybe_or(topo_xml_int(&r->xml.nodes[i], "count"), 0);
    against_add(r->g, "gpu", arena_printf(r->g->a, "%s NVLinks", against_gpu_name(r->g, gpu)),
                h->nvlinks_count || h->nvlinks_total.known
                    ? arena_printf(r->g->a, "%lld", (long long)ours)
                : theirs ? NULL
                         : "0",
                arena_printf(r->g->a, "%lld", (long long)theirs), 0, NULL);
}

static void rows_gpu(struct topo_run *r, int node)
{
    struct arena *a = r->g->a;
    int cpu = topo_xml_above(&r->xml, node, "cpu");
    struct maybe numa = cpu >= 0 ? topo_xml_int(&r->xml.nodes[cpu], "numaid") : maybe_none();
    const char *bdf;
    int gpu = gpu_of_node(r, node, &bdf);

    if (!topo_xml_get(&r->xml.nodes[node], "rank") || !is_ours(r, node))
        return; /* no rank has it */
    if (gpu < 0) {
        against_add(r->g, "gpu", arena_printf(a, "GPU %s", bdf ? bdf : "?"), "not there", "used", 0,
                    "This machine's inventory has no GPU at that address.");
        return;
    }
    against_add(r->g, "gpu", arena_printf(a, "%s (%s)", against_gpu_name(r->g, (size_t)gpu), bdf),
                r->g->c.gpu_used && r->g->c.gpu_used[gpu] ? "used" : "not used", "used", 0,
                r->g->c.gpus_why);
    if (numa.known && numa.v < 0)
        numa = maybe_none(); /* the kernel did not say */
    against_add(r->g, "gpu", arena_printf(a, "%s NUMA node", against_gpu_name(r->g, (size_t)gpu)),
                number_text(a, r->g->hw->gpus[gpu].numa), number_text(a, numa), 0,
                numa.known ? NULL : "The kernel did not tell NCCL the NUMA node.");
    row_links(r, node, (size_t)gpu);
}

/* ---- NICs ---- */

static bool name_is_rdma(const struct topo_run *r, const char *name)
{
    for (size_t i = 0; i < r->g->hw->rdma_count; i++)
        if (against_is_dev(r->g->hw, name, strlen(name), r->g->hw->rdma[i].name))
            return true;
    return false;
}

/* `port` -1: an interface, whose port NCCL writes as 0. */
static int net_of(const struct topo_run *r, const char *dev, int64_t port)
{
    for (size_t i = 0; i < r->xml.count; i++) {
        const struct topo_xml_node *n = &r->xml.nodes[i];
        const char *list;
        char name[TOPO_XML_WORD_MAX];

        if (!is_used_net(r, (int)i))
            continue;
        list = topo_xml_get(n, "name");
        if (port >= 0 && !strchr(list, '+') && maybe_or(topo_xml_int(n, "port"), port) != port)
            continue;
        while (next_name(&list, name, sizeof(name)))
            if (against_is_dev(r->g->hw, name, strlen(name), dev))
                return (int)i;
    }
    return -1;
}

static void row_speed(struct topo_run *r, const struct nccl_port *p, int net)
{
    const struct topo_xml_node *n = &r->xml.nodes[net];
    struct maybe speed = topo_xml_int(n, "speed");

    if (strchr(topo_xml_get(n, "name"), '+'))
        return; /* the sum of several */
    against_add(r->g, "port", arena_printf(r->g->a, "%s:%lld Mb/s", p->dev, (long long)p->port),
                number_text(r->g->a, p->rate_mbps), number_text(r->g->a, speed), 0, NULL);
}

static void row_support(struct topo_run *r, const struct nccl_port *p, int net)
{
    struct maybe gdr = topo_xml_int(&r->xml.nodes[net], "gdr");
    const char *support = r->g->c.gdr_support;

    against_add(r->g, "gdr", arena_printf(r->g->a, "GPUDirect RDMA on %s", p->dev),
                !support                  ? NULL
                : str_eq(support, "none") ? "disabled"
                                          : "enabled",
                !gdr.known ? NULL
                : gdr.v    ? "enabled"
                           : "disabled",
                0, NULL);
}

/* From every GPU of a rank to one device: the distance as the tree has it. */
static void rows_distance(struct topo_run *r, const char *dev, int net)
{
    const char *said = topo_xml_get(&r->xml.nodes[net], "name");
    bool direct = said && against_is_direct(r->g->hw, said, strlen(said));

    for (size_t i = 0; i < r->xml.count; i++) {
        const char *bdf, *ours;
        int gpu;

        if (!str_eq(r->xml.nodes[i].name, "gpu") || !is_ours(r, (int)i))
            continue;
        gpu = gpu_of_node(r, (int)i, &bdf);
        if (gpu < 0)
            continue;
        ours = level_name(level_of_path(level_nic_path(r->g->hw, (size_t)gpu, dev)));
        against_add(r->g, "distance",
                    arena_printf(r->g->a, "%s and %s", against_gpu_name(r->g, (size_t)gpu), dev),
                    direct ? NULL : ours, topo_xml_path(&r->xml, (int)i, net), 0,
                    direct ? AGAINST_DIRECT_WHY : NULL);
    }
}

static void rows_ports(struct topo_run *r)
{
    FOR_EACH(const struct nccl_port, p, r->g->c.ports) {
        int net = net_of(r, p->dev, p->port);

        against_port(r->g, p, net >= 0, 0);
        if (net < 0)
            continue;
        row_speed(r, p, net);
        row_support(r, p, net);
        rows_distance(r, p->dev, net);
    }
}

static void rows_interfaces(struct topo_run *r)
{
    const struct hw_net *nets[FILTER_IFS];
    size_t count = r->rdma ? 0 : iface_data_all(r->g->hw, nets, ARRAY_SIZE(nets));

    for (size_t i = 0; i < count; i++) {
        int net = net_of(r, nets[i]->name, -1);

        against_add(r->g, "interface", nets[i]->name, "used", net >= 0 ? "used" : "not used", 0,
                    NULL);
        if (net >= 0 && nets[i]->bdf)
            rows_distance(r, nets[i]->name, net);
    }
}

/* Names that neither we nor this machine have. */
static void rows_strange(struct topo_run *r)
{
    for (size_t i = 0; i < r->xml.count; i++) {
        const char *list;
        char name[TOPO_XML_WORD_MAX];

        if (!is_used_net(r, (int)i))
            continue;
        list = topo_xml_get(&r->xml.nodes[i], "name");
        while (next_name(&list, name, sizeof(name)))
            if (!name_is_rdma(r, name) && !hw_find_net(r->g->hw, name))
                against_add(r->g, "port", name, "not there", "used", 0,
                            "This machine's inventory has no such device.");
    }
}

static void look_over(struct topo_run *r)
{
    for (size_t i = 0; i < r->xml.count; i++) {
        const struct topo_xml_node *n = &r->xml.nodes[i];

        if (str_eq(n->name, "cpu")) {
            r->host = topo_xml_get(n, "host_hash");
            break;
        }
    }
    for (size_t i = 0; i < r->xml.count; i++) {
        const char *list = is_used_net(r, (int)i) ? topo_xml_get(&r->xml.nodes[i], "name") : "";
        char name[TOPO_XML_WORD_MAX];

        while (next_name(&list, name, sizeof(name)))
            r->rdma = r->rdma || name_is_rdma(r, name);
    }
}

enum rc against_topo_rows(struct against *g, const char *text, size_t len, struct err *err)
{
    struct topo_run r = { .g = g };
    bool nets = false;
    enum rc rc = topo_xml_parse(g->a, text, len, &r.xml, err);

    if (rc)
        return rc;
    if (!str_eq(r.xml.nodes[0].name, "system")) {
        err_hint(err, "Set NCCL_TOPO_DUMP_FILE for the job and give the file that it writes.");
        return err_set(err, RC_PARSE,
                       "not an NCCL topology: the root element is '%s', not 'system'",
                       r.xml.nodes[0].name);
    }
    look_over(&r);
    for (size_t i = 0; i < r.xml.count; i++) {
        nets = nets || is_used_net(&r, (int)i);
        if (str_eq(r.xml.nodes[i].name, "gpu"))
            rows_gpu(&r, (int)i);
    }
    if (!nets)
        return RC_OK; /* a job of one rank need not look at the network */
    against_add(g, "network", "between machines",
                !g->c.net                  ? NULL
                : str_eq(g->c.net, "rdma") ? "IB"
                                           : "Socket",
                r.rdma ? "IB" : "Socket", 0, g->c.net_why);
    rows_ports(&r);
    rows_interfaces(&r);
    rows_strange(&r);
    return RC_OK;
}

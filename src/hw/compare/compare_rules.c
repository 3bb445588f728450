/* SPDX-License-Identifier: MIT */
/* compare_rules: what is no difference between machines though its value differs, and what is one
 * only when several values are taken together. */
#include "base/mem.h"
#include "base/str.h"
#include "hw/compare/compare_int.h"
#include "os/net/address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

enum { CLASS_DISPLAY = 0x03, IDLE_GEN = 1 };

static bool text_starts(const char *s, const char *prefix)
{
    return s && str_starts(s, prefix);
}

/* ---- elements ---- */

static bool net_lasts(const void *element)
{
    static const char *const kinds[] = { "physical", "infiniband", "bond", "vlan" };
    const struct hw_net *n = element;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_eq(n->kind, kinds[i]))
            return true;
    return false;
}

/* Settings, not what a scheduler gave one task. */
static bool env_lasts(const void *element)
{
    static const char *const settings[] = {
        "NCCL_", "TORCH_NCCL_", "UCX_",     "FI_",     "GLOO_",           "NVSHMEM_",  "OMP_",
        "CUDA_", "MKL_",        "PYTORCH_", "CUBLAS_", "LD_LIBRARY_PATH", "LD_PRELOAD"
    };
    static const char *const not_these[] = { "CUDA_VISIBLE_DEVICES", "NCCL_HOSTID",
                                             "NCCL_COMM_ID" };
    const struct hw_env *e = element;

    for (size_t i = 0; i < ARRAY_SIZE(not_these); i++)
        if (str_eq(e->name, not_these[i]))
            return false;
    for (size_t i = 0; e->name && i < ARRAY_SIZE(settings); i++)
        if (str_starts(e->name, settings[i]))
            return true;
    return false;
}

/* Privacy extensions and routers give a machine any number of IPv6 addresses. */
static bool addr_lasts(const void *element)
{
    return str_eq(((const struct hw_addr *)element)->family, "inet");
}

bool hw_compare_element(const char *path, const void *element)
{
    static const struct {
        const char *path;
        bool (*lasts)(const void *element);
    } rules[] = { { "nets", net_lasts }, { "nets.addrs", addr_lasts }, { "place.env", env_lasts } };

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (str_eq(rules[i].path, path))
            return rules[i].lasts(element);
    return true;
}

/* ---- members ---- */

static bool is_gpu(const struct hw_pci *p)
{
    return p->class_.known && p->class_.v >> 16 == CLASS_DISPLAY;
}

/* The port above a device and the device itself are the two ends of one link; the link of a
 * switch's upper side leads up, and no device below tells of it. */
static const struct hw_pci *link_below(const struct hw *hw, const struct hw_pci *p)
{
    if (hw_pci_is_upstream(hw, p))
        return NULL;
    for (size_t i = 0; i < hw->pci_count; i++)
        if (str_eq(hw->pci[i].parent, p->bdf) && hw->pci[i].link_width.known)
            return &hw->pci[i];
    return NULL;
}

/* GPUs tell of their link themselves (gpus.pcie_width), unless the driver said nothing. */
static bool gpu_told(const struct hw *hw, const struct hw_pci *p)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (str_eq(hw->gpus[i].bdf, p->bdf))
            return hw->gpus[i].pcie_width.known;
    return false;
}

static bool pci_link(const struct hw *hw, const void *obj)
{
    const struct hw_pci *p = obj;

    return !link_below(hw, p) && !(is_gpu(p) && gpu_told(hw, p));
}

/* A GPU that idles slows its link down. */
static bool pci_speed(const struct hw *hw, const void *obj)
{
    return pci_link(hw, obj) && !is_gpu(obj);
}

static bool gpu_gen(const struct hw *hw, const void *obj)
{
    (void)hw;
    return !maybe_is(((const struct hw_gpu *)obj)->pcie_gen, IDLE_GEN);
}

/* A local disk may be named by its serial number. */
static bool mount_source(const struct hw *hw, const void *obj)
{
    (void)hw;
    return !text_starts(((const struct hw_mount *)obj)->source, "/dev/");
}

/* "400 Gb/sec (4X NDR)" says more than the number. */
static bool port_rate(const struct hw *hw, const void *obj)
{
    (void)hw;
    return !((const struct hw_rdma_port *)obj)->rate;
}

bool hw_compare_field(const struct hw *hw, const char *path, const void *obj)
{
    static const struct {
        const char *path;
        bool (*counts)(const struct hw *hw, const void *obj);
    } rules[] = {
        { "pci.link_speed", pci_speed },       { "pci.link_width", pci_link },
        { "pci.link_speed_max", pci_link },    { "pci.link_width_max", pci_link },
        { "gpus.pcie_gen", gpu_gen },          { "mounts.source", mount_source },
        { "rdma.ports.rate_mbps", port_rate },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (str_eq(rules[i].path, path))
            return rules[i].counts(hw, obj);
    return true;
}

bool hw_compare_word(const char *name)
{
    static const char *const own[] = { "clientaddr", "root", "BOOT_IMAGE", "resume", "rd.lvm.lv" };

    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (str_eq(own[i], name))
            return false;
    return true;
}

/* ---- GIDs: the address differs, what it is like does not ---- */

static bool gid_is_v4(const struct hw_gid *g)
{
    return text_starts(g->gid, "0000:0000:0000:0000:0000:ffff:");
}

static bool gid_routes(const struct hw_gid *g)
{
    return str_eq(g->type, "RoCE v2") && g->gid && !hw_gid_is_link_local(g->gid);
}

static void port_kinds(const struct hw_rdma_port *p, struct buf *out)
{
    size_t v1 = 0, v2 = 0, v4 = 0, local = 0;

    for (size_t i = 0; i < p->gids_count; i++) {
        v1 += text_starts(p->gids[i].type, "IB");
        v2 += str_eq(p->gids[i].type, "RoCE v2");
        v4 += gid_is_v4(&p->gids[i]);
        local += hw_gid_is_link_local(p->gids[i].gid);
    }
    buf_addf(out, "v1 %zu, v2 %zu, IPv4 %zu, local %zu", v1, v2, v4, local);
}

/* Indexes that can be routed, IPv4 before IPv6. */
static void port_routes(const struct hw_rdma_port *p, struct buf *out)
{
    for (int six = 0; six < 2; six++)
        for (size_t i = 0; i < p->gids_count; i++)
            if (gid_routes(&p->gids[i]) && gid_is_v4(&p->gids[i]) == !six)
                buf_addf(out, "%s%" PRId64 "%s", out->len ? " " : "",
                         maybe_or(p->gids[i].index, -1), six ? " (IPv6)" : "");
    if (!out->len)
        buf_adds(out, "none");
}

/* ---- subnets: addresses differ, which ports share a subnet with whom does not ----
 *
 * The row is the subnet's, its value the ports in it: between machines that share a subnet the
 * same ports are in it, else rails are crossed.  Where every port is in one subnet they are all in
 * it; where each machine has subnets of its own (routed fabrics) no two machines share a row. */

enum { POINT_TO_POINT_BITS = 30, FACT_SUBNETS_MAX = 256, SUBNET_TEXT_MAX = 64 };

bool hw_compare_addr_local(const char *addr)
{
    uint8_t raw[16];

    if (!addr)
        return true;
    if (inet_pton(AF_INET, addr, raw) == 1)
        return (raw[0] == 169 && raw[1] == 254) || address_text_is_loopback(addr);
    if (inet_pton(AF_INET6, addr, raw) == 1)
        return (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80) || address_text_is_loopback(addr);
    return true;
}

/* "10.100.0.0/24"; false: link-local, or a link of two that nobody else is on. */
static bool addr_subnet(const struct hw_addr *a, char *out)
{
    char text[INET6_ADDRSTRLEN];
    bool six = str_eq(a->family, "inet6");
    int64_t size = six ? 128 : 32, bits = maybe_or(a->prefix, -1);
    uint8_t raw[16];

    if (hw_compare_addr_local(a->addr) || inet_pton(six ? AF_INET6 : AF_INET, a->addr, raw) != 1 ||
        bits <= 0 || bits >= size - (32 - POINT_TO_POINT_BITS))
        return false;
    for (int64_t i = bits; i < size; i++)
        raw[i / 8] &= (uint8_t) ~(0x80 >> (i % 8));
    (void)inet_ntop(six ? AF_INET6 : AF_INET, raw, text, sizeof(text));
    (void)snprintf(out, SUBNET_TEXT_MAX, "%s/%" PRId64, text, bits);
    return true;
}

/* The InfiniBand subnet of a port that is up: the upper half of GID 0. */
static bool port_subnet(const struct hw_rdma_port *p, char *out)
{
    if (!str_eq(p->link_layer, "InfiniBand") || !str_eq(p->state, "ACTIVE"))
        return false;
    for (size_t i = 0; i < p->gids_count; i++)
        if (maybe_is(p->gids[i].index, 0) && p->gids[i].gid) {
            (void)snprintf(out, SUBNET_TEXT_MAX, "subnet prefix %.19s", p->gids[i].gid);
            return true;
        }
    return false;
}

struct subnet_fact {
    char subnet[SUBNET_TEXT_MAX];
    struct buf ports;
};
struct subnet_facts {
    struct subnet_fact items[FACT_SUBNETS_MAX];
    size_t count;
};

static void subnet_add(struct subnet_facts *f, const char *subnet, const char *port)
{
    size_t n = 0;
    const char *at;

    while (n < f->count && strcmp(f->items[n].subnet, subnet) != 0)
        n++;
    if (n == ARRAY_SIZE(f->items))
        return;
    if (n == f->count)
        (void)str_copy(f->items[f->count++].subnet, SUBNET_TEXT_MAX, subnet);
    at = strstr(buf_str(&f->items[n].ports), port);
    if (!at || (at[strlen(port)] && at[strlen(port)] != ' ')) /* two addresses of one subnet */
        buf_addf(&f->items[n].ports, "%s%s", f->items[n].ports.len ? " " : "", port);
}

/* The port of `r` that an interface is on, as "mlx5_0" or, of several, "mlx5_0/2". */
static void net_port_name(const struct hw_rdma *r, const struct hw_net *n, struct buf *out)
{
    buf_reset(out);
    buf_adds(out, r->name);
    for (size_t i = 0; r->ports_count > 1 && i < r->ports_count; i++)
        for (size_t k = 0; k < r->ports[i].gids_count; k++)
            if (str_eq(r->ports[i].gids[k].ndev, n->name)) {
                buf_addf(out, "/%" PRId64, maybe_or(r->ports[i].port, 0));
                return;
            }
}

static void device_subnets(const struct hw *hw, const struct hw_rdma *r, struct subnet_facts *f)
{
    char subnet[SUBNET_TEXT_MAX];
    struct buf port = { 0 };

    for (size_t i = 0; i < r->ports_count; i++)
        if (port_subnet(&r->ports[i], subnet)) {
            buf_reset(&port);
            buf_addf(&port, r->ports_count > 1 ? "%s/%" PRId64 : "%s", r->name,
                     maybe_or(r->ports[i].port, 0));
            subnet_add(f, subnet, buf_str(&port));
        }
    FOR_EACH(const struct hw_net, n, hw->nets) {
        if (!str_eq(n->rdma, r->name) || !n->name)
            continue;
        net_port_name(r, n, &port);
        for (size_t k = 0; k < n->addrs_count; k++)
            if (addr_subnet(&n->addrs[k], subnet))
                subnet_add(f, subnet, buf_str(&port));
    }
    buf_release(&port);
}

static void subnet_facts(const struct hw *hw,
                         void (*put)(void *arg, const char *path, const char *item, const char *doc,
                                     const char *text),
                         void *arg)
{
    struct subnet_facts *f = xcalloc(1, sizeof(*f));

    for (size_t i = 0; i < hw->rdma_count && !hw_compare_masked(hw); i++)
        if (hw->rdma[i].name)
            device_subnets(hw, &hw->rdma[i], f);
    for (size_t i = 0; i < f->count; i++) {
        put(arg, "rdma.subnets", f->items[i].subnet,
            "RDMA ports in this subnet; they differ where rails are crossed",
            buf_str(&f->items[i].ports));
        buf_release(&f->items[i].ports);
    }
    free(f);
}

void hw_compare_facts(const struct hw *hw,
                      void (*put)(void *arg, const char *path, const char *item, const char *doc,
                                  const char *text),
                      void *arg)
{
    struct buf text = { 0 }, item = { 0 };

    for (size_t i = 0; i < hw->rdma_count; i++)
        FOR_EACH(const struct hw_rdma_port, p, hw->rdma[i].ports) {
            bool ib = str_eq(p->link_layer, "InfiniBand");

            buf_reset(&item);
            buf_addf(&item, "%s/%" PRId64, hw->rdma[i].name ? hw->rdma[i].name : "-",
                     maybe_or(p->port, 0));
            buf_reset(&text);
            port_kinds(p, &text);
            put(arg, "rdma.ports.gid_kinds", buf_str(&item),
                "GIDs of IB/RoCE v1 and RoCE v2, of them of IPv4 and link-local", buf_str(&text));
            buf_reset(&text);
            port_routes(p, &text);
            if (!ib)
                put(arg, "rdma.ports.gid_routable", buf_str(&item),
                    "indexes of RoCE v2 GIDs that can be routed", buf_str(&text));
        }
    subnet_facts(hw, put, arg);
    buf_release(&text);
    buf_release(&item);
}

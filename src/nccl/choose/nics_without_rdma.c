/* SPDX-License-Identifier: MIT */
/* nics_without_rdma: network adapters without an RDMA device, and what to do about it.
 *
 * NCCL's own code goes by RDMA devices, else by sockets.  A fast adapter has none because it
 * cannot (ena, virtio), because a module that makes one is not loaded (irdma beside ice), or
 * because it is turned off or in another namespace (mlx5 with mlx5_ib there).  Which of these
 * it is tells the driver of its interface; the remedy differs. */
#include "nccl/nccl_int.h"

#include "base/str.h"

enum { NICS_FAST_MBPS = 10000 }; /* slower ones are for something else */

static const struct nic_kind {
    const char *driver; /* the beginning of its name */
    const char *module; /* that makes its RDMA device; NULL: it has none */
    const char *cannot; /* ... and why, or what serves in its place */
} kinds[] = {
    { "mlx5", "mlx5_ib", NULL },
    { "mlx4", "mlx4_ib", NULL },
    { "bnxt_en", "bnxt_re", NULL },
    { "ice", "irdma", NULL },
    { "qede", "qedr", NULL },
    { "hns3", "hns_roce_hw_v2", NULL },
    { "ionic", "ionic_rdma", NULL },
    { "mana", "mana_ib", NULL },
    { "i40e", NULL, "iWARP at best, which NCCL cannot use" },
    { "cxgb4", NULL, "iWARP, which NCCL cannot use" },
    { "ena", NULL, "AWS has EFA for that, a device of its own" },
    { "gve", NULL, "Google's plug-in for NCCL has GPUDirect over it" },
    { "gvnic", NULL, "Google's plug-in for NCCL has GPUDirect over it" }, /* its older name */
    { "cxi", NULL, "libfabric drives it, by the plug-in aws-ofi-nccl with the provider cxi" },
    { "virtio", NULL, "a virtual NIC; the host must pass on a NIC or a virtual function" },
    { "vmxnet3", NULL, "a virtual NIC; the host must pass on a NIC or a virtual function" },
    { "hv_netvsc", NULL, "a virtual NIC; the host must pass on a NIC or a virtual function" },
};

static const struct nic_kind *kind_of(const struct hw_net *n)
{
    for (size_t i = 0; n->driver && i < ARRAY_SIZE(kinds); i++)
        if (str_starts(n->driver, kinds[i].driver))
            return &kinds[i];
    return NULL;
}

static bool net_has_device(const struct hw *hw, const struct hw_net *n)
{
    if (n->rdma)
        return true;
    for (size_t i = 0; i < hw->rdma_count; i++) {
        if (n->bdf && str_eq(hw->rdma[i].bdf, n->bdf))
            return true;
        for (size_t k = 0; k < hw->rdma[i].netdevs_count; k++)
            if (str_eq(hw->rdma[i].netdevs[k], n->name))
                return true;
    }
    return false;
}

/* Another adapter of this driver has an RDMA device. */
static bool driver_has_device(const struct hw *hw, const struct hw_net *n)
{
    for (size_t i = 0; i < hw->nets_count; i++)
        if (str_eq(hw->nets[i].driver, n->driver) && net_has_device(hw, &hw->nets[i]))
            return true;
    return false;
}

/* A part of a bond of one card has no device of its own: the bond has. */
static bool net_is_member(const struct hw *hw, const struct hw_net *n)
{
    const struct hw_net *master = n->master ? hw_find_net(hw, n->master) : NULL;

    return master && net_has_device(hw, master);
}

/* Fast, of a PCI function, and without an RDMA device; beside RDMA ports only what is like
 * another that has one. */
static bool net_is_bare(const struct hw *hw, const struct hw_net *n)
{
    const struct nic_kind *k = kind_of(n);

    if (!n->name || !n->driver || !(n->bdf || str_starts(n->driver, "hv_")) ||
        net_has_device(hw, n) || net_is_member(hw, n) || maybe_is(n->running, 0))
        return false;
    if (hw->rdma_count)
        return k && k->module && driver_has_device(hw, n);
    return maybe_or(n->speed_mbps, k ? NICS_FAST_MBPS : 0) >= NICS_FAST_MBPS;
}

/* "ens1, ens2 (ice, 100 Gb/s)": the bare ones of this driver. */
static const char *driver_names(struct nccl_run *s, const char *driver)
{
    struct maybe most = maybe_none();
    struct buf b = { 0 };

    FOR_EACH(const struct hw_net, n, s->hw->nets) {
        if (!str_eq(n->driver, driver) || !net_is_bare(s->hw, n))
            continue;
        buf_addf(&b, "%s%s", b.len ? ", " : "", n->name);
        if (n->speed_mbps.known && n->speed_mbps.v > maybe_or(most, 0))
            most = n->speed_mbps;
    }
    buf_addf(&b, " (%s%s%s)", driver, most.known ? ", " : "",
             most.known ? nccl_rate_text(s->a, most) : "");
    return nccl_text(s->a, &b);
}

static const char *module_remedy(struct nccl_run *s, const struct nic_kind *k)
{
    if (s->hw->place.container)
        return arena_printf(s->a,
                            "Give the container the RDMA device (the RDMA resource of the device "
                            "plug-in, --device=/dev/infiniband); where the host has none either, "
                            "load %s there.",
                            k->module);
    return arena_printf(s->a,
                        "Load %s (`modprobe %s`); where it is loaded, `dmesg` and the card's "
                        "firmware settings tell why it made no device.",
                        k->module, k->module);
}

static bool driver_is_first(const struct hw *hw, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_eq(hw->nets[i].driver, hw->nets[at].driver) && net_is_bare(hw, &hw->nets[i]))
            return false;
    return true;
}

void nics_without_rdma_choose(struct nccl_run *s)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < s->hw->nets_count; i++) {
        const struct hw_net *n = &s->hw->nets[i];
        const struct nic_kind *k = kind_of(n);

        if (!net_is_bare(s->hw, n) || !driver_is_first(s->hw, i))
            continue;
        buf_addf(&b, "%s%s", b.len ? "  " : "", driver_names(s, n->driver));
        if (k && k->module) {
            buf_addf(&b, " could do RDMA, but there is no RDMA device, which the module %s makes.",
                     k->module);
            s->c->bare_remedy = s->c->bare_remedy ? s->c->bare_remedy : module_remedy(s, k);
        } else {
            buf_addf(&b, " cannot do RDMA: %s.",
                     k ? k->cannot : "no kernel module makes a device for it");
        }
    }
    s->c->bare_why = b.len ? nccl_text(s->a, &b) : NULL;
}

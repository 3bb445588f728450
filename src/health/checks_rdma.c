/* SPDX-License-Identifier: MIT */
/* checks_rdma: will GPUs of several nodes reach each other at full speed?
 *
 * In the order in which one debugs it: devices, their nodes in /dev, ports, addresses,
 * limits, then the path between NIC and GPU inside the machine.  Ports of AWS EFA have
 * neither GIDs of the RoCE kind nor a subnet manager and are left out of those checks. */
#include "base/str.h"
#include "base/text/units.h"
#include "health/health_int.h"
#include "nccl/nccl.h"

/* ---- thresholds ---- */
enum {
    /* RoCE has packets of 256 to 4096 bytes of data, and headers of 96 (the kernel's
     * iboe_get_mtu()): an Ethernet MTU above their sum gives RoCE no larger ones. */
    RDMA_ROCE_DATA_MAX = 4096,
    RDMA_ROCE_DATA_MIN = 256,
    RDMA_ROCE_HEADERS = 96,
    RDMA_ROCE_MTU = RDMA_ROCE_DATA_MAX + RDMA_ROCE_HEADERS
};

/* ConnectX-7 firmware whose rate mask sends a 400 Gb/s port up at 100 (seen in the
 * field as 54 instead of 194 GB/s over four NICs). */
static const char *const bad_firmware[] = { "28.37.1014" };

/* What the fastest card of a chip does.  Slower cards exist, so only reaching it says
 * something when there is no second card to compare with. */
static const struct {
    const char *hca;
    int64_t mbps;
} chips[] = {
    { "MT4115", 100000 }, { "MT4119", 100000 }, { "MT4121", 100000 },  { "MT4123", 200000 },
    { "MT4125", 100000 }, { "MT4129", 400000 }, { "MT41692", 400000 }, { "MT4131", 800000 },
};

/* EFA devices by AWS instance type. */
static const struct {
    const char *prefix;
    size_t count;
} efa_counts[] = {
    { "p4d.24xlarge", 4 },  { "p4de.24xlarge", 4 },  { "p5.48xlarge", 32 },
    { "p5e.48xlarge", 32 }, { "p5en.48xlarge", 16 }, { "p6-b200.48xlarge", 8 },
};

static bool all_efa(const struct hw *hw)
{
    for (size_t i = 0; i < hw->rdma_count; i++)
        if (!facts_is_efa(&hw->rdma[i]))
            return false;
    return hw->rdma_count > 0;
}

/* ---- devices ---- */
/* A fabric that goes by a plug-in of NCCL and has no RDMA device of the kernel's. */
static const char *plugin_fabric(const struct hw *hw)
{
    size_t gvnics = 0;

    for (size_t i = 0; i < hw->nets_count; i++) {
        if (hw->nets[i].driver && str_starts(hw->nets[i].driver, "cxi"))
            return "HPE Slingshot";
        gvnics += hw_net_is_gvnic(&hw->nets[i]);
    }
    return gvnics > 2 ? "gVNIC" : NULL;
}

/* A fault only for who asked for RDMA. */
static void rdma_no_device(const struct hw *hw, struct check_out *o)
{
    const char *fabric = plugin_fabric(hw), *why = o->nccl->bare_why;
    bool plugin = facts_net_plugin(hw);

    if ((o->groups & CHECK_ALL) == CHECK_ALL && !o->nccl->bare_remedy)
        check_skip(o, "%s", facts_rdma_none(hw));
    else if (fabric && plugin)
        check_skip(o, "%s has no RDMA device: NCCL reaches it by the net plug-in, which is here",
                   fabric);
    else if (plugin && !o->nccl->bare_remedy)
        check_unknown(o, "Run once with NCCL_DEBUG=INFO and read which network NCCL names.",
                      "no RDMA device, but a net plug-in of NCCL: whether it needs one is its own "
                      "affair");
    else if (fabric)
        check_warn(o, "Install the fabric's plug-in for NCCL; sockets carry the data without.",
                   "%s has no RDMA device, and no net plug-in of NCCL was found", fabric);
    else if ((o->groups & CHECK_ALL) == CHECK_ALL)
        check_warn(o, o->nccl->bare_remedy, "%s", why);
    else
        check_fail(o,
                   o->nccl->bare_remedy
                       ? o->nccl->bare_remedy
                       : "Without an RDMA NIC nothing: NCCL uses TCP. With one, load its driver "
                         "(mlx5_ib, bnxt_re, irdma, efa); in a pod, ask for the RDMA resource of "
                         "the device plug-in.",
                   "no device in /sys/class/infiniband%s%s", why ? "; " : "", why ? why : "");
}

static void rdma_devices(const struct hw *hw, struct check_out *o)
{
    size_t ours = facts_rdma_ours_count(hw);

    for (size_t i = 0; i < hw->rdma_count; i++) {
        if (!facts_rdma_ours(hw, &hw->rdma[i]))
            continue;
        o->object = hw->rdma[i].name;
        if (ours == hw->rdma_count)
            check_pass(o, "%zu device%s", ours, ours == 1 ? "" : "s");
        else
            check_pass(o, "%zu device%s; %zu more of the host belong to others", ours,
                       ours == 1 ? "" : "s", hw->rdma_count - ours);
    }
    o->object = NULL;
    if (hw->rdma_count && o->nccl->bare_why)
        check_warn(o, o->nccl->bare_remedy, "%s", o->nccl->bare_why);
    if (hw->rdma_count == 0)
        rdma_no_device(hw, o);
    else if (ours == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
}

/* What is set, or a file that NCCL reads, ends every job before it begins. */
static void rdma_start(const struct hw *hw, struct check_out *o)
{
    const struct nccl_choice *c = o->nccl;

    if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else if (c->stop_why)
        check_fail(o,
                   c->stop_var ? check_text(o, "Unset %s, or correct it.", c->stop_var)
                               : "Mend the file, or move it away.",
                   "%s", c->stop_why);
    else
        check_pass(o, "neither a variable nor a file of NCCL's stops it");
}

static void rdma_uverbs(const struct hw *hw, struct check_out *o)
{
    struct maybe n = hw->limits.uverbs;
    static const char remedy[] =
        "On a host load ib_uverbs; give a container the nodes (--device=/dev/infiniband, or the "
        "RDMA resource of the device plug-in in a pod).";

    if (hw->rdma_count == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
    else if (!n.known)
        check_unknown(o, NULL, "/dev/infiniband could not be read");
    else if (n.v == 0)
        check_fail(o, remedy, "no uverbs node in /dev/infiniband for %zu devices", hw->rdma_count);
    else if ((size_t)n.v >= facts_rdma_ours_count(hw))
        check_pass(o, "%lld node%s in /dev/infiniband", (long long)n.v, n.v == 1 ? "" : "s");
    else if (facts_in_container(hw))
        check_pass(o, "%lld nodes in /dev/infiniband; sysfs shows %zu devices of the host",
                   (long long)n.v, hw->rdma_count);
    else
        check_warn(o, remedy, "%lld nodes in /dev/infiniband for %zu devices", (long long)n.v,
                   hw->rdma_count);
}

static void rdma_verbs(const struct hw *hw, struct check_out *o)
{
    const struct hw_soft *s = facts_soft(hw, "rdma-core");
    const struct hw_rdma *bare = NULL;

    for (size_t i = 0; i < hw->rdma_count && !bare; i++)
        if (facts_rdma_ours(hw, &hw->rdma[i]) && hw_verbs_lacks(hw, &hw->rdma[i]))
            bare = &hw->rdma[i];
    if (hw->rdma_count == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
    else if (bare)
        check_warn(o,
                   "Install the providers (Debian: ibverbs-providers) where the job runs: "
                   "libibverbs leaves such devices out, and NCCL uses TCP.",
                   "libibverbs has no provider for %s (lib%s-rdmav….so)", bare->name,
                   hw_verbs_lacks(hw, bare));
    else if (s)
        check_pass(o, "rdma-core %s", s->version ? s->version : "found");
    else
        check_warn(o,
                   "Install rdma-core (Debian: libibverbs1 and ibverbs-providers) where the job "
                   "runs: NCCL loads libibverbs.so.1 at run time.",
                   "libibverbs was not found");
}

static void rdma_efa(const struct hw *hw, struct check_out *o)
{
    const char *product = hw->place.product;
    bool plugin = facts_net_plugin(hw);
    size_t have = 0, want = 0;

    for (size_t i = 0; i < hw->rdma_count; i++)
        have += facts_is_efa(&hw->rdma[i]);
    for (size_t i = 0; product && i < ARRAY_SIZE(efa_counts); i++)
        if (str_eq(product, efa_counts[i].prefix))
            want = efa_counts[i].count;
    if (have == 0 && want == 0)
        check_skip(o, "no AWS EFA here");
    else if (have < want)
        check_fail(o,
                   "Launch the instance with all its EFA interfaces; in a pod, ask for "
                   "vpc.amazonaws.com/efa.",
                   "%zu EFA devices, a %s has %zu", have, product, want);
    else if (str_eq(o->nccl->net, "fails") || (str_eq(o->nccl->net, "tcp") && plugin))
        check_fail(o, "Unset the variable.", "%zu EFA devices stay unused: %s", have,
                   o->nccl->net_why);
    else if (!plugin)
        check_warn(o,
                   "Install aws-ofi-nccl where the job runs: NCCL speaks to EFA through it alone, "
                   "and uses TCP without.",
                   "%zu EFA devices, but no libnccl-net.so was found", have);
    else if (!str_eq(o->nccl->net, "efa"))
        check_fail(o, "Unset NCCL_NET and NCCL_NET_PLUGIN.", "EFA is not used: %s",
                   o->nccl->net_why);
    else
        check_pass(o,
                   "%zu EFA device%s; leave the NCCL_IB_* variables unset, the aws-ofi-nccl "
                   "plug-in does this",
                   have, have == 1 ? "" : "s");
}

static bool device_active(const struct hw_rdma *d)
{
    for (size_t i = 0; i < d->ports_count; i++)
        if (facts_port_active(&d->ports[i]))
            return true;
    return false;
}

/* ---- ports ---- */
static bool port_is_managed(const struct hw_rdma_port *p)
{
    return facts_port_ib(p) && facts_port_active(p) && maybe_or(p->sm_lid, 0) > 0;
}

/* A second manager on a fabric that has one may take over and route it anew. */
static const char *manager_remedy(const struct hw *hw)
{
    for (size_t i = 0; i < hw->rdma_count; i++)
        for (size_t k = 0; k < hw->rdma[i].ports_count; k++)
            if (port_is_managed(&hw->rdma[i].ports[k]))
                return "Other ports here have a subnet manager: look at this port's cable and "
                       "switch port, and at the manager's log for its GUID.  Start one only if "
                       "the port is on a fabric of its own.";
    return "Start a subnet manager on the fabric (a switch's, or opensm on one node).";
}

static void rdma_port_state(const struct hw *hw, const struct hw_rdma *d,
                            const struct hw_rdma_port *p, struct check_out *o)
{
    const char *phys = p->phys_state ? p->phys_state : "unknown";

    if (!p->state)
        check_unknown(o, NULL, "the port's state could not be read");
    else if (facts_port_active(p) && (!p->phys_state || str_eq(phys, "LinkUp")))
        check_pass(o, "ACTIVE%s%s", p->phys_state ? ", " : "", p->phys_state ? phys : "");
    else if (facts_port_active(p))
        check_warn(o, "Look at the cable and the switch port.", "ACTIVE, but %s", phys);
    else if (str_eq(p->state, "INIT") && facts_port_ib(p))
        check_fail(o, manager_remedy(hw),
                   "INIT, %s: the link is up, no subnet manager has configured it", phys);
    else if (device_active(d))
        check_warn(o, "Nothing to do if the second port of the card is not cabled on purpose.",
                   "%s, %s, while another port of the card is active", p->state, phys);
    else if (hw_rdma_is_spare(hw, d, p))
        check_warn(o, "Nothing to do if this port of the card is not cabled on purpose.",
                   "%s, %s, without an address, while another port of the card is active", p->state,
                   phys);
    else
        check_fail(o,
                   "Look at the cable, the transceiver and the switch port; for RoCE bring the "
                   "network device up (`ip link set DEV up`). NCCL leaves the port out.",
                   "%s, %s", p->state, phys);
}

static bool port_wanted(const struct check_out *o, const struct hw_rdma *d,
                        const struct hw_rdma_port *p)
{
    const struct nccl_port *n = check_nccl_port(o, d, p);

    return n && n->wanted;
}

static bool any_wanted(const struct nccl_choice *c)
{
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted)
            return true;
    return false;
}

/* Its network device is part of another: a bond, or the virtual NIC of a cloud's guest. */
static const struct hw_net *port_member(const struct hw *hw, const struct hw_rdma *d)
{
    for (size_t i = 0; i < d->netdevs_count; i++) {
        const struct hw_net *n = hw_find_net(hw, d->netdevs[i]);

        if (n && n->master)
            return n;
    }
    return NULL;
}

static bool layer_wanted(const struct nccl_choice *c, const char *layer)
{
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted && str_eq(c->ports[i].link_layer, layer))
            return true;
    return false;
}

/* Some wanted port is of the device's model. */
static bool model_wanted(const struct hw *hw, const struct check_out *o, const struct hw_rdma *d)
{
    for (size_t i = 0; i < o->nccl->ports_count; i++) {
        const struct hw_rdma *e = hw_find_rdma(hw, o->nccl->ports[i].dev);

        if (o->nccl->ports[i].wanted && e && (!d->hca || str_eq(e->hca, d->hca)))
            return true;
    }
    return false;
}

/* NCCL would take it, and others are wanted in its stead for what it is, not for what it lacks. */
static bool port_is_spared(const struct hw *hw, const struct check_out *o, const struct hw_rdma *d,
                           const struct hw_rdma_port *p)
{
    const struct nccl_port *n = check_nccl_port(o, d, p);

    return n && n->takes && !n->wanted && any_wanted(o->nccl) &&
           (n->storage || n->frontend || !layer_wanted(o->nccl, p->link_layer) ||
            !model_wanted(hw, o, d) || port_member(hw, d));
}

/* The highest rate of active ports on the same chip and link layer, and how many; those of
 * the training fabric and the others each among themselves. */
static int64_t best_rate(const struct hw *hw, const struct hw_rdma *d, const struct hw_rdma_port *p,
                         const struct check_out *o, size_t *out_ports)
{
    int64_t best = 0;

    *out_ports = 0;
    FOR_EACH(const struct hw_rdma, e, hw->rdma) {
        FOR_EACH(const struct hw_rdma_port, q, e->ports) {
            if (!str_eq(e->hca, d->hca) || !str_eq(q->link_layer, p->link_layer) ||
                !facts_port_active(q) || !q->rate_mbps.known ||
                port_wanted(o, e, q) != port_wanted(o, d, p))
                continue;
            ++*out_ports;
            best = q->rate_mbps.v > best ? q->rate_mbps.v : best;
        }
    }
    return best;
}

static int64_t chip_rate(const char *hca)
{
    for (size_t i = 0; i < ARRAY_SIZE(chips); i++)
        if (str_eq(hca, chips[i].hca))
            return chips[i].mbps;
    return 0;
}

static void rdma_rate(const struct hw *hw, const struct hw_rdma *d, const struct hw_rdma_port *p,
                      struct check_out *o)
{
    long long now = (long long)(p->rate_mbps.v / 1000);
    size_t ports = 0;
    int64_t best = best_rate(hw, d, p, o, &ports);

    if (!facts_port_active(p))
        check_skip(o, "the port is not active");
    else if (!p->rate_mbps.known)
        check_unknown(o, NULL, "the port's rate could not be read");
    else if (p->rate_mbps.v < best)
        check_warn(o,
                   "Look at the cable, its transceiver and the switch port's speed; `mlxlink -d "
                   "DEVICE` tells why the link trained lower.",
                   "%lld Gb/s, other ports of this kind run at %lld Gb/s", now,
                   (long long)(best / 1000));
    else if (ports > 1)
        check_pass(o, "%lld Gb/s, the most of its kind", now);
    else if (chip_rate(d->hca) && p->rate_mbps.v >= chip_rate(d->hca))
        check_pass(o, "%lld Gb/s, the most this chip does", now);
    else
        check_unknown(o, "Compare with the card's data sheet.",
                      "%lld Gb/s, and no second port of its kind to compare with", now);
}

static void rdma_subnet_manager(const struct hw *hw, const struct hw_rdma *d,
                                const struct hw_rdma_port *p, struct check_out *o)
{
    (void)d;
    if (!facts_port_ib(p))
        check_skip(o, "not an InfiniBand port");
    else if (str_eq(p->state, "DOWN"))
        check_skip(o, "the port is down");
    else if (!p->sm_lid.known || !p->lid.known)
        check_unknown(o, NULL, "the port's LIDs could not be read");
    else if (p->sm_lid.v == 0)
        check_fail(o, manager_remedy(hw), "no subnet manager (sm_lid 0)");
    else if (p->lid.v == 0 || p->lid.v == 0xffff)
        check_fail(o, "Look at the subnet manager's log for this port's GUID.",
                   "the subnet manager gave the port no LID");
    else
        check_pass(o, "a subnet manager gave it a LID");
}

/* ---- addresses ---- */
static bool gid_usable(const struct hw_gid *g)
{
    return str_eq(g->type, "RoCE v2") && g->ndev && !hw_gid_is_link_local(g->gid);
}

/* What the best GID of a RoCE port lacks, most useful first. */
struct gid_view {
    size_t usable, v2, v2_here;
    const struct hw_gid *first; /* first usable one */
};

static struct gid_view gid_look(const struct hw_rdma_port *p)
{
    struct gid_view v = { 0 };

    FOR_EACH(const struct hw_gid, g, p->gids) {
        v.v2 += str_eq(g->type, "RoCE v2");
        v.v2_here += str_eq(g->type, "RoCE v2") && g->ndev;
        if (gid_usable(g) && v.usable++ == 0)
            v.first = g;
    }
    return v;
}

/* What mends the address that NCCL ends on, by the names and values that --env has. */
static const char *gid_remedy(const struct hw *hw, struct check_out *o)
{
    static const char *const vars[] = { "NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_RANGE",
                                        "NCCL_IB_ADDR_FAMILY" };
    const char *range = hw_env_get(hw, "NCCL_IB_ADDR_RANGE"), *text = NULL;
    struct nccl_env env;

    nccl_env_make(hw, NULL, &env);
    for (size_t i = 0; !text && i < ARRAY_SIZE(vars); i++) {
        const struct nccl_var *v = nccl_env_find(&env, vars[i]);

        if (v && v->kind == NCCL_REQUIRED)
            text = check_text(o, "Set %s=%s, as `stoker detect --env` does.", v->name, v->value);
    }
    if (!text && range && *range && o->nccl->gid_offer)
        text = check_text(o, "Unset NCCL_IB_ADDR_RANGE=%s, or set it to %s.", range,
                          o->nccl->gid_offer);
    for (size_t i = 0; !text && i < ARRAY_SIZE(vars); i++) {
        const struct nccl_var *v = nccl_env_find(&env, vars[i]);

        if (v && v->kind == NCCL_USER)
            text = check_text(o, "Unset %s=%s, and set what `stoker detect --env` prints then.",
                              v->name, v->value);
    }
    nccl_env_release(&env);
    return text ? text
                : "Give each port its addresses in the same order: no variable mends it.  --why "
                  "NCCL_IB_GID_INDEX says more.";
}

static void rdma_gid_unusable(const struct hw *hw, const struct nccl_port *n,
                              const struct gid_view *v, struct check_out *o)
{
    const char *range = hw_env_get(hw, "NCCL_IB_ADDR_RANGE");
    long long at = (long long)maybe_or(n->gid_index, -1);
    bool local = hw_gid_is_link_local(n->gid) || !str_eq(n->gid_type, "RoCE v2");

    if (!n->gid_here)
        check_fail(o, gid_remedy(hw, o),
                   "NCCL's search ends at index %lld, which is of no network device here: "
                   "connections fail",
                   at);
    else if (!local && o->nccl->gid_nets_why)
        check_warn(o, gid_remedy(hw, o), "NCCL's search ends at index %lld, on %s", at,
                   o->nccl->gid_stores ? "a network that file systems are mounted over"
                                       : "another network than other ports");
    else
        check_warn(o, gid_remedy(hw, o),
                   "a RoCE v2 GID is at index %lld, but NCCL takes index %lld%s%s",
                   (long long)maybe_or(v->first->index, -1), at,
                   o->nccl->gid_offer ? ": none is in NCCL_IB_ADDR_RANGE=" : "",
                   o->nccl->gid_offer ? range : "");
}

/* No address of it can be routed. */
static void rdma_gid_local(struct check_out *o, const struct nccl_port *n)
{
    if (n && n->bare)
        check_warn(o,
                   "Give its network device an address as the others of its kind have: machines "
                   "that are well train over it.",
                   "only link-local RoCE v2 GIDs, where the others of its kind have an address");
    else if (n && n->takes && !n->wanted && any_wanted(o->nccl))
        check_warn(o,
                   "Nothing to do unless the port is for training: `stoker detect --env` leaves it "
                   "out.  If it is, give its network device an address as the others have.",
                   "only link-local RoCE v2 GIDs");
    else
        check_warn(o,
                   "Give the network device an IPv4 or a routable IPv6 address; a link-local GID "
                   "reaches only its own subnet.",
                   "only link-local RoCE v2 GIDs");
}

static void rdma_gid_roce(const struct hw *hw, const struct hw_rdma *d,
                          const struct hw_rdma_port *p, struct check_out *o)
{
    const struct nccl_port *n = check_nccl_port(o, d, p);
    struct gid_view v = gid_look(p);
    bool judged = n && n->wanted && n->picked; /* else where NCCL's search ends does not matter */

    if (v.first && judged && !n->gid_ok)
        rdma_gid_unusable(hw, n, &v, o);
    else if (v.first && n && n->takes && !n->wanted)
        check_pass(o,
                   "RoCE v2 GID at index %lld on a network device of this namespace; `stoker "
                   "detect --env` leaves the port out",
                   (long long)maybe_or(v.first->index, -1));
    else if (v.first)
        check_pass(o, "RoCE v2 GID at index %lld on a network device of this namespace",
                   (long long)maybe_or(judged ? n->gid_index : v.first->index, -1));
    else if (v.v2_here)
        rdma_gid_local(o, n);
    else if (v.v2 && facts_in_container(hw))
        check_fail(o,
                   "Attach the NIC's network device to this pod (Multus, SR-IOV) or use host "
                   "networking: the GIDs belong to devices outside of this network namespace.",
                   "RoCE v2 GIDs, none with a network device here");
    else if (v.v2)
        check_fail(o, "Bring the NIC's network device up and give it an address.",
                   "RoCE v2 GIDs without a network device");
    else if (p->gids_count)
        check_fail(o, "Switch RoCE v2 on (`cma_roce_mode`, or the NIC's firmware setting).",
                   "no RoCE v2 GID, version 1 is not routable");
    else
        check_fail(o, "Give the NIC's network device an address: GIDs are made from addresses.",
                   "no GID at all");
}

static void rdma_gid(const struct hw *hw, const struct hw_rdma *d, const struct hw_rdma_port *p,
                     struct check_out *o)
{
    if (facts_is_efa(d))
        check_skip(o, "AWS EFA has addresses of its own");
    else if (!facts_port_active(p))
        check_skip(o, "the port is not active");
    else if (str_eq(d->node_type, "RNIC"))
        check_skip(o, "iWARP, which NCCL cannot use");
    else if (!p->link_layer)
        check_unknown(o, NULL, "the port's link layer could not be read");
    else if (port_is_spared(hw, o, d, p) && !gid_look(p).first)
        check_skip(o, "not a port for training: `stoker detect --env` leaves it out");
    else if (!facts_port_ib(p))
        rdma_gid_roce(hw, d, p, o);
    else if (p->gids_count)
        check_pass(o, "InfiniBand GID set");
    else
        check_fail(o, "Look at the subnet manager: it gives a port its GID.", "no GID");
}

static int64_t roce_data_bytes(int64_t mtu)
{
    int64_t bytes = RDMA_ROCE_DATA_MAX;

    while (bytes > RDMA_ROCE_DATA_MIN && bytes + RDMA_ROCE_HEADERS > mtu)
        bytes /= 2;
    return bytes;
}

static void rdma_mtu(const struct hw *hw, const struct hw_rdma *d, const struct hw_rdma_port *p,
                     struct check_out *o)
{
    const struct nccl_port *nccl = check_nccl_port(o, d, p);
    struct gid_view v = gid_look(p);
    const char *ndev = nccl && nccl->gid_ok && nccl->gid_ndev ? nccl->gid_ndev
                       : v.first                              ? v.first->ndev
                       : d->netdevs_count                     ? d->netdevs[0]
                                                              : NULL;
    const struct hw_net *n = ndev ? hw_find_net(hw, ndev) : NULL;

    if (facts_is_efa(d) || facts_port_ib(p) || str_eq(d->node_type, "RNIC"))
        check_skip(o, "not a RoCE port");
    else if (n && n->mtu.known && n->mtu.v >= RDMA_ROCE_MTU)
        check_pass(o, "MTU %lld", (long long)n->mtu.v);
    else if (port_is_spared(hw, o, d, p))
        check_skip(o, "not a port for training: `stoker detect --env` leaves it out");
    else if (!n)
        check_unknown(o, NULL, "no network device of it in this namespace");
    else if (!n->mtu.known)
        check_unknown(o, NULL, "the MTU of %s could not be read", n->name);
    else
        check_warn(o,
                   check_text(o,
                              "Set MTU 9000 on the device (`ip link set DEV mtu 9000`, or mtu in "
                              "the network attachment) and on every switch port of the fabric; %d "
                              "is enough.",
                              RDMA_ROCE_MTU),
                   "MTU %lld: packets of RoCE carry %lld bytes of data, %d from MTU %d on",
                   (long long)n->mtu.v, (long long)roce_data_bytes(n->mtu.v), RDMA_ROCE_DATA_MAX,
                   RDMA_ROCE_MTU);
}

/* ---- firmware ---- */
static bool firmware_is_bad(const char *fw)
{
    for (size_t i = 0; i < ARRAY_SIZE(bad_firmware); i++)
        if (fw && str_starts(fw, bad_firmware[i]))
            return true;
    return false;
}

/* The first device of the same chip and board. */
static const struct hw_rdma *first_alike(const struct hw *hw, const struct hw_rdma *d)
{
    for (size_t i = 0; i < hw->rdma_count; i++)
        if (str_eq(hw->rdma[i].hca, d->hca) && str_eq(hw->rdma[i].board, d->board) &&
            facts_rdma_ours(hw, &hw->rdma[i]))
            return &hw->rdma[i];
    return d;
}

static void rdma_firmware(const struct hw *hw, struct check_out *o)
{
    if (facts_rdma_ours_count(hw) == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
    for (size_t i = 0; i < hw->rdma_count; i++) {
        const struct hw_rdma *d = &hw->rdma[i], *e = first_alike(hw, d);

        if (!facts_rdma_ours(hw, d))
            continue;
        o->object = d->name;
        if (!d->firmware)
            check_unknown(o, NULL, "the firmware version could not be read");
        else if (firmware_is_bad(d->firmware))
            check_warn(o, "Update the firmware (`mlxfwmanager`) on all nodes to one version.",
                       "firmware %s can bring a 400 Gb/s port up at 100", d->firmware);
        else if (e->firmware && !str_eq(d->firmware, e->firmware))
            check_warn(o,
                       "Bring all cards of one model, on all nodes, to one firmware "
                       "(`mlxfwmanager`).",
                       "firmware %s, %s of the same model has %s", d->firmware, e->name,
                       e->firmware);
        else
            check_pass(o, "firmware %s", d->firmware);
    }
    o->object = NULL;
}

/* ---- limits ---- */
static const char *memlock_remedy(const struct hw *hw)
{
    if (hw->place.k8s_pod || str_eq(hw->place.container, "kubernetes") ||
        str_eq(hw->place.container, "crio"))
        return "Let the pod lock memory: capability IPC_LOCK (OpenShift: through its SCC), and "
               "LimitMEMLOCK=infinity in the runtime's unit on the node; CRI-O ignores an "
               "annotation for it.";
    if (facts_in_container(hw))
        return "Start the container with --ulimit memlock=-1 (and --cap-add IPC_LOCK).";
    if (hw->place.slurm_job)
        return "Put LimitMEMLOCK=infinity into slurmd's unit and "
               "PropagateResourceLimitsExcept=MEMLOCK into slurm.conf.";
    return "Put '* - memlock unlimited' into /etc/security/limits.d/rdma.conf and log in again; "
           "a service wants LimitMEMLOCK=infinity in its unit.";
}

static const char *limit_text(struct maybe v, char out[UNITS_TEXT_MAX])
{
    if (!v.known)
        return "unknown";
    return v.v < 0 ? "unlimited" : units_bytes_exact((uint64_t)v.v, out);
}

static void rdma_memlock(const struct hw *hw, struct check_out *o)
{
    const struct hw_limits *l = &hw->limits;
    char soft[UNITS_TEXT_MAX], hard[UNITS_TEXT_MAX];

    if (hw->rdma_count == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
    else if (!l->memlock_bytes.known)
        check_unknown(o, NULL, "the limit of locked memory could not be read");
    else if (l->memlock_bytes.v < 0)
        check_pass(o, "unlimited");
    else
        check_fail(o, memlock_remedy(hw), "soft limit %s, hard limit %s; unlimited is wanted",
                   limit_text(l->memlock_bytes, soft), limit_text(l->memlock_hard_bytes, hard));
}

static void rdma_gpudirect(const struct hw *hw, struct check_out *o)
{
    const struct hw_limits *l = &hw->limits;
    bool off = str_eq(hw_env_get(hw, "NCCL_DMABUF_ENABLE"), "0");
    static const char remedy[] =
        "Load nvidia_peermem (`modprobe nvidia_peermem`), or use the open kernel module of the "
        "driver on Linux 5.12 or newer for dma-buf. Without, a measured 194 GB/s became 35.";

    if (hw->rdma_count == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
    else if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else if (nccl_gpus_without_gdr(hw))
        check_skip(o, "GeForce GPUs have no GPUDirect RDMA: data goes through host memory");
    else if (l->peermem)
        check_pass(o, "%s%s%s", l->peermem, l->peermem_version ? " " : "",
                   l->peermem_version ? l->peermem_version : "");
    else if (maybe_is(l->dmabuf, 1) && off)
        check_fail(o, "Take NCCL_DMABUF_ENABLE=0 out of the environment, or load nvidia_peermem.",
                   "dma-buf works, but NCCL_DMABUF_ENABLE=0 switches it off, and there is no "
                   "peer-memory module");
    else if (maybe_is(l->dmabuf, 1) && str_eq(o->nccl->gdr_support, "none"))
        check_fail(o,
                   "Load nvidia_peermem (`modprobe nvidia_peermem`), or use NCCL 2.13 or newer, "
                   "which has dma-buf.",
                   "dma-buf works, but NCCL %s does not use it, and there is no peer-memory module",
                   o->nccl->nccl_version ? o->nccl->nccl_version : "here");
    else if (maybe_is(l->dmabuf, 1))
        check_pass(o, "dma-buf%s%s", l->dmabuf_why ? ": " : "", l->dmabuf_why ? l->dmabuf_why : "");
    else if (l->dmabuf.known)
        check_fail(o, remedy, "no peer-memory module, and no dma-buf%s%s",
                   l->dmabuf_why ? ": " : "", l->dmabuf_why ? l->dmabuf_why : "");
    else
        check_unknown(o, "Look on the host for the module nvidia_peermem.",
                      "no peer-memory module seen, and dma-buf could not be judged%s%s",
                      l->dmabuf_why ? ": " : "", l->dmabuf_why ? l->dmabuf_why : "");
}

static void rdma_numa_balancing(const struct hw *hw, struct check_out *o)
{
    struct maybe b = hw->limits.numa_balancing;

    if (hw->numa_count == 1)
        check_skip(o, "one NUMA node alone");
    else if (!b.known)
        check_unknown(o, NULL, "the kernel does not tell");
    else if (b.v)
        check_warn(o, "Run `sysctl -w kernel.numa_balancing=0` and put it into /etc/sysctl.d.",
                   "on: the kernel unmaps and moves pages of bound processes");
    else
        check_pass(o, "off");
}

/* ---- the path between NIC and GPU ---- */
/* A virtual function has no link of its own: look at its parent. */
static const struct hw_pci *link_of(const struct hw *hw, const struct hw_rdma *d)
{
    if (maybe_is(d->vf, 1) || d->physfn)
        return d->physfn ? hw_find_pci(hw, d->physfn) : NULL;
    return d->bdf ? hw_find_pci(hw, d->bdf) : NULL;
}

/* All that the slot can do, at a generation below the card's: a matter of the board. */
static bool link_is_slots_best(const struct hw *hw, const struct hw_pci *p)
{
    struct maybe now = hw_link_mbps(p), most = hw_link_mbps_max(hw, p);

    return now.known && most.known && now.v >= most.v && p->link_width.v >= p->link_width_max.v;
}

static void rdma_pcie(const struct hw *hw, struct check_out *o)
{
    if (facts_rdma_ours_count(hw) == 0)
        check_skip(o, "%s", facts_rdma_none(hw));
    for (size_t i = 0; i < hw->rdma_count; i++) {
        const struct hw_pci *p = link_of(hw, &hw->rdma[i]);

        if (!facts_rdma_ours(hw, &hw->rdma[i]))
            continue;
        o->object = hw->rdma[i].name;
        if (!p || !p->link_width.known || !p->link_width_max.known || !p->link_speed ||
            !p->link_speed_max)
            check_unknown(o, NULL, "the PCIe link of it could not be read");
        else if (hw_rdma_link_short(hw, &hw->rdma[i]).known)
            check_fail(
                o,
                "Reseat the card, look at the slot's setup and in `dmesg` for 'available PCIe "
                "bandwidth, limited by'.  NCCL does not notice: every ring runs at the speed "
                "of this link.",
                "PCIe x%lld at %s, it can do x%lld at %s: %lld Gb/s, less than its port",
                (long long)p->link_width.v, p->link_speed, (long long)p->link_width_max.v,
                p->link_speed_max, (long long)hw_rdma_link_short(hw, &hw->rdma[i]).v / 1000);
        else if (link_is_slots_best(hw, p) && !str_eq(p->link_speed, p->link_speed_max))
            check_pass(o,
                       "PCIe x%lld at %s: all that the slot can do (%lld Gb/s); the card could %s",
                       (long long)p->link_width.v, p->link_speed,
                       (long long)hw_link_mbps(p).v / 1000, p->link_speed_max);
        else if (p->link_width.v < p->link_width_max.v || !str_eq(p->link_speed, p->link_speed_max))
            check_warn(o,
                       "Move the card to a slot that gives it all lanes, or reseat it; look in "
                       "`dmesg` for 'available PCIe bandwidth, limited by'.",
                       "PCIe x%lld at %s, it can do x%lld at %s", (long long)p->link_width.v,
                       p->link_speed, (long long)p->link_width_max.v, p->link_speed_max);
        else
            check_pass(o, "PCIe x%lld at %s", (long long)p->link_width.v, p->link_speed);
    }
    o->object = NULL;
}

/* The device nearer to the GPU that should be used, were NCCL_IB_HCA not set; NULL: none. */
static const char *left_out(const struct hw *hw, size_t gpu, const struct nccl_near *n)
{
    static const char *const order[] = { "PIX", "PXB", "PHB", "NODE", "SYS" };
    const char *user = hw_env_get(hw, "NCCL_IB_HCA"), *far = hw_distance_get(hw, gpu, n->dev);
    const struct hw_rdma *found = NULL;
    struct nccl_choice c;
    struct arena a = { 0 };

    if (!user || !*user)
        return NULL;
    nccl_choose_without(hw, "NCCL_IB_HCA", &a, &c);
    for (size_t k = 0; !found && k < ARRAY_SIZE(order) && !str_eq(order[k], far); k++)
        for (size_t i = 0; !found && i < c.ports_count; i++)
            if (c.ports[i].wanted && str_eq(hw_distance_get(hw, gpu, c.ports[i].dev), order[k]))
                found = hw_find_rdma(hw, c.ports[i].dev);
    nccl_choice_release(&c);
    arena_release(&a);
    return found ? found->name : NULL;
}

/* Beyond the GPU's PCIe switch, and no neighbour stands nearer. */
static void distance_far(const struct hw *hw, const struct hw_gpu *g, const struct nccl_near *n,
                         struct check_out *o)
{
    const char *path = hw_distance_get(hw, (size_t)(g - hw->gpus), n->dev);
    const char *left = left_out(hw, (size_t)(g - hw->gpus), n);

    if (maybe_is(n->direct, 1))
        check_pass(o, "GPUDirect RDMA to %s, as NCCL_NET_GDR_LEVEL allows (%s)", n->dev, n->path);
    else if (left)
        check_warn(o, "Unset NCCL_IB_HCA, and take what `stoker detect --env` prints then.",
                   "its nearest NIC, %s, is left out by NCCL_IB_HCA; of those it takes the nearest "
                   "is %s (%s)",
                   left, n->dev, path ? path : n->path);
    else if (nccl_gpus_without_gdr(hw) && !str_eq(n->path, "SYS"))
        check_pass(o, "a NIC at its socket (%s); without GPUDirect RDMA no nearer one would help",
                   n->dev);
    else if (!str_eq(n->path, "SYS"))
        check_warn(o,
                   "Nothing is broken: NCCL uses GPUDirect only behind one PCIe switch unless "
                   "NCCL_NET_GDR_LEVEL=PHB says otherwise; `stoker detect --env` decides.",
                   "its nearest NIC is behind another root port (%s, %s)", n->dev,
                   path ? path : n->path);
    else if (!path)
        check_warn(
            o,
            "Set the devices' NUMA nodes in the firmware, or give NCCL a topology in "
            "NCCL_TOPO_FILE.",
            "the firmware tells no NUMA node of it or of its nearest NIC (%s), and NCCL takes "
            "that for another socket",
            n->dev);
    else if (n->same_socket)
        check_warn(
            o,
            str_eq(o->nccl->gdr_level, "PHB")
                ? "Nothing is far apart: NCCL takes every NUMA node for a socket of its own.  "
                  "One node a socket (NPS1, SNC off in the BIOS) lets the NIC reach the GPU "
                  "directly."
                : "Nothing is far apart: NCCL takes every NUMA node for a socket of its own.  "
                  "One node a socket (NPS1, SNC off in the BIOS) and NCCL_NET_GDR_LEVEL=PHB "
                  "let the NIC reach the GPU directly.",
            "its nearest NIC is in another NUMA node of the same socket (%s)", n->dev);
    else
        check_warn(
            o,
            facts_in_container(hw)
                ? "Ask for NICs at the GPUs' socket: topology manager policy single-numa-node or "
                  "restricted, or the device plug-in's hints.  If the machine has none there, give "
                  "the GPU to jobs that stay on the node."
                : "Move a NIC to this GPU's socket, or give the GPU to jobs that stay on the node.",
            "its nearest NIC is across sockets (%s)", n->dev);
}

/* NCCL sends by the widest way: a wide NIC far away goes before the one at the GPU's switch. */
static const struct nccl_way *distance_passed(const struct hw *hw, const struct hw_gpu *g,
                                              const struct nccl_choice *c)
{
    for (size_t i = 0; i < c->scores_count; i++)
        if (&hw->gpus[c->scores[i].gpu] == g &&
            (str_eq(c->scores[i].ours.path, "PHB") || str_eq(c->scores[i].ours.path, "SYS")))
            return &c->scores[i].ours;
    return NULL;
}

/* NCCL joins channel to channel: healthy machines use the GPU's own rail for it. */
static void distance_rail(const struct nccl_way *passed, struct check_out *o)
{
    const char *by = passed ? "through host memory" : "PXN";

    if (o->nccl->rail_dead)
        check_fail(o,
                   "Drain this machine until the rail is mended: with machines that are well a job "
                   "cannot connect.  Or leave that rail out on all of them (NCCL_IB_HCA).",
                   "goes by a neighbour's rail (%s), and the rails do not lead to each other", by);
    else
        check_warn(
            o,
            "Nothing to do where every machine is built like this.  With others a job cannot "
            "connect: leave that rail out on all (NCCL_IB_HCA), or give it an equal NIC.",
            "goes by a neighbour's faster rail (%s), and the rails do not lead to each "
            "other",
            by);
}

static void rdma_distance(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    const struct nccl_near *n = &o->nccl->near[g - hw->gpus];
    const struct nccl_way *passed = distance_passed(hw, g, o->nccl);

    if (all_efa(hw))
        check_skip(o, "the plug-in of AWS EFA pairs NICs and GPUs itself");
    else if (!facts_rdma_active(hw))
        check_skip(o, "no active RDMA port here");
    else if (!any_wanted(o->nccl))
        check_skip(o, "no RDMA port that NCCL can use");
    else if (o->nccl->rail_lost && o->nccl->rail_lost[g - hw->gpus])
        distance_rail(passed, o);
    else if (!n->dev)
        check_unknown(o, NULL, "the PCI tree does not tell how far the NICs are");
    else if (hw_nccl_topo_unread(hw))
        check_unknown(o, "See that NCCL can read the file, and ask again.",
                      "NCCL is told the distances by NCCL_TOPO_FILE, which could not be followed");
    else if (o->nccl->topo_lost && (str_eq(n->path, "PHB") || str_eq(n->path, "SYS")))
        check_warn(o,
                   check_text(o,
                              "Name the NICs in %s where NCCL looks for them: `stoker detect` says "
                              "where.",
                              hw->nccl.topo_file),
                   "NCCL does not find %s in the topology file, and has its nearest NIC at %s",
                   o->nccl->topo_lost, n->path);
    else if (o->nccl->guest && str_eq(n->path, "PHB") && !maybe_is(n->direct, 1))
        check_unknown(o,
                      "Whoever runs the host knows: name a topology file in NCCL_TOPO_FILE, or put "
                      "it at /var/run/nvidia-topologyd/virtualTopology.xml.",
                      "this virtual machine does not show the PCIe switches of its host");
    else if ((str_eq(n->path, "PIX") || str_eq(n->path, "PXB")) && passed &&
             !nccl_way_has(passed, n->dev)) /* else all data goes by the CPU, its own NIC's too */
        check_warn(
            o,
            "Put NICs of one rate at the GPUs' switches: NCCL takes the widest way, whatever "
            "the distance, and the NIC beside the GPU stays idle.",
            "NCCL takes %s at %s, which is wider than %s at its PCIe switch: data goes "
            "through host memory",
            passed->ports, passed->path, n->dev);
    else if (str_eq(n->path, "PIX") || str_eq(n->path, "PXB"))
        check_pass(o, "a NIC behind the same PCIe switch");
    else if (str_eq(n->path, "P2C") ||
             (str_eq(n->path, "PHB") && nccl_gpu_on_c2c(hw, (size_t)(g - hw->gpus))))
        check_pass(o, "a NIC at the processor it is linked to");
    else if (n->relay)
        check_pass(o, "a NIC at the PCIe switch of a GPU that NVLink leads to (PXN)");
    else
        distance_far(hw, g, n, o);
}

/* Is the port itself here, too?  Then this is the host, which keeps its functions for others. */
static bool vf_on_its_host(const struct hw *hw, const struct hw_rdma *d)
{
    for (size_t i = 0; d->physfn && i < hw->rdma_count; i++)
        if (str_eq(hw->rdma[i].bdf, d->physfn) && !maybe_is(hw->rdma[i].vf, 1) &&
            facts_rdma_ours(hw, &hw->rdma[i]))
            return true;
    return false;
}

static void rdma_vf(const struct hw *hw, struct check_out *o)
{
    bool any = false;
    size_t kept = 0;

    for (size_t i = 0; i < hw->rdma_count; i++) {
        const struct hw_rdma *d = &hw->rdma[i], *twin = NULL;
        bool told = false; /* by the first function of the port */

        if (!maybe_is(d->vf, 1) || !facts_rdma_ours(hw, d))
            continue;
        if (vf_on_its_host(hw, d)) {
            kept++;
            continue;
        }
        any = true;
        for (size_t j = 0; j < hw->rdma_count; j++)
            if (j != i && d->physfn && str_eq(hw->rdma[j].physfn, d->physfn) &&
                facts_rdma_ours(hw, &hw->rdma[j])) {
                told |= j < i;
                twin = &hw->rdma[j];
            }
        if (told)
            continue;
        o->object = d->name;
        if (!d->physfn)
            check_unknown(o, NULL, "a virtual function whose parent could not be read");
        else if (twin)
            check_warn(o,
                       "Give the pod one virtual function of each physical port: two of one port "
                       "share its bandwidth.",
                       "shares the port %s with %s", d->physfn, twin->name);
        else
            check_pass(o, "a virtual function with a port of its own");
    }
    o->object = NULL;
    if (!any && kept)
        check_skip(o,
                   "%zu virtual function%s of this host's own ports, for pods and virtual machines",
                   kept, kept == 1 ? "" : "s");
    else if (!any)
        check_skip(o, "%s",
                   facts_rdma_ours_count(hw) ? "no virtual function here" : facts_rdma_none(hw));
}

struct layers { /* ports of each layer */
    size_t ib, eth;
};

static void layers_add(struct layers *l, const struct nccl_port *p, bool counts)
{
    l->ib += counts && str_eq(p->link_layer, "InfiniBand");
    l->eth += counts && str_eq(p->link_layer, "Ethernet");
}

static void rdma_link_layers(const struct hw *hw, struct check_out *o)
{
    struct layers all = { 0 }, used = { 0 }, wanted = { 0 };
    const char *user = hw_env_get(hw, "NCCL_IB_HCA");
    size_t ib, eth;

    FOR_EACH(const struct nccl_port, p, o->nccl->ports) {
        layers_add(&all, p, p->takes);
        layers_add(&used, p, p->picked);
        layers_add(&wanted, p, p->wanted);
    }
    ib = all.ib;
    eth = all.eth;
    if (ib + eth == 0)
        check_skip(o, all_efa(hw) ? "AWS EFA has a layer of its own" : "no active RDMA port here");
    else if (ib && eth && user && *user && !(used.ib && used.eth))
        check_pass(o, "%zu active ports are InfiniBand, %zu Ethernet; NCCL_IB_HCA chooses", ib,
                   eth);
    else if (ib && eth && o->nccl->gone_why)
        check_warn(o, "Mend the links first.  NCCL takes ports of both, and does not join them.",
                   "%zu active ports are InfiniBand, %zu Ethernet, and those of the GPUs are down",
                   ib, eth);
    else if (ib && eth && wanted.ib && wanted.eth)
        check_warn(
            o,
            "Name the NICs of the training fabric in NCCL_IB_HCA, or bring all to one layer "
            "(`mlxconfig` LINK_TYPE): NCCL does not join the two.",
            "%zu active ports are InfiniBand, %zu Ethernet, and none of them can be left out "
            "for certain",
            ib, eth);
    else if (ib && eth)
        check_warn(o,
                   "Name the NICs of the training fabric in NCCL_IB_HCA (`stoker detect --env` "
                   "does): NCCL takes ports of both, and does not join them.",
                   "%zu active ports are InfiniBand, %zu Ethernet", ib, eth);
    else
        check_pass(o, "%s", ib ? "InfiniBand" : "Ethernet (RoCE)");
}

static const struct health_check rows[] = {
    HEALTH_CHECK("rdma.devices", CHECK_RDMA, "RDMA devices", .fn = rdma_devices,
                 "The kernel has RDMA devices (/sys/class/infiniband)."),
    HEALTH_CHECK("rdma.start", CHECK_RDMA | CHECK_TRAINING, "NCCL start", .fn = rdma_start,
                 "Nothing that is set here ends every job at start-up: a topology file that NCCL's "
                 "reader does not take, interfaces or an address family that no interface has, "
                 "NCCL_COMM_ID outside of every subnet, a network that is not here."),
    HEALTH_CHECK("rdma.uverbs", CHECK_RDMA | CHECK_CONTAINER, "uverbs nodes", .fn = rdma_uverbs,
                 "Programs reach the devices through /dev/infiniband/uverbsN. A container sees the "
                 "host's devices in sysfs, but can use only those whose node it was given."),
    HEALTH_CHECK(
        "rdma.verbs", CHECK_RDMA, "verbs library", .fn = rdma_verbs,
        "libibverbs is installed, with its providers for the devices here: NCCL loads it at "
        "run time and falls back to TCP without."),
    HEALTH_CHECK("rdma.efa", CHECK_RDMA, "AWS EFA", .fn = rdma_efa,
                 "An AWS instance has all EFA devices of its type (p4d 4, p5 and p5e 32, p5en 16, "
                 "p6-b200 8). They want the aws-ofi-nccl plug-in and no NCCL_IB_* variables."),
    HEALTH_CHECK(
        "rdma.port", CHECK_RDMA, "port state", .port = rdma_port_state,
        "Each port is ACTIVE and its link is up; one that nobody uses beside an active one of "
        "its card is a warning. NCCL leaves out a port that is not, and "
        "says so only at debug level INFO."),
    HEALTH_CHECK("rdma.rate", CHECK_RDMA, "port rate", .port = rdma_rate,
                 "Each active port runs as fast as the fastest of its kind on this machine: a bad "
                 "cable or transceiver trains lower instead of failing."),
    HEALTH_CHECK("rdma.link-layer", CHECK_RDMA, "link layer", .fn = rdma_link_layers,
                 "Active ports are all InfiniBand or all Ethernet: NCCL does not mix them."),
    HEALTH_CHECK(
        "rdma.subnet-manager", CHECK_RDMA, "subnet manager", .port = rdma_subnet_manager,
        "Each InfiniBand port knows a subnet manager (sm_lid is not 0) and has a LID of it."),
    HEALTH_CHECK(
        "rdma.gid", CHECK_RDMA, "GIDs", .port = rdma_gid,
        "Each RoCE port has a GID of version 2 that is routable and whose network device is "
        "in this network namespace. In a pod, GIDs of the host's devices are visible and "
        "useless."),
    HEALTH_CHECK(
        "rdma.mtu", CHECK_RDMA, "MTU", .port = rdma_mtu,
        "Network devices of RoCE ports for training have MTU 4192 or more (9000 is usual), so "
        "that RoCE's largest packets fit, 4096 bytes and headers; switch ports must have it "
        "too."),
    HEALTH_CHECK(
        "rdma.firmware", CHECK_RDMA, "NIC firmware", .fn = rdma_firmware,
        "NICs of one model run one firmware, and none that is known to train slow (ConnectX-7 "
        "28.37.1014)."),
    HEALTH_CHECK("rdma.memlock", CHECK_RDMA | CHECK_CONTAINER, "locked memory", .fn = rdma_memlock,
                 "RLIMIT_MEMLOCK is unlimited: registering memory for RDMA fails without, and NCCL "
                 "with it. A pod's default is often 8 MiB or 64 KiB."),
    HEALTH_CHECK(
        "rdma.gpudirect", CHECK_RDMA, "GPUDirect RDMA", .fn = rdma_gpudirect,
        "NICs can read GPU memory: through the module nvidia_peermem (or nv_peer_mem), or by "
        "dma-buf (open kernel module, Linux 5.12 or newer) that NCCL_DMABUF_ENABLE does not "
        "switch off."),
    HEALTH_CHECK(
        "rdma.acs", CHECK_RDMA | CHECK_GPU, "ACS", .fn = check_acs,
        "Ports of PCIe switches between GPUs and NICs do not redirect peer traffic to the root "
        "complex (Access Control Services): it costs bandwidth and can hang NCCL. Virtual "
        "machines need it on their host; root ports have nothing to redirect."),
    HEALTH_CHECK("rdma.pcie", CHECK_RDMA, "NIC PCIe link", .fn = rdma_pcie,
                 "Each NIC has all PCIe lanes at full speed; for a virtual function its parent is "
                 "looked at."),
    HEALTH_CHECK(
        "rdma.distance", CHECK_RDMA, "NIC near GPU", .gpu = rdma_distance,
        "Each GPU has a NIC of the training fabric behind the same PCIe switch (PIX or PXB), as "
        "NCCL's default for GPUDirect asks, or NVLink to a GPU that has one (PXN)."),
    HEALTH_CHECK(
        "rdma.vf", CHECK_RDMA | CHECK_CONTAINER, "virtual functions", .fn = rdma_vf,
        "SR-IOV virtual functions of this machine or pod sit on different physical ports."),
    HEALTH_CHECK("rdma.numa-balancing", CHECK_RDMA | CHECK_TRAINING, "NUMA balancing",
                 .fn = rdma_numa_balancing,
                 "Automatic NUMA balancing is off. The kernel's own documentation says so for work "
                 "that is already bound to nodes; NVIDIA's tuning guides say it for GPU nodes."),
};

const struct check_table checks_rdma = { rows, ARRAY_SIZE(rows) };

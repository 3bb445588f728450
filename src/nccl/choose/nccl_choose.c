/* SPDX-License-Identifier: MIT */
/* nccl_choose: the whole choice of NCCL on one inventory. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <strings.h>

static size_t count_used(const struct nccl_choice *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->ports_count; i++)
        n += c->ports[i].used;
    return n;
}

/* Google's machines with a NIC for each GPU or two (A3): several gVNICs, whose GPUDirect is the
 * plug-in's affair. */
static bool has_gvnics(const struct hw *hw)
{
    size_t count = 0;

    for (size_t i = 0; i < hw->nets_count; i++)
        count += hw_net_is_gvnic(&hw->nets[i]);
    return count > 2;
}

/* A net plug-in is here, and nothing keeps it out. */
static bool has_plugin(const struct hw *hw)
{
    return doubt_net_plugin(hw) || (hw_soft_found(hw, "nccl-net-plugin") && !doubt_plugin_off(hw));
}

/* EFA is no RDMA device that NCCL's own code takes. */
static void choose_efa_off(struct nccl_run *s)
{
    const char *net = nccl_env_of(s->hw, "NCCL_NET"), *off = doubt_plugin_off(s->hw);
    bool stops = net && !strcasecmp(net, "IB");

    s->c->net = stops ? "fails" : "tcp";
    s->c->net_why = arena_printf(s->a, "%s  %s", off,
                                 stops ? "NCCL's own RDMA code takes no EFA device, and NCCL stops "
                                         "at start-up."
                                       : "EFA is not used, and sockets carry the data.");
    if (stops) {
        s->c->stop_why = s->c->net_why;
        s->c->stop_var = "NCCL_NET";
    }
}

static void choose_gvnic(struct nccl_run *s)
{
    if (has_plugin(s->hw)) {
        s->c->net = NULL; /* neither sockets nor GPUDirect can be claimed */
        s->c->net_why = "The net plug-in may speak GPUDirect-TCPX or -TCPXO over gVNIC; whether it "
                        "does is its own affair.";
        return;
    }
    s->c->net_why = "gVNIC has GPUDirect by Google's TCPX or TCPXO plug-in alone; without it "
                    "sockets carry the data.";
    nccl_doubt(s, "This machine has several gVNICs and no net plug-in: Google's plug-in for its "
                  "machine type (GPUDirect-TCPX on A3 High, -TCPXO on A3 Mega) is what makes NCCL "
                  "fast here.  As it is, sockets carry the data.");
}

/* The first NIC of HPE Slingshot: no RDMA device of the kernel's, its RDMA is libfabric's. */
static const char *slingshot_of(const struct hw *hw)
{
    for (size_t i = 0; i < hw->nets_count; i++)
        if (hw->nets[i].driver && str_starts(hw->nets[i].driver, "cxi") && hw->nets[i].name)
            return hw->nets[i].name;
    return NULL;
}

static void choose_slingshot(struct nccl_run *s, const char *nic)
{
    if (has_plugin(s->hw)) {
        s->c->net = NULL;
        s->c->net_why = "The net plug-in may speak to HPE Slingshot; whether it does is its own "
                        "choice.";
        return;
    }
    s->c->net_why = "HPE Slingshot needs the libfabric plug-in (aws-ofi-nccl, provider cxi); "
                    "without it sockets carry the data.";
    nccl_doubt(s,
               "%s is a NIC of HPE Slingshot, and no net plug-in was found: NCCL reaches it by "
               "libfabric (aws-ofi-nccl, provider cxi) alone.  As it is, sockets carry the data, "
               "many times slower.",
               nic);
}

/* The topology file is read before any device is looked at, in every job. */
static void choose_stop(struct nccl_run *s)
{
    const struct hw *hw = s->hw;

    if (s->c->stop_why || !hw_nccl_topo_refused(hw))
        return;
    s->c->stop_var = nccl_env_of(hw, "NCCL_TOPO_FILE") ? "NCCL_TOPO_FILE" : NULL;
    s->c->stop_why = arena_printf(s->a, "NCCL reads the topology file %s: %s.", hw->nccl.topo_file,
                                  hw->nccl.topo_error);
}

static bool needs_ib(const struct hw *hw)
{
    const char *net = nccl_env_of(hw, "NCCL_NET");

    return net && !strcasecmp(net, "IB");
}

static void choose_net(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    const char *start = c->socket_if ? c->socket_if : c->wire_if;
    size_t used = count_used(c);

    if (used) {
        c->net = "rdma";
        c->net_why = arena_printf(s->a, "%zu RDMA port%s active and not filtered out.", used,
                                  used == 1 ? " is" : "s are");
    } else if (c->stop_why) {
        c->net = "fails";
        c->net_why = c->stop_why;
    } else if (!c->efa && needs_ib(s->hw) && !ports_hidden(s->hw)) {
        c->net = "fails";
        c->net_why = "NCCL_NET=IB asks for NCCL's own RDMA, and no port here can be used by it: "
                     "NCCL stops with an error instead of going over TCP.";
        c->stop_why = c->net_why;
        c->stop_var = "NCCL_NET";
    } else if (!start) {
        c->net = s->hw->nets_count ? "single node only" : NULL;
        c->net_why = c->socket_why;
    } else if (iface_is_virtual(s->hw, start) && c->peer_if && !str_eq(c->peer_if, start) &&
               !nccl_env_of(s->hw, "NCCL_SOCKET_IFNAME")) {
        c->net = "tcp";
        c->net_why = arena_printf(s->a,
                                  "NCCL starts over %s, which reaches no other node, before %s, "
                                  "which does: NCCL_SOCKET_IFNAME (--env) makes it start there.",
                                  start, c->peer_if);
    } else if (iface_is_virtual(s->hw, start)) {
        c->net = "single node only";
        c->net_why = arena_printf(
            s->a, "The only interface%s is %s, which reaches no other node.",
            nccl_env_of(s->hw, "NCCL_SOCKET_IFNAME") ? " that NCCL_SOCKET_IFNAME leaves" : "",
            start);
    } else {
        c->net = "tcp";
        c->net_why = c->ports_count == 0
                         ? arena_printf(s->a,
                                        "There is no RDMA device, so sockets carry the "
                                        "data.%s%s",
                                        c->bare_why ? "  " : "", c->bare_why ? c->bare_why : "")
                     : ports_off(s->hw)
                         ? arena_printf(s->a, "%s  Sockets carry the data.", ports_off(s->hw))
                         : "No RDMA port can be used, so sockets carry the data.";
        if (c->efa && has_plugin(s->hw)) {
            c->net = "efa";
            c->net_why = "The aws-ofi-nccl plug-in was found; NCCL speaks to EFA through it.";
        } else if (c->efa && doubt_plugin_off(s->hw))
            choose_efa_off(s);
        else if (c->efa)
            c->net_why =
                "AWS EFA needs the aws-ofi-nccl plug-in; without it sockets carry the data.";
        else if (!c->ports_count && slingshot_of(s->hw))
            choose_slingshot(s, slingshot_of(s->hw));
        else if (!c->ports_count && has_gvnics(s->hw))
            choose_gvnic(s);
    }
}

static void say_unknowns(struct nccl_run *s)
{
    const struct nccl_choice *c = s->c;
    const struct hw_net *boot = c->socket_if ? hw_find_net(s->hw, c->socket_if) : NULL;

    if (boot && iface_is_ipoib(s->hw, boot))
        nccl_note(s,
                  "NCCL starts over %s, IP over InfiniBand, which assumes that every node has an "
                  "address in its subnet.",
                  boot->name);
    if (!c->gpus.known && c->gpus_why)
        nccl_note(s, "%s", c->gpus_why);
    if (c->detour_why)
        nccl_note(s, "%s", c->detour_why);
    if (c->bare_why && c->ports_count)
        nccl_note(s, "%s  %s", c->bare_why, c->bare_remedy ? c->bare_remedy : "");
    else if (c->bare_remedy)
        nccl_note(s, "%s", c->bare_remedy);
    if (gpus_cut(s->hw, s->gpu_visible))
        nccl_doubt(s,
                   "MIG is on: a process sees one instance, instances have no peer access to each "
                   "other, over NVLink or PCIe, and NCCL does not join those of one GPU.");
    if (ports_hidden(s->hw))
        nccl_note(s,
                  "RDMA devices are in sysfs but /dev/infiniband has none: this container was not "
                  "given the RDMA resource.%s",
                  s->hw->place.container ? "  The container that trains may have it." : "");
    if (c->net && str_eq(c->net, "rdma") && !c->gdr_support)
        nccl_note(s, "Whether GPUDirect RDMA works cannot be told: no peer-memory module is loaded "
                     "and dma-buf support is not known.");
    if (c->nccl_version && nccl_older_than(s->hw, 2, 21))
        nccl_note(s, "NCCL %s is older than 2.21 and does not search for a RoCE address itself.",
                  c->nccl_version);
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].used && s->picked_mbps[i] > score_port_mbps(s, &c->ports[i])) {
            nccl_note(s, "Ports of one card are one NIC to NCCL, with the sum of their speeds.");
            break;
        }
}

static void sim_begin(struct nccl_run *s, const struct hw *hw, const char *peer,
                      struct nccl_choice *out)
{
    *s = (struct nccl_run){ .hw = hw, .c = out, .a = &out->arena };
    s->peer = peer ? peer : iface_env_peer(hw, s->a, &s->peer_from);
}

void nccl_choose_once(const struct hw *hw, const char *peer, struct nccl_choice *out)
{
    struct nccl_run s;

    *out = (struct nccl_choice){ 0 };
    sim_begin(&s, hw, peer, out);
    out->nccl_version = hw_nccl_version(hw);
    iface_choose(&s);
    choose_stop(&s);
    gpus_choose(&s);
    ports_choose(&s);
    level_choose_gdr(&s);
    level_choose_near(&s);
    level_choose_detour(&s);
    level_choose_p2p(&s);
    mnnvl_choose(&s);
    nics_without_rdma_choose(&s);
    choose_net(&s);
    doubt_choose(&s);
    say_unknowns(&s);
}

void nccl_choose_for(const struct hw *hw, const char *peer, struct nccl_choice *out)
{
    struct nccl_run s;

    nccl_choose_once(hw, peer, out);
    sim_begin(&s, hw, peer, out);
    versions_choose(&s);
}

void nccl_choose(const struct hw *hw, struct nccl_choice *out)
{
    nccl_choose_for(hw, NULL, out);
}

void nccl_choice_release(struct nccl_choice *c)
{
    arena_release(&c->arena);
    *c = (struct nccl_choice){ 0 };
}

/* SPDX-License-Identifier: MIT */
/* checks_acs: do bridges send what GPUs and NICs tell each other up to the root complex?
 *
 * Access Control Services matter at the ports of a switch that is above two of them; the row
 * stands in checks_rdma.c. */
#include "base/str.h"
#include "health/health_int.h"

enum { PATH_DEPTH_MAX = 32 }; /* bridges above one device */

static void acs_add(const char *port, struct buf *names, size_t *count)
{
    if (!port || (names->len && strstr(buf_str(names), port)))
        return;
    buf_addf(names, "%s%s", names->len ? ", " : "", port);
    ++*count;
}

/* Ports of switches with ACS between two GPUs, or a GPU and a NIC, behind the switch. */
static size_t acs_ports(const struct hw *hw, struct buf *names)
{
    size_t count = 0;

    for (size_t i = 0; i < hw->gpus_count; i++) {
        for (size_t k = 0; k < i; k++)
            acs_add(hw_acs_between(hw, hw->gpus[i].bdf, hw->gpus[k].bdf), names, &count);
        for (size_t k = 0; k < hw->rdma_count; k++) {
            acs_add(hw_acs_between(hw, hw->gpus[i].bdf, hw->rdma[k].bdf), names, &count);
            acs_add(hw_acs_between(hw, hw->rdma[k].bdf, hw->gpus[i].bdf), names, &count);
        }
    }
    return count;
}

/* Bridges with ACS above GPUs and NICs, wherever they are. */
static size_t acs_above(const struct hw *hw)
{
    struct buf names = { 0 };
    size_t count = 0;

    for (size_t i = 0; i < hw->gpus_count + hw->rdma_count; i++) {
        const char *bdf = i < hw->gpus_count ? hw->gpus[i].bdf : hw->rdma[i - hw->gpus_count].bdf;
        const struct hw_pci *p = bdf ? hw_find_pci(hw, bdf) : NULL;

        for (int depth = 0; p && p->parent && depth < PATH_DEPTH_MAX; depth++) {
            p = hw_find_pci(hw, p->parent);
            if (p && maybe_is(p->acs, 1))
                acs_add(p->bdf, &names, &count);
        }
    }
    buf_release(&names);
    return count;
}

/* Devices that are given to virtual machines. */
static bool lends_devices(const struct hw *hw)
{
    for (size_t i = 0; i < hw->pci_count; i++)
        if (hw->pci[i].driver && str_starts(hw->pci[i].driver, "vfio"))
            return true;
    return false;
}

/* Every port of the list lets pass what ATS has translated. */
static bool acs_is_direct(const struct hw *hw, const char *names)
{
    for (size_t i = 0; i < hw->pci_count; i++)
        if (hw->pci[i].bdf && strstr(names, hw->pci[i].bdf) && !maybe_is(hw->pci[i].acs_direct, 1))
            return false;
    return true;
}

static const char *acs_remedy(const struct hw *hw, bool direct)
{
    if (lends_devices(hw) && direct)
        return "Nothing to do for devices of virtual machines (vfio): ACS keeps them apart, and "
               "with ATS they reach each other directly all the same.  For jobs on this host "
               "itself clear it (`setpci -s PORT ECAP_ACS+0x6.w=0000`).";
    if (lends_devices(hw))
        return "Devices of virtual machines (vfio) need ACS, and with ATS they reach each other "
               "directly only where the port lets translated requests through: set that bit "
               "(`setpci -s PORT ECAP_ACS+0x6.w=0040:0040`).  For jobs on this host itself clear "
               "all (`setpci -s PORT ECAP_ACS+0x6.w=0000`).";
    return facts_is_arm(hw)
               ? "Clear it at boot (`setpci -s PORT ECAP_ACS+0x6.w=0000`); a host of virtual "
                 "machines needs it on."
               : "Switch ACS off in the BIOS, or clear it at boot (`setpci -s PORT "
                 "ECAP_ACS+0x6.w=0000`); a host of virtual machines needs it on.";
}

static bool bridges_seen(const struct hw *hw)
{
    for (size_t i = 0; i < hw->pci_count; i++)
        if (hw->pci[i].parent)
            return true;
    return false;
}

void check_acs(const struct hw *hw, struct check_out *o)
{
    struct maybe bridges = hw->limits.acs_bridges;
    struct buf names = { 0 };
    size_t n = 0;

    if (hw->place.hypervisor || hw->gpus_count + hw->rdma_count == 0) {
        check_skip(o, hw->place.hypervisor ? "the host of this virtual machine decides"
                                           : "neither GPU nor RDMA device here");
        return;
    }
    if (!bridges.known) {
        if (bridges_seen(hw))
            check_unknown(o, "Run it as root: ACS stands in the extended configuration space.",
                          "the bridges' ACS could not be read");
        else
            check_skip(o, "no PCI bridge is to be seen above GPUs and NICs");
        return;
    }
    n = acs_ports(hw, &names);
    if (n)
        check_warn(o, acs_remedy(hw, acs_is_direct(hw, buf_str(&names))),
                   "on at %zu switch port%s between GPUs and NICs: %s: what they send each other "
                   "goes up to the root complex and back",
                   n, n == 1 ? "" : "s", buf_str(&names));
    else if (acs_above(hw))
        check_pass(o,
                   "on at %zu bridge%s, none of them a switch's between GPUs and NICs: what meets "
                   "in the root complex passes through it in any case",
                   acs_above(hw), acs_above(hw) == 1 ? "" : "s");
    else
        check_pass(o, "off at every bridge above GPUs and NICs");
    buf_release(&names);
}

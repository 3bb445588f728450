/* SPDX-License-Identifier: MIT */
/* checks_fabric: the GPUs together: alike, linked, reaching each other, and running
 * CUDA, which only the plug-in can prove. */
#include "base/str.h"
#include "engine/plugin.h"
#include "health/health_int.h"
#include "nccl/nccl.h"

/* ---- several GPUs ---- */
/* One text of each GPU that answers (`off` in struct hw_gpu), compared with the first. */
struct trait_view {
    size_t unknown;           /* GPUs that do not tell */
    const struct hw_gpu *odd; /* one that differs; NULL: none */
};

static const char *trait_of(const struct hw_gpu *g, size_t off)
{
    const char *text;

    memcpy(&text, (const char *)g + off, sizeof(text));
    return text;
}

static struct trait_view trait_look(const struct hw *hw, size_t off)
{
    struct trait_view v = { 0 };
    const char *first = NULL;

    for (size_t i = 0; i < hw->gpus_count; i++) {
        const char *text = trait_of(&hw->gpus[i], off);

        if (!facts_gpu_ok(&hw->gpus[i]))
            continue;
        first = first ? first : text;
        v.unknown += !text;
        if (text && !str_eq(text, first))
            v.odd = &hw->gpus[i];
    }
    return v;
}

static size_t trait_count(const struct hw *hw, size_t off, const char *text)
{
    size_t n = 0;

    for (size_t i = 0; i < hw->gpus_count; i++)
        n += facts_gpu_ok(&hw->gpus[i]) && str_eq(trait_of(&hw->gpus[i], off), text);
    return n;
}

static void same_text(const struct hw *hw, size_t off, const char *what, const char *remedy,
                      struct check_out *o)
{
    struct trait_view v = trait_look(hw, off);
    size_t odd = v.odd ? trait_count(hw, off, trait_of(v.odd, off)) : 0;
    char name[FACTS_NAME_MAX];

    if (facts_gpus_ok(hw) < 2)
        check_skip(o, "fewer than two GPUs answer");
    else if (odd > 1)
        check_warn(o, remedy, "several %ss: %zu of %zu GPUs have %s", what, odd, facts_gpus_ok(hw),
                   trait_of(v.odd, off));
    else if (v.odd)
        check_warn(o, remedy, "several %ss: %s has %s", what, facts_gpu_name(v.odd, name),
                   trait_of(v.odd, off));
    else if (v.unknown)
        check_unknown(o, NULL, "the driver does not tell the %s of %zu GPUs", what, v.unknown);
    else
        check_pass(o, "one %s", what);
}

static void gpu_same_model(const struct hw *hw, struct check_out *o)
{
    same_text(hw, offsetof(struct hw_gpu, name), "model",
              "Group them by model (CUDA_VISIBLE_DEVICES): a job runs at the slowest one's speed.",
              o);
}

static void gpu_same_vbios(const struct hw *hw, struct check_out *o)
{
    same_text(hw, offsetof(struct hw_gpu, vbios), "VBIOS version",
              "Bring all to one VBIOS with the vendor's firmware package.", o);
}

/* The lowest and highest memory of GPUs without MIG. */
static void gpu_same_memory(const struct hw *hw, struct check_out *o)
{
    struct maybe lo = maybe_none(), hi = maybe_none();

    if (facts_gpus_ok(hw) < 2) {
        check_skip(o, "fewer than two GPUs answer");
        return;
    }
    for (size_t i = 0; i < hw->gpus_count; i++) {
        struct maybe m = hw->gpus[i].mem_total_bytes;

        if (!facts_gpu_ok(&hw->gpus[i]))
            continue;
        if (!m.known) {
            check_unknown(o, NULL, "the driver does not tell every GPU's memory");
            return;
        }
        lo = !lo.known || m.v < lo.v ? m : lo;
        hi = !hi.known || m.v > hi.v ? m : hi;
    }
    if (lo.v == hi.v)
        check_pass(o, "%lld MiB on each", (long long)(lo.v >> 20));
    else
        check_warn(o,
                   "Size the job for the smallest; for GPUs of one model, look for retired memory "
                   "in `nvidia-smi -q`.",
                   "between %lld and %lld MiB", (long long)(lo.v >> 20), (long long)(hi.v >> 20));
}

static void gpu_mig(const struct hw *hw, struct check_out *o)
{
    size_t on = 0, off = 0, empty = 0, pending = 0;

    FOR_EACH(const struct hw_gpu, g, hw->gpus) {
        if (!facts_gpu_ok(g) || !g->mig.known)
            continue;
        on += g->mig.v != 0;
        off += g->mig.v == 0;
        empty += g->mig.v != 0 && g->migs_count == 0;
        pending += g->mig_pending.known && g->mig_pending.v != g->mig.v;
    }
    if (on + off == 0) {
        check_skip(o, "no GPU here that can do MIG");
        return;
    }
    if (pending)
        check_warn(o, "Reset these GPUs, so that the setting takes effect.",
                   "MIG mode of %zu GPUs changes at the next reset", pending);
    if (empty)
        check_fail(o,
                   "Create instances (`nvidia-smi mig -cgi PROFILE -C`) or switch MIG off "
                   "(`nvidia-smi -mig 0`).",
                   "%zu GPUs are in MIG mode without an instance: CUDA sees nothing there", empty);
    if (on && off)
        check_warn(o,
                   "Switch MIG on or off on all GPUs of the node, unless the mix is meant: a job "
                   "over several GPUs cannot use the MIG ones.",
                   "MIG is on for %zu GPUs and off for %zu", on, off);
    if (!pending && !empty && !(on && off))
        check_pass(o, "MIG is %s on %zu of %zu GPUs", on ? "on" : "off", on + off,
                   facts_gpus_ok(hw));
}

/* ---- NVLink ---- */
static size_t links_active(const struct hw_gpu *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->nvlinks_count; i++)
        n += maybe_is(g->nvlinks[i].active, 1);
    return n;
}

static size_t links_total(const struct hw_gpu *g)
{
    size_t total = (size_t)maybe_or(g->nvlinks_total, (int64_t)g->nvlinks_count);

    return total < g->nvlinks_count ? g->nvlinks_count : total;
}

/* Of the GPUs of this one's model: an L4 beside an H100 has no link to lose. */
static size_t links_most(const struct hw *hw, const struct hw_gpu *like)
{
    size_t most = 0;

    for (size_t i = 0; i < hw->gpus_count; i++)
        if (facts_gpu_ok(&hw->gpus[i]) && str_eq(hw->gpus[i].name, like->name) &&
            links_active(&hw->gpus[i]) > most)
            most = links_active(&hw->gpus[i]);
    return most;
}

/* All its active links lead to one other GPU. */
static bool links_lead_to_one(const struct hw_gpu *g)
{
    const char *peer = NULL;

    FOR_EACH(const struct hw_nvlink, l, g->nvlinks) {
        if (!maybe_is(l->active, 1))
            continue;
        if (!str_eq(l->remote_kind, "gpu") || !l->remote_bdf ||
            (peer && !str_eq(peer, l->remote_bdf)))
            return false;
        peer = l->remote_bdf;
    }
    return true;
}

/* Cards that bridges join, where there are any: pairs, and neither a switch nor a board that
 * leads from each GPU to several. */
static bool links_are_bridges(const struct hw *hw, const struct hw_gpu *like)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (str_eq(hw->gpus[i].name, like->name) && !links_lead_to_one(&hw->gpus[i]))
            return false;
    return true;
}

static void nvlink_lacks(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    size_t active = links_active(g), total = links_total(g), most = links_most(hw, g);
    bool bridges = links_are_bridges(hw, g);

    if (bridges && !active)
        check_warn(o,
                   "Nothing to do if these cards have no NVLink bridge; else seat it anew.  Jobs "
                   "over these GPUs go over PCIe.",
                   "no link of %zu is active, while a bridge joins other GPUs of this model",
                   total);
    else
        check_fail(o,
                   bridges
                       ? "Drain the node, seat the NVLink bridge anew or replace it; read "
                         "`dmesg` for Xid 74."
                       : "Drain the node and reset all GPUs of the fabric; read `dmesg` for Xid "
                         "74 or 144-150 and the fabric manager's log; if a link stays down, "
                         "the board is bad.",
                   "%zu of %zu links active, other GPUs have %zu", active, total, most);
}

static void gpu_nvlink(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    size_t active = links_active(g), most = links_most(hw, g), total = links_total(g);

    if (total == 0 && most == 0)
        check_skip(o, "no NVLink here");
    else if (facts_gpus_ok(hw) < 2)
        check_skip(o, "one GPU has no peer to link to");
    else if (active < most)
        nvlink_lacks(hw, g, o);
    else if (active == 0)
        check_warn(o,
                   "With NVSwitch start the fabric manager; with PCIe cards fit the NVLink "
                   "bridges, or ignore this if there are none.",
                   "no link of %zu is active", total);
    else if (active < total)
        check_warn(o, "Compare with the board's design; reset the GPUs if it has more links.",
                   "%zu of %zu links active", active, total);
    else
        check_pass(o, "%zu links active", active);
}

static void gpu_fabric_state(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    const char *s = g->fabric_state;

    (void)hw;
    if (!s || str_eq(s, "not-supported"))
        check_skip(o, "no NVSwitch fabric to join");
    else if (!str_eq(s, "completed"))
        check_fail(o,
                   "Start the fabric manager, wait until it has trained the links, then look at "
                   "its log; CUDA fails with error 802 until then.",
                   "joining the NVSwitch fabric is %s", s);
    else if (g->fabric_status && !str_eq(g->fabric_status, "ok"))
        check_fail(o, "Read the fabric manager's log and restart it; then reset the GPU.",
                   "joined the fabric with an error: %s", g->fabric_status);
    else
        check_pass(o, "joined the NVSwitch fabric");
}

static bool fabric_joined(const struct hw *hw)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (str_eq(hw->gpus[i].fabric_state, "completed"))
            return true;
    return false;
}

static void gpu_fabric_manager(const struct hw *hw, struct check_out *o)
{
    const struct hw_nvidia *n = &hw->nvidia;
    const char *fm = n->fabricmanager_version;

    if (maybe_or(n->nvswitches, 0) == 0 && !hw_links_switched(hw))
        check_skip(o, n->nvswitches.known ? "no NVSwitch here" : "no NVSwitch seen");
    else if (fm && n->driver_version && !str_starts(fm, n->driver_version))
        check_fail(o,
                   "Install the fabric manager of the driver's own version; it refuses any other.",
                   "fabric manager %s, driver %s", fm, n->driver_version);
    else if (maybe_is(n->fabricmanager_running, 1))
        check_pass(o, "runs%s%s", fm ? ", version " : "", fm ? fm : "");
    else if (facts_in_container(hw) || !n->fabricmanager_running.known ||
             (hw->place.hypervisor && hw_links_switched(hw)))
        check_unknown(o, "Look on the host: `systemctl status nvidia-fabricmanager`.",
                      "the host's daemons cannot be seen from here%s",
                      fabric_joined(hw) ? ", but the GPUs have joined a fabric" : "");
    else
        check_fail(o, "Run `systemctl enable --now nvidia-fabricmanager`.",
                   "not running, with %s here",
                   maybe_or(n->nvswitches, 0) > 0
                       ? check_text(o, "%lld NVSwitches", (long long)n->nvswitches.v)
                       : "GPUs on NVSwitches");
}

/* The two GPUs of a pair when both answer. */
static bool pair_gpus(const struct hw *hw, const struct hw_gpu_pair *p, const struct hw_gpu **a,
                      const struct hw_gpu **b)
{
    if (!p->a.known || !p->b.known || p->a.v < 0 || p->b.v < 0 ||
        (size_t)p->a.v >= hw->gpus_count || (size_t)p->b.v >= hw->gpus_count)
        return false;
    *a = &hw->gpus[p->a.v];
    *b = &hw->gpus[p->b.v];
    return facts_gpu_ok(*a) && facts_gpu_ok(*b);
}

static bool pair_judge(const struct hw_gpu_pair *p, bool geforce, struct check_out *o)
{
    const char *said = p->p2p_read && !str_eq(p->p2p_read, "ok") ? p->p2p_read : p->p2p_write;

    if (!p->p2p_read || !p->p2p_write)
        check_unknown(o, NULL, "the driver does not tell whether they reach each other");
    else if (!str_eq(said, "ok") && maybe_or(p->nvlinks, 0) > 0)
        check_fail(
            o,
            "Drain the node: NCCL stops with an error.  Look for a GPU in another mode "
            "and at the fabric manager's log; reset the GPUs.  NCCL_IGNORE_DISABLED_P2P=1 goes "
            "on without NVLink between them.",
            "NVLink joins them, and the driver refuses peer access: %s", said);
    else if (!str_eq(said, "ok"))
        check_warn(o,
                   geforce ? "Nothing to do: the driver has no peer access between these GeForce "
                             "GPUs, and traffic goes through host memory."
                           : "Over PCIe switch ACS and the IOMMU off, "
                             "or expect traffic through host memory.",
                   "cannot reach each other's memory: %s", said);
    else
        return true;
    return false;
}

static void gpu_p2p(const struct hw *hw, struct check_out *o)
{
    char first[FACTS_NAME_MAX], name[2 * FACTS_NAME_MAX];
    const struct hw_gpu *a, *b;
    size_t good = 0, all = 0, cut = 0;

    for (size_t i = 0; i < hw->gpu_pairs_count; i++) {
        if (!pair_gpus(hw, &hw->gpu_pairs[i], &a, &b))
            continue;
        if (maybe_is(a->mig, 1) || maybe_is(b->mig, 1)) { /* no peer access, on purpose */
            cut++;
            continue;
        }
        snprintf(name, sizeof(name), "%s with %lld", facts_gpu_name(a, first),
                 (long long)maybe_or(b->index, hw->gpu_pairs[i].b.v));
        o->object = name;
        good += pair_judge(&hw->gpu_pairs[i], a->brand && str_starts(a->brand, "GeForce"), o);
        all++;
    }
    o->object = NULL;
    if (good)
        check_pass(o, "%zu of %zu pairs reach each other's memory", good, all);
    else if (all == 0 && cut)
        check_skip(o, "MIG is on: instances have no peer access to each other");
    else if (all == 0)
        check_skip(o, "fewer than two GPUs answer");
}

/* ---- the switches above ---- */
/* What hangs below a bridge: GPUs, and RDMA devices that are ours. */
static size_t below_bridge(const struct hw *hw, const struct hw_pci *bridge)
{
    enum { DEEP = 32 };
    size_t count = 0;

    for (size_t i = 0; i < hw->gpus_count + hw->rdma_count; i++) {
        const char *bdf = i < hw->gpus_count ? hw->gpus[i].bdf : hw->rdma[i - hw->gpus_count].bdf;
        const struct hw_pci *p = bdf ? hw_find_pci(hw, bdf) : NULL;

        if (i >= hw->gpus_count && !facts_rdma_ours(hw, &hw->rdma[i - hw->gpus_count]))
            continue;
        for (size_t n = 0; n < DEEP && p && p != bridge; n++)
            p = p->parent ? hw_find_pci(hw, p->parent) : NULL;
        count += p == bridge;
    }
    return count;
}

/* GPUs lower the speed of their own link when they idle; a switch keeps its own. */
static void pcie_uplink(const struct hw *hw, struct check_out *o)
{
    size_t good = 0, bad = 0;

    for (size_t i = 0; i < hw->pci_count && !hw->place.hypervisor; i++) {
        const struct hw_pci *p = &hw->pci[i];
        struct maybe now = hw_link_mbps(p), most = hw_link_mbps_max(hw, p);
        size_t below = hw_pci_is_upstream(hw, p) ? below_bridge(hw, p) : 0;

        if (!below || !now.known || !most.known)
            continue;
        if (now.v >= most.v) {
            good++;
            continue;
        }
        bad++;
        o->object = p->bdf;
        check_warn(o,
                   "Look for PCIe errors in `dmesg` (AER); power the machine off and on, then have "
                   "the riser, the cable or the switch board exchanged.",
                   "the switch above %zu device%s has x%lld at %s to the CPU, it can do x%lld "
                   "at %s: %lld of %lld Gb/s",
                   below, below == 1 ? "" : "s", (long long)p->link_width.v, p->link_speed,
                   (long long)p->link_width_max.v, p->link_speed_max, (long long)now.v / 1000,
                   (long long)most.v / 1000);
    }
    o->object = NULL;
    if (good)
        check_pass(o, "%zu of %zu switches above GPUs and NICs have their whole link up", good,
                   good + bad);
    else if (!bad)
        check_skip(o, hw->place.hypervisor ? "a virtual machine does not see the switches' links"
                                           : "no PCIe switch above a GPU or NIC");
}

/* ---- CUDA itself: the one check that does something ---- */
static void cuda_device(const struct stoker_cuda_device *d, struct check_out *o)
{
    char name[FACTS_NAME_MAX];

    snprintf(name, sizeof(name), "CUDA device %d (%.20s)", d->index, d->bdf);
    o->object = name;
    if (d->error[0])
        check_fail(o, "Reset the GPU; if it fails again, read `dmesg` for its Xid.", "%s",
                   d->error);
    else if (d->bad_words)
        check_fail(o, "Drain the node and have the GPU's memory diagnosed (`dcgmi diag -r 3`).",
                   "%llu wrong words in a pattern the GPU wrote", (unsigned long long)d->bad_words);
    else if (d->copy_gbps > 0)
        check_pass(o, "a kernel on %d of %d SMs wrote what it should; copies at %.0f GB/s",
                   d->sms_used, d->sms, d->copy_gbps);
    else
        check_pass(o,
                   "a kernel on %d of %d SMs wrote what it should; no memory free to time a copy",
                   d->sms_used, d->sms);
    o->object = NULL;
}

static void cuda_probe(const struct hw *hw, struct check_out *o)
{
    struct plugin_probe p = { 0 };

    plugin_cuda_probe(o->opts->plugin_dir, o->opts->plugin_stall_ms, &p);
    if (!p.path || (hw->gpus_count == 0 && p.why[0] && !p.hung))
        check_skip(o, "%s", p.why);
    else if (p.hung)
        check_fail(o, "Look for 'Xid' in `dmesg`, drain the node and reset the GPU or reboot.",
                   "CUDA not answering: %s", p.why);
    else if (p.why[0])
        check_fail(o,
                   "If the driver is older than the plug-in's CUDA, update it or build the plug-in "
                   "with an older toolkit; else look at the GPU checks above.",
                   "%s", p.why);
    else if (p.count == 0)
        check_fail(o, "See CUDA_VISIBLE_DEVICES and the GPU checks above.", "CUDA sees no device");
    for (size_t i = 0; i < p.count; i++)
        cuda_device(&p.devices[i], o);
    plugin_probe_release(&p);
}

static void gpu_cuda_runs(const struct hw *hw, struct check_out *o)
{
    if (!o->opts->deep)
        check_skip(o, "asked for with --deep alone: it runs a kernel on every GPU");
    else if (maybe_is(hw->captured, 1))
        check_skip(o, "a captured machine cannot run anything");
    else
        cuda_probe(hw, o);
}

/* One judgement with --env: NCCL_MNNVL_ENABLE there, this here. */
static void gpu_imex(const struct hw *hw, struct check_out *o)
{
    const struct nccl_choice *c = o->nccl;

    (void)hw;
    if (!c->mnnvl_why)
        check_skip(o, "no NVLink domain that spans machines");
    else if (str_eq(c->mnnvl, "on") && strstr(c->mnnvl_why, "not of one clique"))
        check_warn(o,
                   "Look at the rack's partitions: GPUs of one machine in several cliques are a "
                   "rack that was divided wrongly, unless they are for different tenants.",
                   "%s", c->mnnvl_why);
    else if (str_eq(c->mnnvl, "on"))
        check_pass(o, "%s", c->mnnvl_why);
    else if (str_eq(c->mnnvl, "off"))
        check_warn(o, "Nothing to do if that is meant; the network carries what NVLink could.",
                   "off: %s", c->mnnvl_why);
    else if (str_eq(c->mnnvl, "fails"))
        check_fail(o,
                   "Start nvidia-imex on every machine of the domain and give the job a channel "
                   "(NVreg_CreateImexChannel0=1, or the scheduler's own), or set the "
                   "NCCL_MNNVL_ENABLE that `stoker detect --env` prints.",
                   "%s", c->mnnvl_why);
    else if (c->mnnvl_doubt)
        check_warn(o,
                   "Look from inside a job: schedulers give each its own channel "
                   "(switch/nvidia_imex of Slurm, a ComputeDomain of NVIDIA's DRA driver).  Where "
                   "none does, start nvidia-imex and create a channel on every machine.",
                   "%s", c->mnnvl_why);
    else
        check_unknown(o, "Look on the machine itself.", "%s", c->mnnvl_why);
}

static const struct health_check rows[] = {
    HEALTH_CHECK("gpu.same-model", CHECK_GPU, "same model", .fn = gpu_same_model,
                 "All GPUs are of one model: a job waits for its slowest GPU."),
    HEALTH_CHECK("gpu.same-vbios", CHECK_GPU, "same VBIOS", .fn = gpu_same_vbios,
                 "All GPUs run one VBIOS version: clocks and limits come from it."),
    HEALTH_CHECK("gpu.same-memory", CHECK_GPU, "same memory", .fn = gpu_same_memory,
                 "All GPUs have the same memory: the smallest bounds a job."),
    HEALTH_CHECK(
        "gpu.mig", CHECK_GPU, "MIG", .fn = gpu_mig,
        "MIG is on or off on all GPUs alike, no change waits for a reset, and a GPU in MIG "
        "mode has an instance."),
    HEALTH_CHECK(
        "gpu.nvlink", CHECK_GPU, "NVLink", .gpu = gpu_nvlink,
        "Every NVLink is active, and every GPU has as many as the others: collectives run at "
        "the pace of the GPU with the fewest."),
    HEALTH_CHECK(
        "gpu.fabric-manager", CHECK_GPU, "fabric manager", .fn = gpu_fabric_manager,
        "On a machine with NVSwitches the fabric manager runs, in the driver's own version: "
        "it refuses to start with another, and CUDA does not start without it."),
    HEALTH_CHECK(
        "gpu.fabric", CHECK_GPU, "NVSwitch fabric", .gpu = gpu_fabric_state,
        "The GPU has joined the NVSwitch fabric without an error (Hopper and newer tell)."),
    HEALTH_CHECK(
        "gpu.imex", CHECK_GPU, "NVLink to machines", .fn = gpu_imex,
        "GPUs of an NVLink domain that spans machines (GB200 NVL72 and its like) reach those of "
        "others: nvidia-imex runs and a channel is here. Without, NCCL ends jobs of several "
        "machines, unless the scheduler gives each job a channel."),
    HEALTH_CHECK(
        "gpu.p2p", CHECK_GPU, "peer access", .fn = gpu_p2p,
        "Each pair of GPUs reaches each other's memory directly. Without, NCCL copies through "
        "host memory."),
    HEALTH_CHECK(
        "gpu.pcie-uplink", CHECK_GPU | CHECK_RDMA, "PCIe uplinks", .fn = pcie_uplink,
        "PCIe switches above GPUs and NICs reach the CPU by all lanes and at the speed that "
        "both ends can do."),
    HEALTH_CHECK(
        "gpu.cuda-runs", CHECK_GPU | CHECK_TRAINING, "CUDA runs", .fn = gpu_cuda_runs,
        "With --deep, on the machine itself: the CUDA plug-in starts a kernel on every SM of "
        "each GPU, compares what it wrote with what it should have, and times a copy in GPU "
        "memory. It runs in a process of its own, so a GPU that hangs costs that process."),
};

const struct check_table checks_fabric = { rows, ARRAY_SIZE(rows) };

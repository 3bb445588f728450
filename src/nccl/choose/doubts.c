/* SPDX-License-Identifier: MIT */
/* doubts: what else than ports and distances decides, and what of it we cannot follow.
 *
 * A net plug-in takes the network out of NCCL's hands: which ports it uses is its own
 * choice.  A topology file takes the place of sysfs: it is followed where it could be
 * read.  Files that the environment named after the machine was probed (-e) were not
 * read.  Each such thing is a sentence of the choice, not silence.
 *
 * NVLink to other machines (GB200 NVL72 and its like) goes by the GPUs' fabric: those of
 * one cluster and clique reach each other, by way of memory that nvidia-imex shares. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <strings.h>

const char *doubt_plugin_off(const struct hw *hw)
{
    const char *net = nccl_env_of(hw, "NCCL_NET"), *user = nccl_env_of(hw, "NCCL_NET_PLUGIN");

    if (net && !strcasecmp(net, "IB")) /* NCCL's own, whatever is loaded */
        return "NCCL_NET=IB keeps the net plug-in out.";
    if (net && !strcasecmp(net, "Socket"))
        return "NCCL_NET=Socket keeps the net plug-in out.";
    if (user && !strcasecmp(user, "none"))
        return "NCCL_NET_PLUGIN=none keeps the net plug-in out.";
    return NULL;
}

const char *doubt_net_plugin(const struct hw *hw)
{
    return doubt_plugin_off(hw) ? NULL : hw->nccl.net_plugin;
}

/* What plug-ins call themselves: AWS's, Google's, NVIDIA's. */
static bool is_plugin_name(const struct hw *hw, const char *net)
{
    static const char *const efa[] = { "AWS Libfabric", "Libfabric" }; /* older and newer ones */
    static const char *const names[] = { "AWS Libfabric", "Libfabric", "GPUDirectTCPX", "FasTrak",
                                         "gIB",           "IBext",     "UCX",           "SHARP" };
    bool on_efa = ports_is_efa(hw);
    const char *const *list = on_efa ? efa : names;

    for (size_t i = 0; i < (on_efa ? ARRAY_SIZE(efa) : ARRAY_SIZE(names)); i++)
        if (!strncasecmp(net, list[i], strlen(list[i])))
            return true;
    return false;
}

bool doubt_net_named(const struct hw *hw)
{
    const char *net = nccl_env_of(hw, "NCCL_NET");

    return net && strcasecmp(net, "IB") && strcasecmp(net, "Socket") &&
           !(doubt_net_plugin(hw) && is_plugin_name(hw, net));
}

static void doubt_plugins(struct nccl_run *s)
{
    const char *net = nccl_env_of(s->hw, "NCCL_NET"), *user = nccl_env_of(s->hw, "NCCL_NET_PLUGIN");
    const char *path = doubt_net_plugin(s->hw);

    if (path && !s->c->efa)
        nccl_doubt(s,
                   "NCCL loads the net plug-in %s and gives it the network before its own code: "
                   "which ports are used, and which NCCL_IB_* settings it heeds, is the plug-in's "
                   "choice.  NCCL_NET_PLUGIN=none keeps it out.",
                   path);
    else if (user && !path && strcasecmp(user, "none") &&
             !(net && (!strcasecmp(net, "IB") || !strcasecmp(net, "Socket"))))
        nccl_doubt(s,
                   "NCCL_NET_PLUGIN is %s, and no such library was found where the loader looks: "
                   "if the job finds it, the ports are its choice.",
                   user);
    if (doubt_net_named(s->hw))
        nccl_doubt(s,
                   "NCCL_NET is %s, a network that a plug-in must bring under that name; %s, and "
                   "NCCL stops with an error when none does.",
                   net, path ? "what this one calls itself is not known" : "none was found here");
    if (s->hw->nccl.tuner_plugin)
        nccl_note(s,
                  "NCCL loads the tuner plug-in %s, which chooses algorithms and protocols; ports "
                  "and interfaces are not its business.",
                  s->hw->nccl.tuner_plugin);
}

/* The wanted NICs of which `fault` is true. */
static const char *nics_text(const struct hw *hw, const struct nccl_choice *c, struct arena *a,
                             bool (*fault)(const struct hw *hw, const char *nic))
{
    struct buf b = { 0 };

    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted && fault(hw, c->ports[i].dev))
            buf_addf(&b, "%s%s", b.len ? ", " : "", c->ports[i].dev);
    return b.len ? nccl_text(a, &b) : NULL;
}

const char *doubt_topo_missed(const struct hw *hw, const struct nccl_choice *c, struct arena *a)
{
    const char *nics = nics_text(hw, c, a, level_nic_apart);

    if (!nics)
        return NULL;
    if (!hw_nccl_topo_used(hw))
        return arena_printf(a,
                            "NCCL looks for %s at device 0, function 0 of their bus, to join "
                            "virtual functions of one card, and there is none: it would take all "
                            "for one NIC at its first CPU.",
                            nics);
    return arena_printf(a,
                        "The topology file %s names %s by their own PCI addresses, and NCCL looks "
                        "for them at device 0, function 0 of their bus, to join virtual functions "
                        "of one card: it would find none and take all for one NIC at the CPU.",
                        hw->nccl.topo_file, nics);
}

/* The way to a NIC that the file has, and NCCL does not find. */
static void doubt_lost(struct nccl_run *s)
{
    const char *nics = nics_text(s->hw, s->c, s->a, level_nic_lost);

    s->c->topo_lost = nics;
    if (nics)
        nccl_doubt(
            s,
            "NCCL does not find %s in the topology file %s: it looks for them %s there.  The "
            "distances used here are those that it has instead, by the NUMA node alone.  "
            "Name them so in the file.",
            nics, s->hw->nccl.topo_file,
            ports_merged(s->hw) ? "at device and function 0 of their bus"
            : nccl_older_than(s->hw, 2, 24) || !nccl_older_than(s->hw, 2, 27)
                ? "at function 0 of their device"
                : "at their own PCI addresses");
}

static void doubt_files(struct nccl_run *s)
{
    const struct hw_nccl *n = &s->hw->nccl;
    const char *topo = nccl_env_of(s->hw, "NCCL_TOPO_FILE");
    const char *conf = nccl_env_of(s->hw, "NCCL_CONF_FILE");
    bool read = false;

    if (hw_nccl_topo_unheld(s->hw))
        nccl_doubt(
            s,
            "NCCL_TOPO_FILE names %s, which the capture or inventory does not hold: NCCL "
            "takes the distances from it where the machine has it, and those used here are the "
            "machine's own.",
            topo);
    else if (hw_nccl_topo_missing(s->hw))
        nccl_note(s,
                  "The topology file %s is not followed, since %s: NCCL goes on without it, by the "
                  "machine's own distances.",
                  n->topo_file, n->topo_error);
    else if (hw_nccl_topo_foreign(s->hw))
        nccl_note(s,
                  "The topology file %s names no two devices of this machine: NCCL goes by the "
                  "machine's own distances.",
                  n->topo_file);
    else if (hw_nccl_topo_refused(s->hw))
        nccl_doubt(s,
                   "NCCL reads the topology file %s: %s.  What distances it was meant to tell is "
                   "not known: those used here are the machine's own.",
                   n->topo_file, n->topo_error);
    else if (n->topo_file && n->topo_error)
        nccl_doubt(s,
                   "NCCL takes the distances from the topology file %s, but %s: those used here "
                   "are the machine's own.",
                   n->topo_file, n->topo_error);
    else if (n->topo_file && doubt_topo_missed(s->hw, s->c, s->a))
        nccl_doubt(s,
                   "The distances are those of the topology file %s, and hold with "
                   "NCCL_IB_MERGE_VFS=0, as --env has it: without that NCCL does not find the NICs "
                   "in it, and takes all for one at the CPU.",
                   n->topo_file);
    else if (n->topo_file)
        nccl_note(s, "The distances between GPUs and NICs are those of the topology file %s.",
                  n->topo_file);
    if (hw_nccl_topo_used(s->hw))
        doubt_lost(s);
    else if (doubt_topo_missed(s->hw, s->c, s->a) && !nccl_env_of(s->hw, "NCCL_IB_MERGE_VFS"))
        nccl_doubt(s, "%s  The distances used here hold with NCCL_IB_MERGE_VFS=0, as --env has it.",
                   doubt_topo_missed(s->hw, s->c, s->a));
    for (size_t i = 0; i < n->conf_files_count; i++)
        read = read || str_eq(n->conf_files[i], conf);
    if (conf && !read && !nccl_older_than(s->hw, 2, 23))
        nccl_doubt(s,
                   "NCCL_CONF_FILE names %s, which could not be read: what it sets is not known.",
                   conf);
    if (n->conf_count)
        nccl_note(s, "%zu setting%s of %s %s followed as if the environment had %s.", n->conf_count,
                  n->conf_count == 1 ? "" : "s", n->conf[0].path, n->conf_count == 1 ? "is" : "are",
                  n->conf_count == 1 ? "it" : "them");
}

/* A subnet gives each LID once: two ports with one LID are on two subnets, although prefix and
 * manager look the same.  Functions of one card may share theirs. */
static void doubt_lids(struct nccl_run *s)
{
    const struct nccl_choice *c = s->c;

    for (size_t i = 0; i < c->ports_count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct nccl_port *p = &c->ports[k], *q = &c->ports[i];
            const struct hw_rdma_port *a = ports_find(s->hw, p->dev, p->port);
            const struct hw_rdma_port *b = ports_find(s->hw, q->dev, q->port);

            if (!p->wanted || !q->wanted || !a || !b || !a->lid.known || a->lid.v <= 0 ||
                !maybe_is(b->lid, a->lid.v) || !str_eq(p->link_layer, "InfiniBand") ||
                !str_eq(p->network, q->network) || str_eq(p->card, q->card))
                continue;
            nccl_doubt(s,
                       "%s:%lld and %s:%lld both have LID %lld, which a subnet gives only once: "
                       "there are two InfiniBand fabrics with the same prefix, and which of the "
                       "other ports are on which cannot be told.  Name those for training in "
                       "NCCL_IB_HCA.",
                       p->dev, (long long)p->port, q->dev, (long long)q->port, (long long)a->lid.v);
            return;
        }
}

/* All GPUs look as near to all NICs, and NCCL deals the NICs out by number. */
static void doubt_guest(struct nccl_run *s)
{
    s->c->guest = level_is_guest(s);
    if (s->c->guest)
        nccl_doubt(s, "This virtual machine does not show the PCIe switches of its host: which NIC "
                      "is near which GPU cannot be told, neither from here nor by NCCL.  "
                      "NCCL_TOPO_FILE, or /var/run/nvidia-topologyd/virtualTopology.xml, would "
                      "tell it.");
}

/* Without what system calls said there are no limits, no CPUs and no addresses to go by. */
static void doubt_capture(struct nccl_run *s)
{
    bool known = !s->hw->nets_count;

    for (size_t i = 0; i < s->hw->nets_count; i++)
        known = known || s->hw->nets[i].addrs_count;
    if (!known)
        nccl_doubt(s, "No address of any network interface is known, so what hangs on them cannot "
                      "be told: the interface NCCL starts over, networks of file systems.");
    if (hw_capture_damage(s->hw))
        nccl_doubt(s,
                   "The capture is damaged: %s.  Addresses, limits and what follows from them "
                   "are not known.",
                   hw_capture_damage(s->hw));
}

/* A container that was given NICs far from its GPUs, while the machine has some at the GPUs'
 * switches: the PCI tree shows them to every container. */
static void doubt_given(struct nccl_run *s)
{
    const struct nccl_choice *c = s->c;
    const struct hw_pci *near = NULL;

    for (size_t i = 0; i < c->scores_count; i++)
        if (!str_eq(c->scores[i].ours.path, "SYS"))
            return;
    if (!s->hw->place.container || !c->scores_count)
        return;
    for (size_t i = 0; i < s->hw->pci_count && !near; i++) {
        const struct hw_pci *p = &s->hw->pci[i];
        const char *path = hw_pci_path(s->hw, s->hw->gpus[c->scores[0].gpu].bdf, p->bdf);
        bool ours = false;

        for (size_t k = 0; k < s->hw->rdma_count; k++)
            ours = ours || str_eq(s->hw->rdma[k].bdf, p->bdf);
        if (!ours && p->class_.known && p->class_.v >> 16 == 0x02 &&
            (str_eq(path, "PIX") || str_eq(path, "PXB")))
            near = p;
    }
    if (near)
        nccl_doubt(s,
                   "Every NIC of this container is across the sockets from its GPUs, while the "
                   "machine has one at GPU %lld's switch (%s): the pod was given the wrong ones.  "
                   "Let the scheduler align them (topology manager policy single-numa-node or "
                   "restricted).",
                   (long long)c->scores[0].number, near->bdf);
}

/* NCCL loads what it needs for RDMA, and goes over TCP without a word where that fails. */
static void doubt_verbs(struct nccl_run *s)
{
    const struct nccl_choice *c = s->c;
    const char *lack = NULL, *dev = NULL;

    for (size_t i = 0; i < c->ports_count && !lack; i++)
        if (c->ports[i].picked) {
            dev = c->ports[i].dev;
            lack = hw_verbs_lacks(s->hw, hw_find_rdma(s->hw, dev));
        }
    if (!dev || !hw_nccl_soft(s->hw))
        return;
    if (maybe_is(s->hw->nccl.verbs, 0))
        nccl_doubt(s, "NCCL loads libibverbs.so.1 for RDMA, and there is none where the loader "
                      "looks: a job with what is here goes over TCP.  Install rdma-core (Debian: "
                      "libibverbs1 and ibverbs-providers) where the job runs.");
    else if (lack)
        nccl_doubt(s,
                   "libibverbs has no provider for %s here (lib%s-rdmav….so): a job with what is "
                   "here does not see the device.  Install it (Debian: ibverbs-providers) where "
                   "the job runs.",
                   dev, lack);
}

/* Releases differ in the GID they take, the ports they count and the distances they allow. */
static void doubt_version(struct nccl_run *s)
{
    const struct hw_soft *nccl = hw_nccl_soft(s->hw);

    if (s->c->nccl_version && s->c->ports_count && !s->c->efa && !nccl_older_than(s->hw, 2, 31))
        nccl_doubt(s,
                   "NCCL %s is newer than 2.30, the last release whose rules are followed here: "
                   "what it changed is not known.",
                   s->c->nccl_version);
    if (s->c->nccl_version || !s->c->ports_count || s->c->efa)
        return;
    if (nccl)
        nccl_doubt(s,
                   "The NCCL of %s does not tell its version: this is what 2.30 does.  One before "
                   "2.21 takes GID index 0 unless NCCL_IB_GID_INDEX is set.",
                   nccl->path ? nccl->path : "this machine");
    else
        nccl_doubt(s,
                   "No NCCL was found here: this is what 2.30 does.  In a container with another "
                   "one, ask there; one before 2.21 takes GID index 0 unless NCCL_IB_GID_INDEX is "
                   "set.");
}

/* The second port of a card is down: nobody uses it, or it is a rail that is missing. */
static void doubt_second(struct nccl_run *s)
{
    struct buf b = { 0 };

    FOR_EACH(const struct nccl_port, p, s->c->ports) {
        const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);
        const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);

        if (r && hp && hw_rdma_is_spare(s->hw, r, hp) && hw_rdma_is_odd(s->hw, r))
            buf_addf(&b, "%s%s:%lld", b.len ? ", " : "", p->dev, (long long)p->port);
    }
    if (b.len)
        nccl_doubt(s,
                   "%s is down, without an address, while other cards of its model have both ports "
                   "up: a port that nobody uses, or a rail that is missing here.  It is taken for "
                   "the former.",
                   buf_str(&b));
    buf_release(&b);
}

void doubt_choose(struct nccl_run *s)
{
    doubt_second(s);
    doubt_version(s);
    doubt_verbs(s);
    doubt_capture(s);
    doubt_given(s);
    doubt_guest(s);
    doubt_lids(s);
    doubt_plugins(s);
    doubt_files(s);
}

/* ---- NVLink to other machines ---- */

static bool uuid_is_set(const char *uuid)
{
    return uuid && uuid[strspn(uuid, "0-")] != '\0';
}

struct domain {                 /* the GPUs that a job here can use, by their NVLink domain */
    const struct hw_gpu *first; /* one that has joined a domain; NULL: none has */
    size_t gpus, joined;
    bool cliques; /* ... of more than one clique */
};

static struct domain domain_of(const struct nccl_run *s)
{
    struct domain d = { 0 };

    for (size_t i = 0; i < s->hw->gpus_count; i++) {
        const struct hw_gpu *g = &s->hw->gpus[i];

        if (!s->gpu_visible[i])
            continue;
        d.gpus++;
        if (!str_eq(g->fabric_state, "completed") || !uuid_is_set(g->fabric_cluster))
            continue;
        d.joined++;
        d.first = d.first ? d.first : g;
        d.cliques = d.cliques || !str_eq(g->fabric_cluster, d.first->fabric_cluster) ||
                    maybe_or(g->fabric_clique, -1) != maybe_or(d.first->fabric_clique, -1);
    }
    return d;
}

static const char *mnnvl_off(const struct nccl_run *s, const struct domain *d)
{
    if (nccl_env_int(s->hw, "NCCL_MNNVL_ENABLE", 2) == 0)
        return "NCCL_MNNVL_ENABLE=0 turns it off.";
    if (nccl_older_than(s->hw, 2, 21))
        return "NCCL has it from 2.21 on.";
    if (str_eq(s->c->p2p_level, "LOC") && !nccl_older_than(s->hw, 2, 27) &&
        nccl_env_int(s->hw, "NCCL_MNNVL_ENABLE", 2) != 1)
        return "Direct copies between GPUs are turned off, and NCCL takes that for these, too.";
    if (nccl_env_int(s->hw, "NCCL_CUMEM_ENABLE", -2) == 0)
        return "NCCL_CUMEM_ENABLE=0 turns off the memory it needs.";
    if (d->joined < d->gpus)
        return arena_printf(s->a, "%zu of %zu GPUs have joined the NVLink domain; NCCL wants all.",
                            d->joined, d->gpus);
    return NULL;
}

/* Is a job's share of this machine what shows here?  A manager may start nvidia-imex and make
 * a channel with each job, inside the job's own namespace: Slurm's switch/nvidia_imex empties
 * the folder of the host and mounts one over it in every step (before 25.11 not in the batch
 * script's), NVIDIA's DRA driver gives a ComputeDomain's pods a channel and starts nvidia-imex
 * in a pod of its own.  An agent's pod that shows the host's processes is no job, and
 * Apptainer shares /dev with whoever starts it. */
static bool job_shows(const struct hw_place *p, const struct hw *hw)
{
    bool unmanaged = str_eq(p->manager, "none");

    if (p->container && !str_eq(p->container, "apptainer"))
        return unmanaged || !p->manager;
    return unmanaged || (p->slurm_job && nccl_env_of(hw, "SLURM_STEP_ID"));
}

static const char *imex_lack(const struct hw_nvidia *nv)
{
    if (maybe_is(nv->imex_running, 0))
        return "nvidia-imex does not run";
    if (maybe_or(nv->imex_channels, 0))
        return NULL;
    return nv->imex_channels.known ? "there is no channel in /dev/nvidia-caps-imex-channels"
                                   : "there is no /dev/nvidia-caps-imex-channels";
}

static void mnnvl_lacks(struct nccl_run *s, const struct domain *d, const char *lack)
{
    const struct hw_place *p = &s->hw->place;

    if (job_shows(p, s->hw)) {
        s->c->mnnvl = "fails";
        s->c->mnnvl_why = arena_printf(
            s->a,
            "The GPUs are of an NVLink domain (%s), but %s%s: in a job of several machines NCCL "
            "stops with an error instead of going without.",
            d->first->fabric_cluster, lack,
            s->hw->nvidia.imex_channels.known || maybe_is(s->hw->nvidia.imex_running, 0)
                ? ""
                : " (the driver's option NVreg_CreateImexChannel0=1, or the container's IMEX "
                  "resource)");
        return;
    }
    s->c->mnnvl_doubt = true;
    s->c->mnnvl_why = arena_printf(
        s->a,
        "The GPUs are of an NVLink domain (%s); %s, and %s may bring what is missing with each "
        "job.",
        d->first->fabric_cluster, lack, p->manager ? p->manager : "a workload manager");
    nccl_doubt(s,
               "On this host %s, but %s may start nvidia-imex and make a channel for each job "
               "(Slurm's switch/nvidia_imex or prolog, a ComputeDomain of Kubernetes): whether a "
               "job has NVLink to other machines shows only inside it.  A job of several machines "
               "that has none stops with an error; NCCL_MNNVL_ENABLE=0 is for that job only.",
               lack, p->manager ? p->manager : "a workload manager that does not show from here");
}

/* "GPU 0, 1: clique 0; GPU 2, 3: clique 1" */
static const char *cliques_text(const struct nccl_run *s)
{
    const struct hw_gpu *last = NULL;
    struct buf b = { 0 };

    for (size_t i = 0; i < s->hw->gpus_count; i++) {
        const struct hw_gpu *g = &s->hw->gpus[i];
        bool same = last && str_eq(g->fabric_cluster, last->fabric_cluster) &&
                    maybe_or(g->fabric_clique, -1) == maybe_or(last->fabric_clique, -1);

        if (!s->gpu_visible[i])
            continue;
        if (last && !same)
            buf_addf(&b, ": clique %lld; ", (long long)maybe_or(last->fabric_clique, -1));
        buf_addf(&b, "%s%lld", same ? ", " : "GPU ", (long long)maybe_or(g->index, (int64_t)i));
        last = g;
    }
    if (last)
        buf_addf(&b, ": clique %lld", (long long)maybe_or(last->fabric_clique, -1));
    return nccl_text(s->a, &b);
}

void mnnvl_choose(struct nccl_run *s)
{
    struct domain d = domain_of(s);
    const struct hw_nvidia *nv = &s->hw->nvidia;
    const char *off = d.first ? mnnvl_off(s, &d) : NULL, *lack = imex_lack(nv);

    if (!d.first)
        return; /* one machine's NVLink, or none */
    if (off) {
        s->c->mnnvl = "off";
        s->c->mnnvl_why = off;
    } else if (lack) {
        mnnvl_lacks(s, &d, lack);
    } else if (d.cliques) {
        s->c->mnnvl = nv->imex_running.known ? "on" : NULL;
        s->c->mnnvl_why = arena_printf(
            s->a,
            "All %zu GPUs are of an NVLink domain, but not of one clique (%s): each reaches only "
            "those of its own in other machines%s.",
            d.gpus, cliques_text(s),
            nv->imex_running.known ? ", and nvidia-imex runs"
                                   : "; whether nvidia-imex runs cannot be told from here");
    } else {
        s->c->mnnvl = nv->imex_running.known ? "on" : NULL;
        s->c->mnnvl_why =
            arena_printf(s->a, "All %zu GPUs are of the NVLink domain %s, clique %lld%s.", d.gpus,
                         d.first->fabric_cluster, (long long)maybe_or(d.first->fabric_clique, -1),
                         nv->imex_running.known
                             ? ", and nvidia-imex runs: GPUs of that clique in other machines "
                               "are reached over NVLink"
                             : "; whether nvidia-imex runs cannot be told from here");
    }
}

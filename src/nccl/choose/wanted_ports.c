/* SPDX-License-Identifier: MIT */
/* wanted_ports: the RDMA ports NCCL should take.
 *
 * Each GPU should have its nearest ports.  A port is left out only when
 *   1. no address of it works from here, or it is a virtual function of a port that is
 *      there itself (wanted_cards.c),
 *   2. it is on another fabric than the one that serves the GPUs best: InfiniBand and
 *      Ethernet cannot be joined, nor can two InfiniBand subnets; a network that file
 *      systems are mounted over, or the default route leaves by, is for that, where
 *      the GPUs have others that serve them as well (wanted_use.c),
 *   3. every GPU has a nearer one, or
 *   4. every GPU it is nearest to has a faster one of another model in the same place.
 * A rail that trained at a lower rate is of the same model and stays.  A rail that file
 * systems are mounted over stays one, too.  A rail that is down is still where its GPU's
 * place on the fabric is: a port of another fabric does not move up in its stead.
 *
 * NCCL's own choice is the measure (score.c): a step that would leave any GPU with less
 * bandwidth or a longer way than that is taken back, so that what we print is never
 * worse than printing nothing. */
#include "nccl/nccl_int.h"

#include "base/str.h"

static bool port_is_ethernet(const struct nccl_port *p)
{
    return str_eq(p->link_layer, "Ethernet");
}

/* ---- 1. addresses ---- */

static bool address_works(struct nccl_run *s, struct nccl_port *p)
{
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);

    if (!p->takes) {
        p->wanted_why = "It cannot be used: see why.";
        return false;
    }
    if (ports_is_iwarp(s->hw, p->dev)) {
        p->wanted_why = "It is iWARP, which NCCL takes for RoCE and cannot connect.";
        return false;
    }
    if (port_is_ethernet(p) && hp && gid_port_class(s->hw, hp) == GID_NONE) {
        p->wanted_why = "None of its addresses belongs to a network device in this namespace.";
        return false;
    }
    return true;
}

static bool only_local(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);

    return port_is_ethernet(p) && hp && gid_port_class(s->hw, hp) != GID_ROUTABLE;
}

static void wanted_addresses(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    bool routable = false;

    for (size_t i = 0; i < c->ports_count; i++) {
        c->ports[i].wanted = c->ports[i].counts = address_works(s, &c->ports[i]);
        routable = routable || (c->ports[i].wanted && !only_local(s, &c->ports[i]));
    }
    for (size_t i = 0; routable && i < c->ports_count; i++) {
        struct nccl_port *p = &c->ports[i];

        if (!p->wanted || !only_local(s, p))
            continue;
        p->wanted = p->counts = false;
        p->wanted_why =
            "It has only link-local or RoCE v1 addresses, while others have routable ones.";
    }
}

/* ---- places ---- */

static int port_rank(const struct nccl_run *s, size_t gpu, const struct nccl_port *p)
{
    return s->ranks[gpu * s->c->ports_count + (size_t)(p - s->c->ports)];
}

/* The nearest of the ports in `set`; -1: none with a known distance. */
static int nearest_rank(const struct nccl_run *s, const bool *set, size_t gpu)
{
    int best = -1;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        int rank = set[i] ? port_rank(s, gpu, &s->c->ports[i]) : -1;

        if (rank >= 0 && (best < 0 || rank < best))
            best = rank;
    }
    return best;
}

/* Every GPU, hidden ones too, has one of `set` at least as near. */
static bool wanted_set_covers(const struct nccl_run *s, const bool *set, const struct nccl_port *p)
{
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        int rank = port_rank(s, g, p), best = nearest_rank(s, set, g);

        if (rank >= 0 && (best < 0 || best > rank))
            return false;
    }
    return true;
}

bool wanted_models_differ(const struct nccl_run *s, const struct nccl_port *a,
                          const struct nccl_port *b)
{
    const struct hw_rdma *x = hw_find_rdma(s->hw, a->dev), *y = hw_find_rdma(s->hw, b->dev);

    if (!x || !y || !x->hca || !y->hca)
        return false;
    return !str_eq(x->hca, y->hca) || (x->board && y->board && !str_eq(x->board, y->board));
}

/* The link is not up, and the port is neither for something else nor the second one of a card
 * that nobody uses: no cable, no peer, no subnet manager, or turned off. */
static bool port_is_lost(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);

    return !p->takes && p->state && !str_eq(p->state, "ACTIVE") && !p->storage && !p->frontend &&
           hp && r && !hw_rdma_is_spare(s->hw, r, hp);
}

/* Turned off by somebody.  Of Ethernet the physical state says nothing: mlx5 tells "Disabled"
 * of a pulled cable too. */
static bool port_is_off(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);
    bool off = r && r->netdevs_count > 0;

    if (!port_is_ethernet(p))
        return hp && str_eq(hp->phys_state, "Disabled");
    for (size_t i = 0; off && i < r->netdevs_count; i++) {
        const struct hw_net *n = hw_find_net(s->hw, r->netdevs[i]);

        off = n && maybe_is(n->up, 0);
    }
    return off;
}

bool wanted_port_is_dead(const struct nccl_run *s, const struct nccl_port *p)
{
    return port_is_lost(s, p) && !port_is_off(s, p);
}

/* Some GPU has none of `set` as near. */
static bool port_is_missed(const struct nccl_run *s, const bool *set, const struct nccl_port *p)
{
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        int rank = port_rank(s, g, p), best = nearest_rank(s, set, g);

        if (rank >= 0 && (best < 0 || best > rank))
            return true;
    }
    return false;
}

/* `p` would be of the fabric of `set` if its link were up.  One that somebody turned off is
 * where a GPU has no other: it is that GPU's rail all the same. */
bool wanted_port_is_down(const struct nccl_run *s, const bool *set, const struct nccl_port *p)
{
    bool alike = false, joined = port_is_ethernet(p) || !p->network;

    if (!port_is_lost(s, p) || (port_is_off(s, p) && !port_is_missed(s, set, p)))
        return false;
    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *q = &s->c->ports[i];

        if (!set[i] || !str_eq(p->link_layer, q->link_layer))
            continue;
        alike = alike || !wanted_models_differ(s, p, q);
        joined = joined || str_eq(p->network, q->network);
    }
    return alike && joined;
}

bool wanted_port_is_bare(const struct nccl_run *s, const bool *set, const struct nccl_port *p)
{
    if (!p->takes || p->wanted || p->storage || p->frontend || !only_local(s, p) ||
        !port_is_missed(s, set, p))
        return false;
    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *q = &s->c->ports[i];

        if (set[i] && str_eq(p->link_layer, q->link_layer) && !wanted_models_differ(s, p, q))
            return true;
    }
    return false;
}

bool *wanted_set_whole(const struct nccl_run *s, const bool *set)
{
    bool *whole = arena_array(s->a, bool, s->c->ports_count + 1);

    for (size_t i = 0; i < s->c->ports_count; i++)
        whole[i] = set[i] || wanted_port_is_down(s, set, &s->c->ports[i]);
    return whole;
}

size_t wanted_set_count(const struct nccl_run *s, const bool *set)
{
    size_t n = 0;

    for (size_t i = 0; i < s->c->ports_count; i++)
        n += set[i];
    return n;
}

/* Where the way beyond the PCIe switch begins, a link is worth half, across sockets a
 * quarter: GPUDirect RDMA ends there. */
static int64_t set_worth(const struct nccl_run *s, const bool *set)
{
    struct score_way *ways = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    int64_t sum = 0;

    score_set(s, set, ways);
    for (size_t g = 0; g < s->hw->gpus_count; g++)
        if (score_gpu_counts(s, g))
            sum += ways[g].mbps * (ways[g].level == LEVEL_NONE  ? 1
                                   : ways[g].level <= LEVEL_PXN ? 4
                                   : ways[g].level == LEVEL_PHB ? 2
                                                                : 1);
    for (size_t i = 0; !s->hw->gpus_count && i < s->c->ports_count; i++)
        sum += set[i] ? maybe_or(s->c->ports[i].rate_mbps, 0) : 0;
    return sum;
}

/* Counts the links of `set` that are down as if they were up, and `back` as it was: a layer
 * is chosen for the machine as it was cabled, so that a node with a dead rail chooses what
 * its healthy neighbours do. */
static void counts_swap(const struct nccl_run *s, const bool *set, bool *back)
{
    for (size_t i = 0; i < s->c->ports_count; i++) {
        bool was = s->c->ports[i].counts;

        s->c->ports[i].counts = set ? was || set[i] : back[i];
        back[i] = was;
    }
}

int64_t wanted_set_worth_up(const struct nccl_run *s, const bool *set)
{
    bool *counts = arena_array(s->a, bool, s->c->ports_count + 1);
    int64_t worth;

    counts_swap(s, set, counts);
    worth = set_worth(s, set);
    counts_swap(s, NULL, counts);
    return worth;
}

/* ---- a step, and taking it back ---- */

struct wanted_step {
    bool *drop;   /* ports this step leaves out */
    bool *ignore; /* ... and whose bandwidth is not missed */
    bool purpose; /* ... since their network is for something else */
    const char **why;
};

static struct wanted_step step_new(struct nccl_run *s)
{
    return (struct wanted_step){ .drop = arena_array(s->a, bool, s->c->ports_count + 1),
                                 .ignore = arena_array(s->a, bool, s->c->ports_count + 1),
                                 .why = arena_array(s->a, const char *, s->c->ports_count + 1) };
}

static const char *cost_text(struct nccl_run *s, const struct wanted_step *st)
{
    struct buf names = { 0 };
    const char *list, *cost = "";

    for (size_t i = 0; i < s->c->ports_count; i++)
        if (st->drop[i])
            buf_addf(&names, "%s%s:%lld", names.len ? ", " : "", s->c->ports[i].dev,
                     (long long)s->c->ports[i].port);
    list = nccl_text(s->a, &names);
    for (size_t i = 0; i < s->c->scores_count && !*cost; i++) {
        const struct nccl_score *x = &s->c->scores[i];

        if (x->worse)
            cost = arena_printf(s->a, "GPU %lld would have %s at %s instead of %s at %s",
                                (long long)x->number, nccl_rate_text(s->a, x->ours.mbps),
                                x->ours.path ? x->ours.path : "an unknown distance",
                                nccl_rate_text(s->a, x->dflt.mbps),
                                x->dflt.path ? x->dflt.path : "an unknown distance");
    }
    return arena_printf(s->a, "Without %s %s.", list, cost);
}

/* False: it would cost a GPU something, and was taken back. */
static bool step_take(struct nccl_run *s, const struct wanted_step *st)
{
    struct nccl_choice *c = s->c;
    bool any = false;

    for (size_t i = 0; i < c->ports_count; i++) {
        any = any || st->drop[i];
        if (!st->drop[i])
            continue;
        c->ports[i].wanted = false;
        c->ports[i].counts = !st->ignore[i];
        c->ports[i].aside = st->ignore[i] && st->purpose;
        c->ports[i].wanted_why = st->why[i];
    }
    if (!any || score_choose(s))
        return true;
    c->all_why = cost_text(s, st);
    for (size_t i = 0; i < c->ports_count; i++)
        if (st->drop[i]) {
            c->ports[i].wanted = c->ports[i].counts = true;
            c->ports[i].aside = false;
        }
    return false;
}

/* ---- 2. fabrics ---- */

struct port_layer {
    bool *set;  /* its wanted ports */
    bool *best; /* ... that are free, if any is, and those like them that are down */
    size_t count;
    int64_t worth;
    bool free; /* some of them are neither for file systems nor for the default route */
};

static struct port_layer layer_of(const struct nccl_run *s, bool ethernet)
{
    struct nccl_choice *c = s->c;
    struct port_layer l = { .set = arena_array(s->a, bool, c->ports_count + 1),
                            .best = arena_array(s->a, bool, c->ports_count + 1) };

    for (size_t i = 0; i < c->ports_count; i++) {
        const struct nccl_port *p = &c->ports[i];

        l.set[i] = p->wanted && port_is_ethernet(p) == ethernet;
        l.count += l.set[i];
        l.best[i] = l.set[i] && !wanted_port_is_busy(s, p);
        l.free = l.free || l.best[i];
    }
    l.best = wanted_set_whole(s, l.free ? l.best : l.set);
    l.worth = wanted_set_worth_up(s, l.best);
    return l;
}

bool wanted_set_dominates(const struct nccl_run *s, const bool *a, const bool *b)
{
    bool *counts = arena_array(s->a, bool, s->c->ports_count + 1);
    struct score_way *x = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    struct score_way *y = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);

    counts_swap(s, a, counts);
    score_set(s, a, x);
    score_set(s, b, y);
    counts_swap(s, NULL, counts);
    for (size_t g = 0; g < s->hw->gpus_count; g++)
        if (score_gpu_counts(s, g) && x[g].mbps < y[g].mbps)
            return false;
    return true;
}

static bool layer_keep(struct nccl_run *s, const struct port_layer *keep,
                       const struct port_layer *drop, const char *name)
{
    struct wanted_step st = step_new(s);
    bool known = keep->free && !drop->free; /* what the others are for */
    bool better = known || wanted_set_dominates(s, keep->best, drop->best);
    bool *whole = wanted_set_whole(s, keep->set);

    for (size_t i = 0; i < s->c->ports_count; i++) {
        st.drop[i] = drop->set[i];
        st.ignore[i] = better && st.drop[i] && wanted_set_covers(s, whole, &s->c->ports[i]);
        st.why[i] = arena_printf(
            s->a, "NCCL cannot join InfiniBand and Ethernet ports, and the %s ones %s.", name,
            known                      ? "are not those of file systems or the default "
                                         "route"
            : str_eq(name, "Ethernet") ? "serve the GPUs better"
                                       : "serve the GPUs at least as well");
    }
    st.purpose = true;
    return step_take(s, &st);
}

/* It carries more than training, is preferred all the same, and has less than a port a GPU; the
 * other is free of such a use. */
static bool layer_is_guess(const struct nccl_run *s, const struct port_layer *l,
                           const struct port_layer *other)
{
    return l->worth > other->worth && wanted_set_is_shared(s, l->best) &&
           !wanted_set_is_shared(s, other->best) &&
           wanted_set_count(s, l->best) < s->hw->gpus_count;
}

/* Both are as near to every GPU, neither has a use of its own or both have, and neither is
 * by far the greater unless a use speaks against it: a guess. */
static bool layers_even(const struct nccl_run *s, const struct port_layer *ib,
                        const struct port_layer *eth)
{
    bool far = ib->worth >= 4 * eth->worth || eth->worth >= 4 * ib->worth;
    bool even = ib->free == eth->free && s->hw->gpus_count &&
                (!far || wanted_set_is_shared(s, ib->worth > eth->worth ? ib->best : eth->best));

    for (size_t i = 0; even && i < s->c->ports_count; i++)
        even = (!ib->best[i] || wanted_set_covers(s, eth->best, &s->c->ports[i])) &&
               (!eth->best[i] || wanted_set_covers(s, ib->best, &s->c->ports[i]));
    return even || layer_is_guess(s, ib, eth) || layer_is_guess(s, eth, ib);
}

static void doubt_layers(struct nccl_run *s, const struct port_layer *ib,
                         const struct port_layer *eth)
{
    bool roce = wanted_set_is_shared(s, eth->set);

    if (!roce && !wanted_set_is_shared(s, ib->set)) {
        nccl_doubt(s, "InfiniBand and Ethernet ports are as near to the GPUs, and neither the "
                      "default route nor a mounted file system tells which of them are for "
                      "training.  NCCL does not join the two: every node must use the same.");
        return;
    }
    nccl_doubt(s,
               "InfiniBand and Ethernet ports could serve the GPUs.  File systems or the "
               "default route are on the %s ones, which serve the GPUs better: whether they are "
               "for that or for training cannot be told.  NCCL does not join the two: every node "
               "must use the same.  If they are for training, set NCCL_IB_HCA='=%s', else "
               "NCCL_IB_HCA='=%s'.",
               roce ? "Ethernet" : "InfiniBand", wanted_set_names(s, roce ? eth->set : ib->set),
               wanted_set_names(s, roce ? ib->set : eth->set));
}

/* False: both layers stay, since a GPU would lose whichever goes. */
static bool layer_choose(struct nccl_run *s, const struct port_layer *ib,
                         const struct port_layer *eth, bool even)
{
    bool first = eth->worth > ib->worth;

    if (even && first) {
        s->c->all_why = "It cannot be told whether the InfiniBand or the Ethernet ports are for "
                        "training.";
        return false;
    }
    if (ib->free != eth->free)
        first = eth->free;
    return (first ? layer_keep(s, eth, ib, "Ethernet") : layer_keep(s, ib, eth, "InfiniBand")) ||
           (ib->free != eth->free &&
            (first ? layer_keep(s, ib, eth, "InfiniBand") : layer_keep(s, eth, ib, "Ethernet")));
}

/* GPUs have enough besides: one port each, or one at their own switch. */
static bool set_suffices(const struct nccl_run *s, const bool *set)
{
    if (wanted_set_count(s, set) >= s->hw->gpus_count)
        return true;
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        int best = nearest_rank(s, set, g);

        if (best < 0 || best > 2 * (int)LEVEL_PXB)
            return false;
    }
    return true;
}

/* How many of `set` are as near to the GPU as any of it. */
static size_t count_nearest(const struct nccl_run *s, const bool *set, size_t gpu)
{
    int best = nearest_rank(s, set, gpu);
    size_t n = 0;

    for (size_t i = 0; best >= 0 && i < s->c->ports_count; i++)
        n += set[i] && port_rank(s, gpu, &s->c->ports[i]) == best;
    return n;
}

/* Both ports are nearest to the same GPUs. */
static bool places_equal(const struct nccl_run *s, const bool *set, const struct nccl_port *p,
                         const struct nccl_port *q)
{
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        int best = nearest_rank(s, set, g);

        if ((port_rank(s, g, p) == best) != (port_rank(s, g, q) == best))
            return false;
    }
    return true;
}

/* Most GPUs have as many ports as the one that `p` is nearest to has with it. */
static bool port_is_in_pattern(const struct nccl_run *s, const bool *set, const struct nccl_port *p)
{
    size_t most = 0, like = 0, all = 0;

    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        int rank = port_rank(s, g, p);
        size_t n = count_nearest(s, set, g);

        if (rank >= 0 && rank == nearest_rank(s, set, g) && n > most)
            most = n;
    }
    for (size_t g = 0; g < s->hw->gpus_count; g++, all++)
        like += count_nearest(s, set, g) >= most;
    return most > 0 && 2 * like > all;
}

/* The IP subnet that tells what a port is for. */
static const char *ip_net_of(const struct nccl_port *p)
{
    return port_is_ethernet(p) ? p->network : p->ip_net;
}

/* How many of `set` are on its InfiniBand subnet, whose traffic it can carry; `down`: or may have
 * been, their links being down. */
static size_t count_joined(const struct nccl_run *s, const bool *set, const struct nccl_port *p,
                           bool down)
{
    size_t n = 0;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const char *net = s->c->ports[i].network;

        n += set[i] && !port_is_ethernet(p) && (net ? str_eq(net, p->network) : down);
    }
    return n;
}

/* A rail among rails, whatever else its network carries: it is the like of a port beside
 * it that has no other use, its network stays with that GPU, and without it the GPU would
 * have fewer than the others.  A storage network spans the GPUs, or is more than they have. */
static bool port_is_rail(const struct nccl_run *s, const bool *wanted, const bool *free_set,
                         const struct nccl_port *p)
{
    bool twin = false;

    if (!ip_net_of(p))
        return false;
    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *q = &s->c->ports[i];

        if (wanted[i] && str_eq(ip_net_of(q), ip_net_of(p)) && !places_equal(s, wanted, p, q))
            return false;
        twin = twin ||
               (free_set[i] && places_equal(s, wanted, p, q) && !wanted_models_differ(s, p, q) &&
                maybe_or(p->rate_mbps, 0) == maybe_or(q->rate_mbps, 0));
    }
    return twin && port_is_in_pattern(s, wanted, p);
}

static void wanted_purpose(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct wanted_step st = step_new(s);
    bool *free_set = arena_array(s->a, bool, c->ports_count + 1), *whole;
    bool *wanted = arena_array(s->a, bool, c->ports_count + 1);

    for (size_t i = 0; i < c->ports_count; i++) {
        wanted[i] = c->ports[i].wanted;
        free_set[i] = c->ports[i].wanted && !wanted_port_is_busy(s, &c->ports[i]);
    }
    whole = wanted_set_whole(s, free_set);
    if (!wanted_set_count(s, free_set) || !set_suffices(s, whole))
        return;
    for (size_t i = 0; i < c->ports_count; i++) {
        const struct nccl_port *p = &c->ports[i];
        bool joined = p->wanted && count_joined(s, free_set, p, false) > 0;
        const char *net = joined ? p->ip_net : p->network;

        st.drop[i] = p->wanted && !free_set[i] && wanted_set_covers(s, whole, p) &&
                     !port_is_rail(s, wanted, free_set, p) &&
                     (!joined || count_joined(s, whole, p, true) >= s->hw->gpus_count);
        st.ignore[i] = st.drop[i];
        st.why[i] = arena_printf(s->a,
                                 p->storage ? "File systems are mounted over its network%s%s, and "
                                              "the GPUs have others as near."
                                            : "It carries the default route%s%s, and the GPUs have "
                                              "others as near.",
                                 net ? ", " : "", net ? net : "");
    }
    st.purpose = true;
    (void)step_take(s, &st);
}

/* The wanted InfiniBand ports on one subnet. */
static bool *subnet_set(const struct nccl_run *s, const char *network)
{
    bool *set = arena_array(s->a, bool, s->c->ports_count + 1);

    for (size_t i = 0; i < s->c->ports_count; i++)
        set[i] = s->c->ports[i].wanted && !port_is_ethernet(&s->c->ports[i]) &&
                 str_eq(s->c->ports[i].network, network);
    return set;
}

/* The subnet worth most to the GPUs, the first of equals, before any that is for file systems
 * or the default route; NULL: none is known. */
static const char *best_subnet(const struct nccl_run *s)
{
    const char *best = NULL;
    int64_t most = -1;
    bool free = false;

    FOR_EACH(const struct nccl_port, p, s->c->ports) {
        int64_t worth;
        bool mine;

        if (!p->wanted || port_is_ethernet(p) || !p->network || str_eq(p->network, best))
            continue;
        worth = wanted_set_worth_up(s, wanted_set_whole(s, subnet_set(s, p->network)));
        mine = !wanted_port_is_busy(s, p);
        if (mine == free ? worth > most : mine) {
            most = worth;
            best = p->network;
            free = mine;
        }
    }
    return best;
}

/* Two subnets that serve every GPU alike are two planes of one fabric for all we know. */
static bool subnet_is_lesser(const struct nccl_run *s, const bool *set, const bool *best)
{
    return wanted_set_count(s, set) < wanted_set_count(s, best) ||
           wanted_set_worth_up(s, set) < wanted_set_worth_up(s, best);
}

/* Every GPU has one of `set` behind its own switch or behind a neighbour's (PXN). */
static bool set_reaches(const struct nccl_run *s, const bool *set)
{
    size_t ports = s->c->ports_count;

    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        bool near = false;

        for (size_t i = 0; i < ports; i++)
            near = near || (set[i] && s->paths[g * ports + i] != LEVEL_NONE &&
                            s->paths[g * ports + i] <= LEVEL_PXN);
        if (!near)
            return false;
    }
    return true;
}

/* All of `set` have another use. */
static bool set_is_busy(const struct nccl_run *s, const bool *set)
{
    for (size_t i = 0; i < s->c->ports_count; i++)
        if (set[i] && !wanted_port_is_busy(s, &s->c->ports[i]))
            return false;
    return true;
}

/* All wanted ports of the subnet have another use. */
static bool subnet_is_busy(const struct nccl_run *s, const char *network)
{
    return set_is_busy(s, subnet_set(s, network));
}

const char *wanted_set_names(const struct nccl_run *s, const bool *set)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < s->c->ports_count; i++)
        if (set[i])
            buf_addf(&b, "%s%s:%lld", b.len ? "," : "", s->c->ports[i].dev,
                     (long long)s->c->ports[i].port);
    return nccl_text(s->a, &b);
}

/* The fabric of `keep` is worth more, but has another use on some of its ports, and `mine`, which
 * has none, is as near to every GPU. */
static bool subnet_is_rival(const struct nccl_run *s, const bool *keep, const bool *mine)
{
    bool used = false;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *p = &s->c->ports[i];

        if ((mine[i] && wanted_port_is_busy(s, p)) || (keep[i] && !wanted_set_covers(s, mine, p)))
            return false;
        used = used || (keep[i] && wanted_port_is_busy(s, p));
    }
    return used && subnet_is_lesser(s, mine, keep);
}

/* What the nearest of `set` at this GPU carry together, without `aside`. */
static int64_t nearest_mbps(const struct nccl_run *s, const bool *set, const bool *aside,
                            size_t gpu)
{
    int best = nearest_rank(s, set, gpu);
    int64_t sum = 0;

    for (size_t i = 0; best >= 0 && i < s->c->ports_count; i++)
        if (set[i] && !(aside && aside[i]) && port_rank(s, gpu, &s->c->ports[i]) == best)
            sum += score_port_mbps(s, &s->c->ports[i]);
    return sum;
}

/* Some GPU has more of `mine` in as near a place: the fabric that has less in all may be the one
 * for training.  What is down may be of both, and is taken for the greater one's. */
static bool subnet_is_uneven(const struct nccl_run *s, const bool *keep, const bool *mine)
{
    for (size_t g = 0; g < s->hw->gpus_count; g++)
        if (score_gpu_counts(s, g) && nearest_rank(s, keep, g) == nearest_rank(s, mine, g) &&
            nearest_mbps(s, keep, NULL, g) < nearest_mbps(s, mine, keep, g))
            return true;
    return false;
}

static void doubt_subnets(struct nccl_run *s, const bool *keep, const bool *rival,
                          const bool *uneven)
{
    if (wanted_set_count(s, rival))
        nccl_doubt(s,
                   "%s and %s are two InfiniBand fabrics beside the same GPUs, and file systems or "
                   "the default route are on some ports of the former only: whether it is for "
                   "storage cannot be told.  All are left to NCCL.  If it is, set "
                   "NCCL_IB_HCA='=%s'.",
                   wanted_set_text(s, keep), wanted_set_text(s, rival), wanted_set_names(s, rival));
    if (wanted_set_count(s, uneven))
        nccl_doubt(s,
                   "%s and %s are two InfiniBand fabrics; the former serves the GPUs better as a "
                   "whole, the latter some of them, and nothing mounted or routed over them tells "
                   "which is for training.  All are left to NCCL, which joins a port to those of "
                   "its own fabric alone.  If it is the former, set NCCL_IB_HCA='=%s', else "
                   "NCCL_IB_HCA='=%s'.",
                   wanted_set_text(s, keep), wanted_set_text(s, uneven), wanted_set_names(s, keep),
                   wanted_set_names(s, uneven));
}

static void wanted_subnet(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    const char *best = best_subnet(s);
    bool *keep = subnet_set(s, best), *whole = wanted_set_whole(s, keep);
    bool *rival = arena_array(s->a, bool, c->ports_count + 1);
    bool *uneven = arena_array(s->a, bool, c->ports_count + 1);
    struct wanted_step st = step_new(s);

    for (size_t i = 0; best && i < c->ports_count; i++) {
        const struct nccl_port *p = &c->ports[i];
        bool *mine;

        if (!p->wanted || port_is_ethernet(p) || !p->network || keep[i])
            continue;
        /* with what is down on either: machines that are well must come to the same */
        mine = wanted_set_whole(s, subnet_set(s, p->network));
        rival[i] = subnet_is_rival(s, keep, mine);
        st.drop[i] = !rival[i] && set_suffices(s, whole) && subnet_is_lesser(s, mine, whole);
        for (size_t k = 0; st.drop[i] && k < c->ports_count; k++)
            st.drop[i] = !mine[k] || wanted_set_covers(s, whole, &c->ports[k]);
        uneven[i] = st.drop[i] && !set_is_busy(s, mine) && subnet_is_uneven(s, whole, mine);
        st.drop[i] = st.drop[i] && !uneven[i];
        /* a rail that is missing altogether is no reason to send over what storage is on */
        st.drop[i] =
            st.drop[i] || (p->storage && subnet_is_busy(s, p->network) && set_reaches(s, keep));
        st.ignore[i] = st.drop[i];
        st.why[i] = arena_printf(s->a, "It is on another InfiniBand fabric (%s) than the others.",
                                 p->network);
    }
    st.purpose = true;
    (void)step_take(s, &st);
    doubt_subnets(s, keep, rival, uneven);
}

bool *wanted_set_wanted(const struct nccl_run *s)
{
    bool *set = arena_array(s->a, bool, s->c->ports_count + 1);

    for (size_t i = 0; i < s->c->ports_count; i++)
        set[i] = s->c->ports[i].wanted;
    return set;
}

/* ---- 3. place ---- */

static void wanted_place(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct wanted_step st = step_new(s);
    bool *set = wanted_set_wanted(s);

    for (size_t i = 0; i < c->ports_count; i++) {
        bool known = false, near = false;

        for (size_t g = 0; set[i] && g < s->hw->gpus_count; g++) {
            int rank = port_rank(s, g, &c->ports[i]);

            known = known || rank >= 0;
            near = near || (rank >= 0 && rank == nearest_rank(s, set, g));
        }
        st.drop[i] = set[i] && known && !near;
        st.why[i] = "Every GPU has a nearer port.";
    }
    (void)step_take(s, &st);
}

/* ---- 4. rate ---- */

/* A faster port of another model is as near to this GPU. */
static bool beaten_at(const struct nccl_run *s, const struct nccl_port *p, size_t gpu)
{
    int rank = port_rank(s, gpu, p);

    FOR_EACH(const struct nccl_port, q, s->c->ports) {
        if (q->wanted && q != p && p->rate_mbps.known && q->rate_mbps.known &&
            q->rate_mbps.v > p->rate_mbps.v && wanted_models_differ(s, p, q) &&
            port_rank(s, gpu, q) == rank)
            return true;
    }
    return false;
}

static void wanted_rate(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct wanted_step st = step_new(s);
    bool *set = wanted_set_wanted(s);

    for (size_t i = 0; i < c->ports_count; i++) {
        size_t near = 0, beaten = 0;

        for (size_t g = 0; set[i] && g < s->hw->gpus_count; g++) {
            int rank = port_rank(s, g, &c->ports[i]);

            if (rank < 0 || rank != nearest_rank(s, set, g))
                continue;
            near++;
            beaten += beaten_at(s, &c->ports[i], g);
        }
        st.drop[i] = near && beaten == near;
        st.why[i] = "It is slower than a NIC of another model that is as near.";
    }
    (void)step_take(s, &st);
}

/* ---- a fabric that is down altogether ---- */

const char *wanted_set_text(struct nccl_run *s, const bool *set)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < s->c->ports_count; i++)
        if (set[i])
            buf_addf(&b, "%s%s:%lld", b.len ? ", " : "", s->c->ports[i].dev,
                     (long long)s->c->ports[i].port);
    return nccl_text(s->a, &b);
}

static bool set_has_layer(const struct nccl_run *s, const bool *set, const char *layer)
{
    for (size_t i = 0; i < s->c->ports_count; i++)
        if (set[i] && str_eq(s->c->ports[i].link_layer, layer))
            return true;
    return false;
}

/* What is left is for something else: file systems, the front end, or another layer. */
static bool set_is_other(const struct nccl_run *s, const bool *set, const bool *dead)
{
    bool layer = false, purpose = false;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *p = &s->c->ports[i];

        if (!set[i])
            continue;
        if (!wanted_port_is_busy(s, p) && set_has_layer(s, dead, p->link_layer))
            return false;
        layer = layer || !set_has_layer(s, dead, p->link_layer);
        purpose = purpose || wanted_port_is_busy(s, p);
    }
    return purpose || (layer && wanted_set_worth_up(s, dead) >= set_worth(s, set));
}

/* The ports at the GPUs that are down, where what is up is no network of theirs; NULL: they
 * have theirs.  Those that somebody turned off are among them only where they are nearer to
 * every GPU than what is up, and what is up is known to be for something else: somebody may
 * have bought more ports than he cabled. */
static bool *set_gone(const struct nccl_run *s, const bool *set)
{
    struct nccl_choice *c = s->c;
    bool *dead = arena_array(s->a, bool, c->ports_count + 1);
    bool *lost = arena_array(s->a, bool, c->ports_count + 1), all = true;

    for (size_t i = 0; i < c->ports_count; i++) {
        dead[i] = wanted_port_is_dead(s, &c->ports[i]);
        lost[i] = port_is_lost(s, &c->ports[i]);
    }
    for (size_t i = 0; i < c->ports_count; i++)
        all = all && (!set[i] || wanted_set_covers(s, dead, &c->ports[i]));
    if (all && wanted_set_count(s, dead) && set_is_other(s, set, dead))
        return dead;
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        int near = nearest_rank(s, lost, g), up = nearest_rank(s, set, g);

        if (near < 0 || (up >= 0 && up <= near))
            return NULL;
    }
    return set_is_busy(s, set) ? lost : NULL;
}

/* The ports that belong to the GPUs are all down.  To name what is left would be to train
 * over the storage network or the front end, with no peer on it: NCCL is left alone, and the
 * reader is told. */
static void wanted_alive(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    bool *set = wanted_set_wanted(s), *gone;

    gone = wanted_set_count(s, set) && s->hw->gpus_count ? set_gone(s, set) : NULL;
    if (!gone)
        return;
    c->gone_why = arena_printf(
        s->a,
        "The ports that belong to the GPUs are down: %s.  What is up (%s) is another network, "
        "where machines that are well have no peer for it: this one cannot train with others until "
        "the links are mended.",
        wanted_set_text(s, gone), wanted_set_text(s, set));
    nccl_doubt(s, "%s", c->gone_why);
    c->all_why = NULL;
    for (size_t i = 0; i < c->ports_count; i++)
        c->ports[i].wanted = c->ports[i].counts = c->ports[i].takes;
    for (size_t i = 0; i < c->ports_count; i++)
        c->ports[i].aside = false;
}

/* ---- file systems whose network is not known ---- */

/* The ports of its network could be left out: the GPUs have others as near. */
static bool net_is_spare(const struct nccl_run *s, const bool *wanted, const struct nccl_port *p)
{
    bool *others = arena_array(s->a, bool, s->c->ports_count + 1);
    const char *net = ip_net_of(p) ? ip_net_of(p) : p->network;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *q = &s->c->ports[i];

        others[i] = wanted[i] && !str_eq(ip_net_of(q) ? ip_net_of(q) : q->network, net);
    }
    if (!net || !wanted_set_count(s, others) || !set_suffices(s, others))
        return false;
    for (size_t i = 0; i < s->c->ports_count; i++)
        if (wanted[i] && !others[i] && !wanted_set_covers(s, others, &s->c->ports[i]))
            return false;
    return !port_is_rail(s, wanted, others, p);
}

static void wanted_mounts(struct nccl_run *s)
{
    const struct hw_mount *m = fabric_unplaced(s->a, s->hw);
    bool *wanted = wanted_set_wanted(s), spare = false;

    for (size_t i = 0; m && i < s->c->ports_count; i++)
        spare = spare || (wanted[i] && net_is_spare(s, wanted, &s->c->ports[i]));
    if (spare)
        nccl_doubt(s,
                   "%s is mounted on %s (%s), and over which network cannot be told: if it is that "
                   "of some of the ports, these are for storage and should be left out.",
                   m->source ? m->source : "A file system", m->target ? m->target : "-", m->fstype);
}

/* ---- as many as NCCL takes ---- */

static void wanted_limit(struct nccl_run *s)
{
    size_t count = 0;

    FOR_EACH(struct nccl_port, p, s->c->ports) {
        if (p->wanted && ++count > nccl_ports_max(s->hw)) {
            p->wanted = false;
            p->wanted_why =
                arena_printf(s->a, "NCCL uses %zu ports at most.", nccl_ports_max(s->hw));
        }
    }
}

/* Beyond NCCL's limit a port in the list keeps another out that NCCL would have taken: what
 * we name must not be worse for it.  Then it is of those that NCCL takes by itself, and at
 * the very least it is these. */
static void wanted_guard(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;

    for (int last = 0; last < 2 && !score_choose(s); last++) {
        size_t taken = 0;

        FOR_EACH(struct nccl_port, p, c->ports) {
            bool own = p->takes && taken++ < nccl_ports_max(s->hw);

            if (p->wanted && !own)
                p->wanted_why = arena_printf(s->a,
                                             "NCCL uses %zu ports at most, and with it in the "
                                             "place of another a GPU would have less.",
                                             nccl_ports_max(s->hw));
            p->wanted = own && (last || p->wanted);
        }
        if (last)
            c->all_why = "With any other a GPU would have less.";
    }
    (void)score_choose(s);
}

/* ---- what cannot be told ---- */

/* What tells a RoCE port's fabric apart where nothing is mounted over it: a network that it
 * shares with ports elsewhere (rails have one each), the model of its card, its MTU. */
static const char *fabric_key(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);
    const struct hw_net *n = p->gid_ndev ? hw_find_net(s->hw, p->gid_ndev) : NULL;
    bool *all = wanted_set_wanted(s);
    bool shared = false;

    for (size_t i = 0; i < s->c->ports_count; i++)
        shared = shared || (all[i] && &s->c->ports[i] != p && p->network &&
                            str_eq(s->c->ports[i].network, p->network) &&
                            !places_equal(s, all, p, &s->c->ports[i]));
    return arena_printf(s->a, "%s%s%s, MTU %lld", shared ? p->network : "a network each",
                        r && r->hca ? ", " : "", r && r->hca ? r->hca : "",
                        (long long)(n ? maybe_or(n->mtu, -1) : -1));
}

static bool *key_set(const struct nccl_run *s, const char *const *keys, const char *key)
{
    bool *set = arena_array(s->a, bool, s->c->ports_count + 1);

    for (size_t i = 0; i < s->c->ports_count; i++)
        set[i] = keys[i] && str_eq(keys[i], key);
    return set;
}

/* Ports of two kinds beside the same GPUs: two planes of one fabric, or a second fabric.
 * All stay, since leaving out half of one would be worse than doing nothing. */
static void doubt_fabric(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    const char **keys = arena_array(s->a, const char *, c->ports_count + 1);
    size_t first = c->ports_count;

    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted && c->ports[i].picked && port_is_ethernet(&c->ports[i])) {
            keys[i] = fabric_key(s, &c->ports[i]);
            first = first < c->ports_count ? first : i;
        }
    for (size_t i = first + 1; i < c->ports_count; i++) {
        bool *one = key_set(s, keys, keys[first]), *two, beside = true;

        if (!keys[i] || str_eq(keys[i], keys[first]))
            continue;
        two = key_set(s, keys, keys[i]);
        for (size_t k = 0; k < c->ports_count; k++)
            beside = beside && (!two[k] || wanted_set_covers(s, one, &c->ports[k]));
        if (!beside || wanted_set_count(s, two) < 2)
            continue;
        nccl_doubt(s,
                   "%s (%s) may be another fabric than %s (%s): both are as near to the GPUs, "
                   "and nothing mounted or routed over them tells.  All are left to NCCL.  If the "
                   "former is for storage, set NCCL_IB_HCA='=%s'.",
                   wanted_set_names(s, two), keys[i], wanted_set_names(s, one), keys[first],
                   wanted_set_names(s, one));
        return;
    }
}

/* A wanted port that is the like of `p` in model, rate and place at the GPU. */
static bool port_has_like(const struct nccl_run *s, size_t gpu, const struct nccl_port *p)
{
    FOR_EACH(const struct nccl_port, q, s->c->ports) {
        if (q->wanted && port_rank(s, gpu, q) == port_rank(s, gpu, p) &&
            !wanted_models_differ(s, p, q) && str_eq(p->link_layer, q->link_layer) &&
            maybe_is(q->rate_mbps, p->rate_mbps.v))
            return true;
    }
    return false;
}

/* Every GPU has an InfiniBand port that was set aside and is the like of one that it keeps:
 * storage for each GPU, or a second plane of the training fabric that file systems are mounted
 * over.  With RoCE the planes are rails, and a network that spans the GPUs beside them is none. */
static void doubt_planes(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    bool *aside = arena_array(s->a, bool, c->ports_count + 1), *set = wanted_set_wanted(s);
    const struct nccl_score *x = c->scores_count ? &c->scores[0] : NULL;

    for (size_t i = 0; i < c->ports_count; i++)
        aside[i] = c->ports[i].aside && !port_is_ethernet(&c->ports[i]) &&
                   (c->ports[i].storage || c->ports[i].frontend);
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        bool like = false;

        for (size_t i = 0; i < c->ports_count; i++)
            like = like || (aside[i] && c->ports[i].rate_mbps.known &&
                            port_rank(s, g, &c->ports[i]) == nearest_rank(s, set, g) &&
                            port_has_like(s, g, &c->ports[i]));
        if (!like)
            return;
    }
    if (wanted_set_count(s, aside) < 2 || wanted_set_count(s, aside) != wanted_set_count(s, set) ||
        !x || !x->dflt.all_mbps.known)
        return;
    nccl_doubt(s,
               "%s are left out, since file systems or the default route are on their network; but "
               "they are like %s in all else, one or more for every GPU.  If they are a second "
               "plane of the fabric for training, leave NCCL_IB_HCA unset: each GPU has %s then, "
               "not %s.",
               wanted_set_text(s, aside), wanted_set_text(s, set),
               nccl_rate_text(s->a, x->dflt.all_mbps), nccl_rate_text(s->a, x->ours.mbps));
}

static const char *wanted_text(struct nccl_run *s, const struct nccl_port *p)
{
    return arena_printf(s->a, "ACTIVE at %s%s%s%s.", nccl_rate_text(s->a, p->rate_mbps),
                        p->near_path ? ", " : "", p->near_path ? p->near_path : "",
                        p->near_path ? " from the nearest GPU" : "");
}

void wanted_choose(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct port_layer ib, eth;
    bool even;

    wanted_addresses(s);
    if (nccl_env_of(s->hw, "NCCL_IB_HCA")) {
        for (size_t i = 0; i < c->ports_count; i++) {
            c->ports[i].wanted = c->ports[i].picked;
            c->ports[i].wanted_why = "NCCL_IB_HCA is set already and decides.";
        }
        wanted_functions_count(s);
        (void)score_choose(s);
        c->score_text = score_text(s->a, c, "with NCCL_IB_HCA as it is set");
        return;
    }
    wanted_functions(s);
    wanted_hardware(s);
    wanted_use(s);
    ib = layer_of(s, false);
    eth = layer_of(s, true);
    even = ib.count && eth.count && layers_even(s, &ib, &eth);
    if (!ib.count || !eth.count || layer_choose(s, &ib, &eth, even)) {
        wanted_purpose(s);
        wanted_subnet(s);
        wanted_place(s);
        wanted_rate(s);
        wanted_alive(s);
        wanted_mounts(s);
        if (!c->gone_why)
            wanted_use_doubt(s);
    } else { /* naming some would make the mixture ours */
        for (size_t i = 0; i < c->ports_count; i++)
            c->ports[i].wanted = c->ports[i].takes;
    }
    if (even && !c->gone_why)
        doubt_layers(s, &ib, &eth);
    wanted_limit(s);
    wanted_guard(s);
    score_aside(s);
    c->score_text = score_text(s->a, c, "with the wanted ports");
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted)
            c->ports[i].wanted_why = wanted_text(s, &c->ports[i]);
    if (!ports_off(s->hw)) {
        doubt_planes(s);
        doubt_fabric(s);
    }
}

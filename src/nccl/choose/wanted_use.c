/* SPDX-License-Identifier: MIT */
/* wanted_use: does what else a network carries tell what it is for?
 *
 * File systems and the default route make a network theirs where the GPUs have other ports that
 * serve them as well.  They also go over the network for training where that is one flat network
 * for everything, and then say nothing against its ports.  So the use of a layer's ports is
 * believed unless they by themselves would serve the GPUs better than all ports without such a use,
 * and look like the fabric of the GPUs: several cards on one network, a card for each GPU, or by
 * far more bandwidth.  Ports in such doubt count as if they had no other use: NCCL's own choice is
 * then scored with them, and nothing is named in their place. */
#include "nccl/nccl_int.h"

#include "base/str.h"

enum {
    USE_FAR_MORE = 4, /* times the worth of the rest: no storage network has as much */
    LAYERS = 2
};

bool wanted_port_is_busy(const struct nccl_run *s, const struct nccl_port *p)
{
    return (p->storage || p->frontend) && !(s->shared && s->shared[p - s->c->ports]);
}

/* The ports of a layer that have another use, or those that have none: the latter with the links
 * that are down, as on a machine that is well. */
static bool *use_set(const struct nccl_run *s, const char *layer, bool busy)
{
    bool *set = arena_array(s->a, bool, s->c->ports_count + 1);

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *p = &s->c->ports[i];

        set[i] = str_eq(p->link_layer, layer) && wanted_port_is_busy(s, p) == busy &&
                 (p->wanted || (!busy && wanted_port_is_dead(s, p)));
    }
    return busy ? set : wanted_set_whole(s, set);
}

/* Two cards of the set on one network, or as many cards as GPUs. */
static bool set_is_fabric(const struct nccl_run *s, const bool *set)
{
    const struct nccl_choice *c = s->c;
    size_t cards = 0;

    for (size_t i = 0; i < c->ports_count; i++) {
        bool first = set[i];

        for (size_t k = 0; k < i; k++) {
            bool same = set[i] && set[k] && str_eq(c->ports[i].card, c->ports[k].card);

            first = first && !same;
            if (set[i] && set[k] && !same && str_eq(c->ports[i].network, c->ports[k].network))
                return true;
        }
        cards += first;
    }
    return cards > 1 && cards >= s->hw->gpus_count;
}

/* `busy` by itself is worth as much as either layer's ports without another use, and some GPU has
 * more of it. */
static bool use_is_doubtful(const struct nccl_run *s, const bool *busy, const bool *const *rest)
{
    int64_t worth = wanted_set_worth_up(s, busy), most = 0;

    for (size_t l = 0; l < LAYERS; l++) {
        int64_t other = wanted_set_worth_up(s, rest[l]);

        if (wanted_set_dominates(s, rest[l], busy))
            return false;
        most = other > most ? other : most;
    }
    return most && worth >= most && (worth >= USE_FAR_MORE * most || set_is_fabric(s, busy));
}

void wanted_use(struct nccl_run *s)
{
    static const char *const layers[LAYERS] = { "InfiniBand", "Ethernet" };
    const bool *busy[LAYERS], *rest[LAYERS];

    for (size_t l = 0; l < LAYERS; l++) {
        busy[l] = use_set(s, layers[l], true);
        rest[l] = use_set(s, layers[l], false);
    }
    s->shared = arena_array(s->a, bool, s->c->ports_count + 1);
    for (size_t l = 0; s->hw->gpus_count && l < LAYERS; l++) {
        bool doubtful = wanted_set_count(s, busy[l]) && use_is_doubtful(s, busy[l], rest);

        for (size_t i = 0; i < s->c->ports_count; i++)
            s->shared[i] = s->shared[i] || (busy[l][i] && doubtful);
    }
}

bool wanted_set_is_shared(const struct nccl_run *s, const bool *set)
{
    for (size_t i = 0; i < s->c->ports_count; i++)
        if (set[i] && s->shared[i])
            return true;
    return false;
}

void wanted_use_doubt(struct nccl_run *s)
{
    bool *mine = arena_array(s->a, bool, s->c->ports_count + 1);
    bool *others = arena_array(s->a, bool, s->c->ports_count + 1);

    for (size_t i = 0; i < s->c->ports_count; i++) {
        mine[i] = s->c->ports[i].wanted && s->shared[i];
        others[i] = s->c->ports[i].wanted && !s->shared[i];
    }
    if (wanted_set_count(s, mine) && wanted_set_count(s, others))
        nccl_doubt(
            s,
            "File systems or the default route are on the network of %s, which serve the "
            "GPUs better than %s: whether they are for that or for training cannot be "
            "told.  All are left to NCCL.  If they are not for training, set NCCL_IB_HCA='=%s'.",
            wanted_set_text(s, mine), wanted_set_text(s, others), wanted_set_names(s, others));
}

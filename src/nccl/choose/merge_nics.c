/* SPDX-License-Identifier: MIT */
/* merge_nics: ports of one card that NCCL takes for one NIC, with the sum of their rates.
 *
 * From 2.20 on (NCCL_IB_MERGE_NICS), of one link layer, and of those in use only: a port that is
 * left out makes the NIC narrower.  Up to 2.23 two ports at most, of one system image GUID, and
 * from 2.22 on none at all where one NIC has more ports than another; from 2.24 on four, unless
 * NCCL_NET_MERGE_LEVEL=LOC.
 * The fusing of whole cards that NCCL_NET_MERGE_LEVEL and NCCL_NET_FORCE_MERGE ask for is not
 * followed. */
#include "nccl/nccl_int.h"

#include "base/str.h"

enum { MERGE_MAX = 4, FUSE_MAX_BEFORE_224 = 2 };

/* Ports of one card that this NCCL takes for one NIC. */
static size_t merge_max(const struct hw *hw)
{
    if (nccl_older_than(hw, 2, 20) || nccl_env_int(hw, "NCCL_IB_MERGE_NICS", 1) == 0)
        return 1;
    if (nccl_older_than(hw, 2, 24))
        return FUSE_MAX_BEFORE_224;
    return str_eq(nccl_env_of(hw, "NCCL_NET_MERGE_LEVEL"), "LOC") ? 1 : MERGE_MAX;
}

static const char *image_guid(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);

    return r ? r->sys_image_guid : NULL;
}

static const char *card_base(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);

    return !r ? NULL : r->physfn ? r->physfn : r->bdf;
}

/* Before 2.24 NCCL also asks the card for its GUID: what a virtual machine shows at one bus may
 * be several cards.  Where none is told, the slot stands for it. */
static bool cards_equal(const struct nccl_run *s, const struct nccl_port *p,
                        const struct nccl_port *q)
{
    const char *a = card_base(s, p), *b = card_base(s, q);
    const char *dot = a ? strrchr(a, '.') : NULL;
    const char *mine = image_guid(s, p), *other = image_guid(s, q);

    if (!str_eq(p->card, q->card) || !str_eq(p->link_layer, q->link_layer))
        return false;
    if (!nccl_older_than(s->hw, 2, 24))
        return true;
    return mine && other ? str_eq(mine, other)
                         : (dot && b && !strncmp(a, b, (size_t)(dot - a) + 1));
}

/* For each port of `set`, the first of its NIC. */
static void merge_cards(const struct nccl_run *s, const bool *set, size_t *first)
{
    size_t max = merge_max(s->hw), count = s->c->ports_count;
    size_t *members = arena_array(s->a, size_t, count + 1);

    for (size_t i = 0; i < count; i++) {
        first[i] = i;
        for (size_t k = 0; set[i] && s->c->ports[i].card && k < i; k++)
            if (set[k] && first[k] == k && members[k] < max &&
                cards_equal(s, &s->c->ports[k], &s->c->ports[i])) {
                first[i] = k;
                break;
            }
        members[first[i]]++;
    }
    if (nccl_older_than(s->hw, 2, 22) || !nccl_older_than(s->hw, 2, 24))
        return;
    for (size_t i = 0, one = count; i < count; i++) {
        if (!set[i] || first[i] != i)
            continue;
        one = one == count ? i : one;
        for (size_t k = 0; members[i] != members[one] && k < count; k++)
            first[k] = k;
    }
}

struct merged_nics merge_nics_of(const struct nccl_run *s, const bool *set)
{
    size_t count = s->c->ports_count;
    struct merged_nics out = { .first = arena_array(s->a, size_t, count + 1),
                               .rates = arena_array(s->a, int64_t, count + 1) };

    merge_cards(s, set, out.first);
    for (size_t i = 0; i < count; i++)
        out.rates[out.first[i]] += score_port_mbps(s, &s->c->ports[i]);
    for (size_t i = 0; i < count; i++)
        out.rates[i] = out.rates[out.first[i]];
    return out;
}

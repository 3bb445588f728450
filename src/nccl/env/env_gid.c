/* SPDX-License-Identifier: MIT */
/* env_gid: the address that RoCE ports speak from: NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY and
 * NCCL_IB_ADDR_RANGE.
 *
 * NCCL's own search (gid.c) is left alone where it ends on a good address on every port.  Where
 * it does not, the family or the range that mends it is set (gid_networks.c finds the range), and a
 * number only when nothing else does: it may differ between pods. */
#include "nccl/env/env_int.h"

#include "base/str.h"

enum { GID_TRY_MAX = 256 };

/* The table of a wanted port whose address is searched for; InfiniBand ports use entry 0. */
static const struct hw_rdma_port *roce_port(const struct env_run *r, const struct nccl_port *p)
{
    return p->wanted && str_eq(p->link_layer, "Ethernet") ? ports_find(r->hw, p->dev, p->port)
                                                          : NULL;
}

/* Where the search ends on every wanted port with this rule.  True when it is a usable
 * entry on all; *out_index is the common index, -1 when they differ. */
static bool search_ok(const struct env_run *r, const struct gid_rule *rule, int64_t *out_index)
{
    int64_t common = -2;

    FOR_EACH(const struct nccl_port, p, r->c.ports) {
        const struct hw_rdma_port *hp = roce_port(r, p);

        int64_t index;

        if (!hp)
            continue;
        index = gid_scan(hp, rule);
        if (!gid_usable(r->hw, gid_at(hp, index)))
            return false;
        common = common == -2 || common == index ? index : -1;
    }
    *out_index = common;
    return common != -2;
}

/* It is usable on every wanted port. */
static bool index_serves(const struct env_run *r, int64_t index, bool v4)
{
    size_t good = 0, all = 0;

    FOR_EACH(const struct nccl_port, p, r->c.ports) {
        const struct hw_rdma_port *hp = roce_port(r, p);
        const struct hw_gid *g = hp ? gid_at(hp, index) : NULL;
        struct gid v;

        all += hp != NULL;
        good += g && gid_usable(r->hw, g) && gid_parse(g->gid, &v) && (!v4 || gid_is_v4(&v));
    }
    return good && good == all;
}

/* An index that is usable on every wanted port: of a network without file systems first, IPv4
 * first; -1: none. */
static int64_t common_index(const struct env_run *r)
{
    for (int pass = 0; pass < 4; pass++)
        for (int64_t index = 0; index < GID_TRY_MAX; index++)
            if (index_serves(r, index, pass % 2 == 0) &&
                gid_networks_agree_at(r->hw, &r->c, index, pass >= 2))
                return index;
    return -1;
}

static const char *index_text(const struct env_run *r, const struct gid_rule *rule)
{
    struct buf b = { 0 };

    for (size_t i = 0, n = 0; i < r->c.ports_count; i++) {
        const struct nccl_port *p = &r->c.ports[i];
        const struct hw_rdma_port *hp = roce_port(r, p);

        if (hp)
            buf_addf(&b, "%s%lld on %s", n++ ? ", " : "", (long long)gid_scan(hp, rule), p->dev);
    }
    return nccl_text(r->a, &b);
}

/* The search is right, with or without NCCL_IB_ADDR_FAMILY. */
static struct env_verdict gid_found(const struct env_run *r, const struct gid_rule *rule,
                                    int64_t index)
{
    const char *with = !r->c.gid_range
                           ? (r->need_inet6 ? "With NCCL_IB_ADDR_FAMILY=AF_INET6 " : "")
                           : arena_printf(r->a, "With NCCL_IB_ADDR_RANGE=%s%s ", r->c.gid_range,
                                          r->need_inet6 ? " and AF_INET6" : "");

    if (index < 0)
        return env_unset(
            arena_printf(r->a,
                         "%sNCCL's search ends on a good RoCE v2 address on every port, "
                         "but at different indices (%s), so one number cannot serve "
                         "them all.",
                         with, index_text(r, rule)));
    if (r->full)
        return env_set(NCCL_PINNED, arena_printf(r->a, "%lld", (long long)index),
                       arena_printf(r->a,
                                    "%sNCCL's search ends at index %lld on every port, a routable "
                                    "RoCE v2 address.  The index may differ between pods and "
                                    "nodes: unset is safer.",
                                    with, (long long)index));
    return env_unset(
        arena_printf(r->a,
                     "%sNCCL's own search ends at index %lld on every port, a routable "
                     "RoCE v2 address of this network namespace.",
                     with, (long long)index));
}

/* Every wanted RoCE port has an address that routers pass on, at whatever index. */
static bool roce_is_routable(const struct env_run *r)
{
    FOR_EACH(const struct nccl_port, p, r->c.ports) {
        const struct hw_rdma_port *hp = roce_port(r, p);

        if (hp && gid_port_class(r->hw, hp) != GID_ROUTABLE)
            return false;
    }
    return true;
}

static struct env_verdict gid_pinned(const struct env_run *r, const char *why)
{
    int64_t index = common_index(r);

    if (index < 0)
        return env_unset(arena_printf(
            r->a,
            "%s  No index holds a routable RoCE v2 address of one network "
            "on every port, so none can be given%s",
            why,
            nccl_older_than(r->hw, 2, 21) ? "; NCCL_IB_ADDR_RANGE, which chooses by network, came "
                                            "with NCCL 2.21."
            : roce_is_routable(r)         ? "."
                                  : ": RDMA will work within one Ethernet segment at best."));
    return env_set(
        NCCL_REQUIRED, arena_printf(r->a, "%lld", (long long)index),
        arena_printf(r->a,
                     "%s  Index %lld is a routable RoCE v2 address on every port here; "
                     "it may differ between pods and nodes, so set it on each by what is "
                     "found there.",
                     why, (long long)index));
}

static const char *search_fault(const struct env_run *r)
{
    for (size_t i = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].wanted && r->c.ports[i].picked && !r->c.ports[i].gid_ok)
            return arena_printf(r->a, "NCCL's search goes wrong on %s.  %s", r->c.ports[i].dev,
                                r->c.ports[i].gid_why);
    return "NCCL's search does not end on a routable RoCE v2 address on every port.";
}

static struct env_verdict gid_decide(struct env_run *r)
{
    struct gid_rule rule, six;
    int64_t index = -1;

    if (!r->wanted)
        return r->full && !r->c.efa ? env_unset(r->off ? r->off : "No RoCE port can be used.")
                                    : env_nothing();
    if (!r->roce)
        return env_unset("The fabric is InfiniBand, where NCCL never reads it and uses entry 0.");
    if (nccl_older_than(r->hw, 2, 21))
        return gid_pinned(r, arena_printf(r->a,
                                          "NCCL %s does not search for an address (2.21 and "
                                          "later do) and would take index 0.",
                                          r->c.nccl_version));
    gid_rule_of(r->hw, &rule);
    if (r->c.gid_range)
        rule.prefix_bits = 0;
    (void)gid_rule_range(&rule, r->c.gid_range);
    if (rule.prefix_bits && !r->c.gid_range &&
        (r->c.gid_nets_why || !search_ok(r, &rule, &index)) &&
        nccl_env_of(r->hw, "NCCL_IB_ADDR_RANGE"))
        return env_unset(arena_printf(
            r->a, "%s  NCCL_IB_ADDR_RANGE=%s is set and wins: unset it%s%s.",
            r->c.gid_nets_why ? r->c.gid_nets_why : search_fault(r),
            nccl_env_of(r->hw, "NCCL_IB_ADDR_RANGE"), r->c.gid_offer ? ", or set it to " : "",
            r->c.gid_offer ? r->c.gid_offer : ""));
    if (r->c.gid_nets_why && !r->c.gid_range)
        return env_unset(
            arena_printf(r->a,
                         "%s  No index and no single NCCL_IB_ADDR_RANGE puts them on one "
                         "network: give each port its addresses in the same order.",
                         r->c.gid_nets_why));
    if (search_ok(r, &rule, &index))
        return gid_found(r, &rule, index);
    six = (struct gid_rule){ .family = 6, .version = rule.version };
    (void)gid_rule_range(&six, r->c.gid_range);
    if (rule.family != 6 && !nccl_env_of(r->hw, "NCCL_IB_ADDR_FAMILY") &&
        search_ok(r, &six, &index)) {
        r->need_inet6 = true;
        return gid_found(r, &six, index);
    }
    return gid_pinned(r, search_fault(r));
}

struct env_verdict env_addr_family(const struct env_run *r)
{
    if (!r->need_inet6)
        return env_nothing();
    return env_set(
        NCCL_REQUIRED, "AF_INET6",
        arena_printf(r->a,
                     "NCCL looks for an IPv4 address, and not every port has one of RoCE "
                     "v2; each has an IPv6 one.  %s",
                     search_fault(r)));
}

struct env_verdict env_addr_range(const struct env_run *r)
{
    if (!r->wanted || !r->roce || !r->c.gid_range)
        return env_nothing();
    return env_set(
        NCCL_REQUIRED, r->c.gid_range,
        arena_printf(r->a,
                     "%s  With this range NCCL's search ends on every port at an address "
                     "of one fabric.",
                     r->c.gid_nets_why));
}

struct env_verdict env_gid_index(const struct env_run *r)
{
    struct env_run copy = *r;

    return gid_decide(&copy);
}

struct maybe env_gid_pin(const struct nccl_run *s)
{
    struct env_run r = { .hw = s->hw, .a = s->a, .c = *s->c };
    struct env_verdict v;
    int64_t index;

    if (nccl_env_of(s->hw, "NCCL_IB_GID_INDEX"))
        return maybe_none();
    env_ports_count(&r);
    v = gid_decide(&r);
    return v.said && v.kind == NCCL_REQUIRED && str_to_i64(v.value, 10, &index) ? maybe_of(index)
                                                                                : maybe_none();
}

bool env_gid_wants_inet6(const struct env_run *r)
{
    struct env_run copy = *r;

    (void)gid_decide(&copy);
    return copy.need_inet6 &&
           nccl_env_int(r->hw, "NCCL_IB_GID_INDEX", -1) < 0; /* else NCCL does not search */
}

/* SPDX-License-Identifier: MIT */
/* wanted_rails: rails that do not lead to each other, one of which is down or slow.
 *
 * NCCL joins channel to channel, and the ports of a card in turn, whatever network each is on.
 * A GPU that goes by other rails than on machines that are well, or by fewer, meets them where
 * they do not lead: nothing we could print mends that, so it is told. */
#include "nccl/nccl_int.h"

#include "base/str.h"

struct astray { /* the GPUs that go by ports which they leave to others where all is well */
    bool *gpus; /* for each of hw->gpus[] */
    bool *dead; /* for each port: one of their own, and down */
    size_t count;
    bool slowed;      /* some rail of theirs runs below others of its model: it is not built so */
    bool *short_gpus; /* ... that go on by the rest of their own, one being down */
    bool *short_dead;
    size_t short_count;
};

/* Another port of this model is faster. */
static bool port_is_slowed(const struct nccl_run *s, size_t port)
{
    const struct nccl_port *p = &s->c->ports[port];

    FOR_EACH(const struct nccl_port, q, s->c->ports) {
        if (str_eq(q->state, "ACTIVE") && str_eq(q->link_layer, p->link_layer) &&
            !wanted_models_differ(s, p, q) && maybe_or(q->rate_mbps, 0) > maybe_or(p->rate_mbps, 0))
            return true;
    }
    return false;
}

/* A GPU that has no rail of its own on any machine like this one is not among them. */
static struct astray astray_of(const struct nccl_run *s, const bool *set, const bool *dead)
{
    size_t ports = s->c->ports_count;
    struct score_way *now = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    struct score_way *well = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    struct astray out = { .gpus = arena_array(s->a, bool, s->hw->gpus_count + 1),
                          .dead = arena_array(s->a, bool, ports + 1),
                          .short_gpus = arena_array(s->a, bool, s->hw->gpus_count + 1),
                          .short_dead = arena_array(s->a, bool, ports + 1) };
    bool *whole = arena_array(s->a, bool, ports + 1);

    for (size_t i = 0; i < ports; i++)
        whole[i] = set[i] || dead[i];
    score_set(s, set, now);
    score_set_well(s, whole, well);
    for (size_t k = 0; k < s->c->scores_count; k++) {
        size_t g = s->c->scores[k].gpu;

        for (size_t i = 0; i < ports; i++)
            out.gpus[g] = out.gpus[g] || (now[g].serves[i] && !well[g].serves[i]);
        out.count += out.gpus[g];
        for (size_t i = 0; out.gpus[g] && i < ports; i++)
            out.slowed = out.slowed || (well[g].serves[i] && !now[g].serves[i] &&
                                        (dead[i] || port_is_slowed(s, i)));
        for (size_t i = 0; i < ports; i++) {
            if (!dead[i] || !well[g].serves[i])
                continue;
            out.dead[i] = out.dead[i] || out.gpus[g];
            out.short_dead[i] = out.short_dead[i] || !out.gpus[g];
            out.short_gpus[g] = !out.gpus[g];
        }
        out.short_count += out.short_gpus[g];
    }
    return out;
}

/* "0,3": the driver's numbers. */
static const char *gpus_text(struct nccl_run *s, const bool *gpus)
{
    struct buf b = { 0 };

    for (size_t k = 0; k < s->c->scores_count; k++)
        if (gpus[s->c->scores[k].gpu])
            buf_addf(&b, "%s%lld", b.len ? "," : "", (long long)s->c->scores[k].number);
    return nccl_text(s->a, &b);
}

/* "is down", "are down"; "has no address that routers forward" where a link is up. */
static const char *fault_text(const struct nccl_run *s, const bool *set)
{
    bool many = wanted_set_count(s, set) > 1, bare = false, down = false;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        bare = bare || (set[i] && s->c->ports[i].bare);
        down = down || (set[i] && s->c->ports[i].down);
    }
    return bare && down ? "are down or have no address that routers forward"
           : bare       ? many ? "have no address that routers forward"
                               : "has no address that routers forward"
           : many       ? "are down"
                        : "is down";
}

/* Nothing is broken: the rail of these GPUs is of a slower model. */
static void doubt_built(struct nccl_run *s, const struct astray *lost)
{
    nccl_doubt(s,
               "The ports are rails that do not lead to each other, and GPU %s goes by those of "
               "its neighbours, whose NICs are of a faster model than its own.  That is well where "
               "every machine is built like this; others use the rails that are left idle here, "
               "and cannot be reached from there.  Leave these rails out on all (NCCL_IB_HCA), or "
               "give the GPUs equal NICs.",
               gpus_text(s, lost->gpus));
}

/* A GPU that has another rail than its own, dead or slow, meets machines that are well where
 * their rails do not lead: NCCL joins channel to channel, whatever network each is on. */
void wanted_rails(struct nccl_run *s)
{
    bool *set = wanted_set_wanted(s), *dead = arena_array(s->a, bool, s->c->ports_count + 1);
    struct astray lost;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        struct nccl_port *p = &s->c->ports[i];

        p->down = wanted_port_is_down(s, set, p);
        p->bare = wanted_port_is_bare(s, set, p);
        dead[i] = p->down || p->bare;
    }
    if (nccl_env_of(s->hw, "NCCL_IB_HCA") || s->c->gone_why || !ports_isolated_rails(s->hw, s->c))
        return;
    lost = astray_of(s, set, dead);
    if (lost.short_count)
        nccl_doubt(s,
                   "The ports are rails that do not lead to each other, and %s %s: GPU %s goes "
                   "on by the rest of its ports, where machines that are well use all, and NCCL "
                   "joins them in turn, whatever rail each is on: connections to the missing one "
                   "fail.  Drain this machine until it is mended.",
                   wanted_set_text(s, lost.short_dead), fault_text(s, lost.short_dead),
                   gpus_text(s, lost.short_gpus));
    if (!lost.count)
        return;
    s->c->rail_lost = lost.gpus;
    s->c->rail_dead = wanted_set_count(s, lost.dead) > 0;
    if (!s->c->rail_dead && !lost.slowed) {
        doubt_built(s, &lost);
        return;
    }
    nccl_doubt(s,
               "The ports are rails that do not lead to each other, and GPU %s goes by those of "
               "its neighbours%s%s%s: machines that are well use others, and cannot be reached "
               "from there.  Drain this machine until the rail is mended, or leave the rail out "
               "on all.",
               gpus_text(s, lost.gpus), s->c->rail_dead ? ", since " : "",
               s->c->rail_dead ? wanted_set_text(s, lost.dead) : "",
               s->c->rail_dead ? arena_printf(s->a, " %s", fault_text(s, lost.dead))
                               : ", whose rails are faster than its own");
}

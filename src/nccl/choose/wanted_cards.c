/* SPDX-License-Identifier: MIT */
/* wanted_cards: devices that are no NIC of their own: virtual functions of one port, and RDMA in
 * software. */
#include "nccl/nccl_int.h"

#include "base/str.h"

/* ---- virtual functions ---- */

static const char *physfn_of(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);

    return r ? r->physfn : NULL;
}

/* `q` is the port that `vf` is a part of, or comes before it as a part of the same one. */
static bool port_stands_for(const struct nccl_run *s, const struct nccl_port *q,
                            const struct nccl_port *vf)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, q->dev);
    const char *physfn = physfn_of(s, vf);

    if (!q->wanted || q == vf || q->port != vf->port || !r || !physfn)
        return false;
    if ((q->storage && !vf->storage) || (q->frontend && !vf->frontend))
        return false;
    return str_eq(r->bdf, physfn) || (q < vf && str_eq(r->physfn, physfn));
}

/* One port of the card is one port's bandwidth, however many functions it is shown as. */
void wanted_functions(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;

    FOR_EACH(struct nccl_port, p, c->ports) {
        for (size_t k = 0; p->wanted && k < c->ports_count; k++) {
            if (!port_stands_for(s, &c->ports[k], p))
                continue;
            p->wanted = p->counts = false;
            p->wanted_why =
                physfn_of(s, &c->ports[k])
                    ? "It is a virtual function of the same port as another, and adds no bandwidth."
                    : "It is a virtual function of a port that is here itself, and adds no "
                      "bandwidth to it.";
        }
    }
}

static const char *base_bdf(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);

    return !r ? NULL : r->physfn ? r->physfn : r->bdf;
}

static bool ports_are_one(const struct nccl_run *s, const struct nccl_port *p,
                          const struct nccl_port *q)
{
    const char *base = base_bdf(s, p);

    return p->port == q->port && base && str_eq(base, base_bdf(s, q));
}

void wanted_functions_count(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;

    for (int named = 1; named >= 0; named--)
        for (size_t i = 0; i < c->ports_count; i++) {
            struct nccl_port *p = &c->ports[i];

            for (size_t k = 0; p->wanted == named && p->counts && k < c->ports_count; k++) {
                const struct nccl_port *q = &c->ports[k];
                bool before = q->wanted > p->wanted || (q->wanted == p->wanted && k < i);

                p->counts = !(q->counts && before && ports_are_one(s, p, q));
            }
        }
}

/* ---- RDMA in software ---- */

void wanted_hardware(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    const struct nccl_port *soft = NULL;
    bool real = false;

    for (size_t i = 0; i < c->ports_count; i++) {
        const struct hw_rdma *r = hw_find_rdma(s->hw, c->ports[i].dev);

        real = real || (c->ports[i].wanted && r && r->bdf);
        if (c->ports[i].wanted && ports_is_soft(s->hw, c->ports[i].dev))
            soft = &c->ports[i];
    }
    for (size_t i = 0; real && i < c->ports_count; i++)
        if (c->ports[i].wanted && ports_is_soft(s->hw, c->ports[i].dev)) {
            c->ports[i].wanted = c->ports[i].counts = false;
            c->ports[i].wanted_why = "It is RDMA in software, without a NIC of its own.";
        }
    if (soft && !real)
        nccl_doubt(s,
                   "%s is RDMA in software: the processor copies, and no GPU is reached directly. "
                   " NCCL takes it before sockets, which may well be faster; NCCL_IB_DISABLE=1 "
                   "chooses them.",
                   soft->dev);
}

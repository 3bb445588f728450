/* SPDX-License-Identifier: MIT */
/* cost: what a machine costs a month.
 *
 * A rented machine costs its price, or that of its GPUs less what its capacity saves; an owned one
 * what it cost over the years it is kept, its power at the wall (power times PUE) and its place, or
 * that of its GPUs where one of the three is unknown.
 * The page, the alerts and the planner ask here, so that they name one figure. */
#include "render/machine_cost_int.h"

#include <math.h>

const double RENDER_HOURS_A_MONTH = 730;
static const double MONTHS_A_YEAR = 12, MICRO = 1e6;

double render_cost_sum(const struct render_cost *c)
{
    return c->owned ? c->capital + c->energy + c->place : c->rent;
}

double render_cost_monthly(const struct spec_money *m)
{
    double v = (double)m->micro / MICRO;

    switch (m->per) {
    case MONEY_PER_HOUR:
        return v * RENDER_HOURS_A_MONTH;
    case MONEY_PER_DAY:
        return v * RENDER_HOURS_A_MONTH / 24;
    case MONEY_PER_YEAR:
        return v / MONTHS_A_YEAR;
    case MONEY_PER_MONTH:
    case MONEY_ONCE:
        break;
    }
    return v;
}

/* What the group's capacity costs of the price list's hour: 0.4 of spot that saves 60 %. */
static double capacity_share(const struct spec *s, const struct spec_node *n)
{
    const struct spec_num *saved = n->capacity == SPEC_CAPACITY_SPOT ? &s->prices.spot_discount_pct
                                   : n->capacity == SPEC_CAPACITY_RESERVED
                                       ? &s->prices.reserved_discount_pct
                                       : NULL;

    return saved && saved->known ? 1 - saved->v / 100 : 1;
}

static struct render_cost owned_cost(const struct spec_prices *p, const struct spec_node *n)
{
    struct render_cost c = { .rent = NAN, .capital = NAN, .energy = NAN, .place = NAN };

    c.owned = n->capex.known || n->capacity == SPEC_CAPACITY_OWNED;
    if (n->capex.known)
        c.capital = (double)n->capex.micro / MICRO / ((double)p->years * MONTHS_A_YEAR);
    if (n->power_w.known && p->energy_per_kwh.known)
        c.energy = (double)n->power_w.v / 1000 * p->pue * RENDER_HOURS_A_MONTH *
                   ((double)p->energy_per_kwh.micro / MICRO);
    if (n->power_w.known && p->colo_per_kw.known)
        c.place = (double)n->power_w.v / 1000 * render_cost_monthly(&p->colo_per_kw);
    else if (!p->colo_per_kw.known)
        c.place = 0; /* the site's own room: its price is in nobody's bill */
    return c;
}

struct render_cost render_cost_of(const struct spec *s, const struct spec_node *n)
{
    struct render_cost c = owned_cost(&s->prices, n);

    c.from = &n->capex;
    if (n->price.known)
        c = (struct render_cost){ .rent = render_cost_monthly(&n->price), .from = &n->price };
    else if (s->prices.gpu_hour.known && n->gpus_per_node &&
             (!n->capex.known || isnan(render_cost_sum(&c))))
        c = (struct render_cost){ .rent = render_cost_monthly(&s->prices.gpu_hour) *
                                          (double)n->gpus_per_node * capacity_share(s, n),
                                  .from = &s->prices.gpu_hour };
    return c;
}

bool render_cost_hour(const struct spec *s, const struct spec_node *n, double *out)
{
    struct render_cost c = render_cost_of(s, n);
    double month = render_cost_sum(&c);

    *out = month / RENDER_HOURS_A_MONTH;
    return !isnan(month);
}

/* Of a machine that one part of it takes: its GPUs of all, or the whole of it. */
static double machine_share(const struct spec_component *c, const struct spec_node *n)
{
    double gpus = c->gpus ? (double)c->gpus : c->pools.count ? 1 : 0;

    return gpus > 0 && n->gpus_per_node ? gpus / (double)n->gpus_per_node : 1;
}

bool render_cost_component(const struct spec *s, const struct spec_component *c, double *out)
{
    int64_t replicas = c->scale && c->scale->max > c->replicas ? c->scale->max : c->replicas;
    const struct spec_node *n;
    double most = 0, price;

    for (size_t i = 0; (n = spec_component_group(s, c, i)); i++) {
        if (!render_cost_hour(s, n, &price))
            return false;
        most = fmax(most, price * machine_share(c, n));
    }
    *out = most * (double)(replicas * c->nodes_per_replica);
    return most > 0;
}

bool render_cost_stops(const struct spec_node *n)
{
    return n->capacity == SPEC_CAPACITY_SPOT || n->capacity == SPEC_CAPACITY_ON_DEMAND;
}

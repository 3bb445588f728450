/* SPDX-License-Identifier: MIT */
/* doc_money: what the machines cost, by group, and the budgets.
 *
 * A rented machine costs its price; an owned one what it cost over the years it is kept, its power
 * at the wall (power times PUE) and its place.  What the spec does not say is unknown, never 0: in
 * a part, in the sum of a group, and in the sum of all. */
#include "base/units.h"
#include "render/doc_int.h"

#include <inttypes.h>
#include <math.h>

static const double HOURS_A_MONTH = 730, MONTHS_A_YEAR = 12, MICRO = 1e6;

struct cost { /* dollars a month of one machine; NaN: unknown */
    double rent, capital, energy, place;
    bool owned; /* has no rent; one that is rented has nothing else */
};

static double cost_sum(const struct cost *c)
{
    return c->owned ? c->capital + c->energy + c->place : c->rent;
}

static double monthly(const struct spec_money *m)
{
    double v = (double)m->micro / MICRO;

    switch (m->per) {
    case MONEY_PER_HOUR:
        return v * HOURS_A_MONTH;
    case MONEY_PER_DAY:
        return v * HOURS_A_MONTH / 24;
    case MONEY_PER_YEAR:
        return v / MONTHS_A_YEAR;
    case MONEY_PER_MONTH:
    case MONEY_ONCE:
        break;
    }
    return v;
}

static struct cost machine_cost(const struct spec *s, const struct spec_node *n)
{
    const struct spec_prices *p = &s->prices;
    struct cost c = { .rent = NAN, .capital = NAN, .energy = NAN, .place = NAN };

    if (n->price.known) {
        c.rent = monthly(&n->price);
        return c;
    }
    if (!n->capex.known && p->gpu_hour.known && n->gpus_per_node) {
        c.rent = monthly(&p->gpu_hour) * (double)n->gpus_per_node;
        return c;
    }
    c.owned = n->capex.known || n->capacity == SPEC_CAPACITY_OWNED;
    if (n->capex.known)
        c.capital = (double)n->capex.micro / MICRO / ((double)p->years * MONTHS_A_YEAR);
    if (n->power_w.known && p->energy_per_kwh.known)
        c.energy = (double)n->power_w.v / 1000 * p->pue * HOURS_A_MONTH *
                   ((double)p->energy_per_kwh.micro / MICRO);
    if (n->power_w.known && p->colo_per_kw.known)
        c.place = (double)n->power_w.v / 1000 * monthly(&p->colo_per_kw);
    else if (!p->colo_per_kw.known)
        c.place = 0; /* the site's own room: its price is in nobody's bill */
    return c;
}

static void dollars(struct doc *d, bool applies, double v)
{
    if (!applies)
        doc_right(d, "-");
    else if (isnan(v))
        doc_right(d, "unknown");
    else
        doc_right(d, "%.0f", v);
}

static void group_row(struct doc *d, const struct spec_node *n, const struct cost *c)
{
    doc_row(d);
    doc_cell(d, "%s", n->name);
    doc_right(d, "%" PRId64, n->count);
    dollars(d, !c->owned, c->rent);
    dollars(d, c->owned, c->capital);
    dollars(d, c->owned, c->energy);
    dollars(d, c->owned && d->r->spec->prices.colo_per_kw.known, c->place);
    dollars(d, true, cost_sum(c) * (double)n->count);
    doc_cell(d, "%s", render_from(d->r, n->price.known ? (const void *)&n->price : &n->capex));
    doc_row_end(d);
}

static void budget(struct doc *d, const char *what, const struct spec_money *m, double all,
                   bool whole)
{
    char text[UNITS_TEXT_MAX];

    if (!m->known)
        return;
    units_money_exact(m->micro, m->per, text);
    if (whole)
        doc_para(d,
                 "Budget %s: %s (%s), %.0f %% of which the machines take when they run all the "
                 "time.",
                 what, text, render_from(d->r, m), 100 * all / monthly(m));
    else if (all > 0)
        doc_para(d,
                 "Budget %s: %s (%s), at least %.0f %% of which the machines take when they run "
                 "all the time.",
                 what, text, render_from(d->r, m), 100 * all / monthly(m));
    else
        doc_para(d, "Budget %s: %s (%s); what share the machines take is unknown.", what, text,
                 render_from(d->r, m));
}

void doc_money(struct doc *d)
{
    const struct spec *s = d->r->spec;
    size_t unknown = 0;
    double all = 0;

    doc_table(d, "group|#machines|#rent|#capital|#energy|#place|#dollars a month|from");
    for (size_t i = 0; i < s->node_count; i++) {
        struct cost c = machine_cost(s, &s->nodes[i]);
        double one = cost_sum(&c);

        group_row(d, &s->nodes[i], &c);
        unknown += isnan(one);
        all += isnan(one) ? 0 : one * (double)s->nodes[i].count;
    }
    doc_table_end(d);
    if (unknown == s->node_count)
        doc_para(d, "What the site costs is unknown: the spec names no price of a machine.");
    else
        doc_para(d,
                 "Rent, capital, energy and place are of one machine. %s $%.0f a month, running "
                 "all the time%s.",
                 unknown ? "At least" : "In all", all,
                 unknown ? "; groups whose cost is unknown come on top" : "");
    budget(d, "a day", &s->budgets.day, all, !unknown);
    budget(d, "a month", &s->budgets.month, all, !unknown);
}

/* SPDX-License-Identifier: MIT */
/* doc_money: what the machines cost, by group, and the budgets.
 *
 * A rented machine costs its price; an owned one what it cost over the years it is kept, its power
 * at the wall (power times PUE) and its place.  A group for which the spec says neither has no
 * figure, and then the sum says that it is not whole. */
#include "base/units.h"
#include "render/doc_int.h"

#include <inttypes.h>

static const double HOURS_A_MONTH = 730, MONTHS_A_YEAR = 12, MICRO = 1e6;

struct cost { /* dollars a month of one machine */
    double rent, capital, energy, place;
    bool known;
};

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
    struct cost c = { 0 };

    if (n->price.known) {
        c.rent = monthly(&n->price);
        c.known = true;
        return c;
    }
    if (n->capex.known) {
        c.capital = (double)n->capex.micro / MICRO / ((double)p->years * MONTHS_A_YEAR);
        c.known = true;
    } else if (p->gpu_hour.known && n->gpus_per_node) {
        c.rent = monthly(&p->gpu_hour) * (double)n->gpus_per_node;
        c.known = true;
        return c;
    }
    if (n->power_w.known && p->energy_per_kwh.known)
        c.energy = (double)n->power_w.v / 1000 * p->pue * HOURS_A_MONTH *
                   ((double)p->energy_per_kwh.micro / MICRO);
    if (n->power_w.known && p->colo_per_kw.known)
        c.place = (double)n->power_w.v / 1000 * monthly(&p->colo_per_kw);
    return c;
}

static void group_row(struct doc *d, const struct spec_node *n, const struct cost *c)
{
    double one = c->rent + c->capital + c->energy + c->place;

    doc_row(d);
    doc_cell(d, "%s", n->name);
    doc_right(d, "%" PRId64, n->count);
    if (!c->known) {
        for (int i = 0; i < 5; i++)
            doc_right(d, "unknown");
    } else {
        doc_right(d, "%.0f", c->rent);
        doc_right(d, "%.0f", c->capital);
        doc_right(d, "%.0f", c->energy);
        doc_right(d, "%.0f", c->place);
        doc_right(d, "%.0f", one * (double)n->count);
    }
    doc_cell(d, "%s", render_from(d->r, n->price.known ? (const void *)&n->price : &n->capex));
    doc_row_end(d);
}

static void budget(struct doc *d, const char *what, const struct spec_money *m, double all)
{
    char text[UNITS_TEXT_MAX];

    if (!m->known)
        return;
    doc_para(d,
             "Budget %s: %s (%s), %.0f %% of which the machines take when they run all the time.",
             what, units_money_exact(m->micro, m->per, text), render_from(d->r, m),
             100 * all / monthly(m));
}

void doc_money(struct doc *d)
{
    const struct spec *s = d->r->spec;
    bool whole = true;
    double all = 0;

    doc_table(d, "group|#machines|#rent|#capital|#energy|#place|#dollars a month|from");
    for (size_t i = 0; i < s->node_count; i++) {
        struct cost c = machine_cost(s, &s->nodes[i]);

        group_row(d, &s->nodes[i], &c);
        whole = whole && c.known;
        all += (c.rent + c.capital + c.energy + c.place) * (double)s->nodes[i].count;
    }
    doc_table_end(d);
    doc_para(d,
             "Rent, capital, energy and place are of one machine. In all $%.0f a month, running "
             "all the time%s.",
             all, whole ? "" : ", without the groups whose price is not known");
    budget(d, "a day", &s->budgets.day, all);
    budget(d, "a month", &s->budgets.month, all);
}

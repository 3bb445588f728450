/* SPDX-License-Identifier: MIT */
/* doc_money: what the machines cost, by group, the storage, and the budgets.
 *
 * What the spec does not say is unknown, never 0: in a part, in the sum of a group, and in the sum
 * of all (machine_cost.c says what a machine costs). */
#include "base/text/units.h"
#include "render/machine_cost_int.h"
#include "render/site/doc_int.h"

#include <inttypes.h>
#include <math.h>

static void cell_dollars(struct site_doc *d, bool applies, double v)
{
    if (!applies)
        doc_right(d, "-");
    else if (isnan(v))
        doc_right(d, "unknown");
    else
        doc_right(d, "%.0f", v);
}

static void group_row(struct site_doc *d, const struct spec_node *n, const struct render_cost *c)
{
    doc_row(d);
    doc_cell(d, "%s", n->name);
    doc_right(d, "%" PRId64, n->count);
    cell_dollars(d, !c->owned, c->rent);
    cell_dollars(d, c->owned, c->capital);
    cell_dollars(d, c->owned, c->energy);
    cell_dollars(d, c->owned && d->r->spec->prices.colo_per_kw.known, c->place);
    cell_dollars(d, true, render_cost_sum(c) * (double)n->count);
    doc_cell(d, "%s", render_from(d->r, c->from));
    doc_row_end(d);
}

static void budget_row(struct site_doc *d, const char *what, const struct spec_money *m, double all,
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
                 what, text, render_from(d->r, m), 100 * all / render_cost_monthly(m));
    else if (all > 0)
        doc_para(d,
                 "Budget %s: %s (%s), at least %.0f %% of which the machines take when they run "
                 "all the time.",
                 what, text, render_from(d->r, m), 100 * all / render_cost_monthly(m));
    else
        doc_para(d, "Budget %s: %s (%s); what share the machines take is unknown.", what, text,
                 render_from(d->r, m));
}

static void component_budget(struct site_doc *d, const struct spec_share *x,
                             const struct spec_money *m)
{
    const struct spec_component *c = spec_component_find(d->r->spec, x->name);
    char text[UNITS_TEXT_MAX];
    double hour;

    if (!m->known)
        return;
    units_money_exact(m->micro, m->per, text);
    if (c && render_cost_component(d->r->spec, c, &hour))
        doc_para(d,
                 "Budget of component %s: %s (%s), %.0f %% of which it takes with all its replicas "
                 "at work all the time.",
                 x->name, text, render_from(d->r, m),
                 100 * hour * RENDER_HOURS_A_MONTH / render_cost_monthly(m));
    else
        doc_para(d, "Budget of component %s: %s (%s); what it costs is unknown.", x->name, text,
                 render_from(d->r, m));
}

static void component_budgets(struct site_doc *d)
{
    const struct spec_budgets *b = &d->r->spec->budgets;

    for (size_t i = 0; i < b->component_count; i++) {
        component_budget(d, &b->components[i], &b->components[i].day);
        component_budget(d, &b->components[i], &b->components[i].month);
    }
}

/* The machines' own disks and memory are paid for with them. */
static const struct spec_money *storage_price(const struct spec *s, const struct spec_storage *x)
{
    bool of_machines = x->kind == SPEC_STORAGE_LOCAL || x->kind == SPEC_STORAGE_MEMORY;

    return x->price_per_tb.known || of_machines ? &x->price_per_tb : &s->prices.storage_per_tb;
}

static void storage_cost(struct site_doc *d, const struct spec_storage *x)
{
    const struct spec_money *m = storage_price(d->r->spec, x);
    char text[UNITS_TEXT_MAX];

    if (!m->known)
        return;
    units_money_exact(m->micro, m->per, text);
    if (x->size_bytes.known)
        doc_para(d, "Storage %s: $%.0f a month, at %s a terabyte (%s).", x->name,
                 (double)x->size_bytes.v / 1e12 * render_cost_monthly(m), text,
                 render_from(d->r, m));
    else
        doc_para(d, "Storage %s: unknown, at %s a terabyte (%s) and no size.", x->name, text,
                 render_from(d->r, m));
}

/* What is no machine. */
static void other_costs(struct site_doc *d)
{
    const struct spec *s = d->r->spec;
    char text[UNITS_TEXT_MAX];

    for (size_t i = 0; i < s->storage_count; i++)
        storage_cost(d, &s->storage[i]);
    if (!s->prices.egress_per_gb.known)
        return;
    units_money_exact(s->prices.egress_per_gb.micro, s->prices.egress_per_gb.per, text);
    doc_para(d, "A gigabyte that leaves the site: %s (%s); how many leave is unknown.", text,
             render_from(d->r, &s->prices.egress_per_gb));
}

void doc_money(struct site_doc *d)
{
    const struct spec *s = d->r->spec;
    size_t unknown = 0;
    double all = 0;

    doc_table(d, "group|#machines|#rent|#capital|#energy|#place|#dollars a month|from");
    for (size_t i = 0; i < s->node_count; i++) {
        struct render_cost c = render_cost_of(s, &s->nodes[i]);
        double one = render_cost_sum(&c);

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
    other_costs(d);
    budget_row(d, "a day", &s->budgets.day, all, !unknown);
    budget_row(d, "a month", &s->budgets.month, all, !unknown);
    component_budgets(d);
}

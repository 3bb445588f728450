/* SPDX-License-Identifier: MIT */
/* cost: what a machine costs, for the page of the site and for alerts that tell of it. */
#ifndef RENDER_COST_H
#define RENDER_COST_H

#include "spec/spec.h"

struct render_cost { /* dollars a month of one machine; NaN: unknown */
    double rent, capital, energy, place;
    bool owned; /* has no rent; one that is rented has nothing else */
};

struct render_cost render_cost_of(const struct spec *s, const struct spec_node *n);
double render_cost_sum(const struct render_cost *c);
/* Dollars a month. */
double render_cost_monthly(const struct spec_money *m);

extern const double RENDER_HOURS_A_MONTH;

#endif

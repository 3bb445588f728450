/* SPDX-License-Identifier: MIT */
/* cost: what a machine costs, for the page of the site, alerts and plans. */
#ifndef RENDER_COST_H
#define RENDER_COST_H

#include "spec/spec.h"

struct render_cost { /* dollars a month of one machine; NaN: unknown */
    double rent, capital, energy, place;
    bool owned;                    /* has no rent; one that is rented has nothing else */
    const struct spec_money *from; /* what the spec says first of it */
};

struct render_cost render_cost_of(const struct spec *s, const struct spec_node *n);
double render_cost_sum(const struct render_cost *c);
/* Dollars an hour of one machine; false: the spec names no price. */
bool render_cost_hour(const struct spec *s, const struct spec_node *n, double *out);
/* Dollars an hour of a component with all its replicas at work, on the dearest of its groups;
 * false: one of them has no price. */
bool render_cost_component(const struct spec *s, const struct spec_component *c, double *out);
/* Does the group cost nothing while its machines are away?  Owned and reserved ones are paid for
 * all the time. */
bool render_cost_stops(const struct spec_node *n);
/* Dollars a month. */
double render_cost_monthly(const struct spec_money *m);

extern const double RENDER_HOURS_A_MONTH;

#endif

/* SPDX-License-Identifier: MIT */
/* machine_cost_int: what a machine costs, for the page of the site, alerts and plans. */
#ifndef RENDER_MACHINE_COST_INT_H
#define RENDER_MACHINE_COST_INT_H
#include "render/render.h"

double render_cost_sum(const struct render_cost *c);
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

/* SPDX-License-Identifier: MIT */
/* choose: see choose.h. */
#include "plan/choose.h"

#include <math.h>

static double fastest_under(const struct plan_candidate *c, size_t n, double bytes)
{
    double best = INFINITY;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && c[i].bytes <= bytes && c[i].step_s < best)
            best = c[i].step_s;
    return best;
}

/* Of those as fast as `step_s` the emptiest; of those alike the first. */
static size_t emptiest(const struct plan_candidate *c, size_t n, double step_s, double bytes)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && c[i].step_s <= step_s && c[i].bytes <= bytes &&
            (best == n || c[i].bytes < c[best].bytes))
            best = i;
    return best;
}

size_t plan_choose_first(const struct plan_candidate *c, size_t n, const struct plan_choice *rule)
{
    double bytes = rule->limit * (1 - rule->margin), fastest = fastest_under(c, n, bytes);

    if (isfinite(fastest))
        return emptiest(c, n, fastest * (1 + rule->tie), bytes);
    return emptiest(c, n, INFINITY, INFINITY);
}

/* SPDX-License-Identifier: MIT */
/* choose: see choose.h. */
#include "plan/choose.h"

#include <math.h>
#include <stdbool.h>

static double fastest_under(const struct plan_candidate *c, size_t n, double bytes)
{
    double best = INFINITY;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && c[i].bytes <= bytes && c[i].step_s < best)
            best = c[i].step_s;
    return best;
}

static bool beaten(const struct plan_candidate *c, size_t n, size_t i)
{
    for (size_t j = 0; j < n; j++)
        if (c[j].step_s > 0 && c[j].step_s <= c[i].step_s && c[j].bytes <= c[i].bytes &&
            (c[j].step_s < c[i].step_s || c[j].bytes < c[i].bytes))
            return true;
    return false;
}

static bool is_better(const struct plan_candidate *a, const struct plan_candidate *b)
{
    return a->cut != b->cut ? a->cut < b->cut : a->bytes < b->bytes;
}

/* Of those as fast as `step_s`; of those alike the first. */
static size_t safest(const struct plan_candidate *c, size_t n, double step_s, double bytes)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && c[i].step_s <= step_s && c[i].bytes <= bytes && !beaten(c, n, i) &&
            (best == n || is_better(&c[i], &c[best])))
            best = i;
    return best;
}

static size_t emptiest(const struct plan_candidate *c, size_t n)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && (best == n || c[i].bytes < c[best].bytes))
            best = i;
    return best;
}

size_t plan_choose_first(const struct plan_candidate *c, size_t n, const struct plan_choice *rule)
{
    double bytes = rule->limit * (1 - rule->margin), fastest = fastest_under(c, n, bytes);

    if (isfinite(fastest))
        return safest(c, n, fastest * (1 + rule->tie), bytes);
    return emptiest(c, n);
}

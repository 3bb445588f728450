/* SPDX-License-Identifier: MIT */
/* failure: what interruptions cost, by formula and by playing them. */
#include "plan/campaign.h"
#include "plan/campaign/campaign_int.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- randomness ---- */
uint64_t plan_rng_next(struct plan_rng *r)
{
    uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double plan_rng_unit(struct plan_rng *r)
{
    return ((double)(plan_rng_next(r) >> 11) + 1) * 0x1p-53;
}

double plan_rng_exp(struct plan_rng *r, double mean)
{
    return -mean * log(plan_rng_unit(r));
}

static double rng_normal(struct plan_rng *r)
{
    double radius = sqrt(-2 * log(plan_rng_unit(r)));

    return radius * cos(2 * M_PI * plan_rng_unit(r));
}

double plan_rng_lognormal(struct plan_rng *r, double mean, double cv)
{
    double var = log1p(cv * cv);

    return cv > 0 ? mean * exp(sqrt(var) * rng_normal(r) - var / 2) : mean;
}

/* ---- how often to save ---- */
double plan_interval_young(double save_s, double mtbf_s)
{
    return sqrt(2 * save_s * mtbf_s);
}

double plan_interval_daly(double save_s, double mtbf_s)
{
    double x = save_s / (2 * mtbf_s);

    if (save_s >= 2 * mtbf_s)
        return mtbf_s;
    return sqrt(2 * save_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - save_s;
}

/* The principal branch of Lambert's W on [-1/e, 0). */
static double lambert_w0(double x)
{
    double p = sqrt(fmax(0, 2 * (1 + M_E * x)));
    double w = -1 + p - p * p / 3 + 11 * p * p * p / 72; /* the series about the branch point */

    for (int i = 0; i < 50 && p > 1e-6; i++) {
        double e = exp(w), f = w * e - x, d;

        d = f / (e * (w + 1) - (w + 2) * f / (2 * w + 2)); /* Halley */
        w -= d;
        if (fabs(d) < 1e-14)
            break;
    }
    return w;
}

double plan_interval_exact(double save_s, double mtbf_s)
{
    assert(save_s >= 0 && mtbf_s > 0);
    return mtbf_s * (1 + lambert_w0(-exp(-1 - save_s / mtbf_s)));
}

static bool notice_saves(const struct plan_outage *o)
{
    return o->notice_s >= o->save_s;
}

/* Interruptions a second that lose work. */
static double losing_rate(const struct plan_outage *o)
{
    double rate = o->mtbf_s > 0 ? 1 / o->mtbf_s : 0;

    return o->preempt_s > 0 && !notice_saves(o) ? rate + 1 / o->preempt_s : rate;
}

double plan_outage_interval(const struct plan_outage *o)
{
    double rate = losing_rate(o);

    return rate > 0 ? plan_interval_exact(o->save_s, 1 / rate) : INFINITY;
}

/* ---- what is lost ---- */
/* Seconds a restart takes on the average of both kinds, by how often each comes. */
static double mean_restart(const struct plan_outage *o)
{
    double f = o->mtbf_s > 0 ? 1 / o->mtbf_s : 0, p = o->preempt_s > 0 ? 1 / o->preempt_s : 0;

    if (notice_saves(o) || f + p <= 0)
        return o->restart_s;
    return o->restart_s + o->preempt_wait * p / (f + p);
}

double plan_wall_factor(const struct plan_outage *o, double interval_s)
{
    double rate = losing_rate(o), factor = 1 + o->save_s / interval_s;

    assert(interval_s > 0);
    if (rate > 0 && isfinite(interval_s))
        factor = exp(mean_restart(o) * rate) * expm1((interval_s + o->save_s) * rate) /
                 (rate * interval_s);
    else if (rate > 0)
        factor = INFINITY;
    if (o->preempt_s > 0 && notice_saves(o)) /* nothing is lost but the time itself */
        factor *= 1 + (o->save_s + o->restart_s + o->preempt_wait) / o->preempt_s;
    return factor;
}

double plan_ettr(const struct plan_outage *o, double interval_s)
{
    double rate = o->mtbf_s > 0 ? 1 / o->mtbf_s : 0;
    double up = 1 - rate * (o->restart_s + interval_s / 2);

    return up > 0 ? up / (1 + o->save_s / interval_s) : 0;
}

double plan_outage_count(const struct plan_outage *o, double wall_s)
{
    double rate = o->mtbf_s > 0 ? 1 / o->mtbf_s : 0;

    return wall_s * (o->preempt_s > 0 ? rate + 1 / o->preempt_s : rate);
}

/* ---- playing it ---- */
struct game {
    const struct plan_outage *o;
    struct plan_rng rng;
    double rate; /* of interruptions that lose work */
    double work_s, interval_s;
    double events;
};

/* A restart, which a failure may hit and begin again. */
static double play_restart(struct game *g, double takes)
{
    double wall = 0, next = plan_rng_exp(&g->rng, 1 / g->rate);

    while (next < takes) {
        wall += next;
        g->events++;
        next = plan_rng_exp(&g->rng, 1 / g->rate);
    }
    return wall + takes;
}

/* Preemptions with enough notice: as many as fall into the time that the rest took. */
static double play_preemptions(struct game *g, double wall)
{
    const struct plan_outage *o = g->o;
    double at, extra = 0;

    if (o->preempt_s <= 0 || !notice_saves(o))
        return 0;
    at = plan_rng_exp(&g->rng, o->preempt_s);
    while (at < wall) {
        extra += o->save_s + o->restart_s + o->preempt_wait;
        g->events++;
        at += plan_rng_exp(&g->rng, o->preempt_s);
    }
    return extra;
}

/* One kind of those that lose work, by their rates. */
static double restart_of(struct game *g)
{
    const struct plan_outage *o = g->o;
    double p = o->preempt_s > 0 && !notice_saves(o) ? 1 / o->preempt_s : 0;

    return plan_rng_unit(&g->rng) * g->rate <= p ? o->restart_s + o->preempt_wait : o->restart_s;
}

static double play_one(struct game *g)
{
    double left = g->work_s, wall = 0, cycle = g->interval_s + g->o->save_s;

    while (left > 0) {
        double until = g->rate > 0 ? plan_rng_exp(&g->rng, 1 / g->rate) : INFINITY;
        double whole = ceil(left / g->interval_s); /* saves to the end, the last one shorter */
        double need = left + whole * g->o->save_s;

        if (until >= need) {
            wall += need;
            break;
        }
        left -= floor(until / cycle) * g->interval_s; /* what was saved */
        g->events++;
        wall += until + play_restart(g, restart_of(g));
    }
    return wall + play_preemptions(g, wall);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void plan_outage_play(const struct plan_outage *o, double work_s, double interval_s, size_t runs,
                      uint64_t seed, double *walls, struct plan_played *out)
{
    struct game g = { .o = o,
                      .rng = { seed },
                      .rate = losing_rate(o),
                      .work_s = work_s,
                      .interval_s = fmin(interval_s, work_s) };
    double sum = 0, squares = 0;

    assert(runs > 0 && work_s > 0 && interval_s > 0);
    for (size_t i = 0; i < runs; i++) {
        walls[i] = play_one(&g);
        sum += walls[i];
    }
    for (size_t i = 0; i < runs; i++)
        squares += (walls[i] - sum / (double)runs) * (walls[i] - sum / (double)runs);
    qsort(walls, runs, sizeof(*walls), by_size);
    *out = (struct plan_played){ .mean = sum / (double)runs,
                                 .sd = sqrt(squares / (double)runs),
                                 .p10 = walls[runs / 10],
                                 .p50 = walls[runs / 2],
                                 .p90 = walls[runs * 9 / 10],
                                 .interruptions = g.events / (double)runs };
}

/* ---- spare nodes ---- */
double plan_spares_suffice(double mean_away, int64_t spares)
{
    double term = exp(-mean_away), sum = term;

    assert(mean_away >= 0);
    if (mean_away > 500) /* the first term would vanish: the normal limit is exact enough */
        return 0.5 * erfc(-((double)spares + 0.5 - mean_away) / sqrt(2 * mean_away));
    for (int64_t k = 1; k <= spares; k++) {
        term *= mean_away / (double)k;
        sum += term;
    }
    return fmin(sum, 1);
}

int64_t plan_spares_for(double mean_away, double p)
{
    int64_t k = mean_away > 500 ? (int64_t)mean_away : 0;

    assert(p > 0 && p < 1);
    while (plan_spares_suffice(mean_away, k) < p)
        k++;
    return k;
}

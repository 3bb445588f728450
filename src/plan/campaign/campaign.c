/* SPDX-License-Identifier: MIT */
/* campaign: from the time of a step to days, GPU-hours, dollars and watts. */
#include "plan/campaign.h"

#include "base/str.h"
#include "plan/campaign/campaign_int.h"
#include "plan/plan_int.h"

#include <math.h>

static double or_usual(double given, double usual)
{
    return given > 0 ? given : usual;
}

/* ---- interruptions ---- */
static void outage_of(const struct plan_facts *f, const struct plan_cluster *cl,
                      const struct plan_campaign_want *w, struct plan_campaign *r)
{
    double nodes = (double)plan_ceil_div(cl->gpus, cl->node_gpus);
    double write = or_usual(w->write_bytes_s, plan_fact(f, "write_node_gb_s") * 1e9 * nodes);
    double hours = or_usual(w->gpu_hours_fail, r->rate.gpu_hours.usual);

    r->outage =
        (struct plan_outage){ .mtbf_s = hours * PLAN_HOUR_S / (double)cl->gpus,
                              .save_s = r->checkpoint_bytes / write,
                              .restart_s = or_usual(w->restart_s, plan_fact(f, "restart_s")) };
    r->interval_young_s = plan_interval_young(r->outage.save_s, r->outage.mtbf_s);
    r->interval_daly_s = plan_interval_daly(r->outage.save_s, r->outage.mtbf_s);
    /* a run shorter than that saves once, at its end */
    r->interval_s =
        fmin(or_usual(w->interval_s, plan_outage_interval(&r->outage)), r->clean_days * PLAN_DAY_S);
    r->goodput = 1 / plan_wall_factor(&r->outage, r->interval_s);
    r->ettr = plan_ettr(&r->outage, r->interval_s);
    r->mean_away = plan_fact(f, "hardware_share") / r->outage.mtbf_s *
                   or_usual(w->repair_s, plan_fact(f, "repair_h") * PLAN_HOUR_S);
    r->spares = plan_spares_for(r->mean_away, or_usual(w->spares_p, 0.99));
}

/* The wall factor at another failure rate, with the interval that is best there. */
static double factor_at(const struct plan_campaign *r, const struct plan_campaign_want *w,
                        const struct plan_cluster *cl, double gpu_hours)
{
    struct plan_outage o = r->outage;

    o.mtbf_s = gpu_hours * PLAN_HOUR_S / (double)cl->gpus;
    return plan_wall_factor(
        &o, fmin(or_usual(w->interval_s, plan_outage_interval(&o)), r->clean_days * PLAN_DAY_S));
}

/* ---- power ---- */
static double host_watts(const struct plan_facts *f, const struct plan_gpu *gpu)
{
    if (gpu->link_bytes_s <= 0) /* a card in an ordinary server: the Ampere node is the nearest */
        return plan_fact(f, "host_w_ampere");
    return plan_fact(f, str_eq(gpu->arch, "Ampere")   ? "host_w_ampere"
                        : str_eq(gpu->arch, "Hopper") ? "host_w_hopper"
                                                      : "host_w_blackwell");
}

static void power_of(const struct plan_facts *f, const struct plan_cluster *cl,
                     const struct plan_time *t, struct plan_campaign *r)
{
    double gpus = (double)cl->gpus, hours = r->days.usual * 24;

    r->gpu_w = t->joules > 0 && t->step_s > 0 ? t->joules / t->step_s : gpus * cl->gpu.power_w;
    r->node_w = r->gpu_w + gpus * host_watts(f, &cl->gpu);
    r->site_w = r->node_w * plan_fact(f, "pue");
    r->gpu_kwh = r->gpu_w * hours / 1e3;
    r->site_kwh = r->site_w * hours / 1e3;
}

/* ---- money ---- */
static void bill_of(const struct plan_facts *f, const struct plan_cluster *cl,
                    const struct plan_campaign_want *w, const struct plan_campaign *r,
                    enum plan_pay pay, struct plan_bill *out)
{
    struct plan_outage o = r->outage;
    struct plan_gpu gpu = cl->gpu;
    struct plan_range price;
    double hours;

    if (w->price_usd_h > 0 && pay != PLAN_SPOT) {
        gpu.price_usd_h = w->price_usd_h;
        gpu.alias[0] = 0; /* a given price has no range */
    }
    if (!plan_gpu_price(f, &gpu, pay, &price))
        return;
    if (pay == PLAN_SPOT) {
        double q = plan_spot_rate(f, &gpu).usual;
        double nodes = (double)plan_ceil_div(cl->gpus, cl->node_gpus);

        o.preempt_s = PLAN_MONTH_H * (double)PLAN_HOUR_S / (nodes * -log1p(-q));
        o.preempt_wait = or_usual(w->spot_wait_s, plan_fact(f, "spot_wait_s"));
        o.notice_s = plan_price(f, "notice")->usual;
    }
    out->known = true;
    out->factor = plan_wall_factor(
        &o, fmin(or_usual(w->interval_s, plan_outage_interval(&o)), r->clean_days * PLAN_DAY_S));
    out->days = r->clean_days * out->factor;
    out->interruptions = plan_outage_count(&o, out->days * PLAN_DAY_S);
    hours = out->days * 24 * (double)cl->gpus;
    out->usd = (struct plan_range){ hours * price.low, hours * price.usual, hours * price.high };
}

void plan_campaign_of(const struct plan_facts *f, const struct plan_model *m,
                      const struct plan_counts *n, const struct plan_cluster *cl,
                      const struct plan_config *c, const struct plan_time *t,
                      const struct plan_campaign_want *w, struct plan_campaign *out)
{
    struct plan_campaign r = { 0 };
    double step_tokens = (double)c->micro_batch * c->grad_acc * c->dp * (double)c->seq;

    r.steps = ceil(w->tokens / step_tokens);
    r.tokens_s = step_tokens / t->step_s;
    r.clean_days = r.steps * t->step_s / PLAN_DAY_S;
    plan_band_of(f, &cl->gpu, m, c, &r.band);
    if (w->band_low > 0) {
        r.band.low = w->band_low;
        r.band.high = w->band_high;
    }
    plan_failure_rate_of(f, &cl->gpu, &r.rate);
    if (w->gpu_hours_fail > 0)
        r.rate.gpu_hours =
            (struct plan_range){ w->gpu_hours_fail, w->gpu_hours_fail, w->gpu_hours_fail };
    r.checkpoint_bytes =
        or_usual(w->checkpoint_bytes, plan_fact(f, "checkpoint_bytes") * (double)n->total);
    outage_of(f, cl, w, &r);
    r.days.usual = r.clean_days / r.goodput;
    r.days.low = r.clean_days * r.band.low * factor_at(&r, w, cl, r.rate.gpu_hours.high);
    r.days.high = r.clean_days * r.band.high * factor_at(&r, w, cl, r.rate.gpu_hours.low);
    r.gpu_hours.low = r.days.low * 24 * (double)cl->gpus;
    r.gpu_hours.usual = r.days.usual * 24 * (double)cl->gpus;
    r.gpu_hours.high = r.days.high * 24 * (double)cl->gpus;
    power_of(f, cl, t, &r);
    for (int i = 0; i < PLAN_PAYS; i++)
        bill_of(f, cl, w, &r, (enum plan_pay)i, &r.bill[i]);
    if (w->runs && r.goodput > 0.05)
        plan_outage_play(&r.outage, r.clean_days * PLAN_DAY_S, r.interval_s, w->runs, w->seed,
                         w->walls, &r.played);
    *out = r;
}

/* SPDX-License-Identifier: MIT */
/* campaign: a whole training run, not one step of it.
 *
 * A step's time says how fast a run is while it runs.  A campaign also fails, saves, restarts,
 * waits for spare nodes, draws power and is paid for.  Four parts, each usable alone:
 *
 *   facts    tables in data/ about failures, prices, power and error bands, each with its source
 *   failure  interruptions: how often, how often to save, what is lost, how many spares
 *   best     the configuration the search chooses for a number of GPUs
 *   campaign all of it for one run: days, GPU-hours, dollars, watts, each as a range
 *
 * A range comes from two places that are kept apart: the error of the time model on published runs
 * it had not seen (plan_band), and the spread of interruptions or prices.  Pure: no clock, no
 * global state; randomness is a seed the caller gives, so that every answer repeats. */
#ifndef PLAN_CAMPAIGN_H
#define PLAN_CAMPAIGN_H
#include "plan/step_time.h"

enum { PLAN_HOUR_S = 3600, PLAN_DAY_S = 86400, PLAN_MONTH_H = 720 };

/* ---- facts ---- */
struct plan_failures { /* a row of data/failures.csv */
    const char *name, *gpu, *what, *source;
    double gpus;                /* of the system */
    double gpu_hours, failures; /* so many failures in so many GPU-hours */
    double hardware_share;      /* 0: not said */
};
struct plan_price { /* a row of data/prices.csv; NaN where a figure is not known */
    const char *item, *unit, *date, *source;
    double low, usual, high;
};
struct plan_fact { /* a row of data/campaign.csv */
    const char *name, *unit, *source;
    double value;
};
struct plan_band_row { /* a row of data/plan_bands.csv */
    const char *gpu, *moe, *stack, *source;
    double low, high; /* of predicted over measured time, less one, in percent */
    int64_t n;
};
struct plan_facts {
    const struct plan_failures *failures;
    size_t failures_count;
    const struct plan_price *prices;
    size_t prices_count;
    const struct plan_fact *facts;
    size_t facts_count;
    const struct plan_band_row *bands;
    size_t bands_count;
};
enum rc plan_facts_load(struct arena *a, struct plan_facts *out, struct err *err) MUST_USE;

/* Asserts that the name is there: the tables are compiled in and a test reads every name. */
double plan_fact(const struct plan_facts *f, const char *name);
const struct plan_price *plan_price(const struct plan_facts *f, const char *item); /* NULL: none */
/* Ways to pay for a GPU-hour. */
enum plan_pay { PLAN_ON_DEMAND, PLAN_RESERVED, PLAN_SPOT, PLAN_PAYS };
extern const char *const plan_pay_names[];
struct plan_range {
    double low, usual, high;
};
/* Of instances a month, by GPU kind; the newest kinds take the H100's. */
struct plan_range plan_spot_rate(const struct plan_facts *f, const struct plan_gpu *gpu);

/* What a predicted time may turn out to be: predicted x low to predicted x high holds for eight
 * of ten published runs whose source the fit had not seen. */
struct plan_band {
    double low, high; /* factors, low <= 1 <= high */
    int64_t n;
    const char *source;
    bool stand_in; /* no published run of such hardware, model or adapters is in the table */
};
void plan_band_of(const struct plan_facts *f, const struct plan_gpu *gpu,
                  const struct plan_model *m, const struct plan_config *c, struct plan_band *out);

/* GPU-hours between failures: the row whose hardware is nearest is the usual figure, the worst and
 * the best of all rows are the ends. */
struct plan_failure_rate {
    struct plan_range gpu_hours; /* low is the worst */
    const struct plan_failures *usual, *worst, *best;
};
void plan_failure_rate_of(const struct plan_facts *f, const struct plan_gpu *gpu,
                          struct plan_failure_rate *out);

/* ---- failure ---- */
/* Interruptions of a job that stops as a whole.  Failures come without a warning and cost the work
 * since the last save; preemptions come with `notice_s`, in which the job saves if it can. */
struct plan_outage {
    double mtbf_s;       /* between failures of the whole job; 0: none */
    double save_s;       /* training stands still while it saves */
    double restart_s;    /* from a failure to the first new step: detect, replace, load */
    double preempt_s;    /* mean time between preemptions of the whole job; 0: none */
    double preempt_wait; /* seconds until the capacity is there again, on top of a restart */
    double notice_s;
};
/* Seconds of work between saves.  Young 1974: sqrt(2 C M).  Daly 2006: its higher-order form. */
double plan_interval_young(double save_s, double mtbf_s);
double plan_interval_daly(double save_s, double mtbf_s);
/* Of all interruptions that lose work: preemptions count when the notice is too short to save. */
double plan_outage_interval(const struct plan_outage *o);
/* Wall time for a second of work, saving after every `interval_s` of it; exponential failures,
 * which may hit restarts too (Daly 2006 equation 13, without an approximation). */
double plan_wall_factor(const struct plan_outage *o, double interval_s);
/* E[ETTR] of Kokolis et al. 2025: the linear form people quote; good while failures are rare. */
double plan_ettr(const struct plan_outage *o, double interval_s);
/* Interruptions in `wall_s` seconds of it. */
double plan_outage_count(const struct plan_outage *o, double wall_s);

/* The same by playing it: `runs` campaigns of `work_s` seconds of work.  `walls` has room for
 * `runs` and comes back sorted. */
struct plan_played {
    double mean, sd, p10, p50, p90; /* wall seconds */
    double interruptions;           /* mean */
};
void plan_outage_play(const struct plan_outage *o, double work_s, double interval_s, size_t runs,
                      uint64_t seed, double *walls, struct plan_played *out);

/* Spare nodes.  Nodes fail at `rate` a second in all and are away for `repair_s`: the number away
 * is Poisson with mean rate x repair (M/G/infinity).  The probability that k suffice at a moment,
 * and the fewest that suffice with probability p. */
double plan_spares_suffice(double mean_away, int64_t spares);
int64_t plan_spares_for(double mean_away, double p);

/* ---- best ---- */
struct plan_best_want {
    int64_t batch; /* sequences in a step, in all */
    int64_t seq;
    double free_share; /* of a GPU's memory, kept free */
    enum plan_precision precision;
    enum plan_optimizer optimizer;
    enum plan_stack stack; /* of several GPUs, where `stack_given`; else plan_profile_usual() */
    bool stack_given;
    bool whole; /* shard groups and units of recompute are searched too, as 'plan train' does */
    bool eager, no_flash; /* other than plan_profile_usual() */
    int32_t lora_rank, base_bits;
    int threads; /* of the search; 0: one */
};
struct plan_best {
    struct plan_config config;
    struct plan_memory memory;
    struct plan_time time;
    uint64_t tried, fit; /* configurations that pass the rules, and those that fit */
};
/* What published runs on the GPU had: eager kernels on Ampere, fused ones later; flash attention,
 * overlapped gradients, even stages or such where embedding and head count as a layer; a plain
 * script on one GPU.  Every command starts from it, so that one job is one count of bytes. */
void plan_profile_usual(const struct plan_cluster *cl, struct plan_profile *out);
/* The search's choice, with its time by part.  Whole replicas share ZeRO's parts (no smaller shard
 * groups), which keeps the space small enough to ask for many cluster sizes.  RC_LIMIT when nothing
 * fits: the message has what the smallest takes. */
enum rc plan_best_of(const struct plan_model *m, const struct plan_counts *n,
                     const struct plan_cluster *cl, const struct plan_best_want *want,
                     struct plan_best *out, struct err *err) MUST_USE;

/* ---- campaign ---- */
struct plan_campaign_want {
    double tokens;
    double write_bytes_s;       /* 0: the usual rate a node */
    double restart_s;           /* 0: the usual */
    double repair_s;            /* 0: the usual */
    double spot_wait_s;         /* 0: the usual */
    double interval_s;          /* 0: the best */
    double checkpoint_bytes;    /* 0: of all parameters */
    double gpu_hours_fail;      /* GPU-hours a failure; 0: by the hardware */
    double price_usd_h;         /* of a GPU on demand; 0: by the catalogue */
    double spares_p;            /* probability that spares suffice; 0: 0.99 */
    double band_low, band_high; /* 0: of the tables */
    size_t runs;                /* campaigns to play for the percentiles; 0: none */
    uint64_t seed;
    double *walls; /* room for `runs` */
};
struct plan_bill { /* one way to pay */
    bool known;
    double factor; /* wall time for a second of work */
    double days;   /* expected, interruptions in it */
    double interruptions;
    struct plan_range usd; /* prices' range at the expected time */
};
struct plan_campaign {
    double steps, tokens_s;
    double clean_days;      /* without an interruption */
    struct plan_range days; /* expected; ends by the model's band and the failure rates' range */
    struct plan_range gpu_hours;
    struct plan_band band;
    struct plan_failure_rate rate;
    struct plan_outage outage; /* on demand */
    double checkpoint_bytes, interval_s;
    double interval_young_s, interval_daly_s;
    double goodput, ettr; /* by our formula, and by the linear one */
    double mean_away;     /* nodes */
    int64_t spares;
    struct plan_played played;    /* when runs > 0 */
    double gpu_w, node_w, site_w; /* all GPUs; with hosts; with cooling */
    double gpu_kwh, site_kwh;
    struct plan_bill bill[PLAN_PAYS];
};
void plan_campaign_of(const struct plan_facts *f, const struct plan_model *m,
                      const struct plan_counts *n, const struct plan_cluster *cl,
                      const struct plan_config *c, const struct plan_time *t,
                      const struct plan_campaign_want *want, struct plan_campaign *out);

#endif

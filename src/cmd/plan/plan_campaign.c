/* SPDX-License-Identifier: MIT */
/* stoker plan campaign: a whole run on a given cluster: days, GPU-hours, dollars, watts, failures.
 * stoker plan goodput: only interruptions, for any job. */
#include "cmd/plan/plan_request_int.h"
#include "cmd/plan/plan_train_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"

#include <math.h>

enum { RUNS = 2000, SEED = 1, SPARES_SHOWN = 12, EXIT_LIMIT = 4 };

struct campaign_opts {
    struct request_opts request;
    const char *days, *step, *price, *mtbf, *write, *restart, *repair, *interval, *spot_wait,
        *spares;
};

struct campaign_job {
    struct run_request request; /* first: see request_json_best() */
    struct plan_campaign_want want;
    struct plan_campaign r;
    struct plan_range played_days;
    double interruptions;
    const char *failures_source;
    double deadline_s; /* 0: none */
};

static enum rc read_rate(const char *text, double *out, struct err *err)
{
    struct err inner = { 0 };
    uint64_t bits;

    if (units_rate_parse(text, &bits, &inner) || !bits) {
        err_hint(err, "Give a rate such as 20GB/s.");
        return err_set(err, RC_USAGE, "option '--write' cannot be '%s'", text);
    }
    *out = (double)bits / 8;
    return RC_OK;
}

static enum rc read_want(const struct campaign_opts *o, struct plan_campaign_want *w,
                         struct err *err)
{
    if ((o->price && option_money("--price", o->price, &w->price_usd_h, err)) ||
        (o->mtbf && option_count("--mtbf", o->mtbf, 1, 1e15, &w->gpu_hours_fail, err)) ||
        (o->write && read_rate(o->write, &w->write_bytes_s, err)) ||
        (o->restart && option_seconds("--restart", o->restart, &w->restart_s, err)) ||
        (o->repair && option_seconds("--repair", o->repair, &w->repair_s, err)) ||
        (o->interval && option_seconds("--interval", o->interval, &w->interval_s, err)) ||
        (o->spot_wait && option_seconds("--spot-wait", o->spot_wait, &w->spot_wait_s, err)) ||
        (o->spares && option_share("--spares", o->spares, &w->spares_p, err)))
        return err->code;
    return RC_OK;
}

/* Too many failures for any progress: said instead of a figure nobody could use. */
static enum rc check_progress(double goodput, const struct plan_outage *o, struct err *err)
{
    if (goodput > 0.01)
        return RC_OK;
    err_hint(err, "A faster --write or --restart, or fewer GPUs, would let it advance.");
    return err_set(err, RC_LIMIT,
                   "with a failure every %s and %s to restart the run would not get anywhere",
                   TEXT_TIME(o->mtbf_s), TEXT_TIME(o->restart_s));
}

/* Of adapters only: what the optimizer holds, with 14 bytes for its 12. */
static double adapter_bytes(const struct campaign_job *j)
{
    const struct plan_config *c = &j->request.best.config;
    double gpus = (double)c->tp * c->pp * (c->zero ? (double)c->dp * c->cp : 1);

    return (double)j->request.best.memory.kind[PLAN_MEM_OPTIMIZER] * gpus * 14 / 12;
}

static void campaign_of(struct campaign_job *j)
{
    if (j->request.best.config.lora_rank)
        j->want.checkpoint_bytes = adapter_bytes(j);

    plan_campaign_of(&j->request.facts, &j->request.model, &j->request.counts, &j->request.cluster,
                     &j->request.best.config, &j->request.best.time, &j->want, &j->r);
}

/* Tokens that fit into the days: a run's time is proportional to them. */
static void tokens_for(struct campaign_job *j)
{
    double probe = 1e12;

    j->want.tokens = probe;
    campaign_of(j);
    j->want.tokens = probe * j->deadline_s / (j->r.days.usual * PLAN_DAY_S);
    j->request.tokens = j->want.tokens;
}

/* A step that was measured: nothing is left to predict, and the band closes. */
static enum rc measured_step(const char *text, struct campaign_job *j, struct err *err)
{
    struct plan_time *t = &j->request.best.time;
    double seconds;

    if (option_seconds("--step", text, &seconds, err))
        return err->code;
    t->mfu *= t->step_s / seconds;
    t->joules = 0; /* of another time */
    t->step_s = seconds;
    j->want.band_low = j->want.band_high = 1;
    return RC_OK;
}

static enum rc read_job(const struct campaign_opts *o, struct campaign_job *j, struct err *err)
{
    if (!o->request.gpus) {
        err_hint(err, "For example --gpus 64; 'stoker plan cluster' finds how many a deadline "
                      "needs.");
        return err_set(err, RC_USAGE, "there is no --gpus");
    }
    if (read_want(o, &j->want, err) ||
        (o->days && option_seconds("--time", o->days, &j->deadline_s, err)))
        return err->code;
    if (request_cluster(&j->request, &o->request, o->request.gpus, err) ||
        request_best(&j->request, &o->request, err))
        return err->code;
    if (o->step && measured_step(o->step, j, err))
        return err->code;
    if (j->deadline_s > 0 && !j->request.tokens_given)
        tokens_for(j);
    j->want.tokens = j->request.tokens;
    j->want.runs = RUNS;
    j->want.seed = SEED;
    campaign_of(j);
    j->played_days =
        (struct plan_range){ j->r.played.p10 / PLAN_DAY_S, j->r.played.mean / PLAN_DAY_S,
                             j->r.played.p90 / PLAN_DAY_S };
    j->interruptions = plan_outage_count(&j->r.outage, j->r.days.usual * PLAN_DAY_S);
    j->failures_source = j->want.gpu_hours_fail > 0 ? "given" : j->r.rate.usual->source;
    return check_progress(j->r.goodput, &j->r.outage, err);
}

/* ---- figures ---- */
static const struct field played_fields[] = {
    FIELD_OF("mean", struct plan_range, usual, "the mean"),
    FIELD_OF("p10", struct plan_range, low, "a tenth is faster"),
    FIELD_OF("p90", struct plan_range, high, "a tenth is slower"),
};
static FIELD_TABLE(played_table, "played", struct plan_range, played_fields);

static const struct field band_fields[] = {
    FIELD_OF("low", struct plan_band, low, "of the predicted time, at the low end"),
    FIELD_OF("high", struct plan_band, high, "at the high end"),
    FIELD_OF("n", struct plan_band, n, "published runs behind it"),
    FIELD_OF("source", struct plan_band, source, "which runs"),
};
static FIELD_TABLE(band_table, "band", struct plan_band, band_fields);

static const struct field bill_fields[] = {
    FIELD_RANGE("usd", struct plan_bill, usd, "dollars of the run"),
    FIELD_OF("days", struct plan_bill, days, "days, interruptions included"),
    FIELD_OF("interruptions", struct plan_bill, interruptions, "how many"),
};
static FIELD_TABLE(bill_table, "bill", struct plan_bill, bill_fields);

static void json_bills(struct json_out *w, const void *obj)
{
    const struct campaign_job *j = obj;

    json_kv_obj(w, "cost");
    for (int i = 0; i < PLAN_PAYS; i++) {
        json_key(w, i == PLAN_ON_DEMAND ? "on_demand" : plan_pay_names[i]);
        if (j->r.bill[i].known)
            fields_write(w, &bill_table, &j->r.bill[i]);
        else
            json_add_null(w);
    }
    json_obj_end(w);
}

#define S struct campaign_job
static const struct field campaign_fields[] = {
    FIELD_BY(request_json_model),
    FIELD_BY(request_json_best),
    FIELD_OF("tokens", S, request.tokens, "to train on"),
    FIELD_OF("steps", S, r.steps, "of the optimizer"),
    FIELD_OF("tokens_s", S, r.tokens_s, "tokens a second while it runs"),
    FIELD_OF("clean_days", S, r.clean_days, "days without an interruption"),
    FIELD_RANGE("days", S, r.days, "days of the run", .title = "days", .words = text_short),
    FIELD_RANGE("gpu_hours", S, r.gpu_hours, "GPU-hours of the run", .title = "GPU-hours",
                .words = text_short),
    FIELD_SUB("band", S, r.band, &band_table, "error of the predicted time"),
    FIELD_RANGE("gpu_hours_a_failure", S, r.rate.gpu_hours, "GPU-hours between failures"),
    FIELD_OF("failures_source", S, failures_source, "where that rate comes from"),
    FIELD_OF("mtbf_s", S, r.outage.mtbf_s, "seconds between failures of the run"),
    FIELD_OF("interruptions", S, interruptions, "of the run", .title = "interruptions",
             .words = text_short),
    FIELD_OF("checkpoint_bytes", S, r.checkpoint_bytes, "of one save"),
    FIELD_OF("save_s", S, r.outage.save_s, "seconds to write it"),
    FIELD_OF("restart_s", S, r.outage.restart_s, "seconds from a failure to the next step"),
    FIELD_OF("interval_s", S, r.interval_s, "seconds between saves", .title = "save every",
             .words = text_time),
    FIELD_OF("interval_young_s", S, r.interval_young_s, "the best by Young's formula"),
    FIELD_OF("interval_daly_s", S, r.interval_daly_s, "by Daly's"),
    FIELD_OF("goodput", S, r.goodput, "share of the time that trains"),
    FIELD_OF("goodput_linear", S, r.ettr, "by the linear formula"),
    FIELD_OF("nodes_away", S, r.mean_away, "nodes that are broken, on the average"),
    FIELD_OF("spare_nodes", S, r.spares, "that suffice", .title = "spare nodes"),
    FIELD_SUB("played_days", S, played_days, &played_table, "days of runs played at random"),
    FIELD_OF("gpu_w", S, r.gpu_w, "watts of all GPUs"),
    FIELD_OF("site_w", S, r.site_w, "watts with hosts and cooling", .title = "power",
             .words = text_watts),
    FIELD_OF("gpu_kwh", S, r.gpu_kwh, "energy of the GPUs"),
    FIELD_OF("site_kwh", S, r.site_kwh, "energy with hosts and cooling"),
    FIELD_BY(json_bills),
};
static FIELD_TABLE(campaign_doc, "stoker.plan-campaign/1", S, campaign_fields);
#undef S

/* ---- text ---- */
static void time_rows(struct figure_table *t, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    char range[2 * FIELD_TEXT_MAX];

    figure_field(
        t, "days",
        "%s tokens in %.0f steps: %s without interruptions, over a goodput of %.1f %%; the "
        "range is the model's error (%+.0f to %+.0f %%) and that of failure rates",
        TEXT_SHORT(j->request.tokens), r->steps, TEXT_SHORT(r->clean_days), 100 * r->goodput,
        100 * (r->band.low - 1), 100 * (r->band.high - 1));
    figure_field(t, "gpu_hours", "%lld GPUs", (long long)j->request.cluster.gpus);
    snprintf(range, sizeof(range), "%s to %s", TEXT_SHORT(j->played_days.low),
             TEXT_SHORT(j->played_days.high));
    figure_row(t, "days, played", TEXT_SHORT(j->played_days.usual), range,
               "the mean and eight of ten of %d runs with random failures: luck alone", RUNS);
}

static void failure_rows(struct figure_table *t, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    const struct plan_range *rate = &r->rate.gpu_hours;
    double gpus = (double)j->request.cluster.gpus;
    double gpu_hours = r->days.usual * PLAN_DAY_S * gpus / PLAN_HOUR_S;
    char range[2 * FIELD_TEXT_MAX];

    snprintf(range, sizeof(range), "%s to %s", TEXT_TIME(rate->low * PLAN_HOUR_S / gpus),
             TEXT_TIME(rate->high * PLAN_HOUR_S / gpus));
    figure_row(t, "between failures", TEXT_TIME(r->outage.mtbf_s), range,
               "%s GPU-hours a failure (%s; range %s to %s)", TEXT_SHORT(rate->usual),
               j->want.gpu_hours_fail > 0 ? "given" : r->rate.usual->name, r->rate.worst->name,
               r->rate.best->name);
    snprintf(range, sizeof(range), "%s to %s", TEXT_SHORT(gpu_hours / rate->high),
             TEXT_SHORT(gpu_hours / rate->low));
    figure_row(t, "interruptions", TEXT_SHORT(j->interruptions), range,
               "each costs %s to restart and half an interval of work",
               TEXT_TIME(r->outage.restart_s));
    figure_field(t, "interval_s",
                 "%.0f steps; %s takes %s to write; Young says %s, Daly %s; the linear formula's "
                 "goodput is %.1f %%",
                 fmax(1, round(r->interval_s / j->request.best.time.step_s)),
                 TEXT_BYTES(r->checkpoint_bytes), TEXT_TIME(r->outage.save_s),
                 TEXT_TIME(r->interval_young_s), TEXT_TIME(r->interval_daly_s), 100 * r->ettr);
    figure_field(
        t, "spare_nodes",
        "enough with %.4g %%: %.2g nodes are away on the average (%.0f %% of failures take "
        "one, for %s)",
        100 * (j->want.spares_p > 0 ? j->want.spares_p : 0.99), r->mean_away,
        100 * plan_fact(&j->request.facts, "hardware_share"),
        TEXT_TIME(j->want.repair_s > 0 ? j->want.repair_s
                                       : plan_fact(&j->request.facts, "repair_h") * PLAN_HOUR_S));
}

static void power_rows(struct figure_table *t, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    char value[FIELD_TEXT_MAX];

    figure_field(t, "site_w",
                 "%s of GPUs (%.0f W each, their limit is %.0f), with hosts and a PUE of %.2g",
                 TEXT_WATTS(r->gpu_w), r->gpu_w / (double)j->request.cluster.gpus,
                 j->request.cluster.gpu.power_w, plan_fact(&j->request.facts, "pue"));
    snprintf(value, sizeof(value), "%s kWh", TEXT_SHORT(r->site_kwh));
    figure_row(t, "energy", value, "", "%s kWh of it in GPUs", TEXT_SHORT(r->gpu_kwh));
}

static void money_rows(struct figure_table *t, const struct campaign_job *j)
{
    for (int i = 0; i < PLAN_PAYS; i++) {
        const struct plan_bill *bill = &j->r.bill[i];

        if (!bill->known)
            figure_row(t, plan_pay_names[i], "-", "", "no price is known: give --price");
        else if (i == PLAN_SPOT)
            figure_range(
                t, plan_pay_names[i], &bill->usd, text_usd,
                "%s days with %s interruptions: %.3g %% of instances a month are taken away",
                TEXT_SHORT(bill->days), TEXT_SHORT(bill->interruptions),
                100 * plan_spot_rate(&j->request.facts, &j->request.cluster.gpu).usual);
        else
            figure_range(t, plan_pay_names[i], &bill->usd, text_usd, "%s a GPU-hour%s%s",
                         TEXT_USD(bill->usd.usual / j->r.gpu_hours.usual),
                         i == PLAN_RESERVED ? ", 30 to 66 % off" : ", prices of ",
                         i == PLAN_RESERVED        ? ""
                         : j->want.price_usd_h > 0 ? "yours"
                                                   : j->request.cluster.gpu.price_date);
    }
}

static void campaign_notes(struct cmd_ctx *ctx, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    const struct plan_bill *od = &r->bill[PLAN_ON_DEMAND], *spot = &r->bill[PLAN_SPOT];

    buf_addc(&ctx->out, '\n');
    if (j->want.band_low > 0)
        print_note(ctx, "The time of a step is measured: the range is that of failure rates.");
    else
        print_note(ctx, "Error band: %s (n %lld)%s.", r->band.source, (long long)r->band.n,
                   r->band.stand_in ? "; no run of this very GPU, or of adapters, is among them"
                                    : "");
    print_note(ctx,
               "Plan for more: GPU-hours that makers published were %.1f to %.1f times such a "
               "prediction; they hold ablations, evaluation and restarts by hand.",
               plan_fact(&j->request.facts, "published_low"),
               plan_fact(&j->request.facts, "published_high"));
    if (od->known && spot->known)
        print_note(ctx,
                   "Spot or not: on spot the same work takes %.1f %% longer and costs %.0f %% %s; "
                   "above %.2f of the on-demand price spot no longer pays.",
                   100 * (spot->days / r->days.usual - 1),
                   100 * fabs(1 - spot->usd.usual / od->usd.usual),
                   spot->usd.usual < od->usd.usual ? "less" : "more", r->days.usual / spot->days);
    if (j->deadline_s > 0 && j->request.tokens_given) {
        bool ok = r->days.usual * PLAN_DAY_S <= j->deadline_s;
        bool sure = r->days.high * PLAN_DAY_S <= j->deadline_s;

        print_note(ctx, "%s",
                   sure ? "It is done in time, also at the far end of the range."
                   : ok ? "It is done in time if the prediction holds; not at the far end "
                          "of the range."
                        : "It is not done in time: 'stoker plan cluster' finds how many "
                          "GPUs are.");
    }
}

static void campaign_text(struct cmd_ctx *ctx, const struct campaign_job *j)
{
    struct figure_table t;

    print_request(ctx, &j->request);
    figure_begin(&t, &campaign_doc, j);
    time_rows(&t, j);
    failure_rows(&t, j);
    power_rows(&t, j);
    money_rows(&t, j);
    figure_end(&t, ctx);
    campaign_notes(ctx, j);
}

static enum rc run_campaign(struct cmd_ctx *ctx, struct err *err)
{
    struct campaign_opts *o = ctx->opts;
    struct campaign_job j = { 0 };
    enum rc rc;

    if (request_spec(ctx, &o->request, &o->price, true, err) ||
        request_read(&o->request, &j.request, err))
        return err->code;
    j.want.walls = xcalloc(RUNS, sizeof(double));
    rc = read_job(o, &j, err);
    if (rc == RC_OK && o->request.json)
        fields_write_report(&ctx->out, &campaign_doc, &j);
    else if (rc == RC_OK)
        campaign_text(ctx, &j);
    if (rc == RC_OK && j.deadline_s > 0 && j.request.tokens_given &&
        j.r.days.usual * PLAN_DAY_S > j.deadline_s)
        ctx->status = EXIT_LIMIT;
    free(j.want.walls);
    request_release(&j.request);
    return rc;
}

#define S campaign_opts
#define FAILURE_OPTS(S)                                                                            \
    ROW_OPT(S, 0, "mtbf", STR, mtbf, "COUNT",                                                      \
            "GPU-hours a failure (default: by published runs of the hardware)"),                   \
        ROW_OPT(S, 0, "write", STR, write, "RATE",                                                 \
                "bytes a second of a checkpoint, in all (default 0.71 GB/s a node)"),              \
        ROW_OPT(S, 0, "restart", STR, restart, "TIME", "from a failure to the next step (10m)"),   \
        ROW_OPT(S, 0, "repair", STR, repair, "TIME", "until a broken node is back (24h)"),         \
        ROW_OPT(S, 0, "interval", STR, interval, "TIME", "between saves (default: the best)"),     \
        ROW_OPT(S, 0, "spares", STR, spares, "PERCENT", "how sure spare nodes suffice (99%)")
static const struct opt campaign_opts[] = {
    ROW_FILE(S),
    ROW_MODEL(S),
    ROW_GPU(S),
    ROW_MACHINE(S),
    ROW_GPUS(S),
    ROW_TOKENS(S),
    ROW_OPT(S, 0, "time", STR, days, "TIME",
            "as 7d: without --tokens, how many tokens fit into it; with --tokens, a deadline"),
    ROW_SEQ(S),
    ROW_BATCH(S),
    ROW_PRECISION(S),
    ROW_OPTIMIZER(S),
    ROW_KERNELS(S),
    ROW_OPT(S, 0, "config", STR, request.config, "CONFIG",
            "a cut such as 'tp8 pp16 zero1 mbs1 sp' (default: the search's choice)"),
    ROW_OPT(S, 0, "step", STR, step, "TIME", "of a step, measured: nothing is predicted then"),
    ROW_OPT(S, 0, "price", STR, price, "DOLLARS", "of a GPU-hour on demand"),
    FAILURE_OPTS(S),
    ROW_OPT(S, 0, "spot-wait", STR, spot_wait, "TIME", "until spot capacity is there again (30m)"),
    ROW_NUM(S, "lora", request.lora, 1, 65536, "learn adapters of rank N alone"),
    ROW_NUM(S, "base-bits", request.bits, 4, 16,
            "bits of a layer's frozen weight with --lora (default 16)"),
    ROW_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example campaign_examples[] = {
    { "stoker plan campaign --model llama-3.1-70b --gpus 64 --time 7d",
      "what a week on 64 H100 is good for" },
    { "stoker plan campaign --model llama-3.1-405b --gpus 16384 --tokens 15.6T --seq 8192 "
      "--config 'tp8 pp16 zero1 mbs1 sp'",
      "a run with a given cut: days, failures, dollars and watts" },
    { "stoker plan campaign -f stoker.yaml train-70b",
      "the run of a site's component, with its machines, network, tokens and prices" },
    { 0 },
};
const struct cmd cmd_plan_campaign = {
    .name = "campaign",
    .summary = "predict days, cost, power and failures of a whole run",
    .operands = "[COMPONENT]",
    .args_max = 1,
    .opts = campaign_opts,
    .opts_size = sizeof(struct campaign_opts),
    .about =
        "Takes the fastest configuration that fits (or the one of --config), and from the time of "
        "its step, published failure rates and dated prices works out the whole run. Every figure "
        "is a range: the time carries the error of the model on published runs it had not been "
        "fitted to.\n\n"
        "The interval between saves is the exact optimum for random failures; Young's and Daly's "
        "are beside it. Interruptions are also played with random failures (a fixed seed), as a "
        "check on the formula. With --time and --tokens the exit status is 4 when the run is not "
        "done in time.\n\n"
        "With --file the job is read and planned as 'stoker plan train -f' does it, tokens and "
        "prices included. COMPONENT may be left out where one component trains.",
    .examples = campaign_examples,
    .run = run_campaign,
};

/* ---- goodput ---- */
struct goodput_opts {
    struct request_opts request; /* file, model, gpu, gpus, json */
    const char *checkpoint, *mtbf, *write, *restart, *repair, *interval, *spares;
};

struct goodput_job {
    struct plan_facts facts;
    struct plan_gpu gpu;
    struct plan_failure_rate rate;
    struct plan_outage o;
    double bytes, interval_s, young_s, daly_s, goodput, linear, away, played;
    double spares_p; /* asked for */
    double suffice;  /* what the spares reach */
    int64_t gpus, nodes, spares;
    const struct train_job *planned; /* NULL: no spec */
};

static enum rc checkpoint_bytes(const struct goodput_opts *o, struct goodput_job *j,
                                struct err *err)
{
    struct plan_counts n;
    struct plan_model m;
    uint64_t bytes;

    if (o->checkpoint) {
        if (units_bytes_parse(o->checkpoint, &bytes, err))
            return err_ctx(err, "option '--checkpoint'");
        j->bytes = (double)bytes;
        return RC_OK;
    }
    if (o->request.planned) {
        n = o->request.planned->counts;
        j->bytes = plan_fact(&j->facts, "checkpoint_bytes") * (double)n.total;
        return RC_OK;
    }
    if (!o->request.model) {
        err_hint(err, "For example --checkpoint 5.7TB or --model llama-3.1-405b.");
        return err_set(err, RC_USAGE, "there is no --checkpoint and no --model");
    }
    if (plan_read_model(o->request.model, &m, err) || plan_model_counts(&m, &n, err))
        return err->code;
    j->bytes = plan_fact(&j->facts, "checkpoint_bytes") * (double)n.total;
    return RC_OK;
}

static enum rc goodput_read(const struct goodput_opts *o, struct arena *a, struct goodput_job *j,
                            struct err *err)
{
    struct campaign_opts same = { .mtbf = o->mtbf,
                                  .write = o->write,
                                  .restart = o->restart,
                                  .repair = o->repair,
                                  .interval = o->interval,
                                  .spares = o->spares };
    const struct train_job *planned = o->request.planned;
    struct plan_campaign_want w = { 0 };
    double repair;

    if (plan_facts_load(a, &j->facts, err) || read_want(&same, &w, err) ||
        plan_gpu_by_name(o->request.gpu ? o->request.gpu : "h100", &j->gpu, err) ||
        checkpoint_bytes(o, j, err))
        return err->code;
    j->planned = planned;
    j->gpus = o->request.gpus;
    if (planned) {
        j->gpu = planned->cases[0].cluster.gpu;
        j->gpus = j->gpus ? j->gpus : planned->cases[0].cluster.gpus;
    }
    if (!j->gpus) {
        err_hint(err, "For example --gpus 16384.");
        return err_set(err, RC_USAGE, "there is no --gpus");
    }
    j->nodes = (j->gpus + 7) / 8;
    plan_failure_rate_of(&j->facts, &j->gpu, &j->rate);
    if (w.gpu_hours_fail > 0)
        j->rate.gpu_hours.usual = w.gpu_hours_fail;
    j->o.mtbf_s = j->rate.gpu_hours.usual * PLAN_HOUR_S / (double)j->gpus;
    j->o.save_s = j->bytes / (w.write_bytes_s > 0 ? w.write_bytes_s
                                                  : plan_fact(&j->facts, "write_node_gb_s") * 1e9 *
                                                        (double)j->nodes);
    j->o.restart_s = w.restart_s > 0 ? w.restart_s : plan_fact(&j->facts, "restart_s");
    j->interval_s = w.interval_s > 0 ? w.interval_s : plan_outage_interval(&j->o);
    j->young_s = plan_interval_young(j->o.save_s, j->o.mtbf_s);
    j->daly_s = plan_interval_daly(j->o.save_s, j->o.mtbf_s);
    j->goodput = 1 / plan_wall_factor(&j->o, j->interval_s);
    j->linear = plan_ettr(&j->o, j->interval_s);
    repair = w.repair_s > 0 ? w.repair_s : plan_fact(&j->facts, "repair_h") * PLAN_HOUR_S;
    j->away = plan_fact(&j->facts, "hardware_share") / j->o.mtbf_s * repair;
    j->spares_p = w.spares_p > 0 ? w.spares_p : 0.99;
    j->spares = plan_spares_for(j->away, j->spares_p);
    j->suffice = plan_spares_suffice(j->away, j->spares);
    return RC_OK;
}

static void goodput_intervals(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    const struct {
        const char *name;
        double s;
    } rows[] = {
        { "best (exact)", plan_outage_interval(&j->o) },
        { "Young", j->young_s },
        { "Daly", j->daly_s },
        { "half of best", plan_outage_interval(&j->o) / 2 },
        { "twice best", plan_outage_interval(&j->o) * 2 },
        { "10 minutes", 600 },
        { "1 hour", PLAN_HOUR_S },
        { "3 hours", 3 * PLAN_HOUR_S },
    };
    struct table *t = table_new();
    char a[FIELD_TEXT_MAX];

    table_col(t, "save every", TABLE_LEFT);
    table_col(t, "time", TABLE_RIGHT);
    table_col(t, "saving", TABLE_RIGHT);
    table_col(t, "lost work and restarts", TABLE_RIGHT);
    table_col(t, "goodput", TABLE_RIGHT);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double good = 1 / plan_wall_factor(&j->o, rows[i].s), saving = j->o.save_s / rows[i].s;

        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", rows[i].name);
        table_cell(t, COLOUR_NONE, "%s", text_time(rows[i].s, a));
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * saving * good);
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * (1 - good - saving * good));
        table_cell(t, i ? COLOUR_NONE : COLOUR_BOLD, "%.2f %%", 100 * good);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void goodput_spares(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    int64_t step = j->spares / SPARES_SHOWN + 1;
    struct table *t = table_new();

    table_col(t, "spare nodes", TABLE_RIGHT);
    table_col(t, "of the cluster", TABLE_RIGHT);
    table_col(t, "suffice at a moment", TABLE_RIGHT);
    for (int64_t k = j->spares % step; k <= j->spares + step; k += step) {
        table_row(t);
        table_cell(t, k == j->spares ? COLOUR_BOLD : COLOUR_NONE, "%lld", (long long)k);
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * (double)k / (double)j->nodes);
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * plan_spares_suffice(j->away, k));
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void goodput_text(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    const struct plan_range *rate = &j->rate.gpu_hours;
    double gpus = (double)j->gpus;

    print_note(ctx,
               "%lld x %s fail once in %s (%s to %s): %s GPU-hours a failure (%s). A checkpoint of "
               "%s is written in %s; a restart takes %s.",
               (long long)j->gpus, j->gpu.name, TEXT_TIME(j->o.mtbf_s),
               TEXT_TIME(rate->low * PLAN_HOUR_S / gpus),
               TEXT_TIME(rate->high * PLAN_HOUR_S / gpus), TEXT_SHORT(rate->usual),
               j->rate.usual->source, TEXT_BYTES(j->bytes), TEXT_TIME(j->o.save_s),
               TEXT_TIME(j->o.restart_s));
    buf_addc(&ctx->out, '\n');
    goodput_intervals(ctx, j);
    print_note(
        ctx,
        "\nSaving every %s: %.2f %% by the formula, %.2f %% in %d played runs of 100 failures, "
        "%.2f %% by the linear formula of Kokolis et al. 2025.",
        TEXT_TIME(j->interval_s), 100 * j->goodput, 100 * j->played, RUNS, 100 * j->linear);
    goodput_spares(ctx, j);
    print_note(ctx, "\n%lld spare nodes suffice with %.4g %%; %.3g are away on the average.",
               (long long)j->spares, 100 * j->spares_p, j->away);
}

static void json_planned(struct json_out *w, const void *obj)
{
    const struct goodput_job *j = obj;

    if (j->planned)
        train_spec_json(w, j->planned);
}

#define S struct goodput_job
static const struct field goodput_fields[] = {
    FIELD_BY(json_planned),
    FIELD_OF("gpu", S, gpu.name, "kind of GPU"),
    FIELD_OF("gpus", S, gpus, "GPUs of the job"),
    FIELD_RANGE("gpu_hours_a_failure", S, rate.gpu_hours, "GPU-hours between failures"),
    FIELD_OF("mtbf_s", S, o.mtbf_s, "seconds between failures of the job"),
    FIELD_OF("checkpoint_bytes", S, bytes, "of one save"),
    FIELD_OF("save_s", S, o.save_s, "seconds to write it"),
    FIELD_OF("restart_s", S, o.restart_s, "seconds from a failure to the next step"),
    FIELD_OF("interval_s", S, interval_s, "seconds between saves"),
    FIELD_OF("interval_young_s", S, young_s, "the best by Young's formula"),
    FIELD_OF("interval_daly_s", S, daly_s, "by Daly's"),
    FIELD_OF("goodput", S, goodput, "share of the time that trains"),
    FIELD_OF("goodput_played", S, played, "in runs played at random"),
    FIELD_OF("goodput_linear", S, linear, "by the linear formula"),
    FIELD_OF("nodes_away", S, away, "nodes that are broken, on the average"),
    FIELD_OF("spare_nodes", S, spares, "that suffice"),
    FIELD_OF("spares_suffice", S, suffice, "how probably they do"),
};
static FIELD_TABLE(goodput_doc, "stoker.plan-goodput/1", S, goodput_fields);
#undef S

static enum rc run_goodput(struct cmd_ctx *ctx, struct err *err)
{
    static const char *const taken[] = { "--model", "--gpus", "--gpu", NULL };
    struct goodput_opts *o = ctx->opts;
    struct goodput_job j = { 0 };
    struct plan_played played;
    struct arena a = { 0 };
    double *walls = NULL;
    enum rc rc = request_spec(ctx, &o->request, NULL, false, err);

    if (rc == RC_OK)
        rc = goodput_read(o, &a, &j, err);
    if (rc == RC_OK && o->request.planned)
        train_spec_keep(o->request.planned, taken);
    if (rc == RC_OK)
        rc = check_progress(j.goodput, &j.o, err);
    if (rc == RC_OK) {
        walls = xcalloc(RUNS, sizeof(*walls));
        plan_outage_play(&j.o, 100 * j.o.mtbf_s, j.interval_s, RUNS, SEED, walls, &played);
        j.played = 100 * j.o.mtbf_s / played.mean;
        if (o->request.planned && !o->request.json)
            train_spec_print(ctx, o->request.planned);
        if (o->request.json)
            fields_write_report(&ctx->out, &goodput_doc, &j);
        else
            goodput_text(ctx, &j);
    }
    free(walls);
    train_job_free(o->request.planned);
    arena_release(&a);
    return rc;
}

#define S goodput_opts
static const struct opt goodput_opts[] = {
    ROW_FILE(S),
    ROW_GPU(S),
    ROW_NUM(S, "gpus", request.gpus, 1, PLAN_GPUS_MAX, "GPUs of the job, which stops as a whole"),
    ROW_OPT(S, 'm', "model", STR, request.model, "MODEL",
            "whose checkpoint it is (14 bytes a parameter)"),
    ROW_OPT(S, 0, "checkpoint", STR, checkpoint, "BYTES", "instead, as 5.7TB"),
    FAILURE_OPTS(S),
    ROW_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example goodput_examples[] = {
    { "stoker plan goodput --gpus 16384 --model llama-3.1-405b", "how often to save at 16k GPUs" },
    { "stoker plan goodput --gpu a100 --gpus 384 --checkpoint 2.3TB --write 57GB/s",
      "with a measured write rate" },
    { "stoker plan goodput -f stoker.yaml train-70b", "for the component of a site" },
    { 0 },
};
const struct cmd cmd_plan_goodput = {
    .name = "goodput",
    .summary = "find how often to save, and how many spare nodes to keep",
    .operands = "[COMPONENT]",
    .args_max = 1,
    .opts = goodput_opts,
    .opts_size = sizeof(struct goodput_opts),
    .about = "Failures come at random at a rate taken from published runs, a save stops training "
             "for as long as it takes to write, and a failure costs the work since the last save "
             "and a restart. Saving too often and too seldom both cost; the table shows by how "
             "much. The share of time that is left for training is the goodput; it is computed "
             "and, as a check, played.",
    .examples = goodput_examples,
    .run = run_goodput,
};

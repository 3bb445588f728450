/* SPDX-License-Identifier: MIT */
/* stoker plan campaign: a whole run on a given cluster: days, GPU-hours, dollars, watts, failures.
 * stoker plan goodput: interruptions alone, for any job. */
#include "cmd/plan/plan_request_int.h"
#include "cmd/plan/plan_train_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"

#include <math.h>

enum { RUNS = 2000, SEED = 1, SPARES_SHOWN = 12, EXIT_LIMIT = 4 };

struct campaign_opts {
    struct ask_opts ask;
    const char *days, *step, *price, *mtbf, *write, *restart, *repair, *interval, *spot_wait,
        *spares;
};

struct campaign_job {
    struct ask ask;
    struct plan_cluster cluster;
    struct plan_best best;
    struct plan_campaign_want want;
    struct plan_campaign r;
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
    if ((o->price && ask_money("--price", o->price, &w->price_usd_h, err)) ||
        (o->mtbf && ask_count("--mtbf", o->mtbf, 1, 1e15, &w->gpu_hours_fail, err)) ||
        (o->write && read_rate(o->write, &w->write_bytes_s, err)) ||
        (o->restart && ask_seconds("--restart", o->restart, &w->restart_s, err)) ||
        (o->repair && ask_seconds("--repair", o->repair, &w->repair_s, err)) ||
        (o->interval && ask_seconds("--interval", o->interval, &w->interval_s, err)) ||
        (o->spot_wait && ask_seconds("--spot-wait", o->spot_wait, &w->spot_wait_s, err)) ||
        (o->spares && ask_share("--spares", o->spares, &w->spares_p, err)))
        return err->code;
    return RC_OK;
}

/* Too many failures for any progress: said instead of a figure nobody could use. */
static enum rc check_progress(const struct plan_campaign *r, struct err *err)
{
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    if (r->goodput > 0.01)
        return RC_OK;
    err_hint(err, "A faster --write or --restart, or fewer GPUs, would let it advance.");
    return err_set(err, RC_LIMIT,
                   "with a failure every %s and %s to restart the run would not get anywhere",
                   ask_time(r->outage.mtbf_s, a), ask_time(r->outage.restart_s, b));
}

/* Of adapters alone: what the optimizer holds, with 14 bytes for its 12. */
static double adapter_bytes(const struct campaign_job *j)
{
    const struct plan_config *c = &j->best.config;
    double gpus = (double)c->tp * c->pp * (c->zero ? (double)c->dp * c->cp : 1);

    return (double)j->best.memory.kind[PLAN_MEM_OPTIMIZER] * gpus * 14 / 12;
}

static void campaign_of(struct campaign_job *j)
{
    if (j->best.config.lora_rank)
        j->want.checkpoint_bytes = adapter_bytes(j);

    plan_campaign_of(&j->ask.facts, &j->ask.model, &j->ask.counts, &j->cluster, &j->best.config,
                     &j->best.time, &j->want, &j->r);
}

/* Tokens that fit into the days: a run's time is proportional to them. */
static void tokens_for(struct campaign_job *j)
{
    double probe = 1e12;

    j->want.tokens = probe;
    campaign_of(j);
    j->want.tokens = probe * j->deadline_s / (j->r.days.usual * PLAN_DAY_S);
    j->ask.tokens = j->want.tokens;
}

/* A step that was measured: nothing is left to predict, and the band closes. */
static enum rc measured_step(const char *text, struct campaign_job *j, struct err *err)
{
    struct plan_time *t = &j->best.time;
    double seconds;

    if (ask_seconds("--step", text, &seconds, err))
        return err->code;
    t->mfu *= t->step_s / seconds;
    t->joules = 0; /* of another time */
    t->step_s = seconds;
    j->want.band_low = j->want.band_high = 1;
    return RC_OK;
}

static enum rc read_job(const struct campaign_opts *o, struct campaign_job *j, struct err *err)
{
    if (!o->ask.gpus) {
        err_hint(err, "For example --gpus 64; 'stoker plan cluster' finds how many a deadline "
                      "needs.");
        return err_set(err, RC_USAGE, "there is no --gpus");
    }
    if (read_want(o, &j->want, err) ||
        (o->days && ask_seconds("--time", o->days, &j->deadline_s, err)))
        return err->code;
    if (ask_cluster(&j->ask, &o->ask, o->ask.gpus, &j->cluster, err) ||
        ask_best(&j->ask, &o->ask, &j->cluster, &j->best, err))
        return err->code;
    if (o->step && measured_step(o->step, j, err))
        return err->code;
    if (j->deadline_s > 0 && !j->ask.tokens_given)
        tokens_for(j);
    j->want.tokens = j->ask.tokens;
    j->want.runs = RUNS;
    j->want.seed = SEED;
    campaign_of(j);
    return check_progress(&j->r, err);
}

/* ---- text ---- */
static void range_text(const struct plan_range *r, const char *(*fmt)(double, char *),
                       char value[ASK_TEXT_MAX], char range[2 * ASK_TEXT_MAX])
{
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    fmt(r->usual, value);
    range[0] = 0;
    if (r->low < r->high)
        snprintf(range, 2 * ASK_TEXT_MAX, "%s to %s", fmt(r->low, a), fmt(r->high, b));
}

static void time_rows(struct ask_table *t, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX], a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    range_text(&r->days, ask_short, v, w);
    ask_row(t, "days", v, w,
            "%s tokens in %.0f steps: %s without interruptions, over a goodput of %.1f %%; the "
            "range is the model's error (%+.0f to %+.0f %%) and that of failure rates",
            ask_short(j->ask.tokens, a), r->steps, ask_short(r->clean_days, b), 100 * r->goodput,
            100 * (r->band.low - 1), 100 * (r->band.high - 1));
    range_text(&r->gpu_hours, ask_short, v, w);
    ask_row(t, "GPU-hours", v, w, "%lld GPUs", (long long)j->cluster.gpus);
    snprintf(w, sizeof(w), "%s to %s", ask_short(r->played.p10 / PLAN_DAY_S, a),
             ask_short(r->played.p90 / PLAN_DAY_S, b));
    ask_row(t, "days, played", ask_short(r->played.mean / PLAN_DAY_S, v), w,
            "the mean and eight of ten of %d runs with random failures: luck alone", RUNS);
}

static void failure_rows(struct ask_table *t, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    double gpus = (double)j->cluster.gpus, wall = r->days.usual * PLAN_DAY_S;
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX], a[ASK_TEXT_MAX], b[ASK_TEXT_MAX], c[ASK_TEXT_MAX];

    snprintf(w, sizeof(w), "%s to %s", ask_time(r->rate.gpu_hours.low * PLAN_HOUR_S / gpus, a),
             ask_time(r->rate.gpu_hours.high * PLAN_HOUR_S / gpus, b));
    ask_row(t, "between failures", ask_time(r->outage.mtbf_s, v), w,
            "%s GPU-hours a failure (%s; range %s to %s)", ask_short(r->rate.gpu_hours.usual, c),
            j->want.gpu_hours_fail > 0 ? "given" : r->rate.usual->name, r->rate.worst->name,
            r->rate.best->name);
    snprintf(w, sizeof(w), "%s to %s",
             ask_short(wall * gpus / PLAN_HOUR_S / r->rate.gpu_hours.high, a),
             ask_short(wall * gpus / PLAN_HOUR_S / r->rate.gpu_hours.low, b));
    ask_row(t, "interruptions", ask_short(plan_outage_count(&r->outage, wall), v), w,
            "each costs %s to restart and half an interval of work",
            ask_time(r->outage.restart_s, a));
    ask_row(
        t, "save every", ask_time(r->interval_s, v), "",
        "%.0f steps; %s takes %s to write; Young says %s, Daly %s; the linear formula's goodput is "
        "%.1f %%",
        fmax(1, round(r->interval_s / j->best.time.step_s)), ask_bytes(r->checkpoint_bytes, a),
        ask_time(r->outage.save_s, b), ask_time(r->interval_young_s, c),
        ask_time(r->interval_daly_s, w), 100 * r->ettr);
    snprintf(v, sizeof(v), "%lld", (long long)r->spares);
    ask_row(
        t, "spare nodes", v, "",
        "enough with %.4g %%: %.2g nodes are away on the average (%.0f %% of failures take one, "
        "for %s)",
        100 * (j->want.spares_p > 0 ? j->want.spares_p : 0.99), r->mean_away,
        100 * plan_fact(&j->ask.facts, "hardware_share"),
        ask_time(j->want.repair_s > 0 ? j->want.repair_s
                                      : plan_fact(&j->ask.facts, "repair_h") * PLAN_HOUR_S,
                 a));
}

static void power_rows(struct ask_table *t, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    char v[ASK_TEXT_MAX], a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    ask_row(t, "power", ask_watts(r->site_w, v), "",
            "%s of GPUs (%.0f W each, their limit is %.0f), with hosts and a PUE of %.2g",
            ask_watts(r->gpu_w, b), r->gpu_w / (double)j->cluster.gpus, j->cluster.gpu.power_w,
            plan_fact(&j->ask.facts, "pue"));
    snprintf(v, sizeof(v), "%s kWh", ask_short(r->site_kwh, a));
    ask_row(t, "energy", v, "", "%s kWh of it in GPUs", ask_short(r->gpu_kwh, b));
}

static void money_rows(struct ask_table *t, const struct campaign_job *j)
{
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX], a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    for (int i = 0; i < PLAN_PAYS; i++) {
        const struct plan_bill *bill = &j->r.bill[i];

        if (!bill->known) {
            ask_row(t, plan_pay_names[i], "-", "", "no price is known: give --price");
            continue;
        }
        range_text(&bill->usd, ask_usd, v, w);
        if (i == PLAN_SPOT)
            ask_row(t, plan_pay_names[i], v, w,
                    "%s days with %s interruptions: %.3g %% of instances a month are taken away",
                    ask_short(bill->days, a), ask_short(bill->interruptions, b),
                    100 * plan_spot_rate(&j->ask.facts, &j->cluster.gpu).usual);
        else
            ask_row(t, plan_pay_names[i], v, w, "%s a GPU-hour%s%s",
                    ask_usd(bill->usd.usual / j->r.gpu_hours.usual, a),
                    i == PLAN_RESERVED ? ", 30 to 66 % off" : ", prices of ",
                    i == PLAN_RESERVED        ? ""
                    : j->want.price_usd_h > 0 ? "yours"
                                              : j->cluster.gpu.price_date);
    }
}

static void campaign_notes(struct cmd_ctx *ctx, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    const struct plan_bill *od = &r->bill[PLAN_ON_DEMAND], *spot = &r->bill[PLAN_SPOT];

    buf_addc(&ctx->out, '\n');
    if (j->want.band_low > 0)
        ask_note(ctx, "The time of a step is measured: the range is that of failure rates.");
    else
        ask_note(ctx, "Error band: %s (n %lld)%s.", r->band.source, (long long)r->band.n,
                 r->band.stand_in ? "; no run of this very GPU, or of adapters, is among them"
                                  : "");
    ask_note(ctx,
             "Plan for more: GPU-hours that makers published were %.1f to %.1f times such a "
             "prediction; they hold ablations, evaluation and restarts by hand.",
             plan_fact(&j->ask.facts, "published_low"), plan_fact(&j->ask.facts, "published_high"));
    if (od->known && spot->known)
        ask_note(ctx,
                 "Spot or not: on spot the same work takes %.1f %% longer and costs %.0f %% %s; "
                 "above %.2f of the on-demand price spot no longer pays.",
                 100 * (spot->days / r->days.usual - 1),
                 100 * fabs(1 - spot->usd.usual / od->usd.usual),
                 spot->usd.usual < od->usd.usual ? "less" : "more", r->days.usual / spot->days);
    if (j->deadline_s > 0 && j->ask.tokens_given) {
        bool ok = r->days.usual * PLAN_DAY_S <= j->deadline_s;
        bool sure = r->days.high * PLAN_DAY_S <= j->deadline_s;

        ask_note(ctx, "%s",
                 sure ? "It is done in time, also at the far end of the range."
                 : ok ? "It is done in time if the prediction holds; not at the far end "
                        "of the range."
                      : "It is not done in time: 'stoker plan cluster' finds how many "
                        "GPUs are.");
    }
}

static void campaign_text(struct cmd_ctx *ctx, const struct campaign_job *j)
{
    struct ask_table t;

    ask_head(ctx, &j->ask, &j->cluster, &j->best);
    ask_table_begin(&t, "");
    time_rows(&t, j);
    failure_rows(&t, j);
    power_rows(&t, j);
    money_rows(&t, j);
    ask_table_end(&t, ctx);
    campaign_notes(ctx, j);
}

/* ---- JSON ---- */
static void json_bills(struct json_out *w, const struct campaign_job *j)
{
    json_key(w, "cost");
    json_obj(w);
    for (int i = 0; i < PLAN_PAYS; i++) {
        const struct plan_bill *b = &j->r.bill[i];

        json_key(w, i == PLAN_ON_DEMAND ? "on_demand" : plan_pay_names[i]);
        if (!b->known) {
            json_add_null(w);
            continue;
        }
        json_obj(w);
        ask_json_range(w, "usd", &b->usd);
        ask_json_num(w, "days", b->days);
        ask_json_num(w, "interruptions", b->interruptions);
        json_obj_end(w);
    }
    json_obj_end(w);
}

static void json_failures(struct json_out *w, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;

    ask_json_range(w, "gpu_hours_a_failure", &r->rate.gpu_hours);
    json_kv_str(w, "failures_source", j->want.gpu_hours_fail > 0 ? "given" : r->rate.usual->source);
    ask_json_num(w, "mtbf_s", r->outage.mtbf_s);
    ask_json_num(w, "interruptions", plan_outage_count(&r->outage, r->days.usual * PLAN_DAY_S));
    ask_json_num(w, "checkpoint_bytes", r->checkpoint_bytes);
    ask_json_num(w, "save_s", r->outage.save_s);
    ask_json_num(w, "restart_s", r->outage.restart_s);
    ask_json_num(w, "interval_s", r->interval_s);
    ask_json_num(w, "interval_young_s", r->interval_young_s);
    ask_json_num(w, "interval_daly_s", r->interval_daly_s);
    ask_json_num(w, "goodput", r->goodput);
    ask_json_num(w, "goodput_linear", r->ettr);
    ask_json_num(w, "nodes_away", r->mean_away);
    json_kv_int(w, "spare_nodes", r->spares);
}

static void campaign_json(struct cmd_ctx *ctx, const struct campaign_job *j)
{
    const struct plan_campaign *r = &j->r;
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-campaign/1");
    if (j->ask.planned)
        train_spec_json(&w, j->ask.planned);
    json_kv_str(&w, "model", j->ask.model.name);
    ask_json_best(&w, &j->cluster, &j->best);
    ask_json_num(&w, "tokens", j->ask.tokens);
    ask_json_num(&w, "steps", r->steps);
    ask_json_num(&w, "tokens_s", r->tokens_s);
    ask_json_num(&w, "clean_days", r->clean_days);
    ask_json_range(&w, "days", &r->days);
    ask_json_range(&w, "gpu_hours", &r->gpu_hours);
    json_key(&w, "band");
    json_obj(&w);
    ask_json_num(&w, "low", r->band.low);
    ask_json_num(&w, "high", r->band.high);
    json_kv_int(&w, "n", r->band.n);
    json_kv_str(&w, "source", r->band.source);
    json_obj_end(&w);
    json_failures(&w, j);
    json_key(&w, "played_days");
    json_obj(&w);
    ask_json_num(&w, "mean", r->played.mean / PLAN_DAY_S);
    ask_json_num(&w, "p10", r->played.p10 / PLAN_DAY_S);
    ask_json_num(&w, "p90", r->played.p90 / PLAN_DAY_S);
    json_obj_end(&w);
    ask_json_num(&w, "gpu_w", r->gpu_w);
    ask_json_num(&w, "site_w", r->site_w);
    ask_json_num(&w, "gpu_kwh", r->gpu_kwh);
    ask_json_num(&w, "site_kwh", r->site_kwh);
    json_bills(&w, j);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_campaign(struct cmd_ctx *ctx, struct err *err)
{
    struct campaign_opts *o = ctx->opts;
    struct campaign_job j = { 0 };
    enum rc rc;

    if (ask_spec(ctx, &o->ask, &o->price, true, err) || ask_read(&o->ask, &j.ask, err))
        return err->code;
    j.want.walls = xcalloc(RUNS, sizeof(double));
    rc = read_job(o, &j, err);
    if (rc == RC_OK && o->ask.json)
        campaign_json(ctx, &j);
    else if (rc == RC_OK)
        campaign_text(ctx, &j);
    if (rc == RC_OK && j.deadline_s > 0 && j.ask.tokens_given &&
        j.r.days.usual * PLAN_DAY_S > j.deadline_s)
        ctx->status = EXIT_LIMIT;
    free(j.want.walls);
    ask_release(&j.ask);
    return rc;
}

#define S campaign_opts
#define FAILURE_OPTS(S)                                                                            \
    ASK_OPT(S, 0, "mtbf", STR, mtbf, "COUNT",                                                      \
            "GPU-hours a failure (default: by published runs of the hardware)"),                   \
        ASK_OPT(S, 0, "write", STR, write, "RATE",                                                 \
                "bytes a second of a checkpoint, in all (default 0.71 GB/s a node)"),              \
        ASK_OPT(S, 0, "restart", STR, restart, "TIME", "from a failure to the next step (10m)"),   \
        ASK_OPT(S, 0, "repair", STR, repair, "TIME", "until a broken node is back (24h)"),         \
        ASK_OPT(S, 0, "interval", STR, interval, "TIME", "between saves (default: the best)"),     \
        ASK_OPT(S, 0, "spares", STR, spares, "PERCENT", "how sure spare nodes suffice (99%)")
static const struct opt campaign_opts[] = {
    ASK_FILE(S),
    ASK_MODEL(S),
    ASK_GPU(S),
    ASK_MACHINE(S),
    ASK_GPUS(S),
    ASK_TOKENS(S),
    ASK_OPT(S, 0, "time", STR, days, "TIME",
            "as 7d: without --tokens, how many tokens fit into it; with --tokens, a deadline"),
    ASK_SEQ(S),
    ASK_BATCH(S),
    ASK_PRECISION(S),
    ASK_OPTIMIZER(S),
    ASK_KERNELS(S),
    ASK_OPT(S, 0, "config", STR, ask.config, "CONFIG",
            "a cut such as 'tp8 pp16 zero1 mbs1 sp' (default: the search's choice)"),
    ASK_OPT(S, 0, "step", STR, step, "TIME", "of a step, measured: nothing is predicted then"),
    ASK_OPT(S, 0, "price", STR, price, "DOLLARS", "of a GPU-hour on demand"),
    FAILURE_OPTS(S),
    ASK_OPT(S, 0, "spot-wait", STR, spot_wait, "TIME", "until spot capacity is there again (30m)"),
    ASK_NUM(S, "lora", ask.lora, 1, 65536, "learn adapters of rank N alone"),
    ASK_NUM(S, "base-bits", ask.bits, 4, 16,
            "bits of a layer's frozen weight with --lora (default 16)"),
    ASK_JSON(S),
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
    struct ask_opts ask; /* file, model, gpu, gpus, json */
    const char *checkpoint, *mtbf, *write, *restart, *repair, *interval, *spares;
};

struct goodput_job {
    struct plan_facts facts;
    struct plan_gpu gpu;
    struct plan_failure_rate rate;
    struct plan_outage o;
    double bytes, interval_s, goodput, away;
    double spares_p;
    int64_t gpus, nodes;
    struct plan_played played;
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
    if (o->ask.planned) {
        n = o->ask.planned->counts;
        j->bytes = plan_fact(&j->facts, "checkpoint_bytes") * (double)n.total;
        return RC_OK;
    }
    if (!o->ask.model) {
        err_hint(err, "For example --checkpoint 5.7TB or --model llama-3.1-405b.");
        return err_set(err, RC_USAGE, "there is no --checkpoint and no --model");
    }
    if (plan_read_model(o->ask.model, &m, err) || plan_model_counts(&m, &n, err))
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
    const struct train_job *planned = o->ask.planned;
    struct plan_campaign_want w = { 0 };
    double repair;

    if (plan_facts_load(a, &j->facts, err) || read_want(&same, &w, err) ||
        plan_gpu_by_name(o->ask.gpu ? o->ask.gpu : "h100", &j->gpu, err) ||
        checkpoint_bytes(o, j, err))
        return err->code;
    j->planned = planned;
    j->gpus = o->ask.gpus;
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
    j->goodput = 1 / plan_wall_factor(&j->o, j->interval_s);
    repair = w.repair_s > 0 ? w.repair_s : plan_fact(&j->facts, "repair_h") * PLAN_HOUR_S;
    j->away = plan_fact(&j->facts, "hardware_share") / j->o.mtbf_s * repair;
    j->spares_p = w.spares_p > 0 ? w.spares_p : 0.99;
    return RC_OK;
}

static void goodput_intervals(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    const struct {
        const char *name;
        double s;
    } rows[] = {
        { "best (exact)", plan_outage_interval(&j->o) },
        { "Young", plan_interval_young(j->o.save_s, j->o.mtbf_s) },
        { "Daly", plan_interval_daly(j->o.save_s, j->o.mtbf_s) },
        { "half of best", plan_outage_interval(&j->o) / 2 },
        { "twice best", plan_outage_interval(&j->o) * 2 },
        { "10 minutes", 600 },
        { "1 hour", PLAN_HOUR_S },
        { "3 hours", 3 * PLAN_HOUR_S },
    };
    struct table *t = table_new();
    char a[ASK_TEXT_MAX];

    table_col(t, "save every", TABLE_LEFT);
    table_col(t, "time", TABLE_RIGHT);
    table_col(t, "saving", TABLE_RIGHT);
    table_col(t, "lost work and restarts", TABLE_RIGHT);
    table_col(t, "goodput", TABLE_RIGHT);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double good = 1 / plan_wall_factor(&j->o, rows[i].s), saving = j->o.save_s / rows[i].s;

        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", rows[i].name);
        table_cell(t, COLOUR_NONE, "%s", ask_time(rows[i].s, a));
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * saving * good);
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * (1 - good - saving * good));
        table_cell(t, i ? COLOUR_NONE : COLOUR_BOLD, "%.2f %%", 100 * good);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void goodput_spares(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    int64_t enough = plan_spares_for(j->away, j->spares_p), step = enough / SPARES_SHOWN + 1;
    struct table *t = table_new();

    table_col(t, "spare nodes", TABLE_RIGHT);
    table_col(t, "of the cluster", TABLE_RIGHT);
    table_col(t, "suffice at a moment", TABLE_RIGHT);
    for (int64_t k = enough % step; k <= enough + step; k += step) {
        table_row(t);
        table_cell(t, k == enough ? COLOUR_BOLD : COLOUR_NONE, "%lld", (long long)k);
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * (double)k / (double)j->nodes);
        table_cell(t, COLOUR_NONE, "%.2f %%", 100 * plan_spares_suffice(j->away, k));
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void goodput_text(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX], c[ASK_TEXT_MAX];
    double gpus = (double)j->gpus;

    ask_note(ctx,
             "%lld x %s fail once in %s (%s to %s): %s GPU-hours a failure (%s). A checkpoint of "
             "%s is written in %s; a restart takes %s.",
             (long long)j->gpus, j->gpu.name, ask_time(j->o.mtbf_s, a),
             ask_time(j->rate.gpu_hours.low * PLAN_HOUR_S / gpus, b),
             ask_time(j->rate.gpu_hours.high * PLAN_HOUR_S / gpus, c),
             ask_short(j->rate.gpu_hours.usual, (char[ASK_TEXT_MAX]){ 0 }), j->rate.usual->source,
             ask_bytes(j->bytes, (char[ASK_TEXT_MAX]){ 0 }),
             ask_time(j->o.save_s, (char[ASK_TEXT_MAX]){ 0 }),
             ask_time(j->o.restart_s, (char[ASK_TEXT_MAX]){ 0 }));
    buf_addc(&ctx->out, '\n');
    goodput_intervals(ctx, j);
    ask_note(
        ctx,
        "\nSaving every %s: %.2f %% by the formula, %.2f %% in %d played runs of 100 failures, "
        "%.2f %% by the linear formula of Kokolis et al. 2025.",
        ask_time(j->interval_s, a), 100 * j->goodput, 100 * (100 * j->o.mtbf_s) / j->played.mean,
        RUNS, 100 * plan_ettr(&j->o, j->interval_s));
    goodput_spares(ctx, j);
    ask_note(ctx, "\n%lld spare nodes suffice with %.4g %%; %.3g are away on the average.",
             (long long)plan_spares_for(j->away, j->spares_p), 100 * j->spares_p, j->away);
}

static void goodput_json(struct cmd_ctx *ctx, const struct goodput_job *j)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-goodput/1");
    if (j->planned)
        train_spec_json(&w, j->planned);
    json_kv_str(&w, "gpu", j->gpu.name);
    json_kv_int(&w, "gpus", j->gpus);
    ask_json_range(&w, "gpu_hours_a_failure", &j->rate.gpu_hours);
    ask_json_num(&w, "mtbf_s", j->o.mtbf_s);
    ask_json_num(&w, "checkpoint_bytes", j->bytes);
    ask_json_num(&w, "save_s", j->o.save_s);
    ask_json_num(&w, "restart_s", j->o.restart_s);
    ask_json_num(&w, "interval_s", j->interval_s);
    ask_json_num(&w, "interval_young_s", plan_interval_young(j->o.save_s, j->o.mtbf_s));
    ask_json_num(&w, "interval_daly_s", plan_interval_daly(j->o.save_s, j->o.mtbf_s));
    ask_json_num(&w, "goodput", j->goodput);
    ask_json_num(&w, "goodput_played", 100 * j->o.mtbf_s / j->played.mean);
    ask_json_num(&w, "goodput_linear", plan_ettr(&j->o, j->interval_s));
    ask_json_num(&w, "nodes_away", j->away);
    json_kv_int(&w, "spare_nodes", plan_spares_for(j->away, j->spares_p));
    ask_json_num(&w, "spares_suffice",
                 plan_spares_suffice(j->away, plan_spares_for(j->away, j->spares_p)));
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_goodput(struct cmd_ctx *ctx, struct err *err)
{
    static const char *const taken[] = { "--model", "--gpus", "--gpu", NULL };
    struct goodput_opts *o = ctx->opts;
    struct goodput_job j = { 0 };
    struct plan_campaign check;
    struct arena a = { 0 };
    double *walls = NULL;
    enum rc rc = ask_spec(ctx, &o->ask, NULL, false, err);

    if (rc == RC_OK)
        rc = goodput_read(o, &a, &j, err);
    if (rc == RC_OK && o->ask.planned)
        train_spec_keep(o->ask.planned, taken);
    check = (struct plan_campaign){ .goodput = j.goodput, .outage = j.o };
    if (rc == RC_OK)
        rc = check_progress(&check, err);
    if (rc == RC_OK) {
        walls = xcalloc(RUNS, sizeof(*walls));
        plan_outage_play(&j.o, 100 * j.o.mtbf_s, j.interval_s, RUNS, SEED, walls, &j.played);
        if (o->ask.planned && !o->ask.json)
            train_spec_print(ctx, o->ask.planned);
        (o->ask.json ? goodput_json : goodput_text)(ctx, &j);
    }
    free(walls);
    train_job_free(o->ask.planned);
    arena_release(&a);
    return rc;
}

#define S goodput_opts
static const struct opt goodput_opts[] = {
    ASK_FILE(S),
    ASK_GPU(S),
    ASK_NUM(S, "gpus", ask.gpus, 1, PLAN_GPUS_MAX, "GPUs of the job, which stops as a whole"),
    ASK_OPT(S, 'm', "model", STR, ask.model, "MODEL",
            "whose checkpoint it is (14 bytes a parameter)"),
    ASK_OPT(S, 0, "checkpoint", STR, checkpoint, "BYTES", "instead, as 5.7TB"),
    FAILURE_OPTS(S),
    ASK_JSON(S),
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

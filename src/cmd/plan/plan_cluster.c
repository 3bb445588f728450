/* SPDX-License-Identifier: MIT */
/* stoker plan cluster: the cluster that meets a deadline, with the cost of GPUs, storage, network.
 * stoker plan sizes: the same as a table by model size. */
#include "cmd/plan/plan_request_int.h"
#include "cmd/plan/plan_train_int.h"
#include "plan/cluster_size.h"

#include "base/str.h"
#include "base/text/units.h"

#include <math.h>

struct cluster_opts {
    struct ask_opts ask;
    const char *deadline, *data, *node_price, *price;
    int64_t keep, years;
    bool sure;
};

struct cluster_job {
    struct ask ask;
    struct plan_size_want want;
    struct plan_sized s, before;
    struct plan_cost_want cost_want;
    struct plan_cost cost;
};

static enum rc cluster_read(const struct cluster_opts *o, struct cluster_job *j, struct err *err)
{
    double seconds = 0;
    uint64_t bytes = 0;

    if (!o->deadline) {
        err_hint(err, "For example --deadline 30d.");
        return err_set(err, RC_USAGE, "there is no --deadline");
    }
    if (ask_seconds("--deadline", o->deadline, &seconds, err) ||
        (o->price && ask_money("--price", o->price, &j->want.campaign.price_usd_h, err)) ||
        (o->node_price && ask_money("--node-price", o->node_price, &j->cost_want.node_usd, err)))
        return err->code;
    if (o->data && units_bytes_parse(o->data, &bytes, err))
        return err_ctx(err, "option '--data'");
    j->want.best = j->ask.want;
    j->want.campaign.tokens = j->ask.tokens;
    j->want.days = seconds / PLAN_DAY_S;
    j->want.sure = o->sure;
    j->want.most = o->ask.gpus;
    j->cost_want.data_bytes = (double)bytes;
    j->cost_want.kept = (double)o->keep;
    j->cost_want.own_years = (double)o->years;
    return RC_OK;
}

static enum rc cluster_answer(struct cluster_job *j, struct err *err)
{
    if (plan_size_for(&j->ask.facts, &j->ask.model, &j->ask.counts, &j->ask.gpu, &j->want, &j->s,
                      &j->before, err))
        return err->code;
    j->cost_want.spares = j->s.campaign.spares;
    plan_cost_of(&j->ask.facts, &j->s, j->ask.tokens, &j->cost_want, &j->cost);
    return RC_OK;
}

/* ---- text ---- */
static void usd_range(const struct plan_range *r, char value[ASK_TEXT_MAX],
                      char range[2 * ASK_TEXT_MAX])
{
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    ask_usd(r->usual, value);
    range[0] = 0;
    if (r->low < r->high)
        snprintf(range, 2 * ASK_TEXT_MAX, "%s to %s", ask_usd(r->low, a), ask_usd(r->high, b));
}

static void size_rows(struct ask_table *t, const struct cluster_job *j)
{
    const struct plan_campaign *c = &j->s.campaign;
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX], a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    snprintf(v, sizeof(v), "%lld", (long long)j->s.cluster.gpus);
    if (j->before.cluster.gpus)
        ask_row(t, "GPUs", v, "", "the next smaller, %lld, takes %s days",
                (long long)j->before.cluster.gpus, ask_short(j->before.campaign.days.usual, a));
    else
        ask_row(t, "GPUs", v, "", "the fewest whole nodes that hold the job");
    snprintf(v, sizeof(v), "%lld", (long long)(j->cost.nodes));
    ask_row(t, "nodes", v, "", "%lld to compute and %lld spare (enough with 99 %%)",
            (long long)(j->cost.nodes - c->spares), (long long)c->spares);
    snprintf(w, sizeof(w), "%s to %s", ask_short(c->days.low, a), ask_short(c->days.high, b));
    ask_row(t, "days", ask_short(c->days.usual, v), w, "deadline %.4g; goodput %.1f %%",
            j->want.days, 100 * c->goodput);
    snprintf(w, sizeof(w), "%s to %s", ask_short(c->gpu_hours.low, a),
             ask_short(c->gpu_hours.high, b));
    ask_row(t, "GPU-hours", ask_short(c->gpu_hours.usual, v), w, "%s tokens",
            ask_short(j->ask.tokens, a));
}

static void rent_rows(struct ask_table *t, const struct cluster_job *j)
{
    const struct plan_cost *c = &j->cost;
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX], a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];
    struct plan_range sum = { c->rent_gpus.low + c->rent_storage.low + c->rent_network.low,
                              c->rent_gpus.usual + c->rent_storage.usual + c->rent_network.usual,
                              c->rent_gpus.high + c->rent_storage.high + c->rent_network.high };

    if (c->rent_known) {
        usd_range(&c->rent_gpus, v, w);
        ask_row(t, "rent: GPUs", v, w, "%s GPU-hours on demand",
                ask_short(j->s.campaign.gpu_hours.usual, a));
    } else {
        ask_row(t, "rent: GPUs", "-", "", "no price of a %s is known: give --price",
                j->ask.gpu.name);
    }
    usd_range(&c->rent_storage, v, w);
    ask_row(t, "rent: storage", v, w,
            "%s of data and %s of checkpoints on fast storage for %.2g months",
            ask_bytes(c->data_bytes, a), ask_bytes(c->kept_bytes, b), c->months);
    usd_range(&c->rent_network, v, w);
    ask_row(t, "rent: network", v, w,
            "taking the last checkpoint (%s) home; links between nodes are in the instances' price",
            ask_bytes(c->egress_bytes, a));
    if (c->rent_known) {
        usd_range(&sum, v, w);
        ask_row(t, "rent: total", v, w, "for this run");
    }
}

static void buy_rows(struct ask_table *t, const struct cluster_job *j)
{
    const struct plan_cost *c = &j->cost;
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX], a[ASK_TEXT_MAX];
    const struct plan_price *node = plan_price(&j->ask.facts, "node");

    if (!c->buy_known) {
        ask_row(t, "buy", "-", "", "no price of a node of %s is known: give --node-price",
                j->ask.gpu.name);
        return;
    }
    usd_range(&c->buy_gpus, v, w);
    ask_row(t, "buy: GPUs", v, w, "%lld nodes with their network cards, prices of %s",
            (long long)c->nodes, j->cost_want.node_usd > 0 ? "yours" : node->date);
    usd_range(&c->rent_storage, v, w);
    ask_row(t, "buy: storage", v, w, "rented: no price of a file system that can be cited");
    usd_range(&c->buy_network, v, w);
    ask_row(t, "buy: network", v, w, "%lld switches of 64 ports in %lld layer%s, and cables",
            (long long)c->switches, (long long)c->layers, c->layers == 1 ? "" : "s");
    ask_row(t, "buy: power", ask_usd(c->buy_power, v), "", "%s kWh for this run",
            ask_short(j->s.campaign.site_kwh, a));
    if (c->break_even_hours > 0)
        ask_row(t, "buy or rent", ask_time(c->break_even_hours * PLAN_HOUR_S, v), "",
                "of use of every GPU, and buying is cheaper than renting on demand");
    else
        ask_row(t, "buy or rent", "rent", "", "owning costs more than the rent of its lifetime");
}

static void cluster_text(struct cmd_ctx *ctx, const struct cluster_job *j)
{
    struct plan_cluster usual;
    struct ask_table t;

    ask_head(ctx, &j->ask, &j->s.cluster, &j->s.best);
    ask_table_begin(&t, "");
    size_rows(&t, j);
    rent_rows(&t, j);
    buy_rows(&t, j);
    ask_table_end(&t, ctx);
    buf_addc(&ctx->out, '\n');
    if (j->s.campaign.days.high > j->want.days)
        ask_note(ctx,
                 "At the far end of the range it is late (%.3g days): --sure asks for a "
                 "cluster that is in time there too.",
                 j->s.campaign.days.high);
    plan_cluster_usual(&j->ask.gpu, 1, &usual);
    if (j->s.cluster.node_gpus != usual.node_gpus)
        ask_note(
            ctx,
            "%lld of a rack's %lld GPUs are used, since those do not divide the batch of %lld: "
            "'stoker plan train --node %lld' plans the same.",
            (long long)j->s.cluster.node_gpus, (long long)usual.node_gpus,
            (long long)j->want.best.batch, (long long)j->s.cluster.node_gpus);
    ask_note(ctx, "Error band: %s (n %lld).", j->s.campaign.band.source,
             (long long)j->s.campaign.band.n);
}

/* ---- JSON ---- */
static void json_costs(struct json_out *w, const struct plan_cost *c)
{
    json_key(w, "rent");
    json_obj(w);
    if (c->rent_known)
        ask_json_range(w, "gpus_usd", &c->rent_gpus);
    ask_json_range(w, "storage_usd", &c->rent_storage);
    ask_json_range(w, "network_usd", &c->rent_network);
    json_obj_end(w);
    json_key(w, "buy");
    if (!c->buy_known) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    ask_json_range(w, "gpus_usd", &c->buy_gpus);
    ask_json_range(w, "storage_usd", &c->rent_storage);
    ask_json_range(w, "network_usd", &c->buy_network);
    ask_json_num(w, "power_usd", c->buy_power);
    json_kv_int(w, "switches", c->switches);
    ask_json_num(w, "break_even_hours", c->break_even_hours > 0 ? c->break_even_hours : NAN);
    json_obj_end(w);
}

static void cluster_json(struct cmd_ctx *ctx, const struct cluster_job *j)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-cluster/1");
    if (j->ask.planned)
        train_spec_json(&w, j->ask.planned);
    json_kv_str(&w, "model", j->ask.model.name);
    ask_json_num(&w, "tokens", j->ask.tokens);
    ask_json_num(&w, "deadline_days", j->want.days);
    ask_json_best(&w, &j->s.cluster, &j->s.best);
    json_kv_int(&w, "nodes", j->cost.nodes);
    json_kv_int(&w, "spare_nodes", j->s.campaign.spares);
    ask_json_range(&w, "days", &j->s.campaign.days);
    ask_json_range(&w, "gpu_hours", &j->s.campaign.gpu_hours);
    ask_json_num(&w, "data_bytes", j->cost.data_bytes);
    ask_json_num(&w, "checkpoint_bytes", j->cost.kept_bytes);
    json_costs(&w, &j->cost);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_cluster(struct cmd_ctx *ctx, struct err *err)
{
    static const char *const taken[] = { "--model", "--gpu",    "--price",     "--batch",
                                         "--seq",   "--tokens", "--precision", "--optimizer",
                                         "--stack", NULL };
    struct cluster_opts *o = ctx->opts;
    struct cluster_job j = { 0 };
    enum rc rc;

    if (ask_spec(ctx, &o->ask, &o->price, false, err) || ask_read(&o->ask, &j.ask, err))
        return err->code;
    if (j.ask.planned)
        train_spec_keep(j.ask.planned, taken);
    rc = cluster_read(o, &j, err);
    if (rc == RC_OK)
        rc = cluster_answer(&j, err);
    if (rc == RC_OK)
        (o->ask.json ? cluster_json : cluster_text)(ctx, &j);
    ask_release(&j.ask);
    return rc;
}

#define S cluster_opts
static const struct opt cluster_opts[] = {
    ASK_FILE(S),
    ASK_MODEL(S),
    ASK_GPU(S),
    ASK_TOKENS(S),
    ASK_OPT(S, 'd', "deadline", STR, deadline, "TIME", "as 30d"),
    ASK_OPT(S, 0, "sure", FLAG, sure, NULL, "in time at the far end of the range too"),
    ASK_NUM(S, "gpus", ask.gpus, 1, PLAN_GPUS_MAX, "at most so many GPUs (default 65536)"),
    ASK_SEQ(S),
    ASK_BATCH(S),
    ASK_PRECISION(S),
    ASK_OPTIMIZER(S),
    ASK_KERNELS(S),
    ASK_OPT(S, 0, "data", STR, data, "BYTES", "of the training data (default: 4 a token)"),
    ASK_NUM(S, "keep", keep, 1, 10000, "checkpoints to keep (default 3)"),
    ASK_OPT(S, 0, "price", STR, price, "DOLLARS", "of a GPU-hour on demand"),
    ASK_OPT(S, 0, "node-price", STR, node_price, "DOLLARS", "to buy a node"),
    ASK_NUM(S, "years", years, 1, 10, "until a bought node is written off (default 3)"),
    ASK_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example cluster_examples[] = {
    { "stoker plan cluster --model llama-3.1-70b --tokens 1.4T --deadline 30d",
      "how many H100, and what they cost with storage and network" },
    { "stoker plan cluster --model llama-3.1-8b --gpu h200 --deadline 14d --sure",
      "in time at the far end of the prediction's range too" },
    { "stoker plan cluster -f stoker.yaml train-70b --deadline 30d",
      "how many of a site's GPUs its component needs" },
    { 0 },
};
const struct cmd cmd_plan_cluster = {
    .name = "cluster",
    .summary = "find the cluster that meets a deadline, and its cost",
    .operands = "[COMPONENT]",
    .args_max = 1,
    .opts = cluster_opts,
    .opts_size = sizeof(struct cluster_opts),
    .about =
        "Tries clusters of 1, 2, 3, 4, 6, 8, 12 ... nodes with the best configuration of each, "
        "interruptions included, and takes the smallest that is done in time. Prints the cost of "
        "GPUs, of storage and of the network, rented for the run and bought; prices carry their "
        "date and their range over clouds.\n\n"
        "With --file the component's model, kind of GPU, tokens, batch, sequence length, "
        "precision, optimizer, framework and price are taken from the spec; the number of GPUs and "
        "the cut are what is searched, and the network is the usual one of the GPU. COMPONENT may "
        "be left out where one component trains.",
    .examples = cluster_examples,
    .run = run_cluster,
};

/* ---- sizes ---- */
static const struct {
    const char *model, *size;
} size_models[] = {
    { "llama-3.2-1b", "1B" }, { "llama-3.2-3b", "3B" },     { "llama-2-7b", "7B" },
    { "llama-2-13b", "13B" }, { "llama-30b", "33B" },       { "llama-2-70b", "70B" },
    { "gpt3-175b", "175B" },  { "llama-3.1-405b", "405B" },
};

struct size_row {
    struct plan_model model;
    struct plan_counts counts;
    struct plan_sized least, timed, before;
    bool fits, in_time;
    double tokens;
};

struct sizes_opts {
    struct ask_opts ask;
    const char *deadline;
    int64_t ratio;
};

static enum rc size_row(const struct ask *a, const char *name, double days, double ratio,
                        struct size_row *out, struct err *err)
{
    struct plan_size_want w = { .best = a->want };
    struct size_row r = { 0 };
    struct err none = { 0 };

    if (plan_model_by_name(name, &r.model, err) || plan_model_counts(&r.model, &r.counts, err))
        return err->code;
    r.tokens = ratio * (double)r.counts.active;
    w.campaign.tokens = r.tokens;
    if (!a->batch_given)
        w.best.batch = plan_usual_sequences(&a->recipes, (double)r.counts.active, w.best.seq);
    r.fits =
        !plan_size_for(&a->facts, &r.model, &r.counts, &a->gpu, &w, &r.least, &r.before, &none);
    w.days = days;
    none = (struct err){ 0 };
    r.in_time = r.fits && !plan_size_for(&a->facts, &r.model, &r.counts, &a->gpu, &w, &r.timed,
                                         &r.before, &none);
    *out = r;
    return RC_OK;
}

static void sizes_text(struct cmd_ctx *ctx, const struct size_row *rows, const struct ask *a,
                       double days, double ratio)
{
    struct table *t = table_new();
    char v[ASK_TEXT_MAX], w[ASK_TEXT_MAX];
    struct buf text = { 0 };

    table_col(t, "size", TABLE_RIGHT);
    table_col(t, "model", TABLE_LEFT);
    table_col(t, "tokens", TABLE_RIGHT);
    table_col(t, "least GPUs", TABLE_RIGHT);
    table_col(t, "GPUs", TABLE_RIGHT);
    table_col(t, "days", TABLE_RIGHT);
    table_col(t, "on demand", TABLE_RIGHT);
    table_col(t, "configuration", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < ARRAY_SIZE(size_models); i++) {
        const struct size_row *r = &rows[i];
        const struct plan_bill *bill = &r->timed.campaign.bill[PLAN_ON_DEMAND];

        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s", size_models[i].size);
        table_cell(t, COLOUR_NONE, "%s", r->model.name);
        table_cell(t, COLOUR_NONE, "%s", ask_short(r->tokens, v));
        table_cell(t, COLOUR_NONE, r->fits ? "%lld" : "-", (long long)r->least.cluster.gpus);
        table_cell(t, COLOUR_BOLD, r->in_time ? "%lld" : "-", (long long)r->timed.cluster.gpus);
        table_cell(t, COLOUR_NONE, "%s",
                   r->in_time ? ask_short(r->timed.campaign.days.usual, v) : "-");
        table_cell(t, COLOUR_NONE, "%s",
                   r->in_time && bill->known ? ask_usd(bill->usd.usual, w) : "-");
        buf_reset(&text);
        if (r->in_time)
            plan_config_text(&r->timed.best.config, &text);
        table_cell(t, COLOUR_DIM, "%s", buf_str(&text));
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    buf_release(&text);
    ask_note(
        ctx,
        "\nWhole nodes of %s; \"least GPUs\" hold the model, its optimizer and one micro-batch; "
        "\"GPUs\" are done with %.3g tokens a parameter in %.3g days, interruptions included. "
        "The days are right to %+.0f..%+.0f %% (eight of ten published runs).",
        a->gpu.name, ratio, days, 100 * (rows[2].timed.campaign.band.low - 1),
        100 * (rows[2].timed.campaign.band.high - 1));
}

static void sizes_json(struct cmd_ctx *ctx, const struct size_row *rows, const struct ask *a,
                       double days)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-sizes/1");
    json_kv_str(&w, "gpu", a->gpu.name);
    ask_json_num(&w, "deadline_days", days);
    json_key(&w, "sizes");
    json_arr(&w);
    for (size_t i = 0; i < ARRAY_SIZE(size_models); i++) {
        const struct size_row *r = &rows[i];

        json_obj(&w);
        json_kv_str(&w, "size", size_models[i].size);
        json_kv_str(&w, "model", r->model.name);
        ask_json_num(&w, "tokens", r->tokens);
        json_kv_maybe(&w, "least_gpus", r->fits ? maybe_of(r->least.cluster.gpus) : maybe_none());
        json_kv_maybe(&w, "gpus", r->in_time ? maybe_of(r->timed.cluster.gpus) : maybe_none());
        if (r->in_time) {
            ask_json_range(&w, "days", &r->timed.campaign.days);
            if (r->timed.campaign.bill[PLAN_ON_DEMAND].known)
                ask_json_range(&w, "usd", &r->timed.campaign.bill[PLAN_ON_DEMAND].usd);
        }
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_sizes(struct cmd_ctx *ctx, struct err *err)
{
    const struct sizes_opts *o = ctx->opts;
    struct size_row *rows;
    struct ask_opts ask = o->ask;
    double seconds = 30.0 * PLAN_DAY_S, ratio;
    struct ask a;
    enum rc rc = RC_OK;

    ask.model = size_models[0].model; /* each row brings its own */
    if ((o->deadline && ask_seconds("--deadline", o->deadline, &seconds, err)) ||
        ask_read(&ask, &a, err))
        return err->code;
    ratio = o->ratio ? (double)o->ratio : plan_fact(&a.facts, "tokens_a_parameter");
    rows = arena_array(&a.arena, struct size_row, ARRAY_SIZE(size_models));
    for (size_t i = 0; i < ARRAY_SIZE(size_models) && rc == RC_OK; i++)
        rc = size_row(&a, size_models[i].model, seconds / PLAN_DAY_S, ratio, &rows[i], err);
    if (rc == RC_OK && o->ask.json)
        sizes_json(ctx, rows, &a, seconds / PLAN_DAY_S);
    else if (rc == RC_OK)
        sizes_text(ctx, rows, &a, seconds / PLAN_DAY_S, ratio);
    ask_release(&a);
    return rc;
}

#define S sizes_opts
static const struct opt sizes_opts[] = {
    ASK_GPU(S),
    ASK_OPT(S, 'd', "deadline", STR, deadline, "TIME", "as 90d (default 30d)"),
    ASK_NUM(S, "tokens-a-parameter", ratio, 1, 100000, "tokens a parameter (default 20)"),
    ASK_SEQ(S),
    ASK_BATCH(S),
    ASK_PRECISION(S),
    ASK_OPTIMIZER(S),
    ASK_KERNELS(S),
    ASK_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example sizes_examples[] = {
    { "stoker plan sizes", "how many H100 a model of each size needs for a month" },
    { "stoker plan sizes --gpu a100 --deadline 90d", "the same for A100 and a quarter" },
    { 0 },
};
const struct cmd cmd_plan_sizes = {
    .name = "sizes",
    .summary = "size clusters for models from 1B to 405B parameters",
    .operands = "",
    .opts = sizes_opts,
    .opts_size = sizeof(struct sizes_opts),
    .about = "For each size the fewest GPUs that hold the training job, and how many finish 20 "
             "tokens a parameter in a month, each with its best configuration. Rules of thumb "
             "(8 GPUs for 7B, 512 and more for 175B) are such a table for one deadline; this one "
             "is for yours.",
    .examples = sizes_examples,
    .run = run_sizes,
};

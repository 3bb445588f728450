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
    struct request_opts request;
    const char *deadline, *data, *node_price, *price;
    int64_t keep, years;
    bool sure;
};

struct cluster_job {
    struct run_request request; /* first: see request_json_best() */
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
    if (option_seconds("--deadline", o->deadline, &seconds, err) ||
        (o->price && option_money("--price", o->price, &j->want.campaign.price_usd_h, err)) ||
        (o->node_price && option_money("--node-price", o->node_price, &j->cost_want.node_usd, err)))
        return err->code;
    if (o->data && units_bytes_parse(o->data, &bytes, err))
        return err_ctx(err, "option '--data'");
    j->want.best = j->request.want;
    j->want.campaign.tokens = j->request.tokens;
    j->want.days = seconds / PLAN_DAY_S;
    j->want.sure = o->sure;
    j->want.most = o->request.gpus;
    j->cost_want.data_bytes = (double)bytes;
    j->cost_want.kept = (double)o->keep;
    j->cost_want.own_years = (double)o->years;
    return RC_OK;
}

static enum rc cluster_answer(struct cluster_job *j, struct err *err)
{
    if (plan_size_for(&j->request.facts, &j->request.model, &j->request.counts, &j->request.gpu,
                      &j->want, &j->s, &j->before, err))
        return err->code;
    j->request.cluster = j->s.cluster;
    j->request.best = j->s.best;
    j->cost_want.spares = j->s.campaign.spares;
    plan_cost_of(&j->request.facts, &j->s, j->request.tokens, &j->cost_want, &j->cost);
    if (!j->cost.rent_known)
        j->cost.rent_gpus.low = (double)NAN;
    if (!j->cost.buy_known)
        j->cost.buy_gpus.low = (double)NAN;
    return RC_OK;
}

/* ---- figures ---- */
#define S struct plan_cost
static const struct field rent_fields[] = {
    FIELD_RANGE("gpus_usd", S, rent_gpus, "dollars of GPU-hours", .title = "rent: GPUs",
                .words = text_usd, .left_out = true),
    FIELD_RANGE("storage_usd", S, rent_storage, "of fast storage", .title = "rent: storage",
                .words = text_usd),
    FIELD_RANGE("network_usd", S, rent_network, "of what leaves the cloud",
                .title = "rent: network", .words = text_usd),
};
static FIELD_TABLE(rent_table, "rent", S, rent_fields);
static const struct field buy_fields[] = {
    FIELD_RANGE("gpus_usd", S, buy_gpus, "dollars of nodes", .title = "buy: GPUs",
                .words = text_usd),
    FIELD_RANGE("storage_usd", S, rent_storage, "of fast storage, rented", .title = "buy: storage",
                .words = text_usd),
    FIELD_RANGE("network_usd", S, buy_network, "of switches and cables", .title = "buy: network",
                .words = text_usd),
    FIELD_OF("power_usd", S, buy_power, "of energy for the run", .title = "buy: power",
             .words = text_usd),
    FIELD_OF("switches", S, switches, "of 64 ports"),
    FIELD_OF("break_even_hours", S, break_even_hours, "of use, from which buying is cheaper",
             .above_0 = true),
};
static FIELD_TABLE(buy_table, "buy", S, buy_fields);
#undef S

#define S struct cluster_job
static const struct field cluster_fields[] = {
    FIELD_BY(request_json_model),
    FIELD_OF("tokens", S, request.tokens, "to train on"),
    FIELD_OF("deadline_days", S, want.days, "that are asked for"),
    FIELD_BY(request_json_best),
    FIELD_OF("nodes", S, cost.nodes, "machines, spare ones included", .title = "nodes"),
    FIELD_OF("spare_nodes", S, s.campaign.spares, "that suffice with 99 %"),
    FIELD_RANGE("days", S, s.campaign.days, "of the run", .title = "days", .words = text_short),
    FIELD_RANGE("gpu_hours", S, s.campaign.gpu_hours, "of the run", .title = "GPU-hours",
                .words = text_short),
    FIELD_OF("data_bytes", S, cost.data_bytes, "of training data"),
    FIELD_OF("checkpoint_bytes", S, cost.kept_bytes, "of checkpoints that are kept"),
    FIELD_SUB("rent", S, cost, &rent_table, "what renting costs"),
    { .key = "buy",
      .kind = FIELD_STRUCT,
      .off = offsetof(S, cost),
      .sub = &buy_table,
      .doc = "what buying costs; null: no price of a node is known",
      .or_null = true },
};
static FIELD_TABLE(cluster_doc, "stoker.plan-cluster/1", S, cluster_fields);
#undef S

/* ---- text ---- */
static void size_rows(struct figure_table *t, const struct cluster_job *j)
{
    const struct plan_campaign *c = &j->s.campaign;
    char gpus[FIELD_TEXT_MAX];

    snprintf(gpus, sizeof(gpus), "%lld", (long long)j->s.cluster.gpus);
    if (j->before.cluster.gpus)
        figure_row(t, "GPUs", gpus, "", "the next smaller, %lld, takes %s days",
                   (long long)j->before.cluster.gpus, TEXT_SHORT(j->before.campaign.days.usual));
    else
        figure_row(t, "GPUs", gpus, "", "the fewest whole nodes that hold the job");
    figure_field(t, "nodes", "%lld to compute and %lld spare (enough with 99 %%)",
                 (long long)(j->cost.nodes - c->spares), (long long)c->spares);
    figure_field(t, "days", "deadline %.4g; goodput %.1f %%", j->want.days, 100 * c->goodput);
    figure_field(t, "gpu_hours", "%s tokens", TEXT_SHORT(j->request.tokens));
}

static void rent_rows(struct figure_table *t, const struct cluster_job *j)
{
    const struct plan_cost *c = &j->cost;
    struct plan_range sum = { c->rent_gpus.low + c->rent_storage.low + c->rent_network.low,
                              c->rent_gpus.usual + c->rent_storage.usual + c->rent_network.usual,
                              c->rent_gpus.high + c->rent_storage.high + c->rent_network.high };

    t->fields = &rent_table;
    t->obj = c;
    if (c->rent_known)
        figure_field(t, "gpus_usd", "%s GPU-hours on demand",
                     TEXT_SHORT(j->s.campaign.gpu_hours.usual));
    else
        figure_row(t, "rent: GPUs", "-", "", "no price of a %s is known: give --price",
                   j->request.gpu.name);
    figure_field(t, "storage_usd",
                 "%s of data and %s of checkpoints on fast storage for %.2g months",
                 TEXT_BYTES(c->data_bytes), TEXT_BYTES(c->kept_bytes), c->months);
    figure_field(t, "network_usd",
                 "taking the last checkpoint (%s) home; links between nodes are in the instances' "
                 "price",
                 TEXT_BYTES(c->egress_bytes));
    if (c->rent_known)
        figure_range(t, "rent: total", &sum, text_usd, "for this run");
}

static void buy_rows(struct figure_table *t, const struct cluster_job *j)
{
    const struct plan_cost *c = &j->cost;

    if (!c->buy_known) {
        figure_row(t, "buy", "-", "", "no price of a node of %s is known: give --node-price",
                   j->request.gpu.name);
        return;
    }
    t->fields = &buy_table;
    figure_field(t, "gpus_usd", "%lld nodes with their network cards, prices of %s",
                 (long long)c->nodes,
                 j->cost_want.node_usd > 0 ? "yours" : plan_price(&j->request.facts, "node")->date);
    figure_field(t, "storage_usd", "rented: no price of a file system that can be cited");
    figure_field(t, "network_usd", "%lld switches of 64 ports in %lld layer%s, and cables",
                 (long long)c->switches, (long long)c->layers, c->layers == 1 ? "" : "s");
    figure_field(t, "power_usd", "%s kWh for this run", TEXT_SHORT(j->s.campaign.site_kwh));
    if (c->break_even_hours > 0)
        figure_row(t, "buy or rent", TEXT_TIME(c->break_even_hours * PLAN_HOUR_S), "",
                   "of use of every GPU, and buying is cheaper than renting on demand");
    else
        figure_row(t, "buy or rent", "rent", "", "owning costs more than the rent of its lifetime");
}

static void cluster_text(struct cmd_ctx *ctx, const struct cluster_job *j)
{
    struct plan_cluster usual;
    struct figure_table t;

    print_request(ctx, &j->request);
    figure_begin(&t, &cluster_doc, j);
    size_rows(&t, j);
    rent_rows(&t, j);
    buy_rows(&t, j);
    figure_end(&t, ctx);
    buf_addc(&ctx->out, '\n');
    if (j->s.campaign.days.high > j->want.days)
        print_note(ctx,
                   "At the far end of the range it is late (%.3g days): --sure asks for a "
                   "cluster that is in time there too.",
                   j->s.campaign.days.high);
    plan_cluster_usual(&j->request.gpu, 1, &usual);
    if (j->s.cluster.node_gpus != usual.node_gpus)
        print_note(
            ctx,
            "%lld of a rack's %lld GPUs are used, since those do not divide the batch of %lld: "
            "'stoker plan train --node %lld' plans the same.",
            (long long)j->s.cluster.node_gpus, (long long)usual.node_gpus,
            (long long)j->want.best.batch, (long long)j->s.cluster.node_gpus);
    print_note(ctx, "Error band: %s (n %lld).", j->s.campaign.band.source,
               (long long)j->s.campaign.band.n);
}

static enum rc run_cluster(struct cmd_ctx *ctx, struct err *err)
{
    static const char *const taken[] = { "--model", "--gpu",    "--price",     "--batch",
                                         "--seq",   "--tokens", "--precision", "--optimizer",
                                         "--stack", NULL };
    struct cluster_opts *o = ctx->opts;
    struct cluster_job j = { 0 };
    enum rc rc;

    if (request_spec(ctx, &o->request, &o->price, false, err) ||
        request_read(&o->request, &j.request, err))
        return err->code;
    if (j.request.planned)
        train_spec_keep(j.request.planned, taken);
    rc = cluster_read(o, &j, err);
    if (rc == RC_OK)
        rc = cluster_answer(&j, err);
    if (rc == RC_OK && o->request.json)
        fields_write_report(&ctx->out, &cluster_doc, &j);
    else if (rc == RC_OK)
        cluster_text(ctx, &j);
    request_release(&j.request);
    return rc;
}

#define S cluster_opts
static const struct opt cluster_opts[] = {
    ROW_FILE(S),
    ROW_MODEL(S),
    ROW_GPU(S),
    ROW_TOKENS(S),
    ROW_OPT(S, 'd', "deadline", STR, deadline, "TIME", "as 30d"),
    ROW_OPT(S, 0, "sure", FLAG, sure, NULL, "in time at the far end of the range too"),
    ROW_NUM(S, "gpus", request.gpus, 1, PLAN_GPUS_MAX, "at most so many GPUs (default 65536)"),
    ROW_SEQ(S),
    ROW_BATCH(S),
    ROW_PRECISION(S),
    ROW_OPTIMIZER(S),
    ROW_KERNELS(S),
    ROW_OPT(S, 0, "data", STR, data, "BYTES", "of the training data (default: 4 a token)"),
    ROW_NUM(S, "keep", keep, 1, 10000, "checkpoints to keep (default 3)"),
    ROW_OPT(S, 0, "price", STR, price, "DOLLARS", "of a GPU-hour on demand"),
    ROW_OPT(S, 0, "node-price", STR, node_price, "DOLLARS", "to buy a node"),
    ROW_NUM(S, "years", years, 1, 10, "until a bought node is written off (default 3)"),
    ROW_JSON(S),
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
    const char *size;
    struct plan_model model;
    struct plan_counts counts;
    struct plan_sized least, timed, before;
    double tokens;
    int64_t least_gpus, gpus; /* 0: none holds it, none is in time */
    struct plan_range days, usd;
    char config[CONFIG_TEXT_MAX];
};

struct sizes_opts {
    struct request_opts request;
    const char *deadline;
    int64_t ratio;
};

#define S struct size_row
static const struct field size_fields[] = {
    FIELD_OF("size", S, size, "as people call it", .title = "size", .flags = TABLE_RIGHT,
             .colour = COLOUR_BOLD),
    FIELD_OF("model", S, model.name, "that stands for it", .title = "model"),
    FIELD_OF("tokens", S, tokens, "to train on", .title = "tokens", .words = text_short),
    FIELD_OF("least_gpus", S, least_gpus, "the fewest that hold the job; null: none does",
             .title = "least GPUs", .above_0 = true),
    FIELD_OF("gpus", S, gpus, "the fewest that are in time; null: none are", .title = "GPUs",
             .above_0 = true, .colour = COLOUR_BOLD),
    FIELD_OF(NULL, S, days.usual, "", .title = "days", .words = text_short),
    FIELD_RANGE("days", S, days, "of the run on them", .left_out = true),
    FIELD_OF(NULL, S, usd.usual, "", .title = "on demand", .words = text_usd),
    FIELD_RANGE("usd", S, usd, "dollars on demand", .left_out = true),
    FIELD_OF(NULL, S, config, "", .title = "configuration", .flags = TABLE_WRAP,
             .colour = COLOUR_DIM),
};
static FIELD_TABLE(size_table, "size", S, size_fields);
#undef S

struct sizes_report {
    const char *gpu;
    double days;
    struct size_row *rows;
    size_t count;
};
#define S struct sizes_report
static const struct field sizes_fields[] = {
    FIELD_OF("gpu", S, gpu, "kind of GPU"),
    FIELD_OF("deadline_days", S, days, "that are asked for"),
    FIELD_SUBS("sizes", S, rows, count, &size_table, "models by size"),
};
static FIELD_TABLE(sizes_doc, "stoker.plan-sizes/1", S, sizes_fields);
#undef S

static enum rc size_row(const struct run_request *a, const char *name, double days, double ratio,
                        struct size_row *r, struct err *err)
{
    const struct plan_range none = { (double)NAN, (double)NAN, (double)NAN };
    struct plan_size_want w = { .best = a->want };
    const struct plan_bill *bill = &r->timed.campaign.bill[PLAN_ON_DEMAND];
    struct err late = { 0 }; /* that none is, or holds the job, is no error here */

    r->days = r->usd = none;
    if (plan_model_by_name(name, &r->model, err) || plan_model_counts(&r->model, &r->counts, err))
        return err->code;
    w.campaign.tokens = r->tokens = ratio * (double)r->counts.active;
    if (!a->batch_given)
        w.best.batch = plan_usual_sequences(&a->recipes, (double)r->counts.active, w.best.seq);
    if (plan_size_for(&a->facts, &r->model, &r->counts, &a->gpu, &w, &r->least, &r->before, &late))
        return RC_OK;
    r->least_gpus = r->least.cluster.gpus;
    w.days = days;
    if (plan_size_for(&a->facts, &r->model, &r->counts, &a->gpu, &w, &r->timed, &r->before, &late))
        return RC_OK;
    r->gpus = r->timed.cluster.gpus;
    r->days = r->timed.campaign.days;
    r->usd = bill->known ? bill->usd : none;
    (void)text_config(&r->timed.best.config, r->config);
    return RC_OK;
}

static enum rc run_sizes(struct cmd_ctx *ctx, struct err *err)
{
    const struct sizes_opts *o = ctx->opts;
    struct sizes_report r = { .count = ARRAY_SIZE(size_models) };
    struct request_opts request = o->request;
    double seconds = 30.0 * PLAN_DAY_S, ratio;
    struct run_request a;
    enum rc rc = RC_OK;

    request.model = size_models[0].model; /* each row brings its own */
    if ((o->deadline && option_seconds("--deadline", o->deadline, &seconds, err)) ||
        request_read(&request, &a, err))
        return err->code;
    ratio = o->ratio ? (double)o->ratio : plan_fact(&a.facts, "tokens_a_parameter");
    r.gpu = a.gpu.name;
    r.days = seconds / PLAN_DAY_S;
    r.rows = arena_array(&a.arena, struct size_row, r.count);
    for (size_t i = 0; i < r.count && rc == RC_OK; i++) {
        r.rows[i].size = size_models[i].size;
        rc = size_row(&a, size_models[i].model, r.days, ratio, &r.rows[i], err);
    }
    if (rc == RC_OK && o->request.json)
        fields_write_report(&ctx->out, &sizes_doc, &r);
    else if (rc == RC_OK) {
        fields_print(&ctx->out, &ctx->out_term, &size_table, r.rows, r.count, -1);
        print_note(ctx,
                   "\nWhole nodes of %s; \"least GPUs\" hold the model, its optimizer and one "
                   "micro-batch; \"GPUs\" are done with %.3g tokens a parameter in %.3g days, "
                   "interruptions included. The days are right to %+.0f..%+.0f %% (eight of ten "
                   "published runs).",
                   a.gpu.name, ratio, r.days, 100 * (r.rows[2].timed.campaign.band.low - 1),
                   100 * (r.rows[2].timed.campaign.band.high - 1));
    }
    request_release(&a);
    return rc;
}

#define S sizes_opts
static const struct opt sizes_opts[] = {
    ROW_GPU(S),
    ROW_OPT(S, 'd', "deadline", STR, deadline, "TIME", "as 90d (default 30d)"),
    ROW_NUM(S, "tokens-a-parameter", ratio, 1, 100000, "tokens a parameter (default 20)"),
    ROW_SEQ(S),
    ROW_BATCH(S),
    ROW_PRECISION(S),
    ROW_OPTIMIZER(S),
    ROW_KERNELS(S),
    ROW_JSON(S),
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

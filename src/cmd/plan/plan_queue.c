/* SPDX-License-Identifier: MIT */
/* stoker plan queue: how large a cluster must be for a number of jobs a month and a turnaround. */
#include "cmd/plan/plan_request_int.h"
#include "os/file.h"
#include "plan/queue.h"

#include "base/str.h"

#include <math.h>

enum { RUNS = 5, SEED = 1, MONTHS = 24, NODE_GPUS = 8, SHOWN = 7 };

struct queue_opts {
    struct request_opts request; /* of a job: model, tokens, GPUs */
    const char *file, *hours, *spread, *turnaround, *percentile;
    int64_t jobs, nodes, seed;
    bool fifo;
};

struct queue_row { /* a number of nodes that is shown */
    int64_t nodes, gpus;
    struct queue_out o;
    double month_usd;
};

struct queue_job {
    struct queue_class classes[QUEUE_CLASSES_MAX];
    struct queue_in in;
    struct plan_gpu gpu;
    struct buf what; /* the job that a model makes; owned */
    double turnaround_h;
    int64_t percentile;
    struct queue_size size;
    struct queue_row row[SHOWN], *rows;
    size_t row_count;
};

/* How long a job takes that trains a model. */
static enum rc hours_of(const struct request_opts *o, struct queue_job *j, double *out_s,
                        struct err *err)
{
    struct plan_campaign_want w = { 0 };
    struct plan_campaign c;
    struct run_request a;
    enum rc rc;

    if (request_read(o, &a, err))
        return err->code;
    plan_cluster_usual(&a.gpu, o->gpus ? o->gpus : NODE_GPUS, &a.cluster);
    rc = request_best(&a, o, err);
    if (rc == RC_OK) {
        w.tokens = a.tokens;
        plan_campaign_of(&a.facts, &a.model, &a.counts, &a.cluster, &a.best.config, &a.best.time,
                         &w, &c);
        *out_s = c.days.usual * PLAN_DAY_S;
        buf_addf(&j->what, "A job trains %s on %s tokens with %lld x %s: %s, %s.", a.model.name,
                 TEXT_SHORT(a.tokens), (long long)a.cluster.gpus, a.gpu.name, TEXT_TIME(*out_s),
                 c.bill[PLAN_ON_DEMAND].known ? TEXT_USD(c.bill[PLAN_ON_DEMAND].usd.usual)
                                              : "no price is known");
    }
    request_release(&a);
    return rc;
}

static enum rc read_classes(const struct queue_opts *o, struct queue_job *j, double spread,
                            struct err *err)
{
    struct buf text = { 0 };
    struct arena a = { 0 };
    double seconds = 24 * PLAN_HOUR_S;
    enum rc rc;

    if (!o->file) {
        if (!o->jobs) {
            err_hint(err, "For example --jobs 200 --gpus 8 --hours 24h, or --mix FILE.csv.");
            return err_set(err, RC_USAGE, "there is no --jobs and no --mix");
        }
        if (o->hours ? option_seconds("--hours", o->hours, &seconds, err)
                     : o->request.model && hours_of(&o->request, j, &seconds, err))
            return err->code;
        j->classes[0] = (struct queue_class){ "jobs", (double)o->jobs,
                                              o->request.gpus ? o->request.gpus : NODE_GPUS,
                                              seconds / PLAN_HOUR_S, spread };
        j->in.class_count = 1;
        return RC_OK;
    }
    rc = file_read(o->file, PLAN_FILE_MAX, &text, err);
    if (rc == RC_OK &&
        queue_read(&a, buf_str(&text), text.len, spread, j->classes, &j->in.class_count, err))
        rc = err_ctx(err, "table '%s'", o->file);
    buf_release(&text);
    arena_release(&a);
    return rc;
}

static enum rc queue_request(const struct queue_opts *o, struct queue_job *j, struct err *err)
{
    double spread = 1, seconds = 0;
    int64_t percentile = 95;

    if (o->spread && (!str_to_f64(o->spread, &spread) || spread < 0 || spread > 10)) {
        err_hint(err, "Give 0 to 10; 1 is as spread as an exponential distribution.");
        return err_set(err, RC_USAGE, "option '--spread' cannot be '%s'", o->spread);
    }
    if (!o->turnaround && !o->nodes) {
        err_hint(err, "For example --turnaround 48h.");
        return err_set(err, RC_USAGE, "there is no --turnaround and no --nodes");
    }
    j->in = (struct queue_in){ .classes = j->classes,
                               .nodes = o->nodes,
                               .node_gpus = NODE_GPUS,
                               .backfill = !o->fifo,
                               .months = MONTHS,
                               .seed = o->seed ? (uint64_t)o->seed : SEED };
    if (read_classes(o, j, spread, err) ||
        (o->turnaround && option_seconds("--turnaround", o->turnaround, &seconds, err)) ||
        plan_gpu_by_name(o->request.gpu ? o->request.gpu : "h100", &j->gpu, err))
        return err->code;
    j->turnaround_h = seconds / PLAN_HOUR_S;
    if (o->percentile) /* one of four: args_parse() checked */
        (void)str_to_i64(o->percentile, 10, &percentile);
    j->percentile = percentile;
    j->rows = j->row;
    return RC_OK;
}

static enum rc row_at(struct queue_job *j, int64_t nodes, struct err *err)
{
    struct queue_row *row = &j->row[j->row_count++];
    struct queue_in in = j->in;
    struct arena a = { 0 };
    enum rc rc;

    in.nodes = row->nodes = nodes;
    row->gpus = nodes * NODE_GPUS;
    row->month_usd = j->gpu.price_usd_h > 0 ? (double)row->gpus * PLAN_MONTH_H * j->gpu.price_usd_h
                                            : (double)NAN;
    rc = queue_run(&a, &in, &row->o, err);
    arena_release(&a);
    return rc;
}

/* Sizes around the answer: what one node fewer or more is worth. */
static enum rc queue_answer(struct queue_job *j, struct err *err)
{
    int64_t from, to;
    enum rc rc = RC_OK;

    if (j->in.nodes)
        return row_at(j, j->in.nodes, err);
    j->in.nodes = 1;
    if (queue_size_for(&j->in, j->percentile, j->turnaround_h, RUNS, &j->size, err))
        return err->code;
    from = j->size.nodes - SHOWN / 2 > j->size.load ? j->size.nodes - SHOWN / 2 : j->size.load;
    to = j->size.nodes + SHOWN / 2;
    for (int64_t n = from; n <= to && j->row_count < SHOWN && rc == RC_OK; n++)
        rc = row_at(j, n, err);
    return rc;
}

/* ---- figures ---- */
#define S struct queue_times
static const struct field times_fields[] = {
    FIELD_OF("mean", S, mean, "the mean"),      FIELD_OF("p50", S, p50, "the median"),
    FIELD_OF("p90", S, p90, "90th percentile"), FIELD_OF("p95", S, p95, "95th percentile"),
    FIELD_OF("p99", S, p99, "99th percentile"), FIELD_OF("max", S, max, "the longest"),
};
static FIELD_TABLE(times_table, "times", S, times_fields);
#undef S

#define S                struct queue_row
#define HOURS(title_, m) FIELD_OF(NULL, S, o.m, "", .title = (title_), .fmt = "%.1f h")
static const struct field row_fields[] = {
    FIELD_OF("nodes", S, nodes, "machines", .title = "nodes"),
    FIELD_OF("gpus", S, gpus, "GPUs of them", .title = "GPUs"),
    FIELD_OF("jobs", S, o.jobs, "jobs that were simulated"),
    FIELD_OF("utilisation", S, o.utilisation, "share of the GPUs' time that is in use",
             .title = "in use", .fmt = "%.0f %%", .scale = 100),
    FIELD_OF("waiting", S, o.queue_mean, "jobs that wait, on the average", .title = "waiting",
             .fmt = "%.1f"),
    HOURS("wait p50", wait.p50),
    HOURS("p95", wait.p95),
    FIELD_SUB("wait_h", S, o.wait, &times_table, "hours from submitting to the start"),
    HOURS("turnaround p50", turnaround.p50),
    HOURS("p90", turnaround.p90),
    HOURS("p95", turnaround.p95),
    HOURS("p99", turnaround.p99),
    FIELD_SUB("turnaround_h", S, o.turnaround, &times_table, "hours from submitting to the end"),
    FIELD_OF("unstable", S, o.unstable, "more work comes than it can do"),
    FIELD_OF(NULL, S, month_usd, "", .title = "a month", .words = text_usd),
};
static FIELD_TABLE(row_table, "size", S, row_fields);
#undef S

#define S struct queue_job
static const struct field queue_fields[] = {
    FIELD_OF("percentile", S, percentile, "of jobs that keep the turnaround"),
    FIELD_OF("turnaround_h", S, turnaround_h, "hours that are asked for", .above_0 = true),
    FIELD_OF("nodes", S, size.nodes, "the fewest that do it", .above_0 = true),
    FIELD_OF("nodes_least", S, size.least, "by the luckiest seed", .above_0 = true,
             .left_out = true),
    FIELD_OF("nodes_most", S, size.most, "by the unluckiest seed", .above_0 = true,
             .left_out = true),
    FIELD_OF("nodes_busy", S, size.load, "that the work alone needs", .above_0 = true,
             .left_out = true),
    FIELD_OF("seed", S, in.seed, "of the random jobs"),
    FIELD_SUBS("sizes", S, rows, row_count, &row_table, "clusters about the answer"),
};
static FIELD_TABLE(queue_doc, "stoker.plan-queue/1", S, queue_fields);
#undef S

static void queue_text(struct cmd_ctx *ctx, const struct queue_job *j)
{
    int64_t chosen = -1;

    for (size_t i = 0; i < j->row_count; i++)
        if (j->row[i].nodes == j->size.nodes)
            chosen = (int64_t)i;
    if (j->what.len)
        print_note(ctx, "%s", buf_str(&j->what));
    for (size_t i = 0; i < j->in.class_count; i++) {
        const struct queue_class *c = &j->classes[i];

        print_note(ctx, "%s: %.4g a month, %lld GPUs for %.4g h (spread %.2g)", c->name,
                   c->per_month, (long long)c->gpus, c->hours, c->spread);
    }
    buf_addc(&ctx->out, '\n');
    fields_print(&ctx->out, &ctx->out_term, &row_table, j->rows, j->row_count, chosen);
    if (!j->size.nodes) {
        print_note(
            ctx, "\n%zu jobs in %d simulated months, %s.%s", j->row[0].o.jobs, MONTHS,
            j->in.backfill ? "first come, first served with backfill" : "first come, first served",
            j->row[0].o.unstable ? " More work comes than it can do: the queue only grows." : "");
        return;
    }
    print_note(ctx,
               "\n%lld nodes (%lld to %lld over %d seeds) turn %d %% of the jobs around in %.4g h: "
               "%zu jobs in %d simulated months, %s.",
               (long long)j->size.nodes, (long long)j->size.least, (long long)j->size.most, RUNS,
               (int)j->percentile, j->turnaround_h, j->size.at.jobs, MONTHS,
               j->in.backfill ? "first come, first served with backfill"
                              : "first come, first served");
    print_note(
        ctx,
        "The work alone keeps %lld nodes busy; the others are there because jobs do not come "
        "evenly: at %.0f %% in use half of the jobs wait at most %.1f h and one in twenty "
        "%.1f h or more.",
        (long long)j->size.load, 100 * j->size.at.utilisation, j->size.at.wait.p50,
        j->size.at.wait.p95);
}

static enum rc run_queue(struct cmd_ctx *ctx, struct err *err)
{
    const struct queue_opts *o = ctx->opts;
    struct queue_job j = { 0 };
    enum rc rc = queue_request(o, &j, err);

    if (rc == RC_OK)
        rc = queue_answer(&j, err);
    if (rc == RC_OK && o->request.json)
        fields_write_report(&ctx->out, &queue_doc, &j);
    else if (rc == RC_OK)
        queue_text(ctx, &j);
    buf_release(&j.what);
    return rc;
}

#define S queue_opts
static const struct opt queue_opts[] = {
    ROW_NUM(S, "jobs", jobs, 1, 200000, "jobs a month"),
    ROW_NUM(S, "gpus", request.gpus, 1, PLAN_GPUS_MAX, "GPUs of a job (default 8)"),
    ROW_OPT(S, 0, "hours", STR, hours, "TIME", "a job runs, on the average, as 24h (default 24h)"),
    ROW_OPT(S, 'm', "model", STR, request.model, "MODEL", "instead of --hours: what a job trains"),
    ROW_TOKENS(S),
    ROW_SEQ(S),
    ROW_BATCH(S),
    ROW_NUM(S, "lora", request.lora, 1, 65536, "it learns adapters of rank N alone"),
    ROW_OPT(S, 0, "spread", STR, spread, "NUMBER",
            "of durations: deviation over mean (default 1; 0: all the same)"),
    ROW_OPT(S, 0, "mix", STR, file, "FILE",
            "several kinds of job: name,per_month,gpus,hours[,spread]"),
    ROW_OPT(S, 0, "turnaround", STR, turnaround, "TIME", "from submitting to the end, as 48h"),
    { 0, "percentile", OPT_STR, offsetof(struct S, percentile), "P", "50|90|95|99", 0, 0,
      "of jobs that must keep it (default 95)" },
    ROW_NUM(S, "nodes", nodes, 1, QUEUE_NODES_MAX, "instead: what a cluster of N nodes does"),
    ROW_OPT(S, 'g', "gpu", STR, request.gpu, "GPU", "kind of GPU (default h100)"),
    ROW_OPT(S, 0, "fifo", FLAG, fifo, NULL, "no backfill: nobody overtakes"),
    ROW_NUM(S, "seed", seed, 1, INT64_C(1) << 40, "of the random jobs (default 1)"),
    ROW_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example queue_examples[] = {
    { "stoker plan queue --jobs 200 --gpus 8 --hours 24h --turnaround 72h",
      "nodes for 200 jobs a month" },
    { "stoker plan queue --jobs 200 --model llama-3.1-8b --tokens 2B --batch 64 --turnaround 24h",
      "jobs that fine-tune a model" },
    { "stoker plan queue --mix jobs.csv --turnaround 96h --percentile 90", "several kinds of job" },
    { "stoker plan queue --jobs 200 --gpus 8 --hours 24h --nodes 9", "what nine nodes do" },
    { 0 },
};
const struct cmd cmd_plan_queue = {
    .name = "queue",
    .summary = "size a cluster for jobs a month and a turnaround",
    .operands = "",
    .opts = queue_opts,
    .opts_size = sizeof(struct queue_opts),
    .about =
        "Simulates two years of jobs that come at random and run for random times, on nodes of 8 "
        "GPUs, first come, first served with backfill, and finds the fewest nodes on which the "
        "percentile of turnarounds holds. Nothing is assumed about how many jobs run at a time. "
        "Five seeds give the range; one seed always gives the same answer.",
    .examples = queue_examples,
    .run = run_queue,
};

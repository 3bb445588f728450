/* SPDX-License-Identifier: MIT */
/* cmd_bench: `stoker bench serve`: how many requests does a server answer, and how fast?
 *
 * Here: options, the progress line, Ctrl-C and the exit status.  The load is bench/'s. */
#include "base/mem.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/text/units.h"
#include "bench/bench_report.h"
#include "cmd/cmd_bench_int.h"
#include "os/file.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

enum {
    BENCH_CLIENTS_DEFAULT = 64,  /* closed loop */
    BENCH_FLIGHT_DEFAULT = 4096, /* open loop: the most in flight */
    BENCH_DURATION_MS = 10000,
    BENCH_WARMUP_MS = 2000,
    BENCH_TIMEOUT_MS = 30000,
    BENCH_TICK_MS = 250,
    BENCH_SLICES_DEFAULT = 5, /* of each server, with --compare */
    BENCH_DOCS_DEFAULT = 25,
    BENCH_SEED_DEFAULT = 20240229,
    BENCH_TEXTS = 8192,           /* generated; requests take them in turn */
    BENCH_TIME_MS_MAX = 86400000, /* a day: duration, warm-up, timeout */
};
#define BENCH_RATE_MAX 1e6 /* requests/s of an open loop */

struct bench_opts {
    const char *api, *model, *route, *rate, *duration, *warmup, *timeout, *texts;
    const char *token, *token_file, *compare, *compare_api, *compare_model, *result_prefix;
    const char *max_errors;
    int64_t clients, requests, items, docs, seed, slices;
    bool uniform, check, json, progress, quiet;
};

/* What the options mean. */
struct bench_plan {
    struct load_opts load;
    size_t items, slices;
    const char *token; /* NULL: none */
    char token_text[TOKEN_FILE_BYTES_MAX];
    struct texts texts, queries;
};

struct bench_target { /* a server: its side of the report, and what that borrows */
    struct url url;
    struct api_guess guess;
    struct api_requests reqs;
    struct bench_load *load;
};

struct bench_bar {
    bool tty;
    int width;
    const struct report *report;
};

/* ---- Ctrl-C: the figures so far; a second one ends the program ---- */
static volatile sig_atomic_t stop_asked;

static void on_interrupt(int sig)
{
    (void)sig;
    stop_asked = 1;
}

static void watch_interrupts(void)
{
    struct sigaction sa = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND }, old;

    if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN) /* in the background */
        sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

/* ---- progress ---- */
static void show_progress(void *arg, const struct load_progress *p)
{
    const struct bench_bar *b = arg;
    const struct hist *h = &p->stats->latency;
    char rps[PROGRESS_TEXT_MAX], tokens[PROGRESS_TEXT_MAX];
    size_t limit = b->width > 0 ? (size_t)b->width : 80;
    struct buf line = { 0 };

    if (b->report->count == 2)
        buf_addf(&line, "%d/2 ", p->which + 1);
    buf_addf(&line, "%s %3.0f%%", p->phase, floor(p->done * 100));
    if (h->count) {
        buf_addf(&line, "  %s requests/s", progress_rate(p->rps, rps));
        if (p->tokens_per_s >= 0)
            buf_addf(&line, "  %s tokens/s", progress_rate(p->tokens_per_s, tokens));
        buf_addf(&line, "  p50 %.1f  p99 %.1f ms", (double)hist_quantile(h, 0.5) / 1e6,
                 (double)hist_quantile(h, 0.99) / 1e6);
    }
    buf_addf(&line, "  %" PRIu64 " errors", load_errors(p->stats));
    if (line.len >= limit) /* only ASCII: bytes are columns */
        line.data[limit - 1] = '\0';
    fprintf(stderr, b->tty ? "\r%s\033[K" : "%s\n", buf_str(&line));
    buf_release(&line);
}

/* ---- options ---- */
static enum rc time_of(const char *text, const char *name, int64_t dflt_ms, int64_t least_ms,
                       int64_t *out_ns, struct err *err)
{
    uint64_t ms = (uint64_t)dflt_ms;
    struct err why = { 0 };

    if (text && units_duration_parse(text, &ms, &why))
        return err_set(err, RC_USAGE, "option '--%s': %s", name, why.msg);
    if (ms < (uint64_t)least_ms || ms > BENCH_TIME_MS_MAX)
        return err_set(err, RC_USAGE,
                       "option '--%s' needs a time from %" PRId64 " ms to a day, "
                       "not '%s'",
                       name, least_ms, text);
    *out_ns = (int64_t)ms * 1000000;
    return RC_OK;
}

static enum rc rate_of(const char *text, double *out, struct err *err)
{
    if (!text)
        return RC_OK;
    if (!str_to_f64(text, out) || !(*out > 0) || *out > BENCH_RATE_MAX)
        return err_set(err, RC_USAGE,
                       "option '--rate' needs requests a second, above 0 and at most %g, not '%s'",
                       BENCH_RATE_MAX, text);
    return RC_OK;
}

static enum rc read_token(const struct bench_opts *o, struct bench_plan *p, struct err *err)
{
    p->token = o->token;
    if (o->token && o->token_file)
        return err_set(err, RC_USAGE, "--token and --token-file exclude each other");
    if (o->token_file) {
        if (token_file_read(o->token_file, p->token_text, sizeof(p->token_text), err))
            return err->code;
        p->token = p->token_text;
    }
    if (!p->token)
        return RC_OK;
    for (const char *c = p->token; *c; c++)
        if (*c <= ' ' || *c > '~')
            return err_set(err, RC_USAGE, "the token holds a space or something beyond ASCII");
    return *p->token ? RC_OK : err_set(err, RC_USAGE, "the token is empty");
}

static enum rc check_opts(const struct bench_opts *o, struct err *err)
{
    if (o->uniform && !o->rate)
        return err_set(err, RC_USAGE, "--uniform is of arrivals: give --rate too");
    if (!o->compare && (o->compare_api || o->compare_model || o->slices))
        return err_set(err, RC_USAGE, "--slices, --compare-api and --compare-model need --compare");
    if (o->compare && o->requests)
        return err_set(err, RC_USAGE, "--compare runs for a time: give --duration, not --requests");
    if (o->json && o->result_prefix)
        return err_set(err, RC_USAGE, "--json has all figures: leave out --result-prefix");
    if (o->docs && !str_eq(o->route, "rerank"))
        return err_set(err, RC_USAGE, "--docs is of reranks: give --route rerank, or use --items");
    if (o->items && str_eq(o->route, "rerank"))
        return err_set(err, RC_USAGE, "--items is of embeddings: a rerank has --docs");
    return RC_OK;
}

static enum rc make_plan(const struct bench_opts *o, struct bench_plan *p, struct err *err)
{
    struct load_opts *l = &p->load;
    bool timed = o->duration || !o->requests;

    if (check_opts(o, err) || rate_of(o->rate, &l->rate, err) || read_token(o, p, err) ||
        time_of(o->warmup, "warmup", BENCH_WARMUP_MS, 0, &l->warmup_ns, err) ||
        time_of(o->duration, "duration", BENCH_DURATION_MS, 1, &l->duration_ns, err) ||
        time_of(o->timeout, "timeout", BENCH_TIMEOUT_MS, 1, &l->timeout_ns, err))
        return err->code;
    if (!timed)
        l->duration_ns = 0;
    l->clients = (size_t)(o->clients        ? o->clients
                          : o->rate != NULL ? BENCH_FLIGHT_DEFAULT
                                            : BENCH_CLIENTS_DEFAULT);
    l->uniform = o->uniform;
    l->seed = o->seed ? (uint64_t)o->seed : BENCH_SEED_DEFAULT;
    l->requests = (uint64_t)o->requests;
    l->max_errors = UINT64_MAX;
    if (o->max_errors && !str_to_u64(o->max_errors, 10, &l->max_errors))
        return err_set(err, RC_USAGE, "option '--max-errors' needs a whole number, not '%s'",
                       o->max_errors);
    l->check = o->check;
    l->route = str_eq(o->route, "rerank") ? API_RERANK : API_EMBED;
    l->stop = &stop_asked;
    p->slices = !o->compare ? 1 : o->slices ? (size_t)o->slices : BENCH_SLICES_DEFAULT;
    p->items = l->route == API_RERANK ? (size_t)(o->docs ? o->docs : BENCH_DOCS_DEFAULT)
                                      : (size_t)(o->items ? o->items : 1);
    if (l->duration_ns && l->duration_ns / (int64_t)p->slices < 1000000)
        return err_set(err, RC_USAGE, "slices of less than a millisecond measure nothing");
    return RC_OK;
}

static enum rc make_texts(const struct bench_opts *o, struct bench_plan *p, struct err *err)
{
    if (o->texts && texts_read(o->texts, &p->texts, err))
        return err->code;
    if (!o->texts)
        texts_make(&texts_law_docs, BENCH_TEXTS, p->load.seed, &p->texts);
    texts_make(&texts_law_queries, BENCH_TEXTS, p->load.seed + 1, &p->queries);
    return RC_OK;
}

/* ---- servers ---- */
/* The API and the model: as told, else as the server says. */
static enum rc choose_api(struct bench_target *t, const struct bench_plan *p, const char *api,
                          const char *model, struct err *err)
{
    struct api_guess g = { 0 };

    if (!api || !model) {
        if (api_guess(&t->url, p->token, p->load.timeout_ns, &g, err))
            return err->code;
    }
    t->guess = g;
    if (api)
        t->guess.api = peer_api_find(api);
    if (model && !str_copy(t->guess.model, sizeof(t->guess.model), model))
        return err_set(err, RC_LIMIT, "the model's name is longer than %d bytes", API_MODEL_MAX);
    if (!t->guess.api) {
        err_hint(err, "Say it with --api: one of %s.", api_names);
        return err_set(err, RC_FAIL, "the server does not tell which API it speaks");
    }
    if (!api_path(t->guess.api, p->load.route))
        return err_set(err, RC_USAGE, "the API '%s' has no rerank", t->guess.api->name);
    return RC_OK;
}

static enum rc open_target(struct bench_target *t, struct bench_plan *p, const char *url,
                           const char *api, const char *model, struct err *err)
{
    struct api_wanted want = { .url = &t->url,
                               .route = p->load.route,
                               .token = p->token,
                               .items = p->items,
                               .texts = &p->texts,
                               .queries = &p->queries };

    if (url_parse(url, &t->url, err))
        return err->code;
    if (choose_api(t, p, api, model, err))
        return err_ctx(err, "'%s'", url);
    want.api = t->guess.api;
    want.model = t->guess.model;
    if (api_build(&want, &t->reqs, err) || load_new(&p->load, &t->url, &t->reqs, &t->load, err) ||
        load_try(t->load, err))
        return err_ctx(err, "'%s'", url);
    return RC_OK;
}

static void fill_side(struct report_side *s, const struct bench_target *t,
                      const struct bench_plan *p, const char *url)
{
    s->url = url;
    s->api = t->guess.api->name;
    s->path = api_path(t->guess.api, p->load.route);
    s->model = t->guess.model;
    s->load = t->load;
}

/* What the figures mean for the exit status. */
static enum rc tell_verdict(const struct report *r, struct err *err)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct load_stats *s = &r->sides[i].stats;

        if (s->too_many_errors)
            return err_set(err, RC_FAIL,
                           "'%s': %" PRIu64 " requests failed, more than --max-errors",
                           r->sides[i].url, load_errors(s));
        if (s->stopped)
            return err_set(err, RC_FAIL, "stopped: the figures are of %.1f s", s->seconds);
        if (!s->good)
            return err_set(err, RC_FAIL, "'%s': no request was answered well", r->sides[i].url);
    }
    return RC_OK;
}

static enum rc run_report(struct cmd_ctx *ctx, const struct bench_opts *o, struct bench_plan *p,
                          struct report *r, struct err *err)
{
    enum rc rc;

    rc = report_run(r, p->slices, err);
    if (p->load.tick && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (rc)
        return rc;
    if (o->json)
        report_json(r, &ctx->out);
    else
        report_text(r, &ctx->out_term, &ctx->out);
    if (o->result_prefix)
        report_results(r, o->result_prefix, &ctx->out);
    return tell_verdict(r, err);
}

static enum rc run_serve(struct cmd_ctx *ctx, struct err *err)
{
    const struct bench_opts *o = ctx->opts;
    struct report *r = xcalloc(1, sizeof(*r));
    struct bench_bar bar = { isatty(STDERR_FILENO), ctx->err_term.width, r };
    struct bench_target targets[2] = { 0 };
    struct bench_plan p = { .load = { .arg = &bar, .tick_ns = BENCH_TICK_MS * INT64_C(1000000) } };
    const char *urls[2] = { ctx->argv[0], o->compare };
    enum rc rc = make_plan(o, &p, err);

    if (!o->quiet && (o->progress || bar.tty))
        p.load.tick = show_progress;
    if (!rc)
        rc = make_texts(o, &p, err);
    r->count = o->compare ? 2 : 1;
    r->opts = &p.load;
    r->items = p.items;
    watch_interrupts();
    for (size_t i = 0; i < r->count && !rc; i++) {
        p.load.which = (int)i;
        rc = open_target(&targets[i], &p, urls[i], i ? o->compare_api : o->api,
                         i ? o->compare_model : o->model, err);
        if (!rc)
            fill_side(&r->sides[i], &targets[i], &p, urls[i]);
    }
    if (!rc)
        rc = run_report(ctx, o, &p, r, err);
    for (size_t i = 0; i < 2; i++) {
        load_free(targets[i].load);
        api_requests_release(&targets[i].reqs);
    }
    texts_release(&p.texts);
    texts_release(&p.queries);
    free(r);
    return rc;
}

/* ---- the command ---- */

#define OPT_STRUCT struct bench_opts
static const struct opt serve_opts[] = {
    OPT_CHOICE(
        0, "api", STR, api, "API", api_names,
        "tei, openai, cohere, jina, vllm, llama or infinity (default: what the server says)"),
    OPT(0, "model", STR, model, "NAME", "name in the requests (default: what the server says)"),
    OPT_CHOICE(0, "route", STR, route, "ROUTE", "embed|rerank", "embed (default) or rerank"),
    OPT_NUMBER('c', "clients", clients, 1, CLIENT_SLOTS_MAX,
               "closed loop of N clients (default 64); with --rate: the most requests in flight "
               "(default 4096)"),
    OPT('r', "rate", STR, rate, "R", "open loop: R requests a second fall due, Poisson's way"),
    OPT(0, "uniform", FLAG, uniform, NULL, "with --rate: at equal distances"),
    OPT('d', "duration", STR, duration, "TIME", "measure for so long (default 10s)"),
    OPT_NUMBER('n', "requests", requests, 1, INT64_C(1000000000000),
               "measure N requests; with --duration: whichever ends first"),
    OPT(0, "warmup", STR, warmup, "TIME", "load before measuring (default 2s)"),
    OPT(0, "timeout", STR, timeout, "TIME", "for one request (default 30s)"),
    OPT(0, "texts", STR, texts, "FILE",
        "send its lines (default: generated, log-normal, median 90 tokens, at most 512)"),
    OPT_NUMBER(0, "items", items, 1, API_ITEMS_MAX, "texts in one request (default 1)"),
    OPT_NUMBER(0, "docs", docs, 1, API_ITEMS_MAX, "documents in one rerank (default 25)"),
    OPT_NUMBER(0, "seed", seed, 1, INT64_MAX, "of generated texts and arrivals"),
    OPT(0, "token", STR, token, "TOKEN", "bearer token"),
    OPT(0, "token-file", STR, token_file, "FILE", "file with the bearer token"),
    OPT(0, "check", FLAG, check, NULL,
        "read replies: as many vectors or scores as texts, finite, of one width"),
    OPT(0, "compare", STR, compare, "URL2",
        "load both servers in turn and print ratios; above 1 the first is better"),
    OPT_NUMBER(0, "slices", slices, 1, REPORT_SLICES_MAX,
               "with --compare: turns of each (default 5), each of duration/N"),
    OPT_CHOICE(0, "compare-api", STR, compare_api, "API", api_names, "API of URL2"),
    OPT(0, "compare-model", STR, compare_model, "NAME", "model of URL2"),
    OPT(0, "max-errors", STR, max_errors, "N",
        "end and fail when more than N requests fail (default: never)"),
    OPT('j', "json", FLAG, json, NULL, "print JSON instead of text"),
    OPT(0, "result-prefix", STR, result_prefix, "NAME",
        "end with lines 'RESULT NAME.figure value unit'"),
    OPT(0, "progress", FLAG, progress, NULL, "tell progress also when stderr is no terminal"),
    OPT(0, "quiet", FLAG, quiet, NULL, "no progress"),
    { 0 },
};
static const struct cmd_example serve_examples[] = {
    { "stoker bench serve http://127.0.0.1:8003", "64 clients for 10 s, one text a request" },
    { "stoker bench serve http://127.0.0.1:8003 --rate 200 -d 60s",
      "latencies at 200 requests a second, stalls included" },
    { "stoker bench serve http://127.0.0.1:8003 --route rerank --docs 100 -c 8",
      "reranks of 100 documents" },
    { "stoker bench serve http://127.0.0.1:8003 --compare http://127.0.0.1:7997 -d 60s",
      "beside another server, in turn" },
    { 0 },
};
static const struct cmd cmd_bench_serve = {
    .name = "serve",
    .summary = "load an embedding or rerank server and measure it",
    .operands = "URL",
    .args_min = 1,
    .args_max = 1,
    .opts = serve_opts,
    .opts_size = sizeof(struct bench_opts),
    .about =
        "Sends requests to a server, ours or any that speaks one of the APIs, and prints requests, "
        "texts and tokens a second and the percentiles of their times. URL is http://host:port or "
        "unix:/path; one request is tried before the load begins.\n\n"
        "Closed loop, the default: each of N clients sends its next request when the last is "
        "answered. That measures throughput; its times are service times, in which a stall of the "
        "server hardly shows, as nobody asks meanwhile. Open loop, with --rate: requests fall due "
        "whatever the server does, and a latency counts from the time a request was due, not from "
        "when a connection was free.\n\n"
        "Latency is that of good replies, and of requests without a reply as the time they waited. "
        "A request whose kept connection the server ended without a reply is sent once more on a "
        "new one, its time counts from the first, and it is counted as 'sent again'. "
        "Replies that are errors are counted by status and kind and have times of their own. "
        "Percentiles are right within 1 %. Tokens are those the server tells, in the reply's usage "
        "or in x-compute-tokens. Ctrl-C prints what was measured so far.\n\n"
        "The exit status is 0 when every server answered at least one request well and not "
        "more than --max-errors failed.",
    .examples = serve_examples,
    .run = run_serve,
};

static const struct cmd *const subs[] = { &cmd_bench_engine, &cmd_bench_serve, NULL };
const struct cmd cmd_bench = {
    .name = "bench",
    .summary = "measure models and servers",
    .operands = "",
    .about = "Measurements that need nothing but this program.",
    .subs = subs,
};

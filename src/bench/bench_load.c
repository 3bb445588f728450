/* SPDX-License-Identifier: MIT */
#include "bench/bench_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

struct load_flight { /* what a slot's request is */
    int64_t due_ns;
    bool counts; /* due inside the window */
};

struct bench_load {
    struct load_opts o;
    const struct api_requests *reqs; /* borrowed */
    struct client *client;
    struct load_flight *flights; /* one a slot; owned */
    size_t next_request;
    uint64_t arrivals; /* state of the sequence of gaps */
    struct load_stats *stats;
    int64_t begin_ns, end_ns; /* the window; end INT64_MAX until the last request is sent */
    int64_t due_ns;           /* open loop: of the next arrival */
    int64_t last_ns;          /* when the last counting request ended */
    int64_t pause_ns;         /* nothing is sent before: a connection was refused */
    uint64_t sent;            /* counting ones */
    uint64_t counting;        /* of them under way */
    struct {                  /* at the last tick */
        int64_t ns;
        uint64_t good, tokens;
    } tick;
    bool trying; /* load_try() */
    enum client_fault try_fault;
    int try_status;
};

const char *load_kind_name(enum load_kind k)
{
    static const char *const names[LOAD_KINDS] = {
        "connect", "timeout", "reset", "garbage", "429", "4xx", "5xx", "check", "unsent",
    };

    assert(k < LOAD_KINDS);
    return names[k];
}

uint64_t load_errors(const struct load_stats *s)
{
    uint64_t n = 0;

    for (int i = 0; i < LOAD_KINDS; i++)
        n += s->errors[i];
    return n;
}

static double cpu_seconds(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u))
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- what became of a request ---- */
static void count_status(struct load_stats *s, int status)
{
    size_t i = 0;

    while (i < s->status_count && s->statuses[i].status != status)
        i++;
    if (i == LOAD_STATUSES_MAX)
        i--;
    else if (i == s->status_count)
        s->statuses[s->status_count++].status = status;
    s->statuses[i].count++;
}

static void keep_sample(struct load_stats *s, const struct client_done *d, const char *why)
{
    size_t n = d->reply->first_len;

    if (s->sample[0])
        return;
    if (why)
        (void)str_copy(s->sample, sizeof(s->sample), why);
    else if (d->fault == CLIENT_OK)
        snprintf(s->sample, sizeof(s->sample), "status %d: %.*s", d->reply->status,
                 (int)(n > 160 ? 160 : n), d->reply->first);
    else
        snprintf(s->sample, sizeof(s->sample), "%s: %s", client_fault_name(d->fault),
                 d->reply->why ? d->reply->why
                 : d->sys      ? strerror(d->sys)
                               : "no reply");
    str_make_text(s->sample);
    for (char *p = s->sample; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
}

/* RC_OK when the content is what was asked for. */
static enum rc check_reply(const struct bench_load *l, const struct client_done *d,
                           size_t *io_width, struct err *err)
{
    struct check_found f;
    size_t got;

    if (d->body->over)
        return err_set(err, RC_LIMIT, "the reply is larger than %d bytes", CLIENT_BODY_MAX);
    if (check_body(buf_str(d->body), d->body->len, &f, err))
        return err->code;
    got = l->o.route == API_EMBED ? f.vectors : f.scores;
    if (got != l->reqs->items)
        return err_set(err, RC_PARSE, "the reply has %zu %s for %zu texts", got,
                       l->o.route == API_EMBED ? "vectors" : "scores", l->reqs->items);
    if (l->o.route == API_EMBED && *io_width && *io_width != f.width)
        return err_set(err, RC_PARSE, "a vector has %zu numbers, earlier ones had %zu", f.width,
                       *io_width);
    *io_width = f.width;
    return RC_OK;
}

/* LOAD_KINDS: it was good. */
static enum load_kind judge_reply(struct bench_load *l, const struct client_done *d)
{
    static const enum load_kind kinds[] = { LOAD_KINDS, LOAD_CONNECT, LOAD_TIMEOUT, LOAD_RESET,
                                            LOAD_GARBAGE };
    struct err err = { 0 };

    if (d->fault)
        return kinds[d->fault];
    if (d->reply->status == 429)
        return LOAD_429;
    if (d->reply->status >= 500)
        return LOAD_5XX;
    if (d->reply->status >= 300)
        return LOAD_4XX;
    if (!l->o.check || !check_reply(l, d, &l->stats->width, &err))
        return LOAD_KINDS;
    keep_sample(l->stats, d, err.msg);
    return LOAD_CHECK;
}

static void count_good(struct bench_load *l, const struct client_done *d)
{
    struct load_stats *s = l->stats;
    int64_t tokens;

    if (d->done_ns < l->begin_ns || d->done_ns >= l->end_ns)
        return;
    tokens = check_tokens(d->reply);
    s->done_good++;
    s->done_items += l->reqs->items;
    s->tokens_told += tokens >= 0;
    s->done_tokens += tokens >= 0 ? (uint64_t)tokens : 0;
}

static void on_done(void *arg, const struct client_done *d)
{
    struct bench_load *l = arg;
    struct load_flight *f = &l->flights[d->slot];
    struct load_stats *s = l->stats;
    enum load_kind kind = judge_reply(l, d);
    uint64_t took = d->done_ns > f->due_ns ? (uint64_t)(d->done_ns - f->due_ns) : 0;

    if (kind == LOAD_CONNECT)
        l->pause_ns = d->done_ns + LOAD_PAUSE_MS * INT64_C(1000000);
    if (l->trying) {
        l->try_fault = d->fault;
        l->try_status = d->reply->status;
    }
    if (kind == LOAD_KINDS)
        count_good(l, d);
    else
        keep_sample(s, d, NULL);
    if (!f->counts)
        return;
    l->counting--;
    l->last_ns = d->done_ns;
    if (d->reply->status)
        count_status(s, d->reply->status);
    if (kind == LOAD_KINDS)
        s->good++;
    else
        s->errors[kind]++;
    hist_add(kind == LOAD_KINDS || kind == LOAD_TIMEOUT ? &s->latency : &s->failed, took);
}

/* ---- sending ---- */
static void send_one(struct bench_load *l, int64_t due_ns, int64_t now)
{
    size_t slot = (size_t)client_free_slot(l->client), i = l->next_request;
    struct load_flight *f = &l->flights[slot];

    f->due_ns = due_ns;
    f->counts = !l->trying && due_ns >= l->begin_ns && due_ns < l->end_ns;
    l->next_request = (i + 1) % l->reqs->count;
    if (f->counts) {
        l->stats->requests++;
        l->sent++;
        l->counting++;
        if (l->o.rate > 0)
            hist_add(&l->stats->lag, now > due_ns ? (uint64_t)(now - due_ns) : 0);
    }
    client_send(l->client, slot, l->reqs->bytes[i], l->reqs->lens[i], 0);
}

static bool enough_sent(const struct bench_load *l)
{
    return l->o.requests && l->sent >= l->o.requests;
}

static bool may_send(const struct bench_load *l, int64_t at)
{
    return at < l->end_ns && !enough_sent(l) && client_free_slot(l->client) >= 0;
}

static int64_t gap_ns(struct bench_load *l)
{
    double mean = 1e9 / l->o.rate;

    return (int64_t)(l->o.uniform ? mean : -log(random_unit(&l->arrivals)) * mean);
}

/* Sends what is due; when should we look again? */
static int64_t send_due(struct bench_load *l, int64_t now)
{
    if (now < l->pause_ns)
        return l->pause_ns;
    if (!(l->o.rate > 0)) {
        while (may_send(l, now))
            send_one(l, now, now);
        return INT64_MAX;
    }
    while (l->due_ns <= now && may_send(l, l->due_ns)) {
        int64_t due = l->due_ns;

        l->due_ns += gap_ns(l);
        send_one(l, due, now);
    }
    return client_free_slot(l->client) >= 0 ? l->due_ns : INT64_MAX;
}

/* Everything that was due is sent, and what counts has ended. */
static bool all_sent(const struct bench_load *l, int64_t now)
{
    if (enough_sent(l))
        return true;
    return now >= l->end_ns && (!(l->o.rate > 0) || l->due_ns >= l->end_ns);
}

/* Arrivals that were due and got no connection: they waited until now at least. */
static void count_unsent(struct bench_load *l, int64_t now)
{
    while (l->o.rate > 0 && l->due_ns < l->end_ns && l->due_ns <= now && !enough_sent(l)) {
        if (l->due_ns >= l->begin_ns) {
            l->stats->requests++;
            l->sent++;
            l->stats->errors[LOAD_UNSENT]++;
            hist_add(&l->stats->latency, (uint64_t)(now - l->due_ns));
        }
        l->due_ns += gap_ns(l);
    }
}

/* ---- a run ---- */
static void tell_progress(struct bench_load *l, int64_t now)
{
    const struct load_stats *s = l->stats;
    double seconds = (double)(now - l->tick.ns) / 1e9;
    struct load_progress p = { .which = l->o.which,
                               .stats = s,
                               .in_flight = client_in_flight(l->client) };

    if (!l->o.tick || now - l->tick.ns < l->o.tick_ns)
        return;
    p.phase = now < l->begin_ns ? "warm-up" : now < l->end_ns ? "measuring" : "draining";
    if (now < l->begin_ns)
        p.done = 0;
    else if (l->o.requests)
        p.done = (double)l->sent / (double)l->o.requests;
    else
        p.done = fmin(1, (double)(now - l->begin_ns) / (double)(l->end_ns - l->begin_ns));
    p.rps = (double)(s->done_good - l->tick.good) / seconds;
    p.tokens_per_s = s->tokens_told ? (double)(s->done_tokens - l->tick.tokens) / seconds : -1;
    l->tick.ns = now;
    l->tick.good = s->done_good;
    l->tick.tokens = s->done_tokens;
    l->o.tick(l->o.arg, &p);
}

static bool must_end(struct bench_load *l)
{
    if (l->o.stop && *l->o.stop)
        l->stats->stopped = true;
    if (load_errors(l->stats) > l->o.max_errors)
        l->stats->too_many_errors = true;
    return l->stats->stopped || l->stats->too_many_errors;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct load_span { /* the process's own time, at both ends of the window */
    double cpu_begin, cpu_end;
    bool begun, ended;
};

static void look_at_span(const struct bench_load *l, struct load_span *sp, int64_t now)
{
    if (!sp->begun && now >= l->begin_ns) {
        sp->begun = true;
        sp->cpu_begin = cpu_seconds();
    }
    if (!sp->ended && now >= l->end_ns) {
        sp->ended = true;
        sp->cpu_end = cpu_seconds();
    }
}

/* Sends until the window is over, then waits for what counts, at most a timeout long. */
static enum rc run_window(struct bench_load *l, struct load_span *sp, struct err *err)
{
    for (;;) {
        int64_t now = clock_mono_ns(), wake;

        look_at_span(l, sp, now);
        wake = send_due(l, now);
        if (must_end(l) || (all_sent(l, now) && !l->counting))
            return RC_OK;
        if (l->end_ns < INT64_MAX && now > l->end_ns + l->o.timeout_ns)
            return RC_OK;
        if (now < l->begin_ns)
            wake = least_of(wake, l->begin_ns);
        if (now < l->end_ns)
            wake = least_of(wake, l->end_ns);
        if (l->o.tick)
            wake = least_of(wake, l->tick.ns + l->o.tick_ns);
        if (client_poll(l->client, least_of(wake, now + 100000000), err))
            return err->code;
        tell_progress(l, clock_mono_ns());
    }
}

/* Nothing of this run is under way when the next begins. */
static enum rc settle_requests(struct bench_load *l, struct err *err)
{
    int64_t until = clock_mono_ns() + l->o.timeout_ns;

    while (client_in_flight(l->client) && clock_mono_ns() < until + 1000000000 && !must_end(l))
        if (client_poll(l->client, clock_mono_ns() + 50000000, err))
            return err->code;
    return RC_OK;
}

static void add_counts(struct load_stats *s, const struct client_counts *a,
                       const struct client_counts *b)
{
    s->connects += b->connects - a->connects;
    s->resent += b->resent - a->resent;
    s->bytes_out += b->bytes_out - a->bytes_out;
    s->bytes_in += b->bytes_in - a->bytes_in;
}

/* How long the window was in the end. */
static void close_window(struct bench_load *l, const struct load_span *sp, int64_t now)
{
    struct load_stats *s = l->stats;
    int64_t end = l->end_ns;

    if (enough_sent(l) && !l->counting)
        end = l->last_ns;
    if (now < end)
        end = now;
    if (end > l->begin_ns)
        s->seconds += (double)(end - l->begin_ns) / 1e9;
    if (sp->begun)
        s->cpu_s += (sp->ended ? sp->cpu_end : cpu_seconds()) - sp->cpu_begin;
}

enum rc load_run(struct bench_load *l, int64_t warmup_ns, int64_t duration_ns,
                 struct load_stats *io, struct err *err)
{
    int64_t now = clock_mono_ns();
    struct client_counts before = client_counts(l->client), after;
    struct load_span sp = { 0 };
    enum rc rc;

    l->stats = io;
    l->begin_ns = now + warmup_ns;
    l->end_ns = duration_ns ? l->begin_ns + duration_ns : INT64_MAX;
    l->due_ns = now;
    l->pause_ns = l->last_ns = 0;
    l->sent = l->counting = 0;
    l->tick.ns = now;
    l->tick.good = io->done_good;
    l->tick.tokens = io->done_tokens;
    if (l->o.rate > 0)
        l->due_ns += gap_ns(l);
    rc = run_window(l, &sp, err);
    now = clock_mono_ns();
    count_unsent(l, now);
    close_window(l, &sp, now);
    l->end_ns = l->begin_ns; /* what ends from here on counts for no rate */
    if (!rc)
        rc = settle_requests(l, err);
    io->requests -= l->counting; /* cut by a stop: nobody knows what they had become */
    after = client_counts(l->client);
    add_counts(io, &before, &after);
    return rc;
}

/* ---- life ---- */
enum rc load_new(const struct load_opts *o, const struct url *url, const struct api_requests *reqs,
                 struct bench_load **out, struct err *err)
{
    struct bench_load *l = xcalloc(1, sizeof(*l));
    struct client_opts co = { .url = url,
                              .slots = o->clients,
                              .timeout_ns = o->timeout_ns,
                              .keep_bodies = o->check,
                              .on_done = on_done,
                              .arg = l };

    assert(o->clients && o->timeout_ns > 0 && reqs->count);
    l->o = *o;
    l->reqs = reqs;
    l->arrivals = o->seed;
    if (client_new(&co, &l->client, err)) {
        free(l);
        return err ? err->code : RC_FAIL;
    }
    l->flights = xcalloc(o->clients, sizeof(*l->flights));
    *out = l;
    return RC_OK;
}

void load_free(struct bench_load *l)
{
    if (!l)
        return;
    client_free(l->client);
    free(l->flights);
    free(l);
}

enum rc load_try(struct bench_load *l, struct err *err)
{
    struct load_stats *s = xcalloc(1, sizeof(*s));
    int64_t now = clock_mono_ns();
    enum rc rc = RC_OK;

    l->stats = s;
    l->trying = true;
    l->begin_ns = now;
    l->end_ns = INT64_MAX;
    l->next_request = 0;
    send_one(l, now, now);
    while (client_in_flight(l->client) && !rc && !(l->o.stop && *l->o.stop))
        rc = client_poll(l->client, clock_mono_ns() + 100000000, err);
    l->trying = false;
    if (l->try_status == 401 || l->try_status == 403)
        err_hint(err, "Give the server's token with --token-file.");
    else if (l->try_status >= 400 && l->try_status < 429)
        err_hint(err, "Is this its API? Choose one with --api, and the model with --model.");
    if (!rc && s->sample[0])
        rc = err_set(err, l->try_fault == CLIENT_TIMEOUT ? RC_TIMEOUT : RC_FAIL,
                     "the server did not answer a first request well: %s", s->sample);
    l->next_request = 0;
    free(s);
    return rc;
}

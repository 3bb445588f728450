/* SPDX-License-Identifier: MIT */
/* stoker agent: the node's daemon, and the words that are said to it while it runs. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "os/net/notify.h"
#include "os/signals.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { AGENT_TURN_MS = 1000, AGENT_START_TURN_MS = 20, AGENT_SERIES_MIN = 256 };

/* ---- running */

/* Where the page or /metrics listen. */
static const char *listen_of(const struct agent_plan *p, bool metrics)
{
    if (metrics ? p->o.metrics_socket : p->o.socket)
        return p->o.socket_listen;
    return p->o.listen ? p->o.listen : "127.0.0.1";
}

/* `near`: an address that a browser on this machine can open. */
static void add_address(const struct agent_plan *p, struct agent *a, bool metrics, bool near,
                        struct buf *out)
{
    http_address_url(listen_of(p, metrics), near, p->o.tls_cert, agent_port(a, metrics), out);
}

static void tell_start(struct agent *a, const struct agent_plan *p)
{
    struct buf at = { 0 };

    if (agent_port(a, false) >= 0) {
        add_address(p, a, false, false, &at);
        (void)fprintf(stderr, "stoker agent: page %s/\n", buf_str(&at));
    }
    if (agent_port(a, true) >= 0) {
        buf_reset(&at);
        add_address(p, a, true, false, &at);
        (void)fprintf(stderr, "stoker agent: metrics %s/metrics\n", buf_str(&at));
    }
    if (http_address_any(listen_of(p, false)) || http_address_any(listen_of(p, true)))
        (void)fprintf(stderr, "stoker agent: listens on every address of this machine%s\n",
                      p->o.token ? "" : ", without a token");
    if (p->o.demo)
        (void)fprintf(stderr, "stoker agent: this is a demo: %s\n", AGENT_DEMO_NOTE);
    else if (p->o.replay)
        (void)fprintf(stderr, "stoker agent: replays '%s'\n", p->o.replay);
    buf_release(&at);
}

static void tell_ready(struct agent *a, const struct agent_plan *p, bool quiet)
{
    struct buf text = { 0 };

    buf_adds(&text, "READY=1\nSTATUS=watching");
    if (agent_port(a, false) >= 0) {
        buf_adds(&text, "\nX_STOKER_PAGE=");
        add_address(p, a, false, true, &text);
    }
    if (agent_port(a, true) >= 0) {
        buf_adds(&text, "\nX_STOKER_METRICS=");
        add_address(p, a, true, true, &text);
    }
    notify_send(buf_str(&text));
    buf_release(&text);
    if (!quiet)
        (void)fprintf(stderr, "stoker agent: ready\n");
}

static void reload_plan(struct cmd_ctx *ctx, struct agent *a, struct agent_plan **plan)
{
    struct agent_plan *fresh = NULL;
    struct err err = { 0 };

    notify_reloading();
    if (agent_plan_make(ctx, &(*plan)->sockets, &fresh, &err) || agent_reload(a, &fresh->o, &err)) {
        log_warn("what is watched stays as it was: %s", err.msg);
        agent_plan_free(fresh);
    } else {
        log_info("the spec was read again");
        struct agent_plan *old = *plan;
        fresh->older = old->older ? old->older : old; /* the first: much is borrowed from it */
        if (old->older) {
            old->older = NULL;
            agent_plan_free(old);
        }
        *plan = fresh;
    }
    notify_send("READY=1");
}

/* Secrets are changed by writing their files.  A plan of its own: the agent borrows from the first
 * one. */
static void renew_keys(const struct agent_args *args, struct agent *a, struct agent_plan *first)
{
    struct agent_plan *p = xcalloc(1, sizeof(*p));
    struct err err = { 0 };
    enum rc rc;

    p->spec = first->spec;
    p->o.tls_cert = first->o.tls_cert;
    p->o.tls_key = first->o.tls_key;
    rc = agent_plan_keys(p, args, &err);
    if (rc == RC_OK)
        rc = agent_set_keys(a,
                            &(struct http_keys){ .token = p->o.token,
                                                 .admin = p->o.admin_token,
                                                 .metrics = p->o.metrics_token },
                            p->o.serve_token, &err);
    if (rc == RC_OK)
        log_info("tokens and TLS files were read again");
    else
        log_warn("%s; what was read of tokens and TLS files before stays", err.msg);
    free(p);
}

struct running {
    struct agent *a;
    struct agent_plan **plan;
    int signals, control; /* control -1: none */
};

static void wait_for_end(struct cmd_ctx *ctx, const struct running *r)
{
    const struct agent_args *args = ctx->opts;
    uint64_t dog_us = notify_watchdog_us();
    struct agent_plan *first = *r->plan;
    int turn = dog_us && dog_us / 2000 < AGENT_TURN_MS ? (int)(dog_us / 2000) : AGENT_TURN_MS;
    uint64_t run_ms = first->run_ms;
    bool told = false, ends = args->duration && !run_ms;
    int64_t begun_ms = clock_mono_ms();

    for (;;) {
        struct pollfd p[2] = { { .fd = r->signals, .events = POLLIN },
                               { .fd = r->control, .events = POLLIN } };
        struct signalfd_siginfo si;
        if (!told && agent_ready(r->a)) {
            tell_ready(r->a, *r->plan, args->quiet);
            told = true;
        }
        if (ends && agent_ended(r->a))
            return;
        if (run_ms && (uint64_t)(clock_mono_ms() - begun_ms) >= run_ms)
            return;
        if (cmd_watch_changed(&first->watch))
            renew_keys(args, r->a, first);
        if (dog_us && agent_alive(r->a)) /* a sampling thread that stands still is worth an end */
            notify_send("WATCHDOG=1");
        if (poll(p, 2, !told || args->duration ? AGENT_START_TURN_MS : turn ? turn : 1) <= 0)
            continue;
        if (p[1].revents & POLLIN)
            control_answer(r->control, r->a);
        if (!(p[0].revents & POLLIN) || read(r->signals, &si, sizeof(si)) != (ssize_t)sizeof(si))
            continue;
        if (si.ssi_signo != SIGHUP)
            return;
        reload_plan(ctx, r->a, r->plan);
    }
}

/* Without one the agent runs as well. */
static int open_control(const struct agent_args *a, char path[FILE_PATH_MAX])
{
    struct err err = { 0 };
    int fd = -1;

    if (str_eq(a->control, "none") || control_path(a->control, path, FILE_PATH_MAX, &err) ||
        control_listen(path, &fd, &err)) {
        if (err.msg[0])
            log_warn("no control socket: %s", err.msg);
        return -1;
    }
    return fd;
}

static enum rc run_daemon(struct cmd_ctx *ctx, struct agent_plan **plan, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    struct running r = { .plan = plan, .signals = -1, .control = -1 };
    char path[FILE_PATH_MAX];
    enum rc rc = signals_watch_end(&r.signals, err);

    if (rc == RC_OK)
        rc = agent_start(&(*plan)->o, &r.a, err);
    if (rc == RC_OK) {
        r.control = open_control(args, path);
        if (!args->quiet)
            tell_start(r.a, *plan);
        wait_for_end(ctx, &r);
        notify_send("STOPPING=1");
        if (r.control >= 0)
            (void)unlink(path);
        agent_stop(r.a);
        if (!args->quiet)
            (void)fprintf(stderr, "stoker agent: stopped\n");
    }
    if (r.control >= 0)
        close(r.control);
    if (r.signals >= 0)
        close(r.signals);
    return rc;
}

/* ---- once */

/* Without a driver there is no later second to wait for. */
static bool once_done(const struct agent *a, const struct agent_args *args)
{
    bool waits = args->duration || args->replay || args->demo;

    return agent_ended(a) ||
           (!waits && agent_seconds(a) >= AGENT_ONCE_SECONDS && agent_driver(a) != GPU_CHILD_RUNS);
}

static enum rc run_once(struct cmd_ctx *ctx, struct agent_plan *p, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    struct agent *a = NULL;
    int fd = -1;
    enum rc rc = signals_watch_end(&fd, err);

    if (rc == RC_OK)
        rc = agent_start(&p->o, &a, err);
    while (rc == RC_OK && !once_done(a, args)) {
        struct pollfd w = { .fd = fd, .events = POLLIN };
        if (poll(&w, 1, AGENT_START_TURN_MS) == 1)
            rc = err_set(err, RC_FAIL, "ended by a signal");
    }
    if (rc == RC_OK && args->json)
        agent_values(a, &ctx->out);
    else if (rc == RC_OK)
        agent_metrics(a, &ctx->out);
    agent_stop(a);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- rules */

/* A site whose own Prometheus wakes people gives it this file. */
static void print_rules(const struct agent_plan *p, struct buf *out)
{
    alert_prom_write(p->o.rules, p->o.rule_count,
                     p->o.prom_export.names == PROM_EXPORT_NEW ? PROM_EXPORT_NEW : PROM_EXPORT_OLD,
                     out);
}

/* ---- words to a running one */

static enum rc write_bundle(const char *path, const struct buf *tar, struct err *err)
{
    struct file_new f;
    enum rc rc = file_new_open_mode(&f, path, FILE_MODE_GROUP, err);

    if (rc != RC_OK)
        return rc;
    rc = file_write(f.fd, path, buf_str(tar), tar->len, err);
    return file_new_close(&f, rc, err);
}

static enum rc say_bundle(struct cmd_ctx *ctx, const char *socket, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    const char *path = ctx->argc > 1 ? ctx->argv[1] : "stoker-bundle.tar";
    struct buf tar = { 0 };
    uint64_t ms = AGENT_BUNDLE_MS_DEFAULT;
    char line[64], size[UNITS_TEXT_MAX];

    if (args->last && units_duration_parse(args->last, &ms, err))
        return err_ctx(err, "--last");
    (void)snprintf(line, sizeof(line), "bundle %llu", (unsigned long long)ms);
    enum rc rc = control_ask(socket, line, &tar, err);
    if (rc == RC_OK)
        rc = write_bundle(path, &tar, err);
    if (rc == RC_OK)
        buf_addf(&ctx->out, "%s: %s\n", path, units_bytes_human(tar.len, size));
    buf_release(&tar);
    return rc;
}

static void text_line(struct buf *out, const char *name, const char *value)
{
    if (value)
        buf_addf(out, "%-10s %s\n", name, value);
}

static void status_text(const struct json *d, struct buf *out)
{
    const struct json *history = json_get(d, "history"), *driver = json_get(d, "driver");
    const char *why = json_str(json_get(history, "why")),
               *gpu_why = json_str(json_get(driver, "why"));

    text_line(out, "host", json_str(json_get(d, "host")));
    if (maybe_is(json_bool(json_get(d, "demo")), 1))
        text_line(out, "demo", AGENT_DEMO_NOTE);
    text_line(out, "sampling", maybe_is(json_bool(json_get(d, "alive")), 1) ? "yes" : "no");
    buf_addf(out, "%-10s %.0f s\n", "up", json_num(json_get(d, "uptime_s"), 0));
    buf_addf(out, "%-10s %lld\n", "series",
             (long long)maybe_or(json_int(json_get(d, "series")), 0));
    buf_addf(out, "%-10s %s%s%s\n", "driver", json_str(json_get(driver, "state")),
             gpu_why ? ": " : "", gpu_why ? gpu_why : "");
    if (maybe_is(json_bool(json_get(history, "kept")), 1))
        text_line(out, "history", json_str(json_get(history, "file")));
    else
        text_line(out, "history", why ? why : "none");
    for (const struct json *s = json_first(json_get(d, "sources")); s; s = s->next)
        if (maybe_is(json_bool(json_get(s, "hangs")), 1))
            text_line(out, "hangs", json_str(json_get(s, "name")));
}

static enum rc say_status(struct cmd_ctx *ctx, const char *socket, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    struct buf said = { 0 };
    struct arena a = { 0 };
    struct json *d;
    enum rc rc = control_ask(socket, "status", &said, err);

    if (rc == RC_OK && args->json)
        buf_add(&ctx->out, buf_str(&said), said.len);
    else if (rc == RC_OK && (rc = json_parse(&a, buf_str(&said), said.len, &d, err)) == RC_OK)
        status_text(d, &ctx->out);
    arena_release(&a);
    buf_release(&said);
    return rc;
}

/* "silence NAME [LABEL=VALUE…]", "ack NAME [LABEL=VALUE…]" */
static enum rc say_silence(struct cmd_ctx *ctx, const char *socket, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    bool ack = str_eq(ctx->argv[0], "ack");
    const char *user = getenv("USER");
    struct buf line = { 0 }, said = { 0 };
    struct json_out w;
    enum rc rc = RC_OK;

    if (ctx->argc < 2)
        return err_set(err, RC_USAGE, "'stoker agent %s' needs the name of an alert", ctx->argv[0]);
    buf_adds(&line, "silence ");
    json_out_init(&w, &line, 0);
    json_obj(&w);
    json_kv_str(&w, "alert", ctx->argv[1]);
    json_kv_bool(&w, "acknowledge", ack);
    json_kv_bool(&w, "force", args->force);
    if (!ack)
        json_kv_str(&w, "for", args->silence_for ? args->silence_for : "2h");
    json_kv_str(&w, "by", args->by ? args->by : user ? user : "");
    json_kv_str(&w, "comment", args->comment ? args->comment : "");
    json_kv_obj(&w, "labels");
    for (int i = 2; i < ctx->argc && rc == RC_OK; i++) {
        char *equals = strchr(ctx->argv[i], '=');

        if (!equals || equals == ctx->argv[i]) {
            rc = err_set(err, RC_USAGE, "'%s' is not LABEL=VALUE", ctx->argv[i]);
            break;
        }
        *equals = '\0';
        json_kv_str(&w, ctx->argv[i], equals + 1);
    }
    json_obj_end(&w);
    json_obj_end(&w);
    if (rc == RC_OK)
        rc = control_ask(socket, buf_str(&line), &said, err);
    if (rc == RC_OK)
        buf_addf(&ctx->out, "%s %s", ack ? "acknowledgement" : "silence", buf_str(&said));
    buf_release(&line);
    buf_release(&said);
    return rc;
}

/* Control characters as escapes: a line of what others wrote stays one. */
static void add_plain(struct buf *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            buf_adds(out, "\\n");
        else if ((unsigned char)*text < ' ' || *text == 0x7f)
            buf_addf(out, "\\x%02x", (unsigned char)*text);
        else
            buf_addc(out, *text);
}

static void silence_text(const struct json *s, struct buf *out)
{
    const char *by = json_str(json_get(s, "by")), *comment = json_str(json_get(s, "comment"));
    const struct json *labels = json_get(s, "labels");
    int64_t until = maybe_or(json_int(json_get(s, "until_ms")), 0) / 1000;
    char when[32] = "it is over";
    struct tm tm;
    time_t t = (time_t)until;

    if (until && gmtime_r(&t, &tm))
        (void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
    buf_addf(out, "%-4lld %-12s ", (long long)maybe_or(json_int(json_get(s, "id")), 0),
             maybe_is(json_bool(json_get(s, "acknowledge")), 1) ? "acknowledged" : "silenced");
    add_plain(out, json_str(json_get(s, "alert")) ? json_str(json_get(s, "alert")) : "");
    for (const struct json *l = json_first(labels); l; l = l->next) {
        buf_addc(out, ' ');
        add_plain(out, l->key);
        buf_addc(out, '=');
        add_plain(out, json_str(l) ? json_str(l) : "");
    }
    buf_addf(out, " until %s%s", when, by ? ", by " : "");
    add_plain(out, by ? by : "");
    buf_adds(out, comment ? ": " : "");
    add_plain(out, comment ? comment : "");
    buf_addc(out, '\n');
}

/* "silences", "unsilence ID" */
static enum rc say_silences(struct cmd_ctx *ctx, const char *socket, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    bool end = str_eq(ctx->argv[0], "unsilence");
    struct buf said = { 0 };
    struct arena a = { 0 };
    struct json *d = NULL;
    char line[64];
    uint64_t id = 0;
    enum rc rc;

    if (end != (ctx->argc > 1) || (end && !str_to_u64(ctx->argv[1], 10, &id)))
        return err_set(err, RC_USAGE,
                       end ? "'stoker agent unsilence' needs the number of one"
                           : "'stoker agent silences' has no operand");
    (void)snprintf(line, sizeof(line), end ? "unsilence %llu" : "silences", (unsigned long long)id);
    rc = control_ask(socket, line, &said, err);
    if (rc == RC_OK && !end && args->json)
        buf_add(&ctx->out, buf_str(&said), said.len);
    else if (rc == RC_OK && !end &&
             (rc = json_parse(&a, buf_str(&said), said.len, &d, err)) == RC_OK)
        for (const struct json *s = json_first(json_get(d, "silences")); s; s = s->next)
            silence_text(s, &ctx->out);
    arena_release(&a);
    buf_release(&said);
    return rc;
}

static enum rc say_word(struct cmd_ctx *ctx, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    const char *word = ctx->argv[0];
    char path[FILE_PATH_MAX];
    struct buf none = { 0 };
    enum rc rc = control_path(args->control, path, sizeof(path), err);

    if (rc != RC_OK)
        return rc;
    if (str_eq(word, "silence") || str_eq(word, "ack"))
        return say_silence(ctx, path, err);
    if (str_eq(word, "unsilence") || str_eq(word, "silences"))
        return say_silences(ctx, path, err);
    if (ctx->argc > 1 && !str_eq(word, "bundle"))
        return err_set(err, RC_USAGE, "'stoker agent %s' has no use for operand '%s'", word,
                       ctx->argv[1]);
    if (str_eq(word, "bundle"))
        return say_bundle(ctx, path, err);
    if (str_eq(word, "status"))
        return say_status(ctx, path, err);
    if (!str_eq(word, "release") && !str_eq(word, "attach")) {
        err_hint(err, "It knows release, attach, bundle, status, silence, ack, unsilence and "
                      "silences.");
        return err_set(err, RC_USAGE, "unknown command '%s' for the agent", word);
    }
    rc = control_ask(path, word, &none, err);
    if (rc == RC_OK)
        buf_addf(&ctx->out, "the driver is %s\n",
                 str_eq(word, "release") ? "released" : "attached");
    buf_release(&none);
    return rc;
}

/* ---- the command */

static enum rc run_agent(struct cmd_ctx *ctx, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    struct agent_plan *p = NULL;
    struct listen_fds sockets;
    enum rc rc;

    if (args->gpu_child || args->gpu_sample)
        return agent_run_driver(ctx, err);
    if (ctx->argc)
        return say_word(ctx, err);
    if (args->json && !args->once)
        return err_set(err, RC_USAGE, "--json is for --once, status and --gpu-sample");
    if (args->print_rules && (args->once || args->replay || args->demo || args->record))
        return err_set(err, RC_USAGE,
                       "--print-rules watches nothing: it takes -f and --metric-names");
    rc = listen_fds_take(&sockets, err);
    if (rc == RC_OK)
        rc = agent_plan_make(ctx, args->once || args->print_rules ? NULL : &sockets, &p, err);
    if (rc == RC_OK && args->print_rules)
        print_rules(p, &ctx->out);
    else if (rc == RC_OK)
        rc = args->once ? run_once(ctx, p, err) : run_daemon(ctx, &p, err);
    agent_plan_free(p);
    return rc;
}

#define OPT_STRUCT struct agent_args
static const struct opt opts_agent[] = {
    OPT('f', "file", STR, spec, "SPEC", "sources, alerts and limits of a spec"),
    OPT(0, "listen", STR, listen, "ADDRESS", "listen there (default: 127.0.0.1)"),
    OPT(0, "port", STR, port, "N", "page and API (default: 8090; 0: a free one; none: none)"),
    OPT(0, "metrics-port", STR, metrics_port, "N",
        "/metrics for Prometheus (default: 9400; 0: a free one; none: none)"),
    OPT(0, "free-port", FLAG, free_port, NULL, "take a free port where one is taken"),
    OPT(0, "token-file", STR, token_file, "FILE", "ask clients for this bearer token"),
    OPT(0, "metrics-token-file", STR, metrics_token_file, "FILE",
        "this bearer token may read /metrics"),
    OPT(0, "admin-token-file", STR, admin_token_file, "FILE",
        "this bearer token may silence and acknowledge alerts"),
    OPT(0, "allow-origin", STRS, origins, "ORIGIN",
        "web pages from there may ask, such as https://host:8443; *: from anywhere; may be "
        "repeated"),
    OPT(0, "allow-host", STRS, hosts, "NAME",
        "a further name of this machine in URLs, for loopback without a token; may be repeated"),
    OPT(0, "open-metrics", FLAG, open_metrics, NULL, "/metrics needs no token"),
    OPT(0, "insecure", FLAG, insecure, NULL, "listen beyond this machine without a token"),
    OPT(0, "tls-cert", STR, tls_cert, "FILE", "certificate chain, PEM"),
    OPT(0, "tls-key", STR, tls_key, "FILE", "its private key, PEM"),
    OPT(0, "interval", STR, interval, "TIME", "between samples (default: 1s)"),
    OPT(0, "history", STR, history, "FILE",
        "keep history there (default: history.ring of the state folder)"),
    OPT(0, "history-size", STR, history_size, "SIZE",
        "of that file (default: " SPEC_HISTORY_DEFAULT ")"),
    OPT(0, "no-history", FLAG, no_history, NULL, "keep none"),
    OPT(0, "record", STR, record, "FILE", "write what is shown to a recording, a new file"),
    OPT(0, "replay", STR, replay, "FILE", "show a recording instead of this machine"),
    OPT(0, "demo", FLAG, demo, NULL, "show eight GPUs of a story instead of this machine"),
    OPT(0, "speed", STR, speed, "N|max", "of a replay (default: 1)"),
    OPT(0, "loop", FLAG, loop, NULL, "begin a replay again when it is over"),
    OPT_NUMBER(0, "samples", samples, 1, AGENT_SAMPLES_MAX,
               "stop a replay after so many; what it showed stays"),
    OPT(0, "duration", STR, duration, "TIME",
        "end after so long, whatever is shown; with --once: of what is shown"),
    OPT_CHOICE(0, "metric-names", STR, names, "WHICH", "old|new|both",
               "DCGM's names before 4.6, since then, or both (default: old)"),
    OPT(0, "lower-hostname", FLAG, lower_hostname, NULL,
        "label hostname instead of Hostname, as newer exporters have it"),
    OPT_NUMBER(0, "series-max", series_max, AGENT_SERIES_MIN, TELEMETRY_SERIES_MAX,
               "series kept (default: 8192)"),
    OPT(0, "metrics-file", STR, metrics_file, "FILE",
        "/metrics has these alone: ids, names or kinds with * and ?, one a line, or DCGM's CSV"),
    OPT(0, "scrape", STRS, scrape, "URL", "an application's Prometheus text; may be repeated"),
    OPT(0, "serve", STR, serve, "URL", "our model server, for its figures"),
    OPT(0, "serve-token-file", STR, serve_token_file, "FILE",
        "the token that may read them (default: this agent's own)"),
    OPT(0, "public-url", STR, public_url, "URL",
        "address of the page for links in alerts (default: the machine's name and port, where "
        "others can reach them)"),
    OPT(0, "dcgm", STR, dcgm, "URL", "DCGM's exporter, for what the driver does not tell"),
    OPT(0, "peer", STRS, peers, "URL",
        "another agent, for the fleet view, or many: http://gpu[1-64]:8090; may be repeated"),
    OPT(0, "ca-file", STR, ca_file, "FILE",
        "who signed the certificates of what it asks and posts to by https, PEM"),
    OPT(0, "no-verify", FLAG, no_verify, NULL, "do not check those certificates"),
    OPT(0, "no-gpu", FLAG, no_gpu, NULL, "leave the driver alone"),
    OPT(0, "root", STR, root, "DIR|TAR", "read the files of a captured machine"),
    OPT(0, "control", STR, control, "SOCKET", "the socket of release, attach, bundle and status"),
    OPT(0, "for", STR, silence_for, "TIME", "of silence: how long (default: 2h)"),
    OPT(0, "by", STR, by, "NAME", "of silence and ack: who (default: $USER)"),
    OPT(0, "comment", STR, comment, "TEXT", "of silence and ack: why"),
    OPT(0, "force", FLAG, force, NULL,
        "of silence and ack: of a rule or label that is not known here, too; of --record: write "
        "over a recording"),
    OPT(0, "last", STR, last, "TIME", "of bundle: how far back (default: 15m)"),
    OPT(0, "once", FLAG, once, NULL, "print the values of one moment as /metrics does, and end"),
    OPT(0, "print-rules", FLAG, print_rules, NULL,
        "print the alerts as a rules file for Prometheus, and end"),
    OPT(0, "json", FLAG, json, NULL, "of --once, status and --gpu-sample: JSON"),
    OPT(0, "quiet", FLAG, quiet, NULL, "no lines on standard error but warnings"),
    { .name = "gpu-child",
      .kind = OPT_INT,
      .off = offsetof(OPT_STRUCT, gpu_child),
      .arg = "FD",
      .min = 1,
      .max = INT32_MAX,
      .help = "how the agent starts its collector; not for people" },
    OPT(0, "gpu-sample", FLAG, gpu_sample, NULL,
        "print what each call of the driver costs in a sample, and end"),
    OPT(0, "gpu-library", STR, gpu_library, "FILE", "the driver's library"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker agent", "page on 127.0.0.1:8090, metrics on :9400" },
    { "stoker agent --demo", "eight GPUs without having one" },
    { "stoker agent --once --json", "everything it measures, once" },
    { "stoker agent --record node.rec --duration 10m", "ten minutes to look at elsewhere" },
    { "stoker agent --replay node.rec --speed 10", "what another agent recorded" },
    { "stoker agent --print-rules -f cluster.yaml", "the same alerts, for Prometheus to evaluate" },
    { "stoker agent release", "let go of the driver before a reset or an upgrade" },
    { "stoker agent silence GpuTemperatureHigh gpu=3 --for 4h --comment 'fan is ordered'",
      "one alert of one GPU, told to nobody for a while" },
    { "stoker agent bundle", "the last 15 minutes in one tar" },
    { 0 },
};

const struct cmd cmd_agent = {
    .name = "agent",
    .summary = "watch this node: metrics, history, alerts, a page",
    .operands = "[release|attach|bundle [FILE]|status|silence|ack|unsilence|silences …]",
    .args_max = 8,
    .opts = opts_agent,
    .opts_size = sizeof(struct agent_args),
    .arg_choices = "release|attach|bundle|status|silence|ack|unsilence|silences",
    .about =
        "Samples GPUs, CPUs, memory, disks, networks, RDMA ports, file systems, the kernel's log "
        "and applications once a second. /metrics on :9400 has the names of DCGM's exporter and of "
        "node_exporter; a page and a JSON API are on :8090.\n"
        "\n"
        "A second is in the history file, synced, before anybody is shown it, so what was seen "
        "survives kill -9. When the disk is full the agent goes on without history, says so and "
        "tries again.\n"
        "\n"
        "Only a child process speaks with the driver. When a call hangs, the rest goes on and the "
        "call is named. 'stoker agent release' lets go of the driver, 'attach' takes it again, "
        "'bundle' writes the last minutes into one tar, 'status' says how it is.\n"
        "\n"
        "'silence NAME [LABEL=VALUE…]' keeps an alert from receivers for a time (--for), 'ack' "
        "says that somebody looks after it until it is over, 'silences' lists both, 'unsilence ID' "
        "ends one. NAME may have * and ?. They survive a restart.\n"
        "\n"
        "SIGHUP reads the spec again: alerts, where they go, applications and names of metrics "
        "change at once, the rest with the next start. SIGTERM and SIGINT end it.\n"
        "\n"
        "Files of tokens, certificate and key are read again when they change.\n"
        "\n"
        "Beyond loopback it wants a token (--token-file) unless --insecure is given; /health never "
        "needs one.",
    .examples = examples,
    .run = run_agent,
};

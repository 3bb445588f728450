/* SPDX-License-Identifier: MIT */
/* stoker serve: the model server, from options and the spec. */
#include "cmd/serve/cmd_serve_int.h"

#include "base/log.h"
#include "base/str.h"
#include "engine/worker/worker.h"
#include "os/clock.h"
#include "os/net/notify.h"
#include "os/signals.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SERVE_THREADS_MAX = 1024,
    SERVE_TURN_MS = 1000,      /* between two looks at the watchdog */
    SERVE_LOAD_TURN_MS = 20,   /* while models load */
    SERVE_SECOND_MS = 50,      /* between two looks whether the drain is over */
    SERVE_HEAP_BYTES = 1 << 20 /* blocks of so much go back to the machine when they are freed */
};

/* ---- running */

static void tell_start(const struct serve *s, const struct serve_plan *p,
                       const struct serve_args *a)
{
    struct buf at = { 0 }, curl = { 0 };
    bool local = p->o.listen && str_starts(p->o.listen, "unix:");

    for (size_t i = 0; !local && i < p->o.port_count; i++)
        if (p->o.ports[i] && serve_port(s, i) != p->o.ports[i])
            (void)fprintf(stderr, "stoker serve: port %d is taken, %d is used instead\n",
                          p->o.ports[i], serve_port(s, i));
    serve_address(p, serve_port(s, 0), &at);
    serve_curl(p, a, serve_port(s, 0), &curl);
    (void)fprintf(stderr, "stoker serve: %s", local ? p->o.listen : buf_str(&at));
    if (p->o.port_count > 1 && !local && serve_port(s, 1))
        (void)fprintf(stderr, " and :%d", serve_port(s, 1));
    if (p->o.listen && http_address_any(p->o.listen))
        (void)fprintf(stderr, " on every address");
    (void)fprintf(stderr, ", %zu model%s\ntry: %s\n", p->o.model_count,
                  p->o.model_count == 1 ? "" : "s", buf_str(&curl));
    buf_release(&at);
    buf_release(&curl);
}

/* `first` is what the server was started with, *plan what its models come from now. */
static void reload_models(struct cmd_ctx *ctx, struct serve *s, const struct serve_plan *first,
                          struct serve_plan **plan)
{
    struct err err = { 0 };
    struct serve_plan *fresh = NULL;

    notify_reloading();
    enum rc rc = serve_plan_make(ctx, first->o.workers, &first->sockets, false, &fresh, &err);
    struct buf late = { 0 };
    if (rc == RC_OK)
        serve_plan_needs_start(first, fresh, &late);
    if (late.len)
        log_warn("%s of the spec have changed: they count from the next start on", buf_str(&late));
    buf_release(&late);
    if (rc == RC_OK)
        rc = serve_reload(s, fresh->models, fresh->o.model_count, &err);
    if (rc != RC_OK) {
        log_warn("what is served stays as it was: %s", err.msg);
        if (fresh)
            serve_plan_free(fresh);
    } else {
        log_info("models were read again");
        if (*plan != first)
            serve_plan_free(*plan);
        *plan = fresh;
    }
    notify_send("READY=1");
}

/* Secrets are changed by writing their files. */
static void renew_keys(const struct serve_args *a, struct serve *s, struct serve_plan *p)
{
    struct err err = { 0 };
    enum rc rc = serve_plan_keys(p, a, &err);

    if (rc == RC_OK)
        rc = serve_set_keys(s, &p->o.keys, &err);
    if (rc == RC_OK)
        log_info("tokens and TLS files were read again");
    else
        log_warn("%s; what was read of tokens and TLS files before stays", err.msg);
}

/* Of each model the type it computes in, and what that costs. */
static void tell_models(const struct serve *s, const struct serve_plan *p)
{
    struct buf line = { 0 };

    for (size_t i = 0; i < p->o.model_count; i++) {
        buf_reset(&line);
        if (serve_describe(s, p->models[i].name, &line))
            (void)fprintf(stderr, "stoker serve: model '%s': %s\n", p->models[i].name,
                          buf_str(&line));
    }
    buf_release(&line);
}

/* `stoker up` shows the rest. */
static void tell_ready(const struct serve *s, const struct serve_plan *p,
                       const struct serve_args *a)
{
    struct buf text = { 0 };

    buf_adds(&text, "READY=1\nSTATUS=serving\nX_STOKER_URL=");
    serve_address(p, serve_port(s, 0), &text);
    buf_adds(&text, "\nX_STOKER_TRY=");
    serve_curl(p, a, serve_port(s, 0), &text);
    buf_adds(&text, "\nX_STOKER_MODELS=");
    for (size_t i = 0; i < p->o.model_count; i++)
        buf_addf(&text, "%s%s", i ? ", " : "", p->models[i].name);
    notify_send(buf_str(&text));
    buf_release(&text);
    if (!a->quiet) {
        tell_models(s, p);
        (void)fprintf(stderr, "stoker serve: ready\n");
    }
}

/* Until a signal ends it, a model cannot be loaded at first, or --try has its reply. */
static enum rc wait_for_end(struct cmd_ctx *ctx, struct serve *s, struct serve_plan *first, int fd,
                            struct err *err)
{
    const struct serve_args *a = ctx->opts;
    uint64_t dog_us = notify_watchdog_us();
    int turn = dog_us && dog_us / 2000 < SERVE_TURN_MS ? (int)(dog_us / 2000) : SERVE_TURN_MS;
    struct serve_plan *plan = first;
    enum rc rc = RC_OK;

    for (bool told = false;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        struct signalfd_siginfo si;
        if (!told && (rc = serve_check(s, err)) != RC_OK)
            break;
        if (!told && serve_ready(s)) {
            tell_ready(s, plan, a);
            told = true;
            if (a->try_it) {
                rc = serve_try(s, plan, err);
                break;
            }
        }
        if (dog_us)
            notify_send("WATCHDOG=1");
        if (cmd_watch_changed(&first->watch))
            renew_keys(a, s, first);
        if (poll(&p, 1, told ? (turn ? turn : 1) : SERVE_LOAD_TURN_MS) <= 0)
            continue;
        if (read(fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
            continue;
        if (si.ssi_signo != SIGHUP)
            break;
        reload_models(ctx, s, first, &plan);
    }
    if (plan != first)
        serve_plan_free(plan);
    return rc;
}

/* While serve_stop() waits: a second signal ends that. */
struct second {
    struct serve *s;
    int fd;
    _Atomic bool over;
};

static void *watch_second(void *arg)
{
    struct second *w = arg;

    while (!atomic_load(&w->over)) {
        struct pollfd p = { .fd = w->fd, .events = POLLIN };
        struct signalfd_siginfo si;
        if (poll(&p, 1, SERVE_SECOND_MS) == 1 && read(w->fd, &si, sizeof(si)) == sizeof(si) &&
            si.ssi_signo != SIGHUP) {
            serve_hurry(w->s);
            break;
        }
    }
    return NULL;
}

/* Returns how many requests were cut off. */
static size_t drain_server(struct serve *s, int fd)
{
    struct second w = { .s = s, .fd = fd };
    pthread_t thread;
    size_t cut = 0;
    bool on = pthread_create(&thread, NULL, watch_second, &w) == 0;

    serve_stop(s, &cut);
    atomic_store(&w.over, true);
    if (on)
        (void)pthread_join(thread, NULL);
    return cut;
}

static enum rc stop_server(struct serve *s, int fd, enum rc rc, bool quiet, struct err *err)
{
    size_t cut;

    notify_send("STOPPING=1");
    if (!quiet)
        (void)fprintf(stderr, "stoker serve: stopping, requests under way are answered first\n");
    cut = drain_server(s, fd);
    if (cut && rc == RC_OK)
        rc = err_set(err, RC_TIMEOUT, "%zu %s cut off by the drain limit", cut,
                     cut == 1 ? "request was" : "requests were");
    if (!quiet && rc == RC_OK)
        (void)fprintf(stderr, "stoker serve: stopped\n");
    return rc;
}

static enum rc run_server(struct cmd_ctx *ctx, struct serve_plan *p, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct serve *s = NULL;
    int fd = -1;
    enum rc rc = signals_watch_end(&fd, err);

    /* By itself malloc raises that limit to the largest block it saw freed, up to 32 MiB: one large
     * request would make all later ones be cut from heaps, which never shrink for what still lives
     * above. */
    (void)mallopt(M_MMAP_THRESHOLD, SERVE_HEAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, SERVE_HEAP_BYTES);
    if (rc == RC_OK)
        rc = serve_start(&p->o, &s, err);
    if (rc == RC_OK && !a->quiet)
        tell_start(s, p, a);
    if (rc == RC_OK) {
        rc = wait_for_end(ctx, s, p, fd, err);
        rc = stop_server(s, fd, rc, a->quiet, err);
    }
    serve_free(s);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void say_worker(void *arg, const char *line)
{
    (void)arg;
    log_warn("%s", line);
}

static enum rc run_plan(struct cmd_ctx *ctx, struct workers *w, const struct listen_fds *sockets,
                        struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct serve_plan *p = NULL;
    enum rc rc = serve_plan_make(ctx, w, sockets, true, &p, err);

    if (rc != RC_OK)
        return rc;
    if (a->json && !a->explain)
        rc = err_set(err, RC_USAGE, "--json is for --explain");
    else
        rc = a->explain ? serve_explain(ctx, p, err) : run_server(ctx, p, err);
    serve_plan_free(p);
    return rc;
}

static enum rc run_serve(struct cmd_ctx *ctx, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct listen_fds sockets;
    struct workers *w = NULL;
    int ms = 0;

    if (a->worker)
        _exit(worker_main((int)a->worker));
    enum rc rc = listen_fds_take(&sockets, err); /* before a child could have them */
    if (rc == RC_OK)
        rc = serve_plan_device_ms(a, &ms, err);
    if (rc == RC_OK) /* whatever a driver does, it does it in one of these: also for the plan */
        rc = workers_new(&(struct workers_opts){ .say = say_worker, .batch_ms = ms }, &w, err);
    if (rc == RC_OK)
        rc = run_plan(ctx, w, &sockets, err);
    workers_free(w);
    return rc;
}

#define OPT_STRUCT struct serve_args
static const struct opt opts_serve[] = {
    OPT('m', "model", STRS, models, "[NAME=]MODEL",
        "serve this folder, a fetched model of this name, or ORG/NAME of the Hub; may be repeated"),
    OPT('f', "file", STR, spec, "SPEC", "models, pools and limits of a spec"),
    OPT(0, "listen", STR, listen, "ADDRESS",
        "listen there: a number such as ::1, or unix:PATH (default: 127.0.0.1)"),
    OPT(0, "port", STR, port, "N",
        "every API, on this port alone (default: 8003, and 8002; 0: a free one)"),
    OPT(0, "free-port", FLAG, free_port, NULL, "take a free port where one is taken, and say so"),
    OPT(0, "rerank-port", STR, rerank_port, "N",
        "the same routes once more (default: 8002 unless --port is given; 0: a free one)"),
    OPT(0, "token-file", STR, token_file, "FILE", "ask clients for this bearer token"),
    OPT(0, "admin-token-file", STR, admin_token_file, "FILE",
        "this bearer token may load and unload models"),
    OPT(0, "admin-socket", STR, admin_socket, "PATH", "who may open this socket file may, too"),
    OPT(0, "metrics-token-file", STR, metrics_token_file, "FILE",
        "this bearer token may read /metrics"),
    OPT(0, "allow-origin", STRS, origins, "ORIGIN",
        "web pages from there may ask, such as https://host:8443; *: from anywhere; may be "
        "repeated"),
    OPT(0, "allow-host", STRS, hosts, "NAME",
        "a further name of this machine in URLs, for loopback without a token; may be repeated"),
    OPT(0, "insecure", FLAG, insecure, NULL, "listen beyond this machine without a token"),
    OPT(0, "tls-cert", STR, tls_cert, "FILE", "certificate chain, PEM"),
    OPT(0, "tls-key", STR, tls_key, "FILE", "its private key, PEM"),
    OPT_CHOICE(0, "dtype", STR, dtype, "TYPE", "auto|f32|bf16|int8|f16|fp8",
               "type of weights and products (default: by device and model)"),
    OPT(0, "device", STR, device, "NAME",
        "run models there: cpu, ref, or a plug-in's such as cuda:0,cuda:1"),
    OPT(0, "fallback", STR, fallback, "NAME",
        "compute there while that device fails (default: cpu behind others); none: nowhere"),
    OPT(0, "fallback-at-start", FLAG, fallback_at_start, NULL,
        "load the fallback at once, not when it is needed first"),
    OPT(0, "invariant", FLAG, invariant, NULL,
        "the same bits for a text whatever shares its batch, on a GPU at a cost"),
    OPT(0, "device-timeout", STR, device_timeout, "TIME",
        "a plug-in's device that has not answered a batch for so long is lost (default: 30s)"),
    OPT_NUMBER(0, "threads", threads, 1, SERVE_THREADS_MAX, "threads of the CPU (default: all)"),
    OPT_NUMBER(0, "batch-tokens", batch_tokens, 1, 1 << 20,
               "tokens a batch (default: by device and model)"),
    OPT(0, "on-demand", STRS, on_demand, "NAME",
        "load this model when it is asked for first, *: every model; may be repeated"),
    OPT(0, "pool", STRS, pools, "[NAME=]SIZE",
        "models may take that much memory; without a NAME those that name no pool (default: what "
        "the machine has available); may be repeated"),
    OPT(0, "cache", STR, cache, "SIZE", "keep that much of computed vectors (default: none)"),
    OPT(0, "batch-time", STR, batch_time, "TIME",
        "of a batch, and so the longest wait for one (default: 50ms)"),
    OPT(0, "batch-dir", STR, batch_dir, "DIR",
        "keep files and batches (/v1/files, /v1/batches) there (default: there are none)"),
    OPT(0, "batch-size", STR, batch_size, "SIZE", "of all files there (default: 20GiB)"),
    OPT(0, "batch-expiry", STR, batch_expiry, "TIME",
        "until a file or a batch there is removed (default: 30d)"),
    OPT(0, "timeout", STR, timeout, "TIME", "of a request that names none (default: 30s)"),
    OPT(0, "timeout-max", STR, timeout_max, "TIME",
        "that a request may name by x-request-timeout (default: 10m)"),
    OPT(0, "drain", STR, drain, "TIME", "for running requests when stopped (default: 30s)"),
    OPT(0, "head-timeout", STR, head_timeout, "TIME", "for a request's head (default: 10s)"),
    OPT(0, "body-timeout", STR, body_timeout, "TIME", "between parts of its body (default: 30s)"),
    OPT(0, "body-total-timeout", STR, body_total, "TIME", "for its whole body (default: 5m)"),
    OPT_NUMBER(0, "items-max", items, 1, 1000000, "inputs a call (default: 2048)"),
    OPT(0, "body-max", STR, body, "SIZE", "of a request (default: 32MiB)"),
    OPT(0, "text-max", STR, text_max, "SIZE",
        "of one text (default: 256 bytes a token of the model, 1MiB at least)"),
    OPT(0, "calls-max", STR, calls_max, "SIZE",
        "of memory for unpacked bodies, numbers and replies of all calls (default: 4GiB)"),
    OPT_NUMBER(0, "connections-max", connections, 1, 1000000,
               "open connections (default: 10000, or what the machine can hold)"),
    OPT_NUMBER(0, "front-threads", frontend_threads, 1, SERVE_FRONTEND_THREADS_MAX,
               "threads that tokenise and write (default: one a CPU, 2 to 8)"),
    OPT(0, "access-log", STR, access_log, "FILE", "a JSON line a request; - is standard output"),
    OPT(0, "any-model", FLAG, any_model, NULL,
        "a name that no model has is the first model's that can do it; with one model it always "
        "is"),
    OPT(0, "no-te-metrics", FLAG, no_te_metrics, NULL,
        "no figures under the names of Text Embeddings Inference (te_…)"),
    OPT(0, "explain", FLAG, explain, NULL,
        "print every setting, its value, where it comes from and why; serve nothing"),
    OPT(0, "json", FLAG, json, NULL, "the same as JSON"),
    OPT(0, "try", FLAG, try_it, NULL, "answer one request of its own, print the reply and stop"),
    OPT(0, "quiet", FLAG, quiet, NULL, "no lines on standard error but errors"),
    { .name = "worker",
      .kind = OPT_INT,
      .off = offsetof(OPT_STRUCT, worker),
      .arg = "FD",
      .min = 1,
      .max = INT32_MAX,
      .help = "how the server starts the process of a device; not for people" },
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker serve -m minilm=DIR", "every API for one model on 127.0.0.1:8003" },
    { "stoker serve -m e5=DIR -m reranker=DIR2 --token-file token --listen 0.0.0.0",
      "two models, for other machines" },
    { "stoker serve -f stoker.yaml", "what the spec says" },
    { "stoker serve -f stoker.yaml --explain", "with which settings, and why" },
    { 0 },
};

const struct cmd cmd_serve = {
    .name = "serve",
    .summary = "serve embeddings and reranking over HTTP",
    .opts = opts_serve,
    .opts_size = sizeof(struct serve_args),
    .about = "Loads models and answers on 127.0.0.1:8003 and :8002 in the APIs of Text Embeddings "
             "Inference, OpenAI, Cohere, Jina, vLLM and llama.cpp; 'model' in a request chooses "
             "the model by name or alias. A page to try every route is at /, the routes are "
             "described at /openapi.json, figures for Prometheus are at /metrics.\n"
             "\n"
             "SIGHUP reads the spec again and loads, swaps and unloads what changed without a "
             "failed request. SIGTERM and SIGINT stop it: requests that were accepted are "
             "answered first, within --drain, and the exit status is 0; a second signal cuts them "
             "off.\n"
             "\n"
             "Settings come from the table data/serve.csv by device and model, then from the spec, "
             "then from options, for every model; --explain prints them with their reasons. When "
             "a plug-in's device fails, batches run on the fallback, and replies say so in the "
             "field x-stoker-device. Such a device runs in a process of its own, which is started "
             "again when it dies or hangs.\n"
             "\n"
             "Beyond loopback it wants a token (--token-file) unless --insecure is given. Models "
             "are loaded and unloaded by those alone who have the admin's token or may open its "
             "socket file, on loopback too. Web pages of other origins may not ask unless "
             "--allow-origin names them. Files with tokens and certificates are read again when "
             "they change.",
    .examples = examples,
    .run = run_serve,
};

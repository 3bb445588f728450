/* SPDX-License-Identifier: MIT */
/* stoker serve: the model server, from options and the spec. */
#include "serve/serve.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/notify.h"
#include "spec/spec.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SERVE_PORT = 8003,
    SERVE_PORT_RERANK = 8002,
    SERVE_TOKEN_BYTES_MAX = 4096, /* of a token file */
    SERVE_THREADS_MAX = 1024,
    SERVE_TURN_MS = 1000 /* between two looks at the watchdog */
};

struct serve_args {
    struct opt_strs models;
    const char *spec, *listen, *token_file, *tls_cert, *tls_key, *dtype, *device, *cache, *body;
    const char *timeout, *drain, *access_log, *port, *rerank_port;
    int64_t threads, items, connections, batch_tokens, front_threads;
    bool insecure, te_metrics, quiet;
};

/* Everything that serve_opts borrows. */
struct plan {
    struct spec *spec; /* NULL: none */
    struct serve_opts o;
    struct model_opts models[MODELS_MAX];
    char *names[MODELS_MAX]; /* owned: NAME of NAME=DIR */
    char dirs[MODELS_MAX][PATH_MAX];
    struct model_prompt *prompts[MODELS_MAX]; /* owned */
    struct pool_opts pools[POOLS_MAX];
    char token[SERVE_TOKEN_BYTES_MAX];
};

/* ---- from the spec */

static enum models_priority priority_of(enum spec_priority p)
{
    return p == SPEC_PRIORITY_HIGH  ? MODELS_HIGH
           : p == SPEC_PRIORITY_LOW ? MODELS_LOW
                                    : MODELS_MEDIUM;
}

static enum eng_dtype dtype_of(enum spec_dtype d)
{
    return d == SPEC_DTYPE_F32 ? ENG_F32 : d == SPEC_DTYPE_BF16 ? ENG_BF16 : ENG_AUTO;
}

static enum rc model_of_spec(struct plan *p, const struct spec_model *m, struct err *err)
{
    size_t i = p->o.model_count;
    struct model_opts *o = &p->models[i];

    if (i >= MODELS_MAX)
        return err_set(err, RC_LIMIT, "more than %d models", MODELS_MAX);
    if (model_find(m->source, p->dirs[i], sizeof(p->dirs[i]), err))
        return err_ctx(err, "model '%s'", m->name);
    *o = (struct model_opts){ .name = m->name,
                              .dir = p->dirs[i],
                              .device = m->device == SPEC_DEVICE_CPU ? "cpu" : NULL,
                              .dtype = dtype_of(m->dtype),
                              .pool = m->pool,
                              .priority = priority_of(m->priority),
                              .batch_tokens = (size_t)maybe_or(m->batch_tokens, 0),
                              .max_tokens = (size_t)maybe_or(m->max_tokens, 0),
                              .memory_bytes = (uint64_t)maybe_or(m->memory_bytes, 0) };
    for (size_t k = 0; k < m->aliases.count && k < MODELS_ALIASES_MAX; k++)
        o->aliases[o->alias_count++] = m->aliases.items[k];
    p->prompts[i] = xcalloc(m->prompts.count ? m->prompts.count : 1, sizeof(*p->prompts[i]));
    for (size_t k = 0; k < m->prompts.count; k++)
        p->prompts[i][k] =
            (struct model_prompt){ m->prompts.items[k].key, m->prompts.items[k].value };
    o->prompts = p->prompts[i];
    o->prompt_count = m->prompts.count;
    p->o.model_count++;
    return RC_OK;
}

static void serve_of_spec(struct plan *p, const struct spec_serve *s)
{
    p->o.listen = s->listen;
    p->o.ports[0] = (int)s->port;
    p->o.ports[1] = (int)s->rerank_port;
    p->o.items_max = (size_t)s->items_max;
    p->o.body_bytes_max = (size_t)s->body_bytes_max;
    p->o.queue_jobs_max = (size_t)s->queue_max;
    p->o.connections_max = (size_t)s->connections_max;
    p->o.timeout_ms = (int)s->timeout_ms;
    p->o.drain_ms = (int)s->drain_ms;
    p->o.cache_bytes = (uint64_t)s->cache_bytes;
    p->o.tls_cert = s->tls_cert;
    p->o.tls_key = s->tls_key;
}

static enum rc from_spec(struct plan *p, const char *path, struct cmd_ctx *ctx, struct err *err)
{
    struct spec_diags diags = { 0 };
    struct buf text = { 0 };
    enum rc rc = spec_load(path, &p->spec, &diags, err);

    if (rc != RC_OK && diags.count) {
        spec_diags_print(&diags, &ctx->err_term, &text);
        (void)fwrite(buf_str(&text), 1, text.len, stderr);
        buf_release(&text);
        (void)err_set(err, rc, "could not read '%s'", path);
    }
    spec_diags_release(&diags);
    if (rc != RC_OK)
        return rc;
    serve_of_spec(p, &p->spec->serve);
    for (size_t i = 0; i < p->spec->pool_count && i < POOLS_MAX; i++)
        p->pools[p->o.pool_count++] =
            (struct pool_opts){ p->spec->pools[i].name, (uint64_t)p->spec->pools[i].size_bytes,
                                priority_of(p->spec->pools[i].priority) };
    for (size_t i = 0; rc == RC_OK && i < p->spec->model_count; i++)
        rc = model_of_spec(p, &p->spec->models[i], err);
    return rc;
}

/* ---- from options */

static enum rc model_of_arg(struct plan *p, const char *arg, const struct serve_args *a,
                            struct err *err)
{
    size_t i = p->o.model_count;
    const char *eq = strchr(arg, '='), *dir = eq ? eq + 1 : arg, *base;

    if (i >= MODELS_MAX)
        return err_set(err, RC_LIMIT, "more than %d models", MODELS_MAX);
    if (model_find(dir, p->dirs[i], sizeof(p->dirs[i]), err))
        return err->code;
    for (size_t n = strlen(p->dirs[i]); n > 1 && p->dirs[i][n - 1] == '/'; n--)
        p->dirs[i][n - 1] = '\0';
    base = strrchr(p->dirs[i], '/');
    p->names[i] = eq ? xstrndup(arg, (size_t)(eq - arg)) : xstrdup(base ? base + 1 : p->dirs[i]);
    p->models[i] = (struct model_opts){ .name = p->names[i],
                                        .dir = p->dirs[i],
                                        .device = a->device,
                                        .priority = MODELS_MEDIUM,
                                        .threads = (int)a->threads,
                                        .batch_tokens = (size_t)a->batch_tokens };
    (void)eng_dtype_parse(a->dtype, &p->models[i].dtype); /* the option has a list of choices */
    p->o.model_count++;
    return RC_OK;
}

static enum rc read_token(struct plan *p, const char *path, struct err *err)
{
    struct buf b = { 0 };
    enum rc rc = file_read(path, SERVE_TOKEN_BYTES_MAX - 1, &b, err);

    if (rc == RC_OK && b.data)
        (void)str_copy(p->token, sizeof(p->token), str_trim(b.data));
    if (rc == RC_OK && !p->token[0])
        rc = err_set(err, RC_USAGE, "token file '%s' is empty", path);
    buf_release(&b);
    p->o.token = p->token;
    return rc;
}

static enum rc sizes_of_args(struct plan *p, const struct serve_args *a, struct err *err)
{
    uint64_t v;

    if (a->cache && units_bytes_parse(a->cache, &p->o.cache_bytes, err))
        return err_ctx(err, "--cache");
    if (a->body) {
        if (units_bytes_parse(a->body, &v, err))
            return err_ctx(err, "--body-max");
        p->o.body_bytes_max = (size_t)v;
    }
    if (a->timeout) {
        if (units_duration_parse(a->timeout, &v, err))
            return err_ctx(err, "--timeout");
        p->o.timeout_ms = v > INT_MAX ? INT_MAX : (int)v;
    }
    if (a->drain) {
        if (units_duration_parse(a->drain, &v, err))
            return err_ctx(err, "--drain");
        p->o.drain_ms = v > INT_MAX ? INT_MAX : (int)v;
    }
    return RC_OK;
}

static enum rc port_of(const char *arg, int dflt, int *port, struct err *err)
{
    uint64_t v;

    if (!arg) {
        *port = *port ? *port : dflt;
        return RC_OK;
    }
    if (!str_to_u64(arg, 10, &v) || v > 65535)
        return err_set(err, RC_USAGE, "'%s' is no port: 0 (a free one) to 65535", arg);
    *port = (int)v;
    return RC_OK;
}

/* One port when that alone was asked for. */
static enum rc ports_of_args(struct plan *p, const struct serve_args *a, struct err *err)
{
    p->o.port_count = a->port && !a->rerank_port ? 1 : 2;
    if (port_of(a->port, SERVE_PORT, &p->o.ports[0], err) ||
        port_of(a->rerank_port, SERVE_PORT_RERANK, &p->o.ports[1], err))
        return err->code;
    return RC_OK;
}

static enum rc from_args(struct plan *p, const struct serve_args *a, struct err *err)
{
    const char *token = a->token_file ? a->token_file : p->spec ? p->spec->serve.token_file : NULL;
    enum rc rc = sizes_of_args(p, a, err);

    p->o.listen = a->listen ? a->listen : p->o.listen;
    p->o.tls_cert = a->tls_cert ? a->tls_cert : p->o.tls_cert;
    p->o.tls_key = a->tls_key ? a->tls_key : p->o.tls_key;
    if (rc == RC_OK)
        rc = ports_of_args(p, a, err);
    p->o.items_max = a->items ? (size_t)a->items : p->o.items_max;
    p->o.connections_max = a->connections ? (size_t)a->connections : p->o.connections_max;
    p->o.front_threads = (int)a->front_threads;
    p->o.allow_anyone = a->insecure;
    p->o.te_metrics = a->te_metrics;
    p->o.access_log = a->access_log;
    for (size_t i = 0; rc == RC_OK && i < a->models.count; i++)
        rc = model_of_arg(p, a->models.items[i], a, err);
    if (rc == RC_OK && token)
        rc = read_token(p, token, err);
    if (rc == RC_OK && !p->o.model_count) {
        err_hint(err,
                 "Give -m NAME=DIR, or models in a spec with -f; 'stoker model get' fetches one.");
        rc = err_set(err, RC_USAGE, "no model to serve");
    }
    p->o.models = p->models;
    p->o.pools = p->pools;
    return rc;
}

static void plan_free(struct plan *p)
{
    for (size_t i = 0; i < MODELS_MAX; i++) {
        free(p->names[i]);
        free(p->prompts[i]);
    }
    if (p->spec)
        spec_free(p->spec);
    free(p);
}

static enum rc plan_make(struct cmd_ctx *ctx, struct plan **out, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct plan *p = xcalloc(1, sizeof(*p));
    enum rc rc = a->spec ? from_spec(p, a->spec, ctx, err) : RC_OK;

    if (rc == RC_OK)
        rc = from_args(p, a, err);
    if (rc != RC_OK) {
        plan_free(p);
        return rc;
    }
    *out = p;
    return RC_OK;
}

/* ---- running */

static void tell_start(const struct serve *s, const struct plan *p)
{
    const char *host = p->o.listen ? p->o.listen : "127.0.0.1";
    const char *scheme = p->o.tls_cert ? "https" : "http";

    (void)fprintf(stderr, "stoker serve: %s://%s:%d", scheme, host, serve_port(s, 0));
    if (p->o.port_count > 1)
        (void)fprintf(stderr, " and :%d", serve_port(s, 1));
    (void)fprintf(stderr, ", %zu model%s\n", p->o.model_count, p->o.model_count == 1 ? "" : "s");
    (void)fprintf(stderr, "try: curl -s %s://%s:%d/embed -d '{\"inputs\":\"hello world\"}'\n",
                  scheme, host, serve_port(s, 0));
}

/* Signals as something to wait for; they are blocked before any thread is made. */
static enum rc watch_signals(int *out_fd, struct err *err)
{
    sigset_t set;

    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_sys(err, "could not block signals");
    *out_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return *out_fd < 0 ? err_sys(err, "could not watch signals") : RC_OK;
}

static void reload(struct cmd_ctx *ctx, struct serve *s, struct plan **plan)
{
    struct err err = { 0 };
    struct plan *fresh = NULL;
    enum rc rc = plan_make(ctx, &fresh, &err);

    notify_send("RELOADING=1");
    if (rc == RC_OK)
        rc = serve_reload(s, fresh->models, fresh->o.model_count, &err);
    if (rc != RC_OK) {
        log_warn("what is served stays as it was: %s", err.msg);
        if (fresh)
            plan_free(fresh);
    } else {
        log_info("models were read again");
        plan_free(*plan);
        *plan = fresh;
    }
    notify_send("READY=1");
}

/* Until a signal ends it. */
static void wait_for_end(struct cmd_ctx *ctx, struct serve *s, struct plan **plan, int fd)
{
    uint64_t dog_us = notify_watchdog_us();
    int turn = dog_us && dog_us / 2000 < SERVE_TURN_MS ? (int)(dog_us / 2000) : SERVE_TURN_MS;
    bool told = false;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        struct signalfd_siginfo si;
        if (!told && serve_ready(s)) {
            notify_send("READY=1\nSTATUS=serving");
            if (!((const struct serve_args *)ctx->opts)->quiet)
                (void)fprintf(stderr, "stoker serve: ready\n");
            told = true;
        }
        if (dog_us)
            notify_send("WATCHDOG=1");
        if (poll(&p, 1, told ? turn : 20) <= 0)
            continue;
        if (read(fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
            continue;
        if (si.ssi_signo != SIGHUP)
            return;
        reload(ctx, s, plan);
    }
}

static enum rc run_serve(struct cmd_ctx *ctx, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct plan *p = NULL;
    struct serve *s = NULL;
    size_t cut = 0;
    int fd = -1;
    enum rc rc = plan_make(ctx, &p, err);

    if (rc != RC_OK)
        return rc;
    rc = watch_signals(&fd, err);
    if (rc == RC_OK)
        rc = serve_start(&p->o, &s, err);
    if (rc == RC_OK && !a->quiet)
        tell_start(s, p);
    if (rc == RC_OK)
        rc = serve_wait_ready(s, err);
    if (rc == RC_OK) {
        wait_for_end(ctx, s, &p, fd);
        notify_send("STOPPING=1");
        if (!a->quiet)
            (void)fprintf(stderr, "stoker serve: stopping\n");
        serve_stop(s, &cut);
        if (cut)
            rc = err_set(err, RC_TIMEOUT, "%zu requests were cut off by the drain limit", cut);
    }
    serve_free(s);
    if (fd >= 0)
        close(fd);
    plan_free(p);
    return rc;
}

#define ROW(letter_, name_, kind_, member_, arg_, help_)                                           \
    {                                                                                              \
        .letter = (letter_), .name = (name_), .kind = OPT_##kind_,                                 \
        .off = offsetof(struct serve_args, member_), .arg = (arg_), .help = (help_)                \
    }
#define NUMBER(name_, member_, min_, max_, help_)                                                  \
    {                                                                                              \
        .name = (name_), .kind = OPT_INT, .off = offsetof(struct serve_args, member_), .arg = "N", \
        .min = (min_), .max = (max_), .help = (help_)                                              \
    }

static const struct opt opts_serve[] = {
    ROW('m', "model", STRS, models, "[NAME=]DIR",
        "serve the model of this folder, or the installed one of this name; may be repeated"),
    ROW('f', "file", STR, spec, "SPEC", "models, pools and limits of a spec"),
    ROW(0, "listen", STR, listen, "ADDRESS", "listen there (default: 127.0.0.1)"),
    ROW(0, "port", STR, port, "N", "every API (default: 8003, and 8002; 0: a free one)"),
    ROW(0, "rerank-port", STR, rerank_port, "N", "the same routes once more (default: 8002)"),
    ROW(0, "token-file", STR, token_file, "FILE", "ask clients for this bearer token"),
    ROW(0, "insecure", FLAG, insecure, NULL, "listen beyond this machine without a token"),
    ROW(0, "tls-cert", STR, tls_cert, "FILE", "certificate chain, PEM"),
    ROW(0, "tls-key", STR, tls_key, "FILE", "its private key, PEM"),
    { .name = "dtype",
      .kind = OPT_STR,
      .off = offsetof(struct serve_args, dtype),
      .arg = "TYPE",
      .choices = "auto|f32|bf16|int8",
      .help = "type of weights and products of -m's models" },
    ROW(0, "device", STR, device, "NAME", "run -m's models there (cpu, ref)"),
    NUMBER("threads", threads, 1, SERVE_THREADS_MAX, "threads of the CPU (default: all)"),
    NUMBER("batch-tokens", batch_tokens, 1, 1 << 20, "tokens a batch (default: by the device)"),
    ROW(0, "cache", STR, cache, "SIZE", "keep that much of computed vectors (default: none)"),
    ROW(0, "timeout", STR, timeout, "TIME", "of a request that names none (default: 30s)"),
    ROW(0, "drain", STR, drain, "TIME", "for running requests when stopped (default: 30s)"),
    NUMBER("items-max", items, 1, 1000000, "inputs a call (default: 1024)"),
    ROW(0, "body-max", STR, body, "SIZE", "of a request (default: 32MiB)"),
    NUMBER("connections-max", connections, 1, 1000000, "open connections (default: 10000)"),
    NUMBER("front-threads", front_threads, 1, SERVE_FRONT_THREADS_MAX,
           "threads that tokenise and write (default: by the machine)"),
    ROW(0, "access-log", STR, access_log, "FILE", "a JSON line a request; - is standard output"),
    ROW(0, "te-metrics", FLAG, te_metrics, NULL, "figures under te_ names too"),
    ROW(0, "quiet", FLAG, quiet, NULL, "no lines on standard error but errors"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker serve -m minilm=DIR", "every API for one model on 127.0.0.1:8003" },
    { "stoker serve -m e5=DIR -m reranker=DIR2 --token-file token --listen 0.0.0.0",
      "two models, for other machines" },
    { "stoker serve -f stoker.yaml", "what the spec says" },
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
             "answered first.\n"
             "\n"
             "Beyond loopback it wants a token (--token-file) unless --insecure is given.",
    .examples = examples,
    .run = run_serve,
};

/* SPDX-License-Identifier: MIT */
/* cmd_serve_int: what the files of `stoker serve` share.
 *
 *   cmd_serve.c      options, signals, the life of the server
 *   serve_plan.c     what to serve: from the spec, then from options
 *   serve_explain.c  --explain: every setting, its value, where it comes from and why
 *   serve_try.c      --try: one request of its own */
#ifndef CMD_SERVE_CMD_SERVE_INT_H
#define CMD_SERVE_CMD_SERVE_INT_H
#include "cmd/cmd_int.h"
#include "model/hub/hub.h"
#include "os/net/listen_fds.h"
#include "serve/serve.h"
#include "spec/spec.h"

#include <limits.h>

enum {
    SERVE_PORT = 8003,
    SERVE_PORT_RERANK = 8002,
    SERVE_DEVICES_BYTES_MAX = 512, /* of a list of devices */
    SERVE_GPU_INDEX_MAX = 1024     /* numbers of GPUs looked for in a range */
};

struct serve_args {
    struct opt_strs models;
    const char *spec, *listen, *token_file, *tls_cert, *tls_key, *dtype, *device, *cache, *body;
    const char *timeout, *drain, *head_timeout, *body_timeout, *access_log, *port, *rerank_port;
    int64_t threads, items, connections, batch_tokens, frontend_threads;
    const char *fallback, *device_timeout, *batch_time, *timeout_max, *body_total, *text_max,
        *calls_max;
    const char *admin_token_file, *admin_socket, *metrics_token_file;
    const char *batch_dir, *batch_size, *batch_expiry;
    struct opt_strs origins, hosts, pools, on_demand;
    int64_t worker;
    bool insecure, no_te_metrics, quiet, explain, json, try_it, free_port, fallback_at_start;
    bool invariant, any_model;
};

/* Everything that serve_opts borrows. */
struct serve_plan {
    struct spec *spec; /* NULL: none */
    struct serve_opts o;
    struct serve_model models[MODELS_MAX];
    char *names[MODELS_MAX];         /* owned: NAME of NAME=DIR */
    bool fetch;                      /* from the Hub */
    struct hub_name hub[MODELS_MAX]; /* of models that were named by it */
    char dirs[MODELS_MAX][PATH_MAX];
    struct model_prompt *prompts[MODELS_MAX]; /* owned */
    char devices[MODELS_MAX][SERVE_DEVICES_BYTES_MAX];
    const struct spec_model *of_spec[MODELS_MAX]; /* NULL: an option's */
    struct serve_pool pools[POOLS_MAX];
    char *pool_names[ARGS_REPEAT_MAX]; /* owned: NAME of --pool NAME=SIZE */
    struct cmd_keys keys;
    const char *origins[ARGS_REPEAT_MAX + 1]; /* of the spec */
    struct cmd_watch watch;                   /* of the files with secrets */
    struct listen_fds sockets;                /* handed over by who started it */
    char listen[HTTP_ADDRESS_MAX];            /* of those */
};

/* ---- serve_plan.c */
/* `fetch`: models of the Hub that are not here are fetched, which takes its time.  `sockets` go
 * before addresses and ports. */
enum rc serve_plan_make(struct cmd_ctx *ctx, struct workers *w, const struct listen_fds *sockets,
                        bool fetch, struct serve_plan **out, struct err *err) MUST_USE;
/* --device-timeout; 0: it was not given. */
enum rc serve_plan_device_ms(const struct serve_args *a, int *out, struct err *err) MUST_USE;
void serve_plan_free(struct serve_plan *p);
/* Appends what of `b` a server that runs by `a` cannot take without a new start. */
void serve_plan_needs_start(const struct serve_plan *a, const struct serve_plan *b,
                            struct buf *out);

/* Reads the token files into the plan. */
enum rc serve_plan_keys(struct serve_plan *p, const struct serve_args *a, struct err *err) MUST_USE;

/* ---- serve_explain.c: into ctx->out */
enum rc serve_explain(struct cmd_ctx *ctx, const struct serve_plan *p, struct err *err) MUST_USE;

/* ---- serve_try.c */
enum { SERVE_TRY_SHOWN_MAX = 160 }; /* bytes of a reply that are shown */
struct serve_sample {
    const char *path, *body;
};
void serve_sample(const struct serve_plan *p,
                  struct serve_sample *out); /* that suits the first model */
void serve_address(const struct serve_plan *p, int port,
                   struct buf *out); /* "http://127.0.0.1:8003" */
void serve_curl(const struct serve_plan *p, const struct serve_args *a, int port, struct buf *out);
/* Asks the running server itself and prints the reply. */
enum rc serve_try(const struct serve *s, const struct serve_plan *p, struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* agent_int: what the files of `stoker agent` share.
 *
 *   agent.c          options, signals, the life of the agent
 *   agent_plan.c     what to watch: from the spec, then from options
 *   agent_sample.c   the driver asked by this program itself: the collector, the cost of calls
 *   agent_control.c  the socket through which `stoker agent release` and others speak with it */
#ifndef CMD_AGENT_INT_H
#define CMD_AGENT_INT_H
#include "agent/agent.h"
#include "base/arena.h"
#include "cmd/cmd.h"
#include "os/file.h"
#include "spec/spec.h"

enum {
    AGENT_TOKEN_BYTES_MAX = 4096, /* of a token file */
    AGENT_ONCE_SECONDS = 2,       /* of --once: rates need two */
    AGENT_ONCE_GPU_SECONDS = 4    /* with GPUs: the driver opens, then its monitor needs two */
};

struct agent_args {
    const char *spec, *listen, *port, *metrics_port, *token_file, *tls_cert, *tls_key, *interval;
    const char *history, *history_size, *record, *replay, *speed, *duration, *names, *serve, *root;
    const char *control, *last, *gpu_library, *dcgm;
    const char *metrics_token_file;
    struct opt_strs scrape, peers, origins, hosts;
    int64_t series_max, gpu_child;
    bool insecure, open_metrics, free_port, no_history, demo, lower_hostname, no_gpu, once, json;
    bool quiet, gpu_sample, loop, print_rules;
};

/* Everything that agent_opts borrows. */
struct agent_plan {
    struct agent_plan *older; /* owned: what was taken over from; NULL: none */
    struct spec *spec;
    struct arena arena;
    struct agent_opts o;
    struct root *root;
    char metrics_token[AGENT_TOKEN_BYTES_MAX];
    const char *origins[ARGS_REPEAT_MAX + 1], *hosts[ARGS_REPEAT_MAX + 1];
    char token[AGENT_TOKEN_BYTES_MAX], history[FILE_PATH_MAX];
    const char *scrape[ARGS_REPEAT_MAX * 2 + 1], *fleet[ARGS_REPEAT_MAX * 2 + 1];
};
enum rc agent_plan_make(struct cmd_ctx *ctx, struct agent_plan **out, struct err *err) MUST_USE;
void agent_plan_free(struct agent_plan *p); /* NULL is fine */

/* ---- agent_sample.c */
/* --gpu-child, which does not return, or --gpu-sample */
enum rc agent_run_driver(struct cmd_ctx *ctx, struct err *err) MUST_USE;

/* ---- agent_control.c */
/* Where the socket is: `given`, or the place for this user. */
enum rc control_path(const char *given, char *out, size_t cap, struct err *err) MUST_USE;
/* RC_LIMIT: an agent that runs has it already. */
enum rc control_listen(const char *path, int *out_fd, struct err *err) MUST_USE;
void control_answer(int fd, struct agent *a); /* one client, within its time */
/* Sends a line, takes the answer. */
enum rc control_ask(const char *path, const char *line, struct buf *out, struct err *err) MUST_USE;

#endif

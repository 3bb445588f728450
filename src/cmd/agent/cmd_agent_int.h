/* SPDX-License-Identifier: MIT */
/* cmd_agent_int: what the files of `stoker agent` share.
 *
 *   cmd_agent.c      options, signals, the life of the agent
 *   agent_plan.c     what to watch: from the spec, then from options
 *   agent_sample.c   the driver asked by this program itself: the collector, the cost of calls
 *   agent_control.c  the socket through which `stoker agent release` and others speak with it */
#ifndef CMD_AGENT_CMD_AGENT_INT_H
#define CMD_AGENT_CMD_AGENT_INT_H
#include "agent/agent.h"
#include "base/arena.h"
#include "cmd/cmd_int.h"
#include "os/file.h"
#include "os/net/listen_fds.h"
#include "spec/spec.h"

enum {
    AGENT_METRICS_FILE_MAX = 1 << 20, /* bytes of a file that names metrics */
    AGENT_SAMPLES_MAX = 1 << 30,      /* of a replay: 34 years of seconds */
    AGENT_ONCE_SECONDS = 2,           /* of --once: rates need two */
    AGENT_ONCE_GPU_SECONDS = 4        /* with GPUs: the driver opens, then its monitor needs two */
};

struct agent_args {
    const char *spec, *listen, *port, *metrics_port, *token_file, *tls_cert, *tls_key, *interval;
    const char *history, *history_size, *record, *replay, *speed, *duration, *names, *serve, *root;
    const char *silence_for, *by, *comment;
    const char *control, *last, *gpu_library, *dcgm, *ca_file, *public_url;
    const char *metrics_token_file, *admin_token_file, *serve_token_file, *metrics_file;
    struct opt_strs scrape, peers, origins, hosts;
    int64_t series_max, gpu_child, samples;
    bool insecure, open_metrics, free_port, no_history, demo, lower_hostname, no_gpu, once, json;
    bool quiet, gpu_sample, loop, print_rules, no_verify, force;
};

/* Everything that agent_opts borrows. */
struct agent_plan {
    struct agent_plan *older; /* owned: what was taken over from; NULL: none */
    struct spec *spec;
    struct arena arena;
    struct agent_opts o;
    struct root *root;
    struct cmd_keys keys;
    struct cmd_watch watch;        /* of tokens and TLS files */
    struct listen_fds sockets;     /* handed over by who started it */
    char listen[HTTP_ADDRESS_MAX]; /* of those */
    char history[FILE_PATH_MAX];
    uint64_t run_ms; /* of a replay or demo: by the clock, whatever is shown; 0: no end */
    const char *scrape[ARGS_REPEAT_MAX * 2 + 1], *fleet[AGENT_FLEET_MAX + 1];
    size_t fleet_count;
};
/* `sockets` go before addresses and ports; NULL: none. */
enum rc agent_plan_make(struct cmd_ctx *ctx, const struct listen_fds *sockets,
                        struct agent_plan **out, struct err *err) MUST_USE;
/* Reads the tokens, again. */
enum rc agent_plan_keys(struct agent_plan *p, const struct agent_args *a, struct err *err) MUST_USE;
void agent_plan_free(struct agent_plan *p); /* NULL is fine */

/* ---- agent_fleet.c */
/* Addresses of other agents, further ones. */
enum rc agent_plan_peers(struct agent_plan *p, const char *const *items, size_t count,
                         struct err *err) MUST_USE;
void agent_plan_places(struct agent_plan *p); /* of the spec's machines */

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

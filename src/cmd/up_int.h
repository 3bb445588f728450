/* SPDX-License-Identifier: MIT */
/* up_int: what the files of `stoker up` share.
 *
 *   up.c       options, children, signals, the life of both
 *   up_plan.c  what to start and with which arguments; the sockets that are held for them */
#ifndef CMD_UP_INT_H
#define CMD_UP_INT_H
#include "cmd/cmd.h"
#include "http/http.h"
#include "os/file.h"
#include "os/net/listen_fds.h"

#include <sys/types.h>

enum {
    UP_ARGS_MAX = 1024,    /* arguments of a child */
    UP_ARGV_BYTES = 65536, /* of this process's own arguments */
    UP_STOP_MS = 40000     /* for children to end, at least; serve answers what it has begun */
};

struct up_args {
    struct opt_strs models, origins, hosts;
    const char *spec, *listen, *token_file, *port, *agent_port, *metrics_port, *device, *history;
    const char *history_size, *tls_cert, *tls_key, *admin_token_file, *metrics_token_file;
    const char *admin_socket, *ca_file;
    bool strict, insecure, free_port, no_serve, no_agent, demo, try_it, open_metrics;
};

enum { PART_AGENT, PART_SERVE, PARTS };
struct part {
    const char *name;
    const char *argv[UP_ARGS_MAX];
    size_t argc;
    struct listen_fds sockets; /* that it is handed; this process keeps them open */
    bool wanted, ready, was_ready;
    pid_t pid; /* 0: it does not run */
    int64_t begun_ms, alive_ms, next_ms;
    int backoff_ms, restarts;
    int status; /* wait status of the last end */
    char page[256], metrics[256], url[256], try_line[1024], models[512];
};

struct up {
    const struct up_args *args;
    struct part parts[PARTS];
    int signals, notify;
    char notify_name[64];
    char self[FILE_PATH_MAX];
    struct listen_fds given; /* by who started it; fd -1: taken */
    int64_t stop_ms;
    bool screen, stopping, upgrade, made_admin;
    bool upgraded;        /* an older one did: what does not start is tried again */
    bool agent_off;       /* by the spec's agent.enabled */
    const char *no_model; /* why nothing is served; NULL: something is */
    char serve_url[HTTP_ADDRESS_MAX + 32];
    struct spec *spec; /* NULL: none */
};

/* Fills the parts and opens their sockets. */
enum rc up_plan(struct up *u, struct err *err) MUST_USE;
void up_plan_release(struct up *u);

#endif

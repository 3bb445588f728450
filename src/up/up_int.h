/* SPDX-License-Identifier: MIT */
/* up_int: what the files of up share.
 *
 *   up.c       children, signals, the life of both
 *   up_plan.c  what to start and with which arguments; the sockets that are held for them */
#ifndef UP_UP_INT_H
#define UP_UP_INT_H
#include "http/http.h"
#include "os/file.h"
#include "os/net/listen_fds.h"
#include "up/up.h"

#include <sys/types.h>

enum {
    UP_ARGS_MAX = 1024,    /* arguments of a child */
    UP_ARGV_BYTES = 65536, /* of this process's own arguments */
    UP_STOP_MS = 40000     /* for children to end, at least; serve answers what it has begun */
};

enum { PART_AGENT, PART_SERVE, PARTS };
struct up_part {
    const char *name;
    const char *argv[UP_ARGS_MAX];
    size_t argc;
    struct listen_fds sockets; /* that it is handed; this process keeps them open */
    bool wanted, ready, was_ready;
    pid_t pid; /* 0: it does not run */
    int64_t begun_ms, alive_ms, next_ms;
    int64_t backoff_ms;
    int restarts;
    int status; /* wait status of the last end */
    char page[256], metrics[256], url[256], try_line[1024], models[512];
};

struct up {
    const struct up_opts *args;
    struct up_part parts[PARTS];
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

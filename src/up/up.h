/* SPDX-License-Identifier: MIT */
/* up: one process that starts the agent and the model server of a node, holds their sockets, starts
 * what ended again, and puts a new program in their place.  README.md has the picture. */
#ifndef UP_UP_H
#define UP_UP_H
#include "base/args.h"

struct up_opts {
    struct opt_strs models, origins, hosts;
    const char *spec, *listen, *token_file, *port, *agent_port, *metrics_port, *device, *history;
    const char *history_size, *tls_cert, *tls_key, *admin_token_file, *metrics_token_file;
    const char *admin_socket, *ca_file;
    bool strict, insecure, free_port, no_serve, no_agent, demo, try_it, open_metrics;
};

/* Until a signal ends it; RC_USAGE where there is nothing to run. */
enum rc up_run(const struct up_opts *opts, struct err *err) MUST_USE;
#endif

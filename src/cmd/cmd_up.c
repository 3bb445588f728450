/* SPDX-License-Identifier: MIT */
/* stoker up: its options; src/up does the rest. */
#include "cmd/cmd_int.h"
#include "spec/spec.h"
#include "up/up.h"

static enum rc run_up(struct cmd_ctx *ctx, struct err *err)
{
    return up_run(ctx->opts, err);
}

#define OPT_STRUCT struct up_opts
static const struct opt opts_up[] = {
    OPT('m', "model", STRS, models, "[NAME=]MODEL",
        "serve this model (default: all-MiniLM-L6-v2 where it is here); may be repeated"),
    OPT('f', "file", STR, spec, "SPEC", "what the spec says, for both"),
    OPT(0, "strict", FLAG, strict, NULL, "do not start when the spec has a warning"),
    OPT(0, "listen", STR, listen, "ADDRESS", "listen there (default: 127.0.0.1)"),
    OPT(0, "port", STR, port, "N", "of the models' APIs (default: 8003, and 8002)"),
    OPT(0, "agent-port", STR, agent_port, "N", "of the page (default: 8090)"),
    OPT(0, "metrics-port", STR, metrics_port, "N", "of /metrics (default: 9400)"),
    OPT(0, "free-port", FLAG, free_port, NULL, "take free ports where they are taken"),
    OPT(0, "token-file", STR, token_file, "FILE", "ask clients for this bearer token"),
    OPT(0, "admin-token-file", STR, admin_token_file, "FILE",
        "this bearer token may load and unload models, and silence alerts"),
    OPT(0, "admin-socket", STR, admin_socket, "PATH",
        "who may open this socket file may load and unload models, too"),
    OPT(0, "metrics-token-file", STR, metrics_token_file, "FILE",
        "this bearer token may read /metrics"),
    OPT(0, "open-metrics", FLAG, open_metrics, NULL, "the agent's /metrics needs no token"),
    OPT(0, "allow-origin", STRS, origins, "ORIGIN",
        "web pages from there may ask, such as https://host:8443; *: from anywhere; may be "
        "repeated"),
    OPT(0, "allow-host", STRS, hosts, "NAME",
        "a further name of this machine in URLs, for loopback without a token; may be repeated"),
    OPT(0, "tls-cert", STR, tls_cert, "FILE", "certificate chain of both, PEM"),
    OPT(0, "tls-key", STR, tls_key, "FILE", "its private key, PEM"),
    OPT(0, "ca-file", STR, ca_file, "FILE",
        "who signed the certificates of what the agent asks and posts to by https, PEM"),
    OPT(0, "insecure", FLAG, insecure, NULL, "listen beyond this machine without a token"),
    OPT(0, "device", STR, device, "NAME", "run models there: cpu, cuda:0"),
    OPT(0, "history", STR, history, "FILE", "keep the agent's history there"),
    OPT(0, "history-size", STR, history_size, "SIZE",
        "of that file (default: " SPEC_HISTORY_DEFAULT ")"),
    OPT(0, "demo", FLAG, demo, NULL, "show eight GPUs of a story instead of this machine"),
    OPT(0, "no-serve", FLAG, no_serve, NULL, "no model server"),
    OPT(0, "no-agent", FLAG, no_agent, NULL, "no agent"),
    OPT(0, "try", FLAG, try_it, NULL, "answer one request of its own and stop"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker up", "the page, /metrics and the default model" },
    { "stoker up -f stoker.yaml", "what the spec says" },
    { "stoker up --listen 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem",
      "for other machines, by https" },
    { "stoker up --demo", "eight GPUs on the page without having one" },
    { 0 },
};

const struct cmd cmd_up = {
    .name = "up",
    .summary = "run this node: agent and model server",
    .opts = opts_up,
    .opts_size = sizeof(struct up_opts),
    .about = "Starts 'stoker agent' and 'stoker serve', tells where they are once both are ready, "
             "and starts one that ends again, after a second at first and up to a minute when it "
             "keeps ending. One that gives no sign of life for 30 s is ended and started again. It "
             "needs no GPU, and without a model it runs the agent alone.\n"
             "\n"
             "It holds the sockets that both listen on, its own or those that systemd hands it "
             "(LISTEN_FDS; told apart by FileDescriptorName=page, metrics, serve, rerank or admin, "
             "else by their port). While serve is away, connections wait and are answered when it "
             "is back; a request that serve had begun is lost with it.\n"
             "\n"
             "SIGTERM and Ctrl-C end both: requests under way are answered first; a second one "
             "cuts them off. SIGHUP reaches both, which read the spec again. SIGUSR2 upgrades: "
             "once the program was replaced on the disk (by rename, as package managers and "
             "install do), serve answers what it has, agent and serve end and start again from the "
             "new file, and so does this process; nobody is refused, and a file that does not "
             "start changes nothing.",
    .examples = examples,
    .run = run_up,
};

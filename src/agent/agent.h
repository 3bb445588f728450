/* SPDX-License-Identifier: MIT */
/* agent: the node daemon.  One thread samples (host sources, the GPU child's stream), evaluates
 * alerts and appends to the ring once a second; HTTP threads answer from copies.
 *
 *   :9400  /metrics                        Prometheus text, DCGM's names
 *   :8090  /                               the page
 *          /api/v1/node /series /query /events /alerts /processes /models /topology /live (SSE)
 *          /health
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H
#include "alert/alert.h"
#include "history/history.h"
#include "http/http.h"
#include "telemetry/gpu/gpu_child.h"
#include "telemetry/prom/prom.h"

enum { AGENT_PORT = 8090, AGENT_METRICS_PORT = 9400, AGENT_FLEET_MAX = 1024 /* other agents */ };
#define AGENT_DEMO_NOTE "a made-up story of eight H200"

/* Where a machine stands, by its name. */
struct agent_place {
    const char *host, *group, *rack, *leaf; /* leaf: the switch it is on; NULL: not told */
};

/* Strings and lists are borrowed for the agent's life. */
struct agent_opts {
    const char *listen;     /* NULL: 127.0.0.1 */
    int port, metrics_port; /* 0: a free one; -1: none */
    /* Sockets that listen already, instead of those; the agent's from the start on.  0: none. */
    int socket, metrics_socket;
    const char *socket_listen; /* their address: of two the one that most can reach; NULL: none */
    const char *token, *metrics_token, *admin_token, *tls_cert, *tls_key;
    const char *const *origins, *const *hosts; /* of http_opts */
    bool open_metrics, allow_anyone; /* /metrics without a token; beyond loopback without one */
    bool free_port;                  /* a free port where one is taken */
    int period_ms;                   /* 1000 */
    const char *ring_path;           /* NULL: no history */
    uint64_t ring_bytes;
    const char *record, *replay; /* files; NULL: none */
    bool record_replace;         /* also over an older recording */
    bool demo;
    double replay_speed; /* 1; 0: as fast as it goes */
    bool replay_loop;    /* from the beginning again at its end, in later seconds */
    uint64_t seconds;    /* of values to show, then it holds still; 0: no end */
    bool no_gpu;         /* no child for the driver */
    bool ask;            /* agent_ask() answers also when there is no port */
    size_t series_max;
    struct prom_export_opts prom_export;
    const struct alert_rule *rules;
    size_t rule_count;
    struct alert_targets alerts;
    struct web_trust trust;    /* in what it asks by https: applications, DCGM, other agents */
    const char *const *scrape; /* URLs of applications, NULL-terminated */
    const char *serve_url;     /* of our model server, for its figures; NULL: none */
    const char *serve_token;   /* that may read them; NULL: `token` may */
    const char *dcgm_url;      /* of DCGM's exporter, for what the driver does not tell; NULL */
    const char *const *fleet;  /* other agents' addresses, NULL-terminated */
    const struct agent_place *places; /* of machines, sorted by host */
    size_t place_count;
    struct gpu_child_opts gpu;
    const struct root *root;
    /* After each second was shown, on the sampling thread: it must not block.  NULL: none. */
    void (*on_second)(void *arg, struct telemetry *t, int64_t time_ns);
    void *arg;
};
struct agent;
/* The history: a file that is no ring, or a port that is taken, is an error; a disk that is full
 * or may not be written is told, and the agent goes on without history and tries again. */
enum rc agent_start(const struct agent_opts *o, struct agent **out, struct err *err) MUST_USE;
int agent_port(const struct agent *a, bool metrics);
void agent_release_gpus(struct agent *a);
void agent_attach_gpus(struct agent *a);
/* Rules, where alerts go, endpoints to scrape and the names of metrics become those of `o`, which
 * is borrowed from then on; the rest needs a new start. */
enum rc agent_reload(struct agent *a, const struct agent_opts *o, struct err *err) MUST_USE;
/* Other tokens (`serve`: the model server's), and the certificate and key as their files are now;
 * whether there are any stays as it was.  Any thread. */
enum rc agent_set_keys(struct agent *a, const struct http_keys *keys, const char *serve,
                       struct err *err) MUST_USE;
/* Silences and acknowledgements of alerts, as JSON; any thread. */
enum rc agent_silence(struct agent *a, const char *text, size_t len, uint64_t *out_id,
                      struct err *err) MUST_USE;
enum rc agent_silence_end(struct agent *a, uint64_t id, struct err *err) MUST_USE;
void agent_silences(struct agent *a, struct buf *out);
void agent_stop(struct agent *a); /* NULL is fine */

/* ---- what it shows; any thread */
uint64_t agent_seconds(const struct agent *a); /* shown so far */
bool agent_ready(const struct agent *a);       /* the first second, or all up to now */
bool agent_ended(const struct agent *a);       /* opts.seconds or the replay are over */
bool agent_alive(const struct agent *a);       /* its sampling thread turns */
enum gpu_child_state agent_driver(const struct agent *a);
void agent_metrics(struct agent *a, struct buf *out); /* the text of /metrics */
/* What "/api/v1/node" and the others answer, without HTTP: for an agent with opts.ask. */
enum rc agent_ask(struct agent *a, const char *path, struct buf *out, struct err *err) MUST_USE;
void agent_values(struct agent *a, struct buf *out); /* JSON, stoker.telemetry/1 */
void agent_status(struct agent *a, struct buf *out); /* JSON, stoker.agent/1 */
/* A tar of the last minutes: values as a recording, events, alerts, status, kernel log. */
enum { AGENT_BUNDLE_MS_DEFAULT = 15 * 60 * 1000 };
enum rc agent_bundle(struct agent *a, int64_t back_ms, struct buf *out, struct err *err) MUST_USE;

#endif

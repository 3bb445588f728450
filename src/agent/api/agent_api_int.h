/* SPDX-License-Identifier: MIT */
/* agent_api: what the agent knows, as JSON and as a page.
 *
 *     GET /                    the page (web/agent.html)
 *     GET /openapi.json        this list, in full (data/openapi-agent.json)
 *     GET /api/v1/node         the machine, its GPUs, sources, history, counts of alerts
 *     GET /api/v1/series       what is measured, with labels and latest values
 *     GET /api/v1/query        one metric over time, on a grid of steps with min, mean and max
 *     GET /api/v1/events       what happened
 *     GET /api/v1/alerts       what is pending, firing, lately resolved
 *     GET /api/v1/processes    who uses the GPUs, and the jobs
 *     GET /api/v1/models       the models served, with their figures
 *     GET /api/v1/topology     the machine as an SVG and as a matrix
 *     GET /api/v1/limits       what limits the node and each GPU, with evidence and advice
 *     GET /api/v1/fleet        other agents, asked by this one
 *     GET /api/v1/live         server-sent events: values each second, events, alerts
 *
 * An unknown value is null or left out, never 0.  A question that cannot be answered is a 400
 * that says which parameter is wrong and what would be right.  Every reply is bounded.
 *
 * Threads: what needs no disk is answered on the server's loop; history and the fleet on two
 * threads of the api's own, with bounded queues; other agents are asked on further ones; live
 * events go out from api_tick(). */
#ifndef AGENT_API_AGENT_API_INT_H
#define AGENT_API_AGENT_API_INT_H
#include "agent/agent.h"
#include "alert/alert.h"
#include "base/text/json.h"
#include "history/history.h"
#include "http/http.h"
#include "os/net/web.h"
#include "os/root.h"
#include "telemetry/telemetry.h"

enum {
    API_SERIES_MAX = 512,         /* series in a reply of /query */
    API_CELLS_MAX = 400000,       /* series times steps of such a reply: 400 beyond */
    API_STEPS_MAX = 20000,        /* steps of a series */
    API_POINTS_DEFAULT = 720,     /* steps, when neither step nor points are given */
    API_EVENTS_DEFAULT = 500,     /* events in a reply */
    API_EVENTS_MAX = 4096,        /* and at most */
    API_BODY_MAX = 48 << 20,      /* bytes of a reply */
    API_LIVE_MAX = 64,            /* clients of /live: 503 beyond */
    API_QUEUE_MAX = 64,           /* questions that wait for the thread: 503 beyond */
    API_FLEET_MS = 3000,          /* for an agent to answer */
    API_FLEET_BODY_MAX = 1 << 20, /* bytes of what one says */
    API_GPUS_MAX = 256,           /* of a node */
    API_PROCESSES_MAX = 4096,     /* of a node, on GPUs */
    API_PARAMS_MAX = 24,          /* parameters of a question */
    API_PARAM_NAME_MAX = 160      /* bytes of a parameter's name */
};

/* History and alerts, which an agent may open and close while it runs. */
struct api_view {
    struct history *ring;  /* NULL: no history is kept */
    struct alerts *alerts; /* NULL: none */
};

/* Strings and lists are borrowed for the api's life. */
struct api_opts {
    struct telemetry *telemetry;
    struct api_view view; /* fixed, unless there is `enter` */
    /* Around every use of a view; any thread.  NULL: the one above. */
    void (*enter)(void *arg, struct api_view *out);
    void (*leave)(void *arg);
    /* More members of the node's document, after its key is written: an object.  NULL: none */
    void (*status)(void *arg, struct json_out *w);
    void *arg;
    const char *host;
    bool demo;                        /* every view of the page says so */
    const char *note;                 /* what is replayed, for people; NULL: none */
    const char *serve_url;            /* the model server beside it; NULL: none */
    int period_ms;                    /* 0: 1000 */
    int64_t begun_ns;                 /* wall clock: the agent's start; 0: unknown */
    const char *const *fleet;         /* addresses of other agents, NULL-terminated; NULL: none */
    const struct agent_place *places; /* of machines, sorted by host */
    size_t place_count;
    /* What the demo tells, as an object; NULL: this is none. */
    void (*story)(void *arg, struct json_out *w);
    /* The token that they ask for, valid for the API's life; NULL, or it gives NULL: none. */
    const char *(*fleet_token)(void *arg);
    /* Members silenced and acknowledged of an alert; NULL: both are null. */
    void (*mark)(void *arg, const char *rule, const struct telemetry_series *subject,
                 struct json_out *w);
    struct web_trust trust;  /* in their certificates; borrowed */
    int64_t (*now_ns)(void); /* the wall clock; NULL: the real one */
    const struct root *root; /* where processes run, for their use of the host; NULL: nowhere */
};

struct agent_api;
enum rc api_new(const struct api_opts *o, struct agent_api **out, struct err *err) MUST_USE;
/* The routes of http_opts; valid for the api's life. */
const struct http_route *api_routes(struct agent_api *a, size_t *count);
/* What a GET of `path` (with its query behind '?') answers, without a server: the documents of
 * this list but the pages and the stream.  Any thread; what needs the disk or the network takes its
 * time.  RC_NODEV: no such path, or nothing is there. */
enum rc api_ask(struct agent_api *a, const char *path, struct buf *out, struct err *err) MUST_USE;
/* Once a second has been shown: sends it to everybody who listens.  One thread. */
void api_tick(struct agent_api *a, int64_t time_ns);
/* Ends the streams and the threads, and answers what waits; after http_server_free(), which ends
 * the calls of its routes.  NULL is fine. */
void api_free(struct agent_api *a);

#endif

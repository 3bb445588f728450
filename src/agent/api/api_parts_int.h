/* SPDX-License-Identifier: MIT */
/* api_parts: what the files of the api share.
 *
 *     agent_api.c   routes, the thread, small documents
 *     api_params.c  query strings; pure
 *     api_series.c  series and their latest values, models
 *     api_query.c   history and events
 *     api_limits.c  what limits the node
 *     api_live.c    server-sent events
 *     api_fleet.c   other agents
 *     api_brief.c   what a fleet keeps of a node
 *     api_page.c    the page and the OpenAPI document, compiled in */
#ifndef AGENT_API_API_PARTS_INT_H
#define AGENT_API_API_PARTS_INT_H
#include "agent/api/agent_api_int.h"

#include <pthread.h>

enum { API_ROUTES = 14, API_ENTITIES = TELEMETRY_APP + 1 };
#define API_SECOND INT64_C(1000000000)

/* ---- api_params.c */
struct api_param {
    char name[API_PARAM_NAME_MAX];
    char value[TELEMETRY_VALUE_MAX];
};
struct api_params {
    struct api_param at[API_PARAMS_MAX];
    size_t count;
};
/* Percent-decodes and splits; RC_USAGE says what is wrong. */
enum rc api_params_read(const char *query, struct api_params *out, struct err *err) MUST_USE;
/* Every name is one of `names` (NULL-terminated), once; "label." allows label.NAME. */
enum rc api_params_check(const struct api_params *p, const char *const *names,
                         struct err *err) MUST_USE;
const char *api_param(const struct api_params *p, const char *name); /* NULL: not given */
/* "now", "-6h", seconds since 1970 with decimals.  Not given: `dflt`. */
enum rc api_param_time(const struct api_params *p, const char *name, int64_t now_ns, int64_t dflt,
                       int64_t *out, struct err *err) MUST_USE;
enum rc api_param_uint(const struct api_params *p, const char *name, uint64_t min, uint64_t max,
                       uint64_t dflt, uint64_t *out, struct err *err) MUST_USE;
/* A list of entities ("gpu,host") as bits; not given: `dflt`. */
enum rc api_param_entities(const struct api_params *p, const char *name, unsigned dflt,
                           unsigned *out, struct err *err) MUST_USE;

enum api_as { API_VALUE, API_RATE };
struct api_query { /* its strings are those of the parameters */
    const char *metric;
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    size_t label_count;
    int64_t from_ns, to_ns, step_ns; /* from is a multiple of step */
    size_t steps;
    enum api_as as;
};
enum rc api_query_read(const struct api_params *p, int64_t now_ns, struct api_query *out,
                       struct err *err) MUST_USE;

/* ---- agent_api.c */
struct api_job { /* a question that waits */
    struct http_exchange *x;
    enum rc (*answer)(struct agent_api *a, const struct api_params *p, struct buf *out,
                      struct err *err);
    bool packs; /* the answer may be packed: it is made on a thread of the api's own */
};

/* A thread and the questions that wait for it: one for the disk, one for the network, so that a
 * dead agent of the fleet holds up no history. */
enum { API_DISK, API_NETWORK, API_THREADS };
struct api_thread {
    struct agent_api *a;
    pthread_t thread;
    bool on;
    pthread_cond_t come;                 /* with the api's lock, as what follows */
    struct api_job queue[API_QUEUE_MAX]; /* a ring */
    size_t first, count;
};

struct api_client { /* of /live */
    struct http_exchange *x;
    unsigned entities; /* bits */
    bool fresh;        /* has had no values yet: gets all of them */
};

struct agent_api {
    struct api_opts o;
    struct http_route routes[API_ROUTES];
    struct api_thread threads[API_THREADS];
    pthread_mutex_t lock; /* all below, but what is a thread's or api_tick()'s */
    bool ending;
    struct api_client clients[API_LIVE_MAX];
    size_t client_count;
    struct fleet *fleet; /* owned; its own lock */
    /* ---- api_tick()'s */
    double *values, *before; /* owned: TELEMETRY_SERIES_MAX each */
    size_t before_count;
    int64_t event_ns;  /* of the last event sent */
    size_t event_same; /* events of that very time that were sent */
    uint64_t alerts_hash;
};

int64_t api_now_ns(const struct agent_api *a);
void api_enter(struct agent_api *a, struct api_view *out);
void api_leave(struct agent_api *a);
/* A value for people and programs: seven digits; NaN is null. */
void api_add_value(struct json_out *w, double v);
/* {"error": why} */
void api_refuse(struct http_exchange *x, int status, const char *why);
void api_add_time(struct json_out *w, const char *key, int64_t ns); /* milliseconds; 0: null */
void api_add_labels(struct json_out *w, const struct telemetry_series *s);
const char *api_label(const struct telemetry_series *s, const char *name); /* NULL: none */
/* A document of the table as the value of a key, null when there is none. */
void api_add_doc(struct agent_api *a, struct json_out *w, const char *key, const char *name);

/* ---- answers */
enum rc api_series(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err);
enum rc api_models(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err);
enum rc api_events(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err);
enum rc api_rules(struct agent_api *a, const struct api_params *p, struct buf *out,
                  struct err *err);
enum rc api_alerts(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err);
enum rc api_history(struct agent_api *a, const struct api_params *p, struct buf *out,
                    struct err *err);
enum rc api_limits(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err);
enum rc api_fleet(struct agent_api *a, const struct api_params *p, struct buf *out,
                  struct err *err);
void api_add_processes(struct agent_api *a, struct json_out *w); /* key and list */
void api_add_event(struct json_out *w, const struct telemetry_event *e);
extern const char *const api_severities[]; /* their words */
void api_add_alerts(struct agent_api *a, struct json_out *w);
/* Counts of firing alerts by severity, and the worst of them in brief: two keys. */
void api_add_firing(struct agent_api *a, struct json_out *w);

/* ---- api_fleet.c */
void api_fleet_open(struct agent_api *a);
void api_fleet_close(struct agent_api *a);

/* ---- api_brief.c */
enum {
    API_BRIEF = 16,            /* values of a GPU in a node's document */
    API_BRIEF_ALERTS_MAX = 32, /* alerts of a node in a fleet */
    API_BRIEF_JOBS_MAX = 64,   /* and ranks of jobs */
    API_BRIEF_NAME_MAX = 128   /* bytes of a name there */
};
extern const char *const api_brief[API_BRIEF];
struct api_brief {
    char host[URL_HOST_MAX];
    int64_t critical, warning; /* alerts that fire */
    struct buf members;        /* JSON: version, demo, gpus, now, model, alerts, jobs */
};
/* Of another agent's document; `out->members` is the caller's, set up.  RC_PARSE: it is none. */
enum rc api_brief_of(const char *text, size_t len, struct api_brief *out, struct err *err) MUST_USE;
void api_add_jobs(struct agent_api *a, struct json_out *w); /* key and list */

/* ---- api_live.c */
void api_live(void *arg, struct http_exchange *x);
void api_live_free(struct agent_api *a);
size_t api_live_count(struct agent_api *a); /* who listens; any thread */

/* ---- api_page.c */
void api_page(void *arg, struct http_exchange *x);
void api_openapi(void *arg, struct http_exchange *x);
extern const char api_page_fields[];

#endif

/* SPDX-License-Identifier: MIT */
/* agent_int: what the files of the agent share.
 *
 *   agent_loop.c         start and stop, the sampling thread's turn, events
 *   publish.c            from what came in to what is shown: history first, then everybody
 *   collector_threads.c  threads that run host sources
 *   agent_inventory.c    what this machine is, from `stoker detect`, once
 *   app_scrape.c         the thread that asks applications
 *   serve_models.c       what our model server says, as the table's own metrics
 *   replay.c             a recording, or the demo, in the place of all sources
 *   demo_script.c        what the demo shows
 *   demo.c               the demo below /demo/ of an agent that measures
 *   bundle.c             the last minutes as a tar
 *   agent_http.c         HTTP: /metrics, /health, and the API's routes
 *   xid_merge.c          XIDs that two sources tell, counted once
 *   kernel_faults.c      the kernel's log: what an earlier run told, what counts
 *   gpu_users.c          who worked on a GPU
 *   agent_status.c       the agent about itself, as values and as JSON
 *
 * Every writer has a table of its own (a feed), so that one that hangs holds up no other.  The
 * sampling thread alone writes the table that is shown, once a second, after the history has it.
 *
 *     files ─── feed ┐
 *     mounts ── feed ┤
 *     scrape ── feed ┼─ sampling thread ─► ring (synced) ─► shown ─► HTTP threads
 *     GPU child feed ┘        │ alerts, events, recording */
#ifndef AGENT_AGENT_INT_H
#define AGENT_AGENT_INT_H
#include "agent/agent.h"
#include "agent/api/agent_api_int.h"
#include "http/http.h"
#include "telemetry/collect/collect.h"
#include "telemetry/kmsg/kmsg.h"
#include "telemetry/record/stream.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    AGENT_COLLECTOR_THREADS = 2,   /* files that answer at once; file systems that may not */
    AGENT_COLLECTORS_MAX = 32,     /* host sources, of all threads */
    AGENT_SCRAPES_MAX = 32,        /* endpoints of applications */
    AGENT_FEEDS_MAX = 12,          /* tables that are brought together */
    AGENT_EVENTS_TURN_MAX = 256,   /* events taken from a feed in one turn */
    AGENT_STACK_BYTES = 256 << 10, /* of each thread */
    AGENT_SHOW_MS = 150,           /* after a second began its values are shown */
    AGENT_STALE_MS = 10000,        /* a source silent for so long, or three periods, is unknown */
    AGENT_HANG_MS = 5000,          /* a source that has not returned for so long is told */
    AGENT_DEAD_MS = 10000,         /* without a second shown: /health says so */
    AGENT_JUMP_MS = 2000,          /* the wall clock against the monotonic one: a jump */
    AGENT_STOP_MS = 3000,          /* for threads to end */
    AGENT_TOKENS_MAX = 1024,       /* changes of the token in the agent's life */
    AGENT_REFRESH_MS = 10000,      /* between two looks at the words of what fires */
    AGENT_RING_RETRY_MS = 60000,   /* between two tries to open the history */
    AGENT_REPLAY_RING_BYTES = 64 << 20, /* history of a replay */
    AGENT_BUNDLES_MAX = 8,              /* frozen by incidents, oldest removed */
    AGENT_INCIDENT_AFTER_MS = 60000,    /* what happens after one belongs to it */
    AGENT_INCIDENT_EVERY_MS = 600000    /* at most one bundle in this time */
};
#define AGENT_MS INT64_C(1000000)

/* ---- a writer's table and how it maps to the one shown */
struct feed_source {
    unsigned shown;     /* the source's number there */
    int64_t batch_ns;   /* time of its latest batch; 0: none yet */
    int64_t changed_ns; /* monotonic: when that was seen first */
    int64_t stale_ns;   /* silent for so long: unknown */
    bool stale, used;
};
struct feed_map_entry {
    uint32_t id; /* shown; TELEMETRY_NONE: left out */
    uint32_t generation,
        id_generation; /* of its own series and the one shown, when it was placed */
};
struct feed {
    struct telemetry *t;        /* owned */
    struct feed_map_entry *map; /* owned: its ids to those shown */
    size_t mapped, cap;
    struct feed_source sources[TELEMETRY_SOURCES_MAX];
    uint64_t events; /* taken so far */
    uint64_t docs;   /* the newest change taken */
};

/* ---- collector_threads.c */
struct thread_source {
    const struct collector *c;
    size_t thread;
    void *state;
    int64_t period_ns;
    _Atomic int64_t begun_ns; /* monotonic; 0: it does not run */
    _Atomic int64_t done_ns;  /* monotonic: last end; 0: never */
    _Atomic int64_t cost_ns;  /* of the last call */
    _Atomic uint64_t late;    /* calls that missed their second */
    bool told;                /* the sampling thread's: its hang was told */
};
struct collector_thread {
    struct agent *a;
    size_t feed;
    size_t index;
    pthread_t thread;
    bool on;
    struct kmsg *kmsg; /* of thread 0 */
};

/* ---- app_scrape.c */
struct scrape_target {
    char *url, *name;        /* owned; name is the source's */
    _Atomic int64_t done_ns; /* monotonic: the last good one */
    _Atomic int64_t cost_ns;
    _Atomic uint64_t failed;
    _Atomic bool up;
    int64_t next_ns, wait_ns; /* the thread's: its next turn, and backoff */
};
struct scraper;

/* ---- agent_http.c */
struct page_text { /* of one second */
    struct buf text;
    uint64_t of; /* agent.seconds + 1; 0: never made */
};

struct agent {
    struct agent_opts o;
    char host[256];
    char address[320]; /* of the page, where it can be told: "http://node7:8090/" */
    int64_t begun_wall_ns, begun_ns;

    /* ---- the sampling thread's */
    struct feed feeds[AGENT_FEEDS_MAX];
    size_t feed_count;
    struct telemetry *shown; /* owned */
    double *next, *copy; /* owned: values to show, values of a feed; TELEMETRY_SERIES_MAX each */
    unsigned char *source_of; /* owned: of each series shown */
    size_t placed;            /* series shown that source_of knows */
    uint64_t renewed;         /* of `shown`, when source_of was filled */
    bool dirty[TELEMETRY_SOURCES_MAX];
    int64_t batch_ns[TELEMETRY_SOURCES_MAX];
    unsigned self;         /* our own source */
    struct gpu_child *gpu; /* NULL: none */
    size_t gpu_feed;
    struct history *ring;       /* NULL: none */
    pthread_rwlock_t view;      /* read by whoever uses ring or alerts on another thread */
    char ring_why[ERR_MSG_MAX]; /* under `lock`: why there is no history; "" */
    int64_t refresh_ns;         /* monotonic: what fires is told in its new words */
    int64_t ring_retry_ns, last_time_ns, clock_off_ns;
    bool temp_ring;  /* made for a replay: removed at the end */
    char *ring_path; /* owned */
    bool ring_small; /* it has no room for the names of some series, which is told */
    struct alerts *alerts;
    struct alert_sender *sender;
    struct alert_rule *hurried; /* owned: the demo's; NULL: none */
    struct player *player;      /* NULL: live */
    struct xids *xids;
    struct faults *faults;
    struct gpu_users *gpu_users;
    struct silences *silences;
    struct alert_state_file *alert_state_file; /* NULL: not kept */
    int record_fd;                             /* -1: none */
    struct stream_writer *record;
    struct buf record_buf;
    size_t recorded;         /* series written */
    uint32_t *recorded_born; /* owned: by id, telemetry_generation() then; TELEMETRY_SERIES_MAX */
    uint64_t recorded_renewed;
    int64_t incident_ns, bundled_ns; /* monotonic: a bundle is due, was begun; 0: none */
    struct freezer *freezer;         /* makes it; NULL: none does */
    struct buf docs;                 /* scratch */
    pthread_t thread;
    bool thread_on;
    int wake_fd;

    /* ---- between threads */
    pthread_mutex_t lock;           /* wants, ring_why, fresh opts, text */
    pthread_mutex_t show;           /* while a second's values are put in place, and read whole */
    bool want_release, want_attach; /* of the driver */
    bool want_refresh;              /* silences have changed */
    const struct agent_opts *fresh; /* to take over; NULL: none */
    struct err fresh_err;
    pthread_cond_t taken, halt; /* fresh opts were; collector threads end (monotonic clock) */
    _Atomic bool stop, ended, caught_up, rest;
    _Atomic uint64_t seconds, missed, ring_errors, record_bytes;
    _Atomic int64_t turned_ns; /* monotonic: end of the last turn */
    int kernel_log; /* errno of opening the kernel's log; 0: it is read.  Set before any thread */
    _Atomic int gpu_state;
    _Atomic bool driver_hangs;         /* a call of it, though others may be answered */
    char gpu_why[TELEMETRY_VALUE_MAX]; /* under `lock` */

    /* ---- others */
    struct collector_thread threads[AGENT_COLLECTOR_THREADS];
    struct thread_source sources[AGENT_COLLECTORS_MAX];
    size_t source_count;
    struct scraper *scraper;
    struct agent_api *api;
    struct demo *demo; /* NULL: none, this one plays */
    struct http_server *http, *http_metrics;
    _Atomic(const char *) token;       /* of now; NULL: none */
    _Atomic(const char *) serve_token; /* of the model server; NULL: that one */
    char *tokens[AGENT_TOKENS_MAX];    /* owned: those that were read, until the end */
    size_t token_count;
    int port, metrics_port;
    struct http_route *routes; /* owned */
    size_t route_count;
    struct page_text texts[2]; /* under `show`: /metrics as Prometheus' text, as OpenMetrics */
    pthread_mutex_t packing;   /* of their packed forms; never held with `show` */
    struct page_text packed[2];
    _Atomic uint64_t scrapes;
    _Atomic int64_t scrape_ns; /* to write the last text */
    _Atomic int64_t sync_ns;   /* to write and sync the last second */
    _Atomic uint64_t events[TELEMETRY_EVENT_KINDS];
};

/* ---- agent_loop.c */
void agent_event(struct agent *a, enum telemetry_event_kind kind, int gpu, int code,
                 const char *fmt, ...) PRINTF_LIKE(5, 6); /* the sampling thread's alone */
void agent_take_event(struct agent *a, const struct telemetry_event *e);
int64_t agent_wall_ns(void);
enum rc thread_start(pthread_t *out, void *(*fn)(void *), void *arg, struct err *err) MUST_USE;

/* ---- publish.c */
size_t feed_add(struct agent *a, size_t series_max);
void feed_stale(struct agent *a, size_t feed, const char *source, int64_t period_ns);
/* Events and documents of all feeds, then their values as the second `time_ns`. */
void publish_second(struct agent *a, int64_t time_ns);
void publish_free(struct agent *a);
enum rc publish_record_open(struct agent *a, struct err *err) MUST_USE;
void publish_record_event(struct agent *a, const struct telemetry_event *e);
enum rc publish_history_open(struct agent *a, struct err *err) MUST_USE;
void publish_history_retry(struct agent *a);

/* ---- xid_merge.c */
struct xids *xids_new(void);
void xids_free(struct xids *x); /* NULL is fine */
/* An event of a feed, the kernel's log or the driver's; false: it was told already. */
bool xids_take(struct agent *a, struct telemetry_event *e, bool of_log);
void xids_put(struct agent *a, int64_t time_ns);      /* into a->next */
int64_t xids_last_ns(const struct agent *a, int gpu); /* when the last one was; 0: none */
bool xids_know_gpus(const struct agent *a);           /* the driver has said where they are */

/* ---- kernel_faults.c */
struct faults *faults_new(void);
void faults_free(struct faults *f); /* NULL is fine */
void faults_begin(struct agent *a); /* when the history is open */
/* An event of a feed, the kernel's log or another: counted, told, or left out. */
void faults_take(struct agent *a, struct telemetry_event *e, bool of_log);
void faults_turn(struct agent *a, bool end);                /* takes what waited */
void faults_put(struct agent *a);                           /* into a->next */
void faults_clock_set(struct agent *a, int64_t by_ns);      /* its times move with the wall clock */
bool faults_judged(const struct agent *a, int64_t time_ns); /* what happened then counts */

/* ---- silences.c; any thread */
struct silences *silences_new(const char *history); /* NULL: not kept */
void silences_free(struct silences *x);             /* NULL is fine */
/* The text of a file of them; what is not one is left out and counted. */
size_t silences_take(struct silences *x, const char *text, size_t len);
/* Where a damaged file of them was moved at the start; NULL: there was none. */
const char *silences_moved(const struct silences *x);
/* Does it speak of a rule that is on, and of labels that its series have?  With "force": true it
 * need not. */
enum rc silences_check(const char *text, size_t len, const struct alert_rule *rules, size_t count,
                       const struct telemetry *t, struct err *err) MUST_USE;
/* JSON: alert, labels, for, by, comment, acknowledge. */
enum rc silences_add(struct silences *x, const char *text, size_t len, uint64_t *out_id,
                     struct err *err) MUST_USE;
enum rc silences_end(struct silences *x, uint64_t id, struct err *err) MUST_USE;
bool silences_cover(struct silences *x, const char *rule, const struct telemetry_series *subject,
                    int64_t now_ns);
/* Members silenced and acknowledged of an alert. */
void silences_mark(struct silences *x, const char *rule, const struct telemetry_series *subject,
                   int64_t now_ns, struct json_out *w);
void silences_alert_over(struct silences *x, const char *rule,
                         const struct telemetry_series *subject);
void silences_list(struct silences *x, struct json_out *w);

/* ---- alert_state_file.c; the sampling thread's */
void alert_state_begin(struct agent *a); /* when history and alerts are open; restores what fired */
/* Where a damaged file of it was moved; NULL: there was none. */
const char *alert_state_moved(const struct agent *a);
void alert_state_changed(struct agent *a); /* an alert has fired or ended */
void alert_state_turn(struct agent *a);    /* writes what has changed */
void alert_state_end(struct agent *a);     /* when the sender has stopped */

/* ---- gpu_users.c */
struct gpu_users *gpu_users_new(void);
void gpu_users_free(struct gpu_users *w); /* NULL is fine */
void gpu_users_take(struct gpu_users *w,
                    const char *processes); /* the document; NULL: there is none */
/* At that time of the wall clock; false: nobody's, or it is too long ago. */
bool gpu_users_find(const struct gpu_users *w, int gpu, int64_t time_ns, struct alert_whose *out);
void gpu_users_text(const struct alert_whose *w, char *out, size_t cap); /* "job 17, user x" */

/* ---- agent_status.c */
void status_put(struct agent *a, const char *metric, const struct telemetry_label *labels,
                size_t count, double value);
void status_publish(struct agent *a, int64_t time_ns); /* into a->next */
void status_members(void *arg, struct json_out *w);    /* an object's; any thread */

/* ---- collector_threads.c */
void collector_threads_plan(struct agent *a); /* which sources, on which thread */
enum rc collector_threads_start(struct agent *a, struct err *err) MUST_USE;
void collector_threads_watch(struct agent *a); /* tells what hangs */
bool collector_threads_stop(struct agent *a);  /* false: one does not end */

/* ---- agent_inventory.c */
void inventory_take(struct agent *a, struct telemetry *t); /* as a document; may take seconds */

/* ---- app_scrape.c */
enum rc scrape_start(struct agent *a, struct err *err) MUST_USE;
void scrape_stop(struct scraper *s);
void scrape_reload(struct agent *a, const struct agent_opts *o);
/* Does our model server answer?  Unknown: there is none. */
struct maybe scrape_serve_up(struct scraper *s);
/* Calls for each target with the lock held. */
void scrape_each(struct scraper *s, void (*fn)(void *arg, struct scrape_target *t), void *arg);

/* ---- dcgm.c */
enum rc dcgm_take(struct agent *a, struct telemetry *t, const char *text, size_t len,
                  struct err *err) MUST_USE;

/* ---- serve_models.c */
struct models_shown;
struct models_shown *models_shown_new(void);
void models_shown_take(struct models_shown *m, struct telemetry *t, const char *text,
                       int64_t now_ns);
void models_shown_free(struct models_shown *m);

/* ---- replay.c */
enum rc player_open(struct agent *a, struct err *err) MUST_USE;
/* One second further: its time, or false at the end. */
bool player_step(struct player *p, int64_t *out_time_ns);
int64_t player_due_ns(const struct player *p, int64_t time_ns); /* monotonic */
void player_wake(struct player *p); /* after a rest: near to the present */
void player_story(const struct player *p, struct json_out *w); /* null: it is none */
void player_describe(const struct player *p, struct json_out *w);
void player_free(struct player *p);

/* ---- demo.c */
struct demo *demo_new(struct agent *a);
void demo_free(struct demo *d);                    /* after the servers; NULL is fine */
void demo_ask(void *arg, struct http_exchange *x); /* of an agent: what is below /demo/ */
void demo_turn(struct agent *a);                   /* once a second */
/* A played story stands still, or goes on where time is now.  Any thread. */
void agent_rest(struct agent *a, bool rest);

/* ---- bundle.c */
void bundle_freeze(struct agent *a);          /* begins one beside the history; the oldest go */
void bundle_look(struct agent *a, bool wait); /* tells of one that is ready */

/* ---- agent_http.c */
enum rc front_start(struct agent *a, struct err *err) MUST_USE;
enum rc front_run(struct agent *a, struct err *err) MUST_USE;
void front_stop(struct agent *a);

#endif

/* SPDX-License-Identifier: MIT */
/* agent_int: what the files of the agent share.
 *
 *   agent.c    start and stop, the sampling thread's turn, events
 *   show.c     from what came in to what is shown: history first, then everybody
 *   lanes.c    threads that run host sources
 *   inventory.c  what this machine is, from `stoker detect`, once
 *   scrape.c   the thread that asks applications
 *   models.c   what our model server says, as the table's own metrics
 *   replay.c   a recording, or the demo, in the place of all sources
 *   bundle.c   the last minutes as a tar
 *   front.c    HTTP: /metrics, /health, and the API's routes
 *   xids.c     XIDs that two sources tell, counted once
 *   status.c   the agent about itself, as values and as JSON
 *
 * Every writer has a table of its own (a feed), so that one that hangs holds up no other.  The
 * sampling thread alone writes the table that is shown, once a second, after the history has it.
 *
 *     lane 0 ── feed ┐
 *     lane 1 ── feed ┤
 *     scrape ── feed ┼─ sampling thread ─► ring (synced) ─► shown ─► HTTP threads
 *     GPU child feed ┘        │ alerts, events, recording */
#ifndef AGENT_AGENT_INT_H
#define AGENT_AGENT_INT_H
#include "agent/agent.h"
#include "agent/api.h"
#include "http/http.h"
#include "metrics/stream.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    AGENT_LANES = 2,               /* files that answer at once; file systems that may not */
    AGENT_COLLECTORS_MAX = 32,     /* host sources, all lanes */
    AGENT_SCRAPES_MAX = 32,        /* endpoints of applications */
    AGENT_DEMO_GPUS = 8,           /* that the demo's one is played as */
    AGENT_FEEDS_MAX = 12,          /* tables that are brought together */
    AGENT_EVENTS_TURN_MAX = 256,   /* events taken from a feed in one turn */
    AGENT_DOC_MAX = 4 << 20,       /* bytes of a document */
    AGENT_STACK_BYTES = 256 << 10, /* of each thread */
    AGENT_SHOW_MS = 150,           /* after a second began its values are shown */
    AGENT_STALE_MS = 10000,        /* a source silent for so long, or three periods, is unknown */
    AGENT_HANG_MS = 5000,          /* a source that has not returned for so long is told */
    AGENT_DEAD_MS = 10000,         /* without a second shown: /health says so */
    AGENT_JUMP_MS = 2000,          /* the wall clock against the monotonic one: a jump */
    AGENT_STOP_MS = 3000,          /* for threads to end */
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
struct feed_place {
    uint32_t id;            /* shown; TELE_NONE: left out */
    uint32_t born, id_born; /* of its own series and the one shown, when it was placed */
};
struct feed {
    struct tele *t;         /* owned */
    bool again;             /* of the demo: a further GPU of the same recording */
    struct feed_place *map; /* owned: its ids to those shown */
    size_t mapped, cap;
    struct feed_source sources[TELE_SOURCES_MAX];
    uint64_t events; /* taken so far */
    uint64_t docs;   /* the newest change taken */
};

/* ---- lanes.c */
struct lane_source {
    const struct collector *c;
    size_t lane;
    void *state;
    int64_t period_ns;
    _Atomic int64_t begun_ns; /* monotonic; 0: it does not run */
    _Atomic int64_t done_ns;  /* monotonic: last end; 0: never */
    _Atomic int64_t cost_ns;  /* of the last call */
    _Atomic uint64_t late;    /* calls that missed their second */
    bool told;                /* the sampling thread's: its hang was told */
};
struct lane {
    struct agent *a;
    size_t feed;
    size_t index;
    pthread_t thread;
    bool on;
    struct kmsg *kmsg; /* of lane 0; NULL: may not be read */
};

/* ---- scrape.c */
struct scrape_target {
    char *url, *name;        /* owned; name is the source's */
    _Atomic int64_t done_ns; /* monotonic: the last good one */
    _Atomic int64_t cost_ns;
    _Atomic uint64_t failed;
    _Atomic bool up;
    int64_t next_ns, wait_ns; /* the thread's: its next turn, and backoff */
};
struct scraper;

struct agent {
    struct agent_opts o;
    char host[256];
    int64_t begun_wall_ns, begun_ns;

    /* ---- the sampling thread's */
    struct feed feeds[AGENT_FEEDS_MAX];
    size_t feed_count;
    struct tele *shown;       /* owned */
    double *next, *copy;      /* owned: values to show, values of a feed; TELE_SERIES_MAX each */
    unsigned char *source_of; /* owned: of each series shown */
    size_t placed;            /* series shown that source_of knows */
    uint64_t renewed;         /* of `shown`, when source_of was filled */
    bool dirty[TELE_SOURCES_MAX];
    int64_t batch_ns[TELE_SOURCES_MAX];
    unsigned self;         /* our own source */
    struct gpu_child *gpu; /* NULL: none */
    size_t gpu_feed;
    struct ring *ring;          /* NULL: none */
    pthread_rwlock_t view;      /* read by whoever uses ring or alerts on another thread */
    char ring_why[ERR_MSG_MAX]; /* under `lock`: why there is no history; "" */
    int64_t ring_retry_ns, last_time_ns, clock_off_ns;
    bool temp_ring;  /* made for a replay: removed at the end */
    char *ring_path; /* owned */
    struct alerts *alerts;
    struct alert_sender *sender;
    const struct alert_rule *rules; /* of alerts */
    struct player *player;          /* NULL: live */
    struct xids *xids;
    int record_fd; /* -1: none */
    struct stream_writer *record;
    struct buf record_buf;
    size_t recorded;         /* series written */
    uint32_t *recorded_born; /* owned: by id, tele_born() then; TELE_SERIES_MAX */
    uint64_t recorded_renewed;
    uint64_t record_events;
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
    const struct agent_opts *fresh; /* to take over; NULL: none */
    struct err fresh_err;
    pthread_cond_t taken, halt; /* fresh opts were; lanes end (monotonic clock) */
    _Atomic bool stop, ended, caught_up;
    _Atomic uint64_t seconds, missed, ring_errors, record_bytes;
    _Atomic int64_t turned_ns; /* monotonic: end of the last turn */
    _Atomic int gpu_state;
    char gpu_why[TELE_VALUE_MAX]; /* under `lock` */

    /* ---- others */
    struct lane lanes[AGENT_LANES];
    struct lane_source sources[AGENT_COLLECTORS_MAX];
    size_t source_count;
    struct scraper *scraper;
    struct api *api;
    struct http_server *http, *http_metrics;
    int port, metrics_port;
    struct http_route *routes; /* owned */
    size_t route_count;
    struct buf text; /* under `show`: /metrics of second text_of */
    uint64_t text_of;
    bool text_made;
    _Atomic uint64_t scrapes;
    _Atomic int64_t scrape_ns; /* to write the last text */
    _Atomic int64_t sync_ns;   /* to write and sync the last second */
    _Atomic uint64_t events[TELE_EVENT_KINDS];
};

/* ---- agent.c */
void agent_event(struct agent *a, enum tele_event_kind kind, int gpu, int code, const char *fmt,
                 ...) PRINTF_LIKE(5, 6); /* the sampling thread's alone */
void agent_take_event(struct agent *a, const struct tele_event *e);
int64_t agent_wall_ns(void);
enum rc thread_start(pthread_t *out, void *(*fn)(void *), void *arg, struct err *err) MUST_USE;

/* ---- show.c */
size_t feed_add(struct agent *a, size_t series_max);
void feed_stale(struct agent *a, size_t feed, const char *source, int64_t period_ns);
/* Events and documents of all feeds, then their values as the second `time_ns`. */
void show_second(struct agent *a, int64_t time_ns);
void show_free(struct agent *a);
enum rc show_record_open(struct agent *a, struct err *err) MUST_USE;
void show_record_event(struct agent *a, const struct tele_event *e);
enum rc show_ring_open(struct agent *a, struct err *err) MUST_USE;
void show_ring_retry(struct agent *a);

/* ---- xids.c */
struct xids *xids_new(void);
void xids_free(struct xids *x); /* NULL is fine */
/* An event of a feed, the kernel's log or the driver's; false: it was told already. */
bool xids_take(struct agent *a, struct tele_event *e, bool of_log);
void xids_put(struct agent *a, int64_t time_ns); /* into a->next */

/* ---- status.c */
void self_put(struct agent *a, const char *metric, const struct tele_label *labels, size_t count,
              double value);
void self_values(struct agent *a, int64_t time_ns); /* into a->next */
void status_members(void *arg, struct json_out *w); /* an object's; any thread */

/* ---- lanes.c */
void lanes_plan(struct agent *a); /* which sources, on which lane */
enum rc lanes_start(struct agent *a, struct err *err) MUST_USE;
void lanes_watch(struct agent *a); /* tells what hangs */
bool lanes_stop(struct agent *a);  /* false: one does not end */

/* ---- inventory.c */
void inventory_take(struct agent *a, struct tele *t); /* as a document; may take seconds */

/* ---- scrape.c */
enum rc scrape_start(struct agent *a, struct err *err) MUST_USE;
void scrape_stop(struct scraper *s);
void scrape_reload(struct agent *a, const struct agent_opts *o);
/* Calls for each target with the lock held. */
void scrape_each(struct scraper *s, void (*fn)(void *arg, struct scrape_target *t), void *arg);

/* ---- dcgm.c */
enum rc dcgm_take(struct agent *a, struct tele *t, const char *text, size_t len,
                  struct err *err) MUST_USE;

/* ---- models.c */
struct models_shown;
struct models_shown *models_shown_new(void);
void models_shown_take(struct models_shown *m, struct tele *t, const char *text, int64_t now_ns);
void models_shown_free(struct models_shown *m);

/* ---- replay.c */
enum rc player_open(struct agent *a, struct err *err) MUST_USE;
/* One second further: its time, or false at the end. */
bool player_step(struct player *p, int64_t *out_time_ns);
int64_t player_due_ns(const struct player *p, int64_t time_ns); /* monotonic */
void player_describe(const struct player *p, struct json_out *w);
void player_free(struct player *p);

/* ---- bundle.c */
void bundle_freeze(struct agent *a);          /* begins one beside the history; the oldest go */
void bundle_look(struct agent *a, bool wait); /* tells of one that is ready */

/* ---- front.c */
enum rc front_start(struct agent *a, struct err *err) MUST_USE;
enum rc front_run(struct agent *a, struct err *err) MUST_USE;
void front_stop(struct agent *a);

#endif

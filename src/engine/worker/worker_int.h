/* SPDX-License-Identifier: MIT */
/* worker_int: what the owner's files of workers share.
 *
 *   worker.c         life, finding a device, asking a worker and waiting for its reply
 *   worker_link.c    one process: its start, its loss, its end
 *   worker_watch.c   the thread that starts, hears, watches and reaps
 *   worker_eng.c     the engine that stands for a model of a worker
 *   worker_ring.c, worker_msg.c, worker_main.c: both sides, and the other one
 *
 * Invariants.
 *  1. One lock guards workers, links and models.  It is held for list work and for messages that
 *     go at once; nobody waits for a process under it.  A link's own lock guards its tickets.
 *  2. Processes are started and reaped only by the watching thread: a worker dies with the
 *     thread that started it.
 *  3. A link is lost once, under the lock: the reason is written before the flag is set.  Its
 *     memory lives until the last batch that is in it has been given up.
 *  4. A model is in a link when that link said so, and in no other. */
#ifndef ENGINE_WORKER_WORKER_INT_H
#define ENGINE_WORKER_WORKER_INT_H
#include "base/buf.h"
#include "engine/worker/worker.h"
#include "engine/worker/worker_msg_int.h"
#include "engine/worker/worker_ring_int.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WORKER_KINDS_MAX = 8,   /* plug-ins */
    WORKER_NAME_MAX = 17,   /* bytes of a plug-in's name and its NUL */
    WORKER_GONE_MAX = 8,    /* killed ones of a device that have not gone yet */
    WORKER_LINE_MAX = 512,  /* bytes of a line that a worker prints: longer ones are cut */
    WORKER_LINES_MAX = 100, /* of them in one WORKER_LINES_MS: the rest is dropped and counted */
    WORKER_LINES_MS = 10000,
    WORKER_SAID_MAX = 256 << 10, /* bytes of lines that are not said yet */
    WORKER_TALK_MAX = 64 << 10,  /* bytes read of what one printed, in one turn */
    WORKER_RELOAD_MS = 30000,    /* before a model that could not be loaded again is tried again */
    WORKER_TURN_MS = 100,        /* between looks at heartbeats */
    WORKER_END_MS_MAX = 2000,    /* for processes to end by themselves */
    WORKER_SPIN_NS_MAX = 400000  /* looks for rows without sleeping, while batches are that short */
};

struct link { /* one process */
    struct wring ring;
    size_t refs;
    pid_t pid;
    int sock, talk;    /* messages; what it prints; -1: closed */
    bool up;           /* it said hello */
    bool reaped;       /* there is no such process any more */
    int64_t closed_ms; /* its socket did; 0: it has not */
    _Atomic bool lost;
    struct err why; /* when lost */
    int64_t started_ms, sign_ms;
    uint64_t beats;
    char line[WORKER_LINE_MAX]; /* begun */
    size_t line_len;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t freed;
    uint32_t next;           /* ticket */
    unsigned busy;           /* slots: a bit each */
    _Atomic int64_t late_ns; /* when the last batch in it is too late; 0: none was */
};

struct pending_call { /* somebody waits for a reply; on that one's stack */
    struct pending_call *next;
    uint32_t number;
    bool done, lost;
    struct msg_response *response;
};

struct plugin_kind { /* a plug-in */
    char name[WORKER_NAME_MAX];
    bool known;
    char text[MSG_TEXT_MAX];
    struct eng_about about;
    struct eng_ops ops;
};

struct device_worker { /* a device, with a process or without */
    struct workers *all;
    struct plugin_kind *kind;
    char device[WORKER_DEVICE_MAX];
    struct link *link;    /* NULL: there is none */
    struct proxy *models; /* that it has, or had and shall have again */
    struct pending_call *calls;
    bool asked; /* somebody waits for its start */
    bool drop;  /* it is not wanted after all */
    int64_t start_ms, backoff_ms;
    uint64_t starts, failures;
    struct err why; /* of the last failure */
    pid_t gone[WORKER_GONE_MAX];
    size_t gone_count;
    int64_t lines_ms; /* since when lines are counted */
    size_t lines;
};

struct posted_batch {  /* a batch on its way */
    struct link *link; /* a reference */
    uint32_t ticket;
    int64_t posted_ns, until_ns;
    float *out;
    size_t floats;
};

struct proxy {      /* a model in a worker */
    struct eng eng; /* first: the two are one */
    struct device_worker *worker;
    struct proxy *next;
    struct msg_request request; /* what it was loaded with */
    struct link *link;          /* that has it, not a reference: only compared; NULL: none */
    uint32_t reload;            /* the message that asks for it again; 0: none is on its way */
    int64_t reload_ms;          /* too late then, or not before when none is on its way */
    uint64_t identity;          /* of its files */
    char describe[MSG_TEXT_MAX];
    struct err why; /* it could not be loaded again */
    /* of the thread of the device's queue */
    struct posted_batch flying[ENG_IN_FLIGHT];
    size_t flying_count;
    int64_t usual_ns; /* for which it waited lately */
    _Atomic bool nudged;
};

struct workers {
    struct workers_opts o;
    char *exe; /* owned; NULL: this program */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool watching, stop;
    bool hurry;      /* nobody waits for loads any more */
    int wake;        /* eventfd */
    struct buf said; /* lines for o.say, which the watching thread calls without the lock */
    int64_t spin_ns;
    struct plugin_kind kinds[WORKER_KINDS_MAX];
    size_t kind_count;
    struct device_worker *list[WORKERS_MAX];
    size_t count;
    uint32_t numbers, handles;
};

/* ---- worker.c */
/* The implementation of device "NAME" or "NAME:NUMBER", as plugin_engine(): what it says of
 * itself came from its worker, which is started if it was not.  Good as long as `w`.  Without
 * `wait`, *out stays as it is when no worker has said anything of that kind yet. */
enum rc workers_find(struct workers *w, const char *device, bool wait, const struct eng_ops **out,
                     struct err *err) MUST_USE;
/* The lock is held here and below. */
struct device_worker *worker_of(struct workers *ws, const char *device, struct err *err); /* made */
enum rc worker_up(struct device_worker *w, struct err *err) MUST_USE; /* started; waits */
/* Sends and waits for the reply; a worker that does not answer is lost. */
enum rc worker_call(struct device_worker *w, struct msg_request *request,
                    struct msg_response *response, int64_t ms, struct err *err) MUST_USE;
void workers_wake(struct workers *ws);
void workers_say(struct workers *ws, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- worker_link.c */
/* A process for the device; it has not said hello yet. */
enum rc link_start(struct device_worker *w, struct err *err) MUST_USE;
/* The worker has no link then; what waits in it is told.  It is killed, not waited for. */
void link_lost(struct device_worker *w, struct link *l, const char *fmt, ...) PRINTF_LIKE(3, 4);
void link_release(struct link *l);
const char *link_call(const struct link *l);                  /* in which it is */
void link_state(const struct link *l, char *out, size_t cap); /* ", in state D, asleep in …" */
/* Reads what it printed and says its lines. */
void link_listen(struct device_worker *w, struct link *l);

/* ---- worker_watch.c */
void *workers_watch(void *workers);

/* ---- worker_eng.c */
extern const struct eng_ops worker_ops;                            /* but for `name` and `about` */
void proxy_reload(struct proxy *p, int64_t now_ms, size_t before); /* the lock is held */
void proxy_reloaded(struct proxy *p, const struct msg_response *a, int64_t now_ms);

#endif

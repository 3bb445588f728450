/* SPDX-License-Identifier: MIT */
/* http_int: what the files of http/ share.
 *
 *     http_parse.c   bytes to a request; pure, knows no socket
 *     route.c   which route, is the token right, bodies of our own errors
 *     http_reply.c   exchanges: made, answered from any thread, thrown away
 *     http_stream.c  replies without an end
 *     inlet.c   bodies that are read while they come
 *     conn.c    one connection: reading, waiting, writing, closing
 *     timer.c   deadlines: one sorted list a kind
 *     tls.c     OpenSSL, opened at run time
 *     listen.c  addresses and accepting
 *     room.c    which connection is closed for a new one
 *     server.c  the loop
 *
 * Threads: everything here belongs to the loop thread, but struct hub and the members of an
 * exchange that say so.  The hub outlives the server while exchanges of it are kept. */
#ifndef HTTP_HTTP_INT_H
#define HTTP_HTTP_INT_H
#include "http/http.h"

#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    HTTP_LINE_MAX = HTTP_TARGET_MAX + 64, /* bytes of a request line: 414 beyond */
    HTTP_CHUNK_LINE_MAX = 256,            /* bytes of a chunk's size and extensions */
    HTTP_REFUSED_BODY_MAX = 64 << 10,     /* read of a refused request, to keep its connection */
    HTTP_LINGER_BYTES_MAX = 64 << 20,     /* thrown away behind a last reply */
    HTTP_SERVER_NAME_MAX = 64,            /* bytes of the Server field; the rest is cut */
    HTTP_READ_BYTES_MAX = 64 << 10,       /* of one read; the buffer is the loop's */
    HTTP_TURN_BYTES_MAX = 1 << 20,        /* written on one connection before others' turn */
    HTTP_TLS_WRITE_MAX = 16 << 10,        /* of one record */
    HTTP_IOV_MAX = 64,                    /* pieces of one write */
    HTTP_ACCEPTS_MAX = 64,                /* connections accepted before others' turn */
    HTTP_EVENTS_MAX = 256,                /* taken from the kernel at a time */
    HTTP_WHY_MAX = 512,                   /* bytes of the reason in an error's body */
    HTTP_PEER_MAX = 64,                   /* bytes of "address:port" */
    HTTP_ROOM_IDLE_MS = 1000,             /* at rest before it may be closed for a new one */
    HTTP_ROOM_CROWD_MS = 100,             /* the same, where its address holds most of all */
    HTTP_ROOM_SILENT_MS = 20,             /* the same, where it never sent a whole head */
    HTTP_ROOM_STALL_MS = 5000,            /* a body or reply barely moved, before the same */
    HTTP_ROOM_STALL_CROWD_MS = 1000,      /* the same, where its address holds most of all */
    HTTP_ROOM_LOOKS_MAX = 4096,           /* connections looked at for the one to be closed */
    HTTP_ROOM_SHARE = 7,                  /* an address's busy connections, in those not busy */
    HTTP_ROOM_TOLD_MS = 60000,            /* between two lines of the log that tell of it */
    HTTP_SPARE_FILES_MAX = 64,            /* descriptors left for everything but connections */
    HTTP_BODY_RATE_MIN = 1024,            /* bytes a second, over the time above body_ms */
    HTTP_LINGER_MS = 2000,                /* for the client to read our last reply */
    HTTP_REAP_MS = 50,                    /* until the loop sees a reply that was sent without it */
    HTTP_DRAIN_IDLE_MS = 200,             /* requests on their way when a drain begins */
    HTTP_ACCEPT_PAUSE_MS = 100,           /* after EMFILE and its like */
    HTTP_BACKLOG = 4096,
    HTTP_DIRECT_BYTES_MAX = 256 << 10, /* of a reply that its own thread may send */
    HTTP_DIRECT_AHEAD_MAX = 2,         /* requests of a connection whose repliers may send */
    HTTP_ECHO_MAX = 128,               /* bytes of a request's own name that come back */
    HTTP_HOST_MAX = 256,               /* bytes of a name in Host or Origin */
    HTTP_PREFIX_BYTES = 256            /* of a reply's head that is made last: status, date, … */
};

/* ---- http_parse.c */
enum http_step {
    HTTP_MORE,      /* all bytes are taken, the request is not whole */
    HTTP_HEAD_DONE, /* once for each request, when its fields are known */
    HTTP_DONE,      /* http_parser_take() gives it */
    HTTP_BAD        /* status and why say it; nothing can follow on this connection */
};

struct http_span { /* offsets in the head */
    uint32_t name, value;
};

/* At rest it owns nothing: head, spans and body are there while a request is read. */
struct http_parser {
    char *head; /* NUL-terminated pieces of it are the request's strings */
    char *body;
    struct http_span *spans;
    const char *why; /* HTTP_BAD; static text */
    size_t body_len, body_cap;
    size_t body_max;
    uint64_t left;     /* of the body or the chunk */
    uint32_t head_len; /* bytes in head */
    uint32_t head_cap;
    uint32_t line;        /* where the line begins that is being read */
    uint32_t path, query; /* offsets in head; query 0: none */
    uint32_t authority;   /* offset of "host:port" in the target; 0: none, Host says it */
    uint32_t extra;       /* bytes of trailers and of the chunk's line */
    uint16_t span_count, span_cap, status;
    uint8_t state, method, minor, hosts, authorizations;
    bool has_line, skipped_line;        /* the request line is there; an empty one was */
    bool has_length, chunked, te;       /* of the body */
    bool close, keep, expect, has_body; /* keep, close: what Connection said */
    bool drops;                         /* its body is counted and not kept */
};

struct http_parsed { /* owned by the exchange */
    char *head;
    struct http_field *fields;
    char *body;
};

void http_parser_init(struct http_parser *p, size_t body_max);
void http_parser_release(struct http_parser *p);
/* Takes bytes up to the next step; returns how many.  With len 0 it may still step. */
size_t http_parse(struct http_parser *p, const char *data, size_t len, enum http_step *out);
/* The request of HTTP_DONE (or what is there of one after HTTP_BAD): strings in *own. */
void http_parser_take(struct http_parser *p, struct http_request *req, struct http_parsed *own);
/* A copy of what HTTP_HEAD_DONE has given; the parser goes on to the body. */
void http_parser_copy_head(const struct http_parser *p, struct http_request *req,
                           struct http_parsed *own);
bool http_parser_idle(const struct http_parser *p); /* no byte of a request is there */
bool http_parser_in_body(const struct http_parser *p);
bool http_parser_keeps(const struct http_parser *p); /* the connection may live on */
/* Percent-decodes; '+' is a space where `plus`.  False: a bad escape or a control character. */
bool http_decode(const char *in, size_t len, bool plus, char *out, size_t cap, size_t *out_len);

/* ---- timer.c */
enum timer_kind { TIMER_HEAD, TIMER_BODY, TIMER_IDLE, TIMER_LINGER, TIMER_WRITE, TIMER_KINDS };

struct timer {
    struct timer *prev, *next; /* NULL: not armed */
    struct conn *conn;
    int64_t due_ns;
    enum timer_kind kind;
};

/* One list a kind: all of a kind wait equally long, so appending keeps it sorted. */
struct timers {
    struct timer list[TIMER_KINDS]; /* heads of rings */
    int64_t ns[TIMER_KINDS];
};

void timers_init(struct timers *t);
void timer_arm(struct timers *t, struct timer *m, enum timer_kind kind, int64_t now_ns);
void timer_stop(struct timer *m);
int64_t timers_next(const struct timers *t);                /* INT64_MAX: none */
struct timer *timers_due(struct timers *t, int64_t now_ns); /* one, stopped; NULL: none */

/* ---- http_reply.c */
struct hub { /* what exchanges and the server share */
    pthread_mutex_t lock;
    pthread_cond_t called; /* a callback or a send returned */
    pthread_cond_t moved;  /* bytes of a streamed body or a stream moved, or a client left */
    struct http_exchange *first, **last; /* answered, not yet taken by the loop */
    struct http_exchange *streams;       /* that have something new for the loop */
    int wake_fd;                         /* -1: the loop has ended */
    bool woken;                          /* wake_fd was written and not yet read */
    pthread_t loop;
    bool has_loop;
    bool draining; /* http_drain() was called */
    int64_t date_s;
    char common[HTTP_PREFIX_BYTES]; /* "Date: …\r\nServer: …\r\n" of that second */
    size_t common_len;
    char server_name[HTTP_SERVER_NAME_MAX + 1]; /* "": none */
    size_t gzip_min;                            /* of http_opts */
    atomic_size_t refs;                         /* the server and every exchange */
    atomic_size_t body_bytes;                   /* of requests */
    atomic_size_t reply_bytes;
};

struct http_exchange {
    struct http_request req;
    struct http_parsed own;
    struct hub *hub;
    /* the loop's */
    struct conn *conn;          /* NULL: let go */
    struct http_exchange *next; /* later on the same connection */
    size_t body_bytes;          /* counted in the hub */
    size_t reply_bytes;         /* counted in the hub */
    bool answered, interim, prefixed, close, kept_alive;
    bool handed;   /* a handler has it */
    bool cors;     /* a page from elsewhere may read the reply */
    bool over;     /* of a stream: it ends when all that is there has left */
    size_t passed; /* bytes of a stream that have left and are forgotten */
    int direct_fd; /* where the replier may send by itself; -1: nowhere.  Fixed once handed */
    /* the reply: the replier's, then the loop's */
    int status;
    char *head;               /* owned; the first HTTP_PREFIX_BYTES are the loop's */
    size_t head_at, head_len; /* what is to be written: head[head_at..head_len) */
    struct buf body;
    size_t sent;     /* of head and body together */
    int64_t sent_ns; /* when a replier had sent all of it; 0: the loop did */
    /* under the hub's lock */
    struct http_exchange *next_reply;
    void (*on_gone)(void *arg);
    void *gone_arg;
    bool replied, calling, sending;
    bool foremost; /* all replies before it on its connection have left */
    bool quiet;    /* a handler has it: its own reply will wake the loop or leave */
    struct http_exchange *follower; /* behind it there; NULL: none */
    /* a stream's, under the hub's lock too; see http_stream.c */
    bool stream; /* written before the loop knows of the reply: the loop may read it then */
    bool ended, flooded, queued;
    unsigned holds;                    /* whoever knows it: the last one frees it */
    struct buf more;                   /* sent, not yet taken by the loop */
    struct http_exchange *next_stream; /* in the hub's list */
    atomic_size_t waiting;             /* bytes sent that the client has not taken */
    atomic_bool pressed;               /* its streamer waits for room */
    /* a streamed body's, under the hub's lock too; see inlet.c */
    bool streamed, in_end, in_paused;
    int in_status;      /* why it will never be whole; 0: it may */
    const char *in_why; /* static text */
    struct buf in;      /* read, from in_at on not yet taken */
    size_t in_at;
    atomic_bool gone;
    char peer[HTTP_PEER_MAX];
};

struct hub *hub_new(const char *server_name);
void hub_unref(struct hub *h);
struct http_exchange *exchange_new(struct hub *h, struct conn *c);
void exchange_free(struct http_exchange *x);
/* The loop lets go of it: frees it, or tells its keeper that the client is gone. */
void exchange_detach(struct http_exchange *x);
/* All replies since the last call, in order; the loop owns them. */
struct http_exchange *hub_take(struct hub *h);
/* The reply's head behind the prefix, and its body; no lock, no queue. */
void exchange_answer(struct http_exchange *x, int status, const char *type, struct buf *body,
                     const char *fields);
/* The head alone, without a length. */
void exchange_answer_head(struct http_exchange *x, const char *type, const char *fields);
/* It has its reply: into the hub's list, unless the client is gone.  The lock is held. */
void hub_put(struct hub *h, struct http_exchange *x);
void hub_wake(struct hub *h); /* the lock is held */
/* Status line, date and what the connection needs; before the first write. */
void exchange_prefix(struct http_exchange *x);
size_t exchange_bytes(const struct http_exchange *x); /* of head and body to be sent */

/* ---- http_stream.c: the loop's side */
/* The connection lets go of it. */
void stream_leave(struct http_exchange *x);
void stream_drop(struct http_exchange *x); /* one of its holds */
/* Bytes of it have left. */
void stream_sent(struct http_exchange *x, size_t n);
/* All streams with something new, one after another; NULL: no more.  *out_flooded: its client
 * does not read.  Each has one hold, to be dropped. */
struct http_exchange *stream_next(struct hub *h, bool *out_flooded);

/* ---- inlet.c: the loop's side */
void inlet_open(struct conn *c, struct http_exchange *x);
void inlet_close(struct conn *c); /* nothing more is put there; fine without one */
void inlet_put(struct conn *c, const char *data, size_t len, bool end);
void inlet_fail(struct conn *c, int status, const char *why); /* and closes it */
struct conn *inlet_ready(struct http_server *s);

/* ---- route.c */
struct router {
    const struct http_route **sorted; /* by path, then method */
    size_t count;
    const char **paths; /* each once, for hints */
    size_t path_count;
};
void router_init(struct router *r, const struct http_opts *o);
void router_release(struct router *r);
/* NULL: *status is 404 or 405, and of 405 *allow lists the methods (in `allow`, cap bytes). */
const struct http_route *router_find(const struct router *r, const char *path,
                                     enum http_method method, int *status, char *allow, size_t cap);
/* The least that is asked for at a path that has no route for this method. */
enum http_scope router_scope(const struct router *r, const char *path);
const char *http_status_text(int status);
const char *router_nearest(const struct router *r, const char *path);
void error_json(const char *why, struct buf *out);

/* ---- guard.c */
struct guard {
    pthread_mutex_t lock;  /* of the keys: other threads change them */
    struct http_keys keys; /* owned */
    const char *const *origins, *const *hosts;
    const char *no_admin;        /* of http_opts */
    char machine[HTTP_HOST_MAX]; /* its own name */
};

struct guard_verdict {
    int status;         /* 0: it may ask */
    const char *why;    /* of 401, 403, 415, 421, 429; static text */
    const char *fields; /* of 415, 429; NULL: none */
    bool cors;          /* a page from elsewhere may read the reply */
    bool proven;        /* by a token that was asked for */
};

void guard_init(struct guard *g, const struct http_opts *o);
void guard_release(struct guard *g);
void guard_set_keys(struct guard *g, const struct http_keys *keys);
bool guard_is_keyed(struct guard *g); /* is there a token for calls? */
/* Where the connection came in: what the head of a request is held against. */
enum guard_way { GUARD_REMOTE, GUARD_LOOPBACK, GUARD_UNIX };
enum guard_way guard_way_of(int fd);
/* May this request ask a route of `scope`?  204: a browser asks before it asks, and may. */
/* Can the route read the body as it is coded?  Changes *v where it cannot. */
void guard_coding(const struct http_parser *p, bool packed, struct guard_verdict *v);
struct guard_verdict guard_check(struct guard *g, const struct http_parser *p, enum guard_way way,
                                 enum http_scope scope);

/* ---- tls.c */
struct tls;
enum { TLS_AGAIN_READ = -1, TLS_AGAIN_WRITE = -2, TLS_ERROR = -3 };
/* Another certificate for connections that are opened from now on; any thread. */
enum rc tls_change(struct tls *t, const char *cert, const char *key, struct err *err) MUST_USE;
enum rc tls_new(const char *cert, const char *key, struct tls **out, struct err *err) MUST_USE;
void tls_free(struct tls *t);
void *tls_open(struct tls *t, int fd); /* NULL: no memory */
void tls_close(struct tls *t, void *ssl, bool polite);
int tls_handshake(struct tls *t, void *ssl);                       /* 1: done, else TLS_* */
ssize_t tls_read(struct tls *t, void *ssl, void *out, size_t cap); /* 0: end, else bytes or TLS_* */
ssize_t tls_write(struct tls *t, void *ssl, const void *p, size_t len);

/* ---- conn.c */
struct conn {
    struct http_server *s;
    struct conn *prev, *next;            /* all connections */
    struct conn *next_flush, *next_dead; /* lists of one turn of the loop */
    struct conn *next_inlet;             /* in the server's list */
    struct http_exchange *inlet;         /* whose body is being read by its handler; NULL: none */
    uint64_t inlet_bytes;                /* of it since body_ns */
    struct http_exchange *first, *last;  /* in order of the requests */
    struct timer read_timer, write_timer;
    struct http_parser parser;
    const struct http_route *route; /* of the request being read; NULL: refused */
    void *ssl;                      /* NULL: plain */
    char *spare;                    /* read while too many requests waited */
    size_t spare_at, spare_len;
    size_t lingered;  /* bytes thrown away */
    size_t counted;   /* of the body being read, in the hub */
    int64_t begun_ns; /* first byte of the request being read */
    int64_t body_ns;  /* first byte of its body */
    uint32_t events;  /* epoll's */
    int fd;
    uint16_t port;
    uint16_t count;               /* requests in the list */
    uint16_t slot;                /* of its address, in the room's */
    struct guard_verdict verdict; /* of the request being read */
    enum guard_way way;
    bool handshaking; /* TLS's */
    bool served;      /* it has sent a whole head */
    bool busy;        /* a request of it is in progress, and counted in the room */
    bool crowded_out; /* its last reply refuses a request: its address has too many in progress */
    bool stop;        /* no more requests are read */
    bool eof;         /* the client sends no more */
    bool lingering;   /* our last reply is out; only its end is waited for */
    bool blocked;     /* a write waits for room */
    int64_t stuck_ns; /* since when, with what left since; 0: it is not blocked */
    size_t stuck_bytes;
    bool paused; /* the inlet is full */
    bool flushing, dead;
    bool read_wants_write, write_wants_read; /* TLS must do the other first */
    char peer[HTTP_PEER_MAX];
};
static_assert(sizeof(struct conn) < 640, "10,000 connections at rest are a few megabytes");

void conn_open(struct http_server *s, int fd, const char *peer, int port);
void conn_event(struct conn *c, uint32_t events);
void conn_timeout(struct conn *c, enum timer_kind kind);
void conn_answered(struct http_exchange *x);             /* a reply came from the hub */
void conn_stream(struct http_exchange *x, bool flooded); /* a stream has something new */
void conn_end_streams(struct conn *c);                   /* the server drains */
void conn_flush(struct conn *c);
void conn_unpause(struct conn *c);    /* its inlet has room again */
void conn_close(struct conn *c);      /* at once; its exchanges are let go */
bool conn_busy(const struct conn *c); /* a request is being read, worked on or answered */

/* ---- server.c */
struct listener {
    int fd;
    int port;
    char *path;  /* of a unix socket, removed at the end; NULL: none */
    bool shared; /* others hold it too, and its queue lives on */
};

/* ---- of room.c */
enum { ROOM_SLOTS = 1024 }; /* that addresses are counted in */

struct room {
    uint32_t held[ROOM_SLOTS]; /* open connections */
    uint32_t busy[ROOM_SLOTS]; /* of them with a request in progress */
    uint32_t busy_all;
    _Atomic uint64_t count;  /* closed for new ones */
    int64_t short_ns;        /* when somebody waited for one last; 0: never */
    bool keyed;              /* a token is set, as of then */
    int64_t told_ns;         /* when the log told of it; 0: not yet */
    int64_t refused_told_ns; /* the same of requests that were refused for it */
};

struct http_server {
    struct http_opts o;
    struct router router;
    struct guard guard;
    int64_t body_total_ns;
    struct hub *hub;
    struct tls *tls; /* NULL: plain */
    struct timers timers;
    struct listener listeners[HTTP_LISTENERS_MAX];
    size_t listener_count;
    int epoll_fd;
    pthread_t thread;
    bool started, connections_fixed; /* the caller gave connections_max */
    /* the loop's */
    struct conn *conns;        /* list */
    struct conn *flush, *dead; /* lists of this turn */
    struct conn *inlets;       /* connections with a streamed body */
    int64_t now_ns;            /* of this turn */
    int64_t accept_again_ns;   /* 0: accepting, or too many connections */
    bool accepting, draining;
    int64_t drain_idle_ns, drain_cut_ns; /* close the idle; cut the rest; INT64_MAX: never */
    uint64_t next_id;
    char *read_buf, *write_buf;
    atomic_size_t conn_count;
    struct room room;
    size_t lingering; /* connections of them that only wait for their end */
    size_t out;       /* exchanges that handlers have, or that wait in the hub */
    /* under the hub's lock */
    pthread_cond_t drained;
    bool ending, drain_asked, is_drained;
    int64_t drain_end_ns;
    size_t cut;
};

void server_note_flush(struct http_server *s, struct conn *c);
void server_note_dead(struct http_server *s, struct conn *c);
void server_take_replies(struct http_server *s); /* marks them; flushes nothing */

/* ---- room.c */
void room_enter(struct http_server *s, struct conn *c);
void room_leave(struct http_server *s, const struct conn *c);
void room_busy(struct conn *c, bool busy); /* has it a request in progress? */
/* Has its address too many in progress for one more? Says so in the log, and marks it. */
bool room_refuses(struct conn *c);
/* Closes one without a request for another one; false: accept_again_ns says when to look again. */
/* Somebody waits for a connection, and this one ends with the reply to what it asks now. */
bool room_is_short(const struct conn *c);
bool room_make(struct http_server *s);

/* ---- listen.c */
enum rc listener_open(struct listener *l, const char *address, int port, struct err *err) MUST_USE;
/* One that listens already. */
enum rc listener_adopt(struct listener *l, int fd, struct err *err) MUST_USE;
void listener_close(struct listener *l);
/* RC_OK: *out_fd and peer; RC_TIMEOUT: none waits; RC_LIMIT: no descriptor or memory is left. */
enum rc listener_accept(const struct listener *l, int *out_fd, char *peer, size_t cap);
/* Raises the limit of open files; lowers *connections when `fixed` is not set. */
enum rc files_raise(size_t *connections, bool fixed, struct err *err) MUST_USE;

#endif

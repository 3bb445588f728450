/* SPDX-License-Identifier: MIT */
/* http: an HTTP/1.1 server that knows nothing of models or GPUs.
 *
 * One thread turns an epoll loop over all connections; it parses, calls the handler of a
 * route once the whole request is there, and writes replies.  A handler answers at once
 * or keeps the exchange and answers later from any thread.  While it waits, the
 * connection is still watched: a client that goes away is told to the handler's owner
 * through http_on_gone(), so that work nobody wants any more can be dropped.
 *
 *     loop thread                 other threads
 *     parse ─► handler(x) ──────► …work…
 *     write ◄─ eventfd ◄───────── http_reply(x, …) ─► straight to the socket, where it can
 *
 * Ownership: the server owns the exchange until the reply is written or the client is
 * gone; a handler that keeps it holds one reference, which http_reply() gives back.
 * Every exchange is answered exactly once, also when the client is gone (the reply is
 * then thrown away).  Pipelined requests are answered in their order.
 *
 * A client that ends its side of the connection (FIN), even by shutdown(SHUT_WR) after a
 * whole request, counts as gone: there is no way to tell the two apart, and work for nobody
 * is what a busy server can do without.  Replies that are already there are still written.
 * What it sent before the FIN is read first, unless HTTP_PIPELINE_MAX requests wait already.
 *
 * A request that is refused before its body is read (401, 404, 405, 413, …) is answered at
 * once; its connection is kept when the body is small, else closed after the client had
 * time to read the reply.
 *
 * A reply may also be a stream without a length (server-sent events): http_stream_begin(), then
 * http_stream_send() from any thread as often as there is something, then http_stream_end().
 * Its connection ends with it.  A client that does not read is dropped, and so is one that
 * leaves; sending then says so.  Who sends much waits for room by http_stream_wait().
 *
 * A route may be streamed: its handler gets the exchange when the head is there, and reads the
 * body piece by piece, in bounded memory; a client that sends faster than that waits.
 *
 * Who may ask what: a route has a scope, and guard.c holds a request against tokens, the socket it
 * came by, and, where no token was shown, the names a browser gives (Host, Origin).
 *
 * Every limit has a name below, and a field in struct http_opts where a caller may want
 * another; a request beyond one is answered 4xx and never grows memory past it. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum {
    HTTP_FIELDS_MAX = 100,               /* header fields of a request */
    HTTP_HEAD_BYTES_MAX = 64 << 10,      /* request line and fields together: 431 beyond */
    HTTP_TARGET_MAX = 8 << 10,           /* 414 beyond */
    HTTP_BODY_BYTES_DEFAULT = 32 << 20,  /* 413 beyond */
    HTTP_CONNECTIONS_DEFAULT = 10000,    /* further ones wait in the listen queue */
    HTTP_LISTENERS_MAX = 16,             /* addresses a server listens on */
    HTTP_PIPELINE_MAX = 16,              /* requests read ahead on one connection */
    HTTP_HEAD_MS_DEFAULT = 10000,        /* for a whole head, from its first byte: 408 */
    HTTP_BODY_MS_DEFAULT = 30000,        /* between two reads of a body: 408 */
    HTTP_BODY_TOTAL_MS_DEFAULT = 300000, /* for a whole body: 408 */
    HTTP_IDLE_MS_DEFAULT = 75000,        /* of a keep-alive connection: closed */
    HTTP_WRITE_MS_DEFAULT = 30000,       /* without progress of a reply: closed */
    HTTP_BODIES_BYTES_MAX = 1 << 30,     /* bodies of all requests together: 503 beyond */
    HTTP_STREAM_BYTES_MAX = 1 << 20,     /* of a stream that wait for its client: dropped beyond */
    HTTP_INLET_BYTES_MAX = 1 << 20       /* of a streamed body that wait for its reader */
};

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_OPTIONS };

struct http_field {
    const char *name; /* as sent; compare without case */
    const char *value;
};

struct http_request { /* borrowed from the exchange */
    enum http_method method;
    const char *path;  /* percent-decoded, without the query; begins with '/' */
    const char *query; /* raw, without '?'; "" when there is none */
    const struct http_field *fields;
    size_t field_count;
    const char *body; /* NUL-terminated behind body_len; chunked bodies are joined */
    size_t body_len;
    const char *peer; /* "127.0.0.1:53122" */
    int port;         /* the local one it came in on */
    bool tls;
    bool proven;         /* it showed a token that the server asked for */
    bool handled;        /* a route's handler has it; false: the server refused it itself */
    uint64_t id;         /* of this request, from 1 */
    int64_t begun_ns;    /* monotonic: its first byte was there */
    int64_t complete_ns; /* its last byte was there */
};

struct http_exchange;
struct http_server;
typedef void http_handler(void *arg, struct http_exchange *x);

/* Who may ask. */
enum http_scope {
    HTTP_SCOPE_CALL, /* who has the token; where there is none, every program that gets through */
    HTTP_SCOPE_OPEN, /* anybody */
    HTTP_SCOPE_METRICS, /* who has the token of the figures, too */
    HTTP_SCOPE_ADMIN /* a change of state: the admin's token alone, or a unix socket; JSON alone */
};

struct http_keys { /* bearer tokens; NULL: none */
    const char *token, *admin, *metrics;
};

struct http_route {
    enum http_method method;
    const char *path; /* exact; a star behind the last slash: all below; HEAD follows GET */
    http_handler *run;
    void *arg;
    enum http_scope scope;
};

struct http_opts {
    const struct http_route *routes; /* borrowed for the server's life */
    size_t route_count;
    /* More of them, whose handlers are called when the head is there and read the body by
     * http_body_read(); the limit of its bytes is then their own affair. */
    const struct http_route *streamed;
    size_t streamed_count;
    size_t body_bytes_max, connections_max; /* 0: the defaults above */
    size_t bodies_bytes_max;                /* of all requests together; 0: the default above */
    int head_ms;                            /* for a whole head, from its first byte; 0: 10 s */
    int body_ms;       /* between two reads of a body; longer ones need 1 KiB/s too; 0: 30 s */
    int body_total_ms; /* for a whole body; 0: 5 min */
    int idle_ms;       /* of a keep-alive connection; 0: 75 s */
    int write_ms;      /* without progress of a reply; 0: 30 s */
    struct http_keys keys;
    /* Ended by NULL, borrowed for the server's life; NULL: none.  Web pages from there may ask
     * ("*": from anywhere); names by which a browser on this machine may call it. */
    const char *const *origins, *const *hosts;
    const char *no_admin; /* why nobody may change anything, and by which option; static text */
    const char *tls_cert, *tls_key; /* PEM files; NULL: plain */
    const char *server_name;        /* of the Server field; NULL: none */
    /* Its routes take bodies with Content-Encoding: gzip, as they come; other codings, and this one
     * elsewhere, are 415. */
    http_handler *packed;
    size_t gzip_min; /* bytes of a reply of text that is packed for who takes it; 0: none is */
    /* Bodies of replies the server makes itself (400, 401, 404, 405, 408, 413, 414, 417, 431,
     * 501, 503, 505): NULL gives {"error": why}.  Called on the loop thread.  `path` is "" when
     * the request line could not be read. */
    void (*error_body)(void *arg, const char *path, int status, const char *why, struct buf *out);
    /* Called on the loop thread when a reply has left or its client is gone; for logs, as it may
     * come some milliseconds after `end_ns`.  `status` is 499 when the client left before there
     * was a reply. */
    void (*on_done)(void *arg, const struct http_request *req, int status, size_t bytes_out,
                    int64_t end_ns, bool gone);
    void *arg;
};

enum rc http_server_new(const struct http_opts *o, struct http_server **out,
                        struct err *err) MUST_USE;
/* "127.0.0.1", "::1", "0.0.0.0", "unix:/path"; port 0 takes a free one, written to *out_port. */
enum rc http_listen(struct http_server *s, const char *address, int port, int *out_port,
                    struct err *err) MUST_USE;
/* A socket that listens already (os/net/listen_fds.h); the server's from here on.  Others hold
 * it too and keep its queue: who waits there when the server drains is left to the next one. */
enum rc http_listen_fd(struct http_server *s, int fd, int *out_port, struct err *err) MUST_USE;
/* Such a socket for http_listen_fd(), here or in another process. */
enum rc http_socket_open(const char *address, int port, int *out_fd, int *out_port,
                         struct err *err) MUST_USE;
/* Where one listens: "127.0.0.1", "::1", "unix:/path"; a port of 0: none. */
enum { HTTP_ADDRESS_MAX = 128 };
enum rc http_socket_address(int fd, char out[HTTP_ADDRESS_MAX], int *out_port,
                            struct err *err) MUST_USE;
/* Whether only this machine can reach that address. */
bool http_address_local(const char *address);
bool http_address_any(const char *address); /* every address of this machine: "0.0.0.0", "::" */
/* "https://[::1]:8090", or the path of a socket file as it is.  `near`: as who is on this machine
 * reaches what listens on every address. */
void http_address_url(const char *address, bool near, bool tls, int port, struct buf *out);
/* Its loop thread.  Raises the limit of open files to the hard one first: RC_LIMIT when
 * connections_max was given and cannot be held; the default is lowered to what can. */
enum rc http_start(struct http_server *s, struct err *err) MUST_USE;
/* Other tokens, another certificate: for requests and connections that come from now on.  Any
 * thread.  What cannot be used changes nothing. */
void http_set_keys(struct http_server *s, const struct http_keys *keys);
enum rc http_set_tls(struct http_server *s, const char *cert, const char *key,
                     struct err *err) MUST_USE;
/* No new connections, keep-alive ends with the next reply; returns when all exchanges are
 * answered and written or `ms` have passed (how many were cut: *out_cut). Any thread; called
 * again while one waits it can make the time shorter, never longer. */
void http_drain(struct http_server *s, int ms, size_t *out_cut);
/* Ends the loop at once; NULL is fine.  Exchanges that are still kept are gone from then on:
 * their callbacks have run when this returns, http_request() stays readable, and each must
 * still be answered, which frees it.  So whoever keeps exchanges may end before or after. */
void http_server_free(struct http_server *s);
size_t http_connections(const struct http_server *s);
size_t http_connections_max(const struct http_server *s);
size_t http_replies_bytes(const struct http_server *s); /* of bodies not yet sent as a whole */
uint64_t http_connections_dropped(const struct http_server *s); /* for new ones */

const struct http_request *http_request(const struct http_exchange *x);
const char *http_field(const struct http_request *r, const char *name); /* NULL: none */
/* How much a client wants a type or coding, by the value of its Accept or Accept-Encoding: its q in
 * thousandths; 0: not at all. */
int http_wish(const char *field, const char *name);
/* The value of a query parameter, percent-decoded; false: not there.  What cannot be decoded comes
 * as it stands, and what does not fit is cut and ends in "...": no value that anybody knows. */
bool http_query(const struct http_request *r, const char *name, char *out, size_t cap);

/* Answers: takes what is in `body` (empty after), `type` is the Content-Type (NULL: none),
 * `fields` holds extra lines "Name: value\r\n" (NULL: none).  Any thread, once. */
void http_reply(struct http_exchange *x, int status, const char *type, struct buf *body,
                const char *fields);
bool http_gone(const struct http_exchange *x); /* its client has left; any thread */
/* Calls fn(arg) on the loop thread once, if the client leaves before there is a reply; at once,
 * on this thread, when it already has.  http_reply() ends it: fn is not called after that
 * returns, and a reply waits for an fn that runs (so fn takes no lock that is held around
 * http_reply).  fn may answer the exchange itself. */
void http_on_gone(struct http_exchange *x, void (*fn)(void *arg), void *arg);

/* ---- streams
 * Answers with 200 and a head that has no length: what is sent follows until the end.  Instead of
 * http_reply(), once, any thread; the exchange is then held until http_stream_end().  A request
 * for the head alone gets it, and its stream counts as gone. */
void http_stream_begin(struct http_exchange *x, const char *type, const char *fields);
/* Copies `data`; all of it goes out, in order, or the stream ends.  False: the client has left,
 * does not read (HTTP_STREAM_BYTES_MAX wait for it) or the server drains: end the stream.  Never
 * waits.  Any thread, but not two at a time. */
bool http_stream_send(struct http_exchange *x, const void *data, size_t len) MUST_USE;
/* Waits until `len` bytes could be sent and the client has taken most of what was; false: it never
 * will, as above.  Not on the loop's thread. */
bool http_stream_wait(struct http_exchange *x, size_t len) MUST_USE;
/* What was sent before still goes out.  Once, also when the client is gone; `x` is no more. */
void http_stream_end(struct http_exchange *x);

/* ---- bodies of streamed routes */
enum http_body {
    HTTP_BODY_DATA,   /* *out_len bytes */
    HTTP_BODY_END,    /* it was whole */
    HTTP_BODY_LATE,   /* nothing came in that time */
    HTTP_BODY_FAILED, /* it never will be: http_body_fault() says why */
};
/* Waits for some bytes, up to `wait_ms`.  Any thread but the loop's, one at a time, before the
 * exchange is answered or its stream is ended. */
enum http_body http_body_read(struct http_exchange *x, void *out, size_t cap, size_t *out_len,
                              int wait_ms) MUST_USE;
/* The status to answer with, and why; 499: the client has left. */
int http_body_fault(struct http_exchange *x, const char **out_why);

#endif

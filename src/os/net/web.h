/* SPDX-License-Identifier: MIT */
/* web: one request to an HTTP or HTTPS server, and its reply.
 *
 * Whatever talks to another program by HTTP does it here: alerts to Alertmanager and webhooks,
 * other agents, exporters, the Hub.  (Load on a server, thousands of connections at a time, is
 * client.h.)
 *
 *     web_send ─┬─ http, unix: ──► client.h: ours, direct, always there
 *               └─ https, links, pieces, HEAD ──► web_curl.c: libcurl, opened when needed
 *
 * A request waits for its whole reply and gives up at its time limit or when `stop` says so.  The
 * connection is kept for the next request.  A struct web belongs to one thread at a time.
 *
 * https: certificates are checked, name and dates included, TLS 1.2 at least; the proxies of the
 * environment are used (HTTPS_PROXY, ALL_PROXY, NO_PROXY).  A token goes to the server that was
 * asked and, over links that are followed, to no other one, and https is never left for http. */
#ifndef OS_NET_WEB_H
#define OS_NET_WEB_H
#include "base/buf.h"
#include "base/err.h"
#include "os/net/url.h"

#include <stdint.h>

enum {
    WEB_HEAD_BYTES_MAX = 64 << 10,  /* of a reply's header lines */
    WEB_ERROR_BYTES_MAX = 64 << 10, /* kept of a body that says what went wrong */
    WEB_LINKS_MAX = 8,              /* links followed for one request */
    WEB_CONNECT_MS_MAX = 10000,     /* for connecting, TLS included */
    WEB_LINK_BYTES_MAX = 16 << 10   /* of an address */
};

enum web_fault {
    WEB_OK,      /* a whole reply came, whatever its status */
    WEB_CONNECT, /* no such host, nobody listens */
    WEB_TIMEOUT,
    WEB_TLS,     /* no trust in the certificate, or no TLS at all */
    WEB_RESET,   /* the connection broke before the reply was whole */
    WEB_GARBAGE, /* what came is not HTTP */
    WEB_LIMIT,   /* longer than body_max, too many links */
    WEB_STOPPED, /* `stop` or `take` said so */
    WEB_LIBRARY  /* libcurl is needed and is not there */
};

struct web_trust {
    const char *ca_file; /* PEM; NULL: CURL_CA_BUNDLE, SSL_CERT_FILE, then the system's */
    bool insecure;       /* certificates are not checked */
};

enum web_links {
    WEB_LINKS_NONE, /* a 3xx is the reply */
    WEB_LINKS_HERE, /* followed while they stay on the server that was asked */
    WEB_LINKS_ALL
};

struct web_reply {
    enum web_fault fault;
    int status;            /* 0: none came */
    int64_t retry_after_s; /* -1: it did not say */
    struct buf head;       /* "Name: value" lines; empty from client.h */
    struct buf body;
};

struct web_request {
    const struct url *to;
    const char *path;   /* behind the address' own; may have a query; NULL: none */
    const char *method; /* NULL: GET, or POST with a body */
    const char *type;   /* Content-Type of the body */
    const char *body;
    size_t body_len;
    const char *accept; /* NULL: anything */
    const char *token;  /* Authorization: Bearer; NULL: none */
    uint64_t from;      /* bytes of the body to leave out (Range) */
    int timeout_ms;     /* for all of it; 0: none, `stall_ms` holds */
    int stall_ms;       /* without a byte; 0: none */
    size_t body_max;    /* bytes; longer is WEB_LIMIT */
    enum web_links links;
    /* (optional) The body of a 2xx in pieces instead of in reply->body; body_max does not hold. */
    enum rc (*take)(void *arg, const struct web_reply *r, const void *p, size_t len,
                    struct err *err);
    bool (*stop)(void *arg); /* (optional) asked about every 100 ms */
    void *arg;
};

struct web;
struct web *web_new(const struct web_trust *trust); /* NULL: the default; copied */
void web_free(struct web *w);                       /* NULL is fine */
/* RC_OK when a whole reply came; else `out->fault` and the message say why.  `out` is reset first
 * and may hold a part of the reply; web_reply_release() is the caller's. */
enum rc web_send(struct web *w, const struct web_request *q, struct web_reply *out,
                 struct err *err) MUST_USE;
void web_reply_release(struct web_reply *r);
/* The value of a header line, any case; false: it is not there, or longer than cap. */
bool web_header(const struct web_reply *r, const char *name, char *out, size_t cap);
/* Can this server be talked to on this machine?  RC_NODEV: https without libcurl. */
enum rc web_ready(const struct url *to, struct err *err) MUST_USE;

#endif

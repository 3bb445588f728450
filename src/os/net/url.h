/* SPDX-License-Identifier: MIT */
/* url: where a server listens: http://host[:port][/prefix], https://… or unix:/path. */
#ifndef OS_NET_URL_H
#define OS_NET_URL_H
#include "base/err.h"

#include <stdbool.h>

enum { URL_HOST_MAX = 256, URL_PATH_MAX = 1024 };

struct url {
    char host[URL_HOST_MAX];   /* name or address, IPv6 without brackets; "" for unix: */
    char port[8];              /* digits */
    char prefix[URL_PATH_MAX]; /* before every path: "" or "/x", no slash at its end */
    char socket[108];          /* unix: the path; "" for TCP */
    bool tls;                  /* https */
};

/* "host:port" alone is http too.  RC_USAGE says what is wrong. */
enum rc url_parse(const char *text, struct url *out, struct err *err) MUST_USE;
/* The same with "?query" behind it or not, as addresses of webhooks have; *out_query (borrowed from
 * text) is from the '?' on, "" for none. */
enum rc url_parse_query(const char *text, struct url *out, const char **out_query,
                        struct err *err) MUST_USE;
/* The value of the Host field: "host:port", brackets around IPv6. */
enum { URL_AUTHORITY_MAX = URL_HOST_MAX + 16 };
const char *url_authority(const struct url *u, char out[URL_AUTHORITY_MAX]);

/* What a browser may send in Origin ("https://host:8443", "null", a scheme of programs), or "*":
 * what it never sends (a path, the scheme's own port, a pattern) is RC_USAGE. */
enum rc url_check_origin(const char *text, struct err *err) MUST_USE;
/* A name as it stands in Host, without its port, or "*". */
enum rc url_check_host(const char *text, struct err *err) MUST_USE;

#endif

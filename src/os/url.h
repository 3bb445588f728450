/* SPDX-License-Identifier: MIT */
/* url: where a server listens: http://host[:port][/prefix] or unix:/path. */
#ifndef OS_URL_H
#define OS_URL_H
#include "base/err.h"

enum { URL_HOST_MAX = 256, URL_PATH_MAX = 1024 };

struct url {
    char host[URL_HOST_MAX];   /* name or address, IPv6 without brackets; "" for unix: */
    char port[8];              /* digits */
    char prefix[URL_PATH_MAX]; /* before every path: "" or "/x", no slash at its end */
    char socket[108];          /* unix: the path; "" for TCP */
};

/* "host:port" alone is http too.  RC_USAGE says what is wrong; https is refused by name. */
enum rc url_parse(const char *text, struct url *out, struct err *err) MUST_USE;
/* The value of the Host field: "host:port", brackets around IPv6. */
enum { URL_AUTHORITY_MAX = URL_HOST_MAX + 16 };
const char *url_authority(const struct url *u, char out[URL_AUTHORITY_MAX]);

#endif

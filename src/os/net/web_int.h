/* SPDX-License-Identifier: MIT */
/* web_int: what web.c and web_curl.c share. */
#ifndef OS_NET_WEB_INT_H
#define OS_NET_WEB_INT_H
#include "os/net/net_int.h"
#include "os/net/web.h"

enum { WEB_LOOK_MS = 100 }; /* between two looks at `stop` */

struct web_curl; /* a libcurl handle with its connections */

/* RC_NODEV with what to install: there is no libcurl, or the program was built without it. */
enum rc web_curl_load(struct err *err) MUST_USE;
/* *io is made when it is NULL. */
enum rc web_curl_send(struct web_curl **io, const struct web_trust *trust,
                      const struct web_request *q, struct web_reply *out, struct err *err) MUST_USE;
void web_curl_free(struct web_curl *c); /* NULL is fine */

enum rc web_fail(struct web_reply *r, enum web_fault fault, enum rc code, struct err *err,
                 const char *fmt, ...) PRINTF_LIKE(5, 6);

#endif

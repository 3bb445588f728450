/* SPDX-License-Identifier: MIT */
/* net_int: what the files of os/net share, and tests. */
#ifndef OS_NET_NET_INT_H
#define OS_NET_NET_INT_H
#include "os/net/listen_fds.h"
#include "os/net/reply.h"
#include "os/net/url.h"

/* ---- reply.c */
void reply_reset(struct reply *r, struct buf *keep);
/* Takes bytes until the reply is done or bad; *out_used tells how many were its own. */
enum reply_state reply_feed(struct reply *r, const char *p, size_t len, size_t *out_used);
/* The connection ended: is what is there a whole reply? */
enum reply_state reply_eof(struct reply *r);
bool reply_begun(const struct reply *r); /* a byte of it has come */

/* ---- url.c */
/* An http or https address with whatever path and query: the server, and in *out_rest (borrowed
 * from text) what stands behind it. */
enum rc url_parse_link(const char *text, struct url *out, const char **out_rest,
                       struct err *err) MUST_USE;
bool url_same_server(const struct url *a, const struct url *b); /* scheme, host and port */

/* ---- listen_fds.c */
/* The three variables' texts, NULL where one is unset, for process `pid`; those of another process
 * are none. */
enum rc listen_fds_parse(const char *listen_pid, const char *listen_fds, const char *names,
                         int64_t pid, struct listen_fds *out, struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* top: the terminal view of a node.  README.md has the picture. */
#ifndef TOP_TOP_H
#define TOP_TOP_H
#include "base/buf.h"
#include "os/net/web.h"

struct top_snap; /* a second of a node */
struct agent;
struct url;
struct top_source_opts {
    struct agent *agent;    /* asked without HTTP; borrowed.  NULL: the next */
    const struct url *url;  /* copied */
    const char *token;      /* borrowed; NULL: none */
    struct web_trust trust; /* in its certificate; borrowed */
    int period_ms;
};
/* One snapshot now, the caller's, with rates when `before` is not NULL; no thread is made. */
enum rc top_ask_once(const struct top_source_opts *o, const struct top_snap *before,
                     struct top_snap **out, struct err *err) MUST_USE;

/* What is looked at. */
struct top_what {
    struct top_source_opts source;
    const char *from;       /* for people */
    bool local;             /* the figures are this machine's */
    struct top_snap *first; /* what was seen already, taken over; NULL: nothing */
};
/* Signals that end or resize a screen, blocked; before any thread is made. */
enum rc top_signals(int *out_fd, struct err *err) MUST_USE;
/* Until a key or a signal ends it. */
enum rc top_run(const struct top_what *what, int signals, bool colour, struct err *err) MUST_USE;
/* One screen as text; width 0: not known. */
enum rc top_print(const struct top_what *what, int width, struct buf *out,
                  struct err *err) MUST_USE;

#endif

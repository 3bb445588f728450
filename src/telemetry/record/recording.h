/* SPDX-License-Identifier: MIT */
/* recording: a file of `stoker agent --record`: made, and read from its beginning to its end, as
 * fast as it can be.  Reading is for analysis; the agent's replay keeps time instead. */
#ifndef TELEMETRY_RECORD_RECORDING_H
#define TELEMETRY_RECORD_RECORDING_H
#include "telemetry/record/stream.h"

struct recording_opts {
    const char *path;
    struct telemetry *into; /* what is known at each second */
    /* After each second, which the batch of source "agent" ends; false: enough. */
    bool (*on_second)(void *arg, struct telemetry *t, int64_t time_ns);
    void *arg;
};
struct recording_end {
    uint64_t seconds;
    bool torn;                      /* the file ends in the middle of something, or is damaged */
    char host[TELEMETRY_VALUE_MAX]; /* where it was made; "" */
};
/* A file that is torn is read as far as it is whole; RC_PARSE: it has not one second. */
enum rc recording_read(const struct recording_opts *o, struct recording_end *out,
                       struct err *err) MUST_USE;

enum { RECORDING_MODE = 0600 }; /* it names users, jobs and command lines */
/* Opens a file that a recording is written to, empty; one that is new is its owner's alone.  What
 * has data already is left alone: a file that is no recording always, a recording unless
 * `replace`. */
enum rc recording_create(const char *path, bool replace, int *out_fd, struct err *err) MUST_USE;

#endif

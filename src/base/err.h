/* SPDX-License-Identifier: MIT */
/* err: how a function says what went wrong.
 *
 * A function that can fail returns enum rc and takes `struct err *err` last.
 * Whoever first knows the fault writes the message with err_set() or err_sys();
 * callers may put context before it with err_ctx().  Only cmd/ prints, once.
 *
 * Messages are lower case without a full stop: what could not be done, to which
 * object in single quotes, why.  A hint is a full sentence on its own line.
 * `err` may be NULL: the caller then wants only the code. */
#ifndef BASE_ERR_H
#define BASE_ERR_H
#include "base/attr.h"

enum rc {
    RC_OK = 0,
    RC_FAIL = -1,   /* it did not work: I/O, a peer, a device that answered with an error */
    RC_USAGE = -2,  /* the user asked for something that does not exist or cannot be */
    RC_PARSE = -3,  /* outside data that could not be understood */
    RC_LIMIT = -4,  /* a named limit was reached, or a device has too little */
    RC_NODEV = -5,  /* no such device, library or source on this machine */
    RC_TIMEOUT = -6 /* nobody answered in time */
};

enum { ERR_MSG_MAX = 1024, ERR_HINT_MAX = 512 };

struct err {
    enum rc code;
    char msg[ERR_MSG_MAX];
    char hint[ERR_HINT_MAX]; /* empty: none */
};

/* Each returns `code` so that `return err_set(...)` reads well.  The first message
 * wins: err_set() over a set err replaces it only when the code was RC_OK. */
enum rc err_set(struct err *err, enum rc code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* RC_FAIL (RC_NODEV for ENOENT/ENODEV/ENXIO) with ": strerror(errno)" appended. */
enum rc err_sys(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Puts "context: " before the message; returns the code it already has. */
enum rc err_ctx(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
#ifdef __clang_analyzer__ /* it sees one file at a time: no message comes with RC_OK */
#define err_set(err, code, ...) ((void)err_set(err, code, __VA_ARGS__), (code))
#define err_ctx(...)            ((void)err_ctx(__VA_ARGS__), RC_PARSE)
#endif
void err_hint(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The process exit status for a code: 0 ok, 1 failed, 2 usage, 3 no device, 4 limit. */
int rc_exit(enum rc code);

#endif

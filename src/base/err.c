/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef err_set /* macros only for the analyzer */
#undef err_ctx

static void err_write(struct err *err, enum rc code, const char *fmt, va_list ap)
{
    if (!err || err->code != RC_OK)
        return;
    err->code = code;
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
}

enum rc err_set(struct err *err, enum rc code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_write(err, code, fmt, ap);
    va_end(ap);
    return code;
}

enum rc err_sys(struct err *err, const char *fmt, ...)
{
    int no = errno;
    enum rc code = no == ENOENT || no == ENODEV || no == ENXIO ? RC_NODEV : RC_FAIL;
    va_list ap;
    size_t len;

    if (!err || err->code != RC_OK)
        return code;
    va_start(ap, fmt);
    err_write(err, code, fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", strerror(no));
    return code;
}

enum rc err_ctx(struct err *err, const char *fmt, ...)
{
    char old[ERR_MSG_MAX];
    va_list ap;
    size_t len;

    if (!err)
        return RC_FAIL;
    memcpy(old, err->msg, sizeof(old));
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", old);
    return err->code == RC_OK ? RC_FAIL : err->code;
}

void err_hint(struct err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err || err->hint[0])
        return;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
}

int rc_exit(enum rc code)
{
    switch (code) {
    case RC_OK:
        return 0;
    case RC_USAGE:
        return 2;
    case RC_NODEV:
        return 3;
    case RC_LIMIT:
        return 4;
    case RC_FAIL:
    case RC_PARSE:
    case RC_TIMEOUT:
        break;
    }
    return 1;
}

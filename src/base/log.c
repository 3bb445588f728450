/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum log_level log_level = LOG_INFO;

static void log_line(enum log_level level, const char *tag, const char *fmt, va_list ap)
{
    if (level > log_level)
        return;
    flockfile(stderr);
    fprintf(stderr, "stoker: %s", tag);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void log_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_WARN, "warning: ", fmt, ap);
    va_end(ap);
}

void log_info(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_INFO, "", fmt, ap);
    va_end(ap);
}

void log_debug(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(LOG_DEBUG, "debug: ", fmt, ap);
    va_end(ap);
}

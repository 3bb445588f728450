/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum log_level log_level = LOG_INFO;

/* One line each, whatever names and paths of others are in it: a newline would begin a line that
 * nobody wrote, an escape would speak to the terminal. */
static void log_line(enum log_level level, const char *tag, const char *fmt, va_list ap)
{
    char text[LOG_LINE_MAX];

    if (level > log_level)
        return;
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    flockfile(stderr);
    fprintf(stderr, "stoker: %s", tag);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            fprintf(stderr, "\\x%02x", (unsigned char)*p);
        else
            fputc(*p, stderr);
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

/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum log_level log_level = LOG_INFO;

/* One line each, whatever names and paths of others are in it: a newline would begin a line that
 * nobody wrote, an escape would speak to the terminal.  And one write each: other processes, such
 * as the children of `stoker up`, write to the same place. */
static void log_line(enum log_level level, const char *tag, const char *fmt, va_list ap)
{
    enum { ESCAPE = 4, HEAD_MAX = 32 };
    char text[LOG_LINE_MAX], line[HEAD_MAX + ESCAPE * LOG_LINE_MAX + 1];
    size_t n;

    if (level > log_level)
        return;
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    n = (size_t)snprintf(line, HEAD_MAX, "stoker: %s", tag);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            n += (size_t)snprintf(line + n, ESCAPE + 1, "\\x%02x", (unsigned char)*p);
        else
            line[n++] = *p;
    line[n++] = '\n';
    (void)fwrite(line, 1, n, stderr);
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

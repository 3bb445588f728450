/* SPDX-License-Identifier: MIT */
/* log: talk on stderr.  Libraries return errors; only long-running commands and
 * progress use this.  The level is the program's one mutable global beside signals. */
#ifndef BASE_LOG_H
#define BASE_LOG_H
#include "base/attr.h"

enum { LOG_LINE_MAX = 4096 }; /* bytes of a line; the rest is cut */

enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO };
extern enum log_level log_level;

void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_info(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif

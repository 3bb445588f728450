/* SPDX-License-Identifier: MIT */
/* clock: time as an argument's source, in one place. */
#ifndef OS_CLOCK_H
#define OS_CLOCK_H
#include <stdint.h>

int64_t clock_mono_ms(void); /* since boot, never steps */
int64_t clock_mono_ns(void);
int64_t clock_thread_ns(void); /* CPU time of this thread */
int64_t clock_unix_s(void);
int64_t clock_unix_ms(void);

#endif

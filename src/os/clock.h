/* SPDX-License-Identifier: MIT */
/* clock: time as an argument's source, in one place. */
#ifndef OS_CLOCK_H
#define OS_CLOCK_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

int64_t clock_mono_ms(void); /* since boot, never steps */
int64_t clock_mono_ns(void);
int64_t clock_thread_ns(void); /* CPU time of this thread */
int64_t clock_unix_s(void);
int64_t clock_unix_ms(void);
void clock_sleep_ms(int ms); /* a signal may end it early */

/* A condition whose waits end by the clock above: one that is set forth or back moves none. */
void clock_cond_init(pthread_cond_t *cond);
/* Until it is signalled or clock_mono_ns() is `due_ns`; false: the time is over. */
bool clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t due_ns);

#endif

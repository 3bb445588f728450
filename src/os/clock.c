/* SPDX-License-Identifier: MIT */
#include "os/clock.h"

#include <errno.h>
#include <time.h>

int64_t clock_mono_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_ns() / 1000000;
}

int64_t clock_thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_unix_s(void)
{
    return (int64_t)time(NULL);
}

int64_t clock_unix_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t due_ns)
{
    struct timespec t = { .tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000 };

    return pthread_cond_timedwait(cond, lock, &t) != ETIMEDOUT;
}

void clock_sleep_ms(int ms)
{
    (void)nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

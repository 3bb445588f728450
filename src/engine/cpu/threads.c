/* SPDX-License-Identifier: MIT */
/* threads: a pool of threads pinned to the CPUs this process may use.
 *
 * The thread that calls cpu_pool_run() is the first of the team, pinned while it runs and
 * given back its own set of CPUs afterwards.  Waiting is spinning for a while, since the
 * steps of a layer take microseconds, then sleeping in the kernel (futex), since a batch
 * may be long in coming.
 *
 * A gate is a counter that others wait to see change.  A waiter announces itself before it
 * sleeps and the opener looks for waiters after it has changed the counter, both in
 * sequentially consistent order: either the opener sees the waiter, or the waiter (or the
 * kernel for it) sees the change. */
#include "base/mem.h"
#include "engine/cpu/cpu_int.h"

#include <assert.h>
#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 2000 }; /* about 50 .. 100 microseconds */

struct gate {
    _Alignas(CPU_LINE) _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

struct cpu_pool {
    struct gate start;                           /* counts tasks */
    struct gate end;                             /* counts ended parts of tasks */
    struct gate phase;                           /* counts passed barriers */
    _Alignas(CPU_LINE) _Atomic uint32_t arrived; /* at the barrier */
    size_t size;                                 /* threads, the caller included */
    size_t made;                                 /* of the others, in `threads` */
    size_t spins;
    cpu_task *task; /* NULL: end */
    void *arg;
    cpu_set_t usable;
    struct pool_thread {
        struct cpu_pool *pool;
        size_t rank;
        pthread_t thread;
    } workers[];
};

static void gate_open(struct gate *g)
{
    atomic_fetch_add(&g->count, 1);
    if (atomic_load(&g->sleepers) > 0)
        (void)syscall(SYS_futex, &g->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Until the count is no longer `seen`. */
static void gate_wait(struct gate *g, uint32_t seen, size_t spins)
{
    for (size_t i = 0; i < spins; i++) {
        if (atomic_load_explicit(&g->count, memory_order_acquire) != seen)
            return;
        _mm_pause();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->count) == seen)
        (void)syscall(SYS_futex, &g->count, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

size_t cpu_pool_default(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return n < 1 ? 1 : n > CPU_THREADS_MAX ? CPU_THREADS_MAX : (size_t)n;
}

/* The rank-th usable CPU, from the start again when there are more threads than CPUs.
 * Failing is harmless: the thread then runs where the kernel puts it. */
static void pin_thread(const struct cpu_pool *p, size_t rank)
{
    size_t count = (size_t)CPU_COUNT(&p->usable), skip = count ? rank % count : 0;
    cpu_set_t one;

    CPU_ZERO(&one);
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &p->usable) && skip-- == 0) {
            CPU_SET(c, &one);
            (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
            return;
        }
}

static void *worker_main(void *arg)
{
    struct pool_thread *w = arg;
    struct cpu_pool *p = w->pool;

    pin_thread(p, w->rank);
    for (uint32_t seen = 0;; seen++) {
        gate_wait(&p->start, seen, p->spins);
        if (!p->task)
            return NULL;
        p->task(p->arg, w->rank);
        gate_open(&p->end);
    }
}

struct cpu_pool *cpu_pool_new(size_t threads)
{
    size_t size = threads ? threads : cpu_pool_default();

    assert(size <= CPU_THREADS_MAX);
    struct cpu_pool *p = NULL;
    size_t bytes = cpu_round_up(sizeof(*p) + size * sizeof(p->workers[0]), CPU_LINE);
    p = aligned_alloc(CPU_LINE, bytes);
    if (!p)
        return NULL;
    memset(p, 0, bytes);
    p->size = 1;
    if (sched_getaffinity(0, sizeof(p->usable), &p->usable) != 0)
        CPU_ZERO(&p->usable);
    p->spins = size <= cpu_pool_default() ? SPINS : 0;
    for (size_t i = 1; i < size; i++, p->made++, p->size++) {
        struct pool_thread *w = &p->workers[p->made];
        *w = (struct pool_thread){ .pool = p, .rank = i };
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
            break; /* a smaller team does the same work */
    }
    return p;
}

void cpu_pool_free(struct cpu_pool *p)
{
    if (!p)
        return;
    p->task = NULL;
    gate_open(&p->start);
    for (size_t i = 0; i < p->made; i++)
        (void)pthread_join(p->workers[i].thread, NULL);
    free(p);
}

size_t cpu_pool_size(const struct cpu_pool *p)
{
    return p->size;
}

void cpu_pool_run(struct cpu_pool *p, cpu_task *task, void *arg)
{
    cpu_set_t was;

    assert(task);
    if (p->size == 1) {
        task(arg, 0);
        return;
    }
    bool restore = pthread_getaffinity_np(pthread_self(), sizeof(was), &was) == 0;
    pin_thread(p, 0);
    p->task = task;
    p->arg = arg;
    uint32_t ended = atomic_load(&p->end.count), want = ended + (uint32_t)(p->size - 1);
    gate_open(&p->start);
    task(arg, 0);
    for (uint32_t now = ended; now != want; now = atomic_load(&p->end.count))
        gate_wait(&p->end, now, p->spins);
    if (restore)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(was), &was);
}

void cpu_pool_barrier(struct cpu_pool *p)
{
    uint32_t phase = atomic_load(&p->phase.count);

    if (p->size == 1)
        return;
    if (atomic_fetch_add(&p->arrived, 1) + 1 < p->size) {
        gate_wait(&p->phase, phase, p->spins);
        return;
    }
    atomic_store(&p->arrived, 0);
    gate_open(&p->phase);
}

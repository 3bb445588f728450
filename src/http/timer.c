/* SPDX-License-Identifier: MIT */
/* timer: deadlines of connections.
 *
 * There are few kinds of waiting, and all that wait for one kind wait equally long.  So each
 * kind is a ring to whose end a timer is put when it is armed: the ring is sorted by itself,
 * arming and stopping touch two neighbours, and only what is due is ever looked at. */
#include "http/http_int.h"

void timers_init(struct timers *t)
{
    for (size_t i = 0; i < TIMER_KINDS; i++)
        t->list[i].prev = t->list[i].next = &t->list[i];
}

void timer_stop(struct timer *m)
{
    if (!m->next)
        return;
    m->prev->next = m->next;
    m->next->prev = m->prev;
    m->prev = m->next = NULL;
}

void timer_arm(struct timers *t, struct timer *m, enum timer_kind kind, int64_t now_ns)
{
    struct timer *ring = &t->list[kind];

    timer_stop(m);
    m->kind = kind;
    m->due_ns = now_ns + t->ns[kind];
    m->prev = ring->prev;
    m->next = ring;
    ring->prev->next = m;
    ring->prev = m;
}

int64_t timers_next(const struct timers *t)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < TIMER_KINDS; i++)
        if (t->list[i].next != &t->list[i] && t->list[i].next->due_ns < due)
            due = t->list[i].next->due_ns;
    return due;
}

struct timer *timers_due(struct timers *t, int64_t now_ns)
{
    for (size_t i = 0; i < TIMER_KINDS; i++) {
        struct timer *m = t->list[i].next;

        if (m != &t->list[i] && m->due_ns <= now_ns) {
            timer_stop(m);
            return m;
        }
    }
    return NULL;
}

/* SPDX-License-Identifier: MIT */
/* sched_waiting: texts come into queues, follow others like them, and leave.
 *
 * A request holds its texts that wait in one list, the longest first: the long ones fill most of
 * a batch, the short ones at the end of the list what is left.  Whose turn it is says
 * sched_fair.c. */
#include "base/mem.h"
#include "base/str.h"
#include "serve/admin/te_metrics_int.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>

/* ---- models and their queues */

struct model_record *record_of(struct device_queue *dq, const char *name)
{
    struct model_record *m = dq->records;

    while (m && !str_eq(m->name, name))
        m = m->next;
    if (m || (dq->records && dq->record_count >= SCHED_MODELS_SEEN_MAX))
        return m ? m
                 : dq->records; /* figures mixed with another's rather than memory without end */
    m = xcalloc(1, sizeof(*m));
    (void)str_copy(m->name, sizeof(m->name), name);
    meter_make(dq->sched, m->name, &m->series);
    m->next = dq->records;
    dq->records = m;
    dq->record_count++;
    return m;
}

static void queue_init(struct device_queue *dq, struct model_queue *q, struct served *m,
                       enum eng_want want)
{
    struct model_queue *next = q->next;
    struct sched_heap turns[SCHED_CLASSES];

    for (size_t c = 0; c < SCHED_CLASSES; c++) /* their memory is kept */
        turns[c] = q->classes[c].turns;
    *q = (struct model_queue){ .next = next,
                               .model = m,
                               .record = record_of(dq, m->name),
                               .want = want,
                               .budget =
                                   m->batch_tokens ? m->batch_tokens : SCHED_BATCH_TOKENS_DEFAULT,
                               .texts_max = m->batch_texts ? m->batch_texts : SIZE_MAX,
                               .width = eng_width(m->model, want) };
    for (size_t i = 0; i < m->replica_count; i++)
        if (m->replicas[i].device_queue == dq)
            q->replica = &m->replicas[i];
    /* as if it had just run: others that wait go first, once */
    for (size_t c = 0; c < SCHED_CLASSES; c++)
        q->classes[c] = (struct class_queue){ .turns = turns[c], .ran = dq->batches };
}

struct model_queue *queue_of(struct device_queue *dq, struct served *m, enum eng_want want)
{
    struct model_queue *q = dq->queues;

    while (q && (q->model != m || q->want != want))
        q = q->next;
    if (q && q->request_count)
        return q;
    if (!q) {
        q = dq->free_queues;
        if (q)
            dq->free_queues = q->next;
        else
            q = xcalloc(1, sizeof(*q));
        q->next = dq->queues;
        dq->queues = q;
    }
    queue_init(dq, q, m, want); /* without requests it may be of another version at that address */
    return q;
}

void queues_tidy(struct device_queue *dq)
{
    for (struct model_queue **at = &dq->queues, *q; (q = *at);) {
        if (q->request_count) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        q->next = dq->free_queues;
        dq->free_queues = q;
    }
}

/* ---- waiting */

static void count_waiting(struct device_queue *dq, const struct request_text *t, bool more)
{
    struct request *r = t->request;
    size_t n = more ? t->tokens : (size_t)0 - t->tokens;

    r->waiting_tokens += n;
    r->queue->classes[r->class].tokens += n;
    r->queue->record->waiting[r->class] += n;
    dq->tokens += n;
    te_metrics_wait(dq->sched->o.te, more ? 1 : -1);
}

/* Texts come in the order of their length; one that led and lost that, at the beginning. */
static void wait_in_queue(struct device_queue *dq, struct request_text *t, bool first)
{
    struct request *r = t->request;

    t->state = TEXT_WAITING;
    t->prev = first ? NULL : r->waiting_last;
    t->next = first ? r->waiting_first : NULL;
    *(t->prev ? &t->prev->next : &r->waiting_first) = t;
    *(t->next ? &t->next->prev : &r->waiting_last) = t;
    count_waiting(dq, t, true);
    if (r->sharer)
        fair_change(r);
    else
        fair_enter(dq, r);
}

void text_leave(struct device_queue *dq, struct request_text *t)
{
    struct request *r = t->request;

    assert(t->state == TEXT_WAITING);
    *(t->prev ? &t->prev->next : &r->waiting_first) = t->next;
    *(t->next ? &t->next->prev : &r->waiting_last) = t->prev;
    t->prev = t->next = NULL;
    count_waiting(dq, t, false);
    if (r->waiting_first)
        fair_change(r);
    else
        fair_leave(dq, r);
}

/* ---- the same text twice */

static struct request_text **table_place(struct device_queue *dq, const struct request_text *t)
{
    return &dq->table[t->hash[0] & (SCHED_TABLE - 1)];
}

bool text_same(const struct request_text *a, const struct request_text *b)
{
    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           a->request->queue == b->request->queue && a->tokens == b->tokens && a->skip == b->skip &&
           !a->types == !b->types && !memcmp(a->ids, b->ids, a->tokens * sizeof(*a->ids)) &&
           (!a->types || !memcmp(a->types, b->types, a->tokens));
}

void text_forget(struct device_queue *dq, struct request_text *t)
{
    struct request_text **at = table_place(dq, t);

    while (*at != t)
        at = &(*at)->chain;
    *at = t->chain;
    t->chain = NULL;
}

static void follow_leader(struct request_text *t, struct request_text *leader)
{
    t->state = TEXT_FOLLOWING;
    t->leader = leader;
    t->prev = NULL;
    t->next = leader->followers;
    if (t->next)
        t->next->prev = t;
    leader->followers = t;
}

static void unfollow_leader(struct request_text *t)
{
    *(t->prev ? &t->prev->next : &t->leader->followers) = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->prev = t->next = t->leader = NULL;
}

/* Another text like it takes its place in the table, its followers, and waits. */
static void hand_over(struct device_queue *dq, struct request_text *t, struct request_text *f)
{
    struct request_text **at = table_place(dq, t);

    f->followers = t->followers;
    for (struct request_text *o = f->followers; o; o = o->next)
        o->leader = f;
    t->followers = NULL;
    while (*at != t)
        at = &(*at)->chain;
    *at = f;
    f->chain = t->chain;
    t->chain = NULL;
    text_leave(dq, t);
    wait_in_queue(dq, f, true);
}

/* Of two requests that want a text, that one waits with it which has less to wait for: a short
 * one would wait for its turn in a long one, or in bulk. */
static bool takes_lead(const struct request_text *t, const struct request_text *leader)
{
    const struct request *a = t->request, *b = leader->request;

    return leader->state == TEXT_WAITING && a != b &&
           (a->class != b->class ? a->class < b->class : a->joined_tokens < b->waiting_tokens);
}

void text_enter(struct device_queue *dq, struct request_text *t)
{
    struct request_text **at = table_place(dq, t), *leader = *at;

    while (leader && !text_same(leader, t))
        leader = leader->chain;
    if (!leader) {
        t->chain = *at;
        *at = t;
        wait_in_queue(dq, t, false);
    } else if (takes_lead(t, leader)) {
        hand_over(dq, leader, t);
        follow_leader(leader, t);
    } else {
        follow_leader(t, leader);
    }
}

/* ---- the end of a request */

static void text_drop(struct device_queue *dq, struct request_text *t)
{
    assert(t->state != TEXT_RUNNING);
    if (t->state == TEXT_FOLLOWING) {
        unfollow_leader(t);
    } else if (t->state == TEXT_WAITING && t->followers) {
        struct request_text *f = t->followers; /* nobody else wants it of this one */
        unfollow_leader(f);
        hand_over(dq, t, f);
    } else if (t->state == TEXT_WAITING) {
        text_leave(dq, t);
        text_forget(dq, t);
    }
    t->state = TEXT_OVER;
}

void request_end(struct device_queue *dq, struct request *r, enum rc why)
{
    struct model_queue *q = r->queue;

    for (size_t i = 0; r->unfinished && i < r->pending_count; i++)
        text_drop(dq, r->pending[i]);
    assert(!r->over);
    r->unfinished = 0;
    r->over = true;
    r->why = why;
    *(r->prev ? &r->prev->next : &dq->requests) = r->next;
    if (r->next)
        r->next->prev = r->prev;
    dq->request_count--;
    q->request_count--;
    q->record->requests[r->class]--;
    meter_queue(q->record);
    meter_end(r, dq->stopping);
    r->ended = NULL;
    *dq->ended_end = r;
    dq->ended_end = &r->ended;
}

/* SPDX-License-Identifier: MIT */
/* sched_queue: texts come into queues, follow others like them, and leave.
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

struct seen *seen_of(struct lane *l, const char *name)
{
    struct seen *m = l->seen;

    while (m && !str_eq(m->name, name))
        m = m->next;
    if (m || (l->seen && l->seen_count >= SCHED_MODELS_SEEN_MAX))
        return m ? m : l->seen; /* figures mixed with another's rather than memory without end */
    m = xcalloc(1, sizeof(*m));
    (void)str_copy(m->name, sizeof(m->name), name);
    meter_make(l->sched, m->name, &m->meter);
    m->next = l->seen;
    l->seen = m;
    l->seen_count++;
    return m;
}

static void queue_init(struct lane *l, struct lane_queue *q, struct served *m, enum eng_want want)
{
    struct lane_queue *next = q->next;
    struct turn_heap turns[SCHED_CLASSES];

    for (size_t c = 0; c < SCHED_CLASSES; c++) /* their memory is kept */
        turns[c] = q->classes[c].turns;
    *q = (struct lane_queue){ .next = next,
                              .model = m,
                              .seen = seen_of(l, m->name),
                              .want = want,
                              .budget =
                                  m->batch_tokens ? m->batch_tokens : SCHED_BATCH_TOKENS_DEFAULT,
                              .texts_max = m->batch_texts ? m->batch_texts : SIZE_MAX,
                              .width = eng_width(m->model, want) };
    for (size_t i = 0; i < m->replica_count; i++)
        if (m->replicas[i].lane == l)
            q->replica = &m->replicas[i];
    /* as if it had just run: others that wait go first, once */
    for (size_t c = 0; c < SCHED_CLASSES; c++)
        q->classes[c] = (struct class_queue){ .turns = turns[c], .ran = l->batches };
}

struct lane_queue *queue_of(struct lane *l, struct served *m, enum eng_want want)
{
    struct lane_queue *q = l->queues;

    while (q && (q->model != m || q->want != want))
        q = q->next;
    if (q && q->jobs)
        return q;
    if (!q) {
        q = l->spare;
        if (q)
            l->spare = q->next;
        else
            q = xcalloc(1, sizeof(*q));
        q->next = l->queues;
        l->queues = q;
    }
    queue_init(l, q, m, want); /* without jobs it may be of another version at that address */
    return q;
}

void queues_tidy(struct lane *l)
{
    for (struct lane_queue **at = &l->queues, *q; (q = *at);) {
        if (q->jobs) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        q->next = l->spare;
        l->spare = q;
    }
}

/* ---- waiting */

static void count_waiting(struct lane *l, const struct text *t, bool more)
{
    struct work *w = t->work;
    size_t n = more ? t->item->tokens : (size_t)0 - t->item->tokens;

    w->tokens += n;
    w->queue->classes[w->class].tokens += n;
    w->queue->seen->waiting[w->class] += n;
    l->tokens += n;
    te_metrics_wait(l->sched->o.te, more ? 1 : -1);
}

/* Texts come in the order of their length; one that led and lost that, at the beginning. */
static void wait_in_queue(struct lane *l, struct text *t, bool first)
{
    struct work *w = t->work;

    t->state = TEXT_WAITING;
    t->prev = first ? NULL : w->last;
    t->next = first ? w->first : NULL;
    *(t->prev ? &t->prev->next : &w->first) = t;
    *(t->next ? &t->next->prev : &w->last) = t;
    count_waiting(l, t, true);
    if (w->client)
        fair_change(w);
    else
        fair_enter(l, w);
}

void text_leave(struct lane *l, struct text *t)
{
    struct work *w = t->work;

    assert(t->state == TEXT_WAITING);
    *(t->prev ? &t->prev->next : &w->first) = t->next;
    *(t->next ? &t->next->prev : &w->last) = t->prev;
    t->prev = t->next = NULL;
    count_waiting(l, t, false);
    if (w->first)
        fair_change(w);
    else
        fair_leave(l, w);
}

/* ---- the same text twice */

static struct text **place(struct lane *l, const struct text *t)
{
    return &l->table[t->hash[0] & (SCHED_TABLE - 1)];
}

bool text_same(const struct text *a, const struct text *b)
{
    const struct job_item *x = a->item, *y = b->item;

    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           a->work->queue == b->work->queue && x->tokens == y->tokens && x->skip == y->skip &&
           !a->types == !b->types && !memcmp(x->ids, y->ids, x->tokens * sizeof(*x->ids)) &&
           (!a->types || !memcmp(a->types, b->types, x->tokens));
}

void text_forget(struct lane *l, struct text *t)
{
    struct text **at = place(l, t);

    while (*at != t)
        at = &(*at)->chain;
    *at = t->chain;
    t->chain = NULL;
}

static void follow(struct text *t, struct text *leader)
{
    t->state = TEXT_FOLLOWING;
    t->leader = leader;
    t->prev = NULL;
    t->next = leader->followers;
    if (t->next)
        t->next->prev = t;
    leader->followers = t;
}

static void unfollow(struct text *t)
{
    *(t->prev ? &t->prev->next : &t->leader->followers) = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->prev = t->next = t->leader = NULL;
}

/* Another text like it takes its place in the table, its followers, and waits. */
static void hand_over(struct lane *l, struct text *t, struct text *f)
{
    struct text **at = place(l, t);

    f->followers = t->followers;
    for (struct text *o = f->followers; o; o = o->next)
        o->leader = f;
    t->followers = NULL;
    while (*at != t)
        at = &(*at)->chain;
    *at = f;
    f->chain = t->chain;
    t->chain = NULL;
    text_leave(l, t);
    wait_in_queue(l, f, true);
}

/* Of two requests that want a text, that one waits with it which has less to wait for: a short
 * one would wait for its turn in a long one, or in bulk. */
static bool leads(const struct text *t, const struct text *leader)
{
    const struct work *a = t->work, *b = leader->work;

    return leader->state == TEXT_WAITING && a != b &&
           (a->class != b->class ? a->class < b->class : a->joined < b->tokens);
}

void text_enter(struct lane *l, struct text *t)
{
    struct text **at = place(l, t), *leader = *at;

    while (leader && !text_same(leader, t))
        leader = leader->chain;
    if (!leader) {
        t->chain = *at;
        *at = t;
        wait_in_queue(l, t, false);
    } else if (leads(t, leader)) {
        hand_over(l, leader, t);
        follow(leader, t);
    } else {
        follow(t, leader);
    }
}

/* ---- the end of a job */

static void text_drop(struct lane *l, struct text *t)
{
    assert(t->state != TEXT_RUNNING);
    if (t->state == TEXT_FOLLOWING) {
        unfollow(t);
    } else if (t->state == TEXT_WAITING && t->followers) {
        struct text *f = t->followers; /* nobody else wants it of this one */
        unfollow(f);
        hand_over(l, t, f);
    } else if (t->state == TEXT_WAITING) {
        text_leave(l, t);
        text_forget(l, t);
    }
    t->state = TEXT_OVER;
}

void work_end(struct lane *l, struct work *w, enum rc why)
{
    struct lane_queue *q = w->queue;

    for (size_t i = 0; w->left && i < w->count; i++)
        text_drop(l, &w->texts[i]);
    assert(!w->over);
    w->left = 0;
    w->over = true;
    w->why = why;
    *(w->prev ? &w->prev->next : &l->works) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    l->jobs--;
    q->jobs--;
    q->seen->jobs[w->class]--;
    meter_queue(q->seen);
    meter_end(w, l->stopping);
    w->ended = NULL;
    *l->ended_end = w;
    l->ended_end = &w->ended;
}

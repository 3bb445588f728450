/* SPDX-License-Identifier: MIT */
/* sched_queue: texts come into queues, follow others like them, and leave.
 *
 * A class of a queue holds its texts twice: by age, and by length in buckets that are four an
 * octave.  So the oldest is at hand, and so are the oldest of nearly the same length.
 *
 * `due` is the turn of its class by which a text would have run first come, first served, and
 * not later: a simulation of 64 clients that wait for their answers had the same fill with four
 * turns more, and the slowest percent took 1.6 times the mean instead of 1.1 to 1.3.  `due` never
 * falls from one text to the next, so when a text is due all older ones are too; batch_fill()
 * takes due ones by age.  Two batches together take more than one budget of due tokens, so with
 * T tokens in front of it a text runs at the latest in turn
 *
 *     T / budget + 2 * (T / budget) + 2     after it came,
 *
 * whatever comes behind it. */
#include "base/mem.h"
#include "base/str.h"
#include "serve/sched_int.h"

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
        q->classes[c].ran = l->batches;
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

size_t bucket_of(size_t tokens)
{
    assert(tokens);
    if (tokens < 4)
        return tokens;
    size_t octave = 63 - (size_t)__builtin_clzll(tokens);
    size_t at = 4 * (octave - 1) + ((tokens >> (octave - 2)) & 3);
    return at < SCHED_BUCKETS ? at : SCHED_BUCKETS - 1;
}

static void count_waiting(struct lane *l, const struct text *t, bool more)
{
    struct lane_queue *q = t->work->queue;
    size_t n = more ? t->item->tokens : (size_t)0 - t->item->tokens;

    q->classes[t->class].tokens += n;
    q->seen->waiting[t->class] += n;
    l->tokens += n;
}

static void wait_in_queue(struct lane *l, struct text *t)
{
    struct lane_queue *q = t->work->queue;
    struct class_queue *c = &q->classes[t->class];
    size_t b = bucket_of(t->item->tokens);

    t->state = TEXT_WAITING;
    t->due = c->turn + 1 + c->tokens / q->budget;
    t->due = t->due < c->last_due ? c->last_due : t->due;
    c->last_due = t->due;
    t->newer = NULL;
    t->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = t;
    c->newest = t;
    t->next = NULL;
    t->prev = c->last[b];
    *(c->last[b] ? &c->last[b]->next : &c->first[b]) = t;
    c->last[b] = t;
    c->used |= UINT64_C(1) << b;
    count_waiting(l, t, true);
}

void text_leave(struct lane *l, struct text *t)
{
    struct class_queue *c = &t->work->queue->classes[t->class];
    size_t b = bucket_of(t->item->tokens);

    assert(t->state == TEXT_WAITING);
    *(t->older ? &t->older->newer : &c->oldest) = t->newer;
    *(t->newer ? &t->newer->older : &c->newest) = t->older;
    *(t->prev ? &t->prev->next : &c->first[b]) = t->next;
    *(t->next ? &t->next->prev : &c->last[b]) = t->prev;
    if (!c->first[b])
        c->used &= ~(UINT64_C(1) << b);
    t->older = t->newer = t->prev = t->next = NULL;
    count_waiting(l, t, false);
}

/* ---- the same text twice */

static struct text **place(struct lane *l, const struct text *t)
{
    return &l->table[t->hash[0] & (SCHED_TABLE - 1)];
}

static bool same(const struct text *a, const struct text *b)
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

static void follow(struct lane *l, struct text *t, struct text *leader)
{
    t->state = TEXT_FOLLOWING;
    t->leader = leader;
    t->prev = NULL;
    t->next = leader->followers;
    if (t->next)
        t->next->prev = t;
    leader->followers = t;
    if (leader->state == TEXT_WAITING && t->class < leader->class) { /* urgent for one of them */
        text_leave(l, leader);
        leader->class = t->class;
        wait_in_queue(l, leader);
    }
}

static void unfollow(struct text *t)
{
    *(t->prev ? &t->prev->next : &t->leader->followers) = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->prev = t->next = t->leader = NULL;
}

void text_enter(struct lane *l, struct text *t)
{
    struct text **at = place(l, t), *leader = *at;

    while (leader && !same(leader, t))
        leader = leader->chain;
    if (leader) {
        follow(l, t, leader);
        return;
    }
    t->chain = *at;
    *at = t;
    wait_in_queue(l, t);
}

/* The first follower takes the place of a waiting text that nobody else wants any more. */
static void hand_over(struct lane *l, struct text *t)
{
    struct text *f = t->followers, **at = place(l, t);
    struct class_queue *c = &t->work->queue->classes[t->class];
    size_t b = bucket_of(t->item->tokens);

    unfollow(f);
    f->followers = t->followers;
    for (struct text *o = f->followers; o; o = o->next)
        o->leader = f;
    t->followers = NULL;
    while (*at != t)
        at = &(*at)->chain;
    *at = f;
    f->chain = t->chain;
    f->state = TEXT_WAITING;
    f->class = t->class;
    f->due = t->due;
    f->older = t->older;
    f->newer = t->newer;
    f->prev = t->prev;
    f->next = t->next;
    *(f->older ? &f->older->newer : &c->oldest) = f;
    *(f->newer ? &f->newer->older : &c->newest) = f;
    *(f->prev ? &f->prev->next : &c->first[b]) = f;
    *(f->next ? &f->next->prev : &c->last[b]) = f;
}

/* ---- the end of a job */

static void text_drop(struct lane *l, struct text *t)
{
    assert(t->state != TEXT_RUNNING);
    if (t->state == TEXT_FOLLOWING) {
        unfollow(t);
    } else if (t->state == TEXT_WAITING && t->followers) {
        hand_over(l, t);
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
    q->seen->jobs[w->job->class]--;
    meter_queue(q->seen);
    meter_end(w, l->stopping);
    w->ended = NULL;
    *l->ended_end = w;
    l->ended_end = &w->ended;
}

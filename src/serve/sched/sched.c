/* SPDX-License-Identifier: MIT */
/* sched: see sched_int.h, and device_queue_int.h for how its files share the work.
 *
 * This one is what others call: it makes and ends device queues, and takes requests in.  Hashing
 * and looking into the cache are done by the thread that submits, before the queue's lock. */
#include "serve/sched/sched_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>
#include <math.h>
#include <sys/random.h>

/* ---- device queues */

static struct device_queue *device_queue_new(struct sched *s, const char *device)
{
    struct device_queue *dq = xcalloc(1, sizeof(*dq));

    dq->sched = s;
    dq->device = xstrdup(device);
    dq->index = s->queue_count;
    dq->table = xcalloc(SCHED_TABLE, sizeof(struct request_text *));
    dq->ended_end = &dq->ended;
    dq->batch = &dq->slots[0];
    dq->deadline_ns = INT64_MAX;
    dq->stopping = s->stopping;
    dq->busy = metrics_counter(s->families.busy, device);
    pthread_mutex_init(&dq->lock, NULL);
    pthread_cond_init(&dq->wake, NULL);
    pthread_cond_init(&dq->changed, NULL);
    return dq;
}

static void device_queue_free(struct device_queue *dq)
{
    assert(!dq->requests && !dq->tasks && !dq->open && !dq->flying);
    queues_tidy(dq);
    for (struct model_queue *q = dq->free_queues, *next; q; q = next) {
        next = q->next;
        for (size_t c = 0; c < SCHED_CLASSES; c++)
            free(q->classes[c].turns.cells);
        free(q);
    }
    clients_free(dq);
    for (struct model_record *m = dq->records, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    for (size_t i = 0; i < ARRAY_SIZE(dq->slots); i++) {
        struct sched_batch *b = &dq->slots[i];
        free(b->texts);
        free(b->ids);
        free(b->types);
        free(b->skips);
        free(b->starts);
        free(b->out);
    }
    pthread_cond_destroy(&dq->changed);
    pthread_cond_destroy(&dq->wake);
    pthread_mutex_destroy(&dq->lock);
    free(dq->table);
    free(dq->device);
    free(dq);
}

struct device_queue *sched_device_queue(struct sched *s, const char *device)
{
    struct device_queue *dq = NULL;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; !dq && i < s->queue_count; i++)
        if (str_eq(s->queues[i]->device, device))
            dq = s->queues[i];
    if (!dq && s->queue_count < SCHED_DEVICE_QUEUES_MAX) {
        dq = device_queue_new(s, device);
        if (pthread_create(&dq->thread, NULL, device_queue_main, dq) == 0) {
            s->queues[s->queue_count++] = dq;
        } else {
            device_queue_free(dq);
            dq = NULL;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return dq;
}

/* With the lock; gives it back. */
static void unlock_and_wake(struct device_queue *dq)
{
    bool asleep = dq->asleep;

    pthread_mutex_unlock(&dq->lock);
    if (asleep)
        pthread_cond_signal(&dq->wake);
}

void sched_on_device_queue(struct device_queue *dq, void (*fn)(void *arg), void *arg)
{
    struct device_task c = { .fn = fn, .arg = arg }, **at = &dq->tasks;

    if (pthread_equal(pthread_self(), dq->thread)) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&dq->lock);
    while (*at)
        at = &(*at)->next;
    *at = &c;
    unlock_and_wake(dq);
    pthread_mutex_lock(&dq->lock);
    while (!c.over)
        pthread_cond_wait(&dq->changed, &dq->lock);
    pthread_mutex_unlock(&dq->lock);
}

/* ---- life */

enum rc sched_new(const struct sched_opts *o, struct sched **out, struct err *err)
{
    struct sched *s = xcalloc(1, sizeof(*s));

    s->o = *o;
    s->o.queue_tokens_max = o->queue_tokens_max ? o->queue_tokens_max : SCHED_QUEUE_TOKENS_DEFAULT;
    s->o.queue_requests_max =
        o->queue_requests_max ? o->queue_requests_max : SCHED_QUEUE_REQUESTS_DEFAULT;
    s->o.batch_ns = o->batch_ns ? o->batch_ns : (int64_t)SCHED_BATCH_MS_DEFAULT * 1000000;
    s->o.run = o->run ? o->run : eng_run;
    if (getrandom(&s->seed, sizeof(s->seed), 0) != (ssize_t)sizeof(s->seed)) {
        free(s);
        return err_sys(err, "could not get random bytes");
    }
    s->priv_metrics = o->metrics ? NULL : metrics_new();
    s->o.metrics = o->metrics ? o->metrics : s->priv_metrics;
    meter_families(s);
    s->cache = o->cache_bytes ? cache_new(o->cache_bytes) : NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->note_lock, NULL);
    *out = s;
    return RC_OK;
}

void sched_stop(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;        /* of device queues that are made from here on */
    size_t n = s->queue_count; /* those stay where they are until sched_free() */
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&s->queues[i]->lock);
        s->queues[i]->stopping = true;
        unlock_and_wake(s->queues[i]);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&s->queues[i]->lock);
        while (s->queues[i]->open)
            pthread_cond_wait(&s->queues[i]->changed, &s->queues[i]->lock);
        pthread_mutex_unlock(&s->queues[i]->lock);
    }
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    sched_stop(s);
    for (size_t i = 0; i < s->queue_count; i++) {
        pthread_mutex_lock(&s->queues[i]->lock);
        s->queues[i]->ending = true;
        unlock_and_wake(s->queues[i]);
        (void)pthread_join(s->queues[i]->thread, NULL);
    }
    for (size_t i = 0; i < s->queue_count; i++)
        device_queue_free(s->queues[i]);
    cache_free(s->cache);
    metrics_free(s->priv_metrics);
    pthread_mutex_destroy(&s->note_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void sched_expect_model(struct sched *s, const char *name)
{
    struct model_series m;

    meter_make(s, name, &m);
}

/* ---- taking a request in: before the lock */

static uint64_t mix_bits(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

/* Two sums over the tokens that share no step; seeded, so that nobody can aim at one chain. */
static void hash_text(const struct sched *s, const struct request *r, struct request_text *t)
{
    uint64_t a = s->seed ^ r->model->key, b = ~a + (uint64_t)r->want + ((uint64_t)t->skip << 8);

    t->hash[0] = t->hash[1] = 0;
    if (s->o.one_hash)
        return;
    for (uint32_t i = 0; i < t->tokens; i++) {
        uint64_t x = (uint64_t)t->ids[i] << 8 | (t->types ? t->types[i] : 0);
        a = (a ^ x) * UINT64_C(0x9e3779b97f4a7c15);
        a ^= a >> 29;
        b = (b + x) * UINT64_C(0xc2b2ae3d27d4eb4f);
        b ^= b >> 32;
    }
    t->hash[0] = mix_bits(a ^ t->tokens);
    t->hash[1] = mix_bits(b + t->tokens);
}

/* Types that are all 0 are as good as none, and shall look the same. */
static void drop_zero_types(struct request_text *t)
{
    for (uint32_t i = 0; t->types && i < t->tokens; i++)
        if (t->types[i])
            return;
    t->types = NULL;
}

static bool look_up(struct sched *s, const struct request *r, const struct request_text *t)
{
    struct cache_key k = { .hash = { t->hash[0], t->hash[1] },
                           .model = r->model->key,
                           .want = r->want,
                           .tokens = t->tokens,
                           .skip = t->skip,
                           .ids = t->ids,
                           .types = t->types };

    return s->cache && r->want != ENG_TOKENS &&
           cache_get(s->cache, &k, t->out, eng_width(r->model->model, r->want));
}

/* The longest first, equal ones side by side. */
static int by_length(const void *a, const void *b)
{
    const struct request_text *s = *(struct request_text *const *)a,
                              *t = *(struct request_text *const *)b;
    uint32_t x = s->tokens, y = t->tokens;

    return x != y ? (x < y) - (x > y) : (s->hash[0] < t->hash[0]) - (s->hash[0] > t->hash[0]);
}

/* Which texts are not in the cache, and what they cost: of equal ones, one is computed. */
static void list_pending(struct sched *s, struct request *r)
{
    r->pending = xmalloc(r->count * sizeof(struct request_text *));
    r->pending_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct request_text *t = &r->texts[i];
        assert(t->tokens);
        t->request = r;
        t->state = TEXT_OVER;
        t->chain = t->prev = t->next = t->leader = t->followers = NULL;
        t->err = NULL;
        t->failed = t->shared = false;
        drop_zero_types(t);
        hash_text(s, r, t);
        t->cached = look_up(s, r, t);
        if (!t->cached)
            r->pending[r->pending_count++] = t;
    }
    r->unfinished = r->pending_count;
    qsort(r->pending, r->pending_count, sizeof(struct request_text *), by_length);
    r->joined_tokens = 0;
    for (size_t i = 0; i < r->pending_count; i++)
        if (!i || !text_same(r->pending[i], r->pending[i - 1]))
            r->joined_tokens += r->pending[i]->tokens;
}

/* All that is the scheduler's; it may have been refused once already. */
static void begin_request(struct request *r)
{
    assert(r->count && r->done);
    r->submitted_ns = clock_mono_ns();
    r->started_ns = r->ended_ns = 0;
    r->fell_back = r->over = r->failed = r->unsure = false;
    r->device = r->failed_device = NULL;
    r->prev = r->next = r->ended = NULL;
    r->queue = NULL;
    r->sharer = NULL;
    r->turn = (struct sched_turn){ 0 };
    r->waiting_first = r->waiting_last = NULL;
    r->waiting_tokens = r->running = 0;
    r->why = RC_OK;
    r->err = (struct err){ 0 };
}

/* ---- taking a request in: under the lock */

static void enter_queue(struct device_queue *dq, struct request *r)
{
    struct model_record *m = r->queue->record;
    size_t shared = 0;

    r->next = dq->requests;
    if (dq->requests)
        dq->requests->prev = r;
    dq->requests = r;
    dq->request_count++;
    dq->open++;
    r->queue->request_count++;
    m->requests[r->class]++;
    for (size_t i = 0; i < r->pending_count; i++) {
        text_enter(dq, r->pending[i]);
        shared += r->pending[i]->state == TEXT_FOLLOWING;
    }
    if (r->deadline_ns && r->deadline_ns < dq->deadline_ns)
        dq->deadline_ns = r->deadline_ns;
    if (request_dead(r, r->submitted_ns) != RC_OK)
        atomic_store(&dq->sweep, true);
    if (dq->waits && queue_full(dq, r->queue))
        eng_nudge(dq->waits); /* the next batch need not wait for this one */
    meter_queue(m);
    counter_add(m->series.coalesced, shared);
    if (dq->sched->cache && r->want != ENG_TOKENS) {
        counter_add(m->series.hits, r->count - r->pending_count);
        counter_add(m->series.misses, r->pending_count);
    }
}

/* Everything was in the cache. */
static void found_all(struct device_queue *dq, struct request *r)
{
    pthread_mutex_lock(&dq->lock);
    counter_add(record_of(dq, r->model->name)->series.hits, r->count);
    pthread_mutex_unlock(&dq->lock);
    free(r->pending);
    r->pending = NULL;
    r->started_ns = r->submitted_ns;
    r->ended_ns = clock_mono_ns();
    r->done(r);
}

/* Of a model's devices the one with the fewest tokens, those that failed last. */
static struct device_queue *least_loaded_queue(struct served *m)
{
    struct device_queue *best = m->device_queue;
    int64_t now = m->replica_count > 1 ? clock_mono_ns() : 0;
    size_t least = SIZE_MAX;

    for (size_t i = 0; m->replica_count > 1 && i < m->replica_count; i++) {
        struct device_queue *dq = m->replicas[i].device_queue;
        bool down = atomic_load(&m->replicas[i].retry_ns) > now;
        pthread_mutex_lock(&dq->lock);
        size_t tokens = dq->tokens + dq->running_tokens + (down ? SIZE_MAX / 2 : 0);
        pthread_mutex_unlock(&dq->lock);
        if (tokens < least) {
            least = tokens;
            best = dq;
        }
    }
    return best;
}

enum rc sched_submit(struct sched *s, struct request *r, int *out_retry_s, struct err *err)
{
    struct device_queue *dq = least_loaded_queue(r->model);
    enum sched_refuse why;

    begin_request(r);
    list_pending(s, r);
    if (!r->pending_count) {
        found_all(dq, r);
        return RC_OK;
    }
    pthread_mutex_lock(&dq->lock);
    r->queue = queue_of(dq, r->model, r->want);
    r->class = r->joined_tokens > queue_room(dq, r->queue) ? REQUEST_BULK : r->class;
    enum rc rc = admit(dq, r, &why, err);
    if (rc == RC_OK) {
        enter_queue(dq, r);
        unlock_and_wake(dq);
        return RC_OK;
    }
    counter_add(r->queue->record->series.refused[why], 1);
    *out_retry_s = admit_retry_s(dq, r);
    pthread_mutex_unlock(&dq->lock);
    for (size_t i = 0; i < r->count; i++)
        r->texts[i].cached = false;
    free(r->pending);
    r->pending = NULL;
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* sched: see sched_int.h, and device_queue_int.h for how its files share the work.
 *
 * This one is what others call: it makes and ends lanes, and takes jobs in.  Hashing and
 * looking into the cache are done by the thread that submits, before the lane's lock. */
#include "serve/sched/sched_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>
#include <math.h>
#include <sys/random.h>

/* ---- lanes */

static struct lane *lane_new(struct sched *s, const char *device)
{
    struct lane *l = xcalloc(1, sizeof(*l));

    l->sched = s;
    l->device = xstrdup(device);
    l->index = s->lane_count;
    l->table = xcalloc(SCHED_TABLE, sizeof(struct text *));
    l->ended_end = &l->ended;
    l->batch = &l->slots[0];
    l->deadline_ns = INT64_MAX;
    l->stopping = s->stopping;
    l->busy = metrics_counter(s->families.busy, device);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake, NULL);
    pthread_cond_init(&l->changed, NULL);
    return l;
}

static void lane_free(struct lane *l)
{
    assert(!l->works && !l->calls && !l->open && !l->flying);
    queues_tidy(l);
    for (struct lane_queue *q = l->spare, *next; q; q = next) {
        next = q->next;
        for (size_t c = 0; c < SCHED_CLASSES; c++)
            free(q->classes[c].turns.cells);
        free(q);
    }
    clients_free(l);
    for (struct seen *m = l->seen, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    for (size_t i = 0; i < ARRAY_SIZE(l->slots); i++) {
        struct batch *b = &l->slots[i];
        free(b->texts);
        free(b->ids);
        free(b->types);
        free(b->skips);
        free(b->starts);
        free(b->out);
    }
    pthread_cond_destroy(&l->changed);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l->table);
    free(l->device);
    free(l);
}

struct lane *sched_lane(struct sched *s, const char *device)
{
    struct lane *l = NULL;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; !l && i < s->lane_count; i++)
        if (str_eq(s->lanes[i]->device, device))
            l = s->lanes[i];
    if (!l && s->lane_count < SCHED_LANES_MAX) {
        l = lane_new(s, device);
        if (pthread_create(&l->thread, NULL, lane_main, l) == 0) {
            s->lanes[s->lane_count++] = l;
        } else {
            lane_free(l);
            l = NULL;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return l;
}

/* With the lock; gives it back. */
static void unlock_and_wake(struct lane *l)
{
    bool asleep = l->asleep;

    pthread_mutex_unlock(&l->lock);
    if (asleep)
        pthread_cond_signal(&l->wake);
}

void sched_on_lane(struct lane *l, void (*fn)(void *arg), void *arg)
{
    struct lane_call c = { .fn = fn, .arg = arg }, **at = &l->calls;

    if (pthread_equal(pthread_self(), l->thread)) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&l->lock);
    while (*at)
        at = &(*at)->next;
    *at = &c;
    unlock_and_wake(l);
    pthread_mutex_lock(&l->lock);
    while (!c.over)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

/* ---- life */

enum rc sched_new(const struct sched_opts *o, struct sched **out, struct err *err)
{
    struct sched *s = xcalloc(1, sizeof(*s));

    s->o = *o;
    s->o.queue_tokens_max = o->queue_tokens_max ? o->queue_tokens_max : SCHED_QUEUE_TOKENS_DEFAULT;
    s->o.queue_jobs_max = o->queue_jobs_max ? o->queue_jobs_max : SCHED_QUEUE_JOBS_DEFAULT;
    s->o.batch_ns = o->batch_ns ? o->batch_ns : (int64_t)SCHED_BATCH_MS_DEFAULT * 1000000;
    s->o.run = o->run ? o->run : eng_run;
    if (getrandom(&s->seed, sizeof(s->seed), 0) != (ssize_t)sizeof(s->seed)) {
        free(s);
        return err_sys(err, "could not get random bytes");
    }
    s->own_metrics = o->metrics ? NULL : metrics_new();
    s->o.metrics = o->metrics ? o->metrics : s->own_metrics;
    meter_families(s);
    s->cache = o->cache_bytes ? cache_new(o->cache_bytes) : NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->note_lock, NULL);
    *out = s;
    return RC_OK;
}

/* The lanes there are; they stay until sched_free(). */
static size_t lanes_of(struct sched *s, struct lane **out)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->lane_count;
    memcpy(out, s->lanes, n * sizeof(struct lane *));
    pthread_mutex_unlock(&s->lock);
    return n;
}

void sched_stop(struct sched *s)
{
    struct lane *lanes[SCHED_LANES_MAX];

    pthread_mutex_lock(&s->lock);
    s->stopping = true; /* of lanes that are made from here on */
    pthread_mutex_unlock(&s->lock);
    size_t n = lanes_of(s, lanes);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&lanes[i]->lock);
        lanes[i]->stopping = true;
        unlock_and_wake(lanes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&lanes[i]->lock);
        while (lanes[i]->open)
            pthread_cond_wait(&lanes[i]->changed, &lanes[i]->lock);
        pthread_mutex_unlock(&lanes[i]->lock);
    }
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    sched_stop(s);
    for (size_t i = 0; i < s->lane_count; i++) {
        pthread_mutex_lock(&s->lanes[i]->lock);
        s->lanes[i]->ending = true;
        unlock_and_wake(s->lanes[i]);
        (void)pthread_join(s->lanes[i]->thread, NULL);
    }
    for (size_t i = 0; i < s->lane_count; i++)
        lane_free(s->lanes[i]);
    cache_free(s->cache);
    metrics_free(s->own_metrics);
    pthread_mutex_destroy(&s->note_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void sched_expect_model(struct sched *s, const char *name)
{
    struct meter m;

    meter_make(s, name, &m);
}

size_t sched_waiting_tokens(struct sched *s)
{
    struct lane *lanes[SCHED_LANES_MAX];
    size_t n = lanes_of(s, lanes), sum = 0;

    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&lanes[i]->lock);
        sum += lanes[i]->tokens;
        pthread_mutex_unlock(&lanes[i]->lock);
    }
    return sum;
}

size_t sched_jobs(struct sched *s)
{
    struct lane *lanes[SCHED_LANES_MAX];
    size_t n = lanes_of(s, lanes), sum = 0;

    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&lanes[i]->lock);
        sum += lanes[i]->open;
        pthread_mutex_unlock(&lanes[i]->lock);
    }
    return sum;
}

void sched_cancel(struct sched *s, struct job *j)
{
    (void)s;
    atomic_store(&j->cancelled, true);
    atomic_store(&j->model->lane->sweep, true); /* it is awake: this job is not over */
}

/* ---- taking a job in: before the lock */

static uint64_t mixed(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

/* Two sums over the tokens that share no step; seeded, so that nobody can aim at one chain. */
static void hash_text(const struct sched *s, const struct job *j, struct text *t)
{
    const struct job_item *it = t->item;
    uint64_t a = s->seed ^ j->model->key, b = ~a + (uint64_t)j->want + ((uint64_t)it->skip << 8);

    t->hash[0] = t->hash[1] = 0;
    if (s->o.one_hash)
        return;
    for (uint32_t i = 0; i < it->tokens; i++) {
        uint64_t x = (uint64_t)it->ids[i] << 8 | (t->types ? t->types[i] : 0);
        a = (a ^ x) * UINT64_C(0x9e3779b97f4a7c15);
        a ^= a >> 29;
        b = (b + x) * UINT64_C(0xc2b2ae3d27d4eb4f);
        b ^= b >> 32;
    }
    t->hash[0] = mixed(a ^ it->tokens);
    t->hash[1] = mixed(b + it->tokens);
}

/* Types that are all 0 are as good as none, and shall look the same. */
static const uint8_t *types_of(const struct job_item *it)
{
    for (uint32_t i = 0; it->types && i < it->tokens; i++)
        if (it->types[i])
            return it->types;
    return NULL;
}

static bool look_up(struct sched *s, const struct job *j, const struct text *t)
{
    struct cache_key k = { .hash = { t->hash[0], t->hash[1] },
                           .model = j->model->key,
                           .want = j->want,
                           .tokens = t->item->tokens,
                           .skip = t->item->skip,
                           .ids = t->item->ids,
                           .types = t->types };

    return s->cache && j->want != ENG_TOKENS &&
           cache_get(s->cache, &k, t->item->out, eng_width(j->model->model, j->want));
}

/* The longest first, equal ones side by side. */
static int by_length(const void *a, const void *b)
{
    const struct text *s = a, *t = b;
    uint32_t x = s->item->tokens, y = t->item->tokens;

    return x != y ? (x < y) - (x > y) : (s->hash[0] < t->hash[0]) - (s->hash[0] > t->hash[0]);
}

/* Of equal texts one is computed. */
static size_t tokens_to_compute(const struct work *w)
{
    size_t sum = 0;

    for (size_t i = 0; i < w->count; i++)
        if (!i || !text_same(&w->texts[i], &w->texts[i - 1]))
            sum += w->texts[i].item->tokens;
    return sum;
}

static struct work *work_new(struct sched *s, struct job *j)
{
    struct work *w = xmalloc(sizeof(*w) + j->count * sizeof(w->texts[0]));

    memset(w, 0, sizeof(*w));
    w->job = j;
    for (size_t i = 0; i < j->count; i++) {
        struct text *t = &w->texts[w->count];
        struct job_item *it = &j->items[i];
        assert(it->tokens);
        *t = (struct text){ .work = w, .item = it, .types = types_of(it) };
        it->failed = it->shared = false;
        hash_text(s, j, t);
        it->cached = look_up(s, j, t);
        w->count += !it->cached;
    }
    w->left = w->count;
    qsort(w->texts, w->count, sizeof(w->texts[0]), by_length);
    w->joined = tokens_to_compute(w);
    return w;
}

/* ---- taking a job in: under the lock */

static void enter(struct lane *l, struct work *w)
{
    struct job *j = w->job;
    struct seen *m = w->queue->seen;
    size_t shared = 0;

    w->next = l->works;
    if (l->works)
        l->works->prev = w;
    l->works = w;
    l->jobs++;
    l->open++;
    w->queue->jobs++;
    m->jobs[w->class]++;
    for (size_t i = 0; i < w->count; i++) {
        text_enter(l, &w->texts[i]);
        shared += w->texts[i].state == TEXT_FOLLOWING;
    }
    if (j->deadline_ns && j->deadline_ns < l->deadline_ns)
        l->deadline_ns = j->deadline_ns;
    if (work_dead(w, j->submitted_ns) != RC_OK)
        atomic_store(&l->sweep, true);
    if (l->waits && queue_full(l, w->queue))
        eng_nudge(l->waits); /* the next batch need not wait for this one */
    meter_queue(m);
    counter_add(m->meter.coalesced, shared);
    if (l->sched->cache && j->want != ENG_TOKENS) {
        counter_add(m->meter.hits, j->count - w->count);
        counter_add(m->meter.misses, w->count);
    }
}

static void refuse(struct work *w)
{
    for (size_t i = 0; i < w->job->count; i++)
        w->job->items[i].cached = false;
    w->job->own = NULL;
    free(w);
}

/* Everything was in the cache. */
static void found_all(struct lane *l, struct work *w)
{
    struct job *j = w->job;

    pthread_mutex_lock(&l->lock);
    counter_add(seen_of(l, j->model->name)->meter.hits, j->count);
    pthread_mutex_unlock(&l->lock);
    free(w);
    j->own = NULL;
    j->started_ns = j->submitted_ns;
    j->ended_ns = clock_mono_ns();
    j->done(j, RC_OK, NULL);
}

/* Of a model's devices the one with the fewest tokens, those that failed last. */
static struct lane *lane_of(struct served *m)
{
    struct lane *best = m->lane;
    int64_t now = m->replica_count > 1 ? clock_mono_ns() : 0;
    size_t least = SIZE_MAX;

    for (size_t i = 0; m->replica_count > 1 && i < m->replica_count; i++) {
        struct lane *l = m->replicas[i].lane;
        bool down = atomic_load(&m->replicas[i].retry_ns) > now;
        pthread_mutex_lock(&l->lock);
        size_t tokens = l->tokens + l->running_tokens + (down ? SIZE_MAX / 2 : 0);
        pthread_mutex_unlock(&l->lock);
        if (tokens < least) {
            least = tokens;
            best = l;
        }
    }
    return best;
}

enum rc sched_submit(struct sched *s, struct job *j, int *out_retry_s, struct err *err)
{
    struct lane *l = lane_of(j->model);
    enum sched_refuse why;

    assert(j->count && j->done);
    j->submitted_ns = clock_mono_ns();
    j->started_ns = j->ended_ns = 0;
    j->fell_back = false;
    j->device = j->failed_device = NULL;
    struct work *w = work_new(s, j);
    j->own = w;
    if (!w->count) {
        found_all(l, w);
        return RC_OK;
    }
    pthread_mutex_lock(&l->lock);
    w->queue = queue_of(l, j->model, j->want);
    w->class = w->joined > queue_room(l, w->queue) ? ASK_BULK : j->class;
    enum rc rc = admit(l, w, &why, err);
    if (rc == RC_OK) {
        enter(l, w);
        unlock_and_wake(l);
        return RC_OK;
    }
    counter_add(w->queue->seen->meter.refused[why], 1);
    *out_retry_s = admit_retry_s(l, w);
    pthread_mutex_unlock(&l->lock);
    refuse(w);
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* sched_admit: how fast a model is, and what can end in time.
 *
 * What a token costs depends on how many run with it, on a GPU as on a CPU, and no formula is good
 * for both: so the cost is kept for each octave of batch sizes, as measured lately.  The room of a
 * batch is what runs within sched_opts.batch_ns by that, so that nobody waits longer for a batch
 * that is none of his; but batches in which a token costs a quarter more than it can are not made:
 * 16 cores that wait for one another spend most of a small batch on that.  Now and then, when there
 * is enough, one is made larger, and the next one larger again as long as that pays: small ones
 * alone would never tell what large ones cost.
 *
 * A batch can stand still for a reason that passes: a VM that was paused, a CPU that others used.
 * Its octave would then refuse what would measure it again.  So a batch never counts as slower
 * than a larger one that ran since, one quick batch undoes what slow ones said, and where a speed
 * refuses requests for SCHED_PACE_STALE_S, one comes in to measure it.
 *
 * What small batches cost says nothing of large ones: most of it is what any batch costs.  So the
 * time of a large request is a guess until batches of the size that it would run in were seen; it
 * comes in then, and is judged as soon as they were.
 *
 * Requests of a class share the device queue by turns, so one with n tokens left ends when each
 * other has had n tokens too, or what it has left where that is less.  A request comes in when by
 * this it ends in time, and so do those that came in before: work is not thrown away half done. */
#include "base/mem.h"
#include "serve/sched/device_queue_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- pace */

static size_t octave_of(size_t tokens)
{
    size_t k = 63 - (size_t)__builtin_clzll(tokens | 1);

    return k < SCHED_OCTAVES ? k : SCHED_OCTAVES - 1;
}

/* The octave that tells of a batch of so many; where none ran, the nearest below, else above;
 * SCHED_OCTAVES: nothing ran. */
static size_t octave_known(const struct pace *p, size_t tokens)
{
    size_t at = octave_of(tokens), k = at + 1;

    while (k && !(p->octaves[k - 1].token_ns > 0))
        k--;
    for (k = k ? k - 1 : at; k < SCHED_OCTAVES; k++)
        if (p->octaves[k].token_ns > 0)
            break;
    return k;
}

/* Of one batch: no more than a larger one that was measured since. */
static double batch_ns(const struct pace *p, size_t tokens)
{
    size_t at = octave_of(tokens), from = octave_known(p, tokens);
    double ns = from < SCHED_OCTAVES ? (double)tokens * p->octaves[from].token_ns : 0;

    for (size_t k = at + 1; k < SCHED_OCTAVES; k++)
        if (p->octaves[k].at > p->octaves[at].at)
            ns = fmin(ns, (double)p->octaves[k].tokens * p->octaves[k].token_ns);
    return ns;
}

static double token_cost(const struct pace *p, size_t tokens)
{
    return batch_ns(p, tokens) / (double)tokens;
}

void pace_add(struct pace *p, size_t tokens, int64_t begun_ns, int64_t ended_ns)
{
    struct pace_octave *o = &p->octaves[octave_of(tokens)];
    double now = (double)(ended_ns - begun_ns) / (double)tokens;
    double cost = o->token_ns > 0 ? token_cost(p, tokens) : now;

    now = fmin(now, 4 * cost);  /* a batch that stood still says little of the next, … */
    cost = fmin(cost, 2 * now); /* … a quick one that the model can */
    o->token_ns = cost + (now - cost) / SCHED_PACE_WINDOW;
    o->tokens = tokens;
    o->at = ++p->batches;
    o->ended_ns = ended_ns;
    p->since_trial++;
    if (!p->trial || tokens < p->trial - p->trial / 4)
        return;
    p->since_trial = 0;
    p->climbs = o->token_ns < 0.9 * token_cost(p, tokens / 2);
    p->trial = p->climbs ? 2 * p->trial : 0;
}

bool pace_known(const struct pace *p)
{
    return p->batches >= SCHED_PACE_MIN;
}

/* Did batches run that are as large as those of such a request would be?  They hold a text at
 * least, and one larger than the room must have been tried, where one can be made. */
static bool request_pace_known(const struct device_queue *dq, const struct request *r,
                               size_t tokens)
{
    struct model_queue *q = r->queue;
    const struct pace *p = &q->record->pace;
    size_t room = queue_room(dq, q), text = r->joined_tokens / r->pending_count + 1,
           top = SCHED_OCTAVES;
    size_t most = q->texts_max < q->budget / text ? q->texts_max * text : q->budget;

    if (!pace_known(p) || tokens <= room)
        return pace_known(p);
    while (top && !(p->octaves[top - 1].token_ns > 0))
        top--;
    return top > octave_of(text > room ? text : room) &&
           (room >= most || top - 1 > octave_of(room));
}

double pace_ns(const struct pace *p, size_t tokens, size_t batch)
{
    size_t one = tokens < batch ? tokens : batch;

    return one && pace_known(p) ? (double)tokens * token_cost(p, one) : 0;
}

size_t pace_tokens(const struct pace *p, double ns, size_t budget)
{
    double least = HUGE_VAL, n = 0;
    size_t above = 0; /* the next octave that is known */

    if (!pace_known(p))
        return budget < SCHED_PROBE_TOKENS ? budget : SCHED_PROBE_TOKENS;
    for (size_t k = 0; k <= octave_of(budget); k++)
        if (p->octaves[k].token_ns > 0)
            least = fmin(least, token_cost(p, (size_t)1 << k));
    for (size_t k = octave_of(budget) + 1; k-- > 0;) {
        double cost = token_cost(p, (size_t)1 << k), low = (double)((size_t)1 << k);
        if (!(p->octaves[k].token_ns > 0))
            continue;
        if (n > 0 && cost > SCHED_COST_MAX * least)
            break;
        n = fmax(ns / cost, low); /* beyond its octave while nothing is known of the next */
        n = above ? fmin(n, (double)((size_t)1 << above) - 1) : n;
        if (low * cost <= ns)
            break;
        above = k;
    }
    return n >= (double)budget ? budget : n < 1 ? 1 : (size_t)n;
}

/* Asked for every request and every batch, and it changes with batches alone. */
size_t queue_room(const struct device_queue *dq, struct model_queue *q)
{
    const struct pace *p = &q->record->pace;

    if (!q->room || q->room_at != p->batches) {
        q->room = pace_tokens(p, (double)dq->sched->o.batch_ns, q->budget);
        q->room_at = p->batches;
    }
    return q->room;
}

size_t queue_room_now(const struct device_queue *dq, struct model_queue *q)
{
    struct pace *p = &q->record->pace;
    size_t room = queue_room(dq, q);

    if (p->since_trial < (p->climbs ? SCHED_TRIAL_SOON : SCHED_TRIAL_EVERY))
        return room;
    if (p->trial <= room)
        p->trial = 2 * room;
    if (p->trial > q->budget)
        p->trial = q->budget;
    return q->classes[REQUEST_BULK].tokens >= p->trial && p->trial > room ? p->trial : room;
}

/* ---- what ends when */

static double tokens_ns(const struct device_queue *dq, struct model_queue *q, size_t tokens)
{
    return pace_ns(&q->record->pace, tokens, queue_room(dq, q));
}

/* What runs, and what those who hurry take from bulk. */
static double ahead_ns(const struct device_queue *dq, enum request_class class)
{
    double sum = 0;

    for (struct model_queue *q = dq->queues; q; q = q->next) {
        sum += tokens_ns(dq, q, q->running);
        if (class == REQUEST_BULK)
            sum += tokens_ns(dq, q, q->classes[REQUEST_INTERACTIVE].tokens);
    }
    return sum;
}

/* From now until its last text is over, if it comes in with `need` ns. */
static double ends_in_ns(const struct device_queue *dq, const struct request *r, double need)
{
    double beside = 0, bulk = 0;

    for (const struct request *o = dq->requests; o; o = o->next) {
        double ns = o == r ? 0 : tokens_ns(dq, o->queue, o->waiting_tokens);
        if (o->class == r->class)
            beside += fmin(ns, need);
        else if (o->class == REQUEST_BULK)
            bulk += ns;
    }
    /* bulk has its share of turns even when others hurry */
    if (r->class == REQUEST_INTERACTIVE)
        beside += fmin(bulk, (beside + need) / (SCHED_BULK_EVERY - 1));
    return ahead_ns(dq, r->class) + beside + need;
}

/* No less than that, without a look at each of those that wait: a short request among many others
 * is let in by this, else a thousand of them cost a million looks under the device queue's lock. */
static double ends_at_most_ns(const struct device_queue *dq, const struct request *r, double need)
{
    double beside = (double)dq->request_count * need;

    if (r->class == REQUEST_INTERACTIVE)
        beside += (beside + need) / (SCHED_BULK_EVERY - 1);
    return ahead_ns(dq, r->class) + beside + need;
}

/* ---- those that came before */

struct promise {
    double ns, left; /* that it takes; until its deadline, HUGE_VAL: none */
};

static int by_size(const void *a, const void *b)
{
    double x = ((const struct promise *)a)->ns, y = ((const struct promise *)b)->ns;

    return (x > y) - (x < y);
}

/* Would one that ends in time without the newcomer end too late with it?  Only bulk is asked:
 * what is not bulk is small. */
static bool breaks_promise(const struct device_queue *dq, const struct request *r, double need)
{
    struct promise *all;
    bool late = false;
    size_t n = 0, i = 0;
    double sum;

    for (const struct request *o = r->class == REQUEST_BULK ? dq->requests : NULL; o; o = o->next)
        n += o->class == REQUEST_BULK;
    if (!n)
        return false;
    sum = ahead_ns(dq, REQUEST_BULK);
    all = xcalloc(n, sizeof(*all));
    for (const struct request *o = dq->requests; o; o = o->next)
        if (o->class == REQUEST_BULK)
            all[i++] = (struct promise){ .ns = tokens_ns(dq, o->queue, o->waiting_tokens),
                                         .left = o->deadline_ns
                                                     ? (double)(o->deadline_ns - r->submitted_ns)
                                                     : HUGE_VAL };
    qsort(all, n, sizeof(*all), by_size);
    for (i = 0; i < n; i++) {
        double end = sum + all[i].ns * (double)(n - i);
        late |= end <= all[i].left && end + fmin(need, all[i].ns) > all[i].left;
        sum += all[i].ns;
    }
    free(all);
    return late;
}

/* ---- taking in */

/* What a client may change about its time, in every refusal for it. */
#define MORE_TIME "(x-request-timeout, up to --timeout-max)"

struct span_text {
    char s[24];
};

/* "1.2 ms", "850 ms", "2.0 s": as a client says it. */
static struct span_text span_of(double ns)
{
    struct span_text t;

    if (ns < 9.95e6)
        (void)snprintf(t.s, sizeof(t.s), "%.1f ms", fmax(ns * 1e-6, 0.1));
    else if (ns < 999.5e6)
        (void)snprintf(t.s, sizeof(t.s), "%.0f ms", ns * 1e-6);
    else
        (void)snprintf(t.s, sizeof(t.s), "%.1f s", ns * 1e-9);
    return t;
}

/* Of what is more than `has`: never the same text. */
static struct span_text span_above(double ns, double has)
{
    struct span_text t = span_of(ns);

    if (strcmp(t.s, span_of(has).s) == 0)
        t = span_of(ns + (ns < 9.95e6 ? 0.1e6 : ns < 999.5e6 ? 1e6 : 0.1e9));
    return t;
}

/* All the time it was given, whatever of it went by before it came here. */
static double time_given(const struct request *r)
{
    return (double)(r->deadline_ns - (r->begun_ns ? r->begun_ns : r->submitted_ns));
}

/* The octave by which a request is judged. */
static struct pace_octave *judged_by(const struct device_queue *dq, const struct request *r)
{
    size_t room = queue_room(dq, r->queue);
    struct pace *p = &r->queue->record->pace;

    return &p->octaves[octave_known(p, r->joined_tokens < room ? r->joined_tokens : room)];
}

/* The speed says that it ends too late.  Where that speed is old, and all like this one were
 * refused since, it comes in to measure it, if others leave it the time; it is judged again after
 * its first batch. */
static bool comes_to_measure(const struct device_queue *dq, struct request *r, double need,
                             double left)
{
    struct pace_octave *o = judged_by(dq, r);
    int64_t now_ns = r->submitted_ns, last = o->ended_ns;

    last = o->tried_ns > last ? o->tried_ns : last;
    if (now_ns - last < SCHED_PACE_STALE_S * INT64_C(1000000000))
        return false;
    if (dq->tokens && ends_in_ns(dq, r, need) - need > 0.8 * left)
        return false;
    o->tried_ns = now_ns;
    r->unsure = true;
    r->unsure_at = r->queue->record->pace.batches;
    return true;
}

/* Did a batch like its own run, or a larger one, since it came to measure that? */
static bool measured_since(const struct device_queue *dq, const struct request *r)
{
    const struct pace *p = &r->queue->record->pace;

    for (const struct pace_octave *o = judged_by(dq, r); o < p->octaves + SCHED_OCTAVES; o++)
        if (o->at > r->unsure_at)
            return true;
    return false;
}

/* A fifth is left for what is not known.  One whose deadline is over already comes in, and goes
 * at once with the right word. */
static enum rc admit_time(const struct device_queue *dq, struct request *r,
                          enum sched_refuse *out_why, struct err *err)
{
    double left = (double)(r->deadline_ns - r->submitted_ns), given = time_given(r);
    double need = tokens_ns(dq, r->queue, r->joined_tokens);

    if (!r->deadline_ns || left <= 0 || r->unsure)
        return RC_OK;
    if (need > left && comes_to_measure(dq, r, need, left))
        return RC_OK;
    *out_why = REFUSE_SIZE;
    if (need > given)
        return err_set(err, RC_TIMEOUT, "it needs about %s and has %s", span_above(need, given).s,
                       span_of(given).s);
    *out_why = REFUSE_DEADLINE;
    if (need > left)
        return err_set(err, RC_LIMIT, "it needs about %s and has %s left of %s " MORE_TIME,
                       span_above(need, left).s, span_of(left).s, span_of(given).s);
    double end = ends_at_most_ns(dq, r, need);
    if (end > 0.8 * left)
        end = ends_in_ns(dq, r, need);
    if (dq->tokens && end > 0.8 * left)
        return err_set(err, RC_LIMIT,
                       "with what waits already it needs about %s, and of the %s that it has a "
                       "fifth is kept for what cannot be foreseen " MORE_TIME,
                       span_of(end).s, span_of(left).s);
    if (breaks_promise(dq, r, need))
        return err_set(err, RC_LIMIT, "requests that wait already would end too late with it");
    return RC_OK;
}

static bool is_client_here(const struct device_queue *dq, const struct request *r)
{
    for (const struct request *o = dq->requests; o; o = o->next)
        if (o->client == r->client)
            return true;
    return false;
}

/* How much may wait with it, of what `most` may by the settings?  Whoever fills the queue shall not
 * have everybody else refused: what is not bulk has an eighth more, and a client of whom nothing is
 * here another one.  `all`: what waits then. */
static bool has_room(const struct device_queue *dq, const struct request *r, size_t all,
                     size_t most)
{
    size_t reserve = most / SCHED_QUEUE_RESERVE;

    if (all <= most)
        return true;
    most += r->class == REQUEST_INTERACTIVE ? reserve : 0;
    return all <= most || (all <= most + reserve && !is_client_here(dq, r));
}

enum rc admit(const struct device_queue *dq, struct request *r, enum sched_refuse *out_why,
              struct err *err)
{
    const struct sched_opts *o = &dq->sched->o;

    r->unsure = !request_pace_known(dq, r, r->joined_tokens);

    *out_why = REFUSE_STOPPED;
    if (dq->stopping)
        return err_set(err, RC_LIMIT, "the server is stopping");
    *out_why = REFUSE_REQUESTS;
    if (!has_room(dq, r, dq->request_count + 1, o->queue_requests_max))
        return err_set(err, RC_LIMIT, "%zu requests wait already, %zu at most (queue_max)",
                       dq->request_count, o->queue_requests_max);
    *out_why = REFUSE_TOKENS;
    if (dq->tokens && !has_room(dq, r, dq->tokens + r->joined_tokens, o->queue_tokens_max))
        return err_set(err, RC_LIMIT, "%zu tokens wait already; %zu more would be above %zu",
                       dq->tokens, r->joined_tokens, o->queue_tokens_max);
    return admit_time(dq, r, out_why, err);
}

/* It came in when too little was known of the model's speed: does it end in time, now that enough
 * is? */
enum rc admit_again(const struct device_queue *dq, struct request *r, int64_t now_ns,
                    struct err *err)
{
    double left = (double)(r->deadline_ns - now_ns), given = time_given(r), need, all;

    if (!r->unsure || !request_pace_known(dq, r, r->waiting_tokens) || !measured_since(dq, r))
        return RC_OK;
    r->unsure = false;
    need = tokens_ns(dq, r->queue, r->waiting_tokens);
    if (!r->deadline_ns || need <= left)
        return RC_OK;
    all = tokens_ns(dq, r->queue, r->joined_tokens);
    if (all > given)
        return err_set(err, RC_TIMEOUT, "it needs about %s and has %s", span_above(all, given).s,
                       span_of(given).s);
    return err_set(err, RC_LIMIT, "it needs about %s more and has %s left of %s " MORE_TIME,
                   span_above(need, left).s, span_of(left).s, span_of(given).s);
}

/* When there will be room: not before the backlog, and half of it is a fair guess. */
int admit_retry_s(const struct device_queue *dq, const struct request *r)
{
    double backlog = ahead_ns(dq, r->class), s;

    for (const struct request *o = dq->requests; o; o = o->next)
        if (o->class <= r->class)
            backlog += tokens_ns(dq, o->queue, o->waiting_tokens);
    s = ceil(backlog * 0.5e-9);

    return s < 1 ? 1 : s > SCHED_RETRY_S_MAX ? SCHED_RETRY_S_MAX : (int)s;
}

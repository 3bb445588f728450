/* SPDX-License-Identifier: MIT */
/* alert: the engine.  See alert.h.
 *
 * A track is a rule on a series; tracks are made when a series appears and live as long as the
 * table.  A turn copies the table's values once and takes each track through
 *
 *     idle ─ bad ─► pending ─ bad for `for` ─► firing ─ clear for `keep` ─► resolved ─► idle
 *              ◄─ not bad ─┘                       (bad again: pending)     after a while
 *
 * Invariants
 *   1. the engine's time `mono_ns` is a sum of the steps between turns, each between 0 and
 *      STEP_MAX_NS: a clock that jumps neither ends a `for` at once nor stops it
 *   2. an unknown value moves nothing: the times of `for` and `keep` stand still
 *   3. the lock is held while tracks change; `changed` is called without it */
#include "base/mem.h"
#include "base/str.h"
#include "metrics/alert_int.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

#define STEP_MAX_NS      (60 * ALERT_SECOND)
#define RESOLVED_KEEP_NS (900 * ALERT_SECOND) /* a resolved one is listed so long */
#define STALE_NS         (600 * ALERT_SECOND) /* a pending one with an unknown value is */
#define BIRTH_NS         (10 * ALERT_SECOND)  /* series made so early were there before us */

enum track_state { TRACK_IDLE, TRACK_PENDING, TRACK_FIRING, TRACK_RESOLVED };
enum verdict { V_UNKNOWN, V_CLEAR, V_BETWEEN /* neither bad nor clear */, V_BAD };

struct track {
    uint32_t series, of, guard; /* TELE_NONE: none yet */
    uint16_t rule;              /* in alerts.rules */
    uint8_t state;              /* enum track_state */
    bool born;                  /* its counter has come from zero under our eyes */
    bool known;                 /* it has had a value */
    double last, value;         /* of the counter; as compared with the threshold */
    int64_t last_ns;            /* engine's time of `last` */
    int64_t held_ns;            /* bad, or clear when it fires; -1: it fires and is not clear */
    int64_t unknown_ns;         /* pending without a value */
    int64_t since_ns, fired_ns, resolved_ns; /* wall clock */
    int64_t ended_mono_ns;                   /* engine's time of resolved_ns */
    struct alert_window *win;                /* owned; NULL: the rule has no window */
    char *summary;                           /* owned; NULL: it is not active */
};

struct alerts {
    pthread_mutex_t lock;
    struct alert_rule *rules; /* owned, the strings borrowed; those that are on */
    size_t rule_count;
    struct tele *t;
    struct track *tracks; /* owned */
    size_t count, cap;
    size_t series_seen, active;
    uint32_t *born; /* owned: tele_born() of the series seen, value_cap entries */
    uint64_t renewed;
    uint64_t refused;
    int64_t mono_ns, wall_ns; /* wall 0: no turn yet */
    double *values;           /* owned; of the last turn */
    size_t value_cap;
    struct alert_active *changes; /* owned; of one turn */
    size_t change_count, change_cap;
};

bool alert_holds(enum alert_op op, double value, double than)
{
    switch (op) {
    case ALERT_ABOVE:
        return value > than;
    case ALERT_BELOW:
        return value < than;
    case ALERT_EQUAL:
        return value == than;
    case ALERT_NOT_EQUAL:
        return value != than;
    }
    return false;
}

double alert_clear_of(const struct alert_rule *r)
{
    return isnan(r->clear) ? r->threshold : r->clear;
}

const char *alert_state_word(enum alert_state s)
{
    static const char *const words[] = { "pending", "firing", "resolved" };

    return words[s];
}

struct alerts *alerts_new(const struct alert_rule *rules, size_t count, struct tele *t)
{
    struct alerts *a = xcalloc(1, sizeof(*a));

    assert(count <= ALERT_RULES_MAX);
    pthread_mutex_init(&a->lock, NULL);
    a->t = t;
    a->rules = xcalloc(count ? count : 1, sizeof(*a->rules));
    for (size_t i = 0; i < count; i++)
        if (!rules[i].off)
            a->rules[a->rule_count++] = rules[i];
    return a;
}

void alerts_free(struct alerts *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++) {
        free(a->tracks[i].win);
        free(a->tracks[i].summary);
    }
    free(a->tracks);
    free(a->rules);
    free(a->values);
    free(a->born);
    free(a->changes);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- which series a rule looks at */
static bool has_labels(const struct tele_series *s, const struct tele_label *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!str_eq(tele_label_of(s, want[i].name), want[i].value))
            return false;
    return true;
}

/* Do they speak of the same thing?  Labels that both have are equal, and there is one, unless
 * `o` is the node's: a link's series has the GPU's number, not its model. */
static bool same_thing(const struct tele_series *s, const struct tele_series *o)
{
    bool common = !o->label_count;

    for (size_t i = 0; i < o->label_count; i++) {
        const char *mine = tele_label_of(s, o->labels[i].name);

        if (mine && !str_eq(mine, o->labels[i].value))
            return false;
        common = common || mine;
    }
    return common;
}

/* The series of `metric` that belongs to `s`: with the same labels (`exact`), or of the same
 * thing. */
static uint32_t partner(const struct alerts *a, const char *metric, const struct tele_series *s,
                        bool exact, size_t from)
{
    size_t n = tele_count(a->t);

    for (uint32_t i = (uint32_t)from; i < n; i++) {
        const struct tele_series *o = tele_get(a->t, i);

        if (!str_eq(o->metric->id, metric))
            continue;
        if (exact ? o->label_count == s->label_count && has_labels(s, o->labels, o->label_count)
                  : same_thing(s, o))
            return i;
    }
    return TELE_NONE;
}

static void find_partners(struct alerts *a, struct track *k, size_t from)
{
    const struct alert_rule *r = &a->rules[k->rule];
    const struct tele_series *s = tele_get(a->t, k->series);

    if (r->of && k->of == TELE_NONE)
        k->of = partner(a, r->of, s, true, from);
    if (r->guard && k->guard == TELE_NONE)
        k->guard = partner(a, r->guard, s, false, from);
}

static void watch(struct alerts *a, size_t rule, uint32_t series)
{
    const struct alert_rule *r = &a->rules[rule];
    struct track *k;

    if (a->count == ALERT_TRACKS_MAX) {
        a->refused++;
        return;
    }
    VEC_GROW(a->tracks, a->count, a->cap);
    k = &a->tracks[a->count++];
    *k = (struct track){ .series = series, .of = TELE_NONE, .guard = TELE_NONE };
    k->rule = (uint16_t)rule;
    k->value = NAN;
    k->born = r->from_zero && a->mono_ns >= BIRTH_NS;
    if (r->window_ns && r->how != ALERT_VALUE && r->how != ALERT_ABSENT)
        k->win = xcalloc(1, sizeof(*k->win));
}

/* New series get their tracks; what a track divides by or is guarded by may come later. */
static void watch_series(struct alerts *a, uint32_t i)
{
    const struct tele_series *s = tele_get(a->t, i);

    a->born[i] = tele_born(a->t, i);
    for (size_t r = 0; r < a->rule_count; r++)
        if (str_eq(s->metric->id, a->rules[r].metric) &&
            alert_where(a->rules[r].where, s->labels, s->label_count))
            watch(a, r, i);
}

/* What is known of a series ends with it: its labels are gone, so that nothing can be told of its
 * end; a receiver that heard of it forgets it by its time. */
static void drop_tracks(struct alerts *a, uint32_t series)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->count; i++) {
        struct track *k = &a->tracks[i];

        if (k->series == series) {
            a->active -= k->state != TRACK_IDLE;
            free(k->win);
            free(k->summary);
            continue;
        }
        k->of = k->of == series ? TELE_NONE : k->of;
        k->guard = k->guard == series ? TELE_NONE : k->guard;
        a->tracks[kept++] = *k;
    }
    a->count = kept;
}

/* Ids that were given to other series. */
static void look_at_renewed(struct alerts *a)
{
    if (a->renewed == tele_renewed(a->t))
        return;
    a->renewed = tele_renewed(a->t);
    for (uint32_t i = 0; i < a->series_seen; i++)
        if (a->born[i] != tele_born(a->t, i)) {
            drop_tracks(a, i);
            watch_series(a, i);
        }
    for (size_t i = 0; i < a->count; i++)
        find_partners(a, &a->tracks[i], 0);
}

static void discover(struct alerts *a)
{
    size_t n = tele_count(a->t), from = a->series_seen, tracks;

    look_at_renewed(a);
    tracks = a->count;
    if (n == from)
        return;
    for (uint32_t i = (uint32_t)from; i < n; i++)
        watch_series(a, i);
    a->series_seen = n;
    for (size_t i = 0; i < a->count; i++)
        find_partners(a, &a->tracks[i], i < tracks ? from : 0);
}

/* ---- a new set of rules */
static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Words for people may differ. */
static bool same_rule(const struct alert_rule *a, const struct alert_rule *b)
{
    return str_eq(a->name, b->name) && str_eq(a->metric, b->metric) && str_eq(a->of, b->of) &&
           str_eq(a->where, b->where) && str_eq(a->guard, b->guard) && a->how == b->how &&
           a->from_zero == b->from_zero && a->window_ns == b->window_ns && a->op == b->op &&
           same_number(a->threshold, b->threshold) && same_number(a->clear, b->clear) &&
           a->for_ns == b->for_ns && a->keep_ns == b->keep_ns && a->guard_op == b->guard_op &&
           same_number(a->guard_than, b->guard_than) && a->severity == b->severity;
}

static size_t rule_like(const struct alerts *a, const struct alert_rule *r)
{
    size_t i = 0;

    while (i < a->rule_count && !same_rule(&a->rules[i], r))
        i++;
    return i;
}

static void take_tracks(struct alerts *a, struct alerts *old)
{
    for (size_t i = 0; i < old->count; i++) {
        struct track *k = &old->tracks[i];
        size_t r = rule_like(a, &old->rules[k->rule]);

        if (r == a->rule_count) {
            free(k->win);
            free(k->summary);
            continue;
        }
        k->rule = (uint16_t)r;
        a->active += k->state != TRACK_IDLE;
        VEC_GROW(a->tracks, a->count, a->cap);
        a->tracks[a->count++] = *k;
    }
    old->count = old->active = 0;
}

/* Series were there before the rule: their counters have not come from zero. */
static void watch_old_series(struct alerts *a, size_t rule)
{
    for (uint32_t i = 0; i < a->series_seen; i++) {
        const struct tele_series *s = tele_get(a->t, i);
        size_t before = a->count;

        if (str_eq(s->metric->id, a->rules[rule].metric) &&
            alert_where(a->rules[rule].where, s->labels, s->label_count))
            watch(a, rule, i);
        if (a->count > before)
            a->tracks[before].born = false;
    }
}

void alerts_inherit(struct alerts *a, struct alerts *old)
{
    assert(a->t == old->t && !a->count && !a->wall_ns);
    pthread_mutex_lock(&old->lock); /* others may list it */
    a->mono_ns = old->mono_ns;
    a->wall_ns = old->wall_ns;
    a->renewed = old->renewed;
    a->series_seen = old->series_seen;
    a->refused = old->refused;
    a->value_cap = old->value_cap;
    a->values = xcalloc(a->value_cap ? a->value_cap : 1, sizeof(*a->values));
    a->born = xcalloc(a->value_cap ? a->value_cap : 1, sizeof(*a->born));
    if (a->series_seen)
        memcpy(a->born, old->born, a->series_seen * sizeof(*a->born));
    take_tracks(a, old);
    for (size_t r = 0; r < a->rule_count; r++)
        if (rule_like(old, &a->rules[r]) == old->rule_count)
            watch_old_series(a, r);
    for (size_t i = 0; i < a->count; i++)
        find_partners(a, &a->tracks[i], 0);
    pthread_mutex_unlock(&old->lock);
}

/* ---- what a rule compares */
static double latest(const struct alerts *a, uint32_t series)
{
    return series < a->series_seen ? a->values[series] : NAN;
}

/* Counters: what was added since they were known last; one that fell began again at zero. */
static double counted(struct alerts *a, struct track *k, const struct alert_rule *r, double v)
{
    double sum, sec, gone = 0, added = 0;
    bool first = !k->known;

    if (!first) {
        gone = (double)(a->mono_ns - k->last_ns) / (double)ALERT_SECOND;
        added = v >= k->last ? v - k->last : v;
    } else if (k->born) {
        added = v;
    }
    k->last = v;
    k->last_ns = a->mono_ns;
    alert_window_add(k->win, r->window_ns, a->mono_ns, added,
                     fmin(gone, (double)r->window_ns / (double)ALERT_SECOND));
    alert_window_read(k->win, r->window_ns, a->mono_ns, &sum, &sec);
    if (r->how == ALERT_INCREASE && r->op == ALERT_ABOVE) /* a part is enough to be too much */
        return sum;
    if (sec * 2 < (double)r->window_ns / (double)ALERT_SECOND)
        return NAN;
    return r->how == ALERT_INCREASE ? sum : sum / sec;
}

/* The mean is known when half of the window was. */
static double mean(struct alerts *a, struct track *k, const struct alert_rule *r, double v,
                   int64_t step_ns)
{
    double sum, sec, step = (double)step_ns / (double)ALERT_SECOND;

    alert_window_add(k->win, r->window_ns, a->mono_ns, v * step, step);
    alert_window_read(k->win, r->window_ns, a->mono_ns, &sum, &sec);
    return sec > 0 && sec * 2 >= (double)r->window_ns / (double)ALERT_SECOND ? sum / sec : NAN;
}

static double compared(struct alerts *a, struct track *k, const struct alert_rule *r,
                       int64_t step_ns)
{
    double v = latest(a, k->series), result;

    if (r->of) {
        double by = latest(a, k->of);

        v = by != 0 ? v / by : NAN; /* NaN stays NaN */
    }
    if (isnan(v))
        return NAN;
    result = !k->win ? v : r->how == ALERT_MEAN ? mean(a, k, r, v, step_ns) : counted(a, k, r, v);
    k->known = true;
    return result;
}

static enum verdict judge(struct alerts *a, struct track *k, const struct alert_rule *r,
                          int64_t step_ns)
{
    double v = compared(a, k, r, step_ns), guard;

    if (r->how == ALERT_ABSENT) {
        k->value = v;
        return !isnan(v) ? V_CLEAR : k->known ? V_BAD : V_UNKNOWN;
    }
    if (!isnan(v))
        k->value = v;
    if (r->guard) {
        guard = latest(a, k->guard);
        if (isnan(guard))
            return V_UNKNOWN;
        if (!alert_holds(r->guard_op, guard, r->guard_than))
            return V_CLEAR;
    }
    if (isnan(v))
        return V_UNKNOWN;
    if (alert_holds(r->op, v, r->threshold))
        return V_BAD;
    return alert_holds(r->op, v, alert_clear_of(r)) ? V_BETWEEN : V_CLEAR;
}

/* ---- states */
static void copy_out(const struct alerts *a, const struct track *k, struct alert_active *out)
{
    *out = (struct alert_active){
        .rule = &a->rules[k->rule],
        .series = k->series,
        .state = k->state == TRACK_PENDING  ? ALERT_PENDING
                 : k->state == TRACK_FIRING ? ALERT_FIRING
                                            : ALERT_RESOLVED,
        .since_ns = k->since_ns,
        .fired_ns = k->fired_ns,
        .resolved_ns = k->resolved_ns,
        .value = k->value,
    };
    str_copy(out->summary, sizeof(out->summary), k->summary ? k->summary : "");
}

static void say(struct alerts *a, struct track *k)
{
    char text[TELE_VALUE_MAX];

    alert_summary(&a->rules[k->rule], tele_get(a->t, k->series), k->value, text);
    free(k->summary);
    k->summary = xstrdup(text);
}

static void tell(struct alerts *a, const struct track *k)
{
    VEC_GROW(a->changes, a->change_count, a->change_cap);
    copy_out(a, k, &a->changes[a->change_count++]);
}

static void forget(struct alerts *a, struct track *k)
{
    free(k->summary);
    k->summary = NULL;
    k->state = TRACK_IDLE;
    a->active--;
}

static void fire(struct alerts *a, struct track *k)
{
    k->state = TRACK_FIRING;
    k->fired_ns = a->wall_ns;
    k->held_ns = -1; /* not clear */
    k->unknown_ns = 0;
    say(a, k);
    tell(a, k);
}

static void resolve(struct alerts *a, struct track *k)
{
    k->state = TRACK_RESOLVED;
    k->resolved_ns = a->wall_ns;
    k->ended_mono_ns = a->mono_ns;
    tell(a, k);
}

/* Bad while it was idle or resolved. */
static void begin(struct alerts *a, struct track *k)
{
    if (k->state == TRACK_IDLE) {
        if (a->active == ALERT_ACTIVE_MAX) {
            a->refused++;
            return;
        }
        a->active++;
    }
    k->state = TRACK_PENDING;
    k->since_ns = a->wall_ns;
    k->fired_ns = k->resolved_ns = k->held_ns = k->unknown_ns = 0;
    if (a->rules[k->rule].for_ns <= 0)
        fire(a, k);
    else
        say(a, k);
}

static void step_pending(struct alerts *a, struct track *k, enum verdict v, int64_t step_ns)
{
    if (v == V_UNKNOWN) {
        k->unknown_ns += step_ns;
        if (k->unknown_ns >= STALE_NS)
            forget(a, k);
        return;
    }
    k->unknown_ns = 0;
    k->held_ns += step_ns;
    if (v != V_BAD)
        forget(a, k);
    else if (k->held_ns >= a->rules[k->rule].for_ns)
        fire(a, k);
}

/* held_ns counts what is clear; the step in which it first is clear does not count. */
static void step_firing(struct alerts *a, struct track *k, enum verdict v, int64_t step_ns)
{
    if (v == V_UNKNOWN)
        return;
    if (v != V_CLEAR) {
        k->held_ns = -1;
        return;
    }
    k->held_ns = k->held_ns < 0 ? 0 : k->held_ns + step_ns;
    if (k->held_ns >= a->rules[k->rule].keep_ns)
        resolve(a, k);
}

static void step(struct alerts *a, struct track *k, int64_t step_ns)
{
    enum verdict v = judge(a, k, &a->rules[k->rule], step_ns);

    switch ((enum track_state)k->state) {
    case TRACK_IDLE:
        if (v == V_BAD)
            begin(a, k);
        break;
    case TRACK_PENDING:
        step_pending(a, k, v, step_ns);
        break;
    case TRACK_FIRING:
        step_firing(a, k, v, step_ns);
        break;
    case TRACK_RESOLVED:
        if (v == V_BAD)
            begin(a, k);
        else if (a->mono_ns - k->ended_mono_ns >= RESOLVED_KEEP_NS)
            forget(a, k);
        break;
    }
}

static void copy_values(struct alerts *a)
{
    size_t n = tele_count(a->t);

    if (n > a->value_cap) {
        a->value_cap = n;
        a->values = xreallocarray(a->values, n, sizeof(*a->values));
        a->born = xreallocarray(a->born, n, sizeof(*a->born));
    }
    if (n)
        (void)tele_copy(a->t, a->values, a->value_cap);
}

void alerts_turn(struct alerts *a, int64_t now_ns,
                 void (*changed)(void *arg, const struct alert_active *x), void *arg)
{
    int64_t gone = a->wall_ns ? now_ns - a->wall_ns : 0;

    pthread_mutex_lock(&a->lock);
    gone = gone < 0 ? 0 : gone > STEP_MAX_NS ? STEP_MAX_NS : gone;
    a->wall_ns = now_ns;
    a->mono_ns += gone;
    a->change_count = 0;
    copy_values(a);
    discover(a);
    for (size_t i = 0; i < a->count; i++)
        step(a, &a->tracks[i], gone);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; changed && i < a->change_count; i++)
        changed(arg, &a->changes[i]);
}

size_t alerts_list(struct alerts *a, struct alert_active *out, size_t cap)
{
    size_t n = 0;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->count && n < cap; i++)
        if (a->tracks[i].state != TRACK_IDLE)
            copy_out(a, &a->tracks[i], &out[n++]);
    pthread_mutex_unlock(&a->lock);
    return n;
}

void alerts_stats(struct alerts *a, struct alerts_stats *out)
{
    pthread_mutex_lock(&a->lock);
    *out = (struct alerts_stats){ a->count, a->active, a->refused };
    pthread_mutex_unlock(&a->lock);
}

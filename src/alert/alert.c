/* SPDX-License-Identifier: MIT */
/* alert: the engine.  See alert.h.
 *
 * A track is a rule on a series; tracks are made when a series appears and live as long as the
 * table.  A turn copies the table's values once and takes each track through
 *
 *     idle ─ bad ─► pending ─ bad for `for` ─► firing ─ clear for `keep` ─► resolved ─► idle
 *              ◄─ not bad ─┘                     │ (bad again: pending)    ▲ after a while
 *                                                └─ its subject is gone ───┘
 *
 * Invariants
 *   1. the engine's time `mono_ns` is a sum of the steps between turns, each between 0 and
 *      STEP_MAX_NS: a clock that jumps neither ends a `for` at once nor stops it
 *   2. an unknown value moves nothing: the times of `for` and `keep` stand still
 *   3. what fires ends: a subject of which its source reports no more (an unmounted disk, an ended
 *      job) is gone after GONE_NS, one whose source is silent after SILENT_NS; so is one that fired
 *      before a restart and whose series does not come back
 *   4. the lock is held while tracks change; `changed` is called without it */
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

#define STEP_MAX_NS      (60 * ALERT_SECOND)
#define RESOLVED_KEEP_NS (900 * ALERT_SECOND)   /* a resolved one is listed so long */
#define STALE_NS         (600 * ALERT_SECOND)   /* a pending one with an unknown value is */
#define GONE_NS          (300 * ALERT_SECOND)   /* unknown so long while its source reports: gone */
#define SILENT_NS        (3600 * ALERT_SECOND)  /* and so long when its source is silent, too */
#define ABSENT_NS        (86400 * ALERT_SECOND) /* a rule that asks for absence fires so long */

enum track_state { TRACK_IDLE, TRACK_PENDING, TRACK_FIRING, TRACK_RESOLVED };
enum track_verdict { V_UNKNOWN, V_CLEAR, V_BETWEEN /* neither bad nor clear */, V_BAD };

struct track {
    uint32_t series, of, guard; /* TELEMETRY_NONE: none yet */
    uint16_t rule;              /* in alerts.rules */
    uint8_t state;              /* enum track_state */
    bool generation;            /* its counter has come from zero under our eyes */
    bool known;                 /* it has had a value */
    bool gone;                  /* resolved since its subject is gone */
    double last, value;         /* of the counter; as compared with the threshold */
    int64_t last_ns;            /* engine's time of `last` */
    int64_t held_ns;            /* bad, or clear when it fires; -1: it fires and is not clear */
    int64_t unknown_ns;         /* pending or firing without a value */
    int64_t unknown_since_ns;   /* engine's time: begin of that */
    int64_t guarded_ns;         /* engine's time: its guard held last; -1: never */
    int64_t unclear_ns;         /* engine's time: not clear before, its window has forgotten */
    int64_t since_ns, fired_ns, resolved_ns; /* wall clock */
    int64_t ended_mono_ns;                   /* engine's time of resolved_ns */
    struct alert_window *win;                /* owned; NULL: the rule has no window */
    char *summary;                           /* owned; NULL: it is not active */
    double said;                             /* value of the summary */
    struct alert_whose *whose;               /* owned; NULL: nobody's */
    struct telemetry_series
        *subject;              /* owned copy of the series while it fires; NULL: it does not */
    struct track_cause *cause; /* owned; NULL: it does not fire, or is of no cause */
};
struct track_cause {
    char told[ALERT_CAUSE_TEXT_MAX]; /* when it fired */
    uint8_t told_role;
    uint16_t root_rule; /* what it follows from now */
    uint32_t root_series;
    bool below; /* it follows from that */
    char root_summary[TELEMETRY_VALUE_MAX], follows[ALERT_FOLLOWS_MAX];
};

/* One that fired before a restart, until its series is there. */
struct waiting {
    struct alert_active x;
    struct alert_rule rule; /* what is known of it, should there be none any more */
    char name[ALERT_NAME_MAX], metric[TELEMETRY_NAME_MAX];
    struct telemetry_series *subject; /* owned */
    int64_t waited_ns;
    bool over; /* its end is told: forgotten with the next turn */
};

struct alerts {
    pthread_mutex_t lock;
    struct alert_rule *rules; /* owned, the strings borrowed; those that are on */
    size_t rule_count;
    struct telemetry *t;
    struct track *tracks; /* owned */
    size_t count, cap;
    size_t series_seen, active;
    uint32_t *generation; /* owned: telemetry_generation() of the series seen, value_cap entries */
    uint64_t renewed;
    uint64_t refused;
    int64_t mono_ns, wall_ns; /* wall 0: no turn yet */
    double *values;           /* owned; of the last turn */
    size_t value_cap;
    int64_t batch_ns[TELEMETRY_SOURCES_MAX];   /* time of each source's latest batch */
    int64_t batch_mono[TELEMETRY_SOURCES_MAX]; /* engine's time when it was seen first */
    bool (*whose)(void *arg, const struct telemetry_series *s, struct alert_whose *out);
    void *whose_arg;
    bool relink;                  /* causes are to be looked at, though nothing changed */
    bool played;                  /* the first turn's series were there before */
    struct alert_active *changes; /* owned; of one turn */
    size_t change_count, change_cap;
    struct telemetry_series **lost; /* owned: subjects of changes whose series are others' now */
    size_t lost_count, lost_cap;
    struct waiting **waiting; /* owned */
    size_t waiting_count, waiting_cap;
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

struct alerts *alerts_new(const struct alert_rule *rules, size_t count, struct telemetry *t)
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

/* Copies a text to *io_at and goes on behind it. */
static const char *text_put(char **io_at, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *at = memcpy(*io_at, text, bytes);

    *io_at += bytes;
    return at;
}

/* One block: the series, its labels, their texts. */
static struct telemetry_series *subject_copy(const struct telemetry_series *s)
{
    size_t bytes = sizeof(*s) + s->label_count * sizeof(struct telemetry_label);
    struct telemetry_series *c;
    struct telemetry_label *l;
    char *text;

    for (size_t i = 0; i < s->label_count; i++)
        bytes += strlen(s->labels[i].name) + strlen(s->labels[i].value) + 2;
    c = xmalloc(bytes);
    l = (struct telemetry_label *)(c + 1);
    text = (char *)(l + s->label_count);
    *c = *s;
    c->labels = l;
    for (size_t i = 0; i < s->label_count; i++) {
        l[i].name = text_put(&text, s->labels[i].name);
        l[i].value = text_put(&text, s->labels[i].value);
    }
    return c;
}

static void track_release(struct track *k)
{
    free(k->win);
    free(k->summary);
    free(k->subject);
    free(k->whose);
    free(k->cause);
}

static void forget_lost(struct alerts *a)
{
    while (a->lost_count)
        free(a->lost[--a->lost_count]);
}

static void waiting_free(struct waiting *w)
{
    free(w->subject);
    free(w);
}

static void forget_over(struct alerts *a)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->waiting_count; i++) {
        if (a->waiting[i]->over)
            waiting_free(a->waiting[i]);
        else
            a->waiting[kept++] = a->waiting[i];
    }
    a->waiting_count = kept;
}

void alerts_ask_whose(struct alerts *a,
                      bool (*fn)(void *arg, const struct telemetry_series *s,
                                 struct alert_whose *out),
                      void *arg)
{
    a->whose = fn;
    a->whose_arg = arg;
}

void alerts_played(struct alerts *a)
{
    a->played = true;
}

void alerts_free(struct alerts *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++)
        track_release(&a->tracks[i]);
    forget_lost(a);
    free(a->lost);
    while (a->waiting_count)
        waiting_free(a->waiting[--a->waiting_count]);
    free(a->waiting);
    free(a->tracks);
    free(a->rules);
    free(a->values);
    free(a->generation);
    free(a->changes);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- telling */
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
        .gone = k->gone,
    };
    if (k->whose)
        out->whose = *k->whose;
    str_copy(out->summary, sizeof(out->summary), k->summary ? k->summary : "");
    if (k->cause && k->state != TRACK_PENDING) {
        const struct track_cause *c = k->cause;

        str_copy(out->cause, sizeof(out->cause), c->told);
        out->role = (enum alert_role)c->told_role;
        if (k->state == TRACK_FIRING && c->below) {
            out->root_rule = &a->rules[c->root_rule];
            out->root_series = c->root_series;
            str_copy(out->root_summary, sizeof(out->root_summary), c->root_summary);
        } else if (k->state == TRACK_FIRING) {
            str_copy(out->follows, sizeof(out->follows), c->follows);
        }
    }
}

/* The words follow the value for as long as the alert is active. */
static void track_say_summary(struct alerts *a, struct track *k)
{
    char text[TELEMETRY_VALUE_MAX];

    alert_summary(&a->rules[k->rule], telemetry_get(a->t, k->series), k->value, text);
    free(k->summary);
    k->summary = xstrdup(text);
    k->said = k->value;
}

static void track_tell_change(struct alerts *a, const struct track *k)
{
    VEC_GROW(a->changes, a->change_count, a->change_cap);
    copy_out(a, k, &a->changes[a->change_count++]);
}

/* It fires, and its series is another's. */
static void tell_lost(struct alerts *a, struct track *k)
{
    k->state = TRACK_RESOLVED;
    k->resolved_ns = a->wall_ns;
    k->gone = true;
    track_tell_change(a, k);
    VEC_GROW(a->lost, a->lost_count, a->lost_cap);
    a->lost[a->lost_count++] = k->subject;
    a->changes[a->change_count - 1].subject = k->subject;
    k->subject = NULL;
}

/* ---- which series a rule looks at */
static bool has_labels(const struct telemetry_series *s, const struct telemetry_label *want,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!str_eq(telemetry_label_of(s, want[i].name), want[i].value))
            return false;
    return true;
}

/* Do they speak of the same thing?  Labels that both have are equal, and there is one, unless
 * `o` is the node's: a link's series has the GPU's number, not its model. */
static bool same_thing(const struct telemetry_series *s, const struct telemetry_series *o)
{
    bool common = !o->label_count;

    for (size_t i = 0; i < o->label_count; i++) {
        const char *mine = telemetry_label_of(s, o->labels[i].name);

        if (mine && !str_eq(mine, o->labels[i].value))
            return false;
        common = common || mine;
    }
    return common;
}

/* The series of `metric` that belongs to `s`: with the same labels (`exact`), or of the same
 * thing. */
static uint32_t series_partner(const struct alerts *a, const char *metric,
                               const struct telemetry_series *s, bool exact, size_t from)
{
    size_t n = telemetry_count(a->t);

    for (uint32_t i = (uint32_t)from; i < n; i++) {
        const struct telemetry_series *o = telemetry_get(a->t, i);

        if (!str_eq(o->metric->id, metric))
            continue;
        if (exact ? o->label_count == s->label_count && has_labels(s, o->labels, o->label_count)
                  : same_thing(s, o))
            return i;
    }
    return TELEMETRY_NONE;
}

static void find_partners(struct alerts *a, struct track *k, size_t from)
{
    const struct alert_rule *r = &a->rules[k->rule];
    const struct telemetry_series *s = telemetry_get(a->t, k->series);

    if (r->of && k->of == TELEMETRY_NONE)
        k->of = series_partner(a, r->of, s, true, from);
    if (r->guard && k->guard == TELEMETRY_NONE)
        k->guard = series_partner(a, r->guard, s, false, from);
}

/* ---- what fired before a restart */
static bool is_of_rule(const struct waiting *w, const struct alert_rule *r)
{
    return str_eq(w->name, r->name) && str_eq(w->metric, r->metric) &&
           w->rule.severity == r->severity;
}

static bool is_of_series(const struct waiting *w, const struct telemetry_series *s)
{
    return w->subject->label_count == s->label_count &&
           has_labels(s, w->subject->labels, s->label_count);
}

const struct alert_rule *alerts_rule_of(const struct alerts *a, const struct alert_rule *r)
{
    for (size_t i = 0; i < a->rule_count; i++)
        if (str_eq(a->rules[i].name, r->name) && str_eq(a->rules[i].metric, r->metric) &&
            a->rules[i].severity == r->severity)
            return &a->rules[i];
    return NULL;
}

bool alerts_restore(struct alerts *a, const struct alert_active *x)
{
    struct waiting *w;

    if (a->waiting_count == ALERT_ACTIVE_MAX)
        return false;
    for (size_t i = 0; i < a->waiting_count; i++)
        if (is_of_rule(a->waiting[i], x->rule) && is_of_series(a->waiting[i], x->subject))
            return false;
    w = xcalloc(1, sizeof(*w));
    w->x = *x;
    (void)str_copy(w->name, sizeof(w->name), x->rule->name);
    (void)str_copy(w->metric, sizeof(w->metric), x->rule->metric);
    w->rule = (struct alert_rule){
        .name = w->name, .metric = w->metric, .severity = x->rule->severity, .summary = ""
    };
    w->subject = subject_copy(x->subject);
    w->x.rule = &w->rule;
    w->x.subject = w->subject;
    w->x.series = TELEMETRY_NONE;
    w->x.state = ALERT_FIRING;
    w->x.root_rule = NULL;
    VEC_GROW(a->waiting, a->waiting_count, a->waiting_cap);
    a->waiting[a->waiting_count++] = w;
    return true;
}

/* Who was told goes by the labels: neither cause nor beginning may be another than before. */
static void track_resume(struct alerts *a, struct track *k, const struct alert_active *x)
{
    const struct alert_rule *r = &a->rules[k->rule];

    k->state = TRACK_FIRING;
    k->since_ns = x->since_ns;
    k->fired_ns = x->fired_ns;
    k->value = k->said = x->value;
    k->held_ns = -1;
    k->known = r->how == ALERT_ABSENT;
    k->guarded_ns = a->mono_ns;
    if (r->how == ALERT_INCREASE)
        k->unclear_ns = a->mono_ns + r->window_ns;
    k->subject = subject_copy(telemetry_get(a->t, k->series));
    k->summary = xstrdup(x->summary);
    k->whose = xmalloc(sizeof(*k->whose));
    *k->whose = x->whose;
    k->cause = xcalloc(1, sizeof(*k->cause));
    (void)str_copy(k->cause->told, sizeof(k->cause->told), x->cause);
    k->cause->told_role = (uint8_t)x->role;
    a->active++;
    a->relink = true;
}

static void look_at_waiting(struct alerts *a, struct track *k)
{
    const struct telemetry_series *s = telemetry_get(a->t, k->series);

    for (size_t i = 0; i < a->waiting_count && a->active < ALERT_ACTIVE_MAX; i++) {
        struct waiting *w = a->waiting[i];

        if (w->over || !is_of_rule(w, &a->rules[k->rule]) || !is_of_series(w, s))
            continue;
        track_resume(a, k, &w->x);
        waiting_free(w);
        a->waiting[i] = a->waiting[--a->waiting_count];
        return;
    }
}

/* Without a rule, or without a series for long, it is gone. */
static void step_waiting(struct alerts *a, struct waiting *w, int64_t step_ns)
{
    size_t r = 0;

    while (r < a->rule_count && !is_of_rule(w, &a->rules[r]))
        r++;
    w->waited_ns += step_ns;
    if (r < a->rule_count && w->waited_ns < (a->rules[r].how == ALERT_ABSENT ? ABSENT_NS : GONE_NS))
        return;
    w->x.rule = r < a->rule_count ? &a->rules[r] : &w->rule;
    w->x.state = ALERT_RESOLVED;
    w->x.resolved_ns = a->wall_ns;
    w->x.gone = true;
    w->over = true;
    VEC_GROW(a->changes, a->change_count, a->change_cap);
    a->changes[a->change_count++] = w->x;
}

static void track_add(struct alerts *a, size_t rule, uint32_t series)
{
    const struct alert_rule *r = &a->rules[rule];
    struct track *k;

    if (a->count == ALERT_TRACKS_MAX) {
        a->refused++;
        return;
    }
    VEC_GROW(a->tracks, a->count, a->cap);
    k = &a->tracks[a->count++];
    *k = (struct track){ .series = series, .of = TELEMETRY_NONE, .guard = TELEMETRY_NONE };
    k->rule = (uint16_t)rule;
    k->value = NAN;
    k->guarded_ns = -1;
    k->generation = r->from_zero && !(a->played && a->mono_ns == 0);
    if (r->window_ns && r->how != ALERT_VALUE && r->how != ALERT_ABSENT)
        k->win = xcalloc(1, sizeof(*k->win));
    if (a->waiting_count)
        look_at_waiting(a, k);
}

/* New series get their tracks; what a track divides by or is guarded by may come later. */
static void watch_series(struct alerts *a, uint32_t i)
{
    const struct telemetry_series *s = telemetry_get(a->t, i);

    a->generation[i] = telemetry_generation(a->t, i);
    for (size_t r = 0; r < a->rule_count; r++)
        if (str_eq(s->metric->id, a->rules[r].metric) &&
            alert_where(a->rules[r].where, s->labels, s->label_count))
            track_add(a, r, i);
}

/* What is known of a series ends with it.  Of what fires the end is told, with the labels that it
 * had. */
static void drop_tracks(struct alerts *a, uint32_t series)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->count; i++) {
        struct track *k = &a->tracks[i];

        if (k->series == series) {
            if (k->state == TRACK_FIRING)
                tell_lost(a, k);
            a->active -= k->state != TRACK_IDLE;
            track_release(k);
            continue;
        }
        k->of = k->of == series ? TELEMETRY_NONE : k->of;
        k->guard = k->guard == series ? TELEMETRY_NONE : k->guard;
        a->tracks[kept++] = *k;
    }
    a->count = kept;
}

/* Ids that were given to other series. */
static void look_at_renewed(struct alerts *a)
{
    if (a->renewed == telemetry_renewed(a->t))
        return;
    a->renewed = telemetry_renewed(a->t);
    for (uint32_t i = 0; i < a->series_seen; i++)
        if (a->generation[i] != telemetry_generation(a->t, i)) {
            drop_tracks(a, i);
            watch_series(a, i);
        }
    for (size_t i = 0; i < a->count; i++)
        find_partners(a, &a->tracks[i], 0);
}

static void discover_tracks(struct alerts *a)
{
    size_t n = telemetry_count(a->t), from = a->series_seen, tracks;

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
            track_release(k);
            continue;
        }
        k->rule = (uint16_t)r;
        if (k->cause) { /* its root may have another number */
            k->cause->below = false;
            k->cause->follows[0] = '\0';
            a->relink = true;
        }
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
        const struct telemetry_series *s = telemetry_get(a->t, i);
        size_t before = a->count;

        if (str_eq(s->metric->id, a->rules[rule].metric) &&
            alert_where(a->rules[rule].where, s->labels, s->label_count))
            track_add(a, rule, i);
        if (a->count > before)
            a->tracks[before].generation = false;
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
    memcpy(a->batch_ns, old->batch_ns, sizeof(a->batch_ns));
    memcpy(a->batch_mono, old->batch_mono, sizeof(a->batch_mono));
    a->value_cap = old->value_cap;
    a->values = xcalloc(a->value_cap ? a->value_cap : 1, sizeof(*a->values));
    a->generation = xcalloc(a->value_cap ? a->value_cap : 1, sizeof(*a->generation));
    if (a->series_seen)
        memcpy(a->generation, old->generation, a->series_seen * sizeof(*a->generation));
    take_tracks(a, old);
    forget_over(old);
    a->waiting = old->waiting;
    a->waiting_count = old->waiting_count;
    a->waiting_cap = old->waiting_cap;
    old->waiting = NULL;
    old->waiting_count = old->waiting_cap = 0;
    for (size_t r = 0; r < a->rule_count; r++)
        if (rule_like(old, &a->rules[r]) == old->rule_count)
            watch_old_series(a, r);
    for (size_t i = 0; i < a->count; i++)
        find_partners(a, &a->tracks[i], 0);
    pthread_mutex_unlock(&old->lock);
}

/* ---- what a rule compares */
static double latest_value(const struct alerts *a, uint32_t series)
{
    return series < a->series_seen ? a->values[series] : NAN;
}

/* Counters: what was added since they were known last; one that fell began again at zero. */
static double counter_added(struct alerts *a, struct track *k, const struct alert_rule *r, double v)
{
    double sum, sec, gone = 0, added = 0, window = (double)r->window_ns / (double)ALERT_SECOND;
    bool first = !k->known, all = r->how == ALERT_INCREASE && r->op == ALERT_BELOW;

    if (!first) {
        gone = (double)(a->mono_ns - k->last_ns) / (double)ALERT_SECOND;
        added = v >= k->last ? v - k->last : v;
    } else if (k->generation) {
        added = v;
    }
    k->last = v;
    k->last_ns = a->mono_ns;
    alert_window_add(k->win, r->window_ns, a->mono_ns, added, fmin(gone, window));
    alert_window_read(k->win, r->window_ns, a->mono_ns, &sum, &sec);
    if (r->how == ALERT_INCREASE && r->op == ALERT_ABOVE) /* a part is enough to be too much */
        return sum;
    if (sec < window * (all ? 0.9 : 0.5)) /* "none in 15 minutes" needs them */
        return NAN;
    return r->how == ALERT_INCREASE ? sum : sum / sec;
}

/* The mean is known when half of the window was. */
static double window_mean_of(struct alerts *a, struct track *k, const struct alert_rule *r,
                             double v, int64_t step_ns)
{
    double sum, sec, step = (double)step_ns / (double)ALERT_SECOND;

    alert_window_add(k->win, r->window_ns, a->mono_ns, v * step, step);
    alert_window_read(k->win, r->window_ns, a->mono_ns, &sum, &sec);
    return sec > 0 && sec * 2 >= (double)r->window_ns / (double)ALERT_SECOND ? sum / sec : NAN;
}

static double compared_value(struct alerts *a, struct track *k, const struct alert_rule *r,
                             int64_t step_ns)
{
    double v = latest_value(a, k->series), result;

    if (r->of) {
        double by = latest_value(a, k->of);

        v = by != 0 ? v / by : NAN; /* NaN stays NaN */
    }
    if (isnan(v))
        return NAN;
    result = !k->win                ? v
             : r->how == ALERT_MEAN ? window_mean_of(a, k, r, v, step_ns)
                                    : counter_added(a, k, r, v);
    k->known = true;
    return result;
}

int64_t alert_guard_grace(const struct alert_rule *r)
{
    int64_t least = r->for_ns < r->window_ns ? r->for_ns : r->window_ns;

    return least > 0 ? least / 2 : 0;
}

/* Work that comes in bursts leaves gaps: what is judged over a window is guarded for a while more.
 * V_BAD: the guard holds. */
static enum track_verdict judge_guard(struct alerts *a, struct track *k, const struct alert_rule *r)
{
    double guard = latest_value(a, k->guard);

    if (isnan(guard))
        return V_UNKNOWN;
    if (alert_holds(r->guard_op, guard, r->guard_than))
        k->guarded_ns = a->mono_ns;
    return k->guarded_ns >= 0 && a->mono_ns - k->guarded_ns <= alert_guard_grace(r) ? V_BAD
                                                                                    : V_CLEAR;
}

static enum track_verdict judge_track(struct alerts *a, struct track *k, const struct alert_rule *r,
                                      int64_t step_ns)
{
    double v = compared_value(a, k, r, step_ns);

    if (r->how == ALERT_ABSENT) {
        k->value = v;
        return !isnan(v) ? V_CLEAR : k->known ? V_BAD : V_UNKNOWN;
    }
    if (!isnan(v))
        k->value = v;
    if (r->guard) {
        enum track_verdict guard = judge_guard(a, k, r);

        if (guard != V_BAD)
            return guard;
    }
    if (isnan(v))
        return V_UNKNOWN;
    if (alert_holds(r->op, v, r->threshold))
        return V_BAD;
    return alert_holds(r->op, v, alert_clear_of(r)) ? V_BETWEEN : V_CLEAR;
}

/* ---- states */
static void track_release_texts(struct alerts *a, struct track *k)
{
    free(k->summary);
    k->summary = NULL;
    free(k->subject);
    k->subject = NULL;
    free(k->whose);
    k->whose = NULL;
    free(k->cause);
    k->cause = NULL;
    k->state = TRACK_IDLE;
    a->active--;
}

static void ask_whose(struct alerts *a, struct track *k)
{
    struct alert_whose who = { 0 };

    free(k->whose);
    k->whose = NULL;
    if (!a->whose || !a->whose(a->whose_arg, telemetry_get(a->t, k->series), &who))
        return;
    k->whose = xmalloc(sizeof(*k->whose));
    *k->whose = who;
}

static void track_fire(struct alerts *a, struct track *k)
{
    k->state = TRACK_FIRING;
    k->fired_ns = a->wall_ns;
    k->held_ns = -1; /* not clear */
    k->unknown_ns = k->unclear_ns = 0;
    k->gone = false;
    free(k->subject);
    k->subject = subject_copy(telemetry_get(a->t, k->series));
    free(k->cause);
    k->cause = NULL;
    ask_whose(a, k);
    track_say_summary(a, k);
    track_tell_change(a, k);
}

static void track_resolve(struct alerts *a, struct track *k)
{
    k->state = TRACK_RESOLVED;
    k->resolved_ns = a->wall_ns;
    k->ended_mono_ns = a->mono_ns;
    track_tell_change(a, k);
}

/* Bad while it was idle or resolved. */
static void track_begin(struct alerts *a, struct track *k)
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
        track_fire(a, k);
    else
        track_say_summary(a, k);
}

static void step_pending(struct alerts *a, struct track *k, enum track_verdict v, int64_t step_ns)
{
    if (v == V_UNKNOWN) {
        k->unknown_ns += step_ns;
        if (k->unknown_ns >= STALE_NS)
            track_release_texts(a, k);
        return;
    }
    k->unknown_ns = 0;
    k->held_ns += step_ns;
    if (v != V_BAD)
        track_release_texts(a, k);
    else if (k->held_ns >= a->rules[k->rule].for_ns)
        track_fire(a, k);
}

/* Nothing has been known of it for long: while its source went on to report it is gone sooner than
 * when that is silent, which may hang. */
static bool is_gone(const struct alerts *a, const struct track *k)
{
    unsigned source = telemetry_get(a->t, k->series)->source;
    bool reported = source < TELEMETRY_SOURCES_MAX && a->batch_mono[source] > k->unknown_since_ns;

    if (a->rules[k->rule].how == ALERT_ABSENT)
        return reported && k->unknown_ns >= ABSENT_NS;
    return k->unknown_ns >= (reported ? GONE_NS : SILENT_NS);
}

/* held_ns counts what is clear; the step in which it first is clear does not count. */
static void step_firing(struct alerts *a, struct track *k, enum track_verdict v, int64_t step_ns)
{
    if (isnan(latest_value(a, k->series))) {
        if (!k->unknown_ns)
            k->unknown_since_ns = a->mono_ns;
        k->unknown_ns += step_ns;
        if (is_gone(a, k)) {
            k->gone = true;
            track_resolve(a, k);
            return;
        }
    } else {
        k->unknown_ns = 0;
    }
    if (v == V_UNKNOWN)
        return;
    if (v != V_CLEAR || a->mono_ns < k->unclear_ns) {
        k->held_ns = -1;
        return;
    }
    k->held_ns = k->held_ns < 0 ? 0 : k->held_ns + step_ns;
    if (k->held_ns >= a->rules[k->rule].keep_ns)
        track_resolve(a, k);
}

static void track_step(struct alerts *a, struct track *k, int64_t step_ns)
{
    enum track_verdict v = judge_track(a, k, &a->rules[k->rule], step_ns);

    if ((k->state == TRACK_PENDING || k->state == TRACK_FIRING) && !isnan(k->value) &&
        k->value != k->said)
        track_say_summary(a, k);
    switch ((enum track_state)k->state) {
    case TRACK_IDLE:
        if (v == V_BAD)
            track_begin(a, k);
        break;
    case TRACK_PENDING:
        step_pending(a, k, v, step_ns);
        break;
    case TRACK_FIRING:
        step_firing(a, k, v, step_ns);
        break;
    case TRACK_RESOLVED:
        if (v == V_BAD && !(k->gone && isnan(latest_value(a, k->series))))
            track_begin(a, k);
        else if (a->mono_ns - k->ended_mono_ns >= RESOLVED_KEEP_NS)
            track_release_texts(a, k);
        break;
    }
}

/* ---- causes */

/* "GpuXidFatal, NvlinkDown (4)": the rules of those below a root, each once. */
static void add_follower(struct track_cause *root, const char *rule)
{
    size_t used = strlen(root->follows), name = strlen(rule), n = 1;
    char *at = root->follows;
    char rest[ALERT_FOLLOWS_MAX];

    for (; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] ? 2 : 0))
        if (!strncmp(at, rule, name) && (at[name] == ',' || at[name] == ' ' || !at[name]))
            break;
    if (!*at) {
        if (used + name + 16 < sizeof(root->follows))
            (void)snprintf(at, sizeof(root->follows) - used, "%s%s", used ? ", " : "", rule);
        return;
    }
    if (at[name] == ' ')
        n = (size_t)strtoul(at + name + 2, NULL, 10);
    str_copy(rest, sizeof(rest), at + strcspn(at, ","));
    (void)snprintf(at, sizeof(root->follows) - (size_t)(at - root->follows), "%s (%zu)%s", rule,
                   n + 1, rest);
}

static void keep_link(struct track *k, const struct track *root, const struct alert_link *x,
                      bool fresh)
{
    if (!k->cause)
        k->cause = xcalloc(1, sizeof(*k->cause));
    if (fresh) {
        (void)str_copy(k->cause->told, sizeof(k->cause->told), x->cause);
        k->cause->told_role = (uint8_t)x->role;
    }
    k->cause->below = root != k;
    k->cause->root_rule = root->rule;
    k->cause->root_series = root->series;
    k->cause->follows[0] = '\0';
    (void)str_copy(k->cause->root_summary, sizeof(k->cause->root_summary),
                   root->summary ? root->summary : "");
}

/* After something fired or ended: who follows from whom.  What fires now keeps its cause. */
static void link_causes(struct alerts *a)
{
    size_t cause_count, n = 0;
    const struct alert_cause *causes = alert_causes(&cause_count);
    struct alert_link *list = xcalloc(a->active ? a->active : 1, sizeof(*list));
    struct track **tracks = xcalloc(a->active ? a->active : 1, sizeof(*tracks));

    for (size_t i = 0; i < a->count && n < a->active; i++) {
        struct track *k = &a->tracks[i];

        if (k->state != TRACK_FIRING)
            continue;
        tracks[n] = k;
        list[n++] = (struct alert_link){ .rule = a->rules[k->rule].name,
                                         .subject = k->subject,
                                         .since_ns = k->since_ns };
    }
    alert_causes_link(causes, cause_count, list, n);
    for (size_t i = 0; i < n; i++)
        if (list[i].cause[0] || tracks[i]->cause)
            keep_link(tracks[i], tracks[list[i].top], &list[i], tracks[i]->fired_ns == a->wall_ns);
    for (size_t i = 0; i < n; i++)
        if (list[i].top != i && tracks[list[i].top]->cause)
            add_follower(tracks[list[i].top]->cause, a->rules[tracks[i]->rule].name);
    /* what is told of this turn was copied before */
    for (size_t c = 0; c < a->change_count; c++)
        for (size_t i = 0; i < n; i++)
            if (a->changes[c].state == ALERT_FIRING && tracks[i]->series == a->changes[c].series &&
                &a->rules[tracks[i]->rule] == a->changes[c].rule)
                copy_out(a, tracks[i], &a->changes[c]);
    a->relink = false;
    free(tracks);
    free(list);
}

static void copy_values(struct alerts *a)
{
    size_t n = telemetry_count(a->t);

    if (n > a->value_cap) {
        a->value_cap = n;
        a->values = xreallocarray(a->values, n, sizeof(*a->values));
        a->generation = xreallocarray(a->generation, n, sizeof(*a->generation));
    }
    if (n)
        (void)telemetry_copy(a->t, a->values, a->value_cap);
}

static void look_at_sources(struct alerts *a)
{
    for (unsigned i = 0; i < TELEMETRY_SOURCES_MAX; i++) {
        int64_t batch = telemetry_time_ns(a->t, i);

        if (batch == a->batch_ns[i])
            continue;
        a->batch_ns[i] = batch;
        a->batch_mono[i] = a->mono_ns;
    }
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
    forget_lost(a);
    forget_over(a);
    look_at_sources(a);
    copy_values(a);
    discover_tracks(a);
    for (size_t i = 0; i < a->count; i++)
        track_step(a, &a->tracks[i], gone);
    for (size_t i = 0; i < a->waiting_count; i++)
        step_waiting(a, a->waiting[i], gone);
    if (a->change_count || a->relink)
        link_causes(a);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; changed && i < a->change_count; i++)
        changed(arg, &a->changes[i]);
}

const struct alert_rule *alerts_rules(const struct alerts *a, size_t *count)
{
    *count = a->rule_count;
    return a->rules;
}

static size_t copy_active(struct alerts *a, struct alert_active *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < a->count && n < cap; i++)
        if (a->tracks[i].state != TRACK_IDLE)
            copy_out(a, &a->tracks[i], &out[n++]);
    return n;
}

size_t alerts_list(struct alerts *a, struct alert_active *out, size_t cap)
{
    size_t n;

    pthread_mutex_lock(&a->lock);
    n = copy_active(a, out, cap);
    pthread_mutex_unlock(&a->lock);
    return n;
}

/* Room for ALERT_ACTIVE_MAX is 7 MB.  Asked for each second and freed again, malloc takes it from a
 * heap and keeps it: more than all else that an agent needs. */
struct alert_active *alerts_copy(struct alerts *a, size_t *count)
{
    struct alert_active *list = NULL;

    pthread_mutex_lock(&a->lock);
    if (a->active)
        list = xcalloc(a->active, sizeof(*list));
    *count = copy_active(a, list, a->active);
    pthread_mutex_unlock(&a->lock);
    return list;
}

void alerts_each_firing(struct alerts *a, void (*fn)(void *arg, const struct alert_active *x),
                        void *arg)
{
    struct alert_active x;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->count; i++)
        if (a->tracks[i].state == TRACK_FIRING) {
            copy_out(a, &a->tracks[i], &x);
            x.subject = a->tracks[i].subject;
            fn(arg, &x);
        }
    for (size_t i = 0; i < a->waiting_count; i++)
        if (!a->waiting[i]->over)
            fn(arg, &a->waiting[i]->x);
    pthread_mutex_unlock(&a->lock);
}

void alerts_stats(struct alerts *a, struct alerts_stats *out)
{
    pthread_mutex_lock(&a->lock);
    *out = (struct alerts_stats){ a->count, a->active, a->refused };
    pthread_mutex_unlock(&a->lock);
}

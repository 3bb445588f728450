/* SPDX-License-Identifier: MIT */
/* telemetry: series and their latest values; see telemetry.h.
 *
 * A batch gathers in `stage` and reaches `values` at its end under the lock, all at once: a reader
 * never sees half of one.  There, every series of the source takes what was staged, NaN where
 * nothing was. */
#include "base/codec/fnv1a.h"
#include "base/mem.h"
#include "base/str.h"
#include "telemetry/telemetry_int.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_PER_SERIES = 2, STRINGS_MIN = 1024 };

/* Percent of the budget at which new series of a priority are refused. */
static const unsigned share_pct[TELEMETRY_PRIORITY_LAST + 1] = { 100, 95, 85, 70, 50 };

/* ---- text */

void telemetry_text(char *dst, size_t cap, const char *s)
{
    (void)str_copy(dst, cap, s ? s : "");
    str_make_text(dst);
}

static bool name_char(char c, bool first, bool colon)
{
    return isalpha((unsigned char)c) || c == '_' || (colon && c == ':') ||
           (!first && isdigit((unsigned char)c));
}

static void label_name(char *dst, size_t cap, const char *s)
{
    (void)str_copy(dst, cap, s && *s ? s : "_");
    for (char *c = dst; *c; c++)
        if (!name_char(*c, c == dst, false))
            *c = '_';
}

static bool metric_name_ok(const char *s)
{
    if (!s || !*s || strlen(s) >= TELEMETRY_NAME_MAX)
        return false;
    for (const char *c = s; *c; c++)
        if (!name_char(*c, c == s, true))
            return false;
    return true;
}

static uint64_t hash_add(uint64_t h, const char *s)
{
    return fnv1a_add(fnv1a_add(h, s, strlen(s)), "\xff", 1);
}

static uint64_t hash_mix(uint64_t h) /* FNV's low bits alone are poor */
{
    h ^= h >> 32;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

/* ---- strings, each once: a model's name is in the labels of hundreds of series */

static void strings_put(const char **set, size_t cap, const char *s)
{
    size_t i = hash_mix(hash_add(FNV1A_START, s)) & (cap - 1);

    while (set[i])
        i = (i + 1) & (cap - 1);
    set[i] = s;
}

static void strings_grow(struct telemetry *t)
{
    size_t cap = t->string_cap ? t->string_cap * 2 : STRINGS_MIN;
    const char **set = xcalloc(cap, sizeof(*set));

    for (size_t i = 0; i < t->string_cap; i++)
        if (t->strings[i])
            strings_put(set, cap, t->strings[i]);
    free(t->strings);
    t->strings = set;
    t->string_cap = cap;
}

static const char *intern_string(struct telemetry *t, const char *s)
{
    size_t i;

    if (t->string_count * 2 >= t->string_cap)
        strings_grow(t);
    i = hash_mix(hash_add(FNV1A_START, s)) & (t->string_cap - 1);
    for (; t->strings[i]; i = (i + 1) & (t->string_cap - 1))
        if (strcmp(t->strings[i], s) == 0)
            return t->strings[i];
    t->string_count++;
    return t->strings[i] = arena_strdup(&t->arena, s);
}

/* ---- life */

static size_t power_of_two(size_t n)
{
    size_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

static double *unknown_values(size_t n)
{
    double *v = xcalloc(n, sizeof(*v));

    for (size_t i = 0; i < n; i++)
        v[i] = NAN;
    return v;
}

/* A writer that waits comes before further readers: a hundred scrapers do not keep it out. */
static void names_init(pthread_rwlock_t *l)
{
    pthread_rwlockattr_t attr;

    pthread_rwlockattr_init(&attr);
    (void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(l, &attr);
    pthread_rwlockattr_destroy(&attr);
}

struct telemetry *telemetry_new(size_t series_max)
{
    struct telemetry *t = xcalloc(1, sizeof(*t));
    size_t slots;

    t->max = series_max ? series_max : TELEMETRY_SERIES_DEFAULT;
    if (t->max > TELEMETRY_SERIES_MAX)
        t->max = TELEMETRY_SERIES_MAX;
    slots = power_of_two(t->max * SLOTS_PER_SERIES);
    pthread_mutex_init(&t->lock, NULL);
    names_init(&t->names);
    t->series = xcalloc(t->max, sizeof(const struct telemetry_series *));
    t->generation = xcalloc(t->max, sizeof(*t->generation));
    t->passing = xcalloc(t->max, sizeof(struct telemetry_passing *));
    t->slots = xcalloc(slots, sizeof(*t->slots));
    t->slot_mask = slots - 1;
    t->stage = unknown_values(t->max);
    t->values = unknown_values(t->max);
    return t;
}

void telemetry_free(struct telemetry *t)
{
    if (!t)
        return;
    telemetry_events_release(t);
    free(t->values);
    free(t->stage);
    free(t->refused_seen);
    free(t->slots);
    free(t->strings);
    for (size_t i = 0; i < t->max; i++)
        free(t->passing[i]);
    free(t->passing);
    free(t->generation);
    free(t->series);
    pthread_rwlock_destroy(&t->names);
    arena_release(&t->arena);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- sources */

unsigned telemetry_source(struct telemetry *t, const char *name)
{
    unsigned n = atomic_load_explicit(&t->source_count, memory_order_relaxed);
    char text[TELEMETRY_NAME_MAX];

    telemetry_text(text, sizeof(text), name);
    for (unsigned i = 0; i < n; i++)
        if (str_eq(t->sources[i].name, text))
            return i;
    if (n == TELEMETRY_SOURCES_MAX)
        return TELEMETRY_SOURCES_MAX;
    t->sources[n].name = arena_strdup(&t->arena, text);
    t->sources[n].time_ns = -1;
    atomic_store_explicit(&t->source_count, n + 1, memory_order_release);
    return n;
}

const char *telemetry_source_name(const struct telemetry *t, unsigned source)
{
    unsigned n = atomic_load_explicit(&t->source_count, memory_order_acquire);

    return source < n ? t->sources[source].name : "";
}

int64_t telemetry_time_ns(struct telemetry *t, unsigned source)
{
    int64_t then = -1;

    if (source >= atomic_load_explicit(&t->source_count, memory_order_acquire))
        return -1;
    pthread_mutex_lock(&t->lock);
    then = t->sources[source].time_ns;
    pthread_mutex_unlock(&t->lock);
    return then;
}

int64_t telemetry_age_ns(struct telemetry *t, unsigned source, int64_t now_ns)
{
    int64_t then = telemetry_time_ns(t, source);

    if (then < 0)
        return -1;
    return now_ns > then ? now_ns - then : 0; /* the clock may have been set back */
}

/* ---- series */

struct wanted_series { /* a series that was asked for, made valid */
    const struct telemetry_metric *metric;
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    size_t count;
    char names[TELEMETRY_LABELS_MAX][TELEMETRY_NAME_MAX];
    char values[TELEMETRY_LABELS_MAX][TELEMETRY_VALUE_MAX];
    uint64_t hash;
};

static bool has_label(const struct wanted_series *w, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->labels[i].name, name) == 0)
            return true;
    return false;
}

static void want_series(struct wanted_series *w, const struct telemetry_metric *m,
                        const struct telemetry_label *labels, size_t count)
{
    w->metric = m;
    w->count = 0;
    w->hash = hash_add(FNV1A_START, m->id);
    for (size_t i = 0; i < count && w->count < TELEMETRY_LABELS_MAX; i++) {
        char *name = w->names[w->count], *value = w->values[w->count];

        label_name(name, TELEMETRY_NAME_MAX, labels[i].name);
        if (has_label(w, name))
            continue;
        telemetry_text(value, TELEMETRY_VALUE_MAX, labels[i].value);
        w->hash = hash_add(hash_add(w->hash, name), value);
        w->labels[w->count++] = (struct telemetry_label){ .name = name, .value = value };
    }
    w->hash = hash_mix(w->hash);
}

static bool same_series(const struct telemetry_series *s, const struct wanted_series *w)
{
    if (s->metric != w->metric || s->label_count != w->count)
        return false;
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(s->labels[i].name, w->labels[i].name) != 0 ||
            strcmp(s->labels[i].value, w->labels[i].value) != 0)
            return false;
    return true;
}

/* Counts a refused series once, however often it is asked for. */
static void refuse_series(struct telemetry *t, uint64_t hash)
{
    enum { SLOTS = 2 * TELEMETRY_REFUSED_MAX };
    size_t i = hash & (SLOTS - 1);

    if (!t->refused_seen)
        t->refused_seen = xcalloc(SLOTS, sizeof(*t->refused_seen));
    hash |= 1; /* 0 is a free slot */
    for (; t->refused_seen[i]; i = (i + 1) & (SLOTS - 1))
        if (t->refused_seen[i] == hash)
            return;
    if (atomic_load_explicit(&t->refused, memory_order_relaxed) >= TELEMETRY_REFUSED_MAX)
        return;
    t->refused_seen[i] = hash;
    atomic_fetch_add_explicit(&t->refused, 1, memory_order_relaxed);
}

static bool within_budget(const struct telemetry *t, int priority, size_t count)
{
    int p = priority < 0                         ? 0
            : priority > TELEMETRY_PRIORITY_LAST ? TELEMETRY_PRIORITY_LAST
                                                 : priority;

    return count * 100 < t->max * share_pct[p];
}

/* ---- series that pass */

bool telemetry_passes(const struct telemetry_metric *m)
{
    return m->entity == TELEMETRY_PROCESS || m->entity == TELEMETRY_JOB ||
           m->entity == TELEMETRY_APP;
}

/* Applications have their own share, that of their priority: they take no id of a process, and
 * none of theirs is taken by one. */
static enum telemetry_class class_of(const struct telemetry_metric *m)
{
    return m->entity == TELEMETRY_APP ? TELEMETRY_CLASS_APP : TELEMETRY_CLASS_OWN;
}

static struct telemetry_passing *passing_new(struct telemetry *t, unsigned source,
                                             const struct wanted_series *w)
{
    struct telemetry_passing *p;
    size_t bytes = 0, at = 0;

    for (size_t i = 0; i < w->count; i++)
        bytes += strlen(w->labels[i].value) + 1;
    p = xcalloc(1, sizeof(*p) + bytes);
    for (size_t i = 0; i < w->count; i++) {
        size_t len = strlen(w->labels[i].value) + 1;

        memcpy(p->text + at, w->labels[i].value, len);
        p->labels[i] =
            (struct telemetry_label){ intern_string(t, w->labels[i].name), p->text + at };
        at += len;
    }
    p->series = (struct telemetry_series){
        .metric = w->metric, .labels = p->labels, .label_count = w->count, .source = source
    };
    return p;
}

static uint64_t series_hash(const struct telemetry_series *s)
{
    uint64_t h = hash_add(FNV1A_START, s->metric->id);

    for (size_t i = 0; i < s->label_count; i++)
        h = hash_add(hash_add(h, s->labels[i].name), s->labels[i].value);
    return hash_mix(h);
}

/* Takes an id out of the hash table; those behind it close up, so that none is lost. */
static void slot_remove(struct telemetry *t, uint32_t id)
{
    size_t hole = series_hash(t->series[id]) & t->slot_mask, at;

    while (t->slots[hole] != id + 1)
        hole = (hole + 1) & t->slot_mask;
    for (at = (hole + 1) & t->slot_mask; t->slots[at]; at = (at + 1) & t->slot_mask) {
        size_t home = series_hash(t->series[t->slots[at] - 1]) & t->slot_mask;

        if (((at - home) & t->slot_mask) < ((at - hole) & t->slot_mask))
            continue;
        t->slots[hole] = t->slots[at];
        hole = at;
    }
    t->slots[hole] = 0;
}

static size_t slot_free(const struct telemetry *t, uint64_t hash)
{
    size_t i = hash & t->slot_mask;

    while (t->slots[i])
        i = (i + 1) & t->slot_mask;
    return i;
}

/* Batches since it was known; of a source that fell silent for good, as an application that is
 * gone, the most there can be. */
static uint32_t rest_of(const struct telemetry *t, const struct telemetry_passing *p)
{
    int64_t last = t->sources[p->series.source].time_ns;

    if (last >= 0 && t->batch_ns - last > TELEMETRY_REST_SOURCE_S * INT64_C(1000000000))
        return UINT32_MAX - 1;
    return p->rest;
}

/* The id of the one that has been unknown longest; TELEMETRY_NONE: all are in use, which no further
 * look would change before the next batch. */
static uint32_t resting_id(struct telemetry *t, enum telemetry_class class)
{
    size_t count = atomic_load_explicit(&t->count, memory_order_relaxed);
    uint32_t best = TELEMETRY_NONE, rest = TELEMETRY_REST_BATCHES;

    if (t->none_rests[class])
        return TELEMETRY_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct telemetry_passing *p = t->passing[i];
        uint32_t has = p && class_of(p->series.metric) == class ? rest_of(t, p) : 0;

        if (has >= rest) {
            rest = has + 1;
            best = (uint32_t)i;
        }
    }
    t->none_rests[class] = best == TELEMETRY_NONE;
    return best;
}

static void renew_id(struct telemetry *t, unsigned source, const struct wanted_series *w,
                     uint32_t id)
{
    struct telemetry_passing *old = t->passing[id], *p = passing_new(t, source, w);

    slot_remove(t, id);
    pthread_rwlock_wrlock(&t->names);
    t->passing[id] = p;
    t->series[id] = &p->series;
    atomic_fetch_add_explicit(&t->generation[id], 1, memory_order_release);
    atomic_fetch_add_explicit(&t->renewed, 1, memory_order_release);
    pthread_rwlock_unlock(&t->names);
    t->slots[slot_free(t, w->hash)] = id + 1;
    t->stage[id] = NAN;
    pthread_mutex_lock(&t->lock);
    t->values[id] = NAN; /* what a silent source said last */
    pthread_mutex_unlock(&t->lock);
    free(old);
}

static uint32_t add_passing(struct telemetry *t, unsigned source, const struct wanted_series *w,
                            size_t slot)
{
    size_t id = atomic_load_explicit(&t->count, memory_order_relaxed);
    enum telemetry_class class = class_of(w->metric);
    uint32_t old;

    if ((class == TELEMETRY_CLASS_APP || t->passing_count * 100 < t->max * TELEMETRY_PASSING_PCT) &&
        within_budget(t, w->metric->priority, id)) {
        t->passing[id] = passing_new(t, source, w);
        t->passing_count += class == TELEMETRY_CLASS_OWN;
        t->series[id] = &t->passing[id]->series;
        t->slots[slot] = (uint32_t)id + 1;
        atomic_store_explicit(&t->count, id + 1, memory_order_release);
        return (uint32_t)id;
    }
    old = resting_id(t, class);
    if (old == TELEMETRY_NONE)
        refuse_series(t, w->hash);
    else
        renew_id(t, source, w, old);
    return old;
}

/* ---- series that stay */

static uint32_t add_series(struct telemetry *t, unsigned source, const struct wanted_series *w,
                           size_t slot)
{
    size_t id = atomic_load_explicit(&t->count, memory_order_relaxed);
    struct telemetry_label *labels = arena_array(&t->arena, struct telemetry_label, w->count);
    struct telemetry_series *s = arena_new(&t->arena, struct telemetry_series);

    for (size_t i = 0; i < w->count; i++) {
        labels[i].name = intern_string(t, w->labels[i].name);
        labels[i].value = intern_string(t, w->labels[i].value);
    }
    *s = (struct telemetry_series){
        .metric = w->metric, .labels = labels, .label_count = w->count, .source = source
    };
    t->series[id] = s;
    t->slots[slot] = (uint32_t)id + 1;
    atomic_store_explicit(&t->count, id + 1, memory_order_release);
    return (uint32_t)id;
}

uint32_t telemetry_series(struct telemetry *t, unsigned source, const struct telemetry_metric *m,
                          const struct telemetry_label *labels, size_t count)
{
    size_t have = atomic_load_explicit(&t->count, memory_order_relaxed), i;
    struct wanted_series w;

    if (!m || source >= atomic_load_explicit(&t->source_count, memory_order_relaxed))
        return TELEMETRY_NONE;
    want_series(&w, m, labels, count);
    for (i = w.hash & t->slot_mask; t->slots[i]; i = (i + 1) & t->slot_mask)
        if (same_series(t->series[t->slots[i] - 1], &w))
            return t->slots[i] - 1;
    if (telemetry_passes(m))
        return add_passing(t, source, &w, i);
    if (!within_budget(t, m->priority, have)) {
        refuse_series(t, w.hash);
        return TELEMETRY_NONE;
    }
    return add_series(t, source, &w, i);
}

const struct telemetry_metric *telemetry_foreign_like(struct telemetry *t,
                                                      const struct telemetry_metric *like)
{
    const char *name = like->id, *help = like->help;
    struct telemetry_metric *m;

    if (!metric_name_ok(name))
        return NULL;
    for (size_t i = 0; i < t->foreign_count; i++)
        if (strcmp(t->foreign[i]->id, name) == 0)
            return t->foreign[i];
    if (t->foreign_count == TELEMETRY_FOREIGN_MAX)
        return NULL;
    m = arena_new(&t->arena, struct telemetry_metric);
    m->id = m->prom = intern_string(t, name);
    m->entity = TELEMETRY_APP;
    m->kind = like->kind;
    if (like->family_type != TELEMETRY_PLAIN && metric_name_ok(like->family)) {
        m->family = intern_string(t, like->family);
        m->family_type = like->family_type;
    }
    m->unit = "1";
    if (help && *help) {
        char text[TELEMETRY_VALUE_MAX];

        telemetry_text(text, sizeof(text), help);
        m->help = intern_string(t, text);
    }
    m->scale = 1;
    m->priority = TELEMETRY_PRIORITY_LAST;
    m->labels = "";
    m->source = "application";
    return t->foreign[t->foreign_count++] = m;
}

const struct telemetry_metric *telemetry_foreign(struct telemetry *t, const char *name,
                                                 const char *help, enum telemetry_kind kind)
{
    return telemetry_foreign_like(
        t, &(struct telemetry_metric){ .id = name, .help = help, .kind = kind });
}

/* ---- batches */

void telemetry_begin(struct telemetry *t, unsigned source, int64_t time_ns)
{
    assert(!t->in_batch);
    t->in_batch = true;
    t->batch = source;
    t->batch_ns = time_ns;
}

void telemetry_set(struct telemetry *t, uint32_t id, double value)
{
    assert(t->in_batch);
    if (id < atomic_load_explicit(&t->count, memory_order_relaxed) &&
        t->series[id]->source == t->batch)
        t->stage[id] = value;
}

void telemetry_end(struct telemetry *t)
{
    size_t count = atomic_load_explicit(&t->count, memory_order_relaxed);

    assert(t->in_batch);
    t->in_batch = false;
    if (t->batch >= atomic_load_explicit(&t->source_count, memory_order_relaxed))
        return;
    memset(t->none_rests, 0, sizeof(t->none_rests));
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        if (t->series[i]->source != t->batch)
            continue;
        t->values[i] = t->stage[i];
        if (t->passing[i])
            t->passing[i]->rest = isnan(t->stage[i]) ? t->passing[i]->rest + 1 : 0;
        t->stage[i] = NAN;
    }
    t->sources[t->batch].time_ns = t->batch_ns;
    pthread_mutex_unlock(&t->lock);
}

/* ---- reading */

size_t telemetry_count(const struct telemetry *t)
{
    return atomic_load_explicit(&t->count, memory_order_acquire);
}

const struct telemetry_series *telemetry_get(const struct telemetry *t, uint32_t id)
{
    return id < telemetry_count(t) ? t->series[id] : NULL;
}

size_t telemetry_copy(struct telemetry *t, double *out, size_t cap)
{
    size_t count;

    pthread_mutex_lock(&t->lock);
    count = telemetry_count(t);
    memcpy(out, t->values, (count < cap ? count : cap) * sizeof(*out));
    pthread_mutex_unlock(&t->lock);
    return count;
}

double telemetry_value(struct telemetry *t, uint32_t id)
{
    double v = NAN;

    if (id >= telemetry_count(t))
        return v;
    pthread_mutex_lock(&t->lock);
    v = t->values[id];
    pthread_mutex_unlock(&t->lock);
    return v;
}

uint32_t telemetry_generation(const struct telemetry *t, uint32_t id)
{
    return id < telemetry_count(t) ? atomic_load_explicit(&t->generation[id], memory_order_acquire)
                                   : 0;
}

uint64_t telemetry_renewed(const struct telemetry *t)
{
    return atomic_load_explicit(&t->renewed, memory_order_acquire);
}

void telemetry_hold(struct telemetry *t)
{
    pthread_rwlock_rdlock(&t->names);
}

void telemetry_let(struct telemetry *t)
{
    pthread_rwlock_unlock(&t->names);
}

uint64_t telemetry_refused(const struct telemetry *t)
{
    return atomic_load_explicit(&t->refused, memory_order_relaxed) +
           atomic_load_explicit(&t->refused_before, memory_order_relaxed);
}

void telemetry_refused_before(struct telemetry *t, uint64_t count)
{
    atomic_store_explicit(&t->refused_before, count, memory_order_relaxed);
}

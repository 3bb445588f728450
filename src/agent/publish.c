/* SPDX-License-Identifier: MIT */
/* publish: from what came in to what is shown.
 *
 * Invariant: a value is in the history, synced, before any reader of `shown` can see it.  So the
 * feeds' latest values are gathered in `next` under the ids of `shown`, appended, and only then
 * put in place; the recording, which is a client like others, comes last.
 *
 * A source that is silent for too long becomes unknown: a number that nobody measures any more is
 * not shown as if it were.  Time since its last batch is taken from the monotonic clock, so that
 * setting the clock neither hides nor keeps anything. */
#include "agent/agent_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/file.h"
#include "telemetry/record/recording.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- feeds */

size_t feed_add(struct agent *a, size_t series_max)
{
    struct feed *f = &a->feeds[a->feed_count];

    assert(a->feed_count < AGENT_FEEDS_MAX);
    *f = (struct feed){ .t = telemetry_new(series_max) };
    return a->feed_count++;
}

static int64_t stale_after(int64_t period_ns)
{
    int64_t three = 3 * period_ns;

    return three > AGENT_STALE_MS * AGENT_MS ? three : AGENT_STALE_MS * AGENT_MS;
}

/* Only before its writer runs: it makes the source. */
void feed_stale(struct agent *a, size_t feed, const char *source, int64_t period_ns)
{
    unsigned s = telemetry_source(a->feeds[feed].t, source);

    if (s < TELEMETRY_SOURCES_MAX)
        a->feeds[feed].sources[s].stale_ns = stale_after(period_ns);
}

/* ---- ids */

static uint32_t place_series(struct agent *a, const struct telemetry_series *s, unsigned source)
{
    const struct telemetry_metric *m = telemetry_metric(s->metric->id);

    if (!m)
        m = telemetry_foreign_like(a->shown, s->metric);
    return telemetry_series(a->shown, source, m, s->labels, s->label_count);
}

static void map_series(struct agent *a, struct feed *f, uint32_t i)
{
    const struct telemetry_series *s = telemetry_get(f->t, i);
    struct feed_source *fs = &f->sources[s->source];
    struct feed_map_entry *p = &f->map[i];

    if (!fs->used) {
        fs->used = true;
        fs->shown = telemetry_source(a->shown, telemetry_source_name(f->t, s->source));
        fs->stale_ns = fs->stale_ns ? fs->stale_ns : stale_after(0);
    }
    p->id = place_series(a, s, fs->shown);
    p->generation = telemetry_generation(f->t, i);
    p->id_generation = telemetry_generation(a->shown, p->id);
}

static void place_new(struct agent *a, struct feed *f)
{
    size_t n = telemetry_count(f->t);

    if (n > f->cap) {
        f->cap = n + n / 2;
        f->map = xreallocarray(f->map, f->cap, sizeof(*f->map));
    }
    for (; f->mapped < n; f->mapped++)
        map_series(a, f, (uint32_t)f->mapped);
}

/* Either id may have been given to another series meanwhile; a process that found no room before
 * may find some now. */
static uint32_t place_of(struct agent *a, struct feed *f, uint32_t i)
{
    const struct feed_map_entry *p = &f->map[i];
    bool lapsed =
        p->generation != telemetry_generation(f->t, i) ||
        (p->id != TELEMETRY_NONE && p->id_generation != telemetry_generation(a->shown, p->id)) ||
        (p->id == TELEMETRY_NONE && telemetry_passes(telemetry_get(f->t, i)->metric));

    if (lapsed)
        map_series(a, f, i);
    return p->id;
}

static void note_sources(struct agent *a)
{
    if (a->renewed != telemetry_renewed(a->shown)) {
        a->renewed = telemetry_renewed(a->shown);
        a->placed = 0;
    }
    for (size_t n = telemetry_count(a->shown); a->placed < n; a->placed++)
        a->source_of[a->placed] =
            (unsigned char)telemetry_get(a->shown, (uint32_t)a->placed)->source;
}

/* ---- values */

/* Which sources have a new batch, and which have fallen silent. */
static void look_at_sources(struct agent *a, struct feed *f, int64_t mono_ns)
{
    for (unsigned i = 0; i < TELEMETRY_SOURCES_MAX; i++) {
        struct feed_source *fs = &f->sources[i];
        int64_t batch = fs->used ? telemetry_time_ns(f->t, i) : -1;
        if (batch < 0 || fs->shown >= TELEMETRY_SOURCES_MAX)
            continue;
        if (batch != fs->batch_ns) {
            fs->batch_ns = batch;
            fs->changed_ns = mono_ns;
            fs->stale = false;
            a->dirty[fs->shown] = true;
        } else if (!fs->stale && !a->player && mono_ns - fs->changed_ns > fs->stale_ns) {
            fs->stale = true;
            a->dirty[fs->shown] = true;
        }
        if (batch > a->batch_ns[fs->shown])
            a->batch_ns[fs->shown] = batch;
    }
}

static void gather_values(struct agent *a)
{
    int64_t mono = clock_mono_ns();

    memset(a->dirty, 0, sizeof(a->dirty));
    memset(a->batch_ns, 0, sizeof(a->batch_ns));
    for (size_t i = 0; i < TELEMETRY_SERIES_MAX; i++)
        a->next[i] = NAN;
    for (size_t k = 0; k < a->feed_count; k++) {
        struct feed *f = &a->feeds[k];
        size_t n;
        telemetry_hold(f->t);
        place_new(a, f);
        look_at_sources(a, f, mono);
        n = telemetry_copy(f->t, a->copy, TELEMETRY_SERIES_MAX);
        n = n < f->mapped ? n : f->mapped;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t id;

            if (isnan(a->copy[i]) || f->sources[telemetry_get(f->t, i)->source].stale)
                continue;
            id = place_of(a, f, i);
            if (id == TELEMETRY_NONE || !isnan(a->next[id]))
                continue; /* the driver's word comes first, DCGM's of the same series later */
            a->next[id] = a->copy[i];
            if (id < a->placed)
                a->dirty[a->source_of[id]] |=
                    a->dirty[f->sources[telemetry_get(f->t, i)->source].shown];
        }
        telemetry_let(f->t);
    }
}

static void put_in_place(struct agent *a, int64_t time_ns)
{
    size_t count = a->placed;

    pthread_mutex_lock(&a->show);
    for (unsigned s = 0; s < TELEMETRY_SOURCES_MAX; s++) {
        if (!a->dirty[s])
            continue;
        telemetry_begin(a->shown, s, a->batch_ns[s] && !a->o.demo ? a->batch_ns[s] : time_ns);
        for (size_t i = 0; i < count; i++)
            if (a->source_of[i] == s)
                telemetry_set(a->shown, (uint32_t)i, a->next[i]);
        telemetry_end(a->shown);
    }
    pthread_mutex_unlock(&a->show);
}

/* ---- history */

/* What was wrong with the file, in the log and among the events. */
static void tell_damage(struct agent *a)
{
    struct history_stats st = { 0 };

    if (history_moved(a->ring)) {
        log_warn("the head of history '%s' is damaged: it is '%s' now, a new history begins",
                 a->ring_path, history_moved(a->ring));
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0,
                    "the head of the history was damaged: it was moved to '%.150s'",
                    history_moved(a->ring));
    }
    history_stats(a->ring, &st);
    if (st.cut_bytes) {
        log_warn("history '%s' was cut: %llu of %llu bytes at its end are missing", a->ring_path,
                 (unsigned long long)st.cut_bytes, (unsigned long long)st.cut_of);
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0,
                    "the history was cut: %llu of %llu bytes at its end are missing",
                    (unsigned long long)st.cut_bytes, (unsigned long long)st.cut_of);
    }
    if (st.bad_blocks) {
        log_warn("history '%s': %llu %s damaged and left out", a->ring_path,
                 (unsigned long long)st.bad_blocks, st.bad_blocks == 1 ? "part is" : "parts are");
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "%llu %s damaged and left out",
                    (unsigned long long)st.bad_blocks,
                    st.bad_blocks == 1 ? "part of the history is" : "parts of the history are");
    }
}

enum rc publish_history_open(struct agent *a, struct err *err)
{
    struct history_opts ro = { .path = a->ring_path,
                               .bytes = a->temp_ring ? AGENT_REPLAY_RING_BYTES : a->o.ring_bytes,
                               .no_sync = a->temp_ring,
                               .move_damaged = !a->temp_ring };
    struct history *r = NULL;
    enum rc rc = history_open(&ro, &r, err);

    if (rc == RC_OK) {
        pthread_rwlock_wrlock(&a->view);
        a->ring = r;
        pthread_rwlock_unlock(&a->view);
    }
    pthread_mutex_lock(&a->lock);
    (void)str_copy(a->ring_why, sizeof(a->ring_why), rc == RC_OK ? "" : err->msg);
    pthread_mutex_unlock(&a->lock);
    a->ring_retry_ns = clock_mono_ns() + AGENT_RING_RETRY_MS * AGENT_MS;
    if (rc == RC_OK)
        tell_damage(a);
    return rc;
}

/* Without history, until a later try. */
static void lose_ring(struct agent *a, const struct err *err, int retry_ms)
{
    struct history *r = a->ring;

    pthread_rwlock_wrlock(&a->view);
    a->ring = NULL;
    pthread_rwlock_unlock(&a->view);
    history_close(r);
    pthread_mutex_lock(&a->lock);
    (void)str_copy(a->ring_why, sizeof(a->ring_why), err->msg);
    pthread_mutex_unlock(&a->lock);
    atomic_fetch_add(&a->ring_errors, 1);
    a->ring_retry_ns = clock_mono_ns() + retry_ms * AGENT_MS;
    if (retry_ms)
        log_warn("%s; the agent goes on without history and tries again in %d s", err->msg,
                 retry_ms / 1000);
    else
        log_warn("%s; another one is begun", err->msg);
    agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "no history: %.200s", err->msg);
}

void publish_history_retry(struct agent *a)
{
    struct err err = { 0 };

    if (a->ring || !a->ring_path || clock_mono_ns() < a->ring_retry_ns)
        return;
    if (publish_history_open(a, &err) == RC_OK) {
        log_info("history is kept again in '%s'", a->ring_path);
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "history is kept again");
    }
}

/* A file that was removed, replaced or cut under us takes what is appended with it: another is
 * begun at once. */
static void look_at_ring(struct agent *a)
{
    struct err err = { 0 };

    if (!a->ring || a->temp_ring || history_here(a->ring, &err) == RC_OK)
        return;
    lose_ring(a, &err, 0);
    publish_history_retry(a);
    if (a->ring) /* now that it can be kept */
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "%.200s", err.msg);
    else
        log_warn("%s; the agent goes on without history and tries again in %d s", a->ring_why,
                 AGENT_RING_RETRY_MS / 1000);
}

/* Once a history: names that found no room are told, where a chart of them would only be empty. */
static void tell_refused(struct agent *a)
{
    bool small = a->ring && history_refused(a->ring), told = a->ring_small;

    a->ring_small = small;
    if (!small || told)
        return;
    agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0,
                "the history has no room for the names of all series: some are not kept; a larger "
                "--history-size keeps them");
}

static void append_second(struct agent *a, int64_t time_ns)
{
    int64_t begun = clock_mono_ns();
    struct err err = { 0 };

    look_at_ring(a);
    if (a->ring && history_append(a->ring, a->shown, time_ns, a->next, a->placed, &err))
        lose_ring(a, &err, AGENT_RING_RETRY_MS);
    tell_refused(a);
    atomic_store(&a->sync_ns, clock_mono_ns() - begun);
}

/* ---- recording: what was shown, in the order in which it was */

enum rc publish_record_open(struct agent *a, struct err *err)
{
    struct buf head = { 0 };
    struct json_out w;

    enum rc rc = recording_create(a->o.record, a->o.record_replace, &a->record_fd, err);

    if (rc != RC_OK)
        return rc;
    json_out_init(&w, &head, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.tele/1");
    json_kv_str(&w, "host", a->host);
    json_kv_int(&w, "begin", agent_wall_ns() / 1000000000);
    json_kv_int(&w, "period_ms", a->o.period_ms);
    json_kv_str(&w, "version", STOKER_VERSION);
    json_obj_end(&w);
    a->record = stream_writer_new(buf_str(&head), &a->record_buf);
    buf_release(&head);
    return RC_OK;
}

static void record_stop(struct agent *a, const char *why)
{
    log_warn("recording '%s' ends here: %s", a->o.record, why);
    close(a->record_fd);
    a->record_fd = -1;
    stream_writer_free(a->record);
    a->record = NULL;
    buf_release(&a->record_buf);
    agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "recording '%.100s' ended: %.100s", a->o.record,
                why);
}

static void record_flush(struct agent *a)
{
    struct err err = { 0 };

    if (a->record_buf.over) {
        record_stop(a, "a second is too large");
    } else if (file_write(a->record_fd, a->o.record, buf_str(&a->record_buf), a->record_buf.len,
                          &err)) {
        record_stop(a, err.msg);
    } else {
        atomic_fetch_add(&a->record_bytes, a->record_buf.len);
        buf_reset(&a->record_buf);
    }
}

static void record_source(struct agent *a, unsigned s, int64_t time_ns, uint32_t *ids,
                          double *values)
{
    size_t n = 0;

    for (size_t i = 0; i < a->placed; i++)
        if (a->source_of[i] == s && !isnan(a->next[i])) {
            ids[n] = (uint32_t)i;
            values[n++] = a->next[i];
        }
    stream_batch(a->record, s, a->batch_ns[s] ? a->batch_ns[s] : time_ns, ids, values, n);
}

/* New ones, and ids that are another series' now. */
static void record_series(struct agent *a)
{
    if (!a->recorded_born)
        a->recorded_born = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*a->recorded_born));
    if (a->recorded == a->placed && a->recorded_renewed == telemetry_renewed(a->shown))
        return;
    a->recorded_renewed = telemetry_renewed(a->shown);
    for (uint32_t i = 0; i < a->placed; i++) {
        const struct telemetry_series *s = telemetry_get(a->shown, i);

        if (i < a->recorded && a->recorded_born[i] == telemetry_generation(a->shown, i))
            continue;
        a->recorded_born[i] = telemetry_generation(a->shown, i);
        stream_series(a->record, s->source, i, s, telemetry_source_name(a->shown, s->source));
    }
    a->recorded = a->placed;
}

/* Our own source comes last: it marks the end of the second. */
static void record_second(struct agent *a, int64_t time_ns)
{
    uint32_t *ids;

    if (!a->record)
        return;
    record_series(a);
    ids = xcalloc(a->placed ? a->placed : 1, sizeof(*ids));
    for (unsigned s = 0; s < TELEMETRY_SOURCES_MAX; s++)
        if (a->dirty[s] && s != a->self)
            record_source(a, s, time_ns, ids, a->copy);
    if (a->dirty[a->self])
        record_source(a, a->self, time_ns, ids, a->copy);
    free(ids);
    record_flush(a);
}

void publish_record_event(struct agent *a, const struct telemetry_event *e)
{
    if (a->record)
        stream_event(a->record, e);
}

/* ---- events and documents of the feeds */

static void take_events(struct agent *a)
{
    static_assert(AGENT_EVENTS_TURN_MAX * sizeof(struct telemetry_event) < AGENT_STACK_BYTES * 2,
                  "they have room");
    struct telemetry_event *list = xcalloc(AGENT_EVENTS_TURN_MAX, sizeof(*list));

    faults_turn(a, false);
    for (size_t k = 0; k < a->feed_count; k++) {
        struct feed *f = &a->feeds[k];
        size_t n = telemetry_events_after(f->t, &f->events, list, AGENT_EVENTS_TURN_MAX);
        for (size_t i = 0; i < n; i++) {
            faults_take(a, &list[i], !a->gpu || k != a->gpu_feed);
        }
    }
    free(list);
}

static void take_doc(void *arg, const char *name, const char *json)
{
    struct agent *a = arg;

    telemetry_doc(a->shown, name, json);
    if (str_eq(name, "processes"))
        gpu_users_take(a->gpu_users, json);
    if (a->record)
        stream_doc(a->record, name, json);
}

static void take_docs(struct agent *a)
{
    for (size_t k = 0; k < a->feed_count; k++)
        a->feeds[k].docs = telemetry_docs_after(a->feeds[k].t, a->feeds[k].docs, take_doc, a);
}

void publish_second(struct agent *a, int64_t time_ns)
{
    gather_values(a);
    status_publish(a, time_ns);
    note_sources(a);
    append_second(a, time_ns);
    take_events(a);
    put_in_place(a, time_ns);
    take_docs(a);
    record_second(a, time_ns);
    atomic_fetch_add(&a->seconds, 1);
}

void publish_free(struct agent *a)
{
    if (a->record) {
        if (a->record_buf.len)
            record_flush(a); /* events after the last second */
        stream_writer_free(a->record);
    }
    if (a->record_fd >= 0)
        close(a->record_fd);
    buf_release(&a->record_buf);
    for (size_t i = 0; i < a->feed_count; i++) {
        telemetry_free(a->feeds[i].t);
        free(a->feeds[i].map);
    }
    telemetry_free(a->shown);
    free(a->next);
    free(a->copy);
    free(a->source_of);
    free(a->recorded_born);
}

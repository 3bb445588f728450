/* SPDX-License-Identifier: MIT */
/* history_event: events, each in a sector of its own, the oldest written over. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "history/history_int.h"

#include <assert.h>
#include <string.h>

struct event_slot {
    uint32_t magic, crc; /* of the whole with crc 0 */
    uint64_t file_id, seq;
    int64_t time_ns;
    int32_t kind, gpu, code, zero;
    char text[TELEMETRY_VALUE_MAX];
};
static_assert(sizeof(struct event_slot) <= HISTORY_EVENT_SLOT, "an event has a sector");

static uint64_t slot_count(const struct history *r)
{
    return r->file.map.events.size / HISTORY_EVENT_SLOT;
}

static uint32_t slot_crc(const struct event_slot *s)
{
    struct event_slot copy = *s;

    copy.crc = 0;
    return crc32c(0, &copy, sizeof(copy));
}

static bool slot_read(struct history *r, uint64_t i, struct event_slot *s)
{
    return history_file_get(&r->file, r->file.map.events.at + i * HISTORY_EVENT_SLOT, s,
                            sizeof(*s)) &&
           s->magic == HISTORY_SLOT_MAGIC && s->file_id == r->file.id && s->crc == slot_crc(s) &&
           s->kind >= 0 && s->kind < TELEMETRY_EVENT_KINDS && s->seq % slot_count(r) == i &&
           memchr(s->text, 0, sizeof(s->text));
}

/* Any byte of a slot that was written. */
static bool slot_used(struct history *r, uint64_t i)
{
    static const char zeros[sizeof(struct event_slot)];
    struct event_slot s;

    return history_file_get(&r->file, r->file.map.events.at + i * HISTORY_EVENT_SLOT, &s,
                            sizeof(s)) &&
           memcmp(&s, zeros, sizeof(s)) != 0;
}

/* A slot that is not empty and no event was one. */
void history_events_load(struct history *r)
{
    struct event_slot s;

    r->event_seq = 0;
    for (uint64_t i = 0; i < slot_count(r); i++) {
        if (slot_read(r, i, &s))
            r->event_seq = s.seq >= r->event_seq ? s.seq + 1 : r->event_seq;
        else
            r->bad_blocks += slot_used(r, i);
    }
}

static enum rc put_event(struct history *r, const struct telemetry_event *e, struct err *err)
{
    struct event_slot s = { .magic = HISTORY_SLOT_MAGIC,
                            .file_id = r->file.id,
                            .seq = r->event_seq,
                            .time_ns = e->time_ns,
                            .kind = (int32_t)e->kind,
                            .gpu = e->gpu,
                            .code = e->code };
    uint64_t at = r->file.map.events.at + s.seq % slot_count(r) * HISTORY_EVENT_SLOT;
    enum rc rc;

    str_copy(s.text, sizeof(s.text), e->text);
    s.crc = slot_crc(&s);
    rc = history_file_put(&r->file, at, &s, sizeof(s), err);
    if (!rc)
        r->event_seq++;
    return rc;
}

enum rc history_append_event(struct history *r, const struct telemetry_event *e, struct err *err)
{
    enum rc rc;

    if (e->kind < 0 || e->kind >= TELEMETRY_EVENT_KINDS)
        return err_set(err, RC_USAGE, "an event of unknown kind %d", (int)e->kind);
    pthread_mutex_lock(&r->writer);
    rc = put_event(r, e, err);
    if (!rc)
        rc = history_file_sync(&r->file, err);
    pthread_mutex_unlock(&r->writer);
    return rc;
}

struct event_kept {
    uint64_t seq;
    struct telemetry_event event;
};

static int by_time(const void *a, const void *b)
{
    const struct event_kept *p = a, *q = b;

    if (p->event.time_ns != q->event.time_ns)
        return p->event.time_ns < q->event.time_ns ? -1 : 1;
    return p->seq < q->seq ? -1 : p->seq > q->seq;
}

/* Those of the time, in their order; owned by the caller. */
static struct event_kept *collect_events(struct history *r, int64_t from_ns, int64_t to_ns,
                                         size_t *count)
{
    struct event_kept *all = NULL;
    size_t n = 0, cap = 0;
    struct event_slot s;

    for (uint64_t i = 0; i < slot_count(r); i++) {
        if (!slot_read(r, i, &s) || s.time_ns < from_ns || s.time_ns >= to_ns)
            continue;
        VEC_GROW(all, n, cap);
        all[n].seq = s.seq;
        all[n].event = (struct telemetry_event){ .time_ns = s.time_ns,
                                                 .kind = (enum telemetry_event_kind)s.kind,
                                                 .gpu = s.gpu,
                                                 .code = s.code };
        memcpy(all[n++].event.text, s.text, sizeof(s.text));
    }
    if (n)
        qsort(all, n, sizeof(*all), by_time);
    *count = n;
    return all;
}

enum rc history_events(struct history *r, int64_t from_ns, int64_t to_ns,
                       bool (*take)(void *arg, const struct telemetry_event *e), void *arg,
                       struct err *err)
{
    struct event_kept *all;
    size_t count;

    if (from_ns > to_ns)
        return err_set(err, RC_USAGE, "a query's time runs backwards");
    all = collect_events(r, from_ns, to_ns, &count);
    for (size_t i = 0; i < count; i++)
        if (!take(arg, &all[i].event))
            break;
    free(all);
    return RC_OK;
}

static int by_seq(const void *a, const void *b)
{
    const struct event_kept *p = a, *q = b;

    return p->seq < q->seq ? -1 : p->seq > q->seq;
}

enum rc history_events_copy(struct history *from, struct history *to, struct err *err)
{
    struct event_kept *all;
    enum rc rc = RC_OK;
    size_t count;

    all = collect_events(from, INT64_MIN, INT64_MAX, &count);
    if (count)
        qsort(all, count, sizeof(*all), by_seq);
    for (size_t i = 0; i < count && !rc; i++)
        rc = put_event(to, &all[i].event, err);
    free(all);
    return rc;
}

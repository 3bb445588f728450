/* SPDX-License-Identifier: MIT */
/* telemetry_event: a table's events and documents.
 *
 * Events are a ring in order of arrival, grown as they come: most nodes never have many. */
#include "base/mem.h"
#include "base/str.h"
#include "telemetry/telemetry_int.h"

#include <stdlib.h>
#include <string.h>

const char *telemetry_event_word(enum telemetry_event_kind k)
{
    static const char *const words[TELEMETRY_EVENT_KINDS] = {
        [TELEMETRY_EVENT_XID] = "xid",       [TELEMETRY_EVENT_SXID] = "sxid",
        [TELEMETRY_EVENT_KERNEL] = "kernel", [TELEMETRY_EVENT_RECOVERY] = "recovery",
        [TELEMETRY_EVENT_GPU] = "gpu",       [TELEMETRY_EVENT_HANG] = "hang",
        [TELEMETRY_EVENT_LINK] = "link",     [TELEMETRY_EVENT_ALERT] = "alert",
        [TELEMETRY_EVENT_AGENT] = "agent",
    };

    return (unsigned)k < TELEMETRY_EVENT_KINDS ? words[k] : "unknown";
}

void telemetry_event(struct telemetry *t, const struct telemetry_event *e)
{
    struct telemetry_event mine = *e;

    mine.text[sizeof(mine.text) - 1] = '\0';
    str_make_text(mine.text);
    pthread_mutex_lock(&t->lock);
    t->event_total++;
    if (t->event_count < TELEMETRY_EVENTS_MAX) {
        VEC_GROW(t->events, t->event_count, t->event_cap);
        t->events[t->event_count++] = mine;
    } else {
        t->events[t->event_next] = mine;
        t->event_next = (t->event_next + 1) % TELEMETRY_EVENTS_MAX;
    }
    pthread_mutex_unlock(&t->lock);
}

/* The i-th oldest. */
static const struct telemetry_event *event_nth(const struct telemetry *t, size_t i)
{
    return &t->events[(t->event_next + i) % t->event_count];
}

/* How many of the newest are not older than since_ns, at most `cap`, and where they begin. */
static size_t count_since(const struct telemetry *t, int64_t since_ns, size_t cap,
                          size_t *out_first)
{
    size_t n = 0, first = t->event_count;

    while (first > 0 && n < cap)
        n += event_nth(t, --first)->time_ns >= since_ns;
    *out_first = first;
    return n;
}

static void copy_since(const struct telemetry *t, int64_t since_ns, size_t first, size_t n,
                       struct telemetry_event *out)
{
    for (size_t i = first, k = 0; i < t->event_count && k < n; i++)
        if (event_nth(t, i)->time_ns >= since_ns)
            out[k++] = *event_nth(t, i);
}

size_t telemetry_events(struct telemetry *t, int64_t since_ns, struct telemetry_event *out,
                        size_t cap)
{
    size_t n, first;

    pthread_mutex_lock(&t->lock);
    n = count_since(t, since_ns, cap, &first);
    copy_since(t, since_ns, first, n, out);
    pthread_mutex_unlock(&t->lock);
    return n;
}

struct telemetry_event *telemetry_events_copy(struct telemetry *t, int64_t since_ns, size_t *count)
{
    struct telemetry_event *list = NULL;
    size_t first;

    pthread_mutex_lock(&t->lock);
    *count = count_since(t, since_ns, TELEMETRY_EVENTS_MAX, &first);
    if (*count)
        list = xcalloc(*count, sizeof(*list));
    copy_since(t, since_ns, first, *count, list);
    pthread_mutex_unlock(&t->lock);
    return list;
}

size_t telemetry_events_after(struct telemetry *t, uint64_t *io_seen, struct telemetry_event *out,
                              size_t cap)
{
    size_t n = 0;

    pthread_mutex_lock(&t->lock);
    if (*io_seen + t->event_count < t->event_total)
        *io_seen = t->event_total - t->event_count;
    for (; *io_seen < t->event_total && n < cap; ++*io_seen)
        out[n++] = *event_nth(t, t->event_count - (size_t)(t->event_total - *io_seen));
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* ---- documents */

/* One that was removed has no text: who asks for changes is told of that too. */
static struct telemetry_document *find_document(struct telemetry *t, const char *name)
{
    for (size_t i = 0; i < t->doc_count; i++)
        if (strcmp(t->docs[i].name, name) == 0)
            return &t->docs[i];
    return NULL;
}

/* A place for one more, if need be that of one that was removed; NULL: there are too many. */
static struct telemetry_document *document_room(struct telemetry *t)
{
    struct telemetry_document *d =
        t->doc_count < TELEMETRY_DOCS_MAX ? &t->docs[t->doc_count] : NULL;

    for (size_t i = 0; !d && i < t->doc_count; i++)
        if (!t->docs[i].json)
            d = &t->docs[i];
    if (d == &t->docs[t->doc_count])
        t->doc_count++;
    if (d)
        *d = (struct telemetry_document){ 0 };
    return d;
}

void telemetry_doc(struct telemetry *t, const char *name, const char *json)
{
    size_t len = json ? strlen(json) : 0;
    char text[TELEMETRY_NAME_MAX];
    struct telemetry_document *d;

    if (len > TELEMETRY_DOC_MAX)
        return;
    telemetry_text(text, sizeof(text), name);
    pthread_mutex_lock(&t->lock);
    d = find_document(t, text);
    if (json && !d && (d = document_room(t)))
        (void)str_copy(d->name, sizeof(d->name), text);
    if (d && (json || d->json)) {
        free(d->json);
        d->json = json ? xstrndup(json, len) : NULL;
        d->len = len;
        d->change = ++t->doc_change;
    }
    pthread_mutex_unlock(&t->lock);
}

bool telemetry_doc_copy(struct telemetry *t, const char *name, struct buf *out)
{
    const struct telemetry_document *d;

    pthread_mutex_lock(&t->lock);
    d = find_document(t, name);
    if (d && !d->json)
        d = NULL;
    if (d)
        buf_add(out, d->json, d->len);
    pthread_mutex_unlock(&t->lock);
    return d != NULL;
}

uint64_t telemetry_docs_after(struct telemetry *t, uint64_t since,
                              void (*take)(void *arg, const char *name, const char *json),
                              void *arg)
{
    uint64_t last;

    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->doc_count; i++)
        if (t->docs[i].change > since)
            take(arg, t->docs[i].name, t->docs[i].json);
    last = t->doc_change;
    pthread_mutex_unlock(&t->lock);
    return last;
}

void telemetry_events_release(struct telemetry *t)
{
    free(t->events);
    for (size_t i = 0; i < t->doc_count; i++)
        free(t->docs[i].json);
}

/* SPDX-License-Identifier: MIT */
/* xid_count: XIDs, each counted once.
 *
 * The driver tells of an XID through NVML and in the kernel's log, in either order, seconds apart
 * when a side is busy; or through only one of them: NVML lacks those of a GPU that has fallen off
 * the bus, the log those that a flood cut off.  So reports are paired: one of either side takes
 * away the oldest unpaired one of the other side, of the same GPU and code and at most
 * XID_WINDOW_MS away, and counts when there is none.  Three reports of one side and two of the
 * other are three XIDs. */
#include "telemetry/kmsg/kmsg.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum {
    XID_COUNTS_MAX = 1024, /* pairs of a GPU and a code */
    XID_WINDOW_MS = 10000, /* between two reports of one XID */
    XID_UNPAIRED_MAX = 32, /* reports that wait for their twin, of a pair and a side */
    XID_BUCKETS = 60,      /* of the window that DCGM's exporter counts in */
    XID_BUCKET_MS = XID_COUNT_WINDOW_MS / XID_BUCKETS
};

struct xid_side {
    int64_t times[XID_UNPAIRED_MAX]; /* of unpaired reports, in the order in which they came */
    size_t count;
};
struct xid_entry {
    struct xid_count seen;
    struct xid_side sides[2]; /* the driver's, the log's */
    uint32_t buckets[XID_BUCKETS];
    int64_t newest; /* bucket since 1970 */
};
struct xid_counts {
    struct xid_entry **list; /* owned, each owned: readers keep pointers to what they were given */
    size_t count, cap;
};

struct xid_counts *xid_counts_new(void)
{
    return xcalloc(1, sizeof(struct xid_counts));
}

void xid_counts_free(struct xid_counts *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->count; i++)
        free(x->list[i]);
    free(x->list);
    free(x);
}

static struct xid_entry *find_count(struct xid_counts *x, int gpu, const char *bdf, int code)
{
    for (size_t i = 0; i < x->count; i++) {
        const struct xid_count *c = &x->list[i]->seen;

        if (c->code == code && c->gpu == gpu && (gpu >= 0 || str_eq(c->bdf, bdf)))
            return x->list[i];
    }
    if (x->count == XID_COUNTS_MAX)
        return NULL;
    VEC_GROW(x->list, x->count, x->cap);
    x->list[x->count] = xcalloc(1, sizeof(struct xid_entry));
    x->list[x->count]->seen = (struct xid_count){ .gpu = gpu, .code = code };
    (void)str_copy(x->list[x->count]->seen.bdf, sizeof(x->list[0]->seen.bdf), bdf ? bdf : "");
    return x->list[x->count++];
}

static void drop_report(struct xid_side *s, size_t i)
{
    s->count--;
    memmove(s->times + i, s->times + i + 1, (s->count - i) * sizeof(s->times[0]));
}

/* Is it the twin of a report that waits? */
static bool pair_report(struct xid_side *other, int64_t time_ns)
{
    for (size_t i = 0; i < other->count; i++)
        if (llabs(other->times[i] - time_ns) <= XID_WINDOW_MS * INT64_C(1000000)) {
            drop_report(other, i);
            return true;
        }
    return false;
}

/* Buckets between the newest and now are empty; a clock that was set back leaves them. */
static void roll_window(struct xid_entry *e, int64_t time_ns)
{
    int64_t now = time_ns / (XID_BUCKET_MS * INT64_C(1000000));

    for (int64_t i = 1; i <= XID_BUCKETS && e->newest + i <= now; i++)
        e->buckets[(e->newest + i) % XID_BUCKETS] = 0;
    if (now > e->newest)
        e->newest = now;
}

bool xid_counts_take(struct xid_counts *x, int gpu, const char *bdf, int code, bool of_log,
                     int64_t time_ns)
{
    struct xid_entry *e = time_ns >= 0 ? find_count(x, gpu, bdf, code) : NULL;
    struct xid_side *own;

    if (!e)
        return true; /* told, not counted */
    if (pair_report(&e->sides[!of_log], time_ns))
        return false;
    own = &e->sides[of_log];
    if (own->count == XID_UNPAIRED_MAX)
        drop_report(own, 0);
    own->times[own->count++] = time_ns;
    e->seen.total++;
    roll_window(e, time_ns);
    e->buckets[e->newest % XID_BUCKETS]++;
    return true;
}

const struct xid_count *xid_counts_get(struct xid_counts *x, size_t i, int64_t now_ns)
{
    struct xid_entry *e = i < x->count ? x->list[i] : NULL;

    if (!e)
        return NULL;
    roll_window(e, now_ns);
    e->seen.window = 0;
    for (size_t k = 0; k < XID_BUCKETS; k++)
        e->seen.window += e->buckets[k];
    return &e->seen;
}

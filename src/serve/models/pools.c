/* SPDX-License-Identifier: MIT */
/* pools: who has which bytes of memory, who leaves for whom, and what the machine has.
 *
 * A pool is a budget, not a place: engines take their memory from the system, a few large
 * blocks each.  What is free in a pool can therefore always be had in one piece, and its
 * largest free block is all that is free; a device whose memory is cut up would say less.
 *
 * Two things can be short: the pool, and the machine that all pools share.  For the pool,
 * versions of the same pool leave; for the machine, versions of any.  Of those that may leave
 * (priority not above the newcomer's, not pinned, idle) the lowest go first, and of equals the
 * one that has not been used for longest.  Nobody leaves in vain: first it is made sure that
 * there will be room. */
#include "base/log.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "os/file.h"
#include "serve/models/manager_int.h"

#include <assert.h>

enum {
    POOLS_FILE_MAX = 64 << 10,       /* bytes of /proc/meminfo and its like */
    POOLS_RESERVE_BYTES = 512 << 20, /* left to everything else on the machine … */
    POOLS_RESERVE_SHARE = 8,         /* … or this part of what is available, where that is less */
    POOLS_GROUPS_MAX = 32            /* control groups, one in the other */
};

/* ---- the machine */

/* The number that stands behind `key` in a file below `root`; key "": at its start.  -1: none. */
static int64_t number_in(const char *root, const char *path, const char *name, const char *key)
{
    char file[FILE_PATH_MAX];
    struct buf b = { 0 };
    int64_t v = -1;
    int n = snprintf(file, sizeof(file), "%s%s/%s", root, path, name);

    if (n > 0 && (size_t)n < sizeof(file) && file_read(file, POOLS_FILE_MAX, &b, NULL) == RC_OK) {
        const char *at = strstr(buf_str(&b), key);
        char digits[24] = "";
        size_t len = 0;
        if (at) {
            at += strlen(key);
            at += strspn(at, " \t");
            len = strspn(at, "0123456789");
        }
        if (len && len < sizeof(digits))
            memcpy(digits, at, len);
        if (!str_to_i64(digits, 10, &v))
            v = -1;
    }
    buf_release(&b);
    return v;
}

/* Both kinds of control groups; the newer first. */
struct group_kind {
    const char *mount, *line; /* of /proc/self/cgroup, up to the path */
    const char *max, *used, *old, *hot;
};
static const struct group_kind group_kinds[] = {
    { "/sys/fs/cgroup", "0::", "memory.max", "memory.current", "\ninactive_file ",
      "\nactive_file " },
    { "/sys/fs/cgroup/memory", "memory:", "memory.limit_in_bytes", "memory.usage_in_bytes",
      "\ntotal_inactive_file ", "\ntotal_active_file " },
};

/* What a control group may still take, its page cache counted as free; -1: it has no limit. */
static int64_t group_free(const struct group_kind *k, const char *root, const char *path)
{
    int64_t max = number_in(root, path, k->max, ""); /* "max": none */
    int64_t used = number_in(root, path, k->used, "");
    int64_t old = number_in(root, path, "memory.stat", k->old);
    int64_t hot = number_in(root, path, "memory.stat", k->hot);

    if (max < 0 || used < 0)
        return -1;
    used -= (old > 0 ? old : 0) + (hot > 0 ? hot : 0);
    return used <= 0 ? max : used < max ? max - used : 0;
}

/* The least that our groups have left, each within the next. */
static uint64_t groups_free(const struct group_kind *k, const char *root, uint64_t most)
{
    char path[FILE_PATH_MAX], own[FILE_PATH_MAX];
    struct buf b = { 0 };
    const char *at = NULL;

    snprintf(own, sizeof(own), "%s/proc/self/cgroup", root);
    if (file_read(own, POOLS_FILE_MAX, &b, NULL) == RC_OK)
        at = strstr(buf_str(&b), k->line);
    at = at ? at + strlen(k->line) : "";
    snprintf(path, sizeof(path), "%s%.*s", k->mount, (int)strcspn(at, "\n"), at);
    buf_release(&b);
    for (size_t i = 0; i < POOLS_GROUPS_MAX && str_starts(path, k->mount); i++) {
        int64_t left = group_free(k, root, path);
        most = left >= 0 && (uint64_t)left < most ? (uint64_t)left : most;
        *strrchr(path, '/') = '\0';
    }
    return most;
}

uint64_t pools_machine_bytes(const char *root)
{
    int64_t kib = number_in(root, "/proc", "meminfo", "MemAvailable:");
    uint64_t bytes, reserve;

    if (kib < 0 || kib > INT64_MAX / 1024)
        return UINT64_MAX / 2;
    bytes = (uint64_t)kib * 1024;
    for (size_t i = 0; i < ARRAY_SIZE(group_kinds); i++)
        bytes = groups_free(&group_kinds[i], root, bytes);
    reserve = bytes / POOLS_RESERVE_SHARE;
    return bytes - (reserve < POOLS_RESERVE_BYTES ? reserve : POOLS_RESERVE_BYTES);
}

/* The same below the limit that the operator set for all pools. */
static uint64_t machine_free(const struct models *m, uint64_t available)
{
    uint64_t used = 0;

    if (!m->o.memory_bytes)
        return available;
    for (size_t i = 0; i < m->pool_count; i++)
        used += m->pools[i].used;
    return m->o.memory_bytes > used ? m->o.memory_bytes - used : 0;
}

/* ---- pools */

static enum rc add_pool(struct models *m, const char *name, uint64_t bytes,
                        enum models_priority priority, struct err *err)
{
    struct pool *p = pools_find(m, name);

    if (!name[0] || strlen(name) >= MODELS_NAME_MAX || !str_is_text(name, strlen(name)))
        return err_set(err, RC_USAGE, "a pool's name must be text of 1 to %d bytes",
                       MODELS_NAME_MAX - 1);
    if (p && p != &m->pools[0])
        return err_set(err, RC_USAGE, "there are two pools '%s'", name);
    p = p ? p : &m->pools[m->pool_count++];
    (void)str_copy(p->name, sizeof(p->name), name);
    p->bytes = bytes ? bytes : machine_free(m, pools_machine_bytes(""));
    p->priority = priority;
    return RC_OK;
}

enum rc pools_init(struct models *m, const struct manager_opts *o, struct err *err)
{
    enum rc rc = o->pool_count <= POOLS_MAX
                     ? add_pool(m, "default", 0, MODELS_MEDIUM, err)
                     : err_set(err, RC_LIMIT, "%zu pools, %d at most", o->pool_count, POOLS_MAX);

    for (size_t i = 0; rc == RC_OK && i < o->pool_count; i++)
        rc = add_pool(m, o->pools[i].name, o->pools[i].bytes, o->pools[i].priority, err);
    meter_pools(m);
    return rc;
}

struct pool *pools_find(struct models *m, const char *name)
{
    for (size_t i = 0; i < m->pool_count; i++)
        if (str_eq(m->pools[i].name, name ? name : "default"))
            return &m->pools[i];
    return NULL;
}

void pools_give(struct models *m, struct pool *p, uint64_t bytes)
{
    if (!p || !bytes)
        return;
    assert(p->used >= bytes);
    p->used -= bytes;
    meter_pools(m);
}

static uint64_t pool_free(const struct pool *p)
{
    return p->bytes > p->used ? p->bytes - p->used : 0;
}

/* ---- who may leave */

struct room_wish { /* one that wants bytes */
    const struct model_slot *slot;
    const struct model_wish *wish;
    struct pool *pool;
    uint64_t bytes;
};

static int pool_rank(const struct pool *p, enum models_priority priority)
{
    return (int)p->priority * (MODELS_HIGH + 1) + (int)priority;
}

/* The old version of a swap never leaves for the new one. */
static bool may_leave(const struct room_wish *a, const struct version *v)
{
    bool below = v->pool == a->pool
                     ? v->priority <= a->wish->o.priority
                     : pool_rank(v->pool, v->priority) <= pool_rank(a->pool, a->wish->o.priority);

    return v->slot && v->slot != a->slot && !v->pinned && below;
}

static bool is_idle(const struct version *v)
{
    return atomic_load(&v->refs) == 1;
}

static bool goes_before(const struct version *a, const struct version *b)
{
    int x = pool_rank(a->pool, a->priority), y = pool_rank(b->pool, b->priority);

    return x < y || (x == y && a->used < b->used);
}

/* What would be free, of the pool and of the machine. */
struct pool_room {
    uint64_t pool, machine;
};

static void add_room(struct pool_room *r, const struct room_wish *a, const struct version *v)
{
    r->machine += v->s.bytes;
    if (v->pool == a->pool)
        r->pool += v->s.bytes;
}

static bool has_enough(const struct pool_room *r, const struct room_wish *a)
{
    return r->pool >= a->bytes && r->machine >= a->bytes;
}

static void let_leave(struct models *m, struct version *v)
{
    struct model_slot *s = v->slot;

    s->away = true;
    s->current = NULL;
    v->slot = NULL;
    meter_info(m, v, false);
    log_info("model '%s' left its pool for another one", s->name);
    meter_count(m->meter.evictions, s->name);
    meter_name(m, s->name);
    version_drop(v);
}

/* Lets idle ones leave until what is free and what is leaving is enough. */
static void let_some_leave(struct models *m, const struct room_wish *a, struct pool_room r)
{
    while (!has_enough(&r, a)) {
        bool own = r.pool < a->bytes; /* those of other pools do not help */
        struct version *first = NULL;
        for (struct version *v = m->living; v; v = v->next)
            if (may_leave(a, v) && is_idle(v) && (!own || v->pool == a->pool) &&
                (!first || goes_before(v, first)))
                first = v;
        if (!first)
            return;
        add_room(&r, a, first);
        let_leave(m, first);
    }
}

/* ---- refusing */

static const char *why_held(const struct room_wish *a, const struct version *v)
{
    if (!v->slot)
        return ", leaving";
    if (v->slot == a->slot)
        return ", the version it would replace";
    if (v->pinned)
        return ", pinned";
    if (!may_leave(a, v))
        return ", of higher priority";
    return is_idle(v) ? "" : ", in use";
}

static void list_holders(const struct models *m, const struct room_wish *a, bool all,
                         struct buf *out)
{
    size_t told = 0, more = 0;
    char size[UNITS_TEXT_MAX];

    for (const struct version *v = m->living; v; v = v->next) {
        if (!all && v->pool != a->pool)
            continue;
        if (told == MODELS_TOLD_MAX) {
            more++;
            continue;
        }
        buf_addf(out, "%s'%.40s' (%s%s)", told++ ? ", " : "held by ", v->s.name,
                 units_bytes_human(v->s.bytes, size), why_held(a, v));
    }
    if (more)
        buf_addf(out, " and %zu more", more);
    if (!told)
        buf_adds(out, "held by no model");
}

static enum rc refuse_room(const struct models *m, const struct room_wish *a,
                           const struct pool_room *now, struct err *err)
{
    bool machine = now->pool >= a->bytes;
    char asked[UNITS_TEXT_MAX], left[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    uint64_t bytes = machine ? now->machine : now->pool;
    struct buf who = { 0 };

    list_holders(m, a, machine, &who);
    units_bytes_human(a->bytes, asked);
    units_bytes_human(bytes, left);
    if (a->slot && a->slot->current)
        err_hint(err, "The old version stays until the new one is ready: unload it first, or give "
                      "the pool more.");
    if (machine)
        (void)err_set(err, RC_LIMIT,
                      "the machine has no room: %s (%llu bytes) asked, %s (%llu bytes) free; %s",
                      asked, (unsigned long long)a->bytes, left, (unsigned long long)bytes,
                      buf_str(&who));
    else
        (void)err_set(
            err, RC_LIMIT,
            "pool '%s' has no room: %s (%llu bytes) asked, %s (%llu bytes) of %s free; %s",
            a->pool->name, asked, (unsigned long long)a->bytes, left, (unsigned long long)bytes,
            units_bytes_human(a->pool->bytes, size), buf_str(&who));
    buf_release(&who);
    return RC_LIMIT;
}

/* ---- taking */

/* One look: true when there is room.  *out_hope: waiting may help. */
static bool look_for_room(struct models *m, const struct room_wish *a, uint64_t available,
                          struct pool_room *out_now, bool *out_hope)
{
    struct pool_room now = { pool_free(a->pool), machine_free(m, available) };
    struct pool_room leaving, idle_too, busy_too;

    leaving = now;
    for (const struct version *v = m->living; v; v = v->next)
        if (!v->slot)
            add_room(&leaving, a, v);
    idle_too = busy_too = leaving;
    for (const struct version *v = m->living; v; v = v->next) {
        if (!may_leave(a, v))
            continue;
        add_room(&busy_too, a, v);
        if (is_idle(v))
            add_room(&idle_too, a, v);
    }
    if (!has_enough(&now, a) && has_enough(&idle_too, a))
        let_some_leave(m, a, leaving);
    *out_now = now;
    *out_hope = has_enough(&busy_too, a);
    return has_enough(&now, a);
}

enum rc pools_take_now(struct models *m, const struct model_wish *w, struct pool *p, uint64_t bytes,
                       uint64_t available, struct err *err)
{
    struct room_wish a = { NULL, w, p, bytes };
    struct pool_room now = { pool_free(p), machine_free(m, available) };

    if (!has_enough(&now, &a))
        return refuse_room(m, &a, &now, err);
    p->used += bytes;
    meter_pools(m);
    return RC_OK;
}

enum rc pools_take(struct models *m, struct model_slot *s, const struct model_wish *w,
                   struct pool *p, uint64_t bytes, struct err *err)
{
    struct room_wish a = { s, w, p, bytes };
    int64_t end = clock_mono_ns() + (int64_t)MODELS_ROOM_WAIT_MS * 1000000;
    struct pool_room now;
    bool hope;

    for (;;) {
        pthread_mutex_unlock(&m->lock);
        uint64_t available = m->o.memory_bytes ? 0 : pools_machine_bytes("");
        int64_t t = clock_mono_ns();
        pthread_mutex_lock(&m->lock);
        if (look_for_room(m, &a, available, &now, &hope))
            break;
        if (!hope || t > end || m->stop || s->gone)
            return refuse_room(m, &a, &now, err);
        changed_wait(m, t + (int64_t)MODELS_ROOM_POLL_MS * 1000000);
    }
    p->used += bytes;
    meter_pools(m);
    return RC_OK;
}

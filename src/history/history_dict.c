/* SPDX-License-Identifier: MIT */
/* history_dict: which series an id is.
 *
 * Entries are appended to both copies at the same place, each with its checksum, and an id is
 * never given twice: so whatever is right in either copy is true, and a copy that is torn or
 * flipped is written anew from the other.  In memory lies a hash and a place for each; the labels
 * are read when somebody asks.  When a copy is full, series that were not seen longest go. */
#include "base/codec/crc32c.h"
#include "base/codec/fnv1a.h"
#include "base/mem.h"
#include "base/str.h"
#include "history/history_int.h"

#include <assert.h>
#include <string.h>

struct dict_entry {
    uint32_t magic, crc; /* of len bytes with crc 0 */
    uint64_t file_id;
    uint32_t len; /* with this head and the padding to 8 */
    uint32_t id;
    uint32_t generation; /* rises when the copy is written anew */
    uint32_t seen;       /* minutes since 1970, when it was written */
};
static_assert(sizeof(struct dict_entry) == 32, "as in docs/design/history-file.md");
enum { ENTRY_STEP = 8, TABLE_MIN = 256, ROOM_EVERY = 10 /* minutes */ };
/* Payload: u8 kind, u8 entity, u8 labels, u8 0, then metric, unit and the labels' names and
 * values, each with its NUL. */
enum { DEF_HEAD = 4 };

static uint64_t hash_str(uint64_t h, const char *s)
{
    return fnv1a_add(h, s, strlen(s) + 1);
}

uint32_t history_dict_metric_hash(const char *metric)
{
    uint64_t h = hash_str(FNV1A_START, metric);

    return (uint32_t)(h ^ h >> 32);
}

uint64_t history_dict_hash(const struct telemetry_series *s)
{
    uint64_t h = hash_str(FNV1A_START, s->metric->id);

    for (size_t i = 0; i < s->label_count; i++)
        h = hash_str(hash_str(h, s->labels[i].name), s->labels[i].value);
    return h;
}

/* ---- in memory */
static void table_add(struct history_dict *d, size_t item)
{
    size_t at = d->items[item].hash & (d->table_size - 1);

    while (d->table[at])
        at = (at + 1) & (d->table_size - 1);
    d->table[at] = (uint32_t)item + 1;
}

static void table_make(struct history_dict *d)
{
    size_t size = TABLE_MIN;

    while (size < 2 * (d->count + 1))
        size *= 2;
    free(d->table);
    d->table = xcalloc(size, sizeof(*d->table));
    d->table_size = size;
    for (size_t i = 0; i < d->count; i++)
        table_add(d, i);
}

static struct history_series *by_hash(struct history_dict *d, uint64_t hash)
{
    if (!d->table_size)
        return NULL;
    for (size_t at = hash & (d->table_size - 1); d->table[at]; at = (at + 1) & (d->table_size - 1))
        if (d->items[d->table[at] - 1].hash == hash)
            return &d->items[d->table[at] - 1];
    return NULL;
}

struct history_series *history_dict_find(struct history_dict *d, uint32_t id)
{
    size_t lo = 0, hi = d->count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (d->items[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->count && d->items[lo].id == id ? &d->items[lo] : NULL;
}

void history_dict_release(struct history_dict *d)
{
    free(d->items);
    free(d->table);
    *d = (struct history_dict){ 0 };
}

/* ---- entries */
static void put_text(struct buf *out, const char *s)
{
    buf_add(out, s ? s : "", s ? strlen(s) + 1 : 1);
}

static void make_entry(struct buf *out, const struct telemetry_series *s)
{
    const struct telemetry_metric *m = s->metric;
    struct dict_entry e = { 0 };

    buf_add(out, &e, sizeof(e));
    buf_addc(out, (char)m->kind);
    buf_addc(out, (char)m->entity);
    buf_addc(out, (char)s->label_count);
    buf_addc(out, 0);
    put_text(out, m->id);
    put_text(out, m->unit);
    for (size_t i = 0; i < s->label_count; i++) {
        put_text(out, s->labels[i].name);
        put_text(out, s->labels[i].value);
    }
    buf_fill(out, 0, -out->len & (ENTRY_STEP - 1));
}

static void seal_entry(const struct history *r, struct buf *bytes, uint32_t id, uint32_t seen)
{
    struct dict_entry e = { .magic = HISTORY_ENTRY_MAGIC,
                            .file_id = r->file.id,
                            .len = (uint32_t)bytes->len,
                            .id = id,
                            .generation = r->dict.generation,
                            .seen = seen };

    memcpy(bytes->data, &e, sizeof(e));
    e.crc = crc32c(0, bytes->data, bytes->len);
    memcpy(bytes->data, &e, sizeof(e));
}

/* The entry in p[0..room): its length, 0 when it is none. */
static uint32_t entry_good(const struct history *r, const char *p, size_t room,
                           struct dict_entry *e)
{
    struct dict_entry clean;
    uint32_t crc;

    if (room < sizeof(*e))
        return 0;
    memcpy(e, p, sizeof(*e));
    if (e->magic != HISTORY_ENTRY_MAGIC || e->file_id != r->file.id || e->len % ENTRY_STEP ||
        e->len < sizeof(*e) + DEF_HEAD || e->len > HISTORY_DEF_MAX || e->len > room || !e->id ||
        e->id == UINT32_MAX)
        return 0;
    clean = *e;
    clean.crc = 0;
    crc = crc32c(0, &clean, sizeof(clean));
    return crc32c(crc, p + sizeof(*e), e->len - sizeof(*e)) == e->crc ? e->len : 0;
}

/* The next NUL-terminated text of a definition; NULL: there is none. */
static const char *next_text(const char **p, const char *end)
{
    const char *s = *p, *nul = memchr(s, 0, (size_t)(end - s));

    if (!nul)
        return NULL;
    *p = nul + 1;
    return s;
}

/* From out->bytes[0..len), an entry. */
static bool parse_def(struct history_def *out, size_t len)
{
    const char *p = out->bytes + sizeof(struct dict_entry), *end = out->bytes + len, *id, *unit;
    unsigned kind = (uint8_t)p[0], entity = (uint8_t)p[1], labels = (uint8_t)p[2];

    p += DEF_HEAD;
    id = next_text(&p, end);
    unit = id ? next_text(&p, end) : NULL;
    if (!unit || kind > TELEMETRY_COUNTER || entity > TELEMETRY_APP ||
        labels > TELEMETRY_LABELS_MAX)
        return false;
    for (unsigned i = 0; i < labels; i++) {
        out->labels[i].name = next_text(&p, end);
        out->labels[i].value = out->labels[i].name ? next_text(&p, end) : NULL;
        if (!out->labels[i].value)
            return false;
    }
    out->foreign = (struct telemetry_metric){ .id = id,
                                              .kind = (enum telemetry_kind)kind,
                                              .entity = (enum telemetry_entity)entity,
                                              .unit = unit,
                                              .help = "",
                                              .scale = 1 };
    out->series = (struct telemetry_series){ .metric = telemetry_metric(id),
                                             .labels = out->labels,
                                             .label_count = labels };
    if (!out->series.metric)
        out->series.metric = &out->foreign;
    return true;
}

bool history_dict_def(struct history *r, const struct history_series *s, struct history_def *out)
{
    for (int copy = 0; copy < 2; copy++) {
        const struct history_area *a = &r->file.map.dict[copy];
        size_t room = a->size - s->at < HISTORY_DEF_MAX ? a->size - s->at : HISTORY_DEF_MAX;
        struct dict_entry e;

        if (history_file_get(&r->file, a->at + s->at, &e, sizeof(e)) && e.len <= room &&
            e.len >= sizeof(e) && history_file_get(&r->file, a->at + s->at, out->bytes, e.len) &&
            entry_good(r, out->bytes, e.len, &e) && e.id == s->id && parse_def(out, e.len))
            return true;
    }
    return false;
}

/* ---- both copies anew, one after the other, so that one is whole at any time */
static enum rc write_copies(struct history *r, const struct buf *bytes, struct err *err)
{
    for (int copy = 1; copy >= 0; copy--) {
        enum rc rc =
            history_file_put(&r->file, r->file.map.dict[copy].at, buf_str(bytes), bytes->len, err);

        if (!rc)
            rc = history_file_sync(&r->file, err);
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* `bytes` holds the entries of d->items in their order; all get a new generation. */
static enum rc write_anew(struct history *r, struct buf *bytes, struct err *err)
{
    struct history_dict *d = &r->dict;
    enum rc rc;

    for (size_t i = 0; i < d->count; i++) {
        struct buf one = { .data = bytes->data + d->items[i].at };
        struct dict_entry e;

        assert(bytes->data); /* it has what the items say */
        memcpy(&e, one.data, sizeof(e));
        one.len = e.len;
        seal_entry(r, &one, d->items[i].id, d->items[i].seen);
    }
    rc = write_copies(r, bytes, err);
    if (!rc)
        d->end = bytes->len;
    return rc;
}

/* ---- at the start */
struct dict_copy_loaded {
    struct history_series *items;
    size_t count, cap;
    uint32_t generation;
    uint64_t end;
    bool clean; /* nothing between the entries */
};

static void load_entry(struct dict_copy_loaded *l, const struct dict_entry *e, const char *p,
                       uint64_t at)
{
    struct history_def *def = xmalloc(sizeof(*def));

    memcpy(def->bytes, p, e->len);
    if (parse_def(def, e->len)) {
        VEC_GROW(l->items, l->count, l->cap);
        l->items[l->count++] =
            (struct history_series){ .hash = history_dict_hash(&def->series),
                                     .id = e->id,
                                     .at = (uint32_t)at,
                                     .metric = history_dict_metric_hash(def->series.metric->id),
                                     .seen = e->seen };
    } else {
        l->clean = false;
    }
    free(def);
}

/* Entries of the newest generation, and older ones that stand before its end (none, unless a copy
 * was torn). */
static void load_copy(const struct history *r, const char *p, size_t size,
                      struct dict_copy_loaded *l)
{
    struct dict_entry e;
    uint64_t at = 0, expect = 0;
    uint32_t len;

    *l = (struct dict_copy_loaded){ .clean = true };
    for (size_t i = 0; i + sizeof(e) <= size; i += len ? len : ENTRY_STEP) {
        len = entry_good(r, p + i, size - i, &e);
        if (len && e.generation >= l->generation) {
            l->generation = e.generation;
            l->end = i + len;
        }
    }
    while (at < l->end) {
        len = entry_good(r, p + at, l->end - at, &e);
        if (len && at != expect)
            l->clean = false;
        if (len && l->count < HISTORY_SERIES_MAX)
            load_entry(l, &e, p + at, at);
        at += len ? len : ENTRY_STEP;
        expect = len ? at : expect;
    }
}

static int by_id(const void *a, const void *b)
{
    const struct history_series *p = a, *q = b;

    return p->id < q->id ? -1 : p->id > q->id;
}

static bool same_copies(const struct dict_copy_loaded *a, const struct dict_copy_loaded *b)
{
    return a->clean && b->clean && a->generation == b->generation && a->end == b->end &&
           a->count == b->count &&
           (!a->count || !memcmp(a->items, b->items, a->count * sizeof(*a->items)));
}

/* What either has, packed into `out`, ids rising; places are those in `out` then. */
static void unite_copies(struct history *r, const struct dict_copy_loaded l[2],
                         const char *const p[2], struct buf *out)
{
    struct history_dict *d = &r->dict;

    for (int copy = 0; copy < 2; copy++) {
        for (size_t i = 0; i < l[copy].count; i++) {
            struct history_series s = l[copy].items[i];
            struct dict_entry e;

            assert(p[copy]);
            memcpy(&e, p[copy] + s.at, sizeof(e));
            if (d->count == HISTORY_SERIES_MAX || out->len + e.len > r->file.map.dict[0].size)
                break;
            /* few are missing: what the other copy has is looked up one by one */
            if (copy && l[0].count && bsearch(&s, l[0].items, l[0].count, sizeof(s), by_id))
                continue;
            buf_add(out, p[copy] + s.at, e.len);
            s.at = (uint32_t)(out->len - e.len);
            VEC_GROW(d->items, d->count, d->cap);
            d->items[d->count++] = s;
        }
    }
    if (d->count)
        qsort(d->items, d->count, sizeof(*d->items), by_id);
}

static enum rc load_both(struct history *r, const char *const p[2], struct err *err)
{
    struct history_dict *d = &r->dict;
    struct buf bytes = { 0 };
    struct dict_copy_loaded l[2];
    enum rc rc = RC_OK;

    for (int i = 0; i < 2; i++) {
        load_copy(r, p[i], r->file.map.dict[i].size, &l[i]);
        if (l[i].count)
            qsort(l[i].items, l[i].count, sizeof(*l[i].items), by_id);
    }
    d->generation = l[l[1].generation > l[0].generation].generation;
    if (same_copies(&l[0], &l[1])) {
        d->items = l[0].items;
        d->count = l[0].count;
        d->cap = l[0].cap;
        d->end = l[0].end;
        l[0].items = NULL;
    } else {
        r->bad_blocks++;
        unite_copies(r, l, p, &bytes);
        d->generation++;
        rc = write_anew(r, &bytes, err);
    }
    d->next_id = d->count ? d->items[d->count - 1].id + 1 : 1;
    table_make(d);
    free(l[0].items);
    free(l[1].items);
    buf_release(&bytes);
    return rc;
}

enum rc history_dict_load(struct history *r, struct err *err)
{
    size_t size = r->file.map.dict[0].size;
    char *p[2] = { xcalloc(1, size), xcalloc(1, size) };
    enum rc rc;

    for (int i = 0; i < 2; i++)
        if (!history_file_get(&r->file, r->file.map.dict[i].at, p[i], size))
            memset(p[i], 0, size); /* unreadable: as if it were empty */
    rc = load_both(r, (const char *const *)p, err);
    free(p[0]);
    free(p[1]);
    return rc;
}

/* ---- new series */
static int by_seen(const void *a, const void *b)
{
    const struct history_series *p = a, *q = b;

    if (p->seen != q->seen)
        return p->seen < q->seen ? 1 : -1; /* latest first */
    return p->id < q->id ? 1 : -1;
}

void history_dict_seen(struct history *r, uint32_t minute)
{
    for (size_t i = 0; i < r->rows.slots; i++) {
        struct history_series *s = history_dict_find(&r->dict, r->rows.ids[i]);

        if (s)
            s->seen = minute;
    }
}

/* Of items by_seen those that are kept, with their entries in `bytes`; how many. */
static size_t keep_seen(struct history *r, struct history_series *items, size_t count,
                        uint32_t minute, struct buf *bytes)
{
    uint64_t room = r->file.map.dict[0].size / 4 * 3;
    struct history_def *def = xmalloc(sizeof(*def));
    size_t keep = 0;

    for (size_t i = 0; i < count; i++) {
        struct history_series s = items[i];
        struct dict_entry e;

        if (!history_dict_def(r, &s, def))
            continue;
        memcpy(&e, def->bytes, sizeof(e));
        if (s.seen != minute && (bytes->len + e.len > room || keep >= HISTORY_SERIES_MAX / 4 * 3))
            continue;
        s.at = (uint32_t)bytes->len;
        buf_add(bytes, def->bytes, e.len);
        items[keep++] = s;
    }
    free(def);
    return keep;
}

/* Keeps the series seen latest, up to three quarters of what there is room for; those in use
 * stay.  When it cannot be written all is as before. */
static enum rc make_room(struct history *r, uint32_t minute, struct err *err)
{
    struct history_dict *d = &r->dict, old = *d;
    struct buf bytes = { 0 };
    enum rc rc;

    history_dict_seen(r, minute);
    d->items = xcalloc(d->count, sizeof(*d->items));
    d->cap = d->count;
    memcpy(d->items, old.items, d->count * sizeof(*d->items));
    qsort(d->items, d->count, sizeof(*d->items), by_seen);
    d->count = keep_seen(r, d->items, d->count, minute, &bytes);
    qsort(d->items, d->count, sizeof(*d->items), by_id);
    d->generation++;
    rc = write_anew(r, &bytes, err);
    buf_release(&bytes);
    if (rc) {
        free(d->items);
        old.generation = d->generation;
        *d = old;
        return rc;
    }
    free(old.items);
    d->forgotten += old.count - d->count;
    table_make(d);
    history_forget_map(r);
    return RC_OK;
}

static bool entry_fits(const struct history *r, size_t len)
{
    return r->dict.end + len <= r->file.map.dict[0].size && r->dict.count < HISTORY_SERIES_MAX &&
           r->dict.next_id < UINT32_MAX - 1;
}

static enum rc add_entry(struct history *r, const struct telemetry_series *s, struct buf *bytes,
                         uint32_t minute, struct err *err)
{
    struct history_dict *d = &r->dict;
    struct history_series item = { .hash = history_dict_hash(s),
                                   .id = d->next_id,
                                   .at = (uint32_t)d->end,
                                   .metric = history_dict_metric_hash(s->metric->id),
                                   .seen = minute };

    seal_entry(r, bytes, item.id, minute);
    for (int copy = 0; copy < 2; copy++) {
        enum rc rc = history_file_put(&r->file, r->file.map.dict[copy].at + d->end, bytes->data,
                                      bytes->len, err);

        if (rc)
            return rc;
    }
    pthread_mutex_lock(&r->lock);
    VEC_GROW(d->items, d->count, d->cap);
    d->items[d->count++] = item;
    if (2 * (d->count + 1) > d->table_size)
        table_make(d);
    else
        table_add(d, d->count - 1);
    d->next_id++;
    d->end += bytes->len;
    pthread_mutex_unlock(&r->lock);
    return RC_OK;
}

enum rc history_dict_id(struct history *r, const struct telemetry_series *s, uint32_t minute,
                        uint32_t *id, struct err *err)
{
    struct history_series *known = by_hash(&r->dict, history_dict_hash(s));
    struct buf bytes = { 0 };
    enum rc rc = RC_OK;

    *id = 0;
    if (known) {
        pthread_mutex_lock(&r->lock);
        known->seen = minute;
        pthread_mutex_unlock(&r->lock);
        *id = known->id;
        return RC_OK;
    }
    make_entry(&bytes, s);
    if (bytes.len <= HISTORY_DEF_MAX && !entry_fits(r, bytes.len) && r->dict.count &&
        minute / ROOM_EVERY != r->dict.room_at) {
        r->dict.room_at = minute / ROOM_EVERY; /* it costs a little: not for every series */
        pthread_mutex_lock(&r->lock);
        rc = make_room(r, minute, err);
        pthread_mutex_unlock(&r->lock);
    }
    if (!rc && bytes.len <= HISTORY_DEF_MAX && entry_fits(r, bytes.len)) {
        *id = r->dict.next_id;
        rc = add_entry(r, s, &bytes, minute, err);
    } else {
        r->dict.refused++;
    }
    buf_release(&bytes);
    return rc;
}

uint64_t history_refused(const struct history *r)
{
    return r->dict.refused;
}

enum rc history_dict_copy(struct history *from, struct history *to, struct err *err)
{
    struct history_dict *d = &to->dict;
    uint64_t room = to->file.map.dict[0].size / 4 * 3;
    struct history_def *def = xmalloc(sizeof(*def));
    struct buf bytes = { 0 };
    enum rc rc;

    for (size_t i = from->dict.count; i-- > 0;) { /* the newest, where not all fit */
        struct history_series s = from->dict.items[i];
        struct dict_entry e;

        if (!history_dict_def(from, &s, def))
            continue;
        memcpy(&e, def->bytes, sizeof(e));
        if (bytes.len + e.len > room)
            break;
        s.at = (uint32_t)bytes.len;
        buf_add(&bytes, def->bytes, e.len);
        VEC_GROW(d->items, d->count, d->cap);
        d->items[d->count++] = s;
    }
    free(def);
    if (d->count)
        qsort(d->items, d->count, sizeof(*d->items), by_id);
    d->next_id = from->dict.next_id;
    d->generation = from->dict.generation + 1;
    table_make(d);
    rc = write_anew(to, &bytes, err);
    buf_release(&bytes);
    return rc;
}

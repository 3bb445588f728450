/* SPDX-License-Identifier: MIT */
/* history: opening, appending, closing, and with it the order of writes and syncs.
 *
 * An append writes a record into the log and syncs: that is the promise.  Now and then, before
 * it: new series go into the dictionary (the same sync covers them, and a record whose series are
 * not known leaves them out); the rows of the log become a block, which is synced before the
 * other half of the log is begun; an hour of blocks becomes minutes, synced before the area of
 * seconds may come round to them.  When a write fails, the append fails and all is as it was. */
#include "base/mem.h"
#include "base/str.h"
#include "history/history_int.h"
#include "os/file.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HISTORY_DAMAGED_MAX = 4 }; /* damaged histories kept beside the one in use */

/* ---- rows in no block yet */
void history_rows_reset(struct history *r, size_t want_slots)
{
    struct history_rows *rows = &r->rows;
    size_t slots = want_slots + want_slots / 8 + 64, most = r->file.map.seconds.size / 8;

    slots = slots < TELEMETRY_SERIES_MAX ? slots : TELEMETRY_SERIES_MAX;
    most = most < HISTORY_HEAD_MAX ? most : HISTORY_HEAD_MAX;
    pthread_mutex_lock(&r->lock);
    if (rows->slot_cap < slots || rows->slot_cap > 2 * slots) {
        size_t cap = most / (slots * sizeof(double));

        rows->rows_cap = cap < HISTORY_ROWS_MIN   ? HISTORY_ROWS_MIN
                         : cap > HISTORY_ROWS_MAX ? HISTORY_ROWS_MAX
                                                  : cap;
        rows->slot_cap = slots;
        free(rows->values);
        rows->values = xcalloc(rows->rows_cap * slots, sizeof(*rows->values));
        rows->ids = xreallocarray(rows->ids, slots, sizeof(*rows->ids));
        r->row = xreallocarray(r->row, slots, sizeof(*r->row));
        r->log.key = xreallocarray(r->log.key, slots, sizeof(*r->log.key));
        if (!rows->times)
            rows->times = xcalloc(HISTORY_ROWS_MAX, sizeof(*rows->times));
    }
    rows->rows = rows->slots = 0;
    rows->seq = r->next_seq;
    pthread_mutex_unlock(&r->lock);
    if (r->slots)
        memset(r->slots, 0, r->map_cap * sizeof(*r->slots));
    r->search = false;
    r->log.key_seq = 0;
}

struct slot_of {
    uint32_t id, slot;
};

static int by_id(const void *a, const void *b)
{
    const struct slot_of *p = a, *q = b;

    return p->id < q->id ? -1 : p->id > q->id;
}

static void make_block(struct history *r, struct history_making *m)
{
    const struct history_rows *rows = &r->rows;
    struct slot_of *order = xcalloc(rows->slots, sizeof(*order));
    double column[HISTORY_ROWS_MAX];

    history_making_begin(m, rows->seq, rows->seq + rows->rows - 1);
    history_making_times(m, rows->times, rows->rows);
    for (size_t i = 0; i < rows->slots; i++)
        order[i] = (struct slot_of){ rows->ids[i], (uint32_t)i };
    if (rows->slots)
        qsort(order, rows->slots, sizeof(*order), by_id);
    for (size_t i = 0; i < rows->slots; i++) {
        bool any = false;

        if (i && order[i].id == order[i - 1].id)
            continue;
        for (size_t j = 0; j < rows->rows; j++) {
            column[j] = rows->values[j * rows->slot_cap + order[i].slot];
            any = any || !isnan(column[j]);
        }
        if (!any || !history_dict_find(&r->dict, order[i].id))
            continue;
        history_making_chunk(m, order[i].id);
        history_code_put(&m->chunks, column, rows->rows);
        history_making_chunk_end(m);
    }
    m->block.id_lo = m->count ? m->dir[0].id : 0;
    m->block.id_hi = m->count ? m->dir[m->count - 1].id : 0;
    free(order);
}

/* Blocks that are no minutes yet may fill half of the area of seconds; then they are made. */
static enum rc keep_minutes(struct history *r, struct err *err)
{
    const struct history_index *x = &r->seconds;
    uint64_t pages = 0, newest = 0;

    for (size_t i = 0; i < x->count; i++) {
        const struct history_block *b = &x->items[x->first + i];

        if (b->seq_last > r->minuted)
            pages += b->pages;
        newest = b->seq_last;
    }
    return pages * HISTORY_PAGE > x->area.size / 3 ? history_fold_until(r, newest, err) : RC_OK;
}

enum rc history_fold_rows(struct history *r, struct err *err)
{
    size_t slots = r->rows.slots;
    struct history_making m;
    enum rc rc;

    if (!r->rows.rows)
        return RC_OK;
    rc = keep_minutes(r, err);
    if (rc)
        return rc;
    make_block(r, &m);
    rc = history_block_write(r, &r->seconds, &m, err);
    if (!rc)
        rc = history_file_sync(&r->file, err);
    if (!rc) {
        /* readers see the rows in one place: the block, then no rows */
        pthread_mutex_lock(&r->lock);
        history_dict_seen(r, (uint32_t)(r->last_ns / HISTORY_MINUTE));
        r->rows.rows = 0;
        r->folded = m.block.seq_last;
        history_block_add_locked(&r->seconds, &m.block);
        pthread_mutex_unlock(&r->lock);
        r->fold.look = true;
        r->log.half = !r->log.half;
        r->log.end = 0;
        history_rows_reset(r, slots);
    }
    history_making_release(&m);
    return rc;
}

/* ---- a row of a table */
void history_forget_map(struct history *r)
{
    if (r->ids)
        memset(r->ids, 0, r->map_cap * sizeof(*r->ids));
}

/* The last series that stays: those that pass change under their ids. */
static const struct telemetry_series *last_fixed(const struct telemetry *t, size_t count)
{
    while (count > 1 && telemetry_passes(telemetry_get(t, (uint32_t)count - 1)->metric))
        count--;
    return count ? telemetry_get(t, (uint32_t)count - 1) : NULL;
}

/* Its address is not enough: a table may lie where another lay. */
static bool same_table(const struct history *r, const struct telemetry *t, size_t count)
{
    const struct telemetry_series *first, *last;

    if (r->table != t || count < r->table_count)
        return false;
    if (!r->table_count)
        return true;
    first = telemetry_get(t, 0);
    last = last_fixed(t, r->table_count);
    return first && last &&
           r->table_hash == (history_dict_hash(first) ^ history_dict_hash(last) << 1);
}

/* Ids that were given to other series: these have ids of the dictionary of their own. */
static void map_renewed(struct history *r, const struct telemetry *t, size_t count)
{
    r->renewed = telemetry_renewed(t);
    for (size_t i = 0; i < count; i++) {
        uint32_t generation = telemetry_generation(t, (uint32_t)i);

        if (r->generation[i] == generation)
            continue;
        r->generation[i] = generation;
        r->ids[i] = r->slots[i] = 0;
    }
}

static void map_table(struct history *r, const struct telemetry *t, size_t count)
{
    const struct telemetry_series *first, *last;

    if (!same_table(r, t, count)) {
        history_forget_map(r);
        if (r->slots)
            memset(r->slots, 0, r->map_cap * sizeof(*r->slots));
        r->search = true;
        r->table = t;
        r->renewed = telemetry_renewed(t);
        for (size_t i = 0; i < r->map_cap && i < count; i++)
            r->generation[i] = telemetry_generation(t, (uint32_t)i);
    }
    if (r->table_count != count || r->search) {
        first = count ? telemetry_get(t, 0) : NULL;
        last = last_fixed(t, count);
        r->table_hash = first && last ? history_dict_hash(first) ^ history_dict_hash(last) << 1 : 0;
        r->table_count = count;
    }
    if (count > r->map_cap) {
        size_t cap = count + count / 4 + 64;

        r->ids = xreallocarray(r->ids, cap, sizeof(*r->ids));
        r->slots = xreallocarray(r->slots, cap, sizeof(*r->slots));
        r->keep = xreallocarray(r->keep, cap, sizeof(*r->keep));
        r->generation = xreallocarray(r->generation, cap, sizeof(*r->generation));
        for (size_t i = r->map_cap; i < cap; i++)
            r->generation[i] = telemetry_generation(t, (uint32_t)i);
        memset(r->ids + r->map_cap, 0, (cap - r->map_cap) * sizeof(*r->ids));
        memset(r->slots + r->map_cap, 0, (cap - r->map_cap) * sizeof(*r->slots));
        r->map_cap = cap;
    }
    if (r->renewed != telemetry_renewed(t))
        map_renewed(r, t, count);
}

/* Counters, points in time and what applications measure are kept to the last bit. */
enum { KEEP_EXACT, KEEP_ROUNDED, KEEP_DURATION };
#define DURATION_MAX 1e6 /* seconds: a larger gauge of them is a point in time */

static uint8_t keep_how(const struct telemetry_metric *m)
{
    if (m->kind == TELEMETRY_COUNTER || m->entity == TELEMETRY_APP)
        return KEEP_EXACT;
    return m->unit && str_eq(m->unit, "s") ? KEEP_DURATION : KEEP_ROUNDED;
}

static double keep_value(double v, uint8_t how)
{
    return how == KEEP_EXACT || (how == KEEP_DURATION && v >= DURATION_MAX) ? v : history_round(v);
}

static enum rc map_series(struct history *r, struct telemetry *t, size_t i, int64_t time_ns,
                          struct err *err)
{
    const struct telemetry_series *s = telemetry_get(t, (uint32_t)i);
    uint32_t id = 0;
    enum rc rc = RC_OK;

    if (s)
        rc = history_dict_id(r, s, (uint32_t)(time_ns / HISTORY_MINUTE), &id, err);
    if (rc)
        return rc;
    r->ids[i] = id ? id : UINT32_MAX;
    r->keep[i] = s ? keep_how(s->metric) : KEEP_EXACT;
    return RC_OK;
}

/* The slot of series i, a new one where it has none; false: there is no room. */
static bool map_slot(struct history *r, size_t i)
{
    struct history_rows *rows = &r->rows;
    size_t slot = rows->slots;

    if (r->search || r->generation[i]) /* a series that passed may have come back */
        for (slot = 0; slot < rows->slots && rows->ids[slot] != r->ids[i]; slot++)
            ;
    if (slot == rows->slot_cap)
        return false;
    if (slot == rows->slots) {
        pthread_mutex_lock(&r->lock);
        for (size_t j = 0; j < rows->rows; j++)
            rows->values[j * rows->slot_cap + slot] = NAN;
        rows->ids[rows->slots++] = r->ids[i];
        pthread_mutex_unlock(&r->lock);
        r->row[slot] = NAN;
    }
    r->slots[i] = (uint32_t)slot + 1;
    return true;
}

/* The values into r->row; *full: there are more series than slots. */
static enum rc make_row(struct history *r, struct telemetry *t, int64_t time_ns,
                        const double *values, size_t count, bool *full, struct err *err)
{
    *full = false;
    for (size_t i = 0; i < r->rows.slots; i++)
        r->row[i] = NAN;
    for (size_t i = 0; i < count; i++) {
        enum rc rc;

        if (isnan(values[i]))
            continue;
        if (!r->ids[i] && (rc = map_series(r, t, i, time_ns, err)))
            return rc;
        if (r->ids[i] == UINT32_MAX)
            continue;
        if (!r->slots[i] && !map_slot(r, i)) {
            *full = true;
            return RC_OK;
        }
        r->row[r->slots[i] - 1] = keep_value(values[i], r->keep[i]);
    }
    return RC_OK;
}

static void keep_row(struct history *r, int64_t time_ns)
{
    struct history_rows *rows = &r->rows;

    pthread_mutex_lock(&r->lock);
    if (!rows->rows)
        rows->seq = r->next_seq;
    memcpy(rows->values + rows->rows * rows->slot_cap, r->row, rows->slots * sizeof(*r->row));
    rows->times[rows->rows++] = time_ns;
    r->next_seq++;
    r->last_ns = time_ns;
    pthread_mutex_unlock(&r->lock);
}

/* A row into the log; *full: it has no room, rows or slots, before a block is made. */
static enum rc try_row(struct history *r, struct telemetry *t, int64_t time_ns,
                       const double *values, size_t count, bool *full, struct err *err)
{
    enum rc rc = make_row(r, t, time_ns, values, count, full, err);

    if (!rc && !*full)
        rc = history_log_put(r, time_ns, r->row, full, err);
    if (!rc && !*full)
        keep_row(r, time_ns);
    return rc;
}

static bool block_ends(const struct history *r, int64_t time_ns)
{
    return r->rows.rows && (r->rows.rows == r->rows.rows_cap || time_ns < r->last_ns ||
                            time_ns - r->last_ns > HISTORY_GAP_NS);
}

static enum rc append_row(struct history *r, struct telemetry *t, int64_t time_ns,
                          const double *values, size_t count, struct err *err)
{
    struct err why = { 0 };
    enum rc rc = RC_OK;
    bool full = false;

    map_table(r, t, count);
    if (block_ends(r, time_ns))
        rc = history_fold_rows(r, err);
    if (!rc)
        rc = history_fold_turn(r, err);
    if (!rc && !r->rows.rows && count > r->rows.slot_cap)
        history_rows_reset(r, count);
    for (int tries = 0; tries < 2 && !rc; tries++) {
        why = (struct err){ 0 };
        rc = try_row(r, t, time_ns, values, count, &full, &why);
        if (!full || tries)
            break;
        rc = history_fold_rows(r, err); /* once more, with an empty block */
        history_rows_reset(r, count > r->rows.slots ? count : r->rows.slots);
    }
    if (!rc && full)
        rc = err_set(&why, RC_LIMIT, "%zu series are too many for a second", count);
    if (rc && why.code)
        *err = why;
    return rc;
}

enum rc history_append(struct history *r, struct telemetry *t, int64_t time_ns,
                       const double *values, size_t count, struct err *err)
{
    struct err own = { 0 };
    enum rc rc;

    if (count > TELEMETRY_SERIES_MAX || time_ns <= -HISTORY_TIME_MAX || time_ns >= HISTORY_TIME_MAX)
        return err_set(err, RC_USAGE, "a second of %zu series at %lld ns is not one", count,
                       (long long)time_ns);
    pthread_mutex_lock(&r->writer);
    rc = append_row(r, t, time_ns, values, count, err ? err : &own);
    pthread_mutex_unlock(&r->writer);
    return rc;
}

/* ---- opening */
static void history_init(struct history *r)
{
    pthread_mutex_init(&r->writer, NULL);
    pthread_mutex_init(&r->lock, NULL);
    r->next_seq = 1;
    r->seconds = (struct history_index){ .area = r->file.map.seconds, .kind = HISTORY_SECONDS };
    r->minutes = (struct history_index){ .area = r->file.map.minutes, .kind = HISTORY_MINUTES };
    history_rows_reset(r, 0);
}

/* Rows of the newest block may be in the log still: when it is torn they are taken from there.
 * Returns whether *torn is one. */
static bool distrust_newest(struct history *r, struct history_block *torn)
{
    struct history_index *x = &r->seconds;
    bool is_torn = false;

    if (x->count && !history_block_whole(r, x, &x->items[x->first + x->count - 1])) {
        is_torn = true;
        r->bad_blocks++;
        *torn = x->items[x->first + x->count - 1];
        history_index_drop_newest(r, x);
    }
    if (x->count)
        r->folded = x->items[x->first + x->count - 1].seq_last;
    for (size_t i = 0; i < x->count; i++) {
        const struct history_block *b = &x->items[x->first + i];

        if (b->id_hi < UINT32_MAX - 1 && b->id_hi >= r->dict.next_id)
            r->dict.next_id = b->id_hi + 1;
    }
    r->next_seq = r->folded + 1;
    return is_torn;
}

/* The log had nothing of it: what is right in it is read. */
static void log_retrust(struct history *r, const struct history_block *torn)
{
    if (r->seconds.next_page != torn->page || (r->rows.rows && r->rows.seq <= torn->seq_last))
        return;
    history_block_add(r, &r->seconds, torn);
    r->folded = torn->seq_last;
    if (r->next_seq <= r->folded)
        r->next_seq = r->folded + 1;
}

static enum rc load_parts(struct history *r, struct err *err)
{
    struct history_block torn;
    bool is_torn;
    enum rc rc;

    history_init(r);
    rc = history_dict_load(r, err);
    if (rc)
        return rc;
    history_block_scan(r, &r->seconds);
    history_block_scan(r, &r->minutes);
    history_fold_resume(r);
    is_torn = distrust_newest(r, &torn);
    history_events_load(r);
    rc = history_log_recover(r, r->folded, err);
    if (!rc && is_torn)
        log_retrust(r, &torn);
    if (r->next_seq <= r->minuted)
        r->next_seq = r->minuted + 1;
    if (!r->rows.rows)
        r->rows.seq = r->next_seq;
    r->search = true;
    return rc;
}

static void history_release(struct history *r)
{
    history_file_close(&r->file);
    history_dict_release(&r->dict);
    free(r->seconds.items);
    free(r->minutes.items);
    free(r->rows.values);
    free(r->rows.times);
    free(r->rows.ids);
    free(r->log.key);
    buf_release(&r->log.record);
    free(r->ids);
    free(r->slots);
    free(r->keep);
    free(r->generation);
    free(r->row);
    free(r->moved);
    pthread_mutex_destroy(&r->writer);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void history_close(struct history *r)
{
    if (r)
        history_release(r);
}

static enum rc make_file(const struct history_opts *o, const struct history_io *io,
                         struct history **out, struct err *err)
{
    struct history *r = xcalloc(1, sizeof(*r));
    enum rc rc = history_file_make(&r->file, o, io, 0, err);

    if (!rc)
        rc = history_file_publish(&r->file, err);
    if (rc) {
        history_file_discard(&r->file);
        free(r);
        return rc;
    }
    rc = load_parts(r, err);
    if (rc) {
        history_release(r);
        return rc;
    }
    *out = r;
    return RC_OK;
}

/* What `from` holds, as far as there is room. */
static enum rc copy_all(struct history *from, struct history *to, struct err *err)
{
    enum rc rc = history_dict_copy(from, to, err);

    if (!rc)
        rc = history_index_copy(from, &from->seconds, to, &to->seconds, err);
    if (!rc)
        rc = history_index_copy(from, &from->minutes, to, &to->minutes, err);
    return rc ? rc : history_events_copy(from, to, err);
}

/* A file of another size beside it, which takes its place.  Where there is no room for that the
 * old one stays in use. */
static enum rc remake_file(struct history **io_ring, const struct history_opts *o,
                           const struct history_io *io, struct err *err)
{
    struct history *from = *io_ring, *to = xcalloc(1, sizeof(*to));
    struct history_stats was;
    struct err own = { 0 };
    enum rc rc = history_fold_rows(from, err);

    if (rc) {
        free(to);
        return rc;
    }
    rc = history_file_make(&to->file, o, io, from->file.id, &own);
    if (!rc) {
        history_init(to);
        rc = copy_all(from, to, &own);
    }
    if (!rc)
        rc = history_file_publish(&to->file, &own);
    if (rc) {
        history_file_unlink(&to->file);
        if (to->rows.values) {
            history_release(to);
        } else {
            history_file_close(&to->file);
            free(to);
        }
        if (rc == RC_LIMIT)
            return RC_OK;
        if (err)
            *err = own;
        return rc;
    }
    was = (struct history_stats){ .bad_blocks = from->bad_blocks,
                                  .cut_bytes = from->file.cut_bytes,
                                  .cut_of = from->file.cut_of };
    history_release(from);
    *io_ring = NULL;
    /* read anew what was written: one way in */
    history_release(to);
    rc = history_open_io(o, io, io_ring, err);
    if (!rc) { /* what was lost is told, though the new file is whole */
        (*io_ring)->bad_blocks += was.bad_blocks;
        (*io_ring)->file.cut_bytes = was.cut_bytes;
        (*io_ring)->file.cut_of = was.cut_of;
    }
    return rc;
}

static bool other_size(const struct history *r, const struct history_opts *o)
{
    uint64_t bytes = (o->bytes ? o->bytes : HISTORY_BYTES_DEFAULT) & ~(uint64_t)(HISTORY_PAGE - 1);

    return r->file.bytes != bytes || (o->minute_pct && r->file.minute_pct != o->minute_pct);
}

static bool is_missing_or_empty(const char *path)
{
    struct stat st;

    return stat(path, &st) || (S_ISREG(st.st_mode) && !st.st_size);
}

const char *history_moved(const struct history *r)
{
    return r->moved;
}

enum rc history_here(const struct history *r, struct err *err)
{
    return history_file_here(&r->file, err);
}

/* FILE.damaged, FILE.damaged.1 … the last of them is written over. */
static char *move_aside(const char *path, struct err *err)
{
    char to[FILE_PATH_MAX];

    for (int i = 0; i < HISTORY_DAMAGED_MAX; i++) {
        int n = i ? snprintf(to, sizeof(to), "%s.damaged.%d", path, i)
                  : snprintf(to, sizeof(to), "%s.damaged", path);

        if (n >= (int)sizeof(to)) {
            (void)err_set(err, RC_LIMIT, "path of history '%.80s...' is too long", path);
            return NULL;
        }
        if (access(to, F_OK) || i + 1 == HISTORY_DAMAGED_MAX)
            break;
    }
    if (!rename(path, to))
        return xstrdup(to);
    (void)err_sys(err, "could not move the damaged history '%s' aside", path);
    return NULL;
}

static enum rc make_beside(const struct history_opts *o, const struct history_io *io,
                           struct history **out, struct err *err)
{
    struct err why = { 0 }, both = { 0 };
    char *to = move_aside(o->path, &why);
    enum rc rc = to ? make_file(o, io, out, &why) : why.code;

    if (rc && to)
        (void)err_set(&both, rc, "%s; the head of the one before was damaged: it is '%s' now",
                      why.msg, to);
    if (rc) {
        *err = to ? both : why;
        free(to);
        return rc;
    }
    (*out)->moved = to;
    return RC_OK;
}

enum rc history_open_io(const struct history_opts *o, const struct history_io *io,
                        struct history **out, struct err *err)
{
    struct err own = { 0 };
    struct history *r;
    enum rc rc;

    err = err ? err : &own;
    if (is_missing_or_empty(o->path))
        return make_file(o, io, out, err);
    r = xcalloc(1, sizeof(*r));
    rc = history_file_open(&r->file, o, io, err);
    if (rc) {
        history_file_close(&r->file);
        free(r);
        return rc == RC_PARSE && o->move_damaged && history_file_damaged(o->path)
                   ? make_beside(o, io, out, err)
                   : rc;
    }
    rc = load_parts(r, err);
    if (!rc && other_size(r, o))
        rc = remake_file(&r, o, io, err);
    if (rc) {
        history_close(r);
        return rc;
    }
    *out = r;
    return RC_OK;
}

enum rc history_open(const struct history_opts *o, struct history **out, struct err *err)
{
    return history_open_io(o, NULL, out, err);
}

void history_stats(struct history *r, struct history_stats *out)
{
    const struct history_index *areas[] = { &r->seconds, &r->minutes };
    struct history_stats s = { .bytes = r->file.bytes };

    pthread_mutex_lock(&r->lock);
    for (size_t a = 0; a < ARRAY_SIZE(areas); a++) {
        const struct history_index *x = areas[a];

        for (size_t i = 0; i < x->count; i++) {
            const struct history_block *b = &x->items[x->first + i];
            int64_t *oldest = a ? &s.oldest_minute_ns : &s.oldest_ns;

            s.used += (uint64_t)b->pages * HISTORY_PAGE;
            s.samples += a ? 0 : (uint64_t)b->rows * b->series;
            s.newest_ns = b->last_ns > s.newest_ns ? b->last_ns : s.newest_ns;
            if (!*oldest || b->first_ns < *oldest)
                *oldest = b->first_ns;
        }
        s.blocks += x->count;
    }
    for (size_t i = 0; i < r->rows.rows; i++) {
        int64_t t = r->rows.times[i];

        s.oldest_ns = !s.oldest_ns || t < s.oldest_ns ? t : s.oldest_ns;
        s.newest_ns = t > s.newest_ns ? t : s.newest_ns;
    }
    s.samples += r->rows.rows * r->rows.slots;
    s.bad_blocks = r->bad_blocks;
    s.cut_bytes = r->file.cut_bytes;
    s.cut_of = r->file.cut_of;
    pthread_mutex_unlock(&r->lock);
    *out = s;
}

/* SPDX-License-Identifier: MIT */
/* history_minute: minutes made from blocks of seconds.
 *
 * Nothing of it is kept in memory while seconds come in: when an hour of rows lies in blocks,
 * they are read again, some series at a time, and become blocks of minutes, one at most with each
 * append so that none is late.  What was begun before a crash goes on with the next series.  A
 * minute that an hour's end cuts in two is two rows, which a query puts together. */
#include "base/mem.h"
#include "history/history_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A chunk: u8 flags, then columns: count of all rows, and of those that are not 0: last, and min,
 * max and mean where they are not the same as last.  Of a counter there is no mean. */
enum { MIN_SAME = 1, MAX_SAME = 2, MEAN_SAME = 4, NO_MEAN = 8, MINUTE_FLAGS = 15 };
enum { CELL_BYTES = 128 }; /* a minute of a series at its worst */

int64_t history_minute_of(int64_t t)
{
    int64_t rest = t % HISTORY_MINUTE;

    return t - (rest < 0 ? rest + HISTORY_MINUTE : rest);
}

void history_minutes_alloc(struct history_minutes *m, size_t rows)
{
    m->last = xcalloc(rows * 5, sizeof(double));
    m->min = m->last + rows;
    m->max = m->min + rows;
    m->mean = m->max + rows;
    m->count = m->mean + rows;
}

/* ---- a chunk */
static bool get_column(const uint8_t **p, const uint8_t *end, double *v, const double *count,
                       size_t known, size_t rows)
{
    size_t used = history_code_get(*p, (size_t)(end - *p), v, known);

    *p += used;
    for (size_t i = rows; used && i-- > 0;)
        v[i] = count[i] > 0 ? v[--known] : NAN;
    return used;
}

bool history_minutes_get(const uint8_t *p, size_t len, size_t rows, struct history_minutes *out)
{
    double *const columns[] = { out->min, out->max, out->mean };
    const uint8_t *end = p + len;
    size_t known = 0, used;
    unsigned flags;

    if (!len || (*p & ~(unsigned)MINUTE_FLAGS))
        return false;
    flags = *p++;
    used = history_code_get(p, (size_t)(end - p), out->count, rows);
    p += used;
    for (size_t i = 0; i < rows; i++) {
        if (!used || !(out->count[i] >= 0 && out->count[i] <= UINT32_MAX))
            return false;
        known += out->count[i] > 0;
    }
    if (!known || !get_column(&p, end, out->last, out->count, known, rows))
        return false;
    for (unsigned i = 0; i < ARRAY_SIZE(columns); i++) {
        if (flags & (1u << i))
            memcpy(columns[i], out->last, rows * sizeof(double));
        else if (i == 2 && (flags & NO_MEAN))
            for (size_t j = 0; j < rows; j++)
                out->mean[j] = out->min[j] / 2 + out->max[j] / 2;
        else if (!get_column(&p, end, columns[i], out->count, known, rows))
            return false;
    }
    return true;
}

static void put_minutes(struct buf *out, struct history_minutes *m, size_t rows, bool counter)
{
    double *const columns[] = { m->last, m->min, m->max, m->mean };
    unsigned flags = counter ? NO_MEAN : 0;
    size_t known = 0;

    for (size_t i = 0; i < rows; i++) {
        if (!(m->count[i] > 0))
            continue;
        for (unsigned j = 0; j < 3; j++)
            columns[j][known] = columns[j][i];
        m->mean[known] = counter ? 0 : history_round(m->mean[i] / m->count[i]);
        known++;
    }
    for (unsigned j = 1; j < 4; j++)
        if (!(j == 3 && counter) && !memcmp(columns[j], m->last, known * sizeof(double)))
            flags |= 1u << (j - 1);
    buf_addc(out, (char)flags);
    history_code_put(out, m->count, rows);
    for (unsigned j = 0; j < 4; j++)
        if (!j || (!(flags & (1u << (j - 1))) && !(j == 3 && counter)))
            history_code_put(out, columns[j], known);
}

/* ---- what is due */
static bool in_fold(const struct history *r, const struct history_block *b)
{
    return b->seq >= r->fold.seq && b->seq_last <= r->fold.seq_last;
}

/* Begins with the oldest blocks that are no minutes yet; false: fewer than `least` rows. */
static bool fold_begin(struct history *r, uint64_t least)
{
    const struct history_index *x = &r->seconds;
    uint64_t rows = 0;
    size_t blocks = 0;

    for (size_t i = 0; i < x->count && rows < HISTORY_FOLD_ROWS && blocks < HISTORY_FOLD_BLOCKS_MAX;
         i++) {
        const struct history_block *b = &x->items[x->first + i];

        if (b->seq <= r->minuted)
            continue;
        if (!blocks++)
            r->fold.seq = b->seq;
        r->fold.seq_last = b->seq_last;
        rows += b->rows;
    }
    if (!blocks || rows < least)
        return false;
    r->fold.active = true;
    r->fold.next_id = 1;
    return true;
}

/* ---- one block of minutes */
struct minute_batch {
    uint32_t *ids;
    size_t id_count, id_cap;
    int64_t *minutes; /* in the order of the rows */
    size_t count, cap;
    bool last;
};

static void add_minutes(struct minute_batch *b, const int64_t *times, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        int64_t m = history_minute_of(times[i]);

        if (b->count && b->minutes[b->count - 1] == m)
            continue;
        VEC_GROW(b->minutes, b->count, b->cap);
        b->minutes[b->count++] = m;
    }
}

static void add_ids(struct minute_batch *b, const struct history_opened *o, uint32_t from)
{
    size_t taken = 0;

    for (uint32_t i = 0; i < o->block.series && taken <= HISTORY_FOLD_SERIES_MAX; i++) {
        if (o->dir[i].id < from)
            continue;
        VEC_GROW(b->ids, b->id_count, b->id_cap);
        b->ids[b->id_count++] = o->dir[i].id;
        taken++;
    }
}

static int by_id(const void *a, const void *b)
{
    uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;

    return p < q ? -1 : p > q;
}

/* The series of this block, and the minutes of all rows. */
static void batch_plan(struct history *r, struct minute_batch *b)
{
    const struct history_index *x = &r->seconds;
    struct history_opened o = { .head = { .max = HISTORY_BLOCK_MAX + 1 } };
    int64_t *times = xcalloc(HISTORY_BLOCK_ROWS_MAX, sizeof(*times));
    size_t unique = 0, most;

    for (size_t i = 0; i < x->count; i++) {
        const struct history_block *block = &x->items[x->first + i];

        if (!in_fold(r, block) || !history_block_open(r, x, block, &o) ||
            !history_opened_times(&o, times))
            continue;
        add_minutes(b, times, o.block.rows);
        add_ids(b, &o, r->fold.next_id);
    }
    if (b->id_count)
        qsort(b->ids, b->id_count, sizeof(*b->ids), by_id);
    for (size_t i = 0; i < b->id_count; i++)
        if (!i || b->ids[i] != b->ids[i - 1])
            b->ids[unique++] = b->ids[i];
    most = r->minutes.area.size / 2 / CELL_BYTES;
    most =
        (most < HISTORY_FOLD_CELLS_MAX ? most : HISTORY_FOLD_CELLS_MAX) / (b->count ? b->count : 1);
    most = most < 1 ? 1 : most > HISTORY_FOLD_SERIES_MAX ? HISTORY_FOLD_SERIES_MAX : most;
    b->last = unique <= most;
    b->id_count = b->last ? unique : most;
    buf_release(&o.head);
    free(times);
}

static void count_value(struct history_minutes *m, size_t i, double v)
{
    if (!(m->count[i] > 0)) {
        m->min[i] = m->max[i] = v;
        m->mean[i] = 0;
    }
    m->min[i] = v < m->min[i] ? v : m->min[i];
    m->max[i] = v > m->max[i] ? v : m->max[i];
    m->mean[i] += v;
    m->last[i] = v;
    m->count[i]++;
}

/* All rows of one series of the reader; false: it has none. */
static bool series_minutes(const struct minute_batch *b, const struct history_reader *d,
                           size_t series, struct history_minutes *m, double *values)
{
    bool any = false;
    size_t at = 0;

    memset(m->count, 0, b->count * sizeof(*m->count));
    for (size_t i = 0; i < d->count; i++) {
        const struct history_piece *p = &d->pieces[i];
        const int64_t *times = d->times + p->times;

        if (!p->chunk[series].len ||
            !history_code_get((const uint8_t *)d->bytes.data + p->chunk[series].at,
                              p->chunk[series].len, values, p->block.rows))
            continue;
        for (size_t j = 0; j < p->block.rows; j++) {
            while (at < b->count && b->minutes[at] != history_minute_of(times[j]))
                at++;
            if (at == b->count)
                return any; /* a block that the plan could not read */
            if (!isnan(values[j])) {
                count_value(m, at, values[j]);
                any = true;
            }
        }
    }
    return any;
}

static bool is_counter(struct history *r, uint32_t id, struct history_def *def)
{
    const struct history_series *s = history_dict_find(&r->dict, id);

    return s && history_dict_def(r, s, def) && def->series.metric->kind == TELEMETRY_COUNTER;
}

static void add_group(struct history *r, const struct minute_batch *b, const uint32_t *ids,
                      size_t count, struct history_making *m)
{
    const struct history_index *x = &r->seconds;
    double *values = xcalloc(HISTORY_BLOCK_ROWS_MAX, sizeof(*values));
    struct history_def *def = xmalloc(sizeof(*def));
    struct history_minutes sums;
    struct history_reader d;

    history_minutes_alloc(&sums, b->count);
    history_reader_init(&d, r, ids, count);
    for (size_t i = 0; i < x->count; i++)
        if (in_fold(r, &x->items[x->first + i]))
            history_reader_add(&d, x, &x->items[x->first + i]);
    for (size_t i = 0; i < count; i++) {
        if (!series_minutes(b, &d, i, &sums, values))
            continue;
        history_making_chunk(m, ids[i]);
        put_minutes(&m->chunks, &sums, b->count, is_counter(r, ids[i], def));
        history_making_chunk_end(m);
    }
    history_reader_release(&d);
    free(sums.last);
    free(values);
    free(def);
}

static enum rc write_batch(struct history *r, const struct minute_batch *b, struct err *err)
{
    struct history_making m;
    enum rc rc;

    history_making_begin(&m, r->fold.seq, r->fold.seq_last);
    history_making_times(&m, b->minutes, b->count);
    m.block.id_lo = b->ids[0];
    m.block.id_hi = b->last ? UINT32_MAX : b->ids[b->id_count - 1];
    m.block.last = b->last;
    for (size_t i = 0; i < b->id_count; i += HISTORY_GROUP_MAX)
        add_group(r, b, b->ids + i,
                  b->id_count - i < HISTORY_GROUP_MAX ? b->id_count - i : HISTORY_GROUP_MAX, &m);
    rc = history_block_write(r, &r->minutes, &m, err);
    if (!rc)
        rc = history_file_sync(&r->file, err);
    if (!rc)
        history_block_add(r, &r->minutes, &m.block);
    history_making_release(&m);
    return rc;
}

static enum rc fold_batch(struct history *r, struct err *err)
{
    struct minute_batch b = { 0 };
    enum rc rc = RC_OK;

    batch_plan(r, &b);
    b.last = b.last || !b.id_count;
    if (b.id_count && b.count <= HISTORY_BLOCK_ROWS_MAX)
        rc = write_batch(r, &b, err);
    if (!rc && b.last) {
        pthread_mutex_lock(&r->lock);
        r->minuted = r->fold.seq_last;
        r->fold.active = false;
        pthread_mutex_unlock(&r->lock);
    } else if (!rc)
        r->fold.next_id = b.ids[b.id_count - 1] + 1;
    free(b.ids);
    free(b.minutes);
    return rc;
}

enum rc history_fold_turn(struct history *r, struct err *err)
{
    if (!r->fold.active && r->fold.look) {
        r->fold.look = false;
        (void)fold_begin(r, HISTORY_FOLD_ROWS);
    }
    return r->fold.active ? fold_batch(r, err) : RC_OK;
}

enum rc history_fold_until(struct history *r, uint64_t seq, struct err *err)
{
    enum rc rc = RC_OK;

    while (!rc && r->minuted < seq && (r->fold.active || fold_begin(r, 1)))
        rc = fold_batch(r, err);
    return rc;
}

void history_fold_resume(struct history *r)
{
    struct history_index *x = &r->minutes;
    const struct history_block *b;

    if (x->count && !history_block_whole(r, x, &x->items[x->first + x->count - 1])) {
        r->bad_blocks++;
        history_index_drop_newest(r, x);
    }
    for (size_t i = 0; i < x->count; i++) {
        b = &x->items[x->first + i];
        if (b->last && b->seq_last > r->minuted)
            r->minuted = b->seq_last;
    }
    r->fold.look = true;
    if (!x->count)
        return;
    b = &x->items[x->first + x->count - 1];
    if (b->last || b->seq <= r->minuted || b->id_hi == UINT32_MAX)
        return;
    r->fold = (struct history_fold){ .active = true,
                                     .look = true,
                                     .seq = b->seq,
                                     .seq_last = b->seq_last,
                                     .next_id = b->id_hi + 1 };
}

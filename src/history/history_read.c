/* SPDX-License-Identifier: MIT */
/* history_read: queries.
 *
 * Under the lock a query copies which blocks there are and the rows that are in none; then it
 * reads blocks without it, a few series at a time, each block once.  The writer may write over
 * the oldest meanwhile: checksums say so, and these rows have gone. */
#include "base/mem.h"
#include "base/str.h"
#include "history/history_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { SPAN_MAX = 64 << 10 }; /* bytes read at once, when chunks lie near each other */

/* ---- the reader */
void history_reader_init(struct history_reader *d, struct history *r, const uint32_t *ids,
                         size_t count)
{
    assert(count <= HISTORY_GROUP_MAX);
    *d = (struct history_reader){ .r = r,
                                  .ids = ids,
                                  .id_count = count,
                                  .bytes = { .max = HISTORY_READ_MAX },
                                  .opened = { .head = { .max = HISTORY_BLOCK_MAX + 1 } } };
}

void history_reader_release(struct history_reader *d)
{
    free(d->pieces);
    free(d->times);
    buf_release(&d->bytes);
    buf_release(&d->opened.head);
}

static bool add_times(struct history_reader *d, struct history_piece *p)
{
    size_t rows = p->block.rows;

    if (d->time_count + rows > d->time_cap) {
        d->time_cap = 2 * (d->time_count + rows);
        d->times = xreallocarray(d->times, d->time_cap, sizeof(*d->times));
    }
    p->times = d->time_count;
    if (!history_opened_times(&d->opened, d->times + p->times))
        return false;
    d->time_count += rows;
    return true;
}

static bool keep_chunk(struct history_reader *d, struct history_piece *p, size_t i,
                       const uint8_t *bytes, uint32_t len)
{
    if (!history_chunk_good(&p->block, d->ids[i], bytes, len))
        return false;
    p->chunk[i].at = d->bytes.len;
    p->chunk[i].len = len - HISTORY_CHUNK_HEAD;
    buf_add(&d->bytes, bytes + HISTORY_CHUNK_HEAD, len - HISTORY_CHUNK_HEAD);
    if (d->bytes.over)
        p->chunk[i].len = 0;
    return true;
}

/* Reads the chunks, all at once where they are near each other; false: one is damaged. */
static bool add_chunks(struct history_reader *d, struct history_piece *p)
{
    uint32_t at[HISTORY_GROUP_MAX], len[HISTORY_GROUP_MAX], lo = UINT32_MAX, hi = 0;
    uint8_t small[4096], *bytes = small;
    bool good = true, whole;

    for (size_t i = 0; i < d->id_count; i++) {
        len[i] = 0;
        p->chunk[i].len = 0;
        if (!history_opened_chunk(&d->opened, d->ids[i], &at[i], &len[i]))
            continue;
        lo = at[i] < lo ? at[i] : lo;
        hi = at[i] + len[i] > hi ? at[i] + len[i] : hi;
    }
    if (hi <= lo)
        return true;
    whole = hi - lo <= SPAN_MAX;
    if (whole && hi - lo > sizeof(small))
        bytes = xmalloc(hi - lo);
    if (whole)
        good = history_file_get(&d->r->file, d->opened.at + lo, bytes, hi - lo);
    for (size_t i = 0; good && i < d->id_count; i++) {
        uint8_t *one;

        if (!len[i])
            continue;
        if (whole) {
            good = keep_chunk(d, p, i, bytes + (at[i] - lo), len[i]);
            continue;
        }
        one = xmalloc(len[i]);
        good = history_file_get(&d->r->file, d->opened.at + at[i], one, len[i]) &&
               keep_chunk(d, p, i, one, len[i]);
        free(one);
    }
    if (bytes != small)
        free(bytes);
    return good;
}

/* Is the block still what the index says?  Else it was written over, which is no damage. */
static bool still_there(struct history *r, const struct history_index *x,
                        const struct history_block *b)
{
    bool there = false;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < x->count && !there; i++) {
        const struct history_block *c = &x->items[x->first + i];

        there = c->page == b->page && c->seq == b->seq && c->id_lo == b->id_lo;
    }
    pthread_mutex_unlock(&r->lock);
    return there;
}

void history_bad(struct history *r)
{
    pthread_mutex_lock(&r->lock);
    r->bad_blocks++;
    pthread_mutex_unlock(&r->lock);
}

void history_reader_add(struct history_reader *d, const struct history_index *x,
                        const struct history_block *b)
{
    struct history_piece *p;

    if (b->id_hi < d->ids[0] || b->id_lo > d->ids[d->id_count - 1])
        return;
    VEC_GROW(d->pieces, d->count, d->cap);
    p = &d->pieces[d->count];
    p->block = *b;
    if (!history_block_open(d->r, x, b, &d->opened) || d->opened.block.rows != b->rows ||
        !add_times(d, p)) {
        if (still_there(d->r, x, b))
            history_bad(d->r);
        return;
    }
    if (!add_chunks(d, p) && still_there(d->r, x, b))
        history_bad(d->r); /* those before the damaged one are good */
    d->count++;
}

/* ---- points of one series */
struct points {
    struct history_point *items;
    size_t count, cap;
    int64_t from, to, step;
    bool mixed; /* not in time order */
    bool over;
};

static int64_t step_of(const struct points *p, int64_t t)
{
    int64_t rest;

    if (!p->step)
        return t;
    rest = t % p->step;
    return t - (rest < 0 ? rest + p->step : rest);
}

/* Room for `more`; false: there are too many. */
static bool points_room(struct points *p, size_t more)
{
    if (p->count + more > HISTORY_POINTS_MAX) {
        p->over = true;
        return false;
    }
    if (p->count + more > p->cap) {
        p->cap = 2 * p->cap > p->count + more ? 2 * p->cap : p->count + more;
        p->items = xreallocarray(p->items, p->cap, sizeof(*p->items));
    }
    return true;
}

/* Sums stand in `mean` until points_end(). */
static void point_merge(struct history_point *q, const struct history_point *v)
{
    q->min = v->min < q->min ? v->min : q->min;
    q->max = v->max > q->max ? v->max : q->max;
    q->mean += v->mean;
    q->last = v->last;
    q->count += v->count;
}

static void points_add(struct points *p, int64_t t, const struct history_point *v)
{
    struct history_point *q = p->count ? &p->items[p->count - 1] : NULL;
    int64_t at;

    /* most fall into the step of the one before: no division */
    if (q && p->step && t >= q->time_ns && t - q->time_ns < p->step) {
        point_merge(q, v);
        return;
    }
    at = step_of(p, t);
    if (!points_room(p, 1))
        return;
    if (p->count && p->items[p->count - 1].time_ns > at)
        p->mixed = true;
    p->items[p->count] = *v;
    p->items[p->count++].time_ns = at;
}

static int by_time(const void *a, const void *b)
{
    const struct history_point *p = a, *q = b;

    return p->time_ns < q->time_ns ? -1 : p->time_ns > q->time_ns;
}

static void points_end(struct points *p)
{
    size_t n = 0;

    if (p->mixed && p->count) {
        qsort(p->items, p->count, sizeof(*p->items), by_time);
        for (size_t i = 0; i < p->count; i++) {
            struct history_point *q = n ? &p->items[n - 1] : NULL, v = p->items[i];

            if (!q || !p->step || q->time_ns != v.time_ns) {
                p->items[n++] = v;
                continue;
            }
            point_merge(q, &v);
        }
        p->count = n;
    }
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].count > 1)
            p->items[i].mean /= p->items[i].count;
}

/* ---- a query's view of the history */
struct view {
    struct history *r;
    struct history_block *seconds, *minutes; /* copies */
    size_t second_count, minute_count;
    uint64_t seconds_from; /* rows before it come from minutes */
    uint64_t cut_seq;      /* rows up to it are cut at `cut`: minutes below, seconds from it on */
    int64_t cut;
    /* rows in no block: columns of the series asked for */
    int64_t *times;
    double *values; /* [series][rows] */
    size_t rows;
};

static struct history_block *copy_blocks(const struct history_index *x, int64_t from, int64_t to,
                                         size_t *count)
{
    struct history_block *out = xcalloc(x->count, sizeof(*out));

    *count = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct history_block *b = &x->items[x->first + i];
        int64_t end = b->last_ns;

        if (x->kind == HISTORY_MINUTES)
            end += HISTORY_MINUTE - 1;
        if (b->first_ns < to && end >= from)
            out[(*count)++] = *b;
    }
    return out;
}

static int by_u32(const void *a, const void *b)
{
    uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;

    return p < q ? -1 : p > q;
}

static void copy_rows(struct view *v, const uint32_t *ids, size_t count)
{
    const struct history_rows *rows = &v->r->rows;

    v->rows = rows->rows;
    v->times = xcalloc(v->rows, sizeof(*v->times));
    v->values = xcalloc(v->rows * count, sizeof(*v->values));
    if (v->rows)
        memcpy(v->times, rows->times, v->rows * sizeof(*v->times));
    for (size_t i = 0; i < v->rows * count; i++)
        v->values[i] = NAN;
    for (size_t s = 0; s < rows->slots; s++) {
        const uint32_t *id =
            v->rows ? bsearch(&rows->ids[s], ids, count, sizeof(*ids), by_u32) : NULL;

        for (size_t i = 0; id && i < v->rows; i++)
            v->values[(size_t)(id - ids) * v->rows + i] = rows->values[i * rows->slot_cap + s];
    }
}

static void view_init(struct view *v, struct history *r, const struct history_query *q,
                      const uint32_t *ids, size_t count)
{
    const struct history_index *x = &r->seconds;

    *v = (struct view){ .r = r, .cut = INT64_MIN };
    pthread_mutex_lock(&r->lock);
    v->seconds = copy_blocks(x, q->from_ns, q->to_ns, &v->second_count);
    v->minutes = copy_blocks(&r->minutes, q->from_ns, q->to_ns, &v->minute_count);
    copy_rows(v, ids, count);
    v->seconds_from = x->count ? x->items[x->first].seq : r->rows.seq;
    if (q->step_ns && q->step_ns % HISTORY_MINUTE == 0)
        v->seconds_from = r->minuted + 1; /* minutes will do wherever there are any */
    else if (x->count)
        v->cut = x->items[x->first].first_ns;
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < v->minute_count; i++) {
        const struct history_block *b = &v->minutes[i];

        if (b->seq < v->seconds_from && b->seq_last >= v->seconds_from)
            v->cut_seq = b->seq_last;
    }
    if (v->cut_seq && v->cut != history_minute_of(v->cut)) /* a minute is taken whole */
        v->cut = history_minute_of(v->cut) + HISTORY_MINUTE;
}

static void take_rows(struct points *p, const int64_t *times, const double *values, size_t rows,
                      int64_t from)
{
    from = p->from > from ? p->from : from;
    for (size_t i = 0; p->step && i < rows; i++) {
        double x = values[i];

        if (times[i] >= from && times[i] < p->to && !isnan(x))
            points_add(
                p, times[i],
                &(struct history_point){ .min = x, .max = x, .mean = x, .last = x, .count = 1 });
    }
    for (size_t i = 0; !p->step && i < rows && points_room(p, 1); i++) {
        struct history_point *q = &p->items[p->count];
        double x = values[i];

        if (times[i] < from || times[i] >= p->to || isnan(x))
            continue;
        p->mixed = p->mixed || (p->count && q[-1].time_ns > times[i]);
        *q = (struct history_point){ times[i], x, x, x, x, 1 };
        p->count++;
    }
}

static void take_minutes(const struct view *v, struct points *p, const struct history_reader *d,
                         const struct history_piece *piece, size_t series)
{
    const int64_t *times = d->times + piece->times;
    bool cut = piece->block.seq_last >= v->seconds_from;
    struct history_point minute;
    struct history_minutes m;

    history_minutes_alloc(&m, piece->block.rows);
    if (history_minutes_get((const uint8_t *)d->bytes.data + piece->chunk[series].at,
                            piece->chunk[series].len, piece->block.rows, &m)) {
        for (size_t i = 0; i < piece->block.rows; i++) {
            if (!(m.count[i] > 0) || times[i] >= p->to || times[i] + HISTORY_MINUTE <= p->from ||
                (cut && times[i] >= v->cut))
                continue;
            minute = (struct history_point){ .min = m.min[i],
                                             .max = m.max[i],
                                             .mean = m.mean[i] * m.count[i],
                                             .last = m.last[i],
                                             .count = (uint32_t)m.count[i] };
            /* a minute that two blocks share is one point, whatever the step */
            if (p->count && p->items[p->count - 1].time_ns == times[i])
                point_merge(&p->items[p->count - 1], &minute);
            else
                points_add(p, times[i], &minute);
        }
    }
    free(m.last);
}

static void take_series(const struct view *v, struct points *p,
                        const struct history_reader *minutes, const struct history_reader *seconds,
                        size_t series, const double *newest)
{
    double values[HISTORY_BLOCK_ROWS_MAX];

    p->count = 0;
    p->mixed = false;
    for (size_t i = 0; i < minutes->count; i++)
        if (minutes->pieces[i].chunk[series].len)
            take_minutes(v, p, minutes, &minutes->pieces[i], series);
    for (size_t i = 0; i < seconds->count; i++) {
        const struct history_piece *piece = &seconds->pieces[i];

        if (piece->chunk[series].len &&
            history_code_get((const uint8_t *)seconds->bytes.data + piece->chunk[series].at,
                             piece->chunk[series].len, values, piece->block.rows))
            take_rows(p, seconds->times + piece->times, values, piece->block.rows,
                      piece->block.seq <= v->cut_seq ? v->cut : INT64_MIN);
    }
    take_rows(p, v->times, newest, v->rows, INT64_MIN);
    points_end(p);
}

/* Up to HISTORY_GROUP_MAX series, from begin to end. */
static enum rc read_group(const struct view *v, struct points *p,
                          const struct history_series *series, size_t count, const double *newest,
                          history_take *take, void *arg, bool *stop, struct err *err)
{
    struct history_def *def = xmalloc(sizeof(*def));
    struct history_reader minutes, seconds;
    uint32_t ids[HISTORY_GROUP_MAX];
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count; i++)
        ids[i] = series[i].id;
    history_reader_init(&minutes, v->r, ids, count);
    history_reader_init(&seconds, v->r, ids, count);
    for (size_t i = 0; i < v->minute_count; i++)
        if (v->minutes[i].seq < v->seconds_from)
            history_reader_add(&minutes, &v->r->minutes, &v->minutes[i]);
    for (size_t i = 0; i < v->second_count; i++)
        if (v->seconds[i].seq >= v->seconds_from)
            history_reader_add(&seconds, &v->r->seconds, &v->seconds[i]);
    if (minutes.bytes.over || seconds.bytes.over)
        rc = err_set(err, RC_LIMIT, "the query reads more than %d bytes of history",
                     HISTORY_READ_MAX);
    for (size_t i = 0; i < count && !rc && !*stop; i++) {
        take_series(v, p, &minutes, &seconds, i, newest + i * v->rows);
        if (p->over)
            rc = err_set(err, RC_LIMIT, "the query has more than %d points", HISTORY_POINTS_MAX);
        else if (p->count && history_dict_def(v->r, &series[i], def))
            *stop = !take(arg, &def->series, p->items, p->count);
    }
    if (rc)
        err_hint(err, "Ask for a longer step or a shorter time.");
    history_reader_release(&minutes);
    history_reader_release(&seconds);
    free(def);
    return rc;
}

/* ---- which series */
static bool has_labels(const struct telemetry_series *s, const struct history_query *q)
{
    for (size_t i = 0; i < q->label_count; i++) {
        bool found = false;

        for (size_t j = 0; j < s->label_count && !found; j++)
            found = str_eq(s->labels[j].name, q->labels[i].name) &&
                    str_eq(s->labels[j].value, q->labels[i].value);
        if (!found)
            return false;
    }
    return true;
}

/* Series of the metric, or of all, that have the labels, ids rising; owned by the caller. */
static struct history_series *match_series(struct history *r, const struct history_query *q,
                                           size_t *count)
{
    uint32_t hash = q->metric ? history_dict_metric_hash(q->metric) : 0;
    struct history_def *def = xmalloc(sizeof(*def));
    struct history_series *out = NULL;
    size_t n = 0, cap = 0, keep = 0;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->dict.count; i++) {
        if (q->metric && r->dict.items[i].metric != hash)
            continue;
        VEC_GROW(out, n, cap);
        out[n++] = r->dict.items[i];
    }
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < n; i++)
        if (history_dict_def(r, &out[i], def) &&
            (!q->metric || str_eq(def->series.metric->id, q->metric)) &&
            has_labels(&def->series, q))
            out[keep++] = out[i];
    free(def);
    *count = keep;
    return out;
}

bool history_has(struct history *r, const char *metric)
{
    struct history_query q = { .metric = metric };
    size_t count;

    free(match_series(r, &q, &count));
    return count > 0;
}

enum rc history_read(struct history *r, const struct history_query *q, history_take *take,
                     void *arg, struct err *err)
{
    struct points p = { .from = q->from_ns, .to = q->to_ns, .step = q->step_ns };
    struct history_series *series;
    enum rc rc = RC_OK;
    bool stop = false;
    struct view v;
    uint32_t *ids;
    size_t count;

    if (q->step_ns < 0 || q->from_ns > q->to_ns)
        return err_set(err, RC_USAGE, "a query's time or step runs backwards");
    series = match_series(r, q, &count);
    ids = xcalloc(count, sizeof(*ids));
    for (size_t i = 0; i < count; i++)
        ids[i] = series[i].id;
    view_init(&v, r, q, ids, count);
    for (size_t i = 0; i < count && !rc && !stop; i += HISTORY_GROUP_MAX)
        rc = read_group(&v, &p, series + i,
                        count - i < HISTORY_GROUP_MAX ? count - i : HISTORY_GROUP_MAX,
                        v.values + i * v.rows, take, arg, &stop, err);
    free(v.seconds);
    free(v.minutes);
    free(v.times);
    free(v.values);
    free(p.items);
    free(ids);
    free(series);
    return rc;
}

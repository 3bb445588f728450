/* SPDX-License-Identifier: MIT */
/* history_log: rows until they lie in a block, one record a second.
 *
 * The log has two halves.  Records go into one until its rows are a block that is on the disk;
 * then the next begin the other.  So the half that holds rows which are in no block is never
 * written over, whatever is torn.  A record is a key, with all values, or what differs from the
 * key: each can be read with only its key, so a damaged one costs its own second. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "history/history_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct record {
    uint32_t magic, crc; /* of the head with crc 0, and the payload */
    uint64_t file_id;
    uint64_t seq, key_seq; /* the same: this is a key */
    int64_t time_ns;
    uint32_t len; /* of the payload, padded to 8 */
    uint32_t slots;
};
static_assert(sizeof(struct record) == 48, "as in docs/design/history-file.md");
enum { RECORD_STEP = 8, SLOTS_MAX = TELEMETRY_SERIES_MAX };
/* Payload: of a key u32 id for each slot; then a bit a slot that differs, then for each of these
 * u8 first byte | bytes - 1 << 4, and those bytes of the XOR. */

static uint64_t bits_of(double v)
{
    uint64_t u;

    memcpy(&u, &v, sizeof(u));
    return u;
}

static void put_values(struct buf *out, const double *row, const double *key, size_t n)
{
    size_t map = out->len;

    buf_fill(out, 0, (n + 7) / 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = bits_of(row[i]) ^ (key ? bits_of(key[i]) : 0);
        unsigned skip, last;

        if (!x)
            continue;
        out->data[map + i / 8] |= (char)(1u << (i % 8));
        skip = (unsigned)__builtin_ctzll(x) / 8;
        last = 7 - (unsigned)__builtin_clzll(x) / 8;
        x >>= 8 * skip;
        buf_addc(out, (char)(skip | (last - skip) << 4));
        buf_add(out, &x, last - skip + 1);
    }
}

static bool get_values(const uint8_t *p, size_t len, const double *key, double *row, size_t n)
{
    const uint8_t *end = p + len, *map = p;

    if (len < (n + 7) / 8)
        return false;
    p += (n + 7) / 8;
    for (size_t i = 0; i < n; i++) {
        uint64_t u = key ? bits_of(key[i]) : 0, x = 0;

        if (map[i / 8] >> (i % 8) & 1) {
            unsigned skip, count;

            if (p == end)
                return false;
            skip = *p & 7;
            count = (*p++ >> 4 & 7) + 1u;
            if (skip + count > 8 || (size_t)(end - p) < count)
                return false;
            memcpy(&x, p, count);
            p += count;
            u ^= x << (8 * skip);
        }
        memcpy(&row[i], &u, sizeof(u));
    }
    return true;
}

/* ---- writing */
static void make_record(struct history *r, int64_t time_ns, const double *row, bool key)
{
    struct buf *out = &r->log.record;
    struct record h = { .magic = HISTORY_RECORD_MAGIC,
                        .file_id = r->file.id,
                        .seq = r->next_seq,
                        .key_seq = key ? r->next_seq : r->log.key_seq,
                        .time_ns = time_ns,
                        .slots = (uint32_t)r->rows.slots };

    buf_reset(out);
    buf_add(out, &h, sizeof(h));
    if (key && r->rows.slots)
        buf_add(out, r->rows.ids, r->rows.slots * sizeof(*r->rows.ids));
    put_values(out, row, key ? NULL : r->log.key, r->rows.slots);
    buf_fill(out, 0, -out->len & (RECORD_STEP - 1));
    h.len = (uint32_t)(out->len - sizeof(h));
    memcpy(out->data, &h, sizeof(h));
    h.crc = crc32c(0, out->data, out->len);
    memcpy(out->data, &h, sizeof(h));
}

enum rc history_log_put(struct history *r, int64_t time_ns, const double *row, bool *full,
                        struct err *err)
{
    struct history_log *l = &r->log;
    const struct history_area *a = &r->file.map.log[l->half];
    bool key = !l->key_seq || l->key_slots != r->rows.slots;
    enum rc rc;

    *full = false;
    make_record(r, time_ns, row, key);
    if (l->end + l->record.len > a->size) {
        *full = true;
        return err_set(err, RC_LIMIT, "a second of %zu series does not fit into history '%s'",
                       r->rows.slots, r->file.path);
    }
    rc = history_file_put(&r->file, a->at + l->end, l->record.data, l->record.len, err);
    if (!rc)
        rc = history_file_sync(&r->file, err);
    if (rc)
        return rc; /* the next one takes its place */
    l->end += l->record.len;
    if (key) {
        l->key_seq = r->next_seq;
        l->key_slots = r->rows.slots;
        memcpy(l->key, row, r->rows.slots * sizeof(*row));
    }
    return RC_OK;
}

/* ---- after a start */
struct found {
    uint64_t seq, key_seq;
    const char *p; /* the record, in the half as read */
    unsigned half;
    uint32_t at;
};
struct founds {
    struct found *items;
    size_t count, cap;
    size_t torn; /* that begin as records do and are none, and hold what no block has */
};

static uint32_t record_good(const struct history *r, const char *p, size_t room, struct record *h)
{
    struct record clean;
    uint32_t crc;

    if (room < sizeof(*h))
        return 0;
    memcpy(h, p, sizeof(*h));
    if (h->magic != HISTORY_RECORD_MAGIC || h->file_id != r->file.id ||
        h->len > room - sizeof(*h) || h->len % RECORD_STEP || h->slots > SLOTS_MAX || !h->key_seq ||
        h->key_seq > h->seq || h->seq >= UINT64_MAX / 2 || h->time_ns <= -HISTORY_TIME_MAX ||
        h->time_ns >= HISTORY_TIME_MAX)
        return 0;
    clean = *h;
    clean.crc = 0;
    crc = crc32c(0, &clean, sizeof(clean));
    if (crc32c(crc, p + sizeof(*h), h->len) != h->crc)
        return 0;
    return (uint32_t)sizeof(*h) + h->len;
}

/* All of them: a key may lie in a block already while what refers to it does not. */
static void find_records(const struct history *r, const char *p, size_t size, unsigned half,
                         uint64_t folded, struct founds *out)
{
    struct record h;
    uint32_t len;

    for (size_t i = 0; i + sizeof(h) <= size; i += len ? len : RECORD_STEP) {
        len = record_good(r, p + i, size - i, &h);
        if (!len) {
            memcpy(&h, p + i, sizeof(h));
            out->torn +=
                h.magic == HISTORY_RECORD_MAGIC && h.file_id == r->file.id && h.seq > folded;
            continue;
        }
        VEC_GROW(out->items, out->count, out->cap);
        out->items[out->count++] =
            (struct found){ h.seq, h.key_seq, p + i, half, (uint32_t)i + len };
    }
}

static int by_seq(const void *a, const void *b)
{
    const struct found *p = a, *q = b;

    return p->seq < q->seq ? -1 : p->seq > q->seq;
}

/* A key's ids and values into what is being rebuilt. */
struct rebuilt {
    uint64_t key_seq;
    unsigned half;
    size_t slots;
    uint32_t ids[SLOTS_MAX];
    double key[SLOTS_MAX], row[SLOTS_MAX];
};

static bool rebuild_row(struct rebuilt *b, const struct found *f)
{
    const uint8_t *p = (const uint8_t *)f->p + sizeof(struct record);
    struct record h;
    size_t ids;

    memcpy(&h, f->p, sizeof(h));
    if (f->seq != f->key_seq)
        return b->key_seq == f->key_seq && b->slots == h.slots && b->half == f->half &&
               get_values(p, h.len, b->key, b->row, h.slots);
    ids = h.slots * sizeof(*b->ids);
    b->key_seq = 0;
    if (h.len < ids || !get_values(p + ids, h.len - ids, NULL, b->key, h.slots))
        return false;
    memcpy(b->ids, p, ids);
    memcpy(b->row, b->key, h.slots * sizeof(*b->row));
    b->key_seq = f->seq;
    b->slots = h.slots;
    b->half = f->half;
    return true;
}

/* The row into r->rows, which has room.  Series that the dictionary lacks are left out. */
static void keep_row(struct history *r, const struct rebuilt *b, const struct found *f)
{
    struct history_rows *rows = &r->rows;
    double *to = rows->values + rows->rows * rows->slot_cap;
    struct record h;

    memcpy(&h, f->p, sizeof(h));
    if (!rows->rows)
        rows->seq = f->seq;
    for (size_t i = 0; i < b->slots; i++) {
        rows->ids[i] = b->ids[i];
        to[i] = b->row[i];
        if (b->ids[i] >= r->dict.next_id)
            r->dict.next_id = b->ids[i] < UINT32_MAX - 1 ? b->ids[i] + 1 : UINT32_MAX - 1;
    }
    for (size_t i = b->slots; i < rows->slots; i++)
        to[i] = NAN;
    rows->slots = b->slots > rows->slots ? b->slots : rows->slots;
    rows->times[rows->rows++] = h.time_ns;
    r->next_seq = f->seq + 1;
    r->last_ns = h.time_ns;
}

/* Slots only grow within a half: rows written before a series came have none of it. */
static bool goes_on(const struct history *r, const struct rebuilt *b, uint64_t seq)
{
    const struct history_rows *rows = &r->rows;
    size_t both = rows->slots < b->slots ? rows->slots : b->slots;

    return rows->rows < rows->rows_cap && b->slots <= rows->slot_cap &&
           seq == rows->seq + rows->rows && !memcmp(rows->ids, b->ids, both * sizeof(*b->ids));
}

static void pad_rows(struct history_rows *rows, size_t from, size_t to)
{
    for (size_t i = 0; i < rows->rows; i++)
        for (size_t j = from; j < to; j++)
            rows->values[i * rows->slot_cap + j] = NAN;
}

/* Sequence numbers rise by one: those without a row were lost.  A record at the end, behind which
 * no other tells of it, is known by how it begins; one in between was counted with the numbers. */
static void count_missing(struct history *r, uint64_t missing, size_t torn)
{
    size_t unknown = 0;

    for (size_t i = 0; i < r->rows.slots; i++)
        unknown += !history_dict_find(&r->dict, r->rows.ids[i]);
    r->bad_blocks += (missing > torn ? missing : torn) + unknown;
}

/* Blocks of all but the rows that can go on in their half. */
static enum rc replay_records(struct history *r, const struct founds *all, uint64_t folded,
                              struct err *err)
{
    struct rebuilt *b = xcalloc(1, sizeof(*b));
    enum rc rc = RC_OK;
    unsigned half = 0;
    uint64_t last = folded, rebuilt = 0, newest = all->count ? all->items[all->count - 1].seq : 0;

    for (size_t i = 0; i < all->count && !rc; i++) {
        const struct found *f = &all->items[i];

        if (f->seq <= folded && f->seq != f->key_seq)
            continue;
        if (!rebuild_row(b, f))
            continue;
        if (f->seq <= folded)
            continue;
        last = f->seq;
        rebuilt++;
        if (r->rows.rows && (half != f->half || !goes_on(r, b, f->seq)))
            rc = history_fold_rows(r, err);
        if (!rc && !r->rows.rows)
            history_rows_reset(r, b->slots);
        if (!rc && b->slots > r->rows.slots)
            pad_rows(&r->rows, r->rows.slots, b->slots);
        if (!rc)
            keep_row(r, b, f);
        half = f->half;
        r->log.half = f->half;
        r->log.end = f->at;
        r->log.key_seq = 0; /* the next record is a key */
    }
    last = newest > last ? newest : last;
    if (!rc)
        count_missing(r, last - folded - rebuilt, all->torn);
    free(b);
    return rc;
}

enum rc history_log_recover(struct history *r, uint64_t folded, struct err *err)
{
    struct founds all = { 0 };
    char *p[2];
    enum rc rc;

    for (unsigned i = 0; i < 2; i++) {
        const struct history_area *a = &r->file.map.log[i];

        p[i] = xcalloc(1, a->size);
        if (history_file_get(&r->file, a->at, p[i], a->size))
            find_records(r, p[i], a->size, i, folded, &all);
    }
    if (all.count)
        qsort(all.items, all.count, sizeof(*all.items), by_seq);
    rc = replay_records(r, &all, folded, err);
    free(all.items);
    free(p[0]);
    free(p[1]);
    return rc;
}

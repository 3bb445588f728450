/* SPDX-License-Identifier: MIT */
/* history_block: blocks of columns, and the index of those in the file.
 *
 * A block begins on a page and is written whole, padding too: no write of one touches a page of
 * another, and every page of the area is the begin of a block, the inside of one, or what is left
 * of one that was written over, whose begin went first.  So a scan from page to page finds all. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "history/history_int.h"

#include <assert.h>
#include <string.h>

struct block_head {
    uint64_t magic, file_id;
    uint64_t seq, seq_last;
    int64_t first_ns, last_ns;
    uint32_t kind, rows, series, last;
    uint32_t id_lo, id_hi;
    uint32_t times_len; /* padded to 8 */
    uint32_t head_len;  /* with times and directory */
    uint32_t len;       /* without the padding at the end */
    uint32_t crc;       /* of head_len bytes with this 0 */
};
static_assert(sizeof(struct block_head) == 88, "as in docs/design/history-file.md");
#define BLOCK_MAGIC (UINT64_C(0x314b4c42) << 32 | HISTORY_BLOCK_MAGIC) /* "SKTRBLK1" */

/* ---- the index */
static struct history_block *newest_block(const struct history_index *x)
{
    return x->count ? &x->items[x->first + x->count - 1] : NULL;
}

static void index_add(struct history_index *x, const struct history_block *b)
{
    if (x->count == HISTORY_BLOCKS_MAX) {
        x->first++;
        x->count--;
    }
    if (x->first && x->first + x->count == x->cap) {
        memmove(x->items, x->items + x->first, x->count * sizeof(*x->items));
        x->first = 0;
    }
    if (x->first + x->count == x->cap) {
        x->cap = x->cap ? x->cap * 2 : 64;
        x->items = xreallocarray(x->items, x->cap, sizeof(*x->items));
    }
    x->items[x->first + x->count++] = *b;
}

/* Lets go of the oldest up to the last that lies in these pages. */
static void index_clear_pages(struct history_index *x, uint32_t page, uint32_t pages)
{
    size_t go = 0;

    for (size_t i = 0; i < x->count; i++) {
        const struct history_block *b = &x->items[x->first + i];

        if (b->page < page + pages && page < b->page + b->pages)
            go = i + 1;
    }
    x->first += go;
    x->count -= go;
}

void history_index_drop_newest(struct history *r, struct history_index *x)
{
    pthread_mutex_lock(&r->lock);
    assert(x->count);
    x->count--;
    x->next_page = x->items[x->first + x->count].page;
    pthread_mutex_unlock(&r->lock);
}

/* ---- making */
void history_making_begin(struct history_making *m, uint64_t seq, uint64_t seq_last)
{
    *m = (struct history_making){
        .block = { .seq = seq, .seq_last = seq_last, .first_ns = INT64_MAX, .last_ns = INT64_MIN }
    };
}

void history_making_times(struct history_making *m, const int64_t *times, size_t rows)
{
    struct history_block *b = &m->block;

    for (size_t i = 0; i < rows; i++) {
        b->first_ns = times[i] < b->first_ns ? times[i] : b->first_ns;
        b->last_ns = times[i] > b->last_ns ? times[i] : b->last_ns;
    }
    b->rows = (uint32_t)rows;
    history_code_put_ints(&m->times, times, rows);
    buf_fill(&m->times, 0, -m->times.len & 7);
}

void history_making_chunk(struct history_making *m, uint32_t id)
{
    assert(!m->count || m->dir[m->count - 1].id < id);
    VEC_GROW(m->dir, m->count, m->cap);
    m->dir[m->count++] = (struct history_dir){ id, (uint32_t)m->chunks.len };
    buf_fill(&m->chunks, 0, HISTORY_CHUNK_HEAD);
}

static uint32_t chunk_crc(uint64_t seq, uint32_t id, const void *p, size_t len)
{
    uint32_t crc = crc32c(0, &seq, sizeof(seq));

    crc = crc32c(crc, &id, sizeof(id));
    return crc32c(crc, p, len);
}

void history_making_chunk_end(struct history_making *m)
{
    const struct history_dir *d = &m->dir[m->count - 1];
    char *p = m->chunks.data + d->at;
    uint32_t crc = chunk_crc(m->block.seq, d->id, p + HISTORY_CHUNK_HEAD,
                             m->chunks.len - d->at - HISTORY_CHUNK_HEAD);

    memcpy(p, &crc, sizeof(crc));
}

void history_making_release(struct history_making *m)
{
    buf_release(&m->times);
    buf_release(&m->chunks);
    free(m->dir);
    *m = (struct history_making){ 0 };
}

/* The block's bytes, padded to pages. */
static void lay_out(struct history *r, const struct history_index *x, struct history_making *m,
                    struct buf *out)
{
    struct history_block *b = &m->block;
    struct block_head h = { .magic = BLOCK_MAGIC,
                            .file_id = r->file.id,
                            .seq = b->seq,
                            .seq_last = b->seq_last,
                            .first_ns = b->first_ns,
                            .last_ns = b->last_ns,
                            .kind = x->kind,
                            .rows = b->rows,
                            .series = (uint32_t)m->count,
                            .last = b->last,
                            .id_lo = b->id_lo,
                            .id_hi = b->id_hi,
                            .times_len = (uint32_t)m->times.len };

    h.head_len = (uint32_t)(sizeof(h) + m->times.len + m->count * sizeof(*m->dir));
    h.len = h.head_len + (uint32_t)m->chunks.len;
    for (size_t i = 0; i < m->count; i++)
        m->dir[i].at += h.head_len;
    buf_add(out, &h, sizeof(h));
    buf_add(out, buf_str(&m->times), m->times.len);
    if (m->count)
        buf_add(out, m->dir, m->count * sizeof(*m->dir));
    h.crc = crc32c(0, out->data, out->len);
    memcpy(out->data, &h, sizeof(h));
    buf_add(out, buf_str(&m->chunks), m->chunks.len);
    buf_fill(out, 0, -out->len & (HISTORY_PAGE - 1));
    b->series = h.series;
    b->head_len = h.head_len;
    b->len = h.len;
    b->pages = (uint32_t)(out->len / HISTORY_PAGE);
}

enum rc history_block_write(struct history *r, struct history_index *x, struct history_making *m,
                            struct err *err)
{
    struct buf bytes = { .max = 2 * HISTORY_BLOCK_MAX };
    struct history_block *b = &m->block;
    enum rc rc;

    lay_out(r, x, m, &bytes);
    if (bytes.len > HISTORY_BLOCK_MAX || bytes.len > x->area.size / 2) {
        rc = err_set(err, RC_LIMIT, "a block of %zu bytes does not fit into history '%s'",
                     bytes.len, r->file.path);
        buf_release(&bytes);
        return rc;
    }
    b->page = x->next_page;
    if (b->page + b->pages > x->area.size / HISTORY_PAGE)
        b->page = 0;
    pthread_mutex_lock(&r->lock);
    index_clear_pages(x, b->page, b->pages);
    pthread_mutex_unlock(&r->lock);
    rc = history_file_put(&r->file, x->area.at + (uint64_t)b->page * HISTORY_PAGE, bytes.data,
                          bytes.len, err);
    buf_release(&bytes);
    return rc;
}

void history_block_add_locked(struct history_index *x, const struct history_block *b)
{
    index_add(x, b);
    x->next_page = b->page + b->pages;
}

void history_block_add(struct history *r, struct history_index *x, const struct history_block *b)
{
    pthread_mutex_lock(&r->lock);
    history_block_add_locked(x, b);
    pthread_mutex_unlock(&r->lock);
}

/* ---- reading */
static bool head_good(const struct history *r, const struct history_index *x,
                      const struct block_head *h, uint32_t page)
{
    uint64_t room = x->area.size - (uint64_t)page * HISTORY_PAGE;

    return h->magic == BLOCK_MAGIC && h->file_id == r->file.id && h->kind == (uint32_t)x->kind &&
           h->len <= HISTORY_BLOCK_MAX && h->len <= room && h->head_len <= h->len &&
           h->series <= HISTORY_DIR_MAX && h->times_len <= h->head_len && h->times_len % 8 == 0 &&
           h->head_len ==
               sizeof(*h) + h->times_len + (uint64_t)h->series * sizeof(struct history_dir) &&
           h->rows >= 1 && h->rows <= HISTORY_BLOCK_ROWS_MAX && h->seq >= 1 &&
           h->seq <= h->seq_last && h->seq_last < UINT64_MAX / 2 && h->first_ns <= h->last_ns &&
           h->first_ns > -HISTORY_TIME_MAX && h->last_ns < HISTORY_TIME_MAX && h->id_lo <= h->id_hi;
}

/* Head, times and directory at a page into `head`, checked. */
static bool read_head(struct history *r, const struct history_index *x, uint32_t page,
                      struct buf *head, struct block_head *h)
{
    uint64_t at = x->area.at + (uint64_t)page * HISTORY_PAGE;
    uint32_t crc;
    char *p;

    if (!history_file_get(&r->file, at, h, sizeof(*h)) || !head_good(r, x, h, page))
        return false;
    buf_reset(head);
    p = buf_reserve(head, h->head_len);
    if (!p || !history_file_get(&r->file, at, p, h->head_len))
        return false;
    buf_commit(head, h->head_len);
    memcpy(h, p, sizeof(*h)); /* it may have been written over in between */
    if (!head_good(r, x, h, page) || h->head_len != head->len)
        return false;
    crc = h->crc;
    memset(p + offsetof(struct block_head, crc), 0, sizeof(crc));
    return crc32c(0, p, h->head_len) == crc;
}

static void block_of(const struct block_head *h, uint32_t page, struct history_block *b)
{
    *b = (struct history_block){ .seq = h->seq,
                                 .seq_last = h->seq_last,
                                 .first_ns = h->first_ns,
                                 .last_ns = h->last_ns,
                                 .page = page,
                                 .pages = (h->len + HISTORY_PAGE - 1) / HISTORY_PAGE,
                                 .rows = h->rows,
                                 .series = h->series,
                                 .id_lo = h->id_lo,
                                 .id_hi = h->id_hi,
                                 .head_len = h->head_len,
                                 .len = h->len,
                                 .last = h->last };
}

bool history_block_open(struct history *r, const struct history_index *x,
                        const struct history_block *b, struct history_opened *out)
{
    struct block_head h;

    if (!read_head(r, x, b->page, &out->head, &h) || h.seq != b->seq || h.id_lo != b->id_lo)
        return false;
    block_of(&h, b->page, &out->block);
    out->at = x->area.at + (uint64_t)b->page * HISTORY_PAGE;
    out->times = (const uint8_t *)out->head.data + sizeof(h);
    out->times_len = h.times_len;
    out->dir = (const struct history_dir *)(const void *)(out->times + h.times_len);
    return true;
}

/* A chunk's place; false: the directory is wrong, whatever its checksum says. */
static bool chunk_at(const struct history_opened *o, uint32_t i, uint32_t *at, uint32_t *len)
{
    uint32_t end = i + 1 < o->block.series ? o->dir[i + 1].at : o->block.len;

    *at = o->dir[i].at;
    *len = end - *at;
    return *at >= o->block.head_len && end <= o->block.len && end > *at &&
           *len > HISTORY_CHUNK_HEAD;
}

bool history_opened_times(const struct history_opened *o, int64_t *out)
{
    if (!history_code_get_ints(o->times, o->times_len, out, o->block.rows))
        return false;
    for (uint32_t i = 0; i < o->block.rows; i++)
        if (out[i] < o->block.first_ns || out[i] > o->block.last_ns)
            return false;
    return true;
}

bool history_opened_chunk(const struct history_opened *o, uint32_t id, uint32_t *at, uint32_t *len)
{
    uint32_t lo = 0, hi = o->block.series;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (o->dir[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < o->block.series && o->dir[lo].id == id && chunk_at(o, lo, at, len);
}

bool history_chunk_good(const struct history_block *b, uint32_t id, const uint8_t *p, size_t len)
{
    uint32_t crc;

    memcpy(&crc, p, sizeof(crc));
    return crc == chunk_crc(b->seq, id, p + HISTORY_CHUNK_HEAD, len - HISTORY_CHUNK_HEAD);
}

bool history_block_whole(struct history *r, const struct history_index *x,
                         const struct history_block *b)
{
    struct history_opened o = { .head = { .max = HISTORY_BLOCK_MAX + 1 } };
    uint8_t *all = xmalloc(b->len);
    bool good = history_block_open(r, x, b, &o) && o.block.len == b->len &&
                history_file_get(&r->file, o.at, all, b->len);

    for (uint32_t i = 0; good && i < o.block.series; i++) {
        uint32_t at, len;

        good =
            chunk_at(&o, i, &at, &len) && history_chunk_good(&o.block, o.dir[i].id, all + at, len);
    }
    free(all);
    buf_release(&o.head);
    return good;
}

/* ---- after a start */
static int by_seq(const void *a, const void *b)
{
    const struct history_block *p = a, *q = b;

    if (p->seq != q->seq)
        return p->seq < q->seq ? -1 : 1;
    return p->id_lo < q->id_lo ? -1 : p->id_lo > q->id_lo;
}

/* A page that begins like a block of ours but is none. */
static bool looks_damaged(struct history *r, const struct history_index *x, uint32_t page)
{
    uint64_t start[2];

    return history_file_get(&r->file, x->area.at + (uint64_t)page * HISTORY_PAGE, start,
                            sizeof(start)) &&
           start[0] == BLOCK_MAGIC && start[1] == r->file.id;
}

/* Where something was ever written: most of a young file is empty. */
static uint32_t next_page(struct history *r, const struct history_index *x, uint32_t page)
{
    uint64_t at = history_file_data(&r->file, x->area.at + (uint64_t)page * HISTORY_PAGE);

    return at > x->area.at + x->area.size ? (uint32_t)(x->area.size / HISTORY_PAGE)
                                          : (uint32_t)((at - x->area.at) / HISTORY_PAGE);
}

void history_block_scan(struct history *r, struct history_index *x)
{
    uint32_t pages = (uint32_t)(x->area.size / HISTORY_PAGE), page = next_page(r, x, 0);
    struct buf head = { .max = HISTORY_BLOCK_MAX + 1 };
    struct block_head h;
    struct history_block b;

    while (page < pages) {
        if (!read_head(r, x, page, &head, &h)) {
            r->bad_blocks += looks_damaged(r, x, page);
            page = next_page(r, x, page + 1);
            continue;
        }
        block_of(&h, page, &b);
        VEC_GROW(x->items, x->count, x->cap);
        x->items[x->count++] = b;
        page += b.pages;
    }
    buf_release(&head);
    if (x->count)
        qsort(x->items, x->count, sizeof(*x->items), by_seq);
    if (x->count > HISTORY_BLOCKS_MAX) {
        x->first = x->count - HISTORY_BLOCKS_MAX;
        x->count = HISTORY_BLOCKS_MAX;
    }
    if (newest_block(x))
        x->next_page = newest_block(x)->page + newest_block(x)->pages;
}

/* ---- into another file */
static enum rc copy_block(struct history *from, const struct history_index *x, struct history *to,
                          struct history_index *y, struct history_block b, struct err *err)
{
    size_t len = (size_t)b.pages * HISTORY_PAGE;
    char *bytes = xmalloc(len);
    enum rc rc = RC_OK;

    if (history_file_get(&from->file, x->area.at + (uint64_t)b.page * HISTORY_PAGE, bytes, len)) {
        b.page = y->next_page;
        rc = history_file_put(&to->file, y->area.at + (uint64_t)b.page * HISTORY_PAGE, bytes, len,
                              err);
        if (!rc)
            history_block_add(to, y, &b);
    }
    free(bytes);
    return rc;
}

enum rc history_index_copy(struct history *from, const struct history_index *x, struct history *to,
                           struct history_index *y, struct err *err)
{
    uint64_t room = y->area.size / HISTORY_PAGE, used = 0;
    size_t begin = x->count;

    while (begin && used + x->items[x->first + begin - 1].pages <= room)
        used += x->items[x->first + --begin].pages;
    for (size_t i = begin; i < x->count; i++) {
        enum rc rc = copy_block(from, x, to, y, x->items[x->first + i], err);

        if (rc)
            return rc;
    }
    return RC_OK;
}

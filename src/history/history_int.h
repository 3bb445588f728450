/* SPDX-License-Identifier: MIT */
/* ring_int: the parts of a ring, for the files of metrics/ and their tests.
 *
 * docs/ring.md has the format.  Who does what:
 *   ring.c         open, append, close: the order of writes and syncs
 *   ring_file.c    the file: its head, its areas, reading and writing, other sizes
 *   ring_dict.c    which series an id is
 *   ring_log.c     a record for each second, until it lies in a block
 *   ring_block.c   blocks of columns and the index of them
 *   ring_minute.c  minutes made from blocks of seconds
 *   ring_read.c    queries           ring_event.c  events
 *   ring_code.c    numbers as few bits (no I/O)
 *
 * Invariants:
 *   1. A row has a sequence number; numbers rise by one and are never used twice.
 *   2. What holds a row last is synced before what held it before is written over: log, block of
 *      seconds, block of minutes.
 *   3. The index knows only blocks whose head and directory were right when it learnt of them;
 *      a reader checks each again, since the writer may have written over it.
 *   4. Only the writer (r->writer held) changes anything, and what readers see it changes with
 *      r->lock held; readers hold r->lock for copies alone, never across I/O. */
#ifndef HISTORY_HISTORY_INT_H
#define HISTORY_HISTORY_INT_H
#include "history/history.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    RING_VERSION = 1,
    RING_PAGE = 4096,
    RING_ROWS_MAX = 600, /* seconds in a block */
    RING_ROWS_MIN = 8,
    RING_HEAD_MAX = 2 << 20,        /* bytes of the rows that are in no block yet */
    RING_SERIES_MAX = 24576,        /* series known; those not seen longest go first */
    RING_BLOCKS_MAX = 16384,        /* blocks in an index; older ones are let go */
    RING_BLOCK_MAX = 8 << 20,       /* bytes of a block */
    RING_DICT_MAX = 4 << 20,        /* bytes of a copy of the dictionary */
    RING_LOG_MAX = 4 << 20,         /* bytes of a half of the log */
    RING_EVENTS_AREA_MAX = 2 << 20, /* bytes of the events */
    RING_DEF_MAX = 8192,            /* bytes of a series' definition */
    RING_EVENT_SLOT = 512,          /* bytes of an event: a sector, so that none tears another */
    RING_FOLD_ROWS = 3600,          /* seconds that are made minutes together */
    RING_FOLD_BLOCKS_MAX = 1024,    /* blocks of seconds that are made minutes together */
    RING_FOLD_CELLS_MAX = 16384,    /* minutes times series of a block of minutes */
    RING_FOLD_SERIES_MAX = 256,
    RING_GROUP_MAX = 16, /* series read together */
    /* how a series, a record of the log, an event and a block (its first half) begin */
    RING_BLOCK_MAGIC = 0x52544b53,
    RING_ENTRY_MAGIC = 0x53524553,
    RING_RECORD_MAGIC = 0x474f4c52,
    RING_SLOT_MAGIC = 0x544e5645
};
#define RING_NS       INT64_C(1000000000)
#define RING_MINUTE   (60 * RING_NS)
#define RING_TIME_MAX (INT64_C(1) << 62) /* ns before and after 1970 */
#define RING_GAP_NS   (10 * RING_MINUTE) /* a longer silence ends a block */

/* ---- the file as bytes; tests put faults in between */
struct ring_io {
    void *arg;
    ssize_t (*read)(void *arg, int fd, void *p, size_t n, off_t at);
    ssize_t (*write)(void *arg, int fd, const void *p, size_t n, off_t at);
    int (*sync)(void *arg, int fd);
    int (*reserve)(void *arg, int fd, off_t bytes);
};
enum rc ring_open_io(const struct ring_opts *o, const struct ring_io *io, struct ring **out,
                     struct err *err) MUST_USE;

struct ring_area {
    uint64_t at, size;
};
/* Where everything lies; follows from the size and the share of the minutes. */
struct ring_map {
    struct ring_area dict[2], log[2], events, seconds, minutes;
};
void ring_map(uint64_t bytes, uint32_t minute_pct, struct ring_map *out);

struct ring_file {
    int fd;
    char *path;
    const struct ring_io *io;
    uint64_t id; /* random, in everything written: other files' blocks are none of ours */
    uint64_t bytes;
    uint32_t minute_pct;
    bool no_sync;
    uint64_t cut_bytes; /* missing at its end when it was opened, … */
    uint64_t cut_of;    /* … of so many */
    struct ring_map map;
};
enum rc ring_file_here(const struct ring_file *f, struct err *err) MUST_USE;
/* Is it one of ours whose head cannot be read?  Asked when ring_file_open() gave RC_PARSE. */
bool ring_file_damaged(const char *path);
enum rc ring_file_open(struct ring_file *f, const struct ring_opts *o, const struct ring_io *io,
                       struct err *err) MUST_USE;
/* Makes `path` of `bytes`, with the identity `id`; the file appears when ring_file_publish()ed. */
enum rc ring_file_make(struct ring_file *f, const struct ring_opts *o, const struct ring_io *io,
                       uint64_t id, struct err *err) MUST_USE;
enum rc ring_file_publish(struct ring_file *f, struct err *err) MUST_USE;
void ring_file_discard(struct ring_file *f); /* one that was not published */
void ring_file_unlink(struct ring_file *f);  /* the same, but it stays open */
void ring_file_close(struct ring_file *f);
bool ring_file_get(const struct ring_file *f, uint64_t at, void *p, size_t n);
uint64_t ring_file_data(const struct ring_file *f,
                        uint64_t at); /* the first byte written from `at` on */
enum rc ring_file_put(struct ring_file *f, uint64_t at, const void *p, size_t n,
                      struct err *err) MUST_USE;
enum rc ring_file_sync(struct ring_file *f, struct err *err) MUST_USE;

/* ---- numbers as bits */
/* Appends n values (NaN: unknown).  Exact. */
void ring_code_put(struct buf *out, const double *v, size_t n);
void ring_code_put_ints(struct buf *out, const int64_t *v, size_t n);
/* Reads n values from p[0..len); 0: damaged, else the bytes used.  `len` bytes are readable. */
size_t ring_code_get(const uint8_t *p, size_t len, double *out, size_t n);
size_t ring_code_get_ints(const uint8_t *p, size_t len, int64_t *out, size_t n);
/* A gauge as it is kept: whole numbers and those of up to seven digits as they are, others with
 * five digits. */
double ring_round(double v);

/* ---- the dictionary: two copies, each entry with its checksum; ids are never used again */
struct ring_series {
    uint64_t hash; /* of metric and labels */
    uint32_t id;
    uint32_t at;     /* in the dictionary */
    uint32_t metric; /* hash of the metric's id */
    uint32_t seen;   /* minutes since 1970 */
};
struct ring_dict {
    struct ring_series *items; /* ids rise */
    size_t count, cap;
    uint32_t *table; /* by hash: index + 1; 0: none */
    size_t table_size;
    uint32_t next_id, generation;
    uint64_t end; /* where the next entry goes */
    uint64_t forgotten, refused;
    uint32_t room_at; /* when room was made last, in steps of some minutes */
};
/* A definition read back; borrows from `bytes`. */
struct ring_def {
    struct tele_series series;
    struct tele_metric foreign;
    struct tele_label labels[TELE_LABELS_MAX];
    char bytes[RING_DEF_MAX];
};
enum rc ring_dict_load(struct ring *r, struct err *err) MUST_USE;
void ring_dict_release(struct ring_dict *d);
/* The id of a series, a new one where it has none; 0: there is no room. */
enum rc ring_dict_id(struct ring *r, const struct tele_series *s, uint32_t minute, uint32_t *id,
                     struct err *err) MUST_USE;
void ring_dict_seen(struct ring *r, uint32_t minute);                 /* the series of r->rows */
struct ring_series *ring_dict_find(struct ring_dict *d, uint32_t id); /* NULL: unknown */
bool ring_dict_def(struct ring *r, const struct ring_series *s, struct ring_def *out);
uint64_t ring_dict_hash(const struct tele_series *s);
uint32_t ring_dict_metric_hash(const char *metric);
/* Copies what `from` knows into a new file's dictionary. */
enum rc ring_dict_copy(struct ring *from, struct ring *to, struct err *err) MUST_USE;

/* ---- blocks */
enum ring_kind { RING_SECONDS = 1, RING_MINUTES = 2 };
struct ring_block {
    uint64_t seq, seq_last;    /* rows, or the rows that the minutes were made from */
    int64_t first_ns, last_ns; /* lowest and highest time */
    uint32_t page, pages;      /* in its area */
    uint32_t rows, series;
    uint32_t id_lo, id_hi; /* series it may hold */
    uint32_t head_len;     /* bytes of head, times and directory */
    uint32_t len;
    bool last; /* of minutes: the last of its rows */
};
struct ring_index {
    struct ring_area area;
    enum ring_kind kind;
    struct ring_block *items; /* oldest first */
    size_t first, count, cap; /* items[first..first+count) */
    uint32_t next_page;
};
struct ring_dir {
    uint32_t id, at; /* of the chunk in the block */
};
enum {
    RING_DIR_MAX = 32768,      /* series in a block */
    RING_BLOCK_ROWS_MAX = 8192 /* rows of a block */
};

/* A block in the making: chunks are added in the order of ids. */
struct ring_making {
    struct buf times, chunks;
    struct ring_dir *dir;
    size_t count, cap;
    struct ring_block block;
};
void ring_making_begin(struct ring_making *m, uint64_t seq, uint64_t seq_last);
void ring_making_times(struct ring_making *m, const int64_t *times, size_t rows);
/* The chunk of a series: adds to m->chunks between begin and end. */
void ring_making_chunk(struct ring_making *m, uint32_t id);
void ring_making_chunk_end(struct ring_making *m);
void ring_making_release(struct ring_making *m);
/* Writes it behind the newest.  Not in the index before ring_block_add(), which the caller calls
 * when it is synced. */
enum rc ring_block_write(struct ring *r, struct ring_index *x, struct ring_making *m,
                         struct err *err) MUST_USE;
void ring_block_add(struct ring *r, struct ring_index *x, const struct ring_block *b);
void ring_block_add_locked(struct ring_index *x, const struct ring_block *b); /* r->lock held */
void ring_block_scan(struct ring *r, struct ring_index *x);                   /* at the start */
/* Head, times and directory; false: it is no longer there, or damaged. */
struct ring_opened {
    struct ring_block block;
    uint64_t at;     /* in the file */
    struct buf head; /* owned, used again by the next */
    const uint8_t *times;
    uint32_t times_len;
    const struct ring_dir *dir; /* sorted by id; both in head */
};
bool ring_block_open(struct ring *r, const struct ring_index *x, const struct ring_block *b,
                     struct ring_opened *out);
bool ring_opened_times(const struct ring_opened *o, int64_t *out);
/* Where a series' chunk lies: false, none. */
bool ring_opened_chunk(const struct ring_opened *o, uint32_t id, uint32_t *at, uint32_t *len);
/* Checks a chunk as read; the payload behind its checksum. */
bool ring_chunk_good(const struct ring_block *b, uint32_t id, const uint8_t *p, size_t len);
enum { RING_CHUNK_HEAD = 4 };
/* Every chunk as well. */
bool ring_block_whole(struct ring *r, const struct ring_index *x, const struct ring_block *b);
void ring_index_drop_newest(struct ring *r, struct ring_index *x);
/* Copies blocks that fit, newest first, into another file. */
enum rc ring_index_copy(struct ring *from, const struct ring_index *x, struct ring *to,
                        struct ring_index *y, struct err *err) MUST_USE;

/* ---- the log: rows that lie in no block yet */
struct ring_rows {
    double *values; /* [rows_cap][slot_cap] */
    int64_t *times; /* [RING_ROWS_MAX] */
    uint32_t *ids;  /* [slot_cap] */
    size_t rows, rows_cap, slots, slot_cap;
    uint64_t seq; /* of the first row */
};
struct ring_log {
    unsigned half;
    uint64_t end;     /* in the half */
    uint64_t key_seq; /* record that the next ones refer to; 0: none */
    double *key;      /* its values, [slot_cap] */
    size_t key_slots;
    struct buf record;
};
/* Puts the row in the log and syncs; RC_LIMIT with *full: the half has no room. */
enum rc ring_log_put(struct ring *r, int64_t time_ns, const double *row, bool *full,
                     struct err *err) MUST_USE;
/* Rows behind `folded` that the log still has, as rows and blocks. */
enum rc ring_log_recover(struct ring *r, uint64_t folded, struct err *err) MUST_USE;

/* ---- minutes */
struct ring_fold {
    bool active, look;      /* look: a block of seconds came */
    uint64_t seq, seq_last; /* rows */
    uint32_t next_id;
};
/* Once an append: goes on with what is due, one block at a time. */
enum rc ring_fold_turn(struct ring *r, struct err *err) MUST_USE;
/* All that is due before seconds up to `seq` may be written over. */
enum rc ring_fold_until(struct ring *r, uint64_t seq, struct err *err) MUST_USE;
void ring_fold_resume(struct ring *r); /* after the scan */

struct ring {
    struct ring_file file;
    pthread_mutex_t writer, lock;
    struct ring_dict dict;
    struct ring_index seconds, minutes;
    struct ring_rows rows;
    struct ring_log log;
    struct ring_fold fold;
    uint64_t next_seq, folded; /* rows up to `folded` lie in blocks */
    uint64_t minuted;          /* rows up to it are minutes too */
    int64_t last_ns;           /* of the newest row */
    /* of the table that was appended last */
    const struct tele *table;
    size_t table_count;
    uint64_t table_hash; /* of its first and last series */
    bool search;         /* rows hold series of another table, or of before a start */
    uint32_t *ids;       /* by its id: ours; 0: not asked yet; UINT32_MAX: refused */
    uint32_t *slots;     /* by its id: slot + 1 in r->rows; 0: none */
    uint8_t *keep;       /* by its id: rounded or not */
    uint32_t *born;      /* by its id: tele_born() when it was mapped */
    uint64_t renewed;    /* of the table, when it was looked at */
    size_t map_cap;
    double *row; /* [slot_cap] */
    uint64_t event_seq;
    uint64_t bad_blocks; /* under lock */
    char *moved;         /* owned: where a damaged one went; NULL: none */
};
enum rc ring_fold_rows(struct ring *r, struct err *err) MUST_USE; /* rows become a block */
void ring_rows_reset(struct ring *r, size_t want_slots);          /* makes room, empties */
void ring_forget_map(struct ring *r); /* ids may have gone: they are asked for again */
void ring_events_load(struct ring *r);
enum rc ring_events_copy(struct ring *from, struct ring *to, struct err *err) MUST_USE;
void ring_bad(struct ring *r); /* counts a damaged block */

/* Chunks of a few series from many blocks: read in one pass over the file, decoded from memory. */
struct ring_piece {
    struct ring_block block;
    size_t times; /* index of its first row in reader.times */
    struct {
        size_t at;
        uint32_t len; /* 0: the block has none */
    } chunk[RING_GROUP_MAX];
};
enum { RING_READ_MAX = 64 << 20 }; /* bytes of chunks read for one group */
struct ring_reader {
    struct ring *r;
    const uint32_t *ids; /* sorted */
    size_t id_count;     /* up to RING_GROUP_MAX */
    struct ring_piece *pieces;
    size_t count, cap;
    int64_t *times;
    size_t time_count, time_cap;
    struct buf bytes; /* payloads */
    struct ring_opened opened;
};
void ring_reader_init(struct ring_reader *d, struct ring *r, const uint32_t *ids, size_t count);
/* Adds what the block has of the series; a block that has gone or is damaged adds nothing. */
void ring_reader_add(struct ring_reader *d, const struct ring_index *x, const struct ring_block *b);
void ring_reader_release(struct ring_reader *d);

/* A chunk of minutes. */
struct ring_minutes {
    double *last, *min, *max, *mean, *count; /* [rows]; count 0: unknown */
};
int64_t ring_minute_of(int64_t t);                            /* its begin */
void ring_minutes_alloc(struct ring_minutes *m, size_t rows); /* one block: free(m->last) */
bool ring_minutes_get(const uint8_t *p, size_t len, size_t rows, struct ring_minutes *out);

#endif

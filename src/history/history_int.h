/* SPDX-License-Identifier: MIT */
/* history_int: the parts of a history, for its files and their tests.
 *
 * docs/design/history-file.md has the format.  Who does what:
 *   history.c          open, append, close: the order of writes and syncs
 *   history_file.c     the file: its head, its areas, reading and writing, other sizes
 *   history_dict.c     which series an id is
 *   history_log.c      a record for each second, until it lies in a block
 *   history_block.c    blocks of columns and the index of them
 *   history_minute.c   minutes made from blocks of seconds
 *   history_read.c     queries
 *   history_event.c    events
 *   history_code.c     numbers as few bits (no I/O)
 *
 * Invariants:
 *   1. A row has a sequence number; numbers rise by one and are never used twice.
 *   2. What holds a row last is synced before what held it before is written over: log, block of
 *      seconds, block of minutes.
 *   3. The index knows only blocks whose head and directory were right when it learnt of them;
 *      a reader checks each again, since the writer may have written over it.
 *   4. Only the writer (r->writer held) changes anything, and what readers see it changes with
 *      r->lock held; readers hold r->lock only for copies, never across I/O. */
#ifndef HISTORY_HISTORY_INT_H
#define HISTORY_HISTORY_INT_H
#include "history/history.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    HISTORY_VERSION = 1,
    HISTORY_PAGE = 4096,
    HISTORY_ROWS_MAX = 600, /* seconds in a block */
    HISTORY_ROWS_MIN = 8,
    HISTORY_HEAD_MAX = 2 << 20,        /* bytes of the rows that are in no block yet */
    HISTORY_SERIES_MAX = 24576,        /* series known; those not seen longest go first */
    HISTORY_BLOCKS_MAX = 16384,        /* blocks in an index; older ones are let go */
    HISTORY_BLOCK_MAX = 8 << 20,       /* bytes of a block */
    HISTORY_DICT_MAX = 4 << 20,        /* bytes of a copy of the dictionary */
    HISTORY_LOG_MAX = 4 << 20,         /* bytes of a half of the log */
    HISTORY_EVENTS_AREA_MAX = 2 << 20, /* bytes of the events */
    HISTORY_DEF_MAX = 8192,            /* bytes of a series' definition */
    HISTORY_EVENT_SLOT = 512,          /* bytes of an event: a sector, so that none tears another */
    HISTORY_FOLD_ROWS = 3600,          /* seconds that are made minutes together */
    HISTORY_FOLD_BLOCKS_MAX = 1024,    /* blocks of seconds that are made minutes together */
    HISTORY_FOLD_CELLS_MAX = 16384,    /* minutes times series of a block of minutes */
    HISTORY_FOLD_SERIES_MAX = 256,
    HISTORY_GROUP_MAX = 16, /* series read together */
    /* how a series, a record of the log, an event and a block (its first half) begin */
    HISTORY_BLOCK_MAGIC = 0x52544b53,
    HISTORY_ENTRY_MAGIC = 0x53524553,
    HISTORY_RECORD_MAGIC = 0x474f4c52,
    HISTORY_SLOT_MAGIC = 0x544e5645
};
#define HISTORY_NS       INT64_C(1000000000)
#define HISTORY_MINUTE   (60 * HISTORY_NS)
#define HISTORY_TIME_MAX (INT64_C(1) << 62)    /* ns before and after 1970 */
#define HISTORY_GAP_NS   (10 * HISTORY_MINUTE) /* a longer silence ends a block */

/* ---- the file as bytes; tests put faults in between */
struct history_io {
    void *arg;
    ssize_t (*read)(void *arg, int fd, void *p, size_t n, off_t at);
    ssize_t (*write)(void *arg, int fd, const void *p, size_t n, off_t at);
    int (*sync)(void *arg, int fd);
    int (*reserve)(void *arg, int fd, off_t bytes);
};
enum rc history_open_io(const struct history_opts *o, const struct history_io *io,
                        struct history **out, struct err *err) MUST_USE;

struct history_area {
    uint64_t at, size;
};
/* Where everything lies; follows from the size and the share of the minutes. */
struct history_map {
    struct history_area dict[2], log[2], events, seconds, minutes;
};
void history_map(uint64_t bytes, uint32_t minute_pct, struct history_map *out);

struct history_file {
    int fd;
    char *path;
    const struct history_io *io;
    uint64_t id; /* random, in everything written: other files' blocks are none of ours */
    uint64_t bytes;
    uint32_t minute_pct;
    bool no_sync;
    uint64_t cut_bytes; /* missing at its end when it was opened, … */
    uint64_t cut_of;    /* … of so many */
    struct history_map map;
};
enum rc history_file_here(const struct history_file *f, struct err *err) MUST_USE;
/* Is it one of ours whose head cannot be read?  Asked when history_file_open() gave RC_PARSE. */
bool history_file_damaged(const char *path);
enum rc history_file_open(struct history_file *f, const struct history_opts *o,
                          const struct history_io *io, struct err *err) MUST_USE;
/* Makes `path` of `bytes`, with the identity `id`; the file appears when
 * history_file_publish()ed. */
enum rc history_file_make(struct history_file *f, const struct history_opts *o,
                          const struct history_io *io, uint64_t id, struct err *err) MUST_USE;
enum rc history_file_publish(struct history_file *f, struct err *err) MUST_USE;
void history_file_discard(struct history_file *f); /* one that was not published */
void history_file_unlink(struct history_file *f);  /* the same, but it stays open */
void history_file_close(struct history_file *f);
bool history_file_get(const struct history_file *f, uint64_t at, void *p, size_t n);
uint64_t history_file_data(const struct history_file *f,
                           uint64_t at); /* the first byte written from `at` on */
enum rc history_file_put(struct history_file *f, uint64_t at, const void *p, size_t n,
                         struct err *err) MUST_USE;
enum rc history_file_sync(struct history_file *f, struct err *err) MUST_USE;

/* ---- numbers as bits */
/* Appends n values (NaN: unknown).  Exact. */
void history_code_put(struct buf *out, const double *v, size_t n);
void history_code_put_ints(struct buf *out, const int64_t *v, size_t n);
/* Reads n values from p[0..len); 0: damaged, else the bytes used.  `len` bytes are readable. */
size_t history_code_get(const uint8_t *p, size_t len, double *out, size_t n);
size_t history_code_get_ints(const uint8_t *p, size_t len, int64_t *out, size_t n);
/* A gauge as it is kept: whole numbers and those of up to seven digits as they are, others with
 * five digits. */
double history_round(double v);

/* ---- the dictionary: two copies, each entry with its checksum; ids are never used again */
struct history_series {
    uint64_t hash; /* of metric and labels */
    uint32_t id;
    uint32_t at;     /* in the dictionary */
    uint32_t metric; /* hash of the metric's id */
    uint32_t seen;   /* minutes since 1970 */
};
struct history_dict {
    struct history_series *items; /* ids rise */
    size_t count, cap;
    uint32_t *table; /* by hash: index + 1; 0: none */
    size_t table_size;
    uint32_t next_id, generation;
    uint64_t end; /* where the next entry goes */
    uint64_t forgotten, refused;
    uint32_t room_at; /* when room was made last, in steps of some minutes */
};
/* A definition read back; borrows from `bytes`. */
struct history_def {
    struct telemetry_series series;
    struct telemetry_metric foreign;
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    char bytes[HISTORY_DEF_MAX];
};
enum rc history_dict_load(struct history *r, struct err *err) MUST_USE;
void history_dict_release(struct history_dict *d);
/* The id of a series, a new one where it has none; 0: there is no room. */
enum rc history_dict_id(struct history *r, const struct telemetry_series *s, uint32_t minute,
                        uint32_t *id, struct err *err) MUST_USE;
void history_dict_seen(struct history *r, uint32_t minute); /* the series of r->rows */
struct history_series *history_dict_find(struct history_dict *d, uint32_t id); /* NULL: unknown */
bool history_dict_def(struct history *r, const struct history_series *s, struct history_def *out);
uint64_t history_dict_hash(const struct telemetry_series *s);
uint32_t history_dict_metric_hash(const char *metric);
/* Copies what `from` knows into a new file's dictionary. */
enum rc history_dict_copy(struct history *from, struct history *to, struct err *err) MUST_USE;

/* ---- blocks */
enum history_kind { HISTORY_SECONDS = 1, HISTORY_MINUTES = 2 };
struct history_block {
    uint64_t seq, seq_last;    /* rows, or the rows that the minutes were made from */
    int64_t first_ns, last_ns; /* lowest and highest time */
    uint32_t page, pages;      /* in its area */
    uint32_t rows, series;
    uint32_t id_lo, id_hi; /* series it may hold */
    uint32_t head_len;     /* bytes of head, times and directory */
    uint32_t len;
    bool last; /* of minutes: the last of its rows */
};
struct history_index {
    struct history_area area;
    enum history_kind kind;
    struct history_block *items; /* oldest first */
    size_t first, count, cap;    /* items[first..first+count) */
    uint32_t next_page;
};
struct history_dir {
    uint32_t id, at; /* of the chunk in the block */
};
enum {
    HISTORY_DIR_MAX = 32768,      /* series in a block */
    HISTORY_BLOCK_ROWS_MAX = 8192 /* rows of a block */
};

/* A block in the making: chunks are added in the order of ids. */
struct history_making {
    struct buf times, chunks;
    struct history_dir *dir;
    size_t count, cap;
    struct history_block block;
};
void history_making_begin(struct history_making *m, uint64_t seq, uint64_t seq_last);
void history_making_times(struct history_making *m, const int64_t *times, size_t rows);
/* The chunk of a series: adds to m->chunks between begin and end. */
void history_making_chunk(struct history_making *m, uint32_t id);
void history_making_chunk_end(struct history_making *m);
void history_making_release(struct history_making *m);
/* Writes it behind the newest.  Not in the index before history_block_add(), which the caller calls
 * when it is synced. */
enum rc history_block_write(struct history *r, struct history_index *x, struct history_making *m,
                            struct err *err) MUST_USE;
void history_block_add(struct history *r, struct history_index *x, const struct history_block *b);
void history_block_add_locked(struct history_index *x,
                              const struct history_block *b);        /* r->lock held */
void history_block_scan(struct history *r, struct history_index *x); /* at the start */
/* Head, times and directory; false: it is no longer there, or damaged. */
struct history_opened {
    struct history_block block;
    uint64_t at;     /* in the file */
    struct buf head; /* owned, used again by the next */
    const uint8_t *times;
    uint32_t times_len;
    const struct history_dir *dir; /* sorted by id; both in head */
};
bool history_block_open(struct history *r, const struct history_index *x,
                        const struct history_block *b, struct history_opened *out);
bool history_opened_times(const struct history_opened *o, int64_t *out);
/* Where a series' chunk lies: false, none. */
bool history_opened_chunk(const struct history_opened *o, uint32_t id, uint32_t *at, uint32_t *len);
/* Checks a chunk as read; the payload behind its checksum. */
bool history_chunk_good(const struct history_block *b, uint32_t id, const uint8_t *p, size_t len);
enum { HISTORY_CHUNK_HEAD = 4 };
/* Every chunk as well. */
bool history_block_whole(struct history *r, const struct history_index *x,
                         const struct history_block *b);
void history_index_drop_newest(struct history *r, struct history_index *x);
/* Copies blocks that fit, newest first, into another file. */
enum rc history_index_copy(struct history *from, const struct history_index *x, struct history *to,
                           struct history_index *y, struct err *err) MUST_USE;

/* ---- the log: rows that lie in no block yet */
struct history_rows {
    double *values; /* [rows_cap][slot_cap] */
    int64_t *times; /* [HISTORY_ROWS_MAX] */
    uint32_t *ids;  /* [slot_cap] */
    size_t rows, rows_cap, slots, slot_cap;
    uint64_t seq; /* of the first row */
};
struct history_log {
    unsigned half;
    uint64_t end;     /* in the half */
    uint64_t key_seq; /* record that the next ones refer to; 0: none */
    double *key;      /* its values, [slot_cap] */
    size_t key_slots;
    struct buf record;
};
/* Puts the row in the log and syncs; RC_LIMIT with *full: the half has no room. */
enum rc history_log_put(struct history *r, int64_t time_ns, const double *row, bool *full,
                        struct err *err) MUST_USE;
/* Rows behind `folded` that the log still has, as rows and blocks. */
enum rc history_log_recover(struct history *r, uint64_t folded, struct err *err) MUST_USE;

/* ---- minutes */
struct history_fold {
    bool active, look;      /* look: a block of seconds came */
    uint64_t seq, seq_last; /* rows */
    uint32_t next_id;
};
/* Once an append: goes on with what is due, one block at a time. */
enum rc history_fold_turn(struct history *r, struct err *err) MUST_USE;
/* All that is due before seconds up to `seq` may be written over. */
enum rc history_fold_until(struct history *r, uint64_t seq, struct err *err) MUST_USE;
void history_fold_resume(struct history *r); /* after the scan */

struct history {
    struct history_file file;
    pthread_mutex_t writer, lock;
    struct history_dict dict;
    struct history_index seconds, minutes;
    struct history_rows rows;
    struct history_log log;
    struct history_fold fold;
    uint64_t next_seq, folded; /* rows up to `folded` lie in blocks */
    uint64_t minuted;          /* rows up to it are minutes too */
    int64_t last_ns;           /* of the newest row */
    /* of the table that was appended last */
    const struct telemetry *table;
    size_t table_count;
    uint64_t table_hash;  /* of its first and last series */
    bool search;          /* rows hold series of another table, or of before a start */
    uint32_t *ids;        /* by its id: ours; 0: not asked yet; UINT32_MAX: refused */
    uint32_t *slots;      /* by its id: slot + 1 in r->rows; 0: none */
    uint8_t *keep;        /* by its id: rounded or not */
    uint32_t *generation; /* by its id: telemetry_generation() when it was mapped */
    uint64_t renewed;     /* of the table, when it was looked at */
    size_t map_cap;
    double *row; /* [slot_cap] */
    uint64_t event_seq;
    uint64_t bad_blocks; /* under lock */
    char *moved;         /* owned: where a damaged one went; NULL: none */
};
enum rc history_fold_rows(struct history *r, struct err *err) MUST_USE; /* rows become a block */
void history_rows_reset(struct history *r, size_t want_slots);          /* makes room, empties */
void history_forget_map(struct history *r); /* ids may have gone: they are asked for again */
void history_events_load(struct history *r);
enum rc history_events_copy(struct history *from, struct history *to, struct err *err) MUST_USE;
void history_bad(struct history *r); /* counts a damaged block */

/* Chunks of a few series from many blocks: read in one pass over the file, decoded from memory. */
struct history_piece {
    struct history_block block;
    size_t times; /* index of its first row in reader.times */
    struct {
        size_t at;
        uint32_t len; /* 0: the block has none */
    } chunk[HISTORY_GROUP_MAX];
};
enum { HISTORY_READ_MAX = 64 << 20 }; /* bytes of chunks read for one group */
struct history_reader {
    struct history *r;
    const uint32_t *ids; /* sorted */
    size_t id_count;     /* up to HISTORY_GROUP_MAX */
    struct history_piece *pieces;
    size_t count, cap;
    int64_t *times;
    size_t time_count, time_cap;
    struct buf bytes; /* payloads */
    struct history_opened opened;
};
void history_reader_init(struct history_reader *d, struct history *r, const uint32_t *ids,
                         size_t count);
/* Adds what the block has of the series; a block that has gone or is damaged adds nothing. */
void history_reader_add(struct history_reader *d, const struct history_index *x,
                        const struct history_block *b);
void history_reader_release(struct history_reader *d);

/* A chunk of minutes. */
struct history_minutes {
    double *last, *min, *max, *mean, *count; /* [rows]; count 0: unknown */
};
int64_t history_minute_of(int64_t t);                               /* its begin */
void history_minutes_alloc(struct history_minutes *m, size_t rows); /* one block: free(m->last) */
bool history_minutes_get(const uint8_t *p, size_t len, size_t rows, struct history_minutes *out);

#endif

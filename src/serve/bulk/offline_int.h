/* SPDX-License-Identifier: MIT */
/* offline: OpenAI's batches: files of requests that are answered when there is time.
 *
 *     validating ─► in_progress ─► finalizing ─► completed
 *         └► failed     ├─ its window passed ──► expired
 *                       └─ cancelling ─────────► cancelled
 *
 * A batch belongs to the store (its lock holds); threads of offline_run.c carry it forward.  How
 * far one has come is not noted anywhere but in its answers: each names the line of its request
 * ("batch_req_ID_LINE"), so that a server which was killed reads them again, cuts off a torn one
 * and goes on with the lines that have none. */
#ifndef SERVE_BULK_OFFLINE_INT_H
#define SERVE_BULK_OFFLINE_INT_H
#include "serve/bulk/store_int.h"

enum {
    OFFLINE_LINES_MAX = 50000,         /* requests of a batch, as OpenAI takes */
    OFFLINE_LINE_BYTES_MAX = 32 << 20, /* of one of them */
    OFFLINE_ERRORS_MAX = 100,          /* faults of an input that are told */
    OFFLINE_ACTIVE_MAX = 100,          /* batches of a client that have not ended */
    OFFLINE_METADATA_MAX = 16,         /* pairs */
    OFFLINE_WINDOW_S_MAX = 7 * 86400,  /* of completion_window */
    OFFLINE_RUNNERS = 4                /* batches that are carried forward at a time */
};

enum offline_status {
    OFFLINE_VALIDATING,
    OFFLINE_FAILED,
    OFFLINE_IN_PROGRESS,
    OFFLINE_FINALIZING,
    OFFLINE_COMPLETED,
    OFFLINE_EXPIRED,
    OFFLINE_CANCELLING,
    OFFLINE_CANCELLED,
    OFFLINE_STATUSES
};

struct offline_batch {
    struct offline_batch *next; /* newer ones first */
    char id[STORE_ID_MAX], owner[REQUEST_OWNER_BYTES], endpoint[32], window[16];
    char input[STORE_ID_MAX];
    enum offline_status status;
    int64_t created, expires;          /* seconds */
    int64_t entered[OFFLINE_STATUSES]; /* when a status was entered; 0: never */
    int64_t output_expires_s;          /* of its output files; 0: the store's */
    uint64_t total, completed, failed;
    bool has_output, has_error;
    char *metadata; /* JSON, owned; NULL: none */
    char *errors;   /* a JSON array, owned; NULL: none */
    bool running;   /* a runner has it */
    _Atomic bool cancel;
};

/* All with the store's lock held. */
bool offline_has_ended(const struct offline_batch *b);
struct offline_batch *offline_find(struct store *st, const char *id, const char *owner);
struct offline_batch *offline_of_id(struct store *st, const char *id); /* whoever's it is */
bool offline_needs_file(struct store *st,
                        const char *file_id); /* a batch that has not ended does */
/* The file that holds its answers, or its errors. */
void offline_file_id(const struct offline_batch *b, bool errors, char out[STORE_ID_MAX]);
void offline_json(const struct offline_batch *b, struct json_out *w);
enum rc offline_save(struct store *st, const struct offline_batch *b, struct err *err) MUST_USE;
void offline_enter(struct offline_batch *b, enum offline_status status); /* and when */
/* Takes `b` (from malloc) in; RC_LIMIT: there are too many. */
enum rc offline_add(struct store *st, struct offline_batch *b, struct err *err) MUST_USE;
void offline_load(struct store *st, const char *name, const struct json *doc);
void offline_expire(struct store *st, int64_t now_s);
void offline_free(struct store *st);

/* ---- offline_check.c: the input of a batch, a pass over a file; no lock */
struct offline_line { /* borrowed from the arena */
    const char *custom_id;
    const struct json *body;
};
/* False: *code and why say what is wrong. */
bool offline_line_read(struct arena *a, const char *text, size_t len, const char *endpoint,
                       struct offline_line *out, const char **code, char *why, size_t why_cap);
/* The number of lines and, where something is wrong, a JSON array of faults in *out_errors. */
enum rc offline_check(const char *path, const char *endpoint, uint64_t *out_lines,
                      struct buf *out_errors, struct err *err) MUST_USE;

/* Lines of a file, one after another, in bounded memory. */
struct line_reader {
    int fd;
    struct buf held;
    size_t at;
    uint64_t number; /* of the line that was given last, from 1 */
    bool end;
};
enum rc line_reader_open(struct line_reader *r, const char *path, struct err *err) MUST_USE;
void line_reader_close(struct line_reader *r);
/* A line without its end, borrowed until the next; RC_OK and *out NULL at the end of the file.
 * One that is too long has *out_len above OFFLINE_LINE_BYTES_MAX and no text that counts. */
enum rc line_reader_next(struct line_reader *r, const char **out, size_t *out_len,
                         struct err *err) MUST_USE;

/* ---- offline_run.c */
struct offline_runners;
enum rc offline_runners_start(struct serve *s, struct store *st, struct offline_runners **out,
                              struct err *err) MUST_USE;
/* What is under way is left as it is, to be gone on with by the next server. */
void offline_runners_stop(struct offline_runners *r); /* NULL is fine */

#endif

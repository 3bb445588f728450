/* SPDX-License-Identifier: MIT */
/* store: the folder of files and batches (--batch-dir).
 *
 *     DIR/lock                 one server at a time
 *     DIR/tmp/ID               uploads that are not whole; removed at the start
 *     DIR/files/ID.data, .json a file, and what is known of it: the latter makes it one
 *     DIR/batches/ID.json      a batch: OpenAI's object and its owner
 *     DIR/batches/ID.out, .err what is answered of it so far, a line a request
 *
 * Invariants: data is on the disk before the .json that tells of it; a .json appears whole or not
 * at all; what has no .json is nobody's and is removed at the start.  So a server that is killed at
 * any point finds what it had told its clients.  Every byte of files and answers is counted
 * against one limit.
 *
 * One lock holds all of it, also while the disk is written: no thread of the HTTP server may take
 * it.  Owners are hashes (serve_int.h); nobody finds what is another's. */
#ifndef SERVE_BULK_STORE_INT_H
#define SERVE_BULK_STORE_INT_H
#include "base/text/json.h"
#include "os/file.h"
#include "serve/serve_int.h"

#include <pthread.h>

enum {
    STORE_ID_MAX = 48,                          /* bytes of an id, NUL included */
    STORE_NAME_MAX = 256,                       /* bytes of a file's name, NUL included */
    STORE_FILES_MAX = 10000,                    /* files of all clients */
    STORE_BATCHES_MAX = 10000,                  /* batches that are remembered */
    STORE_META_BYTES_MAX = 1 << 20,             /* of a .json */
    STORE_UPLOAD_BYTES_MAX = 200 * 1000 * 1000, /* of a file for a batch, as OpenAI takes */
    STORE_EXPIRY_S_MIN = 1,                     /* of expires_after */
    STORE_EXPIRY_S_MAX = 365 * 86400            /* of expires_after */
};

struct stored_file {
    struct stored_file *next; /* newer ones first */
    char id[STORE_ID_MAX], owner[REQUEST_OWNER_BYTES], name[STORE_NAME_MAX], purpose[16];
    uint64_t bytes;
    int64_t created, expires; /* seconds; expires 0: never */
};

struct offline_batch;

struct store {
    char *dir;
    int lock_fd;
    uint64_t bytes, bytes_max;
    int64_t expiry_s;
    pthread_mutex_t lock;
    pthread_cond_t more; /* a batch is new or changed, or the end was asked for */
    struct stored_file *files;
    size_t file_count;
    struct offline_batch *batches; /* newer ones first */
    size_t batch_count;
    _Atomic bool stop;
};

struct store_opts {
    const char *dir;
    uint64_t bytes_max; /* 0: STORE_BYTES_DEFAULT */
    int64_t expiry_s;   /* of what names none; 0: STORE_EXPIRY_S_DEFAULT */
};

/* RC_LIMIT: another server has the folder. */
enum rc store_open(const struct store_opts *o, struct store **out, struct err *err) MUST_USE;
void store_close(struct store *st); /* NULL is fine */
void store_stop(struct store *st);  /* whoever waits or works for it comes to an end */

/* ---- the lock is held */
struct stored_file *store_file_find(struct store *st, const char *id, const char *owner);
void store_file_json(const struct stored_file *f, struct json_out *w);
/* Forgets and removes it. */
void store_file_drop(struct store *st, struct stored_file *f);
/* Makes a file of the owner of what lies at `path` already, unless it is one; the name is taken
 * from `id`. */
enum rc store_file_adopt(struct store *st, const struct stored_file *f, const char *path,
                         struct err *err) MUST_USE;
/* Counts bytes that are about to be written; RC_LIMIT: they are too many. */
enum rc store_take_space(struct store *st, uint64_t bytes, struct err *err) MUST_USE;
void store_give_space(struct store *st, uint64_t bytes);
void store_expire(struct store *st, int64_t now_s); /* drops what is past its time */
/* "DIR/folder/ID.ext". */
void store_path(const struct store *st, char *out, size_t cap, const char *folder, const char *id,
                const char *ext);
void store_new_id(char out[STORE_ID_MAX], const char *prefix);
/* A member that is a text; false: it is none, or too long. */
bool store_copy(const struct json *doc, const char *name, char *out, size_t cap);
/* Writes a .json whole: `text` is its content. */
enum rc store_write_meta(const char *path, const struct buf *text, struct err *err) MUST_USE;

/* ---- uploads: the lock is not held */
struct store_upload {
    struct store *st;
    struct stored_file file; /* its maker sets owner, name, purpose and expires */
    char path[FILE_PATH_MAX];
    int fd;
};
enum rc store_upload_open(struct store *st, struct store_upload *u, struct err *err) MUST_USE;
/* RC_LIMIT: the file, the folder or the disk is full. */
enum rc store_upload_write(struct store_upload *u, const char *data, size_t len,
                           struct err *err) MUST_USE;
/* To the disk; from then on it can be found.  Or it is thrown away. */
enum rc store_upload_commit(struct store_upload *u, struct err *err) MUST_USE;
void store_upload_abort(struct store_upload *u); /* also after a commit */

#endif

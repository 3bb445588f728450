/* SPDX-License-Identifier: MIT */
/* hub_int: what the files of the Hub share.
 *
 *   hub_list.c   names, the list of a repository's files, which of them a model needs: pure
 *   hub_cache.c  folders, refs, links and locks of the cache
 *   hub_blob.c   one file: resumed, checked, put in place
 *   hub.c        a model: the questions, the threads
 */
#ifndef MODEL_HUB_HUB_INT_H
#define MODEL_HUB_HUB_INT_H
#include "base/arena.h"
#include "model/hub/hub.h"
#include "os/file.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- hub_list.c */
struct hub_file {
    const char *path;            /* checked: inside the folder, HUB_PATH_BYTES_MAX */
    char etag[HUB_ETAG_MAX + 1]; /* name of its blob: digest, lower case; "": not told */
    int64_t bytes;               /* -1: not told */
    bool wanted;
};
struct hub_list {
    struct arena arena;
    char commit[41];
    struct hub_file *files; /* in the arena */
    size_t count;
};
/* What /api/models/NAME/revision/REV answers. */
enum rc hub_list_parse(const char *text, size_t len, struct hub_list *out,
                       struct err *err) MUST_USE;
void hub_list_release(struct hub_list *l);
/* Folders of modules.json, in the arena; *count of them, "" is none. */
enum rc hub_modules_parse(const char *text, size_t len, struct arena *a, const char **out,
                          size_t *count, struct err *err) MUST_USE;
/* Marks what a model needs of the root and of these folders. */
void hub_list_choose(struct hub_list *l, const char *const *folders, size_t count);
struct hub_file *hub_list_find(struct hub_list *l, const char *path); /* NULL: none */
/* W/"x" and "x" are x; false: nothing that names a file. */
bool hub_etag_parse(const char *text, char out[HUB_ETAG_MAX + 1]);
bool hub_commit_ok(const char *text); /* 40 hexadecimal digits */
/* Adds `text` with all but letters, digits, "-._~" and, with `slashes`, "/" as %XX. */
void hub_add_quoted(struct buf *out, const char *text, bool slashes);

/* ---- hub_cache.c */
bool hub_is_offline(void); /* HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE */
struct hub_cache {
    char repo[FILE_PATH_MAX];  /* …/models--ORG--NAME */
    char locks[FILE_PATH_MAX]; /* …/.locks/models--ORG--NAME */
};
enum rc hub_cache_of(const struct hub_name *n, struct hub_cache *out, struct err *err) MUST_USE;
enum rc hub_home(char *out, size_t cap, struct err *err) MUST_USE; /* $HF_HOME */
enum rc hub_cache_home(char *out, size_t cap, struct err *err) MUST_USE;
bool hub_is_whole(const char *dir); /* has it configuration and weights? */
enum rc hub_blob_path(const struct hub_cache *c, const char *etag, const char *tail, char *out,
                      size_t cap, struct err *err) MUST_USE;
enum rc hub_snapshot_path(const struct hub_cache *c, const char *commit, const char *file,
                          char *out, size_t cap, struct err *err) MUST_USE;
/* The commit a revision is in the cache; RC_NODEV: unknown. */
enum rc hub_ref_read(const struct hub_cache *c, const char *revision, char out[41],
                     struct err *err) MUST_USE;
enum rc hub_ref_write(const struct hub_cache *c, const char *revision, const char *commit,
                      struct err *err) MUST_USE;
/* snapshots/COMMIT/FILE is a link to blobs/ETAG; a copy where links are not possible. */
enum rc hub_link(const struct hub_cache *c, const char *commit, const struct hub_file *f,
                 struct err *err) MUST_USE;
/* Waits for whoever fetches this blob; -1 where locks are not possible.  close() ends it. */
int hub_lock(const struct hub_cache *c, const char *etag);

/* ---- hub_blob.c: one file at a time, one fetcher a thread */
struct hub_fetch { /* shared by the threads */
    struct url endpoint;
    struct hub_name name;
    const char *token; /* NULL: none */
    struct web_trust trust;
    struct hub_cache cache;
    char commit[41];
    bool check;                   /* what is there is hashed too */
    _Atomic uint64_t bytes, came; /* there so far; over the network */
    _Atomic bool stop;            /* another thread failed */
};
/* "/ORG/NAME/resolve/COMMIT/FILE" */
void hub_file_path(const struct hub_fetch *h, const char *file, struct buf *out);
/* What a status means for somebody who wants this model; RC_OK for 2xx. */
enum rc hub_status(const struct hub_fetch *h, const struct web_reply *r, const char *what,
                   struct err *err) MUST_USE;
/* Sends once more what may work later: 5xx, 429, broken connections.  In hub.c. */
enum rc hub_request(struct hub_fetch *h, struct web *w, struct web_request *q,
                    struct web_reply *out, struct err *err) MUST_USE;
/* Before try `n` (from 1); `after_s` as the server asked, -1: not. */
void hub_pause(const struct hub_fetch *h, int n, int64_t after_s);
enum rc hub_blob_fetch(struct hub_fetch *h, struct web *w, const struct hub_file *f,
                       struct err *err) MUST_USE;

#endif

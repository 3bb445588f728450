/* SPDX-License-Identifier: MIT */
/* hub: models of the Hugging Face Hub, or of a server that speaks its routes (HF_ENDPOINT).
 *
 * A name ORG/NAME stands for a folder in the Hub's own cache, which huggingface_hub and we share:
 *
 *     $HF_HUB_CACHE/models--ORG--NAME/refs/main                 the commit that `main` was last
 *                                     snapshots/COMMIT/FILE ──► ../../blobs/ETAG
 *                                     blobs/ETAG                sha256 of large files, git's sha1
 *                                                               of others
 *                                     blobs/ETAG.incomplete     a download to go on with
 *     $HF_HUB_CACHE/.locks/models--ORG--NAME/ETAG.lock          one process at a time
 *
 * hub_get() asks which commit a revision is and which files it has, takes those that a model needs,
 * several at a time, checks every one against its digest, and writes the ref last: a folder that is
 * found by its ref is whole.  Nothing of a repository is run. */
#ifndef MODEL_HUB_HUB_H
#define MODEL_HUB_HUB_H
#include "base/err.h"
#include "os/net/web.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HUB_NAME_MAX = 96,               /* bytes of ORG/NAME */
    HUB_REVISION_MAX = 255,          /* of a branch, tag or commit */
    HUB_LIST_BYTES_MAX = 32 << 20,   /* of a list of files */
    HUB_LIST_FILES_MAX = 65536,      /* files of a repository */
    HUB_FILES_MAX = 1024,            /* files of a model */
    HUB_PATH_BYTES_MAX = 1024,       /* of a file's name in a repository */
    HUB_ETAG_MAX = 128,              /* bytes of a digest */
    HUB_SIZE_MAX_GIB = 512,          /* of a model */
    HUB_MODULES_BYTES_MAX = 1 << 20, /* of modules.json */
    HUB_MODULES_MAX = 32,            /* folders of a sentence-transformers model */
    HUB_THREADS_MAX = 4,             /* files at a time */
    HUB_TRIES_MAX = 5,               /* without a byte between them */
    HUB_STALL_MS = 30000,            /* without a byte before a download is tried again */
    HUB_ASK_MS = 30000,              /* for an answer about a model */
    HUB_WAIT_MS_MAX = 60000          /* before a try, also when the server asks for more */
};

/* ---- names */
struct hub_name {
    char repo[HUB_NAME_MAX + 1];         /* "org/name" */
    char revision[HUB_REVISION_MAX + 1]; /* "main" unless the text has @REVISION */
};
/* "org/name" or "org/name@revision", as the Hub allows them; false: it is not one. */
bool hub_name_parse(const char *text, struct hub_name *out);
bool hub_revision_ok(const char *text);

/* ---- what is here already; no network */
/* RC_NODEV: it is not in the cache, or not whole. */
enum rc hub_find(const struct hub_name *n, char *out, size_t cap, struct err *err) MUST_USE;
/* What the cache has: a row for each snapshot, and one for a repository that has none yet. */
struct hub_listed {
    char repo[HUB_NAME_MAX + 1];
    char revision[HUB_REVISION_MAX + 1]; /* a ref that leads there; "": none does */
    char commit[41];                     /* "": nothing but parts of files is there */
    char dir[4096];
    uint64_t bytes; /* of the files of the snapshot, or of those parts */
    bool whole;     /* `-m ORG/NAME` takes it */
};
enum { HUB_LISTED_MAX = 1024 };
/* Up to `max` rows, by name; RC_OK also when there is no cache. */
enum rc hub_list(struct hub_listed *out, size_t max, size_t *out_count, struct err *err) MUST_USE;

/* ---- fetching */
struct hub_progress {
    uint64_t bytes, total; /* of all files; what was there counts */
    uint64_t came;         /* over the network, by this call */
    size_t files, file_count;
};
struct hub_opts {
    struct hub_name name;
    const char *token_file; /* NULL: HF_TOKEN, HF_TOKEN_PATH, $HF_HOME/token */
    struct web_trust trust;
    bool check; /* files that are here are held against their digests, and fetched again if wrong */
    /* (optional) about five times a second, on the caller's thread */
    void (*progress)(void *arg, const struct hub_progress *p);
    void *arg;
};
struct hub_result {
    char dir[4096]; /* the snapshot */
    char commit[41];
    char **files; /* names below dir, owned */
    size_t file_count;
    size_t by_size; /* of them, those whose digest the server did not tell: checked by size only */
    uint64_t bytes, came;
    struct err stale; /* RC_OK; else the Hub could not be asked, and the cache's answer was taken */
};
enum rc hub_get(const struct hub_opts *o, struct hub_result *out, struct err *err) MUST_USE;
void hub_result_release(struct hub_result *r);

#endif

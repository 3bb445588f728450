/* SPDX-License-Identifier: MIT */
/* hub_blob: one file of a repository into blobs/ETAG.
 *
 *     there, and as long as it should be ──► done
 *     ETAG.incomplete ──► hashed, the rest asked for with Range ──► checked ──► renamed
 *
 * What breaks is asked for again from where it broke; tries count from the last byte that came.
 * A sum that is wrong after a resume gets one more try from the beginning, since somebody else may
 * have written the first part.  Bytes go to their place in the file (pwrite), so that two processes
 * on a file system whose locks do not work write the same bytes to the same places. */
#include "base/codec/sha1.h"
#include "base/codec/sha256.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/hub/hub_int.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUB_READ_MAX = 1 << 18, HUB_SHA256_DIGITS = 64, HUB_SHA1_DIGITS = 40 };

struct hub_blob {
    struct hub_fetch *h;
    const struct hub_file *f;
    char path[FILE_PATH_MAX], part[FILE_PATH_MAX]; /* the blob, what there is of it */
    int fd;
    uint64_t at;  /* bytes written and hashed */
    bool resumed; /* some of them are of an earlier run */
    bool begun;   /* the reply under way has been looked at */
    bool refused; /* a range was, once */
    struct sha256 sha256;
    struct sha1 sha1;
};

static void hash_reset(struct hub_blob *b)
{
    char head[40];
    int len = snprintf(head, sizeof(head), "blob %lld", (long long)b->f->bytes);

    b->at = 0;
    sha256_init(&b->sha256);
    sha1_init(&b->sha1);
    sha1_add(&b->sha1, head,
             (size_t)len + 1); /* git hashes a header before the file, NUL included */
}

static void hash_add(struct hub_blob *b, const void *p, size_t len)
{
    if (strlen(b->f->etag) == HUB_SHA256_DIGITS)
        sha256_add(&b->sha256, p, len);
    else
        sha1_add(&b->sha1, p, len);
    b->at += len;
    atomic_fetch_add(&b->h->bytes, len);
}

/* From the beginning: what was counted is taken back. */
static enum rc blob_restart(struct hub_blob *b, struct err *err)
{
    atomic_fetch_sub(&b->h->bytes, b->at);
    hash_reset(b);
    b->resumed = false;
    return ftruncate(b->fd, 0) ? err_sys(err, "could not empty '%s'", b->part) : RC_OK;
}

/* ---- what is there ---- */
static enum rc hash_file(struct hub_blob *b, int fd, const char *path, uint64_t size,
                         struct err *err)
{
    uint8_t *chunk = xmalloc(HUB_READ_MAX);
    enum rc rc = RC_OK;

    hash_reset(b);
    while (!rc && b->at < size) {
        size_t n = size - b->at < HUB_READ_MAX ? (size_t)(size - b->at) : HUB_READ_MAX;

        rc = file_pread(fd, path, b->at, chunk, n, err);
        if (!rc)
            hash_add(b, chunk, n);
    }
    free(chunk);
    return rc;
}

static enum rc blob_open(struct hub_blob *b, struct err *err)
{
    struct stat st;

    b->fd = open(b->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (b->fd < 0 || fstat(b->fd, &st))
        return err_sys(err, "could not write '%s'", b->part);
    hash_reset(b);
    if (st.st_size > b->f->bytes)
        return blob_restart(b, err);
    b->resumed = st.st_size > 0;
    return hash_file(b, b->fd, b->part, (uint64_t)st.st_size, err);
}

/* ---- what comes ---- */
/* A reply's first bytes: is it the rest, or all of it? */
static enum rc look_at_reply(struct hub_blob *b, const struct web_reply *r, struct err *err)
{
    char range[64];
    unsigned long long from;

    b->begun = true;
    if (r->status == 200)
        return b->at ? blob_restart(b, err) : RC_OK;
    if (r->status == 206 && web_header(r, "Content-Range", range, sizeof(range)) &&
        sscanf(range, "bytes %llu-", &from) == 1 && from == b->at)
        return RC_OK;
    return err_set(err, RC_PARSE, "'%s' came with status %d and not the bytes that were asked for",
                   b->f->path, r->status);
}

static enum rc take_piece(void *arg, const struct web_reply *r, const void *p, size_t len,
                          struct err *err)
{
    struct hub_blob *b = arg;
    const char *c = p;
    enum rc rc = b->begun ? RC_OK : look_at_reply(b, r, err);

    if (rc)
        return rc;
    if (b->at + len > (uint64_t)b->f->bytes)
        return err_set(err, RC_LIMIT, "'%s' is longer than the %lld bytes it was listed with",
                       b->f->path, (long long)b->f->bytes);
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(b->fd, c + done, len - done, (off_t)(b->at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "could not write '%s'", b->part);
        done += (size_t)n;
    }
    hash_add(b, p, len);
    atomic_fetch_add(&b->h->came, len);
    return RC_OK;
}

static bool is_stopped(void *arg)
{
    const struct hub_blob *b = arg;

    return atomic_load(&b->h->stop);
}

/* One try.  *out_again: it may be tried once more. */
static enum rc blob_try(struct hub_blob *b, struct web *w, struct web_reply *reply, bool *out_again,
                        struct err *err)
{
    struct buf path = { 0 };
    struct web_request q = { .to = &b->h->endpoint,
                             .token = b->h->token,
                             .from = b->at,
                             .stall_ms = HUB_STALL_MS,
                             .links = WEB_LINKS_ALL,
                             .take = take_piece,
                             .stop = is_stopped,
                             .arg = b };
    enum rc rc;

    hub_file_path(b->h, b->f->path, &path);
    q.path = buf_str(&path);
    b->begun = false;
    rc = web_send(w, &q, reply, err);
    buf_release(&path);
    *out_again =
        reply->fault == WEB_RESET || reply->fault == WEB_TIMEOUT || reply->fault == WEB_CONNECT;
    if (rc)
        return rc;
    if (reply->status == 416) { /* what is there is longer than the file, or of another one */
        *out_again = !b->refused;
        b->refused = true;
        rc = blob_restart(b, err);
        return rc ? rc : err_set(err, RC_FAIL, "'%s': the range was refused", b->f->path);
    }
    *out_again = reply->status == 429 || reply->status >= 500;
    rc = hub_status(b->h, reply, b->f->path, err);
    if (!rc && b->at < (uint64_t)b->f->bytes)
        rc = err_set(err, RC_PARSE, "'%s' has %llu bytes and was listed with %lld", b->f->path,
                     (unsigned long long)b->at, (long long)b->f->bytes);
    return rc;
}

static enum rc blob_download(struct hub_blob *b, struct web *w, struct err *err)
{
    struct web_reply reply = { 0 };
    bool again = true;
    enum rc rc = RC_OK;

    if (b->f->bytes && b->at == (uint64_t)b->f->bytes)
        return RC_OK; /* it was whole, and not renamed */
    for (int tries = 1;; tries++) {
        uint64_t before = b->at;

        *err = (struct err){ 0 };
        rc = blob_try(b, w, &reply, &again, err);
        if (b->at > before)
            tries = 1;
        if (!rc || !again || tries >= HUB_TRIES_MAX || atomic_load(&b->h->stop))
            break;
        hub_pause(b->h, tries, reply.retry_after_s);
    }
    web_reply_release(&reply);
    return rc;
}

/* ---- what it is ---- */
static bool sum_right(struct hub_blob *b)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    size_t digits = strlen(b->f->etag);

    if (digits == HUB_SHA256_DIGITS) {
        sha256_end(&b->sha256, sum);
        return !strcasecmp(sha256_hex(sum, hex), b->f->etag);
    }
    if (digits == HUB_SHA1_DIGITS) {
        sha1_end(&b->sha1, sum);
        return !strcasecmp(sha1_hex(sum, hex), b->f->etag);
    }
    return true; /* a digest of another kind: its size is what there is */
}

static enum rc blob_make(struct hub_blob *b, struct web *w, struct err *err)
{
    bool resumed;
    enum rc rc = blob_open(b, err);

    do {
        resumed = b->resumed;
        if (!rc)
            rc = blob_download(b, w, err);
        if (rc || sum_right(b))
            break;
        rc = blob_restart(b, err);
        if (!rc && !resumed) {
            (void)unlink(b->part);
            err_hint(err,
                     "Try again; if it stays so, the server or a proxy before it changes files.");
            rc = err_set(err, RC_FAIL, "'%s' is damaged: it does not have the digest %s",
                         b->f->path, b->f->etag);
        }
    } while (!rc && resumed);
    if (!rc && (fsync(b->fd) || rename(b->part, b->path)))
        rc = err_sys(err, "could not put '%s' in place", b->path);
    if (b->fd >= 0)
        close(b->fd);
    return rc;
}

/* As long as it should be and, where that is asked for, with the right sum. */
static bool blob_there(struct hub_blob *b)
{
    uint64_t size = 0;
    bool right;
    int fd;

    if (file_open(b->path, &fd, &size, NULL))
        return false;
    right = size == (uint64_t)b->f->bytes;
    if (right && b->h->check) {
        right = !hash_file(b, fd, b->path, size, NULL) && sum_right(b);
        atomic_fetch_sub(&b->h->bytes, b->at); /* counted once, below */
    }
    close(fd);
    return right;
}

enum rc hub_blob_fetch(struct hub_fetch *h, struct web *w, const struct hub_file *f,
                       struct err *err)
{
    struct hub_blob *b = xcalloc(1, sizeof(*b));
    bool there;
    int lock = -1;
    enum rc rc;

    b->h = h;
    b->f = f;
    b->fd = -1;
    rc = hub_blob_path(&h->cache, f->etag, "", b->path, sizeof(b->path), err);
    if (!rc)
        rc = hub_blob_path(&h->cache, f->etag, ".incomplete", b->part, sizeof(b->part), err);
    there = !rc && blob_there(b);
    if (!rc && !there) {
        lock = hub_lock(&h->cache, f->etag);
        there = blob_there(b); /* somebody else may have brought it meanwhile */
    }
    if (there)
        atomic_fetch_add(&h->bytes, (uint64_t)f->bytes);
    else if (!rc)
        rc = blob_make(b, w, err);
    if (!rc)
        rc = hub_link(&h->cache, h->commit, f, err);
    if (lock >= 0)
        close(lock);
    free(b);
    return rc;
}

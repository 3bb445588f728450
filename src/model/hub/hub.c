/* SPDX-License-Identifier: MIT */
/* hub: the questions about a model, and the threads that fetch its files. */
#include "model/hub/hub_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"

#include <dirent.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define HUB_ENDPOINT   "https://huggingface.co"
#define HUB_LOOK_NS    INT64_C(200000000) /* between two lines of progress */
#define HUB_BACKOFF_MS 500                /* before the second try, then twice as long */

enum { HUB_TOKEN_MAX = 1024, HUB_SPARE_BYTES = 64 << 20 /* left free on the disk */ };

struct hub_job { /* one model */
    const struct hub_opts *o;
    struct hub_fetch h;
    struct hub_list list;
    char token[HUB_TOKEN_MAX + 1];
    uint64_t total;
    size_t wanted;
    bool refused; /* the Hub was asked, and said no */
    /* ---- the threads' */
    pthread_mutex_t lock;
    pthread_cond_t change;
    size_t next, running, done; /* file to take; threads; files that are there */
    struct err err;             /* of the first that failed */
};

/* ---- asking ---- */
void hub_pause(const struct hub_fetch *h, int n, int64_t after_s)
{
    int64_t ms = (int64_t)HUB_BACKOFF_MS << (n > 6 ? 6 : n - 1), until;

    if (after_s >= 0 && after_s < HUB_WAIT_MS_MAX / 1000)
        ms = after_s * 1000;
    if (ms > HUB_WAIT_MS_MAX)
        ms = HUB_WAIT_MS_MAX;
    for (until = clock_mono_ms() + ms; clock_mono_ms() < until && !atomic_load(&h->stop);) {
        struct timespec t = { 0, 20000000 };

        (void)nanosleep(&t, NULL);
    }
}

static void hint_access(const struct hub_fetch *h, struct err *err)
{
    char host[URL_AUTHORITY_MAX];

    err_hint(err,
             "Ask for access at %s://%s%s/%s, and give a token that may read it: HF_TOKEN, "
             "--token-file, or 'hf auth login'.",
             h->endpoint.tls ? "https" : "http",
             h->endpoint.tls && str_eq(h->endpoint.port, "443") ? h->endpoint.host
                                                                : url_authority(&h->endpoint, host),
             h->endpoint.prefix, h->name.repo);
}

enum rc hub_status(const struct hub_fetch *h, const struct web_reply *r, const char *what,
                   struct err *err)
{
    const char *repo = h->name.repo, *revision = h->name.revision;
    char code[64] = "";

    if (r->status >= 200 && r->status < 300)
        return RC_OK;
    (void)web_header(r, "X-Error-Code", code, sizeof(code));
    if (str_eq(code, "GatedRepo") || r->status == 403) {
        hint_access(h, err);
        return err_set(err, RC_FAIL, "model '%s' is gated: %s", repo,
                       h->token ? "this token may not read it" : "no token was given");
    }
    if (r->status == 401 && h->token && !code[0]) {
        err_hint(err, "Look at HF_TOKEN, --token-file or the file of 'hf auth login'.");
        return err_set(err, RC_FAIL, "the Hub refuses the token (model '%s')", repo);
    }
    if (str_eq(code, "RevisionNotFound"))
        return err_set(err, RC_NODEV, "model '%s' has no revision '%s'", repo, revision);
    if (str_eq(code, "EntryNotFound"))
        return err_set(err, RC_NODEV, "model '%s' has no file '%s'", repo, what);
    if (r->status == 401 || r->status == 404 || str_eq(code, "RepoNotFound")) {
        err_hint(err, "Look at its spelling; one that is private needs a token: HF_TOKEN or "
                      "--token-file.");
        return err_set(err, RC_NODEV, "there is no model '%s' (%s) for %s", repo, revision,
                       h->token ? "this token" : "somebody without a token");
    }
    if (r->status == 429)
        err_hint(err, "The Hub asks for fewer requests: wait, or give a token.");
    return err_set(err, RC_FAIL, "the Hub answered %d about '%s'", r->status, what);
}

enum rc hub_request(struct hub_fetch *h, struct web *w, struct web_request *q,
                    struct web_reply *out, struct err *err)
{
    enum rc rc = RC_OK;

    q->to = &h->endpoint;
    q->token = h->token;
    q->timeout_ms = HUB_ASK_MS;
    for (int tries = 1;; tries++) {
        bool again;

        *err = (struct err){ 0 };
        rc = web_send(w, q, out, err);
        again = rc ? out->fault == WEB_RESET || out->fault == WEB_TIMEOUT
                   : out->status == 429 || out->status >= 500;
        if (!again || tries >= HUB_TRIES_MAX)
            break;
        hub_pause(h, tries, out->retry_after_s);
    }
    if (rc && out->fault != WEB_TLS && out->fault != WEB_LIBRARY && out->fault != WEB_LIMIT)
        err_hint(err, "Without a way to the Hub: set HF_ENDPOINT to a server that mirrors it or "
                      "HTTPS_PROXY to a proxy, or run 'stoker model get ORG/NAME -o DIR' where "
                      "there is a network and bring the folder here.");
    return rc;
}

void hub_file_path(const struct hub_fetch *h, const char *file, struct buf *out)
{
    buf_addf(out, "/%s/resolve/%s/", h->name.repo, h->commit);
    hub_add_quoted(out, file, true);
}

/* ---- the environment ---- */
static enum rc read_endpoint(struct hub_fetch *h, struct err *err)
{
    const char *text = getenv("HF_ENDPOINT");

    if (url_parse(text && text[0] ? text : HUB_ENDPOINT, &h->endpoint, err))
        return err_ctx(err, "HF_ENDPOINT");
    if (h->endpoint.socket[0])
        return err_set(err, RC_USAGE, "HF_ENDPOINT is http:// or https://");
    return RC_OK;
}

/* Printable and without spaces, so that it stays one header. */
static enum rc take_token(struct hub_job *j, const char *text, const char *from, struct err *err)
{
    size_t len = strlen(text);

    if (!len)
        return RC_OK;
    if (len > HUB_TOKEN_MAX)
        return err_set(err, RC_LIMIT, "the token of %s is longer than %d bytes", from,
                       HUB_TOKEN_MAX);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return err_set(err, RC_PARSE, "the token of %s holds what no token has", from);
    memcpy(j->token, text, len + 1);
    j->h.token = j->token;
    return RC_OK;
}

static enum rc token_of_file(struct hub_job *j, const char *path, bool must, struct err *err)
{
    struct buf text = { 0 };
    enum rc rc = file_read(path, HUB_TOKEN_MAX + 2, &text, must ? err : NULL);

    if (!rc && text.len && memchr(text.data, '\0', text.len))
        rc = err_set(err, RC_PARSE, "the token of %s holds what no token has", path);
    else if (!rc && text.len)
        rc = take_token(j, str_trim(text.data), path, err);
    else if (rc && !must)
        rc = RC_OK;
    buf_release(&text);
    return rc;
}

static enum rc read_token(struct hub_job *j, struct err *err)
{
    const char *of_env = getenv("HF_TOKEN"), *path = getenv("HF_TOKEN_PATH");
    char home[FILE_PATH_MAX], file[FILE_PATH_MAX];

    if (j->o->token_file)
        return token_of_file(j, j->o->token_file, true, err);
    if (!of_env || !of_env[0])
        of_env = getenv("HUGGING_FACE_HUB_TOKEN");
    if (of_env && of_env[0]) {
        char text[HUB_TOKEN_MAX + 2];

        (void)str_copy(text, sizeof(text), of_env);
        return take_token(j, str_trim(text), "HF_TOKEN", err);
    }
    if (path && path[0])
        return token_of_file(j, path, false, err);
    if (hub_home(home, sizeof(home), NULL) || file_join(file, sizeof(file), home, "token", NULL))
        return RC_OK;
    return token_of_file(j, file, false, err);
}

/* ---- which files ---- */
static enum rc request_list(struct hub_job *j, struct web *w, struct err *err)
{
    struct buf path = { 0 };
    struct web_request q = { .accept = "application/json",
                             .links = WEB_LINKS_HERE, /* a repository that has another name now */
                             .body_max = HUB_LIST_BYTES_MAX };
    struct web_reply r = { 0 };
    enum rc rc;

    buf_addf(&path, "/api/models/%s/revision/", j->h.name.repo);
    hub_add_quoted(&path, j->h.name.revision, false);
    buf_adds(&path, "?blobs=true");
    q.path = buf_str(&path);
    rc = hub_request(&j->h, w, &q, &r, err);
    if (!rc) {
        j->refused = r.status >= 400 && r.status < 500 && r.status != 429;
        rc = hub_status(&j->h, &r, j->h.name.repo, err);
    }
    if (!rc && hub_list_parse(buf_str(&r.body), r.body.len, &j->list, err)) {
        err_hint(err, "Is HF_ENDPOINT a server that speaks the Hub's routes?");
        rc = err_ctx(err, "list of '%s' from '%s'", j->h.name.repo, j->h.endpoint.host);
    }
    if (!rc)
        memcpy(j->h.commit, j->list.commit, sizeof(j->h.commit));
    web_reply_release(&r);
    buf_release(&path);
    return rc;
}

/* What the headers say of a file. */
static enum rc read_head(const struct hub_job *j, const struct web_reply *r, struct hub_file *f,
                         struct err *err)
{
    char text[HUB_ETAG_MAX + 8], size[32];
    uint64_t bytes = 0;

    if (!web_header(r, "X-Linked-Etag", text, sizeof(text)) &&
        !web_header(r, "ETag", text, sizeof(text)))
        text[0] = '\0';
    if (!hub_etag_parse(text, f->etag))
        return err_set(err, RC_PARSE, "the Hub tells no digest of '%s'", f->path);
    if (!web_header(r, "X-Linked-Size", size, sizeof(size)) &&
        !(r->status < 300 && web_header(r, "Content-Length", size, sizeof(size))))
        size[0] = '\0';
    if (!str_to_u64(size, 10, &bytes) || bytes > INT64_MAX)
        return err_set(err, RC_PARSE, "the Hub tells no size of '%s'", f->path);
    if (web_header(r, "X-Repo-Commit", text, sizeof(text)) && !str_eq(text, j->h.commit))
        return err_set(err, RC_PARSE, "'%s' is of commit %.40s, not %s", f->path, text,
                       j->h.commit);
    f->bytes = (int64_t)bytes;
    return RC_OK;
}

/* Digest and size of a file, where the list had it without them.  Large files are answered with a
 * link to where they lie, and the headers that tell them stand beside it; a link without them is
 * another name of the repository. */
static enum rc request_file(struct hub_job *j, struct web *w, struct hub_file *f, struct err *err)
{
    struct buf path = { 0 };
    struct web_request q = { .method = "HEAD", .body_max = WEB_ERROR_BYTES_MAX };
    struct web_reply r = { 0 };
    char linked[HUB_ETAG_MAX + 8];
    enum rc rc;

    if (f->etag[0] && f->bytes >= 0)
        return RC_OK;
    hub_file_path(&j->h, f->path, &path);
    q.path = buf_str(&path);
    rc = hub_request(&j->h, w, &q, &r, err);
    if (!rc && r.status / 100 == 3 && !web_header(&r, "X-Linked-Etag", linked, sizeof(linked))) {
        q.links = WEB_LINKS_HERE;
        rc = hub_request(&j->h, w, &q, &r, err);
    }
    if (!rc && r.status / 100 != 3)
        rc = hub_status(&j->h, &r, f->path, err);
    if (!rc)
        rc = read_head(j, &r, f, err);
    web_reply_release(&r);
    buf_release(&path);
    return rc;
}

/* modules.json comes first: it says which folders belong to the model. */
static enum rc read_modules(struct hub_job *j, struct web *w, const char **folders, size_t *count,
                            struct err *err)
{
    struct hub_file *f = hub_list_find(&j->list, "modules.json");
    char path[FILE_PATH_MAX];
    struct buf text = { 0 };
    enum rc rc;

    *count = 0;
    if (!f)
        return RC_OK;
    rc = request_file(j, w, f, err);
    if (!rc && f->bytes > HUB_MODULES_BYTES_MAX)
        rc = err_set(err, RC_LIMIT, "modules.json is longer than %d bytes", HUB_MODULES_BYTES_MAX);
    if (!rc)
        rc = hub_blob_fetch(&j->h, w, f, err);
    if (!rc)
        rc = hub_snapshot_path(&j->h.cache, j->h.commit, f->path, path, sizeof(path), err);
    if (!rc)
        rc = file_read(path, HUB_MODULES_BYTES_MAX, &text, err);
    if (!rc && hub_modules_parse(buf_str(&text), text.len, &j->list.arena, folders, count, err))
        rc = err_ctx(err, "modules.json of '%s'", j->h.name.repo);
    atomic_store(&j->h.bytes, 0); /* it is counted with the others */
    buf_release(&text);
    return rc;
}

static enum rc check_room(const struct hub_job *j, struct err *err)
{
    char need[UNITS_TEXT_MAX], have[UNITS_TEXT_MAX];
    struct statvfs fs;
    uint64_t room, left = j->total - atomic_load(&j->h.bytes);

    if (j->total > (uint64_t)HUB_SIZE_MAX_GIB << 30)
        return err_set(err, RC_LIMIT, "model '%s' is larger than %d GiB", j->h.name.repo,
                       HUB_SIZE_MAX_GIB);
    if (statvfs(j->h.cache.repo, &fs))
        return RC_OK;
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room >= left + HUB_SPARE_BYTES)
        return RC_OK;
    err_hint(err, "Set HF_HOME to a disk with more room, or remove models from the cache.");
    return err_set(err, RC_LIMIT, "model '%s' takes %s, and '%s' has %s free", j->h.name.repo,
                   units_bytes_human(left, need), j->h.cache.repo, units_bytes_human(room, have));
}

/* Those that are here need no room. */
static uint64_t there_already(const struct hub_job *j, const struct hub_file *f)
{
    char path[FILE_PATH_MAX];
    uint64_t size = 0;
    int fd;

    if (hub_blob_path(&j->h.cache, f->etag, "", path, sizeof(path), NULL) ||
        file_open(path, &fd, &size, NULL))
        return 0;
    close(fd);
    return size == (uint64_t)f->bytes ? size : 0;
}

static enum rc choose_files(struct hub_job *j, struct web *w, struct err *err)
{
    const char *folders[HUB_MODULES_MAX];
    uint64_t there = 0;
    size_t count;
    enum rc rc = read_modules(j, w, folders, &count, err);

    if (rc)
        return rc;
    hub_list_choose(&j->list, folders, count);
    for (size_t i = 0; i < j->list.count && !rc; i++) {
        struct hub_file *f = &j->list.files[i];

        if (!f->wanted)
            continue;
        if (++j->wanted > HUB_FILES_MAX)
            return err_set(err, RC_LIMIT, "model '%s' has more than %d files", j->h.name.repo,
                           HUB_FILES_MAX);
        rc = request_file(j, w, f, err);
        if (!rc && f->bytes > (int64_t)HUB_SIZE_MAX_GIB << 30)
            rc = err_set(err, RC_LIMIT, "'%s' is larger than %d GiB", f->path, HUB_SIZE_MAX_GIB);
        if (!rc) {
            j->total += (uint64_t)f->bytes;
            there += there_already(j, f);
        }
    }
    if (!rc && !hub_list_find(&j->list, "config.json") && !hub_list_find(&j->list, "modules.json"))
        rc = err_set(err, RC_NODEV, "'%s' is not a model that can be read: it has no config.json",
                     j->h.name.repo);
    if (rc)
        return rc;
    atomic_store(&j->h.bytes, there);
    rc = check_room(j, err);
    atomic_store(&j->h.bytes, 0);
    return rc;
}

/* ---- the threads ---- */
static struct hub_file *next_file(struct hub_job *j)
{
    struct hub_file *f = NULL;

    pthread_mutex_lock(&j->lock);
    while (!f && j->next < j->list.count && !j->err.code) {
        f = &j->list.files[j->next++];
        f = f->wanted ? f : NULL;
    }
    pthread_mutex_unlock(&j->lock);
    return f;
}

static void *fetch_files(void *arg)
{
    struct hub_job *j = arg;
    struct web *w = web_new(&j->h.trust);
    struct hub_file *f;

    while ((f = next_file(j))) {
        struct err err = { 0 };
        enum rc rc = hub_blob_fetch(&j->h, w, f, &err);

        pthread_mutex_lock(&j->lock);
        j->done += !rc;
        if (rc && !j->err.code) {
            j->err = err;
            j->err.code = rc;
            atomic_store(&j->h.stop, true);
        }
        pthread_mutex_unlock(&j->lock);
    }
    web_free(w);
    pthread_mutex_lock(&j->lock);
    j->running--;
    pthread_cond_broadcast(&j->change);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static void tell_progress(const struct hub_job *j, size_t done)
{
    struct hub_progress p = { .bytes = atomic_load(&j->h.bytes),
                              .total = j->total,
                              .came = atomic_load(&j->h.came),
                              .files = done,
                              .file_count = j->wanted };

    if (j->o->progress)
        j->o->progress(j->o->arg, &p);
}

static enum rc fetch_all(struct hub_job *j, struct err *err)
{
    pthread_t threads[HUB_THREADS_MAX];
    size_t count = 0;

    pthread_mutex_lock(&j->lock);
    while (count < HUB_THREADS_MAX && count < j->wanted &&
           !pthread_create(&threads[count], NULL, fetch_files, j)) {
        count++;
        j->running++;
    }
    while (j->running) {
        size_t done = j->done;

        pthread_mutex_unlock(&j->lock);
        tell_progress(j, done);
        pthread_mutex_lock(&j->lock);
        if (j->running)
            (void)clock_cond_wait(&j->change, &j->lock, clock_mono_ns() + HUB_LOOK_NS);
    }
    pthread_mutex_unlock(&j->lock);
    for (size_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    if (!count && j->wanted)
        return err_set(err, RC_FAIL, "could not start a thread");
    tell_progress(j, j->done);
    if (j->err.code)
        *err = j->err;
    return j->err.code;
}

/* ---- a model ---- */
static void fill_result(const struct hub_job *j, struct hub_result *out)
{
    out->files = xcalloc(j->wanted + 1, sizeof(*out->files));
    for (size_t i = 0; i < j->list.count; i++) {
        const struct hub_file *f = &j->list.files[i];
        size_t digits = strlen(f->etag);

        if (!f->wanted)
            continue;
        out->files[out->file_count++] = xstrdup(f->path);
        out->by_size += digits != 40 && digits != 64;
    }
    memcpy(out->commit, j->h.commit, sizeof(out->commit));
    out->bytes = j->total;
    out->came = atomic_load(&j->h.came);
}

static enum rc fetch_model(struct hub_job *j, struct hub_result *out, struct err *err)
{
    struct web *w = web_new(&j->h.trust);
    char blobs[FILE_PATH_MAX];
    enum rc rc = request_list(j, w, err);

    if (!rc)
        rc = hub_blob_path(&j->h.cache, "", "", blobs, sizeof(blobs), err);
    if (!rc)
        rc = file_make_dirs(blobs, err);
    if (!rc)
        rc = choose_files(j, w, err);
    web_free(w);
    if (!rc)
        rc = fetch_all(j, err);
    if (!rc)
        rc = hub_ref_write(&j->h.cache, j->h.name.revision, j->h.commit, err);
    if (!rc)
        rc = hub_snapshot_path(&j->h.cache, j->h.commit, "", out->dir, sizeof(out->dir), err);
    if (!rc)
        fill_result(j, out);
    return rc;
}

/* ---- without the Hub ---- */
/* A file of a snapshot, or all of a folder's; `sub` is "" or "folder/". */
static void list_folder(struct hub_list *l, const char *dir, const char *sub)
{
    char path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    struct dirent *e;
    DIR *d = file_join(path, sizeof(path), dir, sub, NULL) ? NULL : opendir(path);

    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || l->count == HUB_FILES_MAX ||
            (size_t)snprintf(name, sizeof(name), "%s%s", sub, e->d_name) >= sizeof(name) ||
            file_join(path, sizeof(path), dir, name, NULL))
            continue;
        if (file_exists(path))
            l->files[l->count++] = (struct hub_file){ .path = arena_strdup(&l->arena, name) };
        else if (file_is_dir(path) && !strchr(sub, '/') &&
                 snprintf(name, sizeof(name), "%s/", e->d_name) > 0)
            list_folder(l, dir, name);
    }
    if (d)
        closedir(d);
}

/* Which files of a snapshot are the model's, by the same choice. */
static void list_cached(struct hub_job *j, struct hub_result *out)
{
    const char *folders[HUB_MODULES_MAX];
    char path[FILE_PATH_MAX];
    struct buf text = { 0 };
    size_t count = 0;

    j->list.files = arena_array(&j->list.arena, struct hub_file, HUB_FILES_MAX);
    list_folder(&j->list, out->dir, "");
    if (!file_join(path, sizeof(path), out->dir, "modules.json", NULL) && file_exists(path) &&
        (file_read(path, HUB_MODULES_BYTES_MAX, &text, NULL) ||
         hub_modules_parse(buf_str(&text), text.len, &j->list.arena, folders, &count, NULL)))
        count = 0;
    hub_list_choose(&j->list, folders, count);
    for (size_t i = 0; i < j->list.count; i++)
        j->wanted += j->list.files[i].wanted;
    fill_result(j, out);
    out->by_size = 0;
    buf_release(&text);
}

/* The Hub cannot be asked: what the cache has is better than nothing, and told. */
static enum rc take_cached(struct hub_job *j, struct hub_result *out, enum rc rc, struct err *err)
{
    if (j->refused || j->list.count || hub_find(&j->h.name, out->dir, sizeof(out->dir), NULL))
        return rc;
    out->stale = *err;
    out->stale.code = rc;
    *err = (struct err){ 0 };
    list_cached(j, out);
    return RC_OK;
}

enum rc hub_get(const struct hub_opts *o, struct hub_result *out, struct err *err)
{
    struct hub_job *j = xcalloc(1, sizeof(*j));
    struct err why = { 0 };
    enum rc rc;

    *out = (struct hub_result){ 0 };
    j->o = o;
    j->h.name = o->name;
    j->h.trust = o->trust;
    j->h.check = o->check;
    pthread_mutex_init(&j->lock, NULL);
    clock_cond_init(&j->change);
    rc = hub_cache_of(&o->name, &j->h.cache, &why);
    if (!rc)
        rc = read_endpoint(&j->h, &why);
    if (!rc && hub_is_offline()) {
        rc = hub_find(&o->name, out->dir, sizeof(out->dir), &why);
        if (rc)
            err_hint(&why, "HF_HUB_OFFLINE is set: unset it, or bring the cache of a machine that "
                           "has it.");
        else
            list_cached(j, out);
    } else if (!rc) {
        rc = read_token(j, &why);
        if (!rc)
            rc = fetch_model(j, out, &why);
        if (rc)
            rc = take_cached(j, out, rc, &why);
    }
    hub_list_release(&j->list);
    pthread_cond_destroy(&j->change);
    pthread_mutex_destroy(&j->lock);
    free(j);
    if (rc && err)
        *err = why;
    return rc;
}

void hub_result_release(struct hub_result *r)
{
    for (size_t i = 0; i < r->file_count; i++)
        free(r->files[i]);
    free(r->files);
    r->files = NULL;
    r->file_count = 0;
}

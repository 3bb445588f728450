/* SPDX-License-Identifier: MIT */
/* recorder: what a probe asked for, as a tree that answers the same again. */
#include "base/mem.h"
#include "os/root_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct recorder *recorder_new(void)
{
    return xcalloc(1, sizeof(struct recorder));
}

void recorder_free(struct recorder *rec)
{
    if (!rec)
        return;
    tree_release(&rec->tree);
    free(rec);
}

static void node_set(struct tree_node *n, const void *data, size_t len)
{
    char *copy = xstrndup(data, len);

    free(n->data);
    n->data = copy;
    n->len = len;
}

void recorder_put(struct recorder *rec, const char *path, const void *data, size_t len)
{
    struct tree_node *n = tree_find(&rec->tree, path);

    if (n && n->kind == TREE_FILE)
        node_set(n, data, len);
    else
        (void)tree_put(&rec->tree, path, TREE_FILE, data, len, 0);
}

void recorder_each(struct recorder *rec, void (*fn)(void *arg, const char *path, struct buf *io),
                   void *arg)
{
    struct buf io;

    tree_sort(&rec->tree);
    buf_init(&io, ROOT_TAR_MAX);
    for (size_t i = 0; i < rec->tree.count; i++) {
        struct tree_node *n = &rec->tree.nodes[i];

        if (n->kind != TREE_FILE || !n->len)
            continue;
        buf_reset(&io);
        buf_add(&io, n->data, n->len);
        fn(arg, n->path, &io);
        node_set(n, buf_str(&io), io.len);
    }
    buf_release(&io);
}

/* Errors become one file, since an archive has no other place for them. */
static void errors_store(struct tree *t)
{
    struct buf text = { 0 };

    tree_sort(t);
    for (size_t i = 0; i < t->count; i++)
        if (t->nodes[i].error && !strpbrk(t->nodes[i].path, "\t\n")) /* no way to write those */
            buf_addf(&text, "%s\t%d\n", t->nodes[i].path, t->nodes[i].error);
    if (text.len)
        (void)tree_put(t, "/stoker/errors", TREE_FILE, text.data, text.len, 0);
    buf_release(&text);
}

static enum rc write_all(int fd, const char *p, size_t len, const char *path, struct err *err)
{
    while (len) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "could not write '%s'", path);
        p += n;
        len -= (size_t)n;
    }
    if (fsync(fd) && errno != EINVAL && errno != EROFS)
        return err_sys(err, "could not write '%s' to disk", path);
    return RC_OK;
}

/* A new file, whatever stood there: writing through a link that somebody put into a
 * shared folder would overwrite a file of his choice. */
static int create_new(const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = open(path, flags, 0644);

    if (fd < 0 && errno == EEXIST && !unlink(path))
        fd = open(path, flags, 0644);
    return fd;
}

enum rc recorder_write(struct recorder *rec, const char *path, struct err *err)
{
    struct buf out;
    enum rc rc;
    int fd;

    errors_store(&rec->tree);
    buf_init(&out, ROOT_TAR_MAX);
    tar_write(&rec->tree, &out);
    if (out.over) {
        rc = err_set(err, RC_LIMIT, "the capture is larger than %d bytes", ROOT_TAR_MAX);
        goto out_release;
    }
    fd = create_new(path);
    if (fd < 0) {
        rc = err_sys(err, "could not create '%s'", path);
        goto out_release;
    }
    rc = write_all(fd, buf_str(&out), out.len, path, err);
    if (close(fd) && !rc)
        rc = err_sys(err, "could not write '%s'", path);
out_release:
    buf_release(&out);
    return rc;
}

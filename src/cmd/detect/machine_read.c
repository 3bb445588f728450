/* SPDX-License-Identifier: MIT */
/* machine_read: captures and inventories from where a command line says.  What a file is, it says
 * itself: an inventory begins with '{'. */
#include "base/mem.h"
#include "base/str.h"
#include "cmd/detect/detect_int.h"
#include "cmd/detect/machine_int.h"
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { MACHINE_JSON_MAX = 16 << 20 }; /* bytes of an inventory's file */

void machine_paths_release(struct machine_paths *p)
{
    free(p->items);
    arena_release(&p->arena);
    *p = (struct machine_paths){ 0 };
}

static enum rc path_add(struct machine_paths *p, const char *path, size_t max, struct err *err)
{
    if (p->count >= max)
        return err_set(err, RC_LIMIT, "more than %zu machines are given", max);
    VEC_GROW(p->items, p->count, p->cap);
    p->items[p->count++] = arena_strdup(&p->arena, path);
    return RC_OK;
}

/* A folder that is itself the copy of a machine's files. */
static bool is_capture(const char *dir)
{
    static const char *const marks[] = { "sys", "proc", "stoker" };
    char path[FILE_PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        if (!file_join(path, sizeof(path), dir, marks[i], NULL) && file_is_dir(path))
            return true;
    return false;
}

static int by_version(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

static enum rc folder_add(struct machine_paths *p, const char *dir, size_t max, struct err *err)
{
    size_t first = p->count;
    enum rc rc = RC_OK;
    struct dirent *e;
    DIR *d = opendir(dir);

    if (!d)
        return err_sys(err, "cannot list '%s'", dir);
    while (rc == RC_OK && (e = readdir(d))) {
        char path[FILE_PATH_MAX];

        if (e->d_name[0] == '.' || !(str_ends(e->d_name, ".tar") || str_ends(e->d_name, ".json")))
            continue;
        rc = file_join(path, sizeof(path), dir, e->d_name, err);
        if (rc == RC_OK)
            rc = path_add(p, path, max, err);
    }
    closedir(d);
    if (rc == RC_OK && p->count == first) {
        err_hint(err,
                 "A capture has a folder 'sys'; else files of NAME.tar and NAME.json are read.");
        return err_set(err, RC_NODEV, "'%s' holds no capture and no inventory", dir);
    }
    qsort(p->items + first, p->count - first, sizeof(*p->items), by_version);
    return rc;
}

enum rc machine_paths_add(struct machine_paths *p, const char *path, size_t max, struct err *err)
{
    if (file_is_dir(path) && !is_capture(path))
        return folder_add(p, path, max, err);
    return path_add(p, path, max, err);
}

static bool is_json(const char *path)
{
    char first = '\0';
    uint64_t size;
    int fd;

    if (file_is_dir(path) || file_open(path, &fd, &size, NULL))
        return false;
    while (read(fd, &first, 1) == 1 && strchr(" \t\r\n", first))
        ;
    close(fd);
    return first == '{';
}

static enum rc inventory_read(const char *path, struct hw **out, struct err *err)
{
    struct buf text;
    enum rc rc;

    buf_init(&text, MACHINE_JSON_MAX + 1);
    rc = file_read(path, MACHINE_JSON_MAX, &text, err);
    if (rc == RC_OK && hw_read_json(buf_str(&text), text.len, out, err)) {
        rc = err_ctx(err, "inventory '%s'", path);
        err_hint(err, "'stoker detect --json >FILE' writes one, on the machine it is of.");
    }
    buf_release(&text);
    return rc;
}

enum rc machine_read(const char *path, struct hw **out, struct err *err)
{
    return path && is_json(path) ? inventory_read(path, out, err)
                                 : detect_probe(path, NULL, out, err);
}

const char *machine_stem(struct arena *a, const char *path)
{
    size_t len = strlen(path), from;

    while (len > 1 && path[len - 1] == '/')
        len--;
    for (from = len; from && path[from - 1] != '/';)
        from--;
    for (size_t i = from + 1; i < len; i++)
        if (!strncmp(path + i, ".tar", len - i) || !strncmp(path + i, ".json", len - i)) {
            len = i;
            break;
        }
    return arena_strndup(a, path + from, len - from);
}

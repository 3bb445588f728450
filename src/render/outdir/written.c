/* SPDX-License-Identifier: MIT */
/* written: the list of what we wrote into a folder, read and looked up.
 *
 * It is a file that people may edit: a line that is not a sum and a sound path is passed over, and
 * two lines of one path are both believed (written_int.h says why).  Sorted once, then searched. */
#include "render/outdir/written_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "render/render_int.h"

#include <stdlib.h>
#include <string.h>

void written_release(struct written_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].path);
    free(l->items);
    *l = (struct written_list){ 0 };
}

static int listed_by_path(const void *a, const void *b)
{
    const struct listed_file *x = a, *y = b;

    return strcmp(x->path, y->path);
}

bool written_is_sum(const char *s)
{
    return strspn(s, "0123456789abcdef") >= SHA256_HEX - 1;
}

enum rc written_read(struct outdir *p, struct written_list *l, struct err *err)
{
    struct buf text;
    struct stat st;
    bool there;
    enum rc rc = outdir_look(p, LIST_NAME, &there, &st, err);

    if (rc || !there)
        return rc;
    buf_init(&text, LIST_MAX + 1);
    rc = outdir_read(p, LIST_NAME, LIST_MAX, &text, err);
    if (rc == RC_OK && text.len) {
        /* Whoever can write to the folder can write to the list: a line that is none of ours is
         * passed over, and a path cannot lead out of the folder. */
        char *save, *line = strtok_r(text.data, "\n", &save);

        for (; line; line = strtok_r(NULL, "\n", &save)) {
            const char *path = line + SHA256_HEX + 1;

            if (strlen(line) <= SHA256_HEX + 1 || !written_is_sum(line) ||
                memcmp(line + SHA256_HEX - 1, "  ", 2) != 0 || !outdir_path_ok(path) ||
                !str_is_text(path, strlen(path)) || l->count >= RENDER_FILES_MAX)
                continue;
            VEC_GROW(l->items, l->count, l->cap);
            l->items[l->count].path = xstrdup(path);
            memcpy(l->items[l->count].sum, line, SHA256_HEX - 1);
            l->items[l->count++].sum[SHA256_HEX - 1] = '\0';
        }
        if (l->count)
            qsort(l->items, l->count, sizeof(*l->items), listed_by_path);
    }
    buf_release(&text);
    return rc;
}

const struct listed_file *written_find(const struct written_list *l, const char *path)
{
    struct listed_file key = { .path = (char *)path }; /* only read */

    return l->count ? bsearch(&key, l->items, l->count, sizeof(key), listed_by_path) : NULL;
}

bool written_has(const struct written_list *l, const char *path, const char *sum)
{
    const struct listed_file *x = written_find(l, path);

    if (!x)
        return false;
    while (x > l->items && !strcmp(x[-1].path, path))
        x--;
    for (; x < l->items + l->count && !strcmp(x->path, path); x++)
        if (!strcmp(x->sum, sum))
            return true;
    return false;
}

const char *written_sum(const struct written_list *l, const char *path)
{
    const struct listed_file *x = written_find(l, path);

    if (!x || (x > l->items && !strcmp(x[-1].path, path)) ||
        (x + 1 < l->items + l->count && !strcmp(x[1].path, path)))
        return NULL;
    return x->sum;
}

void written_line(struct buf *out, const char *sum, const char *path)
{
    buf_addf(out, "%s  %s\n", sum, path);
}

enum rc written_own_file(struct outdir *p, const char *name, const struct buf *text, size_t max,
                         unsigned mode, struct err *err)
{
    struct buf old;
    struct stat st;
    bool there = false;
    enum rc rc = outdir_look(p, name, &there, &st, err);

    buf_init(&old, max + 1);
    if (!rc && there && st.st_size == (off_t)text->len)
        rc = outdir_read(p, name, max, &old, err);
    if (!rc && !(there && old.len == text->len && !memcmp(buf_str(&old), buf_str(text), old.len))) {
        rc = outdir_prepare(p, name, buf_str(text), text->len, mode, err);
        if (!rc)
            rc = outdir_commit(p, name, err);
        if (rc)
            outdir_discard(p, name);
    }
    buf_release(&old);
    return rc;
}

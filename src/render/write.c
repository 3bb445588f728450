/* SPDX-License-Identifier: MIT */
/* write: a set of files to the disk, as a whole or not at all.
 *
 *   1. compare   what stands in the folder, with the set and with the list of what we wrote
 *   2. prepare   folders; every file that differs, beside its place and on the disk
 *   3. list      the old names and the new ones together: a crash leaves no file unknown
 *   4. commit    all renamed; what is no longer rendered removed; the list of the new names alone
 *
 * An error up to 3 takes back what was made.  From 4 on every single file is an old or a new one,
 * never half of one, and the same command again finishes the work.
 *
 * The list, DIR/.stoker-render, has a line for each file as sha256sum writes it, so that
 * `sha256sum -c .stoker-render` tells what was edited since. */
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "render/place_int.h"
#include "render/render.h"

#include <assert.h>
#include <stdlib.h>

#define LIST_NAME ".stoker-render"
enum { LIST_MAX = 16 << 20 }; /* bytes of the list */

struct listed {
    char *path; /* owned */
    char sum[SHA256_HEX];
};
struct list { /* sorted by path */
    struct listed *items;
    size_t count, cap;
};

struct job {
    const struct render_where *where;
    const struct render_set *set;
    struct place place;
    struct list old;
    struct render_changes changes;
    size_t prepared; /* changes that have a file beside their place */
};

/* ---- the list ---- */

static void list_release(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].path);
    free(l->items);
    *l = (struct list){ 0 };
}

static int by_path(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;

    return strcmp(x->path, y->path);
}

static bool is_sum(const char *s)
{
    return strspn(s, "0123456789abcdef") >= SHA256_HEX - 1;
}

/* Whoever can write to the folder can write to the list: a line that is none of ours is passed
 * over, and a path cannot lead out of the folder. */
static void list_parse(struct list *l, char *text)
{
    char *save, *line = strtok_r(text, "\n", &save);

    for (; line; line = strtok_r(NULL, "\n", &save)) {
        const char *path = line + SHA256_HEX + 1;

        if (strlen(line) <= SHA256_HEX + 1 || !is_sum(line) ||
            memcmp(line + SHA256_HEX - 1, "  ", 2) != 0 || !place_path_ok(path) ||
            !str_is_text(path, strlen(path)) || l->count >= RENDER_FILES_MAX)
            continue;
        VEC_GROW(l->items, l->count, l->cap);
        l->items[l->count].path = xstrdup(path);
        memcpy(l->items[l->count].sum, line, SHA256_HEX - 1);
        l->items[l->count++].sum[SHA256_HEX - 1] = '\0';
    }
    if (l->count)
        qsort(l->items, l->count, sizeof(*l->items), by_path);
}

static enum rc list_read(struct place *p, struct list *l, struct err *err)
{
    struct buf text;
    struct stat st;
    bool there;
    enum rc rc = place_look(p, LIST_NAME, &there, &st, err);

    if (rc || !there)
        return rc;
    buf_init(&text, LIST_MAX + 1);
    rc = place_read(p, LIST_NAME, LIST_MAX, &text, err);
    if (rc == RC_OK && text.len)
        list_parse(l, text.data);
    buf_release(&text);
    return rc;
}

static const struct listed *list_find(const struct list *l, const char *path)
{
    struct listed key = { .path = (char *)path }; /* only read */

    return l->count ? bsearch(&key, l->items, l->count, sizeof(key), by_path) : NULL;
}

static bool in_set(const struct render_set *set, const char *path)
{
    size_t lo = 0, hi = set->count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(set->files[mid]->path, path);

        if (!order)
            return true;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

/* Is the path of a target that this run is about? */
static bool in_question(const struct render_where *w, const char *path)
{
    size_t len = strcspn(path, "/");

    for (size_t i = 0; i < w->only_count; i++)
        if (strlen(w->only[i]->name) == len && !strncmp(w->only[i]->name, path, len))
            return true;
    return !w->only;
}

static void list_line(struct buf *out, const char *sum, const char *path)
{
    buf_addf(out, "%s  %s\n", sum, path);
}

/* The files of the set and those of the old list that stay, or, with `gone`, that are still there
 * too; in the order of the paths. */
static void list_text(const struct job *j, bool gone, struct buf *out)
{
    size_t i = 0, k = 0;

    while (i < j->set->count || k < j->old.count) {
        const struct render_file *f = i < j->set->count ? j->set->files[i] : NULL;
        const struct listed *o = k < j->old.count ? &j->old.items[k] : NULL;
        int order = !f ? 1 : !o ? -1 : strcmp(f->path, o->path);

        if (order <= 0) {
            uint8_t sum[SHA256_BYTES];
            char hex[SHA256_HEX];
            struct sha256 s;

            sha256_init(&s);
            sha256_add(&s, buf_str(&f->text), f->text.len);
            sha256_end(&s, sum);
            list_line(out, sha256_hex(sum, hex), f->path);
            i++;
            k += !order;
        } else {
            assert(o); /* either list has one left */
            if (gone || !in_question(j->where, o->path))
                list_line(out, o->sum, o->path);
            k++;
        }
    }
}

static enum rc list_write(struct job *j, bool gone, struct err *err)
{
    struct buf text, old;
    enum rc rc = RC_OK;
    struct stat st;
    bool there = false;

    buf_init(&text, LIST_MAX);
    buf_init(&old, LIST_MAX + 1);
    list_text(j, gone, &text);
    if (text.over)
        rc = err_set(err, RC_LIMIT, "the list of files would be larger than %d bytes", LIST_MAX);
    if (!rc)
        rc = place_look(&j->place, LIST_NAME, &there, &st, err);
    if (!rc && there)
        rc = place_read(&j->place, LIST_NAME, LIST_MAX, &old, err);
    if (!rc && !(there && str_eq(buf_str(&old), buf_str(&text)))) {
        rc = place_prepare(&j->place, LIST_NAME, buf_str(&text), text.len, 0644, err);
        if (!rc)
            rc = place_commit(&j->place, LIST_NAME, err);
        if (rc)
            place_discard(&j->place, LIST_NAME);
    }
    buf_release(&text);
    buf_release(&old);
    return rc;
}

/* ---- 1. compare ---- */

void render_changes_release(struct render_changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].path);
    free(c->items);
    *c = (struct render_changes){ 0 };
}

const char *render_kind_name(enum render_kind kind)
{
    static const char *const names[] = { "new", "changed", "same", "gone" };

    return names[kind];
}

unsigned render_file_mode(const struct render_file *f)
{
    return f->secret ? 0600 : f->exec ? 0755 : 0644;
}

static struct render_change *change_add(struct render_changes *c, const char *path)
{
    VEC_GROW(c->items, c->count, c->cap);
    c->items[c->count] = (struct render_change){ .path = xstrdup(path) };
    return &c->items[c->count++];
}

/* Only a file that cannot be read is an error; one beyond our limit differs. */
static enum rc same_text(struct job *j, const struct render_file *f, const struct stat *st,
                         bool *out, struct err *err)
{
    struct buf text;
    enum rc rc;

    *out = false;
    if (st->st_size != (off_t)f->text.len)
        return RC_OK;
    buf_init(&text, RENDER_FILE_MAX + 1);
    rc = place_read(&j->place, f->path, RENDER_FILE_MAX, &text, err);
    if (rc == RC_OK)
        *out = text.len == f->text.len && !memcmp(buf_str(&text), buf_str(&f->text), f->text.len);
    buf_release(&text);
    return rc;
}

static enum rc compare_one(struct job *j, const struct render_file *f, struct err *err)
{
    struct render_change *c;
    struct stat st;
    bool there = false, same = false;
    enum rc rc;

    if (!place_path_ok(f->path))
        return err_set(err, RC_FAIL, "'%s' is no path below a folder", f->path);
    rc = place_look(&j->place, f->path, &there, &st, err);
    if (rc)
        return rc;
    if (there && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
        err_hint(err, "Move it away, or render into another folder.");
        return err_set(err, RC_FAIL, "'%s' in '%s' is %s, not a file", f->path, j->place.dir,
                       S_ISDIR(st.st_mode) ? "a folder" : "a device, pipe or socket");
    }
    c = change_add(&j->changes, f->path);
    c->file = f;
    c->mode_new = render_file_mode(f);
    c->kind = RENDER_NEW;
    if (!there)
        return RC_OK;
    c->link = S_ISLNK(st.st_mode);
    c->mode_old = st.st_mode & 07777;
    if (!c->link)
        rc = same_text(j, f, &st, &same, err);
    c->kind = same && c->mode_old == c->mode_new ? RENDER_SAME : RENDER_CHANGED;
    c->foreign = c->kind == RENDER_CHANGED && (c->link || !list_find(&j->old, f->path));
    return rc;
}

/* Is the i-th file of the old list one that this run should have rendered and did not? */
static bool is_over(const struct job *j, size_t i)
{
    const char *path = j->old.items[i].path;

    return in_question(j->where, path) && !in_set(j->set, path) &&
           (!i || strcmp(path, j->old.items[i - 1].path) != 0);
}

/* A file of an earlier run; a folder that stands there now is somebody's. */
static enum rc compare_gone(struct job *j, const char *path, struct err *err)
{
    struct render_change *c;
    struct stat st;
    bool there;
    enum rc rc = place_look(&j->place, path, &there, &st, err);

    if (rc || !there || !S_ISREG(st.st_mode))
        return rc;
    c = change_add(&j->changes, path);
    c->kind = RENDER_GONE;
    c->mode_old = st.st_mode & 07777;
    return RC_OK;
}

static int change_by_path(const void *a, const void *b)
{
    const struct render_change *x = a, *y = b;

    return strcmp(x->path, y->path);
}

static enum rc compare(struct job *j, struct err *err)
{
    enum rc rc = list_read(&j->place, &j->old, err);

    for (size_t i = 0; i < j->set->count && rc == RC_OK; i++)
        rc = compare_one(j, j->set->files[i], err);
    for (size_t i = 0; i < j->old.count && rc == RC_OK; i++)
        if (is_over(j, i))
            rc = compare_gone(j, j->old.items[i].path, err);
    if (j->changes.count)
        qsort(j->changes.items, j->changes.count, sizeof(*j->changes.items), change_by_path);
    return rc;
}

/* Opens the folder and compares; job_end() is needed whatever it returns. */
static enum rc job_begin(struct job *j, bool make, struct err *err)
{
    enum rc rc = place_open(&j->place, j->where->dir, make, err);

    return rc ? rc : compare(j, err);
}

static void job_end(struct job *j, enum rc rc, struct render_changes *out)
{
    if (rc == RC_OK && out)
        *out = j->changes;
    else
        render_changes_release(&j->changes);
    list_release(&j->old);
    place_close(&j->place);
}

enum rc render_compare(const struct render_set *set, const struct render_where *where,
                       struct render_changes *out, struct err *err)
{
    struct job j = { .where = where, .set = set };
    enum rc rc = job_begin(&j, false, err);

    job_end(&j, rc, out);
    return rc;
}

/* ---- 2. to 4. ---- */

static enum rc refuse_foreign(const struct job *j, struct err *err)
{
    const struct render_change *first = NULL;
    size_t count = 0;

    for (size_t i = 0; i < j->changes.count; i++)
        if (j->changes.items[i].foreign && !count++)
            first = &j->changes.items[i];
    if (!first || j->where->force)
        return RC_OK;
    err_hint(err, "See what would change with --diff; --force replaces what is there.");
    if (count == 1)
        return err_set(err, RC_FAIL, "'%s' in '%s' is not a file that 'stoker render' wrote",
                       first->path, j->place.dir);
    return err_set(err, RC_FAIL,
                   "'%s' and %zu more in '%s' are not files that 'stoker render' wrote",
                   first->path, count - 1, j->place.dir);
}

static bool is_write(const struct render_change *c)
{
    return c->kind == RENDER_NEW || c->kind == RENDER_CHANGED;
}

static enum rc prepare(struct job *j, struct err *err)
{
    enum rc rc = RC_OK;

    for (; j->prepared < j->changes.count && rc == RC_OK; j->prepared++) {
        const struct render_change *c = &j->changes.items[j->prepared];

        if (is_write(c))
            rc = place_prepare(&j->place, c->path, buf_str(&c->file->text), c->file->text.len,
                               c->mode_new, err);
    }
    return rc;
}

static void take_back(struct job *j)
{
    for (size_t i = 0; i < j->prepared; i++)
        if (is_write(&j->changes.items[i]))
            place_discard(&j->place, j->changes.items[i].path);
    place_undo(&j->place);
}

static enum rc commit(struct job *j, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++)
        if (is_write(&j->changes.items[i]))
            rc = place_commit(&j->place, j->changes.items[i].path, err);
    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++)
        if (j->changes.items[i].kind == RENDER_GONE)
            rc = place_remove(&j->place, j->changes.items[i].path, err);
    for (size_t i = 0; i < j->old.count && rc == RC_OK; i++)
        if (is_over(j, i))
            rc = place_prune(&j->place, j->old.items[i].path, err);
    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++)
        if (j->changes.items[i].kind != RENDER_SAME)
            place_sync(&j->place, j->changes.items[i].path);
    if (rc == RC_OK)
        rc = list_write(j, false, err);
    place_sync(&j->place, LIST_NAME);
    return rc;
}

enum rc render_write(const struct render_set *set, const struct render_where *where,
                     struct render_changes *out, struct err *err)
{
    struct job j = { .where = where, .set = set };
    enum rc rc = job_begin(&j, true, err);

    if (rc == RC_OK)
        rc = refuse_foreign(&j, err);
    if (rc == RC_OK)
        rc = prepare(&j, err);
    if (rc == RC_OK)
        rc = list_write(&j, true, err);
    if (rc) {
        take_back(&j);
    } else {
        rc = commit(&j, err);
        if (rc) /* what is in place stays: it is listed */
            take_back(&j);
    }
    job_end(&j, rc, out);
    return rc;
}

/* ---- the same as a diff ---- */

static void diff_names(const struct render_change *c, bool was, bool is, struct buf *out)
{
    buf_addf(out, "--- %s%s\n", was ? "a/" : "/dev/null", was ? c->path : "");
    buf_addf(out, "+++ %s%s\n", is ? "b/" : "/dev/null", is ? c->path : "");
}

static void diff_modes(const struct render_change *c, bool was, bool is, struct buf *out)
{
    unsigned old = S_IFREG | c->mode_old, new = S_IFREG | c->mode_new;

    if (!was)
        buf_addf(out, "new file mode %o\n", new);
    else if (!is)
        buf_addf(out, "deleted file mode %o\n", old);
    else if (old != new)
        buf_addf(out, "old mode %o\nnew mode %o\n", old, new);
}

static void diff_part(const struct render_change *c, struct render_text *was,
                      struct render_text *is, struct buf *out)
{
    static const struct render_text none = { "", 0 };
    struct buf hunks;

    buf_init(&hunks, RENDER_FILE_MAX);
    buf_addf(out, "diff --git a/%s b/%s\n", c->path, c->path);
    diff_modes(c, was, is, out);
    render_diff_text(was ? *was : none, is ? *is : none, &hunks);
    if (hunks.len) {
        diff_names(c, was, is, out);
        buf_add(out, buf_str(&hunks), hunks.len);
    }
    out->over |= hunks.over;
    buf_release(&hunks);
}

static void diff_link(const struct render_change *c, const struct buf *target, struct buf *out)
{
    struct render_text was = { buf_str(target), target->len };

    buf_addf(out, "diff --git a/%s b/%s\ndeleted file mode 120000\n", c->path, c->path);
    diff_names(c, true, false, out);
    render_diff_text(was, (struct render_text){ "", 0 }, out);
}

static enum rc diff_one(struct job *j, const struct render_change *c, struct buf *out,
                        struct err *err)
{
    struct render_text is = { "", 0 }, was;
    struct buf old;
    bool there = c->kind == RENDER_CHANGED || c->kind == RENDER_GONE;
    enum rc rc = RC_OK;

    buf_init(&old, RENDER_FILE_MAX + 1);
    if (c->file)
        is = (struct render_text){ buf_str(&c->file->text), c->file->text.len };
    if (there)
        rc = c->link ? place_read_link(&j->place, c->path, &old, err)
                     : place_read(&j->place, c->path, RENDER_FILE_MAX, &old, err);
    was = (struct render_text){ buf_str(&old), old.len };
    if (rc == RC_OK && c->link) {
        diff_link(c, &old, out);
        there = false;
    }
    if (rc == RC_OK && memchr(was.p, '\0', was.len))
        buf_addf(out, "Binary files a/%s and b/%s differ\n", c->path, c->path);
    else if (rc == RC_OK)
        diff_part(c, there ? &was : NULL, c->file ? &is : NULL, out);
    buf_release(&old);
    return rc;
}

enum rc render_diff(const struct render_set *set, const struct render_where *where, struct buf *out,
                    struct render_changes *changes, struct err *err)
{
    struct job j = { .where = where, .set = set };
    enum rc rc = job_begin(&j, false, err);

    for (size_t i = 0; i < j.changes.count && rc == RC_OK; i++)
        if (j.changes.items[i].kind != RENDER_SAME)
            rc = diff_one(&j, &j.changes.items[i], out, err);
    job_end(&j, rc, changes);
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* write: a set of files to the disk, as a whole or not at all.
 *
 *   1. compare   what stands in the folder, with the set and with the list of what we wrote
 *   2. prepare   folders; every file that differs, beside its place and on the disk
 *   3. list      the old names and sums and the new ones together, and the texts they are of: a
 *                crash leaves no file unknown, and takes none of ours for an edited one
 *   4. commit    edited files by a second name, then all renamed; what is no longer rendered
 *                removed; the list of the new names alone
 *
 * An error up to 3 takes back what was made.  From 4 on every single file is an old or a new one,
 * never half of one, and the same command again finishes the work.
 *
 * The list, DIR/.stoker-render, has a line for each file as sha256sum writes it, so that
 * `sha256sum -c .stoker-render` tells what was edited since.  A file whose sum is not in the list
 * was edited.  The list has the sum of what we rendered, also where a merged text stands there: the
 * edits stay edits, run after run. */
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "render/bases_int.h"
#include "render/place_int.h"
#include "render/render.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define LIST_NAME ".stoker-render"
enum {
    LIST_MAX = 16 << 20, /* bytes of the list */
    ASIDE_MAX = 1000     /* edited copies of one file */
};

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
    struct bases bases;
    bool bases_there; /* before this run */
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

/* A list that a crash left has two sums of a path: either is ours. */
static bool list_has(const struct list *l, const char *path, const char *sum)
{
    const struct listed *x = list_find(l, path);

    if (!x)
        return false;
    while (x > l->items && !strcmp(x[-1].path, path))
        x--;
    for (; x < l->items + l->count && !strcmp(x->path, path); x++)
        if (!strcmp(x->sum, sum))
            return true;
    return false;
}

/* The sum of what we wrote last; NULL when it could be one of two. */
static const char *list_sum(const struct list *l, const char *path)
{
    const struct listed *x = list_find(l, path);

    if (!x || (x > l->items && !strcmp(x[-1].path, path)) ||
        (x + 1 < l->items + l->count && !strcmp(x[1].path, path)))
        return NULL;
    return x->sum;
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

/* The files of the set and those of the old list that stay; with `gone` also the old lines of those
 * that are still there, or may be.  In the order of the paths; with the texts for the bases. */
static void list_text(const struct job *j, bool gone, struct buf *out, struct buf *bases)
{
    size_t i = 0, k = 0;

    while (i < j->set->count || k < j->old.count) {
        const struct render_file *f = i < j->set->count ? j->set->files[i] : NULL;
        const struct listed *o = k < j->old.count ? &j->old.items[k] : NULL;
        int order = !f ? 1 : !o ? -1 : strcmp(f->path, o->path);
        char sum[SHA256_HEX];

        if (order < 0 || (!order && !gone)) {
            text_sum(buf_str(&f->text), f->text.len, sum);
            list_line(out, sum, f->path);
            bases_add(bases, sum, buf_str(&f->text), f->text.len);
            i++;
            while (k < j->old.count && !strcmp(j->old.items[k].path, f->path))
                k++;
            continue;
        }
        assert(o); /* either list has one left */
        if (!order && !strcmp(o->sum, text_sum(buf_str(&f->text), f->text.len, sum))) {
            k++; /* its line comes with the set's */
            continue;
        }
        if (gone || !in_question(j->where, o->path)) {
            const struct base_item *b = bases_find(&j->bases, o->sum);

            list_line(out, o->sum, o->path);
            if (b)
                bases_add(bases, b->sum, b->text, b->len);
        }
        k++;
    }
}

/* A file of our own, unless it is that already. */
static enum rc own_write(struct job *j, const char *name, const struct buf *text, size_t max,
                         unsigned mode, struct err *err)
{
    struct buf old;
    struct stat st;
    bool there = false;
    enum rc rc = place_look(&j->place, name, &there, &st, err);

    buf_init(&old, max + 1);
    if (!rc && there && st.st_size == (off_t)text->len)
        rc = place_read(&j->place, name, max, &old, err);
    if (!rc && !(there && old.len == text->len && !memcmp(buf_str(&old), buf_str(text), old.len))) {
        rc = place_prepare(&j->place, name, buf_str(text), text->len, mode, err);
        if (!rc)
            rc = place_commit(&j->place, name, err);
        if (rc)
            place_discard(&j->place, name);
    }
    buf_release(&old);
    return rc;
}

/* With `gone` the texts are there before a list that speaks of them; without it they go after. */
static enum rc list_write(struct job *j, bool gone, struct err *err)
{
    struct buf text, bases;
    enum rc rc = RC_OK;

    buf_init(&text, LIST_MAX);
    buf_init(&bases, BASES_MAX);
    list_text(j, gone, &text, &bases);
    if (text.over)
        rc = err_set(err, RC_LIMIT, "the list of files would be larger than %d bytes", LIST_MAX);
    if (!rc && gone)
        rc = own_write(j, BASES_NAME, &bases, BASES_MAX, 0600, err);
    if (!rc)
        rc = own_write(j, LIST_NAME, &text, LIST_MAX, 0644, err);
    if (!rc && !gone)
        rc = own_write(j, BASES_NAME, &bases, BASES_MAX, 0600, err);
    buf_release(&text);
    buf_release(&bases);
    return rc;
}

/* ---- 1. compare ---- */

void render_changes_release(struct render_changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].path);
        free(c->items[i].aside);
        buf_release(&c->items[i].merged);
    }
    free(c->items);
    *c = (struct render_changes){ 0 };
}

const char *render_kind_name(enum render_kind kind)
{
    static const char *const names[] = { "new", "changed", "same", "gone" };

    return names[kind];
}

const char *render_edit_name(enum render_edit edit)
{
    static const char *const names[] = { NULL, "kept", "merged", "aside" };

    return names[edit];
}

struct render_text render_change_text(const struct render_change *c)
{
    bool merged = c->edit == RENDER_EDIT_KEPT || c->edit == RENDER_EDIT_MERGED;
    const struct buf *b = merged ? &c->merged : &c->file->text;

    return (struct render_text){ buf_str(b), b->len };
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

static void change_seen(struct render_change *c, const struct stat *st)
{
    c->mode_old = st->st_mode & 07777;
    c->seen_ino = st->st_ino;
    c->seen_size = st->st_size;
    c->seen_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* ---- edits of others ---- */

/* A name beside the file that is free, or has this very text: a run that was killed put it there.
 * In the latter case `*out_there` becomes true. */
static enum rc aside_find(struct job *j, const char *path, const struct buf *text, char **out,
                          bool *out_there, struct err *err)
{
    struct buf name = { 0 }, other;
    struct stat st;
    enum rc rc = RC_OK;

    buf_init(&other, RENDER_FILE_MAX + 1);
    for (int i = 1; i < ASIDE_MAX && rc == RC_OK; i++) {
        buf_reset(&name);
        buf_reset(&other);
        buf_addf(&name, "%s.edited", path);
        if (i > 1)
            buf_addf(&name, ".%d", i);
        rc = place_look(&j->place, buf_str(&name), out_there, &st, err);
        if (rc == RC_OK && *out_there && S_ISREG(st.st_mode) && st.st_size == (off_t)text->len)
            rc = place_read(&j->place, buf_str(&name), RENDER_FILE_MAX, &other, err);
        if (rc == RC_OK && (!*out_there || (other.len == text->len && other.len &&
                                            !memcmp(other.data, text->data, other.len)))) {
            *out = buf_take(&name);
            buf_release(&other);
            return RC_OK;
        }
    }
    if (rc == RC_OK)
        rc = err_set(err, RC_LIMIT, "'%s' in '%s' has %d edited copies beside it already", path,
                     j->place.dir, ASIDE_MAX - 1);
    buf_release(&name);
    buf_release(&other);
    return rc;
}

/* The text that was rendered when the list was written; false: it is not to be had. */
static bool base_find(const struct job *j, const struct render_file *f, const char *new_sum,
                      struct render_text *out)
{
    const char *sum = list_sum(&j->old, f->path);
    const struct base_item *b = sum ? bases_find(&j->bases, sum) : NULL;

    if (b)
        *out = (struct render_text){ b->text, b->len };
    else if (sum && !strcmp(sum, new_sum))
        *out = (struct render_text){ buf_str(&f->text), f->text.len };
    return b || (sum && !strcmp(sum, new_sum));
}

/* Somebody edited the file: what will become of it. */
static enum rc edit_judge(struct job *j, struct render_change *c, const struct buf *text,
                          struct err *err)
{
    struct render_text base, mine = { buf_str(text), text->len };
    struct render_text ours = { buf_str(&c->file->text), c->file->text.len };
    char sum[SHA256_HEX];
    bool there;

    text_sum(ours.p, ours.len, sum);
    buf_init(&c->merged, RENDER_FILE_MAX);
    if (!j->where->force && !memchr(mine.p, '\0', mine.len) && base_find(j, c->file, sum, &base) &&
        render_merge_text(base, mine, ours, &c->merged)) {
        bool as_is = c->merged.len == text->len && !memcmp(c->merged.data, mine.p, mine.len);

        c->edit = as_is ? RENDER_EDIT_KEPT : RENDER_EDIT_MERGED;
        c->kind = as_is && c->mode_old == c->mode_new ? RENDER_SAME : RENDER_CHANGED;
        return RC_OK;
    }
    c->edit = RENDER_EDIT_ASIDE;
    return aside_find(j, c->path, text, &c->aside, &there, err);
}

/* What stands at a path of ours.  One beyond our limit differs from all that we write. */
static enum rc text_read(struct job *j, const char *path, const struct stat *st, struct buf *out,
                         struct err *err)
{
    return st->st_size > RENDER_FILE_MAX ? RC_OK
                                         : place_read(&j->place, path, RENDER_FILE_MAX, out, err);
}

static enum rc compare_text(struct job *j, struct render_change *c, const struct stat *st,
                            struct err *err)
{
    const struct buf *ours = &c->file->text;
    struct buf text;
    char sum[SHA256_HEX];
    enum rc rc;

    buf_init(&text, RENDER_FILE_MAX + 1);
    rc = text_read(j, c->path, st, &text, err);
    if (rc == RC_OK && st->st_size == (off_t)ours->len && text.len == ours->len &&
        !memcmp(buf_str(&text), buf_str(ours), ours->len)) {
        c->kind = c->mode_old == c->mode_new ? RENDER_SAME : RENDER_CHANGED;
        c->foreign = c->kind == RENDER_CHANGED && !list_find(&j->old, c->path);
    } else if (rc == RC_OK && !list_find(&j->old, c->path)) {
        c->foreign = true;
    } else if (rc == RC_OK &&
               !list_has(&j->old, c->path, text_sum(buf_str(&text), text.len, sum))) {
        rc = edit_judge(j, c, &text, err);
    }
    buf_release(&text);
    return rc;
}

static enum rc compare_one(struct job *j, const struct render_file *f, struct err *err)
{
    struct render_change *c;
    struct stat st;
    bool there = false;
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
    c->kind = RENDER_CHANGED;
    c->link = S_ISLNK(st.st_mode);
    change_seen(c, &st);
    c->foreign = c->link;
    return c->link ? RC_OK : compare_text(j, c, &st, err);
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
    struct buf text;
    char sum[SHA256_HEX];
    bool there;
    enum rc rc = place_look(&j->place, path, &there, &st, err);

    if (rc || !there || !S_ISREG(st.st_mode))
        return rc;
    c = change_add(&j->changes, path);
    c->kind = RENDER_GONE;
    change_seen(c, &st);
    buf_init(&text, RENDER_FILE_MAX + 1);
    rc = text_read(j, path, &st, &text, err);
    if (rc == RC_OK && !list_has(&j->old, path, text_sum(buf_str(&text), text.len, sum))) {
        c->edit = RENDER_EDIT_ASIDE;
        rc = aside_find(j, path, &text, &c->aside, &there, err);
    }
    buf_release(&text);
    return rc;
}

static int change_by_path(const void *a, const void *b)
{
    const struct render_change *x = a, *y = b;

    return strcmp(x->path, y->path);
}

/* Bases that cannot be read are none: edits are then kept aside. */
static enum rc bases_read(struct job *j, struct err *err)
{
    struct stat st;
    enum rc rc = place_look(&j->place, BASES_NAME, &j->bases_there, &st, err);

    if (rc || !j->bases_there || !S_ISREG(st.st_mode) || st.st_size > BASES_MAX)
        return rc;
    buf_init(&j->bases.text, BASES_MAX + 1);
    rc = place_read(&j->place, BASES_NAME, BASES_MAX, &j->bases.text, err);
    if (rc == RC_OK)
        bases_parse(&j->bases);
    return rc;
}

static enum rc compare(struct job *j, struct err *err)
{
    enum rc rc = list_read(&j->place, &j->old, err);

    if (rc == RC_OK)
        rc = bases_read(j, err);

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
    bases_release(&j->bases);
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
        struct render_text text;

        if (!is_write(c))
            continue;
        text = render_change_text(c);
        rc = place_prepare(&j->place, c->path, text.p, text.len, c->mode_new, err);
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

/* Before anything is committed: bases that were not there before are of no list. */
static void take_back_bases(struct job *j)
{
    if (!j->bases_there && place_remove(&j->place, BASES_NAME, NULL))
        return; /* nothing speaks of them */
}

/* What is about to go is still what was compared, and if it was edited, has its second name. */
static enum rc make_way(struct job *j, const struct render_change *c, struct err *err)
{
    struct render_change now = { 0 };
    struct stat st;
    struct buf text;
    bool there;
    enum rc rc = place_look(&j->place, c->path, &there, &st, err);

    if (rc)
        return rc;
    if (there)
        change_seen(&now, &st);
    if (now.seen_ino != c->seen_ino || now.seen_size != c->seen_size || now.seen_ns != c->seen_ns) {
        err_hint(err, "Run the command again: it merges what was edited, or keeps it aside.");
        return err_set(err, RC_FAIL, "'%s' in '%s' was changed while it was to be written", c->path,
                       j->place.dir);
    }
    if (c->edit != RENDER_EDIT_ASIDE)
        return RC_OK;
    buf_init(&text, RENDER_FILE_MAX + 1);
    rc = text_read(j, c->path, &st, &text, err);
    if (rc == RC_OK) {
        char *name = NULL;

        rc = aside_find(j, c->path, &text, &name, &there, err);
        if (rc == RC_OK && !there)
            rc = place_aside(&j->place, c->path, name, err);
        free(name);
    }
    buf_release(&text);
    return rc;
}

static enum rc commit(struct job *j, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++) {
        if (!is_write(&j->changes.items[i]))
            continue;
        rc = make_way(j, &j->changes.items[i], err);
        if (rc == RC_OK)
            rc = place_commit(&j->place, j->changes.items[i].path, err);
    }
    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++) {
        if (j->changes.items[i].kind != RENDER_GONE)
            continue;
        rc = make_way(j, &j->changes.items[i], err);
        if (rc == RC_OK)
            rc = place_remove(&j->place, j->changes.items[i].path, err);
    }
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
        if (j.place.fd >= 0)
            take_back_bases(&j);
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

/* The edited file by its second name. */
static enum rc diff_aside(struct job *j, const struct render_change *c, struct render_text *was,
                          struct buf *out, struct err *err)
{
    struct render_change beside = { .path = c->aside, .mode_new = c->mode_old };
    struct stat st;
    bool there;
    enum rc rc = place_look(&j->place, c->aside, &there, &st, err);

    if (rc == RC_OK && !there && !memchr(was->p, '\0', was->len))
        diff_part(&beside, NULL, was, out);
    return rc;
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
        is = render_change_text(c);
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
    if (rc == RC_OK && c->edit == RENDER_EDIT_ASIDE)
        rc = diff_aside(j, c, &was, out, err);
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

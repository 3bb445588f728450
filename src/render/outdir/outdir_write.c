/* SPDX-License-Identifier: MIT */
/* write: a set of files to the disk, as a whole or not at all.
 *
 *   1. recover   what a run that was stopped left is finished or undone: journal_int.h
 *   2. compare   what stands in the folder, with the set and with the list of what we wrote
 *   3. journal   what will be done, in the state "prepare"
 *   4. prepare   second names for edited files; folders; every file that differs, beside its place
 *                and on the disk; the texts of the old and of the new list
 *   5. journal   in the state "commit": from here on the run is done, by this process or the next
 *   6. commit    all renamed; what is no longer rendered removed; the list; the journal away
 *
 * An error up to 5 takes back what was made, and so does the next run after a crash.  From 5 on
 * every single file is an old or a new one, never half of one, and the next run, --diff included,
 * finishes the work before it looks at anything. */
#include "base/mem.h"
#include "base/str.h"
#include "render/outdir/bases_int.h"
#include "render/outdir/journal_int.h"
#include "render/outdir/outdir_int.h"
#include "render/outdir/written_int.h"
#include "render/text/text_diff_int.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { ASIDE_MAX = 1000 }; /* edited copies of one file */

struct write_job {
    const struct render_where *where;
    const struct render_set *set;
    struct outdir place;
    struct written_list old;
    struct bases bases;
    struct render_changes changes;
    struct journal journal;
};

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

/* ---- 2. compare ---- */

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
static enum rc aside_find(struct write_job *j, const char *path, const struct buf *text, char **out,
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
        rc = outdir_look(&j->place, buf_str(&name), out_there, &st, err);
        if (rc == RC_OK && *out_there && S_ISREG(st.st_mode) && st.st_size == (off_t)text->len)
            rc = outdir_read(&j->place, buf_str(&name), RENDER_FILE_MAX, &other, err);
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
static bool base_find(const struct write_job *j, const struct render_file *f, const char *new_sum,
                      struct render_text *out)
{
    const char *sum = written_sum(&j->old, f->path);
    const struct base_item *b = sum ? bases_find(&j->bases, sum) : NULL;

    if (b)
        *out = (struct render_text){ b->text, b->len };
    else if (sum && !strcmp(sum, new_sum))
        *out = (struct render_text){ buf_str(&f->text), f->text.len };
    return b || (sum && !strcmp(sum, new_sum));
}

/* Somebody edited the file: what will become of it. */
static enum rc edit_judge(struct write_job *j, struct render_change *c, const struct buf *text,
                          struct err *err)
{
    struct render_text base, mine = { buf_str(text), text->len };
    struct render_text ours = { buf_str(&c->file->text), c->file->text.len };
    char sum[SHA256_HEX];
    bool there;

    bases_sum(ours.p, ours.len, sum);
    buf_init(&c->merged, RENDER_FILE_MAX);
    if (!j->where->force && !memchr(mine.p, '\0', mine.len) && base_find(j, c->file, sum, &base) &&
        render_merge_text(base, mine, ours, &c->merged)) {
        bool as_is = c->merged.len == text->len && !memcmp(c->merged.data, mine.p, mine.len);

        /* who put something into it may have closed it for that reason */
        c->mode_new &= c->mode_old | S_IRWXU;
        c->edit = as_is ? RENDER_EDIT_KEPT : RENDER_EDIT_MERGED;
        c->kind = as_is && c->mode_old == c->mode_new ? RENDER_SAME : RENDER_CHANGED;
        return RC_OK;
    }
    c->edit = RENDER_EDIT_ASIDE;
    return aside_find(j, c->path, text, &c->aside, &there, err);
}

/* What stands at a path of ours.  One beyond our limit differs from all that we write. */
static enum rc text_read(struct write_job *j, const char *path, const struct stat *st,
                         struct buf *out, struct err *err)
{
    return st->st_size > RENDER_FILE_MAX ? RC_OK
                                         : outdir_read(&j->place, path, RENDER_FILE_MAX, out, err);
}

static enum rc compare_text(struct write_job *j, struct render_change *c, const struct stat *st,
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
        c->foreign = c->kind == RENDER_CHANGED && !written_find(&j->old, c->path);
    } else if (rc == RC_OK && !written_find(&j->old, c->path)) {
        c->foreign = true;
    } else if (rc == RC_OK &&
               !written_has(&j->old, c->path, bases_sum(buf_str(&text), text.len, sum))) {
        rc = edit_judge(j, c, &text, err);
    }
    buf_release(&text);
    return rc;
}

static enum rc compare_one(struct write_job *j, const struct render_file *f, struct err *err)
{
    struct render_change *c;
    struct stat st;
    bool there = false;
    enum rc rc;

    if (!outdir_path_ok(f->path) || strpbrk(f->path, "\t\n"))
        return err_set(err, RC_FAIL, "'%s' is no path below a folder", f->path);
    rc = outdir_look(&j->place, f->path, &there, &st, err);
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
static bool is_over(const struct write_job *j, size_t i)
{
    const char *path = j->old.items[i].path;

    return in_question(j->where, path) && !in_set(j->set, path) &&
           (!i || strcmp(path, j->old.items[i - 1].path) != 0);
}

/* A file of an earlier run; a folder that stands there now is somebody's. */
static enum rc compare_gone(struct write_job *j, const char *path, struct err *err)
{
    struct render_change *c;
    struct stat st;
    struct buf text;
    char sum[SHA256_HEX];
    bool there;
    enum rc rc = outdir_look(&j->place, path, &there, &st, err);

    if (rc || !there || !S_ISREG(st.st_mode))
        return rc;
    c = change_add(&j->changes, path);
    c->kind = RENDER_GONE;
    change_seen(c, &st);
    buf_init(&text, RENDER_FILE_MAX + 1);
    rc = text_read(j, path, &st, &text, err);
    if (rc == RC_OK && !written_has(&j->old, path, bases_sum(buf_str(&text), text.len, sum))) {
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

static enum rc compare_set(struct write_job *j, struct err *err)
{
    enum rc rc = written_read(&j->place, &j->old, err);

    if (rc == RC_OK)
        rc = bases_read(&j->place, &j->bases, err);
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
static enum rc job_begin(struct write_job *j, bool make, struct err *err)
{
    enum rc rc = outdir_open(&j->place, j->where->dir, make, err);

    if (rc == RC_OK && j->place.fd >= 0)
        rc = journal_recover(&j->place, NULL, err);
    return rc ? rc : compare_set(j, err);
}

static void job_end(struct write_job *j, enum rc rc, struct render_changes *out)
{
    if (rc == RC_OK && out)
        *out = j->changes;
    else
        render_changes_release(&j->changes);
    written_release(&j->old);
    bases_release(&j->bases);
    journal_release(&j->journal);
    outdir_close(&j->place);
}

const char *render_recovered_name(enum render_recovered r)
{
    static const char *const names[] = { NULL, "finished", "undone" };

    return names[r];
}

enum rc render_recover(const char *dir, struct render_recovery *out, struct err *err)
{
    struct outdir p;
    enum rc rc = RC_OK;

    *out = (struct render_recovery){ 0 };
    if (outdir_open(&p, dir, false, NULL) == RC_OK && p.fd >= 0) /* else the run itself will tell */
        rc = journal_recover(&p, out, err);
    outdir_close(&p);
    return rc;
}

enum rc render_compare(const struct render_set *set, const struct render_where *where,
                       struct render_changes *out, struct err *err)
{
    struct write_job j = { .where = where, .set = set };
    enum rc rc = job_begin(&j, false, err);

    job_end(&j, rc, out);
    return rc;
}

/* ---- 3. to 6. ---- */

static enum rc refuse_foreign(const struct write_job *j, struct err *err)
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

static void journal_take(struct journal_item *it, const struct render_change *c)
{
    it->seen_ino = c->seen_ino;
    it->seen_size = c->seen_size;
    it->seen_ns = c->seen_ns;
    it->aside = c->aside ? xstrdup(c->aside) : NULL;
}

/* What is to be done for a file of the set or one that is no longer in it. */
static void journal_plan(struct write_job *j, const struct render_change *c)
{
    const char *old = written_sum(&j->old, c->path);
    char sum[SHA256_HEX];

    if (c->kind == RENDER_GONE) {
        journal_take(journal_add(&j->journal, JOURNAL_REMOVE, c->path), c);
        return;
    }
    bases_sum(buf_str(&c->file->text), c->file->text.len, sum);
    if (is_write(c)) {
        struct journal_item *it = journal_add(&j->journal, JOURNAL_WRITE, c->path);
        struct render_text text = render_change_text(c);

        journal_take(it, c);
        it->mode = c->mode_new;
        bases_sum(text.p, text.len, it->staged);
        memcpy(it->listed, sum, SHA256_HEX);
    } else if (!str_eq(old, sum)) {
        memcpy(journal_add(&j->journal, JOURNAL_LIST, c->path)->listed, sum, SHA256_HEX);
    }
}

static bool in_changes(const struct write_job *j, const char *path)
{
    struct render_change key = { .path = (char *)path }; /* only read */

    return j->changes.count && bsearch(&key, j->changes.items, j->changes.count,
                                       sizeof(*j->changes.items), change_by_path);
}

/* The texts of the set, and of the old list where they are not the same. */
static void bases_both(const struct write_job *j, struct buf *out)
{
    char sum[SHA256_HEX];

    for (size_t i = 0; i < j->set->count; i++) {
        const struct buf *text = &j->set->files[i]->text;

        bases_add(out, bases_sum(buf_str(text), text->len, sum), buf_str(text), text->len);
    }
    bases_of_list(&j->old, &j->bases, out);
}

static enum rc bases_prepare(struct write_job *j, struct err *err)
{
    struct buf text;
    enum rc rc;

    buf_init(&text, BASES_MAX);
    bases_both(j, &text);
    rc = written_own_file(&j->place, BASES_NAME, &text, BASES_MAX, 0600, err);
    buf_release(&text);
    return rc;
}

/* The second name of an edited file; one that a stopped run gave it will do. */
static enum rc aside_prepare(struct write_job *j, const struct render_change *c, struct err *err)
{
    struct stat st;
    bool there;
    enum rc rc = outdir_look(&j->place, c->aside, &there, &st, err);

    return rc || there ? rc : outdir_link(&j->place, c->path, c->aside, err);
}

static enum rc prepare_files(struct write_job *j, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++) {
        const struct render_change *c = &j->changes.items[i];
        struct render_text text;

        if (c->aside)
            rc = aside_prepare(j, c, err);
        if (rc || !is_write(c))
            continue;
        text = render_change_text(c);
        rc = outdir_prepare(&j->place, c->path, text.p, text.len, c->mode_new, err);
    }
    if (rc == RC_OK)
        rc = bases_prepare(j, err);
    for (size_t i = 0; i < j->changes.count && rc == RC_OK; i++)
        if (is_write(&j->changes.items[i]) || j->changes.items[i].aside)
            outdir_sync(&j->place, j->changes.items[i].path);
    outdir_sync_made(&j->place);
    return rc;
}

/* The folder as it was.  Texts of no list are of no use, and do no harm. */
static void take_back(struct write_job *j)
{
    journal_undo(&j->place, &j->journal);
    outdir_undo(&j->place);
    if (!j->old.count && outdir_remove(&j->place, BASES_NAME, NULL))
        return; /* the journal stays, and the next run tries again */
    if (outdir_remove(&j->place, JOURNAL_NAME, NULL) == RC_OK)
        outdir_sync(&j->place, JOURNAL_NAME);
    outdir_undo(&j->place); /* the folder itself, now that nothing is in it */
}

/* Where nothing has been renamed yet there is still a way back. */
static enum rc commit_files(struct write_job *j, struct err *err)
{
    enum rc rc = journal_commit(&j->place, &j->journal, false, err);

    if (rc == RC_OK) {
        /* A file that somebody saved between 2 and 6 is as they left it. */
        for (size_t i = 0; i < j->journal.count; i++)
            if (j->journal.items[i].left) {
                err_hint(err,
                         "Run the command again: it merges what was edited, or keeps it aside.");
                return err_set(err, RC_FAIL, "'%s' in '%s' was changed while it was to be written",
                               j->journal.items[i].path, j->place.dir);
            }
        return RC_OK;
    }
    if (!j->journal.done && journal_write(&j->place, &j->journal, JOURNAL_PREPARE, NULL) == RC_OK)
        take_back(j);
    else
        err_hint(err, "The same command again finishes what was begun; nothing is lost.");
    return rc;
}

/* Nothing but the texts may have to be written, where somebody removed them. */
static enum rc bases_mend(struct write_job *j, struct err *err)
{
    struct bases both = { 0 };
    struct buf text;
    enum rc rc;

    buf_init(&both.text, BASES_MAX);
    buf_init(&text, BASES_MAX);
    bases_both(j, &both.text);
    bases_parse(&both);
    bases_of_list(&j->old, &both, &text);
    rc = written_own_file(&j->place, BASES_NAME, &text, BASES_MAX, 0600, err);
    bases_release(&both);
    buf_release(&text);
    return rc;
}

static enum rc job_write(struct write_job *j, struct err *err)
{
    enum rc rc;

    for (size_t i = 0; i < j->changes.count; i++)
        journal_plan(j, &j->changes.items[i]);
    for (size_t i = 0; i < j->old.count; i++)
        if (is_over(j, i) && !in_changes(j, j->old.items[i].path))
            journal_add(&j->journal, JOURNAL_FORGET, j->old.items[i].path);
    journal_sort(&j->journal);
    if (!j->journal.count)
        return bases_mend(j, err);
    rc = journal_write(&j->place, &j->journal, JOURNAL_PREPARE, err);
    if (rc == RC_OK)
        rc = prepare_files(j, err);
    if (rc == RC_OK)
        rc = journal_write(&j->place, &j->journal, JOURNAL_COMMIT, err);
    if (rc == RC_OK)
        return commit_files(j, err);
    take_back(j);
    return rc;
}

enum rc render_write(const struct render_set *set, const struct render_where *where,
                     struct render_changes *out, struct err *err)
{
    struct write_job j = { .where = where, .set = set };
    enum rc rc = job_begin(&j, true, err);

    if (rc == RC_OK)
        rc = refuse_foreign(&j, err);
    if (rc == RC_OK)
        rc = job_write(&j, err);
    else if (j.place.fd >= 0)
        outdir_undo(&j.place); /* the folder, where it was made for nothing */
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
static enum rc diff_aside(struct write_job *j, const struct render_change *c,
                          struct render_text *was, struct buf *out, struct err *err)
{
    struct render_change beside = { .path = c->aside, .mode_new = c->mode_old };
    struct stat st;
    bool there;
    enum rc rc = outdir_look(&j->place, c->aside, &there, &st, err);

    if (rc == RC_OK && !there && !memchr(was->p, '\0', was->len))
        diff_part(&beside, NULL, was, out);
    return rc;
}

static enum rc diff_one(struct write_job *j, const struct render_change *c, struct buf *out,
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
        rc = c->link ? outdir_read_link(&j->place, c->path, &old, err)
                     : outdir_read(&j->place, c->path, RENDER_FILE_MAX, &old, err);
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
    struct write_job j = { .where = where, .set = set };
    enum rc rc = job_begin(&j, false, err);

    for (size_t i = 0; i < j.changes.count && rc == RC_OK; i++)
        if (j.changes.items[i].kind != RENDER_SAME)
            rc = diff_one(&j, &j.changes.items[i], out, err);
    job_end(&j, rc, changes);
    return rc;
}

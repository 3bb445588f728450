/* SPDX-License-Identifier: MIT */
/* journal: finish or undo what a run was stopped in.
 *
 * journal_int.h says what the file holds.  journal_commit() is the same code for a run and for the
 * one that finds its journal: each item is looked at before it is touched, so that doing it twice
 * changes nothing, and what stands in a place but is not what was compared stays.  The list, the
 * bases and the end of the journal come last, in this order. */
#include "render/outdir/journal_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "render/outdir/bases_int.h"
#include "render/outdir/written_int.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL_HEAD "stoker-render-journal 1 "
static const char *const state_words[] = {
    [JOURNAL_PREPARE] = "prepare", [JOURNAL_COMMIT] = "commit"
};
static const char *const op_words[] = { [JOURNAL_WRITE] = "write",
                                        [JOURNAL_REMOVE] = "remove",
                                        [JOURNAL_LIST] = "list",
                                        [JOURNAL_FORGET] = "forget" };
enum { JOURNAL_FIELDS = 9 };

void journal_release(struct journal *j)
{
    for (size_t i = 0; i < j->count; i++) {
        free(j->items[i].path);
        free(j->items[i].aside);
    }
    free(j->items);
    *j = (struct journal){ 0 };
}

struct journal_item *journal_add(struct journal *j, enum journal_op op, const char *path)
{
    VEC_GROW(j->items, j->count, j->cap);
    j->items[j->count] = (struct journal_item){ .op = op, .path = xstrdup(path) };
    return &j->items[j->count++];
}

static int item_by_path(const void *a, const void *b)
{
    const struct journal_item *x = a, *y = b;

    return strcmp(x->path, y->path);
}

void journal_sort(struct journal *j)
{
    if (j->count)
        qsort(j->items, j->count, sizeof(*j->items), item_by_path);
}

/* ---- as text ---- */

static const char *or_dash(const char *s)
{
    return s && *s ? s : "-";
}

void journal_text(const struct journal *j, enum journal_state state, struct buf *out)
{
    buf_addf(out, JOURNAL_HEAD "%s\n", state_words[state]);
    for (size_t i = 0; i < j->count; i++) {
        const struct journal_item *it = &j->items[i];

        buf_addf(out, "%s\t%o\t%" PRIu64 "\t%" PRId64 "\t%" PRId64 "\t%s\t%s\t%s\t%s\n",
                 op_words[it->op], it->mode, it->seen_ino, it->seen_size, it->seen_ns,
                 or_dash(it->staged), or_dash(it->listed), or_dash(it->aside), it->path);
    }
    buf_adds(out, "end\n"); /* half a journal is none */
}

static bool sum_take(const char *field, bool wanted, char out[SHA256_HEX])
{
    if (!wanted)
        return str_eq(field, "-");
    return strlen(field) == SHA256_HEX - 1 && written_is_sum(field) &&
           str_copy(out, SHA256_HEX, field);
}

/* A path of the list's kind: below the folder, and no file of our own. */
static bool path_fits(const char *path)
{
    return outdir_path_ok(path) && str_is_text(path, strlen(path)) && !str_starts(path, LIST_NAME);
}

static bool item_parse(struct journal *j, char *fields[JOURNAL_FIELDS])
{
    struct journal_item it = { 0 };
    size_t op = 0;
    uint64_t mode;

    while (op < ARRAY_SIZE(op_words) && !str_eq(fields[0], op_words[op]))
        op++;
    if (op == ARRAY_SIZE(op_words) || !str_to_u64(fields[1], 8, &mode) || mode > 0777 ||
        !str_to_u64(fields[2], 10, &it.seen_ino) || !str_to_i64(fields[3], 10, &it.seen_size) ||
        !str_to_i64(fields[4], 10, &it.seen_ns) ||
        !sum_take(fields[5], op == JOURNAL_WRITE, it.staged) ||
        !sum_take(fields[6], op == JOURNAL_WRITE || op == JOURNAL_LIST, it.listed) ||
        !(str_eq(fields[7], "-") || path_fits(fields[7])) || !path_fits(fields[8]) ||
        (j->count && strcmp(j->items[j->count - 1].path, fields[8]) >= 0))
        return false;
    it.op = (enum journal_op)op;
    it.mode = (unsigned)mode;
    it.path = xstrdup(fields[8]);
    it.aside = str_eq(fields[7], "-") ? NULL : xstrdup(fields[7]);
    VEC_GROW(j->items, j->count, j->cap);
    j->items[j->count++] = it;
    return true;
}

static bool line_parse(struct journal *j, char *line)
{
    char *fields[JOURNAL_FIELDS];
    size_t n = 0;

    for (char *at = line; n < JOURNAL_FIELDS; n++) {
        fields[n] = at;
        at += strcspn(at, "\t");
        if (!*at) {
            n++;
            break;
        }
        *at++ = '\0';
    }
    return n == JOURNAL_FIELDS && j->count < 2 * RENDER_FILES_MAX && item_parse(j, fields);
}

bool journal_parse(char *text, struct journal *out, enum journal_state *out_state)
{
    char *save, *line = strtok_r(text, "\n", &save);
    bool commit = str_eq(line, JOURNAL_HEAD "commit");
    bool ok = commit || str_eq(line, JOURNAL_HEAD "prepare"), ended = false;

    while (ok && !ended && (line = strtok_r(NULL, "\n", &save))) {
        ended = str_eq(line, "end");
        ok = ended || line_parse(out, line);
    }
    *out_state = commit ? JOURNAL_COMMIT : JOURNAL_PREPARE;
    return ok && ended;
}

enum rc journal_write(struct outdir *p, const struct journal *j, enum journal_state state,
                      struct err *err)
{
    struct buf text;
    enum rc rc;

    buf_init(&text, JOURNAL_MAX);
    journal_text(j, state, &text);
    if (text.over)
        rc = err_set(err, RC_LIMIT, "the journal of '%s' would be larger than %d bytes", p->dir,
                     JOURNAL_MAX);
    else
        rc = written_own_file(p, JOURNAL_NAME, &text, JOURNAL_MAX, 0600, err);
    buf_release(&text);
    if (rc == RC_OK)
        outdir_sync(p, JOURNAL_NAME);
    return rc;
}

/* ---- commit ---- */

/* Is it what was compared?  Where nothing is, nothing can be lost. */
static bool is_seen(const struct journal_item *it, bool there, const struct stat *st)
{
    return !there || (st->st_ino == it->seen_ino && st->st_size == it->seen_size &&
                      st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec == it->seen_ns);
}

/* The sum of a regular file, "" of anything else and of one beyond our limit. */
static enum rc sum_at(struct outdir *p, const char *path, char out[SHA256_HEX], struct err *err)
{
    struct stat st;
    struct buf text;
    bool there;
    enum rc rc = outdir_look(p, path, &there, &st, err);

    *out = '\0';
    if (rc || !there || !S_ISREG(st.st_mode) || st.st_size > RENDER_FILE_MAX)
        return rc;
    buf_init(&text, RENDER_FILE_MAX + 1);
    rc = outdir_read(p, path, RENDER_FILE_MAX, &text, err);
    if (rc == RC_OK)
        bases_sum(buf_str(&text), text.len, out);
    buf_release(&text);
    return rc;
}

/* What was edited has its second name before its first one goes. */
static enum rc item_keep(struct outdir *p, const struct journal_item *it, bool there,
                         struct err *err)
{
    struct stat st;
    bool kept;
    enum rc rc;

    if (!it->aside || !there)
        return RC_OK;
    rc = outdir_look(p, it->aside, &kept, &st, err);
    return rc || kept ? rc : outdir_aside(p, it->path, it->aside, err);
}

/* Nothing is beside the place: it was renamed, unless what we wrote before stands there still. */
static enum rc item_was_renamed(struct outdir *p, const struct written_list *old,
                                struct journal_item *it, struct err *err)
{
    char sum[SHA256_HEX];
    enum rc rc = sum_at(p, it->path, sum, err);

    it->left = rc == RC_OK && strcmp(sum, it->staged) != 0 && written_has(old, it->path, sum);
    return rc;
}

static enum rc item_rename(struct outdir *p, const struct written_list *old,
                           struct journal_item *it, bool check, struct err *err)
{
    char *beside = outdir_beside(it->path), sum[SHA256_HEX];
    struct stat st;
    bool staged = false, there = false;
    enum rc rc = outdir_look(p, beside, &staged, &st, err);

    if (rc == RC_OK && staged && check) {
        rc = sum_at(p, beside, sum, err);
        it->left = rc == RC_OK && strcmp(sum, it->staged) != 0;
    }
    free(beside);
    if (rc == RC_OK && !staged)
        return item_was_renamed(p, old, it, err);
    if (rc == RC_OK)
        rc = outdir_look(p, it->path, &there, &st, err);
    if (rc)
        return rc;
    it->left |= !is_seen(it, there, &st);
    if (it->left) {
        outdir_discard(p, it->path);
        return RC_OK;
    }
    rc = item_keep(p, it, there, err);
    if (rc == RC_OK)
        rc = outdir_commit(p, it->path, err);
    return rc;
}

static enum rc item_remove(struct outdir *p, struct journal_item *it, struct err *err)
{
    struct stat st;
    bool there;
    enum rc rc = outdir_look(p, it->path, &there, &st, err);

    if (rc)
        return rc;
    it->left = !is_seen(it, there, &st);
    if (it->left)
        return RC_OK;
    rc = item_keep(p, it, there, err);
    return rc ? rc : outdir_remove(p, it->path, err);
}

static enum rc items_commit(struct outdir *p, const struct written_list *old, struct journal *j,
                            bool check, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < j->count && rc == RC_OK; i++) /* new ones first: less is missing */
        if (j->items[i].op == JOURNAL_WRITE) {
            rc = item_rename(p, old, &j->items[i], check, err);
            j->done += rc == RC_OK;
        }
    for (size_t i = 0; i < j->count && rc == RC_OK; i++)
        if (j->items[i].op == JOURNAL_REMOVE) {
            rc = item_remove(p, &j->items[i], err);
            j->done += rc == RC_OK;
        }
    for (size_t i = 0; i < j->count && rc == RC_OK; i++)
        if (j->items[i].op == JOURNAL_REMOVE || j->items[i].op == JOURNAL_FORGET)
            rc = outdir_prune(p, j->items[i].path, err);
    for (size_t i = 0; i < j->count && rc == RC_OK; i++)
        if (j->items[i].op == JOURNAL_WRITE || j->items[i].op == JOURNAL_REMOVE)
            outdir_sync(p, j->items[i].path);
    return rc;
}

static enum rc list_finish(struct outdir *p, const struct written_list *old,
                           const struct journal *j, struct err *err)
{
    struct buf text;
    enum rc rc;
    size_t i = 0, k = 0;

    buf_init(&text, LIST_MAX);
    /* The old list with what was done to it. */
    while (i < old->count || k < j->count) {
        const struct listed_file *o = i < old->count ? &old->items[i] : NULL;
        const struct journal_item *it = k < j->count ? &j->items[k] : NULL;
        int order = !o ? 1 : !it ? -1 : strcmp(o->path, it->path);

        if (order < 0 || (!order && it->left)) {
            written_line(&text, o->sum, o->path);
            i++;
            continue;
        }
        if (!order) {
            i++;
            continue; /* its line, if it has one, comes with the journal's */
        }
        assert(it);
        if (*it->listed && !it->left)
            written_line(&text, it->listed, it->path);
        k++;
    }
    rc = text.over
             ? err_set(err, RC_LIMIT, "the list of files would be larger than %d bytes", LIST_MAX)
             : written_own_file(p, LIST_NAME, &text, LIST_MAX, 0644, err);
    buf_release(&text);
    if (rc == RC_OK)
        outdir_sync(p, LIST_NAME);
    return rc;
}

/* Only the texts that the list speaks of. */
static enum rc bases_finish(struct outdir *p, struct err *err)
{
    struct bases have = { 0 };
    struct written_list list = { 0 };
    struct buf text;
    enum rc rc = bases_read(p, &have, err);

    if (rc == RC_OK)
        rc = written_read(p, &list, err);
    buf_init(&text, BASES_MAX);
    bases_of_list(&list, &have, &text);
    if (rc == RC_OK)
        rc = written_own_file(p, BASES_NAME, &text, BASES_MAX, 0600, err);
    buf_release(&text);
    bases_release(&have);
    written_release(&list);
    return rc;
}

enum rc journal_commit(struct outdir *p, struct journal *j, bool check, struct err *err)
{
    struct written_list old = { 0 };
    enum rc rc = written_read(p, &old, err);

    if (rc == RC_OK)
        rc = items_commit(p, &old, j, check, err);
    if (rc == RC_OK)
        rc = list_finish(p, &old, j, err);
    if (rc == RC_OK)
        rc = bases_finish(p, err);
    if (rc == RC_OK)
        rc = outdir_remove(p, JOURNAL_NAME, err);
    outdir_sync(p, JOURNAL_NAME);
    written_release(&old);
    return rc;
}

/* ---- undo ---- */

/* The second name of a file that is still there by its first. */
static void aside_undo(struct outdir *p, const struct journal_item *it)
{
    struct stat first, second;
    bool there = false, kept = false;

    if (!outdir_look(p, it->path, &there, &first, NULL) && there &&
        !outdir_look(p, it->aside, &kept, &second, NULL) && kept && first.st_ino == second.st_ino &&
        first.st_dev == second.st_dev && outdir_remove(p, it->aside, NULL))
        return; /* two names for one file: nothing is lost by either */
}

void journal_undo(struct outdir *p, const struct journal *j)
{
    for (size_t i = 0; i < j->count; i++) {
        const struct journal_item *it = &j->items[i];

        if (it->aside)
            aside_undo(p, it);
        if (it->op == JOURNAL_WRITE)
            outdir_discard(p, it->path);
    }
}

/* ---- what a stopped run left ---- */

static enum rc journal_read(struct outdir *p, struct journal *out, enum journal_state *out_state,
                            struct err *err)
{
    struct buf text;
    enum rc rc;

    buf_init(&text, JOURNAL_MAX + 1);
    rc = outdir_read(p, JOURNAL_NAME, JOURNAL_MAX, &text, err);
    if (rc == RC_OK && (!text.len || !journal_parse(text.data, out, out_state))) {
        err_hint(err, "Remove it and render again: files that differ are then taken for edited.");
        rc = err_set(err, RC_FAIL,
                     "'" JOURNAL_NAME "' in '%s' is not a journal that "
                     "'stoker render' wrote",
                     p->dir);
    }
    buf_release(&text);
    return rc;
}

/* Folders that were made for files that never came. */
static enum rc prepare_undo(struct outdir *p, const struct journal *j, struct err *err)
{
    enum rc rc = RC_OK;

    journal_undo(p, j);
    for (size_t i = 0; i < j->count && rc == RC_OK; i++)
        if (j->items[i].op == JOURNAL_WRITE && !j->items[i].seen_ino)
            rc = outdir_prune(p, j->items[i].path, err);
    if (rc == RC_OK)
        rc = outdir_remove(p, JOURNAL_NAME, err);
    outdir_sync(p, JOURNAL_NAME);
    return rc;
}

/* Our own files that never came into place. */
static void own_discard(struct outdir *p)
{
    static const char *const names[] = { JOURNAL_NAME, LIST_NAME, BASES_NAME };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        outdir_discard(p, names[i]);
}

/* Is there a journal that nobody works on?  Then the lock is ours. */
static enum rc journal_find(struct outdir *p, bool *out_there, struct err *err)
{
    char *beside = outdir_beside(JOURNAL_NAME);
    struct stat st;
    bool begun = false;
    enum rc rc = outdir_look(p, JOURNAL_NAME, out_there, &st, err);

    if (rc == RC_OK && !*out_there)
        rc = outdir_look(p, beside, &begun, &st, err);
    free(beside);
    if (begun && outdir_lock(p, NULL) == RC_OK) /* else somebody is about to begin */
        own_discard(p);
    if (rc || !*out_there)
        return rc;
    rc = outdir_lock(p, err);
    if (rc == RC_OK) /* it may have been somebody's who is through by now */
        rc = outdir_look(p, JOURNAL_NAME, out_there, &st, err);
    return rc;
}

void render_recovery_release(struct render_recovery *r)
{
    for (size_t i = 0; i < r->kept_count; i++) {
        free(r->kept[i].path);
        free(r->kept[i].aside);
    }
    free(r->kept);
    *r = (struct render_recovery){ 0 };
}

enum rc journal_recover(struct outdir *p, struct render_recovery *out, struct err *err)
{
    struct journal j = { 0 };
    enum journal_state state = JOURNAL_PREPARE;
    bool there;
    enum rc rc = journal_find(p, &there, err);

    if (rc || !there)
        return rc;
    own_discard(p);
    rc = journal_read(p, &j, &state, err);
    if (rc == RC_OK)
        rc = state == JOURNAL_COMMIT ? journal_commit(p, &j, true, err) : prepare_undo(p, &j, err);
    if (rc == RC_OK && out) {
        /* The run that was stopped could tell nobody which edited files it set aside. */
        out->what = state == JOURNAL_COMMIT ? RENDER_RECOVER_FINISHED : RENDER_RECOVER_UNDONE;
        for (size_t i = 0; state == JOURNAL_COMMIT && i < j.count; i++) {
            const struct journal_item *it = &j.items[i];

            if (!it->aside || it->left)
                continue;
            VEC_GROW(out->kept, out->kept_count, out->kept_cap);
            out->kept[out->kept_count++] =
                (struct render_kept){ .path = xstrdup(it->path), .aside = xstrdup(it->aside) };
        }
    }
    journal_release(&j);
    if (rc)
        err_ctx(err, "an earlier run was stopped while it wrote to '%s'", p->dir);
    return rc;
}

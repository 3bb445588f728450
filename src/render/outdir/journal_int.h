/* SPDX-License-Identifier: MIT */
/* journal_int: what a run is about to do to a folder, on the disk before it does it.
 *
 * DIR/.stoker-render.journal is there while a run writes.  Who finds it with nobody holding the
 * folder's lock finds a run that was stopped, and either undoes it or finishes it:
 *
 *     prepare   files are being written beside their places; nothing has been replaced.  What is
 *               beside a place is thrown away
 *     commit    all of them are on the disk: each is renamed, what is no longer rendered removed
 *
 * Committing is the same code whether a run does it or the one after it, and may be done any number
 * of times.  It never takes away what it does not know: a file that is no longer the one that was
 * compared (same inode, size and time) stays, its list line too, and the comparison that follows
 * sees it as edited.
 *
 * A line for each file, tabs between: what to do, mode in octal, inode, size and time in ns of
 * what stood there (0 0 0: nothing), the sum of the text beside its place, the sum for the list,
 * the name that keeps an edited file, the path; "-" where there is none. */
#ifndef RENDER_OUTDIR_JOURNAL_INT_H
#define RENDER_OUTDIR_JOURNAL_INT_H
#include "base/codec/sha256.h"
#include "render/outdir/outdir_int.h"
#include "render/render_int.h"

#define JOURNAL_NAME ".stoker-render.journal"
enum { JOURNAL_MAX = 64 << 20 }; /* bytes of a journal */

enum journal_state { JOURNAL_PREPARE, JOURNAL_COMMIT };
enum journal_op {
    JOURNAL_WRITE,  /* rename what is beside the place */
    JOURNAL_REMOVE, /* it is no longer rendered */
    JOURNAL_LIST,   /* the file is right, its line in the list is not */
    JOURNAL_FORGET  /* nothing stands there, but a line is in the list */
};

struct journal_item {
    enum journal_op op;
    char *path;  /* owned */
    char *aside; /* owned; NULL: what stands there was not edited */
    unsigned mode;
    uint64_t seen_ino; /* 0: nothing stood there */
    int64_t seen_size, seen_ns;
    char staged[SHA256_HEX]; /* WRITE */
    char listed[SHA256_HEX]; /* WRITE, LIST */
    bool left;               /* not done, since what stands there is not what was compared */
};
struct journal {                /* all zero is an empty one */
    struct journal_item *items; /* sorted by path */
    size_t count, cap;
    size_t done; /* renamed and removed in this process */
};
void journal_release(struct journal *j);
struct journal_item *journal_add(struct journal *j, enum journal_op op, const char *path);
void journal_sort(struct journal *j);

void journal_text(const struct journal *j, enum journal_state state, struct buf *out);
/* False: this is no journal of ours, or half of one. */
bool journal_parse(char *text, struct journal *out, enum journal_state *out_state);

/* To the disk; what it stands for may begin when this returns RC_OK. */
enum rc journal_write(struct outdir *p, const struct journal *j, enum journal_state state,
                      struct err *err) MUST_USE;
/* Renames and removes, then the list, the texts it is of, and the journal away.  With `check` what
 * is beside a place is looked at before it is trusted. */
enum rc journal_commit(struct outdir *p, struct journal *j, bool check, struct err *err) MUST_USE;
/* Throws away what is beside places; second names of files that stand in their place, too. */
void journal_undo(struct outdir *p, const struct journal *j);

/* Finishes or undoes what a stopped run left.  The folder's lock is taken when there is something
 * to do, and held until the place is closed. */
enum rc journal_recover(struct outdir *p, struct render_recovery *out, struct err *err) MUST_USE;

#endif

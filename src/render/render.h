/* SPDX-License-Identifier: MIT */
/* render: one spec into the files that other programs read.
 *
 *     spec (+ inventory) --check--> --target--> set of files in memory --write--> DIR
 *                                                                     --diff---> what would change
 *
 * A target is a pure function: it reads structs and appends files to a set; nothing is opened,
 * run or asked for, and the same spec gives the same bytes.  A value that a format cannot hold
 * (a newline in slurm.conf) is refused at its line and column in the spec; all such faults of a
 * run are reported together, and then nothing is written at all.
 *
 * Every value that comes from the spec is followed or preceded, where the format has comments,
 * by where it stands there: render_from().
 *
 * Adding a target: src/render/NAME/NAME.c with one `void render_NAME(struct render *r)`, a row in
 * targets[] of src/render/render_targets.c, golden files by `make golden-render`. */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "spec/spec.h"

struct hw;
struct render; /* what a target is given: render_int.h */

enum {
    RENDER_TARGETS_MAX = 32,    /* targets of one run */
    RENDER_FILES_MAX = 20000,   /* files of one run */
    RENDER_PATH_MAX = 512,      /* bytes of a path below the output folder */
    RENDER_FILE_MAX = 64 << 20, /* bytes of one file */
    RENDER_MACHINES_MAX = 512   /* inventories of one run */
};

struct render_file {
    char *path; /* owned; relative, '/' between folders, no ".." */
    struct buf text;
    bool exec;   /* 0755 instead of 0644 */
    bool secret; /* 0600: holds or names a secret */
};
struct render_set {
    struct render_file **files; /* owned; sorted by path once render_run() is through */
    size_t count, cap;
};
void render_set_release(struct render_set *set);

struct render_machine {
    const struct hw *hw;
    const char *name;             /* its file's, for a host name that says nothing; NULL: none */
    const struct spec_node *node; /* render_run() finds it; NULL: it fits no group */
};

/* --- real machines beside the spec, machines.c --- */
struct render_fact {    /* where a machine contradicts its group */
    const void *member; /* what the spec says stands there */
    const char *what;   /* "GPUs", "MTU of eth1" */
    const char *spec, *found;
    bool hard;  /* files made from this spec would be wrong on the machine */
    bool least; /* of the two figures the smaller one is written */
};
struct render_facts { /* all zero is an empty one */
    struct arena arena;
    struct render_fact *items; /* owned */
    size_t count, cap;
};
void render_facts_release(struct render_facts *f);
/* The group that lists the host name, with or without its domain; NULL: none. */
const struct spec_node *render_machine_group(const struct spec *s, const char *host);
void render_machine_check(const struct spec *s, const struct spec_node *n, const struct hw *hw,
                          struct render_facts *out);

/* --- render_targets.c --- */
struct render_target {
    const char *name, *what;
    void (*make)(struct render *r);
    bool (*in_spec)(const struct spec *s); /* does `all` mean it for this spec? */
};
size_t render_target_count(void);
const struct render_target *render_target_at(size_t i);
const struct render_target *render_target_find(const char *name);

/* --- the whole, render_run.c --- */
/* RC_PARSE with the faults in `diags` when the spec cannot be rendered; `out` is then empty. */
struct render_input {
    struct spec *spec; /* takes in what the machines are found to have: spec_node_learn() */
    const struct render_machine *machines; /* inventories; their groups need not be set */
    size_t machine_count;
    const struct render_target *const *targets;
    size_t target_count;
    bool where; /* comments name the spec's line too; it is another one after most edits */
};
enum rc render_run(const struct render_input *in, struct render_set *out, struct spec_diags *diags,
                   struct err *err) MUST_USE;

/* --- to the disk and against it: outdir/, text/text_diff.c --- */
struct render_text {
    const char *p;
    size_t len;
};
enum render_kind { RENDER_NEW, RENDER_CHANGED, RENDER_SAME, RENDER_GONE };
enum render_edit {
    RENDER_EDIT_NONE,
    RENDER_EDIT_KEPT,   /* ours is as it was: the edited file stays */
    RENDER_EDIT_MERGED, /* the edits and our changes are in different lines: both are taken */
    RENDER_EDIT_ASIDE   /* ours is written, the edited file is kept beside it */
};
struct render_change {
    char *path; /* owned */
    enum render_kind kind;
    const struct render_file *file; /* borrowed from the set; NULL: gone */
    unsigned mode_old, mode_new;    /* permissions; 0: there is none */
    bool foreign;                   /* what stands there differs, and no run of ours wrote it */
    bool link;                      /* what stands there is a symbolic link */
    enum render_edit edit;          /* somebody changed what we wrote */
    struct buf merged;              /* KEPT, MERGED: the text with the edits in it */
    char *aside;                    /* ASIDE: owned; where the edited file goes */
    uint64_t seen_ino;              /* of what was compared, to be seen again before it goes */
    int64_t seen_ns, seen_size;
};
struct render_changes {          /* all zero is an empty one */
    struct render_change *items; /* sorted by path */
    size_t count, cap;
};
void render_changes_release(struct render_changes *c);
const char *render_kind_name(enum render_kind kind); /* "new", "changed", "same", "gone" */
const char *render_edit_name(enum render_edit edit); /* "kept", "merged", "aside"; NULL: none */
/* What will stand there: the file's text, or the merged one.  Of a change that is not "gone". */
struct render_text render_change_text(const struct render_change *c);
unsigned render_file_mode(const struct render_file *f);

struct render_where {
    const char *dir;
    bool force; /* files that others wrote may be replaced; edited ones are set aside */
    /* Files that an earlier run wrote and this one does not are removed when they are of these
     * targets; NULL: of any. */
    const struct render_target *const *only;
    size_t only_count;
};
enum render_recovered { RENDER_RECOVER_NONE, RENDER_RECOVER_FINISHED, RENDER_RECOVER_UNDONE };
/* What a run that was killed left in a folder: all of it in its place, or none.  render_write(),
 * render_compare() and render_diff() do it too, before they compare. */
const char *render_recovered_name(enum render_recovered r); /* "finished", "undone"; NULL: none */
struct render_kept { /* an edited file that the run which was killed set aside, and did not tell */
    char *path, *aside; /* owned */
};
struct render_recovery { /* all zero: there was nothing to do */
    enum render_recovered what;
    struct render_kept *kept; /* of a run that was finished */
    size_t kept_count, kept_cap;
};
void render_recovery_release(struct render_recovery *r);
enum rc render_recover(const char *dir, struct render_recovery *out, struct err *err) MUST_USE;
/* Every file beside its place first, then all renamed: an error before that leaves the folder as
 * it was, and a run that is killed is undone or finished by the next one that looks at the folder
 * (DIR/.stoker-render.journal says what it was about).  Files of an earlier run that are no longer
 * rendered are removed (a list of what was written, DIR/.stoker-render, says which); files of
 * others are never touched unless `force`, and links in the folder are never followed.
 *
 * A file of ours that somebody edited since (its sum is not the list's) is never lost: where the
 * edit and our change are in different lines the two are merged, with what was written last
 * (DIR/.stoker-render.base) as the base; else the edited file becomes NAME.edited, or
 * NAME.edited.2 and so on, beside ours. */
enum rc render_write(const struct render_set *set, const struct render_where *where,
                     struct render_changes *out, struct err *err) MUST_USE;
/* A unified diff of what render_write() would change, in the form that git apply and patch -p1
 * take, modes included. */
enum rc render_diff(const struct render_set *set, const struct render_where *where, struct buf *out,
                    struct render_changes *changes, struct err *err) MUST_USE;

/* --- money, machine_cost.c --- */
struct render_cost { /* dollars a month of one machine; NaN: unknown */
    double rent, capital, energy, place;
    bool owned;                    /* has no rent; one that is rented has nothing else */
    const struct spec_money *from; /* what the spec says first of it */
};

struct render_cost render_cost_of(const struct spec *s, const struct spec_node *n);
/* Dollars an hour of one machine; false: the spec names no price. */
bool render_cost_hour(const struct spec *s, const struct spec_node *n, double *out);

#endif

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
 * targets[] of src/render/targets.c, golden files by `make golden-render`. */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "spec/spec.h"

struct hw;

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

struct feasible;
struct render { /* what a target is given */
    const struct spec *spec;
    const struct render_machine *machines; /* inventories, each with its group */
    size_t machine_count;
    const struct spec_targets
        *targets; /* those of the spec, the rest by their defaults; only lustre may be NULL */
    bool where;   /* comments name the line too */
    const struct feasible *feasible; /* who is where, what pods ask for; set by render_check() */
    struct render_set *out;
    struct spec_diags *diags;
    bool budgets_told; /* alerts_budgets_tell() was there */
};

/* --- what a target may call --- */

/* A new file; the caller appends to the text.  The path is a format. */
struct buf *render_file(struct render *r, const char *path, ...) PRINTF_LIKE(2, 3);
struct buf *render_script(struct render *r, const char *path, ...) PRINTF_LIKE(2, 3); /* 0755 */
/* The first port that anybody may bind; below, Linux asks for CAP_NET_BIND_SERVICE. */
enum { RENDER_PORT_FREE = 1024 };
/* The function `show` of a script that prints what it would do: a command with each word as a shell
 * reads it, so that the line can be pasted.  `echo "$*"` loses the quotes, and that of dash takes a
 * backslash for an escape. */
#define RENDER_SCRIPT_SHOW                                                                         \
    "# the command as a shell takes it\n"                                                          \
    "show() (\n"                                                                                   \
    "    line=\n"                                                                                  \
    "    for w; do\n"                                                                              \
    "        case \"$w\" in\n"                                                                     \
    "        '' | *[!A-Za-z0-9_./:@=,%+-]*)\n"                                                     \
    "            w=\"'$(printf '%s' \"$w\" | sed \"s/'/'\\\\\\\\''/g\")'\"\n"                      \
    "            ;;\n"                                                                             \
    "        esac\n"                                                                               \
    "        line=\"$line${line:+ }$w\"\n"                                                         \
    "    done\n"                                                                                   \
    "    printf '%s\\n' \"$line\"\n"                                                               \
    ")\n"
struct buf *render_secret(struct render *r, const char *path, ...) PRINTF_LIKE(2, 3); /* 0600 */

/* A file that was made is one of those. */
void render_keep_secret(struct render *r, const struct buf *text);

/* Refuses the run because of the value at `member`, with a hint (NULL: none). */
void render_refuse(struct render *r, const void *member, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Tells the user, at the value of `member`, that the target does not follow it to the letter; the
 * run goes on.  With --strict the command fails.  A remark in a file is not enough: who renders
 * does not read every file. */
void render_warn(struct render *r, const void *member, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* "components.train.gpus" or "default": where a member's value comes from.  Not the line: a comment
 * added to the spec would then change every file.  The result is one of a few static buffers of
 * the thread, good for the line that is being written. */
const char *render_from(const struct render *r, const void *member);

/* The comment that opens a file: what it is, that it is generated, from which spec and site. */
void render_head(const struct render *r, struct buf *out, const char *mark, const char *what);

/* --- quoting, quote.c --- */

/* One shell word: as it is when nothing in it is special, else in single quotes. */
void quote_sh(struct buf *out, const char *s);
/* A command and its arguments, a blank between words. */
void quote_sh_words(struct buf *out, const struct spec_strs *command);
/* May the text stand bare on a line of slurm.conf and its like (no newline, '#', blank, comma,
 * quote, '=', brackets)? */
bool slurm_plain(const char *s);
/* Text for the rest of a comment line: what ends a line in any format, and what no text holds,
 * becomes a blank or '?'. */
void quote_comment(struct buf *out, const char *s);
/* Text for HTML: & < > " ' escaped. */
void quote_html(struct buf *out, const char *s);
/* Every $ twice, as compose and Kubernetes write one that stands for itself. */
const char *quote_dollars(struct arena *a, const char *s);
/* A name as RFC 1123 wants it (lower case, digits, '-', at most 63): names of the spec that differ
 * ("world_model") become the same each time ("world-model").  `out` holds SPEC_NAME_MAX + 1. */
void dns_name(char *out, const char *name);

/* --- YAML out, yaml_out.c: block style, two blanks a level, always quoted where a reader of
 * YAML 1.1 or 1.2 could take the text for something else --- */
enum { YAML_OUT_DEPTH_MAX = 32 };
struct yaml_out {
    struct buf *buf;
    int depth;
    bool seq[YAML_OUT_DEPTH_MAX];          /* is the container at this depth a sequence? */
    bool empty[YAML_OUT_DEPTH_MAX];        /* has nothing been put into it yet? */
    bool commented[YAML_OUT_DEPTH_MAX];    /* but a comment? */
    const char *notes[YAML_OUT_DEPTH_MAX]; /* behind the key of a container */
    bool same_line;                        /* "- " stands on this line, and its first key follows */
    const char *note;                      /* behind the next value; borrowed until then */
};
void yaml_begin(struct yaml_out *y,
                struct buf *buf); /* a document: a mapping; "---" before all but the first */
void yaml_finish(struct yaml_out *y);
/* `key` is NULL inside a sequence.  A container that stays empty becomes {} or []. */
void yaml_map(struct yaml_out *y, const char *key);
void yaml_seq(struct yaml_out *y, const char *key);
void yaml_end(struct yaml_out *y); /* the innermost container */
void yaml_str(struct yaml_out *y, const char *key, const char *value);
void yaml_strf(struct yaml_out *y, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
void yaml_int(struct yaml_out *y, const char *key, int64_t value);
void yaml_bool(struct yaml_out *y, const char *key, bool value);
/* Lines of text, kept as they are: a literal block ("|") where YAML allows it. */
void yaml_text(struct yaml_out *y, const char *key, const char *text);
void yaml_strs(struct yaml_out *y, const char *key, const struct spec_strs *items); /* a sequence */
/* "# note" behind the next value (or the key of the next container). */
void yaml_note(struct yaml_out *y, const char *note);
/* A comment line of its own at this depth. */
void yaml_comment(struct yaml_out *y, const char *text);

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
/* Finds the group of each, and complains of those that contradict it or fit none. */
void render_machines_place(struct render *r, struct render_machine *machines, size_t count);
/* The cores and the memory that the machines of each group have at least go into the spec where it
 * has none, or more: Slurm drains a machine that registers with less than it is said to have. */
void render_machines_learn(struct spec *s, const struct render_machine *machines, size_t count);
/* The next inventory of a group behind the `*at`-th; NULL: no more. */
const struct hw *render_machine_next(const struct render *r, const struct spec_node *n, size_t *at);
/* Is the product that a driver names ("NVIDIA H100 80GB HBM3") the model of a spec ("H100")? */
bool render_gpu_is(const char *model, const char *product);

/* --- targets.c --- */
struct render_target {
    const char *name, *what;
    void (*make)(struct render *r);
    bool (*in_spec)(const struct spec *s); /* does `all` mean it for this spec? */
};
size_t render_target_count(void);
const struct render_target *render_target_at(size_t i);
const struct render_target *render_target_find(const char *name);

void render_slurm(struct render *r);
void render_kubernetes(struct render *r);
void render_openshift(struct render *r);
void render_compose(struct render *r);
void render_systemd(struct render *r);
void render_prometheus(struct render *r);
void render_grafana(struct render *r);
void render_lustre(struct render *r);
void render_nccl(struct render *r);
void render_doc(struct render *r);

/* Faults no target could write down rightly: more GPUs asked for than there are, pools larger than
 * a GPU's memory, a component for containers without an image, a port used twice.
 * render_check.c */
void render_check(struct render *r, const struct render_target *const *targets, size_t count);

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
/* What render_write() would do; a folder that is not there is an empty one. */
enum rc render_compare(const struct render_set *set, const struct render_where *where,
                       struct render_changes *out, struct err *err) MUST_USE;
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

/* The lines of `a` into those of `b` as hunks of a unified diff; nothing when they are equal. */
void render_diff_text(struct render_text a, struct render_text b, struct buf *out);
/* What `mine` and `theirs` make of `base`, both.  False: they change the same lines, or lines side
 * by side, and differently; what `out` then holds is of no use. */
bool render_merge_text(struct render_text base, struct render_text mine, struct render_text theirs,
                       struct buf *out);

#endif

/* SPDX-License-Identifier: MIT */
/* render_int: what a target is given, and what it may call; with text/, all it needs for a file. */
#ifndef RENDER_RENDER_INT_H
#define RENDER_RENDER_INT_H
#include "render/render.h"
#include "render/text/quote_int.h"
#include "render/text/yaml_out_int.h"

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

/* --- files, refusals and origins, render_run.c --- */
/* A new file; the caller appends to the text.  The path is a format. */
enum render_mode { RENDER_PLAIN, RENDER_EXEC, RENDER_SECRET }; /* 0644, 0755, 0600 */
struct buf *render_file_of(struct render *r, enum render_mode mode, const char *path, ...)
    PRINTF_LIKE(3, 4);
#define render_file(r, ...)   render_file_of(r, RENDER_PLAIN, __VA_ARGS__)
#define render_script(r, ...) render_file_of(r, RENDER_EXEC, __VA_ARGS__)
#define render_secret(r, ...) render_file_of(r, RENDER_SECRET, __VA_ARGS__)
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

/* A file that was made holds a secret. */
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

bool render_strs_has(const struct spec_strs *list, const char *item);
/* Is one of the fabrics named, of a component or a node group, for RDMA? */
bool render_uses_rdma(const struct render *r, const struct spec_strs *fabrics);

/* A value with the comment where it comes from. */
void render_str(const struct render *r, struct yaml_out *y, const char *key, const char *value,
                const void *member);
void render_int(const struct render *r, struct yaml_out *y, const char *key, int64_t value,
                const void *member);

/* The comment that opens a file: what it is, that it is generated, from which spec and site. */
void render_head(const struct render *r, struct buf *out, const char *mark, const char *what);

/* --- inventories, machines.c --- */
/* Finds the group of each, and complains of those that contradict it or fit none. */
void render_machines_place(struct render *r, struct render_machine *machines, size_t count);
/* The cores and the memory that the machines of each group have at least go into the spec where it
 * has none, or more: Slurm drains a machine that registers with less than it is said to have. */
void render_machines_learn(struct spec *s, const struct render_machine *machines, size_t count);
/* The next inventory of a group behind the `*at`-th; NULL: no more. */
const struct hw *render_machine_next(const struct render *r, const struct spec_node *n, size_t *at);

/* --- the targets, each in NAME/NAME.c --- */
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

/* --- outdir/outdir_write.c --- */
/* What render_write() would do; a folder that is not there is an empty one. */
enum rc render_compare(const struct render_set *set, const struct render_where *where,
                       struct render_changes *out, struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* cmd: the command table, from which the program, `stoker help`, the man pages,
 * shell completion and the README's table all come.
 *
 * Adding a command: write src/cmd/cmd_NAME.c with one `const struct cmd cmd_NAME`, put
 * it into commands[] in src/cmd/commands.c (sorted), run `make docs`.  tests/cli/help.t
 * fails until all agree.  docs/howto/add-command.md walks through it. */
#ifndef CMD_CMD_INT_H
#define CMD_CMD_INT_H
#include "base/args.h"
#include "base/buf.h"
#include "base/text/table.h"
#include "os/token_file.h"

#include <sys/types.h>

struct cmd_ctx {          /* what main() gives a command */
    struct term out_term; /* stdout's colour and width */
    struct term err_term;
    const struct cmd *cmd; /* the one that runs */
    struct buf out;        /* the result: main() writes it to stdout when run() returns */
    int argc;              /* only operands, options are in opts */
    char **argv;
    void *opts; /* struct of cmd->opts_size bytes, filled by args_parse() */
    int status; /* of the process where all went well: that of a command it ran; 0 */
};

struct cmd_example {
    const char *line; /* "stoker detect --env" */
    const char *what; /* "print the smallest right NCCL environment" */
};

struct cmd {
    const char *name;
    const char *summary;  /* imperative, lower case, no full stop */
    const char *operands; /* "FILE", "[NAME]", "" */
    int args_min, args_max;
    const struct opt *opts; /* ends with a zero row; NULL: none */
    size_t opts_size;
    /* Paragraphs for help and man page, separated by blank lines. */
    const char *about;
    const struct cmd_example *examples; /* ends with a zero row; NULL: none */
    const struct cmd *const *subs;      /* NULL-terminated; a command with subs has no run */
    const char *arg_choices;            /* "a|b|c" for completion of operands; NULL: files */
    enum rc (*run)(struct cmd_ctx *ctx, struct err *err);
};

extern const struct cmd *const commands[]; /* sorted, NULL-terminated */

/* Global options, accepted behind every command: --help, --version, --colour. */
struct cmd_global {
    bool help, version;
    const char *colour;
};
const struct opt *cmd_global_opts(void); /* ends with a zero row */
const struct cmd *cmd_find(const struct cmd *const *list, const char *name);
/* RC_USAGE with the nearest name; `parent`: whose subcommands were looked through, or NULL. */
enum rc cmd_unknown(const struct cmd *parent, const char *name, struct err *err);

/* A command line taken apart; release with cmd_call_release() in any state. */
struct cmd_call {
    const struct cmd *parent, *cmd; /* parent NULL: a command without subcommands */
    int argc;                       /* operands */
    char **argv;
    void *opts; /* owned; see cmd->opts_size */
    struct cmd_global *global;
};
/* argv[0] is the command's name.  Operands are not counted yet. */
enum rc cmd_parse(struct cmd_call *call, int argc, char **argv, bool sketch,
                  struct err *err) MUST_USE;
enum rc cmd_check_operands(const struct cmd_call *call, struct err *err) MUST_USE;
void cmd_call_release(struct cmd_call *call);

/* Command lines of documents, `[["line", "detect", "--env"], ...]`, against the tables; nothing is
 * run.  One line an entry: "ok", or what is wrong.  See cmd_parse.c for the forms. */
enum rc cmd_parse_lines(const char *path, struct buf *out, struct err *err) MUST_USE;

/* Writes `out` to stdout and empties it.  `gone` becomes true when the reader has left, which is
 * no error.  A plain file that does not take all of it is left as it was. */
enum rc out_write(struct buf *out, bool *gone, struct err *err) MUST_USE;
off_t out_place(void); /* where stdout is being written; -1: not a plain file that can be cut */

/* Files that a running server follows.  True: one of them is another than at the last call. */
enum { CMD_WATCH_MAX = 8 };
struct cmd_watch {
    const char *paths[CMD_WATCH_MAX]; /* borrowed; NULL: none */
    struct {
        uint64_t device, inode, bytes;
        int64_t s, ns;
        int64_t away_ms; /* since when it is not there; 0: it is, and INT64_MAX: told */
    } seen[CMD_WATCH_MAX];
};
bool cmd_watch_changed(struct cmd_watch *w);

/* Tokens of a server, each from a file, and of one that it asks. */
enum cmd_key {
    CMD_KEY_CALL,
    CMD_KEY_METRICS,
    CMD_KEY_ADMIN,
    CMD_KEY_SERVE, /* asked for by the model server that an agent asks */
    CMD_KEYS
};
struct cmd_keys {
    const char *files[CMD_KEYS]; /* borrowed; NULL: none */
    char texts[CMD_KEYS][TOKEN_FILE_BYTES_MAX];
};
/* All of them or, with an error, none: what was read before stays.  `w` follows the files. */
enum rc cmd_keys_read(struct cmd_keys *k, struct cmd_watch *w, struct err *err) MUST_USE;
const char *cmd_key(const struct cmd_keys *k, enum cmd_key which); /* NULL: none */

/* All the forms the table takes. */
void cmd_help_all(const struct term *term, struct buf *out);
/* Which stoker this is, and with what it was built (version.c). */
void cmd_version(struct buf *out);
void cmd_help_one(const struct term *term, const struct cmd *parent, const struct cmd *c,
                  struct buf *out);
void cmd_man(const struct cmd *c, struct buf *out); /* c NULL: stoker(1) */
void cmd_readme(struct buf *out);                   /* Markdown rows */
enum rc cmd_completion(const char *shell, struct buf *out, struct err *err) MUST_USE;

struct spec;
struct spec_diags;
/* What is wrong with a spec, or noticed of it, with places, on stderr. */
void cmd_diags_tell(struct cmd_ctx *ctx, const struct spec_diags *d, bool errors, bool warnings);
/* A spec that a command was given.  What is wrong with it is told here, with places: on stderr, or
 * on stdout as `stoker spec check --json` has it, and then `err` has no words. */
enum rc cmd_spec_read(struct cmd_ctx *ctx, const char *path, bool json, struct spec **out,
                      struct err *err) MUST_USE;
/* One that a server is to run by: its errors go to stderr, its warnings are not told. */
enum rc cmd_spec_load(struct cmd_ctx *ctx, const char *path, struct spec **out,
                      struct err *err) MUST_USE;

#endif

/* SPDX-License-Identifier: MIT */
/* args: command-line options from a table.
 *
 * The rows that parse are the rows that help, man page and completion print.
 * Options and operands may be mixed; "--" ends the options; --name=value and
 * --name value are the same, except for OPT_STR_OPT, whose value must be attached
 * (--env, --env=full).  Values land in a caller's struct at `off`. */
#ifndef BASE_ARGS_H
#define BASE_ARGS_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum opt_kind {
    OPT_END = 0,
    OPT_FLAG,    /* bool */
    OPT_STR,     /* const char * (borrowed from argv) */
    OPT_STR_OPT, /* const char *: "" when given without a value */
    OPT_INT,     /* int64_t, between min and max */
    OPT_STRS,    /* struct opt_strs, may be given ARGS_REPEAT_MAX times */
    OPT_STRS_OPT /* the same; "" when the line ends or another option follows */
};

enum { ARGS_REPEAT_MAX = 64 };
struct opt_strs {
    const char *items[ARGS_REPEAT_MAX + 1]; /* NULL at the end */
    size_t count;
};

struct opt {
    char letter; /* 0: none */
    const char *name;
    enum opt_kind kind;
    size_t off;
    const char *arg;     /* "FILE", "DIR|TAR"; NULL for flags */
    const char *choices; /* "rdma|gpu|training": checked and completed; NULL: any */
    int64_t min, max;    /* OPT_INT */
    const char *help;    /* lower case, no full stop */
};

/* Rows of a table.  Its file says before it where values land, #define OPT_STRUCT struct my_opts;
 * `kind_` is FLAG, STR, STRS …, and a flag has no argument: NULL. */
#define OPT(letter_, name_, kind_, member_, arg_, help_)                                           \
    {                                                                                              \
        .letter = (letter_), .name = (name_), .kind = OPT_##kind_,                                 \
        .off = offsetof(OPT_STRUCT, member_), .arg = (arg_), .help = (help_)                       \
    }
#define OPT_CHOICE(letter_, name_, kind_, member_, arg_, choices_, help_)                          \
    {                                                                                              \
        .letter = (letter_), .name = (name_), .kind = OPT_##kind_,                                 \
        .off = offsetof(OPT_STRUCT, member_), .arg = (arg_), .choices = (choices_),                \
        .help = (help_)                                                                            \
    }
#define OPT_NUMBER(letter_, name_, member_, min_, max_, help_)                                     \
    {                                                                                              \
        .letter = (letter_), .name = (name_), .kind = OPT_INT,                                     \
        .off = offsetof(OPT_STRUCT, member_), .arg = "N", .min = (min_), .max = (max_),            \
        .help = (help_)                                                                            \
    }

/* Parses argv[1..argc); operands are gathered, in order, at the front of `argv`
 * (argv[0..*out_count)).  RC_USAGE with a "did you mean" hint. */
enum rc args_parse(const struct opt *opts, int argc, char **argv, void *out, int *out_count,
                   struct err *err) MUST_USE;

/* The same for a command line that somebody wrote about, not for one to run: where a number or a
 * choice is due, a name in capitals ("N", "TYPE") or a variable ("$n") stands for any. */
enum rc args_sketch(const struct opt *opts, int argc, char **argv, void *out, int *out_count,
                    struct err *err) MUST_USE;

#endif

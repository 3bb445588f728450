/* SPDX-License-Identifier: MIT */
/* cmd: from argv to one command, and from its result to stdout and an exit status.
 *
 * Commands fill ctx->out and return; what they wrote is printed here, once, and a
 * stdout that could not be written is an error like any other (a full disk must not
 * look like success). */
#include "base/mem.h"
#include "base/str.h"
#include "cmd/cmd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { CMD_NAMES_MAX = 64 };

static const char version_line[] = "stoker " STOKER_VERSION "\n";

struct global_opts { /* options every command takes */
    bool help, version;
    const char *colour;
};

static const struct opt global_opts[] = {
    { 'h', "help", OPT_FLAG, offsetof(struct global_opts, help), NULL, NULL, 0, 0,
      "show help and exit" },
    { 'V', "version", OPT_FLAG, offsetof(struct global_opts, version), NULL, NULL, 0, 0,
      "show the version and exit" },
    { 0, "colour", OPT_STR, offsetof(struct global_opts, colour), "WHEN", "auto|always|never", 0, 0,
      "colour the output: auto (on a terminal), always, never" },
    { 0 },
};

const struct opt *cmd_global_opts(void)
{
    return global_opts;
}

const struct cmd *cmd_find(const struct cmd *const *list, const char *name)
{
    for (; list && *list; list++)
        if (!strcmp((*list)->name, name))
            return *list;
    return NULL;
}

static struct term term_of(int fd, const char *colour)
{
    const char *columns = getenv("COLUMNS"), *no_color = getenv("NO_COLOR");
    struct term t = { 0 };
    struct winsize ws;
    int64_t width;
    bool tty = isatty(fd);

    if (colour && strcmp(colour, "auto"))
        t.colour = !strcmp(colour, "always");
    else
        t.colour = tty && !(no_color && *no_color) && !str_eq(getenv("TERM"), "dumb");
    if (columns && str_to_i64(columns, 10, &width) && width >= 20 && width <= 10000)
        t.width = (int)width;
    else if (tty && !ioctl(fd, TIOCGWINSZ, &ws) && ws.ws_col >= 20)
        t.width = ws.ws_col;
    return t;
}

/* What a message names may hold anything: a path, an argument, a device's own words. */
static void print_error(struct err *err, const struct term *term)
{
    struct buf text = { 0 };

    str_make_text(err->msg);
    str_make_text(err->hint);
    term_text(term, &text, COLOUR_RED, "stoker:");
    buf_addf(&text, " %s\n", err->msg);
    if (err->hint[0])
        buf_addf(&text, "%s\n", err->hint);
    fwrite(buf_str(&text), 1, text.len, stderr);
    buf_release(&text);
}

static int fail(struct err *err, const struct term *term)
{
    if (err->msg[0])
        print_error(err, term);
    return rc_exit(err->code);
}

/* Writes the result; 0 or the exit status of a stdout that did not take it. */
static int print_out(struct buf *out, const struct term *term)
{
    struct err err = { 0 };
    bool gone = false; /* the reader had enough, as in `stoker detect | head -1` */

    if (out->over) {
        err_set(&err, RC_LIMIT, "the output is larger than %zu bytes",
                out->max ? out->max : (size_t)BUF_MAX_DEFAULT);
        return fail(&err, term);
    }
    return out_write(out, &gone, &err) ? fail(&err, term) : 0;
}

/* `parent`: whose subcommands were looked through; NULL: all commands. */
static int unknown_command(const struct cmd *parent, const char *name, const struct term *term)
{
    const struct cmd *const *list = parent ? parent->subs : commands;
    const char *names[CMD_NAMES_MAX], *near;
    struct err err = { 0 };
    size_t count = 0;

    for (; *list && count < CMD_NAMES_MAX; list++)
        names[count++] = (*list)->name;
    near = str_nearest(name, names, count);
    if (near)
        err_hint(&err, "Did you mean '%s'?", near);
    else
        err_hint(&err, "Run 'stoker help%s%s' for the list of commands.", parent ? " " : "",
                 parent ? parent->name : "");
    err_set(&err, RC_USAGE, "unknown command '%s%s%s'", parent ? parent->name : "",
            parent ? " " : "", name);
    return fail(&err, term);
}

/* The command's own rows and the global ones in one table, for one pass over argv.
 * The command's struct comes first, the global one right behind it. */
static struct opt *joined_opts(const struct cmd *c, size_t own_size)
{
    size_t own = 0, n = 0;
    struct opt *all;

    while (c->opts && c->opts[own].kind != OPT_END)
        own++;
    all = xcalloc(own + ARRAY_SIZE(global_opts), sizeof(*all));
    for (; n < own; n++)
        all[n] = c->opts[n];
    for (size_t i = 0; i < ARRAY_SIZE(global_opts); i++, n++) {
        all[n] = global_opts[i];
        all[n].off += own_size;
    }
    return all;
}

static enum rc check_operands(const struct cmd_ctx *ctx, const struct cmd *parent, struct err *err)
{
    const struct cmd *c = ctx->cmd;
    const char *top = parent ? parent->name : "", *gap = parent ? " " : "";

    if (ctx->argc >= c->args_min && ctx->argc <= c->args_max)
        return RC_OK;
    err_hint(err, "Run 'stoker help %s%s%s' for its usage.", top, gap, c->name);
    if (ctx->argc < c->args_min)
        return err_set(err, RC_USAGE, "command '%s%s%s' needs %s", top, gap, c->name, c->operands);
    return err_set(err, RC_USAGE, "command '%s%s%s' has no use for operand '%s'", top, gap, c->name,
                   ctx->argv[c->args_max]);
}

static enum rc run_parsed(struct cmd_ctx *ctx, const struct cmd *parent,
                          const struct global_opts *g, struct err *err)
{
    if (g->help) {
        cmd_help_one(&ctx->out_term, parent, ctx->cmd, &ctx->out);
        return RC_OK;
    }
    if (g->version) {
        buf_adds(&ctx->out, version_line);
        return RC_OK;
    }
    if (check_operands(ctx, parent, err))
        return err->code;
    return ctx->cmd->run(ctx, err);
}

/* argv[0] is the command's name. */
static int run_command(const struct cmd *parent, const struct cmd *c, int argc, char **argv)
{
    size_t own_size = (c->opts_size + 15) & ~(size_t)15;
    char *values = xcalloc(1, own_size + sizeof(struct global_opts));
    struct global_opts *g = (struct global_opts *)(void *)(values + own_size);
    struct opt *opts = joined_opts(c, own_size);
    struct cmd_ctx ctx = { .cmd = c, .argv = argv, .opts = values };
    struct err err = { 0 };
    enum rc rc = args_parse(opts, argc, argv, values, &ctx.argc, &err);
    int status, printed;

    ctx.out_term = term_of(STDOUT_FILENO, g->colour);
    ctx.err_term = term_of(STDERR_FILENO, g->colour);
    if (rc == RC_OK)
        rc = run_parsed(&ctx, parent, g, &err);
    printed = print_out(&ctx.out, &ctx.err_term);
    if (rc && err.code == RC_OK)
        err.code = rc; /* a result that is a failure, already told on stdout */
    status = rc ? fail(&err, &ctx.err_term) : printed ? printed : ctx.status;
    buf_release(&ctx.out);
    free(opts);
    free(values);
    return status;
}

/* What a command line without a command prints. */
static int top_level(const char *arg, const struct term *err_term)
{
    struct term out_term = term_of(STDOUT_FILENO, NULL);
    struct err err = { 0 };
    struct buf out = { 0 };
    int status;

    if (str_eq(arg, "-V") || str_eq(arg, "--version"))
        buf_adds(&out, version_line);
    else if (!arg || str_eq(arg, "-h") || str_eq(arg, "--help"))
        cmd_help_all(&out_term, &out);
    else {
        err_hint(&err, "Run 'stoker help' for the list of commands.");
        err_set(&err, RC_USAGE, "unknown option '%s' before a command", arg);
        return fail(&err, err_term);
    }
    status = print_out(&out, err_term);
    buf_release(&out);
    return status;
}

/* `stoker spec` alone: its subcommands are what the user needs to see. */
static int show_subs(const struct cmd *c, const char *arg, const struct term *err_term)
{
    struct term out_term = term_of(STDOUT_FILENO, NULL);
    bool asked = str_eq(arg, "-h") || str_eq(arg, "--help");
    struct buf out = { 0 };
    int status;

    if (str_eq(arg, "-V") || str_eq(arg, "--version"))
        return top_level(arg, err_term);
    if (arg && !asked) {
        struct err err = { 0 };

        err_hint(&err, "Run 'stoker help %s' for the list of commands.", c->name);
        err_set(&err, RC_USAGE, "unknown option '%s' before a command of '%s'", arg, c->name);
        return fail(&err, err_term);
    }
    cmd_help_one(&out_term, NULL, c, &out);
    status = print_out(&out, err_term);
    buf_release(&out);
    return asked ? status : rc_exit(RC_USAGE);
}

int cmd_main(int argc, char **argv)
{
    struct term err_term = term_of(STDERR_FILENO, NULL);
    const struct cmd *c, *sub;

    signal(SIGPIPE, SIG_IGN); /* a reader that left shows as EPIPE in print_out() */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
    if (argc < 2 || argv[1][0] == '-')
        return top_level(argc < 2 ? NULL : argv[1], &err_term);
    c = cmd_find(commands, argv[1]);
    if (!c)
        return unknown_command(NULL, argv[1], &err_term);
    if (!c->subs)
        return run_command(NULL, c, argc - 1, argv + 1);
    if (argc < 3 || argv[2][0] == '-')
        return show_subs(c, argc > 2 ? argv[2] : NULL, &err_term);
    sub = cmd_find(c->subs, argv[2]);
    if (!sub)
        return unknown_command(c, argv[2], &err_term);
    return run_command(c, sub, argc - 2, argv + 2);
}

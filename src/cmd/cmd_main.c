/* SPDX-License-Identifier: MIT */
/* cmd: from argv to one command, and from its result to stdout and an exit status.
 *
 * Commands fill ctx->out and return; what they wrote is printed here, once, and a
 * stdout that could not be written is an error like any other (a full disk must not
 * look like success). */
#include "base/mem.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/cmd_int.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

    term_text(term, &text, COLOUR_RED, "stoker:");
    buf_addc(&text, ' ');
    str_add_shown(&text, err->msg);
    buf_addc(&text, '\n');
    if (err->hint[0]) {
        str_add_shown(&text, err->hint);
        buf_addc(&text, '\n');
    }
    fwrite(buf_str(&text), 1, text.len, stderr);
    buf_release(&text);
}

static int fail_with(struct err *err, const struct term *term)
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
        return fail_with(&err, term);
    }
    return out_write(out, &gone, &err) ? fail_with(&err, term) : 0;
}

static enum rc run_parsed(struct cmd_ctx *ctx, const struct cmd_call *call, struct err *err)
{
    if (call->global->help) {
        cmd_help_one(&ctx->out_term, call->parent, ctx->cmd, &ctx->out);
        return RC_OK;
    }
    if (call->global->version) {
        cmd_version(&ctx->out);
        return RC_OK;
    }
    if (cmd_check_operands(call, err))
        return err->code;
    return ctx->cmd->run(ctx, err);
}

/* argv[0] is the command's name. */
static int run_command(const struct cmd *parent, const struct cmd *c, int argc, char **argv)
{
    struct cmd_call call = { .parent = parent, .cmd = c };
    struct cmd_ctx ctx = { .cmd = c };
    struct err err = { 0 };
    enum rc rc = cmd_parse(&call, argc, argv, false, &err);
    int status, printed;

    ctx.argc = call.argc;
    ctx.argv = call.argv;
    ctx.opts = call.opts;
    ctx.out_term = term_of(STDOUT_FILENO, call.global->colour);
    ctx.err_term = term_of(STDERR_FILENO, call.global->colour);
    if (rc == RC_OK)
        rc = run_parsed(&ctx, &call, &err);
    printed = print_out(&ctx.out, &ctx.err_term);
    if (rc && err.code == RC_OK)
        err.code = rc; /* a result that is a failure, already told on stdout */
    status = rc ? fail_with(&err, &ctx.err_term) : printed ? printed : ctx.status;
    buf_release(&ctx.out);
    cmd_call_release(&call);
    return status;
}

static int unknown_command(const struct cmd *parent, const char *name, const struct term *term)
{
    struct err err = { 0 };

    cmd_unknown(parent, name, &err);
    return fail_with(&err, term);
}

/* What a command line without a command prints. */
static int top_level(const char *arg, const struct term *err_term)
{
    struct term out_term = term_of(STDOUT_FILENO, NULL);
    struct err err = { 0 };
    struct buf out = { 0 };
    int status;

    if (str_eq(arg, "-V") || str_eq(arg, "--version"))
        cmd_version(&out);
    else if (!arg || str_eq(arg, "-h") || str_eq(arg, "--help"))
        cmd_help_all(&out_term, &out);
    else {
        err_hint(&err, "Run 'stoker help' for the list of commands.");
        err_set(&err, RC_USAGE, "unknown option '%s' before a command", arg);
        return fail_with(&err, err_term);
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
        return fail_with(&err, err_term);
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

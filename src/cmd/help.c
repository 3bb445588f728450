/* SPDX-License-Identifier: MIT */
/* help: the command table as text for the terminal, as a man page and as the rows of
 * the README, and the command `stoker help` that shows them. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/utf8.h"
#include "cmd/cmd_int.h"
#include "health/health.h"
#include "hw/hw.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tagline[] = "look after GPU machines, from one box to a cluster";

static const char *const exit_codes[][2] = {
    { "0", "it worked" },
    { "1", "it failed, a file is damaged, or a check found a fault" },
    { "2", "the command line or a file was wrong" },
    { "3", "a device, library or file is missing" },
    { "4", "a limit was reached" },
};

/* ---- terminal ---- */

static void command_rows(const struct cmd *const *list, const struct term *term, struct buf *out)
{
    struct table *t = table_new();

    table_col(t, NULL, TABLE_WHOLE);
    table_col(t, NULL, TABLE_WRAP);
    for (; *list; list++) {
        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s", (*list)->name);
        table_cell(t, COLOUR_NONE, "%s", (*list)->summary);
    }
    table_print(t, term, 2, out);
    table_free(t);
}

void cmd_help_all(const struct term *term, struct buf *out)
{
    term_text(term, out, COLOUR_BOLD, "stoker");
    buf_addf(out, " " STOKER_VERSION " - %s\n\nusage: stoker COMMAND [OPTION…]\n\n", tagline);
    command_rows(commands, term, out);
    buf_adds(out, "\nRun 'stoker help COMMAND' or 'stoker COMMAND --help' for one of them.\n"
                  "With no file and no option, every command does something useful here.\n");
}

static void option_head(const struct opt *o, struct buf *out)
{
    if (o->letter)
        buf_addf(out, "-%c, ", o->letter);
    buf_addf(out, "--%s", o->name);
    if (o->kind == OPT_STR_OPT)
        buf_addf(out, "[=%s]", o->arg);
    else if (o->kind == OPT_STRS_OPT)
        buf_addf(out, " [%s]", o->arg);
    else if (o->arg)
        buf_addf(out, " %s", o->arg);
}

static void option_rows(const struct opt *o, const struct term *term, struct buf *out)
{
    enum { HEAD_WIDTH = 26, NARROW = 56, NARROW_INDENT = 6 };
    bool narrow = term->width && term->width < NARROW; /* help goes below its option */
    struct buf head = { 0 };

    for (; o && o->kind != OPT_END; o++) {
        struct buf text = { 0 };

        buf_reset(&head);
        option_head(o, &head);
        if (narrow || head.len > HEAD_WIDTH - 4) {
            buf_addf(out, "  %s\n", buf_str(&head));
            term_wrap(term, out, narrow ? NARROW_INDENT : HEAD_WIDTH, o->help);
            continue;
        }
        buf_addf(out, "  %-*s", HEAD_WIDTH - 2, buf_str(&head));
        term_wrap(term, &text, HEAD_WIDTH, o->help);
        buf_adds(out, buf_str(&text) + HEAD_WIDTH); /* the first line's indent is the head */
        buf_release(&text);
    }
    buf_release(&head);
}

static void add_paragraphs(const char *about, const struct term *term, int indent, struct buf *out)
{
    while (about && *about) {
        const char *end = strstr(about, "\n\n");
        char *one = xstrndup(about, end ? (size_t)(end - about) : strlen(about));

        term_wrap(term, out, indent, one);
        buf_addc(out, '\n');
        free(one);
        about = end ? end + 2 : NULL;
    }
}

static void usage_line(const struct cmd *parent, const struct cmd *c, struct buf *out)
{
    buf_addf(out, "stoker %s%s%s", parent ? parent->name : "", parent ? " " : "", c->name);
    if (c->subs)
        buf_adds(out, " COMMAND");
    if (c->opts)
        buf_adds(out, " [OPTION…]");
    if (c->operands && *c->operands)
        buf_addf(out, " %s", c->operands);
}

void cmd_help_one(const struct term *term, const struct cmd *parent, const struct cmd *c,
                  struct buf *out)
{
    buf_adds(out, "usage: ");
    usage_line(parent, c, out);
    buf_addf(out, "\n\n%c%s.\n\n", toupper((unsigned char)c->summary[0]), c->summary + 1);
    add_paragraphs(c->about, term, 0, out);
    if (c->subs) {
        command_rows(c->subs, term, out);
        buf_addf(out, "\nRun 'stoker help %s COMMAND' for one of them.\n", c->name);
    }
    if (c->opts) {
        term_text(term, out, COLOUR_BOLD, "options\n");
        option_rows(c->opts, term, out);
    }
    if (c->examples) {
        if (c->opts || c->subs)
            buf_addc(out, '\n');
        term_text(term, out, COLOUR_BOLD, "examples\n");
        for (const struct cmd_example *e = c->examples; e->line; e++)
            buf_addf(out, "  %s\n      %s\n", e->line, e->what);
    }
}

/* ---- man pages ---- */

/* What roff would read as its own, or print as another character: a quote begins and ends an
 * argument of a macro and is gone from the page; a minus, an apostrophe, a grave accent, a
 * caret and a tilde come out as typographic ones, which no shell takes back. */
static const char *roff_escape(uint32_t c)
{
    switch (c) {
    case '\\':
        return "\\e";
    case '-':
        return "\\-";
    case '"':
        return "\\(dq";
    case '\'':
        return "\\(aq";
    case '`':
        return "\\(ga";
    case '^':
        return "\\(ha";
    case '~':
        return "\\(ti";
    default:
        return NULL;
    }
}

/* Text that is to be read on the page as it is written here, on a line of its own or as the
 * argument of a macro. */
static void roff_text(struct buf *out, const char *s)
{
    bool start = true;
    uint32_t c;

    for (size_t n; *s; s += n) {
        n = utf8_decode(s, strlen(s), &c);
        if (!n)
            n = 1, c = '?';
        if (start && c == '.')
            buf_adds(out, "\\&");
        start = c == '\n';
        if (roff_escape(c))
            buf_adds(out, roff_escape(c));
        else if (c > 0x7e)
            buf_addf(out, "\\[u%04X]", c);
        else
            buf_addc(out, (char)c);
    }
}

static void roff_paragraphs(struct buf *out, const char *about)
{
    while (about && *about) {
        const char *end = strstr(about, "\n\n");
        char *one = xstrndup(about, end ? (size_t)(end - about) : strlen(about));

        buf_adds(out, ".PP\n");
        roff_text(out, one);
        buf_addc(out, '\n');
        free(one);
        about = end ? end + 2 : NULL;
    }
}

static void roff_options(struct buf *out, const struct opt *o)
{
    struct buf head = { 0 };

    for (; o && o->kind != OPT_END; o++) {
        buf_reset(&head);
        option_head(o, &head);
        buf_adds(out, ".TP\n.B ");
        roff_text(out, buf_str(&head));
        buf_addc(out, '\n');
        roff_text(out, o->help);
        buf_addc(out, '\n');
    }
    buf_release(&head);
}

static void roff_examples(struct buf *out, const struct cmd_example *e)
{
    for (; e && e->line; e++) {
        buf_adds(out, ".TP\n.B ");
        roff_text(out, e->line);
        buf_addc(out, '\n');
        roff_text(out, e->what);
        buf_addc(out, '\n');
    }
}

static void roff_exit(struct buf *out)
{
    buf_adds(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < ARRAY_SIZE(exit_codes); i++)
        buf_addf(out, ".TP\n.B %s\n%s\n", exit_codes[i][0], exit_codes[i][1]);
}

static void roff_sub(struct buf *out, const struct cmd *parent, const struct cmd *c)
{
    struct buf line = { 0 };

    usage_line(parent, c, &line);
    buf_adds(out, ".SS ");
    roff_text(out, buf_str(&line));
    buf_addc(out, '\n');
    roff_text(out, c->summary);
    buf_addc(out, '\n');
    roff_paragraphs(out, c->about);
    roff_options(out, c->opts);
    roff_examples(out, c->examples);
    buf_release(&line);
}

static void man_command(const struct cmd *c, struct buf *out)
{
    struct buf line = { 0 };

    usage_line(NULL, c, &line);
    buf_addf(out, ".TH STOKER\\-%s 1 \"\" \"stoker " STOKER_VERSION "\" \"stoker\"\n.SH NAME\n",
             c->name);
    buf_addf(out, "stoker\\-%s \\- ", c->name);
    roff_text(out, c->summary);
    buf_adds(out, "\n.SH SYNOPSIS\n.B ");
    roff_text(out, buf_str(&line));
    buf_adds(out, "\n.SH DESCRIPTION\n");
    roff_paragraphs(out, c->about);
    if (c->subs) {
        buf_adds(out, ".SH COMMANDS\n");
        for (const struct cmd *const *s = c->subs; *s; s++)
            roff_sub(out, c, *s);
    }
    buf_adds(out, ".SH OPTIONS\n");
    roff_options(out, c->opts);
    roff_options(out, cmd_global_opts());
    if (c->examples) {
        buf_adds(out, ".SH EXAMPLES\n");
        roff_examples(out, c->examples);
    }
    roff_exit(out);
    buf_adds(out, ".SH SEE ALSO\n.BR stoker (1)\n");
    buf_release(&line);
}

void cmd_man(const struct cmd *c, struct buf *out)
{
    if (c) {
        man_command(c, out);
        return;
    }
    buf_addf(out,
             ".TH STOKER 1 \"\" \"stoker " STOKER_VERSION "\" \"stoker\"\n.SH NAME\nstoker \\- %s\n"
             ".SH SYNOPSIS\n.B stoker\nCOMMAND [OPTION\\[u2026]]\n.SH COMMANDS\n",
             tagline);
    for (const struct cmd *const *l = commands; *l; l++) {
        buf_addf(out, ".TP\n.BR stoker\\-%s (1)\n", (*l)->name);
        roff_text(out, (*l)->summary);
        buf_addc(out, '\n');
    }
    buf_adds(out, ".SH OPTIONS\n");
    roff_options(out, cmd_global_opts());
    roff_exit(out);
    buf_adds(out, ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nwhen set, no colour unless asked for\n"
                  ".TP\n.B COLUMNS\nwidth of tables\n");
}

/* ---- README ---- */

void cmd_readme(struct buf *out)
{
    buf_adds(out, "| command | what it does |\n|---|---|\n");
    for (const struct cmd *const *l = commands; *l; l++)
        buf_addf(out, "| `stoker %s` | %s |\n", (*l)->name, (*l)->summary);
}

/* ---- the command ---- */

struct help_opts {
    bool man, readme, names;
    const char *reference, *parse;
};

#define OPT_STRUCT struct help_opts
static const struct opt help_opts[] = {
    OPT(0, "man", FLAG, man, NULL, "print the manual page (roff) instead"),
    OPT(0, "readme", FLAG, readme, NULL, "print the table of commands as Markdown"),
    OPT(0, "names", FLAG, names, NULL, "print the names of the commands, one a line"),
    OPT_CHOICE(0, "reference", STR, reference, "PAGE", "inventory|checks",
               "print a reference page as Markdown: inventory, checks"),
    OPT(0, "parse", STR, parse, "FILE",
        "say which command lines of a JSON file could be run, and run none"),
    { 0 },
};

static void reference_page(const char *page, struct buf *out)
{
    if (str_eq(page, "checks")) {
        health_doc(out);
        return;
    }
    buf_adds(out, "# The inventory\n\n`stoker detect --json` prints this document, of schema "
                  "`stoker.inventory/1`. Every member may be\n`null`: it could not be learned. "
                  "This page is made by `make docs` from the table that writes the JSON.\n");
    fields_doc(out, &hw_table);
}

static enum rc help_run(struct cmd_ctx *ctx, struct err *err)
{
    const struct help_opts *o = ctx->opts;
    const struct cmd *c = NULL, *parent = NULL;

    for (int i = 0; i < ctx->argc; i++) {
        parent = c;
        c = cmd_find(i ? parent->subs : commands, ctx->argv[i]);
        if (!c) {
            err_hint(err, "Run 'stoker help' for the list of commands.");
            return err_set(err, RC_USAGE, "unknown command '%s'", ctx->argv[i]);
        }
    }
    if (o->parse)
        return cmd_parse_lines(o->parse, &ctx->out, err);
    if (o->reference)
        reference_page(o->reference, &ctx->out);
    else if (o->names)
        for (const struct cmd *const *l = commands; *l; l++)
            buf_addf(&ctx->out, "%s\n", (*l)->name);
    else if (o->readme)
        cmd_readme(&ctx->out);
    else if (o->man)
        cmd_man(parent ? parent : c, &ctx->out);
    else if (c)
        cmd_help_one(&ctx->out_term, parent, c, &ctx->out);
    else
        cmd_help_all(&ctx->out_term, &ctx->out);
    return RC_OK;
}

const struct cmd cmd_help = {
    .name = "help",
    .summary = "explain stoker or one of its commands",
    .operands = "[COMMAND [SUBCOMMAND]]",
    .args_max = 2,
    .opts = help_opts,
    .opts_size = sizeof(struct help_opts),
    .run = help_run,
};

/* SPDX-License-Identifier: MIT */
/* cmd_parse: a command line against the tables, for the program that runs it and for the one that
 * only wants to know whether it could.
 *
 * main() resolves a command and runs what cmd_parse() took apart.  `stoker help --parse FILE` does
 * the same for the command lines that documents, examples, pages and rendered files show, and runs
 * none: tests/rules/lines.t gathers them, so that no text names an option that does not exist.
 * How much of a line there is depends on where it stands:
 *
 *   line      to be run as it stands: a subcommand and enough operands are needed
 *   mention   `stoker plan train` in a sentence: what is left out is left out
 *   prose     as a mention, but nobody knows where it ends: operands are not looked at */
#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/cmd_int.h"
#include "os/file.h"

#include <stdlib.h>
#include <string.h>

enum {
    CMD_NAMES_MAX = 64,
    PARSE_FILE_MAX = 16 << 20, /* bytes of the file of `stoker help --parse` */
    PARSE_WORDS_MAX = 4096,    /* words of one command line in it */
};

static const struct opt global_opts[] = {
    { 'h', "help", OPT_FLAG, offsetof(struct cmd_global, help), NULL, NULL, 0, 0,
      "show help and exit" },
    { 'V', "version", OPT_FLAG, offsetof(struct cmd_global, version), NULL, NULL, 0, 0,
      "show version, commit, compiler and libraries, and exit" },
    { 0, "colour", OPT_STR, offsetof(struct cmd_global, colour), "WHEN", "auto|always|never", 0, 0,
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

enum rc cmd_unknown(const struct cmd *parent, const char *name, struct err *err)
{
    const struct cmd *const *list = parent ? parent->subs : commands;
    const char *names[CMD_NAMES_MAX], *near;
    size_t count = 0;

    for (; *list && count < CMD_NAMES_MAX; list++)
        names[count++] = (*list)->name;
    near = str_nearest(name, names, count);
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "Run 'stoker help%s%s' for the list of commands.", parent ? " " : "",
                 parent ? parent->name : "");
    return err_set(err, RC_USAGE, "unknown command '%s%s%s'", parent ? parent->name : "",
                   parent ? " " : "", name);
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

enum rc cmd_parse(struct cmd_call *call, int argc, char **argv, bool sketch, struct err *err)
{
    size_t own_size = (call->cmd->opts_size + 15) & ~(size_t)15;
    char *values = xcalloc(1, own_size + sizeof(struct cmd_global));
    struct opt *opts = joined_opts(call->cmd, own_size);
    enum rc rc;

    call->argv = argv;
    call->opts = values;
    call->global = (struct cmd_global *)(void *)(values + own_size);
    rc = sketch ? args_sketch(opts, argc, argv, values, &call->argc, err)
                : args_parse(opts, argc, argv, values, &call->argc, err);
    free(opts);
    return rc;
}

void cmd_call_release(struct cmd_call *call)
{
    free(call->opts);
    call->opts = NULL;
}

enum rc cmd_check_operands(const struct cmd_call *call, struct err *err)
{
    const struct cmd *c = call->cmd;
    const char *top = call->parent ? call->parent->name : "", *gap = call->parent ? " " : "";

    if (call->argc >= c->args_min && call->argc <= c->args_max)
        return RC_OK;
    err_hint(err, "Run 'stoker help %s%s%s' for its usage.", top, gap, c->name);
    if (call->argc < c->args_min)
        return err_set(err, RC_USAGE, "command '%s%s%s' needs %s", top, gap, c->name, c->operands);
    return err_set(err, RC_USAGE, "command '%s%s%s' has no use for operand '%s'", top, gap, c->name,
                   call->argv[c->args_max]);
}

/* ---- lines of documents ---- */

enum line_form { FORM_LINE, FORM_MENTION, FORM_PROSE };
static const char *const form_names[] = { "line", "mention", "prose", NULL };

static bool choice_has(const char *choices, const char *word)
{
    size_t len = strlen(word);

    for (; choices; choices = strchr(choices, '|')) {
        choices += *choices == '|';
        if (strcspn(choices, "|") == len && !memcmp(choices, word, len))
            return true;
    }
    return false;
}

/* A word that names one of a command's choices: small letters, no file and no variable. */
static bool operand_is_name(const char *word)
{
    for (; *word; word++)
        if (!((*word >= 'a' && *word <= 'z') || (*word >= '0' && *word <= '9') || *word == '-'))
            return false;
    return true;
}

/* "COMMAND": any of them. */
static bool word_is_stand_in(const char *word)
{
    return word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

static enum rc check_choices(const struct cmd_call *call, struct err *err)
{
    const struct cmd *c = call->cmd;
    int each =
        c->operands && strstr(c->operands, "…") ? call->argc : 1; /* "TARGET…": all of one kind */

    for (int i = 0; i < call->argc && i < each && c->arg_choices; i++)
        if (operand_is_name(call->argv[i]) && !choice_has(c->arg_choices, call->argv[i])) {
            err_hint(err, "Choose one of: %s.", c->arg_choices);
            return err_set(err, RC_USAGE, "command '%s' has no choice '%s'", c->name,
                           call->argv[i]);
        }
    return RC_OK;
}

static enum rc check_call(struct cmd_call *call, enum line_form form, int argc, char **argv,
                          struct err *err)
{
    enum rc rc = cmd_parse(call, argc, argv, true, err);
    bool asks = rc == RC_OK && (call->global->help || call->global->version);

    if (rc == RC_OK && !asks && form != FORM_PROSE &&
        (form == FORM_LINE || call->argc > call->cmd->args_max))
        rc = cmd_check_operands(call, err);
    if (rc == RC_OK && !asks && form != FORM_PROSE)
        rc = check_choices(call, err);
    cmd_call_release(call);
    return rc;
}

/* The way of cmd_main(), without running anything. */
static enum rc check_words(enum line_form form, int argc, char **argv, struct err *err)
{
    struct cmd_call call = { 0 };

    if (!argc)
        return RC_OK; /* `stoker`: help */
    if (argv[0][0] == '-')
        return str_eq(argv[0], "-h") || str_eq(argv[0], "-V") || str_eq(argv[0], "--help") ||
                       str_eq(argv[0], "--version")
                   ? RC_OK
                   : err_set(err, RC_USAGE, "unknown option '%s' before a command", argv[0]);
    if (form != FORM_LINE && word_is_stand_in(argv[0]))
        return RC_OK;
    call.cmd = cmd_find(commands, argv[0]);
    if (!call.cmd)
        return cmd_unknown(NULL, argv[0], err);
    if (!call.cmd->subs)
        return check_call(&call, form, argc, argv, err);
    if (argc > 1 && (str_eq(argv[1], "-h") || str_eq(argv[1], "--help")))
        return RC_OK;
    call.parent = call.cmd;
    call.cmd = argc > 1 ? cmd_find(call.parent->subs, argv[1]) : NULL;
    if (call.cmd)
        return check_call(&call, form, argc - 1, argv + 1, err);
    if (argc > 1 && !(form != FORM_LINE && word_is_stand_in(argv[1])))
        return cmd_unknown(call.parent, argv[1], err);
    if (form == FORM_LINE)
        return err_set(err, RC_USAGE, "command '%s' needs a command of its own", call.parent->name);
    return RC_OK;
}

/* The words of an entry behind its form, and `more` where it is not NULL. */
static enum rc check_entry_words(const struct json *word, enum line_form form, const char *more,
                                 struct err *err)
{
    struct arena a = { 0 };
    char **argv = arena_array(&a, char *, PARSE_WORDS_MAX + 1);
    int argc = 0;
    enum rc rc;

    for (; word && argc < PARSE_WORDS_MAX; word = word->next)
        argv[argc++] = arena_strdup(&a, word->type == JSON_STR ? word->text : "");
    if (more)
        argv[argc++] = arena_strdup(&a, more);
    rc = word ? err_set(err, RC_LIMIT, "it has more than %d words", PARSE_WORDS_MAX)
              : check_words(form, argc, argv, err);
    arena_release(&a);
    return rc;
}

/* `stoker agent --record` in a sentence leaves the value of its last option out. */
static enum rc check_entry(const struct json *entry, struct buf *out, struct err *err)
{
    const struct json *first = entry->type == JSON_ARR ? entry->first : NULL;
    struct err fault = { 0 }, again = { 0 };
    int f = 0;

    while (form_names[f] && !(first && str_eq(json_str(first), form_names[f])))
        f++;
    if (!form_names[f])
        return err_set(err, RC_PARSE, "an entry begins with 'line', 'mention' or 'prose'");
    if (check_entry_words(first->next, (enum line_form)f, NULL, &fault) == RC_OK ||
        (f != FORM_LINE &&
         check_entry_words(first->next, (enum line_form)f, "VALUE", &again) == RC_OK))
        buf_adds(out, "ok\n");
    else
        buf_addf(out, "%s%s%s\n", fault.msg, fault.hint[0] ? ". " : "", fault.hint);
    return RC_OK;
}

enum rc cmd_parse_lines(const char *path, struct buf *out, struct err *err)
{
    struct buf text = { .max = PARSE_FILE_MAX };
    struct arena a = { 0 };
    struct json *doc = NULL;
    enum rc rc = file_read(path, PARSE_FILE_MAX, &text, err);

    if (rc == RC_OK)
        rc = json_parse(&a, buf_str(&text), text.len, &doc, err);
    if (rc == RC_OK && doc->type != JSON_ARR)
        rc = err_set(err, RC_PARSE, "it is not a list of lists of words");
    for (const struct json *e = rc == RC_OK ? doc->first : NULL; e && rc == RC_OK; e = e->next)
        rc = check_entry(e, out, err);
    if (rc)
        err_ctx(err, "'%s'", path);
    arena_release(&a);
    buf_release(&text);
    return rc;
}

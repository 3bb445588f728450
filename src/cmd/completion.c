/* SPDX-License-Identifier: MIT */
/* completion: the command table as completion scripts for bash, zsh and fish. */
#include "base/buf.h"
#include "cmd/cmd_int.h"

#include <ctype.h>
#include <string.h>

static void option_words(const struct opt *o, struct buf *out)
{
    for (; o && o->kind != OPT_END; o++)
        buf_addf(out, "%s--%s", out->len && out->data[out->len - 1] != '\'' ? " " : "", o->name);
}

/* "a|b" to "a b" */
static void choice_words(const char *choices, struct buf *out)
{
    for (; *choices; choices++)
        buf_addc(out, *choices == '|' ? ' ' : *choices);
}

static void command_names(const struct cmd *const *list, struct buf *out)
{
    for (const struct cmd *const *l = list; *l; l++)
        buf_addf(out, "%s%s", l == list ? "" : " ", (*l)->name);
}

/* The words a value may be: its choices, or an argument written as such ("gpu|rdma", which
 * may be a comma list; capitals are no words).  NULL: anything, so files are offered. */
static const char *value_words(const struct opt *o)
{
    if (o->choices)
        return o->choices;
    return o->arg && strchr(o->arg, '|') && islower((unsigned char)o->arg[0]) ? o->arg : NULL;
}

/* ---- bash ---- */

static void bash_values(const struct opt *o, const char *path, struct buf *out)
{
    for (; o && o->kind != OPT_END; o++) {
        if (o->kind == OPT_FLAG)
            continue;
        buf_addf(out, "        %s' --%s'", path, o->name);
        if (o->letter)
            buf_addf(out, "|%s' -%c'", path, o->letter);
        buf_adds(out, ") words='");
        if (value_words(o))
            choice_words(value_words(o), out);
        buf_adds(out, "' ;;\n");
    }
}

static void bash_command_values(const struct cmd *c, const char *path, struct buf *out)
{
    struct buf quoted = { 0 };

    buf_addf(&quoted, "'%s'", path);
    bash_values(c->opts, buf_str(&quoted), out);
    buf_release(&quoted);
}

/* Options where a '-' asks for them, and where a command takes nothing else. */
static void bash_case(const struct cmd *c, const char *path, struct buf *out)
{
    buf_addf(out, "        '%s') words='", path);
    if (c->subs)
        command_names(c->subs, out);
    else if (!strcmp(path, "help"))
        command_names(commands, out);
    else if (c->arg_choices)
        choice_words(c->arg_choices, out);
    if (!c->subs && c->args_max == 0)
        option_words(c->opts, out);
    buf_adds(out, "'; options='");
    option_words(c->opts, out);
    option_words(cmd_global_opts(), out);
    buf_adds(out, "' ;;\n");
}

static void each_path(void (*fn)(const struct cmd *c, const char *path, struct buf *out),
                      struct buf *out)
{
    struct buf path = { 0 };

    for (const struct cmd *const *l = commands; *l; l++) {
        fn(*l, (*l)->name, out);
        for (const struct cmd *const *s = (*l)->subs; s && *s; s++) {
            buf_reset(&path);
            buf_addf(&path, "%s %s", (*l)->name, (*s)->name);
            fn(*s, buf_str(&path), out);
        }
    }
    buf_release(&path);
}

static void bash_write(struct buf *out)
{
    buf_adds(out, "# bash completion for stoker, made from its command table\n"
                  "_stoker() {\n"
                  "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                  "    local path=${COMP_WORDS[1]} words= options=\n"
                  "    [ \"$cur\" = = ] && cur=\n"
                  "    [ \"$prev\" = = ] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                  "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                  "        COMPREPLY=($(compgen -W '");
    command_names(commands, out);
    buf_adds(out, "' -- \"$cur\"))\n        return\n    fi\n    case \"$path\" in\n    ''");
    for (const struct cmd *const *l = commands; *l; l++)
        if ((*l)->subs)
            buf_addf(out, "|%s", (*l)->name);
    buf_adds(out, ") [ \"$COMP_CWORD\" -gt 2 ] && path=\"$path ${COMP_WORDS[2]}\" ;;\n    esac\n"
                  "    case \"$path $prev\" in\n");
    each_path(bash_command_values, out);
    bash_values(cmd_global_opts(), "*", out);
    buf_adds(out, "        *)\n        case \"$path\" in\n");
    each_path(bash_case, out);
    buf_adds(out, "        esac\n"
                  "        case \"$cur\" in -*) words=$options ;; esac ;;\n"
                  "    esac\n"
                  "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                  "}\ncomplete -o default -F _stoker stoker\n");
}

/* ---- zsh: through bash's, which zsh can run ---- */

/* ---- fish ---- */

static void fish_quote(const char *s, struct buf *out)
{
    buf_addc(out, '\'');
    for (; *s; s++)
        buf_addf(out, "%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
    buf_addc(out, '\'');
}

static void fish_options(const struct cmd *c, const char *path, struct buf *out)
{
    for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++) {
        buf_addf(out, "complete -c stoker -n '__fish_seen_subcommand_from %s' -l %s",
                 strchr(path, ' ') ? strchr(path, ' ') + 1 : path, o->name);
        if (o->letter)
            buf_addf(out, " -s %c", o->letter);
        if (value_words(o)) {
            buf_adds(out, " -x -a '");
            choice_words(value_words(o), out);
            buf_addc(out, '\'');
        } else if (o->arg)
            buf_adds(out, " -r");
        buf_adds(out, " -d ");
        fish_quote(o->help, out);
        buf_addc(out, '\n');
    }
}

static void fish_write(struct buf *out)
{
    buf_adds(out, "# fish completion for stoker, made from its command table\n");
    for (const struct cmd *const *l = commands; *l; l++) {
        buf_addf(out, "complete -c stoker -n __fish_use_subcommand -f -a %s -d ", (*l)->name);
        fish_quote((*l)->summary, out);
        buf_addc(out, '\n');
        for (const struct cmd *const *s = (*l)->subs; s && *s; s++) {
            buf_addf(out, "complete -c stoker -n '__fish_seen_subcommand_from %s' -f -a %s -d ",
                     (*l)->name, (*s)->name);
            fish_quote((*s)->summary, out);
            buf_addc(out, '\n');
        }
    }
    each_path(fish_options, out);
}

enum rc cmd_completion(const char *shell, struct buf *out, struct err *err)
{
    if (!strcmp(shell, "bash"))
        bash_write(out);
    else if (!strcmp(shell, "zsh")) {
        buf_adds(out, "#compdef stoker\nautoload -U +X bashcompinit && bashcompinit\n");
        bash_write(out);
    } else if (!strcmp(shell, "fish"))
        fish_write(out);
    else {
        err_hint(err, "Choose one of: bash, zsh, fish.");
        return err_set(err, RC_USAGE, "no completion for shell '%s'", shell);
    }
    return RC_OK;
}

static enum rc completion_run(struct cmd_ctx *ctx, struct err *err)
{
    return cmd_completion(ctx->argv[0], &ctx->out, err);
}

static const struct cmd_example examples[] = {
    { "stoker completion bash >/etc/bash_completion.d/stoker", "install it for every user" },
    { 0 },
};

const struct cmd cmd_completion_cmd = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .operands = "bash|zsh|fish",
    .args_min = 1,
    .args_max = 1,
    .about = "The script completes commands, subcommands, options and their choices.  "
             "'make install' puts it where bash, zsh and fish look.",
    .examples = examples,
    .arg_choices = "bash|zsh|fish",
    .run = completion_run,
};

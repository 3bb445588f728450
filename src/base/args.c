/* SPDX-License-Identifier: MIT */
#include "base/args.h"

#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { ARGS_NAMES_MAX = 64 };

static const struct opt *find_long(const struct opt *opts, const char *name, size_t len)
{
    for (const struct opt *o = opts; o && o->kind != OPT_END; o++)
        if (strlen(o->name) == len && !memcmp(o->name, name, len))
            return o;
    return NULL;
}

static const struct opt *find_letter(const struct opt *opts, char letter)
{
    for (const struct opt *o = opts; o && o->kind != OPT_END; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

static enum rc unknown_option(const struct opt *opts, const char *given, size_t len,
                              struct err *err)
{
    const char *names[ARGS_NAMES_MAX];
    char name[64] = "";
    const char *near;
    size_t count = 0;

    for (const struct opt *o = opts; o && o->kind != OPT_END && count < ARGS_NAMES_MAX; o++)
        names[count++] = o->name;
    if (len < sizeof(name))
        memcpy(name, given, len);
    near = str_nearest(name, names, count);
    if (near)
        err_hint(err, "Did you mean '--%s'?", near);
    return err_set(err, RC_USAGE, "unknown option '--%.*s'", (int)len, given);
}

/* Is `value` one of "a|b|c"? */
static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);

    for (const char *p = choices; p; p = strchr(p, '|')) {
        if (*p == '|')
            p++;
        if (strcspn(p, "|") == len && !memcmp(p, value, len))
            return true;
    }
    return false;
}

/* "N", "DIR|TAR", "$n": what documents and scripts write for a value. */
static bool is_stand_in(const char *value)
{
    bool capital = false;

    if (strchr(value, '$'))
        return true;
    for (; *value; value++) {
        if (*value >= 'a' && *value <= 'z')
            return false;
        capital |= *value >= 'A' && *value <= 'Z';
    }
    return capital;
}

static enum rc store_int(const struct opt *o, void *p, const char *value, struct err *err)
{
    int64_t v;

    if (!str_to_i64(value, 10, &v) || v < o->min || v > o->max)
        return err_set(err, RC_USAGE,
                       "option '--%s' needs a whole number from %" PRId64 " to %" PRId64
                       ", not '%s'",
                       o->name, o->min, o->max, value);
    *(int64_t *)p = v;
    return RC_OK;
}

static enum rc store_value(const struct opt *o, const char *value, bool sketch, void *out,
                           struct err *err)
{
    void *p = (char *)out + o->off;
    struct opt_strs *strs = p;

    if (o->kind == OPT_FLAG) {
        *(bool *)p = true;
        return RC_OK;
    }
    if (sketch && (o->choices || o->kind == OPT_INT) && is_stand_in(value))
        return RC_OK;
    if (o->choices && (*value || o->kind != OPT_STR_OPT) && !is_choice(o->choices, value)) {
        err_hint(err, "Choose one of: %s.", o->choices);
        return err_set(err, RC_USAGE, "option '--%s' has no choice '%s'", o->name, value);
    }
    switch (o->kind) {
    case OPT_STR:
    case OPT_STR_OPT:
        *(const char **)p = value;
        return RC_OK;
    case OPT_INT:
        return store_int(o, p, value, err);
    case OPT_STRS:
    case OPT_STRS_OPT:
        if (strs->count == ARGS_REPEAT_MAX)
            return err_set(err, RC_LIMIT, "option '--%s' is given more than %d times", o->name,
                           ARGS_REPEAT_MAX);
        strs->items[strs->count++] = value;
        return RC_OK;
    case OPT_FLAG:
    case OPT_END:
        break;
    }
    assert(!"every kind is stored");
    return RC_FAIL;
}

struct cursor {
    int argc;
    char **argv;
    int i;       /* the argument being read */
    bool sketch; /* see args_sketch() */
};

/* `attached` is what stood behind '=' or the letter, NULL when nothing did. */
static enum rc take_option(const struct opt *o, struct cursor *c, const char *attached, void *out,
                           struct err *err)
{
    if (o->kind == OPT_FLAG && attached)
        return err_set(err, RC_USAGE, "option '--%s' takes no value", o->name);
    if (!attached &&
        (o->kind == OPT_STR_OPT ||
         (o->kind == OPT_STRS_OPT && (c->i + 1 >= c->argc || c->argv[c->i + 1][0] == '-'))))
        attached = "";
    if (!attached && o->kind != OPT_FLAG) {
        if (c->i + 1 >= c->argc)
            return err_set(err, RC_USAGE, "option '--%s' needs a value (%s)", o->name, o->arg);
        attached = c->argv[++c->i];
    }
    return store_value(o, attached, c->sketch, out, err);
}

static enum rc take_long(const struct opt *opts, struct cursor *c, void *out, struct err *err)
{
    const char *name = c->argv[c->i] + 2;
    size_t len = strcspn(name, "=");
    const struct opt *o = find_long(opts, name, len);

    if (!o)
        return unknown_option(opts, name, len, err);
    return take_option(o, c, name[len] ? name + len + 1 : NULL, out, err);
}

/* A cluster of letters: flags may be joined, the last may carry a value. */
static enum rc take_letters(const struct opt *opts, struct cursor *c, void *out, struct err *err)
{
    for (const char *p = c->argv[c->i] + 1; *p; p++) {
        const struct opt *o = find_letter(opts, *p);
        enum rc rc;

        if (!o)
            return err_set(err, RC_USAGE, "unknown option '-%c'", *p);
        if (o->kind == OPT_FLAG)
            rc = take_option(o, c, NULL, out, err);
        else
            return take_option(o, c, p[1] ? p + 1 : NULL, out, err);
        if (rc)
            return rc;
    }
    return RC_OK;
}

static enum rc take_all(const struct opt *opts, struct cursor c, void *out, int *out_count,
                        struct err *err)
{
    char **argv = c.argv;
    bool plain = false; /* after "--" */
    int operands = 0;

    for (; c.i < c.argc; c.i++) {
        char *arg = argv[c.i];
        enum rc rc = RC_OK;

        if (plain || arg[0] != '-' || !arg[1])
            argv[operands++] = arg;
        else if (!strcmp(arg, "--"))
            plain = true;
        else if (arg[1] == '-')
            rc = take_long(opts, &c, out, err);
        else
            rc = take_letters(opts, &c, out, err);
        if (rc)
            return rc;
    }
    *out_count = operands;
    return RC_OK;
}

enum rc args_parse(const struct opt *opts, int argc, char **argv, void *out, int *out_count,
                   struct err *err)
{
    struct cursor c = { .argc = argc, .argv = argv, .i = 1 };

    return take_all(opts, c, out, out_count, err);
}

enum rc args_sketch(const struct opt *opts, int argc, char **argv, void *out, int *out_count,
                    struct err *err)
{
    struct cursor c = { .argc = argc, .argv = argv, .i = 1, .sketch = true };

    return take_all(opts, c, out, out_count, err);
}

/* SPDX-License-Identifier: MIT */
/* nccl_conf: what else than the environment steers NCCL on this machine; nccl_topo.c has the
 * topology file.
 *
 * Configuration files: NCCL_CONF_FILE (from 2.23 on), or ~/.nccl.conf where that is
 * unset, then /etc/nccl.conf.  NCCL reads them as NAME=VALUE a line, '#' first on a
 * line for comments, and sets what the environment has not; so the first file wins
 * over the next, and the environment over all.  Up to 2.29 ~ is the folder of the user
 * database and a carriage return at the end of a line belongs to the value; from 2.30 on
 * ~ is $HOME, the carriage return goes, and a line is read 4095 bytes at a time.
 *
 * Plug-ins: libnccl-net.so and libnccl-tuner.so, or those that NCCL_NET_PLUGIN and
 * NCCL_TUNER_PLUGIN name, where the loader would find them. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <strings.h>

enum {
    CONF_FILE_MAX = 64 << 10,     /* bytes read of a configuration file */
    CONF_VARS_MAX = 256,          /* settings kept */
    CONF_FILES_MAX = 2,           /* files NCCL reads */
    CONF_VALUE_MAX = 1023,        /* bytes of a name or a value, as in NCCL */
    CONF_LINE_MAX = 4095,         /* bytes NCCL reads at once, from 2.30 on */
    PLUGIN_DIRS_MAX = 64,         /* folders of the loader */
    PLUGIN_LD_FILE_MAX = 8 << 10, /* bytes of a file below /etc/ld.so.conf.d */
    PLUGIN_NAMES_MAX = 16         /* names in NCCL_NET_PLUGIN */
};

/* ---- configuration files ---- */

/* Is the NCCL found here older?  Unknown counts as new. */
static bool nccl_before(const struct hw *hw, long minor)
{
    const char *v = hw_nccl_version(hw);

    return v && str_starts(v, "2.") && strtol(v + 2, NULL, 10) < minor;
}

static bool conf_has(const struct hw_nccl_var *vars, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(vars[i].name, name))
            return true;
    return false;
}

/* The bytes of NCCL's next line, its end left out.  From 2.30 on it reads into a buffer, so a
 * line that is too long goes on as the next one. */
static size_t conf_line_len(const char *p, const char *end, const struct hw_conf_rule *rule)
{
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t len = (size_t)((stop ? stop : end) - p);

    return rule->buffered && len > CONF_LINE_MAX ? CONF_LINE_MAX : len;
}

/* All before '=' is the name to NCCL, blanks, "export" and a byte order mark too: such a line
 * sets nothing that it reads, and whoever wrote it does not see that. */
static bool conf_line_astray(struct arena *a, const char *line, size_t len, struct hw_conf *out)
{
    const char *name = memmem(line, len, "NCCL_", 5);
    char *text;

    if (!name || memchr(line, '#', (size_t)(name - line)))
        return false;
    if (out->astray)
        return true;
    text = arena_strndup(a, line, len);
    str_make_text(text);
    out->astray = text;
    return true;
}

/* One line as a C string, which a NUL ends.  Only NCCL's own variables are of interest: whatever
 * else a file sets comes too late for the programs that read it. */
static bool conf_line(struct arena *a, const struct hw_conf_rule *rule, const char *line,
                      size_t len, struct hw_conf *out)
{
    const char *equals;
    char *name, *value;

    len = strnlen(line, len);
    if (len && line[len - 1] == '\r') {
        out->carriage = true;
        len -= rule->buffered;
    }
    equals = memchr(line, '=', len);
    if (!equals || equals - line > CONF_VALUE_MAX)
        return false;
    if (len < 5 || memcmp(line, "NCCL_", 5))
        return conf_line_astray(a, line, (size_t)(equals - line), out);
    name = arena_strndup(a, line, (size_t)(equals - line));
    value = arena_strndup(a, equals + 1,
                          (size_t)(line + len - equals - 1) > CONF_VALUE_MAX
                              ? CONF_VALUE_MAX
                              : (size_t)(line + len - equals - 1));
    str_make_text(name);
    str_make_text(value);
    if (out->count < CONF_VARS_MAX && !conf_has(out->vars, out->count, name))
        out->vars[out->count++] = (struct hw_nccl_var){ .name = name, .value = value };
    return true;
}

void hw_conf_parse(struct arena *a, const char *text, size_t len, const struct hw_conf_rule *rule,
                   struct hw_conf *out)
{
    const char *end = text + len;

    *out = (struct hw_conf){ .vars = arena_array(a, struct hw_nccl_var, CONF_VARS_MAX) };
    for (const char *p = text; p < end;) {
        size_t line = conf_line_len(p, end, rule);

        if (conf_line(a, rule, p, line, out) && rule->kept)
            buf_addf(rule->kept, "%.*s\n", (int)strnlen(p, line), p);
        p += line + (p + line < end && p[line] == '\n');
    }
}

/* What the files before have set stays. */
static void conf_take(struct hw_build *b, const struct hw_conf *c, const char *path)
{
    struct hw_nccl *n = &b->hw->nccl;
    const char *from = arena_strdup(b->a, path);

    for (size_t i = 0; i < c->count; i++)
        if (n->conf_count < CONF_VARS_MAX && !conf_has(n->conf, n->conf_count, c->vars[i].name)) {
            n->conf[n->conf_count] = c->vars[i];
            n->conf[n->conf_count++].path = from;
        }
    if (c->astray)
        hw_note_add(b, "nccl",
                    "'%s' has a line that sets '%s', which NCCL does not read: the name of the "
                    "variable comes first on a line",
                    path, c->astray);
    if (c->carriage && nccl_before(b->hw, 30))
        hw_note_add(b, "nccl",
                    "'%s' has lines that end in a carriage return, which NCCL before 2.30 takes "
                    "for a part of the value",
                    path);
}

/* Of a file that can hold anything a capture keeps NCCL's lines only. */
static void conf_read(struct hw_build *b, const char *path)
{
    struct hw_nccl *n = &b->hw->nccl;
    char *text = xmalloc(CONF_FILE_MAX);
    ssize_t len = root_read(b->root, path, text, CONF_FILE_MAX);
    const char **files = arena_array(b->a, const char *, CONF_FILES_MAX);
    struct buf kept = { 0 };
    struct hw_conf_rule rule = { .buffered = !nccl_before(b->hw, 30), .kept = &kept };
    struct hw_conf found;

    if (len >= 0 && n->conf_files_count < CONF_FILES_MAX) {
        for (size_t i = 0; i < n->conf_files_count; i++)
            files[i] = n->conf_files[i];
        files[n->conf_files_count++] = arena_strdup(b->a, path);
        n->conf_files = files;
    }
    if (len >= 0) {
        hw_conf_parse(b->a, text, (size_t)len, &rule, &found);
        conf_take(b, &found, path);
        if (b->rec)
            recorder_put(b->rec, path, buf_str(&kept), kept.len);
    }
    buf_release(&kept);
    free(text);
}

static void conf_find(struct hw_build *b)
{
    const char *user = hw_self_env(&b->self, "NCCL_CONF_FILE");
    const char *home =
        b->self.passwd_home && nccl_before(b->hw, 30) ? b->self.passwd_home : b->self.home;
    char path[ROOT_PATH_MAX];

    b->hw->nccl.conf = arena_array(b->a, struct hw_nccl_var, CONF_VARS_MAX);
    if (user && *user && !nccl_before(b->hw, 23)) {
        if (*user == '/' && strlen(user) < sizeof(path))
            conf_read(b, user);
        if (!b->hw->nccl.conf_files_count)
            hw_note_add(b, "nccl", "NCCL_CONF_FILE names '%s', which cannot be read here", user);
    } else if (home && snprintf(path, sizeof(path), "%s/.nccl.conf", home) < (int)sizeof(path)) {
        conf_read(b, path);
    }
    conf_read(b, "/etc/nccl.conf");
}

/* ---- plug-ins ---- */

struct plugin_dirs {
    const char *items[PLUGIN_DIRS_MAX];
    size_t count;
};

static void dir_add(struct hw_build *b, struct plugin_dirs *d, const char *dir, size_t len)
{
    if (*dir == '/' && len && len < ROOT_PATH_MAX && d->count < PLUGIN_DIRS_MAX)
        d->items[d->count++] = arena_strndup(b->a, dir, len);
}

/* "/opt/x/lib" a line; what includes others is passed over. */
static void dirs_of_file(struct hw_build *b, struct plugin_dirs *d, const char *path)
{
    char text[PLUGIN_LD_FILE_MAX];

    if (root_read(b->root, path, text, sizeof(text)) <= 0)
        return;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n"), blank = strcspn(p, " \t\n#");

        dir_add(b, d, p, blank);
        p += len + (p[len] == '\n');
    }
}

/* The folders of the loader, in its order. */
static void dirs_find(struct hw_build *b, struct plugin_dirs *d)
{
    static const char *const last[] = { "/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                                        "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib" };
    const char *env = hw_self_env(&b->self, "LD_LIBRARY_PATH");
    struct arena tmp = { 0 };
    struct root_names names;
    char path[ROOT_PATH_MAX];

    while (env && *env) {
        size_t len = strcspn(env, ":");

        dir_add(b, d, env, len);
        env += len + (env[len] == ':');
    }
    if (root_list(b->root, &tmp, "/etc/ld.so.conf.d", &names) == 0)
        for (size_t i = 0; i < names.count; i++)
            if (str_ends(names.items[i], ".conf") &&
                snprintf(path, sizeof(path), "/etc/ld.so.conf.d/%s", names.items[i]) <
                    (int)sizeof(path))
                dirs_of_file(b, d, path);
    arena_release(&tmp);
    for (size_t i = 0; i < ARRAY_SIZE(last); i++)
        dir_add(b, d, last[i], strlen(last[i]));
}

/* Where the loader finds `file`; NULL: nowhere. */
static const char *plugin_at(struct hw_build *b, const struct plugin_dirs *d, const char *file)
{
    if (*file == '/')
        return root_exists(b->root, "%s", file) ? arena_strdup(b->a, file) : NULL;
    for (size_t i = 0; i < d->count; i++)
        if (root_exists(b->root, "%s/%s", d->items[i], file))
            return arena_printf(b->a, "%s/%s", d->items[i], file);
    return NULL;
}

/* NCCL tries a name as it is, then as libnccl-net-NAME.so; the first that is there. */
static const char *plugin_find(struct hw_build *b, const struct plugin_dirs *d, const char *var,
                               const char *prefix)
{
    const char *list = hw_env_get(b->hw, var), *found = NULL;

    if (!list || !*list)
        return plugin_at(b, d, arena_printf(b->a, "%s.so", prefix));
    for (int i = 0; !found && *list && i < PLUGIN_NAMES_MAX; i++) {
        size_t len = strcspn(list, ",");
        const char *name = arena_strndup(b->a, list, len);

        if (len && len < ROOT_PATH_MAX / 2 && strcasecmp(name, "none")) {
            found = plugin_at(b, d, name);
            if (!found && !strchr(name, '/'))
                found = plugin_at(b, d, arena_printf(b->a, "%s-%s.so", prefix, name));
        }
        list += len + (list[len] == ',');
    }
    return found;
}

void hw_src_nccl(struct hw_build *b)
{
    struct plugin_dirs dirs = { 0 };

    conf_find(b);
    hw_nccl_topo_find(b);
    dirs_find(b, &dirs);
    b->hw->nccl.net_plugin = plugin_find(b, &dirs, "NCCL_NET_PLUGIN", "libnccl-net");
    b->hw->nccl.tuner_plugin = plugin_find(b, &dirs, "NCCL_TUNER_PLUGIN", "libnccl-tuner");
    hw_verbs_find(b, plugin_at(b, &dirs, "libibverbs.so.1"));
}

/* SPDX-License-Identifier: MIT */
/* include: a spec in several files.
 *
 *     include: [nodes.yaml, alerts/gpu.yaml]
 *
 * Each file is a spec of its own with any of the keys; the trees are put together before anything
 * is bound, so that the rest of the program sees one document: maps are joined, lists are put one
 * behind the other, and a single value that two files give is an error, since which one holds would
 * hang on the order.
 *
 * Paths are relative to the file that names them and stay below the folder of the first one: no
 * "..", no absolute path, no link that leads out (the reader sees to it: openat2's RESOLVE_BENEATH,
 * or no links at all where the kernel lacks it).  A file is included once.  Trees of aliases are
 * shared, so a list is copied before anything is added to it. */
#include "base/str.h"
#include "spec/spec_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- reading below a folder --- */

/* Without openat2: every part opened by itself, no links. */
static int open_walk(int dir, const char *path, int flags)
{
    int at = dir;

    for (;;) {
        char part[SPEC_INCLUDE_PATH_MAX];
        size_t len = strcspn(path, "/");
        int fd, saved;

        (void)snprintf(part, sizeof(part), "%.*s", (int)len, path);
        fd = openat(at, part,
                    path[len] ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : flags | O_NOFOLLOW);
        saved = errno;
        if (at != dir)
            close(at);
        errno = saved;
        if (fd < 0 || !path[len])
            return fd;
        at = fd;
        path += len + 1;
    }
}

static int open_below(int dir, const char *path)
{
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return open_walk(dir, path, (int)how.flags);
    return (int)fd;
}

enum rc spec_read_below(void *ctx, const char *path, struct buf *out, struct err *err)
{
    int fd = open_below(*(const int *)ctx, path);
    struct stat st;
    enum rc rc;

    if (fd < 0 && (errno == EXDEV || errno == ELOOP))
        return err_set(err, RC_FAIL, "a link in '%s' leads out of the spec's folder", path);
    if (fd < 0)
        return err_sys(err, "could not open '%s'", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        rc = err_set(err, RC_FAIL, "'%s' is not a file", path);
    else
        rc = spec_read_fd(fd, path, out, err);
    close(fd);
    return rc;
}

/* --- what may be included --- */
static const char *path_fault(const char *path)
{
    size_t len = strlen(path);

    if (!len || len >= SPEC_INCLUDE_PATH_MAX)
        return "its length is wrong";
    if (path[0] == '/')
        return "it is absolute";
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");

        if (!n || (n == 1 && p[0] == '.') || (n == 2 && !memcmp(p, "..", 2)))
            return "it has an empty part, '.' or '..'";
        p += n;
        if (*p && !*++p)
            return "it is a folder";
    }
    return NULL;
}

/* The path as the reader takes it: below the folder of the first file. */
static const char *path_below(struct load *l, size_t by, const char *path)
{
    const char *slash = strrchr(l->files[by].path, '/');
    size_t dir = slash ? (size_t)(slash - l->files[by].path) + 1 : 0;

    return arena_printf(l->arena, "%.*s%s", (int)dir, l->files[by].path, path);
}

static bool include_ok(struct load *l, size_t by, const struct yaml *y, const char *path)
{
    int depth = 1;

    for (size_t i = by; i; i = l->files[i].parent)
        depth++;
    if (l->file_count == SPEC_INCLUDES_MAX + 1) {
        diag_add(l, y->line, y->col, "more than %d files are included", SPEC_INCLUDES_MAX);
        return false;
    }
    if (depth > SPEC_INCLUDE_DEPTH_MAX) {
        diag_add(l, y->line, y->col, "files include each other more than %d deep",
                 SPEC_INCLUDE_DEPTH_MAX);
        return false;
    }
    for (size_t i = 0; i < l->file_count; i++)
        if (str_eq(l->files[i].path, path)) {
            diag_add(l, y->line, y->col, "'%s' is included twice", path);
            diag_hint(l, "Its lists would be there twice; a file that includes itself has no end.");
            return false;
        }
    return true;
}

/* Reads one file and makes it the current one; NULL: told. */
static struct yaml *include_read(struct load *l, struct arena *tree, size_t by,
                                 const struct yaml *y)
{
    const char *fault = path_fault(y->text), *path;
    struct buf text = { 0 };
    struct err err = { 0 };
    struct yaml *root = NULL;

    if (fault) {
        diag_add(l, y->line, y->col, "'%.60s' cannot be included: %s", y->text, fault);
        diag_hint(l, "Name a file in the spec's folder or below it.");
        return NULL;
    }
    path = path_below(l, by, y->text);
    if (strlen(path) >= SPEC_INCLUDE_PATH_MAX || !include_ok(l, by, y, path))
        return NULL;
    buf_init(&text, SPEC_FILE_MAX + 1);
    if (!l->source) {
        diag_add(l, y->line, y->col, "'%s' cannot be included: there is no folder", path);
        diag_hint(l, "What comes from standard input is whole: name the file instead.");
    } else if (l->source->read(l->source->ctx, path, &text, &err)) {
        diag_add(l, y->line, y->col, "'%s' cannot be included: %s", path, err.msg);
    } else {
        load_file(l, path, by, buf_str(&text), text.len);
        root = yaml_read(l, tree);
    }
    buf_release(&text);
    return root;
}

/* --- two trees into one --- */
static struct yaml *map_find(const struct yaml *map, const char *key)
{
    for (struct yaml *c = map->first; c; c = c->next)
        if (str_eq(c->key, key))
            return c;
    return NULL;
}

/* Children of its own, which may be added to. */
static void children_own(struct arena *a, struct yaml *y)
{
    struct yaml *last = NULL;

    for (const struct yaml *c = y->first; c; c = c->next) {
        struct yaml *mine = arena_memdup(a, c, sizeof(*c));

        mine->next = NULL;
        *(last ? &last->next : &y->first) = mine;
        last = mine;
    }
    y->last = last;
}

static bool child_add(struct load *l, struct arena *a, struct yaml *to, const struct yaml *c)
{
    struct yaml *mine = arena_memdup(a, c, sizeof(*c));

    if (to->count == SPEC_LIST_MAX) {
        diag_add(l, c->line, c->col, "more than %d items in one list or map", SPEC_LIST_MAX);
        return false;
    }
    mine->next = NULL;
    *(to->last ? &to->last->next : &to->first) = mine;
    to->last = mine;
    to->count++;
    return true;
}

/* The first file's is judged when it is bound. */
static void schema_same(struct load *l, const struct yaml *first, const struct yaml *c)
{
    if (first->type == YAML_SCALAR && c->type == YAML_SCALAR && str_eq(first->text, c->text))
        return;
    diag_add(l, c->line, c->col, "the format here is '%.64s', and that of '%s' is '%.64s'",
             c->type == YAML_SCALAR ? c->text : "", l->files[line_file(first->key_line)].name,
             first->type == YAML_SCALAR ? first->text : "");
}

static void tree_join(struct load *l, struct arena *a, struct yaml *to, const struct yaml *from,
                      bool top)
{
    children_own(a, to);
    for (const struct yaml *c = from->first; c; c = c->next) {
        struct yaml *there = to->type == YAML_MAP ? map_find(to, c->key) : NULL;

        if (top && str_eq(c->key, "schema") && there)
            schema_same(l, there, c);
        if (top && (str_eq(c->key, "include") || (str_eq(c->key, "schema") && there)))
            continue; /* followed already; the format's name may stand in every file */
        if (!there) {
            if (!child_add(l, a, to, c))
                return;
        } else if (there->type == c->type && (c->type == YAML_MAP || c->type == YAML_SEQ)) {
            tree_join(l, a, there, c, false);
        } else {
            diag_add(l, c->key_line, c->key_col, "'%.64s' is given in two files", c->key);
            diag_hint(l, "Line %d of '%s' has it, too.", line_number(there->key_line),
                      l->files[line_file(there->key_line)].name);
        }
    }
}

void include_expand(struct load *l, struct arena *tree, struct yaml *root, size_t by)
{
    const struct yaml *list = root->type == YAML_MAP ? map_find(root, "include") : NULL;

    if (!list || list->type != YAML_SEQ)
        return; /* anything else is refused when it is bound */
    for (const struct yaml *y = list->first; y && !l->diags->count; y = y->next) {
        size_t file = l->file_count;
        struct yaml *part = y->type == YAML_SCALAR ? include_read(l, tree, by, y) : NULL;

        if (!part)
            continue;
        if (part->type != YAML_MAP) {
            diag_add(l, part->line, part->col, "a spec is a map of 'key: value' lines");
            continue;
        }
        include_expand(l, tree, part, file);
        tree_join(l, tree, root, part, true);
    }
}

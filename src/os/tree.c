/* SPDX-License-Identifier: MIT */
#include "os/root_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void tree_init(struct tree *t)
{
    *t = (struct tree){ 0 };
}

void tree_release(struct tree *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->nodes[i].path);
        free(t->nodes[i].data);
    }
    free(t->nodes);
    tree_init(t);
}

/* Absolute, no empty, "." or ".." component, no trailing slash. */
static bool path_is_clean(const char *path)
{
    size_t len = strlen(path);

    if (path[0] != '/' || len >= ROOT_PATH_MAX)
        return false;
    if (len == 1)
        return true;
    for (const char *p = path; *p;) {
        size_t n = strcspn(p + 1, "/");

        if (!n || (n == 1 && p[1] == '.') || (n == 2 && p[1] == '.' && p[2] == '.'))
            return false;
        p += 1 + n;
    }
    return true;
}

bool tree_put(struct tree *t, const char *path, enum tree_kind kind, const void *data, size_t len,
              int error)
{
    if (!path_is_clean(path) || t->count >= TREE_NODES_MAX)
        return false;
    VEC_GROW(t->nodes, t->count, t->cap);
    t->nodes[t->count++] = (struct tree_node){
        .path = xstrdup(path),
        .kind = kind,
        .data = xstrndup(data ? data : "", data ? len : 0),
        .len = data ? len : 0,
        .error = error,
    };
    t->sorted = false;
    return true;
}

/* Order in which a folder's children directly follow it: '/' sorts before all else. */
static int path_compare(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    if (*a == *b)
        return 0;
    if (!*a || !*b)
        return *a ? 1 : -1;
    if (*a == '/' || *b == '/')
        return *a == '/' ? -1 : 1;
    return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

/* Stable, unlike qsort(): of two nodes with one path the older stays first. */
static void merge_sort(struct tree_node *v, struct tree_node *tmp, size_t n)
{
    size_t half = n / 2, i = 0, j = half, k = 0;

    if (n < 2)
        return;
    merge_sort(v, tmp, half);
    merge_sort(v + half, tmp, n - half);
    while (i < half && j < n)
        tmp[k++] = path_compare(v[i].path, v[j].path) <= 0 ? v[i++] : v[j++];
    while (i < half)
        tmp[k++] = v[i++];
    while (j < n)
        tmp[k++] = v[j++];
    memcpy(v, tmp, n * sizeof(*v));
}

/* Of two nodes with one path, does the newer tell more?  Anything beats a folder, an
 * error beats an empty file (a name seen in a listing), bytes beat both, and of two
 * readings the longer stays. */
static bool tells_more(const struct tree_node *newer, const struct tree_node *older)
{
    if (newer->kind == TREE_DIR || older->kind == TREE_DIR)
        return newer->kind != TREE_DIR;
    if (newer->len != older->len)
        return newer->len > older->len;
    return newer->error && !older->error;
}

static void drop_doubles(struct tree *t)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->count; i++) {
        struct tree_node n = t->nodes[i], *last = kept ? &t->nodes[kept - 1] : NULL;

        if (!last || strcmp(last->path, n.path)) {
            t->nodes[kept++] = n;
            continue;
        }
        if (tells_more(&n, last)) {
            struct tree_node older = *last;

            *last = n;
            n = older;
        }
        /* The analyzer takes nodes[i] of two rounds for one node. */
        free(n.path); /* NOLINT(clang-analyzer-unix.Malloc) */
        free(n.data); /* NOLINT(clang-analyzer-unix.Malloc) */
    }
    t->count = kept;
}

static void sort_nodes(struct tree *t)
{
    struct tree_node *tmp = xcalloc(t->count, sizeof(*tmp));

    merge_sort(t->nodes, tmp, t->count);
    free(tmp);
    drop_doubles(t);
}

static struct tree_node *search_node(struct tree *t, size_t count, const char *path)
{
    size_t lo = 0, hi = count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = path_compare(t->nodes[mid].path, path);

        if (!c)
            return &t->nodes[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* Is the first `len` bytes' folder the node `path`, or above it? */
static bool leads_to(const char *folder, size_t len, const char *path)
{
    return path && !strncmp(path, folder, len) && (!path[len] || path[len] == '/');
}

/* Adds the parents of the sorted nodes[0..count) that are missing; true when any was.
 * A folder stands right before what is below it, so one that does not lead to the node
 * before is not there, nor has the node before added it. */
static bool add_parents(struct tree *t, size_t count)
{
    char parent[ROOT_PATH_MAX];
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        const char *path = t->nodes[i].path, *before = i ? t->nodes[i - 1].path : NULL;
        const char *slash = path + strlen(path);

        while ((slash = memrchr(path, '/', (size_t)(slash - path))) && slash > path &&
               !leads_to(path, (size_t)(slash - path), before)) {
            memcpy(parent, path, (size_t)(slash - path));
            parent[slash - path] = '\0';
            if (!tree_put(t, parent, TREE_DIR, NULL, 0, 0))
                break; /* full */
            any = true;
        }
    }
    return any;
}

void tree_sort(struct tree *t)
{
    if (t->sorted)
        return;
    sort_nodes(t);
    if (add_parents(t, t->count))
        sort_nodes(t);
    t->sorted = true;
}

struct tree_node *tree_find(struct tree *t, const char *path)
{
    tree_sort(t);
    return search_node(t, t->count, path);
}

size_t tree_first_below(struct tree *t, const char *path)
{
    struct tree_node *n = tree_find(t, path);

    if (!strcmp(path, "/"))
        return n ? 1 : 0;
    return n ? (size_t)(n - t->nodes) + 1 : t->count;
}

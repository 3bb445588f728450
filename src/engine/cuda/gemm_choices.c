/* SPDX-License-Identifier: MIT */
/* gemm_choices.c: the file's lines are strict, so that what is half written, edited by hand or from
 * another version is thrown away instead of half believed. */
#include "base/codec/fnv1a.h"
#include "engine/cuda/gemm_choices_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "stoker-cuda-choices 2 "
#define SUM   "sum "

enum {
    FIELD_MAX = 24,    /* bytes of a field */
    US_MAX = 10000000, /* of one product: ten seconds */
    PARTS_MAX = 64,    /* of sums */
    SUM_BYTES = sizeof(SUM) - 1 + 16 + 1
};

/* In the order of the enums of gk_int.h. */
static const char *const type_names[] = { "f16", "bf16", "e4m3" };
static const char *const act_names[] = { "none", "gelu", "gelu_tanh", "relu" };
static const char *const impl_names[CHOOSE_IMPLS] = { "sm90", "sm80", "lt", "split90", "skinny" };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool say_about(char err[CHOOSE_TEXT_MAX], const char *what, const char *about)
{
    (void)snprintf(err, CHOOSE_TEXT_MAX, "%s '%.160s'", what, about);
    return false;
}

static bool say_errno(char err[CHOOSE_TEXT_MAX], const char *what, const char *path)
{
    (void)snprintf(err, CHOOSE_TEXT_MAX, "%s '%.120s': %s", what, path, strerror(errno));
    return false;
}

int choose_bucket(int m)
{
    int b = CHOOSE_BUCKET_MIN;

    while (b < m && b < CHOOSE_ROWS_MAX)
        b *= 2;
    return b;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static void copy_plain(char *to, size_t cap, const char *from)
{
    size_t i = 0;

    for (; from[i] && i + 1 < cap; i++)
        to[i] = is_plain(from[i]) ? from[i] : '_';
    to[i] = '\0';
}

void choose_init(struct choose *c, const char *stamp)
{
    memset(c, 0, sizeof(*c));
    copy_plain(c->stamp, sizeof(c->stamp), *stamp ? stamp : "_");
}

/* Zeros where there is no such file, or its name does not fit a line. */
static struct choose_library library_of(const char *path)
{
    struct choose_library l = { .path = "" };
    struct stat st;

    if (!path || path[0] != '/' || strlen(path) >= sizeof(l.path) || strchr(path, '\n') ||
        stat(path, &st))
        return l;
    memcpy(l.path, path, strlen(path) + 1);
    l.size = (uint64_t)st.st_size;
    l.changed_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    return l;
}

static bool library_same(const struct choose_library *a, const struct choose_library *b)
{
    return !strcmp(a->path, b->path) && a->size == b->size && a->changed_ns == b->changed_ns;
}

bool choose_library_same(const struct choose *c)
{
    struct choose_library now = library_of(c->lib.path);

    return library_same(&now, &c->lib);
}

void choose_use_library(struct choose *c, const char *path)
{
    struct choose_library l = library_of(path);

    if (library_same(&l, &c->lib))
        return;
    c->lib = l;
    c->changed = c->changed || c->count > 0;
    c->count = 0;
}

bool choose_path(char out[CHOOSE_PATH_MAX], const char *gpu, const char *driver,
                 char err[CHOOSE_TEXT_MAX])
{
    static const struct {
        const char *variable, *below;
    } places[] = { { "STOKER_CACHE", "" },
                   { "XDG_CACHE_HOME", "/stoker" },
                   { "HOME", "/.cache/stoker" } };
    char g[CHOOSE_STAMP_MAX], d[CHOOSE_STAMP_MAX];

    copy_plain(g, sizeof(g), gpu);
    copy_plain(d, sizeof(d), driver);
    for (size_t i = 0; i < COUNT(places); i++) {
        const char *at = getenv(places[i].variable);
        int n;

        if (!at || at[0] != '/')
            continue;
        n = snprintf(out, CHOOSE_PATH_MAX, "%s%s/cuda-%s-%s.txt", at, places[i].below, g, d);
        return (n > 0 && n < CHOOSE_PATH_MAX) || say_about(err, "the path is too long", at);
    }
    return say_about(err, "no folder for choices", "no XDG_CACHE_HOME or HOME is a path");
}

/* ---- a line ---- */
struct choices_cursor {
    const char *p, *end;
};

/* The next field, up to one blank or the line's end, which must not be empty. */
static bool next_field(struct choices_cursor *c, char out[FIELD_MAX])
{
    size_t n = 0;

    while (c->p < c->end && *c->p != ' ') {
        if (n + 1 >= FIELD_MAX || !is_plain(*c->p))
            return false;
        out[n++] = *c->p++;
    }
    out[n] = '\0';
    if (c->p < c->end)
        c->p++;
    return n > 0;
}

static bool field_name(struct choices_cursor *c, const char *const *names, size_t count, int *out)
{
    char f[FIELD_MAX];

    if (!next_field(c, f))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(f, names[i])) {
            *out = (int)i;
            return true;
        }
    return false;
}

/* Only digits, no leading zero, 1 .. max. */
static bool field_number(struct choices_cursor *c, int max, int *out)
{
    char f[FIELD_MAX];
    long long v = 0;

    if (!next_field(c, f) || f[0] == '0')
        return false;
    for (const char *p = f; *p; p++) {
        if (*p < '0' || *p > '9')
            return false;
        v = v * 10 + (*p - '0');
        if (v > max)
            return false;
    }
    *out = (int)v;
    return true;
}

/* "12.25": hundredths of a microsecond. */
static bool field_us(struct choices_cursor *c, double *out)
{
    char f[FIELD_MAX];
    size_t n, dots = 0;

    if (!next_field(c, f))
        return false;
    n = strlen(f);
    for (size_t i = 0; i < n; i++) {
        bool dot = i + 3 == n;

        if (dot ? f[i] != '.' : f[i] < '0' || f[i] > '9')
            return false;
        dots += dot;
    }
    if (dots != 1 || n < 4)
        return false;
    *out = strtod(f, NULL);
    return *out <= US_MAX;
}

/* Sixteen digits of hex, lower case. */
static bool field_word(struct choices_cursor *c, uint64_t *out)
{
    char f[FIELD_MAX];
    uint64_t v = 0;

    if (!next_field(c, f) || strlen(f) != 16)
        return false;
    for (const char *p = f; *p; p++) {
        if (*p >= '0' && *p <= '9')
            v = v << 4 | (uint64_t)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            v = v << 4 | (uint64_t)(*p - 'a' + 10);
        else
            return false;
    }
    *out = v;
    return true;
}

static bool parse_line(const char *p, const char *end, struct choose_entry *e)
{
    struct choices_cursor c = { p, end };
    int impl = 0;

    memset(e, 0, sizeof(*e));
    if (end == p || end[-1] == ' ' || end - p >= CHOOSE_LINE_MAX)
        return false;
    if (!field_name(&c, type_names, COUNT(type_names), &e->key.type) ||
        !field_name(&c, type_names, COUNT(type_names), &e->key.out_type) ||
        !field_name(&c, act_names, COUNT(act_names), &e->key.act) ||
        !field_number(&c, CHOOSE_SIDE_MAX, &e->key.n) ||
        !field_number(&c, CHOOSE_SIDE_MAX, &e->key.k) ||
        !field_number(&c, CHOOSE_ROWS_MAX, &e->key.bucket) ||
        !field_name(&c, impl_names, COUNT(impl_names), &impl) || !field_us(&c, &e->us))
        return false;
    e->way.impl = (enum choose_impl)impl;
    for (size_t i = 0; impl == CHOOSE_LT && i < CHOOSE_WORDS; i++)
        if (!field_word(&c, &e->way.words[i]))
            return false;
    if (impl == CHOOSE_SPLIT90 && !field_number(&c, PARTS_MAX, &e->way.parts))
        return false;
    return c.p == end && choose_bucket(e->key.bucket) == e->key.bucket;
}

/* ---- the whole file ---- */
static bool same_key(const struct choose_key *a, const struct choose_key *b)
{
    return a->type == b->type && a->out_type == b->out_type && a->act == b->act && a->n == b->n &&
           a->k == b->k && a->bucket == b->bucket;
}

const struct choose_entry *choose_find(const struct choose *c, const struct choose_key *key)
{
    for (size_t i = 0; i < c->count; i++)
        if (same_key(&c->entries[i].key, key))
            return &c->entries[i];
    return NULL;
}

static void sum_line(const char *text, size_t len, char out[SUM_BYTES + 1])
{
    (void)snprintf(out, SUM_BYTES + 1, SUM "%016llx\n",
                   (unsigned long long)fnv1a_add(FNV1A_START, text, len));
}

/* What stands before the last line, when that is its sum; else 0. */
static size_t summed_bytes(const char *text, size_t len)
{
    char line[SUM_BYTES + 1];

    if (len <= SUM_BYTES)
        return 0;
    len -= SUM_BYTES;
    sum_line(text, len, line);
    return memcmp(text + len, line, SUM_BYTES) ? 0 : len;
}

/* Past the first line, when it is ours. */
static const char *skip_head(const struct choose *c, const char *text, size_t len)
{
    char head[CHOOSE_LINE_MAX];
    int n = snprintf(head, sizeof(head), MAGIC "%s\n", c->stamp);

    if (n < 0 || (size_t)n > len || memcmp(text, head, (size_t)n))
        return NULL;
    return text + n;
}

#define LIBRARY "library "

/* "library none", or its size, its time and its path, which is the rest of the line. */
static bool parse_library(const char *p, const char *end, struct choose_library *out)
{
    struct choices_cursor c = { p + sizeof(LIBRARY) - 1, end };
    size_t left;

    *out = (struct choose_library){ .path = "" };
    if (end - p <= (ptrdiff_t)sizeof(LIBRARY) - 1 || memcmp(p, LIBRARY, sizeof(LIBRARY) - 1))
        return false;
    if (end - c.p == 4 && !memcmp(c.p, "none", 4))
        return true;
    if (!field_word(&c, &out->size) || !field_word(&c, &out->changed_ns))
        return false;
    left = (size_t)(end - c.p);
    if (!left || left >= sizeof(out->path) || *c.p != '/' || memchr(c.p, '\0', left))
        return false;
    memcpy(out->path, c.p, left);
    return true;
}

static size_t format_library(const struct choose_library *l, char *out, size_t cap)
{
    int n = l->path[0]
                ? snprintf(out, cap, LIBRARY "%016llx %016llx %s\n", (unsigned long long)l->size,
                           (unsigned long long)l->changed_ns, l->path)
                : snprintf(out, cap, LIBRARY "none\n");

    return n > 0 ? (size_t)n : cap;
}

bool choose_parse(struct choose *c, const char *text, size_t len, char err[CHOOSE_TEXT_MAX])
{
    size_t body = summed_bytes(text, len);
    const char *end = text + body, *p = skip_head(c, text, body);
    const char *line = p ? memchr(p, '\n', (size_t)(end - p)) : NULL;

    c->count = 0;
    c->changed = false;
    c->lib = (struct choose_library){ .path = "" };
    if (!body)
        return say_about(err, "choices are damaged:", "the sum is not that of the lines");
    if (!p)
        return say_about(err, "choices are of another version than", c->stamp);
    if (!line || !parse_library(p, line, &c->lib)) {
        c->lib = (struct choose_library){ .path = "" };
        return say_about(err, "choices are not understood:", "line 2");
    }
    p = line + 1;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        struct choose_entry e;

        if (!stop || c->count == CHOOSE_ENTRIES_MAX || !parse_line(p, stop, &e) ||
            choose_find(c, &e.key)) {
            (void)snprintf(err, CHOOSE_TEXT_MAX, "choices: line %zu is not understood",
                           c->count + 3);
            c->count = 0;
            return false;
        }
        c->entries[c->count++] = e;
        p = stop + 1;
    }
    return true;
}

static size_t format_way(const struct choose_way *w, char *out, size_t cap)
{
    size_t used = 0;
    int n = 0;

    if (w->impl == CHOOSE_SPLIT90)
        n = snprintf(out, cap, " %d", w->parts);
    used = n >= 0 ? (size_t)n : cap;
    for (size_t i = 0; w->impl == CHOOSE_LT && i < CHOOSE_WORDS && used < cap; i++) {
        n = snprintf(out + used, cap - used, " %016llx", (unsigned long long)w->words[i]);
        used += n > 0 ? (size_t)n : cap;
    }
    return used;
}

size_t choose_format(const struct choose *c, char *out, size_t cap)
{
    int n = snprintf(out, cap, MAGIC "%s\n", c->stamp);
    size_t used = n > 0 ? (size_t)n : cap;

    if (used < cap)
        used += format_library(&c->lib, out + used, cap - used);
    for (size_t i = 0; i < c->count && used < cap; i++) {
        const struct choose_entry *e = &c->entries[i];

        n = snprintf(out + used, cap - used, "%s %s %s %d %d %d %s %.2f", type_names[e->key.type],
                     type_names[e->key.out_type], act_names[e->key.act], e->key.n, e->key.k,
                     e->key.bucket, impl_names[e->way.impl], e->us);
        used += n > 0 ? (size_t)n : cap;
        if (used < cap)
            used += format_way(&e->way, out + used, cap - used);
        if (used + 1 < cap)
            out[used] = '\n';
        used++;
    }
    if (used + SUM_BYTES >= cap)
        return 0;
    sum_line(out, used, out + used);
    return used + SUM_BYTES;
}

bool choose_read(struct choose *c, const char *path, char err[CHOOSE_TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    char *text;
    size_t len = 0;
    ssize_t n = 0;

    c->count = 0;
    c->changed = false;
    if (fd < 0)
        return say_errno(err, "could not open", path);
    text = malloc(CHOOSE_FILE_MAX + 1);
    if (text && !fstat(fd, &st) && S_ISREG(st.st_mode))
        while (len <= CHOOSE_FILE_MAX &&
               ((n = read(fd, text + len, CHOOSE_FILE_MAX + 1 - len)) > 0 ||
                (n < 0 && errno == EINTR)))
            len += n > 0 ? (size_t)n : 0;
    else
        n = -1;
    (void)close(fd);
    if (n < 0 || len > CHOOSE_FILE_MAX) {
        free(text);
        return say_about(err, "could not read, or too long:", path);
    }
    bool good = choose_parse(c, text, len, err);
    free(text);
    return good;
}

/* The folders above `path`. */
static bool make_folders(const char *path, char err[CHOOSE_TEXT_MAX])
{
    char folder[CHOOSE_PATH_MAX];
    int n = snprintf(folder, sizeof(folder), "%s", path);

    if (n < 0 || (size_t)n >= sizeof(folder))
        return say_about(err, "the path is too long", path);
    for (char *p = folder + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(folder, 0700) && errno != EEXIST)
            return say_errno(err, "could not make the folder", folder);
        *p = '/';
    }
    return true;
}

static bool write_all(int fd, const char *p, size_t len)
{
    while (len) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool choose_write(struct choose *c, const char *path, char err[CHOOSE_TEXT_MAX])
{
    char temp[CHOOSE_PATH_MAX + 16];
    char *text = malloc(CHOOSE_FILE_MAX + 1);
    size_t len = text ? choose_format(c, text, CHOOSE_FILE_MAX + 1) : 0;
    bool good;
    int fd;

    if (!len || !make_folders(path, err)) {
        free(text);
        return len ? false : say_about(err, "no memory for", path);
    }
    (void)snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
    fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        free(text);
        return say_errno(err, "could not write", temp);
    }
    good = write_all(fd, text, len);
    good = !close(fd) && good && !rename(temp, path);
    free(text);
    if (!good) {
        (void)say_errno(err, "could not write", path);
        (void)unlink(temp);
        return false;
    }
    c->changed = false;
    return true;
}

void choose_merge(struct choose *c, const char *path)
{
    struct choose *other = malloc(sizeof(*other));
    char why[CHOOSE_TEXT_MAX];

    if (!other)
        return;
    choose_init(other, c->stamp);
    if (choose_read(other, path, why) && library_same(&other->lib, &c->lib))
        for (size_t i = 0; i < other->count && c->count < CHOOSE_ENTRIES_MAX; i++)
            if (!choose_find(c, &other->entries[i].key))
                c->entries[c->count++] = other->entries[i];
    free(other);
}

/* ---- choosing ---- */
static void remember_choice(struct choose *c, const struct choose_key *key,
                            const struct choose_way *way, double us)
{
    if (c->count == CHOOSE_ENTRIES_MAX)
        return;
    c->entries[c->count++] =
        (struct choose_entry){ .key = *key, .way = *way, .us = us > US_MAX ? US_MAX : us };
    c->changed = true;
}

bool choose_best(struct choose *c, const struct choose_key *key, const struct choose_ops *ops,
                 struct choose_way *out)
{
    const struct choose_entry *known = choose_find(c, key);
    struct choose_way ways[CHOOSE_WAYS_MAX], best = { 0 }, sure = { 0 };
    double least = -1, surely = -1;
    size_t count;

    if (known) {
        *out = known->way;
        return true;
    }
    memset(ways, 0, sizeof(ways));
    count = ops->ways(ops->arg, key, ways, CHOOSE_WAYS_MAX);
    for (size_t i = 0; i < count && i < CHOOSE_WAYS_MAX; i++) {
        double us = ops->measure(ops->arg, key, &ways[i]);

        if (!isfinite(us) || us < 0)
            continue;
        if (surely < 0) {
            surely = us;
            sure = ways[i];
        }
        if (least < 0 || us < least) {
            least = us;
            best = ways[i];
        }
    }
    if (least < 0)
        return false;
    if (least > surely * (1 - CHOOSE_GAIN)) {
        least = surely;
        best = sure;
    }
    remember_choice(c, key, &best, least);
    *out = best;
    return true;
}

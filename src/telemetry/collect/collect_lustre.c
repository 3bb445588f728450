/* SPDX-License-Identifier: MIT */
/* collect_lustre: a Lustre client's own counters of each mount (llite), and those of its
 * connections to the storage targets (osc), summed for each file system.
 *
 * The files lie in procfs with older clients and in debugfs with newer ones, which only root may
 * read.  They are the client's memory: a dead server does not hold a reader. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LUSTRE_GROUPS_MAX = 48,    /* mounts, and file systems as the sum of their targets */
    LUSTRE_TARGETS_MAX = 2048, /* connections to storage targets */
    LUSTRE_PATH_MAX = 240,
    LUSTRE_TEXT_MAX = 32 << 10 /* bytes of a stats file */
};

static const char *const folders[] = { "/proc/fs/lustre", "/sys/kernel/debug/lustre",
                                       "/sys/fs/lustre" };

/* "NAME  COUNT samples [UNIT] MIN MAX SUM [SUMSQUARES]": what of it goes where. */
struct lustre_row {
    const char *name, *metric, *operation;
    bool sum;
    double scale;
};
static const struct lustre_row mount_rows[] = {
    { "read_bytes", "stoker_lustre_read_bytes_total", NULL, true, 1 },
    { "write_bytes", "stoker_lustre_write_bytes_total", NULL, true, 1 },
    { "read_bytes", "stoker_lustre_read_calls_total", NULL, false, 1 },
    { "write_bytes", "stoker_lustre_write_calls_total", NULL, false, 1 },
    { "open", "stoker_lustre_open_calls_total", NULL, false, 1 },
    { "close", "stoker_lustre_metadata_calls_total", "close", false, 1 },
    { "getattr", "stoker_lustre_metadata_calls_total", "getattr", false, 1 },
    { "setattr", "stoker_lustre_metadata_calls_total", "setattr", false, 1 },
    { "create", "stoker_lustre_metadata_calls_total", "create", false, 1 },
    { "unlink", "stoker_lustre_metadata_calls_total", "unlink", false, 1 },
    { "mkdir", "stoker_lustre_metadata_calls_total", "mkdir", false, 1 },
    { "rename", "stoker_lustre_metadata_calls_total", "rename", false, 1 },
    { "readdir", "stoker_lustre_metadata_calls_total", "readdir", false, 1 },
    { "statfs", "stoker_lustre_metadata_calls_total", "statfs", false, 1 },
    { "lookup", "stoker_lustre_metadata_calls_total", "lookup", false, 1 },
    { "fsync", "stoker_lustre_metadata_calls_total", "fsync", false, 1 },
};
static const struct lustre_row target_rows[] = {
    { "read_bytes", "stoker_lustre_rpc_read_bytes_total", NULL, true, 1 },
    { "write_bytes", "stoker_lustre_rpc_write_bytes_total", NULL, true, 1 },
    { "req_waittime", "stoker_lustre_rpcs_total", NULL, false, 1 },
    { "req_waittime", "stoker_lustre_rpc_wait_seconds_total", NULL, true, 1e-6 },
};
enum { LUSTRE_ROWS = ARRAY_SIZE(mount_rows) };
static_assert(ARRAY_SIZE(target_rows) <= LUSTRE_ROWS, "values of a group");

/* A mount, or all targets of a file system. */
struct lustre_group {
    char fs[COLLECT_NAME_MAX], client[COLLECT_NAME_MAX]; /* client "": targets */
    uint32_t ids[LUSTRE_ROWS], known_id, down_id;
    double v[LUSTRE_ROWS]; /* of one sample; NaN: nothing said */
    double known, down;    /* targets, as of the last look into the folders */
};

struct lustre_place {
    char path[LUSTRE_PATH_MAX];
    size_t group;
};

struct lustre {
    const struct root *root; /* borrowed */
    unsigned source;
    int64_t scan_ns;
    struct lustre_group groups[LUSTRE_GROUPS_MAX];
    struct lustre_place *places;
    size_t group_count, place_count, place_cap;
    char text[LUSTRE_TEXT_MAX];
};

static void *lustre_open(const struct root *root, struct telemetry *t)
{
    struct lustre *l = xcalloc(1, sizeof(*l));

    l->root = root;
    l->source = telemetry_source(t, collect_lustre.name);
    l->scan_ns = INT64_MIN;
    return l;
}

static void lustre_close(void *state)
{
    struct lustre *l = state;

    if (!l)
        return;
    free(l->places);
    free(l);
}

static const struct lustre_row *rows_of(const struct lustre_group *g, size_t *count)
{
    *count = g->client[0] ? ARRAY_SIZE(mount_rows) : ARRAY_SIZE(target_rows);
    return g->client[0] ? mount_rows : target_rows;
}

static void group_ids(struct lustre *l, struct telemetry *t, struct lustre_group *g)
{
    struct telemetry_label labels[3] = { { "fs", g->fs }, { "client", g->client } };
    size_t count, n = g->client[0] ? 2 : 1;
    const struct lustre_row *rows = rows_of(g, &count);

    for (size_t i = 0; i < count; i++) {
        labels[n] = (struct telemetry_label){ "operation", rows[i].operation };
        g->ids[i] =
            collect_id(t, l->source, rows[i].metric, labels, n + (rows[i].operation != NULL));
    }
    g->known_id = g->down_id = TELEMETRY_NONE;
    if (g->client[0])
        return;
    g->known_id = collect_id(t, l->source, "stoker_lustre_targets", labels, 1);
    g->down_id = collect_id(t, l->source, "stoker_lustre_targets_down", labels, 1);
}

/* "scratch-ffff8881" of llite is the mount ffff8881 of scratch; "scratch-OST0003-osc-ffff8881" of
 * osc is one of the targets of scratch.  LUSTRE_GROUPS_MAX: neither, or too many. */
static size_t group_find(struct lustre *l, struct telemetry *t, const char *entry, bool target)
{
    const char *end = target ? strstr(entry, "-OST") : strrchr(entry, '-');
    struct lustre_group g = { 0 };

    if (!end || !scan_copy(g.fs, sizeof(g.fs), entry, (size_t)(end - entry)) ||
        (!target && !scan_copy(g.client, sizeof(g.client), end + 1, strlen(end + 1))))
        return LUSTRE_GROUPS_MAX;
    for (size_t i = 0; i < l->group_count; i++)
        if (str_eq(l->groups[i].fs, g.fs) && str_eq(l->groups[i].client, g.client))
            return i;
    if (l->group_count == LUSTRE_GROUPS_MAX)
        return LUSTRE_GROUPS_MAX;
    group_ids(l, t, &g);
    l->groups[l->group_count] = g;
    return l->group_count++;
}

/* A connection that is neither in use nor idle is down. */
static void state_count(struct lustre *l, const char *path, struct lustre_group *g)
{
    static const char head[] = "current_state:";
    char file[ROOT_PATH_MAX];
    const char *at, *word;
    size_t len;

    snprintf(file, sizeof(file), "%s/state", path);
    if (collect_read(l->root, file, l->text, sizeof(l->text)) <= 0 || !(at = strstr(l->text, head)))
        return;
    at += strlen(head);
    len = scan_word(&at, &word);
    g->known++;
    g->down += !scan_is(word, len, "FULL") && !scan_is(word, len, "IDLE");
}

static void place_add(struct lustre *l, struct telemetry *t, const char *folder, const char *entry,
                      bool target)
{
    struct lustre_place *p;
    size_t group = group_find(l, t, entry, target);

    if (group == LUSTRE_GROUPS_MAX || l->place_count == LUSTRE_TARGETS_MAX)
        return;
    VEC_GROW(l->places, l->place_count, l->place_cap);
    p = &l->places[l->place_count];
    p->group = group;
    if (snprintf(p->path, sizeof(p->path), "%s/%s", folder, entry) >= (int)sizeof(p->path))
        return;
    l->place_count++;
    if (target)
        state_count(l, p->path, &l->groups[group]);
}

/* The same entry may stand in two folders, with other files in each: the first that has any is
 * taken for the counters. */
static void scan_mounts(struct lustre *l, struct telemetry *t)
{
    static const char *const kinds[] = { "llite", "osc" };
    struct arena a = { 0 };
    struct root_names names;
    char path[ROOT_PATH_MAX];

    l->place_count = 0;
    for (size_t i = 0; i < l->group_count; i++)
        l->groups[i].known = l->groups[i].down = 0;
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t f = 0; f < ARRAY_SIZE(folders); f++) {
            bool any = false;

            snprintf(path, sizeof(path), "%s/%s", folders[f], kinds[k]);
            if (collect_list(l->root, &a, path, &names))
                continue;
            for (size_t i = 0; i < names.count && !any; i++) {
                char probe[ROOT_PATH_MAX];

                any = snprintf(probe, sizeof(probe), "%s/%s/stats", path, names.items[i]) <
                          (int)sizeof(probe) &&
                      collect_read(l->root, probe, l->text, sizeof(l->text)) >= 0;
            }
            for (size_t i = 0; i < names.count && any; i++)
                place_add(l, t, path, names.items[i], k == 1);
            if (any)
                break;
        }
    arena_release(&a);
}

static void line_add(struct lustre_group *g, const char *line)
{
    size_t rows_count, len;
    const struct lustre_row *rows = rows_of(g, &rows_count);
    const char *p = line, *word, *unit;
    uint64_t count, low, high, sum = 0;
    bool has_sum;

    len = scan_word(&p, &word);
    if (!len || !scan_u64(&p, &count))
        return;
    (void)scan_word(&p, &unit); /* "samples" */
    (void)scan_word(&p, &unit);
    has_sum = (scan_u64(&p, &low) && scan_u64(&p, &high) && scan_u64(&p, &sum)) || !count;
    for (size_t i = 0; i < rows_count; i++) {
        double v = (double)(rows[i].sum ? sum : count) * rows[i].scale;

        if (scan_is(word, len, rows[i].name) && (has_sum || !rows[i].sum))
            g->v[i] = isnan(g->v[i]) ? v : g->v[i] + v;
    }
}

static void place_sample(struct lustre *l, const struct lustre_place *p)
{
    char file[ROOT_PATH_MAX];

    snprintf(file, sizeof(file), "%s/stats", p->path);
    if (collect_read(l->root, file, l->text, sizeof(l->text)) <= 0)
        return;
    for (const char *line = l->text; *line; line = scan_line(line))
        line_add(&l->groups[p->group], line);
}

static void group_set(struct telemetry *t, const struct lustre_group *g)
{
    size_t count;

    (void)rows_of(g, &count);
    for (size_t i = 0; i < count; i++)
        telemetry_set(t, g->ids[i], g->v[i]);
    if (g->known > 0) {
        telemetry_set(t, g->known_id, g->known);
        telemetry_set(t, g->down_id, g->down);
    }
}

static void lustre_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct lustre *l = state;

    if (l->scan_ns == INT64_MIN || now_ns < l->scan_ns ||
        now_ns - l->scan_ns >= COLLECT_RESCAN_MS * INT64_C(1000000)) {
        scan_mounts(l, t);
        l->scan_ns = now_ns;
    }
    for (size_t i = 0; i < l->group_count; i++)
        for (size_t k = 0; k < LUSTRE_ROWS; k++)
            l->groups[i].v[k] = (double)NAN;
    for (size_t i = 0; i < l->place_count; i++)
        place_sample(l, &l->places[i]);
    telemetry_begin(t, l->source, now_ns);
    for (size_t i = 0; i < l->group_count; i++)
        group_set(t, &l->groups[i]);
    telemetry_end(t);
}

const struct collector collect_lustre = { .name = "lustre",
                                          .period_ms = 5000,
                                          .open = lustre_open,
                                          .sample = lustre_sample,
                                          .close = lustre_close };

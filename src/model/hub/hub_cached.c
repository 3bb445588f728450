/* SPDX-License-Identifier: MIT */
/* hub_cached: what lies in the Hub's cache, for `stoker model list`.
 *
 * Others write there too, at the same time and in their own way, so nothing is taken for granted: a
 * snapshot is whole when it has configuration and weights, every link of it leads to a file and no
 * shard of weights is missing. */
#include "base/mem.h"
#include "base/str.h"
#include "model/hub/hub_int.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { CACHED_DEPTH_MAX = 4, CACHED_FILES_MAX = 4096 };

struct cache_tally {
    uint64_t bytes;
    size_t files, shards, shards_want;
    bool broken; /* a link that leads nowhere */
};

static int is_shown(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int is_repo(const struct dirent *e)
{
    return str_starts(e->d_name, "models--");
}

/* "model-00002-of-00005.safetensors" */
static void count_shard(const char *name, struct cache_tally *t)
{
    const char *of = strstr(name, "-of-");
    size_t want = of ? (size_t)strtoul(of + 4, NULL, 10) : 0;

    if (!want || !(str_ends(name, ".safetensors") || str_ends(name, ".bin")))
        return;
    t->shards++;
    t->shards_want = want > t->shards_want ? want : t->shards_want;
}

static void add_folder(const char *dir, int depth, struct cache_tally *t)
{
    struct dirent **names = NULL;
    int n = depth < CACHED_DEPTH_MAX ? scandir(dir, &names, is_shown, alphasort) : 0;

    for (int i = 0; i < n; i++) {
        char path[FILE_PATH_MAX];
        struct stat st;

        if (t->files++ < CACHED_FILES_MAX &&
            !file_join(path, sizeof(path), dir, names[i]->d_name, NULL)) {
            if (stat(path, &st)) {
                t->broken = true;
            } else if (S_ISDIR(st.st_mode)) {
                add_folder(path, depth + 1, t);
            } else {
                t->bytes += (uint64_t)st.st_size;
                count_shard(names[i]->d_name, t);
            }
        }
        free(names[i]);
    }
    free(names);
}

/* The first ref that leads to the commit; main before others. */
static void find_ref(const struct hub_cache *c, const char *commit, char *out, size_t cap)
{
    char refs[FILE_PATH_MAX], seen[41];
    struct dirent **names = NULL;
    int n;

    out[0] = '\0';
    if (!hub_ref_read(c, "main", seen, NULL) && str_eq(seen, commit)) {
        (void)str_copy(out, cap, "main");
        return;
    }
    if (file_join(refs, sizeof(refs), c->repo, "refs", NULL))
        return;
    n = scandir(refs, &names, is_shown, alphasort);
    for (int i = 0; i < n; i++) {
        if (!out[0] && hub_revision_ok(names[i]->d_name) &&
            !hub_ref_read(c, names[i]->d_name, seen, NULL) && str_eq(seen, commit))
            (void)str_copy(out, cap, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

static size_t list_repo(const struct hub_name *name, struct hub_listed *out, size_t max)
{
    struct hub_cache c;
    char place[FILE_PATH_MAX];
    struct dirent **commits = NULL;
    size_t count = 0;
    int n;

    if (!max || hub_cache_of(name, &c, NULL) ||
        file_join(place, sizeof(place), c.repo, "snapshots", NULL))
        return 0;
    n = scandir(place, &commits, is_shown, alphasort);
    for (int i = 0; i < n; i++) {
        struct hub_listed *l = &out[count];
        struct cache_tally t = { 0 };

        if (count < max && hub_commit_ok(commits[i]->d_name) &&
            !file_join(l->dir, sizeof(l->dir), place, commits[i]->d_name, NULL)) {
            add_folder(l->dir, 0, &t);
            (void)str_copy(l->repo, sizeof(l->repo), name->repo);
            (void)str_copy(l->commit, sizeof(l->commit), commits[i]->d_name);
            find_ref(&c, l->commit, l->revision, sizeof(l->revision));
            l->bytes = t.bytes;
            l->whole = hub_is_whole(l->dir) && !t.broken && t.shards >= t.shards_want;
            count++;
        }
        free(commits[i]);
    }
    free(commits);
    if (!count && !file_join(place, sizeof(place), c.repo, "blobs", NULL)) {
        struct cache_tally t = { 0 };

        add_folder(place, 0, &t);
        *out = (struct hub_listed){ .bytes = t.bytes };
        (void)str_copy(out->repo, sizeof(out->repo), name->repo);
        (void)str_copy(out->dir, sizeof(out->dir), c.repo);
        count = t.files ? 1 : 0;
    }
    return count;
}

enum rc hub_list(struct hub_listed *out, size_t max, size_t *out_count, struct err *err)
{
    char home[FILE_PATH_MAX];
    struct dirent **repos = NULL;
    enum rc rc = hub_cache_home(home, sizeof(home), err);
    int n = rc ? 0 : scandir(home, &repos, is_repo, alphasort);

    *out_count = 0;
    for (int i = 0; i < n; i++) {
        char text[2 * HUB_NAME_MAX];
        struct hub_name name;
        char *cut;

        if (str_copy(text, sizeof(text), repos[i]->d_name + strlen("models--")) &&
            (cut = strstr(text, "--")) != NULL) {
            *cut = '/';
            memmove(cut + 1, cut + 2, strlen(cut + 2) + 1);
            if (hub_name_parse(text, &name))
                *out_count += list_repo(&name, out + *out_count, max - *out_count);
        }
        free(repos[i]);
    }
    free(repos);
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* check_writes: what a program or a daemon is to write to must not lie on storage that nobody may
 * write to.  Of a component its mounts count, the innermost first; where it sees the machine's own
 * folders, or a daemon does, so do storages by their path there.
 *
 * A run that cannot save would tell so after hours of GPUs. */
#include "base/str.h"
#include "spec/check/check_int.h"

struct write_place { /* where a path lies; `storage` NULL: on nothing that the spec has */
    const struct spec_storage *storage;
    const bool *read_only; /* why it cannot be written; NULL: it can */
    size_t depth;          /* bytes of the folder it was found by */
};

static void mount_find(const struct spec *s, const struct spec_component *k, const char *path,
                       struct write_place *at)
{
    for (size_t i = 0; i < k->mount_count; i++) {
        const struct spec_mount *m = &k->mounts[i];
        const struct spec_storage *x = spec_storage_find(s, m->storage);
        size_t depth = strlen(m->path);

        if (!x || !str_path_below(path, m->path) || (at->storage && depth <= at->depth))
            continue;
        *at = (struct write_place){ .storage = x, .depth = depth };
        at->read_only = m->read_only ? &m->read_only : x->read_only ? &x->read_only : NULL;
    }
}

static void folder_find(const struct spec *s, const char *path, struct write_place *at)
{
    for (size_t i = 0; i < s->storage_count; i++) {
        const struct spec_storage *x = &s->storage[i];
        size_t depth = x->path ? strlen(x->path) : 0;

        if (!x->path || !str_path_below(path, x->path) || (at->storage && depth <= at->depth))
            continue;
        *at = (struct write_place){ .storage = x, .depth = depth };
        at->read_only = x->read_only ? &x->read_only : NULL;
    }
}

static void write_judge(struct check *c, const void *member, const struct write_place *at,
                        const char *what, const char *whose)
{
    char words[SPEC_LINE_WORDS_MAX], hint[SPEC_LINE_WORDS_MAX + 64];

    if (!at->read_only)
        return;
    (void)snprintf(hint, sizeof(hint), "%s says 'read_only: true'.",
                   spec_line_words(c->s, at->read_only, words));
    hint[0] = (char)(hint[0] >= 'a' && hint[0] <= 'z' ? hint[0] - 'a' + 'A' : hint[0]);
    check_fault(c, member, hint, "%s%s cannot be written: '%s' is read-only there", what, whose,
                at->storage->name);
}

/* Does it see only what is mounted into its container? */
static bool in_container(const struct spec_component *k)
{
    return k->target == SPEC_TARGET_KUBERNETES || k->target == SPEC_TARGET_OPENSHIFT ||
           k->target == SPEC_TARGET_COMPOSE || (k->target == SPEC_TARGET_SLURM && k->image);
}

static void checkpoint_check(struct check *c, const struct spec_component *k)
{
    const char *const *path = &k->training->checkpoint.path;
    struct write_place at = { 0 };
    char whose[SPEC_NAME_MAX + 16];

    if (!*path)
        return;
    mount_find(c->s, k, *path, &at);
    if (!in_container(k))
        folder_find(c->s, *path, &at);
    (void)snprintf(whose, sizeof(whose), " of '%s'", k->name);
    write_judge(c, path, &at, "checkpoints", whose);
}

static void folder_check(struct check *c, const char *const *path, const char *what)
{
    struct write_place at = { 0 };

    if (!*path)
        return;
    folder_find(c->s, *path, &at);
    write_judge(c, path, &at, what, "");
}

void check_writes(struct check *c)
{
    const struct spec *s = c->s;

    for (size_t i = 0; i < s->component_count; i++)
        if (s->components[i].training)
            checkpoint_check(c, &s->components[i]);
    folder_check(c, &s->serve.batch_dir, "files and batches of the model server");
    if (s->targets.slurm) {
        folder_check(c, &s->targets.slurm->state_dir, "the state of slurmctld");
        folder_check(c, &s->targets.slurm->log_dir, "logs of Slurm");
    }
    if (s->targets.systemd) {
        folder_check(c, &s->targets.systemd->state_dir, "the state of the units");
        folder_check(c, &s->targets.systemd->log_dir, "logs of the units");
    }
}

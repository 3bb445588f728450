/* SPDX-License-Identifier: MIT */
/* systemd_mounts: file systems of the network that a unit needs.
 *
 * Without its file system a program finds its models gone, or writes into the empty folder below
 * the mount, on the root disk, where the mount hides it later: order alone does not keep it from
 * starting when the mount has failed.  A unit requires the mount of every storage of that kind
 * which it opens a path on: mounts, models, folders it writes to, tokens, the program itself. */
#include "base/mem.h"
#include "base/str.h"
#include "render/systemd/systemd_int.h"

struct needs {
    struct systemd_unit *u;
    bool *told; /* of each storage */
};

const struct spec_storage *systemd_share_of(const struct spec *s, const char *path)
{
    const struct spec_storage *found = NULL;

    for (size_t i = 0; path && *path == '/' && i < s->storage_count; i++) {
        const struct spec_storage *x = &s->storage[i];

        if (x->path && str_path_below(path, x->path) &&
            (!found || strlen(x->path) > strlen(found->path)))
            found = x;
    }
    return found && spec_storage_is_shared_fs(found->kind) ? found : NULL;
}

static void mount_line(struct systemd_unit *u, const char *path, const void *member)
{
    struct buf word = { 0 };

    unit_list_word(&word, path);
    unit_line(u, member, "RequiresMountsFor=%s", buf_str(&word));
    buf_release(&word);
}

static void share_need(struct needs *n, const struct spec_storage *s, const char *path,
                       const void *member)
{
    bool *told = &n->told[s - n->u->r->spec->storage];

    if (!*told)
        mount_line(n->u, path, member);
    *told = true;
}

static void path_need(struct needs *n, const char *path, const void *member)
{
    const struct spec_storage *s = systemd_share_of(n->u->r->spec, path);

    if (s)
        share_need(n, s, s->path, member);
}

static struct needs needs_open(struct systemd_unit *u)
{
    return (struct needs){ .u = u, .told = xcalloc(u->r->spec->storage_count + 1, sizeof(bool)) };
}

static void needs_close(struct needs *n)
{
    free(n->told);
}

/* Of a model server: the machine's own (`run` NULL), or a component's. */
static void server_needs(struct needs *n, const struct host_run *run)
{
    const struct spec *s = n->u->r->spec;
    const struct spec_serve *v = &s->serve;
    const char *const *const files[] = { &v->token_file, &v->admin_token_file, &v->tls_cert,
                                         &v->tls_key, &v->batch_dir };

    for (size_t i = 0; i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];

        if (run ? host_model_of(m, run) : host_models_own(s, n->u->plan, m))
            path_need(n, m->source, &m->source);
    }
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        path_need(n, *files[i], files[i]);
}

static void folder_needs(struct needs *n)
{
    const struct spec_systemd *t = n->u->r->targets->systemd;

    path_need(n, t->state_dir, &t->state_dir);
    path_need(n, t->log_dir, &t->log_dir);
}

void unit_needs_own(struct systemd_unit *u, bool agent, bool server)
{
    const struct spec_agent *a = &u->r->spec->agent;
    const char *const *const files[] = { &a->token_file, &a->admin_token_file, &a->tls_cert,
                                         &a->tls_key };
    struct needs n = needs_open(u);

    folder_needs(&n);
    for (size_t i = 0; agent && i < ARRAY_SIZE(files); i++)
        path_need(&n, *files[i], files[i]);
    if (server)
        server_needs(&n, NULL);
    needs_close(&n);
}

void unit_needs_component(struct systemd_unit *u, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    struct needs n = needs_open(u);

    for (size_t i = 0; i < c->mount_count; i++) {
        const struct spec_storage *s = spec_storage_find(u->r->spec, c->mounts[i].storage);

        if (spec_storage_is_shared_fs(s->kind))
            share_need(&n, s, s->path ? s->path : c->mounts[i].path, &c->mounts[i].path);
    }
    if (c->training && c->training->checkpoint.path)
        mount_line(u, c->training->checkpoint.path, &c->training->checkpoint.path);
    path_need(&n, c->workdir, &c->workdir);
    if (c->command.count)
        path_need(&n, c->command.items[0], &c->command);
    folder_needs(&n);
    if (host_is_server(c))
        server_needs(&n, run);
    needs_close(&n);
}

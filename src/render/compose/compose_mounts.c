/* SPDX-License-Identifier: MIT */
/* compose_mounts: storage of the spec as mounts of a service, and the volumes and secrets that the
 * file declares for them.
 *
 * What the machine mounts already (local, Lustre, NFS with a path) is bound from there, and must be
 * there: compose does not make a folder in its place.  NFS without a path and claims are volumes of
 * the file; memory is a tmpfs; an object store is no file system and is refused. */
#include "base/str.h"
#include "render/compose/compose_int.h"

#include <inttypes.h>

static void put_bind(struct compose *k, const char *source, const char *target, bool ro,
                     const void *member)
{
    struct yaml_out *y = &k->y;

    yaml_map(y, NULL);
    yaml_str(y, "type", "bind");
    compose_str(k, "source", source, NULL);
    compose_str(k, "target", target, member);
    if (ro)
        yaml_bool(y, "read_only", true);
    yaml_map(y, "bind");
    yaml_bool(y, "create_host_path", false);
    yaml_ends(y, 2);
}

/* A storage's name has no '.', so that names made up here never meet one. */
static const char *volume_name(struct compose *k, const struct spec_storage *s,
                               const struct host_run *run)
{
    if (s->per_replica)
        return arena_printf(&k->arena, "%s.%s", s->name, run->name);
    return s->name;
}

const char *compose_batch_dir(struct compose *k, const struct host_run *run)
{
    return arena_printf(&k->arena, "%s/%s", k->r->spec->serve.batch_dir, run->name);
}

const char *compose_folder_owner(struct compose *k, const char *user)
{
    const char *colon = user ? strchr(user, ':') : NULL;
    size_t len = user ? strcspn(user, ":") : 0;

    if (!len || strspn(user, "0123456789") != len)
        return "";
    if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
        return arena_printf(&k->arena, " -o %.*s", (int)len, user);
    return arena_printf(&k->arena, " -o %.*s -g %s", (int)len, user, colon + 1);
}

static void put_volume(struct compose *k, const struct spec_storage *s, const struct spec_mount *m,
                       const struct host_run *run)
{
    struct yaml_out *y = &k->y;

    yaml_map(y, NULL);
    yaml_str(y, "type", "volume");
    yaml_str(y, "source", volume_name(k, s, run));
    compose_str(k, "target", m->path, &m->path);
    if (m->read_only || s->read_only)
        yaml_bool(y, "read_only", true);
    if (m->subpath) {
        if (!run->replica) {
            /* Volumes of all replicas are made with the first one's warning. */
            const struct spec_component *c = run->c;
            const char *owner = compose_folder_owner(k, c->user), *then = "", *loop = "",
                       *done = "";
            const char *name = volume_name(k, s, run);
            bool several = s->per_replica && c->replicas > 1;

            if (c->user && !owner[0] && !str_eq(c->user, "root"))
                then = arena_printf(&k->arena, ", and give it to the '%s' of its image", c->user);
            if (several) {
                name = arena_printf(&k->arena, "%s.%s-$i", s->name, c->name);
                loop = arena_printf(&k->arena, "for i in $(seq %" PRId64 "); do ", c->replicas);
                done = "; done";
            }
            render_warn(
                k->r, &m->subpath,
                arena_printf(&k->arena,
                             "Make it once: %sdocker run --rm -v %s_%s:/v debian install -d%s "
                             "'/v/%s'%s%s; or take a storage of its own.",
                             loop, k->r->targets->compose->project, name, owner, m->subpath, done,
                             then),
                "docker makes no folder in a volume: '%s' of '%s' has to be there before "
                "'%s' starts",
                m->subpath, s->name, c->name);
        }
        yaml_map(y, "volume");
        compose_str(k, "subpath", m->subpath, &m->subpath);
        yaml_end(y);
    }
    yaml_end(y);
}

static void put_memory(struct compose *k, const struct spec_storage *s, const struct spec_mount *m)
{
    struct yaml_out *y = &k->y;

    yaml_map(y, NULL);
    yaml_str(y, "type", "tmpfs");
    compose_str(k, "target", m->path, &m->path);
    if (s->size_bytes.known) {
        yaml_map(y, "tmpfs");
        render_int(k->r, y, "size", s->size_bytes.v, &s->size_bytes);
        yaml_end(y);
    }
    yaml_end(y);
}

static bool is_volume(const struct spec_storage *s)
{
    return s->kind == SPEC_STORAGE_VOLUME || (s->kind == SPEC_STORAGE_NFS && !s->path);
}

static void put_mount(struct compose *k, const struct host_run *run, const struct spec_mount *m)
{
    const struct spec_storage *s = spec_storage_find(k->r->spec, m->storage);

    if (is_volume(s)) {
        put_volume(k, s, m, run);
    } else if (s->kind == SPEC_STORAGE_MEMORY) {
        if (!str_eq(m->path, "/dev/shm")) /* that one is shm_size */
            put_memory(k, s, m);
    } else if (s->kind == SPEC_STORAGE_OBJECT) {
        render_refuse(k->r, &m->storage, "Let the component ask the store by its address.",
                      "storage '%s' is an object store, which compose cannot mount", s->name);
    } else if (!s->path) {
        render_refuse(k->r, &m->storage, "Say where the machine mounts it: path: /srv/data.",
                      "storage '%s' has no path on the machine", s->name);
    } else {
        const char *from =
            m->subpath ? arena_printf(&k->arena, "%s/%s", s->path, m->subpath) : s->path;

        /* The folder that a file system is mounted on is there without it, and on the root disk; a
         * folder in the file system is not, so that docker does not start what binds it. */
        if (!run->replica && !m->subpath && !m->read_only && !s->read_only &&
            spec_storage_is_shared_fs(s->kind)) {
            render_warn(
                k->r, &m->path,
                arena_printf(&k->arena,
                             "Give it a 'subpath', a folder that is not there without the mount; "
                             "or docker.service a drop-in with RequiresMountsFor=%s.",
                             s->path),
                "while '%s' is not mounted, '%s' writes into the folder below it, on the root disk",
                s->path, run->c->name);
        }
        put_bind(k, from, m->path, m->read_only || s->read_only, &m->path);
    }
}

/* Is the path in what the component mounts already? */
static bool path_covered(const struct spec_component *c, const char *path)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        size_t len = strlen(c->mounts[i].path);

        if (str_starts(path, c->mounts[i].path) && (path[len] == '/' || !path[len]))
            return true;
    }
    return false;
}

/* Its spec and its certificate. */
static void server_files(struct compose *k, const struct host_run *run)
{
    const struct spec_serve *v = &k->r->spec->serve;

    put_bind(k, arena_printf(&k->arena, "./serve/%s.yaml", run->c->name), "/etc/stoker/stoker.yaml",
             true, NULL);
    if (v->tls_cert)
        put_bind(k, v->tls_cert, v->tls_cert, true, &v->tls_cert);
    if (v->tls_key)
        put_bind(k, v->tls_key, v->tls_key, true, &v->tls_key);
    if (v->admin_token_file)
        put_bind(k, v->admin_token_file, v->admin_token_file, true, &v->admin_token_file);
    if (v->batch_dir) { /* their spec has one folder for all, and a folder has one server */
        char dir[HOST_BATCH_DIR_MAX];

        host_batch_dir(v, run, dir, sizeof(dir));
        put_bind(k, compose_batch_dir(k, run), arena_strdup(&k->arena, dir), false, &v->batch_dir);
    }
}

/* Folders of its models, to be read. */
static void put_models(struct compose *k, const struct host_run *run)
{
    const struct spec *s = k->r->spec;
    bool by_name = false;

    for (size_t i = 0; i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];

        if (!host_model_of(m, run))
            continue;
        if (spec_model_is_fetched(m))
            by_name = true;
        else if (!path_covered(run->c, m->source))
            put_bind(k, m->source, m->source, true, &m->source);
    }
    if (by_name) {
        yaml_comment(&k->y, "models of the hub, which models.sh fetches");
        put_bind(k, HOST_MODELS_DIR, HOST_MODELS_DIR, true, NULL);
    }
}

void compose_mounts(struct compose *k, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    if (c->mount_count || host_is_server(c) || compose_is_client(k, run)) {
        yaml_seq(&k->y, "volumes");
        if (compose_is_client(k, run)) {
            yaml_map(&k->y, NULL);
            yaml_str(&k->y, "type", "volume");
            yaml_str(&k->y, "source", "mps.pipe");
            compose_str(k, "target", k->r->targets->compose->mps_dir,
                        &k->r->targets->compose->mps_dir);
            yaml_end(&k->y);
        }
        for (size_t i = 0; i < c->mount_count; i++)
            put_mount(k, run, &c->mounts[i]);
        if (host_is_server(c)) {
            server_files(k, run);
            put_models(k, run);
        }
        yaml_end(&k->y);
    }
    if (host_is_server(c) && k->r->spec->serve.token_file)
        yaml_seq_of(&k->y, "secrets", "token");
}

/* ---- what the file declares ---- */

/* "server:/export" as options of docker's local driver. */
static void put_nfs(struct compose *k, const struct spec_storage *s)
{
    const char *colon = s->source ? strchr(s->source, ':') : NULL;
    struct yaml_out *y = &k->y;

    if (!colon || colon[1] != '/') {
        render_refuse(k->r, s->source ? (const void *)&s->source : s,
                      "Write it as source: server:/export.",
                      "storage '%s' has no NFS server and export", s->name);
        return;
    }
    yaml_str(y, "driver", "local");
    yaml_map(y, "driver_opts");
    yaml_str(y, "type", "nfs");
    compose_str(k, "o",
                arena_printf(&k->arena, "addr=%.*s,nfsvers=4,%s", (int)(colon - s->source),
                             s->source, s->read_only ? "ro" : "rw"),
                &s->source);
    compose_str(k, "device", colon, &s->source);
    yaml_end(y);
}

static bool declared_before(struct compose *k, size_t run, size_t mount, const char *name)
{
    for (size_t i = 0; i <= run; i++) {
        const struct host_run *r = &k->plan->runs[i];

        for (size_t m = 0; m < (i == run ? mount : r->c->mount_count); m++) {
            const struct spec_storage *s = spec_storage_find(k->r->spec, r->c->mounts[m].storage);

            if (is_volume(s) && str_eq(volume_name(k, s, r), name))
                return true;
        }
    }
    return false;
}

static void declare_mount(struct compose *k, size_t run, size_t mount)
{
    const struct host_run *r = &k->plan->runs[run];
    const struct spec_storage *s = spec_storage_find(k->r->spec, r->c->mounts[mount].storage);
    const char *name = volume_name(k, s, r);

    if (!is_volume(s) || declared_before(k, run, mount, name))
        return;
    yaml_note(&k->y, render_from(k->r, s));
    yaml_map(&k->y, name);
    if (s->kind == SPEC_STORAGE_NFS)
        put_nfs(k, s);
    yaml_end(&k->y);
}

void compose_volumes(struct compose *k)
{
    const struct spec_serve *v = &k->r->spec->serve;
    bool servers = false;

    yaml_map(&k->y, "volumes");
    if (k->mps) {
        yaml_map(&k->y, "mps.pipe");
        yaml_end(&k->y);
        yaml_map(&k->y, "mps.log");
        yaml_end(&k->y);
    }
    for (size_t i = 0; i < k->plan->count; i++) {
        servers = servers || host_is_server(k->plan->runs[i].c);
        for (size_t m = 0; m < k->plan->runs[i].c->mount_count; m++)
            declare_mount(k, i, m);
    }
    yaml_end(&k->y);
    if (!servers || !v->token_file)
        return;
    yaml_open(&k->y, "secrets.token");
    compose_str(k, "file", v->token_file, &v->token_file);
    yaml_ends(&k->y, 2);
}

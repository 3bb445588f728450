/* SPDX-License-Identifier: MIT */
/* k8s_volume: storage of the spec as claims and mounts.
 *
 *   kind     becomes                                       seen by the pod as
 *   volume   PersistentVolumeClaim, or one of each replica claim
 *   nfs      PersistentVolume (nfs; without a source of    claim
 *            the machines' mount) and its claim
 *   lustre   PersistentVolume of the machines' mount       claim
 *   local    PersistentVolume of a folder of each machine  claim
 *   memory   nothing                                       emptyDir in memory
 *   object   nothing: programs read it themselves          refused as a mount
 *
 * Pods never name a path of the machine: the administrator's PersistentVolume does, so that a
 * namespace can hold its pods to the "restricted" standard, which forbids hostPath. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/k8s/k8s_int.h"

bool k8s_per_replica(const struct spec_storage *s)
{
    return s->kind == SPEC_STORAGE_VOLUME && s->per_replica;
}

bool k8s_uses_storage(const struct k8s *k, const struct spec_component *c,
                      const struct spec_storage *s)
{
    for (size_t i = 0; i < c->mount_count; i++)
        if (str_eq(c->mounts[i].storage, s->name))
            return true;
    return k8s_serves_from(k, c, s);
}

/* Is it attached to one machine at a time?  Paths of machines and NFS are not attached at all. */
static bool at_one(const struct spec_storage *s)
{
    return s && s->access == SPEC_MODE_RWO && !s->per_replica && !k8s_static_volume(s) &&
           s->kind != SPEC_STORAGE_MEMORY && s->kind != SPEC_STORAGE_OBJECT;
}

static int64_t machines_of(struct k8s *k, const struct spec_component *c)
{
    const struct spec *s = k->r->spec;
    const struct spec_node **groups =
        arena_array(&k->arena, const struct spec_node *, s->node_count + 1);
    size_t count = feasible_groups(s, c, groups);
    int64_t machines = 0;

    for (size_t i = 0; i < count; i++)
        machines += groups[i]->count;
    return machines;
}

bool k8s_held_at_one(struct k8s *k, const struct spec_component *c)
{
    for (size_t i = 0; i < c->mount_count; i++)
        if (at_one(spec_storage_find(k->r->spec, c->mounts[i].storage)))
            return machines_of(k, c) > 1;
    return false;
}

/* Another component before it that mounts the storage, where the two may be on two machines. */
static const struct spec_component *volume_holder(struct k8s *k, const struct spec_component *c,
                                                  const struct spec_storage *s)
{
    const struct spec *spec = k->r->spec;
    const struct spec_node **mine = arena_array(&k->arena, const struct spec_node *,
                                                2 * spec->node_count + 2),
                           **its = mine + spec->node_count + 1;

    for (const struct spec_component *o = spec->components; o < c; o++) {
        bool mounts = false;

        for (size_t i = 0; i < o->mount_count; i++)
            mounts = mounts || str_eq(o->mounts[i].storage, s->name);
        if (!mounts || o->target != c->target)
            continue;
        if (machines_of(k, c) > 1 || machines_of(k, o) > 1)
            return o;
        if (feasible_groups(spec, c, mine) && feasible_groups(spec, o, its) && *mine != *its)
            return o;
    }
    return NULL;
}

void k8s_mounts_check(struct k8s *k, const struct spec_component *c)
{
    int64_t pods = c->nodes_per_replica * c->replicas;

    if (c->scale && c->scale->max * c->nodes_per_replica > pods)
        pods = c->scale->max * c->nodes_per_replica;
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct spec_storage *s = spec_storage_find(k->r->spec, c->mounts[i].storage);
        const struct spec_component *o = at_one(s) ? volume_holder(k, c, s) : NULL;

        if (at_one(s) && pods > 1 && machines_of(k, c) > 1)
            render_warn(k->r, &c->mounts[i].storage,
                        "Set 'access: ReadWriteMany' where its class has it, or 'per_replica: "
                        "true' for a volume of each pod.",
                        "'%s' is at one machine at a time (ReadWriteOnce): pods of '%s' on others "
                        "never start",
                        s->name, c->name);
        else if (o)
            render_warn(k->r, &c->mounts[i].storage,
                        "Set 'access: ReadWriteMany' where its class has it, or put both on a "
                        "group of one machine.",
                        "'%s' is at one machine at a time (ReadWriteOnce): '%s' never starts on "
                        "another than '%s'",
                        s->name, c->name, o->name);
    }
}

const char *k8s_claim_name(struct k8s *k, const struct spec_storage *s)
{
    return k8s_name(k, s->name, "");
}

static const char *const MODES[] = { [SPEC_MODE_RWO] = "ReadWriteOnce",
                                     [SPEC_MODE_RWX] = "ReadWriteMany",
                                     [SPEC_MODE_ROX] = "ReadOnlyMany" };

static void k8s_storage_modes(struct k8s *k, struct yaml_out *y, const struct spec_storage *s)
{
    yaml_seq(y, "accessModes");
    render_str(k->r, y, NULL, MODES[s->access], &s->access);
    yaml_end(y);
}

/* "accessModes:" and "storage:", a size that must be known. */
static void k8s_storage_size(struct k8s *k, struct yaml_out *y, const struct spec_storage *s)
{
    char size[32];

    if (!s->size_bytes.known) {
        render_refuse(k->r, &s->name, "Give it a size.",
                      "a claim must ask for a size, and storage '%s' has none", s->name);
        return;
    }
    k8s_quantity(size, sizeof(size), s->size_bytes.v);
    render_str(k->r, y, "storage", size, &s->size_bytes);
}

static bool by_hand(const struct spec_storage *s) /* bound to a PersistentVolume that we write */
{
    if (s->kind == SPEC_STORAGE_NFS)
        return s->source || (s->path && !s->storage_class);
    if (s->kind == SPEC_STORAGE_LOCAL || s->kind == SPEC_STORAGE_LUSTRE)
        return true;
    /* gpfs, weka, beegfs, ceph: by their CSI driver where the spec names its class, else by the
     * path at which the machines have mounted it */
    return spec_storage_is_shared_fs(s->kind) && !s->storage_class;
}

bool k8s_static_volume(const struct spec_storage *s)
{
    return by_hand(s);
}

static const char *k8s_volume_name(struct k8s *k, const struct spec_storage *s)
{
    return arena_printf(&k->arena, "%s-%s", k->namespace, k8s_name(k, s->name, ""));
}

void k8s_claim_spec(struct k8s *k, struct yaml_out *y, const struct spec_storage *s)
{
    k8s_storage_modes(k, y, s);
    if (by_hand(s)) {
        yaml_note(y, "none: bound to the volume below by name");
        yaml_str(y, "storageClassName", "");
        yaml_str(y, "volumeName", k8s_volume_name(k, s));
    } else if (s->storage_class) {
        render_str(k->r, y, "storageClassName", s->storage_class, &s->storage_class);
    } else if (k->storage_class) {
        render_str(k->r, y, "storageClassName", k->storage_class, k->storage_class_at);
    }
    yaml_open(y, "resources.requests");
    k8s_storage_size(k, y, s);
    yaml_ends(y, 2);
}

void k8s_claim_templates(struct k8s *k, struct yaml_out *y, const struct spec_component *c)
{
    bool open = false;

    for (size_t i = 0; i < c->mount_count; i++) {
        const struct spec_storage *s = spec_storage_find(k->r->spec, c->mounts[i].storage);
        bool before = false;

        for (size_t j = 0; j < i; j++)
            before = before || str_eq(c->mounts[j].storage, c->mounts[i].storage);
        if (!s || before || !k8s_per_replica(s))
            continue;
        if (!open)
            yaml_seq(y, "volumeClaimTemplates");
        open = true;
        yaml_map(y, NULL);
        yaml_str(y, "apiVersion", "v1");
        yaml_str(y, "kind", "PersistentVolumeClaim");
        yaml_map(y, "metadata");
        yaml_str(y, "name", k8s_claim_name(k, s));
        k8s_match(k, y, "labels", k8s_name(k, c->name, ""));
        yaml_end(y);
        yaml_map(y, "spec");
        k8s_claim_spec(k, y, s);
        yaml_ends(y, 2);
    }
    if (open)
        yaml_end(y);
}

/* "nfs.example.org:/export/home" in two; false: it is not that. */
static bool nfs_split(struct k8s *k, const char *source, const char **server, const char **path)
{
    const char *colon = strstr(source, ":/");

    if (!colon || colon == source)
        return false;
    *server = arena_strndup(&k->arena, source, (size_t)(colon - source));
    *path = colon + 1;
    return true;
}

static void volume_source(struct k8s *k, struct yaml_out *y, const struct spec_storage *s)
{
    const char *server, *path;

    if (s->kind == SPEC_STORAGE_NFS && s->source) {
        if (!nfs_split(k, s->source, &server, &path)) {
            render_refuse(k->r, &s->source, "Write it as server:/export.", "'%s' is no NFS export",
                          s->source);
            return;
        }
        yaml_note(y, render_from(k->r, &s->source));
        yaml_map(y, "nfs");
        yaml_str(y, "server", server);
        yaml_str(y, "path", path);
        yaml_bool(y, "readOnly", s->read_only);
        yaml_end(y);
        return;
    }
    if (!s->path) {
        render_refuse(k->r, &s->name, "Give it a path.",
                      "storage '%s' names no path of the machines to mount", s->name);
        return;
    }
    yaml_map(y, "hostPath");
    render_str(k->r, y, "path", s->path, &s->path);
    yaml_note(y, "a pod waits, and says so, where the folder is missing");
    yaml_str(y, "type", "Directory");
    yaml_end(y);
}

void k8s_static_volume_write(struct k8s *k, struct buf *out, const struct spec_storage *s)
{
    struct yaml_out y;

    k8s_object_in(k, &y, out, "v1", "PersistentVolume", NULL, k8s_volume_name(k, s), NULL);
    yaml_open(&y, "spec.capacity");
    k8s_storage_size(k, &y, s);
    yaml_end(&y);
    k8s_storage_modes(k, &y, s);
    yaml_str(&y, "storageClassName", "");
    yaml_note(&y, "data outlives the claim");
    yaml_str(&y, "persistentVolumeReclaimPolicy", "Retain");
    yaml_map_of(&y, "claimRef", "namespace", k->namespace, "name", k8s_claim_name(k, s));
    volume_source(k, &y, s);
    yaml_finish(&y);
}

void k8s_claim_write(struct k8s *k, struct buf *out, const struct spec_storage *s)
{
    struct yaml_out y;

    k8s_object(k, &y, out, "v1", "PersistentVolumeClaim", k8s_claim_name(k, s), NULL);
    yaml_map(&y, "spec");
    k8s_claim_spec(k, &y, s);
    yaml_finish(&y);
}

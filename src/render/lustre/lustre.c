/* SPDX-License-Identifier: MIT */
/* lustre: scripts that make, mount, stripe and check a Lustre file system.
 *
 *     lustre/format.sh   mkfs.lustre of the management, metadata and object targets
 *     lustre/mount.sh    servers' targets, then clients
 *     lustre/stripe.sh   layouts by kind of file, OST pools
 *     lustre/check.sh    is every target there, and are the layouts as wanted?
 *     lustre/lnet.conf, lnet-modprobe.conf   LNet's networks, with targets.lustre.networks
 *
 * Each only prints its commands unless it is called with --apply.  Servers are the machines of
 * role storage: those of the group that targets.lustre.metadata names carry metadata, or else a
 * quarter of all, at least one; the rest has objects; with a single one it carries all.  A site
 * without such a group names hosts by LUSTRE_HOST_*; block devices are always named by
 * LUSTRE_DEVICE_*, since no spec knows them, and nothing is applied to a target whose variables are
 * unset. */
#include "base/str.h"
#include "render/lustre/lustre_int.h"

#include <assert.h>
#include <fnmatch.h>
#include <inttypes.h>

enum { META_PART = 4, SIZE_STEP = 64 << 10 };

/* ---- which machine carries what ---- */

struct servers { /* machines of role storage, numbered in the order of the spec */
    int64_t meta, objects;
    bool apart; /* a group of its own has the metadata, else the first machines of all */
};

static bool is_server(const struct lustre_site *l, const struct spec_node *n, bool apart, bool meta)
{
    return n->role == SPEC_ROLE_STORAGE && (!apart || str_eq(n->name, l->t->metadata) == meta);
}

static struct servers servers_of(const struct lustre_site *l)
{
    const struct spec *s = l->r->spec;
    struct servers v = { .apart = l->t->metadata != NULL };
    int64_t all = 0;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        v.meta += v.apart && is_server(l, n, true, true) ? n->count : 0;
        all += n->role == SPEC_ROLE_STORAGE ? n->count : 0;
    }
    if (!v.apart && all)
        v.meta = all / META_PART ? all / META_PART : 1;
    if (!v.apart && v.meta > l->t->mdts)
        v.meta = l->t->mdts;
    v.objects = all - v.meta;
    return v;
}

/* The i-th machine for metadata or objects, and its group. */
static const struct spec_node *server_of(const struct lustre_site *l, const struct servers *v,
                                         bool meta, int64_t i, char *out, size_t cap)
{
    i += !v->apart && !meta ? v->meta : 0;
    for (size_t k = 0; k < l->r->spec->node_count; k++) {
        const struct spec_node *n = &l->r->spec->nodes[k];

        if (!is_server(l, n, v->apart, meta))
            continue;
        if (i < n->count)
            return spec_host(n, i, out, cap) ? n : NULL;
        i -= n->count;
    }
    return NULL;
}

const struct spec_node *lustre_host(const struct lustre_site *l, bool meta, int64_t index,
                                    char *out, size_t cap)
{
    struct servers v = servers_of(l);

    if (!meta && !v.objects) /* one machine has all */
        meta = true;
    if (meta ? !v.meta : !v.objects)
        return NULL;
    return server_of(l, &v, meta, index % (meta ? v.meta : v.objects), out, cap);
}

bool lustre_partner(const struct lustre_site *l, bool meta, int64_t index, char *out, size_t cap)
{
    struct servers v = servers_of(l);
    int64_t count = meta ? v.meta : v.objects;

    if (meta && v.meta == 1 && v.objects) /* the first object server helps */
        return server_of(l, &v, false, 0, out, cap) != NULL;
    if (count < 2)
        return false;
    return server_of(l, &v, meta, (index + 1) % count, out, cap) != NULL;
}

/* A group that carries metadata is told once; one that has both kinds where another has objects is
 * more often meant to have one. */
static void check_servers(struct lustre_site *l)
{
    const struct spec_node *n = spec_node_find(l->r->spec, l->t->metadata), *last = NULL;
    struct servers v = servers_of(l);
    char host[SPEC_NAME_MAX + 12];

    if (n && n->role != SPEC_ROLE_STORAGE)
        render_refuse(l->r, &l->t->metadata, "Give the group 'role: storage', or name another.",
                      "node group '%s' is no storage, and cannot carry metadata", n->name);
    else if (n && !v.objects)
        render_refuse(l->r, &l->t->metadata, "Add a group of role storage, or leave it out.",
                      "no machine is left for objects: '%s' has all of role storage", n->name);
    if (n || !v.meta || !v.objects)
        return;
    n = server_of(l, &v, false, 0, host, sizeof(host));
    last = server_of(l, &v, false, v.objects - 1, host, sizeof(host));
    if (n && last && n != last && n == server_of(l, &v, true, 0, host, sizeof(host)))
        render_warn(l->r, &l->t->mdts, "Name the group of the metadata in 'metadata'.",
                    "metadata is on %" PRId64 " of the %" PRId64
                    " machines of role storage, and the others of '%s' have objects",
                    v.meta, v.meta + v.objects, n->name);
}

/* ---- the client's side ---- */

/* Is it this file system?  "mgs:/fsname", or a Lustre storage without a source. */
static bool is_ours(const struct lustre_site *l, const struct spec_storage *s)
{
    const char *slash;

    assert(s);
    slash = s->source ? strrchr(s->source, '/') : NULL;
    if (s->kind != SPEC_STORAGE_LUSTRE ||
        (s->source && (!slash || !str_eq(slash + 1, l->t->fsname))))
        return false;
    if (s->source && (strlen(l->t->mgs) + 2 + strlen(l->t->fsname) != strlen(s->source) ||
                      !str_starts(s->source, l->t->mgs)))
        render_refuse(l->r, &s->source, "Make it MGS:/FSNAME as in targets.lustre.",
                      "storage '%s' comes from '%s', but targets.lustre has '%s:/%s'", s->name,
                      s->source, l->t->mgs, l->t->fsname);
    return true;
}

/* The pattern with `?` for each `[...]`. */
static const char *pattern_plain(struct arena *mem, const char *s)
{
    char *out = arena_strdup(mem, s);
    size_t n = 0;

    for (size_t i = 0; s[i]; i++) {
        const char *end = s[i] == '[' && s[i + 1] ? strchr(s + i + 2, ']') : NULL;

        out[n++] = end ? '?' : s[i];
        i = end ? (size_t)(end - s) : i;
    }
    out[n] = '\0';
    return out;
}

/* Is there a name that fits both patterns?  A column for each place in `b`; may[j]: the rest of `a`
 * and of `b` from j on have a name in common. */
static bool patterns_meet(struct arena *mem, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    bool *may = arena_array(mem, bool, m + 2), *next = arena_array(mem, bool, m + 2);

    for (size_t i = n + 1; i-- > 0;) {
        for (size_t j = m + 1; j-- > 0;) {
            if (i == n)
                next[j] = b[j] ? b[j] == '*' && next[j + 1] : true;
            else if (a[i] == '*')
                next[j] = may[j] || (j < m && next[j + 1]);
            else if (j < m && b[j] == '*')
                next[j] = next[j + 1] || may[j];
            else
                next[j] = j < m && may[j + 1] && (a[i] == b[j] || a[i] == '?' || b[j] == '?');
        }
        memcpy(may, next, (m + 1) * sizeof(*may));
    }
    return may[0];
}

/* stripe.sh moves files rule by rule: one that fits two is moved by both, time and again. */
static void check_two(struct lustre_site *l, const struct spec_stripe *a,
                      const struct spec_stripe *b)
{
    struct arena mem = { 0 };

    if (str_eq(a->match, b->match))
        render_refuse(l->r, &b->match, "Leave one of them out.", "files '%s' have two rules",
                      b->match);
    else if (!strchr(a->match, '/') && !strchr(b->match, '/') && /* those fit no file: refused */
             (a->count != b->count || a->size_bytes != b->size_bytes) &&
             patterns_meet(&mem, pattern_plain(&mem, a->match), pattern_plain(&mem, b->match)))
        render_warn(l->r, &b->match,
                    "stripe.sh would move such files to and fro: make the patterns differ.",
                    "a file may fit both '%s' and '%s'", a->match, b->match);
    arena_release(&mem);
}

const struct spec_stripe *lustre_checkpoint_rule(const struct lustre_site *l)
{
    static const char *const names[] = { "checkpoint.pt", "rank.distcp", "model.safetensors",
                                         "state.ckpt" };

    for (size_t i = 0; l->storage && i < l->storage->stripe_count; i++)
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (fnmatch(l->storage->stripes[i].match, names[k], 0) == 0)
                return &l->storage->stripes[i];
    return NULL;
}

void render_lustre(struct render *r)
{
    struct lustre_site l = { .r = r, .t = r->targets->lustre };

    if (!l.t) {
        render_refuse(r, &r->spec->targets,
                      "Add targets.lustre, such as lustre: {fsname: scratch, mgs: 10.0.0.2@o2ib}.",
                      "the spec has no targets.lustre, and its servers cannot be guessed");
        return;
    }
    for (size_t i = 0; i < l.r->spec->storage_count && !l.storage; i++)
        if (is_ours(&l, &l.r->spec->storage[i]))
            l.storage = &l.r->spec->storage[i];
    for (size_t i = 0; i < l.r->spec->storage_count; i++) {
        const struct spec_storage *x = &l.r->spec->storage[i];

        if (l.storage && x != l.storage && x->kind == SPEC_STORAGE_LUSTRE && x->stripe_count)
            render_warn(l.r, &x->stripes[0].match, "Set them by hand, with 'lfs setstripe'.",
                        "nobody sets the stripes of '%s': target lustre is for '%s'", x->name,
                        l.storage->name);
        else if (!l.storage && x->kind == SPEC_STORAGE_LUSTRE && str_starts(x->source, l.t->mgs))
            render_warn(l.r, &l.t->fsname,
                        "The scripts make and mount another file system, without its stripes.",
                        "no storage is '%s:/%s': '%s' comes from '%s'", l.t->mgs, l.t->fsname,
                        x->name, x->source);
    }
    if (l.storage && l.storage->path)
        (void)snprintf(l.root, sizeof(l.root), "%s", l.storage->path);
    else
        (void)snprintf(l.root, sizeof(l.root), "/mnt/%s", l.t->fsname);
    check_servers(&l);
    for (size_t i = 0; l.storage && i < l.storage->stripe_count; i++) {
        const struct spec_stripe *x = &l.storage->stripes[i];

        if (x->count > l.t->osts)
            render_refuse(l.r, &x->count, "Use -1 for all of them.",
                          "files '%s' are to be on %" PRId64 " OSTs, and there are %" PRId64,
                          x->match, x->count, l.t->osts);
        if (x->size_bytes % SIZE_STEP)
            render_refuse(l.r, &x->size_bytes, "Use 64KiB, 1MiB, 4MiB and the like.",
                          "a stripe of Lustre is a multiple of 64 KiB");
        if (strchr(x->match, '\n') || !*x->match)
            render_refuse(l.r, &x->match, NULL, "a pattern of file names is one line");
        if (strchr(x->match, '/'))
            render_refuse(l.r, &x->match,
                          "Match the name only; a folder gets its layout from 'lfs setstripe'.",
                          "files '%s' are none: a name has no '/'", x->match);
        for (size_t k = 0; k < i; k++)
            check_two(&l, &l.storage->stripes[k], x);
    }
    lustre_check_nids(&l);
    lustre_lnet(&l);
    lustre_format(&l);
    lustre_mount(&l);
    lustre_stripe(&l);
    lustre_check(&l);
}

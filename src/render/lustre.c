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
 * role storage: a quarter of them, at least one, carry metadata, the rest objects; with a single
 * one it carries all.  A site without such a group names hosts by LUSTRE_HOST_*; block devices are
 * always named by LUSTRE_DEVICE_*, since no spec knows them, and nothing is applied to a target
 * whose variables are unset. */
#include "base/str.h"
#include "render/lustre_int.h"

#include <assert.h>
#include <fnmatch.h>
#include <inttypes.h>

enum { META_PART = 4, SIZE_STEP = 64 << 10 };

/* ---- which machine carries what ---- */

static int64_t machines(const struct spec *s)
{
    int64_t n = 0;

    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].role == SPEC_ROLE_STORAGE)
            n += s->nodes[i].count;
    return n;
}

/* The i-th machine of role storage, and its group. */
static const struct spec_node *machine(const struct spec *s, int64_t i, char *out, size_t cap)
{
    for (size_t k = 0; k < s->node_count; k++) {
        const struct spec_node *n = &s->nodes[k];

        if (n->role != SPEC_ROLE_STORAGE)
            continue;
        if (i < n->count)
            return spec_host(n, i, out, cap) ? n : NULL;
        i -= n->count;
    }
    return NULL;
}

const struct spec_node *lustre_host(const struct lustre *l, bool meta, int64_t index, char *out,
                                    size_t cap)
{
    int64_t all = machines(l->r->spec), mds = all / META_PART ? all / META_PART : 1;

    if (!all)
        return NULL;
    if (mds > l->t->mdts)
        mds = l->t->mdts;
    if (all == 1)
        return machine(l->r->spec, 0, out, cap);
    return meta ? machine(l->r->spec, index % mds, out, cap)
                : machine(l->r->spec, mds + index % (all - mds), out, cap);
}

bool lustre_partner(const struct lustre *l, bool meta, int64_t index, char *out, size_t cap)
{
    int64_t all = machines(l->r->spec), mds = all / META_PART ? all / META_PART : 1;
    int64_t count;

    if (mds > l->t->mdts)
        mds = l->t->mdts;
    count = meta ? mds : all - mds;
    if (all >= 2 && meta && mds == 1) /* a lone metadata server: the first object server helps */
        return machine(l->r->spec, 1, out, cap) != NULL;
    if (count < 2)
        return false;
    return machine(l->r->spec, (meta ? 0 : mds) + (index + 1) % count, out, cap) != NULL;
}

/* ---- the client's side ---- */

/* Is it this file system?  "mgs:/fsname", or a Lustre storage without a source. */
static bool is_ours(const struct lustre *l, const struct spec_storage *s)
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

static void find_storage(struct lustre *l)
{
    for (size_t i = 0; i < l->r->spec->storage_count && !l->storage; i++)
        if (is_ours(l, &l->r->spec->storage[i]))
            l->storage = &l->r->spec->storage[i];
    if (l->storage && l->storage->path)
        (void)snprintf(l->root, sizeof(l->root), "%s", l->storage->path);
    else
        (void)snprintf(l->root, sizeof(l->root), "/mnt/%s", l->t->fsname);
}

static void check_stripes(struct lustre *l)
{
    for (size_t i = 0; l->storage && i < l->storage->stripe_count; i++) {
        const struct spec_stripe *x = &l->storage->stripes[i];

        if (x->count > l->t->osts)
            render_refuse(l->r, &x->count, "Use -1 for all of them.",
                          "files '%s' are to be on %" PRId64 " OSTs, and there are %" PRId64,
                          x->match, x->count, l->t->osts);
        if (x->size_bytes % SIZE_STEP)
            render_refuse(l->r, &x->size_bytes, "Use 64KiB, 1MiB, 4MiB and the like.",
                          "a stripe of Lustre is a multiple of 64 KiB");
        if (strchr(x->match, '\n') || !*x->match)
            render_refuse(l->r, &x->match, NULL, "a pattern of file names is one line");
    }
}

const struct spec_stripe *lustre_checkpoint_rule(const struct lustre *l)
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
    struct lustre l = { .r = r, .t = r->targets->lustre };

    if (!l.t) {
        render_refuse(r, &r->spec->targets,
                      "Add targets.lustre, such as lustre: {fsname: scratch, mgs: 10.0.0.2@o2ib}.",
                      "the spec has no targets.lustre, and its servers cannot be guessed");
        return;
    }
    find_storage(&l);
    check_stripes(&l);
    lustre_check_nids(&l);
    lustre_lnet(&l);
    lustre_format(&l);
    lustre_mount(&l);
    lustre_stripe(&l);
    lustre_check(&l);
}

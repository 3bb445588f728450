/* SPDX-License-Identifier: MIT */
/* lustre_scripts: the text of the four scripts.  What is fixed is shell below; what comes from the
 * spec are calls of its functions, a line each, quoted for the shell. */
#include "base/mem.h"
#include "base/str.h"
#include "render/lustre/lustre_int.h"

#include <inttypes.h>
#include <stdlib.h>

/* Every script shows a command and does it only with --apply. */
static const char OPTIONS[] = "for word; do\n"
                              "    case \"$word\" in\n"
                              "    --apply) apply=1 ;;\n";
static const char OPTIONS_HOST[] = "    --host=*) host=${word#--host=} ;;\n"
                                   "    --all) host= ;;\n";
static const char OPTIONS_CLIENT[] = "    --client) client=1 ;;\n";
static const char RUN[] =
    "    -h | --help) sed -n '2,/^set /s/^# \\{0,1\\}//p' \"$0\" && exit 0 ;;\n"
    "    *) echo \"$0: unknown word '$word'; see --help\" >&2 && exit 2 ;;\n"
    "    esac\n"
    "done\n"
    "\n" RENDER_SCRIPT_SHOW "run() {\n"
    "    show \"$@\"\n"
    "    [ \"$apply\" = 0 ] || \"$@\"\n"
    "}\n";

/* place KIND INDEX HOST DEVICE: sets $device; false where the target is another machine's. */
static const char PLACE[] =
    "fail() {\n"
    "    echo \"$0: $1\" >&2\n"
    "    exit 1\n"
    "}\n"
    "place() {\n"
    "    name=$(printf '%s%s' \"$1\" \"$2\" | tr '[:lower:]' '[:upper:]')\n"
    "    if [ -z \"$3\" ]; then\n"
    "        [ \"$apply\" = 0 ] || fail \"no host for $name: set LUSTRE_HOST_$name\"\n"
    "        echo \"# $name: set LUSTRE_HOST_$name to the machine that carries it\"\n"
    "    elif [ -n \"$host\" ] && [ \"$host\" != \"${3%%.*}\" ]; then\n"
    "        return 1\n"
    "    else\n"
    "        echo \"# $name on $3\"\n"
    "    fi\n"
    "    device=$4\n"
    "    [ -n \"$device\" ] || [ \"$apply\" = 0 ] || fail \"no device: set LUSTRE_DEVICE_$name\"\n"
    "    device=${device:-LUSTRE_DEVICE_$name}\n"
    "}\n";

static const char OF_HOST[] =
    "# Targets of this machine, of NAME, or of all.  Devices are named by LUSTRE_DEVICE_MGS,\n"
    "# LUSTRE_DEVICE_MDT0, LUSTRE_DEVICE_OST0 ...; hosts that the spec does not have by\n"
    "# LUSTRE_HOST_MGS, LUSTRE_HOST_MDT0 ...\n";

/* `on_hosts`: it is for servers, each of which has its own targets. */
static struct buf *script_open(struct lustre_site *l, const char *name, const char *what,
                               bool on_hosts)
{
    struct buf *out = render_script(l->r, "lustre/%s", name);
    bool client = str_eq(name, "mount.sh");

    buf_adds(out, "#!/bin/sh\n");
    render_head(l->r, out, "#", what);
    buf_addf(out, "#\n# %s [--apply]%s\n# prints commands, and does them only with --apply.\n",
             name,
             client     ? " [--client | --host=NAME | --all]"
             : on_hosts ? " [--host=NAME | --all]"
                        : "");
    if (client)
        buf_adds(out, "# --client mounts the file system here, as on every machine that uses it.\n"
                      "# --host=NAME on another server takes over what NAME carried, once NAME is "
                      "off.\n");
    if (on_hosts)
        buf_adds(out, OF_HOST);
    buf_adds(out, "set -eu\napply=0\n");
    if (on_hosts)
        buf_adds(out, "host=$(uname -n)\nhost=${host%%.*}\n");
    if (client)
        buf_adds(out, "client=${LUSTRE_CLIENT-}\n");
    buf_adds(out, OPTIONS);
    if (on_hosts)
        buf_adds(out, OPTIONS_HOST);
    if (client)
        buf_adds(out, OPTIONS_CLIENT);
    buf_adds(out, RUN);
    if (on_hosts)
        buf_adds(out, PLACE);
    return out;
}

/* One "target KIND INDEX HOST DEVICE [PARTNER]" line. */
static void put_target(struct lustre_site *l, struct buf *out, const char *kind, const char *upper,
                       int64_t index, const void *member)
{
    char host[SPEC_NAME_MAX + 12], partner[SPEC_NAME_MAX + 12], number[24] = "";
    bool meta = str_eq(kind, "mdt") || str_eq(kind, "mgs");
    const struct spec_node *n = lustre_host(l, meta, index, host, sizeof(host));

    if (!str_eq(kind, "mgs"))
        (void)snprintf(number, sizeof(number), "%" PRId64, index);
    buf_addf(out, "target %s %s ", kind, *number ? number : "''");
    if (n)
        quote_sh(out, host);
    else
        buf_addf(out, "\"${LUSTRE_HOST_%s%s-}\"", upper, number);
    buf_addf(out, " \"${LUSTRE_DEVICE_%s%s-}\"", upper, number);
    if (l->t->failover && !str_eq(kind, "mgs") &&
        lustre_partner(l, meta, index, partner, sizeof(partner))) {
        buf_addc(out, ' ');
        quote_sh(out, partner);
    }
    buf_addf(out, " # %s\n", n ? render_from(l->r, n) : render_from(l->r, member));
}

static void put_targets(struct lustre_site *l, struct buf *out)
{
    put_target(l, out, "mgs", "MGS", 0, &l->t->mgs);
    for (int64_t i = 0; i < l->t->mdts; i++)
        put_target(l, out, "mdt", "MDT", i, &l->t->mdts);
    for (int64_t i = 0; i < l->t->osts; i++)
        put_target(l, out, "ost", "OST", i, &l->t->osts);
}

static void put_constant(struct lustre_site *l, struct buf *out, const char *name,
                         const char *value, const void *member)
{
    buf_addf(out, "%s=", name);
    quote_sh(out, value);
    buf_addf(out, " # %s\n", render_from(l->r, member));
}

static void put_constants(struct lustre_site *l, struct buf *out)
{
    buf_addc(out, '\n');
    put_constant(l, out, "fsname", l->t->fsname, &l->t->fsname);
    put_constant(l, out, "mgs", l->t->mgs, &l->t->mgs);
}

static void put_root(struct lustre_site *l, struct buf *out)
{
    put_constant(l, out, "root", l->root,
                 l->storage && l->storage->path ? (const void *)&l->storage->path : NULL);
}

/* ---- format.sh ---- */

static const char FORMAT[] =
    "# a device that holds anything is left alone\n"
    "empty() {\n"
    "    [ -b \"$1\" ] || fail \"'$1' is no block device\"\n"
    "    ! blkid -p \"$1\" >/dev/null 2>&1 ||\n"
    "        fail \"'$1' holds data; wipe it yourself if you mean it\"\n"
    "}\n"
    "target() {\n"
    "    place \"$@\" || return 0\n"
    "    [ \"$apply\" = 0 ] || empty \"$device\"\n"
    "    kind=$1 index=$2 home=$3 partner=${5-}\n"
    "    set -- --backfstype=\"$backfs\"\n"
    "    case \"$kind\" in\n"
    "    mgs) set -- \"$@\" --mgs ;;\n"
    "    *) set -- \"$@\" --fsname=\"$fsname\" \"--$kind\" --index=\"$index\" ;;\n"
    "    esac\n"
    "    # each management server that may answer; for its own target, where it may run\n"
    "    rest=$mgs:\n"
    "    while [ -n \"$rest\" ]; do\n"
    "        case \"$kind\" in\n"
    "        mgs) [ \"$mgs\" = \"${mgs%%:*}\" ] || set -- \"$@\" --servicenode=\"${rest%%:*}\" ;;\n"
    "        *) set -- \"$@\" --mgsnode=\"${rest%%:*}\" ;;\n"
    "        esac\n"
    "        rest=${rest#*:}\n"
    "    done\n"
    "    [ -z \"$partner\" ] ||\n"
    "        set -- \"$@\" --servicenode=\"$home@$net\" --servicenode=\"$partner@$net\"\n"
    "    run mkfs.lustre \"$@\" \"$device\"\n"
    "}\n\n";

void lustre_format(struct lustre_site *l)
{
    struct buf *out =
        script_open(l, "format.sh", "Makes the targets of the Lustre file system.", true);
    char net[SPEC_NAME_MAX];

    put_constants(l, out);
    buf_addf(out, "net=%s # of the NIDs of service nodes\n", lustre_net(l, net, sizeof(net)));
    buf_adds(out, "backfs=${LUSTRE_BACKFS:-ldiskfs}\n");
    buf_adds(out, FORMAT);
    put_targets(l, out);
}

/* ---- mount.sh ---- */

static const char MOUNT[] = "target() {\n"
                            "    place \"$@\" || return 0\n"
                            "    at=/srv/lustre/$fsname-$1$2\n"
                            "    run mkdir -p \"$at\"\n"
                            "    run mount -t lustre \"$device\" \"$at\"\n"
                            "}\n"
                            "client() {\n"
                            "    run mkdir -p \"$root\"\n"
                            "    run mount -t lustre -o \"$options\" \"$mgs:/$fsname\" \"$root\"\n"
                            "    printf '# /etc/fstab: %s %s lustre %s,_netdev,nofail 0 0\\n' \\\n"
                            "        \"$mgs:/$fsname\" \"$root\" \"$options\"\n"
                            "}\n\n"
                            "# servers in this order: management, metadata, objects\n"
                            "if [ -z \"$client\" ]; then\n";

void lustre_mount(struct lustre_site *l)
{
    struct buf *out =
        script_open(l, "mount.sh", "Mounts targets on their servers, or the client.", true);
    struct buf list = { 0 };

    put_constants(l, out);
    put_root(l, out);
    put_constant(l, out, "options", l->t->mount_options, &l->t->mount_options);
    buf_adds(out, MOUNT);
    put_targets(l, &list);
    for (const char *p = buf_str(&list), *nl; *p; p = nl + 1) {
        nl = strchr(p, '\n');
        buf_addf(out, "    %.*s\n", (int)(nl - p), p);
    }
    buf_adds(out, "fi\n# everywhere else\n"
                  "[ -z \"$client\" ] || client\n");
    buf_release(&list);
}

/* ---- stripe.sh ---- */

static const char STRIPE[] =
    "pool=${LUSTRE_POOL-} # an OST pool for all that follows\n"
    "\n"
    "# folder COUNT SIZE DIR: new files below DIR\n"
    "folder() {\n"
    "    run mkdir -p \"$3\"\n"
    "    run lfs setstripe -c \"$1\" -S \"$2\" ${pool:+-p \"$pool\"} \"$3\"\n"
    "}\n"
    "# files COUNT SIZE PATTERN: files of this kind that are there already and lie otherwise\n"
    "files() {\n"
    "    wide=$1\n"
    "    [ \"$wide\" != -1 ] || wide=$osts\n"
    "    find=$(show lfs find \"$root\" -type f -name \"$3\" ! --stripe-count \"$wide\" --print0)\n"
    "    each=$(show xargs -0 -r -n 1 lfs migrate -c \"$1\" -S \"$2\" ${pool:+-p \"$pool\"})\n"
    "    echo \"$find | $each\"\n"
    "    [ \"$apply\" = 1 ] || return 0\n"
    "    lfs find \"$root\" -type f -name \"$3\" ! --stripe-count \"$wide\" --print0 |\n"
    "        xargs -0 -r -n 1 lfs migrate -c \"$1\" -S \"$2\" ${pool:+-p \"$pool\"}\n"
    "}\n\n";

/* Large files spread as they grow, small ones stay on one OST. */
static const char GROWING[] =
    "\n# what no rule is for: small files on one OST, larger ones on more\n"
    "run lfs setstripe -E 256M -c 1 -E 4G -c 4 -E -1 -c -1 -S 4M "
    "${pool:+-p \"$pool\"} \"$root\"\n";

/* A pool of OSTs for each group of servers, where there are several. */
static void put_pools(struct lustre_site *l, struct buf *out)
{
    const struct spec_node **on = xcalloc((size_t)l->t->osts, sizeof(*on));
    char host[SPEC_NAME_MAX + 12];
    bool several = false;
    int number = 0;

    for (int64_t i = 0; i < l->t->osts; i++) {
        on[i] = lustre_host(l, false, i, host, sizeof(host));
        several = several || on[i] != on[0];
    }
    if (several)
        buf_adds(out, "\n# pools of OSTs by group of servers; LUSTRE_POOL names one to use\n");
    for (size_t k = 0; several && k < l->r->spec->node_count; k++) {
        const struct spec_node *n = &l->r->spec->nodes[k];
        bool made = false;

        for (int64_t i = 0; i < l->t->osts; i++) {
            if (on[i] != n)
                continue;
            if (!made)
                buf_addf(out, "run lctl pool_new \"$fsname.group%d\" # %s: %s\n", ++number,
                         render_from(l->r, n), n->name);
            made = true;
            buf_addf(out, "run lctl pool_add \"$fsname.group%d\" \"$fsname-OST%04" PRIx64 "\"\n",
                     number, (uint64_t)i);
        }
    }
    free(on);
}

static bool path_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return str_starts(path, top) && (path[len] == '/' || !path[len]);
}

/* Folders of checkpoints, which the spec knows: all OSTs at once take what all ranks write. */
static void put_checkpoints(struct lustre_site *l, struct buf *out, const char *call)
{
    const struct spec_stripe *rule = lustre_checkpoint_rule(l);
    const struct spec *s = l->r->spec;

    for (size_t i = 0; rule && i < s->component_count; i++) {
        const struct spec_training *t = s->components[i].training;
        bool seen = !t || !t->checkpoint.path || !path_below(t->checkpoint.path, l->root);

        for (size_t k = 0; k < i && !seen; k++) {
            const struct spec_training *before = s->components[k].training;

            seen = before && str_eq(before->checkpoint.path, t->checkpoint.path);
        }
        if (seen)
            continue;
        buf_addf(out, "%s %" PRId64 " %" PRId64 " ", call, rule->count, rule->size_bytes);
        quote_sh(out, t->checkpoint.path);
        buf_addf(out, " # %s\n", render_from(l->r, &t->checkpoint.path));
    }
}

static void put_rules(struct lustre_site *l, struct buf *out, const char *call)
{
    for (size_t i = 0; l->storage && i < l->storage->stripe_count; i++) {
        const struct spec_stripe *x = &l->storage->stripes[i];

        buf_addf(out, "%s %" PRId64 " %" PRId64 " ", call, x->count, x->size_bytes);
        quote_sh(out, x->match);
        buf_addf(out, " # %s\n", render_from(l->r, &x->match));
    }
}

void lustre_stripe(struct lustre_site *l)
{
    struct buf *out = script_open(l, "stripe.sh", "Layouts by kind of file, on a client.", false);

    put_constants(l, out);
    put_root(l, out);
    buf_addf(out, "osts=%" PRId64 " # %s\n", l->t->osts, render_from(l->r, &l->t->osts));
    buf_adds(out, STRIPE);
    buf_adds(out, "echo \"# $fsname of $mgs, mounted at $root\"\n");
    put_pools(l, out);
    buf_adds(out, GROWING);
    buf_adds(out, "\n# folders of checkpoints\n");
    put_checkpoints(l, out, "folder");
    buf_adds(out, "\n# files that are there already, by kind\n");
    put_rules(l, out, "files");
}

/* ---- check.sh ---- */

static const char CHECK[] = "bad=0\n"
                            "# count WANT WHAT COMMAND...: lines of the command\n"
                            "count() {\n"
                            "    want=$1 what=$2\n"
                            "    shift 2\n"
                            "    show \"$@\"\n"
                            "    [ \"$apply\" = 1 ] || return 0\n"
                            "    got=$(\"$@\" | grep -c ' ACTIVE') || true\n"
                            "    if [ \"$got\" = \"$want\" ]; then\n"
                            "        echo \"ok: $got $what\"\n"
                            "    else\n"
                            "        echo \"bad: $got of $want $what are active\"\n"
                            "        bad=1\n"
                            "    fi\n"
                            "}\n";
static const char LAYOUT[] =
    "# layout COUNT SIZE DIR: the default of new files below it\n"
    "layout() {\n"
    "    show lfs getstripe -d -c \"$3\"\n"
    "    [ \"$apply\" = 1 ] || return 0\n"
    "    got=$(lfs getstripe -d -c \"$3\") || got=none\n"
    "    if [ \"$got\" = \"$1\" ]; then\n"
    "        echo \"ok: $3 has stripe count $1\"\n"
    "    else\n"
    "        echo \"bad: $3 has stripe count $got, $1 is wanted (of $2 bytes each)\"\n"
    "        bad=1\n"
    "    fi\n"
    "}\n\n";

void lustre_check(struct lustre_site *l)
{
    struct buf *out = script_open(
        l, "check.sh", "Is the file system as the spec has it?  Exit status 1: it is not.", false);
    struct buf folders = { 0 };

    put_constants(l, out);
    put_root(l, out);
    buf_adds(out, CHECK);
    put_checkpoints(l, &folders, "layout");
    if (folders.len)
        buf_adds(out, LAYOUT);
    buf_adds(out, "echo \"# $fsname of $mgs, mounted at $root\"\n");
    buf_addf(out, "count %" PRId64 " MDTs lfs mdts \"$root\" # %s\n", l->t->mdts,
             render_from(l->r, &l->t->mdts));
    buf_addf(out, "count %" PRId64 " OSTs lfs osts \"$root\" # %s\n", l->t->osts,
             render_from(l->r, &l->t->osts));
    buf_adds(out, "run lfs df -h \"$root\"\n");
    buf_adds(out, buf_str(&folders));
    buf_release(&folders);
    buf_adds(out, "exit $bad\n");
}

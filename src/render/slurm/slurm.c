/* SPDX-License-Identifier: MIT */
/* slurm: a site as a Slurm cluster: its configuration files, the scripts they name, and a batch
 * script for each training and batch component that runs there.
 *
 *   slurm/slurm.conf gres.conf cgroup.conf topology.conf slurmdbd.conf    to /etc/slurm
 *   slurm/prolog.sh epilog.sh healthcheck.sh resume.sh suspend.sh …       to /etc/slurm
 *   slurm/install.sh                                                      puts them there
 *   slurm/accounts.sh                                                     run once, and again
 *   slurm/sbatch/NAME.sbatch                                              for users
 *
 * Values come from the spec; what Slurm needs and a spec does not say is fixed here, with the
 * reason behind the line. */
#include "base/mem.h"
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

enum { NOTE_COLUMN = 44 };

static void put_note(struct buf *out, size_t start, const char *why)
{
    size_t width = out->len - start;

    buf_fill(out, ' ', width < NOTE_COLUMN ? NOTE_COLUMN - width : 2);
    buf_addf(out, "# %s\n", why);
}

void slurm_line(struct slurm *c, struct buf *out, const void *member, const char *fmt, ...)
{
    size_t start = out->len;
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(out, fmt, ap);
    va_end(ap);
    put_note(out, start, render_from(c->r, member));
}

void slurm_fixed(struct buf *out, const char *why, const char *fmt, ...)
{
    size_t start = out->len;
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(out, fmt, ap);
    va_end(ap);
    if (why)
        put_note(out, start, why);
    else
        buf_addc(out, '\n');
}

void slurm_part(struct buf *out, const char *title)
{
    buf_addf(out, "\n# --- %s ---\n", title);
}

int64_t slurm_seconds(int64_t ms)
{
    return (ms + 999) / 1000;
}

const char *slurm_time(int64_t ms, char out[SLURM_TIME_MAX])
{
    int64_t s = slurm_seconds(ms);

    (void)snprintf(out, SLURM_TIME_MAX, "%" PRId64 "-%02d:%02d:%02d", s / 86400,
                   (int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60));
    return out;
}

/* --- look-ups --- */

bool slurm_has(const struct slurm *c, const struct spec_node *n)
{
    if (!n->count || (c->others && c->others[n - c->r->spec->nodes]))
        return false;
    if (n->role == SPEC_ROLE_GPU || n->role == SPEC_ROLE_CPU)
        return true;
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (render_strs_has(&c->s->partitions[i].nodes, n->name))
            return true;
    return false;
}

bool slurm_sleeps(const struct slurm *c, const struct spec_node *n)
{
    return c->s->power_save && slurm_has(c, n) &&
           (n->capacity == SPEC_CAPACITY_SPOT || n->capacity == SPEC_CAPACITY_ON_DEMAND);
}

bool slurm_power_saves(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (slurm_sleeps(c, &c->r->spec->nodes[i]))
            return true;
    return false;
}

const struct spec_partition *slurm_partition(const struct slurm *c, const char *name)
{
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (str_eq(c->s->partitions[i].name, name))
            return &c->s->partitions[i];
    return NULL;
}

const struct spec_qos *slurm_qos(const struct slurm *c, const char *name)
{
    for (size_t i = 0; i < c->s->qos_count; i++)
        if (str_eq(c->s->qos[i].name, name))
            return &c->s->qos[i];
    return NULL;
}

const struct spec_account *slurm_account(const struct slurm *c, const char *name)
{
    for (size_t i = 0; i < c->s->account_count; i++)
        if (str_eq(c->s->accounts[i].name, name))
            return &c->s->accounts[i];
    return NULL;
}

bool slurm_has_gpus(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (c->r->spec->nodes[i].gpus_per_node && slurm_has(c, &c->r->spec->nodes[i]))
            return true;
    return false;
}

static bool any_without_gpus(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (!c->r->spec->nodes[i].gpus_per_node && slurm_has(c, &c->r->spec->nodes[i]))
            return true;
    return false;
}

/* --- partitions of a spec that names none --- */

static const struct spec_partition implied_cpu = { .name = SLURM_CPU };
static const struct spec_partition implied_all = { .name = SLURM_ALL };

bool slurm_is_implied(const struct spec_partition *p)
{
    return !p || p == &implied_cpu || p == &implied_all;
}

/* Does a job name groups with and without GPUs? */
static bool any_mixed_job(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->component_count; i++) {
        const struct spec_component *k = &c->r->spec->components[i];
        bool with = false, without = false;
        const struct spec_node *n;

        if (!slurm_is_job(k))
            continue;
        for (size_t g = 0; (n = spec_component_group(c->r->spec, k, g)); g++) {
            with = with || n->gpus_per_node;
            without = without || !n->gpus_per_node;
        }
        if (with && without)
            return true;
    }
    return false;
}

const struct spec_partition *slurm_implied(const struct slurm *c, size_t i)
{
    if (c->s->partition_count || !slurm_has_gpus(c) || !any_without_gpus(c))
        return NULL;
    return i == 0 ? &implied_cpu : i == 1 && any_mixed_job(c) ? &implied_all : NULL;
}

bool slurm_partition_has(const struct slurm *c, const struct spec_partition *p,
                         const struct spec_node *n)
{
    if (!slurm_has(c, n))
        return false;
    if (p == &implied_all)
        return true;
    if (p == &implied_cpu)
        return !n->gpus_per_node;
    if (p && p->nodes.count)
        return render_strs_has(&p->nodes, n->name);
    return n->gpus_per_node > 0 || !slurm_has_gpus(c);
}

/* Partitions may list thousands of groups, so names are sorted once and not looked up in a list. */
const struct spec_node **slurm_partition_groups(const struct slurm *c,
                                                const struct spec_partition *p, size_t *count)
{
    const struct spec *s = c->r->spec;
    const struct spec_node **out = xcalloc(s->node_count + 1, sizeof(*out));
    struct slurm_names named = { 0 };

    for (size_t i = 0; p && i < p->nodes.count; i++)
        slurm_names_add(&named, p->nodes.items[i]);
    slurm_names_sort(&named);
    *count = 0;
    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        if (named.count ? slurm_has(c, n) && slurm_names_has(&named, n->name)
                        : slurm_partition_has(c, p, n))
            out[(*count)++] = n;
    }
    slurm_names_release(&named);
    return out;
}

/* Machines of a site with Slurm and Kubernetes side by side: where partitions list their groups,
 * one that none of them lists and only components of other targets use has no slurmd. */
static bool *groups_of_others(const struct slurm *c)
{
    const struct spec *s = c->r->spec;
    bool *others = xcalloc(s->node_count + 1, sizeof(*others));
    struct slurm_names listed = { 0 };
    bool all = c->s->partition_count == 0;

    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_strs *nodes = &c->s->partitions[i].nodes;

        all = all || !nodes->count;
        for (size_t k = 0; k < nodes->count; k++)
            slurm_names_add(&listed, nodes->items[k]);
    }
    slurm_names_sort(&listed);
    for (int slurm = 0; !all && slurm < 2; slurm++) /* who has a job of Slurm stays */
        for (size_t i = 0; i < s->component_count; i++) {
            const struct spec_component *k = &s->components[i];
            const struct spec_node *n;

            if ((k->target == SPEC_TARGET_SLURM) != slurm)
                continue;
            for (size_t g = 0; (n = spec_component_group(s, k, g)); g++)
                others[n - s->nodes] = !slurm && !slurm_names_has(&listed, n->name);
        }
    slurm_names_release(&listed);
    return others;
}

void render_slurm(struct render *r)
{
    struct slurm c = { .r = r, .s = r->targets->slurm };

    c.v = slurm_version_find(c.s->version);
    if (!c.v) {
        struct buf list = { 0 };

        buf_adds(&list, "Releases that can be written for: ");
        slurm_versions_list(&list);
        buf_addc(&list, '.');
        render_refuse(r, &c.s->version, buf_str(&list), "Slurm '%.64s' is not a release we know",
                      c.s->version);
        buf_release(&list);
        return;
    }
    c.others = groups_of_others(&c);
    slurm_check(&c);
    if (!r->diags->count) {
        slurm_wishes(&c);
        slurm_conf(&c);
        slurm_gres_conf(&c);
        slurm_cgroup_conf(&c);
        slurm_topology_conf(&c);
        slurm_dbd_conf(&c);
        slurm_check_scripts(&c);
        slurm_power_scripts(&c);
        slurm_accounts(&c);
        slurm_commands(&c);
        slurm_sbatch(&c);
        slurm_install(&c);
    }
    free(c.others);
}

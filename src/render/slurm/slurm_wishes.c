/* SPDX-License-Identifier: MIT */
/* slurm_wishes: what the spec wants and Slurm cannot do, or can do only in part, told where it
 * stands.  The files are written all the same: each is what comes nearest.  Keys of a component
 * that Slurm never follows are in follow.c. */
#include "base/str.h"
#include "base/text/units.h"
#include "plan/feasible.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

static bool is_said(const struct slurm *c, const void *member)
{
    return spec_where(c->r->spec, member).line != 0;
}

/* --- limits --- */

static void qos_limits(struct slurm *c, const struct spec_qos *q)
{
    struct maybe time = slurm_qos_time(c, q);
    int64_t gpus = slurm_qos_gpus(c, q);
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

    if (q->max_time_ms.known && time.v < q->max_time_ms.v)
        render_warn(c->r, &q->max_time_ms, "Raise the time limit of a partition that takes it.",
                    "QOS '%s' allows jobs of %s and no partition that takes it more than %s: it is "
                    "held to that",
                    q->name, units_duration_exact((uint64_t)q->max_time_ms.v, a),
                    units_duration_exact((uint64_t)time.v, b));
    if (q->max_gpus.known && gpus && gpus < q->max_gpus.v)
        render_warn(c->r, &q->max_gpus, NULL,
                    "QOS '%s' allows a user %" PRId64 " GPUs and the partitions that take it have "
                    "%" PRId64 ": it holds nobody back",
                    q->name, q->max_gpus.v, gpus);
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (slurm_partition_takes(&c->s->partitions[i], q))
            return;
    if (c->s->partition_count && slurm_keeps_qos(c))
        render_warn(c->r, &q->name, "Add it to the 'qos' of a partition.",
                    "no partition takes QOS '%s'", q->name);
}

static void partition_time(struct slurm *c, const struct spec_partition *p)
{
    int64_t ms = slurm_default_time_ms(c, p);
    char text[UNITS_TEXT_MAX];

    if (p->default_time_ms.known && ms < p->default_time_ms.v)
        render_warn(c->r, &p->default_time_ms, "Jobs of that QOS would wait for ever.",
                    "a QOS that partition '%s' takes allows no more than %s: that is its default "
                    "time",
                    p->name, units_duration_exact((uint64_t)ms, text));
}

/* Whose jobs it takes when they name no QOS: without one of its own there, an account's job is
 * refused as it is submitted. */
static void partition_accounts(struct slurm *c, const struct spec_partition *p)
{
    const struct spec_account *out = NULL;
    size_t in = 0;

    for (size_t i = 0; i < c->s->account_count; i++)
        if (slurm_default_qos(c, &c->s->accounts[i], p))
            in++;
        else
            out = out ? out : &c->s->accounts[i];
    if (!out)
        return;
    if (!in)
        render_warn(c->r, &p->qos, "Add one of them to the 'qos' of an account.",
                    "no account has a QOS that partition '%s' takes: nobody can run a job there",
                    p->name);
    else if (p->is_default || c->s->partition_count == 1)
        render_warn(c->r, &p->qos, "Add one of the account's, or let its users name a partition.",
                    "the default partition '%s' takes no QOS of account '%s': a job of its users "
                    "that names no partition is refused",
                    p->name, out->name);
}

static void partition_qos(struct slurm *c, const struct spec_partition *p)
{
    if (p->qos.count && slurm_keeps_qos(c))
        partition_accounts(c, p);
    if (p->qos.count && c->s->accounting.enabled && !slurm_keeps_qos(c))
        render_warn(c->r, &p->qos, "Name the accounts and their users.",
                    "partition '%s' takes jobs of every QOS: the spec has no accounts, and jobs "
                    "of users without one have no QOS",
                    p->name);
}

static void default_partition(struct slurm *c)
{
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (c->s->partitions[i].is_default)
            return;
    if (c->s->partition_count > 1) /* of a single one it is clear */
        render_warn(c->r, &c->s->partitions[0].name, "Set 'default: true' at one of them.",
                    "no partition is the default: Slurm refuses jobs that name none");
}

/* --- preemption --- */

/* Jobs of a partition make way for those of partitions with a higher priority on the same
 * machines. */
static bool gives_way(const struct slurm *c, const struct spec_partition *p)
{
    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_partition *by = &c->s->partitions[i];

        for (size_t k = 0; by->priority > p->priority && k < c->r->spec->node_count; k++)
            if (slurm_partition_has(c, by, &c->r->spec->nodes[k]) &&
                slurm_partition_has(c, p, &c->r->spec->nodes[k]))
                return true;
    }
    return false;
}

/* A job that must go has one GraceTime, whoever pushes it aside. */
static void grace_wishes(struct slurm *c, const struct spec_qos *q)
{
    const struct spec_qos *longest = slurm_grace(c, q);
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

    for (size_t i = 0; longest != q && i < c->s->qos_count; i++) {
        const struct spec_qos *by = &c->s->qos[i];

        if (render_strs_has(&by->preempts, q->name) && is_said(c, &by->grace_ms) &&
            by->grace_ms < longest->grace_ms)
            render_warn(c->r, &by->grace_ms,
                        "Give both the same, or that QOS a 'grace' of its own.",
                        "jobs of QOS '%s' get %s, as '%s' says, from '%s' too, not %s: Slurm has "
                        "one time for all that push them aside",
                        q->name, units_duration_exact((uint64_t)longest->grace_ms, a),
                        longest->name, by->name, units_duration_exact((uint64_t)by->grace_ms, b));
    }
}

static void preemption_wishes(struct slurm *c)
{
    enum slurm_preempt by = slurm_preempt_by(c);

    if (c->s->preempt != SPEC_PREEMPT_OFF && by == SLURM_PREEMPT_NONE)
        render_warn(c->r, &c->s->preempt, "Give a QOS a list 'preempts'.",
                    "no job is pushed aside: no QOS preempts another");
    for (size_t i = 0; i < c->s->qos_count; i++)
        if (c->s->qos[i].preempts.count && c->s->preempt == SPEC_PREEMPT_OFF)
            render_warn(c->r, &c->s->qos[i].preempts, "Set 'preempt: requeue' or another mode.",
                        "QOS '%s' pushes nobody aside: 'preempt' is off", c->s->qos[i].name);
    for (size_t i = 0; by == SLURM_PREEMPT_QOS && i < c->s->qos_count; i++) {
        const struct spec_qos *q = &c->s->qos[i];

        if (c->s->preempt != SPEC_PREEMPT_SUSPEND)
            grace_wishes(c, q);
        else if (is_said(c, &q->grace_ms))
            render_warn(c->r, &q->grace_ms, "Set 'preempt: requeue'.",
                        "a job that is suspended gets no time before: 'grace' of QOS '%s' is not "
                        "followed",
                        q->name);
    }
    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_partition *p = &c->s->partitions[i];

        if (by == SLURM_PREEMPT_QOS && is_said(c, &p->preempt))
            render_warn(c->r, &p->preempt, "Leave one of the two out.",
                        "a cluster preempts by QOS or by partition, and here by QOS: partition "
                        "'%s' has its mode",
                        p->name);
        else if (p->preempt != SPEC_PREEMPT_OFF && by == SLURM_PREEMPT_PARTITION &&
                 !gives_way(c, p))
            render_warn(c->r, &p->preempt, "Give one of them a higher 'priority'.",
                        "nobody pushes jobs of partition '%s' aside: no partition with its "
                        "machines has a higher priority",
                        p->name);
        else if (p->preempt == SPEC_PREEMPT_SUSPEND && by == SLURM_PREEMPT_PARTITION &&
                 slurm_has_gpus(c))
            render_warn(c->r, &p->preempt, "Set 'preempt: requeue'.",
                        "a suspended job keeps its GPUs: nobody gets those of partition '%s'",
                        p->name);
    }
    if (c->s->gang)
        render_warn(c->r, &c->s->gang, "Leave it out, or let jobs ask for parts of machines.",
                    "jobs that take turns keep their memory%s: those that fill a machine never "
                    "give it to another",
                    slurm_has_gpus(c) ? " and their GPUs" : "");
    if (c->s->preempt == SPEC_PREEMPT_SUSPEND && by == SLURM_PREEMPT_QOS && slurm_has_gpus(c))
        render_warn(c->r, &c->s->preempt, "Set 'preempt: requeue'.",
                    "a suspended job keeps its GPUs: who pushes it aside does not get them");
}

/* --- machines --- */

static void idle_groups(struct slurm *c)
{
    struct slurm_names listed = { 0 };
    bool gpus = slurm_has_gpus(c), rest = c->s->partition_count == 0;

    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_strs *nodes = &c->s->partitions[i].nodes;

        rest = rest || !nodes->count;
        for (size_t k = 0; k < nodes->count; k++)
            slurm_names_add(&listed, nodes->items[k]);
    }
    slurm_names_sort(&listed);
    for (size_t i = 0; c->s->partition_count && i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (slurm_has(c, n) && !slurm_names_has(&listed, n->name) &&
            !(rest && (n->gpus_per_node || !gpus)))
            render_warn(c->r, &n->name, "Name the group in the 'nodes' of a partition.",
                        "no job runs on the machines of '%s': no partition has them", n->name);
    }
    slurm_names_release(&listed);
}

static void sharing_wishes(struct slurm *c, const struct spec_node *n)
{
    if (!n->gpu || !slurm_has(c, n))
        return;
    if (n->gpu->sharing == SPEC_SHARING_MIG && !n->gpu->mig_profile)
        render_warn(c->r, &n->gpu->sharing, "Add 'mig_profile: 1g.10gb' or the like.",
                    "group '%s' says no MIG profile: its GPUs are given as a whole", n->name);
    else if (feasible_mig_instances(n))
        render_warn(c->r, &n->gpu->mig_profile,
                    "Cut them when the machines start, as commands.md shows, and install slurmd's "
                    "NVML plug-in there (Debian: slurm-wlm-nvml-plugin).",
                    "slurm cuts no GPU: each GPU of '%s' must have %" PRId64
                    " instance%s of %s before slurmd starts",
                    n->name, feasible_mig_instances(n), feasible_mig_instances(n) == 1 ? "" : "s",
                    n->gpu->mig_profile);
    for (size_t i = 0; i < c->r->spec->pool_count; i++) {
        const struct spec_pool *p = &c->r->spec->pools[i];

        if (p->device == SPEC_POOL_GPU && p->sharing == SPEC_SHARING_MPS &&
            spec_node_of(c->r->spec, p->nodes) == n && slurm_sharing_of(c, n) != SLURM_SHARING_MPS)
            render_warn(c->r, &p->sharing, "Set 'sharing: mps' at the GPUs of the group.",
                        "pool '%s' is for MPS, which the GPUs of '%s' do not have on Slurm",
                        p->name, n->name);
    }
}

static bool is_shared(enum spec_storage_kind k)
{
    return k != SPEC_STORAGE_LOCAL && k != SPEC_STORAGE_OBJECT && k != SPEC_STORAGE_VOLUME &&
           k != SPEC_STORAGE_MEMORY;
}

static bool on_shared_storage(const struct slurm *c, const char *path)
{
    for (size_t i = 0; i < c->r->spec->storage_count; i++) {
        const struct spec_storage *s = &c->r->spec->storage[i];
        size_t len = s->path ? strlen(s->path) : 0;

        if (len > 1 && is_shared(s->kind) && str_starts(path, s->path) &&
            (path[len] == '/' || !path[len]))
            return true;
    }
    return false;
}

static void controller_wishes(struct slurm *c)
{
    int64_t machines = 0;

    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (slurm_has(c, &c->r->spec->nodes[i]))
            machines += c->r->spec->nodes[i].count;
    if (machines > 1 && str_eq(c->s->controller, "localhost"))
        render_warn(c->r,
                    is_said(c, &c->s->controller) ? (const void *)&c->s->controller
                                                  : (const void *)&c->s->cluster,
                    "Add 'controller: HOST' below 'targets.slurm'.",
                    "the controller is 'localhost', which other machines cannot reach");
    if (c->s->backup_controller && is_said(c, &c->s->state_dir) &&
        !on_shared_storage(c, c->s->state_dir))
        render_warn(c->r, &c->s->state_dir, "Put it below the path of a storage of kind nfs.",
                    "both controllers need '%s', and it is on no storage of the spec that machines "
                    "share",
                    c->s->state_dir);
    if (c->s->power_save && !slurm_power_saves(c))
        render_warn(c->r, &c->s->power_save->resume_program,
                    "Set 'capacity: on_demand' or spot at a group.",
                    "no machine sleeps: none of the cluster's is spot or on_demand");
}

static void fabric_wishes(struct slurm *c)
{
    const struct spec_fabric *first = NULL;

    for (size_t i = 0; i < c->r->spec->fabric_count; i++) {
        const struct spec_fabric *f = &c->r->spec->fabrics[i];

        if (f->switch_count && slurm_has_blocks(c))
            render_warn(c->r, &f->switches[0].name, NULL,
                        "topology.conf holds the NVLink domains: the switches of '%s' are left out",
                        f->name);
        else if (f->switch_count && first)
            render_warn(c->r, &f->switches[0].name, NULL,
                        "topology.conf holds one fabric, and that is '%s': the switches of '%s' "
                        "are left out",
                        first->name, f->name);
        if (f->switch_count && !first)
            first = f;
    }
}

/* --- NVLink across machines --- */

static void imex_wishes(struct slurm *c, const struct spec_node *n)
{
    int64_t over;

    if (!slurm_has(c, n) || slurm_domain_machines(n) < 2)
        return;
    render_warn(c->r, &n->nvlink_domain,
                c->v->imex ? "Run nvidia-imex on them."
                           : "Run nvidia-imex on them; from Slurm 24.05 on "
                             "'SwitchType=switch/nvidia_imex' gives each job a channel.",
                "GPUs of '%s' reach those of other machines by NVLink only with IMEX, which these "
                "files do not %s",
                n->name, c->v->imex ? "start" : "set up");
    over = n->count % slurm_domain_machines(n);
    if (over && n->count > over)
        render_warn(c->r, &n->count, "Make those of a smaller domain a group of their own.",
                    "%" PRId64 " machines of '%s' do not fill NVLink domains of %" PRId64
                    ": the last %" PRId64 " %s taken to be in none",
                    n->count, n->name, slurm_domain_machines(n), over, over == 1 ? "is" : "are");
}

/* More than one domain that the machines of a job could be of? */
static bool job_has_domains(const struct slurm *c, const struct spec_component *k)
{
    const struct spec_node *n;
    int64_t domains = 0;

    for (size_t i = 0; (n = spec_component_group(c->r->spec, k, i)); i++)
        domains += (n->count + slurm_domain_machines(n) - 1) / slurm_domain_machines(n);
    return domains > 1;
}

static void job_domain(struct slurm *c, const struct spec_component *k)
{
    int64_t nodes = slurm_job_nodes(k), machines = slurm_job_domain(c, k);
    int64_t segment = slurm_segment(c, k);

    if (machines < 2 || nodes < 2 || !k->gpus || !job_has_domains(c, k))
        return;
    if (c->v->blocks && !slurm_has_blocks(c))
        render_warn(c->r, &k->name, "Make the machines of each domain a group.",
                    "nothing keeps the %" PRId64 " machines of '%s' in one NVLink domain, which "
                    "has %" PRId64 ": topology.conf has blocks only where two domains are full",
                    nodes, k->name, machines);
    else if (!slurm_has_blocks(c))
        render_warn(c->r, &k->name,
                    "Slurm 24.05 and later can: set 'targets.slurm.version', or make each domain a "
                    "group.",
                    "nothing keeps the %" PRId64 " machines of '%s' in one NVLink domain, which "
                    "has %" PRId64 ": Slurm %s cannot",
                    nodes, k->name, machines, c->v->name);
    else if (nodes <= machines ? segment < nodes : segment < 2)
        render_warn(c->r, &k->name, "Take a number of machines that parts of a domain divide.",
                    "the %" PRId64 " machines of '%s' are kept in NVLink domains %" PRId64
                    " at a time, which have %" PRId64,
                    nodes, k->name, segment ? segment : 1, machines);
}

/* Machines that a partition could never give to a job. */
static void partition_blocks(struct slurm *c, const struct spec_partition *p)
{
    const struct spec_node *n = slurm_blocks_miss(c, p);

    if (n)
        render_warn(c->r, slurm_is_implied(p) ? (const void *)&n->name : (const void *)&p->name,
                    "Give them a partition of their own, or take Slurm 25.05 or later.",
                    "partition '%s' gives jobs no machine of '%s' that is in no NVLink domain: "
                    "they are too few for a block of topology.conf",
                    p ? p->name : SLURM_MAIN, n->name);
}

/* --- jobs --- */

static void job_wishes(struct slurm *c, const struct spec_component *k)
{
    if (k->image && !c->r->spec->software.container_runtime)
        render_warn(c->r, &k->image,
                    "Set 'software.container_runtime: true' where one is on every machine.",
                    "Slurm runs the image of '%s' only where %sapptainer is installed", k->name,
                    str_ends(k->image, ".sif") ? "" : "pyxis or ");
    /* Without an image a job sees the machine's own paths. */
    for (size_t i = 0; !k->image && i < k->mount_count; i++) {
        const struct spec_mount *m = &k->mounts[i];
        const struct spec_storage *s = spec_storage_find(c->r->spec, m->storage);

        if (s && s->path && (m->subpath || !str_eq(s->path, m->path)))
            render_warn(c->r, &m->path, "Use the machine's path, or give the component an image.",
                        "'%s' is at '%s' on the machines, and without an image component '%s' does "
                        "not see it at '%s'",
                        s->name, s->path, k->name, m->path);
    }
    job_domain(c, k);
    if (k->build && !k->image)
        render_warn(c->r, &k->build->base, "Name the image that is built as 'image'.",
                    "component '%s' runs without an image on Slurm: it says how one is built, not "
                    "its name",
                    k->name);
    if (!c->s->accounting.enabled && (k->qos || k->account))
        render_warn(c->r, k->qos ? (const void *)&k->qos : (const void *)&k->account,
                    "Set 'accounting.enabled: true'.",
                    "without accounting '%s' has neither QOS nor account", k->name);
}

void slurm_wishes(struct slurm *c)
{
    const struct spec *s = c->r->spec;
    const struct spec_accounting *a = &c->s->accounting;

    for (size_t i = 0; c->s->accounting.enabled && i < c->s->qos_count; i++)
        qos_limits(c, &c->s->qos[i]);
    for (size_t i = 0; i < c->s->partition_count; i++)
        partition_time(c, &c->s->partitions[i]);
    for (size_t i = 0; i < c->s->partition_count; i++)
        partition_qos(c, &c->s->partitions[i]);
    for (size_t i = 0; i < c->s->partition_count; i++)
        partition_blocks(c, &c->s->partitions[i]);
    if (!c->s->partition_count)
        partition_blocks(c, NULL);
    for (size_t i = 0; slurm_implied(c, i); i++)
        partition_blocks(c, slurm_implied(c, i));
    default_partition(c);
    /* Accounts and QOS live in the accounting database. */
    if (!a->enabled && c->s->qos_count)
        render_warn(c->r, &c->s->qos[0].name, "Set 'accounting.enabled: true'.",
                    "without accounting Slurm has no QOS: none of the spec's is made");
    if (!a->enabled && c->s->account_count)
        render_warn(c->r, &c->s->accounts[0].name, "Set 'accounting.enabled: true'.",
                    "without accounting Slurm has no accounts: none of the spec's is made");
    if (a->enabled && a->enforce_limits && !c->s->account_count &&
        (is_said(c, &a->enforce_limits) || c->s->qos_count))
        render_warn(
            c->r,
            is_said(c, &a->enforce_limits) ? (const void *)&a->enforce_limits
                                           : (const void *)&c->s->qos[0].name,
            "Name the accounts and their users.",
            "limits are not enforced: the spec has no accounts, and nobody could run a job");
    preemption_wishes(c);
    idle_groups(c);
    for (size_t i = 0; i < s->node_count; i++) {
        sharing_wishes(c, &s->nodes[i]);
        imex_wishes(c, &s->nodes[i]);
    }
    controller_wishes(c);
    fabric_wishes(c);
    for (size_t i = 0; i < s->component_count; i++)
        if (slurm_is_job(&s->components[i]))
            job_wishes(c, &s->components[i]);
}

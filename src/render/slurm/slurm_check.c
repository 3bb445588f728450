/* SPDX-License-Identifier: MIT */
/* slurm_check: what Slurm's files cannot hold and what Slurm would never run, refused where it
 * stands in the spec.  slurmctld does not start with a bad name, and a job that asks for more
 * than its partition or QOS gives stays in the queue for ever; both are better said now. */
#include "base/mem.h"
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

enum { SECONDS16_MAX = 65533 }; /* Slurm keeps these times in 16 bits */

static void check_plain(struct slurm *c, const void *member, const char *what, const char *s)
{
    if (!slurm_plain(s))
        render_refuse(c->r, member,
                      "Leave out blanks, commas, quotes, brackets, '=', '#' and '\\'.",
                      "slurm.conf cannot hold the %s '%.64s'", what, s);
}

static void check_short(struct slurm *c, const int64_t *ms, const char *what)
{
    if (slurm_seconds(*ms) > SECONDS16_MAX)
        render_refuse(c->r, ms, "At most 65533 seconds, a little over 18 hours.",
                      "Slurm cannot hold a %s this long", what);
}

static void check_settings(struct slurm *c)
{
    const struct spec_slurm *s = c->s;

    check_plain(c, &s->controller, "controller", s->controller);
    if (s->backup_controller)
        check_plain(c, &s->backup_controller, "controller", s->backup_controller);
    if (s->backup_controller && str_eq(s->backup_controller, s->controller))
        render_refuse(c->r, &s->backup_controller, NULL,
                      "the second controller '%s' is the first one", s->controller);
    if (s->backup_controller && !spec_where(c->r->spec, &s->state_dir).line)
        render_refuse(c->r, &s->backup_controller,
                      "Set 'state_dir' to a folder on storage that both have.",
                      "two controllers must share their state, and '%s' is on each one's own disk",
                      s->state_dir);
    check_plain(c, &s->state_dir, "path", s->state_dir);
    check_plain(c, &s->log_dir, "path", s->log_dir);
    check_plain(c, &s->accounting.host, "host", s->accounting.host);
    check_short(c, &s->health_check_ms, "health check interval");
    if (s->power_save) {
        check_short(c, &s->power_save->resume_timeout_ms, "resume timeout");
        check_short(c, &s->power_save->suspend_timeout_ms, "suspend timeout");
    }
    if (slurm_preempt_by(c) == SLURM_PREEMPT_QOS && !s->accounting.enabled)
        render_refuse(c->r, &s->preempt, "Set 'accounting.enabled: true'.",
                      "QOS preemption needs accounting, where QOS are kept");
}

/* --- machines --- */

/* To slurm.conf it is the name of what all others begin with. */
static void check_reserved(struct slurm *c, const struct spec_node *n)
{
    struct spec_walk w;

    for (spec_walk(&w, n); spec_walk_next(&w);)
        if (!strcasecmp(w.name, "default"))
            render_refuse(c->r, n->hosts ? (const void *)&n->hosts : (const void *)&n->name, NULL,
                          "'%s' is not a host name to Slurm", w.name);
}

static void check_nodes(struct slurm *c, struct slurm_names *all)
{
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (!slurm_has(c, n))
            continue;
        if (!n->cpu_cores.known)
            render_refuse(c->r, &n->name, "Add 'cpu_cores: 128' or the like to the group.",
                          "Slurm must know how many cores the machines of '%s' have", n->name);
        else if (n->cpu_cores.v % n->sockets)
            render_refuse(c->r, &n->cpu_cores, "'cpu_cores' counts the cores of all sockets.",
                          "%" PRId64 " cores do not spread evenly over %" PRId64 " sockets",
                          n->cpu_cores.v, n->sockets);
        if (n->rack && (str_eq(n->rack, SLURM_RACKS) || str_starts(n->rack, "unlisted-")))
            render_refuse(c->r, &n->rack, NULL, "'%s' is a name that topology.conf needs itself",
                          n->rack);
        if (!n->memory_bytes.known)
            render_refuse(c->r, &n->name, "Add 'memory: 1TB' or the like to the group.",
                          "Slurm must know how much memory the machines of '%s' have", n->name);
        check_reserved(c, n);
        slurm_names_add_group(all, n);
    }
    slurm_names_sort(all);
    if (!all->count)
        render_refuse(c->r, &c->s->cluster, "Add a node group of role gpu or cpu.",
                      "a Slurm cluster needs machines that run jobs");
}

/* --- switches --- */

static void check_switch(struct slurm *c, const struct spec_switch *s,
                         const struct slurm_names *all)
{
    struct spec_walk w;

    if (str_starts(s->name, "unlisted-") || str_eq(s->name, SLURM_SWITCHES))
        render_refuse(c->r, &s->name, NULL, "'%s' is a name that topology.conf needs itself",
                      s->name);
    if (s->hosts && s->switches.count)
        render_refuse(c->r, &s->hosts, "Put the hosts below a switch of their own.",
                      "to Slurm a switch has hosts or switches, and '%s' has both", s->name);
    else if (!s->hosts && !s->switches.count)
        render_refuse(c->r, &s->name, NULL, "switch '%s' has neither hosts nor switches", s->name);
    else if (s->hosts)
        for (spec_walk_list(&w, s->hosts); spec_walk_next(&w);)
            if (!slurm_names_has(all, w.name)) {
                render_refuse(c->r, &s->hosts, "It may name machines of role gpu and cpu.",
                              "switch '%s' has host '%s', which runs no jobs", s->name, w.name);
                return;
            }
}

/* A machine hangs on one switch; said at the last one that has it. */
static void check_once(struct slurm *c, const struct spec_fabric *f)
{
    struct slurm_names placed = { 0 }, twice = { 0 };
    bool told = false;

    for (size_t k = 0; k < f->switch_count; k++)
        if (f->switches[k].hosts)
            slurm_names_add_list(&placed, f->switches[k].hosts);
    slurm_names_sort(&placed);
    for (size_t i = 1; i < placed.count; i++)
        if (str_eq(placed.items[i - 1], placed.items[i]))
            slurm_names_add(&twice, placed.items[i]);
    for (size_t k = f->switch_count; twice.count && !told && k > 0; k--) {
        const struct spec_switch *s = &f->switches[k - 1];
        struct spec_walk w;

        if (!s->hosts)
            continue;
        for (spec_walk_list(&w, s->hosts); !told && spec_walk_next(&w);)
            if (slurm_names_has(&twice, w.name)) {
                render_refuse(c->r, &s->hosts, "topology.conf is a tree.",
                              "host '%s' is on more than one switch", w.name);
                told = true;
            }
    }
    slurm_names_release(&placed);
    slurm_names_release(&twice);
}

static void check_switches(struct slurm *c, const struct slurm_names *all)
{
    for (size_t i = 0; i < c->r->spec->fabric_count; i++) {
        const struct spec_fabric *f = &c->r->spec->fabrics[i];

        if (!f->switch_count)
            continue;
        for (size_t k = 0; k < f->switch_count; k++)
            check_switch(c, &f->switches[k], all);
        check_once(c, f);
        return; /* topology.conf holds one fabric */
    }
}

/* --- names --- */

/* sacctmgr takes users as words; what a user name is made of is for the system to say, but these
 * are all that passes through sacctmgr unharmed. */
static bool user_ok(const char *s)
{
    if (!*s || *s == '-' || strlen(s) > SPEC_NAME_MAX)
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || strchr("_-.@", *s)))
            return false;
    return true;
}

/* --- QOS --- */

enum qos_walk { QOS_NEW, QOS_OPEN, QOS_DONE };

struct qos_stack { /* the walk keeps its own, since a file may hold thousands of QOS in a row */
    enum qos_walk *state; /* of each QOS */
    size_t *at, depth;    /* those that are open, each below the one before */
    size_t *next;         /* the item of 'preempts' that is to be looked at */
};

static void qos_open(struct qos_stack *w, size_t i)
{
    w->state[i] = QOS_OPEN;
    w->at[w->depth++] = i;
}

/* One step down or up; false: a loop was refused. */
static bool qos_step(struct slurm *c, struct qos_stack *w)
{
    size_t at = w->at[w->depth - 1], below;
    const struct spec_qos *q = &c->s->qos[at], *found;

    if (w->next[at] == q->preempts.count) {
        w->state[at] = QOS_DONE;
        w->depth--;
        return true;
    }
    found = slurm_qos(c, q->preempts.items[w->next[at]++]);
    below = found ? (size_t)(found - c->s->qos) : at;
    if (found && w->state[below] == QOS_OPEN) {
        render_refuse(c->r, &q->preempts, "Slurm sets no list that is part of a loop.",
                      below == at ? "QOS '%s' pushes '%s' aside, which is itself"
                                  : "QOS '%s' pushes '%s' aside, which in turn pushes it aside",
                      q->name, found->name);
        return false;
    }
    if (found && w->state[below] == QOS_NEW)
        qos_open(w, below);
    return true;
}

static void check_qos_loops(struct slurm *c)
{
    size_t n = c->s->qos_count;
    struct qos_stack w = { .state = xcalloc(n + 1, sizeof(*w.state)),
                           .at = xcalloc(n + 1, sizeof(*w.at)),
                           .next = xcalloc(n + 1, sizeof(*w.next)) };
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++) {
        if (w.state[i] == QOS_NEW)
            qos_open(&w, i);
        while (ok && w.depth)
            ok = qos_step(c, &w);
    }
    free(w.state);
    free(w.at);
    free(w.next);
}

/* --- jobs --- */

static void check_kind(struct slurm *c, const struct spec_component *k)
{
    if (k->target == SPEC_TARGET_SLURM && !slurm_is_job(k))
        render_refuse(c->r, &k->target, "Set 'kind: batch', or have another target run it.",
                      "Slurm runs training and batch components, and '%s' is neither", k->name);
}

/* pyxis splits its list of mounts at ',' and ':' and knows no escape, and writes each into a shell
 * script between double quotes; apptainer splits at '^' too and takes '\\' for an escape, in the
 * source only.  Which of them runs the image is known when the job starts. */
static void check_mount_path(struct slurm *c, const char *const *path)
{
    const char *bad = *path ? strpbrk(*path, ",:^\\\"$`") : NULL;

    if (bad)
        render_refuse(
            c->r, path, "Take a path without , : ^ \\ \" $ and `.",
            "pyxis and apptainer cannot mount '%.64s': they read '%c' as more than a part "
            "of the path",
            *path, *bad);
}

static void check_job(struct slurm *c, const struct spec_component *k)
{
    const struct spec_partition *p = k->partition ? slurm_partition(c, k->partition) : NULL;
    const struct spec_node *n;
    size_t i;

    for (i = 0; (n = spec_component_group(c->r->spec, k, i)) && slurm_has(c, n); i++)
        if (p && !slurm_partition_has(c, p, n))
            render_refuse(c->r, &k->partition, "Take another partition, or add the group to it.",
                          "partition '%s' does not have the machines '%s'", p->name, n->name);
    if (n || !i) {
        render_refuse(c->r, k->nodes ? (const void *)&k->nodes : (const void *)&k->name,
                      "Set 'nodes' to a group of role gpu or cpu.",
                      "component '%s' runs on no machines of the Slurm cluster", k->name);
        return;
    }
    if (!p && c->s->partition_count && !slurm_job_partition(c, k))
        render_refuse(c->r, &k->name, "Name its 'partition', or add its group to one.",
                      "no partition has the machines of component '%s' and takes its QOS", k->name);
    for (size_t j = 0; k->image && j < k->mount_count; j++) {
        const struct spec_mount *m = &k->mounts[j];
        const struct spec_storage *s = spec_storage_find(c->r->spec, m->storage);

        check_mount_path(c, &m->path);
        check_mount_path(c, &m->subpath);
        if (s)
            check_mount_path(c, &s->path);
    }
    if (!k->command.count)
        render_refuse(c->r, &k->name, "Add 'command: [python, train.py]' or the like.",
                      "component '%s' says nothing to run", k->name);
    if (p && p->qos.count && k->qos && !render_strs_has(&p->qos, k->qos))
        render_refuse(c->r, &k->qos, "Add it to the partition's 'qos', or take another.",
                      "partition '%s' does not allow QOS '%s'", p->name, k->qos);
    slurm_terms_check(c, k);
}

void slurm_check(struct slurm *c)
{
    struct slurm_names all = { 0 };

    check_settings(c);
    check_nodes(c, &all);
    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_partition *p = &c->s->partitions[i];
        size_t count;

        free(slurm_partition_groups(c, p, &count));
        if (str_eq(p->name, "default"))
            render_refuse(c->r, &p->name, "In slurm.conf it means the settings of all others.",
                          "a partition cannot be called 'default'");
        if (!count)
            render_refuse(c->r, p->nodes.count ? (const void *)&p->nodes : (const void *)&p->name,
                          "Its node groups must have a count above 0.",
                          "partition '%s' has no machines", p->name);
    }
    for (size_t i = 0; i < c->s->account_count; i++)
        for (size_t k = 0; k < c->s->accounts[i].users.count; k++) {
            const char *const *user = &c->s->accounts[i].users.items[k];

            if (!user_ok(*user))
                render_refuse(c->r, user, "Small letters, digits, '_', '-', '.' and '@'.",
                              "Slurm cannot hold the user '%.64s'", *user);
        }
    check_qos_loops(c);
    if (!c->r->diags->count)
        check_switches(c, &all);
    for (size_t i = 0; i < c->r->spec->component_count; i++) {
        check_kind(c, &c->r->spec->components[i]);
        if (slurm_is_job(&c->r->spec->components[i]))
            check_job(c, &c->r->spec->components[i]);
    }
    slurm_names_release(&all);
}

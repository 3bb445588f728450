/* SPDX-License-Identifier: MIT */
/* slurm_accounts: accounts.sh, which brings the accounting database to what the spec says: the
 * cluster, QOS, accounts and users.  It can be run again after every change: what is there is
 * changed, limits that left the spec are lifted, and nothing is ever deleted. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

static const char ACCOUNTS_COMMON[] =
    "set -u\n"
    "failed=0\n"
    "\n"
    "# sacctmgr fails when there is nothing to do; that is no failure here.\n"
    "run() {\n"
    "    local said\n"
    "    if said=$(sacctmgr -i \"$@\" 2>&1); then\n"
    "        printf 'sacctmgr -i %s\\n' \"$*\"\n"
    "        return\n"
    "    fi\n"
    "    case $said in\n"
    "    *'Nothing modified'* | *'Nothing new added'* | *'lready exist'*) return ;;\n"
    "    *\"Request didn't affect anything\"*)\n"
    "        # Slurm 24.11: a user who is there, or an account that is not\n"
    "        if [ \"$1 $2\" = 'add user' ] &&\n"
    "            found=$(sacctmgr -nP show assoc where user=\"$3\" \"${@:4}\" format=user) &&\n"
    "            [ -n \"$found\" ]; then\n"
    "            return\n"
    "        fi\n"
    "        ;;\n"
    "    esac\n"
    "    printf 'sacctmgr -i %s: %s\\n' \"$*\" \"$said\" >&2\n"
    "    failed=1\n"
    "}\n";

static const char PREEMPTS[] =
    "\n"
    "# preempts QOS LIST: is that what it has?  Slurm takes a list that is there for a loop.\n"
    "preempts() {\n"
    "    [ \"$(sacctmgr -nP show qos \"$1\" format=preempt | tr , '\\n' | sort)\" = \\\n"
    "        \"$(printf '%s' \"$2\" | tr , '\\n' | sort)\" ]\n"
    "}\n"
    "\n"
    "# clear_list QOS LIST OTHER: empty unless it is LIST.  Slurm 22.05 takes a list that was\n"
    "# emptied for a loop until one that is not in it is taken out of it.\n"
    "clear_list() {\n"
    "    if preempts \"$1\" \"$2\"; then\n"
    "        [ -z \"$2\" ] || return 0\n"
    "    elif ! preempts \"$1\" ''; then\n"
    "        run modify qos where name=\"$1\" set Preempt=''\n"
    "    fi\n"
    "    sacctmgr -i modify qos where name=\"$1\" set Preempt-=\"$3\" >/dev/null 2>&1 || :\n"
    "}\n";

/* A limit, or -1, which lifts one that is there. */
static void put_limit(struct buf *out, const char *key, struct maybe value)
{
    buf_addf(out, " %s%" PRId64, key, value.known ? value.v : (int64_t)-1);
}

const struct spec_qos *slurm_grace(const struct slurm *c, const struct spec_qos *q)
{
    const struct spec_qos *longest = NULL;

    for (size_t i = 0; !spec_where(c->r->spec, &q->grace_ms).line && i < c->s->qos_count; i++) {
        const struct spec_qos *by = &c->s->qos[i];

        if (render_strs_has(&by->preempts, q->name) && spec_where(c->r->spec, &by->grace_ms).line &&
            (!longest || by->grace_ms > longest->grace_ms))
            longest = by;
    }
    return longest ? longest : q;
}

static void qos_limits(struct slurm *c, struct buf *out, const struct spec_qos *q)
{
    const struct spec_qos *by = slurm_grace(c, q);
    struct maybe longest = slurm_qos_time(c, q);

    buf_addf(out, "# priority %s, GraceTime %s, limits of a user %s\n",
             render_from(c->r, &q->priority), render_from(c->r, &by->grace_ms),
             q->max_gpus.known ? render_from(c->r, &q->max_gpus) : "none");
    buf_addf(out, "run modify qos where name=%s set Priority=%" PRId64 " GraceTime=%" PRId64,
             q->name, q->priority, slurm_seconds(by->grace_ms));
    put_limit(out, "MaxTRESPerUser=gres/gpu=", q->max_gpus);
    put_limit(out, "MaxJobsPerUser=", q->max_jobs);
    if (longest.known) {
        char time[SLURM_TIME_MAX];

        buf_addf(out, " MaxWall=%s", slurm_time(longest.v, time));
    } else {
        buf_adds(out, " MaxWall=-1");
    }
    buf_addc(out, '\n');
}

static void preempts_list(struct buf *out, const struct spec_qos *q)
{
    for (size_t k = 0; k < q->preempts.count; k++)
        buf_addf(out, "%s%s", k ? "," : "", q->preempts.items[k]);
    if (!q->preempts.count)
        buf_adds(out, "''");
}

/* Old lists are cleared before new ones are set: two together could be a loop. */
static void qos_preempts(struct slurm *c, struct buf *out)
{
    const struct spec_qos *all = c->s->qos;

    for (size_t i = 0; c->s->qos_count > 1 && i < c->s->qos_count; i++) {
        buf_addf(out, "clear_list %s ", all[i].name);
        preempts_list(out, &all[i]);
        buf_addf(out, " %s\n", all[i ? 0 : 1].name);
    }
    for (size_t i = 0; i < c->s->qos_count; i++) {
        if (!all[i].preempts.count)
            continue;
        buf_addf(out, "preempts %s ", all[i].name);
        preempts_list(out, &all[i]);
        buf_addf(out, " || run modify qos where name=%s set Preempt=", all[i].name);
        preempts_list(out, &all[i]);
        buf_addf(out, " # %s\n", render_from(c->r, &all[i].preempts));
    }
}

static void put_qos(struct slurm *c, struct buf *out)
{
    if (c->s->qos_count)
        buf_adds(out, "\n# --- QOS: all of them first, since they name each other ---\n");
    for (size_t i = 0; i < c->s->qos_count; i++)
        buf_addf(out, "run add qos %s # %s\n", c->s->qos[i].name,
                 render_from(c->r, &c->s->qos[i].name));
    for (size_t i = 0; i < c->s->qos_count; i++)
        qos_limits(c, out, &c->s->qos[i]);
    qos_preempts(c, out);
}

/* An account that lists none may use all: to Slurm it could use its built-in "normal" and no
 * other. */
static void account_qos(struct slurm *c, struct buf *out, const struct spec_account *a)
{
    const struct spec_qos *dflt = slurm_default_qos(c, a, NULL);
    const char *sep = "";

    buf_addf(out, "run modify account where name=%s cluster=\"$cluster\" set QOS=", a->name);
    for (size_t k = 0; k < a->qos.count; k++)
        buf_addf(out, "%s%s", k ? "," : "", a->qos.items[k]);
    for (size_t k = 0; !a->qos.count && k < c->s->qos_count; k++, sep = ",")
        buf_addf(out, "%s%s", sep, c->s->qos[k].name);
    buf_addf(out, " # %s\n", a->qos.count ? render_from(c->r, &a->qos) : "all: it lists none");
    if (dflt)
        buf_addf(out,
                 "run modify account where name=%s cluster=\"$cluster\" set DefaultQOS=%s # of "
                 "jobs that name none\n",
                 a->name, dflt->name);
}

static void put_accounts(struct slurm *c, struct buf *out)
{
    if (c->s->account_count)
        buf_adds(out, "\n# --- accounts ---\n");
    for (size_t i = 0; i < c->s->account_count; i++) {
        const struct spec_account *a = &c->s->accounts[i];

        buf_addf(out, "run add account %s cluster=\"$cluster\" # %s\n", a->name,
                 render_from(c->r, &a->name));
        buf_addf(out,
                 "run modify account where name=%s cluster=\"$cluster\" set Fairshare=%" PRId64,
                 a->name, a->share);
        put_limit(out, "GrpTRES=gres/gpu=", a->max_gpus);
        buf_addf(out, " # %s, %s\n", render_from(c->r, &a->share),
                 a->max_gpus.known ? render_from(c->r, &a->max_gpus) : "no limit");
        if (c->s->qos_count)
            account_qos(c, out, a);
    }
}

/* Where a partition does not take the QOS that an account's jobs have by default, its users have
 * another default there: without it "sbatch -p PARTITION" would be refused. */
static void user_partitions(struct slurm *c, struct buf *out, const struct spec_account *a,
                            const char *user)
{
    const struct spec_qos *all = slurm_default_qos(c, a, NULL);

    for (size_t i = 0; all && i < c->s->partition_count; i++) {
        const struct spec_partition *p = &c->s->partitions[i];
        const struct spec_qos *here = slurm_default_qos(c, a, p);

        if (!here || slurm_partition_takes(p, all))
            continue;
        buf_adds(out, "run add user ");
        quote_sh(out, user);
        buf_addf(out, " account=%s cluster=\"$cluster\" partition=%s # %s\n", a->name, p->name,
                 render_from(c->r, &p->qos));
        buf_adds(out, "run modify user where name=");
        quote_sh(out, user);
        buf_addf(out, " account=%s cluster=\"$cluster\" partition=%s set DefaultQOS=%s\n", a->name,
                 p->name, here->name);
    }
}

/* Is this the first account that lists the user? */
static bool user_is_new(const struct slurm *c, const struct spec_account *a, const char *user)
{
    for (const struct spec_account *b = c->s->accounts; b < a; b++)
        if (render_strs_has(&b->users, user))
            return false;
    return true;
}

static void put_users(struct slurm *c, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < c->s->account_count; i++) {
        const struct spec_account *a = &c->s->accounts[i];

        for (size_t k = 0; k < a->users.count; k++) {
            if (!any)
                buf_adds(out, "\n# --- users: the first account is their default ---\n");
            any = true;
            buf_adds(out, "run add user ");
            quote_sh(out, a->users.items[k]);
            buf_addf(out, " account=%s cluster=\"$cluster\" # %s\n", a->name,
                     render_from(c->r, &a->users.items[k]));
            if (user_is_new(c, a, a->users.items[k])) {
                /* "add" makes the first account the default of a user that is new to Slurm; root
                 * is there from the start, with the account root, and others may have been there
                 * before the spec. */
                buf_adds(out, "run modify user where name=");
                quote_sh(out, a->users.items[k]);
                buf_addf(out, " cluster=\"$cluster\" set DefaultAccount=%s\n", a->name);
            }
            user_partitions(c, out, a, a->users.items[k]);
        }
    }
}

void slurm_accounts(struct slurm *c)
{
    struct buf *out;

    if (!c->s->accounting.enabled)
        return;
    out = render_script(c->r, "slurm/accounts.sh");
    buf_adds(out, "#!/bin/bash\n");
    render_head(c->r, out, "#",
                "accounts.sh: cluster, QOS, accounts and users; run it as root, again and again.");
    buf_adds(out, ACCOUNTS_COMMON);
    if (c->s->qos_count)
        buf_adds(out, PREEMPTS);
    buf_addf(out, "\ncluster=%s # %s\n", c->s->cluster, render_from(c->r, &c->s->cluster));
    buf_adds(out, "run add cluster \"$cluster\"\n");
    put_qos(c, out);
    put_accounts(c, out);
    put_users(c, out);
    buf_adds(out, "\nexit $failed\n");
}

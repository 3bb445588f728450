/* SPDX-License-Identifier: MIT */
/* slurm_conf: slurm.conf, cgroup.conf and slurmdbd.conf. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

enum {
    BF_STEPS = 2000 /* backfill keeps at most about so many points of time */
};

/* --- preemption --- */

const char *slurm_preempt_word(enum spec_preempt p)
{
    static const char *const words[] = {
        [SPEC_PREEMPT_OFF] = "OFF",
        [SPEC_PREEMPT_REQUEUE] = "REQUEUE",
        [SPEC_PREEMPT_SUSPEND] = "SUSPEND",
        [SPEC_PREEMPT_CANCEL] = "CANCEL",
    };

    return words[p];
}

/* A cluster preempts by QOS or by partition, not both.  QOS it is where the spec says so and a
 * QOS names whom it pushes aside. */
enum slurm_preempt slurm_preempt_by(const struct slurm *c)
{
    for (size_t i = 0; c->s->preempt != SPEC_PREEMPT_OFF && i < c->s->qos_count; i++)
        if (c->s->qos[i].preempts.count)
            return SLURM_PREEMPT_QOS;
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (c->s->partitions[i].preempt != SPEC_PREEMPT_OFF)
            return SLURM_PREEMPT_PARTITION;
    return SLURM_PREEMPT_NONE;
}

static enum spec_preempt slurm_preempt_mode(const struct slurm *c)
{
    if (slurm_preempt_by(c) == SLURM_PREEMPT_NONE)
        return SPEC_PREEMPT_OFF;
    if (c->s->preempt != SPEC_PREEMPT_OFF)
        return c->s->preempt;
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (c->s->partitions[i].preempt != SPEC_PREEMPT_OFF)
            return c->s->partitions[i].preempt;
    return SPEC_PREEMPT_OFF;
}

bool slurm_suspends(const struct slurm *c)
{
    bool any = slurm_preempt_mode(c) == SPEC_PREEMPT_SUSPEND;

    for (size_t i = 0; i < c->s->partition_count; i++)
        any = any || (slurm_preempt_by(c) == SLURM_PREEMPT_PARTITION &&
                      c->s->partitions[i].preempt == SPEC_PREEMPT_SUSPEND);
    return any;
}

/* Is the batch script told before its job is ended for another? */
static bool signals_first(const struct slurm *c)
{
    return slurm_preempt_by(c) != SLURM_PREEMPT_NONE &&
           slurm_preempt_mode(c) != SPEC_PREEMPT_SUSPEND;
}

static void put_preemption(struct slurm *c, struct buf *out)
{
    enum slurm_preempt by = slurm_preempt_by(c);
    bool gang = c->s->gang || slurm_suspends(c);

    slurm_part(out, "preemption");
    if (by == SLURM_PREEMPT_NONE && !gang) {
        buf_adds(out, "# nobody is pushed aside\n");
        return;
    }
    if (by == SLURM_PREEMPT_QOS)
        slurm_line(c, out, &c->s->preempt, "PreemptType=preempt/qos");
    else if (by == SLURM_PREEMPT_PARTITION)
        slurm_fixed(out, "by PriorityTier of the partitions", "PreemptType=preempt/partition_prio");
    if (by == SLURM_PREEMPT_NONE)
        slurm_line(c, out, &c->s->gang, "PreemptMode=GANG");
    else
        slurm_line(c, out, &c->s->preempt, "PreemptMode=%s%s",
                   slurm_preempt_word(slurm_preempt_mode(c)), gang ? ",GANG" : "");
    if (signals_first(c) && c->v->preempt_parameters)
        slurm_fixed(out, "the batch script hears of it, as before a time limit",
                    "PreemptParameters=send_user_signal");
    if (slurm_suspends(c))
        buf_adds(out, "# A suspended job keeps its GPU memory: what comes must fit beside it.\n");
    if (gang)
        slurm_line(c, out, &c->s->timeslice_ms, "SchedulerTimeSlice=%" PRId64,
                   slurm_seconds(c->s->timeslice_ms));
}

/* --- the sections of slurm.conf --- */

static void put_daemons(struct slurm *c, struct buf *out)
{
    slurm_part(out, "cluster and daemons");
    slurm_line(c, out, &c->s->cluster, "ClusterName=%s", c->s->cluster);
    slurm_line(c, out, &c->s->controller, "SlurmctldHost=%s", c->s->controller);
    if (c->s->backup_controller)
        slurm_line(c, out, &c->s->backup_controller, "SlurmctldHost=%s", c->s->backup_controller);
    slurm_fixed(out, "as Debian's packages have it", "SlurmUser=slurm");
    slurm_fixed(out, NULL, "SlurmdUser=root");
    slurm_fixed(out, c->v->auth_slurm ? "or auth/slurm with a slurm.key and no MUNGE" : NULL,
                "AuthType=auth/munge");
    if (!c->v->requeue_delay)
        slurm_fixed(out, "a requeued job waits for this time; 120 unless said",
                    "AuthInfo=cred_expire=60");
    if (c->s->backup_controller)
        buf_adds(out, "# both controllers read and write it: storage that they share\n");
    slurm_line(c, out, &c->s->state_dir, "StateSaveLocation=%s", c->s->state_dir);
    slurm_fixed(out, NULL, "SlurmdSpoolDir=/var/spool/slurmd");
    slurm_fixed(out, NULL, "SlurmctldPidFile=/run/slurmctld.pid");
    slurm_fixed(out, NULL, "SlurmdPidFile=/run/slurmd.pid");
    slurm_line(c, out, &c->s->log_dir, "SlurmctldLogFile=%s/slurmctld.log", c->s->log_dir);
    slurm_line(c, out, &c->s->log_dir, "SlurmdLogFile=%s/slurmd.log", c->s->log_dir);
    slurm_fixed(out, "no mail", "MailProg=/bin/true");
    slurm_fixed(out, NULL, "SlurmctldTimeout=120");
    slurm_fixed(out, "a silent machine's jobs are requeued after this", "SlurmdTimeout=300");
    slurm_fixed(out, "back by itself after a reboot; a bad machine must be drained, not downed",
                "ReturnToService=2");
}

static void put_processes(struct slurm *c, struct buf *out)
{
    slurm_part(out, "processes of a job");
    slurm_fixed(out, "nothing of a job outlives it", "ProctrackType=proctrack/cgroup");
    slurm_fixed(out, "bound to its cores, locked out of other GPUs",
                "TaskPlugin=task/affinity,task/cgroup");
    slurm_fixed(out, "launchers find each other by MASTER_ADDR", "MpiDefault=none");
    slurm_fixed(out, "RDMA needs the machine's limit, not the login host's",
                "PropagateResourceLimitsExcept=MEMLOCK");
    slurm_fixed(out, "seconds between TERM and KILL", "KillWait=60");
    slurm_fixed(out, "a process stuck in the driver drains the machine",
                "UnkillableStepTimeout=180");
    slurm_fixed(out, NULL, "Prolog=" SLURM_ETC "/prolog.sh");
    slurm_fixed(out, NULL, "Epilog=" SLURM_ETC "/epilog.sh");
    slurm_fixed(out, "the prolog runs on every machine before the first step",
                "PrologFlags=Contain");
    slurm_fixed(out, NULL, "PrologEpilogTimeout=120");
    slurm_fixed(out, "jobs of a lost machine start again", "JobRequeue=1");
    slurm_fixed(out, "a job that exits so (EX_TEMPFAIL) starts again", "RequeueExit=75");
    slurm_fixed(out, "and so, but held until somebody looks", "RequeueExitHold=76");
    if (c->v->max_batch_requeue)
        slurm_fixed(out, "runs longer than a time limit go on by requeue", "MaxBatchRequeue=1000");
    if (c->s->health_check_ms) {
        slurm_fixed(out, NULL, "HealthCheckProgram=" SLURM_ETC "/healthcheck.sh");
        slurm_line(c, out, &c->s->health_check_ms, "HealthCheckInterval=%" PRId64,
                   slurm_seconds(c->s->health_check_ms));
        slurm_fixed(out, "spread over the interval", "HealthCheckNodeState=ANY,CYCLE");
    }
}

static void put_backfill(struct slurm *c, struct buf *out)
{
    const struct spec_backfill *b = &c->s->backfill;
    int64_t minutes = (b->window_ms + 59999) / 60000;
    int64_t resolution = minutes * 60 / BF_STEPS / 60 * 60;

    slurm_line(c, out, &b->enabled, "SchedulerType=sched/%s", b->enabled ? "backfill" : "builtin");
    buf_adds(out,
             "# nohold_on_prolog_fail: a job whose machine failed the prolog goes elsewhere\n");
    if (c->v->requeue_delay)
        buf_adds(out, "# requeue_delay: seconds a requeued job waits; 120 unless said\n");
    if (b->enabled)
        buf_addf(out,
                 "# bf_interval %s, bf_window %s (minutes), bf_max_job_test %s; bf_continue: a "
                 "pass goes on after a pause\n",
                 render_from(c->r, &b->interval_ms), render_from(c->r, &b->window_ms),
                 render_from(c->r, &b->max_jobs));
    buf_adds(out, "SchedulerParameters=nohold_on_prolog_fail");
    if (c->v->requeue_delay)
        buf_adds(out, ",requeue_delay=30");
    if (b->enabled)
        buf_addf(out,
                 ",bf_interval=%" PRId64 ",bf_window=%" PRId64 ",bf_resolution=%" PRId64
                 ",bf_max_job_test=%" PRId64 ",bf_continue",
                 slurm_seconds(b->interval_ms), minutes, resolution < 60 ? 60 : resolution,
                 b->max_jobs);
    buf_addc(out, '\n');
}

static void put_priority(struct slurm *c, struct buf *out)
{
    const struct spec_slurm_priority *p = &c->s->priority;
    char time[SLURM_TIME_MAX];

    slurm_part(out, "priority");
    slurm_fixed(out, NULL, "PriorityType=priority/multifactor");
    slurm_line(c, out, &p->half_life_ms, "PriorityDecayHalfLife=%s",
               slurm_time(p->half_life_ms, time));
    slurm_line(c, out, &p->max_age_ms, "PriorityMaxAge=%s", slurm_time(p->max_age_ms, time));
    slurm_line(c, out, &p->job_size, "PriorityWeightJobSize=%" PRId64, p->job_size);
    slurm_line(c, out, &p->partition, "PriorityWeightPartition=%" PRId64, p->partition);
    if (!c->s->accounting.enabled) {
        buf_adds(out, "# age, fair share and QOS need accounting, which is off\n");
        return;
    }
    slurm_line(c, out, &p->age, "PriorityWeightAge=%" PRId64, p->age);
    slurm_line(c, out, &p->fair_share, "PriorityWeightFairshare=%" PRId64, p->fair_share);
    slurm_line(c, out, &p->qos, "PriorityWeightQOS=%" PRId64, p->qos);
}

/* "gres/gpu,gres/gpu:h100": every type once. */
static void gpu_tres(const struct slurm *c, struct buf *out)
{
    char a[SLURM_TYPE_MAX], b[SLURM_TYPE_MAX];

    buf_adds(out, "gres/gpu");
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];
        bool seen = !n->gpus_per_node || !slurm_has(c, n);

        for (size_t k = 0; k < i && !seen; k++) {
            const struct spec_node *m = &c->r->spec->nodes[k];

            seen = m->gpus_per_node && slurm_has(c, m) &&
                   str_eq(slurm_gpu_type(m, a), slurm_gpu_type(n, b));
        }
        if (!seen)
            buf_addf(out, ",gres/gpu:%s", slurm_gpu_type(n, b));
    }
}

/* Who has no account may run nothing then: without accounts that would be everybody. */
bool slurm_enforces(const struct slurm *c)
{
    return c->s->accounting.enabled && c->s->accounting.enforce_limits && c->s->account_count;
}

static void put_accounting(struct slurm *c, struct buf *out)
{
    const struct spec_accounting *a = &c->s->accounting;
    struct buf tres = { 0 };

    slurm_part(out, "accounting");
    slurm_fixed(out, NULL, "JobAcctGatherType=jobacct_gather/linux");
    slurm_fixed(out, NULL, "JobAcctGatherFrequency=30");
    if (!a->enabled) {
        buf_addf(out, "# jobs are not recorded: %s\n", render_from(c->r, &a->enabled));
        return;
    }
    slurm_line(c, out, &a->enabled, "AccountingStorageType=accounting_storage/slurmdbd");
    slurm_line(c, out, &a->host, "AccountingStorageHost=%s", a->host);
    gpu_tres(c, &tres);
    buf_addf(&tres, "%s%s", slurm_has_mps(c) ? ",gres/mps" : "",
             slurm_has_shards(c) ? ",gres/shard" : "");
    slurm_fixed(out, "GPUs are counted too", "AccountingStorageTRES=%s", buf_str(&tres));
    buf_release(&tres);
    if (slurm_enforces(c))
        slurm_line(c, out, &a->enforce_limits, "AccountingStorageEnforce=associations,limits,qos");
    else if (a->enforce_limits)
        buf_adds(out,
                 "# limits hold nobody: with no accounts in the spec, nobody could run a job\n");
}

static void power_saving(struct slurm *c, struct buf *out)
{
    const struct spec_power_save *p = c->s->power_save;
    struct buf awake = { 0 };

    if (!p)
        return;
    slurm_part(out, "power saving");
    if (!slurm_power_saves(c)) {
        buf_adds(out, "# no machine is spot or on_demand: none sleeps\n");
        return;
    }
    slurm_line(c, out, &p->suspend_after_ms, "SuspendTime=%" PRId64,
               slurm_seconds(p->suspend_after_ms));
    slurm_line(c, out, &p->suspend_timeout_ms, "SuspendTimeout=%" PRId64,
               slurm_seconds(p->suspend_timeout_ms));
    slurm_line(c, out, &p->resume_timeout_ms, "ResumeTimeout=%" PRId64,
               slurm_seconds(p->resume_timeout_ms));
    slurm_fixed(out, "each calls the site's own program", "ResumeProgram=" SLURM_ETC "/resume.sh");
    slurm_fixed(out, NULL, "SuspendProgram=" SLURM_ETC "/suspend.sh");
    slurm_fixed(out, NULL, "ResumeFailProgram=" SLURM_ETC "/resumefail.sh");
    /* Machines that never sleep, as one list; empty: all of them do. */
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (!slurm_has(c, n) || slurm_sleeps(c, n))
            continue;
        if (awake.len)
            buf_addc(&awake, ',');
        slurm_hosts_add(&awake, n);
    }
    if (awake.len)
        slurm_fixed(out, "owned and reserved machines stay on", "SuspendExcNodes=%s",
                    buf_str(&awake));
    if (c->v->private_cloud)
        slurm_fixed(out, "sleeping machines are listed, too", "PrivateData=cloud");
    buf_release(&awake);
}

/* One key that several sections add to. */
static void controller_parameters(struct slurm *c, struct buf *out)
{
    const struct {
        bool on;
        const char *word, *why;
    } words[] = {
        { slurm_power_saves(c), "idle_on_node_suspend",
          "a stopped machine can be started again, whatever befell it" },
        { slurm_power_saves(c) && c->v->cloud_reg_addrs, "cloud_reg_addrs",
          "a started machine brings its address" },
        { signals_first(c) && !c->v->preempt_parameters, "preempt_send_user_signal",
          "a job hears of preemption, as before a time limit" },
    };
    struct buf list = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (!words[i].on)
            continue;
        if (!list.len)
            slurm_part(out, "controller");
        buf_addf(out, "# %s: %s\n", words[i].word, words[i].why);
        buf_addf(&list, "%s%s", list.len ? "," : "", words[i].word);
    }
    if (list.len)
        buf_addf(out, "SlurmctldParameters=%s\n", buf_str(&list));
    buf_release(&list);
}

void slurm_conf(struct slurm *c)
{
    struct buf *out = render_file(c->r, "slurm/slurm.conf");

    render_head(c->r, out, "#", "slurm.conf: the cluster; the same file on every machine.");
    buf_addf(out, "# For Slurm %s, %s.\n", c->v->name, render_from(c->r, &c->s->version));
    put_daemons(c, out);
    put_processes(c, out);
    slurm_part(out, "scheduling");
    slurm_fixed(out, "GPUs, cores and memory are counted one by one",
                "SelectType=select/cons_tres");
    slurm_fixed(out, NULL, "SelectTypeParameters=CR_Core_Memory");
    slurm_fixed(out, "a job that its partition could never run is refused at once",
                "EnforcePartLimits=ALL");
    slurm_fixed(out, "an array has up to 10000 tasks, each of which is a job once it runs",
                "MaxArraySize=10001");
    slurm_fixed(out, "several of them, and what else there is", "MaxJobCount=50000");
    if (slurm_has_topology(c))
        slurm_fixed(out, "topology.conf", "TopologyPlugin=topology/%s",
                    slurm_has_blocks(c) ? "block" : "tree");
    if (slurm_has_imex(c))
        slurm_fixed(out, "a job's own channel for NVLink across machines",
                    "SwitchType=switch/nvidia_imex");
    put_backfill(c, out);
    put_priority(c, out);
    put_preemption(c, out);
    put_accounting(c, out);
    power_saving(c, out);
    controller_parameters(c, out);
    slurm_gres_types(c, out);
    slurm_nodes(c, out);
    slurm_partitions(c, out);
}

/* --- cgroup.conf, slurmdbd.conf --- */

void slurm_cgroup_conf(struct slurm *c)
{
    struct buf *out = render_file(c->r, "slurm/cgroup.conf");

    render_head(c->r, out, "#", "cgroup.conf: what a job is locked into on its machine.");
    if (c->v->cgroup_automount)
        slurm_fixed(out, "only cgroup v1 needs it; gone from Slurm 23.11 on",
                    "CgroupAutomount=yes");
    slurm_fixed(out, "v1 or v2, as the machine has it", "CgroupPlugin=autodetect");
    slurm_fixed(out, NULL, "ConstrainCores=yes");
    slurm_fixed(out, NULL, "ConstrainRAMSpace=yes");
    slurm_fixed(out, "a job sees the GPUs it was given and no others", "ConstrainDevices=yes");
}

void slurm_dbd_conf(struct slurm *c)
{
    const struct spec_accounting *a = &c->s->accounting;
    struct buf *out;

    if (!a->enabled)
        return;
    out = render_secret(c->r, "slurm/slurmdbd.conf");
    render_head(c->r, out, "#", "slurmdbd.conf: who keeps the records; mode 0600, owner slurm.");
    slurm_fixed(out, c->v->auth_slurm ? "or auth/slurm, as in slurm.conf" : NULL,
                "AuthType=auth/munge");
    slurm_line(c, out, &a->host, "DbdHost=%s", a->host);
    slurm_fixed(out, NULL, "SlurmUser=slurm");
    slurm_line(c, out, &c->s->log_dir, "LogFile=%s/slurmdbd.log", c->s->log_dir);
    slurm_fixed(out, NULL, "PidFile=/run/slurmdbd.pid");
    slurm_fixed(out, NULL, "StorageType=accounting_storage/mysql");
    slurm_fixed(out, "the database is beside slurmdbd", "StorageHost=localhost");
    slurm_fixed(out, NULL, "StorageUser=slurm");
    slurm_line(c, out, &a->database, "StorageLoc=%s", a->database);
    buf_addf(out,
             "# The password is in no spec.  Without one, let MariaDB trust the system user:\n"
             "#   CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;\n"
             "#   GRANT ALL ON %s.* TO slurm@localhost;\n"
             "# With one, keep it in a file of mode 0600 that has the line StoragePass=..., and\n"
             "# take the mark off this line:\n"
             "#Include " SLURM_ETC "/slurmdbd.secret\n",
             a->database);
}

/* SPDX-License-Identifier: MIT */
/* slurm_version: what changed between the releases of Slurm that we write files for.
 *
 * Sources: the files CHANGELOG/slurm-*.md of the Slurm repository, in its words shortened
 *   23.02  MaxBatchRequeue is a setting, it was fixed at 5 before;
 *          sleeping machines are shown without PrivateData=cloud; PreemptParameters is new, its
 *          send_user_signal was SlurmctldParameters=preempt_send_user_signal (slurm.conf(5))
 *   23.11  select/cons_res removed (we never write it); Kmem keys and CgroupAutomount removed from
 *          cgroup.conf; cloud_reg_addrs removed, as it is always so; auth/slurm is new; srun takes
 *          SLURM_CPUS_PER_TASK again, which 22.05 had stopped
 *   24.05  topology/block has BlockSizes (it is of 23.11, with other levels and no way for a job to
 *          ask), --segment is new; switch/nvidia_imex is new
 *   24.11  PreemptMode=GANG is only for the whole cluster (we write it nowhere else); GRES names
 *          keep their case (we write lower case)
 *   25.05  FrontEnd mode removed (never written); topology.yaml is new, topology.conf still read;
 *          blocks may be smaller than BlockSizes
 *   25.11  SchedulerParameters=requeue_delay is new; AccountingStorageUser removed (never written)
 *   26.05  SchedulerParameters=enable_job_state_cache removed (never written)
 * 22.05 and 24.11 are what the tests run against.  A release that is not here is refused: its keys
 * may have changed, and slurmctld does not start with a key it does not know. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

/* What came with a release, and stays. */
#define SINCE_2302 .preempt_parameters = true, .max_batch_requeue = true
#define SINCE_2311 SINCE_2302, .auth_slurm = true
#define SINCE_2405 SINCE_2311, .blocks = true, .imex = true
#define SINCE_2505 SINCE_2405, .topology_yaml = true, .small_blocks = true
#define SINCE_2511 SINCE_2505, .requeue_delay = true
#define UNTIL_2302 .cgroup_automount = true, .cloud_reg_addrs = true, .srun_cpus_forgotten = true

static const struct slurm_version versions[] = {
    { .name = "22.05", UNTIL_2302, .private_cloud = true },
    { .name = "23.02", UNTIL_2302, SINCE_2302 },
    { .name = "23.11", SINCE_2311 },
    { .name = "24.05", SINCE_2405 },
    { .name = "24.11", SINCE_2405 },
    { .name = "25.05", SINCE_2505 },
    { .name = "25.11", SINCE_2511 },
    { .name = "26.05", SINCE_2511 },
};

/* "22.05" and "22.05.8" are both 22.05. */
static bool is_release(const char *text, const char *name)
{
    int64_t minor;

    if (!str_starts(text, name))
        return false;
    text += strlen(name);
    return !*text || (*text == '.' && str_to_i64(text + 1, 10, &minor) && minor >= 0);
}

const struct slurm_version *slurm_version_find(const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
        if (is_release(text, versions[i].name))
            return &versions[i];
    return NULL;
}

void slurm_versions_list(struct buf *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
        buf_addf(out, "%s%s", i ? ", " : "", versions[i].name);
}

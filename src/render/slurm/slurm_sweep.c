/* SPDX-License-Identifier: MIT */
/* slurm_sweep: job arrays of batch components, and commands.md, the commands people need with the
 * names of this site. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

/* How many tasks of an array may run at once: as many as the QOS gives GPUs for. */
static int64_t at_once(const struct slurm *c, const struct spec_component *k)
{
    const struct spec_qos *q = k->qos ? slurm_qos(c, k->qos) : NULL;
    int64_t gpus = k->gpus * k->nodes_per_replica;
    int64_t limit = k->scale ? k->scale->max : 0;

    if (!limit && q && q->max_gpus.known && gpus)
        limit = q->max_gpus.v / gpus;
    if (q && q->max_jobs.known && (!limit || q->max_jobs.v < limit))
        limit = q->max_jobs.v;
    return limit;
}

const char *slurm_array_limit(const struct slurm *c, const struct spec_component *k,
                              char out[SLURM_TIME_MAX])
{
    int64_t limit = at_once(c, k);

    out[0] = '\0';
    if (limit)
        (void)snprintf(out, SLURM_TIME_MAX, "%%%" PRId64, limit);
    return out;
}

void slurm_sweep(struct slurm *c, const struct spec_component *k)
{
    struct buf *out = render_script(c->r, "slurm/sbatch/%s.submit.sh", k->name);
    char limit[SLURM_TIME_MAX];

    buf_adds(out, "#!/bin/bash\n");
    render_head(c->r, out, "#", "A sweep: a job array with one task a line of a file.");
    buf_addf(out,
             "#   %s.submit.sh [FILE [OPTION OF SBATCH...]]     FILE: %s.tasks unless said\n"
             "set -eu\n"
             "tasks=$(realpath \"${1:-%s.tasks}\")\n"
             "[ $# = 0 ] || shift\n"
             "count=$(grep -c -v -e '^[[:space:]]*#' -e '^[[:space:]]*$' \"$tasks\" || true)\n"
             "if [ \"$count\" = 0 ]; then\n"
             "    echo \"$tasks has no tasks\" >&2\n"
             "    exit 1\n"
             "fi\n"
             "limit='%s' # tasks at once, from QOS and scale; empty: no limit\n"
             "exec sbatch --array=\"0-$((count - 1))$limit\" --output='%%x-%%A_%%a.out' "
             "--export=ALL,TASKS=\"$tasks\" \\\n"
             "    \"$@\" \"$(dirname \"$0\")/%s.sbatch\"\n",
             k->name, k->name, k->name, slurm_array_limit(c, k, limit), k->name);
    out = render_file(c->r, "slurm/sbatch/%s.tasks.example", k->name);
    render_head(c->r, out, "#", "Task file of a sweep: copy it without .example and change it.");
    buf_addf(out,
             "# One task a line, from 0 on: words that are added to the command, as a shell reads\n"
             "# them.  Blank lines and lines that begin with '#' do not count.\n"
             "--seed 0\n"
             "--seed 1\n"
             "--seed 2 --note 'two words'\n");
}

/* --- commands.md --- */

static const struct spec_component *any_job(const struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->component_count; i++)
        if (slurm_is_job(&c->r->spec->components[i]))
            return &c->r->spec->components[i];
    return NULL;
}

static const char *any_host(const struct slurm *c, char out[SLURM_HOST_MAX])
{
    for (size_t i = 0; i < c->r->spec->node_count; i++)
        if (slurm_has(c, &c->r->spec->nodes[i]) &&
            spec_host(&c->r->spec->nodes[i], 0, out, SLURM_HOST_MAX))
            return out;
    return "HOST";
}

static void commands_jobs(const struct slurm *c, struct buf *out)
{
    const struct spec_component *k = any_job(c);
    const char *job = k ? k->name : "NAME";

    buf_addf(out,
             "\n## Jobs\n\n"
             "    sbatch sbatch/%s.sbatch            # start one\n"
             "    sbatch --test-only sbatch/%s.sbatch # could it run, and when\n"
             "    squeue --me                        # mine; --start: when they may begin\n"
             "    squeue -n %s -o '%%i %%T %%M %%l %%D %%R'\n"
             "    scontrol show job JOB              # all about one\n"
             "    scontrol requeue JOB               # again from its last checkpoint\n"
             "    scontrol update jobid=JOB StartTime=now  # a requeued job waits a minute or two\n"
             "    scontrol hold JOB                  # stays in the queue; scontrol release JOB\n"
             "    scontrol requeuehold JOB           # stop it and keep it\n"
             "    scancel JOB                        # end it; scancel -n %s: all of that name\n"
             "    scancel --signal=USR1 --batch JOB  # save, stop and requeue now\n"
             "    sprio -l                           # why this order\n",
             job, job, job, job);
    if (!c->v->max_batch_requeue)
        buf_addf(out,
                 "\nSlurm %s holds a job that was requeued five times (JobHoldMaxRequeue); "
                 "`scontrol release JOB` lets it go on.\n",
                 c->v->name);
}

static void commands_machines(const struct slurm *c, struct buf *out)
{
    char buf[SLURM_HOST_MAX];
    const char *host = any_host(c, buf);

    buf_addf(out,
             "\n## Machines\n\n"
             "    sinfo -N -o '%%N %%T %%G %%E'       # state, GPUs, reason\n"
             "    sinfo -R                           # which are drained, why, since when\n"
             "    scontrol update nodename=%s state=drain reason='what is wrong'\n"
             "    scontrol update nodename=%s state=resume\n"
             "    scontrol reboot ASAP nextstate=RESUME %s\n",
             host, host, host);
    buf_adds(out, "\nDrain a bad machine, never set it down: it would be back in seconds "
                  "(ReturnToService=2).\n");
    if (slurm_power_saves(c))
        buf_addf(out,
                 "\nMachines that sleep are marked `~`; %s/power.log says what was asked of the "
                 "site's programs.\n\n"
                 "    scontrol update nodename=HOST state=power_up\n"
                 "    scontrol update nodename=HOST state=power_down_force\n",
                 c->s->log_dir);
}

/* MIG mode outlives a boot, instances do not. */
static void commands_mig(const struct slurm *c, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];
        struct buf hosts = slurm_hosts_of(n);
        int64_t count = slurm_has(c, n) ? feasible_mig_instances(n) : 0;

        if (count && !any)
            buf_adds(out,
                     "\n## MIG\n\nGPUs are cut at every boot, before slurmd starts; it asks the "
                     "driver for the instances, with its NVML plug-in (Debian: "
                     "slurm-wlm-nvml-plugin).\n\n");
        any = any || count;
        if (count)
            buf_addf(out,
                     "    nvidia-smi -mig 1                     # on %s\n    nvidia-smi mig -cgi ",
                     buf_str(&hosts));
        for (int64_t k = 0; k < count; k++)
            buf_addf(out, "%s%s", k ? "," : "", n->gpu->mig_profile);
        buf_adds(out, count ? " -C\n" : "");
        buf_release(&hosts);
    }
}

static void commands_accounting(const struct slurm *c, struct buf *out)
{
    if (!c->s->accounting.enabled)
        return;
    buf_adds(out,
             "\n## Accounts\n\n"
             "    bash accounts.sh                   # after every change of the spec\n"
             "    sacct -X --starttime=now-7days -o jobid,jobname,state,elapsed,alloctres%60\n"
             "    sacct -j JOB --duplicates          # with the runs before a requeue\n"
             "    sreport cluster AccountUtilizationByUser start=-30days -T gres/gpu -t hours\n"
             "    sacctmgr show qos format=name,priority,maxtrespu,maxjobspu,maxwall,preempt\n"
             "    sshare -a                          # fair share\n");
    for (size_t i = 0; i < c->s->account_count; i++)
        buf_addf(out, "    sshare -A %s -a\n", c->s->accounts[i].name);
}

void slurm_commands(struct slurm *c)
{
    struct buf *out = render_file(c->r, "slurm/commands.md"), dbd = { 0 };

    if (c->s->accounting.enabled)
        buf_addf(&dbd,
                 "    mariadb                               # once, on %s: slurmdbd.conf has the "
                 "user\n"
                 "    systemctl restart slurmdbd            # on %s\n",
                 c->s->accounting.host, c->s->accounting.host);
    buf_addf(out, "# Commands of cluster %s\n\n", c->s->cluster);
    buf_adds(out, "Written by 'stoker render'; the names are those of the spec.\n");
    buf_addf(out,
             "\n## Installing\n\n"
             "    slurmd -G -N HOST -f \"$PWD/slurm.conf\"  # does slurmd accept the files\n"
             "    ./install.sh --all                    # to " SLURM_ETC
             " of every machine, by ssh\n"
             "%s"
             "    systemctl restart slurmctld           # on %s%s%s\n"
             "    systemctl restart slurmd              # on every other machine\n"
             "    scontrol reconfigure                  # later changes, but of machines\n"
             "    ./install.sh --all --back             # what was there before\n",
             buf_str(&dbd), c->s->controller, c->s->backup_controller ? " and " : "",
             c->s->backup_controller ? c->s->backup_controller : "");
    buf_release(&dbd);
    commands_jobs(c, out);
    commands_machines(c, out);
    commands_mig(c, out);
    commands_accounting(c, out);
}

/* SPDX-License-Identifier: MIT */
/* slurm_power: resume.sh, suspend.sh and resumefail.sh, which slurmctld calls with a host list.
 *
 * The site's own program gets the hosts one by one as arguments.  Two traps are taken care of:
 * slurmctld blocks signals in what it starts, so that a site's program, and all it starts, could
 * not be ended (env --default-signal unblocks them); and a machine that did not come up stays
 * "down~" for ever unless it is powered down again. */
#include "render/slurm/slurm_int.h"

static const char POWER_START[] =
    "# start PROGRAM HOST...: with the signals unblocked that slurmctld blocks\n"
    "# shellcheck disable=SC2016 # the inner shell expands it\n"
    "start() { env --default-signal bash -c 'exec \"$0\" \"$@\"' \"$@\" >>\"$log\" 2>&1; }\n";

static const char POWER_COMMON[] =
    "\n"
    "say() { printf '%s %s: %s\\n' \"$(date '+%F %T')\" \"$0\" \"$*\" >>\"$log\"; }\n"
    "\n"
    "list=${1:?usage: $0 HOSTLIST}\n"
    "mapfile -t hosts < <(scontrol show hostnames \"$list\")\n"
    "if [ ${#hosts[@]} = 0 ]; then\n"
    "    say \"no hosts in '$list'\"\n"
    "    exit 1\n"
    "fi\n";

static struct buf *power_script(struct slurm *c, const char *name, const char *what)
{
    struct buf *out = render_script(c->r, "slurm/%s.sh", name);

    buf_adds(out, "#!/bin/bash\n");
    render_head(c->r, out, "#", what);
    buf_adds(out, "set -u\n"
                  "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
    buf_adds(out, "log=");
    quote_sh(out, c->s->log_dir);
    buf_addf(out, "/power.log # %s\n", render_from(c->r, &c->s->log_dir));
    return out;
}

static void put_program(struct slurm *c, struct buf *out, const char *const *path)
{
    buf_adds(out, "program=");
    quote_sh(out, *path);
    buf_addf(out, " # %s\n", render_from(c->r, path));
    buf_adds(out, "\n");
    buf_adds(out, POWER_START);
    buf_adds(out, POWER_COMMON);
}

static void resume_write(struct slurm *c)
{
    struct buf *out =
        power_script(c, "resume", "resume.sh: starts machines, by slurmctld as user slurm.");

    put_program(c, out, &c->s->power_save->resume_program);
    buf_adds(out,
             "say \"starting ${hosts[*]}\"\n"
             "start \"$program\" \"${hosts[@]}\"\n"
             "rc=$?\n"
             "if [ $rc = 0 ]; then\n"
             "    say \"asked for ${hosts[*]}\"\n"
             "    exit 0\n"
             "fi\n"
             "# Down first: jobs that wait for these machines go elsewhere now instead of after\n"
             "# ResumeTimeout.  Powered down then: suspend.sh removes what was half started, and\n"
             "# the machines can be asked for again.\n"
             "say \"$program failed with status $rc: ${hosts[*]} did not start\"\n"
             "scontrol update nodename=\"$list\" state=down reason=\"stoker: resume failed ($rc)\" "
             ">>\"$log\" 2>&1\n"
             "scontrol update nodename=\"$list\" state=power_down >>\"$log\" 2>&1\n"
             "exit 1\n");
}

static void suspend_write(struct slurm *c)
{
    struct buf *out =
        power_script(c, "suspend", "suspend.sh: stops machines, by slurmctld as user slurm.");

    put_program(c, out, &c->s->power_save->suspend_program);
    buf_adds(
        out,
        "say \"stopping ${hosts[*]}\"\n"
        "start \"$program\" \"${hosts[@]}\"\n"
        "rc=$?\n"
        "if [ $rc = 0 ]; then\n"
        "    say \"stopped ${hosts[*]}\"\n"
        "    exit 0\n"
        "fi\n"
        "# They may still run and cost money, and nobody would know: say so where it is seen.\n"
        "say \"$program failed with status $rc: ${hosts[*]} may still be running\"\n"
        "scontrol update nodename=\"$list\" state=drain "
        "reason=\"stoker: suspend failed ($rc), may still be running\" >>\"$log\" 2>&1\n"
        "exit 1\n");
}

static void resumefail_write(struct slurm *c)
{
    struct buf *out = power_script(
        c, "resumefail",
        "resumefail.sh: machines that did not come up in ResumeTimeout, by slurmctld.");

    buf_adds(out, POWER_COMMON);
    buf_adds(out, "# They are 'down~' now and stay so unless they are powered down, which runs\n"
                  "# suspend.sh and makes them eligible again.\n"
                  "say \"${hosts[*]} did not come up in time: powering down\"\n"
                  "scontrol update nodename=\"$list\" state=power_down >>\"$log\" 2>&1\n");
}

void slurm_power_scripts(struct slurm *c)
{
    if (!slurm_power_saves(c))
        return;
    resume_write(c);
    suspend_write(c);
    resumefail_write(c);
}

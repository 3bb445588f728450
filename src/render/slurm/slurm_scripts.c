/* SPDX-License-Identifier: MIT */
/* slurm_scripts: prolog, epilog and health check of a machine, which ask `stoker detect --check`
 * and drain the machine when it fails. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>

/* --- which checks a machine gets --- */

static const char *checks_of(const struct slurm *c, const struct spec_node *n)
{
    bool rdma = render_uses_rdma(c->r, &n->fabrics);

    if (n->gpus_per_node)
        return rdma ? "gpu,rdma" : "gpu";
    return rdma ? "rdma" : "";
}

/* By lists and not by patterns: gpu[1-4] and gpu[5-8] may be two groups. */
static void checks_function(struct slurm *c, struct buf *out)
{
    buf_adds(out, "# among LIST: is this machine one of them?  Asks nobody.\n"
                  "among() { scontrol show hostnames \"$1\" | grep -qxF -- \"$node\"; }\n"
                  "\n"
                  "# What this machine must have, by its group.\n"
                  "checks() {\n");
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];
        struct buf hosts;

        if (!slurm_has(c, n) || !*checks_of(c, n))
            continue;
        hosts = slurm_hosts_of(n);
        buf_adds(out, "    ! among ");
        quote_sh(out, buf_str(&hosts));
        buf_addf(out, " || echo '%s' # %s, %s\n", checks_of(c, n), n->name,
                 render_from(c->r, &n->name));
        buf_release(&hosts);
    }
    buf_adds(out, "    return 0\n"
                  "}\n");
}

/* What the three have in common.  The driver may hang, hence the deadline; a machine without
 * stoker cannot be judged and stays in service, which the log says. */
static const char CHECK_COMMON[] =
    "\n"
    "# Drains this machine with a reason, unless it is drained already: the first reason counts.\n"
    "drain() {\n"
    "    logger -t stoker \"$node: $1\"\n"
    "    case \"$(sinfo -h -N -n \"$node\" -o %T 2>/dev/null | head -n 1)\" in\n"
    "    *drain*) return 0 ;;\n"
    "    esac\n"
    "    scontrol update nodename=\"$node\" state=drain reason=\"$1\"\n"
    "}\n"
    "\n"
    "# check WHEN: 0 when the machine is well or cannot be judged, else it is drained.\n"
    "check() {\n"
    "    local want report rc why\n"
    "    want=$(checks)\n"
    "    [ -n \"$want\" ] || return 0\n"
    "    if ! command -v stoker >/dev/null; then\n"
    "        logger -t stoker \"$node: stoker is not installed, nothing was checked\"\n"
    "        return 0\n"
    "    fi\n"
    "    report=$(timeout -k 5 45 stoker detect --check \"$want\" 2>&1)\n"
    "    rc=$?\n"
    "    case $rc in\n"
    "    0) return 0 ;;\n"
    "    1) why=$(printf '%s\\n' \"$report\" | sed -n '/^ *FAIL  */{s///;s/  */ /g;p;q}') ;;\n"
    "    124 | 137) why='no answer in 45 s' ;;\n"
    "    *)\n"
    "        logger -t stoker \"$node: stoker detect exited with $rc: ${report:0:200}\"\n"
    "        return 0\n"
    "        ;;\n"
    "    esac\n"
    "    why=${why//\\\"/}\n"
    "    drain \"stoker $1: ${why:-a check failed}\"\n"
    "    return 1\n"
    "}\n"
    "\n";

struct check_script {
    const char *name, *what, *body, *end;
};

/* One daemon for all GPUs of the machine, which lives on between jobs; clients see the GPU that
 * Slurm gave them.  It serves one user at a time, and jobs of others wait for it. */
static const char MPS_START[] =
    "\n"
    "# A job that has part of a GPU by MPS needs its control daemon; Slurm sets the variable.\n"
    "if [ -n \"${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE:-}\" ] &&\n"
    "    ! pgrep -x nvidia-cuda-mps >/dev/null; then\n"
    "    if ! env -u CUDA_VISIBLE_DEVICES -u CUDA_MPS_ACTIVE_THREAD_PERCENTAGE \\\n"
    "        setsid nvidia-cuda-mps-control -d >/dev/null 2>&1; then\n"
    "        drain 'stoker prolog: nvidia-cuda-mps-control does not start'\n"
    "        exit 1\n"
    "    fi\n"
    "fi\n";

static const struct check_script check_scripts[] = {
    { "prolog", "prolog.sh: before a job starts on a machine, by slurmd as root.",
      "# Jobs without GPUs need none that work.  On failure the job goes elsewhere.\n"
      "[ -n \"${SLURM_JOB_GPUS:-}${CUDA_VISIBLE_DEVICES:-}\" ] || exit 0\n"
      "check prolog || exit 1\n",
      "exit 0\n" },
    { "epilog", "epilog.sh: after a job on a machine, by slurmd as root.",
      "# The next job must not find what this one broke.\n"
      "[ -n \"${SLURM_JOB_GPUS:-}${CUDA_VISIBLE_DEVICES:-}\" ] || exit 0\n"
      "check epilog\n",
      "exit 0\n" },
    { "healthcheck", "healthcheck.sh: every so often on every machine, by slurmd as root.",
      "# slurmd gives it 60 s and does not look at the exit status.\n"
      "check health\n",
      "exit 0\n" },
};

void slurm_check_scripts(struct slurm *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(check_scripts); i++) {
        const struct check_script *k = &check_scripts[i];
        struct buf *out = render_script(c->r, "slurm/%s.sh", k->name);

        buf_adds(out, "#!/bin/bash\n");
        render_head(c->r, out, "#", k->what);
        buf_adds(out, "set -u\n"
                      "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                      "node=${SLURMD_NODENAME:-$(hostname -s)}\n"
                      "\n");
        checks_function(c, out);
        buf_adds(out, CHECK_COMMON);
        buf_adds(out, k->body);
        if (str_eq(k->name, "prolog") && slurm_has_mps(c))
            buf_adds(out, MPS_START);
        buf_adds(out, k->end);
    }
}

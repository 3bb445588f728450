/* SPDX-License-Identifier: MIT */
/* agent_inventory: what this machine is, asked once at the start: the topology view and a bundle
 * show it, a recording carries it.
 *
 * `stoker detect --json` is run in a process of its own, since its probe reads far more files than
 * the agent and asks the driver: what it leaves in memory goes with it, and a probe that hangs is
 * given up.  An agent without it works as well. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "os/worker/child.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { INVENTORY_STALL_MS = 15000, INVENTORY_EXIT_NO_EXEC = 127 };
#define INVENTORY_LIBRARY "STOKER_NVML_LIB="

struct detect_run {
    char *argv[6], **envp; /* made before the fork */
};

/* In the child, between fork and exec: only system calls. */
static void run_detect(struct child_link *l, void *arg)
{
    const struct detect_run *r = arg;
    sigset_t none;

    child_step(l, "detect");
    if (dup2(child_fd(l), STDOUT_FILENO) < 0)
        _exit(INVENTORY_EXIT_NO_EXEC);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)alarm(2 * INVENTORY_STALL_MS / 1000);
    (void)execve("/proc/self/exe", r->argv, r->envp);
    _exit(INVENTORY_EXIT_NO_EXEC);
}

/* Our environment with the driver's library that the agent was given; one that is to leave the
 * driver alone gets a name that no library has.  A capture has its own answers. */
static char **make_environment(const struct agent *a, char **out_library)
{
    const char *library = !a->o.no_gpu ? a->o.gpu.nvml : a->o.gpu.root_path ? NULL : "none";
    struct buf b = { 0 };
    size_t n = 0, keep = 0;
    char **list;

    while (environ[n])
        n++;
    list = xcalloc(n + 2, sizeof(*list));
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], INVENTORY_LIBRARY, strlen(INVENTORY_LIBRARY)) != 0)
            list[keep++] = environ[i];
    if (library) {
        buf_addf(&b, INVENTORY_LIBRARY "%s", library);
        list[keep] = *out_library = xstrdup(buf_str(&b));
    }
    buf_release(&b);
    return list;
}

void inventory_take(struct agent *a, struct telemetry *t)
{
    struct detect_run r = { .argv = { (char *)"stoker", (char *)"detect", (char *)"--json" } };
    struct child_report rep;
    struct err err = { 0 };
    char *library = NULL;
    struct buf out;

    if (a->o.gpu.root_path) {
        r.argv[3] = (char *)"--root";
        r.argv[4] = (char *)(uintptr_t)a->o.gpu.root_path;
    }
    r.envp = make_environment(a, &library);
    buf_init(&out, TELEMETRY_DOC_MAX);
    if (child_run(run_detect, &r, INVENTORY_STALL_MS, &out, &rep, &err) == RC_OK && rep.finished &&
        out.len && !out.over)
        telemetry_doc(t, "inventory", buf_str(&out));
    buf_release(&out);
    free(library);
    free(r.envp);
}

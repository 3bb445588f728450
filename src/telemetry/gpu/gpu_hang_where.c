/* SPDX-License-Identifier: MIT */
/* gpu_hang_where: where the kernel has a process that does not go on.  Reading these files of /proc
 * does not wait for the process. */
#include "telemetry/gpu/gpu_int.h"

#include "os/worker/process.h"

#include <string.h>

enum {
    WHERE_STACK_MAX = 2048, /* bytes read of it */
    WHERE_FRAMES_MAX = 4    /* of the stack that are told */
};

/* "[<0>] nv_wait+0x1b/0x30 [nvidia]" is nv_wait: the innermost few, joined by " < ". */
static void add_stack(char *stack, struct buf *out)
{
    int frames = 0;

    for (char *line = stack, *next; line && *line && frames < WHERE_FRAMES_MAX; line = next) {
        char *name = strstr(line, "] ");

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!name || (name && next && name > next))
            continue;
        name += 2;
        name[strcspn(name, "+")] = '\0';
        buf_addf(out, "%s%s", frames++ ? " < " : ", stack ", name);
    }
}

void gpu_hang_where(int pid, struct buf *out)
{
    char stack[WHERE_STACK_MAX];
    struct process_sleep s;

    process_sleep(pid, &s);
    s.syscall[strcspn(s.syscall, " ")] = '\0'; /* the number, or "running" */
    buf_addf(out, "pid %d", pid);
    if (s.state)
        buf_addf(out, ", state %c", s.state);
    if (s.wchan[0])
        buf_addf(out, ", in %s", s.wchan);
    if (s.syscall[0])
        buf_addf(out, ", syscall %s", s.syscall);
    if (process_read(pid, "stack", stack, sizeof(stack)))
        add_stack(stack, out);
}

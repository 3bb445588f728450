/* SPDX-License-Identifier: MIT */
/* gpu_hang_where: where the kernel has a process that does not go on.  Reading these files of /proc
 * does not wait for the process. */
#include "telemetry/gpu/gpu_int.h"

#include "base/str.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    WHERE_FILE_MAX = 2048, /* bytes read of a file */
    WHERE_FRAMES_MAX = 4   /* of the stack that are told */
};

static bool read_proc(int pid, const char *name, char *out, size_t cap)
{
    char path[64];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, out, cap - 1);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    str_make_text(out);
    return n > 0;
}

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
    char text[WHERE_FILE_MAX], *paren;

    buf_addf(out, "pid %d", pid);
    if (read_proc(pid, "stat", text, sizeof(text)) && (paren = strrchr(text, ')')) &&
        paren[1] == ' ' && paren[2])
        buf_addf(out, ", state %c", paren[2]);
    if (read_proc(pid, "wchan", text, sizeof(text)) && !str_eq(text, "0"))
        buf_addf(out, ", in %s", text);
    if (read_proc(pid, "syscall", text, sizeof(text))) {
        text[strcspn(text, " \n")] = '\0'; /* the number, or "running" */
        buf_addf(out, ", syscall %s", text);
    }
    if (read_proc(pid, "stack", text, sizeof(text)))
        add_stack(text, out);
}

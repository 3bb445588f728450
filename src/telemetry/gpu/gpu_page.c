/* SPDX-License-Identifier: MIT */
/* gpu_page: the memory that the agent and its GPU child share.
 *
 * It is a file without a name whose descriptor travels over the socket.  A child that was left
 * alone keeps its own page: the next one gets a copy of what is carried over. */
#include "telemetry/gpu/gpu_int.h"

#include "base/str.h"
#include "os/worker/fd_message.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct gpu_page *page_map(int fd)
{
    void *p = mmap(NULL, sizeof(struct gpu_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

int gpu_page_new(const struct gpu_child_opts *o, const struct gpu_page *old, struct gpu_page **out)
{
    int fd = memfd_create("stoker-gpu", MFD_CLOEXEC);
    struct gpu_page *p;

    if (fd < 0 || ftruncate(fd, sizeof(*p)) || !(p = page_map(fd))) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    p->magic = GPU_PAGE_MAGIC;
    p->period_ms = o->period_ms;
    str_copy(p->library, sizeof(p->library), o->nvml ? o->nvml : "");
    str_copy(p->root, sizeof(p->root), o->root_path ? o->root_path : "");
    for (size_t i = 0; old && i < NVML_GPUS_MAX; i++)
        if (old->carry[i].uuid[0]) /* the rest stays untouched: no memory is used for it */
            p->carry[i] = old->carry[i];
    *out = p;
    return fd;
}

void gpu_page_unmap(struct gpu_page *p)
{
    if (p)
        munmap(p, sizeof(*p));
}

bool gpu_page_send(int sock, int fd)
{
    return fd_message_send(sock, "P", 1, fd);
}

struct gpu_page *gpu_page_receive(int sock, int timeout_ms)
{
    struct pollfd ready = { .fd = sock, .events = POLLIN };
    struct gpu_page *p = NULL;
    char byte;
    int fd;

    if (poll(&ready, 1, timeout_ms) <= 0 || fd_message_receive(sock, &byte, 1, &fd) != 1 || fd < 0)
        return NULL;
    if (lseek(fd, 0, SEEK_END) == (off_t)sizeof(*p))
        p = page_map(fd);
    close(fd);
    if (p && p->magic != GPU_PAGE_MAGIC) {
        gpu_page_unmap(p);
        p = NULL;
    }
    return p;
}

struct gpu_step gpu_page_step(const struct gpu_page *p)
{
    uint64_t beat = atomic_load(&p->beat);
    struct gpu_step s = { .steps = (unsigned)(beat >> 32),
                          .call = (unsigned)(beat >> 20) & 0xfff,
                          .gpu = (int)(beat >> 12 & 0xff),
                          .sub = (int)(beat & 0xfff) };

    if (s.gpu >= NVML_GPUS_MAX)
        s.gpu = -1;
    if (s.sub == GPU_NO_SUB)
        s.sub = -1;
    return s;
}

void gpu_step_text(struct gpu_step s, char *out, size_t cap)
{
    const char *name = gpu_call_name(s.call);

    if (s.gpu >= 0 && s.sub >= 0)
        snprintf(out, cap, "%s(%d, %d)", name, s.gpu, s.sub);
    else if (s.gpu >= 0)
        snprintf(out, cap, "%s(%d)", name, s.gpu);
    else
        snprintf(out, cap, "%s()", name);
}

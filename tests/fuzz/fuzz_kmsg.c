/* SPDX-License-Identifier: MIT */
/* A kernel log of anything, in the formats of /dev/kmsg and dmesg: reading ends, events are text,
 * and what is counted adds up. */
#include "fuzz.h"

#include "base/str.h"
#include "telemetry/kmsg/kmsg_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EVENTS = 256 };

static void events_check(struct telemetry *t)
{
    static struct telemetry_event events[EVENTS];
    size_t n = telemetry_events(t, INT64_MIN, events, EVENTS);

    for (size_t i = 0; i < n; i++)
        if (!memchr(events[i].text, 0, sizeof(events[i].text)) ||
            !str_is_text(events[i].text, strlen(events[i].text)) || events[i].gpu < -1 ||
            events[i].code < 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct root *root;
    struct telemetry *t = telemetry_new(64);
    struct kmsg_stats st;
    char path[64];
    struct kmsg *k;
    int fd = memfd_create("kmsg", 0);

    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (!root && root_open("/", &root, NULL))
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    k = kmsg_open(root, path);
    for (int i = 0; i < 2; i++)
        kmsg_poll(k, t);
    kmsg_stats(k, &st);
    if (st.cut > st.lines || st.lines > size)
        abort();
    events_check(t);
    kmsg_close(k);
    close(fd);
    telemetry_free(t);
    return 0;
}

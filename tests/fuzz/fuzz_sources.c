/* SPDX-License-Identifier: MIT */
/* The files the system's sources read, filled with anything: the input is cut at NUL
 * bytes and the pieces become the files below, in order.  Whatever they hold, the
 * sources end, and what they found writes to JSON that reads back. */
#include "fuzz.h"

#include "base/mem.h"
#include "hw/hw_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {
    "/proc/self/mountinfo",
    "/proc/self/cgroup",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/cmdline",
    "/proc/driver/nvidia/version",
    "/stoker/self.json",
    "/etc/os-release",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "/sys/devices/system/cpu/cpu0/cache/index0/level",
    "/sys/devices/system/cpu/cpu0/cache/index0/size",
    "/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
    "/sys/devices/system/node/node0/distance",
    "/sys/fs/cgroup/cpu.max",
    "/sys/block/nvme0n1/size",
    "/sys/block/nvme0n1/queue/scheduler",
    "/usr/local/cuda/version.json",
    "/usr/include/nccl.h",
    "/opt/conda/lib/python3.11/site-packages/torch/version.py",
};

#include "fuzz_tree.h"

static void check(const struct hw *hw)
{
    struct buf once = { 0 }, twice = { 0 };
    struct hw *back = NULL;

    hw_write_json(hw, &once);
    if (hw_read_json(once.data, once.len, &back, NULL))
        abort();
    hw_write_json(back, &twice);
    if (once.len != twice.len || memcmp(once.data, twice.data, once.len))
        abort();
    hw_free(back);
    buf_release(&once);
    buf_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const sources[])(struct hw_build *) = {
        hw_src_self,   hw_src_place,   hw_src_cpu,      hw_src_memory,
        hw_src_limits, hw_src_storage, hw_src_software,
    };
    struct hw_build b = { .hw = xcalloc(1, sizeof(struct hw)) };

    if (!top[0])
        make_tree();
    write_files(data, size);
    b.a = &b.hw->arena;
    if (root_open(top, &b.root, NULL))
        abort();
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        sources[i](&b);
    hw_clean(&hw_table, b.hw);
    check(b.hw);
    root_close(b.root);
    hw_free(b.hw);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* The files of the host's sources, filled with anything: the input is cut at NUL bytes and the
 * pieces become the files below, in order.  Whatever they hold, three samples of every source end,
 * and no value is negative or infinite. */
#include "fuzz.h"

#include "base/attr.h"
#include "telemetry/collect/collect_int.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {
    "/proc/stat",
    "/proc/self/mountinfo",
    "/proc/self/mountstats",
    "/proc/net/dev",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/net/snmp",
    "/proc/loadavg",
    "/proc/pressure/io",
    "/proc/net/rpc/nfs",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/limits",
    "/proc/fs/lustre/llite/scratch-ffff8881/stats",
    "/proc/fs/lustre/osc/scratch-OST0001-osc-ffff8881/stats",
    "/proc/fs/lustre/osc/scratch-OST0001-osc-ffff8881/state",
    "/sys/class/infiniband/mlx5_0/ports/1/state",
    "/sys/class/infiniband/mlx5_0/ports/1/rate",
    "/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
    "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed",
    "/sys/devices/system/node/node0/meminfo",
    "/sys/class/net/eth0/speed",
    "/stoker/statvfs",
};

#include "fuzz_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct root *root;
    struct telemetry *t = telemetry_new(1024);

    if (!top[0])
        make_tree();
    write_files(data, size);
    if (root_open(top, &root, NULL))
        abort();
    for (size_t i = 0; collectors[i]; i++) {
        void *s = collectors[i]->open(root, t);

        for (int64_t n = 1; n <= 3; n++)
            collectors[i]->sample(s, t, n * 1000000000);
        collectors[i]->close(s);
    }
    for (size_t i = 0; i < telemetry_count(t); i++)
        if (isinf(telemetry_value(t, (uint32_t)i)) || telemetry_value(t, (uint32_t)i) < 0)
            abort();
    root_close(root);
    telemetry_free(t);
    return 0;
}

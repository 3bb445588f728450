/* SPDX-License-Identifier: MIT */
/* A machine's inventory that is read gives a cluster whose sizes and rates are numbers that can
 * be. */
#include "fuzz.h"

#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_cluster c;

    for (int64_t gpus = 0; gpus <= 16; gpus += 8) {
        if (plan_cluster_from_detect((const char *)data, size, gpus, &c, NULL))
            continue;
        if (c.gpus < 1 || c.node_gpus < 1 || c.gpu.mem_bytes < 1 || !c.gpu.name[0])
            abort();
        if (!isfinite(c.gpu.mem_bytes_s) || !isfinite(c.gpu.bf16_flops) ||
            !isfinite(c.gpu.link_bytes_s) || !isfinite(c.net_bytes_s) || c.net_bytes_s < 0)
            abort();
    }
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* range: an inventory that comes as a file is from outside: figures that no machine has are an
 * error there, before somebody divides by them or writes them into a scheduler's configuration.
 * A probe needs none of this: its figures are the kernel's.
 *
 * Only figures that others reckon with are here.  Unknown is always allowed. */
#include "hw/hw_int.h"

#include <inttypes.h>

enum {
    RANGE_CPUS_MAX = 65536,         /* cores or threads of a machine */
    RANGE_SOCKETS_MAX = 1024,       /* sockets of a machine */
    RANGE_MEMORY_TIB_MAX = 1024,    /* memory of a machine, in TiB */
    RANGE_GPU_GIB_MAX = 16384,      /* memory of a GPU, in GiB */
    RANGE_RATE_MBPS_MAX = 100000000 /* rate of a port, in megabits a second */
};

static enum rc range_of(const char *what, struct maybe v, int64_t min, int64_t max, struct err *err)
{
    if (!v.known || (v.v >= min && v.v <= max))
        return RC_OK;
    return err_set(err, RC_PARSE, "%s is %" PRId64 ", which is outside %" PRId64 " to %" PRId64,
                   what, v.v, min, max);
}

static enum rc range_gpus(const struct hw *hw, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < hw->gpus_count && rc == RC_OK; i++) {
        const struct hw_gpu *g = &hw->gpus[i];

        rc = range_of("mem_total_bytes of a GPU", g->mem_total_bytes, 1,
                      (int64_t)RANGE_GPU_GIB_MAX << 30, err);
        if (rc == RC_OK)
            rc = range_of("power_limit_mw of a GPU", g->power_limit_mw, 0, INT32_MAX, err);
    }
    return rc;
}

static enum rc range_ports(const struct hw *hw, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < hw->rdma_count && rc == RC_OK; i++)
        for (size_t k = 0; k < hw->rdma[i].ports_count && rc == RC_OK; k++)
            rc = range_of("rate_mbps of an RDMA port", hw->rdma[i].ports[k].rate_mbps, 0,
                          RANGE_RATE_MBPS_MAX, err);
    for (size_t i = 0; i < hw->nets_count && rc == RC_OK; i++)
        rc = range_of("mtu of an interface", hw->nets[i].mtu, 0, INT32_MAX, err);
    return rc;
}

enum rc hw_range_check(const struct hw *hw, struct err *err)
{
    const struct hw_cpu *cpu = &hw->cpu;
    enum rc rc = range_of("cpu.sockets", cpu->sockets, 1, RANGE_SOCKETS_MAX, err);

    if (rc == RC_OK)
        rc = range_of("cpu.cores", cpu->cores, 1, RANGE_CPUS_MAX, err);
    if (rc == RC_OK)
        rc = range_of("cpu.threads", cpu->threads, 1, RANGE_CPUS_MAX, err);
    if (rc == RC_OK && cpu->cores.known && cpu->threads.known && cpu->threads.v < cpu->cores.v)
        rc = err_set(err, RC_PARSE, "cpu.threads is %" PRId64 ", fewer than the %" PRId64 " cores",
                     cpu->threads.v, cpu->cores.v);
    if (rc == RC_OK)
        rc = range_of("memory.total_bytes", hw->memory.total_bytes, 1,
                      (int64_t)RANGE_MEMORY_TIB_MAX << 40, err);
    if (rc == RC_OK)
        rc = range_gpus(hw, err);
    return rc == RC_OK ? range_ports(hw, err) : rc;
}

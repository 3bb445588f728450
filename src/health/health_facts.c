/* SPDX-License-Identifier: MIT */
/* health_facts: small questions about an inventory that several checks ask. */
#include "base/str.h"
#include "health/health_int.h"

#include <assert.h>

const char *facts_gpu_name(const struct hw_gpu *g, char out[FACTS_NAME_MAX])
{
    if (g->index.known)
        snprintf(out, FACTS_NAME_MAX, "GPU %lld", (long long)g->index.v);
    else
        snprintf(out, FACTS_NAME_MAX, "%.40s", g->bdf ? g->bdf : "a GPU without address");
    return out;
}

bool facts_gpu_ok(const struct hw_gpu *g)
{
    return str_eq(g->state, "ok");
}

size_t facts_gpus_ok(const struct hw *hw)
{
    size_t n = 0;

    for (size_t i = 0; i < hw->gpus_count; i++)
        n += facts_gpu_ok(&hw->gpus[i]);
    return n;
}

struct maybe facts_host_mem_bytes(const struct hw *hw)
{
    struct maybe total = hw->memory.total_bytes;
    int64_t gpus = 0;
    bool chip = false;

    for (size_t i = 0; i < hw->gpus_count; i++)
        chip = chip || maybe_is(hw->gpus[i].c2c, 1);
    for (size_t i = 0; chip && i < hw->numa_count; i++)
        if (!hw->numa[i].cpus && hw->numa[i].mem_total_bytes.known)
            gpus += hw->numa[i].mem_total_bytes.v;
    return total.known && gpus < total.v ? maybe_of(total.v - gpus) : total;
}

bool facts_mig_on(const struct hw *hw)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (facts_gpu_ok(&hw->gpus[i]) && maybe_is(hw->gpus[i].mig, 1))
            return true;
    return false;
}

struct maybe facts_gpu_mem_bytes(const struct hw *hw)
{
    int64_t sum = 0;
    bool any = false;

    FOR_EACH(const struct hw_gpu, g, hw->gpus) {
        if (!facts_gpu_ok(g))
            continue;
        if (!g->mem_total_bytes.known)
            return maybe_none();
        any = true;
        if (__builtin_add_overflow(sum, g->mem_total_bytes.v, &sum))
            return maybe_none();
    }
    return any ? maybe_of(sum) : maybe_none();
}

bool facts_in_container(const struct hw *hw)
{
    return hw->place.container || hw->place.k8s_pod;
}

bool facts_port_active(const struct hw_rdma_port *p)
{
    return str_eq(p->state, "ACTIVE");
}

bool facts_port_ib(const struct hw_rdma_port *p)
{
    return str_eq(p->link_layer, "InfiniBand");
}

bool facts_is_efa(const struct hw_rdma *d)
{
    return str_eq(d->driver, "efa") || (d->name && str_starts(d->name, "efa"));
}

bool facts_rdma_here(const struct hw *hw, const struct hw_rdma *d)
{
    for (size_t i = 0; i < d->netdevs_count; i++)
        if (hw_find_net(hw, d->netdevs[i]))
            return true;
    for (size_t i = 0; i < d->ports_count; i++)
        for (size_t j = 0; j < d->ports[i].gids_count; j++)
            if (d->ports[i].gids[j].ndev)
                return true;
    return false;
}

bool facts_rdma_roce(const struct hw_rdma *d)
{
    for (size_t i = 0; i < d->ports_count; i++)
        if (str_eq(d->ports[i].link_layer, "Ethernet"))
            return true;
    return false;
}

bool facts_rdma_ours(const struct hw *hw, const struct hw_rdma *d)
{
    bool any = false;

    if (!facts_in_container(hw))
        return true;
    if (d->openable.known)
        return d->openable.v != 0;
    if (!facts_rdma_roce(d))
        return true;
    for (size_t i = 0; i < hw->rdma_count && !any; i++)
        any = facts_rdma_roce(&hw->rdma[i]) && facts_rdma_here(hw, &hw->rdma[i]);
    return !any || facts_rdma_here(hw, d);
}

size_t facts_rdma_ours_count(const struct hw *hw)
{
    size_t n = 0;

    for (size_t i = 0; i < hw->rdma_count; i++)
        n += facts_rdma_ours(hw, &hw->rdma[i]);
    return n;
}

const char *facts_rdma_none(const struct hw *hw)
{
    return hw->rdma_count ? "the RDMA devices that sysfs shows are the host's, none was given to "
                            "this container"
                          : "no RDMA device here";
}

bool facts_rdma_active(const struct hw *hw)
{
    for (size_t i = 0; i < hw->rdma_count; i++)
        for (size_t j = 0; j < hw->rdma[i].ports_count; j++)
            if (facts_port_active(&hw->rdma[i].ports[j]))
                return true;
    return false;
}

/* One number of a version: at most six digits, so that it fits any int. */
static const char *version_part(const char *s, int *out)
{
    int v = 0, digits = 0;

    for (; *s >= '0' && *s <= '9' && digits < 6; s++, digits++)
        v = v * 10 + (*s - '0');
    if (digits == 0)
        return NULL;
    *out = v;
    return s;
}

bool facts_version(const char *text, int *major, int *minor)
{
    int ma, mi = 0;
    const char *rest = text ? version_part(text, &ma) : NULL;

    if (!rest)
        return false;
    if (*rest == '.' && !version_part(rest + 1, &mi))
        return false;
    *major = ma;
    *minor = mi;
    return true;
}

int facts_version_cmp(const char *text, int major, int minor)
{
    int ma = 0, mi = 0;
    bool ok = facts_version(text, &ma, &mi);

    assert(ok);
    (void)ok;
    if (ma != major)
        return ma < major ? -1 : 1;
    return mi == minor ? 0 : mi < minor ? -1 : 1;
}

/* Is `a` of a newer version than `b`?  A version that is not told is the oldest. */
static bool soft_newer(const struct hw_soft *a, const struct hw_soft *b)
{
    int major, minor, other;

    if (!facts_version(a->version, &major, &minor))
        return false;
    return !facts_version(b->version, &other, &other) ||
           facts_version_cmp(b->version, major, minor) < 0;
}

const struct hw_soft *facts_soft(const struct hw *hw, const char *name)
{
    const struct hw_soft *best = NULL;

    if (str_eq(name, "nccl"))
        return hw_nccl_soft(hw);
    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, name) && (!best || soft_newer(&hw->software[i], best)))
            best = &hw->software[i];
    return best;
}

bool facts_net_plugin(const struct hw *hw)
{
    return hw->nccl.net_plugin || facts_soft(hw, "nccl-net-plugin");
}

bool facts_is_arm(const struct hw *hw)
{
    return str_eq(hw->cpu.arch, "aarch64");
}

/* SPDX-License-Identifier: MIT */
/* checks_catalog: is each GPU what its model is sold as?
 *
 * The driver says what the board has now; the catalogue says what the model should have.
 * Memory set aside for good, or a board that was built or flashed for less power, shows
 * only against it. */
#include "base/str.h"
#include "base/text/units.h"
#include "catalog/catalog.h"
#include "health/health_int.h"

/* Data sheets round, and the driver keeps a little for itself: less than this share of
 * the figure is a difference. */
enum { CATALOG_PERCENT = 95 };

static const struct cat_gpu *catalog_row(const struct hw *hw, const struct hw_gpu *g,
                                         const struct cat_gpu_table *t)
{
    const struct hw_pci *p = g->bdf ? hw_find_pci(hw, g->bdf) : NULL;

    return cat_gpu_find(t, p ? p->device : maybe_none(), g->name);
}

static void judge_memory(const struct hw_gpu *g, const struct cat_gpu *c, struct check_out *o)
{
    char text[UNITS_TEXT_MAX];
    struct maybe have = g->mem_total_bytes;

    if (str_eq(g->virtualization, "vgpu"))
        check_skip(o, "a vGPU has less memory than its GPU by design");
    else if (!have.known || !c->mem_gb.known)
        check_unknown(o, NULL, "the %s has no memory size to compare",
                      have.known ? "catalogue's row" : "driver's answer");
    else if (have.v / 10000000 < c->mem_gb.v * CATALOG_PERCENT)
        check_warn(o,
                   "Look for Xid 168 in `dmesg` and for reserved memory in `nvidia-smi -q`; a vGPU "
                   "has less by design.",
                   "%s of memory, the %s has %lld GB", units_bytes_human((uint64_t)have.v, text),
                   c->name, (long long)c->mem_gb.v);
    else
        check_pass(o, "the memory of the %s", c->name);
}

static void judge_power(const struct hw_gpu *g, const struct cat_gpu *c, struct check_out *o)
{
    struct maybe have = g->power_default_mw;

    if (!have.known || !c->tdp_w.known)
        check_unknown(o, NULL, "no power limit to compare with that of the %s", c->name);
    else if (have.v / 10 < c->tdp_w.v * CATALOG_PERCENT)
        check_warn(o,
                   "Ask the vendor whether the board is built for it; it will be slower than its "
                   "data sheet.",
                   "%lld W by default, the %s has %lld W", (long long)(have.v / 1000), c->name,
                   (long long)c->tdp_w.v);
    else
        check_pass(o, "the power of the %s", c->name);
}

/* Runs `judge` for each GPU that answers and that the catalogue knows. */
static void each_known(const struct hw *hw, struct check_out *o,
                       void (*judge)(const struct hw_gpu *, const struct cat_gpu *,
                                     struct check_out *))
{
    struct cat_gpu_table t = { 0 };
    struct arena a = { 0 };
    char name[FACTS_NAME_MAX];

    if (facts_gpus_ok(hw) == 0)
        check_skip(o, hw->gpus_count ? "no GPU answers the driver" : "no GPU here");
    else if (cat_gpu_load(&a, &t, NULL))
        check_unknown(o, NULL, "the catalogue could not be read");
    for (size_t i = 0; t.count && i < hw->gpus_count; i++) {
        const struct hw_gpu *g = &hw->gpus[i];
        const struct cat_gpu *c = catalog_row(hw, g, &t);

        if (!facts_gpu_ok(g))
            continue;
        o->object = facts_gpu_name(g, name);
        if (c)
            judge(g, c, o);
        else
            check_skip(o, "%s is not in the catalogue", g->name ? g->name : "the model");
    }
    o->object = NULL;
    arena_release(&a);
}

static void gpu_memory_size(const struct hw *hw, struct check_out *o)
{
    each_known(hw, o, judge_memory);
}

static void gpu_board_power(const struct hw *hw, struct check_out *o)
{
    each_known(hw, o, judge_power);
}

static const struct health_check rows[] = {
    HEALTH_CHECK(
        "gpu.memory-size", CHECK_GPU | CHECK_TRAINING, "memory size", .fn = gpu_memory_size,
        "The GPU has the memory its model is sold with (95 % of the figure in the catalogue). "
        "Memory that the driver took out of use for good is missing here."),
    HEALTH_CHECK("gpu.board-power", CHECK_GPU | CHECK_TRAINING, "board power",
                 .fn = gpu_board_power,
                 "The board's default power limit is that of its model (95 % of the catalogue's)."),
};

const struct check_table checks_catalog = { rows, ARRAY_SIZE(rows) };

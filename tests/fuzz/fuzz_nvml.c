/* SPDX-License-Identifier: MIT */
/* What the driver's child or a capture sends, as lines and as a document, merged
 * with a machine of two GPUs.  The merge must keep its promises whatever it is fed:
 * GPUs in order, each with a state, pairs that point to GPUs. */
#include "fuzz.h"

#include "hw/nvml/nvml_int.h"

#include <stdlib.h>
#include <unistd.h>

static void check(const struct hw *hw)
{
    if (hw->gpus_count < 2 || hw->gpus_count > NVML_GPUS_MAX)
        abort();
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (!hw->gpus[i].state)
            abort();
    for (size_t i = 0; i < hw->gpu_pairs_count; i++) {
        const struct hw_gpu_pair *p = &hw->gpu_pairs[i];

        if (!p->a.known || !p->b.known || p->a.v < 0 || p->a.v >= p->b.v ||
            (size_t)p->b.v >= hw->gpus_count)
            abort();
    }
}

static void merge(struct root *root, const struct hw_nvml *n)
{
    static const struct hw_opts opts;
    struct hw_pci pci[2] = {
        { .bdf = "0000:1b:00.0", .driver = "nvidia" },
        { .bdf = "0000:43:00.0", .driver = "nvidia", .alive = maybe_of(0) },
    };
    struct hw hw = { .pci = pci, .pci_count = 2 };
    struct hw_build b = { .hw = &hw, .a = &hw.arena, .root = root, .opts = &opts };
    struct buf out = { 0 };

    for (size_t i = 0; i < 2; i++) {
        pci[i].vendor = maybe_of(0x10de);
        pci[i].device = maybe_of(0x2330);
        pci[i].class_ = maybe_of(0x030200);
    }
    nvml_merge(&b, n);
    check(&hw);
    hw_write_json(&hw, &out);
    buf_release(&out);
    arena_release(&hw.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct root *root; /* an empty folder, removed but open */
    char dir[] = "/tmp/fuzz_nvml.XXXXXX";
    struct arena a = { 0 };
    struct hw_nvml n;

    if (!root && (!mkdtemp(dir) || root_open(dir, &root, NULL) || rmdir(dir)))
        abort();
    if (!nvml_join(&a, (const char *)data, size, &n, NULL))
        merge(root, &n);
    if (!nvml_read_json(&a, (const char *)data, size, &n, NULL))
        merge(root, &n);
    arena_release(&a);
    return 0;
}

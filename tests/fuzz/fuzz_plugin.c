/* SPDX-License-Identifier: MIT */
/* A line of the CUDA plug-in that is taken, written again, must be taken again and be
 * the same line. */
#include "fuzz.h"

#include "base/buf.h"
#include "engine/plugin_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stoker_cuda_device d, again;
    struct buf once = { 0 }, twice = { 0 };

    if (plugin_device_read((const char *)data, size, &d)) {
        plugin_device_write(&d, &once);
        if (!plugin_device_read(once.data, once.len - 1, &again))
            abort();
        plugin_device_write(&again, &twice);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len))
            abort();
    }
    buf_release(&once);
    buf_release(&twice);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* An inventory that reads must write to a text that reads to the same text. */
#include "fuzz.h"

#include "hw/hw.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf once = { 0 }, twice = { 0 };
    struct hw *hw = NULL, *back = NULL;

    if (hw_read_json((const char *)data, size, &hw, NULL) == RC_OK) {
        hw_write_json(hw, &once);
        if (hw_read_json(once.data, once.len, &back, NULL))
            abort();
        hw_write_json(back, &twice);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len))
            abort();
    }
    hw_free(hw);
    hw_free(back);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}

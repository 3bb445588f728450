/* SPDX-License-Identifier: MIT */
/* An inventory that reads must write to a text that reads to the same text, and is equal to
 * itself. */
#include "fuzz.h"

#include "hw/compare/compare.h"

#include <stdlib.h>
#include <string.h>

static void compare_twice(const struct hw *hw, const struct hw *back)
{
    static const char *const names[] = { "a", "b" };
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d;
    struct term term = { .width = 80 };
    struct buf out = { 0 };
    size_t count = 0;

    if (!hw_compare_add(c, hw, NULL) && !hw_compare_add(c, back, NULL)) {
        d = hw_compare_end(c, &count);
        hw_compare_print(d, count, names, 2, &term, &out);
        if (count)
            abort();
    }
    buf_release(&out);
    hw_compare_free(c);
}

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
        compare_twice(hw, back);
    }
    hw_free(hw);
    hw_free(back);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}

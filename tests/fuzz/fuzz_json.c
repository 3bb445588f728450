/* SPDX-License-Identifier: MIT */
/* What json_parse() lets through, the writer must write so that it parses again to
 * the same text. */
#include "fuzz.h"

#include "base/text/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = { 0 };
    struct buf once = { 0 }, twice = { 0 };
    struct json_out w;
    struct json *v;

    if (!json_parse(&a, (const char *)data, size, &v, NULL)) {
        json_out_init(&w, &once, 2);
        json_add_value(&w, v);
        if (json_parse(&a, once.data, once.len, &v, NULL))
            abort();
        json_out_init(&w, &twice, 2);
        json_add_value(&w, v);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len))
            abort();
    }
    buf_release(&once);
    buf_release(&twice);
    arena_release(&a);
    return 0;
}

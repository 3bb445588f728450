/* SPDX-License-Identifier: MIT */
/* What another agent says of its node: no text breaks the reader, and what is kept of it is JSON
 * again. */
#include "fuzz.h"

#include "agent/api/api_parts_int.h"
#include "base/arena.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_brief out = { 0 };
    struct arena arena = { 0 };
    struct json *tree;
    struct err err = { 0 };

    buf_init(&out.members, API_FLEET_BODY_MAX);
    if (api_brief_of((const char *)data, size, &out, &err) == RC_OK && !out.members.over &&
        json_parse(&arena, buf_str(&out.members), out.members.len, &tree, &err))
        abort();
    arena_release(&arena);
    buf_release(&out.members);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Any bytes as a spec: errors or a spec that can be shown and read again. */
#include "fuzz.h"
#include "spec/spec.h"

#include <stdlib.h>

static void show_and_read(const struct spec *s)
{
    const struct term term = { 0 };
    struct buf text = { 0 };
    struct spec *again = NULL;

    spec_show(s, &term, SPEC_SHOW_LINES, &text);
    if (spec_parse(buf_str(&text), text.len, "shown", &again, NULL, NULL))
        abort();
    spec_free(again);
    buf_reset(&text);
    spec_show_json(s, &text);
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct term term = { .colour = true };
    struct spec_diags diags = { 0 };
    struct buf text = { 0 };
    struct spec *s = NULL;

    if (spec_parse((const char *)data, size, "fuzz", &s, &diags, NULL) == RC_OK)
        show_and_read(s);
    else if (!diags.count)
        abort();
    spec_diags_print(&diags, &term, &text);
    buf_release(&text);
    spec_diags_release(&diags);
    spec_free(s);
    return 0;
}

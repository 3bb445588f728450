/* SPDX-License-Identifier: MIT */
/* Any bytes as a spec, rendered for every target: files, or a fault with its place; the same files
 * when it is done again. */
#include "fuzz.h"
#include "render/render.h"

#include <stdlib.h>
#include <string.h>

static enum rc one(struct spec *s, const struct render_target *t, struct render_set *out)
{
    struct spec_diags diags = { 0 };
    struct err err = { 0 };
    enum rc rc = render_run(&(struct render_input){ .spec = s, .targets = &t, .target_count = 1 },
                            out, &diags, &err);

    if (rc == RC_PARSE ? !diags.count : rc != RC_OK && rc != RC_LIMIT)
        abort();
    spec_diags_release(&diags);
    return rc;
}

static void twice(struct spec *s, const struct render_target *t)
{
    struct render_set a = { 0 }, b = { 0 };

    if (one(s, t, &a) != one(s, t, &b) || a.count != b.count)
        abort();
    for (size_t i = 0; i < a.count; i++)
        if (strcmp(a.files[i]->path, b.files[i]->path) ||
            strcmp(buf_str(&a.files[i]->text), buf_str(&b.files[i]->text)))
            abort();
    render_set_release(&a);
    render_set_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spec *s = NULL;

    if (spec_parse((const char *)data, size, "fuzz", &s, NULL, NULL) == RC_OK)
        for (size_t i = 0; i < render_target_count(); i++)
            twice(s, render_target_at(i));
    spec_free(s);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* The texts of the last run, as a folder that others write to holds them, and a merge of the first
 * three parts of the same bytes: a change of one side alone is what comes out. */
#include "fuzz.h"

#include "render/outdir/bases_int.h"
#include "render/text/text_diff_int.h"

#include <stdlib.h>
#include <string.h>

static void check_bases(const uint8_t *data, size_t size)
{
    struct bases b = { 0 };
    char sum[SHA256_HEX];

    buf_add(&b.text, data, size);
    bases_parse(&b);
    for (size_t i = 0; i < b.count; i++)
        if (strcmp(bases_sum(b.items[i].text, b.items[i].len, sum), b.items[i].sum) != 0 ||
            !bases_find(&b, sum))
            abort();
    bases_release(&b);
}

static bool is_text(const struct buf *b, struct render_text t)
{
    return b->len == t.len && (!t.len || !memcmp(b->data, t.p, t.len));
}

static void check_merge(struct render_text base, struct render_text mine, struct render_text theirs)
{
    struct buf out = { 0 };

    (void)render_merge_text(base, mine, theirs, &out);
    buf_reset(&out);
    if (!render_merge_text(base, mine, base, &out) || !is_text(&out, mine))
        abort();
    buf_reset(&out);
    if (!render_merge_text(base, base, theirs, &out) || !is_text(&out, theirs))
        abort();
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    size_t a = size / 3, b = 2 * (size / 3);

    check_bases(data, size);
    if (size && size < 4096)
        check_merge((struct render_text){ p, a }, (struct render_text){ p + a, b - a },
                    (struct render_text){ p + b, size - b });
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Any bytes as a spec: errors or a spec that can be shown and read again.  Lines "%%% NAME" part
 * the bytes into files: the first is the spec, the others are what it may include. */
#include "fuzz.h"
#include "spec/spec_int.h"

#include <stdlib.h>
#include <string.h>

static const char MARK[] = "\n%%% ";

struct files {
    const char *data, *end;
};

/* The text of a file by name, from memory. */
static enum rc files_read(void *ctx, const char *path, struct buf *out, struct err *err)
{
    const struct files *f = ctx;
    size_t mark = sizeof(MARK) - 1, len = strlen(path);

    for (const char *p = f->data; (p = memmem(p, (size_t)(f->end - p), MARK, mark)) != NULL;) {
        const char *next;

        p += mark;
        if ((size_t)(f->end - p) <= len || memcmp(p, path, len) != 0 || p[len] != '\n')
            continue;
        p += len + 1;
        next = memmem(p, (size_t)(f->end - p), MARK, mark);
        buf_add(out, p, (size_t)((next ? next : f->end) - p));
        return RC_OK;
    }
    return err_set(err, RC_FAIL, "there is no '%s'", path);
}

static void show_and_read(const struct spec *s)
{
    const struct term term = { 0 };
    struct buf text = { 0 };
    struct spec *again = NULL;

    spec_show(s, &term, false, &text);
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
    struct files files = { (const char *)data, (const char *)data + size };
    const struct spec_source source = { files_read, &files };
    const char *mark = memmem(data, size, MARK, sizeof(MARK) - 1);
    size_t first = mark ? (size_t)(mark - files.data) + 1 : size;
    struct spec_diags diags = { 0 };
    struct buf text = { 0 };
    struct spec *s = NULL;

    if (spec_parse_with(files.data, first, "fuzz", &source, &s, &diags, NULL) == RC_OK)
        show_and_read(s);
    else if (!diags.count)
        abort();
    spec_diags_print(&diags, &term, &text);
    spec_warnings_print(&diags, &term, &text);
    buf_release(&text);
    spec_diags_release(&diags);
    spec_free(s);
    return 0;
}

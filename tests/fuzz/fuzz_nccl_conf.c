/* SPDX-License-Identifier: MIT */
/* nccl_conf: NCCL's configuration files, read as its releases before and from 2.30 on do: names
 * are NCCL's and occur once, all of it is text, and what a capture keeps of a file sets the
 * same. */
#include "fuzz.h"

#include "base/str.h"
#include "hw/hw_int.h"

#include <stdlib.h>
#include <string.h>

static void check_vars(const struct hw_conf *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const char *name = c->vars[i].name, *value = c->vars[i].value;

        if (!str_starts(name, "NCCL_") || strchr(name, '=') || strchr(value, '\n') ||
            !str_is_text(name, strlen(name)) || !str_is_text(value, strlen(value)))
            abort();
        for (size_t k = 0; k < i; k++)
            if (str_eq(name, c->vars[k].name))
                abort();
    }
}

static void check_same(const struct hw_conf *a, const struct hw_conf *b)
{
    if (a->count != b->count)
        abort();
    for (size_t i = 0; i < a->count; i++)
        if (!str_eq(a->vars[i].name, b->vars[i].name) ||
            !str_eq(a->vars[i].value, b->vars[i].value))
            abort();
}

static void read_as(const char *text, size_t size, bool buffered)
{
    struct arena a = { 0 };
    struct buf kept = { 0 };
    struct hw_conf_rule rule = { .buffered = buffered, .kept = &kept };
    struct hw_conf first, again;

    hw_conf_parse(&a, text, size, &rule, &first);
    check_vars(&first);
    rule.kept = NULL;
    hw_conf_parse(&a, buf_str(&kept), kept.len, &rule, &again);
    check_same(&first, &again);
    buf_release(&kept);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* no byte beyond the text, for the sanitizer */

    if (!text)
        abort();
    memcpy(text, data, size);
    read_as(text, size, false);
    read_as(text, size, true);
    free(text);
    return 0;
}

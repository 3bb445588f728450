/* SPDX-License-Identifier: MIT */
/* host_spec: the whole spec once more, for agent and up on a machine.
 *
 * It is what spec_show() writes, less the lines of defaults (a key that is left out can mean more
 * than its default) and the environment of components (it may hold secrets, and neither needs it),
 * and with models on the GPUs of their components. */
#include "base/str.h"
#include "render/host_int.h"

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

static bool is_default(const char *line, size_t len)
{
    static const char mark[] = "  # default";

    return len >= sizeof(mark) - 1 &&
           !memcmp(line + len - (sizeof(mark) - 1), mark, sizeof(mark) - 1);
}

/* "key:" alone: what it holds is on the lines below. */
static bool opens(const char *line, size_t len)
{
    return len > 0 && line[len - 1] == ':' && !memchr(line, '"', len);
}

struct lines {
    const char *at;   /* the next one */
    bool skip_models; /* inside the section of models */
};

/* The next line that stays; NULL: none. */
static const char *next(struct lines *l, size_t *len)
{
    while (*l->at) {
        const char *line = l->at, *nl = strchr(line, '\n');

        *len = nl ? (size_t)(nl - line) : strlen(line);
        l->at = line + *len + (nl != NULL);
        if (*len && indent_of(line) == 0)
            l->skip_models = str_starts(line, "models:");
        if (*len && !l->skip_models && !is_default(line, *len))
            return line;
    }
    return NULL;
}

void host_spec_whole(const struct render *r, const struct host_plan *p, struct buf *out)
{
    static const struct term none = { 0 };
    struct buf shown = { 0 };
    struct lines l;
    size_t len, after_len;
    const char *line, *after;

    spec_show(r->spec, &none, SPEC_SHOW_AGENT | (r->where ? SPEC_SHOW_LINES : 0U), &shown);
    l = (struct lines){ .at = buf_str(&shown) };
    for (line = next(&l, &len); line; line = after, len = after_len) {
        after = next(&l, &after_len);
        buf_add(out, line, len);
        if (opens(line, len) && (!after || (indent_of(after) <= indent_of(line) && *after != '-')))
            buf_adds(out, " {}");
        buf_addc(out, '\n');
    }
    buf_release(&shown);
    host_serve_models(r, p, out);
}

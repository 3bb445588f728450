/* SPDX-License-Identifier: MIT */
/* host_spec: the whole spec once more, for agent and up on a machine: what the file gives, less the
 * environment of components (it may hold secrets, and neither needs it), and with models on the
 * GPUs of their components. */
#include "render/host/host_int.h"

void host_spec_whole(const struct render *r, const struct host_plan *p, struct buf *out)
{
    static const char *const without[] = { "models", NULL };
    size_t start = out->len;

    spec_show_set(r->spec, SPEC_SHOW_AGENT | (r->where ? SPEC_SHOW_LINES : 0U), without, out);
    host_serve_models(r, p, out);
    if (out->len == start)
        buf_adds(out, "{}\n");
}

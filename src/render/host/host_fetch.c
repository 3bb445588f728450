/* SPDX-License-Identifier: MIT */
/* host_fetch: models that the spec calls by a name, brought onto a machine without a scheduler.
 *
 * `stoker serve` opens folders.  A model of the Hugging Face hub gets one, FOLDER/NAME, which the
 * servers' specs name in place of the hub's name, and a script that fills it with
 * `stoker model get`.  What is there already stays, so that a machine without a way out is served
 * by a copy.  What was fetched half way lies in FOLDER/NAME.hub and goes on from there. */
#include "base/str.h"
#include "model/hub/get.h"
#include "render/host/host_int.h"

const char *host_model_source(struct arena *a, const char *models, const struct spec_model *m)
{
    return spec_model_is_fetched(m) ? arena_printf(a, "%s/%s", models, m->name) : m->source;
}

/* The name by which stoker has it; NULL: it does not, or not that commit. */
static const char *own_name(const struct spec_model *m)
{
    static const char maker[] = "sentence-transformers/";
    const char *name = str_starts(m->source, maker) ? m->source + sizeof(maker) - 1 : m->source;

    return !m->revision && get_known(name) ? name : NULL;
}

static const char FETCH[] =
    "set -eu\n"
    "umask 022\n"
    "\n"
    "# has FOLDER: is a model there?\n"
    "has() { [ -e \"$1/config.json\" ] || [ -e \"$1/modules.json\" ]; }\n"
    "\n"
    "# fault NAME FOLDER\n"
    "fault() {\n"
    "    echo \"$0: could not fetch model '$1': put its files into '$2' and run this again\" >&2\n"
    "    exit 1\n"
    "}\n"
    "\n"
    "# own NAME FOLDER: one that stoker has\n"
    "own() {\n"
    "    has \"$2\" || stoker model get \"$1\" --output \"$2\" || fault \"$1\" \"$2\"\n"
    "}\n"
    "\n"
    "# get NAME REVISION FOLDER: one of the hub (HF_ENDPOINT, HF_TOKEN)\n"
    "get() {\n"
    "    has \"$3\" && return\n"
    "    HF_HUB_CACHE=\"$3.hub\" stoker model get \"$1\" --revision \"$2\" --output \"$3\" ||\n"
    "        fault \"$1\" \"$3\"\n"
    "    rm -rf \"$3.hub\"\n"
    "}\n"
    "\n";

static const char ON[] = "# on NAME...: is it one of these machines?\n"
                         "on() {\n"
                         "    for name; do\n"
                         "        case $(uname -n) in \"$name\" | \"$name\".*) return 0 ;; esac\n"
                         "    done\n"
                         "    return 1\n"
                         "}\n"
                         "\n";

static void fetch_line(struct buf *out, struct arena *a, const char *models,
                       const struct spec_model *m)
{
    const char *own = own_name(m);

    buf_adds(out, own ? "own " : "get ");
    quote_sh(out, own ? own : m->source);
    if (!own) {
        buf_addc(out, ' ');
        quote_sh(out, m->revision ? m->revision : "main");
    }
    buf_addc(out, ' ');
    quote_sh(out, host_model_source(a, models, m));
    buf_addc(out, '\n');
}

bool host_fetch_script(struct render *r, const char *path, const char *models,
                       const struct host_fetch *of, size_t count)
{
    struct arena a = { 0 };
    struct buf *out = NULL;
    bool some = false;

    for (size_t i = 0; i < count; i++)
        some = some || (spec_model_is_fetched(of[i].model) && of[i].hosts);
    for (size_t i = 0; i < count; i++) {
        if (!spec_model_is_fetched(of[i].model))
            continue;
        if (!out) {
            out = render_script(r, "%s", path);
            buf_adds(out, "#!/bin/sh\n");
            render_head(r, out, "#", "Fetches the models that the servers of this machine open.");
            buf_adds(out, "# Run it as root. A model that is in its folder already stays.\n");
            buf_adds(out, FETCH);
            if (some)
                buf_adds(out, ON);
        }
        buf_addf(out, "# %s\n", render_from(r, &of[i].model->source));
        if (of[i].hosts)
            buf_addf(out, "if on%s; then\n    ", of[i].hosts);
        fetch_line(out, &a, models, of[i].model);
        if (of[i].hosts)
            buf_adds(out, "fi\n");
    }
    arena_release(&a);
    return out != NULL;
}

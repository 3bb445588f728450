/* SPDX-License-Identifier: MIT */
/* model_fetch: models of the Hub for commands: a bar while they come, what was noticed, weights of
 * torch made readable. */
#include "cmd/model/cmd_model_int.h"

#include "base/progress.h"
#include "base/str.h"
#include "base/text/units.h"
#include "model/model.h"
#include "model/weights/convert.h"
#include "os/clock.h"
#include "os/file.h"

#include <unistd.h>

struct fetch_bar {
    int width;
    int64_t begun_ms;
    bool drawn;
};

static void draw_bar(void *arg, const struct hub_progress *p)
{
    struct fetch_bar *b = arg;
    int64_t ms = clock_mono_ms() - b->begun_ms;
    char what[32];
    struct buf line = { 0 };
    struct progress bar = { .done = p->total ? (double)p->bytes / (double)p->total : 1,
                            .elapsed_ms = ms,
                            .items = p->files,
                            .what = what,
                            .rate = ms > 0 ? (double)p->came / 1000 / (double)ms : -1,
                            .unit = "MB/s" };

    (void)snprintf(what, sizeof(what), "of %zu files", p->file_count);
    progress_line(&bar, b->width, &line);
    fprintf(stderr, "\r%s\033[K", buf_str(&line));
    fflush(stderr);
    buf_release(&line);
    b->drawn = true;
}

static void tell_result(const struct hub_opts *o, const struct hub_result *r)
{
    char size[UNITS_TEXT_MAX];

    if (r->stale.code)
        fprintf(stderr, "stoker: warning: %s; what is in the cache is taken\n", r->stale.msg);
    if (r->by_size)
        fprintf(stderr,
                "stoker: warning: the server told no digest that is known of %zu files: they were "
                "checked by their size only\n",
                r->by_size);
    if (r->came)
        fprintf(stderr, "%s: %zu files, %s, commit %s\n", o->name.repo, r->file_count,
                units_bytes_human(r->bytes, size), r->commit);
}

enum rc model_fetch(const struct cmd_ctx *ctx, const struct hub_opts *o, struct hub_result *out,
                    struct err *err)
{
    struct fetch_bar bar = { .width = ctx->err_term.width, .begun_ms = clock_mono_ms() };
    struct hub_opts with = *o;
    enum rc rc;

    if (isatty(STDERR_FILENO)) {
        with.progress = draw_bar;
        with.arg = &bar;
    }
    rc = hub_get(&with, out, err);
    if (bar.drawn)
        fprintf(stderr, "\r\033[K");
    if (!rc)
        tell_result(o, out);
    return rc;
}

enum rc model_convert_fetched(const char *dir, const struct hub_result *r, struct err *err)
{
    static const char *const names[] = { "pytorch_model.bin", "pytorch_model.bin.index.json" };
    char folder[FILE_PATH_MAX], made[FILE_PATH_MAX];
    size_t tensors;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < r->file_count && !rc; i++) {
        const char *slash = strrchr(r->files[i], '/'), *base = slash ? slash + 1 : r->files[i];

        if (!str_eq(base, names[0]) && !str_eq(base, names[1]))
            continue;
        rc = file_join(folder, sizeof(folder), dir, slash ? r->files[i] : "", err);
        if (!rc && slash)
            *strrchr(folder, '/') = '\0';
        if (!rc)
            rc = file_join(made, sizeof(made), folder, "model.safetensors", err);
        if (rc || file_exists(made))
            continue;
        fprintf(stderr, "converting '%s' to safetensors\n", r->files[i]);
        rc = torch_convert(folder, &tensors, NULL, err);
    }
    return rc;
}

enum rc model_find_or_fetch(const struct cmd_ctx *ctx, const char *name_or_dir,
                            const char *revision, char *out, size_t cap, struct err *err)
{
    struct hub_opts o = { 0 };
    struct hub_result r = { 0 };
    bool of_hub = hub_name_parse(name_or_dir, &o.name) && !file_is_dir(name_or_dir);
    char parent[HUB_NAME_MAX + 1];
    enum rc rc;

    if (!of_hub)
        return model_find(name_or_dir, out, cap, err);
    if (revision && !(hub_revision_ok(revision) &&
                      str_copy(o.name.revision, sizeof(o.name.revision), revision)))
        return err_set(err, RC_USAGE, "'%.200s' is not a revision", revision);
    if (!hub_find(&o.name, out, cap, NULL))
        return RC_OK;
    if (!ctx) {
        err_hint(err, "Fetch it with 'stoker model get %s --revision %s'.", o.name.repo,
                 o.name.revision);
        return err_set(err, RC_NODEV, "model '%s' (%s) is not here", o.name.repo, o.name.revision);
    }
    (void)str_copy(parent, sizeof(parent), o.name.repo);
    *strchr(parent, '/') = '\0';
    if (file_is_dir(parent)) { /* a slip, or a disk that is not mounted: no stranger's weights */
        err_hint(err, "'stoker model get %s' fetches the Hub's model of that name.", name_or_dir);
        return err_set(err, RC_NODEV, "there is no model '%s' in the folder '%s'",
                       o.name.repo + strlen(parent) + 1, parent);
    }
    fprintf(stderr, "stoker: there is no folder '%s' here: fetching model '%s' (%s) of the Hub\n",
            name_or_dir, o.name.repo, o.name.revision);
    rc = model_fetch(ctx, &o, &r, err);
    if (!rc)
        rc = model_convert_fetched(r.dir, &r, err);
    if (!rc && !str_copy(out, cap, r.dir))
        rc = err_set(err, RC_LIMIT, "path '%.200s' is too long", r.dir);
    hub_result_release(&r);
    return rc;
}

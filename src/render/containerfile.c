/* SPDX-License-Identifier: MIT */
/* containerfile: base, packages, Python packages and files of `components.NAME.build`, libraries
 * that RDMA needs, and stoker itself, which must run while the image is built.
 *
 * Without build.base it is PyTorch's own image that has what `software` asks for.  The tags below
 * were seen in public repositories, and NCCL's versions in the metadata of torch's wheels, on
 * 2026-11-16; a registry could not be asked. */
#include "base/arena.h"
#include "base/str.h"
#include "render/containerfile_int.h"

#include <stdlib.h>

struct base_image {
    const char *torch, *cuda, *nccl;
};
static const struct base_image bases[] = {
    { "2.4.1", "11.8", "2.20.5" }, { "2.4.1", "12.1", "2.20.5" }, { "2.5.1", "12.1", "2.21.5" },
    { "2.5.1", "12.4", "2.21.5" }, { "2.6.0", "12.6", "2.21.5" }, { "2.7.1", "12.8", "2.26.2" },
    { "2.8.0", "12.8", "2.27.3" }, { "2.9.1", "12.8", "2.27.5" },
};

static bool at_least(const char *have, const char *want) /* by numbers: 12.10 is after 12.4 */
{
    while (want && *want) {
        char *h, *w;
        long a = strtol(have, &h, 10), b = strtol(want, &w, 10);

        if (a != b || w == want)
            return a > b;
        have = *h == '.' ? h + 1 : h;
        want = *w == '.' ? w + 1 : w;
    }
    return true;
}

/* NULL: none has it all. */
static const struct base_image *base_of(const struct spec_software *sw)
{
    for (size_t i = 0; i < ARRAY_SIZE(bases); i++)
        if (at_least(bases[i].cuda, sw->cuda) && at_least(bases[i].torch, sw->torch) &&
            at_least(bases[i].nccl, sw->nccl))
            return &bases[i];
    return NULL;
}

/* Words hold no blank and nothing that the file's parser takes for its own. */
bool containerfile_word(const char *s)
{
    return s[strcspn(s, " \t\n\"'$\\#[]{}")] == '\0' && *s;
}

static void put_base(struct render *r, const struct spec_image_build *b, struct buf *out)
{
    const struct spec_software *sw = &r->spec->software;
    const struct base_image *base = base_of(sw);

    if (b && b->base) {
        buf_addf(out, "# Base: %s.\nARG BASE=%s\nFROM ${BASE}\n", render_from(r, &b->base),
                 b->base);
        return;
    }
    if (!base) {
        base = &bases[ARRAY_SIZE(bases) - 1];
        buf_adds(out, "# None of the images known here has all the spec asks for; this is the "
                      "newest.\n");
    }
    buf_addf(out, "# CUDA %s, NCCL %s; asked for: %s, ", base->cuda, base->nccl,
             sw->cuda ? render_from(r, &sw->cuda) : "any CUDA");
    buf_addf(out, "%s.\n", sw->nccl ? render_from(r, &sw->nccl) : "any NCCL");
    buf_addf(out, "ARG BASE=docker.io/pytorch/pytorch:%s-cuda%s-cudnn9-runtime\nFROM ${BASE}\n",
             base->torch, base->cuda);
}

/* A package's name, with a version: letters, digits and what versions are made of. */
static bool is_package(const char *s)
{
    return *s && *s != '-' &&
           s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-=:~_")] ==
               '\0';
}

static void put_packages(struct render *r, const struct spec_image_build *b, struct buf *out)
{
    buf_adds(out,
             "\n# Programs and libraries for RDMA devices; the kernel's part is the machine's.\n");
    if (b && b->packages.count)
        buf_addf(out, "# More packages: %s.\n", render_from(r, &b->packages));
    buf_adds(out, "USER root\n"
                  "RUN apt-get update \\\n"
                  " && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "
                  "\\\n"
                  "    ca-certificates ibverbs-providers ibverbs-utils iproute2 libibverbs1 "
                  "librdmacm1 perftest \\\n");
    for (size_t i = 0; b && i < b->packages.count; i++) {
        if (!is_package(b->packages.items[i]))
            render_refuse(r, &b->packages.items[i], "Write it like git or libaio1=0.3.113-4.",
                          "'%.80s' is not the name of a package", b->packages.items[i]);
        else
            buf_addf(out, "    %s \\\n", b->packages.items[i]);
    }
    buf_adds(out, " && rm -rf /var/lib/apt/lists/*\n");
}

/* A requirement as pip takes it; what a shell or pip's own options would make of it is refused. */
static void put_python(struct render *r, const struct spec_image_build *b, struct buf *out)
{
    if (!b || !b->pip.count)
        return;
    buf_addf(out, "\n# Python packages: %s.\nRUN python3 -m pip install --no-cache-dir",
             render_from(r, &b->pip));
    for (size_t i = 0; i < b->pip.count; i++) {
        const char *s = b->pip.items[i];

        if (*s == '-' || !*s || s[strcspn(s, "\t\n'\"$\\`#")]) {
            render_refuse(r, &b->pip.items[i], "Write it like torchtitan==0.1.0.",
                          "'%.80s' is not a requirement of pip", s);
            continue;
        }
        buf_addf(out, " \\\n    '%s'", s);
    }
    buf_adds(out, "\n");
}

/* What is mounted there hides what the image has. */
static void warn_hidden(struct render *r, const struct spec_component *c, const char *to,
                        const void *member)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        const char *path = c->mounts[i].path;
        size_t len = path ? strlen(path) : 0;

        if (len && !strncmp(to, path, len) && (to[len] == '/' || !to[len]))
            render_warn(r, member, "Copy it to a folder that nothing is mounted on.",
                        "storage '%s' at '%s' hides what is copied to '%s'", c->mounts[i].storage,
                        path, to);
    }
}

/* "SOURCE" or "SOURCE:DESTINATION", from the folder of the build. */
static void put_copies(struct render *r, const struct spec_component *c, const char *dir,
                       struct buf *out)
{
    const struct spec_image_build *b = c ? c->build : NULL;

    if (!b || !b->copy.count)
        return;
    buf_addf(out, "\n# Code and settings: %s.\n", render_from(r, &b->copy));
    for (size_t i = 0; i < b->copy.count; i++) {
        const char *s = b->copy.items[i], *colon = strchr(s, ':');
        size_t len = colon ? (size_t)(colon - s) : strlen(s);

        if (!containerfile_word(s) || *s == '/' || *s == '-' || !len || strstr(s, "..") ||
            (colon && (colon[1] != '/' || strchr(colon + 1, ':')))) {
            render_refuse(r, &b->copy.items[i],
                          "Write it like src/ or train.toml:/workspace/train.toml.",
                          "'%.80s' cannot be copied into an image", s);
            continue;
        }
        buf_addf(out, "COPY %.*s %s\n", (int)len, s, colon ? colon + 1 : dir);
        warn_hidden(r, c, colon ? colon + 1 : dir, &b->copy.items[i]);
    }
}

void containerfile_body(struct render *r, const struct spec_component *c, struct buf *out)
{
    const struct spec_image_build *b = c ? c->build : NULL;
    const char *dir = c && c->workdir ? c->workdir : "/workspace";
    struct buf folder = { 0 };

    if (!containerfile_word(dir)) {
        render_refuse(r, &c->workdir, "Letters, digits, '/', '-', '_' and '.'.",
                      "the working directory '%s' cannot stand in a Containerfile", dir);
        return;
    }
    put_base(r, b, out);
    put_packages(r, b, out);
    put_python(r, b, out);
    buf_adds(out, "\n# One file that needs the C library alone; it must run here, or the build "
                  "ends.  Where an\n# init container brings it, leave these two lines out.\n"
                  "COPY --chmod=0755 stoker /usr/local/bin/stoker\n"
                  "RUN stoker --version\n");
    buf_addf(&folder, "%s/", dir);
    buf_addf(out, "\n# Working directory: %s.\nWORKDIR %s\n",
             c && c->workdir ? render_from(r, &c->workdir) : "default", dir);
    put_copies(r, c, buf_str(&folder), out);
    buf_adds(out, "\n# OpenShift runs this image as a user of its own choice, of group 0.\n");
    buf_addf(out, "RUN chgrp -R 0 %s && chmod -R g=u %s\nENV HOME=%s\nUSER 1001\n", dir, dir, dir);
    buf_adds(out, "\n# Pods name the launcher and their program; by itself the image shows what it "
                  "sees.\n"
                  "CMD [\"stoker\", \"detect\"]\n");
    buf_release(&folder);
}

const char *containerfile_for(struct render *r, const struct spec_component *c, const char *dir,
                              struct arena *a)
{
    const char *name = arena_printf(a, "Containerfile.%s", c->name);
    const char *path = arena_printf(a, "%s/%s", dir, name);
    struct buf *out;

    if (!c->build)
        return NULL;
    for (size_t i = 0; i < r->out->count; i++)
        if (str_eq(r->out->files[i]->path, path))
            return name; /* for a replica before */
    out = render_file(r, "%s", path);
    render_head(r, out, "#", arena_printf(a, "The image of component %s.", c->name));
    buf_addf(out,
             "# Beside it: the binary `stoker`%s.  Then, in this folder:\n"
             "#     buildah build -t %s -f Containerfile.%s .\n#\n",
             c->build->copy.count ? " and what is copied below" : "", c->image ? c->image : c->name,
             c->name);
    containerfile_body(r, c, out);
    return name;
}

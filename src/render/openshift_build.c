/* SPDX-License-Identifier: MIT */
/* openshift_build: the image of the pods: stream, build and a Containerfile to start from. */
#include "base/str.h"
#include "render/openshift_int.h"

#include <stdlib.h>

/* PyTorch's own images by what is in them; the first that has all the spec asks for is taken.
 * Versions are those of the image's tag, NCCL's that of its wheel. */
struct base {
    const char *torch, *cuda, *nccl;
};
static const struct base bases[] = {
    { "2.4.1", "11.8", "2.20" }, { "2.4.1", "12.1", "2.20" }, { "2.5.1", "12.1", "2.21" },
    { "2.5.1", "12.4", "2.21" }, { "2.6.0", "12.6", "2.21" }, { "2.7.1", "12.8", "2.26" },
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
static const struct base *base_of(const struct spec_software *sw)
{
    for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++)
        if (at_least(bases[i].cuda, sw->cuda) && at_least(bases[i].torch, sw->torch) &&
            at_least(bases[i].nccl, sw->nccl))
            return &bases[i];
    return NULL;
}

/* Words of the Containerfile hold no blank and nothing that its parser takes for its own. */
static bool plain(const char *s)
{
    return s[strcspn(s, " \t\n\"'$\\#[]{}")] == '\0' && *s;
}

static const char RECIPE[] =
    "\n"
    "# Programs and libraries for RDMA devices; the kernel's part is the machine's.\n"
    "USER root\n"
    "RUN apt-get update \\\n"
    " && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\\n"
    "    ca-certificates ibverbs-providers ibverbs-utils iproute2 libibverbs1 librdmacm1 "
    "perftest \\\n"
    " && rm -rf /var/lib/apt/lists/*\n"
    "\n"
    "# One file that needs the C library alone; it must run here, or the build ends.\n"
    "COPY --chmod=0755 stoker /usr/local/bin/stoker\n"
    "RUN stoker --version\n"
    "\n"
    "# OpenShift runs this image as a user of its own choice, of group 0.\n";

static void recipe_user(struct shift *s, struct buf *b)
{
    const char *dir = s->named && s->named->workdir ? s->named->workdir : "/workspace";

    if (!plain(dir)) {
        render_refuse(s->k.r, &s->named->workdir, "Letters, digits, '/', '-', '_' and '.'.",
                      "the working directory '%s' cannot stand in a Containerfile", dir);
        return;
    }
    buf_addf(b, "# Working directory: %s.\n",
             s->named ? render_from(s->k.r, &s->named->workdir) : "default");
    buf_addf(b, "WORKDIR %s\nRUN chgrp 0 %s && chmod g=u %s\nENV HOME=%s\nUSER 1001\n", dir, dir,
             dir, dir);
    buf_adds(b, "\n# Pods name the launcher and their program; by itself the image shows what it "
                "sees.\n");
    buf_adds(b, "CMD [\"stoker\", \"detect\"]\n");
}

static void containerfile(struct shift *s)
{
    const struct spec_software *sw = &s->k.r->spec->software;
    const struct base *base = base_of(sw);
    struct buf *b = render_file(s->k.r, "openshift/Containerfile");

    render_head(s->k.r, b, "#", "The image of the training pods.");
    buf_addf(b,
             "# Put it into the repository of the build as %s, and the binary `stoker` beside it.\n"
             "#\n",
             plain(s->t->build->containerfile) ? s->t->build->containerfile : "its recipe");
    if (!base) {
        base = &bases[sizeof(bases) / sizeof(*bases) - 1];
        buf_adds(b, "# None of the images known here has all the spec asks for; this is the "
                    "newest.\n");
    }
    buf_addf(b, "# CUDA %s, NCCL %s; asked for: %s, %s.\n", base->cuda, base->nccl,
             sw->cuda ? render_from(s->k.r, &sw->cuda) : "any CUDA",
             sw->nccl ? render_from(s->k.r, &sw->nccl) : "any NCCL");
    buf_addf(b, "ARG BASE=docker.io/pytorch/pytorch:%s-cuda%s-cudnn9-runtime\nFROM ${BASE}\n",
             base->torch, base->cuda);
    buf_adds(b, RECIPE);
    recipe_user(s, b);
}

/* ---- stream and build ---- */

/* The tag that pods ask for: of a component's image in this stream. */
static const char *tag_of(struct shift *s)
{
    const struct spec_component *c;
    const char *stream = s->t->image_stream;

    for (size_t i = 0; (c = shift_component(s, &i));) {
        const char *name = c->image ? strrchr(c->image, '/') : NULL;

        name = name ? name + 1 : c->image;
        if (name && str_starts(name, stream) && name[strlen(stream)] == ':')
            return name + strlen(stream) + 1;
    }
    return "latest";
}

static void stream(struct shift *s, struct buf *b)
{
    struct yaml_out y;

    yaml_begin(&y, b);
    k8s_head(&s->k, &y, "image.openshift.io/v1", "ImageStream",
             k8s_name(&s->k, s->t->image_stream, ""), NULL);
    yaml_map(&y, "spec");
    yaml_map(&y, "lookupPolicy");
    yaml_note(&y, "objects of this project may name it without the registry");
    yaml_bool(&y, "local", true);
    yaml_end(&y);
    yaml_end(&y);
    yaml_finish(&y);
}

static void source(struct shift *s, struct yaml_out *y)
{
    const struct spec_build *bd = s->t->build;

    yaml_map(y, "source");
    yaml_str(y, "type", "Git");
    yaml_map(y, "git");
    yaml_note(y, render_from(s->k.r, &bd->git));
    yaml_str(y, "uri", bd->git);
    yaml_note(y, render_from(s->k.r, &bd->ref));
    yaml_str(y, "ref", bd->ref);
    yaml_end(y);
    if (!str_eq(bd->context, ".")) {
        yaml_note(y, render_from(s->k.r, &bd->context));
        yaml_str(y, "contextDir", bd->context);
    }
    yaml_end(y);
    yaml_map(y, "strategy");
    yaml_str(y, "type", "Docker");
    yaml_map(y, "dockerStrategy");
    yaml_note(y, render_from(s->k.r, &bd->containerfile));
    yaml_str(y, "dockerfilePath", bd->containerfile);
    yaml_end(y);
    yaml_end(y);
}

static void build(struct shift *s, struct buf *b)
{
    const char *name = k8s_name(&s->k, s->t->image_stream, "");
    struct yaml_out y;

    yaml_begin(&y, b);
    k8s_head(&s->k, &y, "build.openshift.io/v1", "BuildConfig", name, NULL);
    yaml_map(&y, "spec");
    yaml_note(&y, "one after the other");
    yaml_str(&y, "runPolicy", "Serial");
    source(s, &y);
    yaml_map(&y, "output");
    yaml_map(&y, "to");
    yaml_str(&y, "kind", "ImageStreamTag");
    yaml_strf(&y, "name", "%s:%s", name, tag_of(s));
    yaml_end(&y);
    yaml_end(&y);
    yaml_seq(&y, "triggers");
    yaml_map(&y, NULL);
    yaml_note(&y, "once, when it is made; then `oc start-build`");
    yaml_str(&y, "type", "ConfigChange");
    yaml_end(&y);
    yaml_end(&y);
    yaml_int(&y, "successfulBuildsHistoryLimit", 3);
    yaml_int(&y, "failedBuildsHistoryLimit", 3);
    yaml_end(&y);
    yaml_finish(&y);
}

void shift_build(struct shift *s)
{
    struct buf *b;

    if (!s->t->build)
        return; /* the image exists already */
    b = shift_file(s, "build.yaml", "The image: its stream, and the build that fills it.");
    buf_addf(b, "# Its name: %s.\n", render_from(s->k.r, &s->t->image_stream));
    stream(s, b);
    build(s, b);
    containerfile(s);
}

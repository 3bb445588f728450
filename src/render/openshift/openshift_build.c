/* SPDX-License-Identifier: MIT */
/* openshift_build: the image of the pods: stream, build and a Containerfile to start from. */
#include "base/str.h"
#include "render/containerfile_int.h"
#include "render/openshift/openshift_int.h"

static void recipe_write(struct shift *s)
{
    struct buf *b = render_file(s->k.r, "openshift/Containerfile");
    const char *name = s->t->build->containerfile;

    render_head(s->k.r, b, "#", "The image of the training pods.");
    buf_addf(b,
             "# Put it into the repository of the build as %s, and the binary `stoker` beside it.\n"
             "#\n",
             containerfile_word(name) ? name : "its recipe");
    containerfile_body(s->k.r, s->named, b);
}

/* ---- stream and build ---- */

/* The tag that pods ask for: of a component's image in this stream.  NULL: none is. */
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
    return NULL;
}

static void build_write(struct shift *s, struct buf *b)
{
    const char *name = k8s_name(&s->k, s->t->image_stream, ""), *tag = tag_of(s);
    struct yaml_out y;
    const struct spec_build *bd = s->t->build;

    if (!tag)
        render_warn(s->k.r, &s->t->image_stream, "Give a component the image that is built.",
                    "no component runs the image that is built, '%s'", name);
    k8s_object(&s->k, &y, b, "build.openshift.io/v1", "BuildConfig", name, NULL);
    yaml_map(&y, "spec");
    yaml_note(&y, "one after the other");
    yaml_str(&y, "runPolicy", "Serial");
    yaml_map(&y, "source");
    yaml_str(&y, "type", "Git");
    yaml_map(&y, "git");
    render_str(s->k.r, &y, "uri", bd->git, &bd->git);
    render_str(s->k.r, &y, "ref", bd->ref, &bd->ref);
    yaml_end(&y);
    if (!str_eq(bd->context, "."))
        render_str(s->k.r, &y, "contextDir", bd->context, &bd->context);
    yaml_end(&y);
    yaml_map(&y, "strategy");
    yaml_str(&y, "type", "Docker");
    yaml_map(&y, "dockerStrategy");
    render_str(s->k.r, &y, "dockerfilePath", bd->containerfile, &bd->containerfile);
    yaml_ends(&y, 2);
    yaml_open(&y, "output.to");
    yaml_str(&y, "kind", "ImageStreamTag");
    yaml_strf(&y, "name", "%s:%s", name, tag ? tag : "latest");
    yaml_ends(&y, 2);
    yaml_open(&y, "triggers[]");
    yaml_note(&y, "once, when it is made; then `oc start-build`");
    yaml_str(&y, "type", "ConfigChange");
    yaml_ends(&y, 2);
    yaml_int(&y, "successfulBuildsHistoryLimit", 3);
    yaml_int(&y, "failedBuildsHistoryLimit", 3);
    yaml_finish(&y);
}

void shift_build(struct shift *s)
{
    const struct spec_component *c;
    struct buf *b;
    struct yaml_out y;

    for (size_t i = 0; (c = shift_component(s, &i));)
        if (c->build && !(s->t->build && c == s->named))
            (void)containerfile_for(s->k.r, c, "openshift", &s->k.arena);
    if (!s->t->build)
        return; /* the image exists already, or is built elsewhere */
    b = shift_file(s, "build.yaml", "The image: its stream, and the build that fills it.");
    buf_addf(b, "# Its name: %s.\n", render_from(s->k.r, &s->t->image_stream));
    k8s_object(&s->k, &y, b, "image.openshift.io/v1", "ImageStream",
               k8s_name(&s->k, s->t->image_stream, ""), NULL);
    yaml_open(&y, "spec.lookupPolicy");
    yaml_note(&y, "objects of this project may name it without the registry");
    yaml_bool(&y, "local", true);
    yaml_finish(&y);
    build_write(s, b);
    recipe_write(s);
}

/* SPDX-License-Identifier: MIT */
/* containerfile: the image of a component as a recipe for buildah, podman, docker and OpenShift. */
#ifndef RENDER_CONTAINERFILE_INT_H
#define RENDER_CONTAINERFILE_INT_H
#include "render/render_int.h"

/* Behind the head that a target writes.  `c` NULL: an image for training without a component. */
void containerfile_body(struct render *r, const struct spec_component *c, struct buf *out);
/* A file of its own for a component whose spec has `build`; `dir` is the target's folder.  Its
 * name, "Containerfile.trainer", or NULL: the image exists already. */
const char *containerfile_for(struct render *r, const struct spec_component *c, const char *dir,
                              struct arena *a);
/* May it stand in a Containerfile as a word? */
bool containerfile_word(const char *s);

#endif

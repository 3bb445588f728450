/* SPDX-License-Identifier: MIT */
/* follow: wishes of a spec that a target has no means for. */
#ifndef RENDER_FOLLOW_INT_H
#define RENDER_FOLLOW_INT_H
#include "render/render_int.h"

/* Warns of each key that the file sets for a component of the target and that the target cannot
 * follow. */
void render_follow(struct render *r, const struct render_target *t);
/* The excuse, from 0, by which a target does nothing about a key ("restart", "training.optimizer")
 * for a component of a kind (enum spec_component_kind), as nothing is lost by it; SIZE_MAX: none,
 * it has to follow it. */
size_t render_follow_excuse(const char *target, unsigned kind, const char *key);
/* The same for a key outside components ("nodes.gpu.power"). */
size_t render_follow_site_excuse(const char *target, const char *key);
/* What an excuse is for; NULL behind the last. */
const char *render_follow_excuse_key(size_t i);
/* The key or section by whose name render_follow() warns of `key`; NULL: it does not. */
const char *render_follow_wish(const char *target, unsigned kind, const char *key);

/* The storage that a pod of the component has at a path, the one nearest to it; NULL: none. */
const struct spec_storage *follow_mount_at(const struct render *r, const struct spec_component *c,
                                           const char *path);

/* Warns of models without a component where no target starts the server that has them: systemd on
 * its machines, Kubernetes one of the site. */
void follow_loose_models(struct render *r, const char *target);
/* Refuses mounts of kind memory that are larger than what the container may have. */
void follow_memory_mounts(struct render *r, const struct spec_component *c, struct maybe limit);

#endif

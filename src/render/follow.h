/* SPDX-License-Identifier: MIT */
/* follow: wishes of a spec that a target has no means for. */
#ifndef RENDER_FOLLOW_H
#define RENDER_FOLLOW_H
#include "render/render.h"

/* Warns of each key that the file sets for a component of the target and that the target cannot
 * follow. */
void render_follow(struct render *r, const struct render_target *t);
/* Why a target does nothing about a key ("restart", "training.optimizer") and nothing is lost by
 * it, for a component of a kind (enum spec_component_kind); NULL: it has to follow it. */
const char *render_follow_reason(const char *target, unsigned kind, const char *key);
/* The same for a key outside components ("nodes.gpu.power"). */
const char *render_follow_site_reason(const char *target, const char *key);
/* The key or section by whose name render_follow() warns of `key`; NULL: it does not. */
const char *render_follow_wish(const char *target, unsigned kind, const char *key);

#endif

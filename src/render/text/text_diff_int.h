/* SPDX-License-Identifier: MIT */
/* text_diff_int: two texts line by line, and three as one. */
#ifndef RENDER_TEXT_TEXT_DIFF_INT_H
#define RENDER_TEXT_TEXT_DIFF_INT_H
#include "render/render.h"

/* The lines of `a` into those of `b` as hunks of a unified diff; nothing when they are equal. */
void render_diff_text(struct render_text a, struct render_text b, struct buf *out);
/* What `mine` and `theirs` make of `base`, both.  False: they change the same lines, or lines side
 * by side, and differently; what `out` then holds is of no use. */
bool render_merge_text(struct render_text base, struct render_text mine, struct render_text theirs,
                       struct buf *out);

#endif

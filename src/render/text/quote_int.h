/* SPDX-License-Identifier: MIT */
/* quote_int: a text of the spec as the formats we write take it. */
#ifndef RENDER_TEXT_QUOTE_INT_H
#define RENDER_TEXT_QUOTE_INT_H
#include "base/arena.h"
#include "base/buf.h"
#include "spec/spec.h"

/* One shell word: as it is when nothing in it is special, else in single quotes. */
void quote_sh(struct buf *out, const char *s);
/* A command and its arguments, a blank between words. */
void quote_sh_words(struct buf *out, const struct spec_strs *command);
/* May the text stand bare on a line of slurm.conf and its like (no newline, '#', blank, comma,
 * quote, '=', brackets)? */
bool slurm_plain(const char *s);
/* Text for the rest of a comment line: what ends a line in any format, and what no text holds,
 * becomes a blank or '?'. */
void quote_comment(struct buf *out, const char *s);
/* Text for HTML: & < > " ' escaped. */
void quote_html(struct buf *out, const char *s);
/* Every $ twice, as compose and Kubernetes write one that stands for itself. */
const char *quote_dollars(struct arena *a, const char *s);
/* What stands behind the last slash of a path. */
const char *path_last_part(const char *path);
/* A name as RFC 1123 wants it (lower case, digits, '-', at most 63): names of the spec that differ
 * ("world_model") become the same each time ("world-model").  `out` holds SPEC_NAME_MAX + 1. */
void dns_name(char *out, const char *name);

#endif

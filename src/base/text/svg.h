/* SPDX-License-Identifier: MIT */
/* svg: pictures as text.  Escapes every string; numbers in user units; the caller
 * sets classes and puts one <style> with svg_style(). */
#ifndef BASE_TEXT_SVG_H
#define BASE_TEXT_SVG_H
#include "base/buf.h"

void svg_begin(struct buf *b, int width, int height, const char *title);
void svg_style(struct buf *b, const char *css);
void svg_rect(struct buf *b, const char *cls, double x, double y, double w, double h, double rx);
void svg_line(struct buf *b, const char *cls, double x1, double y1, double x2, double y2);
/* `d` is a path in SVG's own notation, built by the caller from numbers. */
void svg_path(struct buf *b, const char *cls, const char *d);
/* anchor: "start", "middle", "end" */
void svg_text(struct buf *b, const char *cls, double x, double y, const char *anchor,
              const char *fmt, ...) PRINTF_LIKE(6, 7);
void svg_end(struct buf *b);
void svg_escape(struct buf *b, const char *s);

#endif

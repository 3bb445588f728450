/* SPDX-License-Identifier: MIT */
#include "base/text/svg.h"

#include "base/text/utf8.h"

#include <string.h>

void svg_escape(struct buf *b, const char *s)
{
    size_t len = strlen(s);
    uint32_t c;

    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_decode(s + i, len - i, &c);
        if (!n || (c < 0x20 && c != '\t' && c != '\n') || c == 0xfffe || c == 0xffff) {
            buf_adds(b, "?"); /* XML has no way to write these */
            n = n ? n : 1;
        } else if (c == '&')
            buf_adds(b, "&amp;");
        else if (c == '<')
            buf_adds(b, "&lt;");
        else if (c == '>')
            buf_adds(b, "&gt;");
        else if (c == '"')
            buf_adds(b, "&quot;");
        else
            buf_add(b, s + i, n);
    }
}

void svg_begin(struct buf *b, int width, int height, const char *title)
{
    buf_addf(b,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\">\n<title>",
             width, height, width, height);
    svg_escape(b, title);
    buf_adds(b, "</title>\n");
}

void svg_style(struct buf *b, const char *css)
{
    buf_addf(b, "<style>\n%s</style>\n", css);
}

void svg_rect(struct buf *b, const char *cls, double x, double y, double w, double h, double rx)
{
    buf_addf(b,
             "<rect class=\"%s\" x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"%.5g\" rx=\"%.5g\"/>"
             "\n",
             cls, x, y, w, h, rx);
}

void svg_line(struct buf *b, const char *cls, double x1, double y1, double x2, double y2)
{
    buf_addf(b, "<line class=\"%s\" x1=\"%.5g\" y1=\"%.5g\" x2=\"%.5g\" y2=\"%.5g\"/>\n", cls, x1,
             y1, x2, y2);
}

void svg_path(struct buf *b, const char *cls, const char *d)
{
    buf_addf(b, "<path class=\"%s\" d=\"%s\"/>\n", cls, d);
}

void svg_text(struct buf *b, const char *cls, double x, double y, const char *anchor,
              const char *fmt, ...)
{
    struct buf text = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    buf_addf(b, "<text class=\"%s\" x=\"%.5g\" y=\"%.5g\" text-anchor=\"%s\">", cls, x, y, anchor);
    svg_escape(b, buf_str(&text));
    buf_adds(b, "</text>\n");
    buf_release(&text);
}

void svg_end(struct buf *b)
{
    buf_adds(b, "</svg>\n");
}

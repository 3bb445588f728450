/* SPDX-License-Identifier: MIT */
/* doc_html: sections, tables and code of the site's page.  Everything that comes from a spec goes
 * through quote_html(). */
#include "render/site/doc_int.h"

static const char STYLE[] =
    ":root{--bg:#fcfcfa;--fg:#1d2126;--soft:#5c6570;--line:#d9dce0;--box:#f1f2ef;--a:#0b6e4f;"
    "--l1:#e3eef9;--l2:#e6f3e8;--l3:#fdf1dc;--l4:#f6e6ef;--l5:#e9e6f7}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e8ea;--soft:#9aa4ae;"
    "--line:#30363d;--box:#1c2126;--a:#57c7a0;--l1:#16283a;--l2:#17301d;--l3:#352a12;"
    "--l4:#351d2a;--l5:#241f3d}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;"
    "max-width:72rem;margin:2rem auto;padding:0 1.2rem}\n"
    "h1{font-size:1.7rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;"
    "border-bottom:1px solid var(--line);padding-bottom:.25rem}\n"
    "p{max-width:46rem}.soft{color:var(--soft)}a{color:var(--a)}nav a{margin-right:1rem}\n"
    ".scroll{overflow-x:auto;margin-bottom:1rem}table{border-collapse:collapse;min-width:40rem}"
    "th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);"
    "vertical-align:top}th{color:var(--soft);font-weight:600}.n{text-align:right;"
    "font-variant-numeric:tabular-nums}\n"
    "pre{background:var(--box);padding:.8rem 1rem;overflow-x:auto;font-size:13px}\n"
    "svg{max-width:100%;height:auto}svg text{fill:var(--fg);font:13px system-ui,sans-serif}"
    "svg .t{font-weight:600}svg .s{fill:var(--soft);font-size:11px}svg .b{fill:var(--bg);"
    "stroke:var(--line)}svg .l1{fill:var(--l1)}svg .l2{fill:var(--l2)}svg .l3{fill:var(--l3)}"
    "svg .l4{fill:var(--l4)}svg .l5{fill:var(--l5)}\n"
    ".g{display:inline-block;min-width:5.5rem;margin:0 .25rem .25rem 0;padding:.15rem .5rem;"
    "border:1px solid var(--line);border-radius:3px;font-size:12px}.free{color:var(--soft)}\n";

void doc_style(struct buf *out)
{
    buf_addf(out, "<style>\n%s</style>\n", STYLE);
}

void doc_section(struct site_doc *d, const char *id, const char *title)
{
    buf_addf(d->out, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

void doc_table(struct site_doc *d, const char *columns)
{
    buf_adds(d->out, "<div class=\"scroll\"><table>\n<tr>");
    for (const char *p = columns; p;) { /* the last may have no name */
        size_t len = strcspn(p, "|");
        bool right = *p == '#';

        buf_addf(d->out, "<th%s>%.*s</th>", right ? " class=\"n\"" : "", (int)(len - right),
                 p + right);
        p = p[len] ? p + len + 1 : NULL;
    }
    buf_adds(d->out, "</tr>\n");
}

void doc_row(struct site_doc *d)
{
    buf_adds(d->out, "<tr>");
}

static void put_cell(struct site_doc *d, const char *open, const char *close, const char *fmt,
                     va_list ap)
{
    struct buf text = { 0 };

    buf_vaddf(&text, fmt, ap);
    buf_adds(d->out, open);
    quote_html(d->out, buf_str(&text));
    buf_adds(d->out, close);
    buf_release(&text);
}

void doc_cell(struct site_doc *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_cell(d, "<td>", "</td>", fmt, ap);
    va_end(ap);
}

void doc_right(struct site_doc *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_cell(d, "<td class=\"n\">", "</td>", fmt, ap);
    va_end(ap);
}

void doc_list(struct site_doc *d, const struct spec_strs *words)
{
    buf_adds(d->out, "<td>");
    for (size_t i = 0; i < words->count; i++) {
        buf_adds(d->out, i ? ", " : "");
        quote_html(d->out, words->items[i]);
    }
    buf_adds(d->out, "</td>");
}

void doc_row_end(struct site_doc *d)
{
    buf_adds(d->out, "</tr>\n");
}

void doc_table_end(struct site_doc *d)
{
    buf_adds(d->out, "</table></div>\n");
}

void doc_para(struct site_doc *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_cell(d, "<p>", "</p>\n", fmt, ap);
    va_end(ap);
}

void doc_code(struct site_doc *d, const char *lines)
{
    buf_adds(d->out, "<pre>");
    quote_html(d->out, lines);
    buf_adds(d->out, "</pre>\n");
}

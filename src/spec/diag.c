/* SPDX-License-Identifier: MIT */
/* diag: the errors of one file, with the place and a way out.
 *
 * A person mends a file from these lines, so all errors are kept (up to a maximum), in
 * the order of the file, each with the line itself and a caret below the place:
 *
 *   stoker.yaml:12:7: unknown key 'gpu_per_node' in 'nodes[0]'
 *      12 |       gpu_per_node: 8
 *         |       ^
 *   Did you mean 'gpus_per_node'? */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/utf8.h"
#include "spec/spec_int.h"

#include <stdlib.h>

enum { DIAG_LINE_MAX = 160 }; /* bytes of a line that are shown */

static struct arena *diags_arena(struct spec_diags *d)
{
    if (!d->mem)
        d->mem = xcalloc(1, sizeof(*d->mem));
    return &d->mem->arena;
}

void spec_diags_release(struct spec_diags *d)
{
    if (!d || !d->mem)
        return;
    arena_release(&d->mem->arena);
    free(d->mem);
    *d = (struct spec_diags){ 0 };
}

/* Cuts at a character, never inside one. */
static size_t cut_utf8(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    len = max;
    while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
        len--;
    return len;
}

/* A character that hides or turns the text around becomes one that is seen; the columns stay. */
static const char *line_shown(struct spec_diags *d, const char *s)
{
    size_t len = strlen(s);
    struct buf b = { 0 };
    const char *out;

    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;

        n = utf8_decode(s + i, len - i, &c);
        if (str_is_shown(c))
            buf_add(&b, s + i, n);
        else
            buf_adds(&b, "\xef\xbf\xbd");
    }
    out = arena_strdup(diags_arena(d), buf_str(&b));
    buf_release(&b);
    return out;
}

/* The text of a line (from 1), printable; NULL when there is no such line. */
static const char *line_text(struct load *l, const struct spec_text *f, int line)
{
    const char *p = f->text, *end = f->text + f->len, *nl;
    size_t len;
    char *s;

    for (int i = 1; i < line; i++) {
        p = p ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        if (!p)
            return NULL;
        p++;
    }
    if (line < 1 || !p || p >= end)
        return NULL;
    nl = memchr(p, '\n', (size_t)(end - p));
    len = (size_t)((nl ? nl : end) - p);
    if (len && p[len - 1] == '\r')
        len--;
    s = arena_strndup(diags_arena(l->diags), p, cut_utf8(p, len, DIAG_LINE_MAX));
    str_make_text(s);
    return line_shown(l->diags, s);
}

/* The text as it is kept and shown: printable, nothing in it that a terminal obeys. */
static const char *shown_keep(struct spec_diags *d, const char *text)
{
    struct buf b = { 0 };
    const char *out;

    str_add_shown(&b, text);
    out = arena_strdup(diags_arena(d), buf_str(&b));
    buf_release(&b);
    return out;
}

/* A message as it is kept: cut to a length, printable, one line whatever the value in it has. */
static const char *message_keep(struct spec_diags *d, const char *fmt, va_list ap)
{
    struct buf b;
    const char *msg;

    buf_init(&b, 1024);
    buf_vaddf(&b, fmt, ap);
    for (size_t i = 0; i < b.len; i++)
        if (b.data[i] == '\n' || b.data[i] == '\r' || b.data[i] == '\t')
            b.data[i] = ' ';
    msg = shown_keep(d, b.len ? buf_str(&b) : "a value here is too long to show");
    buf_release(&b);
    return msg;
}

static struct spec_diag diag_make(struct load *l, int line, int col, const char *msg)
{
    const struct spec_text *f = line_file(line) < l->file_count ? &l->files[line_file(line)] : NULL;

    return (struct spec_diag){
        .file = f ? arena_strdup(diags_arena(l->diags), f->name) : l->diags->file,
        .file_no = line_file(line),
        .line = line_number(line),
        .col = col,
        .msg = msg,
        .text = f ? line_text(l, f, line_number(line)) : NULL,
    };
}

/* Targets look at the same values: what one has told the next need not. */
static bool item_is_known(const struct spec_diag *v, size_t count, int line, int col,
                          const char *msg)
{
    for (size_t i = 0; i < count; i++)
        if (line_at(v[i].file_no, v[i].line) == line && v[i].col == col && str_eq(v[i].msg, msg))
            return true;
    return false;
}

void diag_add(struct load *l, int line, int col, const char *fmt, ...)
{
    struct spec_diags *d = l->diags;
    va_list ap;

    const char *msg;

    va_start(ap, fmt);
    msg = message_keep(d, fmt, ap);
    va_end(ap);
    l->told = item_is_known(d->items, d->count, line, col, msg);
    if (l->told)
        return;
    if (d->count == SPEC_DIAGS_MAX) {
        d->dropped++;
        return;
    }
    d->items[d->count++] = diag_make(l, line, col, msg);
}

/* The file that the first diagnostic of a later stage is about. */
static void diags_file_of(struct spec_diags *d, const struct spec *s)
{
    if (!d->file)
        d->file = arena_strdup(diags_arena(d), s->priv->file);
}

void spec_diag_at(struct spec_diags *d, const struct spec *s, const void *member, const char *hint,
                  const char *fmt, ...)
{
    struct load l = { .files = s->priv->files, .file_count = s->priv->file_count, .diags = d };
    struct spec_pos pos = spec_place(s, member);
    struct buf b = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    diags_file_of(d, s);
    diag_add(&l, line_at(pos.file_no, pos.line), pos.col, "%s", buf_str(&b));
    if (hint)
        diag_hint(&l, "%s", hint);
    buf_release(&b);
}

void spec_diag_warn_at(struct spec_diags *d, const struct spec *s, const void *member,
                       const char *hint, const char *fmt, ...)
{
    struct load l = { .files = s->priv->files, .file_count = s->priv->file_count, .diags = d };
    struct spec_pos pos = spec_place(s, member);
    int line = line_at(pos.file_no, pos.line);
    const char *msg;
    va_list ap;

    va_start(ap, fmt);
    msg = message_keep(d, fmt, ap);
    va_end(ap);
    diags_file_of(d, s);
    if (item_is_known(d->warnings, d->warning_count, line, pos.col, msg))
        return;
    if (d->warning_count == SPEC_WARNINGS_MAX) {
        d->warning_dropped++;
        return;
    }
    d->warnings[d->warning_count] = diag_make(&l, line, pos.col, msg);
    d->warnings[d->warning_count++].hint = hint ? shown_keep(d, hint) : NULL;
}

void diag_hint(struct load *l, const char *fmt, ...)
{
    struct spec_diags *d = l->diags;
    struct buf b;
    va_list ap;

    if (d->dropped || !d->count || l->told)
        return;
    buf_init(&b, 1024);
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    if (b.len)
        d->items[d->count - 1].hint = shown_keep(d, buf_str(&b));
    buf_release(&b);
}

static bool place_is_told(const struct spec_diags *d, const struct spec_diag *g)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->items[i].file_no == g->file_no && d->items[i].line == g->line &&
            d->items[i].col == g->col)
            return true;
    return false;
}

void diag_take(struct load *l, const struct spec_diag *g, bool warning)
{
    struct spec_diags *d = l->diags;
    int line = line_at(g->file_no, g->line);

    if (!warning && !place_is_told(d, g)) {
        diag_add(l, line, g->col, "%s", g->msg);
        if (g->hint)
            diag_hint(l, "%s", g->hint);
    }
    if (!warning || item_is_known(d->warnings, d->warning_count, line, g->col, g->msg))
        return;
    if (d->warning_count == SPEC_WARNINGS_MAX) {
        d->warning_dropped++;
        return;
    }
    d->warnings[d->warning_count] = diag_make(l, line, g->col, shown_keep(d, g->msg));
    d->warnings[d->warning_count++].hint = g->hint ? shown_keep(d, g->hint) : NULL;
}

/* Stable, for those on one line keep the order in which they were found. */
static void items_sort(struct spec_diag *v, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0; j--) {
            struct spec_diag t = v[j];

            int before = line_at(v[j - 1].file_no, v[j - 1].line), own = line_at(t.file_no, t.line);

            if (before < own || (before == own && v[j - 1].col <= t.col))
                break;
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
}

void spec_diags_sort(struct spec_diags *d)
{
    items_sort(d->items, d->count);
    items_sort(d->warnings, d->warning_count);
}

/* White space as wide as the first col-1 characters of `text`: tabs stay tabs. */
static void caret_indent(const char *text, int col, struct buf *out)
{
    size_t len = strlen(text);

    for (int i = 1; i < col; i++) {
        size_t n, columns = len ? utf8_columns(text, len, &n) : 1;

        if (len && *text == '\t')
            buf_addc(out, '\t');
        else
            buf_fill(out, ' ', columns);
        text += len ? n : 0;
        len -= len ? n : 0;
    }
}

static void diag_print(const struct spec_diag *g, const char *file, bool warning,
                       const struct term *term, struct buf *out)
{
    if (g->line)
        term_text(term, out, COLOUR_BOLD, "%s:%d:%d:", file, g->line, g->col);
    else
        term_text(term, out, COLOUR_BOLD, "%s:", file);
    buf_addc(out, ' ');
    if (warning)
        term_text(term, out, COLOUR_YELLOW, "warning: %s", g->msg);
    else
        term_text(term, out, COLOUR_RED, "%s", g->msg);
    buf_addc(out, '\n');
    if (g->text) {
        buf_addf(out, "%5d | %s\n      | ", g->line, g->text);
        if (g->col <= DIAG_LINE_MAX) {
            caret_indent(g->text, g->col, out);
            term_text(term, out, COLOUR_GREEN, "^");
        } else {
            buf_adds(out, "(further right)");
        }
        buf_addc(out, '\n');
    }
    if (g->hint)
        buf_addf(out, "%s\n", g->hint);
}

void spec_diags_print(const struct spec_diags *d, const struct term *term, struct buf *out)
{
    for (size_t i = 0; i < d->count; i++)
        diag_print(&d->items[i], d->items[i].file, false, term, out);
    if (d->dropped)
        buf_addf(out, "%s: %zu more error%s\n", d->file, d->dropped, d->dropped == 1 ? "" : "s");
}

void spec_warnings_print(const struct spec_diags *d, const struct term *term, struct buf *out)
{
    for (size_t i = 0; i < d->warning_count; i++)
        diag_print(&d->warnings[i], d->warnings[i].file, true, term, out);
    if (d->warning_dropped)
        buf_addf(out, "%s: %zu more warning%s\n", d->file, d->warning_dropped,
                 d->warning_dropped == 1 ? "" : "s");
}

static void items_json(const struct spec_diag *items, size_t count, struct json_out *w)
{
    json_arr(w);
    for (size_t i = 0; i < count; i++) {
        const struct spec_diag *g = &items[i];

        json_obj(w);
        json_kv_str(w, "file", g->file);
        json_kv_maybe(w, "line", g->line ? maybe_of(g->line) : maybe_none());
        json_kv_maybe(w, "column", g->line ? maybe_of(g->col) : maybe_none());
        json_kv_str(w, "message", g->msg);
        json_kv_str(w, "hint", g->hint);
        json_obj_end(w);
    }
    json_arr_end(w);
}

void spec_diags_json(const struct spec_diags *d, struct json_out *w)
{
    items_json(d->items, d->count, w);
}

void spec_warnings_json(const struct spec_diags *d, struct json_out *w)
{
    items_json(d->warnings, d->warning_count, w);
}

/* SPDX-License-Identifier: MIT */
/* yaml: text to a tree in which every value knows its line and column.
 *
 * libfyaml gives the events; the tree, the limits and the messages are ours.  What is
 * refused although YAML has it: several documents, directives, tags, keys that are no
 * plain text, a key given twice, merge keys.  Aliases share the tree of their anchor and count in
 * full against SPEC_NODES_MAX, so that a file of nested aliases cannot grow. */
#include "base/str.h"
#include "base/text/utf8.h"
#include "spec/spec_int.h"

#include <assert.h>
#include <inttypes.h>
#include <libfyaml.h>

enum {
    YAML_ANCHORS_MAX = 256, /* anchors in a file */
    YAML_KEY_SHOWN = 64     /* bytes of a key shown in a message */
};

struct yaml_level {
    struct yaml *node; /* map or list that is open */
    bool flow;         /* written with brackets */
    /* in a map, between key and value */
    bool have_key;
    const char *key;
    int key_line, key_col;
};

struct yaml_reader {
    struct load *l;
    struct arena *a;
    struct yaml *root;
    struct yaml_level levels[SPEC_DEPTH_MAX];
    int depth;
    size_t documents;
    size_t count; /* values so far, aliases in full */
    struct {
        const char *name;
        struct yaml *node;
    } anchors[YAML_ANCHORS_MAX];
    size_t anchor_count;
    size_t pos; /* byte at which line and col below are known */
    int line, col;
};

/* Line and column of a byte.  Events come nearly in order, so this walks on from the
 * last answer and starts again only when it must go back. */
static void mark_place(struct yaml_reader *r, size_t pos, int *out_line, int *out_col)
{
    if (pos > r->l->len)
        pos = r->l->len;
    if (pos < r->pos) {
        size_t start = r->pos;

        while (start > 0 && (start > pos || r->l->text[start - 1] != '\n')) {
            start--;
            if (r->l->text[start] == '\n')
                r->line--;
        }
        r->pos = start;
        r->col = 1;
    }
    for (; r->pos < pos; r->pos++) {
        unsigned char c = (unsigned char)r->l->text[r->pos];

        if (c == '\n') {
            r->line++;
            r->col = 1;
        } else if ((c & 0xc0) != 0x80) {
            r->col++;
        }
    }
    *out_line = line_at(r->l->file, r->line);
    *out_col = r->col;
}

/* Where an event starts; quotes and the star of an alias belong to it. */
static void event_place(struct yaml_reader *r, struct fy_event *e, int *line, int *col)
{
    const struct fy_mark *m = fy_event_start_mark(e);
    struct fy_token *t = fy_event_get_token(e);
    size_t pos;

    if (!m) { /* an empty value has no place of its own: its key's, or its list's */
        const struct yaml_level *v = r->depth ? &r->levels[r->depth - 1] : NULL;

        *line = !v ? line_at(r->l->file, 1) : v->have_key ? v->key_line : v->node->line;
        *col = !v ? 1 : v->have_key ? v->key_col : v->node->col;
        return;
    }
    pos = m->input_pos;
    if (pos > 0 && e->type == FYET_SCALAR && t &&
        (fy_token_scalar_style(t) == FYSS_SINGLE_QUOTED ||
         fy_token_scalar_style(t) == FYSS_DOUBLE_QUOTED))
        pos--;
    if (pos > 0 && e->type == FYET_ALIAS)
        pos--;
    mark_place(r, pos, line, col);
}

/* Where the map or list on top stands: nodes[0].gpu */
static void level_path(const struct yaml_reader *r, struct buf *out)
{
    for (int i = 1; i < r->depth; i++) {
        const struct yaml *parent = r->levels[i - 1].node, *y = r->levels[i].node;

        if (parent->type == YAML_MAP)
            buf_addf(out, "%s%.*s", out->len ? "." : "", YAML_KEY_SHOWN, y->key);
        else
            buf_addf(out, "[%zu]", parent->count - 1);
    }
}

static int key_order(const void *a, const void *b)
{
    const struct yaml *x = *(const struct yaml *const *)a, *y = *(const struct yaml *const *)b;
    int c = strcmp(x->key, y->key);

    if (c)
        return c;
    return x->key_line != y->key_line ? x->key_line - y->key_line : x->key_col - y->key_col;
}

static void report_twice(struct yaml_reader *r, const struct yaml *y, int first_line)
{
    struct buf path;

    buf_init(&path, 512);
    level_path(r, &path);
    diag_add(r->l, y->key_line, y->key_col, "key '%.*s' is given twice%s%s%s", YAML_KEY_SHOWN,
             y->key, path.len ? " in '" : "", buf_str(&path), path.len ? "'" : "");
    diag_hint(r->l, "It is first given on line %d.", line_number(first_line));
    buf_release(&path);
}

/* Looks once a map is complete, sorted, so that a map of many keys stays cheap. */
static void keys_check(struct yaml_reader *r, const struct yaml *map)
{
    const struct yaml **keys;
    size_t n = 0;

    if (map->count < 2)
        return;
    keys = arena_array(r->a, const struct yaml *, map->count);
    for (const struct yaml *y = map->first; y; y = y->next)
        keys[n++] = y;
    assert(n == map->count);
    qsort(keys, n, sizeof(void *), key_order);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (strcmp(keys[i]->key, keys[first]->key) != 0)
            first = i;
        else
            report_twice(r, keys[i], keys[first]->key_line);
    }
}

/* Adds a finished or just opened node to where it belongs. */
static bool attach_node(struct yaml_reader *r, struct yaml *y)
{
    struct yaml_level *v = r->depth ? &r->levels[r->depth - 1] : NULL;

    if (!v) {
        r->root = y;
        return true;
    }
    if (v->node->count == SPEC_LIST_MAX) {
        diag_add(r->l, y->line, y->col, "more than %d items in one list or map", SPEC_LIST_MAX);
        return false;
    }
    if (v->node->type == YAML_MAP) {
        y->key = v->key;
        y->key_line = v->key_line;
        y->key_col = v->key_col;
        v->have_key = false;
    }
    if (v->node->last)
        v->node->last->next = y;
    else
        v->node->first = y;
    v->node->last = y;
    v->node->count++;
    return true;
}

static bool count_nodes(struct yaml_reader *r, size_t more, int line, int col)
{
    r->count += more;
    if (r->count <= SPEC_NODES_MAX)
        return true;
    diag_add(r->l, line, col, "more than %d values in one file", SPEC_NODES_MAX);
    diag_hint(r->l, "An alias (*name) counts as often as it is used.");
    return false;
}

static bool anchor_add(struct yaml_reader *r, struct fy_event *e, struct yaml *y)
{
    struct fy_token *t = fy_event_get_anchor_token(e);
    const char *name;
    size_t len = 0;

    if (!t)
        return true;
    if (r->anchor_count == YAML_ANCHORS_MAX) {
        diag_add(r->l, y->line, y->col, "more than %d anchors in one file", YAML_ANCHORS_MAX);
        return false;
    }
    name = fy_token_get_text(t, &len);
    r->anchors[r->anchor_count].name = arena_strndup(r->a, name ? name : "", name ? len : 0);
    r->anchors[r->anchor_count++].node = y;
    return true;
}

/* A scalar or alias in key position. */
static bool take_key(struct yaml_reader *r, struct fy_event *e, int line, int col)
{
    struct yaml_level *v = &r->levels[r->depth - 1];
    const char *text;
    size_t len = 0;

    if (e->type != FYET_SCALAR) {
        diag_add(r->l, line, col, "a key must be plain text");
        return false;
    }
    text = fy_token_get_text(fy_event_get_token(e), &len);
    if (!text || !len) {
        diag_add(r->l, line, col, "a key is empty");
        return false;
    }
    if (!str_is_text(text, len) || memchr(text, '\n', len) || len > SPEC_TEXT_MAX) {
        diag_add(r->l, line, col, "a key holds control characters or is too long");
        return false;
    }
    if (len == 2 && !memcmp(text, "<<", 2)) {
        diag_add(r->l, line, col, "merge keys ('<<') are not part of YAML 1.2");
        diag_hint(r->l, "Use an alias for a whole value: gpu: *h200.");
        return false;
    }
    v->key = arena_strndup(r->a, text, len);
    v->key_line = line;
    v->key_col = col;
    v->have_key = true;
    return true;
}

static bool on_scalar(struct yaml_reader *r, struct fy_event *e, int line, int col)
{
    struct fy_token *t = fy_event_get_token(e);
    struct yaml *y = arena_new(r->a, struct yaml);
    const char *text = "";
    size_t len = 0;

    y->line = line;
    y->col = col;
    y->weight = 1;
    if (t)
        text = fy_token_get_text(t, &len);
    if (!text || len > SPEC_TEXT_MAX) {
        diag_add(r->l, line, col, "text of more than %d bytes", SPEC_TEXT_MAX);
        return false;
    }
    if (!str_is_text(text, len)) {
        diag_add(r->l, line, col, "text with control characters");
        return false;
    }
    y->plain = !t || fy_token_scalar_style(t) == FYSS_PLAIN;
    y->text = arena_strndup(r->a, text, len);
    y->type = YAML_SCALAR;
    if (y->plain && (!len || !strcmp(y->text, "~") || !strcmp(y->text, "null")))
        y->type = YAML_NULL;
    return anchor_add(r, e, y) && attach_node(r, y);
}

static bool on_open(struct yaml_reader *r, struct fy_event *e, int line, int col)
{
    struct yaml *y;
    bool flow;

    if (r->depth == SPEC_DEPTH_MAX) {
        diag_add(r->l, line, col, "nested more than %d levels deep", SPEC_DEPTH_MAX);
        return false;
    }
    y = arena_new(r->a, struct yaml);
    y->type = e->type == FYET_MAPPING_START ? YAML_MAP : YAML_SEQ;
    y->line = line;
    y->col = col;
    y->open = true;
    y->weight = 1;
    if (!anchor_add(r, e, y) || !attach_node(r, y))
        return false;
    flow = fy_event_get_node_style(e) == FYNS_FLOW;
    r->levels[r->depth++] = (struct yaml_level){ .node = y, .flow = flow };
    return true;
}

static void on_close(struct yaml_reader *r)
{
    struct yaml *y;

    assert(r->depth > 0);
    y = r->levels[r->depth - 1].node;
    if (y->type == YAML_MAP)
        keys_check(r, y);
    r->depth--;
    y->open = false;
    for (const struct yaml *c = y->first; c; c = c->next) {
        y->weight += c->weight;
        if (c->height + 1 > y->height)
            y->height = c->height + 1;
    }
}

static bool on_alias(struct yaml_reader *r, struct fy_event *e, int line, int col)
{
    const char *text = fy_token_get_text0(fy_event_get_token(e));
    const struct yaml *to = NULL;
    struct yaml *y;

    for (size_t i = r->anchor_count; text && i > 0 && !to; i--)
        if (!strcmp(r->anchors[i - 1].name, text))
            to = r->anchors[i - 1].node;
    if (!to || to->open) {
        diag_add(r->l, line, col,
                 to ? "alias '*%.*s' is inside its own anchor"
                    : "alias '*%.*s' has no anchor before it",
                 YAML_KEY_SHOWN, text ? text : "");
        return false;
    }
    if (!count_nodes(r, to->weight, line, col))
        return false;
    if (r->depth + to->height > SPEC_DEPTH_MAX) {
        diag_add(r->l, line, col, "nested more than %d levels deep", SPEC_DEPTH_MAX);
        return false;
    }
    y = arena_memdup(r->a, to, sizeof(*to)); /* children are shared, they never change */
    y->next = NULL;
    y->key = NULL;
    y->line = line;
    y->col = col;
    return attach_node(r, y);
}

static bool on_node(struct yaml_reader *r, struct fy_event *e)
{
    struct yaml_level *v = r->depth ? &r->levels[r->depth - 1] : NULL;
    int line, col;

    event_place(r, e, &line, &col);
    if (fy_event_get_tag_token(e)) {
        const struct fy_mark *m = fy_token_start_mark(fy_event_get_tag_token(e));

        if (m)
            mark_place(r, m->input_pos, &line, &col);
        diag_add(r->l, line, col, "tags ('!name') have no meaning in a spec");
        return false;
    }
    if (v && v->node->type == YAML_MAP && !v->have_key)
        return take_key(r, e, line, col);
    if (!count_nodes(r, 1, line, col))
        return false;
    switch (e->type) {
    case FYET_SCALAR:
        return on_scalar(r, e, line, col);
    case FYET_ALIAS:
        return on_alias(r, e, line, col);
    default:
        return on_open(r, e, line, col);
    }
}

static bool on_event(struct yaml_reader *r, struct fy_event *e)
{
    int line = line_at(r->l->file, 1), col = 1;

    switch (e->type) {
    case FYET_DOCUMENT_START:
        if (++r->documents == 1)
            return true;
        if (fy_event_start_mark(e))
            event_place(r, e, &line, &col);
        diag_add(r->l, line, col, "a second document starts here");
        diag_hint(r->l, "A spec is one document: split the file at the '---' lines.");
        return false;
    case FYET_SCALAR:
    case FYET_ALIAS:
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        return on_node(r, e);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        on_close(r);
        return true;
    default:
        return true;
    }
}

/* What the library says, in words that help somebody who wrote the file. */
static const struct {
    const char *lib, *msg, *hint;
} syntax_words[] = {
    { "invalid multiline plain key", "a key is missing its value, or a line is indented wrongly",
      "Keys of one map start in the same column." },
    { "could not find expected ':'", "this line is neither 'key: value' nor '- item'",
      "Put a ':' and a space behind the key." },
    { "invalid indentation", "this line is indented wrongly",
      "Keys of one map start in the same column." },
    { "wrongly indented", "a quote that opens here is never closed",
      "Close it on the same line, or write the text without quotes." },
    { "-quoted scalar", "a quote that opens here is never closed",
      "Close it on the same line, or write the text without quotes." },
    { "invalid nested block mapping", "a second ':' on one line",
      "Put quotes around a value that holds ': '." },
    { "plain scalar cannot start with", NULL, "Put quotes around the value." },
    { "missing comma", "a ',' or a closing bracket is missing", NULL },
};

/* The first line from `line` on, two at most, that is indented with a tab; 0: none. */
static int tab_line(const struct load *l, int line, int *out_col)
{
    const char *p = l->text, *end = l->text + l->len;

    for (int i = 1; p && p < end && i <= line + 1; i++) {
        const char *q = p;

        while (q < end && *q == ' ')
            q++;
        if (i >= line && q < end && *q == '\t') {
            *out_col = (int)(q - p) + 1;
            return i;
        }
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    return 0;
}

static void syntax_error(struct yaml_reader *r, const struct fy_diag_error *e)
{
    int line = e && e->line > 0 ? e->line : 1, col = e && e->column > 0 ? e->column : 1;
    const char *lib = e && e->msg ? e->msg : "this is not YAML";
    const struct yaml_level *v = r->depth ? &r->levels[r->depth - 1] : NULL;
    int tab_col = 0, tab = tab_line(r->l, line, &tab_col);

    line = line_at(r->l->file, line);
    if (tab) {
        diag_add(r->l, line_at(r->l->file, tab), tab_col, "a tab is used to indent");
        diag_hint(r->l, "YAML is indented with spaces alone.");
        return;
    }
    if (strstr(lib, "without a closing") || (v && v->flow && strstr(lib, "missing comma"))) {
        for (int i = r->depth; i > 0 && r->levels[i - 1].flow; i--)
            v = &r->levels[i - 1]; /* the outermost bracket that is open */
        if (v && v->flow) {
            diag_add(r->l, v->node->line, v->node->col,
                     "a bracket that opens here is never closed");
            return;
        }
    }
    if (strstr(lib, "without closing quote") && col > 1)
        col--; /* it counts from behind the quote */
    for (size_t i = 0; i < ARRAY_SIZE(syntax_words); i++)
        if (strstr(lib, syntax_words[i].lib)) {
            diag_add(r->l, line, col, "%s", syntax_words[i].msg ? syntax_words[i].msg : lib);
            if (syntax_words[i].hint)
                diag_hint(r->l, "%s", syntax_words[i].hint);
            return;
        }
    diag_add(r->l, line, col, "%s", lib);
}

/* The first byte that is no text, or `len`.  A carriage return may end a line only. */
static size_t text_end(const char *s, size_t len)
{
    size_t n = 1;

    for (size_t i = 0; i < len; i += n) {
        n = 1;
        if (s[i] == '\r' && i + 1 < len && s[i + 1] == '\n')
            continue;
        while (n < 4 && i + n < len && ((unsigned char)s[i + n] & 0xc0) == 0x80)
            n++;
        if (!str_is_text(s + i, n))
            return i;
    }
    return len;
}

static bool check_text(struct yaml_reader *r)
{
    size_t bad;
    uint32_t c;
    int line, col;

    if (r->l->bytes > SPEC_INCLUDE_BYTES_MAX) {
        diag_add(r->l, line_at(r->l->file, 0), 0, "all files together are larger than %d bytes",
                 SPEC_INCLUDE_BYTES_MAX);
        return false;
    }
    if (r->l->len > SPEC_FILE_MAX) {
        diag_add(r->l, line_at(r->l->file, 0), 0, "the file is larger than %d bytes",
                 SPEC_FILE_MAX);
        return false;
    }
    bad = text_end(r->l->text, r->l->len);
    if (bad >= r->l->len)
        return true;
    mark_place(r, bad, &line, &col);
    if (utf8_decode(r->l->text + bad, r->l->len - bad, &c)) {
        diag_add(r->l, line, col, "U+%04" PRIX32 " is a control character", c);
        diag_hint(r->l, "Remove it: a spec is text, with tabs and line ends only.");
    } else {
        diag_add(r->l, line, col, "byte 0x%02x is not UTF-8 text", (unsigned char)r->l->text[bad]);
        diag_hint(r->l, "Save the file as UTF-8.");
    }
    return false;
}

/* A '%' in the first column is a directive, which a spec needs none of; the library
 * takes minutes over a megabyte of them. */
static bool check_directives(struct yaml_reader *r)
{
    const char *text = r->l->text, *end = text + r->l->len;
    int line, col;

    for (const char *p = text; p && p < end; p = p ? p + 1 : NULL) {
        if (*p == '%') {
            mark_place(r, (size_t)(p - text), &line, &col);
            diag_add(r->l, line, col, "directives (lines that start with '%%') are not read");
            diag_hint(r->l, "Remove the line: a spec is YAML 1.2.");
            return false;
        }
        p = memchr(p, '\n', (size_t)(end - p));
    }
    return true;
}

static void drop_message(struct fy_diag *d, void *user, const char *buf, size_t len)
{
    (void)d, (void)user, (void)buf, (void)len;
}

static bool read_events(struct yaml_reader *r, struct fy_parser *p, struct fy_diag *diag)
{
    struct fy_event *e;
    void *iter = NULL;
    bool ok = true;

    while (ok && (e = fy_parser_parse(p))) {
        ok = on_event(r, e);
        fy_parser_event_free(p, e);
    }
    if (ok && fy_parser_get_stream_error(p)) {
        syntax_error(r, fy_diag_errors_iterate(diag, &iter));
        ok = false;
    }
    return ok;
}

struct yaml *yaml_read(struct load *l, struct arena *a)
{
    struct yaml_reader *r = arena_new(a, struct yaml_reader);
    struct fy_diag_cfg dcfg;
    struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG |
                                         FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE |
                                         FYPCF_DISABLE_MMAP_OPT };
    struct fy_parser *p = NULL;
    bool ok = false;

    *r = (struct yaml_reader){ .l = l, .a = a, .count = l->values, .line = 1, .col = 1 };
    if (!check_text(r) || !check_directives(r))
        return NULL;
    fy_diag_cfg_default(&dcfg);
    dcfg.fp = NULL;
    dcfg.output_fn = drop_message;
    dcfg.colorize = false;
    cfg.diag = fy_diag_create(&dcfg);
    if (cfg.diag) {
        fy_diag_set_collect_errors(cfg.diag, true);
        p = fy_parser_create(&cfg);
    }
    if (p && fy_parser_set_string(p, l->text, l->len) == 0)
        ok = read_events(r, p, cfg.diag);
    else
        diag_add(l, 0, 0, "the YAML reader could not be started");
    fy_parser_destroy(p);
    fy_diag_destroy(cfg.diag);
    l->values = r->count;
    if (ok && (!r->root || r->root->type == YAML_NULL)) {
        diag_add(l, line_at(l->file, 1), 1, "the file is empty");
        diag_hint(l, "`stoker spec example` lists specs to start from.");
        ok = false;
    }
    return ok ? r->root : NULL;
}
